/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The assembler compared with a simple model that keeps one byte for every sample, and its rules
 * one by one with a clock that the test sets. */
#include "core/random.h"
#include "ingest/assembler.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frames.h"

static uint64_t state = 0x243f6a8885a308d3u;

static uint64_t below(uint64_t limit) {
    return sonar_random_bits(&state) % limit;
}

static const int64_t ms = 1000000;

static sonar_ingest_spec small_spec(void) {
    return (sonar_ingest_spec){.array_id = 9,
                               .channels = 4,
                               .fs_hz = 1000,
                               .window_length = 100,
                               .hop = 50,
                               .queue_windows = 4,
                               .max_missing_share = 0.5,
                               .max_skew_samples = 60,
                               .restart_after_ms = 1000,
                               .silent_after_ms = 500};
}

static sonar_assembler *make(const sonar_ingest_spec *spec) {
    sonar_assembler *assembler;
    sonar_error err;
    cr_assert(sonar_assembler_create(spec, &assembler, &err) == SONAR_OK, "%s", err.text);
    return assembler;
}

static sonar_frame whole(uint32_t epoch, uint64_t first, uint32_t samples) {
    return (sonar_frame){.array_id = 9,
                         .channels = 4,
                         .samples = samples,
                         .type = SONAR_F32,
                         .epoch = epoch,
                         .sequence = first,
                         .first_sample = first,
                         .fs_hz = 1000};
}

static sonar_frame part(uint32_t first_channel, uint32_t channels, uint32_t epoch, uint64_t first,
                        uint32_t samples) {
    sonar_frame frame = whole(epoch, first, samples);
    frame.first_channel = first_channel;
    frame.channels = channels;
    return frame;
}

static bool send_at(sonar_assembler *assembler, sonar_frame frame, int64_t now_ns) {
    test_frame made = test_frame_make(&frame);
    bool placed = sonar_assembler_frame(assembler, made.header, sizeof made.header, made.payload,
                                        made.payload_bytes, now_ns);
    cr_assert(placed, "a frame waits where none should");
    test_frame_free(&made);
    return placed;
}

static sonar_ingest_counters counters(const sonar_assembler *assembler) {
    sonar_ingest_counters count;
    sonar_assembler_read_counters(assembler, &count);
    return count;
}

static uint64_t dropped(const sonar_ingest_counters *count) {
    uint64_t sum = 0;
    for (int i = 0; i < SONAR_FRAME_CAUSES; i++)
        sum += count->frames_dropped[i];
    return sum;
}

static void check_balance(const sonar_assembler *assembler) {
    sonar_ingest_counters c = counters(assembler);
    cr_assert(c.frames_received == c.frames_accepted + dropped(&c));
    cr_assert(c.windows_offered == c.windows_taken + c.windows_dropped[SONAR_WINDOW_OVERLOAD] +
                                       sonar_assembler_waiting(assembler));
}

/* All channels lack exactly the samples [first, end). */
static bool has_gap(const sonar_window *window, uint64_t first, uint64_t end) {
    bool alone = window->gaps.count != NULL;
    for (size_t k = 0; k < window->ring.shape[0] && alone; k++) {
        const sonar_gap *gap = &window->gaps.gap[k * SONAR_GAPS_MOST];
        alone = window->gaps.count[k] == 1 && window->first_sample + gap->begin == first &&
                window->first_sample + gap->end == end;
    }
    return alone;
}

/* ---- the model ------------------------------------------------------------------------------- */

enum { REACH = 40000, MOST_CHANNELS = 9 };

struct expected {
    uint64_t index, first;
    uint32_t flags;
    size_t missing[MOST_CHANNELS];
    double mean, worst;
    size_t lookback;
};

/* Indices are those of the stream minus `zero`, all of them below REACH. */
struct model {
    sonar_ingest_spec spec;
    uint8_t *have;  /* [channel][REACH] */
    uint32_t *flag; /* [index] number of frames that stored samples here */
    bool running;
    uint64_t zero, window, first_window, frozen, newest, index;
    struct expected *queue;
    size_t queued, most;
    sonar_ingest_counters count;
};

static bool is_used(const struct model *m, size_t k) {
    return !m->spec.channel_used || m->spec.channel_used[k];
}

static size_t lookback_of(const struct model *m) {
    uint64_t most = m->window - m->first_window;
    return most < m->spec.lookback ? (size_t)most : m->spec.lookback;
}

static bool is_complete(const struct model *m) {
    for (size_t k = 0; k < m->spec.channels; k++)
        for (uint64_t i = m->window - lookback_of(m);
             i < m->window + m->spec.window_length && is_used(m, k); i++)
            if (i >= m->frozen && !m->have[k * REACH + i])
                return false;
    return true;
}

static void model_freeze(struct model *m) {
    struct expected w = {
        .index = m->index++, .first = m->window + m->zero, .lookback = lookback_of(m)};
    uint64_t end = m->window + m->spec.window_length, total = 0, used = 0, worst = 0;
    for (uint64_t i = m->window; i < end; i++)
        w.flags |= m->flag[i];
    for (size_t k = 0; k < m->spec.channels; k++) {
        used += is_used(m, k);
        for (uint64_t i = m->window; i < end; i++) {
            if (m->have[k * REACH + i])
                continue;
            w.missing[k]++;
            if (!is_used(m, k))
                continue;
            total++;
            m->count.samples_missing += i >= m->frozen;
        }
        if (is_used(m, k) && w.missing[k] > worst)
            worst = w.missing[k];
    }
    w.mean = (double)total / (double)(used * m->spec.window_length);
    w.worst = (double)worst / (double)m->spec.window_length;
    if (w.mean > m->spec.max_missing_share) {
        m->count.windows_dropped[SONAR_WINDOW_MISSING]++;
    } else {
        m->count.windows_offered++;
        cr_assert(m->queued < m->most);
        m->queue[m->queued++] = w;
    }
    m->frozen = end;
    m->window += m->spec.hop;
}

static void model_begin(struct model *m, uint64_t first) {
    uint64_t into = first % m->spec.hop;
    m->zero = first - into;
    m->window = m->first_window = into ? m->spec.hop : 0;
    m->running = true;
}

static void model_drop(struct model *m, sonar_frame_cause cause) {
    m->count.frames_dropped[cause]++;
}

static void model_frame(struct model *m, const sonar_frame *f) {
    uint64_t stored = 0, repeated = 0, late = 0;
    m->count.frames_received++;
    if (!m->running)
        model_begin(m, f->first_sample);
    for (size_t k = f->first_channel; k < f->first_channel + f->channels; k++)
        for (uint64_t s = f->first_sample; s < f->first_sample + f->samples; s++) {
            if (s < m->zero + m->frozen) {
                late++;
                continue;
            }
            uint8_t *have = &m->have[k * REACH + (s - m->zero)];
            repeated += *have;
            stored += !*have;
            *have = 1;
        }
    if (!stored) {
        model_drop(m, repeated ? SONAR_FRAME_REPEATED : SONAR_FRAME_LATE);
        return;
    }
    uint64_t end = f->first_sample + f->samples - m->zero;
    for (uint64_t s = f->first_sample; s < f->first_sample + f->samples; s++)
        if (s >= m->zero + m->frozen)
            m->flag[s - m->zero] |= f->flags;
    m->newest = end > m->newest ? end : m->newest;
    m->count.frames_accepted++;
    m->count.samples_stored += stored;
    m->count.samples_repeated += repeated;
    m->count.samples_late += late;
    while (m->newest >= m->window + m->spec.window_length + m->spec.max_skew_samples ||
           is_complete(m))
        model_freeze(m);
}

static bool is_there(const struct model *m, size_t k, uint64_t sample) {
    return m->have[k * REACH + (sample - m->zero)];
}

/* Missing samples are 0 in the window, and arbitrary before it is offered. */
static void compare_samples(const struct model *m, const sonar_window *got) {
    sonar_buffer span[2];
    size_t samples = got->lookback + m->spec.window_length;
    sonar_window_span(got, got->first_sample - got->lookback, samples, span);
    cr_assert(span[0].shape[1] + span[1].shape[1] == samples);
    for (size_t k = 0; k < m->spec.channels; k++)
        for (size_t i = 0; i < samples; i++) {
            uint64_t s = got->first_sample - got->lookback + i;
            bool there = is_there(m, k, s);
            float want = there ? test_sample(5, k, s) : 0;
            if (!there && i < got->lookback)
                continue;
            bool in_head = i < span[0].shape[1];
            const sonar_buffer *piece = &span[!in_head];
            const float *row = (const float *)piece->data + (ptrdiff_t)k * piece->stride[0];
            float value = row[in_head ? i : i - span[0].shape[1]];
            cr_assert(value == want, "window %lu channel %zu sample %zu: %g, not %g",
                      (unsigned long)got->window, k, i, (double)value, (double)want);
        }
}

static bool is_lost(const sonar_gaps *gaps, size_t k, size_t at) {
    for (size_t i = 0; gaps->count && i < gaps->count[k]; i++) {
        const sonar_gap *gap = &gaps->gap[k * SONAR_GAPS_MOST + i];
        if (at >= gap->begin && at < gap->end)
            return true;
    }
    return false;
}

/* The lists of gaps must be exact, unless they are full: then they contain more. */
static void compare_gaps(const struct model *m, const sonar_window *got) {
    for (size_t k = 0; k < m->spec.channels; k++)
        for (size_t i = 0; i < m->spec.window_length; i++) {
            bool there = is_there(m, k, got->first_sample + i) || !is_used(m, k);
            bool full = got->gaps.count && got->gaps.count[k] == SONAR_GAPS_MOST;
            cr_assert(is_lost(&got->gaps, k, i) == !there || (there && full),
                      "window %lu channel %zu sample %zu", (unsigned long)got->window, k, i);
        }
}

/* Whether any span of samples is complete. */
static void compare_spans(const struct model *m, const sonar_window *got) {
    size_t samples = got->lookback + m->spec.window_length;
    for (int trial = 0; trial < 20; trial++) {
        size_t from = below(samples), length = below(samples - from + 1);
        uint64_t first = got->first_sample - got->lookback + from;
        bool whole_span = true;
        for (size_t k = 0; k < m->spec.channels; k++)
            for (size_t i = 0; i < length && is_used(m, k); i++)
                whole_span &= is_there(m, k, first + i);
        cr_assert(sonar_window_is_whole(got, first, length) == whole_span,
                  "window %lu from %zu, %zu samples", (unsigned long)got->window, from, length);
    }
}

