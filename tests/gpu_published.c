/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Compares the messages of the GPU and of the CPU: two pipelines get the same frames, and a reader
 * of each receives all messages, which are compared one by one (limits in published.h).
 *
 *   --self-check   the CPU on both sides, one of them with samples off by a rounding error: must
 * pass; and by 0.15 dB: must be detected in every topic that has levels
 *   --louder DB    the CPU on both sides, one of them with louder samples: must fail
 *   --tiny         two small arrays, for the checkers of memory and races */
#include "feed.h"
#include "gpu.h"
#include "oracle.h"
#include "published.h"
#include "sea.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum { WANT = 0, HAVE = 1, PAIR = 2, TOPICS = SONAR_STATUS };
/* Without those that the processor makes, whatever the backend: from samples beam.audio, from
 * spectra the ratios, in which a rounding may decide whether a power is clipped or is a peak, and
 * from contacts the tracks, in which it may decide between two events. */
static const uint32_t all_topics =
    (SONAR_WANT(SONAR_STATUS) - 1) &
    ~(SONAR_WANT(SONAR_BEAM_AUDIO) | SONAR_WANT(SONAR_CBF_NORMALISED) |
      SONAR_WANT(SONAR_MVDR_NORMALISED) | SONAR_WANT(SONAR_CBF_SPED) | SONAR_WANT(SONAR_TRACKS));

/* ---- what is tried --------------------------------------------------------------------------- */

/* How the stream is sent and which topics are requested. */
enum {
    RESTARTS = 1,  /* a new epoch in the middle */
    SUBSETS = 2,   /* a window for every set of topics */
    CORRECTED = 4, /* every sensor with its own gain, phase and delay */
    MIXED = 8,     /* also with stages on both sides, in every mixture */
    CPU_MVDR = 16, /* the MVDR stays on the host */
};

struct shape {
    const char *name;
    size_t sensors;
    const char *geometry; /* NULL: scattered */
    const char *array;    /* more of that group */
    const char *ingest;   /* more of that group */
    const char *stages;
    double loud_db; /* over the noise */
    sonar_dtype type;
    uint32_t frame; /* samples */
    uint32_t blocks;
    unsigned lost; /* one frame in this many is lost, 0: none */
    size_t windows;
    unsigned how;
};

