/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tones off their bins' centres: samples are made in time, transformed in double the plain way and
 * given to the stage, which has to find the frequency and look where the ship is. */
#include "mvdr_oracle.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "detect/detect.h"
#include "dft/dft.h"
#include "manifold/manifold.h"
#include "mvdr_jacobi/tone.h"

enum { B = 24, N = 256, FIRST = 58, BINS = 13, FS = 2000, T = 91 };

typedef struct tone {
    double hz, az_deg, level_db; /* mean square re noise of a sample */
} tone;

/* Samples [sensor][count]: tones on white noise of unit variance, and one broadband source at
 * broadside. */
static double *listen(const mvdr_fixture *f, size_t count, const tone *tones, size_t n,
                      double broadside_db, uint64_t seed) {
    double *x = malloc(B * count * sizeof *x), *common = malloc(count * sizeof *common);
    const double gain = pow(10, broadside_db / 20);
    for (size_t t = 0; t < count; t++)
        common[t] = sqrt(2) * creal(test_gauss(&seed));
    for (size_t k = 0; k < B; k++)
        for (size_t t = 0; t < count; t++) {
            double sum = sqrt(2) * creal(test_gauss(&seed)) + gain * common[t];
            for (size_t i = 0; i < n; i++) {
                const double s = (double)t / FS + mvdr_fixture_delay(f, k, tones[i].az_deg);
                sum += sqrt(2) * pow(10, tones[i].level_db / 20) * cos(2 * M_PI * tones[i].hz * s);
            }
            x[k * count + t] = sum;
        }
    free(common);
    return x;
}

/* Snapshots [snapshot][bin][sensor] of PSD scale that begin at at[i]. */
static sonar_c32 *transform(const double *x, size_t count, const size_t *at, size_t snapshots,
                            const double *window) {
    static cplx turn[BINS][N];
    double square = 0;
    for (size_t t = 0; t < N; t++)
        square += window[t] * window[t];
    for (size_t b = 0; b < BINS; b++)
        for (size_t t = 0; t < N; t++)
            turn[b][t] = sqrt(2 / (FS * square)) * window[t] *
                         cexp(-2 * M_PI * I * (double)((FIRST + b) * t) / N);
    sonar_c32 *out = malloc(snapshots * BINS * B * sizeof *out);
    for (size_t i = 0; i < snapshots; i++)
        for (size_t b = 0; b < BINS; b++)
            for (size_t k = 0; k < B; k++) {
                cplx sum = 0;
                for (size_t t = 0; t < N; t++)
                    sum += x[k * count + at[i] + t] * turn[b][t];
                out[(i * BINS + b) * B + k] = (sonar_c32){(float)creal(sum), (float)cimag(sum)};
            }
    return out;
}

/* A stage that knows its window. */
typedef struct bench {
    mvdr_fixture f;
    sonar_mvdr_tones tones;
    double window[N];
} bench;

static void open_bench(bench *b, sonar_window_kind kind, size_t snapshots, double alpha) {
    sonar_dft_window(kind, 8, N, b->window);
    sonar_mvdr_tones_make(b->window, N, &b->tones);
    sonar_mvdr_spec spec = mvdr_fixture_spec(B, T, alpha > 0 ? 0 : snapshots);
    spec.fs_hz = FS, spec.length = N, spec.first_bin = FIRST, spec.bins = BINS;
    spec.loading = SONAR_LOADING_NOISE, spec.eps = 1;
    spec.alpha = alpha, spec.max_new = snapshots, spec.tones = &b->tones;
    mvdr_fixture_open(&b->f, &spec, sonar_host_serial());
    b->tones = (sonar_mvdr_tones){.count = 0}; /* was borrowed */
}

static double offset_of(const bench *b, size_t bin) {
    return (double)mvdr_fixture_info(&b->f, bin, SONAR_MVDR_OFFSET);
}

static double true_offset(double hz, size_t bin) {
    return hz * N / FS - (double)(FIRST + bin);
}

