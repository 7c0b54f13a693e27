/* Routes: paths, methods and their handlers. */

#pragma once

#include "auth/auth.h"

/* Returns the index of the route for path, or the number of routes. */
size_t route_find(pj_str_t path);

/* Answers w->req by the handler of its route, or with 404, 405 with Allow, or
 * 413. */
void route_handle(size_t route, struct worker *w);

/* Returns true if an answer with this status is in the access log.  Gateways
 * read the feed twice a second, so only its errors are logged. */
bool route_logged(size_t route, int status);

/* The path of the route, or "other": a label independent of client input. */
const char *route_label(size_t route);
