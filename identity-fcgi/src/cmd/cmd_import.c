/*
 * account import
 *
 * Lines of JSON, some in a transaction.  An account is written with all that
 * its line says or not at all, so one that is there needs nothing more.
 */

#include "cmd/cmd.h"

#include "auth/password.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES (16 * 1024)
#define BATCH_LINES 100
#define BATCH_BYTES                                                           \
    (512 * 1024) /* a line takes twice its own and the rest                   \
                  */
#define BATCH_ROOM (3 * LINE_BYTES)

/* Beside the command that runs, which is the only one too. */
static struct {
    FILE *file;
    char io[LINE_BYTES];
    char line[LINE_BYTES + 1]; /* one more tells that it is too long */
    size_t len;
    char hash[PASSWORD_STORED_MAX];
    char batch[BATCH_BYTES];
    struct buf out; /* over it */
    struct jsonw json;
    int64_t numbers[BATCH_LINES];
    int lines;
    int64_t number, added, unchanged, refused;
} in;

/* False at the end of the file. */
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
    return in.len > 0 || ch != EOF;
}

/* Tells the reason that is in c->line, and goes on. */
static void refuse(struct cmd *c, int64_t number)
{
    fprintf(stderr, "identity-fcgi: line %lld: %s\n", (long long) number,
            c->line);
    c->line[0] = '\0';
    c->status = 0;
    in.refused++;
}

/* Without a hash nobody can log in. */
static bool take_hash(struct cmd *c, const pj_json_t *hash)
{
    struct stored stored;
    const char *wrong;

    (void) snprintf(in.hash, sizeof(in.hash), "%s", password_nobody());
    if (hash == NULL || hash->type == PJ_JSON_NULL) {
        return true;
    }
    (void) snprintf(in.hash, sizeof(in.hash), "%.*s",
                    hash->text.len < sizeof(in.hash) ? (int) hash->text.len
                                                     : 0,
                    hash->text.len > 0 ? (const char *) hash->text.data : "");
    wrong = stored_parse(in.hash, &stored);
    return wrong == NULL || cmd_fail(c, "the hash is refused: %s", wrong);
}

/* Adds to the batch, after what the database cannot judge: the text, the
 * account's name, the hash. */
static bool take_line(struct cmd *c)
{
    const pj_str_t text = {(const unsigned char *) in.line, in.len};
    const pj_json_t *root, *account;
    char *name;
    pj_arena_t arena;
    pj_err_t err;

    if (in.len > LINE_BYTES) {
        return cmd_fail(c, "it is over %d bytes", LINE_BYTES);
    }
    pj_arena_init(&arena, c->arena, sizeof(c->arena));
    err = pj_json_parse(&arena, text, &root);
    if (err != PJ_OK) {
        return cmd_fail(c, "%s", pj_strerror(err));
    }
    account = pj_json_member(root, "account");
    if (account == NULL || account->type != PJ_JSON_STRING) {
        return cmd_fail(c, "account is missing, or no string");
    }
    name = pj_arena_alloc(&arena, account->text.len + 1);
    if (name == NULL) {
        return cmd_fail(c, "it takes too much memory");
    }
    memcpy(name, account->text.data, account->text.len);
    name[account->text.len] = '\0';
    cmd_set(c, "folded", c->secret);
    if (!cmd_fold(c, name) || !cmd_name_is_free(c) ||
        !take_hash(c, pj_json_member(root, "hash"))) {
        return false;
    }
    jsonw_object(&in.json, NULL);
    jsonw_cstr(&in.json, "name", c->secret);
    jsonw_cstr(&in.json, "hash", in.hash);
    jsonw_string(&in.json, "line", in.line, in.len);
    jsonw_object_end(&in.json);
    in.numbers[in.lines++] = in.number;
    return true;
}

/* -- a batch -- */

static bool write_rows(struct cmd *c)
{
    return cmd_sql(c, "SELECT n, import_account(l->>'name', l->>'hash',"
                      "                         l->>'line') AS outcome"
                      "  FROM jsonb_array_elements(:batch::jsonb)"
                      "  WITH ORDINALITY AS b (l, n)"
                      " WHERE n BETWEEN :from::int AND :to::int");
}

