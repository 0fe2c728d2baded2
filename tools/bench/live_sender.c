/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Sender processes: each owns one block of channels, one connection and one libzmq I/O thread. Its
 * samples are converted before the stream begins and sent without copying, so that only the socket
 * costs time; in shared memory the samples are in their blocks from the beginning.
 */
#include "live_samples.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "net/net.h"
#include "net/shared.h"
#include "ingest/frame.h"

enum {
    QUEUED_FRAMES = 8, /* queued in the socket; the sender waits for room for more */
    FRAME_BYTES = 1 << 20,
    CHANNELS_OF_SENDER = 8192,
    POLL_MS = 50,
    BLOCKS_LEAST = 48, /* blocks of a sender's segment */
    PATIENCE_MS = 2000,
    LINGER_MS = 5000,
    END_MS = 7000 /* for a sender to end on request */
};

/* Shared by all processes. */
typedef struct board {
    _Atomic int64_t start_ns, utc_ns;
    live_sender_state sender[];
} board;

struct live_senders {
    live_stream stream;
    board *board;
    size_t board_bytes;
    int gate[2];  /* the stream begins when its writing end is closed */
    int ready[2]; /* one byte from each sender */
    size_t started, prepared;
    bool stopping;
    struct {
        pid_t pid;
        bool running;
        int status;
    } * process; /* [senders] */
};

static volatile sig_atomic_t asked_to_stop;

static void on_term(int signo) {
    (void)signo;
    asked_to_stop = 1;
}

/* ---- the stream ------------------------------------------------------------------------------ */

size_t live_default_senders(size_t channels) {
    const size_t wanted = (channels + CHANNELS_OF_SENDER - 1) / CHANNELS_OF_SENDER;
    return sonar_min_size(sonar_min_size(sonar_max_size(wanted, 4), 32), channels);
}

/* The largest power of two from 128 to 1024 samples within a message's size and an eighth of a hop:
 * the ring is written in runs of a frame's samples of one channel, and shorter runs cost more. */
size_t live_default_frame_samples(size_t channels_of_sender, size_t hop) {
    const size_t least = 128;
    size_t samples = 1024;
    while (samples > least && (samples * channels_of_sender * sizeof(int16_t) > FRAME_BYTES ||
                               samples > sonar_max_size(hop / 8, 1)))
        samples /= 2;
    return samples;
}

/* ---- a sender's process ---------------------------------------------------------------------- */

typedef struct worker {
    const live_stream *stream;
    live_sender_state *state;
    const board *board;
    const sonar_config_part *part;    /* of the rank that it feeds */
    uint32_t first_channel, channels; /* of the array */
    live_samples samples;
    void *context, *socket;
    sonar_lender *lender; /* NULL: over the socket */
    atomic_size_t lent;   /* frames that libzmq still reads */
} worker;

static int fail(size_t number, const char *what, const char *why) {
    fprintf(stderr, "sonar-bench: sender %zu: %s: %s\n", number, what, why);
    return 1;
}

static bool prepare(worker *w) {
    const size_t least = w->part->config.shared_memory ? BLOCKS_LEAST : 0;
    return live_samples_create(w->stream, w->first_channel, w->channels, least, &asked_to_stop,
                               &w->samples);
}

/* Fills every block with its samples once. */
static bool lend(worker *w, sonar_error *err) {
    const char *endpoint = w->part->config.shared_memory;
    if (!endpoint)
        return true;
    const size_t blocks = w->samples.frames, bytes = w->samples.frame_bytes;
    if (sonar_lender_create(endpoint, blocks, bytes, &w->lender, err) != SONAR_OK)
        return false;
    for (size_t i = 0; i < blocks; i++)
        memcpy(sonar_lender_samples(w->lender, i), live_samples_frame(&w->samples, i), bytes);
    live_samples_destroy(&w->samples);
    return true;
}

