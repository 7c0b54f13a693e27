/* token system, inspect; keys generate; migrate, seed, sweep */

#include "cmd/cmd_service.h"

#include "auth/session.h"
#include "auth/token.h"
#include "cmd/cmd_out.h"
#include "cmd/cmd_secret.h"
#include "people/people_account.h"
#include "store/migrate.h"
#include "store/sweep.h"

#include <openssl/crypto.h>
#include <string.h>
#include <time.h>

/* -- token system -- */

static bool is_ttl(const char *text)
{
    int64_t ttl_ms;

    return parse_within(text, "1s to 1h", true, &ttl_ms) && ttl_ms % 1000 == 0;
}

/* Signs a token, and sets its values as read back from it. */
static bool sign(struct cmd *c, struct token *token, struct session *s)
{
    int64_t ttl_ms, now = (int64_t) time(NULL);
    pj_claims_t claims;
    pj_arena_t arena;
    struct buf out;

    token->iat = session_issued_at(now, &s->clock);
    buf_init(&out, c->secret, sizeof(c->secret));
    pj_arena_init(&arena, c->arena, sizeof(c->arena));
    if (!parse_duration(cmd_option(c, "ttl"), &ttl_ms) ||
        !uuid_generate(s->session_id)) {
        return false;
    }
    token->exp = now + ttl_ms / 1000;
    if (!token_issue(&c->cfg, c->keys->signing, token, &out) ||
        token_verify(&c->cfg, c->keys, NULL, &arena,
                     (pj_str_t){(const unsigned char *) out.data, out.len}, now,
                     TOKEN_CHECK_ALL, &claims)) {
        return false;
    }
    buf_addc(&out, '\0');
    cmd_set(c, "token", c->secret);
    cmd_setf(c, "accountId", "%s", s->account_id);
    cmd_setf(c, "accountType", "%s", s->account_type);
    cmd_setf(c, "sessionId", "%.*s", (int) claims.session_id.len,
             (const char *) claims.session_id.data);
    cmd_setf(c, "tokenId", "%.*s", (int) claims.jti.len,
             (const char *) claims.jti.data);
    cmd_setn(c, "issuedAt", claims.iat);
    cmd_setn(c, "expiresAt", claims.exp);
    return !out.overflow;
}

/* A lockout applies to the token like to the tokens of a session; the account's
 * row is locked. */
static enum people_outcome issue(struct cmd *c, struct people *p)
{
    struct session s = {0};
    struct token token = {.kind = PJ_TOKEN_SYSTEM,
                          .session = &s,
                          .client_scope = cmd_get(c, "scopeText")};
    struct account_item account;
    enum people_outcome outcome = people_account_lock(p, c->account, &account);

    if (outcome == PEOPLE_DONE && strcmp(account.status, "ACTIVE") != 0) {
        return people_refuse(p, PEOPLE_CONFLICT, NULL,
                             "the account is disabled; run account enable "
                             "first");
    }
    if (outcome == PEOPLE_DONE) {
        outcome = people_account_clock(p, account.account_id, &s.clock);
    }
    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    snprintf(s.account_id, STORE_UUID, "%s", account.account_id);
    snprintf(s.account_type, sizeof(s.account_type), "%s", account.type);
    if (!sign(c, &token, &s)) {
        (void) cmd_fail(c, "the token could not be signed");
        return PEOPLE_FAILED;
    }
    c->events[0] = "token.system_issued";
    return PEOPLE_DONE;
}

/* Joins the scopes of --allow by spaces, as tokens have them. */
static bool check_token(struct cmd *c)
{
    static char text[512];

    if (!cmd_join(c, "allow", CMD_MAX_SCOPES, ' ')) {
        return false;
    }
    if (c->secret[0] != '\0') {
        snprintf(text, sizeof(text), "%.*s", (int) sizeof(text) - 1, c->secret);
        cmd_set(c, "scopeText", text);
    }
    return cmd_keys(c);
}

/* -- token inspect -- */

/* Returns the token in c->secret without blanks and "Bearer ". */
static pj_str_t given_token(struct cmd *c)
{
    size_t from = strspn(c->secret, " "), len = c->secret_len;

    while (len > from && c->secret[len - 1] == ' ') {
        len--;
    }
    if (len - from > 7 && memcmp(c->secret + from, "Bearer ", 7) == 0) {
        from += 7;
    }
    return (pj_str_t){(unsigned char *) c->secret + from, len - from};
}

/* Decodes a part of a token.  Returns the JSON object and its text, or NULL. */
static const pj_json_t *decode(pj_arena_t *arena, pj_str_t part, pj_str_t *json)
{
    unsigned char *text = pj_arena_alloc(arena, part.len);
    const pj_json_t *root;
    size_t len;

    if (text == NULL || pj_b64url_decode(text, part.len, &len, part)) {
        return NULL;
    }
    *json = (pj_str_t){text, len};
    return !pj_json_parse(arena, *json, &root) && root->type == PJ_JSON_OBJECT
               ? root
               : NULL;
}

