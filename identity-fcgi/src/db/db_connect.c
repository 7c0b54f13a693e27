/* Connects to the first of PostgreSQL's hosts that answers. */

#include "db/db_pg.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HOSTS 8

void db_pg_first_line(const char *message, char *out, size_t cap)
{
    snprintf(out, cap, "%.*s", (int) strcspn(message, "\n"), message);
}

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

bool db_conn_is_connected(const struct db_conn *c)
{
    return c->pg != NULL;
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
        if (!db_pg_wait(pg, events, deadline_ms)) {
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

/*
 * Sets a session up, if it is ours: the server process that answers is the one
 * that was announced at the start.  A pooler that shares server connections
 * announces itself, and nothing is set behind it.
 */
static bool settle(struct db_conn *c, PGconn *pg, const struct config *cfg,
                   int64_t deadline_ms)
{
    static const char sql[] =
        "SELECT set_config('default_transaction_isolation', 'read committed',"
        "                  false),"
        "       set_config('statement_timeout', $2, false)"
        " WHERE pg_backend_pid() = $1";
    char announced[24];
    const char *values[] = {announced, c->timeout_ms};
    PGresult *res = NULL;
    bool ok;

    snprintf(announced, sizeof(announced), "%d", PQbackendPID(pg));
    snprintf(c->timeout_ms, sizeof(c->timeout_ms), "%lld",
             (long long) cfg->db_statement_timeout_ms);
    ok = PQsendQueryParams(pg, sql, 2, NULL, values, NULL, NULL, 0) &&
         db_pg_collect(pg, deadline_ms, &res) == DB_DONE;
    c->shared = ok && PQntuples(res) == 0;
    PQclear(res);
    return ok;
}

/* Connects to one host; false with one line in err. */
static bool connect_one(struct db_conn *c, const struct config *cfg, size_t n,
                        bool autocommit, int64_t deadline_ms, char *err,
                        size_t err_cap)
{
    PGconn *pg = start(cfg, n);

    if (pg != NULL && PQstatus(pg) != CONNECTION_BAD &&
        finish_connecting(pg, deadline_ms)) {
        PQsetNoticeProcessor(pg, ignore_notice, NULL);
        if (PQsetnonblocking(pg, 1) == 0 &&
            (!autocommit || settle(c, pg, cfg, deadline_ms))) {
            c->pg = pg;
            c->prepared_count = 0;
            return true;
        }
    }
    if (pg != NULL && PQerrorMessage(pg)[0] != '\0') {
        db_pg_first_line(PQerrorMessage(pg), err, err_cap);
    } else {
        snprintf(err, err_cap, "no answer from the database in time");
    }
    PQfinish(pg);
    return false;
}

bool db_pg_connect(struct db_conn *c, const struct config *cfg, size_t *host,
                   bool autocommit, int64_t deadline_ms, char *err,
                   size_t err_cap)
{
    size_t hosts = host_count(cfg);

    snprintf(err, err_cap, "no time left to connect");
    for (size_t i = 0; i < hosts; i++) {
        size_t n = (*host + i) % hosts;
        int64_t now = db_now_ms();
        int64_t part = (deadline_ms - now) / (int64_t) (hosts - i);

        if (part > 0 &&
            connect_one(c, cfg, n, autocommit, now + part, err, err_cap)) {
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
    return db_pg_connect(c, cfg, host, true, deadline_ms, err, err_cap);
}
