/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The stages: for each its specification, the shapes of input and output, units and results. A
 * plugin's stages meet the same contracts as the CPU's, and a plugin needs only the headers of this
 * folder. docs/mvdr.md has the formulas of the MVDR.
 *
 * sonar_stage_ops.create gets a pointer to the stage's specification and copies what it needs;
 * execute gets in[] and out[] in the order given here. Shapes are outermost first; arrays are dense
 * unless stated otherwise. `fs` is the sampling rate and `N` the length of the stage's transform:
 * bin b is at b * fs/N, bin numbers are absolute. "unit" is uPa, counts without calibration, and
 * none with phase equalisation. Errors of all: SONAR_EINVAL for an impossible spec and SONAR_ENOMEM
 * from create; SONAR_EINVAL for wrong shapes from execute and evaluate, and errors that the device
 * reports.
 */
#ifndef SONAR_STAGES_H
#define SONAR_STAGES_H

#include "sonar/rows.h"
#include "sonar/sonar.h"

#include <math.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- "dft", sonar_dft_spec ------------------------------------------------------------------- */
/*
 * Real samples of all channels -> corrected complex bins of all sensors.
 *
 *   in[SONAR_DFT_HEAD]  f32 or s16 [channel][n0]   the window, in two parts where the ring wraps;
 *   in[SONAR_DFT_TAIL]  as the head [channel][n1]  n0 + n1 == length, n1 may be 0; rows strided
 *   out[0]              c32 [bin][sensor]          bins first_bin .. first_bin + bins - 1
 *
 * With work->column (on a device only; the CPU's stage returns SONAR_EINVAL) the head is the whole
 * sample ring [channel][capacity] in the backend's own memory, capacity >= length, the tail is
 * empty, and sample i is at the ring's column (*work->column + work->offset + i) mod capacity.
 * *work->column is in such memory too and read when the work runs, so that a graph recorded once
 * follows it. Before execute is recorded, it must have run once with the same version of the
 * parameters; otherwise their upload would be recorded too.
 *
 * Per sensor: mean of the present samples removed (samples in work->gaps are 0 afterwards, whatever
 * the input contains), taper applied, r2c transform X(f) = sum x(t) e^{-j 2 pi f t}, scaled so that
 * |X|^2 is the one-sided power spectral density in unit^2/Hz, 2 |X|^2 / (fs sum w^2), without the
 * factor 2 at DC and Nyquist; calibration scale, phase and delay corrections from work->params are
 * in it; masked sensors are exactly zero.
 */

enum { SONAR_DFT_HEAD = 0, SONAR_DFT_TAIL, SONAR_DFT_INPUTS };

/* Longest transform: FFT libraries count the values of a batch in an int. */
enum { SONAR_DFT_LENGTH_MOST = 0x7fffffff / 16 };

/* Tapers, the window functions of a DFT, periodic (DFT-even): Harris, "On the use of windows for
 * harmonic analysis with the discrete Fourier transform", Proc. IEEE 66 (1978); flat-top is the one
 * of ISO 18431-2. */
typedef enum sonar_taper {
    SONAR_HANN = 0,
    SONAR_RECTANGULAR,
    SONAR_HAMMING,
    SONAR_BLACKMAN,
    SONAR_KAISER,
    SONAR_FLATTOP
} sonar_taper;

typedef enum sonar_planning {
    SONAR_PLAN_MEASURE = 0, /* FFTW_MEASURE; wisdom kept in host->state_dir */
    SONAR_PLAN_STABLE       /* stored wisdom or FFTW_ESTIMATE only: two runs give the same bits */
} sonar_planning;

typedef struct sonar_dft_spec {
    size_t channels, sensors;
    size_t length; /* N, any length from 2 to SONAR_DFT_LENGTH_MOST */
    double fs_hz;
    size_t first_bin, bins; /* kept bins; first_bin + bins <= length/2 + 1 */
    sonar_taper taper;
    double kaiser_beta;  /* 0 to 500; read for a Kaiser taper only */
    bool remove_mean;    /* false: samples keep their mean; missing ones are 0 in any case */
    bool equalise_phase; /* every bin divided by its magnitude; 0 stays 0; unit is then relative */
    sonar_planning planning;
    /* Samples are always in memory that the backend's kernels can read, so the stage allocates no
     * memory for copies. */
    bool in_place;
} sonar_dft_spec;

