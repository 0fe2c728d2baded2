/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "mvdr_jacobi/cpu/kernels.h"

#include <math.h>

#include "core/isa.h"

enum { STEP = 2 * MVDR_LANES, GROUP = 4 /* rows of the factor that are processed together */ };

#define SONAR_KERNELS "mvdr_jacobi/cpu/set_kernel.h"
#include "core/isa_kernels.h"

const mvdr_kernels *mvdr_kernels_here(void) {
    static const mvdr_kernels *const of[SONAR_ISAS] = SONAR_EACH_ISA(&kernels);
    return of[sonar_isa_choose(NULL)];
}
