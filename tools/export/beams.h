/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The time series of beams (topic beam.audio) in recorded messages, put together. One thread. */
#ifndef EXPORT_BEAMS_H
#define EXPORT_BEAMS_H

#include <stdio.h>

#include "sink.h"

typedef struct export_beams export_beams;

/* Finds the beams' first stream: messages of one run, epoch and number of beams. info, of which
 * channels are beams, format is SONAR_F32 and frames are all samples, with those that are missing.
 * SONAR_EINVAL: no beam.audio, or no recorded messages; SONAR_EUNAVAILABLE, SONAR_ENOMEM. */
sonar_code export_beams_open(const char *path, export_beams **beams, sim_recording_info *info,
                             sonar_error *err);
void export_beams_close(export_beams *beams);
/* Appends samples [first, end), missing ones as 0. sound: without its mean, and scaled so that the
 * largest sample is 0.9; else in pascals, or in counts if the array is not calibrated. */
sonar_code export_beams_copy(export_beams *beams, uint64_t first, uint64_t end, bool sound,
                             export_sink *sink, sonar_error *err);
/* After copy: writes what the file has to `to`, a line or two. */
void export_beams_tell(const export_beams *beams, FILE *to);

#endif
