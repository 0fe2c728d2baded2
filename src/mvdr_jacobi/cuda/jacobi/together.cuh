/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sweeps that turn all pairs of columns at once, for matrices that begin from vectors. */
#ifndef SONAR_MVDR_JACOBI_CUDA_JACOBI_TOGETHER_CUH
#define SONAR_MVDR_JACOBI_CUDA_JACOBI_TOGETHER_CUH

#include "mvdr_jacobi/cuda/jacobi/pairs.cuh"

namespace mvdr {

/* ---- all rotations at once ------------------------------------------------------------------- */

/*
 * If the angles are small, all pairs are turned at once. The element of K for a pair is the sine of
 * half of the angle that the pair would have alone. K^H = -K, so that P = K^H K = -K^2 and C =
 * sqrt(1 - P) are Hermitian and commute with K, and C + K is unitary. Its square is the rotation by
 * the whole angles, 1 - 2 P + 2 K C. The new residual is about the old one times the largest angle.
 * The root is approximated by the best polynomial in P for norms up to `most`, evaluated in pairs
 * of terms with one product by P^2 for each pair.
 */
struct root_polynomial {
    double most; /* largest norm of P */
    double term[14];
};
/* pairs of terms in the first polynomial; each next one has one more */
constexpr uint32_t ROOTS = 6, ROOT_PAIRS = 2;
__constant__ const root_polynomial ROOT[ROOTS] = {
    {5.4e-4, {1, -0.5000000000015389, -0.12499998575202588, -0.06254220943745303}},
    {0.012,
     {1, -0.5000000000001845, -0.12499999982070106, -0.0625000636613304, -0.03905229611668942,
      -0.028095277905430392}},
    {0.051,
     {1, -0.5000000000000545, -0.12499999997757576, -0.06250000350593388, -0.03906223142209375,
      -0.027354882710674096, -0.020253937710802195, -0.019076767594349942}},
    {0.12,
     {1, -0.5000000000000314, -0.12499999999139731, -0.06250000091304757, -0.039062450932041116,
      -0.027345258593331725, -0.020479744208709516, -0.01643326243207313, -0.010930741669338582,
      -0.018599066836422665}},
    {0.21,
     {1, -0.5000000000000282, -0.12499999999361183, -0.06250000056436847, -0.03906247432752708,
      -0.027344436180196455, -0.020496248963322732, -0.01624058019683605, -0.012168090663384546,
      -0.015252065060555186, 0.0031670024980023775, -0.02650824358042856}},
    {0.3,
     {1, -0.5000000000000218, -0.12499999999529043, -0.06250000039928265, -0.03906248239552218,
      -0.02734421310140845, -0.020499958637600804, -0.016203127431119447, -0.012381753230720379,
      -0.014818817743995386, 0.005547983308268741, -0.045434845965871884, 0.05116240850106343,
      -0.051648928417507185}}};

/* For norms of P below SMALL_P the root is 1 - P/2 to rounding; below TINY_P the rotation is 1 + 2
 * K. */
constexpr double SMALL_P = 8e-9, TINY_P = 1e-17;

/* The memory that a member uses for a matrix. */
struct team_work {
    uint32_t n;
    complex64 *x, *turned; /* columns before and after a turn */
    complex64 *k;          /* sines of half of the angles */
    complex64 *p, *p2;     /* P = -K^2, and its square */
    complex64 *root[2];    /* steps of the polynomial, then the rotation by the whole angles */
    double *d;             /* squares of the columns */
    double *sums; /* [2][jacobi_parts()][n] parts of the sums of |P| and |P^2| over rows, or of the
                     squares of columns */
};

/* How an element of a product above the diagonal follows from the one below it. */
enum class mirror { NONE, HERMITIAN, SKEW };

/* A step: product = left times right. Stores of[0] on the diagonal + of[1] first + (of[2] second +
 * of[3] product). SKEW: the terms in brackets are skew-Hermitian, the others Hermitian. */
struct team_step {
    const complex64 *left, *right;
    mirror kind;
    complex64 *to;
    double of[4];
    const complex64 *first, *second; /* NULL: none */
    double *sums; /* sums of the magnitudes in the rows of a Hermitian matrix; NULL: not wanted */
};

/* The element of K for columns of squares dx and dy and product g. */
__device__ inline complex64 half_rotation(double dx, double dy, complex64 g, double *worst) {
    const double relative = dx > 0 && dy > 0 ? square(g) * (1 / dx) * (1 / dy) : 0;
    *worst = fmax(*worst, relative);
    if (!(relative > ORTHOGONAL2))
        return {0, 0};
    const pivot_rotation r = orthogonalise(dx, dy, g);
    const double over = rsqrt(2 * (1 + r.c));
    return {r.w.re * over, r.w.im * over};
}

__device__ inline double size_of(complex64 x) {
    const double size2 = square(x);
    return size2 > 1e-290 ? size2 * near_rsqrt(size2) : 0;
}

/* Stores a tile's elements and their mirror images. The tile's warp calls. */
__device__ inline void store_tile(const team_work &work, const team_step &step,
                                  const fragment_c (&c)[4], uint32_t row, uint32_t column) {
    const uint32_t n = work.n;
    const bool whole = step.kind == mirror::NONE, skew = step.kind == mirror::SKEW;
    double along[2] = {0, 0}; /* magnitudes in the rows row + lane/4 and row + lane/4 + 8 */
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        complex64 first[4] = {}, second[4] = {};
        double down[2] = {0, 0}; /* magnitudes or squares in two columns */
#pragma unroll
        for (unsigned e = 0; e < 4; e++) {
            const size_t at = (size_t)(column + 8 * j + c_column(e)) * n + row + c_row(e);
            if (step.first)
                first[e] = step.first[at];
            if (step.second)
                second[e] = step.second[at];
        }
#pragma unroll
        for (unsigned e = 0; e < 4; e++) {
            const uint32_t p = row + c_row(e), q = column + 8 * j + c_column(e);
            complex64 h = {(p == q ? step.of[0] : 0) + step.of[1] * first[e].re,
                           step.of[1] * first[e].im},
                      s = {fma(step.of[3], c[j].re[e], step.of[2] * second[e].re),
                           fma(step.of[3], c[j].im[e], step.of[2] * second[e].im)};
            if (p == q && skew)
                s.re = 0;
            if (p == q && !whole && !skew)
                s.im = 0;
            const complex64 x = {h.re + s.re, h.im + s.im};
            if (whole || p >= q)
                step.to[(size_t)q * n + p] = x;
            if (!whole && p > q)
                step.to[(size_t)p * n + q] = skew ? complex64{h.re - s.re, s.im - h.im} : conj(x);
            const double size = whole ? square(x) : step.sums ? size_of(x) : 0;
            along[e / 2] += p >= q ? size : 0;
            down[e % 2] += whole || p > q ? size : 0;
        }
        if (step.sums)
#pragma unroll
            for (unsigned i = 0; i < 2; i++) {
                for (unsigned offset = 4; offset < WARP; offset *= 2)
                    down[i] += __shfl_xor_sync(ALL_LANES, down[i], offset);
                if (lane() < 4)
                    step.sums[(size_t)(n / JACOBI_PIVOT + row / 16) * n + column + 8 * j +
                              c_column(i)] = down[i];
            }
    }
    if (step.sums && !whole)
#pragma unroll
        for (unsigned i = 0; i < 2; i++) {
            along[i] = sum_lanes(along[i], 4);
            if (lane() % 4 == 0)
                step.sums[(size_t)(column / JACOBI_PIVOT) * n + row + c_row(2 * i)] = along[i];
        }
}

