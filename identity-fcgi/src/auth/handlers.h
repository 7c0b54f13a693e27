/* The handlers of auth/, each of the file that begins its name; route.c says
 * at which method and path. */

#pragma once

#include "auth/auth.h"

handler_fn h_change_credential;
handler_fn h_login;
handler_fn h_published_keys;
handler_fn h_published_metadata; /* of the issuer */
handler_fn h_refresh;
handler_fn h_revocations;
handler_fn h_select_branch;
handler_fn h_sessions;               /* those of the account */
handler_fn h_sessions_end;           /* one of them */
handler_fn h_sessions_logout;        /* those that its tokens name */
handler_fn h_sessions_logout_others; /* all but its own */
handler_fn h_sessions_logout_all;
