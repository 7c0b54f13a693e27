/* Counters and histograms: atomic numbers that all threads update.  A sum may
 * lag behind an update in progress but never decreases. */

#include "base/metrics.h"

#include <inttypes.h>
#include <pj_version.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* clang-format off */
/* Counters by name, in the order of their enum. */
static const struct {
    enum metrics_counter first;
    const char *name;
    const char *help;
    const char *label; /* NULL if the name has a single counter */
    const char *values[9];
} families[] = {
    {METRICS_LOGIN_SUCCEEDED, "identity_logins_total",
     "Logins by outcome.", "outcome",
     {"succeeded", "factor", "failed", "limited", "busy", "unavailable",
      "error", "invalid"}},
    {METRICS_TOKEN_SUCCEEDED, "identity_client_tokens_total",
     "Requests of clients for tokens, by outcome.", "outcome",
     {"succeeded", "failed", "limited", "unavailable", "error", "invalid"}},
    {METRICS_ROTATIONS, "identity_refresh_rotations_total",
     "Refresh tokens replaced by new ones.", NULL, {""}},
    {METRICS_RETRIES, "identity_refresh_retries_total",
     "Refreshes answered with the successor that was there already.", NULL,
     {""}},
    {METRICS_STALE_REFRESHES, "identity_refresh_stale_total",
     "Refresh tokens presented after they had been replaced.", NULL, {""}},
    {METRICS_SESSIONS_REVOKED_LOGOUT, "identity_sessions_revoked_total",
     "Sessions revoked, by reason.", "reason",
     {"logout", "reuse", "account_disabled", "limit", "owner",
      "credential"}},
    {METRICS_BRANCHES_SELECTED, "identity_branches_selected_total",
     "Branches selected by clients.", NULL, {""}},
    {METRICS_REHASHES, "identity_rehashes_total",
     "Credentials hashed anew with today's parameters.", NULL, {""}},
    {METRICS_HASH_WORK, "identity_hash_work_total",
     "Work requested: KiB of memory times passes, or rounds.", NULL,
     {""}},
    {METRICS_DB_CONNECTS, "identity_db_connects_total",
     "Connections made to the database.", NULL, {""}},
    {METRICS_DB_ERROR_CONNECT, "identity_db_errors_total",
     "Database failures, by kind.", "kind",
     {"connect", "login", "pool_busy", "refused", "locked", "transient",
      "lost"}},
    {METRICS_CONN_ACCEPTED, "identity_connections_accepted_total",
     "FastCGI connections accepted.", NULL, {""}},
    {METRICS_CONN_GARBAGE, "identity_connections_dropped_total",
     "FastCGI connections closed without an answer, by reason.", "reason",
     {"garbage", "incomplete", "timeout"}},
    {METRICS_KEYS_RELOADED, "identity_key_reloads_total",
     "Attempts to reload the keys, by result.", "result",
     {"succeeded", "failed"}},
    {METRICS_SWEEPS, "identity_sweeps_total",
     "Sweeps of expired rows, by result.", "result",
     {"succeeded", "busy", "failed"}},
    {METRICS_SWEPT_SESSIONS, "identity_swept_rows_total",
     "Rows deleted by sweeps, by table.", "table",
     {"auth_sessions", "rotated_tokens", "login_attempts",
      "session_revocations"}},
};

static const struct {
    const char *name;
    const char *help;
} timers[METRICS_TIMERS] = {
    {"identity_hash_duration_seconds", "Duration of one Argon2id computation."},
    {"identity_hash_wait_seconds", "Time spent waiting for a hash slot."},
    {"identity_db_statement_duration_seconds",
     "Duration of one SQL statement, with its round trip."},
};
/* clang-format on */

