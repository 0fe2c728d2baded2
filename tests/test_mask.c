/* SPDX-License-Identifier: GPL-3.0-or-later */
/* array.auto_mask in the whole pipeline: once a bad sensor is masked, results are as good as
 * without it, and equal to rounding those of a pipeline that never had it. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fake_device.h"
#include "oracle.h"
#include "spoilt.h"
#include "numerical.h"

enum { SENSORS = SPOILT_SENSORS, SNAPSHOTS = 4 };

/* ---- pipelines that are fed alike ------------------------------------------------------------ */

typedef struct line {
    feed feed;
    subscriber subscriber;
    float azimuth[SPOILT_LOOKS], mvdr[SPOILT_LOOKS]; /* of the last window */
    double sensors_used, mvdr_sensors_used, snapshots, first_sample;
    bool flagged;    /* mask_changed */
    size_t contacts; /* of the MVDR within a degree of the ship */
} line;

static void line_open(line *l, const char *array, const char *mvdr, const struct layout *layout) {
    const spoilt_options options = {array, "ranges_m: []", mvdr, "cpu"};
    sonar_error err = {0};
    cr_assert_eq(spoilt_open(&l->feed, &l->subscriber, &options, NULL, layout,
                             (const sonar_surface[]){SONAR_CBF_AZIMUTH, SONAR_MVDR_AZIMUTH,
                                                     SONAR_DETECTIONS},
                             &err),
                 SONAR_OK, "%s", err.text);
}

static void line_close(line *l) {
    unsubscribe(&l->subscriber);
    feed_close(&l->feed);
}

static void take(line *l, const char *topic, uint64_t window, float *to) {
    message m;
    cr_assert(receive_until(&l->subscriber, topic, "window", (double)window, 60000, &m));
    cr_assert_eq(header_number(m.head, "window"), (double)window);
    cr_assert_eq(m.count, SPOILT_LOOKS);
    memcpy(to, m.data, sizeof l->azimuth);
    char *head = cJSON_PrintUnformatted(m.head);
    l->flagged = strstr(head, "\"mask_changed\"") != NULL;
    *(to == l->mvdr ? &l->mvdr_sensors_used : &l->sensors_used) =
        header_number(m.head, "sensors_used");
    l->snapshots = header_number(m.head, "snapshots");
    l->first_sample = header_number(m.head, "first_sample");
    free(head);
    message_free(&m);
}

static void take_contacts(line *l, uint64_t window) {
    message m;
    const cJSON *item;
    cr_assert(receive_until(&l->subscriber, "detections", "window", (double)window, 60000, &m));
    l->contacts = 0;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(m.head, "detections")) {
        const cJSON *source = cJSON_GetObjectItemCaseSensitive(item, "source");
        l->contacts += strcmp(source->valuestring, "mvdr") == 0 &&
                       fabs(header_number(item, "az_deg") - SPOILT_SHIP_DEG) < 1;
    }
    message_free(&m);
}

/* A second for all of them: one window each, the bad sensor dead or not, and a tick. */
static void play(line *const *lines, size_t count, uint64_t window, bool dead) {
    for (size_t i = 0; i < count; i++) {
        spoilt_second(&lines[i]->feed, dead);
        take(lines[i], "cbf.azimuth", window, lines[i]->azimuth);
        take(lines[i], "mvdr.azimuth", window, lines[i]->mvdr);
        take_contacts(lines[i], window);
        cr_assert(feed_settle(&lines[i]->feed));
        cr_assert_eq(sonar_pipeline_tick(lines[i]->feed.pipeline, NULL), SONAR_OK);
    }
}

