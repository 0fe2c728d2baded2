/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which window several ranks process next, given the windows that each of them offers. */
#include <criterion/criterion.h>

#include "ranks/agree.h"
#include "core/random.h"

enum { HOP = 100, MS = 1000000 };

static const sonar_agree_spec three = {.ranks = 3,
                                       .hop = HOP,
                                       .hop_ns = 500 * MS,
                                       .max_skew_ns = 250 * MS,
                                       .restart_after_ns = 1000 * MS};

/* By default the timeline has been silent for long. */
static sonar_offer none(void) {
    return (sonar_offer){.channels = 8, .idle_ns = 60000LL * MS};
}

static sonar_offer window(uint32_t epoch, uint64_t first_sample, int64_t waited_ms) {
    sonar_offer o = none();
    o.has = 1;
    o.epoch = epoch;
    o.first_sample = first_sample;
    o.waited_ns = waited_ms * MS;
    o.lookback = 50;
    return o;
}

/* A timeline of epoch 1 that has reached sample 1000. */
static sonar_timeline running(void) {
    return (sonar_timeline){.runs = true, .epoch = 1, .next_sample = 1000, .window = 9};
}

Test(agree, goes_on_at_once_when_all_have_the_window) {
    sonar_timeline t = running();
    sonar_offer o[3] = {window(1, 1000, 0), window(1, 1000, 0), window(1, 1000, 0)};
    o[1].lookback = 20;
    const sonar_verdict v = sonar_agree(&three, o, &t);
    cr_assert_eq(v.kind, SONAR_ROUND_RUN);
    cr_assert(v.present[0] && v.present[1] && v.present[2] && !v.restarted);
    cr_assert_eq(v.first_sample, 1000);
    cr_assert_eq(v.window, 10);
    cr_assert_eq(v.lookback, 20);
    cr_assert_eq(t.next_sample, 1100);
}

Test(agree, waits_for_a_rank_until_the_window_has_waited_for_the_longest_skew) {
    for (int64_t ms = 0; ms <= 260; ms += 10) {
        sonar_timeline t = running();
        sonar_offer o[3] = {window(1, 1000, ms), none(), window(1, 1000, 0)};
        const sonar_verdict v = sonar_agree(&three, o, &t);
        cr_assert_eq(v.kind, ms < 250 ? SONAR_ROUND_WAIT : SONAR_ROUND_RUN, "%lld ms",
                     (long long)ms);
        cr_assert(!v.present[1] && !v.drop[0] && !v.drop[2]);
        cr_assert_eq(v.present[0], ms >= 250);
    }
}

/* It will never have the window, so no rank waits. */
Test(agree, a_rank_that_is_ahead_takes_part_with_nothing) {
    sonar_timeline t = running();
    sonar_offer o[3] = {window(1, 1000, 0), window(1, 1300, 0), window(1, 1000, 0)};
    const sonar_verdict v = sonar_agree(&three, o, &t);
    cr_assert_eq(v.kind, SONAR_ROUND_RUN);
    cr_assert(v.present[0] && !v.present[1] && v.present[2]);
    cr_assert(!v.drop[1], "its window comes later");
}

Test(agree, windows_that_no_one_has_are_counted) {
    sonar_timeline t = running();
    sonar_offer o[3] = {window(1, 1300, 0), window(1, 1300, 0), window(1, 1300, 0)};
    const sonar_verdict v = sonar_agree(&three, o, &t);
    cr_assert_eq(v.window, 13);
    cr_assert_eq(t.next_sample, 1400);
}

Test(agree, a_window_that_comes_too_late_is_dropped) {
    sonar_timeline t = running();
    sonar_offer o[3] = {window(1, 1000, 0), window(1, 900, 0), window(1, 1000, 0)};
    sonar_verdict v = sonar_agree(&three, o, &t);
    cr_assert_eq(v.kind, SONAR_ROUND_WAIT, "that rank may have the next one");
    cr_assert(!v.drop[0] && v.drop[1] && !v.drop[2]);
}

