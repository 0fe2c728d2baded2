/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Eigendecomposition of R = S S^H without forming R. S (n x m) is first reduced by Householder QR
 * to a triangle of min(n, m) columns; a second, pivoted QR of the triangle's conjugate transpose
 * leaves columns that are nearly orthogonal; one-sided Jacobi finishes them.
 */
#include "mvdr_jacobi/internal.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A squared norm, relative to elements of magnitude 1, that float32 may round away: zero. */
#define NOTHING 1e-30

static void mvdr_sift(const double *d, size_t *order, size_t root, size_t count) {
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && d[order[child + 1]] < d[order[child]])
            child++;
        if (d[order[root]] <= d[order[child]])
            return;
        size_t swap = order[root];
        order[root] = order[child], order[child] = swap;
    }
}

size_t mvdr_descending(const double *d, size_t count, double relative, size_t *order) {
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (size_t i = count / 2; i-- > 0;)
        mvdr_sift(d, order, i, count);
    for (size_t end = count; end-- > 1;) {
        size_t swap = order[0];
        order[0] = order[end], order[end] = swap;
        mvdr_sift(d, order, 0, end);
    }
    size_t kept = 0;
    while (kept < count && d[order[kept]] > NOTHING && d[order[kept]] > relative * d[order[0]])
        kept++;
    return kept;
}

#define REAL    float
#define EPSILON FLT_EPSILON
#define NAME(x) x##_f32
#include "mvdr_jacobi/solve_template.h"
#undef REAL
#undef EPSILON
#undef NAME

#define REAL    double
#define EPSILON DBL_EPSILON
#define NAME(x) x##_f64
#include "mvdr_jacobi/solve_template.h"
