/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The spectrum compared with the oracle: blocks, sliding, forgetting, masks, forward-backward,
 * loading rules, loud scenes, evaluation off the grid. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mvdr.h"

enum { DIRECTIONS = 90 };

static void block(site *site, const sonar_mvdr_spec *spec, const mvdr_wave *waves, size_t count,
                  uint64_t seed, double limit_db) {
    mvdr_fixture f;
    mvdr_open(&f, site, spec);
    f.apart_db = 2 * limit_db;
    sonar_c32 *x = mvdr_record(&f, spec->snapshots, waves, count, seed);
    mvdr_run(&f, spec->snapshots, x);
    mvdr_expect(&f, 0, spec->snapshots, x, limit_db);
    free(x);
    mvdr_close(&f);
}

static const mvdr_wave LOUD[] = {{50.5, 60}, {81, 50}, {120, 40}};

/* Every combination of sizes below, at, and above L = B. */
static void sizes_at(site *site, double level_db, double limit_db) {
    static const size_t sizes[] = {1, 2, 3, 7, 16, 31, 64, 128};
    mvdr_wave waves[] = {{50.5, level_db}, {81, level_db - 10}, {120, level_db - 20}};
    for (size_t i = 0; i < (site->quick ? 5 : sizeof sizes / sizeof *sizes); i++) {
        size_t b = sizes[i], lengths[] = {1, 2, b / 2, b, b + 1, 2 * b};
        for (size_t j = 0; j < sizeof lengths / sizeof *lengths; j++)
            for (int rule = 0; rule < 2 && lengths[j]; rule++) {
                sonar_mvdr_spec spec = mvdr_spec(b, DIRECTIONS, lengths[j], 0);
                spec.loading = rule ? SONAR_LOADING_TRACE : SONAR_LOADING_NOISE;
                spec.eps = rule ? 1e-4 : 1;
                block(site, &spec, waves, 3, 1 + i * 100 + j, limit_db);
            }
    }
}

MVDR_CASE(quiet) {
    sizes_at(site, 0, 1e-4);
}
MVDR_CASE(loud_40_db) {
    sizes_at(site, 40, 5e-4);
}
MVDR_CASE(loud_60_db) {
    sizes_at(site, 60, 0.002);
}
MVDR_CASE(loud_80_db) {
    sizes_at(site, 80, 0.01);
}

MVDR_CASE(random_sizes) {
    uint64_t seed = 7;
    for (int i = 0; i < (site->quick ? 6 : 40); i++) {
        size_t b = 1 + (size_t)(test_uniform(&seed) * (site->quick ? 20 : 60)),
               l = 1 + (size_t)(test_uniform(&seed) * (site->quick ? 40 : 90));
        sonar_mvdr_spec spec = mvdr_spec(b, 1 + b % 37, l, 0);
        spec.loading = SONAR_LOADING_NOISE;
        spec.eps = 0.3;
        mvdr_wave waves[] = {{30 + 100 * test_uniform(&seed), 60 * test_uniform(&seed)},
                             {30 + 100 * test_uniform(&seed), 30 * test_uniform(&seed)}};
        spec.solver = i % 2 ? SONAR_MVDR_JACOBI : SONAR_MVDR_AUTO;
        block(site, &spec, waves, 2, (uint64_t)i, 0.002);
    }
}

/* More sensors and snapshots than a GPU's multiprocessor holds. */
MVDR_CASE(beyond_shared_memory) {
    static const size_t sizes[][2] = {{150, 150}, {200, 380}, {300, 180}, {310, 311}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        sonar_mvdr_spec spec = mvdr_spec(sizes[i][0], DIRECTIONS, sizes[i][1], 0);
        spec.eps = 1e-4;
        block(site, &spec, LOUD, 3, 40 + i, 0.002);
    }
}

/* Nearly no loading, which the noise rule multiplies by little noise: the result depends only on
 * the data, and float32 would be wrong by up to 29 dB. */
