/*
 * Deletes expired and ended rows in small batches.
 *
 * Sessions deliberately lack an index for finding ended ones: it would have to
 * include expires_at, and every rotation would write to it.  Instead the table
 * is read by ranges of blocks (TID range scans).  A batch costs the same
 * however large the table is; it locks only the rows that it deletes and skips
 * locked rows.  A serving process sweeps in a separate thread.  Each sweep of a
 * large table covers a part of it and continues where the last one stopped.
 */

#include "store/sweep.h"

#include "base/log.h"
#include "base/metrics.h"
#include "db/db_script.h"

#include <errno.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Blocks of 8 KiB; a full batch has a few thousand sessions at most. */
#define BATCH_BLOCKS 64
#define BATCH_ROWS 500
/* Between two batches, to relieve the disk and free locks. */
#define PAUSE_MS 20
/* A part is 32 MiB, or 1/64 of a larger table. */
#define PART_BLOCKS 4096
#define PARTS 64
/* Rotated tokens are needed for a minute, attempts until their window ends. */
#define ROTATED_KEEP_S 600
#define ATTEMPTS_KEEP_S 60
/* Allowed difference between clocks about the expiry of tokens and
 * assertions. */
#define REVOCATIONS_KEEP_S 3600
#define ASSERTIONS_KEEP "interval '1 hour'"

/* Held during a sweep by an otherwise idle transaction.  So the lock ends with
 * the process, works through a pooler and holds no snapshot. */
#define LOCK "SELECT pg_try_advisory_xact_lock(7236589412357)"

/* The thread of a serving process. */
struct sweeper {
    const struct config *cfg;
    pthread_t thread;
    sem_t stop;
    uint64_t cursor; /* first block of the next part */
};

struct sweep {
    const struct config *cfg;
    struct sweeper *sweeper; /* NULL to sweep everything without pauses */
    struct db_script *lock, *work;
    enum sweep_result result;
    struct error *e;
};

_Atomic int64_t sweep_revocations = -1;

static struct timespec in_ms(int64_t ms)
{
    int64_t at = db_now_ms() + ms;

    return (struct timespec){(time_t) (at / 1000),
                             (long) (at % 1000) * 1000000};
}

/* False if the thread must stop. */
static bool sleep_ms(struct sweeper *s, int64_t ms)
{
    struct timespec until = in_ms(ms);

    while (sem_clockwait(&s->stop, CLOCK_MONOTONIC, &until) != 0) {
        if (errno == ETIMEDOUT) {
            return true;
        }
    }
    (void) sem_post(&s->stop); /* for the next call */
    return false;
}

void sweep_part(uint64_t blocks, uint64_t cursor, uint64_t *first,
                uint64_t *count)
{
    uint64_t max = blocks / PARTS > PART_BLOCKS ? blocks / PARTS : PART_BLOCKS;

    *first = blocks > max ? cursor % blocks : 0; /* a small table is one part */
    *count = blocks - *first < max ? blocks - *first : max;
}

/* -- statements -- */

static bool stop_with(struct sweep *s, enum sweep_result result)
{
    s->result = result;
    return false;
}

static bool failed(struct sweep *s, const struct db_script *db)
{
    const struct db_error *error = db_script_error(db);

    if (strcmp(error->state, "42P01") == 0) {
        error_write(s->e,
                    "the database is not migrated: run identity-fcgi migrate");
    } else {
        error_write(s->e, "the database failed: %s", error->message);
    }
    return stop_with(s, SWEEP_FAILED);
}

/* Returns the number in the result or, without rows, the number of changed
 * rows. */
static bool run_number(struct sweep *s, const char *sql,
                       const struct db_params *p, int64_t *out)
{
    struct db_rows *rows;

    if (!db_script_begin(s->work) || !db_script_query(s->work, sql, p, &rows)) {
        return failed(s, s->work);
    }
    *out = db_row_count(rows) > 0 ? strtoll(db_text(rows, 0, 0, NULL), NULL, 10)
                                  : (int64_t) db_affected(rows);
    db_rows_free(rows);
    return db_script_run(s->work, "COMMIT", NULL, 0) || failed(s, s->work);
}

/* $1 is the time to keep rows, $2 the batch size, $3 and $4 the block range. */
#define IN_BLOCKS                                                              \
    " WHERE ctid >= format('(%s,0)', $3)::tid"                                 \
    "   AND ctid < format('(%s,0)', $4)::tid"

