/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * `sonar-bench live`: a real sonard process, or several of them that share the array under mpirun,
 * fed over ZeroMQ by sender processes that send prepared frames at the pace of digitisers, and
 * observed by a subscriber. All processes are on one machine with one monotonic clock: a sender
 * sends frame k of n samples at start + (k + 1) n / fs, the time of its last sample, so the latency
 * of a window is known to the clock's resolution.
 *
 * Glossary
 *   due        time of a window's last sample
 *   received   of a window: all subscribed topics have come
 *   lateness   of a frame: time from its due time to the begin of sending
 *   held       a run in which, after the warm-up, no window was lost or had samples missing and no
 *              sender fell behind
 */
#ifndef LIVE_H
#define LIVE_H

#include <signal.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "bench.h"
#include "config/config.h"

enum { LIVE_SENDERS_MOST = 256, LIVE_SETTINGS_MOST = 64, LIVE_THREADS_MOST = 1024 };

/* A built-in case. */
typedef struct live_case {
    const char *name, *about;
    size_t sensors, length, hop, queue_windows;
    double fs_hz;
    size_t first_bin, last_bin;
    double warm_up_s; /* fills the daemon's ring once, while its memory for messages grows */
    bool everything;  /* all default results of the daemon; else only the far field */
    double goal_gpu, goal_cpu; /* latency: p50 in ms; throughput: sensors of a rank; 0: none */
    double goal_gpu_shm;       /* the same as goal_gpu through shared memory */
    bool latency;              /* a latency case; else throughput */
} live_case;

/* How samples and results are carried between processes. */
typedef enum live_transport {
    LIVE_SOCKETS = 0, /* ipc */
    LIVE_SHM,         /* the same, with the samples in shared memory */
    LIVE_TCP,         /* over loopback */
    LIVE_CURVE,       /* the same, encrypted */
    LIVE_TRANSPORTS
} live_transport;

extern const char *const live_transport_name[LIVE_TRANSPORTS];

/* One run. */
typedef struct live_plan {
    const live_case *of;
    size_t sensors;
    size_t senders, frame_samples; /* 0: by the size */
    int layout;                    /* SONAR_FRAME_* */
    live_transport transport;
    double warm_up_s, seconds;
    bool trial; /* a trial of a search, not the measurement */
    const char *daemon, *backend;
    size_t ranks;       /* processes of the daemon; more than 1: under mpirun */
    const char *mpirun; /* the command with its options */
    size_t threads;
    const char *const *setting; /* "ingest.high_water_mark=128", overrides the case's options */
    size_t settings;
    const volatile sig_atomic_t *stop;
} live_plan;

/* ---- the configuration ----------------------------------------------------------------------- */

/* Writes the daemon's configuration for a plan to `path`, with its ipc endpoints and keys in `dir`.
 * The run subscribes to its output.topics. SONAR_EINVAL if the daemon would refuse it (the mistakes
 * go to standard error), or if it enables a stage that none of these topics needs. */
sonar_code live_config_write(const live_plan *plan, const char *dir, const char *path,
                             sonar_config **config, sonar_error *err);
/* Name in `dir` of the certificate of senders and subscriber, for LIVE_CURVE. */
#define LIVE_CLIENT "client.key_secret"

/* ---- senders --------------------------------------------------------------------------------- */

/* A sender's counters, in memory shared with it. */
typedef struct live_sender_state {
    _Atomic uint64_t frames,
        blocked;                 /* sent; of these, frames for which the socket first had no room */
    _Atomic int64_t blocked_ns;  /* time spent waiting for room */
    _Atomic int64_t lateness_ns; /* of the last frame */
    _Atomic int64_t cpu_ns;
    int64_t *frame_lateness_ns; /* [frames planned], shared as well */
} live_sender_state;

