/* A connection, used by the pool, migrations and operators' commands.  It
 * reports whether a statement was executed, even when its answer is lost.  All
 * waits are poll() with a deadline, so a hung server delays a request but does
 * not block it.  PQcancel() is not used: it can block, and statement_timeout
 * ends abandoned statements anyway. */

#include "db/db_conn.h"

#include "base/log.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Validity of the measured difference between the server's clock and ours. */
#define CLOCK_TRUSTED_MS 1000
#define MAX_HOSTS 8

/* -- waiting -------------------------------------------------------------- */

static bool wait_for(PGconn *pg, short events, int64_t deadline_ms)
{
    struct pollfd p = {PQsocket(pg), events, 0};
    int64_t left;

    while (p.fd >= 0 && (left = deadline_ms - db_now_ms()) > 0) {
        if (poll(&p, 1, left < 60000 ? (int) left : 60000) > 0) {
            return true;
        }
        /* 0 or EINTR: check the deadline again. */
    }
    return false;
}

static bool flush(PGconn *pg, int64_t deadline_ms)
{
    int n;

    while ((n = PQflush(pg)) > 0) {
        if (!wait_for(pg, POLLIN | POLLOUT, deadline_ms) ||
            !PQconsumeInput(pg)) {
            return false;
        }
    }
    return n == 0;
}

static const char *field(const PGresult *res, int which)
{
    const char *text = PQresultErrorField(res, which);

    return text != NULL ? text : "";
}

static enum db_outcome classify(const PGresult *res)
{
    static const char *const transient[] = {
        "08",    /* connection exception */
        "25006", /* read-only: a standby now */
        "26000", /* the prepared statement is gone */
        "0A000", /* the columns of its plan have changed */
        "40",    /* deadlock or serialisation failure */
        "53300", /* too many connections */
        "57P",   /* shutting down */
    };
    const char *state = field(res, PG_DIAG_SQLSTATE);

    if (strcmp(state, "55P03") == 0) { /* lock_not_available */
        return DB_LOCKED;
    }
    for (size_t i = 0; i < sizeof(transient) / sizeof(transient[0]); i++) {
        if (strncmp(state, transient[i], strlen(transient[i])) == 0) {
            return DB_RETRY;
        }
    }
    return DB_REFUSED;
}

/* The commit happens after the result was sent and may still fail, so the
 * outcome is DB_DONE only after "ready for query". */
enum db_outcome db_conn_collect(PGconn *pg, int64_t deadline_ms, PGresult **out)
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
        if (res == NULL) { /* the end of one statement */
            if (PQstatus(pg) != CONNECTION_OK) {
                return DB_LOST;
            }
            if (PQpipelineStatus(pg) == PQ_PIPELINE_OFF) {
                return outcome;
            }
            continue;
        }
        switch (PQresultStatus(res)) {
        case PGRES_PIPELINE_SYNC:
            PQclear(res);
            return PQexitPipelineMode(pg) ? outcome : DB_LOST;
        case PGRES_PIPELINE_ABORTED: /* because an earlier statement failed */
            PQclear(res);
            continue;
        case PGRES_TUPLES_OK:
        case PGRES_COMMAND_OK:
            break;
        default:
            outcome = classify(res);
        }
        PQclear(*out);
        *out = res;
        if (outcome != DB_DONE && PQstatus(pg) != CONNECTION_OK) {
            return DB_LOST;
        }
    }
}

void db_conn_error(const PGconn *pg, const PGresult *res,
                   struct db_error *error)
{
    const char *text = field(res, PG_DIAG_MESSAGE_PRIMARY);

    if (text[0] == '\0') {
        text = PQerrorMessage(pg);
    }
    if (text[0] == '\0') {
        text = "no answer in time";
    }
    (void) snprintf(error->state, sizeof(error->state), "%s",
                    field(res, PG_DIAG_SQLSTATE));
    (void) snprintf(error->constraint, sizeof(error->constraint), "%s",
                    field(res, PG_DIAG_CONSTRAINT_NAME));
    (void) snprintf(error->message, sizeof(error->message), "%.*s",
                    (int) strcspn(text, "\n"), text);
}

/* -- connecting ----------------------------------------------------------- */

/* The server logs notices itself. */
static void ignore_notice(void *arg, const char *message)
{
    (void) arg;
    (void) message;
}

