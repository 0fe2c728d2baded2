/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Values that change while the pipeline runs: from the next window on, results equal those of a
 * pipeline that was started with them. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "configured.h"
#include "control/change.h"
#include "feed.h"
#include "oracle.h"
#include "fake_device.h"
#include "process.h"
#include "numerical.h"

enum { SENSORS = 12, FS = 2048, FRAME = 256, SNAPSHOTS = 6, LOOKS = 181, RANGES = 2 };
enum { MVDR_LOOKS = 61 }; /* few, since windows take most of the time under sanitizers */

/* ---- two pipelines that are fed alike -------------------------------------------------------- */

/* An array over bins, with room for any band. */
typedef struct grid {
    cJSON *head;
    size_t count;
    float value[600 * LOOKS];
} grid;

enum { LOFAR, SPECTRUM, EIGENVALUES, PSD, MUSIC, GRIDS }; /* MUSIC: where it is on */

typedef struct line {
    feed feed;
    subscriber subscriber;
    grid grid[GRIDS];
    float azimuth[LOOKS], near[RANGES * LOOKS], mvdr[MVDR_LOOKS],
        mvdr_near[RANGES * MVDR_LOOKS]; /* of the last window */
    cJSON *head, *mvdr_head, *contacts;
} line;

/* An option that replaces that of the text. */
typedef struct setting {
    const char *key, *value;
} setting;

static const char *chosen(const setting *other, const char *key, const char *usual) {
    return other && !strcmp(other->key, key) ? other->value : usual;
}

/* The changed option with this path prefix and a comma, if there is one; else the default text. */
static const char *besides(const setting *other, const char *begin, const char *usual,
                           char text[96]) {
    snprintf(text, 96, "%s", usual);
    if (other && !strncmp(other->key, begin, strlen(begin)))
        snprintf(text, 96, "%s: %s, ", strrchr(other->key, '.') + 1, other->value);
    return text;
}

/* Of all pipelines of a test. */
static const char *solver = "auto", *dmr = "off", *lofar_band = "", *mvdr_band = "", *music = "off",
                  *gain = NULL; /* NULL: not given */

/* A limit on the white noise gain, preceded by a comma, or "". */
static const char *limit(const setting *other, char text[96]) {
    const char *value = chosen(other, "mvdr.white_noise_gain_db", gain);
    *text = 0;
    if (value)
        snprintf(text, 96, ", white_noise_gain_db: %s", value);
    return text;
}

static void write_text(char text[2048], const setting *other) {
    char loading[96], cbf[96], lofar[96], mvdr[96], limited[96];
    snprintf(text, 2048,
             "schema: 1\n"
             "array: {id: 1, geometry: {line: {sensors: %d, spacing_m: 0.75}}, mask: %s, "
             "gain_db: %s, phase_deg: %s, delay_us: %s, heading_deg: %s}\n"
             "sound_speed_mps: %s\n"
             "fs_hz: %d\n"
             "ingest: {overload: block}\n"
             "dft: {length: %d, hop: %d}\n"
             "cbf: {%sranges_m: %s, shading: %s, scan: %s}\n"
             "lofar: {%s}\n"
             "mvdr: {%ssnapshots: %d, scan: %s, cell_maximum: %s, nearfield: true, solver: %s, "
             "loading: {%s}, correct_level: %s, source_count: %s, dmr: %s, music: %s, "
             "tolerance: %s, max_sweeps: %s%s}\n"
             "detections: {threshold_db: %s, most: %s}\n"
             "output: {high_water_mark: 1000}\n"
             "runtime: {threads: 1, backend: cpu}\n",
             SENSORS, chosen(other, "array.mask", "[]"), chosen(other, "array.gain_db", "-170"),
             chosen(other, "array.phase_deg", "0"), chosen(other, "array.delay_us", "0"),
             chosen(other, "array.heading_deg", "0"), chosen(other, "sound_speed_mps", "1500"), FS,
             FS, FS, besides(other, "cbf.band", "band_hz: [600, 950], ", cbf),
             chosen(other, "cbf.ranges_m", "[20, 60]"), chosen(other, "cbf.shading", "uniform"),
             chosen(other, "cbf.scan", "{start_deg: 0, stop_deg: 180, step_deg: 1}"),
             besides(other, "lofar.band", lofar_band, lofar),
             besides(other, "mvdr.band", mvdr_band, mvdr), SNAPSHOTS,
             chosen(other, "mvdr.scan", "{start_deg: 0, stop_deg: 180, step_deg: 3}"),
             chosen(other, "mvdr.cell_maximum", "false"), solver,
             besides(other, "mvdr.loading.", "", loading),
             chosen(other, "mvdr.correct_level", "false"),
             chosen(other, "mvdr.source_count", "mdl"), chosen(other, "mvdr.dmr", dmr),
             chosen(other, "mvdr.music", music), chosen(other, "mvdr.tolerance", "1e-9"),
             chosen(other, "mvdr.max_sweeps", "30"), limit(other, limited),
             chosen(other, "detections.threshold_db", "6"), chosen(other, "detections.most", "16"));
}

static void line_open(line *l, const setting *other, const struct layout *layout) {
    char text[2048];
    sonar_error err = {0};
    memset(l, 0, sizeof *l);
    write_text(text, other);
    cr_assert_eq(feed_start(&l->feed, text, NULL, NULL, 0, layout, &err), SONAR_OK, "%s", err.text);
    l->subscriber =
        subscribe(l->feed.out, "cbf.", "mvdr.", "music.", "element.psd", "detections", NULL);
    uint32_t all = SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_NEARFIELD) |
                   SONAR_WANT(SONAR_CBF_LOFAR) | SONAR_WANT(SONAR_MVDR_AZIMUTH) |
                   SONAR_WANT(SONAR_MVDR_SPECTRUM) | SONAR_WANT(SONAR_MVDR_NEARFIELD) |
                   SONAR_WANT(SONAR_MVDR_EIGENVALUES) | SONAR_WANT(SONAR_MUSIC_AZIMUTH) |
                   SONAR_WANT(SONAR_ELEMENT_PSD) | SONAR_WANT(SONAR_DETECTIONS);
    while ((sonar_output_wanted(l->feed.pipeline->output) & all) != all)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    l->feed.digitiser = digitiser_open(l->feed.in, SENSORS, 0, SENSORS, FRAME);
    digitiser *d = &l->feed.digitiser;
    d->frame.fs_hz = FS;
    d->level = 30, d->noise = 10, d->az_deg = 70, d->low_hz = 600.5, d->high_hz = 950.5;
}