/* Computes a member's tiles of a step, 16 x 32 for each warp. GRAM: the step makes K from the
 * columns' Gram matrix. Returns the largest square of a residual in the thread's tiles. */
template <bool GRAM>
__device__ __noinline__ double make_step(const team_work &work, const team_member &own,
                                         const team_step &step) {
    const uint32_t n = work.n, rows = n / 16, columns = n / JACOBI_PIVOT;
    const bool whole = step.kind == mirror::NONE;
    const uint32_t count = whole ? rows * columns : columns * (columns + 1);
    const complex64 *left = step.left, *right = step.right;
    double worst = 0;
    for (uint32_t tile = own.member * warps() + warp(); tile < count;
         tile += own.members * warps()) {
        uint32_t i = tile % rows, j = tile / rows;
        if (!whole)
            for (i = tile, j = 0; i >= rows - 2 * j; j++)
                i -= rows - 2 * j;
        const uint32_t column = JACOBI_PIVOT * j, row = 16 * i + (whole ? 0 : column);
        fragment_c c[4] = {};
#pragma unroll 2
        for (uint32_t k = 0; k < n; k += 8) {
            fragment_a a;
            if (GRAM)
                load_adjoint(a, left, n, row, k);
            else
                load_a(a, left, n, row, k);
#pragma unroll
            for (uint32_t t = 0; t < 4; t++) {
                fragment_b b;
                load_b(b, right, n, k, column + 8 * t);
                multiply(c[t], a, b);
            }
        }
        if (GRAM)
#pragma unroll
            for (uint32_t t = 0; t < 4; t++)
#pragma unroll
                for (unsigned e = 0; e < 4; e++) {
                    const uint32_t p = row + c_row(e), q = column + 8 * t + c_column(e);
                    const complex64 x = p > q ? half_rotation(work.d[p], work.d[q],
                                                              {c[t].re[e], c[t].im[e]}, &worst)
                                              : complex64{0, 0};
                    c[t].re[e] = x.re, c[t].im[e] = x.im;
                }
        store_tile(work, step, c, row, column);
    }
    return worst;
}

