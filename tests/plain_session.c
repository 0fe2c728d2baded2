/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar/session.h: whatever the type, the strides and the blocks of the samples, the messages are
 * those of a pipeline that is fed the same as frames, to the byte; mistakes are explained. */
#include "sonar/session.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "fed.h"

#define TOPICS "cbf.azimuth,cbf.lofar,mvdr.azimuth,element.missing,detections"
enum { CHANNELS = 6, FS = 8000, SAMPLES = 3 * FS, GAP_BEGIN = 9000, GAP_END = 9700, FRAME = 96 };
static const int64_t utc_ns = INT64_C(1769860800000000000);

static const char text[] = "schema: 1\n"
                           "array: {id: 7, geometry: {line: {sensors: 6, spacing_m: 0.75}}}\n"
                           "fs_hz: 8000\n"
                           "ingest: {overload: block, max_missing_share: 0.9}\n"
                           "dft: {length: 1024, hop: 512}\n"
                           "cbf: {band_hz: [600, 950]}\n"
                           "mvdr: {length: 64, hop: 32, snapshots: 16}\n"
                           "runtime: {threads: 1, backend: cpu}\n";

static void require(bool good, const char *what) {
    if (good)
        return;
    fprintf(stderr, "plain_session: %s\n", what);
    exit(EXIT_FAILURE);
}

/* ---- samples: noise and a tone from 60 degrees, small enough for 16 bits --------------------- */

static int32_t water[SAMPLES][CHANNELS];

static void fill_water(void) {
    uint64_t random = 1;
    for (size_t i = 0; i < SAMPLES; i++)
        for (size_t c = 0; c < CHANNELS; c++) {
            const double late_s = ((double)c - 2.5) * 0.75 * 0.5 / 1500;
            const double noise = sonar_random_uniform(&random) - 0.5;
            water[i][c] =
                (int32_t)lrint(600 * noise + 900 * sin(2 * M_PI * 700 * ((double)i / FS + late_s)));
        }
}

/* ---- what came ------------------------------------------------------------------------------- */

typedef struct list {
    size_t messages, bytes;
    char *all; /* topic, header without what is a run's own, array */
} list;

static void append(list *l, const void *data, size_t bytes) {
    l->all = realloc(l->all, l->bytes + bytes + 1);
    require(l->all != NULL, "no memory");
    memcpy(l->all + l->bytes, data, bytes);
    l->bytes += bytes;
}

static void keep(list *l, const char *topic, const char *header, const void *data, size_t bytes) {
    static const char *const own[] = {"run", "latency_us", "seq"};
    cJSON *head = cJSON_Parse(header);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        require(cJSON_HasObjectItem(head, own[i]), "a header lacks a field");
        cJSON_DeleteItemFromObject(head, own[i]);
    }
    char *rest = cJSON_PrintUnformatted(head);
    append(l, topic, strlen(topic));
    append(l, rest, strlen(rest));
    append(l, data, bytes);
    l->messages++;
    free(rest);
    cJSON_Delete(head);
}

static bool same(const list *a, const list *b) {
    return a->messages == b->messages && a->bytes == b->bytes && !memcmp(a->all, b->all, a->bytes);
}

/* ---- the pipeline ---------------------------------------------------------------------------- */

static uint32_t wanted(void *ctx) {
    (void)ctx;
    return SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_LOFAR) |
           SONAR_WANT(SONAR_MVDR_AZIMUTH) | SONAR_WANT(SONAR_ELEMENT_MISSING) |
           SONAR_WANT(SONAR_DETECTIONS);
}

static void take(void *ctx, sonar_surface surface, const char *header, const void *data,
                 size_t bytes) {
    keep(ctx, sonar_topic_name(surface), header, data, bytes);
}

/* Frames of another size than the session's. The gap is between two frames. */
static list reference(void) {
    list l = {0};
    const sonar_output_tap tap = {.ctx = &l, .wanted = wanted, .take = take};
    fed fed = fed_open("reference", text, &tap);
    uint64_t sequence = 0;
    for (size_t at = 0, count; at < SAMPLES; at += count) {
        float samples[FRAME * CHANNELS];
        const size_t end = at < GAP_BEGIN ? GAP_BEGIN : SAMPLES;
        at = at == GAP_BEGIN ? GAP_END : at;
        count = end - at < FRAME ? end - at : FRAME;
        for (size_t i = 0; i < count * CHANNELS; i++)
            samples[i] = (float)water[at + i / CHANNELS][i % CHANNELS];
        const sonar_frame frame = {.array_id = 7,
                                   .channels = CHANNELS,
                                   .samples = (uint32_t)count,
                                   .type = SONAR_F32,
                                   .flags = SONAR_FRAME_REPLAY,
                                   .epoch = 1,
                                   .sequence = sequence++,
                                   .first_sample = at,
                                   .utc_ns = utc_ns + (int64_t)at * 1000000000 / FS,
                                   .fs_hz = FS};
        fed_frame(&fed, &frame, samples);
    }
    fed_close(&fed);
    return l;
}

