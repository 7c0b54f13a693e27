/* Proofs that a client has the key of its tokens (DPoP, RFC 9449). */

#pragma once

#include "base/config.h"
#include "base/http.h"

#include <pj.h>

#define PROOF_WINDOW_S 60 /* a client's clock may differ by this much */

/* Verifies the proof of the request: of its method and of its path at one of
 * cfg's public origins, and, unless it is empty, with this access token.  With
 * thumbprint, the key must have it.  Writes the thumbprint of the key to jkt,
 * NUL-terminated.
 *
 * PJ_ERR_PROOF or PJ_ERR_PROOF_TIME for a proof that is not good, with the
 * fault for the client in *fault; other errors are local failures. */
PJ_MUST_CHECK pj_err_t proof_verify(
    const struct config *cfg, const struct http_request *req, pj_arena_t *arena,
    int64_t now_s, pj_str_t access_token, const unsigned char *thumbprint,
    char jkt[PJ_THUMBPRINT_CHARS + 1], pj_str_t *fault);

/* Returns true if tokens with these claims are bound to a key. */
bool proof_is_bound(const pj_claims_t *claims);
