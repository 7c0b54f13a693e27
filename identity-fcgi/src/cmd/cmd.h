/* The operator's commands: rows of tables, and what they share. */

#ifndef CMD_H_INCLUDED
#define CMD_H_INCLUDED

#include "auth/keys.h"
#include "base/buf.h"
#include "base/config.h"
#include "base/jsonw.h"
#include "db/db.h"
#include "store/store.h"

#define CMD_FAILED 1 /* exit status: it was tried */
#define CMD_USAGE 2  /* exit status: wrong usage or settings */
#define CMD_LOST 3   /* exit status: done, and not recorded */

#define CMD_MAX_OPTIONS 5
#define CMD_MAX_GIVEN 300 /* options in one command line */
#define CMD_MAX_BRANCHES 200
#define CMD_MAX_RESULTS (2 * CMD_MAX_BRANCHES + 8)
#define CMD_MAX_SET 12
#define CMD_SECRET_MAX (20 * 1024)
#define CMD_OUT_BYTES (128 * 1024)

struct cmd;

/* -- a row -- */

enum { CMD_NEEDED = 1, CMD_MANY = 2 }; /* MANY: may be given again */

struct cmd_option {
    const char *name;  /* without the dashes */
    const char *value; /* what it is called in the help; NULL: a flag */
    const char *help;
    unsigned flags;
};

enum out_type {
    OUT_TEXT,
    OUT_NUMBER,
    OUT_BOOL, /* "t" is true; "yes" and "no" for people */
    OUT_TIME, /* seconds of the epoch; "0" is null too */
    OUT_LIST  /* joined by commas, which no element has */
};

/* A value has a name in JSON and a label for people; where one is NULL it is
 * left out there.  In a list the labels head the columns. */
struct out_column {
    const char *name;
    const char *label;
    enum out_type type;
    int width; /* of the column in a list */
};

/*
 * What a command is called, takes and does.  A table ends with one that has no
 * words, a list of options or columns with one that has no name.
 */
struct cmd_spec {
    const char *words;   /* "account add" */
    const char *operand; /* "NAME", whose value is called "name"; or NULL */
    const char *purpose; /* one line */
    const char *more;    /* lines of help, or NULL */
    struct cmd_option options[CMD_MAX_OPTIONS + 1];

    /* What it does, in this order.  Any may be missing; false ends it, after
     * cmd_fail(), or in work after cmd_refuse(). */
    bool (*check)(struct cmd *c); /* usage, settings, secrets */
    bool (*work)(struct cmd *c);  /* one transaction */
    bool (*tell)(struct cmd *c);  /* instead of all the rest: */
    const char *event;            /* is audited, where c->changed */
    bool (*after)(struct cmd *c);
    const struct out_column *columns; /* are printed */

    const char *status; /* that it gives to a row */
};

/* The tables. */
extern const struct cmd_spec cmd_accounts[], cmd_sessions[], cmd_places[],
    cmd_services[];

extern const struct out_column cmd_account_columns[];
#define CMD_ACCOUNT_MORE "ACCOUNT is a name or an id.\n"

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

    bool loaded; /* cfg is filled */
    struct config cfg;
    struct keys *keys;                        /* once cmd_keys() succeeded */
    char account[STORE_ACCOUNT_NAME_MAX + 1]; /* of cmd_account_ref() */
    char secret[CMD_SECRET_MAX + 1];          /* wiped at the end */
    size_t secret_len;
    int status; /* what it ends with, where something failed */
    bool audit_lost;

    struct db_script *db;  /* once cmd_connect() succeeded */
    struct db_error error; /* of the statement that failed */
    char line[512];        /* of cmd_refuse() */
    size_t found;          /* rows that the last statement gave */
    int64_t touched;       /* rows that it wrote */
    bool changed;          /* work changed something; so it begins */
    struct db_rows *results[CMD_MAX_RESULTS];
    size_t result_count;
    size_t row; /* the one in hand of the last result */
    struct {
        const char *name;
        const char *text;
        char copy[80];
    } set[CMD_MAX_SET];
    size_t set_count;

    bool list, begun, out_failed; /* cmd_out.c's, as all that follows */
    struct jsonw w;
    struct buf out;
    char out_mem[CMD_OUT_BYTES];
};

/* -- running (cmd.c) -- */

/* Whether word begins a command of a table. */
bool cmd_is_known(const char *word);

/* Runs argv[0..argc), whose first word is known, for the exit status. */
bool cmd_main(struct cmd *c, int argc, char *const *argv);

/* "help" about argv[0..argc), likewise. */
bool cmd_help(struct cmd *c, int argc, char *const *argv);

/* A line for each command. */
void cmd_list(void);

/* Frees and wipes everything. */
void cmd_end(struct cmd *c);

/*
 * Parses argv[1..argc) for c->spec; argv[0] is the command's last word.
 * Options may stand anywhere, as "--name value" or "--name=value"; "--" ends
 * them.  False with a line in c->line, which never repeats a value: it may be
 * a secret in the wrong place.  --help leaves everything else unchecked.
 */
