/* What both halves call their version. */

#ifndef PJ_VERSION_H_INCLUDED
#define PJ_VERSION_H_INCLUDED

#define PLATFORM_VERSION "0.2.0"

#endif
