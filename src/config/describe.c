/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Describes a resolved configuration in text: array, bins, directions, times, memory. */
#include "config/options.h"

#include "analysis/sped/sped.h"
#include "cbf/cbf.h"
#include "core/core.h"
#include "status/topic.h"
#include "detect/detect.h"
#include "dft/dft.h"
#include "manifold/bearings.h"
#include "mvdr_jacobi/mvdr_jacobi.h"
#include "steer/steer.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { SENSORS_SHOWN = 64, ENDS_SHOWN = 8, UNUSUAL_SHOWN = 64 };

/* ---- memory ---------------------------------------------------------------------------------- */

/* Number of points off the grid that are evaluated at once. */
enum { POINT_ROWS = 64 };

/* Samples per channel: the window being read with its lookback, one hop for each waiting
 * window and for the one being filled, and room for channels that run ahead. */
static double ring_samples(const sonar_config *c) {
    return (double)(c->specs.lookback + c->specs.window_length) +
           (double)(c->ingest_queue_windows + 1) * (double)c->specs.hop +
           c->max_skew_ms * 1e-3 * c->fs_hz;
}

/* The ring with one coverage bit per sample, and the gaps of the windows that wait, that are read
 * and that are being filled. */
static double ring_bytes(const sonar_config *c) {
    const double bytes = (double)sonar_dtype_size(c->sample_type) + 1.0 / 8;
    const double missing = (double)(c->ingest_queue_windows + 2) * (8 + 8 * SONAR_GAPS_MOST);
    return (double)c->channels * (bytes * ring_samples(c) + missing);
}

/* The bins of all snapshots. */
static double snapshot_bytes(const sonar_config *c) {
    const sonar_specs *specs = &c->specs;
    const double mvdr =
        specs->own_mvdr_dft ? (double)specs->mvdr.max_new * (double)specs->mvdr_dft.bins : 0;
    return 8 * (double)c->sensors *
           ((double)specs->cbf.max_snapshots * (double)specs->dft.bins + mvdr);
}

/* The snapshots, and what the stages work in. */
static double transform_bytes(const sonar_config *c) {
    const sonar_specs *specs = &c->specs;
    return snapshot_bytes(c) + sonar_dft_bytes(&specs->dft, c->threads) +
           (specs->own_mvdr_dft ? sonar_dft_bytes(&specs->mvdr_dft, c->threads) : 0);
}

/* The MVDR's stage has a table of its own besides, which mvdr_bytes counts. */
static double manifold_bytes(const sonar_config *c) {
    const double cbf = (double)c->cbf_scan.count * (double)(1 + c->specs.cbf.ranges);
    const double mvdr =
        c->specs.mvdr_enabled ? (double)c->mvdr_scan.count * (double)(1 + c->specs.mvdr.ranges) : 0;
    const double tables = sonar_config_bends(c) ? 2 : 1; /* straight, and bent */
    return 8 * (double)c->sensors * (tables * (cbf + mvdr) + POINT_ROWS);
}

static double cbf_bytes(const sonar_config *c) {
    return sonar_cbf_bytes(&c->specs.cbf, c->threads);
}

double sonar_config_mvdr_seconds(const sonar_config *c) {
    return ((sonar_mvdr_effective(&c->specs.mvdr) - 1) * (double)c->specs.mvdr_hop +
            (double)c->specs.mvdr.length) /
           c->fs_hz;
}

static double mvdr_bytes(const sonar_config *c) {
    return c->specs.mvdr_enabled ? sonar_mvdr_bytes(&c->specs.mvdr, c->threads) : 0;
}

uint32_t sonar_config_needed(const sonar_config *c, uint32_t topics) {
    if (c->detect_tones && topics & sonar_topics_by(SONAR_MADE_BY_DETECTOR))
        topics |= SONAR_WANT(SONAR_CBF_LOFAR);
    return sonar_topics_needed(topics);
}

/* All spectra once, where the stages write. Each result holds the small surfaces, and the large
 * ones that may be subscribed to. */
