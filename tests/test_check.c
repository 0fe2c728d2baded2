/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar-check: with hostile publishers, and its reports on a digitiser's frames. */
#include <criterion/criterion.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "checker.h"
#include "core/core.h"
#include "incoming.h"
#include "ingest/frame.h"
#include "process.h"

static void *bind_pub(void *context, const char *endpoint) {
    void *pub = zmq_socket(context, ZMQ_PUB);
    int zero = 0;
    zmq_setsockopt(pub, ZMQ_LINGER, &zero, sizeof zero);
    cr_assert_eq(zmq_bind(pub, endpoint), 0, "%s", endpoint);
    return pub;
}

static void publish(void *pub, const char *topic, const char *header) {
    zmq_send(pub, topic, strlen(topic), ZMQ_SNDMORE);
    zmq_send(pub, header, strlen(header), ZMQ_SNDMORE);
    zmq_send(pub, "", 0, 0);
}

/* A truth before and after each window; the source's name is full of control sequences. */
static void publish_window(void *daemon, void *truth, int window) {
    char header[512];
    snprintf(header, sizeof header,
             "{\"sample_index\":%d,\"sources\":[{\"az_deg\":40,\"name\":"
             "\"\\u001b]0;\\u0007\\u009b\\u007f\xff\xc3\xbc\"}]}",
             window * 2048);
    publish(truth, "truth", header);
    snprintf(header, sizeof header,
             "{\"sample_index\":%d,\"seq\":%d,\"detections\":[{\"source\":\"cbf\",\"az_deg\":40}]}",
             (window - 2) * 2048, window);
    publish(daemon, "detections", header);
}

/* The output of sonar-check for windows that come a hundred times a second until it ends. */
static void check_windows(const char *options, char *text, size_t bytes) {
    char folder[] = "/tmp/sonar-test-check-XXXXXX", command[1024];
    cr_assert_not_null(mkdtemp(folder));
    char config[64], output[64], said[64];
    snprintf(config, sizeof config, "%s/config.yaml", folder);
    snprintf(output, sizeof output, "ipc://%s/out", folder);
    snprintf(said, sizeof said, "ipc://%s/truth", folder);
    FILE *file = fopen(config, "w");
    fprintf(file,
            "schema: 1\narray: {id: 1, geometry: {line: {sensors: 4, spacing_m: 1}}}\n"
            "sound_speed_mps: 1500\nfs_hz: 2000\ningest: {endpoints: [\"ipc:///tmp/in\"]}\n"
            "dft: {length: 2048}\ncbf: {band_hz: [100, 200]}\noutput: {endpoint: \"%s\"}\n",
            output);
    fclose(file);
    void *context = zmq_ctx_new();
    void *daemon = bind_pub(context, output), *truth = bind_pub(context, said);
    snprintf(command, sizeof command, "%s/sonar-check --config %s --truth %s %s 2>&1",
             SONAR_BIN_DIR, config, said, options);
    FILE *check = popen(command, "r");
    size_t used = 0, got = 1;
    struct pollfd item = {fileno(check), POLLIN, 0};
    for (int window = 2; got > 0; window++) {
        publish_window(daemon, truth, window);
        if (poll(&item, 1, 10) < 1)
            continue;
        got = (size_t)read(item.fd, text + used, bytes - 1 - used);
        used += got;
    }
    text[used] = '\0';
    cr_assert(WIFEXITED(pclose(check)));
    zmq_close(daemon), zmq_close(truth);
    zmq_ctx_term(context);
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_assert_eq(system(command), 0);
}

Test(check, what_a_publisher_wrote_cannot_reach_the_terminal, .timeout = 600) {
    char text[8192];
    check_windows("--settle 0 --seconds 1", text, sizeof text);
    for (const char *at = text; *at; at++)
        cr_assert(((unsigned char)*at >= 0x20 && *at != 0x7f) || *at == '\n', "%d in %s", *at,
                  text);
    cr_assert(strstr(text, "\n ]0; ???\xc3\xbc"), "%s", text);
}

/* A window is 1.024 s of samples: after a second no window can be judged yet. */
Test(check, a_short_run_waits_until_enough_has_settled, .timeout = 600) {
    char text[8192];
    check_windows("--settle 400 --seconds 1", text, sizeof text);
    cr_assert(strstr(text, "waiting until 10 windows are judged"), "%s", text);
    cr_assert(strstr(text, "\n10 windows judged"), "%s", text);
}

/* ---- a digitiser's frames -------------------------------------------------------------------- */

