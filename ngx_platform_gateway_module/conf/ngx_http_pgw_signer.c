
/*
 * The keys that sign assertions, and their key set.
 *
 * They are read with the configuration, before the workers give up the rights
 * of the master process.  A directory has a file for each key, named as for
 * identity-fcgi.
 */


#include "conf/conf.h"
#include "token/token.h"
#include "base/base.h"

#include <keyfile.h>
#include <openssl/crypto.h>


#define NGX_HTTP_PGW_SIGNER_KEYS  16
#define NGX_HTTP_PGW_SIGNER_TEXT  16384   /* bytes of a file */
#define NGX_HTTP_PGW_SIGNER_SET   (NGX_HTTP_PGW_SIGNER_KEYS * 2048)


/* The keys that are read.  The first one signs. */

typedef struct {
    pj_key_t                    *keys[NGX_HTTP_PGW_SIGNER_KEYS];
    size_t                       count;
    ngx_uint_t                   signs;      /* the first is a signing key */
    int64_t                      since;      /* of it */
    uid_t                        owner;      /* of a directory */
    u_char                       name[NAME_MAX + 3];  /* of the file that has a
                                                         fault, ": " */
} ngx_http_pgw_signer_set_t;


static void
ngx_http_pgw_signer_free(void *data)
{
    ngx_http_pgw_signer_t  *signer = data;

    pj_key_free(signer->key);
    signer->key = NULL;
}


/* Parses a key.  Without a kid, its thumbprint is the kid. */

static const char *
ngx_http_pgw_signer_parse(pj_str_t text, const keyfile_t *file, pj_key_t **key)
{
    char             thumbprint[PJ_THUMBPRINT_CHARS];
    pj_err_t         err;
    pj_str_t         kid = file->kid;
    keyfile_parts_t  parts = keyfile_split(text);

    if (parts.private.len == 0 && parts.public.len
        && file->state == KEYFILE_PUBLISHED)
    {
        err = pj_key_public(key, parts.public, kid);

    } else {
        err = pj_key_private(key, parts.private, kid.len ? kid : PJ_STR("-"));
    }

    if (err == PJ_OK && kid.len == 0) {
        kid = (pj_str_t) { (u_char *) thumbprint, sizeof(thumbprint) };
        err = pj_key_thumbprint(*key, thumbprint);
        pj_key_free(*key);
        *key = NULL;

        if (err == PJ_OK) {
            err = pj_key_private(key, parts.private, kid);
        }
    }

    if (err == PJ_OK && pj_alg_name(pj_key_alg(*key))[0] == 'R') {
        pj_key_free(*key);
        *key = NULL;
        err = PJ_ERR_KEY_UNUSABLE;
    }

    return err == PJ_OK ? NULL
           : err == PJ_ERR_CRYPTO ? pj_strerror(err)
           : "is not a private key of P-256 or Ed25519 in PEM (PKCS#8)";
}


/* Reads the key in an open file, which is closed. */

static const char *
ngx_http_pgw_signer_read(int fd, uid_t owner, const keyfile_t *file,
    pj_key_t **key)
{
    u_char       text[NGX_HTTP_PGW_SIGNER_TEXT];
    ssize_t      n;
    const char  *fault;
    struct stat  st;

    fault = fd < 0 || fstat(fd, &st) != 0 ? strerror(ngx_errno)
            : !S_ISREG(st.st_mode) ? "is not a regular file"
            : st.st_uid != owner ? "belongs to another user"
            : (st.st_mode & 077) ? "may be read by others: its mode must be "
                                   "0600" : NULL;

    n = fault ? 0 : read(fd, text, sizeof(text));

    if (fault == NULL) {
        fault = n < 0 ? strerror(ngx_errno)
                : n == sizeof(text) ? "is too large"
                : ngx_http_pgw_signer_parse((pj_str_t) { text, (size_t) n },
                                            file, key);
    }

    OPENSSL_cleanse(text, sizeof(text));

    if (fd >= 0) {
        (void) close(fd);
    }

    return fault;
}


/* Adds a key.  It goes to the first place if it is a newer signing key. */

static const char *
ngx_http_pgw_signer_add(ngx_http_pgw_signer_set_t *set, const keyfile_t *file,
    pj_key_t *key)
{
    size_t  i;

    for (i = 0; i < set->count; i++) {
        if (pj_str_eq(pj_key_id(set->keys[i]), file->kid)) {
            pj_key_free(key);
            return "has the id of another key";
        }
    }

    set->keys[set->count++] = key;

    if (file->state == KEYFILE_SIGNING
        && (!set->signs || file->since > set->since))
    {
        set->keys[i] = set->keys[0];
        set->keys[0] = key;
        set->since = file->since;
        set->signs = 1;
    }

    return NULL;
}


static const char *
ngx_http_pgw_signer_entry(ngx_http_pgw_signer_set_t *set, int fd,
    const char *name)
{
    pj_key_t    *key = NULL;
    keyfile_t    file;
    const char  *fault;

    if (!keyfile_parse(&file, pj_str(name))) {
        return "is not the name of a key: KID.STATE.SINCE.pem, the state "
               "\"signing\" or \"published\"";
    }

    if (file.state == KEYFILE_REFRESH) {
        return NULL;
    }

    if (set->count == NGX_HTTP_PGW_SIGNER_KEYS) {
        return "is one key too many: 16 are accepted";
    }

    fault = ngx_http_pgw_signer_read(openat(fd, name, O_RDONLY|O_NOFOLLOW
                                                      |O_NONBLOCK|O_CLOEXEC),
                                     set->owner, &file, &key);

    return fault ? fault : ngx_http_pgw_signer_add(set, &file, key);
}