/* The largest sum of the magnitudes in a row, an upper bound of the eigenvalues. All threads
 * call. */
__device__ inline double norm_of(const team_work &work, const double *sums) {
    const uint32_t n = work.n, columns = n / JACOBI_PIVOT;
    double most = 0;
    for (uint32_t row = threadIdx.x; row < n; row += JACOBI_THREADS) {
        double sum = 0;
#pragma unroll 4
        for (uint32_t part = 0; part <= row / JACOBI_PIVOT; part++)
            sum += sums[(size_t)part * n + row];
#pragma unroll 4
        for (uint32_t part = row / 16; part < n / 16; part++)
            sum += sums[(size_t)(columns + part) * n + row];
        most = fmax(most, sum);
    }
    return block_max(most);
}

/* Computes from K the step `turn` that turns X. Returns an upper bound of P's norm, or a negative
 * number if P is too large. */
__device__ inline double make_rotation(const team_work &work, team_member &own, team_step *turn) {
    const auto take = [&](const team_step &step) {
        make_step<false>(work, own, step);
        meet(own);
    };
    const mirror hermitian = mirror::HERMITIAN, skew = mirror::SKEW;
    double *const other = work.sums + (size_t)jacobi_parts(work.n) * work.n;
    take({work.k, work.k, hermitian, work.p, {0, 0, 0, -1}, nullptr, nullptr, work.sums});
    double norm = norm_of(work, work.sums);
    uint32_t now = 0;
    *turn = {work.x, work.k, mirror::NONE, work.turned, {0, 1, 0, 2}, work.x, nullptr, other};
    if (norm <= TINY_P)
        return norm;
    team_step whole = {work.k, work.p, skew, work.root[0], {1, -2, 2, -1}, work.p, work.k, nullptr};
    if (norm > SMALL_P) {
        take({work.p, work.p, hermitian, work.p2, {0, 0, 0, 1}, nullptr, nullptr, other});
        norm = fmin(norm, sqrt(norm_of(work, other)));
        uint32_t chosen = 0;
        while (chosen < ROOTS && norm > ROOT[chosen].most)
            chosen++;
        if (chosen == ROOTS)
            return -1;
        const double *c = ROOT[chosen].term;
        const uint32_t last = 2 * (chosen + ROOT_PAIRS - 1);
        for (uint32_t i = last; i > 0; i -= 2, now = !now) {
            const bool begins = i == last;
            take({work.p2,
                  begins ? work.p : work.root[!now],
                  hermitian,
                  work.root[now],
                  {c[i - 2], c[i - 1], begins ? c[i] : 0, begins ? c[i + 1] : 1},
                  work.p,
                  begins ? work.p2 : nullptr,
                  nullptr});
        }
        whole = {work.k,        work.root[!now], skew,    work.root[now],
                 {1, -2, 0, 2}, work.p,          nullptr, nullptr};
    }
    take(whole);
    *turn = {work.x,       work.root[now], mirror::NONE, work.turned,
             {0, 0, 0, 1}, nullptr,        nullptr,      other};
    return norm;
}

/* Turns all pairs at once. False: the angles are too large. *found gets the square of the residual:
 * the one before the turn or, if only rounding remains, a bound of the one after it. */
__device__ __noinline__ bool turn_all(team_work &work, team_member &own, double limit,
                                      unsigned long long *shared_worst, double *found) {
    team_step turn = {work.x,       work.x,  mirror::SKEW, work.k,
                      {0, 0, 0, 1}, nullptr, nullptr,      nullptr};
    const double worst = block_max(make_step<true>(work, own, turn));
    if (threadIdx.x == 0)
        atomicMax(shared_worst, (unsigned long long)__double_as_longlong(worst));
    meet(own);
    *found = __longlong_as_double((long long)__ldcg(shared_worst));
    if (*found <= limit)
        return true;
    const double norm = make_rotation(work, own, &turn);
    if (norm < 0)
        return false;
    make_step<false>(work, own, turn);
    meet(own);
    const uint32_t n = work.n;
    for (uint32_t j = own.member * JACOBI_THREADS + threadIdx.x; j < n;
         j += own.members * JACOBI_THREADS) {
        double sum = 0;
        for (uint32_t part = 0; part < n / 16; part++)
            sum += turn.sums[(size_t)(n / JACOBI_PIVOT + part) * n + j];
        work.d[j] = sum;
    }
    meet(own);
    complex64 *const before = work.x;
    work.x = work.turned, work.turned = before;
    const double left = n * *found + 2 * sqrt(n * *found * norm);
    if (left * left <= ORTHOGONAL2)
        *found = left * left;
    return true;
}

