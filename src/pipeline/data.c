/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The data thread: takes a window, runs the stages on it and posts the result. Between start and
 * stop it allocates nothing, logs nothing and waits only for samples, with ranks for the other
 * ranks, and with `block` for the output. Exceptions are recover.c, training in the middle of a run
 * (train.c), and graphs, which are re-recorded while no window waits. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "mvdr_jacobi/mvdr_jacobi.h"
#include "status/topic.h"
#include "pipeline/internal.h"

/* ---- results --------------------------------------------------------------------------------- */

/* Median of one of the stage's info columns over the bins. */
static double median_of(sonar_pipeline *p, const sonar_buffer *info, int field) {
    const size_t bins = info->shape[0];
    for (size_t b = 0; b < bins; b++)
        p->column[b] = ((const float *)info->data)[b * SONAR_MVDR_INFO_FIELDS + (size_t)field];
    return (double)sonar_median(p->column, bins);
}

/* The path of most of the window's bins. */
static uint32_t path_of(const sonar_pipeline *p, const sonar_buffer *info) {
    size_t count[SONAR_MVDR_ROUTES_MOST] = {0};
    uint32_t most = 0;
    for (size_t b = 0; b < info->shape[0]; b++) {
        const uint32_t route =
            (uint32_t)((const float *)info->data)[b * SONAR_MVDR_INFO_FIELDS + SONAR_MVDR_ROUTE];
        if (route < SONAR_MVDR_ROUTES_MOST && ++count[route] > count[most])
            most = route;
    }
    return sonar_mvdr_path_by(&p->live->plan->config->specs.mvdr, most);
}

/* Fills the header's fields about the adaptive spectrum from the stage's info rows. */
static void summarise_mvdr(sonar_pipeline *p, sonar_result *result) {
    const sonar_buffer *info = sonar_engine_mvdr_info(p->engine);
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
        result->mvdr_tonal_bins += row[SONAR_MVDR_OFFSET] != 0;
        result->mvdr_tone_reach =
            fmax(result->mvdr_tone_reach,
                 sonar_detect_tone_reach((double)(p->config->specs.mvdr.first_bin + b),
                                         (double)row[SONAR_MVDR_OFFSET]));
        if (row[SONAR_MVDR_SOURCES] > result->mvdr_most_sources)
            result->mvdr_most_sources = row[SONAR_MVDR_SOURCES];
        if (row[SONAR_MVDR_SUBSPACE] > result->music_most_sources)
            result->music_most_sources = row[SONAR_MVDR_SUBSPACE];
        result->mvdr_limited += (double)row[SONAR_MVDR_LIMITED];
        result->music_bins += row[SONAR_MVDR_SUBSPACE] > 0;
    }
    result->mvdr_limited /= (double)(bins * p->config->specs.mvdr.directions);
    result->mvdr_delta = median_of(p, info, SONAR_MVDR_DELTA);
    result->mvdr_sources = median_of(p, info, SONAR_MVDR_SOURCES);
    result->mvdr_modes = median_of(p, info, SONAR_MVDR_MODES);
    result->music_sources = median_of(p, info, SONAR_MVDR_SUBSPACE);
    result->mvdr_level_db = 10 * log10(median_of(p, info, SONAR_MVDR_LEVEL));
    atomic_fetch_add(&p->progress.mvdr_bins, bins);
    atomic_fetch_add(&p->progress.mvdr_bins_not_converged, result->mvdr_bins_not_converged);
    atomic_store(&p->progress.mvdr_most_sweeps, (uint64_t)result->mvdr_most_sweeps);
    atomic_store(&p->progress.mvdr_path, path_of(p, info));
}

/* Arrays over bins have the length of the live bands, which is at most the length for which they
 * were created. */
static void shape_surfaces(const sonar_pipeline *p, sonar_buffer *surface) {
    const sonar_config *c = p->live->plan->whole;
    for (int i = 0; i < SONAR_SURFACES; i++) {
        size_t shape[2];
        const int rank = sonar_specs_surface(&c->specs, (sonar_surface)i, shape);
        if (!surface[i].data || !rank)
            continue;
        const sonar_space space = surface[i].space;
        surface[i] = sonar_buffer_view(surface[i].data, surface[i].dtype, rank, shape);
        surface[i].space = space;
    }
}

/* Fills the fields known before the stages run, including the changes that no result has reported
 * yet. */
