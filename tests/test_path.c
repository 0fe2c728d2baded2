/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Where towed sensors are, from headings and speeds as instruments send them, compared with paths
 * that formulas give; and the shape that an array has there. */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "configured.h"
#include "core/core.h"
#include "manifold/shape.h"
#include "nav/nav.h"

TestSuite(path, .timeout = 300);

enum { SENSORS = 33 };
static const double SCOPE_M = 150, SPACING_M = 2, STALE_S = 3;

static void quiet(void *ctx, sonar_level level, const char *where, const char *text) {
    (void)ctx, (void)level, (void)where, (void)text;
}

static const sonar_host host = {.log = quiet};

static sonar_nav *open_nav(double reach_m) {
    const sonar_nav_spec spec = {.stale_after_s = STALE_S, .tow_reach_m = reach_m};
    sonar_nav *nav;
    cr_assert_eq(sonar_nav_create(&spec, &host, &nav, NULL), SONAR_OK);
    return nav;
}

static int64_t utc(double t_s) {
    return INT64_C(1700000000000000000) + (int64_t)llrint(t_s * 1e9);
}

static void tell(sonar_nav *nav, sonar_nav_quantity what, double value, double t_s, bool held) {
    sonar_nav_values v = {.known = 1u << what};
    v.value[what] = value;
    sonar_nav_store(nav, held ? "control" : "nmea", &v, utc(t_s), held);
}

/* ---- a ship, by formulas --------------------------------------------------------------------- */

/* Turns at turn_deg_s from 0 s to until_s. */
typedef struct ship {
    double heading_deg, turn_deg_s, until_s, mps;
} ship;

static double turning_s(const ship *s, double t_s) {
    return fmin(fmax(t_s, 0), s->until_s);
}

static double heading_of(const ship *s, double t_s) {
    return s->heading_deg + s->turn_deg_s * turning_s(s, t_s);
}

static void place_of(const ship *s, double t_s, double place[2]) {
    const double a = s->heading_deg * M_PI / 180, b = heading_of(s, t_s) * M_PI / 180;
    const double radius = s->turn_deg_s ? s->mps / (s->turn_deg_s * M_PI / 180) : 0;
    const double straight = s->mps * (t_s - turning_s(s, t_s));
    place[0] = radius * (sin(b) - sin(a)) + straight * cos(b);
    place[1] = radius * (cos(a) - cos(b)) + straight * sin(b);
}

/* HDT ten times a second, VHW once a second. */
static void sail(sonar_nav *nav, const ship *s, double from_s, double to_s) {
    for (int i = (int)lrint(from_s * 10); i <= (int)lrint(to_s * 10); i++) {
        if (i % 10 == 0)
            tell(nav, SONAR_NAV_WATER_SPEED, s->mps, 0.1 * i, false);
        tell(nav, SONAR_NAV_HEADING, sonar_modulo_turn(heading_of(s, 0.1 * i)), 0.1 * i, false);
    }
}

typedef struct found {
    double behind_m[SENSORS], north_m[SENSORS], east_m[SENSORS], depth_m[SENSORS];
    sonar_tow tow;
} found;

static found find(sonar_nav *nav, double t_s) {
    found f;
    for (size_t k = 0; k < SENSORS; k++)
        f.behind_m[k] = SCOPE_M + SPACING_M * (double)k;
    sonar_nav_places(nav, utc(t_s), SENSORS, f.behind_m,
                     &(sonar_nav_places_m){f.north_m, f.east_m, f.depth_m}, &f.tow);
    return f;
}

static double worst_of(const found *f, const ship *s, double t_s) {
    double from[2], worst = 0;
    place_of(s, t_s, from);
    for (size_t k = 0; k < SENSORS; k++) {
        double at[2];
        place_of(s, t_s - f->behind_m[k] / s->mps, at);
        worst =
            fmax(worst, hypot(f->north_m[k] - (at[0] - from[0]), f->east_m[k] - (at[1] - from[1])));
    }
    return worst;
}

static const double REACH_M = 150 + 2 * 32;

/* Before, in and after a turn, to starboard and port, through north; also between two sentences and
 * after the newest one. */
