/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The inverse that follows the snapshots, on the CPU: beside a stage that begins anew with every
 * window, because somebody wants its eigenvalues, and beside the double-precision oracle. */
#include "conformance/mvdr.h"
#include "conformance/try.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mvdr_jacobi/internal.h"

enum { T = 45 };

/* Two stages that get the same, and the last snapshots. */
typedef struct beside {
    sonar_host host;
    site here;
    mvdr_fixture f, anew;
    sonar_c32 *held;                  /* [2 L][bin][sensor], the newest last */
    size_t length, windows, followed; /* windows of bin 0 with an inverse of windows before */
    double worst_db;
} beside;

static sonar_mvdr_spec spec_of(size_t sensors, size_t snapshots, sonar_loading rule, double eps) {
    sonar_mvdr_spec spec = mvdr_spec(sensors, T, snapshots, 0);
    spec.loading = rule, spec.eps = eps;
    return spec;
}

/* With any number of sensors. */
static const char *follow(void *ctx, const char *decision) {
    (void)ctx;
    return strcmp(decision, "mvdr.inverse") == 0 ? "follow" : NULL;
}

static void open_with(beside *b, const sonar_mvdr_spec *spec, const sonar_host *host) {
    memset(b, 0, sizeof *b);
    b->host = *host;
    b->host.choice = follow;
    b->here = site_open(sonar_backend_cpu(), &b->host);
    b->length = spec->snapshots;
    mvdr_open_alone(&b->f, &b->here, spec);
    mvdr_open_alone(&b->anew, &b->here, spec);
    b->anew.wants_eigenvalues = true;
    b->held = calloc(b->length * spec->bins * spec->sensors, sizeof *b->held);
}

static void begin(beside *b, const sonar_mvdr_spec *spec) {
    open_with(b, spec, sonar_host_serial());
}

static void end(beside *b) {
    cr_expect_lt(b->worst_db, 1e-3, "%g dB from a stage that begins anew", b->worst_db);
    free(b->held);
    mvdr_close(&b->f);
    mvdr_close(&b->anew);
    site_close(&b->here);
}

static const mvdr_inverse *inverse_of(const beside *b, size_t bin) {
    const mvdr_stage *stage = b->f.stage;
    return &stage->inverse[bin];
}

static double apart_db(const float *x, const float *y, size_t count) {
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        const double db = fabs(10 * log10((double)x[i] / (double)y[i]));
        worst = x[i] == y[i] ? worst : db >= 0 ? fmax(worst, db) : 1000;
    }
    return worst;
}

/* What both say of the last window, and at points that are no directions. */
static void compare(beside *b) {
    enum { POINTS = 5 };
    const size_t bins = b->f.spec.bins;
    const mvdr_stage *anew = b->anew.stage;
    float at_f[POINTS], at_anew[POINTS];
    double db = apart_db(b->f.spectrum, b->anew.spectrum, bins * T);
    const uint64_t *turns = b->f.turns + b->windows % T * b->f.spec.sensors / POINTS;
    mvdr_evaluate(&b->f, POINTS, turns, at_f);
    mvdr_evaluate(&b->anew, POINTS, turns, at_anew);
    db = fmax(db, apart_db(at_f, at_anew, POINTS));
    cr_expect(!anew->inverse[0].kept && !(b->f.wants_eigenvalues && inverse_of(b, 0)->kept));
    cr_expect_lt(db, 1e-3, "window %zu: %g dB", b->windows, db);
    b->worst_db = fmax(b->worst_db, db);
    for (size_t bin = 0; bin < bins; bin++) {
        cr_expect_eq(mvdr_flags(&b->f, bin), mvdr_flags(&b->anew, bin));
        cr_expect_eq(mvdr_info(&b->f, bin, SONAR_MVDR_SNAPSHOTS),
                     mvdr_info(&b->anew, bin, SONAR_MVDR_SNAPSHOTS));
        for (int field = SONAR_MVDR_DELTA; field <= SONAR_MVDR_LEVEL;
             field += SONAR_MVDR_LEVEL - SONAR_MVDR_DELTA) {
            const double one = (double)mvdr_info(&b->f, bin, field);
            const double other = (double)mvdr_info(&b->anew, bin, field);
            const double rounding = field == SONAR_MVDR_LEVEL ? 1e-6 : 0; /* of 1 less a sum */
            cr_expect(fabs(one - other) <= 1e-3 * fabs(other) + rounding, "field %d: %g, %g", field,
                      one, other);
        }
    }
}

