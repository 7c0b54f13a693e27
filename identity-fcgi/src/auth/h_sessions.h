/* GET /api/auth/sessions, and what ends sessions. */

#ifndef H_SESSIONS_H_INCLUDED
#define H_SESSIONS_H_INCLUDED

#include "auth/auth.h"

handler_fn h_sessions;               /* those of the account */
handler_fn h_sessions_end;           /* one of them */
handler_fn h_sessions_logout;        /* those that its tokens name */
handler_fn h_sessions_logout_others; /* all but its own */
handler_fn h_sessions_logout_all;

#endif
