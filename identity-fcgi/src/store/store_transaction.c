/* Transactions of several statements on a connection of the pool. */

#include "store/store_transaction.h"

#include "db/db_pool.h"
#include "db/db_script.h"
#include "store/sql.h"

static const struct db_statement actor_sql = {
    "transaction_actor", "SELECT set_config('platform.actor', $1, true)", true};

bool store_transaction_begin(struct store *st)
{
    st->locked = false;
    st->script = db_pool_begin(st->pool, st->deadline_ms);
    if (st->script == NULL) {
        return false;
    }
    if (sql_do(st, &actor_sql, DB_TEXT(st->actor)) != STORE_OK) {
        (void) store_transaction_rollback(st);
        return false;
    }
    return true;
}

static enum db_outcome end(struct store *st, bool commit)
{
    enum db_outcome outcome = db_pool_end(st->pool, st->script, commit);

    st->script = NULL;
    st->locked = outcome == DB_LOCKED;
    return outcome;
}

enum store_result store_transaction_commit(struct store *st)
{
    enum db_outcome outcome = end(st, true);

    return outcome == DB_DONE    ? STORE_OK
           : outcome == DB_DOUBT ? STORE_UNKNOWN
                                 : STORE_UNAVAILABLE;
}

bool store_transaction_rollback(struct store *st)
{
    enum db_outcome outcome = end(st, false);

    return outcome == DB_RETRY || outcome == DB_LOST;
}

const struct db_error *store_transaction_error(const struct store *st)
{
    return st->script != NULL ? db_script_error(st->script) : NULL;
}
