/* The operator's commands: what their files have of each other. */

#ifndef CMD_H_INCLUDED
#define CMD_H_INCLUDED

#include "cmd/cmd_base.h"
#include "db/db.h"
#include "store/store.h"

extern const struct cmd_spec cmd_accounts[], cmd_imports[], cmd_places[],
    cmd_lookups[], cmd_services[], cmd_key_files[];

/* -- running (cmd.c) -- */

/* Whether word begins a command of a table. */
bool cmd_is_known(const char *word);

/* Runs argv[0..argc), whose first word is known, or with c->help helps. */
bool cmd_main(struct cmd *c, int argc, char *const *argv);

/* A line for each command of a group, or (NULL) of all. */
void cmd_list(const char *group);

/* Frees and wipes everything; the exit status, after a line that says why. */
int cmd_end(struct cmd *c);

/*
 * Parses argv[1..argc) for c->spec; argv[0] is the command's last word.
 * Options may stand anywhere, as "--name value" or "--name=value"; "--" ends
 * them.  No value is ever repeated in an error: it may be a secret in the
 * wrong place.  --help leaves everything else unchecked.
 */
bool cmd_parse(struct cmd *c, int argc, char *const *argv);

/* Prints all that is held about the account (cmd_lookup.c). */
bool cmd_person(struct cmd *c);

/* Sets what the account's failed logins are counted under: "hmac" and, of
 * --address, "prefix" (cmd_lookup.c). */
bool cmd_attempts(struct cmd *c);

/* Refuses "folded" where nobody could refer to an account by it. */
bool cmd_name_is_free(struct cmd *c);

bool cmd_migrate(struct cmd *c, bool seed);

/* -- what goes in and out (cmd_out.c) -- */

/* Reads one line of at most cap bytes into c->secret, from standard input or,
 * where that is a terminal, without echo; again: typed twice (2 * cap bytes).
 */
bool cmd_read_secret(struct cmd *c, const char *what, size_t cap, bool again);

/* The audit line of a change that is committed, whatever PLATFORM_LOG_LEVEL
 * says: who ran the command, its ids and numbers, or only this one. */
void cmd_audit(struct cmd *c, const char *event, const char *only);

/* cmd_open() and cmd_close() go around the result: the values that there are
 * of spec->columns, or rows of them; a value of no column; or lines for
 * people. */
void cmd_open(struct cmd *c);
bool cmd_values(struct cmd *c);
void cmd_row(struct cmd *c);
bool cmd_rows(struct cmd *c); /* all of the last result */
/* Runs the statement of a list and prints its rows under its words, as a part
 * of one object. */
bool cmd_part(struct cmd *c, const struct cmd_spec *part);
void cmd_claim(struct cmd *c, const char *label, const char *value, bool time);
void cmd_line(struct cmd *c, const char *line);
/* "" where there is none, or no year of four digits. */
void cmd_time(const char *epoch_s, char out[], size_t cap);
bool cmd_close(struct cmd *c);

/* -- asking gateways, and whoever else has a key set (cmd_ask.c) -- */

#define CMD_ASK_URL                                                           \
    "http://(\\[[0-9A-Fa-f:.]+\\]|[-._0-9A-Za-z]+)(:[0-9]{1,5})?/[!-~]*"

enum cmd_asked { ASKED_HAS, ASKED_LACKS, ASKED_FAILED };

/*
 * Whether the metrics of a gateway at url, of that form, tell of a key set of
 * at least so many keys that was fetched at since or later, or a key set there
 * has the key.  Else a line in why.  Takes a few seconds at most.
 */
enum cmd_asked cmd_ask(const char *url, const char *kid, int64_t since,
                       size_t keys, char *why, size_t why_cap);

/* -- statements and values (cmd_sql.c) -- */

bool cmd_connect(struct cmd *c);

/* Runs work in a transaction, again when a deadlock ended it: what a try has
 * found and set is forgotten then. */
bool cmd_transact(struct cmd *c, bool (*work)(struct cmd *c));
bool cmd_work(struct cmd *c); /* that of c->spec */

/*
 * Runs a statement, in which :name is a parameter with the value of this name,
 * or null; its type is what the server infers.  A row is referred to by its
 * UUID or its name: :name.id is the value if it has a UUID's form, else null,
 * and :name.name the other way round.  :name.given is the option's value, even
 * where a row has one of that name.  The rows stay, and the columns of the
 * first are values from now on.
 */
bool cmd_sql(struct cmd *c, const char *sql);

/* What the name of a constraint or an SQLSTATE says; NULL: no more. */
const char *cmd_reason(const char *constraint, const char *state);

/* Frees all results but the first ones. */
void cmd_keep(struct cmd *c, size_t results);

/*
 * Runs sql, which looks for ref by :ref.id and :ref.name.  Fails if it finds
 * no row (with hint after the message where ref is a name; hint NULL: does not
 * fail) or several; the first column is the id.
 */
bool cmd_find(struct cmd *c, const char *what, const char *ref,
              const char *hint, const char *sql);

bool cmd_is_uuid(const char *text);

/* The newest value of this name: one that was set, of the rows ("" is null),
 * of an option ("t": a flag) or the operand; NULL where there is none. */
const char *cmd_get(const struct cmd *c, const char *name);
bool cmd_is(const struct cmd *c, const char *name, const char *text);
/* Sets a value: cmd_set() keeps the text itself, cmd_setf() a copy. */
void cmd_set(struct cmd *c, const char *name, const char *text);
void cmd_setf(struct cmd *c, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
