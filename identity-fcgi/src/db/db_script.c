/* A connection of its own for migrations and operators. */

#include "db/db_pg.h"

#include <stdio.h>
#include <stdlib.h>

struct db_script {
    struct db_conn conn;
};

struct db_script *db_script_open(const struct config *cfg, char *err,
                                 size_t err_cap)
{
    struct db_script *s = calloc(1, sizeof(*s));
    size_t host = 0;

    (void) snprintf(err, err_cap, "out of memory");
    if (s != NULL && !db_pg_connect(&s->conn, cfg, &host, false,
                                    db_now_ms() + cfg->db_connect_timeout_ms,
                                    err, err_cap)) {
        db_script_close(s);
        s = NULL;
    }
    return s;
}

/* Waits for the answer to what was sent. */
static bool collect(struct db_script *s, bool sent, int64_t deadline_ms,
                    struct db_rows **rows, struct db_error *error)
{
    PGresult *res = NULL;
    enum db_outcome outcome =
        sent ? db_pg_collect(s->conn.pg, deadline_ms, &res) : DB_LOST;

    *rows = (struct db_rows *) res;
    if (outcome == DB_DONE) {
        return true;
    }
    *rows = NULL;
    db_pg_error(s->conn.pg, res, error);
    if (outcome == DB_LOST) {
        error->state[0] = '\0';
    }
    PQclear(res);
    return false;
}

bool db_script_run(struct db_script *s, const char *sql, int64_t deadline_ms,
                   char *value, size_t value_cap, struct db_error *error)
{
    struct db_rows *rows;
    size_t count;

    if (!collect(s, PQsendQuery(s->conn.pg, sql), deadline_ms, &rows, error)) {
        return false;
    }
    count = db_row_count(rows);
    if (value != NULL) {
        (void) snprintf(value, value_cap, "%s",
                        count > 0 ? db_text(rows, count - 1, 0, NULL) : "");
    }
    db_rows_free(rows);
    return true;
}

bool db_script_begin(struct db_script *s, int64_t timeout_ms,
                     int64_t deadline_ms, struct db_error *error)
{
    char sql[224];

    (void) snprintf(sql, sizeof(sql),
                    "BEGIN ISOLATION LEVEL READ COMMITTED;"
                    " SET LOCAL statement_timeout = %lld;"
                    " SET LOCAL lock_timeout = 0;"
                    " SET LOCAL idle_in_transaction_session_timeout = 0",
                    (long long) timeout_ms);
    return db_script_run(s, sql, deadline_ms, NULL, 0, error);
}

bool db_script_query(struct db_script *s, const char *sql,
                     const struct db_params *params, int64_t deadline_ms,
                     struct db_rows **rows, struct db_error *error)
{
    const struct db_statement st = {"", sql, true};

    return collect(s, db_pg_send(&s->conn, &st, params, false), deadline_ms,
                   rows, error);
}

bool db_script_text(struct db_script *s, const char *sql,
                    const char *const *params, size_t count,
                    int64_t deadline_ms, struct db_rows **rows,
                    struct db_error *error)
{
    return collect(s,
                   PQsendQueryParams(s->conn.pg, sql, (int) count, NULL,
                                     params, NULL, NULL, 0),
                   deadline_ms, rows, error);
}

bool db_script_is_local(const struct db_script *s)
{
    const char *host = PQhost(s->conn.pg);
    const char *addr = PQhostaddr(s->conn.pg);

    return (host != NULL && (host[0] == '/' || host[0] == '@')) ||
           (addr != NULL && addr[0] != '\0' && parse_loopback(addr));
}

void db_script_close(struct db_script *s)
{
    if (s != NULL) {
        db_pg_disconnect(&s->conn);
        free(s);
    }
}
