/* Requests for a refresh. */

#ifndef REFRESH_H_INCLUDED
#define REFRESH_H_INCLUDED

#include "auth/handlers.h"
#include "handlers.h"

static inline void refresh_body(const char *token)
{
    send_in_body(token);
    h_refresh(&w);
}

static inline void refresh_cookie(const char *token)
{
    send_in_cookie(token);
    h_refresh(&w);
}

/* With the token JTI, in a session that is read like this. */
static inline void refresh(struct session_view view)
{
    view_is(view);
    refresh_body(refresh_token(JTI));
}

#endif
