/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A bin's matrix, its loading, and what the spectrum needs: the inverse of its Cholesky factor, or
 * eigenvectors. One thread block a bin, so that nothing is decided on the host. As in solve.c and
 * loading.c, but that eigenvalues are found only as far as the loading rule wants them: of large
 * matrices the two in the middle, and none for a share of the trace or an absolute loading.
 */
#ifndef SONAR_MVDR_JACOBI_SOLVE_CUDA_CUH
#define SONAR_MVDR_JACOBI_SOLVE_CUDA_CUH

#include <float.h>

#include "mvdr_jacobi/common.h"
#include "mvdr_jacobi/eigen_cuda.cuh"
#include "mvdr_jacobi/factor_cuda.cuh"
#include "mvdr_jacobi/level.h"
#include "mvdr_jacobi/median_cuda.cuh"
#include "mvdr_jacobi/modes.h"
#include "mvdr_jacobi/sums_cuda.cuh"

namespace mvdr {

/* ---- the matrix ------------------------------------------------------------------------------ */

/* Weights of the bin's snapshots in R, newest first: equal ones, or fading ones. */
struct weights {
    double count;     /* snapshots that count; forgetting: accepted since the reset */
    double effective; /* L, or L_eff with forgetting */
    double divisor;   /* sensor space: of the sums */
    uint32_t order;   /* eigenvalues that are not those of slots without a snapshot */
};

/* Each slot's root; the first warp, as a fading weight depends on how many valid ones came later.
 */
__device__ inline void weigh_slots(const view &v, uint32_t bin, double each, double fade) {
    const uint8_t *valid = v.valid + bin * (size_t)v.length;
    const uint32_t filled = v.ring->filled;
    uint32_t later = 0;
    for (uint32_t base = 0; base < v.length && warp() == 0; base += WARP) {
        const uint32_t age = base + lane();
        const uint32_t slot =
            (uint32_t)(((size_t)v.ring->next + 2 * (size_t)v.length - 1 - age) % v.length);
        const bool counts = age < filled && valid[slot];
        const unsigned votes = __ballot_sync(ALL_LANES, counts);
        const uint32_t newer = later + __popc(votes & ((1u << lane()) - 1));
        if (age < v.length)
            v.root[bin * (size_t)v.length + slot] =
                counts ? each * (fade < 1 ? pow(fade, (double)newer) : 1) : 0;
        later += __popc(votes);
    }
    __syncthreads();
}

__device__ inline weights weights_of(const view &v, uint32_t bin) {
    const double alpha = v.spec.alpha;
    double count = 0;
    for (uint32_t i = threadIdx.x; i < v.ring->filled; i += blockDim.x)
        count += v.valid[bin * (size_t)v.length + i];
    count = block_sum(count);
    weights w = {count, count, count, v.by_snapshots ? v.images * (uint32_t)count : v.order};
    if (alpha > 0) {
        w.count = (double)v.bin[bin].seen;
        const double faded = pow(alpha, w.count);
        w.effective = (1 + alpha) / (1 - alpha) * (1 - faded) / (1 + faded);
        w.divisor = 1 - faded;
    }
    if (v.by_snapshots && w.count > 0)
        weigh_slots(v, bin, sqrt((alpha > 0 ? 1 - alpha : 1) / (w.divisor * v.images)),
                    alpha > 0 ? sqrt(alpha) : 1);
    return w;
}

/* Element (i, j) of the bin's matrix: G over the columns or R over the rows. */
struct bin_matrix {
    const view &v;
    const complex64 *sums, *rest; /* rest: NULL where sums have none */
    const double *root;
    double scale; /* sensor space: 1/divisor */

    __device__ bin_matrix(const view &view, uint32_t bin, const weights &weights)
        : v(view), sums(sums_of(view, bin)),
          rest(view.rest ? view.rest + bin * view.sums_stride : nullptr),
          root(view.root + bin * (size_t)view.length), scale(1 / weights.divisor) {}

    __device__ complex64 gram(uint32_t i, uint32_t j) const {
        const uint32_t si = i % v.length, sj = j % v.length;
        const double weight = root[si] * root[sj];
        if (weight == 0) /* such sums may be no numbers */
            return {0, 0};
        complex64 x;
        if (i >= v.length && j >= v.length)
            x = conj(sums[(size_t)sj * v.length + si]);
        else
            x = i < v.length ? sums[(size_t)j * v.length + i]
                             : conj(sums[(size_t)i * v.length + j]);
        return {weight * x.re, weight * x.im};
    }

