/* A connection of its own for migrations and operators. */

#include "db/db_pg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct db_script {
    struct db_conn *conn;
};

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
    if (!db_pg_connect(s->conn, cfg, &host, false,
                       db_now_ms() + cfg->db_connect_timeout_ms, err,
                       err_cap)) {
        db_script_close(s);
        return NULL;
    }
    return s;
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
    db_pg_first_line(text, error->message, sizeof(error->message));
}

bool db_script_run(struct db_script *s, const char *sql, int64_t deadline_ms,
                   char *value, size_t value_cap, struct db_error *error)
{
    PGconn *pg = s->conn->pg;
    PGresult *res = NULL;
    enum db_outcome outcome = DB_LOST;

    if (PQsendQuery(pg, sql)) {
        outcome = db_pg_collect(pg, deadline_ms, &res);
    }
    if (outcome != DB_DONE) {
        note_error(pg, res, outcome == DB_LOST, error);
    } else if (value != NULL) {
        snprintf(value, value_cap, "%s",
                 PQntuples(res) > 0 ? PQgetvalue(res, PQntuples(res) - 1, 0)
                                    : "");
    }
    PQclear(res);
    return outcome == DB_DONE;
}

bool db_script_begin(struct db_script *s, int64_t timeout_ms,
                     int64_t deadline_ms, struct db_error *error)
{
    char sql[224];

    snprintf(sql, sizeof(sql),
             "BEGIN ISOLATION LEVEL READ COMMITTED;"
             " SET LOCAL statement_timeout = %lld;"
             " SET LOCAL lock_timeout = 0;"
             " SET LOCAL idle_in_transaction_session_timeout = 0",
             (long long) timeout_ms);
    return db_script_run(s, sql, deadline_ms, NULL, 0, error);
}

/* Waits for the answer to what was sent. */
static bool collect(struct db_script *s, bool sent, int64_t deadline_ms,
                    struct db_rows **rows, struct db_error *error)
{
    PGresult *res = NULL;
    enum db_outcome outcome = DB_LOST;

    *rows = NULL;
    if (sent) {
        outcome = db_pg_collect(s->conn->pg, deadline_ms, &res);
    }
    if (outcome == DB_DONE) {
        *rows = (struct db_rows *) res;
        return true;
    }
    note_error(s->conn->pg, res, outcome == DB_LOST, error);
    PQclear(res);
    return false;
}

bool db_script_query(struct db_script *s, const char *sql,
                     const struct db_params *params, int64_t deadline_ms,
                     struct db_rows **rows, struct db_error *error)
{
    const struct db_statement st = {"", sql, true};

    return collect(s, db_pg_send(s->conn, &st, params, false), deadline_ms,
                   rows, error);
}

bool db_script_text(struct db_script *s, const char *sql,
                    const char *const *params, size_t count,
                    int64_t deadline_ms, struct db_rows **rows,
                    struct db_error *error)
{
    return collect(s,
                   PQsendQueryParams(s->conn->pg, sql, (int) count, NULL,
                                     params, NULL, NULL, 0) != 0,
                   deadline_ms, rows, error);
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
