
/*
 * A module to be loaded after the gateway's, whose handlers nginx would run
 * first: it tells what it sees, answers where the location says so, takes
 * another token than the one that came if it is told to, and sets the clock
 * back there for the phases that follow.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


typedef struct {
    ngx_flag_t  enable;
    time_t      clock_back;  /* seconds */
} ngx_http_test_late_conf_t;


static ngx_int_t ngx_http_test_late_init(ngx_conf_t *cf);
static void *ngx_http_test_late_create_conf(ngx_conf_t *cf);
static char *ngx_http_test_late_merge_conf(ngx_conf_t *cf, void *parent,
    void *child);


static ngx_command_t  ngx_http_test_late_commands[] = {

    { ngx_string("test_late_answers"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF|NGX_CONF_FLAG,
      ngx_conf_set_flag_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_test_late_conf_t, enable),
      NULL },

    { ngx_string("test_late_clock_back"),
      NGX_HTTP_LOC_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_sec_slot,
      NGX_HTTP_LOC_CONF_OFFSET,
      offsetof(ngx_http_test_late_conf_t, clock_back),
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_test_late_module_ctx = {
    NULL,
    ngx_http_test_late_init,
    NULL,
    NULL,
    NULL,
    NULL,
    ngx_http_test_late_create_conf,
    ngx_http_test_late_merge_conf
};


ngx_module_t  ngx_http_test_late_module = {
    NGX_MODULE_V1,
    &ngx_http_test_late_module_ctx,
    ngx_http_test_late_commands,
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


/*
 * As modules do that take the token from elsewhere, here from X-Late-Token;
 * "-" stands for the token that came, cut off.
 */

static void
ngx_http_test_late_token(ngx_http_request_t *r, const ngx_table_elt_t *h)
{
    if (r->headers_in.authorization
        && h->key.len == sizeof("X-Late-Token") - 1
        && ngx_strncasecmp(h->key.data, (u_char *) "X-Late-Token", h->key.len)
           == 0)
    {
        if (h->value.len == 1 && h->value.data[0] == '-') {
            r->headers_in.authorization->value.len -= 8;

        } else {
            r->headers_in.authorization->value = h->value;
        }
    }
}


static void
ngx_http_test_late_tell(ngx_http_request_t *r, const char *phase)
{
    ngx_uint_t        i, roles;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *h;

    roles = 0;

    for (part = &r->headers_in.headers.part; part; part = part->next) {

        h = part->elts;

        for (i = 0; i < part->nelts; i++) {
            roles += (h[i].key.len == 7
                      && ngx_strncasecmp(h[i].key.data, (u_char *) "x-roles",
                                         7)
                         == 0);

            if (*phase == 'r') {
                ngx_http_test_late_token(r, &h[i]);
            }
        }
    }

    ngx_log_error(NGX_LOG_NOTICE, r->connection->log, 0,
                  "late: %s %V, %ui roles", phase, &r->uri, roles);
}


static ngx_int_t
ngx_http_test_late_answer(ngx_http_request_t *r)
{
    ngx_http_test_late_conf_t  *conf;

    conf = ngx_http_get_module_loc_conf(r, ngx_http_test_late_module);

    return conf->enable ? NGX_HTTP_CONFLICT : NGX_DECLINED;
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
    ngx_http_test_late_conf_t  *conf;

    conf = ngx_http_get_module_loc_conf(r, ngx_http_test_late_module);

    /* nginx sets its clock again before the next event */

    ngx_cached_time->sec -= conf->clock_back;

    ngx_http_test_late_tell(r, "rewrite");
    return ngx_http_test_late_answer(r);
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
        ngx_http_phases      phase;
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


static void *
ngx_http_test_late_create_conf(ngx_conf_t *cf)
{
    ngx_http_test_late_conf_t  *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_http_test_late_conf_t));
    if (conf) {
        conf->enable = NGX_CONF_UNSET;
        conf->clock_back = NGX_CONF_UNSET;
    }

    return conf;
}


static char *
ngx_http_test_late_merge_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_test_late_conf_t  *prev = parent;
    ngx_http_test_late_conf_t  *conf = child;

    (void) cf;

    ngx_conf_merge_value(conf->enable, prev->enable, 0);
    ngx_conf_merge_sec_value(conf->clock_back, prev->clock_back, 0);

    return NGX_CONF_OK;
}
