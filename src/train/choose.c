/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Times candidates alternately and chooses the fastest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "train/train.h"

typedef struct trial {
    const sonar_train_candidate *candidates;
    const sonar_train_plan *plan;
    const sonar_train_clock *clock;
    sonar_train_decision *decision;
    int64_t began_ns;
    double (*seconds)[SONAR_TRAIN_ROUNDS]; /* [candidate], sorted */
} trial;

/* Inserts the time into the sorted times. */
static void add_time(double *sorted, size_t count, double value) {
    while (count > 0 && sorted[count - 1] > value) {
        sorted[count] = sorted[count - 1];
        count--;
    }
    sorted[count] = value;
}

static double median(const double *sorted, size_t count) {
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

static void give_up(sonar_train_timing *timing, const sonar_error *why) {
    timing->available = false;
    snprintf(timing->note, sizeof timing->note, "%.60s: %.120s", why->where, why->text);
}

/* Runs every remaining candidate once; `timed`: the time counts. */
static void run_round(const trial *t, bool timed) {
    for (size_t c = 0; c < t->decision->candidates; c++) {
        sonar_train_timing *timing = &t->decision->candidate[c];
        sonar_error why = {0};
        if (!timing->available)
            continue;
        int64_t began = t->clock->now_ns(t->clock->ctx);
        sonar_code code = t->candidates[c].run(t->candidates[c].arg, &why);
        int64_t ended = t->clock->now_ns(t->clock->ctx);
        if (code)
            give_up(timing, &why);
        else if (timed)
            add_time(t->seconds[c], timing->repetitions++, (double)(ended - began) * 1e-9);
    }
}

static bool out_of_time(const trial *t) {
    return t->clock->now_ns(t->clock->ctx) - t->began_ns >= t->plan->budget_ns;
}

static void run_rounds(const trial *t) {
    for (size_t i = 0; i < t->plan->warm_up && (i == 0 || !out_of_time(t)); i++)
        run_round(t, false);
    size_t most = sonar_min_size(t->plan->rounds, SONAR_TRAIN_ROUNDS);
    for (size_t i = 0; i < most && (i == 0 || !out_of_time(t)); i++)
        run_round(t, true);
}

static void summarise(const trial *t) {
    for (size_t c = 0; c < t->decision->candidates; c++) {
        sonar_train_timing *timing = &t->decision->candidate[c];
        size_t n = timing->repetitions;
        if (!timing->available || !n) {
            timing->available = false;
            timing->repetitions = 0;
            continue;
        }
        const double *sorted = t->seconds[c];
        timing->median_s = median(sorted, n);
        timing->spread_s = (sorted[n - 1 - n / 4] - sorted[n / 4]) / 2;
    }
}

sonar_code sonar_train_choose(const char *name, const sonar_train_candidate *candidates,
                              size_t count, const sonar_train_plan *plan,
                              const sonar_train_clock *clock, sonar_train_decision *decision,
                              sonar_error *err) {
    *decision = (sonar_train_decision){.candidates = count};
    snprintf(decision->name, sizeof decision->name, "%s", name);
    if (!count || count > SONAR_TRAIN_CANDIDATES)
        return sonar_fail(err, SONAR_EINVAL, name, "%zu candidates are not 1..%d", count,
                          SONAR_TRAIN_CANDIDATES);
    for (size_t c = 0; c < count; c++) {
        decision->candidate[c].available = true;
        snprintf(decision->candidate[c].name, sizeof decision->candidate[c].name, "%s",
                 candidates[c].name);
    }
    trial t = {.candidates = candidates, .plan = plan, .clock = clock, .decision = decision};
    t.seconds = sonar_alloc(count, sizeof *t.seconds);
    if (!t.seconds)
        return sonar_fail(err, SONAR_ENOMEM, name, "no memory for the trial's times");
    t.began_ns = clock->now_ns(clock->ctx);
    run_rounds(&t);
    summarise(&t);
    free(t.seconds);
    return sonar_train_pick(decision, plan->tie_share, err);
}

/* Index of the fastest candidate other than `but`; the number of candidates if there is none. */
static size_t fastest(const sonar_train_decision *decision, size_t but) {
    size_t best = decision->candidates;
    for (size_t c = 0; c < decision->candidates; c++)
        if (c != but && decision->candidate[c].available &&
            (best == decision->candidates ||
             decision->candidate[c].median_s < decision->candidate[best].median_s))
            best = c;
    return best;
}

static void give_reason(sonar_train_decision *decision, size_t best) {
    size_t chosen = decision->chosen, rival = fastest(decision, chosen);
    const sonar_train_timing *candidate = decision->candidate;
    if (rival == decision->candidates)
        snprintf(decision->reason, sizeof decision->reason, "the only one available");
    else if (chosen != best)
        snprintf(decision->reason, sizeof decision->reason, "as fast as %s, and simpler",
                 candidate[best].name);
    else
        snprintf(decision->reason, sizeof decision->reason, "%.3g times as fast as %s",
                 candidate[rival].median_s / candidate[chosen].median_s, candidate[rival].name);
}

sonar_code sonar_train_pick(sonar_train_decision *decision, double tie_share, sonar_error *err) {
    size_t best = fastest(decision, decision->candidates);
    if (best == decision->candidates) {
        snprintf(decision->reason, sizeof decision->reason, "no candidate can run");
        return sonar_fail(err, SONAR_EUNAVAILABLE, decision->name, "no candidate can run: %s",
                          decision->candidates ? decision->candidate[0].note : "there is none");
    }
    double limit = decision->candidate[best].median_s * (1 + tie_share);
    size_t first = 0;
    while (!decision->candidate[first].available || decision->candidate[first].median_s > limit)
        first++;
    decision->chosen = first;
    give_reason(decision, best);
    return SONAR_OK;
}
