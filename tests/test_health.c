/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Every row of the health table in docs/running.md, from counters and a clock that the test sets.
 * Over real sockets: test_daemon.c. */
#include "pipeline/health.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t second = 1000000000;

/* A daemon that is well: every look comes a second after the last. */
typedef struct patient {
    sonar_config config;
    sonar_health health;
    sonar_health_facts facts;
    sonar_status status;
} patient;

static patient *well(void) {
    static patient p;
    memset(&p, 0, sizeof p);
    p.config = (sonar_config){.fs_hz = 8000,
                              .array_id = 5,
                              .channels = 64,
                              .length = 8192,
                              .hop = 4096,
                              .silent_after_ms = 1000};
    p.facts.now_ns = 1000 * second;
    sonar_health_init(&p.health, &p.config);
    return &p;
}

/* Lets a second pass in which frames come, and looks. */
static void look(patient *p) {
    p->facts.now_ns += second;
    p->status.ingest.frames_received += 8;
    p->status.ingest.frames_accepted += 8;
    p->status.ingest.last_frame_ns = p->facts.now_ns;
    p->status.text[0] = '\0';
    sonar_health_judge(&p->health, &p->facts, &p->status);
}

static const sonar_condition *find(const patient *p, sonar_condition_code code) {
    for (size_t i = 0; i < p->status.conditions; i++)
        if (p->status.condition[i].code == code)
            return &p->status.condition[i];
    return NULL;
}

static void expect(const patient *p, const char *health, const char *text) {
    cr_expect_str_eq(p->status.health, health);
    cr_expect_str_eq(p->status.text, text);
}

Test(health, nothing_wrong_is_ok_without_words) {
    patient *p = well();
    for (int i = 0; i < 3; i++)
        look(p), expect(p, "ok", "");
    cr_expect_eq(p->status.conditions, 0);
}

Test(health, waits_for_the_first_frame_and_after_the_last) {
    patient *p = well();
    sonar_health_judge(&p->health, &p->facts, &p->status);
    expect(p, "waiting", "no samples yet");
    look(p), expect(p, "ok", "");
    for (int i = 0; i < 2; i++) {
        p->facts.now_ns += second;
        p->status.text[0] = '\0';
        sonar_health_judge(&p->health, &p->facts, &p->status);
        cr_expect_eq(p->status.waiting_for_samples, i == 1,
                     "silent_after_ms itself is not silence");
    }
    expect(p, "waiting", "no samples for 2.0 s");
    cr_expect_eq(p->status.condition[0].value, 2);
    cr_expect_eq(p->status.condition[0].limit, 1);
}

Test(health, refused_frames_go_by_their_most_frequent_cause) {
    patient *p = well();
    look(p);
    p->status.ingest.frames_dropped[SONAR_FRAME_LATE] += 2;
    p->status.ingest.frames_dropped[SONAR_FRAME_WRONG_RATE] += 3;
    look(p);
    expect(p, "degraded", "5 of 8 frames dropped: wrong_rate 3; fs_hz is 8000");
    cr_expect_eq(find(p, SONAR_CONDITION_FRAMES_DROPPED)->value, 5);
    look(p), expect(p, "ok", "");
}

Test(health, every_loss_of_windows_and_results_is_a_condition_of_its_own) {
    patient *p = well();
    look(p);
    p->status.ingest.windows_dropped[SONAR_WINDOW_OVERLOAD] += 2;
    p->status.ingest.windows_dropped[SONAR_WINDOW_MISSING] += 3;
    p->status.ingest.windows_dropped[SONAR_WINDOW_SKIPPED] += 4;
    p->status.windows_failed += 5;
    p->status.output.results_dropped += 6;
    look(p);
    cr_expect_str_eq(p->status.health, "degraded");
    cr_expect_eq(p->status.conditions, 5);
    cr_expect_eq(p->status.condition[0].code, SONAR_CONDITION_WINDOWS_FAILED, "the worst first");
    cr_expect(strncmp(p->status.text, "5 windows failed; 2 windows dropped: ", 37) == 0, "%s",
              p->status.text);
    look(p), expect(p, "ok", "");
}

