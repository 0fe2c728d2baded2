/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Cases for every backend's steering, based on the contract in sonar/stages.h. */
#ifndef SONAR_TEST_STEER_CASES_H
#define SONAR_TEST_STEER_CASES_H

#include "site.h"

#define STEER_CASES(X)                                                                             \
    X(far_and_near_delays)                                                                         \
    X(positions_follow_the_version)                                                                \
    X(many_sensors)                                                                                \
    X(wrong_shapes)

#define STEER_DECLARE(name) void steer_case_##name(site *site);
STEER_CASES(STEER_DECLARE)
#define STEER_ROW(name) {#name, steer_case_##name},

#endif
