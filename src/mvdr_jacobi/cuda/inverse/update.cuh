/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The streaming inverse M: the columns that enter and leave, the choice whether M is updated, its
 * update, and M from a factor. */
#ifndef SONAR_MVDR_JACOBI_CUDA_INVERSE_UPDATE_CUH
#define SONAR_MVDR_JACOBI_CUDA_INVERSE_UPDATE_CUH

#include "mvdr_jacobi/rules/inverse.h"
#include "mvdr_jacobi/cuda/solve.cuh"
#include "mvdr_jacobi/cuda/state.cuh"

namespace mvdr {

constexpr uint32_t INVERSE_THREADS = 128;

__device__ inline tiles inverse_of(const view &v, uint32_t bin) {
    return {v.m + (size_t)bin * v.most * v.most, v.most};
}

/* Column x number k of a bin, and its product with M. The probe uses column 0. */
__device__ inline complex64 *moved_of(const view &v, uint32_t bin, uint32_t k) {
    return v.moved + ((size_t)bin * 2 * MVDR_MOST_MOVED + k) * v.most;
}
__device__ inline complex64 *product_of(const view &v, uint32_t bin, uint32_t k) {
    return moved_of(v, bin, MVDR_MOST_MOVED + k);
}

/* Whether the present window updates and uses the bin's inverse. */
__device__ inline bool uses_inverse(const view &v, uint32_t bin) {
    return v.in_band(bin) && v.unsolved[bin] && v.slide[bin].kept;
}

/* ---- columns that enter and leave ------------------------------------------------------------ */

/* Drops the inverses in a window that does not update them. The next window makes none either: it
 * may be of the same kind. A thread for each bin. */
__global__ void leave_inverse(view v) {
    const uint32_t bin = blockIdx.x * blockDim.x + threadIdx.x;
    if (bin < v.spec.bins)
        v.slide[bin].kept = v.slide[bin].making = false, v.slide[bin].rest = 1;
}

/* Notes the columns that enter and leave, before the ring stores the new ones. New columns are
 * added before the old ones in their places are removed, because then only the divisors of the
 * removed ones can be below 1. A column that is not valid becomes zeros. Grid: columns, bins. */
__global__ void note_moves(view v, arrivals in) {
    const uint32_t k = blockIdx.x, bin = blockIdx.y, coming = in.count * v.images;
    const uint32_t arrival = k % coming / v.images;
    const bool image = k % v.images, comes = k < coming;
    sliding &s = v.slide[bin];
    if (!v.in_band(bin)) {
        if (k == 0 && threadIdx.x == 0)
            s.kept = false, s.rest = 1;
        return;
    }
    if (!s.kept)
        return;
    const uint32_t slot = (uint32_t)(((uint64_t)v.ring->next + arrival) % v.length);
    const bool counts =
        k < 2 * coming && (comes ? v.fresh[bin * v.spec.max_new + arrival]
                                 : slot < v.ring->filled && v.valid[bin * (size_t)v.length + slot]);
    const complex32 *from = comes ? in.at(arrival, bin) : snapshot_of(v, bin, slot);
    const double root = sqrt(s.weight);
    for (uint32_t i = threadIdx.x; i < v.most; i += blockDim.x) {
        complex64 x = {0, 0};
        if (counts && i < v.n)
            x = image ? conj(wide(from[v.sensor[v.partner[i]]])) : wide(from[v.sensor[i]]);
        moved_of(v, bin, k)[i] = {root * x.re, root * x.im};
    }
    if (threadIdx.x == 0)
        s.sign[k] = counts ? comes ? 1 : -1 : 0;
}

/* y = M x for COLUMNS columns, eight rows for each warp. Grid: rows, bins. */
template <uint32_t COLUMNS>
__global__ void __launch_bounds__(INVERSE_THREADS) apply_inverse(view v) {
    const uint32_t tile = blockIdx.x * warps() + warp(), bin = blockIdx.y;
    if (!uses_inverse(v, bin) || 8 * tile >= padded(v.order))
        return;
    const complex64 *m = inverse_of(v, bin).at + (size_t)tile * WARP + lane();
    const complex64 *x = moved_of(v, bin, 0) + lane() % 4;
    complex64 sum[COLUMNS] = {};
#pragma unroll 8
    for (uint32_t j = 0; j < padded(v.order); j += 4) {
        const complex64 own = m[(size_t)j * v.most];
#pragma unroll
        for (uint32_t k = 0; k < COLUMNS; k++)
            add_product(sum[k], own, x[(size_t)k * v.most + j]);
    }
#pragma unroll
    for (uint32_t k = 0; k < COLUMNS; k++) {
        const complex64 y = {sum_lanes(sum[k].re, 4), sum_lanes(sum[k].im, 4)};
        if (lane() % 4 == 0)
            product_of(v, bin, k)[8 * tile + lane() / 4] = y;
    }
}

/* x^H y; all threads call. */
__device__ inline complex64 inner(const complex64 *x, const complex64 *y, uint32_t n) {
    complex64 sum = {0, 0};
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
        add_product(sum, conj(x[i]), y[i]);
    return {block_sum(sum.re), block_sum(sum.im)};
}

/* Turns y_k = M x_k into M_k x_k, where M_k includes the changes made before, and computes 1/s.
 * False if a snapshot that leaves had almost all the information on a direction in M. All threads
 * call. */
__device__ inline bool correct_products(const view &v, uint32_t bin, uint32_t columns) {
    sliding &s = v.slide[bin];
    for (uint32_t k = 0; k < columns; k++) {
        const complex64 *x = moved_of(v, bin, k);
        complex64 *y = product_of(v, bin, k);
        double over = 0;
        for (uint32_t j = 0; j < k && s.sign[k] != 0; j++) {
            const complex64 *before = product_of(v, bin, j), own = inner(before, x, v.order);
            const complex64 factor = {-s.over[j] * own.re, -s.over[j] * own.im};
            for (uint32_t i = threadIdx.x; i < v.order; i += blockDim.x)
                add_product(y[i], before[i], factor);
        }
        if (s.sign[k] != 0) {
            const double divisor = s.sign[k] + inner(x, y, v.order).re;
            if (!(divisor * s.sign[k] >= MVDR_LEAST_LEFT))
                return false;
            over = 1 / divisor;
        }
        __syncthreads();
        if (threadIdx.x == 0)
            s.over[k] = over;
        __syncthreads();
    }
    return true;
}

/* ---- whether M is updated -------------------------------------------------------------------- */

/* Drops M. It is made from this window's factor, unless the bin has to go without it for some
 * windows. One thread. */
__device__ inline void drop_inverse(const view &v, uint32_t bin, bool failed) {
    sliding &s = v.slide[bin];
    if (failed && s.kept && s.age < MVDR_YOUNG)
        s.rest = MVDR_REST;
    s.kept = false;
    s.making = !s.rest;
    s.rest -= s.rest > 0;
    v.bin[bin].slid = false;
}

/* Sets the bin's state for a solution by M. One thread. */
__device__ inline void note_slid(const view &v, uint32_t bin, double delta, double trace) {
    const sliding &s = v.slide[bin];
    bin_state &state = v.bin[bin];
    state.slid = true;
    state.delta = delta;
    state.most = trace;
    state.unit = s.weight / s.next_weight;
    state.base = 0;
    state.left = 0;
    state.modes = state.subspace = 0;
    state.all_known = false;
    state.kept = s.delta;
    state.apart = delta * state.unit - s.delta;
}

/* Chooses the loading and decides whether M is updated. `little`: few enough columns enter and
 * leave for an update. One block of threads for each bin. */
__global__ void __launch_bounds__(256) choose_update(view v, uint32_t columns, bool little) {
    const uint32_t bin = blockIdx.x, m = v.order;
    if (!v.in_band(bin) || !v.unsolved[bin])
        return;
    sliding &s = v.slide[bin];
    const weights weights = weights_of(v, bin);
    const double trace = m && weights.count > 0 ? trace_of(bin_matrix(v, bin, weights), m) : 0;
    const double delta = mvdr_delta_by_rule(&v.spec, false, trace / v.n, 0);
    const double weight = 1 / (weights.count * v.images);
    const bool plain = mvdr_plainly_loaded(&v.spec, delta, trace);
    const bool goes_on = plain && little && s.kept && s.age < MVDR_OLDEST &&
                         mvdr_loading_near(delta * s.weight / weight, s.delta) &&
                         correct_products(v, bin, columns);
    __syncthreads();
    if (threadIdx.x)
        return;
    s.next_weight = weight;
    s.count = weights.effective;
    s.windows++;
    s.age++;
    if (goes_on)
        note_slid(v, bin, delta, trace);
    else if (plain)
        drop_inverse(v, bin, little);
    else
        s.kept = s.making = v.bin[bin].slid = false;
}

/* ---- M --------------------------------------------------------------------------------------- */

/* Parts of tr M and |M|^2. */
struct inverse_sums {
    double trace, energy;

