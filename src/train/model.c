/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The built-in rule: operations and bytes counted, divided by what a backend is taken to sustain.
 * It only has to be right where the difference is large; training decides the rest. */
#include <math.h>
#include <stdio.h>

#include "core/core.h"
#include "train/train.h"

/* From sonar-bench on two cores of an EPYC with AVX-512: 512 x 8192 samples transformed in 3.6 ms,
 * their 259 360 looks and bins formed in 13 ms, 100 bins of 64 snapshots decomposed and looked at
 * in 63 ms (64 sensors) and 106 ms (512), of 512 snapshots and 256 sensors in 2.3 s. */
sonar_train_rates sonar_train_cpu_rates(size_t workers) {
    double n = (double)sonar_max_size(workers, 1);
    return (sonar_train_rates){.fft_flops = 18e9 * n,
                               .beam_flops = 40e9 * n,
                               .eigen_flops = 60e9 * n,
                               .start_s = 5e-6,
                               .bins_at_once = workers};
}

/* An H200's, from docs/benchmarks/h200.md: one window by itself in device memory takes the DFT
 * 69 us (128 sensors) to 1.4 ms (16384), the CBF 79 us to 1.28 ms; 100 bins of the MVDR 1.6 ms (64
 * sensors, block of 64) to 172 ms (16384), at full rank 7.5 ms (128 sensors) to 410 ms (512). A
 * bin is one multiprocessor's, of 132. Pinned samples cross at 55 GB/s, a small copy that is waited
 * for takes 40 us. */
sonar_train_rates sonar_train_gpu_rates(void) {
    return (sonar_train_rates){.fft_flops = 3.5e12,
                               .beam_flops = 28e12,
                               .eigen_flops = 6e12,
                               .bytes_per_s = 55e9,
                               .start_s = 65e-6,
                               .copy_s = 40e-6,
                               .bins_at_once = 132,
                               .one_sided_only = true};
}

/* 2.5 N log2 N operations for a real transform of length N (Frigo and Johnson 2005). */
static double fft_operations(double transforms, double length) {
    return transforms * 2.5 * length * log2(length);
}

/* A complex product and sum is eight operations. */
static double cbf_operations(const sonar_train_shape *s) {
    double looks = (double)s->directions * (double)s->lofar_bins +
                   (double)s->directions * (double)s->ranges * (double)s->cbf_bins;
    return 8 * looks * (double)s->sensors_used * (double)s->cbf_snapshots;
}

/* One bin: Jacobi on a triangle of r columns, in which a pair costs three products of columns and a
 * rotation, 40 r operations, eight sweeps being usual; four times as much as one QR of B x r for
 * making the triangle and leading its columns back; then r projections of every steering vector. */
static double mvdr_operations(const sonar_train_shape *s) {
    double b = (double)s->sensors_used, r = b;
    if (s->mvdr_snapshots && !s->mvdr_two_sided)
        r = fmin(b, (double)s->mvdr_snapshots);
    double sweeps = fmin(8, (double)s->mvdr_sweeps);
    return sweeps * r * (r - 1) / 2 * 40 * r + 32 * r * r * b +
           8 * b * r * (double)s->mvdr_directions;
}

/* Bins worked at together take as long as one: 100 of them where 132 find room take one's time. */
static double mvdr_seconds(const sonar_train_shape *s, const sonar_train_rates *rates) {
    double together = (double)sonar_max_size(rates->bins_at_once, 1);
    double turns = ceil((double)s->mvdr_bins / together);
    return turns * together * mvdr_operations(s) / rates->eigen_flops;
}

static double transfer_s(const sonar_train_rates *rates, double bytes) {
    return rates->bytes_per_s > 0 ? bytes / rates->bytes_per_s : 0;
}

void sonar_train_estimate(const sonar_train_shape *s, const sonar_train_rates *rates,
                          double seconds[SONAR_TRAIN_STAGES]) {
    double used = (double)s->sensors_used, sample = (double)s->sample_bytes;
    double dft = fft_operations(used * (double)s->cbf_snapshots, (double)s->cbf_length);
    if (s->mvdr_own_dft)
        dft += fft_operations(used * (double)s->mvdr_new, (double)s->mvdr_length);
    double fresh = fmin((double)s->hop, (double)s->length); /* each sample crosses once */
    double samples = sample * (double)s->channels * fresh;
    double looks = (double)s->directions * (double)(1 + s->ranges + s->lofar_bins);
    double mvdr_looks = (double)s->mvdr_directions * (double)(1 + s->mvdr_bins);
    seconds[SONAR_TRAIN_DFT] = rates->start_s + dft / rates->fft_flops + transfer_s(rates, samples);
    seconds[SONAR_TRAIN_CBF] =
        rates->start_s + cbf_operations(s) / rates->beam_flops + transfer_s(rates, 4 * looks);
    seconds[SONAR_TRAIN_MVDR] =
        s->mvdr_bins ? rates->start_s + mvdr_seconds(s, rates) + transfer_s(rates, 4 * mvdr_looks)
                     : 0;
}

sonar_train_side sonar_train_guess(const sonar_train_shape *shape, const sonar_train_rates *rates,
                                   const char *name) {
    sonar_train_side side = {.name = name};
    double seconds[SONAR_TRAIN_STAGES];
    sonar_train_estimate(shape, rates, seconds);
    for (size_t s = 0; s < SONAR_TRAIN_STAGES; s++) {
        side.stage[s] = (sonar_train_timing){.available = true, .median_s = seconds[s]};
        snprintf(side.stage[s].name, sizeof side.stage[s].name, "%s", name);
    }
    if (shape->mvdr_two_sided && rates->one_sided_only) {
        sonar_train_timing *mvdr = &side.stage[SONAR_TRAIN_MVDR];
        mvdr->available = false;
        mvdr->median_s = 0;
        snprintf(mvdr->note, sizeof mvdr->note, "it has no two_sided method");
    }
    return side;
}

sonar_train_crossing sonar_train_guess_crossing(const sonar_train_rates *device) {
    sonar_train_line line = {device->copy_s, device->bytes_per_s > 0 ? 1 / device->bytes_per_s : 0};
    return (sonar_train_crossing){true, line, line};
}
