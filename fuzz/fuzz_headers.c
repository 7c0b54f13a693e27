/* Sifts any headers, with a flag.  Aliases of protected names are removed, and
 * all other headers stay in their order and place.  The ids are well formed,
 * and there once.  No token is left that would be found.  Headers added for a
 * location are gone for the next location. */

#include "nginx.h"

#include "base/base.h"

#include <ctype.h>

#define NAME(text, low, length)                                                \
    {                                                                          \
        .name = ngx_string(text), .lowcase = ngx_string(low), .hash = length   \
    }
#define STRIPPED 4
#define LENGTHS (1 << 12 | 1 << 16 | 1 << 7)

static ngx_http_pgw_claim_header_t names[STRIPPED] = {
    NAME("X-Request-Id", "x-request-id", 12),
    NAME("X-Correlation-Id", "x-correlation-id", 16),
    NAME("X-Roles", "x-roles", 7),
    NAME("X-Account-Id", "x-account-id", 12),
};
static ngx_array_t strip = {.elts = names, .nelts = STRIPPED};
static ngx_array_t claims = {.elts = &names[2], .nelts = 2};
static ngx_http_pgw_srv_conf_t server = {
    .strip = &strip, .any_enabled = 1, .strip_lengths = LENGTHS};
static ngx_http_pgw_token_from_t from = {
    {ngx_string("token"), ngx_string("bearer.")}};
static ngx_http_pgw_loc_conf_t conf = {
    .enable = 1, .claim_headers = &claims, .token_from = &from};
static ngx_connection_t connection;
static ngx_http_request_t r, sent;
static ngx_http_pgw_request_t gr;

/* Which protected name h is or looks like; STRIPPED: none. */
static size_t alias_of(const ngx_table_elt_t *h)
{
    size_t i = 0;

    while (i < STRIPPED &&
           !nginx_alias(nginx_pj(&h->key), nginx_pj(&names[i].name)))
        i++;
    return i;
}

static bool is_trace(const ngx_table_elt_t *h)
{
    return pj_str_caseeq(nginx_pj(&h->key), PJ_STR("traceparent")) ||
           pj_str_caseeq(nginx_pj(&h->key), PJ_STR("tracestate"));
}

static bool is_source(const ngx_table_elt_t *h)
{
    return pj_str_caseeq(nginx_pj(&h->key), PJ_STR("cookie")) ||
           pj_str_caseeq(nginx_pj(&h->key), PJ_STR("sec-websocket-protocol"));
}

/* Counts pieces of cookies and of subprotocols, without tokens. */
static size_t others_of(const ngx_http_request_t *of)
{
    ngx_http_pgw_walk_t walk = {&of->headers_in.headers.part, 0};
    ngx_table_elt_t *h;
    size_t n = 0;

    while ((h = ngx_http_pgw_header_next(&walk)) != NULL) {
        pj_str_t rest = nginx_pj(&h->value);
        bool cookie = h->key.len == 6;

        while (is_source(h) && rest.len > 0) {
            pj_str_t piece = fuzz_split(&rest, cookie ? ';' : ',');

            while (piece.len > 0 &&
                   (piece.data[0] == ' ' || piece.data[0] == '\t'))
                piece = (pj_str_t){piece.data + 1, piece.len - 1};
            n += piece.len > 0 && piece.data[0] != '\0' &&
                 (cookie
                      ? piece.len < 6 || memcmp(piece.data, "token=", 6) != 0
                      : piece.len < 7 || memcmp(piece.data, "bearer.", 7) != 0);
        }
    }
    return n;
}

/* Each of ours once, no other that looks like it: a bit for each. */
static unsigned ours_of(unsigned more, const ngx_str_t *value)
{
    ngx_http_pgw_walk_t walk = {&r.headers_in.headers.part, 0};
    ngx_table_elt_t *h;
    unsigned seen = 0;

    while ((h = ngx_http_pgw_header_next(&walk)) != NULL) {
        size_t i = alias_of(h);

        if (i == STRIPPED)
            continue;
        FUZZ_ASSERT(h->key.data == names[i].name.data && !(seen >> i & 1));
        FUZZ_ASSERT(i < 2 || h->value.data == value[i - 2].data);
        seen |= 1u << i;
    }
    FUZZ_ASSERT(seen == (3 | more));
    return seen;
}

/* All headers of the client but the protected ones are where they were. */
static void kept_check(bool hidden)
{
    ngx_http_pgw_walk_t was = {&sent.headers_in.headers.part, 0};
    ngx_http_pgw_walk_t now = {&r.headers_in.headers.part, 0};
    ngx_table_elt_t *h, *there = ngx_http_pgw_header_next(&now);

    while ((h = ngx_http_pgw_header_next(&was)) != NULL) {
        bool moves =
            hidden && (h == sent.headers_in.authorization || is_source(h));

        while (hidden && there != NULL && is_source(there) && there != h)
            there = ngx_http_pgw_header_next(&now);
        if (h == there) {
            FUZZ_ASSERT(alias_of(h) == STRIPPED);
            there = ngx_http_pgw_header_next(&now);
        } else {
            FUZZ_ASSERT(
                alias_of(h) < STRIPPED || moves ||
                (is_trace(h) && server.trace != NGX_HTTP_PGW_TRACE_OFF));
        }
    }
}

static void id_check(const ngx_str_t *id)
{
    FUZZ_ASSERT(id->len >= 1 && id->len <= 128);
    for (size_t i = 0; i < id->len; i++)
        FUZZ_ASSERT(isalnum(id->data[i]) || memchr("-.:_", id->data[i], 4));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static void *confs[] = {&server}, *locs[] = {&conf};
    static ngx_str_t strings[] = {ngx_null_string, ngx_null_string,
                                  ngx_null_string, ngx_string("x,y"),
                                  ngx_string("a")};
    ngx_http_pgw_grant_t grant = {.strings = strings, .nstrings = 5};
    pj_str_t token;

    nginx_reset();
    if (len == 0)
        return 0;
    server.trace = data[0] % 3; /* ngx_http_pgw_trace_e */
    conf.forward_authorization = (data[0] & 64) != 0;
    memset(&gr, 0, sizeof(gr));
    nginx_request(&r, (pj_str_t){data + 1, len - 1});
    r.srv_conf = confs;
    r.loc_conf = locs;
    r.connection = &connection;
    sent = r;
    FUZZ_ASSERT(ngx_http_pgw_headers_make(&r, &gr, NULL, NULL) == NGX_OK);
    (void) ours_of(0, NULL);
    kept_check(false);
    id_check(&gr.request_id);
    id_check(&gr.correlation_id);
    for (int round = 0; round < 2; round++) {
        FUZZ_ASSERT(ngx_http_pgw_headers_make(&r, &gr, &conf, &grant) ==
                    NGX_OK);
        (void) ours_of(12, &strings[3]);
        kept_check(true);
        FUZZ_ASSERT(others_of(&r) == others_of(&sent));
        gr.sent = r.headers_in.headers.part;
        from.prefix[0].len = conf.forward_authorization ? 0 : 6;
        FUZZ_ASSERT(ngx_http_pgw_source_find(
                        &r, &gr, &conf, NGX_HTTP_PGW_REASON_TOKEN_MISSING,
                        &token) == NGX_HTTP_PGW_REASON_TOKEN_MISSING);
        from.prefix[0].len = 6;
        FUZZ_ASSERT(ngx_http_pgw_headers_make(&r, &gr, NULL, NULL) == NGX_OK);
        (void) ours_of(0, NULL);
    }
    return 0;
}
