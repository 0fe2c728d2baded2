/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Sockets: everything about them that ingest, output and the tools have in common. The rest of the
 * program sends and receives; who may connect, how many, and how much libzmq may hold is decided
 * here. docs/threats.md says what a peer can still cause.
 */
#ifndef SONAR_NET_H
#define SONAR_NET_H

#include <poll.h>
#include <signal.h>
#include <zmq.h>

#include "sonar/sonar.h"

#include "status/result.h"
#include "net/certificate.h"

/* ---- endpoints ------------------------------------------------------------------------------- */

/* zmq_bind and zmq_connect with a sentence for every way to fail; `where` is the endpoint.
 * tcp://localhost is 127.0.0.1, for both: libzmq binds to no name and connects to one address of a
 * name only. At an ipc path only a socket without a listener is replaced; libzmq would also
 * delete a regular file and take the path over from another program. */
sonar_code sonar_endpoint_bind(void *socket, const char *endpoint, sonar_error *err);
sonar_code sonar_endpoint_connect(void *socket, const char *endpoint, sonar_error *err);
/* At the path of an ipc endpoint there is nothing that may not be replaced. */
sonar_code sonar_endpoint_reserve(const char *endpoint, sonar_error *err);
/* Of an endpoint as the configuration accepts it. */
bool sonar_endpoint_is_tcp(const char *endpoint);
bool sonar_endpoint_is_loopback(const char *endpoint); /* TCP that this machine alone reaches */

/* ---- who may connect ------------------------------------------------------------------------- */

/* Those who connect to a socket. The names are the ZAP domains. */
typedef enum sonar_domain {
    SONAR_SENDERS = 0,
    SONAR_READERS,
    SONAR_DOMAINS, /* that have keys */
    SONAR_CONTROLLERS = SONAR_DOMAINS,
    SONAR_GATES
} sonar_domain;
const char *sonar_domain_name(sonar_domain domain);

/* What the configuration says about it; zeroed: TCP in the clear, on loopback only. */
typedef struct sonar_security {
    bool curve; /* on every TCP endpoint */
    sonar_certificate own;
    sonar_keyring allowed[SONAR_DOMAINS];    /* that may connect where the daemon binds */
    size_t servers;                          /* where it connects, public keys of those who bind: */
    char (*server_key)[SONAR_KEY_CHARS + 1]; /* one for each endpoint, or one for all */
    unsigned ipc_mode;                       /* of ipc sockets that the daemon binds; 0: umask's */
    char *credentials_dir;                   /* where keys were looked for first, or NULL */
} sonar_security;

void sonar_security_clear(sonar_security *security);

/* How the endpoints of one socket are guarded. */
typedef struct sonar_guard {
    const sonar_certificate *own; /* TCP speaks CURVE; NULL: it does not. Borrowed */
    sonar_domain domain;
    unsigned ipc_mode;
} sonar_guard;

/* Fills and returns *guard; NULL: security is. */
const sonar_guard *sonar_guard_of(const sonar_security *security, sonar_domain domain,
                                  sonar_guard *guard);

/* As sonar_endpoint_bind and connect, guarded: TCP speaks CURVE, keys are asked of sonar_zap, and
 * the message limit, which the socket has by then, holds for what is in the encrypted message; ipc
 * sockets have their mode. Without a key, TCP beyond loopback is refused (SONAR_EINVAL). The
 * options hold for this endpoint alone; plain ones are bound first (SONAR_ESTATE). guard == NULL:
 * nothing is guarded. */
sonar_code sonar_guard_bind(const sonar_guard *guard, void *socket, const char *endpoint,
                            sonar_error *err);
sonar_code sonar_guard_connect(const sonar_guard *guard, const char *server_key, void *socket,
                               const char *endpoint, sonar_error *err);
/* A client: speaks CURVE with this endpoint, whose server has the public key `server_key`. */
sonar_code sonar_curve_connect(const sonar_certificate *own, const char *server_key, void *socket,
                               const char *endpoint, sonar_error *err);

/* The tools' side. `key` is the path of a client's certificate with the server's key, or NULL;
 * `curve`: the daemon is known to speak it. Connects over TCP with CURVE if there is a key, in the
 * clear otherwise, and over ipc always so; all addresses of a daemon (tcp://0.0.0.0) become
 * loopback. SONAR_EINVAL: a key is needed, or it is no such certificate. */
sonar_code sonar_client_connect(const char *key, bool curve, void *socket, const char *endpoint,
                                sonar_error *err);
sonar_code sonar_client_certificate(const char *key, sonar_certificate *own, sonar_error *err);
/* Why nothing comes, of which libzmq says nothing by itself. Watch before connecting (NULL: no
 * memory, which the others take), forget before the socket is closed. `key`: --key was given. The
 * socket's thread. */
