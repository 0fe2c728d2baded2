/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Checks of a beamformer's specification and tables, for all backends. */
#include "cbf/cbf.h"

#include <math.h>

sonar_code sonar_cbf_check(const sonar_cbf_spec *spec, sonar_error *err) {
    size_t points;
    if (!spec->sensors || !spec->directions || !spec->length || !(spec->fs_hz > 0) ||
        __builtin_mul_overflow(spec->directions, spec->ranges, &points))
        return sonar_fail(err, SONAR_EINVAL, "cbf",
                          "%zu sensors, %zu directions, %zu ranges, length %zu, fs %g Hz",
                          spec->sensors, spec->directions, spec->ranges, spec->length, spec->fs_hz);
    if (!spec->cbf_bins || spec->cbf_bins > spec->bins || spec->cbf_first < spec->first_bin ||
        spec->cbf_first - spec->first_bin > spec->bins - spec->cbf_bins)
        return sonar_fail(err, SONAR_EINVAL, "cbf",
                          "band of bins %zu + %zu is not inside %zu + %zu", spec->cbf_first,
                          spec->cbf_bins, spec->first_bin, spec->bins);
    if (!spec->max_snapshots)
        return sonar_fail(err, SONAR_EINVAL, "cbf", "no snapshot is allowed, one is the least");
    return SONAR_OK;
}

sonar_code sonar_cbf_renew(sonar_cbf_spec *spec, const sonar_params *params, bool *changed,
                           sonar_error *err) {
    const sonar_cbf_spec *live = params->cbf;
    sonar_cbf_spec renewed = *spec;
    *changed = live && (live->cbf_first != spec->cbf_first || live->cbf_bins != spec->cbf_bins);
    if (!*changed)
        return SONAR_OK;
    renewed.cbf_first = live->cbf_first;
    renewed.cbf_bins = live->cbf_bins;
    const sonar_code code = sonar_cbf_check(&renewed, err);
    if (code)
        *changed = false;
    else
        *spec = renewed;
    return code;
}

bool sonar_cbf_takes(const sonar_cbf_spec *spec, const sonar_manifold *manifold, size_t ranges) {
    double fs_hz = manifold->bin_width_hz * (double)spec->length;
    return manifold->turns && manifold->sensors == spec->sensors &&
           manifold->directions == spec->directions && manifold->ranges == ranges &&
           fabs(fs_hz / spec->fs_hz - 1) < 1e-9;
}
