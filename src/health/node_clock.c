/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Conditions of the node's own clock. It gives headings their time and samples their age; the order
 * of windows never depends on it. */
#include <math.h>

#include "health/health.h"

/* The limits of docs/running.md. */
static const double step_s = 0.005;
static const double max_error_s = 1;

static void tell_state(const sonar_kernel_clock *clock, sonar_node_clock *to) {
    to->synchronised = to->offset_s = to->max_error_s = NAN;
    to->frequency_ppm = to->tai_s = to->leap = NAN;
    if (!clock || !clock->known)
        return;
    to->synchronised = clock->synchronised;
    to->offset_s = clock->offset_s;
    to->max_error_s = clock->max_error_s;
    to->frequency_ppm = clock->frequency_ppm;
    to->tai_s = clock->tai_s ? clock->tai_s : NAN;
    to->leap = clock->leap;
}

/* Both clocks are slewed alike, so their difference changes only by steps. 0: none. */
static double stepped_s(sonar_health *h, const sonar_health_facts *facts) {
    const int64_t ahead_ns = facts->utc_now_ns - facts->now_ns;
    const double moved_s = (double)(ahead_ns - h->utc_ahead_ns) * 1e-9;
    h->utc_ahead_ns = ahead_ns;
    return h->looked_ns && fabs(moved_s) > step_s ? moved_s : 0;
}

static void judge_step(const sonar_status *seen, double by_s, sonar_status *status) {
    const bool headings = status->navigation.asked;
    char much[32];
    status->clock.steps = seen->clock.steps + (by_s != 0);
    status->clock.last_step_s = by_s != 0               ? by_s
                                : seen->clock.steps > 0 ? seen->clock.last_step_s
                                                        : NAN;
    if (by_s == 0)
        return;
    sonar_condition *condition = sonar_health_report(
        status, SONAR_CONDITION_NODE_CLOCK_STEPPED, headings ? SONAR_DEGRADED : SONAR_NOTICE,
        "this machine's clock was set %s by %s%s", by_s > 0 ? "forward" : "back",
        sonar_health_span(fabs(by_s), much),
        headings ? ": headings around that time may be wrong" : "");
    condition->value = by_s;
    condition->limit = step_s;
}

/* Headings from instruments get their times from this clock. */
static void judge_state(const sonar_kernel_clock *clock, sonar_status *status) {
    char much[32];
    if (!clock || !clock->known || !status->navigation.asked ||
        (clock->synchronised && clock->max_error_s <= max_error_s))
        return;
    sonar_condition *condition =
        clock->synchronised
            ? sonar_health_report(
                  status, SONAR_CONDITION_NODE_CLOCK_UNSYNCHRONISED, SONAR_NOTICE,
                  "this machine's clock may be off by %s: it is no longer synchronised",
                  sonar_health_span(clock->max_error_s, much))
            : sonar_health_report(status, SONAR_CONDITION_NODE_CLOCK_UNSYNCHRONISED, SONAR_NOTICE,
                                  "this machine's clock, by which headings are timed, is not "
                                  "synchronised");
    condition->value = clock->max_error_s;
    condition->limit = max_error_s;
}

void sonar_health_judge_clock(sonar_health *h, const sonar_health_facts *facts,
                              sonar_status *status) {
    tell_state(facts->clock, &status->clock);
    judge_step(&h->seen, stepped_s(h, facts), status);
    judge_state(facts->clock, status);
}
