/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The data thread: takes a window, runs the stages on it, hands the result over. Between start and
 * stop it allocates nothing, logs nothing and waits only for samples (or, with `block`, for the
 * output); the one exception is recover.c. */
#include <stdlib.h>
#include <string.h>

#include "pipeline/internal.h"

/* ---- transform ------------------------------------------------------------------------------- */

static sonar_code transform(sonar_pipeline *p, struct stage *dft, const sonar_window *window,
                            uint64_t first, size_t length, sonar_buffer *out,
                            const sonar_work *work, sonar_error *err) {
    sonar_buffer span[SONAR_DFT_INPUTS];
    sonar_window_span(window, first, length, span);
    return dft->ops->execute(dft->self, p->engine.queue, span, out, work, err);
}

static bool touches_gap(const sonar_window *window, uint64_t first, size_t length) {
    return window->gap_first < window->gap_end && first < window->gap_end &&
           first + length > window->gap_first;
}

/* The snapshot [first, first + length) enters the covariance. */
static void note_snapshot(struct history *h, uint64_t first, size_t length) {
    if (!h->forgets || h->count == 0)
        h->first_sample[h->count % h->length] = first;
    h->count++;
    h->end_sample = first + length;
}

/* First sample of the oldest snapshot that still counts. */
static uint64_t oldest_sample(const struct history *h) {
    return h->first_sample[h->count > h->length ? h->count % h->length : 0];
}

/* Sub-windows at multiples of the MVDR's hop that end inside this window and were not taken in with
 * an earlier one. Those with missing samples never enter the covariance. */
