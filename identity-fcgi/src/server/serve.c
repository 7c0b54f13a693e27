/* Serving: workers, key reload, the access log. */

#include "server/serve.h"

#include "auth/app.h"
#include "auth/hasher.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/version.h"
#include "server/route.h"
#include "server/server.h"
#include "store/store_sweep.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MAX_BYTES (48 * 1024)   /* a cookie holds a whole token */
#define BODY_MAX_BYTES (1024 * 1024) /* 1000 branches and three tokens */
_Static_assert(HEAD_MAX_BYTES + BODY_MAX_BYTES <= FCGI_ANSWER_MAX, "");
#define CONNECTIONS_MAX 4096
#define SPARE_DESCRIPTORS 64
#define SWEEP_WAIT_MS 1000 /* for the sweep to end, at the stop */

/* A worker with the memory that its responses are made in. */
struct serve_worker {
    struct worker app;
    void *arena;
    char *headers, *body, *head;
    struct http_response res;
    struct buf res_head;
};

struct serve_state {
    const struct config *cfg;
    const char *env_file;
    struct sweeper *sweeper;
};

static int64_t now_ms(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* -- one request ----------------------------------------------------------
 */

static struct log_field field(const char *name, pj_str_t value)
{
    return (struct log_field){name, (const char *) value.data, value.len};
}

static struct log_field field_z(const char *name, const char *value)
{
    bool there = value != NULL && value[0] != '\0';

    return (struct log_field){name, there ? value : NULL,
                              there ? strlen(value) : 0};
}

static void log_request(const struct http_request *req,
                        const struct http_response *res, int64_t duration_ms)
{
    const struct log_field fields[] = {
        field("clientIp", req->remote_addr),
        field("method", req->method),
        field("path", req->path),
        field_z("code", res->code),
        field_z("accountId", res->account_id),
        field_z("sessionId", res->session_id),
        field("userAgent", req->user_agent),
    };
    const struct log_number numbers[] = {
        {"status", res->status},
        {"bytes", (int64_t) res->body.len},
        {"durationMs", duration_ms},
    };

    log_access(fields, sizeof(fields) / sizeof(fields[0]), numbers,
               sizeof(numbers) / sizeof(numbers[0]));
}

/* Nobody waits for the answer any more: make room for those who do. */
static void refuse_late(const struct http_request *req,
                        struct http_response *res)
{
    http_problem(res, req, 503, "AUTH_BUSY",
                 "The service is busy; try again.");
    http_header(res, "Retry-After", "1");
}

static void answer(struct serve_worker *sw, size_t route,
                   const struct http_request *req, struct http_response *res)
{
    struct worker *w = &sw->app;

    pj_arena_init(&w->arena, sw->arena, WORKER_ARENA_BYTES);
    w->now_s = now_ms(CLOCK_REALTIME) / 1000;
    w->keys = keys_acquire();
    w->signer = keys_signer(w->keys, w->number);
    if (now_ms(CLOCK_MONOTONIC) >= w->deadline_ms) {
        refuse_late(req, res);
    } else {
        w->store.deadline_ms = w->deadline_ms;
        route_handle(route, w, req, res);
    }
    keys_release(w->keys);
    w->keys = NULL;
    w->signer = NULL;
}

/* Tokens and credentials do not outlive their request in our memory: this is
 * what came, or was made, */
static void wipe(struct serve_worker *sw)
{
    size_t used = (size_t) (sw->app.arena.pos - (unsigned char *) sw->arena);

    OPENSSL_cleanse(sw->arena, used);
}

/* and this what was answered. */
static void sent(void *worker)
{
    struct serve_worker *sw = worker;

    buf_reset(&sw->res.headers);
    buf_reset(&sw->res.body);
    buf_reset(&sw->res_head);
}

static void handle(void *worker, const struct fcgi_call *call,
                   struct fcgi_reply *reply)
{
    struct serve_worker *sw = worker;
    struct http_response *res = &sw->res;
    struct buf *head = &sw->res_head;
    struct http_request req;
    int64_t duration_us;
    size_t route;

    http_request_init(&req, call->params, call->body, call->body_too_large);
    http_response_init(res, sw->headers, HEAD_MAX_BYTES / 2, sw->body,
                       BODY_MAX_BYTES);
    buf_init(head, sw->head, HEAD_MAX_BYTES);
    log_bind((const char *) req.request_id.data, req.request_id.len,
             (const char *) req.correlation_id.data, req.correlation_id.len);
    sw->app.deadline_ms = call->deadline_ms;
    route = route_find(req.path);
    answer(sw, route, &req, res);
    http_response_head(res, &req, head);
    duration_us = metrics_now_us() - call->arrived_us;
    metrics_request(route, res->status, res->code, duration_us);
    reply->head.data = (const unsigned char *) head->data;
    reply->head.len = head->len;
    reply->body.data = (const unsigned char *) res->body.data;
    reply->body.len = res->body.len;
    if (sw->app.cfg->access_log) {
        log_request(&req, res, duration_us / 1000);
    }
    log_unbind();
    wipe(sw);
}

/* -- workers --------------------------------------------------------------
 */

static void worker_free(struct serve_worker *sw)
{
    if (sw == NULL) {
        return;
    }
    free(sw->arena);
    free(sw->headers);
    free(sw->body);
    free(sw->head);
    free(sw);
}

static struct serve_worker *
worker_new(const struct config *cfg, const struct store *store, size_t number)
{
    struct serve_worker *sw = calloc(1, sizeof(*sw));

    if (sw == NULL) {
        return NULL;
    }
    sw->app.cfg = cfg;
    sw->app.number = number;
    sw->app.store = *store;
    sw->arena = malloc(WORKER_ARENA_BYTES);
    sw->headers = malloc(HEAD_MAX_BYTES / 2);
    sw->body = malloc(BODY_MAX_BYTES);
    sw->head = malloc(HEAD_MAX_BYTES);
    if (sw->arena == NULL || sw->headers == NULL || sw->body == NULL ||
        sw->head == NULL) {
        worker_free(sw);
        return NULL;
    }
    return sw;
}

static void workers_free(void **workers, int count)
{
    for (int i = 0; workers != NULL && i < count; i++) {
        worker_free(workers[i]);
    }
    free(workers);
}

static void **workers_new(const struct config *cfg, const struct store *store)
{
    void **workers = calloc((size_t) cfg->worker_threads, sizeof(void *));

    for (int i = 0; workers != NULL && i < cfg->worker_threads; i++) {
        workers[i] = worker_new(cfg, store, (size_t) i);
        if (workers[i] == NULL) {
            workers_free(workers, i);
            return NULL;
        }
    }
    return workers;
}

/* -- signals --------------------------------------------------------------
 */

static void reload_failed(const char *why)
{
    char message[640];

    metrics_count(METRICS_KEYS_RELOAD_FAILED);
    snprintf(message, sizeof(message), "%s; the old keys stay", why);
    log_audit("keys.reload_failed", message, NULL, 0, NULL, 0);
}

/* SIGHUP: new keys, or the old ones when the new are bad. */
static void reload(void *app)
{
    const struct serve_state *state = app;
    struct keys *keys = NULL;
    struct config cfg;
    char err[512];
    pj_str_t kid = {NULL, 0};

    if (state->env_file == NULL) {
        reload_failed("no --env-file to read keys from");
        return;
    }
    if (config_load(&cfg, state->env_file, err, sizeof(err))) {
        keys = keys_load(&cfg, err, sizeof(err));
        config_free(&cfg);
    }
    if (keys == NULL) {
        reload_failed(err);
        return;
    }
    metrics_count(METRICS_KEYS_RELOADED);
    if (keys->signing != NULL) {
        kid = pj_key_id(keys->signing);
    }
    log_audit(
        "keys.reloaded", NULL,
        LOG_FIELDS({"kid", (const char *) kid.data, kid.len}),
        (struct log_number[]){{"publicKeys", (int64_t) keys->verifying_count}},
        1);
    keys_publish(keys);
}

static void stopping(void *app)
{
    const struct serve_state *state = app;

    sweep_stop(state->sweeper);
    log_line(LOG_INFO_, "service.stopping",
             "finishing what is in flight, then exiting");
}

/* -- start ----------------------------------------------------------------
 */

/* As many connections as the descriptors allow, and no more than are sane. */
static int connection_limit(const struct config *cfg)
{
    struct rlimit limit;
    rlim_t reserved = SPARE_DESCRIPTORS + 3 * (rlim_t) cfg->worker_threads;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 256;
    }
    if (limit.rlim_cur < limit.rlim_max) {
        rlim_t wanted = CONNECTIONS_MAX + reserved;

        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        (void) setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= CONNECTIONS_MAX + reserved) {
        return CONNECTIONS_MAX;
    }
    return limit.rlim_cur > reserved + 16 ? (int) (limit.rlim_cur - reserved)
                                          : 16;
}

