/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Eigendecomposition of R = S S^H from S by one thread block: Householder QR, a second pivoted QR
 * of the triangle, one-sided Jacobi (as in solve.c and jacobi.c), for float or double. Matrices are
 * column by column and lie in shared memory where they fit. Every sum has one order, which depends
 * on the sizes and the number of threads alone.
 */
#ifndef SONAR_MVDR_JACOBI_EIGEN_CUDA_CUH
#define SONAR_MVDR_JACOBI_EIGEN_CUDA_CUH

#include <stdint.h>

namespace mvdr {

constexpr unsigned WARP = 32, MOST_WARPS = 32; /* of a decomposing block */
constexpr unsigned ALL_LANES = 0xffffffffu;

/* A squared norm, relative to elements of magnitude 1, that float32 may round away: zero. */
constexpr double NOTHING = 1e-30;

template <typename T> struct alignas(2 * sizeof(T)) complex { T re, im; };

template <typename T> struct matrix {
    complex<T> *at;
    uint32_t ld;
    __device__ complex<T> *column(uint32_t j) const { return at + (size_t)j * ld; }
};

template <typename T> struct precision;
template <> struct precision<float> { static constexpr double EPSILON = 1.1920928955078125e-7; };
template <> struct precision<double> { static constexpr double EPSILON = 2.2204460492503131e-16; };

/* Any number of whole warps; how a block's threads share the work fixes the order of sums. */
__device__ inline unsigned threads() {
    return blockDim.x;
}

__device__ inline unsigned warps() {
    return blockDim.x / WARP;
}

__device__ inline unsigned lane() {
    return threadIdx.x % WARP;
}

__device__ inline unsigned warp() {
    return threadIdx.x / WARP;
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* Sum over groups of `lanes` (a power of two) neighbours; all of them get it. The whole warp calls.
 */
template <typename T> __device__ T sum_lanes(T value, unsigned lanes) {
    for (unsigned offset = lanes / 2; offset; offset /= 2)
        value += __shfl_xor_sync(ALL_LANES, value, offset);
    return value;
}

/* Sum and maximum over the block; all threads call, and all get it. */
__device__ inline double block_sum(double value) {
    __shared__ double part[MOST_WARPS];
    value = sum_lanes(value, WARP);
    __syncthreads();
    if (lane() == 0)
        part[warp()] = value;
    __syncthreads();
    value = 0;
    for (unsigned i = 0; i < warps(); i++)
        value += part[i];
    return value;
}

__device__ inline double block_max(double value) {
    __shared__ double part[MOST_WARPS];
    for (unsigned offset = WARP / 2; offset; offset /= 2)
        value = fmax(value, __shfl_xor_sync(ALL_LANES, value, offset));
    __syncthreads();
    if (lane() == 0)
        part[warp()] = value;
    __syncthreads();
    for (unsigned i = 0; i < warps(); i++)
        value = fmax(value, part[i]);
    return value;
}

/* ---- shared memory, handed out piece by piece ------------------------------------------------ */

struct arena {
    unsigned char *at;
    size_t left;

    /* Room for `count` elements, or `otherwise`, in global memory, where there is too little. */
    template <typename X> __device__ X *take(size_t count, X *otherwise) {
        size_t bytes = (count * sizeof(X) + 15) / 16 * 16;
        if (bytes > left)
            return otherwise;
        X *taken = (X *)at;
        at += bytes;
        left -= bytes;
        return taken;
    }
};

/* An odd column length spreads columns over the banks. */
__host__ __device__ inline uint32_t odd(uint32_t rows) {
    return rows | 1;
}

/* ---- Householder QR -------------------------------------------------------------------------- */

/* Squared norm of x from row `first` on; the warp calls together. */
template <typename T>
__device__ double norm2_of(const complex<T> *x, uint32_t first, uint32_t rows) {
    T a = 0, b = 0;
    for (uint32_t i = first + lane(); i < rows; i += WARP)
        a += x[i].re * x[i].re, b += x[i].im * x[i].im;
    return (double)sum_lanes(a + b, WARP);
}

template <typename T>
__device__ void measure(matrix<T> t, uint32_t rows, uint32_t columns, double *norm2) {
    for (uint32_t j = warp(); j < columns; j += warps()) {
        double value = norm2_of(t.column(j), 0, rows);
        if (lane() == 0)
            norm2[j] = value;
    }
    __syncthreads();
}

/* Column with the largest norm2, the first of equals; the warp calls together. */
__device__ inline uint32_t longest(const double *norm2, uint32_t columns) {
    double most = -2;
    uint32_t best = 0;
    for (uint32_t j = lane(); j < columns; j += WARP)
        if (norm2[j] > most)
            most = norm2[j], best = j;
    for (unsigned offset = WARP / 2; offset; offset /= 2) {
        double other = __shfl_xor_sync(ALL_LANES, most, offset);
        uint32_t at = __shfl_xor_sync(ALL_LANES, best, offset);
        if (other > most || (other == most && at < best))
            most = other, best = at;
    }
    return best;
}

/* Turns v into the Householder vector that zeroes it below `row`; returns tau and the diagonal it
 * leaves. */
template <typename T>
__device__ double householder(complex<T> *v, uint32_t row, double norm2,
                              complex<double> *diagonal) {
    double re = v[row].re, im = v[row].im, size = hypot(re, im), norm = sqrt(norm2);
    double pr = size > 0 ? re / size : 1, pi = size > 0 ? im / size : 0;
    v[row] = {(T)(re + pr * norm), (T)(im + pi * norm)};
    *diagonal = {-pr * norm, -pi * norm};
    return 1 / (norm * (norm + size));
}

/* x <- (I - tau v v^H) x from row `first` on; the warp calls together. */
template <typename T>
__device__ void reflect(const complex<T> *v, double tau, uint32_t first, uint32_t rows,
                        complex<T> *x) {
    T a = 0, b = 0;
    for (uint32_t i = first + lane(); i < rows; i += WARP) {
        complex<T> u = v[i], y = x[i];
        a += u.re * y.re, a += u.im * y.im;
        b += u.re * y.im, b -= u.im * y.re;
    }
    T sr = (T)(tau * (double)sum_lanes(a, WARP)), si = (T)(tau * (double)sum_lanes(b, WARP));
    for (uint32_t i = first + lane(); i < rows; i += WARP) {
        complex<T> u = v[i], y = x[i];
        x[i] = {y.re - sr * u.re + si * u.im, y.im - sr * u.im - si * u.re};
    }
    __syncwarp();
}

template <typename T> __device__ void clear(matrix<T> out, uint32_t columns) {
    for (uint32_t j = warp(); j < columns; j += warps())
        for (uint32_t i = lane(); i < columns; i += WARP)
            out.column(j)[i] = {0, 0};
    __syncthreads();
}

/* Householder steps first .. first + count - 1 on the `count` columns x, which have had the steps
 * before; norm2 holds their squared norms from row `first` on. Row `step` of R, conjugated, goes to
 * column `step` of out from entry `first` on; x becomes the Householder vectors. */
template <typename T>
__device__ void eliminate(matrix<T> x, uint32_t rows, uint32_t first, uint32_t count, bool pivot,
                          matrix<T> out, double *norm2, double *tau) {
    __shared__ uint32_t chosen;
    for (uint32_t step = first; step < first + count; step++) {
        if (warp() == 0) {
            uint32_t best = pivot ? longest(norm2, count) : step - first;
            double left = norm2[best];
            __syncwarp();
            if (lane() == 0) {
                complex<double> diagonal = {0, 0};
                tau[step] = left > NOTHING ? householder(x.column(best), step, left, &diagonal) : 0;
                out.column(step)[first + best] = {(T)diagonal.re, (T)-diagonal.im};
                norm2[best] = -1; /* done */
                chosen = best;
            }
        }
        __syncthreads();
        for (uint32_t j = warp(); j < count; j += warps()) {
            if (norm2[j] < 0)
                continue;
            complex<T> *y = x.column(j);
            if (tau[step] > 0)
                reflect(x.column(chosen), tau[step], step, rows, y);
            double left = norm2_of(y, step + 1, rows);
            __syncwarp(); /* all lanes have read norm2[j] */
            if (lane() == 0) {
                out.column(step)[first + j] = {y[step].re, -y[step].im};
                norm2[j] = left;
            }
        }
        __syncthreads();
    }
}

/* Householder QR of t (rows x columns, rows >= columns): t P = Q R, and out the conjugate transpose
 * of R, its rows at the columns' places in t, so that out out^H = t^H t with no permutation left to
 * undo. t's columns become the Householder vectors. The longest remaining column goes first: out's
 * columns then are nearly orthogonal already and Jacobi needs fewer sweeps (Drmac and Veselic
 * 2008). */
template <typename T>
__device__ void reduce(matrix<T> t, uint32_t rows, uint32_t columns, matrix<T> out, double *norm2,
                       double *tau) {
    clear(out, columns);
    measure(t, rows, columns, norm2);
    eliminate(t, rows, 0, columns, true, out, norm2, tau);
}

/* Room for columns of work in shared memory; width 0: there is none. */
template <typename T> struct panel {
    matrix<T> x;
    uint32_t width;
};

/* At most one column a warp; fewer than four are not worth the idle warps. */
template <typename T> __device__ panel<T> panel_in(arena room, uint32_t rows) {
    uint32_t ld = odd(rows);
    uint32_t width = (uint32_t)min((size_t)warps(), room.left / (ld * sizeof(complex<T>)));
    if (width < 4)
        return {{nullptr, ld}, 0};
    return {{room.take((size_t)width * ld, (complex<T> *)nullptr), ld}, width};
}

/* The same for a tall t in the columns' own order, some columns at a time in shared memory: each is
 * read once, gets the reflections so far, a warp each, and is written back once. */
template <typename T>
__device__ void reduce_tall(matrix<T> t, uint32_t rows, uint32_t columns, matrix<T> out,
                            double *norm2, double *tau, panel<T> room) {
    uint32_t width = room.width ? room.width : columns;
    clear(out, columns);
    for (uint32_t first = 0; first < columns; first += width) {
        uint32_t count = min(width, columns - first);
        matrix<T> x = room.width ? room.x : t;
        for (uint32_t j = warp(); j < count && room.width; j += warps()) {
            complex<T> *y = x.column(j);
            for (uint32_t i = lane(); i < rows; i += WARP)
                y[i] = t.column(first + j)[i];
            __syncwarp();
            for (uint32_t step = 0; step < first; step++) {
                if (tau[step] > 0)
                    reflect(t.column(step), tau[step], step, rows, y);
                if (lane() == 0)
                    out.column(step)[first + j] = {y[step].re, -y[step].im};
            }
        }
        __syncthreads();
        for (uint32_t j = warp(); j < count; j += warps()) {
            double left = norm2_of(x.column(j), first, rows);
            if (lane() == 0)
                norm2[j] = left;
        }
        __syncthreads();
        eliminate(x, rows, first, count, false, out, norm2, tau);
        for (uint32_t j = warp(); j < count && room.width; j += warps())
            for (uint32_t i = lane(); i < rows; i += WARP)
                t.column(first + j)[i] = x.column(j)[i];
        __syncthreads();
    }
}

/* ---- one-sided Jacobi ------------------------------------------------------------------------ */

/* Columns and their squared norms, which follow the rotations. */
template <typename T> struct columns {
    matrix<T> x;
    double *norm2;
    uint32_t count;
};

struct criterion {
    double tolerance2; /* squared relative inner product that counts as orthogonal */
    double floor2;     /* columns no longer than this are rounding noise: turning would never end */
};

/* Columns of pair p in round r of `players` of the round-robin pairing (circle method);
 * false: p is without a partner. */
__device__ inline bool pairing(uint32_t players, uint32_t count, uint32_t r, uint32_t p,
                               uint32_t *x, uint32_t *y) {
    uint32_t ring = players - 1, a = p ? r + p : ring, b = r + ring - p;
    a -= p && a >= ring ? ring : 0;
    b -= b >= ring ? ring : 0;
    *x = min(a, b);
    *y = max(a, b);
    return *y < count;
}

/* Rounds of disjoint pairs: all pairs of columns of `a`, or, with `cross`, each column of `a` with
 * each of `b`.
 */
template <typename T> struct tour {
    columns<T> a, b;
    bool cross;

    __device__ uint32_t pairs() const { return cross ? max(a.count, b.count) : (a.count + 1) / 2; }
    __device__ uint32_t rounds() const {
        return cross ? max(a.count, b.count) : a.count + a.count % 2 - 1;
    }
    __device__ bool pair(uint32_t r, uint32_t p, uint32_t *x, uint32_t *y) const {
        if (!cross)
            return pairing(a.count + a.count % 2, a.count, r, p, x, y);
        *x = p;
        *y = (p + r) % rounds();
        return *x < a.count && *y < b.count;
    }
};

/* The rotation x <- c x - conj(w) y, y <- w x + c y that makes a pair with the Gram matrix
 * [xx g; conj(g) yy] orthogonal, smaller angle (Rutishauser 1966). Worked out in the columns' own
 * precision, as double is slow: norms within a factor 1 / eps of each other keep all in range. */
template <typename T> struct rotation {
    T c, wr, wi;
    T shift; /* what it moves from |x|^2 to |y|^2 */
};

template <typename T> __device__ rotation<T> rotate(double xx, double yy, T re, T im, T g) {
    T zeta = (T)(yy - xx) / (2 * g);
    T t = copysign((T)1, zeta) / (fabs(zeta) + sqrt(1 + zeta * zeta));
    T c = 1 / sqrt(1 + t * t), s = c * t / g;
    return {c, s * re, s * im, t * g};
}

/* Turns one pair by a group of `lanes` threads; `wanted` is false for a group without a pair. The
 * whole warp calls. Returns the square of the pair's relative inner product before the rotation. */
template <typename T>
__device__ double turn(complex<T> *x, complex<T> *y, double *norm_x, double *norm_y, uint32_t rows,
                       unsigned lanes, bool wanted, criterion limit) {
    unsigned first = threadIdx.x % lanes;
    T re = 0, im = 0;
    double xx = 0, yy = 0;
    if (wanted) {
        xx = *norm_x, yy = *norm_y;
        for (uint32_t i = first; i < rows; i += lanes) {
            complex<T> a = x[i], b = y[i];
            re += a.re * b.re, re += a.im * b.im;
            im += a.re * b.im, im -= a.im * b.re;
        }
    }
    re = sum_lanes(re, lanes), im = sum_lanes(im, lanes);
    __syncwarp(); /* all have read the norms */
    if (!(xx > limit.floor2 && yy > limit.floor2))
        return 0;
    T lengths = sqrt((T)xx) * sqrt((T)yy), hr = re / lengths, hi = im / lengths;
    T relative2 = hr * hr + hi * hi; /* the square of re and im themselves might vanish */
    if (!((double)relative2 > limit.tolerance2))
        return (double)relative2;
    rotation<T> turned = rotate(xx, yy, re, im, sqrt(relative2) * lengths);
    T c = turned.c, wr = turned.wr, wi = turned.wi;
    for (uint32_t i = first; i < rows; i += lanes) {
        complex<T> a = x[i], b = y[i];
        x[i] = {c * a.re - wr * b.re - wi * b.im, c * a.im - wr * b.im + wi * b.re};
        y[i] = {c * b.re + wr * a.re - wi * a.im, c * b.im + wr * a.im + wi * a.re};
    }
    if (first == 0) {
        *norm_x = fmax(0.0, xx - (double)turned.shift);
        *norm_y = fmax(0.0, yy + (double)turned.shift);
    }
    return (double)relative2;
}

/* As many threads a pair as there are, but no more than rows. */
__device__ inline unsigned lanes_for(uint32_t pairs, uint32_t rows) {
    unsigned lanes = WARP;
    while (lanes > 1 && (lanes * pairs > threads() || lanes >= 2 * rows))
        lanes /= 2;
    return lanes;
}

template <typename T>
__device__ double travel(const tour<T> &tour, uint32_t rows, criterion limit) {
    uint32_t pairs = tour.pairs(), rounds = tour.rounds();
    unsigned lanes = lanes_for(pairs, rows), groups = threads() / lanes;
    const columns<T> &a = tour.a, &b = tour.cross ? tour.b : tour.a;
    double worst = 0;
    for (uint32_t r = 0; r < rounds; r++) {
        for (uint32_t base = 0; base < pairs; base += groups) {
            uint32_t p = base + threadIdx.x / lanes, x = 0, y = 0;
            bool wanted = p < pairs && tour.pair(r, p, &x, &y);
            x = wanted ? x : 0, y = wanted ? y : 0;
            worst = fmax(worst, turn(a.x.column(x), b.x.column(y), a.norm2 + x, b.norm2 + y, rows,
                                     lanes, wanted, limit));
        }
        __syncthreads();
    }
    return worst;
}

/* Copies columns first.. of u into the panel, or back. */
template <typename T>
__device__ columns<T> load(columns<T> u, uint32_t rows, uint32_t first, uint32_t width,
                           matrix<T> panel) {
    columns<T> result = {panel, u.norm2 + first, min(width, u.count - first)};
    for (uint32_t j = warp(); j < result.count; j += warps())
        for (uint32_t i = lane(); i < rows; i += WARP)
            panel.column(j)[i] = u.x.column(first + j)[i];
    __syncthreads();
    return result;
}

template <typename T>
__device__ void store(columns<T> panel, uint32_t rows, columns<T> u, uint32_t first) {
    for (uint32_t j = warp(); j < panel.count; j += warps())
        for (uint32_t i = lane(); i < rows; i += WARP)
            u.x.column(first + j)[i] = panel.x.column(j)[i];
    __syncthreads();
}

/* Two panels of shared memory for matrices that do not fit as a whole; width 0: they do, or not
 * even two columns fit, and u itself is worked on. */
template <typename T> struct panels {
    matrix<T> a, b;
    uint32_t width;
};

/* One sweep: every pair of columns once. Returns the largest squared relative inner product. */
template <typename T>
__device__ double sweep(columns<T> u, uint32_t rows, const panels<T> &room, criterion limit) {
    if (!room.width)
        return travel(tour<T>{u, u, false}, rows, limit);
    double worst = 0;
    for (uint32_t i = 0; i < u.count; i += room.width) {
        columns<T> a = load(u, rows, i, room.width, room.a);
        worst = fmax(worst, travel(tour<T>{a, a, false}, rows, limit));
        for (uint32_t j = i + room.width; j < u.count; j += room.width) {
            columns<T> b = load(u, rows, j, room.width, room.b);
            worst = fmax(worst, travel(tour<T>{a, b, true}, rows, limit));
            store(b, rows, u, j);
        }
        store(a, rows, u, i);
    }
    return worst;
}

template <typename T> __device__ panels<T> panels_in(arena room, uint32_t rows) {
    uint32_t ld = odd(rows);
    uint32_t width = (uint32_t)min((size_t)1 << 20, room.left / (2 * ld * sizeof(complex<T>)));
    complex<T> *at = room.take((size_t)2 * width * ld, (complex<T> *)nullptr);
    return {{at, ld}, {at + (size_t)width * ld, ld}, at ? width : 0};
}

struct outcome {
    uint32_t sweeps;
    double residual; /* largest relative inner product of the last sweep */
    bool converged;
};

template <typename T>
__device__ outcome jacobi(columns<T> u, uint32_t rows, const panels<T> &room, double tolerance,
                          uint32_t max_sweeps) {
    constexpr double EPSILON = precision<T>::EPSILON;
    outcome result = {0, 0, false};
    criterion limit = {tolerance * tolerance, 0};
    while (!result.converged && result.sweeps < max_sweeps) {
        double most = 0;
        measure(u.x, rows, u.count, u.norm2);
        for (uint32_t j = threadIdx.x; j < u.count; j += threads())
            most = fmax(most, u.norm2[j]);
        limit.floor2 = EPSILON * EPSILON * block_max(most);
        double worst = block_max(sweep(u, rows, room, limit));
        result.sweeps++;
        result.residual = sqrt(worst);
        result.converged = worst <= limit.tolerance2;
    }
    return result;
}

/* ---- eigenpairs ------------------------------------------------------------------------------ */

/* Indices of d, largest first, the first of equals first; returns how many are more than rounding
 * noise of the largest. */
template <typename T> __device__ uint32_t rank(const double *d, uint32_t count, uint32_t *order) {
    constexpr double EPSILON = precision<T>::EPSILON;
    double most = 0, kept = 0;
    for (uint32_t i = threadIdx.x; i < count; i += threads())
        most = fmax(most, d[i]);
    most = block_max(most);
    for (uint32_t i = threadIdx.x; i < count; i += threads()) {
        uint32_t place = 0;
        for (uint32_t j = 0; j < count; j++)
            place += d[j] > d[i] || (d[j] == d[i] && j < i);
        order[place] = i;
        kept += d[i] > NOTHING && d[i] > EPSILON * EPSILON * most;
    }
    return (uint32_t)block_sum(kept);
}

} // namespace mvdr

#endif
