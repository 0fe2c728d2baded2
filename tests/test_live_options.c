/* SPDX-License-Identifier: GPL-3.0-or-later */
/* All options in turn, by the column `live` of docs/configuration.md: a live option is adopted with
 * the next window, and changed back; any other option is refused and named. test_config compares
 * that page with the table of options, test_live the results with those of a start. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "config/options.h"
#include "configured.h"
#include "control/change.h"
#include "feed.h"
#include "process.h"

enum { SENSORS = 12, FS = 2048, LENGTH = 256, MOST = 3 };

/* ---- a pipeline in which everything has room ------------------------------------------------- */

static const char AUTO[] = "auto";

static void write_text(char text[2048], const char *cbf_scan, const char *mvdr_scan) {
    snprintf(text, 2048,
             "schema: 1\n"
             "array: {geometry: {line: {sensors: %d, spacing_m: 0.75}}, hydrophone: "
             "{sensitivity_db: -180, full_scale_v: 5, full_scale_counts: 32768}}\n"
             "fs_hz: %d\n"
             "ingest: {overload: block}\n"
             "dft: {length: %d, hop: %d}\n"
             "cbf: {band_hz: [600, 900], scan: %s, ranges_m: auto, range_min_m: 50, "
             "range_max_m: 3200}\n"
             "lofar: {band_hz: [500, 1000]}\n"
             "mvdr: {band_hz: [600, 900], snapshots: 4, scan: %s, solver: jacobi, music: 1, "
             "white_noise_gain_db: -6}\n"
             "beam: {az_deg: [90], bearing_deg: [10]}\n"
             "output: {high_water_mark: 1000}\n"
             "runtime: {threads: 1, backend: cpu}\n",
             SENSORS, FS, LENGTH, LENGTH, cbf_scan, mvdr_scan);
}

/* A uniform scan with the number of directions of the automatic one. */
static void choose_scan(bool mvdr, double from_deg, double to_deg, char scan[128]) {
    char text[2048];
    write_text(text, AUTO, AUTO);
    sonar_config *config = configured("test", text);
    const size_t count = mvdr ? config->mvdr_scan.count : config->cbf_scan.count;
    snprintf(scan, 128, "{start_deg: %g, stop_deg: %g, step_deg: %.17g}", from_deg, to_deg,
             (to_deg - from_deg) / (double)(count - 1));
    sonar_config_destroy(config);
}

typedef struct rig {
    feed feed;
    box box;
    subscriber subscriber;
    uint64_t windows;
    char base[72]; /* the version at the start */
} rig;

static void rig_open(rig *rig) {
    char text[2048], cbf[128], mvdr[128];
    sonar_error err = {0};
    choose_scan(false, 0, 180, cbf);
    choose_scan(true, 0, 180, mvdr);
    write_text(text, cbf, mvdr);
    *rig = (struct rig){.box = box_open()};
    box_write(&rig->box, "base.yaml", "%s", text);
    cr_assert_eq(feed_start(&rig->feed, text, NULL, NULL, 0, NULL, &err), SONAR_OK, "%s", err.text);
    snprintf(rig->base, sizeof rig->base, "%s", sonar_pipeline_config(rig->feed.pipeline)->version);
    rig->subscriber = subscribe(rig->feed.out, "cbf.azimuth", NULL);
    while (!(sonar_output_wanted(rig->feed.pipeline->output) & SONAR_WANT(SONAR_CBF_AZIMUTH)))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    rig->feed.digitiser = digitiser_open(rig->feed.in, SENSORS, 0, SENSORS, LENGTH);
    rig->feed.digitiser.frame.fs_hz = FS;
}

static void rig_close(rig *rig) {
    unsubscribe(&rig->subscriber);
    feed_close(&rig->feed);
    box_close(&rig->box);
}

/* The next window has the running configuration, and is flagged as changed. */
static void expect_taken_over(rig *rig, const char *what) {
    message m;
    digitiser_send(&rig->feed.digitiser, 1);
    cr_assert(receive_until(&rig->subscriber, "cbf.azimuth", "window", (double)rig->windows++,
                            20000, &m));
    const char *version = sonar_pipeline_config(rig->feed.pipeline)->version;
    const cJSON *said = cJSON_GetObjectItemCaseSensitive(m.head, "config_version");
    cr_expect_str_eq(said->valuestring, version, "%s", what);
    const cJSON *flags = cJSON_GetObjectItemCaseSensitive(m.head, "flags"), *flag;
    bool changed = false;
    cJSON_ArrayForEach(flag, flags) changed =
        changed || !strcmp(flag->valuestring, "config_changed");
    cr_expect(changed, "%s", what);
    message_free(&m);
}