/* Counts what became of the lines, now that it is sure. */
static void tell(struct cmd *c)
{
    int64_t added = in.added;

    for (c->row = 0; c->row < c->found; c->row++) {
        if (cmd_is(c, "outcome", "made")) {
            in.added++;
        } else if (cmd_is(c, "outcome", "known")) {
            in.unchanged++;
        } else {
            (void) cmd_fail(c, "%s", cmd_reason(cmd_get(c, "outcome")));
            refuse(c, in.numbers[strtol(cmd_get(c, "n"), NULL, 10) - 1]);
        }
    }
    if (in.added > added) {
        cmd_setf(c, "accounts", "%lld", (long long) (in.added - added));
        cmd_audit(c, "accounts.imported", NULL);
    }
}

/* Writes these of the batch; fewer at once, where the database does not finish
 * in time. */
static bool write_range(struct cmd *c, int from, int to)
{
    const int middle = from + (to - from) / 2;

    cmd_keep(c, 0);
    cmd_setf(c, "from", "%d", from);
    cmd_setf(c, "to", "%d", to);
    if (cmd_transact(c, write_rows)) {
        tell(c);
        return true;
    }
    return strcmp(c->error.state, "57014") == 0 && from < to &&
           write_range(c, from, middle) && write_range(c, middle + 1, to);
}

static void begin_batch(void)
{
    buf_init(&in.out, in.batch, sizeof(in.batch));
    jsonw_init(&in.json, &in.out);
    jsonw_array(&in.json, NULL);
    in.lines = 0;
}

static bool write_batch(struct cmd *c)
{
    bool ok = true;

    if (in.lines > 0) {
        jsonw_array_end(&in.json);
        buf_addc(&in.out, '\0');
        cmd_set(c, "batch", in.batch);
        ok = write_range(c, 1, in.lines);
    }
    begin_batch();
    return ok;
}

/* -- the file -- */

static bool read_file(struct cmd *c)
{
    begin_batch();
    while (read_line()) {
        if (in.len > 0 && !take_line(c)) {
            refuse(c, in.number);
        }
        if ((in.lines == BATCH_LINES ||
             in.out.len > sizeof(in.batch) - BATCH_ROOM) &&
            !write_batch(c)) {
            return false;
        }
    }
    return write_batch(c) &&
           (!ferror(in.file) ||
            cmd_fail(c, "the file cannot be read: %s", strerror(errno)));
}

static bool open_file(struct cmd *c)
{
    const char *path = c->operand;

    in.file =
        path == NULL || strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (in.file == NULL) {
        return cmd_fail(c, "cannot read %s: %s", path, strerror(errno));
    }
    (void) setvbuf(in.file, in.io, _IOFBF, sizeof(in.io));
    return cmd_connect(c) &&
           (password_setup(&c->cfg) || cmd_fail(c, "cannot set up Argon2id"));
}

static bool import(struct cmd *c)
{
    bool ok = read_file(c);

    cmd_keep(c, 0);
    cmd_setf(c, "added", "%lld", (long long) in.added);
    cmd_setf(c, "unchanged", "%lld", (long long) in.unchanged);
    cmd_setf(c, "refused", "%lld", (long long) in.refused);
    if (!ok) {
        (void) cmd_fail(c,
                        "accounts added so far: %lld; the same command "
                        "goes on: %s",
                        (long long) in.added, c->line);
    } else if (in.refused > 0) {
        (void) cmd_fail(c, "lines refused: %lld", (long long) in.refused);
    }
    OPENSSL_cleanse(&in, sizeof(in));
    return ok; /* what was refused is told with the rest */
}

/* clang-format off */
const struct cmd_spec cmd_imports[] = {
    {"account import", "[FILE]", "make accounts of a file of JSON lines",
     "A line is an object: account; type and hash, where there are any; and\n"
     "memberships, an array of {workspace, grants}, whose grants are an array\n"
     "of {branch, roles}.  Without a FILE, or with -, it is standard input.\n"
     "Accounts that are there already stay as they are, so the same file may\n"
     "be given again.  The number of a line that is refused and the reason go\n"
     "to standard error; the others are imported.\n",
     .check = open_file, .after = import,
     .columns = {"added", "unchanged", "refused"}},
    {.words = NULL},
};
/* clang-format on */