/* One window; `judged`: the other stage gets it too, and what it had not got before. */
static void window(beside *b, size_t count, const sonar_c32 *x, bool judged) {
    const size_t stride = b->f.spec.bins * b->f.spec.sensors, l = b->length;
    const size_t kept = count < l ? l - count : 0, fresh = l - kept;
    memmove(b->held, b->held + fresh * stride, kept * stride * sizeof *x);
    memcpy(b->held + kept * stride, x + (count - fresh) * stride, fresh * stride * sizeof *x);
    mvdr_run(&b->f, count, x);
    b->windows++;
    b->followed += inverse_of(b, 0)->age > 0;
    if (!judged)
        return;
    mvdr_reset(&b->anew);
    mvdr_run(&b->anew, l, b->held);
    compare(b);
}

static void fill(beside *b, const mvdr_wave *waves, size_t n, uint64_t seed) {
    sonar_c32 *x = mvdr_record(&b->f, b->length, waves, n, seed);
    window(b, b->length, x, true);
    free(x);
}

/* One new snapshot a window. */
static void go_on(beside *b, size_t windows, const mvdr_wave *waves, size_t n, uint64_t seed) {
    const size_t stride = b->f.spec.bins * b->f.spec.sensors;
    sonar_c32 *x = mvdr_record(&b->f, windows, waves, n, seed);
    for (size_t i = 0; i < windows; i++)
        window(b, 1, x + i * stride, true);
    free(x);
}

/* ---- long runs ------------------------------------------------------------------------------- */

/* Ships that pass one another and one that is switched on and off. */
static size_t passing(size_t u, double level_db, mvdr_wave waves[3]) {
    waves[0] = (mvdr_wave){50 + 40 * sin((double)u / 700), level_db};
    waves[1] = (mvdr_wave){120 - 30 * sin((double)u / 450), level_db - 10};
    waves[2] = (mvdr_wave){81, level_db};
    return u / 1500 % 2 ? 3 : 2;
}

/* `least`: the share of the windows that must have followed the ones before. */
static void pass(const sonar_mvdr_spec *spec, double level_db, double limit_db, double least) {
    enum { WINDOWS = 10000 };
    beside b;
    mvdr_wave waves[3];
    begin(&b, spec);
    const size_t count = passing(0, level_db, waves), l = spec->snapshots;
    fill(&b, waves, count, 1);
    for (size_t u = 1; u <= WINDOWS; u++) {
        const size_t n = passing(u, level_db, waves);
        sonar_c32 *x = mvdr_record(&b.f, 1, waves, n, 1000 + u);
        window(&b, 1, x, u % 97 == 0 || u == WINDOWS);
        free(x);
        if (u % 2500 == 0)
            mvdr_expect(&b.f, 0, l, b.held, limit_db);
    }
    cr_expect_gt((double)b.followed, least * (double)b.windows, "%zu of %zu windows", b.followed,
                 b.windows);
    end(&b);
}

Test(mvdr_inverse, follows_ships_of_60_db_by_trace) {
    const sonar_mvdr_spec spec = spec_of(40, 120, SONAR_LOADING_TRACE, 0.01);
    pass(&spec, 60, 0.002, 0.5);
}

Test(mvdr_inverse, follows_ships_of_80_db_with_little_loading) {
    const sonar_mvdr_spec spec = spec_of(40, 120, SONAR_LOADING_TRACE, 1e-4);
    pass(&spec, 80, 0.01, 0.5);
}

