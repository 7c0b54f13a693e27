/*
 * Sends the requests of many clients, each at its own times.
 *
 *   herd PORT SECONDS PLAN
 *
 * Each line of the plan describes a group in fields separated by tabs: name,
 * number of clients, ms over which their first requests are spread, ms from an
 * answer to the next request (0: a client stops after a 200), file with one
 * word a client, request.  In the request @ stands for the client's word and |
 * for the end of a line.  A client has its own address, and a new connection
 * for each request.  After another status than 200 it repeats the request after
 * Retry-After or one second, plus up to a fifth of that.  A cursor in an answer
 * becomes the client's next word.
 *
 * Ends when all clients have stopped, after SECONDS, or at SIGTERM; then it
 * prints one line a group.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_US 20000000 /* longest wait for an answer */
#define HEAD_MAX 2048        /* kept bytes of an answer */
#define REQUEST_MAX 32768
#define MAX_SECONDS 3600
#define MAX_ANSWERS 4000000

struct group {
    char name[32], words[256], request[1024];
    unsigned clients, within_ms, every_ms;
    unsigned served, tries, most_tries, answers[6]; /* by status / 100 */
    unsigned *took_us, *waited_us;                  /* of each 200 */
    int64_t last_us;
};

struct client {
    struct group *group;
    struct client *next; /* due in the same ms */
    char *word, *head;
    size_t head_len;
    int64_t first_us, begun_us; /* 0 until it begins */
    unsigned number, tries;
    int fd;
    bool sent;
};

static struct client *due[MAX_SECONDS * 1000 + 1]; /* by ms since the start */
static struct client *clients;
static size_t client_count, unserved, seconds;
static struct group groups[8];
static struct sockaddr_in server = {.sin_family = AF_INET};
static int64_t start_us;
static int epoll;
static volatile sig_atomic_t told; /* SIGTERM came */

static void on_signal(int signo)
{
    told = signo;
}

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t) t.tv_sec * 1000000 + t.tv_nsec / 1000 - start_us;
}

static void come(struct client *c, int64_t at_us)
{
    size_t ms = (size_t) (at_us / 1000) + 1;

    if (ms < seconds * 1000) {
        c->next = due[ms];
        due[ms] = c;
    }
}

/* Tries again later if this process has no descriptor left. */
static void begin(struct client *c)
{
    struct sockaddr_in own = {.sin_family = AF_INET};
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET,
                            .data.ptr = c};

    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) {
        come(c, now_us() + 1000000);
        return;
    }
    own.sin_addr.s_addr = htonl(0x7f010000 + c->number);
    c->begun_us = now_us();
    c->first_us = c->tries++ == 0 ? c->begun_us : c->first_us;
    c->sent = false;
    c->head_len = 0;
    c->head = malloc(HEAD_MAX);
    if (c->head == NULL || bind(c->fd, (void *) &own, sizeof(own)) != 0 ||
        (connect(c->fd, (void *) &server, sizeof(server)) != 0 &&
         errno != EINPROGRESS) ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &e) != 0) {
        perror("herd");
        exit(1);
    }
}

static void put(struct client *c)
{
    static char text[REQUEST_MAX];
    size_t len = 0;

    for (const char *p = c->group->request; *p != '\0'; p++) {
        const char *part = *p == '@' ? c->word : *p == '|' ? "\r\n" : NULL;
        size_t n = part != NULL ? strlen(part) : 1;

        if (n > sizeof(text) - len) {
            break;
        }
        memcpy(text + len, part != NULL ? part : p, n);
        len += n;
    }
    c->sent = send(c->fd, text, len, MSG_NOSIGNAL) == (ssize_t) len;
}

/* Returns the number after a name in the answer, or 0 without that name. */
static int64_t number_of(const struct client *c, const char *name)
{
    const char *at = strstr(c->head, name);

    return at != NULL ? strtoll(at + strlen(name), NULL, 10) : 0;
}

static void follow(struct client *c)
{
    char *from = strstr(c->head, "\"cursor\":\""), *to;

    if (from != NULL && (to = strchr(from += 10, '"')) != NULL) {
        free(c->word);
        c->word = strndup(from, (size_t) (to - from));
    }
}

/* Counts an answer, or its absence. */
static void end(struct client *c)
{
    struct group *g = c->group;
    int64_t now = now_us(), wait_us, status;

    c->head[c->head_len] = '\0';
    status = number_of(c, "HTTP/1.1 ");
    wait_us = number_of(c, "\r\nRetry-After: ") * 1000000;
    follow(c);
    close(c->fd);
    free(c->head);
    g->tries++;
    g->answers[status < 600 ? status / 100 : 0]++;
    g->most_tries = c->tries > g->most_tries ? c->tries : g->most_tries;
    g->last_us = now;
    if (status == 200 && g->served < MAX_ANSWERS) {
        g->took_us[g->served] = (unsigned) (now - c->begun_us);
        g->waited_us[g->served++] = (unsigned) (now - c->first_us);
        unserved -= g->every_ms == 0;
    }
    if (status != 200) {
        wait_us = wait_us > 0 ? wait_us : 1000000;
        come(c, now + wait_us + random() % (wait_us / 5));
    } else if (g->every_ms != 0) {
        c->tries = 0;
        come(c, now + g->every_ms * 1000);
    }
    c->begun_us = 0;
}

