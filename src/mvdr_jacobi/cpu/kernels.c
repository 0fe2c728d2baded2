/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "mvdr_jacobi/cpu/kernels.h"

#include <math.h>

#include "core/isa.h"

enum { STEP = 2 * MVDR_LANES, GROUP = 4 /* rows of the factor that are processed together */ };

#if SONAR_HAS_WIDE
#define NAME(of) of##_v4
#define TARGET   SONAR_TARGET_V4
#define WIDTH    8
#include "mvdr_jacobi/cpu/set_kernel.h"

#define NAME(of) of##_v3
#define TARGET   SONAR_TARGET_V3
#define WIDTH    4
#include "mvdr_jacobi/cpu/set_kernel.h"
#endif

#define NAME(of) of##_any
#define TARGET
#define WIDTH 2
#include "mvdr_jacobi/cpu/set_kernel.h"

const mvdr_kernels *mvdr_kernels_here(void) {
    static const mvdr_kernels *const kernels[SONAR_ISAS] = {
#if SONAR_HAS_WIDE
        [SONAR_ISA_V4] = &kernels_v4,
        [SONAR_ISA_V3] = &kernels_v3,
#endif
        [SONAR_ISA_BASELINE] = &kernels_any,
    };
    return kernels[sonar_isa_choose(NULL)];
}
