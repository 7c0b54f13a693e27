/* The operator's commands: a row of a table, and the command that runs. */

#pragma once

#include "auth/keys.h"
#include "base/jsonw.h"
#include "base/parse.h"
#include "db/db_script.h"

#define CMD_FAILED 1 /* exit status: it was tried */
#define CMD_USAGE 2  /* exit status: wrong usage or settings */
#define CMD_LOST 3   /* exit status: done, and not recorded */

#define CMD_MAX_OPTIONS 7
#define CMD_MAX_COLUMNS 14
#define CMD_LIMIT 100     /* rows of a list where no --limit is given */
#define CMD_MAX_GIVEN 300 /* options in one command line */
#define CMD_MAX_BRANCHES 200
#define CMD_MAX_RESULTS (2 * CMD_MAX_BRANCHES + 8)
#define CMD_MAX_SET 20
#define CMD_SECRET_MAX (20 * 1024)

struct cmd;

#define CMD_TYPE                                                               \
    .accepted = "one of CUSTOMER, OPERATOR, SYSTEM",                           \
    .form = "CUSTOMER|OPERATOR|SYSTEM"
#define CMD_ALGORITHM                                                          \
    .accepted = "one of RS256, ES256, EdDSA", .form = "RS256|ES256|EdDSA"

/* -- rows: the last of a list has no words, or no name -- */

enum { CMD_NEEDED = 1, CMD_MANY = 2 }; /* MANY: may be given again */

struct cmd_option {
    const char *name;  /* without the dashes */
    const char *value; /* what it is called in the help; NULL: a flag */
    const char *help;
    unsigned flags;
    bool (*valid)(const char *value); /* or NULL */
    const char *accepted;             /* "--NAME is ACCEPTED" */
    const char *form;                 /* of parse_form(), or NULL */
    const char *within;               /* the range of a duration, or NULL */
};

struct cmd_spec {
    const char *words;   /* "account add" */
    const char *operand; /* "NAME", the value "name"; "[NAME]": not needed, and
                            no value; NULL: there is none */
    const char *purpose; /* one line */
    const char *more;    /* lines of help, or NULL */
    struct cmd_option options[CMD_MAX_OPTIONS + 1];

    /* What is done, in this order; any may be missing. */
    bool (*check)(struct cmd *c); /* settings, secrets */
    bool (*before)(
        struct cmd *c); /* prints first, in transactions of its own:
                           none is open while standard output waits */
    /* In one transaction: finds the account given and, with lock, the
     * workspace; where there is an event, it locks them too. */
    bool lock;
    bool (*find)(struct cmd *c); /* finds what else is needed */
    const char *parent;          /* SQL: locks the parent of a name */
    const char *status;          /* the new status, unless there is a "to": */
    const char *to;              /* the value that --to gives anew */
    const char *sql;             /* runs if that changes anything */
    bool (*work)(struct cmd *c);
    /* After it: */
    const char *event; /* an audit line, where c->changed */
    bool (*after)(struct cmd *c);
    bool (*print)(struct cmd *c); /* NULL: cmd_out_values() */
    /* Names of values (cmd_out.c knows more of some); "=" and another label
     * may follow, or none where it is for JSON only. */
    const char *columns[CMD_MAX_COLUMNS + 1];
    bool keyless; /* the account may be deleted, and cmd_keys() need
                     not find a signing key */
    bool list;    /* prints rows; in JSON an object on a line for each */
};

/* The rows of each file, without words behind the last one. */
extern const struct cmd_spec cmd_accounts[], cmd_imports[], cmd_places[],
    cmd_lookups[], cmd_services[], cmd_key_files[];

/* -- a command that runs: the only one of its process -- */

struct cmd {
    const struct cmd_spec *spec;
    const char *env_file; /* or NULL */
    bool help, json;
    struct {
        const struct cmd_option *option;
        const char *value;
    } given[CMD_MAX_GIVEN];
    size_t given_count;
    const char *operand;

    int status;     /* the exit status, */
    char line[512]; /* and why it is not 0 */
    bool audit_lost;

