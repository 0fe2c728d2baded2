/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The peaks of one window's surface: on the processor, whatever the backend is. */
#include <math.h>
#include <stdlib.h>

#include "analysis/sped/sped.h"
#include "core/random.h"
#include "stages.h"

typedef struct rig {
    sonar_sped *sped;
    float *power, *record;
} rig;

static sonar_code run(void *ctx, sonar_error *err) {
    rig *r = ctx;
    (void)err;
    sonar_sped_run(r->sped, r->power, r->record);
    return SONAR_OK;
}

/* Noise in beams three directions wide, as of one transform. */
static void fill(float *power, size_t bins, size_t directions) {
    uint64_t seed = 1;
    for (size_t b = 0; b < bins; b++) {
        double re[3] = {0}, im[3] = {0};
        for (size_t i = 0; i < directions; i++) {
            re[i % 3] = sonar_random_normal(&seed);
            im[i % 3] = sonar_random_normal(&seed);
            power[b * directions + i] =
                (float)(pow(re[0] + re[1] + re[2], 2) + pow(im[0] + im[1] + im[2], 2));
        }
    }
}

/* A circle with three directions in a beam, or 16 beams. */
static sonar_code make(const bench_case *c, rig *r, sonar_error *err) {
    double *az_deg = sonar_alloc(c->angles, sizeof *az_deg);
    r->power = sonar_alloc(c->cbf.bins * c->angles, sizeof *r->power);
    r->record = sonar_alloc(c->angles, sizeof *r->record);
    sonar_code code = az_deg && r->power && r->record
                          ? SONAR_OK
                          : sonar_fail(err, SONAR_ENOMEM, "sped", "no memory");
    const double step_deg = 360.0 / (double)c->angles;
    for (size_t i = 0; i < c->angles && !code; i++)
        az_deg[i] = step_deg * (double)i;
    const sonar_scan scan = {.count = c->angles,
                             .az_deg = az_deg,
                             .wraps = true,
                             .beam_width_deg = fmin(3 * step_deg, 22.5)};
    const sonar_sped_spec spec = {&scan, c->cbf.first, c->cbf.bins};
    if (!code)
        fill(r->power, c->cbf.bins, c->angles);
    if (!code)
        code = sonar_sped_create(&spec, &r->sped, err);
    free(az_deg);
    return code;
}

sonar_code bench_run_sped(const bench_scene *s, bench_report *report, sonar_error *err) {
    const double values = (double)s->c->angles * (double)s->c->cbf.bins;
    rig r = {0};
    bench_result result = {.of = s->c,
                           .backend = "cpu",
                           .stage = "sped",
                           .implementation = "cpu",
                           .flop = 10 * values,
                           .bytes = 4 * values,
                           .error_db = NAN,
                           .sweeps = NAN};
    if (s->c->angles < 3)
        return SONAR_OK;
    sonar_code code = make(s->c, &r, err);
    if (!code)
        code = bench_measure(&r, run, NULL, &s->site->effort, &result.time, err);
    if (!code)
        bench_keep(report, &result);
    sonar_sped_destroy(r.sped);
    free(r.power);
    free(r.record);
    return code;
}
