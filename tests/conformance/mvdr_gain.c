/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The limit on the white noise gain: compared with directly computed weights with the least
 * loading, found by bisection; directions that it must not change; and its purpose, a ship whose
 * sound is not exactly a plane wave at the array. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mvdr.h"

enum { T = 37 };

static const mvdr_wave SHIPS[] = {{50.5, 40}, {81, 20}, {120, 10}};

static sonar_mvdr_spec gain_spec(size_t sensors, size_t snapshots, double alpha, double gain_db) {
    sonar_mvdr_spec spec = mvdr_spec(sensors, T, snapshots, alpha);
    spec.loading = SONAR_LOADING_NOISE, spec.eps = 0.1;
    spec.white_noise_gain_db = gain_db;
    return spec;
}

/* ---- compared with the oracle ---------------------------------------------------------------- */

/* All directions, and the number of limited ones; directions at the limit may be either. */
static void expect_limited(const mvdr_fixture *f, size_t count, const sonar_c32 *x,
                           double limit_db) {
    const size_t n = f->params.sensors_used;
    cplx *r = mvdr_covariance(f, 0, count, x), *a = calloc(n * T, sizeof *a);
    double *d = calloc(n + 1, sizeof *d), power[T], gain_db[T];
    size_t limited = 0, edge = 0;
    mvdr_oracle_eigenvalues(n, r, d);
    const double looks = mvdr_looks(f, count) * (f->spec.forward_backward ? 2 : 1);
    const double delta = mvdr_oracle_delta(&f->spec, n, d, looks);
    for (size_t t = 0; t < T; t++)
        mvdr_steering(f, 0, mvdr_azimuth_deg(f, t), a + t * n);
    mvdr_oracle_limited(n, r, delta, f->spec.white_noise_gain_db, T, a, power, gain_db);
    for (size_t t = 0; t < T; t++) {
        const double got = (double)f->spectrum[t];
        site_expect(f->site, got > 0 && fabs(10 * log10(got / power[t])) <= limit_db,
                    "B %zu, L %zu, %g dB, direction %zu: %g, not %g", n, count,
                    f->spec.white_noise_gain_db, t, got, power[t]);
        limited += gain_db[t] < f->spec.white_noise_gain_db;
        edge += fabs(gain_db[t] - f->spec.white_noise_gain_db) < 1e-4;
    }
    const double told = (double)mvdr_info(f, 0, SONAR_MVDR_LIMITED);
    site_expect(f->site, fabs(told - (double)limited) <= (double)edge,
                "B %zu, L %zu, %g dB: %g directions limited, not %zu", n, count,
                f->spec.white_noise_gain_db, told, limited);
    free(r);
    free(a);
    free(d);
}

/* Tested while the block fills, and then with masked sensors. evaluate must give the same. */
static void one_scene(site *site, const sonar_mvdr_spec *spec, size_t count) {
    mvdr_fixture f;
    const size_t n = spec->sensors, first = count / 3 + 1;
    mvdr_open(&f, site, spec);
    sonar_c32 *x = mvdr_record(&f, count, SHIPS, 3, n + count);
    mvdr_run(&f, first, x);
    expect_limited(&f, first, x, 0.002);
    if (n > 4) { /* and its mirror image, for the oracle's sake */
        f.used[1] = f.used[n - 2] = 0;
        mvdr_renew(&f);
    }
    mvdr_run(&f, count - first, x + first * n);
    expect_limited(&f, count, x, 0.002);
    mvdr_expect_evaluated(&f);
    free(x);
    mvdr_close(&f);
}

MVDR_CASE(gain_limit) {
    static const size_t sizes[][2] = {{1, 5}, {24, 2}, {25, 7}, {24, 12}, {24, 20}, {15, 60}};
    static const double limits_db[] = {-60, -10, -3, -0.1};
    for (size_t k = 0; k < sizeof limits_db / sizeof *limits_db; k++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            sonar_mvdr_spec spec = gain_spec(sizes[i][0], sizes[i][1], 0, limits_db[k]);
            spec.forward_backward = (k + i) % 2;
            spec.eps = i % 2 ? 1 : 1e-3;
            one_scene(site, &spec, sizes[i][1]);
        }
        sonar_mvdr_spec spec = gain_spec(12, 60, 0.9, limits_db[k]);
        one_scene(site, &spec, 60);
        spec = gain_spec(80, 30, 0.4, limits_db[k]);
        one_scene(site, &spec, 30);
    }
}

