/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Instruction sets that kernels for the CPU are compiled for separately. */
#ifndef SONAR_ISA_H
#define SONAR_ISA_H

#include "core/core.h"

/* The widest first. */
typedef enum sonar_isa {
    SONAR_ISA_V4 = 0, /* AVX-512 */
    SONAR_ISA_V3,     /* AVX2 and FMA */
    SONAR_ISA_BASELINE,
    SONAR_ISAS
} sonar_isa;

/* Whether kernels of the wider sets are compiled at all. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define SONAR_HAS_WIDE  1
#define SONAR_TARGET_V4 __attribute__((target("arch=x86-64-v4")))
#define SONAR_TARGET_V3 __attribute__((target("arch=x86-64-v3")))
#else
#define SONAR_HAS_WIDE 0
#endif

/* An initialiser [SONAR_ISAS] of `of` as isa_kernels.h names it for each set. */
#if SONAR_HAS_WIDE
#define SONAR_EACH_ISA(of)                                                                         \
    { [SONAR_ISA_V4] = of##_v4, [SONAR_ISA_V3] = of##_v3, [SONAR_ISA_BASELINE] = of##_any }
#else
#define SONAR_EACH_ISA(of)                                                                         \
    { [SONAR_ISA_BASELINE] = of##_any }
#endif

/* x86-64-v4, x86-64-v3, baseline; "none" for SONAR_ISAS. */
const char *sonar_isa_name(sonar_isa isa);

/* Returns the set named `asked`, or SONAR_ISAS if the processor does not support it. Without a name
 * (NULL) returns the widest supported set, or the narrower one that the environment variable
 * SONAR_ISA names. Any thread. */
sonar_isa sonar_isa_choose(const char *asked);

#endif
