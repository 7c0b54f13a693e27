/* Second factors: tokens between the calls, codes, and whether a session is
 * fresh. */

#pragma once

#include "auth/auth.h"
#include "store/store_factor_token.h"

#define FACTOR_TOKEN_CHARS 43 /* base64url of 32 bytes */
#define FACTOR_TOKEN_S 300    /* until it expires */
#define FACTOR_FRESH_S 300    /* since the authentication of a fresh session */

/* -- tokens between the calls -- */

/* Makes a token of t's purpose and ids; with_challenge adds a challenge.
 * account is NULL, or as it was read, and then has not changed.  STORE_NONE if
 * it has.  STORE_UNAVAILABLE also without randomness. */
enum store_result factor_token_make(struct worker *w, struct factor_token *t,
                                    bool with_challenge,
                                    const struct account *account,
                                    char text[FACTOR_TOKEN_CHARS + 1]);
/* Sets t's hash from the text that a client sent. */
bool factor_token_hash(pj_str_t text, struct factor_token *t);
/* Refuses with AUTH_FACTOR_TOKEN_INVALID. */
bool factor_token_refuse(struct worker *w);

/* -- checking -- */

/* A factor that was shown, and is to be used. */
struct factor_use {
    enum { FACTOR_BY_STEP, FACTOR_BY_RECOVERY, FACTOR_BY_PASSKEY } kind;
    const char *account_id;
    char factor_id[STORE_UUID]; /* except FACTOR_BY_RECOVERY */
    int64_t step;               /* of a code, or the signature counter */
    unsigned char sha256[STORE_SHA256]; /* of a recovery code */
    bool synced;                        /* a passkey */
    unsigned amr;                       /* what it adds */
};

/* Reads {"type","code"} and finds the factor that the code is of.  Counts a
 * failure before, which factor_check_settle() takes back.  False with a
 * refusal. */
struct factor_check {
    const char *account_id;
    struct factor_list factors;
    int64_t failure_us; /* 0 unless counted */
};
bool factor_check_begin(struct worker *w, const char *account_id,
                        struct factor_check *check);
bool factor_check_code(struct worker *w, const struct factor_check *check,
                       bool recovery, pj_str_t code, struct factor_use *use);
/* Takes the failure back unless the answer means a wrong factor. */
void factor_check_settle(struct worker *w, const struct factor_check *check);
/* Refuses with AUTH_FACTOR_INVALID, and writes an audit line. */
bool factor_refuse(struct worker *w, const char *account_id);

/* Refuses a factor that was not added: there are STORE_MAX_FACTORS, or the
 * account has changed concurrently. */
bool factor_refuse_more(struct worker *w, const char *account_id);

/* Records that the factor was used.  STORE_NONE if it was used before. */
enum store_result factor_use(struct worker *w, const struct factor_use *use);

/* Finds the unconfirmed TOTP factor of the list with this id, and the step of
 * code; *step is 0 if the code is wrong.  False with a refusal. */
bool factor_open_step(struct worker *w, const struct factor_list *list,
                      const char *account_id, pj_str_t factor_id, pj_str_t code,
                      const struct factor **factor, int64_t *step);

struct factor_recovery {
    unsigned char hashes[STORE_RECOVERY_CODES][STORE_SHA256];
    struct store_list codes; /* JSON strings */
};

/* Generates recovery codes.  False with a refusal without randomness. */
bool factor_recovery_make(struct worker *w, struct factor_recovery *out);
/* Keeps them in place of the account's. */
enum store_result factor_recovery_keep(struct worker *w, const char *account_id,
                                       struct factor_recovery *made);

/* -- freshness -- */

/* False with AUTH_STEP_UP_REQUIRED unless the session was authenticated at most
 * FACTOR_FRESH_S ago, by several factors if the account has a second one. */
bool factor_fresh(struct worker *w, const struct session *s,
                  const struct account *account);
/* Refuses with AUTH_STEP_UP_REQUIRED, and tells what is needed. */
bool factor_refuse_stale(struct worker *w, const struct account *account);