static void compare_window(const struct model *m, const struct expected *want,
                           const sonar_window *got) {
    cr_assert(got->window == want->index && got->first_sample == want->first);
    cr_assert(fabs(got->missing_mean - want->mean) < 1e-12);
    cr_assert(fabs(got->missing_worst - want->worst) < 1e-12);
    cr_assert(got->lookback == want->lookback);
    cr_assert(got->flags == want->flags, "flags %x, not %x", got->flags, want->flags);
    cr_assert(got->epoch == 5 && !got->restarted);
    for (size_t k = 0; k < m->spec.channels; k++)
        cr_assert(fabs((double)got->missing[k] -
                       (double)want->missing[k] / (double)m->spec.window_length) < 1e-6);
    compare_samples(m, got);
    compare_gaps(m, got);
    compare_spans(m, got);
}

static void compare_queue(struct model *m, sonar_assembler *assembler) {
    sonar_window got;
    for (size_t i = 0; i < m->queued; i++) {
        cr_assert(sonar_assembler_take(assembler, &got), "window %zu of %zu is not there", i,
                  m->queued);
        compare_window(m, &m->queue[i], &got);
        sonar_assembler_release(assembler, &got);
        m->count.windows_taken++;
    }
    cr_assert(!sonar_assembler_take(assembler, &got), "a window too many");
    m->queued = 0;
}

static void compare_counters(const struct model *m, const sonar_assembler *assembler) {
    sonar_ingest_counters got = counters(assembler);
    const sonar_ingest_counters *want = &m->count;
    cr_assert(got.frames_received == want->frames_received);
    cr_assert(got.frames_accepted == want->frames_accepted);
    cr_assert(!memcmp(got.frames_dropped, want->frames_dropped, sizeof got.frames_dropped));
    cr_assert(got.samples_stored == want->samples_stored);
    cr_assert(got.samples_repeated == want->samples_repeated);
    cr_assert(got.samples_late == want->samples_late);
    cr_assert(got.samples_missing == want->samples_missing);
    cr_assert(got.windows_offered == want->windows_offered);
    cr_assert(!memcmp(got.windows_dropped, want->windows_dropped, sizeof got.windows_dropped));
}

/* ---- random streams -------------------------------------------------------------------------- */

struct scene {
    uint32_t block[MOST_CHANNELS + 1]; /* edges of the blocks */
    size_t blocks;
    double drops, repeats;
    uint64_t first, end;
    uint32_t longest;
    size_t disorder;
};

struct timed_frame {
    sonar_frame frame;
    uint64_t when;
};

static int by_time(const void *a, const void *b) {
    const struct timed_frame *x = a, *y = b;
    return x->when < y->when ? -1 : x->when > y->when;
}

static bool chance(double p) {
    return (double)below(1u << 20) < p * (1u << 20);
}

static sonar_frame any_frame(const struct scene *scene, size_t block, uint64_t first) {
    uint64_t most = scene->end - first;
    sonar_frame frame =
        part(scene->block[block], scene->block[block + 1] - scene->block[block], 5, first,
             (uint32_t)(1 + below(most < scene->longest ? most : scene->longest)));
    frame.type = (uint8_t)(1 + below(4));
    frame.layout = (uint8_t)below(2);
    frame.flags = chance(0.02) ? (uint16_t)(1 << below(3)) : 0;
    return frame;
}

static size_t make_frames(const struct scene *scene, struct timed_frame *out, size_t most) {
    size_t count = 0;
    for (size_t b = 0; b < scene->blocks; b++)
        for (uint64_t at = scene->first; at < scene->end;) {
            sonar_frame frame = any_frame(scene, b, at);
            at += frame.samples;
            if (chance(scene->drops))
                continue;
            for (int copies = 1 + chance(scene->repeats); copies; copies--) {
                cr_assert(count < most);
                out[count++] = (struct timed_frame){frame, at + below(scene->disorder + 1)};
            }
            if (chance(scene->repeats)) /* overlaps, cut otherwise */
                at -= below(frame.samples);
        }
    qsort(out, count, sizeof *out, by_time);
    return count;
}

static struct scene any_scene(size_t channels, uint64_t first, uint64_t samples, uint32_t longest,
                              size_t disorder) {
    struct scene scene = {.first = first,
                          .end = first + samples,
                          .longest = longest,
                          .disorder = disorder,
                          .drops = below(2) ? 0.06 : 0,
                          .repeats = below(2) ? 0.06 : 0};
    for (uint32_t k = 1; k < channels; k++)
        if (below(3) == 0)
            scene.block[++scene.blocks] = k;
    scene.block[++scene.blocks] = (uint32_t)channels;
    return scene;
}

static void run_stream(size_t length, size_t hop, uint64_t samples, uint32_t longest) {
    size_t channels = 1 + below(MOST_CHANNELS), skew = below(3) ? below(2 * length) : 0;
    uint8_t used[MOST_CHANNELS];
    for (size_t k = 0; k < MOST_CHANNELS; k++)
        used[k] = below(5) > 0;
    used[below(channels)] = 1;
    const double shares[] = {0, 0.1, 1};
    struct model m = {.spec = small_spec(), .most = 4096};
    m.spec.channels = channels;
    m.spec.channel_used = below(2) ? used : NULL;
    m.spec.window_length = length, m.spec.hop = hop;
    m.spec.lookback = below(2) ? below(2 * length) : 0;
    m.spec.max_skew_samples = skew;
    m.spec.max_missing_share = shares[below(3)];
    m.spec.queue_windows = (2 * length + 4 * longest) / hop + 8; /* lost frames in a row */
    m.have = calloc(channels * REACH, 1);
    m.flag = calloc(REACH, sizeof *m.flag);
    m.queue = calloc(m.most, sizeof *m.queue);
    struct timed_frame *frames = calloc(60000, sizeof *frames);
    struct scene scene =
        any_scene(channels, below(3) ? below(5000) : 0, samples, longest, skew / 2);
    size_t count = make_frames(&scene, frames, 60000);
    sonar_assembler *assembler = make(&m.spec);
    for (size_t i = 0; i < count; i++) {
        send_at(assembler, frames[i].frame, (int64_t)i);
        model_frame(&m, &frames[i].frame);
        compare_queue(&m, assembler);
    }
    compare_counters(&m, assembler);
    check_balance(assembler);
    sonar_assembler_destroy(assembler);
    free(m.have), free(m.flag), free(m.queue), free(frames);
}

Test(assembler, agrees_with_the_model_at_awkward_sizes) {
    static const size_t size[][2] = {{1000, 333}, {64, 64},  {128, 64}, {100, 50}, {97, 31},
                                     {100, 100},  {50, 170}, {63, 65},  {2, 1},    {1, 1},
                                     {1, 3},      {65, 64},  {300, 7},  {5, 64}};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        for (int trial = 0; trial < 6; trial++)
            run_stream(size[i][0], size[i][1], 3000, (uint32_t)(trial % 2 ? 40 : 300));
}

Test(assembler, agrees_with_the_model_at_random_sizes) {
    for (int trial = 0; trial < 60; trial++)
        run_stream(1 + below(300), 1 + below(300), 2500, (uint32_t)(1 + below(400)));
}

Test(assembler, every_sample_alone_and_a_hop_of_one) {
    run_stream(64, 1, 700, 1);
    run_stream(33, 1, 700, 90);
}

/* ---- causes ---------------------------------------------------------------------------------- */

/* The header is reported, if it could be read. */
static void expect_refused(sonar_assembler *assembler, const sonar_frame *frame,
                           sonar_frame_cause cause, int64_t at_ns) {
    sonar_refused refused[SONAR_FRAME_CAUSES];
    sonar_assembler_read_refused(assembler, refused);
    const sonar_refused *is = &refused[cause];
    if (cause == SONAR_FRAME_MALFORMED)
        cr_expect_eq(is->at_ns, 0);
    else
        cr_expect(is->at_ns == at_ns && is->first_channel == frame->first_channel &&
                      is->channels == frame->channels && is->array_id == frame->array_id &&
                      !memcmp(&is->fs_hz, &frame->fs_hz, sizeof is->fs_hz),
                  "%s", sonar_frame_cause_name(cause));
}

/* To an assembler of channels 100 to 103 of an array. */
static uint64_t cause_of(sonar_frame frame, size_t payload_bytes, sonar_frame_cause cause) {
    enum { FIRST = 100, NOW_NS = 7 };
    sonar_ingest_spec spec = small_spec();
    spec.first_channel = FIRST;
    sonar_assembler *assembler = make(&spec);
    uint8_t header[64];
    frame.first_channel += FIRST;
    float payload[64] = {0};
    sonar_frame_encode(&frame, header);
    if (cause == SONAR_FRAME_NOT_FINITE)
        payload[frame.channels * frame.samples - 1] = NAN;
    sonar_assembler_frame(assembler, header, sizeof header, payload, payload_bytes, NOW_NS);
    sonar_ingest_counters c = counters(assembler);
    check_balance(assembler);
    if (c.frames_dropped[cause])
        expect_refused(assembler, &frame, cause, NOW_NS);
    sonar_assembler_destroy(assembler);
    cr_assert(c.frames_accepted + dropped(&c) == 1);
    return c.frames_dropped[cause];
}

Test(assembler, every_fault_has_its_cause) {
    sonar_frame good = whole(5, 0, 3), bad = good;
    cr_assert(!cause_of(good, 48, SONAR_FRAME_MALFORMED));
    cr_assert(cause_of(good, 47, SONAR_FRAME_TRUNCATED));
    cr_assert(cause_of(good, 0, SONAR_FRAME_TRUNCATED));
    cr_assert(cause_of(good, 49, SONAR_FRAME_OVERSIZED));
    cr_assert(cause_of(good, 48, SONAR_FRAME_NOT_FINITE));
    bad.array_id = 8;
    cr_assert(cause_of(bad, 48, SONAR_FRAME_WRONG_ARRAY));
    bad = good, bad.first_channel = 1;
    cr_assert(cause_of(bad, 48, SONAR_FRAME_WRONG_CHANNELS));
    bad = good, bad.first_channel = UINT32_MAX - 4;
    cr_assert(cause_of(bad, 48, SONAR_FRAME_WRONG_CHANNELS));
    bad = good, bad.epoch = 0;
    cr_assert(cause_of(bad, 48, SONAR_FRAME_MALFORMED));
    const double wrong_rates[] = {1000.0011, 999.9989, 0, -1000, NAN, INFINITY};
    for (size_t i = 0; i < 6; i++) {
        bad = good, bad.fs_hz = wrong_rates[i];
        cr_assert(cause_of(bad, 48, SONAR_FRAME_WRONG_RATE));
    }
    bad = good, bad.fs_hz = 1000.0009;
    cr_assert(!cause_of(bad, 48, SONAR_FRAME_WRONG_RATE));
    bad = good, bad.first_sample = UINT64_MAX - 3;
    cr_assert(cause_of(bad, 48, SONAR_FRAME_AHEAD), "no window fits there");
}

