/*
 * Connections to PostgreSQL: bounded waiting, and one honest answer to "did it
 * happen?".
 *
 * libpq is used without blocking: every wait is a poll() with a deadline, so a
 * server that hangs costs a request its time and no more.  There is no
 * PQcancel(): it blocks on a server that does not answer, and the server's own
 * statement_timeout ends what we gave up on.
 */

#include "db_conn.h"

#include "log.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_PREPARED 32
#define MAX_HOSTS 8
/* The client waits this much longer than the server, whose answer "canceled"
 * is worth more than our giving up. */
#define GRACE_MS 250
#define SCRIPT_LIMIT_MS (10 * 60 * 1000)
/* How long after an answer a connection is taken to be one still.  A write
 * that is lost leaves doubt, a read is just sent again. */
#define FRESH_FOR_WRITE_MS 20
#define FRESH_FOR_READ_MS 1000
/* How long the difference between the server's clock and ours is trusted. */
#define CLOCK_TRUSTED_MS 10000

struct db_conn {
    PGconn *pg; /* NULL: not connected */
    const struct db_statement *prepared[MAX_PREPARED];
    size_t prepared_count;
    int64_t answered_ms; /* of the last answer; 0: none yet */
    /* The server's clock minus db_now_ms(), and when that was found out. */
    int64_t clock_ahead_us, clock_read_ms; /* 0: not yet */
    unsigned char fence[8];                /* of the statement in hand */
};

struct db_script {
    struct db_conn *conn;
};

/* -- time -- */

int64_t db_now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Waits for events on pg's socket; false when the deadline came first. */
static bool wait_for(PGconn *pg, short events, int64_t deadline_ms)
{
    struct pollfd p = {PQsocket(pg), events, 0};

    for (;;) {
        int64_t left = deadline_ms - db_now_ms();
        int n;

        if (left <= 0 || p.fd < 0) {
            return false;
        }
        n = poll(&p, 1, left < 60000 ? (int) left : 60000);
        if (n > 0) {
            return true;
        }
        /* 0 and EINTR: look at the clock again. */
    }
}

/* -- connecting -- */

/* What the server says beside results is for its own log. */
static void ignore_notice(void *arg, const char *message)
{
    (void) arg;
    (void) message;
}

struct db_conn *db_conn_new(void)
{
    return calloc(1, sizeof(struct db_conn));
}

void db_conn_free(struct db_conn *c)
{
    if (c != NULL) {
        db_conn_disconnect(c);
        free(c);
    }
}

void db_conn_disconnect(struct db_conn *c)
{
    PQfinish(c->pg);
    c->pg = NULL;
    c->prepared_count = 0;
    c->answered_ms = 0;
    c->clock_read_ms = 0;
}

/* The nth of a comma-separated list, or its only one, in out. */
static bool list_item(const char *list, size_t n, char *out, size_t cap)
{
    const char *end;

    if (list == NULL) {
        out[0] = '\0';
        return n == 0;
    }
    if (strchr(list, ',') == NULL) {
        n = 0;
    }
    for (; n > 0; n--) {
        list = strchr(list, ',');
        if (list == NULL) {
            return false;
        }
        list++;
    }
    end = strchr(list, ',');
    snprintf(out, cap, "%.*s",
             (int) (end != NULL ? (size_t) (end - list) : strlen(list)), list);
    return true;
}

static size_t host_count(const struct config *cfg)
{
    size_t n = 1;

    for (const char *p = cfg->db_host; p != NULL && *p != '\0'; p++) {
        n += *p == ',';
    }
    return n < MAX_HOSTS ? n : MAX_HOSTS;
}

/* Begins connecting to the nth host; NULL when memory is short. */
static PGconn *start(const struct config *cfg, size_t n)
{
    char host[256], port[16];
    const char *names[] = {"host",
                           "port",
                           "dbname",
                           "user",
                           "password",
                           "sslmode",
                           "application_name",
                           "client_encoding",
                           "target_session_attrs",
                           "tcp_user_timeout",
                           NULL};
    const char *values[] = {host,
                            port,
                            cfg->db_name,
                            cfg->db_user,
                            cfg->db_password,
                            cfg->db_sslmode,
                            cfg->app_name,
                            "UTF8",
                            "read-write",
                            "10000",
                            NULL};

    if (!list_item(cfg->db_host, n, host, sizeof(host)) ||
        !list_item(cfg->db_port, n, port, sizeof(port))) {
        port[0] = '\0';
    }
    return PQconnectStartParams(names, values, 0);
}

