/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Spectra at true bearings compared with beam patterns in closed form. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "core/random.h"
#include "manifold/bearings.h"
#include "oracle.h"

static const double RADIANS = M_PI / 180, C = 1500, TOP_HZ = 1000;

static double decibel(double ratio) {
    return 10 * log10(ratio);
}

static double apart(double a_deg, double b_deg) {
    return fabs(remainder(a_deg - b_deg, 360));
}

/* ---- arrays ---------------------------------------------------------------------------------- */

enum { SENSORS = 48 };

typedef struct array {
    double position_m[3 * SENSORS];
    sonar_geometry geometry;
    sonar_scan scan;
    sonar_bearings *bearings;
    float *power; /* [direction] */
    float *at;    /* [bearing] */
    size_t count;
} array;

static void open_array(array *a, const sonar_scan_spec *given, sonar_interpolation interpolation) {
    sonar_scan_spec spec = *given;
    spec.top_hz = TOP_HZ;
    spec.sound_speed_mps = C;
    cr_assert(sonar_geometry_analyse(SENSORS, a->position_m, NULL, C / TOP_HZ / 20, &a->geometry));
    cr_assert_eq(sonar_scan_create(&spec, &a->geometry, &a->scan, NULL), SONAR_OK);
    cr_assert(sonar_bearings_exist(&a->scan));
    cr_assert_not_null(a->bearings = sonar_bearings_create(&a->scan, interpolation));
    a->count = sonar_bearings_count(a->bearings);
    a->power = calloc(a->scan.count, sizeof *a->power);
    a->at = calloc(a->count, sizeof *a->at);
}

static void close_array(array *a) {
    sonar_bearings_destroy(a->bearings);
    sonar_scan_destroy(&a->scan);
    free(a->power);
    free(a->at);
}

/* Half-wavelength line whose axis points to az_deg, tilted. */
static void make_line(array *a, double az_deg, double depression_deg) {
    const double level = cos(depression_deg * RADIANS);
    const double axis[3] = {level * cos(az_deg * RADIANS), level * sin(az_deg * RADIANS),
                            sin(depression_deg * RADIANS)};
    for (int k = 0; k < SENSORS; k++)
        for (int i = 0; i < 3; i++)
            a->position_m[3 * k + i] = (k - (SENSORS - 1) / 2.0) * C / TOP_HZ / 2 * axis[i];
}

static void make_circle(array *a, double radius_m) {
    for (int k = 0; k < SENSORS; k++) {
        a->position_m[3 * k] = radius_m * cos(2 * M_PI * k / SENSORS);
        a->position_m[3 * k + 1] = radius_m * sin(2 * M_PI * k / SENSORS);
        a->position_m[3 * k + 2] = 0;
    }
}

static void towards(double az_deg, double depression_deg, double u[3]) {
    u[0] = cos(az_deg * RADIANS) * cos(depression_deg * RADIANS);
    u[1] = sin(az_deg * RADIANS) * cos(depression_deg * RADIANS);
    u[2] = sin(depression_deg * RADIANS);
}

/* Power of the beam towards u for a source of power 1 in direction s, at TOP_HZ. */
static double beam(const array *a, const double u[3], const double s[3]) {
    double re = 0, im = 0;
    for (int k = 0; k < SENSORS; k++) {
        double tau_s = 0;
        for (int i = 0; i < 3; i++)
            tau_s += a->position_m[3 * k + i] * (s[i] - u[i]) / C;
        re += cos(2 * M_PI * TOP_HZ * tau_s) / SENSORS;
        im += sin(2 * M_PI * TOP_HZ * tau_s) / SENSORS;
    }
    return re * re + im * im;
}

/* A source in the array's horizontal plane (at the scan's depression), at an angle clockwise of +x,
 * over a floor. */
static void look_at(array *a, double az_deg, double floor) {
    double s[3], u[3];
    towards(az_deg, a->scan.depression_deg, s);
    for (size_t i = 0; i < a->scan.count; i++) {
        sonar_scan_unit(&a->scan, a->scan.az_deg[i], u);
        a->power[i] = (float)(floor + beam(a, u, s));
    }
}

static void read_at(array *a, double heading_deg) {
    sonar_bearings_turn(a->bearings, heading_deg);
    sonar_bearings_read(a->bearings, a->power, a->at);
}

static double bearing(const array *a, size_t i) {
    return 360.0 * (double)i / (double)a->count;
}

/* The highest bearing no farther than `within` from bearing_deg. */
static size_t top_near(const array *a, double bearing_deg, double within_deg) {
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < a->count; i++)
        if (apart(bearing(a, i), bearing_deg) <= within_deg &&
            (best == SIZE_MAX || a->at[i] > a->at[best]))
            best = i;
    cr_assert_neq(best, SIZE_MAX);
    return best;
}

/* ---- peaks ----------------------------------------------------------------------------------- */

static void expect_peak(const array *a, double bearing_deg, double beam_deg, const char *what) {
    const size_t top = top_near(a, bearing_deg, 2 * beam_deg);
    cr_expect_lt(apart(bearing(a, top), bearing_deg), 0.1 * beam_deg, "%s: %g is shown at %g", what,
                 bearing_deg, bearing(a, top));
    cr_expect_lt(fabs(decibel(a->at[top])), 0.1, "%s: %.3f dB at %g", what, decibel(a->at[top]),
                 bearing_deg);
}