static sonar_code transform_snapshots(sonar_pipeline *p, const sonar_window *window,
                                      const sonar_work *work, size_t *snapshots, sonar_error *err) {
    const sonar_config *c = p->config;
    *snapshots = 0;
    if (!p->own_mvdr_dft) {
        *snapshots = window->gap_first >= window->gap_end;
        if (*snapshots)
            note_snapshot(&p->history, window->first_sample, c->length);
        return SONAR_OK;
    }
    uint64_t end = window->first_sample + c->length;
    if (p->mvdr_next < window->first_sample)
        p->mvdr_next = (window->first_sample + c->mvdr_hop - 1) / c->mvdr_hop * c->mvdr_hop;
    for (; p->mvdr_next + c->mvdr_length <= end; p->mvdr_next += c->mvdr_hop) {
        if (touches_gap(window, p->mvdr_next, c->mvdr_length))
            continue;
        size_t count = c->mvdr_band.bins * c->sensors, shape[2] = {c->mvdr_band.bins, c->sensors};
        sonar_buffer out =
            sonar_buffer_view((sonar_c32 *)p->engine.buffers.mvdr_bins.data + *snapshots * count,
                              SONAR_C32, 2, shape);
        out.space = p->engine.buffers.mvdr_bins.space;
        sonar_code code = transform(p, &p->engine.mvdr_dft, window, p->mvdr_next, c->mvdr_length,
                                    &out, work, err);
        if (code)
            return code;
        note_snapshot(&p->history, p->mvdr_next, c->mvdr_length);
        ++*snapshots;
    }
    return SONAR_OK;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Power of every channel in the beamformers' bins; channels without a sensor read 0. */
static void element_psd(const sonar_pipeline *p, sonar_buffer *psd) {
    const sonar_buffer *bins = &p->engine.buffers.host_bins;
    const sonar_c32 *x = bins->data;
    float *to = psd->data;
    size_t count = bins->shape[0], sensors = bins->shape[1];
    for (size_t s = 0; s < sensors; s++) {
        float *row = to + p->params->channel[s] * count;
        for (size_t b = 0; b < count; b++) {
            sonar_c32 v = x[b * sensors + s];
            row[b] = v.re * v.re + v.im * v.im;
        }
    }
}

/* The header's facts about the adaptive spectrum, from the stage's info rows. */
static void summarise_mvdr(const sonar_pipeline *p, sonar_result *result) {
    const sonar_buffer *info = &p->engine.buffers.host_info;
    const float *row = info->data;
    size_t bins = info->shape[0];
    for (size_t b = 0; b < bins; b++, row += SONAR_MVDR_INFO_FIELDS) {
        uint32_t flags = (uint32_t)row[SONAR_MVDR_FLAGS];
        result->mvdr_flags |= flags;
        result->mvdr_bins_not_converged += (flags & SONAR_MVDR_FLAG_NOT_CONVERGED) != 0;
        if (row[SONAR_MVDR_RESIDUAL] > result->mvdr_worst_residual)
            result->mvdr_worst_residual = row[SONAR_MVDR_RESIDUAL];
        if (row[SONAR_MVDR_SWEEPS] > result->mvdr_most_sweeps)
            result->mvdr_most_sweeps = row[SONAR_MVDR_SWEEPS];
        result->mvdr_snapshots = row[SONAR_MVDR_SNAPSHOTS];
        p->delta[b] = row[SONAR_MVDR_DELTA];
    }
    result->mvdr_delta = (double)sonar_median(p->delta, bins);
}

static void describe(const sonar_pipeline *p, const sonar_window *window, sonar_result *result) {
    sonar_buffer surface[SONAR_SURFACES];
    memcpy(surface, result->surface, sizeof surface);
    *result = (sonar_result){.window = window->window,
                             .first_sample = window->first_sample,
                             .window_length = p->config->length,
                             .utc_ns = window->utc_ns,
                             .epoch = window->epoch,
                             .backend = p->engine.backend->name,
                             .sensors_used = p->params->sensors_used,
                             .cbf_snapshots = 1,
                             .missing_mean = window->missing_mean,
                             .missing_worst = window->missing_worst,
                             .frame_flags = window->flags,
                             .restarted = window->restarted,
                             .arrival_ns = window->arrival_ns};
    memcpy(result->surface, surface, sizeof surface);
    memcpy(result->surface[SONAR_ELEMENT_MISSING].data, window->missing,
           result->surface[SONAR_ELEMENT_MISSING].bytes);
}

static sonar_result *free_result(sonar_pipeline *p) {
    for (sonar_result *back; (back = sonar_output_reclaim(p->output));)
        p->free_result[p->free_results++] = back;
    return p->free_results ? p->free_result[--p->free_results] : NULL;
}

/* With `block`, waits until the output gives one back; else NULL when all are lent. */
static sonar_result *borrow_result(sonar_pipeline *p) {
    sonar_result *result = free_result(p);
    while (!result && p->config->overload == SONAR_BLOCK && !atomic_load(&p->stopping)) {
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        result = free_result(p);
    }
    return result;
}

/* ---- one window ------------------------------------------------------------------------------ */

static int64_t lap(sonar_pipeline *p, int stage, int64_t since) {
    int64_t now = sonar_monotonic_ns();
    atomic_store_explicit(&p->progress.stage_ns[stage], (uint64_t)(now - since),
                          memory_order_relaxed);
    return now;
}

/* What the stages have to compute for what subscribers want: detections rest on spectra. */
static uint32_t needed(const sonar_pipeline *p, uint32_t wanted) {
    uint32_t outputs = wanted;
    if (p->config->detect_enabled && (wanted & SONAR_WANT(SONAR_DETECTIONS)))
        outputs |= SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_NEARFIELD) |
                   SONAR_WANT(SONAR_MVDR_AZIMUTH);
    else
        outputs &= ~SONAR_WANT(SONAR_DETECTIONS);
    if (!p->config->ranges)
        outputs &= ~SONAR_WANT(SONAR_CBF_NEARFIELD);
    if (!p->config->mvdr_enabled)
        outputs &= ~(SONAR_WANT(SONAR_MVDR_AZIMUTH) | SONAR_WANT(SONAR_MVDR_SPECTRUM));
    return outputs & ~SONAR_WANT(SONAR_STATUS);
}

static sonar_code fetch(sonar_pipeline *p, const sonar_buffer *from, sonar_buffer *to,
                        sonar_error *err) {
    return p->engine.backend->copy(p->engine.queue, from, to, err);
}

/* Waits until all that was enqueued is done; what it read may then be reused. */
static sonar_code settle(sonar_pipeline *p, sonar_error *err) {
    sonar_code code = p->engine.backend->record(p->engine.queue, p->engine.event, err);
    return code ? code : p->engine.backend->finish(p->engine.event, err);
}

