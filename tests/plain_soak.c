/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The daemon under heavy load for a short time: digitisers that drop, repeat, reorder and falsify
 * frames, subscribers that join, stall and leave without pause, random bytes on both sockets, live
 * values that change beside refused requests, headings beside datagrams that are none. At the end
 * it must run, every message and window must be accounted for, and neither memory nor descriptors
 * may have grown.
 *
 *   plain_soak [--windows N] [--overload MODE]
 *
 * --windows: to process in each mode, default 10000. --overload: only this mode.
 */
#include <arpa/inet.h>
#include <getopt.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "core/random.h"
#include "status/result.h"
#include "ingest/frame.h"
#include "port.h"
#include "process.h"

enum { SENSORS = 16, BLOCKS = 2, CHANNELS = SENSORS / BLOCKS, FRAME = 64, LENGTH = 128, HOP = 64 };
enum {
    PAYLOAD = CHANNELS * FRAME * sizeof(float),
    BURST = 200,
    STALLED = 12,
    GROWTH_MOST = 1 << 20
};

#ifdef __SANITIZE_ADDRESS__
enum { INSTRUMENTED = 1, WINDOWS = 2000 }; /* memory grows by design */
#else
enum { INSTRUMENTED = 0, WINDOWS = 10000 };
#endif

struct siege {
    box box;
    char in[128], out[128], control[128], nmea[48];
    pid_t daemon;
    int files; /* its descriptors without a crowd */
    subscriber status;
    void *context, *push[BLOCKS];
    sonar_frame frame[BLOCKS];
    uint8_t payload[PAYLOAD];
    uint64_t sent, expected[SONAR_FRAME_CAUSES]; /* of causes with no other origin */
    pthread_t crowd, meddler;
    _Atomic uint64_t answers, changes;
    atomic_bool warm, pause, paused, over;
    uint64_t joined;
};

static int problems;

static void expect(bool good, const char *what, double is, double want) {
    if (good)
        return;
    problems++;
    fprintf(stderr, "plain_soak: %s: %.0f, not %.0f\n", what, is, want);
}

static void die(struct siege *s, const char *what) {
    char *log = box_read(&s->box, "sonard.log");
    fprintf(stderr, "plain_soak: %s\n%s", what, log);
    kill(s->daemon, SIGKILL);
    _exit(1);
}

/* ---- the daemon ------------------------------------------------------------------------------ */

static void write_config(struct siege *s, const char *overload) {
    box_write(&s->box, "sonard.yaml",
              "schema: 1\n"
              "array: {id: 1, geometry: {line: {sensors: %d, spacing_m: 0.75}}}\n"
              "sound_speed_mps: 1500\n"
              "fs_hz: 8000\n"
              "ingest: {endpoints: [\"%s\"], overload: %s, restart_after_ms: 300, "
              "max_missing_share: 0.5, max_message_bytes: 100000}\n"
              "dft: {length: %d, hop: %d}\n"
              "cbf: {band_hz: [600, 950], ranges_m: [50, 200]}\n"
              "lofar: {band_hz: [300, 950]}\n"
              "mvdr: {band_hz: [600, 950], snapshots: 8}\n"
              "output: {endpoint: \"%s\", high_water_mark: 8}\n"
              "control: {endpoint: \"%s\"}\n"
              "navigation: {nmea: \"%s\"}\n"
              "runtime: {backend: cpu, threads: 1}\n",
              SENSORS, s->in, overload, LENGTH, HOP, s->out, s->control, s->nmea);
}

static long resident_bytes(pid_t pid) {
    char path[64], line[256];
    long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file) && sscanf(line, "VmRSS: %ld", &kib) != 1)
        ;
    if (file)
        fclose(file);
    return kib * 1024;
}

static int descriptors(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    return (int)entries_of(path);
}

/* The next status, or dies. */
static message next_status(struct siege *s) {
    message m;
    if (!receive_until(&s->status, "status", "uptime_s", 0, 60000, &m))
        die(s, process_running(s->daemon) ? "no status came" : "the daemon is gone");
    return m;
}

/* ---- digitisers ------------------------------------------------------------------------------ */

