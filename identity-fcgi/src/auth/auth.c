/* What the four auth handlers have in common: bodies, answers, refusals. */

#include "auth/auth.h"

#include "auth/session.h"
#include "auth/token.h"
#include "base/jsonw.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

/* A 200-branch token is about 14 KiB, the rest below one. */
#define TOKEN_BUF_BYTES (TOKEN_MAX_BYTES + 4096)

/* -- refusals -- */

void auth_invalid(const struct http_request *req, struct http_response *res,
                  const char *detail)
{
    http_problem(res, req, 400, "REQUEST_INVALID", detail);
}

void auth_unauthorized(const struct http_request *req,
                       struct http_response *res, const char *code,
                       const char *detail, const char *challenge)
{
    http_problem(res, req, 401, code, detail);
    http_header(res, "WWW-Authenticate", challenge);
}

void auth_unavailable(const struct http_request *req,
                      struct http_response *res, const char *detail)
{
    http_problem(res, req, 503, "DATABASE_UNAVAILABLE", detail);
    http_header(res, "Retry-After", "1");
}

void auth_database_unavailable(const struct http_request *req,
                               struct http_response *res)
{
    auth_unavailable(req, res, "The database does not answer; try again.");
}

void auth_busy(const struct http_request *req, struct http_response *res)
{
    http_problem(res, req, 503, "AUTH_BUSY",
                 "Too much is going on at once; try again.");
    http_header(res, "Retry-After", "1");
}

void auth_failed(const struct http_request *req, struct http_response *res,
                 const char *what)
{
    log_event(LOG_ERROR_, "auth.failed", what, NULL, 0);
    http_problem(res, req, 500, "INTERNAL_ERROR",
                 "The request could not be completed.");
}

/* -- request bodies -- */

enum auth_body auth_body(struct worker *w, const struct http_request *req,
                         struct http_response *res, bool optional,
                         const pj_json_t **root)
{
    char detail[160];
    pj_err_t err;

    if (req->body_too_large) {
        http_problem(res, req, 413, "REQUEST_TOO_LARGE",
                     "The request body is over 16 KiB.");
        return AUTH_BODY_REFUSED;
    }
    if (optional && req->body.len == 0) {
        return AUTH_BODY_EMPTY;
    }
    if (!http_is_json(req->content_type)) {
        http_problem(res, req, 415, "MEDIA_TYPE_UNSUPPORTED",
                     "The request body must be application/json in UTF-8.");
        return AUTH_BODY_REFUSED;
    }
    err = pj_json_parse(&w->arena, req->body, root);
    if (err != PJ_OK) {
        snprintf(detail, sizeof(detail),
                 "The request body is not acceptable JSON: %s.",
                 pj_strerror(err));
        auth_invalid(req, res, detail);
        return AUTH_BODY_REFUSED;
    }
    if ((*root)->type != PJ_JSON_OBJECT) {
        auth_invalid(req, res, "The request body must be a JSON object.");
        return AUTH_BODY_REFUSED;
    }
    return AUTH_BODY_OBJECT;
}

static bool refuse_member(const struct http_request *req,
                          struct http_response *res, const char *name,
                          const char *what)
{
    char detail[160];

    snprintf(detail, sizeof(detail), "The member %s %s.", name, what);
    auth_invalid(req, res, detail);
    return false;
}

bool auth_member(const struct http_request *req, struct http_response *res,
                 const pj_json_t *root, const char *name, pj_str_t *out)
{
    const pj_json_t *member = pj_json_member(root, name);

    if (member == NULL) {
        return refuse_member(req, res, name, "is missing");
    }
    if (member->type != PJ_JSON_STRING) {
        return refuse_member(req, res, name, "must be a string");
    }
    *out = member->text;
    return true;
}

bool auth_member_refresh_token(const struct http_request *req,
                               struct http_response *res,
                               const pj_json_t *root, pj_str_t *out)
{
    const pj_json_t *member = pj_json_member(root, "refreshToken");

    *out = (pj_str_t){NULL, 0};
    if (member == NULL || member->type == PJ_JSON_NULL) {
        return true;
    }
    return auth_member(req, res, root, "refreshToken", out);
}

/* -- answers -- */

/* Lends the arena's free end to a token; what it takes is kept after. */
static void token_begin(struct worker *w, struct buf *out)
{
    size_t left = (size_t) (w->arena.end - w->arena.pos);

    buf_init(out, w->arena.pos,
             left < TOKEN_BUF_BYTES ? left : TOKEN_BUF_BYTES);
}

static pj_str_t token_keep(struct worker *w, const struct buf *token)
{
    w->arena.pos += token->len;
    return (pj_str_t){(const unsigned char *) token->data, token->len};
}

