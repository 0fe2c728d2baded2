/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the errors of bearings rest on: of the configuration once, of the sensors in use once a
 * version, of the snapshots in each window. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dft/dft.h"
#include "pipeline/internal.h"

/* Two bands have one noise if both share this much of them. */
static const double common_band = 0.8;

void sonar_accuracy_plan(const sonar_config *c, struct plan *plan) {
    enum { POINTS = 256 };
    const sonar_specs *specs = &c->specs;
    const sonar_cbf_spec *cbf = &specs->cbf;
    const sonar_mvdr_spec *mvdr = &specs->mvdr;
    double taper[POINTS];
    sonar_dft_taper(specs->dft.taper, specs->dft.kaiser_beta, POINTS, taper);
    plan->averages[SONAR_FROM_CBF] =
        sonar_averages_of(taper, POINTS, (double)specs->cbf_hop / (double)cbf->length,
                          (double)cbf->max_snapshots, cbf->cbf_bins);
    if (specs->mvdr_enabled)
        plan->averages[SONAR_FROM_MVDR] =
            sonar_averages_of(taper, POINTS, (double)specs->mvdr_hop / (double)mvdr->length,
                              sonar_mvdr_effective(mvdr), mvdr->bins);
}

sonar_code sonar_accuracy_version(const sonar_params *params, struct live *live, sonar_error *err) {
    float *equal = sonar_alloc(sonar_max_size(params->sensors, 1), sizeof *equal);
    if (!equal)
        return sonar_fail(err, SONAR_ENOMEM, "live", "no memory");
    for (size_t k = 0; k < params->sensors; k++)
        equal[k] = params->used[k] ? 1 : 0;
    sonar_aperture_of(params->sensors, params->position_m, params->shading,
                      &live->aperture[SONAR_FROM_CBF]);
    sonar_aperture_of(params->sensors, params->position_m, equal, &live->aperture[SONAR_FROM_MVDR]);
    free(equal);
    live->own_share = sonar_own_share(live->pattern, &live->plan->whole->cbf_scan);
    return SONAR_OK;
}

void sonar_accuracy_tick(const sonar_pipeline *p, sonar_status *status) {
    const sonar_config *c = sonar_pipeline_config(p);
    const double hz = fmax(c->cbf_band.high_hz, c->specs.mvdr_enabled ? c->mvdr_band.high_hz : 0);
    const double error_rad =
        6.283185307179586477 * c->array_error.position_m * hz / c->sound_speed_mps;
    status->positions_cost_db = 10 * log10(exp(1)) * error_rad * error_rad;
    status->positions_cost_hz = hz;
}

/* ---- of a window ----------------------------------------------------------------------------- */

static void take_band(sonar_accuracy *a, size_t first, size_t bins, double bin_hz) {
    a->bins = bins;
    a->bin_hz = bin_hz;
    a->low_hz = (double)first * bin_hz;
    a->high_hz = (double)(first + bins - 1) * bin_hz;
}

/* A mode's rejection has no loading: noise takes its place. */
sonar_accuracy sonar_accuracy_mvdr(const sonar_pipeline *p, const sonar_result *result) {
    const struct live *live = p->live;
    const sonar_mvdr_spec *mvdr = &live->plan->whole->specs.mvdr;
    const double sensors = (double)sonar_max_size(result->params.mvdr_sensors_used, 1);
    const double snapshots = result->mvdr_snapshots;
    const bool loaded = mvdr->dmr == SONAR_MODES_OFF;
    sonar_accuracy a = {.aperture = &live->aperture[SONAR_FROM_MVDR],
                        .c_mps = result->params.sound_speed_mps,
                        .averages = live->plan->averages[SONAR_FROM_MVDR],
                        .level = fmin(pow(10, result->mvdr_level_db / 10), 1),
                        .level_corrected = mvdr->correct_level};
    take_band(&a, mvdr->first_bin, mvdr->bins, mvdr->fs_hz / (double)mvdr->length);
    a.averages.noise *= snapshots / sonar_mvdr_effective(mvdr);
    a.averages.tone *= snapshots / sonar_mvdr_effective(mvdr);
    if (loaded) {
        a.loading = result->mvdr_delta * a.bin_hz / sensors;
        a.lost =
            sonar_averages_lost((mvdr->forward_backward ? 2 : 1) * snapshots, sensors, a.level);
    }
    return a;
}

/* What both bands have in common, as a share of all that either has. */
static double in_common(const sonar_accuracy *a, const sonar_accuracy *b) {
    return (fmin(a->high_hz, b->high_hz) - fmax(a->low_hz, b->low_hz) + a->bin_hz) /
           (fmax(a->high_hz, b->high_hz) - fmin(a->low_hz, b->low_hz) + a->bin_hz);
}

/* In a beam of the CBF, by the median of MVDR's spectrum, which has no side lobes. */
static double noise_by_mvdr(sonar_pipeline *p, const sonar_result *result,
                            const sonar_accuracy *cbf) {
    const sonar_specs *specs = &p->live->plan->whole->specs;
    const sonar_buffer *surface = &result->surface[SONAR_MVDR_AZIMUTH];
    if (!specs->mvdr_enabled || !(result->mvdr_snapshots > 0) || specs->dft.equalise_phase)
        return 0;
    const sonar_accuracy mvdr = sonar_accuracy_mvdr(p, result);
    if (in_common(cbf, &mvdr) < common_band)
        return 0;
    memcpy(p->detect_scratch, surface->data, surface->shape[0] * sizeof *p->detect_scratch);
    const double power = (double)sonar_median(p->detect_scratch, surface->shape[0]);
    const double noise =
        sonar_beam_noise(power, mvdr.loading * (double)mvdr.bins, mvdr.level, mvdr.level_corrected);
    const double width = (double)cbf->bins * cbf->bin_hz / ((double)mvdr.bins * mvdr.bin_hz);
    return noise * width * cbf->aperture->share / mvdr.aperture->share;
}

sonar_accuracy sonar_accuracy_cbf(sonar_pipeline *p, const sonar_result *result) {
    const struct live *live = p->live;
    const sonar_cbf_spec *cbf = &live->plan->whole->specs.cbf;
    sonar_accuracy a = {.aperture = &live->aperture[SONAR_FROM_CBF],
                        .c_mps = result->params.sound_speed_mps,
                        .averages = live->plan->averages[SONAR_FROM_CBF],
                        .own_share = live->own_share};
    take_band(&a, cbf->cbf_first, cbf->cbf_bins, cbf->fs_hz / (double)cbf->length);
    a.noise = noise_by_mvdr(p, result, &a);
    return a;
}