/* On both sides of the axis, by any heading, level and tilted. */
Test(bearings, a_source_beside_a_line_stands_at_its_bearing_and_at_the_mirror) {
    static const double tilt_deg[] = {0, 25};
    uint64_t seed = 1;
    for (int t = 0; t < 2; t++) {
        static array a;
        const double axis_deg = 37 * t;
        make_line(&a, axis_deg, tilt_deg[t]);
        open_array(&a, &(sonar_scan_spec){0}, SONAR_INTERPOLATE_CUBIC);
        cr_assert(a.scan.cone);
        for (int i = 0; i < 200; i++) {
            const double heading_deg = 360 * sonar_random_uniform(&seed),
                         off_deg = 25 + 130 * sonar_random_uniform(&seed),
                         beam_deg = a.scan.beam_width_deg / sin(off_deg * RADIANS);
            look_at(&a, axis_deg + off_deg, 0);
            read_at(&a, heading_deg);
            expect_peak(&a, heading_deg + axis_deg + off_deg, beam_deg, "right");
            expect_peak(&a, heading_deg + axis_deg - off_deg, beam_deg, "left");
        }
        close_array(&a);
    }
}

/* A source beside an axis appears on a cone, which meets the plane at the source. */
Test(bearings, a_cone_meets_the_plane_where_its_source_is) {
    for (double depression_deg = 0; depression_deg < 80; depression_deg += 13) {
        const sonar_scan scan = {.cone = true, .axis_depression_deg = depression_deg};
        double both_deg[2];
        for (double beside_deg = 1; beside_deg < 180; beside_deg += 7) {
            const double az_deg = acos(sonar_cone_cosine(&scan, beside_deg)) / RADIANS;
            sonar_cone_bearings(200, depression_deg, az_deg, 0, both_deg);
            cr_expect_float_eq(both_deg[0], fmod(200 + beside_deg, 360), 1e-6);
            cr_expect_float_eq(both_deg[1], 200 - beside_deg, 1e-6);
        }
        sonar_cone_bearings(30, depression_deg, 0.1, 1e-9, both_deg);
        cr_expect_eq(!isnan(both_deg[0]) && !isnan(both_deg[1]), depression_deg == 0);
        sonar_cone_bearings(30, depression_deg, 0, 10, both_deg);
        cr_expect(both_deg[0] == 30 && both_deg[1] == 30);
        sonar_cone_bearings(30, depression_deg, 180, 10, both_deg);
        cr_expect(both_deg[0] == 210 && both_deg[1] == 210);
    }
}

Test(bearings, a_circle_shows_a_source_once) {
    static array a;
    uint64_t seed = 2;
    make_circle(&a, 12);
    open_array(&a, &(sonar_scan_spec){.depression_deg = 10}, SONAR_INTERPOLATE_CUBIC);
    cr_assert(a.scan.wraps);
    for (int i = 0; i < 200; i++) {
        const double heading_deg = 720 * sonar_random_symmetric(&seed),
                     az_deg = 360 * sonar_random_uniform(&seed);
        look_at(&a, az_deg, 0);
        read_at(&a, heading_deg);
        expect_peak(&a, heading_deg + az_deg, a.scan.beam_width_deg, "circle");
        const size_t top = top_near(&a, 0, 180);
        cr_expect_lt(apart(bearing(&a, top), heading_deg + az_deg), 0.1 * a.scan.beam_width_deg);
    }
    close_array(&a);
}

/* The whole beam, not only the peak, compared with the beam steered to each bearing. */
Test(bearings, between_the_directions_the_power_is_that_of_a_beam) {
    static array a;
    make_line(&a, 0, 0);
    open_array(&a, &(sonar_scan_spec){0}, SONAR_INTERPOLATE_CUBIC);
    double s[3], u[3], worst = 0;
    for (double source_deg = 31; source_deg < 150; source_deg += 7.3) {
        look_at(&a, source_deg, 0);
        read_at(&a, 123.4);
        towards(source_deg, 0, s);
        for (size_t i = 0; i < a.count; i++) {
            towards(bearing(&a, i) - 123.4, 0, u);
            worst = oracle_worse(worst, fabs((double)a.at[i] - beam(&a, u, s)));
        }
    }
    cr_expect_lt(worst, 0.02, "%.4f of the peak", worst);
    close_array(&a);
}

/* A heading only shifts the curve along the compass. */
Test(bearings, a_turn_moves_what_is_shown) {
    static array a;
    uint64_t seed = 3;
    make_circle(&a, 12);
    open_array(&a, &(sonar_scan_spec){0}, SONAR_INTERPOLATE_CUBIC);
    for (size_t i = 0; i < a.scan.count; i++)
        a.power[i] = (float)sonar_random_uniform(&seed);
    read_at(&a, 0);
    float *before = malloc(a.count * sizeof *before);
    memcpy(before, a.at, a.count * sizeof *before);
    const size_t by = a.count / 7;
    read_at(&a, bearing(&a, by));
    for (size_t i = 0; i < a.count; i++)
        cr_assert_float_eq(a.at[(i + by) % a.count], before[i], 1e-4);
    free(before);
    close_array(&a);
}

