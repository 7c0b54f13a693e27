/* The operator's commands: their table, and what they share. */

#ifndef CMD_H_INCLUDED
#define CMD_H_INCLUDED

#include "auth/keys.h"
#include "base/buf.h"
#include "base/config.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "db/db.h"
#include "store/store.h"

#include <stdbool.h>
#include <stdio.h>

#define CMD_FAILED 1 /* exit status: it was tried */
#define CMD_USAGE 2  /* exit status: wrong usage or settings */
#define CMD_LOST 3   /* exit status: done, and not recorded */

#define CMD_MAX_OPTIONS 6
#define CMD_MAX_GIVEN 300 /* options with a value, in one command line */
#define CMD_MAX_BRANCHES 200
#define CMD_MAX_RESULTS (2 * CMD_MAX_BRANCHES + 8)
#define CMD_MAX_SET 10

/* -- for main.c -- */

/* Whether word begins a command of the table. */
bool cmd_is_known(const char *word);

/* Runs argv[0..argc), whose first word is known; env_file may be NULL.
 * Returns the exit status. */
int cmd_main(const char *env_file, int argc, char *const *argv);

/* "help" about argv[0..argc), likewise. */
int cmd_help(int argc, char *const *argv);

/* A line for each command. */
void cmd_list(FILE *out);

/* -- the table -- */

struct cmd; /* a command that runs */

enum { CMD_NEEDED = 1, CMD_MANY = 2 }; /* MANY: may be given again */

struct cmd_option {
    const char *name;  /* without the dashes */
    const char *value; /* what it is called in the help; NULL: a flag */
    const char *help;
    unsigned flags;
};

/* What a command is called, takes and does. */
struct cmd_spec {
    const char *words;   /* "account add" */
    const char *operand; /* "NAME"; NULL: there is none */
    const char *purpose; /* one line */
    const char *more;    /* lines of help, or NULL */
    int (*run)(struct cmd *c);
    struct cmd_option options[CMD_MAX_OPTIONS + 1]; /* and one without name */
    const char *event;                              /* of its audit line */
    const char *status; /* that it gives to a row */
};

/* Both up to one without words or a name. */
extern const struct cmd_spec cmd_specs[];
extern const struct cmd_option cmd_common_options[];

/* -- arguments -- */

struct cmd_args {
    const struct cmd_spec *spec;
    char err[256]; /* one line, where parsing failed */
    const char *operand;
    bool help;
    bool json;
    const char *env_file;
    struct {
        const struct cmd_option *option;
        const char *value; /* NULL for a flag */
    } given[CMD_MAX_GIVEN];
    size_t given_count;
};

/*
 * Parses argv[1..argc); argv[0] is the command's last word.  Options may stand
 * anywhere, as "--name value" or "--name=value"; "--" ends them.  False with
 * a line in out->err, which never repeats a value: it may be a secret in the
 * wrong place.  --help leaves everything else unchecked.
 */
bool cmd_args_parse(const struct cmd_spec *spec, int argc, char *const *argv,
                    struct cmd_args *out) __attribute__((warn_unused_result));

/* The value of an option, NULL where it was not given. */
const char *cmd_args_value(const struct cmd_args *args, const char *name);
bool cmd_args_flag(const struct cmd_args *args, const char *name);

/*
 * All values of an option that may be given again, into out[0..cap); returns
 * how many there are, which may be more than cap.
 */
size_t cmd_args_values(const struct cmd_args *args, const char *name,
                       const char **out, size_t cap);

/*
 * Reads one line from standard input into out[0..cap), without its line end;
 * *len is its length, no NUL is added.  Where standard input is a terminal,
 * prompt is shown on standard error and nothing is echoed; with again it has
 * to be typed twice.  False with one line in err; out is wiped then.
 */
bool cmd_read_secret(const char *prompt, const char *again, char *out,
                     size_t cap, size_t *len, char *err, size_t err_cap)
    __attribute__((warn_unused_result));

/* -- output: aligned lines for people, or JSON -- */

