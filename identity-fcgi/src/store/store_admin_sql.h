/* What the files of the operator's store share; nobody else includes it. */

#ifndef STORE_ADMIN_SQL_H_INCLUDED
#define STORE_ADMIN_SQL_H_INCLUDED

#include "store/store_admin.h"
#include "store/store_sql.h"

/*
 * Runs work in a transaction, again when a deadlock ended it.  Whatever work
 * fills, it fills anew each time.
 */
bool admin_transact(struct admin *a, bool (*work)(struct admin *a, void *arg),
                    void *arg);

/* Runs a statement of a transaction.  On success *rows is the caller's. */
bool admin_query(struct admin *a, const char *sql,
                 const struct db_params *params, struct db_rows **rows);

/* Likewise, where only the number of rows matters (touched may be NULL). */
bool admin_execute(struct admin *a, const char *sql,
                   const struct db_params *params, int64_t *touched);

/* Ends the transaction with this line; always false. */
bool admin_refuse(struct admin *a, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Adds ref twice, as a UUID and as a name, one of them null:
 * "WHERE id = $1 OR name = $2" finds what it refers to.
 */
void admin_param_ref(struct db_params *p, const char *ref);

/* Adds a name. */
void admin_param_text(struct db_params *p, const char *text);

/* What has to be one row: refuses none and several ("no WHAT is called REF").
 * On false the rows are freed. */
bool admin_one_row(struct admin *a, const char *what, const char *ref,
                   struct db_rows **rows);

/* Finds and locks an account, so that changes to it come one by one. */
bool admin_lock_account(struct admin *a, const char *ref,
                        struct admin_account *out);

/* Ends every session that the locked account has had up to now, and notes
 * whether there are rows for admin_sessions_end() to mark. */
bool admin_lock_out(struct admin *a, struct admin_account *account);

/* Finds and locks a workspace: fills tenant, workspace and status. */
bool admin_lock_workspace(struct admin *a, const char *ref,
                          struct admin_place *out);

#endif
