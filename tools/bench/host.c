/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the stages have in common that run on the processors, whatever the backend is. */
#include <math.h>

#include "stages.h"

sonar_code bench_time_host(const bench_scene *s, const bench_host_stage *stage, void *ctx,
                           bench_report *report, sonar_error *err) {
    bench_result result = {.of = s->c,
                           .backend = "cpu",
                           .stage = stage->name,
                           .implementation = "cpu",
                           .flop = stage->flop,
                           .bytes = stage->bytes,
                           .error_db = NAN,
                           .sweeps = NAN};
    const sonar_code code =
        bench_measure(ctx, stage->run, NULL, &s->site->effort, &result.time, err);
    if (!code)
        bench_keep(report, &result);
    return code;
}

sonar_scan bench_circle(size_t directions, double *az_deg) {
    const double step_deg = 360.0 / (double)directions;
    for (size_t i = 0; i < directions; i++)
        az_deg[i] = step_deg * (double)i;
    return (sonar_scan){.count = directions,
                        .az_deg = az_deg,
                        .wraps = true,
                        .beam_width_deg = fmin(3 * step_deg, 22.5)};
}
