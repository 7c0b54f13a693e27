/* Serving: workers, routes, key reload, the access log. */

#ifndef SERVE_H_INCLUDED
#define SERVE_H_INCLUDED

#include "auth/app.h"
#include "server/server.h"

/*
 * Serves on listener with keys (whose reference is taken over) until told to
 * stop.  env_file is where SIGHUP reads new keys from, or NULL.  Returns the
 * process's exit status; one line on stderr says why it is not 0.
 */
int serve(const struct config *cfg, struct keys *keys,
          struct listener *listener, const char *env_file);

/* The number of the route that serves path; the last number, past all
 * routes, when none does. */
size_t route_find(pj_str_t path);

/*
 * Answers w->req, whose path route_find() has found: 404 where no route has
 * it, 405 with Allow where it has other methods, 413 for a body over
 * HTTP_BODY_MAX, else as the route's handler does.  HEAD is answered wherever
 * GET is.
 */
void route_handle(size_t route, struct worker *w);

/* The path of a route, "other" for the last number: a label that no client can
 * choose. */
const char *route_label(size_t route);

/* The handlers of h_service.c. */
handler_fn h_jwks, h_healthz, h_readyz, h_info, h_prometheus;

#endif
