/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tracks from one start of the daemon to the next, as programs over real sockets. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
}

/* The number and the age in the last window of the confirmed track there; 0: none. */
static void take(const cJSON *head, double number[2], double age_s[2]) {
    const cJSON *t;
    number[0] = number[1] = 0;
    cJSON_ArrayForEach(t, cJSON_GetObjectItem(head, "tracks")) for (int k = 0; k < 2; k++) {
        if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(t, "state")), "confirmed") != 0 ||
            fabs(header_number(t, "az_deg") - (k ? 110 : 60)) > 2)
            continue;
        number[k] = header_number(t, "number");
        age_s[k] = header_number(t, "age_s");
    }
}

/* Starts the daemon, plays the scene from that UTC on, and stops the daemon. */
static void run(const box *box, const char *utc, double number[2], double age_s[2]) {
    char out[128];
    snprintf(out, sizeof out, "ipc://%s/out", box->dir);
    const pid_t daemon = process_start(box, "log", "sonard", box_path(box, "sonard.yaml"), NULL);
    subscriber s = subscribe(out, "tracks", "status", NULL);
    message m;
    cr_assert(receive_ready(&s, "tracks", &m), "%s", box_read(box, "log"));
    message_free(&m);
    const pid_t sim = process_start(box, "sim", "sonar-sim", "-c", box_path(box, "sonard.yaml"),
                                    "-s", box_path(box, "scene.yaml"), "--duration", "30", "--rate",
                                    "max", "--utc", utc, NULL);
    const double last = (SECONDS * FS - 1024) / 1024;
    cr_assert(receive_until(&s, "tracks", "window", last, 120000, &m));
    take(m.head, number, age_s);
    message_free(&m);
    cr_expect_eq(process_wait(sim, 60000), 0);
    kill(daemon, SIGTERM);
    cr_expect_eq(process_wait(daemon, 60000), 0);
    unsubscribe(&s);
}

Test(tracks_restart, numbers_are_kept, .timeout = 600) {
    box box = box_open();
    double first[2], then[2], again[2], first_age_s[2], age_s[2];
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
