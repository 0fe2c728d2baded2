/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Ingest: receives frames of one or several digitisers over ZeroMQ and offers windows of all
 * channels.
 *
 * Ingest owns the socket and the sample ring [channel][capacity]. Its threads, one or several, take
 * turns at the socket; what they book and offer does not depend on their number. Every frame is
 * stored by its sample index. Ingest offers a window when the window is complete, and an incomplete
 * window when the newest sample is max_skew ahead of its end, or when the newest sample has reached
 * its end and nothing was accepted for restart_after_ms. The samples of an offered window are
 * frozen: samples that arrive for them afterwards are late. The data thread takes windows, reads
 * them in the ring together with the `lookback` samples before them, and releases them. Window k of
 * a stream covers [first, first + N), first a multiple of H; the index `window` counts on over
 * restarts of the stream.
 *
 * Timeline: the first valid frame fixes epoch and position. A frame of another epoch, or more than
 * the ring ahead, is adopted at once if its block is the whole array, otherwise when nothing was
 * accepted for restart_after_ms; until then it is counted (wrong_epoch, ahead).
 *
 * A frame is also adopted if all frames have been late and nothing was accepted for
 * restart_after_ms, so that a wrong index does not stop the stream for longer.
 *
 * Accounting: every message received is counted once, accepted or dropped by one cause; every
 * channel-sample of an accepted frame is stored, repeated or late. Windows: offered = taken +
 * dropped for overload + waiting; those counted missing or skipped were never offered.
 */
#ifndef SONAR_INGEST_H
#define SONAR_INGEST_H

#include "sonar/sonar.h"

#include "status/result.h"
#include "core/stretch.h"
#include "core/window.h"

typedef enum sonar_overload { SONAR_DROP_OLDEST = 0, SONAR_BLOCK } sonar_overload;
typedef enum sonar_socket_kind { SONAR_PULL = 0, SONAR_SUB } sonar_socket_kind;

enum { SONAR_INGEST_THREADS_MOST = 64 };

typedef struct sonar_ingest_spec {
    bool fed; /* frames come by sonar_ingest_feed: no socket is opened and no thread started */
    void *zmq_context;
    struct sonar_memory *memory; /* net/net.h, watched if not NULL; borrowed until destroy */
    const struct sonar_security
        *security; /* of net/net.h, borrowed until destroy; NULL: unencrypted */
    struct sonar_segments
        *segments; /* of net/shared.h, borrowed until destroy; NULL: no shared memory */
    uint64_t
        io_threads; /* mask of libzmq's I/O threads that serve it, as in ZMQ_AFFINITY; 0: any */
    const char *const *endpoints; /* PULL binds them, SUB connects to them */
    size_t endpoint_count;
    sonar_socket_kind socket;
    int high_water_mark; /* messages per peer, > 0 */
    size_t max_message_bytes;
    uint32_t array_id;
    size_t first_channel, channels; /* first channel of the array that comes here; all other channel
                                       numbers count from it */
    const uint8_t *channel_used; /* [channel]; gaps in unused ones do not count. NULL: all used */
    double fs_hz;
    size_t window_length, hop; /* N, H */
    size_t lookback; /* samples before a window that the ring keeps as long as the window itself */
    size_t queue_windows; /* windows that may wait for the data thread, >= 1 */
    sonar_overload overload;
    double max_missing_share; /* a window with a larger share is dropped and counted */
    size_t max_skew_samples;  /* how far the newest sample may run ahead of a gap */
    int restart_after_ms, silent_after_ms;
    int cpu;        /* processor of its first thread, -1: any */
    size_t threads; /* threads that receive and book frames; 0 means 1 */
    /* SONAR_S16: the ring keeps 16-bit samples as they come, other frames are wrong_type. Anything
     * else: every type is accepted, the ring holds f32. */
    sonar_dtype sample_type;
    float most_sample; /* f32 samples of a larger magnitude are out_of_range, except in frames of
                          counts; 0: any finite value is accepted */
    bool drop_spikes;  /* also drops frames with a sample that no sound can produce, as out_of_range
                        */
    void *ring; /* [channel][sonar_ingest_capacity] zeroed, borrowed until destroy; NULL: ingest
                   allocates it */
    size_t chunk_samples; /* wakes the data thread each time this many samples are complete; 0:
                             never */
    const sonar_stretch_sink
        *sink; /* also receives every sample; borrowed until destroy; NULL: none */
} sonar_ingest_spec;

typedef struct sonar_ingest sonar_ingest;

/* Samples per channel of the ring for this spec; 0 if that cannot be allocated. */
size_t sonar_ingest_capacity(const sonar_ingest_spec *spec);

/* Allocates everything. start opens the sockets and hands them to the new thread (SONAR_ESYS with
 * the endpoint in `where` if one cannot be opened). */
sonar_code sonar_ingest_create(const sonar_ingest_spec *spec, const sonar_host *host,
                               sonar_ingest **ingest, sonar_error *err);
sonar_code sonar_ingest_start(sonar_ingest *ingest, sonar_error *err);
/* Stops receiving and joins the thread; windows already offered can still be taken. */
void sonar_ingest_stop(sonar_ingest *ingest);
void sonar_ingest_destroy(sonar_ingest *ingest);

/* Of a spec that is fed; called by one thread. Takes a frame as a message would bring it, header
 * and payload. False: with `block` there is no room for it yet, and nothing was released within
 * timeout_ms; the same frame has to be given again, until it is taken, before another. */
bool sonar_ingest_feed(sonar_ingest *ingest, const void *header, size_t header_bytes,
                       const void *payload, size_t payload_bytes, int timeout_ms);
/* The same. No frame follows: offers the windows that still wait for missing samples, as after a
 * silence of restart_after_ms. False: some have no room yet; to be called again. */
bool sonar_ingest_finish(sonar_ingest *ingest, int timeout_ms);

/* An eventfd that is readable when a window waits or a chunk is complete (data thread). */
int sonar_ingest_fd(const sonar_ingest *ingest);
bool sonar_ingest_take(sonar_ingest *ingest, sonar_window *window); /* data thread; false: none */
bool sonar_ingest_waiting(
    const sonar_ingest *ingest); /* data thread; true if a window can be taken */
void sonar_ingest_release(sonar_ingest *ingest, const sonar_window *window); /* data thread */
/* Below this position all samples of used channels are present, except for the gaps that windows
 * report, and they do not change as long as the ring holds them. Advances in chunks; 0 without
 * chunks. Data thread. */
uint64_t sonar_ingest_ready(const sonar_ingest *ingest);
sonar_buffer sonar_ingest_ring(const sonar_ingest *ingest); /* f32 or s16 [channel][capacity] */
/* Changes which channels are used, as spec.channel_used, from the next window on. Any one thread.
 */
void sonar_ingest_use(sonar_ingest *ingest, const uint8_t *channel_used);
/* Any thread: ends all connections within 0.1 s. Peers that are still allowed reconnect. */
void sonar_ingest_cut_all(sonar_ingest *ingest);
/* Any thread. False once the thread has ended, either because it was stopped or because its socket
 * failed. */
bool sonar_ingest_alive(const sonar_ingest *ingest);
void sonar_ingest_read_counters(const sonar_ingest *ingest, sonar_ingest_counters *counters);
/* State of the stream at most 0.1 s ago; the last refused frames are those of now. Each loss is
 * reported once. Any one thread. */
void sonar_ingest_read_report(sonar_ingest *ingest, sonar_ingest_report *report);

#endif
