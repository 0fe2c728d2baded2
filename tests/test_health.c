/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Every row of the health table in docs/running.md, from counters and a clock that the test sets.
 * Over real sockets: test_daemon.c. */
#include "core/random.h"
#include "health/health.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t second = 1000000000;

enum { CHANNELS = 64, FS_HZ = 8000, HOP = 4096, LENGTH = 8192, FRAME = 512, LINES = 40 };

/* A digitiser: half of the array, or all of it. */
typedef struct block {
    double hz;         /* samples a second that it makes */
    double delay_s;    /* on the way */
    double clock_s;    /* by which its clock is ahead */
    bool no_utc, dead; /* dead: sends nothing */
    bool replay;
    int64_t begun_ns, unit_ns; /* unit_ns: of its UTC */
} block;

/* A healthy daemon, judged once a second. */
typedef struct patient {
    sonar_config config;
    sonar_health health;
    sonar_health_facts facts;
    sonar_ingest_report stream;
    sonar_status status;
    sonar_host host;
    block block[2];
    double window_s; /* since the last window */
    size_t lines;
    char line[LINES][600]; /* of the log */
    sonar_level level[LINES];
} patient;

static void keep_line(void *ctx, sonar_level level, const char *where, const char *text) {
    patient *p = ctx;
    char place[64] = "health";
    if (level == SONAR_WARN) /* the code of the worst condition is logged with it */
        snprintf(place, sizeof place, "health.%s",
                 sonar_condition_name(p->status.condition[0].code));
    cr_assert_str_eq(where, place);
    cr_assert_lt(p->lines, LINES);
    p->level[p->lines] = level;
    snprintf(p->line[p->lines++], sizeof p->line[0], "%s", text);
}

static patient *patient_of(size_t blocks) {
    static patient p;
    memset(&p, 0, sizeof p);
    p.config = (sonar_config){.fs_hz = FS_HZ,
                              .array_id = 5,
                              .channels = CHANNELS,
                              .specs.window_length = LENGTH,
                              .specs.hop = HOP,
                              .max_skew_ms = 250,
                              .silent_after_ms = 1000};
    p.facts = (sonar_health_facts){
        .now_ns = 1000 * second, .utc_now_ns = 1800000000 * second, .stream = &p.stream};
    p.host = (sonar_host){.ctx = &p, .log = keep_line};
    p.stream.blocks = blocks;
    for (uint32_t i = 0; i < blocks; i++) {
        p.stream.block[i].first_channel = i * CHANNELS / 2;
        p.stream.block[i].channels = CHANNELS / (uint32_t)blocks;
        p.block[i] =
            (block){.hz = FS_HZ, .delay_s = 0.01, .begun_ns = p.facts.now_ns, .unit_ns = 1};
    }
    sonar_health_init(&p.health, &p.config);
    return &p;
}

static patient *well(void) {
    return patient_of(1);
}

static void judge(patient *p) {
    sonar_health_judge(&p->health, &p->host, &p->facts, &p->status);
}

/* The newest frame of a block that had come at `now`, by its own count of samples. */
static void run_block(patient *p, size_t i) {
    sonar_block_report *r = &p->stream.block[i];
    const block *b = &p->block[i];
    int64_t now_ns = p->facts.now_ns;
    double made_s = (double)(now_ns - b->begun_ns) * 1e-9 - b->delay_s;
    if (b->dead || made_s < 0)
        return;
    r->samples = r->step_over = FRAME;
    r->replay = b->replay;
    r->step = FRAME;
    r->heard_ns = r->end_ns = now_ns;
    r->end_sample = (uint64_t)(made_s * b->hz);
    int64_t utc_ns = p->facts.utc_now_ns + (int64_t)((b->clock_s - b->delay_s) * 1e9);
    r->utc_ns = b->no_utc ? 0 : (utc_ns - (int64_t)FRAME * second / FS_HZ) / b->unit_ns;
    r->end_utc_ns = b->no_utc ? 0 : r->utc_ns + (int64_t)FRAME * second / FS_HZ;
    if (!r->frames) {
        r->begin_ns = now_ns;
        r->begin_sample = r->end_sample;
    }
    r->frames += 8;
}

static void run_windows(patient *p) {
    sonar_ingest_counters *in = &p->status.ingest;
    p->stream.newest_sample = p->stream.block[0].end_sample;
    while (p->stream.window_sample + p->config.specs.window_length <= p->stream.newest_sample) {
        p->stream.window_sample += p->config.specs.hop;
        p->stream.decided_ns = p->facts.now_ns;
        in->windows_offered++, in->windows_taken++, p->status.windows_processed++;
    }
}

/* Advances a second in which frames come, and judges. */
static void look(patient *p) {
    p->facts.now_ns += second;
    p->facts.utc_now_ns += second;
    if (!p->stream.timeline) {
        p->stream.timeline = 1;
        p->stream.adopted_ns = p->facts.now_ns;
    }
    p->stream.made_ns = p->facts.now_ns;
    for (size_t i = 0; i < p->stream.blocks; i++)
        run_block(p, i);
    run_windows(p);
    p->status.ingest.frames_received += 8;
    p->status.ingest.frames_accepted += 8;
    p->status.ingest.samples_stored += 8 * FRAME * CHANNELS;
    p->status.ingest.last_frame_ns = p->facts.now_ns;
    judge(p);
}

