/* PostgreSQL's binary formats: parameters out, arrays and UUIDs in. */

#include "base/uuid.h"
#include "db/db_conn.h"

#include <string.h>

#define ARRAY_HEADER 20
#define OID_UUID 2950

static void put32(unsigned char *to, uint32_t v)
{
    to[0] = (unsigned char) (v >> 24);
    to[1] = (unsigned char) (v >> 16);
    to[2] = (unsigned char) (v >> 8);
    to[3] = (unsigned char) v;
}

static uint32_t get32(const unsigned char *from)
{
    return (uint32_t) from[0] << 24 | (uint32_t) from[1] << 16 |
           (uint32_t) from[2] << 8 | (uint32_t) from[3];
}

/* Any other text than a UUID's is refused. */
static bool parse(unsigned char out[UUID_BYTES], const char *text, size_t len)
{
    pj_str_t s = {(const unsigned char *) text, len};

    return uuid_parse(out, s);
}

void db_uuid_text(const unsigned char bytes[UUID_BYTES], char out[37])
{
    uuid_write(out, bytes);
    out[UUID_LEN] = '\0';
}

static void add(struct db_params *p, enum db_type type, const void *value,
                size_t len)
{
    p->types[p->count] = type;
    p->values[p->count] = value;
    p->lengths[p->count] = (int) len;
    p->count++;
}

void db_param_uuid(struct db_params *p, const char *text, size_t len)
{
    unsigned char *bytes = p->scratch[p->count];

    if (!parse(bytes, text, len)) {
        p->bad_uuid = true;
        memset(bytes, 0, UUID_BYTES);
    }
    add(p, DB_UUID, bytes, UUID_BYTES);
}

void db_param_uuid_or_null(struct db_params *p, const char *text)
{
    if (text == NULL || text[0] == '\0') {
        add(p, DB_UUID, NULL, 0);
    } else {
        db_param_uuid(p, text, strlen(text));
    }
}

void db_param_text(struct db_params *p, const void *text, size_t len)
{
    /* A null pointer would be SQL's null, not the empty string. */
    add(p, DB_TEXT, text != NULL ? text : "", len);
}

static void add64(struct db_params *p, enum db_type type, int64_t value)
{
    unsigned char *bytes = p->scratch[p->count];
    uint64_t v = (uint64_t) value;

    put32(bytes, (uint32_t) (v >> 32));
    put32(bytes + 4, (uint32_t) v);
    add(p, type, bytes, 8);
}

void db_param_int64(struct db_params *p, int64_t value)
{
    add64(p, DB_INT8, value);
}

void db_param_time_us(struct db_params *p, int64_t us)
{
    add64(p, DB_TIMESTAMPTZ, us - DB_EPOCH_US);
}

void db_param_fence(struct db_params *p)
{
    /* What it is, is known once there is a connection. */
    add(p, DB_FENCE, p->scratch[p->count], 8);
}

void db_fence_bytes(int64_t us, unsigned char out[8])
{
    uint64_t v = (uint64_t) (us - DB_EPOCH_US);

    put32(out, (uint32_t) (v >> 32));
    put32(out + 4, (uint32_t) v);
}

void db_param_bool(struct db_params *p, bool value)
{
    p->scratch[p->count][0] = value;
    add(p, DB_BOOL, p->scratch[p->count], 1);
}

void db_param_bytes(struct db_params *p, const void *data, size_t len)
{
    add(p, DB_BYTEA, data != NULL ? data : "", len);
}

void db_param_inet(struct db_params *p, const char *text)
{
    add(p, DB_INET, text, strlen(text));
}

void db_param_uuids(struct db_params *p, const void *data, size_t len)
{
    add(p, DB_UUIDS, data, len);
}

bool db_uuid_array_add(unsigned char *array, size_t *len, const char *text,
                       size_t text_len)
{
    unsigned char bytes[UUID_BYTES];
    size_t at = *len > 0 ? *len : ARRAY_HEADER;

    if (!parse(bytes, text, text_len)) {
        return false;
    }
    put32(array + at, UUID_BYTES);
    memcpy(array + at + 4, bytes, UUID_BYTES);
    *len = at + 4 + UUID_BYTES;

    put32(array, 1);     /* dimensions */
    put32(array + 4, 0); /* no nulls */
    put32(array + 8, OID_UUID);
    put32(array + 12, (uint32_t) ((*len - ARRAY_HEADER) / (4 + UUID_BYTES)));
    put32(array + 16, 1); /* lower bound */
    return true;
}

void db_array_bind(struct db_array *array, const unsigned char *data,
                   size_t len)
{
    *array = (struct db_array){0};
    /* Fewer dimensions than one is an empty array; more we never ask for. */
    if (len < ARRAY_HEADER || get32(data) != 1) {
        return;
    }
    array->count = get32(data + 12);
    array->pos = data + ARRAY_HEADER;
    array->end = data + len;
}

bool db_array_next(struct db_array *array, const unsigned char **data,
                   size_t *len)
{
    size_t left;
    uint32_t n;

    if (array->pos == array->end) {
        return false;
    }
    left = (size_t) (array->end - array->pos);
    if (left < 4) {
        return false;
    }
    n = get32(array->pos);
    if (n > left - 4) { /* null (-1) or damaged: there is no more */
        array->pos = array->end;
        return false;
    }
    *data = array->pos + 4;
    *len = n;
    array->pos += 4 + n;
    return true;
}
