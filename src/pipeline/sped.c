/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cbf.sped: the peaks of each bin of the CBF's band, gathered. */
#include "pipeline/internal.h"

/* A scan without peaks leaves NULL. */
sonar_code sonar_peaks_plan(const sonar_config *c, struct plan *plan, sonar_error *err) {
    if (!(c->output_topics & SONAR_WANT(SONAR_CBF_SPED)))
        return SONAR_OK;
    const sonar_sped_spec spec = {
        .scan = &c->cbf_scan, .first_bin = c->specs.cbf.cbf_first, .bins = c->specs.cbf.cbf_bins};
    const sonar_code code = sonar_sped_create(&spec, &plan->sped, err);
    return code == SONAR_EINVAL ? SONAR_OK : code;
}

void sonar_peaks_run(sonar_pipeline *p, sonar_result *result) {
    const struct plan *plan = p->live->plan;
    const sonar_cbf_spec *cbf = &plan->whole->specs.cbf;
    const float *surface = result->surface[SONAR_CBF_LOFAR].data;
    float *record = result->surface[SONAR_CBF_SPED].data;
    if (!(result->present & SONAR_WANT(SONAR_CBF_SPED)))
        return;
    if (plan->sped && surface && record)
        sonar_sped_run(plan->sped, surface + (cbf->cbf_first - cbf->first_bin) * cbf->directions,
                       record);
    else
        result->present &= ~SONAR_WANT(SONAR_CBF_SPED);
}