typedef struct sonar_client sonar_client;
typedef enum sonar_client_state {
    SONAR_CLIENT_TRIES = 0, /* nothing is known */
    SONAR_CLIENT_ABSENT,    /* nothing listens there; libzmq goes on trying, as after the next */
    SONAR_CLIENT_HUNG_UP,   /* the other side ended the handshake, as sonard's gate does */
    SONAR_CLIENT_REFUSED,   /* for good: libzmq never tries again */
    SONAR_CLIENT_JOINED
} sonar_client_state;
sonar_client *sonar_client_watch(void *context, void *socket, bool key);
/* What has happened up to now. *why: what to say after the endpoint, "does not allow this key";
 * NULL where there is nothing to say. Waits for a second at most. */
sonar_client_state sonar_client_look(sonar_client *client, const char **why);
void sonar_client_forget(sonar_client *client, void *socket);
/* Asks the server at a TCP endpoint for its mechanism; waits for a second at most. False: it is
 * another one, or nothing answers. Any thread. */
bool sonar_greets_with_curve(const char *endpoint);

/* ---- the gate: how often one peer joins, and what it holds ------------------------------------
 */

/* One thread of libzmq's user does all work that the peers of a socket make, so a peer that joins
 * and leaves without end, or holds what makes each end expensive, takes the time of all others.
 * Peers are told apart by their owner: the address of a TCP peer (of IPv6 the network of 64 bits),
 * the user of an ipc peer, the key where CURVE is spoken. Each owner may join 30 times at once and
 * 5 times a second, all together 48 times and 24 times a second; a subscription costs a sixteenth
 * of that, and who has to be hung up on stays out for some seconds. Who is refused takes nothing
 * from the others. Any thread. */
typedef struct sonar_gate sonar_gate;
enum { SONAR_OWNER_BYTES = 64 };

/* places_most: connections of one owner. NULL: no memory. */
sonar_gate *sonar_gate_create(size_t places_most);
void sonar_gate_destroy(sonar_gate *gate);
/* May it join now? */
bool sonar_gate_join(sonar_gate *gate, const char *owner, int64_t now_ns);
/* It has sent a request; hung_up: one too many, for which it is hung up on. */
void sonar_gate_pay(sonar_gate *gate, const char *owner, bool hung_up, int64_t now_ns);
/* Takes a place, or holds `bytes` of subscriptions to what is no topic, until they are given
 * back. False: it has as many as it may, and has taken nothing. */
bool sonar_gate_enter(sonar_gate *gate, const char *owner, int64_t now_ns);
bool sonar_gate_hold(sonar_gate *gate, const char *owner, size_t bytes, int64_t now_ns);
void sonar_gate_give_back(sonar_gate *gate, const char *owner, size_t places, size_t bytes);

/* The calling thread serves the gate's peers at this endpoint from now on; NULL: it has ended. It
 * says each time that it has come out of libzmq, and whether it has taken all requests. Until it
 * has, the gate admits 8 peers more, so that peers that join and leave cannot make work faster than
 * the thread does it. Both do nothing without a gate (NULL). */
enum { SONAR_GATE_ENDPOINT_BYTES = 256 };
void sonar_gate_attend(sonar_gate *gate, const char *endpoint);
void sonar_gate_round(sonar_gate *gate, bool caught_up);
/* True, with the endpoint, if that thread has used 50 ms of processor time since its last round, or
 * since this was true. One other thread, some ten times a second. */
bool sonar_gate_is_overrun(sonar_gate *gate, char endpoint[SONAR_GATE_ENDPOINT_BYTES]);
/* Ends the connections at the endpoint whose requests wait because the thread does not keep up, and
 * has their owners pay. How many; *owner: one of them. That other thread. */
size_t sonar_flood_end(sonar_gate *gate, const char *endpoint, char owner[SONAR_OWNER_BYTES]);
/* Connections ended so, to be added and to be read. Any thread. */
void sonar_gate_count_ended(sonar_gate *gate, uint64_t connections);
uint64_t sonar_gate_ended(sonar_gate *gate);

/* By the address that libzmq tells, and of an accepted connection; false: it is none any more. */
void sonar_owner_of_address(const char *address, char owner[SONAR_OWNER_BYTES]);
bool sonar_owner_of_connection(int fd, char owner[SONAR_OWNER_BYTES]);

/* Answers libzmq's questions about who connects, in a thread of its own, for all sockets of a
 * context, and ends connections that overrun a gate's thread. To be made before the first of them
 * binds and destroyed after the last is closed. No key is allowed at first. Refusals are logged, at
 * most one line a second. Whoever is admitted has its owner in its messages' property "User-Id". */
typedef struct sonar_zap sonar_zap;
sonar_code sonar_zap_create(void *zmq_context, const sonar_host *host, sonar_zap **zap,
                            sonar_error *err);
