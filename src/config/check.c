/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rules that need the resolved configuration: warnings about configurations that run, but not as
 * their owner expects. */
#include "config/access.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "status/topic.h"
#include "manifold/bearings.h"

static double frequency(const sonar_config *c, size_t bin, size_t length) {
    return (double)bin * c->fs_hz / (double)length;
}

static double band_top_hz(const sonar_config *c, const sonar_band *band, size_t length) {
    return frequency(c, band->first_bin + band->bins - 1, length);
}

/* Returns the band option that is in use: hz, or bins, which is next in the table. */
static sonar_option_id band_option(const sonar_loader *l, sonar_option_id hz) {
    return l->settings->value[hz].origin == SONAR_ABSENT ? (sonar_option_id)(hz + 1) : hz;
}

static void check_alias(sonar_loader *l, sonar_option_id hz, const sonar_band *band,
                        size_t length) {
    const sonar_config *c = l->config;
    const double alias = sonar_alias_hz(&c->geometry, c->sound_speed_mps);
    if (alias > 0 && band_top_hz(c, band, length) > alias * (1 + 1e-9))
        warn(l, band_option(l, hz), NULL,
             "spatial aliasing %s at %.6g Hz: above it sensors %.6g m apart see one source in "
             "several directions%s",
             c->geometry.uniform_line ? "begins" : "can begin", alias, c->geometry.spacing_m,
             sonar_config_millimetres(c, band_top_hz(c, band, length)));
}

static void check_window(sonar_loader *l, sonar_option_id id, size_t length) {
    const sonar_config *c = l->config;
    const double crossing_s = c->geometry.aperture_m / c->sound_speed_mps;
    const double window_s = (double)length / c->fs_hz;
    if (window_s < 4 * crossing_s)
        warn(l, id, NULL,
             "%zu samples, %.6g ms, are less than four times the %.6g ms that sound takes across "
             "the array: bearings will be biased; %.0f samples or more would do",
             length, 1e3 * window_s, 1e3 * crossing_s, ceil(4 * crossing_s * c->fs_hz));
}

enum { WINDOW_MOST_S = 60 };

static void check_duration(sonar_loader *l) {
    const sonar_config *c = l->config;
    const double seconds = (double)c->specs.window_length / c->fs_hz;
    if (seconds > WINDOW_MOST_S)
        warn(l, OPT_LENGTH, NULL,
             "%zu samples at %g Hz are a window of %.3g minutes: a source that turns by a beam "
             "width "
             "in that time is smeared",
             c->specs.window_length, c->fs_hz, seconds / 60);
}

/* Sea water has 1400 to 1600 m/s, fresh water begins there, air has 300 to 360. */
static void check_sound_speed(sonar_loader *l) {
    const double c_mps = l->config->sound_speed_mps;
    if (!(c_mps >= 1400 && c_mps <= 1600) && !(c_mps >= 300 && c_mps <= 360))
        warn(l, OPT_SOUND_SPEED, "1400 to 1600 m/s in water, 300 to 360 m/s in air",
             "%g m/s is not the speed of sound in water or in air: bearings will be wrong", c_mps);
}

static void check_sensitivity(sonar_loader *l) {
    const sonar_value *v = value(l, OPT_SENSITIVITY);
    for (size_t i = 0; v->origin != SONAR_ABSENT && i < v->count; i++)
        if (v->numbers[i] > -100) {
            warn(l, OPT_SENSITIVITY, "numbers below 0: -220 to -150 is usual",
                 "%g dB re 1 V/uPa is more than any hydrophone has", v->numbers[i]);
            return;
        }
}

/* With `origin: given` the reference point may lie off the line. */
static void check_abeam(sonar_loader *l) {
    const sonar_config *c = l->config;
    const double *a = c->geometry.axis, *p = c->position_m;
    if (c->range_reference != SONAR_ABEAM || !c->specs.cbf.ranges)
        return;
    const double along = p[0] * a[0] + p[1] * a[1] + p[2] * a[2];
    const double square = p[0] * p[0] + p[1] * p[1] + p[2] * p[2] - along * along;
    const double off = sqrt(fmax(square, 0));
    if (off > 0.01 * c->range_m[0])
        warn(l, OPT_RANGE_REFERENCE, "origin: centroid, or radial",
             "the line passes the reference point at %.4g m: ranges abeam are relative to the "
             "parallel "
             "through that point",
             off);
}

