/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Takes every `factor`-th sample of many channels after a low-pass filter: one stage for each prime
 * factor, the largest first, each with a symmetric filter (Kaiser's window: Oppenheim and Schafer,
 * Discrete-Time Signal Processing, section 7.5). Sample j that comes out is the filtered sample
 * j * factor that went in, so that there is no delay in what the index says. Up to 0.4 of the new
 * rate the gain is 1 within 0.01 dB; what has more than 0.6 of it is 80 dB down. One thread.
 */
#ifndef FEED_DECIMATOR_H
#define FEED_DECIMATOR_H

#include "sonar/sonar.h"

typedef struct decimator decimator;

/* factor: 2 to 1000. SONAR_EINVAL: it would need more than 2 GB; SONAR_ENOMEM. */
sonar_code decimator_create(size_t channels, size_t factor, decimator **d, sonar_error *err);
void decimator_destroy(decimator *d); /* NULL is allowed */
/* Samples before and behind each one that comes out that have to be there. */
size_t decimator_reach(const decimator *d);
/* Puts rows[n][channels], samples from `index` on. If they do not follow those before, the filter
 * begins with them: nothing comes out that reaches across a gap. Returns the number of samples that
 * come out, to[n / factor + 1][channels], and the index of the first, at the new rate. */
size_t decimator_put(decimator *d, uint64_t index, const float *rows, size_t n, float *to,
                     uint64_t *first);

#endif