Test(path, sensors_lie_on_the_circle_that_the_ship_has_gone) {
    const double turns[] = {1, -1, 0.2, -3};
    for (size_t i = 0; i < 4; i++) {
        const ship s = {.heading_deg = 350, .turn_deg_s = turns[i], .until_s = 90, .mps = 4};
        sonar_nav *nav = open_nav(REACH_M);
        sail(nav, &s, -60, 150);
        for (double t_s = 0; t_s < 150.5; t_s += 1.37) {
            const found f = find(nav, t_s);
            cr_expect_eq(f.tow.state, SONAR_TOW_KNOWN, "%d at %g s", f.tow.state, t_s);
            cr_expect_lt(worst_of(&f, &s, t_s), 0.03, "%g m off at %g s, %g deg/s",
                         worst_of(&f, &s, t_s), t_s, turns[i]);
            cr_expect_float_eq(f.tow.reach_m, REACH_M, 1e-9);
        }
        sonar_nav_destroy(nav);
    }
}

Test(path, is_straight_on_a_straight_course) {
    const ship s = {.heading_deg = 123.4, .mps = 2.5};
    sonar_nav *nav = open_nav(REACH_M);
    sail(nav, &s, 0, 200);
    const found f = find(nav, 199.95);
    for (size_t k = 0; k < SENSORS; k++) {
        cr_expect_float_eq(f.north_m[k], -f.behind_m[k] * cos(123.4 * M_PI / 180), 1e-6);
        cr_expect_float_eq(f.east_m[k], -f.behind_m[k] * sin(123.4 * M_PI / 180), 1e-6);
    }
    cr_expect_float_eq(f.tow.seen_m, 2.5 * 199.95, 0.01);
    sonar_nav_destroy(nav);
}

/* A ship that stops and turns on the spot leaves its array where it is, and its tow point too. */
Test(path, stays_while_the_ship_does_not_move) {
    const ship s = {.heading_deg = 10, .turn_deg_s = 1, .until_s = 1e9, .mps = 4};
    sonar_nav *nav = open_nav(REACH_M);
    sail(nav, &s, -60, 80);
    for (int i = 1; i <= 4; i++) /* slows down as a ship does */
        tell(nav, SONAR_NAV_WATER_SPEED, 4 - i, 80 + 0.02 * i, false);
    const found before = find(nav, 80.09);
    const ship spins = {.heading_deg = 90 - 800, .turn_deg_s = 10, .until_s = 1e9, .mps = 0};
    sail(nav, &spins, 80.1, 140);
    const found after = find(nav, 140);
    for (size_t k = 0; k < SENSORS; k++) {
        cr_expect_float_eq(after.north_m[k], before.north_m[k], 0.2);
        cr_expect_float_eq(after.east_m[k], before.east_m[k], 0.2);
    }
    cr_expect_eq(after.tow.state, SONAR_TOW_KNOWN);
    sonar_nav_destroy(nav);
}

/* As long as the array still reaches into what was not seen. */
Test(path, is_unknown_until_it_is_longer_than_the_array_reaches) {
    const ship s = {.heading_deg = 77, .mps = 4};
    sonar_nav *nav = open_nav(REACH_M);
    cr_expect_eq(find(nav, 0).tow.state, SONAR_TOW_NO_SPEED);
    tell(nav, SONAR_NAV_WATER_SPEED, 4, 0, false);
    cr_expect_eq(find(nav, 0).tow.state, SONAR_TOW_NO_HEADING);
    sail(nav, &s, 0, 50);
    found f = find(nav, 50);
    cr_expect_eq(f.tow.state, SONAR_TOW_SHORT);
    cr_expect_float_eq(f.tow.seen_m, 200, 0.1);
    cr_expect_lt(worst_of(&f, &s, 50), 1e-6, "straight before");
    sail(nav, &s, 50.1, 54);
    cr_expect_eq(find(nav, 54).tow.state, SONAR_TOW_KNOWN);
    /* ten seconds without sentences, in which it goes on as it did */
    sail(nav, &s, 64, 70);
    f = find(nav, 70);
    cr_expect_eq(f.tow.state, SONAR_TOW_SHORT);
    cr_expect_float_eq(f.tow.seen_m, 24, 0.5);
    cr_expect_lt(worst_of(&f, &s, 70), 0.1, "%g", worst_of(&f, &s, 70));
    sail(nav, &s, 70.1, 118);
    cr_expect_eq(find(nav, 118).tow.state, SONAR_TOW_KNOWN);
    /* without a speed it goes on as fast as before for a minute */
    for (int i = 0; i < 599; i++) {
        tell(nav, SONAR_NAV_HEADING, 77, 118.1 + 0.1 * i, false);
        cr_expect_eq(find(nav, 118.1 + 0.1 * i).tow.state,
                     i <= 29 ? SONAR_TOW_KNOWN : SONAR_TOW_SHORT, "%d", i);
    }
    f = find(nav, 122.9);
    cr_expect_eq(f.tow.state, SONAR_TOW_SHORT);
    cr_expect_eq(f.tow.seen_m, 0);
    cr_expect_lt(worst_of(&f, &s, 122.9), 0.1, "as fast as before: %g", worst_of(&f, &s, 122.9));
    cr_expect_eq(find(nav, 177.9).tow.state, SONAR_TOW_SHORT);
    cr_expect_eq(find(nav, 178.1).tow.state, SONAR_TOW_NO_SPEED);
    sonar_nav_destroy(nav);
}

