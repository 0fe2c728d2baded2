/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "mvdr_jacobi/cpu/kernels.h"

#include <math.h>

#include "core/isa.h"

enum { STEP = 2 * MVDR_LANES, GROUP = 4 /* rows of the factor that are processed together */ };

/* For the kernels: a name for each function, its attributes, and the doubles of a vector. */
#define VECTOR          NAME(vector)
#define INLINE          static inline __attribute__((always_inline))
#define LOAD(to, from)  memcpy(&(to), from, sizeof(VECTOR))
#define STORE(to, from) memcpy(to, &(from), sizeof(VECTOR))
#define TABLE                                                                                      \
    {                                                                                              \
        NAME(project), NAME(inner), NAME(outer), NAME(solve), NAME(reduce), NAME(substitute),      \
            NAME(quadratic), NAME(multiplied)                                                      \
    }

#if SONAR_HAS_WIDE
#define NAME(of) of##_v4
#define TARGET   SONAR_TARGET_V4
#define WIDTH    8
typedef double VECTOR __attribute__((vector_size(WIDTH * sizeof(double))));
#include "mvdr_jacobi/cpu/factor_kernel.h"
#include "mvdr_jacobi/cpu/forms_kernel.h"
#include "mvdr_jacobi/cpu/products_kernel.h"
#include "mvdr_jacobi/cpu/reduction_kernel.h"
static const mvdr_kernels NAME(kernels) = TABLE;
#undef NAME
#undef TARGET
#undef WIDTH

#define NAME(of) of##_v3
#define TARGET   SONAR_TARGET_V3
#define WIDTH    4
typedef double VECTOR __attribute__((vector_size(WIDTH * sizeof(double))));
#include "mvdr_jacobi/cpu/factor_kernel.h"
#include "mvdr_jacobi/cpu/forms_kernel.h"
#include "mvdr_jacobi/cpu/products_kernel.h"
#include "mvdr_jacobi/cpu/reduction_kernel.h"
static const mvdr_kernels NAME(kernels) = TABLE;
#undef NAME
#undef TARGET
#undef WIDTH
#endif

#define NAME(of) of##_any
#define TARGET
#define WIDTH 2
typedef double VECTOR __attribute__((vector_size(WIDTH * sizeof(double))));
#include "mvdr_jacobi/cpu/factor_kernel.h"
#include "mvdr_jacobi/cpu/forms_kernel.h"
#include "mvdr_jacobi/cpu/products_kernel.h"
#include "mvdr_jacobi/cpu/reduction_kernel.h"
static const mvdr_kernels NAME(kernels) = TABLE;

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
