/* The program: options, commands, and serving. */

#include "auth/hasher.h"
#include "auth/password.h"
#include "base/log.h"
#include "cmd/cmd_main.h"
#include "cmd/cmd_service.h"
#include "server/route.h"
#include "server/server.h"
#include "store/store.h"
#include "store/sweep.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <pj_version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MAX_BYTES (48 * 1024)   /* a cookie contains a whole token */
#define BODY_MAX_BYTES (1024 * 1024) /* 1000 branches and three tokens */
_Static_assert(HEAD_MAX_BYTES + BODY_MAX_BYTES <= FCGI_ANSWER_MAX, "");
#define CONNECTIONS_MAX 4096
#define SPARE_DESCRIPTORS 64
#define SWEEP_WAIT_MS 1000 /* for the sweep to end at shutdown */

/* A thread's worker and the memory for its responses. */
struct serve_worker {
    struct worker app;
    struct http_response res;
    struct buf res_head;
    char headers[HEAD_MAX_BYTES / 2], head[HEAD_MAX_BYTES];
    char body[BODY_MAX_BYTES];
    unsigned char arena[WORKER_ARENA_BYTES];
};

static struct {
    const struct config *cfg;
    const char *env_file;
    /* Stamp of the key directory when it was last read, and the error then. */
    uint64_t key_stamp;
    struct error key_error;
    struct serve_worker *workers; /* one per thread */
    struct sweeper *sweeper;
} self;

/* -- requests -- */

/* Values of parameters are NUL-terminated. */
static void log_request(const struct http_request *req,
                        const struct http_response *res, int64_t duration_ms)
{
    const char *account = *res->account_id != '\0' ? res->account_id : NULL;
    const char *session = *res->session_id != '\0' ? res->session_id : NULL;

    log_event(LOG_ACCESS_, "http.request", NULL,
              LOG_FIELDS(LOG_NUMBER("status", res->status),
                         LOG_NUMBER("bytes", (int64_t) res->body.len),
                         LOG_NUMBER("durationMs", duration_ms),
                         log_text("clientIp", req->remote_addr.data),
                         log_text("method", req->method.data),
                         log_text("path", req->path.data),
                         log_text("code", res->code),
                         log_text("accountId", account),
                         log_text("sessionId", session),
                         log_text("userAgent", req->user_agent.data)));
}

/* Wipes everything made from tokens and credentials after the request; the
 * server wipes the reply. */
static void handle(size_t thread, const struct fcgi_call *call,
                   struct fcgi_reply *reply)
{
    struct serve_worker *sw = &self.workers[thread];
    struct worker *w = &sw->app;
    struct http_response *res = &sw->res;
    struct http_request req;
    struct timespec now;
    int64_t duration_us;
    size_t route;

    http_request_init(&req, call->params, call->body, call->body_too_large);
    http_response_init(res, sw->headers, sizeof(sw->headers), sw->body,
                       sizeof(sw->body));
    buf_init(&sw->res_head, sw->head, sizeof(sw->head));
    log_bind(req.request_id.data, req.correlation_id.data);
    clock_gettime(CLOCK_REALTIME, &now);
    pj_arena_init(&w->arena, sw->arena, sizeof(sw->arena));
    w->req = &req;
    w->res = res;
    w->faults = (struct faults){.count = 0};
    w->now_s = now.tv_sec;
    w->jkt[0] = '\0';
    w->late = call->late;
    w->disconnected = call->disconnected;
    w->store.deadline_ms = call->deadline_ms;
    w->store.actor[0] = '\0';
    w->store.access_until_s = w->now_s + w->cfg->access_ttl_s;
    if (w->cfg->session_client) {
        http_text(w->store.client_address, sizeof(w->store.client_address),
                  req.remote_addr);
        http_text(w->store.client_agent, sizeof(w->store.client_agent),
                  req.user_agent);
    }
    route = route_find(req.path);
    w->keys = keys_acquire();
    w->signer = keys_signer(w->keys, thread);
    if (metrics_now_us() / 1000 < call->deadline_ms) {
        route_handle(route, w);
    } else {
        (void) auth_busy(w); /* serve requests that still have time */
    }
    auth_leave(w);
    keys_release(w->keys);
    http_response_head(res, &req, &sw->res_head);
    duration_us = metrics_now_us() - call->arrived_us;
    metrics_request(route, res->status, res->code, duration_us);
    if (w->cfg->access_log && route_logged(route, res->status)) {
        log_request(&req, res, duration_us / 1000);
    }
    log_unbind();
    OPENSSL_cleanse(sw->arena, (size_t) (w->arena.pos - sw->arena));
    buf_reset(&res->headers);
    *reply = (struct fcgi_reply){&sw->res_head, &res->body};
}

/* -- signals -- */

