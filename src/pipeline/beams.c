/* SPDX-License-Identifier: GPL-3.0-or-later */
/* beam.audio: computed before the engine runs, because that releases the window's samples. Ranks
 * that share the array sum over their own sensors, and the root adds their sums. */
#include <math.h>
#include <string.h>

#include "pipeline/internal.h"

sonar_code sonar_beams_create(sonar_pipeline *p, sonar_error *err) {
    const sonar_beam_spec spec = sonar_config_beam(p->config);
    return spec.beams ? sonar_beam_create(&spec, &p->host, &p->beam, err) : SONAR_OK;
}

/* Where the beams of a run look: what the root decides. */
struct aim {
    sonar_beam_look look[SONAR_BEAMS_MOST];
    double heading_deg[2];
};

/* Looks at the tracks that beams follow, as they are expected in the middle of the run. The bearing
 * is true if it can be, so that the beam also follows the heading. */
static void look_at_tracks(const sonar_pipeline *p, const sonar_result *result, struct aim *aim) {
    const sonar_config *c = p->live->plan->config;
    const bool turns = isfinite(aim->heading_deg[0] + aim->heading_deg[1]);
    const double middle = (double)result->beam_begin + 0.5 * (double)p->config->specs.hop,
                 from_middle = middle - 0.5 * (double)result->window_length;
    for (size_t i = 0; i < c->specs.beams; i++) {
        sonar_beam_look *look = &aim->look[i];
        *look = c->beam[i];
        if (!look->track.follows)
            continue;
        const sonar_track_place place =
            sonar_tracking_expect(p, result, look->track.number, from_middle / p->config->fs_hz);
        look->track.state = place.state;
        look->is_true = turns && isfinite(place.bearing_deg);
        look->deg = look->is_true ? place.bearing_deg : place.az_deg;
    }
}

static void take_aim(sonar_pipeline *p, sonar_result *result, struct aim *aim) {
    const sonar_beam_spec spec = sonar_config_beam(p->config);
    result->beam_begin = sonar_beam_begin(&spec, p->config->specs.window_length);
    result->beam_gain_db = sonar_beam_gain_db(sonar_live_whole(p->live));
    aim->heading_deg[0] = sonar_navigate_at(p, result, result->beam_begin);
    aim->heading_deg[1] = sonar_navigate_at(p, result, result->beam_begin + (ptrdiff_t)spec.hop);
    look_at_tracks(p, result, aim);
}

/* Sums over the sensors of this process. Without samples of the window all values are NaN. */
static void sum_up(sonar_pipeline *p, const struct turn *turn, const struct aim *aim, float *to,
                   sonar_beam_facts *facts) {
    const sonar_config *c = p->live->plan->config;
    if (!turn->samples) {
        for (size_t i = 0; i < c->specs.beams; i++)
            facts[i] =
                (sonar_beam_facts){.az_deg = NAN, .bearing_deg = NAN, .track = aim->look[i].track};
        for (size_t i = 0; i < c->specs.beams * p->config->specs.hop; i++)
            to[i] = NAN;
        return;
    }
    sonar_window window = *turn->samples;
    window.restarted = turn->window.restarted;
    const sonar_beam_job job = {
        .window = &window,
        .params = sonar_pipeline_params(p),
        .scan = &c->cbf_scan,
        .beams = c->specs.beams,
        .look = aim->look,
        .range_m = c->beam_range_m,
        .range_reference = c->range_reference,
        .heading_deg = {aim->heading_deg[0], aim->heading_deg[1]},
    };
    sonar_beam_run(p->beam, &job, p->config->specs.window_length, to, facts);
}

sonar_code sonar_beams_run(sonar_pipeline *p, const struct turn *turn, sonar_error *err) {
    const struct sharing *sharing = p->sharing;
    const size_t beams = p->live->plan->config->specs.beams, hop = p->config->specs.hop;
    sonar_result *result = turn->result;
    sonar_beam_facts others[SONAR_BEAMS_MOST], *facts = result ? result->beam : others;
    float *whole = result ? result->surface[SONAR_BEAM_AUDIO].data : NULL;
    struct aim aim;
    memset(&aim, 0, sizeof aim); /* its padding is sent, too */
    if (result)
        take_aim(p, result, &aim);
    if (!sharing->add) {
        sum_up(p, turn, &aim, whole, facts);
        return SONAR_OK;
    }
    sonar_code code = sharing->tell(p, &aim, sizeof aim, err);
    if (code)
        return code;
    sum_up(p, turn, &aim, p->ranks.beams, facts);
    if ((code = sharing->add(p, p->ranks.beams, beams * hop, whole, err)) != SONAR_OK || !result)
        return code;
    for (size_t i = 0; i < beams; i++) {
        facts[i].missing = 0;
        for (size_t t = 0; t < hop; t++)
            facts[i].missing += isnan(whole[i * hop + t]);
    }
    return SONAR_OK;
}
