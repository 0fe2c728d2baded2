/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Directions of a scan that may wrap: which direction comes before and after an azimuth. */
#ifndef SONAR_DIRECTIONS_H
#define SONAR_DIRECTIONS_H

#include "manifold/manifold.h"

/* Azimuth of direction i; i may run one turn beyond either end of a scan that wraps. */
static inline double sonar_scan_az(const sonar_scan *scan, ptrdiff_t i) {
    const ptrdiff_t n = (ptrdiff_t)scan->count;
    if (i < 0)
        return scan->az_deg[i + n] - 360.0;
    return i < n ? scan->az_deg[i] : scan->az_deg[i - n] + 360.0;
}

/* The direction that index i stands for, after wrapping. */
static inline size_t sonar_scan_index(const sonar_scan *scan, ptrdiff_t i) {
    const ptrdiff_t n = (ptrdiff_t)scan->count;
    return (size_t)(i < 0 ? i + n : i < n ? i : i - n);
}

/* First index whose azimuth is at least az_deg, among all indices that sonar_scan_az accepts. */
static inline ptrdiff_t sonar_scan_first(const sonar_scan *scan, double az_deg) {
    const ptrdiff_t n = (ptrdiff_t)scan->count;
    ptrdiff_t low = scan->wraps ? -n : 0, high = scan->wraps ? 2 * n : n;
    while (low < high) {
        const ptrdiff_t middle = low + (high - low) / 2;
        if (sonar_scan_az(scan, middle) < az_deg)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The direction whose cell contains the azimuth. */
static inline size_t sonar_scan_nearest(const sonar_scan *scan, double az_deg) {
    const ptrdiff_t next = sonar_scan_first(scan, az_deg);
    if (!scan->wraps && next <= 0)
        return 0;
    if (!scan->wraps && next >= (ptrdiff_t)scan->count)
        return scan->count - 1;
    const double below = az_deg - sonar_scan_az(scan, next - 1);
    return sonar_scan_index(scan, below < sonar_scan_az(scan, next) - az_deg ? next - 1 : next);
}

#endif
