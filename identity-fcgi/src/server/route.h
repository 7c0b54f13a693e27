/* What is served, at which path. */

#pragma once

#include "auth/auth.h"

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