static void forget_heads(line *l) {
    cJSON_Delete(l->head);
    cJSON_Delete(l->mvdr_head);
    cJSON_Delete(l->contacts);
    l->head = l->mvdr_head = l->contacts = NULL;
    for (grid *g = l->grid; g < l->grid + GRIDS; g++) {
        cJSON_Delete(g->head);
        g->head = NULL;
    }
}

static void line_close(line *l) {
    forget_heads(l);
    unsubscribe(&l->subscriber);
    feed_close(&l->feed);
}

/* At most `most` numbers. */
static cJSON *take_some(line *l, const char *topic, uint64_t window, float *to, size_t most,
                        size_t *count) {
    message m;
    cr_assert(receive_until(&l->subscriber, topic, "window", (double)window, 60000, &m));
    cr_assert_eq(header_number(m.head, "window"), (double)window);
    cr_assert_leq(m.count, most);
    if (m.count)
        memcpy(to, m.data, m.count * sizeof *to);
    cJSON *head = m.head;
    *count = m.count;
    m.head = NULL;
    message_free(&m);
    return head;
}

static cJSON *take(line *l, const char *topic, uint64_t window, float *to, size_t count) {
    size_t there;
    cJSON *head = take_some(l, topic, window, to, count, &there);
    cr_assert_eq(there, count);
    return head;
}

static void take_grid(line *l, const char *topic, uint64_t window, int which) {
    grid *g = &l->grid[which];
    g->head = take_some(l, topic, window, g->value, sizeof g->value / sizeof *g->value, &g->count);
    cr_expect_gt(g->count, 0, "%s", topic);
}

/* A window. */
static void play(line *l, uint64_t window) {
    forget_heads(l);
    digitiser_send(&l->feed.digitiser, FS / FRAME);
    l->head = take(l, "cbf.azimuth", window, l->azimuth, LOOKS);
    cJSON_Delete(take(l, "cbf.nearfield", window, l->near, RANGES * LOOKS));
    take_grid(l, "cbf.lofar", window, LOFAR);
    l->mvdr_head = take(l, "mvdr.azimuth", window, l->mvdr, MVDR_LOOKS);
    take_grid(l, "mvdr.spectrum", window, SPECTRUM);
    cJSON_Delete(take(l, "mvdr.nearfield", window, l->mvdr_near, RANGES * MVDR_LOOKS));
    take_grid(l, "mvdr.eigenvalues", window, EIGENVALUES);
    if (sonar_pipeline_config(l->feed.pipeline)->specs.mvdr.music)
        take_grid(l, "music.azimuth", window, MUSIC);
    take_grid(l, "element.psd", window, PSD);
    l->contacts = take(l, "detections", window, NULL, 0);
}

static bool flagged(const cJSON *head, const char *flag) {
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(
                                 head, "flags")) if (!strcmp(item->valuestring, flag)) return true;
    return false;
}