static void take(struct client *c)
{
    char more[16384];
    ssize_t n;

    while ((n = recv(c->fd, more, sizeof(more), 0)) > 0) {
        size_t room = HEAD_MAX - 1 - c->head_len;
        size_t kept = (size_t) n < room ? (size_t) n : room;

        memcpy(c->head + c->head_len, more, kept);
        c->head_len += kept;
    }
    if (n == 0 || errno != EAGAIN) {
        end(c);
    }
}

static void run(void)
{
    static struct epoll_event e[1024];
    int64_t looked_us = 0;
    size_t ms = 0;

    while (unserved > 0 && told == 0 && ms < seconds * 1000) {
        int n = epoll_wait(epoll, e, 1024, 1);

        for (int i = 0; i < n; i++) {
            struct client *c = e[i].data.ptr;

            if (!c->sent && (e[i].events & EPOLLOUT) != 0) {
                put(c);
            }
            if ((e[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) {
                take(c);
            }
        }
        for (; ms < (size_t) now_us() / 1000 && ms < seconds * 1000; ms++) {
            for (struct client *c = due[ms], *next; c != NULL; c = next) {
                next = c->next;
                begin(c);
            }
        }
        for (size_t i = 0; now_us() > looked_us + 1000000 && i < client_count;
             i++) {
            if (clients[i].begun_us != 0 &&
                now_us() > clients[i].begun_us + PATIENCE_US) {
                end(&clients[i]);
            }
            looked_us = i + 1 == client_count ? now_us() : looked_us;
        }
    }
}

static int compare(const void *a, const void *b)
{
    unsigned x = *(const unsigned *) a, y = *(const unsigned *) b;

    return (x > y) - (x < y);
}

static void tell(struct group *g)
{
    unsigned n = g->served;

    qsort(g->took_us, n, sizeof(unsigned), compare);
    qsort(g->waited_us, n, sizeof(unsigned), compare);
    printf("HERD group=%s clients=%u served=%u tries=%u most_tries=%u "
           "last_us=%lld",
           g->name, g->clients, n, g->tries, g->most_tries,
           (long long) g->last_us);
    for (int i = 0; i < 6; i++) {
        printf(" %dxx=%u", i, g->answers[i]);
    }
    for (unsigned q = 50; n > 0 && q <= 100; q += q == 50 ? 49 : 1) {
        printf(" took_p%u_us=%u waited_p%u_us=%u", q,
               g->took_us[(n - 1) * (uint64_t) q / 100], q,
               g->waited_us[(n - 1) * (uint64_t) q / 100]);
    }
    puts("");
}

/* Makes a client for each line of the group's file, which may be too short. */
static bool add(struct group *g)
{
    FILE *f = fopen(g->words, "re");
    size_t n = g->every_ms == 0 ? g->clients : MAX_ANSWERS, cap;

    g->took_us = calloc(n, sizeof(unsigned));
    g->waited_us = calloc(n, sizeof(unsigned));
    clients = realloc(clients, (client_count + g->clients) * sizeof(*clients));
    if (f == NULL || g->took_us == NULL || g->waited_us == NULL ||
        clients == NULL) {
        return false;
    }
    for (unsigned i = 0; i < g->clients; i++) {
        struct client *c = &clients[client_count++];

        *c = (struct client){.group = g, .number = (unsigned) client_count};
        cap = 0;
        if (getline(&c->word, &cap, f) < 0) {
            return false;
        }
        c->word[strcspn(c->word, "\n")] = '\0';
    }
    unserved += g->every_ms == 0 ? g->clients : MAX_ANSWERS;
    return fclose(f) == 0;
}

int main(int argc, char **argv)
{
    struct rlimit files;
    size_t n = 0;
    struct group *g = groups;

    FILE *plan = argc == 4 ? fopen(argv[3], "re") : NULL;

    seconds = plan != NULL ? strtoul(argv[2], NULL, 10) : 0;
    while (n < 8 && seconds > 0 && seconds <= MAX_SECONDS &&
           fscanf(plan, " %31[^\t] %u %u %u %255[^\t] %1023[^\n]", g[n].name,
                  &g[n].clients, &g[n].within_ms, &g[n].every_ms, g[n].words,
                  g[n].request) == 6) {
        if (!add(&g[n++])) {
            perror(g[n - 1].words);
            return 1;
        }
    }
    if (n == 0) {
        fprintf(stderr, "usage: herd PORT SECONDS PLAN\n");
        return 2;
    }
    (void) signal(SIGTERM, on_signal);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){65536, 65536}) != 0) {
        setrlimit(RLIMIT_NOFILE, &files);
    }
    server.sin_port = htons((uint16_t) strtoul(argv[1], NULL, 10));
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    start_us = now_us();
    for (size_t i = 0; i < client_count; i++) {
        come(&clients[i], random() % (clients[i].group->within_ms * 1000 + 1));
    }
    run();
    for (size_t i = 0; i < n; i++) {
        tell(&g[i]);
    }
    return 0;
}