/* Each fault hides those below it; the order is that of the table in docs/protocol.md. */
Test(assembler, causes_are_looked_at_in_the_order_of_the_table) {
    static const sonar_frame_cause order[] = {SONAR_FRAME_WRONG_ARRAY, SONAR_FRAME_WRONG_CHANNELS,
                                              SONAR_FRAME_WRONG_TYPE, SONAR_FRAME_WRONG_RATE,
                                              SONAR_FRAME_TRUNCATED};
    enum { FAULTS = sizeof order / sizeof order[0] };
    for (size_t mended = 0; mended < FAULTS; mended++) {
        sonar_ingest_spec spec = small_spec();
        spec.sample_type = SONAR_S16;
        sonar_assembler *assembler = make(&spec);
        sonar_frame bad = whole(5, 0, 3);
        uint8_t header[64], payload[64] = {0};
        bad.array_id = mended > 0 ? 9 : 8;
        bad.first_channel = mended > 1 ? 0 : 1;
        bad.type = mended > 2 ? SONAR_S16 : SONAR_F32;
        bad.fs_hz = mended > 3 ? 1000 : 2000;
        sonar_frame_encode(&bad, header);
        sonar_assembler_frame(assembler, header, sizeof header, payload, 1, 0);
        cr_expect_eq(counters(assembler).frames_dropped[order[mended]], 1, "not %s",
                     sonar_frame_cause_name(order[mended]));
        sonar_assembler_destroy(assembler);
    }
}

Test(assembler, a_bad_frame_never_founds_a_timeline) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    float payload[4] = {0, 0, 0, INFINITY};
    uint8_t header[64];
    sonar_frame bad = whole(77, 123456, 1);
    sonar_frame_encode(&bad, header);
    sonar_assembler_frame(assembler, header, 64, payload, sizeof payload, 0);
    send_at(assembler, whole(5, 0, 100), 1);
    sonar_window w;
    cr_assert(sonar_assembler_take(assembler, &w) && w.first_sample == 0 && !w.restarted);
    cr_assert(counters(assembler).restarts == 0);
    sonar_assembler_destroy(assembler);
}

/* ---- timelines ------------------------------------------------------------------------------- */

static size_t take_all(sonar_assembler *assembler, sonar_window *last) {
    size_t count = 0;
    sonar_window w;
    while (sonar_assembler_take(assembler, &w)) {
        count++;
        if (last)
            *last = w;
        sonar_assembler_release(assembler, &w);
    }
    return count;
}

Test(assembler, a_new_epoch_of_the_whole_array_is_adopted_at_once) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    sonar_window held, w;
    send_at(assembler, whole(5, 0, 120), 1 * ms);
    cr_assert(sonar_assembler_take(assembler, &held)); /* [0, 100), kept through the restart */
    send_at(assembler, whole(6, 1000003, 47 + 100), 2 * ms);
    cr_assert(test_window_errors(&held, 0, 100) == 0);
    cr_assert(sonar_assembler_take(assembler, &w));
    /* windows [50, 150) and [100, 200) of the old timeline had begun */
    cr_assert(counters(assembler).windows_dropped[SONAR_WINDOW_SKIPPED] == 2);
    cr_assert(w.restarted && w.window == 3 && w.first_sample == 1000050 && w.epoch == 6);
    cr_assert(test_window_errors(&w, 1000050, 100) == 0);
    cr_assert(counters(assembler).restarts == 1);
    sonar_assembler_release(assembler, &held);
    sonar_assembler_release(assembler, &w);
    send_at(assembler, whole(6, 1000150, 50), 3 * ms);
    cr_assert(sonar_assembler_take(assembler, &w) && !w.restarted && w.window == 4);
    check_balance(assembler);
    sonar_assembler_destroy(assembler);
}

Test(assembler, nothing_of_an_abandoned_window_sticks_to_the_next) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    sonar_frame frame = whole(5, 0, 40);
    frame.flags = SONAR_FRAME_OVERLOAD;
    frame.utc_ns = 1763654400123456789;
    send_at(assembler, frame, 0);
    send_at(assembler, whole(6, 0, 100), 1 * ms);
    sonar_window w;
    cr_assert(sonar_assembler_take(assembler, &w) && w.restarted && w.window == 1);
    cr_assert(w.flags == 0 && w.utc_ns == 0 && w.missing_mean == 0);
    cr_assert(test_window_errors(&w, 0, 100) == 0);
    sonar_assembler_destroy(assembler);
}

Test(assembler, a_stolen_first_window_does_not_hide_the_restart) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    sonar_window w;
    send_at(assembler, whole(5, 0, 100), 0);
    take_all(assembler, NULL);
    send_at(assembler, whole(6, 0, 50 * 9), 1); /* 8 windows, 4 may wait */
    cr_assert(sonar_assembler_take(assembler, &w) && w.restarted && w.first_sample == 200);
    sonar_assembler_release(assembler, &w);
    cr_assert(sonar_assembler_take(assembler, &w) && !w.restarted);
    sonar_assembler_destroy(assembler);
}

Test(assembler, a_new_epoch_of_one_block_waits_for_silence) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    send_at(assembler, part(0, 2, 5, 0, 50), 0);
    send_at(assembler, part(2, 2, 5, 0, 50), 10 * ms);
    for (uint64_t i = 0; i < 4; i++)
        send_at(assembler, part(0, 2, 6, i * 50, 50), (20 + (int64_t)i) * ms);
    cr_assert(counters(assembler).frames_dropped[SONAR_FRAME_WRONG_EPOCH] == 4);
    send_at(assembler, part(2, 2, 5, 50, 50), 900 * ms); /* the old one still lives */
    send_at(assembler, part(0, 2, 6, 200, 50), 1899 * ms);
    cr_assert(counters(assembler).frames_dropped[SONAR_FRAME_WRONG_EPOCH] == 5);
    send_at(assembler, part(0, 2, 6, 250, 50), 1900 * ms);
    cr_assert(counters(assembler).restarts == 1);
    send_at(assembler, part(2, 2, 6, 250, 50), 1901 * ms);
    send_at(assembler, part(0, 4, 6, 300, 50), 1902 * ms);
    sonar_window w;
    cr_assert(take_all(assembler, &w) == 1);
    cr_assert(w.first_sample == 250 && w.restarted && w.epoch == 6);
    cr_assert(test_window_errors(&w, 250, 100) == 0);
    check_balance(assembler);
    sonar_assembler_destroy(assembler);
}

Test(assembler, a_lying_index_stops_the_stream_no_longer_than_restart_after) {
    static const uint64_t lies[] = {(uint64_t)1 << 60, UINT64_MAX - 5000, 100000, 0};
    for (size_t i = 0; i < 4; i++) {
        sonar_ingest_spec spec = small_spec();
        sonar_assembler *assembler = make(&spec);
        uint64_t at = 50000;
        int64_t now = 0;
        for (int f = 0; f < 10; f++, at += 50, now += 50 * ms)
            send_at(assembler, whole(5, at, 50), now);
        take_all(assembler, NULL);
        send_at(assembler, whole(5, lies[i], 50), now);
        int64_t lied = now;
        size_t windows = 0;
        sonar_window w = {0};
        for (; now <= lied + 1200 * ms; at += 50, now += 50 * ms) {
            send_at(assembler, whole(5, at, 50), now);
            windows += take_all(assembler, &w);
        }
        cr_assert(windows >= 2 && w.first_sample == at - 100, "lie %zu", i);
        cr_assert(test_window_errors(&w, w.first_sample, 100) == 0);
        check_balance(assembler);
        sonar_assembler_destroy(assembler);
    }
}

Test(assembler, one_block_far_ahead_is_counted_until_the_others_fall_silent) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    uint64_t far = sonar_ingest_capacity(&spec) + 1;
    send_at(assembler, part(0, 2, 5, 0, 50), 0);
    send_at(assembler, part(2, 2, 5, far, 50), 1 * ms);
    send_at(assembler, part(2, 2, 5, (uint64_t)1 << 60, 50), 2 * ms);
    cr_assert(counters(assembler).frames_dropped[SONAR_FRAME_AHEAD] == 2);
    send_at(assembler, part(2, 2, 5, far - 1, 50), 3 * ms); /* just within: a gap */
    cr_assert(counters(assembler).frames_accepted == 2);
    send_at(assembler, part(2, 2, 5, (uint64_t)1 << 60, 50), 1003 * ms);
    cr_assert(counters(assembler).restarts == 1);
    check_balance(assembler);
    sonar_assembler_destroy(assembler);
}

Test(assembler, a_jump_within_the_ring_is_a_gap_without_restart) {
    sonar_ingest_spec spec = small_spec();
    spec.max_missing_share = 1;
    spec.queue_windows = 20;
    sonar_assembler *assembler = make(&spec);
    send_at(assembler, whole(5, 0, 75), 0);
    send_at(assembler, whole(5, 600, 160), 1);
    sonar_window w;
    uint64_t expected = 0, zeros = 0;
    while (sonar_assembler_take(assembler, &w)) {
        cr_assert(w.window == expected && w.first_sample == 50 * expected && !w.restarted);
        expected++;
        for (uint64_t s = w.first_sample; s < w.first_sample + 100; s++) {
            bool there = s < 75 || s >= 600;
            zeros += !there;
            cr_assert(test_window_sample(&w, 3, s) == (there ? test_sample(5, 3, s) : 0));
        }
        if (w.first_sample >= 100 && w.first_sample <= 500)
            cr_assert(w.missing_mean == 1 && has_gap(&w, w.first_sample, w.first_sample + 100));
        sonar_assembler_release(assembler, &w);
    }
    cr_assert(expected == 14 && zeros > 900); /* [650, 750) was the last */
    cr_assert(counters(assembler).samples_missing == 525 * 4);
    cr_assert(counters(assembler).restarts == 0);
    sonar_assembler_destroy(assembler);
}

