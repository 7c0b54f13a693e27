/* From method and path to a handler. */

#include "base/metrics.h"
#include "server/server.h"

#include <string.h>

static const struct {
    const char *path;
    handler_fn *handler;
    bool post; /* else GET and HEAD */
} routes[] = {
    {"/.well-known/jwks.json", h_jwks, false},
    {"/actuator/health", h_readyz, false},
    {"/actuator/health/liveness", h_healthz, false},
    {"/actuator/health/readiness", h_readyz, false},
    {"/actuator/info", h_info, false},
    {"/actuator/prometheus", h_prometheus, false},
    {"/api/auth/login", h_login, true},
    {"/api/auth/logout", h_logout, true},
    {"/api/auth/refresh", h_refresh, true},
    {"/api/auth/select-branch", h_select_branch, true},
    {"/healthz", h_healthz, false},
    {"/internal/readyz", h_readyz, false},
    {"/readyz", h_readyz, false},
};

#define ROUTE_COUNT (sizeof(routes) / sizeof(routes[0]))

_Static_assert(ROUTE_COUNT < METRICS_MAX_ENDPOINTS,
               "each route and the lack of one is counted apart");

static bool equals(pj_str_t s, const char *text)
{
    return s.len != 0 && s.len == strlen(text) &&
           memcmp(s.data, text, s.len) == 0;
}

size_t route_find(pj_str_t path)
{
    size_t i = 0;

    while (i < ROUTE_COUNT && !equals(path, routes[i].path)) {
        i++;
    }
    return i;
}

void route_handle(size_t route, struct worker *w)
{
    pj_str_t method = w->req->method;
    bool post = route < ROUTE_COUNT && routes[route].post;

    if (route >= ROUTE_COUNT) {
        auth_refuse(w, 404, "RESOURCE_NOT_FOUND",
                    "There is nothing at this path.");
    } else if (!equals(method, post ? "POST" : "GET") &&
               (post || !equals(method, "HEAD"))) {
        auth_refuse(w, 405, "METHOD_NOT_ALLOWED",
                    "This path does not take that method.");
        http_header(w->res, "Allow", post ? "POST" : "GET, HEAD");
    } else if (w->req->body_too_large) {
        auth_refuse(w, 413, "REQUEST_TOO_LARGE",
                    "The body is larger than 16 KiB.");
    } else {
        routes[route].handler(w);
    }
}

const char *route_label(size_t route)
{
    return route < ROUTE_COUNT ? routes[route].path : "other";
}
