/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Diagonal loading: delta = eps * reference. With fewer snapshots than sensors the reference
 * decides the spectrum: the trace includes the loudest ship, the noise estimate does not.
 */
#include "mvdr_jacobi/cpu/internal.h"
#include "mvdr_jacobi/rules/loading.h"

#include <math.h>

static double total(const double *d, size_t begin, size_t end) {
    double sum = 0;
    for (size_t i = begin; i < end; i++)
        sum += d[i];
    return sum;
}

/* Eigenvalue i of n, in falling order. Only k are stored; the others are zero. */
static double at(const double *d, size_t k, size_t i) {
    return i < k ? d[i] : 0;
}

static double median(const double *d, size_t k, size_t n, double snapshots) {
    size_t middle[2];
    mvdr_middle(n, snapshots, middle);
    return (at(d, k, middle[0]) + at(d, k, middle[1])) / 2;
}

static double noise_of(const sonar_mvdr_spec *spec, const double *d, size_t k, size_t n,
                       double snapshots) {
    const size_t sources = spec->known_sources;
    if (!sources)
        return mvdr_noise_by_median(median(d, k, n, snapshots), n, snapshots);
    return mvdr_noise_by_count(sources < k ? total(d, sources, k) : 0, n, sources, snapshots);
}

/* Uses the trace as an upper bound of the largest eigenvalue, on which the least delta depends. */
bool mvdr_loading_by_trace(const sonar_mvdr_spec *spec, double trace, size_t n, double snapshots,
                           mvdr_load *load) {
    const bool fallback = mvdr_falls_back(spec, n, snapshots);
    *load = (mvdr_load){.delta = mvdr_delta_by_rule(spec, fallback, trace / (double)n, 0),
                        .fallback = fallback};
    return !mvdr_loads_by_noise(spec, fallback) && trace > 0 &&
           load->delta >= mvdr_least_delta(trace, 0, 0);
}

bool mvdr_loading_by_median(const sonar_mvdr_spec *spec, double trace, double median, size_t n,
                            double snapshots, mvdr_load *load) {
    *load = (mvdr_load){.delta = spec->eps * mvdr_noise_by_median(median, n, snapshots)};
    return load->delta >= mvdr_least_delta(trace, median, 0);
}

mvdr_load mvdr_loading(const sonar_mvdr_spec *spec, const double *d, size_t k, size_t n,
                       double snapshots) {
    const bool fallback = mvdr_falls_back(spec, n, snapshots);
    const double noise =
        mvdr_loads_by_noise(spec, fallback) ? noise_of(spec, d, k, n, snapshots) : 0;
    mvdr_load load = {.delta =
                          mvdr_delta_by_rule(spec, fallback, total(d, 0, k) / (double)n, noise),
                      .fallback = fallback};
    double least = mvdr_least_delta(d[0], median(d, k, n, snapshots), d[k - 1]);
    load.floored = load.delta < least;
    load.delta = fmax(load.delta, least);
    return load;
}

double mvdr_level_of(const sonar_mvdr_spec *spec, double sum, double quiet, double seen,
                     double effective) {
    double each = spec->forward_backward ? 2 : 1;
    return mvdr_level_share(mvdr_level_freedom(sum, quiet, each * effective), seen, each,
                            spec->alpha);
}

double mvdr_level(const sonar_mvdr_spec *spec, const double *d, size_t k, double delta, double seen,
                  double effective) {
    double sum = 0, quiet = 0;
    for (size_t i = 0; i < k; i++) {
        double rest = delta / (d[i] + delta);
        sum += 1 - rest;
        quiet += 1 - rest * rest;
    }
    return mvdr_level_of(spec, sum, quiet, seen, effective);
}
