/* Writes JSON log lines, each with a single write(). */

#include "base/log.h"

#include "base/jsonw.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* PIPE_BUF, so lines of several processes do not interleave in a pipe. */
#define LINE_MAX_BYTES 4096
#define FIELD_MAX_BYTES 1024
#define TRUNCATED ",\"truncated\":true}\n"

static struct {
    const char *app_name;
    const char *app_env;
    enum log_level least;
    int audit_fd;
    const char *audit_prefix;
} settings = {"identity-service", NULL, LOG_INFO_, STDERR_FILENO, ""};

/* The ids of the thread's current request, NULL between requests. */
static _Thread_local struct log_field bound[2];
static _Thread_local bool lost;

void log_setup(const char *app_name, const char *app_env, enum log_level least)
{
    settings.app_name = app_name;
    settings.app_env = app_env != NULL && *app_env != '\0' ? app_env : NULL;
    settings.least = least;
}

bool log_audit_to(const char *where)
{
    struct sockaddr_un log = {.sun_family = AF_UNIX};
    const char *path = strcmp(where, "journal") == 0 ? "/dev/log" : where;
    int create = path == where ? O_CREAT : 0;

    if (strcmp(where, "stderr") == 0) {
        return true;
    }
    settings.audit_fd = open(path, O_WRONLY | O_APPEND | create, 0600);
    if (settings.audit_fd >= 0 || errno != ENXIO) {
        return settings.audit_fd >= 0;
    }
    /* ENXIO: a socket. syslog(3) is not used because it hides lost lines. */
    settings.audit_prefix = "<86>identity-fcgi: "; /* authpriv.info */
    settings.audit_fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    (void) snprintf(log.sun_path, sizeof(log.sun_path), "%s", path);
    return connect(settings.audit_fd, (void *) &log, sizeof(log)) == 0;
}

struct log_field log_text(const char *name, const void *text)
{
    size_t len = text != NULL ? strlen(text) : 0;

    return (struct log_field){.name = name, .value = text, .len = len};
}

void log_bind(const void *request_id, const void *correlation_id)
{
    bound[0] = log_text("requestId", request_id);
    bound[1] = log_text("correlationId", correlation_id);
}

bool log_lost(void)
{
    return lost;
}

struct line {
    struct buf text;
    struct jsonw json;
    size_t whole; /* length up to the last field that fitted */
};

static void mark(struct line *l)
{
    if (!l->text.overflow) {
        l->whole = l->text.len;
    }
}

static void add(struct line *l, struct log_field f)
{
    if (f.value != NULL) {
        jsonw_string(&l->json, f.name, f.value,
                     f.len < FIELD_MAX_BYTES ? f.len : FIELD_MAX_BYTES);
        mark(l);
    }
}

static void add_time(struct line *l)
{
    static _Thread_local char when[] = "yyyy-mm-ddThh:mm:ss.mmmZ";
    static _Thread_local time_t second = -1; /* the second written in when */
    struct timespec ts;
    struct tm tm;

    clock_gettime(CLOCK_REALTIME, &ts);
    if (ts.tv_sec != second) {
        second = ts.tv_sec;
        (void) strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S.mmmZ",
                        gmtime_r(&second, &tm));
    }
    for (long i = 22, ms = ts.tv_nsec / 1000000; i > 19; i--, ms /= 10) {
        when[i] = (char) ('0' + ms % 10);
    }
    add(l, log_text("time", when));
}

void log_event(enum log_level level, const char *event, const char *message,
               const struct log_field *fields, size_t count)
{
    static const char *const levels[] = {"debug", "info", "warn",
                                         "error", "info", "info"};
    bool audit = level == LOG_AUDIT_;
    char mem[LINE_MAX_BYTES];
    struct line l = {.whole = 0};

    if (level < settings.least) {
        return;
    }
    buf_init(&l.text, mem, sizeof(mem) - sizeof(TRUNCATED));
    buf_addz(&l.text, audit ? settings.audit_prefix : "");
    jsonw_init(&l.json, &l.text);
    jsonw_object(&l.json, NULL);
    add_time(&l);
    add(&l, log_text("level", levels[level]));
    add(&l, log_text("service", settings.app_name));
    add(&l, log_text("env", settings.app_env));
    add(&l, log_text("event", event));
    if (audit) {
        jsonw_bool(&l.json, "audit", true);
    }
    add(&l, bound[0]);
    add(&l, bound[1]);
    add(&l, log_text("message", message));
    for (size_t i = 0; i < count; i++) {
        if (fields[i].is_number) {
            jsonw_int(&l.json, fields[i].name, fields[i].number);
            mark(&l);
        }
    }
    for (size_t i = 0; i < count; i++) {
        add(&l, fields[i]);
    }
    l.text.cap = sizeof(mem);
    if (l.text.overflow) {
        l.text.len = l.whole;
        l.text.overflow = false;
        buf_addz(&l.text, TRUNCATED);
    } else {
        jsonw_object_end(&l.json);
        buf_addc(&l.text, '\n');
    }
    /* Commands report a lost line in their exit status. */
    lost = write(audit ? settings.audit_fd : STDERR_FILENO, l.text.data,
                 l.text.len) != (ssize_t) l.text.len;
}

void log_line(enum log_level level, const char *event, const char *format, ...)
{
    char message[FIELD_MAX_BYTES];
    va_list ap;

    va_start(ap, format);
    (void) vsnprintf(message, sizeof(message), format, ap);
    va_end(ap);
    log_event(level, event, message, NULL, 0);
}
