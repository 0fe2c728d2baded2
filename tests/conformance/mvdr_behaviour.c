/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The stage's external behaviour: physical effects, robustness to faults, refused arguments, and
 * results that are the same bits every time. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dft/dft.h"
#include "mvdr.h"
#include "oracle.h"

/* ---- physics --------------------------------------------------------------------------------- */

/* Peaks of p that stand within 6 dB of the highest. */
static size_t peaks(const float *p, size_t count) {
    float most = 0;
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        most = fmaxf(most, p[i]);
    for (size_t i = 1; i + 1 < count; i++)
        found += p[i] > p[i - 1] && p[i] >= p[i + 1] && p[i] > most / 4;
    return found;
}

/* Two equal sources 0.6 beam widths apart at 25 dB array SNR: two for MVDR, one for the CBF. */
MVDR_CASE(resolution) {
    enum { B = 32, L = 256, T = 1800 };
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_spec(B, T, L, 0);
    spec.loading = SONAR_LOADING_NOISE;
    spec.eps = 0.01;
    mvdr_open(&f, site, &spec);
    double width_deg = 0.886 * 2 / B * 180 / M_PI, level = 25 - 10 * log10(B);
    mvdr_wave waves[] = {{90 - 0.3 * width_deg, level}, {90 + 0.3 * width_deg, level}};
    sonar_c32 *x = mvdr_record(&f, L, waves, 2, 2);
    mvdr_run(&f, L, x);
    cplx *r = mvdr_covariance(&f, 0, L, x), a[B];
    float conventional[T];
    for (size_t t = 0; t < T; t++) {
        mvdr_steering(&f, 0, mvdr_azimuth_deg(&f, t), a);
        conventional[t] = (float)mvdr_oracle_conventional(B, r, a);
    }
    site_expect(site, peaks(conventional, T) == 1, "%zu peaks of the CBF", peaks(conventional, T));
    site_expect(site, peaks(f.spectrum, T) == 2, "%zu peaks", peaks(f.spectrum, T));
    free(r);
    free(x);
    mvdr_close(&f);
}

/* ---- levels far from 1 ----------------------------------------------------------------------- */

static bool is_power(float p) {
    return isfinite(p) && p > 0;
}

/* Squares of the samples exceed float32's range; finally the powers themselves do. */
MVDR_CASE(extreme_levels) {
    enum { B = 12, T = 30 };
    static const int exponents[] = {-18, 10, 16, 38};
    for (size_t i = 0; i < 4; i++)
        for (size_t l = 6; l < 40; l += 30) {
            mvdr_fixture f;
            sonar_mvdr_spec spec = mvdr_spec(B, T, l, 0);
            mvdr_open(&f, site, &spec);
            f.apart_db = 0.01;
            sonar_c32 *x = mvdr_record(&f, l, (mvdr_wave[]){{70, 20}}, i < 3, 4);
            const float most = i < 3 ? 1000 : 1, scale = (float)pow(10, exponents[i]);
            for (size_t j = 0; j < B * l; j++) {
                x[j].re = fmaxf(-most, fminf(most, x[j].re)) * scale;
                x[j].im = fmaxf(-most, fminf(most, x[j].im)) * scale;
            }
            mvdr_run(&f, l, x);
            if (exponents[i] < 20)
                mvdr_expect(&f, 0, l, x, 0.05);
            for (size_t t = 0; t < T; t++)
                site_expect(site, is_power(f.azimuth[t]), "1e%d: %g", exponents[i],
                            (double)f.azimuth[t]);
            site_expect(site, isfinite(mvdr_info(&f, 0, SONAR_MVDR_DELTA)), "1e%d", exponents[i]);
            free(x);
            mvdr_close(&f);
        }
}

