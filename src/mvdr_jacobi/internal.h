/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the files of the CPU's MVDR share. All arithmetic is in double, on samples and steering
 * vectors in float.
 *
 *   column  a snapshot, or in snapshot space with forward-backward averaging also its mirror image
 *   order   of the matrix A that is solved: columns in snapshot space (A their Gram matrix),
 * sensors in sensor space (A the covariance); mvdr_shape says which
 *
 * docs/architecture.md has a table of the files in the order in which a bin goes through them.
 */
#ifndef SONAR_MVDR_JACOBI_INTERNAL_H
#define SONAR_MVDR_JACOBI_INTERNAL_H

#include <string.h>

#include "core/arena.h"
#include "core/core.h"
#include "mvdr_jacobi/inverse.h"
#include "mvdr_jacobi/route.h"
#include "mvdr_jacobi/tone.h"

/* Helpers whose loops must be compiled once per instruction set along with their caller. */
#define MVDR_INLINE static inline __attribute__((always_inline))

enum { MVDR_LANES = 8 }; /* directions, or rows of a matrix, worked at together */

typedef double mvdr_lanes __attribute__((vector_size(MVDR_LANES * sizeof(double))));

/* ---- matrices -------------------------------------------------------------------------------- */

/* Panels of eight rows, each [column][re, im][row]. Of a Hermitian or lower triangular matrix panel
 * b has the columns up to its diagonal block, 8 (b + 1); of any other all of them. Rows beyond the
 * matrix are those of the identity in a triangle and zero elsewhere. */
static inline double *mvdr_panel(double *a, size_t b) {
    return a + MVDR_LANES * MVDR_LANES * b * (b + 1);
}

/* Real part of element (i, j), j <= i; the imaginary one is MVDR_LANES further. */
static inline double *mvdr_at(double *a, size_t i, size_t j) {
    return mvdr_panel(a, i / MVDR_LANES) + 2 * MVDR_LANES * j + i % MVDR_LANES;
}

/* Doubles in a triangle of that order. */
static inline size_t mvdr_triangle(size_t order) {
    const size_t panels = mvdr_pad(order, MVDR_LANES) / MVDR_LANES;
    return MVDR_LANES * MVDR_LANES * panels * (panels + 1);
}

/* Sum over the lanes, in a fixed order. */
MVDR_INLINE double mvdr_add_lanes(const mvdr_lanes *v) {
    double part[MVDR_LANES];
    memcpy(part, v, sizeof part);
    return ((part[0] + part[4]) + (part[2] + part[6])) +
           ((part[1] + part[5]) + (part[3] + part[7]));
}

/* Element by element, because compilers generate better code for this than for a converted
 * vector. */
MVDR_INLINE void mvdr_widen(const float *from, mvdr_lanes *to) {
    double wide[MVDR_LANES];
    for (size_t lane = 0; lane < MVDR_LANES; lane++)
        wide[lane] = (double)from[lane];
    memcpy(to, wide, sizeof wide);
}

/* Planar columns, `ld` apart, of a square. */
typedef struct mvdr_square {
    double *re, *im;
    size_t n, ld;
} mvdr_square;

/* ---- scratch of one worker ------------------------------------------------------------------- */

/* The streaming inverse: vectors are planar, [re, im][ld]. */
typedef struct mvdr_change {
    double *x, *y, *t; /* [MVDR_MOST_MOVED] what comes and goes, M x and M y */
    double *back;      /* [ld][4][lane] products from the left, before the lanes are added */
    double *probe;     /* [ld][re, im][lane] */
    double *v, *z;     /* two vectors each */
    double sign[MVDR_MOST_MOVED], over[MVDR_MOST_MOVED],
        energy[MVDR_MOST_MOVED]; /* +1 or -1; 1/s; |y|^2 */
    size_t count;                /* of what comes and goes */
    size_t listed;               /* snapshots that count */
} mvdr_change;

