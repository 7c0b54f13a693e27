/* Failed attempts at second factors, over all factors and addresses. */

#pragma once

#include "store/model.h"

#define STORE_FACTOR_FAILURES 10 /* of an account in 15 minutes */

/* Counts a failure of the account before a factor is checked.  STORE_NONE, and
 * the time to wait, if there were STORE_FACTOR_FAILURES in 15 minutes. */
enum store_result store_factor_failure_begin(struct store *st,
                                             const char *account_id,
                                             int64_t *stamp_us,
                                             int64_t *retry_after_s);
/* Takes this failure back. */
enum store_result store_factor_failure_end(struct store *st,
                                           const char *account_id,
                                           int64_t stamp_us);
