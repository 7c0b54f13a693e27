/* POST /api/auth/change-credential */

#ifndef H_CHANGE_CREDENTIAL_H_INCLUDED
#define H_CHANGE_CREDENTIAL_H_INCLUDED

#include "auth/auth.h"

handler_fn h_change_credential;

#endif
