/*
 * account import
 *
 * Imports lines of JSON, several in a transaction.  An account is written
 * completely or not at all, so an existing account needs no change.
 */

#include "cmd/cmd.h"

#include "auth/password.h"
#include "cmd/cmd_out.h"
#include "cmd/cmd_problem.h"
#include "people/people_account.h"

#include <openssl/crypto.h>
#include <string.h>

#define LINE_BYTES (16 * 1024)
/* The cost depends on the length; this much takes less than the statement
 * timeout. */
#define BATCH_BYTES (32 * 1024)
#define BATCH_ROOM                                                             \
    (3 * LINE_BYTES) /* a line takes more than twice its length */

/* The state of the import, one per process. */
static struct {
    FILE *file;
    char io[LINE_BYTES];
    char line[LINE_BYTES +
              1]; /* one more byte to detect a line that is too long */
    size_t len;
    char hash[PASSWORD_STORED_MAX +
              1]; /* one more byte to detect a hash that is too long */
    char batch[BATCH_BYTES + BATCH_ROOM];
    struct buf out; /* writes to batch */
    struct jsonw json;
    int64_t number, added, unchanged, refused;
} state;

/* Returns false at the end of the file or after an error. */
static bool read_line(void)
{
    int ch;

    state.len = 0;
    state.number++;
    while ((ch = getc(state.file)) != EOF && ch != '\n') {
        if (state.len < sizeof(state.line)) {
            state.line[state.len++] = (char) ch;
        }
    }
    return !ferror(state.file) && (state.len > 0 || ch != EOF);
}

static const char *copy(char *out, size_t cap, pj_str_t text)
{
    (void) snprintf(out, cap, "%.*s", (int) text.len,
                    text.len > 0 ? (const char *) text.data : "");
    return out;
}

/* Adds a line to the batch after checking what the database cannot check:
 * syntax, the account's name, the hash.  Without a hash, the credential is
 * random. */
static bool add_line(struct cmd *c)
{
    const pj_json_t *root, *account, *given;
    const char *hash = password_nobody(), *wrong = NULL;
    struct people p = {.line = ""};
    struct stored stored;
    pj_arena_t arena;
    pj_err_t err;

    if (state.len > LINE_BYTES) {
        return cmd_fail(c, "it is over %d bytes", LINE_BYTES);
    }
    pj_arena_init(&arena, c->arena, sizeof(c->arena));
    err = pj_json_parse(
        &arena, (pj_str_t){(const unsigned char *) state.line, state.len},
        &root);
    if (err != PJ_OK) {
        return cmd_fail(c, "%s", pj_strerror(err));
    }
    account = pj_json_member(root, "account");
    given = pj_json_member(root, "hash");
    if (account == NULL || account->type != PJ_JSON_STRING) {
        return cmd_fail(c, "account is missing, or no string");
    }
    if (!cmd_fold(c, copy(c->secret, sizeof(c->secret), account->text))) {
        return false;
    }
    if (people_account_check_name(&p, c->secret) != PEOPLE_DONE) {
        return cmd_fail(c, "%s", p.line);
    }
    if (given != NULL && given->type != PJ_JSON_NULL) {
        hash = copy(state.hash, sizeof(state.hash), given->text);
        wrong = password_parse(hash, &stored);
    }
    if (wrong != NULL) {
        return cmd_fail(c, "the hash is refused: %s", wrong);
    }
    jsonw_object(&state.json, NULL);
    jsonw_int(&state.json, "n", state.number);
    jsonw_cstr(&state.json, "name", c->secret);
    jsonw_cstr(&state.json, "hash", hash);
    jsonw_string(&state.json, "line", state.line, state.len);
    jsonw_object_end(&state.json);
    return true;
}

/* -- a batch -- */

/* Adds the error in c->line to the batch, to be reported in order. */
static void add_error(struct cmd *c)
{
    jsonw_object(&state.json, NULL);
    jsonw_int(&state.json, "n", state.number);
    jsonw_cstr(&state.json, "why", c->line);
    jsonw_object_end(&state.json);
    c->line[0] = '\0';
    c->status = 0;
}

