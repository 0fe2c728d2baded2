/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The plugin libsonar-mpi.so: the cluster's functions implemented with MPI. It links MPI but
 * neither libsonar nor its libraries. MPI's own waiting would occupy a processor as long as a rank
 * waits for samples, so nonblocking calls are polled with pauses in between. Gathering is one such
 * call. Before the other collectives the ranks meet in a nonblocking barrier; after that the
 * blocking collective is the fastest. */
#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "ranks/cluster.h"
#include "core/core.h"

static int own_rank, all_ranks;

static sonar_code check(int status, const char *call, sonar_error *err) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (status == MPI_SUCCESS)
        return SONAR_OK;
    MPI_Error_string(status, text, &length);
    return sonar_fail(err, SONAR_ESYS, "cluster", "%s: %.300s", call, text);
}

/* Makes sleeps end on time: a thread's default slack of 50 us is longer than most collectives. */
static void sleep_exactly(int64_t ns) {
    static _Thread_local bool exact;
    if (!exact)
        prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul);
    exact = true;
    nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

/* While the others may arrive at any moment, only yields the processor. Later sleeps for a
 * sixty-fourth of the time waited, at most a millisecond. */
static void pause_after(int64_t waited_ns) {
    enum { OFFER_NS = 300000, LONGEST_NS = 1000000 };
    if (waited_ns < OFFER_NS)
        sched_yield();
    else
        sleep_exactly(waited_ns / 64 < LONGEST_NS ? waited_ns / 64 : LONGEST_NS);
}

/* Returns when the request is done. code: the outcome of starting it. */
static sonar_code await(sonar_code code, MPI_Request *request, const char *call, sonar_error *err) {
    int done = 0;
    const int64_t began = sonar_monotonic_ns();
    while (!code && !done) {
        code = check(MPI_Test(request, &done, MPI_STATUS_IGNORE), call, err);
        if (!code && !done)
            pause_after(sonar_monotonic_ns() - began);
    }
    return code;
}

/* Returns when all ranks have called it. */
static sonar_code meet(sonar_error *err) {
    const char *call = "MPI_Ibarrier";
    MPI_Request request;
    const sonar_code code = check(MPI_Ibarrier(MPI_COMM_WORLD, &request), call, err);
    return await(code, &request, call, err);
}

/* Converts sizes to the library's type, and computes where each part begins. */
static sonar_code count(const size_t *size, int counts[SONAR_RANKS_MOST],
                        int begins[SONAR_RANKS_MOST], sonar_error *err) {
    size_t sum = 0;
    for (int r = 0; r < all_ranks; r++) {
        if (size[r] > INT_MAX || sum > INT_MAX - size[r])
            return sonar_fail(err, SONAR_EINVAL, "cluster", "a message is larger than 2 GiB");
        counts[r] = (int)size[r];
        begins[r] = (int)sum;
        sum += size[r];
    }
    return SONAR_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Number of processors that the ranks on a host may run on, together. */
static size_t processors_of(MPI_Comm host) {
    cpu_set_t own, all;
    if (sched_getaffinity(0, sizeof own, &own))
        CPU_ZERO(&own);
    if (MPI_Allreduce(&own, &all, sizeof own, MPI_BYTE, MPI_BOR, host))
        return 0;
    return (size_t)CPU_COUNT(&all);
}

static sonar_code find_place(sonar_rank_place *place, sonar_error *err) {
    MPI_Comm host;
    int local, here;
    sonar_code code =
        check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
              "MPI_Comm_split_type", err);
    if (code)
        return code;
    MPI_Comm_rank(host, &local);
    MPI_Comm_size(host, &here);
    *place = (sonar_rank_place){(size_t)own_rank, (size_t)all_ranks, (size_t)local, (size_t)here,
                                processors_of(host)};
    MPI_Comm_free(&host);
    return SONAR_OK;
}

static void describe(char *description, size_t size) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = 0;
    strncpy(description, text, size - 1);
    description[size - 1] = 0;
}

static sonar_code join(sonar_rank_place *place, char *description, size_t size, sonar_error *err) {
    int level;
    sonar_code code =
        check(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread", err);
    if (code)
        return code;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &all_ranks);
    describe(description, size);
    if (level < MPI_THREAD_SERIALIZED)
        return sonar_fail(err, SONAR_EUNAVAILABLE, "cluster",
                          "%s has no MPI_THREAD_SERIALIZED: build it with threads", description);
    if (all_ranks > SONAR_RANKS_MOST)
        return sonar_fail(err, SONAR_EINVAL, "cluster", "%d ranks are more than %d", all_ranks,
                          SONAR_RANKS_MOST);
    return find_place(place, err);
}

static void leave(void) {
    MPI_Finalize();
}

static sonar_code share(const void *mine, size_t size, void *all, sonar_error *err) {
    if (size > INT_MAX)
        return sonar_fail(err, SONAR_EINVAL, "cluster", "a message is larger than 2 GiB");
    sonar_code code = meet(err);
    return code ? code
                : check(MPI_Allgather(mine, (int)size, MPI_BYTE, all, (int)size, MPI_BYTE,
                                      MPI_COMM_WORLD),
                        "MPI_Allgather", err);
}

static sonar_code broadcast(void *data, size_t size, sonar_error *err) {
    if (size > INT_MAX)
        return sonar_fail(err, SONAR_EINVAL, "cluster", "a message is larger than 2 GiB");
    sonar_code code = meet(err);
    return code ? code
                : check(MPI_Bcast(data, (int)size, MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast", err);
}

static sonar_code gather(const void *mine, const size_t *size, void *all, sonar_error *err) {
    const char *call = "MPI_Igatherv";
    int counts[SONAR_RANKS_MOST], begins[SONAR_RANKS_MOST];
    MPI_Request request;
    if (size[own_rank] > INT_MAX)
        return sonar_fail(err, SONAR_EINVAL, "cluster", "a message is larger than 2 GiB");
    sonar_code code = own_rank ? SONAR_OK : count(size, counts, begins, err);
    if (!code)
        code = check(MPI_Igatherv(mine, (int)size[own_rank], MPI_BYTE, all, counts, begins,
                                  MPI_BYTE, 0, MPI_COMM_WORLD, &request),
                     call, err);
    return await(code, &request, call, err);
}

static sonar_code exchange(const void *send, const size_t *to, void *receive, const size_t *from,
                           sonar_error *err) {
    int out[SONAR_RANKS_MOST], out_at[SONAR_RANKS_MOST];
    int in[SONAR_RANKS_MOST], in_at[SONAR_RANKS_MOST];
    sonar_code code = count(to, out, out_at, err);
    if (!code)
        code = count(from, in, in_at, err);
    if (!code)
        code = meet(err);
    return code ? code
                : check(MPI_Alltoallv(send, out, out_at, MPI_BYTE, receive, in, in_at, MPI_BYTE,
                                      MPI_COMM_WORLD),
                        "MPI_Alltoallv", err);
}

static void end_all(int exit_code) {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    abort();
}

__attribute__((visibility("default"))) const sonar_cluster_ops *sonar_cluster_plugin(void);

const sonar_cluster_ops *sonar_cluster_plugin(void) {
    static const sonar_cluster_ops ops = {.interface = SONAR_CLUSTER_INTERFACE,
                                          .join = join,
                                          .leave = leave,
                                          .share = share,
                                          .broadcast = broadcast,
                                          .gather = gather,
                                          .exchange = exchange,
                                          .abort = end_all};
    return &ops;
}
