/* Failed attempts at second factors. */

#include "store/store_factor_failure.h"

#include "store/sql.h"

/* A list of the last ten, so that no fifteen minutes have more, wherever they
 * begin.  The row is locked before it is read, so that the time of the failure
 * is later than all times in the list. */
#define WINDOW "interval '15 minutes'"

static const struct db_statement factor_failure_begin_sql = {
    "factor_failure_begin",
    "INSERT INTO factor_failures AS f VALUES ($1, ARRAY[clock_timestamp()])"
    " ON CONFLICT (account_id) DO UPDATE"
    "  SET failed_at = (f.failed_at || greatest(clock_timestamp(),"
    "          f.failed_at[cardinality(f.failed_at)] + interval '1 us'))"
    "          [greatest(1, cardinality(f.failed_at) + 2 - $2::integer):]"
    " WHERE cardinality(f.failed_at) < $2"
    "    OR f.failed_at[1] <= clock_timestamp() - " WINDOW
    " RETURNING failed_at[cardinality(failed_at)]",
    true};

static const struct db_statement factor_failure_wait_sql = {
    "factor_failure_wait",
    "SELECT ceil(extract(epoch FROM"
    "            failed_at[1] + " WINDOW " - clock_timestamp()))::bigint"
    "  FROM factor_failures WHERE account_id = $1",
    false};

static enum store_result read_wait(struct store *st, const char *account_id,
                                   int64_t *retry_after_s)
{
    struct sql_query q = {0};

    *retry_after_s = 1;
    db_params(&q.p, DB_ID(account_id));
    if (sql_run_one(&q, st, &factor_failure_wait_sql) &&
        db_int64(q.rows, 0, 0) > 1) {
        *retry_after_s = db_int64(q.rows, 0, 0);
    }
    return sql_end(&q);
}

enum store_result store_factor_failure_begin(struct store *st,
                                             const char *account_id,
                                             int64_t *stamp_us,
                                             int64_t *retry_after_s)
{
    struct sql_query q = {0};

    db_params(&q.p, DB_ID(account_id), DB_INT(STORE_FACTOR_FAILURES));
    if (sql_run_one(&q, st, &factor_failure_begin_sql)) {
        *stamp_us = db_time_us(q.rows, 0, 0);
    }
    if (sql_end(&q) == STORE_NONE &&
        read_wait(st, account_id, retry_after_s) == STORE_UNAVAILABLE) {
        return STORE_UNAVAILABLE;
    }
    return q.result;
}

static const struct db_statement factor_failure_end_sql = {
    "factor_failure_end",
    "UPDATE factor_failures SET failed_at = array_remove(failed_at, $2)"
    " WHERE account_id = $1",
    true};

enum store_result store_factor_failure_end(struct store *st,
                                           const char *account_id,
                                           int64_t stamp_us)
{
    return sql_do(st, &factor_failure_end_sql, DB_ID(account_id),
                  DB_TIME_US(stamp_us));
}