/* Beyond float32's range the power saturates and stays finite. */
MVDR_CASE(overflow) {
    enum { B = 4, L = 8, T = 10 };
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_spec(B, T, L, 0);
    mvdr_open(&f, site, &spec);
    sonar_c32 *x = mvdr_record(&f, L, NULL, 0, 4);
    for (size_t i = 0; i < B * L; i++)
        x[i].re = copysignf(FLT_MAX, x[i].re), x[i].im = copysignf(FLT_MAX, x[i].im);
    mvdr_run(&f, L, x);
    for (size_t t = 0; t < T; t++)
        site_expect(site,
                    is_power(f.azimuth[t]) && isfinite(f.spectrum[t]) && f.spectrum[t] > 1e38f,
                    "direction %zu: %g, %g", t, (double)f.spectrum[t], (double)f.azimuth[t]);
    site_expect(site, isfinite(mvdr_info(&f, 0, SONAR_MVDR_DELTA)), "delta");
    free(x);
    mvdr_close(&f);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* A snapshot with one bad value in one bin counts only for the other bins, and in this one not even
 * as zeros. */
static void bad_value(site *site, double alpha, float bad) {
    enum { B = 9, L = 20, BINS = 3, BAD = 7, STRIDE = B * BINS };
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_spec(B, 30, L, alpha);
    spec.bins = BINS;
    mvdr_open(&f, site, &spec);
    f.apart_db = 0.01;
    sonar_c32 *x = mvdr_record(&f, L, (mvdr_wave[]){{70, 20}}, 1, 4), good[(L - 1) * STRIDE];
    memcpy(good, x, BAD * STRIDE * sizeof *x);
    memcpy(good + BAD * STRIDE, x + (BAD + 1) * STRIDE, (L - 1 - BAD) * STRIDE * sizeof *x);
    x[BAD * STRIDE + B + 4].im = bad;
    mvdr_run(&f, L, x);
    mvdr_expect(&f, 0, L, x, 0.01);
    mvdr_expect(&f, 1, L - 1, good, 0.01);
    mvdr_expect(&f, 2, L, x, 0.01);
    for (size_t t = 0; t < 30; t++)
        site_expect(site, is_power(f.azimuth[t]), "azimuth %g", (double)f.azimuth[t]);
    free(x);
    mvdr_close(&f);
}

MVDR_CASE(non_finite) {
    bad_value(site, 0, NAN);
    bad_value(site, 0, INFINITY);
    bad_value(site, 0.9, NAN);
    bad_value(site, 0.9, -INFINITY);
}

static void expect_zeros(const mvdr_fixture *f, const char *what) {
    for (size_t t = 0; t < f->spec.directions; t++)
        site_expect(f->site, f->azimuth[t] == 0, "%s: azimuth %g", what, (double)f->azimuth[t]);
    for (size_t t = 0; t < f->spec.directions * f->spec.bins; t++)
        site_expect(f->site, f->spectrum[t] == 0, "%s: P %g", what, (double)f->spectrum[t]);
    for (size_t i = 0; i < f->spec.bins * SONAR_MVDR_INFO_FIELDS; i++)
        site_expect(f->site, isfinite(f->info[i]), "%s: info %g", what, (double)f->info[i]);
}

void mvdr_expect_silence(site *site, const sonar_mvdr_spec *spec) {
    const size_t values = spec->max_new * spec->bins * spec->sensors;
    mvdr_fixture f;
    mvdr_open(&f, site, spec);
    f.apart_db = 0.01;
    sonar_c32 *zeros = calloc(values, sizeof *zeros),
              *x = mvdr_record(&f, spec->max_new, NULL, 0, 4);
    mvdr_run(&f, 0, NULL);
    expect_zeros(&f, "nothing yet");
    mvdr_run(&f, spec->max_new, zeros);
    expect_zeros(&f, "zeros");
    mvdr_run(&f, spec->max_new, x);
    for (size_t t = 0; t < spec->directions; t++)
        site_expect(site, is_power(f.azimuth[t]), "after silence: %g", (double)f.azimuth[t]);
    free(zeros);
    free(x);
    mvdr_close(&f);
}

MVDR_CASE(nothing_and_zeros) {
    for (int forget = 0; forget < 2; forget++) {
        sonar_mvdr_spec spec = mvdr_spec(6, 30, 10, forget ? 0.8 : 0);
        mvdr_expect_silence(site, &spec);
    }
}

/* One plane wave without any noise: R has rank one. */
MVDR_CASE(no_noise_at_all) {
    enum { B = 10, L = 25, T = 45, WAVE = 12 };
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_spec(B, T, L, 0);
    spec.loading = SONAR_LOADING_NOISE;
    mvdr_open(&f, site, &spec);
    f.apart_db = INFINITY; /* the only noise is rounding */
    sonar_c32 x[B * L];
    cplx a[B];
    mvdr_steering(&f, 0, mvdr_azimuth_deg(&f, WAVE), a);
    for (size_t i = 0; i < B * L; i++)
        x[i] = (sonar_c32){(float)creal(a[i % B]), (float)cimag(a[i % B])};
    mvdr_run(&f, L, x);
    for (size_t t = 0; t < T; t++)
        site_expect(site,
                    isfinite(f.spectrum[t]) && f.spectrum[t] >= 0 &&
                        (t == WAVE || f.spectrum[t] < f.spectrum[WAVE]),
                    "direction %zu: %g", t, (double)f.spectrum[t]);
    site_expect(site, fabs((double)f.spectrum[WAVE] - 1) < 0.02, "%g", (double)f.spectrum[WAVE]);
    mvdr_close(&f);
}

/* One snapshot, repeated snapshots, dead sensors, and noise with equal eigenvalues: powers are
 * finite, and equal the oracle's if it has a result. */
MVDR_CASE(odd_data) {
    enum { B = 16, T = 30 };
    static const size_t lengths[] = {1, 5, 8, 9, 16, 40};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int kind = 0; kind < 4; kind++)
            for (int solver = SONAR_MVDR_AUTO; solver <= SONAR_MVDR_JACOBI; solver++) {
                const size_t l = lengths[i];
                mvdr_fixture f;
                sonar_mvdr_spec spec = mvdr_spec(B, T, l, 0);
                spec.solver = (sonar_mvdr_solver)solver;
                mvdr_open(&f, site, &spec);
                f.apart_db = 0.01;
                sonar_c32 *x = mvdr_record(&f, l, (mvdr_wave[]){{70, 20}}, 1, 4);
                for (size_t s = 0; s < l; s++)
                    for (size_t k = 0; k < B; k++) {
                        sonar_c32 *v = &x[s * B + k];
                        if (kind == 0) /* all the same */
                            *v = x[k];
                        if (kind == 1 && (k == 3 || k == 11)) /* dead, yet used */
                            *v = (sonar_c32){0, 0};
                        if (kind == 2) /* snapshots at right angles, equally long */
                            *v = (sonar_c32){s % B == k ? 7 : 0, 0};
                        if (kind == 3 && s % 2) /* every second one silent */
                            *v = (sonar_c32){0, 0};
                    }
                mvdr_run(&f, l, x);
                mvdr_expect(&f, 0, l, x, 1e-3);
                free(x);
                mvdr_close(&f);
            }
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Windows without a request only add their snapshots: outputs are not written, and evaluate and the
 * next window include all of them. */
MVDR_CASE(unwanted) {
    enum { B = 12, T = 20, STEP = 4 };
    static const size_t lengths[] = {5, 9, 0};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        mvdr_fixture f, g;
        float power[T];
        sonar_mvdr_spec spec = mvdr_spec(B, T, i < 2 ? lengths[i] : STEP, i < 2 ? 0 : 0.9);
        sonar_error err = {0};
        spec.max_new = STEP;
        mvdr_open_alone(&f, site, &spec);
        mvdr_open_alone(&g, site, &spec);
        sonar_c32 *x = mvdr_record(&f, 3 * STEP, (mvdr_wave[]){{70, 20}}, 1, 4);
        for (size_t s = 0; s < 3; s++) {
            sonar_work work = mvdr_work(&f);
            sonar_buffer in = f.in;
            in.shape[0] = STEP;
            work.outputs = s < 2 ? 0 : SONAR_WANT(SONAR_MVDR_AZIMUTH);
            memset(f.azimuth, 0xff, T * sizeof *f.azimuth);
            site_send(site, f.azimuth, &f.out[SONAR_MVDR_OUT_AZIMUTH]);
            site_send(site, x + s * STEP * B, &in);
            site_require(site, f.ops->execute(f.stage, site->queue, &in, f.out, &work, &err), &err);
            site_fetch(site, &f.out[SONAR_MVDR_OUT_AZIMUTH], f.azimuth);
            mvdr_run(&g, STEP, x + s * STEP * B);
            mvdr_evaluate(&f, T, f.turns, power);
            for (size_t t = 0; t < T; t++) {
                site_expect(site, fabsf(power[t] / g.azimuth[t] - 1) < 1e-6f,
                            "evaluate, step %zu: %g, %g", s, (double)power[t],
                            (double)g.azimuth[t]);
                site_expect(site, s < 2 ? isnan(f.azimuth[t]) : f.azimuth[t] == g.azimuth[t],
                            "step %zu: %g, %g", s, (double)f.azimuth[t], (double)g.azimuth[t]);
            }
        }
        free(x);
        mvdr_close(&f);
        mvdr_close(&g);
    }
}