static const struct {
    int status;
    const char *code; /* "" for answers without one */
} outcomes[] = {
    {0, "other"}, /* the first row counts all other pairs */
    {200, ""},
    {200, "AUTH_CHANGE_CREDENTIAL_SUCCESS"},
    {200, "AUTH_END_SESSION_SUCCESS"},
    {200, "AUTH_FACTORS_SUCCESS"},
    {200, "AUTH_FACTOR_CHANGED"},
    {200, "AUTH_FACTOR_CONFIRMED"},
    {200, "AUTH_FACTOR_REMOVED"},
    {200, "AUTH_FACTOR_REQUIRED"},
    {200, "AUTH_LOGIN_SUCCESS"},
    {200, "AUTH_LOGOUT_ALL_SUCCESS"},
    {200, "AUTH_LOGOUT_OTHERS_SUCCESS"},
    {200, "AUTH_LOGOUT_SUCCESS"},
    {200, "AUTH_ME_SUCCESS"},
    {200, "AUTH_PASSKEY_OPTIONS"},
    {200, "AUTH_RECOVERY_CODES_SUCCESS"},
    {200, "AUTH_REFRESH_SUCCESS"},
    {200, "AUTH_RESET_CREDENTIAL_SUCCESS"},
    {200, "AUTH_SELECT_BRANCH_SUCCESS"},
    {200, "AUTH_SESSIONS_SUCCESS"},
    {200, "AUTH_STEP_UP_SUCCESS"},
    {200, "SYSTEM_SUCCESS"},
    {201, "AUTH_FACTOR_ADDED"},
    {201, "SYSTEM_SUCCESS"},
    {304, ""},
    {400, "AUTH_CREDENTIAL_NOT_ALLOWED"},
    {400, "AUTH_PASSKEY_INVALID"},
    {400, "AUTH_PROOF_INVALID"},
    {400, "AUTH_REFRESH_TOKEN_CONFLICT"},
    {400, "REQUEST_INVALID"},
    {401, "AUTH_ACCESS_TOKEN_REQUIRED"},
    {401, "AUTH_ACCOUNT_TOKEN_REQUIRED"},
    {400, "AUTH_GRANT_TYPE_UNSUPPORTED"},
    {400, "AUTH_SCOPE_INVALID"},
    {401, "AUTH_CLIENT_INVALID"},
    {401, "AUTH_FACTOR_INVALID"},
    {401, "AUTH_FACTOR_TOKEN_INVALID"},
    {401, "AUTH_INVALID_CREDENTIALS"},
    {401, "AUTH_PROOF_INVALID"},
    {401, "AUTH_PROOF_REQUIRED"},
    {401, "AUTH_REFRESH_TOKEN_INVALID"},
    {401, "AUTH_REFRESH_TOKEN_MISSING"},
    {401, "AUTH_REFRESH_TOKEN_STALE"},
    {401, "AUTH_RESET_CODE_INVALID"},
    {401, "AUTH_SESSION_NOT_ACTIVE"},
    {401, "AUTH_STEP_UP_REQUIRED"},
    {403, "AUTH_BRANCH_NOT_SELECTABLE"},
    {403, "AUTH_FACTOR_NOT_OFFERED"},
    {403, "AUTH_ORIGIN_NOT_ALLOWED"},
    {403, "AUTH_SCOPE_REQUIRED"},
    {404, "RESOURCE_NOT_FOUND"},
    {405, "METHOD_NOT_ALLOWED"},
    {409, "AUTH_FACTOR_LAST"},
    {409, "AUTH_SESSION_CHANGED"},
    {409, "REQUEST_IN_PROGRESS"},
    {409, "RESOURCE_CONFLICT"},
    {409, "RESOURCE_EXISTS"},
    {409, "RESOURCE_LIMIT_REACHED"},
    {412, "PRECONDITION_FAILED"},
    {413, "REQUEST_TOO_LARGE"},
    {415, "MEDIA_TYPE_UNSUPPORTED"},
    {422, "REQUEST_IDEMPOTENCY_MISMATCH"},
    {429, "AUTH_TOO_MANY_ATTEMPTS"},
    {500, "INTERNAL_ERROR"},
    {503, "AUTH_BUSY"},
    {503, "DATABASE_UNAVAILABLE"},
    {503, "SERVICE_NOT_READY"},
};

