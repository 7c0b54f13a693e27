/* GET /.well-known/jwks.json: the public key set (RFC 7517). */

#include "auth/app.h"

void h_jwks(struct worker *w, const struct http_request *req,
            struct http_response *res)
{
    if (req->if_match.len > 0 &&
        !http_etag_matches(req->if_match, w->keys->etag, true)) {
        http_problem(res, req, 412, "PRECONDITION_FAILED",
                     "The key set is not the one that If-Match names.");
        return;
    }
    http_header(res, "Cache-Control", "public, max-age=300");
    http_header(res, "ETag", w->keys->etag);
    if (http_etag_matches(req->if_none_match, w->keys->etag, false)) {
        res->status = 304;
        return;
    }
    http_header(res, "Content-Type", "application/jwk-set+json");
    buf_add(&res->body, w->keys->jwks, w->keys->jwks_len);
}
