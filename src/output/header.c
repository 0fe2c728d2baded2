/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "output/header.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/metrics.h"

/* A cJSON object under construction. cJSON's functions accept a NULL parent and return NULL, so a
 * whole header is built without checks in between and `failed` is asked once at the end. */
typedef struct json {
    cJSON *node;
    bool *failed;
} json;

static cJSON *note(const json *to, cJSON *item) {
    if (!item)
        *to->failed = true;
    return item;
}

static void put_null(const json *to, const char *name) {
    note(to, cJSON_AddNullToObject(to->node, name));
}

/* JSON has no NaN and no infinity. */
static void put_number(const json *to, const char *name, double value) {
    if (isfinite(value))
        note(to, cJSON_AddNumberToObject(to->node, name, value));
    else
        put_null(to, name);
}

static void put_string(const json *to, const char *name, const char *value) {
    if (value)
        note(to, cJSON_AddStringToObject(to->node, name, value));
    else
        put_null(to, name);
}

static void put_bool(const json *to, const char *name, bool value) {
    note(to, cJSON_AddBoolToObject(to->node, name, value));
}

/* cJSON holds numbers as doubles, which lose integers above 2^53: written as text instead. */
static void put_uint(const json *to, const char *name, uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    note(to, cJSON_AddRawToObject(to->node, name, text));
}

static void put_int(const json *to, const char *name, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    note(to, cJSON_AddRawToObject(to->node, name, text));
}

static json put_object(const json *to, const char *name) {
    return (json){note(to, cJSON_AddObjectToObject(to->node, name)), to->failed};
}

static json put_array(const json *to, const char *name) {
    return (json){note(to, cJSON_AddArrayToObject(to->node, name)), to->failed};
}

static void append(const json *to, cJSON *item) {
    if (note(to, item) && !cJSON_AddItemToArray(to->node, item)) {
        *to->failed = true;
        cJSON_Delete(item);
    }
}

static json append_object(const json *to) {
    cJSON *item = cJSON_CreateObject();
    append(to, item);
    return (json){*to->failed ? NULL : item, to->failed};
}

static void append_string(const json *to, const char *value) {
    append(to, cJSON_CreateString(value));
}

static char *finish(const json *root) {
    char *text = *root->failed ? NULL : cJSON_PrintUnformatted(root->node);
    cJSON_Delete(root->node);
    return text;
}

/* ---- what a surface is ----------------------------------------------------------------------- */

static bool is_mvdr(sonar_surface surface) {
    return sonar_topic_table[surface].maker == SONAR_MADE_BY_MVDR;
}

static const sonar_scan *scan_of(const sonar_output_spec *spec, sonar_surface surface) {
    return is_mvdr(surface) && spec->mvdr_scan ? spec->mvdr_scan : spec->cbf_scan;
}

static const char *unit_of(const sonar_output_spec *spec, sonar_quantity quantity,
                           bool calibrated) {
    switch (quantity) {
    case SONAR_QUANTITY_SHARE:
        return "1";
    case SONAR_QUANTITY_LENGTH:
        return "m";
    case SONAR_QUANTITY_PSEUDO:
        return "relative";
    case SONAR_QUANTITY_POWER:
        return spec->relative ? "relative" : calibrated ? "uPa^2" : "counts^2";
    case SONAR_QUANTITY_DENSITY:
        return spec->relative ? "relative" : calibrated ? "uPa^2/Hz" : "counts^2/Hz";
    case SONAR_QUANTITY_NOTHING:
        break;
    }
    return NULL;
}

