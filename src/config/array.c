/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The array from its options: where the sensors are, which channels feed them, which are used, and
 * what a count of each means. Called by resolve.c. */
#include "config/access.h"

#include "core/core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double TURN = 6.283185307179586477;

/* ---- positions ------------------------------------------------------------------------------- */

static bool allocate_sensors(sonar_loader *l, size_t sensors) {
    sonar_config *c = l->config;
    c->sensors = sensors;
    if (!sonar_config_allocate_sensors(c, sensors))
        return no_memory(l);
    memset(c->used, 1, sensors);
    return true;
}

static bool place_line(sonar_loader *l) {
    if (!have(l, OPT_LINE_SENSORS) || !have(l, OPT_LINE_SPACING))
        return false;
    sonar_config *c = l->config;
    const size_t n = whole(l, OPT_LINE_SENSORS);
    if (!allocate_sensors(l, n))
        return false;
    for (size_t k = 0; k < n; k++)
        c->position_m[3 * k] = ((double)k - (double)(n - 1) / 2) * number(l, OPT_LINE_SPACING);
    c->geometry_kind = SONAR_GEOMETRY_LINE;
    return true;
}

static bool place_circle(sonar_loader *l) {
    if (!have(l, OPT_CIRCLE_SENSORS) || !have(l, OPT_CIRCLE_RADIUS))
        return false;
    sonar_config *c = l->config;
    const size_t n = whole(l, OPT_CIRCLE_SENSORS);
    if (!allocate_sensors(l, n))
        return false;
    for (size_t k = 0; k < n; k++) {
        const double angle = TURN * (double)k / (double)n;
        c->position_m[3 * k] = number(l, OPT_CIRCLE_RADIUS) * cos(angle);
        c->position_m[3 * k + 1] = number(l, OPT_CIRCLE_RADIUS) * sin(angle);
    }
    c->geometry_kind = SONAR_GEOMETRY_CIRCLE;
    return true;
}

static bool place_planar(sonar_loader *l) {
    if (!have(l, OPT_PLANAR_ROWS) || !have(l, OPT_PLANAR_COLUMNS) ||
        !have(l, OPT_PLANAR_ROW_SPACING) || !have(l, OPT_PLANAR_COLUMN_SPACING))
        return false;
    sonar_config *c = l->config;
    const size_t rows = whole(l, OPT_PLANAR_ROWS), columns = whole(l, OPT_PLANAR_COLUMNS);
    if (rows * columns > SONAR_SENSORS_MOST)
        return fail(l, OPT_PLANAR_COLUMNS, "at most 4194304 sensors", "%zu x %zu sensors", rows,
                    columns);
    if (!allocate_sensors(l, rows * columns))
        return false;
    for (size_t k = 0; k < rows * columns; k++) {
        const double row = (double)(k / columns) - (double)(rows - 1) / 2;
        const double column = (double)(k % columns) - (double)(columns - 1) / 2;
        c->position_m[3 * k] = row * number(l, OPT_PLANAR_ROW_SPACING);
        c->position_m[3 * k + 1] = column * number(l, OPT_PLANAR_COLUMN_SPACING);
    }
    c->geometry_kind = SONAR_GEOMETRY_PLANAR;
    return true;
}

static double *csv_positions(sonar_loader *l, size_t *count) {
    char path[8192];
    const char *name = value(l, OPT_POSITIONS_CSV)->text;
    snprintf(path, sizeof path, "%s%s%s", *name == '/' ? "" : l->directory,
             *name == '/' || !*l->directory ? "" : "/", name);
    return sonar_csv_read(l, path, count);
}

/* East, north, up -> x = north, y = east, z = down. */
static void from_enu(size_t n, double *p) {
    for (size_t k = 0; k < n; k++, p += 3) {
        const double east = p[0];
        p[0] = p[1];
        p[1] = east;
        p[2] = 0 - p[2];
    }
}

static void centre(size_t n, double *p) {
    double mean[3] = {0};
    for (size_t i = 0; i < 3 * n; i++)
        mean[i % 3] += p[i] / (double)n;
    for (size_t i = 0; i < 3 * n; i++)
        p[i] -= mean[i % 3];
}

/* A shifted position must still be within the accepted range. */
static bool within_reach(sonar_loader *l) {
    const sonar_config *c = l->config;
    for (size_t i = 0; i < 3 * c->sensors; i++)
        if (fabs(c->position_m[i]) > sonar_options[OPT_POSITIONS_LIST].high)
            return fail(l, OPT_POSITIONS_LIST, "positions nearer to each other, or origin: given",
                        "sensor %zu is more than 1000 km from the mean position", i / 3);
    return true;
}

