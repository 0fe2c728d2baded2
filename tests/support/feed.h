/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A small pipeline inside the test's own process, fed window by window over ipc. */
#ifndef SONAR_TEST_FEED_H
#define SONAR_TEST_FEED_H

#include "config/config.h"
#include "digitiser.h"
#include "pipeline/internal.h"

enum {
    FEED_SENSORS = 6,
    FEED_LENGTH = 128,
    FEED_HOP = 64,
    FEED_FRAME = 8,
    FEED_TOPICS = SONAR_SURFACES - 4 /* all but status, mvdr.nearfield, music.azimuth, beam.audio */
};
enum { FEED_PATIENCE_S = 100 }; /* race checkers are slow */

typedef struct feed {
    char dir[64], in[96], out[96];
    sonar_config *config;
    sonar_pipeline *pipeline;
    digitiser digitiser;
    void *context, *socket; /* SUB to every topic but status */
    uint64_t hash_below;    /* messages are hashed up to this window, 0: none */
    bool beyond;            /* a later window was received */
    uint64_t messages, hash;
} feed;

/* Creates a pipeline from the configuration `text`, with the endpoints feed->in and feed->out and
 * with `backend` (NULL: that of the text), without a sender or reader. layout: placement of the
 * stages, or NULL. fail_at: sonar_host.fail_at. Returns the code of creating and starting the
 * pipeline; feed_close is needed in every case. */
sonar_code feed_start(feed *feed, const char *text, const char *backend, const char *plugin_dir,
                      long fail_at, const struct layout *layout, sonar_error *err);
/* The same for a line of FEED_SENSORS, with a digitiser and a reader of all topics but status.
 * `ingest` and `runtime` are additions to these groups, e.g. "backend: cpu". */
sonar_code feed_open(feed *feed, const char *ingest, const char *runtime, const char *plugin_dir,
                     long fail_at, const sonar_backend *given, sonar_error *err);
/* All stages on one backend, as without training. */
struct layout feed_layout(const sonar_backend *backend);
/* As feed_open, with this layout. */
sonar_code feed_open_with(feed *feed, const char *ingest, const char *runtime,
                          const char *plugin_dir, long fail_at, const struct layout *layout,
                          sonar_error *err);
/* The same for a configuration `text` of an array of FEED_SENSORS in one block, with any
 * sub-windows, bands and so on. */
sonar_code feed_open_text(feed *feed, const char *text, const char *plugin_dir, long fail_at,
                          const struct layout *layout, sonar_error *err);
void feed_close(feed *feed);
/* Sends the samples of `windows` more windows and waits until each has been processed, has failed,
 * or the pipeline has given up; false if that takes more than FEED_PATIENCE_S. */
bool feed_windows(feed *feed, uint64_t windows);
/* Waits until the data thread is idle: it measures a window's sensors after its result. False if
 * that takes more than FEED_PATIENCE_S. */
bool feed_settle(const feed *feed);
/* Sends frames of FEED_FRAME samples, leaving out each `gap`-th (0: none). */
void feed_frames(feed *feed, int frames, int gap);
/* Receives until a window from hash_below on arrives; false if that takes more than
 * FEED_PATIENCE_S. */
bool feed_receive(feed *feed);
uint64_t feed_processed(const feed *feed);
uint64_t feed_failed(const feed *feed);

#endif
