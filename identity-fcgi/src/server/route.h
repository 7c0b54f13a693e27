/* What is served, at which path. */

#pragma once

#include "auth/auth.h"

/* The number of the route that serves path; without one the number past all. */
size_t route_find(pj_str_t path);

/* Answers w->req, whose path route_find() has found: 404, 405 with Allow, 413,
 * or as the route's handler does. */
void route_handle(size_t route, struct worker *w);

/* Whether an answer of that status has an access line.  A gateway reads the
 * feed twice a second, so only its errors have. */
bool route_logged(size_t route, int status);

/* The path of a route, or "other": a label that no client can choose. */
const char *route_label(size_t route);