Test(path, begins_again_when_the_clock_is_set_back) {
    const ship s = {.heading_deg = 77, .mps = 4};
    sonar_nav *nav = open_nav(REACH_M);
    sail(nav, &s, 0, 100);
    tell(nav, SONAR_NAV_HEADING, 77, 99, false); /* late by a second: the path stays */
    cr_expect_eq(find(nav, 100).tow.state, SONAR_TOW_KNOWN);
    const ship other = {.heading_deg = 200, .mps = 4};
    sail(nav, &other, 40, 60);
    const found f = find(nav, 60);
    cr_expect_eq(f.tow.state, SONAR_TOW_SHORT);
    cr_expect_float_eq(f.tow.seen_m, 80, 0.1);
    cr_expect_lt(worst_of(&f, &other, 60), 1e-6);
    sonar_nav_destroy(nav);
}

/* Wrong sentences with right checksums: a heading across the course, and speeds no ship has. */
Test(path, wrong_sentences_hardly_move_the_array) {
    const ship s = {.heading_deg = 350, .turn_deg_s = 1, .until_s = 90, .mps = 4};
    sonar_nav *nav = open_nav(REACH_M);
    sail(nav, &s, -60, 0);
    for (int i = 0; i < 100; i++) {
        tell(nav, SONAR_NAV_HEADING, sonar_modulo_turn(heading_of(&s, i) + 90), i + 0.03, false);
        tell(nav, SONAR_NAV_WATER_SPEED, i % 2 ? 19 : 900, i + 0.04, false);
        tell(nav, SONAR_NAV_SPEED, 0, i + 0.05, false);
        sail(nav, &s, i + 0.1, i + 1);
        if (i < 20)
            continue;
        const found f = find(nav, i + 1);
        cr_expect_lt(worst_of(&f, &s, i + 1), 0.1, "%g m", worst_of(&f, &s, i + 1));
        cr_expect_eq(f.tow.state, SONAR_TOW_KNOWN);
    }
    sonar_nav_destroy(nav);
}

/* Whatever comes, no sensor is further from the tow point than its cable is long. */
Test(path, noise_never_moves_a_sensor_beyond_its_cable) {
    sonar_nav *nav = open_nav(REACH_M);
    uint64_t random = 1;
    double t_s = 0;
    for (int i = 0; i < 20000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const uint32_t draw = (uint32_t)(random >> 33);
        const sonar_nav_quantity what = draw % 3 == 0   ? SONAR_NAV_HEADING
                                        : draw % 3 == 1 ? SONAR_NAV_WATER_SPEED
                                                        : SONAR_NAV_SPEED;
        t_s += draw % 97 == 0 ? -5 : draw % 89 == 0 ? 100 : 0.1;
        tell(nav, what, what == SONAR_NAV_HEADING ? draw % 360 : draw % 1000 / 10.0, t_s,
             draw % 83 == 0);
        const found f = find(nav, t_s - draw % 7 + 3);
        for (size_t k = 0; k < SENSORS && f.tow.state <= SONAR_TOW_SHORT; k++)
            cr_assert_lt(hypot(f.north_m[k], f.east_m[k]), f.behind_m[k] + 1e-6);
    }
    sonar_nav_destroy(nav);
}

