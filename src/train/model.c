/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The built-in rule: operations and bytes counted, divided by what a backend is taken to sustain.
 * It only has to be right where the difference is large; training decides the rest. */
#include <math.h>

#include "core/core.h"
#include "train/train.h"

sonar_train_rates sonar_train_cpu_rates(size_t workers) {
    double n = (double)sonar_max_size(workers, 1);
    return (sonar_train_rates){
        .fft_flops = 4e9 * n, .beam_flops = 15e9 * n, .eigen_flops = 15e9 * n, .start_s = 5e-6};
}

sonar_train_rates sonar_train_gpu_rates(void) {
    return (sonar_train_rates){.fft_flops = 5e11,
                               .beam_flops = 5e12,
                               .eigen_flops = 2e11,
                               .bytes_per_s = 10e9,
                               .start_s = 100e-6};
}

/* 2.5 N log2 N operations for a real transform of length N (Frigo and Johnson 2005). */
static double fft_operations(double transforms, double length) {
    return transforms * 2.5 * length * log2(length);
}

/* A complex product and sum is eight operations. */
static double cbf_operations(const sonar_train_shape *s) {
    double looks = (double)s->directions * (double)s->lofar_bins +
                   (double)s->directions * (double)s->ranges * (double)s->cbf_bins;
    return 8 * looks * (double)s->sensors_used;
}

/* Jacobi on r columns of length B: a pair costs three products of columns and a rotation, 40 B
 * operations; then r projections of every steering vector. Six sweeps are usual. */
static double mvdr_operations(const sonar_train_shape *s) {
    double b = (double)s->sensors_used, r = b;
    if (s->mvdr_snapshots && !s->mvdr_two_sided)
        r = fmin(b, (double)s->mvdr_snapshots);
    double sweeps = fmin(6, (double)s->mvdr_sweeps);
    double jacobi = sweeps * r * (r - 1) / 2 * 40 * b;
    return (double)s->mvdr_bins * (jacobi + 8 * b * r * (double)s->mvdr_directions);
}

static double seconds_of(const sonar_train_rates *rates, double operations, double flops,
                         double bytes) {
    return rates->start_s + operations / flops +
           (rates->bytes_per_s > 0 ? bytes / rates->bytes_per_s : 0);
}

void sonar_train_estimate(const sonar_train_shape *s, const sonar_train_rates *rates,
                          double seconds[SONAR_TRAIN_STAGES]) {
    double used = (double)s->sensors_used;
    double dft = fft_operations(used, (double)s->length);
    if (s->mvdr_own_dft)
        dft += fft_operations(used * (double)s->mvdr_new, (double)s->mvdr_length);
    double samples = 4 * (double)s->channels * (double)s->length;
    if (s->mvdr_own_dft) /* each transform fetches its own samples */
        samples += 4 * (double)s->channels * (double)s->mvdr_length * (double)s->mvdr_new;
    seconds[SONAR_TRAIN_DFT] = seconds_of(rates, dft, rates->fft_flops, samples);
    seconds[SONAR_TRAIN_CBF] =
        seconds_of(rates, cbf_operations(s), rates->beam_flops,
                   4 * (double)s->directions * (double)(1 + s->ranges + s->lofar_bins));
    seconds[SONAR_TRAIN_MVDR] =
        s->mvdr_bins ? seconds_of(rates, mvdr_operations(s), rates->eigen_flops,
                                  4 * (double)s->mvdr_directions * (double)(1 + s->mvdr_bins))
                     : 0;
}