    /* Adds an element on or below the diagonal. */
    __device__ void add(uint32_t i, uint32_t j, complex64 x) {
        trace += i == j ? x.re : 0;
        energy += (i == j ? 1 : 2) * square(x);
    }
    /* All threads call. */
    __device__ void write(const view &v, uint32_t bin, uint32_t part) const {
        const double first = block_sum(trace), second = block_sum(energy);
        double *to = v.inverse_part + ((size_t)bin * v.inverse_parts + part) * 2;
        if (threadIdx.x == 0)
            to[0] = first, to[1] = second;
    }
    __device__ void read(const view &v, uint32_t bin, uint32_t parts) {
        const double *from = v.inverse_part + (size_t)bin * v.inverse_parts * 2;
        for (uint32_t i = threadIdx.x; i < parts; i += blockDim.x)
            trace += from[2 * i], energy += from[2 * i + 1];
        trace = block_sum(trace), energy = block_sum(energy);
    }
};

/* Stores an element on or below the diagonal, and its mirror image. */
__device__ inline void put(tiles m, uint32_t i, uint32_t j, complex64 x) {
    m(i, j) = x;
    if (i > j)
        m(j, i) = conj(x);
}

/* M -= sum over k of over_k y_k y_k^H. Grid: groups of eight rows, bins. */
template <uint32_t COLUMNS>
__global__ void __launch_bounds__(INVERSE_THREADS) subtract_products(view v) {
    const uint32_t strip = blockIdx.x, bin = blockIdx.y, i = 8 * strip + lane() / 4;
    if (!uses_inverse(v, bin))
        return;
    const tiles m = inverse_of(v, bin);
    const complex64 *y = product_of(v, bin, 0);
    complex64 own[COLUMNS];
    inverse_sums sums = {0, 0};
#pragma unroll
    for (uint32_t k = 0; k < COLUMNS; k++) {
        const complex64 x = y[(size_t)k * v.most + i];
        const double over = -v.slide[bin].over[k];
        own[k] = {over * x.re, over * x.im};
    }
#pragma unroll 4
    for (uint32_t tile = warp(); tile <= 2 * strip + 1; tile += warps()) {
        const uint32_t j = 4 * tile + lane() % 4;
        complex64 x = m(i, j);
#pragma unroll
        for (uint32_t k = 0; k < COLUMNS; k++)
            add_product(x, own[k], conj(y[(size_t)k * v.most + j]));
        x.im = i == j ? 0 : x.im;
        if (j > i)
            continue;
        put(m, i, j, x);
        sums.add(i, j, x);
    }
    sums.write(v, bin, strip);
}

/* Reports the bin's solution by M, or drops M if rounding hides the level. `parts`: number of parts
 * of the sums over the new M; 0: M has not changed. */
__global__ void __launch_bounds__(INVERSE_THREADS) report_updated(view v, uint32_t parts) {
    const uint32_t bin = blockIdx.x;
    if (!uses_inverse(v, bin))
        return;
    sliding &s = v.slide[bin];
    const bin_state &state = v.bin[bin];
    inverse_sums sums = {0, 0};
    sums.read(v, bin, parts);
    if (threadIdx.x == 0 && parts)
        s.trace = sums.trace, s.energy = sums.energy;
    __syncthreads();
    const double level =
        mvdr_inverse_share(v.n, s.delta, state.apart, s.trace, s.energy, s.count, v.images);
    const double left = s.count * v.images;
    if (!mvdr_level_drowned(v.n - left, state.most, state.delta, level * left))
        report(v, bin, {0, 0, true}, {state.delta, false, false}, level, s.count, 0,
               MVDR_ROUTE_UPDATE);
    else if (threadIdx.x == 0)
        drop_inverse(v, bin, true);
}

/* M = unit X X^H for the bins that need an M, 64 rows of a panel for each thread block. Grid:
 * panels times row groups, bins. */
__global__ void __launch_bounds__(INVERSE_THREADS) make_inverse(view v) {
    const uint32_t bin = blockIdx.y, rows = padded(v.order), panels = rows / PANEL;
    const uint32_t other = blockIdx.x % panels * PANEL,
                   first = blockIdx.x / panels * warps() * TILE_ROWS;
    const uint32_t row = first + warp() * TILE_ROWS;
    if (!v.slide[bin].making)
        return;
    const tiles x = {v.factor + (size_t)bin * v.most * v.most, v.most}, m = inverse_of(v, bin);
    const double unit = v.bin[bin].unit;
    inverse_sums sums = {0, 0};
    if (row >= other && row < rows)
        products(x, nullptr, row, other, row, rows)
            .each([&](uint32_t i, uint32_t j, complex64 product) {
                i += row, j += other;
                if (j > i)
                    return;
                product = {unit * product.re, i == j ? 0 : unit * product.im};
                product = i < v.order ? product : complex64{0, 0};
                put(m, i, j, product);
                sums.add(i, j, product);
            });
    sums.write(v, bin, blockIdx.x);
}

/* Keeps the M that make_inverse has made. One block of threads for each bin. */
__global__ void __launch_bounds__(INVERSE_THREADS) keep_inverse(view v, uint32_t parts) {
    const uint32_t bin = blockIdx.x;
    sliding &s = v.slide[bin];
    if (!s.making)
        return;
    inverse_sums sums = {0, 0};
    sums.read(v, bin, parts);
    if (threadIdx.x)
        return;
    s.kept = v.bin[bin].delta > 0 && !v.bin[bin].all_known;
    s.making = false;
    s.age = 0;
    s.weight = s.next_weight;
    s.delta = v.bin[bin].delta;
    s.trace = sums.trace, s.energy = sums.energy;
}

} // namespace mvdr

