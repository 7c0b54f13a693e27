/* Sends a login with any media type and body.  The store gets a name exactly if
 * account and credential are valid, and a second reader finds the same name.
 * The answer is JSON; its head has control bytes at line ends only. */

#include "fuzz.h"

#include "auth/handlers.h"
#include "store/store.h"

#define CREDENTIAL_BYTES 1024
#define NAME_BYTES 320

static char asked[NAME_BYTES + 1]; /* the store, about it; "": it was not */
static struct keys keys;
static unsigned char arena[WORKER_ARENA_BYTES];

/* In the place of the one over PostgreSQL. */
enum store_result store_account_find(struct store *st, pj_str_t name,
                                     struct account *out)
{
    (void) st;
    (void) out;
    FUZZ_ASSERT(name.len >= 1 && name.len <= NAME_BYTES);
    snprintf(asked, sizeof(asked), "%.*s", (int) name.len,
             (const char *) name.data);
    FUZZ_ASSERT(strlen(asked) == name.len);
    return STORE_UNAVAILABLE;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc;
    (void) argv;
    FUZZ_ASSERT(pj_key_generate(&keys.signing, pj_alg_find(PJ_STR("EdDSA")),
                                PJ_STR("k")) == PJ_OK);
    return 0;
}

/* The name that a body is about, or "". */
static void expect(pj_str_t body, char want[NAME_BYTES + 1])
{
    size_t size = pj_json_arena_bytes(body.len, 1), n = 0;
    unsigned char *mem = fuzz_alloc(size);
    const pj_json_t *root;
    pj_str_t name, credential;
    pj_arena_t a;

    want[0] = '\0';
    pj_arena_init(&a, mem, size);
    if (pj_json_parse(&a, body, &root) == PJ_OK) {
        name = pj_json_string(root, "account");
        credential = pj_json_string(root, "credential");
        while (name.len > 0 && strchr(" \t\r\n", name.data[0]) != NULL)
            name = (pj_str_t){name.data + 1, name.len - 1};
        while (name.len > 0 &&
               strchr(" \t\r\n", name.data[name.len - 1]) != NULL)
            name.len--;
        if (credential.len > 0 && credential.len <= CREDENTIAL_BYTES &&
            name.len <= NAME_BYTES) {
            for (; n < name.len; n++)
                want[n] = (char) (name.data[n] >= 'A' && name.data[n] <= 'Z'
                                      ? name.data[n] + ('a' - 'A')
                                      : name.data[n]);
            want[n] = '\0';
        }
        for (size_t i = 0; i < n; i++) {
            unsigned char c = name.data[i];

            if (c < ' ' || c == 127 ||
                (c == 0xc2 && (unsigned char) want[i + 1] < 0xa0))
                want[0] = '\0';
        }
    }
    free(mem);
}

static void answer_check(struct http_response *res,
                         const struct http_request *req)
{
    static char head_mem[8192];
    struct buf head;
    unsigned char *mem;
    size_t size;
    const pj_json_t *root;
    pj_arena_t a;

    buf_init(&head, head_mem, sizeof(head_mem));
    http_response_head(res, req, &head);
    FUZZ_ASSERT(!head.overflow && res->body.len > 0);
    FUZZ_ASSERT(res->status == (asked[0] != '\0' ? 503 : res->status));
    FUZZ_ASSERT(res->status == 400 || res->status == 415 || res->status == 503);
    for (size_t i = 0; i < head.len; i++)
        FUZZ_ASSERT((unsigned char) head.data[i] >= ' ' ||
                    head.data[i] == "\r\n"[i > 0 && head.data[i - 1] == '\r']);
    size = pj_json_arena_bytes(res->body.len, 1);
    mem = fuzz_alloc(size);
    pj_arena_init(&a, mem, size);
    FUZZ_ASSERT(pj_json_parse(
                    &a,
                    (pj_str_t){(unsigned char *) res->body.data, res->body.len},
                    &root) == PJ_OK);
    FUZZ_ASSERT(pj_str_eq(pj_json_string(root, "code"), pj_str(res->code)));
    free(mem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static char head_mem[8192], body_mem[8192];
    static const struct config cfg = {.retry_after_max_s = 60};
    pj_str_t body = {data, len}, type = fuzz_split(&body, '\n');
    struct http_request req = {.method = PJ_STR("POST"),
                               .content_type = type,
                               .body = body,
                               .request_id = PJ_STR("r"),
                               .correlation_id = PJ_STR("c")};
    struct http_response res;
    struct worker w = {.cfg = &cfg, .req = &req, .res = &res, .keys = &keys};
    char want[NAME_BYTES + 1];

    if (len > HTTP_BODY_MAX)
        return 0;
    asked[0] = '\0';
    pj_arena_init(&w.arena, arena, sizeof(arena));
    http_response_init(&res, head_mem, sizeof(head_mem), body_mem,
                       sizeof(body_mem));
    h_login(&w);
    expect(body, want);
    FUZZ_ASSERT(strcmp(asked, http_is_json(type) ? want : "") == 0);
    answer_check(&res, &req);
    return 0;
}
