/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Declarations that the files of the CPU's MVDR share. All arithmetic is in double, on samples and
 * steering vectors in float.
 *
 *   column  a snapshot; in snapshot space with forward-backward averaging also its mirror image
 *   order   rows of the matrix A that is solved. A is the Gram matrix of the columns in snapshot
 *           space and the covariance of the sensors in sensor space; mvdr_shape says which.
 *
 * docs/architecture.md has a table of the files in the order in which a bin passes through them.
 */
#ifndef SONAR_MVDR_JACOBI_CPU_INTERNAL_H
#define SONAR_MVDR_JACOBI_CPU_INTERNAL_H

#include <string.h>

#include "core/arena.h"
#include "core/core.h"
#include "mvdr_jacobi/rules/inverse.h"
#include "mvdr_jacobi/route.h"
#include "mvdr_jacobi/rules/tone.h"

/* Helpers whose loops must be compiled with their caller, once for each instruction set. */
#define MVDR_INLINE static inline __attribute__((always_inline))

enum {
    MVDR_LANES = 8,    /* directions, or rows of a matrix, that are processed together */
    MVDR_TOGETHER = 2, /* groups of eight directions that share a column while it is in the cache */
};

/* ---- matrices -------------------------------------------------------------------------------- */

/* A matrix is stored in panels of eight rows, each [column][re, im][row]. Panel b of a Hermitian or
 * lower triangular matrix has the columns up to its diagonal block, 8 (b + 1); a panel of any other
 * matrix has all columns. Rows beyond the matrix are rows of the identity in a triangle and zero
 * elsewhere. */
static inline double *mvdr_panel(double *a, size_t b) {
    return a + MVDR_LANES * MVDR_LANES * b * (b + 1);
}

/* Real part of element (i, j), j <= i. The imaginary part follows MVDR_LANES later. */
static inline double *mvdr_at(double *a, size_t i, size_t j) {
    return mvdr_panel(a, i / MVDR_LANES) + 2 * MVDR_LANES * j + i % MVDR_LANES;
}

/* Number of doubles in a triangle of this order. */
static inline size_t mvdr_triangle(size_t order) {
    const size_t panels = mvdr_pad(order, MVDR_LANES) / MVDR_LANES;
    return MVDR_LANES * MVDR_LANES * panels * (panels + 1);
}

/* Sum over the lanes, in a fixed order. */
MVDR_INLINE double mvdr_add_eight(const double part[MVDR_LANES]) {
    return ((part[0] + part[4]) + (part[2] + part[6])) +
           ((part[1] + part[5]) + (part[3] + part[7]));
}

/* A square matrix: planar columns, `ld` apart. */
typedef struct mvdr_square {
    double *re, *im;
    size_t n, ld;
} mvdr_square;

/* ---- scratch of one worker ------------------------------------------------------------------- */

/* Scratch of the streaming inverse. Vectors are planar, [re, im][ld]. */
typedef struct mvdr_change {
    double *x, *y, *t; /* [MVDR_MOST_MOVED] snapshots that enter or leave, M x and M y */
    double *back;      /* [ld][4][lane] products with the adjoint, before the lanes are added */
    double *probe;     /* [ld][re, im][lane] */
    double *v, *z;     /* two vectors each */
    double sign[MVDR_MOST_MOVED], over[MVDR_MOST_MOVED],
        energy[MVDR_MOST_MOVED]; /* +1 or -1; 1/s; |y|^2 */
    size_t count;                /* columns that enter or leave */
    size_t listed;               /* valid snapshots in the block */
} mvdr_change;

/* Scratch of Jacobi's start from the last window's eigenvectors. Panels have all columns. */
typedef struct mvdr_start {
    double *rows;         /* V^H in panels, its rows in falling order of the eigenvalues */
    double *left, *right; /* factors of a product, in panels */
    double *turned;       /* V^H R V, a triangle */
} mvdr_start;