Test(path, speed_over_ground_serves_until_that_through_the_water_comes) {
    sonar_nav *nav = open_nav(REACH_M);
    for (int i = 0; i <= 100; i++) {
        tell(nav, SONAR_NAV_SPEED, 5, i, false);
        if (i > 50)
            tell(nav, SONAR_NAV_WATER_SPEED, 4.5, i, false);
        tell(nav, SONAR_NAV_HEADING, 0, i, false);
        const found f = find(nav, i);
        cr_expect_eq(f.tow.over_ground, i <= 50, "at %d s", i);
        const double way = i <= 50 ? 5 * i : 250 + 4.5 * (i - 50);
        cr_expect_float_eq(f.tow.seen_m, way, 1e-3, "%g in place of %g", f.tow.seen_m, way);
    }
    for (int i = 101; i <= 110; i++) { /* the log fails */
        tell(nav, SONAR_NAV_SPEED, 5, i, false);
        tell(nav, SONAR_NAV_HEADING, 0, i, false);
    }
    cr_expect(find(nav, 110).tow.over_ground);
    sonar_nav_destroy(nav);
}

/* Values set by hand hold for hours. */
Test(path, goes_on_by_hand) {
    sonar_nav *nav = open_nav(REACH_M);
    tell(nav, SONAR_NAV_WATER_SPEED, 3, 0, true);
    tell(nav, SONAR_NAV_HEADING, 90, 0, true);
    found f = find(nav, 7200);
    cr_expect_eq(f.tow.state, SONAR_TOW_KNOWN);
    cr_expect_float_eq(f.east_m[0], -SCOPE_M, 1e-6);
    tell(nav, SONAR_NAV_HEADING, 0, 7200, true);
    f = find(nav, 7250); /* the tow point has gone 150 m to the north */
    cr_expect_eq(f.tow.state, SONAR_TOW_KNOWN);
    cr_expect_float_eq(f.north_m[0], -SCOPE_M, 1e-6);
    cr_expect_float_eq(f.east_m[0], 0, 1e-6);
    cr_expect_float_eq(f.north_m[SENSORS - 1], -SCOPE_M, 1e-6);
    cr_expect_float_eq(f.east_m[SENSORS - 1], -SPACING_M * (SENSORS - 1), 1e-6);
    sonar_nav_destroy(nav);
}

/* The memory is bounded, and what the array reaches is in it however long the ship has sailed. */
Test(path, of_days_is_known_where_the_array_is) {
    const ship s = {.heading_deg = 0, .turn_deg_s = 0.05, .until_s = 1e9, .mps = 8};
    sonar_nav *nav = open_nav(REACH_M);
    for (int i = 0; i < 200000; i++) {
        tell(nav, SONAR_NAV_WATER_SPEED, s.mps, i, false);
        tell(nav, SONAR_NAV_HEADING, sonar_modulo_turn(heading_of(&s, i)), i, false);
    }
    found f = find(nav, 199999.5);
    cr_expect_eq(f.tow.state, SONAR_TOW_KNOWN);
    cr_expect_lt(worst_of(&f, &s, 199999.5), 0.1, "%g", worst_of(&f, &s, 199999.5));
    f = find(nav, 100); /* forgotten */
    cr_expect_eq(f.tow.state, SONAR_TOW_SHORT);
    sonar_nav_destroy(nav);
}

Test(path, is_not_kept_without_a_towed_array) {
    const ship s = {.heading_deg = 77, .mps = 4};
    sonar_nav *nav = open_nav(0);
    sail(nav, &s, 0, 100);
    cr_expect_eq(find(nav, 100).tow.state, SONAR_TOW_NONE);
    sonar_nav_destroy(nav);
}

/* A reader beside the thread that adds sees whole paths only: each place is on the circle. The path
 * grows by at most 500 points, of which it keeps more, while the reader looks once. */
typedef struct beside {
    sonar_nav *nav;
    atomic_int told, looks; /* told: tenths of a second; -1: it ends */
} beside;

static const ship round_and_round = {.heading_deg = 0, .turn_deg_s = 3, .until_s = 1e9, .mps = 5};

