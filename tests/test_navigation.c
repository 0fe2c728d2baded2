/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A turning array of the simulator, its heading as NMEA over UDP, the daemon, and the resulting
 * bearings; all as programs over real sockets. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "port.h"
#include "process.h"

enum { FS = 2048, SENSORS = 32, LENGTH = 1024 };

static const double SOURCE_DEG = 100, HEADING_DEG = 355, TURN_DEG_S = 3, LENGTH_M = 32 * 0.75;

typedef struct rig {
    box box;
    char out[128], control[128];
    pid_t daemon;
    subscriber subscriber;
} rig;

static void rig_open(rig *r, const char *navigation) {
    message m;
    *r = (rig){.box = box_open()};
    snprintf(r->out, sizeof r->out, "ipc://%s/out", r->box.dir);
    snprintf(r->control, sizeof r->control, "ipc://%s/control", r->box.dir);
    box_write(&r->box, "sonard.yaml",
              "schema: 1\narray: {geometry: {line: {sensors: %d, spacing_m: 0.75}}, gain_db: 20}\n"
              "fs_hz: %d\ningest: {endpoints: [\"ipc://%s/in\"], overload: block}\n"
              "dft: {length: %d, hop: %d}\ncbf: {band_hz: [600, 900], ranges_m: []}\n"
              "mvdr: {length: 256, hop: 128, snapshots: 16}\n"
              "output: {endpoint: \"%s\", high_water_mark: 10000, bearing_reference: true}\n"
              "control: {endpoint: \"%s\"}\nnavigation: {%s}\n"
              "runtime: {backend: cpu, threads: 1}\n",
              SENSORS, FS, r->box.dir, LENGTH, LENGTH / 2, r->out, r->control, navigation);
    box_write(&r->box, "scene.yaml",
              "schema: 1\nown_ship: {heading_deg: %g, turn_deg_s: %g}\nambient: {level_db: 80}\n"
              "sources:\n  - name: ship\n    far: {az_deg: %g}\n"
              "    broadband: {level_db: 100, band_hz: [600, 900]}\n",
              HEADING_DEG, TURN_DEG_S, SOURCE_DEG);
    r->daemon = process_start(&r->box, "log", "sonard", box_path(&r->box, "sonard.yaml"), NULL);
    r->subscriber = subscribe(r->out, "detections", "cbf.azimuth", "mvdr.azimuth", "status", NULL);
    bool came = receive_ready(&r->subscriber, "mvdr.azimuth", &m);
    char *log = box_read(&r->box, "log");
    cr_assert(came, "%s", log);
    free(log);
    message_free(&m);
}

static void rig_close(rig *r) {
    kill(r->daemon, SIGTERM);
    cr_expect_eq(process_wait(r->daemon, 60000), 0);
    unsubscribe(&r->subscriber);
    box_close(&r->box);
}

static pid_t play(rig *r, const char *seconds, const char *nmea) {
    const char *config = box_path(&r->box, "sonard.yaml"), *scene = box_path(&r->box, "scene.yaml");
    return nmea ? process_start(&r->box, "sim", "sonar-sim", "-c", config, "-s", scene,
                                "--duration", seconds, "--nmea", nmea, NULL)
                : process_start(&r->box, "sim", "sonar-sim", "-c", config, "-s", scene,
                                "--duration", seconds, NULL);
}