Test(mvdr_inverse, follows_ships_of_60_db_by_absolute_loading) {
    const sonar_mvdr_spec spec = spec_of(40, 120, SONAR_LOADING_ABSOLUTE, 1e-4);
    pass(&spec, 60, 0.002, 0.5);
}

/* Rounding that ships of 80 dB leave behind is found again and again. */
Test(mvdr_inverse, follows_ships_of_80_db_by_absolute_loading) {
    const sonar_mvdr_spec spec = spec_of(40, 120, SONAR_LOADING_ABSOLUTE, 1);
    pass(&spec, 80, 0.01, 0.3);
}

/* Hardly more snapshots than sensors: what leaves takes nearly all with it. */
Test(mvdr_inverse, follows_short_blocks) {
    const sonar_mvdr_spec spec = spec_of(40, 44, SONAR_LOADING_ABSOLUTE, 0.01);
    pass(&spec, 40, 0.002, 0.1);
}

/* ---- what comes and goes --------------------------------------------------------------------- */

static void step_by_step(const sonar_mvdr_spec *spec) {
    static const size_t steps[] = {1, 2, 0, 1, 3, 1, 1, 20, 1, 4, 1, 1, 1, 75, 1, 1};
    const size_t kinds = sizeof steps / sizeof *steps, stride = spec->bins * spec->sensors;
    const mvdr_wave waves[] = {{70, 30}, {110, 40}};
    beside b;
    begin(&b, spec);
    fill(&b, waves, 2, 3);
    for (size_t i = 0; i < 6 * kinds; i++) {
        const size_t step = steps[i % kinds];
        sonar_c32 *x = mvdr_record(&b.f, step + 1, waves, 2, 50 + i);
        if (i % 11 == 5 && step)
            x[stride - 1].re = INFINITY; /* of the last bin */
        window(&b, step, x, true);
        free(x);
    }
    cr_expect_gt(b.followed, b.windows / 3, "%zu of %zu windows", b.followed, b.windows);
    end(&b);
}

Test(mvdr_inverse, any_number_of_snapshots) {
    sonar_mvdr_spec spec = spec_of(33, 70, SONAR_LOADING_TRACE, 0.01);
    spec.max_new = 75, spec.bins = 2;
    step_by_step(&spec);
    spec.loading = SONAR_LOADING_ABSOLUTE, spec.eps = 3;
    step_by_step(&spec);
    spec.forward_backward = true;
    step_by_step(&spec);
    spec.correct_level = true;
    step_by_step(&spec);
    spec.loading = SONAR_LOADING_TRACE, spec.eps = 0.1;
    step_by_step(&spec);
}

/* One window of both, neither of which begins anew but the one that finds eigenvalues. */
static void both(beside *b, const sonar_c32 *x) {
    mvdr_run(&b->f, 1, x);
    mvdr_run(&b->anew, 1, x);
    b->windows++;
    b->followed += inverse_of(b, 0)->age > 0;
    compare(b);
}

/* While the block fills, every window weighs its snapshots anew; after a reset, nothing leaves. */
static void fill_twice(const sonar_mvdr_spec *spec, double level_db, double least) {
    const size_t n = spec->sensors, l = spec->snapshots;
    beside b;
    begin(&b, spec);
    sonar_c32 *x = mvdr_record(&b.f, l, (mvdr_wave[]){{70, level_db}}, 1, 4);
    for (size_t u = 0; u < 2 * l; u++) {
        if (u == l + 50)
            mvdr_reset(&b.f), mvdr_reset(&b.anew);
        both(&b, x + u % l * n);
    }
    cr_expect_gt((double)b.followed, least * (double)(2 * l), "%zu windows", b.followed);
    free(x);
    end(&b);
}

Test(mvdr_inverse, while_the_block_fills) {
    const sonar_mvdr_spec spec = spec_of(36, 400, SONAR_LOADING_TRACE, 0.01);
    fill_twice(&spec, 40, 0.75);
}

