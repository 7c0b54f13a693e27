/* Environment files in the syntax of systemd's EnvironmentFile=. */

#include "envfile.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct reader {
    const char *pos;
    const char *end;
    unsigned line;
};

static bool is_name_char(char c, bool first)
{
    return c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (!first && c >= '0' && c <= '9');
}

static bool at_end(const struct reader *r)
{
    return r->pos == r->end;
}

static char take(struct reader *r)
{
    char c = *r->pos++;

    if (c == '\n') {
        r->line++;
    }
    return c;
}

static void skip_line(struct reader *r)
{
    while (!at_end(r) && take(r) != '\n') {
    }
}

/* Copies what stands between single quotes, all literal. */
static bool read_single(struct reader *r, char **out)
{
    while (!at_end(r)) {
        char c = take(r);

        if (c == '\'') {
            return true;
        }
        *(*out)++ = c;
    }
    return false;
}

/* Between double quotes a backslash escapes the shell's four and the line's
 * end; before anything else it stands for itself. */
static bool read_double(struct reader *r, char **out)
{
    while (!at_end(r)) {
        char c = take(r);

        if (c == '"') {
            return true;
        }
        if (c == '\\' && !at_end(r)) {
            c = take(r);
            if (c == '\n') {
                continue;
            }
            if (strchr("\"\\`$", c) == NULL) {
                *(*out)++ = '\\';
            }
        }
        *(*out)++ = c;
    }
    return false;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool ends_line(char c)
{
    return c == '\n' || c == '\r';
}

/*
 * Reads what stands bare, quotes and all, up to the end of the line.  Behind a
 * backslash a character is itself, and the line's end is none; blanks before
 * the end go, but not those before a backslash.
 */
static void read_bare(struct reader *r, char **out)
{
    char *keep_to = *out;

    while (!at_end(r)) {
        char c = take(r);
        bool escaped = c == '\\';

        if (ends_line(c)) {
            break;
        }
        if (escaped) {
            if (at_end(r)) {
                break;
            }
            c = take(r);
        }
        if (ends_line(c)) {
            keep_to = *out;
            continue;
        }
        *(*out)++ = c;
        if (escaped || !is_blank(c)) {
            keep_to = *out;
        }
    }
    *out = keep_to;
}

/*
 * Reads a value: quoted parts, with or without blanks between them, which go,
 * and at last perhaps a bare one.  False when a quote is not closed.
 */
static bool read_value(struct reader *r, char **out)
{
    while (!at_end(r)) {
        char c = *r->pos;

        if (c == '\'' || c == '"') {
            take(r);
            if (!(c == '"' ? read_double(r, out) : read_single(r, out))) {
                return false;
            }
        } else if (is_blank(c)) {
            take(r);
        } else {
            read_bare(r, out);
            break;
        }
    }
    *(*out)++ = '\0';
    return true;
}

static bool add_var(struct envfile *file, const char *name, size_t name_len,
                    const char *value)
{
    size_t value_len = strlen(value);
    struct envfile_var *vars;
    char *block;

    vars = realloc(file->vars, (file->count + 1) * sizeof(*vars));
    if (vars == NULL) {
        return false;
    }
    file->vars = vars;
    block = malloc(name_len + value_len + 2);
    if (block == NULL) {
        return false;
    }
    memcpy(block, name, name_len);
    block[name_len] = '\0';
    memcpy(block + name_len + 1, value, value_len + 1);
    file->vars[file->count].name = block;
    file->vars[file->count].value = block + name_len + 1;
    file->count++;
    return true;
}

/* One assignment; *problem says what is wrong with it. */
static bool read_assignment(struct envfile *file, struct reader *r,
                            char *scratch, const char **problem)
{
    const char *name = r->pos;
    char *out = scratch;
    size_t name_len;

    while (!at_end(r) && is_name_char(*r->pos, r->pos == name)) {
        r->pos++;
    }
    name_len = (size_t) (r->pos - name);
    while (!at_end(r) && is_blank(*r->pos)) {
        r->pos++;
    }
    if (name_len == 0 || at_end(r) || *r->pos != '=') {
        *problem = "not of the form NAME=value";
        return false;
    }
    r->pos++;
    if (!read_value(r, &out)) {
        *problem = "a quote is not closed";
        return false;
    }
    if (!add_var(file, name, name_len, scratch)) {
        *problem = "out of memory";
        return false;
    }
    return true;
}

bool envfile_parse(struct envfile *file, const char *path, const char *text,
                   size_t len, char *err, size_t err_cap)
{
    struct reader r = {text, text + len, 1};
    const char *problem = NULL;
    char *scratch;
    unsigned line = 1;

    file->vars = NULL;
    file->count = 0;
    if (memchr(text, '\0', len) != NULL) {
        snprintf(err, err_cap, "%s: holds a NUL byte", path);
        return false;
    }
    scratch = malloc(len + 1);
    if (scratch == NULL) {
        snprintf(err, err_cap, "%s: out of memory", path);
        return false;
    }
    while (problem == NULL && !at_end(&r)) {
        line = r.line;
        if (strchr(" \t\r\n", *r.pos) != NULL) {
            take(&r);
        } else if (*r.pos == '#' || *r.pos == ';') {
            skip_line(&r);
        } else {
            (void) read_assignment(file, &r, scratch, &problem);
        }
    }
    OPENSSL_cleanse(scratch, len + 1);
    free(scratch);
    if (problem != NULL) {
        snprintf(err, err_cap, "%s: line %u: %s", path, line, problem);
        envfile_free(file);
        return false;
    }
    return true;
}

/* Reads all of fd into text[0..cap); -1 with errno, EFBIG when it is full. */
static ssize_t read_all(int fd, char *text, size_t cap)
{
    size_t len = 0;

    for (;;) {
        ssize_t n = read(fd, text + len, cap - len);

        if (n < 0) {
            return -1;
        }
        if (n == 0) {
            return (ssize_t) len;
        }
        len += (size_t) n;
        if (len == cap) {
            errno = EFBIG;
            return -1;
        }
    }
}

bool envfile_read(struct envfile *file, const char *path, char *err,
                  size_t err_cap)
{
    char *text = NULL;
    bool ok = false;
    ssize_t len;
    int fd;

    file->vars = NULL;
    file->count = 0;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        snprintf(err, err_cap, "%s: cannot open: %s", path, strerror(errno));
        return false;
    }
    text = malloc(ENVFILE_MAX_BYTES);
    if (text == NULL) {
        errno = ENOMEM;
    }
    len = text != NULL ? read_all(fd, text, ENVFILE_MAX_BYTES) : -1;
    if (len < 0) {
        snprintf(err, err_cap, "%s: cannot read: %s", path, strerror(errno));
    } else {
        ok = envfile_parse(file, path, text, (size_t) len, err, err_cap);
    }
    if (text != NULL) {
        OPENSSL_cleanse(text, len > 0 ? (size_t) len : ENVFILE_MAX_BYTES);
        free(text);
    }
    close(fd);
    return ok;
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
    for (size_t i = 0; i < file->count; i++) {
        struct envfile_var *v = &file->vars[i];

        OPENSSL_cleanse(v->value, strlen(v->value));
        free(v->name);
    }
    free(file->vars);
    file->vars = NULL;
    file->count = 0;
}
