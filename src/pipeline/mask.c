/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Element health: the data thread measures, the control thread judges and, with array.auto_mask,
 * makes a version without the faulty sensors. */
#include "pipeline/internal.h"

/* ---- control thread -------------------------------------------------------------------------- */

static sonar_code create(sonar_pipeline *p, const sonar_config *c, const sonar_params *params,
                         sonar_elements **elements, sonar_error *err) {
    const sonar_elements_spec spec = {
        .sensors = c->sensors,
        .channels = c->channels,
        .channel = c->channel,
        .used = c->used,
        .scale = params->scale,
        .fs_hz = c->fs_hz,
        .length = c->specs.window_length,
        .hop = c->specs.hop,
        .low_hz = c->lofar_band.low_hz,
        .high_hz = c->lofar_band.high_hz,
    };
    return sonar_elements_create(&spec, &p->host, elements, err);
}

sonar_code sonar_mask_create(sonar_pipeline *p, sonar_error *err) {
    sonar_code code = create(p, p->config, p->live->params, &p->elements, err);
    if (!code && p->place.ranks == 1)
        p->judged = p->elements;
    else if (!code && sonar_is_root(p))
        code = create(p, p->whole, p->live->whole, &p->judged, err);
    return code;
}

void sonar_mask_destroy(sonar_pipeline *p) {
    if (p->judged != p->elements)
        sonar_elements_destroy(p->judged);
    sonar_elements_destroy(p->elements);
}

/* A failed attempt is repeated a second later. */
static bool offer(sonar_pipeline *p) {
    sonar_error err = {0};
    if (!p->versions.mask_wanted || sonar_letters_busy(p->ranks.change.letters))
        return false;
    if (sonar_pipeline_reconfigure(p, NULL, &err)) {
        sonar_log(&p->host, SONAR_ERROR, err.where, "%s: the mask does not change", err.text);
        return false;
    }
    p->versions.mask_wanted = false;
    return true;
}

static const uint8_t *used_now(const sonar_pipeline *p) {
    return sonar_live_whole(p->versions.latest)->used;
}

void sonar_mask_log(const sonar_pipeline *p) {
    char sensors[120];
    sonar_element_health health;
    sonar_elements_read(p->judged, used_now(p), &health);
    sonar_channel_set_print(&health.masked_auto.sensors, sensors, sizeof sensors);
    sonar_log(&p->host, SONAR_WARN, "array.auto_mask",
              health.masked_auto.sensors.count ? "the beams leave out %u sensors: %s"
                                               : "the beams use all sensors again",
              health.masked_auto.sensors.count, sensors);
}

void sonar_mask_tick(sonar_pipeline *p, sonar_status *status) {
    if (p->judged && sonar_elements_judge(p->judged) && sonar_pipeline_config(p)->auto_mask)
        p->versions.mask_wanted = true;
    const bool changed = p->judged && offer(p);
    status->params = sonar_params_tell(sonar_live_whole(p->versions.latest));
    if (p->judged)
        sonar_elements_read(p->judged, used_now(p), &status->elements);
    if (changed && p->judged == p->elements) /* with ranks, logged once all have it */
        sonar_mask_log(p);
}

/* ---- data thread ----------------------------------------------------------------------------- */

static void measure(sonar_pipeline *p, const sonar_window *window, int64_t began) {
    sonar_buffer in[2];
    sonar_window_span(window, window->first_sample, sonar_elements_stretch(p->elements), in);
    sonar_elements_measure(p->elements, window->first_sample, in, window->missing);
    sonar_latency_stage(p, SONAR_TIMED_HEALTH, (uint64_t)(sonar_monotonic_ns() - began));
}

/* A window may be held as long as no other waits behind it. If one waits, the node is already late,
 * and holding the samples longer would lose samples of later windows. */
void sonar_mask_release(sonar_pipeline *p, const sonar_window *window) {
    const bool due = sonar_elements_due(p->elements, window->first_sample);
    if (due && !sonar_ingest_waiting(p->ingest)) {
        p->kept = window;
        return;
    }
    const int64_t began = sonar_monotonic_ns();
    if (due)
        measure(p, window, began);
    sonar_latency_add(p, SONAR_LATENCY_HEALTH, began);
    sonar_ingest_release(p->ingest, window);
}

void sonar_mask_finish(sonar_pipeline *p) {
    const sonar_window *window = p->kept;
    p->kept = NULL;
    if (!window)
        return;
    if (!sonar_pool_cancelled(p->pool))
        measure(p, window, sonar_monotonic_ns());
    sonar_ingest_release(p->ingest, window);
}
