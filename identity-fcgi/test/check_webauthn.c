/* Passkeys: what a browser returns, and each refusal beside it. */

#include "auth/webauthn_cbor.h"
#include "authenticator.h"

/* -- what is accepted -- */

TESTS (test_register_and_log_in, LENGTH(algs)) {
    static const size_t key_len[] = {91, 44, 294};
    struct webauthn_credential kept;
    struct webauthn_registration r;
    struct make m = {.flags = UP | UV | BE | AT, .counter = 7};

    make_authenticator(&device, algs[_i]);
    r = make_registration(&device, &m);
    r.transports = 5;
    ACCEPTED(registered(r, &kept));
    ck_assert(pj_str_eq(kept.id, r.id));
    ck_assert_uint_eq(kept.key.len, key_len[_i]);
    ck_assert_uint_eq(kept.counter, 7);
    ck_assert_uint_eq(kept.transports, 5);
    ck_assert(kept.backup_eligible && !kept.backed_up);
    m = (struct make){.flags = UP | UV | BE | BS, .counter = 8};
    ACCEPTED(asserted(make_assertion(&device, &m), &kept));
    ck_assert_uint_eq(kept.counter, 8);
    ck_assert(kept.backed_up);
    m.client = CLIENT("");
    m.counter = 9;
    ACCEPTED(asserted(make_assertion(&device, &m), &kept));
}

/* -- client data -- */

#define OTHER(type, challenge, origin)                                         \
    "{'type':" type ",'challenge':" challenge ",'origin':" origin "}"
#define OTHER_TYPE(type) OTHER(type, "'$'", "'https://example.org'")
#define OTHER_CHALLENGE(challenge)                                             \
    OTHER("'webauthn.~'", challenge, "'https://example.org'")
#define OTHER_ORIGIN(origin) OTHER("'webauthn.~'", "'$'", origin)

static const struct {
    const char *client;
    enum webauthn_error want;
} clients[] = {
    {CLIENT(""), WEBAUTHN_OK},
    {CLIENT(",'crossOrigin':false,'later':[{}]"), WEBAUTHN_OK},
    {"\n" CLIENT(" ") "\n", WEBAUTHN_OK},
    {OTHER_ORIGIN("'https://app.example.org:8443'"), WEBAUTHN_OK},
    {"", WEBAUTHN_CLIENT_DATA},
    {CLIENT("") "x", WEBAUTHN_CLIENT_DATA},
    {"[" CLIENT("") "]", WEBAUTHN_CLIENT_DATA},
    {"\xef\xbb\xbf" CLIENT(""), WEBAUTHN_CLIENT_DATA},
    {CLIENT(",'origin':'https://example.org'"), WEBAUTHN_CLIENT_DATA},
    {CLIENT(",'x':'\xff'"), WEBAUTHN_CLIENT_DATA},
    {OTHER_TYPE("'webauthn.~ '"), WEBAUTHN_TYPE},
    {OTHER_TYPE("'Webauthn.~'"), WEBAUTHN_TYPE},
    {OTHER_TYPE("'payment.~'"), WEBAUTHN_TYPE},
    {OTHER_TYPE("['webauthn.~']"), WEBAUTHN_TYPE},
    {OTHER_TYPE("{'webauthn.~':true}"), WEBAUTHN_TYPE},
    {OTHER_TYPE("null"), WEBAUTHN_TYPE},
    {"{'challenge':'$','origin':'https://example.org'}", WEBAUTHN_TYPE},
    {OTHER_CHALLENGE("'$='"), WEBAUTHN_CHALLENGE},
    {OTHER_CHALLENGE("'$A'"), WEBAUTHN_CHALLENGE},
    {OTHER_CHALLENGE("['$']"), WEBAUTHN_CHALLENGE},
    {OTHER_CHALLENGE("''"), WEBAUTHN_CHALLENGE},
    {OTHER_CHALLENGE("'MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWx'"),
     WEBAUTHN_CHALLENGE},
    {"{'type':'webauthn.~','origin':'https://example.org'}",
     WEBAUTHN_CHALLENGE},
    {OTHER_ORIGIN("'https://example.org:8443'"), WEBAUTHN_ORIGIN},
    {OTHER_ORIGIN("'http://example.org'"), WEBAUTHN_ORIGIN},
    {OTHER_ORIGIN("'https://example.org/'"), WEBAUTHN_ORIGIN},
    {OTHER_ORIGIN("'https://evil.example.org'"), WEBAUTHN_ORIGIN},
    {OTHER_ORIGIN("'https://example.org.evil.test'"), WEBAUTHN_ORIGIN},
    {OTHER_ORIGIN("'https://Example.org'"), WEBAUTHN_ORIGIN},
    {OTHER_ORIGIN("['https://example.org']"), WEBAUTHN_ORIGIN},
    {OTHER_ORIGIN("''"), WEBAUTHN_ORIGIN},
    {OTHER_ORIGIN("null"), WEBAUTHN_ORIGIN},
    {"{'type':'webauthn.~','challenge':'$'}", WEBAUTHN_ORIGIN},
    {CLIENT(",'crossOrigin':true"), WEBAUTHN_CROSS_ORIGIN},
    {CLIENT(",'crossOrigin':'false'"), WEBAUTHN_CROSS_ORIGIN},
    {CLIENT(",'crossOrigin':null"), WEBAUTHN_CROSS_ORIGIN},
    {CLIENT(",'crossOrigin':0"), WEBAUTHN_CROSS_ORIGIN},
    {CLIENT(",'topOrigin':'https://example.org'"), WEBAUTHN_CROSS_ORIGIN},
    {CLIENT(",'topOrigin':null"), WEBAUTHN_CROSS_ORIGIN},
};

