/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <criterion/criterion.h>
#include <math.h>

#include "core/core.h"

Test(angle, modulo_turn_keeps_the_direction_from_0_to_less_than_360) {
    static const double deg[] = {0,   1e-300, 89.5,  359.999, 360,      360.5, 720,
                                 1e6, -1e-15, -0.25, -360,    -725.125, -1e6};
    for (size_t i = 0; i < sizeof deg / sizeof deg[0]; i++) {
        const double turned = sonar_modulo_turn(deg[i]);
        cr_expect(turned >= 0 && turned < 360 && !signbit(turned), "%g became %g", deg[i], turned);
        cr_expect(fabs(remainder(turned - deg[i], 360)) < 1e-9, "%g became %g", deg[i], turned);
    }
    cr_expect(isnan(sonar_modulo_turn(NAN)));
    cr_expect(isnan(sonar_modulo_turn(INFINITY)));
}