static bool finish_connecting(PGconn *pg, int64_t deadline_ms)
{
    short events = POLLOUT;

    for (;;) {
        if (!wait_for(pg, events, deadline_ms)) {
            return false;
        }
        switch (PQconnectPoll(pg)) {
        case PGRES_POLLING_OK:
            return true;
        case PGRES_POLLING_READING:
            events = POLLIN;
            break;
        case PGRES_POLLING_WRITING:
            events = POLLOUT;
            break;
        default:
            return false;
        }
    }
}

static enum db_outcome collect(PGconn *pg, int64_t deadline_ms,
                               PGresult **out);

/* Left out where a pooler may hand the server on to somebody else. */
static bool set_statement_timeout(PGconn *pg, const struct config *cfg,
                                  int64_t deadline_ms)
{
    char sql[64];
    PGresult *res = NULL;
    bool ok;

    if (!cfg->db_prepared) {
        return true;
    }
    snprintf(sql, sizeof(sql), "SET statement_timeout = %lld",
             (long long) cfg->db_statement_timeout_ms);
    ok = PQsendQuery(pg, sql) && collect(pg, deadline_ms, &res) == DB_DONE;
    PQclear(res);
    return ok;
}

/* Copies the first line of libpq's message. */
static void first_line(const char *message, char *out, size_t cap)
{
    snprintf(out, cap, "%.*s", (int) strcspn(message, "\n"), message);
}

/* Connects to one host; false with one line in err. */
static bool connect_one(struct db_conn *c, const struct config *cfg, size_t n,
                        bool with_timeout, int64_t deadline_ms, char *err,
                        size_t err_cap)
{
    PGconn *pg = start(cfg, n);

    if (pg != NULL && PQstatus(pg) != CONNECTION_BAD &&
        finish_connecting(pg, deadline_ms)) {
        PQsetNoticeProcessor(pg, ignore_notice, NULL);
        if (PQsetnonblocking(pg, 1) == 0 &&
            (!with_timeout || set_statement_timeout(pg, cfg, deadline_ms))) {
            c->pg = pg;
            c->prepared_count = 0;
            return true;
        }
    }
    if (pg != NULL && PQerrorMessage(pg)[0] != '\0') {
        first_line(PQerrorMessage(pg), err, err_cap);
    } else {
        snprintf(err, err_cap, "no answer from the database in time");
    }
    PQfinish(pg);
    return false;
}

/* Each host gets an equal part of what is left of the time. */
static bool connect_any(struct db_conn *c, const struct config *cfg,
                        size_t *host, bool with_timeout, int64_t deadline_ms,
                        char *err, size_t err_cap)
{
    size_t hosts = host_count(cfg);

    snprintf(err, err_cap, "no time left to connect");
    for (size_t i = 0; i < hosts; i++) {
        size_t n = (*host + i) % hosts;
        int64_t now = db_now_ms();
        int64_t part = (deadline_ms - now) / (int64_t) (hosts - i);

        if (part > 0 &&
            connect_one(c, cfg, n, with_timeout, now + part, err, err_cap)) {
            *host = n;
            return true;
        }
    }
    return false;
}

bool db_conn_connect(struct db_conn *c, const struct config *cfg, size_t *host,
                     int64_t deadline_ms, char *err, size_t err_cap)
{
    db_conn_disconnect(c);
    return connect_any(c, cfg, host, true, deadline_ms, err, err_cap);
}

/* -- one statement on one connection -- */

static enum db_outcome judge(const PGresult *res)
{
    static const char *const transient[] = {
        "08",    /* connection exception */
        "25006", /* read-only: a standby now */
        "26000", /* the prepared statement is gone */
        "0A000", /* its plan's columns have changed */
        "40",    /* deadlock or serialisation failure */
        "53300", /* too many connections */
        "57P",   /* shutting down */
    };
    const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);

    for (size_t i = 0;
         state != NULL && i < sizeof(transient) / sizeof(transient[0]); i++) {
        if (strncmp(state, transient[i], strlen(transient[i])) == 0) {
            return DB_RETRY;
        }
    }
    return DB_REFUSED;
}

static bool flush(PGconn *pg, int64_t deadline_ms)
{
    for (;;) {
        int n = PQflush(pg);

        if (n <= 0) {
            return n == 0;
        }
        if (!wait_for(pg, POLLIN | POLLOUT, deadline_ms) ||
            !PQconsumeInput(pg)) {
            return false;
        }
    }
}

/*
 * Reads results until the server is ready for the next statement.  The commit
 * happens after the statement's own result was sent and may still fail, so
 * only that "ready" makes it DONE.
 */
static enum db_outcome collect(PGconn *pg, int64_t deadline_ms, PGresult **out)
{
    enum db_outcome outcome = DB_DONE;