/* ---- "cbf", sonar_cbf_spec ------------------------------------------------------------------- */
/*
 * Conventional beamformer, near field, Lofar and band energy (thesis 6.4).
 *
 *   in[0]                     c32 [snapshot][bin][sensor]  from the DFT stage (|X|^2 is a PSD)
 *   out[SONAR_CBF_AZIMUTH]    f32 [direction]          band energy, unit^2
 *   out[SONAR_CBF_NEARFIELD]  f32 [range][direction]   band energy, unit^2
 *   out[SONAR_CBF_LOFAR]      f32 [bin][direction]     all bins, CBF and Lofar, unit^2/Hz
 *
 * y(theta, b) = sum_k g_k conj(a_k) X_k / sum_k g_k, P = the mean of |y|^2 over the snapshots; the
 * band energy is (fs/N) sum_b P over the CBF bins. a_k = exp(+j 2 pi b turns_k) from
 * params->far_cbf / near_cbf, computed during execution; g_k is params->shading. The input is dense
 * in its last index, has between one and spec.max_snapshots snapshots, and is read again by
 * evaluate, which averages over the same snapshots. Surfaces whose bit is not set in work->outputs
 * are not changed.
 *
 * The band is live: params->cbf may have another one within the input's bins. Shapes stay those of
 * the specification that the stage was created with. first_bin and bins of params->cbf, within
 * these, select the rows of the Lofar that are wanted; other rows are undefined.
 *
 * With spec.parts the sensors are a part of an array, shading_sum is the whole array's, and the
 * output is y itself, so that the parts of an array can be added before powers are computed:
 *
 *   out[SONAR_CBF_LOFAR]      c32 [snapshot][bin][direction]         all bins where the Lofar is
 *                                                                    wanted, else the CBF's
 *   out[SONAR_CBF_NEARFIELD]  c32 [snapshot][bin][range][direction]  the CBF's bins
 *   evaluate                  c32 [snapshot][bin][point]             the CBF's bins, in place of
 *                                                                    power
 */

enum { SONAR_CBF_OUTPUTS = SONAR_CBF_LOFAR + 1 };

typedef struct sonar_cbf_spec {
    size_t sensors, directions, ranges; /* ranges may be 0: no near field */
    double fs_hz;
    size_t length;              /* N */
    size_t first_bin, bins;     /* bins of the input, a contiguous run */
    size_t cbf_first, cbf_bins; /* live; the CBF band, within the input's bins */
    size_t max_snapshots;       /* of one execute, at least 1 */
    bool parts; /* a backend that does not support it returns SONAR_EUNAVAILABLE from create */
} sonar_cbf_spec;

/* ---- "steer", sonar_steer_spec --------------------------------------------------------------- */
/*
 * Turns of directions and points off the grid, for a beamformer's evaluate.
 *
 *   in[0]   f64 [look][SONAR_LOOK_FIELDS]  sonar_look
 *   out[0]  u64 [look][sensor]             dense; sonar_turns of the delays
 *
 * Delays are computed in double from the positions and the sound speed of work->params: for a wave
 * from u, tau_k = p_k.u / c, or for a point at length_m from the origin towards u, tau_k = (|s| -
 * |s - p_k|) / c. Turns of different backends may differ by the delays' rounding.
 */

typedef struct sonar_look {
    double u[3];         /* unit vector, array frame */
    double length_m;     /* from the origin; SONAR_LOOK_FAR_M or more: the far field */
    double bin_width_hz; /* of the bins that the turns are for */
} sonar_look;

/* The square of every length below is finite. */
#define SONAR_LOOK_FAR_M 1e100

enum { SONAR_LOOK_FIELDS = sizeof(sonar_look) / sizeof(double) };

typedef struct sonar_steer_spec {
    size_t sensors;
} sonar_steer_spec;