    __device__ complex64 covariance(uint32_t row, uint32_t column) const {
        const size_t i = v.sensor[row], j = v.sensor[column];
        const size_t at = i >= j ? j * v.most + i : i * v.most + j;
        complex64 x = sums[at];
        if (rest)
            x = {x.re + rest[at].re, x.im + rest[at].im};
        return i >= j ? x : conj(x);
    }

    __device__ complex64 at(uint32_t i, uint32_t j) const {
        if (v.by_snapshots)
            return gram(i, j);
        complex64 x = covariance(i, j);
        if (v.spec.forward_backward) {
            const complex64 y = covariance((uint32_t)v.partner[i], (uint32_t)v.partner[j]);
            x = {0.5 * (x.re + y.re), 0.5 * (x.im - y.im)};
        }
        return {scale * x.re, scale * x.im};
    }
};

/* unit times the matrix; a row and a column of zeros to make `rows`. */
__device__ inline void assemble(const bin_matrix &x, matrix a, uint32_t m, uint32_t rows,
                                double unit) {
    for (uint32_t j = warp(); j < rows; j += warps())
        for (uint32_t i = lane(); i < rows; i += WARP) {
            const complex64 e = i < m && j < m ? x.at(i, j) : complex64{0, 0};
            a(i, j) = {unit * e.re, i == j ? 0 : unit * e.im};
        }
    __syncthreads();
}

/* What factor() takes: unit times the matrix plus `shift` on the diagonal, and the identity up to
 * whole panels. */
__device__ inline void assemble_panels(const bin_matrix &x, tiles f, uint32_t m, double unit,
                                       double shift) {
    const uint32_t rows = padded(m);
    for (uint32_t j = warp(); j < rows; j += warps())
        for (uint32_t i = j / PANEL * PANEL + lane(); i < rows; i += WARP) {
            complex64 e = {i == j ? 1.0 : 0.0, 0};
            if (i < m && j < m) {
                e = x.at(i, j);
                e = {unit * e.re + (i == j ? shift : 0), i == j ? 0 : unit * e.im};
            }
            f(i, j) = e;
        }
    __syncthreads();
}

/* ---- loading --------------------------------------------------------------------------------- */

__device__ inline double total(const double *d, uint32_t begin, uint32_t end) {
    double sum = 0;
    for (uint32_t i = begin + threadIdx.x; i < end; i += blockDim.x)
        sum += d[i];
    return block_sum(sum);
}

/* Of the largest min(n, L_eff) eigenvalues. */
__device__ inline double median(const double *d, uint32_t k, uint32_t n, double snapshots) {
    const uint32_t count = (uint32_t)lround(fmin((double)n, fmax(1.0, snapshots)));
    const uint32_t low = (count - 1) / 2, high = count / 2;
    return ((low < k ? d[low] : 0) + (high < k ? d[high] : 0)) / 2;
}

/* The noise rule has too few snapshots: a share of the trace replaces it. */
__device__ inline bool falls_back(const sonar_mvdr_spec &spec, uint32_t n, double snapshots) {
    return spec.loading == SONAR_LOADING_NOISE &&
           (snapshots <= 2 * (double)spec.known_sources + 2 || spec.known_sources >= n);
}

/* The noise in a sensor from the k eigenvalues d, descending; the other n - k are zero. All threads
 * call. */
__device__ inline double noise_of(const sonar_mvdr_spec &spec, const double *d, uint32_t k,
                                  uint32_t n, double snapshots) {
    const uint32_t sources = (uint32_t)min(spec.known_sources, (size_t)n);
    if (!sources)
        return median(d, k, n, snapshots) * fmin(1.0, snapshots / n);
    return total(d, sources, k) / ((double)(n - sources) * (1 - sources / snapshots));
}

/* delta from the mean eigenvalue or from the noise, which is not looked at where no rule wants it.
 */
__device__ inline double loading(const sonar_mvdr_spec &spec, bool fallback, double mean,
                                 double noise) {
    if (spec.loading == SONAR_LOADING_ABSOLUTE)
        return spec.eps;
    if (spec.loading == SONAR_LOADING_TRACE || fallback)
        return (fallback ? MVDR_FALLBACK_EPS : 1) * spec.eps * mean;
    return spec.eps * noise;
}

struct loaded {
    double delta;
    bool fallback, floored;
};

/* The bin's loading, `most` being its largest eigenvalue or a little more. */
__device__ inline void note_loading(const view &v, uint32_t bin, double delta, double most) {
    if (threadIdx.x == 0) {
        v.bin[bin].delta = v.spec.correct_level ? fmin(delta, MVDR_MOST_LOADING * most) : delta;
        v.bin[bin].most = most;
        v.bin[bin].base = 0;
        v.bin[bin].left = v.by_snapshots;
    }
    __syncthreads();
}

/* From all eigenvalues. All threads call. */
__device__ inline loaded load(const view &v, uint32_t bin, const double *d,
                              const weights &weights) {
    const uint32_t k = weights.order;
    const double snapshots = weights.effective * v.images;
    const bool fallback = falls_back(v.spec, v.n, snapshots);
    const double by_rule =
        loading(v.spec, fallback, total(d, 0, k) / v.n, noise_of(v.spec, d, k, v.n, snapshots));
    const double least = mvdr_least_delta(d[0], median(d, k, v.n, snapshots), d[k - 1]);
    const double delta = fmax(by_rule, least);
    note_loading(v, bin, delta, d[0]);
    return {delta, fallback, by_rule < least};
}

/* ---- level ----------------------------------------------------------------------------------- */

/* As mvdr_level of the CPU's. */
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

/* The same where sum of rest is delta tr A^-1 and sum of rest^2 is delta^2 |A^-1|^2, A = X^-H X^-1
 * being the loaded matrix. The diagonal of A^-1 gives the former and bounds to the latter, whose
 * part is small; it is worked out where they do not do. */
__device__ inline double level_by_inverse(const view &v, const weights &weights, tiles x,
                                          uint32_t m, double delta) {
    constexpr double CLOSE = 5e-4; /* 0.002 dB */
    const diagonal_sums diagonal = inverse_diagonal(x, m);
    const double rest = delta * diagonal.first, sum = fmax(m - rest, 0.0);
    const double least = share_of(v, weights, sum, m - delta * delta * diagonal.second),
                 most = share_of(v, weights, sum, sum);
    if (most - least < CLOSE * least)
        return least;
    return share_of(v, weights, sum, m - delta * delta * inverse_energy(x, m));
}

__device__ inline mvdr_ladder ladder_of(const view &v, const double *d, const weights &weights) {
    return {d, weights.order, v.n, weights.effective * v.images, v.spec.forward_backward};
}

/* One thread: a rule goes through the eigenvalues once. */
__device__ inline uint32_t count_sources(const view &v, const mvdr_ladder &ladder) {
    return v.spec.source_count ? (uint32_t)mvdr_count_sources(v.spec.source_count, &ladder) : 0;
}

/* Dominant modes in place of loading; one thread, as reject() of solve.c. */
__device__ inline loaded reject(const view &v, uint32_t bin, const mvdr_ladder &ladder,
                                uint32_t sources) {
    const size_t modes = mvdr_modes_of(&ladder, v.spec.dmr, sources);
    const double noise =
        mvdr_noise_of(&ladder, v.spec.dmr_noise, modes, mvdr_sum_from(&ladder, modes));
    const double least = mvdr_least_delta(ladder.d[0], 0, 0),
                 share = mvdr_modes_share(&ladder, modes);
    bin_state &state = v.bin[bin];
    state.delta = fmax(noise, least);
    state.most = ladder.d[0];
    state.level = share;
    state.base = v.spec.correct_level ? state.delta / v.n : 0;
    state.left = 1;
    state.modes = (uint32_t)modes;
    return {state.delta, false, noise < least};
}

/* The largest of `count`, and zeros. */
__device__ inline void write_eigenvalues(const view &v, uint32_t bin, const double *d,
                                         uint32_t count) {
    for (uint32_t i = threadIdx.x; i < v.modes; i += blockDim.x)
        v.eigenvalue[(size_t)bin * v.modes + i] =
            i < count ? (float)fmin(d[i], (double)FLT_MAX) : 0;
}

__device__ inline void report(const view &v, uint32_t bin, const outcome &made,
                              const loaded &loaded, double level, double snapshots,
                              uint32_t sources) {
    const double biased = v.spec.correct_level ? MVDR_LEVEL_CORRECTED : MVDR_LEVEL_BIASED;
    const unsigned flags = (loaded.fallback ? SONAR_MVDR_FLAG_TRACE_FALLBACK : 0) |
                           (loaded.floored ? SONAR_MVDR_FLAG_LOADING_FLOOR : 0) |
                           (level < biased ? SONAR_MVDR_FLAG_LEVEL_BIASED : 0) |
                           (made.converged ? 0 : SONAR_MVDR_FLAG_NOT_CONVERGED);
    float *info = v.info + (size_t)bin * SONAR_MVDR_INFO_FIELDS;
    if (threadIdx.x)
        return;
    v.bin[bin].level = level;
    info[SONAR_MVDR_SWEEPS] = (float)made.sweeps;
    info[SONAR_MVDR_RESIDUAL] = (float)made.residual;
    info[SONAR_MVDR_DELTA] = (float)fmin(loaded.delta, (double)FLT_MAX);
    info[SONAR_MVDR_FLAGS] = (float)flags;
    info[SONAR_MVDR_SNAPSHOTS] = (float)snapshots;
    info[SONAR_MVDR_LEVEL] = (float)level;
    info[SONAR_MVDR_OFFSET] = (float)v.bin[bin].offset;
    info[SONAR_MVDR_SOURCES] = (float)sources;
    info[SONAR_MVDR_MODES] = (float)v.bin[bin].modes;
}

/* What spectra have told of an earlier window, if it was the same snapshots'. One thread. */
__device__ inline void forget_spectra(const view &v, uint32_t bin) {
    float *info = v.info + (size_t)bin * SONAR_MVDR_INFO_FIELDS;
    info[SONAR_MVDR_LIMITED] = info[SONAR_MVDR_SUBSPACE] = 0;
    if (!v.music_decomposes)
        return;
    info[SONAR_MVDR_SWEEPS] = info[SONAR_MVDR_RESIDUAL] = 0;
    info[SONAR_MVDR_FLAGS] =
        (float)((unsigned)info[SONAR_MVDR_FLAGS] & ~(unsigned)SONAR_MVDR_FLAG_NOT_CONVERGED);
}

/* ---- eigenvalues ----------------------------------------------------------------------------- */

/* Where a bin's eigenvalues are worked out. */
struct room {
    matrix a, w;                /* w: with eigenvectors */
    complex64 *vector[VECTORS]; /* as long as the matrix */
    double *d;
};

/* In shared memory if there is enough, else in the bin's part of `a` and, with eigenvectors, `w`.
 */
__device__ inline room room_for(const view &v, uint32_t bin, arena shared, complex64 *place_a,
                                complex64 *place_w) {
    const uint32_t rows = v.order + v.order % 2, ld = odd(rows);
    const size_t first = (size_t)bin * v.most * v.most;
    complex64 *spare = v.vector + (size_t)bin * VECTORS * v.most;
    room r = {};
    for (uint32_t i = 0; i < VECTORS; i++)
        r.vector[i] = shared.take(rows, spare + (size_t)i * v.most);
    r.d = v.d + (size_t)bin * v.most;
    complex64 *a = shared.take((size_t)rows * ld, (complex64 *)nullptr);
    r.a = {a ? a : place_a + first, a ? ld : v.most};
    if (!place_w)
        return r;
    complex64 *w = shared.take((size_t)rows * ld, (complex64 *)nullptr);
    r.w = {w ? w : place_w + first, w ? ld : v.most};
    return r;
}

/* Into d, of a matrix of trace at most 1. */
__device__ inline void eigenvalues(const room &r, uint32_t m) {
    double *diagonal = (double *)r.vector[4], *beside2 = diagonal + m;
    tridiagonalise(r.a, m, {{r.vector[0], r.vector[1]}, r.vector[2], r.vector[3]}, diagonal,
                   beside2);
    bisect(diagonal, beside2, m, 1, r.d);
}

/* a's diagonal into by_column, and sorted, the first of equals first, into d; each column's place
 * there. */
__device__ inline void sort_diagonal(matrix a, uint32_t m, uint32_t rows, double *d,
                                     double *by_column, uint32_t *places) {
    for (uint32_t i = threadIdx.x; i < rows; i += blockDim.x)
        by_column[i] = fmax(a(i, i).re, 0.0);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < rows; i += blockDim.x) {
        uint32_t place = 0;
        for (uint32_t j = 0; j < rows; j++)
            place += by_column[j] > by_column[i] || (by_column[j] == by_column[i] && j < i);
        places[i] = place;
        if (place < m)
            d[place] = by_column[i];
    }
    __syncthreads();
}

