/*
 * A load generator that can do what a client does: use the token that it just
 * got.  One thread, kept-alive connections, one request at a time on each.
 *
 *   load --port N --connections N --seconds S | --requests N
 *        [--method GET] [--path /] [--body TEXT] [--bearer]
 *        [--pool FILE [--chain | --once]]
 *
 * FILE has a token (or any other word) a line.  Each request takes the first
 * of those that are not in use: it stands for the @ in the body, or with
 * --bearer in the Authorization header.  It goes to the end of the line
 * afterwards; with --chain the refresh token of the answer goes there instead,
 * and FILE is written again at the end; with --once nothing does, and the end
 * of the line ends the run.
 *
 * Prints one line of JSON.  Everything but a whole 200 is an error; the first
 * one ends the run, and the exit status is 1.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_CONNECTIONS 1024
#define MAX_SAMPLES 4000000
#define MAX_POOL 1000000
#define REQUEST_BYTES 32768
#define RESPONSE_BYTES 65536
#define ANSWER_WAIT_MS 20000

static struct {
    int port, connections;
    double seconds;
    long requests;
    const char *method, *path, *body, *pool;
    bool bearer, chain, once;
} opt = {.method = "GET", .path = "/", .requests = MAX_SAMPLES};

struct connection {
    int fd;
    char out[REQUEST_BYTES];
    size_t out_len, out_sent;
    char in[RESPONSE_BYTES + 1];
    size_t in_len;
    char *token; /* taken from the pool */
    uint64_t sent_ns;
    bool busy;
};

/* A ring of words that are not in use. */
static struct {
    char **words;
    size_t size, first, count;
} pool;

static struct connection *connections;
static int epoll_fd;
static uint32_t *samples; /* tenths of microseconds */
static size_t sample_count;
static long started;
static int in_flight;
static uint64_t end_ns;
static char error[256];

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

static void fail(const char *what, const char *detail, size_t len)
{
    if (error[0] != '\0') {
        return;
    }
    snprintf(error, sizeof(error), "%s: %.*s", what,
             (int) (len < 160 ? len : 160), detail);
    for (char *p = error; *p != '\0'; p++) {
        /* It will stand in a JSON string. */
        *p = *p < ' ' || *p > '~' || *p == '"' || *p == '\\' ? ' ' : *p;
    }
}

static void die(const char *what)
{
    perror(what);
    exit(2);
}

/* -- the pool -- */

static void pool_put(char *word)
{
    pool.words[(pool.first + pool.count++) % pool.size] = word;
}

static char *pool_take(void)
{
    char *word = pool.words[pool.first];

    pool.first = (pool.first + 1) % pool.size;
    pool.count--;
    return word;
}

static void pool_read(void)
{
    FILE *file = fopen(opt.pool, "r");
    size_t cap = 0;
    char *line = NULL;
    ssize_t len;

    pool.size = MAX_POOL;
    pool.words = calloc(pool.size, sizeof(char *));
    if (file == NULL || pool.words == NULL) {
        die(opt.pool);
    }
    while (pool.count < pool.size && (len = getline(&line, &cap, file)) > 0) {
        line[strcspn(line, "\n")] = '\0';
        pool_put(line);
        line = NULL;
        cap = 0;
    }
    free(line);
    fclose(file);
    if (pool.count < (size_t) opt.connections) {
        fprintf(stderr, "load: %s has fewer lines than connections\n",
                opt.pool);
        exit(2);
    }
}

static void pool_write(void)
{
    FILE *file = fopen(opt.pool, "w");

    if (file == NULL) {
        die(opt.pool);
    }
    while (pool.count > 0) {
        fprintf(file, "%s\n", pool_take());
    }
    if (fclose(file) != 0) {
        die(opt.pool);
    }
}

/* -- requests -- */

static void build(struct connection *c)
{
    const char *token = c->token != NULL ? c->token : "";
    const char *mark = opt.body != NULL ? strchr(opt.body, '@') : NULL;
    char body[REQUEST_BYTES / 2] = "", bearer[REQUEST_BYTES / 2] = "";
    int n;

    if (opt.body != NULL && (mark == NULL || opt.bearer)) {
        snprintf(body, sizeof(body), "%s", opt.body);
    } else if (opt.body != NULL) {
        snprintf(body, sizeof(body), "%.*s%s%s", (int) (mark - opt.body),
                 opt.body, token, mark + 1);
    }
    if (opt.bearer) {
        snprintf(bearer, sizeof(bearer), "Authorization: Bearer %s\r\n",
                 token);
    }
    if (opt.body == NULL) {
        n = snprintf(c->out, sizeof(c->out),
                     "%s %s HTTP/1.1\r\nHost: bench.test\r\n%s\r\n",
                     opt.method, opt.path, bearer);
    } else {
        n = snprintf(c->out, sizeof(c->out),
                     "%s %s HTTP/1.1\r\nHost: bench.test\r\n%s"
                     "Content-Type: application/json\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     opt.method, opt.path, bearer, strlen(body), body);
    }
    if (n < 0 || (size_t) n >= sizeof(c->out)) {
        fprintf(stderr, "load: a request of over %d bytes\n", REQUEST_BYTES);
        exit(2);
    }
    c->out_len = (size_t) n;
    c->out_sent = 0;
}

static void watch(struct connection *c, int op, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data = {.ptr = c}};

    if (epoll_ctl(epoll_fd, op, c->fd, &ev) != 0) {
        die("load: epoll_ctl");
    }
}

