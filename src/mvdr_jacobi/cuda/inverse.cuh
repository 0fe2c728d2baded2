/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The streaming inverse M on the GPU (inverse.h). In a window that updates it, the kernels do the
 * following, in this order:
 *
 * - Note the columns x that enter and leave, before the ring stores the new ones.
 * - Compute y = M x for all of them in one pass over M.
 * - Choose the loading, and decide for each bin whether M is updated (a thread block for each bin).
 * - Subtract sum y y^H / s from M: the lower triangle is computed and mirrored.
 * - Compute p = a^H M a and q = |M a|^2 for all directions on the tensor cores, and from them the
 *   powers.
 * - Measure the rounding error of M.
 *
 * A bin without M, or whose M has too different a loading or too large an error, is left unsolved:
 * the solver computes its factor X, and M = X X^H follows from it. Kernels return at once for bins
 * in which they have nothing to do.
 */
#ifndef SONAR_MVDR_JACOBI_CUDA_INVERSE_CUH
#define SONAR_MVDR_JACOBI_CUDA_INVERSE_CUH

#include "core/random.h"
#include "mvdr_jacobi/rules/inverse.h"
#include "mvdr_jacobi/cuda/solve.cuh"
#include "mvdr_jacobi/cuda/spectrum.cuh"
#include "mvdr_jacobi/cuda/state.cuh"

namespace mvdr {

constexpr uint32_t INVERSE_THREADS = 128;
constexpr uint32_t MOMENT_ROWS =
    SPECTRUM_WARPS * TILE_ROWS; /* rows of M that a thread block multiplies */

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

/* ---- the spectrum ---------------------------------------------------------------------------- */

/* Parts of p and q: [part][bin][point][2]. */
__device__ inline double *moments_of(const view &v, const points &p, uint32_t part, uint32_t bin,
                                     uint32_t point) {
    return v.moment + (((size_t)part * v.spec.bins + bin) * p.pitch + point) * 2;
}

__device__ inline bool has_moments(const view &v, uint32_t bin) {
    return v.in_band(bin) && v.bin[bin].slid && v.bin[bin].delta > 0;
}

/* Adds the terms of a^H M a and |M a|^2 in 16 rows of M a. */
__device__ inline void add_moments(const looks &l, uint32_t first, const strip &sum,
                                   double form[2][LOOKS / 8][2]) {
#pragma unroll
    for (uint32_t t = 0; t < LOOKS / 8; t++)
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t row = min(first + c_row(i), l.v.order - 1),
                           look = min(l.first + 8 * t + c_column(i), l.p.count - 1);
            const complex64 y = {sum.part[t].re[i], sum.part[t].im[i]}, a = l.steering(row, look);
            form[0][t][i % 2] += a.re * y.re + a.im * y.im;
            form[1][t][i % 2] += square(y);
        }
}

/* M as the left factor of a product. Its rows are the conjugates of its columns, and lie in memory
 * in the order of a fragment. */
struct inverse_columns {
    tiles m;
};
__device__ inline fragment_a columns_of(const inverse_columns &w, uint32_t first, uint32_t k) {
    return rows_of(w.m, first, k);
}

/* A thread's part of the next stretch of steering vectors. It is read from memory while the present
 * stretch is multiplied. */
struct next_stretch {
    static constexpr uint32_t DOWN = STRETCH / 4, COUNT = DOWN * LOOKS / 8 / SPECTRUM_WARPS;
    complex32 at[COUNT];

    __device__ static uint32_t tile(uint32_t i) { return warp() + i * SPECTRUM_WARPS; }

    __device__ void fetch(const looks &l, uint32_t row) {
        const complex32 *from = l.p.steering + (size_t)l.bin * steering_size(l.p.pitch, l.v.most);
        const uint32_t last = (l.p.count - 1) / 8, end = l.v.most / 4 - 1;
#pragma unroll
        for (uint32_t i = 0; i < COUNT; i++) {
            const uint32_t down = min(row / 4 + tile(i) % DOWN, end),
                           look = min(l.first / 8 + tile(i) / DOWN, last);
            at[i] = from[((size_t)look * (l.v.most / 4) + down) * WARP + lane()];
        }
    }

    __device__ void put(stretch &y) const {
#pragma unroll
        for (uint32_t i = 0; i < COUNT; i++)
            y.at[tile(i) % DOWN][tile(i) / DOWN][lane()] = wide(at[i]);
    }
};

/* Computes the parts of p and q in MOMENT_ROWS rows of M. M is padded with zeros, so that rows of
 * the steering vectors beyond the order add nothing. Grid: groups of points, bins, parts. */
