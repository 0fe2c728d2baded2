/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The stages: for each its specification, the shapes of what goes in and out, units and results. A
 * plugin's stages meet these contracts, as the CPU's do, and a plugin needs no other header than
 * those of this folder. docs/mvdr.md has the formulas of the MVDR.
 *
 * sonar_stage_ops.create gets a pointer to the stage's specification and copies what it keeps;
 * execute gets in[] and out[] in the order given here. Shapes are outermost first; an index that
 * runs over all entries of the one before is dense unless said otherwise. `fs` is the sampling
 * rate and `N` the length of the stage's transform: bin b is at b * fs/N, bin numbers are absolute.
 * "unit" is uPa, counts without calibration, and none with phase equalisation. Errors of all:
 * SONAR_EINVAL for an impossible spec and SONAR_ENOMEM from create; SONAR_EINVAL for wrong shapes
 * from execute and evaluate, and what the device itself reports.
 */
#ifndef SONAR_STAGES_H
#define SONAR_STAGES_H

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
 * With work->column (on a device only; the CPU's answers SONAR_EINVAL) the head is the whole sample
 * ring [channel][capacity] in the backend's own memory, capacity >= length, the tail
 * is empty, and sample i is at the ring's column (*work->column + work->offset + i) mod capacity.
 * *work->column is in such memory too and read when the work runs, so that a graph recorded once
 * follows it. To be recorded, execute must have run once with the same version of the parameters,
 * whose upload would otherwise be recorded with it.
 *
 * Per sensor: mean removed (of the samples that are there: those in work->gaps are 0 after it,
 * whatever numbers the input holds for them), taper applied, r2c transform
 * X(f) = sum x(t) e^{-j 2 pi f t}, scaled so that |X|^2 is the one-sided power spectral density in
 * unit^2/Hz, 2 |X|^2 / (fs sum w^2), without the factor 2 at DC and Nyquist; calibration scale,
 * phase and delay corrections from work->params are in it; masked sensors are exactly zero.
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
    bool remove_mean;    /* false: samples keep their mean, lost ones are 0 all the same */
    bool equalise_phase; /* every bin divided by its magnitude; 0 stays 0; unit is then relative */
    sonar_planning planning;
    /* Samples will always lie where the backend's kernels read: no room for copies is needed. */
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
 * params->far_cbf / near_cbf, made on the fly; g_k is params->shading. The input is dense in its
 * last index, has between one and spec.max_snapshots snapshots, and is read again by evaluate,
 * which averages over the same ones. Surfaces whose bit is not set in work->outputs are left
 * untouched.
 *
 * The band is live: params->cbf may have another one among the input's bins. Shapes stay those of
 * the specification that the stage was made with; its own first_bin and bins, inside these, say
 * which rows of the Lofar are asked for, and the others may hold anything.
 *
 * With spec.parts the sensors are a part of an array, shading_sum is the whole array's, and what
 * comes out is y itself, so that the parts of an array can be added before powers are taken:
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
    size_t cbf_first, cbf_bins; /* live; the CBF band, inside the input's bins */
    size_t max_snapshots;       /* of one execute, at least 1 */
    bool parts;                 /* a backend that cannot answers create with SONAR_EUNAVAILABLE */
} sonar_cbf_spec;

