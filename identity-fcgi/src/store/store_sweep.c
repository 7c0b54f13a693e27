/*
 * Deleting what nobody needs any more, in small batches.
 *
 * Sessions have no index that finds the ended ones, on purpose: it would have
 * to name expires_at, and then each rotation would write to it.  Instead the
 * table is read from block to block (a TID range scan), a batch of blocks a
 * statement.  A batch costs the same however large the table is, locks only
 * the rows that it deletes, and passes over those that somebody else holds.
 * The background sweep reads a part of a large table each time, and goes on
 * where it left off.
 */

#include "store/store_sweep.h"

#include "store/store_sql.h"

#include <stdio.h>
#include <string.h>

/* Of 8 KiB each; a full batch holds some thousand sessions at most. */
#define BATCH_BLOCKS 64
#define BATCH_ROWS 500
/* A part: 32 MiB, or as much of a larger table as makes 64 parts of it. */
#define PART_BLOCKS 4096
#define PARTS 64
/* Rotated-out tokens matter for a minute (contract: reuse of a token). */
#define ROTATED_KEEP_S 600

#define GRACE_MS 250

/* Held for the time of a sweep by a transaction that does nothing else: it
 * goes with its process, also through a pooler, and keeps no snapshot. */
#define LOCK "SELECT pg_try_advisory_xact_lock(7236589412357)"

struct sweep {
    const struct config *cfg;
    const struct sweep_plan *plan;
    struct sweep_counts *counts;
    struct db_script *lock, *work;
    char *err;
    size_t err_cap;
};

void sweep_part(uint64_t blocks, uint64_t cursor, uint64_t *first,
                uint64_t *count)
{
    uint64_t most =
        blocks / PARTS > PART_BLOCKS ? blocks / PARTS : PART_BLOCKS;

    *first = blocks > 0 ? cursor % blocks : 0;
    *count = blocks - *first < most ? blocks - *first : most;
    if (blocks <= most) { /* a small table goes whole */
        *first = 0;
        *count = blocks;
    }
}

/* -- statements -- */

static int64_t deadline_ms(const struct sweep *s)
{
    return db_now_ms() + s->cfg->db_statement_timeout_ms + GRACE_MS;
}

static bool failed(struct sweep *s, const struct db_error *error)
{
    if (strcmp(error->state, "42P01") == 0) {
        snprintf(s->err, s->err_cap,
                 "the database is not migrated: run identity-fcgi migrate");
    } else {
        snprintf(s->err, s->err_cap, "the database failed: %s",
                 error->message);
    }
    return false;
}

static bool begin(struct sweep *s, struct db_script *db)
{
    struct db_error error;

    return db_script_begin(db, s->cfg->db_statement_timeout_ms, deadline_ms(s),
                           &error) ||
           failed(s, &error);
}

static bool run_plain(struct sweep *s, struct db_script *db, const char *sql,
                      char *value, size_t cap)
{
    struct db_error error;

    return db_script_run(db, sql, deadline_ms(s), value, cap, &error) ||
           failed(s, &error);
}

/* One number, or how many rows were touched where there is none. */
static bool number(struct sweep *s, const char *sql, const struct db_params *p,
                   int64_t *out)
{
    struct db_error error;
    struct db_rows *rows;

    if (!begin(s, s->work)) {
        return false;
    }
    if (!db_script_query(s->work, sql, p, deadline_ms(s), &rows, &error)) {
        return failed(s, &error);
    }
    *out = db_row_count(rows) > 0 ? db_int64(rows, 0, 0)
                                  : (int64_t) db_affected(rows);
    db_rows_free(rows);
    return run_plain(s, s->work, "COMMIT", NULL, 0);
}

static bool go_on(const struct sweep *s)
{
    return s->plan->go_on == NULL || s->plan->go_on(s->plan->arg);
}

/* -- batches -- */

/* $1 and $2 bound the blocks, $3 is how long rows are kept, $4 how many go at
 * once. */
#define IN_BLOCKS                                                             \
    " WHERE ctid >= format('(%s,0)', $1)::tid"                                \
    "   AND ctid < format('(%s,0)', $2)::tid"

static const char sessions_sql[] =
    "DELETE FROM auth_sessions WHERE session_id = ANY (ARRAY("
    "  SELECT session_id FROM auth_sessions" IN_BLOCKS
    "     AND (expires_at < now() - make_interval(secs => $3)"
    "          OR revoked_at < now() - make_interval(secs => $3))"
    "   LIMIT $4 FOR UPDATE SKIP LOCKED))";

/* Rows of this table are never updated: a ctid stays the row's. */
static const char rotated_sql[] =
    "DELETE FROM rotated_tokens WHERE ctid = ANY (ARRAY("
    "  SELECT ctid FROM rotated_tokens" IN_BLOCKS
    "     AND rotated_at < now() - make_interval(secs => $3)"
    "   LIMIT $4 FOR UPDATE SKIP LOCKED))";

static const char attempts_sql[] =
    "DELETE FROM login_attempts WHERE ctid = ANY (ARRAY("
    "  SELECT ctid FROM login_attempts"
    "   WHERE window_ends_at < now() - make_interval(secs => $1)"
    "   ORDER BY window_ends_at LIMIT $2 FOR UPDATE SKIP LOCKED))";

