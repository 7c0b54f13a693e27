/* The arguments of an operator's command: one table each, one parser. */

#ifndef CMD_ARGS_H_INCLUDED
#define CMD_ARGS_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>

#define CMD_MAX_OPTIONS 6
#define CMD_MAX_GIVEN 300 /* options with a value, in one command line */

struct cmd_option {
    const char *name;  /* without the dashes */
    const char *value; /* what it is called in the help; NULL: a flag */
    const char *help;
    bool required;
    bool many; /* may be given again */
};

struct cmd; /* a command that runs: cmd.h */

/* What a command is called, takes and does. */
struct cmd_spec {
    const char *group;   /* "account" */
    const char *verb;    /* "add"; NULL where the group is the command */
    const char *operand; /* "NAME"; NULL: there is none */
    const char *purpose; /* one line */
    const char *more;    /* lines of help, or NULL */
    struct cmd_option options[CMD_MAX_OPTIONS]; /* up to one without a name */
    int (*run)(struct cmd *c);
};

/* Options that every command takes. */
extern const struct cmd_option cmd_common_options[];

struct cmd_args {
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
 * Parses argv[0..argc), which follows the command's words.  Options may stand
 * anywhere, as "--name value" or "--name=value"; "--" ends them.  False with
 * one line in err, which never repeats a value: it may be a secret in the
 * wrong place.  --help leaves everything else unchecked.
 */
bool cmd_args_parse(const struct cmd_spec *spec, int argc, char *const *argv,
                    struct cmd_args *out, char *err, size_t err_cap)
    __attribute__((warn_unused_result));

/* The value of an option, NULL where it was not given. */
const char *cmd_args_value(const struct cmd_args *args, const char *name);
bool cmd_args_flag(const struct cmd_args *args, const char *name);

/*
 * All values of an option that may be given again, into out[0..cap); returns
 * how many there are, which may be more than cap.
 */
size_t cmd_args_values(const struct cmd_args *args, const char *name,
                       const char **out, size_t cap);

#endif