static const char *text_of(const cJSON *head, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(head, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static sonar_code set(line *l, const char *path, const char *value, sonar_error *err) {
    static sonar_config_differences differences;
    const sonar_config_value to = {path, value};
    return sonar_control_set(l->feed.pipeline, 1, &to, NULL, NULL, &differences, err);
}

static void expect_alike(const cJSON *have, const cJSON *want, const char *key, const char *what) {
    char *a = cJSON_Print(cJSON_GetObjectItemCaseSensitive(have, key));
    char *b = cJSON_Print(cJSON_GetObjectItemCaseSensitive(want, key));
    cr_expect_str_eq(a ? a : "none", b ? b : "none", "%s: %s", what, key);
    free(a);
    free(b);
}

/* After a sensor was masked, results from earlier snapshots differ by rounding. */
static void expect_contacts_alike(const cJSON *have, const cJSON *want, const char *what) {
    const cJSON *a = cJSON_GetObjectItemCaseSensitive(have, "detections");
    const cJSON *b = cJSON_GetObjectItemCaseSensitive(want, "detections");
    cr_assert_eq(cJSON_GetArraySize(a), cJSON_GetArraySize(b), "%s", what);
    for (int i = 0; i < cJSON_GetArraySize(a); i++) {
        const cJSON *x = cJSON_GetArrayItem(a, i), *y = cJSON_GetArrayItem(b, i);
        cr_expect_float_eq(header_number(x, "bearing_deg"), header_number(y, "bearing_deg"), 1e-2,
                           "%s", what);
        cr_expect_float_eq(header_number(x, "snr_db"), header_number(y, "snr_db"), 1e-2, "%s",
                           what);
    }
}

/* The header's loading and number of sources. */
static void expect_loading_alike(const cJSON *have, const cJSON *want, const char *what) {
    const cJSON *a = cJSON_GetObjectItemCaseSensitive(have, "loading");
    const cJSON *b = cJSON_GetObjectItemCaseSensitive(want, "loading");
    expect_alike(a, b, "rule", what);
    expect_alike(a, b, "eps", what);
    cr_expect_float_eq(header_number(a, "delta"), header_number(b, "delta"),
                       1e-3 * header_number(b, "delta"), "%s", what);
    expect_alike(have, want, "sources", what);
    expect_alike(have, want, "white_noise_gain", what);
}

static void expect_grids_alike(const line *have, const line *want, int which, double limit_db,
                               const char *what) {
    const grid *a = &have->grid[which], *b = &want->grid[which];
    expect_alike(a->head, b->head, "axes", what);
    expect_alike(a->head, b->head, "shape", what);
    expect_alike(a->head, b->head, "band_hz", what);
    cr_assert_eq(a->count, b->count, "%s: %zu, %zu", what, a->count, b->count);
    cr_expect_lt(oracle_worst_db(a->count, a->value, b->value), limit_db, "%s: grid %d: %g dB",
                 what, which, oracle_worst_db(a->count, a->value, b->value));
}

/* State of the MVDR: too few snapshots, all after a restart, or all from before. Whether a bin near
 * the threshold is steered at a tone depends on the past. */
enum { MVDR_FILLS, MVDR_FILLED, MVDR_KEPT };

static void expect_results_alike(const line *have, const line *want, int mvdr, const char *what) {
    cr_expect_lt(oracle_worst_db(LOOKS, have->azimuth, want->azimuth), 1e-4, "%s", what);
    cr_expect_lt(oracle_worst_db(RANGES * LOOKS, have->near, want->near), 1e-4, "%s", what);
    static const char *const said[] = {"axes", "band_hz", "shape", "level_corrected"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        expect_alike(have->head, want->head, said[i], what);
        expect_alike(have->mvdr_head, want->mvdr_head, said[i], what);
    }
    expect_grids_alike(have, want, LOFAR, 1e-3, what);
    expect_grids_alike(have, want, PSD, 1e-4, what);
    if (mvdr == MVDR_FILLS)
        return;
    expect_grids_alike(have, want, SPECTRUM, mvdr == MVDR_KEPT ? 1e-2 : 0.2, what);
    expect_grids_alike(have, want, EIGENVALUES, 1e-2, what);
    cr_expect_eq(!have->grid[MUSIC].head, !want->grid[MUSIC].head, "%s", what);
    if (want->grid[MUSIC].head) {
        expect_grids_alike(have, want, MUSIC, 1e-2, what);
        expect_alike(have->grid[MUSIC].head, want->grid[MUSIC].head, "music", what);
    }
    expect_loading_alike(have->mvdr_head, want->mvdr_head, what);
    cr_expect_lt(oracle_worst_db(MVDR_LOOKS, have->mvdr, want->mvdr), 1e-3, "%s: %g dB", what,
                 oracle_worst_db(MVDR_LOOKS, have->mvdr, want->mvdr));
    cr_expect_lt(oracle_worst_db(RANGES * MVDR_LOOKS, have->mvdr_near, want->mvdr_near), 1e-3,
                 "%s: near %g dB", what,
                 oracle_worst_db(RANGES * MVDR_LOOKS, have->mvdr_near, want->mvdr_near));
    expect_contacts_alike(have->contacts, want->contacts, what);
}

enum { BY_SET, BY_FILE };

/* From a file with the running configuration and another value. */
static sonar_code reload(line *l, const setting *other, sonar_error *err) {
    static sonar_config_differences differences;
    box box = box_open();
    char text[2048];
    write_text(text, other);
    box_write(&box, "new.yaml", "%s", text);
    const sonar_code code = sonar_control_reload(l->feed.pipeline, box_path(&box, "new.yaml"), NULL,
                                                 NULL, &differences, err);
    cr_expect_gt(differences.live, 0, "%s", other->key);
    box_close(&box);
    return code;
}

/* `changing` is changed while it runs, `started` was started with the values. Snapshots with other
 * corrections are discarded (`restarts`), all others stay in use. */
static void try_setting(const setting *other, bool restarts, int how, const struct layout *layout) {
    static line changing, started;
    sonar_error err = {0};
    uint64_t window = 0;
    line_open(&changing, NULL, layout);
    line_open(&started, other, layout);
    for (; window < SNAPSHOTS; window++) {
        play(&changing, window);
        play(&started, window);
        cr_expect_not(flagged(changing.head, "config_changed"));
    }
    cr_assert_str_neq(text_of(changing.head, "config_version"),
                      text_of(started.head, "config_version"));
    cr_assert_eq(how == BY_FILE ? reload(&changing, other, &err)
                                : set(&changing, other->key, other->value, &err),
                 SONAR_OK, "%s: %s", err.where, err.text);
    play(&changing, window);
    play(&started, window);
    cr_expect(flagged(changing.head, "config_changed"), "%s", other->key);
    cr_expect(flagged(changing.contacts, "config_changed"), "%s", other->key);
    cr_expect_eq(header_number(changing.head, "config_sample_index"), (double)window * FS);
    cr_expect_str_eq(text_of(changing.head, "config_version"),
                     text_of(started.head, "config_version"), "%s", other->key);
    cr_expect_eq(flagged(changing.mvdr_head, "mvdr_restarted"), restarts, "%s", other->key);
    cr_expect_eq(header_number(changing.mvdr_head, "snapshots"), restarts ? 1 : SNAPSHOTS, "%s",
                 other->key);
    expect_results_alike(&changing, &started, restarts ? MVDR_FILLS : MVDR_KEPT, other->key);
    for (int i = 1; i < SNAPSHOTS; i++) {
        play(&changing, ++window);
        play(&started, window);
        cr_expect_not(flagged(changing.head, "config_changed"));
        cr_expect_not(flagged(changing.mvdr_head, "mvdr_restarted"));
    }
    expect_results_alike(&changing, &started, restarts ? MVDR_FILLED : MVDR_KEPT, other->key);
    line_close(&changing);
    line_close(&started);
}

static const char SCAN[] = "{\"start_deg\": 10, \"stop_deg\": 100, \"step_deg\": 0.5}";

static const struct {
    setting to;
    bool restarts;
} cases[] = {
    {{"sound_speed_mps", "1450"}, false},
    {{"array.heading_deg", "123"}, false},
    {{"array.mask", "[3, 7]"}, false},
    {{"array.gain_db", "-150"}, true},
    {{"array.gain_db", "[-170,-171,-170,-170,-170,-169,-170,-170,-170,-170,-170,-172]"}, true},
    {{"array.phase_deg", "[0,5,0,0,0,0,0,0,0,0,0,-5]"}, true},
    {{"array.delay_us", "[0,0,40,0,0,0,0,0,0,0,0,0]"}, true},
    {{"cbf.shading", "hann"}, false},
    {{"cbf.ranges_m", "[30, 90]"}, false},
    {{"mvdr.cell_maximum", "true"}, false},
    {{"detections.threshold_db", "20"}, false},
    {{"detections.most", "1"}, false},
    {{"mvdr.loading.rule", "trace"}, false},
    {{"mvdr.loading.eps", "0.05"}, false},
    {{"mvdr.loading.known_sources", "1"}, false},
    {{"mvdr.correct_level", "true"}, false},
    {{"mvdr.source_count", "random_matrix"}, false},
    {{"cbf.band_hz", "[640, 900]"}, false},
    {{"cbf.band_bins", "[700, 760]"}, false},
    {{"mvdr.band_hz", "[700, 800]"}, false},
    {{"mvdr.band_bins", "[600, 600]"}, false},
};

Test(live, every_value_acts_as_if_started_with_it, .timeout = 600) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        try_setting(&cases[i].to, cases[i].restarts, BY_SET, NULL);
}

Test(live, a_file_with_another_value_acts_alike, NUMERICAL, .timeout = 600) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        try_setting(&cases[i].to, cases[i].restarts, BY_FILE, NULL);
}