/* ---- sessions -------------------------------------------------------------------------------- */

typedef enum form { INTERLEAVED = 0, CHANNEL_MAJOR, BACKWARDS } form;

typedef struct run {
    int type;
    form form;
    size_t block; /* samples of a block */
    list got;
    pthread_t thread;
} run;

/* All samples in one array of this type and form, at an odd address. */
static void lay_out(const run *r, uint8_t *to, sonar_session_samples *all) {
    const ptrdiff_t size = r->type == SONAR_SESSION_S16 ? 2 : 4;
    const bool major = r->form == CHANNEL_MAJOR;
    *all = (sonar_session_samples){.type = r->type,
                                   .channels = CHANNELS,
                                   .channel_stride = major ? SAMPLES * size : size,
                                   .sample_stride = major ? size : CHANNELS * size,
                                   .fs_hz = FS};
    uint8_t *first = ++to;
    if (r->form == BACKWARDS) { /* the last sample and channel come first */
        first += (SAMPLES * CHANNELS - 1) * size;
        all->channel_stride = -all->channel_stride;
        all->sample_stride = -all->sample_stride;
    }
    all->data = first;
    for (ptrdiff_t i = 0; i < SAMPLES; i++)
        for (ptrdiff_t c = 0; c < CHANNELS; c++) {
            uint8_t *at = first + i * all->sample_stride + c * all->channel_stride;
            const float f32 = (float)water[i][c];
            const void *from = r->type == SONAR_SESSION_F32 ? (const void *)&f32 : &water[i][c];
            memcpy(at, from, (size_t)size);
        }
}

static void take_all(sonar_session *session, list *to) {
    sonar_session_message m;
    while (sonar_session_take(session, &m)) {
        require(strlen(m.header) == m.header_bytes, "the header's length");
        require((uintptr_t)m.data % 16 == 0, "the array is aligned");
        keep(to, m.topic, m.header, m.data, m.data_bytes);
    }
}

static void *run_session(void *arg) {
    run *r = arg;
    char error[256] = "";
    sonar_session *session;
    const sonar_session_spec spec = {.topics = TOPICS};
    uint8_t *samples = malloc((size_t)SAMPLES * CHANNELS * 4 + 1);
    sonar_session_samples all;
    require(samples != NULL, "no memory");
    lay_out(r, samples, &all);
    require(!sonar_session_parse("array", text, strlen(text), &spec, &session, error, sizeof error),
            error);
    for (size_t at = 0, count; at < SAMPLES; at += count) {
        const bool gap = at >= GAP_BEGIN && at < GAP_END;
        const size_t end = gap ? GAP_END : at < GAP_BEGIN ? GAP_BEGIN : SAMPLES;
        count = end - at < r->block ? end - at : r->block;
        sonar_session_samples block = all;
        block.data = (const uint8_t *)all.data + (ptrdiff_t)at * all.sample_stride;
        block.data = gap ? NULL : block.data;
        block.samples = count;
        if (!at || r->form == BACKWARDS) /* once, or with each block */
            block.utc_ns = utc_ns + (int64_t)at * 1000000000 / FS;
        require(!sonar_session_feed(session, &block, error, sizeof error), error);
        take_all(session, &r->got);
    }
    require(!sonar_session_finish(session, error, sizeof error), error);
    require(!sonar_session_finish(session, error, sizeof error), "a second finish");
    take_all(session, &r->got);
    sonar_session_close(session);
    free(samples);
    return NULL;
}

/* All at once, since sessions are independent. */
static void try_forms(void) {
    list expected = reference();
    run run[] = {{SONAR_SESSION_F32, INTERLEAVED, SAMPLES, {0}, 0},
                 {SONAR_SESSION_S16, CHANNEL_MAJOR, 1000, {0}, 0},
                 {SONAR_SESSION_S32, BACKWARDS, 77, {0}, 0},
                 {SONAR_SESSION_F32, CHANNEL_MAJOR, 1, {0}, 0}};
    const size_t runs = sizeof run / sizeof *run, windows = 1 + (SAMPLES - 1024) / 512;
    require(expected.messages > 4 * windows, "the reference is complete");
    for (size_t i = 0; i < runs; i++)
        pthread_create(&run[i].thread, NULL, run_session, &run[i]);
    for (size_t i = 0; i < runs; i++) {
        pthread_join(run[i].thread, NULL);
        if (!same(&run[i].got, &expected))
            fprintf(stderr, "run %zu: %zu messages, %zu bytes; expected %zu, %zu\n", i,
                    run[i].got.messages, run[i].got.bytes, expected.messages, expected.bytes);
        require(same(&run[i].got, &expected), "the bytes differ");
        free(run[i].got.all);
    }
    free(expected.all);
}