/* With hardly any loading. */
MVDR_CASE(gain_limit_beside_loud_ships) {
    for (int limit_db = -20; limit_db < 0; limit_db += 17) {
        sonar_mvdr_spec spec = gain_spec(32, 1, 0, limit_db);
        spec.eps = 1e-3;
        mvdr_beside_loud_ships(site, &spec, 0.05, expect_limited);
    }
}

/* One snapshot, equal snapshots, equal eigenvalues, dead sensors, zeros, no snapshot yet. */
MVDR_CASE(gain_limit_of_odd_data) {
    enum { B = 16 };
    static const size_t lengths[] = {1, 8, 9, 40};
    for (size_t i = 0; i < 4; i++)
        for (int kind = 0; kind < 4; kind++) {
            const size_t l = lengths[i];
            mvdr_fixture f;
            sonar_mvdr_spec spec = gain_spec(B, l, 0, -3);
            spec.loading = SONAR_LOADING_TRACE, spec.eps = 0.01;
            mvdr_open(&f, site, &spec);
            f.apart_db = 0.01;
            sonar_c32 *x = mvdr_record(&f, l, (mvdr_wave[]){{70, 20}}, 1, 4);
            mvdr_run(&f, 0, NULL);
            for (size_t t = 0; t < T; t++)
                site_expect(site, f.spectrum[t] == 0, "nothing yet: %g", (double)f.spectrum[t]);
            for (size_t s = 0; s < l; s++)
                for (size_t k = 0; k < B; k++) {
                    sonar_c32 *v = &x[s * B + k];
                    if (kind == 0) /* all the same */
                        *v = x[k];
                    if (kind == 1 && (k == 3 || k == 11)) /* dead, yet used */
                        *v = (sonar_c32){0, 0};
                    if (kind == 2) /* at right angles, equally long */
                        *v = (sonar_c32){s % B == k ? 7 : 0, 0};
                    if (kind == 3) /* far from 1 */
                        *v = (sonar_c32){1e15f * v->re, 1e15f * v->im};
                }
            mvdr_run(&f, l, x);
            expect_limited(&f, l, x, 0.002);
            free(x);
            mvdr_close(&f);
        }
}

/* Sums over bins and the near field have the limited powers. */
MVDR_CASE(gain_limit_near_and_far) {
    enum { B = 20, BINS = 3 };
    for (size_t l = 6; l < 40; l += 30) {
        mvdr_fixture f;
        sonar_mvdr_spec spec = gain_spec(B, l, 0, -1);
        spec.bins = BINS, spec.ranges = 1;
        mvdr_open(&f, site, &spec);
        f.range_m[0] = 1e9; /* as good as far */
        mvdr_renew(&f);
        sonar_c32 *x = mvdr_record(&f, l, SHIPS, 3, 5);
        mvdr_run(&f, l, x);
        for (size_t t = 0; t < T; t++) {
            double sum = 0;
            for (size_t bin = 0; bin < BINS; bin++)
                sum += (double)f.spectrum[bin * T + t] * spec.fs_hz / (double)spec.length;
            site_expect(site, fabs((double)f.azimuth[t] / sum - 1) < 1e-6, "%zu: %g, not %g", t,
                        (double)f.azimuth[t], sum);
            site_expect(site, fabs((double)f.near[t] / sum - 1) < 1e-4, "near %zu: %g, not %g", t,
                        (double)f.near[t], sum);
        }
        site_expect(site, mvdr_info(&f, 0, SONAR_MVDR_LIMITED) > 0, "nothing is limited");
        free(x);
        mvdr_close(&f);
    }
}

/* ---- unchanged directions, and the effect ---------------------------------------------------- */

/* Directions with enough gain equal those of Jacobi without a limit, bit for bit. In other
 * directions the limit never reduces power, and a higher limit adds more. */