    if (!flush(pg, deadline_ms)) {
        return DB_LOST;
    }
    for (;;) {
        PGresult *res;

        while (PQisBusy(pg)) {
            if (!wait_for(pg, POLLIN, deadline_ms) || !PQconsumeInput(pg)) {
                return DB_LOST;
            }
        }
        res = PQgetResult(pg);
        if (res == NULL) {
            return PQstatus(pg) == CONNECTION_OK ? outcome : DB_LOST;
        }
        if (PQresultStatus(res) != PGRES_TUPLES_OK &&
            PQresultStatus(res) != PGRES_COMMAND_OK) {
            outcome = judge(res);
        }
        PQclear(*out);
        *out = res;
        if (outcome != DB_DONE && PQstatus(pg) != CONNECTION_OK) {
            return DB_LOST;
        }
    }
}

/* Likewise, after doing what there is to do meanwhile: the answer may then be
 * there, and there is no need to ask for it. */
static enum db_outcome collect_meanwhile(PGconn *pg, int64_t deadline_ms,
                                         struct meanwhile *meanwhile,
                                         PGresult **out)
{
    if (!flush(pg, deadline_ms) ||
        (meanwhile_run(meanwhile) && !PQconsumeInput(pg))) {
        return DB_LOST;
    }
    return collect(pg, deadline_ms, out);
}

static const Oid oids[] = {
    [DB_UUID] = 2950,  [DB_TEXT] = 25,          [DB_INT8] = 20,
    [DB_BOOL] = 16,    [DB_BYTEA] = 17,         [DB_INET] = 869,
    [DB_UUIDS] = 2951, [DB_TIMESTAMPTZ] = 1184, [DB_FENCE] = 1184,
};

static bool is_prepared(const struct db_conn *c, const struct db_statement *st)
{
    for (size_t i = 0; i < c->prepared_count; i++) {
        if (c->prepared[i] == st) {
            return true;
        }
    }
    return false;
}

static enum db_outcome prepare(struct db_conn *c,
                               const struct db_statement *st,
                               const struct db_params *params,
                               int64_t deadline_ms, PGresult **res)
{
    Oid types[DB_MAX_PARAMS];
    enum db_outcome outcome;

    if (is_prepared(c, st)) {
        return DB_DONE;
    }
    for (size_t i = 0; i < params->count; i++) {
        types[i] = oids[params->types[i]];
    }
    if (c->prepared_count == MAX_PREPARED ||
        !PQsendPrepare(c->pg, st->name, st->sql, (int) params->count, types)) {
        return DB_LOST;
    }
    outcome = collect(c->pg, deadline_ms, res);
    if (outcome == DB_DONE) {
        c->prepared[c->prepared_count++] = st;
    }
    return outcome;
}

static bool send_statement(struct db_conn *c, const struct db_statement *st,
                           const struct db_params *params, bool prepared)
{
    Oid types[DB_MAX_PARAMS];
    const char *values[DB_MAX_PARAMS];
    int formats[DB_MAX_PARAMS];
    int n = (int) params->count;

    for (size_t i = 0; i < params->count; i++) {
        types[i] = oids[params->types[i]];
        values[i] = params->types[i] == DB_FENCE ? (const char *) c->fence
                                                 : params->values[i];
        formats[i] = params->types[i] != DB_INET;
    }
    if (prepared) {
        return PQsendQueryPrepared(c->pg, st->name, n, values, params->lengths,
                                   formats, 1) == 1;
    }
    return PQsendQueryParams(c->pg, st->sql, n, types, values, params->lengths,
                             formats, 1) == 1;
}

/*
 * Asks for the server's clock, now and then.  It was read before its answer
 * came, so a fence errs by that little to the early side, which is the safe
 * one.
 */
static enum db_outcome read_clock(struct db_conn *c, int64_t deadline_ms,
                                  PGresult **res)
{
    enum db_outcome outcome;
    int64_t now = db_now_ms();

    if (c->clock_read_ms != 0 && now - c->clock_read_ms < CLOCK_TRUSTED_MS) {
        return DB_DONE;
    }
    if (!PQsendQueryParams(c->pg, "SELECT clock_timestamp()", 0, NULL, NULL,
                           NULL, NULL, 1)) {
        return DB_LOST;
    }
    outcome = collect(c->pg, deadline_ms, res);
    if (outcome == DB_DONE) {
        c->clock_read_ms = db_now_ms();
        c->clock_ahead_us = db_time_us((struct db_rows *) *res, 0, 0) -
                            c->clock_read_ms * 1000;
    }
    return outcome;
}