/* What multiplies the square of each eigenvector's product, from by_column's eigenvalues times
 * unit: 1/(d + delta) in that unit too, or of dominant modes what takes them out of |a|^2. */
__device__ inline void weigh_vectors(const view &v, uint32_t bin, uint32_t rows, double unit,
                                     const uint32_t *places, double *by_column) {
    const bin_state &state = v.bin[bin];
    for (uint32_t i = threadIdx.x; i < rows; i += blockDim.x) {
        const double d = by_column[i] / unit;
        const bool dominant = places[i] < state.modes && d > state.delta;
        if (!v.spec.dmr)
            by_column[i] = 1 / (by_column[i] + state.delta * unit);
        else
            by_column[i] = dominant ? (1 - state.delta / d) / (v.by_snapshots ? d : 1) : 0;
    }
}

/* Which eigenvectors span MUSIC's signal subspace, `sources` being asked for, from the eigenvalues
 * in falling order and those of each column times unit; member may be by_column. All threads call.
 */
__device__ inline void choose_members(const view &v, uint32_t bin, uint32_t rows, double unit,
                                      size_t sources, const double *d, const uint32_t *places,
                                      const double *by_column, double *member) {
    double count = 0;
    for (uint32_t i = threadIdx.x; i < rows; i += blockDim.x) {
        const double own = by_column[i] / unit;
        const bool belongs = places[i] < sources && own > MVDR_LEAST_MODE * d[0];
        member[i] = !belongs ? 0 : v.by_snapshots ? 1 / own : 1;
        count += belongs;
    }
    count = block_sum(count);
    if (threadIdx.x == 0)
        v.bin[bin].subspace = (uint32_t)count;
}

