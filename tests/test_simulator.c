/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The simulator is the oracle of many other tests, so it is compared with physics: delays and
 * levels from the geometry in double precision, statistics of the noise; and every message that it
 * reports as sent is counted at the other end of a socket. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "clock.h"
#include "core/core.h"
#include "ingest/frame.h"
#include "feedback.h"
#include "numerical.h"
#include "recording.h"
#include "sender.h"
#include "synth.h"
#include "truth.h"

#define FS 8000.0
#define C  1500.0

/* ---- helpers --------------------------------------------------------------------------------- */

static sim_scene empty_scene(void) {
    return (sim_scene){.seed = 11,
                       .sensitivity_db = NAN,
                       .noise_db = -HUGE_VAL,
                       .isotropic_waves = 64,
                       .frame_samples = 256,
                       .digitisers = 1,
                       .format = SONAR_F32};
}

static sim_spectrum white(double low_hz, double high_hz, double level_db) {
    return (sim_spectrum){
        .present = true, .low_hz = low_hz, .high_hz = high_hz, .level_db = level_db};
}

static sim_array array_at(size_t sensors, const double *position_m) {
    return (sim_array){.sensors = sensors,
                       .channels = sensors,
                       .fs_hz = FS,
                       .sound_speed_mps = C,
                       .position_m = position_m};
}

/* [channel][samples], the caller's to free. */
static float *render(const sim_scene *scene, const sim_array *array, uint64_t first,
                     size_t samples) {
    sim_synth *synth;
    sonar_error err;
    cr_assert_eq(sim_synth_create(scene, array, &synth, &err), SONAR_OK, "%s", err.text);
    float *x = malloc(array->channels * samples * sizeof *x);
    cr_assert_not_null(x);
    sim_synth_render(synth, first, samples, x);
    sim_synth_destroy(synth);
    return x;
}

static double mean_square_db(const float *x, size_t samples) {
    double sum = 0;
    for (size_t i = 0; i < samples; i++)
        sum += (double)x[i] * (double)x[i];
    return 10 * log10(sum / (double)samples);
}

/* A band-limited sequence between its samples: 1201 taps under a Hann window, in double. */
static double interpolate(const float *x, size_t samples, double t) {
    enum { REACH = 600 };
    double sum = 0;
    long centre = lrint(t);
    for (long n = centre - REACH; n <= centre + REACH; n++) {
        double u = t - (double)n, sinc = fabs(u) < 1e-12 ? 1 : sin(M_PI * u) / (M_PI * u);
        cr_assert(n >= 0 && n < (long)samples);
        sum += (double)x[n] * sinc * (0.5 + 0.5 * cos(M_PI * u / (REACH + 1)));
    }
    return sum;
}

/* Of a ship at t_s: north, east, heading. The turn in small steps. */
static void sail(const sim_ship *ship, double t_s, double to[3]) {
    enum { STEPS = 2000 };
    const double since_s = t_s - ship->turn_from_s, d = M_PI / 180;
    const double turning_s = fmin(fmax(since_s, 0), ship->turn_by_deg / ship->turn_deg_s);
    to[0] = to[1] = 0, to[2] = ship->heading_deg;
    for (int i = 0; i < STEPS; i++) {
        const double turn_deg = ship->turn_deg_s * turning_s / STEPS;
        to[0] += ship->speed_mps * turning_s / STEPS * cos((to[2] + turn_deg / 2) * d);
        to[1] += ship->speed_mps * turning_s / STEPS * sin((to[2] + turn_deg / 2) * d);
        to[2] += turn_deg;
    }
    to[0] += ship->speed_mps * (since_s - turning_s) * cos(to[2] * d);
    to[1] += ship->speed_mps * (since_s - turning_s) * sin(to[2] * d);
}

/* Of a source far away at a true bearing, as a towed sensor hears it. */
static double towed_lead_of(const sim_source *s, const double *p, double t_s) {
    const double d = M_PI / 180, trail_m = s->ship.trail_m, mps = s->ship.speed_mps;
    double origin[3], at[3];
    sail(&s->ship, t_s - trail_m / mps, origin);
    sail(&s->ship, t_s - (trail_m - p[0]) / mps, at);
    const double north = at[0] - origin[0] - p[1] * sin(origin[2] * d),
                 east = at[1] - origin[1] + p[1] * cos(origin[2] * d);
    return (north * cos(s->az_deg * d) + east * sin(s->az_deg * d)) / C;
}

/* The lead of sensor p in seconds, computed independently from the definition. */
static double lead_of(const sim_source *s, const double *p, double t_s, double *amplitude) {
    double d = M_PI / 180, az = s->az_deg * d, dep = s->depression_deg * d;
    *amplitude = 1;
    if (s->ship.trail_m > 0)
        return towed_lead_of(s, p, t_s);
    if (s->far) {
        az += s->rate_deg_s * t_s * d;
        return (p[0] * cos(az) * cos(dep) + p[1] * sin(az) * cos(dep) + p[2] * sin(dep)) / C;
    }
    double x = s->range_m * cos(az) * cos(dep) + s->speed_mps * t_s * cos(s->course_deg * d);
    double y = s->range_m * sin(az) * cos(dep) + s->speed_mps * t_s * sin(s->course_deg * d);
    double z = s->range_m * sin(dep);
    double r = sqrt(pow(x - p[0], 2) + pow(y - p[1], 2) + pow(z - p[2], 2));
    *amplitude = (s->at == 1 ? 1 : s->range_m) / r;
    return (s->range_m - r) / C;
}

static const double spread_out[][3] = {{0, 0, 0},       {0.7, 0, 0},    {-47.6, 0, 0},
                                       {3.1, -20.3, 4}, {11, 12.9, -8}, {-0.01, 0.3, 2},
                                       {60, 0, 0}};
enum { SPREAD_OUT = sizeof spread_out / sizeof *spread_out };

/* Compares every sensor's samples with the process at the exact times. An array of one sensor
 * receives the process without delay from a distant source at rest with the same random stream. */
static void check_delays(const sim_source *moving, uint64_t first) {
    enum { N = 1000, MARGIN = 1200 };
    sim_scene scene = empty_scene();
    scene.sources = 1;
    sim_source still = {.far = true, .broadband = moving->broadband}, source = *moving;
    scene.source = &still; /* at the origin, whatever the ship does */
    double origin[3] = {0};
    sim_array one = array_at(1, origin), many = array_at(SPREAD_OUT, spread_out[0]);
    float *s = render(&scene, &one, first - MARGIN, N + 2 * MARGIN);
    scene.source = &source;
    scene.ship = moving->ship;
    float *x = render(&scene, &many, first, N);
    for (size_t k = 0; k < SPREAD_OUT; k++) {
        double error = 0, power = 0;
        for (size_t i = 0; i < N; i += 7) {
            double a, lead = lead_of(&source, spread_out[k], (double)(first + i) / FS, &a);
            double want = a * interpolate(s, N + 2 * MARGIN, MARGIN + (double)i + lead * FS);
            error += pow((double)x[k * N + i] - want, 2);
            power += want * want;
        }
        /* 1e-4 of the signal at 0.1 .. 0.3 fs is a delay error under 1e-4 samples. */
        cr_expect_lt(sqrt(error / power), 1e-4, "sensor %zu: %g", k, sqrt(error / power));
    }
    free(s);
    free(x);
}

/* Amplitude and phase of a tone, least squares over whole periods. */
static void fit_tone(const float *x, size_t samples, double hz, double *amplitude, double *phase) {
    double c = 0, s = 0;
    for (size_t i = 0; i < samples; i++) {
        c += (double)x[i] * cos(2 * M_PI * hz * (double)i / FS);
        s += (double)x[i] * sin(2 * M_PI * hz * (double)i / FS);
    }
    *amplitude = 2 * hypot(c, s) / (double)samples;
    *phase = atan2(c, s); /* of sin(2 pi f t + phase) */
}

/* ---- delays ---------------------------------------------------------------------------------- */

Test(simulator, far_source_delays) {
    sim_source source = {.far = true, .az_deg = 33, .depression_deg = 12};
    source.broadband = white(100, 3300, 0);
    check_delays(&source, 100001);
}

Test(simulator, far_source_turning) {
    sim_source source = {.far = true, .az_deg = 200, .rate_deg_s = 0.5};
    source.broadband = white(100, 3300, 0);
    check_delays(&source, 70003);
}

/* Where the turn begins, in it, and where it ends: at 5 and at 20 s the ship, 7.5 s later the
 * array's origin. */
Test(simulator, towed_sensors_hear_from_where_they_are_on_the_path) {
    sim_source source = {.far = true,
                         .az_deg = 200,
                         .ship = {.heading_deg = 350,
                                  .turn_deg_s = 6,
                                  .turn_from_s = 5,
                                  .turn_by_deg = 90,
                                  .speed_mps = 8,
                                  .trail_m = 60}};
    source.broadband = white(100, 3300, 0);
    for (double t_s = 10; t_s <= 34; t_s += 8)
        check_delays(&source, (uint64_t)(t_s * FS) + 7);
    sim_truth truth;
    sim_source_truth(&source, 12.5 + 5, &truth);
    cr_expect_float_eq(truth.az_deg, 200 - (350 + 6 * 5) + 360, 1e-9);
}

Test(simulator, near_source_delays_and_spreading) {
    sim_source source = {.az_deg = 125, .depression_deg = -5, .range_m = 90};
    source.broadband = white(100, 3300, 0);
    check_delays(&source, 50000);
}

Test(simulator, near_source_moving_has_doppler) {
    sim_source source = {
        .az_deg = 310, .depression_deg = 3, .range_m = 150, .course_deg = 130, .speed_mps = 8};
    source.broadband = white(100, 3300, 0);
    check_delays(&source, 9000);
}