static float power_at(bench *b, double az_deg) {
    uint64_t turns[B];
    float power = 0;
    for (size_t k = 0; k < B; k++)
        turns[k] = sonar_turns(mvdr_fixture_delay(&b->f, k, az_deg), (double)FS / N);
    sonar_buffer at = sonar_buffer_view(turns, SONAR_U64, 2, (size_t[]){1, B});
    sonar_buffer out = sonar_buffer_view(&power, SONAR_F32, 1, (size_t[]){1});
    sonar_work work = {.params = &b->f.params};
    cr_assert_eq(sonar_mvdr_jacobi_cpu.evaluate(b->f.stage, NULL, &at, &out, &work, NULL),
                 SONAR_OK);
    return power;
}

/* The highest broadband power within 3 deg of a bearing. */
static double peak_near(bench *b, double az_deg, float *power) {
    double best = 0;
    *power = 0;
    for (int i = -1500; i <= 1500; i++) {
        const float here = power_at(b, az_deg + i * 0.002);
        if (here > *power)
            *power = here, best = az_deg + i * 0.002;
    }
    return best;
}

static void run_at(bench *b, const double *x, size_t count, const size_t *at, size_t snapshots) {
    sonar_c32 *in = transform(x, count, at, snapshots, b->window);
    cr_assert_eq(mvdr_fixture_run(&b->f, snapshots, in), SONAR_OK);
    free(in);
}

static void evenly(size_t *at, size_t snapshots, size_t hop) {
    for (size_t i = 0; i < snapshots; i++)
        at[i] = i * hop;
}

/* Hann: W(o - 1)/W(o) = (1 + o)/(2 - o) for every o. */
Test(mvdr_tone, the_table_of_a_hann_window) {
    double window[N];
    sonar_mvdr_tones tones;
    sonar_dft_window(SONAR_HANN, 0, N, window);
    sonar_mvdr_tones_make(window, N, &tones);
    cr_expect_float_eq(tones.correlation, 2 / 3.0, 1e-12);
    for (double o = -6.9; o < 7.9; o += 0.0613) {
        const double w = (2 - o), v = (1 + o); /* up to a factor, which may be below 0 */
        const mvdr_pair p = {w * w + 0.1, v * v + 0.1, w * v + 0.1 * tones.correlation};
        const mvdr_tone lower = mvdr_tone_of(&tones, p, false, 50);
        const mvdr_tone upper = mvdr_tone_of(&tones, p, true, 50);
        cr_expect_float_eq(lower.offset, o, 2e-3, "%g for %g", lower.offset, o);
        cr_expect_float_eq(upper.offset, o - 1, 2e-3);
        cr_expect_float_eq(lower.over, w * w / 0.1, 1e-6 * w * w / 0.1);
        cr_expect_float_eq(upper.over, v * v / 0.1, 1e-6 * v * v / 0.1 + 1e-9);
    }
}

/* Every window, snapshots that overlap, touch, leave gaps, or come as they like: the bearing is
 * right to a hundredth of a beam width and the level is the tone's own. */
static void finds(sonar_window_kind kind, size_t snapshots, const size_t *at, double alpha,
                  const char *what) {
    const tone ship = {503.6, 21.3, 20};
    const size_t count = at[snapshots - 1] + N;
    bench b;
    open_bench(&b, kind, snapshots, alpha);
    double *x = listen(&b.f, count, &ship, 1, -300, 5);
    run_at(&b, x, count, at, snapshots);
    size_t tonal = 0;
    for (size_t bin = 0; bin < BINS; bin++) {
        if (offset_of(&b, bin) == 0)
            continue;
        tonal++;
        const double truth = true_offset(ship.hz, bin); /* far side lobes name it less well */
        cr_expect_float_eq(offset_of(&b, bin), truth, fmax(0.05, 0.1 * (fabs(truth) - 2)),
                           "%s, window %d, bin %zu: %g, not %g", what, (int)kind, bin,
                           offset_of(&b, bin), truth);
    }
    cr_expect_geq(tonal, 2, "%s, window %d: %zu bins", what, (int)kind, tonal);
    float power;
    const double az_deg = peak_near(&b, ship.az_deg, &power);
    cr_expect_float_eq(az_deg, ship.az_deg, 0.12, "%s, window %d: %g deg", what, (int)kind, az_deg);
    const double share = (double)mvdr_fixture_info(&b.f, 6, SONAR_MVDR_LEVEL);
    cr_expect_float_eq(10 * log10((double)power / share), ship.level_db, 1, "%s, window %d: %g dB",
                       what, (int)kind, 10 * log10((double)power / share));
    free(x);
    mvdr_fixture_close(&b.f);
}

