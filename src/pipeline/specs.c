/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "pipeline/specs.h"

#include "core/core.h"

sonar_train_shape sonar_specs_shape(const sonar_config *c, const sonar_specs *specs) {
    sonar_train_shape shape = {.sensors = c->sensors,
                               .channels = c->channels,
                               .length = c->specs.window_length,
                               .hop = c->specs.hop,
                               .bins = specs->dft.bins,
                               .directions = c->cbf_scan.count,
                               .ranges = c->specs.cbf.ranges,
                               .lofar_bins = c->lofar_band.bins,
                               .cbf_bins = c->cbf_band.bins,
                               .workers = c->threads,
                               .sample_bytes = sonar_dtype_size(c->sample_type),
                               .cbf_length = c->specs.cbf.length,
                               .cbf_hop = c->specs.cbf_hop,
                               .cbf_snapshots = c->specs.cbf.max_snapshots};
    for (size_t s = 0; s < c->sensors; s++)
        shape.sensors_used += c->used[s] != 0;
    if (!c->specs.mvdr_enabled)
        return shape;
    shape.mvdr_length = c->specs.mvdr.length;
    shape.mvdr_hop = c->specs.mvdr_hop;
    shape.mvdr_bins = c->mvdr_band.bins;
    shape.mvdr_directions = c->mvdr_scan.count;
    shape.mvdr_snapshots = specs->mvdr.snapshots;
    shape.mvdr_new = specs->mvdr.max_new;
    shape.mvdr_sweeps = c->specs.mvdr.max_sweeps;
    shape.mvdr_own_dft = specs->own_mvdr_dft;
    shape.mvdr_two_sided = c->specs.mvdr.method == SONAR_MVDR_TWO_SIDED;
    return shape;
}