static void open_connection(struct connection *c)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t) opt.port)};
    int on = 1;

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 ||
        connect(c->fd, (struct sockaddr *) &to, sizeof(to)) != 0 ||
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
        fcntl(c->fd, F_SETFL, O_NONBLOCK) != 0) {
        die("load: connect");
    }
    watch(c, EPOLL_CTL_ADD, EPOLLIN);
}

static void send_more(struct connection *c)
{
    while (c->out_sent < c->out_len) {
        ssize_t n = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent,
                         MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN) {
            watch(c, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
            return;
        }
        if (n < 0) {
            fail("send", strerror(errno), strlen(strerror(errno)));
            return;
        }
        c->out_sent += (size_t) n;
    }
}

/* Starts a request, if there is to be another. */
static void next(struct connection *c)
{
    if (error[0] != '\0' || started >= opt.requests || now_ns() >= end_ns ||
        (opt.pool != NULL && pool.count == 0)) {
        return;
    }
    started++;
    in_flight++;
    c->token = opt.pool != NULL ? pool_take() : NULL;
    build(c);
    c->in_len = 0;
    c->busy = true;
    c->sent_ns = now_ns();
    send_more(c);
}

/* -- responses -- */

/* The value of a header, or NULL; head ends in an empty line. */
static const char *header(const char *head, const char *name)
{
    size_t len = strlen(name);

    for (const char *p = strstr(head, "\r\n"); p != NULL && p[2] != '\r';
         p = strstr(p + 2, "\r\n")) {
        if (strncasecmp(p + 2, name, len) == 0 && p[2 + len] == ':') {
            return p + 3 + len + strspn(p + 3 + len, " ");
        }
    }
    return NULL;
}

/* Whether the answer is whole; sets where its body begins. */
static bool is_whole(struct connection *c, char **body)
{
    const char *length;
    char *end;

    c->in[c->in_len] = '\0';
    end = strstr(c->in, "\r\n\r\n");
    if (end == NULL) {
        return false;
    }
    *body = end + 4;
    length = header(c->in, "Content-Length");
    if (length == NULL) {
        fail("no Content-Length", c->in, c->in_len);
        return false;
    }
    return c->in_len >= (size_t) (end + 4 - c->in) + strtoul(length, NULL, 10);
}

/* Gives the token back, or the one that replaces it. */
static void put_back(struct connection *c, char *body)
{
    static const char member[] = "\"refreshToken\":\"";
    char *from = strstr(body, member), *to;

    if (opt.once) {
        free(c->token);
        return;
    }
    if (!opt.chain) {
        pool_put(c->token);
        return;
    }
    from = from != NULL ? from + sizeof(member) - 1 : NULL;
    to = from != NULL ? strchr(from, '"') : NULL;
    if (to == NULL) {
        fail("no refreshToken", body, strlen(body));
        return;
    }
    *to = '\0';
    free(c->token);
    pool_put(strdup(from));
}

static void take_sample(const struct connection *c)
{
    uint64_t tenths = (now_ns() - c->sent_ns) / 100;

    if (sample_count < MAX_SAMPLES) {
        samples[sample_count++] =
            tenths > UINT32_MAX ? UINT32_MAX : (uint32_t) tenths;
    }
}

static void finish(struct connection *c, char *body)
{
    const char *close_it = header(c->in, "Connection");

    take_sample(c);
    c->busy = false;
    in_flight--;
    if (strncmp(c->in, "HTTP/1.1 200", 12) != 0) {
        fail("answer", c->in, c->in_len);
        return;
    }
    if (opt.pool != NULL) {
        put_back(c, body);
    }
    if (close_it != NULL && strncasecmp(close_it, "close", 5) == 0) {
        close(c->fd);
        open_connection(c);
    }
    next(c);
}

static void receive(struct connection *c)
{
    ssize_t n = recv(c->fd, c->in + c->in_len, RESPONSE_BYTES - c->in_len, 0);
    char *body;

    if (n < 0 && errno == EAGAIN) {
        return;
    }
    if (n <= 0 && !c->busy) {
        close(c->fd);
        open_connection(c);
        return;
    }
    if (n <= 0) {
        fail("connection ended", c->in, c->in_len);
        return;
    }
    c->in_len += (size_t) n;
    if (is_whole(c, &body)) {
        finish(c, body);
    }
}

static void event(const struct epoll_event *ev)
{
    struct connection *c = ev->data.ptr;

    if (ev->events & EPOLLOUT) {
        watch(c, EPOLL_CTL_MOD, EPOLLIN);
        send_more(c);
    }
    if (ev->events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        receive(c);
    }
}

