/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One segment of a recording: its data file and what describes it. Recorder's thread. Inside
 * src/record only. */
#ifndef SONAR_RECORD_SEGMENT_H
#define SONAR_RECORD_SEGMENT_H

#include <stdio.h>

#include "record/pieces.h"

enum { SONAR_SEGMENT_NAME = 160, SONAR_MARKS_LEAST = 4096, SONAR_CAPTURES_MOST = 512 };

/* From a sample of the file on: where it lies in its stream. */
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
    int directory;                 /* borrowed from begin on, while it is open */
    int data, index;               /* -1: closed; index: of messages only */
    bool open, dirty;              /* dirty: not on the disk yet */
    bool described;                /* the metadata on the disk have all captures and marks */
    char stem[SONAR_SEGMENT_NAME]; /* of the files' names */
    uint64_t bytes;                /* that are whole samples or messages */
    uint64_t pending_bytes;        /* of the message of which a part has been written */
    uint64_t booked;               /* bytes it will have when all that is booked is written */
    int64_t began_ns;              /* monotonic */
    /* samples */
    size_t channels, width, stride; /* stride: of the rows of a piece, in samples */
    double fs_hz;
    uint64_t samples;
    size_t captures, marks, marks_most;
    sonar_capture capture[SONAR_CAPTURES_MOST];
    sonar_mark *mark;     /* [marks_most], room for those of any piece */
    size_t block;         /* samples a channel that are put in order at once */
    uint8_t *interleaved; /* [block][channels] */
} sonar_segment;

/* False: no memory. clear in any case. */
bool sonar_segment_init(sonar_segment *segment, const sonar_recorder_spec *spec, size_t stride);
void sonar_segment_clear(sonar_segment *segment);

/* NAME-20260102T030405.678Z */
void sonar_segment_stem(const char *name, int64_t utc_ns, char stem[SONAR_SEGMENT_NAME]);
/* Creates the files in the folder, as NAME-UTC; ones that are there are left alone. SONAR_ESYS. */
sonar_code sonar_segment_begin(sonar_segment *segment, int directory, const char *name,
                               sonar_error *err);
/* Adds the piece's bytes, captures and gaps to the metadata. False: there is no room for them,
 * begin another segment. */
bool sonar_segment_book(sonar_segment *segment, const sonar_piece *piece);
/* Rewrites the metadata if they changed, before the samples they describe. */
sonar_code sonar_segment_write_metadata(sonar_segment *segment, const char *about,
                                        const char *geometry, sonar_error *err);
/* Appends a piece. After an error the file ends with the last whole sample or message. */
sonar_code sonar_segment_append(sonar_segment *segment, const sonar_piece *piece, sonar_error *err);
sonar_code sonar_segment_sync(sonar_segment *segment, sonar_error *err);
/* Closes the files. */
sonar_code sonar_segment_end(sonar_segment *segment, sonar_error *err);

/* sigmf.c: the metadata of a SigMF data set. */
void sonar_sigmf_write(const sonar_segment *segment, const char *about, const char *geometry,
                       FILE *to);

/* keep.c: what is kept of the segments of a name. */
typedef struct sonar_kept {
    uint64_t deleted; /* now */
    uint64_t future;  /* that are there with names later than the clock */
} sonar_kept;

/* Deletes segments of this name that are too old, or too many, the oldest first and never `open`:
 * at most 1024, the next ones in the next call. */
sonar_kept sonar_keep(int directory, const char *name, const char *open, uint64_t keep_bytes,
                      double keep_s);

/* order.c: the order in which segments were written, kept as a file NAME.sonar-order. Where it
 * cannot be written or read, segments are not known to it. */
typedef struct sonar_order {
    char *text;
    struct sonar_order_line *line; /* by name */
    size_t lines;
} sonar_order;

/* A segment begins. */
void sonar_order_note(int directory, const char *name, const char *stem);
void sonar_order_read(int directory, const char *name, sonar_order *order); /* free in any case */
void sonar_order_free(sonar_order *order);
/* 1 and up, the oldest first; 0: it is not known. */
size_t sonar_order_rank(const sonar_order *order, const char *stem);
/* Replaces the list. */
void sonar_order_write(int directory, const char *name, const char *const *stem, size_t count);

#endif
