/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Who may connect: the answer to libzmq's question about each peer (ZAP, rfc.zeromq.org/spec/27).
 *
 * libzmq's I/O threads ask over inproc, one request for each handshake and so at most one for each
 * connection, and before the peer can cost anything: its socket hears of a connection when it has
 * been admitted. A thread of its own answers them one after the other. Where no thread answers at
 * that address, libzmq lets every key in unless ZMQ_ZAP_ENFORCE_DOMAIN is set (guard.c sets it).
 *
 * A key that is not allowed gets status 400, after which a client of libzmq never tries again. Who
 * comes too often is to try again: but for 300, "temporary error", libzmq (4.3.4) keeps the
 * connection until its handshake has lasted for 10 s. A status that ZAP does not know has it hang
 * up at once, and the client connects again (tests/test_security.c).
 *
 * A peer without a key needs that answer to come late: libzmq (4.3.4, null_mechanism.cpp) looks for
 * it once right after its question, and forgets one that is there already and has such a status.
 * Then it keeps the connection as after 300. So the answer waits in a queue while others are
 * answered: the socket is a ROUTER, which may answer in any order (tests/test_gate.c).
 */
#include "net/net.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"

enum { FRAMES = 9, FRAME_BYTES_MOST = 255, LATE_MOST = 512 };
enum { PEER, DELIMITER, VERSION, REQUEST, DOMAIN, ADDRESS, IDENTITY, MECHANISM, CREDENTIALS };

static const char endpoint[] = "inproc://zeromq.zap.01";
static const char *const domain_name[SONAR_GATES] = {
    [SONAR_SENDERS] = "senders", [SONAR_READERS] = "readers", [SONAR_CONTROLLERS] = "controllers"};
static const char admitted[] = "200", refused[] = "400", not_now[] = "429";
static const int64_t log_interval_ns = 1000000000;
/* Longer than an I/O thread that has asked is kept from its processor by others. */
static const int64_t late_ns = 200000000;
static const long tick_ms = 100;

/* Where an answer goes to. */
struct asker {
    size_t peer_bytes, id_bytes;
    char peer[FRAME_BYTES_MOST], id[FRAME_BYTES_MOST];
};

/* One who is told `not_now` when it is due. */
struct late {
    int64_t due_ns;
    struct asker asker;
};

struct sonar_zap {
    const sonar_host *host;
    void *socket; /* ROUTER; the thread's once it runs */
    int wake;
    atomic_bool stopping, ended;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* the lists */
    sonar_keyring allowed[SONAR_DOMAINS];
    sonar_gate *_Atomic gate[SONAR_GATES]; /* borrowed; NULL: no limit */
    int64_t logged_ns;                     /* the thread's: when it last said who was refused... */
    uint64_t unsaid;                       /* ...and how many it has kept to itself since */
    size_t late_first, late_count;         /* the thread's: a ring, the first is due first */
    struct late late[LATE_MOST];
    int64_t ticked_ns; /* the thread's */
};

/* A request as it came; only the first bytes of a frame that is too long. */
struct request {
    int frames;
    size_t bytes[FRAMES]; /* as sent */
    char frame[FRAMES][FRAME_BYTES_MOST + 1];
};

const char *sonar_domain_name(sonar_domain domain) {
    return domain_name[domain];
}

/* ---- requests -------------------------------------------------------------------------------- */

/* All frames of a message, whatever their number and size. False: none waits. */
static bool receive(void *socket, struct request *request) {
    memset(request, 0, sizeof *request);
    for (int more = 1; more; request->frames++) {
        char bin[FRAME_BYTES_MOST];
        bool room = request->frames < FRAMES;
        int bytes = zmq_recv(socket, room ? request->frame[request->frames] : bin, FRAME_BYTES_MOST,
                             ZMQ_DONTWAIT);
        size_t size = sizeof more;
        if (bytes < 0)
            return false;
        if (room)
            request->bytes[request->frames] = (size_t)bytes;
        if (zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size) != 0)
            return false;
    }
    return true;
}

static bool says(const struct request *request, int frame, const char *word) {
    return request->bytes[frame] == strlen(word) &&
           !memcmp(request->frame[frame], word, request->bytes[frame]);
}

/* Without a delimiter it is no question, and its sender could not read an answer. */
static bool is_question(const struct request *request) {
    return request->frames > VERSION && !request->bytes[DELIMITER];
}

static bool is_well_formed(const struct request *request) {
    return request->frames >= CREDENTIALS && says(request, VERSION, "1.0") &&
           request->bytes[REQUEST] <= FRAME_BYTES_MOST;
}

