/* A line of allowed origins, an origin, a method, and headers: an origin is
 * allowed if an expression of the same meaning allows it; an allowed origin
 * without "*" and port allows itself; a refusal repeats only plain names. */

#include "nginx.h"

#include "base/base.h"
#include "request/request.h"

#include <ctype.h>
#include <regex.h>

/* Returns true if a word of the directive means this origin: "*." is for labels
 * of letters, digits, "-" and "_", and the scheme's own port may be left out.
 */
static bool means(const char *word, pj_str_t origin)
{
    char form[2048] = "^", *p = form + 1, text[1024];
    size_t len = strlen(word);
    bool same = false;
    regex_t re;

    if (len > 200 || origin.len >= sizeof(text))
        return false;
    snprintf(text, sizeof(text), "%.*s", (int) origin.len,
             (const char *) origin.data);
    if (strncasecmp(word, "https:", 6) == 0 && strstr(word, ":443") != NULL &&
        strcmp(word + len - 4, ":443") == 0)
        len -= 4;
    if (strncasecmp(word, "http:", 5) == 0 && strstr(word, ":80") != NULL &&
        strcmp(word + len - 3, ":80") == 0)
        len -= 3;
    for (size_t i = 0; i < len; i++)
        p += snprintf(p, 32,
                      word[i] == '*' ? "([-_a-z0-9]+\\.)*[-_a-z0-9]+"
                      : isalnum(word[i]) || word[i] > 126 || word[i] == '_'
                          ? "%c"
                          : "[%c]",
                      tolower(word[i]));
    memcpy(p, "$", 2);
    FUZZ_ASSERT(regcomp(&re, form, REG_EXTENDED | REG_NOSUB) == 0);
    same = strlen(text) == origin.len && regexec(&re, text, 0, NULL, 0) == 0;
    regfree(&re);
    return same;
}

static bool allowed(ngx_http_pgw_loc_conf_t *conf, pj_str_t origin,
                    pj_str_t method, pj_str_t headers)
{
    ngx_http_pgw_question_t q = {.origin = nginx_copy(origin),
                                 .method = nginx_copy(method),
                                 .headers = nginx_copy(headers)};
    const char *detail = NULL;
    ngx_http_pgw_reason_e why =
        ngx_http_pgw_cors_explain(NULL, conf, &q, &detail);
    ngx_str_t name;

    for (; detail != NULL && *detail != '\0'; detail++)
        FUZZ_ASSERT(*detail == ' ' || *detail == '-' || *detail == '_' ||
                    isalnum(*detail));
    if (why == NGX_HTTP_PGW_REASON_NONE) {
        FUZZ_ASSERT(pj_str_eq(method, PJ_STR("GET")) ||
                    pj_str_eq(method, PJ_STR("PUT")));
        while (ngx_http_pgw_names_next(&q.headers, &name))
            FUZZ_ASSERT(pj_str_caseeq(nginx_pj(&name), PJ_STR("X-One")) ||
                        pj_str_caseeq(nginx_pj(&name), PJ_STR("X-2")));
    }
    return why != NGX_HTTP_PGW_REASON_ORIGIN_FORBIDDEN;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    ngx_http_pgw_loc_conf_t conf = {.cors_origins = NGX_CONF_UNSET_PTR,
                                    .cors_methods = ngx_string("GET, PUT"),
                                    .cors_headers = ngx_string("X-One, x-2")};
    ngx_command_t cmd = {.name = ngx_string("origins")};
    pj_str_t rest = {data, len}, words = fuzz_split(&rest, '\n');
    pj_str_t origin = fuzz_split(&rest, '\n'), method = fuzz_split(&rest, '\n');
    ngx_str_t args[9] = {ngx_string("origins")};
    ngx_array_t array = {.elts = args, .nelts = 1};
    ngx_conf_t cf = {.args = &array};
    bool any = false, verdict;

    nginx_reset();
    if (memchr(data, '\0', len) != NULL)
        return 0;
    while (words.len > 0 && array.nelts < 9) {
        pj_str_t word = fuzz_split(&words, ' ');

        if (word.len > 0)
            args[array.nelts++] = nginx_copy(word);
    }
    if (array.nelts == 1 || words.len > 0 ||
        ngx_http_pgw_cors_origins(&cf, &cmd, &conf) != NGX_CONF_OK)
        return 0;
    verdict = allowed(&conf, origin, method, rest);
    FUZZ_ASSERT(conf.cors_origins->nelts > 0 || !verdict);
    if (conf.cors_origins->nelts == 0)
        return 0; /* "off" */
    for (ngx_uint_t i = 1; i < array.nelts; i++) {
        const char *word = (char *) args[i].data;

        any |= means(word, origin);
        if (strchr(word, '*') == NULL && strstr(word, ":443") == NULL &&
            strstr(word, ":80") == NULL) {
            pj_str_t self = nginx_pj(&args[i]);

            ngx_strlow(args[i].data, args[i].data, args[i].len);
            FUZZ_ASSERT(allowed(&conf, self, method, rest));
        }
        if (args[i].len > 200)
            return 0;
    }
    FUZZ_ASSERT(verdict == any);
    return 0;
}
