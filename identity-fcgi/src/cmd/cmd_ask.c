/* Asks gateways, and whoever else has a key set, for a key. */

#include "cmd/cmd.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_S 3
#define METRIC "platform_gateway_key_set_"
#define LINE_MAX_BYTES (128 * 1024) /* a key set is one line */
#define LINES_MAX 200000

/* Sends a GET; its answer, or NULL. */
static FILE *get(const char *url)
{
    const struct timeval limit = {TIMEOUT_S, 0};
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *all = NULL;
    char host[256] = "", port[6] = "80";
    FILE *in = NULL;
    int fd, at = 0;

    if (sscanf(url, "http://[%255[^]]]%n", host, &at) != 1) {
        (void) sscanf(url, "http://%255[^:/]%n", host, &at);
    }
    (void) sscanf(url + at, ":%5[0-9]", port);
    if (getaddrinfo(host, port, &hints, &all) != 0) {
        return NULL;
    }
    for (struct addrinfo *a = all; a != NULL && in == NULL; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC,
                    a->ai_protocol);
        if (fd < 0) {
            continue;
        }
        /* That of sending holds for connecting too. */
        (void) setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
        (void) setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        if (connect(fd, a->ai_addr, a->ai_addrlen) != 0 ||
            dprintf(fd, "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n",
                    strchr(url + at, '/'), host) < 0 ||
            (in = fdopen(fd, "r")) == NULL) {
            (void) close(fd);
        }
    }
    freeaddrinfo(all);
    return in;
}

bool cmd_ask(const char *url, const char *kid, int64_t since, size_t keys,
             char *why, size_t why_cap)
{
    static char line[LINE_MAX_BYTES];
    FILE *in = get(url);
    double have = -1, age = -1;
    char quoted[300];
    time_t until = time(NULL) + TIMEOUT_S;
    struct timespec now;
    bool has = false;
    int status = 0;

    snprintf(quoted, sizeof(quoted), "\"%s\"", kid);
    if (in != NULL && fgets(line, sizeof(line), in) != NULL) {
        (void) sscanf(line, "HTTP/%*s %d", &status);
    }
    for (int i = 0; status == 200 && i < LINES_MAX && time(NULL) <= until &&
                    fgets(line, sizeof(line), in) != NULL;
         i++) {
        (void) sscanf(line, METRIC "keys %lf", &have);
        (void) sscanf(line, METRIC "age_seconds %lf", &age);
        has = has || strstr(line, quoted) != NULL;
    }
    if (in != NULL) {
        (void) fclose(in);
    }
    (void) clock_gettime(CLOCK_REALTIME, &now);
    if (age >= 0) {
        has = have >= (double) keys &&
              (double) now.tv_sec + (double) now.tv_nsec / 1e9 - age >=
                  (double) since;
    }
    snprintf(why, why_cap,
             status == 0     ? "%s: does not answer"
             : status != 200 ? "%s: answers another status than 200"
                             : "%s: does not have the new key yet",
             url);
    return has;
}
