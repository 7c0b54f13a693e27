/* CBOR of passkeys, bounded. */

#include "auth/webauthn_cbor.h"

#include <cbor.h>
#include <web.h>

#define LEVELS 4

/* -- heads: of an item what is before its elements -- */

enum head_kind {
    HEAD_REFUSED,
    HEAD_SIMPLE, /* without elements; its value is not read */
    HEAD_TEXT,
    HEAD_BYTES,
    HEAD_ARRAY,
    HEAD_MAP
};

struct cbor_head {
    enum head_kind kind;
    pj_str_t text;     /* HEAD_TEXT, HEAD_BYTES */
    uint64_t elements; /* HEAD_ARRAY; HEAD_MAP: keys and values */
};

static void on_refused(void *head)
{
    ((struct cbor_head *) head)->kind = HEAD_REFUSED;
}

static void on_text(void *head, cbor_data data, size_t len)
{
    *(struct cbor_head *) head =
        (struct cbor_head){.kind = HEAD_TEXT, .text = {data, len}};
}

static void on_bytes(void *head, cbor_data data, size_t len)
{
    *(struct cbor_head *) head =
        (struct cbor_head){.kind = HEAD_BYTES, .text = {data, len}};
}

static void on_array(void *head, size_t elements)
{
    *(struct cbor_head *) head =
        (struct cbor_head){.kind = HEAD_ARRAY, .elements = elements};
}

static void on_map(void *head, size_t pairs)
{
    if (pairs > SIZE_MAX / 2) {
        on_refused(head);
        return;
    }
    *(struct cbor_head *) head =
        (struct cbor_head){.kind = HEAD_MAP, .elements = 2 * pairs};
}

static void on_tag(void *head, uint64_t tag)
{
    (void) tag;
    on_refused(head);
}

/* Takes a head off *rest. */
static struct cbor_head next(pj_str_t *rest)
{
    struct cbor_head head = {.kind = HEAD_SIMPLE};
    struct cbor_callbacks callbacks = cbor_empty_callbacks;
    struct cbor_decoder_result result;

    callbacks.string = on_text;
    callbacks.byte_string = on_bytes;
    callbacks.array_start = on_array;
    callbacks.map_start = on_map;
    callbacks.string_start = on_refused;
    callbacks.byte_string_start = on_refused;
    callbacks.indef_array_start = on_refused;
    callbacks.indef_map_start = on_refused;
    callbacks.indef_break = on_refused;
    callbacks.tag = on_tag;
    result = cbor_stream_decode(rest->data, rest->len, &callbacks, &head);
    if (result.status != CBOR_DECODER_FINISHED) {
        head.kind = HEAD_REFUSED;
        return head;
    }
    *rest = web_skip(*rest, result.read);
    return head;
}

/* -- items -- */

/* Ends at the end of the data at the latest: each element takes a byte. */
static bool skip(pj_str_t *rest, unsigned levels)
{
    struct cbor_head head = next(rest);

    if (head.kind == HEAD_REFUSED || (head.kind >= HEAD_ARRAY && levels == 0)) {
        return false;
    }
    while (head.elements-- > 0) {
        if (!skip(rest, levels - 1)) {
            return false;
        }
    }
    return true;
}

bool webauthn_cbor_skip(pj_str_t *rest)
{
    return skip(rest, LEVELS);
}

/* Reads a member whose name and value are next.  False if it is
 * unknown, repeated or of another type. */
static bool read_member(pj_str_t *rest, bool *has_format, bool *has_statement,
                        pj_str_t *auth_data)
{
    struct cbor_head name = next(rest), value = next(rest);

    if (name.kind != HEAD_TEXT) {
        return false;
    }
    if (pj_str_eq(name.text, PJ_STR("fmt")) && !*has_format) {
        *has_format = true;
        return value.kind == HEAD_TEXT && pj_str_eq(value.text, PJ_STR("none"));
    }
    if (pj_str_eq(name.text, PJ_STR("attStmt")) && !*has_statement) {
        *has_statement = true;
        return value.kind == HEAD_MAP && value.elements == 0;
    }
    if (pj_str_eq(name.text, PJ_STR("authData")) && auth_data->data == NULL) {
        *auth_data = value.text;
        return value.kind == HEAD_BYTES;
    }
    return false;
}

bool webauthn_cbor_attestation(pj_str_t object, pj_str_t *auth_data)
{
    bool has_format = false, has_statement = false;
    struct cbor_head map = next(&object);

    *auth_data = (pj_str_t){NULL, 0};
    if (map.kind != HEAD_MAP || map.elements != 6) {
        return false;
    }
    for (int i = 0; i < 3; i++) {
        if (!read_member(&object, &has_format, &has_statement, auth_data)) {
            return false;
        }
    }
    return object.len == 0;
}
