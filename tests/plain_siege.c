/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The daemon under attack by peers that do not use libzmq: half-open connections, crowds, resets,
 * endless messages, very many subscriptions, digitisers that die, readers that pause. After every
 * campaign the daemon must run, count all sent frames exactly, and free its memory. plain_soak
 * tests peers that keep to the protocol.
 *
 *   plain_siege [--seconds N] [--over TRANSPORT] [--part K | --campaign NAME] [--attack TEXT]
 *
 * By default every campaign runs once over TCP and once over ipc, and those about keys over CURVE.
 * --part: the K-th of three parts of the campaigns, of about equal duration, each with a new
 * daemon. --attack: of the attacks by readers, only those whose names contain TEXT.
 */
#include <getopt.h>
#include <grp.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "net/descriptors.h"
#include "status/result.h"
#include "ingest/frame.h"
#include "port.h"
#include "process.h"
#include "zmtp.h"

enum { CHANNELS = 4, FRAME = 256, PAYLOAD = CHANNELS * FRAME * 4, CROWD = 1300 };
/* Memory that the daemon may hold above its idle state (docs/threats.md): malloc keeps this much
 * freed memory (sonar_keep_freed_memory), and a crowd of 1024 leaves 40 MiB. */
enum { TOPIC = 120 }; /* bytes, nearly the longest that is accepted */
enum { MIB = 1 << 20, GROWTH_MOST = 256 * MIB, PATIENCE_MS = 60000 };

#ifdef __SANITIZE_ADDRESS__
enum { INSTRUMENTED = 1 }; /* freed memory is kept for later checks */
#else
enum { INSTRUMENTED = 0 };
#endif

struct siege {
    box box;
    const char *over; /* tcp, ipc or curve */
    char in[128], out[128], control[128];
    pid_t daemon;
    void *context, *push;
    sonar_frame frame;
    double sent; /* messages that the daemon must have counted */
    long rest_bytes;
    bool keys, lasting; /* CURVE is spoken; --seconds was given */
    const char *attack; /* part of the names of wanted attacks; "": all */
    char server_key[41], public_key[41], secret_key[41], other_key[41], other_secret[41];
};

static int problems;

static void expect(bool good, const char *what, double is, double want) {
    if (good)
        return;
    problems++;
    fprintf(stderr, "plain_siege: %s: %.0f, not %.0f\n", what, is, want);
}

static void die(const struct siege *s, const char *what) {
    fprintf(stderr, "plain_siege: %s\n%s", what, box_read(&s->box, "sonard.log"));
    kill(s->daemon, SIGKILL);
    _exit(1);
}

static long resident_bytes(pid_t pid) {
    char path[64];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%*s %ld", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

/* ---- the daemon and its honest digitiser ----------------------------------------------------- */

static void write_certificate(struct siege *s, const char *name, const char *public_key,
                              const char *secret_key) {
    char line[80] = "";
    if (secret_key)
        snprintf(line, sizeof line, "    secret-key = \"%s\"\n", secret_key);
    box_write(&s->box, name, "curve\n    public-key = \"%s\"\n%s", public_key, line);
}

/* Makes the keys of the daemon, of the honest digitiser and reader, and of another reader, and the
 * configuration's text for them. */
static const char *make_keys(struct siege *s) {
    char server_secret[41];
    zmq_curve_keypair(s->server_key, server_secret);
    zmq_curve_keypair(s->public_key, s->secret_key);
    write_certificate(s, "node.key_secret", s->server_key, server_secret);
    zmq_curve_keypair(s->other_key, s->other_secret);
    write_certificate(s, "honest.key", s->public_key, NULL);
    write_certificate(s, "other.key", s->other_key, NULL);
    chmod(box_path(&s->box, "node.key_secret"), 0600);
    return "security: {key: node.key_secret, allow_senders: [honest.key], "
           "allow_readers: [honest.key, other.key]}\n";
}

static void use_keys(void *socket, const char *server_key, const char *public_key,
                     const char *secret_key) {
    zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server_key, 41);
    zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, public_key, 41);
    zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret_key, 41);
}

/* keys: samples and results over TCP with CURVE. In a short siege the machine may be so busy that
 * no message leaves the daemon for seconds: they are queued, not lost. */