/* Reads an open directory, which is closed. */

static const char *
ngx_http_pgw_signer_directory(ngx_http_pgw_signer_set_t *set, int fd)
{
    DIR            *dir = fdopendir(fd);
    const char     *fault;
    struct dirent  *entry;

    if (dir == NULL) {
        (void) close(fd);
        return strerror(ngx_errno);
    }

    fault = NULL;

    while (fault == NULL && (entry = readdir(dir)) != NULL) {

        if (entry->d_name[0] == '.') {
            continue;
        }

        fault = ngx_http_pgw_signer_entry(set, fd, entry->d_name);

        if (fault) {
            *ngx_snprintf(set->name, sizeof(set->name) - 1, "%s: ",
                          entry->d_name) = '\0';
        }
    }

    (void) closedir(dir);

    return fault ? fault
           : set->signs ? NULL : "has no key that signs: KID.signing.SINCE.pem";
}


/* Reads the file or directory. */

static const char *
ngx_http_pgw_signer_load(ngx_http_pgw_signer_set_t *set, const char *path)
{
    int          fd = open(path, O_RDONLY|O_NONBLOCK|O_CLOEXEC);
    uid_t        user = geteuid();
    const char  *fault;
    struct stat  st;

    static const keyfile_t  unnamed = { .state = KEYFILE_SIGNING };

    if (fd < 0 || fstat(fd, &st) != 0) {
        fault = strerror(ngx_errno);

        if (fd >= 0) {
            (void) close(fd);
        }

        return fault;
    }

    /* root may read the keys of another user */

    set->owner = user ? user : st.st_uid;

    if (!S_ISDIR(st.st_mode)) {
        fault = ngx_http_pgw_signer_read(fd, set->owner, &unnamed,
                                         &set->keys[0]);
        set->count = (fault == NULL);
        return fault;
    }

    if (st.st_uid != set->owner || (st.st_mode & 022)) {
        (void) close(fd);
        return "may be written by others: its mode must be 0700";
    }

    return ngx_http_pgw_signer_directory(set, fd);
}


/* Writes the key set, and keeps the first key. */

static const char *
ngx_http_pgw_signer_keep(ngx_conf_t *cf, ngx_http_pgw_signer_t *signer,
    ngx_http_pgw_signer_set_t *set)
{
    pj_err_t             err;
    ngx_pool_cleanup_t  *cln = ngx_pool_cleanup_add(cf->pool, 0);

    signer->document.data = ngx_pnalloc(cf->pool, NGX_HTTP_PGW_SIGNER_SET);

    if (cln == NULL || signer->document.data == NULL) {
        return "out of memory";
    }

    err = pj_jwks_emit((const pj_key_t *const *) set->keys, set->count,
                       (char *) signer->document.data, NGX_HTTP_PGW_SIGNER_SET,
                       &signer->document.len);
    if (err) {
        return pj_strerror(err);
    }

    cln->handler = ngx_http_pgw_signer_free;
    cln->data = signer;

    signer->key = set->keys[0];
    set->keys[0] = NULL;

    return NULL;
}


char *
ngx_http_pgw_signer_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_main_conf_t  *mcf = conf;

    ngx_str_t                  path, *value = cf->args->elts;
    const char                *fault;
    ngx_http_pgw_signer_t     *signer = mcf->signer;
    ngx_http_pgw_signer_set_t  set = { .count = 0 };

    if (signer->issuer.len) {
        return "is duplicate";
    }

    ngx_str_set(&signer->issuer, "platform-gateway");

    if (cf->args->nelts == 3
        && (!ngx_http_pgw_names_parameter(&value[2], "issuer", &signer->issuer)
            || signer->issuer.len == 0
            || !pj_json_plain(ngx_http_pgw_span(&signer->issuer))))
    {
        return "accepts \"issuer=NAME\", printable ASCII without quotes and "
               "backslashes, after the path";
    }

    path = value[1];

    if (path.len == 0) {
        return "needs the name of a file or a directory";
    }

    if (ngx_conf_full_name(cf->cycle, &path, 1) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    fault = ngx_http_pgw_signer_load(&set, (const char *) path.data);

    if (fault == NULL) {
        fault = ngx_http_pgw_signer_keep(cf, signer, &set);
    }

    if (fault) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"%V\" \"%V\": %s%s",
                           &value[0], &path, set.name, fault);
    }

    while (set.count) {
        pj_key_free(set.keys[--set.count]);
    }

    return fault ? NGX_CONF_ERROR : NGX_CONF_OK;
}


static ngx_int_t
ngx_http_pgw_signer_handler(ngx_http_request_t *r)
{
    const ngx_str_t      *document = &ngx_http_pgw_main(r)->signer->document;
    ngx_http_pgw_text_t   text = {
        .request = r, .start = document->data,
        .last = document->data + document->len
    };

    static const ngx_str_t  cached = ngx_string("public, max-age=300");

    return document->len == 0 ? NGX_HTTP_NOT_FOUND
           : (r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))
           ? ngx_http_pgw_text_send_cached(&text, "application/jwk-set+json",
                                           &cached)
           : NGX_HTTP_NOT_ALLOWED;
}


ngx_http_pgw_content_t  ngx_http_pgw_signer_content =
    { .handler = ngx_http_pgw_signer_handler, .methods = NGX_HTTP_GET };