/* rotated_tokens is small: it is written only if PLATFORM_AUTH_REFRESH_REUSE is
 * revoke, and a refresh deletes older rows of its session. */
static const struct kind {
    const char *sql;
    int64_t keep_s;
    const char *table; /* NULL if an index by time is used */
} kinds[SWEEP_KINDS] = {
    {"DELETE FROM auth_sessions WHERE session_id = ANY (ARRAY("
     "  SELECT session_id FROM auth_sessions" IN_BLOCKS
     "     AND (expires_at < now() - make_interval(secs => $1)"
     "          OR revoked_at < now() - make_interval(secs => $1))"
     "   LIMIT $2 FOR UPDATE SKIP LOCKED))",
     SWEEP_KEEP_S, "auth_sessions"},
    /* Rows of this table are never updated, so a ctid stays valid. */
    {"DELETE FROM rotated_tokens WHERE ctid = ANY (ARRAY("
     "  SELECT ctid FROM rotated_tokens" IN_BLOCKS
     "     AND rotated_at < now() - make_interval(secs => $1)"
     "   LIMIT $2 FOR UPDATE SKIP LOCKED))",
     ROTATED_KEEP_S, "rotated_tokens"},
    {"DELETE FROM login_attempts WHERE ctid = ANY (ARRAY("
     "  SELECT ctid FROM login_attempts"
     "   WHERE window_ends_at < now() - make_interval(secs => $1)"
     "   ORDER BY window_ends_at LIMIT $2 FOR UPDATE SKIP LOCKED))",
     ATTEMPTS_KEEP_S, NULL},
    /* Rows of this table are never updated either. */
    {"DELETE FROM session_revocations WHERE ctid = ANY (ARRAY("
     "  SELECT ctid FROM session_revocations"
     "   WHERE dies_at < now() - make_interval(secs => $1)"
     "   ORDER BY dies_at LIMIT $2))",
     REVOCATIONS_KEEP_S, NULL},
};

const char *const sweep_names[SWEEP_KINDS] = {"sessions", "rotatedTokens",
                                              "attempts", "revocations"};

/* A table may have hash partitions of similar size.  A range of blocks is then
 * applied to each partition, divided by their number. */
#define PARTITIONS                                                             \
    " FROM (SELECT $1::regclass AS t UNION ALL"                                \
    "       SELECT inhrelid FROM pg_inherits"                                  \
    "        WHERE inhparent = $1::regclass) AS p"

static const char count_sql[] = "SELECT greatest(count(*) - 1, 1)" PARTITIONS;
static const char blocks_sql[] =
    "SELECT max(pg_relation_size(t))"
    "       / current_setting('block_size')::bigint" PARTITIONS;

/* Repeats a deletion until a batch is not full. */
static bool drain(struct sweep *s, const char *sql, const struct db_params *p,
                  int64_t *total)
{
    int64_t gone = BATCH_ROWS;

    while (gone == BATCH_ROWS) {
        if (s->sweeper != NULL && !sleep_ms(s->sweeper, PAUSE_MS)) {
            return stop_with(s, SWEEP_STOPPED);
        }
        if (!run_number(s, sql, p, &gone)) {
            return false;
        }
        *total += gone;
    }
    return true;
}

/* Deletes from a table, or from its part at *cursor, which is advanced. */
static bool sweep_kind(struct sweep *s, const struct kind *k, int64_t keep_s,
                       uint64_t *cursor, int64_t *total)
{
    struct db_params of_table = {0};
    uint64_t first = 0, count;
    int64_t block_count = 1, partition_count = 1;

    db_params(&of_table, db_any(k->table));
    if (k->table != NULL &&
        (!run_number(s, count_sql, &of_table, &partition_count) ||
         !run_number(s, blocks_sql, &of_table, &block_count))) {
        return false;
    }
    block_count *= partition_count;
    count = (uint64_t) block_count;
    if (cursor != NULL) {
        sweep_part((uint64_t) block_count, *cursor, &first, &count);
    }
    for (uint64_t n = 0; n < count; n += BATCH_BLOCKS) {
        uint64_t step = count - n < BATCH_BLOCKS ? count - n : BATCH_BLOCKS;
        struct db_params p = {0};

        db_params(&p, DB_INT(keep_s), DB_INT(BATCH_ROWS),
                  DB_INT((int64_t) (first + n) / partition_count),
                  DB_INT((int64_t) (first + n + step) / partition_count));
        if (!drain(s, k->sql, &p, total)) {
            return false;
        }
    }
    if (cursor != NULL) {
        *cursor = first + count < (uint64_t) block_count ? first + count : 0;
    }
    return true;
}

