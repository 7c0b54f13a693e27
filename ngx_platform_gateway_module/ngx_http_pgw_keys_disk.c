
/*
 * Key sets in files: the last good one that was fetched, for a start while the
 * issuer is down, and the operator's own file that stands in for an issuer.
 *
 * The first is written by the worker that fetched, from its fetch's own event
 * and without waiting for the disk: a new document into a file that is then
 * renamed, the time of an unchanged one in place.  So a crash of the machine
 * may lose it or leave it in part.  The digest tells the reader, the master
 * process when the zone is new, and the start is then one without a file.
 */


#include "ngx_http_pgw_keys.h"

#include <openssl/evp.h>


/* Fixed widths, so that the time can be replaced in place. */

#define NGX_HTTP_PGW_DISK_MAGIC   "platform-gateway-keys 1\nfetched "
#define NGX_HTTP_PGW_DISK_TIME    (sizeof(NGX_HTTP_PGW_DISK_MAGIC) - 1)
#define NGX_HTTP_PGW_DISK_DIGITS  20
#define NGX_HTTP_PGW_DISK_REST                                                \
    (NGX_HTTP_PGW_DISK_TIME + NGX_HTTP_PGW_DISK_DIGITS)
#define NGX_HTTP_PGW_DISK_SOURCE                                              \
    (NGX_HTTP_PGW_DISK_REST + sizeof("\nsource ") - 1)
#define NGX_HTTP_PGW_DISK_HEADER                                              \
    (NGX_HTTP_PGW_DISK_SOURCE + 2 * NGX_HTTP_PGW_KEYS_DIGEST                  \
     + sizeof("\ndigest \n\n") - 1)
#define NGX_HTTP_PGW_DISK_MAX                                                 \
    (NGX_HTTP_PGW_DISK_HEADER + PJ_KEYSET_MAX_BYTES)

/* A clock may be set back by this much before a file seems to lie. */
#define NGX_HTTP_PGW_DISK_SKEW  300  /* s */


static const char *ngx_http_pgw_disk_parse(ngx_http_pgw_keys_t *keys,
    u_char *buf, size_t len, ngx_str_t *document, time_t *fetched);
static ngx_int_t ngx_http_pgw_disk_header(const ngx_http_pgw_keys_t *keys,
    const ngx_str_t *document, time_t fetched, u_char *header);
static ngx_int_t ngx_http_pgw_disk_touch(ngx_http_pgw_keys_t *keys,
    const u_char *header);
static void ngx_http_pgw_disk_write(ngx_http_pgw_keys_t *keys, u_char *buf,
    size_t len);


ngx_int_t
ngx_http_pgw_keys_digest(u_char *hex, const ngx_str_t *parts, ngx_uint_t n)
{
    u_char       md[EVP_MAX_MD_SIZE];
    uint64_t     len;
    ngx_uint_t   i, ok;
    EVP_MD_CTX  *ctx;

    ctx = EVP_MD_CTX_new();
    ok = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1;

    for (i = 0; ok && i < n; i++) {
        len = parts[i].len;
        ok = EVP_DigestUpdate(ctx, &len, sizeof(len)) == 1
             && EVP_DigestUpdate(ctx, parts[i].data, parts[i].len) == 1;
    }

    ok = ok && EVP_DigestFinal_ex(ctx, md, NULL) == 1;

    EVP_MD_CTX_free(ctx);

    if (!ok) {
        return NGX_ERROR;
    }

    ngx_hex_dump(hex, md, NGX_HTTP_PGW_KEYS_DIGEST / 2);

    return NGX_OK;
}


ngx_int_t
ngx_http_pgw_keys_read(const ngx_str_t *name, u_char *buf, size_t max,
    size_t *len, u_char *err)
{
    ssize_t          n;
    ngx_fd_t         fd;
    ngx_err_t        rc;
    const char      *what;
    ngx_file_info_t  fi;

    n = -1;
    what = NULL;

    fd = ngx_open_file(name->data, NGX_FILE_RDONLY|NGX_FILE_NONBLOCK,
                       NGX_FILE_OPEN, 0);

    if (fd != NGX_INVALID_FILE && ngx_fd_info(fd, &fi) != NGX_FILE_ERROR) {

        if (!ngx_is_file(&fi)) {
            what = "it is no regular file";

        } else if (ngx_file_size(&fi) > (off_t) max) {
            what = "it is too large";

        } else {
            n = ngx_read_fd(fd, buf, max);
        }
    }

    rc = (n == -1 && what == NULL) ? ngx_errno : 0;

    if (fd != NGX_INVALID_FILE) {
        (void) ngx_close_file(fd);
    }

    if (n != -1) {
        *len = (size_t) n;
        return NGX_OK;
    }

    if (what) {
        (void) ngx_cpystrn(err, (u_char *) what, NGX_HTTP_PGW_KEYS_ERROR);

    } else {
        *ngx_strerror(rc, err, NGX_HTTP_PGW_KEYS_ERROR - 1) = '\0';
    }

    /* apart from all others, since it may well be meant */

    return (rc == NGX_ENOENT) ? NGX_DECLINED : NGX_ERROR;
}


