/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Two neighbours among the eigenvalues of a large Hermitian matrix, without the others: the number
 * of eigenvalues below s is that of the negative pivots of A - s I, one factorisation. Each is
 * found to a cell of a fixed grid, and in it by what the determinant is at both edges, so that the
 * result does not depend on where the search began. It begins where the last one ended: a few
 * counts where the matrix has changed little.
 */
#ifndef SONAR_MVDR_JACOBI_MEDIAN_CUDA_CUH
#define SONAR_MVDR_JACOBI_MEDIAN_CUDA_CUH

#include "mvdr_jacobi/factor_cuda.cuh"

namespace mvdr {

/* Cells from 2^-64 to 1. */
constexpr uint32_t OCTAVES = 64;
struct cells {
    uint32_t octave; /* number in each */

    __device__ uint32_t count() const { return OCTAVES * octave; }

    /* The lower edge of a cell. */
    __device__ double edge(uint32_t cell) const {
        return ldexp(1 + (double)(cell % octave) / octave, (int)(cell / octave) - (int)OCTAVES);
    }

    /* The cell whose lower edge is next to x. */
    __device__ uint32_t near(double x) const {
        int exponent;
        const double part = 2 * frexp(x, &exponent) - 1; /* x = (1 + part) 2^(exponent - 1) */
        const double octaves = (double)exponent - 1 + OCTAVES;
        return (uint32_t)fmin(fmax((octaves + rint(part * octave) / octave) * octave, 1.0),
                              count() - 1.0);
    }
};

/* Wide cells save counts and cost digits: of 256 to an octave the median of noise alone is found to
 * within a thousandth, three counts of 1024 or 2048 rows in a window that slides by a snapshot, and
 * six of 256, where eigenvalues lie further apart and move more. With few rows, two eigenvalues in
 * one cell would shift the median by more than a thousandth. The route takes so few rows only if a
 * test names it, or if sensors are masked. */
__device__ inline cells cells_for(uint32_t m) {
    return {m <= 192 ? 1024u : 256u};
}

/* Pivots of A - s I below this times s are replaced: eigenvalues near s move by less than that. */
constexpr double SMALL_PIVOT = 1e-5;

/* The edge of a cell; inertia of the matrix less that. */
struct edge {
    uint32_t cell;
    inertia at;
};

/* An eigenvalue is between these edges. */
struct bracket {
    edge low, high;

    __device__ bool closed() const { return high.cell - low.cell <= 1; }

    __device__ void narrow(const edge &tried, uint32_t rank) {
        if (tried.cell > low.cell && tried.cell < high.cell)
            (tried.at.negative <= rank ? low : high) = tried;
    }

    /* Alone between them, it is where the determinant, nearly linear so near to it, changes its
     * sign; several are spread evenly. The outermost edges' determinants are not known. */
    __device__ double value(const cells &all, uint32_t rank) const {
        const double from = all.edge(low.cell), width = all.edge(high.cell) - from;
        const uint32_t inside = max(high.at.negative - low.at.negative, 1u);
        if (inside == 1 && low.cell > 0 && high.cell < all.count())
            return from + width / (1 + exp(high.at.logarithm - low.at.logarithm));
        return from + width * (rank - low.at.negative + 0.5) / inside;
    }
};

/* The eigenvalues of ranks rank[0] <= rank[1], counted from the smallest as 0, of a matrix whose
 * eigenvalues are below 1; one under 2^-64 comes out there. While it wants() one, it is to be given
 * the inertia of the matrix less shift() I. */
struct search {
    cells all;
    uint32_t rank[2];
    double near[2]; /* where they may be, or 0 */
    bracket found[2];
    uint32_t own, step, next; /* the one that is looked for; cells to go; edge of the next count */

    __device__ void begin(uint32_t m, uint32_t first, uint32_t second, const double where[2]) {
        all = cells_for(m);
        rank[0] = first, rank[1] = second;
        for (unsigned i = 0; i < 2; i++) {
            near[i] = where[i];
            found[i] = {{0, {0, 0}}, {all.count(), {m, 0}}};
        }
        own = 0;
        aim();
    }

    __device__ void aim() {
        step = near[own] > 0 ? 1 : all.count();
        next = near[own] > 0 ? all.near(near[own]) : all.count() / 2;
    }

    __device__ bool wants() {
        while (own < 2 && found[own].closed())
            if (++own < 2)
                aim();
        if (own == 2)
            return false;
        next = min(max(next, found[own].low.cell + 1), found[own].high.cell - 1);
        return true;
    }

    __device__ double shift() const { return all.edge(next); }

    __device__ void take(inertia counted) {
        const bracket &mine = found[own];
        for (unsigned i = 0; i < 2; i++)
            found[i].narrow({next, counted}, rank[i]);
        const uint32_t move = min(step, (mine.high.cell - mine.low.cell) / 2);
        next = counted.negative <= rank[own] ? mine.low.cell + move : mine.high.cell - move;
        step = min(2 * step, all.count());
    }

    __device__ double value(unsigned i) const { return found[i].value(all, rank[i]); }
};

} // namespace mvdr

#endif
