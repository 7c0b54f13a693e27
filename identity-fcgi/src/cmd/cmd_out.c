/* The output of commands: results as aligned lines or JSON, and audit lines. */

#include "cmd/cmd_out.h"

#include "auth/system.h"
#include "base/log.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LABEL_WIDTH 14

/* -- values, and audit lines of them -- */

enum type {
    TEXT,
    NUMBER,
    BOOL, /* "t" is true; shown as "yes" or "no" */
    TIME, /* seconds since 1970; "0" is null too */
    LIST  /* joined by commas; elements contain none */
};

/* A value has a name for JSON and a label for people, which is the heading of a
 * list's column. */
struct column {
    const char *name;
    const char *label; /* NULL if only in JSON */
    enum type type;
    int width; /* in a list */
    bool audited;
};

static const struct column known[] = {
    {"accountId", "account id", TEXT, 36, true},
    {"type", "type", TEXT, 8, false},
    {"deletedAt", "deleted", TIME, 0, false},
    {"tenantName", "tenant", TEXT, 16, false},
    {"tenantId", "tenant id", TEXT, 0, false},
    {"accountType", "type", TEXT, 0, false},
    {"token", "token", TEXT, 0, false},
    {"signature", "signature", TEXT, 0, false},
    {"workspaceName", "workspace", TEXT, 16, false},
    {"workspaceId", "workspace id", TEXT, 36, true},
    {"memberId", "member id", TEXT, 36, true},
    {"branchName", "branch", TEXT, 16, false},
    {"branchId", "branch id", TEXT, 36, true},
    {"branches", "branches", NUMBER, 8, false},
    {"granted", "granted", BOOL, 7, false},
    {"address", "address", TEXT, 15, false},
    {"loginAddress", NULL, TEXT, 0, false},
    {"loginAgent", NULL, TEXT, 0, false},
    {"roles", "roles", LIST, 0, true},
    {"kid", "key id", TEXT, 43, true},
    {"state", "state", TEXT, 9, false},
    {"stateSince", "since", TIME, 20, false},
    {"step", "step", TEXT, 9, false},
    {"done", "done", BOOL, 4, false},
    {"dueAt", "due", TIME, 20, false},
    {"sessionId", "session", TEXT, 36, true},
    {"bound", "bound", BOOL, 5, false},
    {"tokenId", "token id", TEXT, 0, true},
    {"since", "since", TEXT, 0, true},
    {"status", "status", TEXT, 8, false},
    {"changed", "changed", BOOL, 0, false},
    {"updatedAt", "updated", TIME, 0, false},
    {"sessionsValidAfter", "locked out", TIME, 0, false},
    {"failures", "failures", NUMBER, 8, false},
    {"until", "counted until", TIME, 20, false},
    {"createdAt", "created", TIME, 20, false},
    {"issuedAt", "issued", TIME, 20, false},
    {"usedAt", "last used", TIME, 20, false},
    {"expiresAt", "expires", TIME, 20, true},
    {"revokedAt", "revoked", TIME, 20, false},
    {"hasCredential", "can log in", BOOL, 0, false},
    {"factorId", "factor", TEXT, 36, true},
    {"name", "name", TEXT, 16, false},
    {"factorRequired", "factor needed", BOOL, 0, true},
    {"removedFactors", "removed", NUMBER, 0, true},
    {"recoveryCodesLeft", "recovery codes", NUMBER, 0, false},
    {"key", "key", TEXT, 0, true},
    {"encrypted", "encrypted", NUMBER, 0, true},
    {"unreadable", "unreadable", NUMBER, 0, true},
    {"clearedAddresses", "unlocked from", NUMBER, 0, true},
    {"clearedAddressTotal", "address reset", BOOL, 0, false},
    {"accounts", "accounts", NUMBER, 0, true},
    {"added", "added", NUMBER, 0, false},
    {"unchanged", "there already", NUMBER, 0, false},
    {"refused", "refused", NUMBER, 0, false},
    {"revokedSessions", "ended sessions", NUMBER, 0, true},
    {"revokedBranches", "branches lost", NUMBER, 0, false},
    {"sessions", "sessions", NUMBER, 0, true},
    {"rotatedTokens", "rotated tokens", NUMBER, 0, true},
    {"attempts", "attempts", NUMBER, 0, true},
    {"revocations", "revocations", NUMBER, 0, true},
    {"busy", "busy", BOOL, 0, false},
    {"schemaVersion", "schema version", NUMBER, 0, false},
    {"verifies", "verifies", BOOL, 0, false},
    {"scopes", "scopes", LIST, 0, false},
    {"secretId", "secret id", TEXT, 36, true},
    {"secret", "secret", TEXT, 0, false},
    {"secrets", "secrets", NUMBER, 7, false},
    {"keys", "keys", NUMBER, 4, false},
    {"resetCode", "code", TEXT, 0, false},
    {"eventId", "event id", NUMBER, 0, false},
    {"time", "time", TIME, 20, false},
    {"event", "event", TEXT, 26, false},
    {"operator", "operator", TEXT, 16, false},
    {"byAccountId", "by account", TEXT, 36, false},
    {"byTokenId", "by token", TEXT, 36, false},
    {"requestId", "request", TEXT, 32, false},
};
enum { KNOWN = sizeof(known) / sizeof(known[0]) };

