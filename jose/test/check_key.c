/* Keys from PEM and DER: every form taken, every unsound one refused. */

#include "helpers.h"

#include <openssl/pem.h>
#include <pthread.h>

/* The DER inside a PEM test file; the caller frees .data. */
static pj_str_t der_of(const char *file)
{
    pj_str_t text = file_read(file);
    BIO *bio = BIO_new_mem_buf(text.data, (int) text.len);
    char *name = NULL, *header = NULL;
    unsigned char *data = NULL, *copy;
    long len;

    ck_assert_int_eq(PEM_read_bio(bio, &name, &header, &data, &len), 1);
    copy = xmalloc((size_t) len);
    memcpy(copy, data, (size_t) len);
    OPENSSL_free(name);
    OPENSSL_free(header);
    OPENSSL_free(data);
    BIO_free(bio);
    str_free(text);
    return bytes(copy, (size_t) len);
}

static pj_err_t private_error(pj_str_t text)
{
    pj_key_t *key;
    pj_err_t err = pj_key_private(&key, text, PJ_STR("k"));

    ck_assert((err == PJ_OK) == (key != NULL));
    pj_key_free(key);
    return err;
}

static pj_err_t public_error(pj_str_t text)
{
    pj_key_t *key;
    pj_err_t err = pj_key_public(&key, text, PJ_STR("k"));

    ck_assert((err == PJ_OK) == (key != NULL));
    pj_key_free(key);
    return err;
}

/* text with something before and after it. */
static pj_err_t surrounded(const char *file, const char *before, pj_str_t after,
                           bool is_private)
{
    pj_str_t text = file_read(file);
    size_t head = strlen(before), len = head + text.len + after.len;
    unsigned char *mem = xmalloc(len);
    pj_err_t err;

    memcpy(mem, before, head);
    memcpy(mem + head, text.data, text.len);
    memcpy(mem + head + text.len, after.data, after.len);
    err = is_private ? private_error(bytes(mem, len))
                     : public_error(bytes(mem, len));
    free(mem);
    str_free(text);
    return err;
}

TEST (test_pem_and_der_pkcs8_pkcs1_spki) {
    static const char *const files[] = {"rfc7515_a2.pem",
                                        "rfc7515_a2.pkcs1.pem"};
    pj_str_t spki = der_of("rfc7515_a2.pub.pem");

    for (size_t i = 0; i < COUNT(files); i++) {
        pj_str_t der = der_of(files[i]);

        assert_ok(key_error(files[i], true));
        assert_ok(private_error(der));
        assert_err(public_error(der), PJ_ERR_KEY_FORMAT);
        assert_err(key_error(files[i], false), PJ_ERR_KEY_FORMAT);
        str_free(der);
    }
    assert_ok(key_error("rfc7515_a2.pub.pem", false));
    assert_ok(public_error(spki));
    assert_err(private_error(spki), PJ_ERR_KEY_FORMAT);
    assert_err(key_error("rfc7515_a2.pub.pem", true), PJ_ERR_KEY_FORMAT);
    str_free(spki);
}

static void *read_private(void *text)
{
    assert_ok(private_error(*(pj_str_t *) text));
    return NULL;
}

/* A thread parses the key on a stack that is searched afterwards, except under
 * valgrind, which forbids such reads. */
TEST (test_no_private_key_stays_on_the_stack) {
    size_t size = 1 << 20;
    pj_str_t text = file_read("rfc7515_a2.pem"), der = der_of("rfc7515_a2.pem");
    unsigned char *stack = aligned_alloc(4096, size);
    pthread_attr_t attr;
    pthread_t thread;

    ck_assert_ptr_nonnull(stack);
    memset(stack, 0, size);
    ck_assert_int_eq(pthread_attr_init(&attr), 0);
    ck_assert_int_eq(pthread_attr_setstack(&attr, stack, size), 0);
    ck_assert_int_eq(pthread_create(&thread, &attr, read_private, &text), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    if (getenv("UNIT_WRAPPER") == NULL)
        ck_assert_ptr_null(memmem(stack, size, der.data + der.len / 2, 32));
    pthread_attr_destroy(&attr);
    free(stack);
    str_free(text);
    str_free(der);
}

TEST (test_pem_white_space_and_line_ends) {
    pj_str_t text = file_read("rfc7515_a2.pem");
    unsigned char *crlf = xmalloc(text.len * 2);
    size_t n = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] == '\n')
            crlf[n++] = '\r';
        crlf[n++] = text.data[i];
    }
    assert_ok(private_error(bytes(crlf, n)));
    assert_ok(private_error(bytes(text.data, text.len - 1)));
    assert_ok(surrounded("rfc7515_a2.pem", "\n ", PJ_STR("\n\n\t "), true));
    free(crlf);
    str_free(text);
}

