/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The built-in cases, and the nominal work of a case. */
#include "bench.h"

#include <math.h>
#include <string.h>

/* The thesis's standard case: 166 CBF and 459 Lofar bins of 8192 samples at 8 kHz. */
#define THESIS                                                                                     \
    .length = 8192, .fs_hz = 8000, .cbf = {327, 166}, .lofar = {34, 459}, .angles = 160, .ranges = 7

/* Tables 6.1 and 6.8: by the number of sensors, one window and one minute of samples. */
#define SENSORS(b)                                                                                 \
    {                                                                                              \
        .name = "sensors-" #b,                                                                     \
        .about = "thesis 6.1, 6.8: one window and one minute of " #b " sensors", .sensors = b,     \
        THESIS, .windows = 60, .peers = true                                                       \
    }
/* Table 6.4: by the number of bins; the Lofar band has 100 more than the CBF's. */
#define BINS(k)                                                                                    \
    {                                                                                              \
        .name = "bins-" #k, .about = "thesis 6.4: " #k " CBF bins, 512 sensors", .sensors = 512,   \
        .length = 8192, .fs_hz = 8000, .cbf = {327, k}, .lofar = {227, k + 100}, .angles = 160,    \
        .ranges = 7                                                                                \
    }
/* Table 6.5: by the number of angles. */
#define ANGLES(t)                                                                                  \
    {                                                                                              \
        .name = "angles-" #t, .about = "thesis 6.5: " #t " angles, 512 sensors", .sensors = 512,   \
        .length = 8192, .fs_hz = 8000, .cbf = {327, 166}, .lofar = {34, 459}, .angles = t,         \
        .ranges = 7                                                                                \
    }
/* Tables 6.6 and 6.7: by the sampling rate; a window is the next power of two. */
#define RATES(hz, n)                                                                               \
    {                                                                                              \
        .name = "rates-" #hz, .about = "thesis 6.6, 6.7: " #hz " Hz, 512 sensors", .sensors = 512, \
        .length = n, .fs_hz = hz, .cbf = {327, 166}, .lofar = {34, 459}, .angles = 160,            \
        .ranges = 7                                                                                \
    }
/* Table 6.15: 100 bins, 180 angles. */
#define MVDR(family, b, block)                                                                     \
    {                                                                                              \
        .name = family "-" #b,                                                                     \
        .about = "thesis 6.15: MVDR of " #b " sensors from " #block " snapshots", .sensors = b,    \
        .length = 8192, .fs_hz = 8000, .cbf = {327, 100}, .lofar = {327, 100}, .mvdr = {327, 100}, \
        .angles = 180, .snapshots = block, .mvdr_alone = true, .peers = block > b                  \
    }

/* The same with arrays whose snapshots take tens of gigabytes. */
#define MVDR_LARGE(b)                                                                              \
    {                                                                                              \
        .name = "block-" #b, .about = "MVDR of " #b " sensors from 64 snapshots", .sensors = b,    \
        .length = 8192, .fs_hz = 8000, .cbf = {327, 100}, .lofar = {327, 100}, .mvdr = {327, 100}, \
        .angles = 180, .snapshots = 64, .mvdr_alone = true, .by_name = true                        \
    }

/* Tables 6.15 and 6.16: the thesis's method, an eigendecomposition of order b by two-sided Jacobi
 * in each of 100 bins; tables 6.11 to 6.14 have its parts, the decomposition of one bin and the
 * spectrum that follows. */
#define JACOBI(family, b, k, tables)                                                               \
    {                                                                                              \
        .name = family "-" #b,                                                                     \
        .about = "thesis " tables ": MVDR of " #b " sensors by Jacobi, " #k " bins", .sensors = b, \
        .length = 8192, .fs_hz = 8000, .cbf = {327, k}, .lofar = {327, k}, .mvdr = {327, k},       \
        .angles = 180, .snapshots = 2 * b, .solver = SONAR_MVDR_JACOBI, .mvdr_alone = true,        \
        .peers = true                                                                              \
    }

/* The thesis's bins and angles with an array that is not a line, so that every weight has to be
 * computed. */
#define SNAPSHOTS(b)                                                                               \
    {                                                                                              \
        .name = "snapshots-" #b, .about = "16 snapshots of a planar array of " #b " sensors",      \
        .sensors = b, .length = 8192, .fs_hz = 8000, .cbf = {327, 166}, .lofar = {34, 459},        \
        .angles = 160, .snapshots = 16, .cbf_alone = true, .peers = true                           \
    }