/* What little a few snapshots show of a source is told by the few eigenvalues that are not zero. */
Test(mvdr_inverse, while_the_block_fills_with_little_loading) {
    sonar_mvdr_spec spec = spec_of(100, 150, SONAR_LOADING_ABSOLUTE, 0.1);
    fill_twice(&spec, 40, 0.1);
    spec.correct_level = true;
    fill_twice(&spec, 20, 0.1);
}

/* In micropascal a ship's samples are 1e6 and more. */
Test(mvdr_inverse, any_unit) {
    enum { B = 35, L = 90, WINDOWS = 40 };
    for (int exponent = -24; exponent <= 24; exponent += 24) {
        sonar_mvdr_spec spec = spec_of(B, L, SONAR_LOADING_TRACE, 0.01);
        spec.correct_level = true;
        beside b;
        begin(&b, &spec);
        sonar_c32 *x = mvdr_record(&b.f, L + WINDOWS, (mvdr_wave[]){{70, 20}}, 1, 6);
        for (size_t i = 0; i < (L + WINDOWS) * B; i++)
            x[i] = (sonar_c32){ldexpf(x[i].re, exponent), ldexpf(x[i].im, exponent)};
        window(&b, L, x, true);
        for (size_t u = 0; u < WINDOWS; u++)
            window(&b, 1, x + (L + u) * B, true);
        cr_expect_gt(b.followed, WINDOWS / 2, "%zu windows", b.followed);
        free(x);
        end(&b);
    }
}

/* A bin that a tone takes elsewhere keeps its inverse, but not |M a|^2. */
Test(mvdr_inverse, steered_elsewhere) {
    enum { B = 36, L = 90, WINDOWS = 60 };
    const sonar_mvdr_spec spec = spec_of(B, L, SONAR_LOADING_TRACE, 0.01);
    beside b;
    begin(&b, &spec);
    sonar_c32 *x = mvdr_record(&b.f, L + WINDOWS, (mvdr_wave[]){{70, 40}}, 1, 40);
    mvdr_run(&b.f, L, x);
    mvdr_run(&b.anew, L, x);
    for (size_t u = 0; u < WINDOWS; u++) {
        mvdr_stage *stages[] = {b.f.stage, b.anew.stage};
        for (int i = 0; i < 2; i++)
            stages[i]->bin[0].offset = u / 4 % 2 ? 0.4 : -0.3;
        both(&b, x + (L + u) * B);
    }
    cr_expect_gt(b.followed, WINDOWS / 2, "%zu windows", b.followed);
    free(x);
    end(&b);
}

/* A snapshot that is no number concerns its bin alone, and leaves with the block. */
Test(mvdr_inverse, not_a_number_in_one_bin) {
    enum { B = 34, L = 60 };
    sonar_mvdr_spec spec = spec_of(B, L, SONAR_LOADING_ABSOLUTE, 1);
    const mvdr_wave wave = {70, 20};
    beside b;
    spec.bins = 2;
    begin(&b, &spec);
    fill(&b, &wave, 1, 5);
    go_on(&b, 10, &wave, 1, 6);
    const unsigned age = inverse_of(&b, 0)->age;
    sonar_c32 *x = mvdr_record(&b.f, 1, &wave, 1, 7);
    x[B + 3].im = NAN;
    window(&b, 1, x, true);
    free(x);
    cr_expect_eq(inverse_of(&b, 0)->age, age + 1);
    cr_expect_eq(mvdr_info(&b.f, 1, SONAR_MVDR_SNAPSHOTS), L - 1);
    go_on(&b, L + 20, &wave, 1, 8);
    cr_expect_eq(inverse_of(&b, 0)->age, age + L + 21);
    cr_expect_eq(mvdr_info(&b.f, 1, SONAR_MVDR_SNAPSHOTS), L);
    cr_expect_gt(inverse_of(&b, 1)->age, 0);
    end(&b);
}

