/*
 * Arenas, and strict JSON parsing with yajl into a tree in an arena.
 *
 * yajl does the lexing and the grammar. pj_json_text_check() refuses text that
 * yajl accepts too liberally; the callbacks refuse duplicates and exceeded
 * limits. yajl's working memory is at the far end of the arena and released
 * after the parse, so only the tree stays.
 */

#include "pj_internal.h"

#include <openssl/crypto.h>
#include <stdalign.h>
#include <string.h>
#include <yajl/yajl_parse.h>

/* yajl's structures and state stack need less than half of this (measured). */
#define YAJL_FIXED_BYTES 2048
#define YAJL_BUF_BYTES 2048 /* initial size of a yajl buffer */
#define ALIGN alignof(max_align_t)

/* -- arenas --------------------------------------------------------------- */

void pj_arena_init(pj_arena_t *arena, void *mem, size_t len)
{
    arena->pos = mem;
    arena->end = mem == NULL ? NULL : arena->pos + len;
}

/* Returns size unaligned bytes, or NULL. */
static unsigned char *arena_bytes(pj_arena_t *arena, size_t size)
{
    unsigned char *p = arena->pos;

    if (p == NULL || size > (size_t) (arena->end - p))
        return NULL;
    arena->pos = p + size;
    return p;
}

void *pj_arena_alloc(pj_arena_t *arena, size_t size)
{
    size_t pad = (size_t) (-(uintptr_t) arena->pos) & (ALIGN - 1);
    unsigned char *p = NULL;

    if (size <= SIZE_MAX - pad)
        p = arena_bytes(arena, pad + size);
    return p == NULL ? NULL : p + pad;
}

/* -- yajl's memory -------------------------------------------------------- */

/* yajl does not check for NULL, so scratch_bytes() reserves enough memory. */
typedef struct {
    pj_arena_t arena;
    unsigned char *last; /* the newest block grows in place */
} scratch_t;

static void *scratch_alloc(void *ctx, size_t size)
{
    scratch_t *s = ctx;

    s->last = pj_arena_alloc(&s->arena, size);
    return s->last;
}

/* The size of the old block is unknown.  Copying more is harmless, because the
 * memory behind it belongs to the scratch too. */
static void *scratch_realloc(void *ctx, void *ptr, size_t size)
{
    scratch_t *s = ctx;
    unsigned char *old = ptr, *fresh;

    if (old != NULL && old == s->last)
        s->arena.pos = old;
    fresh = scratch_alloc(s, size);
    if (fresh != NULL && old != NULL && old != fresh) {
        size_t max = (size_t) (fresh - old);

        memcpy(fresh, old, max < size ? max : size);
    }
    return fresh;
}

static void scratch_free(void *ctx, void *ptr)
{
    (void) ctx;
    (void) ptr;
}

/* The largest size of a yajl buffer for a text of len bytes. yajl doubles it
 * until the text, a blank and a NUL fit. */
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

    /* A member takes at least four bytes: "":{ */
    return len / 4 + 1 < max ? len / 4 + 1 : max;
}

static size_t scratch_bytes(size_t len)
{
    return YAJL_FIXED_BYTES + 2 * yajl_buf_max(len) +
           names_max(len) * sizeof(pj_json_t *);
}

static size_t arena_bytes_max(size_t len, size_t docs, size_t max_values)
{
    size_t values;

    if (len > SIZE_MAX / 16)
        return SIZE_MAX;
    /* A value takes at least two bytes, or one if it is a container that is
     * never closed.  A node may need padding. */
    values = len / 2 + docs * (PJ_JSON_MAX_DEPTH + 1);
    if (values > max_values)
        values = max_values;
    return values * (sizeof(pj_json_t) + ALIGN) + len + scratch_bytes(len) +
           2 * ALIGN;
}

size_t pj_json_arena_bytes(size_t len, size_t docs)
{
    return arena_bytes_max(len, docs, docs * PJ_JSON_MAX_VALUES);
}

size_t pj_json_large_arena_bytes(size_t len, size_t max_values)
{
    return arena_bytes_max(len, 1, max_values);
}

