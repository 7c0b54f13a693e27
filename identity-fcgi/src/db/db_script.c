/* A connection with transactions, for migrations, sweeps and operators. */

#include "db/db_script.h"

#include "base/parse.h"
#include "db/db_conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct db_script {
    struct db_conn own; /* unless it is on a connection of a pool */
    struct db_conn *conn;
    int64_t limit_ms; /* of a statement */
    bool prepared;
    struct db_error error;
    enum db_outcome outcome; /* of the statement that failed first */
};

struct db_script *db_script_open(const struct config *cfg, int64_t limit_ms,
                                 struct error *e)
{
    struct db_script *s = calloc(1, sizeof(*s));
    struct error why = {"out of memory"};
    size_t host = 0;

    if (s == NULL ||
        !db_conn_open(&s->own, cfg, &host, false,
                      db_now_ms() + cfg->db_connect_timeout_ms, &why)) {
        error_write(e, "cannot reach the database: %s", why.text);
        free(s);
        return NULL;
    }
    s->conn = &s->own;
    s->limit_ms = limit_ms;
    return s;
}

struct db_script *db_script_borrow(struct db_conn *conn, int64_t limit_ms,
                                   bool prepared)
{
    struct db_script *s = calloc(1, sizeof(*s));

    if (s != NULL) {
        s->conn = conn;
        s->limit_ms = limit_ms;
        s->prepared = prepared;
    }
    return s;
}

const struct db_error *db_script_error(const struct db_script *s)
{
    return &s->error;
}

static bool finish(struct db_script *s, bool sent, struct db_rows **rows)
{
    PGresult *res = NULL;
    enum db_outcome outcome =
        sent ? db_conn_collect(s->conn->pg,
                               db_now_ms() + s->limit_ms + DB_GRACE_MS, &res)
             : DB_LOST;

    *rows = NULL; /* the caller may have freed earlier rows, and frees these */
    if (outcome == DB_DONE) {
        *rows = (struct db_rows *) res;
        return true;
    }
    if (s->error.message[0] == '\0') {
        db_conn_error(s->conn->pg, res, &s->error);
        s->outcome = outcome;
        if (outcome == DB_LOST) {
            s->error.state[0] = '\0';
        }
    }
    PQclear(res);
    if (outcome == DB_LOST) {
        db_conn_close(s->conn);
    }
    return false;
}

struct db_conn *db_script_conn(const struct db_script *s)
{
    return s->conn;
}

enum db_outcome db_script_outcome(const struct db_script *s)
{
    return s->outcome;
}

bool db_script_begin(struct db_script *s)
{
    char sql[224];

    memset(&s->error, 0, sizeof(s->error));
    s->outcome = DB_DONE;
    (void) snprintf(sql, sizeof(sql),
                    "BEGIN ISOLATION LEVEL READ COMMITTED;"
                    " SET LOCAL statement_timeout = %lld;"
                    " SET LOCAL lock_timeout = 0;"
                    " SET LOCAL idle_in_transaction_session_timeout = 0",
                    (long long) s->limit_ms);
    return db_script_run(s, sql, NULL, 0);
}

bool db_script_run(struct db_script *s, const char *sql, char *value,
                   size_t value_cap)
{
    struct db_rows *rows;
    size_t count;

    if (!finish(s, PQsendQuery(s->conn->pg, sql), &rows)) {
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

bool db_script_query(struct db_script *s, const char *sql,
                     const struct db_params *params, struct db_rows **rows)
{
    return finish(s,
                  PQsendQueryParams(s->conn->pg, sql, (int) params->count,
                                    params->types, params->values,
                                    params->lengths, params->formats, 0),
                  rows);
}

bool db_script_execute(struct db_script *s, const struct db_statement *st,
                       const struct db_params *params, struct db_rows **rows)
{
    static const char never[8] = "\x7f\xff\xff\xff\xff\xff\xff\xff";
    const char *values[DB_PARAM_PLACES];
    int n = (int) params->count;
    bool prepared = s->prepared && st->kind != DB_SEARCHES;
    PGconn *pg = s->conn->pg;
    bool sent;

    memcpy(values, params->values, sizeof(values));
    if (params->has_fence) {
        values[params->fence] = never;
    }
    if (prepared && !db_conn_has_prepared(s->conn, st)) {
        if (!finish(s, PQsendPrepare(pg, st->name, st->sql, n, params->types),
                    rows)) {
            return false;
        }
        db_rows_free(*rows);
        db_conn_add_prepared(s->conn, st);
    }
    sent = prepared ? PQsendQueryPrepared(pg, st->name, n, values,
                                          params->lengths, params->formats, 1)
                    : PQsendQueryParams(pg, st->sql, n, params->types, values,
                                        params->lengths, params->formats, 1);
    return finish(s, sent, rows);
}

bool db_script_is_local(const struct db_script *s)
{
    const char *host = PQhost(s->conn->pg);
    const char *addr = PQhostaddr(s->conn->pg);

    return (host != NULL && (host[0] == '/' || host[0] == '@')) ||
           (addr != NULL && addr[0] != '\0' && parse_loopback(addr));
}

void db_script_close(struct db_script *s)
{
    if (s != NULL) {
        if (s->conn == &s->own) {
            db_conn_close(s->conn);
        }
        free(s);
    }
}
