/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the decomposition of the covariance tells besides the spectrum: eigenvalues and the number
 * of sources. */
#include <math.h>
#include <stdlib.h>

#include "mvdr.h"

/* Three ships, of which two are loud. */
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

/* Beside the oracle, in both spaces, while the block fills, masked, averaged and forgetting. What
 * cannot be there is 0. */
static void eigenvalues(site *site, size_t sensors, size_t l, double alpha, bool backward) {
    enum { BINS = 2 };
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_spec(sensors, 9, l, alpha);
    spec.bins = BINS, spec.forward_backward = backward;
    mvdr_open(&f, site, &spec);
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

/* Every rule counts what the oracle counts; off counts nothing. */
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
 * behind the array: all found, and as few too many as from noise alone. */
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
