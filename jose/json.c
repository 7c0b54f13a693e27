/*
 * Strict JSON: yajl's callbacks build a tree in the caller's arena.
 *
 * yajl is the lexer and grammar; what it is lax about is refused before it
 * runs (pj_json_text_check), what it does not look at in the callbacks.  Its
 * own memory is a scratch cut from the far end of the arena and given back
 * when the parse is over, so that only the tree stays.
 */

#include "pj_internal.h"

#include <openssl/crypto.h>
#include <string.h>
#include <yajl/yajl_parse.h>

/* yajl's structures and state stack, measured well under half of this. */
#define YAJL_FIXED_BYTES 2048
#define YAJL_BUF_BYTES 2048 /* smallest size of one of yajl's buffers */
#define ALIGN 16

/* Serves yajl's allocations; each block is preceded by its size. */
typedef struct {
    unsigned char *pos;
    unsigned char *end;
    unsigned char *last; /* the youngest block: grows in place */
} scratch_t;

typedef struct {
    pj_json_t *node;   /* the open array or object */
    pj_json_t *last;   /* its youngest child */
    size_t names_from; /* where its names begin in parser_t.names */
} frame_t;

typedef struct {
    pj_arena_t *arena;
    pj_str_t text;
    pj_err_t err;
    size_t values;
    size_t depth;
    frame_t frames[PJ_JSON_MAX_DEPTH];
    pj_json_t *pending; /* has its name, awaits its value */
    pj_json_t *root;
    /* The members of the open objects, innermost last, each object's sorted
     * by name: a duplicate is found in logarithmic time whatever the input. */
    const pj_json_t **names;
    size_t names_len;
    size_t names_cap;
} parser_t;

/* -- yajl's memory ---------------------------------------------------------
 */

