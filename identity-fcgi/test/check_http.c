/* Tests of http.c. */

#include "base/http.h"
#include "testing.h"

static struct http_request req;
static struct http_response res;
static struct config cfg;
static char headers[4096], body[4096], head_mem[8192];
static struct buf head;

static void init(char *const *params)
{
    static char *const none[] = {NULL};
    http_request_init(&req, params != NULL ? params : none, (pj_str_t){NULL, 0},
                      false);
    http_response_init(&res, headers, sizeof(headers), body, sizeof(body));
    buf_init(&head, head_mem, sizeof(head_mem) - 1);
    memset(&cfg, 0, sizeof(cfg));
    cfg.cookie_name = (char *) "rt";
    cfg.cookie_path = (char *) "/api/auth";
    cfg.cookie_same_site = SAME_SITE_LAX;
    cfg.cors_origins =
        (char *) " https://app.example.com https://*.example.org\t"
                 "https://B.Example:443 http://c.example:80 "
                 "http://c.example:443  https://*.D.Example:443 null ";
}

static void setup(void)
{
    init(NULL);
}

static const char *text_of(struct buf *b)
{
    b->data[b->len] = '\0';
    return b->data;
}

static const char *finish(void)
{
    http_response_head(&res, &req, &head);
    return text_of(&head);
}

#define P(text) ((char *) (text))

TEST (test_request_from_params) {
    char *const params[] = {P("FCGI_ROLE=RESPONDER"),
                            P("REQUEST_METHOD=POST"),
                            P("DOCUMENT_URI=/a=b"),
                            P("CONTENT_TYPE="),
                            P("HTTP_HOST=h:1"),
                            P("HTTP_HOST=second"),
                            P("HTTP_X_REQUEST_ID=abc.1"),
                            P("HTTP_X_CORRELATION_ID=c:2"),
                            P("HTTP_X_REQUEST_IDS=other"),
                            P("no equals sign"),
                            P("=empty name"),
                            NULL};

    init(params);
    ck_assert(is(req.method, "POST"));
    ck_assert(is(req.path, "/a=b"));
    ck_assert_ptr_null(req.content_type.data);
    ck_assert(is(req.host, "h:1"));
    ck_assert(is(req.request_id, "abc.1"));
    ck_assert(is(req.correlation_id, "c:2"));
    ck_assert_ptr_null(req.cookie.data);
}

TEST (test_process_environment_is_no_request) {
    setenv("HTTP_HOST", "bind-address", 1);
    setenv("HTTP_COOKIE", "rt=stolen", 1);
    init(NULL);
    ck_assert_ptr_null(req.host.data);
    ck_assert_ptr_null(req.cookie.data);
}

/* Texts, and their form when truncated to eight bytes. */
static const struct {
    const char *text, *kept;
} texts[] = {
    {"", ""},
    {"abc", "abc"},
    {"1234567", "1234567"},
    {"12345678", "1234567"},
    {"12345\xc3\xa9", "12345\xc3\xa9"},
    {"123456\xc3\xa9", "123456"},
    {"a\xff", "a\xef\xbf\xbd"},
    {"\xf0\x9f\x98", "\xef\xbf\xbd"},
    {"\xff\xff\xff", "\xef\xbf\xbd\xef\xbf\xbd"},
    {"\x1b[2J", "\x1b[2J"},
};

TESTS (test_text_is_bounded, LENGTH(texts)) {
    char out[8];

    http_text(out, sizeof(out), str(texts[_i].text));
    ck_assert_str_eq(out, texts[_i].kept);
    http_text(out, sizeof(out), (pj_str_t){NULL, 0});
    ck_assert_str_eq(out, "");
}

TEST (test_bad_ids_are_replaced) {
    char *const params[] = {P("HTTP_X_REQUEST_ID=a b"),
                            P("HTTP_X_CORRELATION_ID=x\x01"), NULL};

    init(params);
    ck_assert_uint_eq(req.request_id.len, 32);
    ck_assert_uint_eq(
        strspn((const char *) req.request_id.data, "0123456789abcdef"), 32);
    ck_assert(is(req.correlation_id, req.made_id));
}

