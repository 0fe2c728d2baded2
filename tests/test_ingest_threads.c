/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The assembler fed by several threads, compared with one fed by a single thread, the oracle: for
 * any input both store the same and offer the same bytes, at the same frame. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "frames.h"
#include "ingest/assembler.h"

enum { CHANNELS_MOST = 700, BATCH_MOST = 40, SIDES = 4, THREADS_MOST = 5 };

static const size_t thread_counts[SIDES] = {1, 2, 3, THREADS_MOST};
static const int64_t ms = 1000000;
static uint64_t state = 0x13198a2e03707344u;

static uint64_t below(uint64_t limit) {
    return sonar_random_bits(&state) % limit;
}

struct scene {
    sonar_ingest_spec spec;
    uint8_t used[CHANNELS_MOST];
    uint64_t next[CHANNELS_MOST]; /* [first channel of a block] sample that it sends next */
    uint32_t edge[CHANNELS_MOST + 1];
    size_t blocks;
    uint32_t epoch, longest;
    int64_t now_ns;
    uint64_t offset; /* from a sample's index to its place, in offset_epoch */
    uint32_t offset_epoch;
    sonar_assembler *side[SIDES];
    test_frame batch[BATCH_MOST]; /* frames that are sent at once */
    int64_t at_ns[BATCH_MOST];
    size_t batched, done[SIDES]; /* by each side */
    uint64_t beside;             /* frames that several threads booked concurrently */
};

/* ---- comparisons ----------------------------------------------------------------------------- */

static void compare_counters(const struct scene *s) {
    sonar_ingest_counters want = {0}, got = {0};
    sonar_assembler_read_counters(s->side[0], &want);
    for (size_t i = 1; i < SIDES; i++) {
        memset(&got, 0, sizeof got);
        sonar_assembler_read_counters(s->side[i], &got);
        cr_assert(got.frames_accepted == want.frames_accepted);
        cr_assert(got.samples_stored == want.samples_stored);
        cr_assert(got.samples_repeated == want.samples_repeated);
        cr_assert(got.samples_late == want.samples_late);
        cr_assert(got.samples_missing == want.samples_missing);
        cr_assert(got.sequence_gaps == want.sequence_gaps && got.restarts == want.restarts);
        cr_assert(got.windows_offered == want.windows_offered);
        cr_assert(got.windows_taken == want.windows_taken);
        cr_assert(!memcmp(got.frames_dropped, want.frames_dropped, sizeof got.frames_dropped));
        cr_assert(!memcmp(got.windows_dropped, want.windows_dropped, sizeof got.windows_dropped));
        cr_assert(sonar_assembler_ready(s->side[i]) == sonar_assembler_ready(s->side[0]));
        cr_assert(sonar_assembler_waiting(s->side[i]) == sonar_assembler_waiting(s->side[0]));
    }
}

static void compare_losses(const struct scene *s, const sonar_window *want,
                           const sonar_window *got) {
    size_t lookback = want->lookback, samples = lookback + s->spec.window_length;
    cr_assert(got->lookback == lookback && !got->gaps.count == !want->gaps.count);
    for (size_t i = 0; i < samples; i++) {
        uint64_t sample = want->first_sample - lookback + i;
        cr_assert(sonar_window_is_whole(got, sample, 1) == sonar_window_is_whole(want, sample, 1));
    }
    for (size_t k = 0; k < s->spec.channels && want->gaps.count; k++) {
        size_t at = k * SONAR_GAPS_MOST, count = want->gaps.count[k];
        cr_assert(got->gaps.count[k] == count);
        cr_assert(!memcmp(got->gaps.gap + at, want->gaps.gap + at, count * sizeof(sonar_gap)));
    }
}

