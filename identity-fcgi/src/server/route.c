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
#include <web.h>

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

enum method { READ, POST, PUT, PATCH, DELETE, METHODS }; /* READ: GET, HEAD */

static const struct {
    const char *path;
    handler_fn *on[METHODS];
    /* Useless if the client has disconnected. */
    bool if_connected;
} routes[] = {
    {"/.well-known/jwks.json", .on[READ] = h_published_keys},
    {"/.well-known/oauth-authorization-server",
     .on[READ] = h_published_metadata},
    {"/.well-known/openid-configuration", .on[READ] = h_published_metadata},
    {"/actuator/health", .on[READ] = h_readyz},
    {"/actuator/health/liveness", .on[READ] = h_healthz},
    {"/actuator/health/readiness", .on[READ] = h_readyz},
    {"/actuator/info", .on[READ] = h_info},
    {"/actuator/prometheus", .on[READ] = h_prometheus},
    {"/api/auth/change-credential", .on[POST] = h_change_credential},
    {"/api/auth/factors", .on[READ] = h_factors, .on[POST] = h_factors_add},
    {"/api/auth/factors/{id}", .on[PATCH] = h_factors_rename,
     .on[DELETE] = h_factors_remove},
    {"/api/auth/factors/{id}/confirm", .on[POST] = h_factors_confirm,
     .if_connected = true},
    {"/api/auth/login", .on[POST] = h_login, .if_connected = true},
    {"/api/auth/login/passkey", .on[POST] = h_passkeys_login,
     .if_connected = true},
    {"/api/auth/login/passkey-options", .on[POST] = h_passkeys_login_options},
    {"/api/auth/logout", .on[POST] = h_sessions_logout},
    {"/api/auth/logout-all", .on[POST] = h_sessions_logout_all},
    {"/api/auth/logout-others", .on[POST] = h_sessions_logout_others},
    {"/api/auth/me", .on[READ] = h_me},
    {"/api/auth/passkeys", .on[POST] = h_passkeys_add, .if_connected = true},
    {"/api/auth/passkeys/options", .on[POST] = h_passkeys_options},
    {"/api/auth/recovery-codes", .on[POST] = h_factors_recovery},
    {"/api/auth/refresh", .on[POST] = h_refresh, .if_connected = true},
    {"/api/auth/reset-credential", .on[POST] = h_reset_credential},
    {"/api/auth/select-branch", .on[POST] = h_select_branch},
    {"/api/auth/sessions", .on[READ] = h_sessions},
    {"/api/auth/sessions/{id}", .on[DELETE] = h_sessions_end},
    {"/api/auth/step-up", .on[POST] = h_step_up},
    {"/api/auth/step-up/passkey-options", .on[POST] = h_step_up_options},
    {"/api/auth/token", .on[POST] = h_token},
    {"/api/auth/verify-factor", .on[POST] = h_verify_factor,
     .if_connected = true},
    {"/api/system/accounts", .on[READ] = h_accounts,
     .on[POST] = h_accounts_add},
    {"/api/system/accounts/{id}", .on[READ] = h_accounts_read,
     .on[PATCH] = h_accounts_change, .on[DELETE] = h_account_delete},
    {"/api/system/accounts/{id}/factors", .on[READ] = h_account_factors},
    {"/api/system/accounts/{id}/factors/{id}",
     .on[DELETE] = h_account_factors_end},
    {"/api/system/accounts/{id}/reset-code", .on[POST] = h_account_reset_code},
    {"/api/system/accounts/{id}/revoke-sessions",
     .on[POST] = h_account_revoke_sessions},
    {"/api/system/accounts/{id}/sessions", .on[READ] = h_account_sessions},
    {"/api/system/accounts/{id}/sessions/{id}",
     .on[DELETE] = h_account_sessions_end},
    {"/api/system/accounts/{id}/unlock", .on[POST] = h_account_unlock},
    {"/api/system/audit", .on[READ] = h_system_audit},
    {"/api/system/branches/{id}", .on[READ] = h_places_branch,
     .on[PATCH] = h_places_branch_change},
    {"/api/system/workspaces", .on[READ] = h_places_list,
     .on[POST] = h_places_add},
    {"/api/system/workspaces/{id}", .on[READ] = h_places_show,
     .on[PATCH] = h_places_change},
    {"/api/system/workspaces/{id}/branches", .on[READ] = h_places_branches,
     .on[POST] = h_places_branch_add},
    {"/api/system/workspaces/{id}/members", .on[READ] = h_members},
    {"/api/system/workspaces/{id}/members/{accountId}",
     .on[PUT] = h_members_put, .on[DELETE] = h_members_end},
    {"/healthz", .on[READ] = h_healthz},
    {"/internal/readyz", .on[READ] = h_readyz},
    {"/internal/revocations", .on[READ] = h_revocations},
    {"/readyz", .on[READ] = h_readyz},
};