/* The stream that all senders send, each its block of channels. */
typedef struct live_stream {
    const sonar_config *config;
    size_t ranks;                   /* of the daemon */
    sonar_config_part *const *part; /* [ranks] each rank's channels and endpoints */
    const char *key;                /* path of the senders' certificate; NULL: unencrypted */
    size_t senders, frame_samples;
    int layout;
    uint64_t frames; /* number of frames of each sender */
    uint32_t epoch;
    double tone_hz;                  /* a plane wave over white noise, */
    size_t tone_direction;           /* from this direction of the scan, */
    size_t tone_frames, tone_cycles; /* tone_cycles cycles in tone_frames frames */
} live_stream;

typedef struct live_senders live_senders;

size_t live_default_senders(size_t channels); /* of a rank */
size_t live_default_frame_samples(size_t channels_of_sender, size_t hop);
/* Chooses a direction, and a frequency in the middle of the band that fits the frames. */
void live_stream_choose_tone(live_stream *stream);

/* Starts the processes, which prepare their samples and connect. No thread may run yet. */
sonar_code live_senders_start(const live_stream *stream, live_senders **senders, sonar_error *err);
/* Waits up to timeout_ms for another sender to be prepared and connected; true when all are. */
bool live_senders_ready(live_senders *senders, int timeout_ms);
/* Sample 0 begins at start_ns (monotonic), which is utc_ns. */
void live_senders_begin(live_senders *senders, int64_t start_ns, int64_t utc_ns);
/* SONAR_ESTATE if a sender ended without being asked or with an error. *running: number of running
 * senders. */
sonar_code live_senders_check(live_senders *senders, size_t *running, sonar_error *err);
/* Time at now_ns since the oldest unsent frame was due; 0: no frame is due. */
int64_t live_senders_behind_ns(const live_senders *senders, int64_t now_ns);
void live_senders_stop(live_senders *senders);
const live_sender_state *live_sender(const live_senders *senders, size_t index);
/* Ends all processes that still run; NULL is allowed. */
void live_senders_destroy(live_senders *senders);

/* ---- the daemon ------------------------------------------------------------------------------ */

typedef struct live_daemon {
    pid_t pid; /* of mpirun where there are ranks */
    bool running;
    int status;     /* from waitpid, after it has ended */
    char log[4096]; /* path */
    size_t ranks;   /* 0: pid is the daemon itself, or the ranks are not known yet */
    pid_t rank[SONAR_RANKS_MOST];
} live_daemon;

/* Processor time so far, by thread. */
typedef struct live_usage {
    int64_t at_ns;
    double cpu_s, machine_busy_s, machine_all_s;
    size_t threads;
    struct {
        int id;
        char name[32];
        double cpu_s;
    } thread[LIVE_THREADS_MOST];
} live_usage;

/* SONAR_OK if `path` is a program. */
sonar_code live_daemon_find(const char *path, sonar_error *err);
sonar_code live_daemon_start(const live_plan *plan, const char *config, live_daemon *daemon,
                             sonar_error *err);
/* Finds the ranks that mpirun has started. SONAR_ESTATE if their number is not `ranks`. */
sonar_code live_daemon_find_ranks(live_daemon *daemon, size_t ranks, sonar_error *err);
/* SONAR_ESTATE with the end of its log if it has ended. */
sonar_code live_daemon_check(live_daemon *daemon, sonar_error *err);
/* Whether it ended with exit code 0, by itself or on request. */
bool live_daemon_ended_well(const live_daemon *daemon);
/* Signals all its ranks directly: mpirun itself would give them only a second. */
void live_daemon_ask_to_stop(const live_daemon *daemon);
/* Waits up to timeout_ms for its end, then kills it. */
void live_daemon_end(live_daemon *daemon, int timeout_ms);
void live_daemon_measure(const live_daemon *daemon, live_usage *usage);
/* Sum over all ranks. */
double live_daemon_peak_bytes(const live_daemon *daemon);

/* ---- the subscriber -------------------------------------------------------------------------- */

typedef struct live_arrival {
    uint32_t topics;   /* received, SONAR_WANT bits */
    int64_t at_ns;     /* time of the last one, monotonic */
    double latency_us; /* the daemon's own value, the longest of the topics */
    double missing;    /* worst share of a channel */
} live_arrival;

