/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Times ingest at the rates of large arrays: the assembler alone, fed from memory, and the whole
 * ingest with digitisers that push over ipc as fast as possible. The peer of that is one thread
 * that receives the same messages from the same digitisers and does nothing with them. Samples have
 * 16 bits, in messages of 1 MiB with a block of channels each; windows are taken and released
 * unread. */
#include "bench.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "ingest/assembler.h"
#include "ingest/frame.h"
#include "net/net.h"

enum { SAMPLES = 256, BLOCK = 2048, HOP = 2048, PAYLOADS = 16, DIGITISERS = 4 };
enum { PAYLOAD_BYTES = SAMPLES * BLOCK * 2, QUEUED = 4 };

static const size_t channel_counts[] = {2048, 32768, 131072};
static const size_t thread_counts[] = {1, 2, 4};

typedef struct trial {
    size_t channels, threads;
    uint8_t layout;
    double min_time_s;
    uint8_t *payload; /* [PAYLOADS][PAYLOAD_BYTES] */
    const char *endpoint;
} trial;

static sonar_ingest_spec spec_of(const trial *t) {
    return (sonar_ingest_spec){.endpoints = &t->endpoint,
                               .endpoint_count = 1,
                               .high_water_mark = QUEUED,
                               .max_message_bytes = PAYLOAD_BYTES,
                               .channels = t->channels,
                               .fs_hz = 8000,
                               .window_length = HOP,
                               .hop = HOP,
                               .queue_windows = 1,
                               .overload = SONAR_BLOCK,
                               .max_missing_share = 1,
                               .max_skew_samples = HOP,
                               .restart_after_ms = 1000,
                               .silent_after_ms = 1000,
                               .cpu = -1,
                               .threads = t->threads,
                               .sample_type = SONAR_S16};
}

static void write_header(const trial *t, size_t block, uint64_t step, uint8_t *header) {
    const sonar_frame frame = {.first_channel = (uint32_t)(block * BLOCK),
                               .channels = BLOCK,
                               .samples = SAMPLES,
                               .type = SONAR_S16,
                               .layout = t->layout,
                               .epoch = 1,
                               .sequence = step,
                               .first_sample = step * SAMPLES,
                               .fs_hz = 8000};
    sonar_frame_encode(&frame, header);
}

static uint8_t *payload_of(const trial *t, size_t block, uint64_t step) {
    return t->payload + (block + step) % PAYLOADS * PAYLOAD_BYTES;
}

/* ---- the assembler alone --------------------------------------------------------------------- */

/* Threads that take the frames of one hop in turn, as the ingest threads take messages. */
typedef struct feeders {
    const trial *trial;
    sonar_assembler *assembler;
    pthread_mutex_t turn;
    uint64_t next, end; /* frame indices over blocks and steps */
    bool failed;
} feeders;

static bool feed_one(feeders *f, sonar_turn *turn, sonar_booking *booking) {
    const trial *t = f->trial;
    const uint64_t blocks = t->channels / BLOCK;
    uint8_t header[SONAR_FRAME_HEADER_BYTES];
    sonar_window window;
    pthread_mutex_lock(&f->turn);
    const uint64_t number = f->next++;
    const bool more = number < f->end && !f->failed;
    if (more) {
        const size_t block = (size_t)(number % blocks);
        const sonar_payload payload = {.data = payload_of(t, block, number / blocks),
                                       .bytes = PAYLOAD_BYTES};
        write_header(t, block, number / blocks, header);
        *turn = sonar_assembler_begin(f->assembler, header, sizeof header, &payload, 0, booking);
        f->failed = *turn > SONAR_TURN_BOOK;
        if (sonar_assembler_take(f->assembler, &window))
            sonar_assembler_release(f->assembler, &window);
    }
    pthread_mutex_unlock(&f->turn);
    return more;
}

static void feed(void *arg, size_t index, size_t worker) {
    feeders *f = arg;
    sonar_turn turn;
    sonar_booking booking;
    (void)index, (void)worker;
    while (feed_one(f, &turn, &booking))
        if (turn == SONAR_TURN_BOOK)
            sonar_assembler_book(f->assembler, &booking);
}