static const struct shape shapes[] = {
    {.name = "line of 33, masks, shading, a near field, a block of 16",
     .sensors = 33,
     .geometry = "line: {sensors: 33, spacing_m: 0.75}",
     .array = "mask: [4, 17], heading_deg: 200",
     .ingest = "max_missing_share: 0.2",
     .stages = "dft: {length: 256, hop: 96}\n"
               "cbf: {band_hz: [600, 950], shading: {chebyshev: {sidelobe_db: 35}},"
               " ranges_m: [40, 100, 400]}\n"
               "lofar: {band_hz: [300, 1000]}\n"
               "mvdr: {snapshots: 16, nearfield: true}\n",
     .loud_db = 60,
     .type = SONAR_F32,
     .frame = 40,
     .blocks = 1,
     .lost = 12,
     .windows = 24,
     .how = RESTARTS | CORRECTED | MIXED},
    {.name = "plane of 5 x 7, s16 kept, forgetting",
     .sensors = 35,
     .geometry = "planar: {rows: 5, columns: 7, row_spacing_m: 0.7, column_spacing_m: 0.8}",
     .array = "heading_deg: 10",
     .ingest = "sample_type: s16, max_missing_share: 0.3",
     .stages = "dft: {length: 300, hop: 77, window: hamming}\n"
               "cbf: {band_hz: [600, 950], depression_deg: 5, ranges_m: [20, 60]}\n"
               "mvdr: {forgetting: 0.9, nearfield: true}\n",
     .loud_db = 60,
     .type = SONAR_S16,
     .frame = 32,
     .blocks = 1,
     .lost = 15,
     .windows = 24,
     .how = RESTARTS},
    {.name = "19 scattered, two digitisers, snapshots from sub-windows",
     .sensors = 19,
     .array = "channel_count: 23, mask: [7]",
     .ingest = "max_missing_share: 1",
     .stages = "dft: {length: 512, hop: 200, window: kaiser}\n"
               "cbf: {band_hz: [600, 950], ranges_m: [15, 40]}\n"
               "mvdr: {length: 64, hop: 32, snapshots: 12, loading: {rule: trace}}\n",
     .loud_db = 60,
     .type = SONAR_F32,
     .frame = 50,
     .blocks = 2,
     .lost = 20,
     .windows = 24,
     .how = CORRECTED | MIXED},
    {.name = "line of 16, as many snapshots, forward and backward",
     .sensors = 16,
     .geometry = "line: {sensors: 16, spacing_m: 0.75}",
     .stages = "dft: {length: 128, hop: 128, window: rectangular}\n"
               "cbf: {band_hz: [600, 950], shading: hann, range_reference: abeam,"
               " ranges_m: [30]}\n"
               "mvdr: {snapshots: 16, forward_backward: true, nearfield: true,"
               " loading: {rule: noise, known_sources: 3}}\n",
     .loud_db = 60,
     .type = SONAR_S16,
     .frame = 48,
     .blocks = 1,
     .windows = 24,
     .how = RESTARTS},
    {.name = "circle of 8, three times as many snapshots, level corrected",
     .sensors = 8,
     .geometry = "circle: {sensors: 8, radius_m: 1.5}",
     .ingest = "max_missing_share: 0.5",
     .stages = "dft: {length: 200, hop: 50, window: flattop}\n"
               "cbf: {band_hz: [500, 1000], ranges_m: [5, 10, 30]}\n"
               "mvdr: {snapshots: 24, correct_level: true, nearfield: true}\n",
     .loud_db = 60,
     .type = SONAR_F32,
     .frame = 25,
     .blocks = 1,
     .lost = 20,
     .windows = 32,
     .how = RESTARTS | CORRECTED},
    {.name = "line of 12, the thesis's Jacobi",
     .sensors = 12,
     .geometry = "line: {sensors: 12, spacing_m: 0.75}",
     .stages = "dft: {length: 128, hop: 64}\n"
               "cbf: {band_hz: [600, 950], ranges_m: [40]}\n"
               "mvdr: {snapshots: 6, solver: jacobi}\n",
     .loud_db = 20,
     .type = SONAR_F32,
     .frame = 32,
     .blocks = 1,
     .windows = 12,
     .how = CPU_MVDR},
    {.name = "circle of 21, phases alone, no MVDR, no near field",
     .sensors = 21,
     .geometry = "circle: {sensors: 21, radius_m: 3}",
     .array = "mask: [3]",
     .stages = "dft: {length: 250, hop: 125, equalisation: phase, mean_removal: false}\n"
               "cbf: {band_hz: [600, 950], ranges_m: []}\n"
               "mvdr: {enabled: false}\n",
     .loud_db = 20,
     .type = SONAR_F32,
     .frame = 30,
     .blocks = 1,
     .windows = 12,
     .how = RESTARTS},
    {.name = "line of 96, long windows, forgetting over sub-windows",
     .sensors = 96,
     .geometry = "line: {sensors: 96, spacing_m: 0.75}",
     .ingest = "threads: 2",
     .stages = "dft: {length: 2048, hop: 1500}\n"
               "cbf: {band_hz: [600, 950], ranges_m: auto, range_min_m: 60}\n"
               "mvdr: {band_hz: [700, 900], length: 256, hop: 128, forgetting: 0.95}\n",
     .loud_db = 60,
     .type = SONAR_S16,
     .frame = 480,
     .blocks = 1,
     .windows = 5,
     .how = RESTARTS},
    {.name = "circle of 12, CBF over four snapshots of a window",
     .sensors = 12,
     .geometry = "circle: {sensors: 12, radius_m: 2}",
     .ingest = "max_missing_share: 0.5",
     .stages = "dft: {length: 320, hop: 100}\n"
               "cbf: {length: 128, hop: 64, band_hz: [600, 950], ranges_m: [8, 20]}\n"
               "lofar: {band_hz: [400, 1000]}\n"
               "mvdr: {snapshots: 8}\n",
     .loud_db = 60,
     .type = SONAR_F32,
     .frame = 50,
     .blocks = 1,
     .lost = 15,
     .windows = 24,
     .how = RESTARTS | CORRECTED | MIXED},
    {.name = "line of 20, CBF over three snapshots, s16 kept",
     .sensors = 20,
     .geometry = "line: {sensors: 20, spacing_m: 0.75}",
     .ingest = "sample_type: s16",
     .stages = "dft: {length: 256, hop: 128}\n"
               "cbf: {length: 100, hop: 78, band_hz: [600, 950], ranges_m: [30],"
               " shading: {taylor: {sidelobe_db: 30}}}\n"
               "mvdr: {length: 128, hop: 64, snapshots: 12, loading: {rule: trace}}\n",
     .loud_db = 60,
     .type = SONAR_S16,
     .frame = 64,
     .blocks = 1,
     .windows = 16,
     .how = RESTARTS},
    /* as many sub-windows in every window, so that a GPU may run each set as one graph... */
    {.name = "circle of 7, every set of topics",
     .sensors = 7,
     .geometry = "circle: {sensors: 7, radius_m: 1.5}",
     .stages = "dft: {length: 64, hop: 48}\n"
               "cbf: {band_hz: [600, 1000], ranges_m: [5]}\n"
               "lofar: {band_hz: [400, 1000]}\n"
               "mvdr: {length: 32, hop: 16, forgetting: 0.8}\n",
     .loud_db = 60,
     .type = SONAR_S16,
     .frame = 16,
     .blocks = 1,
     .windows = 2,
     .how = SUBSETS},
    /* ...and as many as fit */
    {.name = "line of 9, every set of topics",
     .sensors = 9,
     .geometry = "line: {sensors: 9, spacing_m: 0.75}",
     .stages = "dft: {length: 64, hop: 40}\n"
               "cbf: {band_hz: [600, 1000], ranges_m: [20, 50]}\n"
               "lofar: {band_hz: [400, 1000]}\n"
               "mvdr: {length: 32, hop: 16, snapshots: 5, nearfield: true}\n",
     .loud_db = 60,
     .type = SONAR_F32,
     .frame = 20,
     .blocks = 1,
     .windows = 2,
     .how = SUBSETS},
};

