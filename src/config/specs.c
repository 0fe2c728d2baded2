/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Makes the specifications of the stages and the live parameters from a resolved configuration,
 * because the stages do not know the configuration. */
#include "config/options.h"

#include "core/core.h"
#include "dft/dft.h"
#include "mvdr_jacobi/mvdr_jacobi.h"

#include <math.h>

/* Phases alone do not show how a tone is spread over bins. */
static void make_tones(sonar_specs *specs) {
    double window[1024];
    const size_t n = sonar_min_size(specs->mvdr.length, sizeof window / sizeof *window);
    if (specs->dft.equalise_phase)
        return;
    sonar_dft_taper(specs->dft.taper, specs->dft.kaiser_beta, n, window);
    sonar_mvdr_tones_make(window, n, &specs->tones);
    specs->mvdr.tones = &specs->tones;
}

static void complete_mvdr(sonar_config *c) {
    sonar_specs *specs = &c->specs;
    sonar_mvdr_spec *mvdr = &specs->mvdr;
    mvdr->sensors = c->sensors;
    mvdr->directions = c->mvdr_scan.count;
    mvdr->ranges = c->mvdr_nearfield ? c->specs.cbf.ranges : 0;
    mvdr->fs_hz = c->fs_hz;
    mvdr->first_bin = c->mvdr_band.first_bin;
    mvdr->bins = c->mvdr_band.bins;
    make_tones(specs);
    specs->own_mvdr_dft = specs->cbf.length != specs->window_length ||
                          mvdr->length != specs->window_length || specs->mvdr_hop != specs->hop;
    if (specs->own_mvdr_dft) {
        specs->mvdr_dft = specs->dft;
        specs->mvdr_dft.length = mvdr->length;
        specs->mvdr_dft.first_bin = mvdr->first_bin;
        specs->mvdr_dft.bins = mvdr->bins;
        return;
    }
    /* One DFT of whole windows serves both beamformers, so it keeps the bins of both bands. */
    const size_t end =
        sonar_max_size(specs->dft.first_bin + specs->dft.bins, mvdr->first_bin + mvdr->bins);
    specs->dft.first_bin = sonar_min_size(specs->dft.first_bin, mvdr->first_bin);
    specs->dft.bins = end - specs->dft.first_bin;
}

void sonar_resolve_specs(sonar_config *c) {
    sonar_dft_spec *dft = &c->specs.dft;
    sonar_cbf_spec *cbf = &c->specs.cbf;
    cbf->sensors = dft->sensors = c->sensors;
    cbf->fs_hz = dft->fs_hz = c->fs_hz;
    cbf->first_bin = dft->first_bin = c->lofar_band.first_bin;
    cbf->bins = dft->bins = c->lofar_band.bins;
    cbf->directions = c->cbf_scan.count;
    cbf->cbf_first = c->cbf_band.first_bin;
    cbf->cbf_bins = c->cbf_band.bins;
    dft->channels = c->channels;
    dft->length = cbf->length;
    if (c->specs.mvdr_enabled)
        complete_mvdr(c);
}

bool sonar_config_bends(const sonar_config *c) {
    return c->tow_model == SONAR_TOW_FOLLOW || c->tow_model == SONAR_TOW_SENSORS;
}

double sonar_config_tow_trail(const sonar_config *c) {
    if (c->tow_model == SONAR_TOW_SENSORS)
        return 0;
    return sqrt(fmax(c->tow_scope_m * c->tow_scope_m - c->tow_depth_m * c->tow_depth_m, 0));
}

double sonar_config_tow_length(const sonar_config *c, double *front_m) {
    double back_m = c->position_m[0];
    *front_m = back_m;
    for (size_t k = 1; k < c->sensors; k++) {
        *front_m = fmax(*front_m, c->position_m[3 * k]);
        back_m = fmin(back_m, c->position_m[3 * k]);
    }
    return *front_m - back_m;
}

sonar_params_spec sonar_config_params(const sonar_config *c) {
    return (sonar_params_spec){.config_version = c->version,
                               .sensors = c->sensors,
                               .position_m = c->position_m,
                               .channel = c->channel,
                               .used = c->used,
                               .gain_db = c->calibrated ? c->gain_db : NULL,
                               .phase_deg = c->phase_deg,
                               .delay_us = c->delay_us,
                               .shading_weight = c->shading_weight,
                               .sound_speed_mps = c->sound_speed_mps,
                               .heading_deg = c->heading_deg,
                               .heading_known = c->heading_known,
                               .cbf_scan = &c->cbf_scan,
                               .mvdr_scan = c->specs.mvdr_enabled ? &c->mvdr_scan : NULL,
                               .cbf_bin_hz = c->fs_hz / (double)c->specs.cbf.length,
                               .mvdr_bin_hz = c->fs_hz / (double)c->specs.mvdr.length,
                               .ranges = c->specs.cbf.ranges,
                               .range_m = c->range_m,
                               .mvdr_near = c->mvdr_nearfield,
                               .range_reference = c->range_reference,
                               .cbf = &c->specs.cbf,
                               .mvdr = c->specs.mvdr_enabled ? &c->specs.mvdr : NULL,
                               .forward_backward =
                                   c->specs.mvdr_enabled && c->specs.mvdr.forward_backward};
}
