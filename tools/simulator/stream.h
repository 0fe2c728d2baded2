/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What sonar-sim and sonar-replay share: options, the daemon's configuration, and a stream of
 * frames that keeps its pace, or the daemon's, says when it cannot, and ends with a summary. One
 * thread.
 */
#ifndef SIM_STREAM_H
#define SIM_STREAM_H

#include "clock.h"
#include "feedback.h"
#include "options.h"
#include "receiver.h"
#include "sender.h"

enum { SIM_STREAM_FAILED = 1, SIM_STREAM_WRONG_USAGE = 2 }; /* exit codes */

/* The first member of a tool's own options, which is what its table's offsets count from. */
typedef struct sim_stream_options {
    const char *config, *endpoint, *key, *summary;
    double rate;                        /* 0: as fast as the receiver takes it */
    bool shared;                        /* samples go through shared memory */
    bool wait;                          /* for a slow receiver, instead of losing frames */
    uint64_t epoch;                     /* 0: not given */
    uint64_t digitisers, frame_samples; /* 0: not given */
    uint64_t ranks;                     /* that share the array; 0: as the configuration says */
    uint64_t rank;                      /* UINT64_MAX: not given, all ranks' channels are sent */
    int format;                         /* sonar_dtype, 0: not given */
} sim_stream_options;

tool_answer sim_take_endpoint(void *options, const char *value);
tool_answer sim_take_rate(void *options, const char *value);
tool_answer sim_take_format(void *options, const char *value);

/* Rows of a tool's table. */
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
    const char *tool; /* its name, for messages */
    const sim_stream_options *options;
    const sonar_config *config; /* NULL: there is none */
    const volatile sig_atomic_t *stop;
    /* its own */
    void *zmq;
    FILE *summary;
    sim_sender *sender;
    size_t ranks;             /* that the sender has as targets */
    size_t of_rank, of_ranks; /* set before connect: only this rank's channels are sent, of this
                                 number of ranks; 0: all channels */
    sim_feedback *feedback;   /* NULL: the daemon's pace is not looked at */
    sim_receiver *receiver;   /* NULL: nothing tells whose daemon it is */
    char endpoint[160];       /* the first that it connects to */
    sim_pace pace;
    sim_lag lag;
    uint64_t first_index;
    int64_t waited_ns; /* for the receiver, so far */
} sim_stream;

/* Reads a configuration as the daemon does; what is wrong with it goes to stderr. */
bool sim_load_config(const char *path, sonar_config **config);
/* Says what failed; the exit code. */
int sim_complain(const char *tool, const sonar_error *err);

/* That of the options, else of the time now. */
uint32_t sim_stream_epoch(const sim_stream_options *options);
/* Opens what the end needs, so that no long run ends without its summary. */
sonar_code sim_stream_open(sim_stream *stream, sonar_error *err);
/* Ranks that share the array; those of cluster.ranks if the options do not say. */
size_t sim_stream_ranks(const sim_stream *stream);
/* Connects to the receiver, or with several ranks to each of them. `about` says what the options
 * and the configuration do not: channels, digitisers, frame_samples, format, layout, fs_hz,
 * array_id and faults. */
sonar_code sim_stream_connect(sim_stream *stream, const sim_sender_spec *about, sonar_error *err);
/* Waits for a receiver, says whose it is and starts the clock; SONAR_EUNAVAILABLE: stopped before,
 * SONAR_EINVAL: it is another configuration's daemon. */
sonar_code sim_stream_begin(sim_stream *stream, sonar_error *err);
/* Sends counts[channel][samples] when their time has come; false: stopped or failed. */
bool sim_stream_send(sim_stream *stream, const float *counts, size_t samples, sonar_error *err);
/* The next sample is this one: see sim_sender_seek. Of what was sent before, nothing is under way
 * then at a daemon that is listened to. */
void sim_stream_seek(sim_stream *stream, bool new_stream, uint64_t index, int64_t utc_ns,
                     uint16_t flags);
/* As send; whole: all in one frame, else without the digitisers that are absent. */
bool sim_stream_send_some(sim_stream *stream, const float *counts, size_t samples,
                          const uint8_t *absent, bool whole, sonar_error *err);
/* Writes the summary, and in words to stderr what went wrong. */
void sim_stream_summarise(const sim_stream *stream, const sim_counters *counters);
/* Closes, with the summary if it was connected, once a daemon that is listened to has dealt with
 * what it was sent; what the sockets hold is sent for up to linger_ms. */
void sim_stream_close(sim_stream *stream, int linger_ms);

#endif