typedef struct mvdr_scratch {
    double *a;                   /* the matrix that is solved, a triangle */
    double *panel;               /* sensor space: some columns as panels of sensors */
    double *h_re, *h_im;         /* a as a square, while it is decomposed */
    double *inverse;             /* of the factor, as much as a triangle */
    double *v_re, *v_im;         /* eigenvectors; vectors of the tridiagonal reduction */
    double *d, *e;               /* eigenvalues; off-diagonal */
    double *pair;                /* Jacobi: one round, 7 arrays of an entry a pair */
    size_t *order;               /* eigenpair of each sorted eigenvalue */
    size_t *column;              /* the columns that count, newest first */
    double *root;                /* the roots of their weights */
    double *fresh_re, *fresh_im; /* a column, zero where masked */
    float *steer;                /* [sensor][re, im][lane] */
    double *z;                   /* [order][re, im][lane] */
    double *project;             /* [column][re, im][lane] */
    double *energy;              /* white noise gain: [order + 1][lane] */
    double *signal;              /* MUSIC: rows of W^H, weighted */
    mvdr_change change;          /* where the stage may slide */
} mvdr_scratch;

/* ---- decompositions -------------------------------------------------------------------------- */

/* Eigenvalues of the Hermitian matrix in h's lower triangle, descending, to d; h is lost. v_re,
 * v_im and e are scratch of 4 ld, 4 ld and n elements. False if an eigenvalue was not found. */
bool mvdr_eigenvalues(mvdr_square h, double *v_re, double *v_im, double *d, double *e);

/* The tridiagonal matrix of the same eigenvalues, its diagonal to d and what is beside it to e;
 * otherwise as above. */
void mvdr_reduce(mvdr_square h, double *v_re, double *v_im, double *d, double *e);
/* Its eigenvalues of two ranks, 0 the smallest, averaged; none is beyond `most` nor, but for
 * rounding, negative. e's elements are squared. */
double mvdr_ranked_mean(const double *d, double *e, size_t n, const size_t rank[2], double most);
/* tr A^-1 and |A^-1|^2 of A = T + shift I, e2 as the former leaves e. False: A is not definite. */
bool mvdr_shifted_inverse(const double *d, const double *e2, size_t n, double shift, double *first,
                          double *second);

typedef struct mvdr_sweeps {
    size_t count;
    double residual; /* largest relative off-diagonal that the last sweep met */
    bool converged;
} mvdr_sweeps;

/* Eigenvalues of the full Hermitian h to its diagonal and eigenvectors to v's columns by two-sided
 * Jacobi; pair holds 7 (n/2 + 1). */
mvdr_sweeps mvdr_jacobi(mvdr_square h, mvdr_square v, double tolerance, size_t most, double *pair);

/* Indices of d, largest first. */
void mvdr_descending(const double *d, size_t count, size_t *order);

/* a = its Cholesky factor L, with 1/L_ii on the diagonal. False where a is not positive definite.
 */
bool mvdr_factor(double *a, size_t order);
/* The same of a + delta I, to `factor`. */
bool mvdr_factor_loaded(const double *a, size_t order, double delta, double *factor);
/* tr a */
double mvdr_trace(double *a, size_t order);

/* X = L^-1 of a factor, eight columns one behind the other from their first row on: [row][re,
 * im][column], as much as a triangle. To `first` and `second` the sums of the diagonal elements of
 * X^H X, the inverse of L L^H, and of their squares. */
void mvdr_invert(double *factor, size_t order, double *x, double *first, double *second);
/* |X^H X|^2, the sum over all elements. */
double mvdr_inverse_energy(const double *x, size_t order);
/* X^H X itself, as a triangle with square blocks on its diagonal. */
void mvdr_multiply_out(const double *x, size_t order, double *inverse);
/* a += sign times the sum over `count` columns x of x x^H, from panels [column][re, im][row] of the
 * rows. */
void mvdr_add_products(double *a, size_t order, double sign, const double *panels, size_t count);
/* a = scale r. */
void mvdr_scale(double *a, size_t order, double scale, const double *r);
/* a = keep a + take x x^H. x: re and im, padded to whole panels with zeros. */
void mvdr_rank_one(double *a, size_t order, double keep, double take, const double *re,
                   const double *im);

/* ---- quadratic forms of eight vectors, [row][re, im][lane], forms.c -------------------------- */

/* |L^-1 z|^2 of z from row `begin`, a multiple of eight, to `padded`; L^-1 z in place. */
void mvdr_substitute(double *factor, size_t begin, size_t padded, double *z, double *out);
/* z^H M z from M's lower triangle, with square blocks on its diagonal. */
void mvdr_quadratic(double *inverse, const double *vectors, size_t m, double *out);
/* |F z|^2 with an F of `rows` rows, panels of `m` columns; `each` not NULL: and the square of each
 * row, [row][lane]. */