MVDR_CASE(reset_forgets) {
    for (int forget = 0; forget < 2; forget++) {
        enum { B = 11, T = 30, STEP = 8 };
        mvdr_fixture f;
        float first[T];
        sonar_mvdr_spec spec = mvdr_spec(B, T, 15, forget ? 0.9 : 0);
        mvdr_open(&f, site, &spec);
        sonar_c32 *x = mvdr_record(&f, 3 * STEP, (mvdr_wave[]){{70, 20}}, 1, 4);
        mvdr_run(&f, STEP, x);
        memcpy(first, f.spectrum, sizeof first);
        mvdr_run(&f, STEP, x + STEP * B);
        mvdr_run(&f, 3, x + 2 * STEP * B);
        site_expect(site, memcmp(first, f.spectrum, sizeof first),
                    "more snapshots changed nothing");
        mvdr_reset(&f);
        mvdr_run(&f, STEP, x);
        site_expect(site, !memcmp(first, f.spectrum, sizeof first), "something was remembered");
        free(x);
        mvdr_close(&f);
    }
}

/* ---- what may change --------------------------------------------------------------------------
 */

/* A spec with other live members, which take effect with the next run. */
static void put_live(mvdr_fixture *f, const sonar_mvdr_spec *other) {
    f->params.mvdr = other;
    f->spec = *other;
    mvdr_renew(f);
}

