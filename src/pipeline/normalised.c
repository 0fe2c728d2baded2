/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cbf.normalised and mvdr.normalised: the spectra over the noise around each direction. */
#include "pipeline/internal.h"

/* A scan that is too short to have noise beside each direction leaves NULL. */
static sonar_code make(const sonar_config *c, const sonar_scan *scan, sonar_normalise **made,
                       sonar_error *err) {
    const sonar_code code = sonar_normalise_create_for(scan, c->normaliser, made, err);
    return code == SONAR_EINVAL ? SONAR_OK : code;
}

sonar_code sonar_normalised_plan(const sonar_config *c, struct plan *plan, sonar_error *err) {
    sonar_code code = SONAR_OK;
    if (c->output_topics & SONAR_WANT(SONAR_CBF_NORMALISED))
        code = make(c, &c->cbf_scan, &plan->normalise[SONAR_FROM_CBF], err);
    if (!code && c->specs.mvdr_enabled && c->output_topics & SONAR_WANT(SONAR_MVDR_NORMALISED))
        code = make(c, &c->mvdr_scan, &plan->normalise[SONAR_FROM_MVDR], err);
    return code;
}

double sonar_cbf_averages(const struct plan *plan) {
    return plan->averages[SONAR_FROM_CBF].noise * (double)plan->whole->specs.cbf.cbf_bins;
}

/* Weights that follow the noise of their own snapshots cost some of them. */
static double mvdr_averages(const sonar_pipeline *p, const sonar_result *result) {
    const sonar_accuracy a = sonar_accuracy_mvdr(p, result);
    return a.averages.noise * (double)a.bins * (1 - a.lost);
}

/* Without a normaliser or without the spectrum nothing is published. */
static void run(sonar_normalise *n, double averages, sonar_surface from, sonar_surface to,
                sonar_result *result) {
    if (n && result->surface[from].data && result->surface[to].data)
        sonar_normalise_run(n, averages, result->surface[from].data, result->surface[to].data);
    else
        result->present &= ~SONAR_WANT(to);
}

void sonar_normalised_run(sonar_pipeline *p, sonar_result *result) {
    const struct plan *plan = p->live->plan;
    if (result->present & SONAR_WANT(SONAR_CBF_NORMALISED))
        run(plan->normalise[SONAR_FROM_CBF], sonar_cbf_averages(plan), SONAR_CBF_AZIMUTH,
            SONAR_CBF_NORMALISED, result);
    if (result->present & SONAR_WANT(SONAR_MVDR_NORMALISED))
        run(plan->normalise[SONAR_FROM_MVDR], mvdr_averages(p, result), SONAR_MVDR_AZIMUTH,
            SONAR_MVDR_NORMALISED, result);
}