bool cmd_parse(struct cmd *c, int argc, char *const *argv)
    __attribute__((warn_unused_result));

/* All values of an option that may be given again, into out[0..cap); returns
 * how many there are, which may be more than cap. */
size_t cmd_given(const struct cmd *c, const char *name, const char **out,
                 size_t cap);

/* Each false below means that c->status is set and one line was printed. */

/* Loads the settings and hides the secrets among them. */
bool cmd_load(struct cmd *c);
/* Loads settings and keys; signing: one to sign with has to be there. */
bool cmd_keys(struct cmd *c, bool signing);
/* Migrates and, if asked to, seeds. */
bool cmd_migrate(struct cmd *c, bool seed);
/* Takes text as an account's name or id, folded into c->account; so is the
 * value "account" before check. */
bool cmd_account_ref(struct cmd *c, const char *text);

/* -- what goes in and out (cmd_out.c) -- */

/* Prints "identity-fcgi: LINE" on standard error; always false. */
bool cmd_fail(struct cmd *c, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Reads one line of at most cap bytes from standard input into c->secret.
 * Where that is a terminal, what is prompted for and not echoed; with again
 * it has to be typed twice (2 * cap bytes).
 */
bool cmd_read_secret(struct cmd *c, const char *what, size_t cap, bool again)
    __attribute__((warn_unused_result));

/*
 * The audit line of a change that is committed: JSON on standard error,
 * whatever PLATFORM_LOG_LEVEL says, with who ran the command and its ids and
 * numbers, or only this one.
 */
void cmd_audit(struct cmd *c, const char *event, const char *only);

/* What is printed is one object, or a list of rows. */
void cmd_open(struct cmd *c, bool list);
/* Prints what is left; false when standard output did not take it all. */
bool cmd_close(struct cmd *c) __attribute__((warn_unused_result));

/* Values are text; "" is null, and "-" for people. */
void cmd_value(struct cmd *c, const struct out_column *column,
               const char *value);
/* The values that there are of columns, within what is open; as one row of a
 * list; as the whole result. */
void cmd_values(struct cmd *c, const struct out_column *columns);
void cmd_row(struct cmd *c, const struct out_column *columns);
bool cmd_print(struct cmd *c, const struct out_column *columns);
/* One line for people. */
void cmd_line(struct cmd *c, const char *line);

/* -- statements and values (cmd_sql.c) -- */

/* Loads the settings, then connects: one connection for one command. */
bool cmd_connect(struct cmd *c);

/*
 * Runs work in a transaction, again when a deadlock ended it: the rows that a
 * try has found are forgotten then.  False, with c->line instead of a printed
 * one, means that nothing was changed, or that this is not known.
 */
bool cmd_transact(struct cmd *c, bool (*work)(struct cmd *c));
/* Connects, where that was not done, and likewise; prints the line. */
bool cmd_change(struct cmd *c, bool (*work)(struct cmd *c));

/*
 * Runs a statement, in which :name is a parameter with the value of this name,
 * or null; its type is what the server infers.  A row is referred to by its
 * UUID or its name, and what has a UUID's form is one: :name.id is such a
 * value, or null, and :name.name any other one.  The rows stay, and the
 * columns of the first are values from now on.
 */
bool cmd_sql(struct cmd *c, const char *sql);

/* Frees all rows. */
void cmd_drop(struct cmd *c);

/* Ends the transaction with this line; always false. */
bool cmd_refuse(struct cmd *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Runs sql, which looks for ref by :ref.id and :ref.name.  Refuses none, with
 * hint after it where that was a name (NULL: does not), and several; of those
 * the first column is the id.
 */
bool cmd_find(struct cmd *c, const char *what, const char *ref,
              const char *hint, const char *sql);

/* Finds and locks the account of c->account, or a workspace, so that changes
 * to it come one by one.  The account first, always: so no two commands wait
 * for each other. */
bool cmd_lock_account(struct cmd *c);
bool cmd_lock_workspace(struct cmd *c, const char *ref);

bool cmd_is_uuid(const char *text);

/* The newest value of this name: one that was set, of the rows ("" is null),
 * of an option ("t": a flag) or the operand; NULL where there is none. */
const char *cmd_get(const struct cmd *c, const char *name);
bool cmd_is(const struct cmd *c, const char *name, const char *text);
/* Sets a value: text is kept, not copied; a format's is. */
void cmd_set(struct cmd *c, const char *name, const char *text);
void cmd_setf(struct cmd *c, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Sets status to that of the spec, and changed: whether it was another one. */
bool cmd_new_status(struct cmd *c);

/* -- sessions (cmd_session.c) -- */

/* In work: ends every session that the locked account has had up to now. */
bool cmd_lock_out(struct cmd *c);

/* After it: marks the rows of those sessions, which are over already; that may
 * take its time.  Sets revokedSessions. */
bool cmd_locked_out(struct cmd *c);

#endif
