/* The version, which is the gateway's too. */

#ifndef VERSION_H_INCLUDED
#define VERSION_H_INCLUDED

#include <pj_version.h>

#define IDENTITY_VERSION PLATFORM_VERSION

#endif