Test(agree, another_epoch_is_adopted_by_all_or_none) {
    sonar_timeline t = running();
    sonar_offer o[3] = {window(2, 0, 0), window(2, 0, 0), none()};
    cr_assert_eq(sonar_agree(&three, o, &t).kind, SONAR_ROUND_WAIT);
    cr_assert_eq(t.epoch, 1);
    o[2] = window(1, 1000, 0); /* as long as one rank continues, all ranks do */
    sonar_verdict v = sonar_agree(&three, o, &t);
    cr_assert(v.drop[0] && v.drop[1] && !v.drop[2]);
    o[0] = window(2, 0, 0), o[1] = window(2, 100, 0), o[2] = window(2, 0, 0);
    v = sonar_agree(&three, o, &t);
    cr_assert_eq(v.kind, SONAR_ROUND_RUN);
    cr_assert(v.restarted && v.present[0] && !v.present[1] && v.present[2]);
    cr_assert_eq(v.first_sample, 0);
    cr_assert_eq(v.window, 10, "the number counts on");
    cr_assert_eq(t.epoch, 2);
}

Test(agree, another_epoch_of_some_is_adopted_when_the_old_one_is_silent) {
    sonar_timeline t = running();
    sonar_offer o[3] = {none(), window(3, 700, 999), window(2, 0, 0)};
    cr_assert_eq(sonar_agree(&three, o, &t).kind, SONAR_ROUND_WAIT);
    o[1].waited_ns = 1000 * MS;
    const sonar_verdict v = sonar_agree(&three, o, &t);
    cr_assert_eq(v.kind, SONAR_ROUND_RUN);
    cr_assert(!v.present[0] && v.present[1] && !v.present[2] && v.drop[2] && v.restarted);
    cr_assert_eq(t.epoch, 3);
}

/* The timeline in which all three have had window 900, in their ingest's first. */
static sonar_timeline running_together(void) {
    sonar_timeline t = {.runs = true, .epoch = 1, .next_sample = 900, .window = 8};
    const sonar_offer o[3] = {window(1, 900, 0), window(1, 900, 0), window(1, 900, 0)};
    cr_assert_eq(sonar_agree(&three, o, &t).kind, SONAR_ROUND_RUN);
    return t;
}

/* If ingest waits for a digitiser longer than the ranks wait for each other, its windows are late,
 * by more than the time after which a restart is adopted. */
Test(agree, late_windows_of_the_timeline_are_no_restart) {
    sonar_timeline t = running_together();
    sonar_offer o[3] = {window(1, 1000, 300), none(), window(1, 1000, 300)};
    cr_assert_eq(sonar_agree(&three, o, &t).kind, SONAR_ROUND_RUN);
    o[0] = o[2] = none();
    o[1] = window(1, 1000, 5000);
    const sonar_verdict v = sonar_agree(&three, o, &t);
    cr_assert_eq(v.kind, SONAR_ROUND_WAIT, "no rank goes back");
    cr_assert(v.drop[1], "the rank may have the next one behind it");
    cr_assert_eq(t.next_sample, 1100);
    o[1] = window(1, 1100,
                  5000); /* the other ranks' digitisers have stopped: this rank continues alone */
    const sonar_verdict next = sonar_agree(&three, o, &t);
    cr_assert_eq(next.kind, SONAR_ROUND_RUN);
    cr_assert(!next.restarted && next.present[1] && !next.present[0]);
}

/* If all ranks are late at once, that is not a restart either; a restart in the same epoch is
 * recognised. */
Test(agree, a_restart_in_the_same_epoch_differs_from_late_windows) {
    sonar_timeline t = running_together();
    sonar_offer o[3] = {window(1, 200, 5000), window(1, 300, 5000), none()};
    sonar_verdict v = sonar_agree(&three, o, &t);
    cr_assert_eq(v.kind, SONAR_ROUND_WAIT);
    cr_assert(v.drop[0] && v.drop[1] && !v.drop[2]);
    o[0].timeline = 1;
    v = sonar_agree(&three, o, &t);
    cr_assert_eq(v.kind, SONAR_ROUND_RUN);
    cr_assert(v.restarted && v.present[0] && !v.present[1]);
    cr_assert_eq(v.first_sample, 200);
    cr_assert_eq(t.next_sample, 300);
}

