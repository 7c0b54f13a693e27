/* JSON log lines on stderr, one event a line. */

#pragma once

#include "base/config.h"

/* A field of a log line.  It must never contain a token, credential, cookie or
 * key. */
struct log_field {
    const char *name;
    const char *value; /* of a text field, which is omitted if NULL */
    size_t len;        /* bytes of value */
    bool is_number;
    int64_t number;
};

/* A field with a C string, which may be NULL. */
struct log_field log_text(const char *name, const void *text);
#define LOG_NUMBER(n, v)                                                       \
    ((struct log_field){.name = (n), .is_number = true, .number = (v)})

/* Sets the common fields of all lines and the lowest level to log.  Call once,
 * before threads start.  The strings must stay valid. */
void log_setup(const char *app_name, const char *app_env, enum log_level least);

/* Adds these two ids to the lines of this thread.  They must stay valid until
 * log_unbind(). */
void log_bind(const void *request_id, const void *correlation_id);
#define log_unbind() log_bind(NULL, NULL)

/* Writes {"time":...,"level":...,"service":...,"event":event,"message":...} and
 * the fields as one line. event is a stable dotted name, message a sentence or
 * NULL. Numbers come before texts, because a line that is too long is
 * truncated. */
void log_event(enum log_level level, const char *event, const char *message,
               const struct log_field *fields, size_t count);

/* Opens the destination of audit lines (a value of PLATFORM_AUDIT_LOG), which
 * is stderr by default.  Call at most once, before threads start.  False with
 * errno. */
PJ_MUST_CHECK bool log_audit_to(const char *where);

/* Returns true if the last line of this thread could not be written. */
bool log_lost(void);

#define LOG_FIELDS(...)                                                        \
    (const struct log_field[]){__VA_ARGS__},                                   \
        sizeof((const struct log_field[]){__VA_ARGS__}) /                      \
            sizeof(struct log_field)

/* Writes a line without fields and with a formatted message. */
void log_line(enum log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
