/* PostgreSQL's binary formats: parameters out, rows in. */

#include "db/db.h"

#include "base/metrics.h"
#include "base/uuid.h"

#include <endian.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#define OID_ANY 0
#define OID_BOOL 16
#define OID_UUID 2950

int64_t db_now_ms(void)
{
    return metrics_now_us() / 1000;
}

void db_write_int64(unsigned char out[8], int64_t v)
{
    uint64_t be = htobe64((uint64_t) v);

    memcpy(out, &be, sizeof(be));
}

/* -- parameters ----------------------------------------------------------- */

static void add(struct db_params *p, unsigned type, const void *value,
                size_t len)
{
    p->types[p->count] = type;
    p->values[p->count] = value;
    p->lengths[p->count] = (int) len;
    p->formats[p->count] = type != OID_ANY;
    p->count += p->count < DB_MAX_PARAMS;
}

void db_param_uuid(struct db_params *p, pj_str_t text)
{
    unsigned char *bytes = p->scratch[p->count];

    if (!uuid_parse(bytes, text)) {
        p->bad_uuid = true;
        memset(bytes, 0, UUID_BYTES);
    }
    add(p, OID_UUID, bytes, UUID_BYTES);
}

void db_param_uuid_or_null(struct db_params *p, const char *text)
{
    if (text == NULL || text[0] == '\0') {
        add(p, OID_UUID, NULL, 0);
    } else {
        db_param_uuid(p, pj_str(text));
    }
}

/* A null pointer would be SQL's null, not the empty string. */
void db_param_data(struct db_params *p, unsigned type, const void *data,
                   size_t len)
{
    add(p, type, data != NULL ? data : "", len);
}

void db_param_number(struct db_params *p, unsigned type, int64_t value)
{
    db_write_int64(p->scratch[p->count], value);
    add(p, type, p->scratch[p->count], 8);
}

void db_param_fence(struct db_params *p)
{
    p->has_fence = true; /* its value is known once there is a connection */
    p->fence = p->count;
    db_param_number(p, DB_TIMESTAMPTZ, 0);
}

void db_param_bool(struct db_params *p, bool value)
{
    p->scratch[p->count][0] = value;
    add(p, OID_BOOL, p->scratch[p->count], 1);
}

void db_param_any(struct db_params *p, const char *text)
{
    add(p, OID_ANY, text, text != NULL ? strlen(text) : 0);
}

/* -- rows ----------------------------------------------------------------- */

#define result(rows) ((const PGresult *) (rows))

size_t db_row_count(const struct db_rows *rows)
{
    return (size_t) PQntuples(result(rows));
}

size_t db_affected(const struct db_rows *rows)
{
    /* libpq's signature lacks a const. */
    return (size_t) strtoul(PQcmdTuples((PGresult *) rows), NULL, 10);
}

int db_column(const struct db_rows *rows, const char *name)
{
    return PQfnumber(result(rows), name);
}

bool db_is_null(const struct db_rows *rows, size_t row, int col)
{
    return PQgetisnull(result(rows), (int) row, col) != 0;
}

const char *db_text(const struct db_rows *rows, size_t row, int col,
                    size_t *len)
{
    if (len != NULL) {
        *len = (size_t) PQgetlength(result(rows), (int) row, col);
    }
    return PQgetvalue(result(rows), (int) row, col);
}

void db_uuid(const struct db_rows *rows, size_t row, int col, char out[37])
{
    size_t len;
    const char *bytes = db_text(rows, row, col, &len);

    out[0] = '\0';
    if (len == UUID_BYTES) {
        uuid_write(out, (const unsigned char *) bytes);
    }
}

int64_t db_int64(const struct db_rows *rows, size_t row, int col)
{
    uint64_t v = 0;
    size_t len;
    const char *bytes = db_text(rows, row, col, &len);

    if (len == sizeof(v)) {
        memcpy(&v, bytes, sizeof(v));
    }
    return (int64_t) be64toh(v);
}

bool db_bool(const struct db_rows *rows, size_t row, int col)
{
    size_t len;
    const char *bytes = db_text(rows, row, col, &len);

    return len == 1 && bytes[0] != 0;
}

void db_rows_free(struct db_rows *rows)
{
    PQclear((PGresult *) rows);
}