/* Values are text; "" is null, and "-" for people. */
enum out_type {
    OUT_TEXT,
    OUT_NUMBER,
    OUT_BOOL, /* "t" is true; "yes" and "no" for people */
    OUT_TIME, /* seconds of the epoch; "0" is null too */
    OUT_LIST  /* joined by commas, which no element has */
};

/* A value has a name in JSON and a label for people; either may be NULL, and
 * it is then left out there.  In a list the labels head the columns. */
struct out_column {
    const char *name;
    const char *label;
    enum out_type type;
    int width; /* of the column in a list */
};

/* One object, or a list of objects. */
struct out {
    bool json;
    bool list;
    bool begun;  /* a list's head was printed */
    bool failed; /* standard output took no more */
    struct jsonw w;
    struct buf text;
    struct buf head; /* labels of a list's columns */
    char *mem;
};

bool out_open(struct out *o, bool json, bool list);
/* Prints what is left; false when standard output did not take it all. */
bool out_close(struct out *o) __attribute__((warn_unused_result));

/* Around the values of one object of a list. */
void out_row(struct out *o);
void out_row_end(struct out *o);

void out_value(struct out *o, const struct out_column *column,
               const char *value);
void out_text(struct out *o, const char *name, const char *label,
              const char *value);
/* A value that is JSON already; not for people. */
void out_json(struct out *o, const char *name, const char *json, size_t len);
/* One line for people. */
void out_line(struct out *o, const char *line);

/* -- a command that runs -- */

struct cmd {
    const struct cmd_spec *spec;
    struct cmd_args args;
    bool loaded; /* cfg is filled */
    struct config cfg;
    struct keys *keys; /* once cmd_keys() succeeded */
    struct out out;
    int status; /* what it ends with, where something failed */
    char account[STORE_ACCOUNT_NAME_MAX + 1]; /* of cmd_account_ref() */

    /* The rest is cmd_sql.c's. */
    struct db_script *db;  /* once cmd_connect() succeeded */
    struct db_error error; /* of the statement that failed */
    char line[512];        /* why the transaction failed */
    size_t found;          /* rows that the last statement gave */
    int64_t touched;       /* rows that it wrote */
    struct db_rows *results[CMD_MAX_RESULTS];
    size_t result_count;
    size_t row; /* the one in hand of the last result */
    struct {
        const char *name;
        const char *text; /* NULL: a number */
        int64_t number;
        char digits[24];
    } set[CMD_MAX_SET];
    size_t set_count;
};

/* Each false below means that c->status is set and one line was printed. */

/* Prints "identity-fcgi: LINE" on standard error; returns status, which
 * c->status is then too. */
