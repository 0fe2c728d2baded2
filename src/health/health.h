/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Health: which conditions of docs/running.md's table hold, from counters and measurements, once a
 * second on the control thread. It has no clock, thread or socket of its own, so that every row can
 * be tested without waiting.
 *
 * A row is a code in status/result.h, a function that looks at the facts and reports the condition
 * (judges in health.c), and a line of the table.
 */
#ifndef SONAR_HEALTH_H
#define SONAR_HEALTH_H

#include "config/config.h"
#include "core/node_clock.h"
#include "status/result.h"
#include "core/rights.h"

/* What is looked at beside the counters and times in the status. */
typedef struct sonar_health_facts {
    int64_t now_ns, utc_now_ns; /* monotonic, and the system's clock */
    int64_t busy_since_ns;      /* the data thread took the window it works on, 0: it has none */
    int64_t training_since_ns;  /* 0: it does not train */
    const sonar_ingest_report *stream;
    const sonar_kernel_clock *clock; /* of the same moment; NULL: nobody has looked */
    const sonar_rights *rights;      /* what the system refused; NULL: nothing */
} sonar_health_facts;

/* How a channel block has come along: its rate over up to a minute and its least age. */
enum { SONAR_RATE_POINTS = 13 };

typedef struct sonar_block_watch {
    size_t points; /* the oldest first */
    struct {
        uint64_t sample;
        int64_t ns;
    } point[SONAR_RATE_POINTS];
    double least_age_s, least_drift_s; /* by UTC, and by the index alone; NaN: none yet */
    uint64_t seen_sample;              /* end_sample, end_ns and end_utc_ns of the last look */
    int64_t seen_ns, seen_utc_ns;      /* 0: none */
} sonar_block_watch;

/* From the first look that is degraded to the first after a while that is not. */
typedef struct sonar_health_episode {
    bool open;
    int64_t began_ns, bad_ns; /* the last degraded look */
    bool told[SONAR_CONDITIONS];
    sonar_status seen; /* before it began */
} sonar_health_episode;

typedef struct sonar_health {
    const sonar_config *config;
    sonar_status seen;                  /* of the last look */
    int64_t looked_ns;                  /* the last look, 0: there was none */
    sonar_frame_cause cause, logged;    /* most frequent since, SONAR_FRAME_CAUSES: none */
    int64_t since_ns[SONAR_CONDITIONS]; /* when it began to hold, 0: it does not */
    int64_t waited_ns;                  /* the last look without samples */
    uint64_t timeline;                  /* of the watches */
    uint64_t samples_missing;           /* in the last report */
    double burst_hz;                    /* samples a second since the last look, NaN: none */
    int64_t utc_ahead_ns;               /* UTC less the monotonic clock, at the last look */
    sonar_block_watch watch[SONAR_BLOCKS_MOST];
    sonar_health_episode episode;
    int64_t silence_ns; /* since when it waits for samples, 0: it does not */
    bool silence_told;  /* as a warning */
} sonar_health;

/* config is borrowed for good. */
void sonar_health_init(sonar_health *health, const sonar_config *config);
/* Fills waiting_for_samples, stream, health, text and condition of the status from its counters
 * and the facts, and logs what is new. Called once a second: "the last second" is the time since
 * the last call. */
void sonar_health_judge(sonar_health *health, const sonar_host *host,
                        const sonar_health_facts *facts, sonar_status *status);
/* The end of the run: what an episode that is not over has cost so far. */
void sonar_health_end(sonar_health *health, const sonar_host *host);

/* Of log.c: logs what this look has that the last one had not. */
void sonar_health_log(sonar_health *health, const sonar_host *host, int64_t now_ns,
                      const sonar_status *status);
/* Judges of stream.c: rate, channels, blocks and the digitisers' clocks. */
void sonar_health_judge_stream(sonar_health *health, const sonar_health_facts *facts,
                               sonar_status *status);
/* Of node_clock.c: the node's clock. */
void sonar_health_judge_clock(sonar_health *health, const sonar_health_facts *facts,
                              sonar_status *status);
/* "3.0 s", "2.50 h", "1.2 days". */
const char *sonar_health_span(double seconds, char text[32]);

/* For judges: reports that a condition holds, at most once a code and look; the sentence of
 * `format` has no full stop. The caller may add value, limit and channels to what is returned. */
sonar_condition *sonar_health_report(sonar_status *status, sonar_condition_code code,
                                     sonar_condition_severity severity, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* To three digits, as rates are told. */
double sonar_health_rounded(double value);

#endif
