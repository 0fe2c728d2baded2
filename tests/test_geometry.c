/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>

#include "cbf/cbf.h"
#include "core/random.h"
#include "manifold/manifold.h"

static const double C = 1500;

static void near_to(double got, double want, double tolerance, const char *what) {
    cr_assert(fabs(got - want) <= tolerance, "%s: %.12g, wanted %.12g", what, got, want);
}

static double *line(size_t n, double spacing, const double direction[3]) {
    double *p = calloc(3 * n, sizeof *p);
    for (size_t k = 0; k < n; k++)
        for (int i = 0; i < 3; i++)
            p[3 * k + (size_t)i] = ((double)k - (double)(n - 1) / 2) * spacing * direction[i];
    return p;
}

static double *circle(size_t n, double radius) {
    double *p = calloc(3 * n, sizeof *p);
    for (size_t k = 0; k < n; k++) {
        p[3 * k] = radius * cos(2 * M_PI * (double)k / (double)n);
        p[3 * k + 1] = radius * sin(2 * M_PI * (double)k / (double)n);
    }
    return p;
}

static double *scattered(size_t n, uint64_t seed, const double size[3]) {
    double *p = calloc(3 * n, sizeof *p);
    for (size_t i = 0; i < 3 * n; i++)
        p[i] = size[i % 3] * sonar_random_symmetric(&seed) / 2;
    return p;
}

Test(geometry, a_line_is_found_whatever_its_direction) {
    static const double directions[][3] = {{1, 0, 0},     {0, 1, 0},         {0, 0, 1},
                                           {0.6, 0.8, 0}, {0.36, 0.48, 0.8}, {-1, 0, 0}};
    for (size_t d = 0; d < sizeof directions / sizeof *directions; d++)
        for (size_t n = 2; n < 40; n += 5) {
            double *p = line(n, 0.75, directions[d]);
            sonar_geometry g;
            sonar_geometry_analyse(n, p, NULL, 0.05, &g);
            cr_assert_eq(g.extent, SONAR_EXTENT_LINE);
            cr_assert(g.uniform_line);
            near_to(g.spacing_m, 0.75, 1e-12, "spacing");
            near_to(g.aperture_m, 0.75 * (double)(n - 1), 1e-9, "aperture");
            for (int i = 0; i < 3; i++)
                near_to(g.axis[i], directions[d][i], 1e-12, "axis");
            free(p);
        }
}

Test(geometry, rank_follows_from_extent_in_wavelengths) {
    static const double size[4][3] = {{0, 0, 0}, {10, 0, 0}, {10, 0, 4}, {10, 5, 4}};
    for (int rank = 0; rank < 4; rank++) {
        double *p = scattered(50, 7, size[rank]);
        sonar_geometry g;
        sonar_geometry_analyse(50, p, NULL, 0.01, &g);
        cr_assert_eq((int)g.extent, rank, "rank %d seen as %d", rank, (int)g.extent);
        /* what is below the wavelength's flatness does not count */
        for (size_t k = 0; k < 50; k++)
            p[3 * k + 1] += 0.007 * (k % 2 ? 0.5 : -0.5);
        sonar_geometry_analyse(50, p, NULL, 0.01, &g);
        cr_assert_eq((int)g.extent, rank, "rank %d with a little width seen as %d", rank,
                     (int)g.extent);
        free(p);
    }
}

Test(geometry, a_bent_or_unordered_line_is_not_uniform) {
    double *p = line(16, 1, (double[]){1, 0, 0});
    sonar_geometry g;
    p[3 * 5 + 1] = 2e-6;
    sonar_geometry_analyse(16, p, NULL, 0.05, &g);
    cr_assert_eq(g.extent, SONAR_EXTENT_LINE);
    cr_assert_not(g.uniform_line);
    p[3 * 5 + 1] = 0;
    const double keep = p[0];
    p[0] = p[3];
    p[3] = keep;
    sonar_geometry_analyse(16, p, NULL, 0.05, &g);
    cr_assert_eq(g.extent, SONAR_EXTENT_LINE);
    cr_assert_not(g.uniform_line);
    near_to(g.spacing_m, 1, 1e-12, "median spacing");
    free(p);
}

