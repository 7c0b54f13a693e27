/* From method and path to a handler. */

#ifndef ROUTE_H_INCLUDED
#define ROUTE_H_INCLUDED

#include "app.h"

/*
 * Fills res for req: 404 where no route has the path, 405 with Allow where it
 * has other methods, 413 for a body over HTTP_BODY_MAX, else what the route's
 * handler answers.  HEAD is answered wherever GET is.
 */
void route_handle(struct worker *w, const struct http_request *req,
                  struct http_response *res);

/* The path of the route that serves path, "other" when none does: a label
 * that no client can choose. */
const char *route_label(pj_str_t path);

#endif
