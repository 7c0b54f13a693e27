/* Operations on people and places: a function each, with its statements.
 * Commands and the API are two faces of them, with the same members and
 * refusals.  An operation that changes something runs in a transaction, which
 * its face has begun. */

#pragma once

#include "store/model.h"

#include <stddef.h>

#define PEOPLE_PAGE 100      /* default length of a list */
#define PEOPLE_PAGE_MAX 1000 /* and its limit */

/* Bits: the types of the accounts that the caller may change. */
enum { PEOPLE_CUSTOMER = 1, PEOPLE_OPERATOR = 2, PEOPLE_SYSTEM = 4 };
#define PEOPLE_ANY (PEOPLE_CUSTOMER | PEOPLE_OPERATOR | PEOPLE_SYSTEM)

enum people_outcome {
    PEOPLE_DONE,
    PEOPLE_INVALID,     /* a value is not acceptable */
    PEOPLE_NOT_FOUND,   /* it does not exist */
    PEOPLE_EXISTS,      /* the name is taken */
    PEOPLE_LIMIT,       /* there would be too many */
    PEOPLE_CONFLICT,    /* its state does not allow this */
    PEOPLE_NOT_ALLOWED, /* the caller may not change accounts of this type */
    PEOPLE_FAILED       /* the database failed */
};

#define PEOPLE_LINE 512

/* What an operation works with, and why it refused. */
struct people {
    struct store *store;
    pj_arena_t *arena;      /* for results */
    unsigned may;           /* types of accounts */
    char line[PEOPLE_LINE]; /* the refusal in one line, without a full stop */
    const char *field;      /* the member that it is about, or NULL */
};

/* A member of a result.  Its field is of the type in the comment. */
struct people_member {
    const char *name; /* NULL after the last one */
    enum people_type {
        PEOPLE_TEXT,   /* const char *, NULL for null */
        PEOPLE_ID,     /* the same; the column is a UUID */
        PEOPLE_NUMBER, /* int64_t */
        PEOPLE_BOOL,   /* bool */
        PEOPLE_TIME,   /* int64_t, microseconds since 1970, 0 for null */
        PEOPLE_LIST,   /* const char *, elements separated by commas */
        PEOPLE_ROWS    /* struct people_rows, no column */
    } type;
    size_t offset;                  /* of the field in its struct */
    const struct people_member *of; /* members of its rows */
};

struct people_rows {
    const void *items; /* structs in the arena */
    size_t count, size;
    bool more; /* a list goes on after the last one */
};

#define PEOPLE_MEMBER(name, type, structure, field)                            \
    {                                                                          \
        name, PEOPLE_##type, offsetof(structure, field), NULL                  \
    }
#define PEOPLE_MEMBERS_END                                                     \
    {                                                                          \
        NULL, PEOPLE_TEXT, 0, NULL                                             \
    }

/* Sets the refusal and returns outcome.  field may be NULL. */
enum people_outcome people_refuse(struct people *p, enum people_outcome outcome,
                                  const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* -- statements of the operations -- */

struct sql_query;
struct db_rows;
struct db_statement;
struct db_value;

/* Runs a statement.  On failure ends it with the refusal for the violated
 * constraint, or with PEOPLE_FAILED.  On PEOPLE_DONE the caller ends it. */
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

/* Copies a row into the struct out.  Its first columns are the members in their
 * order. */
bool people_copy(struct people *p, const struct db_rows *rows, size_t row,
                 const struct people_member *members, void *out);

/* Finds a row by ref, an id or a name, and copies it.  The first parameters of
 * sql are the id and the name (one of them is null), then come values
 * (DB_VALUES()); its first column is the id.  Refuses ref if there is none, or
 * more than one: what is what it names. */
enum people_outcome people_find(struct people *p,
                                const struct db_statement *sql,
                                const char *what, const char *ref,
                                const struct db_value *values, size_t count,
                                const struct people_member *members, void *out);
bool people_is_id(const char *ref);

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