Test(geometry, a_mask_shortens_the_aperture_but_keeps_the_line_uniform) {
    double *p = line(16, 1, (double[]){1, 0, 0});
    uint8_t used[16] = {0, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0};
    sonar_geometry g;
    sonar_geometry_analyse(16, p, used, 0.05, &g);
    cr_assert(g.uniform_line);
    near_to(g.aperture_m, 12, 1e-12, "aperture");
    near_to(g.spacing_m, 1, 1e-12, "spacing");
    uint8_t one[16] = {[3] = 1};
    sonar_geometry_analyse(16, p, one, 0.05, &g);
    cr_assert_eq(g.extent, SONAR_EXTENT_POINT);
    cr_assert_eq(g.aperture_m, 0);
    uint8_t none[16] = {0};
    sonar_geometry_analyse(16, p, none, 0.05, &g);
    cr_assert_eq(g.extent, SONAR_EXTENT_POINT);
    free(p);
}

Test(geometry, aperture_and_spacing_agree_with_all_pairs) {
    for (unsigned seed = 1; seed < 30; seed++) {
        const size_t n = 2 + seed * 3;
        double *p = scattered(n, seed, (double[]){9, seed % 3 ? 7 : 0, seed % 2 ? 3 : 0});
        double far = 0, nearest[128];
        for (size_t i = 0; i < n; i++) {
            nearest[i] = INFINITY;
            for (size_t j = 0; j < n; j++) {
                double d = 0;
                for (size_t x = 0; x < 3; x++)
                    d += pow(p[3 * i + x] - p[3 * j + x], 2);
                far = fmax(far, sqrt(d));
                if (i != j)
                    nearest[i] = fmin(nearest[i], sqrt(d));
            }
        }
        sonar_geometry g;
        sonar_geometry_analyse(n, p, NULL, 1e-3, &g);
        near_to(g.aperture_m, far, 1e-9, "aperture");
        size_t below = 0, above = 0;
        for (size_t i = 0; i < n && !g.uniform_line; i++) {
            below += nearest[i] < g.spacing_m - 1e-9;
            above += nearest[i] > g.spacing_m + 1e-9;
        }
        cr_assert(below <= n / 2 && above <= n / 2, "%zu below, %zu above of %zu", below, above, n);
        free(p);
    }
}

/* Power of a conventional beam of weights g (NULL: all 1) steered to u0 for a wave from u, 1 at
 * u = u0. */
static double beam(size_t n, const double *p, const double *g, const double *u0, const double *u,
                   double hz) {
    double re = 0, im = 0, sum = 0;
    for (size_t k = 0; k < n; k++) {
        const double weight = g ? g[k] : 1;
        double tau = 0;
        for (size_t i = 0; i < 3; i++)
            tau += p[3 * k + i] * (u[i] - u0[i]) / C;
        re += weight * cos(2 * M_PI * hz * tau);
        im += weight * sin(2 * M_PI * hz * tau);
        sum += weight;
    }
    return (re * re + im * im) / (sum * sum);
}

/* Full -3 dB width around az, by bisection on either side. */
static double measured_width(size_t n, const double *p, const double *g, const sonar_scan *scan,
                             double az, double hz) {
    double u0[3], u[3], width = 0;
    sonar_scan_unit(scan, az, u0);
    for (int side = -1; side <= 1; side += 2) {
        double in = 0, out = 0;
        do {
            out += 0.01;
            sonar_scan_unit(scan, az + side * out, u);
        } while (beam(n, p, g, u0, u, hz) > 0.5);
        in = out - 0.01;
        for (int i = 0; i < 40; i++) {
            const double middle = (in + out) / 2;
            sonar_scan_unit(scan, az + side * middle, u);
            *(beam(n, p, g, u0, u, hz) > 0.5 ? &in : &out) = middle;
        }
        width += in;
    }
    return width;
}

static sonar_scan scan_of(size_t n, const double *p, double hz, sonar_geometry *g) {
    sonar_scan scan;
    sonar_geometry_analyse(n, p, NULL, C / hz / 20, g);
    const sonar_scan_spec spec = {.top_hz = hz, .sound_speed_mps = C};
    cr_assert_eq(sonar_scan_create(&spec, g, &scan, NULL), SONAR_OK);
    return scan;
}