static const struct shape tiny_shapes[] = {
    {.name = "tiny line",
     .sensors = 8,
     .geometry = "line: {sensors: 8, spacing_m: 0.75}",
     .stages = "dft: {length: 64, hop: 64}\n"
               "cbf: {length: 32, hop: 32, band_hz: [600, 800], ranges_m: [20, 50],"
               " scan: {start_deg: 0, stop_deg: 180, step_deg: 20}}\n"
               "mvdr: {length: 32, hop: 16, snapshots: 4, nearfield: true}\n"
               "detections: {most: 1}\n",
     .loud_db = 60,
     .type = SONAR_F32,
     .frame = 16,
     .blocks = 1,
     .windows = 2},
    {.name = "tiny scatter",
     .sensors = 9,
     .array = "mask: [2]",
     .ingest = "sample_type: s16",
     .stages = "dft: {length: 65, hop: 64}\n"
               "cbf: {band_hz: [600, 800], scan: {start_deg: 0, stop_deg: 340, step_deg: 20},"
               " ranges_m: [20]}\n"
               "mvdr: {length: 32, hop: 32, forgetting: 0.8}\n"
               "detections: {most: 1}\n",
     .loud_db = 60,
     .type = SONAR_S16,
     .frame = 13,
     .blocks = 1,
     .windows = 2},
};

/* ---- the configuration ----------------------------------------------------------------------- */

struct text {
    size_t bytes;
    char at[1 << 14];
};

