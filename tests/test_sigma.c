/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Stated standard deviations of bearings compared with the errors of many random scenes. Samples,
 * transforms and beamformers are plain double precision, written from the definitions; only the
 * detector is the daemon's. */
#include <criterion/criterion.h>

#define LAPACK_COMPLEX_CUSTOM
#define lapack_complex_float  float _Complex
#define lapack_complex_double double _Complex
#include <lapacke.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "detect/detect.h"
#include "mvdr_oracle.h"

enum {
    SENSORS = 24,
    LENGTH = 256, /* of a transform */
    HOP = LENGTH / 2,
    FIRST_BIN = 40,
    BINS = 24,
    SNAPSHOTS = 64,
    SAMPLES = 16384, /* of a scene, a period */
    DIRECTIONS = 512
};
/* Sanitizers take ten times as long. */
#if defined(__SANITIZE_ADDRESS__) || !defined(__OPTIMIZE__)
enum { SCENES = 60 };
#else
enum { SCENES = 1000 };
#endif
static const double fs_hz = 4000, c_mps = 1500, radians = M_PI / 180;

/* ---- scenes ---------------------------------------------------------------------------------- */

typedef enum array_kind { LINE = 0, MASKED, UNEVEN, SHADED, VOLUME, ARRAYS } array_kind;
typedef enum region { BROADSIDE = 0, BETWEEN, ENDFIRE, REGIONS } region;

typedef struct scene {
    array_kind kind;
    region region;
    bool tone;
    size_t averages, snapshots; /* of the CBF, of MVDR */
    double snr_db;              /* of the band, behind the beamformer */
    uint64_t random;
    /* made of these */
    double position_m[3 * SENSORS];
    float weight[SENSORS]; /* of the CBF */
    uint8_t used[SENSORS];
    size_t in_use;
    sonar_geometry geometry;
    sonar_scan scan;
    double az_deg, tone_hz;
    sonar_aperture aperture, plain; /* with the CBF's weights, with equal ones */
    sonar_pattern *pattern;
    cplx x[SNAPSHOTS][BINS][SENSORS];
    cplx inverse[BINS][SENSORS * SENSORS]; /* of the loaded covariances, sensors in use */
    double steer_hz[BINS];
    double delta[BINS], level[BINS];
    bool adaptive; /* what power_at evaluates */
} scene;

static double uniform(scene *s, double low, double high) {
    return low + (high - low) * sonar_random_uniform(&s->random);
}

static void place_sensors(scene *s) {
    memset(s->position_m, 0, sizeof s->position_m);
    for (size_t k = 0; k < SENSORS; k++) {
        double *p = s->position_m + 3 * k;
        p[0] = 0.75 * ((double)k - (SENSORS - 1) / 2.0);
        s->used[k] = 1;
        s->weight[k] = 1;
        if (s->kind == UNEVEN)
            p[0] += uniform(s, -0.3, 0.3);
        if (s->kind == SHADED)
            s->weight[k] = (float)pow(sin(M_PI * ((double)k + 0.5) / SENSORS), 2);
        if (s->kind == VOLUME) {
            for (size_t i = 0; i < 3; i++)
                p[i] = uniform(s, -2.5, 2.5);
            p[2] *= 0.5;
        }
        if (s->kind == MASKED && k > 0 && k < SENSORS - 1 && uniform(s, 0, 1) < 0.25) {
            s->used[k] = 0;
            s->weight[k] = 0;
        }
        s->in_use += s->used[k];
    }
}

static double bin_hz(double bin) {
    return bin * fs_hz / LENGTH;
}