static const char *text_of(const cJSON *head, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(head, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

/* The strongest contact of the CBF, NULL without any. */
static const cJSON *strongest(const cJSON *head) {
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(head, "detections")) {
        if (strcmp(text_of(item, "source"), "cbf") == 0)
            return item;
    }
    return NULL;
}

static double off_source(const cJSON *contact, const char *bearing) {
    return fabs(remainder(header_number(contact, bearing) - SOURCE_DEG, 360));
}

static double beam_at(double az_deg) {
    return 0.886 * 1500 / 900 / LENGTH_M / sin(az_deg * M_PI / 180) * 180 / M_PI;
}

static double heading_off(const cJSON *head, double middle_sample) {
    return remainder(
        header_number(head, "heading_deg") - (HEADING_DEG + TURN_DEG_S * middle_sample / FS), 360);
}

/* The heading holds from its arrival: an instrumented daemon is too slow for real time. */
#ifdef __SANITIZE_ADDRESS__
enum { TOO_SLOW = 1 };
#else
enum { TOO_SLOW = 0 };
#endif

typedef struct turn {
    int windows, blocks, spectra, told;
    double worst, first_az, last_az;
} turn;

/* Both bearings until the turn has shown the side, then only one. */
static void check_contact(const cJSON *head, double sample, turn *t) {
    const cJSON *contact = strongest(head);
    cr_expect_str_eq(text_of(head, "bearing_reference"), "true");
    cr_expect_str_eq(text_of(head, "heading_source"), "navigation");
    if (!contact) {
        cr_expect_fail("nothing is there at sample %g", sample);
        return;
    }
    const double az = header_number(contact, "az_deg"), beam = beam_at(az);
    const bool known = strcmp(text_of(contact, "side"), "unknown") != 0;
    double off = off_source(contact, "bearing_deg");
    if (known)
        cr_expect_str_eq(text_of(contact, "side"), "starboard", "at sample %g", sample);
    else
        off = fmin(off, off_source(contact, "mirror_deg"));
    cr_expect_lt(off, 0.2 * beam, "%g deg off at sample %g", off, sample);
    t->worst = fmax(t->worst, off / beam);
    t->first_az = isnan(t->first_az) ? az : t->first_az;
    t->last_az = az;
    t->told += known;
    t->windows++;
}

/* In the spectrum over true bearings the source stays where it is. */
static void check_spectrum(const message *m, double sample, turn *t) {
    const cJSON *axis = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(m->head, "axes"), 0);
    const double step = header_number(axis, "step"), beam = beam_at(t->last_az);
    size_t best = 0;
    cr_expect_str_eq(text_of(m->head, "bearing_reference"), "true");
    for (size_t i = 0; i < m->count; i++)
        if (fabs((double)i * step - SOURCE_DEG) < 2 * beam && (!best || m->data[i] > m->data[best]))
            best = i;
    const double off = fabs((double)best * step - SOURCE_DEG);
    cr_expect_lt(off, 0.2 * beam, "the spectrum is %g deg off at sample %g", off, sample);
    t->spectra++;
}

static void check_heading(const cJSON *head, turn *t) {
    const double middle =
        0.5 * (header_number(head, "first_sample") + header_number(head, "last_sample") + 1);
    cr_expect_lt(fabs(heading_off(head, middle)), 0.45, "%g deg", heading_off(head, middle));
    t->blocks++;
}

/* 42 degrees in 14 seconds, through north. */
Test(navigation, a_fixed_source_keeps_its_true_bearing_through_a_turn, .timeout = 600,
     .disabled = TOO_SLOW) {
    static rig r;
    char nmea[48], option[80];
    own_endpoint("udp", nmea);
    snprintf(option, sizeof option, "nmea: \"%s\"", nmea);
    rig_open(&r, option);
    pid_t sim = play(&r, "14", nmea);
    turn t = {.first_az = NAN, .last_az = NAN};
    message m;
    while (receive(&r.subscriber, &m, 3000)) {
        const double sample = header_number(m.head, "sample_index");
        if (!strcmp(m.topic, "detections") && sample >= LENGTH)
            check_contact(m.head, sample, &t);
        if (!strcmp(m.topic, "cbf.azimuth") && isfinite(t.last_az))
            check_spectrum(&m, sample, &t);
        if (!strcmp(m.topic, "mvdr.azimuth") && sample >= LENGTH)
            check_heading(m.head, &t);
        message_free(&m);
        if (t.windows && !process_running(sim))
            break;
    }
    cr_log_info("worst %.2f beam widths in %d windows", t.worst, t.windows);
    cr_expect_geq(t.windows, 40);
    cr_expect_geq(t.blocks, 40);
    cr_expect_geq(t.spectra, 40);
    cr_expect_geq(t.told, 8, "the side was told in %d of %d windows", t.told, t.windows);
    cr_expect_gt(fabs(t.first_az - t.last_az), 30, "the array has turned");
    cr_expect_eq(process_wait(sim, 60000), 0);
    cr_expect(receive_until(&r.subscriber, "status", "navigation.age_s", 3, 60000, &m));
    cr_expect(strstr(text_of(m.head, "text"), "the last heading, from nmea"), "%s",
              text_of(m.head, "text"));
    cr_expect_geq(header_number(m.head, "navigation.taken"), 110);
    message_free(&m);
    rig_close(&r);
}