int sonar_header_shape(const sonar_output_spec *spec, sonar_surface surface, size_t shape[2]) {
    const sonar_extents extents = {
        .channels = spec->channels,
        .ranges = spec->ranges,
        .cbf_directions = spec->cbf_scan->count,
        .cbf_bins = spec->cbf_bins,
        .mvdr_directions = spec->mvdr_scan ? spec->mvdr_scan->count : 0,
        .mvdr_bins = spec->mvdr_bins,
        .mvdr_ranges = spec->mvdr_ranges,
        .mvdr_modes = spec->mvdr_modes,
        .off = spec->music ? 0 : SONAR_WANT(SONAR_MUSIC_AZIMUTH),
    };
    return sonar_topic_shape(surface, &extents, shape);
}

bool sonar_header_has_directions(sonar_surface surface) {
    return sonar_topic_table[surface].axis[1] == SONAR_AXIS_DIRECTION;
}

/* ---- axes ------------------------------------------------------------------------------------ */

static json axis_begin(const json *axes, const char *name, const char *unit) {
    json axis = append_object(axes);
    put_string(&axis, "name", name);
    put_string(&axis, "unit", unit);
    return axis;
}

static void axis_steps(const json *axes, const char *name, const char *unit, double start,
                       double step) {
    json axis = axis_begin(axes, name, unit);
    put_number(&axis, "start", start);
    put_number(&axis, "step", step);
}

static void axis_values(const json *axis, size_t count, const double *values) {
    json list = put_array(axis, "values");
    for (size_t i = 0; i < count; i++)
        append(&list, cJSON_CreateNumber(values[i]));
}

static void axis_azimuth(const json *axes, const sonar_scan *scan, const sonar_bearings *bearings) {
    if (bearings) {
        axis_steps(axes, "azimuth", "deg", 0, 360.0 / (double)sonar_bearings_count(bearings));
        return;
    }
    json axis = axis_begin(axes, "azimuth", "deg");
    axis_values(&axis, scan->count, scan->az_deg);
}

static void axis_range(const json *axes, const sonar_output_spec *spec) {
    json axis = axis_begin(axes, "range", "m");
    put_string(&axis, "reference", spec->range_reference);
    axis_values(&axis, spec->ranges, spec->range_m);
}

static void axis_frequency(const json *axes, const sonar_output_spec *spec, bool mvdr) {
    double bin_hz = mvdr ? spec->mvdr_bin_hz : spec->cbf_bin_hz;
    size_t first = mvdr ? spec->mvdr_first_bin : spec->cbf_first_bin;
    axis_steps(axes, "frequency", "Hz", (double)first * bin_hz, bin_hz);
}

/* Eigenvalues, the largest first. */
static void axis_mode(const json *axes) {
    axis_steps(axes, "mode", NULL, 1, 1);
}

static void axis_channel(const json *axes) {
    axis_steps(axes, "channel", NULL, 0, 1);
}

/* Of a position in the array frame: 0 forward, 1 right, 2 down. */
static void axis_coordinate(const json *axes) {
    axis_steps(axes, "coordinate", NULL, 0, 1);
}

/* Topics without an array say shape [0] with an axis to match, so that a reader that treats all
 * topics alike gets an empty array. */
static void axis_none(const json *axes) {
    json axis = axis_begin(axes, "none", NULL);
    axis_values(&axis, 0, NULL);
}

static void append_axis(const json *axes, const sonar_output_spec *spec, sonar_surface surface,
                        sonar_axis axis, const sonar_bearings *bearings) {
    switch (axis) {
    case SONAR_AXIS_CHANNEL:
        axis_channel(axes);
        break;
    case SONAR_AXIS_RANGE:
        axis_range(axes, spec);
        break;
    case SONAR_AXIS_BIN:
        axis_frequency(axes, spec, is_mvdr(surface));
        break;
    case SONAR_AXIS_DIRECTION:
        axis_azimuth(axes, scan_of(spec, surface), bearings);
        break;
    case SONAR_AXIS_COORDINATE:
        axis_coordinate(axes);
        break;
    case SONAR_AXIS_MODE:
        axis_mode(axes);
        break;
    case SONAR_AXIS_NONE:
        break;
    }
}