void db_conn_close(struct db_conn *c)
{
    PQfinish(c->pg);
    c->pg = NULL;
    c->prepared_count = 0;
    c->answered_ms = 0;
    c->clock_read_ms = 0;
}

/* Copies the nth item of a comma-separated list, or its only item.  Copies ""
 * if it does not exist.  Returns the number of items. */
static size_t list_item(const char *list, size_t n, char *out, size_t cap)
{
    size_t count = 0;

    out[0] = '\0';
    for (const char *p = list; p != NULL; count++) {
        size_t len = strcspn(p, ",");

        if (count == n || (count == 0 && p[len] == '\0')) {
            (void) snprintf(out, cap, "%.*s", (int) len, p);
        }
        p = p[len] != '\0' ? p + len + 1 : NULL;
    }
    return count;
}

/* Starts connecting to the nth host; NULL if memory is short. */
static PGconn *start_connect(const struct config *cfg, size_t n)
{
    char host[256], port[16];
    /* clang-format off */
    const char *const names[] = {
        "host", "port", "dbname", "user", "password", "sslmode",
        "application_name", "client_encoding", "target_session_attrs",
        "tcp_user_timeout", NULL};
    const char *const values[] = {
        host, port, cfg->db_name, cfg->db_user, cfg->db_password,
        cfg->db_sslmode, cfg->app_name, "UTF8", "read-write", "10000", NULL};
    /* clang-format on */

    (void) list_item(cfg->db_host, n, host, sizeof(host));
    (void) list_item(cfg->db_port, n, port, sizeof(port));
    return PQconnectStartParams(names, values, 0);
}

/* Every statement of the service finds a few rows by index and joins them row
 * by row.  For a small database the planner would read and hash whole tables,
 * at twice the cost, and keep that plan while the tables grow.  JIT and
 * parallel workers never pay off. */
#define SETTINGS(timeout, lock, local)                                         \
    "set_config('enable_hashjoin', 'off', " local "),"                         \
    "set_config('enable_mergejoin', 'off', " local "),"                        \
    "set_config('enable_seqscan', 'off', " local "),"                          \
    "set_config('jit', 'off', " local "),"                                     \
    "set_config('max_parallel_workers_per_gather', '0', " local "),"           \
    "set_config('lock_timeout', " lock ", " local "),"                         \
    "set_config('statement_timeout', " timeout ", " local ")"

void db_conn_write_begin(char *sql, size_t cap, int64_t statement_ms,
                         int64_t lock_ms)
{
    (void) snprintf(
        sql, cap,
        "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT " SETTINGS(
            "'%lld'", "'%lld'", "true") ","
                                        "set_config('idle_in_transaction_"
                                        "session_timeout', '%lld', true)",
        (long long) lock_ms, (long long) statement_ms,
        (long long) (2 * statement_ms));
}

/* Configures the session unless a pooler shares it with others.  The session is
 * ours alone if the backend that answers is the one announced at the
 * start_connect, because a pooler announces itself. */
static bool configure_session(struct db_conn *c, PGconn *pg,
                              const struct config *cfg, int64_t deadline_ms)
{
    static const char sql[] =
        "SELECT set_config('default_transaction_isolation', 'read committed',"
        "                  false)," SETTINGS(
            "$2", "$3", "false") " WHERE pg_backend_pid() = $1";
    char announced[24];
    const char *values[] = {announced, c->timeout_ms, c->lock_ms};
    PGresult *res = NULL;
    bool ok;

    (void) snprintf(announced, sizeof(announced), "%d", PQbackendPID(pg));
    (void) snprintf(c->timeout_ms, sizeof(c->timeout_ms), "%lld",
                    (long long) cfg->db_statement_timeout_ms);
    (void) snprintf(c->lock_ms, sizeof(c->lock_ms), "%lld",
                    (long long) cfg->db_lock_timeout_ms);
    ok = PQsendQueryParams(pg, sql, 3, NULL, values, NULL, NULL, 0) &&
         db_conn_collect(pg, deadline_ms, &res) == DB_DONE;
    c->shared = ok && PQntuples(res) == 0;
    PQclear(res);
    return ok;
}

/* Returns true if the server refused the role, its password or the database.
 * libpq reports the SQLSTATE of such an error only inside its message. */