Test(scan, beam_widths_are_those_of_the_beam_pattern) {
    for (size_t n = 2; n <= 128; n = 2 * n + 1) {
        double *p = line(n, 0.75, (double[]){1, 0, 0});
        sonar_geometry g;
        sonar_scan scan = scan_of(n, p, 1000, &g);
        const double want = measured_width(n, p, NULL, &scan, 90, 1000);
        near_to(scan.beam_width_deg / want, 1, 0.04, "line");
        sonar_scan_destroy(&scan);
        free(p);
    }
    for (size_t n = 8; n <= 32; n += 8) {
        const double radius = 0.5 * (double)n / (2 * M_PI);
        double *p = circle(n, radius);
        sonar_geometry g;
        sonar_scan scan = scan_of(n, p, 1000, &g);
        near_to(scan.beam_width_deg / measured_width(n, p, NULL, &scan, 30, 1000), 1, 0.02,
                "circle");
        cr_assert_not(scan.cone);
        cr_assert(scan.wraps);
        sonar_scan_destroy(&scan);
        free(p);
    }
    /* the figure of the design notes: 128 half-wavelength elements have 0.79 deg */
    double *p = line(128, 0.75, (double[]){1, 0, 0});
    sonar_geometry g;
    sonar_scan scan = scan_of(128, p, 1000, &g);
    near_to(scan.beam_width_deg, 0.79, 0.005, "128 elements");
    sonar_scan_destroy(&scan);
    free(p);
}

/* The steeper the direction, the smaller the angle of a degree of azimuth. */
Test(scan, beam_widths_grow_with_depression) {
    static const double depression[] = {-85, -60, 0, 30, 60, 75, 85, 88};
    double *arrays[] = {circle(48, 12), scattered(60, 3, (double[]){20, 20, 0}),
                        scattered(90, 5, (double[]){30, 10, 20})};
    static const size_t sensors[] = {48, 60, 90};
    for (size_t a = 0; a < 3; a++) {
        sonar_geometry g;
        cr_assert(sonar_geometry_analyse(sensors[a], arrays[a], NULL, 0.05, &g));
        for (size_t i = 0; i < sizeof depression / sizeof *depression; i++) {
            const sonar_scan_spec spec = {
                .depression_deg = depression[i], .top_hz = 1500, .sound_speed_mps = C};
            sonar_scan scan;
            double narrowest = 360;
            cr_assert_eq(sonar_scan_create(&spec, &g, &scan, NULL), SONAR_OK);
            for (double az = 0; az < 180; az += 3)
                narrowest =
                    fmin(narrowest, measured_width(sensors[a], arrays[a], NULL, &scan, az, 1500));
            near_to(scan.beam_width_deg / narrowest, 1, 0.05, "narrowest in azimuth");
            sonar_scan_destroy(&scan);
        }
        free(arrays[a]);
    }
    double *p = circle(8, 5);
    sonar_geometry g;
    sonar_geometry_analyse(8, p, NULL, 0.05, &g);
    const sonar_scan_spec spec = {.depression_deg = 90, .top_hz = 1500, .sound_speed_mps = C};
    sonar_scan scan;
    cr_assert_eq(sonar_scan_create(&spec, &g, &scan, NULL), SONAR_OK);
    cr_assert_eq(scan.beam_width_deg, 360, "straight down there is no azimuth");
    sonar_scan_destroy(&scan);
    free(p);
}

Test(scan, beam_widths_grow_with_shading) {
    static const struct {
        sonar_shading kind;
        double sidelobe_db;
    } cases[] = {{SONAR_SHADING_HANN, 0},       {SONAR_SHADING_CHEBYSHEV, 20},
                 {SONAR_SHADING_CHEBYSHEV, 30}, {SONAR_SHADING_CHEBYSHEV, 80},
                 {SONAR_SHADING_TAYLOR, 25},    {SONAR_SHADING_UNIFORM, 0}};
    for (size_t n = 16; n <= 128; n *= 2)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            double *p = line(n, 0.75, (double[]){0.6, 0, 0.8}), weight[128];
            sonar_geometry g;
            sonar_geometry_analyse(n, p, NULL, 0.05, &g);
            cr_assert_eq(sonar_cbf_shading(cases[i].kind, cases[i].sidelobe_db, 4, n, weight, NULL),
                         SONAR_OK);
            const sonar_scan_spec spec = {.top_hz = 1000,
                                          .sound_speed_mps = C,
                                          .effective_m = sonar_effective_length(n, p, weight, &g)};
            sonar_scan scan;
            cr_assert_eq(sonar_scan_create(&spec, &g, &scan, NULL), SONAR_OK);
            near_to(scan.beam_width_deg / measured_width(n, p, weight, &scan, 90, 1000), 1, 0.04,
                    "shaded line");
            sonar_scan_destroy(&scan);
            free(p);
        }
}