__global__ void __launch_bounds__(SPECTRUM_WARPS *WARP, 3) moments(view v, points p) {
    __shared__ stretch y;
    __shared__ double form[SPECTRUM_WARPS][2][LOOKS];
    const uint32_t bin = blockIdx.y, part = blockIdx.z, rows = padded(v.order);
    if (!has_moments(v, bin))
        return;
    const looks l = {v, p, bin, blockIdx.x * LOOKS};
    const inverse_columns m = {inverse_of(v, bin)};
    const uint32_t first = part * MOMENT_ROWS + warp() * TILE_ROWS;
    const bool any = first < rows;
    strip sum = {};
    next_stretch next;
    next.fetch(l, 0);
    for (uint32_t row = 0; row < rows; row += STRETCH) {
        fragment_a left = {};
        if (any)
            left = columns_of(m, first, row);
        __syncthreads();
        next.put(y);
        __syncthreads();
        if (row + STRETCH < rows)
            next.fetch(l, row + STRETCH);
        if (any)
            add_rows(m, y, first, row, min(rows - row, STRETCH), left, sum);
    }
    double own[2][LOOKS / 8][2] = {};
    if (any)
        add_moments(l, first, sum, own);
#pragma unroll
    for (uint32_t t = 0; t < LOOKS / 8 * 4; t++) {
        double whole = own[t % 2][t / 4][t / 2 % 2];
        for (unsigned offset = 4; offset < WARP; offset *= 2)
            whole += __shfl_xor_sync(ALL_LANES, whole, offset);
        if (lane() < 4)
            form[warp()][t % 2][8 * (t / 4) + c_column(t / 2 % 2)] = whole;
    }
    __syncthreads();
    if (threadIdx.x >= 2 * LOOKS || l.first + threadIdx.x / 2 >= p.count)
        return;
    double whole = 0;
    for (uint32_t i = 0; i < SPECTRUM_WARPS; i++)
        whole += form[i][threadIdx.x % 2][threadIdx.x / 2];
    moments_of(v, p, part, bin, l.first + threadIdx.x / 2)[threadIdx.x % 2] = whole;
}

/* Computes P from p and q, and with `probes` also the point's weight in the probe. Grid: points,
 * bins. */
__global__ void add_up_moments(view v, points p, uint32_t parts, bool probes) {
    const uint32_t point = blockIdx.x * blockDim.x + threadIdx.x, bin = blockIdx.y;
    if (point >= p.count || !has_moments(v, bin))
        return;
    const bin_state &state = v.bin[bin];
    const size_t at = (size_t)bin * p.pitch + point;
    double first = 0, second = 0;
    for (uint32_t i = 0; i < parts; i++) {
        const double *part = moments_of(v, p, i, bin, point);
        first += part[0], second += part[1];
    }
    const double q = mvdr_bounded_slope(p.norm[at], state.kept, first, second);
    const double form = first * first / (first + state.apart * q);
    p.power[at] = (float)fmin(power_of(v, state, form, p.norm[at]), (double)FLT_MAX);
    if (probes)
        v.probe[at] = (sonar_random_at(v.slide[bin].windows, point) & 1 ? 1 : -1) / sqrt(first);
}

/* ---- the rounding error of M ----------------------------------------------------------------- */

/* Computes the probe, the weighted sum of a over the grid's directions, as the column that M is
 * applied to. Four rows for each warp. Grid: rows, bins. */
__global__ void __launch_bounds__(INVERSE_THREADS) make_probe(view v, points p) {
    const uint32_t row = 4 * (blockIdx.x * warps() + warp()), bin = blockIdx.y;
    if (!uses_inverse(v, bin) || row >= padded(v.order))
        return;
    const complex32 *a = p.steering + (size_t)bin * steering_size(p.pitch, v.most);
    complex64 sum = {0, 0};
    for (uint32_t look = lane() / 4; look < p.count; look += 8) {
        const complex64 x = wide(a[steering_at(v, row + lane() % 4, look)]);
        const double weight = v.probe[(size_t)bin * p.pitch + look];
        sum.re += weight * x.re, sum.im += weight * x.im;
    }
    __syncwarp();
    for (unsigned offset = 4; offset < WARP; offset *= 2) {
        sum.re += __shfl_xor_sync(ALL_LANES, sum.re, offset);
        sum.im += __shfl_xor_sync(ALL_LANES, sum.im, offset);
    }
    const uint32_t i = row + lane() % 4;
    if (lane() < 4)
        moved_of(v, bin, 0)[i] = i < v.order ? sum : complex64{0, 0};
}

/* The terms of column j in z^H S z: twice Re z_j sum over i > j of conj(z_i) S_ij, plus S_jj
 * |z_j|^2. `backward`: with the mirrored z. A warp calls. */
__device__ inline double column_form(const bin_matrix &s, const complex64 *z, uint32_t j,
                                     bool backward) {
    const view &v = s.v;
    complex64 sum = {0, 0};
    const auto at = [&](uint32_t i) { return backward ? conj(z[v.partner[i]]) : z[i]; };
    for (uint32_t i = j + lane(); i < v.order; i += WARP) {
        const complex64 x = s.covariance(i, j);
        const double twice = i == j ? 1 : 2;
        add_product(sum, conj(at(i)), {twice * x.re, i == j ? 0 : twice * x.im});
    }
    const complex64 own = at(j);
    return sum.re * own.re - sum.im * own.im;
}

