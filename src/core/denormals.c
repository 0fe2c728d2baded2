/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/core.h"

#if defined(__SSE2__)
#include <xmmintrin.h>

enum { FLUSH_TO_ZERO = 1 << 15, DENORMALS_ARE_ZEROS = 1 << 6 };

unsigned sonar_denormals_flush(void) {
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | FLUSH_TO_ZERO | DENORMALS_ARE_ZEROS);
    return before;
}

void sonar_denormals_restore(unsigned before) {
    _mm_setcsr(before);
}
#elif defined(__aarch64__)
static const unsigned long flush_to_zero = 1ul << 24; /* in operands and in results */

unsigned sonar_denormals_flush(void) {
    unsigned long before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" ::"r"(before | flush_to_zero));
    return (unsigned)before;
}

void sonar_denormals_restore(unsigned before) {
    __asm__ volatile("msr fpcr, %0" ::"r"((unsigned long)before));
}
#else
unsigned sonar_denormals_flush(void) {
    return 0;
}

void sonar_denormals_restore(unsigned before) {
    (void)before;
}
#endif