enum { CHANNELS = 4, SAMPLES = 200, FRAMES = 100, FS = 8000 };
static const int64_t NOON_NS = INT64_C(1790000000000000000), SECOND = 1000000000;

/* A message to be corrupted before it is sent. */
typedef struct sent {
    sonar_frame frame;
    float x[SAMPLES][CHANNELS];
    uint8_t header[SONAR_FRAME_HEADER_BYTES];
    size_t parts, header_bytes, bytes;
    int64_t now_ns;
} sent;

typedef void spoil(sent *m, int i, bool encoded);

static const sonar_config wanted = {
    .array_id = 3, .channels = CHANNELS, .fs_hz = FS, .specs.hop = 4096, .sample_type = SONAR_F32};

/* The report on FRAMES frames at their pace. */
static int judge(const sonar_config *config, spoil *how, char text[4096]) {
    incoming *f = incoming_create(config);
    uint64_t state = 1;
    for (int i = 0; i < FRAMES; i++) {
        const int64_t at_ns = i * (SAMPLES * SECOND / FS);
        sent m = {.frame = {.array_id = 3,
                            .channels = CHANNELS,
                            .samples = SAMPLES,
                            .type = SONAR_F32,
                            .epoch = 9,
                            .sequence = (uint64_t)i,
                            .first_sample = (uint64_t)i * SAMPLES,
                            .utc_ns = NOON_NS + at_ns,
                            .fs_hz = FS},
                  .parts = 2,
                  .header_bytes = SONAR_FRAME_HEADER_BYTES,
                  .bytes = sizeof m.x,
                  .now_ns = SECOND + at_ns + SAMPLES * SECOND / FS};
        for (size_t k = 0; k < SAMPLES * CHANNELS; k++)
            m.x[k / CHANNELS][k % CHANNELS] =
                (float)((state = state * 6364136223846793005u + 1442695040888963407u) >> 40) - 8e6f;
        if (how)
            how(&m, i, false);
        sonar_frame_encode(&m.frame, m.header);
        if (how)
            how(&m, i, true);
        incoming_take(f, m.parts, (const void *const[]){m.header, m.x},
                      (const size_t[]){m.header_bytes, m.bytes}, m.now_ns,
                      NOON_NS - SECOND + m.now_ns);
    }
    FILE *to = fmemopen(text, 4096, "w");
    const int code = incoming_print(f, to);
    fclose(to);
    incoming_destroy(f);
    return code;
}

#define SPOIL(name, when, what)                                                                    \
    static void name(sent *m, int i, bool encoded) {                                               \
        (void)i;                                                                                   \
        if ((when) && !encoded) {                                                                  \
            what;                                                                                  \
        }                                                                                          \
    }
SPOIL(one_part, i == 7, m->parts = 1)
SPOIL(unknown_flags, i == 7, m->frame.flags = 0x40)
SPOIL(other_array, true, m->frame.array_id = 1)
SPOIL(more_channels, true, m->frame.first_channel = 1)
SPOIL(other_rate, true, m->frame.fs_hz = FS * (1 + 2e-6))
SPOIL(short_payload, i == 50, m->bytes -= 4)
SPOIL(no_number, i == 50, m->x[3][1] = nanf(""))
SPOIL(too_large, i == 50, m->x[3][1] = 1e30f)
SPOIL(wrong_bit, i == 50, m->x[3][1] = 8e10f)
SPOIL(another_epoch, i >= 50, m->frame.epoch = 10)
SPOIL(lost_frame, i >= 50, m->frame.sequence++; m->frame.first_sample += SAMPLES)
SPOIL(stuck_sequence, true, m->frame.sequence = 0)
SPOIL(goes_back, i == 50, m->frame.first_sample -= SAMPLES)
SPOIL(utc_in_ms, true, m->frame.utc_ns /= 1000000)
SPOIL(utc_behind, true, m->frame.utc_ns -= 100 * SECOND)
SPOIL(replay_behind, true, (m->frame.utc_ns -= 100 * SECOND, m->frame.flags = 16))
SPOIL(utc_ahead, true, m->frame.utc_ns += 2 * SECOND)
SPOIL(utc_steps, i >= 50, m->frame.utc_ns += 20000000)
SPOIL(no_utc, true, m->frame.utc_ns = 0)
SPOIL(too_slow, true, m->now_ns += i * (SECOND / 500))
SPOIL(too_fast, true, m->now_ns -= i * (SECOND / 400))
SPOIL(backlog_at_first, true, m->now_ns = m->now_ns < 8 * SECOND / 5 ? 8 * SECOND / 5 : m->now_ns)
SPOIL(pause_at_last, true, m->now_ns += i > 60 ? SECOND / 2 : 0)
SPOIL(fewer_channels, true, m->frame.channels = 2; m->bytes /= 2)