/* -- sweeping -- */

static bool open_script(struct sweep *s, struct db_script **db)
{
    *db = db_script_open(s->cfg, s->cfg->db_statement_timeout_ms, s->e);
    return *db != NULL || stop_with(s, SWEEP_FAILED);
}

static bool take_lock(struct sweep *s)
{
    char locked[8];

    return open_script(s, &s->lock) &&
           ((db_script_begin(s->lock) &&
             db_script_run(s->lock, LOCK, locked, sizeof(locked))) ||
            failed(s, s->lock)) &&
           (locked[0] == 't' || stop_with(s, SWEEP_BUSY));
}

/* Every process counts, even if another one sweeps. */
static bool count_revocations(struct sweep *s)
{
    struct db_params none = {0};
    int64_t left = 0;

    if (!run_number(s, "SELECT count(*) FROM session_revocations", &none,
                    &left)) {
        return false;
    }
    sweep_revocations = left;
    return true;
}

/* Makes the partitions that the audit needs next and drops expired ones. */
static bool sweep_audit(struct sweep *s)
{
    struct db_params p = {0};

    db_params(&p, DB_INT(s->cfg->audit_keep_s));
    return run_number(s, "SELECT audit_months($1)", &p, &(int64_t){0});
}

/* Deletes what has expired and can no longer be used. */
static bool sweep_expired(struct sweep *s)
{
    struct db_params p = {0};

    db_params(&p, DB_INT(BATCH_ROWS));
    return drain(s,
                 "DELETE FROM reset_codes WHERE account_id = ANY (ARRAY("
                 "  SELECT account_id FROM reset_codes"
                 "   WHERE expires_at < now() - interval '1 day'"
                 "   ORDER BY expires_at LIMIT $1))",
                 &p, &(int64_t){0}) &&
           drain(s,
                 "DELETE FROM client_assertions WHERE jti_sha256 = ANY (ARRAY("
                 "  SELECT jti_sha256 FROM client_assertions"
                 "   WHERE dies_at < now() - " ASSERTIONS_KEEP
                 "   ORDER BY dies_at LIMIT $1))",
                 &p, &(int64_t){0}) &&
           drain(s,
                 "DELETE FROM client_calls WHERE (client_id, key_sha256) IN ("
                 "  SELECT client_id, key_sha256 FROM client_calls"
                 "   WHERE called_at < now() - interval '24 hours'"
                 "   ORDER BY called_at LIMIT $1)",
                 &p, &(int64_t){0}) &&
           drain(s,
                 "DELETE FROM factor_tokens WHERE token_sha256 = ANY (ARRAY("
                 "  SELECT token_sha256 FROM factor_tokens"
                 "   WHERE expires_at < now() ORDER BY expires_at LIMIT $1))",
                 &p, &(int64_t){0}) &&
           drain(s,
                 "DELETE FROM factors WHERE factor_id = ANY (ARRAY("
                 "  SELECT factor_id FROM factors WHERE confirmed_at IS NULL"
                 "     AND created_at < now() - interval '1 hour'"
                 "   ORDER BY created_at LIMIT $1))",
                 &p, &(int64_t){0});
}

static enum sweep_result sweep(struct sweep *s, int64_t keep_s,
                               int64_t counts[SWEEP_KINDS])
{
    bool ok;

    memset(counts, 0, SWEEP_KINDS * sizeof(*counts));
    s->e->text[0] = '\0';
    ok = open_script(s, &s->work) && count_revocations(s) && take_lock(s);
    for (int i = 0; ok && i < SWEEP_KINDS; i++) {
        ok = i == 0
                 ? sweep_kind(s, kinds, keep_s,
                              s->sweeper != NULL ? &s->sweeper->cursor : NULL,
                              counts)
                 : sweep_kind(s, &kinds[i], kinds[i].keep_s, NULL, &counts[i]);
    }
    ok = ok && sweep_audit(s) && sweep_expired(s);
    db_script_close(s->work);
    db_script_close(s->lock);
    return ok ? SWEEP_DONE : s->result;
}

enum sweep_result sweep_run(const struct config *cfg, int64_t keep_s,
                            int64_t counts[SWEEP_KINDS], struct error *e)
{
    struct sweep s = {.cfg = cfg, .e = e};

    return sweep(&s, keep_s, counts);
}