Test(mvdr_tone, any_hop) {
    enum { L = 48 };
    size_t at[L];
    static const size_t hops[] = {100, 128, 192, 256, 301};
    for (size_t i = 0; i < sizeof hops / sizeof *hops; i++) {
        evenly(at, L, hops[i]);
        finds(SONAR_HANN, L, at, 0, "even");
    }
    uint64_t seed = 3;
    for (size_t i = 1; i < L; i++)
        at[i] = at[i - 1] + 1 + (size_t)(500 * test_uniform(&seed));
    finds(SONAR_HANN, L, at, 0, "irregular");
    evenly(at, L, 128);
    finds(SONAR_HANN, L, at, 0.95, "forgetting");
}

Test(mvdr_tone, any_window) {
    enum { L = 48 };
    size_t at[L];
    evenly(at, L, 128);
    finds(SONAR_RECTANGULAR, L, at, 0, "even");
    finds(SONAR_HAMMING, L, at, 0, "even");
    finds(SONAR_BLACKMAN, L, at, 0, "even");
    finds(SONAR_KAISER, L, at, 0, "even");
}

/* Without it, the same scene is wrong by more than the tests above allow: they can fail. */
Test(mvdr_tone, the_centre_is_not_good_enough) {
    enum { L = 48 };
    const tone ship = {503.6, 21.3, 20};
    size_t at[L];
    evenly(at, L, 128);
    bench b;
    open_bench(&b, SONAR_HANN, L, 0);
    sonar_mvdr_jacobi_cpu.destroy(b.f.stage);
    b.f.spec.tones = NULL;
    cr_assert_eq(sonar_mvdr_jacobi_cpu.create(&b.f.spec, b.f.host, &b.f.stage, NULL), SONAR_OK);
    double *x = listen(&b.f, at[L - 1] + N, &ship, 1, -300, 5);
    run_at(&b, x, at[L - 1] + N, at, L);
    float power;
    const double az_deg = peak_near(&b, ship.az_deg, &power);
    cr_expect_gt(fabs(az_deg - ship.az_deg), 0.3, "%g deg", az_deg);
    cr_expect_lt(10 * log10((double)power), ship.level_db - 3, "%g dB", 10 * log10((double)power));
    free(x);
    mvdr_fixture_close(&b.f);
}

/* A snapshot only just as long as a wave takes along the array, which lies far from the origin:
 * what the daemon's demonstration does with mvdr.length 512. */
Test(mvdr_tone, a_short_snapshot_far_from_the_origin) {
    enum { L = 64 };
    const tone ship = {503.6, 21.3, 20};
    size_t at[L];
    evenly(at, L, 128);
    bench b;
    open_bench(&b, SONAR_HANN, L, 0);
    for (size_t k = 0; k < B; k++) /* (B - 1) spacings take N/fs */
        b.f.position_m[3 * k] = 1500.0 * N / FS * ((double)k / (B - 1) + 100.3);
    mvdr_fixture_renew(&b.f);
    double *x = listen(&b.f, at[L - 1] + N, &ship, 1, -300, 5);
    run_at(&b, x, at[L - 1] + N, at, L);
    float power;
    const double az_deg = peak_near(&b, ship.az_deg, &power);
    cr_expect_float_eq(az_deg, ship.az_deg, 0.03, "%g deg", az_deg);
    cr_expect_float_eq(10 * log10((double)power), ship.level_db, 2, "%g dB",
                       10 * log10((double)power));
    free(x);
    mvdr_fixture_close(&b.f);
}

