/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Element health on its way: the data thread measures, the control thread judges, and with
 * array.auto_mask makes a version without the sensors that spoil the beams. */
#include "pipeline/internal.h"

/* ---- control thread -------------------------------------------------------------------------- */

sonar_code sonar_mask_create(sonar_pipeline *p, sonar_error *err) {
    const sonar_config *c = p->config;
    const sonar_elements_spec spec = {
        .sensors = c->sensors,
        .channels = c->channels,
        .channel = c->channel,
        .used = c->used,
        .scale = p->live->params->scale,
        .fs_hz = c->fs_hz,
        .length = c->specs.window_length,
        .hop = c->specs.hop,
        .low_hz = c->lofar_band.low_hz,
        .high_hz = c->lofar_band.high_hz,
    };
    return sonar_elements_create(&spec, &p->host, &p->elements, err);
}

/* What fails is tried again a second later. */
static bool offer(sonar_pipeline *p) {
    sonar_error err = {0};
    if (!p->versions.mask_wanted)
        return false;
    if (sonar_live_offer(p, NULL, &err)) {
        sonar_log(&p->host, SONAR_ERROR, err.where, "%s: the mask stays as it is", err.text);
        return false;
    }
    p->versions.mask_wanted = false;
    return true;
}

static void tell(const sonar_pipeline *p, const sonar_element_health *health) {
    char sensors[120];
    sonar_channel_set_print(&health->masked_auto.sensors, sensors, sizeof sensors);
    sonar_log(&p->host, SONAR_WARN, "array.auto_mask",
              health->masked_auto.sensors.count ? "the beams do without %u sensors: %s"
                                                : "all sensors are back",
              health->masked_auto.sensors.count, sensors);
}

void sonar_mask_tick(sonar_pipeline *p, sonar_status *status) {
    if (sonar_elements_judge(p->elements) && sonar_pipeline_config(p)->auto_mask)
        p->versions.mask_wanted = true;
    const bool changed = offer(p);
    const sonar_params *latest = p->versions.latest->params;
    status->params = sonar_params_tell(p->ranks.cluster ? p->ranks.params : latest);
    sonar_elements_read(p->elements, latest->used, &status->elements);
    if (changed)
        tell(p, &status->elements);
}

/* ---- data thread ----------------------------------------------------------------------------- */

void sonar_mask_measure(sonar_pipeline *p, const sonar_window *window) {
    sonar_buffer in[2];
    if (!sonar_elements_due(p->elements, window->first_sample))
        return;
    sonar_window_span(window, window->first_sample, sonar_elements_stretch(p->elements), in);
    sonar_elements_measure(p->elements, window->first_sample, in, window->missing);
}