char *sonar_header_axes(const sonar_output_spec *spec, sonar_surface surface,
                        const sonar_bearings *bearings) {
    const sonar_axis *axis = sonar_topic_table[surface].axis;
    bool failed = false;
    json axes = {cJSON_CreateArray(), &failed};
    if (!axes.node)
        return NULL;
    append_axis(&axes, spec, surface, axis[0], bearings);
    append_axis(&axes, spec, surface, axis[1], bearings);
    if (axis[0] == SONAR_AXIS_NONE && axis[1] == SONAR_AXIS_NONE)
        axis_none(&axes);
    return finish(&axes);
}

/* ---- parts every header has ------------------------------------------------------------------ */

static void put_identity(const json *root, const sonar_output_spec *spec, sonar_surface surface,
                         uint64_t seq) {
    put_string(root, "schema", "sonard/1");
    put_string(root, "topic", sonar_topic_name(surface));
    put_string(root, "array", spec->array_name);
    put_string(root, "run", spec->run_uuid);
    put_uint(root, "seq", seq);
}

/* Little-endian, as numpy writes it. */
static const char *numpy_name(sonar_dtype dtype) {
    static const char *const name[] = {[SONAR_S16] = "<i2",
                                       [SONAR_S32] = "<i4",
                                       [SONAR_F32] = "<f4",
                                       [SONAR_C32] = "<c8",
                                       [SONAR_U64] = "<u8"};
    return name[dtype];
}

static void put_layout(const json *root, const sonar_output_spec *spec, sonar_surface surface,
                       const sonar_params_facts *params, const char *axes,
                       const sonar_bearings *bearings) {
    size_t shape[2];
    int rank = sonar_header_shape(spec, surface, shape);
    if (bearings)
        shape[rank - 1] = sonar_bearings_count(bearings);
    put_string(root, "dtype", numpy_name(sonar_topic_table[surface].dtype));
    json list = put_array(root, "shape");
    for (int i = 0; i < (rank ? rank : 1); i++)
        append(&list, cJSON_CreateNumber((double)shape[i]));
    note(root, cJSON_AddRawToObject(root->node, "axes", axes));
    put_string(root, "unit",
               unit_of(spec, sonar_topic_table[surface].quantity, params->calibrated));
}

/* Azimuth axes are in the array's own frame unless they are read at true bearings. */
static void put_bearings(const json *root, const sonar_output_spec *spec, sonar_surface surface,
                         const sonar_params_facts *params, const sonar_bearings *bearings,
                         double heading_deg) {
    const sonar_scan *scan = scan_of(spec, surface);
    bool is_true = bearings || (surface == SONAR_DETECTIONS && isfinite(heading_deg));
    put_string(root, "bearing_reference", is_true ? "true" : "array");
    put_string(root, "bearing_kind", scan->cone && !bearings ? "cone" : "azimuth");
    put_number(root, "heading_deg", heading_deg);
    put_bool(root, "ambiguous", scan->cone);
    put_number(root, "axis_az_deg", scan->cone ? scan->axis_az_deg : NAN);
    put_number(root, "axis_depression_deg", scan->cone ? scan->axis_depression_deg : NAN);
    put_number(root, "depression_deg", scan->cone ? NAN : scan->depression_deg);
    put_number(root, "sound_speed_mps", params->sound_speed_mps);
}

/* How true bearings were read from the scan's directions; null where they were not. */
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

static void put_band(const json *root, const sonar_output_spec *spec, sonar_surface surface) {
    const sonar_quantity quantity = sonar_topic_table[surface].quantity;
    double low = spec->cbf_band_hz[0], high = spec->cbf_band_hz[1];
    if (quantity != SONAR_QUANTITY_POWER && quantity != SONAR_QUANTITY_DENSITY &&
        quantity != SONAR_QUANTITY_PSEUDO) {
        put_null(root, "band_hz");
        return;
    }
    if (is_mvdr(surface)) {
        low = spec->mvdr_band_hz[0], high = spec->mvdr_band_hz[1];
    } else if (quantity == SONAR_QUANTITY_DENSITY) {
        low = (double)spec->cbf_first_bin * spec->cbf_bin_hz;
        high = low + ((double)spec->cbf_bins - 1) * spec->cbf_bin_hz;
    }
    json band = put_array(root, "band_hz");
    append(&band, cJSON_CreateNumber(low));
    append(&band, cJSON_CreateNumber(high));
}

