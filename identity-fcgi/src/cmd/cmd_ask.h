/* Checks over HTTP whether gateways or key sets have a key. */

#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define CMD_ASK_URL                                                            \
    "http://(\\[[0-9A-Fa-f:.]+\\]|[-._0-9A-Za-z]+)(:[0-9]{1,5})?/[!-~]*"

enum cmd_asked { ASKED_HAS, ASKED_MISSING, ASKED_FAILED };

/* Requests url.  It has the key if it is the metrics of a gateway whose key set
 * was fetched at since or later and contains at least keys keys, or if it is a
 * key set that contains kid.  Otherwise *why has one line.  Takes a few seconds
 * at most. */
enum cmd_asked cmd_ask(const char *url, const char *kid, int64_t since,
                       size_t keys, struct error *why);
