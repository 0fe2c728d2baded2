/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The interpolating filter: a sinc under a Kaiser window, each tap fitted by a polynomial in the
 * fraction of a sample. */
#include <math.h>

#include "analysis/beam/beam.h"

/* Kaiser (1974): side lobes of 70 dB, beta = 0.1102 (70 - 8.7). */
static const double BETA = 6.755;

/* Modified Bessel function of order 0, by its series; all its terms are positive. */
static double bessel(double x) {
    double term = 1, sum = 1;
    for (int i = 1; term > 1e-17 * sum; i++) {
        term *= (x / 2 / i) * (x / 2 / i);
        sum += term;
    }
    return sum;
}

/* The tap at `at` samples from the wanted time. */
static double ideal(double at) {
    const double span = SONAR_BEAM_HALF + 0.5, u = at / span;
    const double window = bessel(BETA * sqrt(fmax(0, 1 - u * u))) / bessel(BETA);
    return window * (at == 0 ? 1 : sin(M_PI * at) / (M_PI * at));
}

/* Chebyshev's polynomials as powers: to[order][power]. */
static void powers_of_chebyshev(double to[SONAR_BEAM_POWERS][SONAR_BEAM_POWERS]) {
    to[0][0] = to[1][1] = 1;
    for (int n = 2; n < SONAR_BEAM_POWERS; n++)
        for (int p = 0; p < SONAR_BEAM_POWERS; p++)
            to[n][p] = (p ? 2 * to[n - 1][p - 1] : 0) - to[n - 2][p];
}

/* Interpolates each tap at the Chebyshev nodes, which is within a small factor of the best fit. */
void sonar_beam_design(float coefficient[SONAR_BEAM_POWERS][SONAR_BEAM_TAPS]) {
    double chebyshev[SONAR_BEAM_POWERS][SONAR_BEAM_POWERS] = {{0}};
    powers_of_chebyshev(chebyshev);
    for (int tap = 0; tap < SONAR_BEAM_TAPS; tap++) {
        double sum[SONAR_BEAM_POWERS] = {0};
        for (int n = 0; n < SONAR_BEAM_POWERS; n++) {
            double weight = 0;
            for (int i = 0; i < SONAR_BEAM_POWERS; i++) {
                const double angle = M_PI * (i + 0.5) / SONAR_BEAM_POWERS;
                weight += ideal(tap - SONAR_BEAM_HALF - 0.5 * cos(angle)) * cos(n * angle);
            }
            weight *= (n ? 2.0 : 1.0) / SONAR_BEAM_POWERS;
            for (int p = 0; p < SONAR_BEAM_POWERS; p++)
                sum[p] += weight * chebyshev[n][p];
        }
        for (int p = 0; p < SONAR_BEAM_POWERS; p++)
            coefficient[p][tap] = (float)sum[p];
    }
}