/* clang-format off */
const bench_case bench_cases[] = {
    {.name = "standard", .about = "the thesis's standard case with 128 sensors: wide bands, near field, no MVDR",
     .sensors = 128, THESIS},
    {.name = "latency", .about = "small windows, dominated by the fixed cost of a stage",
     .sensors = 32, .length = 1024, .fs_hz = 8000, .cbf = {77, 45}, .lofar = {13, 109},
     .mvdr = {77, 8}, .angles = 128, .snapshots = 16},
    {.name = "mvdr", .about = "MVDR of 64 sensors from 128 snapshots in 32 bins",
     .sensors = 64, .length = 2048, .fs_hz = 8000, .cbf = {154, 90}, .lofar = {154, 90},
     .mvdr = {154, 32}, .angles = 180, .snapshots = 128},
    SENSORS(128), SENSORS(256), SENSORS(512), SENSORS(1024), SENSORS(2048), SENSORS(4096),
    SENSORS(8192), SENSORS(16384), SENSORS(32768),
    SNAPSHOTS(2048), SNAPSHOTS(16384),
    BINS(100), BINS(200), BINS(300), BINS(400), BINS(500), BINS(600), BINS(700), BINS(800),
    BINS(900), BINS(1000),
    ANGLES(45), ANGLES(90), ANGLES(135), ANGLES(180), ANGLES(225), ANGLES(270), ANGLES(315),
    ANGLES(360),
    RATES(2000, 2048), RATES(4000, 4096), RATES(6000, 8192), RATES(8000, 8192),
    RATES(10000, 16384), RATES(12000, 16384), RATES(14000, 16384), RATES(16000, 16384),
    RATES(18000, 32768), RATES(20000, 32768),
    MVDR("block", 64, 64), MVDR("block", 128, 64), MVDR("block", 256, 64), MVDR("block", 512, 64),
    MVDR("block", 1024, 64), MVDR("block", 2048, 64), MVDR("block", 16384, 64),
    MVDR_LARGE(262144), MVDR_LARGE(524288),
    MVDR("full", 64, 128), MVDR("full", 128, 256), MVDR("full", 256, 512), MVDR("full", 512, 1024),
    MVDR("full", 1024, 2048), MVDR("full", 2048, 4096),
    JACOBI("jacobi", 64, 100, "6.15, 6.16"), JACOBI("jacobi", 128, 100, "6.15, 6.16"),
    JACOBI("jacobi", 256, 100, "6.15, 6.16"), JACOBI("jacobi", 512, 100, "6.15, 6.16"),
    JACOBI("jacobi", 1024, 100, "6.15, 6.16"), JACOBI("jacobi", 2048, 100, "6.15, 6.16"),
    JACOBI("onebin", 512, 1, "6.11"), JACOBI("onebin", 1024, 1, "6.11 to 6.13"),
    JACOBI("onebin", 2048, 1, "6.11 to 6.14"),
    {.name = NULL},
};
/* clang-format on */

bool bench_case_matches(const bench_case *c, const char *wanted) {
    const size_t n = strlen(wanted);
    return strncmp(c->name, wanted, n) == 0 &&
           (c->name[n] == '\0' || (c->name[n] == '-' && !c->by_name));
}

static bool within(bench_band band, size_t length) {
    return band.first <= length / 2 && band.bins <= length / 2 + 1 - band.first;
}

static bool contains(bench_band outer, bench_band inner) {
    return inner.first >= outer.first && inner.first + inner.bins <= outer.first + outer.bins;
}

sonar_code bench_case_check(const bench_case *c, sonar_error *err) {
    if (c->sensors < 2 || c->length < 2 || c->angles < 1 || !(c->fs_hz > 0))
        return sonar_fail(err, SONAR_EINVAL, c->name,
                          "needs at least 2 sensors, 2 samples, 1 angle and a sampling rate");
    if (c->cbf.bins == 0 || !within(c->cbf, c->length) || !within(c->lofar, c->length) ||
        !within(c->mvdr, c->length))
        return sonar_fail(err, SONAR_EINVAL, c->name, "a band is not within bins 0..%zu",
                          c->length / 2);
    if (!contains(c->lofar, c->cbf))
        return sonar_fail(err, SONAR_EINVAL, c->name, "the Lofar bins do not contain the CBF bins");
    if (c->mvdr.bins > 0 && c->snapshots == 0)
        return sonar_fail(err, SONAR_EINVAL, c->name, "MVDR needs snapshots");
    if (c->cbf_alone && c->snapshots == 0)
        return sonar_fail(err, SONAR_EINVAL, c->name, "no snapshots to average");
    return SONAR_OK;
}

bench_band bench_kept(const bench_case *c) {
    if (c->mvdr.bins == 0)
        return c->lofar;
    const size_t first = sonar_min_size(c->lofar.first, c->mvdr.first);
    const size_t end = sonar_max_size(c->lofar.first + c->lofar.bins, c->mvdr.first + c->mvdr.bins);
    return (bench_band){.first = first, .bins = end - first};
}

double bench_dft_flop(const bench_case *c) {
    const double n = (double)c->length;
    return (double)c->sensors * 2.5 * n * log2(n);
}

double bench_cbf_flop(const bench_case *c, size_t far_bins, size_t near_bins) {
    const double points =
        (double)c->angles * ((double)far_bins + (double)c->ranges * (double)near_bins);
    return points * (8.0 * (double)c->sensors + 3.0);
}

static bool by_snapshots(const bench_case *c) {
    return 2 * c->snapshots <= c->sensors;
}

/* Work from one bin's sums to its spectrum. */
static double solution_flop(const bench_case *c, double sweeps) {
    const double r = (double)(by_snapshots(c) ? c->snapshots : c->sensors);
    const double looks = (double)c->angles;
    return sweeps > 0 ? sweeps * r * (r - 1) / 2 * 48 * r + 8 * r * r * looks
                      : 20.0 / 3 * r * r * r + 4 * r * r * looks;
}

double bench_mvdr_flop(const bench_case *c, double sweeps) {
    const double b = (double)c->sensors, l = (double)c->snapshots, looks = (double)c->angles;
    const double fresh = by_snapshots(c) ? 8 * b * (l + looks) : 4 * b * b;
    return (double)c->mvdr.bins * (fresh + solution_flop(c, sweeps));
}

double bench_refill_flop(const bench_case *c, double sweeps) {
    const double b = (double)c->sensors, l = (double)c->snapshots, looks = (double)c->angles;
    const double sums = by_snapshots(c) ? 8 * b * l * ((l + 1) / 2 + looks) : 4 * b * b * l;
    return (double)c->mvdr.bins * (sums + solution_flop(c, sweeps));
}

double bench_looks_flop(const bench_case *c) {
    const double order = (double)sonar_min_size(c->sensors, c->snapshots);
    return (double)c->mvdr.bins * (double)c->angles * 8 * order * order;
}
