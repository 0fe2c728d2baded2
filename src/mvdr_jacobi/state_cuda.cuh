/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the GPU's MVDR stage keeps on the host from one call to the next. */
#ifndef SONAR_MVDR_JACOBI_STATE_CUDA_CUH
#define SONAR_MVDR_JACOBI_STATE_CUDA_CUH

#include "mvdr_jacobi/cusolver_cuda.cuh"
#include "mvdr_jacobi/sums_cuda.cuh"

namespace mvdr::host {

constexpr char where[] = "mvdr_jacobi";
constexpr uint32_t AT_ONCE = MVDR_DEVICE_POINTS;
constexpr unsigned SOLVE_THREADS = 512;

/* Shared memory of a solving block. */
struct fit {
    size_t shared_bytes; /* most that it has use for, */
    bool matrix_fits;    /* with its matrix */
};

struct mvdr_stage {
    mvdr::view view; /* with the stage's device memory; kernels get a copy */
    mvdr_shape shape;
    mvdr_choices choices;
    mvdr::points grid, look; /* the stage's directions, and room for others: AT_ONCE of them, or
                                a range of the near field */
    uint64_t *near_turns;    /* [range][direction][sensor] */
    mvdr::parts few, many;   /* of the sensors */
    mvdr::cusolver library;  /* closed: eigenvectors are found by Jacobi's method */
    jacobi_batch jacobi;     /* all bins; without memory where there are no eigenvectors */
    size_t *device_rows;     /* sensor, partner: `sensors` entries each */
    uint32_t *mirror;        /* [sensor] on the host */
    size_t *rows, *row_of;   /* the same as on the device; scratch */
    fit solver, music;       /* of mvdr::solve, of mvdr::find_subspace */
    uint8_t *used;           /* [sensor] of the last parameters */
    uint64_t version, far_made, near_made; /* of these, and of their tables */
    bool versioned, forgotten;
    bool changed;      /* the parameters have changed: tones are searched again */
    bool mask_changed; /* and the sensors in use are others: their sums begin again */
    bool stale;        /* the sums belong to other sensors or turns */
    size_t held;       /* sensors that have snapshots here: joined, none have */
    uint32_t arrived;  /* a part: snapshots of the last execute, until join */
    /* of this execute: */
    bool slides;    /* it may take the inverse of the window before, */
    bool little;    /* and so few snapshots come that that can follow: */
    uint32_t moved; /* places for columns that come and go, 0, 2, 4 or 8 */
};

inline unsigned blocks_for(size_t items, size_t each) {
    return (unsigned)((items + each - 1) / each);
}

/* Buffers without data are not wanted, wherever they are. */
inline sonar_code check_spaces(const sonar_buffer *buffer, size_t count, sonar_error *err) {
    for (size_t i = 0; i < count; i++)
        if (buffer[i].data && buffer[i].shape[0] && !sonar_cuda_in_place(buffer[i].space))
            return sonar_fail(err, SONAR_EINVAL, where, "a buffer is not in device memory");
    return SONAR_OK;
}

} // namespace mvdr::host

#endif
