/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Simulator or recording -> daemon -> subscriber, as separate programs over real sockets. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "process.h"

typedef struct rig {
    box box;
    char in[128], out[128];
    pid_t daemon;
    subscriber subscriber;
} rig;

static rig rig_open(void) {
    rig rig = {.box = box_open()};
    snprintf(rig.in, sizeof rig.in, "ipc://%s/in", rig.box.dir);
    snprintf(rig.out, sizeof rig.out, "ipc://%s/out", rig.box.dir);
    return rig;
}

/* The daemon with box/sonard.yaml, and a subscriber it knows of. */
static void rig_start(rig *rig) {
    rig->daemon =
        process_start(&rig->box, "sonard.log", "sonard", box_path(&rig->box, "sonard.yaml"), NULL);
    rig->subscriber = subscribe(rig->out, "detections", "status", NULL);
    message first;
    bool came = receive_ready(&rig->subscriber, "detections", &first);
    char *log = box_read(&rig->box, "sonard.log");
    cr_assert(came, "no status came: %s", log);
    free(log);
    message_free(&first);
}

static void rig_close(rig *rig) {
    unsubscribe(&rig->subscriber);
    kill(rig->daemon, SIGTERM);
    cr_expect_eq(process_wait(rig->daemon, 60000), 0);
    box_close(&rig->box);
}

/* az_deg of the detection of `source` nearest to `near_deg`, NaN without one. */
static double detected(const message *message, const char *source, double near_deg) {
    double best = NAN;
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(message->head, "detections")) {
        const cJSON *from = cJSON_GetObjectItemCaseSensitive(item, "source");
        double az = header_number(item, "az_deg");
        if (strcmp(from->valuestring, source) == 0 &&
            !(fabs(remainder(az - near_deg, 360)) >= fabs(remainder(best - near_deg, 360))))
            best = az;
    }
    return best;
}

/* ---- tracking -------------------------------------------------------------------------------- */

enum { SENSORS = 48, LENGTH = 2048, HOP = 1024, SNAPSHOTS = 16 };
static const double BEAM_DEG = 0.886 * 1500 / 775 / (47 * 0.75) * 180 / M_PI; /* at broadside */

static void write_line_config(rig *rig, const char *geometry) {
    box_write(&rig->box, "sonard.yaml",
              "schema: 1\n"
              "array: {id: 1, geometry: {%s}, gain_db: 20}\n"
              "sound_speed_mps: 1500\n"
              "fs_hz: 8000\n"
              "ingest: {endpoints: [\"%s\"], overload: block, max_missing_share: 0.9, "
              "max_skew_ms: 5000} # more than all the sockets between can hold\n"
              "dft: {length: %d, hop: %d}\n"
              "cbf: {band_hz: [600, 950], ranges_m: []}\n"
              "lofar: {band_hz: [600, 950]}\n"
              "mvdr: {band_hz: [600, 950], snapshots: %d}\n"
              "output: {endpoint: \"%s\", high_water_mark: 10000}\n"
              "runtime: {backend: cpu, threads: 2}\n",
              geometry, rig->in, LENGTH, HOP, SNAPSHOTS, rig->out);
}

/* The same with another line of `ingest`. */
static void set_ingest(rig *rig, const char *ingest) {
    char *text = box_read(&rig->box, "sonard.yaml"), *line = strstr(text, "ingest: "), *end;
    cr_assert(line && (end = strchr(line, '\n')));
    box_write(&rig->box, "sonard.yaml", "%.*singest: {endpoints: [\"%s\"], %s}%s",
              (int)(line - text), text, rig->in, ingest, end);
    free(text);
}

/* endpoint: of any receiver; NULL: of the configuration's daemon. */
static void simulate_to(rig *rig, const char *endpoint, const char *duration) {
    pid_t sim = process_start(
        &rig->box, "sim.log", "sonar-sim", "--config", box_path(&rig->box, "sonard.yaml"),
        "--scene", box_path(&rig->box, "scene.yaml"), "--rate", "max", "--wait", "--duration",
        duration, "--summary", box_path(&rig->box, "summary.json"), endpoint ? "--endpoint" : NULL,
        endpoint, NULL);
    int status = process_wait(sim, 60000);
    char *log = box_read(&rig->box, "sim.log");
    cr_assert_eq(status, 0, "sonar-sim left with %d: %s", status, log);
    free(log);
}

