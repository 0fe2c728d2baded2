/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The ingest threads receive messages from the socket and pass them to the assembler. They take
 * turns: one thread waits for the socket, takes one message and lets the assembler decide about it.
 * Then the next thread waits, while the first one books the samples. */
#include "ingest/ingest.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "core/count.h"
#include "net/shared.h"
#include "ingest/assembler.h"
#include "ingest/socket.h"

enum { TICK_MS = 100 };

/* A message that one thread is processing. */
struct message {
    zmq_msg_t header, samples;
    bool two_parts, shared;   /* shared: the block must be returned */
    sonar_shared_block block; /* the samples, unless they were copied to keep them unchanged */
};

struct sonar_ingest {
    const sonar_host *host;
    sonar_assembler *assembler;
    int cpu;
    bool block, fed;
    int64_t restart_ns; /* spec.restart_after_ms */
    sonar_ingest_socket socket;
    sonar_segments *segments; /* may be NULL */
    size_t threads;
    pthread_t thread[SONAR_INGEST_THREADS_MOST];
    bool running;
    pthread_mutex_t turn; /* protects the socket and what was received on it */
    sem_t opened;         /* posted once open_code and open_error are set */
    sonar_code open_code;
    sonar_error open_error;
    atomic_bool stopping, alive;
    bool drained;      /* a message was not waiting at least once since the last tick */
    int windows_fd;    /* wakes the data thread */
    int control_fd;    /* wakes the ingest thread: stop, or a window was released */
    bool failed;       /* the socket can no longer be used */
    atomic_bool waits; /* a frame or a window waits for room */
    bool again;        /* begin must be called again with the waiting frame */
    struct message
        *waiting; /* moved here, because small messages are stored in the struct itself */
    struct message message[SONAR_INGEST_THREADS_MOST + 1];
    int64_t next_tick_ns;
    _Atomic uint64_t signalled_offered,
        signalled_ready;  /* what the data thread was last woken for */
    pthread_mutex_t lock; /* protects the two below; the waiting thread never blocks on it */
    sonar_ingest_report report;
    bool report_read;
};

/* ---- messages -------------------------------------------------------------------------------- */

/* Discards the rest of a message that has too many parts. */
static void drain(sonar_ingest *ingest) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    while (zmq_msg_recv(&part, ingest->socket.zmq, 0) >= 0 && zmq_msg_more(&part))
        continue;
    zmq_msg_close(&part);
}

static void open_message(struct message *m) {
    m->two_parts = m->shared = false;
    zmq_msg_init(&m->header);
    zmq_msg_init(&m->samples);
}

static void close_message(const sonar_ingest *ingest, struct message *m) {
    if (m->shared)
        sonar_segments_give_back(ingest->segments, &m->block);
    zmq_msg_close(&m->header);
    zmq_msg_close(&m->samples);
}

struct helper {
    sonar_ingest *ingest;
    struct message *message;
};

/* Receives one message, if there is one. Parts of a message arrive together, so only the first may
 * be absent. Returns 0, or -1 with errno. */
static int receive(sonar_ingest *ingest, struct message *m) {
    m->two_parts = false;
    if (zmq_msg_recv(&m->header, ingest->socket.zmq, ZMQ_DONTWAIT) < 0)
        return -1;
    if (!zmq_msg_more(&m->header))
        return 0;
    if (zmq_msg_recv(&m->samples, ingest->socket.zmq, 0) < 0)
        return -1;
    ingest->socket.largest_bytes =
        sonar_max_size(ingest->socket.largest_bytes, zmq_msg_size(&m->samples));
    m->two_parts = !zmq_msg_more(&m->samples);
    if (!m->two_parts)
        drain(ingest);
    return 0;
}

/* Samples that the digitiser may still change cannot be checked first and stored later. f32 samples
 * must be checked to be finite, so they are copied first. */
static sonar_payload copy_of(struct message *m, sonar_payload shared) {
    zmq_msg_t copy;
    if (zmq_msg_init_size(&copy, shared.bytes) != 0)
        return (sonar_payload){.fault = SONAR_FRAME_NO_SEGMENT};
    memcpy(zmq_msg_data(&copy), shared.data, shared.bytes);
    zmq_msg_move(&m->samples, &copy);
    zmq_msg_close(&copy);
    if (!sonar_payload_holds(&shared))
        return (sonar_payload){.fault = SONAR_FRAME_OVERWRITTEN};
    return (sonar_payload){.data = zmq_msg_data(&m->samples), .bytes = shared.bytes};
}

