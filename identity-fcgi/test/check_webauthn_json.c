/* Passkeys: the JSON that browsers get, and the JSON that they return.
 *
 * With --judge it reads a JSON object a line, a registration or an assertion
 * with what the service keeps, and prints a verdict a line: for
 * t/node/passkeys.mjs. */

#include "auth/webauthn_json.h"
#include "handlers.h"

#include <web.h>

#define ID "MDEyMzQ1Njc4OWFiY2RlZg" /* 16 bytes */
#define CHALLENGE_TEXT "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"

static char rp_id[] = "example.org", origins[] = "https://example.org";

/* -- options -- */

static const char *written(void (*write)(struct jsonw *, const char *,
                                         const struct config *,
                                         const struct webauthn_options *),
                           const struct webauthn_options *options)
{
    struct config rp = {.webauthn_rp_id = rp_id, .webauthn_origins = origins};
    struct jsonw json;
    struct buf out;

    buf_init(&out, text, sizeof(text));
    jsonw_init(&json, &out);
    jsonw_object(&json, NULL);
    write(&json, "options", &rp, options);
    jsonw_object_end(&json);
    buf_addc(&out, '\0');
    ck_assert(!out.overflow);
    return text;
}

TEST (test_creation_options) {
    struct webauthn_options options = {
        .challenge = str("0123456789abcdef0123456789abcdef"),
        .user = str("handle"),
        .account = str("Ada \"L\"")};

    ck_assert_str_eq(
        written(webauthn_json_creation, &options),
        "{\"options\":{\"rp\":{\"id\":\"example.org\",\"name\":\"example.org\"}"
        ",\"user\":{\"id\":\"aGFuZGxl\",\"name\":\"Ada \\\"L\\\"\","
        "\"displayName\":\"Ada \\\"L\\\"\"},\"challenge\":\"" CHALLENGE_TEXT
        "\",\"pubKeyCredParams\":[{\"type\":\"public-key\",\"alg\":-8},"
        "{\"type\":\"public-key\",\"alg\":-7},"
        "{\"type\":\"public-key\",\"alg\":-257}],\"timeout\":300000,"
        "\"excludeCredentials\":[],\"authenticatorSelection\":{"
        "\"residentKey\":\"required\",\"requireResidentKey\":true,"
        "\"userVerification\":\"required\"},\"attestation\":\"none\"}}");
}

TEST (test_request_options) {
    static const struct webauthn_credential known[] = {
        {.id = PJ_STR("0123456789abcdef"), .transports = 0x3f},
        {.id = PJ_STR("fedcba9876543210"), .transports = 4}};
    struct webauthn_options options = {
        .challenge = str("0123456789abcdef0123456789abcdef"),
        .known = known,
        .count = 2};
    static struct webauthn_credential ten[10];
    static unsigned char id[WEBAUTHN_ID_MAX];
    char end[4] = {0};

    ck_assert_str_eq(
        written(webauthn_json_request, &options),
        "{\"options\":{\"challenge\":\"" CHALLENGE_TEXT "\",\"timeout\":300000,"
        "\"rpId\":\"example.org\",\"allowCredentials\":["
        "{\"type\":\"public-key\",\"id\":\"" ID "\",\"transports\":[\"ble\","
        "\"hybrid\",\"internal\",\"nfc\",\"smart-card\",\"usb\"]},"
        "{\"type\":\"public-key\",\"id\":\"ZmVkY2JhOTg3NjU0MzIxMA\","
        "\"transports\":[\"internal\"]}],\"userVerification\":\"required\"}}");
    for (int i = 0; i < 10; i++) {
        ten[i].id = (pj_str_t){id, sizeof(id)};
    }
    options.known = ten;
    options.count = 10;
    snprintf(end, sizeof(end), "%s",
             strstr(written(webauthn_json_creation, &options), "AAAA\"") + 3);
    ck_assert_str_eq(end, "A\",");
}

/* -- responses -- */

#define RESPONSE(id, raw_id, type, response)                                   \
    "{'credential':{'id':" id ",'rawId':" raw_id ",'type':" type               \
    ",'response':" response ",'authenticatorAttachment':'platform',"           \
    "'clientExtensionResults':{'prf':{'results':{'first':'AA'}}}}}"
#define PART(response)                                                         \
    RESPONSE("'" ID "'", "'" ID "'", "'public-key'", response)
#define CREATED                                                                \
    "'clientDataJSON':'e30','attestationObject':'oA','authenticatorData':'AA'" \
    ",'publicKeyAlgorithm':-7"
#define GOT "'clientDataJSON':'e30','authenticatorData':'AA','signature':'MA'"

static struct webauthn_registration created;
static struct webauthn_assertion got;

