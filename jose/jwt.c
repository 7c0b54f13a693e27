/* JWT claims: their types by kind of token, issuer, audience and time. */

#include "pj_internal.h"

#include <stddef.h>
#include <string.h>

#define MAX_LEEWAY_S 300

/* Sets of token kinds. */
#define ACCOUNT (1u << PJ_TOKEN_ACCOUNT)
#define BRANCH (1u << PJ_TOKEN_BRANCH)
#define SYSTEM (1u << PJ_TOKEN_SYSTEM)
#define REFRESH (1u << PJ_TOKEN_REFRESH)
#define ACCESS (ACCOUNT | BRANCH | SYSTEM)
#define ALL (ACCESS | REFRESH)

/* FROM and UNTIL are times; fractions are rounded towards refusal. */
typedef enum { STRING, STRINGS, FROM, UNTIL } claim_type_t;

/* The claims, the kinds that have (and require) them, and their place. */
static const struct {
    pj_str_t name;
    unsigned kinds;
    claim_type_t type;
    size_t offset;
} claim_table[] = {
    {PJ_STR("iss"), ALL, STRING, offsetof(pj_claims_t, iss)},
    {PJ_STR("sub"), ALL, STRING, offsetof(pj_claims_t, sub)},
    {PJ_STR("jti"), ALL, STRING, offsetof(pj_claims_t, jti)},
    {PJ_STR("iat"), ALL, FROM, offsetof(pj_claims_t, iat)},
    {PJ_STR("exp"), ALL, UNTIL, offsetof(pj_claims_t, exp)},
    {PJ_STR("account_id"), ALL, STRING, offsetof(pj_claims_t, account_id)},
    {PJ_STR("session_id"), ALL, STRING, offsetof(pj_claims_t, session_id)},
    {PJ_STR("account_type"), ACCESS, STRING,
     offsetof(pj_claims_t, account_type)},
    {PJ_STR("workspace_id"), BRANCH, STRING,
     offsetof(pj_claims_t, workspace_id)},
    {PJ_STR("tenant_id"), BRANCH, STRING, offsetof(pj_claims_t, tenant_id)},
    {PJ_STR("member_id"), BRANCH, STRING, offsetof(pj_claims_t, member_id)},
    {PJ_STR("active_branch_id"), BRANCH, STRING,
     offsetof(pj_claims_t, active_branch_id)},
    {PJ_STR("branch_ids"), BRANCH, STRINGS, offsetof(pj_claims_t, branch_ids)},
    {PJ_STR("roles"), BRANCH, STRINGS, offsetof(pj_claims_t, roles)},
};

#define CLAIM_COUNT (sizeof(claim_table) / sizeof(claim_table[0]))

/* token_type and token_scope of each kind. */
static const struct {
    pj_str_t type;
    pj_str_t scope;
} kind_table[] = {
    [PJ_TOKEN_ACCOUNT] = {PJ_STR("account"), PJ_STR("ACCOUNT")},
    [PJ_TOKEN_BRANCH] = {PJ_STR("workspace"), PJ_STR("BRANCH")},
    [PJ_TOKEN_SYSTEM] = {PJ_STR("system"), PJ_STR("SYSTEM")},
    [PJ_TOKEN_REFRESH] = {PJ_STR("refresh"), {NULL, 0}},
};

#define KIND_COUNT (sizeof(kind_table) / sizeof(kind_table[0]))

pj_str_t pj_token_type(pj_token_kind_t kind)
{
    return kind_table[kind].type;
}

pj_str_t pj_token_scope(pj_token_kind_t kind)
{
    return kind_table[kind].scope;
}

static bool is_string(const pj_json_t *node)
{
    return node != NULL && node->type == PJ_JSON_STRING && node->text.len > 0;
}

/* Returns true for an array, possibly empty, of non-empty strings. */
static bool is_strings(const pj_json_t *node)
{
    if (node == NULL || node->type != PJ_JSON_ARRAY)
        return false;
    for (const pj_json_t *item = node->child; item != NULL; item = item->next) {
        if (!is_string(item))
            return false;
    }
    return true;
}