char *
ngx_http_pgw_keys_file_check(ngx_conf_t *cf, ngx_http_pgw_keys_t *keys)
{
    u_char        buf[NGX_HTTP_PGW_KEYS_ERROR];
    pj_err_t      rc;
    const char   *err;
    pj_keyset_t  *set;

    err = (const char *) buf;

    keys->document.data = ngx_pnalloc(cf->pool, PJ_KEYSET_MAX_BYTES);
    if (keys->document.data == NULL) {
        return NGX_CONF_ERROR;
    }

    if (ngx_http_pgw_keys_read(&keys->file, keys->document.data,
                               PJ_KEYSET_MAX_BYTES, &keys->document.len, buf)
        == NGX_OK)
    {
        rc = ngx_http_pgw_keys_parse(&keys->document, &set, cf->log);
        if (rc == PJ_OK) {
            ngx_http_pgw_keys_free(set);
            return NGX_CONF_OK;
        }

        err = pj_strerror(rc);
    }

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "\"platform_gateway_key_file\" \"%V\" gives no keys: %s; "
                  "put the issuer's key set there, a JSON object like "
                  "{\"keys\":[...]} with at least one RSA key, in %V:%ui",
                  &keys->file, err, &keys->conf_file, keys->conf_line);

    return NGX_CONF_ERROR;
}


u_char *
ngx_http_pgw_disk_load(ngx_http_pgw_keys_t *keys, ngx_str_t *document,
    time_t *fetched, ngx_log_t *log)
{
    size_t       len;
    u_char      *buf, error[NGX_HTTP_PGW_KEYS_ERROR];
    ngx_int_t    rc;
    const char  *err;

    buf = ngx_alloc(NGX_HTTP_PGW_DISK_MAX, log);
    if (buf == NULL) {
        return NULL;
    }

    rc = ngx_http_pgw_keys_read(&keys->cache_file, buf, NGX_HTTP_PGW_DISK_MAX,
                                &len, error);

    err = (const char *) error;

    if (rc == NGX_OK) {
        err = ngx_http_pgw_disk_parse(keys, buf, len, document, fetched);

        if (err == NULL) {
            return buf;
        }
    }

    ngx_free(buf);

    /* there may be none yet */

    if (rc != NGX_DECLINED) {
        ngx_log_error(NGX_LOG_WARN, log, 0,
                      "platform gateway: key cache file \"%V\" ignored: %s",
                      &keys->cache_file, err);
    }

    return NULL;
}


/* Why the file is of no use, or NULL. */

static const char *
ngx_http_pgw_disk_parse(ngx_http_pgw_keys_t *keys, u_char *buf, size_t len,
    ngx_str_t *document, time_t *fetched)
{
    u_char        header[NGX_HTTP_PGW_DISK_HEADER];
    pj_err_t      err;
    pj_keyset_t  *set;

    if (len <= NGX_HTTP_PGW_DISK_HEADER) {
        return "it is truncated";
    }

    document->data = buf + NGX_HTTP_PGW_DISK_HEADER;
    document->len = len - NGX_HTTP_PGW_DISK_HEADER;

    *fetched = ngx_atotm(buf + NGX_HTTP_PGW_DISK_TIME,
                         NGX_HTTP_PGW_DISK_DIGITS);

    if (*fetched == (time_t) NGX_ERROR
        || ngx_http_pgw_disk_header(keys, document, *fetched, header)
           != NGX_OK
        || ngx_memcmp(buf, header, NGX_HTTP_PGW_DISK_SOURCE) != 0)
    {
        return "it is damaged";
    }

    if (ngx_memcmp(buf + NGX_HTTP_PGW_DISK_SOURCE,
                   header + NGX_HTTP_PGW_DISK_SOURCE,
                   NGX_HTTP_PGW_KEYS_DIGEST)
        != 0)
    {
        return "it was written for another issuer";
    }

    if (ngx_memcmp(buf, header, NGX_HTTP_PGW_DISK_HEADER) != 0) {
        return "it is damaged";
    }

    if (*fetched > ngx_time() + NGX_HTTP_PGW_DISK_SKEW) {
        return "it is from the future";
    }

    if (ngx_time() - *fetched >= (time_t) (keys->hard_age / 1000)) {
        return "it is past the hard age";
    }

    err = ngx_http_pgw_keys_parse(document, &set, keys->log);
    ngx_http_pgw_keys_free(set);

    return err ? pj_strerror(err) : NULL;
}


