
/*
 * Where the handlers and filters of the gateway stand among those of other
 * modules.
 *
 * Within a phase nginx runs first what was registered last, and a module that
 * is loaded after ours would come before it: before headers are stripped,
 * before OPTIONS is answered.  So the order is made once all modules have had
 * their turn, and does not hang on the order of load_module.
 */


#include "ngx_http_pgw_local.h"
#include "ngx_http_pgw_metrics.h"


typedef struct {
    ngx_http_phases              phase;
    ngx_http_handler_pt          handler;
    ngx_uint_t                   last;       /* of its phase, else the first */
} ngx_http_pgw_phase_t;


static void ngx_http_pgw_phases_lead(ngx_http_phase_handler_t *ph,
    ngx_http_handler_pt handler);


static const ngx_http_pgw_phase_t
    ngx_http_pgw_phases[] =
{
    { NGX_HTTP_POST_READ_PHASE,
      ngx_http_pgw_post_read_handler, 0 },

    { NGX_HTTP_SERVER_REWRITE_PHASE,
      ngx_http_pgw_options_first_handler, 0 },

    { NGX_HTTP_SERVER_REWRITE_PHASE,
      ngx_http_pgw_options_last_handler, 1 },

    { NGX_HTTP_REWRITE_PHASE,
      ngx_http_pgw_rewrite_handler, 0 },

    { NGX_HTTP_PREACCESS_PHASE,
      ngx_http_pgw_preaccess_handler, 0 },

    { NGX_HTTP_ACCESS_PHASE,
      ngx_http_pgw_access_handler, 0 },

    { NGX_HTTP_ACCESS_PHASE,
      ngx_http_pgw_access_last_handler, 1 },

    { NGX_HTTP_PRECONTENT_PHASE,
      ngx_http_pgw_precontent_handler, 0 },

    { NGX_HTTP_LOG_PHASE,
      ngx_http_pgw_metrics_log_handler, 0 }
};

#define NGX_HTTP_PGW_PHASES                                                   \
    (sizeof(ngx_http_pgw_phases)                                              \
     / sizeof(ngx_http_pgw_phases[0]))


ngx_int_t
ngx_http_pgw_phases_init(ngx_conf_t *cf)
{
    ngx_uint_t                  i;
    ngx_array_t                *handlers;
    ngx_http_handler_pt        *h;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    for (i = 0; i < NGX_HTTP_PGW_PHASES; i++) {

        handlers = &cmcf->phases[ngx_http_pgw_phases[i].phase] .handlers;

        h = ngx_array_push(handlers);
        if (h == NULL) {
            return NGX_ERROR;
        }

        if (ngx_http_pgw_phases[i].last) {

            h = handlers->elts;

            ngx_memmove(h + 1, h,
                        (handlers->nelts - 1) * sizeof(ngx_http_handler_pt));
        }

        *h = ngx_http_pgw_phases[i].handler;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_pgw_phases_init_module(ngx_cycle_t *cycle)
{
    ngx_uint_t                  i;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_core_module);

    if (cmcf == NULL) {
        return NGX_OK;
    }

    for (i = 0; i < NGX_HTTP_PGW_PHASES; i++) {

        if (!ngx_http_pgw_phases[i].last) {
            ngx_http_pgw_phases_lead(cmcf->phase_engine.handlers,
                                     ngx_http_pgw_phases[i].handler);
        }
    }

    ngx_http_pgw_headers_init();
    ngx_http_pgw_problem_init();

    return NGX_OK;
}


/*
 * Handlers of a phase stand side by side with one checker and one exit, so it
 * is enough to move the functions.
 */

static void
ngx_http_pgw_phases_lead(ngx_http_phase_handler_t *ph,
    ngx_http_handler_pt handler)
{
    ngx_uint_t  i;

    /* the last checker, NULL, has nothing behind it */

    for (i = 0; ph[i].checker && ph[i].handler != handler; i++) {
        /* void */
    }

    if (ph[i].checker == NULL) {
        return;
    }

    while (i > 0
           && ph[i - 1].checker == ph[i].checker
           && ph[i - 1].next == ph[i].next)
    {
        ph[i].handler = ph[i - 1].handler;
        i--;
    }

    ph[i].handler = handler;
}