void cmd_out_audit(struct cmd *c, const char *event, const char *only)
{
    struct log_field fields[KNOWN + 2];
    const struct passwd *user = getpwuid(getuid());
    size_t n = 0;

    for (int i = 0; i < KNOWN; i++) {
        const char *value = cmd_get(c, known[i].name);

        if (value == NULL || !(only != NULL ? strcmp(only, known[i].name) == 0
                                            : known[i].audited)) {
            continue;
        }
        fields[n++] = known[i].type == TEXT || known[i].type == LIST
                          ? log_text(known[i].name, value)
                          : LOG_NUMBER(known[i].name, strtoll(value, NULL, 10));
    }
    fields[n++] = log_text("operator", user != NULL ? user->pw_name : NULL);
    fields[n++] = log_text("sudoUser", getenv("SUDO_USER"));
    log_event(LOG_AUDIT_, event, NULL, fields, n);
    c->audit_lost = c->audit_lost || log_lost();
}

static struct column column_of(const char *text)
{
    size_t len = strcspn(text, "=");
    struct column column = {text, text, TEXT, 0, false};

    for (int i = 0; i < KNOWN; i++) {
        if (strlen(known[i].name) == len &&
            memcmp(known[i].name, text, len) == 0) {
            column = known[i];
        }
    }
    if (text[len] == '=') {
        column.label = text[len + 1] != '\0' ? text + len + 1 : NULL;
    }
    return column;
}

/* -- results -- */

void cmd_out_open(struct cmd *c)
{
    buf_init(&c->out, c->out_mem, sizeof(c->out_mem));
    jsonw_init(&c->w, &c->out);
    if (c->json && !c->spec->list) {
        jsonw_object(&c->w, NULL);
    }
}

/* Writes to standard output and wipes the buffer, which may contain a token. */
static void flush(struct cmd *c)
{
    if (c->out.overflow ||
        fwrite(c->out.data, 1, c->out.len, stdout) != c->out.len) {
        c->out_failed = true;
    }
    buf_reset(&c->out);
}

bool cmd_out_close(struct cmd *c)
{
    if (c->json && c->w.depth > 0) {
        jsonw_object_end(&c->w);
        buf_addc(&c->out, '\n');
    }
    flush(c);
    return (fflush(stdout) == 0 && !c->out_failed) ||
           cmd_fail(c, "the result cannot be written to standard output");
}

/* Appends text, with characters that affect a terminal replaced, padded to
 * width. */
