/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The pipeline's connections: sockets and shared memory, ingest and output as configured, and the
 * accepted keys. Called by create.c; the control thread also changes keys during the run. */
#include <math.h>
#include <stdlib.h>
#include <zmq.h>

#include "ranks/cluster.h"
#include "net/descriptors.h"
#include "net/shared.h"
#include "pipeline/internal.h"

/* ---- sockets --------------------------------------------------------------------------------- */

/* libzmq starts its I/O threads and one more with the first socket. Reserves threads for these and
 * the daemon's own. */
static sonar_code start_context(sonar_pipeline *p, size_t io_threads, sonar_error *err) {
    enum { OWN_THREADS = 16, BYTES = 64 << 20 };
    const sonar_config *c = p->config;
    sonar_code code = sonar_threads_reserve(
        OWN_THREADS + 1 + io_threads + c->threads + c->ingest_threads, BYTES, err);
    if (code)
        return code;
    p->zmq = zmq_ctx_new();
    if (!p->zmq)
        return sonar_fail(err, SONAR_ESYS, "pipeline", "zmq_ctx_new: %s",
                          zmq_strerror(zmq_errno()));
    zmq_ctx_set(p->zmq, ZMQ_IO_THREADS, (int)io_threads);
    void *first =
        zmq_socket(p->zmq, ZMQ_PAIR); /* created now, while the reserved threads are available */
    if (!first)
        return sonar_fail(err, SONAR_ESYS, "pipeline", "zmq_socket: %s", zmq_strerror(zmq_errno()));
    zmq_close(first);
    return SONAR_OK;
}

/* An I/O thread needs two descriptors, an endpoint up to four; 48 cover the rest. */
sonar_code sonar_pipeline_make_context(sonar_pipeline *p, sonar_error *err) {
    const sonar_config *c = p->config;
    sonar_code code =
        sonar_descriptors_reserve(48 + 2 * c->ingest_io_threads + 4 * c->ingest_endpoints, err);
    if (!code)
        code = start_context(p, c->ingest_io_threads + SONAR_IO_OTHERS, err);
    if (code)
        return code;
    p->memory = sonar_memory_create("");
    p->readers = sonar_gate_create(SONAR_PEERS_MOST / 8);
    p->controllers = sonar_gate_create(SONAR_PEERS_OF_CONTROL * 3 / 4);
    if (!p->memory || !p->readers || !p->controllers)
        return sonar_fail(err, SONAR_ENOMEM, "pipeline", "no memory");
    if (c->shared_memory) {
        const sonar_segments_spec spec = {.endpoint = c->shared_memory,
                                          .mode = c->security.ipc_mode,
                                          .bytes_most = c->shared_memory_bytes};
        code = sonar_segments_create(&spec, &p->host, &p->segments, err);
    }
    if (!code)
        code = sonar_zap_create(p->zmq, &p->host, &p->zap, err);
    if (code)
        return code;
    sonar_zap_gate(p->zap, SONAR_READERS, p->readers);
    sonar_zap_gate(p->zap, SONAR_CONTROLLERS, p->controllers);
    return sonar_pipeline_allow(p, &c->security, err);
}

static void *end_context(void *context) {
    zmq_ctx_term(context);
    return NULL;
}

/* libzmq closes sockets in its own thread, which peers can keep busy. */
bool sonar_pipeline_end_context(sonar_pipeline *p, int timeout_ms) {
    pthread_t thread;
    if (!p->zmq)
        return true;
    if (timeout_ms < 0) {
        zmq_ctx_term(p->zmq);
        return true;
    }
    if (sonar_thread_start(&p->host, "sonar-end", -1, end_context, p->zmq, &thread, NULL))
        return false;
    if (sonar_thread_join(thread, timeout_ms))
        return true;
    pthread_detach(thread);
    return false;
}

/* ---- samples --------------------------------------------------------------------------------- */

/* Chunks are small enough that little is left to copy when a window is complete, and large enough
 * to be worth a copy. 0 for a backend that reads the samples in host memory. */
static size_t chunk_samples(const sonar_pipeline *p) {
    enum { CHUNKS_A_HOP = 8, LEAST_BYTES = 1 << 16 };
    const sonar_config *c = p->config;
    if (p->layout.place[SONAR_ENGINE_DFT]->native_space == SONAR_HOST)
        return 0;
    size_t least = LEAST_BYTES / (c->channels * sonar_dtype_size(c->sample_type)) + 1;
    return sonar_min_size(sonar_max_size(least, c->specs.hop / CHUNKS_A_HOP), c->specs.hop);
}