/* How many sources MUSIC asks for. */
__device__ inline size_t music_sources(const view &v, const weights &weights, uint32_t counted) {
    const mvdr_ladder ladder = ladder_of(v, nullptr, weights);
    return mvdr_modes_of(&ladder, v.spec.music, counted);
}

/* Copies eigenvectors from shared memory to where the spectrum reads them. */
__device__ inline void publish(matrix from, matrix to, uint32_t rows, uint32_t columns) {
    __syncthreads();
    if (from.at == to.at)
        return;
    for (uint32_t j = warp(); j < columns; j += warps())
        for (uint32_t i = lane(); i < rows; i += WARP)
            to(i, j) = from(i, j);
}

/* What cuSOLVER has found of a bin. Arguments as of find_vectors. */
__device__ inline outcome take_vectors(const view &v, uint32_t bin, double *d, double *by_column,
                                       uint32_t *places) {
    const uint32_t m = v.order;
    const double *ascending = v.ascending + (size_t)bin * v.most;
    for (uint32_t i = threadIdx.x; i < m; i += blockDim.x) {
        by_column[i] = d[m - 1 - i] = fmax(ascending[i], 0.0);
        places[i] = m - 1 - i;
    }
    if (m % 2 && threadIdx.x == 0)
        by_column[m] = 0, places[m] = m;
    __syncthreads();
    return {0, 0, v.failed[bin] == 0};
}

