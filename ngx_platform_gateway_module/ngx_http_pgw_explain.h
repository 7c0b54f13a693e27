
#ifndef _NGX_HTTP_PGW_EXPLAIN_H_INCLUDED_
#define _NGX_HTTP_PGW_EXPLAIN_H_INCLUDED_


#include "ngx_http_pgw.h"


ngx_int_t ngx_http_pgw_explain_answer(ngx_http_request_t *r,
    const ngx_http_pgw_question_t *question);


#endif /* _NGX_HTTP_PGW_EXPLAIN_H_INCLUDED_ */