/* Nor are the windows of a rank that has lagged from the start, once the others have stopped; from
 * their position on it continues alone. */
Test(agree, a_rank_that_was_never_in_time_is_no_restart) {
    sonar_timeline t = running();
    sonar_offer o[3] = {window(1, 1000, 300), window(1, 600, 5000), none()};
    sonar_verdict v = sonar_agree(&three, o, &t);
    cr_assert_eq(v.kind, SONAR_ROUND_RUN);
    cr_assert(v.present[0] && v.drop[1] && !v.present[1]);
    o[0] = none();
    for (uint64_t first = 700; first < 1100; first += HOP) {
        o[1] = window(1, first, 5000);
        v = sonar_agree(&three, o, &t);
        cr_assert_eq(v.kind, SONAR_ROUND_WAIT, "sample %d is over", (int)first);
        cr_assert(v.drop[1]);
        cr_assert_eq(t.next_sample, 1100);
    }
    o[1] = window(1, 1100, 5000);
    v = sonar_agree(&three, o, &t);
    cr_assert_eq(v.kind, SONAR_ROUND_RUN);
    cr_assert(v.present[1] && !v.restarted);
}

/* A later beginning of its digitisers is a restart, and so is another epoch. */
Test(agree, a_rank_that_was_never_in_time_can_restart) {
    for (int other_epoch = 0; other_epoch < 2; other_epoch++) {
        sonar_timeline t = running();
        sonar_offer o[3] = {window(1, 1000, 300), window(1 + (uint32_t)other_epoch, 600, 5000),
                            none()};
        cr_assert_eq(sonar_agree(&three, o, &t).kind, SONAR_ROUND_RUN);
        o[0] = none();
        o[1].timeline = !other_epoch;
        const sonar_verdict v = sonar_agree(&three, o, &t);
        cr_assert_eq(v.kind, SONAR_ROUND_RUN);
        cr_assert(v.restarted && v.present[1] && !v.drop[1]);
    }
}

/* Also a rank that offered no window while the others continued. */
Test(agree, nothing_is_adopted_between_two_windows_of_a_stream) {
    for (uint32_t epoch = 1; epoch <= 2; epoch++)
        for (int64_t idle_ms = 0; idle_ms <= 1600; idle_ms += 100) {
            sonar_timeline t = running();
            sonar_offer o[3] = {none(), window(epoch, 600, 5000), none()};
            o[0].idle_ns = idle_ms * MS;
            const sonar_verdict v = sonar_agree(&three, o, &t);
            cr_assert_eq(v.kind, idle_ms < 1500 ? SONAR_ROUND_WAIT : SONAR_ROUND_RUN, "%lld ms",
                         (long long)idle_ms);
            cr_assert(!v.drop[1]);
        }
}

/* Even if every rank has a window: with different epochs none may be adopted for all. */
Test(agree, epochs_that_differ_wait) {
    sonar_timeline t = {0};
    sonar_offer o[3] = {window(1, 0, 0), window(1, 0, 0), window(2, 0, 0)};
    cr_assert_eq(sonar_agree(&three, o, &t).kind, SONAR_ROUND_WAIT);
    cr_assert(!t.runs);
}

Test(agree, the_first_window_has_number_0_and_is_no_restart) {
    sonar_timeline t = {0};
    sonar_offer o[3] = {window(5, 700, 0), window(5, 700, 0), window(5, 700, 0)};
    const sonar_verdict v = sonar_agree(&three, o, &t);
    cr_assert_eq(v.kind, SONAR_ROUND_RUN);
    cr_assert_eq(v.window, 0);
    cr_assert(!v.restarted);
    cr_assert_eq(t.next_sample, 800);
}