/* Eigenvectors of a bin's matrix times `unit` to its part of `to`, column by column: the
 * eigenvalues to r.d, descending, and each column's to by_column, with its place among them. Those
 * of cuSOLVER are in `to` already. All threads call. */
__device__ inline outcome find_vectors(const view &v, uint32_t bin, const bin_matrix &x,
                                       const room &r, double unit, complex64 *to, double *by_column,
                                       uint32_t *places) {
    const uint32_t m = v.order, rows = m + m % 2;
    if (v.ascending)
        return take_vectors(v, bin, r.d, by_column, places);
    assemble(x, r.a, m, rows, unit);
    const outcome outcome = jacobi(r.a, r.w, rows, (rotation *)r.vector[0], v.spec.tolerance,
                                   (uint32_t)v.spec.max_sweeps);
    sort_diagonal(r.a, m, rows, r.d, by_column, places);
    publish(r.w, {to + (size_t)bin * v.most * v.most, v.most}, m, rows);
    return outcome;
}

/* ---- a bin ----------------------------------------------------------------------------------- */

/* A power of two that brings `most` to between a half and 1, so that squares neither overflow nor
 * vanish. */
__device__ inline double scale_for(double most) {
    int exponent;
    frexp(most, &exponent);
    return ldexp(1.0, -exponent);
}

