/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A pipeline without sockets: the test brings the frames, and gets the messages by a tap. Whatever
 * fails, ends the test. */
#ifndef SONAR_TEST_FED_H
#define SONAR_TEST_FED_H

#include "ingest/frame.h"
#include "output/output.h"
#include "pipeline/pipeline.h"
#include "sea.h"

typedef struct fed {
    sonar_config *config;
    sonar_params *params;
    sonar_pipeline *pipeline;
} fed;

/* Created and started; the tap is borrowed. */
fed fed_open(const char *name, const char *text, const sonar_output_tap *tap);
/* The first ships of two, and noise of 1e-3 uPa; none: noise alone. */
sea fed_sea(const fed *fed, size_t ships);
/* Encodes the frame and waits until it is taken. */
void fed_frame(const fed *fed, const sonar_frame *frame, const float *samples);
/* A frame of the first epoch with `count` samples[sample][channel] of the first `channels`, at the
 * configuration's rate. utc_ns: of its first sample, 0: unknown. */
void fed_samples(const fed *fed, uint64_t first_sample, uint32_t count, uint32_t channels,
                 int64_t utc_ns, const float *samples);
/* The same with samples[channel][sample]. */
void fed_channels(const fed *fed, uint64_t first_sample, uint32_t count, uint32_t channels,
                  int64_t utc_ns, const float *samples);
/* Frame `number` of `count` samples each in a stream that loses some: every 31st frame is not sent,
 * every 7th lacks its last channel. Changes samples[sample][channel]. */
void fed_lossy(const fed *fed, uint32_t number, uint32_t count, uint32_t channels, float *samples);
/* Changes a live value. */
void fed_set(const fed *fed, const char *path, const char *value);
/* Leaves out the last channel of samples[sample][channel]. */
void fed_leave_out_last(float *samples, uint32_t count, uint32_t channels);
/* No frame follows: waits for the last window's messages, stops and destroys. */
void fed_close(fed *fed);

#endif
