
#ifndef _NGX_HTTP_PGW_PROBLEM_H_INCLUDED_
#define _NGX_HTTP_PGW_PROBLEM_H_INCLUDED_


#include "ngx_http_pgw.h"


/* Puts the header and body filters before those of all other modules. */
void ngx_http_pgw_problem_init(void);


#endif /* _NGX_HTTP_PGW_PROBLEM_H_INCLUDED_ */