/* Quotes of the template are single. */
static bool read_one(const char *template, bool registration)
{
    static char json[64 * 1024];
    struct body root, credential;

    snprintf(json, sizeof(json), "%s", template);
    for (char *p = json; *p != '\0'; p++) {
        *p = *p == '\'' ? '"' : *p;
    }
    req.body = str(json);
    if (!body_read(&w, false, &root)) {
        return false;
    }
    if (body_object(&root, "credential", BODY_REQUIRED, &credential)) {
        if (registration) {
            webauthn_json_registration(&credential, &created);
        } else {
            webauthn_json_assertion(&credential, &got);
        }
    }
    return auth_faultless(&w);
}

TEST (test_what_browsers_return) {
    ck_assert(read_one(PART("{" CREATED ",'transports':['usb','x-new','ble']}"),
                       true));
    ck_assert(is(created.id, "0123456789abcdef"));
    ck_assert(is(created.client_data, "{}"));
    ck_assert(is(created.attestation, "\xa0"));
    ck_assert_uint_eq(created.transports, 0x21);
    ck_assert(read_one(PART("{" CREATED "}"), true));
    ck_assert_uint_eq(created.transports, 0);
    ck_assert(read_one(PART("{" GOT ",'userHandle':'aGFuZGxl'}"), false));
    ck_assert(is(got.id, "0123456789abcdef"));
    ck_assert(is(got.client_data, "{}"));
    ck_assert_uint_eq(got.auth_data.len, 1);
    ck_assert(is(got.signature, "0"));
    ck_assert(is(got.user, "handle"));
    ck_assert(read_one(PART("{" GOT ",'userHandle':null}"), false));
    ck_assert_ptr_null(got.user.data);
    ck_assert(read_one(PART("{" GOT "}"), false));
    ck_assert_ptr_null(got.user.data);
}

#define FAULT(pointer, code)                                                   \
    "\"errors\":[{\"pointer\":\"/credential" pointer "\",\"code\":\"" code "\""

static const struct {
    const char *body, *fault;
    bool registration;
} faults[] = {
    {"{}", FAULT("", "missing"), true},
    {"{'credential':[]}", FAULT("", "wrong_type"), false},
    {RESPONSE("'" ID "'", "'" ID "'", "'password'", "{" CREATED "}"),
     FAULT("/type", "not_allowed"), true},
    {RESPONSE("'" ID "'", "'" ID "'", "1", "{" GOT "}"),
     FAULT("/type", "wrong_type"), false},
    {RESPONSE("'" ID "'", "'MDEyMzQ1Njc4OWFiY2RlZw'", "'public-key'",
              "{" CREATED "}"),
     FAULT("/rawId", "not_allowed"), true},
    {RESPONSE("'" ID "'", "'" ID "AA'", "'public-key'", "{" GOT "}"),
     FAULT("/rawId", "not_allowed"), false},
    {RESPONSE("'" ID "=='", "'" ID "=='", "'public-key'", "{" GOT "}"),
     FAULT("/id", "malformed"), false},
    {RESPONSE("'MDEyMzQ1Njc4OWFiY2Rl'", "'MDEyMzQ1Njc4OWFiY2Rl'",
              "'public-key'", "{" GOT "}"),
     FAULT("/id", "too_short"), false},
    {RESPONSE("['" ID "']", "'" ID "'", "'public-key'", "{" GOT "}"),
     FAULT("/id", "wrong_type"), false},
    {PART("[]"), FAULT("/response", "wrong_type"), true},
    {PART("{'attestationObject':'oA'}"),
     FAULT("/response/clientDataJSON", "missing"), true},
    {PART("{'clientDataJSON':'','attestationObject':'oA'}"),
     FAULT("/response/clientDataJSON", "too_short"), true},
    {PART("{'clientDataJSON':'e30'}"),
     FAULT("/response/attestationObject", "missing"), true},
    {PART("{'clientDataJSON':'e30','attestationObject':'o+/='}"),
     FAULT("/response/attestationObject", "malformed"), true},
    {PART("{" CREATED ",'transports':'usb'}"),
     FAULT("/response/transports", "wrong_type"), true},
    {PART("{" CREATED ",'transports':['usb',1]}"),
     FAULT("/response/transports/1", "wrong_type"), true},
    {PART("{'clientDataJSON':'e30','signature':'MA'}"),
     FAULT("/response/authenticatorData", "missing"), false},
    {PART("{'clientDataJSON':'e30','authenticatorData':'AA'}"),
     FAULT("/response/signature", "missing"), false},
    {PART("{" GOT ",'userHandle':''}"),
     FAULT("/response/userHandle", "too_short"), false},
    {PART("{" GOT ",'userHandle':{}}"),
     FAULT("/response/userHandle", "wrong_type"), false},
};

