/* token system, token inspect */

#include "cmd/cmd.h"

#include "auth/token.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SYSTEM_TTL_MAX_S 3600
#define TOKEN_BUF_BYTES (TOKEN_MAX_BYTES + 4096)
#define ARENA_BYTES (1024 * 1024)

/* -- token system -- */

static const struct out_column issued_columns[] = {
    {"token", NULL, OUT_TEXT, 0},       {"accountId", NULL, OUT_TEXT, 0},
    {"accountType", NULL, OUT_TEXT, 0}, {"sessionId", NULL, OUT_TEXT, 0},
    {"tokenId", NULL, OUT_TEXT, 0},     {"issuedAt", NULL, OUT_TIME, 0},
    {"expiresAt", NULL, OUT_TIME, 0},   {.name = NULL},
};

struct issued {
    char token[TOKEN_BUF_BYTES];
    char session_id[STORE_UUID], token_id[STORE_UUID];
    char arena[ARENA_BYTES];
};

static void copy(char out[STORE_UUID], pj_str_t s)
{
    snprintf(out, STORE_UUID, "%.*s", (int) s.len, (const char *) s.data);
}

/* Signs a token and sets what it says, as everybody else will read it. */
static bool issue(struct cmd *c, int64_t ttl_s, struct issued *t)
{
    int64_t now = (int64_t) time(NULL);
    pj_claims_t claims;
    pj_arena_t arena;
    struct session s = {0};
    const struct token spec = {
        .kind = TOKEN_SYSTEM, .session = &s, .iat = now, .exp = now + ttl_s};
    struct buf out;

    snprintf(s.account_id, STORE_UUID, "%s", cmd_get(c, "accountId"));
    snprintf(s.account_type, sizeof(s.account_type), "%s", cmd_get(c, "type"));
    buf_init(&out, t->token, sizeof(t->token));
    pj_arena_init(&arena, t->arena, sizeof(t->arena));
    if (!uuid_generate(s.session_id) ||
        !token_issue(&c->cfg, c->keys->signing, &spec, &out) ||
        token_verify(&c->cfg, c->keys, &arena,
                     (pj_str_t){(const unsigned char *) out.data, out.len},
                     now, TOKEN_CHECK_ALL, &claims)) {
        return false;
    }
    buf_addc(&out, '\0');
    copy(t->session_id, claims.session_id);
    copy(t->token_id, claims.jti);
    cmd_set_text(c, "token", t->token);
    cmd_set_text(c, "accountType", cmd_get(c, "type"));
    cmd_set_text(c, "sessionId", t->session_id);
    cmd_set_text(c, "tokenId", t->token_id);
    cmd_set_number(c, "issuedAt", claims.iat);
    cmd_set_number(c, "expiresAt", claims.exp);
    return !out.overflow;
}

static int print_issued(struct cmd *c, const struct issued *t)
{
    cmd_audit(c, c->spec->event, "accountId", "sessionId", "tokenId",
              "expiresAt", NULL);
    if (!cmd_out_open(c, false)) {
        return c->status;
    }
    out_line(&c->out, t->token);
    cmd_print_values(c, issued_columns);
    return cmd_out_close(c);
}

int cmd_token_system(struct cmd *c)
{
    const char *ttl = cmd_args_value(&c->args, "ttl");
    struct issued *t;
    int64_t ttl_ms;
    int status;

    if (!parse_duration(ttl, &ttl_ms) || ttl_ms < 1000 || ttl_ms % 1000 != 0 ||
        ttl_ms > SYSTEM_TTL_MAX_S * 1000) {
        return cmd_fail(c, CMD_USAGE,
                        "--ttl is whole seconds or a number with s, m or h, "
                        "1s to 1h");
    }
    if (!cmd_account_ref(c, cmd_args_value(&c->args, "account")) ||
        !cmd_keys(c) || !cmd_change(c, cmd_lock_account)) {
        return c->status;
    }
    if (!cmd_is(c, "status", "ACTIVE")) {
        return cmd_fail(c, CMD_FAILED,
                        "the account is disabled: account enable comes "
                        "first");
    }
    t = malloc(sizeof(*t));
    status = t != NULL && issue(c, ttl_ms / 1000, t)
                 ? print_issued(c, t)
                 : cmd_fail(c, CMD_FAILED, "the token could not be signed");
    if (t != NULL) {
        OPENSSL_cleanse(t, sizeof(*t));
    }
    free(t);
    return status;
}

/* -- token inspect -- */

struct inspection {
    char token[TOKEN_BUF_BYTES];
    size_t len;
    unsigned char header[TOKEN_MAX_BYTES], payload[TOKEN_MAX_BYTES];
    pj_str_t header_json, payload_json;
    size_t signature_bytes;
    const pj_json_t *claims; /* the payload, whatever it says */
    pj_err_t verdict;
    char arena[ARENA_BYTES];
    char verify_arena[ARENA_BYTES];
};

static bool decode(pj_str_t part, unsigned char *out, size_t cap,
                   pj_str_t *json)
{
    size_t len;

    if (pj_b64url_decode(out, cap, &len, part)) {
        return false;
    }
    *json = (pj_str_t){out, len};
    return true;
}

static pj_str_t strip(pj_str_t token)
{
    static const char bearer[] = "Bearer ";

    while (token.len > 0 && token.data[token.len - 1] == ' ') {
        token.len--;
    }
    while (token.len > 0 && token.data[0] == ' ') {
        token.data++;
        token.len--;
    }
    if (token.len > sizeof(bearer) - 1 &&
        memcmp(token.data, bearer, sizeof(bearer) - 1) == 0) {
        token.data += sizeof(bearer) - 1;
        token.len -= sizeof(bearer) - 1;
    }
    return token;
}

