/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Recordings of the same time whose channels follow on each other, as one: the files that several
 * recorders, or one that writes a file for each group of channels, have made. A single recording is
 * passed through as it is. */
#ifndef REPLAY_BESIDE_H
#define REPLAY_BESIDE_H

#include "recording.h"

typedef struct beside beside;

/* Several have to be of one rate, without gaps, and to begin together as far as they know their
 * times, unless `utc_given`: the user says so. The shortest decides where they end. What there is
 * to say of them goes to stderr, unless `tool` is NULL. SONAR_EINVAL, SONAR_EUNAVAILABLE. */
sonar_code beside_open(const char *tool, char *const *path, size_t files, bool utc_given,
                       beside **made, sonar_error *err);
const sim_recording_info *beside_about(const beside *b);
/* As sim_recording_read. */
sonar_code beside_read(beside *b, uint64_t first, size_t samples, float *to, sonar_error *err);
void beside_close(beside *b); /* NULL is allowed */

#endif
