/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Results of the decomposition besides the spectrum: eigenvalues and the number of sources. */
#include <math.h>
#include <stdlib.h>

#include "mvdr.h"

/* Three ships, two of them loud. */
static const mvdr_wave SHIPS[] = {{50.5, 40}, {81, 20}, {120, 10}};

/* The oracle's eigenvalues of a bin that has seen these snapshots, as many as it has sensors. */
static double *eigenvalues_of(const mvdr_fixture *f, size_t bin, size_t count, const sonar_c32 *x) {
    const size_t n = f->params.sensors_used;
    cplx *r = mvdr_covariance(f, bin, count, x);
    double *d = calloc(n + 1, sizeof *d);
    mvdr_oracle_eigenvalues(n, r, d);
    free(r);
    return d;
}

/* ---- eigenvalues ----------------------------------------------------------------------------- */

/* Compared with the oracle, in both spaces, while the block fills, masked, averaged and forgetting.
 * Eigenvalues beyond the rank are 0. */
static void eigenvalues(site *site, size_t sensors, size_t l, double alpha, bool backward) {
    enum { BINS = 2 };
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_spec(sensors, 9, l, alpha);
    spec.bins = BINS, spec.forward_backward = backward;
    mvdr_open(&f, site, &spec);
    f.wants_eigenvalues = true;
    const size_t modes = sonar_mvdr_modes(&spec), each = backward ? 2 : 1;
    const size_t counts[] = {l / 3 + 1, l - l / 3 - 1};
    sonar_c32 *x = mvdr_record(&f, l, SHIPS, 3, sensors + l);
    for (size_t i = 0, seen = 0; i < 2; i++) {
        if (i && sensors > 4) { /* and its mirror image, for the oracle's sake */
            f.used[1] = f.used[sensors - 2] = 0;
            mvdr_renew(&f);
        }
        mvdr_run(&f, counts[i], x + seen * BINS * sensors);
        seen += counts[i];
        for (size_t bin = 0; bin < BINS; bin++) {
            double *d = eigenvalues_of(&f, bin, seen, x);
            const size_t n = f.params.sensors_used, rank = each * seen < n ? each * seen : n;
            for (size_t m = 0; m < modes; m++) {
                const double got = (double)f.eigenvalues[bin * modes + m];
                const double is = m < rank ? d[m] : 0;
                site_expect(site, fabs(got - is) <= 1e-6 * is + 1e-12 * d[0],
                            "B %zu, L %zu, alpha %g, after %zu: eigenvalue %zu is %g, not %g",
                            sensors, l, alpha, seen, m, got, is);
            }
            free(d);
        }
    }
    free(x);
    mvdr_close(&f);
}

MVDR_CASE(eigenvalues) {
    for (int backward = 0; backward < 2; backward++) {
        eigenvalues(site, 16, 5, 0, backward);
        eigenvalues(site, 17, 12, 0, backward);
        eigenvalues(site, 12, 30, 0, backward);
        eigenvalues(site, 9, 25, 0.9, backward);
        eigenvalues(site, 80, 20, 0.3, backward);
        eigenvalues(site, 1, 4, 0, backward);
    }
}

/* ---- the number of sources ------------------------------------------------------------------- */

static size_t sources_of(const mvdr_fixture *f, size_t bin) {
    return (size_t)mvdr_info(f, bin, SONAR_MVDR_SOURCES);
}

/* Every rule counts as the oracle does; off counts no sources. */
static void count_sources(site *site, size_t sensors, size_t l, double alpha, bool backward) {
    enum { BINS = 8 };
    for (int rule = SONAR_COUNT_OFF; rule <= SONAR_COUNT_RANDOM_MATRIX; rule++) {
        mvdr_fixture f;
        sonar_mvdr_spec spec = mvdr_spec(sensors, 5, l, alpha);
        spec.bins = BINS, spec.forward_backward = backward;
        spec.source_count = (sonar_source_count)rule;
        mvdr_open(&f, site, &spec);
        sonar_c32 *x = mvdr_record(&f, l, SHIPS, (size_t)rule, 7 * sensors + l);
        mvdr_run(&f, l, x);
        for (size_t bin = 0; bin < BINS; bin++) {
            double *d = eigenvalues_of(&f, bin, l, x);
            const double looks = mvdr_looks(&f, l) * (backward ? 2 : 1);
            const size_t is =
                rule ? mvdr_oracle_sources(spec.source_count, sensors, d, looks, backward) : 0;
            site_expect(site, sources_of(&f, bin) == is, "rule %d, B %zu, L %zu: %zu, not %zu",
                        rule, sensors, l, sources_of(&f, bin), is);
            free(d);
        }
        free(x);
        mvdr_close(&f);
    }
}