/* The CBF's band moves through the whole Lofar band, and the Lofar's shrinks around it. */
Test(live, bands_move_within_those_of_the_start, .timeout = 600) {
    static const setting moves[] = {{"cbf.band_hz", "[520, 580]"},
                                    {"cbf.band_bins", "[900, 1000]"},
                                    {"lofar.band_hz", "[550, 900]"},
                                    {"lofar.band_bins", "[700, 701]"},
                                    {"mvdr.band_hz", "[640, 940]"}};
    lofar_band = "band_hz: [500, 1000], ", mvdr_band = "band_hz: [610, 950], ";
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        try_setting(&moves[i], false, (int)(i % 2), NULL);
}

/* There and back: snapshots of bins outside the band were collected meanwhile. */
Test(live, a_band_that_returns_finds_its_snapshots) {
    static line changing, steady;
    sonar_error err = {0};
    uint64_t window = 0;
    line_open(&changing, NULL, NULL);
    line_open(&steady, NULL, NULL);
    play(&changing, window), play(&steady, window);
    cr_assert_eq(set(&changing, "cbf.band_hz", "[700, 720]", &err), SONAR_OK, "%s", err.text);
    for (int i = 0; i < 3; i++, window++)
        play(&changing, window + 1), play(&steady, window + 1);
    cr_expect_eq(changing.grid[LOFAR].count, 21 * LOOKS);
    cr_expect_eq(changing.grid[SPECTRUM].count, 21 * MVDR_LOOKS);
    cr_expect_eq(changing.grid[PSD].count, 21 * SENSORS);
    cr_assert_eq(set(&changing, "cbf.band_hz", "[600, 950]", &err), SONAR_OK, "%s", err.text);
    play(&changing, ++window), play(&steady, window);
    expect_results_alike(&changing, &steady, MVDR_KEPT, "back again");
    cr_expect_str_eq(text_of(changing.head, "config_version"),
                     text_of(steady.head, "config_version"));
    line_close(&changing);
    line_close(&steady);
}

/* Dominant modes need eigenvectors, which the Jacobi solver computes anyway. */
Test(live, dominant_modes_change_where_eigenvectors_are) {
    static line l;
    sonar_error err = {0};
    solver = "jacobi";
    try_setting(&(setting){"mvdr.dmr", "2"}, false, BY_SET, NULL);
    solver = "auto", dmr = "2";
    try_setting(&(setting){"mvdr.dmr", "1"}, false, BY_SET, NULL);
    try_setting(&(setting){"mvdr.dmr", "auto"}, false, BY_FILE, NULL);
    dmr = "off";
    line_open(&l, NULL, NULL);
    cr_expect_eq(set(&l, "mvdr.dmr", "2", &err), SONAR_EINVAL);
    cr_expect(strstr(err.text, "mvdr.solver"), "%s", err.text);
    line_close(&l);
}

/* A limit with reserved memory can be changed or removed. */
Test(live, a_limit_on_the_gain_changes_where_there_is_one, .timeout = 600) {
    static const setting limits[] = {{"mvdr.white_noise_gain_db", "-1"},
                                     {"mvdr.white_noise_gain_db", "-40"},
                                     {"mvdr.white_noise_gain_db", NULL}};
    static line l;
    sonar_error err = {0};
    gain = "-6";
    for (int i = 0; i < 3; i++)
        try_setting(&limits[i], false, i % 2 ? BY_FILE : BY_SET, NULL);
    line_open(&l, NULL, NULL);
    cr_expect_eq(set(&l, "mvdr.dmr", "2", &err), SONAR_EINVAL, "both at once");
    cr_expect(strstr(err.text, "no loading"), "%s", err.text);
    play(&l, 0);
    cr_expect_gt(header_number(l.mvdr_head, "white_noise_gain.limited_share"), 0);
    cr_assert_eq(set(&l, "mvdr.white_noise_gain_db", NULL, &err), SONAR_OK, "%s", err.text);
    cr_assert_eq(set(&l, "mvdr.dmr", "2", &err), SONAR_OK, "%s", err.text);
    play(&l, 1);
    cr_expect_str_eq(text_of(cJSON_GetObjectItemCaseSensitive(l.mvdr_head, "loading"), "rule"),
                     "dmr");
    cr_assert_eq(set(&l, "mvdr.dmr", "off", &err), SONAR_OK, "%s", err.text);
    cr_assert_eq(set(&l, "mvdr.white_noise_gain_db", "-3", &err), SONAR_OK, "%s", err.text);
    play(&l, 2);
    cr_expect_eq(header_number(l.mvdr_head, "white_noise_gain.limit_db"), -3);
    line_close(&l);
    gain = NULL;
    line_open(&l, NULL, NULL);
    cr_expect_eq(set(&l, "mvdr.white_noise_gain_db", "-3", &err), SONAR_EINVAL);
    cr_expect(strstr(err.text, "-100 there limits nothing but allocates the memory"), "%s",
              err.text);
    line_close(&l);
}

