/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The adaptive near field: compared with the oracle at every point, its far limit, both spaces,
 * computed only on request, and its purpose: a near source beside a loud ship. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dft/dft.h"
#include "mvdr.h"

enum { DIRECTIONS = 23, RANGES = 3 };

static sonar_mvdr_spec near_spec(size_t sensors, size_t snapshots, double alpha) {
    sonar_mvdr_spec spec = mvdr_spec(sensors, DIRECTIONS, snapshots, alpha);
    spec.ranges = RANGES;
    spec.bins = 2;
    spec.loading = SONAR_LOADING_NOISE;
    spec.eps = 0.01;
    return spec;
}

/* Adds a source of random amplitude at a point; level in dB re the noise of a sensor. */
static void add_source(const mvdr_fixture *f, double az_deg, double range_m, double level_db,
                       size_t count, sonar_c32 *x) {
    const sonar_mvdr_spec *spec = &f->spec;
    const double width_hz = spec->fs_hz / (double)spec->length;
    uint64_t seed = 77;
    for (size_t i = 0; i < count * spec->bins; i++) {
        const double hz = (double)(spec->first_bin + i % spec->bins) * width_hz;
        const cplx s = pow(10, level_db / 20) * test_gauss(&seed);
        for (size_t k = 0; k < spec->sensors; k++) {
            const cplx v = s * cexp(2 * M_PI * I * hz * mvdr_delay_from(f, k, az_deg, range_m));
            x[i * spec->sensors + k].re += (float)creal(v);
            x[i * spec->sensors + k].im += (float)cimag(v);
        }
    }
}

/* A ship far away and a source inside the list of ranges, off its cells; malloc'ed. */
static sonar_c32 *near_scene(const mvdr_fixture *f, size_t count, uint64_t seed) {
    sonar_c32 *x = mvdr_record(f, count, (mvdr_wave[]){{50.5, 60}}, 1, seed);
    add_source(f, 100, 1.3 * f->range_m[0], 20, count, x);
    return x;
}

/* ---- compared with the oracle ---------------------------------------------------------------- */

/* In three steps, so that the ring wraps; a sensor is masked before the last. */
static void near_beside_oracle(site *site, sonar_mvdr_spec spec, size_t count, size_t masked) {
    mvdr_fixture f;
    const size_t stride = spec.bins * spec.sensors;
    const size_t last = spec.snapshots ? spec.snapshots : count;
    spec.max_new = count;
    mvdr_open(&f, site, &spec);
    f.apart_db = 0.02;
    sonar_c32 *x = near_scene(&f, count, 3 * spec.sensors + count);
    const size_t steps[] = {0, count / 2, count - 1, count};
    for (size_t i = 0; i < 3; i++) {
        if (i == 2 && masked) {
            f.used[masked] = f.used[spec.sensors - 1 - masked] = 0;
            mvdr_renew(&f);
        }
        mvdr_run(&f, steps[i + 1] - steps[i], x + steps[i] * stride);
    }
    mvdr_expect_near(&f, last, x + (count - last) * stride, 0.01);
    mvdr_expect(&f, 1, last, x + (count - last) * stride, 0.01);
    free(x);
    mvdr_close(&f);
}