Test(simulator, tone_phases_follow_the_delays) {
    enum { N = 8000 };
    sim_scene scene = empty_scene();
    sim_source source = {.az_deg = 71, .range_m = 120, .tones = 1};
    source.tone[0] = (sim_tone){.hz = 780, .level_db = 20, .phase_deg = 30};
    scene.source = &source;
    scene.sources = 1;
    sim_array array = array_at(SPREAD_OUT, spread_out[0]);
    float *x = render(&scene, &array, 0, N);
    for (size_t k = 0; k < SPREAD_OUT; k++) {
        double ratio, lead = lead_of(&source, spread_out[k], 0, &ratio), amplitude, phase;
        fit_tone(x + k * N, N, 780, &amplitude, &phase);
        double error = remainder(phase - 2 * M_PI * (30 / 360.0 + 780 * lead), 2 * M_PI);
        cr_expect_lt(fabs(error), 1e-5, "sensor %zu: %g rad", k, error);
        cr_expect_float_eq(amplitude, ratio * sqrt(2) * 10, 1e-4);
    }
    free(x);
}

Test(simulator, approaching_tone_is_higher) {
    enum { N = 8000 };
    sim_scene scene = empty_scene();
    sim_source source = {
        .az_deg = 0, .range_m = 5000, .course_deg = 180, .speed_mps = 15, .tones = 1};
    source.tone[0] = (sim_tone){.hz = 1000};
    scene.source = &source;
    scene.sources = 1;
    double origin[3] = {0};
    sim_array array = array_at(1, origin);
    float *x = render(&scene, &array, 0, N);
    double right, wrong, phase;
    fit_tone(x, N, 1000 * (1 + 15 / C), &right, &phase); /* 1010 Hz: whole periods */
    fit_tone(x, N, 1000, &wrong, &phase);
    cr_expect_gt(right, 1.41);
    cr_expect_lt(wrong, 0.05);
    free(x);
}

/* ---- levels and spectra ---------------------------------------------------------------------- */

static float *lone_process(const sim_spectrum *spectrum, size_t samples) {
    sim_scene scene = empty_scene();
    sim_source source = {.far = true, .broadband = *spectrum};
    double origin[3] = {0};
    sim_array array = array_at(1, origin);
    scene.source = &source;
    scene.sources = 1;
    return render(&scene, &array, 0, samples);
}

/* Mean power spectral density in dB over [low, high] Hz, Hann windows of 1024. */
static double band_psd_db(const float *x, size_t samples, double low_hz, double high_hz) {
    enum { N = 1024 };
    double table[N], window[N], sum = 0;
    size_t terms = 0;
    for (size_t i = 0; i < N; i++) {
        table[i] = cos(2 * M_PI * (double)i / N);
        window[i] = 0.5 - 0.5 * table[i];
    }
    for (size_t first = 0; first + N <= samples; first += N)
        for (size_t b = (size_t)ceil(low_hz * N / FS); (double)b <= high_hz * N / FS; b++) {
            double c = 0, s = 0;
            for (size_t i = 0; i < N; i++) {
                c += window[i] * (double)x[first + i] * table[i * b % N];
                s += window[i] * (double)x[first + i] * table[(i * b + N / 4) % N];
            }
            sum += 2 * (c * c + s * s) / (FS * N * 0.375);
            terms++;
        }
    return 10 * log10(sum / (double)terms);
}

Test(simulator, white_band_has_its_level_and_nothing_outside) {
    enum { N = 600000 };
    sim_spectrum spectrum = white(600, 1400, 40);
    float *x = lone_process(&spectrum, N);
    cr_expect_float_eq(mean_square_db(x, N), 40, 0.1);
    cr_expect_float_eq(band_psd_db(x, 64000, 700, 1300), 40 - 10 * log10(800), 0.2);
    cr_expect_lt(band_psd_db(x, 32000, 100, 500), -20);
    cr_expect_lt(band_psd_db(x, 32000, 1500, 2500), -20);
    free(x);
}

Test(simulator, pink_falls_by_three_db_an_octave) {
    enum { N = 400000 };
    sim_spectrum spectrum = white(50, 3000, 30);
    spectrum.shape = SIM_PINK;
    float *x = lone_process(&spectrum, N);
    cr_expect_float_eq(mean_square_db(x, N), 30, 0.15);
    double density = 30 - 10 * log10(log(3000 / 50.0)); /* times 1/f */
    for (double hz = 250; hz < 2500; hz *= 2)
        cr_expect_float_eq(band_psd_db(x, 200000, hz * 0.95, hz * 1.05), density - 10 * log10(hz),
                           0.25, "%g Hz", hz);
    free(x);
}

Test(simulator, points_shape_the_spectrum) {
    sim_spectrum spectrum = white(100, 3000, 0);
    spectrum.shape = SIM_POINTS;
    spectrum.points = 2;
    spectrum.point_hz[0] = 500, spectrum.point_db[0] = 20;
    spectrum.point_hz[1] = 2000, spectrum.point_db[1] = 0;
    float *x = lone_process(&spectrum, 400000);
    double low = band_psd_db(x, 400000, 200, 450), middle = band_psd_db(x, 400000, 960, 1040);
    double high = band_psd_db(x, 100000, 2200, 2800);
    cr_expect_float_eq(low - middle, 10, 0.4, "%g", low - middle);
    cr_expect_float_eq(low - high, 20, 0.4);
    free(x);
}

Test(simulator, source_level_at_one_metre_spreads) {
    sim_scene scene = empty_scene();
    sim_source source = {.az_deg = 90, .range_m = 100, .at = 1, .tones = 1};
    source.tone[0] = (sim_tone){.hz = 500, .level_db = 120};
    scene.source = &source;
    scene.sources = 1;
    double origin[3] = {0};
    sim_array array = array_at(1, origin);
    float *x = render(&scene, &array, 0, 8000);
    cr_expect_float_eq(mean_square_db(x, 8000), 80, 1e-3);
    sim_truth truth;
    sim_source_truth(&source, 0, &truth);
    cr_expect_float_eq(truth.level_db, 80, 1e-9);
    free(x);
}

Test(simulator, noise_is_gaussian_and_independent_between_elements) {
    enum { N = 50000, K = 5 };
    sim_scene scene = empty_scene();
    scene.noise_db = 10;
    double position[K][3] = {{0}}; /* all in one place: only the random stream differs */
    sim_array array = array_at(K, position[0]);
    float *x = render(&scene, &array, 12345, N);
    for (size_t k = 0; k < K; k++) {
        cr_expect_float_eq(mean_square_db(x + k * N, N), 10, 0.1);
        double fourth = 0;
        for (size_t i = 0; i < N; i++)
            fourth += pow((double)x[k * N + i], 4) / 100;
        cr_expect_float_eq(fourth / N, 3, 0.15, "kurtosis");
        for (size_t j = 0; j < k; j++)
            for (size_t lag = 0; lag < 3; lag++) {
                double sum = 0;
                for (size_t i = 0; i + lag < N; i++)
                    sum += (double)x[k * N + i] * (double)x[j * N + i + lag] / 10;
                cr_expect_lt(fabs(sum / N), 5 / sqrt(N), "%zu, %zu, lag %zu", k, j, lag);
            }
    }
    free(x);
}

/* Coherence of a spherically isotropic field: sinc(2 f d / c) (Cron and Sherman 1962). */
Test(simulator, isotropic_noise_has_its_coherence, NUMERICAL) {
    enum { N = 60000, K = 3, WAVES = 64 };
    sim_scene scene = empty_scene();
    scene.isotropic = white(800, 1200, 0);
    scene.isotropic_waves = WAVES;
    double position[K][3] = {{0}, {0.5, 0, 0}, {0.3, 1.0, 0.4}};
    sim_array array = array_at(K, position[0]);
    float *x = render(&scene, &array, 0, N);
    cr_expect_float_eq(mean_square_db(x, N), 0, 0.3);
    for (size_t k = 1; k < K; k++) {
        double cross = 0,
               d = sqrt(pow(position[k][0], 2) + pow(position[k][1], 2) + pow(position[k][2], 2));
        for (size_t i = 0; i < N; i++)
            cross += (double)x[i] * (double)x[k * N + i] / N;
        double want = 0;
        for (double hz = 800.5; hz < 1200; hz++)
            want += sin(2 * M_PI * hz * d / C) / (2 * M_PI * hz * d / C) / 400;
        cr_expect_float_eq(cross, want, 0.05, "%g m: %g, not %g", d, cross, want);
    }
    free(x);
}

/* ---- elements -------------------------------------------------------------------------------- */