namespace mvdr::host {

/* Thread blocks of make_inverse for each bin. No other sums over M have more parts. */
inline unsigned inverse_parts(uint32_t rows) {
    return blocks_for(rows, mvdr::INVERSE_THREADS / mvdr::WARP * mvdr::TILE_ROWS) *
           (rows / mvdr::PANEL);
}

/* ---- columns that enter and leave ------------------------------------------------------------ */

/* Decides how this window treats the inverses, before the ring stores its snapshots. */
inline sonar_code begin_inverse(mvdr_stage *stage, uint32_t count, bool slides, cudaStream_t stream,
                                sonar_error *err) {
    const mvdr::view *v = &stage->view;
    stage->slides = v->slide && slides;
    stage->little = mvdr_moves_little(count, v->images, v->length);
    stage->moved = 0;
    for (uint32_t columns = 2; stage->little && count && stage->moved < 2 * count * v->images;
         columns *= 2)
        stage->moved = columns;
    if (!v->slide || slides)
        return SONAR_OK;
    mvdr::leave_inverse<<<blocks_for(v->spec.bins, 64), 64, 0, stream>>>(*v);
    return CUDA_LAUNCHED(where, "leave_inverse", err);
}

inline sonar_code launch_note_moves(const mvdr_stage *stage, const mvdr::arrivals &in,
                                    cudaStream_t stream, sonar_error *err) {
    if (!stage->slides || !stage->moved)
        return SONAR_OK;
    const dim3 grid(stage->moved, (unsigned)stage->view.spec.bins);
    mvdr::note_moves<<<grid, 128, 0, stream>>>(stage->view, in);
    return CUDA_LAUNCHED(where, "note_moves", err);
}

/* ---- M --------------------------------------------------------------------------------------- */

/* y = M x for 1, 2, 4 or 8 columns. */
inline sonar_code launch_apply_inverse(const mvdr_stage *stage, uint32_t columns,
                                       cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const dim3 grid(mvdr::padded(v->order) / 32, (unsigned)v->spec.bins);
    const unsigned threads = mvdr::INVERSE_THREADS;
    if (columns == 1)
        mvdr::apply_inverse<1><<<grid, threads, 0, stream>>>(*v);
    else if (columns == 2)
        mvdr::apply_inverse<2><<<grid, threads, 0, stream>>>(*v);
    else if (columns == 4)
        mvdr::apply_inverse<4><<<grid, threads, 0, stream>>>(*v);
    else
        mvdr::apply_inverse<8><<<grid, threads, 0, stream>>>(*v);
    return CUDA_LAUNCHED(where, "apply_inverse", err);
}

inline sonar_code launch_subtract_products(const mvdr_stage *stage, cudaStream_t stream,
                                           sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const dim3 grid(mvdr::padded(v->order) / 8, (unsigned)v->spec.bins);
    const unsigned threads = mvdr::INVERSE_THREADS;
    if (stage->moved == 2)
        mvdr::subtract_products<2><<<grid, threads, 0, stream>>>(*v);
    else if (stage->moved == 4)
        mvdr::subtract_products<4><<<grid, threads, 0, stream>>>(*v);
    else
        mvdr::subtract_products<8><<<grid, threads, 0, stream>>>(*v);
    return CUDA_LAUNCHED(where, "subtract_products", err);
}

/* Chooses the bins' loading, and updates M by the snapshots that entered and left. */
inline sonar_code launch_update(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned bins = (unsigned)v->spec.bins, moved = stage->moved;
    sonar_code code = moved ? launch_apply_inverse(stage, moved, stream, err) : SONAR_OK;
    if (code)
        return code;
    mvdr::choose_update<<<bins, 256, 0, stream>>>(*v, moved, stage->little);
    code = CUDA_LAUNCHED(where, "choose_update", err);
    if (!code && moved)
        code = launch_subtract_products(stage, stream, err);
    if (code || !stage->little)
        return code;
    mvdr::report_updated<<<bins, mvdr::INVERSE_THREADS, 0, stream>>>(
        *v, moved ? mvdr::padded(v->order) / 8 : 0);
    return CUDA_LAUNCHED(where, "report_updated", err);
}

/* Makes M for the bins that need one, after the solver. */
inline sonar_code make_inverses(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned bins = (unsigned)v->spec.bins, parts = inverse_parts(mvdr::padded(v->order));
    if (!v->order)
        return SONAR_OK;
    mvdr::make_inverse<<<dim3(parts, bins), mvdr::INVERSE_THREADS, 0, stream>>>(*v);
    sonar_code code = CUDA_LAUNCHED(where, "make_inverse", err);
    if (code)
        return code;
    mvdr::keep_inverse<<<bins, mvdr::INVERSE_THREADS, 0, stream>>>(*v, parts);
    return CUDA_LAUNCHED(where, "keep_inverse", err);
}

} // namespace mvdr::host

#endif
