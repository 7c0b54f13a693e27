
/*
 * Reads a page of the feed of revocations into the table.
 */


#include "revoked/revoked.h"
#include "base/base.h"

#include <openssl/hmac.h>


/*
 * An entry dies after all its tokens have expired, even with the greatest
 * leeway of a location.  An error of the issuer's clock does not matter,
 * because exp and dies_at have the same error.
 */
#define NGX_HTTP_PGW_FEED_LEEWAY    NGX_HTTP_PGW_LEEWAY_MAX

/* The end of the year 9999 in ms: sums and differences of times fit. */
#define NGX_HTTP_PGW_FEED_TIME_MAX  253402300800000


ngx_int_t
ngx_http_pgw_feed_time(const pj_json_t *number, pj_round_t round, int64_t *ms)
{
    u_char     buf[64], *p;
    pj_json_t  node = { .type = PJ_JSON_NUMBER };

    if (number == NULL || number->type != PJ_JSON_NUMBER
        || number->text.len > sizeof(buf) - 2)
    {
        return NGX_ERROR;
    }

    /* append an exponent to read milliseconds, so refuse another one */

    p = ngx_cpymem(buf, number->text.data, number->text.len);

    if (ngx_strlchr(buf, p, 'e') || ngx_strlchr(buf, p, 'E')) {
        return NGX_ERROR;
    }

    node.text.data = buf;
    node.text.len = number->text.len + 2;
    ngx_memcpy(p, "e3", 2);

    return pj_json_seconds(&node, round, ms) == PJ_OK
           && *ms >= 0 && *ms <= NGX_HTTP_PGW_FEED_TIME_MAX
           ? NGX_OK : NGX_ERROR;
}


/* With the secret, nobody can choose ids that collide in the table. */

ngx_int_t
ngx_http_pgw_feed_seed(const ngx_http_pgw_revoked_t *zone,
    ngx_http_pgw_name_t *name)
{
    return HMAC(EVP_sha256(), zone->secret, sizeof(zone->secret),
                name->iss.data, name->iss.len, name->seed, NULL)
           ? NGX_OK : NGX_ERROR;
}


ngx_int_t
ngx_http_pgw_feed_key(const ngx_http_pgw_name_t *name, u_char kind,
    const pj_json_t *id, ngx_http_pgw_table_key_t *key)
{
    u_char  *p;
    u_char   buf[sizeof(name->seed) + 1 + NGX_HTTP_PGW_ID_MAX];
    u_char   md[EVP_MAX_MD_SIZE];

    if (id == NULL || id->type != PJ_JSON_STRING
        || id->text.len == 0 || id->text.len > NGX_HTTP_PGW_ID_MAX)
    {
        return NGX_DECLINED;
    }

    p = ngx_cpymem(buf, name->seed, sizeof(name->seed));
    *p++ = kind;
    p = ngx_cpymem(p, id->text.data, id->text.len);

    if (!EVP_Digest(buf, (size_t) (p - buf), md, NULL, EVP_sha256(), NULL)) {
        return NGX_ERROR;
    }

    ngx_memcpy(key, md, sizeof(ngx_http_pgw_table_key_t));

    if (key->word[0] < NGX_HTTP_PGW_TABLE_KEYS) {
        key->word[0] += NGX_HTTP_PGW_TABLE_KEYS;
    }

    return NGX_OK;
}


static void
ngx_http_pgw_feed_fault(ngx_http_pgw_page_t *page, const char *err)
{
    page->err = page->err ? page->err : err;
}


/* Returns the page as a tree in page->mem, or NULL. */

static const pj_json_t *
ngx_http_pgw_feed_parse(ngx_http_pgw_page_t *page, const ngx_str_t *document)
{
    pj_err_t          rc;
    pj_arena_t        arena;
    const pj_json_t  *root;

    if (document->len > NGX_HTTP_PGW_FEED_MAX_BYTES) {
        ngx_http_pgw_feed_fault(page, "it is not a page in JSON");
        return NULL;
    }

    pj_arena_init(&arena, page->mem, ngx_http_pgw_feed_mem());

    rc = pj_json_parse_large(&arena,
                             (pj_str_t) { document->data, document->len },
                             NGX_HTTP_PGW_FEED_MAX_VALUES, &root);

    if (rc != PJ_OK) {
        ngx_http_pgw_feed_fault(page, rc == PJ_ERR_JSON_LIMIT
                                      ? "it has too many JSON values"
                                      : "it is not a page in JSON");
    }

    return root;
}


