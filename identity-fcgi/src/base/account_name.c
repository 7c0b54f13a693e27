/* Account names as login and the operator's commands compare them. */

#include "base/account_name.h"

#include <string.h>

static bool is_space(unsigned char c)
{
    return c != '\0' && strchr(" \t\r\n", c) != NULL;
}

pj_str_t account_name_fold(pj_str_t in, unsigned char *out)
{
    while (in.len > 0 && is_space(in.data[in.len - 1])) {
        in.len--;
    }
    for (; in.len > 0 && is_space(in.data[0]); in.data++) {
        in.len--;
    }
    for (size_t i = 0; i < in.len; i++) {
        unsigned char c = in.data[i];

        out[i] = c >= 'A' && c <= 'Z' ? (unsigned char) (c | 0x20) : c;
    }
    return (pj_str_t){out, in.len};
}

bool account_name_has_control(pj_str_t s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] < 0x20 || s.data[i] == 0x7f ||
            (s.data[i] == 0xc2 && i + 1 < s.len && s.data[i + 1] < 0xa0)) {
            return true;
        }
    }
    return false;
}
