/* Transactions of several statements on a connection of the pool. */

#pragma once

#include "store/model.h"

/* Begins a transaction; the statements of st run in it until it ends.  States
 * st->actor for the audit.  False if the database does not answer. */
PJ_MUST_CHECK bool store_transaction_begin(struct store *st);

/* Commits.  STORE_UNKNOWN if the answer was lost. */
enum store_result store_transaction_commit(struct store *st);

/* Rolls back.  Returns true if the same transaction may succeed at once, for
 * example after a deadlock. */
bool store_transaction_rollback(struct store *st);

struct db_error;
/* The first error of the transaction, or NULL without a transaction. */
const struct db_error *store_transaction_error(const struct store *st);
