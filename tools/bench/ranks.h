/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar-bench ranks: one array on several processes against the same array on one, by the engine as
 * the daemon runs it. */
#ifndef BENCH_RANKS_H
#define BENCH_RANKS_H

#include "meter.h"
#include "scene.h"

/* Where it runs: rank 0 alone first, then all. */
typedef struct ranks_site {
    bench_site site;
    sonar_cluster cluster;
    const sonar_cluster_ops *plain; /* NULL: exchanges are not compared */
} ranks_site;

/* A call of a window by all ranks. */
typedef struct ranks_crossing {
    const char *call;
    double bytes;                /* from rank to rank */
    int64_t median_ns, plain_ns; /* plain 0: not compared */
} ranks_crossing;

typedef struct ranks_result {
    const bench_case *of;
    size_t ranks;
    bench_times one, several; /* of a window; `several`: of the slowest rank */
    double worst_db;          /* several against one, where within 60 dB of a row's peak */
    ranks_crossing crossing[METER_CALLS_MOST];
    size_t crossings;
} ranks_result;

/* Collective. With one rank only `one` is measured. The result is rank 0's. */
sonar_code ranks_run(const bench_case *c, const ranks_site *at, ranks_result *result,
                     sonar_error *err);

int ranks_main(int argc, char **argv);

#endif
