/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <criterion/criterion.h>

#include <glob.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "config/options.h"
#include "core/core.h"
#include "core/random.h"
#include "manifold/bearings.h"
#include "text.h"

/* ---- helpers --------------------------------------------------------------------------------- */

typedef struct loaded {
    sonar_config *config;
    sonar_code code;
    size_t errors, warnings;
    char *report;
} loaded;

static void finish(loaded *l, sonar_report *report) {
    size_t size;
    FILE *to = open_memstream(&l->report, &size);
    sonar_report_write(report, to);
    fclose(to);
    l->errors = sonar_report_errors(report);
    l->warnings = sonar_report_warnings(report);
    sonar_report_destroy(report);
    cr_assert((l->code == SONAR_OK) == (l->config != NULL));
    cr_assert((l->code == SONAR_OK) == (l->errors == 0), "code %d, report %s", l->code, l->report);
}

static loaded parse_bytes(const char *text, size_t bytes) {
    loaded l = {0};
    sonar_report *report = sonar_report_create();
    l.code = sonar_config_parse("test.yaml", text, bytes, &l.config, report);
    finish(&l, report);
    return l;
}

static loaded parse(const char *text) {
    return parse_bytes(text, strlen(text));
}

static loaded load(const char *path) {
    loaded l = {0};
    sonar_report *report = sonar_report_create();
    l.code = sonar_config_load(path, &l.config, report);
    finish(&l, report);
    return l;
}

static void drop(loaded *l) {
    sonar_config_destroy(l->config);
    free(l->report);
}

static loaded parse_good(const char *text) {
    loaded l = parse(text);
    cr_assert_eq(l.code, SONAR_OK, "%s", l.report);
    return l;
}

static char *print(const sonar_config *config, void (*how)(const sonar_config *, FILE *)) {
    char *text;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    how(config, to);
    fclose(to);
    return text;
}

static void expect(const char *report, const char *part) {
    cr_assert_not_null(strstr(report, part), "wanted: %s\nin:\n%s", part, report);
}

static size_t occurrences(const char *text, const char *word) {
    size_t count = 0;
    for (; (text = strstr(text, word)); text += strlen(word))
        count++;
    return count;
}

/* 8 sensors 0.5 m apart, fs 4000, N 4096, near field off: no errors and no warnings. */
#define LINE_ARRAY  "array: {geometry: {line: {sensors: 8, spacing_m: 0.5}}}\n"
#define SMALL       "schema: 1\n" LINE_ARRAY "fs_hz: 4000\ncbf: {band_hz: [100, 1000], ranges_m: []}\n"
#define ARRAY(keys) "schema: 1\nfs_hz: 4000\ncbf: {band_hz: [100, 1000]}\narray: {" keys "}\n"
#define LINE8       "geometry: {line: {sensors: 8, spacing_m: 0.5}}, "
#define CBF(keys)   "schema: 1\n" LINE_ARRAY "fs_hz: 4000\ncbf: {" keys "}\n"

/* ---- results of good files ------------------------------------------------------------------- */

Test(config, the_demonstration_fills_every_field) {
    loaded l = load(SONAR_SOURCE_DIR "/config/demo.yaml");
    cr_assert_eq(l.code, SONAR_OK, "%s", l.report);
    const sonar_config *c = l.config;
    cr_assert_eq(c->array_id, 1);
    cr_assert_str_eq(c->array_name, "demo-line");
    cr_assert_eq(c->geometry_kind, SONAR_GEOMETRY_LINE);
    cr_assert_eq(c->sensors, 128);
    cr_assert_eq(c->channels, 128);
    cr_assert_eq(c->position_m[0], -63.5 * 0.75);
    cr_assert_eq(c->position_m[3 * 127], 63.5 * 0.75);
    cr_assert_eq(c->channel[100], 100);
    cr_assert_eq(c->used[100], 1);
    cr_assert(c->calibrated);
    cr_assert(c->heading_known);
    cr_assert_eq(c->heading_deg, 30);
    cr_assert(c->geometry.uniform_line);
    cr_assert_eq(c->sound_speed_mps, 1500);
    cr_assert_eq(c->fs_hz, 8000);
    cr_assert_eq(c->ingest_endpoints, 1);
    cr_assert_str_eq(c->ingest_endpoint[0], "tcp://127.0.0.1:5555");
    cr_assert_eq(c->ingest_socket, SONAR_PULL);
    cr_assert_eq(c->ingest_high_water_mark, 64);
    cr_assert_eq(c->ingest_max_message_bytes, 67108864);
    cr_assert_eq(c->ingest_queue_windows, 4);
    cr_assert_eq(c->overload, SONAR_DROP_OLDEST);
    cr_assert_eq(c->max_missing_share, 0.1);
    cr_assert_eq(c->max_skew_ms, 250);
    cr_assert_eq(c->restart_after_ms, 1000);
    cr_assert_eq(c->silent_after_ms, 1000);
    cr_assert_eq(c->specs.window_length, 8192);
    cr_assert_eq(c->specs.hop, 4096);
    cr_assert_eq(c->specs.dft.taper, SONAR_HANN);
    cr_assert(c->specs.dft.remove_mean);
    cr_assert_not(c->specs.dft.equalise_phase);
    cr_assert_eq(c->cbf_band.first_bin, 615); /* 614.4 .. 972.8 */
    cr_assert_eq(c->cbf_band.bins, 972 - 615 + 1);
    cr_assert_eq(c->lofar_band.first_bin, 103); /* 102.4 */
    cr_assert_eq(c->lofar_band.bins, 972 - 103 + 1);
    cr_assert_eq(c->cbf_scan.az_deg[c->cbf_scan.count - 1], 180);
    cr_assert_eq(c->shading, SONAR_SHADING_UNIFORM);
    cr_assert_eq(c->shading_weight[127], 1);
    cr_assert_eq(c->specs.cbf.ranges, 6);
    cr_assert_eq(c->range_m[5], 1500);
    cr_assert_eq(c->range_reference, SONAR_RADIAL);
    cr_assert(c->specs.mvdr_enabled);
    cr_assert_eq(c->specs.mvdr.length, 2048);
    cr_assert_eq(c->specs.mvdr_hop, 1024);
    cr_assert_eq(c->mvdr_band.first_bin, 154); /* 153.6 .. 243.2 */
    cr_assert_eq(c->mvdr_band.bins, 243 - 154 + 1);
    cr_assert_eq(c->specs.mvdr.snapshots, 64);
    cr_assert_eq(c->specs.mvdr.alpha, 0);
    cr_assert_eq(c->specs.mvdr.loading, SONAR_LOADING_NOISE);
    cr_assert_eq(c->specs.mvdr.eps, 1);
    cr_assert_eq(c->specs.mvdr.solver, SONAR_MVDR_AUTO);
    cr_assert_eq(c->specs.mvdr.tolerance, 1e-9);
    cr_assert_eq(c->specs.mvdr.max_sweeps, 30);
    cr_assert(c->mvdr_scan.count > 100);
    cr_assert(c->detect_enabled);
    cr_assert_eq(c->detect_threshold_db, 6);
    cr_assert_str_eq(c->output_endpoint, "tcp://127.0.0.1:5556");
    cr_assert_eq(c->output_topics, (1u << SONAR_SURFACES) - 1);
    cr_assert_eq(c->output_high_water_mark, 48);
    cr_assert_eq(c->output_queue_results, 4);
    cr_assert_str_eq(c->backend, "auto");
    cr_assert_eq(c->threads, 2);
    cr_assert_eq(c->cpu_ingest, -1);
    cr_assert_eq(c->log_level, SONAR_INFO);
    cr_assert_null(c->state_dir);
    cr_assert_null(c->plugin_dir);
    cr_assert_eq(strlen(c->digest), 64);
    drop(&l);
}

/* Those that this process may use, as under taskset or in a container. */
static size_t own_processors(void) {
    cpu_set_t own;
    cr_assert_eq(sched_getaffinity(0, sizeof own, &own), 0);
    return (size_t)CPU_COUNT(&own);
}

Test(config, defaults_follow_from_what_is_given) {
    loaded l = parse(SMALL);
    cr_assert_eq(l.code, SONAR_OK, "%s", l.report);
    cr_assert_eq(l.warnings, 0, "%s", l.report);
    const sonar_config *c = l.config;
    cr_assert_eq(c->specs.window_length, 4096);
    cr_assert_eq(c->specs.hop, 2048);
    cr_assert_eq(c->specs.mvdr.length, 4096);
    cr_assert_eq(c->specs.mvdr_hop, 2048);
    cr_assert_eq(c->mvdr_band.first_bin, c->cbf_band.first_bin);
    cr_assert_eq(c->lofar_band.bins, c->cbf_band.bins);
    cr_assert_not(c->heading_known);
    cr_assert_eq(c->threads, own_processors());
    cr_assert(c->ingest_threads == 1 && c->ingest_io_threads == 1);
    drop(&l);
    l = parse_good("schema: 1\n" LINE_ARRAY "fs_hz: 8192\ncbf: {band_bins: [327, 492]}\n"
                   "mvdr: {loading: {rule: trace}, length: 1024}\nlofar: {band_bins: [34, 492]}\n");
    cr_assert_eq(l.config->specs.window_length, 8192, "fs itself, if it is a power of two");
    cr_assert_eq(l.config->specs.mvdr.eps, 0.01);
    cr_assert_eq(l.config->mvdr_band.first_bin, 41); /* 327..492 Hz in bins of 8 Hz */
    cr_assert_eq(l.config->mvdr_band.bins, 61 - 41 + 1);
    cr_assert_eq(l.config->lofar_band.first_bin, 34);
    cr_assert_eq(l.config->lofar_band.bins, 459);
    drop(&l);
}

Test(config, ingest_has_threads_for_its_rate) {
#define FAST                                                                                       \
    "schema: 1\nfs_hz: 4000000\ndft: {length: 65536}\n"                                            \
    "array: {channel_count: 501, " LINE8 "}\ncbf: {band_bins: [300, 400]}\n"
    const size_t processors = own_processors();
    const size_t half = sonar_max_size(1, processors / 2);
    const size_t three_quarters = sonar_max_size(1, 3 * processors / 4);
    loaded l = parse_good(FAST);
    cr_assert_eq(l.config->ingest_threads, sonar_min_size(half, 5));
    cr_assert_eq(l.config->ingest_io_threads, l.config->ingest_threads);
    drop(&l);
    l = parse_good(FAST "ingest: {shared_memory: \"ipc:///tmp/memory\"}\n");
    cr_assert_eq(l.config->ingest_threads, sonar_min_size(three_quarters, 5));
    drop(&l);
#undef FAST
    l = parse_good(SMALL "ingest: {threads: 5}\n");
    cr_assert(l.config->ingest_threads == 5 && l.config->ingest_io_threads == 5);
    drop(&l);
    l = parse_good(SMALL "ingest: {threads: 2, io_threads: 3}\n");
    cr_assert(l.config->ingest_threads == 2 && l.config->ingest_io_threads == 3);
    drop(&l);
}

/* A beam so narrow that an automatic scan is impossible, and an MVDR that would not fit. */
Test(config, an_mvdr_that_is_off_need_not_fit) {
    static const char *const off[] = {
        CBF("band_hz: [100, 1000], ranges_m: []") "mvdr: {enabled: false, length: 8192}\n",
        CBF("band_hz: [100, 1000], ranges_m: []") "mvdr: {enabled: false, length: 16, hop: 99, "
                                                  "band_hz: [300, 310]}\n",
        "schema: 1\nfs_hz: 4000\narray: {geometry: {line: {sensors: 262144, spacing_m: 0.75}}}\n"
        "cbf: {band_hz: [100, 900], scan: {start_deg: 0, stop_deg: 180, step_deg: 1}, "
        "ranges_m: []}\nmvdr: {enabled: false}\n"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        loaded l = parse_good(off[i]);
        cr_assert_null(strstr(l.report, "mvdr"), "%s", l.report);
        cr_assert_eq(l.config->mvdr_scan.count, 0);
        char *text = print(l.config, sonar_config_print);
        loaded again = parse_good(text);
        cr_assert_str_eq(again.config->digest, l.config->digest);
        free(text);
        drop(&again);
        drop(&l);
    }
}

Test(config, band_edges_on_a_bin_are_inside) {
    /* 2.2 Hz * 44100/4410 is a little more than 22, and the like must not lose a bin */
    for (size_t first = 1; first < 400; first += 3) {
        char text[512];
        snprintf(text, sizeof text,
                 "schema: 1\n" LINE_ARRAY "fs_hz: 4410\ndft: {length: 44100}\n"
                 "cbf: {band_hz: [%zu.%zu, %zu.%zu], ranges_m: []}\n",
                 first / 10, first % 10, (first + 5) / 10, (first + 5) % 10);
        loaded l = parse_good(text);
        cr_assert_eq(l.config->cbf_band.first_bin, first);
        cr_assert_eq(l.config->cbf_band.bins, 6);
        drop(&l);
    }
}