static void expect_same(site *site, const mvdr_fixture *f, const mvdr_fixture *g,
                        const char *what) {
    const size_t looks = f->spec.bins * f->spec.directions;
    const double worst_db = oracle_worst_db(looks, f->spectrum, g->spectrum);
    site_expect(site, worst_db < 2e-3, "%s: %g dB off", what, worst_db);
    for (size_t bin = 0; bin < f->spec.bins; bin++)
        for (int field = 0; field < SONAR_MVDR_ROUTE; field++) { /* room for MUSIC has routes */
            const double a = (double)mvdr_info(f, bin, field), b = (double)mvdr_info(g, bin, field);
            if (field != SONAR_MVDR_SWEEPS && field != SONAR_MVDR_RESIDUAL)
                site_expect(site, fabs(a - b) <= 1e-3 * fabs(b), "%s, bin %zu, field %d: %g, %g",
                            what, bin, field, a, b);
        }
    for (size_t t = 0; f->out[SONAR_MVDR_OUT_MUSIC].data && t < f->spec.directions; t++)
        site_expect(site,
                    f->spec.music
                        ? fabs(10 * log10((double)f->music[t] / (double)g->music[t])) < 2e-3
                        : isnan(f->music[t]),
                    "%s, direction %zu: MUSIC %g", what, t, (double)f->music[t]);
}

/* Whether a stage with this spec has memory for the features of the other. */
static bool have_room(const sonar_mvdr_spec *made, const sonar_mvdr_spec *other) {
    return (made->music || !other->music) &&
           (made->white_noise_gain_db < 0 || !(other->white_noise_gain_db < 0));
}

/* After a change of values a stage gives, from its existing snapshots, the results of a stage that
 * was created with these values: with the l snapshots of `f`, and one more. */
static void change_values(site *site, const sonar_mvdr_spec *spec, const sonar_mvdr_spec *to,
                          size_t l, const char *what) {
    mvdr_fixture f, g;
    float at_f[3], at_g[3];
    mvdr_open(&f, site, spec);
    mvdr_open(&g, site, to);
    const size_t stride = spec->bins * spec->sensors;
    sonar_c32 *x = mvdr_record(&f, l + 1, (mvdr_wave[]){{60, 20}, {100, 12}, {107, 9}}, 3, 99 + l);
    mvdr_run(&f, l, x);
    mvdr_run(&g, l, x);
    put_live(&f, to);
    mvdr_run(&f, 1, x + l * stride);
    mvdr_run(&g, 1, x + l * stride);
    expect_same(site, &f, &g, what);
    mvdr_evaluate(&f, 3, f.turns, at_f);
    mvdr_evaluate(&g, 3, g.turns, at_g);
    for (int i = 0; i < 3; i++)
        site_expect(site, fabs((double)at_f[i] / (double)at_g[i] - 1) < 1e-3,
                    "%s: point %d: %g, %g", what, i, (double)at_f[i], (double)at_g[i]);
    put_live(&f, spec); /* and back, without a snapshot */
    mvdr_run(&f, 0, x);
    if (have_room(to, spec)) {
        put_live(&g, spec);
        mvdr_run(&g, 0, x);
        expect_same(site, &f, &g, "back again");
    }
    free(x);
    mvdr_close(&f);
    mvdr_close(&g);
}

/* Specs whose values change; the last one is slow. */
static const struct live_shape {
    size_t sensors, snapshots;
    double alpha;
    sonar_mvdr_solver solver;
} live_shapes[] = {{24, 12, 0, SONAR_MVDR_AUTO},
                   {16, 40, 0, SONAR_MVDR_AUTO},
                   {12, 8, 0.9, SONAR_MVDR_AUTO},
                   {20, 9, 0, SONAR_MVDR_JACOBI},
                   {210, 230, 0, SONAR_MVDR_AUTO}};
enum { LIVE_SHAPES = sizeof live_shapes / sizeof *live_shapes };