static bool is_refusal(const PGconn *pg)
{
    const char *why = PQerrorMessage(pg);

    return PQconnectionNeedsPassword(pg) || strstr(why, ":  28") != NULL ||
           strstr(why, ":  3D000:") != NULL || strstr(why, ":  42501:") != NULL;
}

static bool connect_one(struct db_conn *c, const struct config *cfg, size_t n,
                        bool autocommit, int64_t deadline_ms, struct error *e)
{
    PGconn *pg = start_connect(cfg, n);
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    bool ok = PQstatus(pg) != CONNECTION_BAD;
    const char *why;

    (void) PQsetErrorVerbosity(pg, PQERRORS_VERBOSE);
    while (ok && next != PGRES_POLLING_OK) {
        ok = next != PGRES_POLLING_FAILED &&
             wait_for(pg, next == PGRES_POLLING_READING ? POLLIN : POLLOUT,
                      deadline_ms);
        next = ok ? PQconnectPoll(pg) : next;
    }
    (void) PQsetNoticeProcessor(pg, ignore_notice, NULL);
    if (ok && PQsetnonblocking(pg, 1) == 0 &&
        (!autocommit || configure_session(c, pg, cfg, deadline_ms))) {
        c->pg = pg;
        return true;
    }
    why = PQerrorMessage(pg);
    if (why[0] == '\0') {
        why = "no answer from the database in time";
    }
    if (!c->refused) { /* keep the message of a host that answered */
        error_write(e, "%.*s", (int) strcspn(why, "\n"), why);
    }
    c->refused = c->refused || is_refusal(pg);
    PQfinish(pg);
    return false;
}

bool db_conn_open(struct db_conn *c, const struct config *cfg, size_t *host,
                  bool autocommit, int64_t deadline_ms, struct error *e)
{
    char item[2];
    size_t hosts = list_item(cfg->db_host, 0, item, sizeof(item));

    hosts = hosts == 0 ? 1 : hosts < MAX_HOSTS ? hosts : MAX_HOSTS;
    db_conn_close(c);
    c->refused = false;
    error_write(e, "no time left to connect");
    for (size_t i = 0; i < hosts; i++) {
        size_t n = (*host + i) % hosts;
        int64_t now = db_now_ms();
        int64_t part = (deadline_ms - now) / (int64_t) (hosts - i);

        if (part > 0 && connect_one(c, cfg, n, autocommit, now + part, e)) {
            *host = n;
            return true;
        }
    }
    return false;
}

/* -- one statement -------------------------------------------------------- */

bool db_conn_has_prepared(const struct db_conn *c,
                          const struct db_statement *st)
{
    for (size_t i = 0; i < c->prepared_count; i++) {
        if (c->prepared[i] == st) {
            return true;
        }
    }
    return false;
}

void db_conn_add_prepared(struct db_conn *c, const struct db_statement *st)
{
    /* The program has fewer statements than this. */
    if (c->prepared_count == DB_MAX_PREPARED) {
        abort();
    }
    c->prepared[c->prepared_count++] = st;
}

static enum db_outcome prepare(struct db_conn *c, const struct db_statement *st,
                               const struct db_params *params,
                               int64_t deadline_ms, PGresult **res)
{
    enum db_outcome outcome;

    if (db_conn_has_prepared(c, st)) {
        return DB_DONE;
    }
    if (!PQsendPrepare(c->pg, st->name, st->sql, (int) params->count,
                       params->types)) {
        return DB_LOST;
    }
    outcome = db_conn_collect(c->pg, deadline_ms, res);
    if (outcome == DB_DONE) {
        db_conn_add_prepared(c, st);
    }
    return outcome;
}

/* Computes the statement's fence, if it has one, from the server's clock, which
 * is measured again at times.  The server read its clock before we received the
 * answer, so the fence is slightly early, which is safe. */
static enum db_outcome set_fence(struct db_conn *c,
                                 const struct db_params *params,
                                 int64_t deadline_ms, PGresult **res)
{
    enum db_outcome outcome = DB_DONE;

    if (!params->has_fence) {
        return DB_DONE;
    }
    if (c->clock_read_ms == 0 ||
        db_now_ms() - c->clock_read_ms >= CLOCK_TRUSTED_MS) {
        outcome = PQsendQueryParams(c->pg, "SELECT clock_timestamp()", 0, NULL,
                                    NULL, NULL, NULL, 1)
                      ? db_conn_collect(c->pg, deadline_ms, res)
                      : DB_LOST;
        if (outcome == DB_DONE) {
            c->clock_read_ms = db_now_ms();
            c->clock_ahead_us = db_time_us((struct db_rows *) *res, 0, 0) -
                                c->clock_read_ms * 1000;
        }
    }
    db_write_int64(c->fence,
                   c->clock_ahead_us + deadline_ms * 1000 - DB_EPOCH_US);
    return outcome;
}