Test(config, geometries_lie_where_the_convention_says) {
    loaded l = parse_good(ARRAY("geometry: {circle: {sensors: 4, radius_m: 0.5}}"));
    static const double want[4][2] = {{0.5, 0}, {0, 0.5}, {-0.5, 0}, {0, -0.5}};
    for (size_t k = 0; k < 4; k++) {
        cr_assert(fabs(l.config->position_m[3 * k] - want[k][0]) < 1e-12);
        cr_assert(fabs(l.config->position_m[3 * k + 1] - want[k][1]) < 1e-12, "clockwise");
    }
    cr_assert_eq(l.config->geometry.extent, SONAR_EXTENT_PLANE);
    drop(&l);
    l = parse_good(ARRAY("geometry: {planar: {rows: 2, columns: 3, row_spacing_m: 1, "
                         "column_spacing_m: 0.5}}"));
    cr_assert_eq(l.config->sensors, 6);
    cr_assert_eq(l.config->position_m[3 * 0], -0.5);
    cr_assert_eq(l.config->position_m[3 * 0 + 1], -0.5);
    cr_assert_eq(l.config->position_m[3 * 2 + 1], 0.5);
    cr_assert_eq(l.config->position_m[3 * 3], 0.5);
    drop(&l);
    l = parse_good(ARRAY("geometry: {positions: {frame: enu, origin: given, "
                         "list: [[1, 2, 3], [4, 5, 0]]}}"));
    cr_assert_eq(l.config->position_m[0], 2, "x is north");
    cr_assert_eq(l.config->position_m[1], 1, "y is east");
    cr_assert_eq(l.config->position_m[2], -3, "z is down");
    cr_assert_not(signbit(l.config->position_m[5]));
    drop(&l);
    l = parse_good(ARRAY("geometry: {positions: {list: [[1, 2, 3], [3, 6, 9]]}}"));
    cr_assert_eq(l.config->position_m[0], -1, "the mean is the origin");
    cr_assert_eq(l.config->position_m[5], 3);
    drop(&l);
}

Test(config, corrections_and_masks_reach_their_sensors) {
    loaded l = parse_good("schema: 1\nfs_hz: 4000\ncbf: {band_hz: [100, 500], shading: hann}\n"
                          "array:\n  geometry: {line: {sensors: 3, spacing_m: 0.5}}\n"
                          "  channels: [4, 2, 0]\n  channel_count: 6\n  mask: [1]\n"
                          "  gain_db: [-165, -160.5, -170]\n  phase_deg: 5\n"
                          "  delay_us: [0, 1, 2]\n");
    const sonar_config *c = l.config;
    cr_assert_eq(c->channels, 6);
    cr_assert_eq(c->channel[0], 4);
    cr_assert_eq(c->channel[2], 0);
    cr_assert(c->used[0] && !c->used[1] && c->used[2]);
    cr_assert(c->calibrated);
    cr_assert_eq(c->gain_db[1], -160.5);
    cr_assert_eq(c->phase_deg[2], 5);
    cr_assert_eq(c->delay_us[2], 2);
    cr_assert_eq(c->shading_weight[1], 0);
    cr_assert(c->shading_weight[0] > 0 && c->shading_weight[0] < 1);
    drop(&l);
    l = parse_good(ARRAY(LINE8 "channels: [9, 1, 2, 3, 4, 5, 6, 7]"));
    cr_assert_eq(l.config->channels, 10, "largest channel + 1");
    drop(&l);
}

/* The example of docs/levels.md. */
#define HYDROPHONE(sensitivity)                                                                    \
    ARRAY(LINE8 "hydrophone: {sensitivity_db: " sensitivity                                        \
                ", amplifier_db: 20, full_scale_v: 5, "                                            \
                "full_scale_counts: 8388608}")

static void expect_description(const sonar_config *config, const char *part) {
    char *text = print(config, sonar_config_describe);
    expect(text, part);
    free(text);
}

Test(config, hydrophone_and_converter_make_a_gain) {
    loaded l = parse_good(HYDROPHONE("-165"));
    cr_assert(l.config->calibrated);
    /* a wave of 1e6 uPa peak: 10^(-165/20 + 6) V, 10 times amplified, 8388608/5 counts per volt */
    const double counts = pow(10, -165 / 20. + 6) * 10 * 8388608 / 5;
    cr_assert(fabs(1e6 * pow(10, l.config->gain_db[7] / 20) / counts - 1) < 1e-12);
    cr_assert(fabs(l.config->gain_db[0] + 20.506) < 1e-3, "%g", l.config->gain_db[0]);
    expect_description(l.config, "\nunit          uPa^2 (calibrated)\n"
                                 "full scale    159.0 dB re 1 uPa, the peak of the converter\n");
    char *printed = print(l.config, sonar_config_print);
    loaded again = parse_good(printed);
    cr_assert_str_eq(again.config->digest, l.config->digest);
    cr_assert_eq(again.config->gain_db[3], l.config->gain_db[3]);
    free(printed);
    drop(&again);
    drop(&l);
    l = parse_good(HYDROPHONE("[-165, -165, -165, -165, -165, -165, -165, -171.5]"));
    cr_assert(fabs(l.config->gain_db[7] - l.config->gain_db[6] + 6.5) < 1e-9);
    expect_description(l.config, "full scale    159.0 to 165.5 dB re 1 uPa, the peak of the conv");
    drop(&l);
}

Test(config, full_scale_is_described) {
    loaded l = parse_good(ARRAY(LINE8 "gain_db: -60"));
    expect_description(l.config, "full scale    150.3 dB re 1 uPa, the peak of 16-bit samples\n"
                                 "full scale    198.5 dB re 1 uPa, the peak of 24-bit samples\n");
    drop(&l);
    l = parse_good(ARRAY(LINE8 "gain_db: -60") "ingest: {sample_type: s16}\n");
    char *text = print(l.config, sonar_config_describe);
    expect(text, "full scale    150.3 dB");
    cr_assert_null(strstr(text, "24-bit"));
    free(text);
    drop(&l);
    l = parse_good(SMALL);
    text = print(l.config, sonar_config_describe);
    expect(text, "counts^2 (neither gain_db nor hydrophone is set)");
    cr_assert_null(strstr(text, "full scale"));
    free(text);
    drop(&l);
}

Test(config, headings_are_turned_into_the_circle) {
    static const struct {
        const char *text;
        double deg;
    } cases[] = {{"360", 0},       {"-360", 0}, {"-0.5", 359.5}, {"-90", 270},
                 {"359.5", 359.5}, {"0", 0},    {"-0", 0},       {"-1e-20", 0}};
    char text[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, ARRAY(LINE8 "heading_deg: %s"), cases[i].text);
        loaded l = parse_good(text);
        cr_assert(l.config->heading_known);
        cr_assert_eq(l.config->heading_deg, cases[i].deg, "%s: %g", cases[i].text,
                     l.config->heading_deg);
        cr_assert_not(signbit(l.config->heading_deg));
        drop(&l);
    }
    loaded a = parse_good(ARRAY(LINE8 "heading_deg: 270")),
           b = parse_good(ARRAY(LINE8 "heading_deg: -90"));
    cr_assert_str_eq(a.config->digest, b.config->digest);
    drop(&a);
    drop(&b);
}

/* Bins of the CBF's transform, whose length may differ from the window's. */
Test(config, bins_count_in_their_own_transform) {
    loaded l = parse_good("schema: 1\n" LINE_ARRAY "fs_hz: 4000\ndft: {length: 8192}\n"
                          "cbf: {length: 1000, band_bins: [25, 250], ranges_m: []}\n"
                          "lofar: {band_bins: [5, 300]}\n"
                          "mvdr: {length: 500, band_bins: [10, 100]}\n");
    const sonar_config *c = l.config;
    cr_assert(c->cbf_band.low_hz == 100 && c->cbf_band.high_hz == 1000, "4 Hz apart");
    cr_assert(c->lofar_band.low_hz == 20 && c->lofar_band.high_hz == 1200);
    cr_assert(c->mvdr_band.low_hz == 80 && c->mvdr_band.high_hz == 800, "8 Hz apart");
    drop(&l);
}

Test(config, hann_shading_stands_at_half_steps) {
    loaded l = parse_good(CBF("band_hz: [100, 1000], ranges_m: [], shading: hann"));
    const double *g = l.config->shading_weight;
    for (size_t k = 0; k < 8; k++)
        cr_assert(fabs(g[k] / g[0] - pow(sin(M_PI * ((double)k + 0.5) / 8) / sin(M_PI / 16), 2)) <
                  1e-9);
    drop(&l);
}

Test(config, automatic_ranges_and_forgetting_and_shadings) {
    loaded l = parse_good("schema: 1\nfs_hz: 4000\narray: {geometry: {line: {sensors: 64, "
                          "spacing_m: 0.5}}}\ncbf: {band_hz: [100, 1000], ranges_m: auto, "
                          "range_min_m: 100, shading: {taylor: {sidelobe_db: 25}}}\n"
                          "mvdr: {forgetting: 0.97, length: 1024}\n");
    cr_assert(l.config->specs.cbf.ranges >= 2);
    cr_assert_eq(l.config->range_m[0], 100);
    cr_assert_eq(l.config->range_m[l.config->specs.cbf.ranges - 1], 3200);
    cr_assert_eq(l.warnings, 0, "%s", l.report);
    cr_assert_eq(l.config->specs.mvdr.alpha, 0.97);
    cr_assert_eq(l.config->specs.mvdr.snapshots, 0);
    cr_assert_eq(l.config->nbar, 4);
    cr_assert_eq(l.config->shading, SONAR_SHADING_TAYLOR);
    drop(&l);
    l = parse_good(CBF("band_hz: [100, 1000], shading: {chebyshev: {sidelobe_db: 30}}"));
    cr_assert_eq(l.config->shading, SONAR_SHADING_CHEBYSHEV);
    cr_assert_eq(l.config->sidelobe_db, 30);
    cr_assert(l.config->shading_weight[0] < 0.5);
    drop(&l);
}

static void check_ladder_of(const sonar_config *c, double first) {
    const double lambda = c->sound_speed_mps * (double)c->specs.cbf.length /
                          (c->fs_hz * (double)(c->cbf_band.first_bin + c->cbf_band.bins - 1));
    const double step = 7 * lambda / (c->geometry.aperture_m * c->geometry.aperture_m);
    cr_assert(c->specs.cbf.ranges >= 2 && c->specs.cbf.ranges <= SONAR_RANGES_MOST, "%zu ranges",
              c->specs.cbf.ranges);
    cr_assert(fabs(c->range_m[0] - first) <= 1e-3 * first, "begins at %g m", c->range_m[0]);
    cr_assert_eq(c->range_m[c->specs.cbf.ranges - 1], 3200);
    for (size_t i = 1; i < c->specs.cbf.ranges; i++)
        cr_assert(c->range_m[i] > c->range_m[i - 1] &&
                      1 / c->range_m[i - 1] - 1 / c->range_m[i] <= step * (1 + 1e-9),
                  "%g m after %g m", c->range_m[i], c->range_m[i - 1]);
}

/* Without a configured start the ranges begin beyond the array, and where 64 ranges suffice. */
Test(config, automatic_ranges_fit_an_array_of_any_size) {
    static const struct {
        double spacing_m, first_m;
        size_t warnings; /* of the ranges */
    } cases[] = {
        {0.5, 50, 0},
        {18, 69.3, 0},    /* 1.1 * 63 m */
        {100, 601.1, 1},  /* 1/(1/3200 + 63 * 7 * 1.5/700^2) */
        {750, 2971.3, 1}, /* 1/(1/3200 + 63 * 7 * 1.5/5250^2) */
    };
    char text[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text,
                 "schema: 1\nfs_hz: 4000\ndft: {length: 65536}\n"
                 "array: {geometry: {line: {sensors: 8, spacing_m: %g}}}\n"
                 "cbf: {band_hz: [100, 1000], ranges_m: auto}\n",
                 cases[i].spacing_m);
        loaded l = parse_good(text);
        check_ladder_of(l.config, cases[i].first_m);
        cr_assert_eq(strstr(l.report, "auto begins at") != NULL, cases[i].warnings, "%s", l.report);
        cr_assert_null(strstr(l.report, "range unresolved"), "%s", l.report);
        char *printed = print(l.config, sonar_config_print);
        loaded again = parse_good(printed);
        cr_assert_str_eq(again.config->digest, l.config->digest, "%s", printed);
        free(printed);
        drop(&again);
        drop(&l);
    }
}

Test(config, default_ranges_within_the_array_are_left_out) {
    loaded l = parse_good("schema: 1\nfs_hz: 4000\ncbf: {band_hz: [100, 700]}\n"
                          "array: {geometry: {line: {sensors: 256, spacing_m: 1}}}\n");
    cr_assert_eq(l.config->specs.cbf.ranges, 5);
    cr_assert_eq(l.config->range_m[0], 200);
    drop(&l);
}

static void expect_modes(const char *line, int modes, sonar_source_count rule,
                         const char *printed) {
    char text[512];
    snprintf(text, sizeof text, SMALL "%s", line);
    loaded l = parse_good(text);
    cr_expect_eq(l.config->specs.mvdr.dmr, modes, "%s: %d", line, l.config->specs.mvdr.dmr);
    cr_expect_eq(l.config->specs.mvdr.source_count, rule, "%s", line);
    char *shown = print(l.config, sonar_config_print);
    cr_expect(strstr(shown, printed), "%s: no %s", line, printed);
    free(shown);
    drop(&l);
}

