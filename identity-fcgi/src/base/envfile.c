/* Environment files: a plain subset of systemd's EnvironmentFile=. */

#include "base/envfile.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\r"
#define NAME_CHARS                                                            \
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz0123456789"

/* Takes quotes and escapes out of value, in place; what is wrong, or NULL. */
static const char *unquote(char *value)
{
    char quote = value[0];
    char *in = value + 1, *out = value;

    if (quote != '"' && quote != '\'') {
        return strchr(value, '\\') != NULL
                   ? "a backslash; quote the value to mean one"
                   : NULL;
    }
    while (*in != quote) {
        if (quote == '"' && *in == '\\' && in[1] != '\0' &&
            strchr("\"\\`$", in[1]) != NULL) {
            in++;
        }
        if (*in == '\0') {
            return "a quote is not closed on its line";
        }
        *out++ = *in++;
    }
    *out = '\0';
    return in[1] != '\0' ? "text behind the closing quote" : NULL;
}

/* One line, without its end; what is wrong with it, or NULL. */
static const char *read_line(struct envfile *file, char *line)
{
    char *name = line + strspn(line, BLANKS);
    size_t len = strspn(name, NAME_CHARS);
    char *value = name + len + strspn(name + len, BLANKS);
    char *end = value + strlen(value);

    if (*name == '\0' || *name == '#' || *name == ';') {
        return NULL;
    }
    if (len == 0 || (*name >= '0' && *name <= '9') || *value != '=') {
        return "not of the form NAME=value";
    }
    while (strchr(BLANKS, end[-1]) != NULL) {
        *--end = '\0';
    }
    value++;
    value += strspn(value, BLANKS);
    name[len] = '\0';
    file->vars[file->count++] = (struct envfile_var){name, value};
    return unquote(value);
}

/* Every line of text[0..len); what is wrong with the *line-th, or NULL. */
static const char *read_lines(struct envfile *file, size_t len, size_t *line)
{
    const char *problem = NULL;
    char *rest = file->text, *this;

    for (size_t i = 0; i < len; i++) {
        *line += file->text[i] == '\n';
        if (file->text[i] == '\0') {
            return "a NUL byte";
        }
    }
    file->vars = calloc(*line, sizeof(*file->vars));
    *line = 0;
    while (problem == NULL && (this = strsep(&rest, "\n")) != NULL) {
        ++*line;
        problem = file->vars != NULL ? read_line(file, this) : "out of memory";
    }
    return problem;
}

bool envfile_read(struct envfile *file, const char *path, char *err,
                  size_t err_cap)
{
    FILE *in = fopen(path, "re");
    const char *problem;
    size_t len, line = 1;

    memset(file, 0, sizeof(*file));
    if (in == NULL) {
        snprintf(err, err_cap, "%s: cannot open: %s", path, strerror(errno));
        return false;
    }
    setvbuf(in, NULL, _IONBF, 0); /* no copy of it stays behind */
    file->text = calloc(1, ENVFILE_MAX_BYTES + 1);
    errno = ENOMEM;
    len = file->text != NULL ? fread(file->text, 1, ENVFILE_MAX_BYTES, in) : 0;
    if (len == ENVFILE_MAX_BYTES) {
        errno = EFBIG;
    }
    if (file->text == NULL || ferror(in) || len == ENVFILE_MAX_BYTES) {
        snprintf(err, err_cap, "%s: cannot read: %s", path, strerror(errno));
        problem = err;
    } else if ((problem = read_lines(file, len, &line)) != NULL) {
        snprintf(err, err_cap, "%s: line %zu: %s", path, line, problem);
    }
    fclose(in);
    if (problem != NULL) {
        envfile_free(file);
    }
    return problem == NULL;
}

const char *envfile_get(const struct envfile *file, const char *name)
{
    for (size_t i = file->count; i-- > 0;) {
        if (strcmp(file->vars[i].name, name) == 0) {
            return file->vars[i].value;
        }
    }
    return NULL;
}

void envfile_free(struct envfile *file)
{
    if (file->text != NULL) {
        OPENSSL_cleanse(file->text, ENVFILE_MAX_BYTES);
    }
    free(file->text);
    free(file->vars);
    memset(file, 0, sizeof(*file));
}
