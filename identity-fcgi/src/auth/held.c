/* Held accounts, whose rows are locked for longer than requests wait.  A
 * bounded number of workers waits for them; the others serve other accounts. */

#include "auth/held.h"

#include "base/metrics.h"
#include "base/uuid.h"

#include <pthread.h>
#include <string.h>

#define PLACES 64

static struct {
    pthread_mutex_t lock;
    struct {
        unsigned char account[UUID_BYTES];
        int64_t until_us;
    } accounts[PLACES];
    int in_progress;
} held = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The id determines the place of an account; another account may replace it. */
static size_t place_of(const unsigned char account[UUID_BYTES])
{
    return account[UUID_BYTES - 1] % PLACES;
}

void held_add(pj_str_t account_id, int64_t kept_ms)
{
    unsigned char account[UUID_BYTES];
    size_t i;

    if (!uuid_parse(account, account_id)) {
        return;
    }
    i = place_of(account);
    pthread_mutex_lock(&held.lock);
    memcpy(held.accounts[i].account, account, sizeof(account));
    held.accounts[i].until_us = metrics_now_us() + kept_ms * 1000;
    pthread_mutex_unlock(&held.lock);
}

bool held_enter(pj_str_t account_id, int max, bool *counted)
{
    unsigned char account[UUID_BYTES];
    bool is_held, may_enter;
    size_t i;

    *counted = false;
    if (!uuid_parse(account, account_id)) {
        return true;
    }
    i = place_of(account);
    pthread_mutex_lock(&held.lock);
    is_held = held.accounts[i].until_us > metrics_now_us() &&
              memcmp(held.accounts[i].account, account, sizeof(account)) == 0;
    may_enter = !is_held || held.in_progress < max;
    *counted = is_held && may_enter;
    held.in_progress += *counted;
    pthread_mutex_unlock(&held.lock);
    return may_enter;
}

void held_leave(void)
{
    pthread_mutex_lock(&held.lock);
    held.in_progress--;
    pthread_mutex_unlock(&held.lock);
}
