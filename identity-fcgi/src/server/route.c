/* Routes from method and path to handlers, and the handlers for health and
 * metrics. */

#include "server/route.h"

#include "auth/handlers.h"
#include "auth/hasher.h"
#include "server/server.h"
#include "store/migrate.h"
#include "store/store.h"
#include "store/sweep.h"

#include <pj_version.h>
#include <stdio.h>
#include <string.h>

/* Liveness, independent of the database. */
static void h_healthz(struct worker *w)
{
    struct jsonw json;

    auth_json(w, &json);
    jsonw_cstr(&json, "status", "UP");
    jsonw_cstr(&json, "service", w->cfg->app_name);
    jsonw_object_end(&json);
}

/* Readiness: checks everything that a login needs and reports what failed. */
static void h_readyz(struct worker *w)
{
    const char *code = "SERVICE_NOT_READY", *why = NULL;
    enum store_result result;
    char detail[128];
    int version = 0;
    bool refused;

    if (w->keys->signing == NULL) {
        why = "signing key (none is loaded)";
    } else if ((result = store_ping(&w->store, &version)) != STORE_OK &&
               result != STORE_NONE) {
        store_use(&w->store, &(int){0}, &(int){0}, &refused);
        code = "DATABASE_UNAVAILABLE";
        why = refused
                  ? "database (it answers, but refuses the role, its password "
                    "or the database's name)"
                  : "database (no answer)";
    } else if (version < (int) migrate_count) {
        why = "migrations (the database's schema is older than this program)";
    } else if (result == STORE_NONE) {
        why = "rights (the database role lacks some; run roles.sql after a "
              "migration)";
    }
    if (why == NULL) {
        h_healthz(w);
        return;
    }
    snprintf(detail, sizeof(detail), "Check failed: %s.", why);
    (void) auth_refuse(w, 503, code, detail);
}

static void h_info(struct worker *w)
{
    const char *environment = w->cfg->app_env;
    struct jsonw json;

    auth_json(w, &json);
    jsonw_object(&json, "app");
    jsonw_cstr(&json, "name", w->cfg->app_name);
    jsonw_cstr(&json, "environment", environment != NULL ? environment : "");
    jsonw_cstr(&json, "version", PLATFORM_VERSION);
    jsonw_int(&json, "schema", (int64_t) migrate_count);
    jsonw_object_end(&json);
    jsonw_object_end(&json);
}

static void h_prometheus(struct worker *w)
{
    struct server_use server = server_use();
    struct hasher_use hashing = hasher_use(HASHER_HASH);
    int db_size, db_used;
    pj_str_t kid = {NULL, 0};

    store_use(&w->store, &db_size, &db_used, &(bool){false});
    if (w->keys->signing != NULL) {
        kid = pj_key_id(w->keys->signing);
    }
    const struct metrics_gauge gauges[] = {
        {"identity_connections_open", "FastCGI connections open.",
         (int64_t) server.queued + server.busy},
        {"identity_connections_max", "Limit of open FastCGI connections.",
         server.max_connections},
        {"identity_requests_queued", "Requests waiting for a worker.",
         server.queued},
        {"identity_workers_busy", "Worker threads that are serving a request.",
         server.busy},
        {"identity_workers", "Worker threads.", server.threads},
        {"identity_hash_slots_used", "Argon2id computations under way.",
         hashing.running},
        {"identity_hash_slots", "Limit of simultaneous Argon2id computations.",
         hashing.threads},
        {"identity_hash_queue", "Logins waiting for a hash slot.",
         hashing.waiting},
        {"identity_db_pool_used", "Database connections lent to requests.",
         db_used},
        {"identity_db_pool_size", "Limit of database connections.", db_size},
        {"identity_session_revocations",
         "Revocations for gateways, as of the last sweep; -1 before it.",
         sweep_revocations},
        {"identity_keys", "Public keys in the key set.",
         (int64_t) w->keys->published_count},
    };
    http_header(w->res, "Content-Type",
                "text/plain; version=0.0.4; charset=utf-8");
    http_header(w->res, "Cache-Control", "no-store");
    metrics_render(&w->res->body, route_label, gauges,
                   sizeof(gauges) / sizeof(gauges[0]), kid.data, kid.len);
}

/* -- routes -- */

