/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Feeds a pipeline without sockets (config->reader) as its control thread, as fast as it computes.
 * Two runs with the same frames give the same messages: what depends on ticks, such as
 * array.auto_mask, has them at the same samples. */
#ifndef SONAR_FEEDER_H
#define SONAR_FEEDER_H

#include <signal.h>

#include "pipeline/pipeline.h"

typedef struct sonar_feeder {
    sonar_pipeline *pipeline;   /* started; borrowed */
    const sonar_config *config; /* the pipeline's, private (sonar_config_make_private) */
    /* Called often, also while it waits for the pipeline. Its error ends the feeding. NULL: none.
     */
    sonar_code (*look)(void *ctx, sonar_error *err);
    void *ctx;
    const volatile sig_atomic_t *stop; /* not 0: waits for nothing any more; NULL: never */
    uint64_t done, ticked;             /* samples so far, and at the last tick */
    int64_t ticked_ns;                 /* when that was; at first the start */
} sonar_feeder;

/* Waits until the frame is taken. Errors are those of look and of sonar_pipeline_tick. */
sonar_code sonar_feeder_frame(sonar_feeder *feeder, const void *header, size_t header_bytes,
                              const void *payload, size_t payload_bytes, sonar_error *err);
/* Call between two frames: each channel had `samples` more samples, fed or missing. */
sonar_code sonar_feeder_advance(sonar_feeder *feeder, uint64_t samples, sonar_error *err);
/* No frame follows: waits until all windows are processed. */
sonar_code sonar_feeder_finish(sonar_feeder *feeder, sonar_error *err);

/* True for a line of the pipeline's log that a user of results has to know: warnings, but none of
 * the health, which judges by the clock, unless they are about sensors. */
bool sonar_feeder_tells(sonar_level level, const char *where);
/* After finish: a sentence for each kind of loss that the results do not show as they should. */
void sonar_feeder_losses(const sonar_feeder *feeder, void (*tell)(void *ctx, const char *text),
                         void *ctx);

#endif
