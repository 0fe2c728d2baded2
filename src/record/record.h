/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Record: keeps what came in (raw samples, as SigMF data sets) or what went out (published
 * messages) in files of a folder.
 *
 *   ingest or output thread --pieces filled--> sonar-record --pieces empty--> back
 *
 * Pieces are allocated at create. Who fills them never waits: where no piece is empty, because the
 * disk is too slow, samples are left out and counted, and the recording says so itself. The
 * recorder's own thread writes whole segments, at least twice a second to the disk, begins a new
 * segment by size and by age, and deletes old ones. Whatever goes wrong with the disk ends the
 * recording until it is started again, and nothing else (docs/recording.md has the formats).
 */
#ifndef SONAR_RECORD_H
#define SONAR_RECORD_H

#include "status/result.h"
#include "core/stretch.h"
#include "status/topic.h"

typedef struct sonar_recorder_spec {
    sonar_record_kind kind; /* RAW or SPECTRA */
    const char *directory;  /* is there; borrowed until create returns, as all texts */
    const char *name;       /* of the array: files are NAME-UTC.sigmf-data and so on */
    size_t channels;
    double fs_hz;
    sonar_dtype type;       /* S16 or F32, of the stretches */
    size_t buffer_bytes;    /* of all pieces */
    uint64_t segment_bytes; /* after this many bytes another segment begins */
    double segment_s;       /* the same of its age */
    uint64_t keep_bytes;    /* of all segments of this name; the oldest go. 0: no limit */
    double keep_s;          /* since they were written last. 0: no limit */
    uint64_t free_bytes;    /* of the file system: recording stops below */
    uint32_t topics;        /* SONAR_WANT bits of the messages that are recorded */
    const char *about;      /* the metadata's object `global`, but for the braces and for what the
                               recorder knows itself */
    const char *geometry;   /* members of the first capture, as `, "name": value` */
} sonar_recorder_spec;

typedef struct sonar_recorder sonar_recorder;

/* Bytes that pieces need for a spec. */
size_t sonar_recorder_bytes(const sonar_recorder_spec *spec);

/* Opens the folder and allocates. SONAR_EUNAVAILABLE: the folder is not to be had. */
sonar_code sonar_recorder_create(const sonar_recorder_spec *spec, const sonar_host *host,
                                 sonar_recorder **recorder, sonar_error *err);
/* Starts the thread; nothing is recorded before sonar_recorder_ask. */
sonar_code sonar_recorder_start(sonar_recorder *recorder, sonar_error *err);
/* Called when no thread fills pieces any more: writes all filled pieces, if the disk takes them
 * within timeout_ms, completes the segment and joins the thread. False: the disk does not answer,
 * and the thread still runs; destroy waits for it. NULL is allowed. */
bool sonar_recorder_stop(sonar_recorder *recorder, int timeout_ms);
void sonar_recorder_destroy(sonar_recorder *recorder); /* NULL is allowed */

/* ---- control thread -------------------------------------------------------------------------- */

/* Starts or stops recording; what was filled until then is still written. After an error it begins
 * again. */
void sonar_recorder_ask(sonar_recorder *recorder, bool record);
/* The metadata from now on: segments are of one of them only. Copies both; SONAR_ENOMEM. */
sonar_code sonar_recorder_describe(sonar_recorder *recorder, const char *about,
                                   const char *geometry, sonar_error *err);
void sonar_recorder_read(sonar_recorder *recorder, sonar_recording *recording);
/* Where its files are; borrowed. */
const char *sonar_recorder_directory(const sonar_recorder *recorder);

/* ---- who fills ------------------------------------------------------------------------------- */

/* For ingest; of a recorder of samples. Valid until destroy. */
const sonar_stretch_sink *sonar_recorder_sink(sonar_recorder *recorder);

/* For the output thread; of a recorder of messages. Which surfaces it keeps now. */
uint32_t sonar_recorder_wanted(void *recorder);
/* One message as it was published; data are copied. */
void sonar_recorder_message(void *recorder, sonar_surface surface, const char *header,
                            const void *data, size_t bytes);
/* Several times a second, by the same thread. */
void sonar_recorder_tick(void *recorder);

/* ---- the file of messages -------------------------------------------------------------------- */

enum { SONAR_MESSAGE_HEAD_BYTES = 40 };

/* In front of each message's three parts, little-endian. */
typedef struct sonar_message_head {
    uint32_t topic_bytes, header_bytes;
    uint64_t array_bytes;
    int64_t utc_ns; /* when it was published */
} sonar_message_head;

void sonar_message_head_encode(const sonar_message_head *head,
                               uint8_t bytes[SONAR_MESSAGE_HEAD_BYTES]);
/* Of the format, which is 1 here; 0: it is no message's. */
unsigned sonar_message_head_version(const uint8_t bytes[SONAR_MESSAGE_HEAD_BYTES]);
/* False: it is none of this version, or its lengths or its time are absurd. */
bool sonar_message_head_decode(const uint8_t bytes[SONAR_MESSAGE_HEAD_BYTES],
                               sonar_message_head *head);

#endif
