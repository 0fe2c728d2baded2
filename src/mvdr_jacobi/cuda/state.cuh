/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The host state of the GPU's MVDR stage. */
#ifndef SONAR_MVDR_JACOBI_CUDA_STATE_CUH
#define SONAR_MVDR_JACOBI_CUDA_STATE_CUH

#include "mvdr_jacobi/cuda/stage.cuh"

namespace mvdr::host {

constexpr char where[] = "mvdr_jacobi";
constexpr uint32_t AT_ONCE = MVDR_DEVICE_POINTS;
constexpr unsigned SOLVE_THREADS = mvdr::SOLVE_WARPS * mvdr::WARP;

/* Shared memory of a solving block. */
struct fit {
    size_t shared_bytes; /* bytes of a block; 0: none are useful */
    bool matrix_fits;    /* these bytes include its matrix */
};

struct mvdr_stage {
    mvdr::view view; /* device memory and constants; kernels get a copy */
    mvdr_shape shape;
    const char *named;       /* mvdr_routes_named */
    mvdr::points grid, look; /* the stage's directions, and memory for other points: AT_ONCE of
                                them, or a range of the near field */
    uint64_t *near_turns;    /* [range][direction][sensor] */
    mvdr::parts few, many, points; /* parts of the sensors */
    jacobi_batch jacobi;           /* all bins; without memory if no eigenvectors are needed */
    size_t *device_rows;           /* sensor, partner: `sensors` entries each */
    uint32_t *mirror;              /* [sensor] on the host */
    size_t *rows, *row_of;         /* host copy of device_rows; scratch */
    fit solver, music;             /* shared memory of mvdr::solve and of mvdr::find_subspace */
    uint8_t *used;                 /* [sensor] of the last parameters */
    uint64_t version, far_made, near_made; /* versions of the parameters and of their tables */
    bool versioned, forgotten;
    bool changed;      /* the parameters have changed: tones are searched again */
    bool mask_changed; /* the sensors in use have changed: the products for tones are computed again
                        */
    bool stale;        /* the sums belong to other sensors or turns */
    size_t held;       /* sensors whose snapshots are stored here; a joined stage stores none */
    uint32_t arrived;  /* a part: number of new snapshots of the last execute, until join */
    /* of the present execute: */
    bool slides;    /* the window may update inverses */
    bool little;    /* the new snapshots are few enough for an update */
    uint32_t moved; /* places for columns that enter or leave: 0, 2, 4 or 8 */
};

inline unsigned blocks_for(size_t items, size_t each) {
    return (unsigned)((items + each - 1) / each);
}

/* Checks that buffers with data are in device memory. */
inline sonar_code check_spaces(const sonar_buffer *buffer, size_t count, sonar_error *err) {
    for (size_t i = 0; i < count; i++)
        if (buffer[i].data && buffer[i].shape[0] && !sonar_cuda_in_place(buffer[i].space))
            return sonar_fail(err, SONAR_EINVAL, where, "a buffer is not in device memory");
    return SONAR_OK;
}

} // namespace mvdr::host

#endif