/* Sets up the statement's fence, where it has one. */
static enum db_outcome set_fence(struct db_conn *c,
                                 const struct db_params *params,
                                 int64_t deadline_ms, PGresult **res)
{
    enum db_outcome outcome;

    for (size_t i = 0; i < params->count; i++) {
        if (params->types[i] == DB_FENCE) {
            outcome = read_clock(c, deadline_ms, res);
            db_fence_bytes(c->clock_ahead_us + deadline_ms * 1000, c->fence);
            return outcome;
        }
    }
    return DB_DONE;
}

/*
 * Whether an idle connection still is one.  A server that went away has
 * usually said so or closed: reading that here, before a write is sent, is
 * what keeps "answer lost" rare.
 */
bool db_conn_is_alive(struct db_conn *c, bool before_write)
{
    int64_t fresh_ms = before_write ? FRESH_FOR_WRITE_MS : FRESH_FOR_READ_MS;

    if (c->pg == NULL) {
        return false;
    }
    if (db_now_ms() - c->answered_ms < fresh_ms) {
        return true;
    }
    for (int i = 0; i < 4; i++) {
        struct pollfd p = {PQsocket(c->pg), POLLIN, 0};

        if (poll(&p, 1, 0) == 0) {
            return true;
        }
        if (!PQconsumeInput(c->pg) || PQstatus(c->pg) != CONNECTION_OK) {
            return false;
        }
    }
    return false;
}

static void log_refusal(const struct db_statement *st, PGconn *pg,
                        const PGresult *res)
{
    const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);

    if (text == NULL) {
        text = res == NULL ? "no answer in time" : PQerrorMessage(pg);
    }
    log_line(LOG_ERROR_, "db.error", "%s: %s %.*s", st->name,
             state != NULL ? state : "-", (int) strcspn(text, "\n"), text);
}

enum db_outcome db_conn_try(struct db_conn *c, const struct config *cfg,
                            const struct db_statement *st,
                            const struct db_params *params,
                            int64_t deadline_ms, struct meanwhile *meanwhile,
                            struct db_rows **rows, bool *sent)
{
    enum db_outcome outcome = DB_DONE;
    PGresult *res = NULL;

    deadline_ms = earlier(
        deadline_ms, db_now_ms() + cfg->db_statement_timeout_ms + GRACE_MS);
    *sent = false;
    *rows = NULL;
    if (cfg->db_prepared) {
        outcome = prepare(c, st, params, deadline_ms, &res);
    }
    if (outcome == DB_DONE) {
        outcome = set_fence(c, params, deadline_ms, &res);
    }
    if (outcome == DB_DONE) {
        PQclear(res);
        res = NULL;
        *sent = true;
        outcome = send_statement(c, st, params, cfg->db_prepared)
                      ? collect_meanwhile(c->pg, deadline_ms, meanwhile, &res)
                      : DB_LOST;
    }
    if (outcome == DB_DONE) {
        c->answered_ms = db_now_ms();
        *rows = (struct db_rows *) res;
        return outcome;
    }
    log_refusal(st, c->pg, res);
    PQclear(res);
    /* A connection that has not answered, or not as it should, is not used
     * again; a plain refusal leaves it as it was. */
    if (outcome != DB_REFUSED) {
        db_conn_disconnect(c);
    }
    return outcome;
}

/* -- results -- */

static const PGresult *result(const struct db_rows *rows)
{
    return (const PGresult *) rows;
}

size_t db_row_count(const struct db_rows *rows)
{
    return (size_t) PQntuples(result(rows));
}

size_t db_affected(const struct db_rows *rows)
{
    /* libpq's signature lacks a const. */
    const char *n = PQcmdTuples((PGresult *) rows);

    return (size_t) strtoul(n, NULL, 10);
}

static const unsigned char *bytes_at(const struct db_rows *rows, size_t row,
                                     int col, size_t *len)
{
    *len = (size_t) PQgetlength(result(rows), (int) row, col);
    return (const unsigned char *) PQgetvalue(result(rows), (int) row, col);
}

bool db_is_null(const struct db_rows *rows, size_t row, int col)
{
    return PQgetisnull(result(rows), (int) row, col) != 0;
}

void db_uuid(const struct db_rows *rows, size_t row, int col, char out[37])
{
    size_t len;
    const unsigned char *bytes = bytes_at(rows, row, col, &len);

    if (len == 16) {
        db_uuid_text(bytes, out);
    } else {
        out[0] = '\0';
    }
}