size_t pj_token_arena_bytes(size_t token_bytes)
{
    size_t decoded = token_bytes / 4 * 3 + 2 * 3; /* two parts */
    size_t trees = pj_json_arena_bytes(decoded, 2);

    return trees > SIZE_MAX - decoded ? SIZE_MAX : trees + decoded;
}

size_t pj_keyset_arena_bytes(size_t len)
{
    return pj_json_arena_bytes(len, 1);
}

/* -- the tree ------------------------------------------------------------- */

typedef struct {
    pj_json_t *node;   /* an open array or object */
    pj_json_t *last;   /* its newest child */
    size_t names_from; /* start of its names in parser_t.names */
} frame_t;

typedef struct {
    pj_arena_t *arena;
    pj_str_t text;
    pj_err_t err;
    size_t values;
    size_t max_values;
    size_t depth;
    frame_t frames[PJ_JSON_MAX_DEPTH];
    pj_json_t *pending; /* a member whose value follows */
    pj_json_t *root;
    /* The members of the open objects, innermost last, sorted by name within
     * each object.  So a duplicate is found in logarithmic time. */
    const pj_json_t **names;
    size_t names_len;
} parser_t;

/* Returns 0, which makes a callback cancel the parse. */
static int stop(parser_t *p, pj_err_t err)
{
    p->err = err;
    return 0;
}

/* Sets *out to the bytes; copies them into the arena if yajl unescaped them. */
static int text_keep(parser_t *p, const unsigned char *data, size_t len,
                     pj_str_t *out)
{
    uintptr_t from = (uintptr_t) p->text.data, at = (uintptr_t) data;
    unsigned char *copy;

    *out = (pj_str_t){data, len};
    if (len == 0 || (at >= from && at - from < p->text.len))
        return 1;
    copy = arena_bytes(p->arena, len);
    if (copy == NULL)
        return stop(p, PJ_ERR_NO_SPACE);
    out->data = memcpy(copy, data, len);
    return 1;
}

static pj_json_t *node_new(parser_t *p)
{
    pj_json_t *node = NULL;

    if (++p->values <= p->max_values)
        node = pj_arena_alloc(p->arena, sizeof(*node));
    if (node != NULL)
        return memset(node, 0, sizeof(*node));
    stop(p, p->values > p->max_values ? PJ_ERR_JSON_LIMIT : PJ_ERR_NO_SPACE);
    return NULL;
}

/* Returns the node of the value that begins here, linked into its parent.  On
 * failure sets p->err and returns NULL. */