typedef struct mvdr_scratch {
    const struct mvdr_kernels *kernels;
    double *a;                   /* the matrix that is solved: a triangle */
    double *panel;               /* sensor space: up to MVDR_CHUNK columns as panels of sensors */
    double *h_re, *h_im;         /* a as a square, while it is reduced */
    double *inverse;             /* inverse of the factor, or Jacobi's factor: a triangle */
    double *v_re, *v_im;         /* eigenvectors, or vectors of the tridiagonal reduction */
    double *d, *e;               /* eigenvalues, or diagonal; off-diagonal elements */
    size_t *order;               /* eigenpair of each sorted eigenvalue */
    size_t *column;              /* the valid columns, newest first */
    double *root;                /* square roots of their weights */
    double *fresh_re, *fresh_im; /* a column, zero where masked */
    float *steer;                /* [sensor][re, im][lane] */
    double *z;                   /* [order][re, im][lane] */
    double *project;             /* [MVDR_TOGETHER][column][re, im][lane] */
    double *energy;              /* white noise gain: [order + 1][lane] */
    double *signal;              /* MUSIC: rows of W^H, weighted */
    mvdr_start start;            /* allocated if the stage computes eigenvectors */
    mvdr_change change;          /* allocated if the stage may update inverses */
} mvdr_scratch;

/* ---- decompositions -------------------------------------------------------------------------- */

/* Computes the eigenvalues of the Hermitian matrix in h's lower triangle into d, descending.
 * Destroys h. v_re, v_im and e are scratch of 4 ld, 4 ld and n elements. False if an eigenvalue was
 * not found. */
bool mvdr_eigenvalues(const struct mvdr_kernels *kernels, mvdr_square h, double *v_re, double *v_im,
                      double *d, double *e);

/* The mean of two eigenvalues of the tridiagonal matrix, given by their ranks; rank 0 is the
 * smallest. No eigenvalue may exceed `most` or be negative, except by rounding. Squares the
 * elements of e. */
double mvdr_ranked_mean(const struct mvdr_kernels *kernels, const double *d, double *e, size_t n,
                        const size_t rank[2], double most);
/* Computes tr A^-1 and |A^-1|^2 of A = T + shift I. e2 has squares, as mvdr_ranked_mean leaves
 * them. False if A is not positive definite. */
bool mvdr_shifted_inverse(const double *d, const double *e2, size_t n, double shift, double *first,
                          double *second);

typedef struct mvdr_sweeps {
    size_t count;
    double residual; /* largest relative off-diagonal element that the last sweep found */
    bool converged;
} mvdr_sweeps;

/* One-sided Jacobi: the eigenvalues of the triangle a of order v.n to d, the eigenvectors to v's
 * columns. At most `most` sweeps. It begins from start->rows, or from nothing (NULL). factor:
 * scratch, a triangle. */
mvdr_sweeps mvdr_jacobi(const struct mvdr_kernels *kernels, double *a, double tolerance,
                        size_t most, const mvdr_start *start, double *factor, mvdr_square v,
                        double *d);
/* Jacobi's first columns from start->rows. False if rounding makes V^H A V indefinite. */
bool mvdr_begin_from_rows(const struct mvdr_kernels *kernels, double *a, const mvdr_start *start,
                          double *factor, mvdr_square x);

/* Writes the indices of d to `order`, largest element first. */
void mvdr_descending(const double *d, size_t count, size_t *order);

/* Replaces a by its Cholesky factor L, with 1/L_ii on the diagonal. False if a is not positive
 * definite. */
bool mvdr_factor(const struct mvdr_kernels *kernels, double *a, size_t order);
/* The factor of a + delta I, to `factor`; a is kept. */
bool mvdr_factor_loaded(const struct mvdr_kernels *kernels, const double *a, size_t order,
                        double delta, double *factor);
/* The same with a larger delta if rounding makes a + delta I indefinite. `most`: an upper bound of
 * a's eigenvalues. False: there is no such factor, a is zero or not finite. */
bool mvdr_factor_raised(const struct mvdr_kernels *kernels, const double *a, size_t order,
                        double most, double *delta, double *factor);
/* tr a */
double mvdr_trace(double *a, size_t order);

