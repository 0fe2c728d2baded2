/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Record: stores received samples (raw, as SigMF data sets) or published messages in files of a
 * folder.
 *
 *   ingest or output thread --pieces filled--> sonar-record --pieces empty--> back
 *
 * Pieces are allocated at create. The thread that fills them never waits: if no piece is empty,
 * because the disk is too slow, samples are omitted and counted, and the recording marks the gap.
 * The recorder's own thread writes to the disk at least twice a second, begins a new segment by
 * size and by age, and deletes old ones. A failure of the disk ends only the recording, until it is
 * started again (docs/recording.md has the formats).
 */
#ifndef SONAR_RECORD_H
#define SONAR_RECORD_H

#include "status/result.h"
#include "core/stretch.h"
#include "status/topic.h"

typedef struct sonar_recorder_spec {
    sonar_record_kind kind; /* RAW or SPECTRA */
    const char *directory;  /* exists; borrowed until create returns, like all texts */
    const char *name;       /* of the array: files are NAME-UTC.sigmf-data and so on */
    size_t channels;
    double fs_hz;
    sonar_dtype type;       /* S16 or F32, of the stretches */
    size_t buffer_bytes;    /* of all pieces */
    uint64_t segment_bytes; /* size after which a new segment begins */
    double segment_s;       /* age after which a new segment begins */
    uint64_t
        keep_bytes; /* limit for all segments of this name; the oldest are deleted. 0: no limit */
    double keep_s;  /* limit for the time since a segment was last written. 0: no limit */
    uint64_t free_bytes; /* free space of the file system below which recording stops */
    uint32_t topics;     /* SONAR_WANT bits of the messages that are recorded */
    const char *about; /* members of the metadata's object `global`, without braces and without the
                          recorder's own members */
    const char *geometry; /* members of the first capture, as `, "name": value` */
} sonar_recorder_spec;

typedef struct sonar_recorder sonar_recorder;

/* Bytes that the pieces of a spec take. */
size_t sonar_recorder_bytes(const sonar_recorder_spec *spec);

/* Opens the folder and allocates. SONAR_EUNAVAILABLE: the folder cannot be used. */
sonar_code sonar_recorder_create(const sonar_recorder_spec *spec, const sonar_host *host,
                                 sonar_recorder **recorder, sonar_error *err);
/* Starts the thread. Nothing is recorded before sonar_recorder_ask. */
sonar_code sonar_recorder_start(sonar_recorder *recorder, sonar_error *err);
/* Called when no thread fills pieces any more: writes all filled pieces if the disk takes them
 * within timeout_ms, completes the segment and joins the thread. False: the disk does not answer
 * and the thread still runs; destroy waits for it. NULL is allowed. */
bool sonar_recorder_stop(sonar_recorder *recorder, int timeout_ms);
void sonar_recorder_destroy(sonar_recorder *recorder); /* NULL is allowed */

/* ---- control thread -------------------------------------------------------------------------- */

/* Starts or stops recording. Data that were filled before are still written. After an error it
 * starts again. */
void sonar_recorder_ask(sonar_recorder *recorder, bool record);
/* Sets the metadata from now on; each segment has only one set, so a new one begins. Copies both;
 * SONAR_ENOMEM. */
sonar_code sonar_recorder_describe(sonar_recorder *recorder, const char *about,
                                   const char *geometry, sonar_error *err);
void sonar_recorder_read(sonar_recorder *recorder, sonar_recording *recording);
/* The folder of its files; borrowed. */
const char *sonar_recorder_directory(const sonar_recorder *recorder);

/* ---- filling threads ------------------------------------------------------------------------- */

/* For ingest, of a recorder of samples. Valid until destroy. */
const sonar_stretch_sink *sonar_recorder_sink(sonar_recorder *recorder);

/* For the output thread, of a recorder of messages: the surfaces that it wants now. */
uint32_t sonar_recorder_wanted(void *recorder);
/* Takes one published message; the data are copied. */
void sonar_recorder_message(void *recorder, sonar_surface surface, const char *header,
                            const void *data, size_t bytes);
/* Called several times a second, by the same thread. */
void sonar_recorder_tick(void *recorder);

/* ---- the file of messages -------------------------------------------------------------------- */

enum { SONAR_MESSAGE_HEAD_BYTES = 40 };

/* Precedes each message's three parts; little-endian. */
typedef struct sonar_message_head {
    uint32_t topic_bytes, header_bytes;
    uint64_t array_bytes;
    int64_t utc_ns; /* when it was published */
} sonar_message_head;

void sonar_message_head_encode(const sonar_message_head *head,
                               uint8_t bytes[SONAR_MESSAGE_HEAD_BYTES]);
/* The format's version, now 1; 0: these bytes are not a message's head. */
unsigned sonar_message_head_version(const uint8_t bytes[SONAR_MESSAGE_HEAD_BYTES]);
/* False: another version, or impossible lengths or time. */
bool sonar_message_head_decode(const uint8_t bytes[SONAR_MESSAGE_HEAD_BYTES],
                               sonar_message_head *head);

#endif