static void __attribute__((format(printf, 2, 3))) put(struct text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    text->bytes +=
        (size_t)vsnprintf(text->at + text->bytes, sizeof text->at - text->bytes, format, args);
    va_end(args);
    if (text->bytes >= sizeof text->at)
        abort();
}

static void put_list(struct text *text, const char *name, size_t n, double most, uint64_t *random) {
    put(text, ", %s: [", name);
    for (size_t i = 0; i < n; i++)
        put(text, "%s%.3f", i ? ", " : "", most * sonar_random_symmetric(random));
    put(text, "]");
}

static void put_scattered(struct text *text, size_t n, uint64_t *random) {
    put(text, "positions: {list: [");
    for (size_t i = 0; i < n; i++)
        put(text, "%s[%.3f, %.3f, %.3f]", i ? ", " : "", 3 * sonar_random_symmetric(random),
            3 * sonar_random_symmetric(random), sonar_random_symmetric(random) / 2);
    put(text, "]}");
}

static void write_config(const struct shape *shape, struct text *text) {
    uint64_t random = 7;
    text->bytes = 0;
    put(text,
        "schema: 1\nfs_hz: 8000\noutput: {high_water_mark: 100000}\nruntime: {threads: 2}\n"
        "ingest: {overload: block, queue_windows: 2, max_skew_ms: 8, silent_after_ms: 3600000"
        "%s%s}\n%s",
        shape->ingest ? ", " : "", shape->ingest ? shape->ingest : "", shape->stages);
    put(text, "array: {id: 1, geometry: {");
    if (shape->geometry)
        put(text, "%s", shape->geometry);
    else
        put_scattered(text, shape->sensors, &random);
    put(text, "}%s%s", shape->array ? ", " : "", shape->array ? shape->array : "");
    if (shape->how & CORRECTED) {
        put_list(text, "gain_db", shape->sensors, 2, &random);
        put_list(text, "phase_deg", shape->sensors, 20, &random);
        put_list(text, "delay_us", shape->sensors, 30, &random);
    }
    put(text, "}\n");
}

/* ---- two pipelines --------------------------------------------------------------------------- */

/* The pipeline that is compared with the CPU's, and the errors of its samples. */
struct trial {
    const char *backend;         /* as its headers call it */
    const struct layout *layout; /* NULL: all on `backend` */
    double gain, rounding;
    bool must_notice;
};

struct pair {
    const struct shape *shape;
    const struct trial *trial;
    feed side[PAIR];
    sea sea;
    sonar_frame frame; /* the next one, of all channels */
    float *samples, *changed;
    uint8_t *payload;
    uint64_t random;
    uint64_t sent;               /* samples of this epoch */
    uint64_t decided;            /* windows of earlier epochs */
    uint64_t offered;            /* windows */
    uint64_t messages, contacts; /* compared */
    uint32_t wanted;
    double used[SONAR_SURFACES + 1]; /* one more for an unknown topic */
    bool broken;                     /* nothing more can be compared */
};

static struct gpu device;
static uint32_t noticed; /* topics in which another level was seen */
static char plugin_path[512];

static bool expect(struct pair *pair, bool ok, const char *what) {
    gpu_expect(&device, ok, "%s: %s", pair->shape->name, what);
    pair->broken |= !ok;
    return ok;
}

static void open_side(struct pair *pair, int side, const char *text) {
    feed *feed = &pair->side[side];
    sonar_error err = {0};
    gpu_require(feed_start(feed, text,
                           side == HAVE && !pair->trial->layout ? pair->trial->backend : "cpu",
                           gpu_plugin_dir(plugin_path, sizeof plugin_path), 0,
                           side == HAVE ? pair->trial->layout : NULL, &err),
                &err, pair->shape->name);
    feed->context = zmq_ctx_new();
    feed->socket = output_subscriber(feed->context, feed->out, NULL);
    feed->digitiser = digitiser_open(feed->in, 1, 0, 1, 1);
}

