/* SPDX-License-Identifier: GPL-3.0-or-later */
/* All stages of a window as the daemon runs them: an engine (engine/engine.h) on the scene's ring
 * of samples, from host memory to surfaces in host memory. */
#ifndef BENCH_CHAIN_H
#define BENCH_CHAIN_H

#include "engine/engine.h"
#include "scene.h"

typedef struct bench_chain {
    const bench_scene *scene;
    sonar_specs specs;
    sonar_engine_times times;
    sonar_engine *engine;
    sonar_buffer surface[SONAR_SURFACES]; /* host memory */
    uint32_t outputs;                     /* SONAR_WANT bits of the computed surfaces */
    uint64_t next;                        /* window */
    uint64_t ahead;                       /* number of later windows whose samples are available */
} bench_chain;

/* minute: no MVDR, the samples of the next window are already available, and a device gets them as
 * s16. Otherwise MVDR's block, if any, is full on return. */
sonar_code bench_chain_create(const bench_scene *scene, bool minute, bench_chain *chain,
                              sonar_error *err);
/* Also for a chain whose create failed. */
void bench_chain_destroy(bench_chain *chain);

/* bench_step with a bench_chain as ctx: runs one window, or all windows of the case's minute. */
sonar_code bench_chain_run(void *ctx, sonar_error *err);
sonar_code bench_chain_run_minute(void *ctx, sonar_error *err);

#endif
