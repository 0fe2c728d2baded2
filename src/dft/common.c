/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Checks of a DFT specification, for all backends. */
#include "dft/dft.h"

#include <math.h>

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
