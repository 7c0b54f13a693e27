/* Changes by programs: transactions, and repeats by an idempotency key. */

#pragma once

#include "auth/system.h"

/* Changes: runs the operation in a transaction, again after a deadlock, and
 * answers.  A POST with an Idempotency-Key is carried out once: a repeat gets
 * the first answer.  With secret, the answer is not kept and a repeat is
 * carried out again.  Returns false with a refusal, also of faults recorded
 * before, and for a repeat. */
bool system_change(struct worker *w, bool secret, system_work_fn *work,
                   system_answer_fn *answer, void *state);
/* Runs a further transaction of the same call. */
bool system_change_more(struct worker *w, system_work_fn *work, void *state);
/* Marks the rows of sessions that a lockout has ended.  If time runs out,
 * answers nevertheless, because the sessions are over, and the next call goes
 * on.  With answer NULL, refuses instead and returns false. */
bool system_change_mark(struct worker *w, const char *account_id,
                        system_answer_fn *answer, const void *state);
