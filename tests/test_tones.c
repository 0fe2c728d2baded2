/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tones of contacts in surfaces that a line of sensors would show: whose they are, where they are,
 * and that noise has none. */
#include <complex.h>
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "analysis/tones/tones.h"
#include "core/core.h"
#include "core/random.h"

enum { SENSORS = 24, BINS = 100, FIRST = 40, DIRECTIONS = 181, SHIPS_MOST = 3, TONES_MOST = 12 };
static const double BIN_HZ = 8, SPACING_M = 0.6, C_MPS = 1500;

typedef struct ship {
    double az_deg, power; /* in each bin, of a sensor; the noise has 1 */
    size_t tones;
    double hz[TONES_MOST], tone; /* power of each tone */
} ship;

static float surface[BINS * DIRECTIONS];
static double az_deg[DIRECTIONS];

static double top_hz(void) {
    return (FIRST + BINS - 1) * BIN_HZ;
}

static sonar_scan line(void) {
    for (size_t i = 0; i < DIRECTIONS; i++)
        az_deg[i] = (double)i;
    return (sonar_scan){.count = DIRECTIONS,
                        .az_deg = az_deg,
                        .cone = true,
                        .beam_width_deg = C_MPS / top_hz() / (SENSORS * SPACING_M) * 180 / M_PI};
}

static double complex normal(uint64_t *seed, double power) {
    const double re = sonar_random_normal(seed), im = sonar_random_normal(seed);
    return sqrt(power / 2) * (re + I * im);
}

/* The transform of a Hann taper, `x` bins from its middle. */
static double hann(double x) {
    if (fabs(fabs(x) - 1) < 1e-9)
        return 0.5;
    return (fabs(x) < 1e-9 ? 1 : sin(M_PI * x) / (M_PI * x)) / (1 - x * x);
}

static double complex turn(double hz, double at_deg, size_t sensor) {
    return cexp(2 * M_PI * I * hz * (double)sensor * SPACING_M * cos(at_deg * M_PI / 180) / C_MPS);
}

/* One transform of all sensors, beamformed without shading. */
static void listen(uint64_t *seed, const ship *ships, size_t count) {
    double complex phase[SHIPS_MOST][TONES_MOST];
    for (size_t k = 0; k < count; k++)
        for (size_t i = 0; i < ships[k].tones; i++)
            phase[k][i] = cexp(2 * M_PI * I * sonar_random_uniform(seed));
    for (size_t b = 0; b < BINS; b++) {
        const double hz = (FIRST + (double)b) * BIN_HZ;
        double complex x[SENSORS];
        for (size_t s = 0; s < SENSORS; s++)
            x[s] = normal(seed, 1);
        for (size_t k = 0; k < count; k++) {
            double complex sound = normal(seed, ships[k].power);
            for (size_t i = 0; i < ships[k].tones; i++)
                sound += sqrt(ships[k].tone) * phase[k][i] * hann((hz - ships[k].hz[i]) / BIN_HZ);
            for (size_t s = 0; s < SENSORS; s++)
                x[s] += sound * turn(hz, ships[k].az_deg, s);
        }
        for (size_t t = 0; t < DIRECTIONS; t++) {
            double complex sum = 0;
            for (size_t s = 0; s < SENSORS; s++)
                sum += x[s] * conj(turn(hz, az_deg[t], s));
            surface[b * DIRECTIONS + t] = (float)(creal(sum * conj(sum)) / SENSORS);
        }
    }
}

static sonar_tones *made(const sonar_scan *scan) {
    const sonar_tones_spec spec = {scan, top_hz(), FIRST, BINS, BIN_HZ};
    sonar_tones *t = NULL;
    cr_assert_eq(sonar_tones_create(&spec, &t, NULL), SONAR_OK);
    return t;
}

static size_t shown(const sonar_detection *d, double hz, double within_hz) {
    size_t count = 0;
    for (size_t i = 0; i < d->tones; i++)
        count += fabs(d->tone[i].hz - hz) < within_hz;
    return count;
}

/* A loud ship, and one 12 dB fainter on its side lobes: each has its own tones and none of the
 * other's. */
