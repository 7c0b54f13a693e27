/* Any bytes as JSON: the promised arena suffices, what is accepted keeps every
 * promise of pj_json_parse(), and written and parsed again it is the same. */

#include "fuzz.h"

/* Both ways of rounding: the same, or one second apart; in range of a double
 * they hold what strtod() reads between them. */
static void seconds_check(const pj_json_t *node)
{
    int64_t down, up;
    char text[64];
    double value;

    if (pj_json_seconds(node, PJ_ROUND_DOWN, &down) != PJ_OK ||
        pj_json_seconds(node, PJ_ROUND_UP, &up) != PJ_OK)
        return;
    FUZZ_ASSERT(up == down || up == down + 1);
    if (node->text.len >= sizeof(text))
        return;
    memcpy(text, node->text.data, node->text.len);
    text[node->text.len] = 0;
    value = strtod(text, NULL);
    if (value > -1e15 && value < 1e15)
        FUZZ_ASSERT((double) down <= value && value <= (double) up);
}

static size_t tree_check(const pj_json_t *node, size_t depth)
{
    size_t values = 1, children = 0;

    for (const pj_json_t *c = node->child; c != NULL; c = c->next) {
        FUZZ_ASSERT(depth < PJ_JSON_MAX_DEPTH);
        FUZZ_ASSERT(pj_utf8_valid(c->name));
        FUZZ_ASSERT(node->type == PJ_JSON_OBJECT || c->name.len == 0);
        values += tree_check(c, c->child == NULL ? depth : depth + 1);
        children++;
    }
    FUZZ_ASSERT(children == node->count);
    FUZZ_ASSERT(pj_utf8_valid(node->text));
    if (node->type == PJ_JSON_NUMBER)
        seconds_check(node);
    if (node->type != PJ_JSON_OBJECT)
        return values;

    FUZZ_ASSERT(children <= PJ_JSON_MAX_MEMBERS);
    for (const pj_json_t *a = node->child; a != NULL; a = a->next) {
        for (const pj_json_t *b = a->next; b != NULL; b = b->next)
            FUZZ_ASSERT(!pj_str_eq(a->name, b->name));
    }
    return values;
}

/* The whole of node, but for the name. */
static void write_value(pj_out_t *out, const pj_json_t *node)
{
    static const char *const words[] = {"false", "true", "null"};
    const bool object = node->type == PJ_JSON_OBJECT;

    if (node->type == PJ_JSON_STRING) {
        pj_out_json_string(out, node->text);
    } else if (node->type == PJ_JSON_NUMBER) {
        pj_out_text(out, node->text);
    } else if (node->type < PJ_JSON_NUMBER) {
        pj_out_text(
            out, pj_str(words[node->type == PJ_JSON_NULL ? 2 : node->boolean]));
    } else {
        pj_out_text(out, object ? PJ_STR("{") : PJ_STR("["));
        for (const pj_json_t *c = node->child; c != NULL; c = c->next) {
            if (object) {
                pj_out_json_string(out, c->name);
                pj_out_text(out, PJ_STR(":"));
            }
            write_value(out, c);
            pj_out_text(out, c->next != NULL ? PJ_STR(" ,\n") : PJ_STR(""));
        }
        pj_out_text(out, object ? PJ_STR("}") : PJ_STR("]"));
    }
}

static bool is_same(const pj_json_t *a, const pj_json_t *b)
{
    const pj_json_t *c = a->child, *d = b->child;

    while (c != NULL && d != NULL && is_same(c, d)) {
        c = c->next;
        d = d->next;
    }
    return c == NULL && d == NULL && a->type == b->type &&
           pj_str_eq(a->name, b->name) && pj_str_eq(a->text, b->text) &&
           (a->type != PJ_JSON_BOOL || a->boolean == b->boolean);
}

static void again_check(const pj_json_t *root, size_t len)
{
    size_t cap = 8 * len + 64, size;
    pj_out_t out = {(char *) fuzz_alloc(cap), 0, cap, PJ_OK};
    const pj_json_t *again;
    unsigned char *mem;
    pj_arena_t arena;

    write_value(&out, root);
    FUZZ_ASSERT(out.err == PJ_OK);
    for (size_t i = 0; i < out.len; i++)
        FUZZ_ASSERT((unsigned char) out.dst[i] >= ' ' || out.dst[i] == '\n');
    size = pj_json_arena_bytes(out.len, 1);
    mem = fuzz_alloc(size);
    pj_arena_init(&arena, mem, size);
    FUZZ_ASSERT(pj_json_parse(&arena,
                              (pj_str_t){(unsigned char *) out.dst, out.len},
                              &again) == PJ_OK &&
                is_same(root, again));
    free(mem);
    free(out.dst);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    size_t size = pj_json_arena_bytes(len, 1);
    unsigned char *mem = fuzz_alloc(size);
    pj_str_t text = {data, len};
    const pj_json_t *root;
    pj_arena_t arena;
    pj_err_t full, half;

    pj_arena_init(&arena, mem, size);
    full = pj_json_parse(&arena, text, &root);
    FUZZ_ASSERT(full != PJ_ERR_NO_SPACE);
    if (full == PJ_OK) {
        FUZZ_ASSERT(tree_check(root, 0) <= PJ_JSON_MAX_VALUES);
        again_check(root, len);
    }
    free(mem);

    /* With less memory: the same, or no space, or an error found later. */
    size = size / 2 + len % 64;
    mem = fuzz_alloc(size);
    pj_arena_init(&arena, mem, size);
    half = pj_json_parse(&arena, text, &root);
    FUZZ_ASSERT(half == full || half == PJ_ERR_NO_SPACE);
    free(mem);
    return 0;
}
