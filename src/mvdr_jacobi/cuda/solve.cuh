/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Solves a bin: its matrix, its loading, and the inverse of its Cholesky factor or its
 * eigenvectors. One thread block for each bin, so that the host decides nothing. As in solve.c and
 * loading.c, except that a GPU finds only the eigenvalues that the loading rule needs: none for the
 * rules trace and absolute, the two middle ones of large matrices for the noise rule. On the routes
 * with "-grid", loading and inverse factor come from cuda/factor_grid.cuh.
 */
#ifndef SONAR_MVDR_JACOBI_CUDA_SOLVE_CUH
#define SONAR_MVDR_JACOBI_CUDA_SOLVE_CUH

#include <float.h>

#include "mvdr_jacobi/cuda/decompose.cuh"
#include "mvdr_jacobi/cuda/jacobi/run.cuh"
#include "mvdr_jacobi/cuda/median.cuh"
#include "mvdr_jacobi/cuda/state.cuh"

namespace mvdr {

/* ---- what a bin publishes -------------------------------------------------------------------- */

/* Writes the largest of `count` eigenvalues, followed by zeros. */
__device__ inline void write_eigenvalues(const view &v, uint32_t bin, const double *d,
                                         uint32_t count) {
    for (uint32_t i = threadIdx.x; i < v.modes; i += blockDim.x)
        v.eigenvalue[(size_t)bin * v.modes + i] =
            i < count ? (float)fmin(d[i], (double)FLT_MAX) : 0;
}

__device__ inline void report(const view &v, uint32_t bin, const outcome &made,
                              const loaded &loaded, double level, double snapshots,
                              uint32_t sources, mvdr_route_id route) {
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
    info[SONAR_MVDR_ROUTE] = (float)route;
}

/* Clears the fields of the bin's info that an earlier spectrum of the same snapshots has written.
 * One thread. */
__device__ inline void forget_spectra(const view &v, uint32_t bin) {
    float *info = v.info + (size_t)bin * SONAR_MVDR_INFO_FIELDS;
    info[SONAR_MVDR_LIMITED] = info[SONAR_MVDR_SUBSPACE] = 0;
    if (!v.music_decomposes)
        return;
    info[SONAR_MVDR_SWEEPS] = info[SONAR_MVDR_RESIDUAL] = 0;
    info[SONAR_MVDR_FLAGS] =
        (float)((unsigned)info[SONAR_MVDR_FLAGS] & ~(unsigned)SONAR_MVDR_FLAG_NOT_CONVERGED);
}

/* ---- a bin ----------------------------------------------------------------------------------- */

/* Scales d from the scaled matrix, whose trace is at most 1, to R. */
__device__ inline void scale_eigenvalues(double *d, uint32_t m, double unit) {
    for (uint32_t i = threadIdx.x; i < m; i += blockDim.x)
        d[i] /= unit;
    __syncthreads();
}

/* Sets the bin's loading by the rule, from its trace and the noise in a sensor, which only rules
 * that need it read. state.fallback is known. One thread. False: all eigenvalues are needed,
 * because the least loading may apply. */
__device__ inline bool load_by_rule(const view &v, uint32_t bin, double trace, double noise) {
    bin_state &state = v.bin[bin];
    state.asked = mvdr_delta_by_rule(&v.spec, state.fallback, trace / v.n, noise);
    state.factored = state.asked >= MVDR_LEAST_FLOAT32 * trace;
    if (state.factored)
        set_loading(v, bin, state.asked, trace);
    return state.factored;
}

/* Begins the search for the median at its last value. */
__device__ inline search search_for(const view &v, uint32_t bin, double unit, double snapshots) {
    const uint32_t m = v.order;
    size_t middle[2];
    const double *last = v.bin[bin].middle, near[2] = {unit * last[0], unit * last[1]};
    search s;
    mvdr_middle(v.n, snapshots, middle);
    s.begin(m, m - 1 - (uint32_t)middle[1], m - 1 - (uint32_t)middle[0], near);
    return s;
}

/* The noise in a sensor by a finished search. One thread notes the median. */
__device__ inline double noise_found(const view &v, uint32_t bin, const search &s, double unit,
                                     double snapshots) {
    const double value[2] = {s.value(0) / unit, s.value(1) / unit};
    if (threadIdx.x == 0)
        v.bin[bin].middle[0] = value[0], v.bin[bin].middle[1] = value[1];
    return mvdr_noise_by_median((value[0] + value[1]) / 2, v.n, snapshots);
}

/* The solution of a bin: of a matrix of m rows with this trace, processed as `unit` times the
 * matrix. */
struct solution {
    const view &v;
    const bin_matrix &x;
    const weights &weights;
    uint32_t bin, m;
    double trace, unit;