/* By the spectrum's own eigenvectors and by MUSIC's. */
Test(live, music_changes_where_it_was_on, .timeout = 600) {
    static const setting sources[] = {
        {"mvdr.music", "1"}, {"mvdr.music", "auto"}, {"mvdr.music", "off"}, {"mvdr.music", "off"}};
    music = "3";
    for (int i = 0; i < 4; i++) {
        solver = i % 2 ? "jacobi" : "auto";
        try_setting(&sources[i], false, i % 2 ? BY_FILE : BY_SET, NULL);
    }
}

/* The topic is not published, and its sequence numbers continue later. */
Test(live, music_falls_silent_and_returns) {
    static line l;
    sonar_error err = {0};
    music = "auto";
    line_open(&l, NULL, NULL);
    play(&l, 0);
    cr_expect_eq(header_number(l.grid[MUSIC].head, "seq"), 0);
    cr_assert_eq(set(&l, "mvdr.music", "off", &err), SONAR_OK, "%s", err.text);
    cr_assert_eq(set(&l, "mvdr.source_count", "off", &err), SONAR_OK, "%s", err.text);
    play(&l, 1);
    play(&l, 2);
    cr_expect_eq(set(&l, "mvdr.music", "auto", &err), SONAR_EINVAL, "who would count?");
    cr_expect(strstr(err.text, "mvdr.source_count"), "%s", err.text);
    cr_assert_eq(set(&l, "mvdr.music", "2", &err), SONAR_OK, "%s", err.text);
    play(&l, 3);
    cr_expect_eq(header_number(l.grid[MUSIC].head, "seq"), 1, "it was published without a request");
    cr_expect_eq(header_number(l.grid[MUSIC].head, "music.most"), 2);
    line_close(&l);
    music = "off";
    line_open(&l, NULL, NULL);
    cr_expect_eq(set(&l, "mvdr.music", "2", &err), SONAR_EINVAL);
    cr_expect(strstr(err.text, "mvdr.music") || strstr(err.where, "mvdr.music"));
    cr_expect(strstr(err.text, "restart with it in the file"), "%s", err.text);
    line_close(&l);
}

/* Sweeps of Jacobi's method: with only one it reports that it has not converged. */
Test(live, jacobi_takes_other_limits) {
    static line l;
    sonar_error err = {0};
    solver = "jacobi";
    try_setting(&(setting){"mvdr.tolerance", "1e-6"}, false, BY_SET, NULL);
    try_setting(&(setting){"mvdr.max_sweeps", "20"}, false, BY_FILE, NULL);
    line_open(&l, NULL, NULL);
    for (uint64_t window = 0; window < 2; window++)
        play(&l, window);
    cr_expect_gt(header_number(l.mvdr_head, "most_sweeps"), 1);
    cr_expect_eq(header_number(l.mvdr_head, "bins_not_converged"), 0);
    cr_assert_eq(set(&l, "mvdr.max_sweeps", "1", &err), SONAR_OK, "%s", err.text);
    play(&l, 2);
    cr_expect_eq(header_number(l.mvdr_head, "most_sweeps"), 1);
    cr_expect_gt(header_number(l.mvdr_head, "bins_not_converged"), 0);
    cr_assert_eq(set(&l, "mvdr.tolerance", "0.1", &err), SONAR_OK, "%s", err.text);
    cr_assert_eq(set(&l, "mvdr.max_sweeps", "30", &err), SONAR_OK, "%s", err.text);
    play(&l, 3);
    cr_expect_eq(header_number(l.mvdr_head, "bins_not_converged"), 0);
    cr_expect_gt(header_number(l.mvdr_head, "worst_residual"), 1e-9);
    line_close(&l);
}

/* Axes and shapes change with the next window, and back. */
Test(live, spectra_turn_to_true_bearings_and_back) {
    static line l;
    sonar_error err = {0};
    message m;
    line_open(&l, NULL, NULL);
    play(&l, 0);
    cr_expect_str_eq(text_of(l.head, "bearing_reference"), "array");
    for (uint64_t window = 1; window < 9; window += 2) {
        cr_assert_eq(set(&l, "output.bearing_reference", "true", &err), SONAR_OK, "%s", err.text);
        digitiser_send(&l.feed.digitiser, FS / FRAME);
        cr_assert(receive_until(&l.subscriber, "cbf.azimuth", "window", (double)window, 60000, &m));
        cr_expect_str_eq(text_of(m.head, "bearing_reference"), "true");
        cr_expect(flagged(m.head, "config_changed"));
        cr_expect_eq(m.count, 3 * 360);
        message_free(&m);
        cr_assert(receive_until(&l.subscriber, "detections", "window", (double)window, 60000, &m));
        message_free(&m);
        cr_assert_eq(set(&l, "output.bearing_reference", "array", &err), SONAR_OK, "%s", err.text);
        play(&l, window + 1);
        cr_expect_str_eq(text_of(l.head, "bearing_reference"), "array");
    }
    line_close(&l);
}

