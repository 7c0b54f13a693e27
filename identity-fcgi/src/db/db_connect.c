/* Connects to the first of PostgreSQL's hosts that answers. */

#include "db/db_pg.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#define MAX_HOSTS 8

/* What the server says beside results is for its own log. */
static void ignore_notice(void *arg, const char *message)
{
    (void) arg;
    (void) message;
}

void db_pg_disconnect(struct db_conn *c)
{
    PQfinish(c->pg);
    c->pg = NULL;
    c->prepared_count = 0;
    c->answered_ms = 0;
    c->clock_read_ms = 0;
}

/* Copies the nth of a comma-separated list, or its only one; nothing where
 * there is none.  How many there are. */
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

/* Begins connecting to the nth host; NULL when memory is short. */
static PGconn *start(const struct config *cfg, size_t n)
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

static bool finish_connecting(PGconn *pg, int64_t deadline_ms)
{
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;

    while (next == PGRES_POLLING_READING || next == PGRES_POLLING_WRITING) {
        if (!db_pg_wait(pg, next == PGRES_POLLING_READING ? POLLIN : POLLOUT,
                        deadline_ms)) {
            return false;
        }
        next = PQconnectPoll(pg);
    }
    return next == PGRES_POLLING_OK;
}

/* Sets a session up, if it is ours: the server process that answers is the one
 * that was announced at the start.  A pooler that shares server connections
 * announces itself, and nothing is set behind it. */
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

    (void) snprintf(announced, sizeof(announced), "%d", PQbackendPID(pg));
    (void) snprintf(c->timeout_ms, sizeof(c->timeout_ms), "%lld",
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
    const char *why;

    if (PQstatus(pg) != CONNECTION_BAD && finish_connecting(pg, deadline_ms)) {
        PQsetNoticeProcessor(pg, ignore_notice, NULL);
        if (PQsetnonblocking(pg, 1) == 0 &&
            (!autocommit || settle(c, pg, cfg, deadline_ms))) {
            c->pg = pg;
            return true;
        }
    }
    why = PQerrorMessage(pg);
    if (why[0] == '\0') {
        why = "no answer from the database in time";
    }
    (void) snprintf(err, err_cap, "%.*s", (int) strcspn(why, "\n"), why);
    PQfinish(pg);
    return false;
}

bool db_pg_connect(struct db_conn *c, const struct config *cfg, size_t *host,
                   bool autocommit, int64_t deadline_ms, char *err,
                   size_t err_cap)
{
    char item[2];
    size_t hosts = list_item(cfg->db_host, 0, item, sizeof(item));

    hosts = hosts == 0 ? 1 : hosts < MAX_HOSTS ? hosts : MAX_HOSTS;
    db_pg_disconnect(c);
    (void) snprintf(err, err_cap, "no time left to connect");
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
