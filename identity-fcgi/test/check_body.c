/* Reading bodies: each fault is named, what has none is read. */

#include "auth/body.h"
#include "handlers.h"

#include "auth/handlers.h"

/* -- a call with every kind of member -- */

static struct {
    pj_str_t account, credential;
    const char *name, *type, *ids[2];
    const char *roles[2];
    int64_t ttl_s;
    bool flag;
    size_t id_count, role_count;
} got;

static void read_grants(const struct body *root)
{
    struct body grants, grant, list, role;

    if (!body_array(root, "grants", BODY_OPTIONAL, 2, &grants)) {
        return;
    }
    while (body_next(&grants, &grant)) {
        static const char *const known[] = {"branchId", "roles", NULL};

        if (!body_object(&grant, NULL, BODY_REQUIRED, &grant)) {
            continue;
        }
        body_only(&grant, known);
        got.id_count += body_uuid(&grant, "branchId", BODY_REQUIRED,
                                  &got.ids[got.id_count]);
        if (body_array(&grant, "roles", BODY_OPTIONAL, 2, &list)) {
            while (body_next(&list, &role)) {
                got.role_count += body_text(&role, NULL, BODY_REQUIRED, 1, 4,
                                            &got.roles[got.role_count]);
            }
        }
    }
}

static bool read_all(const char *json)
{
    static const char *const words[] = {"CUSTOMER", "OPERATOR", NULL};
    static const char *const known[] = {"account", "credential", "name",
                                        "type",    "ttl",        "flag",
                                        "a/b~",    "grants",     NULL};
    struct body root;

    memset(&got, 0, sizeof(got));
    req.body = str(json);
    if (!body_read(&w, true, &root)) {
        return false;
    }
    body_only(&root, known);
    body_account(&root, "account", BODY_OPTIONAL, &got.account);
    body_credential(&root, "credential", BODY_OPTIONAL, &got.credential);
    body_text(&root, "name", BODY_NULLABLE, 1, 8, &got.name);
    body_word(&root, "type", BODY_OPTIONAL, words, &got.type);
    body_integer(&root, "ttl", BODY_OPTIONAL, 300, 86400, &got.ttl_s);
    body_flag(&root, "flag", BODY_OPTIONAL, &got.flag);
    body_string(&root, "a/b~", BODY_OPTIONAL, 0, 0, &(pj_str_t){NULL, 0});
    read_grants(&root);
    return auth_faultless(&w);
}

/* The member errors of the answer. */
static const char *errors(void)
{
    static const char before[] = "\"errors\":[";
    char *at, *end;

    ck_assert_int_eq(res.status, 400);
    snprintf(text, sizeof(text), "%.*s", (int) res.body.len, res.body.data);
    at = strstr(text, before);
    end = strrchr(text, ']');
    ck_assert(at != NULL && end != NULL);
    *end = '\0';
    return at + strlen(before);
}

#define BRANCH_ID "\"branchId\":\"" BRANCH "\""
#define GRANT "{" BRANCH_ID "}"
#define FAULT(pointer, rest) "{\"pointer\":\"" pointer "\",\"code\":" rest "}"

TEST (test_what_has_no_fault) {
    ck_assert(read_all(""));
    ck_assert(read_all("{}"));
    ck_assert_ptr_null(got.name);
    ck_assert(read_all("{\"name\":null,\"grants\":[]}"));
    ck_assert_ptr_null(got.name);
    ck_assert(read_all(
        "{\"account\":\" Ada \",\"credential\":\"x\",\"name\":\"12345678\","
        "\"type\":\"OPERATOR\",\"ttl\":300,\"flag\":true,\"a/b~\":\"\","
        "\"grants\":[{" BRANCH_ID ",\"roles\":[\"a\",\"four\"]}," GRANT "]}"));
    ck_assert(pj_str_eq(got.account, PJ_STR("ada")));
    ck_assert(pj_str_eq(got.credential, PJ_STR("x")));
    ck_assert_str_eq(got.name, "12345678");
    ck_assert_str_eq(got.type, "OPERATOR");
    ck_assert_int_eq(got.ttl_s, 300);
    ck_assert(got.flag);
    ck_assert_uint_eq(got.id_count, 2);
    ck_assert_str_eq(got.ids[1], BRANCH);
    ck_assert_uint_eq(got.role_count, 2);
    ck_assert_str_eq(got.roles[1], "four");
    ck_assert(read_all("{\"ttl\":86400}"));
    ck_assert_int_eq(got.ttl_s, 86400);
}