void sonar_zap_destroy(sonar_zap *zap);
/* False once the thread has ended by itself because its socket failed: libzmq then admits no one.
 * Any thread. */
bool sonar_zap_alive(const sonar_zap *zap);
/* From now on these keys may connect to sockets of the domain, and no other. *fewer: some that
 * might before may not any more; connections that have been let in stay until they are cut. Any
 * thread; SONAR_ENOMEM, and nothing has changed. */
sonar_code sonar_zap_allow(sonar_zap *zap, sonar_domain domain, const sonar_keyring *keys,
                           bool *fewer, sonar_error *err);
/* Who joins this domain is asked of the gate, which is borrowed. Who comes too often is hung up on
 * in the handshake, after 200 ms, and libzmq's clients come back by themselves. Before its socket
 * is bound. */
void sonar_zap_gate(sonar_zap *zap, sonar_domain domain, sonar_gate *gate);

/* ---- sockets --------------------------------------------------------------------------------- */

/* Each kind of peer has I/O threads of its own, so that no reader takes time from the threads that
 * samples come in by. The context has SONAR_IO_OTHERS more than the samples need. */
enum { SONAR_IO_OTHERS = 2 };
#define SONAR_IO_RESULTS ((uint64_t)1 << 0)
#define SONAR_IO_CONTROL ((uint64_t)1 << 1)
#define SONAR_IO_SAMPLES (~(SONAR_IO_RESULTS | SONAR_IO_CONTROL))

typedef struct sonar_socket_spec {
    int type;                      /* ZMQ_PULL, ... */
    int messages_out, messages_in; /* kept per peer: for it, from it */
    int64_t message_bytes; /* largest part accepted; libzmq ends the connection of a larger one */
    uint64_t io_threads;   /* of libzmq that serve it, as ZMQ_AFFINITY has them; 0: any */
} sonar_socket_spec;

/* A socket with the daemon's common options: limits, keepalive, IPv6, no linger. SONAR_ESYS with
 * `where` if it cannot be made. The caller closes it in the thread that opened it. */
sonar_code sonar_socket_open(void *context, const sonar_socket_spec *spec, const char *where,
                             void **socket, sonar_error *err);

/* Before binding or connecting: has the kernel find out within some 6 s that the host of a quiet
 * peer is gone; libzmq then reconnects. Changes nothing for ipc. False, with errno, if refused.
 *
 * In place of ZMTP heartbeats, for which libzmq hangs up on a healthy peer that is not being read
 * and whose timer can abort the process (docs/protocol.md). Without
 * ZMQ_TCP_MAXRT: it sets TCP_USER_TIMEOUT, by which the kernel also hangs up on a peer that is
 * alive but holds its sender back for so long, as a reader that is paused does, and a daemon with
 * `overload: block`. The price: while data for it is on its way, a vanished host is found out by
 * retransmission only, after some 15 minutes. Meanwhile it holds its high-water mark, no more. */
bool sonar_socket_keepalive(void *socket);

/* ---- connections of this process ------------------------------------------------------------- */

/* Their descriptors, into fd[most]; how many. libzmq's I/O thread may close one at any time, so a
 * copy is looked at, not what was listed. Any thread. */
size_t sonar_connections_list(int *fd, size_t most);
/* To be closed; -1: it is no connection any more, or there is no descriptor left. */
int sonar_connection_copy(int fd);
/* Is the descriptor a connection one end of which, this or the other, has the endpoint's path or
 * port? */
bool sonar_connection_is_at(int fd, const char *endpoint, bool other_end);

/* ---- the end of a sender --------------------------------------------------------------------- */

/* A receiver that holds its senders back loses the end of a stream whose sender hangs up meanwhile:
 * libzmq (4.3.4, stream_engine_base_t::in_event_internal) then takes the end of the connection for
 * an error of it and drops what the kernel still has. A sender that is to lose nothing therefore
 * keeps its connections while libzmq closes them, tells the receiver only that nothing follows, and
 * leaves when the receiver has read that. */
enum { SONAR_HELD_MOST = 1024 };
typedef struct sonar_held {
    size_t count;
    struct pollfd connection[SONAR_HELD_MOST];
} sonar_held;

/* Keeps the connections of this process to the last endpoint that each of the sockets[count] was
 * bound or, if they are not `bound`, connected to; those beyond the most are left alone. Before
 * zmq_close. */
void sonar_connections_hold(sonar_held *held, void *const *sockets, size_t count, bool bound);
/* After zmq_ctx_term, when the kernel has everything. Waits until the receivers have read it, for
 * up to timeout_ms (-1: no limit) or until *stop is set. False: at least one had not. */
