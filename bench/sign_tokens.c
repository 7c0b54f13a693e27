/*
 * Signs many tokens at once: sign_tokens KEY.pem COUNT THREADS <TEMPLATE
 * >TOKENS
 *
 * The first line of the template is the header, the second the payload; in
 * the payload every "############" becomes the token's number, twelve
 * hexadecimal digits.  A token a line comes out, in order.
 */

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 16384, MAX_TOKEN = 32768, DIGITS = 12, MAX_THREADS = 64 };

static const char MARK[] = "############";

static struct {
    EVP_PKEY *key;
    char header[MAX_TEXT];
    char payload[MAX_TEXT];
    long count;
    long threads;
    char **tokens;
} job;

static size_t to_base64url(char *out, const unsigned char *in, size_t n)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                   "abcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t len = 0;
    unsigned bits = 0;
    unsigned held = 0;

    for (size_t i = 0; i < n; i++) {
        held = (held << 8 | in[i]) & 0xffff;
        for (bits += 8; bits >= 6; bits -= 6) {
            out[len++] = alphabet[held >> (bits - 6) & 63];
        }
    }
    if (bits > 0) {
        out[len++] = alphabet[held << (6 - bits) & 63];
    }
    return len;
}

static void number(char *payload, long n)
{
    char digits[DIGITS + 1];

    snprintf(digits, sizeof(digits), "%012lx", (unsigned long) n);
    for (char *p = payload; (p = strstr(p, MARK)) != NULL; p += DIGITS) {
        memcpy(p, digits, DIGITS);
    }
}

static int sign(EVP_MD_CTX *ctx, long n, char *token)
{
    char payload[MAX_TEXT];
    unsigned char signature[1024];
    size_t size = sizeof(signature);
    size_t len;

    memcpy(payload, job.payload, sizeof(payload));
    number(payload, n);
    len =
        to_base64url(token, (unsigned char *) job.header, strlen(job.header));
    token[len++] = '.';
    len +=
        to_base64url(token + len, (unsigned char *) payload, strlen(payload));
    if (EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, job.key) != 1 ||
        EVP_DigestSign(ctx, signature, &size, (unsigned char *) token, len) !=
            1) {
        return -1;
    }
    token[len++] = '.';
    len += to_base64url(token + len, signature, size);
    token[len] = '\0';
    return 0;
}

static void *work(void *arg)
{
    long first = (long) (size_t) arg;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    char token[MAX_TOKEN * 2];

    for (long n = first; ctx != NULL && n < job.count; n += job.threads) {
        if (sign(ctx, n, token) != 0) {
            break;
        }
        job.tokens[n] = strdup(token);
    }
    EVP_MD_CTX_free(ctx);
    return NULL;
}

static int read_line(char *line)
{
    if (fgets(line, MAX_TEXT, stdin) == NULL) {
        return -1;
    }
    line[strcspn(line, "\n")] = '\0';
    return 0;
}

static int prepare(char **argv)
{
    FILE *file = fopen(argv[1], "r");

    if (file == NULL) {
        return -1;
    }
    job.key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
    fclose(file);
    job.count = strtol(argv[2], NULL, 10);
    job.threads = strtol(argv[3], NULL, 10);
    if (job.key == NULL || job.count < 1 || job.threads < 1 ||
        job.threads > MAX_THREADS || read_line(job.header) != 0 ||
        read_line(job.payload) != 0) {
        return -1;
    }
    job.tokens = calloc((size_t) job.count, sizeof(*job.tokens));
    return job.tokens == NULL ? -1 : 0;
}

int main(int argc, char **argv)
{
    pthread_t threads[MAX_THREADS];

    if (argc != 4 || prepare(argv) != 0) {
        fprintf(stderr,
                "usage: sign_tokens KEY.pem COUNT THREADS <TEMPLATE\n");
        return 2;
    }
    for (long i = 0; i < job.threads; i++) {
        if (pthread_create(&threads[i], NULL, work, (void *) (size_t) i) !=
            0) {
            return 1;
        }
    }
    for (long i = 0; i < job.threads; i++) {
        pthread_join(threads[i], NULL);
    }
    for (long n = 0; n < job.count; n++) {
        if (job.tokens[n] == NULL || puts(job.tokens[n]) < 0) {
            fprintf(stderr, "sign_tokens: token %ld could not be made\n", n);
            return 1;
        }
    }
    return 0;
}