int64_t db_int64(const struct db_rows *rows, size_t row, int col)
{
    size_t len;
    const unsigned char *bytes = bytes_at(rows, row, col, &len);
    uint64_t v = 0;

    for (size_t i = 0; len == 8 && i < 8; i++) {
        v = v << 8 | bytes[i];
    }
    return (int64_t) v;
}

int64_t db_time_us(const struct db_rows *rows, size_t row, int col)
{
    return db_int64(rows, row, col) + DB_EPOCH_US;
}

bool db_bool(const struct db_rows *rows, size_t row, int col)
{
    size_t len;
    const unsigned char *bytes = bytes_at(rows, row, col, &len);

    return len == 1 && bytes[0] != 0;
}

const char *db_text(const struct db_rows *rows, size_t row, int col,
                    size_t *len)
{
    size_t n;
    const unsigned char *bytes = bytes_at(rows, row, col, &n);

    if (len != NULL) {
        *len = n;
    }
    return (const char *) bytes;
}

void db_array_open(const struct db_rows *rows, size_t row, int col,
                   struct db_array *array)
{
    size_t len;
    const unsigned char *bytes = bytes_at(rows, row, col, &len);

    db_array_bind(array, bytes, len);
}

void db_rows_free(struct db_rows *rows)
{
    PQclear((PGresult *) rows);
}

/* -- scripts -- */

struct db_script *db_script_open(const struct config *cfg, char *err,
                                 size_t err_cap)
{
    struct db_script *s = calloc(1, sizeof(*s));
    size_t host = 0;

    if (s != NULL) {
        s->conn = db_conn_new();
    }
    if (s == NULL || s->conn == NULL) {
        snprintf(err, err_cap, "out of memory");
        db_script_close(s);
        return NULL;
    }
    if (!connect_any(s->conn, cfg, &host, false,
                     db_now_ms() + cfg->db_connect_timeout_ms, err, err_cap)) {
        db_script_close(s);
        return NULL;
    }
    return s;
}

bool db_script_run(struct db_script *s, const char *sql, char *value,
                   size_t value_cap, char *err, size_t err_cap)
{
    PGconn *pg = s->conn->pg;
    PGresult *res = NULL;
    enum db_outcome outcome = DB_LOST;

    if (PQsendQuery(pg, sql)) {
        outcome = collect(pg, db_now_ms() + SCRIPT_LIMIT_MS, &res);
    }
    if (outcome != DB_DONE) {
        first_line(res != NULL ? PQresultErrorMessage(res)
                               : PQerrorMessage(pg),
                   err, err_cap);
    } else if (value != NULL) {
        snprintf(value, value_cap, "%s",
                 PQntuples(res) > 0 ? PQgetvalue(res, PQntuples(res) - 1, 0)
                                    : "");
    }
    PQclear(res);
    return outcome == DB_DONE;
}

static void note_error(PGconn *pg, const PGresult *res, bool lost,
                       struct db_error *error)
{
    const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
    const char *constraint = PQresultErrorField(res, PG_DIAG_CONSTRAINT_NAME);
    const char *text = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);

    if (text == NULL) {
        text = PQerrorMessage(pg);
    }
    if (text[0] == '\0') {
        text = "no answer in time";
    }
    snprintf(error->state, sizeof(error->state), "%s",
             state != NULL && !lost ? state : "");
    snprintf(error->constraint, sizeof(error->constraint), "%s",
             constraint != NULL ? constraint : "");
    first_line(text, error->message, sizeof(error->message));
}

bool db_script_query(struct db_script *s, const char *sql,
                     const struct db_params *params, int64_t deadline_ms,
                     struct db_rows **rows, struct db_error *error)
{
    const struct db_statement st = {"", sql, true};
    PGconn *pg = s->conn->pg;
    PGresult *res = NULL;
    enum db_outcome outcome = DB_LOST;

    *rows = NULL;
    if (send_statement(s->conn, &st, params, false)) {
        outcome = collect(pg, deadline_ms, &res);
    }
    if (outcome == DB_DONE) {
        *rows = (struct db_rows *) res;
        return true;
    }
    note_error(pg, res, outcome == DB_LOST, error);
    PQclear(res);
    return false;
}

bool db_script_is_local(const struct db_script *s)
{
    const char *host = PQhost(s->conn->pg);
    const char *addr = PQhostaddr(s->conn->pg);

    if (host != NULL && (host[0] == '/' || host[0] == '@')) {
        return true;
    }
    return addr != NULL &&
           (strncmp(addr, "127.", 4) == 0 || strcmp(addr, "::1") == 0);
}

void db_script_close(struct db_script *s)
{
    if (s != NULL) {
        db_conn_free(s->conn);
        free(s);
    }
}
