/* What is told of the service: its keys, health and numbers. */

#include "auth/password.h"
#include "base/jsonw.h"
#include "base/metrics.h"
#include "base/version.h"
#include "server/server.h"

static void begin_json(struct worker *w, struct jsonw *json)
{
    http_header(w->res, "Content-Type", "application/json");
    http_header(w->res, "Cache-Control", "no-store");
    jsonw_init(json, &w->res->body);
    jsonw_object(json, NULL);
}

/* The public key set (RFC 7517). */
void h_jwks(struct worker *w)
{
    const struct keys *keys = w->keys;

    if (w->req->if_match.len > 0 &&
        !http_etag_matches(w->req->if_match, keys->etag, true)) {
        auth_refuse(w, 412, "PRECONDITION_FAILED",
                    "The key set is not the one that If-Match names.");
        return;
    }
    http_header(w->res, "Cache-Control", "public, max-age=300");
    http_header(w->res, "ETag", keys->etag);
    if (http_etag_matches(w->req->if_none_match, keys->etag, false)) {
        w->res->status = 304;
        return;
    }
    http_header(w->res, "Content-Type", "application/jwk-set+json");
    buf_add(&w->res->body, keys->jwks, keys->jwks_len);
}

/* Alive: it answers, so it is.  The database is none of its business. */
void h_healthz(struct worker *w)
{
    struct jsonw json;

    begin_json(w, &json);
    jsonw_cstr(&json, "status", "UP");
    jsonw_cstr(&json, "service", w->cfg->app_name);
    jsonw_object_end(&json);
}

/* Ready: what every login needs is there.  Says which check failed. */
void h_readyz(struct worker *w)
{
    const char *code = "SERVICE_NOT_READY";
    enum store_result result;
    int version = 0;

    if (w->keys->signing == NULL) {
        auth_refuse(w, 503, code,
                    "Check failed: signing key (none is loaded).");
        return;
    }
    result = store_ping(&w->store, &version);
    if (result != STORE_OK && result != STORE_NONE) {
        auth_refuse(w, 503, "DATABASE_UNAVAILABLE",
                    "Check failed: database (no answer).");
    } else if (version < store_schema_version()) {
        auth_refuse(w, 503, code,
                    "Check failed: migrations (the database's schema is older "
                    "than this program).");
    } else if (result == STORE_NONE) {
        auth_refuse(w, 503, code,
                    "Check failed: rights (the database role lacks some; run "
                    "roles.sql after a migration).");
    } else {
        h_healthz(w);
    }
}

void h_info(struct worker *w)
{
    const char *environment = w->cfg->app_env;
    struct jsonw json;

    begin_json(w, &json);
    jsonw_object(&json, "app");
    jsonw_cstr(&json, "name", w->cfg->app_name);
    jsonw_cstr(&json, "environment", environment != NULL ? environment : "");
    jsonw_cstr(&json, "version", IDENTITY_VERSION);
    jsonw_int(&json, "schema", store_schema_version());
    jsonw_object_end(&json);
    jsonw_object_end(&json);
}

void h_prometheus(struct worker *w)
{
    struct server_use server = server_use();
    struct hasher_use hashing = hasher_use(HASHER_HASH);
    int db_size, db_used;
    pj_str_t kid = {NULL, 0};

    store_use(&w->store, &db_size, &db_used);
    if (w->keys->signing != NULL) {
        kid = pj_key_id(w->keys->signing);
    }
    const struct metrics_gauge gauges[] = {
        {"identity_connections_open", "FastCGI connections open.",
         (int64_t) server.queued + server.busy},
        {"identity_connections_max", "FastCGI connections at most.",
         server.max_connections},
        {"identity_requests_queued", "Requests waiting for a worker.",
         server.queued},
        {"identity_workers_busy", "Worker threads with a request.",
         server.busy},
        {"identity_workers", "Worker threads.", server.threads},
        {"identity_hash_slots_used", "Argon2id computations under way.",
         hashing.running},
        {"identity_hash_slots", "Argon2id computations at most.",
         hashing.threads},
        {"identity_hash_queue", "Logins waiting for a hash slot.",
         hashing.waiting},
        {"identity_db_pool_used", "Database connections lent to requests.",
         db_used},
        {"identity_db_pool_size", "Database connections at most.", db_size},
        {"identity_keys", "Public keys in the key set.",
         (int64_t) w->keys->verifying_count},
    };
    http_header(w->res, "Content-Type",
                "text/plain; version=0.0.4; charset=utf-8");
    http_header(w->res, "Cache-Control", "no-store");
    metrics_render(&w->res->body, route_label, gauges,
                   sizeof(gauges) / sizeof(gauges[0]), kid.data, kid.len);
}