/* Computes X = L^-1, eight columns after another, each group from its first row on: [row][re,
 * im][column], the size of a triangle. `first` and `second` get the sum of the diagonal elements of
 * X^H X, the inverse of L L^H, and the sum of their squares. */
void mvdr_invert(const struct mvdr_kernels *kernels, double *factor, size_t order, double *x,
                 double *first, double *second);
/* Writes X^H X to `inverse`, unless that is NULL, as a triangle with square blocks on its diagonal.
 * Returns |X^H X|^2, the sum of the squared magnitudes of all elements. The identity beyond the
 * matrix is left out: it has another unit, and beside it the inverse of a loud matrix would be
 * lost. */
double mvdr_multiply_out(const struct mvdr_kernels *kernels, const double *x, size_t order,
                         double *inverse);
/* a += sign times the sum of x x^H over `count` columns x, which come as panels [column][re,
 * im][row]. */
void mvdr_add_products(const struct mvdr_kernels *kernels, double *a, size_t order, double sign,
                       const double *panels, size_t count);
/* a = scale r. */
void mvdr_scale(double *a, size_t order, double scale, const double *r);
/* a = keep a + take x x^H. re and im of x are padded with zeros to whole panels. */
void mvdr_rank_one(double *a, size_t order, double keep, double take, const double *re,
                   const double *im);

/* ---- loading --------------------------------------------------------------------------------- */

typedef struct mvdr_load {
    double delta;
    bool fallback; /* too few snapshots for the noise rule: the trace is used */
    bool floored;  /* raised to the least delta */
} mvdr_load;

/* delta for n sensors from the k eigenvalues d, descending. d[k - 1] is the smallest eigenvalue of
 * the matrix that is solved; the other n - k eigenvalues of R are zero. */
mvdr_load mvdr_loading(const sonar_mvdr_spec *spec, const double *d, size_t k, size_t n,
                       double snapshots);
/* The same from the trace alone. False if eigenvalues are needed: by the rule, or because the least
 * delta may apply. */
bool mvdr_loading_by_trace(const sonar_mvdr_spec *spec, double trace, size_t n, double snapshots,
                           mvdr_load *load);
void mvdr_middle(size_t n, double snapshots, size_t middle[2]);
/* delta of the noise rule without known sources, from the median of the eigenvalues (mvdr_middle).
 * False if the least delta may apply. */
bool mvdr_loading_by_median(const sonar_mvdr_spec *spec, double trace, double median, size_t n,
                            double snapshots, mvdr_load *load);
/* The share of a source's power that P shows. `seen`: snapshots that R rests on; `effective`: L, or
 * L_eff with forgetting. */
double mvdr_level(const sonar_mvdr_spec *spec, const double *d, size_t k, double delta, double seen,
                  double effective);
/* The same from the sums that mvdr_level_freedom takes. */
double mvdr_level_of(const sonar_mvdr_spec *spec, double sum, double quiet, double seen,
                     double effective);

/* ---- the stage ------------------------------------------------------------------------------- */

#define MVDR_ORIGIN SIZE_MAX /* whole turns are counted from the array's origin */

/* The sensors in use. With forward-backward averaging these are the ones whose mirror sensor is
 * used, too. */
typedef struct mvdr_rows {
    size_t n;        /* number of sensors in use */
    size_t all;      /* the same, summed over all parts of the array */
    size_t middle;   /* sensor from which whole turns are counted, or MVDR_ORIGIN */
    uint8_t *used;   /* [sensor] */
    uint8_t *before; /* [sensor] used with the previous parameters */
    size_t *mirror;  /* [sensor] the sensor mirrored at the origin; forward-backward only */
    uint64_t *turns; /* [direction / 8][sensor][lane] */
    uint64_t *near;  /* the same for the near field's points, range by range */
} mvdr_rows;

