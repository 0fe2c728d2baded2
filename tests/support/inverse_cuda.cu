/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "inverse_cuda.h"

#include "mvdr_jacobi/cuda/stage.cuh"

/* A block of threads a bin. */
static __global__ void enlarge(mvdr::view v, double factor) {
    const size_t bin = blockIdx.x, square = (size_t)v.most * v.most;
    for (size_t i = threadIdx.x; i < square; i += blockDim.x) {
        mvdr::complex64 *m = v.m + bin * square + i;
        *m = {factor * m->re, factor * m->im};
    }
    if (threadIdx.x)
        return;
    v.slide[bin].trace *= factor;
    v.slide[bin].energy *= factor * factor;
}

/* The view is the first member of the stage. */
bool inverse_enlarge(void *stage, double factor) {
    const mvdr::view *v = (const mvdr::view *)stage;
    enlarge<<<(unsigned)v->spec.bins, 256>>>(*v, factor);
    return cudaDeviceSynchronize() == cudaSuccess;
}