static bool connect_to(worker *w, size_t number, sonar_error *err) {
    const sonar_config *c = &w->part->config;
    const int queued = QUEUED_FRAMES, on = 1, linger = 0;
    w->context = zmq_ctx_new();
    w->socket = w->context ? zmq_socket(w->context, ZMQ_PUSH) : NULL;
    if (!w->socket)
        return sonar_fail(err, SONAR_ESYS, "zmq_socket", "%s", zmq_strerror(errno)) == SONAR_OK;
    zmq_setsockopt(w->socket, ZMQ_SNDHWM, &queued, sizeof queued);
    zmq_setsockopt(w->socket, ZMQ_LINGER, &linger, sizeof linger);
    /* Queues messages only for existing connections. */
    zmq_setsockopt(w->socket, ZMQ_IMMEDIATE, &on, sizeof on);
    return sonar_client_connect(w->stream->key, c->security.curve, w->socket,
                                c->ingest_endpoint[number % c->ingest_endpoints], err) == SONAR_OK;
}

static bool wait_for_room(worker *w) {
    zmq_pollitem_t item = {.socket = w->socket, .events = ZMQ_POLLOUT};
    while (!asked_to_stop)
        if (zmq_poll(&item, 1, POLL_MS) > 0)
            return true;
    return false;
}

