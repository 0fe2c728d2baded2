/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The data of the kernels of the GPU's MVDR: the stage's device memory and its constants, passed by
 * value. */
#ifndef SONAR_MVDR_JACOBI_CUDA_STAGE_CUH
#define SONAR_MVDR_JACOBI_CUDA_STAGE_CUH

#include "core/cuda_common.cuh"
#include "mvdr_jacobi/cuda/block.cuh"
#include "mvdr_jacobi/common.h"
#include "mvdr_jacobi/cuda/device.h"
#include "mvdr_jacobi/rules/inverse.h"
#include "mvdr_jacobi/mvdr_jacobi.h"
#include "mvdr_jacobi/route.h"
#include "mvdr_jacobi/cuda/jacobi/batch.cuh"
#include "mvdr_jacobi/rules/tone.h"

namespace mvdr {

constexpr uint32_t VECTORS = MVDR_DEVICE_VECTORS;
constexpr uint32_t SOLVE_WARPS = 16;     /* of a block that solves a bin */
constexpr uint32_t UNUSED = 0xffffffffu; /* in view.mirror */
constexpr uint32_t MOST_ROUNDS = 80;     /* most counts of a bin; two searches take fewer */
constexpr size_t ORIGIN = SIZE_MAX; /* view.middle of a part, which counts turns from the origin */

/* What a bin keeps from one execute to the next; a reset clears it. */
struct bin_state {
    uint64_t seen;      /* forgetting: snapshots accepted since the reset */
    mvdr_pair products; /* sum of the products with the next bin, up to a factor */
    double share;       /* block: number of snapshots; forgetting: sum of the weights */
    double offset;      /* bins above its centre at which it is steered */
    uint32_t tonal;     /* 1: a tone dominates the bin */
    /* the last solution, in unit^2/Hz */
    double delta;   /* loading of the factor; 0: no data, P = 0 */
    double most;    /* largest eigenvalue, or the trace if that is not known */
    double level;   /* share of a source's power that P shows */
    double unit;    /* the factored matrix is unit (R + delta I), or unit (G + delta I) */
    double base;    /* dominant modes, with corrected levels: part of P that does not depend on a */
    uint32_t left;  /* 1/P is |a|^2 minus the quadratic form: snapshot space, or dominant modes */
    uint32_t modes; /* dominant ones */
    uint32_t subspace; /* dimension of MUSIC's signal subspace */
    bool all_known;    /* all eigenvalues are known */
    double middle[2];  /* the two middle eigenvalues, if only they were searched; 0: not yet */
    bool slid;         /* solved by the streaming inverse M */
    double kept;       /* loading of M */
    double apart;      /* the wanted loading of M minus `kept` */
    /* routes with "-grid": from list_bins until the bin is solved */
    bool taken;              /* the bin is listed */
    double divisor;          /* of the sums */
    double trace, snapshots; /* trace of R; effective snapshots, mirror images included */
    double asked;            /* loading by the rule; 0: not known */
    bool fallback, factored; /* fallback: the trace rule is used instead; factored: the inverse
                                factor exists */
};

/* What a bin keeps of the streaming inverse M (inverse.h) between windows. A reset clears it. */
struct sliding {
    bool kept;            /* M belongs to the last window */
    bool making;          /* M is to be made from this window's factor */
    uint32_t age, rest;   /* windows since M was made; windows for which no M is made */
    uint64_t windows;     /* windows solved; the signs of the probe follow from it */
    double weight, delta; /* M^-1 is the sum of weight x x^H over all columns x, plus delta I */
    double next_weight;   /* weight of a column in this window's R */
    double count;         /* effective snapshots */
    double trace, energy; /* sums of M_ii and of |M_ij|^2 */
    double sign[MVDR_MOST_MOVED], over[MVDR_MOST_MOVED]; /* 1 enters, -1 leaves, 0 not valid; 1/s */
};

/* The agenda of the routes with "-grid": the bins whose eigenvalues are counted, in rounds, then
 * the bins whose inverse factors are computed, and the progress of both. */
struct agenda {
    uint32_t bins;
    unsigned long long next, next_counted; /* places of the next squares to be taken */
    struct {
        uint32_t bins, done; /* bins to count; bins counted */
    } round[MOST_ROUNDS + 1];
};

/* The pivots of a square on the diagonal of a matrix that is not definite. */
struct alignas(16) pivots {
    uint32_t minus[2]; /* bit j: pivot j is negative */
    double logarithm;  /* of the magnitude of their product */
};

struct search;

/* State of the ring of snapshots. It is on the device, so that a recorded execute can advance
 * it. */
struct ring_state {
    uint32_t next, filled; /* slot of the next snapshot, slots in use */
};

struct view {
    sonar_mvdr_spec spec;
    mvdr_band band;    /* bins in use */
    uint32_t n;        /* rows: used sensors */
    uint32_t length;   /* slots of the ring; 0: none, forgetting is applied to the covariance */
    uint32_t images;   /* columns of a snapshot: 2 with forward-backward averaging */
    uint32_t columns;  /* slots, then with forward-backward their mirror images */
    uint32_t order;    /* rows of the matrix that is solved: columns, or n in sensor space */
    uint32_t most;     /* the largest order possible, padded to panels */
    bool by_snapshots; /* snapshot space; else sensor space */
    bool vectors;      /* eigenvectors instead of a Cholesky factor */
    /* the present window's route: */
    bool eigenvalues;       /* all eigenvalues are computed */
    bool grid, counts;      /* all multiprocessors factor the bins; they also count */
    bool music_decomposes;  /* mvdr_music_decomposes */
    double gain;            /* least white noise gain, as a share of |a|^2; 0: no limit */
    size_t middle;          /* sensor from which whole turns are counted, or ORIGIN */
    const size_t *sensor;   /* [row] */
    const size_t *partner;  /* [row] the mirror's row, with forward-backward */
    const uint32_t *mirror; /* [sensor] the mirror's sensor, or itself, or UNUSED */
    const uint64_t *turns;  /* [direction][sensor] */
    complex32 *snapshot;    /* [bin][slot][sensor] */
    uint8_t *fresh;         /* [bin][max_new] 0: a new snapshot with non-finite values */
    uint8_t *valid;         /* [bin][slot] 0: a snapshot of the ring with non-finite values */
    double *root;           /* [bin][slot] square root of a column's weight in R; 0: not valid */
    /* Snapshot space: [bin][column j][slot i] sums x_i^H x_j over the used sensors. Sensor space:
     * [bin][most][most] sums of x x^H by sensors, the lower triangle column by column. */
    complex64 *sums;
    size_t sums_stride;    /* elements from bin to bin */
    complex64 *rest;       /* sensor space with a ring: the rounding errors of sums; else NULL */
    complex64 *projection; /* [bin][direction][column] x^H a */
    double *norm;          /* [bin][direction] |a|^2 */
    double *made;          /* [bin] offset that projection and norm were made for */
    uint32_t *stale;       /* [bin] 1: the offset differs from `made` */
    complex64 *partial;    /* sums over parts of the sensors */
    complex64 *factor;  /* [bin][most][most] inverse Cholesky factor, in tiles, or eigenvectors */
    complex64 *work;    /* [bin][most][most] with eigenvectors: the matrices */
    complex64 *turned;  /* [bin][most][most] the columns that Jacobi's method makes orthogonal */
    complex64 *vector;  /* [bin][VECTORS][most] scratch of a solving block */
    double *d;          /* [bin][most] eigenvalues, descending */
    double *descending; /* [bin][most] Jacobi's eigenvalues */
    jacobi_record *record; /* [bin] */
    uint32_t *decomposed;  /* [bin] 1: to be decomposed by Jacobi's method in this window */
    uint32_t *kept;        /* [bin] 1: eigenvectors exist from which the method may begin */
    double *inverse;       /* [bin][most] with eigenvectors: 1 / (d + delta) of each column */
    complex64 *signal;  /* MUSIC: [bin][most][most] its eigenvectors, unless they are in factor */
    double *member;     /* MUSIC: [bin][most] factor of each eigenvector's squared product, for the
                           share of a in the signal subspace; 0: outside of it */
    float *share;       /* MUSIC: [bin][direction] share of a outside of the signal subspace */
    double *own;        /* white noise gain: [bin][most] each column's eigenvalue */
    double *energy;     /* white noise gain: [bin][points.pitch][most] |w_i^H y|^2 */
    float *power;       /* [bin][direction] */
    float *info;        /* [bin][SONAR_MVDR_INFO_FIELDS] */
    float *eigenvalue;  /* [bin][modes] */
    uint32_t modes;     /* sonar_mvdr_modes */
    uint32_t *unsolved; /* [bin] not 0: snapshots or parameters changed since the last solution */
    bin_state *bin;
    ring_state *ring;
    agenda *listed;       /* NULL: no window takes a route with "-grid" */
    uint32_t *listed_bin; /* [bin] the bins of the agenda */
    uint32_t *done;       /* [bin][squares of most] columns done in each row of squares */
    /* while the loading needs the median: */
    search *searches;      /* [bin] */
    uint32_t *counted_bin; /* [2][bin] bins of an even and of an odd round */
    complex64 *corner;     /* [bin][squares of most][SQUARE^2] X of the squares on the diagonal */
    pivots *pivot;         /* [bin][squares of most] */
    uint32_t resident;     /* blocks that run at a time */
    double *form; /* sensor space: [bin][squares of most][points.pitch] parts of a^H X X^H a */
    sonar_mvdr_tones *tones; /* NULL: no bin is steered at a tone */
    uint32_t pairs;          /* slots of pair: L, or max_new with forgetting */
    mvdr_pair *pair;         /* [slot][bin] products of a snapshot with the next bin */
    size_t shared_bytes;     /* shared memory of a solving block */
    sliding *slide;          /* [bin], or NULL: no inverse is kept */
    complex64 *m;            /* [bin][most][most] the inverses, in tiles; zeros beyond the order */
    complex64 *moved;        /* [bin][2][MVDR_MOST_MOVED][most] columns x, and M x */
    double *inverse_part;    /* [bin][inverse_parts][2] sums over parts of M */
    uint32_t inverse_parts;
    double *moment; /* [part][bin][pitch][2] parts of a^H M a and |M a|^2 */
    double *probe;  /* [bin][direction] weight of a in the probe */

