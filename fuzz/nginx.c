/* What the module needs of nginx, no more than the fuzz targets reach. */

#include "nginx.h"

#include <ctype.h>
#include <fcntl.h>
#include <strings.h>

#define PIECES 65536

static void *pieces[PIECES];
static size_t taken;

time_t nginx_now = 1700000000;
ngx_log_t nginx_log;
static ngx_cycle_t cycle = {.log = &nginx_log};
volatile ngx_cycle_t *ngx_cycle = &cycle;
static ngx_time_t clock_now = {.sec = 1700000000};
volatile ngx_time_t *ngx_cached_time = &clock_now;
ngx_pid_t ngx_pid = 1;

void nginx_reset(void)
{
    while (taken > 0)
        free(pieces[--taken]);
    clock_now.sec = nginx_now;
    ngx_http_platform_gateway_module.ctx_index = 0;
}

/* -- memory */

void *ngx_pcalloc(ngx_pool_t *pool, size_t size)
{
    FUZZ_ASSERT(taken < PIECES);
    pieces[taken] = calloc(1, size);
    FUZZ_ASSERT(pieces[taken] != NULL || size == 0);
    return pieces[taken++];
}

/* Fills the memory, so that reading it before writing is noticed. */
void *ngx_pnalloc(ngx_pool_t *pool, size_t size)
{
    return memset(ngx_pcalloc(pool, size), 0xa5, size);
}

void *ngx_palloc(ngx_pool_t *pool, size_t size)
{
    return ngx_pnalloc(pool, size);
}

void *ngx_alloc(size_t size, ngx_log_t *log)
{
    return malloc(size);
}
void *ngx_calloc(size_t size, ngx_log_t *log)
{
    return calloc(1, size);
}

void *ngx_array_push(ngx_array_t *a)
{
    void *elts = ngx_pnalloc(a->pool, (a->nelts + 1) * a->size);

    if (a->nelts > 0)
        memcpy(elts, a->elts, a->nelts * a->size);
    a->elts = elts;
    return (char *) elts + a->size * a->nelts++;
}

ngx_array_t *ngx_array_create(ngx_pool_t *pool, ngx_uint_t n, size_t size)
{
    ngx_array_t *a = ngx_pcalloc(pool, sizeof(*a));

    a->size = size;
    return a;
}

/* -- text */

ngx_int_t ngx_strncasecmp(u_char *a, u_char *b, size_t n)
{
    return strncasecmp((char *) a, (char *) b, n);
}

void ngx_strlow(u_char *dst, u_char *src, size_t n)
{
    for (; n > 0; n--)
        *dst++ = ngx_tolower(*src), src++;
}

ngx_uint_t ngx_hash_key(u_char *data, size_t len)
{
    return len;
}

u_char *ngx_hex_dump(u_char *dst, u_char *src, size_t len)
{
    for (; len > 0; len--, dst += 2)
        memcpy(dst,
               (char[]){"0123456789abcdef"[*src >> 4],
                        "0123456789abcdef"[*src & 15]},
               2),
            src++;
    return dst;
}

time_t ngx_atotm(u_char *line, size_t n)
{
    int64_t value = 0;

    for (size_t i = 0; i < n; i++) {
        if (!isdigit(line[i]) || value > (INT64_MAX - 9) / 10)
            return NGX_ERROR;
        value = value * 10 + line[i] - '0';
    }
    return n > 0 ? value : NGX_ERROR;
}

ngx_int_t ngx_atoi(u_char *line, size_t n)
{
    return ngx_atotm(line, n);
}

u_char *ngx_strerror(ngx_err_t err, u_char *text, size_t size)
{
    return text;
}

u_char *ngx_cpystrn(u_char *dst, u_char *src, size_t n)
{
    snprintf((char *) dst, n, "%s", (char *) src);
    return dst + strlen((char *) dst);
}

static u_char *put(u_char *p, u_char *end, const void *text, size_t len)
{
    len = ngx_min(len, (size_t) (end - p));
    return ngx_cpymem(p, text, len);
}

