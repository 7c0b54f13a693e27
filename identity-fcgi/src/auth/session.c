/* Decisions about a session: pure functions of what was read. */

#include "auth/session.h"

#include <string.h>

bool session_id_is(const char *id, pj_str_t s)
{
    return s.len > 0 && strlen(id) == s.len && memcmp(id, s.data, s.len) == 0;
}

int64_t session_expiry(int64_t now_s, int64_t ttl_s, int64_t created_at_s,
                       int64_t max_lifetime_s)
{
    int64_t exp = now_s + ttl_s;

    if (max_lifetime_s > 0 && exp > created_at_s + max_lifetime_s) {
        exp = created_at_s + max_lifetime_s;
    }
    return exp;
}

int64_t session_issued_at(int64_t now_s, const struct store_clock *clock)
{
    int64_t asked_s = clock->now_us / 1000000;
    int64_t locked_out_s = clock->valid_after_us / 1000000;
    int64_t first_s = (locked_out_s < asked_s ? locked_out_s : asked_s) + 1;
    int64_t iat = now_s < asked_s ? now_s : asked_s;

    return iat > first_s ? iat : first_s;
}

/* The setting may have been lowered since the session's expiry was written. */
static bool is_over(const struct session *s, int64_t now_s,
                    int64_t max_lifetime_s)
{
    return now_s >= s->expires_at_s ||
           (max_lifetime_s > 0 && now_s >= s->created_at_s + max_lifetime_s);
}

enum session_verdict session_decide(const struct session_view *view,
                                    pj_str_t account_id, const pj_str_t *jti,
                                    int64_t now_s, int64_t max_lifetime_s)
{
    const struct session *s = &view->session;

    if (!s->active || is_over(s, now_s, max_lifetime_s) ||
        !session_id_is(s->account_id, account_id)) {
        return SESSION_NOT_ACTIVE;
    }
    if (!s->account_enabled) {
        return SESSION_ACCOUNT_DISABLED;
    }
    if (jti != NULL && !session_id_is(s->jti, *jti)) {
        return SESSION_STALE;
    }
    if (jti != NULL && s->active_branch_id[0] == '\0') {
        return SESSION_UNSCOPED;
    }
    return view->selectable ? SESSION_SCOPED : SESSION_NOT_SELECTABLE;
}