Test(config, dominant_modes_are_words_or_a_number) {
    expect_modes("", SONAR_MODES_OFF, SONAR_COUNT_OFF, "dmr: off");
    expect_modes("mvdr: {dmr: off, source_count: mdl}\n", SONAR_MODES_OFF, SONAR_COUNT_MDL,
                 "dmr: off");
    expect_modes("mvdr: {dmr: 7}\n", 7, SONAR_COUNT_OFF, "dmr: 7");
    expect_modes("mvdr: {dmr: auto}\n", SONAR_MODES_COUNTED, SONAR_COUNT_RANDOM_MATRIX,
                 "dmr: auto");
    expect_modes("mvdr: {dmr: auto, source_count: mdl}\n", SONAR_MODES_COUNTED, SONAR_COUNT_MDL,
                 "dmr: auto");
}

Test(config, sources_of_music_are_words_or_a_number) {
    static const struct {
        const char *line;
        int music;
        sonar_source_count rule;
    } rows[] = {{"", SONAR_MODES_OFF, SONAR_COUNT_OFF},
                {"mvdr: {music: 3}\n", 3, SONAR_COUNT_OFF},
                {"mvdr: {music: auto}\n", SONAR_MODES_COUNTED, SONAR_COUNT_RANDOM_MATRIX},
                {"mvdr: {music: auto, source_count: mdl}\n", SONAR_MODES_COUNTED, SONAR_COUNT_MDL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[400];
        size_t shape[2];
        snprintf(text, sizeof text, SMALL "%s", rows[i].line);
        loaded l = parse_good(text);
        cr_expect_eq(l.config->specs.mvdr.music, rows[i].music, "%s", rows[i].line);
        cr_expect_eq(l.config->specs.mvdr.source_count, rows[i].rule, "%s", rows[i].line);
        cr_expect_eq(sonar_specs_surface(&l.config->specs, SONAR_MUSIC_AZIMUTH, shape),
                     rows[i].music ? 1 : 0);
        drop(&l);
    }
}

/* ---- what is wrong, and where ---------------------------------------------------------------- */

static const struct {
    const char *text, *place, *says;
} mistakes[] = {
    {"", "test.yaml: error: ", "the file is empty"},
    {"# nothing\n", "test.yaml: error: ", "the file is empty"},
    {"just text\n", ":1:1: error: ", "group of keys"},
    {"[1, 2]\n", ":1:1: error: ", "group of keys"},
    {"fs_hz: 1\n", ":1:1: error: schema", "required"},
    {"schema: 2\n", ":1:9: error: schema: 2 is out of range", "accepted: 1"},
    {SMALL "fs_kz: 3\n", ":5:1: error: unknown key \"fs_kz\"", "did you mean fs_hz?"},
    {SMALL "mdvr: {enabled: false}\n", ":5:1: error: unknown key", "did you mean mvdr?"},
    {SMALL "sound_speed: 1480\n", ":5:1: error: unknown key", "did you mean sound_speed_mps?"},
    {SMALL "heading: 30\n", ":5:1: error: unknown key", "did you mean array.heading_deg?"},
    {SMALL "fs: 8000\n", ":5:1: error: unknown key", "did you mean fs_hz?"},
    {SMALL "cfb: {ranges_m: []}\n", ":5:1: error: unknown key", "did you mean cbf?"},
    {SMALL "mvdr: {method: two_sided}\n", ":5:8: error: unknown key \"method\" in mvdr",
     "mvdr.solver: auto replaces it"},
    {SMALL "mvdr: {dmr: 2, dmr_noise: trace}\n", ":5:16: error: unknown key \"dmr_noise\" in mvdr",
     "the noise of mvdr.dmr is always the median"},
    {SMALL "mvdr: {solver: cholesky}\n", ":5:16: error: mvdr.solver", "accepted: auto, jacobi"},
    {SMALL "mvdr: {dmr: auto, source_count: off}\n",
     ":5:33: error: mvdr.source_count: mvdr.dmr: auto", "accepted: mdl or random_matrix"},
    {SMALL "mvdr: {white_noise_gain_db: -3, dmr: 2}\n",
     ":5:29: error: mvdr.white_noise_gain_db: dominant modes have no loading",
     "accepted: mvdr.dmr: off"},
    {SMALL "mvdr: {white_noise_gain_db: -3, correct_level: true}\n",
     ":5:29: error: mvdr.white_noise_gain_db: levels cannot be corrected",
     "accepted: mvdr.correct_level: false"},
    {SMALL "mvdr: {white_noise_gain_db: 0}\n", ":5:29: error: mvdr.white_noise_gain_db: 0 is out",
     "accepted: a plain number in dB, -100 to less than 0"},
    {SMALL "mvdr: {music: auto, source_count: off}\n",
     ":5:35: error: mvdr.source_count: mvdr.music: auto", "accepted: mdl or random_matrix"},
    {SMALL "mvdr: {music: 0}\n", ":5:15: error: mvdr.music: 0 is out of range",
     "accepted: off, auto, or a whole number, 1 to 65535"},
    {SMALL "mvdr: {dmr: 0}\n", ":5:13: error: mvdr.dmr: 0 is out of range",
     "accepted: off, auto, or a whole number, 1 to 65535"},
    {SMALL "mvdr: {dmr: some}\n", ":5:13: error: mvdr.dmr",
     "accepted: off, auto, or a whole number, 1 to 65535"},
    {SMALL "window: hann\n", ":5:1: error: unknown key", "did you mean dft.window?"},
    {SMALL "dft: {lenght: 8}\n", ":5:7: error: unknown key \"lenght\" in dft",
     "did you mean length?"},
    {SMALL "dft.length: 8\n", ":5:1: error: unknown key", "accepted: schema, array"},
    {SMALL "output: {bearing_reference: north}\n",
     ":5:29: error: output.bearing_reference: \"north\" is not one of its words",
     "accepted: array, true"},
    {SMALL "? [a]\n: b\n", ":5:3: error: unknown key", ""},
    {SMALL "fs_hz: 4000\n", ":5:1: error: fs_hz is given twice", ""},
    {SMALL "dft: {hop: 8, hop: 8}\n", ":5:15: error: dft.hop is given twice", ""},
    {SMALL "dft: {}\ndft: {}\n", ":6:1: error: dft is given twice", ""},
    {SMALL "metrics: {listen: \"0.0.0.0:9464\"}\n",
     ":5:19: error: metrics.listen: '0.0.0.0:9464' is not a loopback", "127.0.0.1:PORT"},
    {"schema: 1\n" LINE_ARRAY "fs_hz: 8 kHz\ncbf: {band_hz: [1, 2]}\n", ":3:8: error: fs_hz",
     "expected a plain number in Hz, not \"8 kHz\""},
    {"schema: 1\n" LINE_ARRAY "fs_hz: \"8000\"\ncbf: {band_hz: [1, 2]}\n", ":3:8: error: fs_hz",
     "in quotes"},
    {SMALL "sound_speed_mps: 15\n", ":5:18: error: sound_speed_mps: 15 is out of range",
     "a plain number in m/s, 100 to 10000"},
    {SMALL "sound_speed_mps: .nan\n", ":5:18: error: ", "plain number"},
    {SMALL "sound_speed_mps: 1e999\n", ":5:18: error: ", "out of range"},
    {SMALL "sound_speed_mps: 0x5dc\n", ":5:18: error: ", "plain number"},
    {SMALL "sound_speed_mps: 1.2.3\n", ":5:18: error: ", "plain number"},
    {SMALL "sound_speed_mps: [1500]\n", ":5:18: error: ", "not a list"},
    {SMALL "sound_speed_mps: {a: 1}\n", ":5:18: error: ", "not a group of keys"},
    {SMALL "sound_speed_mps:\n", "error: sound_speed_mps", "not nothing"},
    {SMALL "dft:\n", "error: dft: expected a group of keys, not nothing", "length, hop"},
    {SMALL "dft: 3\n", ":5:6: error: dft: expected a group of keys", "length, hop"},
    {SMALL "dft: {length: 8.5}\n", ":5:15: error: dft.length", "whole number"},
    {SMALL "dft: {length: 1}\n", ":5:15: error: dft.length", "out of range"},
    {SMALL "dft: {window: han}\n", ":5:15: error: dft.window", "hann, rectangular, hamming"},
    {SMALL "dft: {mean_removal: yes}\n", ":5:21: error: dft.mean_removal", "true or false"},
    {SMALL "detections: {most: 65}\n", ":5:20: error: detections.most", "1 to 64"},
    {SMALL "normalised: {method: median}\n", ":5:22: error: normalised.method",
     "two_pass, three_pass, five_pass, order_truncate_average"},
    {SMALL "output: {topics: [cbf.azimuth, cbf]}\n", ":5:32: error: output.topics", "status"},
    {SMALL "output: {topics: []}\n", ":5:18: error: output.topics", ""},
    {SMALL "ingest: {threads: 0}\n", ":5:19: error: ingest.threads", "1 to 64"},
    {SMALL "ingest: {io_threads: many}\n", ":5:22: error: ingest.io_threads", "1 to 64"},
    {SMALL "runtime: {cpus: [0, 1], threads: 3}\n", ":5:17: error: runtime.cpus",
     "2 processors for 3 threads"},
    {SMALL "runtime: {state_dir: \"a\\0b\"}\n", ":5:22: error: runtime.state_dir", "NUL"},
    {SMALL "runtime: {state_dir: \"a\\nb\"}\n", ":5:22: error: runtime.state_dir", "control"},
    {SMALL "runtime: {state_dir: \"a\\u2028b\"}\n", ":5:22: error: runtime.state_dir", "control"},
    {SMALL "mvdr: {snapshots: 3, forgetting: 0.5}\n", ":5:34: error: mvdr", "only one of"},
    {SMALL "mvdr: {forgetting: 1}\n", ":5:20: error: mvdr.forgetting", "less than 1"},
    {SMALL "mvdr: {length: 8192}\n", ":5:16: error: mvdr.length", "do not fit a window"},
    {SMALL "mvdr: {loading: {rule: absolute}}\n", ":5:17: error: mvdr.loading.eps", "required"},
    {SMALL "lofar: {band_hz: [1, 3000]}\n", ":5:18: error: lofar.band_hz",
     "3000 Hz is above half the sampling rate, 2000 Hz"},
    {SMALL "lofar: {band_hz: [100.1, 100.2]}\n", ":5:18: error: lofar.band_hz",
     "no bin lies in it"},
    {SMALL "lofar: {band_hz: [200, 100]}\n", ":5:18: error: lofar.band_hz", "is above"},
    {SMALL "lofar: {band_hz: [200]}\n", ":5:18: error: lofar.band_hz",
     "a list of 2, each a plain number in Hz"},
    {SMALL "lofar: {band_bins: [0, 2049]}\n", ":5:20: error: lofar.band_bins", "ends at bin 2048"},
    {SMALL "lofar: {band_bins: [0, 9], band_hz: [1, 2]}\n", "error: lofar", "only one of"},
    {CBF("band_hz: [100, 1000], ranges_m: [1]"), ":4:39: error: cbf.ranges_m",
     "not beyond the array"},
    {CBF("band_hz: [100, 1000], ranges_m: [50, 50]"), ":4:39: error: cbf.ranges_m", "after 50"},
    {CBF("band_hz: [100, 1000], ranges_m: [0]"), ":4:40: error: cbf.ranges_m", "more than 0"},
    {CBF("band_hz: [100, 1000], ranges_m: never"), ":4:39: error: cbf.ranges_m", "auto"},
    {"schema: 1\nfs_hz: 4000\narray: {geometry: {line: {sensors: 8, spacing_m: 750}}}\n"
     "cbf: {band_hz: [100, 1000], ranges_m: auto, range_min_m: 2700}\n",
     ":4:58: error: cbf.range_min_m: 2700 m: auto gives ", "a cbf.range_min_m of 2972 or more"},
    {"schema: 1\nfs_hz: 4000\narray: {geometry: {line: {sensors: 8, spacing_m: 1000}}}\n"
     "cbf: {band_hz: [100, 1000], ranges_m: auto}\n",
     ":4:39: error: cbf.ranges_m: auto has no ranges from 3850 m to", "a larger cbf.range_max_m"},
    {CBF("band_hz: [100, 1000], ranges_m: auto, range_min_m: 1"), ":4:39: error: cbf.ranges_m",
     "1 m is not beyond the array, which reaches to 1.75 m"},
    {CBF("shading: hann"), ":4:6: error: cbf", "one of band_hz or band_bins is required"},
    {CBF("band_hz: [100, 1000], shading: {taylor: {}}"), ":4:47: error: cbf.shading.taylor",
     "is required"},
    {CBF("band_hz: [100, 1000], shading: {taylor: {sidelobe_db: 60, nbar: 2}}"),
     "error: cbf.shading.taylor", "nbar"},
    {CBF("band_hz: [100, 1000], scan: {start_deg: 0, stop_deg: 181, step_deg: 1}"),
     "error: cbf.scan", "0 to 180 deg"},
    {CBF("band_hz: [100, 1000], scan: {start_deg: 0, stop_deg: 180}"), "error: cbf.scan.step_deg",
     "is required"},
    {"schema: 1\nfs_hz: 4000\ncbf: {band_hz: [1, 9]}\n", ":1:1: error: array.geometry",
     "one of line or circle or planar or positions is required"},
    {ARRAY("geometry: {}"), ":4:19: error: array.geometry", "is required"},
    {ARRAY("geometry: {line: {sensors: 8, spacing_m: 1}, circle: {sensors: 8, radius_m: 1}}"),
     "error: array.geometry", "only one of"},
    {ARRAY("geometry: {line: {sensors: 8}}"), ":4:26: error: array.geometry.line.spacing_m",
     "is required"},
    {ARRAY("geometry: {line: {sensors: 1000000000, spacing_m: 1}}"),
     ":4:36: error: ", "1 to 4194304"},
    {ARRAY("geometry: {line: {sensors: 8, spacing_m: 0}}"), ":4:50: error: ", "more than 0"},
    {ARRAY("geometry: {planar: {rows: 60000, columns: 60000, row_spacing_m: 1, "
           "column_spacing_m: 1}}"),
     "error: array.geometry.planar.columns", "4194304 sensors"},
    {ARRAY("geometry: {positions: {frame: xyz}}"), "error: array.geometry.positions",
     "one of list or csv is required"},
    {ARRAY("geometry: {positions: {list: [[0, 0, 0], [1, 2]]}}"),
     ":4:50: error: ", "three numbers"},
    {ARRAY("geometry: {positions: {list: [[0, 0, 0], [1, 2, x]]}}"),
     ":4:57: error: ", "plain number in m"},
    {ARRAY("geometry: {positions: {list: [[-900000, 0, 0], [-900000, 0, 0], [900000, 0, 0]]}}"),
     ":4:38: error: array.geometry.positions.list: sensor 2 is more than 1000 km from the mean",
     "origin: given"},
    {ARRAY("geometry: {positions: {csv: /nowhere/at all.csv}}"),
     ":4:37: error: ", "cannot read /nowhere/at all.csv: No such file"},
    {ARRAY(LINE8 "channels: [0, 1]"), "error: array.channels", "2 channels for 8 sensors"},
    {ARRAY(LINE8 "channels: [0, 1, 2, 3, 4, 5, 6, 3]"), ":4:89: error: array.channels",
     "3 is given twice"},
    {ARRAY(LINE8 "channel_count: 7"), "error: array.channel_count", "channel 7 feeds a sensor"},
    {ARRAY(LINE8 "mask: [3, 8]"), ":4:67: error: array.mask", "8 is not a sensor"},
    {ARRAY(LINE8 "mask: [3, 3]"), ":4:67: error: array.mask", "3 is given twice"},
    {ARRAY(LINE8 "mask: [0, 1, 2, 3, 4, 5, 6, 7]"), "error: array.mask", "no sensor is left"},
    {ARRAY(LINE8 "gain_db: [1, 2]"), "error: array.gain_db", "2 numbers for 8 sensors"},
    {ARRAY(LINE8 "gain_db: [1]"), "error: array.gain_db", "1 numbers for 8 sensors"},
    {ARRAY(LINE8 "heading_deg: 361"), "error: array.heading_deg", "-360 to 360"},
    {ARRAY(LINE8 "gain_db: 0, hydrophone: {sensitivity_db: -180, full_scale_v: 1, "
                 "full_scale_counts: 1}"),
     "error: array: only one of gain_db or hydrophone may be given", "accepted: gain_db or"},
    {ARRAY(LINE8 "gain_db: 251"), "error: array.gain_db: 251", "-250 to 250"},
    {ARRAY(LINE8 "hydrophone: {sensitivity_db: -400, full_scale_v: 1, full_scale_counts: 1}"),
     "error: array.hydrophone.sensitivity_db: sensor 0 has -400 dB", "-250 to 250"},
    {ARRAY(LINE8 "hydrophone: {sensitivity_db: -180, amplifier_db: [0, 0, 0, 400, 0, 0, 0, 0], "
                 "full_scale_v: 1, full_scale_counts: 1e6}"),
     "error: array.hydrophone.sensitivity_db: sensor 3 has 340 dB", "-250 to 250"},
    {ARRAY(LINE8 "hydrophone: {sensitivity_db: -180, full_scale_v: 1}"),
     ":4:69: error: array.hydrophone.full_scale_counts is required", "in counts"},
    {ARRAY(LINE8 "hydrophone: {sensitivity_db: -180, full_scale_v: 0, full_scale_counts: 1}"),
     "error: array.hydrophone.full_scale_v: 0 is out of range", "in V, more than 0"},
    {ARRAY(LINE8
           "hydrophone: {sensitivity_db: [-180, -181], full_scale_v: 1, full_scale_counts: 1}"),
     "error: array.hydrophone.sensitivity_db: 2 numbers for 8 sensors", "one per sensor"},
    {"schema: 1\nfs_hz: 4000\ncbf: {band_hz: [100, 1000], shading: hann}\n"
     "array: {geometry: {circle: {sensors: 8, radius_m: 1}}}\n",
     ":3:38: error: cbf.shading", "uniform lines only"},
    {"schema: 1\nfs_hz: 4000\ncbf: {band_hz: [100, 1000], range_reference: abeam}\n"
     "array: {geometry: {circle: {sensors: 8, radius_m: 1}}}\n",
     "error: cbf.range_reference", "only a line"},
    {SMALL "navigation: {tow: {model: rigid}}\n", ":5:27: error: navigation.tow.model",
     "navigation.tow.scope_m"},
    {SMALL "navigation: {tow: {model: tied, scope_m: 9}}\n", ":5:27: error: navigation.tow.model",
     "off, rigid, follow, sensors"},
    {SMALL "navigation: {tow: {model: rigid, scope_m: 0}}\n",
     ":5:43: error: navigation.tow.scope_m", "more than 0"},
    {SMALL "navigation: {tow: {model: rigid, scope_m: 30, depth_m: 30}}\n",
     "error: navigation.tow.depth_m: 30 m of cable do not reach",
     "less than navigation.tow.scope_m"},
    {SMALL "navigation: {heading_offset_deg: 3, tow: {model: rigid, scope_m: 30}}\n",
     ":5:34: error: navigation.heading_offset_deg", "towards the tow point"},
    {SMALL "mvdr: {forward_backward: true}\nnavigation: {tow: {model: follow, scope_m: 30}}\n",
     ":6:27: error: navigation.tow.model: an array that bends", "rigid, or mvdr.forward_backward"},
    {SMALL "navigation: {tow: {model: sensors}}\n", ":5:27: error: navigation.tow.model",
     "navigation.tow.compasses"},
    {SMALL "navigation: {tow: {model: sensors, compasses: [C1, C2], compass_at_m: [0]}}\n",
     "error: navigation.tow.compass_at_m: 1 numbers for 2 compasses", "one number for each"},
    {SMALL "navigation: {tow: {model: sensors, compasses: [C1, C2], compass_at_m: [3, 3]}}\n",
     "error: navigation.tow.compass_at_m: 3 m does not follow 3 m", "from the front to the back"},
    {SMALL "navigation: {tow: {model: sensors, compasses: [C1, C1], compass_at_m: [0, 3]}}\n",
     "error: navigation.tow.compasses: C1 is given twice", ""},
    {SMALL "navigation: {tow: {model: sensors, compasses: [C1, C2], compass_at_m: [0, 3], "
           "compass_offset_deg: [1, 2, 3]}}\n",
     "error: navigation.tow.compass_offset_deg: 3 numbers for 2 compasses", "one number, or one"},
    {SMALL "navigation: {tow: {model: sensors, compasses: [A_NAME_OF_16_SIGNS], "
           "compass_at_m: [0]}}\n",
     "error: navigation.tow.compasses", ""},
    {"schema: 1\nfs_hz: 4000\ncbf: {band_hz: [100, 1000]}\n"
     "array: {geometry: {positions: {list: [[0, 0, 0], [0, 0, 1], [0, 0, 2]]}}}\n"
     "navigation: {tow: {model: rigid, scope_m: 30}}\n",
     ":5:27: error: navigation.tow.model: the array has no length along +x", "accepted: off"},
    {"schema: 1\nfs_hz: 4000\ncbf: {band_hz: [100, 1000]}\nmvdr: {forward_backward: true}\n"
     "array: {geometry: {positions: {list: [[0, 0, 0], [1, 0, 0], [5, 0, 0]]}}}\n",
     ":4:26: error: mvdr.forward_backward", "no mirror image"},
    {"schema: 1\nfs_hz: 4000\narray: {geometry: {line: {sensors: 262144, spacing_m: 0.75}}}\n"
     "cbf: {band_hz: [100, 900], scan: {start_deg: 0, stop_deg: 180, step_deg: 1}, ranges_m: []}\n",
     ":3:36: error: mvdr.scan: more than 65536 directions: the array is 196607 m long, ",
     "accepted: {start_deg"},
    {"schema: 1\nfs_hz: 4000\narray: {geometry: {positions: {frame: xyz, list: [[0, 0, 0], "
     "[750, 0, 0], [1500, 0, 0], [2250, 0, 0], [3000, 1, 0], [40000, 0, 0], [41000, 0, 0]]}}}\n"
     "cbf: {band_hz: [100, 950]}\n",
     ":3:19: error: cbf.scan: more than 65536 directions: the array is 41000 m long, ",
     "; positions are in metres, and these look like millimetres"},
    {ARRAY("geometry: {line: {sensors: 4194305, spacing_m: 0.5}}"),
     ":4:36: error: array.geometry.line.sensors: 4194305 is out of range", "1 to 4194304"},
    {SMALL "a: &x 1\n", ":5:4: error: ", "anchors and aliases"},
    {SMALL "a: *x\n", ":5:4: error: ", "anchors and aliases"},
    {SMALL "a: !!int 1\n", ":5:4: error: ", "tags"},
    {SMALL "---\nschema: 1\n", ":5:1: error: ", "second document"},
    {SMALL "a: [\n", "error: not valid YAML", ""},
    {SMALL "a:\n\t- b\n", ":6:1: error: not valid YAML", "found character"},
    {SMALL "name: caf\xe9\n", ":5:10: error: not valid YAML", ""},
    {SMALL "a: [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]\n", "error: nested deeper", ""},
};

Test(config, every_mistake_is_named_at_its_place) {
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        loaded l = parse(mistakes[i].text);
        cr_assert_eq(l.code, SONAR_EINVAL, "accepted:\n%s", mistakes[i].text);
        cr_assert(strstr(l.report, mistakes[i].place) && strstr(l.report, mistakes[i].says),
                  "case %zu\n%swanted \"%s\" and \"%s\" in\n%s", i, mistakes[i].text,
                  mistakes[i].place, mistakes[i].says, l.report);
        drop(&l);
    }
}

