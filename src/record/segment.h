/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One segment of a recording: its data file and the files that describe it. Recorder's thread.
 * Inside src/record only. */
#ifndef SONAR_RECORD_SEGMENT_H
#define SONAR_RECORD_SEGMENT_H

#include <stdio.h>

#include "record/pieces.h"

enum { SONAR_SEGMENT_NAME = 160, SONAR_MARKS_LEAST = 4096, SONAR_CAPTURES_MOST = 512 };

/* Position in its stream of the samples that begin at `start` in the file. */
typedef struct sonar_capture {
    uint64_t start; /* in the file */
    uint64_t timeline, first_sample;
    uint32_t epoch, flags;
    int64_t utc_ns; /* 0 = unknown */
} sonar_capture;

/* Channels that lack samples [begin, end) of the file. */
typedef struct sonar_mark {
    uint64_t begin, end;
    uint32_t first_channel, channels;
} sonar_mark;

typedef struct sonar_segment {
    sonar_record_kind kind;
    int directory;                 /* borrowed from begin until end */
    int data, index;               /* -1: closed; index: only for messages */
    bool open, dirty;              /* dirty: there is data that is not on the disk yet */
    bool described;                /* the metadata on the disk contain all captures and marks */
    char stem[SONAR_SEGMENT_NAME]; /* of the files' names */
    uint64_t bytes;                /* bytes of complete samples or messages */
    uint64_t pending_bytes;        /* bytes written so far of an incomplete message */
    uint64_t booked;               /* size of the file when everything booked is written */
    int64_t began_ns;              /* monotonic */
    /* samples */
    size_t channels, width, stride; /* stride: of the rows of a piece, in samples */
    double fs_hz;
    uint64_t samples;
    size_t captures, marks, marks_most;
    sonar_capture capture[SONAR_CAPTURES_MOST];
    sonar_mark *mark;     /* [marks_most], enough for those of any piece */
    size_t block;         /* samples per channel that are interleaved at once */
    uint8_t *interleaved; /* [block][channels] */
} sonar_segment;

/* False: no memory. Call clear in any case. */
bool sonar_segment_init(sonar_segment *segment, const sonar_recorder_spec *spec, size_t stride);
void sonar_segment_clear(sonar_segment *segment);

/* NAME-20260102T030405.678Z */
void sonar_segment_stem(const char *name, int64_t utc_ns, char stem[SONAR_SEGMENT_NAME]);
/* Creates the files in the folder, as NAME-UTC; existing files are never changed. SONAR_ESYS. */
sonar_code sonar_segment_begin(sonar_segment *segment, int directory, const char *name,
                               sonar_error *err);
/* Adds the piece's bytes, captures and gaps to the metadata. False: they do not fit, so another
 * segment must begin. */
bool sonar_segment_book(sonar_segment *segment, const sonar_piece *piece);
/* Rewrites the metadata if they changed; called before the samples that they describe are
 * written. */
sonar_code sonar_segment_write_metadata(sonar_segment *segment, const char *about,
                                        const char *geometry, sonar_error *err);
/* Appends a piece. After an error the file ends with the last complete sample or message. */
sonar_code sonar_segment_append(sonar_segment *segment, const sonar_piece *piece, sonar_error *err);
sonar_code sonar_segment_sync(sonar_segment *segment, sonar_error *err);
/* Closes the files. */
sonar_code sonar_segment_end(sonar_segment *segment, sonar_error *err);

/* sigmf.c: the metadata of a SigMF data set. */
void sonar_sigmf_write(const sonar_segment *segment, const char *about, const char *geometry,
                       FILE *to);

/* keep.c: the result of sonar_keep. */
typedef struct sonar_kept {
    uint64_t deleted; /* in this call */
    uint64_t future;  /* segments with names later than the clock */
} sonar_kept;

/* Deletes segments of this name that are too old or too many, oldest first, and never `open`.
 * Deletes at most 1024; the next call deletes more. */
sonar_kept sonar_keep(int directory, const char *name, const char *open, uint64_t keep_bytes,
                      double keep_s);

/* order.c: the order in which segments were written, stored in a file NAME.sonar-order. Segments
 * are not in the order if the file could not be written or read. */
typedef struct sonar_order {
    char *text;
    struct sonar_order_line *line; /* by name */
    size_t lines;
} sonar_order;

/* Notes that a segment begins. */
void sonar_order_note(int directory, const char *name, const char *stem);
void sonar_order_read(int directory, const char *name, sonar_order *order); /* free in any case */
void sonar_order_free(sonar_order *order);
/* Position from 1, oldest first; 0: unknown. */
size_t sonar_order_rank(const sonar_order *order, const char *stem);
/* Replaces the list. */
void sonar_order_write(int directory, const char *name, const char *const *stem, size_t count);

#endif