/* Sets the kind, which token_type and token_scope determine together. */
static pj_err_t kind_read(pj_claims_t *claims)
{
    claims->token_type = pj_json_string(claims->root, "token_type");
    claims->token_scope = pj_json_string(claims->root, "token_scope");
    if (claims->token_scope.len == 0 &&
        pj_json_member(claims->root, "token_scope") != NULL)
        return PJ_ERR_TOKEN_KIND;

    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (pj_str_eq(claims->token_type, kind_table[i].type) &&
            pj_str_eq(claims->token_scope, kind_table[i].scope)) {
            claims->kind = (pj_token_kind_t) i;
            return PJ_OK;
        }
    }
    return PJ_ERR_TOKEN_KIND;
}

/* Stores a claim; returns false if it has the wrong type. */
static bool claim_store(void *place, claim_type_t type, const pj_json_t *node)
{
    if (type == FROM || type == UNTIL)
        return pj_json_seconds(node, type == FROM ? PJ_ROUND_UP : PJ_ROUND_DOWN,
                               place) == PJ_OK;
    if (type == STRING ? !is_string(node) : !is_strings(node))
        return false;
    if (type == STRING)
        *(pj_str_t *) place = node->text;
    else
        *(const pj_json_t **) place = node;
    return true;
}

static pj_err_t claim_fault(pj_claims_t *claims, pj_str_t name)
{
    claims->fault = name;
    return PJ_ERR_TOKEN_CLAIMS;
}

static pj_err_t claims_read(pj_claims_t *claims)
{
    for (size_t i = 0; i < CLAIM_COUNT; i++) {
        pj_str_t name = claim_table[i].name;

        if ((claim_table[i].kinds & 1u << claims->kind) != 0 &&
            !claim_store(
                (unsigned char *) claims + claim_table[i].offset,
                claim_table[i].type,
                pj_json_member(claims->root, (const char *) name.data)))
            return claim_fault(claims, name);
    }
    return PJ_OK;
}

/* Claims that are optional: nbf and aud. */
static pj_err_t optional_read(pj_claims_t *claims)
{
    const pj_json_t *nbf = pj_json_member(claims->root, "nbf");
    const pj_json_t *aud = pj_json_member(claims->root, "aud");

    if (nbf != NULL && !claim_store(&claims->nbf, FROM, nbf))
        return claim_fault(claims, PJ_STR("nbf"));
    if (aud != NULL && !is_string(aud) && !is_strings(aud))
        return claim_fault(claims, PJ_STR("aud"));
    return PJ_OK;
}

/* Checks typ of access tokens, and that sub equals account_id. */
static pj_err_t extras_check(pj_claims_t *claims)
{
    if (claims->kind != PJ_TOKEN_REFRESH &&
        !pj_str_eq(pj_json_string(claims->root, "typ"), PJ_STR("access")))
        return claim_fault(claims, PJ_STR("typ"));
    if (!pj_str_eq(claims->sub, claims->account_id))
        return claim_fault(claims, PJ_STR("sub"));
    return PJ_OK;
}

pj_err_t pj_claims_decode(pj_arena_t *arena, const pj_jws_t *jws,
                          pj_claims_t *claims)
{
    pj_err_t err;

    memset(claims, 0, sizeof(*claims));
    err = pj_json_decode(arena, jws->payload, &claims->root);
    if (err == PJ_OK && claims->root->type != PJ_JSON_OBJECT)
        err = PJ_ERR_TOKEN_CLAIMS;
    if (err == PJ_OK)
        claims->iss = pj_json_string(claims->root, "iss");
    return err;
}

pj_err_t pj_claims_read(pj_claims_t *claims)
{
    pj_err_t err = kind_read(claims);

    if (err == PJ_OK)
        err = claims_read(claims);
    if (err == PJ_OK)
        err = optional_read(claims);
    return err == PJ_OK ? extras_check(claims) : err;
}