/* A configuration that failed to resolve is not described further, and no array is read beyond its
 * end. */
Test(config, a_ladder_that_does_not_fit_is_reported_once) {
    loaded l = parse("schema: 1\nfs_hz: 4000\ndft: {length: 65536}\n"
                     "array: {geometry: {line: {sensors: 8, spacing_m: 750}}}\n"
                     "cbf: {band_hz: [100, 1000], ranges_m: auto, range_min_m: 2700}\n");
    cr_assert_eq(l.errors, 1, "%s", l.report);
    cr_assert_null(strstr(l.report, "range unresolved"), "%s", l.report);
    drop(&l);
}

Test(config, a_single_mistake_is_reported_once) {
    loaded l = parse(SMALL "dft: {window: han}\nfs_kz: 3\n");
    cr_assert_eq(l.errors, 2, "%s", l.report);
    drop(&l);
    l = parse("schema: 1\nfs_hz: 4000\ncbf: {band_hz: [1, 9]}\n");
    cr_assert_eq(l.errors, 1, "%s", l.report);
    drop(&l);
}

Test(config, all_mistakes_come_at_once_in_the_order_of_the_file) {
    loaded l =
        parse("schema: 1\nfs_hz: 8 kHz\narray: {geometry: {line: {sensors: 0, spacing_m: 1}}, "
              "mask: [x]}\ncbf: {band_hz: [1, 2], scan: sometimes}\nbogus: 1\n"
              "ingest: {endpoints: [\"tcp://*:5555\"]}\n");
    cr_assert_eq(l.errors, 6, "%s", l.report);
    static const char *const order[] = {"test.yaml:2:8:",  "test.yaml:3:36:", "test.yaml:3:62:",
                                        "test.yaml:4:30:", "test.yaml:5:1:",  "test.yaml:6:22:"};
    const char *at = l.report;
    for (size_t i = 0; i < 6; i++) {
        at = strstr(at, order[i]);
        cr_assert_not_null(at, "%s missing or out of order in\n%s", order[i], l.report);
    }
    drop(&l);
}

Test(config, the_caret_stands_under_the_character) {
    loaded l = parse("schema: 1\n# \xc3\xa4\xc3\xb6\n{\xc3\xa4\n");
    drop(&l);
    l = parse(SMALL "array2: 1\n");
    expect(l.report, "\n    array2: 1\n    ^\n");
    drop(&l);
    l = parse(SMALL "runtime: {state_dir: \"\xc3\xa4\xc3\xb6\", log_level: loud}\n");
    expect(l.report, "state_dir: \"\xc3\xa4\xc3\xb6\", log_level: loud}\n"
                     "                                          ^\n");
    drop(&l);
    char text[4096] = SMALL "runtime: {state_dir: \"";
    memset(text + strlen(text), 'x', 3000);
    strcat(text, "\", log_level: loud}\n");
    l = parse(text);
    const char *caret = strstr(l.report, "^\n"), *row = strstr(l.report, "loud}");
    cr_assert(caret && row);
    const char *begin = row;
    while (begin[-1] != '\n')
        begin--;
    const char *below = caret;
    while (below[-1] != '\n')
        below--;
    cr_assert_eq(row - begin, caret - below, "%s", l.report);
    cr_assert(strlen(l.report) < 600, "a long line is cut");
    drop(&l);
}

