/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/isa.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"x86-64-v4", "x86-64-v3", "baseline", "none"};

const char *sonar_isa_name(sonar_isa isa) {
    return names[isa];
}

static bool runs_here(sonar_isa isa) {
#if SONAR_HAS_WIDE
    __builtin_cpu_init();
    if (isa == SONAR_ISA_V4)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    if (isa == SONAR_ISA_V3)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return isa == SONAR_ISA_BASELINE;
}

/* Returns SONAR_ISAS if no instruction set that this processor supports has this name. */
static sonar_isa find(const char *name) {
    sonar_isa isa = SONAR_ISA_V4;
    while (isa < SONAR_ISAS && !(runs_here(isa) && (!name || !strcmp(name, names[isa]))))
        isa++;
    return isa;
}

sonar_isa sonar_isa_choose(const char *asked) {
    if (asked)
        return find(asked);
    const sonar_isa wished = find(getenv("SONAR_ISA"));
    return wished < SONAR_ISAS ? wished : find(NULL);
}
