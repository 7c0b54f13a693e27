/* Asks gateways, and whoever else has a key set, for a key. */

#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define CMD_ASK_URL                                                            \
    "http://(\\[[0-9A-Fa-f:.]+\\]|[-._0-9A-Za-z]+)(:[0-9]{1,5})?/[!-~]*"

enum cmd_asked { ASKED_HAS, ASKED_LACKS, ASKED_FAILED };

/* Whether the metrics of a gateway at url, of that form, tell of a key set of
 * at least so many keys that was fetched at since or later, or a key set there
 * has the key.  Else a line in *why.  Takes a few seconds at most. */
enum cmd_asked cmd_ask(const char *url, const char *kid, int64_t since,
                       size_t keys, struct error *why);