Test(agree, all_leave_with_one_that_is_asked_to_stop) {
    sonar_timeline t = running();
    sonar_offer o[3] = {window(1, 1000, 0), window(1, 1000, 0), window(1, 1000, 0)};
    o[1].draining = 1;
    cr_assert_eq(sonar_agree(&three, o, &t).kind, SONAR_ROUND_RUN, "what all have is worked on");
    o[0] = o[2] = window(1, 1100, 0);
    o[1] = none();
    o[1].draining = 1;
    cr_assert_eq(sonar_agree(&three, o, &t).kind, SONAR_ROUND_LEAVE);
    o[1] = window(1, 1100, 0);
    o[2].stopping = 1;
    cr_assert_eq(sonar_agree(&three, o, &t).kind, SONAR_ROUND_LEAVE);
}

Test(agree, all_wait_for_a_root_that_has_no_room_for_results) {
    sonar_timeline t = running();
    sonar_offer o[3] = {window(2, 0, 9999), window(2, 0, 9999), window(2, 0, 9999)};
    o[0].blocked = 1;
    cr_assert_eq(sonar_agree(&three, o, &t).kind, SONAR_ROUND_WAIT);
    cr_assert_eq(t.epoch, 1, "nothing is adopted unseen");
}

/* With random input a window is processed once and in order, by the ranks that have it. */
Test(agree, random_offers_keep_the_order) {
    uint64_t random = 3;
    sonar_timeline t = {0};
    for (int i = 0; i < 100000; i++) {
        const sonar_timeline before = t;
        sonar_offer o[3];
        for (int r = 0; r < 3; r++)
            o[r] = sonar_random_uniform(&random) < 0.3
                       ? none()
                       : window(1 + (sonar_random_uniform(&random) < 0.1),
                                HOP * (uint64_t)(t.next_sample / HOP +
                                                 3 * sonar_random_uniform(&random)),
                                (int64_t)(1200 * sonar_random_uniform(&random)));
        const sonar_verdict v = sonar_agree(&three, o, &t);
        for (int r = 0; r < 3; r++) {
            cr_assert(!(v.present[r] && v.drop[r]));
            cr_assert(!v.present[r] || (o[r].has && o[r].epoch == t.epoch));
            cr_assert(!v.present[r] || o[r].first_sample == v.first_sample);
        }
        if (v.kind != SONAR_ROUND_RUN)
            continue;
        cr_assert(v.present[0] || v.present[1] || v.present[2]);
        cr_assert(v.restarted || !before.runs || v.first_sample >= before.next_sample);
        cr_assert(!before.runs || v.window > before.window);
    }
}

Test(agree, the_window_is_that_of_the_whole_array) {
    sonar_timeline t = running();
    sonar_offer o[3] = {window(1, 1000, 300), none(), window(1, 1000, 40)};
    o[0].channels = o[1].channels = 4;
    o[2].channels = 8;
    o[0].missing_mean = 0.25;
    o[0].missing_worst = 0.5;
    o[0].frame_flags = 1;
    o[2].frame_flags = 4;
    o[1].frame_flags = 2; /* of a window that it does not have */
    o[2].utc_ns = 77;
    const sonar_verdict v = sonar_agree(&three, o, &t);
    sonar_window w = sonar_agree_window(&three, o, &t, &v, 1000 * MS);
    cr_assert_eq(v.kind, SONAR_ROUND_RUN);
    cr_expect_eq(w.window, v.window);
    cr_expect_eq(w.first_sample, 1000);
    cr_expect_eq(w.lookback, 50);
    cr_expect_eq(w.epoch, 1);
    cr_expect_eq(w.flags, 5);
    cr_expect_eq(w.utc_ns, 77);
    cr_expect_eq(w.arrival_ns, 960 * MS, "of the last sample of all");
    cr_expect_float_eq(w.missing_mean, (4 * 0.25 + 4) / 16, 1e-12);
    cr_expect_eq(w.missing_worst, 1, "of the rank that is absent");
    cr_expect(!w.missing && !w.lacks && !w.ring.data);
}
