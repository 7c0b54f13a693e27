/* Tests of keys.c, and of the detection of changes in keys_dir.c. */

#include "auth/keys_dir.h"
#include "key_pair.h"
#include "pj_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

static struct pair first, second;
static struct config cfg;
static struct error err;

static void use(const struct pair *pair)
{
    memset(&cfg, 0, sizeof(cfg));
    pair_use(&cfg, pair);
}

static void setup_once(void)
{
    pair_generate(&first, NULL);
    pair_generate(&second, "second");
}

static void teardown_once(void)
{
    pair_free(&first);
    pair_free(&second);
}

static void setup(void)
{
    use(&first);
    err.text[0] = '\0';
}

static struct keys *load(void)
{
    return keys_load(&cfg, &err);
}

static void expect_refused(const char *word)
{
    ck_assert_ptr_null(load());
    ck_assert_msg(strstr(err.text, word) != NULL, "%s", err.text);
    ck_assert_ptr_null(strstr(err.text, first.private_text));
    ck_assert_ptr_null(strchr(err.text, '\n'));
}

TEST (test_generated_pair_loads) {
    struct keys *keys = load();

    ck_assert_msg(keys != NULL, "%s", err.text);
    ck_assert_uint_eq(keys->verifying_count, 1);
    ck_assert_int_eq(EVP_PKEY_get_bits(keys->signing->pkey), 2048);
    ck_assert_ptr_nonnull(keys_find(keys, str(first.kid)));
    ck_assert_ptr_null(keys_find(keys, str("second")));
    ck_assert_ptr_null(keys_find(keys, str("")));
    keys_release(keys);
}

TEST (test_default_kid_is_the_thumbprint) {
    struct keys *keys = load();
    char print[PJ_THUMBPRINT_CHARS + 1] = "";

    ck_assert_int_eq(pj_key_thumbprint(keys->signing, print), PJ_OK);
    ck_assert_str_eq(first.kid, print);
    ck_assert_str_eq(second.kid, "second");
    keys_release(keys);
}

TEST (test_document_is_a_key_set_without_private_parts) {
    static unsigned char mem[65536];
    struct keys *keys = load();
    pj_keyset_t set = {0};
    pj_arena_t arena;
    pj_str_t text;

    text.data = (const unsigned char *) keys->jwks;
    text.len = keys->jwks_len;
    pj_arena_init(&arena, mem, sizeof(mem));
    ck_assert_int_eq(pj_keyset_parse(&set, &arena, text), PJ_OK);
    ck_assert_uint_eq(set.count, 1);
    ck_assert_int_eq(pj_key_match(keys->signing, set.keys[0]), PJ_OK);
    ck_assert_ptr_null(memmem(keys->jwks, keys->jwks_len, "\"d\"", 3));
    ck_assert_uint_eq(strlen(keys->etag), 34);
    pj_keyset_clear(&set);
    keys_release(keys);
}

/* A pair of each algorithm signs, is published, and has a secret of its own.
 */
TEST (test_each_algorithm) {
    static const char *const algs[] = {"RS256", "ES256", "EdDSA"};
    unsigned char secrets[3][sizeof(((struct keys *) NULL)->hmac_key)];

    for (size_t i = 0; i < 3; i++) {
        char token[1024], alg[32];
        struct pair pair;
        struct keys *keys, *again;
        size_t len;

        pair_of(&pair, NULL, algs[i]);
        use(&pair);
        keys = load();
        again = load();
        ck_assert_msg(keys != NULL && again != NULL, "%s", err.text);
        snprintf(alg, sizeof(alg), "\"alg\":\"%s\"", algs[i]);
        ck_assert_ptr_nonnull(
            memmem(keys->jwks, keys->jwks_len, alg, strlen(alg)));
        ck_assert_int_eq(pj_jws_sign(keys->signing, PJ_TYP_JWT, PJ_STR("{}"),
                                     token, sizeof(token), &len),
                         PJ_OK);
        memcpy(secrets[i], keys->hmac_key, sizeof(secrets[i]));
        ck_assert_mem_eq(again->hmac_key, secrets[i], sizeof(secrets[i]));
        for (size_t j = 0; j < i; j++) {
            ck_assert_mem_ne(secrets[i], secrets[j], sizeof(secrets[i]));
        }
        keys_release(again);
        keys_release(keys);
        pair_free(&pair);
    }
}

