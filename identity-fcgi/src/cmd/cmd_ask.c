/* Checks over HTTP whether gateways or key sets have a key. */

#include "cmd/cmd_ask.h"

#include "base/metrics.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_S 3
#define METRIC "\nplatform_gateway_key_set_"
#define ANSWER_MAX (4 * 1024 * 1024) /* metrics of some thousand routes */

/* Connects to the host and port of url, which end before url[*at].  Returns a
 * descriptor or -1. */
static int connect_to(const char *url, char host[256], int *at)
{
    const struct timeval limit = {TIMEOUT_S, 0};
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    char port[6] = "80";
    int fd = -1;

    if (sscanf(url, "http://[%255[^]]]%n", host, at) != 1) {
        (void) sscanf(url, "http://%255[^:/]%n", host, at);
    }
    (void) sscanf(url + *at, ":%5[0-9]", port);
    if (getaddrinfo(host, port, &hints, &list) != 0) {
        return -1;
    }
    for (struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next) {
        fd =
            socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        /* SO_SNDTIMEO limits connecting too. */
        (void) setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
        (void) setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
            (void) close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

/* Returns the answer to a GET, truncated if it is late or too large. */
static const char *get(const char *url)
{
    static char answer[ANSWER_MAX + 1];
    char host[256] = "";
    size_t len = 0;
    ssize_t n;
    int at = 0, fd = connect_to(url, host, &at);
    int64_t until_us = metrics_now_us() + TIMEOUT_S * 1000000;

    if (fd >= 0 && dprintf(fd, "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n",
                           strchr(url + at, '/'), host) > 0) {
        while (metrics_now_us() < until_us &&
               (n = recv(fd, answer + len, ANSWER_MAX - len, 0)) > 0) {
            len += (size_t) n;
        }
    }
    if (fd >= 0) {
        (void) close(fd);
    }
    answer[len] = '\0';
    return answer;
}

/* Returns the value of a metric, or -1. */
static double metric(const char *answer, const char *name)
{
    const char *line = strstr(answer, name);
    double value;
    char end;

    return line != NULL &&
                   sscanf(line + strlen(name), " %lf%c", &value, &end) == 2 &&
                   end == '\n'
               ? value
               : -1;
}

enum cmd_asked cmd_ask(const char *url, const char *kid, int64_t since,
                       size_t keys, struct error *why)
{
    const char *answer = get(url);
    double age = metric(answer, METRIC "age_seconds");
    char quoted[300];
    struct timespec now;
    int status = 0;
    bool has;

    (void) sscanf(answer, "HTTP/%*s %d", &status);
    (void) clock_gettime(CLOCK_REALTIME, &now);
    snprintf(quoted, sizeof(quoted), "\"%s\"", kid);
    has = age < 0
              ? strstr(answer, quoted) != NULL
              : metric(answer, METRIC "keys") >= (double) keys &&
                    (double) now.tv_sec + (double) now.tv_nsec / 1e9 - age >=
                        (double) since;
    error_write(why, "%s: %s", url,
                status == 0     ? "does not answer"
                : status != 200 ? "answers with a status other than 200"
                                : "does not have the new key yet");
    return status != 200 ? ASKED_FAILED : has ? ASKED_HAS : ASKED_MISSING;
}