/* ---- "steer", sonar_steer_spec --------------------------------------------------------------- */
/*
 * Turns of directions and points off the grid, where a beamformer's evaluate reads them.
 *
 *   in[0]   f64 [look][SONAR_LOOK_FIELDS]  sonar_look
 *   out[0]  u64 [look][sensor]             dense; as sonar_turns makes them of the delays
 *
 * Delays are made in double of the positions and the sound speed of work->params: of a wave from u,
 * tau_k = p_k.u / c, or of a point at length_m from the origin towards u,
 * tau_k = (|s| - |s - p_k|) / c. Other backends' turns may differ by the delays' rounding.
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
 * Adaptive beamformer: MVDR in float64 (thesis 6.5). From up to half as many snapshots as sensors
 * it works on the Gram matrix of the snapshots, else on the covariance of the sensors.
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
 * mode rejection, of the K largest eigenvalues where they are above the noise,
 *
 *   P = 1 / (sum_{k<=K} |a^H v_k|^2 / d_k + (|a|^2 - sum_{k<=K} |a^H v_k|^2) / noise)
 *
 * and with correct_level (P - (1 - share) noise/B) / share. Without any
 * snapshot yet, or with all-zero data, P is 0 (never NaN). Masked sensors (params->used) have
 * a_k = 0 and do not count in B, the number of sensors. The near field has the same P with the
 * steering vectors of points, params->near_mvdr, from the same snapshots, matrix and loading.
 *
 * With spec.white_noise_gain_db, weights whose gain against white noise is under that limit are
 * made with more loading, the least mu that gives it (Cox, Zeskind and Owen, IEEE Trans. ASSP 35,
 * 1987),
 *
 *   w = (R + (delta + mu) I)^-1 a / a^H (R + (delta + mu) I)^-1 a      P = w^H (R + delta I) w
 *
 * in the directions and at the points where it has to be; elsewhere mu = 0, and P is what it is
 * without a limit.
 *
 * With spec.music, MUSIC (Schmidt, IEEE Trans. AP 34, 1986) from the same R: of each bin the share
 * of a that lies beyond the K largest eigenvalues' eigenvectors, and over the bins that have any of
 * these (SONAR_MVDR_SUBSPACE) 1 over the mean share, as incoherent wideband MUSIC has it (Wax, Shan
 * and Kailath, IEEE Trans. ASSP 32, 1984),
 *
 *   share(theta, b) = (|a|^2 - sum_{k<=K} |a^H v_k|^2) / |a|^2      MUSIC(theta) = 1 / mean_b share
 *
 * Where no bin has sources it is 1, its least value.
 *
 * An output without data is not wanted. AZIMUTH and SPECTRUM are wanted where work->outputs has the
 * bit of either surface, NEARFIELD, EIGENVALUES and MUSIC with their own bits, INFO with any of the
 * five. Without any of these execute takes the snapshots in and leaves the outputs untouched, and
 * the time that solving takes is saved; so does it with the near field, of which nothing is kept
 * between executes. evaluate looks at the snapshots that have been taken in, whether they were
 * solved or not.
 *
 * The band is live: of the input's bins, those are in use that params->mvdr has among its first_bin
 * and bins. Snapshots are taken in at all of them; the others are left out of sums, evaluations and
 * the search for tones, and their rows of the outputs are left untouched.
 *
 * A bin that a tone dominates is steered at the tone's frequency, which may be a side lobe's width
 * away, by execute and evaluate alike. There, turns count as whole ones from the sensor in the
 * middle: a bin's width times the delay from there to any other must stay under 2^11 turns.
 *
 * reset forgets all snapshots (a new epoch, a new geometry).
 *
 * In snapshot space all that P rests on are sums over sensors, which can be made by parts of an
 * array and be added, in float64, before anything is solved (sonar_mvdr_adds). With spec.parts ==
 * SONAR_MVDR_PART the sensors, params and turns are a part's, the bins all of the array's:
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
 * Products have a row for each new snapshot. Where any part's sensors in use may have changed, they
 * have spec.snapshots rows more, for the snapshots of the block: tones are then looked for as with
 * the new sensors from the start. A row of sums, sonar_mvdr_sums_row doubles, has x_i^H x_j of
 * every slot j and x_i^H a of every direction, complex. join follows every execute. With
 * SONAR_MVDR_JOINED the bins are any of the array's, without edges, the sensors and params the
 * whole array's (turns are not read), and what comes is what parts add up to:
 *
 *   execute   in[0]  f64 [bin][sonar_mvdr_sums_most]             may be empty: nothing has come
 *             in[1]  f64 [bin][SONAR_MVDR_PLAN]                  of these bins
 *             out                                                as above; work->snapshots new ones
 *   evaluate  turns  f64 [bin][point][1 + 2 slots]
 *             power  f32 [point]                                 as above
 */