/* ---- "mvdr_jacobi", sonar_mvdr_spec ---------------------------------------------------------- */
/*
 * Adaptive beamformer: MVDR in float64 (thesis 6.5). If there are at most half as many snapshots as
 * sensors, it works on the Gram matrix of the snapshots, else on the covariance of the sensors.
 *
 *   in[0]                         c32 [snapshot][bin][sensor]  new ones, oldest first; may be empty
 *   out[SONAR_MVDR_OUT_AZIMUTH]   f32 [direction]              (fs/N) sum_b P, unit^2
 *   out[SONAR_MVDR_OUT_SPECTRUM]  f32 [bin][direction]         P, unit^2/Hz
 *   out[SONAR_MVDR_OUT_NEARFIELD] f32 [range][direction]       (fs/N) sum_b P, unit^2
 *   out[SONAR_MVDR_OUT_EIGENVALUES] f32 [bin][sonar_mvdr_modes]  of R, in falling order, unit^2/Hz
 *   out[SONAR_MVDR_OUT_MUSIC]     f32 [direction]              pseudo-spectrum, no unit
 *   out[SONAR_MVDR_OUT_INFO]      f32 [bin][SONAR_MVDR_INFO_FIELDS]
 *
 * P(theta, b) = 1 / sum_k |a^H v_k|^2 / (d_k + delta), with eigenvectors v_k and eigenvalues d_k of
 * R; with correct_level (P - delta/B) / share of it, share being SONAR_MVDR_LEVEL. With dominant
 * mode rejection, of the K largest eigenvalues that are above the noise,
 *
 *   P = 1 / (sum_{k<=K} |a^H v_k|^2 / d_k + (|a|^2 - sum_{k<=K} |a^H v_k|^2) / noise)
 *
 * and with correct_level (P - (1 - share) noise/B) / share. Before the first snapshot, and with
 * all-zero data, P is 0 (never NaN). Masked sensors (params->used) have a_k = 0 and do not count in
 * B, the number of sensors. The near field has the same P with the steering vectors of points,
 * params->near_mvdr, from the same snapshots, matrix and loading.
 *
 * With spec.white_noise_gain_db, weights whose gain against white noise is below that limit are
 * computed with more loading, by the smallest mu that reaches the limit (Cox, Zeskind and Owen,
 * IEEE Trans. ASSP 35, 1987),
 *
 *   w = (R + (delta + mu) I)^-1 a / a^H (R + (delta + mu) I)^-1 a      P = w^H (R + delta I) w
 *
 * in the directions and at the points that need it; elsewhere mu = 0, and P is the same as without
 * a limit.
 *
 * With spec.music, MUSIC (Schmidt, IEEE Trans. AP 34, 1986) from the same R: for each bin the share
 * of a outside the subspace of the K largest eigenvalues' eigenvectors; then 1 over the mean of
 * this share over the bins with K > 0 (SONAR_MVDR_SUBSPACE). This is incoherent wideband MUSIC
 * (Wax, Shan and Kailath, IEEE Trans. ASSP 32, 1984),
 *
 *   share(theta, b) = (|a|^2 - sum_{k<=K} |a^H v_k|^2) / |a|^2      MUSIC(theta) = 1 / mean_b share
 *
 * If no bin has sources it is 1, its smallest value.
 *
 * An output without data is not wanted. AZIMUTH and SPECTRUM are wanted if work->outputs has the
 * bit of either surface; NEARFIELD, EIGENVALUES and MUSIC if it has their own bits; INFO if it has
 * any of the five. Without any of these bits execute only takes the snapshots and does not solve,
 * which saves time; the outputs are not changed. The near field is likewise computed only if
 * wanted; nothing of it is kept between executes. evaluate uses all snapshots taken so far, whether
 * they were solved or not.
 *
 * The band is live: first_bin and bins of params->mvdr select the bins in use from the input's
 * bins. Snapshots are taken in all of the input's bins. Bins not in use are excluded from sums,
 * evaluations and the search for tones, and their rows of the outputs are not changed.
 *
 * A bin that a tone dominates is steered at the tone's frequency, which may be a side lobe's width
 * away, by execute and evaluate alike. This uses whole turns, relative to the sensor in the middle:
 * a bin's width times the delay from there to any other sensor must be less than 2^11 turns.
 *
 * reset forgets all snapshots (a new epoch, a new geometry).
 *
 * In snapshot space P depends only on sums over sensors. Parts of an array can compute these, and
 * they can be added in float64 before solving (sonar_mvdr_adds). With spec.parts == SONAR_MVDR_PART
 * the sensors, params and turns are a part's, the bins all of the array's:
 *
 *   execute   in[0]   c32 [snapshot][bin][sensor]               as above
 *             out[0]  f64 [row][bin][SONAR_MVDR_PRODUCTS]       with the next bin
 *   join      in[0]   f64 [row][bin][SONAR_MVDR_PRODUCTS]       of all parts, added
 *             out[0]  f64 [bin][SONAR_MVDR_PLAN]                the same in all parts
 *             out[1]  f64 [bin][sonar_mvdr_sums_most]           rows of the new snapshots, oldest
 *                     first, at most as many as slots; with SONAR_MVDR_PLAN_WHOLE of all slots,
 *                     and behind them |a|^2 [direction]
 *   evaluate  turns   u64 [point][sensor]
 *             power   f64 [bin][point][1 + 2 slots]             |a|^2, x_i^H a of every slot
 *
 * Products have a row for each new snapshot. If any part's sensors in use may have changed, they
 * have spec.snapshots more rows, for the snapshots of the block; tones are then searched as if the
 * new sensors had been used from the start. A row of sums, sonar_mvdr_sums_row doubles, has x_i^H
 * x_j of every slot j and x_i^H a of every direction, complex. join follows every execute. With
 * SONAR_MVDR_JOINED the bins are any of the array's, without edges, the sensors and params are the
 * whole array's (turns are not read), and the inputs are the sums of the parts:
 *
 *   execute   in[0]  f64 [bin][sonar_mvdr_sums_most]             may be empty: nothing has come
 *             in[1]  f64 [bin][SONAR_MVDR_PLAN]                  of these bins
 *             out                                                as above; work->snapshots new ones
 *   evaluate  turns  f64 [bin][point][1 + 2 slots]
 *             power  f32 [point]                                 as above
 */