MVDR_CASE(near_field) {
    static const size_t sizes[][2] = {{16, 4}, {16, 8}, {17, 9}, {16, 40}, {33, 13}, {64, 30}};
    for (size_t i = 0; i < (site->quick ? 4 : sizeof sizes / sizeof *sizes); i++)
        for (int solver = SONAR_MVDR_AUTO; solver <= SONAR_MVDR_JACOBI; solver++)
            for (int mirrored = 0; mirrored < 2; mirrored++) {
                sonar_mvdr_spec spec = near_spec(sizes[i][0], sizes[i][1], 0);
                spec.solver = (sonar_mvdr_solver)solver;
                spec.forward_backward = mirrored;
                near_beside_oracle(site, spec, sizes[i][1] + 3, i % 2 ? 3 : 0);
            }
    near_beside_oracle(site, near_spec(12, 1, 0.9), 20, 2);
    near_beside_oracle(site, near_spec(80, 1, 0.4), 40, 2);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void expect_same(site *site, const char *what, size_t count, const float *mine,
                        const float *other, double limit_db) {
    double worst = 0;
    for (size_t i = 0; i < count; i++)
        worst = fmax(worst, mine[i] > 0 && other[i] > 0
                                ? fabs(10 * log10((double)mine[i] / (double)other[i]))
                                : 1000);
    site_expect(site, worst <= limit_db, "%s: %g dB apart", what, worst);
}

/* Very far away it is mvdr.azimuth, corrected levels too; nearer it is not. */
MVDR_CASE(near_field_far_away) {
    for (int correct = 0; correct < 2; correct++)
        for (size_t l = 8; l <= 32; l += 24) {
            mvdr_fixture f;
            sonar_mvdr_spec spec = near_spec(24, l, 0);
            spec.correct_level = correct;
            mvdr_open(&f, site, &spec);
            f.range_m[1] = 1e8, f.range_m[2] = 1e10;
            mvdr_renew(&f);
            sonar_c32 *x = near_scene(&f, l, l);
            mvdr_run(&f, l, x);
            expect_same(site, "far away", DIRECTIONS, f.near + DIRECTIONS, f.azimuth, 0.01);
            expect_same(site, "farther", DIRECTIONS, f.near + 2 * DIRECTIONS, f.azimuth, 0.001);
            site_expect(site, memcmp(f.near, f.azimuth, DIRECTIONS * sizeof(float)),
                        "a range changes nothing");
            free(x);
            mvdr_close(&f);
        }
}

/* Half as many snapshots as sensors, in snapshot space and in sensor space. */
MVDR_CASE(near_field_both_spaces) {
    enum { B = 32, L = B / 2 };
    for (int correct = 0; correct < 2; correct++) {
        mvdr_fixture f, g;
        sonar_mvdr_spec spec = near_spec(B, L, 0);
        spec.correct_level = correct;
        spec.eps = correct ? 0.1 : 0.01; /* 20 dB of correction would multiply what is rounded */
        mvdr_open(&f, site, &spec);
        spec.snapshots++;
        mvdr_open(&g, site, &spec);
        sonar_c32 *x = near_scene(&f, L, 8);
        mvdr_run(&f, L, x);
        mvdr_run(&g, L, x);
        expect_same(site, "spaces", RANGES * DIRECTIONS, f.near, g.near, 1e-3);
        free(x);
        mvdr_close(&f);
        mvdr_close(&g);
    }
}

/* Bins that are steered at a tone are so for points, too, or the tone would be suppressed; execute
 * agrees with evaluate. */
MVDR_CASE(near_field_of_a_tone) {
    enum { B = 40, L = 18, POINTS = RANGES * DIRECTIONS, CELL = DIRECTIONS + 9 };
    mvdr_fixture f;
    sonar_mvdr_tones hann;
    double window[256];
    float here[POINTS];
    sonar_dft_taper(SONAR_HANN, 0, 256, window);
    sonar_mvdr_tones_make(window, 256, &hann);
    sonar_mvdr_spec spec = near_spec(B, L, 0);
    spec.tones = &hann, spec.correct_level = true;
    mvdr_open(&f, site, &spec);
    const double az_deg = mvdr_azimuth_deg(&f, CELL - DIRECTIONS), below = 300 * 1.7,
                 above = 300 * 1.3;
    sonar_c32 *x = mvdr_record(&f, L, NULL, 0, 3);
    /* 0.3 bins above the first bin: its amplitudes are as (1 + o) and -(2 - o), for o = -0.7 */
    for (size_t s = 0; s < L; s++)
        for (size_t k = 0; k < B; k++)
            for (size_t b = 0; b < 2; b++) {
                const double hz = 5 * ((double)spec.first_bin + 0.3);
                const double delay_s = mvdr_delay_from(&f, k, az_deg, f.range_m[1]);
                const cplx a = cexp(2 * M_PI * I * hz * delay_s) * (b ? -above : below);
                sonar_c32 *v = &x[(s * 2 + b) * B + k];
                v->re += (float)creal(a), v->im += (float)cimag(a);
            }
    mvdr_run(&f, L, x);
    site_expect(site, fabs((double)mvdr_info(&f, 0, SONAR_MVDR_OFFSET) - 0.3) < 0.02, "offset %g",
                (double)mvdr_info(&f, 0, SONAR_MVDR_OFFSET));
    const double power = 5 * (below * below + above * above); /* 5 Hz a bin */
    site_expect(site, fabs(10 * log10((double)f.near[CELL] / power)) < 1, "%g, not %g",
                (double)f.near[CELL], power);
    mvdr_evaluate(&f, POINTS, f.near_turns, here);
    expect_same(site, "evaluate", POINTS, f.near, here, 1e-5);
    free(x);
    mvdr_close(&f);
}

/* ---- computed only on request ---------------------------------------------------------------- */

static void run_for(mvdr_fixture *f, uint32_t outputs, const sonar_c32 *x) {
    sonar_work work = mvdr_work(f);
    sonar_buffer in = f->in;
    sonar_error err = {0};
    work.outputs = outputs;
    in.shape[0] = 1;
    in.bytes = f->spec.bins * f->spec.sensors * sizeof *x;
    for (int i = 0; i < SONAR_MVDR_OUTPUTS; i++) {
        memset(f->output[i], 0xff, f->out[i].bytes);
        site_send(f->site, f->output[i], &f->out[i]);
    }
    site_send(f->site, x, &in);
    site_require(f->site, f->ops->execute(f->stage, f->site->queue, &in, f->out, &work, &err),
                 &err);
    for (int i = 0; i < SONAR_MVDR_OUTPUTS; i++)
        site_fetch(f->site, &f->out[i], f->output[i]);
}

static bool untouched(const float *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!isnan(values[i]))
            return false;
    return true;
}

