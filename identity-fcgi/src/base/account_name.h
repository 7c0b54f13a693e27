/* Account names as login and the operator's commands compare them. */

#ifndef ACCOUNT_NAME_H_INCLUDED
#define ACCOUNT_NAME_H_INCLUDED

#include <pj.h>

/* Trims spaces, tabs, CR and LF and folds A-Z; all other bytes stay.  out has
 * room for in.len bytes, and the result points into it. */
pj_str_t account_name_fold(pj_str_t in, unsigned char *out);

/* Whether s holds control characters: ASCII's, or U+0080 to U+009F. */
bool account_name_has_control(pj_str_t s);

#endif