bool auth_sign_refresh(struct worker *w, const struct session *s,
                       const char *jti, int64_t exp, pj_str_t *out)
{
    struct buf token;

    token_begin(w, &token);
    if (!token_issue_refresh(w->cfg, w->signer, s, jti, w->now_s, exp,
                             &token)) {
        return false;
    }
    *out = token_keep(w, &token);
    return true;
}

static void write_branches(struct jsonw *json, const struct branch_list *list)
{
    jsonw_array(json, "branches");
    for (size_t i = 0; i < list->count; i++) {
        const struct branch *b = &list->items[i];

        jsonw_object(json, NULL);
        jsonw_cstr(json, "branchId", b->branch_id);
        jsonw_cstr(json, "branchName", b->branch_name);
        jsonw_cstr(json, "workspaceId", b->workspace_id);
        jsonw_cstr(json, "workspaceName", b->workspace_name);
        jsonw_object_end(json);
    }
    jsonw_array_end(json);
}

static void add_token(struct jsonw *json, const char *name, pj_str_t token)
{
    if (token.len > 0) {
        jsonw_string(json, name, token.data, token.len);
    }
}

static void write_answer(struct http_response *res,
                         const struct auth_answer *a, int64_t expires_in_s)
{
    struct jsonw json;

    buf_reset(&res->body);
    jsonw_init(&json, &res->body);
    jsonw_object(&json, NULL);
    jsonw_cstr(&json, "code", a->code);
    jsonw_cstr(&json, "message", a->message);
    add_token(&json, "accessToken", a->access_token);
    add_token(&json, "accountAccessToken", a->account_token);
    add_token(&json, "refreshToken", a->refresh_token);
    jsonw_cstr(&json, "tokenType", "Bearer");
    jsonw_int(&json, "expiresIn", expires_in_s);
    if (a->branches != NULL) {
        write_branches(&json, a->branches);
    }
    jsonw_object(&json, "nextAction");
    jsonw_cstr(&json, "type",
               a->scope != NULL ? "load_current_context" : "select_branch");
    jsonw_object_end(&json);
    jsonw_object_end(&json);
}

static int64_t access_expiry(const struct worker *w, const struct session *s)
{
    return session_expiry(w->now_s, w->cfg->access_ttl_s, s->created_at_s,
                          w->cfg->session_max_lifetime_s);
}

bool auth_sign_access(struct worker *w, struct auth_answer *a)
{
    const struct session *s = a->session;
    int64_t exp = access_expiry(w, s);
    struct buf token;

    if (a->scope != NULL) {
        token_begin(w, &token);
        if (!token_issue_branch(w->cfg, w->signer, s, a->scope, w->now_s, exp,
                                &token)) {
            return false;
        }
        a->access_token = token_keep(w, &token);
    }
    if (a->scope == NULL || a->account_access) {
        token_begin(w, &token);
        if (!token_issue_account(w->cfg, w->signer, s, w->now_s, exp,
                                 &token)) {
            return false;
        }
        a->account_token = token_keep(w, &token);
    }
    return true;
}

bool auth_answer(struct worker *w, const struct http_request *req,
                 struct http_response *res, struct auth_answer *a)
{
    if (a->access_token.len + a->account_token.len == 0 &&
        !auth_sign_access(w, a)) {
        auth_failed(req, res, "cannot sign an access token");
        return false;
    }
    write_answer(res, a, access_expiry(w, a->session) - w->now_s);
    if (res->body.overflow) {
        auth_failed(req, res, "the answer does not fit its buffer");
        return false;
    }
    res->status = 200;
    res->code = a->code;
    buf_reset(&res->headers);
    http_header(res, "Content-Type", "application/json");
    http_header(res, "Cache-Control", "no-store");
    auth_names(res, a->session->account_id, a->session->session_id);
    return true;
}

static void copy_id(char out[STORE_UUID], const char *id)
{
    size_t len = strnlen(id, STORE_UUID - 1);

    memcpy(out, id, len);
    out[len] = '\0';
}

void auth_names(struct http_response *res, const char *account_id,
                const char *session_id)
{
    copy_id(res->account_id, account_id);
    copy_id(res->session_id, session_id);
}

void auth_audit(const struct http_request *req, const char *event,
                const char *account_id, const char *session_id)
{
    log_audit(event, NULL,
              LOG_FIELDS({"clientIp", (const char *) req->remote_addr.data,
                          req->remote_addr.len},
                         {"accountId", account_id,
                          account_id != NULL ? strlen(account_id) : 0},
                         {"sessionId", session_id,
                          session_id != NULL ? strlen(session_id) : 0}),
              NULL, 0);
}