/* Outputs before INFO are the surfaces from SONAR_MVDR_AZIMUTH on, in that order. */
enum {
    SONAR_MVDR_OUT_AZIMUTH = 0,
    SONAR_MVDR_OUT_SPECTRUM,
    SONAR_MVDR_OUT_NEARFIELD,
    SONAR_MVDR_OUT_EIGENVALUES,
    SONAR_MVDR_OUT_MUSIC,
    SONAR_MVDR_OUT_INFO,
    SONAR_MVDR_OUTPUTS
};

/* Columns of the info surface. */
enum {
    SONAR_MVDR_SWEEPS = 0, /* Jacobi sweeps used; 0 if no eigenvectors were needed */
    SONAR_MVDR_RESIDUAL,   /* largest relative off-diagonal that the last sweep met; else 0 */
    SONAR_MVDR_DELTA, /* loading added to every eigenvalue, unit^2/Hz; with dominant modes the noise
                         that replaces all other eigenvalues */
    SONAR_MVDR_FLAGS, /* SONAR_MVDR_FLAG_* as a float */
    SONAR_MVDR_SNAPSHOTS, /* effective number of snapshots behind the bin's spectrum. It is smaller
                             while the block fills and if snapshots had non-finite values, which do
                             not count */
    SONAR_MVDR_LEVEL,     /* share of a source's power that P is expected to show, before any
                             correction; 1: all */
    SONAR_MVDR_OFFSET,    /* how far above its centre the bin is steered, in bins */
    SONAR_MVDR_SOURCES,   /* number of sources by spec.source_count; 0: not counted */
    SONAR_MVDR_MODES,     /* dominant modes kept; 0 without mode rejection */
    SONAR_MVDR_LIMITED,   /* number of directions of the far field in which the white noise gain is
                             limited */
    SONAR_MVDR_SUBSPACE,  /* dimension of MUSIC's signal subspace; 0 if MUSIC is not wanted */
    SONAR_MVDR_ROUTE,     /* the route that solved the bin, a number from mvdr_jacobi/route.h; 0: no
                             data */
    SONAR_MVDR_INFO_FIELDS
};
enum {
    SONAR_MVDR_FLAG_NOT_CONVERGED = 1,
    SONAR_MVDR_FLAG_LEVEL_BIASED = 2, /* a source appears more than 6 dB too low or, with
                                         correct_level, more than 20 dB were added */
    SONAR_MVDR_FLAG_TRACE_FALLBACK =
        4, /* noise rule with too few snapshots: the trace rule was used */
    SONAR_MVDR_FLAG_LOADING_FLOOR = 8 /* the rule's delta was below the smallest allowed one */
};

/* Which part of an array's computation a stage does, if several processes share the array. */
typedef enum sonar_mvdr_parts {
    SONAR_MVDR_WHOLE = 0, /* all of it, in one process */
    SONAR_MVDR_PART,      /* computes the sums of its own sensors */
    SONAR_MVDR_JOINED     /* solves from the added sums of all parts */
} sonar_mvdr_parts;