Test(simulator, elements_with_errors) {
    enum { N = 20000, K = 5 };
    sim_scene scene = empty_scene();
    sim_source source = {.far = true, .broadband = white(300, 3000, 0), .tones = 1};
    source.tone[0] = (sim_tone){.hz = 100, .level_db = 20};
    sim_element element[] = {{.sensor = 1, .dead = true, .noise_db = -HUGE_VAL},
                             {.sensor = 2, .gain_db = -6, .noise_db = -HUGE_VAL},
                             {.sensor = 3, .noise_db = 30},
                             {.sensor = 4, .phase_deg = 40, .noise_db = -HUGE_VAL}};
    scene.source = &source;
    scene.sources = 1;
    scene.element = element;
    scene.elements = 4;
    double position[K][3] = {{0}};
    sim_array array = array_at(K, position[0]);
    float *x = render(&scene, &array, 0, N);
    for (size_t i = 0; i < N; i++) {
        cr_assert_eq(x[N + i], 0, "a dead element is silent");
        cr_assert_float_eq(x[2 * N + i], pow(10, -0.3) * (double)x[i], 1e-5);
        x[3 * N + i] -= x[i];
    }
    cr_expect_float_eq(mean_square_db(x + 3 * N, N), 30, 0.1);
    double a0, a4, p0, p4;
    fit_tone(x, N, 100, &a0, &p0);
    fit_tone(x + 4 * N, N, 100, &a4, &p4);
    cr_expect_float_eq(p4 - p0, 40 * M_PI / 180, 1e-2);
    cr_expect_float_eq(a4, a0, 0.1);
    /* The broadband part, less the tone: correlation cos(40 deg), same power. */
    double auto0 = 0, auto4 = 0, cross = 0;
    for (size_t i = 0; i < N; i++) {
        double angle = 2 * M_PI * 100 * (double)i / FS;
        double r0 = (double)x[i] - a0 * sin(angle + p0);
        double r4 = (double)x[4 * N + i] - a4 * sin(angle + p4);
        auto0 += r0 * r0, auto4 += r4 * r4, cross += r0 * r4;
    }
    cr_expect_float_eq(cross / sqrt(auto0 * auto4), cos(40 * M_PI / 180), 0.01);
    cr_expect_float_eq(auto4 / auto0, 1, 0.01);
    free(x);
}

Test(simulator, late_channel_is_late) {
    enum { N = 8000 };
    sim_scene scene = empty_scene();
    sim_source source = {.far = true, .tones = 1};
    source.tone[0] = (sim_tone){.hz = 400};
    scene.source = &source;
    scene.sources = 1;
    double position[2][3] = {{0}}, delay_us[] = {0, 100}, phase_deg[] = {0, 10}, gain[] = {-3, 6};
    uint32_t channel[] = {2, 0}; /* and channel 1 has no sensor */
    sim_array array = array_at(2, position[0]);
    array.channels = 3;
    array.channel = channel;
    array.delay_us = delay_us;
    array.phase_deg = phase_deg;
    array.gain_db = gain;
    float *x = render(&scene, &array, 0, N);
    double a[3], p[3];
    for (size_t ch = 0; ch < 3; ch++)
        fit_tone(x + ch * N, N, 400, &a[ch], &p[ch]);
    cr_expect_eq(a[1], 0);
    cr_expect_float_eq(p[0] - p[2], 2 * M_PI * (10 / 360.0 - 400 * 100e-6), 1e-5);
    cr_expect_float_eq(20 * log10(a[0] / a[2]), 9, 1e-4);
    free(x);
}

Test(simulator, element_scatter_has_its_deviation) {
    enum { K = 2000, N = 32 };
    sim_scene scene = empty_scene();
    scene.gain_error_db = 1.5;
    sim_source source = {.far = true, .tones = 1};
    source.tone[0] = (sim_tone){.hz = 1000};
    scene.source = &source;
    scene.sources = 1;
    double *position = calloc(K, 3 * sizeof(double)), square = 0, sum = 0;
    sim_array array = array_at(K, position);
    float *x = render(&scene, &array, 0, N);
    for (size_t k = 0; k < K; k++) {
        double db = mean_square_db(x + k * N, N); /* whole periods */
        sum += db / K;
        square += db * db / K;
    }
    cr_expect_float_eq(sum, 0, 0.15);
    cr_expect_float_eq(sqrt(square), 1.5, 0.1);
    free(x);
    free(position);
}

/* ---- determinism ----------------------------------------------------------------------------- */

static sim_source rich_source(void) {
    sim_source source = {
        .az_deg = 77, .range_m = 200, .course_deg = 20, .speed_mps = 4, .tones = 1};
    source.broadband = white(100, 3000, 20);
    source.tone[0] = (sim_tone){.hz = 333, .level_db = 10};
    return source;
}

Test(simulator, same_samples_whatever_the_pieces) {
    enum { N = 3001, FIRST = 777 };
    sim_scene scene = empty_scene();
    sim_source source = rich_source();
    scene.source = &source;
    scene.sources = 1;
    scene.noise_db = 0;
    scene.phase_error_deg = 5;
    sim_array array = array_at(SPREAD_OUT, spread_out[0]);
    float *whole = render(&scene, &array, FIRST, N),
          *piece = malloc(SPREAD_OUT * N * sizeof *piece);
    static const size_t size[] = {1, 2, 3, 31, 256, 257, 1000};
    for (size_t s = 0; s < sizeof size / sizeof *size; s++) {
        sim_synth *synth;
        cr_assert_eq(sim_synth_create(&scene, &array, &synth, NULL), SONAR_OK);
        for (size_t done = 0; done < N;) {
            size_t count = sonar_min_size(size[s], N - done);
            sim_synth_render(synth, FIRST + done, count, piece);
            for (size_t k = 0; k < SPREAD_OUT; k++)
                cr_assert_arr_eq(piece + k * count, whole + k * N + done, count * sizeof(float),
                                 "pieces of %zu", size[s]);
            done += count;
        }
        sim_synth_destroy(synth);
    }
    scene.seed++;
    float *other = render(&scene, &array, FIRST, N);
    cr_expect_arr_neq(other, whole, SPREAD_OUT * N * sizeof(float));
    free(other);
    free(piece);
    free(whole);
}

/* Going back in time must not change samples either. */
Test(simulator, order_of_rendering_does_not_matter) {
    enum { N = 600 };
    sim_scene scene = empty_scene();
    sim_source source = rich_source();
    scene.source = &source;
    scene.sources = 1;
    sim_array array = array_at(SPREAD_OUT, spread_out[0]);
    static const uint64_t first[] = {0, 90000, 4000, 3990, 0, 1000000};
    static float x[SPREAD_OUT * N];
    sim_synth *synth;
    cr_assert_eq(sim_synth_create(&scene, &array, &synth, NULL), SONAR_OK);
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        float *fresh = render(&scene, &array, first[i], N);
        sim_synth_render(synth, first[i], N, x);
        cr_expect_arr_eq(x, fresh, sizeof x, "at %" PRIu64, first[i]);
        free(fresh);
    }
    sim_synth_destroy(synth);
}

/* ---- frames ---------------------------------------------------------------------------------- */

enum { MESSAGES_MOST = 4096, PAYLOAD_MOST = 8192 };

typedef struct received {
    bool decoded;
    sonar_frame frame;
    size_t bytes;
    uint8_t payload[PAYLOAD_MOST];
} received;

typedef struct receiver {
    void *context, *socket;
    char endpoint[64];
    pthread_t thread;
    received *message;
    size_t messages;
} receiver;

/* Receives until no message has arrived for a while after the first. */
static void *receive(void *arg) {
    receiver *r = arg;
    uint8_t header[128];
    for (int timeout = 5000; r->messages < MESSAGES_MOST; timeout = 300) {
        received *m = &r->message[r->messages];
        zmq_setsockopt(r->socket, ZMQ_RCVTIMEO, &timeout, sizeof timeout);
        int bytes = zmq_recv(r->socket, header, sizeof header, 0);
        if (bytes < 0)
            break;
        m->decoded = sonar_frame_decode(header, (size_t)bytes, &m->frame, NULL) == SONAR_OK;
        m->bytes = (size_t)zmq_recv(r->socket, m->payload, PAYLOAD_MOST, 0);
        r->messages++;
    }
    return NULL;
}

static void start_receiver(receiver *r, const char *name) {
    *r = (receiver){.context = zmq_ctx_new()};
    r->message = calloc(MESSAGES_MOST, sizeof *r->message);
    r->socket = zmq_socket(r->context, ZMQ_PULL);
    snprintf(r->endpoint, sizeof r->endpoint, "ipc:///tmp/sonar-test-%s-%d", name, (int)getpid());
    cr_assert_eq(zmq_bind(r->socket, r->endpoint), 0, "%s", zmq_strerror(errno));
    pthread_create(&r->thread, NULL, receive, r);
}

static void stop_receiver(receiver *r) {
    zmq_close(r->socket);
    zmq_ctx_term(r->context);
    free(r->message);
}

static volatile sig_atomic_t no_stop;

typedef struct destination {
    const char *endpoint;
    sim_target target;
} destination;

static sim_sender_spec sender_spec(receiver *r, destination *to, size_t channels) {
    to->endpoint = r->endpoint;
    to->target =
        (sim_target){.endpoints = &to->endpoint, .endpoint_count = 1, .channels = channels};
    return (sim_sender_spec){.zmq_context = r->context,
                             .target = &to->target,
                             .targets = 1,
                             .block = true,
                             .high_water_mark = 16,
                             .array_id = 9,
                             .channels = channels,
                             .digitisers = 1,
                             .frame_samples = 64,
                             .format = SONAR_F32,
                             .fs_hz = FS,
                             .epoch = 5,
                             .utc_ns = 1000000000,
                             .seed = 3,
                             .stop = &no_stop};
}

/* Sends x[channel][samples] in frames of spec->frame_samples; waits until all was received. */
static sim_counters send_all(receiver *r, const sim_sender_spec *spec, const float *x,
                             size_t samples) {
    sim_sender *sender;
    sonar_error err = {0};
    cr_assert_eq(sim_sender_create(spec, &sender, &err), SONAR_OK, "%s", err.text);
    cr_assert_eq(sim_sender_wait(sender, 5000, &err), SONAR_OK, "%s", err.text);
    float *frame = malloc(spec->channels * spec->frame_samples * sizeof *frame);
    for (size_t done = 0; done < samples;) {
        size_t count = sonar_min_size(spec->frame_samples, samples - done);
        for (size_t ch = 0; ch < spec->channels; ch++)
            memcpy(frame + ch * count, x + ch * samples + done, count * sizeof *frame);
        cr_assert_eq(sim_sender_send(sender, frame, count, &err), SONAR_OK, "%s", err.text);
        done += count;
    }
    cr_assert_eq(sim_sender_flush(sender, &err), SONAR_OK);
    sim_counters counters = *sim_sender_counters(sender);
    sim_sender_destroy(sender, -1);
    pthread_join(r->thread, NULL);
    free(frame);
    return counters;
}