/* A loud ship, a weak contact, a tone, and a nearby boat. */
static void open_sea(struct pair *pair) {
    const double noise = 4;
    const sea_source source[] = {
        {70, 0, noise * pow(10, pair->shape->loud_db / 20), 520, 1010, 23},
        {115, 0, 15 * noise, 560, 990, 17},
        {35, 0, 30 * noise, 800, 800, 1},
        {140, 25, 15 * noise, 540, 970, 19},
    };
    const feed *feed = &pair->side[WANT];
    pair->sea = sea_open(feed->config, feed->pipeline->live->params, source,
                         sizeof source / sizeof *source, noise);
}

static void open_pair(struct pair *pair) {
    static struct text text;
    const struct shape *shape = pair->shape;
    write_config(shape, &text);
    for (int side = 0; side < PAIR; side++)
        open_side(pair, side, text.at);
    open_sea(pair);
    size_t channels = pair->side[WANT].config->channels;
    pair->frame = (sonar_frame){.array_id = 1,
                                .channels = (uint32_t)channels,
                                .samples = shape->frame,
                                .type = (uint8_t)shape->type,
                                .epoch = 1,
                                .utc_ns = 1000000007,
                                .fs_hz = 8000};
    size_t count = channels * shape->frame;
    pair->samples = calloc(count, sizeof *pair->samples);
    pair->changed = calloc(count, sizeof *pair->changed);
    pair->payload = calloc(count, sizeof(float));
    pair->random = 99;
    if (!pair->samples || !pair->changed || !pair->payload)
        abort();
}

static void close_pair(struct pair *pair) {
    for (int side = 0; side < PAIR; side++)
        feed_close(&pair->side[side]);
    sea_close(&pair->sea);
    free(pair->samples);
    free(pair->changed);
    free(pair->payload);
}

/* ---- samples --------------------------------------------------------------------------------- */

static void send_block(struct pair *pair, int side, const sonar_frame *block) {
    const float *from = (side == HAVE ? pair->changed : pair->samples) + block->first_channel;
    uint8_t header[SONAR_FRAME_HEADER_BYTES];
    size_t at = 0;
    for (uint32_t i = 0; i < block->samples; i++, from += pair->frame.channels)
        for (uint32_t k = 0; k < block->channels; k++, at++) {
            int16_t narrow = (int16_t)lrintf(from[k]);
            if (block->type == SONAR_S16)
                memcpy(pair->payload + at * sizeof narrow, &narrow, sizeof narrow);
            else
                memcpy(pair->payload + at * sizeof *from, &from[k], sizeof *from);
        }
    sonar_frame_encode(block, header);
    digitiser_raw(&pair->side[side].digitiser, 2, (const void *[]){header, pair->payload},
                  (size_t[]){sizeof header, (size_t)sonar_frame_payload_bytes(block)});
}

/* Rounding is for what has digits to lose. */
static void change(struct pair *pair) {
    const struct trial *trial = pair->trial;
    for (size_t i = 0; i < (size_t)pair->frame.channels * pair->frame.samples; i++) {
        if (pair->frame.type == SONAR_S16)
            pair->samples[i] = rintf(pair->samples[i]);
        pair->changed[i] = (float)((double)pair->samples[i] * trial->gain *
                                   (1 + trial->rounding * sonar_random_symmetric(&pair->random)));
    }
}

/* A frame of every block to both sides, or of some to neither. */
static void send_frame(struct pair *pair, bool may_lose) {
    const struct shape *shape = pair->shape;
    sea_fill(&pair->sea, pair->frame.first_sample, shape->frame, pair->samples);
    for (size_t i = 0; i < (size_t)pair->frame.channels * shape->frame; i++) /* digitisers' own */
        pair->samples[i] += 1000 + 10 * (float)(i % pair->frame.channels);
    change(pair);
    for (uint32_t b = 0; b < shape->blocks; b++) {
        sonar_frame block = pair->frame;
        block.first_channel = pair->frame.channels * b / shape->blocks;
        block.channels = pair->frame.channels * (b + 1) / shape->blocks - block.first_channel;
        if (may_lose && shape->lost && sonar_random_bits(&pair->random) % shape->lost == 0)
            continue;
        for (int side = 0; side < PAIR; side++)
            send_block(pair, side, &block);
    }
    pair->frame.sequence++;
    pair->frame.first_sample += shape->frame;
    pair->frame.utc_ns += (int64_t)shape->frame * 125000;
    pair->sent += shape->frame;
}