TEST (test_id_of_129_characters_is_replaced) {
    char param[18 + 129 + 1];
    char *const params[] = {param, NULL};

    memcpy(param, "HTTP_X_REQUEST_ID=", 18);
    memset(param + 18, 'a', 129);
    param[18 + 128] = '\0';
    init(params);
    ck_assert_uint_eq(req.request_id.len, 128);
    param[18 + 128] = 'a';
    param[18 + 129] = '\0';
    init(params);
    ck_assert_uint_eq(req.request_id.len, 32);
}

TEST (test_head_has_status_ids_and_length) {
    http_header(&res, "Content-Type", "application/json");
    buf_addz(&res.body, "{}");
    finish();
    ck_assert_ptr_eq(strstr(head.data, "Status: 200 OK\r\n"), head.data);
    ck_assert_ptr_nonnull(
        strstr(head.data, "Content-Type: application/json\r\n"));
    ck_assert_ptr_nonnull(strstr(head.data, "X-Request-Id: "));
    ck_assert_ptr_nonnull(strstr(head.data, "X-Correlation-Id: "));
    ck_assert_ptr_nonnull(strstr(head.data, "Content-Length: 2\r\n\r\n"));
}

TEST (test_head_method_keeps_length_drops_body) {
    char *const params[] = {P("REQUEST_METHOD=HEAD"), NULL};

    init(params);
    buf_addz(&res.body, "{}");
    ck_assert_ptr_nonnull(strstr(finish(), "Content-Length: 2\r\n"));
    ck_assert_uint_eq(res.body.len, 0);
}

TEST (test_304_has_no_body) {
    res.status = 304;
    buf_addz(&res.body, "x");
    ck_assert_ptr_null(strstr(finish(), "Content-Length"));
    ck_assert_uint_eq(res.body.len, 0);
}

TEST (test_header_injection_is_a_500) {
    http_header(&res, "X-A", "fine");
    http_header(&res, "X-B", "a\r\nSet-Cookie: evil=1");
    finish();
    ck_assert_int_eq(res.status, 500);
    ck_assert_ptr_null(strstr(head.data, "evil"));
    ck_assert_ptr_nonnull(strstr(text_of(&res.body), "INTERNAL_ERROR"));
}

TEST (test_header_value_is_one_line) {
    static const char *const values[] = {"a\r", "a\nSet-Cookie: evil=1"};

    for (size_t i = 0; i < 2; i++) {
        res.headers.overflow = false;
        http_header(&res, "X-A", "fine");
        ck_assert(!res.headers.overflow);
        http_header(&res, "X-B", values[i]);
        ck_assert(res.headers.overflow);
    }
}

TEST (test_body_overflow_is_a_500) {
    for (int i = 0; i < 5000; i++) {
        buf_addc(&res.body, 'x');
    }
    finish();
    ck_assert_int_eq(res.status, 500);
    ck_assert_ptr_nonnull(strstr(head.data, "Status: 500 "));
}

TEST (test_problem_keeps_cookies_only) {
    http_header(&res, "Content-Type", "application/json");
    http_cookie_clear(&res, &cfg);
    http_header(&res, "X-Other", "y");
    buf_addz(&res.body, "half an answer");
    http_problem(&res, &req, 401, "AUTH_REFRESH_TOKEN_STALE", "a \"b\"", NULL);
    finish();
    ck_assert_ptr_nonnull(strstr(head.data, "Set-Cookie: rt=;"));
    ck_assert_ptr_null(strstr(head.data, "X-Other"));
    ck_assert_ptr_nonnull(
        strstr(head.data, "Content-Type: application/problem+json\r\n"));
    ck_assert_ptr_nonnull(strstr(head.data, "Cache-Control: no-store\r\n"));
    text_of(&res.body);
    ck_assert_ptr_eq(
        strstr(res.body.data,
               "{\"type\":\"about:blank\",\"title\":\"Unauthorized\","
               "\"status\":401,\"detail\":\"a \\\"b\\\"\","
               "\"code\":\"AUTH_REFRESH_TOKEN_STALE\",\"requestId\":\""),
        res.body.data);
}

/* -- cookies --------------------------------------------------------------
 */

