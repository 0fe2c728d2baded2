/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A ship that both beamformers list is one contact, also while the array turns. */
#include <criterion/criterion.h>
#include <math.h>

#include "detect/detect.h"
#include "detect/fuse.h"

enum { BOTH = 3, CBF = 1, MVDR = 2 };

static const sonar_scan line = {.cone = true, .beam_width_deg = 3},
                        ring = {.wraps = true, .beam_width_deg = 3};

/* A beamformer's detection of a source at a true bearing. */
static sonar_detection row(const sonar_scan *scan, sonar_detect_source source, double bearing_deg,
                           double heading_deg) {
    const double off_deg = remainder(bearing_deg - heading_deg, 360);
    sonar_detection d = {.source = source,
                         .az_deg = scan->cone ? fabs(off_deg) : fmod(off_deg + 360, 360),
                         .side = scan->cone ? SONAR_SIDE_UNKNOWN : SONAR_SIDE_ALL};
    sonar_detect_bearing(scan, d.az_deg, heading_deg, isfinite(heading_deg), &d.bearing_deg,
                         &d.mirror_deg);
    return d;
}

static void one_ship(const sonar_scan *scan, double bearing_deg, double now_deg, double then_deg) {
    sonar_detection cbf[2] = {row(scan, SONAR_FROM_CBF, bearing_deg, now_deg),
                              row(scan, SONAR_FROM_CBF, bearing_deg + 100, now_deg)},
                    mvdr[2] = {row(scan, SONAR_FROM_MVDR, bearing_deg + 20, then_deg),
                               row(scan, SONAR_FROM_MVDR, bearing_deg, then_deg)};
    sonar_detect_fuse(scan, now_deg, cbf, 2, mvdr, 2);
    cr_expect_eq(cbf[0].contact, 0u);
    cr_expect_eq(cbf[1].contact, 1u);
    cr_expect_eq(mvdr[0].contact, 2u);
    cr_expect_eq(mvdr[1].contact, 0u, "turned from %g to %g", then_deg, now_deg);
    cr_expect_eq(cbf[0].rests_on, (unsigned)BOTH);
    cr_expect_eq(mvdr[1].rests_on, (unsigned)BOTH);
    cr_expect_eq(cbf[1].rests_on, (unsigned)CBF);
    cr_expect_eq(mvdr[0].rests_on, (unsigned)MVDR);
}

Test(fuse, a_ship_that_both_list_is_one_contact) {
    for (double then_deg = 0; then_deg <= 12; then_deg += 3) {
        one_ship(&line, 70, 0, then_deg);
        one_ship(&line, 280, 0, -then_deg);
        one_ship(&ring, 350, 10, 10 + then_deg);
    }
}

Test(fuse, two_that_one_beamformer_resolves_stay_two) {
    sonar_detection cbf[1] = {row(&line, SONAR_FROM_CBF, 80, 0)},
                    mvdr[2] = {row(&line, SONAR_FROM_MVDR, 81, 0),
                               row(&line, SONAR_FROM_MVDR, 79.5, 0)};
    sonar_detect_fuse(&line, 0, cbf, 1, mvdr, 2);
    cr_expect_eq(mvdr[0].contact, 1u);
    cr_expect_eq(mvdr[1].contact, 0u);
    cr_expect_eq(mvdr[0].rests_on, (unsigned)MVDR);
    cr_expect_eq(cbf[0].rests_on, (unsigned)BOTH);
}

Test(fuse, without_a_heading_the_frame_of_the_array_counts) {
    sonar_detection cbf[1] = {row(&line, SONAR_FROM_CBF, 80, 0)},
                    mvdr[2] = {row(&line, SONAR_FROM_MVDR, 80.5, 0),
                               row(&line, SONAR_FROM_MVDR, 90, 0)};
    cbf[0].bearing_deg = mvdr[0].bearing_deg = mvdr[1].bearing_deg = NAN;
    sonar_detect_fuse(&line, NAN, cbf, 1, mvdr, 2);
    cr_expect_eq(mvdr[0].contact, 0u);
    cr_expect_eq(mvdr[1].contact, 1u);
    sonar_detect_fuse(&line, NAN, cbf, 0, mvdr, 2);
    cr_expect_eq(mvdr[0].contact, 0u);
    cr_expect_eq(mvdr[1].contact, 1u);
}
