/* The operator's commands: their table, and what they share. */

#ifndef CMD_H_INCLUDED
#define CMD_H_INCLUDED

#include "auth/keys.h"
#include "base/config.h"
#include "base/log.h"
#include "cmd/cmd_args.h"
#include "cmd/cmd_out.h"
#include "store/store_admin.h"

#include <stdbool.h>
#include <stdio.h>

#define CMD_FAILED 1 /* exit status: it was tried */
#define CMD_USAGE 2  /* exit status: wrong usage or settings */
#define CMD_LOST 3   /* exit status: done, and not recorded */

struct cmd {
    const struct cmd_spec *spec;
    struct cmd_args args;
    bool loaded; /* cfg is filled */
    struct config cfg;
    struct admin *admin; /* once cmd_connect() succeeded */
    struct keys *keys;   /* once cmd_keys() succeeded */
    struct out out;
    int status; /* what it ends with, where something failed */
};

/* -- for main.c -- */

/* Whether word begins a command of this table. */
bool cmd_is_known(const char *word);

/* Runs argv[0..argc), whose first word is known; env_file may be NULL.
 * Returns the exit status. */
int cmd_main(const char *env_file, int argc, char *const *argv);

/* "help" about argv[0..argc), likewise. */
int cmd_help(int argc, char *const *argv);

/* A line for each command. */
void cmd_list(FILE *out);

/* -- for commands; each false means that c->status is set and one line was
 * printed -- */

/* Prints "identity-fcgi: LINE" on standard error; returns status, which
 * c->status is then too. */
int cmd_fail(struct cmd *c, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Likewise CMD_FAILED with the store's line. */
int cmd_fail_admin(struct cmd *c);

/* Loads the settings and hides the secrets among them. */
bool cmd_load(struct cmd *c);
/* Loads the settings, then connects. */
bool cmd_connect(struct cmd *c);
/* Loads settings and keys. */
bool cmd_keys(struct cmd *c);

/* The operand or value as an account's name or id; false on failure. */
bool cmd_account_ref(struct cmd *c, const char *text,
                     char out[STORE_ACCOUNT_NAME_MAX + 1]);

/* Opens and closes c->out; closing gives the exit status. */
bool cmd_out_open(struct cmd *c, bool list);
int cmd_out_close(struct cmd *c);

/*
 * The audit line of a change that is committed: JSON on standard error,
 * whatever PLATFORM_LOG_LEVEL says, with who ran the command.  Ids only.
 */
void cmd_audit(const char *event, const struct log_field *fields, size_t count,
               const struct log_number *numbers, size_t number_count);

#define CMD_ID(name, value)                                                   \
    {                                                                         \
        name, value, strlen(value)                                            \
    }

/* -- the commands -- */

extern const struct cmd_spec cmd_account_specs[];
extern const struct cmd_spec cmd_place_specs[]; /* workspace, branch */
extern const struct cmd_spec cmd_member_specs[];
extern const struct cmd_spec cmd_token_specs[];
extern const struct cmd_spec cmd_service_specs[]; /* keys, migrate, sweep */

#endif
