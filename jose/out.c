/* Bounded text output: overflow is noted once and asked for at the end. */

#include "pj_internal.h"

#include <string.h>

void pj_out_init(pj_out_t *out, char *dst, size_t cap)
{
    out->start = dst;
    out->pos = dst;
    out->end = dst == NULL ? NULL : dst + cap;
    out->full = false;
}

void pj_out_text(pj_out_t *out, pj_str_t text)
{
    if (text.len == 0)
        return;
    if (out->full || text.len > (size_t) (out->end - out->pos)) {
        out->full = true;
        return;
    }
    memcpy(out->pos, text.data, text.len);
    out->pos += text.len;
}

void pj_out_b64url(pj_out_t *out, pj_str_t bytes)
{
    size_t len;

    if (out->full)
        return;
    if (pj_b64url_encode(out->pos, (size_t) (out->end - out->pos), &len,
                         bytes) != PJ_OK) {
        out->full = true;
        return;
    }
    out->pos += len;
}

static void out_json_byte(pj_out_t *out, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char esc[6] = {'\\', 'u', '0', '0'};

    if (c == '"' || c == '\\') {
        esc[1] = c;
        pj_out_text(out, (pj_str_t){esc, 2});
    } else if (c < 0x20) {
        esc[4] = (unsigned char) hex[c >> 4];
        esc[5] = (unsigned char) hex[c & 15];
        pj_out_text(out, (pj_str_t){esc, 6});
    } else {
        pj_out_text(out, (pj_str_t){&c, 1});
    }
}

void pj_out_json_string(pj_out_t *out, pj_str_t s)
{
    pj_out_text(out, PJ_STR("\""));
    for (size_t i = 0; i < s.len; i++)
        out_json_byte(out, s.data[i]);
    pj_out_text(out, PJ_STR("\""));
}

pj_err_t pj_out_done(const pj_out_t *out, size_t *len)
{
    if (out->full)
        return PJ_ERR_NO_SPACE;
    *len = (size_t) (out->pos - out->start);
    return PJ_OK;
}