/* Products of neighbouring bins, for the tones, and the number of sensors in them. */
enum { SONAR_MVDR_PRODUCTS = 4 };
enum {
    SONAR_MVDR_PLAN_OFFSET = 0, /* how far above its centre the bin is steered, in bins */
    SONAR_MVDR_PLAN_WHOLE,      /* not 0: all sums are sent, because all of them have changed */
    SONAR_MVDR_PLAN
};

typedef enum sonar_mvdr_solver {
    SONAR_MVDR_AUTO = 0, /* the fastest method */
    SONAR_MVDR_JACOBI    /* eigendecomposition by parallel Jacobi rotations (thesis 6.5) */
} sonar_mvdr_solver;

/* clang-format off */
/* The rules of diagonal loading, one row each: constant, word of mvdr.loading.rule, the usual eps
 * (0: it has to be given). The row and its case in mvdr_delta_by_rule (mvdr_jacobi/rules/loading.h) are a
 * rule; docs/mvdr-inside.md says what else belongs to a new one. */
#define SONAR_LOADING_RULES(ROW, AND) \
    ROW(SONAR_LOADING_NOISE,    "noise",    1)    AND /* eps times the noise power estimated from the eigenvalues */ \
    ROW(SONAR_LOADING_TRACE,    "trace",    0.01) AND /* eps * tr(R)/B */ \
    ROW(SONAR_LOADING_ABSOLUTE, "absolute", 0)        /* eps itself, in unit^2/Hz */
/* clang-format on */

typedef enum sonar_loading { SONAR_LOADING_RULES(SONAR_PICK_CONSTANT, SONAR_COMMA) } sonar_loading;
enum { SONAR_LOADINGS = SONAR_LOADING_RULES(SONAR_PICK_ONE, +) };

/* How the number of sources is estimated from a bin's eigenvalues: docs/mvdr.md. */
typedef enum sonar_source_count {
    SONAR_COUNT_OFF = 0,
    SONAR_COUNT_MDL,          /* minimum description length (Wax and Kailath 1985) */
    SONAR_COUNT_RANDOM_MATRIX /* Nadakuditi and Edelman 2008 */
} sonar_source_count;

/* Number of dominant modes, or of MUSIC's sources. It is always less than the number of eigenvalues
 * and of snapshots. Or: */
enum {
    SONAR_MODES_OFF = 0,
    SONAR_MODES_COUNTED = -1 /* the number that spec.source_count finds */
};

/* How a taper spreads a tone over neighbouring bins: the angle of (W(o), W(o - 1)), W being the
 * taper's transform about its middle, for offsets o = (i + 1/2)/STEPS - REACH, which avoids the
 * zeros at whole bins, unwrapped beyond half a turn. From `first` on, `count` of the angles ascend,
 * so that each determines one offset. */
enum {
    SONAR_MVDR_TONE_REACH = 8,
    SONAR_MVDR_TONE_STEPS = 32,
    SONAR_MVDR_TONE_ANGLES = (2 * SONAR_MVDR_TONE_REACH + 1) * SONAR_MVDR_TONE_STEPS
};
typedef struct sonar_mvdr_tones {
    double correlation; /* magnitude of the correlation of broadband sound in neighbouring bins */
    size_t first, count;
    float angle[SONAR_MVDR_TONE_ANGLES];
} sonar_mvdr_tones;

/* Members marked live may have other values in sonar_params.mvdr, which then apply to all snapshots
 * taken so far. */