static void check_stream(size_t digitisers, size_t frame_samples, int layout) {
    enum { N = 1000, K = SPREAD_OUT };
    static float x[K * N], got[K * N];
    for (size_t i = 0; i < K * N; i++)
        x[i] = (float)i + 0.25f;
    receiver r;
    destination to;
    start_receiver(&r, "stream");
    sim_sender_spec spec = sender_spec(&r, &to, K);
    spec.digitisers = digitisers;
    spec.frame_samples = frame_samples;
    spec.layout = layout;
    spec.first_index = 500;
    sim_counters counters = send_all(&r, &spec, x, N);
    size_t frames = (N + frame_samples - 1) / frame_samples * digitisers;
    cr_expect_eq(counters.messages, frames);
    cr_expect_eq(r.messages, frames);
    memset(got, 0, sizeof got);
    for (size_t i = 0; i < r.messages; i++) {
        const sonar_frame *f = &r.message[i].frame;
        cr_assert(r.message[i].decoded);
        cr_assert_eq(f->array_id, 9);
        cr_assert_eq(f->epoch, 5);
        cr_assert_eq(f->sequence, (f->first_sample - 500) / frame_samples);
        cr_assert_eq(f->utc_ns, 1000000000 + (int64_t)(f->first_sample - 500) * 125000);
        cr_assert_eq(r.message[i].bytes, sonar_frame_payload_bytes(f));
        for (uint32_t ch = 0; ch < f->channels; ch++)
            cr_assert(
                sonar_frame_unpack(f, r.message[i].payload, ch, 0, f->samples,
                                   got + (f->first_channel + ch) * N + f->first_sample - 500));
    }
    cr_expect_arr_eq(got, x, sizeof x, "%zu digitisers, frames of %zu", digitisers, frame_samples);
    stop_receiver(&r);
}

Test(simulator, frames_carry_the_samples) {
    check_stream(1, 64, SONAR_FRAME_INTERLEAVED);
    check_stream(3, 17, SONAR_FRAME_INTERLEAVED);
    check_stream(7, 251, SONAR_FRAME_CHANNEL_MAJOR);
}

static size_t count_messages(const receiver *r, bool (*matches)(const received *)) {
    size_t count = 0;
    for (size_t i = 0; i < r->messages; i++)
        count += matches(&r->message[i]);
    return count;
}

static bool is_malformed(const received *m) {
    return !m->decoded;
}
static bool is_truncated(const received *m) {
    return m->decoded && m->bytes == sonar_frame_payload_bytes(&m->frame) - 1;
}
static bool is_oversized(const received *m) {
    return m->decoded && m->bytes == sonar_frame_payload_bytes(&m->frame) + 1;
}
static bool is_wrong_epoch(const received *m) {
    return m->decoded && m->frame.epoch == 1005;
}
static bool is_wrong_array(const received *m) {
    return m->decoded && m->frame.array_id != 9;
}
static bool is_wrong_rate(const received *m) {
    return m->decoded && fabs(m->frame.fs_hz / FS - 1) > 1e-6;
}
static bool is_not_finite(const received *m) {
    float x[64];
    bool whole = m->decoded && m->bytes >= sonar_frame_payload_bytes(&m->frame);
    return whole && !sonar_frame_unpack(&m->frame, m->payload, 0, 0, m->frame.samples, x);
}

static const struct {
    sim_fault_kind kind;
    bool (*matches)(const received *);
} seen_as[] = {{SIM_FAULT_CORRUPT, is_malformed},       {SIM_FAULT_TRUNCATE, is_truncated},
               {SIM_FAULT_OVERSIZE, is_oversized},      {SIM_FAULT_WRONG_EPOCH, is_wrong_epoch},
               {SIM_FAULT_WRONG_ARRAY, is_wrong_array}, {SIM_FAULT_WRONG_RATE, is_wrong_rate},
               {SIM_FAULT_NAN, is_not_finite}};
enum { SEEN_AS = sizeof seen_as / sizeof *seen_as };

Test(simulator, planned_faults_are_sent_as_planned) {
    enum { K = 4, FRAMES = 60, N = FRAMES * 64 };
    static float x[K * N];
    sim_fault fault[SEEN_AS + 2];
    for (size_t i = 0; i < SEEN_AS; i++)
        fault[i] = (sim_fault){
            .kind = seen_as[i].kind, .digitiser = 1, .frame = 5 * (i + 1), .count = i % 3 + 1};
    fault[SEEN_AS] = (sim_fault){.kind = SIM_FAULT_DROP, .frame = 50, .count = 2};
    fault[SEEN_AS + 1] =
        (sim_fault){.kind = SIM_FAULT_REPEAT, .digitiser = SIZE_MAX, .frame = 55, .count = 1};
    receiver r;
    destination to;
    start_receiver(&r, "faults");
    sim_sender_spec spec = sender_spec(&r, &to, K);
    spec.digitisers = 2;
    spec.fault = fault;
    spec.faults = SEEN_AS + 2;
    sim_counters counters = send_all(&r, &spec, x, N);
    for (size_t i = 0; i < SEEN_AS; i++) {
        cr_expect_eq(counters.kind[seen_as[i].kind], i % 3 + 1);
        cr_expect_eq(count_messages(&r, seen_as[i].matches), i % 3 + 1, "%s",
                     sim_fault_name(seen_as[i].kind));
    }
    cr_expect_eq(counters.kind[SIM_FAULT_DROP], 2);
    cr_expect_eq(counters.kind[SIM_FAULT_REPEAT], 2);
    cr_expect_eq(counters.frames, 2 * FRAMES);
    cr_expect_eq(counters.messages, 2 * FRAMES - 2 + 2);
    cr_expect_eq(r.messages, counters.messages);
    stop_receiver(&r);
}

/* ---- several ranks --------------------------------------------------------------------------- */

enum { RANKS = 3, RANK_CHANNELS = 11, RANK_FRAMES = 6 };
static const size_t rank_first[RANKS + 1] = {0, 2, 7, RANK_CHANNELS};

/* Sends x[channel] = channel number; the last rank's channels are left to others if asked. */
static void send_to_ranks(receiver r[RANKS], size_t digitisers, bool idle, const sim_fault *fault,
                          sim_counters counters[RANKS + 1]) {
    static float x[RANK_CHANNELS * 64];
    destination to[RANKS];
    sim_target target[RANKS];
    sim_sender *sender;
    sonar_error err = {0};
    for (size_t i = 0; i < RANK_CHANNELS * 64; i++)
        x[i] = (float)(i / 64);
    sim_sender_spec spec = sender_spec(&r[0], &to[0], RANK_CHANNELS);
    for (size_t t = 0; t < RANKS; t++) {
        sender_spec(&r[t], &to[t], RANK_CHANNELS);
        target[t] = to[t].target;
        target[t].first_channel = rank_first[t];
        target[t].channels = rank_first[t + 1] - rank_first[t];
        target[t].idle = idle && t == RANKS - 1;
    }
    spec.target = target;
    spec.targets = RANKS;
    spec.digitisers = digitisers;
    spec.fault = fault;
    spec.faults = 1;
    cr_assert_eq(sim_sender_create(&spec, &sender, &err), SONAR_OK, "%s", err.text);
    cr_assert_eq(sim_sender_wait(sender, 5000, &err), SONAR_OK, "%s", err.text);
    for (size_t i = 0; i < RANK_FRAMES; i++)
        cr_assert_eq(sim_sender_send(sender, x, 64, &err), SONAR_OK);
    cr_assert_eq(sim_sender_send_whole(sender, x, 64, &err), SONAR_OK);
    for (size_t t = 0; t < RANKS; t++)
        counters[t] = *sim_sender_target_counters(sender, t);
    counters[RANKS] = *sim_sender_counters(sender);
    sim_sender_destroy(sender, -1);
}

/* Channels that the rank received, each with its own samples, in frames of its own only. */
static void expect_own_channels(const receiver *r, size_t rank, size_t digitisers) {
    size_t frames[RANK_CHANNELS] = {0};
    for (size_t i = 0; i < r->messages; i++) {
        const sonar_frame *f = &r->message[i].frame;
        cr_assert(f->first_channel >= rank_first[rank] &&
                      f->first_channel + f->channels <= rank_first[rank + 1],
                  "rank %zu: channels %u to %u", rank, f->first_channel,
                  f->first_channel + f->channels);
        for (size_t k = 0; k < f->channels; k++) {
            float value;
            memcpy(&value, r->message[i].payload + 4 * k, sizeof value);
            cr_expect_eq(value, (float)(f->first_channel + k));
            frames[f->first_channel + k]++;
        }
    }
    for (size_t k = rank_first[rank]; k < rank_first[rank + 1]; k++)
        cr_expect_eq(frames[k], RANK_FRAMES + 1, "channel %zu", k);
    cr_expect_eq(r->messages, digitisers * RANK_FRAMES + 1, "rank %zu", rank);
}

