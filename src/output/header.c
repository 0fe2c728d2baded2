/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What every header states about a surface: its shape and axes, its unit, its directions.
 * header_parts.h declares it for the headers of results and of the status; messages.c calls it
 * too. */
#include "output/header_parts.h"

#include <math.h>

static const char *unit_of(const sonar_output_spec *spec, sonar_quantity quantity,
                           bool calibrated) {
    switch (quantity) {
    case SONAR_QUANTITY_SHARE:
    case SONAR_QUANTITY_RATIO:
        return "1";
    case SONAR_QUANTITY_LENGTH:
        return "m";
    case SONAR_QUANTITY_PSEUDO:
        return "relative";
    case SONAR_QUANTITY_PRESSURE:
        return calibrated ? "uPa" : "counts";
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
        .beams = spec->beams,
        .beam_samples = spec->beam_samples,
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
        append_number(&list, values[i]);
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

static void append_axis(const json *axes, const sonar_output_spec *spec, sonar_surface surface,
                        sonar_axis axis, const sonar_bearings *bearings) {
    switch (axis) {
    case SONAR_AXIS_CHANNEL:
        axis_steps(axes, "channel", NULL, 0, 1);
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
        axis_steps(axes, "coordinate", NULL, 0, 1); /* 0 forward, 1 right, 2 down */
        break;
    case SONAR_AXIS_MODE:
        axis_steps(axes, "mode", NULL, 1, 1); /* eigenvalues, the largest first */
        break;
    case SONAR_AXIS_BEAM:
        axis_steps(axes, "beam", NULL, 0, 1);
        break;
    case SONAR_AXIS_SAMPLE:
        axis_steps(axes, "time", "s", 0, 1 / spec->fs_hz); /* from the first sample */
        break;
    case SONAR_AXIS_NONE:
        break;
    }
}

char *sonar_header_axes(const sonar_output_spec *spec, sonar_surface surface,
                        const sonar_bearings *bearings) {
    const sonar_axis *axis = sonar_topic_table[surface].axis;
    json_text text = {0};
    json axes = json_array(&text);
    append_axis(&axes, spec, surface, axis[0], bearings);
    append_axis(&axes, spec, surface, axis[1], bearings);
    /* Topics without an array have shape [0] and an axis to match, so that a reader that treats all
     * topics alike gets an empty array. */
    if (axis[0] == SONAR_AXIS_NONE && axis[1] == SONAR_AXIS_NONE) {
        const json none = axis_begin(&axes, "none", NULL);
        axis_values(&none, 0, NULL);
    }
    return json_finish(&text);
}

/* ---- parts that all headers have ------------------------------------------------------------- */

void sonar_header_put_identity(const json *root, const sonar_output_spec *spec,
                               sonar_surface surface, uint64_t seq) {
    put_string(root, "schema", SONAR_OUTPUT_SCHEMA);
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

void sonar_header_put_layout(const json *root, const sonar_output_spec *spec, sonar_surface surface,
                             const sonar_params_facts *params, const char *axes,
                             const sonar_bearings *bearings) {
    size_t shape[2];
    int rank = sonar_header_shape(spec, surface, shape);
    if (bearings)
        shape[rank - 1] = sonar_bearings_count(bearings);
    put_string(root, "dtype", numpy_name(sonar_topic_table[surface].dtype));
    json list = put_array(root, "shape");
    for (int i = 0; i < (rank ? rank : 1); i++)
        append_number(&list, (double)shape[i]);
    put_text(root, "axes", axes);
    put_string(root, "unit",
               unit_of(spec, sonar_topic_table[surface].quantity, params->calibrated));
}

void sonar_header_put_bearings(const json *root, const sonar_output_spec *spec,
                               sonar_surface surface, const sonar_params_facts *params,
                               const sonar_bearings *bearings, double heading_deg) {
    const sonar_scan *scan = scan_of(spec, surface);
    bool is_true = bearings || (sonar_topic_is_list(surface) && isfinite(heading_deg));
    put_string(root, "bearing_reference", is_true ? "true" : "array");
    put_string(root, "bearing_kind", scan->cone && !bearings ? "cone" : "azimuth");
    put_number(root, "heading_deg", heading_deg);
    put_bool(root, "ambiguous", scan->cone);
    put_number(root, "axis_az_deg", scan->cone ? scan->axis_az_deg : NAN);
    put_number(root, "axis_depression_deg", scan->cone ? scan->axis_depression_deg : NAN);
    put_number(root, "depression_deg", scan->cone ? NAN : scan->depression_deg);
    put_number(root, "sound_speed_mps", params->sound_speed_mps);
}

void sonar_header_put_band(const json *root, const sonar_output_spec *spec, sonar_surface surface) {
    const sonar_quantity quantity = sonar_topic_table[surface].quantity;
    double low = spec->cbf_band_hz[0], high = spec->cbf_band_hz[1];
    if (quantity != SONAR_QUANTITY_POWER && quantity != SONAR_QUANTITY_DENSITY &&
        quantity != SONAR_QUANTITY_PSEUDO && quantity != SONAR_QUANTITY_RATIO) {
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
    append_number(&band, low);
    append_number(&band, high);
}

void sonar_header_put_origin(const json *root, const sonar_output_spec *spec, const char *backend,
                             const sonar_params_facts *params) {
    put_number(root, "fs_hz", spec->fs_hz);
    put_string(root, "backend", backend);
    put_string(root, "config_version", params->config_version[0] ? params->config_version : NULL);
}