TEST (test_text_around_pem_refused) {
    const char *file = "rfc7515_a2.pem", *pub = "rfc7515_a2.pub.pem";
    pj_str_t other = file_read("other.pem");

    assert_ok(surrounded(file, "", PJ_STR(""), true));
    assert_err(surrounded(file, "x\n", PJ_STR(""), true), PJ_ERR_KEY_FORMAT);
    assert_err(surrounded(file, "", PJ_STR("x"), true), PJ_ERR_KEY_FORMAT);
    assert_err(surrounded(file, "", bytes("\0", 1), true), PJ_ERR_KEY_FORMAT);
    assert_err(surrounded(file, "", other, true), PJ_ERR_KEY_FORMAT);
    assert_ok(surrounded(pub, "", PJ_STR("\n"), false));
    assert_err(surrounded(pub, "", PJ_STR("x"), false), PJ_ERR_KEY_FORMAT);
    str_free(other);
}

static void trailing_bytes(const char *file, pj_err_t (*read)(pj_str_t))
{
    pj_str_t der = der_of(file);
    unsigned char *longer = xmalloc(der.len + 1);

    memcpy(longer, der.data, der.len);
    longer[der.len] = 0;
    assert_ok(read(bytes(longer, der.len)));
    assert_err(read(bytes(longer, der.len + 1)), PJ_ERR_KEY_FORMAT);
    for (size_t len = 0; len < der.len; len += len < 64 ? 1 : 97) {
        unsigned char *exact = xmalloc(len);

        memcpy(exact, der.data, len);
        assert_err(read(bytes(exact, len)), PJ_ERR_KEY_FORMAT);
        free(exact);
    }
    free(longer);
    str_free(der);
}

TEST (test_der_trailing_garbage_and_truncation_refused) {
    trailing_bytes("rfc7515_a2.pem", private_error);
    trailing_bytes("rfc7515_a2.pkcs1.pem", private_error);
    trailing_bytes("rfc7515_a2.pub.pem", public_error);
}

/* The octet string of PKCS#8 holds the PKCS#1 key and nothing else. */
TEST (test_garbage_inside_pkcs8_refused) {
    pj_str_t der = der_of("rfc7515_a2.pkcs1.pem");

    for (size_t extra = 0; extra < 2; extra++) {
        PKCS8_PRIV_KEY_INFO *info = PKCS8_PRIV_KEY_INFO_new();
        unsigned char *inner = OPENSSL_zalloc(der.len + extra);
        unsigned char *out = NULL;
        int len;

        memcpy(inner, der.data, der.len);
        ck_assert_int_eq(PKCS8_pkey_set0(info, OBJ_nid2obj(NID_rsaEncryption),
                                         0, V_ASN1_NULL, NULL, inner,
                                         (int) (der.len + extra)),
                         1);
        len = i2d_PKCS8_PRIV_KEY_INFO(info, &out);
        ck_assert_int_gt(len, 0);
        assert_err(private_error(bytes(out, (size_t) len)),
                   extra == 0 ? PJ_OK : PJ_ERR_KEY_FORMAT);
        OPENSSL_free(out);
        PKCS8_PRIV_KEY_INFO_free(info);
    }
    str_free(der);
}

/*
 * A key has one encoding.  AlgorithmIdentifier without its NULL, bytes behind
 * the key inside the BIT STRING, and both at once (so that the length is
 * right again).  Offsets: a header of four bytes, the identifier of
 * fifteen with its NULL in the last two, the BIT STRING.
 */
TEST (test_other_encodings_of_a_public_key_refused) {
    pj_str_t der = der_of("rfc7515_a2.pub.pem");

    for (unsigned variant = 0; variant < 4; variant++) {
        size_t cut = variant & 1 ? 2 : 0, add = variant & 2 ? 2 : 0;
        size_t len = der.len - cut + add;
        unsigned char *mem = calloc(1, len);

        ck_assert_ptr_nonnull(mem);
        memcpy(mem, der.data, 19 - cut);
        memcpy(mem + 19 - cut, der.data + 19, der.len - 19);
        mem[2] = (unsigned char) ((len - 4) >> 8);
        mem[3] = (unsigned char) (len - 4);
        mem[5] = (unsigned char) (mem[5] - cut);
        mem[19 - cut + 3] = (unsigned char) (mem[19 - cut + 3] + add);
        assert_err(public_error(bytes(mem, len)),
                   variant == 0 ? PJ_OK : PJ_ERR_KEY_FORMAT);
        free(mem);
    }
    str_free(der);
}

