/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar-bench ranks: compares one array on several processes with the same array on one, in the
 * daemon's engine. */
#ifndef BENCH_RANKS_H
#define BENCH_RANKS_H

#include "meter.h"
#include "scene.h"

/* Where it runs: first rank 0 alone, then all ranks. */
typedef struct ranks_site {
    bench_site site;
    sonar_cluster cluster;
    const sonar_cluster_ops *plain; /* NULL: exchanges are not compared with plain MPI */
} ranks_site;

/* A call that all ranks make in a window. */
typedef struct ranks_crossing {
    const char *call;
    double bytes;                /* from rank to rank */
    int64_t median_ns, plain_ns; /* plain 0: not compared */
} ranks_crossing;

typedef struct ranks_result {
    const bench_case *of;
    size_t ranks;
    bench_times one, several; /* times of a window; `several`: of the slowest rank */
    double worst_db;          /* largest difference within 60 dB of a row's peak */
    ranks_crossing crossing[METER_CALLS_MOST];
    size_t crossings;
} ranks_result;

/* Collective. With one rank only `one` is measured. Only rank 0 gets the result. */
sonar_code ranks_run(const bench_case *c, const ranks_site *at, ranks_result *result,
                     sonar_error *err);

int ranks_main(int argc, char **argv);

#endif