static sonar_mvdr_spec live_spec(const struct live_shape *shape) {
    sonar_mvdr_spec spec = mvdr_spec(shape->sensors, 40, shape->snapshots, shape->alpha);
    spec.solver = shape->solver, spec.bins = 2;
    return spec;
}

MVDR_CASE(live_values) {
    for (size_t i = 0; i < (size_t)LIVE_SHAPES - site->quick; i++) {
        const sonar_mvdr_spec spec = live_spec(&live_shapes[i]);
        const size_t l = live_shapes[i].snapshots;
        sonar_mvdr_spec to = spec;
        to.eps = 0.2, change_values(site, &spec, &to, l, "eps");
        to.loading = SONAR_LOADING_NOISE, change_values(site, &spec, &to, l, "noise");
        to.known_sources = 2, change_values(site, &spec, &to, l, "known sources");
        to.loading = SONAR_LOADING_ABSOLUTE, change_values(site, &spec, &to, l, "absolute");
        to.correct_level = true, change_values(site, &spec, &to, l, "levels");
        to.source_count = SONAR_COUNT_MDL, change_values(site, &spec, &to, l, "sources");
        if (spec.solver != SONAR_MVDR_JACOBI)
            continue;
        to.dmr = 2, change_values(site, &spec, &to, l, "dominant modes");
        to.dmr = SONAR_MODES_COUNTED, change_values(site, &spec, &to, l, "as many as counted");
    }
}

/* Features with reserved memory change or are switched off. */
MVDR_CASE(live_extras) {
    for (size_t i = 0; i < LIVE_SHAPES - 1; i++) {
        const size_t l = live_shapes[i].snapshots;
        sonar_mvdr_spec music = live_spec(&live_shapes[i]), limited = music, to;
        music.music = SONAR_MODES_COUNTED, music.source_count = SONAR_COUNT_MDL;
        to = music, to.music = 2, change_values(site, &music, &to, l, "two sources");
        to.source_count = SONAR_COUNT_OFF, change_values(site, &music, &to, l, "uncounted");
        to.music = SONAR_MODES_OFF, change_values(site, &music, &to, l, "MUSIC off");
        limited.white_noise_gain_db = -6, limited.eps = 1e-3;
        to = limited, to.white_noise_gain_db = -1;
        change_values(site, &limited, &to, l, "a higher limit");
        to.white_noise_gain_db = 0, change_values(site, &limited, &to, l, "no limit");
        to.correct_level = true, change_values(site, &limited, &to, l, "levels for a limit");
        to.correct_level = false, to.dmr = 2;
        change_values(site, &limited, &to, l, "modes for a limit");
        limited.music = 1, to.music = 2, change_values(site, &limited, &to, l, "both");
    }
}

/* Compares rows and sums of `f`, whose live band begins `first` bins above its input, with those of
 * a stage that has only these bins. */
static void expect_band(site *site, mvdr_fixture *f, mvdr_fixture *alone, size_t first) {
    const size_t looks = f->spec.directions, bins = alone->spec.bins;
    float at_f[2], at_alone[2];
    const double worst_db =
        oracle_worst_db(bins * looks, f->spectrum + first * looks, alone->spectrum);
    site_expect(site, worst_db < 2e-3, "%zu bins from %zu: %g dB off", bins, first, worst_db);
    for (size_t i = 0; i < f->spec.bins * looks; i++)
        site_expect(site,
                    !isnan(f->spectrum[i]) == (i / looks >= first && i / looks < first + bins),
                    "row %zu of %zu from %zu: %g", i / looks, bins, first, (double)f->spectrum[i]);
    for (size_t t = 0; t < looks; t++)
        site_expect(site, fabs((double)(f->azimuth[t] / alone->azimuth[t]) - 1) < 1e-3,
                    "%zu bins from %zu: %g, %g", bins, first, (double)f->azimuth[t],
                    (double)alone->azimuth[t]);
    for (size_t bin = 0; bin < bins; bin++)
        site_expect(site,
                    mvdr_info(f, first + bin, SONAR_MVDR_OFFSET) ==
                        mvdr_info(alone, bin, SONAR_MVDR_OFFSET),
                    "bin %zu is steered elsewhere", first + bin);
    mvdr_evaluate(f, 2, f->turns, at_f);
    mvdr_evaluate(alone, 2, alone->turns, at_alone);
    for (int i = 0; i < 2; i++)
        site_expect(site, fabs((double)(at_f[i] / at_alone[i]) - 1) < 1e-3, "point %d: %g, %g", i,
                    (double)at_f[i], (double)at_alone[i]);
}

