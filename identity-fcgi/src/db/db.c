/* Parameters and rows in PostgreSQL's binary formats. */

#include "db/db.h"

#include "base/metrics.h"
#include "base/uuid.h"

#include <endian.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

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

struct db_value db_any(const char *text)
{
    return (struct db_value){.null = text == NULL,
                             .text = pj_str(text != NULL ? text : "")};
}

struct db_value db_id_or_null(const char *text)
{
    struct db_value v = db_any(text);

    v.type = OID_UUID;
    v.null = v.text.len == 0;
    return v;
}

/* Returns the bytes of v, in scratch unless they are in its text. */
static pj_str_t bytes_of(struct db_params *p, const struct db_value *v,
                         unsigned char *scratch)
{
    switch (v->type) {
    case OID_UUID:
        if (!uuid_parse(scratch, v->text)) {
            p->bad_uuid = true;
            memset(scratch, 0, UUID_BYTES);
        }
        return (pj_str_t){scratch, UUID_BYTES};
    case OID_BOOL:
        scratch[0] = v->number != 0;
        return (pj_str_t){scratch, 1};
    case OID_INT8:
    case OID_TIMESTAMPTZ:
        db_write_int64(scratch, v->number);
        return (pj_str_t){scratch, 8};
    default: /* a NULL pointer would become SQL's null */
        return v->text.data != NULL ? v->text : pj_str("");
    }
}

void db_params_add(struct db_params *p, const struct db_value *values,
                   size_t count)
{
    for (const struct db_value *v = values; v < values + count; v++) {
        size_t n = p->count;
        pj_str_t bytes = {NULL, 0};

        if (!v->null) {
            bytes = bytes_of(p, v, p->scratch[n]);
        }
        if (v->fence) {
            p->has_fence = true; /* set by the connection */
            p->fence = n;
        }
        p->types[n] = v->type;
        p->values[n] = (const char *) bytes.data;
        p->lengths[n] = (int) bytes.len;
        p->formats[n] = v->type != OID_ANY;
        p->count += n < DB_MAX_PARAMS;
    }
}

/* -- rows ----------------------------------------------------------------- */

#define result(rows) ((const PGresult *) (rows))

size_t db_row_count(const struct db_rows *rows)
{
    return (size_t) PQntuples(result(rows));
}

size_t db_affected(const struct db_rows *rows)
{
    /* PQcmdTuples() lacks a const. */
    return (size_t) strtoul(PQcmdTuples((PGresult *) rows), NULL, 10);
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