/* Computes parts of z^H S z. Grid: groups of columns, bins. */
__global__ void __launch_bounds__(INVERSE_THREADS) square_probe(view v) {
    const uint32_t bin = blockIdx.y;
    if (!uses_inverse(v, bin))
        return;
    const bin_matrix s(v, bin, {0, 0, 1, 0});
    const complex64 *z = product_of(v, bin, 0);
    double sum = 0;
    for (uint32_t j = blockIdx.x * warps() + warp(); j < v.order; j += gridDim.x * warps()) {
        sum += column_form(s, z, j, false);
        if (v.images == 2)
            sum += column_form(s, z, j, true);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        v.inverse_part[(size_t)bin * v.inverse_parts * 2 + blockIdx.x] = sum;
}

/* Decides by the probe whether M is accurate enough. One block of threads for each bin. */
__global__ void __launch_bounds__(256) judge_inverse(view v, uint32_t parts) {
    const uint32_t bin = blockIdx.x;
    if (!uses_inverse(v, bin))
        return;
    const sliding &s = v.slide[bin];
    const complex64 *probe = moved_of(v, bin, 0), *z = product_of(v, bin, 0);
    double sum = 0;
    for (uint32_t i = threadIdx.x; i < parts; i += blockDim.x)
        sum += v.inverse_part[(size_t)bin * v.inverse_parts * 2 + i];
    sum = block_sum(sum) * s.weight + s.delta * inner(z, z, v.order).re;
    const bool right = fabs(sum - inner(probe, z, v.order).re) <= MVDR_MOST_WRONG;
    __syncthreads();
    if (threadIdx.x)
        return;
    if (right)
        v.unsolved[bin] = 0;
    else
        drop_inverse(v, bin, true);
}

} // namespace mvdr

namespace mvdr::host {

/* Thread blocks of make_inverse for each bin. No other sums over M have more parts. */
inline unsigned inverse_parts(uint32_t rows) {
    return blocks_for(rows, mvdr::INVERSE_THREADS / mvdr::WARP * mvdr::TILE_ROWS) *
           (rows / mvdr::PANEL);
}

inline unsigned moment_parts(uint32_t rows) {
    return blocks_for(rows, mvdr::MOMENT_ROWS);
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

/* ---- the spectrum ---------------------------------------------------------------------------- */

/* Computes P of the bins that have been solved by M, at points whose steering vectors exist. */
inline sonar_code run_moments(const mvdr_stage *stage, const mvdr::points &points, bool probes,
                              cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned bins = (unsigned)v->spec.bins, parts = moment_parts(mvdr::padded(v->order));
    if (!v->order)
        return SONAR_OK;
    const dim3 grid(blocks_for(points.count, mvdr::LOOKS), bins, parts);
    mvdr::moments<<<grid, mvdr::SPECTRUM_WARPS * mvdr::WARP, 0, stream>>>(*v, points);
    sonar_code code = CUDA_LAUNCHED(where, "moments", err);
    if (code)
        return code;
    const dim3 each(blocks_for(points.count, 64), bins);
    mvdr::add_up_moments<<<each, 64, 0, stream>>>(*v, points, parts, probes);
    return CUDA_LAUNCHED(where, "add_up_moments", err);
}

/* Measures the rounding error of M. Bins in which it is too large are left to the solver. */
inline sonar_code probe_inverses(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned bins = (unsigned)v->spec.bins, rows = mvdr::padded(v->order);
    const unsigned threads = mvdr::INVERSE_THREADS, parts = rows / 32;
    mvdr::make_probe<<<dim3(rows / 16, bins), threads, 0, stream>>>(*v, stage->grid);
    sonar_code code = CUDA_LAUNCHED(where, "make_probe", err);
    if (!code)
        code = launch_apply_inverse(stage, 1, stream, err);
    if (code)
        return code;
    mvdr::square_probe<<<dim3(parts, bins), threads, 0, stream>>>(*v);
    if ((code = CUDA_LAUNCHED(where, "square_probe", err)) != SONAR_OK)
        return code;
    mvdr::judge_inverse<<<bins, 256, 0, stream>>>(*v, parts);
    return CUDA_LAUNCHED(where, "judge_inverse", err);
}

/* In a window that updates inverses: updates them, and computes P of the grid in the bins that use
 * them. The grid's steering vectors exist. */
inline sonar_code update_inverses(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    if (!stage->view.order)
        return SONAR_OK;
    sonar_code code = launch_update(stage, stream, err);
    if (!code && stage->little)
        code = run_moments(stage, stage->grid, true, stream, err);
    return code || !stage->little ? code : probe_inverses(stage, stream, err);
}

} // namespace mvdr::host

#endif
