/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Checks of a DFT specification, for all backends. */
#include "dft/dft.h"

#include <math.h>

#include "core/core.h"

static const size_t BATCH_MIB = 2048;

sonar_code sonar_dft_check(const sonar_dft_spec *spec, sonar_error *err) {
    if (spec->length < 2 || spec->length > SONAR_DFT_LENGTH_MOST)
        return sonar_fail(err, SONAR_EINVAL, "dft", "length %zu is not in 2..%d", spec->length,
                          SONAR_DFT_LENGTH_MOST);
    if (!spec->channels || !spec->sensors || spec->sensors > UINT32_MAX)
        return sonar_fail(err, SONAR_EINVAL, "dft", "%zu channels and %zu sensors", spec->channels,
                          spec->sensors);
    size_t last = spec->length / 2 + 1;
    if (!spec->bins || spec->bins > last || spec->first_bin > last - spec->bins)
        return sonar_fail(err, SONAR_EINVAL, "dft", "bins %zu + %zu do not fit into length %zu",
                          spec->first_bin, spec->bins, spec->length);
    if (!(spec->fs_hz > 0) || !isfinite(spec->fs_hz))
        return sonar_fail(err, SONAR_EINVAL, "dft", "sampling rate %g Hz", spec->fs_hz);
    if ((unsigned)spec->taper > SONAR_FLATTOP)
        return sonar_fail(err, SONAR_EINVAL, "dft", "unknown taper %d", (int)spec->taper);
    if (spec->taper == SONAR_KAISER && !(spec->kaiser_beta >= 0 && spec->kaiser_beta <= 500))
        return sonar_fail(err, SONAR_EINVAL, "dft", "Kaiser beta %g is not in 0..500",
                          spec->kaiser_beta);
    return SONAR_OK;
}

/* ---- a GPU's memory -------------------------------------------------------------------------- */

size_t sonar_dft_batch(const sonar_dft_spec *spec) {
    const size_t bytes_each = spec->length * 2 * sizeof(sonar_c32);
    const size_t most = sonar_max_size((BATCH_MIB << 20) / bytes_each, 1);
    const size_t batches = (spec->sensors + most - 1) / most;
    return (spec->sensors + batches - 1) / batches;
}

double sonar_dft_device_bytes(const sonar_dft_spec *spec) {
    const size_t n = spec->length;
    const bool fused =
        n >= SONAR_DFT_FUSED_LEAST && n <= SONAR_DFT_FUSED_MOST && (n & (n - 1)) == 0;
    const double samples = 4 * (double)n, bins = 8 * (double)(n / 2 + 1);
    double channel = 4 + SONAR_GAPS_MOST * (double)sizeof(sonar_gap); /* the list of gaps */
    channel += spec->in_place ? 0 : samples;
    const double batch = fused ? 0 : (double)sonar_dft_batch(spec) * (samples + 2 * bins);
    return samples + 32 * (double)spec->sensors + channel * (double)spec->channels + batch;
}
