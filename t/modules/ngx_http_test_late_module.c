
/*
 * A module that is loaded after the gateway's, so nginx would run its handlers
 * first.  It logs the request as each phase has it, answers /answers, and can
 * replace the token of a request.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


static ngx_int_t ngx_http_test_late_init(ngx_conf_t *cf);


static ngx_http_module_t  ngx_http_test_late_module_ctx = {
    NULL,
    ngx_http_test_late_init,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL
};


ngx_module_t  ngx_http_test_late_module = {
    NGX_MODULE_V1,
    &ngx_http_test_late_module_ctx,
    NULL,
    NGX_HTTP_MODULE,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NGX_MODULE_V1_PADDING
};


/* what nginx looks up */

extern ngx_module_t  *ngx_modules[];
extern char          *ngx_module_names[];
extern char          *ngx_module_order[];

ngx_module_t  *ngx_modules[] = { &ngx_http_test_late_module, NULL };

char  *ngx_module_names[] = { (char *) "ngx_http_test_late_module", NULL };

char  *ngx_module_order[] = { NULL };


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;


static ngx_uint_t
ngx_http_test_late_is(ngx_str_t *name, const char *want)
{
    return name->len == ngx_strlen(want)
           && ngx_strncasecmp(name->data, (u_char *) want, name->len) == 0;
}


/*
 * Replaces the token by that of X-Late-Token, as a module does that takes it
 * from elsewhere.  "-" stands for the request's own without its last 8 bytes.
 */

static void
ngx_http_test_late_tell(ngx_http_request_t *r, const char *phase)
{
    ngx_str_t        *token;
    ngx_uint_t        i, roles;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    roles = 0;
    token = r->headers_in.authorization ? &r->headers_in.authorization->value
                                        : NULL;

    for (part = &r->headers_in.headers.part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {
            roles += ngx_http_test_late_is(&h[i].key, "x-roles");

            if (*phase == 'r' && token
                && ngx_http_test_late_is(&h[i].key, "x-late-token"))
            {
                if (h[i].value.data[0] == '-') {
                    token->len -= 8;

                } else {
                    *token = h[i].value;
                }
            }
        }
    }

    ngx_log_error(NGX_LOG_NOTICE, r->connection->log, 0,
                  "late: %s %V, %ui roles", phase, &r->uri, roles);
}


static ngx_int_t
ngx_http_test_late_post_read(ngx_http_request_t *r)
{
    ngx_http_test_late_tell(r, "post_read");
    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_test_late_rewrite(ngx_http_request_t *r)
{
    ngx_http_test_late_tell(r, "rewrite");
    return ngx_http_test_late_is(&r->uri, "/answers") ? NGX_HTTP_CONFLICT
                                                      : NGX_DECLINED;
}


static ngx_int_t
ngx_http_test_late_access(ngx_http_request_t *r)
{
    ngx_http_test_late_tell(r, "access");
    return NGX_DECLINED;
}


static ngx_int_t
ngx_http_test_late_header_filter(ngx_http_request_t *r)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(h, sizeof(ngx_table_elt_t));

    h->hash = 1;
    ngx_str_set(&h->key, "X-Late-Saw");
    h->value = r->headers_out.content_type;

    return ngx_http_next_header_filter(r);
}


static ngx_int_t
ngx_http_test_late_init(ngx_conf_t *cf)
{
    ngx_uint_t                  i;
    ngx_http_handler_pt        *h;
    ngx_http_core_main_conf_t  *cmcf;

    static const struct {
        ngx_uint_t           phase;
        ngx_http_handler_pt  handler;
    } handlers[] = {
        { NGX_HTTP_POST_READ_PHASE, ngx_http_test_late_post_read },
        { NGX_HTTP_REWRITE_PHASE, ngx_http_test_late_rewrite },
        { NGX_HTTP_ACCESS_PHASE, ngx_http_test_late_access }
    };

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    for (i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++) {

        h = ngx_array_push(&cmcf->phases[handlers[i].phase].handlers);
        if (h == NULL) {
            return NGX_ERROR;
        }

        *h = handlers[i].handler;
    }

    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_test_late_header_filter;

    return NGX_OK;
}
