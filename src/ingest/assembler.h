/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Assembler: takes frames and offers windows; it has no socket and no clock, so that every rule can
 * be tested to the sample. The ingest thread calls all functions but take and release. It accounts
 * for every frame itself and in order; only the copying of samples is shared among spec.threads
 * threads and may be deferred, at most until a window is offered, `ready` advances, a frame has to
 * wait, or settle is called. What other threads see does not depend on the number of threads.
 *
 * Glossary
 *   position      where a sample lies in the ring's endless coordinate, which grows over restarts
 * of the stream; the ring's column is position mod capacity timeline   one count of sample indices:
 * from one adoption to the next frozen     below this position nothing is stored any more: it is
 * late
 */
#ifndef SONAR_ASSEMBLER_H
#define SONAR_ASSEMBLER_H

#include "ingest/window_queue.h"

typedef struct sonar_assembler sonar_assembler;

/* Takes what it needs of the spec; sockets and threads do not matter here. */
sonar_code sonar_assembler_create(const sonar_ingest_spec *spec, sonar_assembler **assembler,
                                  sonar_error *err);
void sonar_assembler_destroy(sonar_assembler *assembler);

/* One message of two parts. Returns false if its samples do not fit until the data thread releases
 * a window (overload: block only): then the payload must stay, and resume is to be called until it
 * returns true before the next frame. With several threads the payload is borrowed until settle.
 * now_ns is monotonic. */
bool sonar_assembler_frame(sonar_assembler *assembler, const void *header, size_t header_bytes,
                           const void *payload, size_t payload_bytes, int64_t now_ns);
bool sonar_assembler_resume(sonar_assembler *assembler);
/* Does the deferred copies. */
void sonar_assembler_settle(sonar_assembler *assembler);
/* Gives up the frame that waits, if one does: what is not stored of it counts as late, or the whole
 * as overrun. */
void sonar_assembler_abandon(sonar_assembler *assembler);
/* A message that has not two parts. */
void sonar_assembler_malformed(sonar_assembler *assembler);
/* Lets time pass: which blocks are silent? Has the stream stopped with windows not offered? */
void sonar_assembler_tick(sonar_assembler *assembler, int64_t now_ns);
/* Once a tick: whether messages waited whenever the thread looked since the last one. Overloaded,
 * the assembler gives up all frames of some windows, so that others stay whole (overload:
 * drop_oldest; shed.h). */
void sonar_assembler_load(sonar_assembler *assembler, bool busy);

/* Other channels count: [channel], one used at least; from the next window on. Any one thread. */
void sonar_assembler_use(sonar_assembler *assembler, const uint8_t *used);

/* State of the stream. read: the last report was read, so its losses need not be reported again. */
void sonar_assembler_report(sonar_assembler *assembler, bool read, sonar_ingest_report *report);

uint64_t sonar_assembler_ready(const sonar_assembler *assembler); /* any thread */
sonar_buffer sonar_assembler_ring(const sonar_assembler *assembler);
size_t sonar_assembler_capacity(const sonar_assembler *assembler); /* samples a channel */

/* Data thread. */
bool sonar_assembler_take(sonar_assembler *assembler, sonar_window *window);
void sonar_assembler_release(sonar_assembler *assembler, const sonar_window *window);

/* Any thread. */
uint64_t sonar_assembler_offered(const sonar_assembler *assembler); /* windows, so far */
size_t sonar_assembler_waiting(const sonar_assembler *assembler);
void sonar_assembler_read_counters(const sonar_assembler *assembler,
                                   sonar_ingest_counters *counters);

#endif
