/* What the program calls its own version: that of the gateway too. */

#ifndef VERSION_H_INCLUDED
#define VERSION_H_INCLUDED

#include <pj_version.h>

#define IDENTITY_VERSION PLATFORM_VERSION

#endif
