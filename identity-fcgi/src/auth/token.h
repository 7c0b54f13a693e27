/* Issues and verifies the four kinds of token. */

#pragma once

#include "auth/keys.h"
#include "base/buf.h"
#include "base/config.h"
#include "base/uuid.h"
#include "store/store.h"

#include <pj.h>

#define TOKEN_MAX_BYTES 16384 /* largest token accepted from a client */
#define TOKEN_LEEWAY_S 30     /* for access tokens only */

struct token {
    pj_token_kind_t kind;
    const struct session *session; /* for its ids and account type */
    const struct scope *scope;     /* for a branch token */
    const char *jti;               /* NULL for a new one */
    /* Scopes of a client, or NULL if no client requested the token. */
    const char *client_scope;
    const char *jkt; /* thumbprint of the key it is bound to; "" or NULL */
    int64_t iat, exp;
};

/* Appends a token signed by key; false on overflow or a failed signature. */
PJ_MUST_CHECK bool token_issue(const struct config *cfg, const pj_key_t *key,
                               const struct token *t, struct buf *out);

/* The checks of token_verify(). */
enum token_check {
    TOKEN_CHECK_ALL,   /* signature, issuer, times */
    TOKEN_CHECK_LOGOUT /* also accepts what is good for logout alone:
                          expired tokens, and bound tokens with DPOP_OFF */
};

/* Verifies token with keys and the issuer of cfg and fills *claims, which point
 * into arena.  The leeway is TOKEN_LEEWAY_S, and 0 for the expiry of refresh
 * tokens.  The caller checks the proof of a token that is bound to a key
 * (proof.h); with DPOP_OFF such a token is refused.  With DPOP_REQUIRE a token
 * of a session that is not bound is refused.  signer (may be NULL) is the
 * worker's copy of the signing key, which is faster than the shared key. */
PJ_MUST_CHECK pj_err_t token_verify(const struct config *cfg,
                                    const struct keys *keys,
                                    const pj_key_t *signer, pj_arena_t *arena,
                                    pj_str_t token, int64_t now_s,
                                    enum token_check check,
                                    pj_claims_t *claims);
