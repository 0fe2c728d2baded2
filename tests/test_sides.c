/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Port or starboard, from contacts of a ship that turns, of one that does not, and from noise. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "core/core.h"
#include "core/random.h"
#include "detect/detect.h"
#include "detect/sides.h"

static const double RADIANS = M_PI / 180, BEAM_DEG = 2;

static sonar_scan line_at(double axis_deg, double depression_deg) {
    return (sonar_scan){.cone = true,
                        .axis_az_deg = axis_deg,
                        .axis_depression_deg = depression_deg,
                        .beam_width_deg = BEAM_DEG};
}

/* Simulated detections of sources at true bearings: each found with probability `seen` and an error
 * of `scatter` beam widths; and random false contacts. */
typedef struct sea {
    sonar_scan scan;
    size_t sources;
    double bearing_deg[8];
    double fixed_deg; /* own noise at this angle, 0: none */
    double seen, scatter, noise;
    uint64_t seed;
} sea;

static void put(const sea *s, double cosine, double heading_deg, sonar_detection *to) {
    *to = (sonar_detection){.az_deg = acos(fmin(fmax(cosine, -1), 1)) / RADIANS};
    sonar_detect_bearing(&s->scan, to->az_deg, heading_deg, isfinite(heading_deg), &to->bearing_deg,
                         &to->mirror_deg);
}

static size_t look(sea *s, double heading_deg, double known_deg, sonar_detection *d) {
    size_t count = 0;
    const double tilt = cos(s->scan.axis_depression_deg * RADIANS);
    for (size_t i = 0; i < s->sources; i++) {
        const double off = (s->bearing_deg[i] - heading_deg - s->scan.axis_az_deg) * RADIANS;
        const double error = s->scatter * BEAM_DEG * RADIANS * sonar_random_normal(&s->seed);
        if (sonar_random_uniform(&s->seed) < s->seen)
            put(s, cos(off) * tilt + error, known_deg, &d[count++]);
    }
    if (s->fixed_deg > 0)
        put(s,
            cos(s->fixed_deg * RADIANS) +
                s->scatter * BEAM_DEG * RADIANS * sonar_random_normal(&s->seed),
            known_deg, &d[count++]);
    for (double left = s->noise; left > 0; left -= 1)
        if (sonar_random_uniform(&s->seed) < left)
            put(s, sonar_random_symmetric(&s->seed), known_deg, &d[count++]);
    return count;
}

/* The contact nearest to a true bearing, or NULL: both of its bearings count. */
static const sonar_detection *contact_at(const sonar_detection *d, size_t count, double deg) {
    const sonar_detection *best = NULL;
    double off = 0.6 * BEAM_DEG;
    for (size_t i = 0; i < count; i++) {
        const double apart = fmin(fabs(remainder(d[i].bearing_deg - deg, 360)),
                                  fabs(remainder(d[i].mirror_deg - deg, 360)));
        if (apart < off) {
            off = apart;
            best = &d[i];
        }
    }
    return best;
}

static size_t told(const sonar_detection *d, size_t count) {
    size_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        cr_assert(d[i].side == SONAR_SIDE_UNKNOWN || d[i].side_confidence >= 0.5);
        cr_assert(d[i].side != SONAR_SIDE_UNKNOWN || d[i].side_confidence == 0);
        cr_assert(d[i].side_confidence >= 0 && d[i].side_confidence <= 1);
        sum += d[i].side != SONAR_SIDE_UNKNOWN;
    }
    return sum;
}

static sonar_sides_moment at(double t_s, double heading_deg) {
    return (sonar_sides_moment){.at_s = t_s, .length_s = 1, .heading_deg = heading_deg};
}

/* A window at t_s: simulated detections and their sides. */
static size_t pass(sonar_sides *sides, sea *s, double t_s, double heading_deg, double known_deg,
                   sonar_detection *d) {
    const size_t count = look(s, heading_deg, known_deg, d);
    const sonar_sides_moment moment = at(t_s, known_deg);
    sonar_sides_resolve(sides, &s->scan, &moment, d, count);
    return count;
}

static sonar_sides *open_sides(void) {
    sonar_sides *sides = sonar_sides_create();
    cr_assert_not_null(sides);
    return sides;
}

/* ---- evidence of a turn ---------------------------------------------------------------------- */

/* A leg, a turn by 40 degrees, a leg; ships to both sides, at all angles but those near the axis.
 * At the end every ship that is seen is on its side, with its bearing first. */
