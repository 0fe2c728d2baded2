/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Sends sample frames over ZeroMQ as one or several digitisers would, with planned faults. Shared
 * by the simulator and the replay tool. One thread owns a sender.
 */
#ifndef SIM_SENDER_H
#define SIM_SENDER_H

#include <signal.h>
#include <stdio.h>

#include "clock.h"
#include "net/net.h"
#include "scene.h"

/* A receiver of channels: a daemon, or one of the ranks that share the array. */
typedef struct sim_target {
    const char *const *endpoints;
    size_t endpoint_count;
    const char *memory; /* ipc://PATH: samples go through shared memory; NULL: over the sockets */
    size_t first_channel, channels;
    bool idle; /* another sender sends its channels */
} sim_target;

typedef struct sim_sender_spec {
    void *zmq_context;
    const sim_target *target; /* [targets]; together they have all channels, in order, beginning
                                 with the first target's first channel. Read only by create */
    size_t targets;
    const char *key; /* a certificate with the daemon's key, or NULL; read only by create */
    bool curve;      /* the daemon uses CURVE: TCP needs a key */
    bool
        publish; /* an XPUB that binds, for a receiver that subscribes; else a PUSH that connects */
    bool block;  /* waits for a slow receiver; else frames are lost */
    int high_water_mark; /* messages per connection */
    uint32_t array_id;
    size_t channels;
    size_t
        digitisers; /* distributed over the targets as evenly as possible, at least one for each */
    const uint32_t
        *first_channel;   /* [digitisers] first channel of each, relative to the first target's,
                             ascending from 0, including those of the targets; borrowed. Digitisers of
                             a target then share one connection. NULL: as even as possible */
    size_t frame_samples; /* the largest number in one call of send */
    int format, layout;   /* sonar_dtype, SONAR_FRAME_* */
    uint16_t flags;       /* of every frame, SONAR_FRAME_* */
    double fs_hz;
    uint32_t epoch;
    uint64_t first_index;   /* of the stream */
    int64_t utc_ns;         /* of sample first_index; 0 = unknown */
    uint64_t seed;          /* of random faults */
    const sim_fault *fault; /* borrowed */
    size_t faults;
    const double *fault_rate;          /* [SIM_FAULT_KINDS] or NULL; borrowed */
    const volatile sig_atomic_t *stop; /* not NULL: waiting ends when it is set */
    /* Takes every frame in place of sockets, which are not opened then; NULL: sockets. */
    sonar_code (*deliver)(void *ctx, const void *header, size_t header_bytes, const void *payload,
                          size_t payload_bytes, sonar_error *err);
    void *deliver_ctx;
} sim_sender_spec;

/* What was sent. Messages: sent = frames + repeat - drop - overflow. Every frame of every digitiser
 * has one kind; good frames are SIM_FAULT_NONE. */
typedef struct sim_counters {
    uint64_t frames;                /* frames made, over all digitisers */
    uint64_t messages;              /* handed to a socket */
    uint64_t kind[SIM_FAULT_KINDS]; /* frames by kind, whether or not they overflowed */
    uint64_t overflow;              /* messages lost because the receiver was too slow */
    uint64_t saturated;             /* samples */
    uint64_t samples;               /* per channel */
    int64_t waited_ns;              /* time spent waiting for a slow receiver */
} sim_counters;

typedef struct sim_sender sim_sender;

/* Opens the sockets. */
sonar_code sim_sender_create(const sim_sender_spec *spec, sim_sender **sender, sonar_error *err);
/* Waits until every connection has a receiver; SONAR_EUNAVAILABLE when stopped or after timeout_ms
 * (-1: no limit). */
sonar_code sim_sender_wait(sim_sender *sender, int timeout_ms, sonar_error *err);
/* For a stream that begins only when its receiver exists. */
void sim_sender_set_utc(sim_sender *sender, int64_t utc_ns);
/* Sends one frame of every digitiser from counts[channel][samples], which continue the samples sent
 * before. */
sonar_code sim_sender_send(sim_sender *sender, const float *counts, size_t samples,
                           sonar_error *err);
/* Sets the next sample's index in this stream, or in a new one with the next epoch. */
void sim_sender_seek(sim_sender *sender, bool new_stream, uint64_t index, int64_t utc_ns,
                     uint16_t flags);
/* Like send, but without the digitisers marked in absent[digitiser]; NULL: none. */
sonar_code sim_sender_send_some(sim_sender *sender, const float *counts, size_t samples,
                                const uint8_t *absent, sonar_error *err);
/* Sends all channels in one frame, which a receiver can adopt at once. */
sonar_code sim_sender_send_whole(sim_sender *sender, const float *counts, size_t samples,
                                 sonar_error *err);
uint32_t sim_sender_epoch(const sim_sender *sender);
/* Sends the frame that a reorder fault held back. */
sonar_code sim_sender_flush(sim_sender *sender, sonar_error *err);
/* Closes the sockets; queued messages are sent for up to linger_ms. Messages that the receiver has
 * not read by then are lost if it holds its senders back, unless the connections are held
 * before. */
void sim_sender_destroy(sim_sender *sender, int linger_ms);
void sim_sender_hold(const sim_sender *sender, sonar_held *held);
/* Counters of all targets together. */
const sim_counters *sim_sender_counters(sim_sender *sender);
/* Counters of one target; members that apply only to all targets, samples and waited_ns, are 0. */
const sim_counters *sim_sender_target_counters(const sim_sender *sender, size_t target);
/* Writes the counters and how the pace was kept as one JSON object; of_rank: [ranks] the same for
 * each rank, if there are several. */
void sim_counters_write(const sim_counters *counters, const sim_lag *lag, size_t ranks,
                        const sim_counters *const of_rank[], FILE *to);

/* Rounds (ties to even) and saturates counts into little-endian samples of `format`, `stride`
 * samples apart at `to`. Returns the number of saturated values. */
size_t sim_convert(const float *counts, size_t samples, int format, size_t stride, uint8_t *to);

#endif