/* Another band of five bins with each version, with a tone between two bins in its middle;
 * snapshots of all bins are always collected. */
static void move_bands(site *site, const sonar_mvdr_spec *spec) {
    static const size_t bands[][2] = {{1, 3}, {0, 5}, {4, 1}, {0, 2}, {2, 2}};
    enum { STEP = 3, STEPS = 5 };
    const size_t n = spec->sensors, bins = spec->bins;
    mvdr_fixture f, alone;
    mvdr_open_alone(&f, site, spec);
    sonar_c32 *x = mvdr_record(&f, STEPS * STEP, (mvdr_wave[]){{60, 20}, {110, 15}}, 2, 12);
    for (size_t s = 0; s < STEPS * STEP; s++)
        for (size_t k = 0; k < n; k++)
            for (size_t b = 2; b < 4; b++)
                x[(s * bins + b) * n + k].re += b == 2 ? 60.0f : -60.0f;
    sonar_mvdr_spec live = *spec;
    for (size_t i = 0; i < STEPS; i++) {
        live.first_bin = spec->first_bin + bands[i][0], live.bins = bands[i][1];
        f.params.mvdr = &live;
        f.params.version++;
        mvdr_run(&f, STEP, x + i * STEP * bins * n);
        mvdr_open_alone(&alone, site, &live);
        sonar_c32 *part = calloc((i + 1) * STEP * live.bins * n, sizeof *part);
        for (size_t s = 0; s < (i + 1) * STEP; s++)
            memcpy(part + s * live.bins * n, x + (s * bins + bands[i][0]) * n,
                   live.bins * n * sizeof *part);
        for (size_t s = 0; s <= i; s++)
            mvdr_run(&alone, STEP, part + s * STEP * live.bins * n);
        expect_band(site, &f, &alone, bands[i][0]);
        free(part);
        mvdr_close(&alone);
    }
    free(x);
    mvdr_close(&f);
}

MVDR_CASE(live_bands) {
    static const struct {
        size_t sensors, snapshots;
        double alpha;
    } shapes[] = {{24, 9, 0}, {10, 9, 0}, {14, 3, 0.8}};
    static sonar_mvdr_tones hann;
    double window[64];
    sonar_dft_taper(SONAR_HANN, 0, 64, window);
    sonar_mvdr_tones_make(window, 64, &hann);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int tones = 0; tones < 2; tones++) {
            sonar_mvdr_spec spec =
                mvdr_spec(shapes[i].sensors, 30, shapes[i].snapshots, shapes[i].alpha);
            spec.bins = 5, spec.max_new = 3, spec.tones = tones ? &hann : NULL;
            move_bands(site, &spec);
        }
}

/* Parameters say whether their turns have changed: versions that differ in a mask, in the turns or
 * in neither, with and without new snapshots, compared with a new stage each time. */
static void keep_tables(site *site, const sonar_mvdr_spec *spec) {
    enum { STEP = 2, STEPS = 9 };
    const size_t stride = spec->bins * spec->sensors;
    mvdr_fixture f;
    mvdr_open_alone(&f, site, spec);
    sonar_c32 *x = mvdr_record(&f, STEPS * STEP, (mvdr_wave[]){{70, 25}, {120, 10}}, 2, 31);
    uint64_t made = 1;
    for (size_t i = 0; i < STEPS; i++) {
        mvdr_fixture reference;
        if (i % 3 == 1)
            f.used[4] = !f.used[4];
        if (i % 4 == 2) {
            for (size_t k = 0; k < spec->sensors; k++)
                f.position_m[3 * k] *= 1.02;
            made++;
        }
        mvdr_renew(&f);
        f.params.far_mvdr.made = f.params.near_mvdr.made = made;
        mvdr_run(&f, i % 2 ? 0 : STEP, x + i * STEP * stride);
        mvdr_open_alone(&reference, site, spec);
        memcpy(reference.position_m, f.position_m, 3 * spec->sensors * sizeof *f.position_m);
        memcpy(reference.used, f.used, spec->sensors);
        mvdr_renew(&reference);
        for (size_t k = 0; k <= i; k += 2)
            mvdr_run(&reference, STEP, x + k * STEP * stride);
        expect_same(site, &f, &reference, "tables");
        for (size_t p = 0; p < spec->ranges * spec->directions; p++)
            site_expect(site, fabs((double)(f.near[p] / reference.near[p]) - 1) < 1e-3,
                        "step %zu, point %zu: %g, %g", i, p, (double)f.near[p],
                        (double)reference.near[p]);
        mvdr_close(&reference);
    }
    free(x);
    mvdr_close(&f);
}

