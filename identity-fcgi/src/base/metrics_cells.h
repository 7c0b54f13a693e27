/* The layout that metrics.c counts in and metrics_text.c reads. */

#ifndef METRICS_CELLS_H_INCLUDED
#define METRICS_CELLS_H_INCLUDED

#include "base/metrics.h"

#define METRICS_OUTCOMES 48 /* pairs of status and code */
#define METRICS_BOUNDS 13   /* upper bounds of histograms */
#define METRICS_HISTOGRAM_CELLS (METRICS_BOUNDS + 2) /* +Inf, and the sum */
#define METRICS_HISTOGRAMS (METRICS_TIMERS + METRICS_MAX_ENDPOINTS)

#define METRICS_REQUESTS_AT METRICS_COUNTERS
#define METRICS_HISTOGRAMS_AT                                                 \
    (METRICS_REQUESTS_AT + METRICS_MAX_ENDPOINTS * METRICS_OUTCOMES)
#define METRICS_CELLS                                                         \
    (METRICS_HISTOGRAMS_AT + METRICS_HISTOGRAMS * METRICS_HISTOGRAM_CELLS)

/* A pair of labels; a status of 0 is any that no other row has. */
struct metrics_outcome {
    int status;
    const char *code; /* "" for answers without one */
};

extern const struct metrics_outcome metrics_outcomes[METRICS_OUTCOMES];

/* Upper bounds in microseconds, and as Prometheus writes them in seconds. */
extern const int64_t metrics_bounds_us[METRICS_BOUNDS];
extern const char *const metrics_bounds_s[METRICS_BOUNDS];

static inline size_t metrics_request_cell(size_t endpoint, size_t outcome)
{
    return METRICS_REQUESTS_AT + endpoint * METRICS_OUTCOMES + outcome;
}

/* The first cell of histogram h: timers first, then endpoints. */
static inline size_t metrics_histogram_cell(size_t h)
{
    return METRICS_HISTOGRAMS_AT + h * METRICS_HISTOGRAM_CELLS;
}

/* Adds up what all threads have counted. */
void metrics_sum(uint64_t cells[METRICS_CELLS]);

/* Sets all to nothing, while no thread counts; for tests. */
void metrics_clear(void);

/* When metrics_start() was called, in seconds of the epoch. */
int64_t metrics_started_s(void);

#endif