static void simulate(rig *rig, const char *duration) {
    simulate_to(rig, NULL, duration);
}

/* Compares detections up to `last_sample` with the straight-line truth. */
static void follow(rig *rig, double start_deg, double rate_deg_s, double settle, double last_sample,
                   double tolerance_deg) {
    double worst_cbf = 0, worst_mvdr = 0;
    int judged = 0;
    for (double sample = 0; sample < last_sample;) {
        message m;
        cr_assert(receive_until(&rig->subscriber, "detections", "sample_index", sample, 60000, &m));
        double first = header_number(m.head, "sample_index");
        double truth = start_deg + rate_deg_s * (first + LENGTH / 2.0) / 8000;
        double middle = (header_number(m.head, "mvdr.first_sample") +
                         header_number(m.head, "mvdr.last_sample")) /
                        2;
        double truth_mvdr = start_deg + rate_deg_s * middle / 8000;
        if (first >= settle) {
            double cbf = fabs(remainder(detected(&m, "cbf", truth) - truth, 360));
            double mvdr = fabs(remainder(detected(&m, "mvdr", truth_mvdr) - truth_mvdr, 360));
            cr_expect(cbf <= tolerance_deg, "CBF off by %g deg at sample %g", cbf, first);
            cr_expect(mvdr <= tolerance_deg, "MVDR off by %g deg at sample %g", mvdr, first);
            worst_cbf = fmax(worst_cbf, cbf);
            worst_mvdr = fmax(worst_mvdr, mvdr);
            judged++;
        }
        sample = first + HOP;
        message_free(&m);
    }
    cr_assert_geq(judged, 35);
    cr_log_info("worst of %d: CBF %g deg, MVDR %g deg", judged, worst_cbf, worst_mvdr);
}

Test(end_to_end, a_moving_ship_is_tracked_within_a_tenth_of_a_beam) {
    rig rig = rig_open();
    write_line_config(&rig, "line: {sensors: 48, spacing_m: 0.75}");
    box_write(&rig.box, "scene.yaml",
              "schema: 1\nseed: 3\nambient: {psd_db: 50}\nsources:\n"
              "  - name: ship\n    far: {az_deg: 60, rate_deg_s: 1.0}\n"
              "    broadband: {spectrum: white, band_hz: [300, 2000], psd_db: 60}\n");
    rig_start(&rig);
    simulate(&rig, "12");
    follow(&rig, 60, 1.0, 16 * HOP, 11 * 8000, 0.1 * BEAM_DEG);
    rig_close(&rig);
}

/* ---- snapshots of the conventional beamformer ------------------------------------------------ */

/* Powers in the ship's direction (rows of one bin) or of one channel, over many windows. */
struct scatter {
    double bins, mean, spread; /* spread: standard deviation of a bin over its mean */
};

/* Means and spreads of `count` values `step` apart from `at` on, over the windows of a run. */
static struct scatter measure_scatter(rig *rig, const char *topic, size_t at, size_t step,
                                      size_t count, double last_sample) {
    struct scatter s = {.bins = (double)count};
    double sum[1024] = {0}, squares[1024] = {0};
    int windows = 0;
    for (double sample = 0; sample < last_sample; windows++) {
        message m;
        cr_assert(receive_until(&rig->subscriber, topic, "sample_index", sample, 60000, &m));
        for (size_t i = 0; i < count; i++) {
            double power = (double)m.data[at + i * step];
            sum[i] += power;
            squares[i] += power * power;
        }
        sample = header_number(m.head, "sample_index") + LENGTH; /* no overlap */
        message_free(&m);
    }
    for (size_t i = 0; i < count; i++) {
        double mean = sum[i] / windows;
        s.mean += mean / (double)count;
        s.spread += sqrt(squares[i] / windows - mean * mean) / mean / (double)count;
    }
    return s;
}