typedef struct sonar_mvdr_spec {
    size_t sensors, directions, ranges; /* ranges may be 0: no near field */
    double fs_hz;
    size_t length;          /* N, of the MVDR's own DFT */
    size_t first_bin, bins; /* bins of the input; live: the bins in use */
    size_t max_new;         /* largest number of snapshots in one execute */
    size_t snapshots;       /* L of the block, >= 1; 0 with forgetting */
    double alpha;           /* forgetting factor in (0, 1); 0 = block */
    sonar_loading loading;  /* live */
    double eps; /* live; > 0. docs/mvdr.md has the smallest delta. If the noise rule falls back to
                   the trace, a hundredth of eps applies */
    size_t known_sources; /* live; K for the noise rule, 0 = unknown */
    sonar_mvdr_solver solver;
    double tolerance;  /* live; in (0, 1). Jacobi ends with a sweep in which no |g_ij| exceeds it
                          times sqrt(g_ii g_jj); G is the matrix being diagonalised */
    size_t max_sweeps; /* live; a bin that needs more is flagged as not converged */
    bool forward_backward; /* averages with the array mirrored at the origin; sensors whose mirror
                              image is masked or missing are not used */
    bool correct_level; /* live; compensate the effect of few snapshots and of loading on levels */
    sonar_source_count source_count; /* live */
    /* SONAR_MODES_*, or the number of dominant modes. Live, but OFF and other values cannot replace
     * each other, unless the stage was created with the JACOBI solver or with a limit on the white
     * noise gain. */
    int dmr;
    /* Smallest white noise gain of the weights, |w^H a|^2 / (w^H w), in dB relative to that of
     * equal weights, B: less than 0; 0: no limit. Not together with dominant modes or corrected
     * levels. Live, but a stage that was created without a limit has no memory for one. */
    double white_noise_gain_db;
    /* SONAR_MODES_*, or the number of sources; found by Jacobi, whatever the solver. Live, but a
     * stage that was created with OFF keeps OFF. With OFF, MUSIC is not wanted. */
    int music;
    /* Borrowed during create. NULL: every bin is steered at its centre. */
    const sonar_mvdr_tones *tones;
    /* Bins at the ends of the input that serve only to find their neighbours' tones. Sums over bins
     * and evaluate exclude them. Fewer than all bins. */
    size_t edge_below, edge_above;
    /* Values other than WHOLE only if sonar_mvdr_adds is true for the whole array. */
    sonar_mvdr_parts parts;
} sonar_mvdr_spec;

/* Values that depend only on the sizes of a specification: pure functions, any thread. */

/* Number of snapshots kept: L, or with forgetting those with more than 1e-14 of their power. */
static inline double sonar_mvdr_slots(const sonar_mvdr_spec *spec) {
    return spec->alpha > 0 ? ceil(log(1e-14) / log(spec->alpha)) : (double)spec->snapshots;
}

/* Effective number of snapshots in a full block; with forgetting, of which the number does not grow
 * any more. */
static inline double sonar_mvdr_effective(const sonar_mvdr_spec *spec) {
    return spec->alpha > 0 ? (1 + spec->alpha) / (1 - spec->alpha) : (double)spec->snapshots;
}

/* True if the Gram matrix of the snapshots is solved: with at most half as many snapshots as
 * sensors. */
static inline bool sonar_mvdr_by_snapshots(const sonar_mvdr_spec *spec) {
    const size_t half = spec->sensors / (spec->forward_backward ? 4 : 2);
    return spec->parts || sonar_mvdr_slots(spec) <= (double)half;
}

/* True if sums over parts of the sensors can be added: in snapshot space, without forward-backward
 * averaging, whose mirror images may be another part's sensors, and without a near field, whose
 * sums are too many. A limit on the white noise gain needs stages that have the snapshots. */
static inline bool sonar_mvdr_adds(const sonar_mvdr_spec *spec) {
    return sonar_mvdr_by_snapshots(spec) && !spec->forward_backward && !spec->ranges &&
           !(spec->white_noise_gain_db < 0);
}

/* Doubles of a snapshot's sums in a bin, and of all sums of a bin. */
static inline size_t sonar_mvdr_sums_row(const sonar_mvdr_spec *spec) {
    return 2 * ((size_t)sonar_mvdr_slots(spec) + spec->directions);
}
static inline size_t sonar_mvdr_sums_most(const sonar_mvdr_spec *spec) {
    return (size_t)sonar_mvdr_slots(spec) * sonar_mvdr_sums_row(spec) + spec->directions;
}

/* Largest number of nonzero eigenvalues of R: the number of sensors or, if smaller, of the block's
 * snapshots, which forward-backward averaging counts twice. The rest of a row is 0. */
static inline size_t sonar_mvdr_modes(const sonar_mvdr_spec *spec) {
    const size_t most = spec->alpha > 0 ? spec->sensors : spec->snapshots;
    const size_t half = spec->sensors / 2 + spec->sensors % 2;
    if (spec->forward_backward)
        return most < half ? 2 * most : spec->sensors;
    return most < spec->sensors ? most : spec->sensors;
}

#ifdef __cplusplus
}
#endif
#endif
