
/*
 * Paths that all servers interpret in the same way.
 */


#include "base/base.h"


/* Returns 1 if the segment at p is empty, "." or "..", which some servers
   remove. */

static ngx_uint_t
ngx_http_pgw_path_segment(const u_char *p, const u_char *last)
{
    const u_char  *end = p;

    while (end < last && end < p + 2 && *end == '.') {
        end++;
    }

    return end < last && *end == '/'
           ? 1 : end > p && (end == last || *end == '?');
}


ngx_uint_t
ngx_http_pgw_path_plain(const ngx_str_t *path)
{
    u_char     *p, *last = path->data + path->len;
    ngx_int_t   c;

    for (p = path->data; p < last && *p != '?'; p++) {

        if (*p == ';' || *p == '\\' || *p == '#'
            || (*p == '/' && ngx_http_pgw_path_segment(p + 1, last)))
        {
            return 0;
        }

        if (*p != '%') {
            continue;
        }

        c = last - p > 2 ? ngx_hextoi(p + 1, 2) : NGX_ERROR;
        p += 2;

        if (c < 0x20 || c == 0x7f || ngx_strchr("./\\;", c)
            || (c == '%' && last - p > 2
                && ngx_hextoi(p + 1, 2) != NGX_ERROR))
        {
            return 0;
        }
    }

    return 1;
}
