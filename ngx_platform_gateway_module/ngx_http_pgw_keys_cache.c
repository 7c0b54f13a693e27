
/*
 * The last good key set on disk, for a start while the issuer is down.
 *
 * Written by the worker that fetched, from its fetch's own event: a new
 * document through a temporary file and fsync(), which happens only when keys
 * change and then holds one worker for one flush of 64 KiB at most; the time
 * of an unchanged one in place and without a flush, since a time that is too
 * old only makes us careful.  Read by the master process when the zone is new.
 */


#include "ngx_http_pgw_keys.h"

#include <openssl/evp.h>


/* Fixed widths, so that the time can be replaced in place. */

#define NGX_HTTP_PGW_KEYS_CACHE_MAGIC                                         \
    "platform-gateway-keys 1\nfetched "
#define NGX_HTTP_PGW_KEYS_CACHE_TIME                                          \
    (sizeof(NGX_HTTP_PGW_KEYS_CACHE_MAGIC) - 1)
#define NGX_HTTP_PGW_KEYS_CACHE_DIGITS  20
#define NGX_HTTP_PGW_KEYS_CACHE_HEADER                                        \
    (NGX_HTTP_PGW_KEYS_CACHE_TIME                                             \
     + NGX_HTTP_PGW_KEYS_CACHE_DIGITS                                         \
     + 2 * (sizeof("\nsource ") - 1 + NGX_HTTP_PGW_KEYS_DIGEST)               \
     + sizeof("\n\n") - 1)
#define NGX_HTTP_PGW_KEYS_CACHE_MAX                                           \
    (NGX_HTTP_PGW_KEYS_CACHE_HEADER + PJ_KEYSET_MAX_BYTES)

/* A clock may be set back by this much before a file seems to lie. */
#define NGX_HTTP_PGW_KEYS_CACHE_SKEW  300  /* s */


static const char *ngx_http_pgw_keys_cache_parse(ngx_http_pgw_keys_t *keys,
    u_char *buf, size_t len, ngx_str_t *document, time_t *fetched);
static ngx_int_t ngx_http_pgw_keys_cache_header(
    const ngx_http_pgw_keys_t *keys, const ngx_str_t *document,
    time_t fetched, u_char *header);
static void ngx_http_pgw_keys_cache_keep(ngx_http_pgw_keys_t *keys,
    const ngx_http_pgw_copy_t *copy);
static ngx_int_t ngx_http_pgw_keys_cache_touch(ngx_http_pgw_keys_t *keys,
    const u_char *header);
static ngx_int_t ngx_http_pgw_keys_cache_write(ngx_http_pgw_keys_t *keys,
    u_char *header, const ngx_str_t *document, const char **what);
static ngx_int_t ngx_http_pgw_keys_cache_put(ngx_fd_t fd, const u_char *p,
    size_t len);


ngx_int_t
ngx_http_pgw_keys_digest(u_char *hex, const ngx_str_t *parts, ngx_uint_t n)
{
    u_char       md[EVP_MAX_MD_SIZE];
    uint64_t     len;
    ngx_int_t    rc;
    ngx_uint_t   i;
    EVP_MD_CTX  *ctx;

    ctx = EVP_MD_CTX_new();
    rc = NGX_ERROR;

    if (ctx == NULL || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1) {
        goto done;
    }

    for (i = 0; i < n; i++) {
        len = parts[i].len;

        if (EVP_DigestUpdate(ctx, &len, sizeof(len)) != 1
            || EVP_DigestUpdate(ctx, parts[i].data, parts[i].len) != 1)
        {
            goto done;
        }
    }

    if (EVP_DigestFinal_ex(ctx, md, NULL) == 1) {
        ngx_hex_dump(hex, md, NGX_HTTP_PGW_KEYS_DIGEST / 2);
        rc = NGX_OK;
    }

done:

    EVP_MD_CTX_free(ctx);

    return rc;
}


/* Into a zone that is new and that nobody else uses yet. */

void
ngx_http_pgw_keys_cache_load(ngx_http_pgw_keys_t *keys, ngx_log_t *log)
{
    size_t       len;
    time_t       fetched;
    u_char      *buf, error[NGX_HTTP_PGW_KEYS_ERROR];
    ngx_int_t    rc;
    ngx_str_t    document;
    const char  *err;

    buf = ngx_alloc(NGX_HTTP_PGW_KEYS_CACHE_MAX + 1, log);
    if (buf == NULL) {
        return;
    }

    rc = ngx_http_pgw_keys_file_read(&keys->cache_file, buf,
                                     NGX_HTTP_PGW_KEYS_CACHE_MAX, &len, error);

    /* none yet */

    if (rc == NGX_DECLINED) {
        goto done;
    }

    err = (rc == NGX_OK) ? ngx_http_pgw_keys_cache_parse(keys, buf, len,
                                                       &document, &fetched)
          : (const char *) error;

    if (err) {
        ngx_log_error(NGX_LOG_WARN, log, 0,
                      "platform gateway: key cache file \"%V\" ignored: %s",
                      &keys->cache_file, err);
        goto done;
    }

    ngx_http_pgw_zone_preset(keys->zone, &document, fetched);

    if (!ngx_test_config) {
        ngx_log_error(NGX_LOG_NOTICE, log, 0,
                      "platform gateway: key set of %T s ago taken from "
                      "\"%V\"", ngx_max(ngx_time() - fetched, 0),
                      &keys->cache_file);
    }

done:

    ngx_free(buf);
}


