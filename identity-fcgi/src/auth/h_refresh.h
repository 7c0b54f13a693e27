/* POST /api/auth/refresh */

#ifndef H_REFRESH_H_INCLUDED
#define H_REFRESH_H_INCLUDED

#include "auth/auth.h"

handler_fn h_refresh;

#endif