/* Two ships whose tones lie three bins apart: each bin belongs to the louder one in it. */
Test(mvdr_tone, two_ships) {
    enum { L = 64 };
    const tone ships[] = {{484.9, 40, 8}, {509.0, 121, 8}};
    size_t at[L];
    evenly(at, L, 128);
    bench b;
    open_bench(&b, SONAR_HANN, L, 0);
    double *x = listen(&b.f, at[L - 1] + N, ships, 2, -300, 6);
    run_at(&b, x, at[L - 1] + N, at, L);
    for (size_t i = 0; i < 2; i++) {
        const size_t bin = (size_t)lround(ships[i].hz * N / FS) - FIRST;
        float power;
        cr_expect_float_eq(offset_of(&b, bin), true_offset(ships[i].hz, bin), 0.03, "ship %zu: %g",
                           i, offset_of(&b, bin));
        const double az_deg = peak_near(&b, ships[i].az_deg, &power);
        cr_expect_float_eq(az_deg, ships[i].az_deg, 0.12, "ship %zu: %g", i, az_deg);
    }
    free(x);
    mvdr_fixture_close(&b.f);
}

/* Noise, and a broadband source that is the same at all sensors: no bin leaves its centre, with
 * many snapshots or few. */
Test(mvdr_tone, broadband_sound_is_no_tone) {
    for (size_t l = 6; l <= 48; l *= 2)
        for (int loud = 0; loud < 2; loud++) {
            bench b;
            open_bench(&b, SONAR_HANN, l, 0);
            double *x = listen(&b.f, l * N * 8, NULL, 0, loud ? 40 : -300, l);
            for (size_t update = 0; update < 8; update++) {
                size_t at[48];
                for (size_t i = 0; i < l; i++)
                    at[i] = (update * l + i) * N;
                run_at(&b, x, l * N * 8, at, l);
                for (size_t bin = 0; bin < BINS; bin++)
                    cr_expect_eq(offset_of(&b, bin), 0, "L %zu, loud %d, bin %zu", l, loud, bin);
            }
            free(x);
            mvdr_fixture_close(&b.f);
        }
}

/* A tone whose level wanders over the threshold: the bin changes its mind rarely. */
Test(mvdr_tone, it_does_not_flutter) {
    enum { L = 16, UPDATES = 60 };
    bench b;
    open_bench(&b, SONAR_HANN, L, 0);
    size_t changes = 0, tonal = 0;
    const size_t bin = 6; /* 500 Hz */
    bool before = false;
    for (size_t update = 0; update < UPDATES; update++) {
        /* 6 dB over the rest of the bin is -15.4 dB: sum w^2 / (sum w)^2 N/2 = 1.5/2 bins */
        const tone ship = {500.8, 60, -12.5 + 1.2 * sin((double)update)};
        size_t at[L];
        evenly(at, L, N);
        double *x = listen(&b.f, L * N, &ship, 1, -300, 100 + update);
        run_at(&b, x, L * N, at, L);
        const bool now = offset_of(&b, bin) != 0;
        changes += now != before;
        tonal += now;
        before = now;
        free(x);
    }
    cr_expect_gt(tonal, UPDATES / 2);
    cr_expect_leq(changes, 4, "%zu changes", changes);
    mvdr_fixture_close(&b.f);
}

