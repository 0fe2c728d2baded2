/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Contacts below the detector's threshold, for tracks: the CBF's spectrum over the noise around
 * each direction, into analysis/faint. */
#include <math.h>
#include <stdlib.h>

#include "manifold/directions.h"
#include "pipeline/internal.h"

static const double least_probability = 0.1; /* below it a track has ended */
/* The part of a faint contact's power that listed ones may leak to its place. */
static const double leak_most = 0.5;

/* A scan that is too short leaves NULL. */
sonar_code sonar_faint_plan(const sonar_config *c, struct plan *plan, sonar_error *err) {
    struct faint_plan *f = &plan->faint;
    const sonar_faint_spec spec = {&c->cbf_scan, c->detect_faint_db};
    if (!(c->output_topics & SONAR_WANT(SONAR_TRACKS)) || !c->detect_enabled ||
        !(c->detect_faint_db > 0) || c->detect_faint_db >= c->detect_threshold_db)
        return SONAR_OK;
    sonar_code code = sonar_normalise_create_for(&c->cbf_scan, SONAR_FIVE_PASS, &f->normalise, err);
    if (!code)
        code = sonar_faint_create(&spec, &f->faint, err);
    if (code)
        return code == SONAR_EINVAL ? SONAR_OK : code;
    f->ratio = sonar_alloc(c->cbf_scan.count, sizeof *f->ratio);
    return f->ratio ? SONAR_OK
                    : sonar_fail(err, SONAR_ENOMEM, "pipeline", "no memory for faint contacts");
}

void sonar_faint_release(struct plan *plan) {
    sonar_normalise_destroy(plan->faint.normalise);
    sonar_faint_destroy(plan->faint.faint);
    free(plan->faint.ratio);
}

void sonar_faint_adopt(const struct plan *before, struct plan *now) {
    if (before != now && before->faint.faint && now->faint.faint)
        sonar_faint_take_over(now->faint.faint, before->faint.faint);
}

/* The largest power that listed contacts may leak to a place, by the frequencies at which they leak
 * most. */
static double leaked(const struct live *live, const sonar_result *result, double az_deg) {
    double sum = 0;
    for (size_t i = 0; i < result->detections; i++) {
        const sonar_detection *d = &result->detection[i];
        const sonar_point of = {d->az_deg, isfinite(d->range_m) ? d->range_m : INFINITY},
                          at = {az_deg, INFINITY};
        double share[SONAR_PATTERN_PARTS], most = 0;
        sonar_pattern_shares(live->pattern, of, at, SONAR_PATTERN_BLUR, share);
        for (size_t part = 0; part < SONAR_PATTERN_PARTS; part++)
            most = fmax(most, share[part]);
        sum += most * d->power;
    }
    return sum;
}

/* Keeps the contacts that no listed one explains. */
static size_t sift(const struct live *live, const sonar_result *result, size_t count,
                   sonar_faint_contact *contact) {
    const struct faint_plan *f = &live->plan->faint;
    const float *power = result->surface[SONAR_CBF_AZIMUTH].data;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        sonar_faint_contact is = contact[i];
        const size_t at = sonar_scan_nearest(&live->plan->config->cbf_scan, is.az_deg);
        const double noise = (double)power[at] / fmax((double)f->ratio[at], 1e-6);
        is.power = fmax((double)power[at], noise);
        if (leaked(live, result, is.az_deg) > leak_most * noise * (pow(10, is.snr_db / 10) - 1))
            sonar_faint_clear(f->faint, is.az_deg);
        else if (is.power > 0)
            contact[kept++] = is;
    }
    return kept;
}

size_t sonar_faint_contacts(sonar_pipeline *p, const sonar_result *result,
                            const sonar_tracks_window *window, double turned_deg,
                            sonar_faint_contact contact[SONAR_FAINT_MOST]) {
    const struct live *live = p->live;
    const struct faint_plan *f = &live->plan->faint;
    const float *power = result->surface[SONAR_CBF_AZIMUTH].data;
    const double averages = sonar_cbf_averages(live->plan);
    double of_deg[2 * SONAR_DETECTIONS_MOST];
    if (!f->faint || !power)
        return 0;
    for (size_t i = 0; i < result->detections; i++)
        of_deg[i] = result->detection[i].az_deg;
    sonar_normalise_run(f->normalise, averages, power, f->ratio);
    const sonar_faint_window w = {.since_s = window->since_s,
                                  .fresh = window->of[SONAR_FROM_CBF].fresh,
                                  .averages = averages,
                                  .turned_deg = turned_deg,
                                  .ratio = f->ratio,
                                  .of_deg = of_deg,
                                  .count = result->detections};
    sonar_faint_run(f->faint, &w);
    return sift(live, result, sonar_faint_find(f->faint, least_probability, contact), contact);
}
