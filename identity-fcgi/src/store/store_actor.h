/* Who makes the changes of a transaction, for the audit. */

#pragma once

#include <stdbool.h>

struct db_script;

/* States in the open transaction that this user makes its changes
 * (platform.actor of 0018_audit.sql).  session names the event of an ended
 * session, or is NULL. */
bool store_actor_set(struct db_script *db, const char *session);