static void check_hop(sonar_loader *l, sonar_option_id id, size_t hop, size_t length) {
    if (hop > length)
        warn(l, id, NULL, "%zu samples of every %zu are never processed", hop - length, hop);
}

/* `step` is the option of the scan's step; a scan without a step is automatic. */
static void check_scan(sonar_loader *l, sonar_option_id step, const sonar_scan *scan) {
    const double asked = l->settings->value[step].number;
    if (l->settings->value[step].origin == SONAR_FROM_FILE && scan->count > 1 &&
        asked > 0.5 * scan->beam_width_deg)
        warn(l, step, "auto, or a smaller step",
             "%g deg is coarser than half the beam width of %.3g deg at the band's top: peaks "
             "between two directions are missed",
             asked, scan->beam_width_deg);
}

static void check_ranges(sonar_loader *l) {
    const sonar_config *c = l->config;
    const double top = band_top_hz(c, &c->cbf_band, c->specs.cbf.length),
                 d = c->geometry.aperture_m;
    const double widest = 7 * c->sound_speed_mps / top / (d * d);
    size_t coarse = 0, first = 0;
    for (size_t i = c->specs.cbf.ranges; i-- > 1;)
        if (1 / c->range_m[i - 1] - 1 / c->range_m[i] > widest * (1 + 1e-9)) {
            coarse++;
            first = i - 1;
        }
    if (coarse)
        warn(l, OPT_RANGES, "auto, [] or a finer list",
             "range unresolved: %zu of %zu steps, the first at %g m, are too coarse for an array "
             "of %.4g m at %.4g Hz; a source between two ranges loses level and bearing",
             coarse, c->specs.cbf.ranges - 1, c->range_m[first], d, top);
}

static const double *mirror_of(const sonar_config *c, size_t k, double tolerance) {
    const double *p = c->position_m + 3 * k;
    for (size_t i = 0; i < c->sensors; i++) {
        /* the same sensor when numbered from the other end: the mirror image in most arrays */
        const size_t j = (2 * c->sensors - 1 - k - i) % c->sensors;
        const double *q = c->position_m + 3 * j;
        if (fabs(p[0] + q[0]) <= tolerance && fabs(p[1] + q[1]) <= tolerance &&
            fabs(p[2] + q[2]) <= tolerance)
            return q;
    }
    return NULL;
}

static void check_symmetry(sonar_loader *l) {
    const sonar_config *c = l->config;
    const double tolerance = 1e-6 * fmax(c->geometry.spacing_m, 1e-6);
    size_t dropped = 0;
    for (size_t k = 0; k < c->sensors; k++) {
        const double *mirror = mirror_of(c, k, tolerance);
        if (!mirror) {
            sonar_report_add(l->report, SONAR_MISTAKE, l->text,
                             sonar_place_of(l, OPT_FORWARD_BACKWARD), "false",
                             "mvdr.forward_backward: the positions must be symmetric about the "
                             "reference point; sensor %zu has no mirror image",
                             k);
            return;
        }
        dropped += c->used[k] && !c->used[(size_t)(mirror - c->position_m) / 3];
    }
    if (dropped)
        warn(l, OPT_FORWARD_BACKWARD, NULL,
             "%zu mirror images of masked sensors are left out of the adaptive spectrum", dropped);
}