static void put_origin(const json *root, const sonar_output_spec *spec, const char *backend,
                       const sonar_params_facts *params) {
    put_number(root, "fs_hz", spec->fs_hz);
    put_string(root, "backend", backend);
    put_string(root, "config_version", params->config_version[0] ? params->config_version : NULL);
}

/* ---- results --------------------------------------------------------------------------------- */

/* 0 is a digitiser's word for unknown. */
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

static void put_position(const json *root, const sonar_result *result) {
    put_uint(root, "window", result->window);
    put_uint(root, "sample_index", result->first_sample);
    put_uint(root, "window_length", result->window_length);
    put_uint(root, "epoch", result->epoch);
    put_utc(root, "utc_ns", result->utc_ns);
}

static void append_flags(const json *flags, uint32_t bits, size_t count,
                         const char *const *name /* of bit 0, 1, ... */) {
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
    if (result->ranks_absent)
        append_string(&flags, "rank_absent");
    if (with_mvdr)
        append_flags(&flags, result->mvdr_flags, 4, mvdr);
    if (result->restarted)
        append_string(&flags, "restarted");
    if (result->heading_stale)
        append_string(&flags, "heading_stale");
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

/* How levels come about. */
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

static void put_detection(const json *list, const sonar_detection *d) {
    static const char *const side[] = {[SONAR_SIDE_ALL] = NULL,
                                       [SONAR_SIDE_UNKNOWN] = "unknown",
                                       [SONAR_SIDE_STARBOARD] = "starboard",
                                       [SONAR_SIDE_PORT] = "port"};
    json item = append_object(list);
    put_string(&item, "source", d->source == SONAR_FROM_MVDR ? "mvdr" : "cbf");
    put_number(&item, "az_deg", d->az_deg);
    put_number(&item, "bearing_deg", d->bearing_deg);
    put_number(&item, "mirror_deg", d->mirror_deg);
    put_string(&item, "side", side[d->side]);
    put_number(&item, "side_confidence", d->side == SONAR_SIDE_ALL ? NAN : d->side_confidence);
    put_number(&item, "level", d->power);
    put_number(&item, "level_db", 10 * log10(d->power)); /* not finite below or at 0: null */
    put_number(&item, "background", d->background);
    put_number(&item, "snr_db", d->snr_db);
    put_number(&item, "width_deg", d->width_deg);
    put_number(&item, "range_m", d->range_m);
    put_bool(&item, "range_unresolved", d->range_unresolved);
}

static void put_detections(const json *root, const sonar_result *result) {
    json list = put_array(root, "detections");
    size_t most = sizeof result->detection / sizeof result->detection[0];
    for (size_t i = 0; i < result->detections && i < most; i++)
        put_detection(&list, &result->detection[i]);
}

double sonar_header_heading(const sonar_result *result, sonar_surface surface) {
    return is_mvdr(surface) ? mvdr_heading(result) : result->params.heading_deg;
}

char *sonar_header_result(const sonar_output_spec *spec, sonar_surface surface, const char *axes,
                          const sonar_bearings *bearings, const sonar_result *result, uint64_t seq,
                          double latency_us) {
    bool failed = false, mvdr = is_mvdr(surface), list = surface == SONAR_DETECTIONS;
    json root = {cJSON_CreateObject(), &failed};
    put_identity(&root, spec, surface, seq);
    put_position(&root, result);
    put_layout(&root, spec, surface, &result->params, axes, bearings);
    put_bearings(&root, spec, surface, &result->params, bearings,
                 sonar_header_heading(result, surface));
    put_resampled(&root, scan_of(spec, surface), bearings);
    put_string(&root, "heading_source",
               result->navigated                      ? "navigation"
               : isfinite(result->params.heading_deg) ? "configuration"
                                                      : NULL);
    put_utc(&root, "utc_middle_ns", mvdr ? result->mvdr_middle_utc_ns : result->middle_utc_ns);
    put_band(&root, spec, surface);
    put_uint(&root, "sensors_used",
             mvdr ? result->params.mvdr_sensors_used : result->params.sensors_used);
    put_number(&root, "snapshots",
               list   ? NAN
               : mvdr ? result->mvdr_snapshots
                      : result->cbf_snapshots);
    if (mvdr) {
        bool most = surface == SONAR_MVDR_AZIMUTH && spec->cell_maximum;
        put_string(&root, "value", most ? "cell_maximum" : "direction");
        if (surface == SONAR_MUSIC_AZIMUTH)
            put_music(&root, spec, result);
        else
            put_levels(&root, spec, result);
        put_mvdr(&root, spec, result);
    } else {
        put_null(&root, "loading");
    }
    put_missing(&root, result);
    put_flags(&root, result, mvdr || (list && spec->mvdr_scan));
    put_number(&root, "latency_us", latency_us);
    put_origin(&root, spec, result->backend, &result->params);
    put_uint(&root, "config_sample_index", result->config_sample);
    if (list && spec->mvdr_scan) {
        json adaptive = put_object(&root, "mvdr");
        put_uint(&adaptive, "sensors_used", result->params.mvdr_sensors_used);
        put_number(&adaptive, "snapshots", result->mvdr_snapshots);
        put_number(&adaptive, "heading_deg", mvdr_heading(result));
        put_utc(&adaptive, "utc_middle_ns", result->mvdr_middle_utc_ns);
        put_levels(&adaptive, spec, result);
        put_mvdr(&adaptive, spec, result);
    }
    if (list)
        put_detections(&root, result);
    return finish(&root);
}

/* ---- status ---------------------------------------------------------------------------------- */

/* The object that the last name of a path is put into; made where it is not there yet. */
static json object_of(const json *root, const char *path, const char **last) {
    json at = *root;
    char name[32];
    for (const char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        snprintf(name, sizeof name, "%.*s", (int)(dot - path), path);
        cJSON *there = cJSON_GetObjectItemCaseSensitive(at.node, name);
        at = there ? (json){there, at.failed} : put_object(&at, name);
    }
    *last = path;
    return at;
}

static void put_percentiles(const json *to, const char *name, const double us[3]) {
    json times = put_object(to, name);
    put_number(&times, "p50_us", us[0]);
    put_number(&times, "p99_us", us[1]);
    put_number(&times, "max_us", us[2]);
}

/* Parts that were never measured are left out. */
static void put_times(const json *to, const char *name, const sonar_percentiles *part) {
    json stage = put_object(to, name);
    for (int i = 0; i < SONAR_STAGE_PARTS; i++) {
        if (!isfinite(part[i].all_us[2]))
            continue;
        json item = put_object(&stage, sonar_stage_parts.name[i]);
        put_percentiles(&item, "all", part[i].all_us);
        put_percentiles(&item, "last", part[i].last_us);
    }
}

static void put_value(const json *to, const char *name, sonar_metric_kind kind, const void *value) {
    switch (kind) {
    case SONAR_COUNTER:
    case SONAR_LEVEL:
        put_uint(to, name, *(const uint64_t *)value);
        break;
    case SONAR_MEASURE:
        put_number(to, name, *(const double *)value);
        break;
    case SONAR_TIMES:
        put_times(to, name, value);
        break;
    }
}

static void put_wanted(const json *output, uint32_t wanted) {
    json topics = put_array(output, "wanted");
    for (int i = 0; i < SONAR_SURFACES; i++)
        if (wanted & SONAR_WANT(i))
            append_string(&topics, sonar_topic_name((sonar_surface)i));
}

static void put_metrics(const json *root, const sonar_status *status) {
    for (size_t i = 0; i < sonar_metrics_count; i++) {
        const sonar_metric *m = &sonar_metrics[i];
        const char *name;
        json object = object_of(root, m->path, &name);
        if (!m->by) {
            put_value(&object, name, m->kind, sonar_metric_value(m, status, 0));
            continue;
        }
        json family = put_object(&object, name);
        for (size_t k = 0; k < m->by->count; k++)
            put_value(&family, m->by->name[k], m->kind, sonar_metric_value(m, status, k));
    }
}

static void put_ranges(const json *root, const char *name, const sonar_channel_set *set) {
    json ranges = put_array(root, name);
    for (uint32_t i = 0; i < set->ranges && i < SONAR_CHANNEL_RANGES_MOST; i++)
        append(&ranges,
               cJSON_CreateIntArray((const int[]){(int)set->first[i], (int)set->last[i]}, 2));
}

/* {count, ranges: [[first, last], ...]}, or null for a condition that does not go by channel. */
static void put_channels(const json *root, const sonar_channel_set *set) {
    if (!set->count) {
        put_null(root, "channels");
        return;
    }
    json channels = put_object(root, "channels");
    put_uint(&channels, "count", set->count);
    put_ranges(&channels, "ranges", set);
}

static void put_element_list(const json *root, const char *name, const sonar_element_list *list) {
    json item = put_object(root, name);
    put_uint(&item, "count", list->sensors.count);
    put_ranges(&item, "sensors", &list->sensors);
    put_ranges(&item, "channels", &list->channels);
}

static void put_elements(const json *root, const sonar_element_health *health) {
    json elements = put_object(root, "elements");
    put_uint(&elements, "judged", health->judged);
    put_uint(&elements, "masked", health->masked);
    for (int i = 0; i < SONAR_ELEMENT_FAULTS; i++)
        put_element_list(&elements, sonar_element_fault_name((sonar_element_fault)i),
                         &health->fault[i]);
    put_element_list(&elements, "masked_auto", &health->masked_auto);
    put_element_list(&elements, "masked_hand", &health->masked_hand);
}

static void put_conditions(const json *root, const sonar_status *status) {
    json list = put_array(root, "conditions");
    for (size_t i = 0; i < status->conditions && i < SONAR_CONDITIONS; i++) {
        const sonar_condition *c = &status->condition[i];
        json item = append_object(&list);
        put_string(&item, "code", sonar_condition_name(c->code));
        put_string(&item, "severity", sonar_condition_severity_name(c->severity));
        put_string(&item, "text", c->text);
        put_number(&item, "for_s", c->for_s);
        put_number(&item, "value", c->value);
        put_number(&item, "limit", c->limit);
        put_channels(&item, &c->channels);
    }
}

/* A line for each rank. */
static void put_ranks(const json *root, const sonar_status *status) {
    json list = put_array(root, "ranks");
    for (size_t i = 0; i < status->ranks; i++) {
        const sonar_rank_status *r = &status->rank[i];
        json item = append_object(&list), channels = put_array(&item, "channels");
        append(&channels, cJSON_CreateNumber(r->first_channel));
        append(&channels, cJSON_CreateNumber(r->first_channel + r->channels - 1));
        put_string(&item, "host", r->host);
        put_uint(&item, "frames_accepted", r->frames_accepted);
        put_uint(&item, "frames_dropped", r->frames_dropped);
        put_uint(&item, "samples_missing", r->samples_missing);
        put_uint(&item, "windows_absent", r->windows_absent);
        put_uint(&item, "windows_dropped", r->windows_dropped);
    }
}

/* Beside the counters of blocks: each block's clock. */
static void put_clocks(const json *root, const sonar_status *status) {
    json blocks = {cJSON_GetObjectItemCaseSensitive(root->node, "blocks"), root->failed};
    json list = put_array(&blocks, "clocks");
    for (size_t i = 0; i < status->block_clocks; i++) {
        const sonar_block_clock *clock = &status->block_clock[i];
        json item = append_object(&list), channels = put_array(&item, "channels");
        append(&channels, cJSON_CreateNumber(clock->first_channel));
        append(&channels, cJSON_CreateNumber(clock->first_channel + clock->channels - 1));
        put_number(&item, "age_s", clock->age_s);
        put_number(&item, "offset_s", clock->offset_s);
        put_number(&item, "skew_s", clock->skew_s);
    }
}

/* {used, fresh, source, age_s, values by their names, counters} */
static void put_navigation(const json *root, const sonar_navigation *from) {
    static const char *const counter[SONAR_NAV_COUNTERS] = {"taken", "other", "checksum",
                                                            "malformed"};
    json nav = put_object(root, "navigation");
    put_bool(&nav, "used", from->asked);
    put_bool(&nav, "fresh", from->fresh);
    put_string(&nav, "source", from->source[0] ? from->source : NULL);
    put_number(&nav, "age_s", from->age_s);
    for (int i = 0; i < SONAR_NAV_QUANTITIES; i++)
        put_number(&nav, sonar_nav_name((sonar_nav_quantity)i),
                   from->source[0] ? from->value[i] : NAN);
    for (int i = 0; i < SONAR_NAV_COUNTERS; i++)
        put_uint(&nav, counter[i], from->count[i]);
}

/* What is recorded and where to, beside the numbers. */
static void put_recording(const json *record, const sonar_recording *from) {
    static const char *const what[] = {"off", "raw", "spectra"};
    put_string(record, "what", what[from->kind]);
    put_string(record, "segment", from->file[0] ? from->file : NULL);
    put_string(record, "why_not", from->failed ? from->why : NULL);
}

/* Names every header has and that say nothing here. */
static void put_nothing(const json *root) {
    static const char *const name[] = {
        "window",  "sample_index",  "sensors_used", "snapshots",
        "loading", "missing_share", "latency_us",   "config_sample_index"};
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++)
        put_null(root, name[i]);
}

