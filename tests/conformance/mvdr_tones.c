/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tones off their bins' centres: the stage has to find the frequency and steer at the ship's
 * bearing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "detect/detect.h"
#include "dft/dft.h"
#include "manifold/manifold.h"
#include "mvdr.h"

/* ---- a tone as a Hann window shows it -------------------------------------------------------- */

static void add_tone(const mvdr_fixture *f, double above, double az_deg, double level_db,
                     size_t count, sonar_c32 *x) {
    const sonar_mvdr_spec *spec = &f->spec;
    const double hz = ((double)spec->first_bin + above) * spec->fs_hz / (double)spec->length;
    uint64_t seed = 99;
    for (size_t s = 0; s < count; s++) {
        double start = test_uniform(&seed);
        for (size_t b = 0; b < spec->bins; b++) {
            double o = above - (double)b;
            double w = sin(M_PI * o) / (M_PI * o * (1 - o * o)) * (b % 2 ? -1 : 1);
            for (size_t k = 0; k < spec->sensors; k++) {
                cplx a = cexp(2 * M_PI * I * (hz * mvdr_delay(f, k, az_deg) + start));
                sonar_c32 *v = &x[(s * spec->bins + b) * spec->sensors + k];
                v->re += (float)(w * pow(10, level_db / 20) * creal(a));
                v->im += (float)(w * pow(10, level_db / 20) * cimag(a));
            }
        }
    }
}

/* The frequency is found and kept, and both execute and evaluate use it. */
static void hold(site *site, double alpha, bool correct) {
    enum { SENSORS = 40, L = 30, MORE = 9, BINS = 9, DIRECTIONS = 90 };
    mvdr_fixture f;
    sonar_mvdr_tones hann;
    double window[256];
    float here[DIRECTIONS];
    sonar_dft_taper(SONAR_HANN, 0, 256, window);
    sonar_mvdr_tones_make(window, 256, &hann);
    sonar_mvdr_spec spec = mvdr_spec(SENSORS, DIRECTIONS, L, alpha);
    spec.bins = BINS, spec.tones = &hann;
    spec.loading = SONAR_LOADING_NOISE, spec.eps = 1, spec.correct_level = correct;
    mvdr_open(&f, site, &spec);
    sonar_c32 *x = mvdr_record(&f, L + MORE, (mvdr_wave[]){{120, 10}}, 1, 3);
    add_tone(&f, 4.37, 33, 30, L + MORE, x);
    x[(5 * BINS + 4) * SENSORS + 3].re = NAN;
    f.used[0] = f.used[7] = 0;
    mvdr_renew(&f);
    for (int step = 0; step < 3; step++) {
        mvdr_run(&f, step == 0 ? L : step == 1 ? MORE : 0, x + (step ? L * BINS * SENSORS : 0));
        double offset = (double)mvdr_info(&f, 4, SONAR_MVDR_OFFSET);
        site_expect(site, fabs(offset - 0.37) < 0.02, "offset %g", offset);
    }
    mvdr_evaluate(&f, DIRECTIONS, f.turns, here);
    for (size_t t = 0; t < DIRECTIONS; t++)
        site_expect(site, fabs(10 * log10((double)here[t] / (double)f.azimuth[t])) < 1e-3,
                    "direction %zu: %g by evaluate, %g by execute", t, (double)here[t],
                    (double)f.azimuth[t]);
    free(x);
    mvdr_close(&f);
}

MVDR_CASE(tones) {
    for (int correct = 0; correct < 2; correct++) {
        hold(site, 0, correct);
        hold(site, 0.95, correct);
    }
}

/* ---- a snapshot shorter than a wave takes along the array -------------------------------------
 */

/* Largest difference of a bin from the oracle steered at `hz`. */
static double error_at_hz(const mvdr_fixture *f, size_t bin, double hz, size_t count,
                          const sonar_c32 *x) {
    const size_t n = f->spec.sensors, looks = f->spec.directions;
    const double delta = (double)mvdr_info(f, bin, SONAR_MVDR_DELTA);
    cplx *r = mvdr_covariance(f, bin, count, x), *a = malloc(n * looks * sizeof *a);
    double *power = malloc(looks * sizeof *power), worst = 0;
    for (size_t t = 0; t < looks; t++)
        for (size_t k = 0; k < n; k++)
            a[t * n + k] = cexp(2 * M_PI * I * hz * mvdr_delay(f, k, mvdr_azimuth_deg(f, t)));
    mvdr_oracle_power(n, r, delta, looks, a, power);
    for (size_t t = 0; t < looks; t++)
        worst = fmax(worst, fabs(10 * log10((double)f->spectrum[bin * looks + t] / power[t])));
    free(r);
    free(a);
    free(power);
    return worst;
}

/* A line of 64 at 1.5 m and snapshots of 50 ms: a wave takes 63 ms along it, more than half a turn
 * a bin from its middle. In snapshot space and in sensor space. */
