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
    uint32_t outputs;                     /* SONAR_WANT bits of the surfaces that are made */
    uint64_t next;                        /* window */
    uint64_t ahead;                       /* later windows whose samples are there already */
} bench_chain;

/* With a minute, windows come one after the other and hold no MVDR: the samples of the next one are
 * there, and a device gets them as s16. Otherwise MVDR's block is full on return, if there is one.
 */
sonar_code bench_chain_create(const bench_scene *scene, bool minute, bench_chain *chain,
                              sonar_error *err);
/* A chain whose create failed, too. */
void bench_chain_destroy(bench_chain *chain);

/* bench_step, ctx a bench_chain: one window, or as many as the case's minute has. */
sonar_code bench_chain_run(void *ctx, sonar_error *err);
sonar_code bench_chain_run_minute(void *ctx, sonar_error *err);

#endif