static sonar_payload payload_of_shared(sonar_ingest *ingest, struct message *m,
                                       const sonar_frame *frame) {
    if (!m->shared) /* a shared message begins again with begin */
        m->shared =
            ingest->segments && sonar_segments_find(ingest->segments, zmq_msg_data(&m->samples),
                                                    zmq_msg_size(&m->samples), &m->block);
    if (!m->shared)
        return (sonar_payload){.fault = SONAR_FRAME_NO_SEGMENT};
    const uint64_t wanted = sonar_frame_payload_bytes(frame);
    const sonar_payload payload = {.data = m->block.data,
                                   .bytes =
                                       wanted < m->block.bytes ? (size_t)wanted : m->block.bytes,
                                   .counter = m->block.counter,
                                   .count = m->block.count};
    if (!sonar_payload_holds(&payload))
        return (sonar_payload){.fault = SONAR_FRAME_OVERWRITTEN};
    return frame->type == SONAR_F32 ? copy_of(m, payload) : payload;
}

static sonar_payload payload_of(sonar_ingest *ingest, struct message *m) {
    sonar_frame frame;
    if (sonar_frame_decode(zmq_msg_data(&m->header), zmq_msg_size(&m->header), &frame, NULL) ==
            SONAR_OK &&
        frame.flags & SONAR_FRAME_SHARED)
        return payload_of_shared(ingest, m, &frame);
    return (sonar_payload){.data = zmq_msg_data(&m->samples), .bytes = zmq_msg_size(&m->samples)};
}

/* Lets the assembler decide about the message; keeps a message that has to wait. */
static sonar_turn begin_message(sonar_ingest *ingest, struct message **mine,
                                sonar_booking *booking) {
    struct message *m = *mine;
    if (!m->two_parts) {
        sonar_assembler_malformed(ingest->assembler);
        return SONAR_TURN_OVER;
    }
    const sonar_payload payload = payload_of(ingest, m);
    sonar_turn turn =
        sonar_assembler_begin(ingest->assembler, zmq_msg_data(&m->header), zmq_msg_size(&m->header),
                              &payload, sonar_monotonic_ns(), booking);
    if (turn == SONAR_TURN_WAITS || turn == SONAR_TURN_AGAIN) {
        *mine = ingest->waiting;
        ingest->waiting = m;
        ingest->again = turn == SONAR_TURN_AGAIN;
        ingest->waits = true;
    }
    return turn;
}

/* There is room again. True: a message has to begin again. */
static bool end_wait(sonar_ingest *ingest, struct message **mine) {
    struct message *m = ingest->waiting;
    bool again = ingest->again;
    ingest->again = false;
    ingest->waits = false;
    if (again) {
        ingest->waiting = *mine;
        *mine = m;
    } else {
        close_message(ingest, m);
        open_message(m);
    }
    return again;
}

