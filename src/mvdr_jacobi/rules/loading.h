/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The rules of diagonal loading, delta = eps * reference, for the host and for devices. A rule is a
 * row of SONAR_LOADING_RULES (sonar/stages.h) and a case in mvdr_delta_by_rule. */
#ifndef SONAR_MVDR_JACOBI_RULES_LOADING_H
#define SONAR_MVDR_JACOBI_RULES_LOADING_H

#include "mvdr_jacobi/rules/level.h"
#include "sonar/stages.h"

/* The usual eps is 1 for the noise rule and 0.01 for the trace rule. Where the trace replaces the
 * noise, the configured eps is multiplied by this. */
#define MVDR_FALLBACK_EPS 0.01

/* Whether the trace replaces the noise rule for n sensors and this number of snapshots, mirror
 * images included. */
MVDR_BOTH static inline bool mvdr_falls_back(const sonar_mvdr_spec *spec, size_t n,
                                             double snapshots) {
    return spec->loading == SONAR_LOADING_NOISE &&
           (snapshots <= 2 * (double)spec->known_sources + 2 || spec->known_sources >= n);
}

/* Whether the loading needs eigenvalues and not only their mean. */
MVDR_BOTH static inline bool mvdr_loads_by_noise(const sonar_mvdr_spec *spec, bool fallback) {
    return spec->loading == SONAR_LOADING_NOISE && !fallback;
}

/* delta from the mean eigenvalue and the noise. Only rules that need the noise read it. */
MVDR_BOTH static inline double mvdr_delta_by_rule(const sonar_mvdr_spec *spec, bool fallback,
                                                  double mean, double noise) {
    switch (spec->loading) {
    case SONAR_LOADING_ABSOLUTE:
        return spec->eps;
    case SONAR_LOADING_TRACE:
        return spec->eps * mean;
    case SONAR_LOADING_NOISE:
        break;
    }
    return fallback ? MVDR_FALLBACK_EPS * spec->eps * mean : spec->eps * noise;
}

/* Indices of the two middle ones of the min(n, L_eff) largest eigenvalues, in falling order. Their
 * mean is the median; they are the same if the number is odd. */
MVDR_BOTH static inline void mvdr_middle(size_t n, double snapshots, size_t middle[2]) {
    const size_t count = (size_t)lround(fmin((double)n, fmax(1.0, snapshots)));
    middle[0] = (count - 1) / 2, middle[1] = count / 2;
}

/* Noise power in a sensor from the median of the min(n, L_eff) largest eigenvalues. With L_eff < n
 * these few eigenvalues hold the noise of all n dimensions. */
MVDR_BOTH static inline double mvdr_noise_by_median(double median, size_t n, double snapshots) {
    const double share = snapshots / (double)n;
    return median * (share < 1 ? share : 1);
}

/* Noise power in a sensor from `rest`, the sum of all eigenvalues except the K largest, those of
 * the known sources. Corrected for the noise in the K dimensions of the sources. */
MVDR_BOTH static inline double mvdr_noise_by_count(double rest, size_t n, size_t sources,
                                                   double snapshots) {
    return rest / ((double)(n - sources) * (1 - (double)sources / snapshots));
}

#endif