/* Heading and speed come over UDP; the array is known once the ship has gone as far as it reaches.
 */
Test(navigation, a_towed_array_is_found_by_nmea, .timeout = 600, .disabled = TOO_SLOW) {
    static rig r;
    message m;
    char nmea[48], option[120];
    own_endpoint("udp", nmea);
    snprintf(option, sizeof option, "nmea: \"%s\", tow: {model: follow, scope_m: 4}", nmea);
    rig_open(&r, option);
    box_write(&r.box, "scene.yaml",
              "schema: 1\nown_ship: {heading_deg: 70, speed_mps: 15, trail_m: %g}\n"
              "ambient: {level_db: 80}\nsources:\n  - name: ship\n    far: {az_deg: %g}\n"
              "    broadband: {level_db: 100, band_hz: [600, 900]}\n",
              4 + 0.75 * (SENSORS - 1) / 2, SOURCE_DEG);
    pid_t sim = play(&r, "5", nmea);
    cr_assert(receive_until(&r.subscriber, "status", "navigation.tow.seen_m", 28, 60000, &m));
    const cJSON *navigation = cJSON_GetObjectItemCaseSensitive(m.head, "navigation"),
                *tow = cJSON_GetObjectItemCaseSensitive(navigation, "tow");
    cr_expect_str_eq(text_of(tow, "state"), "known");
    cr_expect(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(tow, "over_ground")));
    cr_expect_float_eq(header_number(navigation, "water_speed_mps"), 15, 0.001);
    cr_expect_float_eq(header_number(tow, "reach_m"), 4 + 0.75 * (SENSORS - 1), 1e-6);
    message_free(&m);
    cr_assert(receive_until(&r.subscriber, "detections", "sample_index", 4 * FS, 60000, &m));
    cr_assert(strongest(m.head));
    cr_expect_float_eq(header_number(m.head, "heading_deg"), 70, 0.01);
    cr_expect_eq(header_number(m.head, "shape_sample_index"), 0);
    message_free(&m);
    cr_expect_eq(process_wait(sim, 60000), 0);
    rig_close(&r);
}

