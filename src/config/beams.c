/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The beams that have a time series: where they look, and how many samples steering them takes.
 * Called by resolve.c once array, transforms and directions are resolved. */
#include <math.h>
#include <stdio.h>

#include "analysis/beam/beam.h"
#include "config/access.h"
#include "core/core.h"
#include "status/topic.h"

/* Sensors times beams times samples a second: about what one core does (docs/beams.md). */
static const double MOST = 1e9;
/* Room for a lower sound speed than that of the start. */
static const double ROOM = 1.1;

/* Where a beam by a track looks, is found out window by window. */
static sonar_beam_look look_of(sonar_option_id id, double number) {
    return id == OPT_BEAM_TRACK
               ? (sonar_beam_look){.deg = NAN,
                                   .track = {.follows = true, .number = (uint64_t)number}}
               : (sonar_beam_look){.deg = number, .is_true = id == OPT_BEAM_BEARING};
}

static bool add_looks(sonar_loader *l, sonar_option_id id, const char *name) {
    sonar_config *c = l->config;
    const sonar_value *v = value(l, id);
    for (size_t i = 0; have(l, id) && i < v->count; i++) {
        if (c->specs.beams == SONAR_BEAMS_MOST)
            return fail(l, id, NULL,
                        "beam.az_deg, beam.bearing_deg and beam.track have more than %d beams",
                        SONAR_BEAMS_MOST);
        if (id == OPT_BEAM_AZ && c->cbf_scan.cone && !(v->numbers[i] >= 0 && v->numbers[i] <= 180))
            return fail(l, id, "angles from the line's axis, 0 to 180",
                        "a line has no beam at %g deg", v->numbers[i]);
        snprintf(c->beam_name[c->specs.beams], sizeof c->beam_name[0], "%s%.*g", name,
                 id == OPT_BEAM_TRACK ? 10 : 6, v->numbers[i]);
        c->beam[c->specs.beams++] = look_of(id, v->numbers[i]);
    }
    return !v->bad;
}

/* The largest delay of any direction. That of a point is no larger: |s| - |s - p| <= |p|. */
static double delay_s(const sonar_config *c) {
    double most = 0;
    for (size_t s = 0; s < c->sensors; s++) {
        const double *p = c->position_m + 3 * s;
        const double far = sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2]) / c->sound_speed_mps;
        most = fmax(most, far + fabs(c->delay_us[s]) * 1e-6);
    }
    return most;
}

static bool check_cost(sonar_loader *l, sonar_option_id first) {
    const sonar_config *c = l->config;
    const double rate = (double)c->specs.beams * (double)c->sensors * c->fs_hz;
    return rate <= MOST ||
           fail(l, first, NULL,
                "%zu beams of %zu sensors at %g Hz are %.3g additions a second, and at most %.3g "
                "are possible: at most %.0f beams",
                c->specs.beams, c->sensors, c->fs_hz, rate, MOST,
                floor(MOST / ((double)c->sensors * c->fs_hz)));
}

static bool check_beams(sonar_loader *l, sonar_option_id first) {
    const sonar_config *c = l->config;
    if (c->specs.hop > c->specs.window_length)
        return fail(l, first, NULL,
                    "a time series needs all samples, and dft.hop %zu skips some between windows "
                    "of %zu",
                    c->specs.hop, c->specs.window_length);
    for (size_t s = 0; s < c->sensors; s++)
        if (c->phase_deg[s] != 0)
            return fail(l, first, NULL,
                        "a phase that is the same at all frequencies cannot be corrected in a time "
                        "series, but sensor %zu has array.phase_deg %g",
                        s, c->phase_deg[s]);
    return check_cost(l, first);
}

/* Tracks are computed for a beam that follows one, with the memory of the topic. */
static bool check_followed(sonar_loader *l) {
    sonar_config *c = l->config;
    c->beam_follows = value(l, OPT_BEAM_TRACK)->count > 0;
    if (c->beam_follows && !c->detect_enabled)
        return fail(l, OPT_BEAM_TRACK, "beams by tracks with detections.enabled: true",
                    "without detections there are no tracks to follow");
    if (c->beam_follows && !(c->output_topics & SONAR_WANT(SONAR_TRACKS)))
        return fail(l, OPT_BEAM_TRACK, "beams by tracks with tracks in output.topics",
                    "output.topics leaves out the tracks to follow");
    return true;
}

sonar_beam_spec sonar_config_beam(const sonar_config *c) {
    return (sonar_beam_spec){.sensors = c->sensors,
                             .beams = c->specs.beams,
                             .hop = c->specs.hop,
                             .reach = c->specs.beam_reach,
                             .fs_hz = c->fs_hz};
}

sonar_option_id sonar_beams_option(const sonar_loader *l) {
    if (value(l, OPT_BEAM_AZ)->count)
        return OPT_BEAM_AZ;
    return value(l, OPT_BEAM_BEARING)->count ? OPT_BEAM_BEARING : OPT_BEAM_TRACK;
}

bool sonar_resolve_beams(sonar_loader *l) {
    sonar_config *c = l->config;
    c->specs.lookback = c->specs.mvdr_lookback;
    if (!have(l, OPT_BEAM_RANGE))
        c->beam_range_m = INFINITY;
    if (!add_looks(l, OPT_BEAM_AZ, "az") || !add_looks(l, OPT_BEAM_BEARING, "bearing") ||
        !add_looks(l, OPT_BEAM_TRACK, "track") || !check_followed(l))
        return false;
    const sonar_option_id first = sonar_beams_option(l);
    if (!c->specs.beams)
        return true;
    if (!check_beams(l, first))
        return false;
    const double delay = ceil(delay_s(c) * c->fs_hz);
    if (ROOM * delay > sonar_options[OPT_LENGTH].high)
        return fail(l, first, NULL, "sound takes %.3g samples across the array", delay);
    c->specs.beam_delay = (size_t)delay;
    c->specs.beam_reach = (size_t)ceil(ROOM * delay);
    const sonar_beam_spec spec = sonar_config_beam(c);
    c->specs.lookback =
        sonar_max_size(c->specs.lookback, sonar_beam_lookback(&spec, c->specs.window_length));
    return true;
}