MVDR_CASE(low_loading) {
    static const size_t sizes[][2] = {{24, 1}, {24, 6}, {24, 12}, {64, 16}, {64, 32}, {128, 37}};
    for (size_t i = 0; i < (site->quick ? 3 : sizeof sizes / sizeof *sizes); i++)
        for (int level_db = 60; level_db <= 80; level_db += 20)
            for (int solver = SONAR_MVDR_AUTO; solver <= SONAR_MVDR_JACOBI; solver++) {
                const mvdr_wave waves[] = {{50.5, level_db}, {53, level_db - 10}, {120, 30}};
                sonar_mvdr_spec spec = mvdr_spec(sizes[i][0], DIRECTIONS, sizes[i][1], 0);
                spec.loading = SONAR_LOADING_NOISE, spec.eps = 1e-4;
                spec.solver = (sonar_mvdr_solver)solver;
                block(site, &spec, waves, 3, 90 + i, 0.01);
            }
}

MVDR_CASE(low_loading_large) {
    const mvdr_wave waves[] = {{50.5, 80}, {51, 70}, {120, 60}};
    sonar_mvdr_spec spec = mvdr_spec(512, DIRECTIONS, 128, 0);
    spec.loading = SONAR_LOADING_NOISE, spec.eps = 1e-4;
    block(site, &spec, waves, 3, 17, 0.01);
}

/* A block of half as many snapshots as sensors, solved in snapshot space; the same snapshots in a
 * block with room for one more, solved in sensor space. */
MVDR_CASE(both_spaces) {
    enum { B = 32, L = B / 2 };
    for (int correct = 0; correct < 2; correct++)
        for (int solver = SONAR_MVDR_AUTO; solver <= SONAR_MVDR_JACOBI; solver++) {
            mvdr_fixture f, g;
            sonar_mvdr_spec spec = mvdr_spec(B, DIRECTIONS, L, 0);
            spec.loading = SONAR_LOADING_NOISE, spec.eps = 0.01, spec.correct_level = correct;
            spec.solver = (sonar_mvdr_solver)solver;
            mvdr_open(&f, site, &spec);
            spec.snapshots++;
            mvdr_open(&g, site, &spec);
            sonar_c32 *x = mvdr_record(&f, L, LOUD, 3, 8);
            mvdr_run(&f, L, x);
            mvdr_run(&g, L, x);
            for (size_t t = 0; t < DIRECTIONS; t++)
                site_expect(site, fabs(10 * log10((double)(f.azimuth[t] / g.azimuth[t]))) < 1e-3,
                            "correct %d, direction %zu: %g and %g", correct, t,
                            (double)f.azimuth[t], (double)g.azimuth[t]);
            free(x);
            mvdr_close(&f);
            mvdr_close(&g);
        }
}

/* The look straight at a source 80 dB above the noise: the residual must not cancel to nothing. */
MVDR_CASE(pointing) {
    sonar_mvdr_spec spec = mvdr_spec(site->quick ? 32 : 128, 400, site->quick ? 16 : 64, 0);
    for (int rule = 0; rule < 2; rule++) {
        spec.loading = rule ? SONAR_LOADING_TRACE : SONAR_LOADING_NOISE;
        spec.eps = rule ? 1e-7 : 1;
        block(site, &spec, (mvdr_wave[]){{180.0 * 150.5 / 400, 80}}, 1, 5, 0.01);
    }
}

/* About as many snapshots as sensors and little loading: R's smallest eigenvalues decide. */
MVDR_CASE(nearly_square) {
    for (size_t l = 40; l <= (site->quick ? 40 : 70); l += 5) {
        sonar_mvdr_spec spec = mvdr_spec(48, DIRECTIONS, l, 0);
        spec.loading = SONAR_LOADING_NOISE;
        spec.eps = 0.01;
        block(site, &spec, LOUD, 3, l, 5e-4);
    }
}

MVDR_CASE(loading_rules) {
    mvdr_wave waves[] = {{60, 30}, {100, 25}};
    for (size_t l = 3; l < 50; l += site->quick ? 18 : 9)
        for (size_t known = 0; known < 4; known++) {
            sonar_mvdr_spec spec = mvdr_spec(24, DIRECTIONS, l, 0);
            spec.loading = SONAR_LOADING_NOISE;
            spec.eps = 0.5;
            spec.known_sources = known;
            block(site, &spec, waves, 2, l, 0.01);
            spec.loading = SONAR_LOADING_ABSOLUTE;
            spec.eps = 0.25;
            block(site, &spec, waves, 2, l, 0.01);
        }
}

/* The noise cannot be estimated from snapshots up to the number of sources plus two; the trace can.
 */
