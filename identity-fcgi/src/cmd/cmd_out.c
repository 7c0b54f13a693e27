/* What a command prints: aligned lines for people, or JSON. */

#include "cmd/cmd.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TEXT_BYTES (512 * 1024)
#define HEAD_BYTES 512
#define LABEL_WIDTH 14
#define TIME_WIDTH 20

bool out_open(struct out *o, bool json, bool list)
{
    memset(o, 0, sizeof(*o));
    o->mem = malloc(TEXT_BYTES + HEAD_BYTES);
    if (o->mem == NULL) {
        return false;
    }
    o->json = json;
    o->list = list;
    buf_init(&o->text, o->mem, TEXT_BYTES);
    buf_init(&o->head, o->mem + TEXT_BYTES, HEAD_BYTES);
    jsonw_init(&o->w, &o->text);
    if (json && list) {
        jsonw_array(&o->w, NULL);
    } else if (json) {
        jsonw_object(&o->w, NULL);
    }
    return true;
}

/* Hands what is written over to standard output. */
static void flush(struct out *o)
{
    if (o->text.overflow ||
        fwrite(o->text.data, 1, o->text.len, stdout) != o->text.len) {
        o->failed = true;
    }
    buf_reset(&o->text);
}

bool out_close(struct out *o)
{
    if (o->json && o->list) {
        jsonw_array_end(&o->w);
    } else if (o->json) {
        jsonw_object_end(&o->w);
    }
    if (o->json) {
        buf_addc(&o->text, '\n');
    }
    flush(o);
    if (fflush(stdout) != 0) {
        o->failed = true;
    }
    /* A token may have been among it. */
    OPENSSL_cleanse(o->mem, TEXT_BYTES + HEAD_BYTES);
    free(o->mem);
    return !o->failed;
}

void out_row(struct out *o)
{
    if (o->json) {
        jsonw_object(&o->w, NULL);
    }
}

static void end_line(struct buf *b)
{
    while (b->len > 0 && b->data[b->len - 1] == ' ') {
        b->len--;
    }
    buf_addc(b, '\n');
}

void out_row_end(struct out *o)
{
    if (o->json) {
        jsonw_object_end(&o->w);
    } else {
        end_line(&o->text);
        if (!o->begun) {
            end_line(&o->head);
            (void) fwrite(o->head.data, 1, o->head.len, stdout);
            o->begun = true;
        }
    }
    flush(o);
}

/* Whatever a name holds, it does not steer a terminal. */
static void add_plain(struct buf *b, const char *s)
{
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char) *s;
        bool c1 = c == 0xc2 && (unsigned char) s[1] >= 0x80 &&
                  (unsigned char) s[1] < 0xa0;

        buf_addc(b, c < 0x20 || c == 0x7f || c1 ? '?' : *s);
        s += c1;
    }
}

/* Characters of UTF-8 that buf got since from. */
static int columns(const struct buf *b, size_t from)
{
    int n = 0;

    for (size_t i = from; i < b->len; i++) {
        n += ((unsigned char) b->data[i] & 0xc0) != 0x80;
    }
    return n;
}

static void pad(struct buf *b, size_t from, int width)
{
    for (int n = columns(b, from); n < width; n++) {
        buf_addc(b, ' ');
    }
}

static void for_people(struct out *o, const char *label, int width,
                       const char *value)
{
    size_t from = o->text.len;

    if (label == NULL) {
        return;
    }
    if (o->list) {
        if (width > 0 && (int) strlen(label) > width) {
            width = (int) strlen(label);
        }
        if (!o->begun) {
            size_t at = o->head.len;

            buf_addz(&o->head, label);
            pad(&o->head, at, width);
            buf_addz(&o->head, "  ");
        }
        add_plain(&o->text, value);
        pad(&o->text, from, width);
        buf_addz(&o->text, "  ");
        return;
    }
    add_plain(&o->text, label);
    pad(&o->text, from, LABEL_WIDTH);
    buf_addc(&o->text, ' ');
    add_plain(&o->text, value);
    buf_addc(&o->text, '\n');
}

static void json_value(struct jsonw *w, const struct out_column *column,
                       const char *value)
{
    if (column->name == NULL) {
        return;
    }
    if (column->type == OUT_BOOL) {
        jsonw_bool(w, column->name, value[0] == 't');
    } else if (column->type == OUT_LIST) {
        jsonw_array(w, column->name);
        while (*value != '\0') {
            size_t len = strcspn(value, ",");

            jsonw_string(w, NULL, value, len);
            value += len + (value[len] == ',');
        }
        jsonw_array_end(w);
    } else if (value[0] == '\0') {
        jsonw_null(w, column->name);
    } else if (column->type == OUT_NUMBER) {
        jsonw_json(w, column->name, value, strlen(value));
    } else {
        jsonw_cstr(w, column->name, value);
    }
}

/* "" where there is none, or no year of four digits. */
static void write_time(const char *epoch_s, char out[TIME_WIDTH + 1])
{
    time_t t = (time_t) strtoll(epoch_s, NULL, 10);
    struct tm tm;

    if (t == 0 || gmtime_r(&t, &tm) == NULL ||
        strftime(out, TIME_WIDTH + 1, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0) {
        out[0] = '\0';
    }
}

void out_value(struct out *o, const struct out_column *column,
               const char *value)
{
    char time[TIME_WIDTH + 1];
    int width = column->width;

    if (column->type == OUT_TIME) {
        write_time(value, time);
        value = time;
        width = TIME_WIDTH;
    }
    if (o->json) {
        json_value(&o->w, column, value);
    } else if (column->type == OUT_BOOL) {
        for_people(o, column->label, 3, value[0] == 't' ? "yes" : "no");
    } else {
        for_people(o, column->label, width, value[0] != '\0' ? value : "-");
    }
}

void out_text(struct out *o, const char *name, const char *label,
              const char *value)
{
    const struct out_column column = {name, label, OUT_TEXT, 0};

    out_value(o, &column, value);
}

void out_json(struct out *o, const char *name, const char *json, size_t len)
{
    if (o->json) {
        jsonw_json(&o->w, name, json, len);
    }
}

void out_line(struct out *o, const char *line)
{
    if (!o->json) {
        add_plain(&o->text, line);
        buf_addc(&o->text, '\n');
    }
}
