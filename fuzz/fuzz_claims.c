/* A place on the first line, and JSON: the value that becomes a header has
 * nothing but visible ASCII in it, and read back it is the claim; the place,
 * written with quotes, is the same place, and leads where its names do. */

#include "nginx.h"

#include "issuer/issuer.h"
#include "token/token.h"

#include <openssl/crypto.h>

/* Compares a header's value with the text of an element or of all: %XX is a
 * byte, other characters are themselves.  Returns false unless the value is
 * text, in its only spelling. */
static bool says(pj_str_t value, pj_str_t text, bool element)
{
    size_t n = 0;

    for (size_t i = 0; i < value.len; i++, n++) {
        unsigned char c = value.data[i];
        bool escaped = c == '%';

        if (escaped && value.len - i >= 3) {
            c = (unsigned char) (OPENSSL_hexchar2int(value.data[i + 1]) * 16 +
                                 OPENSSL_hexchar2int(value.data[i + 2]));
            i += 2;
        }
        if (n == text.len || text.data[n] != c ||
            escaped !=
                (c <= ' ' || c >= 127 || c == '%' || (element && c == ',')))
            return false;
    }
    return n == text.len;
}

static void value_check(const pj_json_t *claim, const ngx_str_t *s)
{
    pj_str_t rest = nginx_pj(s), none = {NULL, 0};
    bool text = claim != NULL && claim->type != PJ_JSON_NULL &&
                claim->type != PJ_JSON_OBJECT;

    for (const pj_json_t *c = text ? claim->child : NULL; c != NULL;
         c = c->next)
        text &= c->type == PJ_JSON_STRING;
    FUZZ_ASSERT(text == (s->data != NULL));
    if (!text)
        return;
    FUZZ_ASSERT(s->data[s->len] == '\0' || claim->type == PJ_JSON_BOOL);
    for (size_t i = 0; i < s->len; i++)
        FUZZ_ASSERT(s->data[i] > ' ' && s->data[i] < 127);
    if (claim->type == PJ_JSON_BOOL) {
        FUZZ_ASSERT(pj_str_eq(rest, pj_str(claim->boolean ? "true" : "false")));
    } else if (claim->type != PJ_JSON_ARRAY) {
        FUZZ_ASSERT(says(rest, claim->text, false));
    } else {
        for (const pj_json_t *c = claim->child; c != NULL; c = c->next)
            FUZZ_ASSERT(says(fuzz_split(&rest, ','), c->text, true));
        FUZZ_ASSERT(pj_str_eq(rest, none));
    }
}

/* The place again, each name between quotes. */
static void place_check(ngx_conf_t *cf, const ngx_http_pgw_claim_t *claim,
                        const pj_json_t *root)
{
    pj_out_t out = {(char *) ngx_pnalloc(NULL, 4096), 0, 4096, PJ_OK};
    const pj_json_t *there = root;
    ngx_http_pgw_claim_t again;
    ngx_str_t text;

    FUZZ_ASSERT(claim->depth >= 1 && claim->depth <= 8);
    for (ngx_uint_t i = 0; i < claim->depth; i++) {
        pj_out_text(&out, i > 0 ? PJ_STR(".\"") : PJ_STR("\""));
        pj_out_text(&out, pj_str(claim->names[i]));
        pj_out_text(&out, PJ_STR("\""));
        there = pj_json_member(there, claim->names[i]);
    }
    FUZZ_ASSERT(out.err == PJ_OK);
    text = nginx_copy((pj_str_t){(unsigned char *) out.dst, out.len});
    FUZZ_ASSERT(ngx_http_pgw_claim_place(cf, &text, &again) == NGX_CONF_OK &&
                again.depth == claim->depth);
    for (ngx_uint_t i = 0; i < claim->depth; i++)
        FUZZ_ASSERT(strcmp(again.names[i], claim->names[i]) == 0);
    FUZZ_ASSERT(ngx_http_pgw_claim_find(root, claim) == there);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    ngx_http_pgw_claim_header_t header = {.name = ngx_string("X-Claim")};
    ngx_array_t headers = {.elts = &header, .nelts = 1}, none = {.nelts = 0};
    ngx_http_pgw_loc_conf_t conf = {.claim_headers = &headers,
                                    .claims_read = &none};
    static ngx_http_pgw_issuer_t issuer;
    ngx_http_pgw_grant_t grant, copy;
    ngx_conf_t cf = {.pool = NULL};
    pj_str_t json = {data, len}, place = fuzz_split(&json, '\n');
    size_t size = pj_json_arena_bytes(json.len, 1);
    pj_claims_t claims = {.kind = PJ_TOKEN_ACCOUNT};
    pj_arena_t arena;
    ngx_str_t text;

    nginx_reset();
    pj_arena_init(&arena, ngx_palloc(NULL, size), size);
    text = nginx_copy(place);
    text.len = strlen((char *) text.data);
    if (text.len > 1024 || pj_json_parse(&arena, json, &claims.root) != PJ_OK ||
        ngx_http_pgw_claim_place(&cf, &text, &header.claim) != NGX_CONF_OK)
        return 0;
    if (text.len > 0)
        place_check(&cf, &header.claim, claims.root);
    FUZZ_ASSERT(ngx_http_pgw_token_grant(NULL, &conf, &issuer, &claims,
                                         &grant) == NGX_OK);
    value_check(ngx_http_pgw_claim_find(claims.root, &header.claim),
                ngx_http_pgw_grant_headers(&grant, &conf));
    FUZZ_ASSERT(ngx_http_pgw_token_grant_copy(
                    &copy, &grant, ngx_palloc(NULL, grant.size)) == NGX_OK);
    for (ngx_uint_t i = 0; i < grant.nstrings; i++)
        FUZZ_ASSERT(
            pj_str_eq(nginx_pj(&copy.strings[i]), nginx_pj(&grant.strings[i])));
    return 0;
}
