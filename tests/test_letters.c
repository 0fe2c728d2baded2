/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A letter between two ranks in one thread: the rank that calls a collective function first stores
 * what the other takes. */
#include <criterion/criterion.h>
#include <string.h>

#include "ranks/letters.h"

enum { ROOM = 64, MOST = 512 };

static size_t caller; /* the rank whose turn it is */
static char shared[2][MOST], sent[MOST];

static sonar_code share(const void *mine, size_t size, void *all, sonar_error *err) {
    (void)err;
    memcpy(shared[caller], mine, size);
    for (size_t r = 0; r < 2; r++)
        memcpy((char *)all + r * size, shared[r], size);
    return SONAR_OK;
}

static sonar_code broadcast(void *data, size_t size, sonar_error *err) {
    (void)err;
    memcpy(caller == 0 ? (void *)sent : data, caller == 0 ? data : (void *)sent, size);
    return SONAR_OK;
}

static const sonar_cluster_ops ops = {.share = share, .broadcast = broadcast};

struct rank {
    sonar_cluster cluster;
    sonar_letters *letters;
    sonar_outcome when_held; /* the outcome when the change was to be held; -1: it was not */
};

static void hold(void *ctx) {
    struct rank *rank = ctx;
    rank->when_held = sonar_letters_outcome(rank->letters);
}

static void open_ranks(struct rank rank[2]) {
    memset(shared, 0, sizeof shared);
    for (size_t r = 2; r-- > 0;) { /* the other rank has announced how much room it needs */
        rank[r] = (struct rank){.cluster = {.ops = &ops, .place = {.rank = r, .ranks = 2}},
                                .when_held = (sonar_outcome)-1};
        caller = r;
        cr_assert_eq(sonar_letters_create(&rank[r].cluster, r ? ROOM : 1, hold, &rank[r],
                                          &rank[r].letters, NULL),
                     SONAR_OK);
    }
}

static void close_ranks(struct rank rank[2]) {
    for (size_t r = 0; r < 2; r++)
        sonar_letters_destroy(rank[r].letters);
}

/* Both ranks' round; the root's comes first, or last. */
static void go_round(struct rank rank[2], bool root_first) {
    sonar_offer offer[2];
    memset(offer, 0, sizeof offer);
    for (size_t r = 0; r < 2; r++)
        sonar_letters_offer(rank[r].letters, &offer[r]);
    for (size_t i = 0; i < 2; i++) {
        caller = root_first ? i : 1 - i;
        cr_assert_eq(sonar_letters_round(rank[caller].letters, offer, NULL), SONAR_OK);
    }
}

static void write_letter(struct rank rank[2], const char *text) {
    const sonar_letter_part part[] = {{text, 1}, {NULL, 0}, {text + 1, strlen(text)}};
    cr_assert_eq(sonar_letters_write(rank[0].letters, 3, part, NULL), SONAR_OK);
    sonar_letters_send(rank[0].letters);
}

Test(letters, a_change_holds_when_all_are_ready) {
    struct rank rank[2];
    open_ranks(rank);
    cr_expect(!sonar_letters_busy(rank[0].letters));
    write_letter(rank, "first");
    cr_expect(sonar_letters_busy(rank[0].letters));
    go_round(rank, true);
    cr_assert(sonar_letters_asked(rank[1].letters) && !sonar_letters_asked(rank[0].letters));
    cr_expect_str_eq((const char *)sonar_letters_read(rank[1].letters), "first");
    go_round(rank, true);
    cr_expect_eq(sonar_letters_outcome(rank[0].letters), SONAR_NO_OUTCOME, "one is not ready");
    sonar_letters_answer(rank[1].letters, NULL);
    go_round(rank, true);
    for (size_t r = 0; r < 2; r++) {
        cr_expect_eq(sonar_letters_outcome(rank[r].letters), SONAR_HELD);
        cr_expect_eq(rank[r].when_held, SONAR_NO_OUTCOME, "held before the outcome is there");
    }
    close_ranks(rank);
}

Test(letters, the_next_one_waits_until_all_are_done_with_it) {
    struct rank rank[2];
    open_ranks(rank);
    write_letter(rank, "first");
    go_round(rank, true);
    sonar_letters_answer(rank[1].letters, NULL);
    go_round(rank, true);
    sonar_letters_close(rank[0].letters);
    write_letter(rank, "second");
    go_round(rank, true);
    cr_expect_str_eq((const char *)sonar_letters_read(rank[1].letters), "first");
    sonar_letters_close(rank[1].letters);
    go_round(rank, true);
    cr_expect_str_eq((const char *)sonar_letters_read(rank[1].letters), "second");
    cr_expect(sonar_letters_asked(rank[1].letters));
    close_ranks(rank);
}

Test(letters, one_refusal_drops_it_on_all) {
    struct rank rank[2];
    open_ranks(rank);
    write_letter(rank, "first");
    go_round(rank, true);
    sonar_letters_answer(rank[1].letters, "no memory");
    go_round(rank, false);
    for (size_t r = 0; r < 2; r++) {
        cr_expect_eq(sonar_letters_outcome(rank[r].letters), SONAR_DROPPED);
        cr_expect_str_eq(sonar_letters_refusal(rank[r].letters), "no memory");
        cr_expect_eq(rank[r].when_held, (sonar_outcome)-1);
    }
    close_ranks(rank);
}

Test(letters, without_a_data_thread_it_is_dropped) {
    struct rank rank[2];
    const atomic_bool ended = true;
    open_ranks(rank);
    for (int i = 0; i < 2; i++) {
        write_letter(rank, "first");
        sonar_letters_await(rank[0].letters, i ? &ended : NULL);
        cr_expect_eq(sonar_letters_outcome(rank[0].letters), SONAR_DROPPED);
        cr_expect_str_eq(sonar_letters_refusal(rank[0].letters), "the ranks have ended");
        sonar_letters_close(rank[0].letters);
    }
    close_ranks(rank);
}

Test(letters, there_is_room_for_what_any_rank_needs_and_no_more) {
    struct rank rank[2];
    sonar_error err = {0};
    const char text[ROOM + 1] = {0};
    open_ranks(rank);
    cr_expect_eq(sonar_letters_room(rank[0].letters), ROOM);
    const sonar_letter_part fits = {text, ROOM}, too_long[] = {{text, ROOM}, {text, 1}};
    cr_expect_eq(sonar_letters_write(rank[0].letters, 1, &fits, &err), SONAR_OK);
    cr_expect_eq(sonar_letters_write(rank[0].letters, 2, too_long, &err), SONAR_EINVAL);
    cr_expect(strstr(err.text, "65 bytes, but the ranks have room for only 64"), "%s", err.text);
    close_ranks(rank);
}