/* ---- the options ----------------------------------------------------------------------------- */

/* Values within the option's reserved memory, with other options that have to change too. */
static const struct trial {
    sonar_option_id id;
    const char *value;
    sonar_config_value beside[MOST];
} trials[] = {
    {OPT_MASK, "[3]", {{0}}},
    {OPT_AUTO_MASK, "true", {{0}}},
    {OPT_GAIN, "-170", {{0}}},
    {OPT_SENSITIVITY, "-181", {{0}}},
    {OPT_AMPLIFIER, "20", {{0}}},
    {OPT_FULL_SCALE_V, "10", {{0}}},
    {OPT_FULL_SCALE_COUNTS, "8388608", {{0}}},
    {OPT_PHASE, "5", {{"beam.az_deg", NULL}, {"beam.bearing_deg", NULL}}},
    {OPT_DELAY, "10", {{0}}},
    {OPT_HEADING, "45", {{0}}},
    {OPT_ERROR_PHASE, "3", {{0}}},
    {OPT_ERROR_POSITION, "0.1", {{0}}},
    {OPT_ERROR_HEADING, "1", {{0}}},
    {OPT_ERROR_SOUND_SPEED, "5", {{0}}},
    {OPT_SOUND_SPEED, "1480", {{0}}},
    {OPT_CBF_BAND_HZ, "[700, 800]", {{0}}},
    {OPT_CBF_BAND_BINS, "[90, 100]", {{0}}},
    {OPT_CBF_SCAN, "auto", {{0}}},
    {OPT_CBF_DEPRESSION, "5", {{0}}},
    {OPT_SHADING, "hann", {{0}}},
    {OPT_CHEBYSHEV_LEVEL, "30", {{0}}},
    {OPT_TAYLOR_LEVEL, "30", {{0}}},
    {OPT_TAYLOR_NBAR, "5", {{"cbf.shading.taylor.sidelobe_db", "30"}}},
    {OPT_RANGE_MIN, "51", {{0}}},
    {OPT_RANGE_MAX, "3100", {{0}}},
    {OPT_RANGE_REFERENCE, "abeam", {{0}}},
    {OPT_LOFAR_BAND_HZ, "[550, 950]", {{0}}},
    {OPT_LOFAR_BAND_BINS, "[70, 120]", {{0}}},
    {OPT_MVDR_BAND_HZ, "[700, 800]", {{0}}},
    {OPT_MVDR_BAND_BINS, "[90, 100]", {{0}}},
    {OPT_LOADING_RULE, "trace", {{0}}},
    {OPT_LOADING_EPS, "0.5", {{0}}},
    {OPT_KNOWN_SOURCES, "1", {{0}}},
    {OPT_SOURCE_COUNT, "mdl", {{0}}},
    {OPT_DMR, "2", {{"mvdr.white_noise_gain_db", NULL}}},
    {OPT_WHITE_NOISE_GAIN, "-3", {{0}}},
    {OPT_MUSIC, "auto", {{0}}},
    {OPT_TOLERANCE, "1e-6", {{0}}},
    {OPT_MAX_SWEEPS, "20", {{0}}},
    {OPT_CORRECT_LEVEL, "true", {{"mvdr.white_noise_gain_db", NULL}}},
    {OPT_CELL_MAXIMUM, "true", {{0}}},
    {OPT_MVDR_SCAN, "auto", {{0}}},
    {OPT_MVDR_DEPRESSION, "5", {{0}}},
    {OPT_DETECT_THRESHOLD, "9", {{0}}},
    {OPT_DETECT_SEPARATION, "3", {{0}}},
    {OPT_DETECT_MARGIN, "2", {{0}}},
    {OPT_DETECT_FAINT, "2", {{0}}},
    {OPT_DETECT_MOST, "3", {{0}}},
    {OPT_NORMALISER, "two_pass", {{0}}},
    {OPT_BEAM_AZ, "[30]", {{0}}},
    {OPT_BEAM_BEARING, "[]", {{0}}},
    {OPT_BEAM_TRACK, "[3]", {{"beam.az_deg", NULL}}},
    {OPT_BEAM_RANGE, "100", {{0}}},
    {OPT_BEARING_REFERENCE, "true", {{0}}},
    {OPT_NAV_OFFSET, "5", {{0}}},
    {OPT_TOW_SCOPE, "200", {{0}}},
    {OPT_TOW_DEPTH, "10", {{0}}},
    {OPT_LOG_LEVEL, "error", {{0}}},
};