static void make_scan(scene *s) {
    const double top_hz = bin_hz(FIRST_BIN + BINS - 1);
    cr_assert(
        sonar_geometry_analyse(SENSORS, s->position_m, s->used, c_mps / top_hz / 20, &s->geometry));
    double weight[SENSORS];
    float plain[SENSORS];
    for (size_t k = 0; k < SENSORS; k++)
        weight[k] = (double)s->weight[k], plain[k] = s->used[k];
    const sonar_scan_spec spec = {
        .top_hz = top_hz,
        .sound_speed_mps = c_mps,
        .effective_m = sonar_effective_length(SENSORS, s->position_m, weight, &s->geometry)};
    cr_assert_eq(sonar_scan_create(&spec, &s->geometry, &s->scan, NULL), SONAR_OK);
    cr_assert_leq(s->scan.count, (size_t)DIRECTIONS);
    cr_assert_eq(s->scan.cone, s->kind != VOLUME);
    sonar_aperture_of(SENSORS, s->position_m, s->weight, &s->aperture);
    sonar_aperture_of(SENSORS, s->position_m, plain, &s->plain);
    const sonar_pattern_spec pattern = {.sensors = SENSORS,
                                        .position_m = s->position_m,
                                        .weight = s->weight,
                                        .scan = &s->scan,
                                        .c_mps = c_mps,
                                        .low_hz = bin_hz(FIRST_BIN),
                                        .high_hz = top_hz};
    cr_assert_eq(sonar_pattern_create(&pattern, &s->pattern, NULL), SONAR_OK);
}

static double draw_angle(scene *s) {
    const double beam = s->scan.beam_width_deg * radians;
    if (!s->scan.cone)
        return uniform(s, 0, 360);
    const double u = s->region == BROADSIDE ? uniform(s, -0.3, 0.3)
                     : s->region == BETWEEN ? uniform(s, 0.3, 0.85)
                                            : 1 - beam * uniform(s, 0, 1);
    return acos(u) / radians;
}

/* ---- samples and transforms ------------------------------------------------------------------ */

/* exp(i phase step), step = 0, 1, ...: exact at each 256th step, by products between them. */
typedef struct phasor {
    double phase;
    size_t step;
    cplx turn, value;
} phasor;

static phasor phasor_at(double phase, size_t step) {
    return (phasor){phase, step, cexp(I * phase), cexp(I * phase * (double)step)};
}

static cplx phasor_next(phasor *p) {
    const cplx now = p->value;
    p->step++;
    p->value = p->step % 256 ? now * p->turn : cexp(I * p->phase * (double)p->step);
    return now;
}

/* x[t] = sum_q X[q] exp(2 pi i q t / n), n a power of two, in place. */
static void inverse_fft(cplx *x, size_t n) {
    static cplx turn[SAMPLES / 2];
    static bool made;
    for (size_t k = 0; k < SAMPLES / 2 && !made; k++)
        turn[k] = cexp(2 * M_PI * I * (double)k / SAMPLES);
    made = true;
    for (size_t i = 1, j = 0; i < n; i++) {
        size_t bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            const cplx kept = x[i];
            x[i] = x[j], x[j] = kept;
        }
    }
    for (size_t half = 1; half < n; half *= 2)
        for (size_t i = 0; i < n; i += 2 * half)
            for (size_t k = i; k < i + half; k++) {
                const cplx odd = turn[(k - i) * (SAMPLES / 2 / half)] * x[k + half];
                x[k + half] = x[k] - odd;
                x[k] += odd;
            }
}

static double hann(size_t i) {
    return pow(sin(M_PI * (double)i / LENGTH), 2) * sqrt(8.0 / 3 / LENGTH); /* of energy 1 */
}

static double delay_s(const scene *s, size_t k, double az_deg) {
    double u[3], tau_s = 0;
    sonar_scan_unit(&s->scan, az_deg, u);
    for (size_t i = 0; i < 3; i++)
        tau_s += s->position_m[3 * k + i] * u[i] / c_mps;
    return tau_s;
}

/* One sensor's analytic samples: noise of power 1 in each bin, and the source. */
static void make_samples(scene *s, size_t k, const cplx *source, double amplitude, cplx *x) {
    const double line_hz = fs_hz / SAMPLES, tau_s = delay_s(s, k, s->az_deg);
    const size_t low = (size_t)(bin_hz(FIRST_BIN - 6) / line_hz),
                 high = (size_t)(bin_hz(FIRST_BIN + BINS + 6) / line_hz);
    memset(x, 0, SAMPLES * sizeof *x);
    phasor delay = phasor_at(2 * M_PI * line_hz * tau_s, low);
    for (size_t q = low; q < high; q++)
        x[q] = (test_gauss(&s->random) + source[q] * phasor_next(&delay)) / sqrt(SAMPLES);
    inverse_fft(x, SAMPLES);
    const cplx there = amplitude * cexp(2 * M_PI * I * s->tone_hz * tau_s);
    phasor tone = phasor_at(2 * M_PI * s->tone_hz / fs_hz, 0);
    for (size_t t = 0; t < SAMPLES && s->tone; t++)
        x[t] += there * phasor_next(&tone);
}