/* The beam of a few sensors is wide, but the scan must not have only a few directions. */
Test(scan, auto_has_a_coarsest_step) {
    double *arrays[] = {circle(4, 0.3), line(3, 0.4, (double[]){1, 0, 0}),
                        line(200, 0.75, (double[]){1, 0, 0})};
    static const size_t sensors[] = {4, 3, 200}, want[] = {180, 91, 0};
    for (size_t a = 0; a < 3; a++) {
        sonar_geometry g;
        sonar_geometry_analyse(sensors[a], arrays[a], NULL, 0.05, &g);
        sonar_scan_spec spec = {.top_hz = 1000, .sound_speed_mps = C};
        sonar_scan any, fine;
        cr_assert_eq(sonar_scan_create(&spec, &g, &any, NULL), SONAR_OK);
        spec.coarsest_deg = 2;
        cr_assert_eq(sonar_scan_create(&spec, &g, &fine, NULL), SONAR_OK);
        cr_assert_eq(fine.count, want[a] ? want[a] : any.count, "%zu directions", fine.count);
        cr_assert_eq(fine.beam_width_deg, any.beam_width_deg);
        sonar_scan_destroy(&any);
        sonar_scan_destroy(&fine);
        free(arrays[a]);
    }
    const double point[3] = {0};
    sonar_geometry g;
    sonar_geometry_analyse(1, point, NULL, 0.05, &g);
    const sonar_scan_spec spec = {.top_hz = 1000, .sound_speed_mps = C, .coarsest_deg = 2};
    sonar_scan scan;
    cr_assert_eq(sonar_scan_create(&spec, &g, &scan, NULL), SONAR_OK);
    cr_assert_eq(scan.count, 1, "a point sees the same from everywhere");
    sonar_scan_destroy(&scan);
}

Test(scan, auto_is_even_in_cosine_for_a_line_and_fine_enough) {
    double *p = line(33, 0.5, (double[]){1, 0, 0});
    sonar_geometry g;
    sonar_scan scan = scan_of(33, p, 1400, &g);
    cr_assert(scan.cone);
    cr_assert_not(scan.wraps);
    cr_assert_eq(scan.az_deg[0], 0);
    cr_assert_eq(scan.az_deg[scan.count - 1], 180);
    const double step = 2 / (double)(scan.count - 1), width = 0.886 * C / 1400 / (33 * 0.5);
    cr_assert(step <= 0.3 * width * 1.001, "steps of %g beam widths", step / width);
    cr_assert(step > 0.25 * width, "needlessly fine: %g", step / width);
    for (size_t i = 0; i < scan.count; i++) {
        near_to(cos(scan.az_deg[i] * M_PI / 180), 1 - step * (double)i, 1e-12, "cosine");
        near_to(scan.u[3 * i], cos(scan.az_deg[i] * M_PI / 180), 1e-15, "u.x");
        near_to(scan.u[3 * i + 1], sin(scan.az_deg[i] * M_PI / 180), 1e-15, "u.y");
    }
    sonar_scan_destroy(&scan);
    free(p);
}

Test(scan, auto_between_two_directions_loses_little) {
    double *p = circle(24, 2);
    sonar_geometry g;
    sonar_scan scan = scan_of(24, p, 1400, &g);
    double u[3];
    sonar_scan_unit(&scan, scan.az_deg[1] / 2, u);
    const double loss = -10 * log10(beam(24, p, NULL, scan.u, u, 1400));
    cr_assert(loss < 0.3 && loss > 0.1, "%g dB", loss);
    sonar_scan_destroy(&scan);
    free(p);
}

