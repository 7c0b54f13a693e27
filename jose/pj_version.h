/* The version of the last release, or of the one that is being made.  make
 * defines what tools/version prints instead. */

#ifndef PJ_VERSION_H_INCLUDED
#define PJ_VERSION_H_INCLUDED

#ifndef PLATFORM_VERSION
#define PLATFORM_VERSION "0.3.0"
#endif

#endif