static bool place_positions(sonar_loader *l) {
    if (!have(l, OPT_POSITIONS_FRAME) || !have(l, OPT_POSITIONS_ORIGIN))
        return false;
    sonar_config *c = l->config;
    double *read = NULL;
    size_t n = value(l, OPT_POSITIONS_LIST)->count;
    const double *rows = value(l, OPT_POSITIONS_LIST)->numbers;
    if (have(l, OPT_POSITIONS_CSV) && !given(l, OPT_POSITIONS_LIST))
        rows = read = csv_positions(l, &n);
    else if (!have(l, OPT_POSITIONS_LIST))
        return false;
    if (!rows || !allocate_sensors(l, n)) {
        free(read);
        return false;
    }
    memcpy(c->position_m, rows, 3 * n * sizeof *rows);
    free(read);
    if (number(l, OPT_POSITIONS_FRAME) != 0)
        from_enu(n, c->position_m);
    if (number(l, OPT_POSITIONS_ORIGIN) == 0)
        centre(n, c->position_m);
    c->geometry_kind = SONAR_GEOMETRY_POSITIONS;
    return within_reach(l);
}

/* Stores the resolved positions in the settings, so that the printed configuration has them. */
static void settle_positions(sonar_loader *l) {
    sonar_value *v = l->settings->value;
    sonar_value_set_number(l, OPT_POSITIONS_FRAME, 0);
    sonar_value_set_number(l, OPT_POSITIONS_ORIGIN, 1);
    if (v[OPT_POSITIONS_LIST].origin == SONAR_ABSENT) {
        v[OPT_POSITIONS_LIST].place = v[OPT_POSITIONS_CSV].place;
        v[OPT_POSITIONS_LIST].origin = SONAR_FROM_FILE;
    }
    v[OPT_POSITIONS_ORIGIN].place = v[OPT_POSITIONS_LIST].place;
    v[OPT_POSITIONS_ORIGIN].origin = SONAR_FROM_FILE;
    v[OPT_POSITIONS_CSV].origin = SONAR_ABSENT;
    sonar_value_set_list(l, OPT_POSITIONS_LIST, l->config->sensors, 3, l->config->position_m);
}

static bool place_sensors(sonar_loader *l) {
    const sonar_node *node = sonar_node_find(l->root, "array.geometry");
    if (!node || node->kind != SONAR_MAPPING || node->count != 2)
        return false;
    if (sonar_node_find(node, "line"))
        return place_line(l);
    if (sonar_node_find(node, "circle"))
        return place_circle(l);
    if (sonar_node_find(node, "planar"))
        return place_planar(l);
    if (!sonar_node_find(node, "positions") || !place_positions(l))
        return false;
    settle_positions(l);
    return true;
}

/* ---- channels and mask ----------------------------------------------------------------------- */

/* Reports a mistake at entry i of a list option. */
static bool fail_entry(sonar_loader *l, sonar_option_id id, size_t i, const char *message,
                       double entry) {
    const sonar_node *node = value(l, id)->node ? value(l, id)->node->first : NULL;
    while (node && i--)
        node = node->next;
    sonar_report_add(l->report, SONAR_MISTAKE, l->text, node ? node->place : sonar_place_of(l, id),
                     NULL, "%s: %.0f %s", sonar_options[id].path, entry, message);
    return false;
}

/* Checks that no entry occurs twice and that all are below `below`; `what` describes entries that
 * are not. */
static bool distinct(sonar_loader *l, sonar_option_id id, size_t below, const char *what) {
    const sonar_value *v = value(l, id);
    size_t most = 0;
    for (size_t i = 0; i < v->count; i++)
        if (v->numbers[i] < (double)below)
            most = sonar_max_size(most, (size_t)v->numbers[i]);
    uint8_t *seen = sonar_alloc(most + 1, 1);
    if (!seen)
        return no_memory(l);
    bool good = true;
    for (size_t i = 0; i < v->count; i++) {
        const size_t entry = (size_t)v->numbers[i];
        if (entry >= below)
            good = fail_entry(l, id, i, what, v->numbers[i]);
        else if (seen[entry]++)
            good = fail_entry(l, id, i, "is given twice", v->numbers[i]);
    }
    free(seen);
    return good;
}

