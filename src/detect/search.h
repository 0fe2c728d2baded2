/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The state of one search for peaks, and what the files of this folder offer each other. */
#ifndef SONAR_DETECT_SEARCH_H
#define SONAR_DETECT_SEARCH_H

#include "detect/detect.h"

#include "detect/angle.h"

#define SONAR_FIRST_SIDELOBE_BEAMS 1.614

/* A local maximum; those found so far are stronger than those still to be judged. While the search
 * lasts, is.range_m is the range it is focused on, INFINITY for the far field. */
typedef struct sonar_local_maximum {
    sonar_detection is;
    size_t index; /* direction on the grid */
    size_t range; /* index into near->range_m; near->ranges: the far field */
    bool listed;  /* otherwise it counts for its side lobes only: outside the scan, or too near a
                     stronger one */
} sonar_local_maximum;

typedef struct sonar_search {
    const sonar_detect_spec *spec;
    const sonar_scan *scan;
    const float *power;          /* [direction] each at its strongest range */
    const float *far_power;      /* [direction] */
    const sonar_nearfield *near; /* or NULL */
    float *scratch;              /* [direction] */
    bool sidelobes;              /* the rule applies */
    double threshold, separation_beams;
    sonar_power_at power_at; /* or NULL */
    void *ctx;
    sonar_error *err;
} sonar_search;

/* Whether index i, before or after wrapping, is a direction of the scan. */
static inline bool sonar_scan_inside(const sonar_scan *scan, ptrdiff_t i) {
    const ptrdiff_t n = (ptrdiff_t)scan->count;
    return scan->wraps ? i >= -n && i < 2 * n : i >= 0 && i < n;
}

static inline size_t sonar_strongest(const float *value, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (value[i] > value[best])
            best = i;
    return best;
}

/* ---- background.c ---------------------------------------------------------------------------- */

/* sonar_detect_background of one direction; `otherwise` where too few cells are that far. */
float sonar_background_at(const sonar_scan *scan, const float *power, size_t i, float *scratch,
                          float otherwise);
/* What a fifth of the same cells exceed on one side, on that with more. 0 without cells. */
float sonar_background_ripple(const sonar_scan *scan, const float *power, size_t i, float *scratch);

/* ---- focus.c --------------------------------------------------------------------------------- */

/* Each direction at the range where it is strongest, the far field unless another range exceeds it
 * by the margin. */
void sonar_focus_strongest(const sonar_search *s, float *power);
/* Sets the peak's range as sonar_focus_strongest took its direction, and the background
 * of that range. */
void sonar_focus_find(const sonar_search *s, sonar_local_maximum *peak);
/* How a source b looks under the focus of another peak a. */
typedef struct sonar_smear {
    bool sharp;    /* focused alike: b leaks what its side lobes do */
    double beyond; /* beam widths from the edge of b's smear to a, 0 inside */
    double share;  /* of b's power, which a perfect array shows there at most */
} sonar_smear;
sonar_smear sonar_focus_smear(const sonar_search *s, const sonar_local_maximum *a,
                              const sonar_local_maximum *b);
/* Upper fifth of the spectrum of the peak's own range, on the stronger side of the peak. */
double sonar_focus_ripple(const sonar_search *s, const sonar_local_maximum *peak);
/* Moves a peak with a range to the top of the power over range and direction. */
sonar_code sonar_focus_refine(const sonar_search *s, sonar_local_maximum *peak);

/* ---- refine.c -------------------------------------------------------------------------------- */

/* power_at at azimuths on one range, with what is not finite counting as nothing. */
sonar_code sonar_refine_ask(const sonar_search *s, size_t n, const double *az_deg,
                            const double *range_m, float *power);
/* Moves a peak of the grid to the top between its neighbours, on its own range. No longer listed if
 * the power still rises where the scan ends. */
sonar_code sonar_refine_peak(const sonar_search *s, sonar_local_maximum *peak);
/* The same within `beams` beam widths of where the peak is now. */
sonar_code sonar_refine_again(const sonar_search *s, sonar_local_maximum *peak, double beams);
/* Sets width_deg, on the peak's own range. */
sonar_code sonar_refine_width(const sonar_search *s, sonar_local_maximum *peak);

#endif
