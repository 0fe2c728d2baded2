/* SPDX-License-Identifier: GPL-3.0-or-later */
/* An MVDR stage whose inverse follows the snapshots, beside one that begins anew with every window,
 * because somebody wants its eigenvalues. The site's host asks site_choose. */
#ifndef SONAR_TEST_MVDR_BESIDE_H
#define SONAR_TEST_MVDR_BESIDE_H

#include "mvdr_fixture.h"

enum { BESIDE_LOOKS = 45 }; /* directions */

/* Two stages that get the same, and the last snapshots. */
typedef struct beside {
    site *site;
    mvdr_fixture f, anew;
    sonar_c32 *held; /* [L][bin][sensor], the newest last */
    size_t length, windows, judged;
    size_t followed; /* windows with an inverse of windows before; where nobody can look inside,
                        those with other bits than a stage's that begins anew */
    double worst_db;
} beside;

/* How to find out for how many windows a bin's inverse has followed; NULL: it cannot be. */
void beside_look_inside(unsigned (*age)(const mvdr_fixture *f, size_t bin));
unsigned beside_age(const beside *b, size_t bin);

sonar_mvdr_spec beside_spec(size_t sensors, size_t snapshots, sonar_loading rule, double eps);
/* The first stage on this path, or with an inverse for any number of sensors. */
void beside_begin(beside *b, site *site, const sonar_mvdr_spec *spec, const site_path *path);
void beside_begin_following(beside *b, site *site, const sonar_mvdr_spec *spec);
/* Expects that the two were never apart. */
void beside_end(beside *b);

/* One window; `judged`: the other stage gets it too, and what it had not got before. */
void beside_window(beside *b, size_t count, const sonar_c32 *x, bool judged);
/* A whole block; so many windows of one new snapshot each. */
void beside_fill(beside *b, const mvdr_wave *waves, size_t n, uint64_t seed);
void beside_go_on(beside *b, size_t windows, const mvdr_wave *waves, size_t n, uint64_t seed);
/* One new snapshot for both, neither of which begins anew but the one that finds eigenvalues. */
void beside_both(beside *b, const sonar_c32 *x);
/* Judges what both say of the last window, and at points that are no directions. */
void beside_compare(beside *b);

/* Expects of more than such a share of the windows that bin 0 had the inverse of windows before.
 * From outside it is seen, with the trace's loading, which moves with every window, where float32
 * does not hide it: in a fourth of them. */
void beside_expect_followed(const beside *b, double share);
/* Expects it for so many windows, where one can look inside. */
void beside_expect_age(const beside *b, size_t bin, unsigned age);

#endif
