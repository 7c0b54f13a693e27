/* Serving: workers, key reload, the access log. */

#ifndef SERVE_H_INCLUDED
#define SERVE_H_INCLUDED

#include "auth/keys.h"
#include "base/config.h"
#include "server/listener.h"

#include <stdbool.h>

/*
 * Serves on listener with keys (whose reference is taken over) until told to
 * stop.  env_file is where SIGHUP reads new keys from, or NULL.  Returns the
 * process's exit status; one line on stderr says why it is not 0.
 */
int serve(const struct config *cfg, struct keys *keys,
          struct listener *listener, const char *env_file);

#endif
