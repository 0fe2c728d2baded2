/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Health: which conditions of docs/running.md's table hold, from counters and measurements, once a
 * second on the control thread. It has no clock, thread or socket, so that every row can be tested
 * without waiting.
 *
 * A row is a code in status/result.h, a function that reads the facts and reports the condition
 * (judges in health.c), and a line of the table.
 */
#ifndef SONAR_HEALTH_H
#define SONAR_HEALTH_H

#include "config/config.h"
#include "core/node_clock.h"
#include "status/result.h"
#include "core/rights.h"

/* Inputs in addition to the counters and times in the status. */
typedef struct sonar_health_facts {
    int64_t now_ns, utc_now_ns; /* monotonic, and the system clock */
    int64_t busy_since_ns; /* when the data thread began the current window, 0: it processes none */
    int64_t training_since_ns; /* when training began; 0: no training */
    int64_t ranks_wait_ns;     /* how long it has waited for other ranks; 0: less than 1 s */
    bool rank_hangs[SONAR_RANKS_SHOWN]; /* the ranks that it waits for, if known */
    const sonar_ingest_report *stream;
    const sonar_kernel_clock *clock; /* of the same moment; NULL: not read */
    const sonar_rights *rights;      /* rights that the system refused; NULL: none */
} sonar_health_facts;

/* History of a channel block: its rate over up to a minute, and its smallest age. */
enum { SONAR_RATE_POINTS = 13 };

typedef struct sonar_block_watch {
    size_t points; /* oldest first */
    struct {
        uint64_t sample;
        int64_t ns;
    } point[SONAR_RATE_POINTS];
    double least_age_s, least_drift_s; /* by UTC, and by the index alone; NaN: none yet */
    uint64_t seen_sample;              /* end_sample, end_ns and end_utc_ns of the last call */
    int64_t seen_ns, seen_utc_ns;      /* 0: none */
} sonar_block_watch;

/* From the first degraded call until calls have been good for some time. */
typedef struct sonar_health_episode {
    bool open;
    int64_t began_ns, bad_ns; /* the last degraded call */
    bool logged[SONAR_CONDITIONS];
    sonar_status seen; /* counters before it began */
} sonar_health_episode;

typedef struct sonar_health {
    const sonar_config *config;
    sonar_status seen;                  /* status of the last call */
    int64_t looked_ns;                  /* time of the last call, 0: none yet */
    sonar_frame_cause cause, logged;    /* most frequent cause since, SONAR_FRAME_CAUSES: none */
    int64_t since_ns[SONAR_CONDITIONS]; /* since when the condition holds, 0: it does not */
    int64_t waited_ns;                  /* the last call without samples */
    uint64_t timeline;                  /* timeline that the watches belong to */
    uint64_t samples_missing;           /* in the last report */
    double burst_hz;                    /* samples per second since the last call, NaN: unknown */
    int64_t utc_ahead_ns;               /* UTC less the monotonic clock, at the last call */
    sonar_block_watch watch[SONAR_BLOCKS_MOST];
    sonar_health_episode episode;
    int64_t silence_ns;  /* since when it has been waiting for samples, 0: it is not */
    bool silence_logged; /* logged as a warning */
} sonar_health;

/* config is borrowed for the life of the health. */
void sonar_health_init(sonar_health *health, const sonar_config *config);
/* Fills waiting_for_samples, stream, health, text and condition of the status from its counters and
 * the facts, and logs changes. Called once a second; "the last second" in texts means the time
 * since the last call. */
void sonar_health_judge(sonar_health *health, const sonar_host *host,
                        const sonar_health_facts *facts, sonar_status *status);
/* At the end of the run: logs the losses of an episode that has not ended. */
void sonar_health_end(sonar_health *health, const sonar_host *host);

/* log.c: logs the conditions that the last call did not have. */
void sonar_health_log(sonar_health *health, const sonar_host *host, int64_t now_ns,
                      const sonar_status *status);
/* stream.c: judges of rate, channels, blocks and the digitisers' clocks. */
void sonar_health_judge_stream(sonar_health *health, const sonar_health_facts *facts,
                               sonar_status *status);
/* node_clock.c: the node's clock. */
void sonar_health_judge_clock(sonar_health *health, const sonar_health_facts *facts,
                              sonar_status *status);
/* "3.0 s", "2.50 h", "1.2 days". */
const char *sonar_health_span(double seconds, char text[32]);

/* For judges: reports that a condition holds, at most once per code and call; `format` gives a
 * sentence without a full stop. The caller may add value, limit and channels to the returned
 * condition. */
sonar_condition *sonar_health_report(sonar_status *status, sonar_condition_code code,
                                     sonar_condition_severity severity, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Rounded to three digits, for rates. */
double sonar_health_rounded(double value);

#endif
