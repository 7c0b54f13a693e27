
/*
 * An open-addressing table with linear probing.
 *
 * Readers need no lock.  Entries never move.  The first word of a key is
 * written last and deleted first.  A reader compares it again after reading the
 * rest of the slot, because the slot may have got another key meanwhile.  The
 * two times of an entry only grow, each with one store of one word.
 *
 * A writer may be killed between any two stores.  Counts grow before the table
 * does and shrink after it, so at worst one slot is counted but unused.
 */


#include "revoked/revoked.h"


/* Plain C does not guarantee that a 64-bit word is stored at once. */

#ifndef ngx_http_pgw_table_store    /* tests define their own */
#define ngx_http_pgw_table_load(p, order)                                     \
    __atomic_load_n(p, __ATOMIC_##order)
#define ngx_http_pgw_table_store(p, value, order)                             \
    __atomic_store_n(p, value, __ATOMIC_##order)
#endif


void
ngx_http_pgw_table_init(ngx_http_pgw_table_t *table, void *mem, size_t size)
{
    table->slot = mem;
    table->slots = mem ? ngx_min(size / sizeof(ngx_http_pgw_table_slot_t),
                                 UINT32_MAX) : 0;
    table->max = table->slots - table->slots / 4;
}


/* Returns the first slot of a search. */

static ngx_inline uint64_t
ngx_http_pgw_table_home(const ngx_http_pgw_table_t *table,
    const ngx_http_pgw_table_key_t *key)
{
    return ((key->word[0] >> 32) * table->slots) >> 32;
}


ngx_uint_t
ngx_http_pgw_table_has(const ngx_http_pgw_table_t *table,
    const ngx_http_pgw_table_key_t *key, int64_t issued)
{
    int64_t                         before;
    uint64_t                        first, second, left;
    const ngx_http_pgw_table_slot_t  *slot, *end;

    slot = &table->slot[ngx_http_pgw_table_home(table, key)];
    end = &table->slot[table->slots];

    for (left = table->slots; left; left--) {

        first = ngx_http_pgw_table_load(&slot->key.word[0], ACQUIRE);

        if (first == NGX_HTTP_PGW_TABLE_EMPTY) {
            return 0;
        }

        if (first == key->word[0]) {
            second = ngx_http_pgw_table_load(&slot->key.word[1], RELAXED);
            before = ngx_http_pgw_table_load(&slot->before, ACQUIRE);

            if (second == key->word[1]
                && ngx_http_pgw_table_load(&slot->key.word[0], RELAXED)
                   == first)
            {
                return issued < before;
            }
        }

        if (++slot == end) {
            slot = table->slot;
        }
    }

    return 0;
}


/* Counts a new entry.  Returns NGX_DECLINED if the table is full. */

static ngx_int_t
ngx_http_pgw_table_count(ngx_http_pgw_table_t *table,
    const ngx_http_pgw_table_slot_t *to)
{
    if (to == NULL) {
        return NGX_DECLINED;
    }

    if (to->key.word[0] == NGX_HTTP_PGW_TABLE_EMPTY) {

        if (table->used >= table->max) {
            return NGX_DECLINED;
        }

        ngx_http_pgw_table_store(&table->used, table->used + 1, RELAXED);
    }

    ngx_http_pgw_table_store(&table->live, table->live + 1, RELAXED);

    return NGX_OK;
}


ngx_int_t
ngx_http_pgw_table_put(ngx_http_pgw_table_t *table,
    const ngx_http_pgw_table_key_t *key, int64_t before, int64_t dies_at)
{
    uint64_t                  i, left;
    ngx_http_pgw_table_slot_t  *slot, *to;

    to = NULL;
    i = ngx_http_pgw_table_home(table, key);

    for (left = table->slots; left; left--) {
        slot = &table->slot[i];

        if (slot->key.word[0] == key->word[0]
            && slot->key.word[1] == key->word[1])
        {
            if (slot->before < before) {
                ngx_http_pgw_table_store(&slot->before, before, RELAXED);
            }

            if (slot->dies_at < dies_at) {
                ngx_http_pgw_table_store(&slot->dies_at, dies_at, RELAXED);
            }

            return NGX_DONE;
        }

        if (slot->key.word[0] < NGX_HTTP_PGW_TABLE_KEYS && to == NULL) {
            to = slot;
        }

        if (slot->key.word[0] == NGX_HTTP_PGW_TABLE_EMPTY) {
            break;
        }

        i = (i + 1) % table->slots;
    }

    if (ngx_http_pgw_table_count(table, to) != NGX_OK) {
        return NGX_DECLINED;
    }

    /* a reader of the new time also sees that the old key was deleted */

    ngx_http_pgw_table_store(&to->key.word[1], key->word[1], RELAXED);
    ngx_http_pgw_table_store(&to->before, before, RELEASE);
    ngx_http_pgw_table_store(&to->dies_at, dies_at, RELAXED);
    ngx_http_pgw_table_store(&to->key.word[0], key->word[0], RELEASE);

    return NGX_OK;
}


/*
 * Sweeps backwards: a deleted slot directly before an empty slot becomes empty
 * too, and so does the slot before it in turn.
 */

void
ngx_http_pgw_table_sweep(ngx_http_pgw_table_t *table, int64_t now, uint64_t n)
{
    uint64_t                  i;
    ngx_http_pgw_table_slot_t  *slot, *next;

    for ( /* void */ ; n; n--) {

        i = table->swept ? table->swept - 1 : table->slots - 1;
        ngx_http_pgw_table_store(&table->swept, i, RELAXED);

        slot = &table->slot[i];
        next = &table->slot[i + 1 == table->slots ? 0 : i + 1];

        if (slot->key.word[0] >= NGX_HTTP_PGW_TABLE_KEYS
            && slot->dies_at <= now)
        {
            ngx_http_pgw_table_store(&slot->key.word[0],
                                     NGX_HTTP_PGW_TABLE_DELETED, RELAXED);
            ngx_http_pgw_table_store(&table->live, table->live - 1, RELAXED);
        }

        if (slot->key.word[0] == NGX_HTTP_PGW_TABLE_DELETED
            && next->key.word[0] == NGX_HTTP_PGW_TABLE_EMPTY)
        {
            ngx_http_pgw_table_store(&slot->key.word[0],
                                     NGX_HTTP_PGW_TABLE_EMPTY, RELAXED);
            ngx_http_pgw_table_store(&table->used, table->used - 1, RELAXED);
        }
    }
}
