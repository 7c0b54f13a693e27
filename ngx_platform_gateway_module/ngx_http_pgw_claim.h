
/*
 * Claims by their place in a token, and what a location requires of them.
 */


#ifndef _NGX_HTTP_PGW_CLAIM_H_INCLUDED_
#define _NGX_HTTP_PGW_CLAIM_H_INCLUDED_


#include "ngx_http_pgw.h"


/*
 * Reads a place: the names of members, from the outermost, with dots between
 * them; a name in double quotes may have dots.  What has ":" or "/" and no
 * quotes is one name, a URI's.
 */
char *ngx_http_pgw_claim_place(ngx_conf_t *cf, const ngx_str_t *text,
    ngx_http_pgw_claim_t *claim);

/* The value there, or NULL. */
const pj_json_t *ngx_http_pgw_claim_find(const pj_json_t *root,
    const ngx_http_pgw_claim_t *claim);

/* The value of the claim that has the n-th of those names, in any case, since
   nginx keeps names of variables in lower case; NULL: none, or several. */
const pj_json_t *ngx_http_pgw_claim_named(const pj_json_t *root,
    const ngx_array_t *names, ngx_uint_t n);

/* CLAIM VALUE ...: reads the words from the first on into a rule. */
char *ngx_http_pgw_claim_rule(ngx_conf_t *cf, ngx_uint_t first,
    ngx_http_pgw_rule_t *rule);

/* platform_gateway_require CLAIM VALUE ...; into an array of rules. */
ngx_http_pgw_set_t  ngx_http_pgw_claim_require;

/*
 * Whether a claim has one of the values: it is that string, number or boolean,
 * an array with that string, or "scope" (or "scp") with that word.
 */
ngx_uint_t ngx_http_pgw_claim_holds(const ngx_http_pgw_rule_t *rule,
    const pj_json_t *root);

/* Returns a bit for each rule that does not hold; 0 without rules. */
uint64_t ngx_http_pgw_claim_missing(const ngx_array_t *rules,
    const pj_json_t *root);

/* Writes the scopes of those rules, each once, in the order of the lines; len 0
   if the rules are about other claims. */
ngx_int_t ngx_http_pgw_claim_scopes(ngx_pool_t *pool, const ngx_array_t *rules,
    uint64_t lines, ngx_str_t *scope);


#endif /* _NGX_HTTP_PGW_CLAIM_H_INCLUDED_ */
