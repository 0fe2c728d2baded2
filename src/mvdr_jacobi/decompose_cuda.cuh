/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From a bin's factor to eigenpairs, loading and weights, in one launch: as in solve.c, loading.c
 * and mvdr_jacobi_cpu.c. */
#ifndef SONAR_MVDR_JACOBI_DECOMPOSE_CUDA_CUH
#define SONAR_MVDR_JACOBI_DECOMPOSE_CUDA_CUH

#include <float.h>

#include "mvdr_jacobi/common.h"
#include "mvdr_jacobi/factor_cuda.cuh"
#include "mvdr_jacobi/level.h"

namespace mvdr {

/* ---- eigenpairs ------------------------------------------------------------------------------ */

struct solution {
    outcome jacobi;
    uint32_t kept;
};

/* Eigenvector i: column order[i] of the triangle made a unit vector, led back to n rows by the
 * reflections of the first QR (held in t) if there was one. A warp a vector. */
template <typename T>
__device__ void write_vectors(const view &v, const scratch &s, matrix<T> u, uint32_t c, matrix<T> t,
                              uint32_t reflections, uint32_t kept, panel<T> room,
                              complex<float> *q) {
    matrix<T> w = {(complex<T> *)s.w, odd(v.n)};
    uint32_t workers = room.width ? room.width : warps();
    for (uint32_t i = warp(); i < kept && warp() < workers; i += workers) {
        complex<T> *x = room.width ? room.x.column(warp()) : w.column(i);
        const complex<T> *from = u.column(s.order[i]);
        double scale = 1 / sqrt(s.d[i]);
        for (uint32_t r = lane(); r < v.n; r += WARP)
            x[r] = r < c ? complex<T>{(T)(from[r].re * scale), (T)(from[r].im * scale)}
                         : complex<T>{0, 0};
        __syncwarp();
        for (uint32_t j = reflections; j-- > 0;)
            if (s.tau[j] > 0)
                reflect(t.column(j), s.tau[j], j, v.n, x);
        for (uint32_t r = lane(); r < v.n; r += WARP)
            q[i * v.spec.sensors + r] = {(float)x[r].re, (float)x[r].im};
        __syncwarp();
    }
    __syncthreads();
}

/* The triangle u with u u^H of the eigenvalues of S S^H, and in t and tau the way back to n rows.
 */
template <typename T>
__device__ void triangularise(const view &v, const scratch &s, arena room, uint32_t m, matrix<T> t,
                              matrix<T> u, double *norm2) {
    bool tall = m < v.n;
    fill(v, s.column, m, !tall, t);
    if (!tall) {
        reduce(t, m, v.n, u, norm2, s.tau);
        return;
    }
    /* S = Q1 R1, and S S^H = Q1 (R1 R1^H) Q1^H: go on with R1^H */
    matrix<T> triangle = {room.take((size_t)m * odd(m), (complex<T> *)s.w), odd(m)};
    reduce_tall(t, v.n, m, triangle, norm2, s.tau, panel_in<T>(room, v.n));
    reduce(triangle, m, m, u, norm2, s.spare_tau);
}

/* Eigenpairs of S S^H, descending, into scratch.d and q. Eigenvalues under eps^2 of the largest
 * belong to no direction the precision can name and are left out. */
template <typename T>
__device__ solution solve(const view &v, const scratch &s, arena room, uint32_t m, double tolerance,
                          complex<float> *q) {
    uint32_t n = v.n, c = min(n, m);
    bool tall = m < n; /* fewer columns than sensors: the triangle is m x m, Q leads back to n */
    double *norm2 = room.take(c, s.norm2);
    complex<T> *in_shared = room.take((size_t)c * odd(c), (complex<T> *)nullptr);
    matrix<T> t = {(complex<T> *)s.t, tall ? n : m};
    matrix<T> u = {in_shared ? in_shared : (complex<T> *)s.u, odd(c)};
    triangularise(v, s, room, m, t, u, norm2);
    panels<T> halves = in_shared ? panels<T>{} : panels_in<T>(room, c);
    solution result;
    result.jacobi = jacobi(columns<T>{u, norm2, c}, c, halves, tolerance, v.spec.max_sweeps);
    measure(u, c, c, norm2);
    result.kept = min(rank<T>(norm2, c, s.order), v.kept);
    for (uint32_t i = threadIdx.x; i < result.kept; i += threads())
        s.d[i] = norm2[s.order[i]];
    __syncthreads();
    write_vectors(v, s, u, c, t, tall ? m : 0, result.kept, panel_in<T>(room, n), q);
    return result;
}

/* ---- loading --------------------------------------------------------------------------------- */

__device__ inline double total(const double *d, uint32_t begin, uint32_t end) {
    double sum = 0;
    for (uint32_t i = begin + threadIdx.x; i < end; i += threads())
        sum += d[i];
    return block_sum(sum);
}

/* Median of the largest min(n, L_eff) eigenvalues, times min(1, L_eff/n). */
__device__ inline double noise_by_median(const double *d, uint32_t k, uint32_t n,
                                         double snapshots) {
    uint32_t count = (uint32_t)lround(fmin((double)n, fmax(1.0, snapshots)));
    uint32_t low = (count - 1) / 2, high = count / 2;
    double median = ((low < k ? d[low] : 0) + (high < k ? d[high] : 0)) / 2;
    return median * fmin(1.0, snapshots / n);
}

/* delta from the k eigenvalues d, descending; the other n - k are zero. All threads call. */
__device__ inline double loading(const sonar_mvdr_spec &spec, const double *d, uint32_t k,
                                 uint32_t n, double snapshots, bool *fallback) {
    uint32_t sources = (uint32_t)min(spec.known_sources, (size_t)n);
    double trace = total(d, 0, k) / n, rest = total(d, sources, k);
    *fallback = spec.loading == SONAR_LOADING_NOISE &&
                (snapshots <= 2 * (double)spec.known_sources + 2 || sources == n);
    if (spec.loading == SONAR_LOADING_ABSOLUTE)
        return spec.eps;
    if (spec.loading == SONAR_LOADING_TRACE || *fallback)
        return (*fallback ? MVDR_FALLBACK_EPS : 1) * spec.eps * trace;
    if (!sources)
        return spec.eps * noise_by_median(d, k, n, snapshots);
    return spec.eps * rest / ((double)(n - sources) * (1 - sources / snapshots));
}

/* Columns too short for the loading to notice, now or summed over all updates to come, are not
 * worth carrying on; while the average fills up all are kept. All threads call. */
__device__ inline uint32_t worth_keeping(const sonar_mvdr_spec &spec, uint64_t seen,
                                         const double *d, uint32_t k, double delta) {
    double settled = 2 * (1 + spec.alpha) / (1 - spec.alpha), kept = 0;
    if (!((double)seen > settled))
        return k;
    for (uint32_t i = threadIdx.x; i < k; i += threads())
        kept += !(d[i] < 0.005 * (1 - spec.alpha) * delta);
    return (uint32_t)block_sum(kept);
}

/* ---- a bin ----------------------------------------------------------------------------------- */

/* The share of a source's power that P shows, as mvdr_level of the CPU's. All threads call. */
__device__ inline double level_share(const sonar_mvdr_spec &spec, const double *d, uint32_t k,
                                     double delta, double seen, double effective) {
    double each = spec.forward_backward ? 2 : 1, sum = 0, quiet = 0;
    for (uint32_t i = threadIdx.x; i < k; i += threads()) {
        double rest = delta / (d[i] + delta);
        sum += 1 - rest;
        quiet += 1 - rest * rest;
    }
    sum = block_sum(sum);
    quiet = block_sum(quiet);
    return mvdr_level_share(mvdr_level_freedom(sum, quiet, each * effective), seen, each,
                            spec.alpha);
}

/* From eigenvalues of S S^H (in scratch) to what the spectrum needs; returns flags. */
__device__ inline unsigned weigh(const view &v, uint32_t bin, uint32_t k, const factor &factor,
                                 double *d, double *delta, double *share) {
    const sonar_mvdr_spec &spec = v.spec;
    size_t first = (size_t)bin * v.kept;
    for (uint32_t i = threadIdx.x; i < k; i += threads()) {
        v.d[first + i] = d[i] * factor.factor;
        d[i] = v.d[first + i] / factor.share;
    }
    __syncthreads();
    bool fallback, correct = spec.correct_level;
    double effective = factor.snapshots * (spec.forward_backward ? 2 : 1);
    double by_rule = loading(spec, d, k, v.n, effective, &fallback);
    double least = k ? MVDR_LEAST_DELTA * d[0] : 0;
    *delta = fmax(by_rule, fmax(least, DBL_MIN));
    double seen = spec.alpha > 0 ? (double)v.bin[bin].seen : factor.snapshots;
    *share = level_share(spec, d, k, *delta, seen, factor.snapshots);
    for (uint32_t i = threadIdx.x; i < k; i += threads()) {
        v.weight[first + i] = (float)(*delta / (d[i] + *delta));
        if (correct)
            v.gain[first + i] = (float)(d[i] / (d[i] + *delta));
    }
    uint32_t carried = spec.alpha > 0 ? worth_keeping(spec, v.bin[bin].seen, d, k, *delta) : 0;
    if (threadIdx.x == 0) {
        v.bin[bin].carried = carried;
        v.bin[bin].pairs = k;
        v.bin[bin].level = !k ? 0 : correct ? *delta / (v.n * *share) : *delta;
    }
    return (fallback ? SONAR_MVDR_FLAG_TRACE_FALLBACK : 0) |
           (by_rule < least ? SONAR_MVDR_FLAG_LOADING_FLOOR : 0) |
           (*share < (correct ? MVDR_LEVEL_CORRECTED : MVDR_LEVEL_BIASED)
                ? SONAR_MVDR_FLAG_LEVEL_BIASED
                : 0);
}

/* With about as many snapshots as sensors float32 alone errs by 0.2 to 0.9 dB. */
__device__ inline bool wants_double(double snapshots, uint32_t n) {
    return snapshots > 0.75 * n && snapshots < 1.5 * n;
}

__device__ inline void report(const view &v, uint32_t bin, const outcome &jacobi, double delta,
                              double share, unsigned flags, double snapshots) {
    float *info = v.info + (size_t)bin * SONAR_MVDR_INFO_FIELDS;
    if (threadIdx.x)
        return;
    info[SONAR_MVDR_SWEEPS] = (float)jacobi.sweeps;
    info[SONAR_MVDR_RESIDUAL] = (float)jacobi.residual;
    info[SONAR_MVDR_DELTA] = (float)fmin(delta, (double)FLT_MAX);
    info[SONAR_MVDR_FLAGS] = (float)flags;
    info[SONAR_MVDR_SNAPSHOTS] = (float)snapshots;
    info[SONAR_MVDR_LEVEL] = (float)share;
    info[SONAR_MVDR_OFFSET] = (float)v.bin[bin].offset;
}

/* Bins first_bin .. first_bin + gridDim.x - 1, a block each, all by itself from the factor to the
 * weights: whether it has converged is decided here. */
template <unsigned COUNT>
__global__ void __launch_bounds__(COUNT, 1) decompose(view v, arrivals in, uint32_t first_bin) {
    extern __shared__ __align__(16) unsigned char room[];
    uint32_t bin = first_bin + blockIdx.x;
    scratch s = scratch_of(v, blockIdx.x);
    factor factor = v.spec.alpha > 0 ? forget_factor(v, in, bin, s) : block_factor(v, bin, s);
    double snapshots = factor.snapshots * (v.spec.forward_backward ? 2 : 1), delta = 0, share = 1;
    unsigned flags = 0;
    solution solution = {{0, 0, true}, 0};
    if (threadIdx.x == 0) {
        v.bin[bin].carried = v.bin[bin].pairs = 0;
        v.bin[bin].level = 0;
    }
    if (factor.m && v.n) {
        bool in_double = wants_double(snapshots, v.n);
        complex<float> *q = v.q + (size_t)bin * v.kept * v.spec.sensors;
        arena arena = {room, v.shared_bytes};
        solution = in_double ? solve<double>(v, s, arena, factor.m, 3e-10, q)
                             : solve<float>(v, s, arena, factor.m, 3e-7, q);
        flags = weigh(v, bin, solution.kept, factor, s.d, &delta, &share) |
                (solution.jacobi.converged ? 0 : SONAR_MVDR_FLAG_NOT_CONVERGED);
    }
    report(v, bin, solution.jacobi, delta, share, flags, factor.snapshots);
}

using decompose_function = void (*)(view, arrivals, uint32_t);

/* NULL for a number of threads that no kernel is made for. */
inline decompose_function decompose_kernel(long count) {
    switch (count) {
    case 256:
        return decompose<256>;
    case 512:
        return decompose<512>;
    case 1024:
        return decompose<1024>;
    default:
        return nullptr;
    }
}

} // namespace mvdr

#endif
