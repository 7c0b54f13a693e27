/* PostgreSQL's values: statements, their parameters, their rows. */

#pragma once

#include <pj.h>

#define DB_MAX_PARAMS 20

/* Times: PostgreSQL counts from 2000, we from 1970. */
#define DB_EPOCH_US (INT64_C(946684800) * 1000000)

/* Prepared once a connection, where prepared statements are on. */
struct db_statement {
    const char *name;
    const char *sql;
    bool writes; /* not to be sent again when its answer is lost */
};

#define DB_PARAM_PLACES (DB_MAX_PARAMS + 1)

/* Parameters in order, zeroed at first.  The ones past the limit share the last
 * place and are not counted: the server refuses a statement with too few. */
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

/* The value of a parameter. */
struct db_value {
    enum {
        OID_ANY = 0, /* what the server infers, from text */
        OID_BOOL = 16,
        OID_BYTEA = 17,
        OID_INT8 = 20,
        OID_TEXT = 25,
        OID_TIMESTAMPTZ = 1184,
        OID_UUID = 2950
    } type;
    bool null, fence;
    pj_str_t text; /* or, of some types, */
    int64_t number;
};

#define DB_VALUE(...) ((struct db_value){__VA_ARGS__})
#define DB_UUID(str) DB_VALUE(OID_UUID, .text = (str))
#define DB_ID(z) DB_UUID(pj_str(z))
#define DB_TEXT(z) DB_VALUE(OID_TEXT, .text = pj_str(z))
#define DB_INT(n) DB_VALUE(OID_INT8, .number = (n))
#define DB_BOOL(b) DB_VALUE(OID_BOOL, .number = (b))
#define DB_TIME_US(us) DB_VALUE(OID_TIMESTAMPTZ, .number = (us) -DB_EPOCH_US)
#define DB_TIME(s) DB_TIME_US((s) *1000000)
/* The time by the database's clock, a timestamptz, at which the sender gives
 * the statement up.  A server that hung for a while could otherwise do a write
 * long after the client was told that nothing happened, so the write compares
 * this first.  (It does so before it waits for a locked row; that wait is
 * bounded by the statement timeout.) */
#define DB_FENCE DB_VALUE(OID_TIMESTAMPTZ, .fence = true)
/* NULL gives SQL's null; of an id "" too. */
struct db_value db_any(const char *text);
struct db_value db_id_or_null(const char *text);

/* Adds count values; db_params() takes them as they are. */
void db_params_add(struct db_params *p, const struct db_value *values,
                   size_t count);
#define DB_VALUES(...)                                                         \
    (const struct db_value[]){__VA_ARGS__},                                    \
        sizeof((const struct db_value[]){__VA_ARGS__}) /                       \
            sizeof(struct db_value)
#define db_params(p, ...) db_params_add(p, DB_VALUES(__VA_ARGS__))

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
/* The column of this SQL name; -1 without one. */
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
