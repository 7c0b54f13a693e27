/* Loads a key cache file.  It is loaded only if this issuer would write the
 * same file, not too long ago, and a written file is loaded again.  An input
 * that begins with "{" is a key set to write; behind a NUL, pairs of a place
 * and a byte change that file.  Any other is the file. */

#include "nginx.h"

#include "issuer/issuer.h"

#include <sys/stat.h>

#define HARD_S 1000

static char path[512];
static ngx_http_pgw_zone_t zone;
static ngx_slab_pool_t shpool;
static ngx_http_pgw_issuer_t issuer;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc;
    (void) argv;
    snprintf(path, sizeof(path), "%s/keys", fuzz_dir());
    issuer.zone = &zone;
    issuer.cache_file = (ngx_str_t){strlen(path), (u_char *) path};
    issuer.ages[NGX_HTTP_PGW_AGE_HARD] = HARD_S * 1000;
    issuer.from.shpool = &shpool;
    issuer.from.log = &nginx_log;
    memset(issuer.from.source, 'a', sizeof(issuer.from.source));
    memset(zone.lease.source, 'a', sizeof(zone.lease.source));
    return 0;
}

static size_t file_read(unsigned char *mem, size_t cap)
{
    FILE *f = fopen(path, "rb");
    size_t len;

    FUZZ_ASSERT(f != NULL);
    len = fread(mem, 1, cap, f);
    fclose(f);
    return len;
}

static void file_write(pj_str_t bytes)
{
    FILE *f = fopen(path, "wb");

    FUZZ_ASSERT(f != NULL);
    FUZZ_ASSERT(bytes.len == 0 ||
                fwrite(bytes.data, 1, bytes.len, f) == bytes.len);
    fclose(f);
}

/* Returns true if the file is loaded; then its keys are written as this file.
 */
static bool load(void)
{
    static unsigned char was[1 << 18], again[1 << 18];
    size_t len = file_read(was, sizeof(was));

    zone.version = 0;
    zone.len[0] = 0;
    ngx_http_pgw_disk_load(&issuer);
    if (zone.version == 0)
        return false;
    FUZZ_ASSERT(zone.fetched_at <= nginx_now &&
                zone.fetched_at > nginx_now - HARD_S);
    ngx_http_pgw_disk_write(&issuer);
    FUZZ_ASSERT(file_read(again, sizeof(again)) == len);
    /* The time of a fetch that is in the future is now. */
    FUZZ_ASSERT(memcmp(was, again, len) == 0 || zone.fetched_at == nginx_now);
    return true;
}

static void write_and_change(pj_str_t document, pj_str_t edits)
{
    static unsigned char file[1 << 18], was[1 << 18];
    size_t size = pj_keyset_arena_bytes(document.len);
    pj_keyset_t set = {.count = 0};
    ngx_str_t text = nginx_str(document);
    bool good;
    pj_arena_t arena;

    if (document.len > PJ_KEYSET_MAX_BYTES)
        return;
    pj_arena_init(&arena, ngx_palloc(NULL, size), size);
    good = pj_keyset_parse(&set, &arena, document) == PJ_OK;
    pj_keyset_clear(&set);
    (void) ngx_http_pgw_keys_put(&zone, &text, 0, nginx_now - 10);
    ngx_http_pgw_disk_write(&issuer);
    FUZZ_ASSERT(load() == good);
    FUZZ_ASSERT(!good || (zone.len[1] == document.len &&
                          zone.fetched_at == nginx_now - 10));
    size = file_read(file, sizeof(file));
    memcpy(was, file, size);
    for (; edits.len >= 2; edits.data += 2, edits.len -= 2)
        file[edits.data[0] % size] = edits.data[1];
    file_write((pj_str_t){file, size});
    FUZZ_ASSERT(load() == (good && memcmp(file, was, size) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    pj_str_t edits = {data, len}, document;

    nginx_reset();
    zone.version = 0;
    zone.len[0] = 0;
    if (len > 0 && data[0] == '{') {
        document = fuzz_split(&edits, '\0');
        write_and_change(document, edits);
    } else {
        file_write(edits);
        FUZZ_ASSERT(!load());
    }
    (void) unlink(path);
    return 0;
}
