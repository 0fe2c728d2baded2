/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The robust background: medians over a split window. */
#include "detect/search.h"

#include "core/core.h"

/* The main lobe of a uniform line ends 1.13 beam widths from its peak. */
static const double gap_beams = 1.5, span_beams = 10, rounding_deg = 1e-9;
enum { CELLS_A_SIDE = 64, CELLS_LEAST = 8 };

/* Appends the cells of [low, high) to cell[*cells], thinned evenly. */
static void gather(const sonar_scan *scan, const float *power, double low_deg, double high_deg,
                   float *cell, size_t *cells) {
    const ptrdiff_t first = sonar_scan_first(scan, low_deg), end = sonar_scan_first(scan, high_deg);
    const ptrdiff_t step = end > first ? (end - first - 1) / CELLS_A_SIDE + 1 : 1;
    for (ptrdiff_t i = first; i < end && *cells < scan->count; i += step)
        cell[(*cells)++] = power[sonar_scan_index(scan, i)];
}

/* Far ends of the window; on a circle the two sides meet at the opposite direction. */
static double window_end(const sonar_scan *scan, double az_deg, double beams) {
    const double end = sonar_beams_on(scan, az_deg, beams);
    return scan->wraps ? fmin(fmax(end, az_deg - 180.0), az_deg + 180.0) : end;
}

/* The cells of one side of the window around direction i. */
static void gather_side(const sonar_scan *scan, const float *power, size_t i, int way, float *cell,
                        size_t *cells) {
    const double az = scan->az_deg[i];
    /* open below and closed above, so that the scan's last direction is included */
    if (way < 0)
        gather(scan, power, window_end(scan, az, -gap_beams - span_beams),
               sonar_beams_on(scan, az, -gap_beams), cell, cells);
    else
        gather(scan, power, sonar_beams_on(scan, az, gap_beams) + rounding_deg,
               window_end(scan, az, gap_beams + span_beams) + rounding_deg, cell, cells);
}

float sonar_background_at(const sonar_scan *scan, const float *power, size_t i, float *scratch,
                          float otherwise) {
    size_t cells = 0;
    gather_side(scan, power, i, -1, scratch, &cells);
    gather_side(scan, power, i, 1, scratch, &cells);
    return cells < CELLS_LEAST ? otherwise : sonar_median(scratch, cells);
}

static void sort(float *cell, size_t n) {
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j > 0 && cell[j] < cell[j - 1]; j--) {
            const float kept = cell[j];
            cell[j] = cell[j - 1];
            cell[j - 1] = kept;
        }
}

float sonar_background_ripple(const sonar_scan *scan, const float *power, size_t i,
                              float *scratch) {
    float most = 0;
    for (int way = -1; way <= 1; way += 2) {
        size_t cells = 0;
        gather_side(scan, power, i, way, scratch, &cells);
        sort(scratch, cells);
        if (cells >= CELLS_LEAST / 2)
            most = fmaxf(most, scratch[cells * 4 / 5]);
    }
    return most;
}

void sonar_detect_background(const sonar_scan *scan, const float *power, float *background,
                             float *scratch) {
    const size_t n = scan->count;
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++)
        scratch[i] = power[i];
    const float whole = sonar_median(scratch, n);
    for (size_t i = 0; i < n; i++)
        background[i] = sonar_background_at(scan, power, i, scratch, whole);
}
