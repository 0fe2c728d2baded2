/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the files of the CPU's MVDR share. Complex matrices are planar (a re and an im array) and
 * column by column, columns `ld` elements apart and 64-byte aligned, rows beyond the matrix zero.
 *
 *   n  used sensors, the rows        m  columns of the factor S        k  eigenpairs kept
 *
 * One bin: factor.c makes S with R = S S^H, solve.c reduces it by QR to a triangle,
 * jacobi.c orthogonalises the triangle's columns, loading.c picks delta, spectrum_cpu.c computes
 * the spectrum.
 */
#ifndef SONAR_MVDR_JACOBI_INTERNAL_H
#define SONAR_MVDR_JACOBI_INTERNAL_H

#include "core/core.h"
#include "mvdr_jacobi/common.h"
#include "mvdr_jacobi/tone.h"

/* Helpers whose loops must be compiled once per instruction set along with their caller. */
#define MVDR_INLINE static inline __attribute__((always_inline))

enum {
    MVDR_ALIGN = 16, /* columns start at multiples of this many elements */
    MVDR_LANES = 8   /* directions processed together */
};

/* ---- scratch of one worker ------------------------------------------------------------------- */

typedef struct mvdr_scratch {
    float *s_re, *s_im;  /* S, n x m */
    double *t_re, *t_im; /* S or S^H while it is being reduced; holds floats in single precision */
    double *u_re, *u_im; /* the triangle whose columns Jacobi rotates; at most n x n */
    double *q_re, *q_im; /* orthonormal eigenvectors before they become float */
    double *norm2, *tau; /* per column of t */
    double *pair;        /* one round's sums and rotations: 7 arrays of one entry per pair */
    double *d;           /* eigenvalues */
    size_t *order;       /* eigenpair of each sorted eigenvalue */
    float *steer, *rest; /* [row][re, im][lane]: steering vectors and what Q leaves of them */
    float *project;      /* [k][re, im][lane] */
} mvdr_scratch;

sonar_code mvdr_scratch_create(mvdr_limits limits, mvdr_scratch *scratch, sonar_error *err);
void mvdr_scratch_destroy(mvdr_scratch *scratch);

/* ---- eigendecomposition ---------------------------------------------------------------------- */

typedef struct mvdr_solution {
    size_t kept;
    size_t sweeps;
    double residual; /* largest relative off-diagonal of the last sweep */
    bool converged;
} mvdr_solution;

/* Eigenpairs of S S^H from scratch->s (n x m, elements of magnitude about 1), descending, into
 * scratch->d and q (float, columns `ld` apart, at most `most`). Eigenvalues below eps^2
 * times the largest cannot be told from rounding and are left out. */
mvdr_solution mvdr_solve_f32(mvdr_scratch *scratch, size_t n, size_t m, double tolerance,
                             size_t max_sweeps, float *q_re, float *q_im, size_t ld, size_t most);
mvdr_solution mvdr_solve_f64(mvdr_scratch *scratch, size_t n, size_t m, double tolerance,
                             size_t max_sweeps, float *q_re, float *q_im, size_t ld, size_t most);

/* Orthogonalises the m columns (n x m, `ld` apart) by one-sided Jacobi; pair holds 7 * (m/2 + 1).
 */
mvdr_solution mvdr_jacobi_f32(float *re, float *im, size_t n, size_t m, size_t ld, double tolerance,
                              size_t max_sweeps, double *norm2, double *pair);
mvdr_solution mvdr_jacobi_f64(double *re, double *im, size_t n, size_t m, size_t ld,
                              double tolerance, size_t max_sweeps, double *norm2, double *pair);

/* Indices of d, largest first; returns how many exceed `relative` times the largest. */
size_t mvdr_descending(const double *d, size_t count, double relative, size_t *order);

/* ---- loading --------------------------------------------------------------------------------- */

typedef struct mvdr_load {
    double delta;
    bool fallback; /* noise rule with too few snapshots: trace used */
    bool floored;  /* raised to the least delta */
} mvdr_load;

/* delta for n sensors from the k eigenvalues d, descending; the other n - k are zero. */
mvdr_load mvdr_loading(const sonar_mvdr_spec *spec, const double *d, size_t k, size_t n,
                       double snapshots);
/* The share of a source's power that P shows then; `seen` snapshots, all of them or L. */
double mvdr_level(const sonar_mvdr_spec *spec, const double *d, size_t k, double delta, double seen,
                  double effective);

/* ---- spectrum -------------------------------------------------------------------------------- */

