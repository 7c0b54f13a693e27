
/*
 * platform_gateway_trust NAME { ... }: the configuration of an issuer.
 */


#include "conf/conf.h"
#include "token/token.h"
#include "issuer/issuer.h"
#include "base/base.h"


#define NGX_HTTP_PGW_TRUST_MAX       64   /* issuers of one nginx */
#define NGX_HTTP_PGW_TRUST_NAME_MAX  63

static ngx_conf_post_t  ngx_http_pgw_trust_leeway_post =
    { ngx_http_pgw_conf_leeway };

static ngx_conf_post_t  ngx_http_pgw_trust_cache_file_post =
    { ngx_http_pgw_issuer_conf_cache_file };

/* Without the directive "typ", a token's typ may also be JWT or absent. */
static ngx_conf_bitmask_t  ngx_http_pgw_trust_typ[] = {
    { ngx_string("at+jwt"), 1 },
    { ngx_null_string, 0 }
};


/* audience string ...|off;  With "off", issuer->audiences is NULL. */

static char *
ngx_http_pgw_trust_audience(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t              *value = cf->args->elts;
    ngx_uint_t              off = ngx_strcmp(value[1].data, "off") == 0;
    ngx_http_pgw_issuer_t  *issuer = conf;

    if (issuer->audiences == NULL
        || (off && (issuer->audiences != NGX_CONF_UNSET_PTR
                    || cf->args->nelts > 2)))
    {
        return "has values beside \"off\"";
    }

    if (off) {
        issuer->audiences = NULL;
        return NGX_CONF_OK;
    }

    return ngx_http_pgw_conf_strings(cf, cmd, conf);
}


static char *
ngx_http_pgw_trust_algorithms(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t              *value = cf->args->elts;
    ngx_uint_t              i;
    const pj_alg_t        **alg;
    ngx_http_pgw_issuer_t  *issuer = conf;

    if (issuer->algorithms) {
        return "is duplicate";
    }

    for (i = 1; i < cf->args->nelts; i++) {

        alg = ngx_http_pgw_names_push(cf, &issuer->algorithms, sizeof(*alg));
        if (alg == NULL) {
            return NGX_CONF_ERROR;
        }

        *alg = pj_alg_find((pj_str_t) { value[i].data, value[i].len });

        if (*alg == NULL) {
            return "accepts RS256, RS384, RS512, PS256, ES256, EdDSA and "
                   "Ed25519";
        }
    }

    return NGX_CONF_OK;
}


/* claim subject|session|issued|acr|auth_time NAME; */

static char *
ngx_http_pgw_trust_claim(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t              *value = cf->args->elts;
    const char            **name;
    ngx_uint_t              i;
    ngx_http_pgw_issuer_t  *issuer = conf;

    const struct {
        const char         *use;
        const char        **name;
    } uses[] = {
        { "subject", &issuer->claims.subject },
        { "session", &issuer->claims.session },
        { "issued", &issuer->issued },
        { "acr", &issuer->acr },
        { "auth_time", &issuer->auth_time }
    };

    name = NULL;

    for (i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
        if (ngx_strcmp(value[1].data, uses[i].use) == 0) {
            name = uses[i].name;
        }
    }

    if (name == NULL) {
        return "accepts subject, session, issued, acr and auth_time";
    }

    if (*name) {
        return "is duplicate";
    }

    *name = (const char *) value[2].data;

    return value[2].len == 0 ? "has an empty name"
                             : ngx_http_pgw_conf_path(cf, &value[2]);
}


/* access LEVEL CLAIM VALUE ...; */

static char *
ngx_http_pgw_trust_access(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t              *value = cf->args->elts;
    ngx_conf_bitmask_t     *level;
    ngx_http_pgw_opens_t   *opens;
    ngx_http_pgw_issuer_t  *issuer = conf;

    for (level = ngx_http_pgw_levels; level->name.len; level++) {
        if ((level->mask & NGX_HTTP_PGW_OURS)
            && ngx_strcmp(level->name.data, value[1].data) == 0)
        {
            break;
        }
    }

    if (level->name.len == 0 || cf->args->nelts < 4) {
        return "needs a level, account, branch or system, a claim, and the "
               "values of it that open the level";
    }

    opens = ngx_http_pgw_names_push(cf, &issuer->opens, sizeof(*opens));
    if (opens == NULL) {
        return NGX_CONF_ERROR;
    }

    opens->access = level->mask;

    return ngx_http_pgw_claim_rule(cf, 2, &opens->rule);
}


