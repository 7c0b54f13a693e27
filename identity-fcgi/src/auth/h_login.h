/* POST /api/auth/login */

#ifndef H_LOGIN_H_INCLUDED
#define H_LOGIN_H_INCLUDED

#include "auth/auth.h"

handler_fn h_login;

#endif