/* 160 dB above the noise, once. */
Test(mvdr_inverse, a_transient_leaves_nothing_behind) {
    enum { B = 34, L = 50 };
    for (int rule = 0; rule < 2; rule++) {
        const sonar_mvdr_spec spec = rule ? spec_of(B, L, SONAR_LOADING_ABSOLUTE, 1)
                                          : spec_of(B, L, SONAR_LOADING_TRACE, 0.01);
        beside b;
        begin(&b, &spec);
        fill(&b, (mvdr_wave[]){{70, 20}}, 1, 9);
        go_on(&b, 20, (mvdr_wave[]){{70, 20}}, 1, 10);
        sonar_c32 *x = mvdr_record(&b.f, 1, (mvdr_wave[]){{100, 160}}, 1, 11);
        window(&b, 1, x, false); /* both stages are beyond what float32 steering resolves */
        free(x);
        x = mvdr_record(&b.f, L, (mvdr_wave[]){{70, 20}}, 1, 12);
        for (size_t u = 0; u < L; u++)
            window(&b, 1, x + u * B, u + 1 == L);
        free(x);
        go_on(&b, 30, (mvdr_wave[]){{70, 20}}, 1, 13);
        cr_expect_gt(b.followed, 40, "%zu windows", b.followed);
        end(&b);
    }
}

/* ---- what is measured ------------------------------------------------------------------------ */

/* Whatever happens to M is found before anybody sees it: the inverse is thrown away, and the window
 * is solved from its snapshots. */
Test(mvdr_inverse, errors_are_found) {
    enum { B = 48, L = 96 };
    const sonar_mvdr_spec spec = spec_of(B, L, SONAR_LOADING_ABSOLUTE, 1);
    const mvdr_wave waves[] = {{70, 60}, {100, 30}};
    beside b;
    begin(&b, &spec);
    fill(&b, waves, 2, 14);
    go_on(&b, 5, waves, 2, 15);
    const mvdr_stage *stage = b.f.stage;
    for (int wrong = 0; wrong < 6; wrong++) {
        go_on(&b, 10, waves, 2, 16 + (uint64_t)wrong);
        cr_assert_gt(inverse_of(&b, 0)->age, 5);
        double *m = stage->factor;
        const double scale[] = {1 + 1e-3, 1 - 1e-3, 2, 0, INFINITY, NAN};
        for (size_t i = 0; i < (wrong < 2 ? stage->factor_size : 1); i++)
            m[i] *= scale[wrong];
        go_on(&b, 1, waves, 2, 30 + (uint64_t)wrong);
        cr_expect_eq(inverse_of(&b, 0)->age, 0, "error %d is not found", wrong);
    }
    end(&b);
}

/* Another loading within the bound is corrected; beyond it M is made anew. */
Test(mvdr_inverse, another_loading) {
    enum { B = 40, L = 100 };
    const double steps[] = {1.02, 0.98, 1.024, 0.977, 1.4, 0.5};
    const mvdr_wave waves[] = {{70, 50}, {100, 10}};
    for (int i = 0; i < 6; i++) {
        /* as much loading as noise: eigenvalues on both sides of it */
        const sonar_mvdr_spec spec = spec_of(B, L, SONAR_LOADING_ABSOLUTE, 1);
        beside b;
        begin(&b, &spec);
        b.f.params.far_mvdr.made = 1; /* the turns stay */
        fill(&b, waves, 2, 17);
        go_on(&b, 8, waves, 2, 18);
        const unsigned age = inverse_of(&b, 0)->age;
        sonar_mvdr_spec live = spec;
        live.eps *= steps[i];
        b.f.params.mvdr = b.anew.params.mvdr = &live;
        b.f.params.version++, b.anew.params.version++;
        go_on(&b, 1, waves, 2, 19);
        cr_expect_eq(inverse_of(&b, 0)->age, i < 4 ? age + 1 : 0, "%g", steps[i]);
        go_on(&b, 20, waves, 2, 20);
        cr_expect(inverse_of(&b, 0)->kept);
        end(&b);
    }
}

/* ---- windows that want something else -------------------------------------------------------- */

