/* Any bytes as an id: identity and the gateway take the same ones of requests,
 * and what they take is plain; a UUID read and written is the same text; a
 * trace that is taken has the form that W3C gives it. */

#include "nginx.h"

#include "base/base.h"
#include "base/http.h"
#include "base/uuid.h"

#include <ctype.h>
#include <regex.h>

enum form { REQUEST_ID, TRACE, NO_TRACE, FORMS };

static const char *const forms[FORMS] = {
    [REQUEST_ID] = "^[-A-Za-z0-9._:]{1,128}$",
    [TRACE] = "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?$",
    [NO_TRACE] = "^(ff|00.{53}.|.{3}0{32}|.{36}0{16})",
};

static bool matches(enum form form, const char *text)
{
    static regex_t re[FORMS];
    static bool made[FORMS];

    if (!made[form])
        made[form] =
            regcomp(&re[form], forms[form], REG_EXTENDED | REG_NOSUB) == 0;
    FUZZ_ASSERT(made[form]);
    return regexec(&re[form], text, 0, NULL, 0) == 0;
}

static void uuid_check(pj_str_t text)
{
    unsigned char bytes[UUID_BYTES], exact[UUID_BYTES];
    bool any_case = uuid_parse(bytes, text), read = uuid_read(exact, text);
    char again[UUID_LEN + 1];

    FUZZ_ASSERT(any_case || !read);
    if (!any_case)
        return;
    uuid_write(again, bytes);
    FUZZ_ASSERT(pj_str_caseeq(text, pj_str(again)));
    FUZZ_ASSERT(read == pj_str_eq(text, pj_str(again)));
}

/* Each half's idea of an id that a client gave. */
static void request_id_check(const char *text)
{
    static ngx_http_pgw_claim_header_t names[] = {
        {.name = ngx_string("X-Request-Id"),
         .lowcase = ngx_string("x-request-id")},
        {.name = ngx_string("X-Correlation-Id"),
         .lowcase = ngx_string("x-correlation-id")},
    };
    static ngx_array_t strip = {.elts = names, .nelts = 2};
    static ngx_http_pgw_srv_conf_t server = {
        .strip = &strip, .any_enabled = 1, .strip_lengths = 1 << 12 | 1 << 16};
    static void *confs[] = {&server};
    ngx_http_pgw_request_t gr = {.reason = 0};
    char line[4096], *params[] = {line, NULL};
    struct http_request req;
    ngx_http_request_t r;
    bool ours, theirs;

    snprintf(line, sizeof(line), "HTTP_X_REQUEST_ID=%s", text);
    http_request_init(&req, params, (pj_str_t){NULL, 0}, false);
    ours = pj_str_eq(req.request_id, pj_str(text));
    snprintf(line, sizeof(line), "x-request-id:%s", text);
    nginx_request(&r, pj_str(line));
    r.srv_conf = confs;
    FUZZ_ASSERT(ngx_http_pgw_headers_make(&r, &gr, NULL, NULL) == NGX_OK);
    theirs = pj_str_eq(nginx_pj(&gr.request_id), pj_str(text));
    FUZZ_ASSERT(ours == theirs);
    FUZZ_ASSERT(ours == matches(REQUEST_ID, text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    ngx_str_t text;

    nginx_reset();
    text = nginx_copy((pj_str_t){data, len});
    uuid_check((pj_str_t){data, len});
    if (len < 4000 && memchr(data, '\0', len) == NULL &&
        memchr(data, '\n', len) == NULL) {
        const char *t = (char *) text.data;

        request_id_check(t);
        FUZZ_ASSERT(ngx_http_pgw_trace_valid(&text) ==
                    (matches(TRACE, t) && !matches(NO_TRACE, t)));
    }
    return 0;
}
