/* Issues and verifies the four kinds of token. */

#ifndef TOKEN_H_INCLUDED
#define TOKEN_H_INCLUDED

#include "auth/keys.h"
#include "base/buf.h"
#include "base/config.h"
#include "base/uuid.h"
#include "store/store.h"

#include <pj.h>
#include <stdint.h>

#define TOKEN_MAX_BYTES 16384 /* largest token accepted from a client */
#define TOKEN_LEEWAY_S 30     /* for access tokens; refresh tokens have none */

/*
 * Each appends one token signed by key to out (which must be empty); false on
 * overflow or a failed signature.  exp is absolute; nothing is compared here.
 * branch_ids and roles come from scope.
 */
bool token_issue_refresh(const struct config *cfg, const pj_key_t *key,
                         const struct session *s, const char *jti, int64_t iat,
                         int64_t exp, struct buf *out)
    __attribute__((warn_unused_result));
bool token_issue_account(const struct config *cfg, const pj_key_t *key,
                         const struct session *s, int64_t iat, int64_t exp,
                         struct buf *out) __attribute__((warn_unused_result));
bool token_issue_branch(const struct config *cfg, const pj_key_t *key,
                        const struct session *s, const struct scope *scope,
                        int64_t iat, int64_t exp, struct buf *out)
    __attribute__((warn_unused_result));
bool token_issue_system(const struct config *cfg, const pj_key_t *key,
                        const char *account_id, const char *account_type,
                        int64_t iat, int64_t exp, struct buf *out)
    __attribute__((warn_unused_result));

/* What token_verify() is to overlook. */
enum token_check {
    TOKEN_CHECK_ALL,      /* signature, issuer, times */
    TOKEN_CHECK_NOT_TIMES /* logout: at any time a token names its session */
};

/*
 * Verifies token with keys and the issuer of cfg and fills *claims, which
 * point into arena.  Leeway is 0 for refresh tokens, TOKEN_LEEWAY_S else.
 */
pj_err_t token_verify(const struct config *cfg, const struct keys *keys,
                      pj_arena_t *arena, pj_str_t token, int64_t now_s,
                      enum token_check check, pj_claims_t *claims)
    __attribute__((warn_unused_result));

#endif