/* Recorded graphs hold the old tables. */
Test(live, devices_with_graphs_follow, .timeout = 600) {
    const struct layout layout = feed_layout(fake_backend(FAKE_LAZY | FAKE_GRAPHS));
    static const size_t some[] = {0, 1, 2, 3, 13, 17, 19};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        fake = (struct fake_device){0};
        try_setting(&cases[some[i]].to, cases[some[i]].restarts, BY_SET, &layout);
        cr_expect_gt(fake.graphs_run, 0);
        cr_expect_eq(fake.faults, 0);
    }
}

Test(live, devices_with_graphs_take_what_they_have_room_for, .timeout = 600) {
    const struct layout layout = feed_layout(fake_backend(FAKE_LAZY | FAKE_GRAPHS));
    fake = (struct fake_device){0};
    music = "3", gain = "-6";
    try_setting(&(setting){"mvdr.music", "off"}, false, BY_SET, &layout);
    try_setting(&(setting){"mvdr.white_noise_gain_db", "-1"}, false, BY_SET, &layout);
    cr_expect_gt(fake.graphs_run, 0);
    cr_expect_eq(fake.faults, 0);
}

/* Recorded not at once, but then with the new values; twice. */
Test(live, devices_record_again_what_has_changed, .timeout = 600) {
    static line changing, started;
    const setting slow = {"sound_speed_mps", "1450"};
    const struct layout layout = feed_layout(fake_backend(FAKE_LAZY | FAKE_GRAPHS));
    sonar_error err = {0};
    uint64_t window = 0;
    fake = (struct fake_device){0};
    line_open(&changing, NULL, &layout);
    line_open(&started, &slow, NULL);
    for (; window < SNAPSHOTS; window++)
        play(&changing, window), play(&started, window);
    for (int i = 0; i < 2; i++) {
        const uint64_t from = window, before = (uint64_t)fake.graphs_run;
        cr_assert_eq(set(&changing, "sound_speed_mps", i ? "1450" : "1480", &err), SONAR_OK, "%s",
                     err.text);
        for (; window < from + 200 && (uint64_t)fake.graphs_run == before; window++)
            play(&changing, window), play(&started, window);
        cr_expect_gt(fake.graphs_run, before, "no window as a graph");
        cr_expect_gt(window, from + SONAR_GRAPHS_STEADY);
    }
    for (const uint64_t end = window + SNAPSHOTS; window < end; window++)
        play(&changing, window), play(&started, window);
    expect_results_alike(&changing, &started, MVDR_KEPT, "recorded again");
    cr_expect_eq(fake.faults, 0);
    line_close(&changing);
    line_close(&started);
    cr_expect_eq(fake.made, 0, "%ld of the device's things are still there", fake.made);
}

/* A scan is several options at once. */
Test(live, scans_change_where_their_number_stays) {
    static line changing, started;
    static sonar_config_differences differences;
    const setting scan = {"cbf.scan", SCAN};
    sonar_error err = {0};
    line_open(&changing, NULL, NULL);
    line_open(&started, &scan, NULL);
    play(&changing, 0);
    play(&started, 0);
    const sonar_config_value fits[] = {
        {"cbf.scan.start_deg", "10"}, {"cbf.scan.stop_deg", "100"}, {"cbf.scan.step_deg", "0.5"}};
    cr_assert_eq(sonar_control_set(changing.feed.pipeline, 3, fits, NULL, NULL, &differences, &err),
                 SONAR_OK, "%s", err.text);
    cr_expect_eq(differences.live, 3);
    play(&changing, 1);
    play(&started, 1);
    cr_expect(flagged(changing.head, "config_changed"));
    cr_expect_eq(header_number(changing.head, "config_sample_index"), FS);
    cr_expect_str_eq(text_of(changing.head, "config_version"),
                     text_of(started.head, "config_version"));
    expect_results_alike(&changing, &started, MVDR_KEPT, "scan");
    const char *version = sonar_pipeline_config(changing.feed.pipeline)->version;
    cr_expect_eq(set(&changing, "cbf.scan.step_deg", "1", &err), SONAR_EINVAL);
    cr_expect(strstr(err.text, "91 directions") && strstr(err.text, "181"), "%s", err.text);
    cr_expect_str_eq(sonar_pipeline_config(changing.feed.pipeline)->version, version);
    play(&changing, 2);
    cr_expect_not(flagged(changing.head, "config_changed"));
    line_close(&changing);
    line_close(&started);
}

/* The log level does not affect windows, but the version changes with it. */
Test(live, the_log_says_more_or_less) {
    static line l;
    sonar_error err = {0};
    line_open(&l, NULL, NULL);
    play(&l, 0);
    cr_expect_eq(atomic_load(&l.feed.pipeline->log_level), SONAR_INFO);
    cr_assert_eq(set(&l, "runtime.log_level", "error", &err), SONAR_OK, "%s", err.text);
    cr_expect_eq(atomic_load(&l.feed.pipeline->log_level), SONAR_ERROR);
    play(&l, 1);
    cr_expect(flagged(l.head, "config_changed"));
    cr_expect_eq(header_number(l.head, "config_sample_index"), FS);
    line_close(&l);
}

