/* PostgreSQL's values: statements, their parameters, their rows. */

#pragma once

#include <pj.h>

#define DB_MAX_PARAMS 20

/* PostgreSQL counts time from 2000-01-01. */
#define DB_EPOCH_US (INT64_C(946684800) * 1000000)

/* A statement.  Prepared once per connection if PLATFORM_DB_PREPARED is on. */
struct db_statement {
    const char *name;
    const char *sql;
    enum {
        DB_READS = false,
        DB_WRITES = true, /* must not be repeated if its answer is lost */
        /* Reads, and is never prepared: the best plan depends on the
         * parameters, and PostgreSQL would keep a single plan after a few
         * executions. */
        DB_SEARCHES
    } kind;
};

#define DB_PARAM_PLACES (DB_MAX_PARAMS + 1)

/* Parameters in order.  Zero-initialise.  Parameters over the limit share the
 * last place and are not counted, so the server refuses the statement. */
struct db_params {
    size_t count;
    unsigned types[DB_PARAM_PLACES];
    const char *values[DB_PARAM_PLACES];
    int lengths[DB_PARAM_PLACES];
    int formats[DB_PARAM_PLACES];               /* 1 for binary */
    unsigned char scratch[DB_PARAM_PLACES][16]; /* UUIDs and integers */
    bool bad_uuid;  /* a UUID was malformed, so the statement cannot match a row
                     */
    bool has_fence; /* the connection sets parameter number fence */
    size_t fence;
};

struct db_value {
    enum {
        OID_ANY = 0, /* text of a type that the server infers */
        OID_BOOL = 16,
        OID_BYTEA = 17,
        OID_INT8 = 20,
        OID_TEXT = 25,
        OID_TIMESTAMPTZ = 1184,
        OID_UUID = 2950
    } type;
    bool null, fence;
    pj_str_t text;
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
/* The deadline of the statement by the database's clock.  A write compares it
 * with clock_timestamp(), so that a server that hung does not execute the write
 * after the client was told that nothing happened.  The comparison is made
 * before the wait for a locked row; the statement timeout bounds that wait. */
#define DB_FENCE DB_VALUE(OID_TIMESTAMPTZ, .fence = true)
/* NULL becomes SQL's null; db_id_or_null() treats "" the same. */
struct db_value db_any(const char *text);
struct db_value db_id_or_null(const char *text);

/* Adds parameters; db_params() is the same for a list of values. */
void db_params_add(struct db_params *p, const struct db_value *values,
                   size_t count);
#define DB_VALUES(...)                                                         \
    (const struct db_value[]){__VA_ARGS__},                                    \
        sizeof((const struct db_value[]){__VA_ARGS__}) /                       \
            sizeof(struct db_value)
#define db_params(p, ...) db_params_add(p, DB_VALUES(__VA_ARGS__))

enum db_outcome {
    DB_DONE,
    DB_REFUSED, /* refused by the server, nothing was changed */
    DB_LOCKED,  /* refused after waiting too long for a locked row */
    DB_RETRY,   /* refused, but a second attempt may succeed */
    DB_LOST,    /* no answer before the statement was sent */
    DB_DOUBT    /* no answer to the statement */
};

struct db_error {
    char state[6];       /* SQLSTATE, or "" without an answer */
    char constraint[64]; /* the violated constraint, or "" */
    char message[256];   /* one line */
};

struct db_rows; /* a result, freed by db_rows_free() */

size_t db_row_count(const struct db_rows *rows);
/* Rows that an INSERT, UPDATE or DELETE changed. */
size_t db_affected(const struct db_rows *rows);
bool db_is_null(const struct db_rows *rows, size_t row, int col);
/* Writes the text of a UUID, or "" for null. */
void db_uuid(const struct db_rows *rows, size_t row, int col, char out[37]);
int64_t db_int64(const struct db_rows *rows, size_t row, int col);
/* A timestamptz in microseconds since 1970. */
#define db_time_us(rows, row, col) (db_int64(rows, row, col) + DB_EPOCH_US)
bool db_bool(const struct db_rows *rows, size_t row, int col);
/* Valid until the rows are freed; *len may be NULL. */
const char *db_text(const struct db_rows *rows, size_t row, int col,
                    size_t *len);
void db_rows_free(struct db_rows *rows);

/* CLOCK_MONOTONIC in milliseconds. */
int64_t db_now_ms(void);

/* Writes PostgreSQL's binary format of bigint and timestamptz. */
void db_write_int64(unsigned char out[8], int64_t v);
