/* What a command reads and prints: secrets from a pipe or a prompt without
 * echo; error and audit lines; results as aligned lines or JSON. */

#include "cmd/cmd.h"

#include "base/log.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/ui.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LABEL_WIDTH 14

/* -- secrets -- */

/* From a terminal that does not echo, where again asks twice. */
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
        /* Whoever interrupts gets an interrupted program. */
        (void) raise(SIGINT);
    }
    if (result != 0) {
        return cmd_fail(c, "no %s: standard input cannot be read", what);
    }
    c->secret_len = strlen(c->secret);
    return !again || strcmp(c->secret, second) == 0 ||
           cmd_fail(c, "no %s: the two are not the same", what);
}

bool cmd_read_secret(struct cmd *c, const char *what, size_t cap, bool again)
{
    char *end;

    if (isatty(STDIN_FILENO)) {
        if (!ask(c, what, cap, again)) {
            return false;
        }
    } else {
        (void) setvbuf(stdin, NULL, _IONBF, 0); /* no other copy */
        c->secret_len = fread(c->secret, 1, cap + 1, stdin);
        if (ferror(stdin)) {
            return cmd_fail(c, "no %s: standard input cannot be read: %s",
                            what, strerror(errno));
        }
        if (c->secret_len > cap) {
            return cmd_fail(c, "no %s: standard input is over %zu bytes", what,
                            cap);
        }
    }
    end = c->secret + c->secret_len;
    if (end > c->secret && end[-1] == '\n') {
        end -= end - 1 > c->secret && end[-2] == '\r' ? 2 : 1;
    }
    c->secret_len = (size_t) (end - c->secret);
    if (c->secret_len == 0) {
        return cmd_fail(c, "no %s: nothing was given on standard input", what);
    }
    return memchr(c->secret, '\n', c->secret_len) == NULL ||
           cmd_fail(c, "no %s: standard input holds more than one line", what);
}

/* -- values, and audit lines of them -- */

static const struct cmd_column known[] = {
    {"account", "account", CMD_TEXT, 0, false},
    {"accountId", "account id", CMD_TEXT, 0, true},
    {"accountType", "type", CMD_TEXT, 0, false},
    {"type", "type", CMD_TEXT, 0, false},
    {"tenantName", "tenant", CMD_TEXT, 0, false},
    {"tenantId", "tenant id", CMD_TEXT, 0, false},
    {"workspaceName", "workspace", CMD_TEXT, 16, false},
    {"workspaceId", "workspace id", CMD_TEXT, 36, true},
    {"memberId", "member id", CMD_TEXT, 36, true},
    {"branchName", "branch", CMD_TEXT, 16, false},
    {"branchId", "branch id", CMD_TEXT, 36, true},
    {"granted", "granted", CMD_BOOL, 7, false},
    {"roles", "roles", CMD_LIST, 0, true},
    {"sessionId", "session", CMD_TEXT, 36, true},
    {"token", "token", CMD_TEXT, 0, false},
    {"tokenId", "token id", CMD_TEXT, 0, true},
    {"since", "since", CMD_TEXT, 0, true},
    {"status", "status", CMD_TEXT, 7, false},
    {"changed", "changed", CMD_BOOL, 0, false},
    {"createdAt", "created", CMD_TIME, 20, false},
    {"issuedAt", "issued", CMD_TIME, 20, false},
    {"expiresAt", "expires", CMD_TIME, 20, true},
    {"revokedAt", "revoked", CMD_TIME, 20, false},
    {"clearedAddresses", "unlocked from", CMD_NUMBER, 0, true},
    {"clearedAddressTotal", "address reset", CMD_BOOL, 0, false},
    {"accounts", "accounts", CMD_NUMBER, 0, true},
    {"revokedSessions", "ended sessions", CMD_NUMBER, 0, true},
    {"revokedBranches", "branches lost", CMD_NUMBER, 0, false},
    {"sessions", "sessions", CMD_NUMBER, 0, true},
    {"rotatedTokens", "rotated tokens", CMD_NUMBER, 0, true},
    {"attempts", "attempts", CMD_NUMBER, 0, true},
    {"busy", "busy", CMD_BOOL, 0, false},
    {"schemaVersion", "schema version", CMD_NUMBER, 0, false},
    {"verifies", "verifies", CMD_BOOL, 0, false},
    {"reason", "reason", CMD_TEXT, 0, false},
    {"signature", "signature", CMD_TEXT, 0, false},
};
enum { KNOWN = sizeof(known) / sizeof(known[0]) };

/* A field of text, left out where it is NULL. */
static struct log_field field(const char *name, const char *text)
{
    return (struct log_field){name, text, text != NULL ? strlen(text) : 0};
}

void cmd_audit(struct cmd *c, const char *event, const char *only)
{
    struct log_field fields[KNOWN + 2];
    struct log_number numbers[KNOWN];
    const struct passwd *user = getpwuid(getuid());
    size_t n = 0, count = 0;

    for (int i = 0; i < KNOWN; i++) {
        const char *value = cmd_get(c, known[i].name);

        if (value == NULL || !(only != NULL ? strcmp(only, known[i].name) == 0
                                            : known[i].audited)) {
            continue;
        }
        if (known[i].type == CMD_TEXT || known[i].type == CMD_LIST) {
            fields[n++] = field(known[i].name, value);
        } else {
            numbers[count++] =
                (struct log_number){known[i].name, strtoll(value, NULL, 10)};
        }
    }
    fields[n++] = field("operator", user != NULL ? user->pw_name : NULL);
    fields[n++] = field("sudoUser", getenv("SUDO_USER"));
    log_audit(event, NULL, fields, n, numbers, count);
    c->audit_lost = c->audit_lost || log_lost();
}

/* The column that *columns begins with, which is moved on. */
static bool next_column(const char **columns, struct cmd_column *out)
{
    static char label[16];
    size_t len = strcspn(*columns, " ="), i = 0;

    while (i < KNOWN && (strlen(known[i].name) != len ||
                         memcmp(known[i].name, *columns, len) != 0)) {
        i++;
    }
    if (i == KNOWN) {
        return false;
    }
    *out = known[i];
    *columns += len;
    if (**columns == '=') {
        len = strcspn(++*columns, " ");
        snprintf(label, sizeof(label), "%.*s", (int) len, *columns);
        out->label = len > 0 ? label : NULL;
        *columns += len;
    }
    *columns += strspn(*columns, " ");
    return true;
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
    const char *columns = c->spec->columns;
    struct cmd_column column;

    while (next_column(&columns, &column)) {
        const char *value = cmd_get(c, column.name);

        if (value != NULL) {
            cmd_value(c, &column, value);
        }
    }
    return true;
}

void cmd_row(struct cmd *c)
{
    const char *columns = c->begun || c->json ? "" : c->spec->columns;
    struct cmd_column head;

    while (next_column(&columns, &head)) {
        if (head.label != NULL) {
            add_plain(&c->out, head.label, head.width);
            buf_addz(&c->out, "  ");
        }
    }
    if (c->json) {
        jsonw_object(&c->w, NULL);
        (void) cmd_values(c);
        jsonw_object_end(&c->w);
    } else {
        if (!c->begun) {
            end_line(&c->out);
        }
        (void) cmd_values(c);
        end_line(&c->out);
    }
    c->begun = true;
    flush(c);
}