TESTS (test_client_data, LENGTH(clients)) {
    struct make m = {.client = clients[_i].client};
    struct webauthn_credential kept = keep(ES256), out;

    REFUSED(registered(make_registration(&device, &m), &out), clients[_i].want);
    REFUSED(asserted(make_assertion(&device, &m), &kept), clients[_i].want);
}

/* The client data of one ceremony in the other. */
TEST (test_a_ceremony_is_not_the_other) {
    struct webauthn_credential kept = keep(ES256), out;
    struct make m = {.client = OTHER_TYPE("'webauthn.get'")};

    REFUSED(registered(make_registration(&device, &m), &out), WEBAUTHN_TYPE);
    ACCEPTED(asserted(make_assertion(&device, &m), &kept));
    m.client = OTHER_TYPE("'webauthn.create'");
    REFUSED(asserted(make_assertion(&device, &m), &kept), WEBAUTHN_TYPE);
    ACCEPTED(registered(make_registration(&device, &m), &out));
}

/* -- authenticator data -- */

#define MAP_OF_MAPS "a1 6161 a1 6161 a1 6161"

/* After a good head, for a registration. */
static const struct {
    const char *auth;
    unsigned char flags; /* AT is added */
    enum webauthn_error want;
} registrations[] = {
    {REGISTERED, UP | UV, WEBAUTHN_OK},
    {REGISTERED, UP | UV | BE, WEBAUTHN_OK},
    {REGISTERED, UP | UV | BE | BS, WEBAUTHN_OK},
    {REGISTERED "a0", UP | UV | ED, WEBAUTHN_OK},
    {REGISTERED "a1 6b6372656450726f74656374 02", UP | UV | ED, WEBAUTHN_OK},
    {REGISTERED MAP_OF_MAPS "a0", UP | UV | ED, WEBAUTHN_OK},
    {REGISTERED MAP_OF_MAPS "80", UP | UV | ED, WEBAUTHN_OK},
    {REGISTERED, UV, WEBAUTHN_USER_PRESENT},
    {REGISTERED, UP, WEBAUTHN_USER_VERIFIED},
    {REGISTERED, UP | UV | BS, WEBAUTHN_BACKUP},
    {REGISTERED "00", UP | UV, WEBAUTHN_AUTH_DATA},
    {REGISTERED "a0", UP | UV, WEBAUTHN_AUTH_DATA},
    {REGISTERED, UP | UV | ED, WEBAUTHN_AUTH_DATA},
    {REGISTERED "a0a0", UP | UV | ED, WEBAUTHN_AUTH_DATA},
    {REGISTERED "a1 6161", UP | UV | ED, WEBAUTHN_AUTH_DATA},
    {REGISTERED "bf ff", UP | UV | ED, WEBAUTHN_AUTH_DATA},
    {REGISTERED "a1 6161 7f ff", UP | UV | ED, WEBAUTHN_AUTH_DATA},
    {REGISTERED "a1 6161 5f ff", UP | UV | ED, WEBAUTHN_AUTH_DATA},
    {REGISTERED "a1 6161 9f ff", UP | UV | ED, WEBAUTHN_AUTH_DATA},
    {REGISTERED "a1 6161 c100", UP | UV | ED, WEBAUTHN_AUTH_DATA},
    {REGISTERED "a1 6161 ff", UP | UV | ED, WEBAUTHN_AUTH_DATA},
    {REGISTERED "a1 6161 c1", UP | UV | ED, WEBAUTHN_AUTH_DATA},
    {REGISTERED "bf", UP | UV | ED, WEBAUTHN_AUTH_DATA},
    {REGISTERED "a1 6161 9f", UP | UV | ED, WEBAUTHN_AUTH_DATA},
    {REGISTERED "a1 6161 5f", UP | UV | ED, WEBAUTHN_AUTH_DATA},
    {REGISTERED "a1 6161 7f", UP | UV | ED, WEBAUTHN_AUTH_DATA},
    {REGISTERED MAP_OF_MAPS "81 80", UP | UV | ED, WEBAUTHN_AUTH_DATA},
    /* Gigabytes, if a decoder believes it. */
    {REGISTERED "a1 6161 9b 0100000000000000", UP | UV | ED,
     WEBAUTHN_AUTH_DATA},
    {REGISTERED "bb 8000000000000001 6161 00", UP | UV | ED,
     WEBAUTHN_AUTH_DATA},
    {"H F C G L I 9b 0100000000000000", UP | UV, WEBAUTHN_AUTH_DATA},
    {"H F C G L I a1 01 9b 0100000000000000 00", UP | UV, WEBAUTHN_AUTH_DATA},
    /* Whole, but no map: libfido2's refusal. */
    {REGISTERED "80", UP | UV | ED, WEBAUTHN_KEY},
    {"", UP | UV, WEBAUTHN_AUTH_DATA},
    {"H F C", UP | UV, WEBAUTHN_AUTH_DATA},
    {"H F C G 00", UP | UV, WEBAUTHN_AUTH_DATA},
    {"H F C G L", UP | UV, WEBAUTHN_AUTH_DATA},
    {"H F C G L I", UP | UV, WEBAUTHN_AUTH_DATA},
    {"H F C G ffff I K", UP | UV, WEBAUTHN_AUTH_DATA},
    {"H F C G 0000 K", UP | UV, WEBAUTHN_CREDENTIAL_ID},
    {"H F C G 000f 696969696969696969696969696969 K", UP | UV,
     WEBAUTHN_CREDENTIAL_ID},
    {"H F C G 0020 6969696969696969696969696969696969696969696969696969696969"
     "69696a K",
     UP | UV, WEBAUTHN_CREDENTIAL_ID},
};

