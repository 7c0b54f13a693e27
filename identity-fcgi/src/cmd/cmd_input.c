/* Secrets that a command is told: from a pipe, or a prompt without echo. */

#include "cmd/cmd.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static volatile sig_atomic_t caught;

static void catch (int signal)
{
    caught = signal;
}

enum { CATCH_COUNT = 4 };
static const int catching[CATCH_COUNT] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

/* A terminal whose echo is off, and how it was before. */
struct silence {
    bool on;
    struct termios before;
    struct sigaction actions[CATCH_COUNT];
};

static void silence_begin(struct silence *s)
{
    struct sigaction action = {.sa_handler = catch}; /* read() returns */
    struct termios quiet;

    s->on = tcgetattr(STDIN_FILENO, &s->before) == 0;
    if (!s->on) {
        return;
    }
    caught = 0;
    for (int i = 0; i < CATCH_COUNT; i++) {
        (void) sigaction(catching[i], &action, &s->actions[i]);
    }
    quiet = s->before;
    quiet.c_lflag &= ~(tcflag_t) (ECHO | ECHOE | ECHOK | ECHONL);
    (void) tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
}

/* Whoever interrupts gets an interrupted program, and a terminal as it was. */
static void silence_end(struct silence *s)
{
    if (!s->on) {
        return;
    }
    (void) tcsetattr(STDIN_FILENO, TCSAFLUSH, &s->before);
    for (int i = 0; i < CATCH_COUNT; i++) {
        (void) sigaction(catching[i], &s->actions[i], NULL);
    }
    fputc('\n', stderr);
    if (caught != 0) {
        (void) raise(caught);
    }
}

/* Reads to the end of the input, or of the line on a terminal. */
static bool read_all(char *out, size_t cap, size_t *len, bool terminal,
                     char *err, size_t err_cap)
{
    char c;

    *len = 0;
    for (;;) {
        ssize_t n = read(STDIN_FILENO, &c, 1);

        if (n < 0 && errno == EINTR && caught == 0) {
            continue;
        }
        if (n < 0) {
            snprintf(err, err_cap, "standard input cannot be read: %s",
                     strerror(errno));
            return false;
        }
        if (n == 0 || (terminal && c == '\n')) {
            return true;
        }
        if (*len == cap) {
            snprintf(err, err_cap, "standard input is over %zu bytes", cap);
            return false;
        }
        out[(*len)++] = c;
    }
}

/* One line end goes, and another one in between is a mistake. */
static bool trim(char *out, size_t *len, char *err, size_t err_cap)
{
    if (*len > 0 && out[*len - 1] == '\n') {
        (*len)--;
        if (*len > 0 && out[*len - 1] == '\r') {
            (*len)--;
        }
    }
    if (*len == 0) {
        snprintf(err, err_cap, "nothing was given on standard input");
        return false;
    }
    if (memchr(out, '\n', *len) != NULL) {
        snprintf(err, err_cap, "standard input holds more than one line");
        return false;
    }
    return true;
}

static bool ask(const char *prompt, char *out, size_t cap, size_t *len,
                char *err, size_t err_cap)
{
    struct silence silence;
    bool ok;

    fprintf(stderr, "%s: ", prompt);
    silence_begin(&silence);
    ok = read_all(out, cap, len, true, err, err_cap);
    silence_end(&silence);
    return ok && trim(out, len, err, err_cap);
}

static bool ask_again(const char *again, const char *first, size_t first_len,
                      char *err, size_t err_cap)
{
    char *second = malloc(first_len + 1);
    size_t len = 0;
    bool ok;

    if (second == NULL) {
        snprintf(err, err_cap, "out of memory");
        return false;
    }
    ok = ask(again, second, first_len + 1, &len, err, err_cap);
    if (!ok || len != first_len || memcmp(first, second, len) != 0) {
        snprintf(err, err_cap, "the two are not the same");
        ok = false;
    }
    OPENSSL_cleanse(second, first_len + 1);
    free(second);
    return ok;
}

bool cmd_read_secret(const char *prompt, const char *again, char *out,
                     size_t cap, size_t *len, char *err, size_t err_cap)
{
    bool ok;

    if (isatty(STDIN_FILENO)) {
        ok = ask(prompt, out, cap, len, err, err_cap) &&
             (again == NULL || ask_again(again, out, *len, err, err_cap));
    } else {
        ok = read_all(out, cap, len, false, err, err_cap) &&
             trim(out, len, err, err_cap);
    }
    if (!ok) {
        OPENSSL_cleanse(out, cap);
    }
    return ok;
}
