/* Key pairs for the tests of what signs and verifies. */

#ifndef KEY_PAIR_H_INCLUDED
#define KEY_PAIR_H_INCLUDED

#include "auth/keys.h"
#include "testing.h"

#include <stdio.h>

/* Three settings as "keys generate" prints them. */
struct pair {
    char *kid;
    char *private_text;
    char *public_text;
};

static inline char *pair_line(char **text, const char *name)
{
    char *value = *text + strlen(name) + 1;
    char *end = strchr(*text, '\n');

    ck_assert_mem_eq(*text, name, strlen(name));
    ck_assert_ptr_nonnull(end);
    *end = '\0';
    *text = end + 1;
    return strdup(value);
}

/* kid as keys_generate() takes it. */
static inline void pair_generate(struct pair *pair, const char *kid)
{
    char *text = NULL, *p, err[256];
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    ck_assert_msg(keys_generate(out, kid, err, sizeof(err)), "%s", err);
    fclose(out);
    p = text;
    pair->kid = pair_line(&p, "PLATFORM_JWT_KEY_ID");
    pair->private_text = pair_line(&p, "PLATFORM_JWT_PRIVATE_KEY_BASE64");
    pair->public_text = pair_line(&p, "PLATFORM_JWT_PUBLIC_KEY_BASE64");
    ck_assert_str_eq(p, "");
    free(text);
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