static void send_parts(struct siege *s, void *socket, const void *head, size_t head_bytes,
                       const void *body, size_t body_bytes) {
    if (zmq_send(socket, head, head_bytes, ZMQ_SNDMORE) < 0 ||
        zmq_send(socket, body, body_bytes, 0) < 0)
        die(s, "the daemon takes no more frames");
    s->sent++;
}

static void send_frame(struct siege *s, int block, const sonar_frame *frame, size_t bytes) {
    static uint8_t room[PAYLOAD + 1];
    uint8_t header[SONAR_FRAME_HEADER_BYTES];
    memcpy(room, s->payload, PAYLOAD);
    sonar_frame_encode(frame, header);
    send_parts(s, s->push[block], header, sizeof header, room, bytes);
}

static void send_nan(struct siege *s, int block, const sonar_frame *frame, uint64_t where) {
    const float nan = NAN;
    uint8_t *at = s->payload + where % (PAYLOAD / 4) * 4, kept[4];
    memcpy(kept, at, 4);
    memcpy(at, &nan, 4);
    send_frame(s, block, frame, PAYLOAD);
    memcpy(at, kept, 4);
    s->expected[SONAR_FRAME_NOT_FINITE]++;
}

static void send_rubbish(struct siege *s, int block, uint64_t random) {
    uint8_t noise[128];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)(sonar_random_bits(&random) | (i == 0)); /* never the 'S' of a header */
    s->expected[SONAR_FRAME_MALFORMED]++;
    if (random % 3 == 0) {
        zmq_send(s->push[block], noise, random % sizeof noise, 0); /* one part */
        s->sent++;
        return;
    }
    if (random % 3 == 1)
        zmq_send(s->push[block], noise, 9, ZMQ_SNDMORE); /* three parts */
    send_parts(s, s->push[block], noise, SONAR_FRAME_HEADER_BYTES, noise, random % sizeof noise);
}

/* One step of one digitiser: usually the next frame, one in eight times some fault. */
static void step(struct siege *s, int block, uint64_t random) {
    sonar_frame *frame = &s->frame[block], lie = *frame, next = *frame;
    next.sequence++;
    next.first_sample += FRAME;
    next.utc_ns += FRAME * 125000;
    switch (random % 96) {
    case 0: /* lost */
        break;
    case 1:
        send_frame(s, block, frame, PAYLOAD);
        send_frame(s, block, frame, PAYLOAD);
        break;
    case 2: /* the wrong way round */
        send_frame(s, block, &next, PAYLOAD);
        send_frame(s, block, frame, PAYLOAD);
        next.sequence++;
        next.first_sample += FRAME;
        break;
    case 3:
        lie.first_sample = (uint64_t)1 << 60;
        send_frame(s, block, &lie, PAYLOAD);
        break;
    case 4:
        lie.epoch = 1 + (uint32_t)(random >> 40);
        send_frame(s, block, &lie, PAYLOAD);
        break;
    case 5:
        send_nan(s, block, frame, random >> 32);
        break;
    case 6:
        send_frame(s, block, frame, random >> 32 & 1023);
        s->expected[SONAR_FRAME_TRUNCATED]++;
        break;
    case 7:
        send_frame(s, block, frame, PAYLOAD + 1);
        s->expected[SONAR_FRAME_OVERSIZED]++;
        break;
    case 8:
        lie.array_id = 2;
        send_frame(s, block, &lie, PAYLOAD);
        s->expected[SONAR_FRAME_WRONG_ARRAY]++;
        break;
    case 9:
        lie.fs_hz = NAN;
        send_frame(s, block, &lie, PAYLOAD);
        s->expected[SONAR_FRAME_WRONG_RATE]++;
        break;
    case 10:
        lie.first_channel = UINT32_MAX - CHANNELS;
        send_frame(s, block, &lie, PAYLOAD);
        s->expected[SONAR_FRAME_WRONG_CHANNELS]++;
        break;
    case 11:
        send_rubbish(s, block, random >> 8);
        break;
    default:
        send_frame(s, block, frame, PAYLOAD);
    }
    *frame = next;
}