/* Whether there is anything to show. */
static bool decode_all(struct inspection *t, pj_str_t token)
{
    const pj_json_t *header;
    pj_arena_t arena;
    pj_jws_t jws;

    pj_arena_init(&arena, t->arena, sizeof(t->arena));
    if (pj_jws_split(token, TOKEN_MAX_BYTES, &jws) ||
        !decode(jws.header, t->header, sizeof(t->header), &t->header_json) ||
        !decode(jws.payload, t->payload, sizeof(t->payload),
                &t->payload_json)) {
        return false;
    }
    t->signature_bytes = jws.signature.len * 3 / 4;
    return !pj_json_parse(&arena, t->header_json, &header) &&
           header->type == PJ_JSON_OBJECT &&
           !pj_json_parse(&arena, t->payload_json, &t->claims) &&
           t->claims->type == PJ_JSON_OBJECT;
}

/* A claim for people: a string or number as it is, an array's elements. */
static void print_claim(struct out *o, const pj_json_t *claim)
{
    char label[32], value[256];
    size_t n = 0;
    int64_t number;

    snprintf(label, sizeof(label), "%.*s", (int) claim->name.len,
             (const char *) claim->name.data);
    if (claim->type == PJ_JSON_NUMBER &&
        !pj_json_seconds(claim, PJ_ROUND_DOWN, &number) &&
        (strcmp(label, "exp") == 0 || strcmp(label, "iat") == 0 ||
         strcmp(label, "nbf") == 0)) {
        snprintf(value, sizeof(value), "%lld", (long long) number);
        out_value(o, &(struct out_column){NULL, label, OUT_TIME, 0}, value);
        return;
    }
    if (claim->type == PJ_JSON_STRING || claim->type == PJ_JSON_NUMBER) {
        snprintf(value, sizeof(value), "%.*s", (int) claim->text.len,
                 (const char *) claim->text.data);
    } else if (claim->type == PJ_JSON_ARRAY) {
        n = (size_t) snprintf(value, sizeof(value), "%zu:", claim->count);
        for (const pj_json_t *e = claim->child; e != NULL && n < sizeof(value);
             e = e->next) {
            n += (size_t) snprintf(value + n, sizeof(value) - n, " %.*s",
                                   (int) e->text.len,
                                   (const char *) e->text.data);
        }
    } else {
        snprintf(value, sizeof(value), "%s",
                 claim->type == PJ_JSON_BOOL
                     ? (claim->boolean ? "true" : "false")
                     : "-");
    }
    out_text(o, NULL, label, value);
}

static const char *signature_state(pj_err_t verdict)
{
    switch (verdict) {
    case PJ_OK:
    case PJ_ERR_TOKEN_CLAIMS:
    case PJ_ERR_TOKEN_ISSUER:
    case PJ_ERR_TOKEN_EXPIRED:
    case PJ_ERR_TOKEN_NOT_YET:
    case PJ_ERR_TOKEN_KIND:
        return "valid";
    case PJ_ERR_TOKEN_SIGNATURE:
        return "invalid";
    default:
        return "unchecked";
    }
}

static void print_inspection(struct out *o, const struct inspection *t)
{
    char redacted[64];

    snprintf(redacted, sizeof(redacted), "%s (%zu bytes, not shown)",
             signature_state(t->verdict), t->signature_bytes);
    out_value(o, &(struct out_column){"verifies", "verifies", OUT_BOOL, 0},
              t->verdict == PJ_OK ? "t" : "f");
    out_text(o, "reason", "reason",
             t->verdict == PJ_OK ? "" : pj_errname(t->verdict));
    out_text(o, "signature", NULL, signature_state(t->verdict));
    out_text(o, NULL, "signature", redacted);
    out_json(o, "header", (const char *) t->header_json.data,
             t->header_json.len);
    out_json(o, "claims", (const char *) t->payload_json.data,
             t->payload_json.len);
    for (const pj_json_t *claim = t->claims->child; !o->json && claim != NULL;
         claim = claim->next) {
        print_claim(o, claim);
    }
}

static int inspect_read(struct cmd *c, struct inspection *t)
{
    pj_str_t token = {(const unsigned char *) t->token, t->len};
    pj_claims_t claims;
    pj_arena_t arena;
    int status;

    token = strip(token);
    if (!decode_all(t, token)) {
        return cmd_fail(c, CMD_FAILED,
                        "this is no token: not three parts of base64url with "
                        "JSON in the first two");
    }
    pj_arena_init(&arena, t->verify_arena, sizeof(t->verify_arena));
    t->verdict = token_verify(&c->cfg, c->keys, &arena, token,
                              (int64_t) time(NULL), TOKEN_CHECK_ALL, &claims);
    if (!cmd_out_open(c, false)) {
        return c->status;
    }
    print_inspection(&c->out, t);
    status = cmd_out_close(c);
    if (status == 0 && t->verdict) {
        status = cmd_fail(c, CMD_FAILED, "the token does not verify: %s",
                          pj_strerror(t->verdict));
    }
    return status;
}

int cmd_token_inspect(struct cmd *c)
{
    struct inspection *t = malloc(sizeof(*t));
    char err[160];
    int status;

    if (t == NULL) {
        return cmd_fail(c, CMD_FAILED, "out of memory");
    }
    if (!cmd_keys(c)) {
        status = c->status;
    } else if (!cmd_read_secret("Token", NULL, t->token, sizeof(t->token),
                                &t->len, err, sizeof(err))) {
        status = cmd_fail(c, CMD_FAILED, "no token: %s", err);
    } else {
        status = inspect_read(c, t);
    }
    OPENSSL_cleanse(t, sizeof(*t));
    free(t);
    return status;
}
