/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The updated inverse, compared with a stage that solves from scratch and with the double-precision
 * oracle. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mvdr.h"
#include "mvdr_beside.h"

/* ---- long runs ------------------------------------------------------------------------------- */

#ifdef __SANITIZE_ADDRESS__
enum { WINDOWS = 1600 }; /* beyond them accesses to memory repeat */
#else
enum { WINDOWS = 10000 };
#endif

/* Ships that pass each other, and one that is switched on and off. */
static size_t passing(size_t u, double level_db, mvdr_wave waves[3]) {
    waves[0] = (mvdr_wave){50 + 40 * sin((double)u / 700), level_db};
    waves[1] = (mvdr_wave){120 - 30 * sin((double)u / 450), level_db - 10};
    waves[2] = (mvdr_wave){81, level_db};
    return u / 1500 % 2 ? 3 : 2;
}

/* `least`: the share of the windows that must have used an updated inverse. */
static void pass(site *site, const sonar_mvdr_spec *spec, double level_db, double limit_db,
                 double least) {
    const size_t windows = site->quick ? 300 : WINDOWS;
    beside b;
    mvdr_wave waves[3];
    beside_begin_following(&b, site, spec);
    const size_t count = passing(0, level_db, waves), l = spec->snapshots;
    beside_fill(&b, waves, count, 1);
    for (size_t u = 1; u <= windows; u++) {
        const size_t n = passing(u, level_db, waves);
        sonar_c32 *x = mvdr_record(&b.f, 1, waves, n, 1000 + u);
        beside_window(&b, 1, x, u % 97 == 0 || u == windows);
        free(x);
        if (u % 2500 == 0 || u == windows)
            mvdr_expect(&b.f, 0, l, b.held, limit_db);
    }
    beside_expect_followed(&b, least);
    beside_end(&b);
}

MVDR_CASE(inverse_follows_ships) {
    const sonar_mvdr_spec trace = beside_spec(40, 120, SONAR_LOADING_TRACE, 0.01);
    pass(site, &trace, 60, 0.002, 0.5);
}

MVDR_CASE(inverse_follows_loud_ships) {
    const sonar_mvdr_spec little = beside_spec(40, 120, SONAR_LOADING_TRACE, 1e-4);
    pass(site, &little, 80, 0.01, 0.5);
}

MVDR_CASE(inverse_absolutely_loaded) {
    const sonar_mvdr_spec spec = beside_spec(40, 120, SONAR_LOADING_ABSOLUTE, 1e-4);
    pass(site, &spec, 60, 0.002, 0.5);
}

/* Rounding errors left by ships of 80 dB are detected repeatedly. */
MVDR_CASE(inverse_of_loud_ships_absolutely_loaded) {
    const sonar_mvdr_spec spec = beside_spec(40, 120, SONAR_LOADING_ABSOLUTE, 1);
    pass(site, &spec, 80, 0.01, 0.3);
}

/* Hardly more snapshots than sensors: a leaving snapshot removes nearly all information. */
MVDR_CASE(inverse_of_short_blocks) {
    const sonar_mvdr_spec spec = beside_spec(40, 44, SONAR_LOADING_ABSOLUTE, 0.01);
    pass(site, &spec, 40, 0.002, 0.1);
}

/* ---- snapshots that enter and leave ---------------------------------------------------------- */

static void step_by_step(site *site, const sonar_mvdr_spec *spec) {
    static const size_t steps[] = {1, 2, 0, 1, 3, 1, 1, 20, 1, 4, 1, 1, 1, 75, 1, 1};
    const size_t kinds = sizeof steps / sizeof *steps, stride = spec->bins * spec->sensors;
    const mvdr_wave waves[] = {{70, 30}, {110, 40}};
    beside b;
    beside_begin_following(&b, site, spec);
    beside_fill(&b, waves, 2, 3);
    for (size_t i = 0; i < 6 * kinds; i++) {
        const size_t step = steps[i % kinds];
        sonar_c32 *x = mvdr_record(&b.f, step + 1, waves, 2, 50 + i);
        if (i % 11 == 5 && step)
            x[stride - 1].re = INFINITY; /* of the last bin */
        beside_window(&b, step, x, true);
        free(x);
    }
    beside_expect_followed(&b, 0.33);
    beside_end(&b);
}

MVDR_CASE(inverse_any_number_of_snapshots) {
    sonar_mvdr_spec spec = beside_spec(33, 70, SONAR_LOADING_TRACE, 0.01);
    spec.max_new = 75, spec.bins = 2;
    step_by_step(site, &spec);
    spec.loading = SONAR_LOADING_ABSOLUTE, spec.eps = 3;
    step_by_step(site, &spec);
    spec.forward_backward = true;
    step_by_step(site, &spec);
    spec.correct_level = true;
    step_by_step(site, &spec);
    spec.loading = SONAR_LOADING_TRACE, spec.eps = 0.1;
    step_by_step(site, &spec);
}

