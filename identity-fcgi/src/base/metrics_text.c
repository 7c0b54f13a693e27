/* The metrics as Prometheus's text format 0.0.4 has them. */

#include "base/metrics_cells.h"
#include "base/version.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* Rows of one name stand together. */
static const struct {
    const char *name;
    const char *label; /* or NULL */
    const char *help;
} counters[METRICS_COUNTERS] = {
#define LOGINS "identity_logins_total"
#define LOGINS_HELP "Logins by what became of them."
    [METRICS_LOGIN_SUCCEEDED] = {LOGINS, "outcome=\"succeeded\"", LOGINS_HELP},
    [METRICS_LOGIN_FAILED] = {LOGINS, "outcome=\"failed\"", LOGINS_HELP},
    [METRICS_LOGIN_LIMITED] = {LOGINS, "outcome=\"limited\"", LOGINS_HELP},
    [METRICS_LOGIN_BUSY] = {LOGINS, "outcome=\"busy\"", LOGINS_HELP},
    [METRICS_LOGIN_UNAVAILABLE] = {LOGINS, "outcome=\"unavailable\"",
                                   LOGINS_HELP},
    [METRICS_LOGIN_INVALID] = {LOGINS, "outcome=\"invalid\"", LOGINS_HELP},
    [METRICS_LOGIN_ERROR] = {LOGINS, "outcome=\"error\"", LOGINS_HELP},
    [METRICS_ROTATIONS] = {"identity_refresh_rotations_total", NULL,
                           "Refresh tokens replaced by new ones."},
    [METRICS_STALE_REFRESHES] = {"identity_refresh_stale_total", NULL,
                                 "Refresh tokens presented after they had "
                                 "been replaced."},
#define REVOKED "identity_sessions_revoked_total"
#define REVOKED_HELP "Sessions revoked, by why."
    [METRICS_SESSIONS_REVOKED_LOGOUT] = {REVOKED, "reason=\"logout\"",
                                         REVOKED_HELP},
    [METRICS_SESSIONS_REVOKED_REUSE] = {REVOKED, "reason=\"reuse\"",
                                        REVOKED_HELP},
    [METRICS_SESSIONS_REVOKED_DISABLED] = {REVOKED,
                                           "reason=\"account_disabled\"",
                                           REVOKED_HELP},
    [METRICS_SESSIONS_REVOKED_LIMIT] = {REVOKED, "reason=\"limit\"",
                                        REVOKED_HELP},
    [METRICS_BRANCHES_SELECTED] = {"identity_branches_selected_total", NULL,
                                   "Branches bound to sessions by clients."},
    [METRICS_REHASHES] = {"identity_rehashes_total", NULL,
                          "Credentials hashed anew with risen parameters."},
    [METRICS_HASH_WORK] = {"identity_hash_work_total", NULL,
                           "What Argon2id was asked for: KiB of memory times "
                           "passes over it."},
    [METRICS_DB_CONNECTS] = {"identity_db_connects_total", NULL,
                             "Connections made to the database."},
#define DB_ERRORS "identity_db_errors_total"
#define DB_ERRORS_HELP "Failures at the database, by kind."
    [METRICS_DB_ERROR_CONNECT] = {DB_ERRORS, "kind=\"connect\"",
                                  DB_ERRORS_HELP},
    [METRICS_DB_ERROR_POOL] = {DB_ERRORS, "kind=\"pool_busy\"",
                               DB_ERRORS_HELP},
    [METRICS_DB_ERROR_REFUSED] = {DB_ERRORS, "kind=\"refused\"",
                                  DB_ERRORS_HELP},
    [METRICS_DB_ERROR_TRANSIENT] = {DB_ERRORS, "kind=\"transient\"",
                                    DB_ERRORS_HELP},
    [METRICS_DB_ERROR_LOST] = {DB_ERRORS, "kind=\"lost\"", DB_ERRORS_HELP},
    [METRICS_CONN_ACCEPTED] = {"identity_connections_accepted_total", NULL,
                               "FastCGI connections accepted."},
#define DROPPED "identity_connections_dropped_total"
#define DROPPED_HELP "FastCGI connections closed without an answer, by why."
    [METRICS_CONN_GARBAGE] = {DROPPED, "reason=\"garbage\"", DROPPED_HELP},
    [METRICS_CONN_INCOMPLETE] = {DROPPED, "reason=\"incomplete\"",
                                 DROPPED_HELP},
    [METRICS_CONN_TIMED_OUT] = {DROPPED, "reason=\"timeout\"", DROPPED_HELP},
#define RELOADS "identity_key_reloads_total"
#define RELOADS_HELP "Attempts to read new keys, by result."
    [METRICS_KEYS_RELOADED] = {RELOADS, "result=\"succeeded\"", RELOADS_HELP},
    [METRICS_KEYS_RELOAD_FAILED] = {RELOADS, "result=\"failed\"",
                                    RELOADS_HELP},
#define SWEEPS "identity_sweeps_total"
#define SWEEPS_HELP "Sweeps of what has long expired, by result."
    [METRICS_SWEEPS] = {SWEEPS, "result=\"succeeded\"", SWEEPS_HELP},
    [METRICS_SWEEPS_BUSY] = {SWEEPS, "result=\"busy\"", SWEEPS_HELP},
    [METRICS_SWEEPS_FAILED] = {SWEEPS, "result=\"failed\"", SWEEPS_HELP},
#define SWEPT "identity_swept_rows_total"
#define SWEPT_HELP "Rows deleted by sweeps, by table."
    [METRICS_SWEPT_SESSIONS] = {SWEPT, "table=\"auth_sessions\"", SWEPT_HELP},
    [METRICS_SWEPT_TOKENS] = {SWEPT, "table=\"rotated_tokens\"", SWEPT_HELP},
    [METRICS_SWEPT_ATTEMPTS] = {SWEPT, "table=\"login_attempts\"", SWEPT_HELP},
};

