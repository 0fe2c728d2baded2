/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Dominant mode rejection (Abraham and Owsley, OCEANS 1990): the K largest eigenpairs of the sample
 * covariance are kept, and all other eigenvalues are replaced by the noise power,
 *
 *     1/P = sum_{i<=K} |u_i^H a|^2 / d_i + (|a|^2 - sum_{i<=K} |u_i^H a|^2) / noise
 *         = (|a|^2 - sum_{i<=K} (1 - noise/d_i) |u_i^H a|^2) / noise
 *
 * Without their K modes, n sensors and L snapshots leave noise of (n - K) (L - K) numbers. Its
 * power is the median of the other eigenvalues divided by the median of the Marchenko-Pastur law. A
 * few modes too many or too few hardly change this median.
 *
 * Noise rotates a source's eigenvector. At the source P = share (s + N/n) + (1 - share) N/n with
 * share = (L - K + 1)/(L + n - 2K + 1); where there is no source, P = N/n.
 */
#ifndef SONAR_MVDR_JACOBI_RULES_MODES_H
#define SONAR_MVDR_JACOBI_RULES_MODES_H

#include "mvdr_jacobi/rules/sources.h"

/* The distribution function of the Marchenko-Pastur law for dimensions/snapshots c <= 1 and unit
 * noise, at x = 1 + c - 2 sqrt(c) cos(phi): the integral of its density in closed form. */
MVDR_BOTH static inline double mvdr_marchenko_pastur(double c, double phi) {
    const double root = sqrt(c), tilt = atan2((1 + root) * sin(phi / 2), (1 - root) * cos(phi / 2));
    return ((1 + c) / (2 * c) * phi + sin(phi) / root - (1 - c) / c * tilt) / 3.14159265358979324;
}

/* Median of the nonzero eigenvalues of unit noise, for any c > 0. */
MVDR_BOTH static inline double mvdr_median_of_noise(double c) {
    const double flat = c < 1 ? c : 1 / c;
    double low = 0, high = 3.14159265358979324;
    if (flat < 1e-12) /* all of them are 1, and the closed form cancels */
        return c < 1 ? 1 : c;
    for (int i = 0; i < 60; i++) {
        const double middle = 0.5 * (low + high);
        if (mvdr_marchenko_pastur(flat, middle) < 0.5)
            low = middle;
        else
            high = middle;
    }
    const double median = 1 + flat - 2 * sqrt(flat) * cos(low);
    return c < 1 ? median : c * median;
}

/* Sources of MUSIC have eigenvalues above this share of the largest. Eigenvalues caused by samples
 * rounded to float32 are below it. So are the zeros of a matrix without full rank, whose
 * eigenvectors are arbitrary. */
#define MVDR_LEAST_MODE MVDR_LEAST_FLOAT32

/* The largest number of modes that leaves noise: less than the number of eigenvalues and of
 * snapshots. */
MVDR_BOTH static inline size_t mvdr_most_modes(const mvdr_eigenspectrum *l) {
    const double snapshots = l->snapshots > 1 ? l->snapshots : 1;
    const size_t most = l->k < l->n ? l->k : l->n;
    return (snapshots < (double)most ? (size_t)(snapshots + 0.5) : most) - 1;
}

/* The number of modes to use. `wanted` as in the specification; `counted`: the sources counted. */
MVDR_BOTH static inline size_t mvdr_modes_of(const mvdr_eigenspectrum *l, int wanted,
                                             size_t counted) {
    const size_t most = mvdr_most_modes(l);
    const size_t modes = wanted < 0 ? counted : (size_t)wanted;
    return modes < most ? modes : most;
}

/* Noise power per sensor beyond the K largest eigenvalues. */
MVDR_BOTH static inline double mvdr_noise_of(const mvdr_eigenspectrum *l, size_t modes) {
    const double n = (double)(l->n - modes);
    const double snapshots = l->snapshots > 1 ? l->snapshots : 1;
    /* L - K can be negative where L was rounded up to find K */
    const double left = snapshots - (double)modes > 0.5 ? snapshots - (double)modes : 0.5;
    const size_t end = mvdr_most_modes(l) + 1, count = end - modes;
    const double median =
        0.5 * (l->d[modes + (count - 1) / 2] + l->d[modes + count / 2]) * (snapshots / left);
    return median / mvdr_median_of_noise(n / left);
}

/* The share of a source's power that P shows. */
MVDR_BOTH static inline double mvdr_modes_share(const mvdr_eigenspectrum *l, size_t modes) {
    const double k = (double)modes, left = l->snapshots - k + 1;
    return modes ? left / (left + (double)l->n - k) : 1;
}

#endif
