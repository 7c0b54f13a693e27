/* Reads cookies on the first line, and finds the same as a second parser.  Sets
 * the rest as a cookie if it has a token's letters, and finds it again in
 * Set-Cookie. */

#include "fuzz.h"

#include "base/http.h"

#include <ctype.h>

static bool is_blank(unsigned char c)
{
    return c == ' ' || c == '\t';
}

static pj_str_t trimmed(pj_str_t s)
{
    while (s.len > 0 && is_blank(s.data[0]))
        s = (pj_str_t){s.data + 1, s.len - 1};
    while (s.len > 0 && is_blank(s.data[s.len - 1]))
        s.len--;
    return s;
}

/* How many different values the cookie "r" has that are not empty. */
static size_t second_parser(pj_str_t rest, pj_str_t *first)
{
    size_t different = 0;

    while (rest.len > 0) {
        pj_str_t value = fuzz_split(&rest, ';');
        pj_str_t name = trimmed(fuzz_split(&value, '='));

        value = trimmed(value);
        if (value.len > 1 && value.data[0] == '"' &&
            value.data[value.len - 1] == '"')
            value = (pj_str_t){value.data + 1, value.len - 2};
        if (!pj_str_eq(name, PJ_STR("r")) || value.len == 0)
            continue;
        if (different == 0)
            *first = value;
        different += different == 0 || !pj_str_eq(value, *first);
    }
    return different;
}

static void set_and_find(pj_str_t token)
{
    static char head[1 << 18], body[64];
    struct config cfg = {.cookie_name = (char *) "r",
                         .cookie_path = (char *) "/api",
                         .cookie_secure = true};
    struct http_response res;
    pj_str_t rest, value;

    for (size_t i = 0; i < token.len; i++) {
        if (!isalnum(token.data[i]) && strchr("-_.", token.data[i]) == NULL)
            return;
    }
    http_response_init(&res, head, sizeof(head), body, sizeof(body));
    http_cookie_set(&res, &cfg, token, 5);
    FUZZ_ASSERT(!res.headers.overflow && res.headers.len > 13);
    rest = (pj_str_t){(unsigned char *) head + 11, res.headers.len - 13};
    FUZZ_ASSERT(memcmp(head, "Set-Cookie:", 11) == 0 &&
                memcmp(head + res.headers.len - 2, "\r\n", 2) == 0);
    FUZZ_ASSERT(memchr(head, '\r', res.headers.len - 2) == NULL &&
                memchr(head, '\n', res.headers.len - 2) == NULL);
    FUZZ_ASSERT(http_cookie_find(rest, "r", &value) ==
                (token.len > 0 ? HTTP_COOKIE_ONE : HTTP_COOKIE_NONE));
    FUZZ_ASSERT(pj_str_eq(value, token));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    pj_str_t token = {data, len}, cookies = fuzz_split(&token, '\n');
    pj_str_t value, first = {NULL, 0}, rest = cookies, each;
    size_t different = second_parser(cookies, &first);
    enum http_cookie found = http_cookie_find(cookies, "r", &value);

    FUZZ_ASSERT(found == (different == 0   ? HTTP_COOKIE_NONE
                          : different == 1 ? HTTP_COOKIE_ONE
                                           : HTTP_COOKIE_CONFLICT));
    if (found == HTTP_COOKIE_ONE) {
        FUZZ_ASSERT(pj_str_eq(value, first));
        while (http_cookie_next(&rest, "r", &each))
            FUZZ_ASSERT(pj_str_eq(each, value));
    }
    set_and_find(token);
    return 0;
}
