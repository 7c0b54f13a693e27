/* What the calls of programs share (/api/system/): callers, queries, changes,
 * answers. */

#pragma once

#include "auth/auth.h"
#include "base/form.h"
#include "people/people.h"

/* Accepts a system token with this scope, of an account that is enabled and was
 * not locked out since the token was issued.  Sets w->may. */
bool system_caller(struct worker *w, const char *scope);
/* Refuses the caller unless its token has this scope too. */
bool system_scope(struct worker *w, const char *scope);

/* Reads the query, which may have these parameters (the last is NULL). */
bool system_query(struct worker *w, const char *const *known,
                  struct form *query);

/* Read a parameter; without it *out is NULL, and a number or time unchanged.
 * The text is one of a list of words (the last is NULL) or a UUID.  A fault is
 * recorded and the next one can be read: system_read() and system_change()
 * refuse.  False with a refusal if memory is short. */
bool system_text(struct worker *w, const struct form *query, const char *name,
                 const char **out);
bool system_word(struct worker *w, const struct form *query, const char *name,
                 const char *const *words, const char **out);
bool system_uuid(struct worker *w, const struct form *query, const char *name,
                 const char **out);
bool system_number(struct worker *w, const struct form *query, const char *name,
                   int64_t most, int64_t *out);
bool system_time(struct worker *w, const struct form *query, const char *name,
                 int64_t *out_us);

/* Copies the nth id of the path, from 0.  404 unless it is a UUID. */
bool system_path_id(struct worker *w, size_t n, const char **out);

/* An operation with its parameters and results, which are in *state. */
typedef enum people_outcome system_work_fn(struct people *p, void *state);
/* Writes the answer. */
typedef void system_answer_fn(struct worker *w, const void *state);

/* Reads: runs the operation and answers.  Returns false with a refusal, which
 * names the faults recorded before, if there are any. */
bool system_read(struct worker *w, system_work_fn *work,
                 system_answer_fn *answer, void *state);

/* Answers with the refusal of an operation; false. */
bool system_refuse(struct worker *w, const struct people *p,
                   enum people_outcome outcome);

/* Writes an audit line: the caller changed this. */
struct system_event {
    const char *event;
    const char *account_id, *session_id; /* or NULL */
    const char *tenant_id, *workspace_id, *branch_id, *member_id;
    const char *roles; /* separated by commas */
};
void system_audit(struct worker *w, const struct system_event *event);

/* Answers. */
void system_success(struct worker *w, struct jsonw *json, const char *message);
/* A 201 with the location of what was made.  account_id is the account that the
 * answer is about, or NULL: its deletion erases a kept answer. */
void system_created(struct worker *w, struct jsonw *json, const char *message,
                    const char *account_id, const char *location, ...)
    __attribute__((format(printf, 5, 6)));
/* The members of item; system_item() makes an object of them. */
void system_members(struct jsonw *json, const struct people_member *members,
                    const void *item);
void system_item(struct jsonw *json, const char *name,
                 const struct people_member *members, const void *item);
/* An array of a list's items, at most as many as fit, and the member next: the
 * cursor of the last one if there are more, else null.  cursor may use
 * w->arena. */
void system_list(struct worker *w, struct jsonw *json, const char *name,
                 const struct people_member *members,
                 const struct people_rows *rows,
                 const char *(*cursor)(struct people *p, const void *item));