static uint64_t windows_until(const struct pair *pair, uint64_t samples) {
    const sonar_config *c = pair->side[WANT].config;
    return samples < c->specs.window_length ? 0
                                            : (samples - c->specs.window_length) / c->specs.hop + 1;
}

/* Sends samples for more windows. Losses are early enough that their windows are completed. */
static void send_windows(struct pair *pair, size_t windows, bool may_lose) {
    const sonar_config *c = pair->side[WANT].config;
    uint64_t goal = windows_until(pair, pair->sent) + windows;
    uint64_t end = c->specs.window_length + (goal - 1) * c->specs.hop;
    uint64_t guard = c->specs.window_length + c->specs.hop + 2 * pair->shape->frame +
                     (uint64_t)(c->max_skew_ms * 1e-3 * c->fs_hz);
    while (pair->sent < end)
        send_frame(pair, may_lose && pair->sent && pair->sent + guard < end);
}

static void restart(struct pair *pair) {
    pair->decided += windows_until(pair, pair->sent);
    pair->sent = 0;
    pair->frame.sequence = 0;
    pair->frame.first_sample = 0;
    pair->frame.epoch++;
    pair->frame.utc_ns += 5000000000;
}

/* ---- results --------------------------------------------------------------------------------- */

static void want(struct pair *pair, uint32_t topics) {
    for (int side = 0; side < PAIR; side++) {
        const feed *feed = &pair->side[side];
        for (int i = 0; i < SONAR_SURFACES; i++) {
            const char *topic = sonar_topic_name((sonar_surface)i);
            if ((topics ^ pair->wanted) & SONAR_WANT(i))
                zmq_setsockopt(feed->socket,
                               topics & SONAR_WANT(i) ? ZMQ_SUBSCRIBE : ZMQ_UNSUBSCRIBE, topic,
                               strlen(topic));
        }
        expect(pair,
               output_wait_wanted(feed->pipeline->output, topics & feed->config->output_topics),
               "subscriptions do not arrive");
    }
    pair->wanted = topics;
}

/* Topics of a window, as wanted now. */
static unsigned topics_of(const struct pair *pair) {
    const sonar_config *c = pair->side[WANT].config;
    uint32_t topics = pair->wanted & c->output_topics & all_topics;
    if (!c->specs.cbf.ranges)
        topics &= ~SONAR_WANT(SONAR_CBF_NEARFIELD);
    if (!c->specs.mvdr.ranges)
        topics &= ~SONAR_WANT(SONAR_MVDR_NEARFIELD);
    if (!c->specs.mvdr.music)
        topics &= ~SONAR_WANT(SONAR_MUSIC_AZIMUTH);
    if (!c->specs.mvdr_enabled)
        topics &= ~sonar_topics_by(SONAR_MADE_BY_MVDR);
    return (unsigned)__builtin_popcount(topics);
}

/* Waits until all windows of the samples are offered or given up, and processed; returns the number
 * offered.
 */
static uint64_t await_windows(struct pair *pair, int side) {
    const feed *feed = &pair->side[side];
    const uint64_t due = pair->decided + windows_until(pair, pair->sent);
    const int64_t until = sonar_monotonic_ns() + (int64_t)FEED_PATIENCE_S * 1000000000;
    sonar_ingest_counters in;
    bool done = false;
    while (!done && sonar_monotonic_ns() < until) {
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        sonar_ingest_read_counters(feed->pipeline->ingest, &in);
        done = in.windows_offered + in.windows_dropped[SONAR_WINDOW_MISSING] >= due &&
               feed_processed(feed) + feed_failed(feed) >= in.windows_offered;
    }
    expect(pair, done, "stuck");
    expect(pair, feed_failed(feed) == 0, "a window failed");
    return in.windows_offered;
}

