/* SPDX-License-Identifier: GPL-3.0-or-later */
/* beam.audio: computed before the engine runs, because that releases the window's samples. */
#include "pipeline/internal.h"

sonar_code sonar_beams_create(sonar_pipeline *p, sonar_error *err) {
    const sonar_beam_spec spec = sonar_config_beam(p->config);
    return spec.beams ? sonar_beam_create(&spec, &p->host, &p->beam, err) : SONAR_OK;
}

void sonar_beams_run(sonar_pipeline *p, const sonar_window *window, sonar_result *result) {
    const sonar_config *c = p->live->plan->config;
    const sonar_beam_spec made = sonar_config_beam(p->config);
    const ptrdiff_t begin = sonar_beam_begin(&made, p->config->specs.window_length);
    const sonar_beam_job job = {
        .window = window,
        .params = sonar_pipeline_params(p),
        .scan = &c->cbf_scan,
        .beams = c->specs.beams,
        .look = c->beam,
        .range_m = c->beam_range_m,
        .range_reference = c->range_reference,
        .heading_deg = {sonar_navigate_at(p, result, begin),
                        sonar_navigate_at(p, result, begin + (ptrdiff_t)made.hop)},
    };
    result->beam_begin = begin;
    result->beam_gain_db = sonar_beam_gain_db(p->live->params);
    sonar_beam_run(p->beam, &job, p->config->specs.window_length,
                   result->surface[SONAR_BEAM_AUDIO].data, result->beam);
}
