
#ifndef _NGX_HTTP_PGW_QUESTION_H_INCLUDED_
#define _NGX_HTTP_PGW_QUESTION_H_INCLUDED_


#include "ngx_http_pgw.h"


extern ngx_http_pgw_content_t  ngx_http_pgw_question_content;


#endif /* _NGX_HTTP_PGW_QUESTION_H_INCLUDED_ */