/* Why the file is of no use, or NULL. */

static const char *
ngx_http_pgw_keys_cache_parse(ngx_http_pgw_keys_t *keys, u_char *buf,
    size_t len, ngx_str_t *document, time_t *fetched)
{
    u_char        header[NGX_HTTP_PGW_KEYS_CACHE_HEADER + 1];
    u_char       *time, *source;
    pj_err_t      err;
    pj_keyset_t  *set;

    if (len <= NGX_HTTP_PGW_KEYS_CACHE_HEADER) {
        return "it is truncated";
    }

    document->data = buf + NGX_HTTP_PGW_KEYS_CACHE_HEADER;
    document->len = len - NGX_HTTP_PGW_KEYS_CACHE_HEADER;

    time = buf + NGX_HTTP_PGW_KEYS_CACHE_TIME;
    *fetched = ngx_atotm(time, NGX_HTTP_PGW_KEYS_CACHE_DIGITS);

    if (*fetched == (time_t) NGX_ERROR) {
        return "it is damaged";
    }

    if (ngx_http_pgw_keys_cache_header(keys, document, *fetched,
                                       header)
        != NGX_OK)
    {
        return "no digest could be made of it";
    }

    source = time + NGX_HTTP_PGW_KEYS_CACHE_DIGITS;

    if (ngx_memcmp(buf, header,
                   (size_t) (source - buf) + sizeof("\nsource ") - 1)
        != 0)
    {
        return "it is damaged";
    }

    if (ngx_memcmp(source, header + (source - buf),
                   sizeof("\nsource ") - 1
                   + NGX_HTTP_PGW_KEYS_DIGEST)
        != 0)
    {
        return "it was written for another issuer";
    }

    if (ngx_memcmp(buf, header, NGX_HTTP_PGW_KEYS_CACHE_HEADER) != 0) {
        return "it is damaged";
    }

    if (*fetched > ngx_time() + NGX_HTTP_PGW_KEYS_CACHE_SKEW) {
        return "it is from the future";
    }

    if (ngx_time() - *fetched >= (time_t) (keys->hard_age / 1000)) {
        return "it is past the hard age";
    }

    err = ngx_http_pgw_keys_parse(document, &set, keys->log);
    if (err) {
        return pj_strerror(err);
    }

    ngx_http_pgw_keys_free(set);

    return NULL;
}


