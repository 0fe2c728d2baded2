/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The built-in rule: operations and bytes are counted and divided by a backend's assumed rates. It
 * has to be right only if the difference is large; training decides the rest. */
#include <math.h>

#include "core/core.h"
#include "train/train.h"

/* Operations and bytes a second; seconds. */
typedef struct rates {
    double fft, beam, eigen;
    size_t bins_at_once; /* bins that a GPU's MVDR computes at once, all at the rate `eigen` */
    double bytes, start; /* bytes: between host and device per second, 0: no transfer; start:
                            seconds to start a stage and wait for it */
} rates;

/* Rates of one worker. From sonar-bench on two cores of an EPYC with AVX-512: 512 x 8192 samples
 * transformed in 3.6 ms, their 259 360 looks and bins formed in 13 ms, 100 bins of 64 snapshots
 * solved and looked at in 15 ms (64 sensors) and 22 ms (512), of 512 snapshots and 256 sensors in
 * 0.49 s. */
static const rates CPU = {18e9, 90e9, 22e9, 0, 0, 5e-6};

/* Rates of an H200, from docs/benchmarks/h200.md. For one window in device memory the DFT takes 69
 * us (128 sensors) to 1.4 ms (16384), the CBF 79 us to 1.28 ms. 100 bins of the MVDR take 1.6 ms
 * (64 sensors, block of 64) to 172 ms (16384), and at full rank 7.5 ms (128 sensors) to 410 ms
 * (512). Each of the 132 multiprocessors computes one bin. Pinned samples are copied at 55 GB/s. */
static const rates GPU = {3.5e12, 28e12, 6e12, 132, 55e9, 65e-6};

static const double CROSSING_S = 40e-6; /* to start a copy between the sides and wait for it */

/* 2.5 N log2 N operations for a real transform of length N (Frigo and Johnson 2005). */
static double dft_operations(const sonar_train_shape *s) {
    double cbf = (double)s->cbf_snapshots * (double)s->cbf_length * log2((double)s->cbf_length);
    double mvdr = s->mvdr_own_dft
                      ? (double)s->mvdr_new * (double)s->mvdr_length * log2((double)s->mvdr_length)
                      : 0;
    return 2.5 * (double)s->sensors_used * (cbf + mvdr);
}

/* A complex product and sum takes eight operations. */
static double cbf_operations(const sonar_train_shape *s) {
    double looks = (double)s->directions * (double)(s->lofar_bins + s->ranges * s->cbf_bins);
    return 8 * looks * (double)s->sensors_used * (double)s->cbf_snapshots;
}

/* One bin on the CPU. With up to half as many snapshots as sensors: a row of their Gram matrix, and
 * the new snapshot's products with all steering vectors, which cost 40 operations a value to make;
 * otherwise the covariance. Then eigenvalues and Cholesky's factor of order r, and a triangular
 * solve per look. */
static double solving_operations(const sonar_train_shape *s) {
    const double b = (double)s->sensors_used, looks = (double)s->mvdr_directions;
    const double l = s->mvdr_snapshots ? (double)s->mvdr_snapshots : 1, fresh = (double)s->mvdr_new;
    const bool by_snapshots = s->mvdr_snapshots && 2 * l <= b;
    const double r = by_snapshots ? l : b;
    const double form = by_snapshots ? 8 * b * fresh * (l + looks) : 4 * b * b * l;
    return (double)s->mvdr_bins *
           (form + 40 * b * looks + 20.0 / 3 * r * r * r + 4 * r * r * looks);
}

/* One bin on the GPU: Jacobi on a triangle of r columns. A pair costs three products of columns and
 * a rotation, 40 r operations, and eight sweeps are usual. Making the triangle and transforming its
 * columns back costs four times as much as one QR of B x r. Then follow r projections of every
 * steering vector. Bins computed at once take as long as one: 100 bins on 132 multiprocessors take
 * the time of one bin. */
static double jacobi_operations(const sonar_train_shape *s, size_t together) {
    double b = (double)s->sensors_used, r = b;
    if (s->mvdr_snapshots)
        r = fmin(b, (double)s->mvdr_snapshots);
    double bin = fmin(8, (double)s->mvdr_sweeps) * r * (r - 1) / 2 * 40 * r + 32 * r * r * b +
                 8 * b * r * (double)s->mvdr_directions;
    return ceil((double)s->mvdr_bins / (double)together) * (double)together * bin;
}

double sonar_train_stage_s(const sonar_train_shape *s, sonar_engine_stage stage, bool gpu) {
    const rates *rate = gpu ? &GPU : &CPU;
    const size_t workers = gpu ? 1 : sonar_max_size(s->workers, 1);
    const double fresh = (double)sonar_min_size(s->hop, s->length); /* each sample is copied once */
    double seconds = 0, bytes = 0;
    switch (stage) {
    case SONAR_ENGINE_DFT:
        seconds = dft_operations(s) / rate->fft;
        bytes = (double)s->sample_bytes * (double)s->channels * fresh;
        break;
    case SONAR_ENGINE_CBF:
        seconds = cbf_operations(s) / rate->beam;
        bytes = 4 * (double)s->directions * (double)(1 + s->ranges + s->lofar_bins);
        break;
    default:
        if (!s->mvdr_bins)
            return 0;
        seconds =
            (gpu ? jacobi_operations(s, rate->bins_at_once) : solving_operations(s)) / rate->eigen;
        bytes = 4 * (double)s->mvdr_directions * (double)(1 + s->mvdr_bins);
    }
    return rate->start + seconds / (double)workers + (gpu ? bytes / rate->bytes : 0);
}

/* Time of the copies between the sides. Bins that the other side needs are copied once: those of
 * the main DFT for the CBF and for an MVDR that shares them, and those of the MVDR's own DFT. */
static double crossing_s(const sonar_train_shape *s, sonar_placement placement) {
    const sonar_placement moved =
        placement ^ (placement & 1 ? ~0u : 0); /* stages that are not on the DFT's side */
    const bool mvdr = s->mvdr_bins && moved & 1u << SONAR_ENGINE_MVDR;
    const bool shared = moved & 1u << SONAR_ENGINE_CBF || (mvdr && !s->mvdr_own_dft);
    double bins = shared ? (double)s->bins * (double)s->cbf_snapshots : 0, copies = shared;
    if (mvdr && s->mvdr_own_dft) {
        bins += (double)s->mvdr_bins * (double)s->mvdr_new;
        copies++;
    }
    return copies * CROSSING_S + 8 * (double)s->sensors * bins / GPU.bytes;
}

double sonar_train_estimate(const sonar_train_shape *s, sonar_placement placement) {
    double seconds = crossing_s(s, placement);
    for (int stage = 0; stage < SONAR_ENGINE_STAGES; stage++)
        seconds += sonar_train_stage_s(s, (sonar_engine_stage)stage, placement >> stage & 1);
    return seconds;
}