static size_t round_up(size_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* yajl does not check for NULL: pj_json_arena_bytes() and scratch_take() see
 * to it that the scratch never runs dry. */
static void *scratch_alloc(void *ctx, size_t size)
{
    scratch_t *s = ctx;
    unsigned char *block;

    if (size > (size_t) (s->end - s->pos) ||
        round_up(size) + ALIGN > (size_t) (s->end - s->pos))
        return NULL;
    memcpy(s->pos, &size, sizeof(size));
    block = s->pos + ALIGN;
    s->pos = block + round_up(size);
    s->last = block;
    return block;
}

static void *scratch_realloc(void *ctx, void *ptr, size_t size)
{
    scratch_t *s = ctx;
    unsigned char *block = ptr, *fresh;
    size_t old;

    if (block == NULL)
        return scratch_alloc(s, size);
    memcpy(&old, block - ALIGN, sizeof(old));
    if (block == s->last) {
        s->pos = block - ALIGN;
        return scratch_alloc(s, size);
    }
    fresh = scratch_alloc(s, size);
    if (fresh != NULL)
        memcpy(fresh, block, old < size ? old : size);
    return fresh;
}

static void scratch_free(void *ctx, void *ptr)
{
    (void) ctx;
    (void) ptr;
}

/* Largest size that a yajl buffer reaches over a text of len bytes: yajl
 * doubles it until the text, one blank and a NUL fit. */
static size_t yajl_buf_max(size_t len)
{
    size_t size = YAJL_BUF_BYTES;

    while (size < len + 2)
        size *= 2;
    return size + 2 * ALIGN;
}

static size_t names_max(size_t len)
{
    size_t max = (size_t) PJ_JSON_MAX_DEPTH * PJ_JSON_MAX_MEMBERS;

    /* A member takes four bytes at least: "":{ */
    return len / 4 + 1 < max ? len / 4 + 1 : max;
}

static size_t scratch_bytes(size_t len)
{
    return YAJL_FIXED_BYTES + 2 * yajl_buf_max(len) +
           round_up(names_max(len) * sizeof(pj_json_t *));
}

size_t pj_json_arena_bytes(size_t len, size_t docs)
{
    size_t values, max = docs * PJ_JSON_MAX_VALUES;

    if (len > SIZE_MAX / 16)
        return SIZE_MAX;
    /* A value takes two bytes at least, one where it is a container that is
     * never closed; a node may need padding. */
    values = len / 2 + docs * (PJ_JSON_MAX_DEPTH + 1);
    if (values > max)
        values = max;
    return values * (sizeof(pj_json_t) + ALIGN) + len + scratch_bytes(len) +
           2 * ALIGN;
}

/* Cuts the scratch off the arena's end and moves p->names and *s there. */
static pj_err_t scratch_take(parser_t *p, scratch_t *s)
{
    pj_arena_t *arena = p->arena;
    size_t need, have = (size_t) (arena->end - arena->pos);
    size_t slack;

    if (arena->pos == NULL || p->text.len > SIZE_MAX / 16)
        return PJ_ERR_NO_SPACE;
    slack = (uintptr_t) arena->end % ALIGN;
    need = scratch_bytes(p->text.len) + slack;
    if (need > have)
        return PJ_ERR_NO_SPACE;

    p->names = (const pj_json_t **) (void *) (arena->end - need);
    p->names_cap = names_max(p->text.len);
    s->pos = arena->end - need + round_up(p->names_cap * sizeof(pj_json_t *));
    s->end = arena->end - slack;
    s->last = NULL;
    arena->end -= need;
    return PJ_OK;
}

/* -- the tree --------------------------------------------------------------
 */

static int stop(parser_t *p, pj_err_t err)
{
    p->err = err;
    return 0;
}

/* Borrows bytes that lie in the text, copies those that yajl unescaped. */
static bool text_keep(parser_t *p, const unsigned char *data, size_t len,
                      pj_str_t *out)
{
    uintptr_t from = (uintptr_t) p->text.data, at = (uintptr_t) data;
    unsigned char *copy;

    out->len = len;
    out->data = data;
    if (at >= from && at - from < p->text.len)
        return true;
    copy = pj_arena_bytes(p->arena, len);
    if (copy == NULL) {
        p->err = PJ_ERR_NO_SPACE;
        return false;
    }
    if (len > 0)
        memcpy(copy, data, len);
    out->data = copy;
    return true;
}

static pj_json_t *node_new(parser_t *p)
{
    pj_json_t *node;

    if (++p->values > PJ_JSON_MAX_VALUES) {
        p->err = PJ_ERR_JSON_LIMIT;
        return NULL;
    }
    node = pj_arena_alloc(p->arena, sizeof(*node));
    if (node == NULL) {
        p->err = PJ_ERR_NO_SPACE;
        return NULL;
    }
    memset(node, 0, sizeof(*node));
    return node;
}

/* The node of the value that begins now, linked into its parent; NULL with
 * p->err set when there is none to be had. */
static pj_json_t *value_begin(parser_t *p, pj_json_type_t type)
{
    pj_json_t *node = p->pending;
    frame_t *frame;

    p->pending = NULL;
    if (node == NULL)
        node = node_new(p);
    if (node == NULL)
        return NULL;
    node->type = type;

    if (p->depth == 0) {
        p->root = node;
        return node;
    }
    frame = &p->frames[p->depth - 1];
    if (frame->last == NULL)
        frame->node->child = node;
    else
        frame->last->next = node;
    frame->last = node;
    frame->node->count++;
    return node;
}

static int container_begin(parser_t *p, pj_json_type_t type)
{
    pj_json_t *node;

    if (p->depth == PJ_JSON_MAX_DEPTH)
        return stop(p, PJ_ERR_JSON_DEPTH);
    node = value_begin(p, type);
    if (node == NULL)
        return 0;
    p->frames[p->depth++] = (frame_t){node, NULL, p->names_len};
    return 1;
}

static int container_end(void *ctx)
{
    parser_t *p = ctx;

    p->names_len = p->frames[--p->depth].names_from;
    return 1;
}

/* Any total order will do; length first is the cheapest. */
static int name_order(pj_str_t a, pj_str_t b)
{
    if (a.len != b.len)
        return a.len < b.len ? -1 : 1;
    return a.len == 0 ? 0 : memcmp(a.data, b.data, a.len);
}

/* Puts node among the sorted names of the innermost object. */
static pj_err_t name_insert(parser_t *p, const pj_json_t *node)
{
    size_t lo = p->frames[p->depth - 1].names_from, hi = p->names_len;

    if (hi - lo == PJ_JSON_MAX_MEMBERS || hi == p->names_cap)
        return PJ_ERR_JSON_LIMIT;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int order = name_order(node->name, p->names[mid]->name);

        if (order == 0)
            return PJ_ERR_JSON_DUPLICATE;
        if (order < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    memmove(p->names + lo + 1, p->names + lo,
            (p->names_len - lo) * sizeof(*p->names));
    p->names[lo] = node;
    p->names_len++;
    return PJ_OK;
}

/* -- yajl's callbacks: 0 cancels -------------------------------------------
 */

static int on_null(void *ctx)
{
    return value_begin(ctx, PJ_JSON_NULL) != NULL;
}

static int on_boolean(void *ctx, int value)
{
    pj_json_t *node = value_begin(ctx, PJ_JSON_BOOL);

    if (node == NULL)
        return 0;
    node->boolean = value != 0;
    return 1;
}

static int on_number(void *ctx, const char *data, size_t len)
{
    pj_json_t *node = value_begin(ctx, PJ_JSON_NUMBER);

    return node != NULL &&
           text_keep(ctx, (const unsigned char *) data, len, &node->text);
}

static int on_string(void *ctx, const unsigned char *data, size_t len)
{
    pj_json_t *node = value_begin(ctx, PJ_JSON_STRING);

    return node != NULL && text_keep(ctx, data, len, &node->text);
}

static int on_map_key(void *ctx, const unsigned char *data, size_t len)
{
    parser_t *p = ctx;
    pj_json_t *node = node_new(p);
    pj_err_t err;

    if (node == NULL || !text_keep(p, data, len, &node->name))
        return 0;
    err = name_insert(p, node);
    if (err != PJ_OK)
        return stop(p, err);
    p->pending = node;
    return 1;
}

static int on_start_map(void *ctx)
{
    return container_begin(ctx, PJ_JSON_OBJECT);
}

static int on_start_array(void *ctx)
{
    return container_begin(ctx, PJ_JSON_ARRAY);
}

static const yajl_callbacks callbacks = {
    .yajl_null = on_null,
    .yajl_boolean = on_boolean,
    .yajl_number = on_number,
    .yajl_string = on_string,
    .yajl_start_map = on_start_map,
    .yajl_map_key = on_map_key,
    .yajl_end_map = container_end,
    .yajl_start_array = on_start_array,
    .yajl_end_array = container_end,
};

static pj_err_t yajl_run(parser_t *p, scratch_t *scratch)
{
    yajl_alloc_funcs funcs = {scratch_alloc, scratch_realloc, scratch_free,
                              scratch};
    unsigned char *from = scratch->pos;
    yajl_handle handle = yajl_alloc(&callbacks, &funcs, p);
    yajl_status status;

    if (handle == NULL)
        return PJ_ERR_NO_SPACE;
    /* Comments, trailing text and several values are off unless asked for.
     * UTF-8 was checked already, and more strictly. */
    yajl_config(handle, yajl_dont_validate_strings, 1);
    status = yajl_parse(handle, p->text.data, p->text.len);
    if (status == yajl_status_ok)
        status = yajl_complete_parse(handle);
    yajl_free(handle);
    /* Strings that were unescaped in it may be secret, and nobody else knows
     * of the scratch. */
    OPENSSL_cleanse(from, (size_t) (scratch->pos - from));

    if (p->err != PJ_OK)
        return p->err;
    return status == yajl_status_ok ? PJ_OK : PJ_ERR_JSON_SYNTAX;
}

pj_err_t pj_json_parse(pj_arena_t *arena, pj_str_t text,
                       const pj_json_t **root)
{
    unsigned char *end = arena->end;
    parser_t p = {.arena = arena, .text = text};
    scratch_t scratch;
    pj_err_t err;

    *root = NULL;
    if (text.len == 0)
        return PJ_ERR_JSON_SYNTAX;
    err = pj_json_text_check(text);
    if (err != PJ_OK)
        return err;

    err = scratch_take(&p, &scratch);
    if (err != PJ_OK)
        return err;
    err = yajl_run(&p, &scratch);
    arena->end = end;
    if (err == PJ_OK)
        *root = p.root;
    return err;
}

/* -- reading the tree ------------------------------------------------------
 */

const pj_json_t *pj_json_member(const pj_json_t *obj, const char *name)
{
    pj_str_t key = {(const unsigned char *) name, strlen(name)};

    if (obj == NULL || obj->type != PJ_JSON_OBJECT)
        return NULL;
    for (const pj_json_t *m = obj->child; m != NULL; m = m->next) {
        if (pj_str_eq(m->name, key))
            return m;
    }
    return NULL;
}

/* The exponent at p ("e+5"), 0 where there is none; cut off far above the
 * digits that a text can have. */
static int64_t exponent_read(const unsigned char *p, const unsigned char *end)
{
    int64_t exponent = 0;
    bool negative;

    if (p == end)
        return 0;
    p++;
    negative = *p == '-';
    for (p += *p == '-' || *p == '+'; p < end; p++) {
        if (exponent < INT32_MAX)
            exponent = exponent * 10 + (*p - '0');
    }
    return negative ? -exponent : exponent;
}

/* Appends a digit to *value; false past max. */
static bool digit_append(uint64_t *value, unsigned digit, uint64_t max)
{
    if (*value > (max - digit) / 10)
        return false;
    *value = *value * 10 + digit;
    return true;
}

/*
 * The whole part of the number between p and end, which has no sign; *rest is
 * whether anything but zeros lies behind it.  False past max.
 */
static bool whole_part(const unsigned char *p, const unsigned char *end,
                       uint64_t max, uint64_t *value, bool *rest)
{
    const unsigned char *e = p, *dot = p;
    int64_t left; /* digits that are still whole */

    while (e < end && *e != 'e' && *e != 'E')
        e++;
    while (dot < e && *dot != '.')
        dot++;
    left = dot - p + exponent_read(e, end);

    *value = 0;
    *rest = false;
    for (; p < e; p++) {
        if (p == dot)
            continue;
        if (left-- <= 0)
            *rest |= *p != '0';
        else if (!digit_append(value, (unsigned) *p - '0', max))
            return false;
    }
    for (; left > 0 && *value > 0; left--) {
        if (!digit_append(value, 0, max))
            return false;
    }
    return true;
}

pj_err_t pj_json_seconds(const pj_json_t *node, pj_round_t round, int64_t *out)
{
    const unsigned char *p;
    uint64_t value, max = INT64_MAX;
    bool negative, rest;

    if (node == NULL || node->type != PJ_JSON_NUMBER)
        return PJ_ERR_JSON_TYPE;
    p = node->text.data;
    negative = *p == '-';
    max += negative;
    if (!whole_part(p + negative, p + node->text.len, max, &value, &rest))
        return PJ_ERR_JSON_TYPE;
    if (rest && negative == (round == PJ_ROUND_DOWN)) {
        if (value == max)
            return PJ_ERR_JSON_TYPE;
        value++;
    }
    if (!negative)
        *out = (int64_t) value;
    else /* -(value - 1) - 1 stays in range for INT64_MIN */
        *out = value == 0 ? 0 : -(int64_t) (value - 1) - 1;
    return PJ_OK;
}
