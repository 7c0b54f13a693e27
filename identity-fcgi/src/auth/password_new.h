/* What may become a credential, by the operator's settings. */

#ifndef PASSWORD_NEW_H_INCLUDED
#define PASSWORD_NEW_H_INCLUDED

#include "base/config.h"

#include <pj.h>

enum password_new {
    PASSWORD_FITS,
    PASSWORD_SHORT,
    PASSWORD_FORBIDDEN, /* by the operator's list */
    PASSWORD_UNREAD,    /* errno tells why that cannot be read */
    PASSWORD_LATER      /* another thread reads it for the first time */
};

/* By credential_min and credential_forbidden of cfg. */
enum password_new password_new_judge(const struct config *cfg,
                                     pj_str_t credential)
    __attribute__((warn_unused_result));

#endif