static void outlast(site *site, size_t snapshots, size_t ahead) {
    enum { SENSORS = 64, N = 200, FS = 4000, FIRST = 10, BINS = 13, LOOKS = 180, TONE = 5 };
    const double hz = 309, az_deg = 20.5;
    mvdr_fixture f;
    sonar_mvdr_tones hann;
    double window[N];
    sonar_dft_taper(SONAR_HANN, 0, N, window);
    sonar_mvdr_tones_make(window, N, &hann);
    sonar_mvdr_spec spec = mvdr_spec(SENSORS, LOOKS, snapshots, 0);
    spec.fs_hz = FS, spec.length = N, spec.first_bin = FIRST, spec.bins = BINS;
    spec.tones = &hann, spec.loading = SONAR_LOADING_NOISE, spec.eps = 1;
    mvdr_open(&f, site, &spec);
    for (size_t k = 0; k < SENSORS; k++)
        f.position_m[3 * k] = 1.5 * ((double)k + (double)ahead);
    mvdr_renew(&f);
    sonar_c32 *x = mvdr_record(&f, snapshots, NULL, 0, 3);
    add_tone(&f, hz * N / FS - FIRST, az_deg, 30, snapshots, x);
    mvdr_run(&f, snapshots, x);
    const double offset = (double)mvdr_info(&f, TONE, SONAR_MVDR_OFFSET);
    site_expect(site, fabs(offset - 0.45) < 0.02, "offset %g", offset);
    const double apart_db = error_at_hz(&f, TONE, (FIRST + TONE + offset) * FS / N, snapshots, x);
    site_expect(site, apart_db < 0.05, "L %zu: %g dB off", snapshots, apart_db);
    size_t best = 0;
    for (size_t t = 0; t < LOOKS; t++)
        best = f.azimuth[t] > f.azimuth[best] ? t : best;
    site_expect(site, mvdr_azimuth_deg(&f, best) == az_deg, "L %zu: %g deg", snapshots,
                mvdr_azimuth_deg(&f, best));
    mvdr_expect_evaluated(&f);
    free(x);
    mvdr_close(&f);
}

MVDR_CASE(tone_on_a_long_array) {
    outlast(site, 200, 0);
    outlast(site, 24, 0);
    outlast(site, 24, 100000); /* sensors, ahead of the origin */
}

/* ---- samples in time, transformed in double the plain way ------------------------------------ */

enum { B = 24, N = 256, FIRST = 58, BINS = 13, FS = 2000, T = 91, FIVE_HUNDRED_HZ = 6 };

typedef struct tone {
    double hz, az_deg, level_db; /* mean square re noise of a sample */
} tone;

/* A stage that knows its window. */
typedef struct bench {
    mvdr_fixture f;
    double window[N];
} bench;

static void open_bench(bench *b, site *site, sonar_taper kind, size_t snapshots, double alpha,
                       bool knows) {
    sonar_mvdr_tones tones;
    sonar_dft_taper(kind, 8, N, b->window);
    sonar_mvdr_tones_make(b->window, N, &tones);
    sonar_mvdr_spec spec = mvdr_spec(B, T, snapshots, alpha);
    spec.fs_hz = FS, spec.length = N, spec.first_bin = FIRST, spec.bins = BINS;
    spec.loading = SONAR_LOADING_NOISE, spec.eps = 1;
    spec.tones = knows ? &tones : NULL;
    mvdr_open(&b->f, site, &spec);
}

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
                const double s = (double)t / FS + mvdr_delay(f, k, tones[i].az_deg);
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

static void run_at(bench *b, const double *x, size_t count, const size_t *at, size_t snapshots) {
    sonar_c32 *in = transform(x, count, at, snapshots, b->window);
    mvdr_run(&b->f, snapshots, in);
    free(in);
}

/* Gives the stage the snapshots of a scene that begin at at[i]. */
static void hear(bench *b, const tone *tones, size_t n, double broadside_db, const size_t *at,
                 size_t snapshots, uint64_t seed) {
    const size_t count = at[snapshots - 1] + N;
    double *x = listen(&b->f, count, tones, n, broadside_db, seed);
    run_at(b, x, count, at, snapshots);
    free(x);
}

static void evenly(size_t *at, size_t snapshots, size_t hop) {
    for (size_t i = 0; i < snapshots; i++)
        at[i] = i * hop;
}

static double offset_of(const bench *b, size_t bin) {
    return (double)mvdr_info(&b->f, bin, SONAR_MVDR_OFFSET);
}

static double true_offset(double hz, size_t bin) {
    return hz * N / FS - (double)(FIRST + bin);
}

static void expect_offset(bench *b, double hz, size_t bin, double within, const char *what) {
    const double offset = offset_of(b, bin), truth = true_offset(hz, bin);
    site_expect(b->f.site, fabs(offset - truth) <= within, "%s, bin %zu: %g, not %g", what, bin,
                offset, truth);
}

