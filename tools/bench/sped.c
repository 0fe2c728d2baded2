/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The peaks of one window's surface, and the tones of its contacts: on the processor, whatever the
 * backend is. */
#include <math.h>
#include <stdlib.h>

#include "analysis/sped/sped.h"
#include "analysis/tones/tones.h"
#include "core/random.h"
#include "stages.h"

enum { CONTACTS = 16 };

typedef struct rig {
    double *az_deg;
    sonar_scan scan;
    sonar_sped *sped;
    sonar_tones *tones; /* NULL: too few bins */
    float *power, *record;
    sonar_detection contact[CONTACTS];
} rig;

static sonar_code run_sped(void *ctx, sonar_error *err) {
    rig *r = ctx;
    (void)err;
    sonar_sped_run(r->sped, r->power, r->record);
    return SONAR_OK;
}

static sonar_code run_tones(void *ctx, sonar_error *err) {
    rig *r = ctx;
    (void)err;
    sonar_tones_find(r->tones, r->power, r->contact, CONTACTS);
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
    r->az_deg = sonar_alloc(c->angles, sizeof *r->az_deg);
    r->power = sonar_alloc(c->cbf.bins * c->angles, sizeof *r->power);
    r->record = sonar_alloc(c->angles, sizeof *r->record);
    if (!r->az_deg || !r->power || !r->record)
        return sonar_fail(err, SONAR_ENOMEM, "sped", "no memory");
    r->scan = bench_circle(c->angles, r->az_deg);
    fill(r->power, c->cbf.bins, c->angles);
    for (size_t i = 0; i < CONTACTS; i++)
        r->contact[i].az_deg = 360.0 * (double)i / CONTACTS;
    const sonar_sped_spec spec = {&r->scan, c->cbf.first, c->cbf.bins};
    const double last = (double)(c->cbf.first + c->cbf.bins - 1);
    const sonar_tones_spec of = {&r->scan, last, c->cbf.first, c->cbf.bins, 1};
    const sonar_code code = sonar_sped_create(&spec, &r->sped, err);
    return code || c->cbf.bins < SONAR_TONES_BINS ? code : sonar_tones_create(&of, &r->tones, err);
}

sonar_code bench_run_sped(const bench_scene *s, bench_report *report, sonar_error *err) {
    const double values = (double)s->c->angles * (double)s->c->cbf.bins;
    rig r = {0};
    const bench_host_stage sped = {"sped", 10 * values, 4 * values, run_sped};
    const bench_host_stage tones = {"tones", CONTACTS * values / 10, 4 * values, run_tones};
    if (s->c->angles < 3)
        return SONAR_OK;
    sonar_code code = make(s->c, &r, err);
    if (!code)
        code = bench_time_host(s, &sped, &r, report, err);
    if (!code && r.tones)
        code = bench_time_host(s, &tones, &r, report, err);
    sonar_sped_destroy(r.sped);
    sonar_tones_destroy(r.tones);
    free(r.power);
    free(r.record);
    free(r.az_deg);
    return code;
}
