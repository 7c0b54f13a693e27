/* Secrets from a pipe or a prompt. */

#include "cmd/cmd_secret.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/ui.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

/* Prompts on the terminal without echo, twice if again is set. */
static bool ask(struct cmd *c, const char *what, size_t cap, bool again)
{
    char prompt[32], *second = c->secret + cap + 1;
    UI *ui = UI_new();
    int result = -1;

    snprintf(prompt, sizeof(prompt), "%c%s: ", toupper((unsigned char) *what),
             what + 1);
    if (ui != NULL &&
        UI_add_input_string(ui, prompt, 0, c->secret, 0, (int) cap) >= 0 &&
        (!again || UI_add_input_string(ui, "Once more: ", 0, second, 0,
                                       (int) cap) >= 0)) {
        result = UI_process(ui);
    }
    UI_free(ui);
    if (result == -2) {
        /* Terminate by the signal, as shells expect. */
        (void) raise(SIGINT);
    }
    if (result != 0) {
        return cmd_fail(c, "no %s: standard input cannot be read", what);
    }
    c->secret_len = strlen(c->secret);
    return !again || strcmp(c->secret, second) == 0 ||
           cmd_fail_as(c, "REQUEST_INVALID", "no %s: the two entries differ",
                       what);
}

bool cmd_secret_read(struct cmd *c, const char *what, size_t cap, bool again)
{
    const char *in = c->secret;
    size_t len;

    if (isatty(STDIN_FILENO)) {
        /* Pasted lines are commands for the shell, not the secret. */
        if (poll(&(struct pollfd){STDIN_FILENO, POLLIN, 0}, 1, 0) > 0) {
            return cmd_fail_as(c, "REQUEST_INVALID",
                               "no %s: lines were pasted after the command; "
                               "give it alone, or pipe the %s in",
                               what, what);
        }
        (void) tcflush(STDIN_FILENO, TCIFLUSH); /* an incomplete line */
        if (!ask(c, what, cap, again)) {
            return false;
        }
    } else {
        (void) setvbuf(stdin, NULL, _IONBF, 0); /* stdio keeps no copy */
        c->secret_len = fread(c->secret, 1, cap + 1, stdin);
        if (ferror(stdin)) {
            return cmd_fail_as(c, "REQUEST_INVALID",
                               "no %s: standard input cannot be read: %s", what,
                               strerror(errno));
        }
    }
    len = c->secret_len;
    if (len > cap) {
        return cmd_fail_as(c, "REQUEST_INVALID",
                           "no %s: standard input is over %zu bytes", what,
                           cap);
    }
    if (len > 0 && in[len - 1] == '\n') {
        len -= len > 1 && in[len - 2] == '\r' ? 2 : 1;
    }
    c->secret_len = len;
    if (len == 0 || memchr(in, '\n', len) != NULL) {
        return cmd_fail_as(c, "REQUEST_INVALID", "no %s: %s", what,
                           len == 0
                               ? "nothing was given on standard input"
                               : "standard input holds more than one line");
    }
    return true;
}
