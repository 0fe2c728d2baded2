/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which stages run where, and the shape of what they compute. */
#include <stdio.h>
#include <string.h>

#include "core/core.h"
#include "train/train.h"

const char *const sonar_train_stage_names[SONAR_ENGINE_STAGES] = {
    [SONAR_ENGINE_DFT] = "dft", [SONAR_ENGINE_CBF] = "cbf", [SONAR_ENGINE_MVDR] = "mvdr_jacobi"};

sonar_train_shape sonar_train_shape_of(const sonar_train_setup *setup) {
    const sonar_specs *specs = setup->specs;
    const sonar_cbf_spec *cbf = &specs->cbf;
    const sonar_mvdr_spec *mvdr = &specs->mvdr;
    sonar_train_shape shape = {.sensors = specs->dft.sensors,
                               .sensors_used = setup->sensors_used,
                               .channels = specs->dft.channels,
                               .sample_bytes = sonar_dtype_size(setup->sample_type),
                               .length = specs->window_length,
                               .hop = specs->hop,
                               .bins = specs->dft.bins,
                               .directions = cbf->directions,
                               .ranges = cbf->ranges,
                               .lofar_bins = cbf->bins,
                               .cbf_bins = cbf->cbf_bins,
                               .cbf_length = cbf->length,
                               .cbf_hop = specs->cbf_hop,
                               .cbf_snapshots = cbf->max_snapshots,
                               .workers = setup->host->workers};
    if (!specs->mvdr_enabled)
        return shape;
    shape.mvdr_length = mvdr->length;
    shape.mvdr_hop = specs->mvdr_hop;
    shape.mvdr_bins = mvdr->bins;
    shape.mvdr_directions = mvdr->directions;
    shape.mvdr_snapshots = mvdr->snapshots;
    shape.mvdr_new = mvdr->max_new;
    shape.mvdr_sweeps = mvdr->max_sweeps;
    shape.mvdr_own_dft = specs->own_mvdr_dft;
    return shape;
}

size_t sonar_train_stages(const sonar_train_shape *shape) {
    return shape->mvdr_bins ? SONAR_ENGINE_STAGES : SONAR_ENGINE_MVDR;
}

/* A backend named in the configuration applies to all stages. */
size_t sonar_placements(const sonar_train_setup *setup, const sonar_backend *opened,
                        sonar_placement *placement) {
    static const sonar_placement order[SONAR_TRAIN_CANDIDATES] = {0, 7, 3, 6, 4, 1, 5, 2};
    const sonar_placement all =
        (1u << (setup->specs->mvdr_enabled ? SONAR_ENGINE_STAGES : SONAR_ENGINE_MVDR)) - 1;
    const bool device = opened != sonar_backend_cpu(), mixed = !strcmp(setup->backend, "auto");
    size_t count = 0;
    for (size_t i = 0; i < SONAR_TRAIN_CANDIDATES; i++)
        if (order[i] <= all && (device ? mixed || order[i] == all : order[i] == 0))
            placement[count++] = order[i];
    return count;
}

void sonar_placement_name(sonar_placement placement, size_t stages, const char *device,
                          char name[32]) {
    const bool uniform = placement == 0 || placement == (1u << stages) - 1;
    int used = 0;
    for (size_t s = 0; s < (uniform ? 1 : stages) && used < 31; s++)
        used += snprintf(name + used, 32 - (size_t)used, "%s%.9s", s ? "." : "",
                         placement >> s & 1 ? device : "cpu");
}

bool sonar_placement_find(const char *name, size_t stages, const char *device,
                          sonar_placement *placement) {
    for (*placement = 0; *placement < 1u << stages; ++*placement) {
        char own[32];
        sonar_placement_name(*placement, stages, device, own);
        if (!strcmp(own, name))
            return true;
    }
    return false;
}