/* A white source at 90 degrees and 60 dB; cbf: additions to that group of the configuration. */
static struct scatter run_scatter(const char *cbf, const char *topic, size_t bins) {
    rig rig = rig_open();
    box_write(&rig.box, "sonard.yaml",
              "schema: 1\n"
              "array: {id: 1, geometry: {line: {sensors: 12, spacing_m: 0.75}}, gain_db: 20}\n"
              "fs_hz: 8000\n"
              "ingest: {endpoints: [\"%s\"], overload: block}\n"
              "dft: {length: %d, hop: %d}\n"
              "cbf: {band_hz: [500, 1000], ranges_m: [], scan: {start_deg: 90, stop_deg: 90, "
              "step_deg: 1}, %s}\n"
              "mvdr: {enabled: false}\n"
              "output: {endpoint: \"%s\", high_water_mark: 10000}\n"
              "runtime: {backend: cpu, threads: 1}\n",
              rig.in, LENGTH, HOP, cbf, rig.out);
    box_write(&rig.box, "scene.yaml",
              "schema: 1\nseed: 5\nambient: {psd_db: 20}\nsources:\n"
              "  - name: ship\n    far: {az_deg: 90}\n"
              "    broadband: {spectrum: white, band_hz: [200, 2000], psd_db: 60}\n");
    rig.daemon =
        process_start(&rig.box, "sonard.log", "sonard", box_path(&rig.box, "sonard.yaml"), NULL);
    rig.subscriber = subscribe(rig.out, topic, "status", NULL);
    message first;
    cr_assert(receive_ready(&rig.subscriber, topic, &first));
    message_free(&first);
    simulate(&rig, "20");
    size_t row = strcmp(topic, "element.psd") ? 0 : 5 * bins;
    struct scatter s = measure_scatter(&rig, topic, row, 1, bins, 19.5 * 8000);
    rig_close(&rig);
    return s;
}

/* Bins of 3.9 Hz and single snapshots against bins of 15.6 Hz and seven that overlap by half, whose
 * powers, with the Hann window, are correlated by 1/36 (Welch 1967). Both must give the same level.
 */
Test(end_to_end, snapshots_of_a_window_are_averaged, .timeout = 600) {
    static const char *const topics[] = {"cbf.lofar", "element.psd"};
    for (int i = 0; i < 2; i++) {
        struct scatter one = run_scatter("length: 2048", topics[i], 129);
        struct scatter seven = run_scatter("length: 512, hop: 256", topics[i], 33);
        cr_log_info("%s: %g and %g, spread %g and %g", topics[i], one.mean, seven.mean, one.spread,
                    seven.spread);
        cr_expect_float_eq(10 * log10(one.mean), 60, 0.3);
        cr_expect_float_eq(10 * log10(seven.mean), 60, 0.3);
        cr_expect_float_eq(one.spread, 1, 0.1);
        cr_expect_float_eq(seven.spread, sqrt((1 + 2 * 6.0 / 7 / 36) / 7), 0.03);
    }
}

