/* The handlers of auth/. The name starts with that of the file.  route.c has
 * their methods and paths. */

#pragma once

#include "auth/auth.h"

handler_fn h_account_delete;
handler_fn h_account_factors; /* list */
handler_fn h_account_factors_end;
handler_fn h_account_reset_code;
handler_fn h_account_revoke_sessions;
handler_fn h_account_unlock;
handler_fn h_account_sessions; /* list */
handler_fn h_account_sessions_end;
handler_fn h_accounts; /* list */
handler_fn h_accounts_add;
handler_fn h_accounts_read;
handler_fn h_accounts_change;
handler_fn h_change_credential;
handler_fn h_factors; /* list */
handler_fn h_factors_add;
handler_fn h_factors_confirm;
handler_fn h_factors_recovery;
handler_fn h_factors_remove;
handler_fn h_factors_rename;
handler_fn h_login;
handler_fn h_me;
handler_fn h_members; /* list */
handler_fn h_members_end;
handler_fn h_members_put;
handler_fn h_passkeys_add;
handler_fn h_passkeys_login;
handler_fn h_passkeys_login_options;
handler_fn h_passkeys_options;
handler_fn h_places_add; /* workspaces */
handler_fn h_places_branch;
handler_fn h_places_branch_add;
handler_fn h_places_branch_change;
handler_fn h_places_branches; /* list */
handler_fn h_places_change;
handler_fn h_places_list;
handler_fn h_places_show;
handler_fn h_published_keys;
handler_fn h_published_metadata;
handler_fn h_refresh;
handler_fn h_reset_credential;
handler_fn h_revocations;
handler_fn h_select_branch;
handler_fn h_sessions; /* list */
handler_fn h_sessions_end;
handler_fn h_sessions_logout;
handler_fn h_sessions_logout_others;
handler_fn h_sessions_logout_all;
handler_fn h_step_up;
handler_fn h_step_up_options;
handler_fn h_system_audit;
handler_fn h_token;
handler_fn h_verify_factor;
