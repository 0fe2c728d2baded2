/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reference for the ranks' exchanges: a cluster's functions by MPI's blocking calls, in a process
 * that libsonar-mpi.so has already joined. For byte counts within MPI's int. */
#include <mpi.h>

#include "ranks/cluster.h"
#include "core/core.h"

static int own_rank, all_ranks;

static sonar_code check(int status, const char *call, sonar_error *err) {
    return status == MPI_SUCCESS ? SONAR_OK
                                 : sonar_fail(err, SONAR_ESYS, "plain MPI", "%s: %d", call, status);
}

static void count(const size_t *size, int counts[], int begins[]) {
    for (int r = 0, sum = 0; r < all_ranks; sum += counts[r++]) {
        counts[r] = (int)size[r];
        begins[r] = sum;
    }
}

static sonar_code share(const void *mine, size_t size, void *all, sonar_error *err) {
    return check(MPI_Allgather(mine, (int)size, MPI_BYTE, all, (int)size, MPI_BYTE, MPI_COMM_WORLD),
                 "MPI_Allgather", err);
}

static sonar_code broadcast(void *data, size_t size, sonar_error *err) {
    return check(MPI_Bcast(data, (int)size, MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast", err);
}

static sonar_code gather(const void *mine, const size_t *size, void *all, sonar_error *err) {
    int counts[SONAR_RANKS_MOST], begins[SONAR_RANKS_MOST];
    count(size, counts, begins);
    return check(MPI_Gatherv(mine, counts[own_rank], MPI_BYTE, all, counts, begins, MPI_BYTE, 0,
                             MPI_COMM_WORLD),
                 "MPI_Gatherv", err);
}

static sonar_code exchange(const void *send, const size_t *to, void *receive, const size_t *from,
                           sonar_error *err) {
    int out[SONAR_RANKS_MOST], out_at[SONAR_RANKS_MOST];
    int in[SONAR_RANKS_MOST], in_at[SONAR_RANKS_MOST];
    count(to, out, out_at);
    count(from, in, in_at);
    return check(
        MPI_Alltoallv(send, out, out_at, MPI_BYTE, receive, in, in_at, MPI_BYTE, MPI_COMM_WORLD),
        "MPI_Alltoallv", err);
}

__attribute__((visibility("default"))) const sonar_cluster_ops *sonar_cluster_plugin(void);

const sonar_cluster_ops *sonar_cluster_plugin(void) {
    static const sonar_cluster_ops ops = {.interface = SONAR_CLUSTER_INTERFACE,
                                          .share = share,
                                          .broadcast = broadcast,
                                          .gather = gather,
                                          .exchange = exchange};
    MPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &all_ranks);
    return &ops;
}
