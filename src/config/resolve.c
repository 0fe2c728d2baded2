/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From values to the configuration: geometry, bins, scans, and the rules between options. */
#include "config/access.h"

#include "core/core.h"
#include "core/loopback.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const double TURN = 6.283185307179586477;

/* ---- values that follow from others ---------------------------------------------------------- */

void sonar_value_set_number(sonar_loader *l, sonar_option_id id, double to) {
    sonar_value *v = &l->settings->value[id];
    v->number = to;
    if (v->origin == SONAR_ABSENT)
        v->origin = SONAR_FROM_DEFAULT;
    sonar_option_store(l, id);
}

void sonar_value_set_list(sonar_loader *l, sonar_option_id id, size_t count, size_t width,
                          const double *numbers) {
    sonar_value *v = &l->settings->value[id];
    double *copy = sonar_alloc(count * width, sizeof *copy);
    char **texts = sonar_alloc(count, sizeof *texts);
    if (!copy || !texts) {
        free(copy);
        free(texts);
        l->no_memory = true;
        return;
    }
    if (numbers)
        memcpy(copy, numbers, count * width * sizeof *copy);
    for (size_t i = 0; v->texts && i < v->count; i++)
        free(v->texts[i]);
    free(v->texts);
    free(v->numbers);
    v->numbers = copy;
    v->texts = texts;
    v->count = count;
    v->bad = false;
    if (v->origin == SONAR_ABSENT)
        v->origin = SONAR_FROM_DEFAULT;
}

/* ---- the array ------------------------------------------------------------------------------- */

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

/* Positions that are shifted still have to be positions. */
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

/* The settings' canonical form of positions: what was resolved, to be used as it stands. */
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

/* Points at entry i of a list option. */
static bool fail_entry(sonar_loader *l, sonar_option_id id, size_t i, const char *message,
                       double entry) {
    const sonar_node *node = value(l, id)->node ? value(l, id)->node->first : NULL;
    while (node && i--)
        node = node->next;
    sonar_report_add(l->report, SONAR_MISTAKE, l->text, node ? node->place : sonar_place_of(l, id),
                     NULL, "%s: %.0f %s", sonar_options[id].path, entry, message);
    return false;
}

static bool distinct(sonar_loader *l, sonar_option_id id, size_t below, const char *what) {
    const sonar_value *v = value(l, id);
    uint8_t *seen = sonar_alloc(SONAR_SENSORS_MOST, 1);
    if (!seen)
        return no_memory(l);
    bool good = true;
    for (size_t i = 0; i < v->count; i++) {
        const size_t entry = (size_t)v->numbers[i];
        if (entry >= below)
            good = fail_entry(l, id, i, what, v->numbers[i]);
        else if (seen[entry]++)
            good = fail_entry(l, id, i, "is there twice", v->numbers[i]);
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
                  "is no sensor of the array, whose sensors are counted from 0"))
        return false;
    const sonar_value *v = value(l, OPT_MASK);
    for (size_t i = 0; i < v->count; i++)
        c->used[(size_t)v->numbers[i]] = 0;
    if (v->count == c->sensors)
        return fail(l, OPT_MASK, NULL, "no sensor is left");
    qsort(v->numbers, v->count, sizeof *v->numbers, by_value);
    return true;
}

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

/* dB re 1 count/uPa: volts per micropascal, amplified, times counts per volt. */
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
    return good;
}