static const struct {
    const char *header;
    enum http_cookie found;
    const char *value;
} cookies[] = {
    {"", HTTP_COOKIE_NONE, ""},
    {"rt=abc", HTTP_COOKIE_ONE, "abc"},
    {"a=1; rt=abc; b=2", HTTP_COOKIE_ONE, "abc"},
    {"a=1;rt=abc", HTTP_COOKIE_ONE, "abc"},
    {"rt=a=b==", HTTP_COOKIE_ONE, "a=b=="},
    {"rt=\"abc\"", HTTP_COOKIE_ONE, "abc"},
    {"xrt=1; rtx=2; RT=3", HTTP_COOKIE_NONE, ""},
    {"rt=", HTTP_COOKIE_NONE, ""},
    {"rt", HTTP_COOKIE_NONE, ""},
    {"rt=; rt=abc", HTTP_COOKIE_ONE, "abc"},
    {"rt=abc; rt=abc", HTTP_COOKIE_ONE, "abc"},
    {"rt=abc; rt=abd", HTTP_COOKIE_CONFLICT, NULL},
    {"rt=abc; rt=abcd", HTTP_COOKIE_CONFLICT, NULL},
    {";;; ; rt=x;", HTTP_COOKIE_ONE, "x"},
};

TESTS (test_cookie_find, LENGTH(cookies)) {
    pj_str_t value;

    ck_assert_int_eq(http_cookie_find(str(cookies[_i].header), "rt", &value),
                     cookies[_i].found);
    if (cookies[_i].value != NULL) {
        ck_assert(is(value, cookies[_i].value));
    }
}

TEST (test_cookie_attributes) {
    http_cookie_set(&res, &cfg, str("tok"), 60);
    ck_assert_str_eq(text_of(&res.headers),
                     "Set-Cookie: rt=tok; Path=/api/auth; Max-Age=60; "
                     "HttpOnly; SameSite=Lax\r\n");
    buf_reset(&res.headers);
    cfg.cookie_secure = true;
    cfg.cookie_same_site = SAME_SITE_NONE;
    http_cookie_clear(&res, &cfg);
    ck_assert_str_eq(text_of(&res.headers),
                     "Set-Cookie: rt=; Path=/api/auth; Max-Age=0; HttpOnly; "
                     "Secure; SameSite=None\r\n");
}

/* -- Authorization --------------------------------------------------------
 */

static const struct {
    const char *header;
    const char *token;
    bool dpop;
} tokens[] = {
    {"Bearer abc", "abc", false},
    {"bearer a.b-c_d~e+f/g=", "a.b-c_d~e+f/g=", false},
    {"BEARER   abc ", "abc", false},
    {"DPoP abc", "abc", true},
    {"dpop abc", "abc", true},
    {"DPoP a, DPoP b", "", true},
    {"DPoP", "", true},
    {"DPoPabc", "", false},
    {"Bearer", "", false},
    {"Bearer ", "", false},
    {"Bearerabc", "", false},
    {"Basic abc", "", false},
    {"Bearer a b", "", false},
    {"Bearer a,Bearer b", "", false},
    {"", "", false},
};

TESTS (test_token, LENGTH(tokens)) {
    bool dpop = !tokens[_i].dpop;

    ck_assert(is(http_token(str(tokens[_i].header), &dpop), tokens[_i].token));
    ck_assert(dpop == tokens[_i].dpop);
}

/* Two headers, or one without a value, are no proof; none is none. */
TEST (test_proof_headers) {
    static char one[] = "HTTP_DPOP=a.b.c", none[] = "HTTP_DPOP=";
    static char *const params[][4] = {{NULL},      {one},       {one, one},
                                      {none, one}, {one, none}, {none}};
    static const char *const want[] = {NULL, "a.b.c", ",", ",", ",", ","};

    for (int i = 0; i < LENGTH(want); i++) {
        http_request_init(&req, params[i], (pj_str_t){NULL, 0}, false);
        ck_assert((req.dpop.data == NULL) == (want[i] == NULL));
        ck_assert(want[i] == NULL || is(req.dpop, want[i]));
    }
}

/* -- Origin ---------------------------------------------------------------
 */

