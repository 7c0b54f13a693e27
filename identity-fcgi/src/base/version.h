/* What the program calls its own version. */

#ifndef VERSION_H_INCLUDED
#define VERSION_H_INCLUDED

#ifndef IDENTITY_VERSION
#define IDENTITY_VERSION "0.1.0"
#endif

#endif
