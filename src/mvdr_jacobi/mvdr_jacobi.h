/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Adaptive beamformer: MVDR through a parallel Jacobi eigendecomposition of the covariance's factor
 * (thesis 6.5; Hestenes 1958; algorithms: MVDR). R is never formed, but by the two-sided method.
 *
 *   in[0]                      c32 [snapshot][bin][sensor]  new snapshots, oldest first; may be
 * empty out[SONAR_MVDR_OUT_AZIMUTH]   f32 [direction]        (fs/N) sum_b P, unit^2
 *   out[SONAR_MVDR_OUT_SPECTRUM]  f32 [bin][direction]   P, unit^2/Hz
 *   out[SONAR_MVDR_OUT_INFO]      f32 [bin][SONAR_MVDR_INFO_FIELDS]
 *
 * A bin that a tone dominates is steered at the tone's frequency, which may be a side lobe's width
 * away (tone.h), by execute and evaluate alike. There, turns count as signed ones from the sensor
 * in the middle: a bin's width times the delay from there to any other must stay under half a turn,
 * which it does if a snapshot lasts as long as a wave takes along the array.
 *
 * reset forgets all snapshots (a new epoch, a new geometry).
 *
 * P(theta, b) = 1 / sum_k |a^H v_k|^2 / (d_k + delta); with correct_level (P - delta/B) / share of
 * it, share being SONAR_MVDR_LEVEL. Without any snapshot yet, or with all-zero data, P is 0 (never
 * NaN). Masked sensors (params->used) have a_k = 0 and do not count in B.
 */
#ifndef SONAR_MVDR_JACOBI_H
#define SONAR_MVDR_JACOBI_H

#include "sonar/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sonar_mvdr_method { SONAR_MVDR_ONE_SIDED = 0, SONAR_MVDR_TWO_SIDED } sonar_mvdr_method;

typedef enum sonar_loading {
    SONAR_LOADING_NOISE = 0, /* eps times the noise power estimated from the eigenvalues */
    SONAR_LOADING_TRACE,     /* eps * tr(R)/B */
    SONAR_LOADING_ABSOLUTE   /* eps itself, in unit^2/Hz */
} sonar_loading;

/* How a window spreads a tone over neighbouring bins, see tone.h: the angle of (W(o), W(o - 1)) for
 * offsets o = (i + 1/2)/STEPS - REACH, which leaves out the zeros at whole bins, continued over
 * half a turn; from `first` on `count` of them ascend and name one offset each. */
enum {
    SONAR_MVDR_TONE_REACH = 8,
    SONAR_MVDR_TONE_STEPS = 32,
    SONAR_MVDR_TONE_ANGLES = (2 * SONAR_MVDR_TONE_REACH + 1) * SONAR_MVDR_TONE_STEPS
};
typedef struct sonar_mvdr_tones {
    double correlation; /* of broadband sound in neighbouring bins, without its sign */
    size_t first, count;
    float angle[SONAR_MVDR_TONE_ANGLES];
} sonar_mvdr_tones;

/* From a periodic window of n points; a few hundred are enough for a longer one. Pure function. */
void sonar_mvdr_tones_make(const double *window, size_t n, sonar_mvdr_tones *tones);

typedef struct sonar_mvdr_spec {
    size_t sensors, directions;
    double fs_hz;
    size_t length;          /* N of the MVDR's own DFT */
    size_t first_bin, bins; /* bins of the input, all used */
    size_t max_new;         /* most snapshots one execute brings */
    size_t snapshots;       /* L of the block, >= 1; 0 with forgetting */
    double alpha;           /* forgetting factor in (0, 1); 0 = block */
    sonar_loading loading;
    double eps;           /* > 0; delta is never under 1.4e-12 of the largest eigenvalue, and a
                             hundredth of it counts where the noise rule falls back to the trace */
    size_t known_sources; /* K for the noise rule, 0 = unknown */
    sonar_mvdr_method method;
    double tolerance; /* relative, per pair; 3e-7 */
    size_t max_sweeps;
    bool forward_backward; /* positions must be symmetric about the origin, see below */
    bool correct_level;    /* take out what few snapshots and loading do to levels: level.h */
    /* Borrowed during create. NULL: every bin is steered at its centre. */
    const sonar_mvdr_tones *tones;
} sonar_mvdr_spec;

enum {
    SONAR_MVDR_OUT_AZIMUTH = 0,
    SONAR_MVDR_OUT_SPECTRUM,
    SONAR_MVDR_OUT_INFO,
    SONAR_MVDR_OUTPUTS
};

/* Columns of the info surface. */
enum {
    SONAR_MVDR_SWEEPS = 0, /* sweeps used */
    SONAR_MVDR_RESIDUAL,   /* largest relative off-diagonal of the last sweep */
    SONAR_MVDR_DELTA,      /* loading added to every eigenvalue, unit^2/Hz */
    SONAR_MVDR_FLAGS,      /* SONAR_MVDR_FLAG_* as a float */
    SONAR_MVDR_SNAPSHOTS,  /* L_eff the bin's spectrum rests on: fewer while filling up or where
                              snapshots had non-finite values, which do not count */
    SONAR_MVDR_LEVEL,      /* share of a source's power that P is expected to show (level.h), before
                              any correction; 1: all */
    SONAR_MVDR_OFFSET,     /* bins above its centre at which the bin is steered */
    SONAR_MVDR_INFO_FIELDS
};
enum {
    SONAR_MVDR_FLAG_NOT_CONVERGED = 1,
    SONAR_MVDR_FLAG_LEVEL_BIASED = 2,   /* a source reads over 6 dB low, or, with correct_level, has
                                           had more than 20 dB added */
    SONAR_MVDR_FLAG_TRACE_FALLBACK = 4, /* noise rule with too few snapshots: trace used */
    SONAR_MVDR_FLAG_DOUBLE = 8,         /* 0.75 B < L < 1.5 B: computed in double precision */
    SONAR_MVDR_FLAG_LOADING_FLOOR = 16  /* the rule's delta was under the least one */
};

/* Sensors that the stage uses: those not masked and, with forward_backward, whose mirror image is
 * not masked either. */
size_t sonar_mvdr_sensors(const sonar_params *params, bool forward_backward);

extern const sonar_stage_ops sonar_mvdr_jacobi_cpu;

#ifdef __cplusplus
}
#endif

#endif
