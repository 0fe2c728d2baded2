/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Element health on its way: the data thread measures, the control thread judges, and with
 * array.auto_mask makes parameters without the sensors that spoil the beams. The two meet in two
 * slots, one for new parameters and one for those they have replaced: nobody waits, and the data
 * thread neither allocates nor frees. */
#include <string.h>

#include "pipeline/internal.h"

/* ---- control thread -------------------------------------------------------------------------- */

sonar_code sonar_mask_create(sonar_pipeline *p, sonar_error *err) {
    const sonar_config *c = p->config;
    const sonar_elements_spec spec = {
        .sensors = c->sensors,
        .channels = c->channels,
        .channel = c->channel,
        .used = c->used,
        .scale = p->params->scale,
        .fs_hz = c->fs_hz,
        .length = c->specs.window_length,
        .hop = c->specs.hop,
        .low_hz = c->lofar_band.low_hz,
        .high_hz = c->lofar_band.high_hz,
    };
    p->mask.latest = p->params;
    return sonar_elements_create(&spec, &p->host, &p->elements, err);
}

void sonar_mask_destroy(sonar_pipeline *p) {
    sonar_params_destroy(atomic_exchange(&p->mask.fresh, NULL));
    sonar_params_destroy(atomic_exchange(&p->mask.replaced, NULL));
    sonar_elements_destroy(p->elements);
}

/* Each slot holds one: new parameters are made once the last have been adopted, and what these have
 * replaced is taken back first. */
static void offer(sonar_pipeline *p) {
    struct mask *mask = &p->mask;
    sonar_error err = {0};
    sonar_params *fresh, *replaced = atomic_exchange(&mask->replaced, NULL);
    sonar_params_destroy(replaced);
    if (!mask->wanted || atomic_load(&mask->fresh))
        return;
    if (sonar_params_mask(mask->latest, sonar_elements_mask(p->elements), mask->latest->version + 1,
                          &fresh, &err)) {
        sonar_log(&p->host, SONAR_ERROR, err.where, "%s: the mask stays as it is", err.text);
        return; /* the next second tries again */
    }
    mask->wanted = false;
    mask->latest = fresh;
    atomic_store(&mask->fresh, fresh);
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
    struct mask *mask = &p->mask;
    if (sonar_elements_judge(p->elements) && p->config->auto_mask)
        mask->wanted = true;
    const sonar_params *before = mask->latest;
    offer(p);
    status->params = sonar_params_tell(mask->latest);
    sonar_elements_read(p->elements, mask->latest->used, &status->elements);
    if (mask->latest != before)
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

static bool returns(const sonar_params *before, const sonar_params *now) {
    for (size_t s = 0; s < now->sensors; s++)
        if (now->used[s] && !before->used[s])
            return true;
    return false;
}

static bool differs(const sonar_params *before, const sonar_params *now) {
    return memcmp(before->used, now->used, now->sensors) != 0;
}

bool sonar_mask_adopt(sonar_pipeline *p) {
    sonar_params *fresh = atomic_exchange(&p->mask.fresh, NULL), *before = p->params;
    if (!fresh)
        return false;
    p->params = fresh;
    p->mask.changed = p->mask.changed || differs(before, fresh);
    bool restart = returns(before, fresh);
    atomic_store(&p->mask.replaced, before);
    return restart;
}
