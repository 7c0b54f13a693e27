/* Credentials: verification of our own and imported hashes with bounded
 * concurrency, and the list of forbidden credentials. */

#include "auth/password.h"

#include "auth/hasher.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/parse.h"
#include "store/model.h"

#include <crypt.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Each takes about two seconds on a slow machine.  The time of SHA-crypt grows
 * with the credential; bcrypt uses only its first 72 bytes. */
#define MAX_BCRYPT_ROUNDS (1 << 14)
#define MAX_SHA_CRYPT_ROUNDS 1000000
#define MAX_PBKDF2_ROUNDS 2000000
#define CRYPT_CREDENTIAL_MAX 128
#define BCRYPT_CREDENTIAL_MAX 72

#define NUMBER "[1-9][0-9]{0,8}"
/* At least 8 bytes of salt and 16 of hash, in one of two alphabets. */
#define PHC "\\$[A-Za-z0-9+/]{11,}\\$[A-Za-z0-9+/]"
#define ARGON2 "v=19\\$m=" NUMBER ",t=" NUMBER ",p=" NUMBER PHC "{22,}"
#define LETTER "[./0-9A-Za-z]"
#define SALT "(rounds=[1-9][0-9]{3,8}\\$)?" LETTER "{1,16}\\$" LETTER

/* The accepted forms, exactly as the respective software writes them. */
static const struct form {
    enum stored_form form;
    const char *pattern;
    const char *rounds; /* text before the rounds; NULL for bcrypt */
    unsigned long max_rounds;
} forms[] = {
    {STORED_ARGON2ID, "\\$argon2id\\$" ARGON2, ",t=", PASSWORD_MAX_ITERATIONS},
    {STORED_ARGON2I, "\\$argon2i\\$" ARGON2, ",t=", PASSWORD_MAX_ITERATIONS},
    {STORED_PBKDF2, "\\$pbkdf2-sha256\\$i=" NUMBER ",l=" NUMBER PHC "{22,43}",
     "$i=", MAX_PBKDF2_ROUNDS},
    /* in passlib's form */
    {STORED_PBKDF2,
     "\\$pbkdf2-sha256\\$" NUMBER "\\$" LETTER "{11,}\\$" LETTER "{22,43}",
     "256$", MAX_PBKDF2_ROUNDS},
    {STORED_CRYPT,
     "\\$2[aby]\\$(0[4-9]|[12][0-9]|3[01])\\$" LETTER "{21}[.Oeu]" LETTER
     "{31}",
     NULL, MAX_BCRYPT_ROUNDS},
    {STORED_CRYPT, "\\$(5\\$" SALT "{43}|6\\$" SALT "{86})",
     "$rounds=", MAX_SHA_CRYPT_ROUNDS},
};

/* Returns the number after key, which cannot occur in a salt or hash. */
static unsigned long number(const char *text, const char *key,
                            unsigned long otherwise)
{
    const char *at = strstr(text, key);

    return at != NULL ? strtoul(at + strlen(key), NULL, 10) : otherwise;
}

static bool decode(const char *text, unsigned char bytes[STORED_PART_MAX],
                   size_t *len)
{
    return sodium_base642bin(bytes, STORED_PART_MAX, text, strlen(text), NULL,
                             len, NULL,
                             sodium_base64_VARIANT_ORIGINAL_NO_PADDING) == 0;
}

/* Decodes salt and hash, the last parts of a valid hash. */
static bool read_parts(const char *text, struct stored *s)
{
    char copy[PASSWORD_STORED_MAX], *hash;

    (void) snprintf(copy, sizeof(copy), "%s", text);
    for (char *dot = copy; (dot = strchr(dot, '.')) != NULL;) {
        *dot = '+'; /* in passlib's form */
    }
    hash = strrchr(copy, '$');
    *hash++ = '\0';
    return decode(strrchr(copy, '$') + 1, s->salt, &s->salt_len) &&
           decode(hash, s->hash, &s->hash_len) &&
           number(text, ",l=", s->hash_len) == s->hash_len;
}

