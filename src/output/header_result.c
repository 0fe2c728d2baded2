/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The headers of a window's surfaces and of its detections. Called by messages.c. */
#include <math.h>
#include <string.h>

#include "output/header_parts.h"

/* ---- when and which way ---------------------------------------------------------------------- */

/* a digitiser sends 0 for "unknown" */
static void put_utc(const json *root, const char *name, int64_t utc_ns) {
    if (utc_ns != 0)
        put_int(root, name, utc_ns);
    else
        put_null(root, name);
}

/* In the middle of the MVDR's samples. */
static double mvdr_heading(const sonar_result *result) {
    return result->navigated ? result->mvdr_heading_deg : result->params.heading_deg;
}

double sonar_header_heading(const sonar_result *result, sonar_surface surface) {
    return is_mvdr(surface) ? mvdr_heading(result) : result->params.heading_deg;
}

/* Which samples it covers. A time series covers others than the window whose result it is. */
static void put_position(const json *root, const sonar_output_spec *spec, sonar_surface surface,
                         const sonar_result *result) {
    const bool series = surface == SONAR_BEAM_AUDIO;
    const int64_t behind = series ? result->beam_begin : 0;
    const int64_t behind_ns = (int64_t)llrint((double)behind / spec->fs_hz * 1e9);
    put_uint(root, "window", result->window);
    put_int(root, "sample_index", (int64_t)result->first_sample + behind);
    put_uint(root, "window_length", series ? spec->beam_samples : result->window_length);
    put_uint(root, "epoch", result->epoch);
    put_utc(root, "utc_ns", result->utc_ns ? result->utc_ns + behind_ns : 0);
}

/* How the spectrum was resampled from the scan's directions to true bearings; null if it was
 * not. */
static void put_resampled(const json *root, const sonar_scan *scan,
                          const sonar_bearings *bearings) {
    static const char *const name[] = {
        [SONAR_INTERPOLATE_CUBIC] = "cubic", [SONAR_INTERPOLATE_NEAREST] = "nearest"};
    if (!bearings) {
        put_null(root, "resampled");
        return;
    }
    json resampled = put_object(root, "resampled");
    put_string(&resampled, "interpolation", name[sonar_bearings_interpolation(bearings)]);
    put_uint(&resampled, "directions", scan->count);
}

/* ---- flags ----------------------------------------------------------------------------------- */

static void append_flags(const json *flags, uint32_t bits, size_t count,
                         const char *const *name /* names of bit 0, 1, ... */) {
    for (size_t i = 0; i < count; i++)
        if (bits & (1u << i))
            append_string(flags, name[i]);
}

static void put_flags(const json *root, const sonar_result *result, bool with_mvdr) {
    static const char *const frame[] = {"discontinuity", "overload", "clock_unsynchronised"};
    static const char *const mvdr[] = {"not_converged", "level_biased", "trace_fallback",
                                       "loading_floor"};
    json flags = put_array(root, "flags");
    if (result->missing_worst > 0)
        append_string(&flags, "gap");
    append_flags(&flags, result->frame_flags, 3, frame);
    if (result->underflow)
        append_string(&flags, "underflow");
    if (result->ranks_absent)
        append_string(&flags, "rank_absent");
    if (with_mvdr)
        append_flags(&flags, result->mvdr_flags, 4, mvdr);
    if (result->restarted)
        append_string(&flags, "restarted");
    if (result->heading_stale)
        append_string(&flags, "heading_stale");
    if (result->tow_unknown)
        append_string(&flags, "tow_unknown");
    if (result->shape_changed && with_mvdr)
        append_string(&flags, "shape_changed");
    if (result->mask_changed)
        append_string(&flags, "mask_changed");
    if (result->config_changed)
        append_string(&flags, "config_changed");
    if (result->mvdr_restarted && with_mvdr)
        append_string(&flags, "mvdr_restarted");
}

static void put_missing(const json *root, const sonar_result *result) {
    json share = put_object(root, "missing_share");
    put_number(&share, "mean", result->missing_mean);
    put_number(&share, "worst", result->missing_worst);
}

/* ---- the adaptive spectra -------------------------------------------------------------------- */

