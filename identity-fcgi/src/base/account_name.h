/* Account names as login and the operator's commands compare them. */

#ifndef ACCOUNT_NAME_H_INCLUDED
#define ACCOUNT_NAME_H_INCLUDED

#include <pj.h>

#define ACCOUNT_NAME_MAX 320 /* bytes */

/* Trims spaces, tabs, CR and LF and folds A-Z; all other bytes stay.  mem has
 * room for in.len bytes, and *out points into it.  NULL, or what such a name
 * must do that this one does not. */
const char *account_name_fold(pj_str_t in, unsigned char *mem, pj_str_t *out)
    __attribute__((warn_unused_result));

#endif
