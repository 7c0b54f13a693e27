/* What the operations share: refusals, statements, rows, cursors. */

#include "people/people.h"

#include "base/uuid.h"
#include "store/sql.h"
#include "store/store_transaction.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* -- refusals -- */

enum people_outcome people_refuse(struct people *p, enum people_outcome outcome,
                                  const char *field, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(p->line, sizeof(p->line), format, args);
    va_end(args);
    p->field = field;
    return outcome;
}

/* What a violated constraint means. */
static const struct {
    const char *constraint;
    enum people_outcome outcome;
    const char *field, *line;
} violations[] = {
    {"accounts_name", PEOPLE_EXISTS, "account",
     "an account of this name exists already"},
    {"accounts_name_normalised", PEOPLE_INVALID, "account",
     "the name of an account is 1 to 320 bytes without control characters"},
    {"accounts_type_known", PEOPLE_INVALID, "type",
     "the type of an account is CUSTOMER, OPERATOR or SYSTEM"},
    {"branches_name_plain", PEOPLE_INVALID, "branchName",
     "the name of a branch is 1 to 200 bytes without control characters"},
    {"branch_grants_pkey", PEOPLE_INVALID, "grants", "a branch is named twice"},
    {"branches_per_account", PEOPLE_LIMIT, "grants",
     "an account may be granted at most 1000 active branches in all"},
    {"branches_per_member", PEOPLE_LIMIT, "grants",
     "a member may be granted at most 200 active branches; revoke or "
     "deactivate some first"},
    {"clients_are_system", PEOPLE_CONFLICT, NULL,
     "this account is not a client: its type is not SYSTEM"},
    {"client_keys_pkey", PEOPLE_EXISTS, NULL,
     "the client has a key of this id already"},
    {"keys_per_client", PEOPLE_LIMIT, NULL,
     "a client has at most 4 keys; remove one first"},
    {"member_roles_code_plain", PEOPLE_INVALID, "roles",
     "a role is 1 to 32 of the characters A-Z a-z 0-9 _ . : -"},
    {"members_once", PEOPLE_INVALID, "memberships",
     "a workspace is named twice"},
    {"roles_per_grant", PEOPLE_LIMIT, "roles",
     "a member may hold at most 32 roles in a branch; revoke some first"},
    {"secrets_per_client", PEOPLE_LIMIT, NULL,
     "a client has at most 2 live secrets; remove one first"},
    {"tenants_name_plain", PEOPLE_INVALID, "newTenant",
     "the name of a tenant is 1 to 200 bytes without control characters"},
    {"workspaces_name_plain", PEOPLE_INVALID, "workspaceName",
     "the name of a workspace is 1 to 200 bytes without control characters"},
};

enum people_outcome people_violated(struct people *p, const char *constraint)
{
    for (size_t i = 0; i < sizeof(violations) / sizeof(violations[0]); i++) {
        if (strcmp(constraint, violations[i].constraint) == 0) {
            return people_refuse(p, violations[i].outcome, violations[i].field,
                                 "%s", violations[i].line);
        }
    }
    return PEOPLE_FAILED;
}

enum people_outcome people_may(struct people *p, const char *type)
{
    unsigned needed = strcmp(type, "CUSTOMER") == 0   ? PEOPLE_CUSTOMER
                      : strcmp(type, "OPERATOR") == 0 ? PEOPLE_OPERATOR
                                                      : PEOPLE_SYSTEM;

    if ((p->may & needed) != 0) {
        return PEOPLE_DONE;
    }
    return needed == PEOPLE_OPERATOR
               ? people_refuse(p, PEOPLE_NOT_ALLOWED, NULL,
                               "accounts of operators need operators:write")
               : people_refuse(p, PEOPLE_CONFLICT, NULL,
                               "this account is a client: only commands change "
                               "it");
}

/* -- statements -- */

enum people_outcome people_run(struct people *p, struct sql_query *q,
                               const struct db_statement *sql)
{
    const struct db_error *error = store_transaction_error(p->store);

    if (sql_run(q, p->store, sql, NULL)) {
        return PEOPLE_DONE;
    }
    if (sql_end(q) == STORE_NONE) { /* a malformed UUID */
        return people_refuse(p, PEOPLE_NOT_FOUND, NULL, "there is none");
    }
    return error != NULL ? people_violated(p, error->constraint)
                         : PEOPLE_FAILED;
}

enum people_outcome people_execute(struct people *p,
                                   const struct db_statement *sql,
                                   const struct db_value *values, size_t count,
                                   int64_t *affected)
{
    struct sql_query q = {0};
    enum people_outcome outcome;

    db_params_add(&q.p, values, count);
    outcome = people_run(p, &q, sql);
    if (outcome == PEOPLE_DONE) {
        if (affected != NULL) {
            *affected = (int64_t) db_affected(q.rows);
        }
        (void) sql_end(&q);
    }
    return outcome;
}

/* -- rows -- */

static bool copy_text(struct people *p, const struct db_rows *rows, size_t row,
                      int col, bool id, const char **out)
{
    char uuid[STORE_UUID];
    const char *text = uuid;

    *out = NULL;
    if (db_is_null(rows, row, col)) {
        return true;
    }
    if (id) {
        db_uuid(rows, row, col, uuid);
    } else {
        text = db_text(rows, row, col, NULL);
    }
    *out = sql_copy_string(p->arena, text);
    return *out != NULL;
}