static void expect_sides(sea *s, double from_deg, double turn_deg) {
    sonar_sides *sides = open_sides();
    sonar_detection d[SONAR_DETECTIONS_MOST];
    size_t asked = 0, right = 0;
    for (int t = 0; t < 160; t++) {
        const double heading_deg = from_deg + turn_deg * fmin(fmax((t - 40) / 20.0, 0), 1);
        const size_t count = pass(sides, s, t, heading_deg, heading_deg, d);
        if (t < 40)
            cr_assert_eq(told(d, count), 0, "before the turn nothing can be told");
        for (size_t i = 0; t > 100 && i < s->sources; i++) {
            const sonar_detection *c = contact_at(d, count, s->bearing_deg[i]);
            if (!c)
                continue;
            const bool port =
                sin((s->bearing_deg[i] - heading_deg - s->scan.axis_az_deg) * RADIANS) < 0;
            asked++;
            right += c->side == (port ? SONAR_SIDE_PORT : SONAR_SIDE_STARBOARD);
            cr_assert_neq(c->side, port ? SONAR_SIDE_STARBOARD : SONAR_SIDE_PORT,
                          "%g deg is on the other side at %d s", s->bearing_deg[i], t);
            if (c->side != SONAR_SIDE_UNKNOWN)
                cr_assert_lt(fabs(remainder(c->bearing_deg - s->bearing_deg[i], 360)),
                             0.6 * BEAM_DEG);
        }
    }
    cr_expect_gt(asked, 30 * s->sources);
    cr_expect_geq(10 * right, 9 * asked, "%zu of %zu", right, asked);
    sonar_sides_destroy(sides);
}

Test(sides, a_turn_distinguishes_port_from_starboard) {
    sea s = {.scan = line_at(0, 0), .seen = 1, .seed = 1};
    const double bearing_deg[] = {70, 200, 250, 310};
    s.sources = 4;
    memcpy(s.bearing_deg, bearing_deg, sizeof bearing_deg);
    expect_sides(&s, 100, 40);
    expect_sides(&s, 340, -40);
}

Test(sides, also_where_contacts_come_and_go_and_others_are_false) {
    sea s = {.scan = line_at(12, 20), .seen = 0.85, .scatter = 0.1, .noise = 2, .seed = 2};
    const double bearing_deg[] = {70, 200, 250};
    s.sources = 3;
    memcpy(s.bearing_deg, bearing_deg, sizeof bearing_deg);
    expect_sides(&s, 100, 40);
}

/* A moving ship, followed on a straight leg long after the turn: its bearing at the decision is
 * many beams away. In the end the side is forgotten. */
Test(sides, a_contact_keeps_its_side_while_it_is_followed) {
    sea s = {.scan = line_at(0, 0), .seen = 1, .sources = 1, .bearing_deg = {300}, .seed = 3};
    sonar_sides *sides = open_sides();
    sonar_detection d[SONAR_DETECTIONS_MOST];
    double before = 1;
    bool last = false;
    for (int t = 0; t < 3000; t++) {
        const double heading_deg = 40 * fmin(fmax((t - 40) / 20.0, 0), 1);
        s.bearing_deg[0] = 300 - 0.03 * fmin(fmax(t - 200, 0), 1300);
        pass(sides, &s, t, heading_deg, heading_deg, d);
        if (t > 100 && t < 500)
            cr_assert_eq(d[0].side, SONAR_SIDE_PORT, "at %d s", t);
        if (t > 300)
            cr_assert_leq(d[0].side_confidence, before + 1e-12, "at %d s", t);
        before = d[0].side_confidence;
        last = d[0].side != SONAR_SIDE_UNKNOWN;
    }
    cr_expect_not(last, "after 45 min on one course nothing is told any more");
    sonar_sides_destroy(sides);
}

/* The bow or the stern swings past a ship: its side changes, and near the axis, where the two
 * bearings hardly differ, it is unknown. */