MVDR_CASE(tables_that_stay) {
    static const struct {
        size_t sensors, snapshots;
        double alpha;
    } shapes[] = {{24, 8, 0}, {12, 10, 0}, {10, 2, 0.8}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        sonar_mvdr_spec spec =
            mvdr_spec(shapes[i].sensors, 20, shapes[i].snapshots, shapes[i].alpha);
        spec.bins = 2, spec.ranges = 2, spec.max_new = 2;
        keep_tables(site, &spec);
    }
}

void mvdr_bits(site *site, double alpha, float bits[MVDR_BITS]) {
    enum { B = 21, BINS = 7, T = 50, L = 18 };
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_spec(B, T, L, alpha);
    spec.bins = BINS;
    mvdr_open(&f, site, &spec);
    sonar_c32 *x = mvdr_record(&f, 2 * L, (mvdr_wave[]){{70, 60}}, 1, 4);
    mvdr_run(&f, L, x);
    mvdr_run(&f, 5, x + L * BINS * B);
    memcpy(bits, f.spectrum, BINS * T * sizeof *bits);
    memcpy(bits + BINS * T, f.azimuth, T * sizeof *bits);
    free(x);
    mvdr_close(&f);
}

MVDR_CASE(same_bits) {
    for (int forget = 0; forget < 2; forget++) {
        float first[MVDR_BITS], again[MVDR_BITS];
        mvdr_bits(site, forget ? 0.9 : 0, first);
        mvdr_bits(site, forget ? 0.9 : 0, again);
        site_expect(site, !memcmp(first, again, sizeof first), "spectra differ");
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

MVDR_CASE(impossible_specs) {
    const sonar_mvdr_spec good = mvdr_spec(4, 5, 6, 0);
    sonar_mvdr_spec spec = good;
    spec.sensors = 0, mvdr_refused(site, "no sensors", &spec), spec = good;
    spec.directions = 0, mvdr_refused(site, "no directions", &spec), spec = good;
    spec.ranges = SIZE_MAX / 4, mvdr_refused(site, "ranges beyond counting", &spec), spec = good;
    spec.bins = 0, mvdr_refused(site, "no bins", &spec), spec = good;
    spec.fs_hz = NAN, mvdr_refused(site, "fs_hz", &spec), spec = good;
    spec.alpha = 0.5, mvdr_refused(site, "a block that forgets", &spec), spec = good;
    spec.snapshots = 0, mvdr_refused(site, "neither block nor alpha", &spec), spec = good;
    spec.snapshots = 0, spec.alpha = 1, mvdr_refused(site, "alpha 1", &spec), spec = good;
    spec.eps = 0, mvdr_refused(site, "eps 0", &spec), spec = good;
    spec.eps = -1, mvdr_refused(site, "eps -1", &spec), spec = good;
    spec.eps = INFINITY, mvdr_refused(site, "eps inf", &spec), spec = good;
    spec.tolerance = 0, mvdr_refused(site, "tolerance 0", &spec), spec = good;
    spec.max_sweeps = 0, mvdr_refused(site, "no sweeps", &spec);
    site->backend->stage("mvdr_jacobi")->destroy(NULL);
}

MVDR_CASE(wrong_shapes) {
    enum { B = 4, L = 6 };
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_spec(B, 5, L, 0);
    mvdr_open(&f, site, &spec);
    sonar_error err = {0};
    sonar_work work = mvdr_work(&f);
    sonar_buffer in = site_buffer(site, SONAR_C32, 3, (size_t[]){L + 1, 1, B});
    const size_t shapes[][3] = {{L + 1, 1, B}, {1, 1, B - 1}, {1, 2, B}};
    for (size_t i = 0; i < 3; i++) {
        memcpy(in.shape, shapes[i], sizeof shapes[i]);
        site_expect(site,
                    f.ops->execute(f.stage, site->queue, &in, f.out, &work, &err) == SONAR_EINVAL,
                    "%zu snapshots of %zu bins and %zu sensors were accepted", in.shape[0],
                    in.shape[1], in.shape[2]);
    }
    if (site->backend->native_space != SONAR_HOST) {
        sonar_buffer elsewhere = f.in;
        elsewhere.space = SONAR_HOST;
        site_expect(site,
                    f.ops->execute(f.stage, site->queue, &elsewhere, f.out, &work, &err) ==
                        SONAR_EINVAL,
                    "an input in host memory was accepted");
    }
    site_expect(site, !f.ops->execute(f.stage, site->queue, &f.in, f.out, &work, &err),
                "the right shape was refused: %s", err.text);
    site_settle(site);
    f.params.far_mvdr.bin_width_hz *= 2;
    f.params.version++;
    site_expect(site,
                f.ops->execute(f.stage, site->queue, &f.in, f.out, &work, &err) == SONAR_EINVAL,
                "turns of another bin width were accepted");
    site_free(site, &in);
    mvdr_close(&f);
}

/* Whether a stage of `spec` continues with these values. */
static void expect_accepted(site *site, const sonar_mvdr_spec *spec, const sonar_mvdr_spec *live,
                            bool accepted, const char *what) {
    mvdr_fixture f;
    sonar_error err = {0};
    mvdr_open(&f, site, spec);
    const sonar_work work = mvdr_work(&f);
    f.params.mvdr = live;
    f.params.version++;
    const sonar_code code = f.ops->execute(f.stage, site->queue, &f.in, f.out, &work, &err);
    site_expect(site, code == (accepted ? SONAR_OK : SONAR_EINVAL), "%s: %d", what, (int)code);
    f.params.mvdr = spec;
    f.params.version++;
    site_expect(site, !f.ops->execute(f.stage, site->queue, &f.in, f.out, &work, &err),
                "after %s: %s", what, err.text);
    site_settle(site);
    mvdr_close(&f);
}

/* Values that are invalid in the spec, too, and features without reserved memory. */
MVDR_CASE(wrong_live_values) {
    const sonar_mvdr_spec spec = mvdr_spec(4, 5, 6, 0);
    sonar_mvdr_spec limited = spec, musical = spec, live = spec;
    limited.white_noise_gain_db = -3, musical.music = 1;
    live.eps = 0.5, expect_accepted(site, &spec, &live, true, "another eps"), live = spec;
    live.eps = 0, expect_accepted(site, &spec, &live, false, "no eps"), live = spec;
    live.dmr = 2, expect_accepted(site, &spec, &live, false, "modes"), live = spec;
    live.tolerance = 1, expect_accepted(site, &spec, &live, false, "no tolerance"), live = spec;
    live.max_sweeps = 0, expect_accepted(site, &spec, &live, false, "no sweep");
    expect_accepted(site, &spec, &limited, false, "a limit");
    expect_accepted(site, &spec, &musical, false, "MUSIC");
    expect_accepted(site, &limited, &spec, true, "no limit");
    expect_accepted(site, &musical, &spec, true, "no MUSIC");
    live = limited, live.white_noise_gain_db = 1;
    expect_accepted(site, &limited, &live, false, "a limit that nothing meets");
    live.white_noise_gain_db = NAN;
    expect_accepted(site, &limited, &live, false, "a limit that is no number");
    live = limited, live.correct_level = true;
    expect_accepted(site, &limited, &live, false, "a limit and levels");
    live = limited, live.dmr = 1;
    expect_accepted(site, &limited, &live, false, "a limit and modes");
    live = musical, live.music = SONAR_MODES_COUNTED;
    expect_accepted(site, &musical, &live, false, "sources are not counted");
    live.music = -2, expect_accepted(site, &musical, &live, false, "-2 sources");
}

/* A near field without its turns or its shape, and one that is not in the spec. */
MVDR_CASE(wrong_near_field) {
    sonar_mvdr_spec spec = mvdr_spec(4, 5, 6, 0);
    sonar_error err = {0};
    mvdr_fixture f;
    spec.ranges = 2;
    mvdr_open(&f, site, &spec);
    sonar_work work = mvdr_work(&f);
    sonar_buffer *near = &f.out[SONAR_MVDR_OUT_NEARFIELD], right = *near;
    near->shape[0] = 3;
    site_expect(site,
                f.ops->execute(f.stage, site->queue, &f.in, f.out, &work, &err) == SONAR_EINVAL,
                "three ranges were accepted");
    *near = right;
    for (int i = 0; i < 3; i++) {
        f.params.near_mvdr = (sonar_manifold){i == 1 ? 3 : 2,
                                              i == 2 ? 4 : 5,
                                              4,
                                              f.params.far_mvdr.bin_width_hz,
                                              i ? f.near_turns : NULL,
                                              0};
        f.params.version++;
        site_expect(site,
                    f.ops->execute(f.stage, site->queue, &f.in, f.out, &work, &err) == SONAR_EINVAL,
                    "wrong turns %d were accepted", i);
    }
    f.params.near_mvdr = (sonar_manifold){2, 5, 4, f.params.far_mvdr.bin_width_hz, f.near_turns, 0};
    f.params.version++;
    site_expect(site, !f.ops->execute(f.stage, site->queue, &f.in, f.out, &work, &err),
                "the right ones were refused: %s", err.text);
    site_settle(site);
    mvdr_close(&f);
}
