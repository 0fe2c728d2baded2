/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Token buckets, places and bytes by owner, in a table that is searched from its beginning: its
 * length is bounded, and a new entry takes the place of one that has nothing to remember. */
#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "core/core.h"
#include "net/net.h"

/* Each place has an owner, and so has each bucket that is not full: who was admitted during the
 * last seconds, which `everyone` bounds. */
enum { OWNERS_MOST = 2 * SONAR_PEERS_MOST };

/* A bucket holds `most` and gets `a_second` more, up to that. */
struct rate {
    double most, a_second;
};

/* A display that is switched on starts a handful of readers, a daemon that starts again gets all of
 * them back; a script that looks once a second joins once a second. */
static const struct rate one = {30, 5}, everyone = {48, 24};
static const double request_tokens = 1.0 / 16, hung_up_tokens = 20, debt_most = 50;
/* To what is no topic. libzmq goes through all subscriptions when a connection ends, some 20 ns for
 * each byte. */
static const size_t foreign_bytes_most = 2048, foreign_bytes_of_all = 16384;
/* Admitted until the thread has taken all requests of those before. A disconnect costs a walk
 * through the subscriptions of all, so the work of a round must not grow with its duration. */
enum { JOINS_OF_A_ROUND = 8 };
static const int64_t inside_most_ns = 50000000; /* of processor time */

/* The thread that does the work of the peers. */
struct attendant {
    bool present;
    clockid_t clock; /* of its processor time */
    char endpoint[SONAR_GATE_ENDPOINT_BYTES];
    uint64_t rounds, joins; /* since it had caught up */
    uint64_t seen_rounds;
    int64_t seen_cpu_ns; /* sonar_gate_is_overrun's */
};

struct bucket {
    double tokens;
    int64_t at_ns;
};

struct owner {
    char name[SONAR_OWNER_BYTES];
    struct bucket bucket;
    size_t places, foreign_bytes;
};

struct sonar_gate {
    pthread_mutex_t lock;
    size_t places_most; /* of one owner */
    struct bucket all;
    size_t foreign_bytes, owners;
    struct attendant attendant;
    uint64_t ended;
    struct owner owner[OWNERS_MOST];
};

/* ---- owners ---------------------------------------------------------------------------------- */

/* Of IPv6 the network, of which one machine has all addresses. */
static void name_address(const struct in6_addr *address, char owner[SONAR_OWNER_BYTES]) {
    struct in6_addr network = *address;
    char text[INET6_ADDRSTRLEN];
    if (IN6_IS_ADDR_V4MAPPED(address)) {
        inet_ntop(AF_INET, address->s6_addr + 12, owner, SONAR_OWNER_BYTES);
        return;
    }
    if (IN6_IS_ADDR_LOOPBACK(address)) {
        snprintf(owner, SONAR_OWNER_BYTES, "::1");
        return;
    }
    memset(network.s6_addr + 8, 0, 8);
    snprintf(owner, SONAR_OWNER_BYTES, "%s/64",
             inet_ntop(AF_INET6, &network, text, sizeof text) ? text : "?");
}

/* libzmq gives an ipc peer as "localhost:UID:GID:PID". */
void sonar_owner_of_address(const char *address, char owner[SONAR_OWNER_BYTES]) {
    struct in6_addr v6;
    unsigned uid;
    if (sscanf(address, "localhost:%u:", &uid) == 1)
        snprintf(owner, SONAR_OWNER_BYTES, "user %u", uid);
    else if (inet_pton(AF_INET6, address, &v6) == 1)
        name_address(&v6, owner);
    else
        snprintf(owner, SONAR_OWNER_BYTES, "%.*s", SONAR_OWNER_BYTES - 1, address);
}

