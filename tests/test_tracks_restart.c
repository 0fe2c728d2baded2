/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tracks from one start of the daemon to the next, as programs over real sockets. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process.h"

enum { FS = 2048, SECONDS = 30 };

static void write_files(const box *box) {
    box_write(box, "sonard.yaml",
              "schema: 1\narray: {geometry: {line: {sensors: 16, spacing_m: 0.75}}, gain_db: 20}\n"
              "fs_hz: %d\ningest: {endpoints: [\"ipc://%s/in\"], overload: block}\n"
              "dft: {length: 1024, hop: 1024}\ncbf: {band_hz: [600, 900], ranges_m: []}\n"
              "mvdr: {enabled: false}\n"
              "output: {endpoint: \"ipc://%s/out\", high_water_mark: 10000}\n"
              "runtime: {backend: cpu, threads: 1, state_dir: \"%s\"}\n",
              FS, box->dir, box->dir, box->dir);
    box_write(
        box, "scene.yaml",
        "schema: 1\nambient: {level_db: 80}\nsources:\n"
        "  - {name: a, far: {az_deg: 60}, broadband: {level_db: 95, band_hz: [600, 900]}}\n"
        "  - {name: b, far: {az_deg: 110}, broadband: {level_db: 95, band_hz: [600, 900]}}\n");
    box_write(
        box, "other.yaml",
        "schema: 1\nambient: {level_db: 80}\nsources:\n"
        "  - {name: a, far: {az_deg: 60}, broadband: {level_db: 95, band_hz: [600, 900]}}\n"
        "  - {name: c, far: {az_deg: 135}, broadband: {level_db: 95, band_hz: [600, 900]}}\n");
}

static const double place_deg[] = {60, 110, 135};
enum { PLACES = sizeof place_deg / sizeof *place_deg };

/* The number and the age in the last window of the confirmed track there; 0: none. */
static void take(const cJSON *head, double number[PLACES], double age_s[PLACES]) {
    const cJSON *t;
    memset(number, 0, PLACES * sizeof *number);
    cJSON_ArrayForEach(t, cJSON_GetObjectItem(head, "tracks")) for (int k = 0; k < PLACES; k++) {
        if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(t, "state")), "confirmed") != 0 ||
            fabs(header_number(t, "az_deg") - place_deg[k]) > 2)
            continue;
        number[k] = header_number(t, "number");
        age_s[k] = header_number(t, "age_s");
    }
}

/* Tracks in the file: lines after the two of its head. */
static int stored(const box *box) {
    char *text = box_read(box, "tracks");
    int lines = -2;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    free(text);
    return lines;
}

/* Starts the daemon, plays a scene from that UTC on, and ends the daemon by a signal. */
static void run_scene(const box *box, const char *scene, const char *utc, int by,
                      double number[PLACES], double age_s[PLACES]) {
    char out[128];
    snprintf(out, sizeof out, "ipc://%s/out", box->dir);
    const pid_t daemon = process_start(box, "log", "sonard", box_path(box, "sonard.yaml"), NULL);
    subscriber s = subscribe(out, "tracks", "status", NULL);
    message m;
    cr_assert(receive_ready(&s, "tracks", &m), "%s", box_read(box, "log"));
    message_free(&m);
    const pid_t sim = process_start(box, "sim", "sonar-sim", "-c", box_path(box, "sonard.yaml"),
                                    "-s", box_path(box, scene), "--duration", "30", "--rate",
                                    by == SIGKILL ? "10" : "max", "--utc", utc, NULL);
    const double last = (SECONDS * FS - 1024) / 1024;
    cr_assert(receive_until(&s, "tracks", "window", last, 120000, &m));
    take(m.head, number, age_s);
    message_free(&m);
    cr_expect_eq(process_wait(sim, 60000), 0);
    while (by == SIGKILL && stored(box) < 2) /* the daemon writes them soon */
        usleep(10000);
    kill(daemon, by);
    cr_expect_eq(process_wait(daemon, 60000), by == SIGKILL ? 128 + SIGKILL : 0);
    unsubscribe(&s);
}

static void run(const box *box, const char *utc, double number[PLACES], double age_s[PLACES]) {
    run_scene(box, "scene.yaml", utc, SIGTERM, number, age_s);
}

Test(tracks_restart, numbers_are_kept, .timeout = 600) {
    box box = box_open();
    double first[PLACES], then[PLACES], again[PLACES], first_age_s[PLACES], age_s[PLACES];
    write_files(&box);
    run(&box, "2026-01-31T12:00:00Z", first, first_age_s);
    cr_assert(first[0] > 0 && first[1] > 0 && first[0] != first[1]);
    run(&box, "2026-01-31T12:00:40Z", then, age_s);
    for (int k = 0; k < 2; k++) {
        cr_expect_eq(then[k], first[k], "%g, not %g", then[k], first[k]);
        cr_expect_float_eq(age_s[k], first_age_s[k] + 40, 1e-6, "%g after %g", age_s[k],
                           first_age_s[k]);
    }
    /* an earlier time: a recording is played again, with the tracks of the first time */
    run(&box, "2026-01-31T12:00:00Z", again, age_s);
    for (int k = 0; k < 2; k++) {
        cr_expect_eq(again[k], first[k]);
        cr_expect_eq(age_s[k], first_age_s[k]);
    }
    box_write(&box, "tracks", "sonard 1 1\nnonsense\n");
    run(&box, "2026-01-31T12:00:00Z", again, age_s);
    cr_expect_eq(again[0], first[0]);
    box_close(&box);
}

/* The daemon is killed: what it has stored meanwhile goes on, and no number is given twice. */
Test(tracks_restart, numbers_outlive_a_crash, .timeout = 600) {
    box box = box_open();
    double first[PLACES], then[PLACES], first_age_s[PLACES], age_s[PLACES];
    write_files(&box);
    run_scene(&box, "scene.yaml", "2026-01-31T12:00:00Z", SIGKILL, first, first_age_s);
    cr_assert(first[0] > 0 && first[1] > 0);
    run_scene(&box, "other.yaml", "2026-01-31T12:00:40Z", SIGTERM, then, age_s);
    cr_expect_eq(then[0], first[0], "%g, not %g", then[0], first[0]);
    cr_expect_float_eq(age_s[0], first_age_s[0] + 40, 1e-6, "%g after %g", age_s[0],
                       first_age_s[0]);
    cr_expect_gt(then[2], 1000, "%g", then[2]);
    box_close(&box);
}