TESTS (test_authenticator_data, LENGTH(registrations)) {
    struct make m = {.auth = registrations[_i].auth,
                     .flags = registrations[_i].flags | AT};
    struct webauthn_credential out;

    make_authenticator(&device, ES256);
    REFUSED(registered(make_registration(&device, &m), &out),
            registrations[_i].want);
}

static const struct {
    const char *auth;
    unsigned char flags;
    enum webauthn_error want;
} assertions[] = {
    {ASSERTED, UP | UV, WEBAUTHN_OK},
    {ASSERTED "a0", UP | UV | ED, WEBAUTHN_OK},
    {ASSERTED MAP_OF_MAPS "80", UP | UV | ED, WEBAUTHN_OK},
    {ASSERTED, UV, WEBAUTHN_USER_PRESENT},
    {ASSERTED, UP, WEBAUTHN_USER_VERIFIED},
    {ASSERTED, UP | UV | BS, WEBAUTHN_BACKUP},
    {ASSERTED, UP | UV | BE, WEBAUTHN_BACKUP},
    {ASSERTED, UP | UV | AT, WEBAUTHN_AUTH_DATA},
    {REGISTERED, UP | UV | AT, WEBAUTHN_AUTH_DATA},
    {REGISTERED, UP | UV, WEBAUTHN_AUTH_DATA},
    {ASSERTED "a0", UP | UV, WEBAUTHN_AUTH_DATA},
    {ASSERTED, UP | UV | ED, WEBAUTHN_AUTH_DATA},
    {ASSERTED "a000", UP | UV | ED, WEBAUTHN_AUTH_DATA},
    {ASSERTED "a1 6161 9b 0100000000000000", UP | UV | ED, WEBAUTHN_AUTH_DATA},
    {ASSERTED "80", UP | UV | ED, WEBAUTHN_AUTH_DATA},
    /* What was not asked for: an output of hmac-secret. */
    {ASSERTED "a1 6b686d61632d736563726574 42 0000", UP | UV | ED,
     WEBAUTHN_EXTENSION},
    {"H F 000000", UP | UV, WEBAUTHN_AUTH_DATA},
};

