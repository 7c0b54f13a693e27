
/*
 * Slots of counters in shared memory: who owns one, and what is counted.
 */


#include "ngx_http_pgw_metrics.h"
#include "ngx_http_pgw_keys.h"


/* Changes with the structures, as a reload may load another build. */
#define NGX_HTTP_PGW_METRICS_LAYOUT                                           \
    (0x100000 + sizeof(ngx_http_pgw_slot_t))

/* Routes that a slot has room for: so many more than are known. */
#define NGX_HTTP_PGW_METRICS_SPARE  8


static ngx_http_pgw_route_t *ngx_http_pgw_metrics_add_route(ngx_conf_t *cf,
    ngx_http_pgw_metrics_t *metrics, const ngx_str_t *id);
static ngx_http_pgw_metrics_t *ngx_http_pgw_metrics_of(ngx_cycle_t *cycle);
static ngx_int_t ngx_http_pgw_metrics_index(ngx_http_pgw_metrics_t *metrics,
    ngx_http_pgw_route_t *route);
static ngx_uint_t ngx_http_pgw_metrics_idle(const ngx_http_pgw_slot_t *slot);
static ngx_http_pgw_slot_t *ngx_http_pgw_metrics_claim(
    ngx_http_pgw_metrics_t *metrics);
static ngx_http_pgw_slot_t *ngx_http_pgw_metrics_grow(
    ngx_http_pgw_metrics_t *metrics);
static void ngx_http_pgw_metrics_add(ngx_http_pgw_counters_t *sum,
    const ngx_http_pgw_slot_t *slot);
static ngx_uint_t ngx_http_pgw_metrics_decision(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr);


/* This worker's own; NULL: nothing is counted. */

static ngx_http_pgw_slot_t  *ngx_http_pgw_slot;


ngx_http_pgw_metrics_t *
ngx_http_pgw_metrics_create(ngx_conf_t *cf)
{
    ngx_str_t                none;
    ngx_http_pgw_metrics_t  *metrics;

    metrics = ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_metrics_t));
    if (metrics == NULL) {
        return NULL;
    }

    metrics->routes = ngx_array_create(cf->pool, 16,
                                       sizeof(ngx_http_pgw_route_t *));
    if (metrics->routes == NULL) {
        return NULL;
    }

    ngx_str_set(&none, "");

    return ngx_http_pgw_metrics_add_route(cf, metrics, &none) ? metrics : NULL;
}


char *
ngx_http_pgw_metrics_init_conf(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf)
{
    ngx_http_pgw_metrics_t  *metrics;

    metrics = mcf->metrics;

    if (metrics->conf_line && mcf->keys->shm_zone == NULL) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"platform_gateway_metrics\" counts in shared memory, "
                      "and there is none: add "
                      "\"platform_gateway_zone platform_gateway:1m\" to "
                      "http{}, in %V:%ui",
                      &metrics->conf_file, metrics->conf_line);
        return NGX_CONF_ERROR;
    }

    mcf->keys->metrics = metrics;

    return NGX_CONF_OK;
}


ngx_http_pgw_route_t *
ngx_http_pgw_metrics_route(ngx_conf_t *cf, const ngx_str_t *id)
{
    ngx_uint_t                 i;
    ngx_array_t               *routes;
    ngx_http_pgw_route_t     **route;
    ngx_http_pgw_main_conf_t  *mcf;

    mcf = ngx_http_conf_get_module_main_conf(cf,
                                             ngx_http_platform_gateway_module);
    routes = mcf->metrics->routes;
    route = routes->elts;

    if (id->len == 0) {
        return route[0];
    }

    for (i = 1; i < routes->nelts; i++) {
        if (route[i]->id.len == id->len
            && ngx_memcmp(route[i]->id.data, id->data, id->len) == 0)
        {
            return route[i];
        }
    }

    return ngx_http_pgw_metrics_add_route(cf, mcf->metrics, id);
}


