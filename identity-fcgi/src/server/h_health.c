/* Liveness, readiness and information about the program. */

#include "auth/app.h"
#include "base/jsonw.h"
#include "base/version.h"

static void send_json(struct http_response *res)
{
    http_header(res, "Content-Type", "application/json");
    http_header(res, "Cache-Control", "no-store");
}

/* Alive: it answers, so it is.  The database is none of its business. */
void h_healthz(struct worker *w, const struct http_request *req,
               struct http_response *res)
{
    struct jsonw json;

    (void) req;
    send_json(res);
    jsonw_init(&json, &res->body);
    jsonw_object(&json, NULL);
    jsonw_cstr(&json, "status", "UP");
    jsonw_cstr(&json, "service", w->cfg->app_name);
    jsonw_object_end(&json);
}

/* Ready: what every login needs is there.  Says which check failed. */
void h_readyz(struct worker *w, const struct http_request *req,
              struct http_response *res)
{
    enum store_result result;
    int version = 0;

    if (w->keys->signing == NULL) {
        http_problem(res, req, 503, "SERVICE_NOT_READY",
                     "Check failed: signing key (none is loaded).");
        http_header(res, "Retry-After", "1");
        return;
    }
    result = store_ping(&w->store, &version);
    if (result != STORE_OK && result != STORE_NONE) {
        http_problem(res, req, 503, "DATABASE_UNAVAILABLE",
                     "Check failed: database (no answer).");
    } else if (version < store_schema_version()) {
        http_problem(res, req, 503, "SERVICE_NOT_READY",
                     "Check failed: migrations (the database's schema is "
                     "older than this program).");
    } else if (result == STORE_NONE) {
        http_problem(res, req, 503, "SERVICE_NOT_READY",
                     "Check failed: rights (the database role lacks some; run "
                     "roles.sql after a migration).");
    } else {
        h_healthz(w, req, res);
        return;
    }
    http_header(res, "Retry-After", "1");
}

void h_info(struct worker *w, const struct http_request *req,
            struct http_response *res)
{
    struct jsonw json;

    (void) req;
    send_json(res);
    jsonw_init(&json, &res->body);
    jsonw_object(&json, NULL);
    jsonw_object(&json, "app");
    jsonw_cstr(&json, "name", w->cfg->app_name);
    jsonw_cstr(&json, "environment",
               w->cfg->app_env != NULL ? w->cfg->app_env : "");
    jsonw_cstr(&json, "version", IDENTITY_VERSION);
    jsonw_int(&json, "schema", store_schema_version());
    jsonw_object_end(&json);
    jsonw_object_end(&json);
}
