/* SPDX-License-Identifier: GPL-3.0-or-later */
/* All kernels (kernels.h) for one instruction set: core/isa_kernels.h defines NAME, TARGET and
 * WIDTH. */
#define VECTOR          NAME(vector)
#define INLINE          static inline __attribute__((always_inline))
#define LOAD(to, from)  memcpy(&(to), from, sizeof(VECTOR))
#define STORE(to, from) memcpy(to, &(from), sizeof(VECTOR))

#define VECTORS (MVDR_LANES / WIDTH)

typedef double VECTOR __attribute__((vector_size(WIDTH * sizeof(double))));

#include "mvdr_jacobi/cpu/dot_kernel.h" /* before those that use it */

#include "mvdr_jacobi/cpu/eigen_kernel.h"
#include "mvdr_jacobi/cpu/factor_kernel.h"
#include "mvdr_jacobi/cpu/forms_kernel.h"
#include "mvdr_jacobi/cpu/hermitian_kernel.h"
#include "mvdr_jacobi/cpu/jacobi_kernel.h"
#include "mvdr_jacobi/cpu/products_kernel.h"
#include "mvdr_jacobi/cpu/reduction_kernel.h"

static const mvdr_kernels NAME(kernels) = {
    .project = NAME(project),
    .inner = NAME(inner),
    .outer = NAME(outer),
    .solve = NAME(solve),
    .reduce = NAME(reduce),
    .substitute = NAME(substitute),
    .quadratic = NAME(quadratic),
    .multiplied = NAME(multiplied),
    .apply = NAME(apply),
    .subtract = NAME(subtract),
    .moments = NAME(moments),
    .along = NAME(along),
    .below = NAME(below),
    .gain_sums = NAME(gain_sums),
    .sweep = NAME(sweep),
};

#undef VECTOR
#undef VECTORS
#undef INLINE
#undef LOAD
#undef STORE
