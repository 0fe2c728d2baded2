/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/random.h"

#include <criterion/criterion.h>

/* Known values for the seed 1234567 (rosettacode.org, Pseudo-random numbers/Splitmix64). */
Test(random, gives_the_published_values) {
    static const uint64_t want[] = {6457827717110365317u, 3203168211198807973u,
                                    9817491932198370423u, 4593380528125082431u,
                                    16408922859458223821u};
    uint64_t state = 1234567;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        cr_assert_eq(sonar_random_bits(&state), want[i], "value %zu", i);
        cr_assert_eq(sonar_random_at(1234567, i), want[i], "value %zu", i);
    }
}

Test(random, has_the_moments_of_its_distributions) {
    enum { COUNT = 200000 };
    uint64_t state = 1;
    double uniform = 0, uniform_square = 0, normal = 0, normal_square = 0, normal_fourth = 0;
    for (int i = 0; i < COUNT; i++) {
        double u = sonar_random_symmetric(&state), g = sonar_random_normal(&state);
        cr_assert(u > -1 && u < 1);
        cr_assert(isfinite(g));
        uniform += u / COUNT;
        uniform_square += u * u / COUNT;
        normal += g / COUNT;
        normal_square += g * g / COUNT;
        normal_fourth += g * g * g * g / COUNT;
    }
    cr_assert_float_eq(uniform, 0, 0.01);
    cr_assert_float_eq(uniform_square, 1.0 / 3, 0.005);
    cr_assert_float_eq(normal, 0, 0.02);
    cr_assert_float_eq(normal_square, 1, 0.02);
    cr_assert_float_eq(normal_fourth, 3, 0.15);
}
