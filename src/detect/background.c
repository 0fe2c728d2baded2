/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The robust background: medians over a split window. */
#include "detect/search.h"

#include "core/core.h"

#include <stdlib.h>

/* The main lobe of a uniform line ends 1.13 beam widths from its peak. */
static const double gap_beams = 1.5, span_beams = 10, rounding_deg = 1e-9;
enum { CELLS_A_SIDE = 64, CELLS_LEAST = 8 };

/* Directions [first, end) of the scan, not yet wrapped. */
struct cells {
    ptrdiff_t first, end;
};

struct sonar_split {
    const sonar_scan *scan;
    struct cells (*side)[2]; /* [direction]: below and above it */
};

/* ---- the windows ----------------------------------------------------------------------------- */

/* Far ends of the window; on a circle the two sides meet at the opposite direction. */
static double window_end(const sonar_scan *scan, double az_deg, double beams) {
    const double end = sonar_beams_on(scan, az_deg, beams);
    return scan->wraps ? fmin(fmax(end, az_deg - 180.0), az_deg + 180.0) : end;
}

static struct cells cells_between(const sonar_scan *scan, double low_deg, double high_deg) {
    return (struct cells){sonar_scan_first(scan, low_deg), sonar_scan_first(scan, high_deg)};
}

/* Open below and closed above, so that the scan's last direction is included. */
static void find_sides(const sonar_scan *scan, double az_deg, struct cells side[2]) {
    side[0] = cells_between(scan, window_end(scan, az_deg, -gap_beams - span_beams),
                            sonar_beams_on(scan, az_deg, -gap_beams));
    side[1] = cells_between(scan, sonar_beams_on(scan, az_deg, gap_beams) + rounding_deg,
                            window_end(scan, az_deg, gap_beams + span_beams) + rounding_deg);
}

sonar_code sonar_split_create(const sonar_scan *scan, sonar_split **made, sonar_error *err) {
    sonar_split *split = *made = sonar_alloc(1, sizeof *split);
    if (split)
        *split = (sonar_split){scan, sonar_alloc(scan->count + 1, sizeof *split->side)};
    if (!split || !split->side) {
        sonar_split_destroy(split);
        *made = NULL;
        return sonar_fail(err, SONAR_ENOMEM, "detect", "no memory for %zu directions", scan->count);
    }
    for (size_t i = 0; i < scan->count; i++)
        find_sides(scan, scan->az_deg[i], split->side[i]);
    return SONAR_OK;
}

void sonar_split_destroy(sonar_split *split) {
    if (split)
        free(split->side);
    free(split);
}

/* ---- backgrounds ----------------------------------------------------------------------------- */

/* Appends the cells of one side to cell[*cells], thinned evenly. */
static void gather(const sonar_split *split, const float *power, size_t i, int side, float *cell,
                   size_t *cells) {
    const struct cells from = split->side[i][side];
    const ptrdiff_t step =
        from.end > from.first ? (from.end - from.first - 1) / CELLS_A_SIDE + 1 : 1;
    for (ptrdiff_t k = from.first; k < from.end && *cells < split->scan->count; k += step)
        cell[(*cells)++] = power[sonar_scan_index(split->scan, k)];
}

float sonar_background_at(const sonar_split *split, const float *power, size_t i, float *scratch,
                          float otherwise) {
    size_t cells = 0;
    gather(split, power, i, 0, scratch, &cells);
    gather(split, power, i, 1, scratch, &cells);
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

float sonar_background_ripple(const sonar_split *split, const float *power, size_t i,
                              float *scratch) {
    float most = 0;
    for (int side = 0; side < 2; side++) {
        size_t cells = 0;
        gather(split, power, i, side, scratch, &cells);
        sort(scratch, cells);
        if (cells >= CELLS_LEAST / 2)
            most = fmaxf(most, scratch[cells * 4 / 5]);
    }
    return most;
}

void sonar_detect_background(const sonar_split *split, const float *power, float *background,
                             float *scratch) {
    const size_t n = split->scan->count;
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++)
        scratch[i] = power[i];
    const float whole = sonar_median(scratch, n);
    for (size_t i = 0; i < n; i++)
        background[i] = sonar_background_at(split, power, i, scratch, whole);
}