/* Whether near fields are the same bits; to rounding where eigenvectors on a GPU follow from those
 * of the last window that was solved. */
static bool same_near(const mvdr_fixture *f, const mvdr_fixture *g) {
    if (!site_taken() || strcmp(site_taken()->name, "with-jacobi") != 0)
        return !memcmp(f->near, g->near, RANGES * DIRECTIONS * sizeof *f->near);
    for (size_t i = 0; i < RANGES * DIRECTIONS; i++)
        if (!(fabsf(f->near[i] - g->near[i]) <= 2 * FLT_EPSILON * g->near[i]))
            return false;
    return true;
}

/* Surfaces that are not requested are not written, and the near field does not depend on earlier
 * requests. */
MVDR_CASE(near_field_unwanted) {
    enum { B = 20, COUNT = 9 };
    static const uint32_t wants[] = {
        0, SONAR_WANT(SONAR_MVDR_AZIMUTH), SONAR_WANT(SONAR_MVDR_NEARFIELD),
        SONAR_WANT(SONAR_MVDR_SPECTRUM) | SONAR_WANT(SONAR_MVDR_NEARFIELD)};
    static const size_t lengths[] = {6, 15};
    for (size_t i = 0; i < 2; i++) {
        mvdr_fixture f, g;
        sonar_mvdr_spec spec = near_spec(B, lengths[i], 0);
        mvdr_open_alone(&f, site, &spec);
        mvdr_open_alone(&g, site, &spec);
        sonar_c32 *x = near_scene(&f, COUNT, 5);
        for (size_t s = 0; s < COUNT; s++) {
            const uint32_t outputs = wants[s * 7 % 4];
            const bool near = outputs & SONAR_WANT(SONAR_MVDR_NEARFIELD);
            const bool far = outputs & ~SONAR_WANT(SONAR_MVDR_NEARFIELD);
            run_for(&f, outputs, x + s * 2 * B);
            run_for(&g, wants[3], x + s * 2 * B);
            site_expect(site, untouched(f.near, RANGES * DIRECTIONS) == !near, "near, step %zu", s);
            site_expect(site, untouched(f.azimuth, DIRECTIONS) == !far, "azimuth, step %zu", s);
            site_expect(site, isnan(f.info[0]) == !(near || far), "info, step %zu", s);
            if (near)
                site_expect(site, same_near(&f, &g), "step %zu: another near field", s);
        }
        free(x);
        mvdr_close(&f);
        mvdr_close(&g);
    }
}

