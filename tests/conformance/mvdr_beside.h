/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Compares an MVDR stage that updates its inverse with one that solves every window from scratch,
 * because its eigenvalues are requested. The site's host uses site_choose. */
#ifndef SONAR_TEST_MVDR_BESIDE_H
#define SONAR_TEST_MVDR_BESIDE_H

#include "mvdr_fixture.h"

enum { BESIDE_LOOKS = 45 }; /* directions */

/* Two stages with the same input, and the last snapshots. */
typedef struct beside {
    site *site;
    mvdr_fixture f, reference;
    sonar_c32 *held; /* [L][bin][sensor], the newest last */
    size_t length, windows, judged;
    size_t followed; /* windows with an updated inverse; if this cannot be read, windows whose bits
                        differ from those of the other stage */
    double worst_db;
} beside;

/* Returns the number of windows for which a bin's inverse has been updated; NULL: cannot be read.
 */
void beside_look_inside(unsigned (*age)(const mvdr_fixture *f, size_t bin));
unsigned beside_age(const beside *b, size_t bin);

sonar_mvdr_spec beside_spec(size_t sensors, size_t snapshots, sonar_loading rule, double eps);
/* The first stage has an inverse for any number of sensors. */
void beside_begin_following(beside *b, site *site, const sonar_mvdr_spec *spec);
/* Expects that the two never differed. */
void beside_end(beside *b);

/* Runs one window; `judged`: also on the other stage, with the snapshots that it has not received
 * yet. */
void beside_window(beside *b, size_t count, const sonar_c32 *x, bool judged);
/* Runs a whole block; runs `count` windows of one new snapshot each. */
void beside_fill(beside *b, const mvdr_wave *waves, size_t n, uint64_t seed);
void beside_go_on(beside *b, size_t windows, const mvdr_wave *waves, size_t n, uint64_t seed);
/* One new snapshot for both; only the stage with eigenvalues solves from scratch. */
void beside_both(beside *b, const sonar_c32 *x);
/* Compares both for the last window, and at points off the grid. */
void beside_compare(beside *b);

/* Expects that bin 0 used an updated inverse in more than this share of the windows. If the number
 * cannot be read, it follows from the bits with the rule trace, whose loading changes with every
 * window, unless float32 hides it: in a fourth of the windows. */
void beside_expect_followed(const beside *b, double share);
/* Expects this number of windows, if it can be read. */
void beside_expect_age(const beside *b, size_t bin, unsigned age);

#endif