static bool resolve_channels(sonar_loader *l) {
    sonar_config *c = l->config;
    if (value(l, OPT_CHANNELS)->bad || value(l, OPT_CHANNEL_COUNT)->bad)
        return false;
    if (!have(l, OPT_CHANNELS)) {
        sonar_value_set_list(l, OPT_CHANNELS, c->sensors, 1, NULL);
        for (size_t k = 0; !l->no_memory && k < c->sensors; k++)
            value(l, OPT_CHANNELS)->numbers[k] = (double)k;
    }
    const sonar_value *v = value(l, OPT_CHANNELS);
    if (l->no_memory)
        return false;
    if (v->count != c->sensors)
        return fail(l, OPT_CHANNELS, "one channel per sensor", "%zu channels for %zu sensors",
                    v->count, c->sensors);
    size_t most = 0;
    for (size_t k = 0; k < c->sensors; k++) {
        c->channel[k] = (uint32_t)v->numbers[k];
        most = sonar_max_size(most, c->channel[k]);
    }
    if (!have(l, OPT_CHANNEL_COUNT))
        sonar_value_set_number(l, OPT_CHANNEL_COUNT, (double)most + 1);
    if (c->channels <= most)
        return fail(l, OPT_CHANNEL_COUNT, NULL, "%zu, but channel %zu feeds a sensor", c->channels,
                    most);
    return distinct(l, OPT_CHANNELS, SONAR_SENSORS_MOST, "");
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool resolve_mask(sonar_loader *l) {
    sonar_config *c = l->config;
    if (!have(l, OPT_MASK))
        return false;
    if (!distinct(l, OPT_MASK, c->sensors,
                  "is not a sensor of the array; sensors are numbered from 0"))
        return false;
    const sonar_value *v = value(l, OPT_MASK);
    for (size_t i = 0; i < v->count; i++)
        c->used[(size_t)v->numbers[i]] = 0;
    if (v->count == c->sensors)
        return fail(l, OPT_MASK, NULL, "no sensor is left");
    qsort(v->numbers, v->count, sizeof *v->numbers, by_value);
    return true;
}

/* ---- calibration ----------------------------------------------------------------------------- */

/* One number for all sensors, or one for each. If the option is not given, `to` is unchanged. */
static bool per_sensor(sonar_loader *l, sonar_option_id id, double *to) {
    const size_t n = l->config->sensors;
    const sonar_value *v = value(l, id);
    if (v->bad)
        return false;
    if (v->origin == SONAR_ABSENT)
        return true;
    const bool one = v->count == 1 && (!v->node || v->node->kind == SONAR_SCALAR);
    if (!one && v->count != n)
        return fail(l, id, "one number, or one per sensor", "%zu numbers for %zu sensors", v->count,
                    n);
    for (size_t k = 0; k < n; k++)
        to[k] = v->numbers[one ? 0 : k];
    return true;
}

/* The bounds of array.gain_db: beyond them powers would not fit 32-bit floats. */
static bool check_gains(sonar_loader *l) {
    const sonar_config *c = l->config;
    const sonar_option *gain = &sonar_options[OPT_GAIN];
    char accepted[64];
    snprintf(accepted, sizeof accepted, "what makes %g to %g %s", gain->low, gain->high,
             gain->unit);
    for (size_t k = 0; k < c->sensors; k++)
        if (!(c->gain_db[k] >= gain->low && c->gain_db[k] <= gain->high))
            return fail(l, OPT_SENSITIVITY, accepted,
                        "sensor %zu has %.10g dB re 1 count/uPa with amplifier and converter", k,
                        c->gain_db[k]);
    return true;
}

/* dB re 1 count/uPa: the product of volts per micropascal, amplification, and counts per volt. */
static bool resolve_hydrophone(sonar_loader *l) {
    sonar_config *c = l->config;
    double *amplifier_db = sonar_alloc(c->sensors, sizeof *amplifier_db);
    if (!amplifier_db)
        return no_memory(l);
    bool good = per_sensor(l, OPT_SENSITIVITY, c->gain_db);
    good = per_sensor(l, OPT_AMPLIFIER, amplifier_db) && good;
    good = have(l, OPT_FULL_SCALE_V) && have(l, OPT_FULL_SCALE_COUNTS) && good;
    const double converter_db = 20 * log10(c->full_scale_counts / number(l, OPT_FULL_SCALE_V));
    for (size_t k = 0; good && k < c->sensors; k++)
        c->gain_db[k] += amplifier_db[k] + converter_db;
    free(amplifier_db);
    return good && check_gains(l);
}

bool sonar_resolve_array(sonar_loader *l) {
    sonar_config *c = l->config;
    if (!place_sensors(l))
        return false;
    bool good = resolve_channels(l);
    good = resolve_mask(l) && good;
    const bool hydrophone = value(l, OPT_SENSITIVITY)->origin != SONAR_ABSENT;
    good = (hydrophone ? resolve_hydrophone(l) : per_sensor(l, OPT_GAIN, c->gain_db)) && good;
    good = per_sensor(l, OPT_PHASE, c->phase_deg) && good;
    good = per_sensor(l, OPT_DELAY, c->delay_us) && good;
    c->calibrated = hydrophone || have(l, OPT_GAIN);
    return good;
}
