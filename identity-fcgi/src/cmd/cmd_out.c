/* What a command reads and prints: secrets from a pipe or a prompt without
 * echo; error and audit lines; results as aligned lines or JSON. */

#include "cmd/cmd.h"

#include "base/log.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define LABEL_WIDTH 14

/* -- secrets -- */

static volatile sig_atomic_t caught;

static void catch (int signal)
{
    caught = signal;
}

/* Reads to the end of the input, or of the line on a terminal, and takes one
 * line end away; another one in between is a mistake. */
static bool read_line(struct cmd *c, char *out, size_t cap, size_t *len,
                      bool terminal)
{
    ssize_t n;

    *len = 0;
    while ((n = read(STDIN_FILENO, out + *len, 1)) != 0) {
        if (n < 0 && errno == EINTR && caught == 0) {
            continue;
        }
        if (n < 0) {
            return cmd_fail(c, "standard input cannot be read: %s",
                            strerror(errno));
        }
        if (terminal && out[*len] == '\n') {
            break;
        }
        if (++*len > cap) {
            return cmd_fail(c, "standard input is over %zu bytes", cap);
        }
    }
    if (*len > 0 && out[*len - 1] == '\n') {
        (*len)--;
        *len -= *len > 0 && out[*len - 1] == '\r';
    }
    if (*len == 0) {
        return cmd_fail(c, "nothing was given on standard input");
    }
    return memchr(out, '\n', *len) == NULL ||
           cmd_fail(c, "standard input holds more than one line");
}

/* The same from a terminal that does not echo.  Whoever interrupts gets an
 * interrupted program, and a terminal as it was. */
static bool ask(struct cmd *c, const char *prompt, char *out, size_t cap,
                size_t *len)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    enum { COUNT = sizeof(signals) / sizeof(signals[0]) };
    struct sigaction action = {.sa_handler = catch}, before[COUNT];
    struct termios shown, quiet;
    bool ok;

    fprintf(stderr, "%c%s: ", toupper((unsigned char) *prompt), prompt + 1);
    if (tcgetattr(STDIN_FILENO, &shown) != 0) {
        return read_line(c, out, cap, len, true);
    }
    for (int i = 0; i < COUNT; i++) {
        (void) sigaction(signals[i], &action, &before[i]);
    }
    quiet = shown;
    quiet.c_lflag &= ~(tcflag_t) (ECHO | ECHOE | ECHOK | ECHONL);
    (void) tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
    ok = read_line(c, out, cap, len, true);
    (void) tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown);
    for (int i = 0; i < COUNT; i++) {
        (void) sigaction(signals[i], &before[i], NULL);
    }
    fputc('\n', stderr);
    if (caught != 0) {
        (void) raise(caught);
    }
    return ok;
}

/* Whether the same is given once more, after what is there. */
static bool ask_again(struct cmd *c, size_t cap)
{
    size_t len;

    return (ask(c, "once more", c->secret + cap + 1, cap, &len) &&
            len == c->secret_len &&
            memcmp(c->secret, c->secret + cap + 1, len) == 0) ||
           cmd_fail(c, "the two are not the same");
}

bool cmd_read_secret(struct cmd *c, const char *what, size_t cap, bool again)
{
    bool ok = isatty(STDIN_FILENO)
                  ? ask(c, what, c->secret, cap, &c->secret_len) &&
                        (!again || ask_again(c, cap))
                  : read_line(c, c->secret, cap, &c->secret_len, false);

    return ok || cmd_fail(c, "no %s: %s", what, c->line);
}

/* -- audit lines -- */

/* A field of text, left out where it is NULL. */
static struct log_field field(const char *name, const char *text)
{
    return (struct log_field){name, text, text != NULL ? strlen(text) : 0};
}

void cmd_audit(struct cmd *c, const char *event, const char *only)
{
    static const char *const names[] = {
        "accountId", "workspaceId",      "memberId", "branchId",
        "roles",     "sessionId",        "tokenId",  "since",
        "expiresAt", "clearedAddresses", "accounts", "revokedSessions",
        "sessions",  "rotatedTokens",    "attempts"};
    enum { TEXTS = 8, ALL = sizeof(names) / sizeof(names[0]) };
    struct log_field fields[TEXTS + 2];
    struct log_number numbers[ALL - TEXTS];
    const struct passwd *user = getpwuid(getuid());
    size_t n = 0, count = 0;

    if (only != NULL) {
        fields[n++] = field(only, cmd_get(c, only));
    }
    for (int i = 0; i < ALL && only == NULL; i++) {
        const char *value = cmd_get(c, names[i]);

        if (i < TEXTS) {
            fields[n++] = field(names[i], value);
        } else if (value != NULL) {
            numbers[count++] =
                (struct log_number){names[i], strtoll(value, NULL, 10)};
        }
    }
    fields[n++] = field("operator", user != NULL ? user->pw_name : NULL);
    fields[n++] = field("sudoUser", getenv("SUDO_USER"));
    log_audit(event, NULL, fields, n, numbers, count);
    c->audit_lost = c->audit_lost || log_lost();
}

