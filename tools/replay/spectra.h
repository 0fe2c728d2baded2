/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A file of messages that sonard recorded (.sonar-spectra, docs/recording.md), read from its
 * beginning. Its content is not trusted. */
#ifndef REPLAY_SPECTRA_H
#define REPLAY_SPECTRA_H

#include <stdio.h>

#include "record/record.h"

typedef struct spectra {
    FILE *file;
    const char *path; /* borrowed */
    uint64_t at, end; /* bytes: offset of the next message, size of the file */
    sonar_message_head head;
    uint8_t *bytes; /* topic, header and array of the last message, in this order */
    size_t room;
} spectra;

/* Checks that it begins with a message, or is empty because a segment had just begun.
 * SONAR_EUNAVAILABLE, SONAR_EINVAL. Call close in any case. */
sonar_code spectra_open(const char *path, spectra *spectra, sonar_error *err);
/* The next message, into head and bytes. *found false: the end, or the file ends within it, as a
 * daemon that was killed leaves it. SONAR_EINVAL: what is there is no message of version 1. */
sonar_code spectra_next(spectra *spectra, bool *found, sonar_error *err);
void spectra_close(spectra *spectra);

#endif