Test(health, conditions_tell_how_long_they_hold) {
    patient *p = well();
    for (int i = 0; i < 4; i++) {
        p->status.windows_failed++;
        look(p);
        cr_expect_eq(p->status.condition[0].for_s, i);
    }
    look(p);
    p->status.windows_failed++;
    look(p);
    cr_expect_eq(p->status.condition[0].for_s, 0);
}

Test(health, more_words_than_fit_are_counted) {
    sonar_status status = {0};
    char sentence[150];
    memset(sentence, 'x', sizeof sentence);
    sentence[sizeof sentence - 1] = '\0';
    patient *p = well();
    look(p);
    /* five losses at once, whose sentences do not fit */
    p->status.ingest.windows_dropped[SONAR_WINDOW_OVERLOAD] += 20000000000000000u;
    p->status.ingest.windows_dropped[SONAR_WINDOW_MISSING] += 20000000000000000u;
    p->status.ingest.windows_dropped[SONAR_WINDOW_SKIPPED] += 20000000000000000u;
    p->status.ingest.frames_dropped[SONAR_FRAME_WRONG_CHANNELS] += 20000000000000000u;
    p->status.windows_failed += 20000000000000000u;
    p->status.output.results_dropped += 20000000000000000u;
    look(p);
    cr_expect_lt(strlen(p->status.text), sizeof p->status.text);
    size_t told = 1;
    for (const char *at = p->status.text; (at = strstr(at, "; ")); at++)
        told++;
    const char *rest = strstr(p->status.text, "; and ");
    if (rest)
        cr_expect_eq((size_t)atoi(rest + 6), p->status.conditions - (told - 2), "%s",
                     p->status.text);
    sonar_condition *c = sonar_health_report(&status, SONAR_CONDITION_NO_SAMPLES, SONAR_NOTICE,
                                             "%s %s", sentence, sentence);
    cr_expect_eq(strlen(c->text), sizeof c->text - 1, "a sentence too long is cut");
}

/* ---- channel sets ---------------------------------------------------------------------------- */

Test(channels, neighbours_join_and_print_as_ranges) {
    sonar_channel_set set = {0};
    char text[64];
    cr_expect_str_eq(sonar_channel_set_print(&set, text, sizeof text), "");
    sonar_channel_set_add(&set, 3, 1);
    sonar_channel_set_add(&set, 17, 10);
    sonar_channel_set_add(&set, 27, 5);
    sonar_channel_set_add(&set, 40, 0);
    cr_expect_eq(set.count, 16);
    cr_expect_str_eq(sonar_channel_set_print(&set, text, sizeof text), "3, 17-31");
}

Test(channels, what_does_not_fit_is_counted_and_said) {
    sonar_channel_set set = {0};
    char text[400], little[16];
    for (uint32_t i = 0; i < 100; i++) {
        sonar_channel_set_add(&set, 2 * i, 1);
        cr_expect_eq(set.count, i + 1);
    }
    cr_expect_eq(set.ranges, SONAR_CHANNEL_RANGES_MOST);
    sonar_channel_set_add(&set, 199, 1); /* beside one that was left out */
    cr_expect_eq(set.last[set.ranges - 1], 30);
    sonar_channel_set_print(&set, text, sizeof text);
    cr_expect(strstr(text, "28, 30 and more"), "%s", text);
    for (size_t bytes = sizeof little; bytes > 10; bytes--) {
        memset(little, '#', sizeof little);
        sonar_channel_set_print(&set, little, bytes);
        cr_expect_lt(strlen(little), bytes);
        cr_expect(strstr(little, "and more"), "%s", little);
    }
}