static const struct {
    const char *name;
    const char *help;
} timers[METRICS_TIMERS] = {
    [METRICS_HASH] = {"identity_hash_duration_seconds",
                      "Time of one Argon2id computation."},
    [METRICS_HASH_WAIT] = {"identity_hash_wait_seconds",
                           "Time spent waiting for a hash slot."},
    [METRICS_STATEMENT] = {"identity_db_statement_duration_seconds",
                           "Time of one SQL statement and its answer."},
};

static void add_header(struct buf *out, const char *name, const char *help,
                       const char *type)
{
    buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_counters(struct buf *out, const uint64_t *cells)
{
    const char *before = NULL;

    for (size_t i = 0; i < METRICS_COUNTERS; i++) {
        const char *label = counters[i].label;

        if (counters[i].name != before) {
            before = counters[i].name;
            add_header(out, before, counters[i].help, "counter");
        }
        buf_addf(out, "%s%s%s%s %" PRIu64 "\n", before,
                 label != NULL ? "{" : "", label != NULL ? label : "",
                 label != NULL ? "}" : "", cells[i]);
    }
}

static void add_seconds(struct buf *out, uint64_t us)
{
    buf_addf(out, "%" PRIu64 ".%06" PRIu64 "\n", us / 1000000, us % 1000000);
}

/* label is `name="value"` or "". */
static void add_histogram(struct buf *out, const char *name, const char *label,
                          const uint64_t *h)
{
    const char *comma = label[0] != '\0' ? "," : "";
    const char *open = label[0] != '\0' ? "{" : "";
    const char *close = label[0] != '\0' ? "}" : "";
    uint64_t count = 0;

    for (size_t i = 0; i <= METRICS_BOUNDS; i++) {
        count += h[i];
        buf_addf(out, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", name, label,
                 comma, i < METRICS_BOUNDS ? metrics_bounds_s[i] : "+Inf",
                 count);
    }
    buf_addf(out, "%s_sum%s%s%s ", name, open, label, close);
    add_seconds(out, h[METRICS_BOUNDS + 1]);
    buf_addf(out, "%s_count%s%s%s %" PRIu64 "\n", name, open, label, close,
             count);
}

static void add_timers(struct buf *out, const uint64_t *cells)
{
    for (size_t i = 0; i < METRICS_TIMERS; i++) {
        add_header(out, timers[i].name, timers[i].help, "histogram");
        add_histogram(out, timers[i].name, "",
                      cells + metrics_histogram_cell(i));
    }
}

static void add_requests(struct buf *out, const uint64_t *cells,
                         const char *(*endpoint_name)(size_t))
{
    static const char name[] = "identity_requests_total";

    add_header(out, name, "Requests answered, by endpoint, status and code.",
               "counter");
    for (size_t e = 0; e < METRICS_MAX_ENDPOINTS; e++) {
        for (size_t o = 0; o < METRICS_OUTCOMES; o++) {
            uint64_t n = cells[metrics_request_cell(e, o)];

            if (n == 0) {
                continue;
            }
            buf_addf(out, "%s{endpoint=\"%s\",", name, endpoint_name(e));
            if (metrics_outcomes[o].status == 0) {
                buf_addz(out, "status=\"other\",");
            } else {
                buf_addf(out, "status=\"%d\",", metrics_outcomes[o].status);
            }
            buf_addf(out, "code=\"%s\"} %" PRIu64 "\n",
                     metrics_outcomes[o].code, n);
        }
    }
}

static void add_durations(struct buf *out, const uint64_t *cells,
                          const char *(*endpoint_name)(size_t))
{
    static const char name[] = "identity_request_duration_seconds";
    char label[64];

    add_header(out, name,
               "Time from a request's first byte to its answer, by endpoint.",
               "histogram");
    for (size_t e = 0; e < METRICS_MAX_ENDPOINTS; e++) {
        const uint64_t *h = cells + metrics_histogram_cell(METRICS_TIMERS + e);
        uint64_t count = 0;

        for (size_t i = 0; i <= METRICS_BOUNDS; i++) {
            count += h[i];
        }
        if (count != 0) {
            snprintf(label, sizeof(label), "endpoint=\"%s\"",
                     endpoint_name(e));
            add_histogram(out, name, label, h);
        }
    }
}

static void add_gauge(struct buf *out, const char *name, const char *help,
                      int64_t value)
{
    add_header(out, name, help, "gauge");
    buf_addf(out, "%s %" PRId64 "\n", name, value);
}

static void add_label_value(struct buf *out, const char *value, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (value[i] == '"' || value[i] == '\\') {
            buf_addc(out, '\\');
        }
        buf_addc(out, value[i]);
    }
}