/* -- the thread -- */

static void sweep_once(struct sweeper *sweeper)
{
    struct error e;
    struct sweep s = {.cfg = sweeper->cfg, .sweeper = sweeper, .e = &e};
    struct log_field fields[SWEEP_KINDS];
    int64_t counts[SWEEP_KINDS], any = 0;
    enum sweep_result result = sweep(&s, SWEEP_KEEP_S, counts);

    for (unsigned i = 0; i < SWEEP_KINDS; i++) {
        metrics_add(METRICS_SWEPT_SESSIONS + i, (uint64_t) counts[i]);
        fields[i] = LOG_NUMBER(sweep_names[i], counts[i]);
        any += counts[i];
    }
    metrics_count(result == SWEEP_FAILED ? METRICS_SWEEPS_FAILED
                  : result == SWEEP_BUSY ? METRICS_SWEEPS_BUSY
                                         : METRICS_SWEEPS);
    if (result == SWEEP_FAILED) {
        log_line(LOG_WARN_, "sweep.failed", "%s", e.text);
    } else if (result == SWEEP_BUSY) {
        log_line(LOG_DEBUG_, "sweep.busy", "another process is sweeping");
    }
    if (any > 0 || result == SWEEP_DONE) {
        log_event(any > 0 ? LOG_INFO_ : LOG_DEBUG_, "sweep.done", NULL, fields,
                  SWEEP_KINDS);
    }
}

/* Without synchronous standbys, all settings except off wait for the disk. */
static const char forgetful_sql[] =
    "SELECT CASE level"
    "    WHEN 'off' THEN 'a crash of the server'"
    "    WHEN 'local' THEN 'the failover to a standby'"
    "    WHEN 'remote_write' THEN 'a crash of server and standby'"
    "    END || ' loses commits: synchronous_commit is ' || level"
    "  FROM current_setting('synchronous_commit') AS level"
    " WHERE level = 'off' OR (level IN ('local', 'remote_write')"
    "   AND current_setting('synchronous_standby_names') <> '')";

/* A lost commit makes logged-out and replaced tokens valid again. */
static void warn_of_loss(const struct config *cfg)
{
    char why[256];
    struct error e;
    struct db_script *db =
        db_script_open(cfg, cfg->db_statement_timeout_ms, &e);

    if (db != NULL && db_script_run(db, forgetful_sql, why, sizeof(why)) &&
        why[0] != '\0') {
        log_line(LOG_WARN_, "db.not_durable",
                 "%s; ended sessions may come back, and identity-fcgi "
                 "sessions revoke --help says what to do then",
                 why);
    }
    db_script_close(db);
}

/* Checks durability here, where no request waits for it. */
static void *run(void *arg)
{
    struct sweeper *s = arg;
    int64_t interval_ms = s->cfg->sweep_interval_s * 1000;
    unsigned char random[8] = {0};

    warn_of_loss(s->cfg);
    if (interval_ms == 0) {
        return NULL;
    }

    /* Processes that start together begin at different times, and at different
     * places of a large table. */
    (void) RAND_bytes(random, sizeof(random));
    memcpy(&s->cursor, random, 4);
    if (!sleep_ms(s, interval_ms / 2 + interval_ms / 2 * random[4] / 256)) {
        return NULL;
    }
    do {
        sweep_once(s);
    } while (sleep_ms(s, interval_ms));
    return NULL;
}

struct sweeper *sweep_start(const struct config *cfg)
{
    struct sweeper *s = calloc(1, sizeof(*s));

    if (s != NULL) {
        s->cfg = cfg;
        (void) sem_init(&s->stop, 0, 0);
        if (pthread_create(&s->thread, NULL, run, s) == 0) {
            return s;
        }
        free(s);
    }
    log_line(LOG_ERROR_, "sweep.failed", "no memory for the sweeping thread");
    return NULL;
}

void sweep_stop(struct sweeper *s)
{
    if (s != NULL) {
        (void) sem_post(&s->stop);
    }
}

bool sweep_join(struct sweeper *s, int wait_ms)
{
    struct timespec until = in_ms(wait_ms);

    sweep_stop(s);
    if (s != NULL &&
        pthread_clockjoin_np(s->thread, NULL, CLOCK_MONOTONIC, &until) != 0) {
        return false;
    }
    free(s);
    return true;
}