static void compare_windows(const struct scene *s, const sonar_window *want,
                            const sonar_window *got) {
    cr_assert(got->window == want->window && got->first_sample == want->first_sample);
    cr_assert(got->epoch == want->epoch && got->utc_ns == want->utc_ns);
    cr_assert(got->missing_mean == want->missing_mean);
    cr_assert(got->missing_worst == want->missing_worst);
    compare_losses(s, want, got);
    cr_assert(got->flags == want->flags && got->restarted == want->restarted);
    cr_assert(got->arrival_ns == want->arrival_ns && got->position == want->position);
    cr_assert(!memcmp(got->missing, want->missing, s->spec.channels * sizeof *got->missing));
    sonar_buffer a[2], b[2];
    sonar_window_span(want, want->first_sample, s->spec.window_length, a);
    sonar_window_span(got, got->first_sample, s->spec.window_length, b);
    size_t size = sonar_dtype_size(a->dtype);
    for (size_t k = 0; k < s->spec.channels; k++)
        for (size_t i = 0; i < 2; i++)
            cr_assert(!memcmp((char *)b[i].data + k * (size_t)b[i].stride[0] * size,
                              (char *)a[i].data + k * (size_t)a[i].stride[0] * size,
                              a[i].shape[1] * size),
                      "window %lu channel %zu", (unsigned long)want->window, k);
}

static bool take_window(struct scene *s) {
    sonar_window window[SIDES];
    bool there = sonar_assembler_take(s->side[0], &window[0]);
    for (size_t i = 1; i < SIDES; i++) {
        cr_assert(sonar_assembler_take(s->side[i], &window[i]) == there);
        if (there)
            compare_windows(s, &window[0], &window[i]);
    }
    if (there) {
        s->offset = window->position - window->first_sample;
        s->offset_epoch = window->epoch;
    }
    for (size_t i = 0; i < SIDES && there; i++)
        sonar_assembler_release(s->side[i], &window[i]);
    return there;
}

/* Samples that are reported as ready are present before their window is offered, unless later
 * samples have overwritten their column. */
static void compare_ready(const struct scene *s, uint64_t before) {
    sonar_buffer want = sonar_assembler_ring(s->side[0]);
    size_t capacity = want.shape[1], size = sonar_dtype_size(want.dtype);
    uint64_t ready = sonar_assembler_ready(s->side[0]), furthest = 0;
    for (size_t b = 0; b < s->blocks; b++)
        furthest = s->next[b] + s->offset > furthest ? s->next[b] + s->offset : furthest;
    uint64_t from =
        furthest > capacity && furthest - capacity > before ? furthest - capacity : before;
    if (s->offset_epoch != s->epoch)
        return;
    /* The ring's places follow each other up to its end. */
    for (uint64_t at = from, end; at < ready; at = end) {
        const uint64_t left = capacity - at % capacity;
        end = ready - at < left ? ready : at + left;
        for (size_t k = 0; k < s->spec.channels; k++)
            for (size_t i = 1; s->used[k] && i < SIDES; i++) {
                const size_t offset = (k * capacity + at % capacity) * size;
                const sonar_buffer got = sonar_assembler_ring(s->side[i]);
                cr_assert(!memcmp((char *)got.data + offset, (char *)want.data + offset,
                                  (end - at) * size),
                          "places from %lu of channel %zu", (unsigned long)at, k);
            }
    }
}

/* ---- frames ---------------------------------------------------------------------------------- */

static bool chance(double p) {
    return (double)below(1u << 20) < p * (1u << 20);
}

/* The next frame of a block, or an earlier one, or parts of both; sometimes samples are left out.
 */
static sonar_frame any_frame(struct scene *s) {
    size_t b = below(s->blocks);
    uint64_t *next = &s->next[b], least = *next;
    for (size_t i = 0; i < s->blocks; i++) /* the last first, so that none is far behind */
        if (s->next[i] < least && !chance(0.2)) {
            next = &s->next[i];
            least = *next;
            b = i;
        }
    sonar_frame frame = {.array_id = 9,
                         .first_channel = s->edge[b],
                         .channels = s->edge[b + 1] - s->edge[b],
                         .samples = 1 + (uint32_t)below(s->longest),
                         .type = (uint8_t)(s->spec.sample_type ? SONAR_S16 : 1 + below(4)),
                         .layout = (uint8_t)below(2),
                         .flags = (uint16_t)(chance(0.02) ? 1u << below(3) : 0),
                         .epoch = s->epoch,
                         .utc_ns = chance(0.5) ? 1763654400 * (int64_t)1000000000 : 0,
                         .fs_hz = 1000};
    if (chance(0.03))
        *next += below(3 * s->longest);
    frame.first_sample = *next;
    if (chance(0.08))
        frame.first_sample -= below(*next < 2 * s->longest ? *next + 1 : 2 * s->longest);
    else
        *next += frame.samples;
    frame.sequence = frame.first_sample / 7;
    return frame;
}

