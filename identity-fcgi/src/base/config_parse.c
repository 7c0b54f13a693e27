/* Parsers of setting values: text in, typed field out, no policy. */

#include "base/config_parse.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool parse_bool(const char *text, bool *out)
{
    static const struct {
        const char *word;
        bool value;
    } words[] = {{"true", true}, {"false", false}, {"1", true},
                 {"0", false},   {"on", true},     {"off", false}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcasecmp(text, words[i].word) == 0) {
            *out = words[i].value;
            return true;
        }
    }
    return false;
}

/* Digits at *text, moved past; false when there are none or too many. */
static bool take_int(const char **text, int64_t *out)
{
    const char *p = *text;
    int64_t v = 0;

    if (!is_digit(*p)) {
        return false;
    }
    for (; is_digit(*p); p++) {
        int digit = *p - '0';

        if (v > (INT64_MAX - digit) / 10) {
            return false;
        }
        v = v * 10 + digit;
    }
    *text = p;
    *out = v;
    return true;
}

bool parse_int(const char *text, int64_t *out)
{
    return take_int(&text, out) && *text == '\0';
}

/* Up to three decimals at *text, as thousandths. */
static bool take_thousandths(const char **text, int64_t *out)
{
    const char *p = *text;
    int64_t v = 0;
    int n = 0;

    for (; is_digit(*p) && n < 3; p++, n++) {
        v = v * 10 + (*p - '0');
    }
    if (n == 0 || is_digit(*p)) {
        return false;
    }
    for (; n < 3; n++) {
        v *= 10;
    }
    *text = p;
    *out = v;
    return true;
}

bool parse_duration(const char *text, int64_t *out_ms)
{
    int64_t whole, thousandths = 0, unit_s;
    bool decimals;

    if (!take_int(&text, &whole)) {
        return false;
    }
    decimals = *text == '.';
    if (decimals) {
        text++;
        if (!take_thousandths(&text, &thousandths)) {
            return false;
        }
    }
    switch (*text) {
    case '\0':
        unit_s = decimals ? 0 : 1; /* a bare number is whole seconds */
        break;
    case 's':
        unit_s = 1;
        break;
    case 'm':
        unit_s = 60;
        break;
    case 'h':
        unit_s = 3600;
        break;
    case 'd':
        unit_s = 86400;
        break;
    default:
        unit_s = 0;
    }
    if (unit_s == 0 || (*text != '\0' && text[1] != '\0') ||
        whole > INT64_MAX / 1000 / unit_s - 1) {
        return false;
    }
    *out_ms = (whole * 1000 + thousandths) * unit_s;
    return true;
}

bool parse_visible(const char *text, size_t max)
{
    size_t n = 0;

    for (; text[n] != '\0'; n++) {
        if (text[n] <= ' ' || text[n] > '~' || text[n] == '"' ||
            text[n] == '\\') {
            return false;
        }
    }
    return n <= max;
}

bool parse_kid(const char *text)
{
    return *text != '\0' && parse_visible(text, 255) &&
           strpbrk(text, "',=") == NULL;
}

bool parse_token(const char *text)
{
    size_t n = 0;

    for (; text[n] != '\0'; n++) {
        if (!is_alnum(text[n]) && strchr("!#$%&'*+-.^_`|~", text[n]) == NULL) {
            return false;
        }
    }
    return n <= 128;
}

bool parse_cookie_path(const char *text)
{
    return text[0] == '/' && strchr(text, ';') == NULL &&
           parse_visible(text, 256);
}

bool parse_host(const char *text)
{
    size_t n = 0;

    for (; text[n] != '\0'; n++) {
        if (!is_alnum(text[n]) && strchr("-._:[]*", text[n]) == NULL) {
            return false;
        }
    }
    return n <= 253;
}

bool parse_port(const char *text)
{
    int64_t v;

    return parse_int(text, &v) && v >= 1 && v <= 65535;
}

bool parse_port_list(const char *text)
{
    for (;;) {
        int64_t v;

        if (is_digit(*text) && (!take_int(&text, &v) || v < 1 || v > 65535)) {
            return false;
        }
        if (*text == '\0') {
            return true;
        }
        if (*text++ != ',') {
            return false;
        }
    }
}

bool parse_listen(const char *text)
{
    const char *colon;
    char host[254];
    size_t len;

    if (strncmp(text, "unix:", 5) == 0) {
        text += 5;
    }
    if (strchr(text, '/') != NULL) {
        return strlen(text) < sizeof(((struct sockaddr_un *) 0)->sun_path);
    }
    colon = strrchr(text, ':');
    if (colon == NULL || colon == text || !parse_port(colon + 1)) {
        return false;
    }
    len = (size_t) (colon - text);
    if (len >= sizeof(host)) {
        return false;
    }
    memcpy(host, text, len);
    host[len] = '\0';
    if (strchr(host, ':') != NULL &&
        (host[0] != '[' || host[len - 1] != ']')) {
        return false;
    }
    return parse_host(host);
}