/* Those before INFO are the surfaces from SONAR_MVDR_AZIMUTH on, in that order. */
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
    SONAR_MVDR_SWEEPS = 0, /* Jacobi sweeps used; 0 where no eigenvectors were wanted */
    SONAR_MVDR_RESIDUAL,   /* largest relative off-diagonal that the last sweep met; else 0 */
    SONAR_MVDR_DELTA,      /* loading added to every eigenvalue, unit^2/Hz; with dominant modes the
                              noise in place of all others */
    SONAR_MVDR_FLAGS,      /* SONAR_MVDR_FLAG_* as a float */
    SONAR_MVDR_SNAPSHOTS,  /* L_eff the bin's spectrum rests on: fewer while filling up or where
                              snapshots had non-finite values, which do not count */
    SONAR_MVDR_LEVEL,      /* share of a source's power that P is expected to show, before any
                              correction; 1: all */
    SONAR_MVDR_OFFSET,     /* bins above its centre at which the bin is steered */
    SONAR_MVDR_SOURCES,    /* number of sources by spec.source_count; 0: not counted */
    SONAR_MVDR_MODES,      /* dominant modes kept; 0 without rejection of the others */
    SONAR_MVDR_LIMITED, /* directions, of the far field, in which the white noise gain is limited */
    SONAR_MVDR_SUBSPACE, /* dimension of MUSIC's signal subspace; 0 where MUSIC is not wanted */
    SONAR_MVDR_ROUTE,    /* how the bin was solved, as a number: mvdr_jacobi/route.h; 0: no data */
    SONAR_MVDR_INFO_FIELDS
};
enum {
    SONAR_MVDR_FLAG_NOT_CONVERGED = 1,
    SONAR_MVDR_FLAG_LEVEL_BIASED = 2,   /* a source reads over 6 dB low, or, with correct_level, has
                                           had more than 20 dB added */
    SONAR_MVDR_FLAG_TRACE_FALLBACK = 4, /* noise rule with too few snapshots: trace used */
    SONAR_MVDR_FLAG_LOADING_FLOOR = 8   /* the rule's delta was under the least one */
};

/* What a stage is of an array that several processes share. */
typedef enum sonar_mvdr_parts {
    SONAR_MVDR_WHOLE = 0, /* one process has all of it */
    SONAR_MVDR_PART,      /* makes sums of its own sensors */
    SONAR_MVDR_JOINED     /* solves what the parts' sums add up to */
} sonar_mvdr_parts;

/* Products of neighbouring bins, for the tones, and the number of sensors that they are of. */
enum { SONAR_MVDR_PRODUCTS = 4 };
enum {
    SONAR_MVDR_PLAN_OFFSET = 0, /* bins above its centre at which the bin is steered */
    SONAR_MVDR_PLAN_WHOLE,      /* not 0: all sums come, for all of them have changed */
    SONAR_MVDR_PLAN
};

typedef enum sonar_mvdr_solver {
    SONAR_MVDR_AUTO = 0, /* the fastest */
    SONAR_MVDR_JACOBI    /* eigendecomposition by parallel Jacobi rotations (thesis 6.5) */
} sonar_mvdr_solver;

typedef enum sonar_loading {
    SONAR_LOADING_NOISE = 0, /* eps times the noise power estimated from the eigenvalues */
    SONAR_LOADING_TRACE,     /* eps * tr(R)/B */
    SONAR_LOADING_ABSOLUTE   /* eps itself, in unit^2/Hz */
} sonar_loading;

/* How many sources a bin's eigenvalues tell of: docs/mvdr.md. */
typedef enum sonar_source_count {
    SONAR_COUNT_OFF = 0,
    SONAR_COUNT_MDL,          /* minimum description length (Wax and Kailath 1985) */
    SONAR_COUNT_RANDOM_MATRIX /* Nadakuditi and Edelman 2008 */
} sonar_source_count;

/* Number of dominant modes, and of MUSIC's sources; always fewer than eigenvalues and snapshots,
 * or:
 */
enum {
    SONAR_MODES_OFF = 0,
    SONAR_MODES_COUNTED = -1 /* as many as spec.source_count finds sources */
};

/* Noise power in place of the eigenvalues that dominant mode rejection drops. */
typedef enum sonar_mvdr_noise {
    SONAR_NOISE_TRACE = 0, /* their mean, made up for the snapshots that the modes took */
    SONAR_NOISE_MEDIAN     /* their median over that of the Marchenko-Pastur law */
} sonar_mvdr_noise;

/* How a taper spreads a tone over neighbouring bins: the angle of (W(o), W(o - 1)), W being the
 * taper's transform about its middle, for offsets o = (i + 1/2)/STEPS - REACH, which leaves out
 * the zeros at whole bins, continued over half a turn; from `first` on `count` of them ascend and
 * name one offset each. */
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

/* Members that are live may have other values in sonar_params.mvdr: they hold for all snapshots
 * that have been taken in. */
