/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Ingest: receives frames of one or several digitisers over ZeroMQ and offers windows of all
 * channels.
 *
 * Ingest owns the socket and the sample ring [channel][capacity]. Its threads, one or several,
 * share the socket and take turns at it; what they book and offer does not depend on how many they
 * are. Every frame is stored by its sample index. Ingest offers a window when the window is
 * complete, and an incomplete window when the newest sample is max_skew ahead of its end, or when
 * the newest sample has reached its end and nothing was accepted for restart_after_ms. The samples
 * of an offered window are frozen: samples that arrive for them afterwards are late. The data
 * thread takes windows, reads them in the ring together with the `lookback` samples before them,
 * and releases them. Window k of a stream covers [first, first + N), first a multiple of H; the
 * index `window` counts on over restarts of the stream.
 *
 * Timeline: the first valid frame fixes epoch and position. A frame of another epoch, or more than
 * the ring ahead, is adopted at once if its block is the whole array, otherwise when nothing was
 * accepted for restart_after_ms; until then it is counted (wrong_epoch, ahead).
 *
 * If all frames have been late and nothing was accepted for restart_after_ms, a frame is adopted as
 * well: a wrong index must not stop the stream for longer.
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
    void *zmq_context;
    struct sonar_memory *memory; /* net/net.h, watched if not NULL; borrowed until destroy */
    const struct sonar_security *security; /* net/net.h, the same; NULL: in the clear */
    struct sonar_segments *segments;       /* net/shared.h, the same; NULL: no shared memory */
    uint64_t io_threads;          /* of libzmq that serve it, as ZMQ_AFFINITY has them; 0: any */
    const char *const *endpoints; /* PULL binds them, SUB connects to them */
    size_t endpoint_count;
    sonar_socket_kind socket;
    int high_water_mark; /* messages per peer, > 0 */
    size_t max_message_bytes;
    uint32_t array_id;
    size_t first_channel, channels; /* the block of the array's channels that comes here; all
                                       other numbers of channels count from its first */
    const uint8_t *channel_used; /* [channel]; gaps in unused ones do not count. NULL: all used */
    double fs_hz;
    size_t window_length, hop; /* N, H */
    size_t lookback; /* samples before a window that the ring keeps for as long as the window */
    size_t queue_windows; /* windows that may wait for the data thread, >= 1 */
    sonar_overload overload;
    double max_missing_share; /* a window above it is dropped and counted */
    size_t max_skew_samples;  /* how far the newest sample may run ahead of a gap */
    int restart_after_ms, silent_after_ms;
    int cpu;        /* processor for the first of its threads, -1 any */
    size_t threads; /* that receive and book frames; 0 is 1 */
    /* SONAR_S16: the ring keeps 16-bit samples as they come, other frames are wrong_type. Anything
     * else: every type is accepted, the ring holds f32. */
    sonar_dtype sample_type;
    float most_sample; /* f32 samples of a larger magnitude are out_of_range, unless the frame has
                        counts; 0: any that is finite */
    bool drop_spikes;  /* frames with a sample that no sound makes are out_of_range, too */
    void *ring; /* [channel][sonar_ingest_capacity] zeroed, borrowed until destroy; NULL: ingest
                   allocates it */
    size_t chunk_samples; /* wake the data thread at every so many complete samples; 0: never */
    const sonar_stretch_sink *sink; /* gets every sample, too; borrowed until destroy; NULL: none */
} sonar_ingest_spec;

typedef struct sonar_ingest sonar_ingest;

/* Samples a channel that the ring of this spec holds; 0 if it cannot be. */
size_t sonar_ingest_capacity(const sonar_ingest_spec *spec);

/* Allocates everything. start opens the sockets and hands them to the new thread (SONAR_ESYS with
 * the endpoint in `where` if one cannot be opened). */
sonar_code sonar_ingest_create(const sonar_ingest_spec *spec, const sonar_host *host,
                               sonar_ingest **ingest, sonar_error *err);
sonar_code sonar_ingest_start(sonar_ingest *ingest, sonar_error *err);
/* Stops receiving and joins the thread; windows already offered can still be taken. */
void sonar_ingest_stop(sonar_ingest *ingest);
void sonar_ingest_destroy(sonar_ingest *ingest);

/* An eventfd that is readable when a window waits or a chunk is complete (data thread). */
int sonar_ingest_fd(const sonar_ingest *ingest);
bool sonar_ingest_take(sonar_ingest *ingest, sonar_window *window); /* data thread; false: none */
bool sonar_ingest_waiting(const sonar_ingest *ingest); /* data thread; there is one to be taken */
void sonar_ingest_release(sonar_ingest *ingest, const sonar_window *window); /* data thread */
/* All used channels' samples at positions below are there, but for the gaps of windows that say so,
 * and stay unchanged for as long as the ring holds them. Moves in chunks; 0 without. Data thread.
 */
uint64_t sonar_ingest_ready(const sonar_ingest *ingest);
sonar_buffer sonar_ingest_ring(const sonar_ingest *ingest); /* f32 or s16 [channel][capacity] */
/* Other channels are used, as channel_used of the spec, from the next window on. Any one thread. */
void sonar_ingest_use(sonar_ingest *ingest, const uint8_t *channel_used);
/* Any thread: ends all connections within 0.1 s; whoever may still connect comes back. */
void sonar_ingest_cut_all(sonar_ingest *ingest);
/* Any thread. False once the thread has ended, stopped or by itself because its socket failed. */
bool sonar_ingest_alive(const sonar_ingest *ingest);
void sonar_ingest_read_counters(const sonar_ingest *ingest, sonar_ingest_counters *counters);
/* State of the stream at most 0.1 s ago, the last refused frames now; each loss is reported once.
 * Any one thread. */
void sonar_ingest_read_report(sonar_ingest *ingest, sonar_ingest_report *report);

#endif