const char *password_parse(const char *text, struct stored *s)
{
    const struct form *f = forms, *end = f + sizeof(forms) / sizeof(forms[0]);

    while (f < end && !parse_form(text, f->pattern, PASSWORD_STORED_MAX - 1)) {
        f++;
    }
    if (f < end) {
        *s = (struct stored){.form = f->form,
                             .text = text,
                             .memory_kib = number(text, "$m=", 0),
                             .lanes = number(text, ",p=", 0)};
        s->rounds = f->rounds != NULL ? number(text, f->rounds, 5000)
                                      : 1ul << strtoul(text + 4, NULL, 10);
    }
    if (f == end || s->lanes > s->memory_kib / 8 ||
        (s->form != STORED_CRYPT && !read_parts(text, s))) {
        return "it is not an Argon2id, Argon2i, bcrypt, SHA-crypt or "
               "PBKDF2-SHA256 hash in a known form";
    }
    return s->rounds <= f->max_rounds &&
                   s->memory_kib <= PASSWORD_MAX_MEMORY_KIB
               ? NULL
               : "it takes longer to verify than a login may";
}

/* A credential that crypt() would truncate is wrong, after the same work,
 * except for bcrypt, which always ignores the end. */
static enum password_result compare_crypt(const struct stored *s,
                                          pj_str_t credential)
{
    struct crypt_data data = {0};
    char phrase[CRYPT_CREDENTIAL_MAX + 1] = "";
    size_t len =
        credential.len < sizeof(phrase) ? credential.len : CRYPT_CREDENTIAL_MAX;
    enum password_result result = PASSWORD_WRONG;
    const char *made;

    memcpy(phrase, credential.data, len);
    made = crypt_rn(phrase, s->text, &data, sizeof(data));
    if (made == NULL) {
        result = PASSWORD_UNUSABLE; /* not supported by this libcrypt */
    } else if (strlen(phrase) == len &&
               (len == credential.len || s->text[1] == '2') &&
               strlen(made) == strlen(s->text) &&
               sodium_memcmp(made, s->text, strlen(made)) == 0) {
        result = PASSWORD_OK;
    }
    sodium_memzero(phrase, sizeof(phrase));
    sodium_memzero(&data, sizeof(data));
    return result;
}

/* crypto_pwhash_str_verify() reports a lack of memory as a mismatch, which
 * would count as a failed login.  So hashes made by libsodium are computed
 * here.  Only hashes that crypto_pwhash() cannot compute use that function,
 * after a check that the memory is available. */