static sonar_code run_cbf(sonar_pipeline *p, const sonar_work *work, sonar_result *result,
                          sonar_error *err) {
    const uint32_t mine = SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_NEARFIELD) |
                          SONAR_WANT(SONAR_CBF_LOFAR);
    if (!(work->outputs & mine))
        return SONAR_OK;
    const sonar_buffer *bins = &p->engine.buffers.cbf_bins;
    sonar_buffer in =
        sonar_buffer_view(bins->data, SONAR_C32, 3, (size_t[]){1, bins->shape[0], bins->shape[1]});
    in.space = bins->space;
    sonar_code code = sonar_timing_begin(p, STAGE_CBF, err);
    if (!code)
        code = p->engine.cbf.ops->execute(p->engine.cbf.self, p->engine.queue, &in,
                                          p->engine.buffers.cbf, work, err);
    if (!code)
        code = sonar_timing_end(p, STAGE_CBF, err);
    for (int i = SONAR_CBF_AZIMUTH; i <= SONAR_CBF_LOFAR && !code; i++)
        if (result && (work->outputs & SONAR_WANT(i)))
            code = fetch(p, &p->engine.buffers.cbf[i], &result->surface[i], err);
    return code;
}

/* Runs even when nobody looks: the covariance must not miss a snapshot. */
static sonar_code run_mvdr(sonar_pipeline *p, const sonar_work *work, size_t snapshots,
                           sonar_result *result, sonar_error *err) {
    if (!p->config->mvdr_enabled)
        return SONAR_OK;
    sonar_buffer in = p->engine.buffers.mvdr_bins;
    in.shape[0] = snapshots;
    in.bytes = sonar_buffer_count(&in) * sizeof(sonar_c32);
    sonar_code code = sonar_timing_begin(p, STAGE_MVDR, err);
    if (!code)
        code = p->engine.mvdr.ops->execute(p->engine.mvdr.self, p->engine.queue, &in,
                                           p->engine.buffers.mvdr, work, err);
    if (!code)
        code = sonar_timing_end(p, STAGE_MVDR, err);
    if (code || !result)
        return code;
    if (work->outputs & SONAR_WANT(SONAR_MVDR_AZIMUTH))
        code = fetch(p, &p->engine.buffers.mvdr[SONAR_MVDR_OUT_AZIMUTH],
                     &result->surface[SONAR_MVDR_AZIMUTH], err);
    if (!code && (work->outputs & SONAR_WANT(SONAR_MVDR_SPECTRUM)))
        code = fetch(p, &p->engine.buffers.mvdr[SONAR_MVDR_OUT_SPECTRUM],
                     &result->surface[SONAR_MVDR_SPECTRUM], err);
    return code ? code
                : fetch(p, &p->engine.buffers.mvdr[SONAR_MVDR_OUT_INFO],
                        &p->engine.buffers.host_info, err);
}

static sonar_code run_dft(sonar_pipeline *p, const sonar_window *window, const sonar_work *work,
                          size_t *snapshots, sonar_error *err) {
    sonar_window seen;
    sonar_code code = sonar_timing_window(p, err);
    if (!code)
        code = sonar_pipeline_upload(p, window, &seen, err);
    if (!code)
        code = sonar_timing_begin(p, STAGE_DFT, err);
    if (!code)
        code = transform(p, &p->engine.dft, &seen, window->first_sample, p->config->length,
                         &p->engine.buffers.bins, work, err);
    if (!code && p->config->mvdr_enabled)
        code = transform_snapshots(p, &seen, work, snapshots, err);
    if (!code)
        code = sonar_timing_end(p, STAGE_DFT, err);
    if (!code)
        sonar_pipeline_upload_early(p); /* beside the transforms */
    return code ? code : settle(p, err);
}

static void finish_mvdr_facts(const sonar_pipeline *p, sonar_result *result) {
    if (!p->config->mvdr_enabled)
        return;
    summarise_mvdr(p, result);
    if (p->history.count) {
        result->mvdr_first_sample = oldest_sample(&p->history);
        result->mvdr_end_sample = p->history.end_sample;
    }
}