/* A bin's decomposition, ready for the spectrum. */
typedef struct mvdr_view {
    const float *q_re, *q_im; /* eigenvectors, padded with zero columns to a multiple of 4 */
    const float *weight;      /* [k] delta / (d + delta) */
    const float *gain;        /* [k] d / (d + delta) if levels are corrected, else NULL */
    size_t n, k, ld;
    size_t middle;  /* row that signed turns count from */
    int64_t offset; /* steered above the bin's centre, in 1/MVDR_TONE_ONE bins */
    double level;   /* delta, or delta / (n share) if levels are corrected; 0: no data, P = 0 */
} mvdr_view;

/* P in MVDR_LANES directions at absolute bin `bin`; turns is [row][lane]. */
void mvdr_spectrum_power(const mvdr_view *view, const uint64_t *turns, uint64_t bin,
                         mvdr_scratch *scratch, float *power);

/* ---- the stage ------------------------------------------------------------------------------- */

/* The rows of the problem: used sensors (with forward-backward, those whose mirror is used too). */
typedef struct mvdr_rows {
    size_t n;
    size_t middle;   /* the row that signed turns count from */
    size_t *sensor;  /* [row] */
    size_t *partner; /* [row] row of the sensor mirrored at the origin; forward-backward only */
    uint64_t *turns; /* [direction / 8][row][lane] */
} mvdr_rows;

/* What a bin keeps from one execute to the next. */
typedef struct mvdr_bin {
    size_t k;           /* eigenpairs in the stage's q and d */
    uint64_t seen;      /* snapshots accepted since the reset */
    double share;       /* forgetting: 1 - alpha^seen, by which R is too small */
    mvdr_view view;     /* of the last execute, for evaluate */
    mvdr_pair products; /* forgetting: mean of the products with the next bin, weighted as R is */
    double products_weight; /* sum of the weights in products */
    bool tonal;             /* steered at `offset` bins above its centre */
    double offset;
} mvdr_bin;

typedef struct mvdr_stage {
    sonar_mvdr_spec spec;
    const sonar_host *host;
    mvdr_limits limits;
    size_t ld;         /* of q */
    size_t directions; /* padded to whole vectors */
    uint64_t version;
    bool versioned;
    mvdr_rows rows;
    size_t *previous, *row_of; /* [sensor]: its row before and after the rows changed */
    sonar_c32 *snapshot;       /* block: [slot][bin][sensor] */
    uint8_t *valid;            /* block: [slot][bin], 0 for a snapshot with non-finite values */
    size_t next, filled;       /* block: slot of the next snapshot, slots in use */
    mvdr_bin *bin;
    float *q_re, *q_im;      /* [bin][kept][ld] eigenvectors */
    double *d;               /* [bin][kept] eigenvalues; forgetting: of the factor carried on */
    float *weight, *gain;    /* [bin][kept]; gain: with correct_level */
    float *power;            /* [bin][directions] */
    float *info;             /* [bin][SONAR_MVDR_INFO_FIELDS] */
    sonar_mvdr_tones *tones; /* NULL: no bin is steered at a tone */
    mvdr_pair *pair;         /* [slot or arrival][bin] a snapshot's with the next bin */
    uint64_t *points;        /* evaluate: [row][lane] */
    float *sample;           /* evaluate: [bin][lane] */
    mvdr_scratch *scratch;   /* [worker] */
    /* one execute's arguments, for the tasks */
    const sonar_buffer *in;
    size_t arrived;
} mvdr_stage;

/* S of one bin in scratch->s: R = factor * S S^H. */
typedef struct mvdr_factor {
    size_t m;
    double factor;
    double snapshots; /* L, or L_eff with forgetting */
} mvdr_factor;

/* Stores the bin's new snapshots (block) and builds S. */
mvdr_factor mvdr_factor_block(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* S = [sqrt(alpha) S, sqrt(1 - alpha) x ...] from the bin's kept eigenpairs and new snapshots. */
mvdr_factor mvdr_factor_forget(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch);
/* After all bins have stored: moves on by the snapshots that arrived. */
void mvdr_factor_advance(mvdr_stage *stage);
/* Adds the products of the bin's new snapshots with the next bin's; call it before mvdr_factor_*.
 */
void mvdr_tone_accumulate(mvdr_stage *stage, size_t bin);
/* Chooses the frequency at which the bin is steered, after all bins have accumulated theirs. */
void mvdr_tone_steer(mvdr_stage *stage, size_t bin);
/* Takes the rows, mirrors and turns of new parameters over. */
sonar_code mvdr_rows_update(mvdr_stage *stage, const sonar_params *params, sonar_error *err);

#endif