MVDR_CASE(trace_fallback) {
    for (size_t l = 5; l < 8; l++) {
        mvdr_fixture f;
        sonar_mvdr_spec spec = mvdr_spec(12, DIRECTIONS, l, 0);
        spec.loading = SONAR_LOADING_NOISE;
        spec.known_sources = 2;
        mvdr_open(&f, site, &spec);
        sonar_c32 *x = mvdr_record(&f, l, NULL, 0, l);
        mvdr_run(&f, l, x);
        bool flagged = mvdr_flags(&f, 0) & SONAR_MVDR_FLAG_TRACE_FALLBACK;
        site_expect(site, flagged == (l <= 6), "L %zu: flagged %d", l, flagged);
        mvdr_expect(&f, 0, l, x, 0.01);
        free(x);
        mvdr_close(&f);
    }
}

/* ---- the past -------------------------------------------------------------------------------- */

/* Snapshots come one, two, none or many at a time; the block is the last L of them. */
MVDR_CASE(sliding) {
    enum { L = 20, TOTAL = 130 };
    static const size_t steps[] = {1, 2, 0, 5, 31, 1, 1, 20, 3};
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_spec(17, DIRECTIONS, L, 0);
    spec.max_new = 31;
    spec.bins = 3;
    mvdr_open(&f, site, &spec);
    sonar_c32 *x = mvdr_record(&f, TOTAL, (mvdr_wave[]){{70, 40}}, 1, 3);
    size_t stride = spec.bins * spec.sensors, end = 0;
    for (size_t i = 0; end + 31 < TOTAL; i++) {
        size_t step = steps[i % (sizeof steps / sizeof *steps)];
        mvdr_run(&f, step, x + end * stride);
        end += step;
        size_t l = end < L ? end : L;
        for (size_t bin = 0; bin < spec.bins; bin++)
            mvdr_expect(&f, bin, l, x + (end - l) * stride, 0.002);
    }
    free(x);
    mvdr_close(&f);
}

/* Largest difference in dB between the spectra of two stages over all bins. */
static double apart_db(const mvdr_fixture *f, const mvdr_fixture *other) {
    double worst = 0;
    for (size_t i = 0; i < f->spec.bins * f->spec.directions; i++) {
        const double db = 10 * log10((double)f->spectrum[i] / (double)other->spectrum[i]);
        if (!(fabs(db) <= worst))
            worst = isfinite(db) ? fabs(db) : INFINITY;
    }
    return worst;
}

/* The array is `away_m` from the origin, unless forward-backward averaging requires it at the
 * origin, and two of its sensors are dead. */
static void move(mvdr_fixture *f, double away_m) {
    const size_t sensors = f->spec.sensors, dead = sensors / 3;
    for (size_t k = 0; k < sensors && !f->spec.forward_backward; k++)
        f->position_m[3 * k] += away_m;
    f->used[dead] = f->used[sensors - 1 - dead] = 0;
    mvdr_renew(f);
    if (f->twin)
        move(f->twin, away_m);
}

static void few_at_a_time(site *site, const sonar_mvdr_spec *spec, double away_m) {
    enum { MORE = 24, SEEN = 2 };
    static const size_t steps[] = {1, 9, 3, 8, 2, 1}; /* MORE together */
    const size_t stride = spec->bins * spec->sensors, l = spec->snapshots;
    mvdr_fixture f, other;
    mvdr_open(&f, site, spec);
    mvdr_open_alone(&other, site, spec);
    f.apart_db = 0.01;
    move(&f, away_m);
    move(&other, away_m);
    sonar_c32 *x = mvdr_record(&f, l + MORE, (mvdr_wave[]){{50.5, 80}, {81, 60}}, 2, spec->bins);
    for (size_t i = MORE; i < MORE + 2; i++) /* a dead sensor gives zeros */
        x[i * stride + spec->sensors / 3].re = 1e30f;
    mvdr_run(&f, l, x);
    for (size_t i = 0, end = l; end < l + MORE; i++) {
        mvdr_run(&f, steps[i], x + end * stride);
        end += steps[i];
    }
    mvdr_run(&other, l, x + MORE * stride);
    site_expect(site, apart_db(&f, &other) < 1e-3, "%zu sensors, %zu bins: %g dB off all at once",
                spec->sensors, spec->bins, apart_db(&f, &other));
    for (size_t i = 0; i < SEEN && spec->sensors < 100; i++)
        mvdr_expect(&f, i * (spec->bins - 1), l, x + MORE * stride, 0.01);
    free(x);
    mvdr_close(&f);
    mvdr_close(&other);
}