static sonar_frame restart_frame(struct scene *s) {
    sonar_frame frame = any_frame(s);
    frame.first_channel = 0, frame.channels = (uint32_t)s->spec.channels;
    frame.epoch = ++s->epoch;
    frame.first_sample = below(100000);
    for (size_t i = 0; i < s->blocks; i++)
        s->next[i] = frame.first_sample + frame.samples;
    return frame;
}

/* The threads of one side take the frames of the batch in turn. */
struct crew {
    struct scene *scene;
    sonar_assembler *assembler;
    pthread_mutex_t turn;
    size_t next;
    bool waits;
    _Atomic uint64_t beside;
};

static sonar_turn take_turn(struct crew *crew, size_t *i, sonar_booking *booking) {
    struct scene *s = crew->scene;
    sonar_turn turn = SONAR_TURN_WAITS;
    pthread_mutex_lock(&crew->turn);
    if (!crew->waits && (*i = crew->next) < s->batched) {
        const test_frame *frame = &s->batch[crew->next];
        const sonar_payload payload = {.data = frame->payload, .bytes = frame->payload_bytes};
        turn = sonar_assembler_begin(crew->assembler, frame->header, sizeof frame->header, &payload,
                                     s->at_ns[*i], booking);
        crew->next += turn != SONAR_TURN_AGAIN;
        crew->waits = turn == SONAR_TURN_WAITS || turn == SONAR_TURN_AGAIN;
    }
    pthread_mutex_unlock(&crew->turn);
    return turn;
}

static void book(struct crew *crew, sonar_booking *booking) {
    if (sonar_assembler_book(crew->assembler, booking))
        return;
    pthread_mutex_lock(&crew->turn);
    crew->waits = true;
    pthread_mutex_unlock(&crew->turn);
}

/* Now and then a thread loses its processor between the two halves. */
static void *work(void *arg) {
    struct crew *crew = arg;
    sonar_booking booking;
    size_t i;
    for (sonar_turn turn; (turn = take_turn(crew, &i, &booking)) < SONAR_TURN_WAITS;) {
        for (uint64_t k = 0; k < (i * 7 + booking.at) % 5; k++)
            sched_yield();
        if (turn != SONAR_TURN_BOOK)
            continue;
        atomic_fetch_add(&crew->beside, 1);
        book(crew, &booking);
    }
    return NULL;
}

/* One side processes the batch. True: it waits for a window to be taken. */
static bool send_on(struct scene *s, size_t side) {
    struct crew crew = {.scene = s, .assembler = s->side[side], .next = s->done[side]};
    pthread_t thread[THREADS_MOST];
    pthread_mutex_init(&crew.turn, NULL);
    for (size_t t = 1; t < thread_counts[side]; t++)
        cr_assert(pthread_create(&thread[t], NULL, work, &crew) == 0);
    work(&crew);
    for (size_t t = 1; t < thread_counts[side]; t++)
        pthread_join(thread[t], NULL);
    pthread_mutex_destroy(&crew.turn);
    s->beside += side ? crew.beside : 0;
    s->done[side] = crew.next;
    return crew.waits;
}

/* Those that wait go on after a window, the others with the batch: several threads may be some
 * frames ahead when the window has no room, but it is the same window. */
static bool all_go_on(struct scene *s, bool waits[SIDES]) {
    bool any = false;
    for (size_t i = 0; i < SIDES; i++) {
        waits[i] = waits[i] && !sonar_assembler_resume(s->side[i]);
        if (!waits[i])
            waits[i] = send_on(s, i);
        any = any || waits[i];
    }
    return any;
}

/* Payloads are overwritten before they are freed, so that late reads are detected. */
static void send_batch(struct scene *s) {
    bool waits[SIDES] = {false};
    uint64_t ready = sonar_assembler_ready(s->side[0]);
    memset(s->done, 0, sizeof s->done);
    while (all_go_on(s, waits)) {
        cr_assert(s->spec.overload == SONAR_BLOCK);
        cr_assert(take_window(s), "stuck");
    }
    compare_counters(s);
    compare_ready(s, ready);
    for (; s->batched; s->batched--) {
        test_frame *frame = &s->batch[s->batched - 1];
        memset(frame->payload, 0x5a, frame->payload_bytes);
        test_frame_free(frame);
    }
}