static const struct {
    const char *origin;
    const char *host;
    const char *site;
    bool allowed;
} origins[] = {
    {"", "h", "", true}, /* no browser */
    {"", "h", "same-origin", true},
    {"", "h", "cross-site", false},
    {"null", "h", "", false}, /* any sandboxed page's, listed or not */
    {"https://app.example.com", "h", "", true},
    {"https://app.example.com:444", "h", "", false},
    {"http://app.example.com", "h", "", false},
    {"https://app.example.com.evil.com", "h", "", false},
    {"https://APP.example.com", "h", "", false}, /* no browser's */
    {"https://a.example.org", "h", "", true},
    {"https://a.b.example.org", "h", "", true},
    {"https://a_b.example.org", "h", "", true},
    {"https://a.example.org:443", "h", "", false}, /* no browser's */
    {"https://example.org", "h", "", false},
    {"https://.example.org", "h", "", false},
    {"https://a..example.org", "h", "", false},
    {"https://evil.com/.example.org", "h", "", false},
    {"https://evil.com:1.example.org", "h", "", false},
    {"https://aexample.org", "h", "", false},
    {"http://127.0.0.1:8080", "127.0.0.1:8080", "", true},
    {"http://127.0.0.1:8080", "127.0.0.1:8081", "", false},
    {"https://b.example", "h", "", true}, /* as browsers send it */
    {"https://b.example:80", "h", "", false},
    {"http://b.example", "h", "", false},
    {"http://c.example", "h", "", true},
    {"http://c.example:443", "h", "", true},
    {"https://c.example", "h", "", false},
    {"https://a.d.example", "h", "", true},
    {"https://A.d.example", "h", "", false},
    {"https://d.example", "h", "", false},
    {"https://own.test", "own.test", "", true},
    {"https://own.test", "own.test:", "", true},
    {"https://own.test", "OWN.test:443", "", true},
    {"https://own.test:8443", "own.test", "", false},
    {"http://[::1]:8080", "[::1]:8080", "", true},
    {"http://[::1]", "[::1]", "", true},
    {"file://own.test", "own.test", "", false},
    {"http://", "", "", false},
    {"own.test", "own.test", "", false},
};

TESTS (test_origin, LENGTH(origins)) {
    req.origin = str(origins[_i].origin);
    req.host = str(origins[_i].host);
    req.sec_fetch_site = str(origins[_i].site);
    ck_assert_msg(http_origin_allowed(&cfg, &req) == origins[_i].allowed,
                  "origin %s", origins[_i].origin);
}

TEST (test_own_origin_with_tls) {
    req.scheme = str("https");
    req.host = str("own.test");
    req.origin = str("https://own.test");
    ck_assert(http_origin_allowed(&cfg, &req));
    req.origin = str("http://own.test");
    ck_assert(!http_origin_allowed(&cfg, &req));
    req.origin = str("http://c.example"); /* listed */
    ck_assert(http_origin_allowed(&cfg, &req));
}

/* -- media type, etag -----------------------------------------------------
 */

static const struct {
    const char *type;
    bool json;
} types[] = {
    {"application/json", true},
    {"Application/JSON", true},
    {"application/json; charset=utf-8", true},
    {"application/json;charset=\"UTF-8\"", true},
    {" application/json ; charset = utf-8 ;", true},
    {"application/json; charset=latin1", false},
    {"application/jsonp", false},
    {"application/problem+json", false},
    {"text/json", false},
    {"", false},
};

TESTS (test_media_type, LENGTH(types)) {
    ck_assert_msg(http_is_json(str(types[_i].type)) == types[_i].json, "%s",
                  types[_i].type);
}

static const struct {
    const char *header;
    bool weak, strong; /* what matches by which comparison */
} etags[] = {
    {"\"abc\"", true, true},
    {"W/\"abc\"", true, false},
    {"*", true, true},
    {" * ", true, true},
    {"\"x\", \"abc\"", true, true},
    {"\"x\",W/\"abc\"", true, false},
    {"W/\"abc\", \"abc\"", true, true},
    {"\"a,\\bc\", \"abc\"", true, true},
    {"\"abd\"", false, false},
    {"abc", false, false},
    {"\"abc", false, false},
    {"", false, false},
    {"w/\"abc\"", false, false},
};

TESTS (test_etag, LENGTH(etags)) {
    pj_str_t value = str(etags[_i].header);

    ck_assert_msg(http_etag_matches(value, "\"abc\"", false) == etags[_i].weak,
                  "%s", etags[_i].header);
    ck_assert_msg(http_etag_matches(value, "\"abc\"", true) == etags[_i].strong,
                  "%s, strongly", etags[_i].header);
}

static void fill(TCase *t)
{
    tcase_add_checked_fixture(t, setup, NULL);
}

int main(void)
{
    return run_case("http", fill);
}