/* While the block fills, the snapshots' weights change in every window; after a reset no snapshot
 * leaves. */
static void fill_twice(site *site, const sonar_mvdr_spec *spec, double level_db, double least) {
    const size_t n = spec->sensors, l = spec->snapshots;
    beside b;
    beside_begin_following(&b, site, spec);
    sonar_c32 *x = mvdr_record(&b.f, l, (mvdr_wave[]){{70, level_db}}, 1, 4);
    for (size_t u = 0; u < 2 * l; u++) {
        if (u == l + 50)
            mvdr_reset(&b.f), mvdr_reset(&b.reference);
        beside_both(&b, x + u % l * n);
    }
    beside_expect_followed(&b, least);
    free(x);
    beside_end(&b);
}

MVDR_CASE(inverse_while_the_block_fills) {
    const sonar_mvdr_spec spec = beside_spec(36, 400, SONAR_LOADING_TRACE, 0.01);
    fill_twice(site, &spec, 40, 0.6);
}

/* With few snapshots all information on a source is in the few nonzero eigenvalues. */
MVDR_CASE(inverse_while_the_block_fills_with_little_loading) {
    sonar_mvdr_spec spec = beside_spec(100, 150, SONAR_LOADING_ABSOLUTE, 0.1);
    fill_twice(site, &spec, 40, 0.1);
    spec.correct_level = true;
    fill_twice(site, &spec, 20, 0.1);
}

/* In micropascal a ship's samples are 1e6 and more. */
MVDR_CASE(inverse_any_unit) {
    enum { B = 35, L = 90, UPDATES = 40 };
    for (int exponent = -24; exponent <= 24; exponent += 24) {
        sonar_mvdr_spec spec = beside_spec(B, L, SONAR_LOADING_TRACE, 0.01);
        spec.correct_level = true;
        beside b;
        beside_begin_following(&b, site, &spec);
        sonar_c32 *x = mvdr_record(&b.f, L + UPDATES, (mvdr_wave[]){{70, 20}}, 1, 6);
        for (size_t i = 0; i < (L + UPDATES) * B; i++)
            x[i] = (sonar_c32){ldexpf(x[i].re, exponent), ldexpf(x[i].im, exponent)};
        beside_window(&b, L, x, true);
        for (size_t u = 0; u < UPDATES; u++)
            beside_window(&b, 1, x + (L + u) * B, true);
        beside_expect_followed(&b, 0.5);
        free(x);
        beside_end(&b);
    }
}

/* A snapshot with NaN affects only its bin, until it leaves the block. */
MVDR_CASE(inverse_not_a_number_in_one_bin) {
    enum { B = 34, L = 60 };
    sonar_mvdr_spec spec = beside_spec(B, L, SONAR_LOADING_ABSOLUTE, 1);
    const mvdr_wave wave = {70, 20};
    beside b;
    spec.bins = 2;
    beside_begin_following(&b, site, &spec);
    beside_fill(&b, &wave, 1, 5);
    beside_go_on(&b, 10, &wave, 1, 6);
    const unsigned age = beside_age(&b, 0);
    sonar_c32 *x = mvdr_record(&b.f, 1, &wave, 1, 7);
    x[B + 3].im = NAN;
    beside_window(&b, 1, x, true);
    free(x);
    beside_expect_age(&b, 0, age + 1);
    site_expect(site, mvdr_info(&b.f, 1, SONAR_MVDR_SNAPSHOTS) == L - 1, "snapshots");
    beside_go_on(&b, L + 20, &wave, 1, 8);
    beside_expect_age(&b, 0, age + L + 21);
    site_expect(site, mvdr_info(&b.f, 1, SONAR_MVDR_SNAPSHOTS) == L, "snapshots");
    beside_end(&b);
}

/* 160 dB above the noise, once. */
MVDR_CASE(inverse_a_transient_leaves_nothing_behind) {
    enum { B = 34, L = 50 };
    for (int rule = 0; rule < 2; rule++) {
        const sonar_mvdr_spec spec = rule ? beside_spec(B, L, SONAR_LOADING_ABSOLUTE, 1)
                                          : beside_spec(B, L, SONAR_LOADING_TRACE, 0.01);
        beside b;
        beside_begin_following(&b, site, &spec);
        beside_fill(&b, (mvdr_wave[]){{70, 20}}, 1, 9);
        beside_go_on(&b, 20, (mvdr_wave[]){{70, 20}}, 1, 10);
        sonar_c32 *x = mvdr_record(&b.f, 1, (mvdr_wave[]){{100, 160}}, 1, 11);
        beside_window(&b, 1, x, false); /* both stages are beyond what float32 steering resolves */
        free(x);
        x = mvdr_record(&b.f, L, (mvdr_wave[]){{70, 20}}, 1, 12);
        for (size_t u = 0; u < L; u++)
            beside_window(&b, 1, x + u * B, u + 1 == L);
        free(x);
        beside_go_on(&b, 30, (mvdr_wave[]){{70, 20}}, 1, 13);
        beside_expect_followed(&b, 0.4);
        beside_end(&b);
    }
}