static void put_sources(const json *root, const sonar_output_spec *spec,
                        const sonar_result *result) {
    if (!spec->source_count) {
        put_null(root, "sources");
        return;
    }
    json sources = put_object(root, "sources");
    put_string(&sources, "rule", spec->source_count);
    put_number(&sources, "median", result->mvdr_sources);
    put_number(&sources, "most", (double)result->mvdr_most_sources);
}

/* How the levels were computed. */
static void put_levels(const json *root, const sonar_output_spec *spec,
                       const sonar_result *result) {
    json loading = put_object(root, "loading");
    put_string(&loading, "rule", spec->loading_rule);
    put_number(&loading, "eps", spec->loading_eps);
    put_number(&loading, "delta", result->mvdr_delta);
    if (spec->loading_rule && !strcmp(spec->loading_rule, "dmr"))
        put_number(&loading, "modes", result->mvdr_modes);
    put_number(root, "level_bias_db", result->mvdr_level_db);
    put_bool(root, "level_corrected", spec->level_corrected);
    if (!(spec->white_noise_gain_db < 0)) {
        put_null(root, "white_noise_gain");
        return;
    }
    json gain = put_object(root, "white_noise_gain");
    put_number(&gain, "limit_db", spec->white_noise_gain_db);
    put_number(&gain, "limited_share", result->mvdr_limited);
}

/* A pseudo-spectrum has no levels. */
static void put_music(const json *root, const sonar_output_spec *spec, const sonar_result *result) {
    put_null(root, "loading");
    put_null(root, "level_bias_db");
    put_bool(root, "level_corrected", false);
    put_null(root, "white_noise_gain");
    json music = put_object(root, "music");
    put_bool(&music, "counted", spec->music < 0);
    put_number(&music, "median", result->music_sources);
    put_number(&music, "most", (double)result->music_most_sources);
    put_uint(&music, "bins", result->music_bins);
}

static void put_mvdr(const json *root, const sonar_output_spec *spec, const sonar_result *result) {
    put_sources(root, spec, result);
    put_uint(root, "tonal_bins", result->mvdr_tonal_bins);
    if (result->mvdr_end_sample > result->mvdr_first_sample) {
        put_uint(root, "first_sample", result->mvdr_first_sample);
        put_uint(root, "last_sample", result->mvdr_end_sample - 1);
    } else {
        put_null(root, "first_sample");
        put_null(root, "last_sample");
    }
    put_uint(root, "bins_not_converged", result->mvdr_bins_not_converged);
    put_number(root, "worst_residual", (double)result->mvdr_worst_residual);
    put_number(root, "most_sweeps", (double)result->mvdr_most_sweeps);
}

/* ---- detections ------------------------------------------------------------------------------ */

static const char *const name_of_source[] = {
    [SONAR_FROM_CBF] = "cbf", [SONAR_FROM_MVDR] = "mvdr", [SONAR_FROM_SPECTRUM] = "spectrum"};
static const char *const name_of_side[] = {[SONAR_SIDE_ALL] = NULL,
                                           [SONAR_SIDE_UNKNOWN] = "unknown",
                                           [SONAR_SIDE_STARBOARD] = "starboard",
                                           [SONAR_SIDE_PORT] = "port"};

static void put_rests_on(const json *item, unsigned rests_on) {
    json sources = put_array(item, "rests_on");
    for (int i = SONAR_FROM_CBF; i <= SONAR_FROM_SPECTRUM; i++)
        if (rests_on & 1u << i)
            append_string(&sources, name_of_source[i]);
}

