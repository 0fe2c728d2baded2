/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Overload of the ingest thread: the assembler behind a queue that fills, with a simulated clock.
 * Storing a frame takes a time that the test sets, dropping it a part of that. */
#include "ingest/assembler.h"
#include "ingest/shed.h"

#include <criterion/criterion.h>

#include "core/random.h"
#include "frames.h"

enum { FS_HZ = 1000, FRAME = 20, QUEUED_MOST = 400 };

/* One digitiser or two, of two channels each, that send in real time; frames that find the queue
 * full are lost. */
typedef struct node {
    sonar_ingest_spec spec;
    sonar_assembler *assembler;
    unsigned digitisers;
    double stored_s, shed_s;       /* to deal with a frame */
    double stall_begin_s, stall_s; /* the thread does nothing for so long */
    uint64_t sent, lost, whole, broken, wrong;
    double late_most_s; /* of a window that was offered */
} node;

static node make(unsigned digitisers, double load, sonar_overload overload) {
    node n = {.digitisers = digitisers};
    n.spec = (sonar_ingest_spec){.array_id = 9,
                                 .channels = 2 * digitisers,
                                 .fs_hz = FS_HZ,
                                 .high_water_mark = QUEUED_MOST,
                                 .window_length = 200,
                                 .hop = 100,
                                 .lookback = 100,
                                 .queue_windows = 4,
                                 .overload = overload,
                                 .max_missing_share = 0.05,
                                 .max_skew_samples = 100,
                                 .restart_after_ms = 1000,
                                 .silent_after_ms = 500};
    n.stored_s = load * FRAME / FS_HZ / digitisers;
    n.shed_s = 0.1 * n.stored_s; /* large messages: the copying counts */
    sonar_error err;
    cr_assert(sonar_assembler_create(&n.spec, &n.assembler, &err) == SONAR_OK, "%s", err.text);
    return n;
}

static sonar_ingest_counters counters(const node *n) {
    sonar_ingest_counters count;
    sonar_assembler_read_counters(n->assembler, &count);
    return count;
}

/* The data thread is never too slow here. */
static void take_windows(node *n, double now_s) {
    sonar_window window;
    while (sonar_assembler_take(n->assembler, &window)) {
        double end_s = (double)(window.first_sample + n->spec.window_length) / FS_HZ;
        n->late_most_s = now_s - end_s > n->late_most_s ? now_s - end_s : n->late_most_s;
        n->whole += window.missing_worst <= 0;
        n->broken += window.missing_worst > 0;
        if (window.missing_worst <= 0)
            n->wrong += test_window_errors(&window, window.first_sample, n->spec.window_length);
        sonar_assembler_release(n->assembler, &window);
    }
}

static bool deal_with(node *n, uint64_t message, double now_s) {
    uint64_t index = message / n->digitisers;
    sonar_frame frame = {.array_id = 9,
                         .first_channel = (uint32_t)(message % n->digitisers * 2),
                         .channels = 2,
                         .samples = FRAME,
                         .type = SONAR_F32,
                         .epoch = 1,
                         .sequence = index,
                         .first_sample = index * FRAME,
                         .fs_hz = FS_HZ};
    uint64_t before = counters(n).frames_dropped[SONAR_FRAME_SHED];
    test_frame made = test_frame_make(&frame);
    sonar_assembler_frame(n->assembler, made.header, sizeof made.header, made.payload,
                          made.payload_bytes, (int64_t)(now_s * 1e9));
    test_frame_free(&made);
    return counters(n).frames_dropped[SONAR_FRAME_SHED] == before;
}

/* Message k enters the queue at arrival_s(k); the thread processes one after the other. */
static void run(node *n, double seconds) {
    static uint64_t queue[QUEUED_MOST];
    size_t queued = 0, oldest = 0;
    double now_s = 0, tick_s = 0.1, step_s = (double)FRAME / FS_HZ / n->digitisers;
    bool drained = false;
    uint64_t due = 0;
    while (now_s < seconds) {
        if (n->stall_s > 0 && now_s >= n->stall_begin_s) {
            now_s += n->stall_s;
            n->stall_s = 0;
        }
        for (; (double)due * step_s <= now_s; due++, n->sent++) {
            if (queued == QUEUED_MOST)
                n->lost++;
            else
                queue[(oldest + queued++) % QUEUED_MOST] = due;
        }
        if (queued) {
            uint64_t message = queue[oldest];
            oldest = (oldest + 1) % QUEUED_MOST, queued--;
            now_s += deal_with(n, message, now_s) ? n->stored_s : n->shed_s;
        } else {
            drained = true;
            now_s = (double)due * step_s;
        }
        take_windows(n, now_s);
        if (now_s >= tick_s) {
            sonar_assembler_tick(n->assembler, (int64_t)(now_s * 1e9));
            sonar_assembler_load(n->assembler, !drained);
            drained = false;
            tick_s = now_s + 0.1;
        }
    }
}

