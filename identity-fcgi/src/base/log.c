/* One JSON object a line; lines are written whole. */

#include "base/log.h"

#include "base/buf.h"
#include "base/jsonw.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Below PIPE_BUF, so that lines of several processes never interleave on a
 * shared pipe. */
#define LINE_MAX_BYTES 4096
#define FIELD_MAX_BYTES 1024
#define TRUNCATED ",\"truncated\":true}\n"

/* Written once before threads start, read ever after. */
static struct {
    const char *app_name;
    const char *app_env;
    enum log_level least;
} settings = {"identity-service", "", LOG_INFO_};

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_setup(const char *app_name, const char *app_env, enum log_level least)
{
    settings.app_name = app_name;
    settings.app_env = app_env != NULL ? app_env : "";
    settings.least = least;
}

/* Those of the request that a thread is at; NULL between requests. */
static _Thread_local struct {
    const char *request_id, *correlation_id;
    size_t request_id_len, correlation_id_len;
} bound;

void log_bind(const char *request_id, size_t request_id_len,
              const char *correlation_id, size_t correlation_id_len)
{
    bound.request_id = request_id;
    bound.request_id_len = request_id_len;
    bound.correlation_id = correlation_id;
    bound.correlation_id_len = correlation_id_len;
}

/* The text of a second is made once and serves until the next. */
static void add_time(struct jsonw *w)
{
    static _Thread_local char when[] = "yyyy-mm-ddThh:mm:ss.000Z";
    static _Thread_local time_t second;
    struct timespec ts;
    struct tm tm;
    char *p = when + sizeof("yyyy-mm-ddThh:mm:ss.") - 1;

    clock_gettime(CLOCK_REALTIME, &ts);
    if (ts.tv_sec != second) {
        gmtime_r(&ts.tv_sec, &tm);
        (void) strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S.000Z", &tm);
        second = ts.tv_sec;
    }
    p[0] = (char) ('0' + ts.tv_nsec / 100000000);
    p[1] = (char) ('0' + ts.tv_nsec / 10000000 % 10);
    p[2] = (char) ('0' + ts.tv_nsec / 1000000 % 10);
    jsonw_string(w, "time", when, sizeof(when) - 1);
}

static void add_text(struct jsonw *w, const char *name, const char *text,
                     size_t len)
{
    jsonw_string(w, name, text, len < FIELD_MAX_BYTES ? len : FIELD_MAX_BYTES);
}

static void begin_line(struct jsonw *w, struct buf *line, enum log_level level,
                       bool audit, const char *event, const char *message)
{
    jsonw_init(w, line);
    jsonw_object(w, NULL);
    add_time(w);
    jsonw_cstr(w, "level", level_names[level]);
    jsonw_cstr(w, "service", settings.app_name);
    if (settings.app_env[0] != '\0') {
        jsonw_cstr(w, "env", settings.app_env);
    }
    jsonw_cstr(w, "event", event);
    if (audit) {
        jsonw_bool(w, "audit", true);
    }
    if (bound.request_id != NULL) {
        add_text(w, "requestId", bound.request_id, bound.request_id_len);
        add_text(w, "correlationId", bound.correlation_id,
                 bound.correlation_id_len);
    }
    if (message != NULL) {
        add_text(w, "message", message, strlen(message));
    }
}

/* Lines of the request in hand that wait for its end. */
static _Thread_local struct {
    char data[LINE_MAX_BYTES];
    size_t len;
} held;

static _Thread_local bool lost;

/* A log that cannot be written has nobody to be reported to but by the exit
 * status of a command. */
static void write_out(const char *data, size_t len)
{
    lost = write(STDERR_FILENO, data, len) != (ssize_t) len;
}

bool log_lost(void)
{
    return lost;
}

static void write_held(void)
{
    if (held.len != 0) {
        write_out(held.data, held.len);
        held.len = 0;
    }
}

static void write_line(const struct buf *line, bool hold)
{
    if (!hold || line->len > sizeof(held.data) - held.len) {
        write_held();
    }
    if (hold) {
        memcpy(held.data + held.len, line->data, line->len);
        held.len += line->len;
    } else {
        write_out(line->data, line->len);
    }
}

/* Ends the line; one that grew too long keeps its head only. */
static void end_line(struct jsonw *w, struct buf *line, size_t head_len,
                     bool hold)
{
    if (line->overflow) {
        line->len = head_len;
        line->overflow = false;
        buf_addz(line, TRUNCATED);
    } else {
        jsonw_object_end(w);
        buf_addc(line, '\n');
    }
    write_line(line, hold);
}

/* Keeps the length up to which the line is whole, for end_line(). */
static void mark(const struct buf *line, size_t *head_len)
{
    if (!line->overflow) {
        *head_len = line->len;
    }
}

void log_unbind(void)
{
    bound.request_id = NULL;
    write_held();
}

static void write_event(enum log_level level, bool audit, bool hold,
                        const char *event, const char *message,
                        const struct log_field *fields, size_t count,
                        const struct log_number *numbers, size_t number_count)
{
    char mem[LINE_MAX_BYTES];
    struct buf line;
    struct jsonw w;
    size_t head_len = 0;

    buf_init(&line, mem, sizeof(mem) - sizeof(TRUNCATED));
    begin_line(&w, &line, level, audit, event, message);
    mark(&line, &head_len);
    for (size_t i = 0; i < number_count; i++) {
        jsonw_int(&w, numbers[i].name, numbers[i].value);
        mark(&line, &head_len);
    }
    for (size_t i = 0; i < count; i++) {
        if (fields[i].value != NULL) {
            add_text(&w, fields[i].name, fields[i].value, fields[i].len);
            mark(&line, &head_len);
        }
    }
    line.cap = sizeof(mem);
    end_line(&w, &line, head_len, hold && bound.request_id != NULL);
}

void log_event_numbers(enum log_level level, const char *event,
                       const char *message, const struct log_field *fields,
                       size_t count, const struct log_number *numbers,
                       size_t number_count)
{
    if (level >= settings.least) {
        write_event(level, false, false, event, message, fields, count,
                    numbers, number_count);
    }
}

void log_event(enum log_level level, const char *event, const char *message,
               const struct log_field *fields, size_t count)
{
    log_event_numbers(level, event, message, fields, count, NULL, 0);
}

void log_audit(const char *event, const char *message,
               const struct log_field *fields, size_t count,
               const struct log_number *numbers, size_t number_count)
{
    write_event(LOG_INFO_, true, true, event, message, fields, count, numbers,
                number_count);
}

void log_access(const struct log_field *fields, size_t count,
                const struct log_number *numbers, size_t number_count)
{
    write_event(LOG_INFO_, false, true, "http.request", NULL, fields, count,
                numbers, number_count);
}

void log_line(enum log_level level, const char *event, const char *format, ...)
{
    char message[FIELD_MAX_BYTES];
    va_list ap;

    if (level < settings.least) {
        return;
    }
    va_start(ap, format);
    vsnprintf(message, sizeof(message), format, ap);
    va_end(ap);
    log_event(level, event, message, NULL, 0);
}