/*
 * Host characters of an origin: labels of letters, digits, - and _, or a
 * bracketed v6 address.  Returns what follows, NULL when there is no host;
 * *dots is how many labels there are, less one.
 */
static const char *skip_origin_host(const char *p, const char *end,
                                    size_t *dots)
{
    const char *start = p;

    *dots = 0;
    if (p < end && *p == '[') {
        while (p < end && *p != ']') {
            p++;
        }
        return p < end && p - start > 2 ? p + 1 : NULL;
    }
    for (; p < end && *p != ':'; p++) {
        if (*p == '.' && (p == start || p[-1] == '.')) {
            return NULL;
        }
        if (*p != '.' && *p != '-' && *p != '_' && !is_alnum(*p)) {
            return NULL;
        }
        *dots += *p == '.';
    }
    return p > start && p[-1] != '.' ? p : NULL;
}

/* The length of "http://" or "https://" at text, or 0. */
static size_t origin_scheme(const char *text, size_t len)
{
    if (len > 7 && memcmp(text, "http://", 7) == 0) {
        return 7;
    }
    return len > 8 && memcmp(text, "https://", 8) == 0 ? 8 : 0;
}

bool parse_origin(const char *text, size_t len, bool wildcard)
{
    const char *p = text + origin_scheme(text, len), *end = text + len;
    bool below = end - p > 2 && p[0] == '*' && p[1] == '.';
    int64_t port;
    size_t dots;

    if (p == text || (below && !wildcard)) {
        return false;
    }
    p = skip_origin_host(below ? p + 2 : p, end, &dots);
    if (p == NULL || (below && dots == 0)) {
        return false; /* all below a top-level domain are no one's */
    }
    if (p == end) {
        return true;
    }
    p++; /* the colon: skip_origin_host() stops at nothing else */
    if (p[-1] != ':' || p == end || end - p > 5) {
        return false;
    }
    for (port = 0; p < end; p++) {
        if (!is_digit(*p)) {
            return false;
        }
        port = port * 10 + (*p - '0');
    }
    return port >= 1 && port <= 65535;
}

void fold_origin(char *origin)
{
    size_t len = strlen(origin);

    for (char *p = origin; *p != '\0'; p++) {
        if (*p >= 'A' && *p <= 'Z') {
            *p = (char) (*p | 0x20);
        }
    }
    if (origin_scheme(origin, len) == 8) {
        if (len > 4 && strcmp(origin + len - 4, ":443") == 0) {
            origin[len - 4] = '\0';
        }
    } else if (len > 3 && strcmp(origin + len - 3, ":80") == 0) {
        origin[len - 3] = '\0';
    }
}

bool parse_url(const char *text)
{
    size_t scheme = strncmp(text, "http://", 7) == 0    ? 7
                    : strncmp(text, "https://", 8) == 0 ? 8
                                                        : 0;

    return scheme != 0 && text[scheme] != '\0' && text[scheme] != '/' &&
           parse_visible(text, 2048) && strpbrk(text, "#@;{}$") == NULL;
}

bool parse_rate(const char *text)
{
    int64_t v;

    if (strcasecmp(text, "off") == 0) {
        return true;
    }
    if (!take_int(&text, &v) || v < 1 || v > 1000000 ||
        (strncmp(text, "r/s", 3) != 0 && strncmp(text, "r/m", 3) != 0)) {
        return false;
    }
    text += 3;
    if (*text == '\0') {
        return true;
    }
    if (strncmp(text, " burst ", 7) != 0 && strncmp(text, " burst=", 7) != 0) {
        return false;
    }
    return parse_int(text + 7, &v) && v <= 1000000;
}

/* One address or CIDR in text[0..len). */
static bool is_cidr(const char *text, size_t len)
{
    unsigned char addr[16];
    char copy[64];
    char *slash;
    int64_t bits;
    bool v6;

    if (len >= sizeof(copy)) {
        return false;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    slash = strchr(copy, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    v6 = strchr(copy, ':') != NULL;
    if (inet_pton(v6 ? AF_INET6 : AF_INET, copy, addr) != 1) {
        return false;
    }
    return slash == NULL || (parse_int(slash + 1, &bits) && bits >= 1 &&
                             bits <= (v6 ? 128 : 32));
}

bool parse_cidr_list(const char *text)
{
    for (;;) {
        size_t len;

        text += strspn(text, " ,");
        len = strcspn(text, " ,");
        if (len == 0) {
            return true;
        }
        if (!is_cidr(text, len)) {
            return false;
        }
        text += len;
    }
}
