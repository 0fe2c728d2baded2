/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How much ranks tell one another, and how long that takes: a cluster whose calls are timed, by its
 * own functions or by those of plain MPI. Ranks on one host have one clock, so that a call's time
 * is from when the last rank begins it until the last one has ended it: nobody's waiting for others
 * counts. */
#ifndef BENCH_METER_H
#define BENCH_METER_H

#include "ranks/cluster.h"

enum { METER_CALLS_MOST = 16 };

typedef enum meter_kind {
    METER_SHARE = 0,
    METER_BROADCAST,
    METER_GATHER,
    METER_EXCHANGE
} meter_kind;

/* A call of this rank; sizes in bytes as its argument has them. */
typedef struct meter_call {
    meter_kind kind;
    size_t size, to[SONAR_RANKS_MOST], from[SONAR_RANKS_MOST];
    int64_t began_ns, ended_ns;
} meter_call;

extern const char *const meter_name[];

/* The same cluster with calls that are noted from now on. plain NULL: there are no others. */
sonar_cluster meter_open(const sonar_cluster *cluster, const sonar_cluster_ops *plain);
/* Whose functions carry the calls from now on; the cluster's own at first. */
void meter_use_plain(bool plain);
/* The calls since then or since the last forgetting, in order; no more than METER_CALLS_MOST. */
size_t meter_calls(const meter_call **call);
void meter_forget(void);

/* Collective: bytes that the call takes from rank to rank, and its time. */
sonar_code meter_read(const sonar_cluster *cluster, const meter_call *call, double *bytes,
                      int64_t *ns, sonar_error *err);
/* Plain MPI, from libsonar-bench-mpi.so in `dir`; after joining. NULL with the reason in *why. */
const sonar_cluster_ops *meter_plain(const char *dir, sonar_error *why);

#endif