/* Broadband power at `count` <= 256 azimuths, the first at az_deg. */
static void powers_at(bench *b, double az_deg, double step_deg, size_t count, float *power) {
    static uint64_t turns[256 * B];
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < B; k++)
            turns[i * B + k] =
                sonar_turns(mvdr_delay(&b->f, k, az_deg + step_deg * (double)i), (double)FS / N);
    mvdr_evaluate(&b->f, count, turns, power);
}

/* The highest broadband power within 3 deg of a bearing. */
static double peak_near(bench *b, double az_deg, float *power) {
    enum { AT_ONCE = 250, STEPS = 3000 };
    const double step_deg = 6.0 / STEPS;
    double best = 0;
    *power = 0;
    for (size_t first = 0; first < STEPS; first += AT_ONCE) {
        float here[AT_ONCE];
        const double begin_deg = az_deg - 3 + step_deg * (double)first;
        powers_at(b, begin_deg, step_deg, AT_ONCE, here);
        for (size_t i = 0; i < AT_ONCE; i++)
            if (here[i] > *power)
                *power = here[i], best = begin_deg + step_deg * (double)i;
    }
    return best;
}

static void expect_bearing(bench *b, double az_deg, double within_deg, float *power,
                           const char *what) {
    const double found_deg = peak_near(b, az_deg, power);
    site_expect(b->f.site, fabs(found_deg - az_deg) <= within_deg, "%s: %g deg, not %g", what,
                found_deg, az_deg);
}

static void expect_level(bench *b, double have, double level_db, double within_db,
                         const char *what) {
    site_expect(b->f.site, fabs(10 * log10(have) - level_db) <= within_db, "%s: %g dB, not %g",
                what, 10 * log10(have), level_db);
}

/* ---- finding it ------------------------------------------------------------------------------ */

static const tone SHIP = {503.6, 21.3, 20};

/* For every window function and for snapshots that overlap, touch, have gaps or are irregular, the
 * bearing is right to a hundredth of a beam width and the level is that of the tone. */
static void find(site *site, sonar_taper kind, size_t snapshots, const size_t *at, double alpha,
                 const char *what) {
    bench b;
    size_t tonal = 0;
    float power;
    open_bench(&b, site, kind, snapshots, alpha, true);
    hear(&b, &SHIP, 1, -300, at, snapshots, 5);
    for (size_t bin = 0; bin < BINS; bin++)
        if (offset_of(&b, bin) != 0) { /* far side lobes name it less well */
            const double away = fabs(true_offset(SHIP.hz, bin));
            expect_offset(&b, SHIP.hz, bin, fmax(0.05, 0.1 * (away - 2)), what);
            tonal++;
        }
    site_expect(site, tonal >= 2, "%s: %zu bins", what, tonal);
    expect_bearing(&b, SHIP.az_deg, 0.12, &power, what);
    const double share = (double)mvdr_info(&b.f, FIVE_HUNDRED_HZ, SONAR_MVDR_LEVEL);
    expect_level(&b, (double)power / share, SHIP.level_db, 1, what);
    mvdr_close(&b.f);
}

MVDR_CASE(tone_any_hop) {
    enum { L = 48 };
    size_t at[L];
    static const size_t hops[] = {100, 128, 192, 256, 301};
    for (size_t i = 0; i < sizeof hops / sizeof *hops; i++) {
        evenly(at, L, hops[i]);
        find(site, SONAR_HANN, L, at, 0, "even hops");
    }
    uint64_t seed = 3;
    for (size_t i = 1; i < L; i++)
        at[i] = at[i - 1] + 1 + (size_t)(500 * test_uniform(&seed));
    find(site, SONAR_HANN, L, at, 0, "irregular hops");
    evenly(at, L, 128);
    find(site, SONAR_HANN, L, at, 0.95, "forgetting");
}

MVDR_CASE(tone_any_window) {
    enum { L = 48 };
    size_t at[L];
    evenly(at, L, 128);
    find(site, SONAR_RECTANGULAR, L, at, 0, "rectangular");
    find(site, SONAR_HAMMING, L, at, 0, "Hamming");
    find(site, SONAR_BLACKMAN, L, at, 0, "Blackman");
    find(site, SONAR_KAISER, L, at, 0, "Kaiser");
}

/* A stage steered at the bins' centres is wrong by more than the cases above allow, so they can
 * fail. */
MVDR_CASE(tone_not_at_the_centre) {
    enum { L = 48 };
    size_t at[L];
    float power;
    evenly(at, L, 128);
    bench b;
    open_bench(&b, site, SONAR_HANN, L, 0, false);
    hear(&b, &SHIP, 1, -300, at, L, 5);
    const double az_deg = peak_near(&b, SHIP.az_deg, &power);
    site_expect(site, fabs(az_deg - SHIP.az_deg) > 0.3, "%g deg", az_deg);
    site_expect(site, 10 * log10((double)power) < SHIP.level_db - 3, "%g dB",
                10 * log10((double)power));
    mvdr_close(&b.f);
}