static bool block_count(struct sweep *s, const char *table, uint64_t *out)
{
    struct db_params p = {0};
    int64_t n = 0;
    bool ok;

    db_param_text(&p, table, strlen(table));
    ok = number(s,
                "SELECT pg_relation_size($1::regclass)"
                "       / current_setting('block_size')::bigint",
                &p, &n);
    *out = (uint64_t) n;
    return ok;
}

/* Deletes from the blocks of one batch, until there is nothing more. */
static enum sweep_result batch(struct sweep *s, const char *sql,
                               uint64_t first, uint64_t end, int64_t keep_s,
                               int64_t *total)
{
    int64_t gone;

    do {
        struct db_params p = {0};

        if (!go_on(s)) {
            return SWEEP_STOPPED;
        }
        db_param_int64(&p, (int64_t) first);
        db_param_int64(&p, (int64_t) end);
        db_param_int64(&p, keep_s);
        db_param_int64(&p, BATCH_ROWS);
        if (!number(s, sql, &p, &gone)) {
            return SWEEP_FAILED;
        }
        *total += gone;
    } while (gone == BATCH_ROWS);
    return SWEEP_DONE;
}

static enum sweep_result blocks(struct sweep *s, const char *sql,
                                uint64_t first, uint64_t count, int64_t keep_s,
                                int64_t *total)
{
    enum sweep_result result = SWEEP_DONE;

    for (uint64_t n = 0; n < count && result == SWEEP_DONE;
         n += BATCH_BLOCKS) {
        uint64_t end = n + BATCH_BLOCKS < count ? n + BATCH_BLOCKS : count;

        result = batch(s, sql, first + n, first + end, keep_s, total);
    }
    return result;
}

static enum sweep_result sweep_sessions(struct sweep *s)
{
    enum sweep_result result;
    uint64_t all, first, count;

    if (!block_count(s, "auth_sessions", &all)) {
        return SWEEP_FAILED;
    }
    if (s->plan->cursor == NULL) {
        return blocks(s, sessions_sql, 0, all, s->plan->keep_s,
                      &s->counts->sessions);
    }
    sweep_part(all, *s->plan->cursor, &first, &count);
    result = blocks(s, sessions_sql, first, count, s->plan->keep_s,
                    &s->counts->sessions);
    if (result == SWEEP_DONE) {
        *s->plan->cursor = first + count < all ? first + count : 0;
    }
    return result;
}

/* Written only where PLATFORM_AUTH_REFRESH_REUSE is revoke, and each refresh
 * drops its session's older ones: a small table. */
static enum sweep_result sweep_rotated(struct sweep *s)
{
    uint64_t all;

    if (!block_count(s, "rotated_tokens", &all)) {
        return SWEEP_FAILED;
    }
    return blocks(s, rotated_sql, 0, all, ROTATED_KEEP_S,
                  &s->counts->rotated_tokens);
}

static enum sweep_result sweep_attempts(struct sweep *s)
{
    int64_t gone;

    do {
        struct db_params p = {0};

        if (!go_on(s)) {
            return SWEEP_STOPPED;
        }
        db_param_int64(&p, 60);
        db_param_int64(&p, BATCH_ROWS);
        if (!number(s, attempts_sql, &p, &gone)) {
            return SWEEP_FAILED;
        }
        s->counts->attempts += gone;
    } while (gone == BATCH_ROWS);
    return SWEEP_DONE;
}

/* -- the whole -- */

static enum sweep_result take_lock(struct sweep *s)
{
    char ours[8];

    if (!begin(s, s->lock) ||
        !run_plain(s, s->lock, LOCK, ours, sizeof(ours))) {
        return SWEEP_FAILED;
    }
    return ours[0] == 't' ? SWEEP_DONE : SWEEP_BUSY;
}

static struct db_script *connect_to(struct sweep *s)
{
    char why[256];
    struct db_script *db = db_script_open(s->cfg, why, sizeof(why));

    if (db == NULL) {
        snprintf(s->err, s->err_cap, "cannot reach the database: %s", why);
    }
    return db;
}

static enum sweep_result run(struct sweep *s)
{
    enum sweep_result result;

    s->lock = connect_to(s);
    if (s->lock == NULL) {
        return SWEEP_FAILED;
    }
    result = take_lock(s);
    if (result != SWEEP_DONE) {
        return result;
    }
    s->work = connect_to(s);
    if (s->work == NULL) {
        return SWEEP_FAILED;
    }
    result = sweep_sessions(s);
    if (result == SWEEP_DONE) {
        result = sweep_rotated(s);
    }
    return result == SWEEP_DONE ? sweep_attempts(s) : result;
}

enum sweep_result store_sweep(const struct config *cfg,
                              const struct sweep_plan *plan,
                              struct sweep_counts *counts, char *err,
                              size_t err_cap)
{
    struct sweep s = {.cfg = cfg,
                      .plan = plan,
                      .counts = counts,
                      .err = err,
                      .err_cap = err_cap};
    enum sweep_result result;

    memset(counts, 0, sizeof(*counts));
    err[0] = '\0';
    result = run(&s);
    db_script_close(s.work);
    db_script_close(s.lock);
    return result;
}