static void transform(scene *s, size_t k, const cplx *samples) {
    double taper[LENGTH];
    for (size_t t = 0; t < LENGTH; t++)
        taper[t] = hann(t);
    for (size_t m = 0; m < s->snapshots || m < s->averages; m++) {
        cplx x[LENGTH];
        for (size_t t = 0; t < LENGTH; t++)
            x[t] = taper[t] * conj(samples[m * HOP + t]);
        inverse_fft(x, LENGTH); /* conj(sum_t conj(x) exp(+...)) = sum_t x exp(-...) */
        for (size_t b = 0; b < BINS; b++)
            s->x[m][b][k] = conj(x[FIRST_BIN + b]);
    }
}

/* A source of snr_db over the noise of the beam, in the sum over the band. */
static void make_transforms(scene *s) {
    static cplx source[SAMPLES], samples[SAMPLES];
    const double power = pow(10, s->snr_db / 10) * s->aperture.share;
    memset(source, 0, sizeof source);
    for (size_t q = 0; q < SAMPLES && !s->tone; q++)
        source[q] = sqrt(power) * test_gauss(&s->random);
    s->tone_hz = bin_hz(uniform(s, FIRST_BIN + 3, FIRST_BIN + BINS - 4));
    const double amplitude = sqrt(power * BINS / LENGTH);
    for (size_t k = 0; k < SENSORS; k++) {
        make_samples(s, k, source, amplitude, samples);
        transform(s, k, samples);
    }
    for (size_t b = 0; b < BINS; b++) {
        /* as the stage does: at a tone that is loud enough, as exactly as it finds it */
        cplx sum = 0;
        for (size_t t = 0; t < LENGTH; t++)
            sum +=
                hann(t) * cexp(2 * M_PI * I *
                               (s->tone_hz / fs_hz - (double)(FIRST_BIN + b) / LENGTH) * (double)t);
        const double over = pow(amplitude * cabs(sum), 2);
        s->steer_hz[b] = bin_hz((double)(FIRST_BIN + b));
        if (s->tone && over >= 1.5)
            s->steer_hz[b] = s->tone_hz + bin_hz(sonar_random_normal(&s->random) /
                                                 sqrt((double)(s->in_use * s->snapshots) * over));
    }
}

/* ---- beamformers ----------------------------------------------------------------------------- */

static double beam(const scene *s, double az_deg) {
    double power = 0, sum = 0, tau_s[SENSORS];
    for (size_t k = 0; k < SENSORS; k++) {
        tau_s[k] = delay_s(s, k, az_deg);
        sum += (double)s->weight[k];
    }
    for (size_t b = 0; b < BINS; b++) {
        cplx a[SENSORS];
        for (size_t k = 0; k < SENSORS; k++)
            a[k] = (double)s->weight[k] / sum *
                   cexp(-2 * M_PI * I * bin_hz((double)(FIRST_BIN + b)) * tau_s[k]);
        for (size_t m = 0; m < s->averages; m++) {
            cplx y = 0;
            for (size_t k = 0; k < SENSORS; k++)
                y += a[k] * s->x[m][b][k];
            power += (creal(y) * creal(y) + cimag(y) * cimag(y)) / (double)s->averages;
        }
    }
    return power;
}