/* With keys: test_config_security.c. */
Test(config, without_keys_only_loopback_and_ipc_are_accepted) {
    static const char *const good[] = {"tcp://127.0.0.1:1",    "tcp://127.9.8.7:65535",
                                       "tcp://localhost:80",   "tcp://[::1]:5555",
                                       "ipc:///run/sonard/in", "ipc://at@sonard"};
    static const char *const bad[] = {"tcp://*:5555",
                                      "ipc://@sonard",
                                      "tcp://0.0.0.0:5555",
                                      "tcp://192.168.1.2:5555",
                                      "tcp://[::]:5555",
                                      "tcp://128.0.0.1:5555",
                                      "tcp://127.0.0.1.example.org:5555",
                                      "tcp://eth0:5555",
                                      "tcp://127.0.0.1",
                                      "tcp://127.0.0.1:0",
                                      "tcp://127.0.0.1:65536",
                                      "tcp://127.0.0.1:*",
                                      "tcp://127.0.0.1:55x",
                                      "tcp://:5555",
                                      "tcp://10.0.0.1;127.0.0.1:5555",
                                      "tcp://127.1:5555",
                                      "inproc://x",
                                      "ipc://",
                                      "ipc://*",
                                      "udp://127.0.0.1:5",
                                      "pgm://127.0.0.1:5",
                                      "",
                                      "TCP://127.0.0.1:5",
                                      "tcp://localhost.:5",
                                      "tcp://127.0.0.1:5 "};
    char text[1024];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(text, sizeof text, SMALL "ingest: {endpoints: [\"%s\"]}\n", good[i]);
        loaded l = parse_good(text);
        cr_assert_str_eq(l.config->ingest_endpoint[0], good[i]);
        drop(&l);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(text, sizeof text, SMALL "output: {endpoint: \"%s\"}\n", bad[i]);
        loaded l = parse(text);
        cr_assert_eq(l.code, SONAR_EINVAL, "%s", bad[i]);
        expect(l.report, "test.yaml:5:20: error: output.endpoint");
        drop(&l);
    }
    loaded l = parse(SMALL "output: {endpoint: \"tcp://127.0.0.1:5555\"}\n");
    expect(l.report, "is already an endpoint of ingest");
    drop(&l);
}

/* 1000 Hz, 8 sensors 0.5 m apart: 0.886 * 1.5/(0.5 * sqrt(63)) = 19.3 deg without shading; Hann's
 * main lobe is 1.6 times as wide, and the adaptive spectrum knows no shading. */
Test(config, beam_widths_know_shading_and_depression) {
    loaded plain = parse_good(SMALL),
           hann = parse_good(CBF("band_hz: [100, 1000], ranges_m: [], shading: hann"));
    const double ratio =
        hann.config->cbf_scan.beam_width_deg / plain.config->cbf_scan.beam_width_deg;
    cr_assert(ratio > 1.5 && ratio < 1.75, "%g", ratio);
    cr_assert_eq(hann.config->mvdr_scan.beam_width_deg, plain.config->mvdr_scan.beam_width_deg);
    cr_assert_eq(plain.config->mvdr_scan.count, 91, "2 deg on average");
    drop(&hann);
    drop(&plain);
    loaded level = parse_good(ARRAY("geometry: {circle: {sensors: 64, radius_m: 10}}")),
           steep = parse_good("schema: 1\nfs_hz: 4000\ncbf: {band_hz: [100, 1000], "
                              "depression_deg: -85}\narray: {geometry: {circle: {sensors: 64, "
                              "radius_m: 10}}}\n");
    const double width = level.config->cbf_scan.beam_width_deg;
    const double wider = steep.config->cbf_scan.beam_width_deg / width;
    cr_assert(fabs(wider - 1 / cos(85 * M_PI / 180)) < 0.3, "%g times", wider);
    drop(&level);
    drop(&steep);
    /* so a step that fits is not called coarse */
    steep =
        parse_good("schema: 1\nfs_hz: 4000\ncbf: {band_hz: [100, 700], depression_deg: 85, scan: "
                   "{start_deg: 0, stop_deg: 359, step_deg: 5}, ranges_m: []}\n"
                   "array: {geometry: {circle: {sensors: 64, radius_m: 10}}}\n");
    cr_assert_eq(steep.warnings, 0, "%s", steep.report);
    drop(&steep);
}

static const struct {
    const char *text, *says;
} warnings[] = {
    {SMALL "mvdr: {enabled: false}\noutput: {topics: [mvdr.azimuth, status]}\n",
     "no mvdr topic is published while mvdr.enabled is false"},
    {SMALL "detections: {enabled: false}\noutput: {topics: [detections]}\n",
     "detections are not published while"},
    {SMALL "output: {topics: [cbf.nearfield]}\n", "cbf.nearfield is not published without"},
    {SMALL "output: {bearing_reference: true}\n",
     ":5:29: warning: output.bearing_reference: no heading is known until sonarctl sets one"},
    {"schema: 1\nfs_hz: 4000\ncbf: {band_hz: [100, 1000], ranges_m: []}\narray: {heading_deg: 3, "
     "geometry: {positions: {list: [[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 0, 3]]}}}\n"
     "output: {bearing_reference: true}\n",
     ":5:29: warning: output.bearing_reference: a vertical line has no bearings"},
    {SMALL "output: {topics: [mvdr.nearfield]}\n",
     "the topic mvdr.nearfield is not published without the option mvdr.nearfield"},
    {SMALL "output: {topics: [music.azimuth]}\n",
     "the topic music.azimuth is not published without the option mvdr.music"},
    {SMALL "mvdr: {music: 2, enabled: false}\n",
     ":5:15: warning: mvdr.music: has no effect while mvdr.enabled is false"},
    {SMALL "mvdr: {nearfield: true}\noutput: {topics: [mvdr.nearfield]}\n",
     "the topic mvdr.nearfield is not published without cbf.ranges_m"},
    {SMALL "mvdr: {nearfield: true}\n",
     ":5:19: warning: mvdr.nearfield: has no effect without cbf.ranges_m"},
    {SMALL "mvdr: {nearfield: true, enabled: false}\n",
     ":5:19: warning: mvdr.nearfield: has no effect while mvdr.enabled is false"},
    {CBF("band_hz: [100, 1501], ranges_m: []"), ":4:16: warning: cbf.band_hz: spatial aliasing "
                                                "begins at 1500 Hz"},
    {SMALL "lofar: {band_hz: [100, 1600]}\n", ":5:18: warning: lofar.band_hz: spatial aliasing"},
    {SMALL "mvdr: {band_hz: [100, 1600]}\n", ":5:17: warning: mvdr.band_hz: spatial aliasing"},
    {"schema: 1\nfs_hz: 4000\narray: {geometry: {positions: {list: [[0, 0, 0], [750, 0, 0], "
     "[1500, 0, 0]]}}}\ncbf: {band_hz: [100, 950]}\n",
     "in several directions; positions are in metres, and these look like millimetres"},
    {SMALL "dft: {length: 37}\n", ":5:15: warning: dft.length: 37 samples"}, /* 4 D/c: 37.33 */
    {SMALL "mvdr: {length: 37, hop: 37, band_hz: [100, 1000]}\n", "warning: mvdr.length: 37 "},
    {SMALL "mvdr: {snapshots: 1}\n", ":5:19: warning: mvdr.snapshots: a covariance of 1 snapshot"},
    {SMALL "mvdr: {snapshots: 2}\n", "mvdr.snapshots: 2 snapshots are too few for the noise rule, "
                                     "which needs 3: the trace rule"},
    {"schema: 1\nfs_hz: 4000\narray: {geometry: {line: {sensors: 64, spacing_m: 0.75}}}\n"
     "cbf: {band_hz: [100, 950], ranges_m: []}\nmvdr: {snapshots: 64}\n",
     ":5:19: warning: mvdr.snapshots: 33.3 s of samples in each adaptive spectrum: its bearings "
     "lag by half of that, and a source that turns by more than 0.05 deg/s is smeared"},
    {"schema: 1\nfs_hz: 4000\narray: {geometry: {line: {sensors: 64, spacing_m: 0.75}}}\n"
     "cbf: {band_hz: [100, 950], ranges_m: []}\n",
     "accepted: fewer snapshots, or shorter ones: length 512, hop 256"},
    {SMALL "mvdr: {snapshots: 5, loading: {known_sources: 2}}\n", "which needs 7"},
    {SMALL "dft: {hop: 5000}\n", ":5:12: warning: dft.hop: 904 samples"},
    {CBF("band_hz: [100, 1000], ranges_m: [], length: 1000, hop: 5000"),
     ":4:62: warning: cbf.hop: 1048 samples of every 2048 are never processed"},
    {CBF("band_hz: [100, 1000], ranges_m: [], length: 100, hop: 300"), /* 14 */
     "warning: cbf.hop: 648 samples of every 2048 are never processed"},
    {CBF("band_hz: [100, 1000], ranges_m: [], length: 1500") "dft: {hop: 4096}\n",
     ":4:51: warning: cbf.length: 346 samples of every 4096 are never processed"},
    {CBF("band_hz: [100, 1000], ranges_m: [], scan: {start_deg: 0, stop_deg: 180, step_deg: 10}"),
     "warning: cbf.scan.step_deg: 10 deg is coarser than half the beam width of 19.3 deg"},
    {"schema: 1\nfs_hz: 4000\narray: {geometry: {line: {sensors: 128, spacing_m: 0.5}}}\n"
     "cbf: {band_hz: [100, 1000], ranges_m: [50, 100]}\n",
     ":4:39: warning: cbf.ranges_m: range unresolved"},
    {"schema: 1\n" LINE_ARRAY "fs_hz: 4000\ncbf: {band_hz: [100, 1000], ranges_m: []}\n"
     "mvdr: {forward_backward: true, band_hz: [100, 1600]}\n",
     "warning: mvdr.band_hz"},
    {"schema: 1\nfs_hz: 4000\ncbf: {band_hz: [100, 1000], ranges_m: []}\n"
     "array: {" LINE8 "mask: [1, 2, 5]}\nmvdr: {forward_backward: true}\n",
     "warning: mvdr.forward_backward: 1 mirror images"},
    {SMALL "dft: {length: 4194304}\n", /* 17.5 minutes */
     ":5:15: warning: dft.length: 4194304 samples at 4000 Hz are a window of 17.5 minutes"},
    {SMALL "sound_speed_mps: 4888\n",
     ":5:18: warning: sound_speed_mps: 4888 m/s is not the speed of sound in water or in air"},
    {SMALL "sound_speed_mps: 150\n", "warning: sound_speed_mps: 150 m/s"},
    {ARRAY(LINE8 "hydrophone: {sensitivity_db: 165, full_scale_v: 1, full_scale_counts: 1}"),
     "warning: array.hydrophone.sensitivity_db: 165 dB re 1 V/uPa is more than any hydrophone has"},
    {"schema: 1\nfs_hz: 4000\ncbf: {band_hz: [100, 300], range_reference: abeam}\n"
     "array: {geometry: {positions: {origin: given, list: [[0, 30, 40], [2, 30, 40], [4, 30, "
     "40]]}}}"
     "\n",
     ":3:45: warning: cbf.range_reference: the line passes the reference point at 50 m"},
    {ARRAY(LINE8 "channel_count: 10"),
     ":4:72: warning: array.channel_count: 2 of the 10 channels of a frame feed no sensor: 8, 9\n"},
    {ARRAY(LINE8 "channels: [9, 1, 2, 3, 4, 5, 6, 7]"),
     "warning: array.channels: 2 of the 10 channels of a frame feed no sensor: 0, 8\n"},
    {ARRAY(LINE8 "channel_count: 99"), "feed no sensor: 8, 9, 10, 11, 12, 13, 14, 15, ...\n"},
    {ARRAY("geometry: {positions: {list: [[0, 0, 0], [2, 0, 0], [1, 0, 0], [2, 0, 0]]}}"),
     ":4:38: warning: array.geometry.positions.list: sensors 1 and 3 are at one place\n"},
    {ARRAY("geometry: {positions: {list: [[2, 0, 0], [1, 0, 0], [1, 0, 0], [2, 0, 0]]}}"),
     "sensors 1 and 2 are at one place, and so are others\n"},
};

/* getaddrinfo takes a port of more than 65535 modulo 65536, and would listen at a port to which no
 * digitiser sends. */
Test(config, nmea_comes_to_an_address_with_a_port_or_over_a_line) {
    static const char *const good[] = {"udp://0.0.0.0:10110", "udp://[::]:1",
                                       "udp://127.0.0.1:65535", "/dev/ttyUSB0"};
    static const char *const bad[] = {"udp://",          "udp://0.0.0.0",       "udp://0.0.0.0:0",
                                      "udp://0.0.0.0:",  "udp://1.2.3.4:65536", "udp://gyro:10110",
                                      "tcp://1.2.3.4:5", "dev/ttyUSB0",         "10110",
                                      "udp://[::]",      "udp://[::1:5",        "udp://:10110"};
    char text[512];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(text, sizeof text, SMALL "navigation: {nmea: \"%s\"}\n", good[i]);
        loaded l = parse_good(text);
        cr_expect_str_eq(l.config->navigation_nmea[0], good[i]);
        cr_expect_null(l.config->navigation_nmea[1]);
        drop(&l);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(text, sizeof text, SMALL "navigation: {nmea: \"%s\"}\n", bad[i]);
        loaded l = parse(text);
        cr_expect_eq(l.code, SONAR_EINVAL, "%s", bad[i]);
        expect(l.report, ":5:20: error: navigation.nmea: ");
        expect(l.report, "accepted: udp://ADDRESS:PORT");
        drop(&l);
    }
}

