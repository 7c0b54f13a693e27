/*
 * account import
 *
 * Lines of JSON, some in a transaction.  An account is written with all that
 * its line says or not at all, so one that is there needs nothing more.
 */

#include "cmd/cmd.h"

#include "auth/password.h"
#include "cmd/cmd_out.h"

#include <openssl/crypto.h>
#include <string.h>

#define LINE_BYTES (16 * 1024)
/* So many, whose cost goes by their length, take less than a statement may. */
#define BATCH_BYTES (32 * 1024)
#define BATCH_ROOM (3 * LINE_BYTES) /* a line takes twice its own and more */

/* Beside the command that runs, which is the only one too. */
static struct {
    FILE *file;
    char io[LINE_BYTES];
    char line[LINE_BYTES + 1]; /* one more tells that it is too long */
    size_t len;
    char hash[PASSWORD_STORED_MAX + 1]; /* likewise */
    char batch[BATCH_BYTES + BATCH_ROOM];
    struct buf out; /* over it */
    struct jsonw json;
    int64_t number, added, unchanged, refused;
} in;

/* False at the end of the file, or where it cannot be read. */
static bool read_line(void)
{
    int ch;

    in.len = 0;
    in.number++;
    while ((ch = getc(in.file)) != EOF && ch != '\n') {
        if (in.len < sizeof(in.line)) {
            in.line[in.len++] = (char) ch;
        }
    }
    return !ferror(in.file) && (in.len > 0 || ch != EOF);
}

static const char *copy(char *out, size_t cap, pj_str_t text)
{
    (void) snprintf(out, cap, "%.*s", (int) text.len,
                    text.len > 0 ? (const char *) text.data : "");
    return out;
}

/* Adds to the batch, after what the database cannot judge: the text, the
 * account's name, the hash.  Without one nobody can log in. */
static bool take_line(struct cmd *c)
{
    const pj_json_t *root, *account, *given;
    const char *hash = password_nobody(), *wrong = NULL;
    struct stored stored;
    pj_arena_t arena;
    pj_err_t err;

    if (in.len > LINE_BYTES) {
        return cmd_fail(c, "it is over %d bytes", LINE_BYTES);
    }
    pj_arena_init(&arena, c->arena, sizeof(c->arena));
    err = pj_json_parse(
        &arena, (pj_str_t){(const unsigned char *) in.line, in.len}, &root);
    if (err != PJ_OK) {
        return cmd_fail(c, "%s", pj_strerror(err));
    }
    account = pj_json_member(root, "account");
    given = pj_json_member(root, "hash");
    if (account == NULL || account->type != PJ_JSON_STRING) {
        return cmd_fail(c, "account is missing, or no string");
    }
    cmd_set(c, "folded", c->secret);
    if (!cmd_fold(c, copy(c->secret, sizeof(c->secret), account->text)) ||
        !cmd_name_is_free(c)) {
        return false;
    }
    if (given != NULL && given->type != PJ_JSON_NULL) {
        hash = copy(in.hash, sizeof(in.hash), given->text);
        wrong = password_parse(hash, &stored);
    }
    if (wrong != NULL) {
        return cmd_fail(c, "the hash is refused: %s", wrong);
    }
    jsonw_object(&in.json, NULL);
    jsonw_int(&in.json, "n", in.number);
    jsonw_cstr(&in.json, "name", c->secret);
    jsonw_cstr(&in.json, "hash", hash);
    jsonw_string(&in.json, "line", in.line, in.len);
    jsonw_object_end(&in.json);
    return true;
}

/* -- a batch -- */

/* Adds the reason that is in c->line: told with the others, in order. */
static void take_reason(struct cmd *c)
{
    jsonw_object(&in.json, NULL);
    jsonw_int(&in.json, "n", in.number);
    jsonw_cstr(&in.json, "why", c->line);
    jsonw_object_end(&in.json);
    c->line[0] = '\0';
    c->status = 0;
}

/* Counts what became of the lines, now that it is sure. */
static void tell(struct cmd *c)
{
    const char *outcome, *line;
    int64_t added = in.added;

    for (c->row = 0; c->row < c->found; c->row++) {
        if (cmd_is(c, "outcome", "made")) {
            in.added++;
        } else if (cmd_is(c, "outcome", "known")) {
            in.unchanged++;
        } else {
            outcome = cmd_get(c, "outcome");
            line = cmd_reason(outcome, "");
            (void) cmd_fail(c, "%s", line != NULL ? line : outcome);
            fprintf(stderr, "identity-fcgi: line %s: %s\n", cmd_get(c, "n"),
                    c->line);
            c->line[0] = '\0';
            c->status = 0;
            in.refused++;
        }
    }
    if (in.added > added) {
        cmd_setn(c, "accounts", (in.added - added));
        cmd_out_audit(c, "accounts.imported", NULL);
    }
}

/* Writes the batch, if there is one, and begins another. */
static bool next_batch(struct cmd *c)
{
    if (in.out.len > 1) {
        jsonw_array_end(&in.json);
        buf_addc(&in.out, '\0');
        cmd_set(c, "batch", in.batch);
        cmd_keep(c, 0);
        if (!cmd_transact(c, cmd_work)) {
            return false;
        }
        tell(c);
    }
    buf_init(&in.out, in.batch, sizeof(in.batch));
    jsonw_init(&in.json, &in.out);
    jsonw_array(&in.json, NULL);
    return true;
}

/* -- the file -- */

static bool read_file(struct cmd *c)
{
    bool ok = next_batch(c);

    while (ok && read_line()) {
        if (in.len > 0 && !take_line(c)) {
            take_reason(c);
        }
        ok = in.out.len < BATCH_BYTES || next_batch(c);
    }
    return ok &&
           (!ferror(in.file) || cmd_fail(c, "the file cannot be read: %m")) &&
           next_batch(c);
}

static bool open_file(struct cmd *c)
{
    const char *path = c->operand;

    in.file =
        path == NULL || strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (in.file == NULL) {
        return cmd_fail(c, "cannot read %s: %m", path);
    }
    (void) setvbuf(in.file, in.io, _IOFBF, sizeof(in.io));
    return cmd_load(c) &&
           (password_setup(&c->cfg) || cmd_fail(c, "cannot set up Argon2id"));
}

static bool import(struct cmd *c)
{
    bool ok = read_file(c);

    cmd_keep(c, 0);
    cmd_setn(c, "added", in.added);
    cmd_setn(c, "unchanged", in.unchanged);
    cmd_setn(c, "refused", in.refused);
    if (!ok) {
        /* Drops "; nothing was changed", true of the last transaction alone. */
        (void) cmd_fail(c,
                        "%.*s; accounts added so far: %lld, run the same "
                        "command to go on",
                        (int) strcspn(c->line, ";"), c->line,
                        (long long) in.added);
    } else if (in.refused > 0) {
        (void) cmd_fail(c, "lines refused: %lld", (long long) in.refused);
    }
    OPENSSL_cleanse(&in, sizeof(in));
    return ok; /* with lines refused the counts are still printed */
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
     /* At first without a batch: whether it can be run at all. */
     .sql = "SELECT l->>'n' AS n,"
            "       CASE WHEN l ? 'why' THEN l->>'why'"
            "       ELSE import_account(l->>'name', l->>'hash', l->>'line') END"
            "       AS outcome"
            "  FROM jsonb_array_elements(:batch::jsonb) AS b (l)",
     .after = import,
     .columns = {"added", "unchanged", "refused"}},
    {.words = NULL},
};
/* clang-format on */