static void describe(const sonar_pipeline *p, const sonar_window *window, sonar_result *result) {
    sonar_buffer surface[SONAR_SURFACES];
    memcpy(surface, result->surface, sizeof surface);
    *result = (sonar_result){.window = window->window,
                             .first_sample = window->first_sample,
                             .window_length = p->config->specs.window_length,
                             .utc_ns = window->utc_ns,
                             .epoch = window->epoch,
                             .params = sonar_params_tell(sonar_live_whole(p->live)),
                             .cbf_snapshots = p->config->specs.cbf.max_snapshots,
                             .missing_mean = window->missing_mean,
                             .missing_worst = window->missing_worst,
                             .frame_flags = window->flags,
                             .restarted = window->restarted,
                             .mask_changed = p->versions.mask_changed,
                             .config_changed = p->versions.config_changed,
                             .mvdr_restarted = p->versions.mvdr_restarted,
                             .config_sample = p->versions.config_sample,
                             .form = p->live->plan->form,
                             .arrival_ns = window->arrival_ns};
    snprintf(result->backend, sizeof result->backend, "%s", sonar_engine_name(p->engine));
    memcpy(result->surface, surface, sizeof surface);
    shape_surfaces(p, result->surface);
    sonar_buffer *missing = &result->surface[SONAR_ELEMENT_MISSING];
    if (missing->data)
        memcpy(missing->data, window->missing, missing->bytes);
}

void sonar_result_keep(sonar_pipeline *p, sonar_result *result) {
    sonar_live_take_back(p, result);
    p->free_result[p->free_results++] = result;
}

static void take_back(sonar_pipeline *p) {
    for (sonar_result *back; (back = sonar_output_reclaim(p->output));) {
        sonar_latency_count(p, back);
        sonar_result_keep(p, back);
    }
}

sonar_result *sonar_result_find(sonar_pipeline *p) {
    take_back(p);
    return p->free_results ? p->free_result[--p->free_results] : NULL;
}

/* ---- one window ------------------------------------------------------------------------------ */

/* What is to be computed for the wanted topics; detections need spectra, and a beam may follow a
 * track. */
uint32_t sonar_pipeline_needed(const sonar_config *c, uint32_t wanted) {
    uint32_t made = c->detect_enabled ? sonar_topics_by(SONAR_MADE_BY_DETECTOR) : 0;
    size_t shape[2];
    for (int i = 0; i < SONAR_SURFACES; i++)
        if (sonar_specs_surface(&c->specs, (sonar_surface)i, shape))
            made |= SONAR_WANT(i);
    if (c->beam_follows && wanted & made & SONAR_WANT(SONAR_BEAM_AUDIO))
        wanted |= SONAR_WANT(SONAR_TRACKS);
    return sonar_config_needed(c, wanted & made) & made;
}

/* True if some of the MVDR's samples are older than the shape by which they are steered. With
 * forgetting, of those that still count. */
static bool is_mixed(const sonar_pipeline *p, const sonar_result *result) {
    const double count_for = sonar_config_mvdr_seconds(p->config) * p->config->fs_hz;
    const double first =
        fmax((double)result->mvdr_first_sample, (double)result->mvdr_end_sample - count_for);
    return result->shape_follows && first < (double)result->shape_sample;
}

static void finish_mvdr_facts(sonar_pipeline *p, uint32_t outputs, sonar_result *result) {
    if (!(outputs & sonar_topics_by(SONAR_MADE_BY_MVDR)))
        return; /* not solved, because no surface of it is wanted */
    summarise_mvdr(p, result);
    const sonar_engine_snapshots snapshots = sonar_engine_read_snapshots(p->engine);
    if (snapshots.count) {
        result->mvdr_first_sample = snapshots.first_sample;
        result->mvdr_end_sample = snapshots.end_sample;
        sonar_navigate_mvdr(p, result);
        result->shape_changed = is_mixed(p, result);
    }
}

/* True if the loudest beam's power is so low that quieter beams and single bins are below the least
 * normal float, which the stages treat as 0. */
static bool underflows(uint32_t outputs, const sonar_result *result) {
    const float least = 1e6f * FLT_MIN; /* leaves 60 dB for the quieter ones */
    const sonar_surface heard =
        outputs & SONAR_WANT(SONAR_CBF_AZIMUTH) ? SONAR_CBF_AZIMUTH : SONAR_MVDR_AZIMUTH;
    const sonar_buffer *surface = &result->surface[heard];
    if (!(outputs & SONAR_WANT(heard)) ||
        (heard == SONAR_MVDR_AZIMUTH && !(result->mvdr_snapshots > 0)))
        return false;
    for (size_t i = 0; i < surface->shape[0]; i++)
        if (((const float *)surface->data)[i] >= least)
            return false;
    return true;
}

/* What needs no more than the CBF's surfaces. A device may solve the MVDR meanwhile. */
static sonar_code conclude_beams(sonar_pipeline *p, uint32_t outputs, sonar_result *result,
                                 sonar_error *err) {
    const int64_t began = sonar_monotonic_ns();
    sonar_code code = SONAR_OK;
    if (outputs & sonar_topics_by(SONAR_MADE_BY_DETECTOR))
        code = sonar_pipeline_detect_cbf(p, result, err);
    sonar_latency_add(p, SONAR_LATENCY_DETECT, began);
    return code;
}

