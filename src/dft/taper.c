/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tapers (window functions), periodic (DFT-even): Harris, "On the use of windows for harmonic
 * analysis with the discrete Fourier transform", Proc. IEEE 66 (1978). */
#include "dft/dft.h"

#include <math.h>

/* Cosine sums a0 - a1 cos(x) + a2 cos(2x) - ...; flat-top: the five terms of ISO 18431-2. */
static const double cosine_terms[][5] = {
    [SONAR_HANN] = {0.5, 0.5},
    [SONAR_RECTANGULAR] = {1.0},
    [SONAR_HAMMING] = {0.54, 0.46},
    [SONAR_BLACKMAN] = {0.42, 0.5, 0.08},
    [SONAR_FLATTOP] = {0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368},
};

static double cosine_sum(const double term[5], double x) {
    return term[0] - term[1] * cos(x) + term[2] * cos(2 * x) - term[3] * cos(3 * x) +
           term[4] * cos(4 * x);
}

/* Modified Bessel function of the first kind, order 0, by its power series. */
static double bessel_i0(double x) {
    double sum = 1, term = 1;
    for (int k = 1; term > 1e-17 * sum; k++) {
        term *= x * x / (4.0 * k * k);
        sum += term;
    }
    return sum;
}

void sonar_dft_taper(sonar_taper kind, double kaiser_beta, size_t n, double *w) {
    for (size_t i = 0; i < n; i++) {
        double t = (double)i / (double)n; /* position in the period, 0..1 */
        if (kind == SONAR_KAISER)
            w[i] = bessel_i0(kaiser_beta * 2 * sqrt(t * (1 - t))) / bessel_i0(kaiser_beta);
        else
            w[i] = cosine_sum(cosine_terms[kind], 2 * M_PI * t);
    }
}
