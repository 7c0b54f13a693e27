/* What the four auth handlers have in common: bodies, answers, refusals. */

#ifndef AUTH_H_INCLUDED
#define AUTH_H_INCLUDED

#include "auth/app.h"

#include <pj.h>
#include <stdbool.h>
#include <stdint.h>

/* -- request bodies -- */

enum auth_body {
    AUTH_BODY_OBJECT, /* *root is a JSON object */
    AUTH_BODY_EMPTY,  /* no body at all; only where it may be left out */
    AUTH_BODY_REFUSED /* res is the answer */
};

/*
 * Size, media type, syntax, in this order.  A body that may be left out needs
 * no media type when it is.
 */
enum auth_body auth_body(struct worker *w, const struct http_request *req,
                         struct http_response *res, bool optional,
                         const pj_json_t **root);

/* The string member name.  False, with res the answer, when it is missing or
 * no string. */
bool auth_member(const struct http_request *req, struct http_response *res,
                 const pj_json_t *root, const char *name, pj_str_t *out);

/* The member refreshToken: missing, null and "" all leave *out empty; false,
 * with res the answer, when it is anything but a string. */
bool auth_member_refresh_token(const struct http_request *req,
                               struct http_response *res,
                               const pj_json_t *root, pj_str_t *out);

/* -- refusals -- */

void auth_invalid(const struct http_request *req, struct http_response *res,
                  const char *detail);
/*
 * 401 with its challenge (RFC 9110 section 15.5.2).  Where no token in
 * Authorization would help that is a scheme of our own, for which no browser
 * asks its user.
 */
#define AUTH_CHALLENGE_LOGIN "Login realm=\"platform\""
#define AUTH_CHALLENGE_BEARER "Bearer realm=\"platform\""
void auth_unauthorized(const struct http_request *req,
                       struct http_response *res, const char *code,
                       const char *detail, const char *challenge);
/* 503, all with Retry-After. */
void auth_unavailable(const struct http_request *req,
                      struct http_response *res, const char *detail);
void auth_database_unavailable(const struct http_request *req,
                               struct http_response *res);
void auth_busy(const struct http_request *req, struct http_response *res);
/* 500: our own failure (no randomness, no memory, no signature). */
void auth_failed(const struct http_request *req, struct http_response *res,
                 const char *what);

/* -- answers -- */

struct auth_answer {
    const char *code;
    const char *message;
    const struct session *session;
    const struct scope *scope;          /* NULL: no branch is chosen yet */
    const struct branch_list *branches; /* listed, if not NULL */
    bool account_access;                /* also in a scoped answer */
    /* Each is left out when empty. */
    pj_str_t refresh_token, access_token, account_token;
};

/* Signs the access tokens that the answer needs; false when that fails. */
bool auth_sign_access(struct worker *w, struct auth_answer *answer);

/*
 * Makes res the 200; signs the access tokens where that was not done.  False,
 * with res the answer, when that fails.
 */
bool auth_answer(struct worker *w, const struct http_request *req,
                 struct http_response *res, struct auth_answer *answer);

/* Signs a refresh token in the arena; false when that fails. */
bool auth_sign_refresh(struct worker *w, const struct session *s,
                       const char *jti, int64_t exp, pj_str_t *out);

/* Sets the ids that logs and metrics get to know. */
void auth_names(struct http_response *res, const char *account_id,
                const char *session_id);

/* An audit line; account_id and session_id may be NULL. */
void auth_audit(const struct http_request *req, const char *event,
                const char *account_id, const char *session_id);

#endif