/* Counts the result of a line, or reports its refusal. */
static void report_line(struct cmd *c, const struct account_imported *line)
{
    struct people p = {.line = ""};
    enum people_outcome outcome = people_account_result(&p, line->result);
    char number[24];

    if (line->refused) {
        (void) cmd_fail_as(c, "REQUEST_INVALID", "%s", line->result);
    } else if (outcome == PEOPLE_DONE || outcome == PEOPLE_EXISTS) {
        state.added += outcome == PEOPLE_DONE;
        state.unchanged += outcome == PEOPLE_EXISTS;
        return;
    } else {
        (void) cmd_people(c, &p, outcome);
    }
    snprintf(number, sizeof(number), "%lld", (long long) line->number);
    cmd_problem_print(c, number);
    c->line[0] = '\0';
    c->status = 0;
    state.refused++;
}

/* Counts and reports the results of a committed batch. */
static void report_batch(struct cmd *c, const struct people_rows *rows)
{
    const struct account_imported *lines = rows->items;
    int64_t added = state.added;

    for (size_t i = 0; i < rows->count; i++) {
        report_line(c, &lines[i]);
    }
    if (state.added > added) {
        cmd_setn(c, "accounts", (state.added - added));
        cmd_out_audit(c, "accounts.imported", NULL);
    }
}

static enum people_outcome write_batch(struct people *p, void *rows)
{
    return people_account_import(p, state.batch, rows);
}

/* Writes the batch and starts another. */
static bool next_batch(struct cmd *c)
{
    unsigned char *free = c->results.pos;
    struct people_rows rows;

    jsonw_array_end(&state.json);
    buf_addc(&state.out, '\0');
    if (!cmd_transact(c, write_batch, &rows)) {
        return false;
    }
    report_batch(c, &rows);
    c->results.pos = free;
    buf_init(&state.out, state.batch, sizeof(state.batch));
    jsonw_init(&state.json, &state.out);
    jsonw_array(&state.json, NULL);
    return true;
}

/* -- the file -- */

static bool read_file(struct cmd *c)
{
    bool ok = true;

    while (ok && read_line()) {
        if (state.len > 0 && !add_line(c)) {
            add_error(c);
        }
        ok = state.out.len < BATCH_BYTES || next_batch(c);
    }
    return ok &&
           (!ferror(state.file) ||
            cmd_fail(c, "the file cannot be read: %m")) &&
           next_batch(c);
}

static bool open_file(struct cmd *c)
{
    const char *path = c->operand;

    state.file =
        path == NULL || strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (state.file == NULL) {
        return cmd_fail(c, "cannot read %s: %m", path);
    }
    (void) setvbuf(state.file, state.io, _IOFBF, sizeof(state.io));
    return cmd_hashing(c);
}

static bool import(struct cmd *c)
{
    bool ok;

    buf_init(&state.out, state.batch, sizeof(state.batch));
    jsonw_init(&state.json, &state.out);
    jsonw_array(&state.json, NULL);
    /* An empty batch tells whether the database is usable. */
    if (!cmd_connect(c) || !next_batch(c)) {
        return false;
    }
    ok = read_file(c);
    cmd_setn(c, "added", state.added);
    cmd_setn(c, "unchanged", state.unchanged);
    cmd_setn(c, "refused", state.refused);
    if (!ok) {
        /* Drops "; nothing was changed", which is true only for the last
         * batch. */
        (void) cmd_fail(c,
                        "%.*s; accounts added so far: %lld, run the same "
                        "command to go on",
                        (int) strcspn(c->line, ";"), c->line,
                        (long long) state.added);
    } else if (state.refused > 0) {
        (void) cmd_fail_as(c, "REQUEST_INVALID", "lines refused: %lld",
                           (long long) state.refused);
    }
    OPENSSL_cleanse(&state, sizeof(state));
    return ok; /* the counts are printed even if lines were refused */
}

/* clang-format off */
const struct cmd_spec cmd_imports[] = {
    {"account import", "[FILE]", "make accounts from a file of JSON lines",
     "A line is an object: account; type and hash, where there are any; and\n"
     "memberships, an array of {workspace, grants}, whose grants are an array\n"
     "of {branch, roles}.  Without a FILE, or with -, reads standard input.\n"
     "Accounts that are there already stay as they are, so the same file may\n"
     "be given again.  For each refused line its number and the reason go to\n"
     "standard error; the others are imported.\n",
     .check = open_file,
     .after = import,
     .columns = {"added", "unchanged", "refused"}},
    {.words = NULL},
};
/* clang-format on */