MVDR_CASE(source_counts) {
    static const size_t sizes[][2] = {{12, 1}, {12, 2}, {24, 7}, {24, 12}, {24, 20}, {15, 60}};
    for (int backward = 0; backward < 2; backward++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            count_sources(site, sizes[i][0], sizes[i][1], 0, backward);
    count_sources(site, 10, 60, 0.9, false);
    count_sources(site, 30, 60, 0.9, false);
    count_sources(site, 1, 9, 0, false);
}

/* Share of bins in which the rule finds exactly `expected` of the scene's sources. */
static double share_of(site *site, sonar_source_count rule, size_t sensors, size_t l,
                       const mvdr_wave *waves, size_t count, bool backward) {
    enum { BINS = 100, ROUNDS = 4 };
    mvdr_fixture f;
    size_t right = 0;
    sonar_mvdr_spec spec = mvdr_spec(sensors, 1, l, 0);
    spec.bins = BINS, spec.source_count = rule, spec.forward_backward = backward;
    mvdr_open(&f, site, &spec);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        sonar_c32 *x = mvdr_record(&f, l, waves, count, 100 * round + l);
        mvdr_run(&f, l, x);
        for (size_t bin = 0; bin < BINS; bin++)
            right += sources_of(&f, bin) == count;
        free(x);
    }
    mvdr_close(&f);
    return (double)right / (BINS * ROUNDS);
}

/* Of white noise the random-matrix rule finds no source in 84 % of the bins: where its statistic,
 * chi squared of one degree of freedom, is 2 or less; MDL in nearly all, if there are more
 * snapshots than sensors or fewer. 0.05 is three times the scatter of 400 bins. */
MVDR_CASE(no_sources_found) {
    static const size_t sizes[][2] = {{16, 8}, {16, 40}, {24, 12}, {12, 100}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int backward = 0; backward < 2; backward++) {
            const double random = share_of(site, SONAR_COUNT_RANDOM_MATRIX, sizes[i][0],
                                           sizes[i][1], NULL, 0, backward);
            const double mdl =
                share_of(site, SONAR_COUNT_MDL, sizes[i][0], sizes[i][1], NULL, 0, backward);
            site_expect(site, random >= 0.843 - 0.05, "B %zu, L %zu: random_matrix %g", sizes[i][0],
                        sizes[i][1], random);
            site_expect(site, mdl >= 0.98, "B %zu, L %zu: mdl %g", sizes[i][0], sizes[i][1], mdl);
        }
}

/* Three sources at least 14 dB above the threshold of random matrices, sqrt(B/L) times the noise,
 * after array gain: all are found, and no more false ones than from noise alone. */
MVDR_CASE(sources_found) {
    static const mvdr_wave waves[] = {{50, 30}, {81, 20}, {120, 8}};
    static const size_t sizes[][2] = {{24, 12}, {24, 40}, {16, 100}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t n = sizes[i][0], l = sizes[i][1];
        const double random = share_of(site, SONAR_COUNT_RANDOM_MATRIX, n, l, waves, 3, false);
        const double mdl = share_of(site, SONAR_COUNT_MDL, n, l, waves, 3, false);
        site_expect(site, random >= 0.843 - 0.05, "B %zu, L %zu: random_matrix %g", n, l, random);
        site_expect(site, mdl >= 0.95, "B %zu, L %zu: mdl %g", n, l, mdl);
    }
}

/* ---- dominant mode rejection ----------------------------------------------------------------- */

/* One bin compared with the oracle, in all directions by execute and again by evaluate. */
static void expect_dominant(mvdr_fixture *f, size_t bin, size_t count, const sonar_c32 *x,
                            double limit_db) {
    enum { T = 37 };
    const size_t n = f->params.sensors_used;
    const double looks = mvdr_looks(f, count) * (f->spec.forward_backward ? 2 : 1);
    cplx *r = mvdr_covariance(f, bin, count, x), *a = calloc(n * T, sizeof *a);
    double *d = eigenvalues_of(f, bin, count, x), power[T];
    const size_t most = (looks < (double)n ? (size_t)lround(looks) : n) - 1;
    size_t modes = f->spec.dmr > 0 ? (size_t)f->spec.dmr
                                   : mvdr_oracle_sources(f->spec.source_count, n, d, looks,
                                                         f->spec.forward_backward);
    modes = modes < most ? modes : most;
    const double noise = mvdr_oracle_noise(n, d, looks, modes);
    for (size_t t = 0; t < T; t++)
        mvdr_steering(f, bin, mvdr_azimuth_deg(f, t), a + t * n);
    mvdr_oracle_dominant(n, r, modes, noise, T, a, power);
    for (size_t t = 0; t < T; t++) {
        const double got = (double)f->spectrum[bin * T + t];
        site_expect(f->site, fabs(10 * log10(got / power[t])) <= limit_db,
                    "B %zu, L %zu, K %zu, direction %zu: %g, not %g", n, count, modes, t, got,
                    power[t]);
    }
    site_expect(f->site, (size_t)mvdr_info(f, bin, SONAR_MVDR_MODES) == modes, "%g modes, not %zu",
                (double)mvdr_info(f, bin, SONAR_MVDR_MODES), modes);
    const double said = (double)mvdr_info(f, bin, SONAR_MVDR_DELTA);
    site_expect(f->site, fabs(said - noise) <= 1e-4 * noise, "noise %g, not %g", said, noise);
    free(r);
    free(a);
    free(d);
}