TEST (test_pair_must_match) {
    cfg.jwt_public_key_base64 = second.public_text;
    expect_refused("PLATFORM_JWT_PUBLIC_KEY_BASE64");
}

TEST (test_garbage_names_its_variable) {
    cfg.jwt_private_key_base64 = (char *) "!!!!";
    expect_refused("PLATFORM_JWT_PRIVATE_KEY_BASE64");
    cfg.jwt_private_key_base64 = (char *) "aGVsbG8=";
    expect_refused("PLATFORM_JWT_PRIVATE_KEY_BASE64");
    cfg.jwt_private_key_base64 = first.public_text;
    expect_refused("PLATFORM_JWT_PRIVATE_KEY_BASE64");
    use(&first);
    cfg.jwt_public_key_base64 = (char *) "aGVsbG8=";
    expect_refused("PLATFORM_JWT_PUBLIC_KEY_BASE64");
}

TEST (test_missing_parts) {
    cfg.jwt_public_key_base64 = NULL;
    expect_refused("PLATFORM_JWT_PUBLIC_KEY_BASE64: missing");
    memset(&cfg, 0, sizeof(cfg));
    expect_refused("PLATFORM_JWT_KEY_ID: missing");
}

TEST (test_local_may_lack_all_parts_but_not_some) {
    struct keys *keys;

    cfg.is_local = true;
    cfg.jwt_key_id = NULL;
    expect_refused("PLATFORM_JWT_KEY_ID: missing");
    memset(&cfg, 0, sizeof(cfg));
    cfg.is_local = true;
    keys = load();
    ck_assert_msg(keys != NULL, "%s", err.text);
    ck_assert_ptr_null(keys->signing);
    ck_assert_uint_eq(keys->jwks_len, strlen("{\"keys\":[]}"));
    ck_assert_mem_eq(keys->jwks, "{\"keys\":[]}", keys->jwks_len);
    keys_release(keys);
}

TEST (test_additional_keys_are_published) {
    char list[4096];
    struct keys *keys;

    snprintf(list, sizeof(list), "old=%s,", second.public_text);
    cfg.jwt_additional_public_keys = list;
    keys = load();
    ck_assert_msg(keys != NULL, "%s", err.text);
    ck_assert_uint_eq(keys->verifying_count, 2);
    ck_assert_ptr_nonnull(keys_find(keys, str("old")));
    ck_assert_ptr_nonnull(memmem(keys->jwks, keys->jwks_len, "\"old\"", 5));
    keys_release(keys);
}

TEST (test_bad_additional_keys) {
    char list[8192];

    cfg.jwt_additional_public_keys = (char *) "nokid";
    expect_refused("PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS");
    cfg.jwt_additional_public_keys = (char *) "a=aGVsbG8=";
    expect_refused("PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS: key a");
    snprintf(list, sizeof(list), "a=%s,a=%s", second.public_text,
             second.public_text);
    cfg.jwt_additional_public_keys = list;
    expect_refused("appears twice");
    snprintf(list, sizeof(list), "%s=%s", first.kid, second.public_text);
    expect_refused("appears twice");
    snprintf(list, sizeof(list), "a b=%s", second.public_text);
    expect_refused("a kid is not acceptable");
    snprintf(list, sizeof(list), "a\"=%s", second.public_text);
    expect_refused("a kid is not acceptable");
    snprintf(list, sizeof(list), "%0300d=%s", 0, second.public_text);
    expect_refused("a kid is not acceptable");
    snprintf(list, sizeof(list), "a=%s", second.private_text);
    expect_refused("PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS: key a");
}

