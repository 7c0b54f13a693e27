/* Reads JSON bodies, and records each fault. */

#include "auth/body.h"

#include "base/parse.h"
#include "base/uuid.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CREDENTIAL_MAX 1024 /* bytes */
#define NAME_MAX_BYTES 64   /* of a member's name in a pointer */
#define LARGE 16384         /* bytes; only programs send a larger body */
#define VALUES_MAX 16384    /* values of one: 200 branches with 32 roles */

bool body_read(struct worker *w, bool optional, struct body *root)
{
    const struct fault malformed = {.code = FAULT_MALFORMED, .pointer = ""};
    pj_err_t err;

    *root = (struct body){.w = w, .pointer = ""};
    if (optional && w->req->body.len == 0) {
        return true;
    }
    if (!http_is_json(w->req->content_type)) {
        return auth_refuse(
            w, 415, "MEDIA_TYPE_UNSUPPORTED",
            "The request body must be application/json in UTF-8.");
    }
    err = pj_json_parse_large(&w->arena, w->req->body,
                              w->req->body.len > LARGE ? VALUES_MAX
                                                       : PJ_JSON_MAX_VALUES,
                              &root->value);
    if (err != PJ_OK) {
        return auth_invalid(w, malformed,
                            "The request body is not acceptable JSON: %s.",
                            pj_strerror(err));
    }
    return root->value->type == PJ_JSON_OBJECT ||
           auth_invalid(w,
                        (struct fault){.code = FAULT_WRONG_TYPE, .pointer = ""},
                        "The request body must be a JSON object.");
}

/* -- faults -- */

/* Writes the pointer of a member; of b if the name is too long for one. */
static void write_pointer(const struct body *b, pj_str_t name, struct buf *out)
{
    buf_addz(out, b->pointer);
    if (name.data == NULL || name.len > NAME_MAX_BYTES) {
        buf_addc(out, '\0');
        return;
    }
    buf_addc(out, '/');
    for (size_t i = 0; i < name.len; i++) {
        if (name.data[i] == '~') {
            buf_addz(out, "~0");
        } else if (name.data[i] == '/') {
            buf_addz(out, "~1");
        } else {
            buf_addc(out, (char) name.data[i]);
        }
    }
    buf_addc(out, '\0');
}

static bool add_fault(const struct body *b, pj_str_t name, struct fault fault,
                      const char *rule)
{
    char pointer[256];
    struct buf out;

    buf_init(&out, pointer, sizeof(pointer));
    write_pointer(b, name, &out);
    fault.pointer = out.overflow ? b->pointer : pointer;
    if (fault.pointer[0] == '\0') {
        return auth_fault(b->w, fault, "The body %s.", rule);
    }
    return auth_fault(b->w, fault, "The member %s %s.", fault.pointer + 1,
                      rule);
}

bool body_fault(const struct body *b, const char *name, struct fault fault,
                const char *rule)
{
    return add_fault(b, name != NULL ? pj_str(name) : (pj_str_t){NULL, 0},
                     fault, rule);
}

void body_only(const struct body *b, const char *const *names)
{
    const pj_json_t *m = b->value != NULL ? b->value->child : NULL;

    for (; m != NULL; m = m->next) {
        size_t i = 0;

        while (names[i] != NULL && !pj_str_eq(m->name, pj_str(names[i]))) {
            i++;
        }
        if (names[i] == NULL) {
            add_fault(b, m->name, (struct fault){.code = FAULT_UNKNOWN},
                      "is not known to this call");
        }
    }
}

/* -- values -- */

/* Finds a value of this type.  NULL if it is missing or has a fault. */
static const pj_json_t *find(const struct body *b, const char *name,
                             enum body_need need, pj_json_type_t type,
                             const char *rule)
{
    const pj_json_t *value = b->value;

    if (name != NULL && value != NULL) {
        value = pj_json_member(value, name);
    }
    if (value == NULL ||
        (need == BODY_NULLABLE && value->type == PJ_JSON_NULL)) {
        if (need == BODY_REQUIRED) {
            body_fault(b, name, (struct fault){.code = FAULT_MISSING},
                       "is missing");
        }
        return NULL;
    }
    if (value->type != type) {
        body_fault(b, name, (struct fault){.code = FAULT_WRONG_TYPE}, rule);
        return NULL;
    }
    return value;
}

static bool fits(const struct body *b, const char *name, size_t len, size_t min,
                 size_t max, const char *unit)
{
    char rule[64];

    snprintf(rule, sizeof(rule), "must be %zu to %zu %s", min, max, unit);
    if (len < min) {
        return body_fault(
            b, name,
            (struct fault){.code = FAULT_TOO_SHORT, .minimum = (int64_t) min},
            rule);
    }
    if (len > max) {
        return body_fault(
            b, name,
            (struct fault){.code = FAULT_TOO_LONG, .maximum = (int64_t) max},
            rule);
    }
    return true;
}

bool body_string(const struct body *b, const char *name, enum body_need need,
                 size_t min, size_t max, pj_str_t *out)
{
    const pj_json_t *value =
        find(b, name, need, PJ_JSON_STRING, "must be a string");

    if (value == NULL ||
        (max > 0 && !fits(b, name, value->text.len, min, max, "bytes"))) {
        return false;
    }
    *out = value->text;
    return true;
}

static void *alloc(const struct body *b, size_t size)
{
    void *mem = pj_arena_alloc(&b->w->arena, size);

    b->w->faults.no_memory |= mem == NULL;
    return mem;
}

