/* The version of the last release, or of the next one while it is prepared.
 * The makefile overrides it with the output of tools/version. */

#ifndef PJ_VERSION_H_INCLUDED
#define PJ_VERSION_H_INCLUDED

#ifndef PLATFORM_VERSION
#define PLATFORM_VERSION "1.0.0"
#endif

#endif