    __device__ bool in_band(uint32_t bin) const { return bin >= band.begin && bin < band.end; }
};

/* New snapshots; strides in elements. */
struct arrivals {
    const complex32 *x;
    ptrdiff_t snapshot_stride, bin_stride;
    uint32_t count;

    __device__ const complex32 *at(uint32_t index, uint32_t bin) const {
        return x + (ptrdiff_t)index * snapshot_stride + (ptrdiff_t)bin * bin_stride;
    }
};

/* Directions whose power is wanted: the grid's, or the points of an evaluation. */
struct points {
    const uint64_t *turns; /* [point][sensor] */
    size_t stride;         /* elements from point to point */
    uint32_t count;
    uint32_t pitch;        /* points for which a bin's arrays have memory */
    complex64 *projection; /* [bin][pitch][column]; snapshot space */
    complex32 *steering;   /* [bin][steering_size], sensor space: cuda/spectrum.cuh */
    double *norm;          /* [bin][pitch] */
    float *power;          /* [bin][pitch] */
};

/* ---- parts of the sensors -------------------------------------------------------------------- */

struct parts {
    uint32_t count, size;

    __device__ uint32_t begin(uint32_t part) const { return part * size; }
    __device__ uint32_t end(uint32_t part, uint32_t sensors) const {
        return min(sensors, (part + 1) * size);
    }
};

/* The snapshots whose sums are computed: `count` slots from `first` + `skip` on. first = NEXT: from
 * the ring's next slot. */
constexpr uint32_t NEXT = 0xffffffffu;
struct slots {
    uint32_t first, skip, count;