static void other_magic(sent *m, int i, bool encoded) {
    if (encoded && i == 7)
        m->header[0] = 's';
}

static void silent_and_alike(sent *m, int i, bool encoded) {
    (void)i;
    for (size_t k = 0; k < SAMPLES && !encoded; k++) {
        m->x[k][1] = 12;
        m->x[k][3] = m->x[k][0];
    }
}

static void at_full_scale(sent *m, int i, bool encoded) {
    (void)i;
    int16_t *to = (int16_t *)m->x;
    if (encoded)
        return;
    m->frame.type = SONAR_S16;
    m->bytes /= 2;
    for (size_t k = 0; k < SAMPLES * CHANNELS; k++) {
        const int16_t x = (int16_t)(k * 7919);
        to[k] = k % CHANNELS == 2 && k % 10 == 2 ? 32767 : x;
    }
}

/* 16-bit samples of a slow swell, with bytes in network order or in the right order. */
static void swell(sent *m, int i, bool encoded, bool turned) {
    uint8_t *to = (uint8_t *)m->x;
    if (encoded)
        return;
    m->frame.type = SONAR_S16;
    m->bytes /= 2;
    for (size_t k = 0; k < SAMPLES * CHANNELS; k++) {
        const size_t at = (size_t)i * SAMPLES + k / CHANNELS;
        const int16_t x = (int16_t)(100 * sin(0.1 * (double)at + (double)(k % CHANNELS)));
        to[2 * k + turned] = (uint8_t)(x & 0xff);
        to[2 * k + !turned] = (uint8_t)((uint16_t)x >> 8);
    }
}

static void turned_bytes(sent *m, int i, bool encoded) {
    swell(m, i, encoded, true);
}

static void right_bytes(sent *m, int i, bool encoded) {
    swell(m, i, encoded, false);
}

static const struct {
    spoil *how;
    int code;
    const char *says;
} spoilt[] = {
    {NULL, EXIT_WITHIN, "No problem found."},
    {one_part, EXIT_BEYOND,
     "wrong  parts          1; a message is a header and the samples (1 of 100"},
    {other_magic, EXIT_BEYOND,
     "wrong  header         the header does not begin with SNRF (1 of 100 "
     "messages, the first is number 8)"},
    {unknown_flags, EXIT_BEYOND, "0x0040 has undefined bits"},
    {other_array, EXIT_BEYOND, "array id       1, the configuration has 3 (100 of 100"},
    {more_channels, EXIT_BEYOND, "channels       1 to 4, the configuration has 0 to 3"},
    {other_rate, EXIT_BEYOND, "8000.016 Hz, the configuration has 8000; within 1 ppm"},
    {short_payload, EXIT_BEYOND, "3196 bytes; 4 channels of 200 samples of 4 bytes are 3200"},
    {no_number, EXIT_BEYOND, "an infinity or not a number"},
    {too_large, EXIT_BEYOND, "1e+30 is larger than sound can be"},
    {wrong_bit, EXIT_BEYOND, "more than 60 dB above all others of its channel"},
    {another_epoch, EXIT_BEYOND, "10 follows 9"},
    {lost_frame, EXIT_BEYOND, "10200 instead of 10000: 200 samples are missing (1 of 100"},
    {stuck_sequence, EXIT_BEYOND, "0 instead of 1: it increases by one with each frame"},
    {goes_back, EXIT_BEYOND, "9800, but samples up to 9999 were received before"},
    {utc_in_ms, EXIT_BEYOND, "1790000000000 seems to be in milliseconds: it must be in ns"},
    {utc_behind, EXIT_BEYOND, "100.025 s behind this machine's clock"},
    {replay_behind, EXIT_WITHIN, "No problem found"},
    {utc_ahead, EXIT_BEYOND, "1.975 s ahead of this machine's clock"},
    {utc_steps, EXIT_WITHIN, "note   UTC            +0.020000 s from the time by sample count"},
    {no_utc, EXIT_WITHIN, "note   UTC            0, unknown"},
    {too_slow, EXIT_BEYOND,
     "pace           7407.41 samples of channel 0 arrive in a second, its "
     "header says 8000"},
    {too_fast, EXIT_BEYOND, "pace           8888.89 samples of channel 0 arrive"},
    {backlog_at_first, EXIT_WITHIN, "No problem found"},
    {pause_at_last, EXIT_WITHIN, "No problem found"},
    {fewer_channels, EXIT_BEYOND, "2 channels were never received with samples: 2, 3"},
    {silent_and_alike, EXIT_BEYOND, "1 channels have one value in all samples: 1"},
    {silent_and_alike, EXIT_BEYOND, "2 channels have the samples of another channel: 0, 3"},
    {at_full_scale, EXIT_BEYOND, "1 channels are often at full scale: 2"},
    {turned_bytes, EXIT_WITHIN,
     "note   values         4 channels look as if bytes came in the wrong"},
    {right_bytes, EXIT_WITHIN, "Hz, s16\nNo problem found"},
};