/* ---- mistakes -------------------------------------------------------------------------------- */

static sonar_session *opened(const sonar_session_spec *spec) {
    char error[256] = "";
    sonar_session *session;
    require(!sonar_session_parse("array", text, strlen(text), spec, &session, error, sizeof error),
            error);
    return session;
}

static void try_configurations(void) {
    static const char wrong[] = "schema: 1\nfs_hz: fast\narray: {geometry: {ring: 3}}\n";
    char error[4096], little[20];
    sonar_session *session;
    require(sonar_session_parse("a.yaml", wrong, strlen(wrong), NULL, &session, error,
                                sizeof error) == SONAR_EINVAL &&
                !session && strstr(error, "a.yaml:2:8: error: ") && strstr(error, "a.yaml:3:"),
            "all mistakes of a configuration are listed");
    memset(little, 'x', sizeof little);
    require(sonar_session_parse("a.yaml", wrong, strlen(wrong), NULL, &session, little,
                                sizeof little) &&
                strlen(little) < sizeof little && !strncmp(little, "a.yaml:1:1: error", 17),
            "a text that is cut");
    require(sonar_session_parse("a", wrong, strlen(wrong), NULL, &session, NULL, 0) == SONAR_EINVAL,
            "no text is wanted");
    require(sonar_session_load("/no/such.yaml", NULL, &session, error, sizeof error) &&
                strstr(error, "/no/such.yaml"),
            "no file");
    const sonar_session_spec topics = {.topics = "cbf.azimuth,btr"};
    require(sonar_session_parse("a", text, strlen(text), &topics, &session, error, sizeof error) ==
                    SONAR_EINVAL &&
                strstr(error, "'btr' is not a topic"),
            "a wrong topic");
}

static void refuse(sonar_session *session, sonar_session_samples block, int code,
                   const char *words) {
    char error[256] = "";
    require(sonar_session_feed(session, &block, error, sizeof error) == code &&
                strstr(error, words),
            words);
}

static void hear(void *ctx, const char *where, const char *line) {
    (void)where;
    if (strstr(line, "1 pieces were refused"))
        ++*(int *)ctx;
}

static void try_samples(void) {
    static float samples[4096][CHANNELS];
    int heard = 0;
    const sonar_session_spec spec = {.topics = "cbf.azimuth", .log = hear, .log_ctx = &heard};
    const sonar_session_samples right = {.data = samples,
                                         .type = SONAR_SESSION_F32,
                                         .channels = CHANNELS,
                                         .samples = 4096,
                                         .channel_stride = sizeof **samples,
                                         .sample_stride = sizeof *samples,
                                         .fs_hz = FS};
    sonar_session_samples wrong = right;
    sonar_session *session = opened(&spec);
    wrong.channels = 7;
    refuse(session, wrong, SONAR_EINVAL, "7 channels, but the configuration has 6");
    wrong = right, wrong.fs_hz = 48000;
    refuse(session, wrong, SONAR_EINVAL, "48000 Hz, but the configuration has 8000 Hz");
    wrong.fs_hz = NAN;
    refuse(session, wrong, SONAR_EINVAL, "nan Hz");
    wrong = right, wrong.type = 2;
    refuse(session, wrong, SONAR_EINVAL, "type 2");
    for (size_t i = 0; i < 4096; i++)
        for (size_t c = 0; c < CHANNELS; c++)
            samples[i][c] = (float)water[i][c];
    samples[700][3] = NAN;
    require(!sonar_session_feed(session, &right, NULL, 0), "the right one");
    require(!sonar_session_finish(session, NULL, 0), "finish");
    require(heard == 1, "a block that is not finite is told");
    refuse(session, right, SONAR_ESTATE, "finished");
    list got = {0};
    take_all(session, &got);
    require(got.messages == 7 && strstr(got.all, "\"gap\""), "windows with a gap");
    free(got.all);
    sonar_session_close(session);
    session = opened(NULL);
    require(!sonar_session_feed(session, &right, NULL, 0), "topics of every window");
    sonar_session_close(session);
    sonar_session_close(NULL);
}

int main(void) {
    fill_water();
    try_forms();
    try_configurations();
    try_samples();
    require(!strcmp(sonar_session_version(), "0.1.0"), "version");
    return EXIT_SUCCESS;
}
