/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The memory of the GPU's MVDR stage: a table with a row for each array. cuda/create.cuh allocates
 * and frees the arrays; sonar_mvdr_device_bytes adds their sizes, also on machines without a GPU.
 */
#ifndef SONAR_MVDR_JACOBI_CUDA_DEVICE_H
#define SONAR_MVDR_JACOBI_CUDA_DEVICE_H

#include "mvdr_jacobi/rules/inverse.h"
#include "mvdr_jacobi/route.h"
#include "mvdr_jacobi/rules/tone.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MVDR_DEVICE_POINTS = 64,     /* points of an evaluation at a time */
    MVDR_DEVICE_FEW_POINTS = 32, /* up to this many are projected by cuda/sums/points.cuh */
    MVDR_DEVICE_SQUARE = 64,     /* rows of a square of a matrix or of its spectrum */
    MVDR_DEVICE_VECTORS = 5,     /* vectors of a solving block, as long as the matrix */
    MVDR_DEVICE_SWEEPS = 40,     /* most sweeps of Jacobi's method */
    MVDR_DEVICE_PROBES = 5,      /* probes of a matrix's change */
    MVDR_DEVICE_LAUNCHES = 3,    /* launches of Jacobi's method by teams of thread blocks */
    MVDR_DEVICE_PANEL = 32,      /* columns of a panel; orders are padded to whole panels */
    MVDR_DEVICE_MOMENTS = 64,    /* rows of M in one part of its quadratic forms */
    MVDR_DEVICE_GROUP = 64       /* rows of M that a thread block makes in a panel */
};

/* The sizes that the table multiplies. */
typedef struct mvdr_device {
    /* held: sensors whose snapshots are stored here; a joined stage stores none */
    size_t sensors, held;
    size_t looks, ranges, modes, arrivals;
    size_t slots, columns;
    size_t most;          /* the largest order possible, padded to panels */
    size_t squares;       /* squares along the diagonal of such a matrix */
    size_t pitch, points; /* points of an evaluation or a range; the most points at a time */
    size_t sums;          /* elements of a bin's sums */
    /* elements of a bin's sums over parts of the sensors; slots of products for tones */
    size_t partial, pairs;
    size_t inverse_parts, moment_parts;
    /* Numbers of bins. 0: the arrays with this factor are not needed. */
    size_t bins, grams, covariances; /* all; all if in snapshot space; all if in sensor space */
    /* with eigenvectors: for the spectrum, for MUSIC alone, for either */
    size_t vectors, own, decomposed;
    size_t teams; /* mvdr_jacobi_teams of `decomposed` */
    size_t music, gain, tones;
    size_t grid, updated; /* grid: some window takes a route with "-grid"; updated: some window
                             updates inverses */
    size_t forms;         /* the spectrum is computed in squares */
} mvdr_device;

/* The number of matrices in which Jacobi's method turns all pairs of columns at once, at a time; 0:
 * it turns pair by pair. All pairs at once pays for large matrices, whose columns do not fit into a
 * multiprocessor, and for few matrices, whose pairs leave most multiprocessors idle (gpu_jacobi
 * --time). 20480 rows fill any GPU. */
static inline size_t mvdr_jacobi_teams(size_t order, size_t count) {
    if (order < 128 || (order < 256 && count > 16))
        return 0;
    const size_t most = order < 20480 ? 20480 / order : 1;
    return count < most ? count : most;
}

/* `named`: mvdr_routes_named. */
mvdr_device mvdr_device_of(const sonar_mvdr_spec *spec, const char *named);

/* ARRAY(member of mvdr_stage, bytes of an element, a, b): an array of a * b elements. `s`: an
 * mvdr_device. */