/*
 * How the power in a direction follows from a vector v: its projections on the columns in snapshot
 * space, the steering vector in sensor space. With s = |F v|^2, rest = delta / P before levels are
 * corrected, and inside = |a|^2 - rest:
 *
 *   snapshot space, dominant modes   rest = |a|^2 - s     inside = s
 *   sensor space                     rest = delta s       inside = |a|^2 - rest
 *
 * P = level / rest; with corrected levels P = level inside / rest + base.
 */
typedef struct mvdr_view {
    size_t m; /* length of v; 0: the bin has no data, P = 0 */
    /* L, to be solved with; with `vectors` weighted rows of W^H; with `inverse` M */
    double *factor;
    size_t rows;        /* rows of `factor` with `vectors` */
    bool vectors, left; /* left: rest = |a|^2 - s; otherwise rest = delta s */
    double delta, level, base;
    int64_t offset; /* steered this far above the bin's centre, in 1/MVDR_TONE_ONE bins */
    double gain;    /* least white noise gain, as a share of |a|^2; 0: no limit */
    double *lambda; /* [m + 1] eigenvalues of R + delta I, and delta */
    double *own;    /* [m] |u^H a|^2 divided by the square of F's row */
    bool inverse;   /* s follows from M = (scale (R + delta I) - apart I)^-1, which is loaded with
                       `kept` */
    double scale, kept, apart;
} mvdr_view;

/* What a bin keeps of the streaming inverse M between windows. M itself is in the bin's factor. */
typedef struct mvdr_inverse {
    bool kept;            /* M belongs to the last window */
    unsigned age, rest;   /* windows since M was made; windows for which no M is made */
    double weight, delta; /* M is the inverse of weight S + delta I */
    double trace, energy; /* sums of M_ii and of |M_ij|^2 over the used sensors */
    bool sloped;          /* |M a|^2 of all directions is known, */
    int64_t offset;       /* for steering vectors at this offset */
} mvdr_inverse;

/* What a bin keeps from one execute to the next. */
typedef struct mvdr_bin {
    uint64_t seen;      /* snapshots accepted since the reset */
    mvdr_view view;     /* of the last solution */
    double loudest;     /* sensor space with a ring: largest tr R since the sums were recomputed */
    mvdr_pair products; /* forgetting: mean of the products with the next bin, weighted like R */
    double products_weight; /* sum of the weights in products */
    bool tonal;             /* steered at `offset` bins above its centre */
    double offset;
    int64_t projected; /* offset for which the projections were made */
    bool whole;        /* all columns' sums are new since the last window */
    bool based;        /* `basis` has the eigenvectors of the last window */
} mvdr_bin;

typedef struct mvdr_stage {
    sonar_mvdr_spec spec; /* with the live members of the last parameters */
    mvdr_band band;       /* band of the last parameters */
    const sonar_host *host;
    const char *named; /* mvdr_routes_named */
    mvdr_shape shape;
    size_t columns;     /* columns of all slots */
    size_t held;        /* sensors whose snapshots are stored here; a joined stage stores none */
    size_t ld;          /* length of a column: `held`, padded */
    size_t directions;  /* padded to whole vectors */
    size_t near_points; /* points of the near field, padded likewise */
    uint64_t version, far_made, near_made; /* versions of the parameters and of their tables */
    bool versioned;
    bool changed;      /* this execute has other parameters */
    bool renewed;      /* they have other sensors or turns: all bins recompute their sums from their
                          snapshots */
    bool mask_changed; /* they have other sensors in use */
    mvdr_rows rows;
    size_t *list;        /* scratch of rows.c: 3 entries for each sensor */
    float *ring;         /* [column][bin][re, im][ld] */
    uint8_t *valid;      /* [slot][bin], 0 for a snapshot with non-finite values */
    size_t next, filled; /* slot of the next snapshot, slots in use */
    mvdr_bin *bin;
    double *gram_re, *gram_im; /* snapshot space: [bin][newer column j][column i], x_i^H x_j */
    double *project;           /* snapshot space: [bin][direction / 8][column][re, im][lane] */
    double *covariance;        /* sensor space: [bin] triangle, sum of x x^H over all sensors */
    double *factor;            /* [bin] */
    size_t factor_size;
    double *basis; /* [bin] V^H of the last window, in panels; with eigenvectors */
    size_t basis_size;
    mvdr_inverse *inverse; /* [bin]; NULL: no window updates inverses */
    double *slope;         /* [bin][directions] |M a|^2 */
    double *energy;        /* [bin][slot] |x|^2 of the snapshots in M */
    double *lambda;        /* white noise gain: [bin][2][order + 1] the views' lambda and own */
    bool solved;           /* the views include all snapshots so far */
    float *power;          /* [bin][directions] */
    float *near_power;     /* [bin][near_points] */
    float *share;          /* MUSIC: [bin][directions] share of a outside of the signal subspace */
    float *info;           /* [bin][SONAR_MVDR_INFO_FIELDS] */
    float *eigenvalue;     /* [bin][modes] */
    size_t modes;          /* sonar_mvdr_modes */
    bool may_slide;        /* some window may update inverses */
    sonar_mvdr_tones *tones; /* NULL: no bin is steered at a tone */
    mvdr_pair *pair;         /* [slot or arrival][bin] products of a snapshot with the next bin */
    uint64_t *points;        /* evaluate: [point / 8][sensor][lane] */
    float *sample;           /* evaluate: [bin][point] */
    /* arguments of the present execute, for the tasks */
    const sonar_buffer *in;
    sonar_buffer *out; /* output of a part */
    size_t arrived;
    mvdr_wants wants;
    bool slides;                    /* this window may update the inverses of the window before */
    size_t first_looked, looked_at; /* points of an evaluation that are processed at a time */
    mvdr_scratch scratch[];         /* [worker] */
} mvdr_stage;

