/*
 * account import
 *
 * Lines of JSON are checked one by one and written some at a time, by one
 * statement in a transaction of its own.  An account is written with all that
 * its line says or not at all, so one that is there needs nothing more.
 */

#include "cmd/cmd.h"

#include "auth/password.h"
#include "base/uuid.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>

#define LINE_BYTES (16 * 1024)
#define NAME_BYTES 200 /* of a workspace or branch */
#define BATCH_LINES 100
/* A line of control characters alone takes six times its length. */
#define BATCH_BYTES (512 * 1024)
#define BATCH_ROOM (7 * LINE_BYTES)

/* Beside the command that runs, which is the only one too. */
static struct {
    FILE *file;
    char io[LINE_BYTES];
    char line[LINE_BYTES + 1]; /* a byte more tells that it is too long */
    size_t len;
    int64_t number; /* of that line */

    char batch[BATCH_BYTES];
    struct buf out; /* over it */
    struct jsonw json;
    int64_t first; /* number of its first line */
    int lines;

    int64_t added, unchanged, refused;
} in;

/* -- a line of the file -- */

/* False after the last one. */
static bool read_line(void)
{
    int ch;

    in.len = 0;
    while ((ch = getc(in.file)) != EOF && ch != '\n') {
        if (in.len < sizeof(in.line)) {
            in.line[in.len++] = (char) ch;
        }
    }
    in.number++;
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

/* -- what it says, checked and written as the statement reads it -- */

/* A member that is misspelt would be lost silently. */
static bool has_only(struct cmd *c, const pj_json_t *value, const char *what,
                     const char *const names[])
{
    size_t known = 0;

    while (*names != NULL) {
        known += pj_json_member(value, *names++) != NULL;
    }
    return (value->type == PJ_JSON_OBJECT && value->count == known) ||
           cmd_fail(c, "%s is no object, or has other members than it may",
                    what);
}

static const pj_json_t *member(const pj_json_t *object, const char *name)
{
    const pj_json_t *value = pj_json_member(object, name);

    return value == NULL || value->type == PJ_JSON_NULL ? NULL : value;
}

static bool put_list(struct cmd *c, const pj_json_t *object, const char *name,
                     bool (*put)(struct cmd *c, const pj_json_t *value))
{
    const pj_json_t *list = member(object, name);

    if (list != NULL && list->type != PJ_JSON_ARRAY) {
        return cmd_fail(c, "%s is no array", name);
    }
    jsonw_array(&in.json, name);
    for (list = list != NULL ? list->child : NULL; list != NULL;
         list = list->next) {
        if (!put(c, list)) {
            return false;
        }
    }
    jsonw_array_end(&in.json);
    return true;
}

/* A name after "n", or an id after "i". */
static bool put_reference(struct cmd *c, const pj_json_t *object,
                          const char *name)
{
    const pj_json_t *value = member(object, name);
    unsigned char id[UUID_BYTES];
    char key[1 + NAME_BYTES] = "n";

    if (value == NULL || value->type != PJ_JSON_STRING ||
        value->text.len > NAME_BYTES) {
        return cmd_fail(c, "%s is missing, or neither a name nor an id", name);
    }
    memcpy(key + 1, value->text.data, value->text.len);
    if (uuid_parse(id, value->text)) {
        key[0] = 'i';
        uuid_write(key + 1, id);
    }
    jsonw_string(&in.json, name, key, 1 + value->text.len);
    return true;
}

static bool put_role(struct cmd *c, const pj_json_t *value)
{
    jsonw_string(&in.json, NULL, value->text.data, value->text.len);
    return value->type == PJ_JSON_STRING || cmd_fail(c, "a role is no string");
}

static bool put_grant(struct cmd *c, const pj_json_t *value)
{
    static const char *const names[] = {"branch", "roles", NULL};

    jsonw_object(&in.json, NULL);
    if (!has_only(c, value, "a grant", names) ||
        !put_reference(c, value, "branch") ||
        !put_list(c, value, "roles", put_role)) {
        return false;
    }
    jsonw_object_end(&in.json);
    return true;
}

static bool put_membership(struct cmd *c, const pj_json_t *value)
{
    static const char *const names[] = {"workspace", "grants", NULL};

    jsonw_object(&in.json, NULL);
    if (!has_only(c, value, "a membership", names) ||
        !put_reference(c, value, "workspace") ||
        !put_list(c, value, "grants", put_grant)) {
        return false;
    }
    jsonw_object_end(&in.json);
    return true;
}

/* Without a hash nobody can log in. */
static bool put_hash(struct cmd *c, const pj_json_t *value)
{
    const char *text = password_nobody(), *wrong;
    char given[PASSWORD_STORED_MAX] = "";
    struct stored stored;

    if (value != NULL) {
        if (value->type == PJ_JSON_STRING && value->text.len < sizeof(given)) {
            memcpy(given, value->text.data, value->text.len);
        }
        wrong = stored_parse(given, &stored);
        if (wrong != NULL) {
            return cmd_fail(c, "the hash is refused: %s", wrong);
        }
        text = given;
    }
    jsonw_cstr(&in.json, "hash", text);
    return true;
}

static bool put_account(struct cmd *c, const pj_json_t *value)
{
    static const char *const names[] = {"account", "type", "hash",
                                        "memberships", NULL};
    const pj_json_t *name = member(value, "account");
    const pj_json_t *type = member(value, "type");

    if (!has_only(c, value, "the line", names)) {
        return false;
    }
    if (name == NULL || name->type != PJ_JSON_STRING) {
        return cmd_fail(c, "account is missing, or no string");
    }
    if (!cmd_fold(c, name->text) || !cmd_name_is_free(c)) {
        return false;
    }
    if (type != NULL && type->type != PJ_JSON_STRING) {
        return cmd_fail(c, "type is no string");
    }
    jsonw_object(&in.json, NULL);
    jsonw_int(&in.json, "line", in.number);
    jsonw_cstr(&in.json, "account", c->account);
    if (type != NULL) {
        jsonw_string(&in.json, "type", type->text.data, type->text.len);
    }
    if (!put_hash(c, member(value, "hash")) ||
        !put_list(c, value, "memberships", put_membership)) {
        return false;
    }
    jsonw_object_end(&in.json);
    return true;
}

/* Adds the line to the batch, or nothing. */
static bool put_line(struct cmd *c)
{
    const struct buf out = in.out;
    const struct jsonw json = in.json;
    const pj_json_t *value;
    pj_arena_t arena;
    pj_err_t err;

    if (in.len > LINE_BYTES) {
        return cmd_fail(c, "it is over %d bytes", LINE_BYTES);
    }
    pj_arena_init(&arena, c->arena, sizeof(c->arena));
    err = pj_json_parse(
        &arena, (pj_str_t){(const unsigned char *) in.line, in.len}, &value);
    if (err != PJ_OK) {
        return cmd_fail(c, "%s", pj_strerror(err));
    }
    if (put_account(c, value)) {
        in.lines++;
        return true;
    }
    in.out = out;
    in.json = json;
    return false;
}

/* -- a batch -- */

/*
 * Of lines that name an account which is not there the first one makes it,
 * unless a workspace or branch is not to be found; why says so.  The order is
 * that of others who import, so that no two wait for each other.
 */
static const char sql[] =
    "WITH line AS MATERIALIZED ("
    " SELECT (l->>'line')::bigint AS n, l->>'account' AS name,"
    "        coalesce(l->>'type', 'CUSTOMER') AS type, l->>'hash' AS hash,"
    "        l->'memberships' AS memberships,"
    "        a.account_id IS NOT NULL AS known, gen_random_uuid() AS "
    "account_id"
    "   FROM jsonb_array_elements(:batch::jsonb) AS l"
    "   LEFT JOIN accounts a"
    "     ON a.account_name COLLATE \"C\" = l->>'account'"
    "  WHERE (l->>'line')::bigint BETWEEN :from::bigint AND :to::bigint"
    "), membership AS MATERIALIZED ("
    " SELECT n, m->>'workspace' AS place, m->'grants' AS grants,"
    "        array_agg(w.id) FILTER (WHERE w.id IS NOT NULL) AS ids,"
    "        gen_random_uuid() AS member_id"
    "   FROM line CROSS JOIN jsonb_array_elements(memberships)"
    "        WITH ORDINALITY AS e (m, o)"
    "   LEFT JOIN (SELECT 'n' || workspace_name, workspace_id FROM workspaces"
    "              UNION ALL"
    "              SELECT 'i' || workspace_id, workspace_id FROM workspaces"
    "             ) AS w (ref, id) ON w.ref COLLATE \"C\" = m->>'workspace'"
    "  WHERE NOT known GROUP BY n, o, m"
    "), granting AS MATERIALIZED ("
    " SELECT n, place, member_id, ids[1] AS workspace_id,"
    "        g->>'branch' AS branch, g->'roles' AS roles,"
    "        array_agg(b.id) FILTER (WHERE b.id IS NOT NULL) AS ids"
    "   FROM membership CROSS JOIN jsonb_array_elements(grants)"
    "        WITH ORDINALITY AS e (g, o)"
    "   LEFT JOIN (SELECT workspace_id, 'n' || branch_name, branch_id"
    "                FROM branches"
    "              UNION ALL"
    "              SELECT workspace_id, 'i' || branch_id, branch_id"
    "                FROM branches"
    "             ) AS b (space, ref, id)"
    "     ON b.space = ids[1] AND b.ref COLLATE \"C\" = g->>'branch'"
    "  WHERE cardinality(ids) = 1"
    "  GROUP BY n, place, member_id, ids[1], o, g"
    "), refused AS MATERIALIZED ("
    " SELECT n, min(CASE WHEN ids IS NULL THEN 'there is no '"
    "                    ELSE 'more than one ' END || what || ' called \"'"
    "               || substr(ref, 2) || '\"' || place) AS why"
    "   FROM (SELECT n, place, ids, 'workspace', '' FROM membership UNION ALL"
    "         SELECT n, branch, ids, 'branch',"
    "                ' in \"' || substr(place, 2) || '\"' FROM granting"
    "        ) AS r (n, ref, ids, what, place)"
    "  WHERE cardinality(ids) IS DISTINCT FROM 1 GROUP BY n"
    "), first AS MATERIALIZED ("
    " SELECT DISTINCT ON (name COLLATE \"C\") n, account_id, name, type,"
    "        hash FROM line LEFT JOIN refused USING (n)"
    "  WHERE NOT known AND why IS NULL ORDER BY name COLLATE \"C\", n"
    "), added AS ("
    " INSERT INTO accounts"
    "        (account_id, account_name, account_type, credential_hash)"
    " SELECT account_id, name, type, hash FROM first"
    "  ORDER BY name COLLATE \"C\""
    " ON CONFLICT DO NOTHING RETURNING account_id"
    "), made AS MATERIALIZED ("
    " SELECT n, account_id FROM first JOIN added USING (account_id)"
    "), member AS ("
    " INSERT INTO members (member_id, account_id, workspace_id)"
    " SELECT member_id, account_id, ids[1] FROM made JOIN membership USING (n)"
    "), branch AS ("
    " INSERT INTO branch_grants (member_id, branch_id, workspace_id)"
    " SELECT member_id, ids[1], workspace_id FROM made JOIN granting USING (n)"
    "), role AS ("
    " INSERT INTO member_roles (member_id, branch_id, role_code)"
    " SELECT member_id, ids[1], role FROM made JOIN granting USING (n)"
    "  CROSS JOIN jsonb_array_elements_text(roles) AS role"
    " ON CONFLICT DO NOTHING"
    ") SELECT n, why, made.n IS NOT NULL AS made FROM line"
    "    LEFT JOIN refused USING (n) LEFT JOIN made USING (n) ORDER BY n";

static bool write_rows(struct cmd *c)
{
    return cmd_sql(c, sql);
}

/* Counts what became of the lines, after the commit. */
static void tell(struct cmd *c)
{
    int64_t added = in.added;

    for (c->row = 0; c->row < c->found; c->row++) {
        if (cmd_get(c, "why")[0] != '\0') {
            (void) cmd_fail(c, "%s", cmd_get(c, "why"));
            refuse(c, strtoll(cmd_get(c, "n"), NULL, 10));
        } else if (cmd_is(c, "made", "t")) {
            in.added++;
        } else {
            in.unchanged++;
        }
    }
    if (in.added > added) {
        cmd_setf(c, "accounts", "%lld", (long long) (in.added - added));
        cmd_audit(c, "accounts.imported", NULL);
    }
}

/* Writes the lines of these numbers.  What the database refuses, or does not
 * finish in time, is halved until the line is alone. */
static bool write_range(struct cmd *c, int64_t from, int64_t to)
{
    const int64_t middle = from + (to - from) / 2;
    bool late;

    cmd_keep(c, 0);
    cmd_setf(c, "from", "%lld", (long long) from);
    cmd_setf(c, "to", "%lld", (long long) to);
    if (cmd_transact(c, write_rows)) {
        tell(c);
        return true;
    }
    late = strcmp(c->error.state, "57014") == 0;
    if ((strncmp(c->error.state, "22", 2) != 0 &&
         strncmp(c->error.state, "23", 2) != 0 && !late) ||
        (from == to && late)) {
        return false;
    }
    if (from == to) {
        refuse(c, from);
        return true;
    }
    return write_range(c, from, middle) && write_range(c, middle + 1, to);
}

static void begin_batch(void)
{
    buf_init(&in.out, in.batch, sizeof(in.batch));
    jsonw_init(&in.json, &in.out);
    jsonw_array(&in.json, NULL);
    in.lines = 0;
    in.first = in.number + 1;
}

static bool write_batch(struct cmd *c)
{
    bool ok = true;

    if (in.lines > 0) {
        jsonw_array_end(&in.json);
        buf_addc(&in.out, '\0');
        cmd_set(c, "batch", in.batch);
        ok = write_range(c, in.first, in.number);
    }
    begin_batch();
    return ok;
}

/* -- the file -- */

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

static bool read_file(struct cmd *c)
{
    begin_batch();
    while (read_line()) {
        if (in.len > 0 && !put_line(c)) {
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

static bool import(struct cmd *c)
{
    bool ok = read_file(c);

    cmd_keep(c, 0);
    cmd_setf(c, "added", "%lld", (long long) in.added);
    cmd_setf(c, "unchanged", "%lld", (long long) in.unchanged);
    cmd_setf(c, "refused", "%lld", (long long) in.refused);
    if (!ok) {
        (void) cmd_fail(c,
                        "%lld accounts were added so far, the same command "
                        "goes on: %s",
                        (long long) in.added, c->line);
    } else if (in.refused > 0) {
        (void) cmd_fail(c, "%lld lines were refused", (long long) in.refused);
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