static void compare(struct pair *pair, const output_message message[PAIR]) {
    published_verdict verdict = published_compare(&message[WANT], &message[HAVE]);
    sonar_surface surface = published_surface(message[WANT].topic);
    const cJSON *window = cJSON_GetObjectItem(message[WANT].head, "window");
    for (int side = 0; side < PAIR; side++) {
        const cJSON *backend = cJSON_GetObjectItem(message[side].head, "backend");
        gpu_expect(&device,
                   cJSON_IsString(backend) &&
                       !strcmp(backend->valuestring, side == HAVE ? pair->trial->backend : "cpu"),
                   "%s: computed by another backend", pair->shape->name);
    }
    pair->contacts +=
        (uint64_t)cJSON_GetArraySize(cJSON_GetObjectItem(message[WANT].head, "detections"));
    pair->used[surface] = fmax(pair->used[surface], verdict.used);
    if (surface == SONAR_DETECTIONS ? !verdict.headers : !verdict.arrays)
        noticed |= SONAR_WANT(surface);
    if (!pair->trial->must_notice)
        gpu_expect(&device, verdict.headers && verdict.arrays, "%s: %s of window %d: %s",
                   pair->shape->name, message[WANT].topic, window ? window->valueint : -1,
                   verdict.text);
}

static bool receive_pair(struct pair *pair) {
    output_message message[PAIR] = {0};
    bool here = true;
    for (int side = 0; side < PAIR; side++)
        here = here && output_receive(pair->side[side].socket, &message[side], 20000);
    if (expect(pair, here, "a message did not come"))
        compare(pair, message);
    for (int side = 0; side < PAIR; side++)
        output_message_clear(&message[side]);
    return here;
}

/* Compares all messages for the samples sent so far. */
static void check_windows(struct pair *pair) {
    uint64_t offered[PAIR];
    for (int side = 0; side < PAIR; side++)
        offered[side] = await_windows(pair, side);
    if (!expect(pair, offered[WANT] == offered[HAVE], "another number of windows"))
        return;
    uint64_t messages = (offered[WANT] - pair->offered) * topics_of(pair);
    for (uint64_t i = 0; i < messages && receive_pair(pair); i++)
        pair->messages++;
    pair->offered = offered[WANT];
}

static void run_windows(struct pair *pair, uint32_t topics, size_t windows, bool may_lose) {
    if (pair->broken)
        return;
    want(pair, topics);
    send_windows(pair, windows, may_lose);
    check_windows(pair);
}

/* Compares counters, and checks that no further message was published. */
static void check_status(struct pair *pair) {
    sonar_error err = {0};
    sonar_output_counters out;
    if (pair->broken)
        return;
    want(pair, SONAR_WANT(SONAR_STATUS));
    for (int side = 0; side < PAIR; side++) {
        sonar_pipeline *pipeline = pair->side[side].pipeline;
        sonar_output_read_counters(pipeline->output, &out);
        expect(pair, out.messages_sent == pair->messages, "another number of messages");
        gpu_require(sonar_pipeline_tick(pipeline, &err), &err, pair->shape->name);
    }
    receive_pair(pair);
    gpu_expect(&device, pair->contacts > 0, "%s: no contacts to compare", pair->shape->name);
}

static void report(const struct pair *pair) {
    printf("%s: %d windows, %d messages, %d contacts; of what is allowed:", pair->shape->name,
           (int)pair->offered, (int)pair->messages, (int)pair->contacts);
    for (int i = 0; i < TOPICS; i++)
        if (pair->used[i] > 0)
            printf(" %s %.3f", sonar_topic_name((sonar_surface)i), pair->used[i]);
    printf("\n");
}

/* Every set of the computed topics, with one request per step, since a connection is limited to a
 * thousand requests. */
