/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "pipeline/specs.h"

#include "core/core.h"

static sonar_dft_spec dft_spec(const sonar_config *c, size_t length, size_t first_bin,
                               size_t bins) {
    return (sonar_dft_spec){.channels = c->channels,
                            .sensors = c->sensors,
                            .length = length,
                            .fs_hz = c->fs_hz,
                            .first_bin = first_bin,
                            .bins = bins,
                            .window = c->window,
                            .kaiser_beta = c->kaiser_beta,
                            .remove_mean = c->remove_mean,
                            .equalise_phase = c->equalise_phase};
}

/* One DFT of whole windows serves both beamformers where both want it: it then keeps the bins of
 * both bands. */
static void make_dfts(const sonar_config *c, sonar_specs *specs) {
    size_t first = c->lofar_band.first_bin, end = first + c->lofar_band.bins;
    specs->own_mvdr_dft = c->mvdr_enabled && (c->cbf_length != c->length ||
                                              c->mvdr_length != c->length || c->mvdr_hop != c->hop);
    if (c->mvdr_enabled && !specs->own_mvdr_dft) {
        first = sonar_min_size(first, c->mvdr_band.first_bin);
        end = sonar_max_size(end, c->mvdr_band.first_bin + c->mvdr_band.bins);
    }
    specs->dft = dft_spec(c, c->cbf_length, first, end - first);
    if (specs->own_mvdr_dft)
        specs->mvdr_dft = dft_spec(c, c->mvdr_length, c->mvdr_band.first_bin, c->mvdr_band.bins);
}

static sonar_mvdr_spec mvdr_spec(const sonar_config *c) {
    return (sonar_mvdr_spec){
        .sensors = c->sensors,
        .directions = c->mvdr_scan.count,
        .fs_hz = c->fs_hz,
        .length = c->mvdr_length,
        .first_bin = c->mvdr_band.first_bin,
        .bins = c->mvdr_band.bins,
        .max_new = c->mvdr_most_new,
        .snapshots = c->mvdr_alpha > 0 ? 0 : c->mvdr_snapshots,
        .alpha = c->mvdr_alpha,
        .loading = c->mvdr_loading,
        .eps = c->mvdr_eps,
        .known_sources = c->mvdr_known_sources,
        .method = c->mvdr_method,
        .tolerance = c->mvdr_tolerance,
        .max_sweeps = c->mvdr_max_sweeps,
        .forward_backward = c->mvdr_forward_backward,
        .correct_level = c->mvdr_correct_level,
    };
}

/* Phases alone do not say how a tone is spread over bins. */
static void make_tones(const sonar_config *c, sonar_specs *specs) {
    double window[1024];
    const size_t n = sonar_min_size(c->mvdr_length, sizeof window / sizeof *window);
    if (c->equalise_phase)
        return;
    sonar_dft_window(c->window, c->kaiser_beta, n, window);
    sonar_mvdr_tones_make(window, n, &specs->tones);
    specs->mvdr.tones = &specs->tones;
}

void sonar_specs_make(const sonar_config *c, sonar_specs *specs) {
    *specs = (sonar_specs){.window_length = c->length,
                           .hop = c->hop,
                           .cbf_hop = c->cbf_hop,
                           .mvdr_enabled = c->mvdr_enabled,
                           .mvdr_hop = c->mvdr_hop,
                           .mvdr_lookback = c->mvdr_lookback,
                           .cbf = {.sensors = c->sensors,
                                   .directions = c->cbf_scan.count,
                                   .ranges = c->ranges,
                                   .fs_hz = c->fs_hz,
                                   .length = c->cbf_length,
                                   .first_bin = c->lofar_band.first_bin,
                                   .bins = c->lofar_band.bins,
                                   .cbf_first = c->cbf_band.first_bin,
                                   .cbf_bins = c->cbf_band.bins,
                                   .max_snapshots = c->cbf_snapshots}};
    make_dfts(c, specs);
    if (!c->mvdr_enabled)
        return;
    specs->mvdr = mvdr_spec(c);
    make_tones(c, specs);
}

sonar_train_shape sonar_specs_shape(const sonar_config *c, const sonar_specs *specs) {
    sonar_train_shape shape = {.sensors = c->sensors,
                               .channels = c->channels,
                               .length = c->length,
                               .hop = c->hop,
                               .bins = specs->dft.bins,
                               .directions = c->cbf_scan.count,
                               .ranges = c->ranges,
                               .lofar_bins = c->lofar_band.bins,
                               .cbf_bins = c->cbf_band.bins,
                               .workers = c->threads,
                               .sample_bytes = sonar_dtype_size(c->sample_type),
                               .cbf_length = c->cbf_length,
                               .cbf_hop = c->cbf_hop,
                               .cbf_snapshots = c->cbf_snapshots};
    for (size_t s = 0; s < c->sensors; s++)
        shape.sensors_used += c->used[s] != 0;
    if (!c->mvdr_enabled)
        return shape;
    shape.mvdr_length = c->mvdr_length;
    shape.mvdr_hop = c->mvdr_hop;
    shape.mvdr_bins = c->mvdr_band.bins;
    shape.mvdr_directions = c->mvdr_scan.count;
    shape.mvdr_snapshots = specs->mvdr.snapshots;
    shape.mvdr_new = specs->mvdr.max_new;
    shape.mvdr_sweeps = c->mvdr_max_sweeps;
    shape.mvdr_own_dft = specs->own_mvdr_dft;
    shape.mvdr_two_sided = c->mvdr_method == SONAR_MVDR_TWO_SIDED;
    return shape;
}
