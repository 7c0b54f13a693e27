/* Prints errors of commands, as text or JSON. */

#include "cmd/cmd_problem.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

void cmd_problem_print(const struct cmd *c, const char *line)
{
    char mem[4096], detail[sizeof(c->line) + 32];
    struct jsonw json;
    struct buf out;

    if (!c->json) {
        fprintf(stderr, "identity-fcgi: %s%s%s%s\n",
                line != NULL ? "line " : "", line != NULL ? line : "",
                line != NULL ? ": " : "", c->line);
        return;
    }
    snprintf(detail, sizeof(detail), "%s.", c->line);
    detail[0] = (char) toupper((unsigned char) detail[0]);
    buf_init(&out, mem, sizeof(mem) - 1);
    jsonw_init(&json, &out);
    jsonw_object(&json, NULL);
    jsonw_cstr(&json, "code", c->code);
    jsonw_cstr(&json, "detail", detail);
    if (line != NULL) {
        jsonw_json(&json, "line", line, strlen(line));
    }
    if (c->faults.count > 0) {
        fault_write(&json, &c->faults);
    }
    jsonw_object_end(&json);
    fprintf(stderr, "%.*s\n", (int) out.len, mem);
}