static void dominant(site *site, size_t sensors, size_t l, double alpha, bool backward, int modes) {
    enum { T = 37 };
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_spec(sensors, T, l, alpha);
    spec.forward_backward = backward, spec.dmr = modes;
    spec.source_count = SONAR_COUNT_RANDOM_MATRIX;
    mvdr_open(&f, site, &spec);
    sonar_c32 *x = mvdr_record(&f, l, SHIPS, 3, sensors + l);
    mvdr_run(&f, l, x);
    expect_dominant(&f, 0, l, x, 0.002);
    mvdr_expect_evaluated(&f);
    free(x);
    mvdr_close(&f);
}

MVDR_CASE(dominant_modes) {
    static const size_t sizes[][2] = {{24, 2}, {24, 7}, {24, 12}, {24, 20}, {15, 60}};
    static const int modes[] = {1, 3, 6, 1000, SONAR_MODES_COUNTED};
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            dominant(site, sizes[i][0], sizes[i][1], 0, (m + i) % 2, modes[m]);
        dominant(site, 12, 60, 0.9, false, modes[m]);
        dominant(site, 80, 30, 0.4, true, modes[m]);
    }
}

/* A ship of 20 dB, with and without corrected level: at the ship the level by the share of
 * docs/mvdr.md, elsewhere the noise; within 0.7 dB of the mean over 60 bins. If the number of modes
 * is wrong by two, the noise changes by less than the scatter. */
MVDR_CASE(dominant_modes_levels) {
    enum { BINS = 60, T = 36, SHIP = 12, EMPTY = 30 };
    static const size_t sizes[][2] = {{32, 16}, {32, 32}, {32, 128}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int corrected = 0; corrected < 2; corrected++)
            for (int modes = 1; modes <= 3; modes += 2) {
                const double n = (double)sizes[i][0], l = (double)sizes[i][1];
                mvdr_fixture f;
                sonar_mvdr_spec spec = mvdr_spec(sizes[i][0], T, sizes[i][1], 0);
                spec.first_bin = 40, spec.bins = BINS; /* up to half a wavelength */
                spec.dmr = modes, spec.correct_level = corrected;
                mvdr_open(&f, site, &spec);
                const mvdr_wave ship = {mvdr_azimuth_deg(&f, SHIP), 20};
                sonar_c32 *x = mvdr_record(&f, sizes[i][1], &ship, 1, 77 + i);
                mvdr_run(&f, sizes[i][1], x);
                double at_ship = 0, empty = 0;
                for (size_t bin = 0; bin < BINS; bin++) {
                    at_ship += (double)f.spectrum[bin * T + SHIP] / BINS;
                    empty += (double)f.spectrum[bin * T + EMPTY] / BINS;
                }
                const double k = modes, share = (l - k + 1) / (l + n - 2 * k + 1);
                const double level = (corrected ? 1 : share) * (100 + 1 / n);
                site_expect(site, fabs(10 * log10(at_ship / level)) < 0.7,
                            "L %g, K %d, corrected %d: ship %g, not %g", l, modes, corrected,
                            at_ship, level);
                site_expect(site, fabs(10 * log10(empty * n)) < 0.7,
                            "L %g, K %d, corrected %d: %g times the noise", l, modes, corrected,
                            empty * n);
                free(x);
                mvdr_close(&f);
            }
}

MVDR_CASE(impossible_modes) {
    const sonar_mvdr_spec good = mvdr_spec(4, 5, 6, 0);
    sonar_mvdr_spec spec = good;
    spec.dmr = -2, mvdr_refused(site, "-2 modes", &spec), spec = good;
    spec.dmr = SONAR_MODES_COUNTED, mvdr_refused(site, "sources are not counted", &spec),
    spec = good;
}