/* Begins a pipeline, which is one transaction, with its isolation level and
 * timeouts. (The server would log a warning for SET LOCAL.) */
static bool send_settings(struct db_conn *c)
{
    const char *timeouts[] = {c->timeout_ms, c->lock_ms};

    return PQenterPipelineMode(c->pg) &&
           PQsendQueryParams(c->pg,
                             "SET transaction_isolation = 'read committed'", 0,
                             NULL, NULL, NULL, NULL, 0) &&
           PQsendQueryParams(c->pg, "SELECT " SETTINGS("$1", "$2", "true"), 2,
                             NULL, timeouts, NULL, NULL, 0);
}

/* Sends a statement, by name if it is prepared.  On a shared session its
 * settings precede it in the same transaction and packet. */
static bool send_statement(struct db_conn *c, const struct db_statement *st,
                           const struct db_params *params, bool prepared)
{
    const char *values[DB_PARAM_PLACES];
    int n = (int) params->count;
    bool ok;

    if (c->shared && !send_settings(c)) {
        return false;
    }
    memcpy(values, params->values, sizeof(values));
    if (params->has_fence) {
        values[params->fence] = (const char *) c->fence;
    }
    ok = prepared ? PQsendQueryPrepared(c->pg, st->name, n, values,
                                        params->lengths, params->formats, 1)
                  : PQsendQueryParams(c->pg, st->sql, n, params->types, values,
                                      params->lengths, params->formats, 1);
    return ok && (!c->shared || PQpipelineSync(c->pg));
}

static enum db_outcome run(struct db_conn *c, const struct db_statement *st,
                           const struct db_params *params, bool prepared,
                           int64_t deadline_ms, struct meanwhile *meanwhile,
                           PGresult **res)
{
    enum db_outcome outcome;

    if (!send_statement(c, st, params, prepared) ||
        !flush(c->pg, deadline_ms)) {
        return DB_DOUBT;
    }
    meanwhile_run(meanwhile);
    outcome = db_conn_collect(c->pg, deadline_ms, res);
    return outcome == DB_LOST ? DB_DOUBT : outcome;
}

enum db_outcome db_conn_try(struct db_conn *c, const struct config *cfg,
                            const struct db_statement *st,
                            const struct db_params *params, int64_t deadline_ms,
                            struct meanwhile *meanwhile, struct db_rows **rows)
{
    int64_t most_ms = db_now_ms() + cfg->db_statement_timeout_ms + DB_GRACE_MS;
    enum db_outcome outcome = DB_DONE;
    PGresult *res = NULL;
    struct db_error error;
    bool prepared = cfg->db_prepared && st->kind != DB_SEARCHES;

    if (deadline_ms > most_ms) {
        deadline_ms = most_ms;
    }
    *rows = NULL;
    if (prepared) {
        outcome = prepare(c, st, params, deadline_ms, &res);
    }
    if (outcome == DB_DONE) {
        outcome = set_fence(c, params, deadline_ms, &res);
    }
    if (outcome == DB_DONE) {
        PQclear(res);
        res = NULL;
        outcome = run(c, st, params, prepared, deadline_ms, meanwhile, &res);
    }
    if (outcome == DB_DONE) {
        c->answered_ms = db_now_ms();
        /* A write without effect may be due to a change of the server's clock:
         * measure it again before the next attempt. */
        if (params->has_fence && strcmp(PQcmdTuples(res), "0") == 0) {
            c->clock_read_ms = 0;
        }
        *rows = (struct db_rows *) res;
        return outcome;
    }
    db_conn_error(c->pg, res, &error);
    log_line(LOG_ERROR_, "db.error", "%s: %s %s", st->name,
             error.state[0] != '\0' ? error.state : "-", error.message);
    PQclear(res);
    /* A connection is kept after an ordinary error only. */
    if (outcome >= DB_RETRY) {
        db_conn_close(c);
    }
    return outcome;
}