/* Frames and windows add up, and every window that is reported as complete is complete. */
static void check(const node *n) {
    sonar_ingest_counters c = counters(n);
    uint64_t dropped = 0;
    for (int i = 0; i < SONAR_FRAME_CAUSES; i++)
        dropped += c.frames_dropped[i];
    cr_assert(c.frames_received == c.frames_accepted + dropped);
    cr_assert(c.windows_offered == n->whole + n->broken);
    cr_assert(n->wrong == 0);
    uint64_t begun = c.windows_offered + c.windows_dropped[SONAR_WINDOW_MISSING] +
                     c.windows_dropped[SONAR_WINDOW_SHED];
    uint64_t sent = n->sent / n->digitisers * FRAME / n->spec.hop;
    uint64_t behind = 2 * QUEUED_MOST * FRAME / n->spec.hop; /* in the queue, with holes */
    cr_assert(begun <= sent && begun + behind >= sent, "%zu of %zu windows", (size_t)begun,
              (size_t)sent);
}

static double whole_share(const node *n) {
    return (double)n->whole / ((double)(n->sent / n->digitisers) * FRAME / (double)n->spec.hop);
}

Test(shed, node_a_quarter_too_slow_keeps_most_windows_whole) {
    for (unsigned digitisers = 1; digitisers <= 2; digitisers++) {
        node n = make(digitisers, 1.25, SONAR_DROP_OLDEST);
        run(&n, 300);
        check(&n);
        cr_assert(whole_share(&n) >= 0.7, "%g of the windows whole", whole_share(&n));
        cr_assert(n.broken == 0 && n.lost == 0, "%zu broken, %zu lost", (size_t)n.broken,
                  (size_t)n.lost);
        cr_assert(n.late_most_s < 1, "%g s late", n.late_most_s);
        sonar_assembler_destroy(n.assembler);
    }
}

/* The benefit of shedding: the same node without it. */
Test(shed, hardly_any_window_is_whole_without) {
    node n = make(1, 1.25, SONAR_DROP_OLDEST);
    n.shed_s = n.stored_s;
    sonar_assembler_destroy(n.assembler);
    n.spec.overload = SONAR_BLOCK; /* whose data thread takes everything, so that it never waits */
    sonar_error err;
    cr_assert(sonar_assembler_create(&n.spec, &n.assembler, &err) == SONAR_OK);
    run(&n, 300);
    check(&n);
    cr_assert(whole_share(&n) < 0.2, "%g of the windows whole", whole_share(&n));
    cr_assert(counters(&n).frames_dropped[SONAR_FRAME_SHED] == 0);
    sonar_assembler_destroy(n.assembler);
}

Test(shed, node_far_too_slow_still_makes_whole_windows) {
    node n = make(1, 3, SONAR_DROP_OLDEST);
    run(&n, 300);
    check(&n);
    cr_assert(whole_share(&n) > 0.05 && n.broken == 0, "%g", whole_share(&n));
    sonar_assembler_destroy(n.assembler);
}

Test(shed, fast_enough_node_gives_nothing_up) {
    for (int i = 0; i < 3; i++) {
        node n = make(2, 0.7 + 0.1 * i, SONAR_DROP_OLDEST);
        run(&n, 100);
        check(&n);
        cr_assert(counters(&n).windows_dropped[SONAR_WINDOW_SHED] == 0);
        cr_assert(counters(&n).frames_accepted + 4 >= n.sent);
        sonar_assembler_destroy(n.assembler);
    }
}

/* A shrinking backlog is not an overload, even if frames are very late. */
Test(shed, backlog_after_a_pause_is_worked_off) {
    node n = make(1, 0.6, SONAR_DROP_OLDEST);
    n.stall_begin_s = 20;
    n.stall_s = 5;
    run(&n, 100);
    check(&n);
    cr_assert(n.lost == 0 && counters(&n).frames_dropped[SONAR_FRAME_SHED] == 0);
    sonar_assembler_destroy(n.assembler);
}

/* The header alone decides: the rest of a dropped frame is not read. */
Test(shed, boundaries_are_those_of_whole_windows) {
    sonar_shed shed;
    sonar_shed_init(&shed, FS_HZ, 1, 100);
    cr_assert(!sonar_shed_takes(&shed, 0, 10) && !sonar_shed_took(&shed, 0, 10));
    sonar_shed_begin(&shed, 300);
    cr_assert(!sonar_shed_takes(&shed, 280, 310), "it holds samples of a window that is kept");
    cr_assert(sonar_shed_takes(&shed, 300, 310) && sonar_shed_takes(&shed, 310, 330));
    cr_assert(!sonar_shed_took(&shed, 100, 300) && sonar_shed_took(&shed, 200, 400));
    sonar_shed_end(&shed, 400);
    cr_assert(sonar_shed_takes(&shed, 390, 400), "a block that is behind");
    cr_assert(!sonar_shed_takes(&shed, 390, 401) && !sonar_shed_takes(&shed, 400, 410));
    cr_assert(sonar_shed_took(&shed, 399, 599) && !sonar_shed_took(&shed, 400, 600));
    sonar_shed_restart(&shed);
    cr_assert(!sonar_shed_takes(&shed, 300, 310));
}