/* One hop of all channels. */
static bool feed_hop(feeders *f, sonar_pool *pool) {
    f->next = f->end;
    f->end += f->trial->channels / BLOCK * (HOP / SAMPLES);
    sonar_pool_parallel(pool, sonar_pool_workers(pool), feed, f);
    return !f->failed;
}

static double least_hop_ns(feeders *f, sonar_pool *pool) {
    bool fed = feed_hop(f, pool);
    const int64_t start_ns = sonar_monotonic_ns();
    int64_t least_ns = INT64_MAX, before_ns = start_ns;
    for (int hop = 0; fed && (!hop || (double)(before_ns - start_ns) < 1e9 * f->trial->min_time_s);
         hop++) {
        fed = feed_hop(f, pool);
        const int64_t now_ns = sonar_monotonic_ns();
        least_ns = now_ns - before_ns < least_ns ? now_ns - before_ns : least_ns;
        before_ns = now_ns;
    }
    return (double)least_ns;
}

/* The fastest hop, in ns per sample of a channel. */
static sonar_code time_alone(const trial *t, double *ns, sonar_error *err) {
    sonar_ingest_spec spec = spec_of(t);
    feeders f = {.trial = t};
    sonar_pool *pool = NULL;
    sonar_code code = sonar_assembler_create(&spec, &f.assembler, err);
    if (!code)
        code = sonar_pool_create(t->threads, NULL, &pool, err);
    if (!code) {
        pthread_mutex_init(&f.turn, NULL);
        *ns = least_hop_ns(&f, pool) / (HOP * (double)t->channels);
        pthread_mutex_destroy(&f.turn);
        if (f.failed)
            code = sonar_fail(err, SONAR_ESTATE, "bench", "a frame was not placed");
    }
    sonar_pool_destroy(pool);
    sonar_assembler_destroy(f.assembler);
    return code;
}

/* ---- over ipc -------------------------------------------------------------------------------- */

/* Shared by the digitisers, so that none is more than a step ahead of another. */
typedef struct crowd {
    const trial *trial;
    void *context;
    size_t digitisers;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t step[DIGITISERS]; /* under lock */
    atomic_bool stop;
} crowd;

typedef struct digitiser {
    crowd *crowd;
    size_t number;
    pthread_t thread;
} digitiser;

static bool may_go_on(const crowd *c, uint64_t step) {
    for (size_t i = 0; i < c->digitisers; i++)
        if (c->step[i] + 1 < step)
            return false;
    return true;
}