__device__ inline double trace_of(const bin_matrix &x, uint32_t m) {
    double sum = 0;
    for (uint32_t i = threadIdx.x; i < m; i += blockDim.x)
        sum += x.at(i, i).re;
    return block_sum(sum);
}

/* d from the matrix of trace at most 1 to that of R itself. */
__device__ inline void scale_eigenvalues(double *d, uint32_t m, double unit) {
    for (uint32_t i = threadIdx.x; i < m; i += blockDim.x)
        d[i] /= unit;
    __syncthreads();
}

/* A bin's solution: of a matrix of m rows and this trace, worked on as `unit` times it. */
struct solution {
    const view &v;
    const bin_matrix &x;
    const weights &weights;
    uint32_t bin, m;
    double trace, unit;

    __device__ tiles factor_of() const {
        return {v.factor + (size_t)bin * v.most * v.most, v.most};
    }

    /* Loading without all eigenvalues; false where these are wanted after all, because the least
     * loading may count. */
    __device__ bool load_without(loaded *to) const {
        const double snapshots = weights.effective * v.images;
        const bool fallback = falls_back(v.spec, v.n, snapshots);
        double noise = 0;
        if (v.spec.loading == SONAR_LOADING_NOISE && !fallback)
            noise = median_by_counts(snapshots) * fmin(1.0, snapshots / v.n);
        const double delta = loading(v.spec, fallback, trace / v.n, noise);
        *to = {delta, fallback, false};
        if (!(delta >= MVDR_LEAST_FLOAT32 * trace))
            return false;
        note_loading(v, bin, delta, trace);
        return true;
    }

    __device__ double median_by_counts(double snapshots) const {
        const uint32_t among = (uint32_t)lround(fmin((double)v.n, fmax(1.0, snapshots)));
        const uint32_t rank[2] = {m - 1 - among / 2, m - 1 - (among - 1) / 2};
        double *last = v.bin[bin].middle;
        double value[2] = {unit * last[0], unit * last[1]};
        const auto inertia_at = [&](double s) {
            assemble_panels(x, factor_of(), m, unit, -s);
            return factor(factor_of(), padded(m), -SMALL_PIVOT * s, v.d + (size_t)bin * v.most);
        };
        find_pair(inertia_at, m, rank, value);
        __syncthreads();
        if (threadIdx.x == 0)
            last[0] = value[0] / unit, last[1] = value[1] / unit;
        return (value[0] + value[1]) / (2 * unit);
    }

    __device__ loaded load_by_eigenvalues(const room &r) const {
        assemble(x, r.a, m, m, unit);
        eigenvalues(r, m);
        scale_eigenvalues(r.d, m, unit);
        return load(v, bin, r.d, weights);
    }

    /* X of the loaded matrix to the factor's place; returns the level. */
    __device__ double by_factor(const room &r, bool all, loaded *to, bool *without_all) const {
        const bool without = !all && load_without(to);
        *without_all = without;
        if (!without)
            *to = load_by_eigenvalues(r);
        const double delta = v.bin[bin].delta * unit;
        assemble_panels(x, factor_of(), m, unit, delta);
        factor(factor_of(), padded(m), delta, nullptr);
        return without ? level_by_inverse(v, weights, factor_of(), m, delta)
                       : level_by_eigenvalues(v, weights, r.d, to->delta);
    }