TEST (test_as_many_additional_keys_as_fit) {
    static char list[32768];
    struct keys *keys;
    size_t len = 0;

    for (int i = 0; i <= KEYS_MAX_ADDITIONAL; i++) {
        if (i == KEYS_MAX_ADDITIONAL) {
            keys = load();
            ck_assert_msg(keys != NULL, "%s", err.text);
            ck_assert_uint_eq(keys->verifying_count, 1 + KEYS_MAX_ADDITIONAL);
            keys_release(keys);
        }
        len += (size_t) snprintf(list + len, sizeof(list) - len, "k%d=%s,", i,
                                 second.public_text);
        ck_assert_uint_lt(len, sizeof(list));
        cfg.jwt_additional_public_keys = list;
    }
    expect_refused("too many keys");
}

TEST (test_publish_swaps_while_held) {
    struct keys *old, *held;

    ck_assert_ptr_null(keys_acquire());
    keys_publish(load());
    old = keys_acquire();
    use(&second);
    keys_publish(load());
    held = keys_acquire();
    ck_assert_ptr_ne(old, held);
    ck_assert_ptr_nonnull(keys_find(old, str(first.kid)));
    ck_assert_ptr_nonnull(keys_find(held, str("second")));
    ck_assert_str_ne(old->etag, held->etag);
    keys_release(old);
    keys_release(held);
    keys_publish(NULL);
    ck_assert_ptr_null(keys_acquire());
    keys_release(NULL);
}

TEST (test_each_worker_signs_with_a_copy_of_its_own) {
    struct keys *keys;
    const pj_key_t *one, *two;

    cfg.worker_threads = 2;
    keys = load();
    ck_assert_msg(keys != NULL, "%s", err.text);
    one = keys_signer(keys, 0);
    two = keys_signer(keys, 1);
    ck_assert_ptr_ne(one, keys->signing);
    ck_assert_ptr_ne(one, two);
    ck_assert_ptr_eq(keys_signer(keys, 0), one);
    ck_assert_int_eq(pj_key_match(one, keys->verifying[0]), PJ_OK);
    ck_assert_int_eq(pj_key_match(two, keys->verifying[0]), PJ_OK);
    ck_assert_ptr_eq(keys_signer(keys, 2), keys->signing);
    keys_release(keys);
}

TEST (test_without_a_key_nobody_signs) {
    struct keys *keys;

    memset(&cfg, 0, sizeof(cfg));
    cfg.is_local = true;
    cfg.worker_threads = 2;
    keys = load();
    ck_assert_msg(keys != NULL, "%s", err.text);
    ck_assert_ptr_null(keys_signer(keys, 0));
    ck_assert_ptr_null(keys_signer(keys, 2));
    keys_release(keys);
}

/* -- a directory -- */

static void put(const char *dir, const char *name, const char *text)
{
    char path[128];
    FILE *out;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    out = fopen(path, "w");
    ck_assert_ptr_nonnull(out);
    ck_assert_int_ge(fputs(text, out), 0);
    ck_assert_int_eq(fclose(out), 0);
}

TEST (test_stamp_changes_with_the_files) {
    char dir[] = "/tmp/check-keys-XXXXXX", path[128], other[128];
    uint64_t empty, one, two;

    ck_assert_uint_eq(keys_dir_stamp("/none"), 0);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    empty = keys_dir_stamp(dir);
    ck_assert_uint_ne(empty, 0);
    put(dir, ".new", "x"); /* no file of it, as commands make it */
    ck_assert_uint_eq(keys_dir_stamp(dir), empty);
    put(dir, "a", "x");
    one = keys_dir_stamp(dir);
    ck_assert_uint_ne(one, empty);
    ck_assert_uint_eq(keys_dir_stamp(dir), one);

    snprintf(path, sizeof(path), "%s/a", dir);
    snprintf(other, sizeof(other), "%s/b", dir);
    ck_assert_int_eq(rename(path, other), 0);
    two = keys_dir_stamp(dir);
    ck_assert_uint_ne(two, one);
    /* Its mode alone; the clock of files is a coarse one. */
    do {
        ck_assert_int_eq(chmod(other, 0600), 0);
    } while (keys_dir_stamp(dir) == two);

    ck_assert_int_eq(unlink(other), 0);
    ck_assert_uint_eq(keys_dir_stamp(dir), empty);
    snprintf(path, sizeof(path), "%s/.new", dir);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(rmdir(dir), 0);
}