/* The ring's memory comes from the backend, because a device copies without the processor's help
 * only from pinned memory. */
static sonar_code make_ring(sonar_pipeline *p, const sonar_ingest_spec *spec, sonar_error *err) {
    size_t shape[2] = {spec->channels, sonar_ingest_capacity(spec)};
    if (!shape[1])
        return sonar_fail(err, SONAR_ENOMEM, "ingest", "no memory for a ring of %zu channels",
                          spec->channels);
    return p->choice.backend->buffer_create(p->choice.backend, SONAR_PINNED, spec->sample_type, 2,
                                            shape, &p->ring, err);
}

/* 2^40 uPa (241 dB re 1 uPa) is ten times the atmospheric pressure, where no hydrophone is linear
 * and the sea cavitates; without calibration the limit is 2^40 counts, beyond any converter. A
 * larger value is a wrong bit, and would dominate an exponential average for minutes. */
static float most_sample(const sonar_config *c) {
    double highest_gain_db = 0;
    for (size_t s = 0; s < c->sensors && c->calibrated; s++)
        highest_gain_db = s ? fmax(highest_gain_db, c->gain_db[s]) : c->gain_db[s];
    return (float)fmin(0x1p40 * pow(10, highest_gain_db / 20), 0x1p120);
}

/* `channel_used`: [channel], to be freed once ingest is made. */
static sonar_ingest_spec ingest_spec(const sonar_pipeline *p, const uint8_t *channel_used) {
    const sonar_config *c = p->config;
    return (sonar_ingest_spec){
        .fed = c->reader != NULL,
        .zmq_context = p->zmq,
        .memory = p->memory,
        .security = &p->config->security,
        .io_threads = SONAR_IO_SAMPLES,
        .segments = p->segments,
        .endpoints = (const char *const *)c->ingest_endpoint,
        .endpoint_count = c->ingest_endpoints,
        .socket = c->ingest_socket,
        .high_water_mark = c->ingest_high_water_mark,
        .max_message_bytes = c->ingest_max_message_bytes,
        .array_id = c->array_id,
        .first_channel = p->ranks.first_channel,
        .channels = c->channels,
        .channel_used = channel_used,
        .fs_hz = c->fs_hz,
        .window_length = c->specs.window_length,
        .hop = c->specs.hop,
        .lookback = c->specs.lookback,
        .queue_windows = c->ingest_queue_windows,
        .overload = c->overload,
        .max_missing_share = c->max_missing_share,
        .max_skew_samples = (size_t)(c->max_skew_ms * 1e-3 * c->fs_hz),
        .restart_after_ms = c->restart_after_ms,
        .silent_after_ms = c->silent_after_ms,
        .cpu = c->cpu_ingest,
        .threads = c->ingest_threads,
        .sample_type = c->sample_type,
        .most_sample = most_sample(c),
        .drop_spikes = c->drop_spikes,
        .chunk_samples = chunk_samples(p),
        .sink = sonar_record_sink(p),
    };
}

sonar_code sonar_pipeline_make_ingest(sonar_pipeline *p, sonar_error *err) {
    const sonar_config *c = p->config;
    uint8_t *channel_used = sonar_alloc(c->channels, 1);
    if (!channel_used)
        return sonar_fail(err, SONAR_ENOMEM, "pipeline", "no memory for %zu channels", c->channels);
    for (size_t s = 0; s < c->sensors; s++)
        channel_used[c->channel[s]] = c->used[s];
    sonar_ingest_spec spec = ingest_spec(p, channel_used);
    sonar_code code = make_ring(p, &spec, err);
    spec.ring = p->ring.data;
    if (!code)
        code = sonar_ingest_create(&spec, &p->host, &p->ingest, err);
    free(channel_used);
    return code;
}

/* ---- results --------------------------------------------------------------------------------- */

/* The frequencies of the band's first and last bin. */
static void band_of(const sonar_band *band, double bin_hz, double hz[2]) {
    hz[0] = (double)band->first_bin * bin_hz;
    hz[1] = (double)(band->first_bin + band->bins - 1) * bin_hz;
}

