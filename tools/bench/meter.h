/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Measures the communication between ranks: a cluster whose calls are timed, with its own functions
 * or with those of plain MPI. Ranks on one host share a clock. So a call's time is from when the
 * last rank begins it until the last one has ended it, and waiting for other ranks is not counted.
 */
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

/* A call of this rank; sizes in bytes as in its arguments. */
typedef struct meter_call {
    meter_kind kind;
    size_t size, to[SONAR_RANKS_MOST], from[SONAR_RANKS_MOST];
    int64_t began_ns, ended_ns;
} meter_call;

extern const char *const meter_name[];

/* Returns the same cluster with calls that are recorded from now on. plain NULL: no plain MPI. */
sonar_cluster meter_open(const sonar_cluster *cluster, const sonar_cluster_ops *plain);
/* Selects the functions for later calls; at first the cluster's own. */
void meter_use_plain(bool plain);
/* The calls since the start or since meter_forget, in order; at most METER_CALLS_MOST. */
size_t meter_calls(const meter_call **call);
void meter_forget(void);

/* Collective: bytes sent from rank to rank by the call, and its time. */
sonar_code meter_read(const sonar_cluster *cluster, const meter_call *call, double *bytes,
                      int64_t *ns, sonar_error *err);
/* Plain MPI, from libsonar-bench-mpi.so in `dir`; call it after joining. NULL with the reason in
 * *why. */
const sonar_cluster_ops *meter_plain(const char *dir, sonar_error *why);

#endif