enum password_result password_compare(const struct stored *s,
                                      pj_str_t credential)
{
    const char *text = (const char *) credential.data;
    const bool i = s->form == STORED_ARGON2I;
    const size_t memory = (size_t) s->memory_kib * 1024;
    unsigned char hash[STORED_PART_MAX];
    bool computed, same;
    void *room;

    if (s->form == STORED_CRYPT) {
        return compare_crypt(s, credential);
    }
    if (s->form == STORED_ARGON2ID || i) {
        if (s->lanes != 1 || s->salt_len != crypto_pwhash_SALTBYTES ||
            (i && s->rounds < crypto_pwhash_argon2i_OPSLIMIT_MIN)) {
            room = mmap(NULL, memory, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (room == MAP_FAILED) {
                return PASSWORD_BUSY;
            }
            (void) munmap(room, memory);
            return crypto_pwhash_str_verify(s->text, text, credential.len) == 0
                       ? PASSWORD_OK
                       : PASSWORD_WRONG;
        }
        computed = crypto_pwhash(hash, s->hash_len, text, credential.len,
                                 s->salt, s->rounds, memory,
                                 i ? crypto_pwhash_ALG_ARGON2I13
                                   : crypto_pwhash_ALG_ARGON2ID13) == 0;
    } else {
        computed =
            PKCS5_PBKDF2_HMAC(text, (int) credential.len, s->salt,
                              (int) s->salt_len, (int) s->rounds, EVP_sha256(),
                              (int) s->hash_len, hash) == 1;
    }
    same = computed && sodium_memcmp(hash, s->hash, s->hash_len) == 0;
    sodium_memzero(hash, sizeof(hash));
    return same ? PASSWORD_OK : computed ? PASSWORD_WRONG : PASSWORD_BUSY;
}

/* -- computing with bounded concurrency -- */

static struct {
    unsigned long long iterations;
    size_t memory_bytes;
    int64_t wait_ms;
    char dummy[PASSWORD_PHC_MAX];
} params;

_Static_assert(PASSWORD_PHC_MAX >= crypto_pwhash_STRBYTES, "a PHC string fits");

/* A computation: compares with stored, makes fresh, or both. */
struct computation {
    pj_str_t credential;
    const struct stored *stored; /* or NULL */
    char *fresh;                 /* or NULL */
    int64_t started_us;
    enum password_result result; /* PASSWORD_BUSY if memory is short */
};

static void count(int64_t since_us, uint64_t work)
{
    metrics_time(METRICS_HASH, metrics_now_us() - since_us);
    metrics_add(METRICS_HASH_WORK, work);
}

static void compute(void *arg)
{
    struct computation *c = arg;
    const struct stored *s = c->stored;
    int64_t since_us = c->started_us = metrics_now_us();

    c->result = PASSWORD_OK;
    if (s != NULL) {
        c->result = password_compare(s, c->credential);
        count(since_us,
              (s->memory_kib > 0 ? s->memory_kib : 1) * (uint64_t) s->rounds);
        since_us = metrics_now_us();
    }
    if (c->fresh != NULL) {
        if (crypto_pwhash_str_alg(c->fresh, (const char *) c->credential.data,
                                  c->credential.len, params.iterations,
                                  params.memory_bytes,
                                  crypto_pwhash_ALG_ARGON2ID13) != 0) {
            c->result = PASSWORD_BUSY;
        }
        count(since_us, params.memory_bytes / 1024 * params.iterations);
    }
}

/* Calls fn in a hasher thread.  False if none is free in time. */
static bool run_in_lane(void (*fn)(void *arg), void *arg, int64_t deadline_ms)
{
    int64_t until_ms = metrics_now_us() / 1000 + params.wait_ms;

    if (deadline_ms > 0 && deadline_ms < until_ms) {
        until_ms = deadline_ms;
    }
    return hasher_run(HASHER_HASH, until_ms, fn, arg);
}

static enum password_result run(struct computation *c, int64_t deadline_ms)
{
    int64_t asked_us = metrics_now_us();

    c->result = PASSWORD_BUSY;
    if (!run_in_lane(compute, c, deadline_ms)) {
        c->started_us = metrics_now_us();
    } else if (c->result == PASSWORD_BUSY) {
        log_line(LOG_ERROR_, "auth.hash.no_memory",
                 "There is no memory to compute the hash of a credential.");
    }
    metrics_time(METRICS_HASH_WAIT, c->started_us - asked_us);
    return c->result;
}

/* Marks a hash, by its salt, as a hash without a credential. */
static bool mark_nobody(char *phc)
{
    char *hash = strrchr(phc, '$');
    size_t len = strlen(MODEL_NOBODY_SALT);

    if (hash == NULL || (size_t) (hash - phc) <= len) {
        return false;
    }
    memcpy(hash - len, MODEL_NOBODY_SALT, len);
    return hash[-(ptrdiff_t) len - 1] == '$';
}

bool password_setup(const struct config *cfg)
{
    unsigned char nobody_knows[32];
    struct computation c = {.credential = {nobody_knows, sizeof(nobody_knows)},
                            .fresh = params.dummy};

    if (sodium_init() < 0) {
        return false;
    }
    params.iterations = (unsigned long long) cfg->argon2_iterations;
    params.memory_bytes = (size_t) cfg->argon2_memory_kib * 1024;
    randombytes_buf(nobody_knows, sizeof(nobody_knows));
    compute(&c);
    sodium_memzero(nobody_knows, sizeof(nobody_knows));
    return c.result == PASSWORD_OK && mark_nobody(params.dummy);
}

bool password_start(const struct config *cfg, int64_t wait_ms)
{
    int places = cfg->worker_threads > 1 ? cfg->worker_threads / 2 : 1;

    params.wait_ms = wait_ms;
    return hasher_start(HASHER_HASH, cfg->hash_concurrency, places) &&
           hasher_start(HASHER_SIGN, cfg->hash_concurrency,
                        cfg->worker_threads);
}

bool password_has_room(void)
{
    struct hasher_use use = hasher_use(HASHER_HASH);

    return use.threads == 0 || use.places > 0;
}

const char *password_nobody(void)
{
    return params.dummy;
}

/* Returns true unless it is Argon2id of at least the configured cost. */
static bool is_weaker(const struct stored *s)
{
    return s->form != STORED_ARGON2ID ||
           s->memory_kib < params.memory_bytes / 1024 ||
           s->rounds < params.iterations;
}

/* Returns false if bcrypt compared only the beginning of the credential.  A new
 * hash would make a mistyped end part of the credential. */
static bool is_whole(const struct stored *s, pj_str_t credential)
{
    return s->form != STORED_CRYPT || s->text[1] != '2' ||
           credential.len <= BCRYPT_CREDENTIAL_MAX;
}

enum password_result password_verify(const char *text, pj_str_t credential,
                                     int64_t deadline_ms,
                                     char fresh[PASSWORD_PHC_MAX])
{
    struct stored stored;
    struct computation c = {.credential = credential, .stored = &stored};
    bool usable = text != NULL && password_parse(text, &stored) == NULL;
    enum password_result result = PASSWORD_BUSY;

    if (usable || password_parse(params.dummy, &stored) == NULL) {
        c.fresh =
            is_weaker(&stored) && is_whole(&stored, credential) ? fresh : NULL;
        result = run(&c, deadline_ms);
    }
    if (result != PASSWORD_OK || c.fresh == NULL) {
        sodium_memzero(fresh, PASSWORD_PHC_MAX);
    }
    if (usable || result == PASSWORD_BUSY) {
        return result;
    }
    return text != NULL ? PASSWORD_UNUSABLE : PASSWORD_WRONG;
}

bool password_hash(pj_str_t credential, int64_t deadline_ms,
                   char out[PASSWORD_PHC_MAX])
{
    struct computation c = {.credential = credential, .fresh = out};

    return run(&c, deadline_ms) == PASSWORD_OK;
}

/* -- rules for new credentials -- */

#define LIST_MAX_BYTES (256 * 1024 * 1024)
#define OTHER SIZE_MAX /* the line differs */

struct search {
    const char *path;
    pj_str_t credential;
    enum password_new verdict;
    int error; /* errno if the list cannot be read */
};

static bool is_shorter(pj_str_t credential, int characters)
{
    const unsigned char *p = credential.data, *end = p + credential.len;
    bool valid;

    while (p < end && characters > 0) {
        p += pj_utf8_next(p, end, &valid);
        characters--;
    }
    return characters > 0;
}

static unsigned char fold(unsigned char ch)
{
    return ch >= 'A' && ch <= 'Z' ? ch | 0x20 : ch;
}

/* Compares byte by byte.  same is the number of matching bytes of the line. */
static enum password_new search_lines(int fd, pj_str_t credential)
{
    unsigned char chunk[64 * 1024];
    size_t same = 0, total = 0;
    ssize_t len;

    while ((len = read(fd, chunk, sizeof(chunk))) > 0) {
        total += (size_t) len;
        if (total > LIST_MAX_BYTES) {
            errno = EFBIG;
            return PASSWORD_UNREAD;
        }
        for (const unsigned char *p = chunk; p < chunk + len; p++) {
            if (same == credential.len && (*p == '\n' || *p == '\r')) {
                return PASSWORD_FORBIDDEN;
            }
            if (*p == '\n') {
                same = 0;
            } else if (same < credential.len &&
                       fold(*p) == fold(credential.data[same])) {
                same++;
            } else {
                same = OTHER;
            }
        }
    }
    return len < 0                  ? PASSWORD_UNREAD
           : same == credential.len ? PASSWORD_FORBIDDEN
                                    : PASSWORD_FITS;
}

static void search(void *arg)
{
    struct search *s = arg;
    int fd = open(s->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat st;

    if (fd >= 0 && fstat(fd, &st) == 0) {
        errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
        s->verdict = S_ISREG(st.st_mode) ? search_lines(fd, s->credential)
                                         : PASSWORD_UNREAD;
    }
    s->error = errno;
    if (fd >= 0) {
        (void) close(fd);
    }
}

enum password_new password_check_new(const struct config *cfg,
                                     pj_str_t credential, int64_t deadline_ms)
{
    struct search s = {.path = cfg->credential_forbidden,
                       .credential = credential,
                       .verdict = PASSWORD_UNREAD};

    if (is_shorter(credential, cfg->credential_min)) {
        return PASSWORD_SHORT;
    }
    if (s.path == NULL) {
        return PASSWORD_FITS;
    }
    if (!run_in_lane(search, &s, deadline_ms)) {
        return PASSWORD_LATER;
    }
    errno = s.error;
    return s.verdict;
}