static ngx_int_t
ngx_http_pgw_keys_cache_header(const ngx_http_pgw_keys_t *keys,
    const ngx_str_t *document, time_t fetched, u_char *header)
{
    u_char     digest[NGX_HTTP_PGW_KEYS_DIGEST];
    ngx_str_t  source;

    source.data = (u_char *) keys->source;
    source.len = NGX_HTTP_PGW_KEYS_DIGEST;

    if (ngx_http_pgw_keys_digest(digest, document, 1) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_sprintf(header, NGX_HTTP_PGW_KEYS_CACHE_MAGIC
                "%020T\nsource %V\ndigest %*s\n\n%Z", fetched, &source,
                sizeof(digest), digest);

    return NGX_OK;
}


/*
 * Said once, at the start: whether this process, which is no longer root, can
 * write where it will have to.
 */

void
ngx_http_pgw_keys_cache_check(const ngx_http_pgw_keys_t *keys)
{
    u_char     dir[NGX_MAX_PATH];
    size_t     len;
    ngx_err_t  err;

    for (len = keys->cache_file.len; len > 1; len--) {
        if (keys->cache_file.data[len - 1] == '/') {
            break;
        }
    }

    if (len >= sizeof(dir)) {
        return;
    }

    ngx_cpystrn(dir, keys->cache_file.data, len + 1);

    if (access((const char *) dir, W_OK|X_OK) == 0) {
        return;
    }

    err = ngx_errno;

    ngx_log_error(NGX_LOG_ERR, keys->log, err,
                  "platform gateway: key cache file \"%V\" cannot be written: "
                  "give \"%s\" to the user of the worker processes",
                  &keys->cache_file, dir);
}


/* What the zone holds by now, which may be newer than what we have fetched. */

void
ngx_http_pgw_keys_cache_store(ngx_http_pgw_keys_t *keys)
{
    ngx_http_pgw_copy_t  copy;

    if (ngx_http_pgw_zone_copy(keys, &copy) != NGX_OK) {
        return;
    }

    if (copy.document.len) {
        ngx_http_pgw_keys_cache_keep(keys, &copy);
    }

    ngx_free(copy.document.data);
}


static void
ngx_http_pgw_keys_cache_keep(ngx_http_pgw_keys_t *keys,
    const ngx_http_pgw_copy_t *copy)
{
    u_char       header[NGX_HTTP_PGW_KEYS_CACHE_HEADER + 1];
    ngx_err_t    err;
    const char  *what;

    if (ngx_http_pgw_keys_cache_header(keys, &copy->document,
                                       copy->fetched_at, header)
        != NGX_OK)
    {
        return;
    }

    if (ngx_http_pgw_keys_cache_touch(keys, header) == NGX_OK) {
        return;
    }

    if (ngx_http_pgw_keys_cache_write(keys, header,
                                      &copy->document, &what)
        == NGX_OK)
    {
        keys->worker->cache_err = 0;
        return;
    }

    err = ngx_errno;

    /* once, and not at every soft age */

    if (keys->worker->cache_err != err) {
        keys->worker->cache_err = err;

        ngx_log_error(NGX_LOG_ERR, keys->log, err,
                      "platform gateway: key cache file \"%V\" not written: "
                      "%s failed", &keys->cache_file, what);
    }
}


/* Sets the time of a file that differs in nothing else. */

static ngx_int_t
ngx_http_pgw_keys_cache_touch(ngx_http_pgw_keys_t *keys, const u_char *header)
{
    u_char     old[NGX_HTTP_PGW_KEYS_CACHE_HEADER];
    size_t     rest;
    ssize_t    n;
    ngx_fd_t   fd;
    ngx_int_t  rc;

    fd = ngx_open_file(keys->cache_file.data,
                       NGX_FILE_RDWR|NGX_FILE_NONBLOCK, NGX_FILE_OPEN, 0);
    if (fd == NGX_INVALID_FILE) {
        return NGX_DECLINED;
    }

    rc = NGX_DECLINED;
    rest = NGX_HTTP_PGW_KEYS_CACHE_TIME + NGX_HTTP_PGW_KEYS_CACHE_DIGITS;

    n = pread(fd, old, sizeof(old), 0);

    if (n == (ssize_t) sizeof(old)
        && ngx_memcmp(old, header, NGX_HTTP_PGW_KEYS_CACHE_TIME)
           == 0
        && ngx_memcmp(old + rest, header + rest, sizeof(old) - rest) == 0)
    {
        n = pwrite(fd, header + NGX_HTTP_PGW_KEYS_CACHE_TIME,
                   NGX_HTTP_PGW_KEYS_CACHE_DIGITS,
                   NGX_HTTP_PGW_KEYS_CACHE_TIME);

        if (n == NGX_HTTP_PGW_KEYS_CACHE_DIGITS) {
            rc = NGX_OK;
        }
    }

    (void) ngx_close_file(fd);

    return rc;
}


static ngx_int_t
ngx_http_pgw_keys_cache_write(ngx_http_pgw_keys_t *keys, u_char *header,
    const ngx_str_t *document, const char **what)
{
    u_char     name[NGX_MAX_PATH];
    ngx_fd_t   fd;
    ngx_err_t  err;

    *what = "opening a file beside it";

    if (keys->cache_file.len + sizeof(".tmp.") + NGX_INT_T_LEN
        > sizeof(name))
    {
        ngx_set_errno(NGX_ENAMETOOLONG);
        return NGX_ERROR;
    }

    ngx_sprintf(name, "%V.%P.tmp%Z", &keys->cache_file, ngx_pid);

    /* only a process of our number that died can have left one */

    (void) ngx_delete_file(name);

    fd = ngx_open_tempfile(name, 1, 0);
    if (fd == NGX_INVALID_FILE) {
        return NGX_ERROR;
    }

    *what = "writing beside it";

    if (ngx_http_pgw_keys_cache_put(fd, header,
                                  NGX_HTTP_PGW_KEYS_CACHE_HEADER)
        != NGX_OK
        || ngx_http_pgw_keys_cache_put(fd, document->data,
                                                    document->len)
           != NGX_OK
        || fsync(fd) == -1)
    {
        goto failed;
    }

    if (ngx_close_file(fd) == NGX_FILE_ERROR) {
        fd = NGX_INVALID_FILE;
        goto failed;
    }

    fd = NGX_INVALID_FILE;
    *what = ngx_rename_file_n;

    if (ngx_rename_file(name, keys->cache_file.data) == NGX_FILE_ERROR) {
        goto failed;
    }

    return NGX_OK;

failed:

    err = ngx_errno;

    if (fd != NGX_INVALID_FILE) {
        (void) ngx_close_file(fd);
    }

    (void) ngx_delete_file(name);
    ngx_set_errno(err);

    return NGX_ERROR;
}


static ngx_int_t
ngx_http_pgw_keys_cache_put(ngx_fd_t fd, const u_char *p, size_t len)
{
    ssize_t  n;

    while (len) {
        n = write(fd, p, len);

        if (n == -1 && ngx_errno == NGX_EINTR) {
            continue;
        }

        if (n <= 0) {
            return NGX_ERROR;
        }

        p += n;
        len -= (size_t) n;
    }

    return NGX_OK;
}