/* Detections, tracks, ratios and facts computed from the finished surfaces. */
static sonar_code conclude(sonar_pipeline *p, uint32_t outputs, sonar_result *result,
                           sonar_error *err) {
    const int64_t began = sonar_monotonic_ns();
    finish_mvdr_facts(p, outputs, result);
    result->underflow = underflows(outputs, result);
    sonar_code code = SONAR_OK;
    p->tops.count = 0;
    if (p->live->plan->config->mvdr_cell_maximum &&
        result->present & SONAR_WANT(SONAR_MVDR_AZIMUTH))
        code = sonar_pipeline_find_tops(p, result, err);
    if (!code && outputs & sonar_topics_by(SONAR_MADE_BY_DETECTOR))
        code = sonar_pipeline_detect(p, result, err);
    if (!code && outputs & SONAR_WANT(SONAR_TRACKS))
        sonar_tracking_run(p, result);
    if (!code) {
        sonar_normalised_run(p, result);
        sonar_peaks_run(p, result);
        sonar_detect_raise(&p->live->plan->config->mvdr_scan, &p->tops,
                           result->surface[SONAR_MVDR_AZIMUTH].data);
    }
    sonar_latency_add(p, SONAR_LATENCY_DETECT, began);
    sonar_latency_stage(p, SONAR_TIMED_DETECT, p->trip.part_ns[SONAR_LATENCY_DETECT]);
    return code;
}

/* Runs the stages and makes the result of their surfaces. */
static sonar_code run_stages(sonar_pipeline *p, const sonar_engine_job *job, sonar_result *result,
                             bool *cancelled, sonar_error *err) {
    int64_t began = sonar_monotonic_ns();
    sonar_code code = sonar_engine_begin(p->engine, job, err);
    sonar_latency_add(p, SONAR_LATENCY_ENGINE, began);
    code = p->sharing->cancelled(p, code, cancelled, err);
    if (!code && !*cancelled && result)
        code = conclude_beams(p, job->outputs, result, err);
    if (code || *cancelled)
        return code;
    began = sonar_monotonic_ns();
    code = sonar_engine_finish(p->engine, err);
    sonar_latency_add(p, SONAR_LATENCY_ENGINE, began);
    return code || !result ? code : conclude(p, job->outputs, result, err);
}

static sonar_code process(sonar_pipeline *p, const struct turn *turn, bool *cancelled,
                          sonar_error *err) {
    const sonar_window *window = &turn->window;
    const bool restart = sonar_live_adopt(p, window);
    if (restart || window->restarted)
        sonar_engine_forget(p->engine);
    sonar_code code = SONAR_OK;
    if (p->sharing->missing && turn->wanted & SONAR_WANT(SONAR_ELEMENT_MISSING))
        code = p->sharing->missing(p, turn, err);
    if (turn->result) {
        describe(p, window, turn->result);
        sonar_ranks_describe(p, turn->result);
        sonar_live_lend(p, turn->result);
        sonar_navigate_window(p, window, turn->result);
    }
    sonar_tow_bend(p, window, turn->result);
    const sonar_engine_job job = {
        .window = turn->samples ? turn->samples : window,
        .params = sonar_pipeline_params(p),
        .outputs = sonar_pipeline_needed(p->live->plan->config, turn->wanted),
        .surface = turn->result ? turn->result->surface : NULL,
        .absent = !turn->samples,
        .lookback = sonar_min_size(window->lookback, p->config->specs.mvdr_lookback)};
    if (!code && job.outputs & SONAR_WANT(SONAR_BEAM_AUDIO))
        code = sonar_beams_run(p, turn, err);
    if (turn->result)
        turn->result->present = turn->wanted & job.outputs;
    if (!code)
        code = run_stages(p, &job, turn->result, cancelled, err);
    return *cancelled ? code : p->sharing->end(p, code, cancelled, err);
}

void sonar_data_note_failure(struct progress *progress, const sonar_error *err) {
    atomic_fetch_add(&progress->windows_failed, 1);
    if (atomic_load_explicit(&progress->failed_new, memory_order_acquire))
        return; /* the control thread has not read the last error yet */
    progress->failure = *err;
    atomic_store_explicit(&progress->failed_new, true, memory_order_release);
}

/* The result that reports the changes was posted, so they need not be reported again. */
static void note_reported(sonar_pipeline *p) {
    struct versions *v = &p->versions;
    v->mask_changed = v->config_changed = v->mvdr_restarted = false;
}