/* The inverse of the loaded covariance, by its eigenvectors; the noise rule's loading. */
static void solve(scene *s, size_t b, double eps) {
    cplx r[SENSORS * SENSORS], x[SNAPSHOTS * SENSORS];
    const size_t n = s->in_use;
    double d[SENSORS], down[SENSORS], freedom = 0;
    for (size_t m = 0; m < s->snapshots; m++)
        for (size_t k = 0, i = 0; k < SENSORS; k++)
            if (s->used[k])
                x[m * n + i++] = s->x[m][b][k];
    mvdr_oracle_covariance(n, s->snapshots, x, NULL, r);
    cr_assert_eq(LAPACKE_zheev(LAPACK_COL_MAJOR, 'V', 'U', (int)n, r, (int)n, d), 0);
    for (size_t i = 0; i < n; i++)
        down[i] = fmax(d[n - 1 - i], 0);
    const sonar_mvdr_spec spec = {.loading = SONAR_LOADING_NOISE, .eps = eps};
    s->delta[b] = mvdr_oracle_delta(&spec, n, down, (double)s->snapshots);
    for (size_t i = 0; i < n; i++)
        freedom += down[i] / (down[i] + s->delta[b]);
    s->level[b] = 1 - freedom / (double)s->snapshots;
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < n; i++) {
            cplx sum = 0;
            for (size_t v = 0; v < n; v++)
                sum += r[v * n + i] * conj(r[v * n + j]) / (fmax(d[v], 0) + s->delta[b]);
            s->inverse[b][j * n + i] = sum;
        }
}

static double needle(const scene *s, double az_deg) {
    const size_t n = s->in_use;
    double power = 0, tau_s[SENSORS];
    for (size_t k = 0, i = 0; k < SENSORS; k++)
        if (s->used[k])
            tau_s[i++] = delay_s(s, k, az_deg);
    for (size_t b = 0; b < BINS; b++) {
        cplx a[SENSORS];
        double form = 0;
        for (size_t i = 0; i < n; i++)
            a[i] = cexp(2 * M_PI * I * s->steer_hz[b] * tau_s[i]);
        for (size_t j = 0; j < n; j++) {
            cplx sum = 0;
            for (size_t i = 0; i < n; i++)
                sum += conj(a[i]) * s->inverse[b][j * n + i];
            form += creal(sum * a[j]);
        }
        power += 1 / form;
    }
    return power;
}

static sonar_code power_at(void *ctx, size_t n, const double *az_deg, const double *range_m,
                           float *power, sonar_error *err) {
    const scene *s = ctx;
    (void)range_m, (void)err;
    for (size_t i = 0; i < n; i++)
        power[i] = (float)(s->adaptive ? needle(s, az_deg[i]) : beam(s, az_deg[i]));
    return SONAR_OK;
}

/* ---- errors ---------------------------------------------------------------------------------- */

static double off(const scene *s, double az_deg) {
    return s->scan.cone ? az_deg - s->az_deg : remainder(az_deg - s->az_deg, 360);
}

/* The contact nearest to the source; false: none within a beam. */
static bool detect(scene *s, const sonar_accuracy *accuracy, sonar_detection *found) {
    static float power[DIRECTIONS], scratch[4 * DIRECTIONS];
    sonar_detection list[16];
    size_t count = 0;
    for (size_t i = 0; i < s->scan.count; i++)
        power[i] = (float)(s->adaptive ? needle(s, s->scan.az_deg[i]) : beam(s, s->scan.az_deg[i]));
    sonar_split *split;
    cr_assert_eq(sonar_split_create(&s->scan, &split, NULL), SONAR_OK);
    const sonar_detect_spec spec = {.scan = &s->scan,
                                    .split = split,
                                    .threshold_db = 6,
                                    .most = 16,
                                    .pattern = sonar_pattern_shares,
                                    .pattern_ctx = s->pattern,
                                    .aperture_m = s->geometry.aperture_m};
    cr_assert_eq(sonar_detect(&spec, s->adaptive ? SONAR_FROM_MVDR : SONAR_FROM_CBF, power, NULL,
                              scratch, power_at, s, list, &count, NULL),
                 SONAR_OK);
    sonar_split_destroy(split);
    if (count == 0)
        return false;
    *found = list[0];
    sonar_detect_bearing(&s->scan, found->az_deg, 0, true, &found->bearing_deg, &found->mirror_deg);
    const sonar_array_error none = {0};
    sonar_detect_sigma(&s->scan, accuracy, found);
    sonar_detect_bearing_sigma(&s->scan, accuracy, &none, true, found);
    return fabs(off(s, found->az_deg)) < 40;
}

static double median(double *value, size_t n) {
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j > 0 && value[j] < value[j - 1]; j--) {
            const double kept = value[j];
            value[j] = value[j - 1], value[j - 1] = kept;
        }
    return value[n / 2];
}