Test(config, nmea_of_several_sources_is_a_list) {
    loaded l =
        parse_good(SMALL "navigation: {nmea: [\"udp://239.192.0.3:60003\", /dev/ttyUSB0]}\n");
    cr_expect_str_eq(l.config->navigation_nmea[0], "udp://239.192.0.3:60003");
    cr_expect_str_eq(l.config->navigation_nmea[1], "/dev/ttyUSB0");
    cr_expect_null(l.config->navigation_nmea[2]);
    drop(&l);
    static const struct {
        const char *list, *told;
    } bad[] = {
        {"[/a, /b, /c, /d, /e]", "navigation.nmea: 5 entries are too many"},
        {"[]", "navigation.nmea: 0 entries are too few"},
        {"[/a, /a]", "navigation.nmea: /a is given twice"},
        {"[/a, \"udp://1.2.3.4\"]", ":5:25: error: navigation.nmea: 'udp://1.2.3.4' is neither"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[512];
        snprintf(text, sizeof text, SMALL "navigation: {nmea: %s}\n", bad[i].list);
        l = parse(text);
        cr_expect_eq(l.code, SONAR_EINVAL, "%s", bad[i].list);
        expect(l.report, bad[i].told);
        drop(&l);
    }
}

/* A line that bends hears both sides, so it is scanned all around; a rigid one is not. */
Test(config, towed_lines_are_scanned_as_they_hear) {
    loaded rigid = parse_good(SMALL "navigation: {tow: {model: rigid, scope_m: 100}}\n"),
           follow =
               parse_good(SMALL "navigation: {tow: {model: follow, scope_m: 50, depth_m: 30}}\n");
    cr_expect(rigid.config->cbf_scan.cone && rigid.config->mvdr_scan.cone);
    cr_expect(!follow.config->cbf_scan.cone && !follow.config->mvdr_scan.cone);
    cr_expect(follow.config->cbf_scan.wraps);
    cr_expect_eq(follow.config->tow_model, SONAR_TOW_FOLLOW);
    cr_expect_float_eq(sonar_config_tow_trail(follow.config), 40, 1e-9);
    double front_m;
    cr_expect_float_eq(sonar_config_tow_length(follow.config, &front_m),
                       7 * follow.config->geometry.spacing_m, 1e-9);
    cr_expect_float_eq(front_m, 3.5 * follow.config->geometry.spacing_m, 1e-9);
    loaded sensors = parse_good(SMALL "navigation: {tow: {model: sensors, compasses: [HEAD, TAIL], "
                                      "compass_at_m: [-2, 5], compass_offset_deg: 1.5}}\n");
    cr_expect(!sensors.config->cbf_scan.cone && sonar_config_bends(sensors.config));
    cr_expect_eq(sonar_config_tow_trail(sensors.config), 0);
    cr_expect_eq(sensors.config->tow_compasses, 2);
    cr_expect_str_eq(sensors.config->tow_compass_id[1], "TAIL");
    cr_expect_eq(sensors.config->tow_compass_at_m[0], -2);
    cr_expect_eq(sensors.config->tow_compass_offset_deg[1], 1.5);
    drop(&sensors);
    drop(&rigid);
    drop(&follow);
}

/* Errors that follow from a refused value are not reported as well. */
Test(config, a_forgetting_that_is_refused_warns_of_no_snapshots) {
    loaded l = parse(SMALL "mvdr: {forgetting: 0}\n");
    expect(l.report, ":5:20: error: mvdr.forgetting");
    cr_expect_eq(l.warnings, 0, "%s", l.report);
    drop(&l);
}

/* With a heading, or a source of headings. */
Test(config, true_bearings_with_a_heading_are_nothing_to_warn_about) {
    static const char *const text[] = {
        "schema: 1\narray: {heading_deg: 3, " LINE8 "}\nfs_hz: 4000\n"
        "cbf: {band_hz: [100, 1000], ranges_m: []}\noutput: {bearing_reference: true}\n",
        SMALL "navigation: {nmea: \"udp://127.0.0.1:10110\"}\noutput: {bearing_reference: true}\n",
        SMALL "output: {bearing_reference: array}\n"};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        loaded l = parse_good(text[i]);
        cr_expect_eq(l.warnings, 0, "%s", l.report);
        cr_expect_eq(l.config->bearing_reference,
                     i < 2 ? SONAR_REFERENCE_TRUE : SONAR_REFERENCE_ARRAY);
        drop(&l);
    }
}

Test(config, what_mvdr_takes_over_is_warned_about_once) {
    loaded l = parse(CBF("band_hz: [100, 1600], ranges_m: []") "dft: {length: 37, hop: 50}\n");
    cr_assert_eq(l.code, SONAR_OK, "%s", l.report);
    cr_expect_eq(occurrences(l.report, "warning"), 3, "%s", l.report);
    drop(&l);
}

Test(config, doubtful_values_are_warned_about) {
    for (size_t i = 0; i < sizeof warnings / sizeof *warnings; i++) {
        loaded l = parse(warnings[i].text);
        cr_assert_eq(l.code, SONAR_OK, "%s", l.report);
        expect(l.report, warnings[i].says);
        drop(&l);
    }
    static const char *const quiet[] = {
        SMALL,
        SMALL "dft: {length: 38}\n",
        SMALL "mvdr: {enabled: false}\n",
        SMALL "dft: {length: 240000}\nmvdr: {enabled: false}\n", /* a minute */
        SMALL "sound_speed_mps: 1600\n",
        CBF("band_hz: [100, 300], ranges_m: []") "sound_speed_mps: 343\n",
        "schema: 1\nfs_hz: 4000\ncbf: {band_hz: [100, 300], "
        "range_reference: abeam}\narray: {geometry: {positions: "
        "{origin: given, list: [[9, 0, 0], [11, 0, 0], [13, 0, "
        "0]]}}}\n", /* along the axis nothing changes */
        SMALL "mvdr: {forward_backward: true}\n",
        "schema: 1\nfs_hz: 4000\ncbf: {band_hz: [100, 500], "
        "ranges_m: []}\narray: {mask: [3], geometry: {positions: "
        "{list: [[0, 0, 0], [2, 0, 0], [1, 0, 0], [2, 0, 0]]}}}\n",
        CBF("band_hz: [100, 1500], ranges_m: []"),
        CBF("band_hz: [100, 1000], ranges_m: [], length: 1000, "
            "hop: 1500"), /* 3 in a window */
        CBF("band_hz: [100, 1000], ranges_m: [], scan: {start_deg: "
            "0, stop_deg: 180, step_deg: 9}")};
    for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++) {
        loaded l = parse(quiet[i]);
        cr_assert_eq(l.code, SONAR_OK, "%s", l.report);
        cr_assert_eq(l.warnings, 0, "%s", l.report);
        drop(&l);
    }
}

/* ---- CSV ------------------------------------------------------------------------------------- */

static void write_file(const char *path, const char *text, size_t bytes) {
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    fwrite(text, 1, bytes, file);
    fclose(file);
}

#define CSV_CONFIG                                                                                 \
    "schema: 1\nfs_hz: 4000\ncbf: {band_hz: [100, 500]}\n"                                         \
    "array:\n  geometry:\n    positions: {frame: enu, csv: a.csv}\n"

/* Loads CSV_CONFIG beside a file of these positions. */
static loaded load_csv(const char *csv, size_t bytes) {
    char directory[] = "/tmp/sonar-config-XXXXXX", yaml[64], table[64];
    cr_assert_not_null(mkdtemp(directory));
    snprintf(yaml, sizeof yaml, "%s/c.yaml", directory);
    snprintf(table, sizeof table, "%s/a.csv", directory);
    write_file(yaml, CSV_CONFIG, strlen(CSV_CONFIG));
    write_file(table, csv, bytes);
    loaded l = load(yaml);
    unlink(yaml);
    unlink(table);
    rmdir(directory);
    return l;
}

Test(config, positions_from_csv) {
    const char *csv =
        "east, north, up  # surveyed\r\n\n1, 2, 3\n# between\n -1 ,\t-2, -3.5e0 # so\n"
        "0,0,0.5";
    loaded l = load_csv(csv, strlen(csv));
    cr_assert_eq(l.code, SONAR_OK, "%s", l.report);
    cr_assert_eq(l.config->sensors, 3);
    cr_assert_eq(l.config->position_m[0], 2);
    cr_assert_eq(l.config->position_m[1], 1);
    cr_assert(fabs(l.config->position_m[2] + 3) < 1e-12);
    cr_assert(fabs(l.config->position_m[5] - 3.5) < 1e-12);
    cr_assert(fabs(l.config->position_m[8] + 0.5) < 1e-12);
    /* printed inline, and the same again without the file */
    char *text = print(l.config, sonar_config_print);
    loaded again = parse_good(text);
    cr_assert_str_eq(again.config->digest, l.config->digest);
    cr_assert_eq(memcmp(again.config->position_m, l.config->position_m, 9 * sizeof(double)), 0);
    free(text);
    drop(&again);
    drop(&l);
}

/* It is reported how the first row was read, since all sensor numbers depend on it. */
Test(config, the_header_of_a_csv_is_named) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"\xef\xbb\xbfx,y,z\r\n1,2,3\r\n4,5,6\r\n",
         "a.csv:1:1: note: 2 positions read, header skipped: x,y,z\n"},
        {"\xef\xbb\xbf"
         "1,2,3\n4,5,6\n",
         "a.csv: note: 2 positions read, no header\n"},
        {"# of May\n\neast, north, up\n1,2,3\n4,5,6\n",
         "a.csv:3:1: note: 2 positions read, header skipped: east, north, up\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        loaded l = load_csv(cases[i].text, strlen(cases[i].text));
        cr_assert_eq(l.code, SONAR_OK, "%s", l.report);
        cr_assert_eq(l.config->sensors, 2);
        cr_assert_eq(l.config->position_m[3] - l.config->position_m[0], 3, "north, to its sensor");
        cr_assert_eq(occurrences(l.report, "note:"), 1);
        expect(l.report, cases[i].says);
        drop(&l);
    }
}

/* The byte order mark of editors on Windows; reported places do not count it. */
Test(config, a_byte_order_mark_does_not_count) {
    loaded l = parse("\xef\xbb\xbf" SMALL);
    cr_assert_eq(l.code, SONAR_OK, "%s", l.report);
    drop(&l);
    l = parse("\xef\xbb\xbfschema: 2\n");
    expect(l.report, "test.yaml:1:9: error: schema: 2");
    expect(l.report, "\n    schema: 2\n            ^\n");
    drop(&l);
    char path[] = "/tmp/sonar-mark-XXXXXX";
    close(mkstemp(path));
    write_file(path, "\xef\xbb\xbf" SMALL, strlen(SMALL) + 3);
    l = load(path);
    cr_assert_eq(l.code, SONAR_OK, "%s", l.report);
    drop(&l);
    write_file(path, "\xff\xfes\0", 4);
    l = load(path);
    cr_assert_eq(l.code, SONAR_EUNAVAILABLE);
    expect(l.report, "is UTF-16; save it as UTF-8");
    drop(&l);
    unlink(path);
}

