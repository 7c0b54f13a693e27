/* Statements of the operations. */

#pragma once

#include "people/people.h"
#include "store/sql.h"

/* Runs a statement.  Ends it with a refusal unless it succeeds: the one that a
 * violated constraint stands for, or PEOPLE_FAILED.  On PEOPLE_DONE the caller
 * ends it. */
enum people_outcome people_run(struct people *p, struct sql_query *q,
                               const struct db_statement *sql);

/* The same for a statement without further use of its rows; *affected (may be
 * NULL) is set to the number of its rows. */
enum people_outcome people_execute(struct people *p,
                                   const struct db_statement *sql,
                                   const struct db_value *values, size_t count,
                                   int64_t *affected);
#define people_do(p, sql, affected, ...)                                       \
    people_execute(p, sql, DB_VALUES(__VA_ARGS__), affected)

/* The refusal that a violated constraint stands for, or PEOPLE_FAILED. */
enum people_outcome people_violated(struct people *p, const char *constraint);

/* Copies a row, whose first columns are those of members in their order, into
 * the struct out. */
bool people_copy(struct people *p, const struct db_rows *rows, size_t row,
                 const struct people_member *members, void *out);

/* Runs a list's statement, which returns at most limit + 1 rows, and copies the
 * first limit into structs of this size. */
enum people_outcome people_list(struct people *p, struct sql_query *q,
                                const struct db_statement *sql,
                                const struct people_member *members,
                                size_t size, int64_t limit,
                                struct people_rows *out);

/* A cursor: the sort values of a list's last item, in base64url.  It holds no
 * right: a list is the same whatever cursor is given. */
#define PEOPLE_CURSOR_PARTS 3
/* Returns a string in the arena, or NULL. */
const char *people_cursor(struct people *p, const char *const *parts,
                          size_t count);
/* PEOPLE_INVALID unless text is such a cursor of count parts. */
enum people_outcome people_cursor_read(struct people *p, const char *text,
                                       size_t count, const char **parts);

/* PEOPLE_NOT_ALLOWED or PEOPLE_CONFLICT (a client) unless the caller may change
 * an account of this type. */
enum people_outcome people_may(struct people *p, const char *type);