TEST (test_pem_labels_must_agree) {
    static const char *const ends[] = {
        "-----END PRIVATE KEY-----",     "-----END PRIVATE KEY-----\n",
        "-----END PRIVATE KEX-----",     "-----END PUBLIC KEY-----",
        "-----END PRIVATE KEY----",      "-----END PRIVATE KEY------",
        "-----END RSA PRIVATE KEY-----", "",
    };
    pj_str_t text = file_read("rfc7515_a2.pem");
    size_t head = text.len - strlen("-----END PRIVATE KEY-----\n");

    for (size_t i = 0; i < COUNT(ends); i++) {
        size_t len = head + strlen(ends[i]);
        unsigned char *mem = xmalloc(len);

        memcpy(mem, text.data, head);
        memcpy(mem + head, ends[i], len - head);
        assert_err(private_error(bytes(mem, len)),
                   i < 2 ? PJ_OK : PJ_ERR_KEY_FORMAT);
        free(mem);
    }
    str_free(text);
}

/* The default prompt would block on a terminal; nothing may reach it. */
TEST (test_encrypted_pem_refused_without_prompt) {
    pj_str_t der = der_of("encrypted_pkcs8.pem");

    assert_err(key_error("encrypted_pkcs8.pem", true), PJ_ERR_KEY_FORMAT);
    assert_err(key_error("encrypted_pkcs1.pem", true), PJ_ERR_KEY_FORMAT);
    assert_err(private_error(der), PJ_ERR_KEY_FORMAT);
    str_free(der);
}

TEST (test_other_kinds_of_key_refused) {
    pj_str_t pss = der_of("rsa_pss.pem"), pss_pub = der_of("rsa_pss.pub.pem");

    assert_err(key_error("rsa_pss.pem", true), PJ_ERR_KEY_FORMAT);
    assert_err(key_error("rsa_pss.pub.pem", false), PJ_ERR_KEY_FORMAT);
    assert_err(private_error(pss), PJ_ERR_KEY_FORMAT);
    assert_err(public_error(pss_pub), PJ_ERR_KEY_FORMAT);
    assert_err(private_error(PJ_STR("")), PJ_ERR_KEY_FORMAT);
    assert_err(private_error((pj_str_t){NULL, 0}), PJ_ERR_KEY_FORMAT);
    assert_err(public_error(PJ_STR("-----BEGIN PUBLIC KEY-----")),
               PJ_ERR_KEY_FORMAT);
    assert_err(public_error(PJ_STR("-----BEGIN PUBLIC KEY-----"
                                   "-----END PUBLIC KEY-----")),
               PJ_ERR_KEY_FORMAT);
    str_free(pss);
    str_free(pss_pub);
}

TEST (test_oversize_der_refused) {
    unsigned char *big = calloc(1, PJ_DER_MAX_BYTES + 1);

    ck_assert_ptr_nonnull(big);
    memcpy(big, "\x30\x82\x3f\xfc", 4);
    assert_err(private_error(bytes(big, PJ_DER_MAX_BYTES)), PJ_ERR_KEY_FORMAT);
    assert_err(private_error(bytes(big, PJ_DER_MAX_BYTES + 1)),
               PJ_ERR_KEY_FORMAT);
    assert_err(public_error(bytes(big, PJ_DER_MAX_BYTES + 1)),
               PJ_ERR_KEY_FORMAT);
    free(big);
}

TEST (test_1024_bit_private_key_refused) {
    assert_ok(key_error("other.pem", true));
    assert_err(key_error("rsa1024.pem", true), PJ_ERR_KEY_WEAK);
}

TEST (test_mismatched_halves_refused) {
    assert_ok(key_error("rfc7515_a2.pkcs1.pem", true));
    assert_err(key_error("mismatched_halves.pem", true), PJ_ERR_KEY_MISMATCH);
}

static pj_err_t modulus_error(const BIGNUM *n, const char *e_hex)
{
    BIGNUM *e = NULL;
    EVP_PKEY *pkey;
    unsigned char *der = NULL;
    pj_err_t err;
    int len;

    ck_assert_int_ne(BN_hex2bn(&e, e_hex), 0);
    pkey = pkey_from_numbers(n, e);
    len = i2d_PUBKEY(pkey, &der);
    ck_assert_int_gt(len, 0);
    err = public_error(bytes(der, (size_t) len));
    OPENSSL_free(der);
    EVP_PKEY_free(pkey);
    BN_free(e);
    return err;
}