/* A snapshot just as long as the travel time of a wave along the array, which is far from the
 * origin: like the daemon's demonstration with mvdr.length 512. */
MVDR_CASE(tone_far_from_the_origin) {
    enum { L = 64 };
    size_t at[L];
    float power;
    evenly(at, L, 128);
    bench b;
    open_bench(&b, site, SONAR_HANN, L, 0, true);
    for (size_t k = 0; k < B; k++) /* (B - 1) spacings take N/fs */
        b.f.position_m[3 * k] = 1500.0 * N / FS * ((double)k / (B - 1) + 100.3);
    mvdr_renew(&b.f);
    hear(&b, &SHIP, 1, -300, at, L, 5);
    expect_bearing(&b, SHIP.az_deg, 0.03, &power, "far from the origin");
    expect_level(&b, (double)power, SHIP.level_db, 2, "far from the origin");
    mvdr_close(&b.f);
}

/* Two ships whose tones lie three bins apart: each bin belongs to the louder one in it. */
MVDR_CASE(tone_two_ships) {
    enum { L = 64 };
    const tone ships[] = {{484.9, 40, 8}, {509.0, 121, 8}};
    size_t at[L];
    evenly(at, L, 128);
    bench b;
    open_bench(&b, site, SONAR_HANN, L, 0, true);
    hear(&b, ships, 2, -300, at, L, 6);
    for (size_t i = 0; i < 2; i++) {
        float power;
        expect_offset(&b, ships[i].hz, (size_t)lround(ships[i].hz * N / FS) - FIRST, 0.03, "ship");
        expect_bearing(&b, ships[i].az_deg, 0.12, &power, "ship");
    }
    mvdr_close(&b.f);
}

/* Noise, and a broadband source that is the same at all sensors: no bin leaves its centre, with
 * many snapshots or few. */
MVDR_CASE(tone_broadband) {
    for (size_t l = 6; l <= 48; l *= 2)
        for (int loud = 0; loud < 2; loud++) {
            bench b;
            open_bench(&b, site, SONAR_HANN, l, 0, true);
            double *x = listen(&b.f, l * N * 8, NULL, 0, loud ? 40 : -300, l);
            for (size_t update = 0; update < 8; update++) {
                size_t at[48];
                for (size_t i = 0; i < l; i++)
                    at[i] = (update * l + i) * N;
                run_at(&b, x, l * N * 8, at, l);
                for (size_t bin = 0; bin < BINS; bin++)
                    site_expect(site, offset_of(&b, bin) == 0, "L %zu, loud %d, bin %zu", l, loud,
                                bin);
            }
            free(x);
            mvdr_close(&b.f);
        }
}

/* A tone with twice the power of the rest of its bins, between two of them. After array gain it
 * dominates the contact. */
MVDR_CASE(tone_faint) {
    enum { L = 96 };
    const tone ship = {503.6, 21.3, -15};
    size_t at[L];
    float power;
    evenly(at, L, N);
    bench b;
    open_bench(&b, site, SONAR_HANN, L, 0, true);
    hear(&b, &ship, 1, -300, at, L, 8);
    expect_bearing(&b, ship.az_deg, 0.12, &power, "faint");
    mvdr_close(&b.f);
}

/* A tone whose level drifts across the threshold: the bin's steering changes rarely. */
MVDR_CASE(tone_flutter) {
    enum { L = 48, UPDATES = 60 };
    bench b;
    size_t changes = 0, tonal = 0, at[L];
    bool before = false;
    evenly(at, L, N);
    open_bench(&b, site, SONAR_HANN, L, 0, true);
    for (size_t update = 0; update < UPDATES; update++) {
        /* 1.8 dB over the rest of the bin is -19.6 dB: sum w^2 / (sum w)^2 N/2 = 1.5/2 bins */
        const tone ship = {500.8, 60, -16.7 + 1.2 * sin((double)update)};
        hear(&b, &ship, 1, -300, at, L, 100 + update);
        const bool now = offset_of(&b, FIVE_HUNDRED_HZ) != 0;
        changes += now != before;
        tonal += now;
        before = now;
    }
    site_expect(site, tonal > UPDATES / 2, "tonal in %zu updates", tonal);
    site_expect(site, changes <= 4, "%zu changes", changes);
    mvdr_close(&b.f);
}

/* A loud and steady tone: the bin's frequency is updated only rarely, without a loss compared with
 * a stage that has just found it. */