int serve(const struct config *cfg, struct keys *keys,
          struct listener *listener, const char *env_file)
{
    struct store store;
    struct serve_state state = {cfg, env_file, NULL};
    struct server_limits limits = {.threads = cfg->worker_threads,
                                   .max_connections = connection_limit(cfg),
                                   .request_timeout_ms =
                                       cfg->request_timeout_ms,
                                   .body_max = HTTP_BODY_MAX};
    struct server_service service = {
        .workers = store_open(&store, cfg) ? workers_new(cfg, &store) : NULL,
        .handle = handle,
        .sent = sent,
        .reload = reload,
        .stopping = stopping,
        .app = &state};

    if (service.workers == NULL) {
        fprintf(stderr, "identity-fcgi: out of memory\n");
        keys_release(keys);
        return 1;
    }
    if (keys->signing == NULL) {
        log_line(LOG_WARN_, "keys.none",
                 "no signing key: /readyz says so and no login succeeds");
    }
    keys_publish(keys);
    metrics_start();
    log_line(LOG_INFO_, "service.listening",
             "identity-fcgi %s, process %ld, listening on %s, %d workers",
             IDENTITY_VERSION, (long) getpid(), listener->name,
             limits.threads);
    /* As many again for signatures: a login whose credential was right does
     * not wait for others' hashes. */
    if (!hasher_start(2 * cfg->hash_concurrency)) {
        log_line(LOG_WARN_, "service.start",
                 "no threads for logins: workers do it all themselves");
    }
    state.sweeper = sweep_start(cfg);
    if (!server_run(listener, &limits, &service)) {
        log_line(LOG_ERROR_, "service.stopped",
                 "requests in flight were cut off");
        _exit(1);
    }
    if (!sweep_join(state.sweeper, SWEEP_WAIT_MS)) {
        log_line(LOG_WARN_, "service.stopped",
                 "all requests finished; the sweep was cut off");
        _exit(0);
    }
    hasher_stop();
    workers_free(service.workers, cfg->worker_threads);
    store_close(&store);
    keys_publish(NULL);
    log_line(LOG_INFO_, "service.stopped", "all requests finished");
    return 0;
}
