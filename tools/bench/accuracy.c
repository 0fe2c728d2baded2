/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Errors of the stages' results against double precision. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "stages.h"

enum { CHECKS = 200, CAPON_SENSORS_MOST = 512 };

/* The buffer's contents in host memory, to be freed; NULL with an error. */
static void *fetch(bench_stages *r, const sonar_buffer *from, sonar_error *err) {
    void *data = sonar_alloc(from->bytes, 1);
    sonar_buffer to = sonar_buffer_view(data, from->dtype, from->rank, from->shape);
    sonar_code code =
        data ? r->b->copy(r->queue, from, &to, err)
             : sonar_fail(err, SONAR_ENOMEM, r->scene->c->name, "no memory to compare results");
    if (!code)
        code = bench_stages_settle(r, err);
    if (!code)
        return data;
    free(data);
    return NULL;
}

/* ---- conventional beamformer ----------------------------------------------------------------- */

/* x is [sensor]. */
static double snapshot_power(const bench_scene *s, const sonar_c32 *x, size_t direction,
                             size_t bin) {
    const uint64_t *turns = s->far_turns + direction * s->c->sensors;
    double re = 0, im = 0;
    for (size_t k = 0; k < s->c->sensors; k++) {
        const double phase = ldexp((double)(bin * turns[k]), -63) * M_PI;
        re += (double)x[k].re * cos(phase) + (double)x[k].im * sin(phase);
        im += (double)x[k].im * cos(phase) - (double)x[k].re * sin(phase);
    }
    return (re * re + im * im) / pow((double)s->c->sensors, 2);
}

/* bins is [snapshot][bin][sensor]. */
static double beam_power(const bench_scene *s, const sonar_c32 *bins, size_t direction,
                         size_t bin) {
    const size_t snapshots = s->c->cbf_alone ? s->c->snapshots : 1;
    double sum = 0;
    for (size_t i = 0; i < snapshots; i++) {
        const size_t row = i * s->specs.dft.bins + bin - s->specs.dft.first_bin;
        sum += snapshot_power(s, bins + row * s->c->sensors, direction, bin);
    }
    return sum / (double)snapshots;
}

static double worst_beam_db(const bench_scene *s, const sonar_c32 *bins, const float *lofar) {
    const bench_case *c = s->c;
    uint64_t state = 0;
    double worst_db = 0;
    for (int i = 0; i < CHECKS; i++) {
        const size_t t = (size_t)(sonar_random_uniform(&state) * (double)c->angles);
        const size_t row = (size_t)(sonar_random_uniform(&state) * (double)c->lofar.bins);
        const float *beams = lofar + row * c->angles;
        double peak = 0;
        for (size_t j = 0; j < c->angles; j++)
            peak = fmax(peak, (double)beams[j]);
        const double expected = beam_power(s, bins, t, c->lofar.first + row);
        if (expected > 1e-6 * peak)
            worst_db = fmax(worst_db, fabs(10 * log10((double)beams[t] / expected)));
    }
    return worst_db;
}

sonar_code bench_stages_cbf_error(bench_stages *r, bench_step step, double *error_db,
                                  sonar_error *err) {
    sonar_error none = {0}, *why = err ? err : &none;
    const sonar_code code = step(r, why);
    if (code)
        return code;
    const bool several = r->scene->c->cbf_alone;
    sonar_c32 *bins = fetch(r, several ? &r->several : &r->bins[r->turn % r->bin_sets], why);
    float *lofar = bins ? fetch(r, &r->cbf_out[SONAR_CBF_LOFAR], why) : NULL;
    if (lofar)
        *error_db = worst_beam_db(r->scene, bins, lofar);
    free(bins);
    free(lofar);
    return lofar ? SONAR_OK : why->code;
}

/* ---- MVDR ------------------------------------------------------------------------------------ */

/* The middle bin of all snapshots. */
static void gather(const bench_scene *s, size_t bin, sonar_c32 *block) {
    const size_t n = s->c->sensors;
    for (size_t i = 0; i < s->c->snapshots; i++)
        memcpy(block + i * n, s->snapshot + (i * s->c->mvdr.bins + bin) * n, n * sizeof *block);
}

double bench_mvdr_worst_db(const bench_scene *s, double delta, const float *spectrum) {
    const bench_case *c = s->c;
    const size_t middle = c->mvdr.bins / 2;
    if (c->sensors > CAPON_SENSORS_MOST)
        return NAN;
    double *power = sonar_alloc(c->angles, sizeof *power), worst_db = NAN;
    sonar_c32 *block = sonar_alloc(c->snapshots * c->sensors, sizeof *block);
    if (block)
        gather(s, middle, block);
    if (power && block &&
        bench_capon(c->sensors, c->snapshots, block, delta, c->mvdr.first + middle, s->far_turns,
                    c->angles, power)) {
        worst_db = 0;
        for (size_t t = 0; t < c->angles; t++)
            worst_db = fmax(worst_db, fabs(10 * log10((double)spectrum[t] / power[t])));
    }
    free(power);
    free(block);
    return worst_db;
}

double bench_mean_sweeps(size_t bins, const float *info) {
    double sum = 0;
    for (size_t b = 0; b < bins; b++)
        sum += (double)info[b * SONAR_MVDR_INFO_FIELDS + SONAR_MVDR_SWEEPS];
    return sum / (double)bins;
}

sonar_code bench_stages_mvdr_error(bench_stages *r, const bench_stage *mvdr, double *error_db,
                                   sonar_error *err) {
    sonar_error none = {0}, *why = err ? err : &none;
    const sonar_code code = bench_stages_fill_block(r, mvdr, why);
    if (code)
        return code;
    float *spectrum = fetch(r, &r->mvdr_out[SONAR_MVDR_OUT_SPECTRUM], why);
    float *info = spectrum ? fetch(r, &r->mvdr_out[SONAR_MVDR_OUT_INFO], why) : NULL;
    if (info) {
        const size_t middle = r->scene->c->mvdr.bins / 2;
        *error_db = bench_mvdr_worst_db(
            r->scene, (double)info[middle * SONAR_MVDR_INFO_FIELDS + SONAR_MVDR_DELTA],
            spectrum + middle * r->scene->c->angles);
    }
    free(spectrum);
    free(info);
    return info ? SONAR_OK : why->code;
}

sonar_code bench_stages_sweeps(bench_stages *r, double *sweeps, sonar_error *err) {
    sonar_error none = {0}, *why = err ? err : &none;
    float *info = fetch(r, &r->mvdr_out[SONAR_MVDR_OUT_INFO], why);
    if (!info)
        return why->code;
    *sweeps = bench_mean_sweeps(r->scene->c->mvdr.bins, info);
    free(info);
    return SONAR_OK;
}

sonar_code bench_stages_mvdr_delta(bench_stages *r, float *delta, sonar_error *err) {
    sonar_error none = {0}, *why = err ? err : &none;
    float *info = fetch(r, &r->mvdr_out[SONAR_MVDR_OUT_INFO], why);
    for (size_t b = 0; info && b < r->scene->c->mvdr.bins; b++)
        delta[b] = info[b * SONAR_MVDR_INFO_FIELDS + SONAR_MVDR_DELTA];
    const bool fetched = info;
    free(info);
    return fetched ? SONAR_OK : why->code;
}
