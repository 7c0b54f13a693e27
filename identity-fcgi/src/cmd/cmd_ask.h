/* Asks gateways, and whoever else has a key set, for a key. */

#ifndef CMD_ASK_H_INCLUDED
#define CMD_ASK_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For parse_form(). */
#define ASK_URL                                                               \
    "http://(\\[[0-9A-Fa-f:.]+\\]|[-._0-9A-Za-z]+)(:[0-9]{1,5})?/[!-~]*"

/* What is asked for. */
struct ask {
    const char *kid;
    int64_t since; /* a set that was fetched before may lack it */
    size_t keys;   /* a set of fewer does */
};

/*
 * Whether the metrics of a gateway at url say that its key set is recent and
 * whole, or the key set there has the key.  Else a line in why.  Takes a few
 * seconds at most.
 */
bool ask_for_key(const char *url, const struct ask *ask, char *why,
                 size_t why_cap) __attribute__((warn_unused_result));

#endif
