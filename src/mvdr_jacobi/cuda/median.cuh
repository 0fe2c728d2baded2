/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Two neighbouring eigenvalues of a large Hermitian matrix A, without the others. The number of
 * eigenvalues below s is the number of negative pivots of A - s I, which takes one factorisation.
 * Each eigenvalue is found to a cell of a fixed grid, and within the cell from the determinants at
 * both edges. So the result does not depend on where the search began. It begins at the last
 * result, and takes a few counts if the matrix has changed little.
 */
#ifndef SONAR_MVDR_JACOBI_CUDA_MEDIAN_CUH
#define SONAR_MVDR_JACOBI_CUDA_MEDIAN_CUH

#include "mvdr_jacobi/cuda/factor.cuh"

namespace mvdr {

/* Cells from 2^-64 to 1. */
constexpr uint32_t OCTAVES = 64;
struct cells {
    uint32_t octave; /* cells of an octave */

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

/* The width of the cells. Wide cells save counts and cost accuracy. With 256 cells in an octave the
 * median of noise alone is accurate to a thousandth. That takes three counts with 1024 or 2048 rows
 * if the block slides by a snapshot, and six with 256 rows, where eigenvalues are further apart and
 * change more. With few rows, two eigenvalues in a cell would shift the median by more than a
 * thousandth, and cells are narrower. Matrices are that small on this route only if a test names
 * it, or if sensors are masked. */
__device__ inline cells cells_for(uint32_t m) {
    return {m <= 192 ? 1024u : 256u};
}

/* Pivots of A - s I below this times s are replaced by it. Eigenvalues near s move by less than
 * that. */
constexpr double SMALL_PIVOT = 1e-5;

/* An edge s of a cell, and the inertia of A - s I. */
struct edge {
    uint32_t cell;
    inertia at;
};

/* An interval that contains the eigenvalue. */
struct bracket {
    edge low, high;

    __device__ bool closed() const { return high.cell - low.cell <= 1; }

    __device__ void narrow(const edge &tried, uint32_t rank) {
        if (tried.cell > low.cell && tried.cell < high.cell)
            (tried.at.negative <= rank ? low : high) = tried;
    }

    /* The eigenvalue. If it is alone in the cell, linear interpolation of the determinant gives its
     * zero. Several are spread evenly. The determinants of the outermost edges are not known. */
    __device__ double value(const cells &all, uint32_t rank) const {
        const double from = all.edge(low.cell), width = all.edge(high.cell) - from;
        const uint32_t inside = max(high.at.negative - low.at.negative, 1u);
        if (inside == 1 && low.cell > 0 && high.cell < all.count())
            return from + width / (1 + exp(high.at.logarithm - low.at.logarithm));
        return from + width * (rank - low.at.negative + 0.5) / inside;
    }
};

/* A search for the eigenvalues of ranks rank[0] <= rank[1], counted from the smallest as 0. All
 * eigenvalues are below 1; one under 2^-64 is found as 2^-64. While wants() is true, the caller
 * passes the inertia of the matrix minus shift() I to take(). */
struct search {
    cells all;
    uint32_t rank[2];
    double near[2]; /* starting values, or 0 */
    bracket found[2];
    /* index of the present eigenvalue; cells of the next step; edge of the next count */
    uint32_t own, step, next;

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
