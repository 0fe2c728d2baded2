/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The beamformer's shading compared with theory and textbooks. */
#include "cbf/cbf.h"

#include <complex.h>
#include <criterion/criterion.h>
#include <math.h>

/* Array factor of n elements half a wavelength apart at psi = 0..pi, dB re its peak. */
static double pattern_db(const double *g, size_t n, double psi) {
    double complex y = 0;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        y += g[i] * cexp(I * psi * (double)i);
        sum += g[i];
    }
    return 20 * log10(cabs(y) / sum + 1e-15);
}

/* Levels of the side lobes, from the main lobe outwards, at most `most`. */
static size_t side_lobes(const double *g, size_t n, double *level, size_t most) {
    const double step = M_PI / (200 * (double)n);
    size_t count = 0;
    double before = 0, now = pattern_db(g, n, step);
    for (double psi = 2 * step; psi < M_PI && count < most; psi += step) {
        double next = pattern_db(g, n, psi);
        if (now > before && now >= next)
            level[count++] = now;
        before = now;
        now = next;
    }
    return count;
}

Test(shading, chebyshev_side_lobes_are_equal) {
    const size_t sizes[] = {3, 4, 10, 33, 64};
    const double levels[] = {15, 26, 30, 45, 60};
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 5; j++) {
            double g[64], level[64];
            cr_assert_eq(
                sonar_cbf_shading(SONAR_SHADING_CHEBYSHEV, levels[j], 0, sizes[i], g, NULL),
                SONAR_OK);
            size_t found = side_lobes(g, sizes[i], level, 64);
            cr_assert(sizes[i] < 10 || found >= sizes[i] / 2 - 4);
            for (size_t k = 0; k < found; k++)
                cr_assert_float_eq(level[k], -levels[j], 0.1, "n %zu: %g", sizes[i], level[k]);
        }
}

/* Ten elements, side lobes 20:1: T9(z cos u) multiplied out into cosines (as Balanis, Antenna
 * Theory, section 6.8, whose own figures, rounded on the way, differ by up to 1 %). */
Test(shading, chebyshev_textbook_weights) {
    double z = cosh(acosh(20) / 9), z2 = z * z, z3 = z * z2, z5 = z3 * z2, z7 = z5 * z2;
    double z9 = z7 * z2, g[10];
    const double want[5] = {z9, 9 * z9 - 9 * z7, 36 * z9 - 63 * z7 + 27 * z5,
                            84 * z9 - 189 * z7 + 135 * z5 - 30 * z3,
                            126 * z9 - 315 * z7 + 270 * z5 - 90 * z3 + 9 * z};
    const double rounded[5] = {1, 1.357, 1.974, 2.496, 2.798};
    sonar_cbf_shading(SONAR_SHADING_CHEBYSHEV, 20 * log10(20), 0, 10, g, NULL);
    for (size_t i = 0; i < 5; i++) {
        cr_assert_float_eq(g[i], want[i] / want[4], 1e-12);
        cr_assert_float_eq(g[i] / g[0] / rounded[i], 1, 0.01);
        cr_assert_float_eq(g[9 - i], g[i], 1e-12);
    }
}

/* The first nbar - 1 side lobes stay near the design level, then they fall off. */
Test(shading, taylor_side_lobes) {
    for (int nbar = 4; nbar <= 8; nbar++) {
        double g[128], level[60];
        cr_assert_eq(sonar_cbf_shading(SONAR_SHADING_TAYLOR, 30, nbar, 128, g, NULL), SONAR_OK);
        size_t found = side_lobes(g, 128, level, 60);
        cr_assert_geq(found, 40);
        cr_assert_float_eq(level[0], -30, 0.5, "nbar %d: %g", nbar, level[0]);
        for (int i = 0; i < nbar - 1; i++)
            cr_assert(level[i] < -29.5 && level[i] > -34, "nbar %d, lobe %d: %g", nbar, i,
                      level[i]);
        cr_assert_lt(level[30], level[nbar] - 6);
    }
}

Test(shading, hann_and_uniform) {
    double g[64], level[3];
    sonar_cbf_shading(SONAR_SHADING_HANN, 0, 0, 64, g, NULL);
    side_lobes(g, 64, level, 3);
    cr_assert_float_eq(level[0], -31.5, 0.2);
    cr_assert_gt(g[0], 0, "no element is switched off");
    sonar_cbf_shading(SONAR_SHADING_UNIFORM, 0, 0, 64, g, NULL);
    side_lobes(g, 64, level, 3);
    cr_assert_float_eq(level[0], -13.26, 0.05);
}

Test(shading, every_kind_of_every_size_is_symmetric_and_at_most_one) {
    double g[40];
    for (int kind = SONAR_SHADING_UNIFORM; kind <= SONAR_SHADING_TAYLOR; kind++)
        for (size_t n = 1; n <= 40; n++) {
            double largest = 0;
            cr_assert_eq(sonar_cbf_shading((sonar_shading)kind, 30, 4, n, g, NULL), SONAR_OK);
            for (size_t i = 0; i < n; i++) {
                largest = fmax(largest, fabs(g[i]));
                cr_assert_float_eq(g[i], g[n - 1 - i], 1e-9);
            }
            cr_assert_float_eq(largest, 1, 1e-12);
        }
}

Test(shading, impossible_designs_are_refused) {
    double g[8];
    const double bad_db[] = {0, -30, 1000, NAN};
    for (size_t i = 0; i < 4; i++) {
        cr_assert_eq(sonar_cbf_shading(SONAR_SHADING_CHEBYSHEV, bad_db[i], 4, 8, g, NULL),
                     SONAR_EINVAL);
        cr_assert_eq(sonar_cbf_shading(SONAR_SHADING_TAYLOR, bad_db[i], 4, 8, g, NULL),
                     SONAR_EINVAL);
    }
    cr_assert_eq(sonar_cbf_shading(SONAR_SHADING_TAYLOR, 30, 0, 8, g, NULL), SONAR_EINVAL);
    cr_assert_eq(sonar_cbf_shading(SONAR_SHADING_TAYLOR, 60, 2, 8, g, NULL), SONAR_EINVAL);
}