static void check_ranks(size_t digitisers, bool idle, const size_t of_rank[RANKS]) {
    static const char *const name[RANKS] = {"rank0", "rank1", "rank2"};
    receiver r[RANKS];
    sim_counters counters[RANKS + 1];
    sim_fault fault = {.kind = SIM_FAULT_REORDER, .digitiser = of_rank[0], .frame = 1, .count = 1};
    for (size_t t = 0; t < RANKS; t++)
        start_receiver(&r[t], name[t]);
    send_to_ranks(r, digitisers, idle, &fault, counters);
    uint64_t messages = 0;
    for (size_t t = 0; t < RANKS - (size_t)idle; t++) {
        pthread_join(r[t].thread, NULL);
        expect_own_channels(&r[t], t, of_rank[t]);
        cr_expect_eq(counters[t].messages, r[t].messages, "rank %zu", t);
        cr_expect_eq(counters[t].kind[SIM_FAULT_REORDER], t == 1, "rank %zu", t);
        messages += r[t].messages;
    }
    cr_expect_eq(counters[RANKS].messages, messages);
    cr_expect_eq(counters[RANKS].kind[SIM_FAULT_REORDER], 1);
    if (idle) {
        pthread_join(r[RANKS - 1].thread, NULL);
        cr_expect_eq(r[RANKS - 1].messages, 0);
        cr_expect_eq(counters[RANKS - 1].frames, 0);
    }
    for (size_t t = 0; t < RANKS; t++)
        stop_receiver(&r[t]);
}

/* Each rank has at least one digitiser, and no more than channels; a fault of the second rank's
 * first one is counted there. */
Test(simulator, ranks_get_their_channels) {
    check_ranks(1, false, (const size_t[RANKS]){1, 1, 1});
    check_ranks(7, false, (const size_t[RANKS]){2, 2, 3});
    check_ranks(11, false, (const size_t[RANKS]){2, 4, 4});
    check_ranks(3, true, (const size_t[RANKS]){1, 1, 1});
}

Test(simulator, reordered_frames_come_after_the_next) {
    enum { FRAMES = 8, N = FRAMES * 64 };
    static const uint64_t want[FRAMES] = {0, 1, 4, 2, 3, 5, 6, 7};
    static float x[N];
    sim_fault fault[] = {{.kind = SIM_FAULT_REORDER, .frame = 2, .count = 2},
                         {.kind = SIM_FAULT_REORDER, .frame = 7, .count = 1}};
    receiver r;
    destination to;
    start_receiver(&r, "reorder");
    sim_sender_spec spec = sender_spec(&r, &to, 1);
    spec.fault = fault;
    spec.faults = 2;
    send_all(&r, &spec, x, N);
    cr_assert_eq(r.messages, FRAMES);
    for (size_t i = 0; i < FRAMES; i++)
        cr_expect_eq(r.message[i].frame.sequence, want[i]);
    stop_receiver(&r);
}

Test(simulator, restart_begins_a_new_epoch) {
    enum { FRAMES = 6, N = FRAMES * 64 };
    static float x[N];
    sim_fault fault = {.kind = SIM_FAULT_RESTART, .frame = 4, .count = 1};
    receiver r;
    destination to;
    start_receiver(&r, "restart");
    sim_sender_spec spec = sender_spec(&r, &to, 1);
    spec.fault = &fault;
    spec.faults = 1;
    send_all(&r, &spec, x, N);
    cr_assert_eq(r.messages, FRAMES);
    for (size_t i = 0; i < FRAMES; i++) {
        cr_expect_eq(r.message[i].frame.epoch, i < 4 ? 5 : 6);
        cr_expect_eq(r.message[i].frame.sequence, i < 4 ? i : i - 4);
        cr_expect_eq(r.message[i].frame.first_sample, 64 * (i < 4 ? i : i - 4));
        cr_expect_eq(r.message[i].frame.utc_ns, 1000000000 + (int64_t)i * 64 * 125000);
    }
    stop_receiver(&r);
}

Test(simulator, random_faults_are_counted) {
    enum { FRAMES = 700, N = FRAMES * 8 };
    static float x[N];
    double rate[SIM_FAULT_KINDS] = {0};
    for (int kind = SIM_FAULT_DROP; kind < SIM_FAULT_RESTART; kind++)
        rate[kind] = 0.03;
    receiver r;
    destination to;
    start_receiver(&r, "random");
    sim_sender_spec spec = sender_spec(&r, &to, 1);
    spec.frame_samples = 8;
    spec.fault_rate = rate;
    sim_counters counters = send_all(&r, &spec, x, N);
    for (size_t i = 0; i < SEEN_AS; i++) {
        size_t seen = count_messages(&r, seen_as[i].matches);
        cr_expect_eq(counters.kind[seen_as[i].kind], seen);
        cr_expect(seen > 5 && seen < 50, "%zu", seen); /* 21 expected */
    }
    cr_expect_eq(r.messages,
                 FRAMES - counters.kind[SIM_FAULT_DROP] + counters.kind[SIM_FAULT_REPEAT]);
    stop_receiver(&r);
}

/* With a slow receiver the sender does not block, and lost frames are counted. */
Test(simulator, overflow_is_counted) {
    void *context = zmq_ctx_new();
    const char *endpoint = "tcp://127.0.0.1:1"; /* no receiver */
    const sim_target target = {.endpoints = &endpoint, .endpoint_count = 1, .channels = 1};
    sim_sender_spec spec = {.zmq_context = context,
                            .target = &target,
                            .targets = 1,
                            .high_water_mark = 4,
                            .channels = 1,
                            .digitisers = 1,
                            .frame_samples = 1,
                            .format = SONAR_S16,
                            .fs_hz = FS,
                            .epoch = 1,
                            .stop = &no_stop};
    sim_sender *sender;
    cr_assert_eq(sim_sender_create(&spec, &sender, NULL), SONAR_OK);
    cr_expect_eq(sim_sender_wait(sender, 100, NULL), SONAR_EUNAVAILABLE);
    for (size_t i = 0; i < 20; i++)
        cr_assert_eq(sim_sender_send(sender, &(float){1}, 1, NULL), SONAR_OK);
    cr_expect_eq(sim_sender_counters(sender)->overflow, 20);
    cr_expect_eq(sim_sender_counters(sender)->messages, 0);
    sim_sender_destroy(sender, 0);
    zmq_ctx_term(context);
}

Test(simulator, nan_fault_needs_floats) {
    double rate[SIM_FAULT_KINDS] = {[SIM_FAULT_NAN] = 0.1};
    const char *endpoint = "tcp://127.0.0.1:1";
    const sim_target target = {.endpoints = &endpoint, .endpoint_count = 1, .channels = 1};
    sim_sender_spec spec = {.target = &target,
                            .targets = 1,
                            .channels = 1,
                            .digitisers = 1,
                            .format = SONAR_S16,
                            .fault_rate = rate,
                            .stop = &no_stop};
    sim_sender *sender;
    cr_expect_eq(sim_sender_create(&spec, &sender, NULL), SONAR_EINVAL);
}

/* ---- the daemon's pace ----------------------------------------------------------------------- */

/* A model of the daemon: a window has ended when it is published, in order, and the oldest waiting
 * window is dropped if too many wait. */
static void keep_within(sim_credit credit, size_t frame, uint64_t start, uint64_t total) {
    uint64_t sent = start, over = 0, most = 0;
    while (sent < start + total) {
        if (sim_credit_covers(&credit, sent, sent + frame)) {
            sent += frame;
        } else {
            uint64_t first = credit.first + over++ * credit.hop;
            cr_assert(first + credit.length <= sent, "waits for a window that cannot come");
            sim_credit_note(&credit, first);
        }
        uint64_t complete = 0;
        while (credit.first + complete * credit.hop + credit.length <= sent)
            complete++;
        most = complete - over > most ? complete - over : most;
        cr_assert_eq(sim_credit_is_over(&credit, sent), complete <= over);
    }
    uint64_t by_frame = (frame + credit.hop - 1) / credit.hop;
    cr_assert_leq(most, by_frame > credit.queue_windows ? by_frame : credit.queue_windows);
    cr_assert_geq(most, credit.queue_windows, "it could have gone further ahead");
}

Test(simulator, no_more_windows_are_under_way_than_may_wait) {
    static const size_t size[][4] = {/* length, hop, queue, frame */
                                     {8192, 4096, 4, 256}, {100, 100, 1, 7},  {10, 64, 3, 1},
                                     {100, 3, 2, 1},       {64, 32, 2, 1000}, {1, 1, 1, 1}};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        for (uint64_t start = 0; start < 200; start += 37) {
            sim_credit credit = {.first = (start + size[i][1] - 1) / size[i][1] * size[i][1],
                                 .length = size[i][0],
                                 .hop = size[i][1],
                                 .queue_windows = size[i][2]};
            keep_within(credit, size[i][3], start, 20 * (size[i][0] + size[i][1]));
        }
}

Test(simulator, windows_that_are_never_published_are_settled) {
    sim_credit credit = {.length = 100, .hop = 50, .queue_windows = 2};
    cr_expect(sim_credit_covers(&credit, 150, 199) && !sim_credit_covers(&credit, 150, 200));
    sim_credit_note(&credit, 50); /* the one before it was not published */
    cr_expect(credit.done == 2 && sim_credit_covers(&credit, 150, 200));
    sim_credit_note(&credit, 0); /* late messages do not undo progress */
    cr_expect_eq(credit.done, 2);
    cr_expect(!sim_credit_covers(&credit, 249, 300) && !sim_credit_is_over(&credit, 249));
    sim_credit_settle(&credit, 249);
    cr_expect(sim_credit_covers(&credit, 249, 300) && sim_credit_is_over(&credit, 249));
    sim_credit_settle(&credit, 100);
    cr_expect_eq(credit.done, 3);
}

