/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Places of a towed array's sensors by the compasses in it, against formulas. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nav/nav.h"

TestSuite(compasses, .timeout = 300);

enum { SENSORS = 31 };
static const double SPACING_M = 2, STALE_S = 3, RADIANS = M_PI / 180;

static void quiet(void *ctx, sonar_level level, const char *where, const char *text) {
    (void)ctx, (void)level, (void)where, (void)text;
}

static const sonar_host host = {.log = quiet};
/* the second one reads 2 degrees too little */
static const sonar_nav_spec FOUR = {
    .stale_after_s = 3,
    .compasses = 4,
    .compass = {{"C1", -5, 0}, {"C2", 10, 2}, {"C3", 40, 0}, {"C4", 55, 0}}};

static sonar_nav *open_nav(const sonar_nav_spec *spec) {
    sonar_nav *nav;
    cr_assert_eq(sonar_nav_create(spec, &host, &nav, NULL), SONAR_OK);
    return nav;
}

static int64_t utc(double t_s) {
    return INT64_C(1700000000000000000) + (int64_t)llrint(t_s * 1e9);
}

/* As a publisher sends it; NaN: not sent. */
static void tell(sonar_nav *nav, const char *id, double heading_deg, double depth_m, double t_s) {
    char text[160], depth[40] = "";
    sonar_nav_values values;
    sonar_error err = {0};
    int64_t utc_ns = 0;
    if (!isnan(depth_m))
        snprintf(depth, sizeof depth, ", \"depth_m\": %.9g", depth_m);
    snprintf(text, sizeof text, "{\"compass\": \"%s\", \"heading_deg\": %.12g%s, \"utc_ns\": %lld}",
             id, heading_deg, depth, (long long)utc(t_s));
    cr_assert_eq(sonar_nav_parse(text, strlen(text), &utc_ns, &values, &err), SONAR_OK, "%s: %s",
                 text, err.text);
    sonar_nav_store(nav, "zmq", &values, utc(t_s), false);
}

typedef struct found {
    double behind_m[SENSORS], north_m[SENSORS], east_m[SENSORS], depth_m[SENSORS];
    sonar_tow tow;
} found;