static const struct {
    const char *body, *errors;
} faults[] = {
    {"[1", FAULT("", "\"malformed\"")},
    {"{\"flag\":true,\"flag\":true}", FAULT("", "\"malformed\"")},
    {"{\"name\":\"\xff\"}", FAULT("", "\"malformed\"")},
    {"[]", FAULT("", "\"wrong_type\"")},
    {"{\"Flag\":true}", FAULT("/Flag", "\"unknown\"")},
    {"{\"~/x\":1}", FAULT("/~0~1x", "\"unknown\"")},
    {"{\"a/b~\":1}", FAULT("/a~1b~0", "\"wrong_type\"")},
    {"{\"account\":1}", FAULT("/account", "\"wrong_type\"")},
    {"{\"account\":\" \"}", FAULT("/account", "\"too_short\",\"minimum\":1")},
    {"{\"account\":\"a\\u0001\"}", FAULT("/account", "\"malformed\"")},
    {"{\"credential\":\"\"}",
     FAULT("/credential", "\"too_short\",\"minimum\":1")},
    {"{\"credential\":null}", FAULT("/credential", "\"wrong_type\"")},
    {"{\"name\":\"\"}", FAULT("/name", "\"too_short\",\"minimum\":1")},
    {"{\"name\":\"123456789\"}", FAULT("/name", "\"too_long\",\"maximum\":8")},
    {"{\"type\":\"operator\"}", FAULT("/type", "\"not_allowed\"")},
    {"{\"ttl\":299}",
     FAULT("/ttl", "\"out_of_range\",\"minimum\":300,\"maximum\":86400")},
    {"{\"ttl\":86401}",
     FAULT("/ttl", "\"out_of_range\",\"minimum\":300,\"maximum\":86400")},
    {"{\"ttl\":100000000000000000600}",
     FAULT("/ttl", "\"out_of_range\",\"minimum\":300,\"maximum\":86400")},
    {"{\"ttl\":600.0}", FAULT("/ttl", "\"wrong_type\"")},
    {"{\"ttl\":6e2}", FAULT("/ttl", "\"wrong_type\"")},
    {"{\"ttl\":\"600\"}", FAULT("/ttl", "\"wrong_type\"")},
    {"{\"flag\":1}", FAULT("/flag", "\"wrong_type\"")},
    {"{\"grants\":{}}", FAULT("/grants", "\"wrong_type\"")},
    {"{\"grants\":[" GRANT "," GRANT "," GRANT "]}",
     FAULT("/grants", "\"too_long\",\"maximum\":2")},
    {"{\"grants\":[1," GRANT "]}", FAULT("/grants/0", "\"wrong_type\"")},
    {"{\"grants\":[" GRANT ",{}]}", FAULT("/grants/1/branchId", "\"missing\"")},
    {"{\"grants\":[{\"branchId\":\"x\"}]}",
     FAULT("/grants/0/branchId", "\"malformed\"")},
    {"{\"grants\":[{" BRANCH_ID ",\"role\":1}]}",
     FAULT("/grants/0/role", "\"unknown\"")},
    {"{\"grants\":[{" BRANCH_ID ",\"roles\":[\"a\",\"\"]}]}",
     FAULT("/grants/0/roles/1", "\"too_short\",\"minimum\":1")},
    /* several */
    {"{\"name\":\"\",\"grants\":[{\"x\":1}],\"flag\":null}",
     FAULT("/name", "\"too_short\",\"minimum\":1") "," FAULT(
         "/flag",
         "\"wrong_type\"") "," FAULT("/grants/0/x",
                                     "\"unknown\"") "," FAULT("/grants/0/"
                                                              "branchId",
                                                              "\"missing\"")},
};

TEST (test_each_fault_is_named) {
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        ck_assert_msg(!read_all(faults[i].body), "%s", faults[i].body);
        ck_assert_str_eq(errors(), faults[i].errors);
        ck_assert_str_eq(res.code, "REQUEST_INVALID");
    }
}

TEST (test_detail_is_of_the_first) {
    ck_assert(!read_all("{\"flag\":1,\"grants\":[{}]}"));
    ck_assert(
        body_has("\"detail\":\"The member flag must be true or false.\""));
    ck_assert(!read_all("{\"grants\":[{}]}"));
    ck_assert(
        body_has("\"detail\":\"The member grants/0/branchId is missing.\""));
}

/* A name that is too long for a pointer is not repeated; nor are more faults
 * than fit. */
TEST (test_bounds) {
    char json[1024] = "{", longest[65] = "";
    size_t len = 1;

    memset(longest, 'n', 64);
    snprintf(json, sizeof(json), "{\"%s\":1,\"%sn\":2}", longest, longest);
    ck_assert(!read_all(json));
    ck_assert(pj_str_eq(str(errors()),
                        join("{\"pointer\":\"/", longest,
                             "\",\"code\":\"unknown\"},"
                             "{\"pointer\":\"\",\"code\":\"unknown\"}")));
    for (int i = 0; i <= FAULTS_MAX; i++) {
        len += (size_t) snprintf(json + len, sizeof(json) - len, "%s\"x%d\":1",
                                 i > 0 ? "," : "", i);
    }
    snprintf(json + len, sizeof(json) - len, "}");
    ck_assert(!read_all(json));
    ck_assert_ptr_nonnull(strstr(errors(), "\"/x15\""));
    ck_assert_ptr_null(strstr(errors(), "\"/x16\""));
}