static void open_digitisers(struct siege *s) {
    int linger = 0, timeout = 60000;
    s->context = zmq_ctx_new();
    for (int b = 0; b < BLOCKS; b++) {
        s->push[b] = zmq_socket(s->context, ZMQ_PUSH);
        zmq_setsockopt(s->push[b], ZMQ_LINGER, &linger, sizeof linger);
        zmq_setsockopt(s->push[b], ZMQ_SNDTIMEO, &timeout, sizeof timeout);
        if (zmq_connect(s->push[b], s->in))
            die(s, "connect");
        s->frame[b] = (sonar_frame){.array_id = 1,
                                    .first_channel = (uint32_t)b * CHANNELS,
                                    .channels = CHANNELS,
                                    .samples = FRAME,
                                    .type = SONAR_F32,
                                    .epoch = 1,
                                    .utc_ns = 1763644400000000000,
                                    .fs_hz = 8000};
    }
    uint64_t state = 1;
    for (size_t i = 0; i < PAYLOAD / 4; i++) {
        float value = (float)(sonar_random_bits(&state) >> 40) - 8388608;
        memcpy(s->payload + 4 * i, &value, 4);
    }
}

/* ---- the crowd of subscribers ---------------------------------------------------------------- */

/* NULL: too many still closing, which is this process' own limit (ZMQ_MAX_SOCKETS). */
static void *join(struct siege *s, void *context, uint64_t random) {
    static const char *const topics[] = {
        "",           "cbf.azimuth",      "cbf.", "mvdr.spectrum", "element.psd",
        "detections", "nobody.sends.this"};
    int linger = 0, mark = 2;
    void *socket = zmq_socket(context, ZMQ_SUB);
    if (!socket)
        return NULL;
    const char *topic = topics[random % 7];
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &mark, sizeof mark);
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &mark, sizeof mark);
    zmq_setsockopt(socket, ZMQ_SUBSCRIBE, topic, strlen(topic));
    if (zmq_connect(socket, s->out))
        die(s, "a subscriber cannot connect");
    s->joined++;
    return socket;
}

static void leave(void **socket) {
    if (*socket)
        zmq_close(*socket);
    *socket = NULL;
}

static int descriptors_at_rest(struct siege *s, int most) {
    int now = descriptors(s->daemon);
    for (int i = 0; i < 5000 && now > most; i++) {
        usleep(1000); /* the daemon notices that the last ones have left */
        now = descriptors(s->daemon);
    }
    return now;
}

/* Hundreds of connections at once. Most leave before their handshake; or, to measure their memory,
 * all are held until all are served. */
static void rush(struct siege *s, void *context, bool hold, uint64_t *random) {
    void *socket[BURST];
    for (int i = 0; i < BURST; i++)
        socket[i] = join(s, context, sonar_random_bits(random));
    for (int i = 0; hold && i < 2000 && descriptors(s->daemon) < s->files + BURST; i++)
        usleep(1000);
    if (hold)
        usleep(200000);
    for (int i = 0; i < BURST; i++)
        leave(&socket[i]);
    descriptors_at_rest(s, s->files + STALLED); /* else they would add up to any number */
}

/* Sends bytes that are not ZMTP to the endpoint. */
static void scribble(const char *endpoint, uint64_t *random) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    uint64_t noise[64];
    for (size_t i = 0; i < 64; i++)
        noise[i] = sonar_random_bits(random);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", endpoint + strlen("ipc://"));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        send(fd, noise, sonar_random_bits(random) % sizeof noise, MSG_NOSIGNAL);
    if (fd >= 0)
        close(fd);
}

/* Subscriptions no reader would make, some longer than the daemon accepts. */
static void heckle(struct siege *s, void *context, uint64_t *random) {
    static uint8_t noise[6000];
    int zero = 0;
    void *socket = zmq_socket(context, ZMQ_XSUB);
    if (!socket)
        return;
    zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_connect(socket, s->out);
    for (int i = 0; i < 20; i++) {
        for (size_t k = 0; k < 64; k++)
            noise[k] = (uint8_t)sonar_random_bits(random);
        noise[0] %= 3;
        zmq_send(socket, noise,
                 i % 5 ? sonar_random_bits(random) % 64 : sonar_random_bits(random) % sizeof noise,
                 ZMQ_DONTWAIT);
    }
    usleep(1000);
    zmq_close(socket);
}

