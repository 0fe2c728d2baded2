/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Delays of the far and the near field and their fixed-point form. */
#include "manifold/manifold.h"
#include "oracle.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { SENSORS = 37 };

static const double along_x[3] = {1, 0, 0};

static void random_positions(double size_m, double *p, uint64_t seed) {
    for (size_t i = 0; i < 3 * SENSORS; i++)
        p[i] = size_m * sonar_random_symmetric(&seed);
}

Test(delays, far_field_is_projection_over_speed) {
    double p[3 * SENSORS], u[3], tau[SENSORS];
    random_positions(100, p, 1);
    for (double az = 0; az < 360; az += 17) {
        oracle_unit(az, 20, u);
        sonar_delay_far(SENSORS, p, u, 1480, tau);
        for (size_t k = 0; k < SENSORS; k++)
            cr_assert_float_eq(tau[k], oracle_delay_far(p + 3 * k, u, 1480), 1e-16);
    }
}

Test(delays, element_towards_source_hears_first) {
    const double p[6] = {10, 0, 0, 0, 10, 0}, starboard[3] = {0, 1, 0};
    double tau[2];
    sonar_delay_far(2, p, along_x, 1500, tau);
    cr_assert_float_eq(tau[0], 10 / 1500.0, 1e-16);
    cr_assert_float_eq(tau[1], 0, 1e-16);
    sonar_delay_near(2, p, starboard, 100, SONAR_RADIAL, along_x, 1500, tau);
    cr_assert_float_eq(tau[1], 10 / 1500.0, 1e-16, "on the ray the delay is that of the far field");
    cr_assert_lt(tau[0], 0, "a sensor off the ray is farther away than the origin");
}

/* The difference of two lengths has no significant digit at 1e9 m in double; long double still has
 * some. */
Test(delays, near_field_has_no_cancellation) {
    double p[3 * SENSORS], u[3], tau[SENSORS];
    random_positions(100, p, 2);
    for (double r = 1; r < 1e8; r *= 9.7) {
        oracle_unit(r, 5, u);
        sonar_delay_near(SENSORS, p, u, r, SONAR_RADIAL, along_x, 1500, tau);
        for (size_t k = 0; k < SENSORS; k++) {
            double want = oracle_delay_near(p + 3 * k, u, r, 1500);
            cr_assert_float_eq(tau[k], want, 2e-16 + r * 1e-21, "r %g: %g, not %g", r, tau[k],
                               want);
        }
    }
}

/* The difference from the far field is -|p x u|^2 / (2 r c) to first order: it falls as 1/r. */
Test(delays, near_field_tends_to_far_field) {
    double p[3 * SENSORS], u[3], near[SENSORS], far[SENSORS];
    random_positions(100, p, 3);
    oracle_unit(63, 11, u);
    sonar_delay_far(SENSORS, p, u, 1500, far);
    for (double r = 1e6; r < 1e30; r *= 1000) {
        sonar_delay_near(SENSORS, p, u, r, SONAR_RADIAL, along_x, 1500, near);
        for (size_t k = 0; k < SENSORS; k++) {
            double s = 1500 * far[k], *q = p + 3 * k;
            double across = q[0] * q[0] + q[1] * q[1] + q[2] * q[2] - s * s;
            cr_assert_float_eq(near[k] - far[k], -across / (2 * r * 1500),
                               1e-3 * across / (2 * r * 1500) + 3e-16);
        }
    }
}

/* Thesis (6.2)-(6.4): the source lies h / tan(theta) along the line and h off it; (6.5): its
 * distance to the element at x_k. */
Test(delays, abeam_is_the_perpendicular_distance) {
    double p[3 * SENSORS] = {0}, tau[SENSORS], u[3];
    for (size_t k = 0; k < SENSORS; k++)
        p[3 * k] = ((double)k - (SENSORS - 1) / 2.0) * 0.75;
    for (double az = 1; az < 180; az += 1)
        for (double h = 5; h < 4000; h *= 2) {
            oracle_unit(az, 0, u);
            sonar_delay_near(SENSORS, p, u, h, SONAR_ABEAM, along_x, 1500, tau);
            double x0 = h / tan(az * M_PI / 180), origin = hypot(x0, h);
            for (size_t k = 0; k < SENSORS; k++)
                cr_assert_float_eq(tau[k], (origin - hypot(x0 - p[3 * k], h)) / 1500, 1e-13);
        }
}

/* It is measured from the parallel to the line through the origin, if the line is elsewhere.
 */
Test(delays, abeam_counts_from_the_axis_through_the_origin) {
    const double p[6] = {-3, 20, 5, 3, 20, 5}, u[3] = {0.6, 0, 0.8}, axis[3] = {1, 0, 0};
    double tau[2];
    sonar_delay_near(2, p, u, 80, SONAR_ABEAM, axis, 1500, tau);
    for (size_t k = 0; k < 2; k++) { /* the point lies at (60, 0, 80), 80 m from the x axis */
        const double d = sqrt(pow(60 - p[3 * k], 2) + 20 * 20 + 75 * 75);
        cr_assert(fabs(tau[k] - (100 - d) / 1500) < 1e-12, "%g", tau[k]);
    }
}

Test(delays, abeam_at_endfire_is_far_field) {
    double p[3 * SENSORS], near[SENSORS], far[SENSORS];
    random_positions(100, p, 4);
    for (int side = 0; side < 2; side++)
        for (int exact = 0; exact < 2; exact++) {
            double u[3] = {side ? -1 : 1, exact ? 0 : sin(M_PI), 0};
            sonar_delay_near(SENSORS, p, u, 50, SONAR_ABEAM, along_x, 1500, near);
            sonar_delay_far(SENSORS, p, u, 1500, far);
            for (size_t k = 0; k < SENSORS; k++)
                cr_assert_float_eq(near[k], far[k], 1e-15);
        }
}