static double result_bytes(const sonar_config *c) {
    const uint32_t spectra =
        sonar_topics_by(SONAR_MADE_BY_CBF) | sonar_topics_by(SONAR_MADE_BY_MVDR);
    const uint32_t not_asked =
        sonar_topics_each(SONAR_EACH_NAMED) & ~sonar_config_needed(c, c->output_topics);
    double made = 0, result = 0;
    for (int i = 0; i < SONAR_SURFACES; i++) {
        size_t shape[2];
        const int rank = sonar_specs_surface(&c->specs, (sonar_surface)i, shape);
        const double values = rank ? (double)shape[0] * (rank > 1 ? (double)shape[1] : 1.0) : 0;
        made += spectra & SONAR_WANT(i) ? values : 0;
        result += not_asked & SONAR_WANT(i) ? 0 : values;
    }
    return 4 * (made + (double)(c->output_queue_results + 2) * result);
}

/* True bearings of a scan, for the configuration at the start and for the live one. */
static double bearing_bytes(const sonar_config *c, const sonar_scan *scan) {
    const bool there = c->bearing_reference == SONAR_REFERENCE_TRUE && sonar_bearings_exist(scan);
    return there ? 2 * (double)sonar_bearings_bytes(scan) : 0;
}

/* State of element health per sensor, and a stretch of samples per worker. */
static double element_bytes(const sonar_config *c) {
    return 160 * (double)c->sensors +
           4 * (double)c->threads *
               fmin((double)c->specs.window_length, fmax(1024, 0.4 * c->fs_hz));
}

static double beam_bytes(const sonar_config *c) {
    const sonar_beam_spec spec = sonar_config_beam(c);
    return c->specs.beams ? sonar_beam_bytes(&spec, c->threads) : 0;
}

/* The table for the peaks of each bin, at the start and of the live configuration. */
static double sped_bytes(const sonar_config *c) {
    const sonar_sped_spec spec = {&c->cbf_scan, c->specs.cbf.cbf_first, c->specs.cbf.cbf_bins};
    return c->output_topics & SONAR_WANT(SONAR_CBF_SPED) ? 2 * sonar_sped_bytes(&spec) : 0;
}

/* The recorder's buffer of data that wait for the disk. */
static double record_bytes(const sonar_config *c) {
    return c->record_what ? (double)c->record_buffer_mib * 1048576 : 0;
}

size_t sonar_config_memory_bytes(const sonar_config *config) {
    const double bytes =
        ring_bytes(config) + transform_bytes(config) + manifold_bytes(config) + cbf_bytes(config) +
        mvdr_bytes(config) + result_bytes(config) + element_bytes(config) + beam_bytes(config) +
        sped_bytes(config) + record_bytes(config) + bearing_bytes(config, &config->cbf_scan) +
        (config->specs.mvdr_enabled ? bearing_bytes(config, &config->mvdr_scan) : 0);
    return bytes < 1e18 ? (size_t)bytes : (size_t)1e18;
}

/* ---- memory of a GPU ------------------------------------------------------------------------- */

/* The GPU's copy of the ring, without the coverage bits. */
static double gpu_ring_bytes(const sonar_config *c) {
    return (double)sonar_dtype_size(c->sample_type) * (double)c->channels * ring_samples(c);
}

static double gpu_dft_bytes(const sonar_config *c) {
    sonar_dft_spec dft = c->specs.dft, mvdr = c->specs.mvdr_dft;
    dft.in_place = mvdr.in_place = true;
    return snapshot_bytes(c) + sonar_dft_device_bytes(&dft) +
           (c->specs.own_mvdr_dft ? sonar_dft_device_bytes(&mvdr) : 0);
}

/* Includes the points between directions that the detector evaluates. */
static double gpu_cbf_bytes(const sonar_config *c) {
    const sonar_steer_spec steer = {c->sensors};
    return sonar_cbf_device_bytes(&c->specs.cbf) + 8 * (double)c->sensors * POINT_ROWS +
           sonar_steer_device_bytes(&steer);
}

static double gpu_mvdr_bytes(const sonar_config *c) {
    return c->specs.mvdr_enabled ? sonar_mvdr_device_bytes(&c->specs.mvdr) : 0;
}