Test(assembler, a_silent_digitiser_comes_back_at_its_place) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    sonar_window w = {0};
    for (uint64_t f = 0; f < 60; f++) {
        int64_t now = (int64_t)f * 50 * ms;
        send_at(assembler, part(0, 2, 5, f * 50, 50), now);
        if (f < 10 || f >= 40)
            send_at(assembler, part(2, 2, 5, f * 50, 50), now);
        sonar_assembler_tick(assembler, now);
        if (f == 18)
            cr_assert(counters(assembler).blocks_silent == 0);
        if (f == 19 || f == 39)
            cr_assert(counters(assembler).blocks_silent == 1);
        take_all(assembler, &w);
        if (f == 30)
            cr_assert(w.missing[0] == 0 && w.missing[3] == 1 && fabs(w.missing_mean - 0.5) < 1e-12);
    }
    cr_assert(w.first_sample == 58 * 50 && w.missing_mean == 0);
    cr_assert(test_window_errors(&w, w.first_sample, 100) == 0);
    sonar_ingest_counters c = counters(assembler);
    cr_assert(c.blocks_silent == 0 && c.blocks_seen == 2 && c.restarts == 0);
    sonar_assembler_tick(assembler, 60 * 50 * ms + 1000 * ms); /* no frame at all */
    cr_assert(counters(assembler).blocks_silent == 2);
    sonar_assembler_destroy(assembler);
}

Test(assembler, a_gap_in_the_last_window_does_not_keep_it_back) {
    sonar_ingest_spec spec = small_spec(); /* windows of 100, hop 50, skew 60 */
    sonar_assembler *assembler = make(&spec);
    sonar_window w;
    send_at(assembler, whole(5, 0, 120), 0);
    send_at(assembler, whole(5, 130, 50), 10 * ms); /* 120 .. 129 are lost, 180 is the end */
    cr_assert(sonar_assembler_take(assembler, &w) && w.first_sample == 0);
    sonar_assembler_release(assembler, &w);
    sonar_assembler_tick(assembler, 1009 * ms);
    cr_assert(!sonar_assembler_take(assembler, &w), "they may still come");
    sonar_assembler_tick(assembler, 1010 * ms);
    cr_assert(sonar_assembler_take(assembler, &w) && w.first_sample == 50);
    cr_assert(has_gap(&w, 120, 130) && fabs(w.missing_mean - 0.1) < 1e-12);
    cr_assert(test_window_errors(&w, 50, 70) == 0 && w.arrival_ns == 10 * ms);
    sonar_assembler_release(assembler, &w);
    sonar_assembler_tick(assembler, 9000 * ms);
    cr_assert(!sonar_assembler_take(assembler, &w), "the next window is not over");
    send_at(assembler, whole(5, 120, 60),
            9000 * ms); /* the lost frames arrive after all: too late */
    cr_assert(counters(assembler).frames_dropped[SONAR_FRAME_REPEATED] == 1);
    send_at(assembler, whole(5, 180, 20), 9000 * ms);
    cr_assert(sonar_assembler_take(assembler, &w) && w.first_sample == 100);
    cr_assert(has_gap(&w, 120, 130) && w.window == 2);
    check_balance(assembler);
    sonar_assembler_destroy(assembler);
}

Test(assembler, the_end_of_a_stream_waits_for_room_in_block_mode) {
    sonar_ingest_spec spec = small_spec();
    spec.overload = SONAR_BLOCK;
    spec.queue_windows = 1;
    sonar_assembler *assembler = make(&spec);
    sonar_window w;
    send_at(assembler, whole(5, 0, 100), 0);
    send_at(assembler, whole(5, 110, 40), 0); /* a gap in the window that ends at 150 */
    sonar_assembler_tick(assembler, 2000 * ms);
    cr_assert(counters(assembler).windows_offered == 1);
    cr_assert(sonar_assembler_take(assembler, &w) && w.first_sample == 0);
    sonar_assembler_release(assembler, &w);
    cr_assert(!sonar_assembler_take(assembler, &w));
    sonar_assembler_tick(assembler, 2100 * ms);
    cr_assert(sonar_assembler_take(assembler, &w) && w.first_sample == 50 && has_gap(&w, 100, 110));
    check_balance(assembler);
    sonar_assembler_destroy(assembler);
}

Test(assembler, the_end_of_64_bits_is_reached_in_order) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    uint64_t at = UINT64_MAX - 1000 - (UINT64_MAX - 1000) % 50;
    sonar_window w = {0};
    size_t windows = 0;
    for (; at < UINT64_MAX - 60; at += 50) {
        send_at(assembler, whole(5, at, 50), 0);
        windows += take_all(assembler, &w);
    }
    cr_assert(windows >= 15 && w.first_sample == at - 100);
    cr_assert(test_window_errors(&w, w.first_sample, 100) == 0);
    for (uint64_t f = 0; f < 100; f++) /* and later frames do no harm */
        send_at(assembler, whole(5, UINT64_MAX - 1 - below(3000), 1), (int64_t)f * 100 * ms);
    take_all(assembler, NULL);
    check_balance(assembler);
    sonar_assembler_destroy(assembler);
}

Test(assembler, hostile_headers_keep_the_balance) {
    for (int trial = 0; trial < 20; trial++) {
        sonar_ingest_spec spec = small_spec();
        spec.window_length = 1 + below(200), spec.hop = 1 + below(200);
        sonar_assembler *assembler = make(&spec);
        sonar_window held[2];
        size_t holding = 0;
        for (int f = 0; f < 2000; f++) {
            static const uint64_t places[] = {0, 500, (uint64_t)1 << 33, UINT64_MAX - 4000};
            sonar_frame frame =
                part((uint32_t)below(2), 1 + (uint32_t)below(3), 1 + (uint32_t)(below(50) == 0),
                     places[below(40) ? 0 : below(4)] + (uint64_t)f + below(2000),
                     1 + (uint32_t)below(200));
            if (below(4) == 0)
                frame.first_channel = 0, frame.channels = 4;
            frame.sequence = below(8) ? (uint64_t)f : below(UINT64_MAX);
            frame.utc_ns = (int64_t)below(UINT64_MAX);
            send_at(assembler, frame, (int64_t)f * 5 * ms);
            if (below(10) == 0 && holding < 2)
                holding += sonar_assembler_take(assembler, &held[holding]);
            if (below(20) == 0 && holding)
                sonar_assembler_release(assembler, &held[--holding]);
        }
        check_balance(assembler);
        sonar_assembler_destroy(assembler);
    }
}

/* ---- overload -------------------------------------------------------------------------------- */

Test(assembler, the_oldest_waiting_window_gives_way) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    for (uint64_t f = 0; f < 11; f++)
        send_at(assembler, whole(5, f * 50, 50), 0);
    sonar_ingest_counters c = counters(assembler); /* 10 windows, 4 may wait */
    cr_assert(c.windows_offered == 10 && c.windows_dropped[SONAR_WINDOW_OVERLOAD] == 6);
    sonar_window w;
    for (uint64_t i = 6; i < 10; i++) {
        cr_assert(sonar_assembler_take(assembler, &w) && w.window == i);
        cr_assert(test_window_errors(&w, i * 50, 100) == 0);
        sonar_assembler_release(assembler, &w);
    }
    cr_assert(!sonar_assembler_take(assembler, &w));
    check_balance(assembler);
    sonar_assembler_destroy(assembler);
}

Test(assembler, what_the_data_thread_reads_is_never_overwritten) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    sonar_window held, w;
    send_at(assembler, whole(5, 0, 100), 0);
    cr_assert(sonar_assembler_take(assembler, &held));
    uint64_t at = 100;
    for (int f = 0; f < 100; f++, at += 50)
        send_at(assembler, whole(5, at, 50), f);
    cr_assert(test_window_errors(&held, 0, 100) == 0);
    uint64_t overrun = counters(assembler).frames_dropped[SONAR_FRAME_OVERRUN];
    cr_assert(overrun > 80 && overrun < 100);
    check_balance(assembler);
    sonar_assembler_release(assembler, &held);
    for (int f = 0; f < 4; f++, at += 50) /* beyond the ring by now, adopted */
        send_at(assembler, whole(5, at, 50), f);
    cr_assert(take_all(assembler, &w) && test_window_errors(&w, w.first_sample, 100) == 0);
    check_balance(assembler);
    sonar_assembler_destroy(assembler);
}

Test(assembler, what_a_window_looks_back_to_is_kept_with_it) {
    for (size_t lookback = 1; lookback < 300; lookback = 3 * lookback - 1) {
        sonar_ingest_spec spec = small_spec();
        spec.lookback = lookback;
        sonar_assembler *assembler = make(&spec);
        sonar_window held = {0};
        uint64_t at = 0;
        for (; held.lookback < lookback; at += 50) {
            if (held.slot)
                sonar_assembler_release(assembler, &held);
            send_at(assembler, whole(5, at, 50), 0);
            send_at(assembler, whole(5, at += 50, 50), 0);
            cr_assert(sonar_assembler_take(assembler, &held));
            cr_assert(held.lookback ==
                      (held.first_sample < lookback ? held.first_sample : lookback));
        }
        for (int f = 0; f < 100; f++, at += 50)
            send_at(assembler, whole(5, at, 50), f);
        cr_assert(counters(assembler).frames_dropped[SONAR_FRAME_OVERRUN] > 80);
        cr_assert(test_window_errors(&held, held.first_sample - lookback, 100 + lookback) == 0);
        sonar_assembler_destroy(assembler);
    }
}

/* A frame that fills the ring to its end, before the window with earlier samples is offered. */
Test(assembler, what_a_window_will_look_back_to_is_not_written_over) {
    sonar_ingest_spec spec = small_spec();
    spec.lookback = 190;
    spec.overload = SONAR_BLOCK;
    sonar_assembler *assembler = make(&spec);
    sonar_window w;
    send_at(assembler, whole(5, 0, 251), 0);
    cr_assert(take_all(assembler, &w) == 4);
    const sonar_frame frame = whole(5, 251, 2000);
    test_frame made = test_frame_make(&frame);
    bool placed = sonar_assembler_frame(assembler, made.header, sizeof made.header, made.payload,
                                        made.payload_bytes, 0);
    size_t windows = 0;
    for (; sonar_assembler_take(assembler, &w); windows++) {
        cr_assert(w.lookback == 190 && sonar_window_is_whole(&w, w.first_sample - 190, 290));
        cr_assert(test_window_errors(&w, w.first_sample - 190, 290) == 0);
        sonar_assembler_release(assembler, &w);
        placed = placed || sonar_assembler_resume(assembler);
    }
    cr_assert(placed && windows == 40, "%zu", windows);
    test_frame_free(&made);
    sonar_assembler_destroy(assembler);
}