/* SPKI of an odd number of so many bits, and an exponent. */
static pj_err_t spki_error(int bits, const char *e_hex, bool even)
{
    BIGNUM *n = BN_new();
    pj_err_t err;

    ck_assert_int_ne(BN_set_bit(n, bits - 1), 0);
    ck_assert_int_ne(BN_set_bit(n, even ? 1 : 0), 0);
    err = modulus_error(n, e_hex);
    BN_free(n);
    return err;
}

TEST (test_modulus_bounds) {
    assert_ok(spki_error(2048, "10001", false));
    assert_ok(spki_error(2049, "10001", false));
    assert_ok(spki_error(8192, "10001", false));
    assert_err(spki_error(1024, "10001", false), PJ_ERR_KEY_WEAK);
    assert_err(spki_error(2047, "10001", false), PJ_ERR_KEY_WEAK);
    assert_err(spki_error(8193, "10001", false), PJ_ERR_KEY_WEAK);
    assert_err(spki_error(16384, "10001", false), PJ_ERR_KEY_WEAK);
    assert_err(spki_error(2048, "10001", true), PJ_ERR_KEY_WEAK);
}

/* The product of the primes from 3 to 167 times a power of two, plus 65537: a
 * power of 65537 modulo each of these primes. */
TEST (test_roca_fingerprint_refused) {
    static const char primes[] =
        "49265D3574CEFD04229BFD662A4A46F8611ED0226C655F076EBADE3";
    BIGNUM *n = NULL, *most = NULL;

    for (int bits = 2048; bits <= 4096; bits *= 2) {
        ck_assert_int_ne(BN_hex2bn(&most, primes), 0);
        n = BN_dup(most);
        BN_lshift(n, n, bits - BN_num_bits(n));
        BN_add_word(n, 65537);
        assert_err(modulus_error(n, "10001"), PJ_ERR_KEY_WEAK);
        BN_div_word(most, 11);
        BN_lshift1(most, most); /* n stays odd */
        BN_add(n, n, most);
        assert_ok(modulus_error(n, "10001"));
        BN_free(n);
    }
    BN_free(most);
}

TEST (test_exponent_bounds) {
    assert_ok(spki_error(2048, "3", false));
    assert_ok(spki_error(2048, "FFFFFFFF", false));
    assert_err(spki_error(2048, "0", false), PJ_ERR_KEY_WEAK);
    assert_err(spki_error(2048, "1", false), PJ_ERR_KEY_WEAK);
    assert_err(spki_error(2048, "2", false), PJ_ERR_KEY_WEAK);
    assert_err(spki_error(2048, "10000", false), PJ_ERR_KEY_WEAK);
    assert_err(spki_error(2048, "100000001", false), PJ_ERR_KEY_WEAK);
}

static pj_err_t kid_error(pj_str_t kid)
{
    pj_str_t text = file_read("rfc7515_a2.pub.pem");
    pj_key_t *key;
    pj_err_t err = pj_key_public(&key, text, kid);

    if (err == PJ_OK)
        ck_assert(pj_str_eq(pj_key_id(key), kid));
    pj_key_free(key);
    str_free(text);
    return err;
}

TEST (test_kid_bounds) {
    char kid[PJ_KID_MAX_BYTES + 1];

    memset(kid, 'k', sizeof(kid));
    assert_ok(kid_error(PJ_STR("k")));
    assert_ok(kid_error(PJ_STR("\"\\\n \xc3\xa9")));
    assert_ok(kid_error(bytes(kid, PJ_KID_MAX_BYTES)));
    assert_err(kid_error(bytes(kid, PJ_KID_MAX_BYTES + 1)), PJ_ERR_TOKEN_KID);
    assert_err(kid_error(PJ_STR("")), PJ_ERR_TOKEN_KID);
    assert_err(kid_error(bytes("a\0b", 3)), PJ_ERR_TOKEN_KID);
    assert_err(kid_error(PJ_STR("\xff")), PJ_ERR_TOKEN_KID);
}