MVDR_CASE(tone_steady) {
    enum { L = 12, UPDATES = 120 };
    for (int level_db = 20; level_db <= 80; level_db += 60) {
        const tone ship = {503.6, 21.3, level_db};
        size_t at[L + UPDATES], moves = 0;
        bench b, fresh;
        evenly(at, L + UPDATES, 128);
        open_bench(&b, site, SONAR_HANN, L, 0, true);
        open_bench(&fresh, site, SONAR_HANN, L, 0, true);
        const size_t count = at[L + UPDATES - 1] + N;
        double *x = listen(&b.f, count, &ship, 1, -300, 5);
        run_at(&b, x, count, at, L);
        for (size_t update = 1; update <= UPDATES; update++) {
            const double before = offset_of(&b, FIVE_HUNDRED_HZ);
            run_at(&b, x, count, at + L + update - 1, 1);
            moves += offset_of(&b, FIVE_HUNDRED_HZ) != before;
            expect_offset(&b, ship.hz, FIVE_HUNDRED_HZ, 5e-3, "steady");
            if (update % 40)
                continue;
            float held, found;
            mvdr_reset(&fresh.f);
            run_at(&fresh, x, count, at + update, L);
            peak_near(&b, ship.az_deg, &held);
            peak_near(&fresh, ship.az_deg, &found);
            expect_level(&b, (double)held, 10 * log10((double)found), 0.1, "held");
        }
        site_expect(site, moves > 0 && moves < UPDATES / 2, "%d dB: %zu moves", level_db, moves);
        free(x);
        mvdr_close(&b.f);
        mvdr_close(&fresh.f);
    }
}

/* A tone that begins, wanders and ends, from few snapshots and from many: the whole spectrum is
 * that of the current frequency, without remains of earlier ones. */
MVDR_CASE(tone_comes_and_goes) {
    enum { UPDATES = 60 };
    static const size_t lengths[] = {12, 13, 40};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        bench b;
        size_t tonal = 0, at[UPDATES];
        float here[T];
        open_bench(&b, site, SONAR_HANN, lengths[i], 0, true);
        evenly(at, UPDATES, N);
        for (size_t update = 0; update < UPDATES; update++) {
            const bool there = update >= 15 && update < 40;
            const tone ship = {501.7 + 0.1 * (double)update, 21.3, there ? 30 : -300};
            hear(&b, &ship, 1, -300, at, 1, 100 + update);
            tonal += offset_of(&b, FIVE_HUNDRED_HZ) != 0;
            mvdr_evaluate(&b.f, T, b.f.turns, here);
            for (size_t t = 0; t < T; t++)
                site_expect(site, fabs(10 * log10((double)here[t] / (double)b.f.azimuth[t])) < 1e-3,
                            "L %zu, update %zu, direction %zu: %g by evaluate, %g by execute",
                            lengths[i], update, t, (double)here[t], (double)b.f.azimuth[t]);
        }
        site_expect(site, tonal > 10 && tonal < UPDATES, "L %zu: tonal %zu times", lengths[i],
                    tonal);
        mvdr_close(&b.f);
    }
}

/* Bad values, masked sensors, no new snapshots, a reset and silence. */
static void go_through_faults(site *site, double alpha) {
    enum { L = 32 };
    const tone ship = {501.9, 21.3, 10};
    size_t at[L];
    bench b;
    evenly(at, L, 128);
    open_bench(&b, site, SONAR_HANN, L, alpha, true);
    double *x = listen(&b.f, at[L - 1] + N, &ship, 1, -300, 5);
    sonar_c32 *in = transform(x, at[L - 1] + N, at, L, b.window);
    b.f.used[0] = b.f.used[9] = 0;
    mvdr_renew(&b.f);
    for (size_t i = 0; i < L * BINS; i++)
        in[i * B].re = in[i * B + 9].im = 1e6f; /* stuck channels */
    in[(5 * BINS + FIVE_HUNDRED_HZ) * B + 3].re = NAN;
    in[(7 * BINS + FIVE_HUNDRED_HZ) * B + 3].im = INFINITY;
    mvdr_run(&b.f, L, in);
    expect_offset(&b, ship.hz, FIVE_HUNDRED_HZ, 0.03, "bad values");
    mvdr_run(&b.f, 0, NULL);
    expect_offset(&b, ship.hz, FIVE_HUNDRED_HZ, 0.03, "nothing new");
    mvdr_reset(&b.f);
    mvdr_run(&b.f, 0, NULL);
    site_expect(site, offset_of(&b, FIVE_HUNDRED_HZ) == 0, "not forgotten");
    memset(in, 0, L * BINS * B * sizeof *in);
    mvdr_run(&b.f, L, in);
    site_expect(site, offset_of(&b, FIVE_HUNDRED_HZ) == 0, "a tone in silence");
    free(in);
    free(x);
    mvdr_close(&b.f);
}

MVDR_CASE(tone_faults) {
    go_through_faults(site, 0);
    go_through_faults(site, 0.95);
}

/* ---- between the directions ------------------------------------------------------------------ */