#define MVDR_DEVICE_ARRAYS(ARRAY)                                                                  \
    ARRAY(device_rows, 8, 2, s->sensors)                                                           \
    ARRAY(view.mirror, 4, 1, s->sensors)                                                           \
    ARRAY(view.turns, 8, s->looks, s->held)                                                        \
    ARRAY(near_turns, 8, s->ranges * s->looks, s->held)                                            \
    ARRAY(view.snapshot, 8, s->bins * s->held, s->slots)                                           \
    ARRAY(view.fresh, 1, s->bins, s->arrivals)                                                     \
    ARRAY(view.valid, 1, s->bins, s->slots)                                                        \
    ARRAY(view.root, 8, s->bins, s->slots)                                                         \
    ARRAY(view.sums, 16, s->bins, s->sums)                                                         \
    ARRAY(view.rest, 16, s->slots ? s->covariances : 0, s->sums)                                   \
    ARRAY(view.projection, 16, s->grams * s->looks, s->columns)                                    \
    ARRAY(view.norm, 8, s->bins, s->looks)                                                         \
    ARRAY(view.made, 8, s->bins, 1)                                                                \
    ARRAY(view.stale, 4, s->bins, 1)                                                               \
    ARRAY(view.partial, 16, s->held ? s->bins : 0, s->partial)                                     \
    ARRAY(look.projection, 16, s->grams * s->pitch, s->columns)                                    \
    ARRAY(grid.steering, 8, s->covariances *mvdr_pad(s->looks, 8), s->most)                        \
    ARRAY(look.steering, 8, s->covariances *mvdr_pad(s->pitch, 8), s->most)                        \
    ARRAY(look.norm, 8, s->bins, s->pitch)                                                         \
    ARRAY(look.power, 4, s->bins, s->pitch)                                                        \
    ARRAY(view.tones, sizeof(sonar_mvdr_tones), s->tones > 0, 1)                                   \
    ARRAY(view.pair, sizeof(mvdr_pair), s->tones, s->pairs)                                        \
    /* what a matrix is solved in, and what is published */                                        \
    ARRAY(view.factor, 16, s->bins * s->most, s->most)                                             \
    ARRAY(view.vector, 16, s->bins * s->most, MVDR_DEVICE_VECTORS)                                 \
    ARRAY(view.d, 8, s->bins, s->most)                                                             \
    ARRAY(view.inverse, 8, s->vectors, s->most)                                                    \
    ARRAY(view.signal, 16, s->own * s->most, s->most)                                              \
    ARRAY(view.member, 8, s->music, s->most)                                                       \
    ARRAY(view.share, 4, s->music, s->looks)                                                       \
    ARRAY(view.own, 8, s->gain, s->most)                                                           \
    ARRAY(view.energy, 8, s->gain * s->most, s->points)                                            \
    ARRAY(view.power, 4, s->bins, s->looks)                                                        \
    ARRAY(view.info, 4, s->bins, SONAR_MVDR_INFO_FIELDS)                                           \
    ARRAY(view.eigenvalue, 4, s->bins, s->modes)                                                   \
    ARRAY(view.unsolved, 4, s->bins, 1)                                                            \
    ARRAY(view.bin, 200, s->bins, 1)                                                               \
    ARRAY(view.ring, 8, 1, 1)                                                                      \
    /* routes with "-grid" */                                                                      \
    ARRAY(view.listed, 672, s->grid > 0, 1)                                                        \
    ARRAY(view.listed_bin, 4, s->grid, 1)                                                          \
    ARRAY(view.done, 4, s->grid, s->squares)                                                       \
    ARRAY(view.searches, 144, s->grid, 1)                                                          \
    ARRAY(view.counted_bin, 4, s->grid, 2)                                                         \
    ARRAY(view.corner, 16, s->grid * s->squares, MVDR_DEVICE_SQUARE * MVDR_DEVICE_SQUARE)          \
    ARRAY(view.pivot, 16, s->grid, s->squares)                                                     \
    ARRAY(view.form, 8, s->forms * s->squares, s->points)                                          \
    /* inverses that are updated */                                                                \
    ARRAY(view.slide, 200, s->updated, 1)                                                          \
    ARRAY(view.m, 16, s->updated * s->most, s->most)                                               \
    ARRAY(view.moved, 16, s->updated * s->most, 2 * MVDR_MOST_MOVED)                               \
    ARRAY(view.inverse_part, 8, s->updated * 2, s->inverse_parts)                                  \
    ARRAY(view.moment, 8, s->updated * 2 * s->moment_parts, s->points)                             \
    ARRAY(view.probe, 8, s->updated, s->looks)                                                     \
    /* eigenvectors, the spectrum's or MUSIC's */                                                  \
    ARRAY(view.work, 16, s->decomposed * s->most, s->most)                                         \
    ARRAY(view.turned, 16, s->decomposed * s->most, s->most)                                       \
    ARRAY(view.descending, 8, s->decomposed, s->most)                                              \
    ARRAY(view.record, 24, s->decomposed, 1)                                                       \
    ARRAY(view.decomposed, 4, s->decomposed, 1)                                                    \
    ARRAY(view.kept, 4, s->decomposed, 1)                                                          \
    ARRAY(jacobi.squares, 16, 4 * s->teams * s->most, s->most)                                     \
    ARRAY(jacobi.sums, 8, 2 * s->teams * (s->most / 32 + s->most / 16), s->most)                   \
    ARRAY(jacobi.turn, 8, s->decomposed * s->most, s->most)                                        \
    ARRAY(jacobi.change, 16, s->decomposed * 2 * MVDR_DEVICE_PROBES, s->most)                      \
    ARRAY(jacobi.own, 8, s->decomposed, s->most)                                                   \
    ARRAY(jacobi.worst, 8, s->decomposed, MVDR_DEVICE_SWEEPS)                                      \
    ARRAY(jacobi.arrived, 4, s->decomposed ? s->decomposed + 1 : 0, MVDR_DEVICE_LAUNCHES)

#ifdef __cplusplus
}
#endif

#endif
