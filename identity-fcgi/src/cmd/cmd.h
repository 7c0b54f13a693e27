/* The operator's commands: their descriptions, and the state of the command
 * that is running. */

#pragma once

#include "auth/keys.h"
#include "base/fault.h"
#include "base/jsonw.h"
#include "base/parse.h"
#include "db/db_script.h"
#include "people/people.h"

#define CMD_FAILED 1 /* exit status: failed */
#define CMD_USAGE 2  /* exit status: wrong usage or settings */
#define CMD_LOST 3   /* exit status: done, but the audit line is lost */

#define CMD_MAX_OPTIONS 7
#define CMD_MAX_COLUMNS 15
#define CMD_LIMIT 100     /* default --limit of lists */
#define CMD_MAX_GIVEN 300 /* options in a command line */
#define CMD_MAX_BRANCHES 200
#define CMD_MAX_SET 20
#define CMD_SECRET_MAX (20 * 1024)

struct cmd;

#define CMD_TYPE                                                               \
    .accepted = "one of CUSTOMER, OPERATOR, SYSTEM",                           \
    .form = "CUSTOMER|OPERATOR|SYSTEM"
#define CMD_MAX_SCOPES 16 /* options in a command line */
#define CMD_SCOPE                                                              \
    .accepted = "one of people:read, people:write, places:read, "              \
                "places:write, credentials:write, operators:write, "           \
                "audit:read",                                                  \
    .form = "people:(read|write)|places:(read|write)|credentials:write|"       \
            "operators:write|audit:read"
#define CMD_ALGORITHM                                                          \
    .accepted = "one of RS256, ES256, EdDSA", .form = "RS256|ES256|EdDSA"

/* -- descriptions: tables end with a row whose words or name are NULL -- */

enum { CMD_NEEDED = 1, CMD_MANY = 2 }; /* CMD_MANY may be repeated */

struct cmd_option {
    const char *name;  /* without dashes */
    const char *value; /* name of the value in the help, NULL for a flag */
    const char *help;
    unsigned flags;
    bool (*valid)(const char *value); /* or NULL */
    const char *accepted;             /* for the error "--NAME is ACCEPTED" */
    const char *form;                 /* form for parse_form(), or NULL */
    const char *within;               /* range of a duration, or NULL */
};

/* A list in pages. */
struct cmd_pages {
    /* Reads a page after cursor, NULL for the first one. */
    enum people_outcome (*read)(const struct cmd *c, struct people *p,
                                const char *cursor, int64_t limit,
                                struct people_rows *page);
    const char *(*cursor)(struct people *p, const void *item);
    const struct people_member *members;
};

struct cmd_spec {
    const char *words;   /* for example "account add" */
    const char *operand; /* NULL, or for example "NAME", which sets the value
                            "name"; "[NAME]" is optional and sets no value.  In
                            the groups account and client it is an account */
    const char *purpose; /* one line */
    const char *more;    /* further lines of help, or NULL */
    struct cmd_option options[CMD_MAX_OPTIONS + 1];

    /* The steps in their order; each is optional. */
    bool (*check)(struct cmd *c);  /* settings, secrets */
    bool (*before)(struct cmd *c); /* prints in transactions of its own; none is
                                      open while writing to standard output */
    /* An operation of people/, in a transaction.  It sets c->members, c->item
     * and c->events, also if it fails. */
    enum people_outcome (*operate)(struct cmd *c, struct people *p);
    const char *status;            /* the new one */
    const struct cmd_pages *pages; /* a list, whose pages are read by people/ */
    /* After the transaction, and the audit lines of c->events: */
    bool (*after)(struct cmd *c);
    bool (*print)(struct cmd *c); /* cmd_out_values() if NULL */
    /* Names of values, described in cmd_out.c.  "name=label" replaces the
     * label; "name=" is for JSON only. */
    const char *columns[CMD_MAX_COLUMNS + 1];
    bool keyless; /* a signing key is optional */
    bool list;    /* prints rows; as JSON, an object per line */
    /* A part of a result, called words: as JSON, its columns instead of the
     * members of c->item. */
    bool part;
};

/* The tables of the files in cmd/. */
extern const struct cmd_spec cmd_accounts[], cmd_imports[], cmd_places[],
    cmd_lookups[], cmd_clients[], cmd_factors[], cmd_services[],
    cmd_key_files[];