static sonar_code evaluate_at(void *ctx, size_t n, const double *az_deg, const double *range_m,
                              float *power, sonar_error *err) {
    (void)range_m, (void)err;
    for (size_t i = 0; i < n; i++)
        powers_at(ctx, az_deg[i], 0, 1, power + i);
    return SONAR_OK;
}

/* Power at each direction and the highest within half a step of it; dB that the former misses. */
static double find_highest(bench *b, const double *az_deg, float *power, float *highest) {
    enum { FINE = 40 };
    double lost_db = 0;
    for (size_t t = 0; t < T; t++) {
        float here[2 * FINE + 1];
        const double step_deg = (az_deg[1] - az_deg[0]) / 2 / FINE;
        powers_at(b, az_deg[t] - FINE * step_deg, step_deg, 2 * FINE + 1, here);
        power[t] = highest[t] = here[FINE];
        for (size_t i = 0; i <= 2 * FINE && t > 0 && t + 1 < T; i++)
            highest[t] = fmaxf(highest[t], here[i]);
    }
    for (size_t t = 1; t + 1 < T; t++)
        if (highest[t] > 10 * power[0])
            lost_db = fmax(lost_db, 10 * log10((double)(highest[t] / power[t])));
    return lost_db;
}

/* A coarse grid shows every cell's own maximum, compared with a direct search: a tone and a
 * broadband source, both between its directions; no value falls and none exceeds the true maximum.
 */
MVDR_CASE(tone_cells) {
    enum { L = 48 };
    const tone ship = {503.6, 43.05, 10};
    size_t at[L], loud = 0;
    double az_deg[T];
    float power[T], scratch[3 * T], highest[T];
    evenly(at, L, 128);
    bench b;
    open_bench(&b, site, SONAR_HANN, L, 0, true);
    hear(&b, &ship, 1, 5, at, L, 5);
    for (size_t t = 0; t < T; t++)
        az_deg[t] = mvdr_azimuth_deg(&b.f, t) + 0.7; /* the source at 90 lies between, too */
    const double lost_db = find_highest(&b, az_deg, power, highest);
    site_expect(site, lost_db > 3, "%g dB", lost_db); /* or there was nothing to do */
    const sonar_scan scan = {.count = T, .az_deg = az_deg, .cone = true, .beam_width_deg = 4.2};
    sonar_split *split;
    site_require(site, sonar_split_create(&scan, &split, NULL), NULL);
    const sonar_detect_spec spec = {.scan = &scan, .split = split, .most = 8};
    sonar_tops tops;
    site_expect(site, !sonar_detect_tops(&spec, power, scratch, evaluate_at, &b, &tops, NULL),
                "tops");
    sonar_detect_raise(&scan, &tops, power);
    sonar_split_destroy(split);
    for (size_t t = 1; t + 1 < T; t++) {
        const bool top = highest[t] >= highest[t - 1] && highest[t] >= highest[t + 1];
        site_expect(site, power[t] <= 1.01f * highest[t] + 1e-6f, "direction %zu", t);
        if (top && highest[t] > 4 * power[0]) {
            loud++;
            site_expect(site, power[t] >= 0.95f * highest[t], "direction %zu: %g, not %g", t,
                        (double)power[t], (double)highest[t]);
        }
    }
    site_expect(site, loud >= 2, "%zu peaks", loud);
    mvdr_close(&b.f);
}

/* ---- a tone over a ship's continuum ---------------------------------------------------------- */

enum { TOWED = 40, TOWED_N = 256, TOWED_FS = 2000, TOWED_FIRST = 38, TOWED_BINS = 46, LOOKS = 361 };

static cplx phase_of(const mvdr_fixture *f, size_t k, double az_deg, double hz) {
    return cexp(2 * M_PI * I * hz * mvdr_delay(f, k, az_deg));
}

/* Noise of 1 and a ship's noise, correlated between bins as by a Hann window:
 * [snapshot][bin][sensor]. */
static sonar_c32 *record_continuum(const mvdr_fixture *f, size_t count, double az_deg,
                                   double level_db, uint64_t seed) {
    enum { WIDE = TOWED_BINS + 2 };
    static const double hann[3] = {-0.40824829046386307, 0.81649658092772603, -0.40824829046386307};
    const double gain = pow(10, level_db / 20), bin_hz = (double)TOWED_FS / TOWED_N;
    sonar_c32 *x = malloc(count * TOWED_BINS * TOWED * sizeof *x);
    for (size_t s = 0; s < count; s++) {
        cplx ship[WIDE];
        for (size_t b = 0; b < WIDE; b++)
            ship[b] = gain * test_gauss(&seed);
        for (size_t k = 0; k < TOWED; k++) {
            cplx heard[WIDE];
            for (size_t b = 0; b < WIDE; b++)
                heard[b] = test_gauss(&seed) +
                           ship[b] * phase_of(f, k, az_deg, (double)(TOWED_FIRST + b - 1) * bin_hz);
            for (size_t b = 0; b < TOWED_BINS; b++) {
                cplx sum = 0;
                for (size_t i = 0; i < 3; i++)
                    sum += hann[i] * heard[b + i];
                x[(s * TOWED_BINS + b) * TOWED + k] =
                    (sonar_c32){(float)creal(sum), (float)cimag(sum)};
            }
        }
    }
    return x;
}

