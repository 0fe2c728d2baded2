/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the kernels of the GPU's MVDR see: the stage's device memory and its constants, by value. */
#ifndef SONAR_MVDR_JACOBI_STAGE_CUDA_CUH
#define SONAR_MVDR_JACOBI_STAGE_CUDA_CUH

#include "mvdr_jacobi/eigen_cuda.cuh"
#include "mvdr_jacobi/mvdr_jacobi.h"
#include "mvdr_jacobi/tone.h"

namespace mvdr {

/* What a bin keeps from one execute to the next. */
struct bin_state {
    uint32_t carried;   /* forgetting: eigenpairs the next factor begins with */
    uint32_t pairs;     /* eigenpairs of the last execute, which the spectrum uses */
    uint64_t seen;      /* snapshots accepted since the reset */
    mvdr_pair products; /* sum of the products with the next bin, up to a factor */
    double share;       /* block: of so many snapshots; forgetting: what the weights sum to */
    double offset;      /* steered that many bins above its centre */
    uint32_t tonal;     /* because a tone is there */
    double level;       /* delta, or delta / (n share) if levels are corrected; 0: no data, P = 0 */
};

/* State of the block's ring of snapshots. It is on the device, so that a recorded execute advances
 * it. */
struct ring_state {
    uint32_t next, filled; /* slot of the next snapshot, slots in use */
};

/* A column of the factor S: gain times a carried eigenvector, a snapshot, or its mirror. */
enum column_kind : uint32_t { CARRIED, SNAPSHOT, MIRRORED };
struct source {
    const complex<float> *from;
    double gain;
    column_kind kind;
};

/* Scratch of one block that decomposes; sizes are those of the largest problem, in double. */
struct scratch {
    complex<double> *t; /* S or S^H while it is being reduced */
    complex<double> *u; /* the triangle whose columns Jacobi turns */
    complex<double> *w; /* the other triangle, then the eigenvectors */
    double *norm2, *tau, *spare_tau, *d;
    uint32_t *order, *pick;
    source *column;
};

struct view {
    sonar_mvdr_spec spec;
    uint32_t n;      /* rows: used sensors */
    uint32_t kept;   /* most eigenpairs */
    size_t middle;   /* sensor that signed turns count from */
    uint32_t length; /* slots for snapshots: L of the block, or max_new with forgetting */
    const size_t *sensor, *partner, *previous;
    const uint64_t *turns;    /* [direction][sensor] */
    complex<float> *snapshot; /* block: [bin][slot][sensor] */
    uint8_t *valid;           /* [bin][slot]: 0 for a snapshot with non-finite values */
    complex<float> *q;        /* [bin][kept][sensor] eigenvectors, the first n of each */
    double *d;                /* [bin][kept] eigenvalues; forgetting: of the factor carried on */
    float *weight;            /* [bin][kept] delta / (d + delta) */
    float *gain;              /* [bin][kept] d / (d + delta), with correct_level */
    float *power;             /* [bin][direction] */
    float *info;              /* [bin][SONAR_MVDR_INFO_FIELDS] */
    bin_state *bin;
    ring_state *ring;
    sonar_mvdr_tones *tones; /* NULL: no bin is steered at a tone */
    mvdr_pair *pair;         /* [slot][bin] a snapshot's products with the next bin */
    scratch all;             /* slot 0; the others follow at these strides, in elements */
    size_t t_stride, u_stride, w_stride, vector_stride, column_stride;
    size_t shared_bytes;
};

/* New snapshots; strides in elements. */
struct arrivals {
    const complex<float> *x;
    ptrdiff_t snapshot_stride, bin_stride;
    uint32_t count;

    __device__ const complex<float> *at(uint32_t index, uint32_t bin) const {
        return x + (ptrdiff_t)index * snapshot_stride + (ptrdiff_t)bin * bin_stride;
    }
};

__device__ inline scratch scratch_of(const view &v, uint32_t slot) {
    scratch s = v.all;
    s.t += slot * v.t_stride, s.u += slot * v.u_stride, s.w += slot * v.w_stride;
    s.norm2 += slot * v.vector_stride, s.tau += slot * v.vector_stride;
    s.spare_tau += slot * v.vector_stride, s.d += slot * v.vector_stride;
    s.order += slot * v.vector_stride;
    s.pick += slot * v.column_stride, s.column += slot * v.column_stride;
    return s;
}

} // namespace mvdr

#endif