bool sonar_connections_release(sonar_held *held, int timeout_ms, const volatile sig_atomic_t *stop);

/* ---- peers: who is connected to one socket --------------------------------------------------- */

/* libzmq has no limit on connections. These are counted through the socket's monitor, and one too
 * many, of all or of one owner, is shut down. All of it belongs to the thread that owns the socket.
 */
typedef struct sonar_peers sonar_peers;

/* Fewer where the process may open few files. */
enum { SONAR_PEERS_MOST = 1024, SONAR_PEERS_OF_CONTROL = 128 };

/* `most` at once, with `gate` (borrowed; or NULL) as many of one owner as that allows. NULL: no
 * memory. */
sonar_peers *sonar_peers_create(void *zmq_context, size_t most, sonar_gate *gate);
void sonar_peers_destroy(sonar_peers *peers);
/* After the socket is made and before it binds or connects; SONAR_ESYS. Forget comes before the
 * socket is closed. */
sonar_code sonar_peers_watch(sonar_peers *peers, void *socket, sonar_error *err);
void sonar_peers_forget(sonar_peers *peers, void *socket);
/* The ZeroMQ socket that becomes readable when connections come and go, to be waited for beside the
 * watched one; NULL while nothing is watched. A crowd is then refused as fast as it comes: on an
 * ipc endpoint libzmq aborts where it finds no file descriptor for a connection. */
void *sonar_peers_events(const sonar_peers *peers);
/* Takes what has happened since, and refuses connections beyond the limit. Never waits; to be
 * called when there are events and some ten times a second, for what is not taken is kept in
 * memory. */
void sonar_peers_tick(sonar_peers *peers, int64_t now_ns);
/* An endpoint that the socket connects to is given up by libzmq, which reconnects after every
 * end of a connection but one for a violation of the protocol, such as a message above the limit.
 */
bool sonar_peers_given_up(const sonar_peers *peers, int64_t now_ns);
/* Takes note of a request of `bytes`, `foreign` if they are a subscription to what is no
 * topic; ends its connection if that is more than a peer may ask for. Foreign bytes are given back
 * when the connection ends. */
void sonar_peers_charge(sonar_peers *peers, zmq_msg_t *request, size_t bytes, bool foreign);
/* Ends all connections; whoever may still connect comes back by himself. hang_up: their owners held
 * too much, and stay out for some seconds. */
void sonar_peers_cut_all(sonar_peers *peers);
void sonar_peers_hang_up(sonar_peers *peers);
size_t sonar_peers_connected(const sonar_peers *peers);
/* Sets what is known here: connections that came, were let in, failed and were refused. The thread
 * that owns the counters (core/count.h). */
void sonar_peers_count(const sonar_peers *peers, sonar_peer_counters *count);

/* ---- memory that peers hold ------------------------------------------------------------------ */

/* libzmq hands a message over when its last part has come, so the parts of one that never ends are
 * invisible to the application, and neither the high-water mark nor ZMQ_MAXMSGSIZE counts them.
 * What can be seen is the memory of the process. The sockets of a process share one watch; each
 * says what its peers may hold by its high-water mark, and reopens where the sum is exceeded. */
typedef struct sonar_memory sonar_memory;
typedef enum sonar_memory_side {
    SONAR_MEMORY_IN = 0,
    SONAR_MEMORY_OUT,
    SONAR_MEMORY_CONTROL,
    SONAR_MEMORY_SIDES
} sonar_memory_side;

/* root: where the machine's memory and the limits of its control groups are read (core/room.h), ""
 * but in tests. NULL: no memory. */
sonar_memory *sonar_memory_create(const char *root);
void sonar_memory_destroy(sonar_memory *memory);
/* What the process holds from now on is beyond what it needs by itself: before the sockets open,
 * and before peers can have sent much. */
void sonar_memory_begin(sonar_memory *memory);
/* `messages` messages of `bytes` bytes may wait for or from each of `peers` peers. That is believed
 * up to a quarter of the machine's memory. Any thread. */
void sonar_memory_allow(sonar_memory *memory, sonar_memory_side side, size_t peers, size_t messages,
                        size_t bytes);
/* Memory of digitisers is mapped: it counts as the process's own. Any thread. */
void sonar_memory_map(sonar_memory *memory, size_t bytes);
/* True if this side is to end its connections, or to close its socket and open it again: at once if
 * its threads were the ones that touched new memory lately, otherwise only where that has not
 * helped, the samples' socket after 5 s and the others after 1 s. At most once in 3 s; what neither
 * gives back is taken for the process's own. Some ten times a second, one thread for each side. */
bool sonar_memory_exceeded(sonar_memory *memory, sonar_memory_side side, int64_t now_ns);
/* Of the process, 0 if unknown. Any thread. */
size_t sonar_resident_bytes(void);

#endif
