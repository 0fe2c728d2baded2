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

static sonar_code make(const bench_case *c, rig *r, sonar_error *err) {
    double *az_deg = sonar_alloc(c->angles, sizeof *az_deg);
    r->power = sonar_alloc(c->cbf.bins * c->angles, sizeof *r->power);
    r->record = sonar_alloc(c->angles, sizeof *r->record);
    sonar_code code = az_deg && r->power && r->record
                          ? SONAR_OK
                          : sonar_fail(err, SONAR_ENOMEM, "sped", "no memory");
    if (!code) {
        const sonar_scan scan = bench_circle(c->angles, az_deg);
        const sonar_sped_spec spec = {&scan, c->cbf.first, c->cbf.bins};
        fill(r->power, c->cbf.bins, c->angles);
        code = sonar_sped_create(&spec, &r->sped, err);
    }
    free(az_deg);
    return code;
}

sonar_code bench_run_sped(const bench_scene *s, bench_report *report, sonar_error *err) {
    const double values = (double)s->c->angles * (double)s->c->cbf.bins;
    rig r = {0};
    const bench_host_stage of = {"sped", 10 * values, 4 * values, run};
    if (s->c->angles < 3)
        return SONAR_OK;
    sonar_code code = make(s->c, &r, err);
    if (!code)
        code = bench_time_host(s, &of, &r, report, err);
    sonar_sped_destroy(r.sped);
    free(r.power);
    free(r.record);
    return code;
}