static void run_sets(struct pair *pair) {
    const uint32_t computed =
        all_topics & ~(SONAR_WANT(SONAR_ELEMENT_MISSING) | SONAR_WANT(SONAR_ELEMENT_POSITION));
    for (uint32_t i = 0; i < 1u << __builtin_popcount(computed); i++) {
        uint32_t gray = i ^ i >> 1, topics = 0; /* Gray's order: one topic is added or removed */
        for (uint32_t left = computed; left; left &= left - 1, gray >>= 1)
            topics |= gray & 1 ? left & -left : 0;
        run_windows(pair, topics, 1, false);
    }
}

static void run_shape(const struct shape *shape, const struct trial *trial) {
    struct pair pair = {.shape = shape, .trial = trial};
    open_pair(&pair);
    run_windows(&pair, all_topics, shape->windows, true);
    if (shape->how & SUBSETS)
        run_sets(&pair);
    if (shape->how & RESTARTS) {
        restart(&pair);
        run_windows(&pair, all_topics, shape->windows, true);
    }
    check_status(&pair);
    report(&pair);
    close_pair(&pair);
}

static void run_mixtures(const struct shape *shape) {
    for (int mix = 1; mix < (1 << SONAR_ENGINE_STAGES) - 1; mix++) {
        struct layout layout = feed_layout(device.backend);
        for (int i = 0; i < SONAR_ENGINE_STAGES; i++)
            layout.place[i] = mix & 1 << i ? device.backend : sonar_backend_cpu();
        run_shape(shape, &(struct trial){.backend = "cuda+cpu", .layout = &layout, .gain = 1});
    }
}

static void run_mixed(void) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (shapes[i].how & MIXED)
            run_mixtures(&shapes[i]);
}

static void run_all(const struct shape *shape, size_t count, const struct trial *trial) {
    for (size_t i = 0; i < count; i++)
        run_shape(&shape[i], trial);
}

static void run_on_device(const struct shape *shape, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct layout layout = feed_layout(device.backend);
        bool mixed = shape[i].how & CPU_MVDR;
        layout.place[SONAR_ENGINE_MVDR] = mixed ? sonar_backend_cpu() : device.backend;
        run_shape(
            &shape[i],
            &(struct trial){.backend = mixed ? "cuda+cpu" : "cuda", .layout = &layout, .gain = 1});
    }
}

/* ---- the CPU alone --------------------------------------------------------------------------- */

static void check_oneself(void) {
    const uint32_t deaf = SONAR_WANT(SONAR_ELEMENT_MISSING) | SONAR_WANT(SONAR_ELEMENT_POSITION) |
                          SONAR_WANT(SONAR_MUSIC_AZIMUTH); /* no levels in them */
    const struct trial rounded = {.backend = "cpu", .gain = 1, .rounding = 2e-7};
    const struct trial louder = {.backend = "cpu", .gain = pow(10, 0.15 / 20), .must_notice = true};
    run_all(shapes, sizeof shapes / sizeof *shapes, &rounded);
    run_all(tiny_shapes, sizeof tiny_shapes / sizeof *tiny_shapes, &rounded);
    noticed = 0;
    run_shape(&shapes[0], &louder);
    gpu_expect(&device, noticed == (all_topics & ~deaf), "0.15 dB were noticed in topics %#x",
               noticed);
}

/* -1: not asked for. */
static int run_alone(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "--self-check"))
        check_oneself();
    else if (argc == 3 && !strcmp(argv[1], "--louder"))
        run_all(shapes, sizeof shapes / sizeof *shapes,
                &(struct trial){.backend = "cpu", .gain = pow(10, atof(argv[2]) / 20)});
    else
        return -1;
    return gpu_close(&device, "gpu_published");
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0); /* shows the progress of a long run */
    int leave = run_alone(argc, argv);
    if (leave < 0)
        leave = gpu_open(&device, argc, argv);
    if (leave >= 0)
        return leave;
    if (device.tiny) {
        run_on_device(tiny_shapes, sizeof tiny_shapes / sizeof *tiny_shapes);
    } else if (!device.timed) {
        run_on_device(shapes, sizeof shapes / sizeof *shapes);
        run_mixed();
    }
    return gpu_close(&device, "gpu_published");
}
