/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "status/specs.h"

#include "status/topic.h"

int sonar_specs_surface(const sonar_specs *specs, sonar_surface surface, size_t shape[2]) {
    const sonar_extents extents = {
        .channels = specs->dft.channels,
        .ranges = specs->cbf.ranges,
        .cbf_directions = specs->cbf.directions,
        .cbf_bins = specs->cbf.bins,
        .mvdr_directions = specs->mvdr_enabled ? specs->mvdr.directions : 0,
        .mvdr_bins = specs->mvdr_enabled ? specs->mvdr.bins : 0,
        .mvdr_ranges = specs->mvdr_enabled ? specs->mvdr.ranges : 0,
        .mvdr_modes = specs->mvdr_enabled ? sonar_mvdr_modes(&specs->mvdr) : 0,
        .beams = specs->beams,
        .beam_samples = specs->hop,
        .off = specs->mvdr.music ? 0 : SONAR_WANT(SONAR_MUSIC_AZIMUTH),
    };
    return sonar_topic_shape(surface, &extents, shape);
}
