/* SPDX-License-Identifier: GPL-3.0-or-later */
/* QR reductions and assembly for one precision: included by solve.c with REAL and NAME defined. */

typedef REAL NAME(vector) __attribute__((vector_size(32)));
#define VECTOR NAME(vector)
#define LANES  (32 / sizeof(REAL))

typedef struct NAME(matrix) {
    REAL *re, *im;
    size_t ld;
} NAME(matrix);

MVDR_INLINE double NAME(sum)(const VECTOR *v) {
    REAL part[LANES];
    memcpy(part, v, sizeof part);
    for (size_t width = LANES / 2; width; width /= 2)
        for (size_t i = 0; i < width; i++)
            part[i] += part[i + width];
    return (double)part[0];
}

/* Squared norms, from row `first` on, of the columns begin..end whose norm2 is not negative. */
SONAR_MULTIARCH static void NAME(norms)(const REAL *re, const REAL *im, size_t ld, size_t first,
                                        size_t rows, size_t begin, size_t end, double *norm2) {
    for (size_t j = begin; j < end; j++) {
        if (norm2[j] < 0)
            continue;
        const VECTOR *xr = (const VECTOR *)(re + j * ld), *xi = (const VECTOR *)(im + j * ld);
        VECTOR a = {0}, b = {0};
        for (size_t i = first / LANES; i < (rows + LANES - 1) / LANES; i++)
            a += xr[i] * xr[i], b += xi[i] * xi[i];
        a += b;
        norm2[j] = NAME(sum)(&a);
    }
}

/* x <- (I - tau v v^H) x from row `first` on, for every column x whose norm2 is not negative;
 * v is zero above `first`. */
SONAR_MULTIARCH static void NAME(reflect)(const REAL *vr, const REAL *vi, double tau, size_t first,
                                          size_t rows, REAL *re, REAL *im, size_t ld,
                                          size_t columns, const double *norm2) {
    size_t begin = first / (2 * LANES) * 2, end = (rows + LANES - 1) / LANES;
    const VECTOR *ur = (const VECTOR *)vr, *ui = (const VECTOR *)vi;
    for (size_t j = 0; j < columns; j++) {
        if (norm2 && norm2[j] < 0)
            continue;
        VECTOR *xr = (VECTOR *)(re + j * ld), *xi = (VECTOR *)(im + j * ld);
        VECTOR a0 = {0}, a1 = {0}, b0 = {0}, b1 = {0}, c0 = {0}, c1 = {0}, d0 = {0}, d1 = {0};
        for (size_t i = begin; i < end; i += 2) { /* columns are padded to pairs of vectors */
            a0 += ur[i] * xr[i], a1 += ur[i + 1] * xr[i + 1];
            b0 += ui[i] * xi[i], b1 += ui[i + 1] * xi[i + 1];
            c0 += ur[i] * xi[i], c1 += ur[i + 1] * xi[i + 1];
            d0 += ui[i] * xr[i], d1 += ui[i + 1] * xr[i + 1];
        }
        VECTOR a = (a0 + a1) + (b0 + b1), c = (c0 + c1) - (d0 + d1);
        REAL sr = (REAL)(tau * NAME(sum)(&a)), si = (REAL)(tau * NAME(sum)(&c));
        for (size_t i = begin; i < end; i++) {
            xr[i] = xr[i] - sr * ur[i] + si * ui[i];
            xi[i] = xi[i] - sr * ui[i] - si * ur[i];
        }
    }
}

/* Turns column v into the Householder vector that zeroes it below `row`; returns tau and the
 * diagonal it leaves. */
static double NAME(householder)(REAL *vr, REAL *vi, size_t row, double norm2, double diagonal[2]) {
    double ar = (double)vr[row], ai = (double)vi[row], a = hypot(ar, ai), norm = sqrt(norm2);
    double pr = a > 0 ? ar / a : 1, pi = a > 0 ? ai / a : 0;
    vr[row] = (REAL)(ar + pr * norm);
    vi[row] = (REAL)(ai + pi * norm);
    diagonal[0] = -pr * norm;
    diagonal[1] = -pi * norm;
    return 1 / (norm * (norm + a));
}