/* Uses new keys.  If keys is NULL, keeps the old ones and reports the error. */
static void apply_keys(struct keys *keys, const struct error *e)
{
    char message[640];
    pj_str_t kid = {NULL, 0};

    if (keys == NULL) {
        metrics_count(METRICS_KEYS_RELOAD_FAILED);
        snprintf(message, sizeof(message), "%s; the old keys stay", e->text);
        log_event(LOG_AUDIT_, "keys.reload_failed", message, NULL, 0);
        return;
    }
    /* Publish the keys before logging it. */
    self.key_stamp = keys->stamp;
    self.key_error.text[0] = '\0';
    keys_publish(keys);
    metrics_count(METRICS_KEYS_RELOADED);
    if (keys->signing != NULL) {
        kid = pj_key_id(keys->signing);
    }
    log_event(
        LOG_AUDIT_, "keys.reloaded", NULL,
        LOG_FIELDS(
            {.name = "kid", .value = (const char *) kid.data, .len = kid.len},
            LOG_NUMBER("publicKeys", (int64_t) keys->published_count)));
}

/* SIGHUP: reloads the keys; on failure the old keys stay in use. */
static void reload_keys(void)
{
    struct error e = {"no --env-file to read keys from"};
    struct keys *keys = NULL;
    struct config cfg;

    if (self.env_file != NULL && config_load(&cfg, self.env_file, &e)) {
        keys = keys_load(&cfg, &e);
        config_free(&cfg);
    } else if (self.env_file == NULL && self.cfg->jwt_key_dir != NULL) {
        keys = keys_load(self.cfg, &e);
    }
    apply_keys(keys, &e);
}

/* Reloads the keys when the directory of the current keys changes, even if the
 * settings have changed.  Logs an error once and retries until it succeeds. */
static void follow_keys(void)
{
    struct config cfg = {.worker_threads = self.cfg->worker_threads};
    struct keys *keys = keys_acquire();
    struct error e;
    uint64_t stamp;

    cfg.jwt_key_dir = keys->dir;
    stamp = keys->dir != NULL ? keys_dir_stamp(keys->dir) : self.key_stamp;
    if (stamp != self.key_stamp || self.key_error.text[0] != '\0') {
        struct keys *found = keys_load(&cfg, &e);

        self.key_stamp = stamp;
        if (found != NULL || strcmp(e.text, self.key_error.text) != 0) {
            apply_keys(found, &e);
        }
        if (found == NULL) {
            self.key_error = e;
        }
    }
    keys_release(keys);
}

static void stopping(void)
{
    sweep_stop(self.sweeper);
    log_line(LOG_INFO_, "service.stopping",
             "finishing what is in flight, then exiting");
}

/* -- start -- */

/* Returns the number of connections that the limit of descriptors allows, at
 * most CONNECTIONS_MAX. */
static int connection_limit(const struct config *cfg)
{
    struct rlimit limit = {256, 256};
    rlim_t reserved = SPARE_DESCRIPTORS + 3 * (rlim_t) cfg->worker_threads;
    rlim_t wanted = CONNECTIONS_MAX + reserved;

    (void) getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
        (void) setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= wanted) {
        return CONNECTIONS_MAX;
    }
    return limit.rlim_cur > reserved + 16 ? (int) (limit.rlim_cur - reserved)
                                          : 16;
}

static bool make_workers(const struct config *cfg, struct store *store)
{
    size_t n = (size_t) cfg->worker_threads;

    self.workers = calloc(n, sizeof(*self.workers));
    if (self.workers == NULL || !store_open(store, cfg)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        self.workers[i].app = (struct worker){.cfg = cfg, .store = *store};
    }
    return true;
}

/* Serves on listener until shutdown and returns the exit status.  Takes over
 * the reference to keys.  SIGHUP reloads keys from env_file, if any. */
static int serve(const struct config *cfg, struct keys *keys,
                 struct listener *listener, const char *env_file)
{
    const struct server_service service = {handle, reload_keys, follow_keys,
                                           stopping};
    struct store store;

    if (!make_workers(cfg, &store) || !password_start(cfg, PASSWORD_WAIT_MS)) {
        fprintf(stderr, "identity-fcgi: no memory for the worker threads\n");
        keys_release(keys);
        return 1;
    }
    self.cfg = cfg;
    self.env_file = env_file;
    self.key_stamp = keys->stamp;
    if (keys->signing == NULL) {
        log_line(LOG_WARN_, "keys.none",
                 "no signing key: /readyz says so and no login succeeds");
    }
    keys_publish(keys);
    metrics_start();
    log_line(LOG_INFO_, "service.listening",
             "identity-fcgi %s, process %ld, listening on %s, %d workers",
             PLATFORM_VERSION, (long) getpid(), listener->name,
             cfg->worker_threads);
    self.sweeper = sweep_start(cfg);
    if (!server_run(listener, cfg, connection_limit(cfg), &service)) {
        log_line(LOG_ERROR_, "service.stopped",
                 "requests in flight were cut off");
        _exit(1);
    }
    if (!sweep_join(self.sweeper, SWEEP_WAIT_MS)) {
        log_line(LOG_WARN_, "service.stopped",
                 "all requests finished; the sweep was cut off");
        _exit(0);
    }
    hasher_stop();
    store_close(&store);
    free(self.workers);
    keys_publish(NULL);
    log_line(LOG_INFO_, "service.stopped", "all requests finished");
    return 0;
}