Test(scan, directions_follow_the_convention) {
    sonar_geometry g;
    double u[3], *p = circle(8, 5);
    sonar_geometry_analyse(8, p, NULL, 0.01, &g);
    const sonar_scan_spec spec = {.uniform = true,
                                  .start_deg = 0,
                                  .stop_deg = 270,
                                  .step_deg = 90,
                                  .depression_deg = 30,
                                  .top_hz = 500,
                                  .sound_speed_mps = C};
    sonar_scan scan;
    cr_assert_eq(sonar_scan_create(&spec, &g, &scan, NULL), SONAR_OK);
    cr_assert_eq(scan.count, 4);
    cr_assert(scan.wraps);
    static const double want[4][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
    for (size_t i = 0; i < 4; i++) {
        near_to(scan.u[3 * i], want[i][0] * sqrt(0.75), 1e-15, "x: cos(az) cos(depression)");
        near_to(scan.u[3 * i + 1], want[i][1] * sqrt(0.75), 1e-15, "y: to the right at 90 deg");
        near_to(scan.u[3 * i + 2], 0.5, 1e-15, "z: positive downwards");
    }
    sonar_scan_destroy(&scan);
    free(p);

    p = line(8, 1, (double[]){0, 1, 0}); /* an axis at 90 deg: broadside to its right is 180 */
    scan = scan_of(8, p, 700, &g);
    near_to(scan.axis_az_deg, 90, 1e-12, "axis");
    cr_assert_eq(scan.axis_depression_deg, 0);
    sonar_scan_unit(&scan, 90, u);
    near_to(u[0], -1, 1e-12, "broadside x");
    near_to(u[1], 0, 1e-12, "broadside y");
    sonar_scan_unit(&scan, 0, u);
    near_to(u[1], 1, 1e-12, "endfire");
    sonar_scan_destroy(&scan);
    free(p);

    p = line(8, 1, (double[]){0, 0, 1}); /* vertical: perp must still be one */
    scan = scan_of(8, p, 700, &g);
    cr_assert(scan.cone);
    near_to(scan.axis[0] * scan.perp[0] + scan.axis[1] * scan.perp[1] + scan.axis[2] * scan.perp[2],
            0, 1e-12, "perp");
    near_to(hypot(hypot(scan.perp[0], scan.perp[1]), scan.perp[2]), 1, 1e-12, "unit");
    cr_assert(isnan(scan.axis_az_deg), "a vertical axis points to %g deg", scan.axis_az_deg);
    near_to(scan.axis_depression_deg, 90, 1e-12, "straight down");
    sonar_scan_destroy(&scan);
    free(p);

    const double up = 40 * M_PI / 180; /* forward and to the right, and up by 40 deg */
    p = line(8, 1, (double[]){cos(up) * sqrt(0.5), cos(up) * sqrt(0.5), -sin(up)});
    scan = scan_of(8, p, 700, &g);
    near_to(scan.axis_az_deg, 45, 1e-12, "axis");
    near_to(scan.axis_depression_deg, -40, 1e-12, "tilt");
    sonar_scan_destroy(&scan);
    free(p);
}

Test(scan, uniform_covers_what_was_asked) {
    double *p = line(64, 0.9375, (double[]){1, 0, 0});
    sonar_geometry g;
    sonar_geometry_analyse(64, p, NULL, 0.05, &g);
    sonar_scan_spec spec = {.uniform = true,
                            .start_deg = 10,
                            .stop_deg = 169,
                            .step_deg = 1,
                            .top_hz = 800,
                            .sound_speed_mps = C};
    sonar_scan scan;
    cr_assert_eq(sonar_scan_create(&spec, &g, &scan, NULL), SONAR_OK);
    cr_assert_eq(scan.count, 160);
    cr_assert_eq(scan.az_deg[0], 10);
    cr_assert_eq(scan.az_deg[159], 169);
    sonar_scan_destroy(&scan);
    spec.step_deg = 0.1; /* not exact in binary: the last one must not be lost */
    cr_assert_eq(sonar_scan_create(&spec, &g, &scan, NULL), SONAR_OK);
    cr_assert_eq(scan.count, 1591);
    sonar_scan_destroy(&scan);
    free(p);
}

static sonar_scan uniform_scan(const sonar_geometry *g, double start, double stop, double step) {
    const sonar_scan_spec spec = {.uniform = true,
                                  .start_deg = start,
                                  .stop_deg = stop,
                                  .step_deg = step,
                                  .top_hz = 800,
                                  .sound_speed_mps = C};
    sonar_scan scan;
    cr_assert_eq(sonar_scan_create(&spec, g, &scan, NULL), SONAR_OK);
    return scan;
}

Test(scan, uniform_ends_where_the_last_step_does) {
    double *p = circle(8, 2);
    sonar_geometry g;
    sonar_geometry_analyse(8, p, NULL, 0.05, &g);
    static const struct {
        double start, stop, step, last;
        size_t count;
        bool wraps;
    } cases[] = {
        {0, 10, 3, 9, 4, false}, /* the stop is met by no step */
        {0, 9, 3, 9, 4, false},           {0, 360, 90, 270, 4, true}, /* 360 is 0 */
        {0, 360, 0.1, 359.9, 3600, true}, {7e-7, 360, 90, 270, 4, true},
        {90, 360, 90, 360, 4, true},      {5, 5, 1, 5, 1, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sonar_scan scan = uniform_scan(&g, cases[i].start, cases[i].stop, cases[i].step);
        cr_expect_eq(scan.count, cases[i].count, "case %zu: %zu directions", i, scan.count);
        near_to(scan.az_deg[scan.count - 1], cases[i].last, 1e-6, "last");
        cr_expect_leq(scan.az_deg[scan.count - 1], cases[i].stop);
        cr_expect(scan.count < 3 || scan.wraps == cases[i].wraps, "case %zu", i);
        sonar_scan_destroy(&scan);
    }
    free(p);
}

Test(scan, the_impossible_is_refused) {
    double *p = line(8, 1, (double[]){1, 0, 0});
    sonar_geometry g;
    sonar_geometry_analyse(8, p, NULL, 0.05, &g);
    const sonar_scan_spec good = {.uniform = true,
                                  .start_deg = 0,
                                  .stop_deg = 180,
                                  .step_deg = 1,
                                  .top_hz = 800,
                                  .sound_speed_mps = C};
    sonar_scan_spec bad[7];
    for (size_t i = 0; i < 7; i++)
        bad[i] = good;
    bad[0].stop_deg = 181;
    bad[1].step_deg = 0;
    bad[2].start_deg = -1;
    bad[3].start_deg = NAN;
    bad[4].step_deg = 1e-6;
    bad[5].top_hz = 0;
    bad[6].stop_deg = -1;
    for (size_t i = 0; i < 7; i++) {
        sonar_scan scan;
        sonar_error err;
        cr_assert_eq(sonar_scan_create(&bad[i], &g, &scan, &err), SONAR_EINVAL, "case %zu", i);
        cr_assert_null(scan.az_deg);
    }
    free(p);
}

Test(scan, a_single_sensor_has_one_direction) {
    const double p[3] = {0, 0, 0};
    sonar_geometry g;
    sonar_scan scan = scan_of(1, p, 800, &g);
    cr_assert_eq(scan.count, 1);
    cr_assert_eq(scan.beam_width_deg, 360);
    sonar_scan_destroy(&scan);
}

Test(ranges, auto_ladder_keeps_its_step_and_its_ends) {
    for (double aperture = 5; aperture < 300; aperture *= 1.7) {
        double r[4096];
        const double lambda = C / 480, step = 7 * lambda / (aperture * aperture);
        const size_t count = sonar_ranges_auto(aperture, lambda, 50, 3200, 4096, r);
        cr_assert(count >= 2 && count < 4096);
        cr_assert_eq(sonar_ranges_auto(aperture, lambda, 50, 3200, 0, NULL), count);
        near_to(r[0], 50, 1e-9, "first");
        near_to(r[count - 1], 3200, 0, "last");
        for (size_t i = 1; i < count; i++) {
            cr_assert(r[i] > r[i - 1]);
            cr_assert(1 / r[i - 1] - 1 / r[i] <= step * (1 + 1e-9));
        }
        if (count > 2) /* one fewer would not do */
            cr_assert((1. / 50 - 1. / 3200) / (double)(count - 2) > step);
    }
    double r[2] = {0, 0};
    cr_assert_eq(sonar_ranges_auto(10, 1, 100, 100, 2, r), 1);
    cr_assert_eq(r[0], 100);
    cr_assert(sonar_ranges_auto(1000, 1, 50, 3200, 2, r) > 1000, "counts beyond what fits");
}

Test(ranges, the_nearest_range_is_where_the_ladder_becomes_too_long) {
    for (double aperture = 100; aperture < 10000; aperture *= 1.9)
        for (size_t most = 2; most <= 64; most += 31) {
            const double nearest = sonar_ranges_nearest(aperture, 1.5, 3200, most);
            cr_assert_leq(sonar_ranges_auto(aperture, 1.5, nearest * 1.000001, 3200, 0, NULL),
                          most);
            cr_assert_gt(sonar_ranges_auto(aperture, 1.5, nearest * 0.999, 3200, 0, NULL), most);
        }
}

Test(geometry, aliasing_begins_at_half_a_wavelength) {
    double *p = line(8, 0.75, (double[]){1, 0, 0});
    sonar_geometry g;
    sonar_geometry_analyse(8, p, NULL, 0.05, &g);
    near_to(sonar_alias_hz(&g, C), 1000, 1e-9, "alias");
    sonar_geometry_analyse(1, p, NULL, 0.05, &g);
    cr_assert_eq(sonar_alias_hz(&g, C), 0);
    free(p);
}
