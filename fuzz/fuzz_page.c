/* Reads any bytes (after the first) as a page of revocations.  If the page is
 * good, the table then has all its entries and nothing else.  If it is not, the
 * bytes are not JSON or break a rule of the format. */

#include "nginx.h"

#include "revoked/revoked.h"

#define SLOTS 4096

static struct {
    ngx_http_pgw_table_slot_t slots[SLOTS];
    ngx_http_pgw_revoked_t zone;
    ngx_http_pgw_page_t *page;
} whole;

static ngx_http_pgw_name_t names[] = {{.iss = {(const u_char *) "a", 1}},
                                      {.iss = {(const u_char *) "b", 1}}};

static void page_read(pj_str_t body)
{
    ngx_str_t document = nginx_str(body);

    memset(&whole, 0, sizeof(whole));
    ngx_http_pgw_table_init(&whole.zone.table, whole.slots,
                            sizeof(whole.slots));
    for (size_t i = 0; i < 2; i++)
        FUZZ_ASSERT(ngx_http_pgw_feed_seed(&whole.zone, &names[i]) == NGX_OK);
    whole.page =
        ngx_pcalloc(NULL, sizeof(*whole.page) + ngx_http_pgw_feed_mem());
    whole.page->zone = &whole.zone;
    whole.page->reading = &whole.zone.news;
    whole.page->name = names;
    whole.page->names = 2;
    ngx_http_pgw_feed_read(whole.page, &document);
}

static bool known_as(u_char kind, const pj_json_t *id, int64_t issued,
                     const ngx_http_pgw_name_t *name)
{
    ngx_http_pgw_table_key_t key;

    return ngx_http_pgw_feed_key(name, kind, id, &key) == NGX_OK &&
           ngx_http_pgw_table_has(&whole.zone.table, &key, issued);
}

static bool is_id(const pj_json_t *id)
{
    return id != NULL && id->type == PJ_JSON_STRING && id->text.len >= 1 &&
           id->text.len <= NGX_HTTP_PGW_ID_MAX;
}

/* A page with nothing more than what there has to be, whose entries are whole.
 */
static bool is_plain_page(const pj_json_t *root)
{
    const pj_json_t *list = pj_json_member(root, "revocations");
    const pj_json_t *more = pj_json_member(root, "more");
    bool plain = list != NULL && list->type == PJ_JSON_ARRAY && more != NULL &&
                 more->type == PJ_JSON_BOOL &&
                 pj_json_member(root, "issuer") == NULL &&
                 pj_str_eq(pj_json_string(root, "cursor"), PJ_STR("c"));
    int64_t dies;

    for (const pj_json_t *e = plain ? list->child : NULL; e != NULL;
         e = e->next)
        plain &= is_id(pj_json_member(e, "id")) &&
                 pj_json_member(e, "subject") == NULL &&
                 ngx_http_pgw_feed_time(pj_json_member(e, "dies_at"),
                                        PJ_ROUND_UP, &dies) == NGX_OK;
    return plain;
}

static const pj_json_t *page_parse(pj_str_t body, pj_err_t *err)
{
    size_t size =
        pj_json_large_arena_bytes(body.len, NGX_HTTP_PGW_FEED_MAX_VALUES);
    const pj_json_t *root;
    pj_arena_t arena;

    pj_arena_init(&arena, ngx_palloc(NULL, size), size);
    *err =
        pj_json_parse_large(&arena, body, NGX_HTTP_PGW_FEED_MAX_VALUES, &root);
    return root;
}

static void bad_check(pj_str_t body)
{
    pj_err_t err;
    const pj_json_t *root = page_parse(body, &err);

    FUZZ_ASSERT(err != PJ_OK || body.len > NGX_HTTP_PGW_FEED_MAX_BYTES ||
                !is_plain_page(root));
}

static void good_check(pj_str_t body)
{
    const pj_json_t *root, *list, *owner;
    size_t live = 0;
    pj_err_t err;

    root = page_parse(body, &err);
    FUZZ_ASSERT(err == PJ_OK);
    FUZZ_ASSERT(pj_json_member(root, "more")->boolean ==
                (whole.page->more != 0));
    FUZZ_ASSERT(pj_str_eq(pj_json_string(root, "cursor"), whole.page->cursor));
    list = pj_json_member(root, "revocations");
    owner = pj_json_member(root, "issuer");
    for (const pj_json_t *e = list->child; e != NULL; e = e->next) {
        const pj_json_t *id = pj_json_member(e, "id");
        const pj_json_t *subject = pj_json_member(e, "subject");
        int64_t dies, before = 1;

        FUZZ_ASSERT((id == NULL) != (subject == NULL));
        FUZZ_ASSERT(ngx_http_pgw_feed_time(pj_json_member(e, "dies_at"),
                                           PJ_ROUND_UP, &dies) == NGX_OK);
        if (subject != NULL)
            FUZZ_ASSERT(
                ngx_http_pgw_feed_time(pj_json_member(e, "issued_before"),
                                       PJ_ROUND_UP, &before) == NGX_OK);
        for (size_t i = 0; i < 2; i++) {
            bool his = owner == NULL || pj_str_eq(owner->text, names[i].iss);

            if (his && dies / 1000 > nginx_now) {
                FUZZ_ASSERT(known_as(id != NULL ? 'i' : 's',
                                     id != NULL ? id : subject, before - 1,
                                     &names[i]));
                live++;
            }
        }
    }
    FUZZ_ASSERT(whole.zone.table.live <= live + 2 * list->count);
    FUZZ_ASSERT(owner == NULL || whole.zone.table.live <= list->count);
    FUZZ_ASSERT(whole.page->entries == list->count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    pj_str_t body = {data + 1, len - 1};

    nginx_reset();
    if (len == 0)
        return 0;
    page_read(body);
    if (whole.page->err == NULL)
        good_check(body);
    else
        bad_check(body);
    return 0;
}
