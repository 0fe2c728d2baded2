/* SPDX-License-Identifier: GPL-3.0-or-later */
/* tracks: contacts of the window joined to those of the windows before. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/internal.h"

/* ---- from one start to the next -------------------------------------------------------------- */

/* The array, the UTC of the last window, whether the run goes on, and what the tracker says. */
#define HEAD_FORMAT "sonard %" PRIu32 " %" PRId64 "%s\n"
#define GOES_ON     " running"
enum {
    TEXT_MOST = 64 + SONAR_TRACKS_TEXT,
    STORED_S = 10,  /* of samples, from one file of a run to the next */
    SKIPPED = 1000, /* more numbers than are given in this time */
};

/* False: there is no such file. Not for recordings that another program processes. */
static bool path_of(const sonar_pipeline *p, char path[PATH_MAX]) {
    const char *folder = p->config->state_dir;
    if (!folder || p->config->reader || !sonar_is_root(p))
        return false;
    const int length = snprintf(path, PATH_MAX, "%s/tracks", folder);
    return length > 0 && length < PATH_MAX;
}

static void restore(sonar_pipeline *p) {
    char path[PATH_MAX], *text = NULL;
    size_t bytes;
    uint32_t array = 0;
    int64_t utc_ns = 0;
    int used = 0;
    sonar_error err = {0};
    if (!path_of(p, path) || sonar_state_read(path, TEXT_MOST, &text, &bytes, &err) != SONAR_OK)
        return;
    const bool good =
        sscanf(text, "sonard %" SCNu32 " %" SCNd64 "%n", &array, &utc_ns, &used) == 2 &&
        array == p->config->array_id;
    const bool crashed = good && !strncmp(text + used, GOES_ON, strlen(GOES_ON));
    used += crashed ? (int)strlen(GOES_ON) : 0;
    if (good && text[used] == '\n')
        p->tracking.restored = sonar_tracks_restore(p->tracking.tracks, text + used + 1);
    if (p->tracking.restored && crashed)
        sonar_tracks_skip(p->tracking.tracks, SKIPPED);
    p->tracking.utc_ns = utc_ns;
    free(text);
}

static void write_text(struct tracking *is, uint32_t array, const char *goes_on) {
    const int head = snprintf(is->text, TEXT_MOST, HEAD_FORMAT, array, is->utc_ns, goes_on);
    is->bytes = (size_t)head + sonar_tracks_save(is->tracks, is->text + head);
    is->text_sample = is->middle_sample;
}

static void complain(sonar_pipeline *p, const sonar_error *err) {
    if (!p->tracking.complained)
        sonar_log(&p->host, SONAR_WARN, err->where, "%s; tracks get new numbers", err->text);
    p->tracking.complained = true;
}

void sonar_tracking_tick(sonar_pipeline *p) {
    struct tracking *is = &p->tracking;
    char path[PATH_MAX];
    sonar_error err = {0};
    if (!atomic_load_explicit(&is->ready, memory_order_acquire) || !path_of(p, path))
        return;
    if (sonar_state_write_soon(path, is->text, is->bytes, &err))
        complain(p, &err);
    atomic_store_explicit(&is->ready, false, memory_order_release);
}

void sonar_tracking_save(sonar_pipeline *p) {
    struct tracking *is = &p->tracking;
    char path[PATH_MAX];
    sonar_error err = {0};
    if (!is->text || !is->epoch || !path_of(p, path))
        return;
    write_text(is, p->config->array_id, "");
    if (sonar_state_write(path, is->text, is->bytes, &err))
        complain(p, &err);
}

sonar_code sonar_tracking_create(sonar_pipeline *p, sonar_error *err) {
    if (!p->config->detect_enabled || !(p->config->output_topics & SONAR_WANT(SONAR_TRACKS)))
        return SONAR_OK;
    p->tracking.tracks = sonar_tracks_create();
    char path[PATH_MAX];
    const bool stored = path_of(p, path);
    p->tracking.text = stored ? sonar_alloc(TEXT_MOST, 1) : NULL;
    if (!p->tracking.tracks || (stored && !p->tracking.text))
        return sonar_fail(err, SONAR_ENOMEM, "pipeline", "no memory for tracks");
    restore(p);
    return SONAR_OK;
}

/* ---- windows --------------------------------------------------------------------------------- */

static double middle_of(const sonar_result *result) {
    return (double)result->first_sample + 0.5 * (double)result->window_length;
}

