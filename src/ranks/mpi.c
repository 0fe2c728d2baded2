/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The plugin libsonar-mpi.so: the cluster's functions implemented with MPI. It links MPI but
 * neither libsonar nor its libraries. Every collective is a nonblocking one that is polled with
 * pauses in between. MPI's own waiting would occupy a processor as long as a rank waits for
 * samples, and would not say which rank hangs. */
#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "ranks/cluster.h"
#include "core/core.h"

enum { LATE_NS = 1000000000 };

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

/* ---- ranks that do not come ------------------------------------------------------------------ */

/* A collective call does not say who is missing. A rank that has waited for a second tells the root
 * the number of the call that it has come to. */
static MPI_Comm calls_comm;
static int64_t call_number = 1;
static _Atomic int64_t call_began_ns;                 /* 0: in no call */
static atomic_bool asks;                              /* root: it hears where the others are */
static _Atomic int64_t has_come_to[SONAR_RANKS_MOST]; /* root: what it has been told */

static void hear_where_they_are(void) {
    int came = 1;
    MPI_Status from;
    while (MPI_Iprobe(MPI_ANY_SOURCE, 0, calls_comm, &came, &from) == MPI_SUCCESS && came) {
        int64_t number;
        if (MPI_Recv(&number, 1, MPI_INT64_T, from.MPI_SOURCE, 0, calls_comm, MPI_STATUS_IGNORE) ==
            MPI_SUCCESS)
            atomic_store(&has_come_to[from.MPI_SOURCE], number);
    }
}

/* Once in a call. To a root that hangs the message before may still be on its way. */
static void tell_where_it_is(void) {
    static MPI_Request sending = MPI_REQUEST_NULL;
    static int64_t number;
    int sent = 0;
    if (number == call_number || MPI_Test(&sending, &sent, MPI_STATUS_IGNORE) != MPI_SUCCESS ||
        !sent)
        return;
    number = call_number;
    MPI_Isend(&number, 1, MPI_INT64_T, 0, 0, calls_comm, &sending);
}

static void wait_longer(void) {
    if (own_rank) {
        tell_where_it_is();
        return;
    }
    hear_where_they_are();
    atomic_store(&has_come_to[0], call_number);
    atomic_store(&asks, true);
}

/* The root takes messages of calls in which it has not waited as well. */
static sonar_code ended(sonar_code code) {
    static int64_t heard_ns;
    const int64_t now_ns = sonar_monotonic_ns();
    atomic_store(&call_began_ns, 0);
    call_number++;
    if (!own_rank && now_ns - heard_ns > LATE_NS) {
        heard_ns = now_ns;
        hear_where_they_are();
    }
    return code;
}

static int64_t waits(bool absent[SONAR_RANKS_MOST]) {
    const int64_t began_ns = atomic_load(&call_began_ns), call = atomic_load(&has_come_to[0]);
    const int64_t for_ns = began_ns ? sonar_monotonic_ns() - began_ns : 0;
    for (int r = 0; r < SONAR_RANKS_MOST; r++)
        absent[r] = for_ns > LATE_NS && atomic_load(&asks) && r < all_ranks &&
                    atomic_load(&has_come_to[r]) < call;
    return for_ns > LATE_NS ? for_ns : 0;
}

/* Returns when the request is done. code: the outcome of starting it. */
static sonar_code await(sonar_code code, MPI_Request *request, const char *call, sonar_error *err) {
    int done = 0;
    const int64_t began_ns = sonar_monotonic_ns();
    atomic_store(&call_began_ns, began_ns);
    while (!code && !done) {
        code = check(MPI_Test(request, &done, MPI_STATUS_IGNORE), call, err);
        if (code || done)
            break;
        const int64_t waited_ns = sonar_monotonic_ns() - began_ns;
        if (waited_ns > LATE_NS)
            wait_longer();
        pause_after(waited_ns);
    }
    atomic_store(&asks, false);
    return code;
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
    code = check(MPI_Comm_dup(MPI_COMM_WORLD, &calls_comm), "MPI_Comm_dup", err);
    if (code)
        return code;
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
    MPI_Comm_free(&calls_comm);
    MPI_Finalize();
}

static sonar_code share(const void *mine, size_t size, void *all, sonar_error *err) {
    const char *call = "MPI_Iallgather";
    MPI_Request request;
    if (size > INT_MAX)
        return sonar_fail(err, SONAR_EINVAL, "cluster", "a message is larger than 2 GiB");
    sonar_code code = check(MPI_Iallgather(mine, (int)size, MPI_BYTE, all, (int)size, MPI_BYTE,
                                           MPI_COMM_WORLD, &request),
                            call, err);
    return ended(await(code, &request, call, err));
}

static sonar_code broadcast(void *data, size_t size, sonar_error *err) {
    const char *call = "MPI_Ibcast";
    MPI_Request request;
    if (size > INT_MAX)
        return sonar_fail(err, SONAR_EINVAL, "cluster", "a message is larger than 2 GiB");
    sonar_code code =
        check(MPI_Ibcast(data, (int)size, MPI_BYTE, 0, MPI_COMM_WORLD, &request), call, err);
    return ended(await(code, &request, call, err));
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
    return ended(await(code, &request, call, err));
}

static sonar_code exchange(const void *send, const size_t *to, void *receive, const size_t *from,
                           sonar_error *err) {
    const char *call = "MPI_Ialltoallv";
    MPI_Request request;
    int out[SONAR_RANKS_MOST], out_at[SONAR_RANKS_MOST];
    int in[SONAR_RANKS_MOST], in_at[SONAR_RANKS_MOST];
    sonar_code code = count(to, out, out_at, err);
    if (!code)
        code = count(from, in, in_at, err);
    if (!code)
        code = check(MPI_Ialltoallv(send, out, out_at, MPI_BYTE, receive, in, in_at, MPI_BYTE,
                                    MPI_COMM_WORLD, &request),
                     call, err);
    return ended(await(code, &request, call, err));
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
                                          .waits = waits,
                                          .abort = end_all};
    return &ops;
}