TESTS (test_assertion_data, LENGTH(assertions)) {
    struct webauthn_credential kept = keep(ES256);
    struct make m = {.auth = assertions[_i].auth,
                     .flags = assertions[_i].flags};

    REFUSED(asserted(make_assertion(&device, &m), &kept), assertions[_i].want);
}

/* A credential that can be copied stays one that can: section 6.1.3. */
TEST (test_backup_eligibility_stays) {
    struct webauthn_credential kept;
    struct make m = {.flags = UP | UV | BE | AT};

    make_authenticator(&device, ES256);
    ACCEPTED(registered(make_registration(&device, &m), &kept));
    m.flags = UP | UV;
    REFUSED(asserted(make_assertion(&device, &m), &kept), WEBAUTHN_BACKUP);
    m.flags = UP | UV | BE;
    ACCEPTED(asserted(make_assertion(&device, &m), &kept));
}

TEST (test_another_relying_party) {
    struct webauthn_credential kept = keep(ES256), out;
    static const char *const others[] = {"example.com", "org",
                                         "app.example.org", "Example.org"};

    for (int i = 0; i < LENGTH(others); i++) {
        struct make m = {.rp_id = others[i]};

        REFUSED(registered(make_registration(&device, &m), &out),
                WEBAUTHN_RP_ID);
        REFUSED(asserted(make_assertion(&device, &m), &kept), WEBAUTHN_RP_ID);
    }
}

TEST (test_sizes) {
    static const size_t good[] = {16, 64, 1023}, bad[] = {15, 1024, 2048};
    struct webauthn_credential out;
    static char auth[9000] = ASSERTED "a1 6161 59 03c0";

    make_authenticator(&device, ES256);
    for (int i = 0; i < LENGTH(good); i++) {
        struct make m = {.id_len = good[i]};

        ACCEPTED(registered(make_registration(&device, &m), &out));
        ck_assert_uint_eq(out.id.len, good[i]);
    }
    for (int i = 0; i < LENGTH(bad); i++) {
        struct make m = {.id_len = bad[i]};

        REFUSED(registered(make_registration(&device, &m), &out),
                WEBAUTHN_CREDENTIAL_ID);
    }
    /* Beyond what libfido2 verifies by Ed25519. */
    memset(auth + strlen(auth), '0', 2 * 0x3c0);
    out = keep(EDDSA);
    REFUSED(
        asserted(make_assertion(&device, &(struct make){.auth = auth,
                                                        .flags = UP | UV | ED}),
                 &out),
        WEBAUTHN_AUTH_DATA);
    memcpy(auth + strlen(ASSERTED), "a1 6161 59 0390", 15);
    auth[strlen(ASSERTED) + 15 + 2 * 0x390] = '\0';
    ACCEPTED(
        asserted(make_assertion(&device, &(struct make){.auth = auth,
                                                        .flags = UP | UV | ED}),
                 &out));
}

/* -- attestation objects -- */