static bool names(const sonar_config_differences *all, const char *path) {
    for (size_t i = 0; i < all->count; i++)
        if (!strcmp(all->difference[i].path, path))
            return all->difference[i].live;
    return false;
}

/* Sets them, and reads the file of the start again. */
static void there_and_back(rig *rig, const char *path, size_t count,
                           const sonar_config_value *values) {
    static sonar_config_differences differences;
    sonar_pipeline *pipeline = rig->feed.pipeline;
    sonar_error err = {0};
    cr_assert_eq(sonar_control_set(pipeline, count, values, NULL, NULL, &differences, &err),
                 SONAR_OK, "%s: %s: %s", path, err.where, err.text);
    cr_expect(names(&differences, path), "%s", path);
    cr_expect_str_neq(sonar_pipeline_config(pipeline)->version, rig->base, "%s", path);
    expect_taken_over(rig, path);
    cr_assert_eq(sonar_control_reload(pipeline, box_path(&rig->box, "base.yaml"), NULL, NULL,
                                      &differences, &err),
                 SONAR_OK, "%s: back: %s", path, err.text);
    cr_expect(names(&differences, path), "back: %s", path);
    cr_expect_str_eq(sonar_pipeline_config(pipeline)->version, rig->base, "%s", path);
    expect_taken_over(rig, path);
}

static void try_option(rig *rig, const struct trial *trial) {
    const char *path = sonar_options[trial->id].path;
    sonar_config_value values[1 + MOST] = {{path, trial->value}};
    size_t count = 1;
    for (int i = 0; i < MOST && trial->beside[i].path; i++)
        values[count++] = trial->beside[i];
    there_and_back(rig, path, count, values);
}

/* Options that only work together. */
static void try_scan(rig *rig, sonar_option_id start) {
    char scan[128], text[3][32];
    choose_scan(start == OPT_MVDR_SCAN_START, 10, 100, scan);
    cr_assert_eq(sscanf(scan, "{start_deg: %31[^,], stop_deg: %31[^,], step_deg: %31[^}]}", text[0],
                        text[1], text[2]),
                 3);
    sonar_config_value values[3];
    for (int i = 0; i < 3; i++)
        values[i] = (sonar_config_value){sonar_options[start + i].path, text[i]};
    for (int i = 0; i < 3; i++)
        there_and_back(rig, values[i].path, 3, values);
}

/* As many as the automatic ones. */
static void try_ranges(rig *rig) {
    char list[512] = "[";
    const size_t count = sonar_pipeline_config(rig->feed.pipeline)->specs.cbf.ranges;
    for (size_t i = 0; i < count; i++) {
        const size_t at = strlen(list);
        snprintf(list + at, sizeof list - at, "%zu%s", 40 * (i + 1), i + 1 < count ? ", " : "]");
    }
    there_and_back(rig, sonar_options[OPT_RANGES].path, 1,
                   &(sonar_config_value){sonar_options[OPT_RANGES].path, list});
}

static void expect_refused(rig *rig, const sonar_option *option) {
    static sonar_config_differences differences;
    sonar_error err = {0};
    const sonar_config_value value = {option->path, "1"};
    cr_expect_eq(sonar_control_set(rig->feed.pipeline, 1, &value, NULL, NULL, &differences, &err),
                 SONAR_EINVAL, "%s", option->path);
    cr_expect_str_eq(err.where, option->path);
    cr_expect_str_eq(err.text, "cannot change while the daemon runs: change the file and restart");
}

Test(live_options, each_is_taken_over_or_refused, .timeout = 600) {
    static rig rig;
    bool tried[SONAR_OPTIONS] = {false};
    rig_open(&rig);
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        try_option(&rig, &trials[i]);
        tried[trials[i].id] = true;
    }
    try_ranges(&rig), tried[OPT_RANGES] = true;
    for (int i = 0; i < 3; i++)
        tried[OPT_CBF_SCAN_START + i] = tried[OPT_MVDR_SCAN_START + i] = true;
    try_scan(&rig, OPT_CBF_SCAN_START);
    try_scan(&rig, OPT_MVDR_SCAN_START);
    for (size_t id = 0; id < SONAR_OPTIONS; id++) {
        cr_expect_eq(sonar_options[id].live, tried[id], "%s", sonar_options[id].path);
        if (!sonar_options[id].live)
            expect_refused(&rig, &sonar_options[id]);
    }
    rig_close(&rig);
}