/* The result for a block does not depend on how its snapshots were divided, with loud ships, for
 * any number of sensors, bins and directions, any position of the array and any bins. */
MVDR_CASE(few_at_a_time) {
    static const size_t sensors[] = {45, 67, 1063}, bins[] = {1, 5, 16, 17, 37},
                        directions[] = {1, 16, 19};
    for (size_t s = 0; s < (site->quick ? 2 : 3); s++)
        for (size_t b = site->quick ? 3 : 0; b < (site->quick ? 4 : 5); b++)
            for (int both_ways = 0; both_ways < 2; both_ways++) {
                sonar_mvdr_spec spec = mvdr_spec(sensors[s], directions[(b + s) % 3], 12, 0);
                spec.bins = bins[b];
                spec.loading = SONAR_LOADING_NOISE, spec.eps = 1;
                spec.forward_backward = both_ways;
                few_at_a_time(site, &spec, b * 1e4);
                spec.length *= 1000, spec.first_bin *= 1000;
                few_at_a_time(site, &spec, b * 1e4);
            }
}

struct stream {
    size_t sensors, snapshots, updates;
    sonar_loading rule;
    sonar_mvdr_solver solver;
    bool loud; /* ships of 80 dB that come and go; else quieter ones that pass each other */
};

/* Ships at a share of the stream. Returns how many. */
static size_t ships_at(const struct stream *s, double along, mvdr_wave ships[3]) {
    if (!s->loud) {
        ships[0] = (mvdr_wave){20 + 140 * along, 60 - 40 * along};
        ships[1] = (mvdr_wave){150 - 90 * along, 40};
        return 2;
    }
    const double third = along * 3 - floor(along * 3);
    ships[0] = (mvdr_wave){40 + 100 * along, 80};
    ships[1] = (mvdr_wave){140 - 90 * along, 20};
    ships[2] = (mvdr_wave){60 + 20 * along, 80};
    return third > 0.3 && third < 0.8 ? 3 : 2;
}

/* A mask that changes, and a snapshot with NaN: after thousands of updates the result equals that
 * of a new stage. */
static void follow_stream(site *site, const struct stream *s) {
    enum { T = 36 };
    const size_t n = s->sensors, l = s->snapshots;
    const size_t updates = site->quick ? l + 150 : s->updates;
    mvdr_fixture f, g;
    sonar_mvdr_spec spec = mvdr_spec(n, T, l, 0);
    spec.loading = s->rule, spec.eps = 0.1, spec.bins = 2, spec.solver = s->solver;
    sonar_c32 *held = calloc(l * spec.bins * n, sizeof *held);
    mvdr_open(&f, site, &spec);
    mvdr_open(&g, site, &spec);
    for (size_t u = 0; u < updates; u++) {
        mvdr_wave ships[3];
        const size_t count = ships_at(s, (double)u / (double)updates, ships);
        sonar_c32 *x = mvdr_record(&f, 1, ships, count, 1000 + u);
        const size_t stride = spec.bins * n;
        if (u % 501 == 77)
            x[3].im = NAN;
        memmove(held, held + stride, (l - 1) * stride * sizeof *held);
        memcpy(held + (l - 1) * stride, x, stride * sizeof *held);
        if (u % 700 == 300 || u % 700 == 350) {
            f.used[5] = g.used[5] = u % 700 == 350;
            mvdr_renew(&f), mvdr_renew(&g);
        }
        mvdr_run(&f, 1, x);
        free(x);
        if (u < l || u % (updates / 25) != 0)
            continue;
        mvdr_reset(&g);
        mvdr_run(&g, l, held);
        for (size_t t = 0; t < spec.bins * T; t++)
            site_expect(site, fabs(10 * log10((double)(f.spectrum[t] / g.spectrum[t]))) < 1e-3,
                        "L %zu, update %zu: %g, from nothing %g", l, u, (double)f.spectrum[t],
                        (double)g.spectrum[t]);
    }
    free(held);
    mvdr_close(&f);
    mvdr_close(&g);
}