static void
ngx_http_pgw_feed_put(ngx_http_pgw_page_t *page, const pj_json_t *entry,
    u_char kind, const pj_json_t *id, int64_t before)
{
    int64_t                   dies, revoked;
    ngx_int_t                 rc;
    ngx_uint_t                i, added;
    ngx_http_pgw_table_key_t  key;

    if (ngx_http_pgw_feed_time(pj_json_member(entry, "dies_at"), PJ_ROUND_UP,
                               &dies)
        != NGX_OK)
    {
        ngx_http_pgw_feed_fault(page, "an entry is not complete");
        return;
    }

    dies = dies / 1000 + 1 + NGX_HTTP_PGW_FEED_LEEWAY;
    added = 0;

    for (i = 0; i < page->names; i++) {

        if (ngx_http_pgw_feed_key(&page->name[i], kind, id, &key) != NGX_OK) {
            ngx_http_pgw_feed_fault(page, "an entry is not complete");
            return;
        }

        rc = dies > ngx_time()
             ? ngx_http_pgw_table_put(&page->zone->table, &key, before, dies)
             : NGX_DONE;

        if (rc == NGX_DECLINED) {
            page->full = 1;
            ngx_http_pgw_feed_fault(page, "the zone is full");
            return;
        }

        added |= (rc == NGX_OK);
    }

    page->added += added;

    /* the delay of a new entry, by the feed's clock */

    if (added && page->follows && page->now
        && ngx_http_pgw_feed_time(pj_json_member(entry, "revoked_at"),
                                  PJ_ROUND_UP, &revoked)
           == NGX_OK)
    {
        ngx_http_pgw_counters_add(&ngx_http_pgw_counters->lag, (ngx_msec_t)
                                  ngx_max(page->now - revoked, 0));
    }
}


static void
ngx_http_pgw_feed_entry(ngx_http_pgw_page_t *page, const pj_json_t *entry)
{
    int64_t           before;
    const pj_json_t  *id, *subject;

    id = pj_json_member(entry, "id");
    subject = pj_json_member(entry, "subject");

    if (id && subject) {
        ngx_http_pgw_feed_fault(page, "an entry has both an id and a subject");

    } else if (subject == NULL) {
        ngx_http_pgw_feed_put(page, entry, 'i', id, INT64_MAX);

    } else if (ngx_http_pgw_feed_time(pj_json_member(entry, "issued_before"),
                                      PJ_ROUND_UP, &before)
               == NGX_OK)
    {
        ngx_http_pgw_feed_put(page, entry, 's', subject, before);

    } else {
        ngx_http_pgw_feed_fault(page, "an entry is not complete");
    }
}


/* Limits the entries to the issuer that the page names. */

static void
ngx_http_pgw_feed_issuer(ngx_http_pgw_page_t *page, const pj_json_t *m)
{
    ngx_uint_t  i;

    for (i = 0; m && i < page->names; i++) {
        if (m->type == PJ_JSON_STRING
            && pj_str_eq(m->text, page->name[i].iss))
        {
            page->name += i;
            page->names = 1;
            return;
        }
    }

    if (m) {
        ngx_http_pgw_feed_fault(page, "its issuer is not accepted");
    }
}


/* Reads the members of the page other than its entries. */

static void
ngx_http_pgw_feed_members(ngx_http_pgw_page_t *page, const pj_json_t *root)
{
    ngx_str_t         cursor;
    const pj_json_t  *m;

    if (ngx_http_pgw_feed_time(pj_json_member(root, "now"), PJ_ROUND_UP,
                               &page->now)
        != NGX_OK)
    {
        page->now = 0;
    }

    ngx_http_pgw_feed_issuer(page, pj_json_member(root, "issuer"));

    m = pj_json_member(root, "more");
    page->more = m && m->boolean;

    if (m == NULL || m->type != PJ_JSON_BOOL) {
        ngx_http_pgw_feed_fault(page, "it has no boolean \"more\"");
    }

    page->cursor = pj_json_string(root, "cursor");
    cursor.data = (u_char *) page->cursor.data;
    cursor.len = page->cursor.len;

    /* cursors go into a query unescaped */

    if (cursor.len > NGX_HTTP_PGW_CURSOR_MAX
        || !web_plain(ngx_http_pgw_span(&cursor), "-._:,"))
    {
        ngx_http_pgw_feed_fault(page, "it has no cursor");

    } else if (page->more
               && pj_str_eq(page->cursor,
                            (pj_str_t) { page->reading->cursor,
                                         page->reading->cursor_len }))
    {
        ngx_http_pgw_feed_fault(page, "its cursor does not advance");
    }
}


void
ngx_http_pgw_feed_read(ngx_http_pgw_page_t *page, const ngx_str_t *document)
{
    const pj_json_t  *root, *list, *entry;

    root = ngx_http_pgw_feed_parse(page, document);
    if (root == NULL) {
        return;
    }

    list = pj_json_member(root, "revocations");

    if (list == NULL || list->type != PJ_JSON_ARRAY) {
        ngx_http_pgw_feed_fault(page, "it has no list of revocations");
        return;
    }

    page->entries = list->count;

    if (page->entries > NGX_HTTP_PGW_FEED_MAX_ENTRIES) {
        ngx_http_pgw_feed_fault(page, "it has too many entries");
    }

    ngx_http_pgw_feed_members(page, root);

    if (page->err == NULL) {
        for (entry = list->child; entry; entry = entry->next) {
            ngx_http_pgw_feed_entry(page, entry);
        }
    }
}
