/*
 * Reads JSON bodies.  A reader that meets a fault records it and reading goes
 * on, so that the refusal names each fault:
 *
 *     struct body root, grants, grant;
 *
 *     if (!body_read(w, false, &root)) {
 *         return false;
 *     }
 *     body_only(&root, (const char *const[]){"account", "grants", NULL});
 *     body_account(&root, "account", BODY_REQUIRED, &name);
 *     if (body_array(&root, "grants", BODY_OPTIONAL, 200, &grants)) {
 *         while (body_next(&grants, &grant)) {
 *             if (body_object(&grant, NULL, BODY_REQUIRED, &grant)) {
 *                 body_uuid(&grant, "branchId", BODY_REQUIRED, &branch_id);
 *             }
 *         }
 *     }
 *     return auth_faultless(w);
 */

#pragma once

#include "auth/auth.h"

/* A value of the body, and where it is. */
struct body {
    struct worker *w;
    const pj_json_t *value; /* NULL if the body is empty */
    const char *pointer;    /* RFC 6901, "" for the root */
    const pj_json_t *next;  /* for body_next() */
    size_t index;
};

enum body_need {
    BODY_REQUIRED,
    BODY_OPTIONAL, /* may be missing */
    BODY_NULLABLE  /* may be missing or null, which is the same */
};

/* Checks media type and syntax.  The root is an object; if optional is set, an
 * empty body is one without members.  False with a refusal. */
bool body_read(struct worker *w, bool optional, struct body *root);

/* Members that are not among names (NULL after the last one) are faults. */
void body_only(const struct body *b, const char *const *names);

/*
 * Read the member name, or b itself if name is NULL, which is how the elements
 * of an array are read.  True if *out was set; false, and *out is as before, if
 * it is missing or has a fault.
 */

/* A string; of min to max bytes unless max is 0. */
bool body_string(const struct body *b, const char *name, enum body_need need,
                 size_t min, size_t max, pj_str_t *out);
/* The same as a C string in the arena. */
bool body_text(const struct body *b, const char *name, enum body_need need,
               size_t min, size_t max, const char **out);
/* An account's name, normalised. */
bool body_account(const struct body *b, const char *name, enum body_need need,
                  pj_str_t *out);
/* A credential, of 1 to 1024 bytes. */
bool body_credential(const struct body *b, const char *name,
                     enum body_need need, pj_str_t *out);
bool body_uuid(const struct body *b, const char *name, enum body_need need,
               const char **out);
/* A word of the list words, which ends with NULL. */
bool body_word(const struct body *b, const char *name, enum body_need need,
               const char *const *words, const char **out);
/* A number without fraction and exponent, min to max. */
bool body_integer(const struct body *b, const char *name, enum body_need need,
                  int64_t min, int64_t max, int64_t *out);
bool body_flag(const struct body *b, const char *name, enum body_need need,
               bool *out);
/* An object or array of at most max elements.  out may be b. */
bool body_object(const struct body *b, const char *name, enum body_need need,
                 struct body *out);
bool body_array(const struct body *b, const char *name, enum body_need need,
                size_t max, struct body *out);

/* Takes the next element of an array.  False at the end. */
bool body_next(struct body *array, struct body *element);

/* Records a fault of the member name, for what no reader checks: "The member
 * NAME RULE."  False. */
bool body_fault(const struct body *b, const char *name, struct fault fault,
                const char *rule);