/* Posts the result, if there is one, then collects the stages' times. */
static void publish(sonar_pipeline *p, sonar_result *result) {
    const int64_t posted = sonar_monotonic_ns();
    const bool sent = result && sonar_output_post(p->output, result);
    if (sent)
        note_reported(p);
    else if (result)
        sonar_result_keep(p, result);
    sonar_engine_collect_times(p->engine); /* after the result, so that no reader waits for it */
    if (sent)
        sonar_latency_posted(p, result, posted);
}

/* Work after the window's result is posted, so that no reader waits for it. */
static void finish(sonar_pipeline *p, bool good, int64_t began_ns) {
    sonar_mask_finish(p);
    if (good)
        atomic_fetch_add(&p->progress.windows_processed, 1);
    atomic_store(&p->progress.busy_since_ns, 0); /* first, so that it is not counted twice */
    atomic_fetch_add(&p->progress.busy_ns, (uint64_t)(sonar_monotonic_ns() - began_ns));
}

/* False: the thread has to end. If a stop came during the window, some of its tasks were not run:
 * the window is discarded, which is not a failure. */
static bool handle(sonar_pipeline *p, struct turn *turn) {
    const int64_t began = sonar_monotonic_ns();
    atomic_store(&p->progress.busy_since_ns, began);
    sonar_latency_begin(p, &turn->window, began);
    sonar_error err = {0};
    bool cancelled = false;
    turn->result = p->sharing->result(p, &turn->wanted);
    if (!turn->result && sonar_is_root(p))
        atomic_fetch_add(&p->progress.results_dropped, 1);
    const sonar_code code = process(p, turn, &cancelled, &err);
    const bool good = !code && !cancelled;
    if (good)
        publish(p, turn->result);
    else if (turn->result)
        sonar_result_keep(p, turn->result);
    if (cancelled)
        atomic_store(&p->progress.window_given_up, true);
    else if (code)
        sonar_data_note_failure(&p->progress, &err);
    finish(p, good, began);
    return good || (!cancelled && p->sharing->recover(p, &err));
}

/* ---- one process ----------------------------------------------------------------------------- */

static enum next next_window(sonar_pipeline *p, struct turn *turn) {
    if (atomic_load(&p->stopping))
        return SONAR_NEXT_LEAVE;
    const bool draining = atomic_load(
        &p->draining); /* read first: if it is set, no window follows the one taken below */
    if (atomic_load(&p->training_since_ns) && !draining && !sonar_pipeline_retrain(p))
        return SONAR_NEXT_LEAVE;
    turn->samples = &turn->window;
    if (sonar_ingest_take(p->ingest, &turn->window))
        return SONAR_NEXT_WORK;
    if (draining)
        return SONAR_NEXT_LEAVE;
    take_back(p);
    sonar_engine_prefetch(p->engine);
    sonar_engine_rest(p->engine);
    sonar_wake_wait(sonar_ingest_fd(p->ingest), 50);
    return SONAR_NEXT_LOOK;
}

/* With `block`, waits until the output returns a result; otherwise returns NULL if all are lent. */
static sonar_result *borrow_result(sonar_pipeline *p, uint32_t *wanted) {
    sonar_result *result = sonar_result_find(p);
    while (!result && p->config->overload == SONAR_BLOCK && !atomic_load(&p->stopping)) {
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        result = sonar_result_find(p);
    }
    *wanted = result ? sonar_output_wanted(p->output) & p->config->output_topics : 0;
    return result;
}

/* After a cancellation an error of the window no longer matters. */
static sonar_code is_cancelled(sonar_pipeline *p, sonar_code code, bool *cancelled,
                               sonar_error *err) {
    (void)err;
    *cancelled = sonar_pool_cancelled(p->pool);
    return *cancelled ? SONAR_OK : code;
}

static bool recover(sonar_pipeline *p, const sonar_error *why) {
    sonar_engine_forget(p->engine); /* the covariance may contain only a part of the window */
    return sonar_pipeline_recover(p, why);
}

const struct sharing sonar_sharing_none = {.next = next_window,
                                           .result = borrow_result,
                                           .cancelled = is_cancelled,
                                           .end = is_cancelled,
                                           .recover = recover};

/* ---- the thread ------------------------------------------------------------------------------ */

void *sonar_data_thread(void *arg) {
    sonar_pipeline *p = arg;
    struct turn turn;
    enum next next;
    sonar_denormals_flush();
    sonar_engine_use(p->engine,
                     NULL); /* if this fails, the first window fails too and reports why */
    do {
        atomic_fetch_add_explicit(&p->progress.rounds, 1, memory_order_relaxed);
        turn = (struct turn){0};
        next = p->sharing->next(p, &turn);
        if (next == SONAR_NEXT_WORK && !handle(p, &turn))
            next = SONAR_NEXT_LEAVE;
    } while (next != SONAR_NEXT_LEAVE);
    sonar_ranks_leave(p);
    atomic_store(&p->drained, true);
    return NULL;
}
