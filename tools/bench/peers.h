/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The peers of the GPU's stages, behind a table of functions: a shared library that only
 * sonar-bench loads, so that sonard never depends on cuBLAS. Valid as C17 and C++17. */
#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_PEERS_INTERFACE 2u
#define BENCH_PEERS_SYMBOL    "sonar_bench_peers"

typedef enum bench_peer_kind {
    BENCH_PEER_CGEMM =
        0, /* beams from stored weights: matrices x [rows x inner] [inner x columns] */
    BENCH_PEER_CGEMM_TF32, /* the same on tensor cores with 10-bit mantissas */
    BENCH_PEER_CUFFT,      /* only `matrices` real transforms of length `inner` */
    BENCH_PEER_H2D,        /* `inner` bytes from pinned host memory */
    BENCH_PEER_D2H,
    BENCH_PEER_D2D,      /* `inner` bytes read and `inner` bytes written */
    BENCH_PEER_FMA,      /* `inner` fused multiply-adds in each of `matrices` threads */
    BENCH_PEER_SYEV_C64, /* eigenpairs of `matrices` Hermitian matrices of order `inner`: cuSOLVER
                          */
    BENCH_PEER_SYEV_C128,
    BENCH_PEER_SYEVJ_C64, /* by Jacobi rotations */
    BENCH_PEER_POTRF_C128 /* Cholesky factor, and L^-1 of `columns` right-hand sides each */
} bench_peer_kind;

typedef struct bench_peer_spec {
    bench_peer_kind kind;
    size_t matrices, rows, inner, columns;
} bench_peer_spec;

typedef struct bench_gpu {
    char name[256];
    int driver, runtime; /* in CUDA's form: 13000 is 13.0 */
    int capability_major, capability_minor, multiprocessors;
    double memory_bytes, l2_bytes;
    double sm_clock_mhz, memory_clock_mhz; /* maximum; 0 if CUDA does not report it */
} bench_gpu;

typedef struct bench_peer bench_peer;

/* All functions but close return false with a sentence in `why`. Inputs are random and generated on
 * the device. run enqueues one execution, finish waits for all of them. */
typedef struct bench_peers {
    unsigned interface;
    bool (*describe)(bench_gpu *gpu, char *why, size_t bytes);
    bool (*open)(const bench_peer_spec *spec, bench_peer **peer, char *why, size_t bytes);
    bool (*run)(bench_peer *peer, char *why, size_t bytes);
    bool (*finish)(bench_peer *peer, char *why, size_t bytes);
    void (*close)(bench_peer *peer); /* NULL is allowed */
} bench_peers;

typedef const bench_peers *(*bench_peers_entry)(void);

#ifdef __cplusplus
}
#endif
#endif
