/* Parsing of settings, names of accounts and environment files. */

#include "base/parse.h"

#include "base/config_forms.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>
#include <time.h>

/* -- values --------------------------------------------------------------- */

bool parse_form(const char *text, const char *form, size_t max)
{
    char whole[2048];
    regex_t re;
    bool ok;

    if (strlen(text) > (max != 0 ? max : 65536)) {
        return false;
    }
    if (form == NULL) {
        return true;
    }
    (void) snprintf(whole, sizeof(whole), "^(%s)$", form);
    if (regcomp(&re, whole, REG_EXTENDED | REG_NOSUB) != 0) {
        return false;
    }
    ok = regexec(&re, text, 0, NULL, 0) == 0;
    regfree(&re);
    return ok;
}

/* A decimal integer and nothing else. */
static bool parse_int(const char *text, int64_t *out)
{
    if (!parse_form(text, "0*[0-9]{1,18}", 0)) {
        return false;
    }
    *out = strtoll(text, NULL, 10);
    return true;
}

bool parse_duration(const char *text, int64_t *out_ms)
{
    static const double units_ms[] = {['s'] = 1000,
                                      ['m'] = 60 * 1000,
                                      ['h'] = 3600 * 1000,
                                      ['d'] = 86400 * 1000};
    double number;
    char *unit;

    if (!parse_form(text, "0*[0-9]{1,9}([smhd]?|\\.[0-9]{1,3}[smhd])", 0)) {
        return false;
    }
    number = strtod(text, &unit);
    *out_ms =
        (int64_t) (number *
                       units_ms[*unit != '\0' ? (unsigned char) *unit : 's'] +
                   0.5);
    return true;
}

bool parse_time(const char *text, int64_t *out_s)
{
    static const char format[] = "%Y-%m-%dT%H:%M:%SZ";
    struct tm tm = {0};
    char again[32];
    time_t t;

    if (strptime(text, format, &tm) == NULL) {
        return false;
    }
    t = timegm(&tm); /* it accepts February 30 too */
    *out_s = t;
    return strftime(again, sizeof(again), format, &tm) > 0 &&
           strcmp(text, again) == 0 && t > 0;
}

bool parse_within(const char *text, const char *range, bool duration,
                  int64_t *out)
{
    bool (*parse)(const char *, int64_t *) =
        duration ? parse_duration : parse_int;
    char low_text[16] = "";
    int64_t low, high;

    (void) snprintf(low_text, sizeof(low_text), "%.*s",
                    (int) strcspn(range, " "), range);
    return parse(text, out) && parse(low_text, &low) &&
           parse(strrchr(range, ' ') + 1, &high) && *out >= low && *out <= high;
}

bool parse_word(const char *text, const char *words, int64_t *place)
{
    size_t len = strlen(text);

    for (*place = 0;; ++*place) {
        size_t word_len = strcspn(words, ",");

        if (word_len == len && strncasecmp(words, text, len) == 0) {
            return true;
        }
        if (words[word_len] == '\0') {
            return false;
        }
        words += word_len + strlen(", ");
    }
}

bool parse_kid(const char *text)
{
    return parse_form(text, PARSE_VISIBLE "+", 255) &&
           strpbrk(text, "',=") == NULL;
}

bool parse_listen(const char *text)
{
    if (strncmp(text, "unix:", 5) == 0) {
        text += 5;
    }
    if (strchr(text, '/') != NULL) {
        return strlen(text) < sizeof(((struct sockaddr_un *) 0)->sun_path);
    }
    return parse_form(text, SERVER ":" PORT, 260);
}

bool parse_loopback(const char *hosts)
{
#define LOOPBACK "(|[/@][^,]*|localhost|127\\.[0-9.]*|::1)"
    return parse_form(hosts, LOOPBACK "(," LOOPBACK ")*", 0);
}

/* -- names of accounts ---------------------------------------------------- */

#define IS_SPACE(c) (memchr(" \t\r\n", c, 4) != NULL)