Test(tones, are_of_their_contact) {
    const ship ships[] = {{.az_deg = 60.3, .power = 3, .tones = 2, .hz = {411.4, 700}, .tone = 300},
                          {.az_deg = 95, .power = 0.2, .tones = 1, .hz = {553.7}, .tone = 40}};
    const sonar_scan scan = line();
    sonar_tones *t = made(&scan);
    uint64_t seed = 5;
    size_t own[3] = {0}, foreign = 0, all = 0;
    double off_hz = 0, snr_db = 0;
    enum { WINDOWS = 60 };
    for (int i = 0; i < WINDOWS; i++) {
        sonar_detection d[2] = {{.az_deg = 60.5}, {.az_deg = 94.8}};
        listen(&seed, ships, 2);
        sonar_tones_find(t, surface, d, 2);
        own[0] += shown(&d[0], 411.4, 4);
        own[1] += shown(&d[0], 700, 4);
        own[2] += shown(&d[1], 553.7, 4);
        foreign += shown(&d[0], 553.7, 12) + shown(&d[1], 411.4, 12) + shown(&d[1], 700, 12);
        all += d[0].tones + d[1].tones;
        for (size_t k = 0; k < d[0].tones; k++)
            if (fabs(d[0].tone[k].hz - 411.4) < 4) {
                off_hz = fmax(off_hz, fabs(d[0].tone[k].hz - 411.4));
                snr_db += d[0].tone[k].snr_db;
            }
    }
    cr_assert(own[0] == WINDOWS && own[1] == WINDOWS && own[2] > WINDOWS * 9 / 10, "%zu %zu %zu",
              own[0], own[1], own[2]);
    cr_assert_eq(foreign, 0);
    cr_assert_leq(all - own[0] - own[1] - own[2], 2, "%zu tones", all);
    cr_assert_lt(off_hz, 0.3 * BIN_HZ, "%g Hz", off_hz);
    /* the mean of exponential noise is 1.6 dB over its median; the tone falls between two bins */
    const double in_bin = 300 * pow(hann(0.425), 2);
    cr_assert_float_eq(snr_db / WINDOWS, 10 * log10(in_bin / 3) + 1.6, 1, "%g dB",
                       snr_db / WINDOWS);
    sonar_tones_destroy(t);
}

Test(tones, noise_has_none) {
    const ship ships[] = {{.az_deg = 60, .power = 1}, {.az_deg = 120, .power = 0.3}};
    const sonar_scan scan = line();
    sonar_tones *t = made(&scan);
    uint64_t seed = 6;
    size_t found = 0;
    enum { WINDOWS = 200 };
    for (int i = 0; i < WINDOWS; i++) {
        sonar_detection d[4] = {{.az_deg = 60}, {.az_deg = 120}, {.az_deg = 0}, {.az_deg = 90.5}};
        listen(&seed, ships, 2);
        sonar_tones_find(t, surface, d, 4);
        for (size_t k = 0; k < 4; k++)
            found += d[k].tones;
    }
    cr_assert_leq(found, 10, "%zu in %d bins", found, WINDOWS * 4 * BINS);
    sonar_tones_destroy(t);
}

/* Of twelve tones the eight strongest, in order. */
Test(tones, the_strongest_come_first) {
    const sonar_scan scan = line();
    sonar_tones *t = made(&scan);
    uint64_t seed = 7;
    for (size_t i = 0; i < BINS * DIRECTIONS; i++)
        surface[i] = 1 + 0.1f * (float)sonar_random_uniform(&seed);
    for (size_t i = 0; i < 12; i++)
        surface[(4 + 8 * i) * DIRECTIONS + 90] = 100 + 10 * (float)((7 * i) % 12);
    sonar_detection d = {.az_deg = 90, .tones = 99};
    sonar_tones_find(t, surface, &d, 1);
    cr_assert_eq(d.tones, SONAR_TONES_MOST);
    for (size_t i = 0; i < d.tones; i++) {
        cr_assert_float_eq(d.tone[i].snr_db, 10 * log10((210 - 10 * (double)i) / 1.05), 0.3);
        cr_assert(i == 0 || d.tone[i].snr_db < d.tone[i - 1].snr_db);
    }
    sonar_tones_destroy(t);
}

Test(tones, nonsense_has_none) {
    const sonar_scan scan = line(), ring = {.count = 3, .az_deg = az_deg, .wraps = true};
    const float values[] = {0, 1, NAN, INFINITY, -1};
    sonar_tones *t = made(&scan), *around = made(&ring), *few = NULL;
    uint64_t seed = 8;
    for (int trial = 0; trial < 200; trial++) {
        for (size_t i = 0; i < BINS * DIRECTIONS; i++)
            surface[i] = values[trial < 5 ? trial : (int)(sonar_random_bits(&seed) % 5)];
        sonar_detection d[3] = {
            {.az_deg = 0}, {.az_deg = 180}, {.az_deg = 359 * sonar_random_uniform(&seed)}};
        sonar_tones_find(t, surface, d, 3);
        for (size_t k = 0; k < 3; k++)
            cr_assert_eq(d[k].tones, 0, "trial %d", trial);
        sonar_tones_find(around, surface, d, 3);
    }
    const sonar_tones_spec spec = {&scan, top_hz(), FIRST, SONAR_TONES_BINS - 1, BIN_HZ};
    cr_assert_eq(sonar_tones_create(&spec, &few, NULL), SONAR_EINVAL);
    cr_assert_null(few);
    sonar_tones_destroy(t);
    sonar_tones_destroy(around);
    sonar_tones_destroy(NULL);
}