Test(sides, past_the_bow_and_the_stern_it_changes_or_is_not_told) {
    for (int way = -1; way <= 1; way += 2)
        for (double rate_deg_s = 0.5; rate_deg_s <= 3; rate_deg_s *= 1.4) {
            sea s = {.scan = line_at(0, 0),
                     .seen = 0.95,
                     .scatter = 0.1,
                     .noise = 1,
                     .sources = 1,
                     .bearing_deg = {110},
                     .seed = 12};
            sonar_sides *sides = open_sides();
            sonar_detection d[SONAR_DETECTIONS_MOST];
            size_t asked = 0, right = 0;
            for (double t = 0; t < 500 / rate_deg_s; t += 0.5) {
                const double heading_deg = way * rate_deg_s * t;
                const size_t count = look(&s, heading_deg, heading_deg, d);
                sonar_sides_moment moment = at(t, heading_deg);
                moment.length_s = 0.5;
                sonar_sides_resolve(sides, &s.scan, &moment, d, count);
                told(d, count);
                const sonar_detection *c = contact_at(d, count, 110);
                const double off_deg = remainder(110 - heading_deg, 360);
                if (!c)
                    continue;
                const sonar_side side = off_deg < 0 ? SONAR_SIDE_PORT : SONAR_SIDE_STARBOARD;
                cr_assert(c->side == SONAR_SIDE_UNKNOWN || c->side == side,
                          "%g deg/s, %g deg off the axis: on the other side with %g", rate_deg_s,
                          off_deg, c->side_confidence);
                asked += t * rate_deg_s > 60 && fabs(sin(off_deg * RADIANS)) > 0.5;
                right +=
                    t * rate_deg_s > 60 && fabs(sin(off_deg * RADIANS)) > 0.5 && c->side == side;
            }
            cr_expect_gt(10 * right, 8 * asked, "%g deg/s: %zu of %zu", rate_deg_s, right, asked);
            sonar_sides_destroy(sides);
        }
}

/* A ship with a known side leaves; a later contact at the same angle starts as unknown. */
Test(sides, another_contact_does_not_inherit) {
    sea s = {.scan = line_at(0, 0), .seen = 1, .sources = 1, .bearing_deg = {300}, .seed = 4};
    sonar_sides *sides = open_sides();
    sonar_detection d[SONAR_DETECTIONS_MOST];
    for (int t = 0; t < 400; t++) {
        const double heading_deg = 40 * fmin(fmax((t - 40) / 20.0, 0), 1);
        s.sources = t < 200 || t >= 300;
        pass(sides, &s, t, heading_deg, heading_deg, d);
        if (t == 199)
            cr_expect_eq(d[0].side, SONAR_SIDE_PORT);
        if (t >= 300)
            cr_assert_eq(d[0].side, SONAR_SIDE_UNKNOWN, "at %d s", t);
    }
    sonar_sides_destroy(sides);
}

/* A ship to starboard replaces one with side port. It inherits that side until the next turn
 * corrects it. */
Test(sides, a_turn_corrects_what_was_told) {
    sea s = {.scan = line_at(0, 0), .seen = 1, .sources = 1, .bearing_deg = {300}, .seed = 11};
    sonar_sides *sides = open_sides();
    sonar_detection d[SONAR_DETECTIONS_MOST];
    for (int t = 0; t < 300; t++) {
        const double heading_deg =
            40 * fmin(fmax((t - 40) / 20.0, 0), 1) - 40 * fmin(fmax((t - 240) / 20.0, 0), 1);
        s.bearing_deg[0] = t < 200 ? 300 : 140; /* both 100 off the axis at 40 */
        pass(sides, &s, t, heading_deg, heading_deg, d);
        if (t > 260)
            cr_assert_eq(d[0].side, SONAR_SIDE_STARBOARD, "at %d s", t);
        else if (t > 100 && t < 240)
            cr_assert_eq(d[0].side, SONAR_SIDE_PORT, "at %d s", t);
    }
    sonar_sides_destroy(sides);
}

/* ---- no evidence ----------------------------------------------------------------------------- */

Test(sides, a_straight_course_decides_nothing) {
    sea s = {.scan = line_at(0, 0),
             .seen = 0.9,
             .scatter = 0.15,
             .noise = 2,
             .sources = 4,
             .bearing_deg = {70, 200, 250, 310},
             .seed = 5};
    sonar_sides *sides = open_sides();
    sonar_detection d[SONAR_DETECTIONS_MOST];
    for (int t = 0; t < 5000; t++) {
        const double heading_deg = 100 + 0.2 * sonar_random_symmetric(&s.seed);
        const size_t count = pass(sides, &s, t, heading_deg, heading_deg, d);
        cr_assert_eq(told(d, count), 0, "at %d s", t);
    }
    sonar_sides_destroy(sides);
}