/* -- options -- */

static bool command_check(struct cmd *c)
{
    if (!cmd_keys(c)) {
        return false;
    }
    if (c->cfg.warning != NULL) {
        fprintf(stderr, "identity-fcgi: %s\n", c->cfg.warning);
    }
    puts("settings are good");
    return true;
}

static bool command_print_config(struct cmd *c)
{
    struct error e;

    return config_print(stdout, c->env_file, &e) ||
           cmd_misused(c, "%s", e.text);
}

static bool start(struct cmd *c, struct listener *listener)
{
    struct error e;

    if (!cmd_keys(c)) {
        return false;
    }
    if (!listener_open(listener, c->cfg.listen, &e)) {
        return cmd_fail(c, "%s", e.text);
    }
    if (c->cfg.warning != NULL) {
        log_line(LOG_WARN_, "config.unknown", "%s", c->cfg.warning);
    }
    if (c->cfg.db_migrate_on_start &&
        !cmd_service_migrate(c, c->cfg.db_seed_on_start)) {
        return false;
    }
    return password_setup(&c->cfg) || cmd_fail(c, "cannot set up Argon2id");
}

static bool command_serve(struct cmd *c)
{
    struct listener listener = {.fd = -1};

    if (!cmd_load(c)) {
        return false;
    }
    server_block_signals();
    if (start(c, &listener)) {
        c->status = serve(&c->cfg, c->keys, &listener, c->env_file);
        c->keys = NULL;
    }
    listener_close(&listener);
    return c->status == 0;
}

static bool command_version(struct cmd *c)
{
    (void) c;
    puts("identity-fcgi " PLATFORM_VERSION);
    return true;
}

/* clang-format off */
static const char usage_text[] =
    "usage: identity-fcgi [--env-file FILE] [COMMAND]\n"
    "\n"
    "Without a command: serve FastCGI on IDENTITY_LISTEN, or on descriptor 0\n"
    "where a supervisor passes a listening socket.\n"
    "\n"
    "commands:";

static const char options_text[] =
    "\noptions:\n  --env-file FILE  settings in systemd's EnvironmentFile "
    "syntax; they win\n                   over the environment; SIGHUP reads "
    "the keys in it again\n  --check          check all settings and keys, "
    "then exit\n  --print-config   print all settings; of secrets only "
    "whether they are set\n  --version        print the version\n  "
    "--help           print this text\n\nEvery command takes --json, and "
    "--help for more about it.\n\nexit status: 0 done, 1 failed, 2 wrong "
    "usage or settings, 3 done, but the\n"
    "audit line could not be written";
/* clang-format on */

static bool command_help(struct cmd *c)
{
    (void) c;
    puts(usage_text);
    cmd_main_list(NULL);
    puts(options_text);
    return true;
}

/* Options and commands of the program itself; cmd/ has the operator's. */
static const struct {
    const char *name;
    bool (*run)(struct cmd *c);
} commands[] = {
    {"serve", command_serve},       {"help", command_help},
    {"--check", command_check},     {"--print-config", command_print_config},
    {"--version", command_version}, {"--help", command_help},
};

static bool usage(struct cmd *c, const char *what, const char *arg)
{
    return cmd_misused(c, "%s: %s; try identity-fcgi --help", what, arg);
}

/* Opens /dev/null for descriptors 0 to 2 if they are closed, so that none of
 * our sockets becomes one of them. */
static void open_standard_descriptors(void)
{
    int fd;

    while ((fd = open("/dev/null", O_RDONLY)) >= 0 && fd <= STDERR_FILENO) {
    }
    (void) close(fd);
}

static bool run(struct cmd *c, int argc, char *const *argv)
{
    const char *command = NULL;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--env-file") == 0) {
            if (i + 1 == argc) {
                return usage(c, "needs a value", argv[i]);
            }
            c->env_file = argv[++i];
        } else if (command == NULL && cmd_main_knows(argv[i])) {
            return cmd_main(c, argc - i, argv + i);
        } else if (command == NULL) {
            command = argv[i];
        } else if (strcmp(command, "help") == 0 && cmd_main_knows(argv[i])) {
            c->help = true;
            return cmd_main(c, argc - i, argv + i);
        } else {
            return usage(c, "unexpected argument", argv[i]);
        }
    }
    command = command != NULL ? command : "serve";
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(command, commands[i].name) == 0) {
            return commands[i].run(c);
        }
    }
    return usage(c, command[0] == '-' ? "unknown option" : "unknown command",
                 command);
}

int main(int argc, char **argv)
{
    static struct cmd c;

    open_standard_descriptors();
    (void) run(&c, argc, argv);
    return cmd_main_end(&c);
}