MVDR_CASE(streaming) {
    static const struct stream streams[] = {
        {24, 10, 10000, SONAR_LOADING_NOISE, SONAR_MVDR_AUTO, false},
        {24, 30, 10000, SONAR_LOADING_NOISE, SONAR_MVDR_AUTO, false},
        {200, 240, 400, SONAR_LOADING_NOISE, SONAR_MVDR_AUTO, false},
        {200, 240, 400, SONAR_LOADING_TRACE, SONAR_MVDR_AUTO, false},
        {200, 240, 400, SONAR_LOADING_ABSOLUTE, SONAR_MVDR_AUTO, false}};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        follow_stream(site, &streams[i]);
}

/* The same with eigenvectors, which are found from those of the window before. */
MVDR_CASE(streaming_vectors) {
    static const struct stream streams[] = {
        {24, 10, 10000, SONAR_LOADING_NOISE, SONAR_MVDR_JACOBI, true},
        {24, 30, 2000, SONAR_LOADING_NOISE, SONAR_MVDR_JACOBI, true},
        {70, 100, 300, SONAR_LOADING_NOISE, SONAR_MVDR_JACOBI, true}};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        follow_stream(site, &streams[i]);
}

/* A snapshot 160 dB above the noise leaves no error behind. */
MVDR_CASE(transient) {
    enum { B = 12, L = 24, LOUD = 5, COUNT = L + LOUD + 2 };
    mvdr_fixture f;
    const sonar_mvdr_spec spec = mvdr_spec(B, DIRECTIONS, L, 0);
    mvdr_open(&f, site, &spec);
    sonar_c32 *x = mvdr_record(&f, COUNT, (mvdr_wave[]){{70, 20}}, 1, 12);
    const size_t stride = spec.bins * B;
    for (size_t i = LOUD * stride; i < (LOUD + 1) * stride; i++)
        x[i] = (sonar_c32){1e8f * x[i].re, 1e8f * x[i].im};
    f.apart_db = INFINITY;
    for (size_t i = 0; i < COUNT - 1; i++)
        mvdr_run(&f, 1, x + i * stride);
    f.apart_db = 1e-3;
    mvdr_run(&f, 1, x + (COUNT - 1) * stride);
    mvdr_expect(&f, 0, L, x + (COUNT - L) * stride, 1e-3);
    free(x);
    mvdr_close(&f);
}

/* The spectrum, the loading and the level are the same with and without requested eigenvalues, for
 * every rule. */
static void compare_without(site *site, const sonar_mvdr_spec *spec, size_t l) {
    mvdr_fixture f, g;
    const mvdr_wave waves[] = {{50.5, 30}, {81, 10}};
    mvdr_open_alone(&f, site, spec);
    mvdr_open_alone(&g, site, spec);
    g.wants_eigenvalues = true;
    sonar_c32 *x = mvdr_record(&f, l, waves, 2, l);
    mvdr_run(&f, l, x);
    mvdr_run(&g, l, x);
    for (size_t t = 0; t < spec->bins * spec->directions; t++)
        site_expect(site, fabs(10 * log10((double)(f.spectrum[t] / g.spectrum[t]))) < 0.005,
                    "rule %d, %zu sensors, L %zu: %g, not %g", (int)spec->loading, spec->sensors, l,
                    (double)f.spectrum[t], (double)g.spectrum[t]);
    for (size_t bin = 0; bin < spec->bins; bin++)
        for (int field = SONAR_MVDR_DELTA; field <= SONAR_MVDR_LEVEL; field++) {
            const double mine = (double)mvdr_info(&f, bin, field),
                         its = (double)mvdr_info(&g, bin, field);
            site_expect(site, fabs(mine - its) <= 1e-3 * fabs(its),
                        "rule %d, %zu sensors, L %zu, field %d: %g, not %g", (int)spec->loading,
                        spec->sensors, l, field, mine, its);
        }
    free(x);
    mvdr_close(&f);
    mvdr_close(&g);
}

MVDR_CASE(without_eigenvalues) {
    static const size_t sizes[][2] = {{12, 5}, {13, 20}, {24, 9}, {40, 80}, {67, 70}, {50, 30}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int rule = 0; rule < SONAR_LOADINGS; rule++)
            for (int variant = 0; variant < 3; variant++) {
                sonar_mvdr_spec spec = mvdr_spec(sizes[i][0], DIRECTIONS, sizes[i][1], 0);
                spec.loading = (sonar_loading)rule, spec.bins = 2;
                spec.eps = rule == SONAR_LOADING_NOISE ? 1 : 0.05;
                spec.forward_backward = variant == 1, spec.correct_level = variant == 2;
                compare_without(site, &spec, sizes[i][1]);
            }
}