static void print_claim(struct cmd *c, const pj_json_t *claim)
{
    char label[32], value[256];
    bool time;
    int64_t number;
    size_t n;

    snprintf(label, sizeof(label), "%.*s", (int) claim->name.len,
             (const char *) claim->name.data);
    time = (strcmp(label, "exp") == 0 || strcmp(label, "iat") == 0 ||
            strcmp(label, "nbf") == 0) &&
           !pj_json_seconds(claim, PJ_ROUND_DOWN, &number);
    if (time) {
        snprintf(value, sizeof(value), "%lld", (long long) number);
    } else if (claim->type == PJ_JSON_BOOL) {
        snprintf(value, sizeof(value), claim->boolean ? "true" : "false");
    } else if (claim->type != PJ_JSON_ARRAY) {
        snprintf(value, sizeof(value), "%.*s", (int) claim->text.len,
                 (const char *) claim->text.data);
    } else {
        n = (size_t) snprintf(value, sizeof(value), "%zu:", claim->count);
        for (claim = claim->child; claim != NULL && n < sizeof(value);
             claim = claim->next) {
            n += (size_t) snprintf(value + n, sizeof(value) - n, " %.*s",
                                   (int) claim->text.len,
                                   (const char *) claim->text.data);
        }
    }
    cmd_out_claim(c, label, value, time);
}

/* The signature is checked after the header and before the claims. */
static const char *signature_state(pj_err_t verdict)
{
    const uint64_t later =
        PJ_FAULT(PJ_OK) | PJ_FAULT(PJ_ERR_TOKEN_CLAIMS) |
        PJ_FAULT(PJ_ERR_TOKEN_ISSUER) | PJ_FAULT(PJ_ERR_TOKEN_EXPIRED) |
        PJ_FAULT(PJ_ERR_TOKEN_NOT_YET) | PJ_FAULT(PJ_ERR_TOKEN_KIND);

    return (PJ_FAULT(verdict) & later) != 0    ? "valid"
           : verdict == PJ_ERR_TOKEN_SIGNATURE ? "invalid"
                                               : "unchecked";
}

static bool inspect(struct cmd *c)
{
    pj_str_t token = given_token(c), header, payload;
    const pj_json_t *root;
    pj_claims_t claims;
    pj_arena_t arena;
    pj_err_t verdict;
    pj_jws_t jws;
    char text[64];

    pj_arena_init(&arena, c->arena, sizeof(c->arena));
    if (pj_jws_split(token, TOKEN_MAX_BYTES, &jws) ||
        decode(&arena, jws.header, &header) == NULL ||
        (root = decode(&arena, jws.payload, &payload)) == NULL) {
        return cmd_fail_as(
            c, "REQUEST_INVALID",
            "not a token: it is not three parts of base64url with "
            "JSON in the first two");
    }
    verdict = token_verify(&c->cfg, c->keys, NULL, &arena, token,
                           (int64_t) time(NULL), TOKEN_CHECK_ALL, &claims);
    cmd_set(c, "verifies", verdict ? "f" : "t");
    cmd_set(c, "reason", verdict ? pj_errname(verdict) : "");
    cmd_set(c, "signature", signature_state(verdict));
    snprintf(text, sizeof(text), "%s (%zu bytes, not shown)",
             signature_state(verdict), jws.signature.len * 3 / 4);
    (void) cmd_out_values(c);
    if (c->json) {
        jsonw_json(&c->w, "header", (const char *) header.data, header.len);
        jsonw_json(&c->w, "claims", (const char *) payload.data, payload.len);
    } else {
        cmd_out_claim(c, "signature", text, false);
        for (root = root->child; root != NULL; root = root->next) {
            print_claim(c, root);
        }
    }
    if (verdict) {
        (void) cmd_fail_as(c, "REQUEST_INVALID",
                           "the token does not verify: %s",
                           pj_strerror(verdict));
    }
    return true;
}

static bool read_token(struct cmd *c)
{
    return cmd_keys(c) && cmd_secret_read(c, "token", CMD_SECRET_MAX, false);
}

/* -- keys generate -- */

static bool generate(struct cmd *c)
{
    static const char *const names[] = {"PLATFORM_JWT_KEY_ID",
                                        "PLATFORM_JWT_PRIVATE_KEY_BASE64",
                                        "PLATFORM_JWT_PUBLIC_KEY_BASE64"};
    struct new_keys made;
    const char *const values[] = {made.kid, made.private_text,
                                  made.public_text};
    const char *alg = cmd_get(c, "algorithm");

    if (!keys_generate(cmd_get(c, "kid"),
                       pj_alg_find(pj_str(alg != NULL ? alg : "RS256")),
                       &made)) {
        return cmd_fail(c, "the key could not be made or written");
    }
    for (int i = 0; i < 3; i++) {
        if (c->json) {
            jsonw_cstr(&c->w, names[i], values[i]);
        } else {
            buf_addf(&c->out, "%s=%s\n", names[i], values[i]);
        }
    }
    OPENSSL_cleanse(&made, sizeof(made));
    return true;
}

