/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Two neighbours among the eigenvalues of a large Hermitian matrix, without the others: the number
 * of eigenvalues below s is that of the negative pivots of A - s I, one factorisation. Each is
 * found to a cell of a fixed grid, 1024 to an octave, and in it by what the determinant is at both
 * edges, so that the result does not depend on where the search began. It begins where the last
 * one ended: a few counts where the matrix has changed little.
 */
#ifndef SONAR_MVDR_JACOBI_MEDIAN_CUDA_CUH
#define SONAR_MVDR_JACOBI_MEDIAN_CUDA_CUH

#include "mvdr_jacobi/factor_cuda.cuh"

namespace mvdr {

constexpr uint32_t OCTAVE = 1024, OCTAVES = 64, CELLS = OCTAVES * OCTAVE; /* from 2^-64 to 1 */

/* The lower edge of a cell. */
__device__ inline double edge_of(uint32_t cell) {
    return ldexp(1 + (double)(cell % OCTAVE) / OCTAVE, (int)(cell / OCTAVE) - (int)OCTAVES);
}

__device__ inline uint32_t cell_of(double x) {
    int exponent;
    const double part = 2 * frexp(x, &exponent) - 1; /* x = (1 + part) 2^(exponent - 1) */
    const double octave = (double)exponent - 1 + OCTAVES;
    return (uint32_t)fmin(fmax((octave + floor(part * OCTAVE) / OCTAVE) * OCTAVE, 1.0),
                          CELLS - 1.0);
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

    __device__ void narrow(const edge &tried, uint32_t rank) {
        if (tried.cell > low.cell && tried.cell < high.cell)
            (tried.at.negative <= rank ? low : high) = tried;
    }

    /* Alone between them, it is where the determinant, nearly linear so near to it, changes its
     * sign; several are spread evenly. The outermost edges' determinants are not known. */
    __device__ double value(uint32_t rank) const {
        const double from = edge_of(low.cell), width = edge_of(high.cell) - from;
        const uint32_t inside = max(high.at.negative - low.at.negative, 1u);
        if (inside == 1 && low.cell > 0 && high.cell < CELLS)
            return from + width / (1 + exp(high.at.logarithm - low.at.logarithm));
        return from + width * (rank - low.at.negative + 0.5) / inside;
    }
};

/*
 * The eigenvalues of ranks rank[0] <= rank[1], counted from the smallest as 0, of a matrix of order
 * m whose eigenvalues are below 1; one under 2^-64 comes out there. inertia_at(s) is that of the
 * matrix less s I. value: in, near where they may be, or 0; out, the eigenvalues.
 */
template <typename Inertia>
__device__ inline void find_pair(const Inertia &inertia_at, uint32_t m, const uint32_t rank[2],
                                 double value[2]) {
    const bracket all = {{0, {0, 0}}, {CELLS, {m, 0}}};
    bracket b[2] = {all, all};
    for (unsigned own = 0; own < 2; own++) {
        bracket &mine = b[own];
        uint32_t step = value[own] > 0 ? 1 : CELLS;
        uint32_t next = value[own] > 0 ? cell_of(value[own]) : CELLS / 2;
        while (mine.high.cell - mine.low.cell > 1) {
            next = min(max(next, mine.low.cell + 1), mine.high.cell - 1);
            const edge tried = {next, inertia_at(edge_of(next))};
            for (unsigned i = 0; i < 2; i++)
                b[i].narrow(tried, rank[i]);
            const uint32_t move = min(step, (mine.high.cell - mine.low.cell) / 2);
            next = tried.at.negative <= rank[own] ? mine.low.cell + move : mine.high.cell - move;
            step = min(2 * step, CELLS);
        }
    }
    for (unsigned own = 0; own < 2; own++)
        value[own] = b[own].value(rank[own]);
}

} // namespace mvdr

#endif
