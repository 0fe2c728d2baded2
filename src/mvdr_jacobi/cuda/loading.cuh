/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The loading of a bin's matrix and the share of a source's power that P shows, as in loading.c;
 * dominant modes instead of loading. */
#ifndef SONAR_MVDR_JACOBI_CUDA_LOADING_CUH
#define SONAR_MVDR_JACOBI_CUDA_LOADING_CUH

#include "mvdr_jacobi/rules/loading.h"
#include "mvdr_jacobi/cuda/matrix.cuh"
#include "mvdr_jacobi/rules/modes.h"

namespace mvdr {

/* ---- loading --------------------------------------------------------------------------------- */

__device__ inline double total(const double *d, uint32_t begin, uint32_t end) {
    double sum = 0;
    for (uint32_t i = begin + threadIdx.x; i < end; i += blockDim.x)
        sum += d[i];
    return block_sum(sum);
}

__device__ inline double median(const double *d, uint32_t k, uint32_t n, double snapshots) {
    size_t middle[2];
    mvdr_middle(n, snapshots, middle);
    return ((middle[0] < k ? d[middle[0]] : 0) + (middle[1] < k ? d[middle[1]] : 0)) / 2;
}

/* The noise in a sensor from the k eigenvalues d, descending; the other n - k are zero. All threads
 * call. */
__device__ inline double noise_of(const sonar_mvdr_spec &spec, const double *d, uint32_t k,
                                  uint32_t n, double snapshots) {
    const uint32_t sources = (uint32_t)min(spec.known_sources, (size_t)n);
    return sources ? mvdr_noise_by_count(total(d, sources, k), n, sources, snapshots)
                   : mvdr_noise_by_median(median(d, k, n, snapshots), n, snapshots);
}

struct loaded {
    double delta;
    bool fallback, floored;
};

/* Sets the bin's loading. `most`: its largest eigenvalue, or an upper bound. One thread. */
__device__ inline void set_loading(const view &v, uint32_t bin, double delta, double most) {
    bin_state &state = v.bin[bin];
    state.delta = v.spec.correct_level ? fmin(delta, MVDR_MOST_LOADING * most) : delta;
    state.most = most;
    state.base = 0;
    state.left = v.by_snapshots;
}

/* All threads call. */
__device__ inline void note_loading(const view &v, uint32_t bin, double delta, double most) {
    if (threadIdx.x == 0)
        set_loading(v, bin, delta, most);
    __syncthreads();
}

/* Sets the loading from all eigenvalues. All threads call. */
__device__ inline loaded load(const view &v, uint32_t bin, const double *d,
                              const weights &weights) {
    const uint32_t k = weights.order;
    const double snapshots = weights.effective * v.images;
    const bool fallback = mvdr_falls_back(&v.spec, v.n, snapshots);
    const double by_rule = mvdr_delta_by_rule(&v.spec, fallback, total(d, 0, k) / v.n,
                                              noise_of(v.spec, d, k, v.n, snapshots));
    const double least = mvdr_least_delta(d[0], median(d, k, v.n, snapshots), d[k - 1]);
    const double delta = fmax(by_rule, least);
    note_loading(v, bin, delta, d[0]);
    return {delta, fallback, by_rule < least};
}

/* ---- level ----------------------------------------------------------------------------------- */

/* As mvdr_level_of on the CPU. */
__device__ inline double share_of(const view &v, const weights &weights, double sum, double quiet) {
    const double each = v.images;
    return mvdr_level_share(mvdr_level_freedom(sum, quiet, each * weights.effective), weights.count,
                            each, v.spec.alpha);
}

/* The share of a source's power that P shows. All threads call. */
__device__ inline double level_by_eigenvalues(const view &v, const weights &weights,
                                              const double *d, double delta) {
    const uint32_t rank = (uint32_t)fmin((double)weights.order, weights.count * v.images);
    double sum = 0, quiet = 0;
    for (uint32_t i = threadIdx.x; i < rank; i += blockDim.x) {
        const double rest = delta / (d[i] + delta);
        sum += 1 - rest;
        quiet += 1 - rest * rest;
    }
    sum = block_sum(sum);
    return share_of(v, weights, sum, block_sum(quiet));
}

/* The same from `inverse`, the diagonal of A^-1, where A = X^-H X^-1 is the loaded matrix: the sum
 * of rest is delta tr A^-1, and that of rest^2 is delta^2 |A^-1|^2. The diagonal gives the trace
 * and bounds of the norm, which contributes little. The norm is computed only if the bounds are too
 * wide. */
__device__ inline double level_by_inverse(const view &v, const weights &weights, tiles x,
                                          const double *inverse, uint32_t m, double delta) {
    const diagonal_sums diagonal = sums_of_diagonal(inverse, m);
    const double rest = delta * diagonal.first, sum = fmax(m - rest, 0.0);
    const double least = share_of(v, weights, sum, m - delta * delta * diagonal.second),
                 most = share_of(v, weights, sum, sum);
    if (most - least < MVDR_LEVEL_CLOSE * least)
        return least;
    return share_of(v, weights, sum, m - delta * delta * inverse_energy(x, m));
}

__device__ inline mvdr_eigenspectrum eigenspectrum_of(const view &v, const double *d,
                                                      const weights &weights) {
    return {d, weights.order, v.n, weights.effective * v.images, v.spec.forward_backward};
}

/* The number of sources. One thread, since a rule reads the eigenvalues one after another. */
__device__ inline uint32_t count_sources(const view &v, const mvdr_eigenspectrum &eigen) {
    return v.spec.source_count ? (uint32_t)mvdr_count_sources(v.spec.source_count, &eigen) : 0;
}

/* Uses dominant modes instead of loading, as reject() of solve.c. One thread. */
__device__ inline loaded reject(const view &v, uint32_t bin, const mvdr_eigenspectrum &eigen,
                                uint32_t sources) {
    const size_t modes = mvdr_modes_of(&eigen, v.spec.dmr, sources);
    const double noise = mvdr_noise_of(&eigen, modes);
    const double least = mvdr_least_delta(eigen.d[0], 0, 0),
                 share = mvdr_modes_share(&eigen, modes);
    bin_state &state = v.bin[bin];
    state.delta = fmax(noise, least);
    state.most = eigen.d[0];
    state.level = share;
    state.base = v.spec.correct_level ? state.delta / v.n : 0;
    state.left = 1;
    state.modes = (uint32_t)modes;
    return {state.delta, false, noise < least};
}

} // namespace mvdr

#endif