/* -- the running command, one per process -- */

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

    int status;     /* exit status */
    char line[512]; /* error message if status is not 0 */
    /* The rest of the error, for --json. */
    const char *code;
    struct faults faults; /* strings are the caller's */
    char pointer[64];     /* of a fault */
    bool audit_lost;

    bool loaded; /* cfg is loaded */
    struct config cfg;
    struct keys *keys;
    char account[ACCOUNT_NAME_MAX + 1]; /* option or operand, normalised */
    char secret[CMD_SECRET_MAX + 1];
    size_t secret_len;

    struct db_script *db;
    pj_arena_t results; /* of operations */
    /* The result of an operation of people/, whose members are values; or NULL.
     */
    const struct people_member *members;
    const void *item;
    const char *events[4]; /* what operate changed; NULL after the last one */
    struct {
        const char *name, *text;
        char copy[80];
    } set[CMD_MAX_SET];
    size_t set_count;

    bool begun, out_failed; /* state of cmd_out.c */
    struct jsonw w;
    struct buf out;
    char out_mem[128 * 1024];
    unsigned char arena[1024 * 1024]; /* for parsing */
};

/* Sets the error message and exit status, and returns false.  A function that
 * returns false must have called it. */
bool cmd_ends(struct cmd *c, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define cmd_fail(c, ...) cmd_ends(c, CMD_FAILED, __VA_ARGS__)
#define cmd_misused(c, ...) cmd_ends(c, CMD_USAGE, __VA_ARGS__)
/* The same with another code than REQUEST_INVALID or COMMAND_FAILED. */
#define cmd_fail_as(c, what, ...)                                              \
    ((void) cmd_fail(c, __VA_ARGS__), (c)->code = (what), false)
#define cmd_fail_settings(c, ...)                                              \
    ((void) cmd_misused(c, __VA_ARGS__), (c)->code = "SETTINGS_INVALID", false)

/* Copies the values of a repeatable option to out[0..cap).  Returns their
 * number, which may exceed cap. */
size_t cmd_given(const struct cmd *c, const char *name, const char **out,
                 size_t cap);

/* Joins the values of a repeatable option in c->secret.  Refuses more than
 * most. */
bool cmd_join(struct cmd *c, const char *name, size_t most, char between);

/* Normalises the name or id of an account into c->secret. */
bool cmd_fold(struct cmd *c, const char *text);

/* cmd_load() loads the settings and hides secrets from other processes.
 * cmd_keys() also loads the keys; a command that is not keyless needs a signing
 * key. */
bool cmd_load(struct cmd *c);
bool cmd_keys(struct cmd *c);
/* Loads the settings and sets up hashing. */
bool cmd_hashing(struct cmd *c);

/* -- transactions and values -- */

/* Fails because the database cannot be reached.  Adds a hint if the settings
 * were probably forgotten. */
bool cmd_no_database(struct cmd *c, const char *why);
bool cmd_connect(struct cmd *c);

/* Runs an operation with its state in a transaction, and again after a
 * deadlock.  Its results stay in c->results. */
typedef enum people_outcome cmd_work_fn(struct people *p, void *state);
bool cmd_transact(struct cmd *c, cmd_work_fn *work, void *state);

/* The value of an option, even if c->item has a member of this name; or
 * NULL. */
const char *cmd_option(const struct cmd *c, const char *name);

/* Sets the result of operate, and its event, which may be NULL. */
void cmd_show(struct cmd *c, const struct people_member *members,
              const void *item, const char *event);

/* Returns true for PEOPLE_DONE; else fails with the refusal of p. */
bool cmd_people(struct cmd *c, const struct people *p,
                enum people_outcome outcome);

bool cmd_is_uuid(const char *text);
/* Returns true for a time in the format of results. */
bool cmd_is_time(const char *text);

/* Returns the value of this name: of a member of c->item ("" is null), a value
 * that was set, of an option ("t" for a flag), or the operand.  NULL if there
 * is none. */
const char *cmd_get(const struct cmd *c, const char *name);
/* Sets a value.  cmd_set() keeps the pointer, the others copy the text. */
void cmd_set(struct cmd *c, const char *name, const char *text);
void cmd_setf(struct cmd *c, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define cmd_setn(c, name, n) cmd_setf(c, name, "%lld", (long long) (n))