/* ---- purpose --------------------------------------------------------------------------------- */

/* The conventional beam's broadband power at a point, of `count` snapshots. */
static double conventional(const mvdr_fixture *f, double az_deg, double range_m, size_t count,
                           const sonar_c32 *x) {
    double sum = 0;
    for (size_t bin = 0; bin < f->spec.bins; bin++) {
        cplx a[64], *r = mvdr_covariance(f, bin, count, x);
        mvdr_steering_to(f, bin, az_deg, range_m, a);
        sum += mvdr_oracle_conventional(f->spec.sensors, r, a);
        free(r);
    }
    return sum;
}

/* The highest cell of [range][direction] more than 15 deg away from `apart_deg`. */
static size_t highest(const mvdr_fixture *f, const double *power, double apart_deg) {
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < f->spec.ranges * f->spec.directions; i++) {
        const double az_deg = mvdr_azimuth_deg(f, i % f->spec.directions);
        if (fabs(az_deg - apart_deg) > 15 && (best == SIZE_MAX || power[i] > power[best]))
            best = i;
    }
    return best;
}

/* A quiet source at a known point, a ship 50 dB louder far away: the adaptive near field peaks at
 * its range and bearing, the conventional one at a side lobe of the ship. */
MVDR_CASE(near_field_beside_a_ship) {
    enum { B = 48, T = 90, R = 6, L = 60, CELL = 2 * T + 62 };
    mvdr_fixture f;
    double adaptive[R * T], conventionally[R * T];
    sonar_mvdr_spec spec = mvdr_spec(B, T, L, 0);
    spec.ranges = R, spec.bins = 3, spec.loading = SONAR_LOADING_NOISE, spec.eps = 1;
    mvdr_open(&f, site, &spec);
    for (size_t r = 0; r < R; r++)
        f.range_m[r] = 40 * pow(1.6, (double)r);
    mvdr_renew(&f);
    const double az_deg = mvdr_azimuth_deg(&f, CELL % T), range_m = f.range_m[CELL / T];
    sonar_c32 *x = mvdr_record(&f, L, (mvdr_wave[]){{70.3, 50}}, 1, 21);
    add_source(&f, az_deg, range_m, 0, L, x);
    mvdr_run(&f, L, x);
    for (size_t i = 0; i < R * T; i++) {
        adaptive[i] = (double)f.near[i];
        conventionally[i] = conventional(&f, mvdr_azimuth_deg(&f, i % T), f.range_m[i / T], L, x);
    }
    const size_t found = highest(&f, adaptive, 70.3), masked = highest(&f, conventionally, 70.3);
    site_expect(site, found == CELL, "found at %g deg, %g m, not %g deg, %g m",
                mvdr_azimuth_deg(&f, found % T), f.range_m[found / T], az_deg, range_m);
    site_expect(site, conventionally[masked] > 10 * conventionally[CELL],
                "the conventional near field is not masked: %g and %g", conventionally[masked],
                conventionally[CELL]);
    double beside = 0; /* in the same bearing at other ranges */
    for (size_t r = 0; r < R; r++)
        if (r != CELL / T)
            beside = fmax(beside, adaptive[r * T + CELL % T]);
    site_expect(site, adaptive[CELL] > 2 * beside, "the range is not found: %g and %g",
                adaptive[CELL], beside);
    free(x);
    mvdr_close(&f);
}
