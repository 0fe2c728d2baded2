/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reaches into the memory of an MVDR stage on the GPU. */
#ifndef SONAR_TEST_INVERSE_CUDA_H
#define SONAR_TEST_INVERSE_CUDA_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Multiplies the inverses of all bins, and what is known of their sums, by a factor. No work of the
 * stage may be under way. False: CUDA failed. NULL in a program that is built without CUDA. */
__attribute__((weak)) bool inverse_enlarge(void *stage, double factor);

#ifdef __cplusplus
}
#endif

#endif
