/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "configured.h"

static void no_log(void *ctx, sonar_level level, const char *where, const char *text) {
    (void)ctx, (void)level, (void)where, (void)text;
}

static void replace(char **text, const char *with) {
    free(*text);
    *text = strdup(with);
}

static void configure(feed *feed, const char *text) {
    feed->config = configured("feed", text);
    replace(&feed->config->ingest_endpoint[0], feed->in);
    replace(&feed->config->output_endpoint, feed->out);
}

static void subscribe_all(feed *feed) {
    feed->context = zmq_ctx_new();
    feed->socket = zmq_socket(feed->context, ZMQ_SUB);
    int zero = 0;
    zmq_setsockopt(feed->socket, ZMQ_LINGER, &zero, sizeof zero);
    for (int i = 0; i < SONAR_STATUS; i++) {
        const char *topic = sonar_topic_table[i].name;
        zmq_setsockopt(feed->socket, ZMQ_SUBSCRIBE, topic, strlen(topic));
    }
    zmq_connect(feed->socket, feed->out);
}

static void nap(void) {
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

/* Waits until all surfaces are requested, so that the first window is like all others. */
static void await_subscription(const feed *feed) {
    uint32_t all = SONAR_WANT(SONAR_STATUS) - 1;
    for (int i = 0; i < 50000 && sonar_output_wanted(feed->pipeline->output) != all; i++)
        nap();
    if (sonar_output_wanted(feed->pipeline->output) != all)
        abort();
}

sonar_code feed_start(feed *feed, const char *text, const char *backend, const char *plugin_dir,
                      long fail_at, const struct layout *layout, sonar_error *err) {
    memset(feed, 0, sizeof *feed);
    strcpy(feed->dir, "/tmp/sonar-feed-XXXXXX");
    if (!mkdtemp(feed->dir))
        abort();
    snprintf(feed->in, sizeof feed->in, "ipc://%s/in", feed->dir);
    snprintf(feed->out, sizeof feed->out, "ipc://%s/out", feed->dir);
    configure(feed, text);
    feed->config->fail_at = fail_at;
    if (backend)
        snprintf(feed->config->backend, sizeof feed->config->backend, "%s", backend);
    if (plugin_dir && !feed->config->plugin_dir)
        feed->config->plugin_dir = strdup(plugin_dir);
    sonar_code code =
        sonar_pipeline_create_with(layout, feed->config, no_log, NULL, &feed->pipeline, err);
    return code ? code : sonar_pipeline_start(feed->pipeline, err);
}

struct layout feed_layout(const sonar_backend *backend) {
    return (struct layout){.place = {backend, backend, backend}};
}

sonar_code feed_open(feed *feed, const char *ingest, const char *runtime, const char *plugin_dir,
                     long fail_at, const sonar_backend *given, sonar_error *err) {
    const struct layout layout = feed_layout(given);
    return feed_open_with(feed, ingest, runtime, plugin_dir, fail_at, given ? &layout : NULL, err);
}

sonar_code feed_open_with(feed *feed, const char *ingest, const char *runtime,
                          const char *plugin_dir, long fail_at, const struct layout *layout,
                          sonar_error *err) {
    char text[2048];
    snprintf(text, sizeof text,
             "schema: 1\n"
             "array: {id: 1, geometry: {line: {sensors: %d, spacing_m: 0.75}}}\n"
             "fs_hz: 8000\n"
             "ingest: {overload: block, %s}\n"
             "dft: {length: %d, hop: %d}\n"
             "cbf: {band_hz: [600, 950], ranges_m: [50]}\n"
             "mvdr: {length: 64, hop: 32, snapshots: 8}\n"
             "detections: {threshold_db: 1}\n"
             "output: {high_water_mark: 10000}\n"
             "runtime: {threads: 1, %s}\n",
             FEED_SENSORS, ingest, FEED_LENGTH, FEED_HOP, runtime);
    return feed_open_text(feed, text, plugin_dir, fail_at, layout, err);
}

sonar_code feed_open_text(feed *feed, const char *text, const char *plugin_dir, long fail_at,
                          const struct layout *layout, sonar_error *err) {
    sonar_code code = feed_start(feed, text, NULL, plugin_dir, fail_at, layout, err);
    if (code)
        return code;
    subscribe_all(feed);
    await_subscription(feed);
    feed->digitiser = digitiser_open(feed->in, FEED_SENSORS, 0, FEED_SENSORS, FEED_FRAME);
    return SONAR_OK;
}

void feed_close(feed *feed) {
    if (feed->digitiser.context)
        digitiser_close(&feed->digitiser);
    if (feed->socket) {
        zmq_close(feed->socket);
        zmq_ctx_term(feed->context);
    }
    if (feed->pipeline)
        sonar_pipeline_stop(feed->pipeline, 1000);
    sonar_pipeline_destroy(feed->pipeline);
    sonar_config_destroy(feed->config);
    char path[96];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", feed->dir, i ? "in" : "out");
        unlink(path);
    }
    rmdir(feed->dir);
}