/* Returns true if s has an ASCII control character or U+0080 to U+009F. */
static bool has_control(pj_str_t s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] < 0x20 || s.data[i] == 0x7f ||
            (s.data[i] == 0xc2 && i + 1 < s.len && s.data[i + 1] < 0xa0)) {
            return true;
        }
    }
    return false;
}

const char *parse_account_name(pj_str_t in, unsigned char *mem, pj_str_t *out)
{
    while (in.len > 0 && IS_SPACE(in.data[in.len - 1])) {
        in.len--;
    }
    for (; in.len > 0 && IS_SPACE(in.data[0]); in.data++) {
        in.len--;
    }
    for (size_t i = 0; i < in.len; i++) {
        unsigned char c = in.data[i];

        mem[i] = c >= 'A' && c <= 'Z' ? (unsigned char) (c | 0x20) : c;
    }
    *out = (pj_str_t){mem, in.len};
    if (in.len == 0 || in.len > ACCOUNT_NAME_MAX) {
        return "be 1 to 320 bytes";
    }
    return has_control(*out) ? "not hold control characters" : NULL;
}

/* -- environment files ---------------------------------------------------- */

#define BLANKS " \t\r"
#define NAME_CHARS                                                             \
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz0123456789"

/* Removes quotes and escapes from value in place.  Returns the fault, or
 * NULL. */
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
    return in[1] != '\0' ? "text after the closing quote" : NULL;
}

/* Parses a line without its newline.  Returns the fault, or NULL. */
static const char *read_line(struct parse_env *file, char *line)
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
    file->vars[file->count++] = name;
    name[len++] = '=';
    memmove(name + len, value, strlen(value) + 1);
    return unquote(name + len);
}

bool parse_env_read(struct parse_env *file, const char *path, struct error *e)
{
    FILE *in = fopen(path, "re");
    const char *problem = NULL;
    char *rest, *this;
    size_t len, line = 0;

    memset(file, 0, sizeof(*file));
    if (in == NULL) {
        return error_is(e, "%s: cannot open: %s", path, strerror(errno));
    }
    setvbuf(in, NULL, _IONBF, 0); /* stdio keeps no copy of the secrets */
    rest = file->text = calloc(1, PARSE_ENV_MAX_BYTES + 1);
    /* A variable takes at least three bytes; one more for the final NULL. */
    file->vars = calloc(PARSE_ENV_MAX_BYTES / 3 + 2, sizeof(char *));
    errno = ENOMEM;
    len = rest != NULL ? fread(rest, 1, PARSE_ENV_MAX_BYTES, in) : 0;
    if (len == PARSE_ENV_MAX_BYTES) {
        errno = EFBIG;
    }
    if (file->text == NULL || file->vars == NULL || ferror(in) ||
        len == PARSE_ENV_MAX_BYTES) {
        error_write(e, "%s: cannot read: %s", path, strerror(errno));
        fclose(in);
        parse_env_free(file);
        return false;
    }
    fclose(in);
    while (problem == NULL && (this = strsep(&rest, "\n")) != NULL) {
        line++;
        problem = rest == NULL && this + strlen(this) != file->text + len
                      ? "a NUL byte"
                      : read_line(file, this);
    }
    if (problem != NULL) {
        error_write(e, "%s: line %zu: %s", path, line, problem);
        parse_env_free(file);
    }
    return problem == NULL;
}

const char *parse_env_get(const struct parse_env *file, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = file->count; i-- > 0;) {
        if (strncmp(file->vars[i], name, len) == 0 &&
            file->vars[i][len] == '=') {
            return file->vars[i] + len + 1;
        }
    }
    return NULL;
}

void parse_env_free(struct parse_env *file)
{
    if (file->text != NULL) {
        OPENSSL_cleanse(file->text, PARSE_ENV_MAX_BYTES);
    }
    free(file->text);
    free(file->vars);
    memset(file, 0, sizeof(*file));
}