Test(live, what_is_wrong_changes_nothing_and_says_so) {
    static line l;
    sonar_error err = {0};
    line_open(&l, NULL, NULL);
    static const struct {
        const char *path, *value, *words;
    } wrong[] = {
        {"sound_speed", "1480", "did you mean sound_speed_mps"},
        {"sound_speed_mps", "99", "out of range"},
        {"sound_speed_mps", "fast", "plain number"},
        {"array.headin_deg", "4", "did you mean array.heading_deg"},
        {"array", "4", "group"},
        {"fs_hz", "4000", "cannot change while the daemon runs"},
        {"cbf.length", "1024", "cannot change while the daemon runs"},
        {"cbf.band_hz", "[590, 900]", "room for bins 600 to 950, 600 to 950 Hz"},
        {"cbf.band_bins", "[700, 951]", "room for bins 600 to 950"},
        {"cbf.band_hz", "[900, 700]", "above"},
        {"lofar.band_hz", "[500, 900]", "lofar.band_hz: stays [600, 950]: buffers of the CBF"},
        {"mvdr.band_hz", "[700, 951]", "buffers of the MVDR have room for bins 600 to 950"},
        {"array.mask", "[12]", "is not a sensor"},
        {"array.mask", "[0,1,2,3,4,5,6,7,8,9,10]", "another kind"},
        {"cbf.ranges_m", "[30]", "1 ranges do not fit"},
        {"cbf.ranges_m", "[3, 90]", "not beyond the array"},
        {"", "1", "no such option"},
        {"array.gain_db", "[1, 2]", "2 numbers for 12 sensors"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char all[800];
        cr_expect_eq(set(&l, wrong[i].path, wrong[i].value, &err), SONAR_EINVAL, "%s %s",
                     wrong[i].path, wrong[i].value);
        snprintf(all, sizeof all, "%s: %s", err.where, err.text);
        cr_expect(strstr(all, wrong[i].words), "%s", all);
    }
    cr_expect_eq(sonar_pipeline_config(l.feed.pipeline), l.feed.config);
    play(&l, 0);
    cr_expect_not(flagged(l.head, "config_changed"));
    line_close(&l);
}

/* Without windows no version is adopted: versions are replaced, and the last one holds. */
Test(live, a_hundred_changes_between_two_windows_are_one) {
    static line l;
    sonar_error err = {0};
    char value[32];
    line_open(&l, NULL, NULL);
    play(&l, 0);
    for (int i = 0; i < 100; i++) {
        snprintf(value, sizeof value, "%d", 1401 + i);
        cr_assert_eq(set(&l, "sound_speed_mps", value, &err), SONAR_OK, "%s", err.text);
    }
    cr_assert_eq(set(&l, "sound_speed_mps", "1444", &err), SONAR_OK);
    size_t held = 0;
    for (const struct live *live = l.feed.pipeline->versions.latest; live; live = live->older)
        held++;
    cr_expect_leq(held, 2);
    play(&l, 1);
    cr_expect_eq(header_number(l.head, "sound_speed_mps"), 1444);
    cr_expect(flagged(l.head, "config_changed"));
    cr_expect_eq(set(&l, "sound_speed_mps", "1444", &err), SONAR_OK, "the same again");
    play(&l, 2);
    cr_expect_not(flagged(l.head, "config_changed"));
    cr_expect_eq(header_number(l.head, "config_sample_index"), FS);
    line_close(&l);
}

/* ---- files ----------------------------------------------------------------------------------- */

typedef struct said {
    char text[8192];
} said;

static void note(void *ctx, sonar_level level, const char *where, const char *text) {
    said *s = ctx;
    size_t at = strlen(s->text);
    snprintf(s->text + at, sizeof s->text - at, "%d %s: %s\n", (int)level, where, text);
}

Test(live, a_file_is_taken_over_as_far_as_it_can_be) {
    static line l;
    static sonar_config_differences differences;
    sonar_error err = {0};
    said said = {0};
    box box = box_open();
    line_open(&l, NULL, NULL);
    play(&l, 0);
    char text[2048], endpoints[4096];
    const setting speed = {"sound_speed_mps", "1480"};
    write_text(text, &speed);
    snprintf(endpoints, sizeof endpoints, "%s", text);
    char *fs = strstr(endpoints, "hop: 2048");
    memcpy(fs, "hop: 1024", 9);
    box_write(&box, "new.yaml", "%s", endpoints);
    const char *path = box_path(&box, "new.yaml");
    cr_assert_eq(sonar_control_reload(l.feed.pipeline, path, note, &said, &differences, &err),
                 SONAR_OK, "%s", err.text);
    cr_expect(strstr(said.text, "sound_speed_mps: 1480 in place of 1500"), "%s", said.text);
    cr_expect(strstr(said.text, "dft.hop: stays 2048, not 1024: it cannot change"), "%s",
              said.text);
    play(&l, 1);
    cr_expect_eq(header_number(l.head, "sound_speed_mps"), 1480);
    /* values set by hand return to those of the file */
    cr_assert_eq(set(&l, "array.heading_deg", "77", &err), SONAR_OK);
    cr_assert_eq(sonar_control_reload(l.feed.pipeline, path, note, &said, &differences, &err),
                 SONAR_OK);
    cr_expect(strstr(said.text, "array.heading_deg: 0 in place of 77"), "%s", said.text);
    /* a bad file changes nothing */
    const sonar_config *before = sonar_pipeline_config(l.feed.pipeline);
    said.text[0] = '\0';
    box_write(&box, "new.yaml", "%s", "schema: 1\nsound_speed_mps: 1490\nfs_hz: eight\n");
    cr_expect_eq(sonar_control_reload(l.feed.pipeline, path, note, &said, &differences, &err),
                 SONAR_EINVAL);
    cr_expect(strstr(said.text, "new.yaml:3:8: fs_hz"), "%s", said.text);
    cr_expect(strstr(said.text, "nothing has changed"), "%s", said.text);
    cr_expect_eq(sonar_pipeline_config(l.feed.pipeline), before);
    cr_expect_eq(
        sonar_control_reload(l.feed.pipeline, "/no/such.yaml", note, &said, &differences, &err),
        SONAR_EUNAVAILABLE);
    cr_expect_eq(sonar_pipeline_config(l.feed.pipeline), before);
    line_close(&l);
    box_close(&box);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static void write_speed_text(char text[2048], const char *speed, const char *array,
                             const char *rest) {
    snprintf(text, 2048, "schema: 1\nfs_hz: 8000\nsound_speed_mps: %s\narray: %s\n%s", speed, array,
             rest);
}

/* Writing and reloading the file. */
static void expect_same_version(const char *array, const char *rest) {
    char text[2048];
    sonar_config *base, *want, *have = NULL;
    sonar_report *report = sonar_report_create();
    write_speed_text(text, "1500", array, rest);
    base = configured("test", text);
    write_speed_text(text, "1470.125", array, rest);
    want = configured("test", text);
    const sonar_config_value speed = {"sound_speed_mps", "1470.125"};
    cr_assert_eq(sonar_config_with(base, 1, &speed, &have, report), SONAR_OK, "%s", array);
    cr_expect_str_eq(have->version, want->version, "%s %s", array, rest);
    sonar_config_destroy(have);
    sonar_config_destroy(want);
    sonar_config_destroy(base);
    sonar_report_destroy(report);
}

Test(live, a_changed_configuration_has_the_digest_of_its_file) {
    const char *const arrays[] = {
        "{geometry: {line: {sensors: 7, spacing_m: 0.5}}, name: \"a \\\"b\\\" #c\"}",
        "{geometry: {circle: {sensors: 7, radius_m: 0.5}}, mask: [1, 3]}",
        "{geometry: {planar: {rows: 2, columns: 3, row_spacing_m: 1, column_spacing_m: 0.3}}}",
        "{geometry: {positions: {list: [[0,0,0],[0.1,2,3],[1e-3,0.7,0.9]]}}}",
        "{geometry: {positions: {frame: enu, origin: given, list: [[0,0,0],[0.1,2,3]]}}}",
        "{geometry: {line: {sensors: 2, spacing_m: 0.5}}, channels: [4, 2], gain_db: [-170, -171]}",
        "{geometry: {line: {sensors: 2, spacing_m: 0.5}}, hydrophone: {sensitivity_db: -180, "
        "full_scale_v: 5, full_scale_counts: 32768}}"};
    const char *const rests[] = {
        "cbf: {band_hz: [600, 950]}\n",
        "cbf: {band_bins: [600, 950], ranges_m: auto, range_min_m: 100}\nmvdr: {enabled: false}\n",
        "cbf: {band_hz: [600, 950], ranges_m: []}\nmvdr: {forgetting: 0.9, length: 512}\n"
        "ingest: {endpoints: [\"ipc:///tmp/a,b\", \"tcp://127.0.0.1:5555\"]}\n"};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        for (size_t k = 0; k < sizeof rests / sizeof *rests; k++)
            expect_same_version(arrays[i], rests[k]);
}

/* ---- the daemon ------------------------------------------------------------------------------ */

enum { RELOADS = 30 };

static void write_speed(const box *box, int speed, char version[72]) {
    sonar_config *config = NULL;
    sonar_report *report = sonar_report_create();
    box_write(box, "next.yaml",
              "schema: 1\narray: {geometry: {line: {sensors: %d, spacing_m: 0.75}}}\n"
              "sound_speed_mps: %d\nfs_hz: %d\n"
              "ingest: {endpoints: [\"ipc://%s/in\"], overload: block}\n"
              "dft: {length: %d, hop: %d}\ncbf: {band_hz: [600, 950]}\nmvdr: {snapshots: 8}\n"
              "output: {endpoint: \"ipc://%s/out\", high_water_mark: 10000}\n"
              "runtime: {backend: cpu, threads: 1}\n",
              SENSORS, speed, FS, box->dir, FRAME, FRAME, box->dir);
    cr_assert_eq(sonar_config_load(box_path(box, "next.yaml"), &config, report), SONAR_OK);
    snprintf(version, 72, "%s", config->version);
    sonar_config_destroy(config);
    sonar_report_destroy(report);
    rename(box_path(box, "next.yaml"), box_path(box, "sonard.yaml"));
}

/* Every window is published, with matching speed and version. */
Test(live, reloads_under_a_running_feed_lose_no_window, .timeout = 600) {
    static char version[RELOADS + 1][72];
    char in[128], out[128];
    box box = box_open();
    snprintf(in, sizeof in, "ipc://%s/in", box.dir);
    snprintf(out, sizeof out, "ipc://%s/out", box.dir);
    write_speed(&box, 1400, version[0]);
    pid_t daemon = process_start(&box, "log", "sonard", box_path(&box, "sonard.yaml"), NULL);
    subscriber s = subscribe(out, "cbf.azimuth", "status", NULL);
    message m;
    cr_assert(receive_ready(&s, "cbf.azimuth", &m), "no status came");
    message_free(&m);
    digitiser d = digitiser_open(in, SENSORS, 0, SENSORS, FRAME);
    d.frame.fs_hz = FS;
    int window = 0, last = 0, changes = 0;
    for (int i = 1; i <= RELOADS; i++) {
        write_speed(&box, 1400 + i, version[i]);
        kill(daemon, SIGHUP);
        for (int k = 0; k < 8; k++, window++) {
            digitiser_send(&d, 1);
            cr_assert(receive_until(&s, "cbf.azimuth", "window", 0, 60000, &m));
            cr_assert_eq(header_number(m.head, "window"), window);
            cr_assert_eq(header_number(m.head, "seq"), window);
            int speed = (int)header_number(m.head, "sound_speed_mps") - 1400;
            cr_assert(speed >= last && speed <= i, "%d after %d", speed, last);
            cr_expect_str_eq(text_of(m.head, "config_version"), version[speed]);
            cr_expect_eq(flagged(m.head, "config_changed"), speed != last);
            changes += speed != last;
            last = speed;
            message_free(&m);
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        }
    }
    cr_expect_geq(changes, 2);
    cr_expect_eq(kill(daemon, SIGTERM), 0);
    cr_expect_eq(process_wait(daemon, 60000), 0);
    char *log = box_read(&box, "log");
    cr_expect(strstr(log, "holds from sample"), "%s", log);
    free(log);
    digitiser_close(&d);
    unsubscribe(&s);
    box_close(&box);
}