static pj_json_t *value_begin(parser_t *p, pj_json_type_t type)
{
    pj_json_t *node = p->pending != NULL ? p->pending : node_new(p);
    frame_t *frame;

    p->pending = NULL;
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

/* An arbitrary total order.  Comparing lengths first is cheapest. */
static int name_order(pj_str_t a, pj_str_t b)
{
    if (a.len != b.len)
        return a.len < b.len ? -1 : 1;
    return a.len == 0 ? 0 : memcmp(a.data, b.data, a.len);
}

/* Inserts node into the sorted names of the innermost object. */
static pj_err_t name_insert(parser_t *p, const pj_json_t *node)
{
    size_t lo = p->frames[p->depth - 1].names_from, hi = p->names_len;

    if (hi - lo == PJ_JSON_MAX_MEMBERS || hi == names_max(p->text.len))
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

/* -- yajl's callbacks: 0 cancels ------------------------------------------ */

static int on_null(void *ctx)
{
    return value_begin(ctx, PJ_JSON_NULL) != NULL;
}

static int on_boolean(void *ctx, int value)
{
    pj_json_t *node = value_begin(ctx, PJ_JSON_BOOL);

    if (node != NULL)
        node->boolean = value != 0;
    return node != NULL;
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
    p->pending = node;
    return err == PJ_OK ? 1 : stop(p, err);
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
    yajl_handle handle = yajl_alloc(&callbacks, &funcs, p);
    yajl_status status;

    if (handle == NULL)
        return PJ_ERR_NO_SPACE;
    /* Comments, trailing text and multiple values are off by default.  UTF-8
     * has been checked already, and more strictly. */
    yajl_config(handle, yajl_dont_validate_strings, 1);
    status = yajl_parse(handle, p->text.data, p->text.len);
    if (status == yajl_status_ok)
        status = yajl_complete_parse(handle);
    yajl_free(handle);

    if (p->err != PJ_OK)
        return p->err;
    return status == yajl_status_ok ? PJ_OK : PJ_ERR_JSON_SYNTAX;
}

pj_err_t pj_json_parse(pj_arena_t *arena, pj_str_t text, const pj_json_t **root)
{
    return pj_json_parse_large(arena, text, PJ_JSON_MAX_VALUES, root);
}

pj_err_t pj_json_parse_large(pj_arena_t *arena, pj_str_t text,
                             size_t max_values, const pj_json_t **root)
{
    parser_t p = {.arena = arena, .text = text, .max_values = max_values};
    scratch_t scratch;
    size_t need;
    pj_err_t err;

    *root = NULL;
    if (text.len == 0)
        return PJ_ERR_JSON_SYNTAX;
    err = pj_json_text_check(text);
    if (err != PJ_OK)
        return err;

    if (arena->pos == NULL || text.len > SIZE_MAX / 16)
        return PJ_ERR_NO_SPACE;
    need = scratch_bytes(text.len);
    if (need > (size_t) (arena->end - arena->pos))
        return PJ_ERR_NO_SPACE;
    arena->end -= need;
    pj_arena_init(&scratch.arena, arena->end, need);
    p.names =
        pj_arena_alloc(&scratch.arena, names_max(text.len) * sizeof(*p.names));

    err = yajl_run(&p, &scratch);
    /* The scratch may contain unescaped secrets; callers cannot wipe it. */
    OPENSSL_cleanse(arena->end, (size_t) (scratch.arena.pos - arena->end));
    arena->end += need;
    if (err == PJ_OK)
        *root = p.root;
    return err;
}

pj_err_t pj_json_decode(pj_arena_t *arena, pj_str_t src, const pj_json_t **root)
{
    size_t cap = src.len / 4 * 3 + 3;
    unsigned char *dst = arena_bytes(arena, cap);
    pj_str_t text = {dst, 0};
    pj_err_t err = PJ_ERR_NO_SPACE;

    *root = NULL;
    if (dst != NULL)
        err = pj_b64url_decode(dst, cap, &text.len, src);
    return err == PJ_OK ? pj_json_parse(arena, text, root) : err;
}

/* -- reading the tree ----------------------------------------------------- */

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

pj_str_t pj_json_string(const pj_json_t *obj, const char *name)
{
    const pj_json_t *m = pj_json_member(obj, name);

    return m != NULL && m->type == PJ_JSON_STRING ? m->text
                                                  : (pj_str_t){NULL, 0};
}

/* Reads the exponent at p ("e+5"); 0 if there is none.  The value is capped far
 * above the number of digits in any text. */
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

/* Appends a digit to a number that is kept negative, because int64_t has one
 * more negative value.  False on overflow. */
static bool digit_append(int64_t *value, int digit)
{
    return !__builtin_mul_overflow(*value, 10, value) &&
           !__builtin_sub_overflow(*value, digit, value);
}

pj_err_t pj_json_seconds(const pj_json_t *node, pj_round_t round, int64_t *out)
{
    const unsigned char *p, *end, *e, *dot;
    bool negative, fits = true, rest = false;
    int64_t left, value = 0;

    if (node == NULL || node->type != PJ_JSON_NUMBER)
        return PJ_ERR_JSON_TYPE;
    end = node->text.data + node->text.len;
    negative = node->text.data[0] == '-';
    e = dot = p = node->text.data + negative;
    while (e < end && *e != 'e' && *e != 'E')
        e++;
    while (dot < e && *dot != '.')
        dot++;

    left =
        dot - p + exponent_read(e, end); /* digits before the decimal point */
    for (; p < e && fits; p++) {
        if (p == dot)
            continue;
        if (left-- > 0)
            fits = digit_append(&value, *p - '0');
        else
            rest |= *p != '0';
    }
    for (; left > 0 && value != 0 && fits; left--)
        fits = digit_append(&value, 0);
    if (fits && rest && negative == (round == PJ_ROUND_DOWN))
        fits = !__builtin_sub_overflow(value, 1, &value);
    if (fits && !negative)
        fits = !__builtin_sub_overflow(0, value, &value);
    if (fits)
        *out = value;
    return fits ? PJ_OK : PJ_ERR_JSON_TYPE;
}
