
/*
 * Responses that are written piece by piece: the metrics and the explanation.
 */


#ifndef _NGX_HTTP_PGW_TEXT_H_INCLUDED_
#define _NGX_HTTP_PGW_TEXT_H_INCLUDED_


#include "ngx_http_pgw.h"


typedef struct {
    ngx_http_request_t          *request;
    ngx_chain_t                 *out;
    ngx_chain_t                 *last;
    ngx_buf_t                   *buf;          /* of last: being filled */
    off_t                        size;         /* of what is full */
    ngx_uint_t                   failed;       /* out of memory */
} ngx_http_pgw_text_t;


void ngx_http_pgw_text_init(ngx_http_pgw_text_t *text, ngx_http_request_t *r);

/* As ngx_sprintf(); what one call writes is cut at 512 bytes. */
void ngx_http_pgw_text_format(ngx_http_pgw_text_t *text, const char *fmt, ...);

/* s as a JSON string, quotes included; null where s->data is NULL. */
void ngx_http_pgw_text_json(ngx_http_pgw_text_t *text, const ngx_str_t *s);

/* s as the inside of a label value (Prometheus text format 0.0.4). */
void ngx_http_pgw_text_label(ngx_http_pgw_text_t *text, const ngx_str_t *s);

/*
 * Answers 200 with the text; what a content handler returns, and what may be
 * given to ngx_http_finalize_request().
 */
ngx_int_t ngx_http_pgw_text_send(ngx_http_pgw_text_t *text, const char *type);


#endif /* _NGX_HTTP_PGW_TEXT_H_INCLUDED_ */