/* Wakes the data thread if windows or chunks have been completed since the last call. */
static void wake_data_thread(sonar_ingest *ingest) {
    uint64_t offered = sonar_assembler_offered(ingest->assembler);
    uint64_t ready = sonar_assembler_ready(ingest->assembler);
    bool more = atomic_exchange(&ingest->signalled_offered, offered) != offered;
    if (atomic_exchange(&ingest->signalled_ready, ready) != ready || more)
        sonar_wake_signal(ingest->windows_fd);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Waits for messages (unless a frame waits for room, or the socket is being reopened), for
 * connections that come and go, or for control. -1: the context is terminated. */
static int wait_for_work(sonar_ingest *ingest, bool wants_messages) {
    zmq_pollitem_t items[3] = {
        {.fd = ingest->control_fd, .events = ZMQ_POLLIN},
        {.socket = sonar_peers_events(ingest->socket.peers), .events = ZMQ_POLLIN},
        {.socket = ingest->socket.zmq, .events = ZMQ_POLLIN}};
    int count = !ingest->socket.zmq ? 1 : wants_messages ? 3 : 2;
    int ready = zmq_poll(items, count, TICK_MS);
    if (ready < 0 && errno != EINTR)
        return -1;
    if (ready > 0 && items[0].revents)
        sonar_wake_clear(ingest->control_fd);
    if (ready > 0 && items[1].revents)
        sonar_peers_tick(ingest->socket.peers, sonar_monotonic_ns());
    return 0;
}

/* Skips a report while another thread reads the last one. */
static void publish_report(sonar_ingest *ingest) {
    if (pthread_mutex_trylock(&ingest->lock))
        return;
    sonar_assembler_report(ingest->assembler, ingest->report_read, &ingest->report);
    ingest->report_read = false;
    pthread_mutex_unlock(&ingest->lock);
}

static void tick(sonar_ingest *ingest) {
    int64_t now_ns = sonar_monotonic_ns();
    if (now_ns < ingest->next_tick_ns)
        return;
    sonar_assembler_tick(ingest->assembler, now_ns);
    sonar_assembler_load(ingest->assembler, !ingest->drained);
    ingest->drained = false;
    publish_report(ingest);
    if (!ingest->fed)
        sonar_ingest_socket_tick(&ingest->socket, now_ns);
    ingest->next_tick_ns = now_ns + (int64_t)TICK_MS * 1000000;
}

/* A thread's turn: takes a message, after waiting for one if there is none. */
static sonar_turn take_turn(sonar_ingest *ingest, struct message **m, sonar_booking *booking) {
    sonar_turn turn = SONAR_TURN_OVER;
    tick(ingest); /* first, because it may wait until all threads have booked their frames */
    bool taken = ingest->waits && sonar_assembler_resume(ingest->assembler) && end_wait(ingest, m);
    bool wants = !ingest->waits;
    taken = taken || (wants && ingest->socket.zmq && receive(ingest, *m) == 0);
    if (taken) {
        turn = begin_message(ingest, m, booking);
    } else if (wants && ingest->socket.zmq && errno != EAGAIN && errno != EINTR) {
        ingest->failed = true;
    } else {
        ingest->drained = ingest->drained || wants;
        wake_data_thread(ingest);
        ingest->failed = wait_for_work(ingest, wants) != 0;
    }
    return turn;
}

static void receive_until_stopped(sonar_ingest *ingest, struct message *m) {
    for (bool go_on = true; go_on;) {
        sonar_booking booking;
        sonar_turn turn = SONAR_TURN_OVER;
        pthread_mutex_lock(&ingest->turn);
        go_on = !ingest->failed && !atomic_load(&ingest->stopping);
        if (go_on)
            turn = take_turn(ingest, &m, &booking);
        pthread_mutex_unlock(&ingest->turn);
        if (turn == SONAR_TURN_BOOK && !sonar_assembler_book(ingest->assembler, &booking))
            atomic_store(&ingest->waits, true);
        wake_data_thread(ingest);
        close_message(ingest, m);
        open_message(m);
    }
}

static void *helper_main(void *arg) {
    struct helper *helper = arg;
    receive_until_stopped(helper->ingest, helper->message);
    return NULL;
}

/* The first thread; it starts and joins the others. A thread that cannot be started is omitted. */
static void receive_with_helpers(sonar_ingest *ingest) {
    struct helper helper[SONAR_INGEST_THREADS_MOST];
    sonar_error err;
    size_t started = 1;
    for (sonar_code code = SONAR_OK; started < ingest->threads && !code; started += !code) {
        helper[started] = (struct helper){ingest, &ingest->message[started]};
        code = sonar_thread_start(ingest->host, "sonar-ingest", -1, helper_main, &helper[started],
                                  &ingest->thread[started], &err);
    }
    if (started < ingest->threads)
        sonar_log(ingest->host, SONAR_WARN, "ingest", "%zu threads instead of %zu: %s", started,
                  ingest->threads, err.text);
    receive_until_stopped(ingest, &ingest->message[0]);
    while (started > 1)
        pthread_join(ingest->thread[--started], NULL);
    sonar_assembler_abandon(ingest->assembler);
    sonar_assembler_end(ingest->assembler);
    for (size_t i = 0; i <= SONAR_INGEST_THREADS_MOST; i++) {
        close_message(ingest, &ingest->message[i]);
        open_message(&ingest->message[i]);
    }
    ingest->waiting = &ingest->message[SONAR_INGEST_THREADS_MOST];
    ingest->waits = ingest->again = false;
}

/* This thread opens and closes the socket; start waits for the outcome of the opening. */
static void *ingest_main(void *arg) {
    sonar_ingest *ingest = arg;
    ingest->open_code = sonar_ingest_socket_open(&ingest->socket, &ingest->open_error);
    bool open = ingest->open_code == SONAR_OK;
    atomic_store(&ingest->alive, open);
    ingest->failed = false;
    sem_post(&ingest->opened);
    if (open)
        receive_with_helpers(ingest);
    sonar_ingest_socket_close(&ingest->socket);
    atomic_store(&ingest->alive, false);
    return NULL;
}

/* ---- frames that the program brings itself --------------------------------------------------- */

/* The data thread took or released a window, or timeout_ms have passed. */
static void await_release(sonar_ingest *ingest, int timeout_ms) {
    sonar_wake_wait(ingest->control_fd, timeout_ms);
    sonar_wake_clear(ingest->control_fd);
}

/* True: the frame is finished, accepted or not. */
static bool feed_once(sonar_ingest *ingest, const void *header, size_t header_bytes,
                      const sonar_payload *payload) {
    sonar_booking booking;
    const sonar_turn turn = sonar_assembler_begin(ingest->assembler, header, header_bytes, payload,
                                                  sonar_monotonic_ns(), &booking);
    const bool over = turn == SONAR_TURN_BOOK ? sonar_assembler_book(ingest->assembler, &booking)
                                              : turn == SONAR_TURN_OVER;
    ingest->again = turn == SONAR_TURN_AGAIN;
    ingest->waits = !over;
    return over;
}

bool sonar_ingest_feed(sonar_ingest *ingest, const void *header, size_t header_bytes,
                       const void *payload, size_t payload_bytes, int timeout_ms) {
    const sonar_payload what = {.data = payload, .bytes = payload_bytes};
    ingest->drained = true; /* there is no message that waits behind this one */
    tick(ingest);
    bool over = !ingest->waits && feed_once(ingest, header, header_bytes, &what);
    wake_data_thread(ingest);
    if (!over)
        await_release(ingest, timeout_ms);
    if (!over && sonar_assembler_resume(ingest->assembler)) {
        ingest->waits = false;
        over = !ingest->again || feed_once(ingest, header, header_bytes, &what);
    }
    wake_data_thread(ingest);
    return over;
}

/* A queue that nothing waits in has room: what is not offered then is incomplete. */
bool sonar_ingest_finish(sonar_ingest *ingest, int timeout_ms) {
    const bool room = !sonar_assembler_waiting(ingest->assembler);
    const uint64_t offered = sonar_assembler_offered(ingest->assembler);
    sonar_assembler_tick(ingest->assembler, sonar_monotonic_ns() + ingest->restart_ns);
    wake_data_thread(ingest);
    if (room && sonar_assembler_offered(ingest->assembler) == offered)
        return true;
    await_release(ingest, timeout_ms);
    return false;
}

/* ---- life ------------------------------------------------------------------------------------ */

static sonar_code set_up(sonar_ingest *ingest, const sonar_ingest_spec *spec, sonar_error *err) {
    sonar_code code = spec->fed ? SONAR_OK : sonar_ingest_socket_create(&ingest->socket, spec, err);
    if (code)
        return code;
    ingest->windows_fd = sonar_wake_create();
    ingest->control_fd = sonar_wake_create();
    if (ingest->windows_fd < 0 || ingest->control_fd < 0)
        return sonar_fail(err, SONAR_ESYS, "ingest", "cannot make an eventfd: %s", strerror(errno));
    return sonar_assembler_create(spec, &ingest->assembler, err);
}

sonar_code sonar_ingest_create(const sonar_ingest_spec *spec, const sonar_host *host,
                               sonar_ingest **out, sonar_error *err) {
    *out = NULL;
    const bool sockets = spec->zmq_context && spec->endpoint_count && spec->high_water_mark > 0;
    if (!spec->fed && !sockets)
        return sonar_fail(err, SONAR_EINVAL, "ingest",
                          "a context, an endpoint and a high-water mark above 0 are needed");
    sonar_ingest *ingest = sonar_alloc(1, sizeof *ingest);
    if (!ingest)
        return sonar_fail(err, SONAR_ENOMEM, "ingest", "no memory for the receiver");
    ingest->host = host;
    ingest->segments = spec->segments;
    ingest->block = spec->overload == SONAR_BLOCK;
    ingest->fed = spec->fed;
    ingest->restart_ns = (int64_t)spec->restart_after_ms * 1000000;
    ingest->cpu = spec->cpu;
    ingest->threads = sonar_min_size(sonar_max_size(spec->threads, 1), SONAR_INGEST_THREADS_MOST);
    ingest->windows_fd = ingest->control_fd = -1;
    sem_init(&ingest->opened, 0, 0);
    pthread_mutex_init(&ingest->lock, NULL);
    pthread_mutex_init(&ingest->turn, NULL);
    for (size_t i = 0; i <= SONAR_INGEST_THREADS_MOST; i++)
        open_message(&ingest->message[i]);
    ingest->waiting = &ingest->message[SONAR_INGEST_THREADS_MOST];
    sonar_code code = set_up(ingest, spec, err);
    if (code) {
        sonar_ingest_destroy(ingest);
        return code;
    }
    *out = ingest;
    return SONAR_OK;
}

sonar_code sonar_ingest_start(sonar_ingest *ingest, sonar_error *err) {
    if (ingest->running)
        return sonar_fail(err, SONAR_ESTATE, "ingest", "ingest is running already");
    atomic_store(&ingest->stopping, false);
    if (ingest->fed) {
        ingest->running = true;
        atomic_store(&ingest->alive, true);
        return SONAR_OK;
    }
    sonar_code code = sonar_thread_start(ingest->host, "sonar-ingest", ingest->cpu, ingest_main,
                                         ingest, &ingest->thread[0], err);
    if (code)
        return code;
    ingest->running = true;
    while (sem_wait(&ingest->opened) != 0 && errno == EINTR)
        continue;
    if (ingest->open_code == SONAR_OK)
        return SONAR_OK;
    sonar_ingest_stop(ingest);
    return sonar_fail(err, ingest->open_code, ingest->open_error.where, "%s",
                      ingest->open_error.text);
}

void sonar_ingest_stop(sonar_ingest *ingest) {
    if (!ingest || !ingest->running)
        return;
    ingest->running = false;
    if (ingest->fed) {
        sonar_assembler_abandon(ingest->assembler);
        sonar_assembler_end(ingest->assembler);
        atomic_store(&ingest->alive, false);
        return;
    }
    atomic_store(&ingest->stopping, true);
    sonar_wake_signal(ingest->control_fd);
    pthread_join(ingest->thread[0], NULL);
}

void sonar_ingest_destroy(sonar_ingest *ingest) {
    if (!ingest)
        return;
    sonar_ingest_stop(ingest);
    sem_destroy(&ingest->opened);
    pthread_mutex_destroy(&ingest->lock);
    pthread_mutex_destroy(&ingest->turn);
    for (size_t i = 0; i <= SONAR_INGEST_THREADS_MOST; i++)
        close_message(ingest, &ingest->message[i]);
    sonar_assembler_destroy(ingest->assembler);
    sonar_ingest_socket_destroy(&ingest->socket);
    if (ingest->windows_fd >= 0)
        close(ingest->windows_fd);
    if (ingest->control_fd >= 0)
        close(ingest->control_fd);
    free(ingest);
}

/* ---- data thread ----------------------------------------------------------------------------- */

int sonar_ingest_fd(const sonar_ingest *ingest) {
    return ingest->windows_fd;
}

/* Cleared first and set again if more windows wait, so that the descriptor stays readable while a
 * window waits, in whatever order the caller uses poll and take. */
bool sonar_ingest_take(sonar_ingest *ingest, sonar_window *window) {
    sonar_wake_clear(ingest->windows_fd);
    if (!sonar_assembler_take(ingest->assembler, window))
        return false;
    if (sonar_assembler_waiting(ingest->assembler))
        sonar_wake_signal(ingest->windows_fd);
    if (ingest->block)
        sonar_wake_signal(ingest->control_fd);
    return true;
}

bool sonar_ingest_waiting(const sonar_ingest *ingest) {
    return sonar_assembler_waiting(ingest->assembler) > 0;
}

void sonar_ingest_release(sonar_ingest *ingest, const sonar_window *window) {
    sonar_assembler_release(ingest->assembler, window);
    if (ingest->block)
        sonar_wake_signal(ingest->control_fd);
}

void sonar_ingest_use(sonar_ingest *ingest, const uint8_t *channel_used) {
    sonar_assembler_use(ingest->assembler, channel_used);
}

uint64_t sonar_ingest_ready(const sonar_ingest *ingest) {
    return sonar_assembler_ready(ingest->assembler);
}

sonar_buffer sonar_ingest_ring(const sonar_ingest *ingest) {
    return sonar_assembler_ring(ingest->assembler);
}

void sonar_ingest_cut_all(sonar_ingest *ingest) {
    atomic_store(&ingest->socket.cut, true);
}

bool sonar_ingest_alive(const sonar_ingest *ingest) {
    return atomic_load(&ingest->alive);
}

void sonar_ingest_read_counters(const sonar_ingest *ingest, sonar_ingest_counters *counters) {
    sonar_assembler_read_counters(ingest->assembler, counters);
    sonar_count_copy(&counters->peers, &ingest->socket.count, sizeof counters->peers);
}

void sonar_ingest_read_report(sonar_ingest *ingest, sonar_ingest_report *report) {
    pthread_mutex_lock(&ingest->lock);
    *report = ingest->report;
    ingest->report_read = true;
    pthread_mutex_unlock(&ingest->lock);
    /* The rest is up to 0.1 s old; refused frames must not lag behind their counters. */
    sonar_assembler_read_refused(ingest->assembler, report->refused);
}