bool sonar_owner_of_connection(int fd, char owner[SONAR_OWNER_BYTES]) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } name = {0};
    struct ucred peer;
    socklen_t bytes = sizeof name, peer_bytes = sizeof peer;
    if (getpeername(fd, &name.any, &bytes) != 0)
        return false;
    if (name.any.sa_family == AF_INET6)
        name_address(&name.v6.sin6_addr, owner);
    else if (name.any.sa_family == AF_INET)
        inet_ntop(AF_INET, &name.v4.sin_addr, owner, SONAR_OWNER_BYTES);
    else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) == 0)
        snprintf(owner, SONAR_OWNER_BYTES, "user %u", (unsigned)peer.uid);
    else
        return false;
    return true;
}

/* Threads that look at their clocks at the same time come one after the other. */
static void refill(struct bucket *bucket, const struct rate *rate, int64_t now_ns) {
    if (now_ns < bucket->at_ns)
        return;
    const double since_s = (double)(now_ns - bucket->at_ns) * 1e-9;
    bucket->tokens = fmin(rate->most, bucket->tokens + since_s * rate->a_second);
    bucket->at_ns = now_ns;
}

static bool is_idle(struct owner *owner, int64_t now_ns) {
    if (owner->places || owner->foreign_bytes)
        return false;
    refill(&owner->bucket, &one, now_ns);
    return owner->bucket.tokens >= one.most;
}

static struct owner *find(sonar_gate *gate, const char *name) {
    for (size_t i = 0; i < gate->owners; i++)
        if (!strcmp(gate->owner[i].name, name))
            return &gate->owner[i];
    return NULL;
}

/* NULL: as many as there is room for have done something lately. */
static struct owner *find_or_add(sonar_gate *gate, const char *name, int64_t now_ns) {
    struct owner *owner = find(gate, name);
    if (owner)
        return owner;
    for (size_t i = 0; i < gate->owners && !owner; i++)
        if (is_idle(&gate->owner[i], now_ns))
            owner = &gate->owner[i];
    if (!owner && gate->owners == OWNERS_MOST)
        return NULL;
    if (!owner)
        owner = &gate->owner[gate->owners++];
    *owner = (struct owner){.bucket = {one.most, now_ns}};
    snprintf(owner->name, sizeof owner->name, "%s", name);
    return owner;
}

/* ---- the gate -------------------------------------------------------------------------------- */

sonar_gate *sonar_gate_create(size_t places_most) {
    sonar_gate *gate = sonar_alloc(1, sizeof *gate);
    if (!gate)
        return NULL;
    pthread_mutex_init(&gate->lock, NULL);
    gate->places_most = places_most;
    gate->all = (struct bucket){everyone.most, sonar_monotonic_ns()};
    return gate;
}

void sonar_gate_destroy(sonar_gate *gate) {
    if (gate)
        pthread_mutex_destroy(&gate->lock);
    free(gate);
}

/* Who may not join pays nothing, so that he who waits gets in at some time. */
bool sonar_gate_join(sonar_gate *gate, const char *name, int64_t now_ns) {
    pthread_mutex_lock(&gate->lock);
    refill(&gate->all, &everyone, now_ns);
    const bool room = gate->all.tokens >= 1 &&
                      (!gate->attendant.present || gate->attendant.joins < JOINS_OF_A_ROUND);
    struct owner *owner = room ? find_or_add(gate, name, now_ns) : NULL;
    if (owner)
        refill(&owner->bucket, &one, now_ns);
    const bool may = owner && owner->bucket.tokens >= 1;
    if (may) {
        owner->bucket.tokens--;
        gate->all.tokens--;
        gate->attendant.joins++;
    }
    pthread_mutex_unlock(&gate->lock);
    return may;
}

bool sonar_gate_enter(sonar_gate *gate, const char *name, int64_t now_ns) {
    pthread_mutex_lock(&gate->lock);
    struct owner *owner = find_or_add(gate, name, now_ns);
    const bool may = owner && owner->places < gate->places_most;
    if (may)
        owner->places++;
    pthread_mutex_unlock(&gate->lock);
    return may;
}