static void put_detection(const json *list, const sonar_detection *d) {
    json item = append_object(list);
    put_string(&item, "source", name_of_source[d->source]);
    put_number(&item, "az_deg", d->az_deg);
    put_number(&item, "bearing_deg", d->bearing_deg);
    put_number(&item, "mirror_deg", d->mirror_deg);
    put_number(&item, "bearing_sigma_deg", d->bearing_sigma_deg);
    put_string(&item, "side", name_of_side[d->side]);
    put_number(&item, "side_confidence", d->side == SONAR_SIDE_ALL ? NAN : d->side_confidence);
    put_number(&item, "level", d->power);
    put_number(&item, "level_db", 10 * log10(d->power)); /* 0 and negative powers give null */
    put_number(&item, "background", d->background);
    put_number(&item, "snr_db", d->snr_db);
    put_number(&item, "width_deg", d->width_deg);
    put_number(&item, "range_m", d->range_m);
    put_bool(&item, "range_unresolved", d->range_unresolved);
    put_bool(&item, "possible_image", d->image);
    put_uint(&item, "contact", d->contact);
    put_rests_on(&item, d->rests_on);
    json tones = put_array(&item, "tones");
    for (size_t i = 0; i < d->tones; i++) {
        json tone = append_object(&tones);
        put_number(&tone, "hz", d->tone[i].hz);
        put_number(&tone, "snr_db", d->tone[i].snr_db);
    }
}

static void put_detections(const json *root, const sonar_result *result) {
    json list = put_array(root, "detections");
    size_t most = sizeof result->detection / sizeof result->detection[0];
    for (size_t i = 0; i < result->detections && i < most; i++)
        put_detection(&list, &result->detection[i]);
}

/* ---- tracks ---------------------------------------------------------------------------------- */

static void put_track_bearing(const json *list, const sonar_track_bearing *b) {
    json item = append_object(list);
    put_number(&item, "bearing_deg", b->deg);
    put_number(&item, "bearing_sigma_deg", b->sigma_deg);
    put_number(&item, "rate_deg_per_min", b->rate_dpm);
    put_number(&item, "rate_sigma_deg_per_min", b->rate_sigma_dpm);
    put_number(&item, "correlation", b->correlation);
    put_string(&item, "side", name_of_side[b->side]);
    put_number(&item, "probability", b->probability);
}

static const char *const name_of_state[] = {[SONAR_TRACK_TENTATIVE] = "tentative",
                                            [SONAR_TRACK_CONFIRMED] = "confirmed",
                                            [SONAR_TRACK_COASTING] = "coasting",
                                            [SONAR_TRACK_LOST] = "lost",
                                            [SONAR_TRACK_UNKNOWN] = "unknown"};

static void put_track(const json *list, const sonar_track *t) {
    json item = append_object(list);
    put_uint(&item, "number", t->number);
    put_string(&item, "state", name_of_state[t->state]);
    put_number(&item, "existence", t->existence);
    json bearings = put_array(&item, "bearings");
    for (size_t i = 0; i < t->bearings; i++)
        put_track_bearing(&bearings, &t->bearing[i]);
    put_number(&item, "az_deg", t->az_deg);
    put_number(&item, "snr_db", t->snr_db);
    put_number(&item, "age_s", t->age_s);
    put_number(&item, "unheard_s", t->unheard_s);
    if (t->contact == SIZE_MAX)
        put_null(&item, "contact");
    else
        put_uint(&item, "contact", t->contact);
    put_rests_on(&item, t->rests_on);
    json tones = put_array(&item, "tones_hz");
    for (size_t i = 0; i < t->tones; i++)
        append_number(&tones, t->tone_hz[i]);
}

static void put_tracks(const json *root, const sonar_result *result) {
    json list = put_array(root, "tracks");
    for (size_t i = 0; i < result->tracks && i < SONAR_TRACKS_MOST; i++)
        put_track(&list, &result->track[i]);
}

/* ---- time series ----------------------------------------------------------------------------- */

static void put_beams(const json *root, const sonar_output_spec *spec, const sonar_result *result) {
    put_number(root, "range_m", spec->beam_range_m);
    put_number(root, "array_gain_db", result->beam_gain_db);
    json list = put_array(root, "beams");
    for (size_t i = 0; i < spec->beams; i++) {
        const sonar_beam_facts *facts = &result->beam[i];
        json item = append_object(&list);
        put_string(&item, "name", spec->beam_name[i]);
        put_number(&item, "az_deg", facts->az_deg);
        put_number(&item, "bearing_deg", facts->bearing_deg);
        put_uint(&item, "missing", facts->missing);
        if (facts->track.follows)
            put_uint(&item, "track", facts->track.number);
        else
            put_null(&item, "track");
        put_string(&item, "track_state",
                   facts->track.follows ? name_of_state[facts->track.state] : NULL);
    }
}