Test(simulator, a_lag_is_reported_once_and_then_at_intervals) {
    static const struct {
        double at_s, lag_s, waited_s;
        const char *says;
    } step[] = {{0, 0, 0, NULL},
                {1, 0.9, 0, NULL},
                {2, 1.0, 0.1, "1.0 s behind the pace: this machine computes samples too slowly"},
                {3, 1.5, 0.1, NULL},
                {11.9, 8, 0.1, NULL},
                {12, 8.1, 7, "8.1 s behind the pace: the receiver is too slow"},
                {13, 0.5, 7, NULL},
                {14, 0.05, 7, "kept again, after a lag of up to 8.1 s"},
                {15, 0.9, 7, NULL},
                {15.5, 0.3, 7, NULL},
                {16, 1.2, 7, "1.2 s behind the pace: this machine"}};
    sim_lag lag = {0};
    char text[160];
    for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
        const char *said = sim_lag_note(&lag, (int64_t)(step[i].at_s * 1e9), step[i].lag_s,
                                        step[i].waited_s, text);
        cr_expect_eq(!said, !step[i].says, "step %zu: %s", i, said ? said : "nothing");
        cr_expect(!said || !step[i].says || strstr(said, step[i].says), "step %zu: %s", i, said);
    }
    cr_expect(lag.most_s == 8.1 && lag.last_s == 1.2);
}

Test(simulator, the_lag_is_counted_from_the_pace) {
    sim_pace pace = {
        .fs_hz = 1000, .rate = 2, .start_ns = sonar_monotonic_ns() - 10 * 1000000000LL};
    double lag_s = sim_pace_lag_s(&pace, 4000); /* due 2 s after the start, 10 s ago */
    cr_expect(lag_s >= 8 && lag_s < 100);
    cr_expect_eq(sim_pace_lag_s(&pace, 10000000), 0, "not due yet");
    pace.rate = 0;
    cr_expect_eq(sim_pace_lag_s(&pace, 4000), 0, "no pace, no lag");
}

/* ---- conversion ------------------------------------------------------------------------------ */

Test(simulator, conversion_rounds_and_saturates) {
    static const float x[] = {0.5f,      1.5f,      -0.5f, -1.5f,     32767.4f, 32767.5f,
                              -32768.5f, -32769.0f, 1e30f, -INFINITY, NAN,      2.4999f};
    static const int16_t want[] = {0, 2, 0, -2, 32767, 32767, -32768, -32768, 32767, -32768, 0, 2};
    enum { N = sizeof x / sizeof *x };
    int16_t got[2 * N] = {0};
    cr_expect_eq(sim_convert(x, N, SONAR_S16, 2, (uint8_t *)got), 5);
    for (size_t i = 0; i < N; i++) {
        cr_expect_eq(got[2 * i], want[i], "%g: %d", (double)x[i], got[2 * i]);
        cr_expect_eq(got[2 * i + 1], 0);
    }
    uint8_t s24[6];
    cr_expect_eq(sim_convert((float[]){-2, 8388608}, 2, SONAR_S24, 1, s24), 1);
    cr_expect_arr_eq(s24, ((uint8_t[]){0xfe, 0xff, 0xff, 0xff, 0xff, 0x7f}), 6);
    int32_t s32[2];
    cr_expect_eq(
        sim_convert((float[]){-2147483648.0f, 2147483648.0f}, 2, SONAR_S32, 1, (uint8_t *)s32), 1);
    cr_expect(s32[0] == INT32_MIN && s32[1] == INT32_MAX);
}

/* ---- scene files ----------------------------------------------------------------------------- */

/* Loads text as a scene; *report has the mistakes. */
static sim_scene *load_text(const char *text, char *report, size_t bytes) {
    char path[] = "/tmp/sonar-scene-XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    sim_limits limits = {.fs_hz = FS, .sound_speed_mps = C, .sensors = 4, .channels = 4};
    sim_scene *scene;
    FILE *to = fmemopen(report, bytes, "w");
    sonar_code code = sim_scene_load(path, &limits, &scene, to);
    fclose(to);
    cr_expect_eq(code == SONAR_OK, scene != NULL);
    unlink(path);
    return scene;
}

Test(simulator, scene_is_read) {
    char report[4096] = "";
    sim_scene *scene =
        load_text("schema: 1\n"
                  "seed: 42\n"
                  "format: s16\n"
                  "layout: channel-major\n"
                  "digitisers: 3\n"
                  "own_ship: {heading_deg: 355, turn_deg_s: -3, turn_from_s: 60, turn_by_deg: 90, "
                  "speed_mps: 3, trail_m: 120}\n"
                  "ambient: {psd_db: 50}\n"
                  "elements: {gain_error_db: 0.5, list: [{sensor: 3, dead: true}]}\n"
                  "sources:\n"
                  "  - name: a\n"
                  "    near: {az_deg: 20, range_m: 300, speed_mps: 4}\n"
                  "    at: 1m\n"
                  "    broadband: {spectrum: pink, band_hz: [50, 1000], psd_db: 60}\n"
                  "    tones: [{hz: 100, level_db: 3}, {hz: 50, level_db: 4}]\n"
                  "faults: [{kind: restart, frame: 7}]\n"
                  "fault_rates: {drop: 0.25}\n",
                  report, sizeof report);
    cr_assert_not_null(scene, "%s", report);
    cr_expect_eq(scene->seed, 42);
    cr_expect_eq(scene->format, SONAR_S16);
    cr_expect_eq(scene->layout, SONAR_FRAME_CHANNEL_MAJOR);
    cr_expect_float_eq(scene->noise_db, 50 + 10 * log10(4000), 1e-9);
    cr_expect(scene->elements == 1 && scene->element[0].sensor == 3 && scene->element[0].dead);
    cr_expect(scene->sources == 1 && !scene->source[0].far && scene->source[0].at == 1);
    cr_expect_float_eq(scene->source[0].broadband.level_db, 60 + 10 * log10(950), 1e-9);
    cr_expect_eq(scene->source[0].broadband.shape, SIM_PINK);
    cr_expect(scene->source[0].tones == 2 && scene->source[0].tone[1].hz == 50);
    cr_expect(scene->faults == 1 && scene->fault[0].kind == SIM_FAULT_RESTART &&
              scene->fault[0].frame == 7 && scene->fault[0].digitiser == SIZE_MAX);
    cr_expect_eq(scene->fault_rate[SIM_FAULT_DROP], 0.25);
    const sim_ship ship = scene->source[0].ship;
    cr_expect(scene->own_ship && ship.heading_deg == 355 && ship.turn_deg_s == -3 &&
              ship.turn_from_s == 60 && ship.turn_by_deg == 90 && ship.speed_mps == 3 &&
              ship.trail_m == 120);
    sim_scene_destroy(scene);
}

static const struct {
    const char *text, *place, *says;
} bad_scene[] = {
    {"schema: 1\nsed: 3\n", ":2:1:", "accepted here: schema, seed"},
    {"schema: 2\n", ":1:9:", "version 1"},
    {"seed: 1\n", ":1:1:", "'schema' is missing"},
    {"schema: 1\nseed: 1\nseed: 2\n", ":3:1:", "twice"},
    {"schema: 1\nseed: -1\n", ":2:7:", "from 0"},
    {"schema: 1\nframe_samples: 1.5\n", ":2:16:", "whole number"},
    {"schema: 1\nformat: f64\n", ":2:9:", "s16|s24|s32|f32"},
    {"schema: 1\nsources: 3\n", ":2:10:", "a list"},
    {"schema: 1\nsources:\n  - {name: a, far: {az_deg: 3}}\n", ":3:5:", "broadband, tones"},
    {"schema: 1\nsources:\n  - {name: a, tones: []}\n", ":3:5:", "one of far"},
    {"schema: 1\nsources:\n  - {name: a, far: {az_deg: 3}, at: 1m, tones: []}\n",
     ":3:5:", "needs a range"},
    {"schema: 1\nsources:\n  - name: a\n    far: {az_deg: nan}\n    tones: []\n",
     ":4:19:", "'nan'"},
    {"schema: 1\nsources:\n  - name: a\n    far: {az_deg: 1}\n"
     "    broadband: {level_db: 1, band_hz: [100, 3700]}\n",
     ":5:45:", "to 3600"},
    {"schema: 1\nsources:\n  - name: a\n    far: {az_deg: 1}\n"
     "    broadband: {level_db: 1, band_hz: [200, 100]}\n",
     ":5:39:", "above the first"},
    {"schema: 1\nelements: {list: [{sensor: 4}]}\n", ":2:28:", "0 to 3"},
    {"schema: 1\nfault_rates: {drop: 0.6, nan: 0.6}\n", ":2:14:", "above 1"},
    {"schema: [1\n", ":2:1:", "not valid YAML"},
    {"schema: 1\nseed: &one 1\n", ":2:7:", "anchors"},
    {"schema: 1\nsources:\n  - {[a]: 1}\n", ":3:6:", "'(not a word)'"},
    {"schema: 1\nfault_rates: []\n", ":2:14:", "a mapping"},
    {"schema: 1\nown_ship: {heading_deg: 1, trail_m: 9}\n", ":2:11:", "needs a speed_mps"},
    {"", ":1:1:", "empty"},
};

Test(simulator, scene_mistakes_have_their_place) {
    for (size_t i = 0; i < sizeof bad_scene / sizeof *bad_scene; i++) {
        char report[4096] = "";
        sim_scene *scene = load_text(bad_scene[i].text, report, sizeof report);
        cr_expect_null(scene);
        cr_expect(strstr(report, bad_scene[i].place), "%zu: %s", i, report);
        cr_expect(strstr(report, bad_scene[i].says), "%zu: %s", i, report);
    }
}