/* -- the run -- */

static void run(void)
{
    struct epoll_event events[64];

    for (int i = 0; i < opt.connections; i++) {
        next(&connections[i]);
    }
    while (in_flight > 0 && error[0] == '\0') {
        int n = epoll_wait(epoll_fd, events, 64, ANSWER_WAIT_MS);

        if (n < 0 && errno != EINTR) {
            die("load: epoll_wait");
        }
        if (n == 0) {
            fail("no answer", "in time", 7);
        }
        for (int i = 0; i < n; i++) {
            event(&events[i]);
        }
    }
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

    return x < y ? -1 : x > y;
}

/* Of sorted samples, in microseconds. */
static double quantile(double q)
{
    size_t at = (size_t) (q * (double) sample_count);

    if (sample_count == 0) {
        return 0;
    }
    return samples[at < sample_count ? at : sample_count - 1] / 10.0;
}

static double cpu_us(void)
{
    struct rusage use;

    getrusage(RUSAGE_SELF, &use);
    return (double) (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e6 +
           (double) (use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

static void report(double seconds, double cpu)
{
    double sum = 0, count = (double) sample_count;

    for (size_t i = 0; i < sample_count; i++) {
        sum += samples[i] / 10.0;
    }
    qsort(samples, sample_count, sizeof(samples[0]), by_size);
    printf("{\"requests\":%zu,\"error\":\"%s\",\"seconds\":%.6f,"
           "\"rate\":%.3f,\"mean_us\":%.1f,\"p50_us\":%.1f,\"p90_us\":%.1f,"
           "\"p99_us\":%.1f,\"max_us\":%.1f,\"cpu_us\":%.3f}\n",
           sample_count, error, seconds, count / seconds,
           count > 0 ? sum / count : 0, quantile(0.5), quantile(0.9),
           quantile(0.99), quantile(1), count > 0 ? cpu / count : 0);
}

static void usage(void)
{
    fprintf(stderr, "usage: load --port N --connections N "
                    "--seconds S | --requests N\n"
                    "            [--method M] [--path P] [--body TEXT] "
                    "[--bearer]\n"
                    "            [--pool FILE [--chain | --once]]\n");
    exit(2);
}

static void set_option(int name, const char *value)
{
    switch (name) {
    case 'p':
        opt.port = (int) strtol(value, NULL, 10);
        break;
    case 'c':
        opt.connections = (int) strtol(value, NULL, 10);
        break;
    case 's':
        opt.seconds = strtod(value, NULL);
        break;
    case 'r':
        opt.requests = strtol(value, NULL, 10);
        break;
    case 'm':
        opt.method = value;
        break;
    case 'P':
        opt.path = value;
        break;
    case 'b':
        opt.body = value;
        break;
    case 't':
        opt.pool = value;
        break;
    case 'B':
        opt.bearer = true;
        break;
    case 'C':
        opt.chain = true;
        break;
    case 'O':
        opt.once = true;
        break;
    default:
        usage();
    }
}

static void options(int argc, char **argv)
{
    static const struct option names[] = {
        {"port", required_argument, NULL, 'p'},
        {"connections", required_argument, NULL, 'c'},
        {"seconds", required_argument, NULL, 's'},
        {"requests", required_argument, NULL, 'r'},
        {"method", required_argument, NULL, 'm'},
        {"path", required_argument, NULL, 'P'},
        {"body", required_argument, NULL, 'b'},
        {"pool", required_argument, NULL, 't'},
        {"bearer", no_argument, NULL, 'B'},
        {"chain", no_argument, NULL, 'C'},
        {"once", no_argument, NULL, 'O'},
        {0}};
    int name;

    while ((name = getopt_long(argc, argv, "", names, NULL)) != -1) {
        set_option(name, optarg);
    }
    if (optind != argc || opt.port < 1 || opt.port > 65535 ||
        opt.connections < 1 || opt.connections > MAX_CONNECTIONS ||
        opt.requests < 1 ||
        (opt.seconds <= 0) == (opt.requests == MAX_SAMPLES) ||
        (opt.chain && opt.once)) {
        usage();
    }
}

int main(int argc, char **argv)
{
    uint64_t start;
    double cpu;

    options(argc, argv);
    samples = calloc(MAX_SAMPLES, sizeof(samples[0]));
    connections = calloc((size_t) opt.connections, sizeof(*connections));
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (samples == NULL || connections == NULL || epoll_fd < 0) {
        die("load");
    }
    if (opt.pool != NULL) {
        pool_read();
    }
    for (int i = 0; i < opt.connections; i++) {
        open_connection(&connections[i]);
    }
    cpu = cpu_us();
    start = now_ns();
    end_ns =
        opt.seconds > 0 ? start + (uint64_t) (opt.seconds * 1e9) : UINT64_MAX;
    run();
    report((double) (now_ns() - start) / 1e9, cpu_us() - cpu);
    if (opt.chain && error[0] == '\0') {
        pool_write();
    }
    return error[0] != '\0';
}