    /* Sets the loading without all eigenvalues. False if they are needed. */
    __device__ bool load_without(loaded *to) const {
        const bin_state &state = v.bin[bin];
        double asked = state.asked;
        bool fallback = state.fallback;
        if (!state.taken) {
            const double snapshots = weights.effective * v.images;
            fallback = mvdr_falls_back(&v.spec, v.n, snapshots);
            const bool counts = mvdr_loads_by_noise(&v.spec, fallback);
            asked = mvdr_delta_by_rule(&v.spec, fallback, trace / v.n,
                                       counts ? noise_by_counts(snapshots) : 0);
        }
        *to = {asked, fallback, false};
        if (!(asked >= MVDR_LEAST_FLOAT32 * trace))
            return false;
        note_loading(v, bin, asked, trace);
        return true;
    }

    __device__ double noise_by_counts(double snapshots) const {
        search s = search_for(v, bin, unit, snapshots);
        while (s.wants()) {
            const double shift = s.shift();
            assemble_panels(x, factor_of(v, bin), m, unit, -shift);
            s.take(factor<SOLVE_WARPS>(factor_of(v, bin), padded(m), -SMALL_PIVOT * shift,
                                       v.d + (size_t)bin * v.most, false));
        }
        __syncthreads();
        return noise_found(v, bin, s, unit, snapshots);
    }

    __device__ loaded load_by_eigenvalues(const room &r) const {
        assemble(x, r.a, m, m, unit);
        eigenvalues(r, m);
        scale_eigenvalues(r.d, m, unit);
        return load(v, bin, r.d, weights);
    }

    /* Computes X of the loaded matrix in the factor's memory. `diagonal`: also the diagonal of
     * A^-1. */
    __device__ void make_factor(bool diagonal) const {
        const double delta = v.bin[bin].delta * unit;
        assemble_panels(x, factor_of(v, bin), m, unit, delta);
        factor<SOLVE_WARPS>(factor_of(v, bin), padded(m), delta, nullptr, true);
        if (diagonal)
            inverse_diagonal(factor_of(v, bin), m, v.d + (size_t)bin * v.most, 0, 1);
        __syncthreads();
    }

    /* Computes X, unless it exists, and the level from the present loading. False if rounding hides
     * the level. */
    __device__ bool by_inverse(double *level) const {
        const bin_state &state = v.bin[bin];
        const double zeros = (double)m - weights.count * v.images;
        if (!state.factored)
            make_factor(true);
        *level = level_by_inverse(v, weights, factor_of(v, bin), v.d + (size_t)bin * v.most, m,
                                  state.delta * unit);
        __syncthreads();
        return !mvdr_level_drowned(zeros, trace, state.delta,
                                   *level * weights.effective * v.images);
    }

    /* Computes loading and X; returns the level. `all`: use all eigenvalues; *without: they were
     * not used. */
    __device__ double by_factor(const room &r, bool all, loaded *to, bool *without) const {
        double level;
        *without = !all && load_without(to) && by_inverse(&level);
        if (*without)
            return level;
        *to = load_by_eigenvalues(r);
        make_factor(false);
        return level_by_eigenvalues(v, weights, r.d, to->delta);
    }

