/* What the module needs of nginx, over nginx's own headers.  What is not in
 * nginx.c is a label over zeroes (fuzz/rest): a call of it stops the fuzzer. */

#ifndef NGINX_H_INCLUDED
#define NGINX_H_INCLUDED

#include "ngx_http_pgw.h"

#include "fuzz.h"

/* Frees the memory of all pools, each piece of which is one by itself: before
 * each input. */
void nginx_reset(void);

extern time_t nginx_now;
extern ngx_log_t nginx_log;

static inline ngx_str_t nginx_str(pj_str_t s)
{
    return (ngx_str_t){s.len, (u_char *) s.data};
}

static inline pj_str_t nginx_pj(const ngx_str_t *s)
{
    return (pj_str_t){s->data, s->len};
}

/* A copy with a NUL behind it, as nginx reads and configures texts. */
ngx_str_t nginx_copy(pj_str_t s);

/* A request with the lines of text, each "name: value", as its headers: in
 * parts of few, as a long list is.  None of it is text's memory. */
void nginx_request(ngx_http_request_t *r, pj_str_t text);

/* Returns true if the names are equal to an upstream that folds case and takes
 * any other character for a dash. */
bool nginx_alias(pj_str_t a, pj_str_t b);

#endif
