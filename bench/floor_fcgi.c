/*
 * A FastCGI responder that does the least that a refresh needs: it verifies one
 * signature, reads one row, makes two signatures and updates one row durably.
 * It has as many threads as the service, each with a database connection.
 *
 *   floor_fcgi KEY.pem CONNINFO THREADS SOCKET FIRST LAST <RESPONSE
 *
 * Each request takes a random one of the generated sessions FIRST to LAST.
 * RESPONSE is the whole answer: headers and body.
 */

#include "key.h"

#include <fcgiapp.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_THREADS 256
#define BACKLOG 1024
#define MAX_RESPONSE 32768
#define ACCESS_BYTES 1100 /* signing input of a branch token */
#define REFRESH_BYTES 560 /* signing input of a refresh token */

static const char *key_path, *conninfo;
static int listener;
static unsigned long first, last;
static char response[MAX_RESPONSE];
static size_t response_len;
static char text[ACCESS_BYTES];

struct thread {
    pthread_t id;
    struct key *key;
    PGconn *db;
    uint64_t random;
    struct signature old;
};

static bool prepare(PGconn *db, const char *name, const char *sql)
{
    PGresult *res = PQprepare(db, name, sql, 0, NULL);
    bool ok = PQresultStatus(res) == PGRES_COMMAND_OK;

    if (!ok) {
        fprintf(stderr, "floor_fcgi: %s", PQerrorMessage(db));
    }
    PQclear(res);
    return ok;
}

static bool start(struct thread *t)
{
    t->key = key_new(key_path);
    t->db = PQconnectdb(conninfo);
    return t->key != NULL &&
           prepare(t->db, "r",
                   "SELECT account_id, jti, status, expires_at"
                   "  FROM auth_sessions"
                   " WHERE session_id = md5('s' || $1::int)::uuid") &&
           prepare(t->db, "w",
                   "UPDATE auth_sessions SET jti = gen_random_uuid(),"
                   " expires_at = now() + interval '30 days'"
                   " WHERE session_id = md5('s' || $1::int)::uuid") &&
           key_sign(t->key, text, REFRESH_BYTES, &t->old);
}

static bool statement(struct thread *t, const char *name, const char *session)
{
    const char *values[] = {session};
    PGresult *res = PQexecPrepared(t->db, name, 1, values, NULL, NULL, 1);
    bool ok = strcmp(PQcmdTuples(res), "1") == 0;

    if (!ok) {
        fprintf(stderr, "floor_fcgi: %s", PQerrorMessage(t->db));
    }
    PQclear(res);
    return ok;
}

static unsigned long any_session(struct thread *t)
{
    /* xorshift64 */
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    return first + t->random % (last - first + 1);
}

static bool serve(struct thread *t)
{
    struct signature sig;
    char session[24];

    snprintf(session, sizeof(session), "%lu", any_session(t));

    return key_verify(t->key, text, REFRESH_BYTES, &t->old) &&
           statement(t, "r", session) &&
           key_sign(t->key, text, ACCESS_BYTES, &sig) &&
           key_sign(t->key, text, REFRESH_BYTES, &sig) &&
           statement(t, "w", session);
}

static void *work(void *arg)
{
    struct thread *t = arg;
    char body[4096];
    FCGX_Request req;

    if (!start(t) || FCGX_InitRequest(&req, listener, 0) != 0) {
        fprintf(stderr, "floor_fcgi: a thread did not start\n");
        _exit(1);
    }
    while (FCGX_Accept_r(&req) == 0) {
        /* The close of a connection then does not wait for the client. */
        FCGX_Detach(&req);
        while (FCGX_GetStr(body, sizeof(body), req.in) > 0) {
        }
        if (!serve(t)) {
            fprintf(stderr, "floor_fcgi: a request failed\n");
            _exit(1);
        }
        FCGX_PutStr(response, (int) response_len, req.out);
        FCGX_Finish_r(&req);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static struct thread threads[MAX_THREADS];
    long count;

    if (argc != 7) {
        fprintf(stderr, "usage: floor_fcgi KEY.pem CONNINFO THREADS SOCKET "
                        "FIRST LAST <RESPONSE\n");
        return 2;
    }
    key_path = argv[1];
    conninfo = argv[2];
    count = strtol(argv[3], NULL, 10);
    if (count < 1 || count > MAX_THREADS) {
        fprintf(stderr, "floor_fcgi: 1 to %d threads\n", MAX_THREADS);
        return 2;
    }
    memset(text, 'x', sizeof(text));
    first = strtoul(argv[5], NULL, 10);
    last = strtoul(argv[6], NULL, 10);
    response_len = fread(response, 1, sizeof(response), stdin);
    if (first > last || response_len == 0) {
        fprintf(stderr, "floor_fcgi: no sessions or no response\n");
        return 2;
    }
    if (FCGX_Init() != 0 ||
        (listener = FCGX_OpenSocket(argv[4], BACKLOG)) < 0) {
        fprintf(stderr, "floor_fcgi: cannot listen on %s\n", argv[4]);
        return 1;
    }
    (void) signal(SIGTERM, SIG_DFL);
    for (long i = 0; i < count; i++) {
        threads[i].random = 0x9e3779b97f4a7c15u * (uint64_t) (i + 1);
        if (pthread_create(&threads[i].id, NULL, work, &threads[i]) != 0) {
            perror("floor_fcgi: pthread_create");
            return 1;
        }
    }
    for (long i = 0; i < count; i++) {
        pthread_join(threads[i].id, NULL);
    }
    return 0;
}