/* As above, of matrices whose median is found without the other eigenvalues. */
MVDR_CASE(large_noise_rule) {
    static const size_t sizes[][2] = {{150, 150}, {131, 280}, {300, 180}, {290, 420}, {310, 140}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int level_db = 0; level_db <= 80; level_db += 40) {
            const mvdr_wave waves[] = {{50.5, level_db}, {81, level_db - 10}};
            sonar_mvdr_spec spec = mvdr_spec(sizes[i][0], DIRECTIONS, sizes[i][1], 0);
            spec.loading = SONAR_LOADING_NOISE, spec.eps = 1, spec.bins = 3;
            block(site, &spec, waves, 2, 20 + i, 0.005);
        }
}

static void forget(site *site, size_t sensors, double alpha, double level_db, size_t step,
                   double limit_db) {
    enum { UPDATES = 50 };
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_spec(sensors, DIRECTIONS, step, alpha);
    spec.loading = SONAR_LOADING_NOISE;
    spec.eps = 1;
    mvdr_open(&f, site, &spec);
    f.apart_db = 2 * limit_db;
    mvdr_wave waves[] = {{50.5, level_db}, {81, level_db - 10}, {120, level_db - 20}};
    sonar_c32 *x = mvdr_record(&f, UPDATES * step, waves, 3, sensors);
    for (size_t update = 0; update < UPDATES; update++) {
        mvdr_run(&f, step, x + update * step * sensors);
        if (update % 7 == 0 || update + 1 == UPDATES)
            mvdr_expect(&f, 0, (update + 1) * step, x, limit_db);
    }
    free(x);
    mvdr_close(&f);
}

MVDR_CASE(forgetting) {
    forget(site, 8, 0.97, 60, 1, 0.002);
    forget(site, 5, 0.5, 40, 4, 0.002);
    forget(site, 31, 0.9, 60, 2, 0.002);
    if (site->quick)
        return;
    forget(site, 64, 0.97, 60, 1, 0.002);
    forget(site, 64, 0.9, 60, 2, 0.002);
    forget(site, 80, 0.4, 60, 4, 0.002); /* few enough faded snapshots that they are kept */
    forget(site, 72, 0.4, 60, 1, 0.002);
    forget(site, 32, 0.97, 80, 1, 0.01);
    forget(site, 64, 0.95, 80, 1, 0.01);
}

/* ---- masks and mirrors ----------------------------------------------------------------------- */

/* A mask that changes while running: rows leave and come back, R is over the used sensors only. */
static void mask_all_ways(site *site, size_t l) {
    enum { B = 24 };
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_spec(B, DIRECTIONS, l, 0);
    spec.loading = SONAR_LOADING_NOISE;
    spec.eps = 1;
    mvdr_open(&f, site, &spec);
    sonar_c32 *x = mvdr_record(&f, l, (mvdr_wave[]){{70, 50}}, 1, 11);
    mvdr_run(&f, l, x);
    for (uint64_t trial = 0, seed = 5; trial < 8; trial++) {
        for (size_t k = 0; k < B; k++)
            f.used[k] = trial == 7 || test_uniform(&seed) < 0.7;
        mvdr_renew(&f);
        mvdr_run(&f, 0, NULL);
        mvdr_expect(&f, 0, l, x, 0.002);
    }
    memset(f.used, 0, B);
    mvdr_renew(&f);
    mvdr_run(&f, 0, NULL);
    for (size_t t = 0; t < DIRECTIONS; t++)
        site_expect(site, f.azimuth[t] == 0, "all masked, yet %g", (double)f.azimuth[t]);
    free(x);
    mvdr_close(&f);
}

MVDR_CASE(masks) {
    mask_all_ways(site, 7);
    mask_all_ways(site, 40);
}