/* ---- what a polynomial may not do ------------------------------------------------------------ */

Test(bearings, no_power_is_negative_or_below_its_neighbours) {
    static array a;
    uint64_t seed = 4;
    make_line(&a, 0, 0);
    open_array(&a, &(sonar_scan_spec){0}, SONAR_INTERPOLATE_CUBIC);
    for (int trial = 0; trial < 50; trial++) {
        for (size_t i = 0; i < a.scan.count; i++)
            a.power[i] = (float)pow(10, 8 * sonar_random_uniform(&seed));
        read_at(&a, 7.1 * trial);
        for (size_t i = 0; i < a.count; i++) {
            const double off = bearing(&a, i) - 7.1 * trial;
            const double cosine = cos(off * RADIANS), last = (double)a.scan.count - 1;
            const double place = (1 - cosine) / 2 * last; /* even in the cosine */
            const size_t left = (size_t)fmin(floor(place), last - 1);
            if (fabs(place - round(place)) < 1e-6)
                continue;
            cr_assert_geq(a.at[i], fminf(a.power[left], a.power[left + 1]) * (1 - 1e-5F));
        }
    }
    close_array(&a);
}

/* A peak one direction wide keeps its level if the nearest direction is used. */
Test(bearings, a_needle_keeps_its_level) {
    static array a;
    make_line(&a, 0, 0);
    open_array(&a, &(sonar_scan_spec){0}, SONAR_INTERPOLATE_NEAREST);
    for (size_t d = 0; d < a.scan.count; d++) {
        for (size_t i = 0; i < a.scan.count; i++)
            a.power[i] = i == d ? 1e6F : 1;
        read_at(&a, 11.7 * (double)d);
        size_t wide = 0;
        for (size_t i = 0; i < a.count; i++) {
            wide += a.at[i] == 1e6F;
            cr_assert(a.at[i] == 1e6F || a.at[i] == 1);
            const double off = apart(bearing(&a, i) - 11.7 * (double)d, 0);
            size_t nearest = 0;
            for (size_t j = 1; j < a.scan.count; j++)
                if (fabs(a.scan.az_deg[j] - off) < fabs(a.scan.az_deg[nearest] - off))
                    nearest = j;
            if (a.at[i] != a.power[nearest]) /* at the edge either will do */
                cr_assert_float_eq(fabs(a.scan.az_deg[nearest] - off), fabs(a.scan.az_deg[d] - off),
                                   1e-6);
        }
        cr_assert_geq(wide, 2, "direction %zu is never shown on both sides", d);
    }
    close_array(&a);
}

Test(bearings, where_a_scan_does_not_look_there_is_nothing) {
    static array a;
    make_line(&a, 0, 0);
    open_array(&a,
               &(sonar_scan_spec){.uniform = true, .start_deg = 10, .stop_deg = 169, .step_deg = 1},
               SONAR_INTERPOLATE_CUBIC);
    cr_assert_eq(a.count, 1080);
    for (size_t i = 0; i < a.scan.count; i++)
        a.power[i] = 5;
    read_at(&a, 90);
    for (size_t i = 0; i < a.count; i++) {
        const double off = apart(bearing(&a, i), 90);
        if (off > 9.51 && off < 169.49)
            cr_assert_float_eq(a.at[i], 5, 1e-4, "%g off the axis: %g", off, (double)a.at[i]);
        else if (off < 9.49 || off > 169.51)
            cr_assert_eq(a.at[i], 0, "%g off the axis: %g", off, (double)a.at[i]);
    }
    close_array(&a);
}

Test(bearings, a_vertical_line_has_none) {
    static array a;
    make_line(&a, 0, 90);
    cr_assert(sonar_geometry_analyse(SENSORS, a.position_m, NULL, 0.01, &a.geometry));
    const sonar_scan_spec spec = {.top_hz = TOP_HZ, .sound_speed_mps = C};
    cr_assert_eq(sonar_scan_create(&spec, &a.geometry, &a.scan, NULL), SONAR_OK);
    cr_expect_not(sonar_bearings_exist(&a.scan));
    sonar_scan_destroy(&a.scan);
    cr_expect_not(sonar_bearings_exist(&(sonar_scan){.count = 1}));
}

/* The size of messages is limited for any fine scan. */
Test(bearings, their_number_is_bounded) {
    static array a;
    make_line(&a, 0, 0);
    open_array(&a, &(sonar_scan_spec){.count = 60000}, SONAR_INTERPOLATE_CUBIC);
    cr_expect_eq(a.count, SONAR_BEARINGS_MOST);
    close_array(&a);
    open_array(&a, &(sonar_scan_spec){.count = 12}, SONAR_INTERPOLATE_CUBIC);
    cr_expect_eq(a.count, SONAR_BEARINGS_LEAST);
    look_at(&a, 90, 0);
    read_at(&a, 0);
    close_array(&a);
}
