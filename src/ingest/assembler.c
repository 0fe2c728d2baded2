/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Creates the assembler and answers what other threads ask: the data thread takes windows, any
 * thread reads counters, and the ingest thread makes reports for status and health (receiver.c). */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "ingest/internal.h"

/* ---- creation -------------------------------------------------------------------------------- */

static size_t count_used(const sonar_ingest_spec *spec) {
    size_t used = 0;
    for (size_t k = 0; k < spec->channels; k++)
        used += !spec->channel_used || spec->channel_used[k];
    return used;
}

/* What is wrong with the spec; NULL: nothing. */
static const char *fault_of(const sonar_ingest_spec *spec) {
    if (spec->channels < 1 || spec->channels > UINT32_MAX || count_used(spec) < 1)
        return "an array needs at least one channel that is used";
    if (!isfinite(spec->fs_hz) || spec->fs_hz < 1e-3)
        return "the sampling rate must be at least 0.001 Hz";
    if (spec->window_length < 1 || spec->hop < 1)
        return "window length and hop must be at least 1";
    if (spec->queue_windows < 1)
        return "at least one window must be able to wait";
    if (!(spec->max_missing_share >= 0 && spec->max_missing_share <= 1))
        return "the missing share must lie between 0 and 1";
    return NULL;
}

/* Samples per channel: N for the window that is read, its lookback, one hop for each waiting window
 * and for the one being filled, and room for channels that run ahead; 64 more because the ring is
 * opened in whole words. Avoids rows a multiple of 4 KiB apart, which would share cache sets. 0:
 * the size cannot be represented. */
size_t sonar_ingest_capacity(const sonar_ingest_spec *spec) {
    size_t capacity;
    if (__builtin_add_overflow(spec->queue_windows, 1, &capacity) ||
        __builtin_mul_overflow(capacity, spec->hop, &capacity) ||
        __builtin_add_overflow(capacity, spec->window_length, &capacity) ||
        __builtin_add_overflow(capacity, spec->lookback, &capacity) ||
        __builtin_add_overflow(capacity, spec->max_skew_samples, &capacity) ||
        __builtin_add_overflow(capacity, 64 + 63, &capacity))
        return 0;
    capacity &= ~(size_t)63;
    return capacity % 1024 ? capacity : capacity + 64;
}

static sonar_arena lay_out(sonar_assembler *a, sonar_arena_pass pass) {
    struct losses *loss = &a->loss;
    sonar_arena arena = {.pass = pass};
    SONAR_ARENA(&arena, loss->missing, a->channels);
    SONAR_ARENA(&arena, loss->lost, a->channels);
    SONAR_ARENA(&arena, loss->lacks, loss->words);
    SONAR_ARENA(&arena, loss->range, a->store.ranges);
    SONAR_ARENA(&arena, a->used, a->channels);
    SONAR_ARENA(&arena, a->asked, a->channels);
    SONAR_ARENA(&arena, a->fed, a->channels);
    SONAR_ARENA(&arena, a->reached, a->channels);
    SONAR_ARENA(&arena, a->since, a->channels);
    SONAR_ARENA(&arena, a->note, a->notes);
    SONAR_ARENA(&arena, a->memory.lacked_in, a->channels);
    SONAR_ARENA(&arena, a->memory.lacked_share, a->channels);
    SONAR_ARENA(&arena, a->outlet.lack, a->outlet.lacks_most);
    return arena;
}

static bool allocate(sonar_assembler *a) {
    return !lay_out(a, SONAR_ARENA_ALLOCATE).failed &&
           sonar_gaps_init(&a->loss.gaps, a->channels) &&
           sonar_coverage_init(&a->coverage, a->channels, a->capacity / 64) &&
           sonar_window_queue_init(&a->queue, a->queue_windows + 1, a->channels, a->loss.words);
}

static void configure(sonar_assembler *a, const sonar_ingest_spec *spec) {
    a->array_id = spec->array_id;
    a->first_channel = (uint32_t)spec->first_channel;
    a->channels = spec->channels;
    a->channels_used = count_used(spec);
    a->length = spec->window_length;
    a->hop = spec->hop;
    a->lookback = spec->lookback;
    a->skew = spec->max_skew_samples;
    a->queue_windows = spec->queue_windows;
    a->fs_hz = spec->fs_hz;
    a->max_missing_share = spec->max_missing_share;
    a->drop_spikes = spec->drop_spikes;
    a->most_sample = spec->most_sample > 0 ? spec->most_sample : FLT_MAX;
    a->chunk.samples = spec->chunk_samples;
    a->outlet.sink = spec->sink;
    a->outlet.lacks_most = spec->sink ? sonar_stretch_lacks_most(spec->channels) : 1;
    a->blocking = spec->overload == SONAR_BLOCK;
    if (!a->blocking)
        sonar_shed_init(&a->shed, spec->fs_hz,
                        (double)(spec->window_length + 4 * spec->hop) / spec->fs_hz,
                        spec->high_water_mark);
    a->memory.period = 1;
    a->restart_ns = (int64_t)spec->restart_after_ms * 1000000;
    a->silent_ns = (int64_t)spec->silent_after_ms * 1000000;
    a->capacity = sonar_ingest_capacity(spec);
    a->notes = a->capacity / a->hop + 2;
    a->loss.words = (a->lookback + a->length) / 64 + 2;
}