static sonar_code towed_power(void *ctx, size_t n, const double *az_deg, const double *range_m,
                              float *power, sonar_error *err) {
    mvdr_fixture *f = ctx;
    uint64_t turns[SONAR_DETECT_POINTS * TOWED];
    (void)range_m, (void)err;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < TOWED; k++)
            turns[i * TOWED + k] =
                sonar_turns(mvdr_delay(f, k, az_deg[i]), (double)TOWED_FS / TOWED_N);
    mvdr_evaluate(f, n, turns, power);
    return SONAR_OK;
}

/* Contacts of the last run that are neither the tone nor the ship. */
static size_t count_others(mvdr_fixture *f, const sonar_detect_spec *detect,
                           const double az_deg[2]) {
    static float scratch[4 * LOOKS];
    const double beam = detect->scan->beam_width_deg * M_PI / 180;
    sonar_detection d[16];
    sonar_error err = {0};
    size_t count, others = 0;
    site_require(f->site,
                 sonar_detect(detect, SONAR_FROM_MVDR, f->azimuth, NULL, scratch, towed_power, f, d,
                              &count, &err),
                 &err);
    for (size_t i = 0; i < count; i++) {
        const double at = cos(d[i].az_deg * M_PI / 180);
        others += fabs(at - cos(az_deg[0] * M_PI / 180)) > 0.15 * beam &&
                  fabs(at - cos(az_deg[1] * M_PI / 180)) > 0.3 * beam;
    }
    return others;
}

static double tone_reach(const mvdr_fixture *f) {
    double reach = 0;
    for (size_t b = 0; b < TOWED_BINS; b++)
        reach = fmax(reach, sonar_detect_tone_reach((double)(TOWED_FIRST + b),
                                                    (double)mvdr_info(f, b, SONAR_MVDR_OFFSET)));
    return reach;
}

static void open_towed(mvdr_fixture *f, site *site, size_t snapshots) {
    sonar_mvdr_tones hann;
    double window[TOWED_N];
    sonar_dft_taper(SONAR_HANN, 0, TOWED_N, window);
    sonar_mvdr_tones_make(window, TOWED_N, &hann);
    sonar_mvdr_spec spec = mvdr_spec(TOWED, LOOKS, snapshots, 0);
    spec.fs_hz = TOWED_FS, spec.length = TOWED_N, spec.first_bin = TOWED_FIRST;
    spec.bins = TOWED_BINS, spec.tones = &hann;
    spec.loading = SONAR_LOADING_NOISE, spec.eps = 1;
    mvdr_open(f, site, &spec);
    for (size_t k = 0; k < TOWED; k++)
        f->position_m[3 * k] = 1.1 * ((double)k - (TOWED - 1) / 2.0);
    mvdr_renew(f);
}

/* Bins with equal power of the tone's flank and of the ship show either at a wrong bearing: these
 * must give no contact. Levels are those of the tone in its bin over the noise; the ship's is 12
 * dB. */
MVDR_CASE(tone_over_a_ship) {
    enum { L = 30, SCENES = 30 };
    mvdr_fixture f;
    double az_grid[LOOKS];
    open_towed(&f, site, L);
    for (size_t t = 0; t < LOOKS; t++)
        az_grid[t] = mvdr_azimuth_deg(&f, t);
    const double top_hz = (double)(TOWED_FIRST + TOWED_BINS) * TOWED_FS / TOWED_N;
    const sonar_scan scan = {.count = LOOKS,
                             .az_deg = az_grid,
                             .cone = true,
                             .beam_width_deg = 0.886 * 1500 / top_hz / (TOWED * 1.1) * 180 / M_PI};
    sonar_split *split;
    site_require(site, sonar_split_create(&scan, &split, NULL), NULL);
    sonar_detect_spec detect = {.scan = &scan, .split = split, .threshold_db = 8, .most = 16};
    uint64_t seed = 7;
    size_t plain = 0, others = 0;
    for (int scene = 0; scene < SCENES; scene++) {
        const double tone_deg = 20 + 140 * test_uniform(&seed);
        const double ship_deg = 20 + 140 * test_uniform(&seed);
        const double above = 3 + (TOWED_BINS - 6) * test_uniform(&seed);
        sonar_c32 *x = record_continuum(&f, L, ship_deg, 12, seed + 1);
        add_tone(&f, above, tone_deg, scene % 2 ? 45 : 60, L, x);
        mvdr_reset(&f);
        mvdr_run(&f, L, x);
        detect.tone_reach = 0;
        plain += count_others(&f, &detect, (double[]){tone_deg, ship_deg});
        detect.tone_reach = tone_reach(&f);
        others += count_others(&f, &detect, (double[]){tone_deg, ship_deg});
        free(x);
    }
    site_expect(site, plain > 2, "%zu contacts too many without the rule", plain);
    site_expect(site, others == 0, "%zu contacts too many", others);
    sonar_split_destroy(split);
    mvdr_close(&f);
}