static void start(struct siege *s, bool tcp, const char *overload, bool keys, bool lasting) {
    int zero = 0, wait_ms = 30000;
    *s = (struct siege){.box = box_open(),
                        .over = keys  ? "curve"
                                : tcp ? "tcp"
                                      : "ipc",
                        .lasting = lasting};
    if (tcp) {
        own_endpoint("tcp", s->in);
        own_endpoint("tcp", s->out);
    } else {
        snprintf(s->in, sizeof s->in, "ipc://%s/in", s->box.dir);
        snprintf(s->out, sizeof s->out, "ipc://%s/out", s->box.dir);
    }
    s->keys = keys;
    snprintf(s->control, sizeof s->control, "ipc://%s/control", s->box.dir);
    chmod(s->box.dir, 0711); /* for attackers that are another user */
    box_write(&s->box, "sonard.yaml",
              "schema: 1\n"
              "array: {id: 1, geometry: {line: {sensors: %d, spacing_m: 0.75}}}\n"
              "sound_speed_mps: 1500\n"
              "fs_hz: 8000\n"
              "ingest: {endpoints: [\"%s\"], overload: %s, max_message_bytes: 1048576}\n"
              "dft: {length: 512, hop: 256}\n"
              "cbf: {band_hz: [600, 950]}\n"
              "output: {endpoint: \"%s\", high_water_mark: %d}\n"
              "control: {endpoint: \"%s\"}\n"
              "runtime: {backend: cpu, threads: 1, state_dir: \"%s\"}\n%s",
              CHANNELS, s->in, overload, s->out, lasting ? 48 : 512, s->control, s->box.dir,
              keys ? make_keys(s) : "security: {ipc_mode: 0666}\n");
    s->daemon =
        process_start(&s->box, "sonard.log", "sonard", box_path(&s->box, "sonard.yaml"), NULL);
    s->frame = (sonar_frame){.array_id = 1,
                             .channels = CHANNELS,
                             .samples = FRAME,
                             .type = SONAR_F32,
                             .epoch = 7,
                             .fs_hz = 8000};
    s->context = zmq_ctx_new();
    s->push = zmq_socket(s->context, ZMQ_PUSH);
    zmq_setsockopt(s->push, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(s->push, ZMQ_SNDTIMEO, &wait_ms, sizeof wait_ms);
    if (keys)
        use_keys(s->push, s->server_key, s->public_key, s->secret_key);
    if (zmq_connect(s->push, s->in))
        die(s, "cannot connect");
}

static void send_frames(struct siege *s, int frames) {
    static const uint8_t payload[PAYLOAD];
    uint8_t header[SONAR_FRAME_HEADER_BYTES];
    for (int i = 0; i < frames; i++) {
        sonar_frame_encode(&s->frame, header);
        if (zmq_send(s->push, header, sizeof header, ZMQ_SNDMORE) < 0 ||
            zmq_send(s->push, payload, sizeof payload, 0) < 0)
            die(s, "the daemon takes no more frames");
        s->frame.sequence++;
        s->frame.first_sample += FRAME;
        s->sent++;
    }
}

/* A reader that keeps to the rules. */
static subscriber reader_of(const struct siege *s, const char *topic) {
    subscriber reader = {.context = zmq_ctx_new()};
    int zero = 0;
    reader.socket = zmq_socket(reader.context, ZMQ_SUB);
    zmq_setsockopt(reader.socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(reader.socket, ZMQ_SUBSCRIBE, topic, strlen(topic));
    if (s->keys)
        use_keys(reader.socket, s->server_key, s->public_key, s->secret_key);
    zmq_connect(reader.socket, s->out);
    return reader;
}

/* Waits for a status whose number at `path` is at least `value`, or ends the siege. */
static message status_with(struct siege *s, const char *path, double value) {
    message m;
    subscriber reader = reader_of(s, "status");
    if (!receive_until(&reader, "status", path, value, PATIENCE_MS, &m)) {
        fprintf(stderr, "plain_siege: %s did not come to %.0f\n", path, value);
        die(s, process_running(s->daemon) ? "no such status" : "the daemon is gone");
    }
    unsubscribe(&reader);
    return m;
}

static double number_now(struct siege *s, const char *path) {
    message m = status_with(s, "uptime_s", 0);
    double number = header_number(m.head, path);
    message_free(&m);
    return number;
}

/* Honest frames come through, and every message is counted once. */
static void check(struct siege *s, const char *campaign) {
    double dropped = 0;
    char path[64];
    send_frames(s, 20);
    message m = status_with(s, "frames.received", s->sent);
    for (int i = 0; i < SONAR_FRAME_CAUSES; i++) {
        snprintf(path, sizeof path, "frames.dropped.%s",
                 sonar_frame_cause_name((sonar_frame_cause)i));
        dropped += header_number(m.head, path);
    }
    double received = header_number(m.head, "frames.received");
    double accepted = header_number(m.head, "frames.accepted");
    expect(received == s->sent, campaign, received, s->sent);
    expect(received == accepted + dropped, campaign, accepted + dropped, received);
    message_free(&m);
}

/* Quarantined freed memory makes the daemon reopen the samples' socket, and lose its messages,
 * every 3 s for at most 10 s. Waits until that is over. */
static void await_rest(struct siege *s) {
    const char *counter = "frames.peers.reopened_memory";
    double before, now = number_now(s, counter);
    do {
        before = now;
        usleep(4500000);
        now = number_now(s, counter);
    } while (now != before);
}

static void check_memory(struct siege *s, const char *campaign) {
    long grown = 0;
    if (INSTRUMENTED) {
        await_rest(s);
        return;
    }
    for (int i = 0; i < 200; i++) {
        grown = resident_bytes(s->daemon) - s->rest_bytes;
        if (grown < GROWTH_MOST)
            return;
        usleep(50000);
    }
    expect(false, campaign, (double)grown, GROWTH_MOST);
}

/* ---- campaigns ------------------------------------------------------------------------------- */

static int join_from(const struct siege *s, const char *endpoint, const char *type,
                     const char *address) {
    int fd = zmtp_connect_from(endpoint, address);
    if (fd >= 0 && !zmtp_handshake(fd, type)) {
        close(fd);
        fd = -1;
    }
    if (fd < 0 && !process_running(s->daemon))
        die(s, "the daemon is gone");
    return fd;
}

static int join(const struct siege *s, const char *endpoint, const char *type) {
    return join_from(s, endpoint, type, NULL);
}

/* Like join, repeated until it succeeds: a peer that connected too often is refused for a while. */
static int join_at_last(const struct siege *s, const char *endpoint, const char *type) {
    int fd = -1;
    for (int i = 0; i < 300 && (fd = join(s, endpoint, type)) < 0; i++)
        usleep(200000);
    expect(fd >= 0, "a connection after others", fd, 0);
    return fd;
}

/* Silent peers, half a greeting, random bytes, the wrong type of socket. */
static void strangers(struct siege *s) {
    static const char *const type[] = {"REQ", "DEALER", "PUB", "PULL", "XPUB", "NONE"};
    int fd[120];
    for (int i = 0; i < 120; i++) {
        const char *endpoint = i & 1 ? s->in : s->out;
        uint8_t half[20] = {0xff, [8] = 1, [9] = 0x7f, [10] = 3};
        fd[i] = zmtp_connect(endpoint);
        if (i % 4 == 1)
            zmtp_bytes(fd[i], half, sizeof half, 100);
        else if (i % 4 == 2)
            zmtp_bytes(fd[i], "GET / HTTP/1.1\r\n\r\n", 18, 100);
        else if (i % 4 == 3)
            zmtp_handshake(fd[i], type[i / 4 % 6]);
    }
    for (int i = 0; i < 120; i++)
        i % 3 ? close(fd[i]) : zmtp_reset(fd[i]);
}

/* Replaces lost members of a crowd that has completed its handshakes, so that none is disconnected
 * after 10 s. */
static void gather(int *fd, const char *endpoint, const char *type) {
    for (int i = 0; i < CROWD; i++)
        if (fd[i] < 0 && (fd[i] = zmtp_connect(endpoint)) >= 0)
            zmtp_introduce(fd[i], type);
}

/* More connections than a socket serves: some are refused, for their number or for their rate, and
 * the earlier reader stays connected. The crowd stays until that has happened, on a machine of any
 * speed. */
static void crowd(struct siege *s, const char *endpoint, const char *type, const char *refused,
                  const char *too_often) {
    static int fd[CROWD];
    message m;
    bool full = false;
    subscriber reader = subscribe(s->out, "status", NULL);
    if (!receive_until(&reader, "status", "uptime_s", 0, PATIENCE_MS, &m))
        die(s, "no status before the crowd");
    const double before = header_number(m.head, refused),
                 before_too = header_number(m.head, too_often);
    message_free(&m);
    memset(fd, -1, sizeof fd);
    for (int i = 0; i < 100 && !full; i++) {
        gather(fd, endpoint, type);
        full = receive_until(&reader, "status", refused, before + 1, 1000, &m) ||
               receive_until(&reader, "status", too_often, before_too + 1, 1000, &m);
    }
    if (!full)
        die(s, "no peer of a crowd is refused");
    double connected = header_number(m.head, "frames.peers.connected");
    expect(connected <= 1024, "connections", connected, 1024);
    message_free(&m);
    for (int i = 0; i < CROWD; i++)
        close(fd[i]);
    unsubscribe(&reader);
}

static void crowds(struct siege *s) {
    crowd(s, s->in, "PUSH", "frames.peers.refused", "frames.peers.failed.too_often");
    crowd(s, s->out, "SUB", "output.peers.refused", "output.peers.failed.too_often");
}

/* Several processes that connect as fast as they can: libzmq aborts if it has no descriptor for a
 * connection to an ipc endpoint, so they have to be refused as fast. */
static void bursts(struct siege *s) {
    enum { PROCESSES = 6, EACH = 3000 };
    const struct rlimit few = {4096, 4096};
    pid_t child[PROCESSES];
    if (strncmp(s->in, "ipc://", 6) != 0 || prlimit(s->daemon, RLIMIT_NOFILE, &few, NULL))
        return;
    for (int i = 0; i < PROCESSES; i++)
        if ((child[i] = fork()) == 0) {
            for (int k = 0; k < EACH; k++)
                zmtp_connect(i & 1 ? s->in : s->out);
            _exit(0);
        }
    for (int i = 0; i < PROCESSES; i++)
        waitpid(child[i], NULL, 0);
    usleep(100000);
    if (!process_running(s->daemon))
        die(s, "the daemon is gone");
}

/* Connections up to the limit of descriptors, at all sockets: libzmq aborts without a descriptor
 * for a connection to an ipc endpoint. Later peers are served. */
static void descriptors(struct siege *s) {
    enum { EACH = 1400 };
    static const rlim_t limit[] = {1024, 256};
    const char *const endpoint[] = {s->control, s->out, s->in};
    struct rlimit before, few;
    static int fd[3][EACH];
    for (size_t k = 0; k < sizeof limit / sizeof limit[0]; k++) {
        if (prlimit(s->daemon, RLIMIT_NOFILE, NULL, &before))
            return;
        few = (struct rlimit){limit[k], before.rlim_max};
        prlimit(s->daemon, RLIMIT_NOFILE, &few, NULL);
        for (int e = 0; e < 3; e++)
            for (int i = 0; i < EACH; i++)
                fd[e][i] = zmtp_connect(endpoint[e]);
        if (!process_running(s->daemon))
            die(s, "the daemon is gone: no descriptor");
        for (int e = 0; e < 3; e++)
            for (int i = 0; i < EACH; i++)
                close(fd[e][i]);
        prlimit(s->daemon, RLIMIT_NOFILE, &before, NULL);
        usleep(200000);
        if (!process_running(s->daemon))
            die(s, "the daemon is gone: no descriptor");
    }
    int last = -1;
    for (int i = 0; i < 300 && last < 0; i++, usleep(200000))
        last = join(s, s->control, "REQ");
    expect(last >= 0, "the control socket serves after a crowd", last, 0);
    close(last);
}

/* Complete messages that are no frames, over raw connections: each is counted. */
static void nonsense(struct siege *s) {
    for (int i = 0; i < 40; i++) {
        int fd = join(s, s->in, "PUSH");
        for (int k = 0; fd >= 0 && k < 25; k++) {
            for (int parts = k % 5; parts > 0; parts--)
                zmtp_part(fd, k, 40, true, 1000);
            s->sent += zmtp_part(fd, k, (size_t)k * 7, false, 1000);
        }
        close(fd);
    }
}

/* More than the daemon takes. An instrumented one takes it, because it keeps freed memory aside. */
static const size_t ENDLESS_BYTES = (size_t)(INSTRUMENTED ? 256 : 1536) * MIB,
                    ENDLESS_PARTS = INSTRUMENTED ? 100000 : SIZE_MAX;

static void endless(struct siege *s, const char *endpoint, const char *type, size_t part_bytes,
                    const char *counter) {
    double before = number_now(s, counter);
    int fd = join_at_last(s, endpoint, type);
    for (size_t sent = 0; fd >= 0 && sent < ENDLESS_BYTES && sent / part_bytes < ENDLESS_PARTS;
         sent += part_bytes)
        if (!zmtp_part(fd, 0, part_bytes, true, 2000) || zmtp_is_over(fd))
            break;
    if (!INSTRUMENTED) {
        message m = status_with(s, counter, before + 1);
        message_free(&m);
    }
    close(fd);
    check_memory(s, "memory after parts without end");
}

/* The same at the control socket, which closes the connection. */
static void endless_request(struct siege *s) {
    size_t sent = 0;
    int fd = -1;
    for (int i = 0; i < 300 && fd < 0; i++, usleep(200000))
        fd = join(s, s->control, "REQ");
    for (; fd >= 0 && sent < ENDLESS_BYTES; sent += MIB / 2)
        if (!zmtp_part(fd, 0, MIB / 2, true, 2000) || zmtp_is_over(fd))
            break;
    for (int i = 0; !INSTRUMENTED && i < 600 && fd >= 0 && !zmtp_is_over(fd); i++)
        usleep(50000);
    expect(INSTRUMENTED || zmtp_is_over(fd), "a request without end is cut", (double)sent, 0);
    close(fd);
    check_memory(s, "memory after a request without end");
}

/* The samples' socket is reopened only because of digitisers, never because of other peers. */
static void endless_parts(struct siege *s) {
    const char *samples = "frames.peers.reopened_memory";
    endless(s, s->in, "PUSH", MIB, samples);
    const double before = number_now(s, samples);
    endless(s, s->out, "SUB", 100, "output.peers.reopened_memory");
    endless_request(s);
    const double now = number_now(s, samples);
    expect(INSTRUMENTED || now == before, "samples lost for what others hold", now, before);
}

static bool subscribe_raw(int fd, int number, size_t bytes) {
    uint8_t frame[9 + 1024] = {2};
    for (int i = 0; i < 8; i++)
        frame[1 + i] = (uint8_t)((uint64_t)bytes >> (56 - 8 * i));
    memset(frame + 9, 'a' + number % 26, bytes);
    frame[9] = 1;
    memcpy(frame + 10, &number, sizeof number);
    return zmtp_bytes(fd, frame, 9 + bytes, 1000);
}

/* Readers that subscribe to thousands of long topics faster than they are processed, and reset. */
static void hoards(struct siege *s) {
    for (int round = 0; round < 3; round++) {
        int fd[6];
        for (int i = 0; i < 6; i++)
            fd[i] = join(s, s->out, "SUB");
        for (int k = 0; k < 1500; k++)
            for (int i = 0; i < 6; i++)
                if (fd[i] >= 0 && !subscribe_raw(fd[i], 6 * k + i, TOPIC)) {
                    close(fd[i]);
                    fd[i] = -1;
                }
        for (int i = 0; i < 6; i++)
            if (fd[i] >= 0)
                zmtp_reset(fd[i]);
    }
    const int fd = join_at_last(s, s->out, "SUB");
    for (int k = 0; k < 8000 && subscribe_raw(fd, k, TOPIC) && !zmtp_is_over(fd); k++)
        usleep(1000);
    for (int i = 0; i < 1200 && !zmtp_is_over(fd); i++)
        usleep(50000);
    expect(zmtp_is_over(fd), "hoards cut", 0, 1);
    close(fd);
    check_memory(s, "memory after hoards of subscriptions");
}

/* Subscriptions without a pause, faster than libzmq processes them: libzmq does not return to the
 * daemon while more arrive, and the daemon must still end the flood. */
static void flood(const struct siege *s, int number) {
    int fd = -1;
    for (int i = 0; i < 300 && fd < 0; i++, usleep(200000)) { /* possibly too often by now */
        fd = zmtp_connect(s->out);
        if (fd >= 0 && !zmtp_handshake(fd, "SUB")) {
            close(fd);
            fd = -1;
        }
    }
    const int64_t end_ns = sonar_monotonic_ns() + 60 * (int64_t)1000000000;
    bool cut = fd < 0;
    for (int sent = 0; !cut && sonar_monotonic_ns() < end_ns; sent++)
        cut = !subscribe_raw(fd, sent << 8 | number, TOPIC) || zmtp_is_over(fd);
    _exit(!cut);
}

static void floods(struct siege *s) {
    enum { READERS = 6 };
    pid_t child[READERS];
    int sent_all = 0;
    for (int i = 0; i < READERS; i++)
        if ((child[i] = fork()) == 0)
            flood(s, i);
    for (int i = 0; i < READERS; i++) {
        int status = 0;
        waitpid(child[i], &status, 0);
        sent_all += status != 0;
    }
    expect(sent_all == 0, "floods that were not cut", sent_all, 0);
    check_memory(s, "memory after floods of subscriptions");
}

/* Digitisers that die in the middle of large messages. */
static void deaths(struct siege *s) {
    for (int round = 0; round < 8; round++) {
        int fd[8];
        uint8_t head[9] = {2, 0, 0, 0, 0, 0, 0x0f, 0, 0}; /* 960 KiB are to come */
        for (int i = 0; i < 8; i++) {
            fd[i] = join(s, s->in, "PUSH");
            zmtp_part(fd[i], i, 512 << 10, true, 1000);
            zmtp_bytes(fd[i], head, sizeof head, 1000);
            zmtp_bytes(fd[i], head, sizeof head, 1000);
        }
        for (int i = 0; i < 8; i++)
            i & 1 ? close(fd[i]) : zmtp_reset(fd[i]);
    }
    check_memory(s, "memory after deaths");
}

/* Sends complete messages until no more are accepted; returns their number. */
static int fill(int fd, size_t part_bytes) {
    int count = 0;
    while (fd >= 0 && count < 10000 && zmtp_part(fd, 1, part_bytes, false, 100))
        count++;
    return count;
}

/* A counter, once it no longer changes. */
static double settled(struct siege *s, const char *path) {
    double before, now = number_now(s, path);
    do {
        before = now;
        usleep(1100000);
        now = number_now(s, path);
    } while (now != before);
    return now;
}

/* Only the daemon knows whether messages arrived before their connection was reset, so its counter
 * is used once it no longer changes. */
static void restart_counts(struct siege *s, double most) {
    const double now = settled(s, "frames.received");
    expect(now <= s->sent + most, "messages of the dead", now, s->sent + most);
    s->sent = now;
}

/* The daemon's thread is stopped, so the input of all connections stops; their peers die; all of
 * libzmq's timers expire; the thread resumes. Returns the number of messages, 0 if the connections
 * had been cut before: the daemon opens a socket again for what the campaign before left in it. */
static int die_once(struct siege *s, const char *thread_name, const char *endpoint,
                    const char *type, size_t part_bytes) {
    int fd[8], sent = 0;
    for (int i = 0; i < 8; i++)
        fd[i] = join_at_last(s, endpoint, type);
    pid_t thread = thread_hold(s->daemon, thread_name);
    if (thread < 0)
        printf("skipped: %s cannot be held back here\n", thread_name);
    for (int i = 0; i < 8; i++)
        sent += fill(fd[i], part_bytes);
    for (int i = 0; i < 8; i++)
        i & 1 ? close(fd[i]) : zmtp_reset(fd[i]);
    usleep(2500000);
    if (thread >= 0)
        thread_release(thread);
    usleep(200000);
    if (!process_running(s->daemon))
        die(s, "the daemon is gone");
    return sent;
}

static void die_behind(struct siege *s, const char *thread_name, const char *endpoint,
                       const char *type, size_t part_bytes) {
    int sent = 0;
    for (int round = 0; round < 5 && sent <= 8; round++) {
        sent = die_once(s, thread_name, endpoint, type, part_bytes);
        restart_counts(s, !strcmp(type, "PUSH") ? sent : 0);
    }
    expect(sent > 8, "messages to a thread that is behind", sent, 9);
}

static void deaths_behind(struct siege *s) {
    die_behind(s, "sonar-ingest", s->in, "PUSH", 64 << 10);
    die_behind(s, "sonar-output", s->out, "SUB", 500);
    check_memory(s, "memory after deaths behind");
}

/* Killed and restarted during a feed in real time, as by a service manager: measures the time until
 * a waiting reader has a spectrum. */
static void restarts(struct siege *s) {
    const int64_t frame_ns = (int64_t)FRAME * 1000000000 / 8000;
    message m;
    subscriber reader = subscribe(s->out, "cbf.azimuth", NULL);
    kill(s->daemon, SIGKILL);
    process_wait(s->daemon, 60000);
    while (receive(&reader, &m, 100))
        message_free(&m);
    int64_t began_ns = sonar_monotonic_ns(), next_ns = began_ns;
    double before = s->sent;
    s->daemon =
        process_start(&s->box, "sonard.log", "sonard", box_path(&s->box, "sonard.yaml"), NULL);
    for (bool came = false; !came; next_ns += frame_ns) {
        if (sonar_monotonic_ns() - began_ns > (int64_t)PATIENCE_MS * 1000000)
            die(s, "no spectrum after a restart");
        send_frames(s, 1);
        int64_t left_ns = next_ns + frame_ns - sonar_monotonic_ns();
        came = receive(&reader, &m, left_ns > 0 ? (int)(left_ns / 1000000) : 0);
    }
    printf("restart to first spectrum: %.0f ms\n", (double)(sonar_monotonic_ns() - began_ns) / 1e6);
    message_free(&m);
    unsubscribe(&reader);
    double since = s->sent - before; /* what was on its way is counted here or nowhere */
    s->sent = 0;
    restart_counts(s, before + since);
}

/* A reader that pauses for longer than heartbeats would allow, and then reads on. */
static void pauses(struct siege *s) {
    message m;
    int one = 1, silent = join_at_last(s, s->out, "SUB");
    subscriber reader = subscribe(s->out, "", NULL);
    zmq_setsockopt(reader.socket, ZMQ_RCVHWM, &one, sizeof one);
    subscribe_raw(silent, 0, 1); /* everything, and never reads */
    for (int i = 0; i < 20; i++) {
        send_frames(s, 40);
        usleep(200000);
    }
    for (int i = 0; i < 10; i++) {
        send_frames(s, 1);
        if (!receive(&reader, &m, 20000))
            die(s, "a reader that had paused gets nothing any more");
        message_free(&m);
    }
    unsubscribe(&reader);
    close(silent);
}

/* ---- readers that come and go ---------------------------------------------------------------- */

enum { PROCESSES_MOST = 8 };

/* Behaviour of one attacker's connections. */
struct visit {
    const char *name;
    double rate_hz; /* of all together; 0: each process floods, is disconnected and reconnects */
    int processes, topics, held;
    size_t bytes; /* of a topic */
    bool many;    /* from many addresses */
};

/* An address that is not that of honest readers, where the transport has any. */
static const char *other_address(bool many, char text[32]) {
    snprintf(text, 32, "127.%d.%d.%d", many ? 1 + rand() % 200 : 222, many ? rand() % 250 : 1,
             many ? 1 + rand() % 250 : 1);
    return text;
}

static bool is_ipc(const struct siege *s) {
    return !strncmp(s->out, "ipc://", 6);
}

/* Over ipc, peers are distinguished by their user, and only root can change its user. */
static void become_another(const struct siege *s) {
    const uid_t nobody = 65534;
    if (is_ipc(s) && !geteuid() && (setgroups(0, NULL) || setgid(nobody) || setuid(nobody)))
        _exit(1);
}

/* True if peers that are not part of this attack may still connect as they like. */
static bool leaves_room(const struct siege *s, const struct visit *v) {
    return !v->many && (!is_ipc(s) || !geteuid());
}

/* Waits for no answer: a handshake that is refused takes its time. */
static int visit_plain(const struct siege *s, const struct visit *v, int number) {
    char address[32];
    const int fd = zmtp_connect_from(s->out, other_address(v->many, address));
    bool good = fd >= 0 && zmtp_introduce(fd, "SUB");
    for (int k = 0; k < v->topics && good; k++)
        good = subscribe_raw(fd, number << 5 | k, v->bytes);
    return fd;
}

static void *visit_with_key(const struct siege *s, const struct visit *v, void *context) {
    char topic[1024], endpoint[sizeof s->out + 32], address[32];
    int zero = 0, never = -1;
    void *socket = zmq_socket(context, ZMQ_SUB);
    zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(socket, ZMQ_RECONNECT_IVL, &never, sizeof never);
    use_keys(socket, s->server_key, s->other_key, s->other_secret);
    for (int k = 0; k < v->topics; k++) {
        for (size_t i = 0; i < v->bytes; i++)
            topic[i] = (char)('a' + rand() % 26);
        zmq_setsockopt(socket, ZMQ_SUBSCRIBE, topic, v->bytes);
    }
    snprintf(endpoint, sizeof endpoint, "tcp://%s:0;%s", other_address(v->many, address),
             s->out + strlen("tcp://"));
    zmq_connect(socket, endpoint);
    return socket;
}

static void flood_again(const struct siege *s, const struct visit *v, int process) {
    char address[32];
    for (int sent = 0;; usleep(1000)) {
        const int fd = zmtp_connect_from(s->out, other_address(v->many, address));
        if (fd >= 0 && zmtp_handshake(fd, "SUB"))
            while (subscribe_raw(fd, sent << 8 | process, v->bytes) && !zmtp_is_over(fd))
                sent++;
        close(fd);
    }
}

/* One process of the attacker, until it is killed. */
static void visit(const struct siege *s, const struct visit *v, int process) {
    enum { HELD_MOST = 128 };
    int fd[HELD_MOST];
    void *socket[HELD_MOST] = {NULL}, *context = s->keys ? zmq_ctx_new() : NULL;
    become_another(s);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no attackers */
    if (!v->rate_hz)
        flood_again(s, v, process);
    const int64_t every_ns = (int64_t)(1e9 * v->processes / v->rate_hz);
    int64_t next_ns = sonar_monotonic_ns();
    const int held = v->held / v->processes + 1;
    memset(fd, -1, sizeof fd);
    srand((unsigned)getpid());
    for (int i = 0;; i = (i + 1) % held, next_ns += every_ns) {
        if (socket[i])
            zmq_close(socket[i]);
        if (fd[i] >= 0)
            i & 1 ? close(fd[i]) : zmtp_reset(fd[i]);
        if (s->keys)
            socket[i] = visit_with_key(s, v, context);
        else
            fd[i] = visit_plain(s, v, (rand() & 0xffff) << 3 | process);
        const int64_t left_ns = next_ns + every_ns - sonar_monotonic_ns();
        if (left_ns > 0)
            usleep((unsigned)(left_ns / 1000));
        else
            next_ns -= left_ns;
    }
}

/* Counts windows that an honest reader gets while frames come in real time. Meanwhile other readers
 * join one after the other, each until its first window. */
struct watch_kept {
    int got, joined;
    double gap_s, join_s; /* the longest */
    long most_bytes;      /* of the daemon */
    bool newcomers;
    subscriber newcomer; /* one subscriber that waits */
    int64_t since_ns;
};

static void attend_newcomer(const struct siege *s, struct watch_kept *kept) {
    const int64_t now_ns = sonar_monotonic_ns(), pause_ns = 500000000;
    message m;
    if (kept->newcomer.socket && receive(&kept->newcomer, &m, 0)) {
        kept->join_s = fmax(kept->join_s, (double)(now_ns - kept->since_ns) * 1e-9);
        kept->joined++;
        message_free(&m);
        unsubscribe(&kept->newcomer);
        kept->newcomer.socket = NULL;
        kept->since_ns = now_ns;
    } else if (!kept->newcomer.socket && now_ns - kept->since_ns > pause_ns) {
        kept->newcomer = reader_of(s, "cbf.azimuth");
        kept->since_ns = now_ns;
    }
}

static void keep_watch(struct siege *s, subscriber *reader, int frames, struct watch_kept *kept) {
    const int64_t frame_ns = (int64_t)FRAME * 1000000000 / 8000;
    int64_t next_ns = sonar_monotonic_ns(), last_ns = next_ns;
    message m;
    for (int i = 0; i < frames; i++) {
        send_frames(s, 1);
        next_ns += frame_ns;
        if (kept->newcomer.socket ||
            (kept->newcomers && i + 32 < frames)) /* no newcomer is left waiting */
            attend_newcomer(s, kept);
        const long bytes = resident_bytes(s->daemon);
        kept->most_bytes = bytes > kept->most_bytes ? bytes : kept->most_bytes;
        for (int64_t left_ns; (left_ns = next_ns - sonar_monotonic_ns()) > 0;)
            if (receive(reader, &m, (int)(left_ns / 1000000) + 1)) {
                const int64_t now_ns = sonar_monotonic_ns();
                kept->gap_s = fmax(kept->gap_s, (double)(now_ns - last_ns) * 1e-9);
                last_ns = now_ns;
                kept->got++;
                message_free(&m);
            }
    }
    kept->gap_s = fmax(kept->gap_s, (double)(sonar_monotonic_ns() - last_ns) * 1e-9);
}

/* Losses so far, and reopened sockets. Windows and results that are dropped because computing and
 * sending are too slow do not count in a short siege, since the machine may be busy. */
static double losses(struct siege *s, bool tell) {
    static const char *const path[] = {"samples.missing",
                                       "windows.dropped.missing",
                                       "windows.dropped.shed",
                                       "frames.peers.reopened_memory",
                                       "output.peers.reopened_memory",
                                       "output.results_dropped",
                                       "windows.dropped.overload"};
    double sum = 0;
    message m = status_with(s, "uptime_s", 0);
    for (size_t i = 0; i < sizeof path / sizeof path[0] - (s->lasting ? 0 : 2); i++) {
        sum += header_number(m.head, path[i]);
        if (tell)
            printf("%s: %.0f\n", path[i], header_number(m.head, path[i]));
    }
    message_free(&m);
    return sum;
}

/* SIGTERM in the middle of it, and a new start. */
static void stop_and_start(struct siege *s) {
    const int64_t began_ns = sonar_monotonic_ns();
    kill(s->daemon, SIGTERM);
    const int status = process_wait(s->daemon, 60000);
    const double took_s = (double)(sonar_monotonic_ns() - began_ns) * 1e-9;
    expect(status == 0, "exit code under siege", status, 0);
    if (s->lasting)
        expect(took_s <= 2, "seconds until it has stopped", took_s, 2);
    printf("stopped within %.2f s\n", took_s);
    s->daemon =
        process_start(&s->box, "sonard.log", "sonard", box_path(&s->box, "sonard.yaml"), NULL);
    s->sent = 0;
    s->frame.epoch++;
    s->frame.sequence = s->frame.first_sample = 0;
}

/* A waiting reader gets its window at the latest after the attack. */
static void await_newcomer(struct siege *s, subscriber *reader, struct watch_kept *kept) {
    for (int i = 0; i < PATIENCE_MS / 1000 && kept->newcomer.socket; i++)
        keep_watch(s, reader, 32, kept);
    if (kept->newcomer.socket)
        die(s, "a reader that joined under siege got no window");
}

/* The daemon's counts at one moment. */
struct stand {
    double processed, lost, late, accepted;
};

/* In this order, since losses during the daemon's start may not be in the status yet. */
static struct stand stand_of(struct siege *s) {
    struct stand now = {.processed = settled(s, "windows.processed")};
    now.lost = losses(s, false);
    now.late = number_now(s, "output.results_dropped");
    now.accepted = number_now(s, "output.peers.accepted");
    return now;
}

/* Ends the reader once it has had all windows that were published. On a busy machine the last of
 * them come long after the last frame. */
static void judge(struct siege *s, const struct visit *v, struct stand before, subscriber *reader,
                  struct watch_kept *kept) {
    const struct stand now = stand_of(s);
    const double windows = now.processed - before.processed, late = now.late - before.late;
    message m;
    for (; kept->got < windows - late && receive(reader, &m, PATIENCE_MS); kept->got++)
        message_free(&m);
    unsubscribe(reader);
    printf("%s: %s: %d of %.0f windows, %.0f given up, longest gap %.2f s; %d joined, within %.2f "
           "s; %.0f connections came, at most %ld MiB\n",
           s->over, v->name, kept->got, windows, late, kept->gap_s, kept->joined, kept->join_s,
           now.accepted - before.accepted, kept->most_bytes / MIB);
    expect(now.accepted >= before.accepted + kept->joined + v->processes, "attackers that came",
           now.accepted - before.accepted, kept->joined + v->processes);
    expect(!kept->newcomers || kept->joined > 0, "readers that joined", kept->joined, 1);
    if (INSTRUMENTED)
        return;
    /* As for losses: dropped results may be due to a busy machine, but never most of them. */
    const double due = fmax(0.95 * windows - (s->lasting ? 0 : late), 0.75 * windows);
    expect(kept->got >= due && windows > 0, v->name, kept->got, due);
    if (s->lasting) {
        expect(kept->gap_s < 1, "gap between windows, s", kept->gap_s, 1);
        expect(kept->join_s < 2, "until a reader that joins has a window, s", kept->join_s, 2);
    }
    expect(now.lost == before.lost, "lost for readers' sake", now.lost, before.lost);
    if (now.lost != before.lost)
        losses(s, true);
}

/* A reader that is served, and has had everything up to now. */
static subscriber served_reader(struct siege *s, struct stand *stand) {
    subscriber reader = reader_of(s, "cbf.azimuth");
    message m;
    for (bool came = false; !came; came = receive(&reader, &m, 100))
        send_frames(s, 1);
    message_free(&m);
    *stand = stand_of(s);
    while (receive(&reader, &m, 100))
        message_free(&m);
    return reader;
}

static void attack(const struct siege *s, const struct visit *v, pid_t *child) {
    for (int i = 0; i < v->processes; i++)
        if ((child[i] = fork()) == 0)
            visit(s, v, i);
}

static void end_attack(const struct visit *v, const pid_t *child) {
    for (int i = 0; i < v->processes; i++) {
        kill(child[i], SIGKILL);
        waitpid(child[i], NULL, 0);
    }
}

/* A reader of the status that has joined before the attack: while very many addresses attack, new
 * readers may have to wait (docs/threats.md). */
static subscriber status_reader(struct siege *s) {
    subscriber status = reader_of(s, "status");
    message m;
    if (!receive_until(&status, "status", "uptime_s", 0, PATIENCE_MS, &m))
        die(s, "no status before an attack");
    message_free(&m);
    return status;
}

/* On a busy machine an attacker may not have connected within the frames of an attack. */
static void await_attackers(struct siege *s, const struct visit *v, const struct stand *before,
                            subscriber *status, subscriber *reader, struct watch_kept *kept) {
    double accepted = 0;
    message m;
    for (int look = 0; look < PATIENCE_MS / 1000; look++) {
        while (receive(status, &m, 0)) {
            accepted = header_number(m.head, "output.peers.accepted");
            message_free(&m);
        }
        if (accepted >= before->accepted + kept->joined + v->processes)
            return;
        keep_watch(s, reader, 32, kept);
    }
}

/* frames: how many the attack lasts, and as many again without it; stop: SIGTERM after the first.
 */
static void besiege_readers(struct siege *s, const struct visit *v, int frames, bool stop) {
    if (!strstr(v->name, s->attack))
        return;
    pid_t child[PROCESSES_MOST];
    struct stand before;
    struct watch_kept kept = {.newcomers = !stop && leaves_room(s, v)};
    subscriber status = status_reader(s), reader = served_reader(s, &before);
    attack(s, v, child);
    keep_watch(s, &reader, frames, &kept);
    if (stop)
        stop_and_start(s);
    else
        await_attackers(s, v, &before, &status, &reader, &kept);
    end_attack(v, child);
    if (!stop) { /* the held connections all end at once */
        keep_watch(s, &reader, frames, &kept);
        await_newcomer(s, &reader, &kept);
    }
    if (!process_running(s->daemon))
        die(s, "the daemon is gone");
    unsubscribe(&status);
    if (stop)
        unsubscribe(&reader);
    else
        judge(s, v, before, &reader, &kept);
}

static int frames_of_attack(const struct siege *s) {
    return s->lasting ? 60 * 32 : 2 * 32;
}

/* The subscriptions of each connection, all of which libzmq goes through when it leaves. */
static const struct load {
    int topics;
    size_t bytes;
} load[] = {{16, 1000}, {25, 40}, {16, 15}};
enum { LOADS = sizeof load / sizeof load[0] };

static struct visit visit_of(struct load load, double rate_hz, int processes, char name[96]) {
    snprintf(name, 96, "%.0f a second of %d, %d topics of %zu bytes", rate_hz, processes,
             load.topics, load.bytes);
    return (struct visit){name, rate_hz, processes, load.topics, 90, load.bytes, false};
}

/* Every load at every rate, by one process and by eight: five a second is what the gate admits. */
static void visit_at_every_rate(struct siege *s) {
    static const double rate_hz[] = {1, 5, 100, 1000};
    static const int processes[] = {1, 8};
    char name[96];
    for (size_t i = 0; i < LOADS; i++)
        for (size_t r = 0; r < sizeof rate_hz / sizeof rate_hz[0]; r++)
            for (size_t p = 0; p < sizeof processes / sizeof processes[0]; p++) {
                const struct visit v = visit_of(load[i], rate_hz[r], processes[p], name);
                besiege_readers(s, &v, frames_of_attack(s), false);
            }
}

/* Readers that connect, subscribe to foreign topics and leave; libzmq goes through all
 * subscriptions each time. */
static void visits(struct siege *s) {
    static const struct visit of[] = {
        {"1000 a second of many addresses, 16 topics of 120 bytes", 1000, 8, 16, 90, 120, true},
        {"50 a second, 16000 topics of 120 bytes", 50, 8, 16000, 16, 120, false},
        {"5 a second, 64 topics of 60 bytes", 5, 1, 64, 90, 60, false}};
    char name[96];
    const struct visit worst = visit_of(load[1], 1000, 8, name);
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        besiege_readers(s, &of[i], frames_of_attack(s), false);
    if (s->lasting)
        visit_at_every_rate(s);
    else
        besiege_readers(s, &worst, frames_of_attack(s), false);
}

/* Repeated floods together with an honest reader. */
static void floods_again(struct siege *s) {
    static const struct visit of = {"floods", 0, 6, 0, 0, TOPIC, false};
    besiege_readers(s, &of, frames_of_attack(s), false);
    check_memory(s, "memory after floods that came again");
}

/* `sonarctl train` while readers connect and leave. If overload is `block`, samples wait meanwhile,
 * and their windows are published afterwards. */
static void trains(struct siege *s) {
    static const struct visit of = {"and training", 1000, 8, 25, 90, 40, false};
    pid_t child[PROCESSES_MOST];
    struct stand before;
    struct watch_kept kept = {0};
    char *table = strdup(box_path(&s->box, "train.yaml"));
    unlink(table);
    subscriber reader = served_reader(s, &before);
    attack(s, &of, child);
    keep_watch(s, &reader, 32, &kept);
    const pid_t ctl =
        process_start(&s->box, "ctl.log", "sonarctl", "-e", s->control, "train", NULL);
    while (process_running(ctl))
        keep_watch(s, &reader, 1, &kept);
    const int status = process_wait(ctl, PATIENCE_MS);
    expect(status == 0, "exit code of sonarctl train", status, 0);
    const int64_t ended_ns = sonar_monotonic_ns(), patience_ns = (int64_t)PATIENCE_MS * 1000000;
    while (access(table, F_OK) && sonar_monotonic_ns() - ended_ns < patience_ns)
        keep_watch(s, &reader, 1, &kept);
    keep_watch(s, &reader, 32, &kept);
    end_attack(&of, child);
    expect(!access(table, F_OK), "training under siege has ended", 0, 1);
    free(table);
    kept.gap_s = 0; /* nothing is computed while it trains */
    judge(s, &of, before, &reader, &kept);
}

/* A short siege stops once; a long one under every load, early and late in the attack. */
static void stops(struct siege *s) {
    char name[96];
    int frames = 4;
    for (size_t i = s->lasting ? 0 : LOADS - 1; i < LOADS; i++)
        for (int processes = s->lasting ? 1 : 8; processes <= 8; processes += 7, frames *= 3) {
            const struct visit v = visit_of(load[i], 1000, processes, name);
            besiege_readers(s, &v, s->lasting ? frames : 64, true);
        }
}

/* At a port with CURVE: plain peers, random bytes, half handshakes and wrong keys, all at once.
 * Each is counted once, by its cause, and no other counter changes. */
static void burglars(struct siege *s) {
    enum { EACH = 60, RAW = 4, CAUSES = 4 };
    static const char *const cause[] = {"unknown_key", "wrong_mechanism", "malformed",
                                        "unfinished"};
    static const double wanted[] = {EACH, EACH, 2 * EACH, EACH};
    char path[64], public_key[41], secret_key[41];
    void *stranger[EACH];
    int fd[RAW][EACH], zero = 0;
    double before[CAUSES];
    for (int i = 0; i < CAUSES; i++) {
        snprintf(path, sizeof path, "frames.peers.failed.%s", cause[i]);
        before[i] = number_now(s, path);
    }
    zmq_curve_keypair(public_key, secret_key);
    for (int i = 0; i < EACH; i++) {
        for (int kind = 0; kind < RAW; kind++)
            fd[kind][i] = zmtp_connect(s->in);
        zmtp_handshake(fd[0][i], "PUSH");
        zmtp_bytes(fd[1][i], "GET / HTTP/1.1\r\n\r\n", 18, 100);
        if (zmtp_greet(fd[2][i], "CURVE"))
            zmtp_part(fd[2][i], i, 200, false, 100);
        if (zmtp_greet(fd[3][i], "CURVE"))
            zmtp_curve_hello(fd[3][i], s->server_key);
        stranger[i] = zmq_socket(s->context, ZMQ_PUSH);
        zmq_setsockopt(stranger[i], ZMQ_LINGER, &zero, sizeof zero);
        use_keys(stranger[i], s->server_key, public_key, secret_key);
        zmq_connect(stranger[i], s->in);
    }
    for (int i = 0; i < CAUSES; i++) { /* the halves last 10 s */
        snprintf(path, sizeof path, "frames.peers.failed.%s", cause[i]);
        message m = status_with(s, path, before[i] + wanted[i]);
        expect(header_number(m.head, path) == before[i] + wanted[i], path,
               header_number(m.head, path) - before[i], wanted[i]);
        message_free(&m);
    }
    for (int i = 0; i < EACH; i++) {
        zmq_close(stranger[i]);
        for (int kind = 0; kind < RAW; kind++)
            close(fd[kind][i]);
    }
    check_memory(s, "memory after burglars");
}

/* ---- all ------------------------------------------------------------------------------------- */

enum { TCP = 1, IPC = 2, CURVE = 4, PLAIN = TCP | IPC, ALL = PLAIN | CURVE, PARTS = 3 };

/* Whether a campaign is selected: all if `only` is NULL and `part` is 0. */
struct choice {
    const char *only, *attack;
    int part;
};

static void besiege(bool tcp, const char *overload, bool keys, struct choice choice,
                    double until_s) {
    static const struct {
        const char *name;
        void (*run)(struct siege *);
        unsigned where;
        int part;
    } campaign[] = {{"strangers", strangers, PLAIN, 1},
                    {"burglars", burglars, CURVE, 1},
                    {"crowds", crowds, PLAIN, 1},
                    {"bursts", bursts, PLAIN, 1},
                    {"descriptors", descriptors, PLAIN, 1},
                    {"nonsense", nonsense, PLAIN, 1},
                    {"hoards", hoards, PLAIN, 1},
                    {"floods", floods, PLAIN, 1},
                    {"floods again", floods_again, PLAIN, 2},
                    {"visits", visits, ALL, 2},
                    {"trains", trains, IPC | CURVE, 3},
                    {"stops", stops, ALL, 2},
                    {"deaths", deaths, PLAIN, 3},
                    {"deaths behind", deaths_behind, PLAIN, 3},
                    {"endless parts", endless_parts, PLAIN, 3},
                    {"pauses", pauses, PLAIN, 3}};
    struct siege s;
    start(&s, tcp, overload, keys, until_s > (double)sonar_monotonic_ns() * 1e-9 + 1);
    s.attack = choice.attack;
    check(&s, "rest");
    s.rest_bytes = resident_bytes(s.daemon);
    do
        for (size_t i = 0; i < sizeof campaign / sizeof campaign[0]; i++) {
            bool fits = campaign[i].where & (keys ? CURVE : tcp ? TCP : IPC);
            if (!fits || (choice.part && choice.part != campaign[i].part) ||
                (choice.only && strcmp(choice.only, campaign[i].name) != 0))
                continue;
            double began_s = (double)sonar_monotonic_ns() * 1e-9;
            campaign[i].run(&s);
            check(&s, campaign[i].name);
            printf("%s, %s: %s: %.1f s, %ld MiB\n", s.over, overload, campaign[i].name,
                   (double)sonar_monotonic_ns() * 1e-9 - began_s, resident_bytes(s.daemon) / MIB);
        }
    while ((double)sonar_monotonic_ns() * 1e-9 < until_s);
    const bool last_part = !choice.part || choice.part == PARTS;
    if (!keys && last_part) { /* last, for memory that leaks grows over the rounds of one process */
        restarts(&s);
        check(&s, "restarts");
    }
    zmq_close(s.push);
    zmq_ctx_term(s.context);
    kill(s.daemon, SIGTERM);
    int status = process_wait(s.daemon, 60000);
    expect(status == 0, "exit code", status, 0);
    box_close(&s.box);
}

int main(int argc, char **argv) {
    static const struct option options[] = {
        {"seconds", required_argument, NULL, 's'}, {"campaign", required_argument, NULL, 'c'},
        {"over", required_argument, NULL, 'o'},    {"part", required_argument, NULL, 'p'},
        {"attack", required_argument, NULL, 'a'},  {0}};
    const char *over = NULL;
    struct choice choice = {.attack = ""};
    double seconds = 0;
#ifdef __SANITIZE_THREAD__
    puts("skipped: too slow");
    return 77;
#endif
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;)
        if (c == 'c')
            choice.only = optarg;
        else if (c == 'o')
            over = optarg;
        else if (c == 'a')
            choice.attack = optarg;
        else if (c == 'p' && atoi(optarg) >= 1 && atoi(optarg) <= PARTS)
            choice.part = atoi(optarg);
        else if (c != 's' || !((seconds = atof(optarg)) > 0))
            return 2;
    /* Quarantined freed memory would make the daemon reopen its sockets and lose their messages. */
    if (INSTRUMENTED)
        setenv("ASAN_OPTIONS",
               "detect_leaks=1:quarantine_size_mb=8:allocator_release_to_os_interval_ms=100", 1);
    setvbuf(stdout, NULL, _IOLBF, 0);
    sonar_descriptors_raise();
    double now_s = (double)sonar_monotonic_ns() * 1e-9;
    static const struct {
        const char *name;
        bool tcp, keys;
        const char *overload;
    } transport[] = {{"tcp", true, false, "drop_oldest"},
                     {"ipc", false, false, "block"},
                     {"curve", true, true, "block"}};
    int besieged = 0;
    for (int i = 0; i < 3; i++)
        if (!over || strcmp(over, transport[i].name) == 0) {
            const double share = over ? 1 : (i + 1) / 3.0;
            besiege(transport[i].tcp, transport[i].overload, transport[i].keys, choice,
                    now_s + seconds * share);
            besieged++;
        }
    return besieged ? problems > 0 : 2;
}