#define PGW_TRUST(type, set, field)                                           \
    type, set, 0, offsetof(ngx_http_pgw_issuer_t, field)

/* Directives of a block.  The type has the number of values. */

static ngx_command_t  ngx_http_pgw_trust_commands[] = {

    { ngx_string("issuer"),
      PGW_TRUST(NGX_CONF_1MORE, ngx_http_pgw_conf_strings, issuers), NULL },
    { ngx_string("audience"),
      PGW_TRUST(NGX_CONF_1MORE, ngx_http_pgw_trust_audience, audiences), NULL },
    { ngx_string("algorithms"),
      PGW_TRUST(NGX_CONF_1MORE, ngx_http_pgw_trust_algorithms, algorithms),
      NULL },
    { ngx_string("key_location"),
      PGW_TRUST(NGX_CONF_TAKE1, ngx_http_pgw_issuer_conf_location, from),
      NULL },
    { ngx_string("key_file"),
      PGW_TRUST(NGX_CONF_TAKE1, ngx_http_pgw_issuer_conf_file, file), NULL },
    { ngx_string("discovery"),
      PGW_TRUST(NGX_CONF_TAKE1, ngx_conf_set_flag_slot, discover), NULL },
    { ngx_string("key_cache_file"),
      PGW_TRUST(NGX_CONF_TAKE1, ngx_conf_set_str_slot, cache_file),
      &ngx_http_pgw_trust_cache_file_post },
    { ngx_string("key_soft_age"),
      PGW_TRUST(NGX_CONF_TAKE1, ngx_conf_set_msec_slot,
                ages[NGX_HTTP_PGW_AGE_SOFT]), NULL },
    { ngx_string("key_hard_age"),
      PGW_TRUST(NGX_CONF_TAKE1, ngx_conf_set_msec_slot,
                ages[NGX_HTTP_PGW_AGE_HARD]), NULL },
    { ngx_string("key_cooldown"),
      PGW_TRUST(NGX_CONF_TAKE1, ngx_conf_set_msec_slot,
                ages[NGX_HTTP_PGW_AGE_COOLDOWN]), NULL },
    { ngx_string("leeway"),
      PGW_TRUST(NGX_CONF_TAKE1, ngx_conf_set_sec_slot, leeway),
      &ngx_http_pgw_trust_leeway_post },
    { ngx_string("typ"),
      PGW_TRUST(NGX_CONF_TAKE1, ngx_conf_set_bitmask_slot, at_jwt),
      &ngx_http_pgw_trust_typ },
    { ngx_string("claim"),
      PGW_TRUST(NGX_CONF_TAKE2, ngx_http_pgw_trust_claim, claims), NULL },
    { ngx_string("access"),
      PGW_TRUST(NGX_CONF_1MORE, ngx_http_pgw_trust_access, opens), NULL },
    { ngx_string("revocations"),
      PGW_TRUST(NGX_CONF_1MORE, ngx_http_pgw_feed_conf_revocations,
                revocations), NULL },

      ngx_null_command
};


static ngx_command_t *
ngx_http_pgw_trust_command(const u_char *name)
{
    ngx_command_t  *cmd = ngx_http_pgw_trust_commands;

    while (cmd->name.len && ngx_strcmp(cmd->name.data, name) != 0) {
        cmd++;
    }

    return cmd;
}


/* Reads a directive of a block.  Errors have the form of nginx's own. */

static char *
ngx_http_pgw_trust_line(ngx_conf_t *cf, ngx_command_t *dummy, void *conf)
{
    char           *rv;
    ngx_str_t      *value = cf->args->elts;
    ngx_uint_t      n = cf->args->nelts - 1;
    ngx_command_t  *cmd = ngx_http_pgw_trust_command(value->data);

    /* NGX_CONF_TAKE1, 2, ... have the bit of that number of values */

    rv = cmd->name.len == 0
         ? "is not a directive of \"platform_gateway_trust\""
         : !(cmd->type & NGX_CONF_1MORE ? n >= 1
             : n < NGX_CONF_MAX_ARGS && (cmd->type & (1u << n)))
         ? "has an invalid number of values" : cmd->set(cf, cmd, conf);

    if (rv != NGX_CONF_OK && rv != NGX_CONF_ERROR) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"%V\" %s", value, rv);
    }

    return rv == NGX_CONF_OK ? NGX_CONF_OK : NGX_CONF_ERROR;
}