int cmd_fail(struct cmd *c, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Loads the settings and hides the secrets among them. */
bool cmd_load(struct cmd *c);
/* Loads settings and keys. */
bool cmd_keys(struct cmd *c);

/* Takes text as an account's name or id, folded into c->account. */
bool cmd_account_ref(struct cmd *c, const char *text);

/*
 * The audit line of a change that is committed: JSON on standard error,
 * whatever PLATFORM_LOG_LEVEL says, with who ran the command and the values of
 * these names, up to NULL.  Ids and numbers only.
 */
void cmd_audit(struct cmd *c, const char *event, ...)
    __attribute__((sentinel));

/* Opens and closes c->out; closing gives the exit status. */
bool cmd_out_open(struct cmd *c, bool list);
int cmd_out_close(struct cmd *c);

/* The values that there are of columns, up to one without a name: as members
 * of what is open, or as the whole result. */
void cmd_print_values(struct cmd *c, const struct out_column *columns);
int cmd_print(struct cmd *c, const struct out_column *columns);

/* -- statements (cmd_sql.c) -- */

/* Loads the settings, then connects: one connection for one command. */
bool cmd_connect(struct cmd *c);
void cmd_disconnect(struct cmd *c);

/*
 * Runs work in a transaction, again when a deadlock ended it: what a try has
 * found and set is forgotten then.  False, without a line, means that nothing
 * was changed, or that this is not known, as c->line says.
 */
bool cmd_transact(struct cmd *c, bool (*work)(struct cmd *c));
/* Connects, where that was not done, and likewise; prints the line. */
bool cmd_change(struct cmd *c, bool (*work)(struct cmd *c));

/*
 * Runs a statement with text parameters (NULL: null), whose types the server
 * infers.  Its rows stay, and the columns of the first are values from now on.
 */
bool cmd_query(struct cmd *c, const char *sql, const char *const *params,
               size_t count);
#define cmd_sql(c, sql, ...)                                                  \
    cmd_query(c, sql, (const char *const[]){__VA_ARGS__},                     \
              sizeof((const char *const[]){__VA_ARGS__}) /                    \
                  sizeof(const char *))

/* Frees the rows of the last statement. */
void cmd_drop(struct cmd *c);

/* Ends the transaction with this line; always false. */
bool cmd_refuse(struct cmd *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * A row is referred to by its UUID or its name: what has a UUID's form is one.
 * As two parameters, for "WHERE id = $1 OR name = $2".
 */
bool cmd_is_uuid(const char *text);
const char *cmd_ref_id(const char *ref);
const char *cmd_ref_name(const char *ref);
#define CMD_REF(ref) cmd_ref_id(ref), cmd_ref_name(ref)

/* Whether the last statement found one row, whose first column is an id;
 * refuses none and several ("there is no WHAT called REF"). */
bool cmd_one(struct cmd *c, const char *what, const char *ref);

/* The newest value of this name, of those set or else of the rows; NULL where
 * there is none or it is null. */
const char *cmd_get(const struct cmd *c, const char *name);
bool cmd_has(const struct cmd *c, const char *name, const char **value);
bool cmd_is(const struct cmd *c, const char *name, const char *text);
/* text is kept, not copied. */
void cmd_set_text(struct cmd *c, const char *name, const char *text);
void cmd_set_number(struct cmd *c, const char *name, int64_t number);
/* Whether a number was set by this name. */
bool cmd_number(const struct cmd *c, const char *name, int64_t *number);
/* Sets status to that of the spec, and changed: whether it was another one. */
bool cmd_new_status(struct cmd *c);

/* Finds and locks the account of c->account, or a workspace, so that changes
 * to it come one by one.  The account first, always: so no two commands wait
 * for each other. */
bool cmd_lock_account(struct cmd *c);
bool cmd_lock_workspace(struct cmd *c, const char *ref);

/* Ends every session that the locked account has had up to now; endsSessions
 * tells whether there are rows for cmd_sessions_end() to mark. */
bool cmd_lock_out(struct cmd *c);

/* The rest of what locked the account out: the audit line, where it changed
 * anything, and the rows of its sessions, which are over already and are
 * marked now, which may take its time.  Sets revokedSessions. */
bool cmd_locked_out(struct cmd *c, bool changed);

extern const struct out_column cmd_account_columns[];

/* -- the commands -- */

int cmd_account_add(struct cmd *c);
int cmd_account_status(struct cmd *c); /* disable, enable */
int cmd_account_set_credential(struct cmd *c);
int cmd_account_unlock(struct cmd *c);
int cmd_account_sessions(struct cmd *c);
int cmd_account_revoke_sessions(struct cmd *c);
int cmd_sessions_revoke(struct cmd *c);
int cmd_workspace_add(struct cmd *c);
int cmd_workspace_status(struct cmd *c); /* activate, deactivate */
int cmd_branch_add(struct cmd *c);
int cmd_branch_status(struct cmd *c); /* activate, deactivate */
int cmd_member_add(struct cmd *c);
int cmd_member_grant(struct cmd *c);
int cmd_member_revoke(struct cmd *c);
int cmd_token_system(struct cmd *c);
int cmd_token_inspect(struct cmd *c);
int cmd_keys_generate(struct cmd *c);
int cmd_migrate(struct cmd *c); /* seed too */
int cmd_sweep(struct cmd *c);

#endif