static void *crowd_main(void *arg) {
    struct siege *s = arg;
    void *context = zmq_ctx_new(), *stalled[STALLED] = {0};
    uint64_t random = 7, turn = 0;
    char byte;
    for (; !atomic_load(&s->over); turn++) {
        if (atomic_load(&s->pause)) {
            for (int i = 0; i < STALLED; i++)
                leave(&stalled[i]);
            atomic_store(&s->paused, true);
            usleep(1000);
            continue;
        }
        void **place = &stalled[turn % STALLED]; /* connected, never reading */
        leave(place);
        *place = join(s, context, sonar_random_bits(&random));
        void *reader = join(s, context, sonar_random_bits(&random));
        for (int i = 0; reader && i < 5; i++)
            zmq_recv(reader, &byte, 1, 0);
        leave(&reader);
        scribble(turn % 2 ? s->in : s->out, &random);
        if (turn % 4 == 0)
            heckle(s, context, &random);
        if (turn % 16 == 0 || turn < STALLED)
            rush(s, context, turn < STALLED, &random);
        atomic_store(&s->warm, turn >= STALLED);
    }
    for (int i = 0; i < STALLED; i++)
        leave(&stalled[i]);
    zmq_ctx_term(context);
    return NULL;
}

/* ---- live values and headings --------------------------------------------------------------- */

/* Every second one changes a value; the others are refused. */
static const char *const requests[] = {
    "{\"verb\":\"set\",\"values\":{\"sound_speed_mps\":1490}}",
    "{\"verb\":\"set\",\"values\":{\"sound_speed_mps\":\"fast\"}}",
    "{\"verb\":\"mask\",\"mask\":{\"only\":[3]}}",
    "{\"verb\":\"mask\",\"mask\":{\"only\":[99]}}",
    "{\"verb\":\"set\",\"values\":{\"sound_speed_mps\":1510,\"detections.threshold_db\":9}}",
    "{\"verb\":\"set\",\"values\":{\"dft.hop\":32}}",
    "{\"verb\":\"mask\",\"mask\":{\"only\":[]}}",
    "[[[[[[[[{\"verb\":"};
enum { REQUESTS = sizeof requests / sizeof requests[0] };