static bool resolve_array(sonar_loader *l) {
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

/* ---- transforms and bands -------------------------------------------------------------------- */

static bool resolve_dft(sonar_loader *l) {
    sonar_config *c = l->config;
    if (!have(l, OPT_FS))
        return false;
    if (value(l, OPT_LENGTH)->bad || value(l, OPT_HOP)->bad)
        return false;
    if (!have(l, OPT_LENGTH)) {
        double length = 2;
        while (length < c->fs_hz)
            length *= 2;
        if (length > sonar_options[OPT_LENGTH].high)
            return fail(l, OPT_FS, NULL, "so high that dft.length must be given");
        sonar_value_set_number(l, OPT_LENGTH, length);
    }
    if (!have(l, OPT_HOP))
        sonar_value_set_number(l, OPT_HOP, (double)(c->specs.window_length / 2));
    return true;
}

static bool resolve_cbf_dft(sonar_loader *l) {
    sonar_config *c = l->config;
    if (value(l, OPT_CBF_LENGTH)->bad || value(l, OPT_CBF_HOP)->bad)
        return false;
    if (!have(l, OPT_CBF_LENGTH))
        sonar_value_set_number(l, OPT_CBF_LENGTH, (double)c->specs.window_length);
    if (!have(l, OPT_CBF_HOP))
        sonar_value_set_number(l, OPT_CBF_HOP, (double)(c->specs.cbf.length / 2));
    if (c->specs.cbf.length > c->specs.window_length)
        return fail(l, OPT_CBF_LENGTH, NULL, "%zu samples do not fit a window of dft.length %zu",
                    c->specs.cbf.length, c->specs.window_length);
    c->specs.cbf.max_snapshots =
        (c->specs.window_length - c->specs.cbf.length) / c->specs.cbf_hop + 1;
    if (c->specs.cbf.max_snapshots > SONAR_SNAPSHOTS_MOST)
        return fail(l, OPT_CBF_HOP, "a longer one",
                    "a window would hold %zu snapshots, at most %d can be",
                    c->specs.cbf.max_snapshots, SONAR_SNAPSHOTS_MOST);
    return true;
}

static size_t common_divisor(size_t a, size_t b) {
    while (b) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* A snapshot that ends in a window but not in the one before begins less than length + hop -
 * dft.length samples before it; windows and snapshots begin at multiples of their hops. */
static void resolve_new_snapshots(sonar_config *c) {
    size_t both = c->specs.mvdr.length + c->specs.hop,
           step = common_divisor(c->specs.hop, c->specs.mvdr_hop);
    if (!c->specs.mvdr_enabled)
        return;
    if (both > c->specs.window_length)
        c->specs.mvdr_lookback = (both - c->specs.window_length - 1) / step * step;
    c->specs.mvdr.max_new =
        (c->specs.window_length + c->specs.mvdr_lookback - c->specs.mvdr.length) /
            c->specs.mvdr_hop +
        1;
}

static bool resolve_mvdr_dft(sonar_loader *l) {
    sonar_config *c = l->config;
    if (value(l, OPT_MVDR_LENGTH)->bad || value(l, OPT_MVDR_HOP)->bad)
        return false;
    if (!have(l, OPT_MVDR_LENGTH))
        sonar_value_set_number(l, OPT_MVDR_LENGTH, (double)c->specs.window_length);
    if (!have(l, OPT_MVDR_HOP)) /* windows of the main DFT are not transformed twice */
        sonar_value_set_number(l, OPT_MVDR_HOP,
                               c->specs.mvdr.length == c->specs.window_length
                                   ? (double)c->specs.hop
                                   : fmax(1, (double)(c->specs.mvdr.length / 2)));
    if (c->specs.mvdr.length > c->specs.window_length && c->specs.mvdr_enabled)
        return fail(l, OPT_MVDR_LENGTH, NULL, "%zu samples do not fit a window of dft.length %zu",
                    c->specs.mvdr.length, c->specs.window_length);
    resolve_new_snapshots(c);
    return true;
}

/* Bins within a millionth of the edge count as inside, so that edges written in decimal hold. */
static bool band_of_hz(sonar_loader *l, sonar_option_id id, size_t length, sonar_band *band) {
    const double *hz = value(l, id)->numbers, fs = l->config->fs_hz;
    if (hz[0] > hz[1])
        return fail(l, id, "[low, high]", "%g Hz is above %g Hz", hz[0], hz[1]);
    if (hz[1] > fs / 2)
        return fail(l, id, "frequencies up to fs_hz / 2",
                    "%g Hz is above half the sampling rate, %g Hz", hz[1], fs / 2);
    const double first = ceil(hz[0] * (double)length / fs - 1e-6);
    const double last = fmin(floor(hz[1] * (double)length / fs + 1e-6), (double)(length / 2));
    if (last < first)
        return fail(l, id, NULL, "no bin lies in it: bins are %g Hz apart", fs / (double)length);
    *band = (sonar_band){hz[0], hz[1], (size_t)first, (size_t)(last - first) + 1};
    return true;
}

static bool band_of_bins(sonar_loader *l, sonar_option_id id, size_t length, sonar_band *band) {
    const double *bin = value(l, id)->numbers, width = l->config->fs_hz / (double)length;
    if (bin[0] > bin[1])
        return fail(l, id, "[first, last]", "bin %.0f comes after bin %.0f", bin[0], bin[1]);
    if (bin[1] > (double)(length / 2))
        return fail(l, id, NULL, "a transform of %zu samples ends at bin %zu", length, length / 2);
    *band =
        (sonar_band){bin[0] * width, bin[1] * width, (size_t)bin[0], (size_t)(bin[1] - bin[0]) + 1};
    return true;
}

/* hz is followed by bins in the table. False without a report if neither is usable. */
static bool resolve_band(sonar_loader *l, sonar_option_id hz, size_t length, sonar_band *band) {
    const sonar_option_id bins = (sonar_option_id)(hz + 1);
    if (have(l, hz))
        return band_of_hz(l, hz, length, band);
    return have(l, bins) && band_of_bins(l, bins, length, band);
}

/* A band that is not given is the CBF's: as bins where they mean the same, else in Hz. */
static void default_band(sonar_loader *l, sonar_option_id hz, size_t length) {
    const sonar_option_id bins = (sonar_option_id)(hz + 1);
    const sonar_band *cbf = &l->config->cbf_band;
    if (value(l, hz)->origin != SONAR_ABSENT || value(l, bins)->origin != SONAR_ABSENT)
        return;
    const double edges[2] = {cbf->low_hz, cbf->high_hz};
    const double range[2] = {(double)cbf->first_bin, (double)(cbf->first_bin + cbf->bins - 1)};
    if (have(l, OPT_CBF_BAND_HZ) || length != l->config->specs.cbf.length)
        sonar_value_set_list(l, hz, 2, 1, edges);
    else
        sonar_value_set_list(l, bins, 2, 1, range);
}

/* What is switched off need not fit the rest. */
static bool resolve_bands(sonar_loader *l) {
    sonar_config *c = l->config;
    const bool sub_windows = resolve_mvdr_dft(l);
    const bool cbf =
        resolve_cbf_dft(l) && resolve_band(l, OPT_CBF_BAND_HZ, c->specs.cbf.length, &c->cbf_band);
    if (cbf)
        default_band(l, OPT_LOFAR_BAND_HZ, c->specs.cbf.length);
    if (cbf && sub_windows)
        default_band(l, OPT_MVDR_BAND_HZ, c->specs.mvdr.length);
    sonar_band *band = &c->lofar_band;
    const bool lofar =
        !l->no_memory && cbf && resolve_band(l, OPT_LOFAR_BAND_HZ, c->specs.cbf.length, band);
    const bool mvdr = !c->specs.mvdr_enabled ||
                      (!l->no_memory && sub_windows &&
                       resolve_band(l, OPT_MVDR_BAND_HZ, c->specs.mvdr.length, &c->mvdr_band));
    if (cbf && lofar) {
        const size_t end =
            sonar_max_size(band->first_bin + band->bins, c->cbf_band.first_bin + c->cbf_band.bins);
        band->first_bin = sonar_min_size(band->first_bin, c->cbf_band.first_bin);
        band->bins = end - band->first_bin;
        band->low_hz = fmin(band->low_hz, c->cbf_band.low_hz);
        band->high_hz = fmax(band->high_hz, c->cbf_band.high_hz);
    }
    return cbf && lofar && mvdr;
}

/* ---- scans and shading -------------------------------------------------------------------- */

static double top_hz(const sonar_band *band, double fs, size_t length) {
    const size_t last = band->first_bin + band->bins - 1;
    return (double)(last ? last : 1) * fs / (double)length;
}

/* Of automatic scans. A beam of a small array is wide, but its spectrum is looked at by people, and
 * the adaptive one resolves far better than the beam. */
static const double CBF_COARSEST_DEG = 5, MVDR_COARSEST_DEG = 2;

/* Of an automatic scan that was one before, when values change while the daemon runs: buffers have
 * their size. */
static size_t kept_directions(const sonar_loader *l, sonar_option_id scan) {
    if (!l->like || l->like->settings->value[scan].origin == SONAR_ABSENT)
        return 0;
    return scan == OPT_CBF_SCAN ? l->like->cbf_scan.count : l->like->mvdr_scan.count;
}

/* scan is followed by start, stop, step and depression in the table. */
static bool resolve_scan(sonar_loader *l, sonar_option_id scan, double top, double effective_m,
                         double coarsest_deg, sonar_scan *to) {
    const sonar_option_id start = (sonar_option_id)(scan + 1), stop = (sonar_option_id)(scan + 2),
                          step = (sonar_option_id)(scan + 3),
                          depression = (sonar_option_id)(scan + 4);
    if (value(l, scan)->bad || value(l, depression)->bad)
        return false;
    const bool uniform = !have(l, scan);
    if (uniform && (!have(l, start) || !have(l, stop) || !have(l, step)))
        return false;
    const sonar_scan_spec spec = {.uniform = uniform,
                                  .start_deg = number(l, start),
                                  .stop_deg = number(l, stop),
                                  .step_deg = number(l, step),
                                  .depression_deg = number(l, depression),
                                  .top_hz = top,
                                  .sound_speed_mps = l->config->sound_speed_mps,
                                  .effective_m = effective_m,
                                  .coarsest_deg = coarsest_deg,
                                  .count = kept_directions(l, scan)};
    sonar_error err;
    const sonar_code code = sonar_scan_create(&spec, &l->config->geometry, to, &err);
    if (code == SONAR_ENOMEM)
        return no_memory(l);
    const char *instead = uniform ? NULL : "{start_deg: A, stop_deg: B, step_deg: C}";
    return code ? fail(l, scan, instead, "%s", err.text) : true;
}

static sonar_option_id shading_option(sonar_loader *l) {
    if (have(l, OPT_CHEBYSHEV_LEVEL)) {
        l->config->shading = SONAR_SHADING_CHEBYSHEV;
        return OPT_CHEBYSHEV_LEVEL;
    }
    if (have(l, OPT_TAYLOR_LEVEL)) {
        l->config->shading = SONAR_SHADING_TAYLOR;
        return OPT_TAYLOR_LEVEL;
    }
    return OPT_SHADING;
}

static bool resolve_shading(sonar_loader *l) {
    sonar_config *c = l->config;
    const sonar_option_id id = shading_option(l);
    sonar_error err;
    if (c->shading == SONAR_SHADING_UNIFORM) {
        for (size_t k = 0; k < c->sensors; k++)
            c->shading_weight[k] = 1;
    } else if (!c->geometry.uniform_line) {
        return fail(l, id, "uniform", "this shading is for uniform lines only");
    } else {
        const sonar_code code = sonar_cbf_shading(c->shading, c->sidelobe_db, c->nbar, c->sensors,
                                                  c->shading_weight, &err);
        if (code)
            return code == SONAR_ENOMEM ? no_memory(l) : fail(l, id, NULL, "%s", err.text);
    }
    for (size_t k = 0; k < c->sensors; k++)
        c->shading_weight[k] *= c->used[k];
    return true;
}

/* False: the directions or ranges are not all there, and nothing may be read from them. */
static bool resolve_directions(sonar_loader *l) {
    sonar_config *c = l->config;
    const double cbf_top = top_hz(&c->cbf_band, c->fs_hz, c->specs.cbf.length);
    const double mvdr_top =
        c->specs.mvdr_enabled ? top_hz(&c->mvdr_band, c->fs_hz, c->specs.mvdr.length) : 0;
    const double top =
        fmax(fmax(cbf_top, mvdr_top), top_hz(&c->lofar_band, c->fs_hz, c->specs.cbf.length));
    if (!sonar_geometry_analyse(c->sensors, c->position_m, c->used, c->sound_speed_mps / top / 20,
                                &c->geometry))
        return no_memory(l);
    if (!given(l, OPT_MVDR_DEPRESSION) && have(l, OPT_CBF_DEPRESSION))
        sonar_value_set_number(l, OPT_MVDR_DEPRESSION, number(l, OPT_CBF_DEPRESSION));
    bool good = resolve_shading(l);
    const double shaded_m =
        good ? sonar_effective_length(c->sensors, c->position_m, c->shading_weight, &c->geometry)
             : 0;
    good = resolve_scan(l, OPT_CBF_SCAN, cbf_top, shaded_m, CBF_COARSEST_DEG, &c->cbf_scan) && good;
    if (c->specs.mvdr_enabled)
        good =
            resolve_scan(l, OPT_MVDR_SCAN, mvdr_top, 0, MVDR_COARSEST_DEG, &c->mvdr_scan) && good;
    return sonar_resolve_ranges(l, c->sound_speed_mps / cbf_top) && good;
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void resolve_mvdr(sonar_loader *l) {
    static const double eps[] = {[SONAR_LOADING_NOISE] = 1, [SONAR_LOADING_TRACE] = 0.01};
    const sonar_mvdr_spec *mvdr = &l->config->specs.mvdr;
    const sonar_loading rule = mvdr->loading;
    if (!have(l, OPT_FORGETTING) && !given(l, OPT_SNAPSHOTS) && !given(l, OPT_FORGETTING))
        sonar_value_set_number(l, OPT_SNAPSHOTS, 64);
    if (value(l, OPT_LOADING_EPS)->origin == SONAR_ABSENT) {
        if (rule == SONAR_LOADING_ABSOLUTE)
            fail(l, OPT_LOADING_EPS, NULL, "required with rule: absolute");
        else
            sonar_value_set_number(l, OPT_LOADING_EPS, eps[rule]);
    }
    if (!have(l, OPT_SOURCE_COUNT) && !given(l, OPT_SOURCE_COUNT))
        sonar_value_set_number(l, OPT_SOURCE_COUNT,
                               mvdr->dmr == SONAR_MODES_COUNTED ||
                                       mvdr->music == SONAR_MODES_COUNTED
                                   ? SONAR_COUNT_RANDOM_MATRIX
                                   : SONAR_COUNT_OFF);
    if (!have(l, OPT_CELL_MAXIMUM) && !given(l, OPT_CELL_MAXIMUM))
        sonar_value_set_number(l, OPT_CELL_MAXIMUM, have(l, OPT_MVDR_SCAN));
}

static void resolve_navigation(sonar_loader *l) {
    static const int baud[] = {4800, 9600, 19200, 38400, 115200};
    static const char *const local[] = {"ipc://", "tcp://127.", "tcp://[::1]", "tcp://localhost:"};
    l->config->navigation_baud = have(l, OPT_NAV_BAUD) ? baud[whole(l, OPT_NAV_BAUD)] : baud[0];
    if (!have(l, OPT_NAV_ENDPOINT))
        return;
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if (!strncmp(value(l, OPT_NAV_ENDPOINT)->text, local[i], strlen(local[i])))
            return;
    fail(l, OPT_NAV_ENDPOINT, "tcp://127.0.0.1:PORT or ipc://PATH",
         "it is not encrypted, so it has to be on this machine");
}

static void check_control(sonar_loader *l) {
    if (have(l, OPT_CONTROL_ENDPOINT) && strncmp(value(l, OPT_CONTROL_ENDPOINT)->text, "ipc://", 6))
        fail(l, OPT_CONTROL_ENDPOINT, "ipc://PATH",
             "only programs on this machine may change values");
}

/* As it is for rank 0. */
static void resolve_shared_memory(sonar_loader *l) {
    const sonar_value *at = value(l, OPT_SHARED_MEMORY);
    if (have(l, OPT_SHARED_MEMORY)) {
        free(l->config->shared_memory);
        l->config->shared_memory = sonar_endpoint_of_rank(at->text, 0);
        if (!l->config->shared_memory)
            no_memory(l);
    }
    if (have(l, OPT_SHARED_MEMORY) && (strncmp(at->text, "ipc://", 6) || at->text[6] == '@'))
        fail(l, OPT_SHARED_MEMORY, "ipc://PATH", "memory is shared on this machine alone");
    if (!have(l, OPT_SHARED_BYTES) && !value(l, OPT_SHARED_BYTES)->bad)
        sonar_value_set_number(
            l, OPT_SHARED_BYTES,
            fmax(1 << 20, (double)sysconf(_SC_PHYS_PAGES) / 4 * (double)sysconf(_SC_PAGESIZE)));
}

/* Nothing but the loopback: there is neither authentication nor encryption. */
static void resolve_metrics(sonar_loader *l) {
    struct sockaddr_storage unused;
    const char *text = have(l, OPT_METRICS_LISTEN) ? value(l, OPT_METRICS_LISTEN)->text : NULL;
    if (text && !sonar_loopback_read(text, &unused))
        fail(l, OPT_METRICS_LISTEN, "127.0.0.1:PORT or [::1]:PORT",
             "'%s' is no loopback address with a port", text);
}

/* Whether it is there is of interest only where it is to be used: a configuration may also be read
 * on another machine. */
static void check_record_directory(sonar_loader *l) {
    struct stat folder;
    const char *path = have(l, OPT_RECORD_DIRECTORY) ? value(l, OPT_RECORD_DIRECTORY)->text : NULL;
    if (path && *path != '/')
        fail(l, OPT_RECORD_DIRECTORY, "an absolute path", "'%s' does not begin with /", path);
    else if (!path || !l->with_keys || !l->config->record_what)
        return;
    else if (stat(path, &folder))
        fail(l, OPT_RECORD_DIRECTORY, "a folder that is there", "'%s': %s", path, strerror(errno));
    else if (!S_ISDIR(folder.st_mode))
        fail(l, OPT_RECORD_DIRECTORY, "a folder that is there", "'%s' is no folder", path);
}

/* The buffer bridges what a disk may take over other work. */
static void resolve_record(sonar_loader *l) {
    sonar_config *c = l->config;
    const sonar_value *topics = value(l, OPT_RECORD_TOPICS);
    for (size_t i = 0; have(l, OPT_RECORD_TOPICS) && i < topics->count; i++)
        c->record_topics |= SONAR_WANT((unsigned)topics->numbers[i]);
    const double second = (double)c->channels * c->fs_hz * (double)sonar_dtype_size(c->sample_type);
    if (!have(l, OPT_RECORD_BUFFER_MIB) && !value(l, OPT_RECORD_BUFFER_MIB)->bad)
        sonar_value_set_number(
            l, OPT_RECORD_BUFFER_MIB,
            c->record_what == SONAR_RECORD_RAW ? fmin(1048576, ceil(2 * second / 1048576)) : 64);
    check_record_directory(l);
}

static bool resolve_endpoints(sonar_loader *l) {
    resolve_metrics(l);
    sonar_config *c = l->config;
    const sonar_value *v = value(l, OPT_INGEST_ENDPOINTS);
    if (!have(l, OPT_INGEST_ENDPOINTS) || !have(l, OPT_OUTPUT_ENDPOINT))
        return false;
    for (size_t i = 0; i < v->count; i++) {
        for (size_t j = 0; j < i; j++)
            if (!strcmp(v->texts[i], v->texts[j]))
                fail(l, OPT_INGEST_ENDPOINTS, NULL, "%s is there twice", v->texts[i]);
        if (!strcmp(v->texts[i], value(l, OPT_OUTPUT_ENDPOINT)->text))
            fail(l, OPT_OUTPUT_ENDPOINT, NULL, "%s is an endpoint of ingest already", v->texts[i]);
        c->ingest_endpoint[i] = sonar_endpoint_of_rank(v->texts[i], 0);
        if (!c->ingest_endpoint[i])
            return no_memory(l);
        c->ingest_endpoints = i + 1;
    }
    return true;
}

/* The channels are known by now. */
static void resolve_cluster(sonar_loader *l) {
    sonar_config *c = l->config;
    const sonar_value *v = value(l, OPT_CLUSTER_RANKS);
    size_t sum = 0;
    if (!have(l, OPT_CLUSTER_RANKS))
        return;
    for (size_t i = 0; i < v->count; i++)
        sum += c->cluster_channels[i] = (size_t)v->numbers[i];
    c->cluster_ranks = v->count;
    if (v->count && sum != c->channels)
        fail(l, OPT_CLUSTER_RANKS, NULL, "the ranks have %zu channels, and the array's frames %zu",
             sum, c->channels);
}

static size_t processors(void) {
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (size_t)online : 1;
}

/* By the samples that come in a second, of all channels. Of the processors, ZeroMQ's threads and
 * the kernel's copies want as many as the ingest; memory that is shared wants neither. */
static void resolve_ingest_threads(sonar_loader *l) {
    sonar_config *c = l->config;
    if (value(l, OPT_INGEST_THREADS)->bad || value(l, OPT_IO_THREADS)->bad || !have(l, OPT_FS))
        return;
    if (!have(l, OPT_INGEST_THREADS)) {
        const double wanted = ceil((double)c->channels * c->fs_hz / 500e6);
        const double share = have(l, OPT_SHARED_MEMORY) ? 0.75 : 0.5;
        const double most = fmin(SONAR_INGEST_THREADS_MOST, floor(share * (double)processors()));
        sonar_value_set_number(l, OPT_INGEST_THREADS, fmax(1, fmin(wanted, most)));
    }
    if (!have(l, OPT_IO_THREADS))
        sonar_value_set_number(l, OPT_IO_THREADS, (double)c->ingest_threads);
}

static void resolve_topics(sonar_loader *l) {
    const sonar_value *topics = value(l, OPT_TOPICS);
    for (size_t i = 0; have(l, OPT_TOPICS) && i < topics->count; i++)
        l->config->output_topics |= SONAR_WANT((unsigned)topics->numbers[i]);
}

static bool resolve_threads(sonar_loader *l) {
    sonar_config *c = l->config;
    const sonar_value *cpus = value(l, OPT_CPUS);
    if (!have(l, OPT_CPUS) || value(l, OPT_THREADS)->bad)
        return false;
    if (!have(l, OPT_THREADS)) {
        const size_t all = sonar_min_size(processors(), SONAR_CPUS_MOST);
        sonar_value_set_number(l, OPT_THREADS, (double)(cpus->count ? cpus->count : all));
    }
    c->cpus = cpus->count;
    if (c->cpus && c->cpus != c->threads)
        return fail(l, OPT_CPUS, NULL, "%zu processors for %zu threads", c->cpus, c->threads);
    for (size_t i = 0; i < c->cpus; i++)
        c->cpu[i] = (int)cpus->numbers[i];
    return true;
}

static void resolve_heading(sonar_loader *l) {
    l->config->heading_known = have(l, OPT_HEADING);
    if (l->config->heading_known)
        sonar_value_set_number(l, OPT_HEADING, sonar_modulo_turn(number(l, OPT_HEADING)));
}

void sonar_resolve(sonar_loader *l) {
    for (size_t id = 0; id < SONAR_OPTIONS; id++)
        sonar_option_store(l, (sonar_option_id)id);
    l->config->sample_type = whole(l, OPT_SAMPLE_TYPE) ? SONAR_S16 : SONAR_F32;
    resolve_heading(l);
    if (resolve_endpoints(l))
        sonar_check_security(l);
    check_control(l);
    resolve_shared_memory(l);
    resolve_navigation(l);
    resolve_mvdr(l);
    resolve_topics(l);
    resolve_threads(l);
    const bool array = resolve_array(l);
    const bool bands = resolve_dft(l) && resolve_bands(l);
    if (!array || !bands || l->no_memory || !have(l, OPT_SOUND_SPEED))
        return;
    resolve_ingest_threads(l);
    resolve_record(l);
    resolve_cluster(l);
    if (!resolve_directions(l))
        return;
    sonar_resolve_specs(l->config);
    sonar_check_resolved(l);
}
