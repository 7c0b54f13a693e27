/* GET /internal/revocations */

#ifndef H_REVOCATIONS_H_INCLUDED
#define H_REVOCATIONS_H_INCLUDED

#include "auth/auth.h"

handler_fn h_revocations;

#endif