TEST (test_match) {
    pj_key_t *a = key_private("rfc7515_a2.pem", "a");
    pj_key_t *b = key_private("other.pem", "a");
    pj_str_t text = file_read("rfc7515_a2.pub.pem");
    pj_key_t *pub;

    assert_ok(pj_key_public(&pub, text, PJ_STR("p")));
    assert_ok(pj_key_match(a, pub));
    assert_ok(pj_key_match(pub, a));
    assert_ok(pj_key_match(a, a));
    assert_err(pj_key_match(b, pub), PJ_ERR_KEY_MISMATCH);
    assert_err(pj_key_match(a, b), PJ_ERR_KEY_MISMATCH);
    ck_assert_int_eq(EVP_PKEY_get_bits(a->pkey), 2048);
    str_free(text);
    pj_key_free(a);
    pj_key_free(b);
    pj_key_free(pub);
    pj_key_free(NULL);
}

/* HMAC-SHA256 over the PKCS#1 form, computed apart: RFC 5869 section 2. */
TEST (test_derived_secrets) {
    static const char known[] =
        "\x81\x93\x87\xec\x0f\xff\xe4\xa4\xd4\x71\x61\x64\x4e\x49\xaa\x7b"
        "\x01\xba\xfc\x33\xaa\x3d\x77\x42\x7c\xf8\x56\xa1\x9f\xe1\x44\x4b";
    pj_key_t *key = key_private("rfc7515_a2.pem", "k");
    pj_key_t *same = key_private("rfc7515_a2.pkcs1.pem", "another");
    pj_key_t *other = key_private("other.pem", "k");
    pj_str_t label = PJ_STR("login attempts");
    pj_str_t text = file_read("rfc7515_a2.pub.pem");
    unsigned char a[32], b[32];
    pj_key_t *pub;

    assert_ok(pj_key_derive(key, label, a, sizeof(a)));
    ck_assert_mem_eq(a, known, sizeof(a));
    assert_ok(pj_key_derive(same, label, b, sizeof(b)));
    ck_assert_mem_eq(a, b, sizeof(a));
    assert_ok(pj_key_derive(key, PJ_STR("login attempt"), b, sizeof(b)));
    ck_assert_mem_ne(a, b, sizeof(a));
    assert_ok(pj_key_derive(other, label, b, sizeof(b)));
    ck_assert_mem_ne(a, b, sizeof(a));

    assert_ok(pj_key_public(&pub, text, PJ_STR("k")));
    assert_err(pj_key_derive(pub, label, b, sizeof(b)), PJ_ERR_ARGUMENT);
    str_free(text);
    pj_key_free(pub);
    pj_key_free(other);
    pj_key_free(same);
    pj_key_free(key);
}

/* A generated key can be read back, and its halves match. */
TEST (test_generated_key_is_read_back) {
    char pem[4096];
    pj_key_t *key, *again, *pub;
    size_t len;

    assert_err(pj_key_generate(&key, pj_alg_find(PJ_STR("RS256")), PJ_STR("")),
               PJ_ERR_TOKEN_KID);
    assert_ok(pj_key_generate(&key, pj_alg_find(PJ_STR("RS256")), PJ_STR("k")));
    assert_ok(pj_key_pem(key, true, pem, sizeof(pem), &len));
    assert_ok(pj_key_private(&again, bytes(pem, len), PJ_STR("k")));
    assert_ok(pj_key_match(key, again));
    assert_err(pj_key_pem(key, true, pem, len - 1, &len), PJ_ERR_NO_SPACE);
    assert_ok(pj_key_pem(key, false, pem, sizeof(pem), &len));
    assert_ok(pj_key_public(&pub, bytes(pem, len), PJ_STR("k")));
    assert_ok(pj_key_match(key, pub));
    assert_err(pj_key_pem(pub, true, pem, sizeof(pem), &len), PJ_ERR_ARGUMENT);
    ck_assert_ptr_null(pj_alg_find(PJ_STR("RS2567")));
    pj_key_free(pub);
    pj_key_free(again);
    pj_key_free(key);
}

/* An error that was there before stays, ours do not join it. */
TEST (test_callers_openssl_errors_survive) {
    ERR_raise(ERR_LIB_USER, 42);
    assert_err(key_error("rsa_pss.pem", true), PJ_ERR_KEY_FORMAT);
    assert_err(private_error(PJ_STR("\x30\x03\x02\x01\x00")),
               PJ_ERR_KEY_FORMAT);
    ck_assert_int_eq(ERR_GET_REASON(ERR_get_error()), 42);
    ck_assert_uint_eq(ERR_peek_error(), 0);
}

int main(void)
{
    return run_case("key", fill_plain);
}
