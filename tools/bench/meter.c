/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "meter.h"

#include <string.h>

#include "backend/open.h"
#include "core/core.h"

const char *const meter_name[] = {[METER_SHARE] = "share",
                                  [METER_BROADCAST] = "broadcast",
                                  [METER_GATHER] = "gather",
                                  [METER_EXCHANGE] = "exchange"};

/* ---- calls that are noted -------------------------------------------------------------------- */

/* static, since a cluster's functions have no context */
static const sonar_cluster_ops *behind, *own, *other;
static sonar_rank_place place;
static meter_call calls[METER_CALLS_MOST];
static size_t count;

static meter_call *begin(meter_kind kind) {
    static meter_call unnoted;
    meter_call *call = count < METER_CALLS_MOST ? &calls[count++] : &unnoted;
    *call = (meter_call){.kind = kind, .began_ns = sonar_monotonic_ns()};
    return call;
}

static sonar_code end(meter_call *call, sonar_code code) {
    call->ended_ns = sonar_monotonic_ns();
    return code;
}

static sonar_code share(const void *mine, size_t size, void *all, sonar_error *err) {
    meter_call *call = begin(METER_SHARE);
    call->size = size;
    return end(call, behind->share(mine, size, all, err));
}

static sonar_code broadcast(void *data, size_t size, sonar_error *err) {
    meter_call *call = begin(METER_BROADCAST);
    call->size = size;
    return end(call, behind->broadcast(data, size, err));
}

static sonar_code gather(const void *mine, const size_t *size, void *all, sonar_error *err) {
    meter_call *call = begin(METER_GATHER);
    for (size_t r = 0; r < place.ranks; r++) /* the other ranks know only their own */
        call->from[r] = place.rank == 0 || r == place.rank ? size[r] : 0;
    return end(call, behind->gather(mine, size, all, err));
}

static sonar_code exchange(const void *send, const size_t *to, void *receive, const size_t *from,
                           sonar_error *err) {
    meter_call *call = begin(METER_EXCHANGE);
    memcpy(call->to, to, place.ranks * sizeof *to);
    memcpy(call->from, from, place.ranks * sizeof *from);
    return end(call, behind->exchange(send, to, receive, from, err));
}

sonar_cluster meter_open(const sonar_cluster *cluster, const sonar_cluster_ops *plain) {
    static sonar_cluster_ops noted;
    sonar_cluster metered = *cluster;
    behind = own = cluster->ops;
    other = plain;
    place = cluster->place;
    noted = *behind;
    noted.share = share;
    noted.broadcast = broadcast;
    noted.gather = gather;
    noted.exchange = exchange;
    metered.ops = &noted;
    count = 0;
    return metered;
}

void meter_use_plain(bool plain) {
    behind = plain ? other : own;
}

size_t meter_calls(const meter_call **call) {
    *call = calls;
    return count;
}

void meter_forget(void) {
    count = 0;
}

/* ---- what they took -------------------------------------------------------------------------- */

/* Bytes that this rank sends to others. */
static double bytes_sent(const sonar_rank_place *own, const meter_call *call) {
    double bytes = 0;
    switch (call->kind) {
    case METER_SHARE:
        return (double)(call->size * (own->ranks - 1));
    case METER_BROADCAST:
        return own->rank == 0 ? (double)(call->size * (own->ranks - 1)) : 0;
    case METER_GATHER:
        return own->rank == 0 ? 0 : (double)call->from[own->rank];
    case METER_EXCHANGE:
        for (size_t r = 0; r < own->ranks; r++)
            bytes += r == own->rank ? 0 : (double)call->to[r];
    }
    return bytes;
}

sonar_code meter_read(const sonar_cluster *cluster, const meter_call *call, double *bytes,
                      int64_t *ns, sonar_error *err) {
    struct part {
        double bytes;
        int64_t began_ns, ended_ns;
    } all[SONAR_RANKS_MOST];
    const struct part mine = {bytes_sent(&cluster->place, call), call->began_ns, call->ended_ns};
    sonar_code code = cluster->ops->share(&mine, sizeof mine, all, err);
    int64_t began_ns = 0, ended_ns = 0;
    *bytes = 0;
    for (size_t r = 0; r < cluster->place.ranks && !code; r++) {
        *bytes += all[r].bytes;
        began_ns = all[r].began_ns > began_ns ? all[r].began_ns : began_ns;
        ended_ns = all[r].ended_ns > ended_ns ? all[r].ended_ns : ended_ns;
    }
    *ns = ended_ns - began_ns;
    return code;
}

const sonar_cluster_ops *meter_plain(const char *dir, sonar_error *why) {
    char path[512];
    void *symbol;
    if (sonar_plugin_load("bench-mpi", dir, SONAR_CLUSTER_SYMBOL, path, sizeof path, &symbol, why))
        return NULL;
    sonar_cluster_entry entry;
    *(void **)&entry = symbol; /* POSIX's form for functions from dlsym */
    return entry();
}