bool people_copy(struct people *p, const struct db_rows *rows, size_t row,
                 const struct people_member *members, void *out)
{
    int col = 0;

    for (const struct people_member *m = members; m->name != NULL; m++) {
        void *field = (char *) out + m->offset;

        switch (m->type) {
        case PEOPLE_ROWS:
            continue; /* no column */
        case PEOPLE_NUMBER:
            *(int64_t *) field = db_int64(rows, row, col);
            break;
        case PEOPLE_BOOL:
            *(bool *) field = db_bool(rows, row, col);
            break;
        case PEOPLE_TIME:
            *(int64_t *) field =
                db_is_null(rows, row, col) ? 0 : db_time_us(rows, row, col);
            break;
        default:
            if (!copy_text(p, rows, row, col, m->type == PEOPLE_ID, field)) {
                return false;
            }
        }
        col++;
    }
    return true;
}

bool people_is_id(const char *ref)
{
    unsigned char bytes[UUID_BYTES];

    return uuid_parse(bytes, pj_str(ref));
}

static enum people_outcome refuse_ref(struct people *p, const char *what,
                                      const char *ref,
                                      const struct db_rows *rows)
{
    size_t count = db_row_count(rows);
    char one[STORE_UUID], two[STORE_UUID];

    if (count == 0) {
        return people_is_id(ref)
                   ? people_refuse(p, PEOPLE_NOT_FOUND, NULL,
                                   "there is no %s with the id %s", what, ref)
                   : people_refuse(p, PEOPLE_NOT_FOUND, NULL,
                                   "there is no %s called \"%s\"", what, ref);
    }
    db_uuid(rows, 0, 0, one);
    db_uuid(rows, 1, 0, two);
    return people_refuse(p, PEOPLE_INVALID, NULL,
                         "more than one %s is called \"%s\": give its id "
                         "instead (%s, %s%s)",
                         what, ref, one, two, count > 2 ? ", ..." : "");
}

enum people_outcome people_find(struct people *p,
                                const struct db_statement *sql,
                                const char *what, const char *ref,
                                const struct db_value *values, size_t count,
                                const struct people_member *members, void *out)
{
    bool id = people_is_id(ref);
    struct sql_query q = {0};
    enum people_outcome outcome;

    db_params(&q.p, db_id_or_null(id ? ref : NULL), db_any(id ? NULL : ref));
    db_params_add(&q.p, values, count);
    outcome = people_run(p, &q, sql);
    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    if (db_row_count(q.rows) != 1) {
        outcome = refuse_ref(p, what, ref, q.rows);
    } else if (!people_copy(p, q.rows, 0, members, out)) {
        outcome = PEOPLE_FAILED;
    }
    (void) sql_end(&q);
    return outcome;
}

enum people_outcome people_list(struct people *p, struct sql_query *q,
                                const struct db_statement *sql,
                                const struct people_member *members,
                                size_t size, int64_t limit,
                                struct people_rows *out)
{
    enum people_outcome outcome = people_run(p, q, sql);
    char *items;

    *out = (struct people_rows){.size = size};
    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    out->count = db_row_count(q->rows);
    out->more = out->count > (size_t) limit;
    out->count -= out->more;
    items = pj_arena_alloc(p->arena, (out->count + 1) * size);
    out->items = items;
    for (size_t i = 0; i < out->count && outcome == PEOPLE_DONE; i++) {
        if (items == NULL) {
            outcome = PEOPLE_FAILED;
            break;
        }
        memset(items + i * size, 0, size);
        if (!people_copy(p, q->rows, i, members, items + i * size)) {
            outcome = PEOPLE_FAILED;
        }
    }
    (void) sql_end(q);
    return outcome;
}

/* -- cursors -- */

/* Each part is followed by a NUL. */
const char *people_cursor(struct people *p, const char *const *parts,
                          size_t count)
{
    size_t len = 0, at = 0, written, cap;
    char *text, *out;

    for (size_t i = 0; i < count; i++) {
        len += strlen(parts[i]) + 1;
    }
    cap = pj_b64url_encoded_len(len) + 1;
    text = pj_arena_alloc(p->arena, len + 1);
    out = pj_arena_alloc(p->arena, cap);
    if (text == NULL || out == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(parts[i]) + 1;

        memcpy(text + at, parts[i], size);
        at += size;
    }
    if (pj_b64url_encode(out, cap, &written,
                         (pj_str_t){(const unsigned char *) text, len}) !=
        PJ_OK) {
        return NULL;
    }
    out[written] = '\0';
    return out;
}

static bool split(char *text, size_t len, size_t count, const char **parts)
{
    const char *end = text + len;

    for (size_t i = 0; i < count; i++) {
        parts[i] = text;
        text = memchr(text, '\0', (size_t) (end - text));
        if (text == NULL) {
            return false;
        }
        text++;
    }
    return text == end;
}

enum people_outcome people_cursor_read(struct people *p, const char *text,
                                       size_t count, const char **parts)
{
    size_t cap = strlen(text) + 1, len = 0;
    unsigned char *out = pj_arena_alloc(p->arena, cap);
    bool valid = true;

    if (out == NULL) {
        return PEOPLE_FAILED;
    }
    if (pj_b64url_decode(out, cap, &len, pj_str(text)) != PJ_OK ||
        !split((char *) out, len, count, parts)) {
        return people_refuse(p, PEOPLE_INVALID, "after",
                             "the cursor is not one of this list");
    }
    for (const unsigned char *u = out; valid && u < out + len;) {
        u += pj_utf8_next(u, out + len, &valid);
    }
    return valid ? PEOPLE_DONE
                 : people_refuse(p, PEOPLE_INVALID, "after",
                                 "the cursor is not one of this list");
}