/* Warns where the snapshots are too few to separate a bin's noise from its sources. */
static void check_covariance(sonar_loader *l) {
    const sonar_config *c = l->config;
    const size_t least = 2 * c->specs.mvdr.known_sources + 3;
    const size_t looks = c->specs.mvdr.snapshots * (c->specs.mvdr.forward_backward ? 2 : 1);
    if (c->specs.mvdr.alpha > 0 ||
        !c->specs.mvdr.snapshots) /* 0: an invalid forgetting, reported already */
        return;
    if (c->specs.mvdr.snapshots == 1)
        warn(l, OPT_SNAPSHOTS, NULL,
             "a covariance of 1 snapshot is no average: levels scatter by 6 dB, and sources that "
             "sound together are one");
    else if (looks < least && c->specs.mvdr.loading == SONAR_LOADING_NOISE)
        warn(l, OPT_SNAPSHOTS, NULL,
             "%zu snapshots are too few for the noise rule, which needs %zu: the trace rule takes "
             "its place",
             c->specs.mvdr.snapshots, c->specs.mvdr.forward_backward ? (least + 1) / 2 : least);
}

/* Bearings lag by half the snapshots' time. A source that turns by a beam width in that time loses
 * 2.5 dB (docs/mvdr.md, Turns). A boat that passes at 3 km with 5 m/s turns by 0.1 deg/s. */
static void check_turns(sonar_loader *l) {
    enum { HINT = 96 };
    const double passes_deg_per_s = 0.1, crossings = 4;
    const sonar_config *c = l->config;
    const double seconds = sonar_config_mvdr_seconds(c);
    const double turn = c->mvdr_scan.beam_width_deg / seconds;
    char hint[HINT] = "fewer snapshots";
    if (!c->specs.mvdr_enabled || !(turn < passes_deg_per_s) ||
        (double)c->specs.window_length / c->fs_hz > WINDOW_MOST_S) /* reported there */
        return;
    double length = 64;
    while (length < crossings * c->geometry.aperture_m / c->sound_speed_mps * c->fs_hz)
        length *= 2;
    if (length < (double)c->specs.mvdr.length)
        snprintf(hint, sizeof hint, "fewer snapshots, or shorter ones: length %.0f, hop %.0f",
                 length, length / 2);
    warn(l, c->specs.mvdr.alpha > 0 ? OPT_FORGETTING : OPT_SNAPSHOTS, hint,
         "%.3g s of samples in each adaptive spectrum: its bearings lag by half of that, and a "
         "source "
         "that turns by more than %.2g deg/s is smeared",
         seconds, turn);
}

/* Rules for options that need a source count. */
static void check_modes(sonar_loader *l) {
    const sonar_mvdr_spec *mvdr = &l->config->specs.mvdr;
    if (mvdr->white_noise_gain_db < 0 && (mvdr->dmr || mvdr->correct_level))
        sonar_report_add(
            l->report, SONAR_MISTAKE, l->text, sonar_place_of(l, OPT_WHITE_NOISE_GAIN),
            mvdr->dmr ? "mvdr.dmr: off" : "mvdr.correct_level: false",
            "mvdr.white_noise_gain_db: %s",
            mvdr->dmr ? "dominant modes have no loading that it could add to"
                      : "levels cannot be corrected where each direction has its own loading");
    if (mvdr->source_count != SONAR_COUNT_OFF)
        return;
    if (mvdr->dmr == SONAR_MODES_COUNTED || mvdr->music == SONAR_MODES_COUNTED)
        sonar_report_add(l->report, SONAR_MISTAKE, l->text, sonar_place_of(l, OPT_SOURCE_COUNT),
                         "mdl or random_matrix",
                         "mvdr.source_count: mvdr.%s: auto needs a source count",
                         mvdr->dmr == SONAR_MODES_COUNTED ? "dmr" : "music");
}

/* Warns only about the MVDR's own options: those taken over from dft and cbf have their own checks.
 */
static void check_mvdr(sonar_loader *l) {
    const sonar_config *c = l->config;
    if (given(l, OPT_MVDR_LENGTH))
        check_window(l, OPT_MVDR_LENGTH, c->specs.mvdr.length);
    if (given(l, OPT_MVDR_HOP))
        check_hop(l, OPT_MVDR_HOP, c->specs.mvdr_hop, c->specs.mvdr.length);
    if (given(l, OPT_MVDR_BAND_HZ) || given(l, OPT_MVDR_BAND_BINS))
        check_alias(l, OPT_MVDR_BAND_HZ, &c->mvdr_band, c->specs.mvdr.length);
    check_scan(l, OPT_MVDR_SCAN_STEP, &c->mvdr_scan);
    check_covariance(l);
    check_turns(l);
    check_modes(l);
    if (c->specs.mvdr.forward_backward)
        check_symmetry(l);
}

