/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The search for the largest size that holds, with simulated nodes whose trials may be wrong. */
#include <criterion/criterion.h>

#include "core/random.h"
#include "search.h"

/* A node that holds the first `limit` sizes, but loses a trial of them with a given probability,
 * cannot run sizes from `possible` on, and passes a trial of a larger size with probability
 * `lucky`. */
struct node {
    size_t limit, possible;
    double loses, lucky;
    uint64_t random;
};

static double uniform(uint64_t *state) {
    return (double)(sonar_random_mix((*state)++) >> 11) * 0x1p-53;
}

static search_outcome try(struct node *n, size_t size) {
    if (size >= n->possible)
        return SEARCH_IMPOSSIBLE;
    const double holds = size < n->limit ? 1 - n->loses : n->lucky;
    return uniform(&n->random) < holds ? SEARCH_HELD : SEARCH_LOST;
}

/* Number of trials for the answer. */
static size_t find(struct node n, size_t sizes, size_t *hold) {
    search s = search_begin(sizes);
    size_t trials = 0;
    for (; !search_end(&s, hold); trials++) {
        const size_t size = search_next(&s);
        cr_assert_lt(size, sizes);
        cr_assert_lt(trials, 200, "no end with limit %zu of %zu", n.limit, sizes);
        search_note(&s, size, try(&n, size));
    }
    return trials;
}

Test(search, an_honest_node_is_found_in_few_trials) {
    for (size_t sizes = 1; sizes <= SEARCH_SIZES_MOST; sizes++)
        for (size_t limit = 0; limit <= sizes; limit++) {
            size_t hold;
            const size_t trials = find((struct node){limit, sizes, 0, 0, 0}, sizes, &hold);
            cr_assert_eq(hold, limit, "%zu of %zu, not %zu", hold, sizes, limit);
            cr_assert_leq(trials, 12, "%zu of %zu took %zu trials", limit, sizes, trials);
        }
}

Test(search, one_lie_in_ten_does_not_spoil_the_answer) {
    size_t right = 0, all = 0, trials = 0;
    for (uint64_t seed = 0; seed < 200; seed++)
        for (size_t limit = 0; limit <= 12; limit++, all++) {
            size_t hold;
            trials += find((struct node){limit, 12, 0.1, 0.02, sonar_random_mix(seed * 13 + limit)},
                           12, &hold);
            right += hold == limit;
        }
    cr_assert_geq((double)right, 0.94 * (double)all, "%zu of %zu", right, all);
    cr_assert_leq((double)trials, 12.0 * (double)all, "%zu trials for %zu", trials, all);
}

Test(search, a_size_that_cannot_be_run_is_not_tried_again) {
    for (size_t possible = 0; possible <= 12; possible++) {
        search s = search_begin(12);
        bool tried[12] = {false};
        size_t hold;
        while (!search_end(&s, &hold)) {
            const size_t size = search_next(&s);
            const bool can = size < possible;
            cr_assert(can || !tried[size], "%zu again", size);
            tried[size] = true;
            search_note(&s, size, can ? SEARCH_HELD : SEARCH_IMPOSSIBLE);
        }
        cr_assert_eq(hold, possible);
    }
}

/* Right at the limit a size holds every other time: either answer is accepted, but the search must
 * end. */
Test(search, a_size_that_holds_every_other_time_comes_to_an_end) {
    for (uint64_t seed = 0; seed < 200; seed++) {
        size_t hold;
        find((struct node){7, 12, 0.5, 0, sonar_random_mix(seed)}, 12, &hold);
        cr_assert_leq(hold, 7);
    }
}