    /* Computes loading and weights from the existing eigenvectors; returns the level. */
    __device__ double by_vectors(const room &r, loaded *to, outcome *made,
                                 uint32_t *sources) const {
        __shared__ uint32_t counted;
        const uint32_t rows = m + m % 2;
        double *inverse = v.inverse + (size_t)bin * v.most, level = 1;
        *made = take_vectors(v, bin, r.d, inverse);
        scale_eigenvalues(r.d, m, unit);
        const mvdr_eigenspectrum eigen = eigenspectrum_of(v, r.d, weights);
        if (threadIdx.x == 0)
            *sources = counted = count_sources(v, eigen);
        if (!v.spec.dmr) {
            *to = load(v, bin, r.d, weights);
            level = level_by_eigenvalues(v, weights, r.d, to->delta);
        } else if (threadIdx.x == 0) {
            *to = reject(v, bin, eigen, *sources);
            level = v.bin[bin].level;
        }
        __syncthreads();
        if (v.spec.music)
            choose_members(v, bin, rows, unit, music_sources(v, weights, counted), r.d, inverse,
                           v.member + (size_t)bin * v.most);
        for (uint32_t i = threadIdx.x; i < rows && v.gain > 0; i += blockDim.x)
            v.own[(size_t)bin * v.most + i] = inverse[i] / unit;
        weigh_vectors(v, bin, rows, unit, inverse);
        return level;
    }
};

/* The bins to decompose: unsolved ones, or for MUSIC solved ones. */
enum class bins_of { UNSOLVED, SOLVED };

/* Writes the bins' matrices for Jacobi's method, which processes matrices of one order: scaled to a
 * trace of at most 1, with zeros after the matrix's rows. One thread block for each bin. */
__global__ void __launch_bounds__(SOLVE_WARPS *WARP, 1)
    assemble_all(view v, complex64 *to, bins_of which) {
    const uint32_t bin = blockIdx.x;
    const bool passed = (which == bins_of::UNSOLVED && !v.unsolved[bin]) ||
                        (which == bins_of::SOLVED && !(v.bin[bin].delta > 0));
    const matrix a = {to + (size_t)bin * v.most * v.most, v.most};
    const weights weights = weights_of(v, bin);
    const bin_matrix x(v, bin, weights);
    const bool any = !passed && v.in_band(bin) && v.order && weights.order && weights.count > 0;
    const double trace = any ? trace_of(x, v.order) : 0;
    const uint32_t m = trace > 0 ? v.order : 0;
    if (threadIdx.x == 0)
        v.decomposed[bin] = m > 0;
    if (passed)
        return;
    if (threadIdx.x == 0 && !m) /* no data: the next decomposition begins from nothing */
        v.kept[bin] = 0;
    assemble(x, a, m, v.most, m ? scale_for(trace) : 1);
}

/* The route of a bin that was solved without eigenvectors. `noise`: by the median. */
__device__ inline mvdr_route_id route_of(bool all_eigenvalues, bool on_grid, bool noise) {
    if (all_eigenvalues)
        return MVDR_ROUTE_EIGENVALUES;
    if (on_grid)
        return noise ? MVDR_ROUTE_MEDIAN_GRID : MVDR_ROUTE_FACTOR_GRID;
    return noise ? MVDR_ROUTE_MEDIAN : MVDR_ROUTE_FACTOR;
}

/* Solves a bin that has not been solved for these snapshots. One thread block for each bin. `all`:
 * all eigenvalues are needed. */
template <bool VECTORS>
__global__ void __launch_bounds__(SOLVE_WARPS *WARP, 1) solve(view v, bool all) {
    extern __shared__ __align__(16) unsigned char memory[];
    const uint32_t bin = blockIdx.x, m = v.order;
    const bool due = v.unsolved[bin] || (all && !v.bin[bin].all_known);
    if (threadIdx.x == 0)
        forget_spectra(v, bin);
    if (!v.in_band(bin) || !due)
        return;
    const weights weights = weights_of(v, bin);
    const bin_matrix x(v, bin, weights);
    const double trace = m && weights.order && weights.count > 0 ? trace_of(x, m) : 0;
    outcome made = {0, 0, true};
    loaded loaded = {0, false, false};
    double level = 1;
    uint32_t sources = 0;
    bool without = false; /* true: solved without all eigenvalues */
    mvdr_route_id route = MVDR_ROUTE_NONE;
    __syncthreads();
    if (threadIdx.x == 0) {
        v.bin[bin].delta = 0;
        v.bin[bin].slid = false;
        v.bin[bin].modes = 0;
        v.bin[bin].subspace = 0;
    }
    __syncthreads();
    if (trace > 0) {
        const double unit = scale_for(trace);
        const room r = room_for(v, bin, {memory, v.shared_bytes}, VECTORS ? nullptr : v.factor);
        const solution s = {v, x, weights, bin, m, trace, unit};
        level = VECTORS ? s.by_vectors(r, &loaded, &made, &sources)
                        : s.by_factor(r, v.eigenvalues, &loaded, &without);
        if (!without)
            write_eigenvalues(v, bin, r.d, weights.order);
        if (!VECTORS && !without && threadIdx.x == 0)
            sources = count_sources(v, eigenspectrum_of(v, r.d, weights));
        if (VECTORS)
            route = MVDR_ROUTE_JACOBI;
        else
            route = route_of(!without, v.bin[bin].factored,
                             mvdr_loads_by_noise(&v.spec, loaded.fallback));
        if (threadIdx.x == 0)
            v.bin[bin].unit = v.spec.dmr ? 1 : unit;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        v.unsolved[bin] = 0;
        v.bin[bin].all_known = !without;
        v.bin[bin].taken = v.bin[bin].factored = false;
    }
    if (!(trace > 0))
        write_eigenvalues(v, bin, nullptr, 0);
    report(v, bin, made, loaded, level, weights.effective, sources, route);
}

} // namespace mvdr

namespace mvdr::host {

/* The largest tolerance of Jacobi's method, whatever is configured. The next window begins from
 * these vectors, and treats a lack of orthogonality as a change of its matrix. */
constexpr double MOST_TOLERANCE = 1e-9;

/* Computes eigenvectors by Jacobi's method, from those of the last window if they exist. */
inline sonar_code decompose(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const mvdr::bins_of which =
        v->music_decomposes ? mvdr::bins_of::SOLVED : mvdr::bins_of::UNSOLVED;
    jacobi_batch b = stage->jacobi;
    b.rows = v->order;
    b.tolerance = fmin(v->spec.tolerance, MOST_TOLERANCE);
    b.max_sweeps = (uint32_t)v->spec.max_sweeps;
    b.kept = v->kept;
    mvdr::assemble_all<<<b.count, SOLVE_THREADS, 0, stream>>>(*v, b.a, which);
    const sonar_code code = CUDA_LAUNCHED(where, "assemble_all", err);
    if (code)
        return code;
    mvdr::jacobi_run(b, stream);
    return CUDA_LAUNCHED(where, "jacobi_run", err);
}

} // namespace mvdr::host

#endif