Test(simulator, all_mistakes_are_reported_at_once) {
    char report[4096] = "";
    cr_expect_null(load_text("schema: 1\na: 1\nb: 2\nseed: x\n", report, sizeof report));
    cr_expect(strstr(report, ":2:1:") && strstr(report, ":3:1:") && strstr(report, ":4:7:"), "%s",
              report);
}

Test(simulator, shipped_scenes_load) {
    static const char *const path[] = {SONAR_SOURCE_DIR "/config/scenes/demo.yaml",
                                       SONAR_SOURCE_DIR "/config/scenes/one-source.yaml",
                                       SONAR_SOURCE_DIR "/config/scenes/quiet-ship.yaml",
                                       SONAR_SOURCE_DIR "/config/scenes/towed.yaml"};
    sim_limits limits = {.fs_hz = FS, .sound_speed_mps = C, .sensors = 128, .channels = 128};
    for (size_t i = 0; i < sizeof path / sizeof *path; i++) {
        sim_scene *scene;
        cr_expect_eq(sim_scene_load(path[i], &limits, &scene, stderr), SONAR_OK);
        sim_scene_destroy(scene);
    }
}

/* ---- truth ----------------------------------------------------------------------------------- */

Test(simulator, truth_follows_the_track) {
    sim_source source = {.az_deg = 350, .range_m = 100, .course_deg = 90, .speed_mps = 10};
    source.broadband = white(100, 200, 30);
    sim_truth truth;
    sim_source_truth(&source, 10, &truth);
    double x = 100 * cos(10 * M_PI / 180), y = -100 * sin(10 * M_PI / 180) + 100;
    cr_expect_float_eq(truth.az_deg, atan2(y, x) * 180 / M_PI, 1e-9);
    cr_expect_float_eq(truth.range_m, hypot(x, y), 1e-9);
    cr_expect_float_eq(truth.level_db, 30 + 20 * log10(100 / hypot(x, y)), 1e-9);
    sim_source far = {.far = true, .az_deg = 359, .rate_deg_s = 1, .broadband = white(1, 2, 0)};
    sim_source_truth(&far, 3, &truth);
    cr_expect_float_eq(truth.az_deg, 2, 1e-9);
}

Test(simulator, truth_stays_on_this_machine) {
    sim_scene scene = empty_scene();
    sim_truth_spec spec = {.zmq_context = zmq_ctx_new(), .scene = &scene, .fs_hz = FS};
    static const char *const refused[] = {"tcp://*:7000", "tcp://0.0.0.0:7000",
                                          "tcp://192.168.1.1:7000"};
    sim_truth_log *log = NULL;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        spec.endpoint = refused[i];
        cr_expect_eq(sim_truth_create(&spec, &log, NULL), SONAR_EINVAL);
    }
    zmq_ctx_term(spec.zmq_context);
}

/* ---- recordings ------------------------------------------------------------------------------ */

static void round_trip(int format, double step) {
    enum { N = 5001, K = 3 };
    static float x[K * N], got[K * N];
    for (size_t i = 0; i < K * N; i++)
        x[i] = (float)(step * ((double)i - 7000));
    char path[] = "/tmp/sonar-recording-XXXXXX", side[64];
    close(mkstemp(path));
    sim_recording_info info = {
        .channels = K, .fs_hz = 12345.5, .format = format, .utc_ns = 1333994400008300000};
    sim_writer *writer;
    uint64_t saturated = 0;
    cr_assert_eq(sim_writer_create(path, &info, &writer, NULL), SONAR_OK);
    for (size_t half = 0; half < 2; half++) { /* in two pieces of different lengths */
        size_t first = half ? 1000 : 0, count = half ? N - 1000 : 1000;
        for (size_t ch = 0; ch < K; ch++)
            memcpy(got + ch * count, x + ch * N + first, count * sizeof *x);
        cr_assert_eq(sim_writer_write(writer, got, count, &saturated, NULL), SONAR_OK);
    }
    cr_assert_eq(sim_writer_finish(writer, NULL), SONAR_OK);
    sim_recording *recording;
    sonar_error err = {0};
    cr_assert_eq(sim_recording_open(path, &recording, &err), SONAR_OK, "%s", err.text);
    const sim_recording_info *about = sim_recording_about(recording);
    cr_expect(about->channels == K && about->frames == N && about->fs_hz == 12345.5);
    cr_expect(about->format == format && about->utc_ns == info.utc_ns);
    memset(got, 0, sizeof got);
    cr_assert_eq(sim_recording_read(recording, 0, N, got, NULL), SONAR_OK);
    cr_expect_arr_eq(got, x, sizeof x, "format %d", format);
    cr_assert_eq(sim_recording_read(recording, 4999, 2, got, NULL), SONAR_OK);
    cr_expect_eq(got[3], x[N + 5000]);
    cr_expect_eq(sim_recording_read(recording, 5000, 2, got, NULL), SONAR_EINVAL);
    sim_recording_close(recording);
    snprintf(side, sizeof side, "%s.json", path);
    unlink(side);
    unlink(path);
    cr_expect_eq(saturated, 0);
}

Test(simulator, recordings_come_back) {
    round_trip(SONAR_F32, 0.125);
    round_trip(SONAR_S16, 2);
    round_trip(SONAR_S24, 500);
    round_trip(SONAR_S32, 1024);
}

Test(simulator, sound_files_give_counts) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/sonar-%d.wav", (int)getpid());
    SF_INFO about = {.samplerate = 8000, .channels = 2, .format = SF_FORMAT_WAV | SF_FORMAT_PCM_16};
    SNDFILE *file = sf_open(path, SFM_WRITE, &about);
    static const short samples[] = {1, -32768, 3, 32767, -5, 6};
    cr_assert_eq(sf_writef_short(file, samples, 3), 3);
    sf_close(file);
    sim_recording *recording;
    cr_assert_eq(sim_recording_open(path, &recording, NULL), SONAR_OK);
    float got[6];
    cr_assert_eq(sim_recording_read(recording, 0, 3, got, NULL), SONAR_OK);
    cr_expect_arr_eq(got, ((float[]){1, 3, -5, -32768, 32767, 6}), sizeof got);
    cr_expect_eq(sim_recording_about(recording)->format, SONAR_S16);
    sim_recording_close(recording);
    unlink(path);
}

/* Opens `bytes` bytes of a data set whose meta file has these global keys and captures. */
static sonar_code open_sigmf(size_t bytes, const char *global, const char *captures,
                             const char *ending, sim_recording **recording, sonar_error *err) {
    uint8_t data[24];
    char stem[64], path[80];
    snprintf(stem, sizeof stem, "/tmp/sonar.sigmf.%d", (int)getpid());
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)i;
    snprintf(path, sizeof path, "%s.sigmf-data", stem);
    FILE *file = fopen(path, "wb");
    cr_assert_eq(fwrite(data, 1, bytes, file), bytes);
    fclose(file);
    snprintf(path, sizeof path, "%s.sigmf-meta", stem);
    file = fopen(path, "w");
    fprintf(file, "{\"global\": {%s}, \"captures\": [%s], \"annotations\": []}", global, captures);
    fclose(file);
    snprintf(path, sizeof path, "%s.sigmf-%s", stem, ending);
    *recording = NULL;
    sonar_code code = sim_recording_open(path, recording, err);
    snprintf(path, sizeof path, "%s.sigmf-data", stem);
    unlink(path);
    snprintf(path, sizeof path, "%s.sigmf-meta", stem);
    unlink(path);
    return code;
}

#define SIGMF_VERSIONS(sigmf, sonar)                                                               \
    ", \"core:version\": \"" sigmf                                                                 \
    "\", \"core:extensions\": [{\"name\": \"spatial\", \"version\": "                              \
    "\"2.0.0\"}, {\"name\": \"sonar\", \"version\": \"" sonar "\", \"optional\": true}]"
#define SIGMF(type, channels)                                                                      \
    "\"core:datatype\": \"" type "\", \"core:sample_rate\": 8000, "                                \
    "\"core:num_channels\": " channels

Test(simulator, sigmf_data_sets_are_read) {
    static const struct {
        const char *global;
        int format;
        size_t channels, bytes, frames;
        double second; /* sample of the first channel: bytes 2, 3, or 4, 5, 6, 7, ... */
    } set[] = {{SIGMF("ri16_le", "2"), SONAR_S16, 2, 24, 6, 0x0504},
               {SIGMF("ri16_le", "2"), SONAR_S16, 2, 23, 5, 0x0504}, /* cut off by a kill */
               {SIGMF("ri32_le", "3"), SONAR_S32, 3, 24, 2, 0x0f0e0d0c},
               {SIGMF("rf32_le", "1"), SONAR_F32, 1, 24, 6, 0},
               {SIGMF("rf32_le", "1") SIGMF_VERSIONS("1.2.0", "1.0.0"), SONAR_F32, 1, 24, 6, 0},
               {SIGMF("rf32_le", "1") SIGMF_VERSIONS("0.0.2", "1.9"), SONAR_F32, 1, 24, 6, 0},
               {"\"core:datatype\": \"ri16_le\", \"core:sample_rate\": 8000", SONAR_S16, 1, 24, 12,
                0x0302}};
    const char *captures = "{\"core:sample_start\": 0, \"core:global_index\": 7, "
                           "\"core:datetime\": \"2012-04-09T18:00:00.0083Z\"}, "
                           "{\"core:sample_start\": 2, \"core:global_index\": 9}";
    for (size_t i = 0; i < sizeof set / sizeof *set; i++) {
        sim_recording *recording;
        sonar_error err = {0};
        float got[24];
        cr_assert_eq(open_sigmf(set[i].bytes, set[i].global, captures, i & 1 ? "data" : "meta",
                                &recording, &err),
                     SONAR_OK, "%s", err.text);
        const sim_recording_info *about = sim_recording_about(recording);
        cr_expect(about->format == set[i].format && about->channels == set[i].channels);
        cr_expect(about->frames == set[i].frames && about->fs_hz == 8000);
        cr_expect_eq(about->utc_ns, 1333994400008300000);
        cr_assert_eq(sim_recording_read(recording, 0, (size_t)about->frames, got, &err), SONAR_OK);
        if (set[i].format != SONAR_F32)
            cr_expect_eq(got[1], (float)set[i].second, "set %zu: %g", i, (double)got[1]);
        sim_recording_close(recording);
    }
}