static void pay(struct owner *owner, double tokens, int64_t now_ns) {
    refill(&owner->bucket, &one, now_ns);
    owner->bucket.tokens = fmax(-debt_most, owner->bucket.tokens - tokens);
}

void sonar_gate_pay(sonar_gate *gate, const char *name, bool hung_up, int64_t now_ns) {
    pthread_mutex_lock(&gate->lock);
    struct owner *owner = find_or_add(gate, name, now_ns);
    if (owner)
        pay(owner, hung_up ? hung_up_tokens : request_tokens, now_ns);
    pthread_mutex_unlock(&gate->lock);
}

bool sonar_gate_hold(sonar_gate *gate, const char *name, size_t bytes, int64_t now_ns) {
    pthread_mutex_lock(&gate->lock);
    struct owner *owner = find_or_add(gate, name, now_ns);
    const bool may = owner && owner->foreign_bytes + bytes <= foreign_bytes_most &&
                     gate->foreign_bytes + bytes <= foreign_bytes_of_all;
    if (may) {
        owner->foreign_bytes += bytes;
        gate->foreign_bytes += bytes;
    }
    pthread_mutex_unlock(&gate->lock);
    return may;
}

void sonar_gate_give_back(sonar_gate *gate, const char *name, size_t places, size_t bytes) {
    pthread_mutex_lock(&gate->lock);
    struct owner *owner = find(gate, name);
    if (owner) {
        owner->places -= sonar_min_size(places, owner->places);
        owner->foreign_bytes -= sonar_min_size(bytes, owner->foreign_bytes);
        gate->foreign_bytes -= sonar_min_size(bytes, gate->foreign_bytes);
    }
    pthread_mutex_unlock(&gate->lock);
}

/* ---- the thread behind the gate -------------------------------------------------------------- */

void sonar_gate_attend(sonar_gate *gate, const char *endpoint) {
    if (!gate)
        return;
    struct attendant *is = &gate->attendant;
    pthread_mutex_lock(&gate->lock);
    *is = (struct attendant){.present = endpoint != NULL};
    is->present = is->present && pthread_getcpuclockid(pthread_self(), &is->clock) == 0;
    snprintf(is->endpoint, sizeof is->endpoint, "%s", endpoint ? endpoint : "");
    pthread_mutex_unlock(&gate->lock);
}

void sonar_gate_round(sonar_gate *gate, bool caught_up) {
    if (!gate)
        return;
    pthread_mutex_lock(&gate->lock);
    gate->attendant.rounds++;
    if (caught_up)
        gate->attendant.joins = 0;
    pthread_mutex_unlock(&gate->lock);
}

/* A thread that waits, or that others keep from its processor, uses no processor time. */
bool sonar_gate_is_overrun(sonar_gate *gate, char endpoint[SONAR_GATE_ENDPOINT_BYTES]) {
    struct attendant *is = &gate->attendant;
    struct timespec used;
    bool overrun = false;
    pthread_mutex_lock(&gate->lock);
    if (is->present && clock_gettime(is->clock, &used) == 0) {
        const int64_t cpu_ns = (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
        const bool same = is->rounds == is->seen_rounds;
        overrun = same && cpu_ns - is->seen_cpu_ns > inside_most_ns;
        if (overrun || !same)
            is->seen_cpu_ns = cpu_ns;
        is->seen_rounds = is->rounds;
        snprintf(endpoint, SONAR_GATE_ENDPOINT_BYTES, "%s", is->endpoint);
    }
    pthread_mutex_unlock(&gate->lock);
    return overrun;
}

void sonar_gate_count_ended(sonar_gate *gate, uint64_t connections) {
    pthread_mutex_lock(&gate->lock);
    gate->ended += connections;
    pthread_mutex_unlock(&gate->lock);
}

uint64_t sonar_gate_ended(sonar_gate *gate) {
    pthread_mutex_lock(&gate->lock);
    const uint64_t ended = gate->ended;
    pthread_mutex_unlock(&gate->lock);
    return ended;
}
