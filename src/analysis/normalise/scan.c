/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <stdlib.h>

#include "analysis/normalise/normalise.h"
#include "core/core.h"
#include "manifold/angle.h"

sonar_code sonar_normalise_create_for(const sonar_scan *scan, sonar_normalise_method method,
                                      sonar_normalise **made, sonar_error *err) {
    const double beam = sonar_beam_width(scan);
    double *at = sonar_alloc(sonar_max_size(scan->count, 1), sizeof *at);
    *made = NULL;
    if (!at)
        return sonar_fail(err, SONAR_ENOMEM, "normalise", "no memory");
    for (size_t i = 0; i < scan->count; i++)
        at[i] = sonar_beams_at(scan, scan->az_deg[i]);
    const sonar_normalise_spec spec = {.method = method,
                                       .directions = scan->count,
                                       .at_beams = at,
                                       .turn_beams = scan->wraps ? 360 / beam : 0,
                                       .gap_beams = SONAR_NORMALISE_GAP,
                                       .window_beams = SONAR_NORMALISE_WINDOW};
    const sonar_code code = sonar_normalise_create(&spec, made, err);
    free(at);
    return code;
}