double sonar_config_gpu_bytes(const sonar_config *c) {
    return gpu_ring_bytes(c) + gpu_dft_bytes(c) + gpu_cbf_bytes(c) + gpu_mvdr_bytes(c);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void line(FILE *to, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void line(FILE *to, const char *name, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(to, "%-14s", name);
    vfprintf(to, format, args);
    fputc('\n', to);
    va_end(args);
}

static const char *scaled(double bytes, char text[32]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t i = 0;
    while (bytes >= 1024 && i + 1 < sizeof units / sizeof *units) {
        bytes /= 1024;
        i++;
    }
    snprintf(text, 32, "%.*f %s", i && bytes < 100 ? 1 : 0, bytes, units[i]);
    return text;
}

static void describe_line(const sonar_config *c, FILE *to) {
    const sonar_scan *scan = &c->cbf_scan;
    const char *uniform = c->geometry.uniform_line ? ", uniform," : "";
    if (isnan(scan->axis_az_deg)) {
        line(to, "geometry", "line%s vertical", uniform);
        line(to, "", "contacts have the angle from its axis but no bearing");
        return;
    }
    line(to, "geometry", "line%s along azimuth %.5g deg", uniform, scan->axis_az_deg);
    if (fabs(scan->axis_depression_deg) >= 0.05)
        line(to, "", "and %.3g deg %s: bearings hold in the horizontal plane",
             fabs(scan->axis_depression_deg), scan->axis_depression_deg > 0 ? "down" : "up");
    line(to, "", "bearings are cone angles from its axis: port and starboard");
    line(to, "", "cannot be distinguished");
}

static void describe_geometry(const sonar_config *c, FILE *to) {
    const sonar_geometry *g = &c->geometry;
    switch (g->extent) {
    case SONAR_EXTENT_POINT:
        line(to, "geometry", "a point: no directions can be distinguished");
        break;
    case SONAR_EXTENT_LINE:
        describe_line(c, to);
        break;
    case SONAR_EXTENT_PLANE:
        if (sonar_config_bends(c))
            line(to, "geometry", "towed: its two sides can be distinguished where it bends");
        else
            line(to, "geometry", "plane: the directions on its two sides cannot be distinguished");
        break;
    case SONAR_EXTENT_VOLUME:
        line(to, "geometry", "volume: all directions can be distinguished");
        break;
    }
    line(to, "", "aperture %.6g m, %.6g ms; spacing %.6g m", g->aperture_m,
         1e3 * g->aperture_m / c->sound_speed_mps, g->spacing_m);
    const double alias = sonar_alias_hz(g, c->sound_speed_mps);
    if (alias > 0)
        line(to, "", "spatial aliasing %s %.6g Hz", g->uniform_line ? "from" : "possible from",
             alias);
}

/* Prints the peak pressure of samples of this many counts, over all used sensors. */
static void describe_full_scale(const sonar_config *c, const char *what, double counts, FILE *to) {
    double least = INFINITY, most = -INFINITY;
    for (size_t k = 0; k < c->sensors; k++)
        if (c->used[k]) {
            least = fmin(least, 20 * log10(counts) - c->gain_db[k]);
            most = fmax(most, 20 * log10(counts) - c->gain_db[k]);
        }
    if (most - least < 0.05)
        line(to, "full scale", "%.1f dB re 1 uPa, the peak of %s", most, what);
    else
        line(to, "full scale", "%.1f to %.1f dB re 1 uPa, the peak of %s", least, most, what);
}

static void describe_unit(const sonar_config *c, FILE *to) {
    line(to, "unit", "%s",
         c->specs.dft.equalise_phase ? "relative"
         : c->calibrated             ? "uPa^2 (calibrated)"
                                     : "counts^2 (neither gain_db nor hydrophone is set)");
    if (!c->calibrated)
        return;
    if (c->full_scale_counts > 0)
        describe_full_scale(c, "the converter", c->full_scale_counts, to);
    else
        describe_full_scale(c, "16-bit samples", 32768, to);
    if (!(c->full_scale_counts > 0) && c->sample_type != SONAR_S16)
        describe_full_scale(c, "24-bit samples", 8388608, to);
}

static void describe_tow(const sonar_config *c, FILE *to) {
    double front_m;
    if (c->tow_model == SONAR_TOW_OFF)
        return;
    if (c->tow_model == SONAR_TOW_SENSORS) {
        line(to, "tow", "placed by %zu compasses, %.6g m to %.6g m behind the foremost sensor,",
             c->tow_compasses, c->tow_compass_at_m[0], c->tow_compass_at_m[c->tow_compasses - 1]);
        line(to, "", "the last one is %.6g m behind it", sonar_config_tow_length(c, &front_m));
        return;
    }
    line(to, "tow", "%s; the foremost sensor is %.6g m behind the tow point,",
         sonar_options[OPT_TOW_MODEL].choices[c->tow_model], sonar_config_tow_trail(c));
    line(to, "", "the last one %.6g m",
         sonar_config_tow_trail(c) + sonar_config_tow_length(c, &front_m));
}

static void describe_array(const sonar_config *c, FILE *to) {
    size_t used = 0;
    for (size_t k = 0; k < c->sensors; k++)
        used += c->used[k];
    line(to, "array", "%s, id %u", c->array_name, c->array_id);
    line(to, "", "%zu sensors, %zu used, fed by frames of %zu channels", c->sensors, used,
         c->channels);
    describe_geometry(c, to);
    if (c->heading_known)
        line(to, "heading", "+x points to %.5g deg true; bearings are true", c->heading_deg);
    else
        line(to, "heading", "not set: bearings are in the array frame");
    describe_tow(c, to);
    describe_unit(c, to);
}

static bool is_unusual(const sonar_config *c, size_t k) {
    return !c->used[k] || c->channel[k] != k || c->gain_db[k] != c->gain_db[0] ||
           c->phase_deg[k] != 0 || c->delay_us[k] != 0;
}

/* Without -0.000. */
static double millimetres(double m) {
    return rint(1e3 * m) / 1e3 + 0.0;
}

static void describe_sensor(const sonar_config *c, size_t k, FILE *to) {
    const double *p = c->position_m + 3 * k;
    fprintf(to, "%6zu %7u %10.3f %10.3f %10.3f %8.2f %7.2f %8.2f%s\n", k, c->channel[k],
            millimetres(p[0]), millimetres(p[1]), millimetres(p[2]), c->gain_db[k], c->phase_deg[k],
            c->delay_us[k], c->used[k] ? "" : " off");
}

static void describe_sensors(const sonar_config *c, FILE *to) {
    const bool all = c->sensors <= SENSORS_SHOWN;
    size_t unusual = 0, left_out = 0;
    fputs("\npositions in the array frame: x forward, y to the right, z down\n", to);
    fprintf(to, "%6s %7s %10s %10s %10s %8s %7s %8s\n", "sensor", "channel", "x, m", "y, m", "z, m",
            "gain, dB", "ph, deg", "del., us");
    for (size_t k = 0; k < c->sensors; k++) {
        const bool end = k < ENDS_SHOWN || k >= c->sensors - ENDS_SHOWN;
        if (all || end || (is_unusual(c, k) && unusual++ < UNUSUAL_SHOWN))
            describe_sensor(c, k, to);
        else
            left_out++;
    }
    if (left_out)
        fprintf(to, "%zu sensors are not shown: %s\n", left_out,
                unusual > UNUSUAL_SHOWN ? "the list is cut"
                                        : "used, channel = sensor, no individual corrections");
    fputc('\n', to);
}

static void describe_band(const char *name, const sonar_config *c, const sonar_band *band,
                          size_t length, FILE *to) {
    const double width = c->fs_hz / (double)length;
    const size_t last = band->first_bin + band->bins - 1;
    line(to, name, "bins %zu..%zu (%zu) of %.5g Hz: %.6g..%.6g Hz", band->first_bin, last,
         band->bins, width, (double)band->first_bin * width, (double)last * width);
}

static void describe_scan(const sonar_scan *scan, FILE *to) {
    line(to, "", "%zu angles, %.5g..%.5g deg%s; beam width %.3g deg", scan->count, scan->az_deg[0],
         scan->az_deg[scan->count - 1], scan->cone ? " from the axis" : "", scan->beam_width_deg);
    if (scan->depression_deg != 0)
        line(to, "", "%.5g deg below the horizontal", scan->depression_deg);
}

static void describe_ranges(const sonar_config *c, FILE *to) {
    if (!c->specs.cbf.ranges) {
        line(to, "near field", "none");
        return;
    }
    line(to, "near field", "%zu ranges, %s:", c->specs.cbf.ranges,
         sonar_options[OPT_RANGE_REFERENCE].choices[c->range_reference]);
    for (size_t i = 0; i < c->specs.cbf.ranges; i += 8) {
        fprintf(to, "%-14s", "");
        for (size_t j = i; j < i + 8 && j < c->specs.cbf.ranges; j++)
            fprintf(to, "%.4g%s", c->range_m[j], j + 1 == c->specs.cbf.ranges ? " m" : ", ");
        fputc('\n', to);
    }
}

static void describe_windows(const sonar_config *c, FILE *to) {
    line(to, "windows", "%zu samples (%.4g s) every %zu at %.6g Hz: %.4g per second",
         c->specs.window_length, (double)c->specs.window_length / c->fs_hz, c->specs.hop, c->fs_hz,
         c->fs_hz / (double)c->specs.hop);
    describe_band("cbf", c, &c->cbf_band, c->specs.cbf.length, to);
    if (c->specs.cbf.length < c->specs.window_length && c->specs.cbf.max_snapshots == 1)
        line(to, "", "of each window the first %zu samples", c->specs.cbf.length);
    else if (c->specs.cbf.length < c->specs.window_length)
        line(to, "", "mean of %zu snapshots of %zu samples every %zu", c->specs.cbf.max_snapshots,
             c->specs.cbf.length, c->specs.cbf_hop);
    describe_scan(&c->cbf_scan, to);
    describe_ranges(c, to);
    describe_band("lofar", c, &c->lofar_band, c->specs.cbf.length, to);
}

/* The share of a source's power that MVDR shows on noise alone (docs/mvdr.md): for unit noise, n/L
 * dimensions per snapshot and loading delta, it is the root of share + n/L share/(share + delta) =
 * 1. */
static double share_on_noise(double dimensions, double delta) {
    const double excess = dimensions + delta - 1;
    return 2 * delta / (excess + sqrt(excess * excess + 4 * delta));
}

static void describe_level(const sonar_config *c, double snapshots, FILE *to) {
    double rows = 0;
    for (size_t k = 0; k < c->sensors; k++)
        rows += c->used[k] != 0;
    const double looks = snapshots * (c->specs.mvdr.forward_backward ? 2 : 1);
    const double low_db = -10 * log10(share_on_noise(rows / looks, c->specs.mvdr.eps));
    if (c->specs.mvdr.loading == SONAR_LOADING_NOISE && rows > 0)
        line(to, "", "a source %s about %.2g dB low%s",
             c->specs.mvdr.correct_level ? "would read" : "reads", low_db,
             c->specs.mvdr.correct_level ? ", which is corrected" : "");
}

static void describe_mvdr(const sonar_config *c, FILE *to) {
    if (!c->specs.mvdr_enabled) {
        line(to, "mvdr", "off");
        return;
    }
    const double snapshots = sonar_mvdr_effective(&c->specs.mvdr);
    const double seconds = sonar_config_mvdr_seconds(c);
    describe_band("mvdr", c, &c->mvdr_band, c->specs.mvdr.length, to);
    describe_scan(&c->mvdr_scan, to);
    if (c->specs.mvdr.ranges)
        line(to, "", "and at the %zu ranges of the near field", c->specs.mvdr.ranges);
    line(to, "", "%.4g snapshots%s of %zu samples every %zu", snapshots,
         c->specs.mvdr.alpha > 0 ? " (effective)" : "", c->specs.mvdr.length, c->specs.mvdr_hop);
    line(to, "", "integration time %.4g s: bearings may change by up to", seconds);
    line(to, "", "%.3g deg/s (one beam width in that time)", c->mvdr_scan.beam_width_deg / seconds);
    if (c->specs.mvdr.dmr < 0)
        line(to, "", "as many dominant modes as counted sources");
    else if (c->specs.mvdr.dmr)
        line(to, "", "%d dominant modes", c->specs.mvdr.dmr);
    else
        line(to, "", "loading %s, eps %.4g",
             sonar_options[OPT_LOADING_RULE].choices[c->specs.mvdr.loading], c->specs.mvdr.eps);
    if (!c->specs.mvdr.dmr)
        describe_level(c, snapshots, to);
    if (c->specs.mvdr.white_noise_gain_db < 0)
        line(to, "", "white noise gain at least %.4g dB re the conventional beam",
             c->specs.mvdr.white_noise_gain_db);
    if (c->specs.mvdr.music < 0)
        line(to, "", "MUSIC with the counted number of sources");
    else if (c->specs.mvdr.music)
        line(to, "", "MUSIC with %d sources", c->specs.mvdr.music);
}

/* docs/mvdr-inside.md explains the names. */
static void describe_path(const sonar_config *c, FILE *to) {
    char text[SONAR_MVDR_PATH_BYTES];
    if (!c->specs.mvdr_enabled)
        return;
    sonar_mvdr_path_text(sonar_mvdr_path(&c->specs.mvdr, false, NULL), text);
    line(to, "mvdr.path", "%s on the CPU", text);
    if (strcmp(c->backend, "cpu") == 0)
        return;
    sonar_mvdr_path_text(sonar_mvdr_path(&c->specs.mvdr, true, NULL), text);
    line(to, "", "%s on a GPU", text);
}

static void describe_memory(const sonar_config *c, FILE *to) {
    char text[6][32];
    line(to, "memory", "%s in all", scaled((double)sonar_config_memory_bytes(c), text[0]));
    line(to, "", "samples %s, transforms %s, steering %s,", scaled(ring_bytes(c), text[0]),
         scaled(transform_bytes(c), text[1]), scaled(manifold_bytes(c), text[2]));
    line(to, "", "cbf %s, mvdr %s, results %s", scaled(cbf_bytes(c), text[3]),
         scaled(mvdr_bytes(c), text[4]), scaled(result_bytes(c), text[5]));
    if (strcmp(c->backend, "cpu") == 0)
        return;
    line(to, "gpu memory", "%s if all stages run on one, and some 0.6 GiB for CUDA:",
         scaled(sonar_config_gpu_bytes(c), text[0]));
    line(to, "", "samples %s, dft %s, cbf %s, mvdr %s", scaled(gpu_ring_bytes(c), text[0]),
         scaled(gpu_dft_bytes(c), text[1]), scaled(gpu_cbf_bytes(c), text[2]),
         scaled(gpu_mvdr_bytes(c), text[3]));
}

/* The keys are set only if they were read. */
static void describe_security(const sonar_config *c, FILE *to) {
    const sonar_security *s = &c->security;
    const size_t senders = s->servers ? s->servers : s->allowed[SONAR_SENDERS].count;
    if (!s->curve)
        return;
    line(to, "security", "TCP uses CURVE%s%s", *s->own.public_key ? ", public key " : "",
         s->own.public_key);
    if (*s->own.public_key)
        line(to, "", "keys allowed: %zu to send, %zu to read", senders,
             s->allowed[SONAR_READERS].count);
}

static void describe_recording(const sonar_config *c, FILE *to) {
    char a_day[32];
    const double bytes =
        (double)c->channels * c->fs_hz * (double)sonar_dtype_size(c->sample_type) * 86400;
    if (!c->record_what)
        return;
    line(to, "recording", "%s, %s, to %s", sonar_options[OPT_RECORD_WHAT].choices[c->record_what],
         c->record_at_start ? "from the start" : "after sonarctl record start",
         c->record_directory ? c->record_directory : "recordings in runtime.state_dir");
    if (c->record_what == SONAR_RECORD_RAW)
        line(to, "", "%s a day", scaled(bytes, a_day));
}

static void describe_beams(const sonar_config *c, FILE *to) {
    if (c->specs.beams)
        line(to, "beams", "%zu with a time series, exact up to %.6g Hz", c->specs.beams,
             SONAR_BEAM_SHARE * c->fs_hz / 2);
}

void sonar_config_describe(const sonar_config *config, FILE *to) {
    line(to, "configuration", "%s", config->settings->file);
    line(to, "", "%s", config->digest);
    describe_array(config, to);
    describe_sensors(config, to);
    describe_windows(config, to);
    describe_mvdr(config, to);
    describe_path(config, to);
    describe_beams(config, to);
    describe_security(config, to);
    describe_recording(config, to);
    describe_memory(config, to);
}