Test(assembler, more_gaps_than_a_list_holds_are_made_fewer) {
    sonar_ingest_spec spec = small_spec();
    spec.window_length = spec.hop = 400;
    spec.max_missing_share = 1;
    sonar_assembler *assembler = make(&spec);
    sonar_window w;
    for (uint64_t i = 0, at = 0; i < 20; i++, at += 20) /* 20 gaps of 5, 15 apart, some 9 */
        for (uint32_t b = 0; b < 2; b++)
            send_at(assembler, part(2 * b, 2, 5, at, b && i % 5 < 4 ? 15 : b ? 9 : 20), 0);
    send_at(assembler, whole(5, 400, 100), 0);
    cr_assert(sonar_assembler_take(assembler, &w));
    cr_assert(w.gaps.count[0] == 0 && w.gaps.count[3] == SONAR_GAPS_MOST);
    for (uint64_t i = 0; i < 400; i++) { /* the shortest parts between gaps count as lost */
        bool is_short = i / 20 % 5 == 4, there = i % 20 < (is_short ? 9 : 15);
        cr_assert(sonar_window_is_whole(&w, i, 1) == there);
        cr_assert(is_lost(&w.gaps, 3, i) == (!there || is_short), "sample %d", (int)i);
    }
    sonar_assembler_release(assembler, &w);
    sonar_assembler_destroy(assembler);
}

Test(assembler, gaps_that_the_data_thread_reads_are_not_filled_again) {
    sonar_ingest_spec spec = small_spec();
    spec.max_skew_samples = 40;
    sonar_assembler *assembler = make(&spec);
    sonar_window held, w;
    send_at(assembler, whole(5, 0, 60), 0);
    send_at(assembler, whole(5, 80, 60), 0); /* a gap in [0, 100) and [50, 150) */
    cr_assert(sonar_assembler_take(assembler, &held));
    cr_assert(has_gap(&held, 60, 80));
    float *row = (float *)held.ring.data + held.ring_column; /* a mark no writer may touch */
    for (size_t i = 60; i < 80; i++)
        row[i] = 1e9f;
    cr_assert(!sonar_assembler_take(assembler, &w));
    send_at(assembler, whole(5, 140, 90), 0);
    cr_assert(sonar_assembler_take(assembler, &w));
    cr_assert(w.first_sample == 50 && fabs(w.missing_mean - 0.2) < 1e-12);
    for (size_t i = 60; i < 80; i++)
        cr_assert(row[i] == 1e9f);
    sonar_assembler_destroy(assembler);
}

Test(assembler, all_slots_in_the_readers_hands_drop_the_new_window) {
    sonar_ingest_spec spec = small_spec();
    spec.queue_windows = 1; /* two slots */
    sonar_assembler *assembler = make(&spec);
    sonar_window a, b, w;
    send_at(assembler, whole(5, 0, 100), 0);
    cr_assert(sonar_assembler_take(assembler, &a));
    send_at(assembler, whole(5, 100, 50), 0);
    cr_assert(sonar_assembler_take(assembler, &b));
    send_at(assembler, whole(5, 150, 50), 0);
    cr_assert(counters(assembler).windows_dropped[SONAR_WINDOW_OVERLOAD] == 1);
    cr_assert(!sonar_assembler_take(assembler, &w));
    cr_assert(test_window_errors(&a, 0, 100) + test_window_errors(&b, 50, 100) == 0);
    check_balance(assembler);
    sonar_assembler_destroy(assembler);
}

Test(assembler, a_frame_longer_than_the_ring_is_taken_in_parts) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    sonar_window w;
    send_at(assembler, whole(5, 7, 5000), 0);
    sonar_ingest_counters c = counters(assembler);
    cr_assert(c.samples_stored == 4 * 5000 && c.samples_missing == 0);
    cr_assert(c.windows_offered == (5007 - 50 - 100) / 50 + 1);
    cr_assert(take_all(assembler, &w) == 4 && w.first_sample == 4900);
    check_balance(assembler);
    sonar_assembler_destroy(assembler);
}

Test(assembler, block_mode_loses_nothing) {
    for (uint32_t length = 1; length <= 2000; length = length * 3 + 1) {
        sonar_ingest_spec spec = small_spec();
        spec.overload = SONAR_BLOCK;
        spec.queue_windows = 1 + below(3);
        sonar_assembler *assembler = make(&spec);
        uint64_t expected = 0, waits = 0;
        sonar_window w;
        for (uint64_t at = 0; at < 20000; at += length) {
            sonar_frame frame = whole(5, at, length);
            test_frame made = test_frame_make(&frame);
            bool placed = sonar_assembler_frame(assembler, made.header, 64, made.payload,
                                                made.payload_bytes, 0);
            while (!placed) {
                waits++;
                cr_assert(!sonar_assembler_resume(assembler), "goes on without a free slot");
                cr_assert(sonar_assembler_take(assembler, &w), "stuck");
                cr_assert(w.window == expected && w.first_sample == 50 * expected);
                cr_assert(test_window_errors(&w, w.first_sample, 100) == 0);
                expected++;
                sonar_assembler_release(assembler, &w);
                placed = sonar_assembler_resume(assembler);
            }
            test_frame_free(&made);
        }
        expected += take_all(assembler, NULL);
        sonar_ingest_counters c = counters(assembler);
        cr_assert(waits > 10 && dropped(&c) == 0 && c.samples_missing == 0);
        cr_assert(c.windows_taken == c.windows_offered && c.windows_taken == expected);
        cr_assert(expected == (20000 + length - 20000 % length - 100) / 50 + 1 ||
                  20000 % length == 0);
        sonar_assembler_destroy(assembler);
    }
}

Test(assembler, an_abandoned_frame_is_accounted_for) {
    sonar_ingest_spec spec = small_spec();
    spec.overload = SONAR_BLOCK;
    sonar_assembler *assembler = make(&spec);
    sonar_frame frame = whole(5, 0, 3000);
    test_frame made = test_frame_make(&frame);
    cr_assert(
        !sonar_assembler_frame(assembler, made.header, 64, made.payload, made.payload_bytes, 0));
    sonar_assembler_abandon(assembler);
    sonar_ingest_counters c = counters(assembler);
    cr_assert(c.frames_accepted == 1 && c.samples_stored + c.samples_late == 12000);
    cr_assert(c.samples_stored > 0 && c.samples_late > 0);
    check_balance(assembler);
    test_frame_free(&made);
    sonar_assembler_destroy(assembler);
}

/* ---- time, sequence, masks ------------------------------------------------------------------- */

Test(assembler, the_time_of_a_window_is_that_of_its_first_sample) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    const int64_t zero = 1763654400123456789;
    sonar_window w;
    for (uint64_t f = 0; f < 20; f++)
        for (uint32_t b = 0; b < 2; b++) {
            sonar_frame frame = part(f % 2 ? 2 * b : 2 - 2 * b, 2, 5, 13 + f * 70, 70);
            frame.utc_ns =
                zero + (int64_t)frame.first_sample * ms + (frame.first_channel ? 777 : 0);
            send_at(assembler, frame, 0);
            while (sonar_assembler_take(assembler, &w)) {
                cr_assert(w.utc_ns == zero + (int64_t)w.first_sample * ms);
                sonar_assembler_release(assembler, &w);
            }
        }
    cr_assert(counters(assembler).windows_taken > 20);
    for (uint64_t f = 20; f < 24; f++) { /* unknown from here: counted on */
        send_at(assembler, whole(5, 13 + f * 70, 70), 0);
        while (sonar_assembler_take(assembler, &w)) {
            cr_assert(w.utc_ns == zero + (int64_t)w.first_sample * ms);
            sonar_assembler_release(assembler, &w);
        }
    }
    send_at(assembler, whole(6, 0, 100), 0);
    cr_assert(sonar_assembler_take(assembler, &w) && w.restarted && w.utc_ns == 0);
    sonar_assembler_destroy(assembler);
}

Test(assembler, a_window_arrives_with_its_last_frame) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    sonar_window w;
    for (int64_t f = 0; f < 3; f++)
        send_at(assembler, whole(5, (uint64_t)f * 50, 50), (f + 1) * ms);
    cr_assert(sonar_assembler_take(assembler, &w) && w.arrival_ns == 2 * ms);
    cr_assert(sonar_assembler_take(assembler, &w) && w.arrival_ns == 3 * ms);
    cr_assert(counters(assembler).last_frame_ns == 3 * ms);
    sonar_assembler_destroy(assembler);
}

Test(assembler, sequence_gaps_are_frames_that_never_came) {
    /* a number far ahead is accepted once another one follows on it */
    static const uint64_t order[] = {10, 11, 14, 13,  16,  16, 9,   80, 81,
                                     17, 18, 82, 200, 202, 12, 203, 210};
    static const uint64_t gaps[] = {0, 0, 2, 1, 2, 2, 2, 2, 65, 65, 64, 64, 64, 182, 182, 182, 188};
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        sonar_frame frame = part(0, 2, 5, i * 10, 10);
        frame.sequence = order[i];
        send_at(assembler, frame, 0);
        cr_assert(counters(assembler).sequence_gaps == gaps[i], "after %zu: %lu", i,
                  (unsigned long)counters(assembler).sequence_gaps);
        frame = part(2, 2, 5, i * 10, 10), frame.sequence = i; /* another block, no gap */
        send_at(assembler, frame, 0);
    }
    sonar_assembler_destroy(assembler);
}

/* Flips every bit of one frame's number in turn: at most one frame counts as lost because of it,
 * and later losses are counted correctly. */