/* Of the CBF, by MVDR's background. */
static double noise_of(scene *s) {
    double delta[BINS], level[BINS], power[DIRECTIONS];
    memcpy(delta, s->delta, sizeof delta);
    memcpy(level, s->level, sizeof level);
    for (size_t i = 0; i < s->scan.count; i++)
        power[i] = needle(s, s->scan.az_deg[i]);
    return sonar_beam_noise(median(power, s->scan.count),
                            BINS * median(delta, BINS) / (double)s->in_use, median(level, BINS),
                            false) *
           s->aperture.share * (double)s->in_use;
}

static sonar_accuracy accuracy_of(scene *s) {
    double taper[LENGTH], delta[BINS], level[BINS];
    for (size_t i = 0; i < LENGTH; i++)
        taper[i] = hann(i);
    const size_t averages = s->adaptive ? s->snapshots : s->averages;
    sonar_accuracy a = {.aperture = s->adaptive ? &s->plain : &s->aperture,
                        .bins = BINS,
                        .low_hz = bin_hz(FIRST_BIN),
                        .high_hz = bin_hz(FIRST_BIN + BINS - 1),
                        .bin_hz = bin_hz(1),
                        .c_mps = c_mps,
                        .averages = sonar_averages_of(taper, LENGTH, 0.5, (double)averages, BINS),
                        .own_share = sonar_own_share(s->pattern, &s->scan),
                        .level = 1,
                        .noise = noise_of(s)};
    if (s->adaptive) {
        memcpy(delta, s->delta, sizeof delta);
        memcpy(level, s->level, sizeof level);
        a.level = median(level, BINS);
        a.loading = median(delta, BINS) / (double)s->in_use;
        a.lost = sonar_averages_lost((double)s->snapshots, (double)s->in_use, a.level);
    }
    return a;
}

static scene *make(uint64_t seed, size_t number) {
    scene *s = calloc(1, sizeof *s);
    cr_assert(s);
    s->random = sonar_random_at(seed, number);
    s->kind = (array_kind)(number % ARRAYS);
    s->region = (region)(number / ARRAYS % REGIONS);
    s->tone = number / ARRAYS / REGIONS % 2;
    s->averages = (size_t[]){1, 4, 8}[sonar_random_bits(&s->random) % 3];
    s->snapshots = (size_t[]){12, 36, 64}[sonar_random_bits(&s->random) % 3];
    s->snr_db = uniform(s, 10, 25);
    place_sensors(s);
    make_scan(s);
    s->az_deg = draw_angle(s);
    make_transforms(s);
    return s;
}

static void drop(scene *s) {
    sonar_pattern_destroy(s->pattern);
    sonar_scan_destroy(&s->scan);
    free(s);
}

/* Normalised squared errors, one of 5 standard deviations or more as of 5. */
typedef struct tally {
    double squares;
    size_t n, missed;
} tally;

static void note(tally *t, bool there, double off_deg, double sigma_deg) {
    t->missed += !there;
    t->n += there;
    t->squares += there ? fmin(off_deg * off_deg / (sigma_deg * sigma_deg), 25) : 0;
}

static void expect(bool adaptive, const char *what, const tally *t, double low, double high) {
    const char *of = adaptive ? "mvdr" : "cbf";
    const double mean = t->squares / (double)t->n;
    printf("%-4s %-9s %4zu contacts, %zu missed: %.2f\n", of, what, t->n, t->missed, mean);
    cr_expect(mean >= low && mean <= high, "%s, %s: %g of %zu contacts", of, what, mean, t->n);
    cr_expect_leq(t->missed, 1 + t->n / 50, "%s, %s", of, what);
}

/* What a scene counts for. */
enum {
    ALL = 0,
    NOISE,
    TONES,
    NEAR_BROADSIDE,
    SLANT,
    NEAR_ENDFIRE,
    OF_ARRAY,
    TALLIES = OF_ARRAY + ARRAYS
};
static const char *const name_of[TALLIES] = {"all",    "noise",   "tones", "broadside",
                                             "slant",  "endfire", "line",  "masked",
                                             "uneven", "shaded",  "volume"};