void mvdr_multiplied(const double *factor, size_t rows, const double *vectors, size_t m,
                     double *each, double *out);

/* ---- loading --------------------------------------------------------------------------------- */

typedef struct mvdr_load {
    double delta;
    bool fallback; /* noise rule with too few snapshots: trace used */
    bool floored;  /* raised to the least delta */
} mvdr_load;

/* delta for n sensors from the k eigenvalues d, descending, of which the last is the smallest of
 * what is solved; the other n - k are zero. */
mvdr_load mvdr_loading(const sonar_mvdr_spec *spec, const double *d, size_t k, size_t n,
                       double snapshots);
/* The same from the trace alone; false where eigenvalues are wanted, by the rule or because the
 * least delta may count. */
bool mvdr_loading_by_trace(const sonar_mvdr_spec *spec, double trace, size_t n, double snapshots,
                           mvdr_load *load);
/* The eigenvalues in the middle of those that the noise rule looks at, in falling order. */
void mvdr_middle(size_t n, double snapshots, size_t middle[2]);
/* From their mean, for the noise rule without known sources; false where the least delta may count.
 */
bool mvdr_loading_by_median(const sonar_mvdr_spec *spec, double trace, double median, size_t n,
                            double snapshots, mvdr_load *load);
/* The share of a source's power that P shows then; `seen` snapshots, all of them or L. */
double mvdr_level(const sonar_mvdr_spec *spec, const double *d, size_t k, double delta, double seen,
                  double effective);
/* From the sums of mvdr_level_freedom. */
double mvdr_level_of(const sonar_mvdr_spec *spec, double sum, double quiet, double seen,
                     double effective);

/* ---- the stage ------------------------------------------------------------------------------- */

#define MVDR_ORIGIN SIZE_MAX /* whole turns count from the array's origin */

/* The sensors: used ones (with forward-backward, those whose mirror is used too). */
typedef struct mvdr_rows {
    size_t n;        /* their number */
    size_t all;      /* the same in all parts of the array */
    size_t middle;   /* the sensor that whole turns count from, or MVDR_ORIGIN */
    uint8_t *used;   /* [sensor] */
    uint8_t *before; /* [sensor] those of the parameters before */
    size_t *mirror;  /* [sensor] the sensor mirrored at the origin; forward-backward only */
    uint64_t *turns; /* [direction / 8][sensor][lane] */
    uint64_t *near;  /* the same of the near field's points, range by range */
} mvdr_rows;

/* How a bin's spectrum follows from a vector v per direction: its projections on the columns in
 * snapshot space, the steering vector in sensor space. With s = |F v|^2 and |a|^2 the part of
 * 1/P, times delta, and of |a|^2 that is left are, in
 *   snapshot space, and of dominant modes  rest = |a|^2 - s     inside = s
 *   sensor space                           rest = delta s       inside = |a|^2 - rest
 * P = level / rest, or with corrected levels level inside / rest + base. */
typedef struct mvdr_view {
    size_t m;           /* length of v; 0: no data, P = 0 */
    double *factor;     /* L, to be solved with, or with `vectors` rows of W^H, weighted, or M */
    size_t rows;        /* their number */
    bool vectors, left; /* left: rest = |a|^2 - s */
    double delta, level, base;
    int64_t offset; /* steered above the bin's centre, in 1/MVDR_TONE_ONE bins */
    double gain;    /* least white noise gain, as a share of |a|^2; 0: no limit */
    double *lambda; /* [m + 1] eigenvalues of R + delta I, and delta */
    double *own;    /* [m] |u^H a|^2 over what F makes of it */
    bool inverse;   /* s from M = (scale (R + delta I) - apart I)^-1, which is loaded with `kept` */
    double scale, kept, apart;
} mvdr_view;

/* What a bin keeps of the streaming inverse, M; the factor is its memory. */
typedef struct mvdr_inverse {
    bool kept;            /* M is that of the last window */
    unsigned age, rest;   /* windows since it was made, and to go without one */
    double weight, delta; /* of a snapshot in what M is the inverse of; its loading */
    double trace, energy; /* of M over the used sensors: sums of M_ii and |M_ij|^2 */
    bool sloped;          /* |M a|^2 are known, */
    int64_t offset;       /* for steering at that offset */
} mvdr_inverse;