char *sonar_header_status(const sonar_output_spec *spec, const char *axes,
                          const sonar_status *status, const sonar_header_status_extra *extra) {
    bool failed = false;
    json root = {cJSON_CreateObject(), &failed};
    put_identity(&root, spec, SONAR_STATUS, extra->seq);
    put_int(&root, "utc_ns", extra->utc_ns);
    put_nothing(&root);
    put_layout(&root, spec, SONAR_STATUS, &status->params, axes, NULL);
    put_bearings(&root, spec, SONAR_STATUS, &status->params, NULL, status->params.heading_deg);
    put_navigation(&root, &status->navigation);
    put_band(&root, spec, SONAR_STATUS);
    json flags = put_array(&root, "flags");
    if (extra->repeat)
        append_string(&flags, "repeat");
    put_origin(&root, spec, status->backend, &status->params);
    put_string(&root, "backend_text", status->backend_text);
    put_string(&root, "health", status->health);
    put_string(&root, "text", status->text);
    put_conditions(&root, status);
    put_elements(&root, &status->elements);
    put_ranks(&root, status);
    put_bool(&root, "waiting", status->waiting_for_samples);
    put_metrics(&root, status);
    put_clocks(&root, status);
    json output = {cJSON_GetObjectItemCaseSensitive(root.node, "output"), root.failed};
    put_wanted(&output, extra->wanted);
    json record = {cJSON_GetObjectItemCaseSensitive(root.node, "record"), root.failed};
    put_recording(&record, &status->record);
    return finish(&root);
}