static void *open_control(struct siege *s, void *context) {
    const int zero = 0, patience_ms = 60000;
    void *control = zmq_socket(context, ZMQ_REQ);
    zmq_setsockopt(control, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(control, ZMQ_RCVTIMEO, &patience_ms, sizeof patience_ms);
    zmq_setsockopt(control, ZMQ_SNDTIMEO, &patience_ms, sizeof patience_ms);
    if (zmq_connect(control, s->control))
        die(s, "the control socket cannot be connected to");
    return control;
}

static int udp_to(const char *endpoint) {
    struct sockaddr_in to = {.sin_family = AF_INET};
    char address[INET_ADDRSTRLEN];
    unsigned short port = 0;
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (sscanf(endpoint, "udp://%15[0-9.]:%hu", address, &port) == 2)
        inet_pton(AF_INET, address, &to.sin_addr);
    to.sin_port = htons(port);
    connect(fd, (struct sockaddr *)&to, sizeof to);
    return fd;
}

/* A heading, and datagrams that are none. */
static void send_nmea(int fd, uint64_t random) {
    static const char *const datagram[] = {"$HEHDT,213.5,T*2A\r\n", "$HEHDT,999.9,T*2F\r\n",
                                           "$HEHDT,213.5,T*00\r\n", "$GPRMC,,V,,,,,,,,,,N*53\r\n"};
    char noise[200];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (char)sonar_random_bits(&random);
    const char *text = datagram[random % 4];
    send(fd, text, strlen(text), MSG_DONTWAIT);
    send(fd, noise, random % sizeof noise, MSG_DONTWAIT);
}

static void *meddle(void *arg) {
    struct siege *s = arg;
    void *context = zmq_ctx_new(), *control = open_control(s, context);
    static char answer[1 << 16];
    const int fd = udp_to(s->nmea);
    uint64_t random = 11;
    for (size_t turn = 0; !atomic_load(&s->over); turn++) {
        const char *request = requests[turn % REQUESTS];
        const int bytes = zmq_send(control, request, strlen(request), 0) < 0
                              ? -1
                              : zmq_recv(control, answer, sizeof answer - 1, 0);
        if (bytes < 0 && !atomic_load(&s->over))
            die(s, "the control socket does not answer");
        answer[bytes < 0 ? 0 : bytes < (int)sizeof answer ? bytes : (int)sizeof answer - 1] = '\0';
        atomic_fetch_add(&s->changes, strstr(answer, "\"ok\":true") != NULL);
        atomic_fetch_add(&s->answers, 1);
        send_nmea(fd, sonar_random_bits(&random));
        usleep(2000);
    }
    close(fd);
    zmq_close(control);
    zmq_ctx_term(context);
    return NULL;
}

static void start_meddling(struct siege *s) {
    if (pthread_create(&s->meddler, NULL, meddle, s))
        die(s, "no thread");
    while (atomic_load(&s->answers) < REQUESTS)
        usleep(1000);
}

/* ---- the siege ------------------------------------------------------------------------------- */

/* Sends until a number of windows has been processed. */
static void besiege(struct siege *s, double windows, uint64_t *random) {
    for (double done = -1; done < windows;) {
        message m;
        for (int i = 0; i < 100; i++)
            step(s, i % BLOCKS, sonar_random_bits(random));
        if (!receive(&s->status, &m, 0))
            continue;
        done = header_number(m.head, "windows.processed");
        message_free(&m);
    }
}

/* Waits until all messages have been processed: all are counted, no more arrive (random bytes may
 * count as messages, too, while sent ones are still on their way), and no window is being computed.
 */
static message settle(struct siege *s) {
    double before = -1, uptime_s = -1;
    int64_t until = sonar_monotonic_ns() + 30 * (int64_t)1000000000;
    for (;;) {
        message m = next_status(s);
        double received = header_number(m.head, "frames.received");
        double offered = header_number(m.head, "windows.offered");
        double taken = header_number(m.head, "windows.taken");
        double overload = header_number(m.head, "windows.dropped.overload");
        double done =
            header_number(m.head, "windows.processed") + header_number(m.head, "windows.failed");
        const bool at_rest = received == before && header_number(m.head, "uptime_s") > uptime_s;
        before = received;
        uptime_s = header_number(m.head, "uptime_s");
        if (at_rest && received >= (double)s->sent && offered == taken + overload && taken == done)
            return m;
        if (sonar_monotonic_ns() > until) {
            fprintf(stderr,
                    "plain_soak: %.0f frames of %llu; %.0f windows offered, %.0f taken, %.0f "
                    "dropped, %.0f done\n",
                    received, (unsigned long long)s->sent, offered, taken, overload, done);
            die(s, "the daemon did not come to rest");
        }
        message_free(&m);
    }
}

static void calm(struct siege *s) {
    atomic_store(&s->paused, false);
    atomic_store(&s->pause, true);
    while (!atomic_load(&s->paused))
        usleep(1000);
}

static void check_counters(struct siege *s, const cJSON *head, bool block) {
    double dropped = 0, accepted = header_number(head, "frames.accepted");
    double received = header_number(head, "frames.received");
    /* Random bytes may be valid messages of ZMTP 1.0. */
    s->expected[SONAR_FRAME_MALFORMED] += (uint64_t)(received - (double)s->sent);
    for (int i = 0; i < SONAR_FRAME_CAUSES; i++) {
        char path[64];
        snprintf(path, sizeof path, "frames.dropped.%s",
                 sonar_frame_cause_name((sonar_frame_cause)i));
        double count = header_number(head, path);
        dropped += count;
        if (i <= SONAR_FRAME_WRONG_RATE || i == SONAR_FRAME_NOT_FINITE)
            expect(count == (double)s->expected[i], path, count, (double)s->expected[i]);
    }
    expect(received == accepted + dropped, "accepted + dropped", accepted + dropped, received);
    double samples = header_number(head, "samples.stored") +
                     header_number(head, "samples.repeated") + header_number(head, "samples.late");
    expect(samples == accepted * CHANNELS * FRAME, "samples of accepted frames", samples,
           accepted * CHANNELS * FRAME);
    expect(header_number(head, "windows.failed") == 0, "windows failed",
           header_number(head, "windows.failed"), 0);
    double overload = header_number(head, "windows.dropped.overload");
    expect(!block || overload == 0, "windows dropped in block mode", overload, 0);
    expect(header_number(head, "output.messages_failed") == 0, "messages failed",
           header_number(head, "output.messages_failed"), 0);
}

static void run(const char *overload, double windows) {
    static struct siege siege;
    struct siege *s = &siege;
    uint64_t random = 42;
    memset(s, 0, sizeof *s);
    s->box = box_open();
    snprintf(s->in, sizeof s->in, "ipc://%.60s/in", s->box.dir);
    snprintf(s->out, sizeof s->out, "ipc://%.60s/out", s->box.dir);
    snprintf(s->control, sizeof s->control, "ipc://%.60s/control", s->box.dir);
    own_endpoint("udp", s->nmea);
    write_config(s, overload);
    s->daemon =
        process_start(&s->box, "sonard.log", "sonard", box_path(&s->box, "sonard.yaml"), NULL);
    s->status = subscribe(s->out, "status", NULL);
    message m = next_status(s);
    message_free(&m);
    open_digitisers(s);
    start_meddling(s);
    besiege(s, 10, &random);
    s->files = descriptors(s->daemon);
    if (pthread_create(&s->crowd, NULL, crowd_main, s))
        die(s, "no thread");

    while (!atomic_load(&s->warm))
        besiege(s, 0, &random);
    calm(s);
    descriptors_at_rest(s, s->files);
    long resident = resident_bytes(s->daemon);
    atomic_store(&s->pause, false);
    besiege(s, windows, &random);
    calm(s);
    m = settle(s);
    check_counters(s, m.head, !strcmp(overload, "block"));
    int files_now = descriptors_at_rest(s, s->files);
    long grown = resident_bytes(s->daemon) - resident;
    expect(files_now <= s->files, "descriptors", files_now, s->files);
    const uint64_t answers = atomic_load(&s->answers), changes = atomic_load(&s->changes);
    expect(changes == (answers + 1) / 2 || changes == answers / 2, "changes of live values",
           (double)changes, (double)answers / 2);
    expect(INSTRUMENTED || grown < GROWTH_MOST, "bytes grown", (double)grown, GROWTH_MOST);
    printf("%s: %.0f windows of %.0f, %llu frames, %llu subscribers, %llu changes; %ld KiB, grown "
           "by %ld KiB; %d descriptors\n",
           overload, header_number(m.head, "windows.processed"),
           header_number(m.head, "windows.offered"), (unsigned long long)s->sent,
           (unsigned long long)s->joined, (unsigned long long)changes, resident / 1024,
           grown / 1024, files_now);
    message_free(&m);

    atomic_store(&s->over, true);
    pthread_join(s->crowd, NULL);
    pthread_join(s->meddler, NULL);
    for (int b = 0; b < BLOCKS; b++)
        zmq_close(s->push[b]);
    zmq_ctx_term(s->context);
    kill(s->daemon, SIGTERM);
    int status = process_wait(s->daemon, 60000);
    expect(status == 0, "exit code", status, 0);
    unsubscribe(&s->status);
    box_close(&s->box);
}

int main(int argc, char **argv) {
    static const struct option options[] = {
        {"windows", required_argument, NULL, 'w'}, {"overload", required_argument, NULL, 'o'}, {0}};
    static const char *const mode[] = {"block", "drop_oldest"};
    const char *only = NULL;
    double windows = WINDOWS;
    int modes = 0;
#ifdef __SANITIZE_THREAD__
    puts("skipped: too slow; plain_pipeline_threads runs the same threads");
    return 77;
#endif
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'o')
            only = optarg;
        else if (c != 'w' || !(windows = atof(optarg)))
            return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < 2; i++)
        if (!only || strcmp(only, mode[i]) == 0) {
            run(mode[i], windows);
            modes++;
        }
    return modes ? problems > 0 : 2;
}
