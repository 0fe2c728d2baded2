/* SPDX-License-Identifier: GPL-3.0-or-later */
/* beam.audio: computed before the engine runs, because that releases the window's samples. */
#include <math.h>

#include "pipeline/internal.h"

sonar_code sonar_beams_create(sonar_pipeline *p, sonar_error *err) {
    const sonar_beam_spec spec = sonar_config_beam(p->config);
    return spec.beams ? sonar_beam_create(&spec, &p->host, &p->beam, err) : SONAR_OK;
}

/* Looks at the tracks that beams follow, as they are expected in the middle of the run. The bearing
 * is true if it can be, so that the beam also follows the heading. */
static void look_at_tracks(const sonar_pipeline *p, const sonar_result *result,
                           const sonar_beam_job *job, sonar_beam_look *look) {
    const bool turns = isfinite(job->heading_deg[0] + job->heading_deg[1]);
    const double middle = (double)result->beam_begin + 0.5 * (double)p->config->specs.hop,
                 from_middle = middle - 0.5 * (double)result->window_length;
    for (size_t i = 0; i < job->beams; i++) {
        look[i] = job->look[i];
        if (!look[i].track.follows)
            continue;
        const sonar_track_place place =
            sonar_tracking_expect(p, result, look[i].track.number, from_middle / p->config->fs_hz);
        look[i].track.state = place.state;
        look[i].is_true = turns && isfinite(place.bearing_deg);
        look[i].deg = look[i].is_true ? place.bearing_deg : place.az_deg;
    }
}

void sonar_beams_run(sonar_pipeline *p, const sonar_window *window, sonar_result *result) {
    const sonar_config *c = p->live->plan->config;
    const sonar_beam_spec made = sonar_config_beam(p->config);
    const ptrdiff_t begin = sonar_beam_begin(&made, p->config->specs.window_length);
    sonar_beam_look look[SONAR_BEAMS_MOST];
    sonar_beam_job job = {
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
    look_at_tracks(p, result, &job, look);
    job.look = look;
    sonar_beam_run(p->beam, &job, p->config->specs.window_length,
                   result->surface[SONAR_BEAM_AUDIO].data, result->beam);
}