static void nobody(beside *b, uint64_t seed) {
    const sonar_mvdr_spec *spec = &b->f.spec;
    const size_t stride = spec->bins * spec->sensors;
    const sonar_work work = {.params = &b->f.params};
    sonar_c32 *x = mvdr_record(&b->f, 1, NULL, 0, seed);
    sonar_buffer in = b->f.in;
    sonar_error err = {0};
    in.shape[0] = 1;
    in.bytes = stride * sizeof *x;
    site_send(&b->here, x, &in);
    memmove(b->held, b->held + stride, (b->length - 1) * stride * sizeof *x);
    memcpy(b->held + (b->length - 1) * stride, x, stride * sizeof *x);
    cr_assert_eq(b->f.ops->execute(b->f.stage, b->here.queue, &in, b->f.out, &work, &err),
                 SONAR_OK);
    free(x);
}

/* Unwanted windows, eigenvalues, another speed of sound, a mask, other rules: never an inverse of
 * what is no more. */
static void change_everything(bool forward_backward) {
    enum { B = 38, L = 80 };
    sonar_mvdr_spec spec = spec_of(B, L, SONAR_LOADING_TRACE, 0.01), live;
    const mvdr_wave waves[] = {{70, 40}};
    beside b;
    spec.bins = 2, spec.forward_backward = forward_backward;
    live = spec;
    begin(&b, &spec);
    b.f.params.far_mvdr.made = 1; /* the turns stay */
    fill(&b, waves, 1, 21);
    for (uint64_t i = 0; i < 36; i++) {
        const size_t sensor = (size_t)i % B;
        go_on(&b, 1 + (size_t)i % 5, waves, 1, 100 + i);
        live.loading = i % 6 == 0 ? SONAR_LOADING_NOISE : SONAR_LOADING_TRACE;
        live.source_count = i % 6 == 1 ? SONAR_COUNT_MDL : SONAR_COUNT_OFF;
        b.f.params.mvdr = b.anew.params.mvdr = &live;
        b.f.params.version++, b.anew.params.version++;
        b.f.wants_eigenvalues = i % 6 == 2;
        if (i % 6 == 3)
            nobody(&b, 200 + i);
        if (i % 6 == 4 || i % 6 == 5) {
            b.f.used[sensor] = b.anew.used[sensor] = i % 6 == 5;
            mvdr_renew(&b.f), mvdr_renew(&b.anew);
        }
    }
    cr_expect_gt(b.followed, 10, "%zu windows", b.followed);
    mvdr_reset(&b.f);
    fill(&b, waves, 1, 22);
    go_on(&b, 5, waves, 1, 23);
    end(&b);
}

Test(mvdr_inverse, everything_changes) {
    change_everything(false);
}

/* Where a sensor is masked, its mirror image goes with it. */
Test(mvdr_inverse, everything_changes_with_mirror_images) {
    change_everything(true);
}

/* ---- workers --------------------------------------------------------------------------------- */

static void bits_of(size_t workers, float bits[3 * T]) {
    sonar_pool *pool;
    const mvdr_wave waves[] = {{70, 60}, {110, 40}};
    sonar_mvdr_spec spec = spec_of(41, 60, SONAR_LOADING_TRACE, 0.01);
    beside b;
    spec.bins = 3;
    cr_assert_eq(sonar_pool_create(workers, NULL, &pool, NULL), SONAR_OK);
    const sonar_host host = {.ctx = pool, .parallel = sonar_pool_parallel, .workers = workers};
    open_with(&b, &spec, &host);
    fill(&b, waves, 2, 24);
    go_on(&b, 50, waves, 2, 25);
    cr_expect_gt(b.followed, 0);
    memcpy(bits, b.f.spectrum, 3 * T * sizeof *bits);
    end(&b);
    sonar_pool_destroy(pool);
}

Test(mvdr_inverse, same_bits_for_any_number_of_workers) {
    float bits[3][3 * T];
    for (size_t workers = 1; workers <= 3; workers++) {
        bits_of(workers, bits[workers - 1]);
        cr_expect_eq(memcmp(bits[0], bits[workers - 1], sizeof bits[0]), 0);
    }
}
