/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Publishes the truth of a scene every 0.1 s of sample time, for checkers: on its own topic and as
 * JSON lines (docs/simulator.md). */
#ifndef SIM_TRUTH_H
#define SIM_TRUTH_H

#include "scene.h"

typedef struct sim_truth_spec {
    void *zmq_context;
    const char *endpoint, *path; /* NULL: not wanted */
    const sim_scene *scene;      /* borrowed */
    double fs_hz;
    uint64_t first_index;
    int64_t utc_ns; /* of sample first_index, 0 = unknown */
} sim_truth_spec;

typedef struct sim_truth_log sim_truth_log;

/* The endpoint must be loopback or ipc: SONAR_EINVAL otherwise. */
sonar_code sim_truth_create(const sim_truth_spec *spec, sim_truth_log **log, sonar_error *err);
void sim_truth_set_utc(sim_truth_log *log, int64_t utc_ns);
/* Publishes the truth up to `samples` samples after the first. */
void sim_truth_advance(sim_truth_log *log, uint64_t samples);
void sim_truth_destroy(sim_truth_log *log);

#endif
