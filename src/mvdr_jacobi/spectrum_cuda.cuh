/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The MVDR spectrum on the GPU. With the projections c = X^H a of weighted snapshots and q = c^H (G
 * + delta I)^-1 c in snapshot space, P = delta / (|a|^2 - q); in sensor space 1/P = s = a^H (R +
 * delta I)^-1 a. Either quadratic form is |L^-1 y|^2 or sum |w_i^H y|^2 / (d_i + delta): a warp
 * takes eight directions of a bin, which are the columns of its products.
 */
#ifndef SONAR_MVDR_JACOBI_SPECTRUM_CUDA_CUH
#define SONAR_MVDR_JACOBI_SPECTRUM_CUDA_CUH

#include <float.h>

#include "mvdr_jacobi/cholesky_cuda.cuh"
#include "mvdr_jacobi/stage_cuda.cuh"

namespace mvdr {

constexpr uint32_t LOOKS = 8; /* directions of a warp */

/* A warp's directions: right-hand sides, [row][LOOKS], rows up to a multiple of PANEL; Cholesky
 * turns them into L^-1 y. */
struct looks {
    const view &v;
    const points &p;
    uint32_t bin, first, rows;
    complex64 *y;

    __device__ complex64 &at(uint32_t row, uint32_t look) const { return y[row * LOOKS + look]; }
};

__host__ __device__ inline uint32_t padded(uint32_t rows) {
    return (rows + PANEL - 1) / PANEL * PANEL;
}

/* Projections of the snapshots that count, or the steering vectors themselves. */
__device__ inline void fill(const looks &l) {
    const view &v = l.v;
    const double *root = v.root + l.bin * (size_t)v.length;
    const frequency f = frequency_of(v, l.bin);
    for (uint32_t look = 0; look < LOOKS; look++) {
        const uint32_t direction = l.first + look;
        const complex64 *c = v.by_snapshots ? l.p.projection : nullptr;
        const uint64_t *turns = l.p.turns + (size_t)min(direction, l.p.count - 1) * l.p.stride;
        const uint64_t middle = turns[v.middle];
        if (c)
            c += ((size_t)l.bin * l.p.pitch + direction) * v.columns;
        for (uint32_t i = lane(); i < padded(l.rows); i += WARP) {
            complex64 x = {0, 0};
            if (i < l.rows && direction < l.p.count) {
                if (!c)
                    x = wide(steering(f, turns[v.sensor[i]], middle));
                else if (root[i % v.length] > 0)
                    x = {root[i % v.length] * c[i].re, root[i % v.length] * c[i].im};
            }
            l.at(i, look) = x;
        }
    }
    __syncwarp();
}

/* Rows row.. and columns of the factor; those past the diagonal block's first column are not L's.
 */
__device__ inline fragment_b looks_of(const looks &l, uint32_t row) {
    fragment_b f;
    for (unsigned i = 0; i < 2; i++) {
        const complex64 x = l.at(row + b_row(i), b_column());
        f.re[i] = x.re, f.im[i] = x.im;
    }
    return f;
}

/* What the rows above have to do with the panel at `first`: y -= L y. */
__device__ inline void subtract_above(const looks &l, matrix factor, uint32_t first) {
    fragment_c sum = {};
    for (uint32_t k = 0; k < first; k += 8)
        multiply(sum, rows_of(factor, l.rows, first, k), looks_of(l, k));
    for (unsigned i = 0; i < 4; i++) {
        complex64 &y = l.at(first + c_row(i), c_column(i));
        y = {y.re - sum.re[i], y.im - sum.im[i]};
    }
    __syncwarp();
}

/* Forward substitution in the panel's own rows, four lanes a direction; returns the lane's share of
 * |y|^2. The diagonal of the factor holds its inverse. */
__device__ inline double substitute(const looks &l, matrix factor, uint32_t first) {
    const uint32_t look = lane() / 4, own = lane() % 4;
    double energy = 0;
    for (uint32_t j = 0; j < PANEL && first + j < l.rows; j++) {
        const double inverse = factor(first + j, first + j).re;
        const complex64 x = l.at(first + j, look);
        const complex64 y = {x.re * inverse, x.im * inverse};
        __syncwarp();
        if (own == j % 4)
            energy += square(y);
        for (uint32_t i = own; i < PANEL; i += 4)
            if (i == j)
                l.at(first + i, look) = y;
            else if (i > j && first + i < l.rows)
                add_product(l.at(first + i, look), factor(first + i, first + j), {-y.re, -y.im});
        __syncwarp();
    }
    return energy;
}

__device__ inline double by_cholesky(const looks &l, matrix factor) {
    double energy = 0;
    for (uint32_t first = 0; first < l.rows; first += PANEL) {
        subtract_above(l, factor, first);
        energy += substitute(l, factor, first);
    }
    return sum_lanes(energy, 4);
}

/* Conjugate transpose of the eigenvectors in columns row.., as rows of a product. */
__device__ inline fragment_a adjoint_of(matrix w, uint32_t rows, uint32_t columns, uint32_t row,
                                        uint32_t column) {
    fragment_a f;
    for (unsigned i = 0; i < 4; i++) {
        const uint32_t r = row + a_row(i), c = column + a_column(i);
        const complex64 x = r < columns && c < rows ? w(c, r) : complex64{0, 0};
        f.re[i] = x.re, f.im[i] = -x.im;
    }
    return f;
}

__device__ inline double by_vectors(const looks &l, matrix w, const double *inverse) {
    const uint32_t columns = l.rows + l.rows % 2;
    double energy[2] = {0, 0}; /* of directions 2 t and 2 t + 1 */
    for (uint32_t first = 0; first < columns; first += PANEL) {
        fragment_c sum = {};
        for (uint32_t k = 0; k < padded(l.rows); k += 8)
            multiply(sum, adjoint_of(w, l.rows, columns, first, k), looks_of(l, k));
        for (unsigned i = 0; i < 4; i++) {
            const uint32_t column = first + c_row(i);
            if (column < columns)
                energy[i % 2] += square({sum.re[i], sum.im[i]}) * inverse[column];
        }
    }
    for (unsigned offset = 4; offset < WARP; offset *= 2)
        for (double &e : energy)
            e += __shfl_xor_sync(ALL_LANES, e, offset);
    /* lane 4 g + t of the result belongs to direction g */
    const double even = __shfl_sync(ALL_LANES, energy[0], lane() / 8);
    const double odd = __shfl_sync(ALL_LANES, energy[1], lane() / 8);
    return lane() / 4 % 2 ? odd : even;
}

/* P from the quadratic form in what the factor was made of. 1/P is no less than |a|^2 over the
 * largest eigenvalue and delta. */
__device__ inline double power_of(const view &v, const bin_state &bin, double form, double norm) {
    const double delta = bin.delta, most = bin.most, each = v.n * bin.level;
    form *= bin.unit;
    if (bin.left) {
        const double q = fmin(form, norm * (most / (most + delta)));
        const double left = fmax(norm - q, norm * (delta / (most + delta)));
        return v.spec.correct_level ? delta / each * (q / left) + bin.base : delta / left;
    }
    const double s = fmax(form, norm / (most + delta));
    return v.spec.correct_level ? fmax(norm - delta * s, 0.0) / (each * s) : 1 / s;
}

/* Warps share the directions of all bins out among themselves. `spare`: for each warp of the grid
 * the right-hand sides that do not fit into shared memory; NULL where they do. */
__global__ void spectrum(view v, points p, complex64 *spare) {
    extern __shared__ __align__(16) unsigned char memory[];
    const uint32_t groups = (p.count + LOOKS - 1) / LOOKS, rows = padded(v.order);
    const size_t own = (size_t)blockIdx.x * warps() + warp();
    complex64 *y =
        spare ? spare + own * rows * LOOKS : (complex64 *)memory + (size_t)warp() * rows * LOOKS;
    for (size_t item = own; item < (size_t)groups * v.spec.bins;
         item += (size_t)gridDim.x * warps()) {
        const uint32_t bin = (uint32_t)(item / groups);
        const looks l = {v, p, bin, (uint32_t)(item % groups) * LOOKS, v.order, y};
        const bin_state &state = v.bin[bin];
        const uint32_t direction = l.first + lane() / 4;
        double power = 0;
        if (state.delta > 0) {
            const matrix factor = {v.factor + (size_t)bin * v.most * v.most, v.most};
            fill(l);
            const double form = v.vectors ? by_vectors(l, factor, v.inverse + (size_t)bin * v.most)
                                          : by_cholesky(l, factor);
            __syncwarp();
            if (direction < p.count)
                power = power_of(v, state, form, p.norm[(size_t)bin * p.pitch + direction]);
        }
        if (lane() % 4 == 0 && direction < p.count)
            p.power[(size_t)bin * p.pitch + direction] = (float)fmin(power, (double)FLT_MAX);
    }
}

/* (fs/N) sum_b P, in double, bin after bin. */
__global__ void band_power(view v, points p, float *out, ptrdiff_t stride) {
    uint32_t point = blockIdx.x * blockDim.x + threadIdx.x;
    double sum = 0;
    if (point >= p.count)
        return;
    for (size_t bin = v.spec.edge_below; bin < v.spec.bins - v.spec.edge_above; bin++)
        sum += (double)p.power[bin * p.pitch + point];
    out[point * stride] = (float)fmin(sum * v.spec.fs_hz / (double)v.spec.length, (double)FLT_MAX);
}

} // namespace mvdr

#endif