sonar_output_spec sonar_pipeline_output_spec(const sonar_pipeline *p, const sonar_config *c) {
    sonar_output_spec spec = {
        .zmq_context = p->zmq,
        .tap = c->reader ? *c->reader : sonar_record_tap(p),
        .memory = p->memory,
        .security = &p->config->security,
        .gate = p->readers,
        .io_threads = SONAR_IO_RESULTS,
        .endpoint = c->reader ? NULL : c->output_endpoint,
        .high_water_mark = c->output_high_water_mark,
        .topics = c->output_topics,
        .queue_results = c->output_queue_results,
        .block = c->overload == SONAR_BLOCK,
        .cpu = c->cpu_output,
        .array_name = c->array_name,
        .run_uuid = p->run_uuid,
        .fs_hz = c->fs_hz,
        .relative = c->specs.dft.equalise_phase,
        .loading_rule = c->specs.mvdr.dmr
                            ? "dmr"
                            : sonar_config_word("mvdr.loading.rule", c->specs.mvdr.loading),
        .loading_eps = c->specs.mvdr.dmr ? NAN : c->specs.mvdr.eps,
        .level_corrected = c->specs.mvdr.correct_level,
        .cell_maximum = c->mvdr_cell_maximum,
        .true_bearings = c->bearing_reference == SONAR_REFERENCE_TRUE,
        .cbf_scan = &c->cbf_scan,
        .mvdr_scan = c->specs.mvdr_enabled ? &c->mvdr_scan : NULL,
        .ranges = c->specs.cbf.ranges,
        .mvdr_ranges = c->specs.mvdr_enabled ? c->specs.mvdr.ranges : 0,
        .range_m = c->range_m,
        .range_reference = sonar_config_word("cbf.range_reference", c->range_reference),
        .channels = c->channels,
        .cbf_bin_hz = sonar_cbf_bin_hz(c),
        .cbf_first_bin = c->lofar_band.first_bin,
        .cbf_bins = c->lofar_band.bins,
        .beams = c->specs.beams,
        .beam_samples = c->specs.hop,
        .beam_name = c->beam_name,
        .beam_range_m = isfinite(c->beam_range_m) ? c->beam_range_m : NAN,
    };
    band_of(&c->cbf_band, spec.cbf_bin_hz, spec.cbf_band_hz);
    if (c->specs.mvdr_enabled) {
        spec.mvdr_bin_hz = c->fs_hz / (double)c->specs.mvdr.length;
        spec.mvdr_first_bin = c->mvdr_band.first_bin;
        spec.mvdr_bins = c->mvdr_band.bins;
        spec.mvdr_modes = sonar_mvdr_modes(&c->specs.mvdr);
        spec.white_noise_gain_db = c->specs.mvdr.white_noise_gain_db;
        spec.music = c->specs.mvdr.music;
        if (c->specs.mvdr.source_count != SONAR_COUNT_OFF)
            spec.source_count = sonar_config_word("mvdr.source_count", c->specs.mvdr.source_count);
        band_of(&c->mvdr_band, spec.mvdr_bin_hz, spec.mvdr_band_hz);
    }
    return spec;
}

sonar_code sonar_pipeline_make_output(sonar_pipeline *p, sonar_error *err) {
    if (!sonar_is_root(p))
        return SONAR_OK;
    const sonar_output_spec spec = sonar_pipeline_output_spec(p, p->whole);
    return sonar_output_create(&spec, &p->host, &p->output, err);
}

/* ---- keys ------------------------------------------------------------------------------------ */

const sonar_security *sonar_pipeline_security(const sonar_pipeline *p) {
    return &p->config->security;
}

/* Removing a key also ends the connections that were admitted with it. */
sonar_code sonar_pipeline_allow_side(sonar_pipeline *p, sonar_domain side,
                                     const sonar_keyring *allowed, sonar_error *err) {
    bool fewer = false;
    const sonar_code code = sonar_zap_allow(p->zap, side, allowed, &fewer, err);
    if (code)
        return code;
    if (fewer && side == SONAR_SENDERS)
        sonar_ingest_cut_all(p->ingest);
    if (fewer && side == SONAR_READERS && p->output)
        sonar_output_cut_all(p->output);
    return SONAR_OK;
}