uint64_t feed_processed(const feed *feed) {
    return atomic_load(&feed->pipeline->progress.windows_processed);
}

uint64_t feed_failed(const feed *feed) {
    return atomic_load(&feed->pipeline->progress.windows_failed);
}

static void add(uint64_t *hash, const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) /* FNV-1a */
        *hash = (*hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
}

/* Receives one message, if one has arrived. The hash includes topic and array, and of the header
 * only the window and, at its end, the values of the covariance and the detections. */
static bool take_message(feed *feed) {
    static char topic[64], header[1 << 16], body[1 << 16];
    int topic_bytes = zmq_recv(feed->socket, topic, sizeof topic, ZMQ_DONTWAIT);
    if (topic_bytes < 0)
        return false;
    int header_bytes = zmq_recv(feed->socket, header, sizeof header - 1, 0);
    int body_bytes = zmq_recv(feed->socket, body, sizeof body, 0);
    header[header_bytes < 0 ? 0 : header_bytes] = '\0';
    const char *window = strstr(header, "\"window\":");
    feed->beyond |= !window || strtoull(window + 9, NULL, 10) >= feed->hash_below;
    if (feed->beyond)
        return true;
    feed->messages++;
    add(&feed->hash, topic, (size_t)topic_bytes);
    add(&feed->hash, body, body_bytes < 0 ? 0 : (size_t)body_bytes);
    const char *facts = strstr(header, "\"mvdr\":{");
    if (facts)
        add(&feed->hash, facts, strlen(facts));
    return true;
}

static void drain(feed *feed) {
    while (take_message(feed))
        ;
}

bool feed_receive(feed *feed) {
    int64_t until = sonar_monotonic_ns() + (int64_t)FEED_PATIENCE_S * 1000000000;
    while (!feed->beyond && sonar_monotonic_ns() < until)
        if (!take_message(feed))
            nap();
    return feed->beyond;
}

void feed_frames(feed *feed, int frames, int gap) {
    for (int i = 1; i <= frames; i++)
        if (gap && i % gap == 0)
            digitiser_skip(&feed->digitiser, 1);
        else
            digitiser_send(&feed->digitiser, 1);
}

bool feed_settle(const feed *feed) {
    const int64_t until_ns = sonar_monotonic_ns() + (int64_t)FEED_PATIENCE_S * 1000000000;
    while (atomic_load(&feed->pipeline->progress.busy_since_ns) && sonar_monotonic_ns() < until_ns)
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    return !atomic_load(&feed->pipeline->progress.busy_since_ns);
}

bool feed_windows(feed *feed, uint64_t windows) {
    enum { AT_ONCE = 16 };
    while (windows) {
        uint64_t now = windows < AT_ONCE ? windows : AT_ONCE;
        uint64_t want = feed_processed(feed) + feed_failed(feed) + now;
        int64_t until = sonar_monotonic_ns() + (int64_t)FEED_PATIENCE_S * 1000000000;
        if (feed->digitiser.frame.first_sample == 0)
            feed_frames(feed, (FEED_LENGTH - FEED_HOP) / FEED_FRAME, 0);
        feed_frames(feed, (int)now * (FEED_HOP / FEED_FRAME), 0);
        while (feed_processed(feed) + feed_failed(feed) < want) {
            if (atomic_load(&feed->pipeline->gave_up))
                return true;
            if (sonar_monotonic_ns() > until)
                return false;
            drain(feed);
            nap();
        }
        windows -= now;
    }
    return true;
}
