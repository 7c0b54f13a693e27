/* token system, token inspect */

#include "cmd/cmd.h"

#include "auth/token.h"
#include "base/config_parse.h"
#include "cmd/cmd_input.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SYSTEM_TTL_MAX_S 3600
#define TOKEN_BUF_BYTES (TOKEN_MAX_BYTES + 4096)
#define ARENA_BYTES (1024 * 1024)

/* -- token system -- */

struct issued {
    char token[TOKEN_BUF_BYTES];
    size_t len;
    pj_claims_t claims; /* as everybody else will read them */
    char arena[ARENA_BYTES];
};

static bool issue(struct cmd *c, const struct admin_account *account,
                  int64_t ttl_s, struct issued *t)
{
    int64_t now = (int64_t) time(NULL);
    pj_arena_t arena;
    struct buf out;

    buf_init(&out, t->token, sizeof(t->token));
    pj_arena_init(&arena, t->arena, sizeof(t->arena));
    if (!token_issue_system(&c->cfg, c->keys->signing, account->account_id,
                            account->type, now, now + ttl_s, &out) ||
        token_verify(&c->cfg, c->keys, &arena,
                     (pj_str_t){(const unsigned char *) out.data, out.len},
                     now, TOKEN_CHECK_ALL, &t->claims)) {
        return false;
    }
    t->len = out.len;
    return true;
}

static void audit(const pj_claims_t *claims)
{
    const struct log_number number = {"expiresAt", claims->exp};

    cmd_audit("token.system_issued",
              LOG_FIELDS({"accountId", (const char *) claims->account_id.data,
                          claims->account_id.len},
                         {"sessionId", (const char *) claims->session_id.data,
                          claims->session_id.len},
                         {"tokenId", (const char *) claims->jti.data,
                          claims->jti.len}),
              &number, 1);
}

static void copy(char out[STORE_UUID], pj_str_t s)
{
    snprintf(out, STORE_UUID, "%.*s", (int) s.len, (const char *) s.data);
}

static int print_issued(struct cmd *c, const struct admin_account *account,
                        struct issued *t)
{
    char id[STORE_UUID];

    if (!cmd_out_open(c, false)) {
        return c->status;
    }
    t->token[t->len] = '\0';
    out_line(&c->out, t->token);
    out_text(&c->out, "token", NULL, 0, t->token);
    out_text(&c->out, "accountId", NULL, 0, account->account_id);
    out_text(&c->out, "accountType", NULL, 0, account->type);
    copy(id, t->claims.session_id);
    out_text(&c->out, "sessionId", NULL, 0, id);
    copy(id, t->claims.jti);
    out_text(&c->out, "tokenId", NULL, 0, id);
    out_time(&c->out, "issuedAt", NULL, t->claims.iat);
    out_time(&c->out, "expiresAt", NULL, t->claims.exp);
    return cmd_out_close(c);
}

static int issue_system(struct cmd *c, const char *ref, int64_t ttl_s)
{
    struct admin_account account;
    struct issued *t;
    int status;

    if (!admin_account_find(c->admin, ref, &account)) {
        return cmd_fail_admin(c);
    }
    if (strcmp(account.status, "ACTIVE") != 0) {
        return cmd_fail(c, CMD_FAILED,
                        "the account is disabled: account enable comes "
                        "first");
    }
    t = malloc(sizeof(*t));
    if (t == NULL || !issue(c, &account, ttl_s, t)) {
        status = cmd_fail(c, CMD_FAILED, "the token could not be signed");
    } else {
        audit(&t->claims);
        status = print_issued(c, &account, t);
    }
    if (t != NULL) {
        OPENSSL_cleanse(t, sizeof(*t));
    }
    free(t);
    return status;
}

static int system_token(struct cmd *c)
{
    const char *ttl = cmd_args_value(&c->args, "ttl");
    char ref[STORE_ACCOUNT_NAME_MAX + 1];
    int64_t ttl_ms;

    if (!parse_duration(ttl, &ttl_ms) || ttl_ms < 1000 || ttl_ms % 1000 != 0 ||
        ttl_ms > SYSTEM_TTL_MAX_S * 1000) {
        return cmd_fail(c, CMD_USAGE,
                        "--ttl is whole seconds or a number with s, m or h, "
                        "1s to 1h");
    }
    if (!cmd_account_ref(c, cmd_args_value(&c->args, "account"), ref) ||
        !cmd_keys(c) || !cmd_connect(c)) {
        return c->status;
    }
    return issue_system(c, ref, ttl_ms / 1000);
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
        out_time(o, NULL, label, number);
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
    out_text(o, NULL, label, 0, value);
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
    out_bool(o, "verifies", "verifies", t->verdict == PJ_OK);
    out_text(o, "reason", "reason", 0,
             t->verdict == PJ_OK ? "" : pj_errname(t->verdict));
    out_text(o, "signature", NULL, 0, signature_state(t->verdict));
    out_text(o, NULL, "signature", 0, redacted);
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

static int inspect(struct cmd *c)
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

/* clang-format off */
const struct cmd_spec cmd_token_specs[] = {
    {"token", "system", NULL, "print a system token of an account",
     "It opens what the gateway guards by \"system\".  It cannot be revoked:\n"
     "keep its time short.\n",
     {{"account", "ACCOUNT", "an enabled account, its name or id", true, false},
      {"ttl", "TIME", "how long it works, 1h at most", true, false}},
     system_token},
    {"token", "inspect", NULL, "show what a token says, and verify it",
     "The token is read from standard input.  Exit status 1 where it does not\n"
     "verify with these keys and this issuer, now.\n",
     {{.name = NULL}}, inspect},
    {.group = NULL},
};
/* clang-format on */