static void *sail_on(void *arg) {
    beside *b = arg;
    for (int i = 600; i < 60000; i++) {
        const int looks = atomic_load(&b->looks);
        sail(b->nav, &round_and_round, 0.1 * i, 0.1 * i);
        atomic_store(&b->told, i);
        while (i % 250 == 0 && atomic_load(&b->looks) == looks)
            sched_yield();
    }
    atomic_store(&b->told, -1);
    return NULL;
}

Test(path, is_read_while_it_grows) {
    beside b = {.nav = open_nav(REACH_M)};
    pthread_t thread;
    sail(b.nav, &round_and_round, -60, 59.9);
    atomic_store(&b.told, 599);
    cr_assert_eq(pthread_create(&thread, NULL, sail_on, &b), 0);
    for (int told; (told = atomic_load(&b.told)) >= 0; atomic_fetch_add(&b.looks, 1)) {
        const double t_s = 0.1 * told - 1;
        const found f = find(b.nav, t_s);
        cr_assert_eq(f.tow.state, SONAR_TOW_KNOWN);
        cr_assert_lt(worst_of(&f, &round_and_round, t_s), 0.05);
    }
    pthread_join(thread, NULL);
    cr_expect_geq(atomic_load(&b.looks), 60000 / 250 / 2);
    sonar_nav_destroy(b.nav);
}

/* ---- shape ----------------------------------------------------------------------------------- */

/* Sensors in a line along x, with the first ones ahead. */
static void describe(size_t n, double *position_m) {
    for (size_t k = 0; k < n; k++) {
        position_m[3 * k] = SPACING_M * ((double)(n - 1) / 2 - (double)k);
        position_m[3 * k + 1] = 0.1 * (double)(k % 3);
        position_m[3 * k + 2] = 7;
    }
}

Test(path, straight_shape_is_as_described) {
    for (size_t n = 2; n <= SENSORS; n++) {
        double position_m[3 * SENSORS], north_m[SENSORS], east_m[SENSORS], shape_m[3 * SENSORS];
        const double level_m[SENSORS] = {0};
        describe(n, position_m);
        for (size_t k = 0; k < n; k++) {
            north_m[k] = 1e4 + position_m[3 * k] * cos(4);
            east_m[k] = -3e4 + position_m[3 * k] * sin(4);
        }
        const double heading_deg = sonar_shape_heading(n, position_m, north_m, east_m);
        cr_expect_float_eq(remainder(heading_deg - 4 * 180 / M_PI, 360), 0, 1e-9);
        sonar_shape_place(n, position_m, north_m, east_m, level_m, heading_deg, shape_m);
        cr_expect_lt(sonar_shape_distance(n, position_m, shape_m), 1e-8);
    }
    const double one[3] = {5, 0, 0}, zero = 0;
    cr_expect(isnan(sonar_shape_heading(1, one, &zero, &zero)));
}

/* On a circle the array heads along the tangent at its middle, and is bent to the side to which the
 * ship turned: its ends lie there. */
Test(path, shape_on_a_circle) {
    const double radius = 200;
    double position_m[3 * SENSORS], north_m[SENSORS], east_m[SENSORS], shape_m[3 * SENSORS];
    double depth_m[SENSORS]; /* 50 m, and 1 m more at the ends than in the middle */
    describe(SENSORS, position_m);
    for (size_t k = 0; k < SENSORS; k++) {
        depth_m[k] = 50 + fabs((double)k - (SENSORS - 1) / 2.) / ((SENSORS - 1) / 2.);
        const double angle = 0.7 + position_m[3 * k] / radius; /* heading there */
        north_m[k] = radius * sin(angle);
        east_m[k] = -radius * cos(angle);
    }
    const double heading_deg = sonar_shape_heading(SENSORS, position_m, north_m, east_m);
    cr_expect_float_eq(heading_deg, 0.7 * 180 / M_PI, 1e-9);
    sonar_shape_place(SENSORS, position_m, north_m, east_m, depth_m, heading_deg, shape_m);
    double mean = 0, mean_depth_m = 0;
    for (size_t k = 0; k < SENSORS; k++)
        mean += radius * (1 - cos(position_m[3 * k] / radius)) / SENSORS,
            mean_depth_m += depth_m[k] / SENSORS;
    for (size_t k = 0; k < SENSORS; k++) {
        const double angle = position_m[3 * k] / radius;
        cr_expect_float_eq(shape_m[3 * k], radius * sin(angle), 1e-9);
        cr_expect_float_eq(shape_m[3 * k + 1] - position_m[3 * k + 1],
                           radius * (1 - cos(angle)) - mean, 1e-9);
        cr_expect_float_eq(shape_m[3 * k + 2], 7 + depth_m[k] - mean_depth_m, 1e-9);
    }
}

