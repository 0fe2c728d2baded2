/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Plays recordings of the same time, with consecutive groups of channels, as one recording: for
 * files of several recorders, or of one that writes a file for each group of channels. A single
 * recording is passed through unchanged. */
#ifndef REPLAY_BESIDE_H
#define REPLAY_BESIDE_H

#include "recording.h"

typedef struct beside beside;

/* Several recordings must have the same rate, no gaps, and the same begin if it is known, unless
 * `utc_given`: then the user asserts it. The shortest one determines the end. Remarks are printed
 * on stderr, unless `tool` is NULL. raw: as of sim_recording_open_as. SONAR_EINVAL,
 * SONAR_EUNAVAILABLE. */
sonar_code beside_open(const char *tool, char *const *path, size_t files, bool utc_given,
                       const sim_raw *raw, beside **made, sonar_error *err);
const sim_recording_info *beside_about(const beside *b);
/* Like sim_recording_read. */
sonar_code beside_read(beside *b, uint64_t first, size_t samples, float *to, sonar_error *err);
void beside_close(beside *b); /* NULL is allowed */

#endif
