/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Includes the header SONAR_KERNELS once for each instruction set, with NAME (a name for each
 * function), TARGET (attributes) and WIDTH (doubles of a vector). SONAR_EACH_ISA (isa.h) lists what
 * it defines. */
#if SONAR_HAS_WIDE
#define NAME(of) of##_v4
#define TARGET   SONAR_TARGET_V4
#define WIDTH    8
#include SONAR_KERNELS
#undef NAME
#undef TARGET
#undef WIDTH

#define NAME(of) of##_v3
#define TARGET   SONAR_TARGET_V3
#define WIDTH    4
#include SONAR_KERNELS
#undef NAME
#undef TARGET
#undef WIDTH
#endif

#define NAME(of) of##_any
#define TARGET
#define WIDTH 2
#include SONAR_KERNELS
#undef NAME
#undef TARGET
#undef WIDTH
#undef SONAR_KERNELS
