
/*
 * Compares the structures of the running nginx with the headers that the module
 * was compiled with.  A distribution may patch a structure and keep version and
 * signature; the module would then read another header as Authorization.
 *
 * nginx's own tables (headers, directives, variables) have the offsets of most
 * fields.  For structures that are in no table, nginx's functions are called,
 * and write, read or allocate such a structure.  If two fields agree, the
 * fields between them agree, too.
 */


#include "nginx/nginx.h"


static ngx_uint_t
ngx_http_pgw_abi_equal(ngx_log_t *log, const char *what, size_t ours,
    size_t its)
{
    if (ours != its) {
        ngx_log_error(NGX_LOG_EMERG, log, 0,
                      "platform_gateway: %s is %z in the module and %z in "
                      "nginx: rebuild the module from the sources of this "
                      "nginx", what, ours, its);
    }

    return ours == its;
}

#define pgw_value(what, ours, its)                                            \
    ngx_http_pgw_abi_equal(cf->log, what, (size_t) (ours), (size_t) (its))

/* A size is the distance to the next allocation, so it may be rounded up: on
   arm64 to 16. */
#define pgw_aligned(size)  ngx_align((size_t) (size), (size_t) NGX_ALIGNMENT)
#define pgw_size(type, its)                                                   \
    pgw_value("size of " #type, pgw_aligned(sizeof(type)), pgw_aligned(its))
#define pgw_at(type, field, its)                                              \
    pgw_value("offset of " #type "." #field, offsetof(type, field), its)


/* Finds a row by its name, and returns the offset that it has at byte "at", or
   0 without such a row.  A row begins with its name.  The last name is
   empty. */

static size_t
ngx_http_pgw_abi_offset(const void *table, size_t size, size_t at,
    const char *name)
{
    const u_char  *row = table;

    while (((ngx_str_t *) row)->len
           && ngx_strcmp(((ngx_str_t *) row)->data, name) != 0)
    {
        row += size;
    }

    return ((ngx_str_t *) row)->len ? *(size_t *) (row + at) : 0;
}


static ngx_http_variable_t *
ngx_http_pgw_abi_variable(ngx_conf_t *cf, const char *name)
{
    ngx_uint_t                  i;
    ngx_hash_key_t             *keys;
    ngx_http_core_main_conf_t  *cmcf = ngx_http_pgw_conf_nginx(cf);

    static ngx_http_variable_t  none;

    keys = cmcf->variables_keys->keys.elts;

    for (i = 0; i < cmcf->variables_keys->keys.nelts; i++) {
        if (keys[i].key.len == ngx_strlen(name)
            && ngx_strncmp(keys[i].key.data, name, keys[i].key.len) == 0)
        {
            return keys[i].value;
        }
    }

    return &none;
}


/* The value of a numeric variable of r, or NGX_ERROR. */

static ngx_int_t
ngx_http_pgw_abi_number(ngx_conf_t *cf, ngx_http_request_t *r, const char *name)
{
    ngx_http_variable_t        *v = ngx_http_pgw_abi_variable(cf, name);
    ngx_http_variable_value_t   value;

    ngx_memzero(&value, sizeof(value));

    return v->get_handler && v->get_handler(r, &value, v->data) == NGX_OK
           ? ngx_atoi(value.data, value.len) : NGX_ERROR;
}


/* The size of the last allocation in pool, which begins at begin. */

static size_t
ngx_http_pgw_abi_size(ngx_pool_t *pool, const void *begin)
{
    const u_char  *end = ngx_palloc(pool, sizeof(void *));

    return (size_t) (end - (const u_char *) begin);
}


#define PGW_TABLE(type, field, table, row, name)                              \
    pgw_at(type, field, ngx_http_pgw_abi_offset(table, sizeof(row),           \
                                                offsetof(row, offset), name))
#define PGW_IN(name, field)                                                   \
    PGW_TABLE(ngx_http_headers_in_t, field, ngx_http_headers_in,              \
              ngx_http_header_t, name)
#define PGW_OUT(name, field)                                                  \
    PGW_TABLE(ngx_http_headers_out_t, field, ngx_http_headers_out,            \
              ngx_http_header_out_t, name)
#define PGW_CORE(type, field)                                                 \
    PGW_TABLE(ngx_http_core_##type##_conf_t, field,                           \
              ngx_http_core_module.commands, ngx_command_t, #field)
#define PGW_VAR(name, field)                                                  \
    pgw_at(ngx_http_request_t, field, ngx_http_pgw_abi_variable(cf, name)->data)
#define PGW_PASS(field)                                                       \
    (buffer_size == NULL                                                      \
     || pgw_value("distance of ngx_http_upstream_conf_t." #field,             \
                  offsetof(ngx_http_upstream_conf_t, field)                   \
                  - offsetof(ngx_http_upstream_conf_t, buffer_size),          \
                  PGW_PROXY("proxy_" #field) - buffer_size))
#define PGW_PROXY(name)                                                       \
    (char *) ngx_http_pgw_peek_field(cf, cf->ctx, "ngx_http_proxy_module",    \
                                     name, NULL)

static ngx_uint_t
ngx_http_pgw_abi_conf(ngx_conf_t *cf, ngx_pool_t *pool)
{
    char               *buffer_size;
    ngx_buf_t          *b = ngx_create_temp_buf(pool, 1);
    ngx_conf_t          in = *cf;
    ngx_array_t        *values = NGX_CONF_UNSET_PTR;
    ngx_http_module_t  *core = ngx_http_core_module.ctx;

    ngx_str_t      words[] = { ngx_null_string, ngx_string("7") };
    ngx_array_t    args = { words, 2, sizeof(ngx_str_t), 2, pool };
    ngx_command_t  cmd = ngx_null_command;

    in.pool = pool;
    in.args = &args;
    buffer_size = PGW_PROXY("proxy_buffer_size");

    return b
        && ngx_http_set_predicate_slot(&in, &cmd, &values) == NGX_CONF_OK
        && pgw_size(ngx_http_complex_value_t, values->size)
        && pgw_value("ngx_conf_t.cmd_type", NGX_MAIN_CONF, cf->cmd_type)
        && pgw_value("ngx_cycle_t.old_cycle", ngx_cycle, cf->cycle->old_cycle)
        && pgw_size(ngx_shm_zone_t, cf->cycle->shared_memory.size)
        && pgw_size(ngx_buf_t, b->start - (u_char *) b)
        && pgw_size(ngx_pool_cleanup_t,
                    ngx_http_pgw_abi_size(pool, ngx_pool_cleanup_add(pool, 0)))
        && PGW_IN("Host", host) && PGW_IN("User-Agent", user_agent)
        && PGW_IN("Content-Type", content_type) && PGW_IN("Upgrade", upgrade)
        && PGW_IN("Authorization", authorization)
        && PGW_OUT("Content-Length", content_length)
        && PGW_OUT("Last-Modified", last_modified) && PGW_OUT("ETag", etag)
        && PGW_OUT("Cache-Control", cache_control)
        && PGW_CORE(main, variables_hash_bucket_size)
        && pgw_size(ngx_http_core_main_conf_t,      /* and its list's array */
                    ngx_http_pgw_abi_size(pool, core->create_main_conf(&in))
                    - 4 * sizeof(void *))
        && PGW_CORE(srv, client_header_buffer_size)
        && PGW_CORE(srv, merge_slashes)
        && pgw_size(ngx_http_core_srv_conf_t,
                    ngx_http_pgw_abi_size(pool, core->create_srv_conf(&in)))
        && PGW_CORE(loc, default_type) && PGW_CORE(loc, satisfy)
        && PGW_CORE(loc, subrequest_output_buffer_size)
        && PGW_CORE(loc, sendfile) && PGW_CORE(loc, types_hash_bucket_size)
        && pgw_size(ngx_http_core_loc_conf_t,
                    ngx_http_pgw_abi_size(pool, core->create_loc_conf(&in)))
        && PGW_VAR("http_host", headers_in.host)
        && PGW_VAR("sent_http_cache_control", headers_out.cache_control)
        && PGW_VAR("uri", uri) && PGW_VAR("request_uri", unparsed_uri)
        && PGW_VAR("limit_rate", limit_rate)
#if (NGX_HTTP_CACHE)
        && PGW_PASS(cache_bypass) && PGW_PASS(no_cache)
#endif
#if (NGX_HTTP_SSL)
        && PGW_PASS(ssl_session_reuse)
#endif
        && PGW_PASS(pass_request_headers);
}


/* nginx creates an upstream named "7"; its list is restored. */

static ngx_uint_t
ngx_http_pgw_abi_upstream(ngx_conf_t *cf, ngx_pool_t *pool)
{
    ngx_url_t                       u;
    ngx_conf_t                      in = *cf;
    ngx_http_upstream_srv_conf_t   *us;
    ngx_http_upstream_main_conf_t  *umcf;

    umcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_upstream_module);

    ngx_memzero(&u, sizeof(ngx_url_t));
    ngx_str_set(&u.host, "7");
    u.port = 7;
    in.pool = pool;

    return pgw_value("ngx_http_upstream_main_conf_t.upstreams", sizeof(us),
                     umcf->upstreams.size)
        && (us = ngx_http_upstream_add(&in, &u,
                                      NGX_HTTP_UPSTREAM_CREATE)) != NULL
        && umcf->upstreams.nelts--
        && pgw_value("ngx_http_upstream_srv_conf_t.port", 7, us->port)
        && pgw_size(ngx_http_upstream_srv_conf_t,
                    ngx_http_pgw_abi_size(pool, us));
}


/* nginx's functions read and write r; the fields that they read have been
   compared before. */

static ngx_uint_t
ngx_http_pgw_abi_request(ngx_conf_t *cf, ngx_http_request_t *r)
{
    ngx_uint_t           same;
    ngx_str_t            seven = ngx_string("7");
    ngx_http_request_t  *sr = r;

    ngx_http_upstream_state_t  state = { .peer = &seven };
    ngx_array_t                states = { &state, 1, sizeof(state), 1, NULL };

    /* cppcheck-suppress autoVariables ; r is as short-lived as states */
    r->upstream_states = &states;

    same = pgw_value("ngx_connection_t.number", 7,
                     ngx_http_pgw_abi_number(cf, r, "connection"))
        && pgw_value("ngx_connection_t.requests", 7,
                     ngx_http_pgw_abi_number(cf, r, "connection_requests"))
        && pgw_value("ngx_connection_t.tcp_nodelay", NGX_OK,
                     ngx_tcp_nodelay(r->connection))
        && pgw_value("ngx_http_upstream_state_t.peer", 7,
                     ngx_http_pgw_abi_number(cf, r, "upstream_addr"))
        && pgw_value("ngx_http_request_t.subrequests", NGX_OK,
                     ngx_http_subrequest(r, &seven, NULL, &sr, NULL,
                                         NGX_HTTP_SUBREQUEST_BACKGROUND))
        && pgw_size(ngx_http_request_t, (u_char *) sr->ctx - (u_char *) sr)
        && pgw_size(ngx_table_elt_t, sr->headers_out.headers.size)
        && pgw_value("ngx_http_request_t.count", 2, r->count)
        && pgw_value("ngx_http_request_t.internal", 1, sr->internal)
        && pgw_value("ngx_http_request_t.background", 1, sr->background)
#if (NGX_HTTP_CACHE)                      /* it contains an ngx_event_t */
        && pgw_value("ngx_http_file_cache_new()", NGX_OK,
                     ngx_http_file_cache_new(r))
        && pgw_size(ngx_http_cache_t,
                    (u_char *) r->cache->keys.elts - (u_char *) r->cache)
#endif
        && pgw_value("ngx_http_upstream_create()", NGX_OK,
                     ngx_http_upstream_create(r))
        && pgw_size(ngx_http_upstream_t,
                    ngx_http_pgw_abi_size(r->pool, r->upstream));

    r->upstream_states = NULL;

    return same;
}


ngx_int_t
ngx_http_pgw_abi_check(ngx_conf_t *cf)
{
    ngx_uint_t   same;
    ngx_pool_t  *pool = ngx_create_pool(32768, cf->log);

    /* two of each: zeroes follow if the structure is larger in nginx */

    ngx_log_t                 log[2];
    ngx_connection_t          c[2];
    ngx_http_request_t        r[2];
    ngx_http_core_srv_conf_t  cscf = { .ctx = cf->ctx };
    void                     *srv_conf[] = { &cscf };

    if (pool == NULL) {
        return NGX_ERROR;
    }

    same = pgw_size(ngx_pool_t, pool->d.last - (u_char *) pool)
           && ngx_http_pgw_abi_conf(cf, pool)
           && ngx_http_pgw_abi_upstream(cf, pool);

    if (same) {
        ngx_memzero(log, sizeof(log));
        ngx_memzero(c, sizeof(c));
        ngx_memzero(r, sizeof(r));

        c->log = log;
        c->number = 7;
        c->requests = 7;
        c->tcp_nodelay = NGX_TCP_NODELAY_DISABLED;
        c->fd = (ngx_socket_t) -1;   /* fails if tcp_nodelay is elsewhere */

        r->connection = c;
        r->pool = pool;
        r->main = r;
        r->srv_conf = srv_conf;      /* ctx_index of the core is 0 */
        r->count = 1;
        r->subrequests = 7;

        same = ngx_http_pgw_abi_request(cf, r);
    }

    ngx_destroy_pool(pool);

    return same ? NGX_OK : NGX_ERROR;
}


/* nginx compiles a "rewrite" in the http block, which is not run there. */

ngx_int_t
ngx_http_pgw_abi_codes(ngx_conf_t *cf)
{
#if (NGX_PCRE)
    size_t                          size;
    ngx_conf_t                      in = *cf;
    ngx_array_t                   **codes;
    ngx_module_t                   *m;
    ngx_command_t                  *cmd;
    ngx_http_script_regex_code_t   *code;

    ngx_str_t    words[] = { ngx_string("rewrite"), ngx_string("^/7$"),
                             ngx_string("/$request_id?"),
                             ngx_string("permanent") };
    ngx_array_t  args = { words, 4, sizeof(ngx_str_t), 4, cf->pool };

    codes = ngx_http_pgw_peek_field(cf, cf->ctx, "ngx_http_rewrite_module",
                                    "return", NULL);
    cmd = ngx_http_pgw_peek_command(cf, "ngx_http_rewrite_module", "rewrite",
                                    NULL, &m);
    if (codes == NULL || cmd == NULL) {
        return NGX_OK;
    }

    in.args = &args;

    if (cmd->set(&in, cmd, ((ngx_http_conf_ctx_t *) cf->ctx)
                           ->loc_conf[m->ctx_index]) != NGX_CONF_OK)
    {
        return NGX_ERROR;
    }

    code = (*codes)->elts;
    size = (*codes)->nelts;
    *codes = NULL;

    /* one word is the slash, and one ends the code */

    return pgw_value("size of ngx_http_script_*_code_t",
                     sizeof(ngx_http_script_regex_code_t)
                     + sizeof(ngx_http_script_copy_code_t)
                     + sizeof(ngx_http_script_var_code_t)
                     + sizeof(ngx_http_script_regex_end_code_t)
                     + 2 * sizeof(uintptr_t), size)
        && pgw_value("ngx_http_script_regex_code_t.name", words[1].data,
                     code->name.data)
        && pgw_value("ngx_http_script_regex_code_t.redirect", 1,
                     code->redirect)
           ? NGX_OK : NGX_ERROR;
#else
    return NGX_OK;
#endif
}


ngx_int_t
ngx_http_pgw_abi_zone(const ngx_shm_zone_t *shm_zone)
{
    const ngx_slab_pool_t  *shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    /* addr is the last field; all fields that are read come before it */

    return ngx_http_pgw_abi_equal(shm_zone->shm.log, "ngx_slab_pool_t.addr",
                                 (size_t) shpool, (size_t) shpool->addr)
           ? NGX_OK : NGX_ERROR;
}
