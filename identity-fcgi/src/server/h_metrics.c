/* GET /actuator/prometheus */

#include "auth/app.h"
#include "auth/password.h"
#include "base/metrics.h"
#include "server/route.h"
#include "server/server.h"

#define MOST_GAUGES 16

struct gauges {
    struct metrics_gauge list[MOST_GAUGES];
    size_t count;
};

static void add(struct gauges *g, const char *name, const char *help,
                int64_t value)
{
    if (g->count < MOST_GAUGES) {
        g->list[g->count++] = (struct metrics_gauge){name, help, value};
    }
}

static void add_server(struct gauges *g)
{
    struct server_use use;

    server_use(&use);
    add(g, "identity_connections_open", "FastCGI connections open.",
        (int64_t) use.queued + use.busy);
    add(g, "identity_connections_max", "FastCGI connections at most.",
        use.max_connections);
    add(g, "identity_requests_queued", "Requests waiting for a worker.",
        use.queued);
    add(g, "identity_workers_busy", "Worker threads with a request.",
        use.busy);
    add(g, "identity_workers", "Worker threads.", use.threads);
}

static void add_hashing(struct gauges *g)
{
    struct password_use use;

    password_use(&use);
    add(g, "identity_hash_slots_used", "Argon2id computations under way.",
        use.running);
    add(g, "identity_hash_slots", "Argon2id computations at most.", use.slots);
    add(g, "identity_hash_queue", "Logins waiting for a hash slot.",
        use.waiting);
}

static void add_database(struct gauges *g, const struct store *store)
{
    int size, used;

    store_use(store, &size, &used);
    add(g, "identity_db_pool_used", "Database connections lent to requests.",
        used);
    add(g, "identity_db_pool_size", "Database connections at most.", size);
}

void h_prometheus(struct worker *w, const struct http_request *req,
                  struct http_response *res)
{
    struct gauges g = {.count = 0};
    pj_str_t kid = {NULL, 0};

    (void) req;
    add_server(&g);
    add_hashing(&g);
    add_database(&g, &w->store);
    add(&g, "identity_keys", "Public keys in the key set.",
        (int64_t) w->keys->verifying_count);
    if (w->keys->signing != NULL) {
        kid = pj_key_id(w->keys->signing);
    }
    http_header(res, "Content-Type",
                "text/plain; version=0.0.4; charset=utf-8");
    http_header(res, "Cache-Control", "no-store");
    metrics_render(&res->body, route_label, g.list, g.count, kid.data,
                   kid.len);
}