/* Without memory there is no verdict. */
TEST (test_no_memory) {
    static const char json[] = "{\"name\":\"Ada\",\"flag\":1}";
    struct body root;
    const char *name = NULL;
    bool flag;

    ck_assert(!read_all(json));
    req.body = str(json);
    ck_assert(body_read(&w, true, &root));
    w.arena.pos = w.arena.end;
    ck_assert(!body_text(&root, "name", BODY_REQUIRED, 0, 0, &name));
    ck_assert(!body_flag(&root, "flag", BODY_REQUIRED, &flag));
    ck_assert(!auth_faultless(&w));
    ck_assert_int_eq(res.status, 500);
    ck_assert(!body_has("\"errors\""));
}

/* -- the calls -- */

static const struct {
    handler_fn *handler;
    char kind; /* of the access token, or 0 */
    const char *body, *errors;
} calls[] = {
    {h_login, 0, "{}",
     FAULT("/account", "\"missing\"") "," FAULT("/credential", "\"missing\"")},
    {h_login, 0, "{\"account\":\"\",\"credential\":1}",
     FAULT("/account", "\"too_short\",\"minimum\":1") "," FAULT(
         "/credential", "\"wrong_type\"")},
    {h_refresh, 0,
     "{\"refreshToken\":1,\"includeAccountToken\":null,\"sessionId\":null}",
     FAULT("/refreshToken", "\"wrong_type\"") "," FAULT(
         "/includeAccountToken", "\"wrong_type\"") "," FAULT("/sessionId",
                                                             "\"wrong_type\"")},
    {h_sessions_logout, 0, "{\"refreshToken\":{}}",
     FAULT("/refreshToken", "\"wrong_type\"")},
    {h_select_branch, 'a', "{\"branchId\":null}",
     FAULT("/branchId", "\"wrong_type\"")},
    {h_change_credential, 'a', "{\"credential\":\"\"}",
     FAULT("/credential", "\"too_short\",\"minimum\":1") "," FAULT(
         "/newCredential", "\"missing\"")},
    {h_reset_credential, 0, "{\"account\":\"\\t\",\"newCredential\":\"\"}",
     FAULT("/account", "\"too_short\",\"minimum\":1") "," FAULT(
         "/resetCode", "\"missing\"") "," FAULT("/newCredential",
                                                "\"too_short\",\"minimum\":1")},
};

TEST (test_calls_name_each_fault) {
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (calls[i].kind != 0) {
            send_bearer(issue(calls[i].kind, SESSION, JTI, 10, 900));
        }
        req.body = str(calls[i].body);
        calls[i].handler(&w);
        ck_assert_str_eq(errors(), calls[i].errors);
        ck_assert_str_eq(db.calls, "");
    }
}

/* What is not good is named, and never repeated. */
TEST (test_no_value_is_repeated) {
    char body[2048] = "{\"account\":\"Hunter\\u0001\",\"credential\":\"";
    size_t len = strlen(body);

    memset(body + len, 'S', 1025);
    snprintf(body + len + 1025, sizeof(body) - len - 1025, "\"}");
    req.body = str(body);
    h_login(&w);
    ck_assert_str_eq(errors(),
                     FAULT("/account", "\"malformed\"") "," FAULT(
                         "/credential", "\"too_long\",\"maximum\":1024"));
    ck_assert(!body_has("unter") && !body_has("SS"));
}

TEST (test_tokens_in_conflict) {
    send_in_body("one");
    send_in_cookie("other");
    h_refresh(&w);
    ck_answer(400, "AUTH_REFRESH_TOKEN_CONFLICT", "");
    ck_assert_str_eq(errors(), FAULT("/refreshToken", "\"conflict\""));
    send_body("");
    req.cookie = str("rt=one; rt=other");
    h_refresh(&w);
    ck_answer(400, "AUTH_REFRESH_TOKEN_CONFLICT", "");
    ck_assert_str_eq(errors(), "{\"header\":\"Cookie\",\"code\":\"conflict\"}");
}

/* A refusal that is no fault of the body has none. */
TEST (test_other_refusals_name_none) {
    auth_fault(&w, (struct fault){.code = FAULT_UNKNOWN, .pointer = "/x"},
               "Known later on.");
    auth_refuse(&w, 404, "RESOURCE_NOT_FOUND", "There is nothing.");
    ck_assert(!body_has("\"errors\""));
    req.content_type = PJ_STR("text/plain");
    send_body("{}");
    h_login(&w);
    ck_answer(415, "MEDIA_TYPE_UNSUPPORTED", "");
    ck_assert(!body_has("\"errors\""));
}

int main(void)
{
    return run_tests("bodies");
}