Test(config, mistakes_in_csv_have_their_place) {
    static const struct {
        const char *text;
        size_t bytes;
        const char *says;
    } cases[] = {
        {"x,y,z\n1,2,3\n1,2\n", 17, "a.csv:3:4: error: not a position"},
        {"x,y,z\n1,2,3\n1,oops,4\n", 22, "a.csv:3:3: error: "},
        {"1,2,3,4\n", 8, "a.csv:1:6: error: "},
        {"1,2,3\nx,y,z\n", 12, "a.csv:2:1: error: "},
        {"1,2,1e9\n", 8, "a.csv:1:5: error: "},
        {"1,2,nan\n", 8, "a.csv:1:5: error: "},
        {"1,2,3\n1,\0,3\n", 12, "a.csv:2:3: error: a NUL"},
        {"", 0, "holds no positions"},
        {"x,y,z\n", 6, "holds no positions"},
        {"1;2;3\n", 6, "a.csv:1:2: error: "},
        /* a first row that is not a position is not a header either if it contains a number */
        {"nan,0,0\n1,2,3\n", 14, "a.csv:1:1: error: not a position"},
        {"-inf,0,0\n1,2,3\n", 15, "a.csv:1:1: error: not a position"},
        {"nan,nan,nan\n1,2,3\n", 18, "a.csv:1:1: error: not a position"},
        {"O.5,0,0\n1,2,3\n", 14, "a.csv:1:1: error: not a position"},
        {"O.5,l.O,z.5\n1,2,3\n", 18, "a.csv:1:1: error: not a position"},
        {"x,y,2\n1,2,3\n", 12, "a.csv:1:1: error: not a position"},
        {",,\n1,2,3\n", 9, "a.csv:1:1: error: not a position"},
        {"\xc2\xa0"
         "1,2,3\n1,2,3\n",
         14, "a.csv:1:1: error: not a position"},
        {"\xef\xbb\xbf"
         "1,x,3\n",
         9, "a.csv:1:3: error: not a position"},
        {"\xff\xfe"
         "1\0,\0",
         6, "a.csv is UTF-16; save it as UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        loaded l = load_csv(cases[i].text, cases[i].bytes);
        cr_assert_eq(l.code, SONAR_EINVAL, "case %zu", i);
        expect(l.report, cases[i].says);
        drop(&l);
    }
}

/* ---- printing and the digest ----------------------------------------------------------------- */

static const char *const varied[] = {
    SMALL,
    SMALL "dft: {length: 4000, hop: 1333, window: kaiser, kaiser_beta: 7.123456789012345}\n",
    SMALL "mvdr: {forgetting: 0.97, loading: {rule: trace}, enabled: false, solver: jacobi}\n",
    SMALL "output: {topics: [status, cbf.azimuth]}\nruntime: {cpus: [0, 1], plugin_dir: \"/a \\\\ "
          "\\\"b\\\" # c\", state_dir: \"/\xc3\xa4\"}\n",
    SMALL "ingest: {endpoints: [\"tcp://127.0.0.1:1\", \"ipc:///a b\"], socket: sub}\n",
    CBF("band_bins: [100, 900], ranges_m: auto, shading: {taylor: {sidelobe_db: 30, nbar: 5}}"),
    CBF("band_bins: [100, 900], scan: {start_deg: 10, stop_deg: 170, step_deg: 0.1}, "
        "shading: {chebyshev: {sidelobe_db: 33.3}}") "mvdr: {length: 1001, hop: 77}\n",
    ARRAY(LINE8 "mask: [7, 2], gain_db: [1, 2, 3, 4, 5, 6, 7, 8.1], phase_deg: [1, 1, 1, 1, 1, 1, "
                "1, 1], delay_us: -0.1, channels: [8, 7, 6, 5, 4, 3, 2, 1], channel_count: 16, "
                "heading_deg: 0"),
    ARRAY("geometry: {circle: {sensors: 7, radius_m: 0.1}}"),
    ARRAY("geometry: {planar: {rows: 3, columns: 2, row_spacing_m: 0.3, column_spacing_m: 0.1}}"),
    ARRAY(
        "geometry: {positions: {frame: enu, list: [[0.1, 0.2, 0.3], [1.7, 0, -0.1], [0, 0, 1]]}}"),
};

Test(config, printed_text_loads_to_the_same_digest) {
    for (size_t i = 0; i < sizeof varied / sizeof *varied; i++) {
        loaded l = parse_good(varied[i]);
        char *text = print(l.config, sonar_config_print);
        loaded again = parse(text);
        cr_assert_eq(again.code, SONAR_OK, "case %zu\n%s\n%s", i, again.report, text);
        cr_assert_str_eq(again.config->digest, l.config->digest, "case %zu\n%s", i, text);
        cr_assert_eq(again.config->calibrated, l.config->calibrated);
        cr_assert_eq(again.warnings, l.warnings);
        for (size_t j = 0; j < i; j++) {
            loaded other = parse_good(varied[j]);
            cr_assert_str_neq(other.config->digest, l.config->digest);
            drop(&other);
        }
        free(text);
        drop(&again);
        drop(&l);
    }
}

Test(config, digest_sees_values_only) {
    loaded a = parse_good(SMALL);
    loaded b = parse_good("# moved about\ncbf:\n  ranges_m: []\n  band_hz:\n  - 1e2\n  - 1000.0\n"
                          "fs_hz: 4000\ndft: {length: 4096, window: hann}\n"
                          "array:\n  geometry: {line: {spacing_m: 0.50, sensors: 8}}\n"
                          "  mask: []\n  channels: [0, 1, 2, 3, 4, 5, 6, 7]\nschema: 1\n");
    cr_assert_str_eq(a.config->digest, b.config->digest);
    loaded c = parse_good(SMALL "sound_speed_mps: 1500.0000000000002\n");
    cr_assert_str_neq(a.config->digest, c.config->digest);
    drop(&a);
    drop(&b);
    drop(&c);
}

Test(config, print_says_where_values_come_from) {
    loaded l = parse_good(SMALL "dft:\n  hop: 100\n");
    char *text = print(l.config, sonar_config_print);
    expect(text, "\n  hop: 100  # test.yaml:6\n");
    expect(text, "\n  length: 4096  # default\n");
    expect(text, "\n  # heading_deg: not set");
    free(text);
    drop(&l);
}

/* ---- description and reference --------------------------------------------------------------- */

static void check_columns(const char *text, size_t most) {
    for (const char *at = text; *at; at += strcspn(at, "\n") + 1)
        cr_assert(strcspn(at, "\n") <= most, "%.*s", (int)strcspn(at, "\n"), at);
}

Test(config, description_fits_a_terminal_and_shows_what_matters) {
    for (size_t i = 0; i < sizeof varied / sizeof *varied; i++) {
        loaded l = parse_good(varied[i]);
        char *text = print(l.config, sonar_config_describe);
        check_columns(text, 80);
        expect(text, "memory");
        free(text);
        drop(&l);
    }
    loaded l = parse_good(CBF("band_hz: [100, 1000], length: 1500, hop: 4000"));
    char *text = print(l.config, sonar_config_describe);
    expect(text, "of each window the first 1500 samples\n");
    free(text);
    drop(&l);
    l = parse_good("schema: 1\nfs_hz: 4000\ncbf: {band_hz: [100, 1000]}\narray:\n"
                   "  geometry: {line: {sensors: 100, spacing_m: 0.5}}\n  mask: [40]\n");
    text = print(l.config, sonar_config_describe);
    expect(text, "port and starboard");
    expect(text, "100 sensors, 99 used");
    expect(text,
           "\n    40      40     -4.750      0.000      0.000     0.00    0.00     0.00 off\n");
    expect(text, "\n     7       7");
    expect(text, "\n    92      92");
    cr_assert_null(strstr(text, "\n    41      41"));
    expect(text, "83 sensors are not shown");
    expect(text, "bins 103..1024 (922) of 0.97656 Hz: 100.586..1000 Hz");
    /* (63 * 2048 + 4096)/4000 = 33.28 s; 1.56 m at 1000 Hz and 50 m: 1.52 deg */
    expect(text, "integration time 33.28 s");
    expect(text, "0.0456 deg/s");
    /* 99 sensors, 64 snapshots, eps 1: share = 2/(99/64 + sqrt((99/64)^2 + 4)) = 0.491 */
    expect(text, "a source reads about 3.1 dB low");
    free(text);
    drop(&l);
}

Test(config, description_of_a_line_says_how_it_is_tilted) {
    static const char *const end[] = {"[0, 0, 3]", "[0, 2, 2]", "[0, 2, -2]", "[3, 0, 0]"};
    static const char *const words[] = {"line, uniform, vertical\n", " 90 deg\n",
                                        "and 45 deg up: ", " 0 deg\n"};
    for (size_t i = 0; i < sizeof end / sizeof *end; i++) {
        char config[400];
        snprintf(config, sizeof config,
                 "schema: 1\nfs_hz: 4000\ncbf: {band_hz: [400, 1000]}\narray: {geometry: "
                 "{positions: {frame: xyz, list: [[0, 0, 0], %s]}}}\n",
                 end[i]);
        loaded l = parse_good(config);
        char *text = print(l.config, sonar_config_describe);
        check_columns(text, 80);
        expect(text, words[i]);
        cr_assert_eq(strstr(text, "horizontal plane") != NULL, i == 1 || i == 2);
        cr_assert_null(strstr(text, "nan"));
        free(text);
        drop(&l);
    }
}

#define SCAN "scan: {start_deg: 0, stop_deg: 180, step_deg: 1}"
#define LARGE(band)                                                                                \
    "schema: 1\nfs_hz: 8000\narray: {geometry: {line: {sensors: 65536, spacing_m: 0.004}}}\n"      \
    "ingest: {sample_type: s16, queue_windows: 2}\ndft: {length: 8192, hop: 8000}\n"               \
    "cbf: {band_bins: [327, 492], ranges_m: [], " SCAN "}\n"                                       \
    "mvdr: {snapshots: 64, band_bins: " band ", " SCAN "}\n"
/* tests/gpu_memory.c measures the stages' memory; this checks that all stages are counted. */
Test(config, memory_of_a_gpu_grows_with_what_is_asked_for) {
    loaded a = parse_good(SMALL), b = parse_good(SMALL "ingest: {queue_windows: 400}\n"),
           c = parse_good(SMALL "mvdr: {enabled: false}\n");
    const double base = sonar_config_gpu_bytes(a.config);
    cr_assert_eq(sonar_config_gpu_bytes(b.config) - base, 396 * 8 * 2048 * 4);
    cr_assert(sonar_config_gpu_bytes(c.config) < base);
    loaded d = parse_good(LARGE("[20, 119]")), e = parse_good(LARGE("[327, 426]"));
    const double sensors = 65536, samples = 2 * 8192 + 2 * (3 * 8000.0 + 2000),
                 block = 8 * 64 * 100;
    const double spectra = 8 * 473, tables = 2 * 8 * 181;
    const double least = sensors * (samples + block + spectra + tables);
    const double bytes = sonar_config_gpu_bytes(d.config);
    cr_expect(bytes > least && bytes < 1.3 * least, "%g bytes, at least %g", bytes, least);
    /* the bins between the two bands are kept too */
    cr_expect_float_eq(bytes - sonar_config_gpu_bytes(e.config), sensors * 8 * (473 - 166), 1);
    drop(&a);
    drop(&b);
    drop(&c);
    drop(&d);
    drop(&e);
}

Test(config, memory_of_a_gpu_is_reported_where_one_may_be_used) {
    static const char *const backends[] = {"auto", "cuda", "cpu"};
    for (size_t i = 0; i < 3; i++) {
        char config[512];
        snprintf(config, sizeof config, SMALL "runtime: {backend: %s}\n", backends[i]);
        loaded l = parse_good(config);
        char *text = print(l.config, sonar_config_describe);
        cr_expect_eq(strstr(text, "gpu memory") != NULL, i < 2, "%s: %s", backends[i], text);
        free(text);
        drop(&l);
    }
}

#define RANGED CBF("band_hz: [100, 1000], ranges_m: [50, 100, 200]")
Test(config, memory_grows_with_what_is_asked_for) {
    loaded a = parse_good(SMALL), b = parse_good(SMALL "ingest: {queue_windows: 400}\n"),
           c = parse_good(SMALL "mvdr: {snapshots: 640}\n");
    const size_t base = sonar_config_memory_bytes(a.config);
    cr_assert(base > 4 * 8 * 4096 && base < 64 << 20);
    /* samples, a bit for each, and which are missing */
    cr_assert_eq(sonar_config_memory_bytes(b.config) - base,
                 396u * 8 * (2048 * (4 + 1 / 8.0) + 8 + 8 * SONAR_GAPS_MOST));
    cr_assert(sonar_config_memory_bytes(c.config) > base + 576 * 8 * 8 * 900);
    /* sub-windows 512 long, 64 apart: 57 of a window's, all there at once */
    loaded d = parse_good(SMALL "mvdr: {length: 512, hop: 512, snapshots: 64}\n"),
           e = parse_good(SMALL "mvdr: {length: 512, hop: 64, snapshots: 64}\n");
    const size_t one = 8u * d.config->sensors * d.config->mvdr_band.bins;
    cr_assert_eq(sonar_config_memory_bytes(e.config) - sonar_config_memory_bytes(d.config),
                 (57 - 8) * one);
    drop(&d);
    drop(&e);
    /* two tables of turns for every point, and surfaces of them; the stage's are of whole vectors
     */
    loaded f = parse_good(RANGED), g = parse_good(RANGED "mvdr: {nearfield: true}\n");
    const size_t points = 3 * g.config->mvdr_scan.count, padded = (points + 7) / 8 * 8;
    const size_t more = sonar_config_memory_bytes(g.config) - sonar_config_memory_bytes(f.config);
    cr_assert_eq(g.config->specs.mvdr.ranges, 3);
    cr_assert_eq(more, 8 * g.config->sensors * (points + padded) +
                           4 * (g.config->mvdr_band.bins * padded +
                                points * (3 + g.config->output_queue_results)));
    /* what true bearings are read from, of both spectra, at the start and live: four taps each */
    loaded h = parse_good(SMALL "output: {bearing_reference: true}\n");
    sonar_bearings *cbf = sonar_bearings_create(&h.config->cbf_scan, SONAR_INTERPOLATE_CUBIC);
    sonar_bearings *mvdr = sonar_bearings_create(&h.config->mvdr_scan, SONAR_INTERPOLATE_NEAREST);
    const size_t bearings = 2 * (sonar_bearings_count(cbf) + sonar_bearings_count(mvdr));
    const size_t grids = sonar_config_memory_bytes(h.config) - base;
    cr_expect(grids > bearings * 4 * 8 && grids < bearings * 5 * 8 + 1024, "%zu bytes for %zu",
              grids, bearings);
    sonar_bearings_destroy(cbf);
    sonar_bearings_destroy(mvdr);
    drop(&h);
    drop(&f);
    drop(&g);
    drop(&a);
    drop(&b);
    drop(&c);
}

Test(config, shipped_configurations_load) {
    glob_t found;
    cr_assert_eq(glob(SONAR_SOURCE_DIR "/config/*.yaml", 0, NULL, &found), 0);
    cr_assert(found.gl_pathc >= 2);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        loaded l = load(found.gl_pathv[i]);
        cr_assert_eq(l.code, SONAR_OK, "%s", l.report);
        char *text = print(l.config, sonar_config_print);
        loaded again = parse_good(text);
        cr_assert_str_eq(again.config->digest, l.config->digest);
        free(text);
        drop(&again);
        drop(&l);
    }
    globfree(&found);
}