/* -- results -- */

void cmd_open(struct cmd *c)
{
    buf_init(&c->out, c->out_mem, sizeof(c->out_mem));
    jsonw_init(&c->w, &c->out);
    if (c->json) {
        (c->spec->list ? jsonw_array : jsonw_object)(&c->w, NULL);
    }
}

/* Hands what is written over to standard output, and wipes it: a token may be
 * among it. */
static void flush(struct cmd *c)
{
    if (c->out.overflow ||
        fwrite(c->out.data, 1, c->out.len, stdout) != c->out.len) {
        c->out_failed = true;
    }
    buf_reset(&c->out);
}

bool cmd_close(struct cmd *c)
{
    if (c->json) {
        (c->spec->list ? jsonw_array_end : jsonw_object_end)(&c->w);
        buf_addc(&c->out, '\n');
    }
    flush(c);
    return (fflush(stdout) == 0 && !c->out_failed) ||
           cmd_fail(c, "standard output does not take the result");
}

/* Whatever a name holds, it does not steer a terminal; filled up with blanks
 * to so many characters. */
static void add_plain(struct buf *b, const char *s, int width)
{
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char) *s;
        bool c1 = c == 0xc2 && (unsigned char) s[1] >= 0x80 &&
                  (unsigned char) s[1] < 0xa0;

        buf_addc(b, c < 0x20 || c == 0x7f || c1 ? '?' : *s);
        s += c1;
        width -= (c & 0xc0) != 0x80;
    }
    while (width-- > 0) {
        buf_addc(b, ' ');
    }
}

static void end_line(struct buf *b)
{
    while (b->len > 0 && b->data[b->len - 1] == ' ') {
        b->len--;
    }
    buf_addc(b, '\n');
}

void cmd_line(struct cmd *c, const char *line)
{
    if (!c->json) {
        add_plain(&c->out, line, 0);
        buf_addc(&c->out, '\n');
    }
}

static void json_value(struct jsonw *w, const struct cmd_column *column,
                       const char *value)
{
    if (column->type == CMD_BOOL) {
        jsonw_bool(w, column->name, value[0] == 't');
    } else if (column->type == CMD_LIST) {
        jsonw_array(w, column->name);
        while (*value != '\0') {
            size_t len = strcspn(value, ",");

            jsonw_string(w, NULL, value, len);
            value += len + (value[len] == ',');
        }
        jsonw_array_end(w);
    } else if (value[0] == '\0') {
        jsonw_null(w, column->name);
    } else if (column->type == CMD_NUMBER) {
        jsonw_json(w, column->name, value, strlen(value));
    } else {
        jsonw_cstr(w, column->name, value);
    }
}

/* "" where there is none, or no year of four digits. */
static void write_time(const char *epoch_s, char out[], size_t cap)
{
    time_t t = (time_t) strtoll(epoch_s, NULL, 10);
    struct tm tm;

    if (t == 0 || gmtime_r(&t, &tm) == NULL ||
        strftime(out, cap, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0) {
        out[0] = '\0';
    }
}

void cmd_value(struct cmd *c, const struct cmd_column *column,
               const char *value)
{
    char time[sizeof("2026-11-21T10:15:00Z")];

    if (column->type == CMD_TIME) {
        write_time(value, time, sizeof(time));
        value = time;
    }
    if (c->json) {
        if (column->name != NULL) {
            json_value(&c->w, column, value);
        }
        return;
    }
    if (column->label == NULL) {
        return;
    }
    if (column->type == CMD_BOOL) {
        value = value[0] == 't' ? "yes" : "no";
    } else if (value[0] == '\0') {
        value = "-";
    }
    if (!c->spec->list) {
        add_plain(&c->out, column->label, LABEL_WIDTH);
        buf_addc(&c->out, ' ');
    }
    add_plain(&c->out, value, c->spec->list ? column->width : 0);
    buf_addz(&c->out, c->spec->list ? "  " : "\n");
}

bool cmd_values(struct cmd *c)
{
    const struct cmd_column *column = c->spec->columns;

    for (; column->name != NULL; column++) {
        const char *value = cmd_get(c, column->name);

        if (value != NULL) {
            cmd_value(c, column, value);
        }
    }
    return true;
}

void cmd_row(struct cmd *c)
{
    const struct cmd_column *head = c->spec->columns;

    if (c->json) {
        jsonw_object(&c->w, NULL);
        (void) cmd_values(c);
        jsonw_object_end(&c->w);
    } else {
        for (; !c->begun && head->name != NULL; head++) {
            if (head->label != NULL) {
                add_plain(&c->out, head->label, head->width);
                buf_addz(&c->out, "  ");
            }
        }
        if (!c->begun) {
            end_line(&c->out);
            c->begun = true;
        }
        (void) cmd_values(c);
        end_line(&c->out);
    }
    flush(c);
}
