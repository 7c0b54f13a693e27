/* Who makes the changes of a transaction, for the audit. */

#include "store/store_actor.h"

#include "base/jsonw.h"
#include "db/db_script.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Returns the user who runs the command, with the user that sudo was run by. */
static void describe_operator(char *out, size_t cap)
{
    const struct passwd *user = getpwuid(getuid());
    const char *sudo = getenv("SUDO_USER");

    snprintf(out, cap, "%s%s%s", user != NULL ? user->pw_name : "",
             sudo != NULL ? "/" : "", sudo != NULL ? sudo : "");
}

bool store_actor_set(struct db_script *db, const char *session)
{
    char mem[512], operator[128];
    struct db_params params = {0};
    struct db_rows *rows;
    struct jsonw json;
    struct buf out;

    describe_operator(operator, sizeof(operator));
    buf_init(&out, mem, sizeof(mem));
    jsonw_init(&json, &out);
    jsonw_object(&json, NULL);
    jsonw_cstr(&json, "operator", operator);
    if (session != NULL) {
        jsonw_cstr(&json, "session", session);
    }
    jsonw_object_end(&json);
    buf_addc(&out, '\0');
    db_params(&params, DB_TEXT(mem));
    if (!db_script_query(db, "SELECT set_config('platform.actor', $1, true)",
                         &params, &rows)) {
        return false;
    }
    db_rows_free(rows);
    return true;
}
