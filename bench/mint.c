/*
 * Signs refresh tokens for sessions whose rows were generated.
 *
 *   mint KEY.pem KID ISSUER AGE TTL <"session account jti" lines >tokens
 *
 * They were issued AGE seconds ago for TTL seconds; one token a line, in the
 * order of the input.
 */

#include "rsa.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define UUID_LEN 36
#define TEXT_MAX 4096

/* Base64url of len bytes behind dst; dst holds 4 bytes for 3 and one more. */
static char *base64url(char *dst, const void *src, size_t len)
{
    int n = EVP_EncodeBlock((unsigned char *) dst, src, (int) len);

    while (n > 0 && dst[n - 1] == '=') {
        n--;
    }
    for (int i = 0; i < n; i++) {
        dst[i] = dst[i] == '+' ? '-' : dst[i] == '/' ? '_' : dst[i];
    }
    return dst + n;
}

static bool mint(struct rsa *rsa, const char *header, const char *claims)
{
    char token[4 * TEXT_MAX];
    unsigned char sig[RSA_SIGNATURE_BYTES];
    char *end = base64url(token, header, strlen(header));

    *end++ = '.';
    end = base64url(end, claims, strlen(claims));
    if (!rsa_sign(rsa, token, (size_t) (end - token), sig)) {
        return false;
    }
    *end++ = '.';
    end = base64url(end, sig, sizeof(sig));
    *end++ = '\n';
    return fwrite(token, 1, (size_t) (end - token), stdout) ==
           (size_t) (end - token);
}

int main(int argc, char **argv)
{
    char session[UUID_LEN + 1], account[UUID_LEN + 1], jti[UUID_LEN + 1];
    char header[TEXT_MAX], claims[TEXT_MAX];
    long long iat;
    struct rsa *rsa;
    bool ok = true;

    if (argc != 6) {
        fprintf(stderr, "usage: mint KEY.pem KID ISSUER AGE TTL\n");
        return 2;
    }
    iat = (long long) time(NULL) - strtoll(argv[4], NULL, 10);
    rsa = rsa_new(argv[1]);
    if (rsa == NULL) {
        return 1;
    }
    snprintf(header, sizeof(header),
             "{\"alg\":\"RS256\",\"typ\":\"JWT\",\"kid\":\"%s\"}", argv[2]);
    while (ok && scanf("%36s %36s %36s", session, account, jti) == 3) {
        snprintf(claims, sizeof(claims),
                 "{\"iss\":\"%s\",\"sub\":\"%s\",\"iat\":%lld,\"exp\":%lld,"
                 "\"jti\":\"%s\",\"account_id\":\"%s\",\"session_id\":\"%s\","
                 "\"token_type\":\"refresh\"}",
                 argv[3], account, iat, iat + strtoll(argv[5], NULL, 10), jti,
                 account, session);
        ok = mint(rsa, header, claims);
    }
    rsa_free(rsa);
    return ok && fflush(stdout) == 0 ? 0 : 1;
}
