/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The conformance suite of the beamformer on the CPU, and on a device that the CPU plays, which
 * shows that the suite itself waits where it has to. */
#include "conformance/cbf.h"
#include "conformance/try.h"

#define AT_CPU(name)                                                                               \
    Test(cbf, name) {                                                                              \
        try_at_cpu(&(site_case){#name, cbf_case_##name});                                          \
    }
#define AT_LAZY_DEVICE(name)                                                                       \
    Test(cbf_on_a_lazy_device, name) {                                                             \
        try_at_lazy_device(&(site_case){#name, cbf_case_##name});                                  \
    }
CBF_CASES(AT_CPU)
CBF_LONG_CASES(AT_CPU)
CBF_ERROR_CASES(AT_CPU)
CBF_CASES(AT_LAZY_DEVICE)