/* What follows a % of fmt, which moves on to its last letter. */
static u_char *print_one(u_char *p, u_char *end, const char **fmt, va_list *ap)
{
    bool zeroes = **fmt == '0';
    int width = (int) strtol(*fmt, (char **) (uintptr_t) fmt, 10);
    size_t len = **fmt == '*' ? va_arg(*ap, size_t) : SIZE_MAX;
    const char *letter = *fmt += len != SIZE_MAX, *s;
    const ngx_str_t *v;
    char text[64];

    *fmt += strspn(*fmt, "uxX");
    switch (**fmt) {
    case 'V':
        v = va_arg(*ap, const ngx_str_t *);
        return put(p, end, v->data, v->len);
    case 's':
        s = va_arg(*ap, const char *);
        return put(p, end, s, len != SIZE_MAX ? len : strlen(s));
    case 'Z':
        return put(p, end, "", 1);
    default:
        FUZZ_ASSERT(strchr("dPizTMlALO", **fmt) != NULL);
        snprintf(text, sizeof(text),
                 *letter == 'X' ? "%0*lX"
                 : zeroes       ? "%0*ld"
                                : "%*ld",
                 width,
                 strchr("dP", **fmt) != NULL ? va_arg(*ap, int)
                                             : va_arg(*ap, long));
        return put(p, end, text, strlen(text));
    }
}

static u_char *print(u_char *p, u_char *end, const char *fmt, va_list *ap)
{
    for (; *fmt != '\0'; fmt++) {
        if (*fmt != '%' || *++fmt == '%')
            p = put(p, end, fmt, 1);
        else
            p = print_one(p, end, &fmt, ap);
    }
    return p;
}

u_char *ngx_sprintf(u_char *buf, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    buf = print(buf, (u_char *) UINTPTR_MAX, fmt, &ap);
    va_end(ap);
    return buf;
}

u_char *ngx_snprintf(u_char *buf, size_t max, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    buf = print(buf, buf + max, fmt, &ap);
    va_end(ap);
    return buf;
}

/* -- what else there is */

void ngx_log_error_core(ngx_uint_t level, ngx_log_t *log, ngx_err_t err,
                        const char *fmt, ...)
{
}

void ngx_conf_log_error(ngx_uint_t level, ngx_conf_t *cf, ngx_err_t err,
                        const char *fmt, ...)
{
}

void ngx_shmtx_lock(ngx_shmtx_t *mtx)
{
}
void ngx_shmtx_unlock(ngx_shmtx_t *mtx)
{
}

ngx_fd_t ngx_open_tempfile(u_char *name, ngx_uint_t persistent,
                           ngx_uint_t access)
{
    return open((const char *) name, O_CREAT | O_EXCL | O_RDWR, 0600);
}

/* -- for the targets */

ngx_str_t nginx_copy(pj_str_t s)
{
    ngx_str_t copy = {s.len, ngx_pcalloc(NULL, s.len + 1)};

    if (s.len > 0)
        memcpy(copy.data, s.data, s.len);
    return copy;
}

void nginx_request(ngx_http_request_t *r, pj_str_t text)
{
    ngx_list_part_t *part = &r->headers_in.headers.part;
    const ngx_uint_t most = 3;

    memset(r, 0, sizeof(*r));
    part->elts = ngx_pcalloc(NULL, most * sizeof(ngx_table_elt_t));
    while (text.len > 0) {
        pj_str_t value = fuzz_split(&text, '\n');
        pj_str_t key = fuzz_split(&value, ':');
        ngx_table_elt_t *h;

        if (part->nelts == most) {
            part = part->next = ngx_pcalloc(NULL, sizeof(*part));
            part->elts = ngx_pcalloc(NULL, most * sizeof(ngx_table_elt_t));
        }
        h = (ngx_table_elt_t *) part->elts + part->nelts++;
        h->hash = 1;
        h->key = nginx_copy(key);
        h->value = nginx_copy(value);
        h->lowcase_key = ngx_pnalloc(NULL, key.len);
        ngx_strlow(h->lowcase_key, h->key.data, key.len);
        if (pj_str_caseeq(key, PJ_STR("authorization")))
            r->headers_in.authorization = h;
    }
    r->headers_in.headers.last = part;
    r->main = r;
}

bool nginx_alias(pj_str_t a, pj_str_t b)
{
    bool same = a.len == b.len;

    for (size_t i = 0; same && i < a.len; i++)
        same = isalnum(a.data[i]) || isalnum(b.data[i])
                   ? tolower(a.data[i]) == tolower(b.data[i])
                   : true;
    return same;
}