sonar_code sonar_assembler_create(const sonar_ingest_spec *spec, sonar_assembler **out,
                                  sonar_error *err) {
    *out = NULL;
    const char *fault = fault_of(spec);
    if (fault)
        return sonar_fail(err, SONAR_EINVAL, "ingest", "%s", fault);
    sonar_assembler *a = sonar_alloc(1, sizeof *a);
    if (!a)
        return sonar_fail(err, SONAR_ENOMEM, "ingest", "no memory for the assembler");
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->alone, NULL);
    sonar_lanes_init(&a->lanes);
    configure(a, spec);
    sonar_code code = sonar_store_init(&a->store, a->channels, a->capacity, spec->sample_type,
                                       spec->threads, spec->ring, err);
    if (!code && !allocate(a))
        code = sonar_fail(err, SONAR_ENOMEM, "ingest", "no memory for the books of %zu channels",
                          spec->channels);
    if (code) {
        sonar_assembler_destroy(a);
        return code;
    }
    for (size_t k = 0; k < a->channels; k++)
        a->used[k] = !spec->channel_used || spec->channel_used[k];
    *out = a;
    return SONAR_OK;
}

void sonar_assembler_destroy(sonar_assembler *a) {
    if (!a)
        return;
    sonar_window_queue_clear(&a->queue);
    sonar_coverage_clear(&a->coverage);
    sonar_gaps_free(&a->loss.gaps);
    sonar_store_clear(&a->store);
    sonar_lanes_clear(&a->lanes);
    pthread_cond_destroy(&a->alone);
    pthread_mutex_destroy(&a->lock);
    lay_out(a, SONAR_ARENA_FREE);
    free(a);
}

/* ---- data thread ----------------------------------------------------------------------------- */

bool sonar_assembler_take(sonar_assembler *a, sonar_window *window) {
    if (!sonar_window_queue_take(&a->queue, window))
        return false;
    sonar_count_add(&a->count.windows_taken, 1);
    return true;
}

void sonar_assembler_release(sonar_assembler *a, const sonar_window *window) {
    (void)a;
    sonar_window_queue_release(window);
}

/* ---- any thread ------------------------------------------------------------------------------ */

size_t sonar_assembler_waiting(const sonar_assembler *a) {
    return sonar_window_queue_waiting(&a->queue);
}

uint64_t sonar_assembler_offered(const sonar_assembler *a) {
    return atomic_load(&a->published);
}

uint64_t sonar_assembler_ready(const sonar_assembler *a) {
    return atomic_load_explicit(&a->chunk.ready, memory_order_acquire);
}

/* frames_received and windows_waiting are computed from the other counters. As counters of their
 * own they would be off by one if they were read while a frame is being placed. */
void sonar_assembler_read_counters(const sonar_assembler *a, sonar_ingest_counters *to) {
    sonar_count_copy(to, &a->count, sizeof *to);
    to->frames_received = to->frames_accepted;
    for (int i = 0; i < SONAR_FRAME_CAUSES; i++)
        to->frames_received += to->frames_dropped[i];
    const uint64_t gone = to->windows_taken + to->windows_dropped[SONAR_WINDOW_OVERLOAD];
    to->windows_waiting = to->windows_offered > gone ? to->windows_offered - gone : 0;
}

/* ---- report ---------------------------------------------------------------------------------- */

static void report_channels(const sonar_assembler *a, sonar_ingest_report *report) {
    const struct memories *m = &a->memory;
    bool overtaken = a->newest >= window_end(a) && a->waiting_for;
    if (a->all_fed && m->lost_in <= m->period_read && !overtaken)
        return;
    for (size_t k = 0; k < a->channels; k++) {
        uint32_t channel = (uint32_t)k;
        if (!a->used[k])
            continue;
        if (!a->fed[k]) {
            sonar_channel_set_add(&report->unfed, channel, 1);
        } else if (m->lacked_in[k] > m->period_read) {
            sonar_channel_set_add(&report->lacking, channel, 1);
            report->lacking_share = fmax(report->lacking_share, (double)m->lacked_share[k]);
        }
        if (overtaken && a->reached[k] < window_end(a))
            sonar_channel_set_add(&report->awaited, channel, 1);
    }
}

static void report_stream(const sonar_assembler *a, sonar_ingest_report *report) {
    report->timeline = a->timeline;
    report->adopted_ns = a->memory.adopted_ns;
    report->decided_ns = a->memory.decided_ns;
    report->window_sample = sample_at(a, a->window);
    report->newest_sample = sample_at(a, a->newest);
    report->samples_missing = sonar_count_read(&a->count.samples_missing);
    report_channels(a, report);
    report->blocks = a->blocks.count;
    for (size_t i = 0; i < a->blocks.count; i++)
        report->block[i] = sonar_blocks_report(&a->blocks, i, a->now_ns, a->silent_ns);
    report->totals = a->blocks.totals;
    memcpy(report->total, a->blocks.total, a->blocks.totals * sizeof *report->total);
}

void sonar_assembler_report(sonar_assembler *a, bool read, sonar_ingest_report *report) {
    pthread_mutex_lock(&a->lock);
    sonar_booking_wait_alone(a);
    *report = (sonar_ingest_report){.made_ns = a->now_ns, .held = a->waits || a->window_waits};
    if (read)
        a->memory.period_read = a->memory.period - 1;
    a->memory.period++;
    if (a->running)
        report_stream(a, report);
    pthread_mutex_unlock(&a->lock);
}

void sonar_assembler_read_refused(sonar_assembler *a, sonar_refused refused[SONAR_FRAME_CAUSES]) {
    pthread_mutex_lock(&a->lock);
    memcpy(refused, a->refused, sizeof a->refused);
    pthread_mutex_unlock(&a->lock);
}
