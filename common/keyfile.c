/* The names of files in a directory of keys, and the parts of such a file. */

#include "keyfile.h"

#include <string.h>

#define SINCE_MAX 12 /* digits */

static const char *const states[] = {[KEYFILE_SIGNING] = "signing",
                                     [KEYFILE_PUBLISHED] = "published",
                                     [KEYFILE_REFRESH] = "refresh"};

/* Removes the part after the last dot of rest, and the dot.  It is empty
 * without a dot. */
static pj_str_t last_cut(pj_str_t *rest)
{
    size_t end = rest->len, dot = end;
    pj_str_t part;

    while (dot > 0 && rest->data[dot - 1] != '.')
        dot--;
    part = (pj_str_t){rest->data + dot, dot > 0 ? end - dot : 0};
    rest->len = dot > 0 ? dot - 1 : 0;
    return part;
}

/* Parses from the end, because a kid may contain dots. */
bool keyfile_parse(keyfile_t *file, pj_str_t name)
{
    pj_str_t since, state;
    size_t n = 0;

    if (!pj_str_eq(last_cut(&name), PJ_STR("pem")))
        return false;
    since = last_cut(&name);
    state = last_cut(&name);
    file->kid = name;
    file->since = 0;
    if (since.len == 0 || since.len > SINCE_MAX || name.len == 0 ||
        name.data[0] == '.' || memchr(name.data, '/', name.len) != NULL)
        return false;
    for (size_t i = 0; i < since.len; i++) {
        if (since.data[i] < '0' || since.data[i] > '9')
            return false;
        file->since = 10 * file->since + (since.data[i] - '0');
    }
    while (n <= KEYFILE_REFRESH && !pj_str_eq(state, pj_str(states[n])))
        n++;
    file->state = (keyfile_state_t) n;
    return n <= KEYFILE_REFRESH;
}

keyfile_parts_t keyfile_split(pj_str_t text)
{
    static const pj_str_t begin = PJ_STR("-----BEGIN PUBLIC KEY-----");
    size_t n = 0;

    while (n + begin.len <= text.len &&
           memcmp(text.data + n, begin.data, begin.len) != 0)
        n++;
    if (n + begin.len > text.len)
        n = text.len;
    return (keyfile_parts_t){{text.data, n}, {text.data + n, text.len - n}};
}