static void add_info(struct buf *out, const char *kid, size_t kid_len)
{
    add_header(out, "identity_build_info", "The program's version.", "gauge");
    buf_addz(out, "identity_build_info{version=\"" IDENTITY_VERSION "\"} 1\n");
    add_header(out, "identity_signing_key_info",
               "The id of the key that signs; none is loaded without it.",
               "gauge");
    if (kid != NULL) {
        buf_addz(out, "identity_signing_key_info{kid=\"");
        add_label_value(out, kid, kid_len);
        buf_addz(out, "\"} 1\n");
    }
}

/* Resident pages from /proc, which stays readable for a process that is not
 * dumpable; 0 where there is no /proc. */
static int64_t resident_bytes(void)
{
    long long size, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (f != NULL) {
        if (fscanf(f, "%lld %lld", &size, &resident) != 2) {
            resident = 0;
        }
        fclose(f);
    }
    return (int64_t) resident * sysconf(_SC_PAGESIZE);
}

static void add_process(struct buf *out)
{
    struct rusage use;
    uint64_t us = 0;

    if (getrusage(RUSAGE_SELF, &use) == 0) {
        us = (uint64_t) (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000 +
             (uint64_t) (use.ru_utime.tv_usec + use.ru_stime.tv_usec);
    }
    add_header(out, "process_cpu_seconds_total",
               "User and system time spent in seconds.", "counter");
    buf_addz(out, "process_cpu_seconds_total ");
    add_seconds(out, us);
    add_gauge(out, "process_resident_memory_bytes", "Resident memory.",
              resident_bytes());
    add_gauge(out, "process_start_time_seconds",
              "Start of the process in seconds of the epoch.",
              metrics_started_s());
}

void metrics_render(struct buf *out, const char *(*endpoint_name)(size_t),
                    const struct metrics_gauge *gauges, size_t gauge_count,
                    const void *kid, size_t kid_len)
{
    uint64_t cells[METRICS_CELLS];

    metrics_sum(cells);
    add_requests(out, cells, endpoint_name);
    add_durations(out, cells, endpoint_name);
    add_counters(out, cells);
    add_timers(out, cells);
    for (size_t i = 0; i < gauge_count; i++) {
        add_gauge(out, gauges[i].name, gauges[i].help, gauges[i].value);
    }
    add_info(out, kid, kid_len);
    add_process(out);
}