/* ---- whole ----------------------------------------------------------------------------------- */

/* What the surface was computed from: heading, time, number of sensors and snapshots. */
static void put_basis(const json *root, const sonar_output_spec *spec, sonar_surface surface,
                      const sonar_result *result) {
    const bool mvdr = is_mvdr(surface), list = sonar_topic_is_list(surface);
    const sonar_params_facts *params = &result->params;
    const char *source = isfinite(params->heading_deg) ? "configuration" : NULL;
    put_string(root, "heading_source", result->navigated ? "navigation" : source);
    put_utc(root, "utc_middle_ns", mvdr ? result->mvdr_middle_utc_ns : result->middle_utc_ns);
    sonar_header_put_band(root, spec, surface);
    put_uint(root, "sensors_used", mvdr ? params->mvdr_sensors_used : params->sensors_used);
    const double snapshots = mvdr ? result->mvdr_snapshots : result->cbf_snapshots;
    put_number(root, "snapshots", list || surface == SONAR_BEAM_AUDIO ? NAN : snapshots);
}

/* How to interpret its levels. */
static void put_method(const json *root, const sonar_output_spec *spec, sonar_surface surface,
                       const sonar_result *result) {
    if (!is_mvdr(surface)) {
        put_null(root, "loading");
        return;
    }
    const bool most = surface == SONAR_MVDR_AZIMUTH && spec->cell_maximum;
    put_string(root, "value", most ? "cell_maximum" : "direction");
    if (surface == SONAR_MUSIC_AZIMUTH)
        put_music(root, spec, result);
    else
        put_levels(root, spec, result);
    put_mvdr(root, spec, result);
}

/* `detections` covers both spectra; this describes the adaptive one. */
static void put_adaptive(const json *root, const sonar_output_spec *spec,
                         const sonar_result *result) {
    json adaptive = put_object(root, "mvdr");
    put_uint(&adaptive, "sensors_used", result->params.mvdr_sensors_used);
    put_number(&adaptive, "snapshots", result->mvdr_snapshots);
    put_number(&adaptive, "heading_deg", mvdr_heading(result));
    put_utc(&adaptive, "utc_middle_ns", result->mvdr_middle_utc_ns);
    put_levels(&adaptive, spec, result);
    put_mvdr(&adaptive, spec, result);
}

char *sonar_header_result(const sonar_output_spec *spec, sonar_surface surface, const char *axes,
                          const sonar_bearings *bearings, const sonar_result *result, uint64_t seq,
                          double latency_us) {
    const bool both = sonar_topic_is_list(surface) && spec->mvdr_scan;
    json_text text = {0};
    json root = json_object(&text);
    sonar_header_put_identity(&root, spec, surface, seq);
    put_position(&root, spec, surface, result);
    sonar_header_put_layout(&root, spec, surface, &result->params, axes, bearings);
    sonar_header_put_bearings(&root, spec, surface, &result->params, bearings,
                              sonar_header_heading(result, surface));
    put_resampled(&root, scan_of(spec, surface), bearings);
    put_basis(&root, spec, surface, result);
    put_method(&root, spec, surface, result);
    put_missing(&root, result);
    put_flags(&root, result, is_mvdr(surface) || both);
    put_number(&root, "latency_us", latency_us);
    sonar_header_put_origin(&root, spec, result->backend, &result->params);
    put_uint(&root, "config_sample_index", result->config_sample);
    if (result->shape_follows)
        put_uint(&root, "shape_sample_index", result->shape_sample);
    else
        put_null(&root, "shape_sample_index");
    if (surface == SONAR_DETECTIONS && both)
        put_adaptive(&root, spec, result);
    if (surface == SONAR_DETECTIONS) {
        put_string(&root, "range_reference", spec->range_reference);
        put_detections(&root, result);
    }
    if (surface == SONAR_TRACKS)
        put_tracks(&root, result);
    if (surface == SONAR_BEAM_AUDIO)
        put_beams(&root, spec, result);
    return json_finish(&text);
}