Test(simulator, sigmf_captures_say_where_samples_lie) {
    const char *captures =
        "{\"core:sample_start\": 0, \"core:global_index\": 7, \"sonar:epoch\": 3},"
        "{\"core:sample_start\": 2, \"core:global_index\": 19, \"sonar:epoch\": 3, "
        "\"sonar:flags\": 4, \"core:datetime\": \"2012-04-09T18:00:00.0083Z\"},"
        "{\"core:sample_start\": 3, \"core:global_index\": 1, \"sonar:epoch\": 4}";
    sim_recording *recording;
    sonar_error err = {0};
    cr_assert_eq(open_sigmf(24, SIGMF("ri16_le", "2"), captures, "meta", &recording, &err),
                 SONAR_OK, "%s", err.text);
    const sim_recording_info *about = sim_recording_about(recording);
    const sim_capture want[] = {
        {0, 7, false, 0, 0}, {2, 19, false, 4, 1333994400008300000}, {3, 1, true, 0, 0}};
    cr_assert_eq(about->captures, 3);
    for (size_t i = 0; i < 3; i++) {
        const sim_capture *have = &about->capture[i];
        cr_expect(have->start == want[i].start && have->index == want[i].index &&
                      have->new_stream == want[i].new_stream && have->flags == want[i].flags &&
                      have->utc_ns == want[i].utc_ns,
                  "capture %zu", i);
    }
    cr_expect(about->first_stream >> 32 == 3 && about->last_stream >> 32 == 4);
    sim_recording_close(recording);
}

Test(simulator, sigmf_data_sets_that_cannot_be_played_are_refused) {
    static const char one[] = "{\"core:sample_start\": 0}";
    static const struct {
        const char *global, *captures, *said;
        size_t bytes;
    } bad[] = {{SIGMF("cf32_le", "2"), one, "rf32_le", 24},
               {SIGMF("ri16_be", "2"), one, "ri16_be", 24},
               {SIGMF("ri16_le", "0"), one, "core:num_channels", 24},
               {SIGMF("ri16_le", "\"two\""), one, "core:num_channels", 24},
               {"\"core:datatype\": \"ri16_le\"", one, "core:sample_rate", 24},
               {SIGMF("ri16_le", "2") ", \"core:trailing_bytes\": 4", one, "trailing", 24},
               {SIGMF("ri16_le", "2") SIGMF_VERSIONS("2.0.0", "1.0.0"), one, "SigMF", 24},
               {SIGMF("ri16_le", "2") SIGMF_VERSIONS("10.0", "1.0.0"), one, "'10.0'", 24},
               {SIGMF("ri16_le", "2") SIGMF_VERSIONS("1.2.0", "2.0.0"), one, "sonar '2.0.0'", 24},
               {SIGMF("ri16_le", "2"), "{\"core:sample_start\": 0, \"core:header_bytes\": 4}",
                "header", 24},
               {SIGMF("ri16_le", "2"), "{\"core:sample_start\": 0, \"core:datetime\": \"noon\"}",
                "noon", 24},
               {SIGMF("ri16_le", "2"),
                "{\"core:sample_start\": 0, \"core:global_index\": 5}, "
                "{\"core:sample_start\": 2, \"core:global_index\": 6}",
                "from sample 2", 24},
               {SIGMF("ri16_le", "2"), "{\"core:sample_start\": 1}", "sample_start 0", 24},
               {SIGMF("ri16_le", "2"), "{\"core:sample_start\": 0, \"core:global_index\": -1}",
                "whole numbers", 24},
               {SIGMF("ri16_le", "2"), "{\"core:sample_start\": 0}, {\"core:sample_start\": 2}",
                "from sample 2", 24},
               {SIGMF("ri16_le", "2"), one, "not one sample", 3}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sim_recording *recording;
        sonar_error err = {0};
        cr_expect_eq(
            open_sigmf(bad[i].bytes, bad[i].global, bad[i].captures, "data", &recording, &err),
            SONAR_EINVAL, "%zu", i);
        cr_expect(strstr(err.text, bad[i].said), "%zu: %s", i, err.text);
    }
}

/* Opens 24 bytes as a recording with the side file `side`. */
static sonar_code open_with_side(const char *side_text, int *format, sonar_error *err) {
    char path[64], side[64];
    snprintf(path, sizeof path, "/tmp/sonar-side-%d.raw", (int)getpid());
    snprintf(side, sizeof side, "/tmp/sonar-side-%d.json", (int)getpid());
    FILE *raw = fopen(path, "wb"), *to = fopen(side, "w");
    fwrite("0123456789abcdef01234567", 1, 24, raw);
    fputs(side_text, to);
    fclose(raw);
    fclose(to);
    sim_recording *recording = NULL;
    sonar_code code = sim_recording_open(path, &recording, err);
    *format = code ? 0 : sim_recording_about(recording)->format;
    sim_recording_close(recording);
    unlink(path);
    unlink(side);
    return code;
}

static sonar_code open_as(size_t frames, const char *format, int *found, sonar_error *err) {
    char side[256];
    snprintf(side, sizeof side,
             "{\"channels\": 2, \"frames\": %zu, \"sample_rate_hz\": 1, \"format\": \"%s\"}",
             frames, format);
    return open_with_side(side, found, err);
}

Test(simulator, formats_of_side_files_are_read_to_the_letter) {
    static const struct {
        const char *format;
        size_t frames;
        int found;
    } good[] = {
        {"little-endian int16, sample-interleaved", 6, SONAR_S16},
        {"little-endian int24, sample-interleaved, no header", 4, SONAR_S24},
        {"little-endian int32, sample-interleaved (2 channels)", 3, SONAR_S32},
        {"little-endian float32, sample-interleaved (2 channels), no header", 3, SONAR_F32}};
    static const char *const bad[] = {"",
                                      "int16",
                                      "little-endian uint16, sample-interleaved",
                                      "little-endian int160, sample-interleaved",
                                      "little-endian int16, non-interleaved",
                                      "little-endian int16, not sample-interleaved",
                                      "not little-endian int16, sample-interleaved",
                                      "big-endian int16, sample-interleaved",
                                      "little-endian int16, sample-interleaved (3 channels)",
                                      "little-endian int16, sample-interleaved, 44 bytes of header",
                                      "little-endian int16 in float32, sample-interleaved",
                                      "Little-endian int16, sample-interleaved"};
    sonar_error err = {0};
    int format;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        cr_expect_eq(open_as(good[i].frames, good[i].format, &format, &err), SONAR_OK, "%s: %s",
                     good[i].format, err.text);
        cr_expect_eq(format, good[i].found, "%s", good[i].format);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect_eq(open_as(6, bad[i], &format, &err), SONAR_EINVAL, "%s", bad[i]);
        cr_expect(strstr(err.text, bad[i]) && strstr(err.text, "int24, int32 or float32"), "%s",
                  err.text);
    }
}

Test(simulator, bad_side_files_are_refused) {
    static const char *const side_text[] = {
        "{", "{\"channels\": 2}",
        "{\"channels\": 1.5, \"frames\": 4, \"sample_rate_hz\": 1, \"format\": \"little-endian "
        "float32, sample-interleaved\"}",
        "{\"channels\": 2, \"frames\": 0, \"sample_rate_hz\": 1, \"format\": \"little-endian "
        "float32, sample-interleaved\"}"};
    sonar_error err = {0};
    int format;
    for (size_t i = 0; i < sizeof side_text / sizeof *side_text; i++)
        cr_expect_neq(open_with_side(side_text[i], &format, &err), SONAR_OK, "%zu", i);
    for (size_t frames = 2; frames <= 4; frames += 2) { /* the file holds 3 */
        cr_expect_eq(open_as(frames, "little-endian float32, sample-interleaved", &format, &err),
                     SONAR_EINVAL);
        cr_expect(strstr(err.text, "24 bytes"), "%s", err.text);
    }
}

Test(simulator, times_are_read_and_written) {
    int64_t utc_ns;
    cr_assert(sim_utc_parse("2012-04-09T18:00:00.0083Z", &utc_ns));
    cr_expect_eq(utc_ns, 1333994400008300000);
    char text[40];
    sim_utc_format(utc_ns, text, sizeof text);
    cr_expect_str_eq(text, "2012-04-09T18:00:00.008300000Z");
    cr_expect(sim_utc_parse("1969-12-31 23:59:59.5", &utc_ns) && utc_ns == -500000000);
    cr_expect(!sim_utc_parse("2012-04-09", &utc_ns));
    cr_expect(sim_utc_parse("1686-01-01T00:00:00", &utc_ns) && utc_ns < 0);
    cr_expect(sim_utc_parse("2254-12-31T23:59:59", &utc_ns) && utc_ns > 0);
    cr_expect(!sim_utc_parse("1013-01-31T12:00:00", &utc_ns)); /* beyond 64 bits of nanoseconds */
    cr_expect(!sim_utc_parse("2300-01-01T00:00:00", &utc_ns));
    cr_expect(!sim_utc_parse("2012-04-09T18:00:00+02:00", &utc_ns));
}