/* Bad values, masked sensors and a reset. */
Test(mvdr_tone, faults) {
    enum { L = 32 };
    const tone ship = {501.9, 21.3, 10};
    size_t at[L];
    evenly(at, L, 128);
    for (int forget = 0; forget < 2; forget++) {
        bench b;
        open_bench(&b, SONAR_HANN, L, forget ? 0.95 : 0);
        double *x = listen(&b.f, at[L - 1] + N, &ship, 1, -300, 5);
        sonar_c32 *in = transform(x, at[L - 1] + N, at, L, b.window);
        b.f.used[0] = b.f.used[9] = 0;
        mvdr_fixture_renew(&b.f);
        for (size_t i = 0; i < L * BINS; i++)
            in[i * B].re = in[i * B + 9].im = 1e6f; /* stuck channels */
        in[(5 * BINS + 6) * B + 3].re = NAN;
        in[(7 * BINS + 6) * B + 3].im = INFINITY;
        cr_assert_eq(mvdr_fixture_run(&b.f, L, in), SONAR_OK);
        cr_expect_float_eq(offset_of(&b, 6), true_offset(ship.hz, 6), 0.03, "%g", offset_of(&b, 6));
        cr_assert_eq(mvdr_fixture_run(&b.f, 0, NULL), SONAR_OK);
        cr_expect_float_eq(offset_of(&b, 6), true_offset(ship.hz, 6), 0.03, "nothing new");
        sonar_mvdr_jacobi_cpu.reset(b.f.stage);
        cr_assert_eq(mvdr_fixture_run(&b.f, 0, NULL), SONAR_OK);
        cr_expect_eq(offset_of(&b, 6), 0, "forgotten");
        memset(in, 0, L * BINS * B * sizeof *in);
        cr_assert_eq(mvdr_fixture_run(&b.f, L, in), SONAR_OK);
        cr_expect_eq(offset_of(&b, 6), 0, "silence");
        free(in);
        free(x);
        mvdr_fixture_close(&b.f);
    }
}

/* ---- between the directions ------------------------------------------------------------------ */

static sonar_code evaluate_at(void *ctx, size_t n, const double *az_deg, const double *range_m,
                              float *power, sonar_error *err) {
    (void)range_m, (void)err;
    for (size_t i = 0; i < n; i++)
        power[i] = power_at(ctx, az_deg[i]);
    return SONAR_OK;
}

/* A coarse grid shows every cell's own maximum, found the plain way: a tone and a broadband source,
 * both between its directions; nothing falls and nothing exceeds what is there. */
Test(mvdr_cells, the_maximum_of_each_cell) {
    enum { L = 48, FINE = 40 };
    const tone ship = {503.6, 43.05, 10};
    size_t at[L];
    double az[T];
    float power[T], scratch[3 * T], highest[T];
    evenly(at, L, 128);
    bench b;
    open_bench(&b, SONAR_HANN, L, 0);
    double *x = listen(&b.f, at[L - 1] + N, &ship, 1, 5, 5);
    run_at(&b, x, at[L - 1] + N, at, L);
    for (size_t t = 0; t < T; t++)
        az[t] = mvdr_fixture_azimuth_deg(&b.f, t) + 0.7; /* the source at 90 lies between, too */
    for (size_t t = 0; t < T; t++) {
        power[t] = highest[t] = power_at(&b, az[t]);
        for (int i = -FINE; i <= FINE && t > 0 && t + 1 < T; i++)
            highest[t] = fmaxf(highest[t], power_at(&b, az[t] + i * (az[1] - az[0]) / 2 / FINE));
    }
    double lost_db = 0;
    for (size_t t = 1; t + 1 < T; t++)
        if (highest[t] > 10 * power[0])
            lost_db = fmax(lost_db, 10 * log10((double)(highest[t] / power[t])));
    cr_expect_gt(lost_db, 3, "%g dB", lost_db); /* or there was nothing to do */
    const sonar_scan scan = {.count = T, .az_deg = az, .cone = true, .beam_width_deg = 4.2};
    const sonar_detect_spec spec = {.scan = &scan, .most = 8};
    cr_assert_eq(sonar_detect_raise(&spec, power, scratch, evaluate_at, &b, NULL), SONAR_OK);
    size_t loud = 0;
    for (size_t t = 1; t + 1 < T; t++) {
        const bool top = highest[t] >= highest[t - 1] && highest[t] >= highest[t + 1];
        cr_expect_leq(power[t], 1.01f * highest[t] + 1e-6f, "direction %zu", t);
        if (top && highest[t] > 4 * power[0]) {
            loud++;
            cr_expect_geq(power[t], 0.95f * highest[t], "direction %zu: %g, not %g", t,
                          (double)power[t], (double)highest[t]);
        }
    }
    cr_expect_geq(loud, 2);
    free(x);
    mvdr_fixture_close(&b.f);
}