static double peak_db(const float *power) {
    return 10 * log10((double)power[SPOILT_SHIP_DEG]);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* The sensor is dead until it is masked, and then good until it has been back for a block. In
 * `hand` it is masked from the start; `sound` gets samples without the fault. */
static void go_out_and_come_back(const char *mvdr, const struct layout *layout, double tolerance_db,
                                 bool block) {
    static line automatic, hand, sound;
    uint64_t window = 0;
    line_open(&automatic, "auto_mask: true", mvdr, layout);
    line_open(&hand, "mask: [5]", mvdr, layout);
    line_open(&sound, "auto_mask: false", mvdr, layout);
    line *const spoiled[] = {&automatic, &hand}, *const good[] = {&sound};
    while (automatic.sensors_used != SENSORS - 1 && window < 20) {
        play(spoiled, 2, window, true);
        play(good, 1, window++, false);
        if (automatic.sensors_used == SENSORS)
            cr_expect(!automatic.flagged);
    }
    cr_assert(automatic.flagged, "the first window without it says so");
    bool mirrors = strstr(mvdr, "forward_backward") != NULL;
    cr_expect_eq(automatic.mvdr_sensors_used, SENSORS - 1 - mirrors);
    cr_assert_geq(window, SONAR_ELEMENTS_OUT_ROUNDS);
    for (int i = 0; i < 3; i++) {
        cr_expect_lt(oracle_worst_db(SPOILT_LOOKS, automatic.azimuth, hand.azimuth), 1e-4);
        cr_expect_lt(oracle_worst_db(SPOILT_LOOKS, automatic.mvdr, hand.mvdr), tolerance_db,
                     "%g dB at window %d", oracle_worst_db(SPOILT_LOOKS, automatic.mvdr, hand.mvdr),
                     (int)window);
        play(spoiled, 2, window, true);
        play(good, 1, window++, false);
        cr_expect(!automatic.flagged);
    }
    while (automatic.sensors_used != SENSORS && window < 99) {
        play(spoiled, 2, window, false);
        play(good, 1, window++, false);
    }
    cr_assert(automatic.flagged);
    cr_expect_eq(automatic.mvdr_sensors_used, SENSORS);
    cr_expect_eq(automatic.snapshots, 1, "the covariance restarts, and says so");
    cr_expect_eq(automatic.first_sample, (double)(window - 1) * SPOILT_FS);
    for (int i = 1; i < (block ? SNAPSHOTS : 60); i++) {
        cr_expect_lt(oracle_worst_db(SPOILT_LOOKS, automatic.azimuth, sound.azimuth), 1e-4);
        play(spoiled, 2, window, false);
        play(good, 1, window++, false);
    }
    cr_expect_lt(oracle_worst_db(SPOILT_LOOKS, automatic.mvdr, sound.mvdr), tolerance_db,
                 "%g dB when renewed", oracle_worst_db(SPOILT_LOOKS, automatic.mvdr, sound.mvdr));
    line_close(&automatic);
    line_close(&hand);
    line_close(&sound);
}

Test(mask, a_block_is_right_at_once_without_a_sensor_and_when_renewed_with_it) {
    go_out_and_come_back("snapshots: 4", NULL, 1e-3, true);
}

Test(mask, an_average_that_forgets_is_too, NUMERICAL) {
    go_out_and_come_back("forgetting: 0.8", NULL, 1e-2, false);
}

Test(mask, mirrors_go_with_their_sensors, NUMERICAL) {
    go_out_and_come_back("snapshots: 4, forward_backward: true", NULL, 1e-3, true);
}

/* Recorded graphs hold the old mask. */
Test(mask, a_device_with_graphs_follows_too) {
    fake = (struct fake_device){0};
    const struct layout layout = feed_layout(fake_backend(FAKE_LAZY | FAKE_GRAPHS));
    go_out_and_come_back("snapshots: 4", &layout, 1e-3, true);
    cr_expect_gt(fake.graphs_run, 0);
    cr_expect_eq(fake.faults, 0);
}

/* A dead hydrophone makes the MVDR lose the level and the contact; without it both are as with
 * twelve good ones. */
Test(mask, what_a_dead_sensor_costs_comes_back, NUMERICAL) {
    static line off, on, sound;
    const char *mvdr = "snapshots: 60";
    line_open(&off, "auto_mask: false", mvdr, NULL);
    line_open(&on, "auto_mask: true", mvdr, NULL);
    line_open(&sound, "mask: []", mvdr, NULL);
    line *const spoiled[] = {&off, &on}, *const good[] = {&sound};
    for (uint64_t window = 0; window < 40; window++) {
        play(spoiled, 2, window, true);
        play(good, 1, window, false);
    }
    cr_log_info("MVDR at the ship: dead %.2f, out %.2f, sound %.2f dB", peak_db(off.mvdr),
                peak_db(on.mvdr), peak_db(sound.mvdr));
    cr_expect_eq(off.sensors_used, SENSORS);
    cr_expect_eq(on.sensors_used, SENSORS - 1);
    cr_expect_lt(peak_db(off.mvdr), peak_db(sound.mvdr) - 3);
    cr_expect_float_eq(peak_db(on.mvdr), peak_db(sound.mvdr), 0.5);
    cr_expect_eq(off.contacts, 0);
    cr_expect_eq(on.contacts, 1);
    cr_expect_eq(sound.contacts, 1);
    line_close(&off);
    line_close(&on);
    line_close(&sound);
}