static ngx_http_pgw_route_t *
ngx_http_pgw_metrics_add_route(ngx_conf_t *cf, ngx_http_pgw_metrics_t *metrics,
    const ngx_str_t *id)
{
    ngx_http_pgw_route_t  **route;

    route = ngx_array_push(metrics->routes);
    if (route == NULL) {
        return NULL;
    }

    *route = ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_route_t));
    if (*route) {
        (*route)->id = *id;
    }

    return *route;
}


ngx_int_t
ngx_http_pgw_metrics_zone_init(ngx_http_pgw_metrics_t *metrics,
    ngx_shm_zone_t *shm_zone, void **out)
{
    ngx_int_t               rc;
    ngx_uint_t              i;
    ngx_http_pgw_route_t  **route;
    ngx_http_pgw_shared_t  *shared;

    if (metrics->conf_line == 0) {
        return NGX_OK;
    }

    metrics->shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;
    metrics->zone = shm_zone->shm.name;
    metrics->zone_size = shm_zone->shm.size;

    /* old workers may be at work here, a new one of theirs may start */

    ngx_shmtx_lock(&metrics->shpool->mutex);

    shared = *out;
    rc = NGX_OK;

    if (shared == NULL || shared->layout != NGX_HTTP_PGW_METRICS_LAYOUT) {
        shared = ngx_slab_calloc_locked(metrics->shpool,
                                        sizeof(ngx_http_pgw_shared_t));
        if (shared) {
            shared->layout = NGX_HTTP_PGW_METRICS_LAYOUT;
            *out = shared;
        }
    }

    metrics->shared = shared;
    route = metrics->routes->elts;

    for (i = 0; shared && rc == NGX_OK && i < metrics->routes->nelts; i++) {
        rc = ngx_http_pgw_metrics_index(metrics, route[i]);
    }

    ngx_shmtx_unlock(&metrics->shpool->mutex);

    if (shared == NULL || rc != NGX_OK) {
        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                      "platform_gateway_zone \"%V\" is too small for the "
                      "counters of \"platform_gateway_metrics\" in %V:%ui",
                      &metrics->zone, &metrics->conf_file, metrics->conf_line);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* The index that the route has in this zone, or the next one. */

static ngx_int_t
ngx_http_pgw_metrics_index(ngx_http_pgw_metrics_t *metrics,
    ngx_http_pgw_route_t *route)
{
    ngx_http_pgw_name_t    *name;
    ngx_http_pgw_shared_t  *shared;

    shared = metrics->shared;

    for (name = shared->names; name; name = name->next) {
        if (name->len == route->id.len
            && ngx_memcmp(name->data, route->id.data, name->len) == 0)
        {
            route->index = name->index;
            return NGX_OK;
        }
    }

    name = ngx_slab_alloc_locked(metrics->shpool,
                                 sizeof(ngx_http_pgw_name_t) + route->id.len);
    if (name == NULL) {
        return NGX_ERROR;
    }

    name->index = shared->routes++;
    name->len = route->id.len;
    ngx_memcpy(name->data, route->id.data, name->len);

    name->next = shared->names;
    shared->names = name;

    route->index = name->index;

    return NGX_OK;
}


static ngx_http_pgw_metrics_t *
ngx_http_pgw_metrics_of(ngx_cycle_t *cycle)
{
    ngx_http_pgw_main_conf_t  *mcf;

    if (ngx_process != NGX_PROCESS_WORKER && ngx_process != NGX_PROCESS_SINGLE)
    {
        return NULL;
    }

    mcf = ngx_http_cycle_get_module_main_conf(cycle,
                                             ngx_http_platform_gateway_module);

    return (mcf && mcf->metrics->shared) ? mcf->metrics : NULL;
}


ngx_int_t
ngx_http_pgw_metrics_init_process(ngx_cycle_t *cycle)
{
    ngx_http_pgw_slot_t     *slot;
    ngx_http_pgw_metrics_t  *metrics;

    metrics = ngx_http_pgw_metrics_of(cycle);

    if (metrics == NULL) {
        return NGX_OK;
    }

    ngx_shmtx_lock(&metrics->shpool->mutex);

    slot = ngx_http_pgw_metrics_claim(metrics);

    if (slot) {
        slot->owner = ngx_pid;
    }

    ngx_shmtx_unlock(&metrics->shpool->mutex);

    if (slot == NULL) {
        ngx_log_error(NGX_LOG_ERR, cycle->log, 0,
                      "platform_gateway_zone \"%V\" is too small: "
                      "this worker counts nothing for "
                      "\"platform_gateway_metrics\"", &metrics->zone);
    }

    ngx_http_pgw_slot = slot;

    /* what a killed owner left: its cache is gone */

    ngx_http_pgw_metrics_cached(0);

    return NGX_OK;
}


void
ngx_http_pgw_metrics_exit_process(ngx_cycle_t *cycle)
{
    ngx_http_pgw_metrics_t  *metrics;

    metrics = ngx_http_pgw_metrics_of(cycle);

    if (metrics == NULL || ngx_http_pgw_slot == NULL) {
        return;
    }

    ngx_http_pgw_metrics_cached(0);

    ngx_shmtx_lock(&metrics->shpool->mutex);

    ngx_http_pgw_slot->owner = 0;
    ngx_http_pgw_slot = NULL;

    ngx_shmtx_unlock(&metrics->shpool->mutex);
}


/*
 * Nobody writes to the slot: it was given back, or its owner was killed.
 * Where another process has got its number since, it stays unused.
 */

static ngx_uint_t
ngx_http_pgw_metrics_idle(const ngx_http_pgw_slot_t *slot)
{
    return slot->owner == 0
           || slot->owner == ngx_pid
           || (kill(slot->owner, 0) == -1 && ngx_errno == NGX_ESRCH);
}


static ngx_http_pgw_slot_t *
ngx_http_pgw_metrics_claim(ngx_http_pgw_metrics_t *metrics)
{
    ngx_http_pgw_slot_t  *slot;

    for (slot = metrics->shared->slots; slot; slot = slot->next) {
        if (slot->routes >= metrics->shared->routes
            && ngx_http_pgw_metrics_idle(slot))
        {
            return slot;
        }
    }

    return ngx_http_pgw_metrics_grow(metrics);
}


/*
 * One more slot, large enough for all routes.  Idle ones, which are too small,
 * give what they have counted to it and go.
 */

static ngx_http_pgw_slot_t *
ngx_http_pgw_metrics_grow(ngx_http_pgw_metrics_t *metrics)
{
    ngx_uint_t              routes;
    ngx_http_pgw_slot_t    *slot, *small, **p;
    ngx_http_pgw_shared_t  *shared;

    shared = metrics->shared;
    routes = shared->routes + NGX_HTTP_PGW_METRICS_SPARE;

    slot = ngx_slab_calloc_locked(metrics->shpool,
                            sizeof(ngx_http_pgw_slot_t)
                            + routes * NGX_HTTP_PGW_DECISIONS
                              * sizeof(ngx_atomic_t));
    if (slot == NULL) {
        return NULL;
    }

    slot->routes = routes;

    for (p = &shared->slots; *p; /* void */ ) {

        small = *p;

        if (!ngx_http_pgw_metrics_idle(small)) {
            p = &small->next;
            continue;
        }

        *p = small->next;

        ngx_http_pgw_metrics_add(&slot->counters, small);
        ngx_slab_free_locked(metrics->shpool, small);
    }

    slot->next = shared->slots;
    shared->slots = slot;

    return slot;
}


/* sum has room for the routes of slot. */

static void
ngx_http_pgw_metrics_add(ngx_http_pgw_counters_t *sum,
    const ngx_http_pgw_slot_t *slot)
{
    ngx_uint_t           i, n;
    ngx_atomic_t        *to;
    const ngx_atomic_t  *from;

    to = (ngx_atomic_t *) sum;
    from = (const ngx_atomic_t *) &slot->counters;

    n = offsetof(ngx_http_pgw_counters_t, requests)
        / sizeof(ngx_atomic_t) + slot->routes * NGX_HTTP_PGW_DECISIONS;

    for (i = 0; i < n; i++) {
        to[i] += from[i];
    }
}


ngx_http_pgw_counters_t *
ngx_http_pgw_metrics_sum(const ngx_http_pgw_metrics_t *metrics,
    ngx_pool_t *pool)
{
    ngx_uint_t                routes;
    ngx_http_pgw_slot_t      *slot;
    ngx_http_pgw_counters_t  *sum;

    ngx_shmtx_lock(&metrics->shpool->mutex);

    routes = metrics->shared->routes;

    for (slot = metrics->shared->slots; slot; slot = slot->next) {
        routes = ngx_max(routes, slot->routes);
    }

    sum = ngx_pcalloc(pool, sizeof(ngx_http_pgw_counters_t)
                            + routes * NGX_HTTP_PGW_DECISIONS
                              * sizeof(ngx_atomic_t));

    for (slot = metrics->shared->slots; sum && slot; slot = slot->next) {
        ngx_http_pgw_metrics_add(sum, slot);
    }

    ngx_shmtx_unlock(&metrics->shpool->mutex);

    return sum;
}


ngx_int_t
ngx_http_pgw_metrics_log_handler(ngx_http_request_t *r)
{
    ngx_uint_t                decision, reason, route;
    ngx_http_pgw_slot_t      *slot;
    ngx_http_pgw_request_t   *gr;
    ngx_http_pgw_srv_conf_t  *sscf;
    ngx_http_pgw_loc_conf_t  *conf;

    slot = ngx_http_pgw_slot;

    if (slot == NULL || r != r->main) {
        return NGX_OK;
    }

    sscf = ngx_http_get_module_srv_conf(r, ngx_http_platform_gateway_module);

    if (!sscf->any_enabled) {
        return NGX_OK;
    }

    gr = ngx_http_pgw_request_get(r);
    if (gr == NULL) {
        return NGX_OK;
    }

    conf = ngx_http_get_module_loc_conf(r, ngx_http_platform_gateway_module);

    decision = ngx_http_pgw_metrics_decision(r, gr);
    route = conf->route->index;

    if (route < slot->routes) {
        slot->counters.requests[route * NGX_HTTP_PGW_DECISIONS + decision]++;
    }

    if (decision >= NGX_HTTP_PGW_DECISION_DENY) {
        reason = ngx_http_pgw_reason(r, gr);

        slot->counters.refusals[decision
                              - NGX_HTTP_PGW_DECISION_DENY] [reason]++;
    }

    return NGX_OK;
}


static ngx_uint_t
ngx_http_pgw_metrics_decision(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr)
{
    const char  *decision;

    decision = ngx_http_pgw_decision(r, gr);

    if (decision == NULL) {
        return NGX_HTTP_PGW_DECISION_NONE;
    }

    switch (*decision) {

    case 'a':
        return NGX_HTTP_PGW_DECISION_ALLOW;

    case 'd':
        return NGX_HTTP_PGW_DECISION_DENY;

    default:
        return NGX_HTTP_PGW_DECISION_SHADOW;
    }
}


void
ngx_http_pgw_metrics_verification(pj_err_t err)
{
    if (ngx_http_pgw_slot) {
        ngx_http_pgw_slot->counters.verifications[
                         ngx_http_pgw_reason_of_token(err)]++;
    }
}


void
ngx_http_pgw_metrics_fetch(ngx_http_pgw_fetch_e outcome)
{
    if (ngx_http_pgw_slot) {
        ngx_http_pgw_slot->counters.fetches[outcome]++;
    }
}


void
ngx_http_pgw_metrics_cache(ngx_http_pgw_cache_e event)
{
    if (ngx_http_pgw_slot) {
        ngx_http_pgw_slot->counters.cache[event]++;
    }
}


void
ngx_http_pgw_metrics_cached(ngx_uint_t tokens)
{
    if (ngx_http_pgw_slot) {
        ngx_http_pgw_slot->counters.cached = tokens;
    }
}
