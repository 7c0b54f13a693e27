/* What may become a credential, by the operator's settings. */

#include "auth/password.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_shorter(pj_str_t credential, int characters)
{
    const unsigned char *p = credential.data, *end = p + credential.len;
    bool valid;

    while (p < end && characters > 0) {
        p += pj_utf8_next(p, end, &valid);
        characters--;
    }
    return characters > 0;
}

/* Whether a line of the file is the same, but for A-Z. */
static bool has_line(FILE *file, pj_str_t credential)
{
    char *line = NULL;
    size_t cap = 0;
    bool found = false;

    while (!found && getline(&line, &cap, file) > 0) {
        size_t len = strcspn(line, "\r\n");

        found = len == credential.len &&
                strncasecmp(line, (const char *) credential.data, len) == 0;
    }
    free(line);
    return found;
}

enum password_new password_judge(const struct config *cfg, pj_str_t credential)
{
    enum password_new verdict = PASSWORD_FITS;
    FILE *file;
    int error;

    if (is_shorter(credential, cfg->credential_min)) {
        return PASSWORD_SHORT;
    }
    if (cfg->credential_forbidden == NULL) {
        return PASSWORD_FITS;
    }
    file = fopen(cfg->credential_forbidden, "re");
    if (file == NULL) {
        return PASSWORD_UNREAD;
    }
    if (has_line(file, credential)) {
        verdict = PASSWORD_FORBIDDEN;
    } else if (ferror(file)) {
        verdict = PASSWORD_UNREAD;
    }
    error = errno;
    (void) fclose(file);
    errno = error;
    return verdict;
}
