/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What sonar-sim and sonar-replay share: options, the daemon's configuration, and a stream of
 * frames. The stream keeps its pace, or the daemon's, reports when it cannot, and ends with a
 * summary. One thread.
 */
#ifndef SIM_STREAM_H
#define SIM_STREAM_H

#include "clock.h"
#include "feedback.h"
#include "options.h"
#include "receiver.h"
#include "sender.h"

enum { SIM_STREAM_FAILED = 1, SIM_STREAM_WRONG_USAGE = 2 }; /* exit codes */

/* The first member of a tool's own options; the offsets in its table are relative to it. */
typedef struct sim_stream_options {
    const char *config, *endpoint, *key, *summary;
    double rate;                        /* 0: as fast as the receiver */
    bool shared;                        /* samples go through shared memory */
    bool live;                          /* the samples have a pace of their own */
    bool wait;                          /* waits for a slow receiver, instead of losing frames */
    uint64_t epoch;                     /* 0: not given */
    uint64_t digitisers, frame_samples; /* 0: not given */
    uint64_t ranks; /* number of ranks that share the array; 0: from the configuration */
    uint64_t rank;  /* UINT64_MAX: not given, the channels of all ranks are sent */
    int format;     /* sonar_dtype, 0: not given */
} sim_stream_options;

tool_answer sim_take_endpoint(void *options, const char *value);
tool_answer sim_take_rate(void *options, const char *value);
tool_answer sim_take_format(void *options, const char *value);

/* Rows for a tool's table. */
#define SIM_STREAM_OPTIONS                                                                         \
    {"config", 'c', TOOL_TEXT, offsetof(sim_stream_options, config), 0, 0, NULL, NULL},            \
        {"endpoint", 0, TOOL_OTHER, 0, 0, 0, sim_take_endpoint, "tcp://HOST:PORT or ipc://PATH"},  \
        {"key", 'k', TOOL_TEXT, offsetof(sim_stream_options, key), 0, 0, NULL, NULL},              \
        {"summary", 0, TOOL_TEXT, offsetof(sim_stream_options, summary), 0, 0, NULL, NULL},        \
        {"rate", 0, TOOL_OTHER, 0, 0, 0, sim_take_rate, "realtime, max or a factor such as 0.5"},  \
        {"wait", 0, TOOL_FLAG, offsetof(sim_stream_options, wait), 0, 0, NULL, NULL},              \
        {"shared-memory", 0, TOOL_FLAG, offsetof(sim_stream_options, shared), 0, 0, NULL, NULL},   \
        {"epoch", 0,          TOOL_WHOLE, offsetof(sim_stream_options, epoch),                     \
         1,       UINT32_MAX, NULL,       "a whole number from 1 to 4294967295"},                  \
        {"digitisers",                                                                             \
         0,                                                                                        \
         TOOL_WHOLE,                                                                               \
         offsetof(sim_stream_options, digitisers),                                                 \
         1,                                                                                        \
         65535,                                                                                    \
         NULL,                                                                                     \
         "a whole number from 1 to 65535"},                                                        \
        {"frame-samples",                                                                          \
         0,                                                                                        \
         TOOL_WHOLE,                                                                               \
         offsetof(sim_stream_options, frame_samples),                                              \
         1,                                                                                        \
         SONAR_FRAME_MAX_SAMPLES,                                                                  \
         NULL,                                                                                     \
         "a whole number from 1 to 1048576"},                                                      \
        {"ranks",    0,                                                                            \
         TOOL_WHOLE, offsetof(sim_stream_options, ranks),                                          \
         1,          SONAR_RANKS_MOST,                                                             \
         NULL,       "a whole number from 1 to 64"},                                               \
        {"rank",     0,                                                                            \
         TOOL_WHOLE, offsetof(sim_stream_options, rank),                                           \
         0,          SONAR_RANKS_MOST - 1,                                                         \
         NULL,       "a whole number from 0 to 63"},                                               \
    {                                                                                              \
        "format", 0, TOOL_OTHER, 0, 0, 0, sim_take_format, "s16, s24, s32 or f32"                  \
    }

typedef struct sim_stream {
    const char *tool; /* the tool's name, for messages */
    const sim_stream_options *options;
    const sonar_config *config; /* NULL: no configuration */
    const volatile sig_atomic_t *stop;
    /* owned */
    void *zmq;
    FILE *summary;
    sim_sender *sender;
    size_t ranks;             /* number of ranks that the sender has as targets */
    size_t of_rank, of_ranks; /* set before connect: only the channels of this rank are sent, of
                                 this number of ranks; 0: all channels */
    sim_feedback *feedback;   /* NULL: the daemon's pace is not followed */
    sim_receiver *receiver;   /* NULL: the receiver cannot be identified */
    char endpoint[160];       /* the first endpoint that it connects to */
    sim_pace pace;
    sim_lag lag;
    uint64_t first_index;
    int64_t waited_ns; /* time spent waiting for the receiver so far */
} sim_stream;

/* Reads a configuration as the daemon does; mistakes are printed on stderr. */
bool sim_load_config(const char *path, sonar_config **config);
/* Prints the error and returns the exit code. */
int sim_complain(const char *tool, const sonar_error *err);

/* The epoch from the options, or else from the current time. */
uint32_t sim_stream_epoch(const sim_stream_options *options);
/* Opens the files that are needed at the end, so that a long run does not end without its
 * summary. */
sonar_code sim_stream_open(sim_stream *stream, sonar_error *err);
/* Number of ranks that share the array; that of cluster.ranks if the options do not give it. */
size_t sim_stream_ranks(const sim_stream *stream);
/* Connects to the receiver, or with several ranks to each of them. `about` has what the options and
 * the configuration do not have: channels, digitisers, frame_samples, format, layout, fs_hz,
 * array_id and faults. */
sonar_code sim_stream_connect(sim_stream *stream, const sim_sender_spec *about, sonar_error *err);
/* Waits for a receiver, prints its array and starts the clock. SONAR_EUNAVAILABLE: stopped before;
 * SONAR_EINVAL: the daemon has another configuration. */
sonar_code sim_stream_begin(sim_stream *stream, sonar_error *err);
/* Sends counts[channel][samples] when their time has come. False: stopped or failed. */
bool sim_stream_send(sim_stream *stream, const float *counts, size_t samples, sonar_error *err);
/* Sets the next sample's index, like sim_sender_seek. If the daemon's pace is followed, all earlier
 * windows are finished on return. */
void sim_stream_seek(sim_stream *stream, bool new_stream, uint64_t index, int64_t utc_ns,
                     uint16_t flags);
/* Like send. whole: all channels in one frame; else without the digitisers marked absent. */
bool sim_stream_send_some(sim_stream *stream, const float *counts, size_t samples,
                          const uint8_t *absent, bool whole, sonar_error *err);
/* Writes the summary; prints losses and lags on stderr. */
void sim_stream_summarise(const sim_stream *stream, const sim_counters *counters);
/* Closes the stream. If it was connected, writes the summary after a daemon whose pace is followed
 * has processed all samples. Messages in the sockets are sent for up to linger_ms. */
void sim_stream_close(sim_stream *stream, int linger_ms);

#endif