static tally tallies[2][TALLIES];

static void try_scene(scene *s, bool adaptive) {
    sonar_detection d = {0};
    s->adaptive = adaptive;
    const sonar_accuracy a = accuracy_of(s);
    const bool there = detect(s, &a, &d);
    const size_t counts[] = {ALL, s->tone ? TONES : NOISE, OF_ARRAY + (size_t)s->kind,
                             NEAR_BROADSIDE + (size_t)s->region};
    for (size_t i = 0; i < (s->scan.cone ? 4 : 3); i++)
        note(&tallies[adaptive][counts[i]], there, off(s, d.az_deg), d.bearing_sigma_deg);
}

/* The seed can be changed by hand, to see what chance makes. */
Test(sigma, errors_are_as_large_as_stated, .timeout = 900) {
    const char *given = getenv("SONAR_TEST_SEED");
    const uint64_t seed = given ? strtoull(given, NULL, 10) : 26;
    for (size_t i = 0; i < SCENES; i++) {
        scene *s = make(seed, i);
        for (size_t b = 0; b < BINS; b++)
            solve(s, b, 1);
        try_scene(s, false);
        try_scene(s, true);
        drop(s);
    }
    const bool few = SCENES < 1000; /* whose means scatter */
    for (int adaptive = 0; adaptive < 2; adaptive++)
        for (size_t i = 0; i < TALLIES; i++) {
            const double within = few ? 0.8 : i < NEAR_BROADSIDE ? 0.2 : 0.4;
            expect(adaptive, name_of[i], &tallies[adaptive][i], 1 - within, few ? 3 : 1 + within);
        }
}

/* ---- what is declared ------------------------------------------------------------------------ */

static scene *quiet_scene(array_kind kind) {
    scene *s = calloc(1, sizeof *s);
    cr_assert(s);
    s->kind = kind;
    s->random = 1;
    s->averages = 1;
    place_sensors(s);
    make_scan(s);
    return s;
}

static double stated(const scene *s, const sonar_array_error *declared, double az_deg,
                     double sigma) {
    const sonar_accuracy a = {.aperture = &s->aperture,
                              .bins = BINS,
                              .low_hz = bin_hz(FIRST_BIN),
                              .high_hz = bin_hz(FIRST_BIN + BINS - 1),
                              .bin_hz = bin_hz(1),
                              .c_mps = c_mps};
    sonar_detection d = {.az_deg = az_deg, .sigma = sigma, .bearing_deg = az_deg};
    sonar_detect_bearing_sigma(&s->scan, &a, declared, true, &d);
    return d.bearing_sigma_deg;
}

/* A beam's top, by a dense search over a beam around where it should be. */
static double top_of(scene *s, double az_deg) {
    double best = az_deg, most = 0;
    for (double width = 4; width > 1e-5; width /= 8) {
        const double middle = best;
        for (int i = -8; i <= 8; i++) {
            const double at = middle + width * i / 8, power = beam(s, at);
            if (power > most)
                most = power, best = at;
        }
    }
    return best;
}

/* A plane wave as sensors see it that are off their places by position_m and in phase, at a sound
 * speed that is off. */
static void make_wave(scene *s, double az_deg, const sonar_array_error *error) {
    const double speed = c_mps + error->sound_speed_mps;
    double u[3];
    sonar_scan_unit(&s->scan, az_deg, u);
    for (size_t k = 0; k < SENSORS; k++) {
        double path_m = 0;
        for (size_t i = 0; i < 3; i++)
            path_m += u[i] * (s->position_m[3 * k + i] +
                              error->position_m * sonar_random_normal(&s->random));
        const double phase = error->phase_deg * radians * sonar_random_normal(&s->random);
        for (size_t b = 0; b < BINS; b++)
            s->x[0][b][k] =
                cexp(I * (2 * M_PI * bin_hz((double)(FIRST_BIN + b)) * path_m / speed + phase));
    }
}

