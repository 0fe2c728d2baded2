/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Output: publishes a window's results on an XPUB socket, one topic per surface, as topic, JSON
 * header and raw array (docs/protocol.md). The output thread owns the socket, reads subscriptions
 * and builds headers. The data thread queues results in a bounded ring; their ownership returns
 * through reclaim, from another ring. No subscriber slows the data thread: when the ring is full, a
 * result is dropped and counted (overload drop_oldest), or post waits (block).
 */
#ifndef SONAR_OUTPUT_H
#define SONAR_OUTPUT_H

#include "sonar/sonar.h"

#include "status/result.h"
#include "status/topic.h"
#include "manifold/manifold.h"

/* A reader inside the process, called by the output thread. All members NULL: no tap. While `take`
 * runs, results wait in the ring. */
typedef struct sonar_output_tap {
    void *ctx;
    uint32_t (*wanted)(void *ctx); /* SONAR_WANT bits that count as subscriptions */
    void (*take)(void *ctx, sonar_surface surface, const char *header, const void *data,
                 size_t bytes);
    void (*tick)(void *ctx); /* several times a second */
} sonar_output_tap;

/* What headers state in addition to each result. Arrays are borrowed until destroy. */
typedef struct sonar_output_spec {
    void *zmq_context;
    struct sonar_memory *memory;           /* net/net.h, watched if not NULL */
    const struct sonar_security *security; /* net/net.h, borrowed; NULL: without encryption */
    struct sonar_gate *gate; /* net/net.h, borrowed: readers connect through it; NULL: directly */
    uint64_t io_threads;     /* libzmq's I/O threads that serve it, as in ZMQ_AFFINITY; 0: any */
    const char *endpoint;    /* NULL: there is no socket, and only the tap reads */
    int high_water_mark;
    uint32_t topics;      /* SONAR_WANT bits of the topics that are enabled */
    size_t queue_results; /* entries of the rings */
    bool block;           /* wait if the ring is full, instead of dropping */
    int cpu;
    const char *array_name, *run_uuid;
    double fs_hz;
    bool relative; /* levels are only relative, because the spectra were equalised */
    const char
        *loading_rule;  /* "noise", "trace", "absolute"; with "dmr", "noise" is used in its place */
    double loading_eps; /* NaN with dmr */
    bool level_corrected; /* mvdr.correct_level */
    bool cell_maximum;    /* mvdr.cell_maximum */
    bool true_bearings;   /* publish spectra over true bearings, if these are known */
    const sonar_scan *cbf_scan, *mvdr_scan; /* mvdr_scan NULL: no MVDR */
    size_t ranges,
        mvdr_ranges; /* numbers of ranges of the near fields; the MVDR's is the same or 0 */
    const double *range_m;
    const char *range_reference; /* "radial", "abeam" */
    size_t channels;
    double cbf_bin_hz, mvdr_bin_hz; /* bin widths */
    size_t cbf_first_bin, cbf_bins; /* rows of cbf.lofar and columns of element.psd */
    size_t mvdr_first_bin, mvdr_bins, mvdr_modes;
    size_t beams, beam_samples;               /* rows and columns of beam.audio */
    const char (*beam_name)[SONAR_BEAM_NAME]; /* [beams] */
    double beam_range_m;                      /* NaN: far field */
    double white_noise_gain_db;               /* mvdr.white_noise_gain_db; 0: no limit */
    int music;                /* number of MUSIC's sources in a bin; 0: off, -1: estimated */
    const char *source_count; /* "mdl", "random_matrix"; NULL: not estimated */
    double cbf_band_hz[2], mvdr_band_hz[2]; /* of the first and the last bin */
    sonar_output_tap tap;
} sonar_output_spec;

typedef struct sonar_output sonar_output;

/* What headers say of windows under one version of the live values. */
typedef struct sonar_output_form sonar_output_form;

/* Uses only those members of the spec that appear in headers, and the shapes of surfaces. Arrays
 * are borrowed until destroy. NULL: no memory. */
sonar_output_form *sonar_output_form_create(const sonar_output_spec *spec);
/* NULL is allowed. No queued result may refer to it. */
void sonar_output_form_destroy(sonar_output_form *form);

sonar_code sonar_output_create(const sonar_output_spec *spec, const sonar_host *host,
                               sonar_output **output, sonar_error *err);
/* Opens the socket in the new thread; SONAR_ESYS with the endpoint in `where` if it cannot. NULL is
 * allowed, for a process that publishes nothing. */
sonar_code sonar_output_start(sonar_output *output, sonar_error *err);
/* Where it listens, wildcards resolved ("tcp://127.0.0.1:*"); valid after start. */
const char *sonar_output_endpoint(const sonar_output *output);
/* Sends what is queued (at most timeout_ms), closes and joins. Messages that libzmq still holds for
 * slow peers get the rest of timeout_ms, during which zmq_ctx_term waits. Afterwards every posted
 * result can be reclaimed. Does nothing if not started, or already stopped. False: the thread is
 * still inside libzmq 0.1 s later; nothing may be freed, and destroy would wait for it. */
bool sonar_output_stop(sonar_output *output, int timeout_ms);
void sonar_output_destroy(sonar_output *output);

/* SONAR_WANT bits of the enabled topics that have a subscriber; any thread. A subscription to a
 * non-empty prefix of a name ("cbf.lofar", "cbf.", "c") wants that surface. The empty subscription
 * wants cbf.azimuth, cbf.nearfield, mvdr.azimuth, detections and status, which are sent for every
 * window. It receives the topics that are sent by name only while another subscription names them.
 * A surface whose bit is not set need not be computed, because it has no reader. */
uint32_t sonar_output_wanted(const sonar_output *output);
/* Queues a result; its ownership returns through reclaim. False: the caller keeps it, and it counts
 * as dropped. This happens if the ring is full, if 2 * queue_results + 2 results were posted and
 * not reclaimed, or if the output has stopped. With `block` it waits for room in the ring until
 * stop. Data thread. */
bool sonar_output_post(sonar_output *output, sonar_result *result);
/* Returns the ownership of a result that has been sent, or NULL. Data thread. */
sonar_result *sonar_output_reclaim(sonar_output *output);
/* Copies the status and sends it soon. Replaces an older one that was not sent yet. Control
 * thread. */
void sonar_output_post_status(sonar_output *output, const sonar_status *status);
/* The header that the topic status would have now. free() it; NULL: no memory. Any thread. */
char *sonar_output_status_text(const sonar_output *output, const sonar_status *status);
/* Ends all connections within 0.1 s. Peers that are still allowed reconnect. Any thread. */
void sonar_output_cut_all(sonar_output *output);
/* False once the thread has ended, either stopped or because its socket failed. Any thread. */
bool sonar_output_alive(const sonar_output *output);
/* Number of times that the thread has looked for work; it does so at least at every status. Any
 * thread. */
uint64_t sonar_output_rounds(const sonar_output *output);
void sonar_output_read_counters(const sonar_output *output, sonar_output_counters *counters);
/* From the arrival of the last sample until the message is handed to the socket, of the windows
 * sent. Any one thread. */
void sonar_output_read_latency(sonar_output *output, sonar_percentiles *latency);

#endif
