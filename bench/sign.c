/*
 * Signs many RS256 tokens: sign KEY.pem THREADS <INPUT >TOKENS
 *
 * The first line of the input is the kid, the second the payload.  Each
 * further line has the words of one token; they replace #1, #2 and so on in
 * the payload.  The output has one token a line, in the same order.
 */

#include "key.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_THREADS 64
#define MAX_LINES 1000000
#define MAX_TEXT 16384
#define MAX_WORDS 9

static pj_key_t *key;
static char *payload;
static char *lines[MAX_LINES]; /* the words, then the token */
static long count, threads;

/* Fills the payload with the words of a line.  Returns its length, or 0 if it
 * is too long. */
static size_t fill(char dst[MAX_TEXT], char *line)
{
    char *words[MAX_WORDS] = {NULL}, *save;
    size_t len = 0;

    for (int i = 0; i < MAX_WORDS; i++) {
        words[i] = strtok_r(i == 0 ? line : NULL, " ", &save);
    }
    for (const char *p = payload; *p != '\0'; p++) {
        int word = p[0] == '#' ? p[1] - '1' : -1;
        bool is_word = word >= 0 && word < MAX_WORDS && words[word] != NULL;
        const char *from = is_word ? words[word] : p;
        size_t n = is_word ? strlen(from) : 1;

        if (n > MAX_TEXT - len) {
            return 0;
        }
        memcpy(dst + len, from, n);
        len += n;
        p += is_word;
    }
    return len;
}

/* Frees a line and returns its token, or NULL on failure. */
static char *sign(char *line)
{
    char claims[MAX_TEXT], token[4 * MAX_TEXT];
    pj_str_t payload_of = {(unsigned char *) claims, fill(claims, line)};
    size_t len;

    free(line);
    if (payload_of.len == 0 || pj_jws_sign(key, PJ_TYP_JWT, payload_of, token,
                                           sizeof(token), &len) != PJ_OK) {
        return NULL;
    }
    return strndup(token, len);
}

static void *work(void *first)
{
    for (long n = (long) (size_t) first; n < count; n += threads) {
        lines[n] = sign(lines[n]);
    }
    return NULL;
}

static char *read_line(void)
{
    char *line = NULL;
    size_t cap = 0;

    if (getline(&line, &cap, stdin) <= 0) {
        free(line);
        return NULL;
    }
    line[strcspn(line, "\n")] = '\0';
    return line;
}

int main(int argc, char **argv)
{
    pthread_t id[MAX_THREADS];
    char *kid = read_line();

    threads = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
    payload = read_line();
    if (threads < 1 || threads > MAX_THREADS || payload == NULL) {
        fprintf(stderr, "usage: sign KEY.pem THREADS <INPUT >TOKENS\n");
        return 2;
    }
    key = key_jose(argv[1], kid);
    if (key == NULL) {
        return 1;
    }
    while (count < MAX_LINES && (lines[count] = read_line()) != NULL) {
        count++;
    }
    for (long i = 0; i < threads; i++) {
        if (pthread_create(&id[i], NULL, work, (void *) (size_t) i) != 0) {
            perror("sign: pthread_create");
            return 1;
        }
    }
    for (long i = 0; i < threads; i++) {
        pthread_join(id[i], NULL);
    }
    for (long n = 0; n < count; n++) {
        if (lines[n] == NULL || puts(lines[n]) < 0) {
            fprintf(stderr, "sign: token %ld could not be made\n", n + 1);
            return 1;
        }
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
