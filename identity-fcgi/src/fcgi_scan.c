/* Looks at FastCGI records that wait in a socket, without taking them. */

#include "fcgi_scan.h"

#include <stdint.h>

#define HEADER_LEN 8
#define BEGIN_LEN 8
#define VERSION 1
#define TYPE_BEGIN_REQUEST 1
#define TYPE_PARAMS 4
#define TYPE_STDIN 5
#define ROLE_RESPONDER 1

struct record {
    unsigned type;
    unsigned id;
    size_t content_len;
    size_t total_len; /* with header and padding */
};

/* The name-value pairs of a PARAMS stream, met in pieces. */
struct pairs {
    unsigned char length[4]; /* the length field being read */
    unsigned have;           /* bytes of it */
    unsigned lengths;        /* 0: name's is next, 1: value's is next */
    size_t skip;             /* bytes of names and values still to come */
};

static bool read_header(const unsigned char *p, size_t n, struct record *rec)
{
    if (n < HEADER_LEN) {
        return false;
    }
    rec->type = p[1];
    rec->id = (unsigned) p[2] << 8 | p[3];
    rec->content_len = (size_t) p[4] << 8 | p[5];
    rec->total_len = HEADER_LEN + rec->content_len + p[6];
    return true;
}

/* Feeds content to pairs; false when a length is out of bounds. */
static bool feed(struct pairs *pairs, const unsigned char *p, size_t n)
{
    while (n > 0) {
        size_t value;

        if (pairs->lengths == 2) {
            size_t step = pairs->skip < n ? pairs->skip : n;

            p += step;
            n -= step;
            pairs->skip -= step;
            if (pairs->skip == 0) {
                pairs->lengths = 0;
            }
            continue;
        }
        pairs->length[pairs->have++] = *p++;
        n--;
        if ((pairs->length[0] & 0x80) != 0 && pairs->have < 4) {
            continue;
        }
        value = pairs->length[0];
        if (pairs->have == 4) {
            value = (size_t) (pairs->length[0] & 0x7f) << 24 |
                    (size_t) pairs->length[1] << 16 |
                    (size_t) pairs->length[2] << 8 | pairs->length[3];
        }
        pairs->have = 0;
        if (value > FCGI_SCAN_MAX) {
            return false;
        }
        pairs->skip += value;
        pairs->lengths++;
        if (pairs->lengths == 2 && pairs->skip == 0) {
            pairs->lengths = 0;
        }
    }
    return true;
}

static bool begins_well(const unsigned char *p, const struct record *rec)
{
    const unsigned char *body = p + HEADER_LEN;

    return rec->type == TYPE_BEGIN_REQUEST && rec->id != 0 &&
           rec->content_len == BEGIN_LEN && body[0] == 0 &&
           body[1] == ROLE_RESPONDER;
}

/* Walks the records after BEGIN_REQUEST. */
static enum fcgi_scan scan_streams(const unsigned char *p, size_t n,
                                   unsigned id, bool full)
{
    struct pairs pairs = {{0}, 0, 0, 0};
    struct record rec;
    bool params_done = false;

    while (read_header(p, n, &rec)) {
        size_t have = n - HEADER_LEN;

        if (p[0] != VERSION || rec.id != id ||
            rec.type != (params_done ? TYPE_STDIN : TYPE_PARAMS)) {
            return FCGI_SCAN_BAD;
        }
        if (!params_done &&
            !feed(&pairs, p + HEADER_LEN,
                  have < rec.content_len ? have : rec.content_len)) {
            return FCGI_SCAN_BAD;
        }
        if (n < rec.total_len) {
            break;
        }
        if (rec.content_len == 0) {
            if (params_done) {
                return FCGI_SCAN_READY;
            }
            if (pairs.have != 0 || pairs.lengths != 0) {
                return FCGI_SCAN_BAD;
            }
            params_done = true;
        }
        p += rec.total_len;
        n -= rec.total_len;
    }
    if (!full) {
        return FCGI_SCAN_MORE;
    }
    return params_done ? FCGI_SCAN_READY : FCGI_SCAN_BAD;
}

enum fcgi_scan fcgi_scan(const unsigned char *p, size_t n, bool full)
{
    struct record rec;

    if (n > 0 && p[0] != VERSION) {
        return FCGI_SCAN_BAD;
    }
    if (!read_header(p, n, &rec)) {
        return FCGI_SCAN_MORE;
    }
    if (rec.type != TYPE_BEGIN_REQUEST || rec.content_len != BEGIN_LEN) {
        return FCGI_SCAN_BAD;
    }
    if (n < rec.total_len) {
        return FCGI_SCAN_MORE;
    }
    if (!begins_well(p, &rec)) {
        return FCGI_SCAN_BAD;
    }
    return scan_streams(p + rec.total_len, n - rec.total_len, rec.id, full);
}
