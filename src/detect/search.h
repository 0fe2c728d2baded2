/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The state of one search for peaks, and the interfaces between the files of this folder. */
#ifndef SONAR_DETECT_SEARCH_H
#define SONAR_DETECT_SEARCH_H

#include "detect/detect.h"

#include "manifold/angle.h"
#include "detect/pattern.h"

#define SONAR_FIRST_SIDELOBE_BEAMS 1.614

/* A local maximum. Those found so far are stronger than those still to be judged. During the search
 * is.range_m is the range in focus, INFINITY for the far field. */
typedef struct sonar_local_maximum {
    sonar_detection is;
    size_t index; /* direction on the grid */
    size_t range; /* index into near->range_m; near->ranges: the far field */
    bool listed;  /* false: only its side lobes count, because it is outside the scan or too near a
                     stronger one */
    double most[SONAR_PATTERN_PARTS]; /* upper limit of the share of its power in each part of the
                                         band */
    size_t task;                      /* index of its refinement, if it has one */
} sonar_local_maximum;

typedef struct sonar_search {
    const sonar_detect_spec *spec;
    const sonar_scan *scan;
    const float *power;          /* [direction] power at each direction's strongest range */
    const float *far_power;      /* [direction] */
    const sonar_nearfield *near; /* or NULL */
    float *scratch;              /* [direction] */
    bool sidelobes;              /* the rule of side lobes applies */
    bool adaptive;               /* the peaks are MVDR's */
    double threshold, separation_beams;
    double range_margin;     /* by how much a range must exceed the far field */
    sonar_power_at power_at; /* or NULL */
    void *ctx;
    sonar_error *err;
} sonar_search;

/* True if index i, before or after wrapping, is a direction of the scan. */
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

/* sonar_detect_background of one direction; returns `otherwise` if too few cells are that far. */
float sonar_background_at(const sonar_split *split, const float *power, size_t i, float *scratch,
                          float otherwise);
/* The power that a fifth of the same cells on one side exceed; the larger of the two sides. 0
 * without cells. */
float sonar_background_ripple(const sonar_split *split, const float *power, size_t i,
                              float *scratch);

/* ---- focus.c --------------------------------------------------------------------------------- */

/* Sets each direction's power to that at its strongest range; this is the far field unless another
 * range exceeds it by the margin. */
void sonar_focus_strongest(const sonar_search *s, float *power);
/* Sets the peak's range to the one that sonar_focus_strongest chose for its direction, and sets the
 * background of that range. */
void sonar_focus_find(const sonar_search *s, sonar_local_maximum *peak);
/* How a source b appears when the array is focused on another peak a. */
typedef struct sonar_smear {
    bool sharp;    /* focused alike: b leaks through its side lobes only */
    double beyond; /* beam widths from the edge of b's smear to a, 0 inside */
    double share;  /* upper limit of the share of b's power that a perfect array shows there */
} sonar_smear;
sonar_smear sonar_focus_smear(const sonar_search *s, const sonar_local_maximum *a,
                              const sonar_local_maximum *b);
/* The upper fifth of the spectrum at the peak's own range, on the stronger side of the peak. */
double sonar_focus_ripple(const sonar_search *s, const sonar_local_maximum *peak);
/* Without power_at: sets the range of a peak that has one, by the parabola in 1/r. */
void sonar_focus_interpolate(const sonar_search *s, sonar_local_maximum *peak);

/* ---- leak.c ---------------------------------------------------------------------------------- */

/* Sets most[] from the spectrum around the peak. */
void sonar_leak_limit(const sonar_search *s, sonar_local_maximum *peak);
/* Upper limit of what the array shows of one peak at another one, per unit of its power, with a
 * margin for noise. */
double sonar_leak_share(const sonar_search *s, const sonar_local_maximum *from,
                        const sonar_local_maximum *to);

/* ---- rounds.c: the powers that peaks need ---------------------------------------------------- */

/* Points that one peak needs in a round. */
enum { SONAR_TASK_POINTS = 16 };

/* A peak between two lower directions. An end is open where the scan ends, because the power may
 * still rise beyond it. */
typedef struct sonar_bracket {
    double low_deg, high_deg;
    bool low_open, high_open;
} sonar_bracket;

/* One side of a peak: the power is at least half the peak's at `in`, and less at `out`. */
typedef struct sonar_flank {
    double in_deg, out_deg, in_power, out_power;
} sonar_flank;

typedef enum sonar_walk { SONAR_WALKING = 0, SONAR_WALK_FOUND, SONAR_WALK_NONE } sonar_walk;

struct sonar_step;

/* The refinement of one peak. Each of its steps runs rounds until it has what it needs. */
typedef struct sonar_task {
    sonar_local_maximum *peak;
    const struct sonar_step *const *step; /* NULL at the end */
    int rounds;                           /* rounds of the current step */
    size_t n;                             /* points of the round */
    double az_deg[SONAR_TASK_POINTS], range_m[SONAR_TASK_POINTS];
    float power[SONAR_TASK_POINTS];
    size_t samples; /* all points of the last top */
    double sample_deg[SONAR_TOP_SAMPLES];
    float sample_power[SONAR_TOP_SAMPLES];
    /* of the steps */
    sonar_bracket whole, next; /* a top */
    size_t points;             /* points of the next bracket */
    double wing_deg;     /* predicted half width at half power, at which powers are computed too; 0:
                            unknown */
    bool hinted;         /* the bracket is around a contact of another spectrum */
    bool centred;        /* the grid's direction is in the middle of its points */
    double low, high;    /* 1/r of the range */
    sonar_flank side[2]; /* the width */
    sonar_walk walk[2];  /* walks along the flanks, off the grid */
    double walked_beams, stride_beams; /* distance walked, and the length of the next stride */
} sonar_task;

typedef struct sonar_step {
    /* False: the step needs no powers. */
    bool (*begin)(const sonar_search *s, sonar_task *t);
    void (*ask)(const sonar_search *s, sonar_task *t);
    /* Takes the round's powers from t->power; true at the end of the step. */
    bool (*take)(const sonar_search *s, sonar_task *t);
} sonar_step;

/* Runs the steps of all tasks. A round of all of them takes one call of power_at, or more if it has
 * too many points for one. Values that are not finite count as no power. */
sonar_code sonar_rounds(const sonar_search *s, sonar_task *task, size_t tasks);

/* ---- the steps: refine.c, focus.c, width.c --------------------------------------------------- */

/* Finds the top of a peak of the grid between its neighbours, at its own range. The peak is no
 * longer listed if the power still rises at the end of the scan. `again`: within half a beam width
 * of the peak's present place. */
extern const sonar_step sonar_step_top, sonar_step_again;
/* The range of a peak that has one. */
extern const sonar_step sonar_step_range;
/* Finds width_deg at the peak's own range, beginning with the points of its last top. */
extern const sonar_step sonar_step_width;

/* Moves the listed peaks to their tops, unless spec->tops has them; those with a range over both
 * range and direction. task has room for all listed peaks. */
sonar_code sonar_refine_tops(const sonar_search *s, sonar_task *task, sonar_local_maximum *peaks,
                             size_t n);
/* Sets width_deg of the listed peaks. */
sonar_code sonar_refine_widths(const sonar_search *s, sonar_task *task, sonar_local_maximum *peaks,
                               size_t n);

/* ---- sigma.c --------------------------------------------------------------------------------- */

/* The shape of a peak that has its top. */
sonar_peak_shape sonar_shape_of(const sonar_search *s, const sonar_task *task,
                                const sonar_detection *peak);

#endif