TESTS (test_faults, LENGTH(faults)) {
    ck_assert(!read_one(faults[_i].body, faults[_i].registration));
    ck_assert_int_eq(res.status, 400);
    snprintf(text, sizeof(text), "%.*s", (int) res.body.len, res.body.data);
    ck_assert_msg(strstr(text, faults[_i].fault) != NULL, "%s", text);
}

/* The longest of each, and one byte more. */
TEST (test_lengths) {
    static const struct {
        const char *before, *after, *pointer;
        int max;
        bool registration;
    } members[] = {
        {"{'clientDataJSON':'", "','attestationObject':'oA'}",
         FAULT("/response/clientDataJSON", "too_long"), 5462, true},
        {"{'clientDataJSON':'e30','attestationObject':'", "'}",
         FAULT("/response/attestationObject", "too_long"), 8192, true},
        {"{'clientDataJSON':'e30','signature':'MA','authenticatorData':'", "'}",
         FAULT("/response/authenticatorData", "too_long"), 5462, false},
        {"{'clientDataJSON':'e30','authenticatorData':'AA','signature':'", "'}",
         FAULT("/response/signature", "too_long"), 683, false},
        {"{" GOT ",'userHandle':'", "'}",
         FAULT("/response/userHandle", "too_long"), 86, false},
    };
    static char body[32 * 1024], many[16 * 1024];

    memset(many, 'A', sizeof(many));
    for (int i = 0; i < LENGTH(members); i++) {
        for (int more = 0; more < 2; more++) {
            memset(&w.faults, 0, sizeof(w.faults));
            snprintf(body, sizeof(body),
                     "{'credential':{'id':'" ID "','rawId':'" ID
                     "','type':'public-key','response':%s%.*s%s}}",
                     members[i].before, members[i].max + more, many,
                     members[i].after);
            ck_assert_int_eq(read_one(body, members[i].registration), !more);
            snprintf(text, sizeof(text), "%.*s", (int) res.body.len,
                     res.body.data);
            ck_assert(!more || strstr(text, members[i].pointer) != NULL);
        }
    }
}

/* -- a second opinion -- */

static pj_str_t field(pj_str_t *line)
{
    return web_split(*line, '\t', line);
}

static pj_str_t bytes_of(pj_str_t text_of)
{
    unsigned char *mem = pj_arena_alloc(&w.arena, text_of.len + 1);
    pj_str_t out = {mem, 0};

    if (mem == NULL || pj_b64url_decode(mem, text_of.len, &out.len, text_of)) {
        abort();
    }
    return out;
}

/* Verifies a line: create, challenge, JSON; or get, challenge, user handle,
 * key, counter, 1 if it is eligible for backup, JSON.  Bytes are base64url. */
static const char *judge(pj_str_t line)
{
    bool create = pj_str_eq(field(&line), PJ_STR("create"));
    pj_str_t challenge = bytes_of(field(&line));
    struct webauthn_credential kept = {.counter = 0};
    struct body root;

    if (!create) {
        kept.user = bytes_of(field(&line));
        kept.key = bytes_of(field(&line));
        kept.counter =
            (uint32_t) strtoul((const char *) field(&line).data, NULL, 10);
        kept.backup_eligible = pj_str_eq(field(&line), PJ_STR("1"));
    }
    req.body = line;
    if (!body_read(&w, false, &root)) {
        return "json";
    }
    if (create) {
        webauthn_json_registration(&root, &created);
    } else {
        webauthn_json_assertion(&root, &got);
        kept.id = got.id;
    }
    if (!auth_faultless(&w)) {
        return "json";
    }
    return webauthn_errname(
        create
            ? webauthn_register(&cfg, &w.arena, challenge, &created, &kept)
            : webauthn_assert(&cfg, &w.arena, challenge, &got, false, &kept));
}

static int judge_all(void)
{
    static char line[HTTP_BODY_MAX * 2];

    cfg.webauthn_rp_id = rp_id;
    cfg.webauthn_origins = origins;
    w.cfg = &cfg;
    w.req = &req;
    w.res = &res;
    req.content_type = PJ_STR("application/json");
    while (fgets(line, sizeof(line), stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        memset(&w.faults, 0, sizeof(w.faults));
        pj_arena_init(&w.arena, arena, sizeof(arena));
        http_response_init(&res, header_mem, sizeof(header_mem), body_mem,
                           sizeof(body_mem));
        puts(judge(str(line)));
    }
    return 0;
}

int main(int argc, char **argv)
{
    return argc == 2 && strcmp(argv[1], "--judge") == 0
               ? judge_all()
               : run_tests("webauthn_json");
}
