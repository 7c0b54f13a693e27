
/*
 * Variables for the access log.  $platform_access_json is the whole entry: one
 * JSON object (RFC 8259) on one line, whatever bytes the client sent.
 */


#include "ngx_http_platform_gateway_log.h"


static ngx_int_t ngx_http_platform_gateway_log_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_platform_gateway_log_json(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static size_t ngx_http_platform_gateway_log_length(
    const ngx_http_platform_gateway_log_field_t *field,
    ngx_http_platform_gateway_log_value_t *value);
static size_t ngx_http_platform_gateway_log_plain(const u_char *p,
    const u_char *last);
static u_char *ngx_http_platform_gateway_log_write(u_char *p,
    const ngx_http_platform_gateway_log_value_t *value);
static ngx_int_t ngx_http_platform_gateway_log_start(ngx_http_request_t *r,
    ngx_http_platform_gateway_log_ctx_t *lc);
static size_t ngx_http_platform_gateway_log_escape_one(u_char *dst,
    const u_char *p, size_t n, ngx_uint_t valid);


#define ngx_http_platform_gateway_log_is_plain(c)                             \
    ((c) >= 0x20 && (c) < 0x7f && (c) != '"' && (c) != '\\')

/* The byte c eight times; and a high bit where one of the eight in w is c. */

#define ngx_http_platform_gateway_log_eight(c)                                \
    ((uint64_t) (c) * 0x0101010101010101ULL)

#define ngx_http_platform_gateway_log_has(w, c)                               \
    ((((w) ^ ngx_http_platform_gateway_log_eight(c))                          \
      - ngx_http_platform_gateway_log_eight(1))                               \
     & ~((w) ^ ngx_http_platform_gateway_log_eight(c)))


static ngx_str_t  ngx_http_platform_gateway_log_json_name =
    ngx_string("platform_access_json");


ngx_int_t
ngx_http_platform_gateway_log_add_variables(ngx_conf_t *cf)
{
    ngx_str_t             name;
    ngx_uint_t            i;
    ngx_http_variable_t  *var;

    for (i = 0; i < NGX_HTTP_PLATFORM_GATEWAY_LOG_FIELDS; i++) {

        name = ngx_http_platform_gateway_log_fields[i].variable;

        if (name.len == 0) {
            continue;
        }

        /* a decision changes while the request goes on */

        var = ngx_http_add_variable(cf, &name, NGX_HTTP_VAR_NOCACHEABLE);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = ngx_http_platform_gateway_log_variable;
        var->data = i;
    }

    var = ngx_http_add_variable(cf, &ngx_http_platform_gateway_log_json_name,
                                NGX_HTTP_VAR_NOCACHEABLE);
    if (var == NULL) {
        return NGX_ERROR;
    }

    var->get_handler = ngx_http_platform_gateway_log_json;

    return NGX_OK;
}


static ngx_int_t
ngx_http_platform_gateway_log_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_http_platform_gateway_log_ctx_t           lc;
    ngx_http_platform_gateway_log_value_t         value;
    const ngx_http_platform_gateway_log_field_t  *field;

    field = &ngx_http_platform_gateway_log_fields[data];
    ngx_memzero(&value, sizeof(ngx_http_platform_gateway_log_value_t));

    if (ngx_http_platform_gateway_log_start(r, &lc) != NGX_OK) {
        return NGX_ERROR;
    }

    lc.offset = field->offset;

    if (field->get(&lc, &value) != NGX_OK) {
        return NGX_ERROR;
    }

    if (value.kind == NGX_HTTP_PLATFORM_GATEWAY_LOG_NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->data = value.text.data;
    v->len = (unsigned) value.text.len & 0xfffffff;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


static ngx_int_t
ngx_http_platform_gateway_log_json(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    size_t                                        len;
    u_char                                       *p;
    ngx_uint_t                                    i;
    ngx_http_platform_gateway_log_ctx_t           lc;
    const ngx_http_platform_gateway_log_field_t  *field;

    ngx_http_platform_gateway_log_value_t
        value[NGX_HTTP_PLATFORM_GATEWAY_LOG_FIELDS];

    (void) data;

    if (ngx_http_platform_gateway_log_start(r, &lc) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_memzero(value, sizeof(value));

    field = ngx_http_platform_gateway_log_fields;
    len = sizeof("}") - 1;

    for (i = 0; i < NGX_HTTP_PLATFORM_GATEWAY_LOG_FIELDS; i++) {

        lc.offset = field[i].offset;

        if (field[i].get(&lc, &value[i]) != NGX_OK) {
            return NGX_ERROR;
        }

        len += ngx_http_platform_gateway_log_length(&field[i], &value[i]);
    }

    p = ngx_pnalloc(r->pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    v->data = p;

    for (i = 0; i < NGX_HTTP_PLATFORM_GATEWAY_LOG_FIELDS; i++) {
        *p++ = i ? ',' : '{';
        *p++ = '"';
        p = ngx_cpymem(p, field[i].name.data, field[i].name.len);
        *p++ = '"';
        *p++ = ':';
        p = ngx_http_platform_gateway_log_write(p, &value[i]);
    }

    *p++ = '}';

    v->len = (unsigned) (p - v->data) & 0xfffffff;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


/* Notes in value when there is nothing to escape, as nearly always. */

static size_t
ngx_http_platform_gateway_log_length(
    const ngx_http_platform_gateway_log_field_t *field,
    ngx_http_platform_gateway_log_value_t *value)
{
    size_t  len;

    len = field->name.len + sizeof(",\"\":") - 1;

    if (value->kind == NGX_HTTP_PLATFORM_GATEWAY_LOG_STRING
        && ngx_http_platform_gateway_log_plain(value->text.data,
                                               value->text.data
                                               + value->text.len)
           == value->text.len)
    {
        value->kind = NGX_HTTP_PLATFORM_GATEWAY_LOG_PLAIN;
    }

    switch (value->kind) {

    case NGX_HTTP_PLATFORM_GATEWAY_LOG_PLAIN:
        return len + sizeof("\"\"") - 1 + value->text.len;

    case NGX_HTTP_PLATFORM_GATEWAY_LOG_STRING:
        return len + sizeof("\"\"") - 1
               + ngx_http_platform_gateway_log_escape(NULL, &value->text);

    case NGX_HTTP_PLATFORM_GATEWAY_LOG_NUMBER:
        return len + value->text.len;

    default:
        return len + sizeof("null") - 1;
    }
}


static u_char *
ngx_http_platform_gateway_log_write(u_char *p,
    const ngx_http_platform_gateway_log_value_t *value)
{
    switch (value->kind) {

    case NGX_HTTP_PLATFORM_GATEWAY_LOG_PLAIN:
        *p++ = '"';
        p = ngx_cpymem(p, value->text.data, value->text.len);
        *p++ = '"';
        return p;

    case NGX_HTTP_PLATFORM_GATEWAY_LOG_STRING:
        *p++ = '"';
        p += ngx_http_platform_gateway_log_escape(p, &value->text);
        *p++ = '"';
        return p;

    case NGX_HTTP_PLATFORM_GATEWAY_LOG_NUMBER:
        return ngx_cpymem(p, value->text.data, value->text.len);

    default:
        return ngx_cpymem(p, "null", sizeof("null") - 1);
    }
}


static ngx_int_t
ngx_http_platform_gateway_log_start(ngx_http_request_t *r,
    ngx_http_platform_gateway_log_ctx_t *lc)
{
    ngx_uint_t                             n;
    ngx_http_upstream_state_t             *state;
    ngx_http_platform_gateway_srv_conf_t  *sscf;

    ngx_memzero(lc, sizeof(ngx_http_platform_gateway_log_ctx_t));

    lc->request = r;
    lc->conf = ngx_http_get_module_loc_conf(r,
                                            ngx_http_platform_gateway_module);

    sscf = ngx_http_get_module_srv_conf(r, ngx_http_platform_gateway_module);

    if (sscf->any_enabled) {
        lc->gr = ngx_http_platform_gateway_request_get(r);
        if (lc->gr == NULL) {
            return NGX_ERROR;
        }
    }

    if (r->upstream_states == NULL) {
        return NGX_OK;
    }

    /* an entry without a peer separates the attempts of two locations */

    state = r->upstream_states->elts;

    for (n = r->upstream_states->nelts; n > 0; n--) {
        if (state[n - 1].peer) {
            lc->upstream = &state[n - 1];
            break;
        }
    }

    return NGX_OK;
}


/* How many bytes at p need no escaping; eight at a time while they do not. */

static size_t
ngx_http_platform_gateway_log_plain(const u_char *p, const u_char *last)
{
    uint64_t       w, odd;
    const u_char  *start;

    start = p;

    while (last - p >= (ptrdiff_t) sizeof(w)) {

        ngx_memcpy(&w, p, sizeof(w));

        /* a high bit stays where a byte is 0x80 and more, or below 0x20 ... */

        odd = w | ((w - ngx_http_platform_gateway_log_eight(0x20)) & ~w);

        /* ... or one of the three */

        odd |= ngx_http_platform_gateway_log_has(w, '"')
               | ngx_http_platform_gateway_log_has(w, '\\')
               | ngx_http_platform_gateway_log_has(w, 0x7f);

        if (odd & ngx_http_platform_gateway_log_eight(0x80)) {
            break;
        }

        p += sizeof(w);
    }

    while (p < last && ngx_http_platform_gateway_log_is_plain(*p)) {
        p++;
    }

    return (size_t) (p - start);
}


size_t
ngx_http_platform_gateway_log_escape(u_char *dst, const ngx_str_t *src)
{
    size_t       n, len;
    u_char      *p, *last;
    ngx_uint_t   valid;

    len = 0;
    p = src->data;
    last = p + src->len;

    while (p < last) {

        n = ngx_http_platform_gateway_log_plain(p, last);

        if (dst) {
            ngx_memcpy(dst + len, p, n);
        }

        len += n;
        p += n;

        if (p < last) {
            n = ngx_http_platform_gateway_log_utf8(p, last, &valid);
            len += ngx_http_platform_gateway_log_escape_one(
                       dst ? dst + len : NULL, p, n, valid);
            p += n;
        }
    }

    return len;
}


/* The n bytes at p are one character, or none. */

static size_t
ngx_http_platform_gateway_log_escape_one(u_char *dst, const u_char *p,
    size_t n, ngx_uint_t valid)
{
    size_t  len;
    u_char  buf[sizeof("\\u0000")];

    if (!valid) {
        len = 3;
        ngx_memcpy(buf, "\xef\xbf\xbd", 3);      /* U+FFFD */

    } else if (n > 1) {
        len = n;
        ngx_memcpy(buf, p, n);

    } else if (*p == '"' || *p == '\\') {
        len = 2;
        buf[0] = '\\';
        buf[1] = *p;

    } else {
        len = (size_t) (ngx_sprintf(buf, "\\u%04xd", (int) *p) - buf);
    }

    if (dst) {
        ngx_memcpy(dst, buf, len);
    }

    return len;
}


/* Unicode, table 3-7 and section 3.9: substitution of maximal subparts. */

size_t
ngx_http_platform_gateway_log_utf8(const u_char *p, const u_char *last,
    ngx_uint_t *valid)
{
    size_t  i, n;
    u_char  low, high;

    *valid = 1;

    if (*p < 0x80) {
        return 1;
    }

    low = 0x80;
    high = 0xbf;

    if (*p >= 0xc2 && *p <= 0xdf) {
        n = 2;

    } else if (*p >= 0xe0 && *p <= 0xef) {
        n = 3;
        low = (*p == 0xe0) ? 0xa0 : low;    /* no overlong form */
        high = (*p == 0xed) ? 0x9f : high;  /* no surrogate */

    } else if (*p >= 0xf0 && *p <= 0xf4) {
        n = 4;
        low = (*p == 0xf0) ? 0x90 : low;
        high = (*p == 0xf4) ? 0x8f : high;  /* no more than U+10FFFF */

    } else {
        *valid = 0;
        return 1;
    }

    for (i = 1; i < n; i++) {

        if (p + i == last || p[i] < low || p[i] > high) {
            *valid = 0;
            return i;
        }

        low = 0x80;
        high = 0xbf;
    }

    return n;
}
