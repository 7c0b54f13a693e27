/* Asks gateways, and whoever else has a key set, for a key. */

#include "cmd/cmd_ask.h"

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

/* The host and port of url, which has the form ASK_URL, cut into out. */
static const char *cut(const char *url, char out[300], char **port)
{
    const char *host = url + strlen("http://");
    size_t len = strcspn(host, "/");
    char *colon;

    snprintf(out, 300, "%.*s", (int) (len < 299 ? len : 299), host);
    colon = strrchr(out, ':');
    *port = "80";
    if (colon != NULL && strchr(colon, ']') == NULL) {
        *colon = '\0';
        *port = colon + 1;
    }
    if (out[0] == '[') {
        out[strcspn(out, "]")] = '\0';
        memmove(out, out + 1, strlen(out));
    }
    return host + len;
}

/* Sends a GET; its answer, or NULL. */
static FILE *get(const char *url)
{
    const struct timeval limit = {TIMEOUT_S, 0};
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *all = NULL;
    char host[300], *port;
    const char *path = cut(url, host, &port);
    FILE *in = NULL;
    int fd = -1;

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
            dprintf(fd, "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n", path, host) <
                0 ||
            (in = fdopen(fd, "r")) == NULL) {
            (void) close(fd);
        }
    }
    freeaddrinfo(all);
    return in;
}

bool ask_for_key(const char *url, const struct ask *ask, char *why,
                 size_t why_cap)
{
    static char line[LINE_MAX_BYTES];
    FILE *in = get(url);
    double keys = -1, age = -1;
    char quoted[300];
    time_t until = time(NULL) + TIMEOUT_S;
    struct timespec now;
    bool has = false;
    int status = 0;

    snprintf(quoted, sizeof(quoted), "\"%s\"", ask->kid);
    if (in != NULL && fgets(line, sizeof(line), in) != NULL) {
        (void) sscanf(line, "HTTP/%*s %d", &status);
    }
    for (int i = 0; status == 200 && i < LINES_MAX && time(NULL) <= until &&
                    fgets(line, sizeof(line), in) != NULL;
         i++) {
        (void) sscanf(line, METRIC "keys %lf", &keys);
        (void) sscanf(line, METRIC "age_seconds %lf", &age);
        has = has || strstr(line, quoted) != NULL;
    }
    if (in != NULL) {
        (void) fclose(in);
    }
    (void) clock_gettime(CLOCK_REALTIME, &now);
    if (age >= 0) {
        has = keys >= (double) ask->keys &&
              (double) now.tv_sec + (double) now.tv_nsec / 1e9 - age >=
                  (double) ask->since;
    }
    snprintf(why, why_cap,
             status == 0     ? "%s: does not answer"
             : status != 200 ? "%s: answers another status than 200"
                             : "%s: does not have the new key yet",
             url);
    return has;
}