static sonar_code process(sonar_pipeline *p, sonar_window *window, sonar_result *result,
                          sonar_error *err) {
    uint32_t wanted = result ? sonar_output_wanted(p->output) & p->config->output_topics : 0;
    sonar_work work = {.window = window->window,
                       .first_sample = window->first_sample,
                       .params = p->params,
                       .outputs = needed(p, wanted)};
    if (window->restarted) {
        if (p->config->mvdr_enabled)
            p->engine.mvdr.ops->reset(p->engine.mvdr.self);
        p->mvdr_next = 0;
        p->history.count = 0;
    }
    if (result)
        describe(p, window, result);
    int64_t now = sonar_monotonic_ns();
    size_t snapshots = 0;
    sonar_code code = run_dft(p, window, &work, &snapshots, err);
    sonar_ingest_release(p->ingest, window); /* the ring's samples are not read any more */
    now = lap(p, STAGE_DFT, now);
    if (!code)
        code = run_cbf(p, &work, result, err);
    now = lap(p, STAGE_CBF, now);
    if (!code)
        code = run_mvdr(p, &work, snapshots, result, err);
    if (!code && result && (wanted & SONAR_WANT(SONAR_ELEMENT_PSD)) &&
        p->engine.buffers.host_bins.data != p->engine.buffers.cbf_bins.data)
        code = fetch(p, &p->engine.buffers.cbf_bins, &p->engine.buffers.host_bins, err);
    if (!code)
        code = settle(p, err);
    now = lap(p, STAGE_MVDR, now);
    if (!code)
        sonar_timing_collect(p);
    if (code || !result)
        return code;
    finish_mvdr_facts(p, result);
    if (wanted & SONAR_WANT(SONAR_ELEMENT_PSD))
        element_psd(p, &result->surface[SONAR_ELEMENT_PSD]);
    result->present = wanted & needed(p, wanted);
    if (result->present & SONAR_WANT(SONAR_DETECTIONS))
        code = sonar_pipeline_detect(p, &work, result, err);
    sonar_histogram_add(&p->timing[STAGE_DETECT][SONAR_PART_HOST],
                        (uint64_t)(lap(p, STAGE_DETECT, now) - now));
    return code;
}

static void note_failure(struct progress *progress, const sonar_error *err) {
    atomic_fetch_add(&progress->windows_failed, 1);
    if (atomic_load_explicit(&progress->failed_new, memory_order_acquire))
        return; /* the control thread has not read the last one yet */
    progress->failure = *err;
    atomic_store_explicit(&progress->failed_new, true, memory_order_release);
}

/* False: there is nothing left to work with. */
static bool handle(sonar_pipeline *p, sonar_window *window) {
    int64_t began = sonar_monotonic_ns();
    atomic_store(&p->progress.busy_since_ns, began);
    sonar_error err = {0};
    sonar_result *result = borrow_result(p);
    if (!result)
        atomic_fetch_add(&p->progress.results_dropped, 1);
    sonar_code code = process(p, window, result, &err);
    if (code)
        note_failure(&p->progress, &err);
    if (result && (code || !sonar_output_post(p->output, result)))
        p->free_result[p->free_results++] = result;
    if (!code)
        atomic_fetch_add(&p->progress.windows_processed, 1);
    atomic_store(&p->progress.busy_since_ns, 0); /* first: nobody may count it twice */
    atomic_fetch_add(&p->progress.busy_ns, (uint64_t)(sonar_monotonic_ns() - began));
    return !code || sonar_pipeline_recover(p, &err);
}

void *sonar_data_thread(void *arg) {
    sonar_pipeline *p = arg;
    while (!atomic_load(&p->stopping)) {
        sonar_window window;
        bool draining = atomic_load(&p->draining); /* before taking: no window can come after it */
        if (sonar_ingest_take(p->ingest, &window)) {
            if (!handle(p, &window))
                break;
            continue;
        }
        if (draining)
            break;
        sonar_pipeline_upload_early(p);
        sonar_wake_wait(sonar_ingest_fd(p->ingest), 50);
    }
    atomic_store(&p->drained, true);
    return NULL;
}
