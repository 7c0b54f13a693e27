/* Passkeys: what logs in, and the vectors of the specification. */

#include "auth/webauthn_cbor.h"
#include "authenticator.h"
#include "webauthn_vectors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* -- signatures -- */

/* By another key of the same type. */
TESTS (test_the_key_is_its_own, LENGTH(algs)) {
    struct webauthn_credential kept = keep(algs[_i]);
    struct webauthn_assertion a;

    make_authenticator(&device, algs[_i]);
    if (_i == 2) {
        device.key = EVP_RSA_gen(2048);
    }
    a = make_assertion(&device, &(struct make){0});
    REFUSED(asserted(a, &kept), WEBAUTHN_SIGNATURE);
    kept.key = (pj_str_t){kept.key.data, kept.key.len - 1};
    REFUSED(asserted(a, &kept), WEBAUTHN_INTERNAL);
}

/* Each byte of what is signed, and of the signature, is needed. */
TESTS (test_each_byte_counts, LENGTH(algs)) {
    struct webauthn_credential kept = keep(algs[_i]), same;
    struct make m = {.counter = 1, .flags = UP | UV};
    struct webauthn_assertion a = make_assertion(&device, &m);
    struct bytes *const parts[] = {&device.client, &device.auth,
                                   &device.signature};

    for (int i = 0; i < LENGTH(parts); i++) {
        for (size_t k = 0; k < parts[i]->len; k++) {
            unsigned char bit = (unsigned char) (1 << k % 8);

            same = kept;
            parts[i]->data[k] ^= bit;
            ck_assert_msg(asserted(a, &same) != WEBAUTHN_OK,
                          "part %d, byte %zu", i, k);
            ck_assert_mem_eq(&same, &kept, sizeof(kept));
            parts[i]->data[k] ^= bit;
        }
    }
    a.signature.len--;
    REFUSED(asserted(a, &kept), WEBAUTHN_SIGNATURE);
    a.signature.len += 2;
    REFUSED(asserted(a, &kept), WEBAUTHN_SIGNATURE);
    a.signature.len = 0;
    REFUSED(asserted(a, &kept), WEBAUTHN_SIGNATURE);
    a.signature.len = device.signature.len;
    ACCEPTED(asserted(a, &kept));
}

static const struct {
    uint32_t kept, now;
    enum webauthn_error want;
} counters[] = {
    {0, 0, WEBAUTHN_OK},
    {0, 1, WEBAUTHN_OK},
    {1, 2, WEBAUTHN_OK},
    {0x7fffffff, 0x80000000, WEBAUTHN_OK},
    {0xfffffffe, 0xffffffff, WEBAUTHN_OK},
    {1, 1, WEBAUTHN_COUNTER},
    {2, 1, WEBAUTHN_COUNTER},
    {1, 0, WEBAUTHN_COUNTER},
    {0xffffffff, 0, WEBAUTHN_COUNTER},
    {0x80000000, 0x7fffffff, WEBAUTHN_COUNTER},
};

TESTS (test_counters, LENGTH(counters)) {
    struct webauthn_credential kept = keep(EDDSA);
    struct make m = {.counter = counters[_i].now};
    bool ok = counters[_i].want == WEBAUTHN_OK;
    struct webauthn_assertion a = make_assertion(&device, &m);

    kept.counter = counters[_i].kept;
    REFUSED(asserted(a, &kept), counters[_i].want);
    ck_assert_uint_eq(kept.counter, ok ? counters[_i].now : counters[_i].kept);
    /* A counter says nothing unless the signature is right. */
    device.signature.data[0] ^= 1;
    kept.counter = 0xffffffff;
    REFUSED(asserted(a, &kept), WEBAUTHN_SIGNATURE);
}

/* Nobody made the challenge of no bytes. */
TEST (test_no_challenge) {
    struct make m = {.client = "{'type':'webauthn.~','challenge':'',"
                               "'origin':'https://example.org'}"};
    struct webauthn_credential kept = keep(EDDSA);
    struct webauthn_assertion a = make_assertion(&device, &m);

    REFUSED(
        webauthn_assert(&cfg, arena(), (pj_str_t){NULL, 0}, &a, false, &kept),
        WEBAUTHN_CHALLENGE);
    a = make_assertion(&device, &(struct make){0});
    ACCEPTED(asserted(a, &kept));
}

/* -- whose it is -- */