Test(check, what_is_wrong_with_frames_is_named, .timeout = 600) {
    for (size_t i = 0; i < sizeof spoilt / sizeof *spoilt; i++) {
        char text[4096];
        const int code = judge(&wanted, spoilt[i].how, text);
        cr_expect_eq(code, spoilt[i].code, "%zu: %d: %s", i, code, text);
        cr_expect(strstr(text, spoilt[i].says), "%s is not in %s", spoilt[i].says, text);
    }
}

/* Noise in place of headers and lengths of any kind. */
Test(check, whatever_comes_is_taken, .timeout = 600) {
    static uint8_t noise[4096];
    incoming *f = incoming_create(NULL);
    char text[8192];
    uint64_t state = 7;
    for (int i = 0; i < 20000; i++) {
        for (size_t k = 0; k < 200; k++)
            noise[k] =
                (uint8_t)((state = state * 6364136223846793005u + 1442695040888963407u) >> 56);
        sonar_frame frame = {.channels = 1 + noise[0] % 3,
                             .samples = 1 + noise[1] % 9,
                             .epoch = 1,
                             .type = (uint8_t)(1 + noise[2] % 4),
                             .first_sample = noise[3]};
        uint8_t header[SONAR_FRAME_HEADER_BYTES];
        memcpy(&frame.fs_hz, noise + 8, sizeof frame.fs_hz);
        memcpy(&frame.utc_ns, noise + 16, sizeof frame.utc_ns);
        memcpy(&frame.first_channel, noise + 24, sizeof frame.first_channel);
        sonar_frame_encode(&frame, header);
        header[noise[4] % 64] ^= noise[5] & 1 ? noise[6] : 0;
        incoming_take(
            f, noise[7] % 4, (const void *const[]){header, noise},
            (const size_t[]){noise[30] % 8 ? 64 : noise[31],
                             noise[32] % 4 ? sonar_frame_payload_bytes(&frame) : noise[33]},
            (int64_t)i * SECOND, NOON_NS);
    }
    FILE *to = fmemopen(text, sizeof text, "w");
    cr_expect_eq(incoming_print(f, to), EXIT_BEYOND);
    fclose(to);
    incoming_destroy(f);
}

/* The simulator's frames over a socket: several digitisers without faults; then another array. */
Test(check, a_digitisers_frames_are_taken_from_a_socket, .timeout = 600) {
    box box = box_open();
    char at[128];
    snprintf(at, sizeof at, "ipc://%s/in", box.dir);
    box_write(&box, "config.yaml",
              "schema: 1\narray: {id: 3, geometry: {line: {sensors: 12, spacing_m: 1}}}\n"
              "fs_hz: 4000\ningest: {endpoints: [\"%s\"]}\ndft: {length: 2048}\n"
              "cbf: {band_hz: [100, 400]}\noutput: {endpoint: \"ipc://%s/out\"}\n",
              at, box.dir);
    char *text = box_read(&box, "config.yaml"), *id = strstr(text, "id: 3");
    id[4] = '4';
    box_write(&box, "other.yaml", "%s", text);
    free(text);
    const char *const config[] = {"config.yaml", "other.yaml"};
    for (int i = 0; i < 2; i++) {
        const char *log = i ? "check-other" : "check";
        pid_t sim =
            process_start(&box, "sim", "sonar-sim", "--config", box_path(&box, "config.yaml"),
                          "--scene", SONAR_SOURCE_DIR "/config/scenes/one-source.yaml",
                          "--endpoint", at, "--digitisers", "3", "--duration", "0", NULL);
        pid_t check = process_start(&box, log, "sonar-check", "--digitiser", at, "--config",
                                    box_path(&box, config[i]), "--seconds", "4", NULL);
        cr_expect_eq(process_wait(check, 60000), i);
        kill(sim, SIGTERM);
        process_wait(sim, 60000);
        text = box_read(&box, log);
        cr_expect(
            strstr(text, i ? "array id       3, the configuration has 4" : "No problem found"),
            "%s", text);
        cr_expect(strstr(text, "block  channels 8 to 11, "), "%s", text);
        free(text);
    }
    box_close(&box);
}