/* -- migrate, seed -- */

bool cmd_service_migrate(struct cmd *c, bool seed)
{
    const char *refused;
    struct error e;

    if (!cmd_load(c)) {
        return false;
    }
    refused = seed ? config_refuse_seed(&c->cfg) : NULL;
    if (refused != NULL) {
        return cmd_misused(c, "%s", refused);
    }
    if (!migrate_run(&c->cfg, seed, &e)) {
        return cmd_no_database(c, e.text);
    }
    cmd_setn(c, "schemaVersion", migrate_count);
    return true;
}

static bool migrate(struct cmd *c)
{
    return cmd_service_migrate(c, strcmp(c->spec->words, "seed") == 0);
}

/* -- sweep -- */

static bool sweep(struct cmd *c)
{
    const char *keep = cmd_get(c, "older-than");
    int64_t keep_s = SWEEP_KEEP_S, counts[SWEEP_KINDS], any = 0;
    enum sweep_result result;
    struct error e;

    if (keep != NULL && parse_duration(keep, &keep_s)) {
        keep_s /= 1000;
    }
    result = sweep_run(&c->cfg, keep_s, counts, &e);
    if (result == SWEEP_BUSY) {
        cmd_out_line(c, "another process is sweeping: nothing was done");
    }
    for (int i = 0; i < SWEEP_KINDS && result != SWEEP_BUSY; i++) {
        cmd_setn(c, sweep_names[i], counts[i]);
        any += counts[i];
    }
    cmd_set(c, "busy", result == SWEEP_BUSY ? "t" : "f");
    if (any > 0) {
        cmd_out_audit(c, "sweep.done", NULL);
    }
    return result != SWEEP_FAILED ||
           cmd_fail_as(c, "DATABASE_UNAVAILABLE", "%s", e.text);
}

/* -- the table -- */

/* clang-format off */
const struct cmd_spec cmd_services[] = {
    {"token system", NULL, "issue a system token for an account",
     "It is accepted where the gateway asks for \"system\".  It cannot be\n"
     "revoked by itself, so give it a short life: account disable and account\n"
     "revoke-sessions end all that the account has.\n",
     .options = {
         {"account", "ACCOUNT", "an enabled account, its name or id",
          .flags = CMD_NEEDED},
         {"ttl", "TIME", "its lifetime, at most 1h", CMD_NEEDED, is_ttl,
          .accepted = "whole seconds or a number with s, m or h, 1s to 1h"},
         {"allow", "SCOPE", "a scope that it has", CMD_MANY, CMD_SCOPE}},
     .check = check_token, .operate = issue, .after = cmd_out_secret,
     .columns = {"token=", "accountId=", "accountType=", "sessionId=",
                 "tokenId=", "issuedAt=", "expiresAt="}},
    {"token inspect", NULL, "show what a token says, and verify it",
     "The token is read from standard input.  The exit status is 1 if it is "
     "not\nvalid now, with the configured keys and issuer.\n",
     .check = read_token, .print = inspect,
     .columns = {"verifies", "reason", "signature="}},
    {"keys generate", NULL, "print a new signing key as three settings",
     "The output includes the private key: keep it where only the service\n"
     "can read it.\n",
     .options = {
         {"kid", "ID", "its id (default: its RFC 7638 thumbprint)", 0,
          parse_kid, .accepted = PARSE_KID_ACCEPTED},
         {"algorithm", "ALG", "how it signs (default RS256)", CMD_ALGORITHM}},
     .print = generate},
    {"migrate", NULL, "apply pending database migrations",
     "Does nothing if there are none.\n",
     .check = migrate, .columns = {"schemaVersion"}},
    {"seed", NULL, "migrate, load the demo data (APP_ENV=local)", NULL,
     .check = migrate, .columns = {"schemaVersion"}},
    {"sweep", NULL, "delete what ended long ago",
     "Sessions that expired or were revoked over 7 days ago, and failed "
     "logins\nand rotated-out tokens that no longer count, and revocations "
     "whose tokens\nhave expired.  The service does the same every "
     "PLATFORM_SWEEP_INTERVAL.\n",
     .options = {
         {"older-than", "TIME",
          "keep ended sessions for this long (default 7d)",
          .within = "0 to 3650d",
          .accepted = "integer seconds or a number with s, m, h or d, "
          "at most 3650d"}},
     .check = cmd_load, .after = sweep,
     .columns = {"sessions", "rotatedTokens", "attempts", "revocations",
                 "busy="}},
    {.words = NULL},
};
/* clang-format on */