/* Checks for samples between the CBF's snapshots that no snapshot of a following window
 * contains. */
static void check_snapshots(sonar_loader *l) {
    const sonar_config *c = l->config;
    const size_t step = sonar_min_size(c->specs.cbf_hop, c->specs.cbf.length);
    const size_t seen = (c->specs.cbf.max_snapshots - 1) * step + c->specs.cbf.length;
    if (seen < c->specs.hop)
        warn(l, given(l, OPT_CBF_HOP) ? OPT_CBF_HOP : OPT_CBF_LENGTH, NULL,
             "%zu samples of every %zu are never processed", c->specs.hop - seen, c->specs.hop);
}

/* Warns about topics that are listed but never published. The default, all topics, does not warn.
 */
static void check_topics(sonar_loader *l) {
    const sonar_config *c = l->config;
    uint32_t mvdr = 0;
    for (int i = 0; i < SONAR_SURFACES; i++)
        mvdr |= sonar_topic_is_mvdr((sonar_surface)i) ? SONAR_WANT(i) : 0;
    if (c->output_topics == SONAR_WANT(SONAR_SURFACES) - 1)
        return;
    if (!c->specs.mvdr_enabled && c->output_topics & mvdr)
        warn(l, OPT_TOPICS, NULL, "no mvdr topic is published while mvdr.enabled is false");
    if (!c->detect_enabled && c->output_topics & SONAR_WANT(SONAR_DETECTIONS))
        warn(l, OPT_TOPICS, NULL, "detections are not published while detections.enabled is false");
    if (!c->detect_enabled && c->output_topics & SONAR_WANT(SONAR_TRACKS))
        warn(l, OPT_TOPICS, NULL, "tracks are not published while detections.enabled is false");
    if (!c->specs.cbf.ranges && c->output_topics & SONAR_WANT(SONAR_CBF_NEARFIELD))
        warn(l, OPT_TOPICS, NULL, "cbf.nearfield is not published without cbf.ranges_m");
    if (!c->specs.beams && c->output_topics & SONAR_WANT(SONAR_BEAM_AUDIO))
        warn(l, OPT_TOPICS, "beam.az_deg, beam.bearing_deg or beam.track",
             "beam.audio is not published without beams");
    if (c->specs.mvdr_enabled && !c->specs.mvdr.ranges &&
        c->output_topics & SONAR_WANT(SONAR_MVDR_NEARFIELD))
        warn(l, OPT_TOPICS, "mvdr.nearfield: true, and cbf.ranges_m",
             "the topic mvdr.nearfield is not published without %s",
             c->mvdr_nearfield ? "cbf.ranges_m" : "the option mvdr.nearfield");
    if (c->specs.mvdr_enabled && !c->specs.mvdr.music &&
        c->output_topics & SONAR_WANT(SONAR_MUSIC_AZIMUTH))
        warn(l, OPT_TOPICS, "mvdr.music: auto, or a number of sources",
             "the topic music.azimuth is not published without the option mvdr.music");
}

/* The adaptive near field needs mvdr.enabled and cbf.ranges_m; MUSIC needs mvdr.enabled. */
static void check_mvdr_extras(sonar_loader *l) {
    const sonar_config *c = l->config;
    if (c->mvdr_nearfield && !c->specs.mvdr_enabled)
        warn(l, OPT_MVDR_NEARFIELD, NULL, "has no effect while mvdr.enabled is false");
    else if (c->mvdr_nearfield && !c->specs.cbf.ranges)
        warn(l, OPT_MVDR_NEARFIELD, NULL, "has no effect without cbf.ranges_m");
    if (c->specs.mvdr.music && !c->specs.mvdr_enabled)
        warn(l, OPT_MUSIC, NULL, "has no effect while mvdr.enabled is false");
}