/* Turning all the time, by many rates, few and many false contacts. */
Test(sides, noise_decides_nothing) {
    static const double rate_deg_s[] = {0.05, 0.3, 1, 3}, many[] = {1, 4, 12};
    for (size_t r = 0; r < 4; r++)
        for (size_t m = 0; m < 3; m++) {
            sea s = {.scan = line_at(0, 0), .noise = many[m], .seed = 6 + 10 * r + m};
            sonar_sides *sides = open_sides();
            sonar_detection d[SONAR_DETECTIONS_MOST];
            for (int t = 0; t < 4000; t++) {
                const double heading_deg = fmod(rate_deg_s[r] * t, 360);
                const size_t count = pass(sides, &s, t, heading_deg, heading_deg, d);
                cr_assert_eq(told(d, count), 0, "at %d s", t);
            }
            sonar_sides_destroy(sides);
        }
}

/* Own noise stays at a constant angle of the array: during turns, and after a turn by about a beam
 * width, where the two predicted angles are nearest to it. */
Test(sides, own_noise_is_on_no_side) {
    for (double turn_deg = 0.25; turn_deg < 30; turn_deg *= 1.1) {
        sea s = {.scan = line_at(0, 0), .fixed_deg = 60, .scatter = 0.1, .seed = 77};
        sonar_sides *sides = open_sides();
        sonar_detection d[SONAR_DETECTIONS_MOST];
        for (int t = 0; t < 200; t++) {
            const double heading_deg = turn_deg * fmin(fmax((t - 60) / 20.0, 0), 1);
            const size_t count = pass(sides, &s, t, heading_deg, heading_deg, d);
            cr_assert_eq(told(d, count), 0, "turned by %g deg, at %d s", turn_deg, t);
        }
        sonar_sides_destroy(sides);
    }
}

/* Two ships at one angle from the axis, one to each side, look like one contact: in earlier windows
 * on another course both predicted angles have a contact, so its side is unknown. */
Test(sides, two_ships_behind_each_other_have_no_side) {
    sea s = {.scan = line_at(0, 0), .seen = 1, .sources = 2, .bearing_deg = {80, 300}, .seed = 8};
    sonar_sides *sides = open_sides();
    sonar_detection d[SONAR_DETECTIONS_MOST];
    for (int t = 0; t < 120; t++) {
        const double heading_deg = t < 60 ? -30 : 10; /* then both are 70 deg off the axis */
        const size_t count = pass(sides, &s, t, heading_deg, heading_deg, d);
        cr_assert_eq(told(d, count), 0, "at %d s", t);
    }
    sonar_sides_destroy(sides);
}

Test(sides, without_a_heading_or_a_line_there_is_no_side) {
    sea s = {.scan = line_at(0, 0), .seen = 1, .sources = 1, .bearing_deg = {300}, .seed = 9};
    sonar_sides *sides = open_sides();
    sonar_detection d[SONAR_DETECTIONS_MOST];
    for (int t = 0; t < 100; t++) {
        const double heading_deg = fmin(t, 50);
        const size_t count = pass(sides, &s, t, heading_deg, NAN, d);
        cr_assert_eq(told(d, count), 0);
    }
    const sonar_scan circle = {.wraps = true, .beam_width_deg = 2};
    const sonar_sides_moment moment = at(200, 10);
    d[0].side = SONAR_SIDE_PORT;
    sonar_sides_resolve(sides, &circle, &moment, d, 1);
    cr_expect_eq(d[0].side, SONAR_SIDE_ALL);
    sonar_sides_destroy(sides);
}

/* After another stream, or a clock that is set back, the history is not used. */
Test(sides, another_stream_restarts) {
    for (int how = 0; how < 2; how++) {
        sea s = {.scan = line_at(0, 0), .seen = 1, .sources = 1, .bearing_deg = {300}, .seed = 10};
        sonar_sides *sides = open_sides();
        sonar_detection d[SONAR_DETECTIONS_MOST];
        for (int t = 0; t < 140; t++) {
            const double heading_deg = 40 * fmin(fmax((t - 40) / 20.0, 0), 1);
            const size_t count = look(&s, heading_deg, heading_deg, d);
            const sonar_sides_moment moment = at(t < 120 || how ? t : t - 119, heading_deg);
            if (t == 120 && how)
                sonar_sides_forget(sides);
            sonar_sides_resolve(sides, &s.scan, &moment, d, count);
            if (t >= 120 || t <= 40)
                cr_assert_eq(d[0].side, SONAR_SIDE_UNKNOWN, "at %d s", t);
            else if (t > 60)
                cr_assert_eq(d[0].side, SONAR_SIDE_PORT, "at %d s", t);
        }
        sonar_sides_destroy(sides);
    }
}
