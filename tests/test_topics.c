/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The rows of sonar/topics.h: complete, and as in docs/reading.md. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "status/topic.h"
#include "text.h"

/* "[range][direction] ", "" for a topic without an array. */
static void print_axes(const sonar_topic *topic, char *to, size_t bytes) {
    static const char *const axis[] = {"",       "[channel]",   "[range]",
                                       "[bin]",  "[direction]", "[coordinate]",
                                       "[mode]", "[beam]",      "[sample]"};
    snprintf(to, bytes, "%s%s", axis[topic->axis[0]], axis[topic->axis[1]]);
}

Test(topics, reading_md_has_each_row) {
    static const char *const when[] = {"every window", "while subscribed by name", "once a second"};
    char *document = text_read(SONAR_SOURCE_DIR "/docs/reading.md", NULL);
    cr_assert_not_null(document);
    for (int i = 0; i < SONAR_SURFACES; i++) {
        const sonar_topic *t = &sonar_topic_table[i];
        char axes[40], row[200];
        print_axes(t, axes, sizeof axes);
        snprintf(row, sizeof row, "\n| `%s` | %s%s%s%s%s | %s", t->name, axes[0] ? "`" : "none; ",
                 axes, axes[0] ? "`" : "", axes[0] ? " " : "", t->help, when[t->when]);
        cr_expect(strstr(document, row), "docs/reading.md lacks:%s", row);
    }
    free(document);
}

Test(topics, rows_are_whole) {
    for (int i = 0; i < SONAR_SURFACES; i++) {
        const sonar_topic *t = &sonar_topic_table[i];
        cr_assert(t->name && t->name[0] && t->help && t->help[0], "row %d", i);
        cr_expect_leq(strlen(t->name), SONAR_TOPIC_MOST);
        cr_expect(!(t->needs & SONAR_WANT(i)), "%s needs itself", t->name);
        cr_expect(t->axis[0] == SONAR_AXIS_NONE || t->axis[1] != SONAR_AXIS_NONE,
                  "%s: an only axis is the inner one", t->name);
    }
}

Test(topics, an_array_with_an_empty_axis_is_none) {
    const sonar_extents all = {.channels = 7,
                               .ranges = 2,
                               .cbf_directions = 5,
                               .cbf_bins = 11,
                               .mvdr_directions = 3,
                               .mvdr_bins = 13,
                               .mvdr_ranges = 4};
    sonar_extents less = all;
    size_t shape[2];
    cr_expect_eq(sonar_topic_shape(SONAR_CBF_NEARFIELD, &all, shape), 2);
    cr_expect(shape[0] == 2 && shape[1] == 5);
    cr_expect_eq(sonar_topic_shape(SONAR_MVDR_SPECTRUM, &all, shape), 2);
    cr_expect(shape[0] == 13 && shape[1] == 3);
    cr_expect_eq(sonar_topic_shape(SONAR_MVDR_NEARFIELD, &all, shape), 2);
    cr_expect(shape[0] == 4 && shape[1] == 3);
    cr_expect_eq(sonar_topic_shape(SONAR_ELEMENT_MISSING, &all, shape), 1);
    cr_expect(shape[0] == 7 && shape[1] == 0);
    cr_expect_eq(sonar_topic_shape(SONAR_ELEMENT_POSITION, &all, shape), 2);
    cr_expect(shape[0] == 7 && shape[1] == 3);
    cr_expect_eq(sonar_topic_shape(SONAR_CBF_NORMALISED, &all, shape), 1);
    cr_expect(shape[0] == 5 && shape[1] == 0);
    cr_expect_eq(sonar_topic_shape(SONAR_MVDR_NORMALISED, &all, shape), 1);
    cr_expect(shape[0] == 3 && shape[1] == 0);
    cr_expect_eq(sonar_topic_shape(SONAR_CBF_SPED, &all, shape), 1);
    cr_expect(shape[0] == 5 && shape[1] == 0);
    less.ranges = less.mvdr_directions = 0;
    cr_expect_eq(sonar_topic_shape(SONAR_MVDR_NORMALISED, &less, shape), 0);
    cr_expect_eq(sonar_topic_shape(SONAR_CBF_NEARFIELD, &less, shape), 0);
    cr_expect_eq(sonar_topic_shape(SONAR_MVDR_AZIMUTH, &less, shape), 0);
    less = all, less.mvdr_ranges = 0;
    cr_expect_eq(sonar_topic_shape(SONAR_MVDR_NEARFIELD, &less, shape), 0);
    cr_expect_eq(sonar_topic_shape(SONAR_CBF_NEARFIELD, &less, shape), 2);
    cr_expect_eq(sonar_topic_shape(SONAR_STATUS, &all, shape), 0);
}

/* What is needed to compute a topic counts as asked for with it, even if it is not named. */
Test(topics, a_topic_needs_what_it_is_made_of) {
    cr_expect_eq(sonar_topics_needed(SONAR_WANT(SONAR_CBF_SPED)),
                 SONAR_WANT(SONAR_CBF_SPED) | SONAR_WANT(SONAR_CBF_LOFAR));
}