Test(assembler, one_flipped_bit_of_a_sequence_hides_no_loss) {
    for (int bit = 0; bit < 64; bit++)
        for (uint64_t at = 0; at < 120; at += 40) { /* the very first one, too */
            sonar_ingest_spec spec = small_spec();
            sonar_assembler *assembler = make(&spec);
            for (uint64_t f = 0; f < 400; f++) {
                sonar_frame frame = whole(5, f * 10, 10);
                frame.sequence = 1000 + f;
                if (f == at)
                    frame.sequence ^= (uint64_t)1 << bit;
                if (f != 300 && f != 350 && f != 351)
                    send_at(assembler, frame, 0);
            }
            uint64_t lost = counters(assembler).sequence_gaps;
            uint64_t most = at || bit > 9 ? 4 : 3 + (1ul << bit); /* the first may be right */
            cr_assert(lost >= 3 && lost <= most, "bit %d of frame %lu: %lu lost", bit,
                      (unsigned long)at, (unsigned long)lost);
            sonar_assembler_destroy(assembler);
        }
}

Test(assembler, a_long_loss_and_a_restarted_counter_are_distinguished) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    uint64_t at = 0;
    sonar_frame frame;
    static const struct {
        uint64_t sequence, frames, lost;
    } run[] = {{0, 10, 0},
               {5009, 10, 4999},
               {5020, 80, 5000},
               {0, 100, 5000},
               {101, 5, 5001},
               {(uint64_t)1 << 40, 5, 5001},
               {((uint64_t)1 << 40) + 6, 5, 5002}};
    for (size_t i = 0; i < sizeof run / sizeof *run; i++) {
        for (uint64_t f = 0; f < run[i].frames; f++) {
            frame = whole(5, at, 10), at += 10;
            frame.sequence = run[i].sequence + f;
            send_at(assembler, frame, 0);
        }
        cr_expect_eq(counters(assembler).sequence_gaps, run[i].lost, "run %zu: %lu", i,
                     (unsigned long)counters(assembler).sequence_gaps);
    }
    sonar_assembler_destroy(assembler);
}

/* A block that is not of this stream cannot become silent in it. */
Test(assembler, stray_frames_of_other_blocks_make_no_block_known) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    for (uint64_t f = 0; f < 40; f++) {
        int64_t now = (int64_t)f * 50 * ms;
        send_at(assembler, whole(5, f * 50, 50), now);
        if (f == 10) {
            send_at(assembler, part(1, 2, 4, f * 50, 50), now);    /* of another epoch */
            send_at(assembler, part(2, 2, 5, f * 50000, 50), now); /* far ahead */
        }
        sonar_assembler_tick(assembler, now);
    }
    sonar_ingest_counters c = counters(assembler);
    cr_assert(c.frames_dropped[SONAR_FRAME_WRONG_EPOCH] == 1);
    cr_assert(c.frames_dropped[SONAR_FRAME_AHEAD] == 1);
    cr_assert(c.blocks_seen == 1 && c.blocks_silent == 0);
    sonar_assembler_destroy(assembler);
}

/* Its last frame is its first one after the silence: it has not taken its own place. */
Test(assembler, a_digitiser_that_comes_back_with_one_frame_is_silent_again) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    sonar_window w = {0};
    for (uint64_t f = 0; f < 60; f++) {
        const int64_t now = (int64_t)f * 50 * ms;
        send_at(assembler, part(0, 2, 5, f * 50, 50), now);
        if (f < 10 || f == 30)
            send_at(assembler, part(2, 2, 5, f * 50, 50), now);
        sonar_assembler_tick(assembler, now);
        if (f == 29 || f == 30 || f == 59)
            cr_expect_eq(counters(assembler).blocks_silent, f != 30, "frame %d", (int)f);
        take_all(assembler, &w);
    }
    sonar_assembler_destroy(assembler);
}

/* A block that was received once has a wrong shape and does not count as silent when it does not
 * return. One that was received twice does. */
Test(assembler, one_frame_of_another_shape_makes_no_block_that_falls_silent) {
    for (uint64_t frames = 1; frames <= 2; frames++) {
        sonar_ingest_spec spec = small_spec();
        sonar_assembler *assembler = make(&spec);
        for (uint64_t f = 0; f < 40; f++) {
            int64_t now = (int64_t)f * 50 * ms;
            send_at(assembler, part(0, 2, 5, f * 50, 50), now);
            if (f >= 10 && f < 10 + frames)
                send_at(assembler, part(1, 2, 5, f * 50, 50), now);
            send_at(assembler, part(2, 2, 5, f * 50, 50), now);
            sonar_assembler_tick(assembler, now);
        }
        sonar_ingest_counters c = counters(assembler);
        cr_assert_eq(c.frames_accepted, 80 + frames - c.frames_dropped[SONAR_FRAME_REPEATED]);
        cr_assert_eq(c.blocks_silent, frames - 1);
        sonar_assembler_destroy(assembler);
    }
}

static sonar_ingest_report report_of(sonar_assembler *assembler, bool read) {
    sonar_ingest_report report;
    sonar_assembler_report(assembler, read, &report);
    return report;
}

/* The silent blocks of the report, as judged by the health. */
static size_t missed_in_report(sonar_assembler *assembler, int64_t silent_after_ns) {
    const sonar_ingest_report r = report_of(assembler, true);
    size_t missed = 0;
    for (size_t i = 0; i < r.blocks; i++)
        missed += !r.block[i].passed && r.made_ns - r.block[i].heard_ns >= silent_after_ns;
    return missed;
}

Test(assembler, the_report_misses_no_block_that_came_in_one_frame_alone) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    for (uint64_t f = 0; f < 40; f++) {
        int64_t now = (int64_t)f * 50 * ms;
        send_at(assembler, whole(5, f * 50, 50), now);
        if (f == 10)
            send_at(assembler, part(1, 2, 5, f * 50, 50), now);
        sonar_assembler_tick(assembler, now);
    }
    cr_assert_eq(counters(assembler).blocks_seen, 2);
    cr_assert_eq(missed_in_report(assembler, 500 * ms), 0);
    sonar_assembler_destroy(assembler);
}

/* Channels 2 and 3 come as one block, then each by itself, then as one again; at last without 3. */
Test(assembler, a_digitiser_that_returns_with_other_channels_is_not_missed_as_it_was) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    for (uint64_t f = 0; f < 160; f++) {
        int64_t now = (int64_t)f * 50 * ms;
        send_at(assembler, part(0, 2, 5, f * 50, 50), now);
        if (f < 40 || (f >= 80 && f < 120))
            send_at(assembler, part(2, 2, 5, f * 50, 50), now);
        else
            send_at(assembler, part(2, 1, 5, f * 50, 50), now);
        if (f >= 40 && f < 80)
            send_at(assembler, part(3, 1, 5, f * 50, 50), now);
        sonar_assembler_tick(assembler, now);
        if (f == 79 || f == 119 || f == 159) {
            cr_expect_eq(counters(assembler).blocks_silent, f == 159, "frame %d", (int)f);
            cr_expect_eq(missed_in_report(assembler, 500 * ms), f == 159, "frame %d", (int)f);
        }
    }
    sonar_assembler_destroy(assembler);
}

/* Frames of always different shapes fill the table of blocks, but a digitiser still finds a place.
 */
Test(assembler, frames_of_other_shapes_leave_room_for_blocks) {
    enum { CHANNELS = 4096 };
    sonar_ingest_spec spec = small_spec();
    spec.channels = CHANNELS;
    sonar_assembler *assembler = make(&spec);
    for (uint32_t k = 0; k < SONAR_BLOCKS_MOST + 10; k++)
        send_at(assembler, part(k, 1, 5, 0, 10), 0);
    for (uint64_t f = 1; f < 20; f++) {
        send_at(assembler, part(3, CHANNELS - 3, 5, f * 10, 10), (int64_t)f * 10 * ms);
        sonar_assembler_tick(assembler, (int64_t)f * 10 * ms);
    }
    sonar_assembler_tick(assembler, 2000 * ms);
    cr_assert_eq(counters(assembler).blocks_silent,
                 1); /* the block that was received more than once */
    sonar_assembler_destroy(assembler);
}

/* A known block that only sends frames of another epoch is silent in this one. */
Test(assembler, a_block_that_went_to_another_epoch_is_silent_in_this_one) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    for (uint64_t f = 0; f < 40; f++) {
        int64_t now = (int64_t)f * 50 * ms;
        send_at(assembler, part(0, 2, 5, f * 50, 50), now);
        send_at(assembler, part(2, 2, f < 10 ? 5 : 6, f * 50, 50), now);
        sonar_assembler_tick(assembler, now);
    }
    sonar_ingest_counters c = counters(assembler);
    cr_assert(c.frames_dropped[SONAR_FRAME_WRONG_EPOCH] == 30);
    cr_assert(c.blocks_seen == 2 && c.blocks_silent == 1);
    sonar_assembler_destroy(assembler);
}

static void send_value(sonar_assembler *assembler, uint64_t first, float value, size_t at) {
    const sonar_frame frame = whole(5, first, 10);
    float payload[40] = {[3] = 1, [5] = 0.5f};
    uint8_t header[SONAR_FRAME_HEADER_BYTES];
    payload[at] = value;
    sonar_frame_encode(&frame, header);
    cr_assert(sonar_assembler_frame(assembler, header, sizeof header, payload, sizeof payload, 0));
}

Test(assembler, a_sample_beyond_the_limit_drops_its_frame_by_a_cause_of_its_own) {
    sonar_ingest_spec spec = small_spec();
    spec.most_sample = 1e6f;
    sonar_assembler *assembler = make(&spec);
    const float within[] = {1e6f, -1e6f, 0, 1e-45f}, beyond[] = {1.0000001e6f, -1e30f, 3.4e38f};
    uint64_t first = 0;
    for (size_t i = 0; i < 120; i++, first += 10) {
        send_value(assembler, first, within[i % 4], i % 40);
        cr_assert_eq(counters(assembler).frames_accepted, i + 1);
    }
    for (size_t i = 0; i < 120; i++, first += 10) {
        send_value(assembler, first, beyond[i % 3], i % 40);
        cr_assert_eq(counters(assembler).frames_dropped[SONAR_FRAME_OUT_OF_RANGE], i + 1);
    }
    send_value(assembler, first, INFINITY, 7);
    send_value(assembler, first, -NAN, 39);
    cr_assert_eq(counters(assembler).frames_dropped[SONAR_FRAME_NOT_FINITE], 2);
    cr_assert_eq(counters(assembler).frames_accepted, 120);
    sonar_assembler_destroy(assembler);
    spec.most_sample = 0; /* any that is finite */
    assembler = make(&spec);
    send_value(assembler, 0, -3.4e38f, 0);
    send_value(assembler, 10, INFINITY, 0);
    cr_assert_eq(counters(assembler).frames_accepted, 1);
    cr_assert_eq(counters(assembler).frames_dropped[SONAR_FRAME_NOT_FINITE], 1);
    sonar_assembler_destroy(assembler);
}