typedef struct live_ear {
    void *context, *socket;
    size_t hop;
    uint32_t topics;               /* subscribed topics of each window, SONAR_WANT bits */
    uint64_t windows, received;    /* expected; received with all topics */
    uint64_t came[SONAR_SURFACES]; /* windows received of each topic; messages of the status */
    live_arrival *arrival;         /* [windows] */
    cJSON *status;                 /* the last; NULL: none yet */
    double peak_deg;               /* of the last cbf.azimuth */
} live_ear;

/* Subscribes to the configuration's output.topics. key: path of its certificate, or NULL. */
sonar_code live_ear_open(const sonar_config *config, const char *key, uint64_t windows,
                         live_ear *ear, sonar_error *err);
/* Receives messages for up to timeout_ms, at least one message if one comes. */
void live_ear_listen(live_ear *ear, int timeout_ms);
bool live_ear_has(const live_ear *ear, uint64_t window);
/* A number of the last status by its path, e.g. "windows.dropped.overload"; 0 if absent. */
double live_ear_status(const live_ear *ear, const char *path);
void live_ear_close(live_ear *ear);

/* ---- results --------------------------------------------------------------------------------- */

typedef struct live_spread {
    size_t count;
    double p50_ms, p90_ms, p99_ms, p999_ms, max_ms; /* NaN without values */
} live_spread;

/* Where a window that did not reach the subscriber was lost. */
typedef enum live_loss {
    LIVE_OVERLOAD = 0, /* the daemon's own causes: docs/protocol.md */
    LIVE_MISSING,
    LIVE_SKIPPED,
    LIVE_SHED,
    LIVE_FAILED,
    LIVE_OUTPUT,     /* the ring to the output was full */
    LIVE_SUBSCRIBER, /* processed, but not received by the subscriber with all topics */
    LIVE_NOT_SENT,   /* the senders did not send it */
    LIVE_LOSSES
} live_loss;

typedef struct live_thread {
    char name[32];
    size_t count;
    double busiest, all; /* shares of a processor */
} live_thread;

enum { LIVE_NAMES_MOST = 32, LIVE_REASONS_MOST = 8 };

typedef struct live_result {
    live_plan plan;
    size_t channels, directions, ranges, length, hop, first_bin, bins;
    bool mvdr;
    double fs_hz;
    char backend[16];
    live_stream stream;
    uint64_t windows, received, lost[LIVE_LOSSES];
    int64_t unaccounted;
    uint64_t steady_windows, steady_received, steady_incomplete; /* after the warm-up */
    live_spread latency, from_sent, own, lateness;
    uint64_t frames_sent, frames_blocked;
    double blocked_s, sender_busiest, sender_cpu; /* shares of a processor */
    double behind_ms;                             /* maximum after the warm-up */
    double cpu, load, resident_bytes, peak_bytes, machine_busy;
    size_t threads;
    live_thread thread[LIVE_NAMES_MOST]; /* busiest first */
    double tone_az_deg, found_az_deg;
    bool held;
    size_t reasons, saturated;
    char reason[LIVE_REASONS_MOST][200];
    char full[LIVE_REASONS_MOST][64]; /* resources that were busy all the time */
    uint32_t topics;                  /* subscribed topics, SONAR_WANT bits */
    uint64_t came[SONAR_SURFACES];    /* windows of each topic; messages of the status */
    cJSON *at_end;                    /* the last status before the stream ended; owned */
    cJSON *status;                    /* the last; owned */
} live_result;

extern const live_case live_cases[];

/* Makes a run and ends all its processes. The caller clears the result. */
sonar_code live_run(const live_plan *plan, live_result *result, sonar_error *err);
void live_result_clear(live_result *result);

const char *live_loss_name(live_loss loss);
void live_write_text(const live_result *result, FILE *to);
void live_add_json(const live_result *result, cJSON *list);

/* The program `sonar-bench live`. */
int live_main(int argc, char **argv);

#endif