    /* Loading from eigenvectors and their weights; returns the level. */
    __device__ double by_vectors(const room &r, loaded *to, outcome *made,
                                 uint32_t *sources) const {
        __shared__ uint32_t counted;
        const uint32_t rows = m + m % 2;
        uint32_t *places = (uint32_t *)r.vector[1];
        double *inverse = v.inverse + (size_t)bin * v.most, level = 1;
        *made = find_vectors(v, bin, x, r, unit, v.factor, inverse, places);
        scale_eigenvalues(r.d, m, unit);
        const mvdr_ladder ladder = ladder_of(v, r.d, weights);
        if (threadIdx.x == 0)
            *sources = counted = count_sources(v, ladder);
        if (!v.spec.dmr) {
            *to = load(v, bin, r.d, weights);
            level = level_by_eigenvalues(v, weights, r.d, to->delta);
        } else if (threadIdx.x == 0) {
            *to = reject(v, bin, ladder, *sources);
            level = v.bin[bin].level;
        }
        __syncthreads();
        if (v.spec.music)
            choose_members(v, bin, rows, unit, music_sources(v, weights, counted), r.d, places,
                           inverse, v.member + (size_t)bin * v.most);
        for (uint32_t i = threadIdx.x; i < rows && v.gain > 0; i += blockDim.x)
            v.own[(size_t)bin * v.most + i] = inverse[i] / unit;
        weigh_vectors(v, bin, rows, unit, places, inverse);
        return level;
    }
};

/* For cuSOLVER, which takes all bins in matrices of one order: a bin's matrix as it is worked on,
 * and beyond its rows a diagonal that none of its eigenvalues reaches, as they add up to at most 1.
 * A bin without data or out of the band has nothing else. */
__global__ void __launch_bounds__(512, 1) assemble_all(view v, complex64 *to) {
    constexpr double BEYOND = 2;
    const uint32_t bin = blockIdx.x;
    const matrix a = {to + (size_t)bin * v.most * v.most, v.most};
    const weights weights = weights_of(v, bin);
    const bin_matrix x(v, bin, weights);
    const bool any = v.in_band(bin) && v.order && weights.order && weights.count > 0;
    const double trace = any ? trace_of(x, v.order) : 0;
    const uint32_t m = trace > 0 ? v.order : 0;
    assemble(x, a, m, v.most, m ? scale_for(trace) : 1);
    for (uint32_t i = m + threadIdx.x; i < v.most; i += blockDim.x)
        a(i, i) = {BEYOND, 0};
}

/* All of one bin, unless that has been done; cuSOLVER has left only eigenvectors of what was done
 * before. One thread block each. `all`: eigenvalues are wanted for themselves. */
template <bool VECTORS> __global__ void __launch_bounds__(512, 1) solve(view v, bool all) {
    extern __shared__ __align__(16) unsigned char memory[];
    const uint32_t bin = blockIdx.x, m = v.order;
    const bool anew = v.unsolved[bin] || (all && !v.bin[bin].ladder) || (VECTORS && v.ascending);
    if (threadIdx.x == 0)
        forget_spectra(v, bin);
    if (!v.in_band(bin) || !anew)
        return;
    const weights weights = weights_of(v, bin);
    const bin_matrix x(v, bin, weights);
    const double trace = m && weights.order && weights.count > 0 ? trace_of(x, m) : 0;
    outcome made = {0, 0, true};
    loaded loaded = {0, false, false};
    double level = 1;
    uint32_t sources = 0;
    bool without = false; /* all eigenvalues */
    __syncthreads();
    if (threadIdx.x == 0) {
        v.bin[bin].delta = 0;
        v.bin[bin].modes = 0;
        v.bin[bin].subspace = 0;
    }
    __syncthreads();
    if (trace > 0) {
        const double unit = scale_for(trace);
        const room r = room_for(v, bin, {memory, v.shared_bytes}, VECTORS ? v.work : v.factor,
                                VECTORS ? v.factor : nullptr);
        const solution s = {v, x, weights, bin, m, trace, unit};
        level = VECTORS ? s.by_vectors(r, &loaded, &made, &sources)
                        : s.by_factor(r, all || v.eigenvalues, &loaded, &without);
        if (!without)
            write_eigenvalues(v, bin, r.d, weights.order);
        if (!VECTORS && !without && threadIdx.x == 0)
            sources = count_sources(v, ladder_of(v, r.d, weights));
        if (threadIdx.x == 0)
            v.bin[bin].unit = v.spec.dmr ? 1 : unit;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        v.unsolved[bin] = 0;
        v.bin[bin].ladder = !without;
    }
    if (!(trace > 0))
        write_eigenvalues(v, bin, nullptr, 0);
    report(v, bin, made, loaded, level, weights.effective, sources);
}

} // namespace mvdr

#endif