static void begin_step(const digitiser *d, uint64_t step) {
    crowd *c = d->crowd;
    pthread_mutex_lock(&c->lock);
    c->step[d->number] = step;
    pthread_cond_broadcast(&c->moved);
    while (!may_go_on(c, step) && !atomic_load(&c->stop))
        pthread_cond_wait(&c->moved, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

static void stop_digitisers(crowd *c, digitiser *d, size_t started) {
    pthread_mutex_lock(&c->lock);
    atomic_store(&c->stop, true);
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->lock);
    for (size_t i = 0; i < started; i++)
        pthread_join(d[i].thread, NULL);
}

static void keep(void *data, void *hint) {
    (void)data, (void)hint; /* the payload is reused */
}

static bool send_frame(const crowd *c, void *socket, size_t block, uint64_t step) {
    uint8_t header[SONAR_FRAME_HEADER_BYTES];
    zmq_msg_t payload;
    write_header(c->trial, block, step, header);
    while (zmq_send(socket, header, sizeof header, ZMQ_SNDMORE) < 0)
        if (atomic_load(&c->stop))
            return false;
    zmq_msg_init_data(&payload, payload_of(c->trial, block, step), PAYLOAD_BYTES, keep, NULL);
    return zmq_msg_send(&payload, socket, 0) >= 0 && !atomic_load(&c->stop);
}

static void *digitise(void *arg) {
    const digitiser *d = arg;
    const crowd *c = d->crowd;
    const size_t blocks = c->trial->channels / BLOCK;
    const int mark = QUEUED, timeout_ms = 50, linger = 0;
    void *socket = zmq_socket(c->context, ZMQ_PUSH);
    zmq_setsockopt(socket, ZMQ_SNDHWM, &mark, sizeof mark);
    zmq_setsockopt(socket, ZMQ_SNDTIMEO, &timeout_ms, sizeof timeout_ms);
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    bool sending = zmq_connect(socket, c->trial->endpoint) == 0;
    for (uint64_t step = 0; sending; step++) {
        begin_step(d, step);
        for (size_t b = d->number; b < blocks && sending; b += c->digitisers)
            sending = send_frame(c, socket, b, step);
    }
    zmq_close(socket);
    return NULL;
}

/* Releases windows unread; returns the number of samples stored so far. */
static double samples_after(sonar_ingest *ingest, double for_s) {
    struct pollfd poller = {.fd = sonar_ingest_fd(ingest), .events = POLLIN};
    const int64_t start_ns = sonar_monotonic_ns();
    sonar_ingest_counters count;
    sonar_window window;
    while ((double)(sonar_monotonic_ns() - start_ns) < 1e9 * for_s) {
        poll(&poller, 1, 10);
        while (sonar_ingest_take(ingest, &window))
            sonar_ingest_release(ingest, &window);
    }
    sonar_ingest_read_counters(ingest, &count);
    return (double)count.samples_stored;
}

/* Time per sample in ns, measured over at least a hop after the stream has begun; NaN if receiving
 * has stopped. */
static double time_stream(const trial *t, void *receiver) {
    sonar_ingest *ingest = receiver;
    const double hop = HOP * (double)t->channels, turn_s = 0.02;
    double begun = 0, samples = 0;
    while (begun < hop && sonar_ingest_alive(ingest))
        begun = samples_after(ingest, turn_s);
    const int64_t start_ns = sonar_monotonic_ns();
    for (double for_s = t->min_time_s; samples < hop && sonar_ingest_alive(ingest); for_s = turn_s)
        samples = samples_after(ingest, for_s) - begun;
    return samples < hop ? NAN : (double)(sonar_monotonic_ns() - start_ns) / samples;
}

/* As time_stream, of a PULL socket. */
static double time_plain(const trial *t, void *socket) {
    const double hop = HOP * (double)t->channels;
    double samples = 0;
    int64_t start_ns = 0, now_ns = 0;
    zmq_msg_t part;
    zmq_msg_init(&part);
    while (!start_ns || samples < hop || (double)(now_ns - start_ns) < 1e9 * t->min_time_s) {
        if (zmq_msg_recv(&part, socket, 0) < 0)
            break;
        samples += zmq_msg_size(&part) == PAYLOAD_BYTES ? PAYLOAD_BYTES / 2 : 0;
        now_ns = sonar_monotonic_ns();
        if (!start_ns && samples >= hop) {
            start_ns = now_ns;
            samples = 0;
        }
    }
    zmq_msg_close(&part);
    return samples < hop ? NAN : (double)(now_ns - start_ns) / samples;
}

/* The digitisers push, and `time` measures what the receiver gets. */
static sonar_code receive_from(const trial *t, double (*time)(const trial *, void *),
                               void *receiver, double *ns, sonar_error *err) {
    crowd c = {.trial = t,
               .context = zmq_ctx_new(),
               .digitisers = sonar_min_size(DIGITISERS, t->channels / BLOCK),
               .lock = PTHREAD_MUTEX_INITIALIZER,
               .moved = PTHREAD_COND_INITIALIZER};
    digitiser d[DIGITISERS];
    size_t started = 0;
    sonar_code code = SONAR_OK;
    zmq_ctx_set(c.context, ZMQ_IO_THREADS, DIGITISERS);
    for (; !code && started < c.digitisers; started += !code) {
        d[started] = (digitiser){&c, started, 0};
        code = sonar_thread_start(NULL, "digitiser", -1, digitise, &d[started], &d[started].thread,
                                  err);
    }
    if (!code)
        *ns = time(t, receiver);
    stop_digitisers(&c, d, started);
    zmq_ctx_term(c.context);
    return code;
}

static sonar_code time_received(const trial *t, double *ns, sonar_error *err) {
    sonar_ingest_spec spec = spec_of(t);
    sonar_ingest *ingest;
    spec.zmq_context = zmq_ctx_new();
    zmq_ctx_set(spec.zmq_context, ZMQ_IO_THREADS, (int)t->threads);
    sonar_code code = sonar_ingest_create(&spec, sonar_host_serial(), &ingest, err);
    if (!code)
        code = sonar_ingest_start(ingest, err);
    if (!code)
        code = receive_from(t, time_stream, ingest, ns, err);
    sonar_ingest_destroy(ingest);
    zmq_ctx_term(spec.zmq_context);
    return code;
}

static sonar_code time_received_plainly(const trial *t, double *ns, sonar_error *err) {
    const int wait_ms = 10000;
    const sonar_socket_spec spec = {
        .type = ZMQ_PULL, .messages_out = 1, .messages_in = QUEUED, .message_bytes = PAYLOAD_BYTES};
    void *context = zmq_ctx_new(), *socket = NULL;
    zmq_ctx_set(context, ZMQ_IO_THREADS, (int)t->threads);
    sonar_code code = sonar_socket_open(context, &spec, "bench", &socket, err);
    if (!code && (zmq_setsockopt(socket, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms) ||
                  zmq_bind(socket, t->endpoint)))
        code = sonar_fail(err, SONAR_ESYS, "bench", "cannot listen at %s", t->endpoint);
    if (!code)
        code = receive_from(t, time_plain, socket, ns, err);
    if (socket)
        zmq_close(socket);
    zmq_ctx_term(context);
    return code;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static double memory_bytes(const trial *t) {
    sonar_ingest_spec spec = spec_of(t);
    return 2.0 * (double)t->channels * (double)sonar_ingest_capacity(&spec);
}

static bool fits(const trial *t) {
    return memory_bytes(t) <
           0.5 * (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}

static sonar_code run_trial(const trial *t, FILE *to, sonar_error *err) {
    double alone_ns = NAN, ipc_ns = NAN, plain_ns = NAN;
    if (!fits(t))
        return fprintf(to, "%8zu  left out: no memory for the ring\n", t->channels), SONAR_OK;
    sonar_code code = time_alone(t, &alone_ns, err);
    if (!code)
        code = time_received(t, &ipc_ns, err);
    if (!code)
        code = time_received_plainly(t, &plain_ns, err);
    if (!code)
        fprintf(to, "%8zu  %-13s  %7zu  %9.3f  %7.2f  %9.3f  %7.2f  %8.2f  %5.2f\n", t->channels,
                t->layout ? "channel-major" : "interleaved", t->threads, alone_ns, 2 / alone_ns,
                ipc_ns, 2 / ipc_ns, 2 / plain_ns, plain_ns / ipc_ns);
    fflush(to);
    return code;
}

/* Measures both layouts with all numbers of threads. */
static sonar_code run_channels(trial *t, FILE *to, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (int layout = SONAR_FRAME_CHANNEL_MAJOR; layout >= SONAR_FRAME_INTERLEAVED; layout--)
        for (size_t i = 0; i < sizeof thread_counts / sizeof *thread_counts && !code; i++) {
            t->layout = (uint8_t)layout;
            t->threads = thread_counts[i];
            code = run_trial(t, to, err);
        }
    return code;
}

sonar_code bench_ingest(size_t channels, double min_time_s, FILE *to, sonar_error *err) {
    char endpoint[64]; /* an abstract address, which leaves no file behind */
    snprintf(endpoint, sizeof endpoint, "ipc://@sonar-bench-%d", (int)getpid());
    trial t = {.min_time_s = min_time_s, .endpoint = endpoint};
    sonar_keep_freed_memory(); /* as in the daemon */
    t.payload = sonar_alloc(PAYLOADS, PAYLOAD_BYTES);
    if (!t.payload)
        return sonar_fail(err, SONAR_ENOMEM, "bench", "no memory for the samples");
    for (size_t i = 0; i < (size_t)PAYLOADS * PAYLOAD_BYTES; i++)
        t.payload[i] = (uint8_t)(i * 2654435761u >> 7);
    fputs("ns per sample of a channel; plain: a loop that only receives; share: of that\n"
          "channels  layout         threads  alone: ns     GB/s    ipc: ns     GB/s     plain  "
          "share\n",
          to);
    sonar_code code = SONAR_OK;
    size_t sizes = channels ? 1 : sizeof channel_counts / sizeof *channel_counts;
    for (size_t c = 0; c < sizes && !code; c++) {
        t.channels = channels ? (channels + BLOCK - 1) / BLOCK * BLOCK : channel_counts[c];
        code = run_channels(&t, to, err);
    }
    free(t.payload);
    return code;
}