/* What a bin keeps from one execute to the next. */
typedef struct mvdr_bin {
    uint64_t seen;          /* snapshots accepted since the reset */
    mvdr_view view;         /* of the last solution */
    double loudest;         /* sensor space with a ring: most of tr R since sums were recomputed */
    mvdr_pair products;     /* forgetting: mean of the products with the next bin, weighted as R */
    double products_weight; /* sum of the weights in products */
    bool tonal;             /* steered at `offset` bins above its centre */
    double offset;
    int64_t projected; /* offset for which the projections were made */
} mvdr_bin;

typedef struct mvdr_stage {
    sonar_mvdr_spec spec; /* with the live members of the last parameters, */
    mvdr_band band;       /* and their band */
    const sonar_host *host;
    mvdr_choices choices;
    mvdr_shape shape;
    size_t columns;                        /* of all slots */
    size_t held;                           /* sensors that have snapshots here: joined, none have */
    size_t ld;                             /* of a column: those sensors, padded */
    size_t directions;                     /* padded to whole vectors */
    size_t near_points;                    /* of the near field, padded too */
    uint64_t version, far_made, near_made; /* of the parameters and of their tables */
    bool versioned;
    bool changed;      /* by this execute: other parameters, */
    bool renewed;      /* whose sensors or turns are others: all bins begin with their snapshots */
    bool mask_changed; /* they have other sensors in use */
    mvdr_rows rows;
    size_t *list;        /* scratch of rows.c: 3 entries a sensor */
    float *ring;         /* [column][bin][re, im][ld] */
    uint8_t *valid;      /* [slot][bin], 0 for a snapshot with non-finite values */
    size_t next, filled; /* slot of the next snapshot, slots in use */
    mvdr_bin *bin;
    double *gram_re, *gram_im; /* snapshot space: [bin][newer column j][column i], x_i^H x_j */
    double *project;           /* snapshot space: [bin][direction / 8][column][re, im][lane] */
    double *norm;              /* snapshot space: [bin][direction] |a|^2 */
    double *covariance;        /* sensor space: [bin] triangle, sum of x x^H over all sensors */
    double *factor;            /* [bin] */
    size_t factor_size;
    mvdr_inverse *inverse;   /* [bin], or NULL: it never slides */
    double *slope;           /* [bin][directions] |M a|^2 */
    double *energy;          /* [bin][slot] |x|^2 of what M has */
    double *lambda;          /* white noise gain: [bin][2][order + 1], the views' */
    bool solved;             /* the views are those of all snapshots taken in */
    float *power;            /* [bin][directions] */
    float *near_power;       /* [bin][near_points] */
    float *share;            /* MUSIC: [bin][directions] of a beyond the signal subspace */
    float *info;             /* [bin][SONAR_MVDR_INFO_FIELDS] */
    float *eigenvalue;       /* [bin][modes] */
    size_t modes;            /* sonar_mvdr_modes */
    bool may_slide;          /* in some window: there are inverses */
    sonar_mvdr_tones *tones; /* NULL: no bin is steered at a tone */
    mvdr_pair *pair;         /* [slot or arrival][bin] a snapshot's with the next bin */
    uint64_t *points;        /* evaluate: [point / 8][sensor][lane] */
    float *sample;           /* evaluate: [bin][point] */
    /* one execute's arguments, for the tasks */
    const sonar_buffer *in;
    sonar_buffer *out; /* of a part */
    size_t arrived;
    mvdr_wants wants;
    bool slides;                    /* this window may take the inverse of the one before */
    size_t first_looked, looked_at; /* points of this evaluation, at a time */
    mvdr_scratch scratch[];         /* [worker] */
} mvdr_stage;

void mvdr_scratch_lay_out(const mvdr_stage *stage, mvdr_scratch *scratch, sonar_arena *arena);

/* Snapshot `index` of those that this window brings. */
const sonar_c32 *mvdr_arrival(const mvdr_stage *stage, size_t index, size_t bin);
bool mvdr_finite(const sonar_c32 *x, size_t count);
/* A column of the ring, [re, im][ld]. */
float *mvdr_column(const mvdr_stage *stage, size_t column, size_t bin);

