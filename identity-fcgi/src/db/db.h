/* PostgreSQL: bounded queries over a bounded pool.  The only user of libpq. */

#ifndef DB_H_INCLUDED
#define DB_H_INCLUDED

#include "base/config.h"
#include "base/meanwhile.h"

#define DB_MAX_PARAMS 20

/* Times: PostgreSQL counts from 2000, we from 1970. */
#define DB_EPOCH_US (INT64_C(946684800) * 1000000)

/* A statement of the program's fixed set.  Prepared once a connection under
 * its name, where prepared statements are on. */
struct db_statement {
    const char *name;
    const char *sql;
    bool writes; /* not to be sent again when its answer is lost */
};

/* OIDs of parameters' types. */
enum { DB_BYTEA = 17, DB_INT8 = 20, DB_TEXT = 25, DB_TIMESTAMPTZ = 1184 };

#define DB_PARAM_PLACES (DB_MAX_PARAMS + 1)

/* Parameters in order; every db_param_*() adds the next one.  Those that are
 * too many share the last place and do not count: the server refuses a
 * statement with too few. */
struct db_params {
    size_t count;
    unsigned types[DB_PARAM_PLACES];
    const char *values[DB_PARAM_PLACES];
    int lengths[DB_PARAM_PLACES];
    int formats[DB_PARAM_PLACES];               /* 1: binary */
    unsigned char scratch[DB_PARAM_PLACES][16]; /* UUIDs and integers */
    bool bad_uuid;  /* a UUID was malformed: the statement cannot match */
    bool has_fence; /* the parameter of this number is set by the connection */
    size_t fence;
};

void db_param_uuid(struct db_params *p, const char *text, size_t len);
/* NULL or "" gives SQL's null. */
void db_param_uuid_or_null(struct db_params *p, const char *text);
void db_param_data(struct db_params *p, unsigned type, const void *data,
                   size_t len);
#define db_param_text(p, text, len) db_param_data(p, DB_TEXT, text, len)
#define db_param_bytes(p, data, len) db_param_data(p, DB_BYTEA, data, len)
void db_param_number(struct db_params *p, unsigned type, int64_t value);
#define db_param_int64(p, value) db_param_number(p, DB_INT8, value)
/* A timestamptz, given in microseconds since 1970. */
#define db_param_time_us(p, us)                                               \
    db_param_number(p, DB_TIMESTAMPTZ, (us) -DB_EPOCH_US)
/* The time by the database's clock, a timestamptz, at which the sender gives
 * the statement up.  A server that hung for a while could otherwise do a write
 * long after the client was told that nothing happened, so the write compares
 * this first.  (It does so before it waits for a locked row; that wait is
 * bounded by the statement timeout.) */
void db_param_fence(struct db_params *p);
void db_param_bool(struct db_params *p, bool value);
/* Text of the type that the server infers; NULL gives SQL's null. */
void db_param_any(struct db_params *p, const char *text);

enum db_result {
    DB_OK,
    DB_UNAVAILABLE, /* nothing was changed */
    DB_UNKNOWN      /* the answer to a write was lost */
};

struct db_rows; /* a result; db_rows_free() it */

/* The pool; one per process, sized and told where to connect by cfg, which
 * must outlive it.  NULL when memory is short. */
struct db_pool *db_pool_new(const struct config *cfg);
void db_pool_free(struct db_pool *pool);
/* How many connections there may be, how many are in use, and whether the last
 * attempt to connect was answered, but by a refusal of the role, its password
 * or the database. */
void db_pool_use(struct db_pool *pool, int *size, int *used, bool *refused);
/* Milliseconds of a clock that never jumps. */
int64_t db_now_ms(void);

/* Runs a statement on some connection of the pool, waiting for one, connecting
 * and executing until deadline_ms of db_now_ms() at most.  meanwhile, if not
 * NULL, is run while the server works.  On DB_OK *rows is the caller's. */
enum db_result db_run(struct db_pool *pool, const struct db_statement *st,
                      const struct db_params *params, int64_t deadline_ms,
                      struct meanwhile *meanwhile, struct db_rows **rows)
    __attribute__((warn_unused_result));

size_t db_row_count(const struct db_rows *rows);
/* Rows that an INSERT, UPDATE or DELETE touched. */
size_t db_affected(const struct db_rows *rows);
/* The column of this name, in small letters or as an SQL name without quotes;
 * -1 without one. */
int db_column(const struct db_rows *rows, const char *name);
bool db_is_null(const struct db_rows *rows, size_t row, int col);
/* Writes the UUID's text and a NUL; "" for null. */
void db_uuid(const struct db_rows *rows, size_t row, int col, char out[37]);
int64_t db_int64(const struct db_rows *rows, size_t row, int col);
/* A timestamptz in microseconds since 1970. */
#define db_time_us(rows, row, col) (db_int64(rows, row, col) + DB_EPOCH_US)
bool db_bool(const struct db_rows *rows, size_t row, int col);
/* Valid until the rows are freed; *len may be NULL. */
const char *db_text(const struct db_rows *rows, size_t row, int col,
                    size_t *len);
void db_rows_free(struct db_rows *rows);

/* A session for migrations, sweeps and operators: a connection of its own, for
 * transactions of several statements, each of which may take limit_ms.  NULL
 * with one line in err. */
struct db_script *db_script_open(const struct config *cfg, int64_t limit_ms,
                                 char *err, size_t err_cap);

struct db_error {
    char state[6];       /* SQLSTATE; "" where there was no answer */
    char constraint[64]; /* the one that was violated, or "" */
    char message[256];   /* one line */
};

/* The first statement that failed since the transaction began.  Without an
 * answer a COMMIT may or may not have happened, and whatever is run after it
 * fails. */
const struct db_error *db_script_error(const struct db_script *s);

/* Begins a transaction: READ COMMITTED, and each statement may take the limit,
 * whatever the role's defaults. */
bool db_script_begin(struct db_script *s) __attribute__((warn_unused_result));

/* Runs statements; the first value of the last row, if any, is copied to value
 * ("" without one).  Unlike the results of db_script_query(), which live until
 * the next statement, theirs hold no snapshot when it returns. */
bool db_script_run(struct db_script *s, const char *sql, char *value,
                   size_t value_cap) __attribute__((warn_unused_result));

/* Runs one statement with parameters.  On success *rows is the caller's, all
 * of it text, to be read by db_text() only. */
bool db_script_query(struct db_script *s, const char *sql,
                     const struct db_params *params, struct db_rows **rows)
    __attribute__((warn_unused_result));
/* Whether the server is reached by a Unix socket or a loopback address. */
bool db_script_is_local(const struct db_script *s);
void db_script_close(struct db_script *s);

#endif