Test(end_to_end, a_circle_tracks_over_north_without_ambiguity) {
    rig rig = rig_open();
    write_line_config(&rig, "circle: {sensors: 32, radius_m: 4}");
    box_write(&rig.box, "scene.yaml",
              "schema: 1\nseed: 4\nambient: {psd_db: 50}\nsources:\n"
              "  - name: ship\n    far: {az_deg: 352, rate_deg_s: 2.0}\n"
              "    broadband: {spectrum: white, band_hz: [300, 2000], psd_db: 62}\n");
    rig_start(&rig);
    simulate(&rig, "8");
    /* beam width of a circle: 0.36 * lambda / radius rad */
    follow(&rig, 352, 2.0, 16 * HOP, 7 * 8000, 0.1 * 0.36 * 1500 / 775 / 4 * 180 / M_PI);
    rig_close(&rig);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static void write_focused_config(rig *rig, const char *ranges) {
    box_write(&rig->box, "sonard.yaml",
              "schema: 1\n"
              "array: {id: 1, geometry: {line: {sensors: 128, spacing_m: 0.75}}, gain_db: 20}\n"
              "sound_speed_mps: 1500\n"
              "fs_hz: 8000\n"
              "ingest: {endpoints: [\"%s\"], overload: block}\n"
              "dft: {length: 4096, hop: 4096}\n"
              "cbf: {band_hz: [600, 950], ranges_m: %s}\n"
              "lofar: {band_hz: [600, 950]}\n"
              "mvdr: {enabled: false}\n"
              "output: {endpoint: \"%s\", high_water_mark: 1000}\n"
              "runtime: {backend: cpu, threads: 2}\n",
              rig->in, ranges, rig->out);
}

/* A single loud source is one contact, in the far field without a range. */
static void check_lone_source(const char *ranges, double az_deg, double range_m) {
    rig rig = rig_open();
    char place[64] = "";
    if (range_m > 0)
        snprintf(place, sizeof place, ", range_m: %g", range_m);
    write_focused_config(&rig, ranges);
    box_write(&rig.box, "scene.yaml",
              "schema: 1\nseed: 6\nambient: {psd_db: 50}\nsources:\n"
              "  - name: ship\n    %s: {az_deg: %g%s}\n"
              "    broadband: {spectrum: white, band_hz: [300, 2000], psd_db: 70}\n",
              range_m > 0 ? "near" : "far", az_deg, place);
    rig_start(&rig);
    simulate(&rig, "1.2");
    message m;
    cr_assert(receive_until(&rig.subscriber, "detections", "window", 1, 60000, &m));
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(m.head, "detections");
    const cJSON *first = cJSON_GetArrayItem(list, 0);
    cr_expect_eq(cJSON_GetArraySize(list), 1, "%d contacts of one source at %g deg",
                 cJSON_GetArraySize(list), az_deg);
    /* Beam widths are even in the cosine: near endfire degrees are wide. Between two ranges of the
     * list a near source's bearing is a little off. */
    double share = range_m > 0 ? 0.2 : 0.1;
    double beam = 0.886 * 1500 / 950 / (128 * 0.75), found_deg = header_number(first, "az_deg");
    cr_expect_leq(fabs(cos(found_deg * M_PI / 180) - cos(az_deg * M_PI / 180)), share * beam,
                  "%g deg, not %g", found_deg, az_deg);
    const double sigma_deg = header_number(first, "bearing_sigma_deg");
    const double beam_deg =
        2 * asin(fmin(sqrt(beam), 1)) * 180 / M_PI; /* at the axis, its widest */
    cr_expect(sigma_deg > 0 && sigma_deg < 0.25 * beam_deg, "%g deg at %g", sigma_deg, az_deg);
    cr_expect(range_m > 0 || fabs(found_deg - az_deg) < 5 * sigma_deg, "%g deg, not %g, by %g",
              found_deg, az_deg, sigma_deg);
    double found_m = header_number(first, "range_m");
    if (range_m > 0)
        cr_expect_leq(fabs(found_m - range_m), 0.1 * range_m, "%g m, not %g", found_m, range_m);
    else
        cr_expect(isnan(found_m), "%g m in the far field at %g deg", found_m, az_deg);
    /* its own smear at other ranges must not count as background */
    double least_db = range_m > 0 ? 10 : 20, snr_db = header_number(first, "snr_db");
    cr_expect_geq(snr_db, least_db, "%g dB at %g deg", snr_db, az_deg);
    message_free(&m);
    rig_close(&rig);
}

Test(end_to_end, a_far_source_has_neither_range_nor_ghosts) {
    const double az_deg[] = {0, 12, 40, 70, 90, 135, 179};
    for (size_t i = 0; i < sizeof az_deg / sizeof *az_deg; i++)
        check_lone_source("[50, 100, 200, 400, 800, 1600, 3200]", az_deg[i], 0);
}

Test(end_to_end, a_near_source_has_its_range_and_no_ghosts) {
    check_lone_source("auto", 70, 150);
    check_lone_source("auto", 110, 400);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static double summary_number(rig *rig, const char *path) {
    char *text = box_read(&rig->box, "summary.json");
    cJSON *summary = cJSON_Parse(text);
    double value = header_number(summary, path);
    cJSON_Delete(summary);
    free(text);
    return value;
}

static void expect_equal(const message *m, const char *path, double value) {
    cr_expect_eq(header_number(m->head, path), value, "%s is %g, not %g", path,
                 header_number(m->head, path), value);
}

Test(end_to_end, every_planned_fault_is_counted_exactly) {
    rig rig = rig_open();
    write_line_config(&rig, "line: {sensors: 48, spacing_m: 0.75}");
    box_write(&rig.box, "scene.yaml",
              "schema: 1\nseed: 5\nambient: {psd_db: 50}\n"
              "frame_samples: 250\ndigitisers: 3\nformat: f32\n"
              "fault_rates: {drop: 0.03, repeat: 0.03, reorder: 0.05, corrupt: 0.02, "
              "truncate: 0.02, oversize: 0.02, wrong_epoch: 0.02, wrong_array: 0.02, "
              "wrong_rate: 0.02, nan: 0.02}\n");
    rig_start(&rig);
    simulate(&rig, "20");
    double sent = summary_number(&rig, "messages");
    cr_assert_gt(sent, 1500);
    message m;
    cr_assert(receive_until(&rig.subscriber, "status", "frames.received", sent, 60000, &m));
    expect_equal(&m, "frames.received", sent);
    expect_equal(&m, "frames.dropped.malformed", summary_number(&rig, "kinds.corrupt"));
    expect_equal(&m, "frames.dropped.truncated", summary_number(&rig, "kinds.truncate"));
    expect_equal(&m, "frames.dropped.oversized", summary_number(&rig, "kinds.oversize"));
    expect_equal(&m, "frames.dropped.wrong_epoch", summary_number(&rig, "kinds.wrong_epoch"));
    expect_equal(&m, "frames.dropped.wrong_array", summary_number(&rig, "kinds.wrong_array"));
    expect_equal(&m, "frames.dropped.wrong_rate", summary_number(&rig, "kinds.wrong_rate"));
    expect_equal(&m, "frames.dropped.not_finite", summary_number(&rig, "kinds.nan"));
    /* a frame sent twice counts as repeated, or as late if its samples are already frozen */
    double again = header_number(m.head, "frames.dropped.repeated") +
                   header_number(m.head, "frames.dropped.late");
    cr_expect_eq(again, summary_number(&rig, "kinds.repeat"));
    double accepted = header_number(m.head, "frames.accepted"), dropped = 0;
    const cJSON *cause, *frames = cJSON_GetObjectItemCaseSensitive(m.head, "frames");
    cJSON_ArrayForEach(cause, cJSON_GetObjectItemCaseSensitive(frames, "dropped")) {
        dropped += cause->valuedouble;
    }
    cr_expect_eq(accepted + dropped, sent, "accepted %g + dropped %g of %g", accepted, dropped,
                 sent);
    message_free(&m);
    rig_close(&rig);
}

/* ---- pace ------------------------------------------------------------------------------------ */

Test(end_to_end, a_simulator_that_falls_behind_says_so) {
    rig rig = rig_open();
    write_line_config(&rig, "line: {sensors: 48, spacing_m: 0.75}");
    box_write(&rig.box, "scene.yaml", "schema: 1\nseed: 5\nambient: {psd_db: 50}\n");
    rig_start(&rig);
    pid_t sim = process_start(&rig.box, "sim.log", "sonar-sim", "--config",
                              box_path(&rig.box, "sonard.yaml"), "--scene",
                              box_path(&rig.box, "scene.yaml"), "--duration", "6", "--summary",
                              box_path(&rig.box, "summary.json"), NULL);
    message m;
    cr_assert(receive_until(&rig.subscriber, "detections", "sample_index", 0, 60000, &m));
    message_free(&m);
    kill(sim, SIGSTOP); /* about a quarter of a second into the stream, for 2 of its 6 s */
    nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
    kill(sim, SIGCONT);
    cr_expect_eq(process_wait(sim, 60000), 0);
    char *log = box_read(&rig.box, "sim.log");
    cr_expect(strstr(log, " s behind the pace: "), "%s", log);
    cr_expect(strstr(log, "sonar-sim: lagged up to "), "%s", log);
    free(log);
    cr_expect_geq(summary_number(&rig, "behind_s.most"), 1);
    rig_close(&rig);
}

/* The daemon drops windows rather than delay its digitiser, and one window has no samples at all.
 */
Test(end_to_end, the_simulator_goes_no_faster_than_the_daemon) {
    rig rig = rig_open();
    write_line_config(&rig, "line: {sensors: 48, spacing_m: 0.75}");
    set_ingest(&rig, "overload: drop_oldest, queue_windows: 1, max_missing_share: 0.4");
    box_write(&rig.box, "scene.yaml",
              "schema: 1\nambient: {psd_db: 50}\n"
              "faults: [{kind: drop, frame: 300, count: 12}]\n");
    rig_start(&rig);
    simulate(&rig,
             "10"); /* 313 frames of 256 samples, 77 windows; the last ones lack 3072 samples */
    message m;
    cr_assert(receive_until(&rig.subscriber, "status", "windows.processed", 74, 60000, &m));
    expect_equal(&m, "windows.dropped.overload", 0);
    expect_equal(&m, "windows.taken", header_number(m.head, "windows.offered"));
    message_free(&m);
    rig_close(&rig);
}

Test(end_to_end, a_daemon_that_cannot_be_heard_is_advised_how_to_lose_nothing) {
    rig rig = rig_open();
    write_line_config(&rig, "line: {sensors: 48, spacing_m: 0.75}");
    set_ingest(&rig, "overload: drop_oldest");
    box_write(&rig.box, "scene.yaml", "schema: 1\nambient: {psd_db: 50}\n");
    void *context = zmq_ctx_new(), *pull = zmq_socket(context, ZMQ_PULL);
    cr_assert_eq(zmq_bind(pull, rig.in), 0);
    simulate_to(&rig, rig.in, "0.1"); /* four frames, which the sockets hold */
    cr_expect_eq(summary_number(&rig, "messages"), 4);
    char *log = box_read(&rig.box, "sim.log");
    cr_expect(strstr(log, "ingest: {overload: block}"), "%s", log);
    free(log);
    zmq_close(pull);
    zmq_ctx_term(context);
    box_close(&rig.box);
}

/* ---- a real recording ------------------------------------------------------------------------ */

static void write_infrasound_config(rig *rig, double c_mps) {
    box_write(&rig->box, "sonard.yaml",
              "schema: 1\n"
              "array:\n"
              "  id: 7\n"
              "  geometry:\n"
              "    positions:\n"
              "      frame: enu\n"
              "      list: [[0, 0, 0], [34.0524, 122.5866, 0], [154.5476, 22.4828, 0], "
              "[77.2737, 33.5102, 0]]\n"
              "  heading_deg: 0\n"
              "sound_speed_mps: %g\n"
              "fs_hz: 100\n"
              "ingest: {endpoints: [\"%s\"], overload: block}\n"
              "dft: {length: 1000, hop: 500}\n"
              "cbf: {band_hz: [1, 5], ranges_m: []}\n"
              "lofar: {band_hz: [1, 5]}\n"
              "mvdr: {band_hz: [1, 5], length: 200, hop: 50, snapshots: 17}\n"
              "detections: {threshold_db: 3}\n"
              "output: {endpoint: \"%s\", high_water_mark: 1000}\n"
              "runtime: {backend: cpu, threads: 2}\n",
              c_mps, rig->in, rig->out);
}

/* The strongest bearing of a source in the window that begins at `sample`. */
static void check_bearing(rig *rig, const char *recording, double c_mps, double sample,
                          double bearing_deg) {
    write_infrasound_config(rig, c_mps);
    rig_start(rig);
    pid_t replay = process_start(&rig->box, "replay.log", "sonar-replay", recording, "--config",
                                 box_path(&rig->box, "sonard.yaml"), "--rate", "max", NULL);
    message m;
    cr_assert(receive_until(&rig->subscriber, "detections", "sample_index", sample, 60000, &m));
    cr_assert_eq(header_number(m.head, "sample_index"), sample);
    const char *sources[] = {"cbf", "mvdr"};
    for (int i = 0; i < 2; i++) {
        double az = detected(&m, sources[i], bearing_deg);
        cr_expect(fabs(remainder(az - bearing_deg, 360)) <= 3, "%s reads %g deg at %g s, not %g",
                  sources[i], az, sample / 100, bearing_deg);
    }
    const cJSON *first =
        cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(m.head, "detections"), 0);
    cr_expect(fabs(remainder(header_number(first, "bearing_deg") - bearing_deg, 360)) <= 3,
              "the strongest detection is elsewhere: %g deg", header_number(first, "bearing_deg"));
    message_free(&m);
    cr_expect_eq(process_wait(replay, 60000), 0);
    rig_close(rig);
}

Test(end_to_end, the_published_bearings_of_a_real_recording) {
    const char *folder = getenv("SONAR_TEST_DATA");
    char recording[512];
    snprintf(recording, sizeof recording, "%s/brp_infrasound4.f32", folder ? folder : "");
    if (!folder || access(recording, R_OK) != 0) {
        cr_skip_test("no recording: SONAR_TEST_DATA does not name a folder with "
                     "brp_infrasound4.f32");
    }
    rig rig = rig_open();
    check_bearing(&rig, recording, 371, 42000, -41.8); /* 18:07:05 */
    rig = rig_open();
    check_bearing(&rig, recording, 360, 82500, -39); /* 18:13:50 */
}