static size_t NAME(choose)(const double *norm2, size_t columns, size_t step, bool pivot) {
    size_t best = step;
    if (pivot)
        for (size_t j = best = 0; j < columns; j++)
            best = norm2[j] > norm2[best] ? j : best;
    return best;
}

/* Moves row `step` of R, conjugated, from t into out's column, so that t's norms are what is left.
 */
static void NAME(take_row)(NAME(matrix) t, size_t step, size_t columns, const double *norm2,
                           REAL *rr, REAL *ri) {
    for (size_t j = 0; j < columns; j++)
        if (norm2[j] >= 0) {
            rr[j] = t.re[j * t.ld + step];
            ri[j] = -t.im[j * t.ld + step];
            t.re[j * t.ld + step] = t.im[j * t.ld + step] = 0;
        }
}

/* Householder QR of t (rows x columns, rows >= columns): t P = Q R. Column `step` of `out` becomes
 * the conjugate of row `step` of R, its entries at the columns' places in t, so that
 * out out^H = t^H t with no permutation left to undo. t's columns become the Householder vectors.
 * With pivoting the largest remaining column goes first: out's columns then are nearly orthogonal
 * already and Jacobi needs fewer sweeps (Drmac and Veselic 2008). */
static void NAME(reduce)(NAME(matrix) t, size_t rows, size_t columns, bool pivot, NAME(matrix) out,
                         double *norm2, double *tau) {
    memset(out.re, 0, columns * out.ld * sizeof(REAL));
    memset(out.im, 0, columns * out.ld * sizeof(REAL));
    memset(norm2, 0, columns * sizeof *norm2);
    NAME(norms)(t.re, t.im, t.ld, 0, rows, 0, pivot ? columns : 1, norm2);
    for (size_t step = 0; step < columns; step++) {
        size_t chosen = NAME(choose)(norm2, columns, step, pivot);
        REAL *vr = t.re + chosen * t.ld, *vi = t.im + chosen * t.ld;
        REAL *rr = out.re + step * out.ld, *ri = out.im + step * out.ld;
        double left = norm2[chosen], diagonal[2] = {0, 0};
        norm2[chosen] = -1; /* done */
        tau[step] = 0;
        if (left > NOTHING) {
            tau[step] = NAME(householder)(vr, vi, step, left, diagonal);
            NAME(reflect)(vr, vi, tau[step], step, rows, t.re, t.im, t.ld, columns, norm2);
        }
        NAME(take_row)(t, step, columns, norm2, rr, ri);
        rr[chosen] = (REAL)diagonal[0];
        ri[chosen] = (REAL)-diagonal[1];
        NAME(norms)
        (t.re, t.im, t.ld, step + 1, rows, pivot ? 0 : step + 1,
         pivot ? columns : sonar_min_size(step + 2, columns), norm2);
    }
}

/* S into t: as it is, or conjugate transposed. */
static void NAME(load)(const mvdr_scratch *scratch, size_t n, size_t m, bool transpose,
                       NAME(matrix) t) {
    size_t ld = mvdr_pad(n, MVDR_ALIGN), columns = transpose ? n : m;
    memset(t.re, 0, columns * t.ld * sizeof(REAL));
    memset(t.im, 0, columns * t.ld * sizeof(REAL));
    for (size_t j = 0; j < m; j++)
        for (size_t i = 0; i < n; i++) {
            size_t at = transpose ? i * t.ld + j : j * t.ld + i;
            t.re[at] = (REAL)scratch->s_re[j * ld + i];
            t.im[at] = (REAL)(transpose ? -scratch->s_im[j * ld + i] : scratch->s_im[j * ld + i]);
        }
}