static const struct {
    const char *object;
    bool good;
} objects[] = {
    {OBJECT, true},
    {"a3" AUTH_DATA "D" ATT_STMT "a0" FMT NONE, true},
    {"b803" FMT NONE ATT_STMT "a0" AUTH_DATA "D", true},
    {OBJECT "00", false},
    {OBJECT "H", false},
    {"", false},
    {"a2" FMT NONE AUTH_DATA "D", false},
    {"a2" ATT_STMT "a0" AUTH_DATA "D", false},
    {"a2" FMT NONE ATT_STMT "a0", false},
    {"a3" FMT NONE FMT NONE AUTH_DATA "D", false},
    {"a3" ATT_STMT "a0" ATT_STMT "a0" AUTH_DATA "D", false},
    {"a3" FMT NONE AUTH_DATA "D" AUTH_DATA "D", false},
    {"a4" FMT NONE ATT_STMT "a0" AUTH_DATA "D" FMT NONE, false},
    {"a4" FMT NONE ATT_STMT "a0" AUTH_DATA "D 6161 00", false},
    {"bf" FMT NONE ATT_STMT "a0" AUTH_DATA "D ff", false},
    {"86" FMT NONE ATT_STMT "a0" AUTH_DATA "D", false},
    {"c1" OBJECT, false},
    {"a3" FMT "44 6e6f6e65" ATT_STMT "a0" AUTH_DATA "D", false},
    {"a3" FMT "66 7061636b6564" ATT_STMT "a0" AUTH_DATA "D", false},
    {"a3" FMT "64 6e6f6e66" ATT_STMT "a0" AUTH_DATA "D", false},
    {"a3" FMT NONE ATT_STMT "a1 6161 00" AUTH_DATA "D", false},
    {"a3" FMT NONE ATT_STMT "80" AUTH_DATA "D", false},
    {"a3" FMT NONE ATT_STMT "a1" AUTH_DATA "D", false},
    {"a3" FMT NONE ATT_STMT "a0" AUTH_DATA "60", false},
    {"a3" FMT NONE ATT_STMT "a0" AUTH_DATA "5f D ff", false},
    {"a3" FMT NONE ATT_STMT "a0" AUTH_DATA "5affffffff H", false},
    {"a3 43666d74" NONE ATT_STMT "a0" AUTH_DATA "D", false},
};

TESTS (test_attestation_objects, LENGTH(objects)) {
    struct webauthn_credential out;
    struct make m = {.object = objects[_i].object};

    make_authenticator(&device, EDDSA);
    REFUSED(registered(make_registration(&device, &m), &out),
            objects[_i].good ? WEBAUTHN_OK : WEBAUTHN_ATTESTATION);
}

/* 64 KiB in each of its parts, and as deep as they go. */
TEST (test_large_objects) {
    static struct bytes large;
    struct webauthn_credential out;
    struct webauthn_registration r;
    pj_str_t rest;

    make_authenticator(&device, ES256);
    for (unsigned char fill = 0x00; fill < 0xff; fill++) {
        make_registration(&device, &(struct make){0});
        memset(large.data, fill, 65536);
        large.len = 65536;
        r = make_registration(&device, &(struct make){0});
        r.attestation = of(&large);
        REFUSED(registered(r, &out), WEBAUTHN_ATTESTATION);
        rest = of(&large);
        ck_assert(!webauthn_cbor_skip(&rest) || rest.len < large.len);
    }
    make_registration(&device, &(struct make){0});
    large.len = 0;
    put(&large, device.object.data, device.object.len);
    large.data[large.len - device.auth.len - 2] = 0xff;
    large.data[large.len - device.auth.len - 1] = 0xff;
    put(&large, arena_mem, 65535 - device.auth.len);
    r.attestation = of(&large);
    REFUSED(registered(r, &out), WEBAUTHN_AUTH_DATA);
}

/* Returns true if broken differs only where any byte is as good: the flags but
 * three, the counter, the AAGUID and the Ed25519 key. */
static bool is_harmless(const struct bytes *good, const struct bytes *broken)
{
    size_t flags = good->len - device.auth.len + 32, key = good->len - 32;
    const unsigned char needed = UP | UV | AT;

    for (size_t i = 0; i < good->len; i++) {
        if (good->data[i] != broken->data[i] &&
            (i < flags || (i >= flags + 21 && i < key))) {
            return false;
        }
    }
    return (broken->data[flags] & needed) == needed;
}

