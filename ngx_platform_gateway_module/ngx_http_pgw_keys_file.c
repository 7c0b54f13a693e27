
/*
 * The key set from a local file instead of an issuer.
 *
 * It is read whole each time and compared by content, so that no clock of a
 * file system decides whether it has changed: 64 KiB once a soft age.
 */


#include "ngx_http_pgw_keys.h"


ngx_int_t
ngx_http_pgw_keys_file_read(const ngx_str_t *name, u_char *buf, size_t max,
    size_t *len, u_char *err)
{
    u_char          *last;
    ssize_t          n;
    ngx_fd_t         fd;
    ngx_err_t        rc;
    const char      *what;
    ngx_file_info_t  fi;

    last = err + NGX_HTTP_PGW_KEYS_ERROR - 1;
    *len = 0;

    what = NULL;

    fd = ngx_open_file(name->data, NGX_FILE_RDONLY|NGX_FILE_NONBLOCK,
                       NGX_FILE_OPEN, 0);

    if (fd == NGX_INVALID_FILE) {
        rc = ngx_errno;
        *ngx_strerror(rc, err, (size_t) (last - err)) = '\0';

        /* apart from all others, since it may well be meant */

        return (rc == NGX_ENOENT) ? NGX_DECLINED : NGX_ERROR;
    }

    if (ngx_fd_info(fd, &fi) == NGX_FILE_ERROR) {
        goto failed;
    }

    if (!ngx_is_file(&fi)) {
        what = "it is no regular file";
        goto failed;
    }

    /* one byte more than there may be tells a longer file */

    for ( ;; ) {
        n = ngx_read_fd(fd, buf + *len, max + 1 - *len);

        if (n == -1 && ngx_errno == NGX_EINTR) {
            continue;
        }

        if (n == -1) {
            goto failed;
        }

        *len += (size_t) n;

        if (n == 0 || *len > max) {
            break;
        }
    }

    if (*len > max) {
        what = "it is too large";
        goto failed;
    }

    (void) ngx_close_file(fd);

    return NGX_OK;

failed:

    if (what) {
        ngx_snprintf(err, NGX_HTTP_PGW_KEYS_ERROR, "%s%Z", what);

    } else {
        *ngx_strerror(ngx_errno, err, (size_t) (last - err)) = '\0';
    }

    (void) ngx_close_file(fd);

    return NGX_ERROR;
}


char *
ngx_http_pgw_keys_file_check(ngx_conf_t *cf, ngx_http_pgw_keys_t *keys)
{
    u_char        buf[NGX_HTTP_PGW_KEYS_ERROR];
    pj_err_t      rc;
    const char   *err;
    pj_keyset_t  *set;

    err = (const char *) buf;

    keys->document.data = ngx_pnalloc(cf->pool, PJ_KEYSET_MAX_BYTES + 1);
    if (keys->document.data == NULL) {
        return NGX_CONF_ERROR;
    }

    if (ngx_http_pgw_keys_file_read(&keys->file,
                               keys->document.data, PJ_KEYSET_MAX_BYTES,
                               &keys->document.len, buf)
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


/* Takes the place of a fetch: runs on its own, below no request's handler. */

void
ngx_http_pgw_keys_file_event(ngx_event_t *ev)
{
    u_char                 *buf;
    ngx_int_t               rc;
    ngx_str_t               document;
    ngx_http_pgw_keys_t    *keys;
    ngx_http_pgw_worker_t  *worker;

    keys = ev->data;
    worker = keys->worker;

    buf = ngx_alloc(PJ_KEYSET_MAX_BYTES + 1, keys->log);
    if (buf == NULL) {
        ngx_http_pgw_keys_fetched(keys, NULL, "out of memory");
        return;
    }

    document.data = buf;

    rc = ngx_http_pgw_keys_file_read(&keys->file, buf, PJ_KEYSET_MAX_BYTES,
                                     &document.len, worker->error);

    ngx_http_pgw_keys_fetched(keys, rc == NGX_OK ? &document : NULL,
                              rc == NGX_OK ? NULL : (char *) worker->error);
    ngx_free(buf);
}


/*
 * Whether this complaint is a new one: of a bad file one line is enough until
 * it is bad in another way.
 */

ngx_uint_t
ngx_http_pgw_keys_file_complains(ngx_http_pgw_keys_t *keys, const char *err,
    ngx_uint_t past_hard_age)
{
    ngx_uint_t  complaint;

    complaint = 1 + 2 * ngx_crc32_short((u_char *) err, ngx_strlen(err))
                + past_hard_age;

    if (keys->zone->complaint == complaint) {
        return 0;
    }

    keys->zone->complaint = complaint;

    return 1;
}