/* ---- a mask that changes --------------------------------------------------------------------- */

enum { MASKED = 40, MASKED_BLOCK = 24, MASKED_BINS = 9, MASKED_LOOKS = 90 };

/* Snapshots of a ship and of a Hann window's tone at 0.37 of a bin, on noise. */
static sonar_c32 *record_tone(const mvdr_fixture *f, size_t count, double level_db) {
    sonar_c32 *x = mvdr_record(f, count, (mvdr_wave[]){{120, 10}}, 1, 3);
    uint64_t seed = 99;
    for (size_t s = 0; s < count; s++) {
        const double start = test_uniform(&seed);
        for (size_t b = 0; b < MASKED_BINS; b++) {
            const double o = 4.37 - (double)b, sign = b % 2 ? -1 : 1;
            const double w = sin(M_PI * o) / (M_PI * o * (1 - o * o)) * sign;
            const double hz =
                ((double)f->spec.first_bin + 4.37) * f->spec.fs_hz / (double)f->spec.length;
            for (size_t k = 0; k < MASKED; k++) {
                const cplx a = w * pow(10, level_db / 20) *
                               cexp(2 * M_PI * I * (hz * mvdr_delay(f, k, 33) + start));
                x[(s * MASKED_BINS + b) * MASKED + k].re += (float)creal(a);
                x[(s * MASKED_BINS + b) * MASKED + k].im += (float)cimag(a);
            }
        }
    }
    return x;
}

static void set_mask(mvdr_fixture *f) {
    f->used[0] = f->used[7] = f->used[8] = f->used[23] = f->used[24] = 0;
    mvdr_renew(f);
}

static double spectra_apart_db(const mvdr_fixture *a, const mvdr_fixture *b) {
    double most = 0;
    for (size_t i = 0; i < (size_t)MASKED_BINS * MASKED_LOOKS; i++) {
        const double apart = fabs(10 * log10((double)a->spectrum[i] / (double)b->spectrum[i]));
        most = most >= apart ? most : apart; /* a NaN, too */
    }
    return most;
}

/* After a change of the mask, a stage gives the results of a stage that starts with this mask and
 * the current block, for any samples of the masked sensors. */
static void expect_as_fresh(site *site, size_t snapshots, double level_db, float noisy) {
    const size_t windows = snapshots + 20, each = (size_t)MASKED_BINS * MASKED;
    sonar_mvdr_tones hann;
    double window[256];
    mvdr_fixture fresh, live;
    sonar_dft_taper(SONAR_HANN, 0, 256, window);
    sonar_mvdr_tones_make(window, 256, &hann);
    sonar_mvdr_spec spec = mvdr_spec(MASKED, MASKED_LOOKS, snapshots, 0);
    spec.bins = MASKED_BINS, spec.tones = &hann, spec.loading = SONAR_LOADING_NOISE, spec.eps = 1;
    mvdr_open(&fresh, site, &spec);
    mvdr_open(&live, site, &spec);
    sonar_c32 *x = record_tone(&fresh, windows, level_db);
    for (size_t i = 0; i < windows * MASKED_BINS; i++)
        x[i * MASKED + 7].re += i / MASKED_BINS % 3 ? noisy : -2 * noisy;
    mvdr_run(&live, snapshots, x);
    set_mask(&live);
    set_mask(&fresh);
    mvdr_run(&live, 0, NULL);
    mvdr_run(&fresh, snapshots, x);
    for (size_t w = snapshots;; w++) {
        const double apart_db = spectra_apart_db(&live, &fresh);
        site_expect(site, apart_db < 1e-3,
                    "%zu snapshots, tone of %g dB, noise %g, window %zu: %g dB", snapshots,
                    level_db, (double)noisy, w, apart_db);
        if (w == windows)
            break;
        mvdr_run(&live, 1, x + w * each);
        mvdr_run(&fresh, 1, x + w * each);
    }
    free(x);
    mvdr_close(&fresh);
    mvdr_close(&live);
}

/* In snapshot space and in sensor space. */
MVDR_CASE(mask_beside_a_tone) {
    static const double level_db[] = {0, 10, 30};
    for (size_t i = 0; i < 3; i++) {
        expect_as_fresh(site, MASKED_BLOCK / 2, level_db[i], 0);
        expect_as_fresh(site, MASKED_BLOCK / 2, level_db[i], 50);
        expect_as_fresh(site, 2 * MASKED_BLOCK, level_db[i], 50);
    }
}
