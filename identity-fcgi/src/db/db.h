/* PostgreSQL's values: statements, their parameters, and the rows they give.
 */

#pragma once

#include <pj.h>

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

void db_param_uuid(struct db_params *p, pj_str_t text);
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

/* What the server said of a failure. */
struct db_error {
    char state[6];       /* SQLSTATE; "" where there was no answer */
    char constraint[64]; /* the one that was violated, or "" */
    char message[256];   /* one line */
};

struct db_rows; /* a result; db_rows_free() it */

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

/* Milliseconds of a clock that never jumps. */
int64_t db_now_ms(void);

/* A bigint, and so a timestamptz, as it travels in binary. */
void db_write_int64(unsigned char out[8], int64_t v);
