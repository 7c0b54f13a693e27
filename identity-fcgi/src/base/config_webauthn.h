/* The relying party of passkeys and its origins. */

#pragma once

#include <pj.h>

/* Forms of PLATFORM_WEBAUTHN_RP_ID and of each of PLATFORM_WEBAUTHN_ORIGINS, as
 * in config_forms.h. */
#define CONFIG_WEBAUTHN_LABEL "[0-9a-z]([-0-9a-z]*[0-9a-z])?"
#define CONFIG_WEBAUTHN_RP_ID                                                  \
    "(" CONFIG_WEBAUTHN_LABEL "\\.)*[0-9]*[a-z]([-0-9a-z]*[0-9a-z])?"
#define CONFIG_WEBAUTHN_ORIGIN                                                 \
    "(https://(" CONFIG_WEBAUTHN_RP_ID ")|http://localhost)(:" PORT ")?"

/* Origins are separated by blanks, and NULL for none. */

/* Returns true if there are origins, and pages of all of them may use passkeys
 * of the id: they are of the form, and their host is the id or below it. */
bool config_webauthn_may_use(const char *origins, const char *rp_id);

/* Returns a copy of the host of which that is true, or NULL. */
char *config_webauthn_host(const char *origins);