static found find(sonar_nav *nav, double t_s) {
    found f;
    for (size_t k = 0; k < SENSORS; k++) /* from the back to the front */
        f.behind_m[k] = SPACING_M * (double)(SENSORS - 1 - k);
    sonar_nav_places(nav, utc(t_s), SENSORS, f.behind_m,
                     &(sonar_nav_places_m){f.north_m, f.east_m, f.depth_m}, &f.tow);
    return f;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* On a circle headings change evenly along the array, so that its places are exact between the
 * first and the last compass, and on the tangent behind it. */
Test(compasses, an_arc_is_exact) {
    sonar_nav *nav = open_nav(&FOUR);
    const double radius_m = 80, front_deg = 350; /* through north */
    for (size_t i = 0; i < FOUR.compasses; i++)
        tell(nav, FOUR.compass[i].id,
             fmod(front_deg + FOUR.compass[i].behind_m / radius_m / RADIANS -
                      FOUR.compass[i].offset_deg,
                  360),
             NAN, 0);
    const found f = find(nav, 0);
    cr_expect_eq(f.tow.state, SONAR_TOW_KNOWN);
    cr_expect_eq(f.tow.silent, 0);
    const double front = front_deg * RADIANS;
    for (size_t k = 0; k < SENSORS; k++) {
        const double on_arc_m = fmin(f.behind_m[k], 55), rest_m = f.behind_m[k] - on_arc_m,
                     angle = front + on_arc_m / radius_m;
        const double north = -radius_m * (sin(angle) - sin(front)) - rest_m * cos(angle),
                     east = -radius_m * (cos(front) - cos(angle)) - rest_m * sin(angle);
        cr_expect_float_eq(f.north_m[k], north, 1e-6, "sensor %zu: %.9g, %.9g", k, f.north_m[k],
                           north);
        cr_expect_float_eq(f.east_m[k], east, 1e-6, "sensor %zu", k);
        cr_expect_eq(f.depth_m[k], 0);
    }
    sonar_nav_destroy(nav);
}

/* An S: the array turns one way and back. By plain integration in steps of a millimetre. */
Test(compasses, places_are_the_integral_of_the_headings) {
    sonar_nav *nav = open_nav(&FOUR);
    const double deg[] = {100, 170, 95, 110}, at[] = {-5, 10, 40, 55};
    double north = 0, east = 0;
    size_t checked = 0;
    for (size_t i = 0; i < FOUR.compasses; i++)
        tell(nav, FOUR.compass[i].id, deg[i] - FOUR.compass[i].offset_deg, NAN, 0);
    const found f = find(nav, 0);
    for (size_t step = 0; step <= 60000; step++) {
        const double s = 1e-3 * ((double)step + 0.5);
        size_t i = 0;
        while (i < 2 && at[i + 1] < s)
            i++;
        const double share = fmin((s - at[i]) / (at[i + 1] - at[i]), 1),
                     heading = (deg[i] + share * (deg[i + 1] - deg[i])) * RADIANS;
        if (step % 2000 == 0) {
            const size_t k = SENSORS - 1 - step / 2000;
            cr_expect_float_eq(f.north_m[k], north, 1e-5);
            cr_expect_float_eq(f.east_m[k], east, 1e-5);
            checked++;
        }
        north -= 1e-3 * cos(heading);
        east -= 1e-3 * sin(heading);
    }
    cr_expect_eq(checked, SENSORS);
    sonar_nav_destroy(nav);
}

/* Of a part that goes down less is horizontal. C3 tells no depth, and lies between its neighbours;
 * what no compass tells holds from the nearest one on. */
Test(compasses, depths_tilt_the_array) {
    sonar_nav *nav = open_nav(&FOUR);
    tell(nav, "C1", 90, NAN, 0);
    tell(nav, "C2", 88, 30, 0);
    tell(nav, "C3", 90, NAN, 0);
    tell(nav, "C4", 90, 57, 0); /* 27 m in 45: four fifths are horizontal */
    const found f = find(nav, 0);
    for (size_t k = 0; k < SENSORS; k++) {
        const double s = f.behind_m[k], tilted_m = fmin(fmax(s - 10, 0), 45);
        cr_expect_float_eq(f.depth_m[k], 30 + 0.6 * tilted_m, 1e-9);
        cr_expect_float_eq(f.north_m[k], 0, 1e-9);
        cr_expect_float_eq(f.east_m[k], -(s - 0.2 * tilted_m), 1e-9);
    }
    sonar_nav_destroy(nav);
}

/* ---- what comes and does not come ------------------------------------------------------------ */

static double heading_of(const found *f) {
    return atan2(f->east_m[SENSORS - 1] - f->east_m[0], f->north_m[SENSORS - 1] - f->north_m[0]) /
           RADIANS;
}

Test(compasses, the_others_place_the_array_if_one_is_silent) {
    sonar_nav *nav = open_nav(&FOUR);
    found f = find(nav, 0);
    cr_expect_eq(f.tow.state, SONAR_TOW_NO_COMPASS);
    cr_expect(f.tow.silent == 4 && f.tow.compasses == 4);
    for (size_t i = 0; i < FOUR.compasses; i++)
        tell(nav, FOUR.compass[i].id, 40 - FOUR.compass[i].offset_deg, NAN, 0);
    for (size_t i = 0; i < FOUR.compasses; i++)
        if (i != 2)
            tell(nav, FOUR.compass[i].id, 45 - FOUR.compass[i].offset_deg, NAN, STALE_S);
    tell(nav, "C9", 200, 3, STALE_S); /* not one of the array */
    f = find(nav, STALE_S + 1);
    cr_expect_eq(f.tow.state, SONAR_TOW_KNOWN);
    cr_expect_eq(f.tow.silent, 1);
    cr_expect_str_eq(f.tow.silent_id, "C3");
    cr_expect_float_eq(heading_of(&f), 45, 1e-6);
    f = find(nav, 2 * STALE_S + 1);
    cr_expect_eq(f.tow.state, SONAR_TOW_NO_COMPASS);
    cr_expect_str_eq(f.tow.silent_id, "C1");
    /* between two headings it is where it was then */
    f = find(nav, STALE_S / 2);
    cr_expect_float_eq(heading_of(&f), 42.5, 1, "%g", heading_of(&f));
    sonar_nav_destroy(nav);
}

/* 30 degrees a second and 2 degrees more are possible. */
Test(compasses, an_impossible_heading_is_not_used) {
    const sonar_nav_spec one = {.stale_after_s = 3, .compasses = 1, .compass = {{"C1", 0, 0}}};
    sonar_nav *nav = open_nav(&one);
    tell(nav, "C1", 10, NAN, 0);
    tell(nav, "C1", 190, NAN, 1);
    found f = find(nav, 1);
    cr_expect_float_eq(heading_of(&f), 10, 1e-6);
    tell(nav, "C1", 41, NAN, 1);
    f = find(nav, 1);
    cr_expect_float_eq(heading_of(&f), 41, 1e-6);
    tell(nav, "C1", 221, NAN, 1 + 1.1 * STALE_S); /* after a silence every heading is possible */
    f = find(nav, 1 + 1.1 * STALE_S);
    cr_expect_float_eq(remainder(heading_of(&f) - 221, 360), 0, 1e-6);
    sonar_nav_destroy(nav);
}

Test(compasses, wrong_messages_are_refused) {
    static const char *const wrong[] = {
        "{\"compass\": \"C1\"}",
        "{\"compass\": \"\", \"heading_deg\": 1}",
        "{\"compass\": 7, \"heading_deg\": 1}",
        "{\"compass\": \"A_NAME_OF_16_SIGNS\", \"heading_deg\": 1}",
        "{\"compass\": \"C1\", \"heading_deg\": 361}",
        "{\"compass\": \"C1\", \"heading_deg\": 1, \"speed_mps\": 2}",
        "{\"compass\": \"C1\", \"depth_m\": -1}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sonar_nav_values values;
        int64_t utc_ns = 0;
        cr_expect_eq(sonar_nav_parse(wrong[i], strlen(wrong[i]), &utc_ns, &values, NULL),
                     SONAR_EINVAL, "%s", wrong[i]);
    }
}