/* ---- sweeps of a large matrix ---------------------------------------------------------------- */

enum class rounds_of { NEIGHBOURS, ALL };

/* A member's part of a sweep in which all blocks meet, or only adjacent ones. Returns the square of
 * the residual. */
__device__ __noinline__ double sweep_pairs(const team_work &work, team_member &own, rounds_of which,
                                           bool nearly, unsigned long long *shared_worst,
                                           pivot_room &r) {
    const uint32_t blocks = work.n / JACOBI_BLOCK;
    const bool all = which == rounds_of::ALL;
    double worst = 0;
    for (uint32_t round = 0; round < (all ? blocks - 1 : 2); round++) {
        for (uint32_t p = own.member; p < blocks / 2; p += own.members) {
            const index_pair pair =
                all ? jacobi_pair(blocks, round, p) : index_pair{2 * p + round, 2 * p + round + 1};
            if (pair.y < blocks)
                worst = fmax(worst, turn_pair(work.x, work.n, work.d, pair, nearly && round, r));
        }
        if (all && round + 2 == blocks && threadIdx.x == 0)
            atomicMax(shared_worst, (unsigned long long)__double_as_longlong(worst));
        meet(own);
    }
    return __longlong_as_double((long long)__ldcg(shared_worst));
}

/* When all pairs are turned at once. From vectors, columns are in falling order and only neighbours
 * have large angles. So all pairs are turned at once from the start. Sweeps of neighbouring blocks
 * come first if neighbours may be far from orthogonal: two at the start, unless the vectors were
 * updated, two after a sweep of all pairs, and one if the residual is above NEIGHBOURS2. After a
 * sweep of all pairs, all are turned at once again if it found no more than TOGETHER2. After
 * MOST_REFUSALS failures a matrix is swept pair by pair. */
constexpr double TOGETHER2 = 1e-2, NEIGHBOURS2 = 1e-6;
constexpr uint32_t MOST_REFUSALS = 2;

/* Makes all sweeps over a matrix. All threads of all members call. */
__device__ inline void sweep_together(team_work &work, team_member &own, jacobi_start start,
                                      unsigned long long *worst, pivot_room &r,
                                      sweep_progress &now) {
    uint32_t refusals = 0, neighbours = start == FROM_FOLLOWED ? 0 : 2;
    bool together = true;
    for (; now.goes_on(); now.sweeps++, worst++) {
        const double before = now.found;
        if (together) {
            for (; neighbours > 0; neighbours--)
                sweep_pairs(work, own, rounds_of::NEIGHBOURS, false, worst, r);
            together = turn_all(work, own, now.limit, worst, &now.found) && now.found <= before / 4;
            neighbours = now.found > NEIGHBOURS2;
            refusals += !together;
        } else {
            now.found = sweep_pairs(work, own, rounds_of::ALL, before <= NEARLY2, worst, r);
            together = now.found <= TOGETHER2 && refusals < MOST_REFUSALS;
            neighbours = 2;
        }
    }
}

/* As jacobi_sweeps, of the matrices that begin from vectors, with all pairs at once where possible.
 * Fewer blocks run at a time, with more registers. */
__global__ void __launch_bounds__(JACOBI_THREADS, JACOBI_TOGETHER) jacobi_together(jacobi_batch b) {
    __shared__ pivot_room r;
    team_member place = join_team(b);
    for (uint32_t across = 0; across < 2; across++)
        r.games[across][threadIdx.x] = games_of(threadIdx.x, across);
    const uint32_t n = b.order;
    const size_t size = (size_t)n * n;
    complex64 *own = b.squares + 4 * place.team * size;
    for (uint32_t matrix = place.team; matrix < b.count; matrix += b.teams) {
        if (!b.begins_from_vectors(matrix))
            continue;
        const size_t first = b.first(matrix);
        team_work work = {n,
                          b.x + first,
                          b.vectors + first,
                          b.a + first,
                          own,
                          own + size,
                          {own + 2 * size, own + 3 * size},
                          b.own + (size_t)matrix * n,
                          b.sums + (size_t)place.team * 2 * jacobi_parts(n) * n};
        sweep_progress now(b, matrix);
        sweep_together(work, place, b.start(matrix), b.worst + (size_t)matrix * JACOBI_MOST_SWEEPS,
                       r, now);
        for (size_t i = place.member * JACOBI_THREADS + threadIdx.x;
             now.most && work.x != b.x + first && i < size; i += place.members * JACOBI_THREADS)
            work.turned[i] = work.x[i];
        if (place.member == 0 && threadIdx.x == 0)
            now.tell(b, matrix);
    }
}

} // namespace mvdr

#endif
