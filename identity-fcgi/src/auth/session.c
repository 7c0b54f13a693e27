/* Decisions about a session: pure functions of the rows that were read. */

#include "auth/session.h"

#include <arpa/inet.h>
#include <string.h>

#define MAX_MOVED_RETRIES 2 /* of the last eight rotations */

bool session_id_is(const char *id, pj_str_t s)
{
    return s.len > 0 && pj_str_eq(pj_str(id), s);
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

int64_t session_now(int64_t now_s, const struct store_clock *clock)
{
    int64_t asked_s = clock->now_us / 1000000;

    return now_s < asked_s ? now_s : asked_s;
}

int64_t session_issued_at(int64_t now_s, const struct store_clock *clock)
{
    int64_t asked_s = clock->now_us / 1000000;
    int64_t locked_out_s = clock->valid_after_us / 1000000;
    int64_t first_s = (locked_out_s < asked_s ? locked_out_s : asked_s) + 1;
    int64_t iat = session_now(now_s, clock);

    return iat > first_s ? iat : first_s;
}

/* Compares both, because the setting may have been lowered since the session's
 * expiry was written. */
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

/* IPv4 is mapped into IPv6.  Zeros if address is invalid. */
static struct in6_addr network_of(const char *address)
{
    struct in6_addr net;

    if (inet_pton(AF_INET6, address, &net) == 1) {
        if (IN6_IS_ADDR_V4MAPPED(&net)) {
            net.s6_addr[15] = 0;
        } else {
            memset(&net.s6_addr[6], 0, 10);
        }
        return net;
    }
    memset(&net, 0, sizeof(net));
    if (inet_pton(AF_INET, address, &net.s6_addr[12]) == 1) {
        memset(&net.s6_addr[10], 0xff, 2);
        net.s6_addr[15] = 0;
    }
    return net;
}

enum session_retry session_classify_retry(const struct retry *rotation,
                                          const char *address,
                                          const char *agent)
{
    struct in6_addr was = network_of(rotation->address),
                    is = network_of(address);
    bool other_network = memcmp(&was, &is, sizeof(is)) != 0;
    bool other_agent = strcmp(rotation->agent, agent) != 0;

    if (!other_network && !other_agent) {
        return SESSION_RETRY_SAME;
    }
    if ((other_network && other_agent) ||
        __builtin_popcount(rotation->moved_retries | 1) > MAX_MOVED_RETRIES) {
        return SESSION_RETRY_REUSE;
    }
    return SESSION_RETRY_MOVED;
}