    __device__ uint32_t at(const view &v, uint32_t i) const {
        uint64_t base = first == NEXT ? v.ring->next : first;
        return (uint32_t)((base + skip + i) % v.length);
    }
};

/* Number of elements of a bin's steering vectors, padded to whole tiles of directions. */
__host__ __device__ inline size_t steering_size(uint32_t pitch, uint32_t most) {
    return (size_t)((pitch + 7) / 8 * 8) * most;
}

__device__ inline const complex32 *snapshot_of(const view &v, uint32_t bin, uint32_t slot) {
    return v.snapshot + ((size_t)bin * v.length + slot) * v.spec.sensors;
}

/* ---- steering -------------------------------------------------------------------------------- */

/* A bin's frequency. Its offset multiplies whole turns, too. These are counted from the middle
 * sensor: |a^H v| does not depend on the common phase. */
struct frequency {
    uint32_t bin;
    int32_t offset; /* offset of the steering above the bin's centre, in 1/MVDR_TONE_ONE bins */
};

__device__ inline frequency frequency_of(const view &v, uint32_t bin) {
    return {(uint32_t)(v.spec.first_bin + bin), (int32_t)llrint(v.bin[bin].offset * MVDR_TONE_ONE)};
}

/* The turns from which whole turns are counted. */
__device__ inline uint64_t middle_of(const view &v, const uint64_t *turns) {
    return v.middle == ORIGIN ? 0 : turns[v.middle];
}

/* The phase (bin + offset) turns, 2^64 to one turn. `middle`: the turns of the middle sensor. */
__device__ inline uint64_t phase_of(frequency f, uint64_t turns, uint64_t middle) {
    uint64_t phase = f.bin * turns;
    if (f.offset) {
        const uint64_t apart = (uint64_t)mvdr_turns_apart(turns, middle);
        phase += ((uint64_t)(int64_t)f.offset * apart) << 8;
    }
    return phase;
}

/* -x if bit 1 of the quarter is set, computed without the float64 units. */
__device__ inline double signed_by(uint32_t quarter, double x) {
    return __longlong_as_double(__double_as_longlong(x) ^
                                (long long)((uint64_t)(quarter & 2) << 62));
}

/* e^{+j 2 pi phase / 2^64} to float64's rounding. Integer arithmetic reduces the phase exactly to
 * within an eighth of a turn of a whole quarter. The polynomials are those of fdlibm (k_sin.c,
 * k_cos.c). */
__device__ inline complex64 phasor(uint64_t phase) {
    const uint32_t quarter = (uint32_t)((phase + (1ull << 61)) >> 62);
    const double radians = 3.4061215800865545e-19; /* 2 pi / 2^64 */
    const double x = (double)(int64_t)(phase - ((uint64_t)quarter << 62)) * radians, z = x * x;
    double s = fma(z, 1.58969099521155010221e-10, -2.50507602534068634195e-08);
    s = fma(z, fma(z, s, 2.75573137070700676789e-06), -1.98412698298579493134e-04);
    s = fma(z, fma(z, s, 8.33333333332248946124e-03), -1.66666666666666324348e-01);
    s = fma(x * z, s, x);
    double c = fma(z, -1.13596475577881948265e-11, 2.08757232129817482790e-09);
    c = fma(z, fma(z, c, -2.75573143513906633035e-07), 2.48015872894767294178e-05);
    c = fma(z, fma(z, c, -1.38888888888741095749e-03), 4.16666666666666019037e-02);
    c = fma(z, fma(z, c, -.5), 1.);
    return {signed_by(quarter + 1, quarter & 1 ? s : c), signed_by(quarter, quarter & 1 ? c : s)};
}

/* An element of a steering vector in sensor space: rounded to float32. */
__device__ inline complex32 steering(frequency f, uint64_t turns, uint64_t middle) {
    const float2 a = sonar_cuda_phasor((uint32_t)(phase_of(f, turns, middle) >> 32));
    return {a.x, a.y};
}

} // namespace mvdr

#endif
