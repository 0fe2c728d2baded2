/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/specs.h"

static int vector(size_t shape[2], size_t count) {
    shape[0] = count;
    return 1;
}

static int matrix(size_t shape[2], size_t rows, size_t columns) {
    shape[0] = rows;
    shape[1] = columns;
    return rows ? 2 : 0;
}

int sonar_specs_surface(const sonar_specs *specs, sonar_surface surface, size_t shape[2]) {
    const sonar_cbf_spec *cbf = &specs->cbf;
    const sonar_mvdr_spec *mvdr = &specs->mvdr;
    switch (surface) {
    case SONAR_CBF_AZIMUTH:
        return vector(shape, cbf->directions);
    case SONAR_CBF_NEARFIELD:
        return matrix(shape, cbf->ranges, cbf->directions);
    case SONAR_CBF_LOFAR:
        return matrix(shape, cbf->bins, cbf->directions);
    case SONAR_MVDR_AZIMUTH:
        return specs->mvdr_enabled ? vector(shape, mvdr->directions) : 0;
    case SONAR_MVDR_SPECTRUM:
        return specs->mvdr_enabled ? matrix(shape, mvdr->bins, mvdr->directions) : 0;
    case SONAR_ELEMENT_PSD:
        return matrix(shape, specs->dft.channels, cbf->bins);
    case SONAR_ELEMENT_MISSING:
        return vector(shape, specs->dft.channels);
    default:
        return 0;
    }
}