/* Sensors leave and come back while their past is carried on. */
MVDR_CASE(mask_while_forgetting) {
    enum { COUNT = 60, B = 20 };
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_spec(B, DIRECTIONS, 1, 0.95);
    mvdr_open(&f, site, &spec);
    sonar_c32 *x = mvdr_record(&f, COUNT, (mvdr_wave[]){{70, 40}}, 1, 17);
    for (size_t s = 0; s < COUNT; s++) {
        if (s == 30) {
            f.used[0] = f.used[7] = f.used[8] = 0;
            mvdr_renew(&f);
        }
        mvdr_run(&f, 1, x + s * B);
    }
    mvdr_expect(&f, 0, COUNT, x, 0.002);
    f.used[7] = 1;
    mvdr_renew(&f);
    mvdr_run(&f, 1, x);
    for (size_t t = 0; t < DIRECTIONS; t++)
        site_expect(site, isfinite(f.azimuth[t]) && f.azimuth[t] > 0, "a sensor back: %g",
                    (double)f.azimuth[t]);
    free(x);
    mvdr_close(&f);
}

static void backward(site *site, size_t sensors, size_t l, double alpha, size_t masked) {
    static const size_t odd[] = {1, 3, 9};
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_spec(sensors, DIRECTIONS, l, alpha);
    spec.forward_backward = true;
    spec.eps = 1e-3;
    mvdr_open(&f, site, &spec);
    sonar_c32 *x = mvdr_record(&f, l, (mvdr_wave[]){{60, 40}, {100, 20}}, 2, 23);
    f.used[5] = alpha > 0; /* returns with its past, like its mirror image */
    mvdr_renew(&f);
    mvdr_run(&f, l - 1, x);
    f.used[5] = 1;
    for (size_t i = 0; i < masked; i++)
        f.used[odd[i]] = 0;
    mvdr_renew(&f);
    mvdr_run(&f, 1, x + (l - 1) * sensors);
    for (size_t i = 0; i < masked; i++) /* the oracle's mask: mirrors are dropped too */
        f.used[sensors - 1 - odd[i]] = 0;
    mvdr_renew(&f);
    mvdr_expect(&f, 0, l, x, 0.002);
    free(x);
    mvdr_close(&f);
}

MVDR_CASE(forward_backward) {
    backward(site, 16, 5, 0, 0);
    backward(site, 17, 9, 0, 0);
    backward(site, 16, 40, 0, 0);
    backward(site, 32, 12, 0, 3);
    backward(site, 32, 7, 0, 3);
    backward(site, 31, 30, 0, 3);
    backward(site, 12, 40, 0.9, 0);
    backward(site, 13, 30, 0.8, 2);
}

/* ---- off the grid ---------------------------------------------------------------------------- */

/* Points on the grid equal execute's results, in any order, more points than directions, with a
 * masked sensor; broadband is (fs/N) sum_b P; after a reset there is no result. */
MVDR_CASE(evaluate) {
    enum { T = 23, B = 19, BINS = 5, L = 30, POINTS = 2 * T + 5 };
    mvdr_fixture f;
    float power[POINTS];
    uint64_t at[POINTS * B];
    sonar_mvdr_spec spec = mvdr_spec(B, T, L, 0);
    spec.bins = BINS;
    mvdr_open(&f, site, &spec);
    f.used[4] = 0;
    mvdr_renew(&f);
    sonar_c32 *x = mvdr_record(&f, L, (mvdr_wave[]){{60, 60}}, 1, 31);
    mvdr_run(&f, L, x);
    for (size_t i = 0; i < POINTS; i++)
        memcpy(at + i * B, f.turns + (i * 7 % T) * B, B * sizeof *at);
    mvdr_evaluate(&f, POINTS, at, power);
    for (size_t i = 0; i < POINTS; i++)
        site_expect(site, power[i] == f.azimuth[i * 7 % T], "point %zu: %g, azimuth %g", i,
                    (double)power[i], (double)f.azimuth[i * 7 % T]);
    for (size_t t = 0; t < T; t++) {
        double sum = 0;
        for (size_t bin = 0; bin < BINS; bin++)
            sum += (double)f.spectrum[bin * T + t] * 5; /* fs/N = 5 Hz */
        site_expect(site, fabs((double)f.azimuth[t] - sum) <= 1e-6 * sum, "broadband at %zu", t);
    }
    mvdr_reset(&f);
    mvdr_evaluate(&f, POINTS, at, power);
    site_expect(site, power[3] == 0, "after a reset %g", (double)power[3]);
    free(x);
    mvdr_close(&f);
}