static void look_for(patient *p, int seconds) {
    while (seconds--)
        look(p);
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
    judge(p);
    expect(p, "waiting", "no samples yet");
    look(p), expect(p, "ok", "");
    for (int i = 0; i < 2; i++) {
        p->facts.now_ns += second, p->facts.utc_now_ns += second;
        judge(p);
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

Test(health, the_last_refused_frame_is_reported_where_it_is_new) {
    static const struct {
        sonar_frame_cause cause;
        const char *text;
    } row[] = {{SONAR_FRAME_WRONG_RATE, "wrong_rate 1; fs_hz is 8000, channels 16-23 have 8000.01"},
               {SONAR_FRAME_WRONG_ARRAY, "wrong_array 1; array.id is 5, channels 16-23 have 7"},
               {SONAR_FRAME_WRONG_CHANNELS,
                "wrong_channels 1; the array has 64 channels, channels 16-23 came"},
               {SONAR_FRAME_LATE, "late 1, the last of channels 16-23"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        patient *p = well();
        char text[160];
        look(p);
        p->status.ingest.frames_dropped[row[i].cause]++;
        p->stream.refused[row[i].cause] = (sonar_refused){.at_ns = p->facts.now_ns + 1,
                                                          .first_channel = 16,
                                                          .channels = 8,
                                                          .array_id = 7,
                                                          .fs_hz = 8000.01};
        look(p);
        snprintf(text, sizeof text, "1 of 8 frames dropped: %s", row[i].text);
        expect(p, "degraded", text);
        p->status.ingest.frames_dropped[row[i].cause]++; /* of another block, on another rank */
        look(p);
        cr_expect(!strstr(p->status.text, "16-23"), "%s", p->status.text);
    }
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

/* ---- rate and index -------------------------------------------------------------------------- */

Test(health, a_feed_at_twice_the_rate_is_reported_as_such) {
    patient *p = well();
    p->block[0].hz = 2 * FS_HZ;
    look_for(p, 5);
    expect(p, "degraded", "samples arrive at 16000/s, fs_hz is 8000");
    const sonar_condition *c = find(p, SONAR_CONDITION_RATE);
    cr_expect_float_eq(c->value, 16000, 1);
    cr_expect_eq(c->limit, 8000);
    cr_expect_eq(c->channels.count, CHANNELS);
    cr_expect_float_eq(p->status.stream.rate_hz, 16000, 1);
}

Test(health, a_recording_may_come_faster_where_nothing_is_lost_by_it) {
    patient *p = well();
    p->config.overload = SONAR_BLOCK;
    p->block[0].hz = 2 * FS_HZ;
    look_for(p, 5);
    expect(p, "ok", "samples arrive at 16000/s, fs_hz is 8000");
    cr_expect_eq(find(p, SONAR_CONDITION_RATE)->severity, SONAR_NOTICE);
}

Test(health, a_feed_that_computing_holds_back_is_reported_as_such) {
    patient *p = well();
    p->config.overload = SONAR_BLOCK;
    p->block[0].hz = FS_HZ / 2, p->block[0].no_utc = true;
    look_for(p, 3);
    p->status.ingest.frames_held++;
    look(p);
    cr_expect_str_eq(find(p, SONAR_CONDITION_RATE)->text,
                     "samples arrive at 4000/s, fs_hz is 8000: computing is too slow and holds "
                     "them back");
    cr_expect_str_eq(p->status.health, "degraded");
}

Test(health, a_rate_off_by_more_than_a_hundredth_is_found_within_a_minute) {
    const double hz[] = {44100, 48000, 8192, 8090, 7910, 4000};
    for (size_t i = 0; i < sizeof hz / sizeof *hz; i++) {
        patient *p = well();
        p->block[0].hz = hz[i], p->block[0].no_utc = true;
        look_for(p, 80);
        cr_expect(find(p, SONAR_CONDITION_RATE), "%g of 8000", hz[i]);
        cr_expect_str_eq(p->status.health, "degraded");
    }
}

Test(health, a_rate_off_by_less_is_a_clock_as_clocks_are) {
    const double hz[] = {8000, 8070, 7930};
    for (size_t i = 0; i < sizeof hz / sizeof *hz; i++) {
        patient *p = well();
        p->block[0].hz = hz[i], p->block[0].no_utc = true;
        for (int s = 0; s < 200; s++) {
            look(p);
            cr_assert(!find(p, SONAR_CONDITION_RATE), "%g of 8000 after %d s", hz[i], s);
            cr_assert(!find(p, SONAR_CONDITION_SAMPLES_LATE), "%g of 8000 after %d s", hz[i], s);
        }
    }
}

Test(health, jitter_and_queues_at_the_start_are_no_rate) {
    patient *p = well();
    uint64_t seed = 1;
    p->block[0].begun_ns -= 60 * second; /* a minute waited in the digitiser's queue */
    for (int s = 0; s < 200; s++) {
        p->block[0].delay_s = 0.4 * sonar_random_uniform(&seed);
        look(p);
        cr_assert_str_eq(p->status.text, "", "after %d s", s);
    }
}

Test(health, one_block_of_two_at_a_wrong_rate_is_named_by_its_channels) {
    patient *p = patient_of(2);
    p->block[1].hz = 4000;
    look_for(p, 5);
    const sonar_condition *c = find(p, SONAR_CONDITION_RATE);
    cr_expect_str_eq(c->text, "samples of channels 32-63 arrive at 4000/s, fs_hz is 8000");
    cr_expect_eq(c->channels.count, 32);
    cr_expect_eq(c->channels.first[0], 32);
    cr_expect_float_eq(c->value, 4000, 1);
}

Test(health, a_rate_that_is_right_again_is_forgotten_soon) {
    patient *p = well();
    look_for(p, 100);
    p->block[0].no_utc = true;
    p->block[0].hz = 1; /* from the beginning: the count hardly increases */
    p->stream.block[0].end_sample = 0;
    p->stream.timeline++;
    p->stream.block[0].frames = 0, p->block[0].begun_ns = p->facts.now_ns;
    look_for(p, 10);
    cr_expect(find(p, SONAR_CONDITION_RATE));
    cr_expect(find(p, SONAR_CONDITION_WINDOWS_STALLED));
    /* continues at the right rate where it stopped */
    p->block[0].hz = FS_HZ;
    p->block[0].begun_ns = p->facts.now_ns;
    look_for(p, 12);
    cr_expect(!find(p, SONAR_CONDITION_RATE), "%s", p->status.text);
}

Test(health, too_many_samples_are_not_called_too_slow_a_computer) {
    patient *p = well();
    look(p);
    p->status.ingest.samples_stored += 9 * 8 * FRAME * CHANNELS;
    p->status.ingest.windows_dropped[SONAR_WINDOW_OVERLOAD] += 7;
    look(p); /* 80 frames of 512, less one */
    expect(p, "degraded",
           "samples arrive at 40400/s, fs_hz is 8000; "
           "7 windows dropped: samples arrive at 40400/s, fs_hz is 8000");
    p->status.ingest.samples_stored += 9 * 8 * FRAME * CHANNELS;
    p->status.ingest.frames_dropped[SONAR_FRAME_OVERRUN] += 7;
    p->status.ingest.restarts++;
    look(p);
    cr_expect_eq(p->status.condition[0].code, SONAR_CONDITION_RATE, "%s", p->status.text);
    p = well();
    look(p);
    p->status.ingest.windows_dropped[SONAR_WINDOW_OVERLOAD] += 7;
    look(p);
    cr_expect_str_eq(p->status.text, "7 windows dropped: computing is too slow");
}

Test(health, the_clock_of_a_flood_runs_ahead_by_itself) {
    patient *p = well();
    p->config.overload = SONAR_BLOCK;
    p->block[0].hz = 2 * FS_HZ;
    for (int s = 0; s < 20; s++) {
        p->block[0].clock_s = s;
        p->status.ingest.samples_stored += 9 * 8 * FRAME * CHANNELS;
        look(p);
        cr_expect_str_eq(p->status.health, "ok", "%s", p->status.text);
    }
}

Test(health, an_index_that_counts_frames_is_reported_first) {
    patient *p = well();
    p->block[0].hz = FS_HZ / FRAME; /* one sample a frame */
    for (int s = 0; s < 20; s++) {
        p->status.ingest.index_jumps += 8;
        p->status.ingest.samples_repeated += 8 * (FRAME - 1) * CHANNELS;
        p->status.ingest.samples_stored -= 8 * (FRAME - 1) * CHANNELS;
        look(p);
        p->stream.block[0].step = 1;
    }
    p->status.ingest.index_jumps += 8;
    judge(p);
    cr_expect_eq(p->status.condition[0].code, SONAR_CONDITION_SAMPLE_INDEX);
    cr_expect_str_eq(p->status.condition[0].text,
                     "the sample index moves on by 1 for each frame of 512 samples");
    cr_expect(find(p, SONAR_CONDITION_RATE), "it is the rate, too: %s", p->status.text);
    cr_expect(find(p, SONAR_CONDITION_WINDOWS_STALLED), "and no window comes");
}

Test(health, samples_that_came_before_are_reported) {
    patient *p = well();
    look(p);
    p->status.ingest.samples_repeated += 4 * FRAME * CHANNELS;
    p->status.ingest.samples_stored -= 4 * FRAME * CHANNELS;
    look(p);
    expect(p, "degraded", "50 % of the samples had been received before: frames or blocks overlap");
    look(p), expect(p, "ok", "");
}

/* ---- present channels and blocks ------------------------------------------------------------- */

Test(health, channels_that_are_never_fed_are_listed) {
    patient *p = well();
    sonar_channel_set_add(&p->stream.unfed, 17, 1);
    look(p), expect(p, "ok", "");
    look(p);
    expect(p, "degraded", "1 of 64 channels were never fed: 17");
    const sonar_condition *c = find(p, SONAR_CONDITION_CHANNELS_UNFED);
    cr_expect_eq(c->value, 1);
    cr_expect(c->channels.count == 1 && c->channels.first[0] == 17 && c->channels.last[0] == 17);
    p->stream.unfed = (sonar_channel_set){0};
    look(p), expect(p, "ok", "");
}

Test(health, an_incomplete_window_names_at_once_the_channels_never_fed) {
    patient *p = well();
    sonar_channel_set_add(&p->stream.unfed, 17, 1);
    p->stream.samples_missing = 5;
    look(p), expect(p, "degraded", "1 of 64 channels were never fed: 17");
}

Test(health, channels_that_lack_samples_are_listed_with_the_worst_share) {
    patient *p = well();
    look(p);
    sonar_channel_set_add(&p->stream.lacking, 3, 2);
    p->stream.lacking_share = 0.125;
    p->stream.samples_missing += 1024;
    look(p);
    expect(p, "degraded", "windows lack up to 12.5 % of the samples of 2 of 64 channels: 3-4");
    p->stream.lacking = (sonar_channel_set){0};
    look(p), expect(p, "ok", "");
}

Test(health, a_loss_lasts_until_a_window_comes_without) {
    patient *p = well();
    p->config.specs.hop = p->config.specs.window_length =
        100 * FS_HZ; /* in this test none is due by itself */
    look(p);
    p->status.ingest.windows_dropped[SONAR_WINDOW_MISSING]++;
    for (int s = 0; s < 5; s++) {
        look(p);
        expect(p, "degraded", "1 windows dropped: too many samples missing");
        cr_expect_eq(p->status.condition[0].for_s, s);
    }
    p->status.ingest.windows_offered++, p->status.ingest.windows_taken++;
    look(p), expect(p, "ok", "");
}

Test(health, silent_blocks_are_listed_by_channel) {
    patient *p = patient_of(2);
    look_for(p, 3);
    expect(p, "ok", "");
    p->block[1].dead = true;
    look(p);
    cr_expect_str_eq(find(p, SONAR_CONDITION_BLOCKS_SILENT)->text,
                     "1 of 2 channel blocks silent: channels 32-63");
    cr_expect_str_eq(p->status.health, "degraded");
}

/* Faults of a block's samples end when no samples come. */
Test(health, a_block_that_falls_silent_is_reported_alone) {
    patient *p = patient_of(2);
    p->block[1].clock_s = -90;
    p->block[1].hz = 0.9 * FS_HZ;
    look_for(p, 20);
    cr_assert(find(p, SONAR_CONDITION_RATE));
    cr_assert(find(p, SONAR_CONDITION_CLOCK_OFFSET));
    p->block[1].dead = true;
    look_for(p, 3);
    expect(p, "degraded", "1 of 2 channel blocks silent: channels 32-63");
    cr_expect_eq(p->status.conditions, 1);
    p->block[1].dead = false;
    look(p);
    cr_expect(find(p, SONAR_CONDITION_CLOCK_OFFSET));
}

/* Neither as silent nor because of its earlier clock. */
Test(health, a_block_that_has_passed_is_not_reported) {
    patient *p = patient_of(2);
    p->block[1].clock_s = -90;
    look_for(p, 3);
    cr_assert(find(p, SONAR_CONDITION_CLOCK_SKEW));
    p->block[1].dead = true;
    p->stream.block[1] = (sonar_block_report){.first_channel = 32, .channels = 32, .passed = true};
    look_for(p, 3);
    expect(p, "ok", "");
    cr_expect_eq(p->status.block_clocks, 1);
}

Test(health, a_block_far_behind_is_reported_with_what_is_allowed) {
    patient *p = patient_of(2);
    p->block[0].delay_s = 1; /* the first block: the order of blocks does not matter */
    look_for(p, 5);
    const sonar_condition *c = find(p, SONAR_CONDITION_BLOCKS_APART);
    cr_assert(c, "%s", p->status.text);
    cr_expect_str_eq(c->text,
                     "samples of channels 0-31 lag 0.99 s behind the newest, max_skew_ms is 250");
    cr_expect_float_eq(p->status.stream.block_skew_s, 0.99, 1e-3);
    p = patient_of(2);
    p->block[1].delay_s = 0.3; /* max_skew and a frame are more */
    look_for(p, 5), expect(p, "ok", "");
}

Test(health, windows_that_never_complete_are_reported_with_the_reason) {
    patient *p = well();
    look_for(p, 3);
    p->stream.window_sample = p->stream.newest_sample; /* a window that never ends */
    p->config.specs.window_length = 1 << 20;
    for (int s = 0; s < 10; s++)
        p->stream.window_sample = p->stream.newest_sample, look(p);
    const sonar_condition *c = find(p, SONAR_CONDITION_WINDOWS_STALLED);
    cr_assert(c);
    cr_expect_str_eq(c->text,
                     "no window for 10.0 s: 8000 of the next window's 1048576 samples have "
                     "been received");
    sonar_channel_set_add(&p->stream.awaited, 5, 3);
    p->stream.window_sample = p->stream.newest_sample, look(p);
    c = find(p, SONAR_CONDITION_WINDOWS_STALLED);
    cr_expect_str_eq(c->text, "no window for 11.0 s: it waits for channels 5-7");
    cr_expect_eq(c->channels.count, 3);
}

Test(health, the_first_of_long_windows_takes_its_time) {
    patient *p = well();
    p->config.specs.window_length = 60 * FS_HZ, p->config.specs.hop = 30 * FS_HZ;
    p->block[0].hz = FS_HZ / 2;
    for (int s = 0; s <= 92; s++) { /* a window, a hop, max_skew and 2 s since the first frame */
        look(p);
        cr_assert(!find(p, SONAR_CONDITION_WINDOWS_STALLED), "after %d s", s);
    }
    look(p);
    cr_assert(find(p, SONAR_CONDITION_WINDOWS_STALLED));
    cr_expect_float_eq(find(p, SONAR_CONDITION_WINDOWS_STALLED)->limit, 92.25, 1e-9);
    look_for(p, 30);
    cr_expect(!find(p, SONAR_CONDITION_WINDOWS_STALLED), "it has come");
}

/* ---- clocks ---------------------------------------------------------------------------------- */

Test(health, utc_in_another_unit_is_named) {
    const struct {
        int64_t factor;
        const char *name;
    } unit[] = {{1000, "microseconds"}, {1000000, "milliseconds"}, {1000000000, "seconds"}};
    for (int i = 0; i < 3; i++) {
        patient *p = well();
        char text[100];
        p->block[0].unit_ns = unit[i].factor;
        look_for(p, 5);
        snprintf(text, sizeof text, "UTC seems to be in %s: it must be in ns since 1970",
                 unit[i].name);
        const sonar_condition *c = find(p, SONAR_CONDITION_CLOCK_UNIT);
        cr_assert(c, "%s: %s", unit[i].name, p->status.text);
        cr_expect_str_eq(c->text, text);
        cr_expect(!find(p, SONAR_CONDITION_SAMPLES_LATE), "%s", p->status.text);
    }
}

Test(health, a_clock_an_hour_off_is_reported_in_both_directions) {
    patient *p = well();
    p->block[0].clock_s = -3600;
    look_for(p, 3);
    expect(p, "degraded", "UTC is 1.00 h behind this machine's clock");
    cr_expect_float_eq(p->status.stream.clock_offset_s, 3600.01, 1e-3);
    cr_expect_eq(p->status.condition[0].channels.count, CHANNELS);
    p->block[0].clock_s = 3600;
    look_for(p, 3);
    expect(p, "degraded", "UTC is 1.00 h ahead of this machine's clock");
    p->block[0].clock_s = 0;
    look_for(p, 40000), expect(p, "ok", "");
}

Test(health, each_digitisers_clock_is_judged_by_itself) {
    patient *p = patient_of(2);
    p->block[0].clock_s = 7200;
    p->block[1].unit_ns = 1000;
    look_for(p, 3);
    const sonar_condition *c = find(p, SONAR_CONDITION_CLOCK_UNIT);
    cr_expect_str_eq(c->text, "UTC of channels 32-63 seems to be in microseconds: it must be in "
                              "ns since 1970");
    c = find(p, SONAR_CONDITION_CLOCK_OFFSET);
    cr_expect_str_eq(c->text, "UTC of channels 0-31 is 2.00 h ahead of this machine's clock");
}

Test(health, the_time_of_an_old_recording_is_worth_a_notice) {
    patient *p = well();
    p->config.overload = SONAR_BLOCK;
    p->block[0].clock_s = -100 * 86400.;
    look_for(p, 3);
    expect(p, "ok", "UTC is 100.0 days behind this machine's clock");
    p->config.overload = SONAR_DROP_OLDEST;
    look(p), expect(p, "degraded", "UTC is 100.0 days behind this machine's clock");
}

/* Its date is the recording's, and its pace follows --rate. */
Test(health, a_replay_is_not_judged_by_the_clock) {
    const double behind_s[] = {-30, 5, 3600, 100 * 86400.}, hz[] = {FS_HZ, FS_HZ / 2, 4 * FS_HZ};
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 3; k++) {
            patient *p = well();
            p->block[0].replay = true;
            p->block[0].clock_s = -behind_s[i];
            p->block[0].hz = hz[k];
            look_for(p, 70);
            expect(p, "ok",
                   i < 2    ? "a recording is played"
                   : i == 2 ? "a recording, 1.00 h old, is played"
                            : "a recording, 100.0 days old, is played");
            cr_expect_float_eq(find(p, SONAR_CONDITION_REPLAY)->value, behind_s[i], 0.1);
            p->block[0].replay = false; /* a digitiser of the same clock */
            look(p);
            cr_expect(!find(p, SONAR_CONDITION_REPLAY));
            cr_expect_str_eq(p->status.health, "degraded", "%g s behind at %g Hz", behind_s[i],
                             hz[k]);
        }
    patient *p = well();
    p->block[0].replay = p->block[0].no_utc = true;
    look_for(p, 3);
    expect(p, "ok", "a recording is played");
    p->block[0].dead = true;
    look_for(p, 3);
    cr_expect(!find(p, SONAR_CONDITION_REPLAY), "no samples come");
}

Test(health, a_replay_beside_a_digitiser_is_reported_by_channel) {
    patient *p = patient_of(2);
    p->block[1].replay = true;
    look_for(p, 3);
    expect(p, "ok", "a recording of channels 32-63 is played");
}

Test(health, recordings_with_names_of_the_future_are_worth_a_notice) {
    patient *p = well();
    look_for(p, 3), expect(p, "ok", "");
    p->status.record.counters.future = 3;
    look(p),
        expect(p, "ok",
               "3 recorded segments have names later than the clock: the clock was wrong when they "
               "were made, or is wrong now");
    cr_expect_eq(find(p, SONAR_CONDITION_RECORDING_CLOCK)->value, 3);
    p->status.record.counters.future = 0;
    look(p), expect(p, "ok", "");
}

Test(health, digitisers_whose_clocks_differ_are_reported_by_channel) {
    patient *p = patient_of(2);
    p->block[1].clock_s = 5;
    look_for(p, 3);
    const sonar_condition *c = find(p, SONAR_CONDITION_CLOCK_SKEW);
    cr_assert(c, "%s", p->status.text);
    cr_expect_str_eq(c->text, "UTC of channels 32-63 is 5.0 s ahead of that of channel 0 for the "
                              "same sample index");
    cr_expect_float_eq(c->value, 5, 1e-3);
    p->block[1].clock_s = 0.09;
    p->block[1].delay_s = 0.2; /* no matter how long they take */
    look_for(p, 100), expect(p, "ok", "");
    cr_expect_float_eq(p->status.stream.clock_skew_s, 0.09, 2e-4);
}

Test(health, a_clock_that_jumps_is_reported_once_by_channel) {
    patient *p = patient_of(2);
    look_for(p, 5), expect(p, "ok", "");
    p->block[0].clock_s = p->block[1].clock_s = -0.9; /* a leap second, within what ages allow */
    look(p);
    expect(p, "degraded", "UTC has jumped back by 0.9 s against the sample index");
    cr_expect_float_eq(find(p, SONAR_CONDITION_CLOCK_STEPPED)->value, -0.9, 1e-3);
    look(p), expect(p, "ok", "");
    p->block[1].clock_s += 0.22;
    look(p);
    const sonar_condition *c = find(p, SONAR_CONDITION_CLOCK_STEPPED);
    cr_assert(c, "%s", p->status.text);
    cr_expect_str_eq(c->text, "UTC of channels 32-63 has jumped forward by 0.2 s against the "
                              "sample index");
    p->block[1].clock_s -= 0.22;
    look_for(p, 2), expect(p, "ok", "");
    p->block[0].clock_s += 0.09;
    look_for(p, 1);
    cr_expect(!find(p, SONAR_CONDITION_CLOCK_STEPPED), "%s", p->status.text);
    p->block[0].no_utc = true; /* it forgets the time, and knows it again */
    look_for(p, 3), expect(p, "ok", "");
    p->block[0].no_utc = false;
    look_for(p, 3);
    cr_expect(!find(p, SONAR_CONDITION_CLOCK_STEPPED), "%s", p->status.text);
}

Test(health, each_digitisers_clock_is_reported) {
    patient *p = patient_of(2);
    p->block[1].clock_s = 0.05;
    look_for(p, 5), expect(p, "ok", "");
    cr_assert_eq(p->status.block_clocks, 2);
    const sonar_block_clock *c = p->status.block_clock;
    cr_expect(c[0].first_channel == 0 && c[1].first_channel == 32 && c[1].channels == 32);
    cr_expect_float_eq(c[0].age_s, 0.01, 1e-3);
    cr_expect_float_eq(c[1].age_s, -0.04, 1e-3);
    cr_expect_float_eq(c[1].offset_s, -0.04, 1e-3);
    cr_expect_eq(c[0].skew_s, 0);
    cr_expect_float_eq(c[1].skew_s, 0.05, 1e-3);
    p->block[1].no_utc = true;
    look(p);
    cr_expect(isnan(p->status.block_clock[1].age_s) && isnan(p->status.block_clock[1].skew_s) &&
              isnan(p->status.block_clock[1].offset_s));
}

/* ---- towed arrays ---------------------------------------------------------------------------- */

Test(health, a_towed_array_whose_place_is_unknown_is_named) {
    patient *p = well();
    sonar_tow *tow = &p->status.navigation.tow;
    p->status.navigation =
        (sonar_navigation){.asked = true, .fresh = true, .age_s = 0.1, .source = "nmea"};
    *tow = (sonar_tow){.state = SONAR_TOW_KNOWN, .seen_m = 900, .reach_m = 300};
    look(p), expect(p, "ok", "");
    tow->over_ground = true;
    look(p);
    expect(p, "ok",
           "the towed array follows the speed over ground: none through the water (VHW) "
           "comes");
    *tow = (sonar_tow){.state = SONAR_TOW_SHORT, .seen_m = 120, .reach_m = 300};
    look(p);
    expect(p, "degraded",
           "the towed array is taken as straight: of the 300 m of path to its end "
           "120 m are known");
    const sonar_condition *c = find(p, SONAR_CONDITION_TOW_UNKNOWN);
    cr_expect(c->value == 120 && c->limit == 300);
    tow->state = SONAR_TOW_NO_SPEED;
    look(p);
    expect(p, "degraded",
           "the towed array is taken as straight behind the ship: no speed of the ship comes");
    tow->state = SONAR_TOW_NO_HEADING;
    look(p);
    expect(p, "degraded",
           "the towed array is taken as straight behind the ship: the ship has no "
           "heading, or one that no ship can turn to");
    tow->state = SONAR_TOW_NONE;
    look(p), expect(p, "ok", "");
}

Test(health, silent_compasses_of_a_towed_array_are_named) {
    patient *p = well();
    sonar_tow *tow = &p->status.navigation.tow;
    *tow = (sonar_tow){.state = SONAR_TOW_KNOWN, .compasses = 4};
    look(p), expect(p, "ok", "");
    *tow = (sonar_tow){.state = SONAR_TOW_KNOWN, .compasses = 4, .silent = 1, .silent_id = "C3"};
    look(p);
    expect(p, "degraded", "the towed array's shape rests on 3 of 4 compasses: C3 is silent");
    tow->silent = 3;
    look(p);
    expect(p, "degraded",
           "the towed array's shape rests on 1 of 4 compasses: C3 and others are silent");
    cr_expect_eq(find(p, SONAR_CONDITION_TOW_COMPASSES)->value, 3);
    *tow = (sonar_tow){.state = SONAR_TOW_NO_COMPASS, .compasses = 4, .silent = 4};
    look(p);
    expect(p, "degraded",
           "the towed array is taken as straight behind the ship: no compass in it is heard");
}

/* Tells what declared errors of positions cost, if that is 0.1 dB. */
Test(health, errors_of_positions_are_told_by_their_cost) {
    patient *p = well();
    p->status.positions_cost_hz = 480;
    p->status.positions_cost_db = 0.09;
    look(p), expect(p, "ok", "");
    p->status.positions_cost_db = 0.4442;
    look(p), expect(p, "ok", "array.error.position_m costs a beam 0.44 dB at 480 Hz");
    cr_expect_eq(find(p, SONAR_CONDITION_POSITIONS_INEXACT)->value, 0.4442);
}

/* ---- the node's clock ------------------------------------------------------------------------ */

static sonar_kernel_clock good_clock(void) {
    return (sonar_kernel_clock){
        .known = true, .synchronised = true, .max_error_s = 0.02, .offset_s = 1e-5, .tai_s = 37};
}

Test(health, a_clock_that_is_set_is_reported_with_what_it_means) {
    for (int headings = 0; headings < 2; headings++) {
        patient *p = well();
        p->status.navigation =
            (sonar_navigation){.asked = headings, .fresh = true, .age_s = 0.1, .source = "nmea"};
        look_for(p, 5), expect(p, "ok", "");
        cr_expect(p->status.clock.steps == 0 && isnan(p->status.clock.last_step_s));
        p->facts.utc_now_ns += 20000000; /* the digitisers' clocks with it */
        look(p);
        expect(p, headings ? "degraded" : "ok",
               headings ? "this machine's clock was set forward by 0.0 s: headings around that "
                          "time may be wrong"
                        : "this machine's clock was set forward by 0.0 s");
        cr_expect_eq(p->status.clock.steps, 1);
        look(p), expect(p, "ok", "");
        cr_expect_float_eq(p->status.clock.last_step_s, 0.02, 1e-6);
        p->facts.utc_now_ns -= 900000000;
        look(p);
        const sonar_condition *c = find(p, SONAR_CONDITION_NODE_CLOCK_STEPPED);
        cr_assert(c, "%s", p->status.text);
        cr_expect_float_eq(c->value, -0.9, 1e-6);
        cr_expect(strstr(c->text, "set back by 0.9 s"), "%s", c->text);
        cr_expect_eq(p->status.clock.steps, 2);
        p->facts.utc_now_ns += 4000000; /* what slewing or a reading may do */
        look(p);
        cr_expect(!find(p, SONAR_CONDITION_NODE_CLOCK_STEPPED), "%s", p->status.text);
    }
}

Test(health, a_clock_that_no_one_keeps_matters_where_it_times_headings) {
    patient *p = well();
    sonar_kernel_clock clock = good_clock();
    p->facts.clock = &clock;
    look_for(p, 2), expect(p, "ok", "");
    cr_expect(p->status.clock.synchronised == 1 && p->status.clock.tai_s == 37);
    clock.synchronised = false;
    clock.tai_s = 0;
    look(p), expect(p, "ok", "");
    cr_expect(p->status.clock.synchronised == 0 && isnan(p->status.clock.tai_s));
    p->status.navigation =
        (sonar_navigation){.asked = true, .fresh = true, .age_s = 0.1, .source = "nmea"};
    look(p);
    expect(p, "ok", "this machine's clock, by which headings are timed, is not synchronised");
    clock = good_clock();
    look(p), expect(p, "ok", "");
    clock.max_error_s = 1.5;
    look(p);
    expect(p, "ok", "this machine's clock may be off by 1.5 s: it is no longer synchronised");
    clock.known = false; /* a sandbox may forbid to ask */
    look(p), expect(p, "ok", "");
    cr_expect(isnan(p->status.clock.synchronised) && isnan(p->status.clock.max_error_s));
    p->facts.clock = NULL;
}

Test(health, no_clock_is_no_fault) {
    patient *p = well();
    p->block[0].no_utc = true;
    look_for(p, 100), expect(p, "ok", "");
    cr_expect(isnan(p->status.stream.age_s) && isnan(p->status.stream.clock_offset_s));
}

/* ---- age ------------------------------------------------------------------------------------- */

Test(health, samples_that_come_later_and_later_are_reported_with_and_without_utc) {
    for (int no_utc = 0; no_utc < 2; no_utc++) {
        patient *p = well();
        p->block[0].no_utc = no_utc;
        p->config.overload = SONAR_BLOCK;
        look_for(p, 30), expect(p, "ok", "");
        p->block[0].delay_s += 14;
        p->status.load = 1;
        look(p);
        const sonar_condition *c = find(p, SONAR_CONDITION_SAMPLES_LATE);
        cr_assert(c, "%s", p->status.text);
        cr_expect_str_eq(c->text, "samples arrive 14.0 s late: load 1.00");
        cr_expect_str_eq(p->status.health, "degraded");
    }
}

Test(health, samples_that_are_old_from_the_start_may_be_the_clocks_fault) {
    patient *p = well();
    p->block[0].clock_s = -14;
    look_for(p, 3);
    expect(p, "degraded", "samples are 14.0 s old by their UTC on arrival");
    cr_expect_float_eq(p->status.stream.age_s, 14.01, 1e-3);
    p->block[0].clock_s = -1.9;
    look(p), expect(p, "degraded", "UTC has jumped forward by 12.1 s against the sample index");
    look(p), expect(p, "ok", "");
}

Test(health, results_late_after_their_samples_are_reported) {
    patient *p = well();
    p->status.load = 1;
    p->status.latency.last_us[2] = 2.7e6; /* 2 s, a hop and max_skew are more */
    look(p), expect(p, "ok", "");
    p->status.latency.last_us[2] = 14e6;
    look(p), expect(p, "degraded", "results lag 14.0 s behind their samples: load 1.00");
    cr_expect_float_eq(p->status.condition[0].limit, 2.762, 1e-9);
    p->status.latency.last_us[2] = NAN; /* no value */
    look(p), expect(p, "ok", "");
    p->facts.busy_since_ns = p->facts.now_ns - 9 * second;
    look(p), expect(p, "degraded", "results lag 10.0 s behind their samples: load 1.00");
}

/* While a frame waits for the data thread the digitiser is not silent. */
Test(health, held_back_is_not_waiting_for_samples) {
    patient *p = well();
    p->config.overload = SONAR_BLOCK;
    look_for(p, 2);
    p->stream.held = true;
    p->facts.now_ns += 5 * second, p->facts.utc_now_ns += 5 * second;
    p->facts.busy_since_ns = p->facts.now_ns - 5 * second;
    p->stream.made_ns = p->facts.now_ns;
    p->status.ingest.frames_held++;
    p->status.load = 1;
    judge(p);
    cr_expect(!p->status.waiting_for_samples);
    cr_expect_str_eq(p->status.health, "degraded");
    cr_expect(!find(p, SONAR_CONDITION_BLOCKS_SILENT));
    cr_expect(find(p, SONAR_CONDITION_RESULTS_LATE));
    cr_expect_eq(find(p, SONAR_CONDITION_HELD_BACK)->severity, SONAR_NOTICE);
}

/* Without new samples none are late. */
Test(health, a_stream_that_ended_late_waits) {
    patient *p = well();
    look_for(p, 10);
    p->block[0].delay_s = 14;
    look(p);
    cr_expect_str_eq(p->status.health, "degraded");
    p->facts.now_ns += 3 * second, p->facts.utc_now_ns += 3 * second;
    p->stream.made_ns = p->facts.now_ns;
    judge(p), expect(p, "waiting", "no samples for 3.0 s");
}

/* ---- flags of digitisers, and notices -------------------------------------------------------- */

Test(health, rights_that_are_refused_are_notices_for_good) {
    static const sonar_rights refused = {.priority = "no priority 10", .memory = "not all locked"};
    patient *p = well();
    look(p);
    p->facts.rights = &refused;
    p->config.data_priority = 10;
    p->status.data_priority = 0;
    p->status.locked_bytes = 4096;
    for (int i = 0; i < 3; i++) {
        look(p), expect(p, "ok", "no priority 10; not all locked");
        const sonar_condition *priority = find(p, SONAR_CONDITION_PRIORITY_REFUSED);
        cr_assert_not_null(priority);
        cr_expect(priority->value == 0 && priority->limit == 10);
        cr_expect_eq(find(p, SONAR_CONDITION_MEMORY_UNLOCKED)->value, 4096);
    }
    p->facts.rights = &(sonar_rights){.memory = "not all locked"};
    look(p), expect(p, "ok", "not all locked");
    p->facts.rights = &(sonar_rights){0};
    look(p), expect(p, "ok", "");
}

Test(health, events_of_the_last_second_are_conditions) {
    const struct {
        sonar_condition_code code;
        size_t offset;
        const char *health;
    } event[] = {
        {SONAR_CONDITION_RESTARTED, offsetof(sonar_status, ingest.restarts), "degraded"},
        {SONAR_CONDITION_DISCONTINUITY, offsetof(sonar_status, ingest.discontinuities), "degraded"},
        {SONAR_CONDITION_DIGITISER_OVERLOAD, offsetof(sonar_status, ingest.digitiser_overload),
         "degraded"},
        {SONAR_CONDITION_CLOCK_UNSYNCHRONISED, offsetof(sonar_status, ingest.clock_unsynchronised),
         "ok"},
        {SONAR_CONDITION_HELD_BACK, offsetof(sonar_status, ingest.frames_held), "ok"},
        {SONAR_CONDITION_MESSAGES_FAILED, offsetof(sonar_status, output.messages_failed),
         "degraded"}};
    patient *p = well();
    look(p);
    for (size_t i = 0; i < sizeof event / sizeof *event; i++) {
        *(uint64_t *)((char *)&p->status + event[i].offset) += 3;
        look(p);
        cr_assert_eq(p->status.conditions, 1);
        cr_expect_eq(p->status.condition[0].code, event[i].code);
        cr_expect_eq(p->status.condition[0].value, 3);
        cr_expect_str_eq(p->status.health, event[i].health);
        look(p), expect(p, "ok", "");
    }
}

Test(health, training_says_since_when) {
    patient *p = well();
    look_for(p, 2);
    p->facts.training_since_ns = p->facts.now_ns - 4 * second;
    look(p), expect(p, "degraded", "training for 5 s; no window is processed");
    cr_expect_float_eq(find(p, SONAR_CONDITION_TRAINING)->value, 5, 1e-9);
    p->facts.training_since_ns = 0;
    look(p), expect(p, "ok", "");
}

Test(health, ranks_that_hang_are_named_from_two_seconds_on) {
    patient *p = well();
    look_for(p, 2);
    p->status.ranks = 3;
    p->status.rank[1] = (sonar_rank_status){.host = "aft", .first_channel = 8, .channels = 8};
    p->facts.rank_hangs[1] = true;
    p->facts.ranks_wait_ns = 2 * second - 1;
    look(p), expect(p, "ok", "");
    p->facts.ranks_wait_ns = 2 * second;
    look(p), expect(p, "degraded",
                    "rank 1 on aft, channels 8-15, has not answered for 2.0 s; no window is "
                    "processed meanwhile");
    cr_expect_eq(find(p, SONAR_CONDITION_RANKS_HANG)->channels.count, 8);
    p->facts.rank_hangs[2] = true;
    look(p), expect(p, "degraded",
                    "rank 1 on aft, channels 8-15, has not answered for 2.0 s, nor "
                    "have others; no window is processed meanwhile");
    p->status.ranks = 0; /* no rank has reported yet, and only the root knows the ranks */
    look(p),
        expect(p, "degraded", "the ranks have not met for 2.0 s; no window is processed meanwhile");
    p->facts.ranks_wait_ns = 0;
    look(p), expect(p, "ok", "");
}

Test(health, a_replaced_backend_is_a_notice_for_good) {
    patient *p = well();
    look(p);
    strcpy(p->status.backend_text, "the CPU has taken over");
    look_for(p, 100), expect(p, "ok", "the CPU has taken over");
    cr_expect_eq(p->status.condition[0].for_s, 99);
}

/* ---- log ------------------------------------------------------------------------------------- */

static void overload_for(patient *p, int seconds) {
    for (; seconds; seconds--) {
        p->status.ingest.windows_dropped[SONAR_WINDOW_OVERLOAD]++;
        look(p);
    }
}

Test(log, recovery_says_how_long_and_what_was_lost_by_cause) {
    patient *p = well();
    look_for(p, 3);
    cr_expect_eq(p->lines, 1);
    cr_expect_str_eq(p->line[0], "ok");
    overload_for(p, 12);
    cr_expect_eq(p->lines, 2, "not a line every second");
    cr_expect_str_eq(p->line[1], "degraded: 1 windows dropped: computing is too slow");
    p->status.ingest.frames_dropped[SONAR_FRAME_LATE] += 3;
    p->status.ingest.samples_missing += 7;
    look(p);
    cr_expect_eq(p->lines, 3, "another cause is news");
    look_for(p, 4);
    cr_expect_eq(p->lines, 3);
    look(p);
    cr_assert_eq(p->lines, 4);
    cr_expect_str_eq(p->line[3], "ok after 13.0 s degraded; 12 windows lost: overload 12; "
                                 "3 of 144 frames dropped: late 3; samples missing 7");
    look_for(p, 10);
    cr_expect_eq(p->lines, 4);
}

Test(log, losses_now_and_then_are_one_episode) {
    patient *p = well();
    look(p);
    for (int i = 0; i < 5; i++)
        overload_for(p, 1), look_for(p, 3);
    cr_expect_eq(p->lines, 2);
    look_for(p, 2);
    cr_expect_str_eq(p->line[2], "ok after 17.0 s degraded; 5 windows lost: overload 5");
    overload_for(p, 1);
    look_for(p, 5);
    cr_assert_eq(p->lines, 5);
    cr_expect_str_eq(p->line[4], "ok after 1.0 s degraded; 1 windows lost: overload 1");
}

Test(log, the_end_of_a_run_sums_up_what_is_not_over) {
    patient *p = well();
    look(p);
    overload_for(p, 2);
    sonar_health_end(&p->health, &p->host);
    cr_expect_str_eq(p->line[2], "stopped after 2.0 s degraded; 2 windows lost: overload 2");
    sonar_health_end(&p->health, &p->host);
    cr_expect_eq(p->lines, 3, "once");
}

/* Only advances time. */
static void wait_for(patient *p, int seconds) {
    for (; seconds; seconds--) {
        p->facts.now_ns += second;
        p->facts.utc_now_ns += second;
        judge(p);
    }
}

/* keep_line expects the condition's code with a warning and no code without. */
Test(log, samples_that_end_are_a_warning_once) {
    patient *p = well();
    look_for(p, 3);
    wait_for(p, 5);
    cr_assert_eq(p->lines, 2);
    cr_expect_eq(p->level[1], SONAR_WARN);
    cr_expect_str_eq(p->line[1], "waiting: no samples for 2.0 s");
    look_for(p, 2);
    cr_assert_eq(p->lines, 3);
    cr_expect_eq(p->level[2], SONAR_INFO);
    wait_for(p, 3);
    cr_assert_eq(p->lines, 4, "again");
    cr_expect_eq(p->level[3], SONAR_WARN);
}

Test(log, samples_that_end_in_a_bad_state_are_a_warning) {
    patient *p = well();
    look(p);
    overload_for(p, 2);
    wait_for(p, 10);
    cr_assert_eq(p->lines, 4);
    cr_expect_eq(p->level[2], SONAR_WARN);
    cr_expect_str_eq(p->line[2], "waiting: no samples for 2.0 s");
    cr_expect(strstr(p->line[3], "degraded"), "%s", p->line[3]);
}

Test(log, samples_that_do_not_begin_are_a_warning_later) {
    patient *p = well();
    wait_for(p, 29);
    cr_assert_eq(p->lines, 1);
    cr_expect_eq(p->level[0], SONAR_INFO);
    wait_for(p, 60);
    cr_assert_eq(p->lines, 2);
    cr_expect_eq(p->level[1], SONAR_WARN);
    cr_expect_str_eq(p->line[1], "waiting: no samples yet");
}

/* ---- elements -------------------------------------------------------------------------------- */

static void add_sensors(sonar_element_list *list, uint32_t first, uint32_t count, uint32_t used) {
    sonar_channel_set_add(&list->sensors, first, count);
    sonar_channel_set_add(&list->channels, 100 + first, count);
    list->used = used;
}

/* Each fault is a condition of its own: degraded while a faulty sensor is in the beams, and a
 * notice once all are masked. */
Test(health, bad_elements_are_named_and_degrade_while_in_use) {
    static const char *const text[SONAR_ELEMENT_FAULTS] = {
        "2 sensors dead: 5-6",
        "2 sensors stuck at one value or block: 5-6",
        "2 sensors far louder than the others: 5-6",
        "2 sensors disturbed by mains hum: 5-6",
        "2 sensors clipping: 5-6",
        "2 sensors giving the samples of another sensor: 5-6"};
    for (int i = 0; i < SONAR_ELEMENT_FAULTS; i++) {
        patient *p = well();
        add_sensors(&p->status.elements.fault[i], 5, 2, 1);
        look(p);
        expect(p, "degraded", text[i]);
        const sonar_condition *c =
            find(p, (sonar_condition_code)(SONAR_CONDITION_ELEMENTS_DEAD + i));
        cr_assert(c);
        cr_expect_eq(c->value, 2);
        cr_expect(c->channels.first[0] == 105 && c->channels.last[0] == 106);
        p->status.elements.fault[i].used = 0;
        look(p);
        expect(p, "ok", text[i]);
        p->status.elements.fault[i] = (sonar_element_list){0};
        look(p);
        expect(p, "ok", "");
    }
}

/* Samples that hardly vary are not a real sea. */
Test(health, an_array_that_hears_nothing_is_not_ok) {
    patient *p = well();
    p->status.elements.quiet = true;
    look(p);
    cr_expect_str_eq(p->status.health, "degraded");
    cr_expect_eq(p->status.condition[0].code, SONAR_CONDITION_ELEMENTS_QUIET);
    cr_expect_eq(p->status.condition[0].value, 0);
    add_sensors(&p->status.elements.still, 5, 2, 2);
    look(p);
    cr_expect(strstr(p->status.text, "; constant: 5-6"), "%s", p->status.text);
    cr_expect_eq(p->status.condition[0].value, 2);
    cr_expect_eq(p->status.condition[0].channels.first[0], 105);
    p->status.elements.quiet = false;
    look(p), expect(p, "ok", "");
}

/* One bin in a hundred may fail to converge. */
Test(health, an_adaptive_spectrum_that_does_not_converge_is_reported) {
    patient *p = well();
    look(p);
    p->status.mvdr_bins += 1000;
    p->status.mvdr_bins_not_converged += 10;
    look(p), expect(p, "ok", "");
    p->status.mvdr_bins += 1000;
    p->status.mvdr_bins_not_converged += 11;
    look(p);
    expect(p, "degraded",
           "11 of 1000 bins of the adaptive spectrum did not converge: mvdr.max_sweeps or "
           "mvdr.tolerance is too low");
    cr_expect_eq(p->status.condition[0].value, 11);
    cr_expect_eq(p->status.condition[0].limit, 10);
    look(p), expect(p, "ok", "");
}

Test(health, a_socket_that_was_reopened_degrades_for_a_second) {
    patient *p = well();
    p->status.ingest.peers.reopened_memory++;
    look(p);
    expect(p, "degraded", "the socket for samples was reopened: its peers held too much memory");
    look(p);
    expect(p, "ok", "");
    p->status.output.peers.reopened_memory++;
    look(p);
    expect(p, "degraded", "the socket for results was reopened: its peers held too much memory");
    p->status.ingest.peers.reopened_lost += 2;
    look(p);
    expect(p, "degraded",
           "the socket for samples was reopened: a digitiser broke the protocol or sent too "
           "large a message");
    cr_expect_eq(find(p, SONAR_CONDITION_SOCKET_REOPENED)->value, 2);
}

Test(health, a_socket_that_stays_closed_degrades_until_it_is_open) {
    patient *p = well();
    p->status.output.peers.reopened_memory++;
    p->status.output.peers.closed = 1;
    look(p);
    expect(p, "degraded", "the socket for results was reopened: its peers held too much memory");
    for (int i = 0; i < 3; i++) {
        look(p);
        expect(p, "degraded",
               "the socket for results is closed: libzmq still frees what its peers held, or "
               "another program has its endpoint");
    }
    p->status.ingest.peers.closed = 1;
    look(p);
    cr_expect_eq(p->status.condition[0].value, 1);
    cr_expect_not_null(strstr(p->status.condition[0].text, "the socket for samples is closed"));
    p->status.output.peers.closed = p->status.ingest.peers.closed = 0;
    look(p), expect(p, "ok", "");
}

Test(health, refused_connections_are_worth_knowing) {
    patient *p = well();
    p->status.ingest.peers.refused += 3;
    p->status.output.peers.refused += 4;
    look(p);
    expect(p, "ok",
           "3 connections of digitisers and 4 of readers refused: too many, or too many "
           "subscriptions");
    cr_expect_eq(find(p, SONAR_CONDITION_PEERS_REFUSED)->value, 7);
    look(p);
    expect(p, "ok", "");
}

Test(health, who_is_not_let_in_is_worth_knowing) {
    patient *p = well();
    p->status.ingest.peers.failed[SONAR_HANDSHAKE_UNKNOWN_KEY] += 3;
    p->status.output.peers.failed[SONAR_HANDSHAKE_UNKNOWN_KEY] += 1;
    p->status.output.peers.failed[SONAR_HANDSHAKE_UNFINISHED] += 1;
    look(p);
    expect(p, "ok",
           "3 connections of digitisers and 2 of readers refused: unknown_key 4, unfinished 1");
    cr_expect_eq(find(p, SONAR_CONDITION_HANDSHAKES_FAILED)->value, 5);
    look(p);
    expect(p, "ok", "");
}

Test(health, what_was_masked_automatically_is_worth_knowing) {
    patient *p = well();
    add_sensors(&p->status.elements.masked_auto, 7, 1, 0);
    look(p);
    expect(p, "ok", "1 sensor masked automatically: 7");
    cr_expect_str_eq(sonar_condition_name(p->status.condition[0].code), "elements_masked");
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
    sonar_channel_set_add(&set, 199, 1); /* next to one that was left out */
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