/* SONAR_UPDATE_REFERENCE=1 writes the page instead of comparing it. */
Test(config, the_reference_page_is_fresh) {
    const char *path = SONAR_SOURCE_DIR "/docs/configuration.md";
    char *fresh;
    size_t size, bytes;
    FILE *to = open_memstream(&fresh, &size);
    sonar_config_write_reference(to);
    fclose(to);
    if (getenv("SONAR_UPDATE_REFERENCE"))
        write_file(path, fresh, size);
    char *there = text_read(path, &bytes);
    cr_assert_not_null(there);
    cr_assert_str_eq(there, fresh, "run this test once with SONAR_UPDATE_REFERENCE=1");
    free(there);
    free(fresh);
}

/* ---- hostile input --------------------------------------------------------------------------- */

Test(config, a_missing_file_a_directory_and_a_nul_are_reported) {
    loaded l = load("/nowhere/sonard.yaml");
    cr_assert_eq(l.code, SONAR_EUNAVAILABLE);
    expect(l.report, "cannot read /nowhere/sonard.yaml: No such file");
    drop(&l);
    l = load("/tmp");
    cr_assert_eq(l.code, SONAR_EUNAVAILABLE);
    expect(l.report, "directory");
    drop(&l);
    l = load("/dev/null");
    cr_assert_eq(l.code, SONAR_EINVAL);
    drop(&l);
    const char zero[] = "schema: 1\nfs_hz: \0 3\n";
    l = parse_bytes(zero, sizeof zero - 1);
    expect(l.report, "test.yaml:2:8: error: not valid YAML");
    drop(&l);
}

Test(config, a_flood_of_mistakes_is_cut_short) {
    char *text = malloc(40000);
    size_t at = 0;
    for (int i = 0; i < 2000; i++)
        at += (size_t)sprintf(text + at, "bogus%d: 1\n", i);
    loaded l = parse_bytes(text, at);
    cr_assert(l.errors >= 1000 && l.errors < 1100, "%zu", l.errors);
    expect(l.report, "more\n");
    cr_assert(strlen(l.report) < 100000);
    drop(&l);
    free(text);
}

/* Overwrites, removes, doubles or moves a few bytes, or puts in something awkward. */
static size_t mutate(char *text, size_t bytes, uint64_t *seed) {
    static const char *const awkward[] = {"1e308",
                                          "-1",
                                          "{",
                                          "[",
                                          "]",
                                          "}",
                                          ": ",
                                          "\n",
                                          "\t",
                                          "*",
                                          "&a ",
                                          "!!",
                                          "\"",
                                          "'",
                                          "|",
                                          "0",
                                          "99999999999999999999",
                                          ".inf",
                                          "~",
                                          "---\n",
                                          "\xff",
                                          "\xc3",
                                          "- ",
                                          "#",
                                          "auto",
                                          "[1,2,3]",
                                          "{a: 1}",
                                          "1",
                                          "65536",
                                          "8",
                                          "? "};
    for (unsigned n = 1 + sonar_random_bits(seed) % 4; n--;) {
        const size_t at = sonar_random_bits(seed) % bytes, length = sonar_random_bits(seed) % 12;
        const size_t cut = at + length < bytes ? length : bytes - at;
        const char *put = awkward[sonar_random_bits(seed) % (sizeof awkward / sizeof *awkward)];
        switch (sonar_random_bits(seed) % 4) {
        case 0:
            text[at] = (char)sonar_random_bits(seed);
            break;
        case 1:
            memmove(text + at, text + at + cut, bytes - at - cut);
            bytes -= cut;
            break;
        case 2:
            memmove(text + at + cut, text + at, bytes - at);
            bytes += cut;
            break;
        default:
            memmove(text + at + strlen(put), text + at, bytes - at);
            memcpy(text + at, put, strlen(put));
            bytes += strlen(put);
        }
        if (!bytes)
            text[bytes++] = 'x';
    }
    return bytes;
}

/* A corrupted file either loads, and can be printed and described, or is refused with a reason. */
static void survive(const char *path, uint64_t seed, size_t times) {
    size_t bytes, good = 0;
    char *original = text_read(path, &bytes), *text = malloc(bytes + 256);
    cr_assert_not_null(original);
    for (size_t i = 0; i < times; i++) {
        memcpy(text, original, bytes);
        loaded l = parse_bytes(text, mutate(text, bytes, &seed));
        if (l.config) {
            good++;
            free(print(l.config, sonar_config_describe));
            char *printed = print(l.config, sonar_config_print);
            loaded again = parse(printed);
            cr_assert_eq(again.code, SONAR_OK, "%s\n%s", again.report, printed);
            cr_assert_str_eq(again.config->digest, l.config->digest);
            free(printed);
            drop(&again);
        }
        drop(&l);
    }
    cr_assert(good > times / 50 && good < times, "%zu of %zu loaded", good, times);
    free(original);
    free(text);
}

Test(config, mutations_never_crash) {
    survive(SONAR_SOURCE_DIR "/config/demo.yaml", 1, 3000);
}

Test(config, mutations_of_a_configuration_with_a_file_of_positions_never_crash) {
    survive(SONAR_SOURCE_DIR "/config/array-positions.yaml", 2, 1000);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* Of ranks on one host. */
static sonar_code take_part(const sonar_config *whole, size_t rank, size_t ranks,
                            sonar_config_part **part, sonar_error *err) {
    const sonar_rank_place place = {.rank = rank, .ranks = ranks, .ranks_here = ranks};
    return sonar_config_part_create(whole, &place, part, err);
}

/* Every sensor and channel belongs to a rank, with all its values. */
Test(config, parts_are_the_whole_array) {
    loaded l = parse_good(
        "schema: 1\narray: {id: 1, name: t, geometry: {line: {sensors: 7, spacing_m: 1}},\n"
        "  channels: [6, 0, 5, 1, 4, 2, 8], mask: [3], gain_db: [1, 2, 3, 4, 5, 6, 7]}\n"
        "sound_speed_mps: 1500\nfs_hz: 8000\ncbf: {band_hz: [100, 300]}\n"
        "ingest: {endpoints: [\"tcp://127.0.0.1:555{rank}\", \"ipc:///tmp/{rank}.in\"], "
        "shared_memory: \"ipc:///tmp/{rank}.memory\"}\n"
        "cluster: {ranks: [2, 5, 2]}\n");
    const size_t first[] = {0, 2, 7}, channels[] = {2, 5, 2};
    size_t seen[7] = {0};
    char endpoint[40];
    cr_assert_str_eq(l.config->ingest_endpoint[0], "tcp://127.0.0.1:5550");
    for (size_t r = 0; r < 3; r++) {
        sonar_config_part *part;
        sonar_error err = {0};
        cr_assert(!take_part(l.config, r, 3, &part, &err), "%s", err.text);
        const sonar_config *c = &part->config;
        cr_assert(part->first_channel == first[r] && c->channels == channels[r]);
        cr_assert(c->specs.dft.channels == channels[r] && c->specs.cbf.sensors == c->sensors);
        for (size_t s = 0; s < c->sensors; s++) {
            const size_t whole = part->sensor[s];
            seen[whole]++;
            cr_assert_eq(c->channel[s] + first[r], l.config->channel[whole]);
            cr_assert_eq(c->position_m[3 * s], l.config->position_m[3 * whole]);
            cr_assert_eq(c->gain_db[s], (double)whole + 1);
            cr_assert_eq(c->used[s], whole != 3);
        }
        snprintf(endpoint, sizeof endpoint, "ipc:///tmp/%zu.memory", r);
        cr_assert_str_eq(c->shared_memory, endpoint);
        cr_assert_str_eq(l.config->shared_memory, "ipc:///tmp/0.memory");
        snprintf(endpoint, sizeof endpoint, "ipc:///tmp/%zu.in", r);
        cr_assert_str_eq(c->ingest_endpoint[1], endpoint);
        sonar_config_part_destroy(part);
    }
    for (size_t s = 0; s < 7; s++)
        cr_assert_eq(seen[s], 1, "sensor %zu", s);
    drop(&l);
}

/* Each rank knows only its own sensors' delays, so the shape of the whole array stays; its heading
 * does not need them. */
Test(config, ranks_tow_only_straight_arrays) {
    static const char *const model[] = {"rigid", "follow"};
    for (size_t i = 0; i < 2; i++) {
        char text[400];
        snprintf(text, sizeof text, SMALL "navigation: {tow: {model: %s, scope_m: 100}}\n",
                 model[i]);
        loaded l = parse_good(text);
        for (size_t ranks = 1; ranks <= 2; ranks++) {
            sonar_config_part *part;
            sonar_error err = {0};
            const sonar_code code = take_part(l.config, 0, ranks, &part, &err);
            cr_expect_eq(code, i && ranks > 1 ? SONAR_EINVAL : SONAR_OK, "%s", err.text);
            if (code)
                cr_expect_str_eq(err.where, "navigation.tow.model");
            sonar_config_part_destroy(part);
        }
        drop(&l);
    }
}

/* On a host with 32 processors, independent of this machine. */
Test(config, ranks_have_threads_for_their_share) {
#define HALF(more)                                                                                 \
    "schema: 1\nfs_hz: 8000\nsound_speed_mps: 1500\ncbf: {band_hz: [100, 300]}\n"                  \
    "array: {id: 1, name: t, channel_count: 262144, geometry: {line: {sensors: 4, spacing_m: "     \
    "1}},\n"                                                                                       \
    "  channels: [0, 1, 131072, 262143]}\n" more
    static const struct {
        const char *text;
        size_t processors, threads, ingest, io;
    } given[] = {
        {HALF(""), 16, 16, 3, 3}, /* 1.05e9 samples a second of the rank's channels */
        {HALF(""), 4, 4, 2, 2},   /* half the processors */
        {HALF("ingest: {shared_memory: \"ipc:///tmp/m{rank}\"}\n"), 4, 4, 3, 3},
        {HALF(""), 1, 1, 1, 1},
        {HALF("ingest: {threads: 7}\nruntime: {threads: 9}\n"), 4, 9, 7, 7},
        {HALF("ingest: {io_threads: 5}\n"), 16, 16, 3, 5},
        {HALF("runtime: {cpus: [0, 0, 0]}\n"), 16, 3, 3, 3},
    };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        loaded l = parse_good(given[i].text);
        sonar_config_part *part;
        sonar_error err = {0};
        cr_assert(!take_part(l.config, 1, 2, &part, &err), "%s", err.text);
        const sonar_config *c = &part->config;
        sonar_resolve_threads_of_rank(&part->config, given[i].processors);
        cr_expect_eq(c->threads, given[i].threads, "%zu: %zu", i, c->threads);
        cr_expect_eq(c->ingest_threads, given[i].ingest, "%zu: %zu", i, c->ingest_threads);
        cr_expect_eq(c->ingest_io_threads, given[i].io, "%zu: %zu", i, c->ingest_io_threads);
        sonar_config_part_destroy(part);
        drop(&l);
    }
#undef HALF
}

/* The processors that the process may use limit a rank's share of the host's. */
Test(config, a_bound_rank_has_its_own_processors) {
    cpu_set_t all, one;
    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    const size_t online = (size_t)sysconf(_SC_NPROCESSORS_ONLN), bound = (size_t)CPU_COUNT(&all);
    size_t share;
    for (size_t ranks = 1; ranks <= 2 * online; ranks++) {
        sonar_rank_place place = {.ranks_here = ranks, .processors_here = 1000};
        cr_assert(sonar_processors_of_rank(&place, &share) == sonar_min_size(bound, share) &&
                      share == sonar_max_size(1, online / ranks),
                  "%zu", ranks);
        place.processors_here = bound; /* of all, as in a container */
        cr_assert(ranks == 1 || (sonar_processors_of_rank(&place, &share) == share &&
                                 share == sonar_max_size(1, bound / ranks)),
                  "%zu", ranks);
    }
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    loaded l = parse_good(SMALL);
    sonar_config_part *part;
    sonar_error err = {0};
    cr_assert(!take_part(l.config, 0, 1, &part, &err), "%s", err.text);
    cr_assert_eq(part->config.threads, 1);
    cr_assert(part->processors == 1 && part->share == online);
    cr_assert_eq(l.config->threads, 1, "without ranks, too");
    sonar_config_part_destroy(part);
    drop(&l);
}

Test(config, ranks_that_do_not_fit_are_refused) {
    loaded l = parse(SMALL "cluster: {ranks: [1, 100]}\n");
    cr_assert_eq(l.code, SONAR_EINVAL);
    expect(l.report, "error: cluster.ranks");
    drop(&l);
    l = parse_good(
        "schema: 1\narray: {id: 1, name: t, geometry: {line: {sensors: 4, spacing_m: 1}}, "
        "mask: [0, 1]}\nsound_speed_mps: 1500\nfs_hz: 8000\ncbf: {band_hz: [100, 300]}\n");
    sonar_config_part *part;
    sonar_error err = {0};
    cr_assert_eq(take_part(l.config, 0, 2, &part, &err), SONAR_EINVAL, "all masked");
    cr_assert(!part);
    cr_assert_eq(take_part(l.config, 4, 5, &part, &err), SONAR_OK);
    sonar_config_part_destroy(part);
    cr_assert_eq(take_part(l.config, 0, 5, &part, &err), SONAR_EINVAL, "no channel");
    drop(&l);
}
