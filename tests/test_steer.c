/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The conformance suite of the steering on the CPU, and on a fake device. */
#include "conformance/steer.h"
#include "conformance/try.h"

#define AT_CPU(name)                                                                               \
    Test(steer, name) {                                                                            \
        try_at_cpu(&(site_case){#name, steer_case_##name});                                        \
    }
STEER_CASES(AT_CPU)

/* There an error is returned when the work is done, not by the call. */
#define AT_LAZY_DEVICE(name)                                                                       \
    Test(steer_on_a_lazy_device, name) {                                                           \
        try_at_lazy_device(&(site_case){#name, steer_case_##name});                                \
    }
AT_LAZY_DEVICE(far_and_near_delays)
AT_LAZY_DEVICE(positions_follow_the_version)
AT_LAZY_DEVICE(many_sensors)
