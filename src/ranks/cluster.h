/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Cluster: the processes that share one array, each with a block of its channels. mpirun starts
 * them together, and an MPI library carries their messages. It is loaded as a plugin,
 * libsonar-mpi.so, so that a single process of sonard needs no MPI.
 *
 * A process is a *rank*, counted from 0; rank 0 is the *root*, which publishes. All functions of
 * sonar_cluster_ops except waits and abort are collective: every rank calls the same ones in the
 * same order, and each returns when this rank's part is done. The library never computes sums over
 * ranks, because its order of summation is unspecified: parts are gathered and added in the order
 * of ranks, so that results do not depend on timing.
 *
 * One thread at a time: the control thread joins and leaves, the data thread calls the rest during
 * the run (MPI_THREAD_SERIALIZED). Waiting sleeps and does not occupy a processor. Errors:
 * SONAR_ESYS with the library's message; SONAR_EINVAL for a message above 2 GiB, which the library
 * cannot count. After an error the ranks no longer agree on the next step, and only abort is
 * allowed.
 */
#ifndef SONAR_RANKS_CLUSTER_H
#define SONAR_RANKS_CLUSTER_H

#include "sonar/sonar.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SONAR_CLUSTER_INTERFACE 4u
#define SONAR_CLUSTER_SYMBOL    "sonar_cluster_plugin"

/* A rank polls for this long while it waits for its device, because the others wait for it: a
 * window has several exchanges, and waking up takes as long as one of them. */
#define SONAR_RANKS_AWAKE_NS 30000000

/* More ranks are refused, because in a round every rank sends a few hundred bytes to every
 * other. */
enum { SONAR_RANKS_MOST = 64 };

typedef struct sonar_rank_place {
    size_t rank, ranks;
    size_t local;      /* number of this rank among those on its host, and of the device it uses */
    size_t ranks_here; /* ranks on its host, this one included, which share its processors */
    size_t processors_here; /* processors that any of these ranks may run on; 0: unknown */
} sonar_rank_place;

typedef struct sonar_cluster_ops {
    uint32_t interface; /* must equal SONAR_CLUSTER_INTERFACE exactly */
    /* Joins the other ranks; writes the library's name and version to description[size]. */
    sonar_code (*join)(sonar_rank_place *place, char *description, size_t size, sonar_error *err);
    /* Called last, on every rank. */
    void (*leave)(void);
    /* Sends `size` bytes of every rank to all ranks, as all[rank][size]. */
    sonar_code (*share)(const void *mine, size_t size, void *all, sonar_error *err);
    /* Sends `size` bytes of rank 0 to all others. */
    sonar_code (*broadcast)(void *data, size_t size, sonar_error *err);
    /* Sends size[rank] bytes of every rank to rank 0, which stores them in the order of ranks. The
     * other ranks need only their own size; `all` is not used there. */
    sonar_code (*gather)(const void *mine, const size_t *size, void *all, sonar_error *err);
    /* Sends to[rank] bytes to each rank and receives from[rank] bytes from each; both are stored in
     * the order of ranks. Each rank's `to` must match the receivers' `from`. */
    sonar_code (*exchange)(const void *send, const size_t *to, void *receive, const size_t *from,
                           sonar_error *err);
    /* How long this rank has waited for others in one of the calls above; 0: less than a second. On
     * rank 0, absent[rank] is true for ranks that have not entered the call; on the others all are
     * false. Any thread. */
    int64_t (*waits)(bool absent[SONAR_RANKS_MOST]);
    /* Ends all ranks; this rank exits with the code. Any thread; does not return. */
    void (*abort)(int exit_code);
} sonar_cluster_ops;

/* The one symbol the plugin exports. */
typedef const sonar_cluster_ops *(*sonar_cluster_entry)(void);

/* This process's membership. */
typedef struct sonar_cluster {
    const sonar_cluster_ops *ops;
    sonar_rank_place place;
    char description[96]; /* "Open MPI v4.1.4, ..." */
} sonar_cluster;

/* Loads the plugin (plugin_dir NULL: from the loader's search path), which is never unloaded, and
 * joins. SONAR_EUNAVAILABLE with the reason if it cannot be loaded. Control thread, once. */
sonar_code sonar_cluster_join(const char *plugin_dir, sonar_cluster *cluster, sonar_error *err);
/* NULL, or a cluster that was never joined, is allowed. */
void sonar_cluster_leave(sonar_cluster *cluster);

#ifdef __cplusplus
}
#endif
#endif