static void check_beams(sonar_loader *l) {
    const sonar_config *c = l->config;
    const double exact_hz = SONAR_BEAM_SHARE * c->fs_hz / 2;
    if (c->specs.beams && band_top_hz(c, &c->cbf_band, c->specs.cbf.length) > exact_hz)
        warn(l, sonar_beams_option(l), NULL,
             "beam.audio is exact up to %.6g Hz, and the CBF's band ends above that", exact_hz);
}

static void check_compasses(sonar_loader *l) {
    const sonar_config *c = l->config;
    const size_t at = value(l, OPT_TOW_COMPASS_AT)->count,
                 offsets = value(l, OPT_TOW_COMPASS_OFFSET)->count;
    if (!c->tow_compasses)
        fail(l, OPT_TOW_MODEL, "navigation.tow.compasses",
             "an array needs compasses to be placed by");
    else if (at != c->tow_compasses)
        fail(l, OPT_TOW_COMPASS_AT, "one number for each of navigation.tow.compasses",
             "%zu numbers for %zu compasses", at, c->tow_compasses);
    else if (offsets != 1 && offsets != c->tow_compasses)
        fail(l, OPT_TOW_COMPASS_OFFSET, "one number, or one for each of navigation.tow.compasses",
             "%zu numbers for %zu compasses", offsets, c->tow_compasses);
    for (size_t i = 1; i < c->tow_compasses && at == c->tow_compasses; i++)
        if (!(c->tow_compass_at_m[i] > c->tow_compass_at_m[i - 1])) {
            fail(l, OPT_TOW_COMPASS_AT, "compasses from the front to the back",
                 "%g m does not follow %g m", c->tow_compass_at_m[i], c->tow_compass_at_m[i - 1]);
            return;
        }
    if (value(l, OPT_TOW_SCOPE)->origin != SONAR_ABSENT)
        warn(l, OPT_TOW_SCOPE, NULL, "with sensors the length of the cable is not used");
}

static void check_tow(sonar_loader *l) {
    const sonar_config *c = l->config;
    double front_m;
    if (c->tow_compasses && c->tow_model != SONAR_TOW_SENSORS)
        warn(l, OPT_TOW_COMPASSES, "navigation.tow.model: sensors", "these compasses are not used");
    if (c->tow_model == SONAR_TOW_OFF)
        return;
    if (c->tow_model == SONAR_TOW_SENSORS)
        check_compasses(l);
    else if (value(l, OPT_TOW_SCOPE)->origin == SONAR_ABSENT)
        fail(l, OPT_TOW_MODEL, "navigation.tow.scope_m", "a towed array needs its cable's length");
    else if (c->tow_depth_m >= c->tow_scope_m)
        fail(l, OPT_TOW_DEPTH, "less than navigation.tow.scope_m",
             "%g m of cable do not reach a depth of %g m", c->tow_scope_m, c->tow_depth_m);
    if (c->heading_offset_deg != 0)
        fail(l, OPT_NAV_OFFSET, "0, with +x of the array towards the tow point",
             "a towed array has a heading of its own");
    if (!(sonar_config_tow_length(c, &front_m) > 0))
        fail(l, OPT_TOW_MODEL, "off", "the array has no length along +x");
    if (sonar_config_bends(c) && c->specs.mvdr_enabled && c->specs.mvdr.forward_backward)
        fail(l, OPT_TOW_MODEL, "rigid, or mvdr.forward_backward: false",
             "an array that bends is not symmetric");
}

static void check_bearings(sonar_loader *l) {
    const sonar_config *c = l->config;
    if (c->bearing_reference != SONAR_REFERENCE_TRUE)
        return;
    if (!sonar_bearings_exist(&c->cbf_scan))
        warn(l, OPT_BEARING_REFERENCE, NULL, "%s",
             c->cbf_scan.cone ? "a vertical line has no bearings: spectra stay in its frame"
                              : "with so few directions spectra stay in the array frame");
    else if (!c->heading_known && !c->navigation_nmea[0] && !c->navigation_endpoint)
        warn(l, OPT_BEARING_REFERENCE, "array.heading_deg or navigation",
             "no heading is known until sonarctl sets one");
}