/* Columns of u longest first into d and order; returns how many are more than rounding noise. */
static size_t NAME(rank)(NAME(matrix) u, size_t rows, size_t columns, double *d, size_t *order) {
    memset(d, 0, columns * sizeof *d);
    NAME(norms)(u.re, u.im, u.ld, 0, rows, 0, columns, d);
    return mvdr_descending(d, columns, (double)EPSILON * (double)EPSILON, order);
}

/* Column `from` of u, made a unit vector, into q, rows beyond zero. */
static void NAME(unit)(NAME(matrix) u, size_t from, size_t rows, double norm2, NAME(matrix) q,
                       size_t to) {
    double scale = 1 / sqrt(norm2);
    memset(q.re + to * q.ld, 0, q.ld * sizeof(REAL));
    memset(q.im + to * q.ld, 0, q.ld * sizeof(REAL));
    for (size_t i = 0; i < rows; i++) {
        q.re[to * q.ld + i] = (REAL)((double)u.re[from * u.ld + i] * scale);
        q.im[to * q.ld + i] = (REAL)((double)u.im[from * u.ld + i] * scale);
    }
}

static void NAME(store)(NAME(matrix) q, size_t n, size_t k, float *re, float *im, size_t ld) {
    size_t columns = mvdr_pad(k, MVDR_GROUP);
    memset(re, 0, columns * ld * sizeof *re);
    memset(im, 0, columns * ld * sizeof *im);
    for (size_t j = 0; j < k; j++)
        for (size_t i = 0; i < n; i++) {
            re[j * ld + i] = (float)q.re[j * q.ld + i];
            im[j * ld + i] = (float)q.im[j * q.ld + i];
        }
}

mvdr_solution NAME(mvdr_solve)(mvdr_scratch *scratch, size_t n, size_t m, double tolerance,
                               size_t max_sweeps, float *q_re, float *q_im, size_t ld,
                               size_t most) {
    bool tall = m < n; /* fewer columns than sensors: the triangle is m x m, Q leads back to n */
    size_t c = tall ? m : n, rows = tall ? n : m;
    NAME(matrix) t = {(REAL *)scratch->t_re, (REAL *)scratch->t_im, mvdr_pad(rows, MVDR_ALIGN)};
    NAME(matrix) u = {(REAL *)scratch->u_re, (REAL *)scratch->u_im, mvdr_pad(c, MVDR_ALIGN)};
    NAME(matrix) q = {(REAL *)scratch->q_re, (REAL *)scratch->q_im, mvdr_pad(n, MVDR_ALIGN)};
    NAME(load)(scratch, n, m, !tall, t);
    if (tall) { /* S = Q1 R1, and S S^H = Q1 (R1 R1^H) Q1^H: go on with R1^H, held in q */
        NAME(matrix) k = {q.re, q.im, u.ld};
        NAME(reduce)(t, n, m, false, k, scratch->norm2, scratch->tau);
        NAME(reduce)(k, m, m, true, u, scratch->norm2, scratch->tau + m);
    } else {
        NAME(reduce)(t, m, n, true, u, scratch->norm2, scratch->tau);
    }
    mvdr_solution solution = NAME(mvdr_jacobi)(u.re, u.im, c, c, u.ld, tolerance, max_sweeps,
                                               scratch->norm2, scratch->pair);
    solution.kept = sonar_min_size(NAME(rank)(u, c, c, scratch->d, scratch->order), most);
    for (size_t i = 0; i < solution.kept; i++) {
        size_t from = scratch->order[i];
        NAME(unit)(u, from, c, scratch->d[from], q, i);
        scratch->norm2[i] = scratch->d[from];
    }
    memcpy(scratch->d, scratch->norm2, solution.kept * sizeof *scratch->d);
    if (tall)
        for (size_t j = m; j-- > 0;)
            NAME(reflect)
    (t.re + j * t.ld, t.im + j * t.ld, scratch->tau[j], j, n, q.re, q.im, q.ld, solution.kept,
     NULL);
    NAME(store)(q, n, solution.kept, q_re, q_im, ld);
    return solution;
}

#undef VECTOR
#undef LANES