/* Peaks of arrays that are not as described, without noise, compared with what is stated. */
static void expect_declared(array_kind kind, const sonar_array_error *error, double az_deg,
                            const char *what) {
    enum { DRAWS = 100 };
    scene *s = quiet_scene(kind);
    double squares = 0;
    for (size_t i = 0; i < DRAWS; i++) {
        make_wave(s, az_deg, error);
        squares += pow(top_of(s, az_deg) - az_deg, 2) / DRAWS;
    }
    const double ratio = sqrt(squares) / stated(s, error, az_deg, 0);
    cr_expect(ratio > 0.8 && ratio < 1.2, "%s of array %d at %g deg: %g", what, (int)kind, az_deg,
              ratio);
    drop(s);
}

Test(sigma, declared_errors_of_the_array, .timeout = 900) {
    for (int kind = 0; kind < ARRAYS; kind++)
        for (double az_deg = 50; az_deg < 100; az_deg += 40) {
            const sonar_array_error phase = {.phase_deg = 10}, place = {.position_m = 0.05},
                                    speed = {.sound_speed_mps = 15};
            expect_declared((array_kind)kind, &phase, az_deg, "phase");
            expect_declared((array_kind)kind, &place, az_deg, "position");
            if (az_deg < 60) /* at broadside a line has none */
                expect_declared((array_kind)kind, &speed, az_deg, "sound speed");
        }
}

Test(sigma, errors_add_in_squares, .timeout = 900) {
    scene *s = quiet_scene(LINE);
    const sonar_array_error none = {0}, heading = {.heading_deg = 0.4};
    const double alone_deg = stated(s, &none, 90, 0.3 * radians);
    cr_expect_float_eq(alone_deg, 0.3, 1e-3, "%g", alone_deg);
    cr_expect_float_eq(stated(s, &heading, 90, 0.3 * radians), 0.5, 1e-3);
    cr_expect(isnan(stated(s, &none, 90, NAN)));
    drop(s);
}

/* At the axis the cosine is flat: an error of it is seen as its root, and nothing is infinite. */
Test(sigma, near_the_axis, .timeout = 900) {
    scene *s = quiet_scene(LINE);
    const sonar_array_error none = {0};
    const double sigma = 1e-3;
    const double wide = sigma / sin(20 * radians) / radians;
    cr_expect_float_eq(stated(s, &none, 20, sigma) / wide, 1, 0.01);
    /* half a Gaussian: the mean of 2 |e| */
    const double at = sqrt(2 * sigma * sqrt(2 / M_PI)) / radians;
    cr_expect_float_eq(stated(s, &none, 0, sigma) / at, 1, 0.03);
    cr_expect_float_eq(stated(s, &none, 180, sigma) / at, 1, 0.03);
    for (double az = 0; az < 20; az += 0.25) {
        const double deg = stated(s, &none, az, sigma);
        cr_expect(deg > 0 && deg < 1.5 * at, "%g at %g", deg, az);
    }
    drop(s);
}

/* Of transforms without a common sample and of a rectangular taper, all count. */
Test(sigma, averages, .timeout = 900) {
    double taper[256];
    for (size_t i = 0; i < 256; i++)
        taper[i] = 1;
    cr_expect_float_eq(sonar_averages_of(taper, 256, 1, 5, 20).noise, 5, 1e-9);
    for (size_t i = 0; i < 256; i++)
        taper[i] = pow(sin(M_PI * (double)i / 256), 2);
    /* one bin: 64 count as 61 at half a Hann window and as 33 at three quarters (docs/mvdr.md) */
    cr_expect_float_eq(sonar_averages_of(taper, 256, 0.5, 64, 1).noise, 60.7, 0.2);
    cr_expect_float_eq(sonar_averages_of(taper, 256, 0.25, 64, 1).noise, 33.4, 0.4);
    /* all bins: (sum w^2)^2 / (n sum w^4), by Parseval */
    cr_expect_float_eq(sonar_averages_of(taper, 256, 1, 1, 10000).noise, 18.0 / 35, 1e-3);
    const double close = sonar_averages_of(taper, 256, 1.0 / 512, 5121, 10).noise;
    cr_expect_float_eq(close / sonar_averages_of(taper, 256, 1.0 / 64, 641, 10).noise, 1, 1e-6);
    cr_expect_float_eq(sonar_averages_of(taper, 256, 1, 1, 10).width, 1 / sqrt(3), 1e-3);
}