TEST (test_user_handle) {
    struct webauthn_credential kept = keep(EDDSA);
    struct webauthn_assertion a =
        make_assertion(&device, &(struct make){.flags = 0});
    static const char *const others[] = {"", "a user's handl",
                                         "a user's handle ", "A user's handle"};

    for (int nameless = 0; nameless < 2; nameless++) {
        a.user = str(USER_HANDLE);
        ACCEPTED(webauthn_assert(&cfg, arena(), str(CHALLENGE), &a, nameless,
                                 &kept));
        for (int i = 0; i < LENGTH(others); i++) {
            a.user = str(others[i]);
            REFUSED(webauthn_assert(&cfg, arena(), str(CHALLENGE), &a, nameless,
                                    &kept),
                    WEBAUTHN_USER);
        }
        a.user = (pj_str_t){NULL, 0};
        REFUSED(
            webauthn_assert(&cfg, arena(), str(CHALLENGE), &a, nameless, &kept),
            nameless ? WEBAUTHN_USER : WEBAUTHN_OK);
    }
}

TEST (test_another_credential) {
    struct webauthn_credential kept = keep(EDDSA);
    struct webauthn_assertion a = make_assertion(&device, &(struct make){0});

    a.id.len--;
    REFUSED(asserted(a, &kept), WEBAUTHN_CREDENTIAL_ID);
    a.id.len++;
    ACCEPTED(asserted(a, &kept));
}

/* -- the vectors of the specification -- */

static pj_str_t unhex(const char *hex)
{
    static unsigned char mem[64 * 1024];
    static size_t used;
    size_t len = strlen(hex) / 2;
    unsigned char *out = mem + used;
    unsigned byte;

    used += len;
    ck_assert_uint_le(used, sizeof(mem));
    for (size_t i = 0; i < len; i++) {
        ck_assert_int_eq(sscanf(hex + 2 * i, "%2x", &byte), 1);
        out[i] = (unsigned char) byte;
    }
    return (pj_str_t){out, len};
}

TESTS (test_vectors, LENGTH(vectors)) {
    struct webauthn_registration r = {.id = unhex(vectors[_i].id),
                                      .client_data = unhex(vectors[_i].client),
                                      .attestation = unhex(vectors[_i].object)};
    struct webauthn_assertion a = {.id = r.id,
                                   .client_data = unhex(vectors[_i].get_client),
                                   .auth_data = unhex(vectors[_i].auth),
                                   .signature = unhex(vectors[_i].signature)};
    struct webauthn_credential kept;
    pj_str_t challenge = unhex(vectors[_i].challenge), auth;
    enum webauthn_error want = vectors[_i].registration;

    REFUSED(webauthn_register(&cfg, arena(), challenge, &r, &kept), want);
    if (want == WEBAUTHN_USER_VERIFIED) {
        /* Nothing signs the flags of a registration. */
        ck_assert(webauthn_cbor_attestation(r.attestation, &auth));
        ((unsigned char *) auth.data)[32] |= UV;
        want = WEBAUTHN_OK;
        REFUSED(webauthn_register(&cfg, arena(), challenge, &r, &kept), want);
    }
    if (want == WEBAUTHN_OK) {
        challenge = unhex(vectors[_i].get_challenge);
        REFUSED(webauthn_assert(&cfg, arena(), challenge, &a, false, &kept),
                vectors[_i].assertion);
        challenge.len--;
        REFUSED(webauthn_assert(&cfg, arena(), challenge, &a, false, &kept),
                WEBAUTHN_CHALLENGE);
    }
}

/* -- libfido2 -- */

TEST (test_nothing_is_printed) {
    int kept_fd = dup(STDERR_FILENO), fd = memfd_create("stderr", 0);
    struct webauthn_credential kept;

    ck_assert_int_eq(setenv("FIDO_DEBUG", "1", 1), 0);
    ck_assert_int_eq(dup2(fd, STDERR_FILENO), STDERR_FILENO);
    kept = keep(ES256);
    (void) asserted(make_assertion(&device, &(struct make){.flags = UP}),
                    &kept);
    make_authenticator(&device, ES256);
    (void) asserted(make_assertion(&device, &(struct make){0}), &kept);
    ck_assert_int_eq(dup2(kept_fd, STDERR_FILENO), STDERR_FILENO);
    ck_assert_int_eq(lseek(fd, 0, SEEK_END), 0);
}

int main(void)
{
    return run_case("webauthn_login", with_rsa);
}
