/* Any bytes as an id: a valid request id has its form; a UUID read and written
 * is the same text; a valid trace has the form that W3C gives it. */

#include "nginx.h"

#include "base/base.h"
#include "base/uuid.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    ngx_str_t text;

    nginx_reset();
    text = nginx_copy((pj_str_t){data, len});
    uuid_check((pj_str_t){data, len});
    if (len < 4000 && memchr(data, '\0', len) == NULL) {
        const char *t = (char *) text.data;

        FUZZ_ASSERT(web_id_valid((pj_str_t){data, len}) ==
                    matches(REQUEST_ID, t));
        FUZZ_ASSERT(ngx_http_pgw_trace_valid(&text) ==
                    (matches(TRACE, t) && !matches(NO_TRACE, t)));
    }
    return 0;
}
