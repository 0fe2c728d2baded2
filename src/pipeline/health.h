/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Health: which conditions of docs/running.md's table hold, from counters and measurements, once a
 * second on the control thread. It has no clock, thread or socket of its own, so that every row can
 * be tested without waiting.
 *
 * A row is a code in core/result.h, a function that looks at the facts and reports the condition
 * (judges in health.c), and a line of the table.
 */
#ifndef SONAR_HEALTH_H
#define SONAR_HEALTH_H

#include "config/config.h"
#include "core/result.h"

/* What is looked at beside the counters in the status. */
typedef struct sonar_health_facts {
    int64_t now_ns; /* monotonic */
} sonar_health_facts;

typedef struct sonar_health {
    const sonar_config *config;
    uint64_t received, dropped[SONAR_FRAME_CAUSES]; /* as of the last look */
    uint64_t windows_dropped[SONAR_WINDOW_CAUSES], windows_failed, results_dropped;
    sonar_frame_cause cause, logged;    /* most frequent since, SONAR_FRAME_CAUSES: none */
    int64_t since_ns[SONAR_CONDITIONS]; /* when it began to hold, 0: it does not */
    char last[16];                      /* health of the last look */
} sonar_health;

/* config is borrowed for good. */
void sonar_health_init(sonar_health *health, const sonar_config *config);
/* Fills waiting_for_samples, health, text and condition of the status from its counters and the
 * facts. Called once a second: what "the last second" means is the time since the last call. */
void sonar_health_judge(sonar_health *health, const sonar_health_facts *facts,
                        sonar_status *status);
/* Logs what is new in the status that was judged last. */
void sonar_health_log(sonar_health *health, const sonar_host *host, const sonar_status *status);

/* For judges: reports that a condition holds, at most once a code and look; the sentence of
 * `format` has no full stop. The caller may add value, limit and channels to what is returned. */
sonar_condition *sonar_health_report(sonar_status *status, sonar_condition_code code,
                                     sonar_condition_severity severity, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
