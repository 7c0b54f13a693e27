/* Account names as login and the operator's commands compare them. */

#include "base/account_name.h"

#include <string.h>

static bool is_space(unsigned char c)
{
    return c != '\0' && strchr(" \t\r\n", c) != NULL;
}

/* ASCII's, or U+0080 to U+009F. */
static bool has_control(pj_str_t s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] < 0x20 || s.data[i] == 0x7f ||
            (s.data[i] == 0xc2 && i + 1 < s.len && s.data[i + 1] < 0xa0)) {
            return true;
        }
    }
    return false;
}

const char *account_name_fold(pj_str_t in, unsigned char *mem, pj_str_t *out)
{
    while (in.len > 0 && is_space(in.data[in.len - 1])) {
        in.len--;
    }
    for (; in.len > 0 && is_space(in.data[0]); in.data++) {
        in.len--;
    }
    for (size_t i = 0; i < in.len; i++) {
        unsigned char c = in.data[i];

        mem[i] = c >= 'A' && c <= 'Z' ? (unsigned char) (c | 0x20) : c;
    }
    *out = (pj_str_t){mem, in.len};
    if (in.len == 0 || in.len > ACCOUNT_NAME_MAX) {
        return "be 1 to 320 bytes";
    }
    return has_control(*out) ? "not hold control characters" : NULL;
}