char *
ngx_http_pgw_trust_first(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    cmd = ngx_http_pgw_trust_command(cmd->name.data
                                     + sizeof("platform_gateway_") - 1);

    return cmd->set(cf, cmd, ngx_http_pgw_conf_main(cf)->issuers);
}


static ngx_http_pgw_issuer_t *
ngx_http_pgw_trust_find(ngx_http_pgw_main_conf_t *mcf, const ngx_str_t *name)
{
    ngx_http_pgw_issuer_t  *issuer;

    for (issuer = mcf->issuers; issuer; issuer = issuer->next) {
        if (ngx_http_pgw_names_same(ngx_http_pgw_issuer_label(issuer), name)) {
            break;
        }
    }

    return issuer;
}


/* Adds an issuer of that name, or logs an error and returns NULL. */

static ngx_http_pgw_issuer_t *
ngx_http_pgw_trust_add(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf,
    const ngx_str_t *name)
{
    ngx_uint_t              n = 0;
    const char             *err;
    ngx_http_pgw_issuer_t  *issuer, **last;

    for (last = &mcf->issuers->next; *last; last = &(*last)->next) {
        n++;
    }

    err = ngx_http_pgw_trust_find(mcf, name)
          ? "\"%V\" is already the name of an issuer"
          : name->len == 0 || name->len > NGX_HTTP_PGW_TRUST_NAME_MAX
            || !web_plain(ngx_http_pgw_span(name), "-_")
          ? "\"%V\" is not a name of 1 to 63 letters, digits, \"-\" and \"_\""
          : n >= NGX_HTTP_PGW_TRUST_MAX
          ? "\"%V\" is one issuer too many: there may be 64" : NULL;

    if (err) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, err, name);
        return NULL;
    }

    issuer = ngx_http_pgw_issuer_conf_new(cf);

    if (issuer) {
        issuer->name = *name;
        issuer->audiences = NGX_CONF_UNSET_PTR;
        *last = issuer;
    }

    return issuer;
}


char *
ngx_http_pgw_trust_block(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char                   *rv;
    ngx_str_t              *value = cf->args->elts;
    ngx_conf_t              save = *cf;
    ngx_http_pgw_issuer_t  *issuer;

    issuer = ngx_http_pgw_trust_add(cf, conf, &value[1]);
    if (issuer == NULL) {
        return NGX_CONF_ERROR;
    }

    cf->handler = ngx_http_pgw_trust_line;
    cf->handler_conf = (char *) issuer;

    rv = ngx_conf_parse(cf, NULL);

    *cf = save;

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (issuer->audiences == NGX_CONF_UNSET_PTR) {
        issuer->audiences = NULL;

        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"platform_gateway_trust %V\" has no "
                           "\"audience\": tokens that the issuer made for "
                           "other services are accepted: add it, or "
                           "\"audience off;\" if its tokens have none,",
                           &issuer->name);
    }

    return issuer->issuers == NULL
           ? "needs \"issuer\", the \"iss\" of its tokens"
           : !ngx_http_pgw_issuer_usable(issuer)
           ? "needs \"key_location\" or \"key_file\", for keys to check tokens "
             "with"
           : issuer->discover == 1
           ? ngx_http_pgw_keys_fetch_discovery(cf, issuer) : NGX_CONF_OK;
}


char *
ngx_http_pgw_trust_names(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t                *value = cf->args->elts;
    ngx_uint_t                i;
    ngx_http_pgw_loc_conf_t  *lcf = conf;
    ngx_http_pgw_trusted_t   *trusted;

    if (lcf->trusted != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    for (i = 1; i < cf->args->nelts; i++) {

        trusted = ngx_http_pgw_names_push(cf, &lcf->trusted, sizeof(*trusted));
        if (trusted == NULL) {
            return NGX_CONF_ERROR;
        }

        trusted->name = value[i];
    }

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_trust_merge(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf)
{
    ngx_uint_t               i;
    ngx_http_pgw_trusted_t  *trusted;

    for (i = 0; conf->trusted && i < conf->trusted->nelts; i++) {
        trusted = (ngx_http_pgw_trusted_t *) conf->trusted->elts + i;
        trusted->issuer = ngx_http_pgw_trust_find(ngx_http_pgw_conf_main(cf),
                                                  &trusted->name);
        if (trusted->issuer == NULL) {
            return ngx_http_pgw_conf_fail(cf, NULL,
                       "names \"%V\" in \"platform_gateway_trusted\": there "
                       "is no \"platform_gateway_trust %V { ... }\"",
                       &trusted->name, &trusted->name);
        }
    }

    return NGX_CONF_OK;
}
