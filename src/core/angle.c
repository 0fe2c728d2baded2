/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/core.h"

#include <math.h>

double sonar_modulo_turn(double deg) {
    const double rest = fmod(deg, 360);
    const double turned = rest < 0 ? rest + 360 : rest;
    return turned >= 360 ? 0 : turned + 0.0; /* -1e-15 + 360 rounds to 360; -0 becomes 0 */
}
