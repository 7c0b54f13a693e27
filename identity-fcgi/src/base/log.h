/* JSON log lines on stderr, one event a line. */

#pragma once

#include "base/config.h"

/* A field of a log line; never a token, credential, cookie or key. */
struct log_field {
    const char *name;
    const char *value; /* of a text; NULL leaves it out */
    size_t len;        /* bytes of value */
    bool is_number;
    int64_t number;
};

/* A text that ends in a NUL, or NULL. */
struct log_field log_text(const char *name, const void *text);
#define LOG_NUMBER(n, v)                                                       \
    ((struct log_field){.name = (n), .is_number = true, .number = (v)})

/* Sets what every line carries; call once before threads start.  The strings
 * are kept, not copied. */
void log_setup(const char *app_name, const char *app_env, enum log_level least);

/* Lines of this thread carry these two ids from now on; not copied either. */
void log_bind(const void *request_id, const void *correlation_id);
#define log_unbind() log_bind(NULL, NULL)

/* Writes {"time":...,"level":...,"service":...,"event":event,"message":...}
 * and the fields as one line.  event is a stable dotted name, message a
 * sentence or NULL.  Numbers come first: too long a line loses its end. */
void log_event(enum log_level level, const char *event, const char *message,
               const struct log_field *fields, size_t count);

/* Where audit lines go, as PLATFORM_AUDIT_LOG says it; false with errno.  At
 * most once, before threads start; without it they go with the others. */
PJ_MUST_CHECK bool log_audit_to(const char *where);

/* Whether the last line that this thread wrote was lost. */
bool log_lost(void);

#define LOG_FIELDS(...)                                                        \
    (const struct log_field[]){__VA_ARGS__},                                   \
        sizeof((const struct log_field[]){__VA_ARGS__}) /                      \
            sizeof(struct log_field)

/* A line without fields, message formatted. */
void log_line(enum log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