/* Rotated back, an entry is the delay itself, including whole turns. */
static double error_in_delay(uint64_t turns, double want) {
    return fabs((double)(int64_t)(turns >> 12 | turns << 52) * 0x1p-52 - want);
}

static double error_in_turns(uint64_t turns, long double want) {
    long double have = (long double)turns * 0x1p-64L;
    long double off = have - (want - floorl(want));
    return (double)fabsl(off - rintl(off));
}

Test(delays, turns_are_exact) {
    uint64_t seed = 5;
    for (int i = 0; i < 100000; i++) {
        double tau =
            sonar_random_symmetric(&seed) * pow(10, 1 - 9 * fabs(sonar_random_symmetric(&seed)));
        double bin_hz = 8000.0 / 8192 * (1 + i % 7);
        double product = tau * bin_hz; /* what double can know */
        cr_assert_leq(error_in_turns(sonar_turns(tau, bin_hz) & ~(uint64_t)0xfff, product),
                      0x1p-53);
        cr_assert_leq(error_in_turns(sonar_turns(tau, bin_hz), (long double)product), 0x1.8p-52);
        cr_assert_leq(error_in_delay(sonar_turns(tau, bin_hz), product),
                      0x1p-52 + 0x1p-53 * fabs(product));
    }
}

/* Fixed-point turns can be multiplied by bin numbers without loss, for any number of turns. */
Test(delays, turns_times_bin_is_exact) {
    uint64_t seed = 6;
    for (int i = 0; i < 20000; i++) {
        double tau = 10 * sonar_random_symmetric(&seed);
        uint64_t bin = sonar_random_bits(&seed) % 16385;
        long double want = (long double)bin * (long double)tau * 0.9765625L;
        cr_assert_lt(error_in_turns(bin * sonar_turns(tau, 0.9765625), want), 2e-11);
    }
}

Test(delays, turns_at_the_edges) {
    cr_assert_eq(sonar_turns(0, 1), 0);
    cr_assert_eq(sonar_turns(1, 1), 1);
    cr_assert_eq(sonar_turns(-3, 1), 0xffd);
    cr_assert_eq(sonar_turns(0.5, 1), (uint64_t)1 << 63);
    cr_assert_eq(sonar_turns(-0.5, 1), (uint64_t)1 << 63 | 0xfff);
    cr_assert_eq(sonar_turns(0.25, 1), (uint64_t)1 << 62);
    cr_assert_eq(sonar_turns(-0.25, 1), (uint64_t)3 << 62 | 0xfff);
    cr_assert_eq(sonar_turns(2047.5, 1), (uint64_t)1 << 63 | 0x7ff);
    cr_assert_eq(sonar_turns(2048, 1), 0x800);
    cr_assert_eq(sonar_turns(-2048, 1), 0x800);
    cr_assert_eq(sonar_turns(4096.25, 1), (uint64_t)1 << 62);
    cr_assert_eq(sonar_turns(-0x1p-48, 1), (uint64_t)-16 << 12 | 0xfff);
    cr_assert_eq(sonar_turns(-0x1p-80, 1), 0);
}

Test(delays, tables_hold_ranges_directions_sensors) {
    double p[3 * SENSORS], az[5], u[15], tau[SENSORS], range[3] = {40, 300, 1e4};
    random_positions(10, p, 7);
    for (size_t d = 0; d < 5; d++) {
        az[d] = 70.0 * (double)d;
        oracle_unit(az[d], 0, u + 3 * d);
    }
    sonar_scan scan = {.count = 5, .az_deg = az, .u = u};
    uint64_t *far, *near;
    sonar_manifold_spec spec = {
        .sensors = SENSORS, .position_m = p, .scan = &scan, .c_mps = 1500, .bin_width_hz = 0.9};
    cr_assert_eq(sonar_manifold_make(&spec, &far, NULL), SONAR_OK);
    spec.ranges = 3;
    spec.range_m = range;
    cr_assert_eq(sonar_manifold_make(&spec, &near, NULL), SONAR_OK);
    for (size_t d = 0; d < 5; d++) {
        sonar_delay_far(SENSORS, p, u + 3 * d, 1500, tau);
        for (size_t k = 0; k < SENSORS; k++)
            cr_assert_eq(far[d * SENSORS + k], sonar_turns(tau[k], 0.9));
        for (size_t r = 0; r < 3; r++)
            for (size_t k = 0; k < SENSORS; k++) {
                double want = 0.9 * oracle_delay_near(p + 3 * k, u + 3 * d, range[r], 1500);
                cr_assert_lt(error_in_turns(near[(r * 5 + d) * SENSORS + k], want), 1e-15);
            }
    }
    free(far);
    free(near);
}

Test(delays, impossible_table_is_refused) {
    double p[3] = {0}, u[3] = {1, 0, 0}, az[1] = {0};
    sonar_scan scan = {.count = SIZE_MAX / 4, .az_deg = az, .u = u};
    uint64_t *table;
    sonar_error err;
    const sonar_manifold_spec spec = {
        .sensors = 16, .position_m = p, .scan = &scan, .c_mps = 1500, .bin_width_hz = 1};
    cr_assert_eq(sonar_manifold_make(&spec, &table, &err), SONAR_ENOMEM);
    cr_assert_null(table);
}