/* "3, 7, 9, ..." */
static void list_some(const uint8_t *wanted, size_t count, char *words, size_t size) {
    size_t at = 0, shown = 0;
    *words = 0;
    for (size_t i = 0; i < count && at + 16 < size; i++)
        if (wanted[i] && shown++ < 8)
            at += (size_t)snprintf(words + at, size - at, "%s%zu", at ? ", " : "", i);
    if (shown > 8)
        snprintf(words + at, size - at, ", ...");
}

static void check_channels(sonar_loader *l) {
    const sonar_config *c = l->config;
    uint8_t *idle = sonar_alloc(c->channels, 1);
    if (!idle) {
        no_memory(l);
        return;
    }
    char words[128];
    memset(idle, 1, c->channels);
    for (size_t k = 0; k < c->sensors; k++)
        idle[c->channel[k]] = 0;
    list_some(idle, c->channels, words, sizeof words);
    if (c->channels > c->sensors)
        warn(l, given(l, OPT_CHANNEL_COUNT) ? OPT_CHANNEL_COUNT : OPT_CHANNELS, NULL,
             "%zu of the %zu channels of a frame feed no sensor: %s", c->channels - c->sensors,
             c->channels, words);
    free(idle);
}

typedef struct placed {
    double at[3];
    size_t sensor;
} placed;

static int by_place(const void *a, const void *b) {
    const placed *p = a, *q = b;
    for (int i = 0; i < 3; i++)
        if (p->at[i] != q->at[i])
            return p->at[i] < q->at[i] ? -1 : 1;
    return p->sensor < q->sensor ? -1 : 1;
}

/* Warns about two sensors at one position: one of them was probably copied by mistake. */
static void check_places(sonar_loader *l) {
    const sonar_config *c = l->config;
    placed *sensors = sonar_alloc(c->sensors, sizeof *sensors);
    if (!sensors) {
        no_memory(l);
        return;
    }
    size_t count = 0, pairs = 0, first = 0;
    for (size_t k = 0; k < c->sensors; k++)
        if (c->used[k]) {
            memcpy(sensors[count].at, c->position_m + 3 * k, sizeof sensors->at);
            sensors[count++].sensor = k;
        }
    qsort(sensors, count, sizeof *sensors, by_place);
    for (size_t i = 1; i < count; i++)
        if (!memcmp(sensors[i].at, sensors[i - 1].at, sizeof sensors->at) && !pairs++)
            first = i;
    if (pairs)
        warn(l, OPT_POSITIONS_LIST, NULL, "sensors %zu and %zu are at one place%s",
             sensors[first - 1].sensor, sensors[first].sensor,
             pairs > 1 ? ", and so are others" : "");
    free(sensors);
}

void sonar_check_resolved(sonar_loader *l) {
    const sonar_config *c = l->config;
    check_channels(l);
    if (c->geometry_kind == SONAR_GEOMETRY_POSITIONS)
        check_places(l);
    check_sound_speed(l);
    check_sensitivity(l);
    check_duration(l);
    check_abeam(l);
    check_window(l, OPT_LENGTH, c->specs.window_length);
    check_hop(l, OPT_HOP, c->specs.hop, c->specs.window_length);
    if (given(l, OPT_CBF_LENGTH))
        check_window(l, OPT_CBF_LENGTH, c->specs.cbf.length);
    if (given(l, OPT_CBF_LENGTH) || given(l, OPT_CBF_HOP))
        check_snapshots(l);
    check_alias(l, OPT_CBF_BAND_HZ, &c->cbf_band, c->specs.cbf.length);
    if (c->lofar_band.first_bin + c->lofar_band.bins > c->cbf_band.first_bin + c->cbf_band.bins)
        check_alias(l, OPT_LOFAR_BAND_HZ, &c->lofar_band, c->specs.cbf.length);
    check_scan(l, OPT_CBF_SCAN_STEP, &c->cbf_scan);
    check_ranges(l);
    check_mvdr_extras(l);
    check_topics(l);
    check_bearings(l);
    check_tow(l);
    check_beams(l);
    if (c->specs.mvdr_enabled)
        check_mvdr(l);
}
