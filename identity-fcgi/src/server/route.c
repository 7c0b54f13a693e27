/* From method and path to a handler. */

#include "server/route.h"

#include "base/metrics.h"

#include <string.h>

struct route {
    const char *path;
    const char *method; /* GET includes HEAD */
    handler_fn handler;
};

static const struct route routes[] = {
    {"/.well-known/jwks.json", "GET", h_jwks},
    {"/actuator/health", "GET", h_readyz},
    {"/actuator/health/liveness", "GET", h_healthz},
    {"/actuator/health/readiness", "GET", h_readyz},
    {"/actuator/info", "GET", h_info},
    {"/actuator/prometheus", "GET", h_prometheus},
    {"/api/auth/login", "POST", h_login},
    {"/api/auth/logout", "POST", h_logout},
    {"/api/auth/refresh", "POST", h_refresh},
    {"/api/auth/select-branch", "POST", h_select_branch},
    {"/healthz", "GET", h_healthz},
    {"/internal/readyz", "GET", h_readyz},
    {"/readyz", "GET", h_readyz},
};

#define ROUTE_COUNT (sizeof(routes) / sizeof(routes[0]))

_Static_assert(ROUTE_COUNT < METRICS_MAX_ENDPOINTS,
               "each route and the lack of one is counted apart");

static bool equals(pj_str_t s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}

size_t route_find(pj_str_t path)
{
    size_t i = 0;

    while (i < ROUTE_COUNT &&
           (path.len == 0 || !equals(path, routes[i].path))) {
        i++;
    }
    return i;
}

static bool takes_method(const struct route *route, pj_str_t method)
{
    if (method.len == 0) {
        return false;
    }
    return equals(method, route->method) ||
           (equals(method, "HEAD") && strcmp(route->method, "GET") == 0);
}

void route_handle(size_t number, struct worker *w,
                  const struct http_request *req, struct http_response *res)
{
    const struct route *route = &routes[number];

    if (number >= ROUTE_COUNT) {
        http_problem(res, req, 404, "RESOURCE_NOT_FOUND",
                     "There is nothing at this path.");
    } else if (!takes_method(route, req->method)) {
        http_problem(res, req, 405, "METHOD_NOT_ALLOWED",
                     "This path does not take that method.");
        http_header(res, "Allow",
                    strcmp(route->method, "GET") == 0 ? "GET, HEAD" : "POST");
    } else if (req->body_too_large) {
        http_problem(res, req, 413, "REQUEST_TOO_LARGE",
                     "The body is larger than 16 KiB.");
    } else {
        route->handler(w, req, res);
    }
}

const char *route_label(size_t route)
{
    return route < ROUTE_COUNT ? routes[route].path : "other";
}