/* Upper bounds of histograms in microseconds. */
static const int64_t bounds[] = {1000,    2500,    5000,    10000,  25000,
                                 50000,   100000,  250000,  500000, 1000000,
                                 2500000, 5000000, 10000000};

struct histogram {
    _Atomic uint64_t within[COUNT(bounds) + 1]; /* the last is +Inf */
    _Atomic uint64_t sum_us;
};

static struct {
    _Atomic uint64_t counters[METRICS_COUNTERS];
    _Atomic uint64_t requests[METRICS_MAX_ENDPOINTS][COUNT(outcomes)];
    struct histogram durations[METRICS_MAX_ENDPOINTS];
    struct histogram timers[METRICS_TIMERS];
} counted;

static time_t started; /* written before threads start */

int64_t metrics_now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

void metrics_start(void)
{
    started = time(NULL);
}

void metrics_add(enum metrics_counter counter, uint64_t n)
{
    counted.counters[counter] += n;
}

static void observe(struct histogram *h, int64_t us)
{
    size_t i = 0;

    while (i < COUNT(bounds) && us > bounds[i]) {
        i++;
    }
    h->within[i]++;
    h->sum_us += us > 0 ? (uint64_t) us : 0;
}

void metrics_time(enum metrics_timer timer, int64_t microseconds)
{
    observe(&counted.timers[timer], microseconds);
}

void metrics_request(size_t endpoint, int status, const char *code,
                     int64_t microseconds)
{
    size_t e =
        endpoint < METRICS_MAX_ENDPOINTS ? endpoint : METRICS_MAX_ENDPOINTS - 1;
    size_t o = COUNT(outcomes) - 1;

    while (o > 0 && (outcomes[o].status != status ||
                     strcmp(outcomes[o].code, code != NULL ? code : "") != 0)) {
        o--;
    }
    counted.requests[e][o]++;
    observe(&counted.durations[e], microseconds);
}

/* -- Prometheus's text format 0.0.4 --------------------------------------- */