static void add_plain(struct buf *b, const char *s, int width)
{
    const unsigned char *u = (const unsigned char *) s, *end = u + strlen(s);

    for (; u < end; u++) {
        size_t len = pj_steers(u, end);

        buf_addc(b, len > 0 ? '?' : (char) *u);
        u += len > 0 ? len - 1 : 0;
        width -= (*u & 0xc0) != 0x80 || len > 0;
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

void cmd_out_line(struct cmd *c, const char *line)
{
    if (!c->json) {
        add_plain(&c->out, line, 0);
        buf_addc(&c->out, '\n');
    }
}

bool cmd_out_secret(struct cmd *c)
{
    cmd_out_line(c, c->secret);
    return true;
}

static void json_value(struct jsonw *w, const struct column *column,
                       const char *value)
{
    if (column->type == BOOL) {
        jsonw_bool(w, column->name, value[0] == 't');
    } else if (column->type == LIST) {
        jsonw_array(w, column->name);
        while (*value != '\0') {
            size_t len = strcspn(value, ",");

            jsonw_string(w, NULL, value, len);
            value += len + (value[len] == ',');
        }
        jsonw_array_end(w);
    } else if (value[0] == '\0') {
        jsonw_null(w, column->name);
    } else if (column->type == NUMBER) {
        jsonw_json(w, column->name, value, strlen(value));
    } else {
        jsonw_cstr(w, column->name, value);
    }
}

void cmd_out_time(const char *epoch_s, char out[], size_t cap)
{
    time_t t = (time_t) strtoll(epoch_s, NULL, 10);
    struct tm tm;

    if (t == 0 || gmtime_r(&t, &tm) == NULL ||
        strftime(out, cap, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0) {
        out[0] = '\0';
    }
}

/* Prints a value.  "" is null, shown as "-". */
static void print(struct cmd *c, const struct column *column, const char *value)
{
    char time[sizeof("2026-11-21T10:15:00Z")];

    if (column->type == TIME) {
        cmd_out_time(value, time, sizeof(time));
        value = time;
    }
    if (c->json) {
        json_value(&c->w, column, value);
    } else if (column->label != NULL) {
        if (!c->spec->list) {
            add_plain(&c->out, column->label, LABEL_WIDTH);
            buf_addc(&c->out, ' ');
        }
        if (column->type == BOOL) {
            value = value[0] == 't' ? "yes" : "no";
        }
        add_plain(&c->out, value[0] != '\0' ? value : "-",
                  c->spec->list ? column->width : 0);
        buf_addz(&c->out, c->spec->list ? "  " : "\n");
    }
}

void cmd_out_claim(struct cmd *c, const char *label, const char *value,
                   bool time)
{
    print(c, &(struct column){NULL, label, time ? TIME : TEXT, 0, false},
          value);
}

/* Prints the available values of the columns, or the headings of a list.  As
 * JSON, the members that the API answers with. */
static void print_columns(struct cmd *c, bool head)
{
    if (c->json && c->item != NULL && !c->spec->part) {
        system_members(&c->w, c->members, c->item);
        return;
    }
    for (const char *const *p = c->spec->columns; *p != NULL; p++) {
        struct column column = column_of(*p);
        const char *value = cmd_get(c, column.name);

        if (head && column.label != NULL) {
            add_plain(&c->out, column.label, column.width);
            buf_addz(&c->out, "  ");
        } else if (!head && value != NULL) {
            print(c, &column, value);
        }
    }
}

bool cmd_out_values(struct cmd *c)
{
    if (!c->json || c->w.depth > 0) { /* not closed yet */
        buf_addz(&c->out, c->begun && !c->json ? "\n" : "");
        print_columns(c, false);
    }
    return true;
}

void cmd_out_row(struct cmd *c)
{
    if (c->json) {
        jsonw_object(&c->w, NULL);
    } else if (!c->begun) {
        print_columns(c, true);
        end_line(&c->out);
    }
    c->begun = true;
    print_columns(c, false);
    if (!c->json) {
        end_line(&c->out);
    } else {
        jsonw_object_end(&c->w);
        if (c->w.depth == 0) {
            jsonw_init(&c->w, &c->out);
            buf_addc(&c->out, '\n');
        }
    }
    flush(c);
}

void cmd_out_rows(struct cmd *c, const struct people_member *members,
                  const struct people_rows *rows)
{
    c->members = members;
    for (size_t i = 0; i < rows->count; i++) {
        c->item = (const char *) rows->items + i * rows->size;
        cmd_out_row(c);
    }
    c->item = NULL;
}

void cmd_out_list(struct cmd *c, bool any)
{
    c->begun = false;
    if (c->spec->part && c->json) {
        jsonw_array(&c->w, c->spec->words);
    } else if (c->spec->part) {
        buf_addf(&c->out, "\n%s:%s", c->spec->words, any ? "\n" : " ");
    }
    if (!any) {
        cmd_out_line(c, "none");
    }
}

void cmd_out_part_end(struct cmd *c)
{
    if (c->json) {
        jsonw_array_end(&c->w);
    }
    c->begun = true; /* print an empty line before further values */
}

void cmd_out_part(struct cmd *c, const struct cmd_spec *part,
                  const struct people_member *list, const void *item)
{
    const struct people_rows *rows =
        (const void *) ((const char *) item + list->offset);
    const struct cmd_spec *saved = c->spec;

    c->spec = part;
    cmd_out_list(c, rows->count > 0);
    cmd_out_rows(c, list->of, rows);
    cmd_out_part_end(c);
    c->spec = saved;
}