MVDR_CASE(gain_limit_leaves_the_others) {
    enum { B = 24, LIMITS = 4 };
    static const double limits_db[LIMITS] = {-100, -12, -3, -0.5};
    for (size_t l = 8; l < 60; l += 40) {
        float free_of[T], before[T];
        size_t same[LIMITS] = {0};
        for (int k = -1; k < LIMITS; k++) {
            mvdr_fixture f;
            sonar_mvdr_spec spec = gain_spec(B, l, 0, k < 0 ? 0 : limits_db[k]);
            spec.solver = SONAR_MVDR_JACOBI, spec.eps = 1e-3;
            mvdr_open(&f, site, &spec);
            sonar_c32 *x = mvdr_record(&f, l, SHIPS, 3, 4);
            mvdr_run(&f, l, x);
            if (k < 0)
                memcpy(free_of, f.spectrum, sizeof free_of);
            for (size_t t = 0; t < T && k >= 0; t++) {
                same[k] += f.spectrum[t] == free_of[t];
                site_expect(site, f.spectrum[t] >= before[t] * (1 - 1e-6f),
                            "L %zu, %g dB, direction %zu: %g after %g", l, limits_db[k], t,
                            (double)f.spectrum[t], (double)before[t]);
            }
            memcpy(before, f.spectrum, sizeof before);
            if (k >= 0)
                site_expect(site,
                            (double)mvdr_info(&f, 0, SONAR_MVDR_LIMITED) == (double)(T - same[k]),
                            "L %zu, %g dB: %g limited, %zu the same", l, limits_db[k],
                            (double)mvdr_info(&f, 0, SONAR_MVDR_LIMITED), same[k]);
            free(x);
            mvdr_close(&f);
        }
        site_expect(site, same[0] == T, "-100 dB limits something");
        site_expect(site, same[1] > 0 && same[1] < T && same[3] < T, "%zu and %zu the same",
                    same[1], same[3]);
    }
}

/* Sensors off by 5 deg and 0.5 dB, and a ship 20 dB above the noise: MVDR suppresses it as an
 * interferer; the limit keeps it within 3 dB of the conventional beam. */
MVDR_CASE(gain_limit_keeps_a_ship) {
    enum { B = 64, L = 200 };
    double off_db[2];
    for (int limit = 0; limit < 2; limit++) {
        mvdr_fixture f;
        sonar_mvdr_spec spec = gain_spec(B, L, 0, limit ? -1 : 0);
        spec.eps = 1;
        uint64_t seed = 3;
        mvdr_open(&f, site, &spec);
        const size_t ship = 20;
        const mvdr_wave wave = {mvdr_azimuth_deg(&f, ship), 20};
        sonar_c32 *x = mvdr_record(&f, L, &wave, 1, 9);
        cplx error[B], a[B];
        for (size_t k = 0; k < B; k++) {
            const cplx g = test_gauss(&seed);
            error[k] = cexp(0.06 * creal(g) * M_SQRT2 + I * 0.087 * cimag(g) * M_SQRT2);
        }
        for (size_t i = 0; i < (size_t)L * B; i++) {
            const cplx v = ((double)x[i].re + I * (double)x[i].im) * error[i % B];
            x[i] = (sonar_c32){(float)creal(v), (float)cimag(v)};
        }
        mvdr_run(&f, L, x);
        cplx *r = mvdr_covariance(&f, 0, L, x);
        mvdr_steering(&f, 0, wave.az_deg, a);
        off_db[limit] = 10 * log10((double)f.spectrum[ship] / mvdr_oracle_conventional(B, r, a));
        free(r);
        free(x);
        mvdr_close(&f);
    }
    site_expect(site, off_db[0] < -10, "without a limit %g dB", off_db[0]);
    site_expect(site, off_db[1] > -3 && off_db[1] < 0.5, "with it %g dB", off_db[1]);
}

/* ---- refusals -------------------------------------------------------------------------------- */

MVDR_CASE(impossible_gain_limit) {
    const sonar_mvdr_spec good = gain_spec(4, 6, 0, -3);
    sonar_mvdr_spec spec = good;
    spec.white_noise_gain_db = 1, mvdr_refused(site, "above uniform weights", &spec), spec = good;
    spec.white_noise_gain_db = NAN, mvdr_refused(site, "no number", &spec), spec = good;
    spec.white_noise_gain_db = -INFINITY, mvdr_refused(site, "infinite", &spec), spec = good;
    spec.dmr = 1, mvdr_refused(site, "dominant modes", &spec), spec = good;
    spec.correct_level = true, mvdr_refused(site, "corrected levels", &spec);
}
