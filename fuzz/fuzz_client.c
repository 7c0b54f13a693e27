/* An Authorization header and a form for POST /api/auth/token: no parameter
 * comes twice, none has NUL, and written again the form is read as the same;
 * only one way to authenticate reaches the store; the answer is JSON, and no
 * token.  An assertion is judged with the key of a client. */

#include "fuzz.h"

#include "auth/client.h"
#include "auth/handlers.h"

static bool asked; /* the store, about a client */
static char client_key[2048];
static struct keys keys;
static unsigned char arena[WORKER_ARENA_BYTES];

/* In the place of the one over PostgreSQL: a client without a live secret. */
enum store_result store_client_find(struct store *st, pj_arena_t *mem,
                                    const struct client_lookup *lookup,
                                    const struct attempt *attempt,
                                    int max_failures, struct client *out)
{
    (void) st;
    (void) mem;
    (void) lookup;
    (void) attempt;
    (void) max_failures;
    asked = true;
    *out = (struct client){.key = client_key, .scopes = "audit:read"};
    out->account.enabled = true;
    snprintf(out->account.account_id, STORE_UUID, "x");
    return STORE_OK;
}

enum store_result store_client_use_assertion(struct store *st, pj_arena_t *mem,
                                             const unsigned char *jti_sha256,
                                             int64_t dies_at_s,
                                             struct client *client)
{
    (void) st;
    (void) mem;
    (void) jti_sha256;
    (void) dies_at_s;
    (void) client;
    abort(); /* no input is signed by the client */
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static char jwks[2048];
    const pj_key_t *signing;
    pj_key_t *own;
    size_t len;

    (void) argc;
    (void) argv;
    FUZZ_ASSERT(pj_key_generate(&keys.signing, pj_alg_find(PJ_STR("EdDSA")),
                                PJ_STR("k")) == PJ_OK);
    FUZZ_ASSERT(pj_key_generate(&own, pj_alg_find(PJ_STR("EdDSA")),
                                PJ_STR("c")) == PJ_OK);
    signing = own;
    FUZZ_ASSERT(pj_jwks_emit(&signing, 1, jwks, sizeof(jwks) - 1, &len) ==
                PJ_OK);
    snprintf(client_key, sizeof(client_key), "%.*s", (int) len - 11, jwks + 9);
    pj_key_free(own);
    keys.jwks = jwks;
    keys.jwks_len = len;
    return 0;
}

static void write_again(struct buf *out, pj_str_t text)
{
    for (size_t i = 0; i < text.len; i++)
        buf_addf(out, "%%%02X", text.data[i]);
}

static void form_check(pj_str_t body)
{
    size_t cap = 4 * body.len + 64;
    unsigned char *text = fuzz_alloc(cap);
    struct form form, again;
    struct buf out;
    pj_arena_t a;

    pj_arena_init(&a, arena, sizeof(arena));
    buf_init(&out, text, cap);
    if (form_parse(&form, &a, body) == NULL) {
        for (size_t i = 0; i < form.count; i++) {
            const struct form_parameter *p = &form.parameters[i];

            FUZZ_ASSERT(p->value.len > 0);
            FUZZ_ASSERT(memchr(p->value.data, 0, p->value.len) == NULL);
            for (size_t k = 0; k < i; k++)
                FUZZ_ASSERT(!pj_str_eq(p->name, form.parameters[k].name));
            buf_addz(&out, i > 0 ? "&" : "");
            write_again(&out, p->name);
            buf_addc(&out, '=');
            write_again(&out, p->value);
        }
        FUZZ_ASSERT(!out.overflow);
        FUZZ_ASSERT(form_parse(&again, &a,
                               (pj_str_t){(unsigned char *) out.data,
                                          out.len}) == NULL);
        FUZZ_ASSERT(again.count == form.count);
        for (size_t i = 0; i < form.count; i++)
            FUZZ_ASSERT(
                pj_str_eq(again.parameters[i].value, form.parameters[i].value));
    }
    free(text);
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
    FUZZ_ASSERT(res->status == (asked ? 401 : 400));
    size = pj_json_arena_bytes(res->body.len, 1);
    mem = fuzz_alloc(size);
    pj_arena_init(&a, mem, size);
    FUZZ_ASSERT(pj_json_parse(
                    &a,
                    (pj_str_t){(unsigned char *) res->body.data, res->body.len},
                    &root) == PJ_OK);
    FUZZ_ASSERT(pj_json_string(root, "error").len > 0);
    FUZZ_ASSERT(pj_json_member(root, "access_token") == NULL);
    free(mem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static char head_mem[8192], body_mem[8192];
    static char issuer[] = "https://id.test";
    static const struct config cfg = {.jwt_issuer = issuer};
    pj_str_t body = {data, len}, header = fuzz_split(&body, '\n');
    struct http_request req = {.method = PJ_STR("POST"),
                               .authorization = header,
                               .content_type =
                                   PJ_STR("application/x-www-form-urlencoded"),
                               .body = body,
                               .request_id = PJ_STR("r"),
                               .correlation_id = PJ_STR("c")};
    struct http_response res;
    struct worker w = {.cfg = &cfg, .req = &req, .res = &res, .keys = &keys};

    if (len > HTTP_BODY_MAX)
        return 0;
    asked = false;
    form_check(body);
    pj_arena_init(&w.arena, arena, sizeof(arena));
    http_response_init(&res, head_mem, sizeof(head_mem), body_mem,
                       sizeof(body_mem));
    h_token(&w);
    answer_check(&res, &req);
    return 0;
}