/* ---- parameters of another shape ------------------------------------------------------------- */

static void run_all(void *ctx, size_t tasks, void (*task)(void *arg, size_t index, size_t worker),
                    void *arg) {
    (void)ctx;
    for (size_t i = tasks; i-- > 0;) /* in another order than they were made */
        task(arg, i, i % 2);
}

static void same_table(const sonar_manifold *a, const sonar_manifold *b) {
    cr_assert_eq(a->ranges * a->directions * a->sensors, b->ranges * b->directions * b->sensors);
    cr_assert_eq(!a->turns, !b->turns);
    if (a->turns)
        cr_expect_eq(
            memcmp(a->turns, b->turns, a->ranges * a->directions * a->sensors * sizeof *a->turns),
            0);
}

/* They are those that are made from a description with these positions, and carry the mask and the
 * corrections of the version that they follow. */
Test(path, bent_parameters_are_those_of_the_positions) {
    sonar_config *c = configured(
        "bent", "schema: 1\narray: {geometry: {line: {sensors: 7, spacing_m: 2}}, mask: [2], "
                "gain_db: -170}\nfs_hz: 1000\ndft: {length: 512}\n"
                "ingest: {endpoints: [\"ipc:///no/such/in\"]}\n"
                "cbf: {band_hz: [100, 300], ranges_m: [50, 100]}\nmvdr: {nearfield: true}\n"
                "output: {endpoint: \"ipc:///no/such/out\"}\n"
                "navigation: {tow: {model: follow, scope_m: 100}}\n");
    sonar_params_spec spec = sonar_config_params(c);
    const sonar_host two = {.log = quiet, .parallel = run_all, .workers = 2};
    sonar_params *straight, *bent, *masked, *want;
    double shape_m[21], tau_s[14];
    uint8_t out[7] = {0, 0, 0, 0, 1};
    cr_assert_eq(sonar_params_create(&spec, 1, &straight, NULL), SONAR_OK);
    cr_assert_eq(sonar_params_create(&spec, 1, &bent, NULL), SONAR_OK);
    cr_assert_eq(sonar_params_mask(straight, out, 5, &masked, NULL), SONAR_OK);
    for (size_t i = 0; i < 21; i++)
        shape_m[i] = c->position_m[i] + 0.3 * sin((double)i);
    sonar_params_bend(bent, masked, &spec, shape_m, 99, &two, tau_s);
    spec.position_m = shape_m;
    cr_assert_eq(sonar_params_create(&spec, 1, &want, NULL), SONAR_OK);
    same_table(&bent->far_cbf, &want->far_cbf);
    same_table(&bent->near_cbf, &want->near_cbf);
    same_table(&bent->far_mvdr, &want->far_mvdr);
    same_table(&bent->near_mvdr, &want->near_mvdr);
    cr_expect(bent->near_mvdr.turns, "the near field is there too");
    cr_expect_eq(memcmp(bent->position_m, shape_m, sizeof shape_m), 0);
    cr_expect_eq(memcmp(bent->used, masked->used, 7), 0);
    cr_expect_eq(memcmp(bent->shading, masked->shading, 7 * sizeof *bent->shading), 0);
    cr_expect_eq(bent->sensors_used, 5);
    cr_expect_eq(bent->shading_sum, masked->shading_sum);
    cr_expect_eq(bent->version, 99);
    cr_expect_eq(bent->far_cbf.made, 99);
    sonar_params_destroy(straight); /* what it took it has copied */
    sonar_params_destroy(masked);
    cr_expect_float_eq(bent->scale[0], pow(10, 170.0 / 20), 1e3);
    cr_expect_str_eq(bent->config_version, c->version);
    sonar_params_destroy(bent);
    sonar_params_destroy(want);
    sonar_config_destroy(c);
}