static const struct {
    const char *path;
    handler_fn *handler;
    /* READ is GET and HEAD.  POST_IF_CONNECTED is useless if the client has
     * disconnected. */
    enum { READ, POST, POST_IF_CONNECTED, DELETE } method;
} routes[] = {
    {"/.well-known/jwks.json", h_published_keys, READ},
    {"/.well-known/oauth-authorization-server", h_published_metadata, READ},
    {"/.well-known/openid-configuration", h_published_metadata, READ},
    {"/actuator/health", h_readyz, READ},
    {"/actuator/health/liveness", h_healthz, READ},
    {"/actuator/health/readiness", h_readyz, READ},
    {"/actuator/info", h_info, READ},
    {"/actuator/prometheus", h_prometheus, READ},
    {"/api/auth/change-credential", h_change_credential, POST},
    {"/api/auth/login", h_login, POST_IF_CONNECTED},
    {"/api/auth/logout", h_sessions_logout, POST},
    {"/api/auth/logout-all", h_sessions_logout_all, POST},
    {"/api/auth/logout-others", h_sessions_logout_others, POST},
    {"/api/auth/me", h_me, READ},
    {"/api/auth/refresh", h_refresh, POST_IF_CONNECTED},
    {"/api/auth/reset-credential", h_reset_credential, POST},
    {"/api/auth/select-branch", h_select_branch, POST},
    {"/api/auth/sessions", h_sessions, READ},
    {"/api/auth/sessions/{id}", h_sessions_end, DELETE},
    {"/api/auth/token", h_token, POST},
    {"/api/system/audit", h_system_audit, READ},
    {"/healthz", h_healthz, READ},
    {"/internal/readyz", h_readyz, READ},
    {"/internal/revocations", h_revocations, READ},
    {"/readyz", h_readyz, READ},
};

#define ROUTE_COUNT (sizeof(routes) / sizeof(routes[0]))

_Static_assert(ROUTE_COUNT < METRICS_MAX_ENDPOINTS,
               "each route and the lack of one is counted apart");

/* Returns true if the route serves path; *id is the value of {id}. */
static bool serves(size_t route, pj_str_t path, pj_str_t *id)
{
    const char *route_path = routes[route].path;
    size_t len = strcspn(route_path, "{");

    *id = (pj_str_t){NULL, 0};
    if (route_path[len] == '\0') {
        return pj_str_eq(path, pj_str(route_path));
    }
    if (path.len <= len || memcmp(path.data, route_path, len) != 0 ||
        memchr(path.data + len, '/', path.len - len) != NULL) {
        return false;
    }
    *id = (pj_str_t){path.data + len, path.len - len};
    return true;
}

size_t route_find(pj_str_t path)
{
    size_t i = 0;

    while (i < ROUTE_COUNT && !serves(i, path, &(pj_str_t){NULL, 0})) {
        i++;
    }
    return i;
}

/* Returns true for a request of a user that is too late, and for a refresh or
 * login whose client has disconnected: it would only use up a token, or open a
 * session without a client.  Requests of gateways and operators are few and
 * never too late. */
static bool is_useless(size_t route, const struct worker *w)
{
    static const char people[] = "/api/";

    return (w->late &&
            strncmp(routes[route].path, people, sizeof(people) - 1) == 0) ||
           (w->disconnected && routes[route].method == POST_IF_CONNECTED);
}

void route_handle(size_t route, struct worker *w)
{
    static const char *const allowed[] = {"GET, HEAD", "POST", "POST",
                                          "DELETE"};
    const char *allow =
        route < ROUTE_COUNT ? allowed[routes[route].method] : "";
    pj_str_t method = w->req->method;
    bool read = route < ROUTE_COUNT && routes[route].method == READ;

    if (route >= ROUTE_COUNT) {
        auth_refuse(w, 404, "RESOURCE_NOT_FOUND",
                    "Nothing is served at this path.");
    } else if (read ? !pj_str_eq(method, PJ_STR("GET")) &&
                          !pj_str_eq(method, PJ_STR("HEAD"))
                    : !pj_str_eq(method, pj_str(allow))) {
        auth_refuse(w, 405, "METHOD_NOT_ALLOWED",
                    "This path does not accept that method.");
        http_header(w->res, "Allow", allow);
    } else if (w->req->body_too_large) {
        auth_refuse(w, 413, "REQUEST_TOO_LARGE",
                    "The body is larger than 16 KiB.");
    } else if (is_useless(route, w)) {
        (void) auth_busy(w);
    } else {
        (void) serves(route, w->req->path, &w->path_id);
        routes[route].handler(w);
    }
}

bool route_logged(size_t route, int status)
{
    return status != 200 || route >= ROUTE_COUNT ||
           routes[route].handler != h_revocations;
}

const char *route_label(size_t route)
{
    return route < ROUTE_COUNT ? routes[route].path : "other";
}