#define ROUTE_COUNT (sizeof(routes) / sizeof(routes[0]))

_Static_assert(ROUTE_COUNT < METRICS_MAX_ENDPOINTS,
               "each route and the lack of one is counted apart");

/* Returns true if the route serves path; ids are the values of its parts in
 * braces. */
static bool serves(size_t route, pj_str_t path, pj_str_t ids[2])
{
    pj_str_t rest = pj_str(routes[route].path);
    size_t n = 0, len = strcspn(routes[route].path, "{");

    ids[0] = (pj_str_t){NULL, 0};
    ids[1] = ids[0];
    if (path.len < len || memcmp(path.data, rest.data, len) != 0) {
        return false;
    }
    if (rest.len == len) {
        return path.len == len;
    }
    rest = web_skip(rest, len);
    path = web_skip(path, len);
    while (rest.data != NULL && path.data != NULL) {
        pj_str_t part = web_split(rest, '/', &rest);
        pj_str_t given = web_split(path, '/', &path);

        if (web_begins(part, "{")) {
            ids[n++] = given;
        } else if (!pj_str_eq(part, given)) {
            return false;
        }
    }
    return rest.data == NULL && path.data == NULL;
}

size_t route_find(pj_str_t path)
{
    pj_str_t ids[2];
    size_t i = 0;

    while (i < ROUTE_COUNT && !serves(i, path, ids)) {
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
           (w->disconnected && routes[route].if_connected);
}

static enum method method_of(pj_str_t method)
{
    static const char *const names[] = {
        [POST] = "POST", [PUT] = "PUT", [PATCH] = "PATCH", [DELETE] = "DELETE"};
    enum method m = POST;

    if (pj_str_eq(method, PJ_STR("GET")) || pj_str_eq(method, PJ_STR("HEAD"))) {
        return READ;
    }
    while (m < METHODS && !pj_str_eq(method, pj_str(names[m]))) {
        m++;
    }
    return m;
}

/* Lists the methods of the route. */
static void refuse_method(size_t route, struct worker *w)
{
    static const char *const names[] = {"GET, HEAD", "POST", "PUT", "PATCH",
                                        "DELETE"};
    char allow[64];
    struct buf out;

    buf_init(&out, allow, sizeof(allow));
    for (int m = 0; m < METHODS; m++) {
        if (routes[route].on[m] != NULL) {
            buf_addf(&out, "%s%s", out.len > 0 ? ", " : "", names[m]);
        }
    }
    buf_addc(&out, '\0');
    (void) auth_refuse(w, 405, "METHOD_NOT_ALLOWED",
                       "This path does not accept that method.");
    http_header(w->res, "Allow", allow);
}

#define BODY_MAX 16384 /* bytes of a person's request */

static bool is_system(size_t route)
{
    return strncmp(routes[route].path, "/api/system/", 12) == 0;
}

void route_handle(size_t route, struct worker *w)
{
    enum method method = method_of(w->req->method);

    if (route >= ROUTE_COUNT) {
        (void) auth_refuse(w, 404, "RESOURCE_NOT_FOUND",
                           "Nothing is served at this path.");
    } else if (method == METHODS || routes[route].on[method] == NULL) {
        refuse_method(route, w);
    } else if (w->req->body_too_large ||
               (!is_system(route) && w->req->body.len > BODY_MAX)) {
        (void) auth_refuse(w, 413, "REQUEST_TOO_LARGE",
                           is_system(route)
                               ? "The body is larger than 64 KiB."
                               : "The body is larger than 16 KiB.");
    } else if (is_useless(route, w)) {
        (void) auth_busy(w);
    } else {
        (void) serves(route, w->req->path, w->path_ids);
        w->location[0] = '\0';
        w->subject_id = NULL;
        routes[route].on[method](w);
    }
}

bool route_logged(size_t route, int status)
{
    return status != 200 || route >= ROUTE_COUNT ||
           routes[route].on[READ] != h_revocations;
}

const char *route_label(size_t route)
{
    return route < ROUTE_COUNT ? routes[route].path : "other";
}