bool body_text(const struct body *b, const char *name, enum body_need need,
               size_t min, size_t max, const char **out)
{
    pj_str_t text;
    char *copy;

    if (!body_string(b, name, need, min, max, &text)) {
        return false;
    }
    copy = alloc(b, text.len + 1);
    if (copy == NULL) {
        return false;
    }
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    *out = copy;
    return true;
}

bool body_account(const struct body *b, const char *name, enum body_need need,
                  pj_str_t *out)
{
    pj_str_t text, folded;
    unsigned char *mem;
    const char *wrong;

    if (!body_string(b, name, need, 0, 0, &text)) {
        return false;
    }
    mem = alloc(b, text.len + 1);
    if (mem == NULL) {
        return false;
    }
    wrong = parse_account_name(text, mem, &folded);
    if (!fits(b, name, folded.len, 1, ACCOUNT_NAME_MAX, "bytes")) {
        return false;
    }
    if (wrong != NULL) {
        return body_fault(b, name, (struct fault){.code = FAULT_MALFORMED},
                          "must not hold control characters");
    }
    *out = folded;
    return true;
}

bool body_credential(const struct body *b, const char *name,
                     enum body_need need, pj_str_t *out)
{
    return body_string(b, name, need, 1, CREDENTIAL_MAX, out);
}

bool body_uuid(const struct body *b, const char *name, enum body_need need,
               const char **out)
{
    unsigned char bytes[UUID_BYTES];
    const char *text;

    if (!body_text(b, name, need, 0, 0, &text)) {
        return false;
    }
    if (!uuid_parse(bytes, pj_str(text))) {
        return body_fault(b, name, (struct fault){.code = FAULT_MALFORMED},
                          "must be a UUID");
    }
    *out = text;
    return true;
}

bool body_word(const struct body *b, const char *name, enum body_need need,
               const char *const *words, const char **out)
{
    char rule[128];
    struct buf text;
    pj_str_t value;

    if (!body_string(b, name, need, 0, 0, &value)) {
        return false;
    }
    buf_init(&text, rule, sizeof(rule) - 1);
    buf_addz(&text, "must be one of");
    for (; *words != NULL; words++) {
        if (pj_str_eq(value, pj_str(*words))) {
            *out = *words;
            return true;
        }
        buf_addf(&text, "%s %s", text.data[text.len - 1] == 'f' ? "" : ",",
                 *words);
    }
    rule[text.len] = '\0';
    return body_fault(b, name, (struct fault){.code = FAULT_NOT_ALLOWED}, rule);
}

bool body_integer(const struct body *b, const char *name, enum body_need need,
                  int64_t min, int64_t max, int64_t *out)
{
    static const char integer[] = "must be an integer";
    const pj_json_t *value = find(b, name, need, PJ_JSON_NUMBER, integer);
    char digits[20], rule[80];
    size_t len;
    int64_t n;

    if (value == NULL) {
        return false;
    }
    len = value->text.len;
    if (memchr(value->text.data, '.', len) != NULL ||
        memchr(value->text.data, 'e', len) != NULL ||
        memchr(value->text.data, 'E', len) != NULL) {
        return body_fault(b, name, (struct fault){.code = FAULT_WRONG_TYPE},
                          integer);
    }
    /* A longer number is cut, and is still beyond every bound. */
    snprintf(digits, sizeof(digits), "%.*s", (int) len,
             (const char *) value->text.data);
    n = strtoll(digits, NULL, 10);
    if (n < min || n > max) {
        snprintf(rule, sizeof(rule), "must be %" PRId64 " to %" PRId64, min,
                 max);
        return body_fault(b, name,
                          (struct fault){.code = FAULT_OUT_OF_RANGE,
                                         .minimum = min,
                                         .maximum = max},
                          rule);
    }
    *out = n;
    return true;
}

bool body_flag(const struct body *b, const char *name, enum body_need need,
               bool *out)
{
    const pj_json_t *value =
        find(b, name, need, PJ_JSON_BOOL, "must be true or false");

    if (value == NULL) {
        return false;
    }
    *out = value->boolean;
    return true;
}

/* -- objects and arrays -- */

/* Sets out to a value in b, at this name or index. */
static void enter(const struct body *b, const char *name, size_t index,
                  const pj_json_t *value, struct body *out)
{
    size_t cap = strlen(b->pointer) + (name != NULL ? strlen(name) : 0) + 24;
    char *pointer = alloc(b, cap);

    if (pointer != NULL && name != NULL) {
        snprintf(pointer, cap, "%s/%s", b->pointer, name);
    } else if (pointer != NULL) {
        snprintf(pointer, cap, "%s/%zu", b->pointer, index);
    }
    *out = (struct body){.w = b->w,
                         .value = value,
                         .pointer = pointer != NULL ? pointer : "",
                         .next = value->child};
}

static bool enter_found(const struct body *b, const char *name,
                        const pj_json_t *value, struct body *out)
{
    if (value != NULL && name != NULL) {
        enter(b, name, 0, value, out);
    } else if (value != NULL) {
        *out = *b;
    }
    return value != NULL;
}

bool body_object(const struct body *b, const char *name, enum body_need need,
                 struct body *out)
{
    return enter_found(
        b, name, find(b, name, need, PJ_JSON_OBJECT, "must be an object"), out);
}

bool body_array(const struct body *b, const char *name, enum body_need need,
                size_t max, struct body *out)
{
    const pj_json_t *value =
        find(b, name, need, PJ_JSON_ARRAY, "must be an array");

    return value != NULL && fits(b, name, value->count, 0, max, "elements") &&
           enter_found(b, name, value, out);
}

bool body_next(struct body *array, struct body *element)
{
    const pj_json_t *value = array->next;

    if (value == NULL) {
        return false;
    }
    array->next = value->next;
    enter(array, NULL, array->index++, value, element);
    return true;
}
