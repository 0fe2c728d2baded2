/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The synthetic array of a case with its data: positions, delays, a ring of samples, snapshots. */
#ifndef BENCH_SCENE_H
#define BENCH_SCENE_H

#include "bench.h"
#include "core/random.h"
#include "status/specs.h"

/* Owns all its memory. The data are the same on every machine. */
typedef struct bench_scene {
    const bench_case *c;
    const bench_site *site;
    bool device;       /* the stages have their own memory */
    size_t windows;    /* number of different windows in the ring */
    sonar_buffer ring; /* f32 [sensor][windows * length], host memory; none with mvdr_alone */
    sonar_buffer
        ring_s16;         /* the same as s16, 1000 counts per unit; only for a minute on a device */
    sonar_c32 *snapshot;  /* [snapshots + 1][bin][sensor] for MVDR */
    double *position_m;   /* [sensor][3] */
    double *az_deg, *u;   /* [direction], [direction][3] */
    double *zero;         /* [sensor] */
    float *one;           /* [sensor] */
    uint8_t *used;        /* [sensor] */
    uint32_t *channel;    /* [sensor] */
    uint64_t *far_turns;  /* [direction][sensor] */
    uint64_t *near_turns; /* [range][direction][sensor] */
    sonar_params params;  /* of all these */
    sonar_specs specs;    /* of stages that process one window at a time */
} bench_scene;

sonar_code bench_scene_create(const bench_case *c, const bench_site *site, bench_scene *scene,
                              sonar_error *err);
/* Only the array and its parameters, without samples and snapshots. */
sonar_code bench_scene_lay(const bench_case *c, const bench_site *site, bench_scene *scene,
                           sonar_error *err);
/* Also for a scene whose create failed. */
void bench_scene_destroy(bench_scene *scene);

/* Number of sets of `bytes` that together exceed every cache, from 2 to `most`. */
size_t bench_scene_sets(size_t bytes, size_t most);
/* Pinned memory if there is a device, else plain host memory. */
sonar_space bench_scene_host_space(const bench_scene *scene);

/* Nearly normal, variance 1: the sum of four uniform values (Irwin-Hall) from one draw. */
static inline float bench_noise(uint64_t *state) {
    const uint64_t z = sonar_random_bits(state);
    const int64_t sum =
        (int64_t)((z & 0xffff) + (z >> 16 & 0xffff) + (z >> 32 & 0xffff) + (z >> 48));
    return (float)(sum - 131070) * 2.6429e-5f;
}

/* All surfaces of the conventional beamformer, as SONAR_WANT bits. */
uint32_t bench_scene_beams(const bench_scene *scene);

#endif
