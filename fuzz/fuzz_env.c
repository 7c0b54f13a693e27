/* Reads any bytes as an environment file.  Its values, written with quotes, are
 * read as the same.  A name has a name's letters, no value has a line end, and
 * the last value of a name counts. */

#include "fuzz.h"

#include "base/parse.h"

#include <ctype.h>

static void write_quoted(pj_out_t *out, const char *var)
{
    const char *value = strchr(var, '=') + 1;

    pj_out_text(
        out, (pj_str_t){(const unsigned char *) var, (size_t) (value - var)});
    pj_out_text(out, PJ_STR("\""));
    for (; *value != '\0'; value++) {
        if (strchr("\"\\`$", *value) != NULL)
            pj_out_text(out, PJ_STR("\\"));
        pj_out_text(out, (pj_str_t){(const unsigned char *) value, 1});
    }
    pj_out_text(out, PJ_STR("\"\r\n"));
}

/* A value that begins with a quote ends with it: in each line that is read. */
static void lines_check(pj_str_t text)
{
    while (text.len > 0) {
        pj_str_t value = fuzz_split(&text, '\n');
        pj_str_t name = fuzz_split(&value, '=');

        while (name.len > 0 && strchr(" \t\r", name.data[0]) != NULL)
            name = (pj_str_t){name.data + 1, name.len - 1};
        while (value.len > 0 && strchr(" \t\r", value.data[0]) != NULL)
            value = (pj_str_t){value.data + 1, value.len - 1};
        while (value.len > 0 &&
               strchr(" \t\r", value.data[value.len - 1]) != NULL)
            value.len--;
        if (name.len > 0 && strchr("#;", name.data[0]) == NULL &&
            value.len > 0 && strchr("\"'", value.data[0]) != NULL)
            FUZZ_ASSERT(value.len > 1 &&
                        value.data[value.len - 1] == value.data[0]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    size_t cap = 3 * len + 16;
    pj_out_t out = {(char *) fuzz_alloc(cap), 0, cap, PJ_OK};
    struct parse_env file, again;
    struct error e;

    if (parse_env_read(&file, fuzz_file((pj_str_t){data, len}), &e)) {
        FUZZ_ASSERT(memchr(data, '\0', len) == NULL);
        lines_check((pj_str_t){data, len});
        for (size_t i = 0; i < file.count; i++) {
            const char *p = file.vars[i];

            FUZZ_ASSERT(isalpha(*p) || *p == '_');
            while (isalnum(*p) || *p == '_')
                p++;
            FUZZ_ASSERT(*p == '=' && strchr(p, '\n') == NULL);
            write_quoted(&out, file.vars[i]);
        }
        FUZZ_ASSERT(out.err == PJ_OK);
        FUZZ_ASSERT(parse_env_read(
            &again, fuzz_file((pj_str_t){(unsigned char *) out.dst, out.len}),
            &e));
        FUZZ_ASSERT(again.count == file.count);
        for (size_t i = 0; i < file.count; i++) {
            char name[64];

            FUZZ_ASSERT(strcmp(file.vars[i], again.vars[i]) == 0);
            snprintf(name, sizeof(name), "%.*s",
                     (int) strcspn(file.vars[i], "="), file.vars[i]);
            if (i == file.count - 1 && strlen(name) < sizeof(name) - 1)
                FUZZ_ASSERT(strcmp(parse_env_get(&file, name),
                                   strchr(file.vars[i], '=') + 1) == 0);
        }
        parse_env_free(&again);
        parse_env_free(&file);
    } else {
        FUZZ_ASSERT(file.count == 0 && file.vars == NULL &&
                    strchr(e.text, '\n') == NULL);
    }
    free(out.dst);
    return 0;
}