/* The simulator tells what the compasses read, without their offset. */
Test(navigation, a_towed_array_is_found_by_its_compasses, .timeout = 600, .disabled = TOO_SLOW) {
    static rig r;
    message m;
    char nmea[48], option[200];
    own_endpoint("udp", nmea);
    snprintf(option, sizeof option,
             "nmea: \"%s\", tow: {model: sensors, compasses: [C1, C2], compass_at_m: [0, 5], "
             "compass_offset_deg: 3}",
             nmea);
    rig_open(&r, option);
    box_write(&r.box, "scene.yaml",
              "schema: 1\nown_ship: {heading_deg: 70, speed_mps: 15, trail_m: 90, turn_deg_s: 1, "
              "turn_from_s: 0, turn_by_deg: 20}\n"
              "ambient: {level_db: 80}\nsources:\n  - name: ship\n    far: {az_deg: %g}\n"
              "    broadband: {level_db: 100, band_hz: [600, 900]}\n",
              SOURCE_DEG);
    pid_t sim = play(&r, "5", nmea);
    cr_assert(receive_until(&r.subscriber, "detections", "sample_index", 2 * FS, 60000, &m));
    cr_assert(strongest(m.head));
    cr_expect_float_eq(header_number(m.head, "heading_deg"), 70, 0.05);
    message_free(&m);
    cr_assert(receive_until(&r.subscriber, "status", "navigation.tow.compasses", 2, 60000, &m));
    const cJSON *navigation = cJSON_GetObjectItemCaseSensitive(m.head, "navigation"),
                *tow = cJSON_GetObjectItemCaseSensitive(navigation, "tow");
    cr_expect_str_eq(text_of(tow, "state"), "known");
    cr_expect_eq(header_number(tow, "silent"), 0);
    cr_expect_gt(header_number(navigation, "heading_deg"), 71, "the ship is in its turn");
    cr_expect(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(navigation, "fresh")));
    message_free(&m);
    cr_expect_eq(process_wait(sim, 60000), 0);
    rig_close(&r);
}

/* Without any heading bearings are in the array frame, and all messages state this. */
Test(navigation, a_heading_that_does_not_come_is_named, .timeout = 600) {
    static rig r;
    message m;
    char nmea[48], option[80];
    own_endpoint("udp", nmea);
    snprintf(option, sizeof option, "nmea: \"%s\"", nmea);
    rig_open(&r, option);
    pid_t sim = play(&r, "2", NULL);
    cr_assert(receive_until(&r.subscriber, "cbf.azimuth", "sample_index", 0, 60000, &m));
    cr_expect_str_eq(text_of(m.head, "bearing_reference"), "array");
    message_free(&m);
    cr_assert(receive_until(&r.subscriber, "detections", "sample_index", LENGTH, 60000, &m));
    cr_expect_str_eq(text_of(m.head, "bearing_reference"), "array");
    char *head = cJSON_PrintUnformatted(m.head);
    cr_expect(strstr(head, "\"heading_stale\""), "%s", head);
    free(head);
    message_free(&m);
    cr_assert(receive_until(&r.subscriber, "status", "uptime_s", 0, 60000, &m));
    cr_expect(strstr(text_of(m.head, "text"), "no heading has been received yet"), "%s",
              text_of(m.head, "text"));
    message_free(&m);
    cr_expect_eq(process_wait(sim, 60000), 0);
    rig_close(&r);
}

/* A heading set by hand applies until another one is received. */
Test(navigation, sonarctl_sets_where_the_ship_is, .timeout = 600) {
    static rig r;
    message m;
    rig_open(&r, "heading_offset_deg: 10");
    pid_t ctl = process_start(&r.box, "ctl", "sonarctl", "-e", r.control, "navigation",
                              "heading_deg", "355", "depth_m", "80", NULL);
    cr_assert_eq(process_wait(ctl, 60000), 0);
    ctl = process_start(&r.box, "ctl", "sonarctl", "-e", r.control, "navigation", "heading_deg",
                        "400", NULL);
    cr_expect_eq(process_wait(ctl, 60000), 1);
    pid_t sim = play(&r, "2", NULL);
    cr_assert(receive_until(&r.subscriber, "detections", "sample_index", LENGTH, 60000, &m));
    cr_expect_eq(header_number(m.head, "heading_deg"), 5);
    cr_expect_str_eq(text_of(m.head, "bearing_reference"), "true");
    message_free(&m);
    cr_assert(receive_until(&r.subscriber, "status", "navigation.depth_m", 80, 60000, &m));
    cr_expect_str_eq(text_of(cJSON_GetObjectItemCaseSensitive(m.head, "navigation"), "source"),
                     "control");
    message_free(&m);
    cr_expect_eq(process_wait(sim, 60000), 0);
    rig_close(&r);
}