static void add_header(struct buf *out, const char *name, const char *help,
                       const char *type)
{
    buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_counters(struct buf *out)
{
    for (size_t f = 0; f < COUNT(families); f++) {
        const char *name = families[f].name, *label = families[f].label;
        _Atomic uint64_t *number = &counted.counters[families[f].first];

        add_header(out, name, families[f].help, "counter");
        for (const char *const *v = families[f].values; *v != NULL; v++) {
            if (label == NULL) {
                buf_addz(out, name);
            } else {
                buf_addf(out, "%s{%s=\"%s\"}", name, label, *v);
            }
            buf_addf(out, " %" PRIu64 "\n", *number++);
        }
    }
}

/* label is `name="value"` or "". */
static void add_histogram(struct buf *out, const char *name, const char *label,
                          struct histogram *h)
{
    const char *open = label[0] != '\0' ? "{" : "";
    const char *close = label[0] != '\0' ? "}" : "";
    const char *comma = label[0] != '\0' ? "," : "";
    uint64_t count = 0;

    for (size_t i = 0; i <= COUNT(bounds); i++) {
        char le[16] = "+Inf";

        if (i < COUNT(bounds)) {
            (void) snprintf(le, sizeof(le), "%g", (double) bounds[i] / 1e6);
        }
        count += h->within[i];
        buf_addf(out, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", name, label,
                 comma, le, count);
    }
    buf_addf(out, "%s_sum%s%s%s %.6f\n", name, open, label, close,
             (double) h->sum_us / 1e6);
    buf_addf(out, "%s_count%s%s%s %" PRIu64 "\n", name, open, label, close,
             count);
}

static void add_requests(struct buf *out, const char *(*endpoint_name)(size_t))
{
    static const char total[] = "identity_requests_total";
    static const char duration[] = "identity_request_duration_seconds";
    uint64_t answered[METRICS_MAX_ENDPOINTS] = {0};

    add_header(out, total, "Requests answered, by endpoint, status and code.",
               "counter");
    for (size_t e = 0; e < METRICS_MAX_ENDPOINTS; e++) {
        for (size_t o = 0; o < COUNT(outcomes); o++) {
            uint64_t n = counted.requests[e][o];
            char status[12] = "other";

            if (n == 0) {
                continue;
            }
            if (o != 0) {
                (void) snprintf(status, sizeof(status), "%d",
                                outcomes[o].status);
            }
            buf_addf(out,
                     "%s{endpoint=\"%s\",status=\"%s\",code=\"%s\"} %" PRIu64
                     "\n",
                     total, endpoint_name(e), status, outcomes[o].code, n);
            answered[e] += n;
        }
    }
    add_header(out, duration,
               "Time from a request's first byte to its answer, by endpoint.",
               "histogram");
    for (size_t e = 0; e < METRICS_MAX_ENDPOINTS; e++) {
        char label[64];

        (void) snprintf(label, sizeof(label), "endpoint=\"%s\"",
                        endpoint_name(e));
        if (answered[e] != 0) {
            add_histogram(out, duration, label, &counted.durations[e]);
        }
    }
}

static void add_gauge(struct buf *out, const char *name, const char *help,
                      int64_t value)
{
    add_header(out, name, help, "gauge");
    buf_addf(out, "%s %" PRId64 "\n", name, value);
}

static void add_process(struct buf *out)
{
    struct rusage use = {0};
    long resident = 0;
    /* Readable even if the process is not dumpable. */
    FILE *f = fopen("/proc/self/statm", "re");

    if (f != NULL) {
        (void) !fscanf(f, "%*d %ld", &resident);
        fclose(f);
    }
    (void) getrusage(RUSAGE_SELF, &use);
    add_header(out, "process_cpu_seconds_total",
               "User and system CPU time spent, in seconds.", "counter");
    buf_addf(out, "process_cpu_seconds_total %.6f\n",
             (double) (use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
                 (double) (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6);
    add_gauge(out, "process_resident_memory_bytes",
              "Resident memory size in bytes.",
              resident * sysconf(_SC_PAGESIZE));
    add_gauge(out, "process_start_time_seconds",
              "Start time of the process in seconds since 1970.", started);
}

static void add_key(struct buf *out, const char *kid, size_t kid_len)
{
    add_header(out, "identity_signing_key_info",
               "The id of the signing key; no series if none is loaded.",
               "gauge");
    if (kid != NULL) {
        buf_addz(out, "identity_signing_key_info{kid=\"");
        for (size_t i = 0; i < kid_len; i++) {
            buf_addz(out, kid[i] == '"' || kid[i] == '\\' ? "\\" : "");
            buf_addc(out, kid[i]);
        }
        buf_addz(out, "\"} 1\n");
    }
}

void metrics_render(struct buf *out, const char *(*endpoint_name)(size_t),
                    const struct metrics_gauge *gauges, size_t gauge_count,
                    const void *kid, size_t kid_len)
{
    add_requests(out, endpoint_name);
    add_counters(out);
    for (size_t i = 0; i < METRICS_TIMERS; i++) {
        add_header(out, timers[i].name, timers[i].help, "histogram");
        add_histogram(out, timers[i].name, "", &counted.timers[i]);
    }
    for (size_t i = 0; i < gauge_count; i++) {
        add_gauge(out, gauges[i].name, gauges[i].help, gauges[i].value);
    }
    add_header(out, "identity_build_info", "The program's version.", "gauge");
    buf_addz(out, "identity_build_info{version=\"" PLATFORM_VERSION "\"} 1\n");
    add_key(out, kid, kid_len);
    add_process(out);
}
