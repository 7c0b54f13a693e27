/* A pool of nginx's for tests: its memory is kept to the end of the program. */

#ifndef POOL_H_INCLUDED
#define POOL_H_INCLUDED

#include <stdlib.h>

void *ngx_pcalloc(ngx_pool_t *pool, size_t size)
{
    /* The chain lets a detector of leaks see what is kept. */
    static struct kept { struct kept *before; } *last;
    static const size_t head = 16;
    struct kept *kept = calloc(1, head + size);

    if (kept == NULL)
        abort();
    kept->before = last;
    last = kept;
    return (char *) kept + head;
}

void *ngx_palloc(ngx_pool_t *pool, size_t size)
{
    return ngx_pcalloc(pool, size);
}

void *ngx_pnalloc(ngx_pool_t *pool, size_t size)
{
    return ngx_pcalloc(pool, size);
}

#endif