/* Between the middles of this window and the last one. Samples of another epoch are counted from
 * another origin: then UTC says, else a hop. */
static double since_last_s(const sonar_pipeline *p, const sonar_result *result) {
    const struct tracking *last = &p->tracking;
    double since_s = -1;
    if (last->epoch == result->epoch)
        since_s = (middle_of(result) - last->middle_sample) / p->config->fs_hz;
    else if (last->utc_ns && result->middle_utc_ns)
        since_s = (double)(result->middle_utc_ns - last->utc_ns) / 1e9;
    return since_s > 0 ? since_s : (double)p->config->specs.hop / p->config->fs_hz;
}

/* Half of a tapered window's samples are as good as new ones; MVDR's block has all with equal
 * weight. */
static sonar_tracks_window window_of(const sonar_pipeline *p, const sonar_result *result) {
    const sonar_config *c = p->live->plan->config;
    const double since_s = since_last_s(p, result), fs_hz = p->config->fs_hz;
    const double half_s = 0.5 * (double)result->window_length / fs_hz;
    sonar_tracks_window w = {
        .since_s = since_s, .detection = result->detection, .detections = result->detections};
    if (p->live->plan->tones)
        w.bin_hz = sonar_cbf_bin_hz(c);
    w.of[SONAR_FROM_CBF] = (sonar_tracks_look){.scan = &c->cbf_scan,
                                               .heading_deg = result->params.heading_deg,
                                               .fresh = fmin(since_s / half_s, 1)};
    if (!c->specs.mvdr_enabled || result->mvdr_end_sample <= result->mvdr_first_sample)
        return w;
    const double begin = (double)result->mvdr_first_sample, end = (double)result->mvdr_end_sample;
    w.of[SONAR_FROM_MVDR] =
        (sonar_tracks_look){.scan = &c->mvdr_scan,
                            .heading_deg = result->mvdr_heading_deg,
                            .lag_s = (middle_of(result) - (begin + end) / 2) / fs_hz,
                            .fresh = fmin(since_s * fs_hz / (end - begin), 1)};
    return w;
}

/* A recording that is played again begins before the stored tracks end: it gets none of them, so
 * that it has the same tracks each time. */
static void check_restored(struct tracking *is, const sonar_result *result) {
    if (is->restored && (!is->utc_ns || result->middle_utc_ns <= is->utc_ns))
        sonar_tracks_forget(is->tracks);
    is->restored = false;
}

sonar_track_place sonar_tracking_expect(const sonar_pipeline *p, const sonar_result *result,
                                        uint64_t number, double from_middle_s) {
    if (!p->tracking.tracks || !p->tracking.epoch)
        return (sonar_track_place){SONAR_TRACK_UNKNOWN, NAN, NAN};
    return sonar_tracks_expect(p->tracking.tracks, number,
                               fmax(since_last_s(p, result) + from_middle_s, 0));
}

/* Every STORED_S, for a run that ends without its end. */
static void prepare_file(sonar_pipeline *p) {
    struct tracking *is = &p->tracking;
    const double since_s = fabs(is->middle_sample - is->text_sample) / p->config->fs_hz;
    if (!is->text || since_s < STORED_S || atomic_load_explicit(&is->ready, memory_order_acquire))
        return;
    write_text(is, p->config->array_id, GOES_ON);
    atomic_store_explicit(&is->ready, true, memory_order_release);
}

/* Since the last window; 0 where a heading is unknown. */
static double turned_deg(const struct tracking *last, const sonar_result *result) {
    const double turned = remainder(result->params.heading_deg - last->heading_deg, 360);
    return isfinite(turned) ? turned : 0;
}

void sonar_tracking_run(sonar_pipeline *p, sonar_result *result) {
    check_restored(&p->tracking, result);
    sonar_tracks_window w = window_of(p, result);
    sonar_faint_contact faint[SONAR_FAINT_MOST];
    w.faint = faint;
    w.faints = sonar_faint_contacts(p, result, &w, turned_deg(&p->tracking, result), faint);
    result->tracks = sonar_tracks_run(p->tracking.tracks, &w, result->track);
    p->tracking.middle_sample = middle_of(result);
    p->tracking.heading_deg = result->params.heading_deg;
    p->tracking.epoch = result->epoch;
    p->tracking.utc_ns = result->middle_utc_ns;
    prepare_file(p);
}
