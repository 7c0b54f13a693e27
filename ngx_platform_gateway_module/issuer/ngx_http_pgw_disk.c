
/*
 * The file of the last good key set, for a start while the issuer is down.
 *
 * The worker that fetched writes a temporary file and renames it, without
 * fsync(), so a crash of the machine may damage the file.  The master process
 * reads it when the zone is new, and ignores it if the digest differs.
 */


#include "issuer/issuer.h"


#define NGX_HTTP_PGW_DISK_HEAD  offsetof(ngx_http_pgw_disk_t, document)

/* A file may be this much newer than the clock, which may have been set back.
   */
#define NGX_HTTP_PGW_DISK_SKEW  300  /* s */


static ngx_http_pgw_disk_t  ngx_http_pgw_disk;


/* Writes the part of the file before the document. */

static ngx_int_t
ngx_http_pgw_disk_head(const ngx_http_pgw_issuer_t *issuer,
    const ngx_str_t *document, time_t fetched, void *head)
{
    size_t  n = NGX_HTTP_PGW_DIGEST;
    u_char  digest[NGX_HTTP_PGW_DIGEST];

    ngx_memcpy(digest, issuer->from.source, n);

    if (ngx_http_pgw_lease_digest(digest, document, 1) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_sprintf(head, "platform-gateway-keys 1\nfetched %020T\nsource %*s\n"
                "digest %*s\n\n", fetched, n, issuer->from.source, n, digest);

    return NGX_OK;
}


/* Reads the file into ngx_http_pgw_disk.  Returns NULL, or the description of
   an error. */

static const char *
ngx_http_pgw_disk_read(const ngx_http_pgw_issuer_t *issuer, ngx_str_t *document,
    time_t *fetched)
{
    size_t                len;
    u_char                head[NGX_HTTP_PGW_DISK_HEAD];
    const char           *err;
    pj_keyset_t          *set;
    ngx_http_pgw_disk_t  *disk = &ngx_http_pgw_disk;

    err = ngx_http_pgw_keys_read(&issuer->cache_file, disk,
                                 sizeof(ngx_http_pgw_disk_t), &len);
    if (err) {
        return err;
    }

    if (len <= NGX_HTTP_PGW_DISK_HEAD) {
        return "it is truncated";
    }

    document->data = disk->document;
    document->len = len - NGX_HTTP_PGW_DISK_HEAD;
    *fetched = ngx_atotm(disk->fetched, sizeof(disk->fetched));

    if (*fetched == (time_t) NGX_ERROR
        || ngx_http_pgw_disk_head(issuer, document, *fetched, head) != NGX_OK)
    {
        return "it is damaged";
    }

    if (ngx_memcmp(disk->source, issuer->from.source, NGX_HTTP_PGW_DIGEST) != 0)
    {
        return "it was written for another issuer";
    }

    if (ngx_memcmp(disk, head, sizeof(head)) != 0) {
        return "it is damaged";
    }

    if (*fetched > ngx_time() + NGX_HTTP_PGW_DISK_SKEW) {
        return "it is from the future";
    }

    if (ngx_time() - *fetched
        >= (time_t) (issuer->ages[NGX_HTTP_PGW_AGE_HARD] / 1000))
    {
        return "it is past the hard age";
    }

    err = ngx_http_pgw_keys_parse(issuer, document, &set);
    ngx_http_pgw_keys_free(set);

    return err;
}


void
ngx_http_pgw_disk_load(ngx_http_pgw_issuer_t *issuer)
{
    time_t            age, fetched;
    ngx_str_t         document;
    const char       *err;
    const ngx_str_t  *name = &issuer->cache_file;

    if (access((char *) name->data, F_OK) == -1 && ngx_errno == NGX_ENOENT) {
        return;
    }

    err = ngx_http_pgw_disk_read(issuer, &document, &fetched);

    if (err) {
        ngx_log_error(NGX_LOG_WARN, issuer->from.log, 0,
                      "platform gateway: key cache file \"%V\" ignored: %s",
                      name, err);
        return;
    }

    age = ngx_max(ngx_time() - fetched, 0);

    (void) ngx_http_pgw_keys_put(issuer->zone, &document,
                                 ngx_current_msec - (ngx_msec_t) age * 1000,
                                 ngx_time() - age);

    if (!ngx_test_config) {
        ngx_log_error(NGX_LOG_NOTICE, issuer->from.log, 0,
                      "platform gateway: key set fetched %T s ago loaded "
                      "from \"%V\"", age, name);
    }
}


void
ngx_http_pgw_disk_write(ngx_http_pgw_issuer_t *issuer)
{
    size_t                len;
    u_char                tmp[NGX_MAX_PATH];
    ngx_fd_t              fd;
    ngx_err_t             err;
    const char           *failed;
    const ngx_str_t      *name;
    ngx_http_pgw_copy_t  *copy = ngx_http_pgw_keys_copy(issuer);

    len = NGX_HTTP_PGW_DISK_HEAD + copy->document.len;

    if (copy->document.len == 0
        || ngx_http_pgw_disk_head(issuer, &copy->document, copy->fetched_at,
                                  &copy->disk)
           != NGX_OK)
    {
        return;
    }

    name = &issuer->cache_file;
    failed = "opening a temporary file";
    *ngx_snprintf(tmp, sizeof(tmp) - 1, "%V.%P.tmp", name, ngx_pid) = '\0';

    /* a file that is there was left by a dead process with the same pid */

    (void) ngx_delete_file(tmp);

    fd = ngx_open_tempfile(tmp, 1, 0);

    if (fd != NGX_INVALID_FILE) {
        failed = "writing a temporary file";
        ngx_set_errno(NGX_ENOSPC);      /* the cause of a short write */

        if (ngx_write_fd(fd, &copy->disk, len) == (ssize_t) len) {
            failed = ngx_rename_file(tmp, name->data) == NGX_FILE_ERROR
                     ? ngx_rename_file_n : NULL;
        }
    }

    err = failed ? ngx_errno : 0;

    if (fd != NGX_INVALID_FILE) {
        (void) ngx_close_file(fd);
    }

    (void) (failed && ngx_delete_file(tmp));

    /* an error is logged once, not at every fetch */

    if (failed && err != issuer->disk_err) {
        ngx_log_error(NGX_LOG_ERR, issuer->from.log, err,
                      "platform gateway: key cache file \"%V\" not written: "
                      "%s failed%s", name, failed,
                      err == NGX_EACCES || err == NGX_ENOENT
                      ? "; its directory has to be the user's of workers" : "");
    }

    issuer->disk_err = err;
}
