/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The built-in cases and the arithmetic of a case's size. */
#include "bench.h"

#include <math.h>

const bench_case bench_cases[] = {
    {.name = "standard",
     .about = "the reference case with 128 sensors: wide bands, near field, no MVDR",
     .sensors = 128,
     .length = 8192,
     .fs_hz = 8000,
     .cbf = {327, 166},
     .lofar = {34, 459},
     .angles = 160,
     .ranges = 7},
    {.name = "latency",
     .about = "small windows, where the fixed cost of a stage shows",
     .sensors = 32,
     .length = 1024,
     .fs_hz = 8000,
     .cbf = {77, 45},
     .lofar = {13, 109},
     .mvdr = {77, 8},
     .angles = 128,
     .snapshots = 16},
    {.name = "mvdr",
     .about = "MVDR of 64 sensors from 128 snapshots in 32 bins",
     .sensors = 64,
     .length = 2048,
     .fs_hz = 8000,
     .cbf = {154, 90},
     .lofar = {154, 90},
     .mvdr = {154, 32},
     .angles = 180,
     .snapshots = 128},
    {.name = NULL},
};

static bool within(bench_band band, size_t length) {
    return band.first <= length / 2 && band.bins <= length / 2 + 1 - band.first;
}

static bool contains(bench_band outer, bench_band inner) {
    return inner.first >= outer.first && inner.first + inner.bins <= outer.first + outer.bins;
}

sonar_code bench_case_check(const bench_case *c, sonar_error *err) {
    if (c->sensors < 2 || c->length < 2 || c->angles < 1 || !(c->fs_hz > 0))
        return sonar_fail(err, SONAR_EINVAL, c->name,
                          "2 sensors, 2 samples, 1 angle and a sampling rate are the least");
    if (c->cbf.bins == 0 || !within(c->cbf, c->length) || !within(c->lofar, c->length) ||
        !within(c->mvdr, c->length))
        return sonar_fail(err, SONAR_EINVAL, c->name, "a band is not within bins 0..%zu",
                          c->length / 2);
    if (!contains(c->lofar, c->cbf))
        return sonar_fail(err, SONAR_EINVAL, c->name, "the Lofar bins do not contain the CBF bins");
    if (c->mvdr.bins > 0 && c->snapshots == 0)
        return sonar_fail(err, SONAR_EINVAL, c->name, "MVDR needs snapshots");
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

double bench_mvdr_flop(const bench_case *c, double sweeps) {
    const double b = (double)c->sensors;
    const double columns = (double)sonar_min_size(c->sensors, c->snapshots);
    const double jacobi = sweeps * columns * (columns - 1) / 2 * 28 * b;
    const double looks = (c->snapshots < c->sensors ? 4 : 1) * 8 * b * columns;
    return (double)c->mvdr.bins * (jacobi + (double)c->angles * looks);
}