static void send(struct scene *s, sonar_frame frame) {
    s->batch[s->batched] = test_frame_make(&frame);
    s->at_ns[s->batched++] = s->now_ns;
    if (s->batched == BATCH_MOST || chance(0.2))
        send_batch(s);
}

/* ---- streams --------------------------------------------------------------------------------- */

/* large: the ring has 35 million samples and more, for many windows that may wait. */
static void make_scene(struct scene *s, sonar_overload overload, sonar_dtype type, bool large) {
    static const size_t sizes[][2] = {{100, 50}, {97, 31}, {64, 64}, {65, 200}, {300, 40}, {7, 5}};
    const size_t *size = sizes[below(large ? 5 : 6)];
    size_t channels = 60 + below(CHANNELS_MOST - 60);
    *s = (struct scene){.epoch = 1, .longest = 1 + (uint32_t)below(150)};
    for (size_t k = 0; k < channels; k++)
        s->used[k] = below(10) > 0;
    s->used[below(channels)] = 1;
    for (uint32_t k = 1; k < channels; k++)
        if (below(60) == 0)
            s->edge[++s->blocks] = k;
    s->edge[++s->blocks] = (uint32_t)channels;
    const double shares[] = {0, 0.1, 1};
    s->spec =
        (sonar_ingest_spec){.array_id = 9,
                            .channels = channels,
                            .channel_used = s->used,
                            .fs_hz = 1000,
                            .window_length = size[0],
                            .hop = size[1],
                            .queue_windows = large ? 35000000 / channels / size[1] : 1 + below(4),
                            .overload = overload,
                            .max_missing_share = shares[below(3)],
                            .max_skew_samples = below(300),
                            .restart_after_ms = 50,
                            .silent_after_ms = 20,
                            .sample_type = type,
                            .chunk_samples = below(2) ? 1 + below(size[1]) : 0};
    for (size_t i = 0; i < SIDES; i++) {
        s->spec.threads = thread_counts[i];
        cr_assert(sonar_assembler_create(&s->spec, &s->side[i], NULL) == SONAR_OK);
    }
}

static void run_scene(struct scene *s, int frames) {
    for (int f = 0; f < frames; f++) {
        s->now_ns += (int64_t)below(2) * ms;
        send(s, chance(0.004) ? restart_frame(s) : any_frame(s));
        if (!s->batched)
            for (uint64_t n = below(8); n; n--)
                take_window(s);
    }
    send_batch(s);
    while (take_window(s))
        continue;
    compare_counters(s);
}

/* Each run needs enough events for a meaningful comparison. */
static void run_scenes(sonar_overload overload) {
    static struct scene s;
    sonar_ingest_counters c;
    uint64_t windows = 0, restarts = 0, repeated = 0, missing = 0, late = 0, beside = 0;
    for (int trial = 0; trial < 24; trial++) {
        make_scene(&s, overload, trial % 2 ? SONAR_S16 : 0, false);
        run_scene(&s, 600);
        sonar_assembler_read_counters(s.side[0], &c);
        windows += c.windows_taken, restarts += c.restarts, repeated += c.samples_repeated;
        missing += c.samples_missing, late += c.samples_late, beside += s.beside;
        for (size_t i = 0; i < SIDES; i++)
            sonar_assembler_destroy(s.side[i]);
    }
    cr_assert(windows > 1000 && restarts > 20, "%lu windows, %lu restarts", (unsigned long)windows,
              (unsigned long)restarts);
    cr_assert(repeated > 1000 && missing > 1000 && late > 1000);
    cr_assert(beside > 2000, "%lu frames booked side by side", (unsigned long)beside);
}

Test(ingest_threads, book_and_offer_the_same_as_one) {
    run_scenes(SONAR_DROP_OLDEST);
}

Test(ingest_threads, block_and_go_on_the_same_as_one) {
    run_scenes(SONAR_BLOCK);
}

/* A ring of more than 64 MiB is written with stores that bypass the caches. */
Test(ingest_threads, stream_into_a_large_ring_the_same_as_one) {
    static struct scene s;
    for (int trial = 0; trial < 2; trial++) {
        make_scene(&s, SONAR_DROP_OLDEST, trial ? SONAR_S16 : 0, true);
        cr_assert(sonar_assembler_ring(s.side[0]).bytes > 64 << 20);
        run_scene(&s, 400);
        for (size_t i = 0; i < SIDES; i++)
            sonar_assembler_destroy(s.side[i]);
    }
}
