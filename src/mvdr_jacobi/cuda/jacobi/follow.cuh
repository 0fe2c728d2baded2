/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Updates eigenvectors for a change of rank two. From one window to the next a covariance loses a
 * snapshot and gains one, or fades and gains one: R' = c R + y y^H - z z^H. In the eigenvectors V
 * of R, whose eigenvalues are D, the change is E = V^H R' V - c D. A few probes find c and the
 * vectors of E = u u^H - w w^H.
 *
 * The eigenvalues of D + u u^H are the roots of the secular equation. Its eigenvectors follow from
 * the roots. They are orthogonal to rounding if u is replaced by the vector that has exactly these
 * roots (Gu and Eisenstat 1994). They are real except for the phases of u, so that multiplying V by
 * them takes half of a complex product. The second term, w, is treated in the same way.
 *
 * The rest of the change, which the probes do not find, and rounding errors remain for Jacobi's
 * method. It begins from the updated V as from any other vectors, so that its result depends on
 * this update only by rounding.
 *
 * All sums have a fixed order, so that results repeat to the bit.
 */
#ifndef SONAR_MVDR_JACOBI_CUDA_JACOBI_FOLLOW_CUH
#define SONAR_MVDR_JACOBI_CUDA_JACOBI_FOLLOW_CUH

#include "mvdr_jacobi/cuda/jacobi/pivot.cuh"

namespace mvdr {

constexpr uint32_t FOLLOW_PROBES =
    5; /* three of five eigenvalues of their forms are c, since the change has rank two */
constexpr uint32_t FOLLOW_THREADS = 256, FOLLOW_WARPS = FOLLOW_THREADS / WARP;
constexpr double LEAST_PROBED =
    1e-11; /* least eigenvalue that is scaled, relative to the largest */

/* The terms of the change: u u^H is added, w w^H is subtracted. */
enum follow_term { GAINED, LOST };

/* A matrix's part of b.change. The terms overwrite the probes. */
struct follow_room {
    complex64 *at;
    const double *d; /* eigenvalues of the vectors */
    uint32_t n, rows;

    __device__ follow_room(const jacobi_batch &b, uint32_t matrix)
        : at(b.change + (size_t)matrix * 2 * FOLLOW_PROBES * b.order),
          d(b.d + (size_t)matrix * b.order), n(b.order), rows(b.rows) {}

    /* products: V g, then V^H R V g; between: R V g */
    __device__ complex64 *products() const { return at; }
    __device__ complex64 *between() const { return at + FOLLOW_PROBES * n; }
    /* term: u or w; turned: w in the eigenvectors of D + u u^H */
    __device__ complex64 *term(follow_term t) const { return between() + t * n; }
    __device__ complex64 *turned() const { return between() + 2 * n; }
    /* c D, or the eigenvalues of c D + u u^H */
    __device__ double *poles(follow_term t) const {
        return (double *)(t == GAINED ? between() + 3 * n : at);
    }
    /* for each root: its nearest pole, and its distance from that */
    __device__ double *nearest() const { return poles(GAINED) + n; }
    __device__ double *distance() const { return poles(GAINED) + 2 * n; }
    __device__ double *weight() const { return poles(GAINED) + 3 * n; }

