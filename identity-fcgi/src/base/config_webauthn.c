/* The relying party of passkeys and its origins. */

#include "base/config_webauthn.h"

#include "base/config_forms.h"
#include "base/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <web.h>

/* Takes the next origin off *list, which is NULL or separated by blanks.  Its
 * length is 0 at the end. */
static pj_str_t next_origin(const char **list)
{
    const char *at = *list != NULL ? *list : "";
    size_t len;

    at += strspn(at, " \t");
    len = strcspn(at, " \t");
    *list = at + len;
    return (pj_str_t){(const unsigned char *) at, len};
}

/* Returns the host of an origin of a form of config_forms.h. */
static pj_str_t host_of(pj_str_t origin)
{
    pj_str_t rest, port;

    (void) web_split(origin, ':', &rest);
    return web_split(web_skip(rest, 2), ':', &port);
}

/* Returns true if pages of the origin may use passkeys of the id: its host is
 * the id or below it, and browsers offer passkeys there. */
static bool may_use(pj_str_t origin, pj_str_t id)
{
    char text[512];
    pj_str_t host, above;

    (void) snprintf(text, sizeof(text), "%.*s", (int) origin.len,
                    (const char *) origin.data);
    if (origin.len >= sizeof(text) ||
        !parse_form(text, CONFIG_WEBAUTHN_ORIGIN, 0)) {
        return false;
    }
    host = host_of(origin);
    if (host.len < id.len) {
        return false;
    }
    above = (pj_str_t){host.data, host.len - id.len};
    return pj_str_eq(web_skip(host, above.len), id) &&
           (above.len == 0 || above.data[above.len - 1] == '.');
}

bool config_webauthn_may_use(const char *origins, const char *rp_id)
{
    pj_str_t origin = next_origin(&origins), id = pj_str(rp_id);
    bool ok = origin.len > 0;

    for (; ok && origin.len > 0; origin = next_origin(&origins)) {
        ok = may_use(origin, id);
    }
    return ok;
}

char *config_webauthn_host(const char *origins)
{
    const char *rest = origins;
    pj_str_t origin, id = {NULL, 0};
    char *host;

    while ((origin = next_origin(&rest)).len > 0) {
        pj_str_t other = host_of(origin);

        if (id.data == NULL || other.len < id.len) {
            id = other;
        }
    }
    if (id.data == NULL) {
        return NULL;
    }
    host = strndup((const char *) id.data, id.len);
    if (host != NULL && !config_webauthn_may_use(origins, host)) {
        free(host);
        host = NULL;
    }
    return host;
}
