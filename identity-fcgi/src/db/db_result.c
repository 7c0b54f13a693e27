/* Reads what a statement gave. */

#include "db/db_pg.h"

#include <stdlib.h>

static const PGresult *result(const struct db_rows *rows)
{
    return (const PGresult *) rows;
}

size_t db_row_count(const struct db_rows *rows)
{
    return (size_t) PQntuples(result(rows));
}

size_t db_affected(const struct db_rows *rows)
{
    /* libpq's signature lacks a const. */
    const char *n = PQcmdTuples((PGresult *) rows);

    return (size_t) strtoul(n, NULL, 10);
}

int db_column(const struct db_rows *rows, const char *name)
{
    return PQfnumber(result(rows), name);
}

static const unsigned char *bytes_at(const struct db_rows *rows, size_t row,
                                     int col, size_t *len)
{
    *len = (size_t) PQgetlength(result(rows), (int) row, col);
    return (const unsigned char *) PQgetvalue(result(rows), (int) row, col);
}

bool db_is_null(const struct db_rows *rows, size_t row, int col)
{
    return PQgetisnull(result(rows), (int) row, col) != 0;
}

void db_uuid(const struct db_rows *rows, size_t row, int col, char out[37])
{
    size_t len;
    const unsigned char *bytes = bytes_at(rows, row, col, &len);

    if (len == 16) {
        db_uuid_text(bytes, out);
    } else {
        out[0] = '\0';
    }
}

int64_t db_int64(const struct db_rows *rows, size_t row, int col)
{
    size_t len;
    const unsigned char *bytes = bytes_at(rows, row, col, &len);
    uint64_t v = 0;

    for (size_t i = 0; len == 8 && i < 8; i++) {
        v = v << 8 | bytes[i];
    }
    return (int64_t) v;
}

int64_t db_time_us(const struct db_rows *rows, size_t row, int col)
{
    return db_int64(rows, row, col) + DB_EPOCH_US;
}

bool db_bool(const struct db_rows *rows, size_t row, int col)
{
    size_t len;
    const unsigned char *bytes = bytes_at(rows, row, col, &len);

    return len == 1 && bytes[0] != 0;
}

const char *db_text(const struct db_rows *rows, size_t row, int col,
                    size_t *len)
{
    size_t n;
    const unsigned char *bytes = bytes_at(rows, row, col, &n);

    if (len != NULL) {
        *len = n;
    }
    return (const char *) bytes;
}

void db_array_open(const struct db_rows *rows, size_t row, int col,
                   struct db_array *array)
{
    size_t len;
    const unsigned char *bytes = bytes_at(rows, row, col, &len);

    db_array_bind(array, bytes, len);
}

void db_rows_free(struct db_rows *rows)
{
    PQclear((PGresult *) rows);
}
