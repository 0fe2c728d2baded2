/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Assembler: takes frames and offers windows; it has no socket and no clock, so that every rule can
 * be tested to the sample.
 *
 * Several threads may feed it. What has to be decided in the order of the frames is decided by
 * `begin`, which takes a moment: does the frame belong to the timeline, is it new, is there room?
 * One thread at a time calls it. What takes long, the copying of the samples and the books of their
 * channels, is done by `book`, for as many frames side by side as there are threads. Frames for
 * which it matters what came before (samples that were there, a new epoch, a new block) are dealt
 * with by `begin` as a whole while nobody books, and so are windows that are over. What other
 * threads see follows from the order in which frames began, not from the number of threads.
 *
 * Glossary
 *   position      where a sample lies in the ring's endless coordinate, which grows over restarts
 * of the stream; the ring's column is position mod capacity timeline   one count of sample indices:
 * from one adoption to the next frozen     below this position nothing is stored any more: it is
 * late
 */
#ifndef SONAR_ASSEMBLER_H
#define SONAR_ASSEMBLER_H

#include "ingest/frame.h"
#include "ingest/payload.h"
#include "ingest/window_queue.h"

typedef struct sonar_assembler sonar_assembler;

/* Takes what it needs of the spec; sockets and threads do not matter here. */
sonar_code sonar_assembler_create(const sonar_ingest_spec *spec, sonar_assembler **assembler,
                                  sonar_error *err);
void sonar_assembler_destroy(sonar_assembler *assembler);

/* A frame from begin to book; nobody else looks inside. */
typedef struct sonar_booking {
    sonar_frame frame;
    sonar_payload payload;
    int64_t arrival_ns;
    uint64_t at;      /* position of its first sample; may wrap below 0 when that is late */
    uint32_t handled; /* samples per channel, stored or counted */
    uint64_t stored, repeated, late; /* channel-samples */
    size_t at_window, at_chunk;      /* used channels that it brought to the ends of these */
    struct sonar_lane *lane;
} sonar_booking;

typedef enum sonar_turn {
    SONAR_TURN_OVER = 0, /* the frame is dealt with */
    SONAR_TURN_BOOK,     /* its samples are wanted: book is to be called, by the same thread */
    SONAR_TURN_WAITS,    /* overload block: it does not fit until the data thread releases a window:
                            the payload must stay, and resume is to be called until it returns true
                            before the next frame */
    SONAR_TURN_AGAIN     /* the same, but nothing is decided: then it has to begin again */
} sonar_turn;

/* One message of two parts; now_ns is monotonic. begin, resume, abandon, malformed, tick, load and
 * report are called by one thread at a time, which owes no book itself, for they may wait for those
 * that others owe; book is called by any, beside all of them. */
sonar_turn sonar_assembler_begin(sonar_assembler *assembler, const void *header,
                                 size_t header_bytes, const sonar_payload *payload, int64_t now_ns,
                                 sonar_booking *booking);
/* False (overload: block only): a window is over for which there is no room: resume is to be called
 * until it returns true. A frame that begins before that has to begin again. */
bool sonar_assembler_book(sonar_assembler *assembler, sonar_booking *booking);
bool sonar_assembler_resume(sonar_assembler *assembler);
/* Both at once, for one thread; false: the frame waits. */
bool sonar_assembler_frame(sonar_assembler *assembler, const void *header, size_t header_bytes,
                           const void *payload, size_t payload_bytes, int64_t now_ns);
/* Gives up the frame that waits, if one does: what is not stored of it counts as late, or the whole
 * as overrun. */
void sonar_assembler_abandon(sonar_assembler *assembler);
/* A message that has not two parts. */
void sonar_assembler_malformed(sonar_assembler *assembler);
/* Lets time pass: which blocks are silent? Has the stream stopped with windows not offered? */
void sonar_assembler_tick(sonar_assembler *assembler, int64_t now_ns);
/* Nothing will come any more: hands on what is there, complete or not. */
void sonar_assembler_end(sonar_assembler *assembler);
/* Once a tick: whether messages waited whenever the thread looked since the last one. Overloaded,
 * the assembler gives up all frames of some windows, so that others stay whole (overload:
 * drop_oldest; shed.h). */
void sonar_assembler_load(sonar_assembler *assembler, bool busy);

/* Other channels count: [channel], one used at least; from the next window on. Any one thread. */
void sonar_assembler_use(sonar_assembler *assembler, const uint8_t *used);

/* State of the stream. read: the last report was read, so its losses need not be reported again. */
void sonar_assembler_report(sonar_assembler *assembler, bool read, sonar_ingest_report *report);
/* But for the last refused frames: now. Any thread. */
void sonar_assembler_read_refused(sonar_assembler *assembler,
                                  sonar_refused refused[SONAR_FRAME_CAUSES]);

uint64_t sonar_assembler_ready(const sonar_assembler *assembler); /* any thread */
sonar_buffer sonar_assembler_ring(const sonar_assembler *assembler);
size_t sonar_assembler_capacity(const sonar_assembler *assembler); /* samples a channel */

/* Data thread. */
bool sonar_assembler_take(sonar_assembler *assembler, sonar_window *window);
void sonar_assembler_release(sonar_assembler *assembler, const sonar_window *window);

/* Any thread. */
uint64_t sonar_assembler_offered(const sonar_assembler *assembler); /* windows to take, so far */
size_t sonar_assembler_waiting(const sonar_assembler *assembler);
void sonar_assembler_read_counters(const sonar_assembler *assembler,
                                   sonar_ingest_counters *counters);

#endif
