/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One spectrum over the noise around each direction, by each method: on the processor, whatever the
 * backend is. */
#include <math.h>
#include <stdlib.h>

#include "analysis/normalise/normalise.h"
#include "core/random.h"
#include "stages.h"

#define STAGE(constant, word, ...) "normalise." word

typedef struct rig {
    sonar_normalise *normalise;
    float *power, *ratio;
} rig;

static sonar_code run(void *ctx, sonar_error *err) {
    rig *r = ctx;
    (void)err;
    sonar_normalise_run(r->normalise, 100, r->power, r->ratio);
    return SONAR_OK;
}

static sonar_code make(size_t directions, sonar_normalise_method method, rig *r, sonar_error *err) {
    uint64_t seed = 1;
    double *az_deg = sonar_alloc(directions, sizeof *az_deg);
    r->power = sonar_alloc(directions, sizeof *r->power);
    r->ratio = sonar_alloc(directions, sizeof *r->ratio);
    sonar_code code = az_deg && r->power && r->ratio
                          ? SONAR_OK
                          : sonar_fail(err, SONAR_ENOMEM, "normalise", "no memory");
    for (size_t i = 0; i < directions && !code; i++)
        r->power[i] = (float)exp(sonar_random_normal(&seed));
    if (!code) {
        const sonar_scan scan = bench_circle(directions, az_deg);
        code = sonar_normalise_create_for(&scan, method, &r->normalise, err);
    }
    free(az_deg);
    return code;
}

/* A pass is 12 operations a direction; a median and a mean of 48 directions, 4 for each. */
static double flop(sonar_normalise_method method) {
    static const int clips[] = {SONAR_NORMALISE_METHODS(SONAR_PICK_VALUE, SONAR_COMMA)};
    return 6 + (clips[method] ? 12 * (clips[method] + 1) : 4 * 48);
}

static sonar_code time_method(const bench_scene *s, sonar_normalise_method method,
                              bench_report *report, sonar_error *err) {
    static const char *const stage[] = {SONAR_NORMALISE_METHODS(STAGE, SONAR_COMMA)};
    rig r = {0};
    const bench_host_stage of = {stage[method], flop(method) * (double)s->c->angles,
                                 8 * (double)s->c->angles, run};
    sonar_code code = make(s->c->angles, method, &r, err);
    if (!code)
        code = bench_time_host(s, &of, &r, report, err);
    sonar_normalise_destroy(r.normalise);
    free(r.power);
    free(r.ratio);
    return code;
}

sonar_code bench_run_normalise(const bench_scene *s, bench_report *report, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (unsigned m = 0; m < SONAR_NORMALISERS && !code; m++)
        code = time_method(s, (sonar_normalise_method)m, report, err);
    return code;
}