/* Loud integers are accepted, also as floats from a recording; a value among them that no integer
 * has is a wrong bit. */
Test(assembler, integers_beyond_the_limit_are_taken_as_floats_too) {
    sonar_ingest_spec spec = small_spec();
    spec.most_sample = 1000;
    sonar_assembler *assembler = make(&spec);
    const float last[] = {-0x1p31f, 0, 7, 0x1.8p31f, 0.5f, 1e30f};
    for (uint64_t f = 0; f < 6; f++) {
        const sonar_frame frame = whole(5, f * 10, 10);
        uint8_t header[SONAR_FRAME_HEADER_BYTES];
        float payload[40];
        for (size_t i = 0; i < 40; i++)
            payload[i] = (float)below(2001) * 1e6f - 1e9f;
        payload[17] = last[f];
        sonar_frame_encode(&frame, header);
        cr_assert(
            sonar_assembler_frame(assembler, header, sizeof header, payload, sizeof payload, 0));
        cr_assert_eq(counters(assembler).frames_accepted, f < 3 ? f + 1 : 3);
        cr_assert_eq(counters(assembler).frames_dropped[SONAR_FRAME_OUT_OF_RANGE],
                     f < 3 ? 0 : f - 2);
    }
    sonar_assembler_destroy(assembler);
}

/* A bit of the exponent of one sample: 2^16 or 2^32 times too large, within the limit. */
Test(assembler, one_wrong_bit_far_above_the_level_drops_its_frame) {
    sonar_ingest_spec spec = small_spec();
    spec.drop_spikes = true;
    sonar_assembler *assembler = make(&spec);
    uint8_t header[SONAR_FRAME_HEADER_BYTES];
    uint64_t accepted = 0, dropped = 0;
    for (uint64_t f = 0; f < 300; f++) {
        const sonar_frame frame = whole(5, f * 10, 10);
        float payload[40];
        for (size_t i = 0; i < 40; i++)
            payload[i] = (float)below(2001) - 1000 + 0.5f;
        size_t at = 4 + below(32); /* neither the first nor the last of its channel */
        bool wrong = f % 3 == 2, loud = f % 3 == 0 && f > 150;
        if (wrong)
            payload[at] = ldexpf(1000, f & 1 ? 16 : 32);
        for (size_t i = 20; i < 40 && loud; i++) /* a bang, 80 dB above the rest, is sound */
            payload[i] *= 1e4f;
        sonar_frame_encode(&frame, header);
        cr_assert(
            sonar_assembler_frame(assembler, header, sizeof header, payload, sizeof payload, 0));
        accepted += !wrong, dropped += wrong;
        sonar_ingest_counters c = counters(assembler);
        cr_assert_eq(c.frames_accepted, accepted, "frame %lu", (unsigned long)f);
        cr_assert_eq(c.frames_dropped[SONAR_FRAME_OUT_OF_RANGE], dropped);
    }
    sonar_assembler_destroy(assembler);
}

Test(assembler, masked_channels_neither_delay_nor_count) {
    const uint8_t used[4] = {1, 0, 1, 0};
    sonar_ingest_spec spec = small_spec();
    spec.channel_used = used;
    sonar_assembler *assembler = make(&spec);
    sonar_window w;
    send_at(assembler, part(0, 1, 5, 0, 100), 0);
    send_at(assembler, part(2, 1, 5, 0, 100), 0);
    cr_assert(sonar_assembler_take(assembler, &w));
    cr_assert(w.missing_mean == 0 && w.missing_worst == 0 && !w.gaps.count && !w.lacks);
    cr_assert(w.missing[0] == 0 && w.missing[1] == 1 && w.missing[3] == 1);
    cr_assert(test_window_sample(&w, 1, 50) == 0);
    cr_assert(counters(assembler).samples_missing == 0);
    sonar_assembler_destroy(assembler);
}

Test(assembler, impossible_specs_are_refused) {
    const uint8_t none[4] = {0};
    sonar_ingest_spec bad[12];
    for (size_t i = 0; i < 12; i++)
        bad[i] = small_spec();
    bad[0].channels = 0, bad[1].channel_used = none, bad[2].fs_hz = 0, bad[3].fs_hz = NAN;
    bad[4].window_length = 0, bad[5].hop = 0, bad[6].queue_windows = 0;
    bad[7].max_missing_share = NAN, bad[8].max_missing_share = 1.5;
    bad[9].queue_windows = SIZE_MAX / 2, bad[10].window_length = SIZE_MAX - 5;
    bad[11].max_skew_samples = SIZE_MAX / 8;
    for (size_t i = 0; i < 12; i++) {
        sonar_assembler *assembler;
        sonar_error err = {0};
        cr_assert(sonar_assembler_create(&bad[i], &assembler, &err) ==
                      (i < 9 ? SONAR_EINVAL : SONAR_ENOMEM),
                  "spec %zu", i);
        cr_assert(!assembler && err.text[0]);
    }
}

Test(assembler, causes_have_distinct_names) {
    for (int i = 0; i < SONAR_FRAME_CAUSES; i++)
        for (int j = 0; j < i; j++)
            cr_assert(strcmp(sonar_frame_cause_name((sonar_frame_cause)i),
                             sonar_frame_cause_name((sonar_frame_cause)j)));
    cr_assert(!strcmp(sonar_frame_cause_name(SONAR_FRAME_LATE), "late"));
    cr_assert(!strcmp(sonar_window_cause_name(SONAR_WINDOW_SKIPPED), "skipped"));
    cr_assert(!strcmp(sonar_window_cause_name((sonar_window_cause)99), "unknown"));
}

/* ---- reports --------------------------------------------------------------------------------- */

static void check_set(const sonar_channel_set *set, const char *want) {
    char text[80];
    cr_expect_str_eq(sonar_channel_set_print(set, text, sizeof text), want);
}

Test(assembler, reports_channels_that_were_never_fed) {
    uint8_t used[4] = {1, 1, 0, 1};
    sonar_ingest_spec spec = small_spec();
    spec.channel_used = used;
    sonar_assembler *assembler = make(&spec);
    cr_expect_eq(report_of(assembler, true).timeline, 0);
    send_at(assembler, part(0, 1, 5, 0, 50), 7 * ms);
    sonar_ingest_report r = report_of(assembler, true);
    cr_expect(r.timeline == 1 && r.adopted_ns == 7 * ms && r.made_ns == 7 * ms);
    check_set(&r.unfed, "1, 3");
    send_at(assembler, part(3, 1, 5, 0, 50), 8 * ms);
    r = report_of(assembler, true);
    check_set(&r.unfed, "1");
    send_at(assembler, part(1, 2, 5, 0, 50), 9 * ms);
    r = report_of(assembler, true);
    check_set(&r.unfed, "");
    send_at(assembler, whole(6, 0, 0 + 1), 10 * ms); /* another stream has all of them at once */
    r = report_of(assembler, true);
    check_set(&r.unfed, "");
    cr_expect_eq(r.timeline, 2);
    sonar_assembler_destroy(assembler);
}

Test(assembler, a_new_stream_has_to_feed_all_channels_again) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    send_at(assembler, whole(5, 0, 50), 0);
    sonar_ingest_report r = report_of(assembler, true);
    check_set(&r.unfed, "");
    send_at(assembler, part(1, 2, 6, 0, 50), 2000 * ms); /* after a silence */
    r = report_of(assembler, true);
    cr_expect_eq(r.timeline, 2);
    check_set(&r.unfed, "0, 3");
    cr_expect_eq(r.blocks, 1, "the old stream's blocks are gone");
    sonar_assembler_destroy(assembler);
}

Test(assembler, reports_losses_by_channel_until_they_are_read) {
    sonar_ingest_spec spec = small_spec();
    spec.max_missing_share = 1;
    sonar_assembler *assembler = make(&spec);
    send_at(assembler, whole(5, 0, 100), 0);
    take_all(assembler, NULL);
    sonar_ingest_report r = report_of(assembler, true);
    check_set(&r.lacking, "");
    send_at(assembler, part(0, 2, 5, 100, 100), 1 * ms);
    send_at(assembler, part(2, 1, 5, 120, 80), 1 * ms);
    send_at(assembler, part(3, 1, 5, 190, 10), 1 * ms);
    send_at(assembler, part(0, 2, 5, 200, 60), 2 * ms); /* [50, 150) and [100, 200) are given up */
    take_all(assembler, NULL);
    for (int i = 0; i < 3; i++) {
        r = report_of(assembler, false);
        check_set(&r.lacking, "2-3");
        cr_expect_float_eq(r.lacking_share, 0.9, 1e-6, "of [100, 200): %g", r.lacking_share);
        cr_expect_eq(r.samples_missing, 20 + 90);
        cr_expect_eq(r.decided_ns, 2 * ms);
        check_set(&r.unfed, "");
    }
    r = report_of(assembler, true);
    check_set(&r.lacking, "");
    cr_expect_eq(r.samples_missing, 110);
    /* lost between that report and the next: reported, although earlier windows were read */
    send_at(assembler, part(0, 3, 5, 260, 50), 3 * ms);
    take_all(assembler, NULL);
    r = report_of(assembler, true);
    check_set(&r.lacking, "2-3");
    r = report_of(assembler, true);
    check_set(&r.lacking, "");
    sonar_assembler_destroy(assembler);
}

Test(assembler, reports_whom_a_window_waits_for) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    send_at(assembler, whole(5, 0, 40), 0);
    sonar_ingest_report r = report_of(assembler, true);
    check_set(&r.awaited, ""); /* no block is at its end */
    send_at(assembler, part(0, 3, 5, 40, 70), 0);
    r = report_of(assembler, true);
    check_set(&r.awaited, "3");
    cr_expect(r.window_sample == 0 && r.newest_sample == 110 && r.decided_ns == 0);
    send_at(assembler, part(3, 1, 5, 40, 70), 5 * ms);
    r = report_of(assembler, true);
    check_set(&r.awaited, "");
    cr_expect(r.window_sample == 50 && r.decided_ns == 5 * ms);
    sonar_assembler_destroy(assembler);
}