static ngx_int_t
ngx_http_pgw_disk_header(const ngx_http_pgw_keys_t *keys,
    const ngx_str_t *document, time_t fetched, u_char *header)
{
    size_t  n = NGX_HTTP_PGW_KEYS_DIGEST;
    u_char  digest[NGX_HTTP_PGW_KEYS_DIGEST];

    if (ngx_http_pgw_keys_digest(digest, document, 1) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_sprintf(header, NGX_HTTP_PGW_DISK_MAGIC
                "%020T\nsource %*s\ndigest %*s\n\n", fetched, n, keys->source,
                n, digest);

    return NGX_OK;
}


/*
 * Said once, at the start: whether this process, which is no longer root, can
 * write where it will have to.
 */

void
ngx_http_pgw_disk_check(const ngx_http_pgw_keys_t *keys)
{
    u_char     dir[NGX_MAX_PATH];
    size_t     len;
    ngx_err_t  err;

    len = keys->cache_file.len;

    while (keys->cache_file.data[len - 1] != '/') {
        len--;
    }

    (void) ngx_cpystrn(dir, keys->cache_file.data,
                       ngx_min(len + 1, sizeof(dir)));

    if (access((const char *) dir, W_OK|X_OK) == -1) {
        err = ngx_errno;

        ngx_log_error(NGX_LOG_ERR, keys->log, err,
                      "platform gateway: key cache file \"%V\" cannot be "
                      "written: give \"%s\" to the user of the worker "
                      "processes", &keys->cache_file, dir);
    }
}


/* What the zone holds by now, which may be newer than what we have fetched. */

void
ngx_http_pgw_disk_store(ngx_http_pgw_keys_t *keys)
{
    u_char               *buf;
    ngx_http_pgw_copy_t   copy;

    buf = ngx_alloc(NGX_HTTP_PGW_DISK_MAX, keys->log);
    if (buf == NULL) {
        return;
    }

    copy.document.data = buf + NGX_HTTP_PGW_DISK_HEADER;

    ngx_http_pgw_zone_copy(keys, &copy);

    if (copy.document.len
        && ngx_http_pgw_disk_header(keys, &copy.document, copy.fetched_at, buf)
           == NGX_OK
        && ngx_http_pgw_disk_touch(keys, buf) != NGX_OK)
    {
        ngx_http_pgw_disk_write(keys, buf,
                                NGX_HTTP_PGW_DISK_HEADER + copy.document.len);
    }

    ngx_free(buf);
}


/* Sets the time of a file that differs in nothing else. */

static ngx_int_t
ngx_http_pgw_disk_touch(ngx_http_pgw_keys_t *keys, const u_char *header)
{
    u_char     old[NGX_HTTP_PGW_DISK_HEADER];
    ngx_fd_t   fd;
    ngx_int_t  rc;

    fd = ngx_open_file(keys->cache_file.data, NGX_FILE_RDWR|NGX_FILE_NONBLOCK,
                       NGX_FILE_OPEN, 0);
    if (fd == NGX_INVALID_FILE) {
        return NGX_DECLINED;
    }

    rc = NGX_DECLINED;

    if (pread(fd, old, sizeof(old), 0) == (ssize_t) sizeof(old)
        && ngx_memcmp(old, header, NGX_HTTP_PGW_DISK_TIME) == 0
        && ngx_memcmp(old + NGX_HTTP_PGW_DISK_REST,
                      header + NGX_HTTP_PGW_DISK_REST,
                      sizeof(old) - NGX_HTTP_PGW_DISK_REST)
           == 0
        && pwrite(fd, header + NGX_HTTP_PGW_DISK_TIME,
                  NGX_HTTP_PGW_DISK_DIGITS, NGX_HTTP_PGW_DISK_TIME)
           == NGX_HTTP_PGW_DISK_DIGITS)
    {
        rc = NGX_OK;
    }

    (void) ngx_close_file(fd);

    return rc;
}


static void
ngx_http_pgw_disk_write(ngx_http_pgw_keys_t *keys, u_char *buf, size_t len)
{
    u_char       name[NGX_MAX_PATH];
    ngx_fd_t     fd;
    ngx_err_t    err;
    const char  *what;

    what = "opening a file beside it";
    *ngx_snprintf(name, sizeof(name) - 1, "%V.%P.tmp", &keys->cache_file,
                  ngx_pid) = '\0';

    /* only a process of our number that died can have left one */

    (void) ngx_delete_file(name);

    fd = ngx_open_tempfile(name, 1, 0);

    if (fd != NGX_INVALID_FILE) {
        what = "writing beside it";
        ngx_set_errno(NGX_ENOSPC);      /* what a short write means */

        if (ngx_write_fd(fd, buf, len) == (ssize_t) len) {
            what = ngx_rename_file_n;

            if (ngx_rename_file(name, keys->cache_file.data)
                != NGX_FILE_ERROR)
            {
                what = NULL;
            }
        }
    }

    err = what ? ngx_errno : 0;

    if (fd != NGX_INVALID_FILE) {
        (void) ngx_close_file(fd);
    }

    if (what && fd != NGX_INVALID_FILE) {
        (void) ngx_delete_file(name);
    }

    /* once, and not at every soft age */

    if (what && keys->worker->cache_err != err) {
        ngx_log_error(NGX_LOG_ERR, keys->log, err,
                      "platform gateway: key cache file \"%V\" not written: "
                      "%s failed", &keys->cache_file, what);
    }

    keys->worker->cache_err = err;
}