pj_err_t pj_claims_parse(pj_arena_t *arena, const pj_jws_t *jws,
                         pj_claims_t *claims)
{
    pj_err_t err = pj_claims_decode(arena, jws, claims);

    return err == PJ_OK ? pj_claims_read(claims) : err;
}

pj_err_t pj_claims_read_foreign(pj_claims_t *claims, const pj_names_t *names)
{
    const struct {
        const char *name;
        claim_type_t type;
        bool required;
        void *place;
    } reads[] = {
        {"iss", STRING, true, &claims->iss},
        {names->subject, STRING, true, &claims->sub},
        {"exp", UNTIL, true, &claims->exp},
        {"iat", FROM, false, &claims->iat},
        {names->session, STRING, false, &claims->session_id},
    };

    claims->kind = PJ_TOKEN_FOREIGN;
    for (size_t i = 0; i < sizeof(reads) / sizeof(reads[0]); i++) {
        const pj_json_t *node;

        if (reads[i].name == NULL) {
            if (reads[i].required)
                return PJ_ERR_TOKEN_CLAIMS;
            continue;
        }
        node = pj_json_member(claims->root, reads[i].name);
        if ((node != NULL || reads[i].required) &&
            !claim_store(reads[i].place, reads[i].type, node))
            return claim_fault(claims, pj_str(reads[i].name));
    }
    claims->account_id = claims->sub;
    return optional_read(claims);
}

/* -- checking ------------------------------------------------------------- */

static bool is_one_of(pj_str_t s, const pj_str_t *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (pj_str_eq(s, list[i]))
            return true;
    }
    return false;
}

/* aud is a string or an array of strings (RFC 7519 section 4.1.3). */
static bool audience_ok(const pj_claims_t *claims, const pj_policy_t *policy)
{
    const pj_json_t *aud = pj_json_member(claims->root, "aud");
    bool many = aud != NULL && aud->type == PJ_JSON_ARRAY;

    for (const pj_json_t *item = many ? aud->child : aud; item != NULL;
         item = many ? item->next : NULL) {
        if (is_one_of(item->text, policy->audiences, policy->audience_count))
            return true;
    }
    return false;
}

uint64_t pj_claims_faults(const pj_claims_t *claims, const pj_policy_t *policy)
{
    int64_t latest = policy->now_s + policy->leeway_s;
    uint64_t faults = 0;

    if (!is_one_of(claims->iss, policy->issuers, policy->issuer_count))
        faults |= PJ_FAULT(PJ_ERR_TOKEN_ISSUER);
    if (policy->audience_count > 0 && !audience_ok(claims, policy))
        faults |= PJ_FAULT(PJ_ERR_TOKEN_AUDIENCE);
    if (!policy->allow_confirmation &&
        pj_json_member(claims->root, "cnf") != NULL)
        faults |= PJ_FAULT(PJ_ERR_TOKEN_BOUND);
    if (claims->iat > latest || claims->nbf > latest)
        faults |= PJ_FAULT(PJ_ERR_TOKEN_NOT_YET);
    if (policy->now_s - policy->leeway_s >= claims->exp)
        faults |= PJ_FAULT(PJ_ERR_TOKEN_EXPIRED);
    return faults;
}

/* The lowest bit is the fault to report: the codes are in that order. */
pj_err_t pj_claims_check(const pj_claims_t *claims, const pj_policy_t *policy)
{
    uint64_t faults;

    if (policy->issuer_count == 0 || policy->leeway_s < 0 ||
        policy->leeway_s > MAX_LEEWAY_S || policy->now_s < 0 ||
        policy->now_s > INT64_MAX - MAX_LEEWAY_S)
        return PJ_ERR_ARGUMENT;
    faults = pj_claims_faults(claims, policy);
    return faults == 0 ? PJ_OK : (pj_err_t) __builtin_ctzll(faults);
}