void mvdr_scratch_lay_out(const mvdr_stage *stage, mvdr_scratch *scratch, sonar_arena *arena);

/* New snapshot `index` of this window. */
const sonar_c32 *mvdr_arrival(const mvdr_stage *stage, size_t index, size_t bin);
bool mvdr_finite(const sonar_c32 *x, size_t count);
/* A column of the ring, [re, im][ld]. */
float *mvdr_column(const mvdr_stage *stage, size_t column, size_t bin);

/* Stores the bin's new snapshots and updates the Gram matrix or the covariance. */
void mvdr_take(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* The two halves of mvdr_take. mvdr_sum decides whether the projections of all columns are due, or
 * those of the new ones. */
void mvdr_store(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
void mvdr_sum(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* Snapshot space: lists the columns of the new snapshots, or with `whole` all columns in use;
 * returns their number. */
size_t mvdr_list_due(const mvdr_stage *stage, bool whole, size_t *column);
/* Snapshot space: makes the projections that are due on all directions, after mvdr_sum of all
 * bins. */
void mvdr_project_all(mvdr_stage *stage);
/* Snapshot space: x^H a of `count` columns of a bin with groups of eight steering vectors, at most
 * MVDR_TOGETHER, to the columns' places in to[group][column][re, im][lane]. turns is
 * [group][sensor][lane]. */
void mvdr_project(const mvdr_stage *stage, size_t bin, const uint64_t *turns, size_t groups,
                  int64_t offset, const size_t *column, size_t count, const mvdr_scratch *scratch,
                  double *to);
/* Number of new snapshots that get no slot, because later ones of the same window replace them. */
size_t mvdr_skipped(const mvdr_stage *stage);
/* Advances the ring by the new snapshots, after all bins have taken them. */
void mvdr_advance(mvdr_stage *stage);

/* Lists the valid columns and the square roots of their weights in scratch, newest first; returns
 * the number of snapshots. */
size_t mvdr_list_columns(const mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* Forms the bin's matrix in scratch->a: the Gram matrix of m listed columns, or the covariance from
 * sums whose weights add up to `total`. */
void mvdr_form_gram(const mvdr_stage *stage, size_t bin, size_t m, mvdr_scratch *scratch);
void mvdr_form_covariance(const mvdr_stage *stage, size_t bin, double total, mvdr_scratch *scratch);

/* Sensor space with a ring: adds the snapshots in the slots of arrivals begin .. end - 1, at most
 * MVDR_CHUNK, to the bin's sums (sign 1), or subtracts them before they are overwritten (sign
 * -1). */
enum { MVDR_CHUNK = 32 };
void mvdr_slide(mvdr_stage *stage, size_t bin, size_t begin, size_t end, double sign,
                mvdr_scratch *scratch);
/* Recomputes the bin's sums if rounding has cost them digits, or if it is the bin's turn. */
void mvdr_refresh(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* Computes the bin's view and info from all snapshots taken. mvdr_solve_from_scratch does not use
 * the streaming inverse. */
void mvdr_solve(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
void mvdr_solve_from_scratch(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* Clears the bin's info before the bin is solved. `snapshots`: effective number. */
float *mvdr_begin_info(mvdr_stage *stage, size_t bin, double snapshots);
/* Notes delta and level in info, and level in view, whose delta is chosen; returns flags. */
unsigned mvdr_end_view(const mvdr_stage *stage, mvdr_view *view, const mvdr_load *load,
                       double share, float *info);

/* Sensor space: steering vectors of eight directions to scratch->steer. `bin` counts from 0 Hz;
 * turns is [sensor][lane]. */
void mvdr_steer(const mvdr_rows *rows, size_t sensors, const uint64_t *turns, uint64_t bin,
                int64_t offset, float *steer);
/* |a|^2 of each of these directions. */
void mvdr_norms(const float *steer, size_t sensors, double norm[MVDR_LANES]);

/* Decomposes the bin's matrix in scratch->a: eigenvalues to scratch->d, descending; with `vectors`
 * eigenvectors to v, in the order of scratch->order. */
mvdr_sweeps mvdr_decompose(mvdr_stage *stage, size_t bin, size_t n, bool vectors,
                           mvdr_scratch *scratch);
/* Takes the eigenvectors of the bin's last window, to scratch->start.rows. False: there are none.
 */
bool mvdr_take_vectors(const mvdr_stage *stage, size_t bin, size_t n, mvdr_scratch *scratch);
/* Keeps this window's. */
void mvdr_keep_vectors(mvdr_stage *stage, size_t bin, size_t n, const mvdr_scratch *scratch);
/* Writes the first rows of W^H, times the square roots of scratch->e, to panels. */
void mvdr_weigh_vectors(const mvdr_scratch *scratch, size_t n, size_t rows, double *factor);
/* |u^H a|^2 of a mode is this factor times |w^H v|^2: 1 / eigenvalue in snapshot space, 1 in sensor
 * space. */
static inline double mvdr_of_mode(const mvdr_stage *stage, const mvdr_scratch *scratch, size_t i) {
    return stage->shape.by_snapshots ? 1 / scratch->d[i] : 1;
}

/* MUSIC of the bin to stage->share, right after mvdr_solve. */
void mvdr_music(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* The broadband pseudo-spectrum from the bins' shares, to an f32 [direction]. */
void mvdr_music_publish(const mvdr_stage *stage, const sonar_buffer *out);

/* Writes the vectors v of the bin's directions first .. first + 7 to scratch->z, and |a|^2 to
 * norm. */
void mvdr_look(mvdr_stage *stage, size_t bin, size_t first, mvdr_scratch *scratch,
               double norm[MVDR_LANES]);

/* Prepares the limit on the white noise gain from the eigenvalues in scratch->d. */
void mvdr_gain_prepare(const mvdr_stage *stage, mvdr_view *view, const mvdr_scratch *scratch);
/* Corrects the powers of those of eight directions that have too little white noise gain. energies:
 * [m + 1][lane] of the rows of F, with the last row free; they are lost. Returns a bit for each
 * lane that was limited. */
unsigned mvdr_gain_limit(const struct mvdr_kernels *kernels, const mvdr_view *view,
                         const double *norm, double *energies, float *power);
/* P in the eight directions whose v is in scratch->z, with |a|^2 in norm. Returns a bit for each
 * direction that the white noise gain limits. */
unsigned mvdr_spectrum_power(const mvdr_view *view, bool corrected, const double *norm,
                             mvdr_scratch *scratch, float *power);
/* The same from s, without the limit. */
void mvdr_powers(const mvdr_view *view, bool corrected, const double *norm, const double *s,
                 float *power);
/* The bin's spectrum in all directions, to stage->power. */
void mvdr_spectrum(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* The bin's spectrum at the near field's points, to stage->near_power, right after mvdr_solve. */
void mvdr_spectrum_near(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* The bin's spectrum in groups of eight points, at most MVDR_TOGETHER; turns:
 * [group][sensor][lane]. */
void mvdr_spectrum_at(mvdr_stage *stage, size_t bin, const uint64_t *turns, size_t groups,
                      mvdr_scratch *scratch, float *power);

/* The bin's spectrum at eight points from |a|^2 and the columns' products with a, [point][1 + 2
 * slots]. If `points` is less than eight, the last point is repeated. */
void mvdr_spectrum_joined(mvdr_stage *stage, size_t bin, const double *sums, size_t points,
                          mvdr_scratch *scratch, float *power);

/* ---- the streaming inverse: inverse.c, inverse_spectrum.c ------------------------------------ */

/* Called before the bin stores its new snapshots: notes the snapshots that they replace. Without
 * `slides` the inverse is dropped. */
void mvdr_inverse_before(mvdr_stage *stage, size_t bin, bool slides, mvdr_scratch *scratch);
/* Solves the bin by the streaming inverse. False: it cannot, and mvdr_solve_from_scratch has to. */
bool mvdr_inverse_solve(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* mvdr_spectrum of a bin solved by the streaming inverse. If the probe finds M inaccurate, the bin
 * is solved from scratch. */
void mvdr_inverse_spectrum(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* s of the vectors in scratch->z, from M. */
void mvdr_inverse_energies(const mvdr_view *view, const double *norm, mvdr_scratch *scratch,
                           double *s);

/* Products of two neighbouring bins, summed over the sensors in use; not finite if a sample is
 * not. */
mvdr_pair mvdr_pair_of(const mvdr_stage *stage, const sonar_c32 *x, const sonar_c32 *y);
/* The same for a snapshot in the ring. */
mvdr_pair mvdr_pair_in_ring(const mvdr_stage *stage, size_t slot, size_t bin);
/* Stores the products of a new snapshot, or adds them to the mean with forgetting. */
void mvdr_tone_note(mvdr_stage *stage, size_t bin, size_t arrival, mvdr_pair p);
/* Adds the products of the bin's new snapshots with the next bin's. */
void mvdr_tone_accumulate(mvdr_stage *stage, size_t bin);
/* Chooses the frequency at which the bin is steered, after all bins have accumulated theirs. */
void mvdr_tone_steer(mvdr_stage *stage, size_t bin);
/* ---- parts of an array, cpu/parts.c ---------------------------------------------------------- */

sonar_code mvdr_part_execute(mvdr_stage *stage, const sonar_buffer *in, sonar_buffer *out,
                             const sonar_work *work, sonar_error *err);
sonar_code mvdr_part_join(mvdr_stage *stage, const sonar_buffer *in, sonar_buffer *out,
                          sonar_error *err);
sonar_code mvdr_part_evaluate(mvdr_stage *stage, const sonar_buffer *turns, sonar_buffer *sums,
                              sonar_error *err);
/* Stores a bin's sums, added over all parts. */
void mvdr_take_joined(mvdr_stage *stage, size_t bin);
/* Transposes the turns of at most MVDR_AT_ONCE points from `first` on to stage->points. The last
 * point is repeated to fill whole vectors. */
enum {
    MVDR_AT_ONCE = MVDR_TOGETHER * MVDR_LANES
}; /* points of an evaluation at a time: as many as the detector asks for */
void mvdr_take_points(mvdr_stage *stage, const sonar_buffer *turns, size_t first);

/* Adopts new parameters: sensors in use, mirrors, turns and live values. */
sonar_code mvdr_rows_update(mvdr_stage *stage, const sonar_params *params, sonar_error *err);

#endif
