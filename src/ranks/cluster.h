/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Cluster: the processes that share one array, each with a block of its channels. They are started
 * together by mpirun, and an MPI library carries what they tell one another. It is reached through
 * a plugin, libsonar-mpi.so, so that sonard runs without MPI where it is one process.
 *
 * A process is a *rank*, counted from 0; rank 0 is the *root*, which publishes. All functions of
 * sonar_cluster_ops but abort are collective: every rank calls the same ones in the same order, and
 * each returns when this rank's part is done. Sums over ranks are never left to the library, whose
 * order of summation is its own: parts are gathered and added in the order of ranks, so that
 * results do not depend on timing.
 *
 * One thread at a time: the control thread joins and leaves, the data thread calls the rest while
 * the pipeline runs. (The library is asked for MPI_THREAD_SERIALIZED.) Waiting sleeps; it does not
 * take a processor. Errors: SONAR_ESYS with the library's words; SONAR_EINVAL for a message above
 * 2 GiB, which the library cannot count. After an error the ranks no longer agree on what comes
 * next, and all that is left is abort.
 */
#ifndef SONAR_RANKS_CLUSTER_H
#define SONAR_RANKS_CLUSTER_H

#include "sonar/sonar.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SONAR_CLUSTER_INTERFACE 3u
#define SONAR_CLUSTER_SYMBOL    "sonar_cluster_plugin"

/* A rank stays awake for so long while it waits for its device, since the others wait for it: a
 * window has several exchanges, and to be woken takes as long as one of them. */
#define SONAR_RANKS_AWAKE_NS 30000000

/* More are refused: rounds carry a few hundred bytes of every rank to every other. */
enum { SONAR_RANKS_MOST = 64 };

typedef struct sonar_rank_place {
    size_t rank, ranks;
    size_t local;           /* number of this rank among those on its host: the device it takes */
    size_t ranks_here;      /* on its host, this one included: they share its processors */
    size_t processors_here; /* that any of these may run on; 0: not known */
} sonar_rank_place;

typedef struct sonar_cluster_ops {
    uint32_t interface; /* must equal SONAR_CLUSTER_INTERFACE exactly */
    /* Joins the other ranks; describes the library in words in description[size]. */
    sonar_code (*join)(sonar_rank_place *place, char *description, size_t size, sonar_error *err);
    /* After the last call of the others, on every rank. */
    void (*leave)(void);
    /* `size` bytes of every rank to all ranks, as all[rank][size]. */
    sonar_code (*share)(const void *mine, size_t size, void *all, sonar_error *err);
    /* `size` bytes of rank 0 to all others. */
    sonar_code (*broadcast)(void *data, size_t size, sonar_error *err);
    /* From every rank to rank 0, which gets size[rank] bytes of each, one behind the other. The
     * others know only size[their own]; `all` is not read there. */
    sonar_code (*gather)(const void *mine, const size_t *size, void *all, sonar_error *err);
    /* From every rank to every other: to[rank] bytes for each, one behind the other, and from[rank]
     * bytes of each in the same way. What one sends is what the other expects. */
    sonar_code (*exchange)(const void *send, const size_t *to, void *receive, const size_t *from,
                           sonar_error *err);
    /* Ends all ranks, this one with the code. Any thread; does not return. */
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

/* Loads the plugin (plugin_dir NULL: by the loader's own search path), which is never unloaded, and
 * joins. SONAR_EUNAVAILABLE if it cannot be loaded, with the reason. Control thread, once. */
sonar_code sonar_cluster_join(const char *plugin_dir, sonar_cluster *cluster, sonar_error *err);
/* One that never joined is allowed. */
void sonar_cluster_leave(sonar_cluster *cluster);

#ifdef __cplusplus
}
#endif
#endif