/* Stores the bin's new snapshots and brings Gram matrix and projections, or the covariance that
 * forgets, up to date. */
void mvdr_take(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* The two halves of it; sums are those of all slots, and not of the new ones alone, where it
 * returns true. */
void mvdr_store(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
bool mvdr_sum(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* Number of snapshots of this window that have no slot. */
size_t mvdr_skipped(const mvdr_stage *stage);
/* After all bins have: moves on by the snapshots that arrived. */
void mvdr_advance(mvdr_stage *stage);

/* The columns that count and the roots of their weights, newest first, to scratch; returns the
 * number of snapshots. */
size_t mvdr_list_columns(const mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* The bin's matrix, to scratch->a: the Gram matrix of m listed columns, or the covariance from sums
 * whose weights add up to `total`. */
void mvdr_form_gram(const mvdr_stage *stage, size_t bin, size_t m, mvdr_scratch *scratch);
void mvdr_form_covariance(const mvdr_stage *stage, size_t bin, double total, mvdr_scratch *scratch);

/* Sensor space with a ring: takes the snapshots in the slots of arrivals begin .. end - 1, at most
 * MVDR_CHUNK, out of the bin's sums, before they are overwritten, or puts them in. */
enum { MVDR_CHUNK = 32 };
void mvdr_slide(mvdr_stage *stage, size_t bin, size_t begin, size_t end, double sign,
                mvdr_scratch *scratch);
/* Recomputes the sums where those of this execute have lost digits, or it is the bin's turn. */
void mvdr_refresh(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* The bin's view and info, from all that has been taken; from scratch: without the
 * inverse that is updated. */
void mvdr_solve(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
void mvdr_solve_from_scratch(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* The bin's info before it is solved; `snapshots` effective ones. */
float *mvdr_begin_info(mvdr_stage *stage, size_t bin, double snapshots);
/* Notes delta and level in view, whose delta is chosen, and info; returns flags. */
unsigned mvdr_end_view(const mvdr_stage *stage, mvdr_view *view, const mvdr_load *load,
                       double share, float *info);

/* Steering vectors of eight directions at absolute bin `bin`, to scratch->steer; turns is
 * [sensor][lane]. */
void mvdr_steer(const mvdr_rows *rows, size_t sensors, const uint64_t *turns, uint64_t bin,
                int64_t offset, float *steer);
/* |a|^2 of each of them. */
void mvdr_norms(const float *steer, size_t sensors, double norm[MVDR_LANES]);
/* x^H a of two columns or, where they are the same, of one: to [re, im][lane] each. */
void mvdr_project(const float *steer, size_t sensors, size_t ld, const float *x, const float *y,
                  double *to, double *also);

/* The bin's matrix in scratch->a decomposed: eigenvalues to scratch->d, descending, and with
 * `vectors` eigenvectors to v, in the order of scratch->order. */
mvdr_sweeps mvdr_decompose(const mvdr_stage *stage, size_t n, bool vectors, mvdr_scratch *scratch);
/* The first rows of W^H, times the roots of scratch->e, to panels. */
void mvdr_weigh_vectors(const mvdr_scratch *scratch, size_t n, size_t rows, double *factor);
/* |u^H a|^2 of a mode is |w^H c|^2 over its eigenvalue in snapshot space, |w^H a|^2 in the other.
 */
static inline double mvdr_of_mode(const mvdr_stage *stage, const mvdr_scratch *scratch, size_t i) {
    return stage->shape.by_snapshots ? 1 / scratch->d[i] : 1;
}

/* The bin's MUSIC, to stage->share, right after mvdr_solve. */
void mvdr_music(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* The broadband pseudo-spectrum of the bins' shares, to an f32 [direction]. */
void mvdr_music_publish(const mvdr_stage *stage, const sonar_buffer *out);

/* To scratch->z and norm what spectra of a bin's directions first .. first + 7 follow from. */
void mvdr_look(mvdr_stage *stage, size_t bin, size_t first, mvdr_scratch *scratch,
               double norm[MVDR_LANES]);
/* x^H y of a column and a vector in double over ld, a multiple of the lanes. */
void mvdr_inner(const float *x, const double *y_re, const double *y_im, size_t ld, double *re,
                double *im);

/* The limit on the white noise gain: what its searches need of the eigenvalues in scratch->d. */
void mvdr_gain_prepare(const mvdr_stage *stage, mvdr_view *view, const mvdr_scratch *scratch);
/* Powers of eight directions that have too little gain; energies [m + 1][lane] of the rows of F,
 * the last one free, are lost. Returns a bit for each lane that was limited. */
unsigned mvdr_gain_limit(const mvdr_view *view, const double *norm, double *energies, float *power);
/* P in the eight directions whose v is in scratch->z; |a|^2 in norm. A bit for each that the white
 * noise gain limits. */
unsigned mvdr_spectrum_power(const mvdr_view *view, bool corrected, const double *norm,
                             mvdr_scratch *scratch, float *power);
/* The same from s. */
void mvdr_powers(const mvdr_view *view, bool corrected, const double *norm, const double *s,
                 float *power);
/* The bin's whole spectrum, to stage->power. */
void mvdr_spectrum(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* Of the near field, to stage->near_power, right after mvdr_solve. */
void mvdr_spectrum_near(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* At eight points whose turns are [sensor][lane]. */
void mvdr_spectrum_at(mvdr_stage *stage, size_t bin, const uint64_t *turns, mvdr_scratch *scratch,
                      float *power);

/* Of eight points of which the columns' products and |a|^2 are given, [point][1 + 2 slots]; the
 * last of `points` is repeated. */
void mvdr_spectrum_joined(mvdr_stage *stage, size_t bin, const double *sums, size_t points,
                          mvdr_scratch *scratch, float *power);

/* ---- the streaming inverse: inverse.c, inverse_spectrum.c ------------------------------------ */

/* Before the bin takes what arrived: notes what that replaces. Without `slides` the inverse goes.
 */
void mvdr_inverse_before(mvdr_stage *stage, size_t bin, bool slides, mvdr_scratch *scratch);
/* In the place of mvdr_solve_from_scratch, where it returns true. */
bool mvdr_inverse_solve(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* In the place of mvdr_spectrum; where M is inaccurate, the bin is solved by its own route. */
void mvdr_inverse_spectrum(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* s of the vectors in scratch->z. */
void mvdr_inverse_energies(const mvdr_view *view, const double *norm, mvdr_scratch *scratch,
                           double *s);

/* Products of two neighbouring bins over the used sensors; not finite if a sample is not. */
mvdr_pair mvdr_pair_of(const mvdr_stage *stage, const sonar_c32 *x, const sonar_c32 *y);
/* The same of a snapshot in the ring. */
mvdr_pair mvdr_pair_in_ring(const mvdr_stage *stage, size_t slot, size_t bin);
/* Takes in those of an arrival. */
void mvdr_tone_note(mvdr_stage *stage, size_t bin, size_t arrival, mvdr_pair p);
/* Adds the products of the bin's new snapshots with the next bin's. */
void mvdr_tone_accumulate(mvdr_stage *stage, size_t bin);
/* Chooses the frequency at which the bin is steered, after all bins have accumulated theirs. */
void mvdr_tone_steer(mvdr_stage *stage, size_t bin);
/* ---- parts of an array, parts_cpu.c: the verbs of stages that are one, or join them ---------- */

sonar_code mvdr_part_execute(mvdr_stage *stage, const sonar_buffer *in, sonar_buffer *out,
                             const sonar_work *work, sonar_error *err);
sonar_code mvdr_part_join(mvdr_stage *stage, const sonar_buffer *in, sonar_buffer *out,
                          sonar_error *err);
sonar_code mvdr_part_evaluate(mvdr_stage *stage, const sonar_buffer *turns, sonar_buffer *sums,
                              sonar_error *err);
/* Takes the added sums of a bin in. */
void mvdr_take_joined(mvdr_stage *stage, size_t bin);
/* At most MVDR_AT_ONCE points' turns from `first` on, transposed to stage->points; the last one
 * repeats up to whole vectors. */
enum { MVDR_AT_ONCE = 2 * MVDR_LANES }; /* of an evaluation, as many as the detector asks for */
void mvdr_take_points(mvdr_stage *stage, const sonar_buffer *turns, size_t first);

/* Takes the used sensors, mirrors, turns and live values of new parameters over. */
sonar_code mvdr_rows_update(mvdr_stage *stage, const sonar_params *params, sonar_error *err);

#endif