    __device__ const complex64 *vector(follow_term t) const {
        return t == GAINED ? term(GAINED) : turned();
    }
    /* |u_j|^2 or |w_j|^2 of pole j, limited to be above 0. */
    __device__ double square_at(follow_term t, uint32_t j) const {
        return fmax(square(vector(t)[j]), 1e-34 * poles(t)[0]);
    }
    __device__ double scale_at(uint32_t j) const {
        return rsqrt(fmax(d[j], fmax(LEAST_PROBED * d[0], 1e-290)));
    }
};

/* Makes poles distinct by changes of the size of rounding. */
__device__ inline double apart(double d, double largest, uint32_t j, uint32_t n) {
    return d * (1 - j * 0x1p-51) + (n - j) * largest * 0x1p-100;
}

__device__ inline complex64 phase_of(complex64 x) {
    const double size2 = square(x), over = size2 > 1e-290 ? rsqrt(size2) : 0;
    return over > 0 ? complex64{over * x.re, over * x.im} : complex64{1, 0};
}

__device__ inline complex64 times(complex64 a, complex64 b) {
    complex64 x = {0, 0};
    add_product(x, a, b);
    return x;
}

/* The signs of element j of the probes, a bit for each; the element's magnitude is scale_at(j). */
__device__ inline uint32_t probe_bits(uint32_t j) {
    uint32_t x = j + 1;
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

__device__ inline double signed_by(uint32_t bits, uint32_t p, double x) {
    return bits >> p & 1 ? -x : x;
}

__device__ inline bool begins_from(const jacobi_batch &b, uint32_t matrix, jacobi_start from) {
    return b.wants(matrix) && b.start(matrix) == from;
}

/* ---- probes ---------------------------------------------------------------------------------- */

/* Computes V g, or R (V g). A thread block has 32 rows, one for each lane. Each of its warps has
 * every eighth column. */
template <bool OF_VECTORS>
__global__ void __launch_bounds__(FOLLOW_THREADS) follow_probe(jacobi_batch b) {
    __shared__ complex64 part[FOLLOW_WARPS][FOLLOW_PROBES][WARP];
    const uint32_t n = b.order, matrix = blockIdx.y, row = WARP * blockIdx.x + lane();
    if (!begins_from(b, matrix, FROM_VECTORS))
        return;
    const follow_room room(b, matrix);
    const complex64 *from = (OF_VECTORS ? b.vectors : b.a) + b.first(matrix) + row;
    complex64 sum[FOLLOW_PROBES] = {};
#pragma unroll 4
    for (uint32_t j = warp(); j < b.rows; j += FOLLOW_WARPS) {
        const complex64 x = from[(size_t)j * n];
        const uint32_t bits = probe_bits(j);
        const double scale = OF_VECTORS ? room.scale_at(j) : 0;
#pragma unroll
        for (uint32_t p = 0; p < FOLLOW_PROBES; p++)
            if (OF_VECTORS) {
                const double g = signed_by(bits, p, scale);
                sum[p].re = fma(g, x.re, sum[p].re), sum[p].im = fma(g, x.im, sum[p].im);
            } else {
                add_product(sum[p], x, room.products()[p * n + j]);
            }
    }
#pragma unroll
    for (uint32_t p = 0; p < FOLLOW_PROBES; p++)
        part[warp()][p][lane()] = sum[p];
    __syncthreads();
    if (warp() >= FOLLOW_PROBES)
        return;
    complex64 all = {0, 0};
    for (uint32_t i = 0; i < FOLLOW_WARPS; i++) {
        const complex64 x = part[i][warp()][lane()];
        all.re += x.re, all.im += x.im;
    }
    (OF_VECTORS ? room.products() : room.between())[warp() * n + row] = all;
}

/* Computes V^H (R V g). A warp for each column of V. */
__global__ void __launch_bounds__(FOLLOW_THREADS) follow_back(jacobi_batch b) {
    const uint32_t n = b.order, matrix = blockIdx.y, j = FOLLOW_WARPS * blockIdx.x + warp();
    if (j >= b.rows || !begins_from(b, matrix, FROM_VECTORS))
        return;
    const follow_room room(b, matrix);
    const complex64 *v = b.vectors + b.first(matrix) + (size_t)j * n;
    complex64 sum[FOLLOW_PROBES] = {};
#pragma unroll 2
    for (uint32_t i = lane(); i < n; i += WARP) {
        const complex64 x = conj(v[i]);
#pragma unroll
        for (uint32_t p = 0; p < FOLLOW_PROBES; p++)
            add_product(sum[p], x, room.between()[p * n + i]);
    }
#pragma unroll
    for (uint32_t p = 0; p < FOLLOW_PROBES; p++) {
        const complex64 all = sum_lanes(sum[p]);
        if (lane() == 0)
            room.products()[p * n + j] = all;
    }
}

/* ---- the change from the probes -------------------------------------------------------------- */

/* G^H S G (`change`) and G^H D G (`known`) of the probes G, with S = V^H R' V: the upper
 * triangles. */
struct probed_forms {
    complex64 change[FOLLOW_PROBES][FOLLOW_PROBES];
    double known[FOLLOW_PROBES][FOLLOW_PROBES];
};

/* The change found from the forms. It has rank two with at most one positive and one negative
 * eigenvalue if three of the eigenvalues of (G^H S G, G^H D G) are c. For the other two, let x be
 * the combination of the probes that is the eigenvector: E = (E x)(E x)^H / (x^H E x), summed over
 * both. */
struct probed_change {
    double scale;                         /* c */
    complex64 of_probe[2][FOLLOW_PROBES]; /* E G times this is the vector of the term */
    bool follows;
};

/* Finds the change from the forms. One thread. */
__device__ __noinline__ void find_change(probed_forms &f, probed_change *found) {
    constexpr uint32_t P = FOLLOW_PROBES, MOST_SWEEPS = 6;
    static_assert(P == 5, "two pairs a round");
    double l[P][P];
    complex64 a[P][P], z[P][P];
#pragma unroll
    for (uint32_t j = 0; j < P; j++) /* l l^T: G^H D G */
#pragma unroll
        for (uint32_t i = j; i < P; i++) {
            double x = f.known[j][i];
#pragma unroll
            for (uint32_t k = 0; k < j; k++)
                x -= l[i][k] * l[j][k];
            l[i][j] = i == j ? sqrt(x) : x / l[j][j];
        }
#pragma unroll
    for (uint32_t i = 0; i < P; i++)
#pragma unroll
        for (uint32_t j = 0; j < P; j++) {
            a[i][j] = i <= j ? f.change[i][j] : conj(f.change[j][i]);
            z[i][j] = {i == j ? 1. : 0., 0};
        }
#pragma unroll
    for (uint32_t turn = 0; turn < 2; turn++) /* a <- l^-1 a l^-T */
#pragma unroll
        for (uint32_t j = 0; j < P; j++)
#pragma unroll
            for (uint32_t i = 0; i < P; i++) {
                complex64 &x = turn ? a[j][i] : a[i][j];
#pragma unroll
                for (uint32_t k = 0; k < i; k++) {
                    const complex64 y = turn ? a[j][k] : a[k][j];
                    x.re -= l[i][k] * y.re, x.im -= l[i][k] * y.im;
                }
                x.re /= l[i][i], x.im /= l[i][i];
            }
    bool turned = true;
    for (uint32_t sweep = 0; sweep < MOST_SWEEPS && turned; sweep++) {
        turned = false;
#pragma unroll
        for (uint32_t round = 0; round < P; round++) {
            pivot_rotation r[2];
#pragma unroll
            for (uint32_t t = 0; t < 2; t++) { /* two disjoint pairs */
                const uint32_t p = (round + 1 + t) % P, q = (round + 4 - t) % P;
                double dx = a[p][p].re, dy = a[q][q].re;
                r[t] = orthogonalise(dx, dy, a[p][q]);
                turned = turned || r[t].w.re != 0 || r[t].w.im != 0;
            }
#pragma unroll
            for (uint32_t t = 0; t < 2; t++) {
                const uint32_t p = (round + 1 + t) % P, q = (round + 4 - t) % P;
#pragma unroll
                for (uint32_t i = 0; i < P; i++)
                    apply(r[t].c, r[t].w, a[i][p], a[i][q]),
                        apply(r[t].c, r[t].w, z[i][p], z[i][q]);
            }
#pragma unroll
            for (uint32_t t = 0; t < 2; t++) {
                const uint32_t p = (round + 1 + t) % P, q = (round + 4 - t) % P;
#pragma unroll
                for (uint32_t i = 0; i < P; i++)
                    apply(r[t].c, conj(r[t].w), a[p][i], a[q][i]);
            }
        }
    }
    double falling[P] = {};
    uint32_t place[P] = {};
#pragma unroll
    for (uint32_t i = 0; i < P; i++) {
#pragma unroll
        for (uint32_t j = 0; j < P; j++)
            place[i] += a[j][j].re > a[i][i].re || (a[j][j].re == a[i][i].re && j < i);
#pragma unroll
        for (uint32_t j = 0; j < P; j++)
            falling[j] = place[i] == j ? a[i][i].re : falling[j];
    }
    const double c = falling[2], up = falling[0] - c, down = c - falling[4],
                 rest = fmax(falling[1] - c, c - falling[3]);
    constexpr double MOST_REST = 1e-3;
    found->scale = c;
    found->follows = c > 0 && rest <= MOST_REST * fmax(up, down) && fmax(up, down) > 0;
#pragma unroll
    for (uint32_t t = 0; t < 2; t++) {
        const double size = t == GAINED ? up : down, over = size > 1e-290 ? rsqrt(size) : 0;
        complex64 x[P] = {};
#pragma unroll
        for (uint32_t i = 0; i < P; i++)
#pragma unroll
            for (uint32_t j = 0; j < P; j++)
                if (place[i] == (t == GAINED ? 0 : P - 1))
                    x[j] = z[j][i];
#pragma unroll
        for (uint32_t i = P; i-- > 0;) { /* l^-T */
#pragma unroll
            for (uint32_t k = i + 1; k < P; k++)
                x[i].re -= l[k][i] * x[k].re, x[i].im -= l[k][i] * x[k].im;
            x[i].re /= l[i][i], x[i].im /= l[i][i];
        }
#pragma unroll
        for (uint32_t i = 0; i < P; i++)
            found->of_probe[t][i] = {over * x[i].re, over * x[i].im};
    }
}

/* Computes the forms over all threads of the block. All threads call. */
__device__ inline void sum_forms(const follow_room &room, probed_forms *all) {
    constexpr uint32_t P = FOLLOW_PROBES;
    const complex64 *products = room.products();
    probed_forms own = {};
    for (uint32_t j = threadIdx.x; j < room.rows; j += FOLLOW_THREADS) {
        const double scale = room.scale_at(j), known = scale * scale * room.d[j];
        const uint32_t bits = probe_bits(j);
#pragma unroll
        for (uint32_t q = 0; q < P; q++) {
            const complex64 x = products[q * room.n + j];
#pragma unroll
            for (uint32_t p = 0; p <= q; p++) {
                const double g = signed_by(bits, p, scale);
                own.change[p][q].re = fma(g, x.re, own.change[p][q].re);
                own.change[p][q].im = fma(g, x.im, own.change[p][q].im);
                own.known[p][q] += signed_by(bits ^ bits >> (q - p), p, known);
            }
        }
    }
#pragma unroll
    for (uint32_t q = 0; q < P; q++)
#pragma unroll
        for (uint32_t p = 0; p <= q; p++) {
            const double re = block_sum(own.change[p][q].re), im = block_sum(own.change[p][q].im),
                         known = block_sum(own.known[p][q]);
            if (threadIdx.x == 0)
                all->change[p][q] = {re, p == q ? 0 : im}, all->known[p][q] = known;
        }
    __syncthreads();
}

/* Computes the terms of a matrix's change, if it has rank two, and marks the matrix as
 * FROM_FOLLOWED. A thread block for each matrix. */
__global__ void __launch_bounds__(FOLLOW_THREADS, 1) follow_choose(jacobi_batch b) {
    __shared__ probed_forms forms;
    __shared__ probed_change found;
    const uint32_t n = b.order, matrix = blockIdx.x;
    if (!begins_from(b, matrix, FROM_VECTORS))
        return;
    const follow_room room(b, matrix);
    sum_forms(room, &forms);
    if (threadIdx.x == 0)
        find_change(forms, &found);
    __syncthreads();
    if (!found.follows)
        return;
    for (uint32_t j = threadIdx.x; j < n; j += FOLLOW_THREADS) {
        const double scale = room.scale_at(j), known = found.scale * room.d[j];
        const uint32_t bits = probe_bits(j);
        complex64 sum[2] = {};
        for (uint32_t p = 0; p < FOLLOW_PROBES && j < b.rows; p++) {
            complex64 x = room.products()[p * n + j];
            x.re -= signed_by(bits, p, scale * known);
            for (uint32_t t = 0; t < 2; t++)
                add_product(sum[t], found.of_probe[t][p], x);
        }
        room.term(GAINED)[j] = sum[GAINED], room.term(LOST)[j] = sum[LOST];
        room.poles(GAINED)[j] = apart(known, found.scale * room.d[0], j, n);
    }
    if (threadIdx.x == 0)
        b.kept[matrix] = FROM_FOLLOWED;
}

/* ---- the secular equation -------------------------------------------------------------------- */

/* The secular function 1 + sum s |u_j|^2 / (d_j - lambda) at lambda = from + t. `own` and `other`:
 * the derivatives by s lambda of the terms on the root's side and of the other terms. */
struct secular {
    double value, own, other, size;
};

__device__ inline secular secular_at(const follow_room &room, follow_term term, uint32_t root,
                                     double from, double t) {
    const double *d = room.poles(term), s = term == GAINED ? 1 : -1;
    double value[2] = {}, slope[2] = {};
#pragma unroll 2
    for (uint32_t j = lane(); j < room.rows; j += WARP) {
        const bool own = term == GAINED ? j >= root : j <= root;
        const double w = 1 / ((d[j] - from) - t), x = room.square_at(term, j) * w;
        value[0] += own ? x : 0, value[1] += own ? 0 : x;
        slope[0] += own ? x * w : 0, slope[1] += own ? 0 : x * w;
    }
    for (unsigned i = 0; i < 2; i++)
        value[i] = s * sum_lanes(value[i]), slope[i] = sum_lanes(slope[i]);
    return {1 + value[0] + value[1], slope[0], slope[1], 1 + fabs(value[0]) + fabs(value[1])};
}

/* A step to the zero of a function with two poles, at the distances p and q from the present point,
 * that has the value and the two derivatives of f there (the middle way of Li 1993). */
__device__ inline double step_between(const secular &f, double p, double q) {
    const double c = f.value - p * f.own - q * f.other,
                 a = (p + q) * f.value - p * q * (f.own + f.other), b = p * q * f.value,
                 root = sqrt(fmax(0.0, a * a - 4 * b * c));
    return a > 0 ? 2 * b / (a + root) : c != 0 ? (a - root) / (2 * c) : b / a;
}

/* Finds the eigenvalue of D + s u u^H between pole `root` and the next pole in the direction of s.
 * It is stored as its distance from the nearer pole, which keeps all digits. A warp for each
 * root. */
template <follow_term TERM>
__global__ void __launch_bounds__(FOLLOW_THREADS) follow_roots(jacobi_batch b) {
    constexpr uint32_t MOST_STEPS = 60;
    const uint32_t matrix = blockIdx.y, root = FOLLOW_WARPS * blockIdx.x + warp();
    if (root >= b.rows || !begins_from(b, matrix, FROM_FOLLOWED))
        return;
    const follow_room room(b, matrix);
    const double *d = room.poles(TERM), s = TERM == GAINED ? 1 : -1;
    const bool last = root == (TERM == GAINED ? 0 : b.rows - 1); /* there is no pole beyond it */
    double gap = 0;
    for (uint32_t j = lane(); last && j < b.rows; j += WARP)
        gap += room.square_at(TERM, j);
    gap = last ? sum_lanes(gap) : fabs(d[TERM == GAINED ? root - 1 : root + 1] - d[root]);
    /* x: from the nearer pole in the direction of s; low < x < high */
    secular f = secular_at(room, TERM, root, d[root], s * gap / 2);
    const bool beyond = f.value < 0, other = beyond && !last;
    const double from = other ? d[TERM == GAINED ? root - 1 : root + 1] : d[root];
    double low = other    ? -gap / 2
                 : beyond ? gap / 2
                          : 0,
           high = other    ? 0
                  : beyond ? gap
                           : gap / 2,
           x = other ? -gap / 2 : gap / 2;
    for (uint32_t step = 0; step < MOST_STEPS; step++) {
        if (fabs(f.value) <= 0x1p-51 * f.size)
            break;
        (f.value < 0 ? low : high) = x;
        const double p = (other ? -gap : 0) - x, q = (other ? 0 : gap) - x;
        double next = x;
        if (last) { /* one pole */
            const double strength = p * p * f.own, c = f.value - p * f.own;
            next = c > 0 ? x + p + strength / c : low;
        } else {
            next = x + step_between(f, p, q);
        }
        if (!(next > low && next < high))
            next = (low + high) / 2;
        if (next == x || !(next > low && next < high))
            break;
        x = next;
        f = secular_at(room, TERM, root, from, s * x);
    }
    if (lane() == 0)
        room.nearest()[root] = from, room.distance()[root] = s * x;
}

/* The magnitudes of the elements of the vector that has exactly these roots. A warp for each
 * element. */
template <follow_term TERM>
__global__ void __launch_bounds__(FOLLOW_THREADS) follow_weights(jacobi_batch b) {
    const uint32_t matrix = blockIdx.y, j = FOLLOW_WARPS * blockIdx.x + warp();
    if (j >= b.rows || !begins_from(b, matrix, FROM_FOLLOWED))
        return;
    const follow_room room(b, matrix);
    const double *d = room.poles(TERM), *nearest = room.nearest(), *distance = room.distance();
    double logs = 0, product = 1;
    for (uint32_t i = lane(); i < b.rows; i += WARP) {
        const double apart = d[i] - d[j], moved = (nearest[i] - d[i]) + distance[i],
                     x = moved / apart;
        if (i == j)
            product *= fabs(moved);
        else if (fabs(x) < 0.25)
            logs += log1p(x);
        else
            product *= ((nearest[i] - d[j]) + distance[i]) / apart;
    }
    product = sqrt(fabs(product));
    for (unsigned offset = WARP / 2; offset; offset /= 2)
        product *= __shfl_xor_sync(ALL_LANES, product, offset);
    logs = sum_lanes(logs);
    if (lane() == 0)
        room.weight()[j] = product * exp(logs / 2);
}

/* ---- the updated vectors --------------------------------------------------------------------- */

/* Computes column i of the eigenvectors of D + s u u^H without the phases of u. For the first term
 * also computes element i of w in these eigenvectors, and multiplies column i of V by the phase. A
 * warp for each column. */
template <follow_term TERM>
__global__ void __launch_bounds__(FOLLOW_THREADS) follow_fill(jacobi_batch b) {
    const uint32_t n = b.order, matrix = blockIdx.y, i = FOLLOW_WARPS * blockIdx.x + warp();
    if (i >= n || !begins_from(b, matrix, FROM_FOLLOWED))
        return;
    const follow_room room(b, matrix);
    const double *d = room.poles(TERM), *weight = room.weight();
    double *q = b.turn + b.first(matrix) + (size_t)i * n, norm = 0;
    complex64 turned = {0, 0};
    const bool real = i < b.rows;
    const double nearest = real ? room.nearest()[i] : 0, distance = real ? room.distance()[i] : 0;
    for (uint32_t j = lane(); j < n; j += WARP) {
        const double x = real && j < b.rows ? weight[j] / ((d[j] - nearest) - distance) : 0;
        q[j] = x, norm = fma(x, x, norm);
    }
    norm = sum_lanes(norm);
    const double over = norm > 0 ? 1 / sqrt(norm) : 0;
    for (uint32_t j = lane(); j < n; j += WARP) {
        const double x = q[j] * over;
        q[j] = x;
        if (TERM == GAINED) {
            const complex64 y = times(conj(phase_of(room.term(GAINED)[j])), room.term(LOST)[j]);
            turned.re = fma(x, y.re, turned.re), turned.im = fma(x, y.im, turned.im);
        }
    }
    if (TERM != GAINED)
        return;
    turned = sum_lanes(turned);
    if (lane() == 0) {
        room.turned()[i] = turned;
        room.poles(LOST)[i] = apart(nearest + distance, d[0], i, n);
    }
    const complex64 phase = phase_of(room.term(GAINED)[i]);
    complex64 *v = b.vectors + b.first(matrix) + (size_t)i * n;
    for (uint32_t j = lane(); j < n; j += WARP)
        v[j] = times(v[j], phase);
}

/* Multiplies the vectors by these eigenvectors: for the first term into x, for the second term
 * back. 64 rows and 32 columns for each thread block. */
template <follow_term TERM>
__global__ void __launch_bounds__(JACOBI_THREADS, 3) follow_turn(jacobi_batch b) {
    const uint32_t n = b.order, matrix = blockIdx.z, column = TILE_COLUMNS_32 * blockIdx.y,
                   row = TILE_ROWS_64 * blockIdx.x + 16 * warp();
    if (row >= n || !begins_from(b, matrix, FROM_FOLLOWED))
        return;
    const follow_room room(b, matrix);
    const complex64 *from = (TERM == GAINED ? b.vectors : b.x) + b.first(matrix);
    complex64 *to = (TERM == GAINED ? b.x : b.vectors) + b.first(matrix);
    const double *turn = b.turn + b.first(matrix) + (size_t)(column + b_column()) * n + b_row(0);
    fragment_c c[4] = {};
#pragma unroll 2
    for (uint32_t k = 0; k < n; k += 8) {
        fragment_a left;
        load_a(left, from, n, row, k);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            const double *at = turn + (size_t)8 * j * n + k, right[2] = {at[0], at[4]};
            multiply(c[j].re, left.re, right);
            multiply(c[j].im, left.im, right);
        }
    }
    each_element(c, row, column, [=](uint32_t p, uint32_t q, complex64 x) {
        to[(size_t)q * n + p] = TERM == GAINED ? times(x, phase_of(room.turned()[q])) : x;
    });
}

template <follow_term TERM> inline void follow_one(const jacobi_batch &b, cudaStream_t stream) {
    const uint32_t n = b.order;
    const dim3 columns((n + FOLLOW_WARPS - 1) / FOLLOW_WARPS, b.count),
        tiles((n + TILE_ROWS_64 - 1) / TILE_ROWS_64, n / TILE_COLUMNS_32, b.count);
    follow_roots<TERM><<<columns, FOLLOW_THREADS, 0, stream>>>(b);
    follow_weights<TERM><<<columns, FOLLOW_THREADS, 0, stream>>>(b);
    follow_fill<TERM><<<columns, FOLLOW_THREADS, 0, stream>>>(b);
    follow_turn<TERM><<<tiles, JACOBI_THREADS, 0, stream>>>(b);
}

/* Updates the vectors of matrices that begin from vectors and whose change has rank two. */
inline void follow_change(const jacobi_batch &b, cudaStream_t stream) {
    const uint32_t n = b.order;
    const dim3 rows(n / WARP, b.count), columns((n + FOLLOW_WARPS - 1) / FOLLOW_WARPS, b.count);
    follow_probe<true><<<rows, FOLLOW_THREADS, 0, stream>>>(b);
    follow_probe<false><<<rows, FOLLOW_THREADS, 0, stream>>>(b);
    follow_back<<<columns, FOLLOW_THREADS, 0, stream>>>(b);
    follow_choose<<<b.count, FOLLOW_THREADS, 0, stream>>>(b);
    follow_one<GAINED>(b, stream);
    follow_one<LOST>(b, stream);
}

} // namespace mvdr

#endif