    bool loaded; /* cfg is filled */
    struct config cfg;
    struct keys *keys;
    char account[ACCOUNT_NAME_MAX + 1]; /* the one given, folded */
    char secret[CMD_SECRET_MAX + 1];
    size_t secret_len;

    struct db_script *db;
    size_t found;    /* rows of the last result */
    int64_t touched; /* rows that the last statement wrote */
    bool changed;    /* work made a change; true at first */
    struct db_rows *results[CMD_MAX_RESULTS];
    size_t result_count;
    size_t row; /* the one in hand of the last result */
    struct {
        const char *name, *text;
        char copy[80];
    } set[CMD_MAX_SET];
    size_t set_count;

    bool begun, out_failed; /* cmd_out.c's */
    struct jsonw w;
    struct buf out;
    char out_mem[128 * 1024];
    unsigned char arena[1024 * 1024]; /* for what is read of one token */
};

/* Ends the command with a line and an exit status; always false.  Whatever
 * returns a bool calls it before it returns false. */
bool cmd_ends(struct cmd *c, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define cmd_fail(c, ...) cmd_ends(c, CMD_FAILED, __VA_ARGS__)
#define cmd_misused(c, ...) cmd_ends(c, CMD_USAGE, __VA_ARGS__)

/* All values of an option that may be given again, into out[0..cap); how many
 * there are, which may be more than cap. */
size_t cmd_given(const struct cmd *c, const char *name, const char **out,
                 size_t cap);

/* Takes text as the name or id of an account, into c->secret. */
bool cmd_fold(struct cmd *c, const char *text);

/* Loads the settings and hides the secrets among them; cmd_keys() loads the
 * keys too, and a row that is not keyless needs one that signs. */
bool cmd_load(struct cmd *c);
bool cmd_keys(struct cmd *c);

/* Refuses "folded" where nobody could refer to an account by it. */
bool cmd_name_is_free(struct cmd *c);

/* Reads a line of at most cap bytes into c->secret, from standard input; from a
 * terminal without echo and, with again, twice (2 * cap bytes). */
bool cmd_read_secret(struct cmd *c, const char *what, size_t cap, bool again);

/* -- statements and values -- */

/* Fails since the database cannot be reached: why, and where settings are from
 * if none says as whom. */
bool cmd_no_database(struct cmd *c, const char *why);
bool cmd_connect(struct cmd *c);

/* Runs work in a transaction, again when a deadlock ended it: what a try has
 * found and set is forgotten then. */
bool cmd_transact(struct cmd *c, bool (*work)(struct cmd *c));
bool cmd_work(struct cmd *c); /* that of c->spec */

/* Runs a statement, in which :name is a parameter with the value of this name,
 * or null.  A row is referred to by its UUID or its name: :name.id is the value
 * if it has a UUID's form, else null, and :name.name the other way round.
 * :name.given is the option's value, even where a row has one of that name.
 * The rows stay, and the columns of the first are values from now on. */
bool cmd_sql(struct cmd *c, const char *sql);

/* What the name of a constraint or an SQLSTATE says; NULL: no more. */
const char *cmd_reason(const char *constraint, const char *state);

/* Frees all results but the first ones. */
void cmd_keep(struct cmd *c, size_t results);

/* Runs sql, which looks for ref by :ref.id and :ref.name; its first column is
 * the id.  Fails on several rows and, unless hint is NULL, on none, with hint
 * after the message where ref is a name. */
bool cmd_find(struct cmd *c, const char *what, const char *ref,
              const char *hint, const char *sql);

bool cmd_is_uuid(const char *text);

/* The newest value of this name: one that was set, of the rows ("" is null),
 * of an option ("t": a flag) or the operand; NULL where there is none. */
const char *cmd_get(const struct cmd *c, const char *name);
bool cmd_is(const struct cmd *c, const char *name, const char *text);
/* Sets a value: cmd_set() keeps the text itself, the others a copy. */
void cmd_set(struct cmd *c, const char *name, const char *text);
void cmd_setf(struct cmd *c, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define cmd_setn(c, name, n) cmd_setf(c, name, "%lld", (long long) (n))