typedef struct sonar_mvdr_spec {
    size_t sensors, directions, ranges; /* ranges may be 0: no near field */
    double fs_hz;
    size_t length;          /* N, of the MVDR's own DFT */
    size_t first_bin, bins; /* bins of the input; live: those in use */
    size_t max_new;         /* most snapshots one execute brings */
    size_t snapshots;       /* L of the block, >= 1; 0 with forgetting */
    double alpha;           /* forgetting factor in (0, 1); 0 = block */
    sonar_loading loading;  /* live */
    double eps;             /* live; > 0; docs/mvdr.md has the least delta, and a hundredth of eps
                               counts where the noise rule falls back to the trace */
    size_t known_sources;   /* live; K for the noise rule, 0 = unknown */
    sonar_mvdr_solver solver;
    double tolerance;  /* live; in (0, 1): Jacobi ends with a sweep that meets no |g_ij| above it
                          times sqrt(g_ii g_jj), G being what is diagonalised */
    size_t max_sweeps; /* live; after which a bin is flagged as not converged */
    bool forward_backward; /* averages with the array mirrored at the origin; sensors whose mirror
                              image is masked or missing are not used */
    bool correct_level;    /* live; take out what few snapshots and loading do to levels */
    sonar_source_count source_count; /* live */
    /* SONAR_MODES_*, or the number of dominant modes. Live, but OFF stays OFF and others stay
     * others unless the stage was made with the JACOBI solver or with a limit on the white noise
     * gain. */
    int dmr;
    sonar_mvdr_noise dmr_noise; /* live */
    /* Least white noise gain of the weights, |w^H a|^2 / (w^H w), in dB re that of equal weights,
     * B: less than 0; 0: no limit. Not with dominant modes or corrected levels. Live, but a stage
     * that was made without a limit has no room for one. */
    double white_noise_gain_db;
    /* SONAR_MODES_*, or the number of sources; found by Jacobi, whatever the solver. Live, but a
     * stage that was made with OFF stays so. While it is OFF, MUSIC is not wanted. */
    int music;
    /* Borrowed during create. NULL: every bin is steered at its centre. */
    const sonar_mvdr_tones *tones;
    /* Bins at the ends of the input that are there only so that their neighbours' tones are found:
     * no sum over bins has them, nor does evaluate. Fewer than all. */
    size_t edge_below, edge_above;
    /* Other than WHOLE only where sonar_mvdr_adds holds of the whole array. */
    sonar_mvdr_parts parts;
} sonar_mvdr_spec;

/* What follows from the sizes of a specification: pure functions, any thread. */

/* Snapshots that are kept: L, or all that forgetting leaves above 1e-14 of their power. */
static inline double sonar_mvdr_slots(const sonar_mvdr_spec *spec) {
    return spec->alpha > 0 ? ceil(log(1e-14) / log(spec->alpha)) : (double)spec->snapshots;
}

/* Whether the Gram matrix of the snapshots is solved: from up to half as many as sensors. */
static inline bool sonar_mvdr_by_snapshots(const sonar_mvdr_spec *spec) {
    const size_t half = spec->sensors / (spec->forward_backward ? 4 : 2);
    return spec->parts || sonar_mvdr_slots(spec) <= (double)half;
}

/* Whether sums over parts of the sensors can be added: in snapshot space, without mirror images,
 * whose sensors may be another part's, and without a near field, whose sums are too many. A limit
 * on the white noise gain is left to stages that have the snapshots. */
static inline bool sonar_mvdr_adds(const sonar_mvdr_spec *spec) {
    return sonar_mvdr_by_snapshots(spec) && !spec->forward_backward && !spec->ranges &&
           !(spec->white_noise_gain_db < 0);
}

/* Doubles of a snapshot's sums in a bin, and of all that a bin has. */
static inline size_t sonar_mvdr_sums_row(const sonar_mvdr_spec *spec) {
    return 2 * ((size_t)sonar_mvdr_slots(spec) + spec->directions);
}
static inline size_t sonar_mvdr_sums_most(const sonar_mvdr_spec *spec) {
    return (size_t)sonar_mvdr_slots(spec) * sonar_mvdr_sums_row(spec) + spec->directions;
}

/* Most eigenvalues of R that are not zero: those of the sensors or, if these are fewer, of the
 * block's snapshots, which forward-backward averaging counts twice. The rest of a row is 0. */
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