static int domain_of(const struct request *request) {
    for (int i = 0; i < SONAR_GATES; i++)
        if (says(request, DOMAIN, domain_name[i]))
            return i;
    return -1;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* IPv4 as everybody writes it. */
static const char *address_of(const struct request *request) {
    static const char mapped[] = "::ffff:";
    const char *address = request->frame[ADDRESS];
    return strncmp(address, mapped, sizeof mapped - 1) ? address : address + sizeof mapped - 1;
}

/* A flood of refusals must not become one of log lines. */
static void log_refusal(sonar_zap *zap, const struct request *request, const char *why) {
    char before[48] = "";
    int64_t now_ns = sonar_monotonic_ns();
    if (zap->logged_ns && now_ns - zap->logged_ns < log_interval_ns) {
        zap->unsaid++;
        return;
    }
    if (zap->unsaid)
        snprintf(before, sizeof before, " (and %llu before)", (unsigned long long)zap->unsaid);
    sonar_log(zap->host, SONAR_WARN, "security", "refused a connection from %.64s: %s%s",
              address_of(request), why, before);
    zap->logged_ns = now_ns;
    zap->unsaid = 0;
}

static bool has_key(sonar_zap *zap, int domain, const struct request *request) {
    if (domain >= SONAR_DOMAINS || request->frames != FRAMES ||
        request->bytes[CREDENTIALS] != SONAR_KEY_BYTES)
        return false;
    pthread_mutex_lock(&zap->lock);
    bool allowed =
        sonar_keyring_has(&zap->allowed[domain], (const uint8_t *)request->frame[CREDENTIALS]);
    pthread_mutex_unlock(&zap->lock);
    return allowed;
}

/* Of a key, or of an address. */
static void name_owner(const struct request *request, bool key, char owner[SONAR_OWNER_BYTES]) {
    char text[SONAR_KEY_CHARS + 1];
    if (!key)
        sonar_owner_of_address(request->frame[ADDRESS], owner);
    else if (request->bytes[CREDENTIALS] == SONAR_KEY_BYTES &&
             zmq_z85_encode(text, (const uint8_t *)request->frame[CREDENTIALS], SONAR_KEY_BYTES))
        snprintf(owner, SONAR_OWNER_BYTES, "key \"%s\"", text);
    else
        snprintf(owner, SONAR_OWNER_BYTES, "key");
}

/* The status code. An endpoint that speaks CURVE has libzmq ask about nothing else. */
static const char *judge(sonar_zap *zap, const struct request *request,
                         char owner[SONAR_OWNER_BYTES]) {
    const int domain = is_well_formed(request) ? domain_of(request) : -1;
    const bool key = domain >= 0 && says(request, MECHANISM, "CURVE");
    char why[128];
    *owner = '\0';
    if (domain < 0 || (!key && !says(request, MECHANISM, "NULL")))
        return refused;
    name_owner(request, key, owner);
    if (key && !has_key(zap, domain, request)) {
        snprintf(why, sizeof why, "its %s is not one of security.allow_%s", owner,
                 domain_name[domain]);
        log_refusal(zap, request, why);
        return refused;
    }
    sonar_gate *gate = zap->gate[domain];
    if (!gate || sonar_gate_join(gate, owner, sonar_monotonic_ns()))
        return admitted;
    snprintf(why, sizeof why, "%s joins the %s too often", owner, domain_name[domain]);
    log_refusal(zap, request, why);
    return not_now;
}

/* peer, nothing, version, request id, status code, status text, user id, metadata */
static void answer(sonar_zap *zap, const struct asker *to, const char *code, const char *owner) {
    zmq_send(zap->socket, to->peer, to->peer_bytes, ZMQ_SNDMORE);
    zmq_send(zap->socket, "", 0, ZMQ_SNDMORE);
    zmq_send(zap->socket, "1.0", 3, ZMQ_SNDMORE);
    zmq_send(zap->socket, to->id, to->id_bytes, ZMQ_SNDMORE);
    zmq_send(zap->socket, code, 3, ZMQ_SNDMORE);
    zmq_send(zap->socket, "", 0, ZMQ_SNDMORE);
    zmq_send(zap->socket, owner, strlen(owner), ZMQ_SNDMORE);
    zmq_send(zap->socket, "", 0, 0);
}

static void answer_first_late(sonar_zap *zap) {
    answer(zap, &zap->late[zap->late_first].asker, not_now, "");
    zap->late_first = (zap->late_first + 1) % LATE_MOST;
    zap->late_count--;
}

/* Where the ring is full its first gets its answer too early. */
static void answer_late(sonar_zap *zap, const struct asker *to) {
    if (zap->late_count == LATE_MOST)
        answer_first_late(zap);
    zap->late[(zap->late_first + zap->late_count++) % LATE_MOST] =
        (struct late){.due_ns = sonar_monotonic_ns() + late_ns, .asker = *to};
}

/* Milliseconds until the next is due or the thread has to look for floods. */
static long answer_due(sonar_zap *zap) {
    const int64_t now_ns = sonar_monotonic_ns();
    while (zap->late_count && zap->late[zap->late_first].due_ns <= now_ns)
        answer_first_late(zap);
    if (!zap->late_count)
        return tick_ms;
    const long due_ms = (long)((zap->late[zap->late_first].due_ns - now_ns) / 1000000 + 1);
    return due_ms < tick_ms ? due_ms : tick_ms;
}

static void take_request(sonar_zap *zap, const struct request *request) {
    char owner[SONAR_OWNER_BYTES];
    const char *code = judge(zap, request, owner);
    struct asker asker = {
        .peer_bytes = request->bytes[PEER],
        .id_bytes = sonar_min_size(request->bytes[REQUEST], FRAME_BYTES_MOST),
    };
    memcpy(asker.peer, request->frame[PEER], asker.peer_bytes);
    memcpy(asker.id, request->frame[REQUEST], asker.id_bytes);
    if (code == not_now)
        answer_late(zap, &asker);
    else
        answer(zap, &asker, code, code == admitted ? owner : "");
}

/* ---- floods ---------------------------------------------------------------------------------- */

/* At most ten lines a second: each is of connections that had been admitted. */
static void end_floods(sonar_zap *zap) {
    const int64_t now_ns = sonar_monotonic_ns();
    char endpoint[SONAR_GATE_ENDPOINT_BYTES], owner[SONAR_OWNER_BYTES];
    if (now_ns - zap->ticked_ns < tick_ms * 1000000)
        return;
    zap->ticked_ns = now_ns;
    for (int i = 0; i < SONAR_GATES; i++) {
        sonar_gate *gate = zap->gate[i];
        if (!gate || !sonar_gate_is_overrun(gate, endpoint))
            continue;
        const size_t ended = sonar_flood_end(gate, endpoint, owner);
        if (ended)
            sonar_log(zap->host, SONAR_WARN, "security",
                      "ended %zu connections of %s, one of %s: their requests came faster than "
                      "they could be taken",
                      ended, domain_name[i], owner);
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void *zap_main(void *arg) {
    sonar_zap *zap = arg;
    struct request request;
    zmq_pollitem_t items[2] = {{.fd = zap->wake, .events = ZMQ_POLLIN},
                               {.socket = zap->socket, .events = ZMQ_POLLIN}};
    long wait_ms = tick_ms;
    while (!atomic_load(&zap->stopping)) {
        if (zmq_poll(items, 2, wait_ms) < 0 && zmq_errno() != EINTR)
            break; /* the context is being taken away */
        while (!atomic_load(&zap->stopping) && receive(zap->socket, &request)) {
            if (is_question(&request))
                take_request(zap, &request);
            answer_due(zap);
            end_floods(zap);
        }
        end_floods(zap);
        wait_ms = answer_due(zap);
    }
    atomic_store(&zap->ended, true);
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static sonar_code set_up(sonar_zap *zap, void *context, sonar_error *err) {
    const int none = 0;
    zap->wake = sonar_wake_create();
    if (zap->wake < 0)
        return sonar_fail(err, SONAR_ESYS, "security", "eventfd: %s", strerror(errno));
    zap->socket = zmq_socket(context, ZMQ_ROUTER);
    if (!zap->socket || zmq_setsockopt(zap->socket, ZMQ_LINGER, &none, sizeof none) ||
        zmq_bind(zap->socket, endpoint))
        return sonar_fail(err, SONAR_ESYS, "security", "cannot listen for keys at %s: %s", endpoint,
                          zmq_strerror(zmq_errno()));
    sonar_code code =
        sonar_thread_start(zap->host, "sonar-gate", -1, zap_main, zap, &zap->thread, err);
    zap->started = !code;
    return code;
}

sonar_code sonar_zap_create(void *zmq_context, const sonar_host *host, sonar_zap **out,
                            sonar_error *err) {
    *out = NULL;
    sonar_zap *zap = sonar_alloc(1, sizeof *zap);
    if (!zap)
        return sonar_fail(err, SONAR_ENOMEM, "security", "no memory");
    zap->host = host;
    pthread_mutex_init(&zap->lock, NULL);
    sonar_code code = set_up(zap, zmq_context, err);
    if (code)
        sonar_zap_destroy(zap);
    else
        *out = zap;
    return code;
}

void sonar_zap_destroy(sonar_zap *zap) {
    if (!zap)
        return;
    if (zap->started) {
        atomic_store(&zap->stopping, true);
        sonar_wake_signal(zap->wake);
        pthread_join(zap->thread, NULL);
    }
    if (zap->socket)
        zmq_close(zap->socket);
    if (zap->wake >= 0)
        close(zap->wake);
    for (int i = 0; i < SONAR_DOMAINS; i++)
        sonar_keyring_clear(&zap->allowed[i]);
    pthread_mutex_destroy(&zap->lock);
    free(zap);
}

bool sonar_zap_alive(const sonar_zap *zap) {
    return !atomic_load(&zap->ended);
}

sonar_code sonar_zap_allow(sonar_zap *zap, sonar_domain domain, const sonar_keyring *keys,
                           bool *fewer, sonar_error *err) {
    sonar_keyring fresh, old;
    if (!sonar_keyring_copy(keys, &fresh))
        return sonar_fail(err, SONAR_ENOMEM, "security", "no memory for %zu keys", keys->count);
    pthread_mutex_lock(&zap->lock);
    old = zap->allowed[domain];
    zap->allowed[domain] = fresh;
    pthread_mutex_unlock(&zap->lock);
    *fewer = !sonar_keyring_within(&old, keys);
    sonar_keyring_clear(&old);
    return SONAR_OK;
}

void sonar_zap_gate(sonar_zap *zap, sonar_domain domain, sonar_gate *gate) {
    zap->gate[domain] = gate;
}