/* A loading that differs within the bound is corrected; beyond it M is recomputed. */
MVDR_CASE(inverse_another_loading) {
    enum { B = 40, L = 100 };
    const double steps[] = {1.02, 0.98, 1.024, 0.977, 1.4, 0.5};
    const mvdr_wave waves[] = {{70, 50}, {100, 10}};
    for (int i = 0; i < 6; i++) {
        /* as much loading as noise: eigenvalues on both sides of it */
        const sonar_mvdr_spec spec = beside_spec(B, L, SONAR_LOADING_ABSOLUTE, 1);
        beside b;
        beside_begin_following(&b, site, &spec);
        b.f.params.far_mvdr.made = 1; /* the turns stay */
        beside_fill(&b, waves, 2, 17);
        beside_go_on(&b, 8, waves, 2, 18);
        const unsigned age = beside_age(&b, 0);
        sonar_mvdr_spec live = spec;
        live.eps *= steps[i];
        b.f.params.mvdr = b.reference.params.mvdr = &live;
        b.f.params.version++, b.reference.params.version++;
        beside_go_on(&b, 1, waves, 2, 19);
        beside_expect_age(&b, 0, i < 4 ? age + 1 : 0);
        beside_go_on(&b, 20, waves, 2, 20);
        beside_expect_age(&b, 0, i < 4 ? age + 21 : 20);
        beside_end(&b);
    }
}

/* ---- windows with other requests ------------------------------------------------------------- */

static void run_unrequested(beside *b, uint64_t seed) {
    const sonar_mvdr_spec *spec = &b->f.spec;
    const size_t stride = spec->bins * spec->sensors;
    const sonar_work work = {.params = &b->f.params};
    sonar_c32 *x = mvdr_record(&b->f, 1, NULL, 0, seed);
    sonar_buffer in = b->f.in;
    sonar_error err = {0};
    in.shape[0] = 1;
    in.bytes = stride * sizeof *x;
    site_send(b->site, x, &in);
    memmove(b->held, b->held + stride, (b->length - 1) * stride * sizeof *x);
    memcpy(b->held + (b->length - 1) * stride, x, stride * sizeof *x);
    site_require(b->site, b->f.ops->execute(b->f.stage, b->site->queue, &in, b->f.out, &work, &err),
                 &err);
    free(x);
}

/* Windows without a request, eigenvalues, another speed of sound, a mask, other rules: an outdated
 * inverse is never used. */
static void change_everything(site *site, bool forward_backward) {
    enum { B = 38, L = 80 };
    sonar_mvdr_spec spec = beside_spec(B, L, SONAR_LOADING_TRACE, 0.01), live;
    const mvdr_wave waves[] = {{70, 40}};
    beside b;
    spec.bins = 2, spec.forward_backward = forward_backward;
    live = spec;
    beside_begin_following(&b, site, &spec);
    b.f.params.far_mvdr.made = 1; /* the turns stay */
    beside_fill(&b, waves, 1, 21);
    for (uint64_t i = 0; i < 36; i++) {
        const size_t sensor = (size_t)i % B;
        beside_go_on(&b, 1 + (size_t)i % 5, waves, 1, 100 + i);
        live.loading = i % 6 == 0 ? SONAR_LOADING_NOISE : SONAR_LOADING_TRACE;
        live.source_count = i % 6 == 1 ? SONAR_COUNT_MDL : SONAR_COUNT_OFF;
        b.f.params.mvdr = b.reference.params.mvdr = &live;
        b.f.params.version++, b.reference.params.version++;
        b.f.wants_eigenvalues = i % 6 == 2;
        if (i % 6 == 3)
            run_unrequested(&b, 200 + i);
        if (i % 6 == 4 || i % 6 == 5) {
            b.f.used[sensor] = b.reference.used[sensor] = i % 6 == 5;
            mvdr_renew(&b.f), mvdr_renew(&b.reference);
        }
    }
    beside_expect_followed(&b, 0.08);
    mvdr_reset(&b.f);
    beside_fill(&b, waves, 1, 22);
    beside_go_on(&b, 5, waves, 1, 23);
    beside_end(&b);
}

MVDR_CASE(inverse_everything_changes) {
    change_everything(site, false);
}

/* If a sensor is masked, its mirror image is masked, too. */
MVDR_CASE(inverse_everything_changes_with_mirror_images) {
    change_everything(site, true);
}
