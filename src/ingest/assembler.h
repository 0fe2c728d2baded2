/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Assembler: takes frames and offers windows. It has no socket and no clock, so that every rule can
 * be tested to the sample.
 *
 * Several threads may feed it. begin makes the decisions that depend on the order of the frames:
 * whether a frame belongs to the timeline, whether it is new, and whether there is room. It is
 * short, and one thread at a time calls it. book copies the samples and marks them as present, for
 * as many frames concurrently as there are threads. A frame that depends on what came before
 * (samples that are present already, a new epoch, a new block) is handled by begin as a whole while
 * no frame is being booked, and so are complete windows. What other threads see depends on the
 * order in which frames began, not on the number of threads.
 *
 * Position: a sample's place in the ring's endless coordinate, which continues over restarts of the
 * stream; the ring's column is position mod capacity. Timeline: one count of sample indices, from
 * one adoption to the next. Frozen: below this position nothing is stored any more; samples that
 * arrive for it are late.
 */

#ifndef SONAR_ASSEMBLER_H
#define SONAR_ASSEMBLER_H

#include "ingest/frame.h"
#include "ingest/payload.h"
#include "ingest/window_queue.h"

typedef struct sonar_assembler sonar_assembler;

/* Copies what it needs of the spec; sockets and threads in it are ignored. */
sonar_code sonar_assembler_create(const sonar_ingest_spec *spec, sonar_assembler **assembler,
                                  sonar_error *err);
void sonar_assembler_destroy(sonar_assembler *assembler);

/* A frame between begin and book; private to the assembler. */
typedef struct sonar_booking {
    sonar_frame frame;
    sonar_payload payload;
    int64_t arrival_ns;
    uint64_t at;      /* position of its first sample; wraps below 0 when the frame is that late */
    uint32_t handled; /* samples per channel, stored or counted */
    uint64_t stored, repeated, late; /* channel-samples */
    size_t at_window, at_chunk; /* used channels that this frame brought to the ends of the window
                                   and the chunk */
    struct sonar_lane *lane;
} sonar_booking;

typedef enum sonar_turn {
    SONAR_TURN_OVER = 0, /* the frame is finished */
    SONAR_TURN_BOOK,     /* its samples are wanted: the same thread calls book */
    SONAR_TURN_WAITS,    /* overload block: it does not fit until the data thread releases a window.
                            The payload must stay valid, and resume must be called until it returns
                            true, before the next frame */
    SONAR_TURN_AGAIN     /* like WAITS, but nothing was decided; begin must be called again with the
                            frame */
} sonar_turn;

/* One message of two parts; now_ns is monotonic. begin, resume, abandon, malformed, tick, load and
 * report are called by one thread at a time, which must have no booking of its own outstanding,
 * because they may wait for all bookings. Any thread may call book, concurrently with all of
 * them. */
sonar_turn sonar_assembler_begin(sonar_assembler *assembler, const void *header,
                                 size_t header_bytes, const sonar_payload *payload, int64_t now_ns,
                                 sonar_booking *booking);
/* False (overload: block only): a window is complete and there is no room for it; resume must be
 * called until it returns true. For a frame that is begun before that, begin returns AGAIN. */
bool sonar_assembler_book(sonar_assembler *assembler, sonar_booking *booking);
bool sonar_assembler_resume(sonar_assembler *assembler);
/* begin and book in one call, for one thread; false: the frame waits. */
bool sonar_assembler_frame(sonar_assembler *assembler, const void *header, size_t header_bytes,
                           const void *payload, size_t payload_bytes, int64_t now_ns);
/* Abandons the waiting frame, if there is one: its samples that are not stored count as late, or
 * the whole frame as overrun. */
void sonar_assembler_abandon(sonar_assembler *assembler);
/* A message whose number of parts is not two. */
void sonar_assembler_malformed(sonar_assembler *assembler);
/* Advances the time: finds silent blocks, and windows that are not offered because the stream has
 * stopped. */
void sonar_assembler_tick(sonar_assembler *assembler, int64_t now_ns);
/* Called when no more frames will come: passes on all windows, complete or not. */
void sonar_assembler_end(sonar_assembler *assembler);
/* Called once a tick. busy: messages were waiting every time the thread looked since the last tick.
 * When overloaded, the assembler drops all frames of some windows, so that others stay complete
 * (overload: drop_oldest; shed.h). */
void sonar_assembler_load(sonar_assembler *assembler, bool busy);

/* Changes which channels are used, from the next window on: [channel], at least one. Any one
 * thread. */
void sonar_assembler_use(sonar_assembler *assembler, const uint8_t *used);

/* State of the stream. read: the last report was read, so the losses in it need not be reported
 * again. */
void sonar_assembler_report(sonar_assembler *assembler, bool read, sonar_ingest_report *report);
/* The last refused frame of each cause. Any thread. */
void sonar_assembler_read_refused(sonar_assembler *assembler,
                                  sonar_refused refused[SONAR_FRAME_CAUSES]);

uint64_t sonar_assembler_ready(const sonar_assembler *assembler); /* any thread */
sonar_buffer sonar_assembler_ring(const sonar_assembler *assembler);

/* Data thread. */
bool sonar_assembler_take(sonar_assembler *assembler, sonar_window *window);
void sonar_assembler_release(sonar_assembler *assembler, const sonar_window *window);

/* Any thread. */
uint64_t sonar_assembler_offered(const sonar_assembler *assembler); /* windows offered so far */
size_t sonar_assembler_waiting(const sonar_assembler *assembler);
void sonar_assembler_read_counters(const sonar_assembler *assembler,
                                   sonar_ingest_counters *counters);

#endif
