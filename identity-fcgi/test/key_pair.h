/* Key pairs for the tests of what signs and verifies. */

#ifndef KEY_PAIR_H_INCLUDED
#define KEY_PAIR_H_INCLUDED

#include "auth/keys.h"
#include "testing.h"

#include <string.h>

/* Three settings as "keys generate" prints them. */
struct pair {
    char *kid;
    char *private_text;
    char *public_text;
};

/* kid as keys_generate() takes it. */
static inline void pair_of(struct pair *pair, const char *kid, const char *alg)
{
    struct new_keys made;

    ck_assert(keys_generate(kid, pj_alg_find(pj_str(alg)), &made));
    pair->kid = strdup(made.kid);
    pair->private_text = strdup(made.private_text);
    pair->public_text = strdup(made.public_text);
}

static inline void pair_generate(struct pair *pair, const char *kid)
{
    pair_of(pair, kid, "RS256");
}

static inline void pair_free(struct pair *pair)
{
    free(pair->kid);
    free(pair->private_text);
    free(pair->public_text);
}

/* Makes pair the signing key of cfg, of which it stays a part. */
static inline void pair_use(struct config *cfg, const struct pair *pair)
{
    cfg->jwt_key_id = pair->kid;
    cfg->jwt_private_key_base64 = pair->private_text;
    cfg->jwt_public_key_base64 = pair->public_text;
}

#endif