/* Replaces opendir() for keys_dir_stamp(), which runs before and after each
 * attempt to read the keys.  moves lists the calls at which a file is
 * renamed. */
static struct {
    const char *dir;
    int opened, first, last; /* moves from the first to the last */
    char name[64];
} moves;

DIR *opendir(const char *path)
{
    int fd;

    moves.opened++;
    if (moves.dir != NULL && moves.opened >= moves.first &&
        moves.opened <= moves.last) {
        char from[128], to[128];

        snprintf(from, sizeof(from), "%s/%s", moves.dir, moves.name);
        snprintf(moves.name, sizeof(moves.name), "second.published.%d.pem",
                 moves.opened);
        snprintf(to, sizeof(to), "%s/%s", moves.dir, moves.name);
        ck_assert_int_eq(rename(from, to), 0);
    }
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 ? fdopendir(fd) : NULL;
}

static void put_key(const char *dir, const char *name, const struct pair *pair)
{
    const char *parts[] = {pair->private_text, pair->public_text};
    char text[8192] = "";
    size_t len = 0;

    for (size_t i = 0; i < 2; i++) {
        int n = EVP_DecodeBlock((unsigned char *) text + len,
                                (const unsigned char *) parts[i],
                                (int) strlen(parts[i]));

        ck_assert_int_gt(n, 0);
        len = strlen(text); /* without what the padding stands for */
    }
    put(dir, name, text);
}

static const struct {
    int first, last, opened; /* how often, in the end */
    bool loads;
} changes[] = {
    {0, 0, 2, true},
    {2, 2, 4, true}, /* while the first look was taken */
    {2, 38, 40, true},
    {2, 40, 40, false}, /* again and again */
};

TESTS (test_a_directory_that_changes_is_read_again, LENGTH(changes)) {
    char dir[] = "/tmp/check-keys-XXXXXX", path[128];
    struct keys *keys;

    (void) umask(077);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    put_key(dir, "first.signing.1.pem", &first);
    put_key(dir, ".second", &second); /* a look finds no such key */
    memset(&cfg, 0, sizeof(cfg));
    cfg.jwt_key_dir = dir;
    moves.dir = dir;
    moves.opened = 0;
    moves.first = changes[_i].first;
    moves.last = changes[_i].last;
    snprintf(moves.name, sizeof(moves.name), ".second");

    keys = load();
    ck_assert_int_eq(moves.opened, changes[_i].opened);
    ck_assert_msg((keys != NULL) == changes[_i].loads, "%s", err.text);
    if (keys != NULL) {
        ck_assert_ptr_nonnull(keys_find(keys, str("first")));
        ck_assert((keys_find(keys, str("second")) != NULL) ==
                  (changes[_i].last != 0));
        keys_release(keys);
    } else {
        ck_assert_ptr_nonnull(strstr(err.text, "keeps changing"));
    }

    moves.dir = NULL;
    snprintf(path, sizeof(path), "%s/first.signing.1.pem", dir);
    ck_assert_int_eq(unlink(path), 0);
    snprintf(path, sizeof(path), "%s/%s", dir, moves.name);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(rmdir(dir), 0);
}

static void fill(TCase *t)
{
    tcase_add_unchecked_fixture(t, setup_once, teardown_once);
    tcase_add_checked_fixture(t, setup, NULL);
}

int main(void)
{
    return run_case("keys", fill);
}