/* Reports that it is prepared and waits for the begin of the stream; false: it was stopped. */
static bool wait_for_gate(int ready, int gate) {
    char byte = 1;
    if (write(ready, &byte, 1) != 1)
        return false;
    while (!asked_to_stop) {
        const ssize_t got = read(gate, &byte, 1);
        if (got == 0)
            return true;
        if (got < 0 && errno != EINTR)
            return false;
    }
    return false;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Time of a number of samples in ns; whole seconds are separate, so that it is exact for a long
 * run. */
static int64_t samples_ns(const live_stream *stream, uint64_t samples) {
    const double fs_hz = stream->config->fs_hz;
    const double whole = floor((double)samples / fs_hz);
    return (int64_t)whole * 1000000000 + llrint(((double)samples - whole * fs_hz) / fs_hz * 1e9);
}

static bool sleep_until(int64_t ns) {
    const struct timespec at = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (!asked_to_stop && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        continue;
    return !asked_to_stop;
}

static void give_back(void *data, void *lent) {
    (void)data;
    atomic_fetch_sub((atomic_size_t *)lent, 1);
}

static void make_header(const worker *w, uint64_t k, void *to) {
    const live_stream *s = w->stream;
    const uint64_t first = k * s->frame_samples;
    const sonar_frame frame = {.array_id = s->config->array_id,
                               .first_channel = w->first_channel,
                               .channels = w->channels,
                               .samples = (uint32_t)s->frame_samples,
                               .type = SONAR_S16,
                               .layout = (uint8_t)s->layout,
                               .flags = w->lender ? SONAR_FRAME_SHARED : 0,
                               .epoch = s->epoch,
                               .sequence = k,
                               .first_sample = first,
                               .utc_ns = atomic_load(&w->board->utc_ns) + samples_ns(s, first),
                               .fs_hz = s->config->fs_hz};
    sonar_frame_encode(&frame, to);
}

/* Waits if the socket has no room, and counts that; the second part always finds room. */
static bool post(worker *w, zmq_msg_t *header, zmq_msg_t *payload) {
    if (zmq_msg_send(header, w->socket, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) {
        const int64_t from_ns = sonar_monotonic_ns();
        bool sent = false;
        atomic_fetch_add(&w->state->blocked, 1);
        while (!sent && wait_for_room(w))
            sent = zmq_msg_send(header, w->socket, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0;
        atomic_fetch_add(&w->state->blocked_ns, sonar_monotonic_ns() - from_ns);
        if (!sent)
            return false;
    }
    return zmq_msg_send(payload, w->socket, 0) >= 0;
}

static bool begin_block(worker *w) {
    const int64_t from_ns = sonar_monotonic_ns();
    if (sonar_lender_begin(w->lender, PATIENCE_MS))
        return true;
    atomic_fetch_add(&w->state->blocked, 1);
    while (!asked_to_stop && !sonar_lender_begin(w->lender, PATIENCE_MS))
        poll(NULL, 0, 1);
    atomic_fetch_add(&w->state->blocked_ns, sonar_monotonic_ns() - from_ns);
    return !asked_to_stop;
}

static bool send_shared(worker *w, uint64_t k) {
    zmq_msg_t header, descriptor;
    if (!begin_block(w) || zmq_msg_init_size(&header, SONAR_FRAME_HEADER_BYTES) != 0)
        return false;
    if (zmq_msg_init_size(&descriptor, SONAR_DESCRIPTOR_BYTES) != 0) {
        zmq_msg_close(&header);
        return false;
    }
    sonar_lender_end(w->lender, zmq_msg_data(&descriptor));
    make_header(w, k, zmq_msg_data(&header));
    const bool sent = post(w, &header, &descriptor);
    zmq_msg_close(&header);
    zmq_msg_close(&descriptor);
    return sent;
}

static bool send_frame(worker *w, uint64_t k) {
    zmq_msg_t header, payload;
    if (w->lender)
        return send_shared(w, k);
    void *data = live_samples_frame(&w->samples, k);
    if (zmq_msg_init_size(&header, SONAR_FRAME_HEADER_BYTES) != 0)
        return false;
    atomic_fetch_add(&w->lent, 1);
    if (zmq_msg_init_data(&payload, data, w->samples.frame_bytes, give_back, &w->lent) != 0) {
        zmq_msg_close(&header);
        return false;
    }
    make_header(w, k, zmq_msg_data(&header));
    const bool sent = post(w, &header, &payload);
    zmq_msg_close(&header); /* empty if its samples were sent */
    zmq_msg_close(&payload);
    return sent;
}

static int64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* False if a frame could not be sent, unless a stop was requested. */
static bool send_stream(worker *w) {
    const live_stream *s = w->stream;
    const int64_t start_ns = atomic_load(&w->board->start_ns);
    for (uint64_t k = 0; k < s->frames; k++) {
        const int64_t due_ns = start_ns + samples_ns(s, (k + 1) * s->frame_samples);
        if (!sleep_until(due_ns))
            return true;
        w->state->frame_lateness_ns[k] = sonar_monotonic_ns() - due_ns;
        if (!send_frame(w, k))
            return asked_to_stop;
        atomic_store(&w->state->frames, k + 1);
        atomic_store(&w->state->cpu_ns, cpu_ns());
    }
    return true;
}

/* The prepared samples must outlive the last frame that libzmq holds. */
static void close_worker(worker *w) {
    const int linger = asked_to_stop ? 0 : LINGER_MS;
    if (w->socket) {
        zmq_setsockopt(w->socket, ZMQ_LINGER, &linger, sizeof linger);
        zmq_close(w->socket);
    }
    if (w->context)
        zmq_ctx_term(w->context);
    if (atomic_load(&w->lent) == 0)
        live_samples_destroy(&w->samples);
    for (int ms = 0; w->lender && ms < linger && !sonar_lender_is_done(w->lender); ms++)
        poll(NULL, 0, 1);
    sonar_lender_destroy(w->lender);
}

static int work(worker *w, size_t number, int ready, int gate) {
    sonar_error err = {0};
    if (!prepare(w))
        return fail(number, "prepared samples", "out of memory");
    if (!lend(w, &err) || !connect_to(w, number, &err))
        return fail(number, err.where, err.text);
    while (!asked_to_stop && w->lender && !sonar_lender_attached(w->lender))
        poll(NULL, 0, POLL_MS);
    if (!wait_for_room(w) || !wait_for_gate(ready, gate))
        return asked_to_stop ? 0 : fail(number, "start", strerror(errno));
    return send_stream(w) ? 0 : fail(number, "zmq_msg_send", zmq_strerror(errno));
}

/* Its own process group, so that a Ctrl-C reaches only the parent, which then stops the senders in
 * order. No sender outlives a parent that was killed. */
static void settle_down(pid_t parent) {
    const struct sigaction term = {.sa_handler = on_term}, ignore = {.sa_handler = SIG_IGN};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    setpgid(0, 0);
    prctl(PR_SET_NAME, "bench-sender");
    prctl(PR_SET_TIMERSLACK, 1000);
    asked_to_stop = 0;
    sigaction(SIGTERM, &term, NULL);
    sigaction(SIGINT, &ignore, NULL);
}

/* Senders are assigned to the ranks in turn, and a rank's channels are divided among its senders.
 */
static const sonar_config_part *find_block(const live_stream *s, size_t number, size_t *first,
                                           size_t *end) {
    const size_t rank = number % s->ranks;
    const sonar_config_part *part = s->part[rank];
    const size_t channels = part->config.channels, own = number / s->ranks;
    const size_t senders = (s->senders - rank + s->ranks - 1) / s->ranks;
    *first = part->first_channel + own * channels / senders;
    *end = part->first_channel + (own + 1) * channels / senders;
    return part;
}

static int sender_main(const live_senders *senders, size_t number, pid_t parent) {
    const live_stream *s = &senders->stream;
    size_t first, end;
    const sonar_config_part *part = find_block(s, number, &first, &end);
    settle_down(parent);
    close(senders->gate[1]);
    close(senders->ready[0]);
    worker w = {.stream = s,
                .state = &senders->board->sender[number],
                .board = senders->board,
                .part = part,
                .first_channel = (uint32_t)first,
                .channels = (uint32_t)(end - first)};
    const int code = work(&w, number, senders->ready[1], senders->gate[0]);
    close_worker(&w);
    return code;
}

/* ---- the parent's side ----------------------------------------------------------------------- */

static void close_end(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static sonar_code map_board(live_senders *s, sonar_error *err) {
    const size_t frames = (size_t)s->stream.frames, senders = s->stream.senders;
    const size_t head = sizeof(board) + senders * sizeof(live_sender_state);
    s->board_bytes = head + senders * frames * sizeof(int64_t);
    void *map =
        mmap(NULL, s->board_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return sonar_fail(err, SONAR_ENOMEM, "senders", "no memory for %zu bytes of records",
                          s->board_bytes);
    s->board = map;
    int64_t *lateness = (int64_t *)((char *)map + head);
    for (size_t i = 0; i < senders; i++)
        s->board->sender[i].frame_lateness_ns = lateness + i * frames;
    return SONAR_OK;
}

static sonar_code start_one(live_senders *s, size_t number, sonar_error *err) {
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        _exit(sender_main(s, number, parent));
    if (pid < 0)
        return sonar_fail(err, SONAR_ESYS, "senders", "fork: %s", strerror(errno));
    s->process[number].pid = pid;
    s->process[number].running = true;
    s->started++;
    return SONAR_OK;
}

sonar_code live_senders_start(const live_stream *stream, live_senders **senders, sonar_error *err) {
    live_senders *s = sonar_alloc(1, sizeof *s);
    *senders = s;
    if (s)
        s->process = sonar_alloc(stream->senders, sizeof *s->process);
    if (!s || !s->process)
        return sonar_fail(err, SONAR_ENOMEM, "senders", "out of memory");
    s->stream = *stream;
    s->gate[0] = s->gate[1] = s->ready[0] = s->ready[1] = -1;
    if (pipe2(s->gate, O_CLOEXEC) != 0 || pipe2(s->ready, O_CLOEXEC) != 0)
        return sonar_fail(err, SONAR_ESYS, "senders", "pipe: %s", strerror(errno));
    sonar_code code = map_board(s, err);
    for (size_t i = 0; i < stream->senders && code == SONAR_OK; i++)
        code = start_one(s, i, err);
    close_end(&s->gate[0]);
    close_end(&s->ready[1]);
    return code;
}

bool live_senders_ready(live_senders *s, int timeout_ms) {
    struct pollfd item = {.fd = s->ready[0], .events = POLLIN};
    char bytes[LIVE_SENDERS_MOST];
    if (s->prepared < s->stream.senders && poll(&item, 1, timeout_ms) > 0) {
        const ssize_t got = read(s->ready[0], bytes, sizeof bytes);
        s->prepared += got > 0 ? (size_t)got : 0;
    }
    return s->prepared == s->stream.senders;
}

void live_senders_begin(live_senders *s, int64_t start_ns, int64_t utc_ns) {
    atomic_store(&s->board->start_ns, start_ns);
    atomic_store(&s->board->utc_ns, utc_ns);
    close_end(&s->gate[1]);
}

static void reap(live_senders *s, size_t i) {
    if (s->process[i].running && waitpid(s->process[i].pid, &s->process[i].status, WNOHANG) != 0)
        s->process[i].running = false;
}

/* Reports how a sender ended, if not as planned. */
static sonar_code judge(const live_senders *s, size_t i, sonar_error *err) {
    const int status = s->process[i].status;
    const uint64_t sent = atomic_load(&s->board->sender[i].frames);
    char how[64];
    if (s->process[i].running || s->stopping)
        return SONAR_OK;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && sent == s->stream.frames)
        return SONAR_OK;
    if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "was killed by signal %d", WTERMSIG(status));
    else
        snprintf(how, sizeof how, "ended with exit code %d", WEXITSTATUS(status));
    return sonar_fail(err, SONAR_ESTATE, "senders",
                      "sender %zu (process %d) %s after %" PRIu64 " of %" PRIu64 " frames", i,
                      (int)s->process[i].pid, how, sent, s->stream.frames);
}

sonar_code live_senders_check(live_senders *s, size_t *running, sonar_error *err) {
    sonar_code code = SONAR_OK;
    *running = 0;
    for (size_t i = 0; i < s->started; i++) {
        reap(s, i);
        *running += s->process[i].running;
        if (code == SONAR_OK)
            code = judge(s, i, err);
    }
    return code;
}

int64_t live_senders_behind_ns(const live_senders *s, int64_t now_ns) {
    int64_t worst = 0;
    for (size_t i = 0; i < s->stream.senders; i++) {
        const uint64_t next = atomic_load(&s->board->sender[i].frames);
        const int64_t due_ns = atomic_load(&s->board->start_ns) +
                               samples_ns(&s->stream, (next + 1) * s->stream.frame_samples);
        if (next < s->stream.frames && now_ns - due_ns > worst)
            worst = now_ns - due_ns;
    }
    return worst;
}

void live_senders_stop(live_senders *s) {
    s->stopping = true;
    for (size_t i = 0; i < s->started; i++)
        if (s->process[i].running)
            kill(s->process[i].pid, SIGTERM);
}

const live_sender_state *live_sender(const live_senders *s, size_t index) {
    return &s->board->sender[index];
}

static void end_processes(live_senders *s) {
    const int64_t until_ns = sonar_monotonic_ns() + (int64_t)END_MS * 1000000;
    size_t running;
    live_senders_stop(s);
    while (live_senders_check(s, &running, NULL) == SONAR_OK && running > 0 &&
           sonar_monotonic_ns() < until_ns)
        poll(NULL, 0, 5);
    for (size_t i = 0; i < s->started; i++)
        if (s->process[i].running) {
            kill(s->process[i].pid, SIGKILL);
            waitpid(s->process[i].pid, NULL, 0);
        }
}

void live_senders_destroy(live_senders *s) {
    if (!s)
        return;
    if (s->process)
        end_processes(s);
    for (int i = 0; i < 2; i++) {
        close_end(&s->gate[i]);
        close_end(&s->ready[i]);
    }
    if (s->board)
        munmap(s->board, s->board_bytes);
    free(s->process);
    free(s);
}