/* Up to four bytes of each are changed. */
TEST (test_broken_objects) {
    static unsigned char mem[64 * 1024];
    static struct bytes good;
    struct webauthn_registration r;
    struct webauthn_credential out;
    uint32_t random = 1;
    int accepted = 0;
    pj_arena_t own;

    make_authenticator(&device, EDDSA);
    r = make_registration(&device, &(struct make){0});
    good = device.object;
    for (int i = 0; i < 10000; i++) {
        memcpy(device.object.data, good.data, good.len);
        for (int k = i % 4; k >= 0; k--) {
            random = random * 1664525 + 1013904223;
            device.object.data[(random >> 8) % good.len] ^=
                (unsigned char) (random >> 24 | 1);
        }
        pj_arena_init(&own, mem, sizeof(mem));
        if (!webauthn_register(&cfg, &own, str(CHALLENGE), &r, &out)) {
            ck_assert_msg(is_harmless(&good, &device.object), "object %d", i);
            accepted++;
        }
        ck_assert_uint_eq(ERR_peek_error(), 0);
    }
    ck_assert_int_gt(accepted, 100);
}

/* -- keys -- */

#define ZEROES                                                                 \
    "0000000000000000000000000000000000000000000000000000000000000000"

static const struct {
    const char *alg, *cose;
    bool good;
} keys[] = {
    {ES256, "a6 0102 0326 2001 215820 X 225820 Y 6161 00", true},
    {EDDSA, EDDSA, true},
    {RS256, RS256, true},
    /* Another algorithm, type or curve. */
    {ES256, "a5 0102 0327 2001 215820 X 225820 Y", false},
    {ES256, "a5 0102 033822 2001 215820 X 225820 Y", false},
    {ES256, "a5 0102 03382e 2008 215820 X 225820 Y", false},
    {ES256, "a5 0101 0326 2001 215820 X 225820 Y", false},
    {ES256, "a5 0102 0326 2002 215820 X 225820 Y", false},
    {ES256, "a4 0102 2001 215820 X 225820 Y", false},
    {ES256, "a4 0326 2001 215820 X 225820 Y", false},
    {EDDSA, "a4 0101 0326 2006 215820 X", false},
    {EDDSA, "a4 0101 0327 2004 215820 X", false},
    {RS256, "a4 0103 03390101 20590100 N 2143010001", false},
    {RS256, "a4 0103 033824 20590100 N 2143010001", false},
    {RS256, "a4 0102 03390100 20590100 N 2143010001", false},
    /* Not on the curve, or of small order. */
    {ES256, "a5 0102 0326 2001 215820 X 225820 X", false},
    {ES256, "a5 0102 0326 2001 215820" ZEROES "225820" ZEROES, false},
    {ES256, "a4 0102 0326 2001 215820 X", false},
    {ES256, "a4 0102 0326 2001 225820 Y", false},
    {ES256, "a5 0102 0326 2001 214100 225820 Y", false},
    {EDDSA, "a4 0101 0327 2006 215820" ZEROES, false},
    {EDDSA, "a3 0101 0327 2006", false},
    /* Weak, or of a size that libfido2 does not take. */
    {RS256, "a3 0103 03390100 20590100 N", false},
    {RS256, "a3 0103 03390100 2143010001", false},
    {RS256, "a4 0103 03390100 20590100 N 2143000001", false},
    {RS256, "a4 0103 03390100 20590100 N 2143000003", false},
    {RS256, "a4 0103 03390100 20590100 N 2143010000", false},
    {RS256, "a4 0103 03390100 20590100 N 214103", false},
    {RS256, "a4 0103 03390100 205820" ZEROES "2143010001", false},
    /* Members twice or out of order, no map, what is no key. */
    {ES256, "a6 0102 0326 2001 215820 X 215820 X 225820 Y", false},
    {ES256, "a5 0326 0102 2001 215820 X 225820 Y", false},
    {ES256, "80", false},
    {ES256, "a0", false},
    {ES256, "00", false},
    {ES256, "5820" ZEROES, false},
};

TESTS (test_keys, LENGTH(keys)) {
    struct make m = {.cose = keys[_i].cose};
    struct webauthn_credential out;
    struct webauthn_registration r;

    make_authenticator(&device, keys[_i].alg);
    ACCEPTED(registered(make_registration(&device, &(struct make){0}), &out));
    r = make_registration(&device, &m);
    if (keys[_i].good) {
        ACCEPTED(registered(r, &out));
        ACCEPTED(asserted(make_assertion(&device, &(struct make){0}), &out));
    } else {
        REFUSED(registered(r, &out), WEBAUTHN_KEY);
    }
}

int main(void)
{
    return run_case("webauthn", with_rsa);
}