static sonar_frame timed(sonar_frame frame, uint64_t sequence, int64_t utc_ns) {
    frame.sequence = sequence;
    frame.utc_ns = utc_ns;
    return frame;
}

Test(assembler, reports_how_far_each_block_has_come_and_its_time) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    const int64_t utc = 1763654400123456789;
    send_at(assembler, timed(part(2, 2, 5, 0, 50), 1, 0), 1 * ms);
    send_at(assembler, timed(part(0, 2, 5, 0, 20), 9, utc), 2 * ms);
    send_at(assembler, timed(part(0, 2, 5, 20, 30), 10, utc + 20 * ms), 3 * ms);
    sonar_ingest_report r = report_of(assembler, true);
    cr_assert_eq(r.blocks, 2);
    const sonar_block_report *a = &r.block[0], *b = &r.block[1];
    cr_expect(a->first_channel == 2 && a->channels == 2 && a->frames == 1 && a->samples == 50);
    cr_expect(a->end_sample == 50 && a->end_ns == 1 * ms && a->end_utc_ns == 0);
    cr_expect(b->first_channel == 0 && b->frames == 2 && b->heard_ns == 3 * ms);
    cr_expect(b->begin_sample == 20 && b->begin_ns == 2 * ms);
    cr_expect(b->end_sample == 50 && b->end_ns == 3 * ms);
    cr_expect(b->utc_ns == utc + 20 * ms && b->end_utc_ns == utc + 50 * ms);
    cr_expect(b->step == 20 && b->step_over == 20);
    cr_expect_eq(counters(assembler).index_jumps, 0);
    sonar_assembler_destroy(assembler);
}

Test(assembler, an_index_that_counts_frames_is_counted) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    for (uint64_t i = 0; i < 10; i++)
        send_at(assembler, timed(whole(5, i, 40), i, 0), (int64_t)i);
    cr_expect_eq(counters(assembler).index_jumps, 9);
    sonar_ingest_report r = report_of(assembler, true);
    cr_expect(r.block[0].step == 1 && r.block[0].step_over == 40);
    sonar_assembler_destroy(assembler);
}

Test(assembler, lost_and_reordered_frames_are_no_jumps_of_the_index) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    const uint64_t order[] = {0, 1, 3, 2, 4, 8, 9, 9, 10};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        send_at(assembler, timed(whole(5, order[i] * 40, 40), order[i], 0), (int64_t)i);
    cr_expect_eq(counters(assembler).index_jumps, 0);
    sonar_assembler_destroy(assembler);
}

Test(assembler, flags_of_frames_are_counted) {
    sonar_ingest_spec spec = small_spec();
    sonar_assembler *assembler = make(&spec);
    sonar_frame frame = whole(5, 0, 40);
    frame.flags = SONAR_FRAME_DISCONTINUITY;
    send_at(assembler, frame, 0);
    sonar_ingest_counters c = counters(assembler);
    cr_expect(c.discontinuities == 1 && c.digitiser_overload == 0 && c.clock_unsynchronised == 0);
    sonar_assembler_destroy(assembler);
}

Test(assembler, frames_that_wait_are_counted_once_and_reported) {
    sonar_ingest_spec spec = small_spec();
    spec.overload = SONAR_BLOCK;
    spec.queue_windows = 1;
    sonar_assembler *assembler = make(&spec);
    sonar_frame frame = whole(5, 0, 1000);
    test_frame made = test_frame_make(&frame);
    bool placed = sonar_assembler_frame(assembler, made.header, sizeof made.header, made.payload,
                                        made.payload_bytes, 0);
    cr_assert(!placed);
    cr_expect(report_of(assembler, true).held);
    for (int i = 0; !placed && i < 100; i++) {
        take_all(assembler, NULL);
        placed = sonar_assembler_resume(assembler);
    }
    cr_assert(placed);
    cr_expect(!report_of(assembler, true).held);
    cr_expect_eq(counters(assembler).frames_held, 1);
    test_frame_free(&made);
    sonar_assembler_destroy(assembler);
}

/* ---- samples handed on ----------------------------------------------------------------------- */

enum { KEPT = 6000, KEPT_CHANNELS = 5 };

/* The samples passed to a sink, by channel and index of the one stream. */
struct kept {
    uint64_t next, stretches;
    uint8_t there[KEPT_CHANNELS][KEPT], lacks[KEPT_CHANNELS][KEPT];
    uint32_t flags[KEPT];
    size_t wrong, flushes;
    bool off;
};

static bool keep_wants(void *ctx) {
    return !((struct kept *)ctx)->off;
}

static void keep_flush(void *ctx) {
    ((struct kept *)ctx)->flushes++;
}

static void keep_take(void *ctx, const sonar_stretch *s) {
    struct kept *kept = ctx;
    cr_assert(s->first_sample >= kept->next && s->first_sample + s->samples <= KEPT,
              "sample %llu after %llu", (unsigned long long)s->first_sample,
              (unsigned long long)kept->next);
    cr_assert_leq(s->lacks, sonar_stretch_lacks_most(KEPT_CHANNELS));
    for (size_t i = 0; i < s->lacks; i++) {
        const sonar_lack *l = &s->lack[i];
        cr_assert(l->begin < l->end && l->end <= s->samples);
        for (uint32_t k = l->first_channel; k < l->first_channel + l->channels; k++)
            for (uint32_t n = l->begin; n < l->end; n++)
                kept->lacks[k][s->first_sample + n]++;
    }
    for (size_t k = 0; k < KEPT_CHANNELS; k++)
        for (size_t n = 0; n < s->samples; n++) {
            const uint64_t index = s->first_sample + n;
            const size_t column = (s->column + n) % s->ring.shape[1];
            const float have = ((const float *)s->ring.data)[k * s->ring.shape[1] + column];
            kept->there[k][index]++;
            kept->flags[index] = s->flags;
            kept->wrong += !kept->lacks[k][index] && have != test_sample(s->epoch, k, index);
        }
    kept->next = s->first_sample + s->samples;
    kept->stretches++;
}

/* Three blocks that lose frames independently, split anywhere, with changing flags: the sink gets
 * each sample once and in order, and exactly the missing samples are reported. */
Test(assembler, every_sample_is_handed_on_once_with_what_is_missing) {
    static const size_t first[] = {0, 2, 3}, channels[] = {2, 1, 2};
    for (int round = 0; round < 30; round++) {
        struct kept *kept = calloc(1, sizeof *kept);
        uint8_t(*sent)[KEPT] = calloc(KEPT_CHANNELS, KEPT);
        uint32_t *flags = calloc(KEPT, sizeof *flags);
        const sonar_stretch_sink sink = {kept, keep_wants, keep_take, keep_flush};
        sonar_ingest_spec spec = small_spec();
        spec.channels = KEPT_CHANNELS;
        spec.max_skew_samples = 200;
        spec.sink = &sink;
        const bool crumbs = round % 3 == 0; /* more gaps in a window than a piece can have */
        if (crumbs)
            spec.window_length = spec.hop = 500;
        sonar_assembler *assembler = make(&spec);
        const uint64_t begin = spec.hop * below(3), end = KEPT - 500;
        uint64_t at[3] = {begin, begin, begin}, newest = 0;
        for (int64_t now = ms; at[0] < end || at[1] < end || at[2] < end; now += ms) {
            const size_t b = at[0] <= at[1] && at[0] <= at[2] ? 0 : at[1] <= at[2] ? 1 : 2;
            sonar_frame frame = part((uint32_t)first[b], (uint32_t)channels[b], 1, at[b],
                                     1 + (crumbs ? 0 : (uint32_t)below(60)));
            frame.flags = (uint16_t)(crumbs || below(8) ? 0 : below(8));
            at[b] += frame.samples;
            if (!below(crumbs ? 2 : 6) && frame.first_sample > begin)
                continue;
            send_at(assembler, frame, now);
            newest = at[b] > newest ? at[b] : newest;
            for (size_t k = first[b]; k < first[b] + channels[b]; k++)
                for (uint64_t n = frame.first_sample; n < at[b]; n++)
                    sent[k][n] = 1;
            for (uint64_t n = frame.first_sample; n < at[b]; n++)
                flags[n] |= frame.flags;
            if (!below(4))
                sonar_assembler_tick(assembler, now);
            for (sonar_window window; sonar_assembler_take(assembler, &window);)
                sonar_assembler_release(assembler, &window);
        }
        sonar_assembler_end(assembler);
        const sonar_ingest_counters c = counters(assembler);
        cr_assert_eq(c.samples_late, 0, "the model knows of none");
        size_t wrong = 0;
        for (uint64_t n = begin; n < newest; n++) {
            bool any = false;
            for (size_t k = 0; k < KEPT_CHANNELS; k++)
                any = any || sent[k][n];
            for (size_t k = 0; k < KEPT_CHANNELS; k++)
                wrong += any && (kept->there[k][n] != 1 || kept->lacks[k][n] == sent[k][n]);
            wrong += any && kept->flags[n] != flags[n];
        }
        cr_expect_eq(wrong, 0, "round %d: %zu samples of %llu", round, wrong,
                     (unsigned long long)(newest - begin));
        cr_expect_eq(kept->wrong, 0, "round %d: %zu values", round, kept->wrong);
        cr_expect(kept->next == newest && kept->flushes > 10);
        sonar_assembler_destroy(assembler);
        free(kept);
        free(sent);
        free(flags);
    }
}

/* A sink that is off gets no samples, and later only new ones. */
Test(assembler, a_sink_gets_samples_from_when_it_wants_them) {
    static struct kept kept;
    const sonar_stretch_sink sink = {&kept, keep_wants, keep_take, keep_flush};
    sonar_ingest_spec spec = small_spec();
    spec.channels = KEPT_CHANNELS;
    spec.sink = &sink;
    spec.queue_windows = 100;
    sonar_assembler *assembler = make(&spec);
    kept.off = true;
    for (uint64_t n = 0; n < 1000; n += 100) {
        sonar_assembler_tick(assembler, (int64_t)n * ms);
        if (n == 500)
            kept.off = false;
        cr_expect(n <= 500 ? !kept.stretches : kept.next == n, "%llu", (unsigned long long)n);
        send_at(assembler, part(0, KEPT_CHANNELS, 1, n, 100), (int64_t)n * ms);
    }
    sonar_assembler_end(assembler);
    cr_expect(kept.next == 1000 && !kept.there[0][499] && kept.there[0][500] && !kept.wrong);
    sonar_assembler_destroy(assembler);
}
