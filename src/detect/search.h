/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The state of one search for peaks, and what the files of this folder offer each other. */
#ifndef SONAR_DETECT_SEARCH_H
#define SONAR_DETECT_SEARCH_H

#include "detect/detect.h"

#include "detect/angle.h"
#include "detect/pattern.h"

#define SONAR_FIRST_SIDELOBE_BEAMS 1.614

/* A local maximum; those found so far are stronger than those still to be judged. While the search
 * lasts, is.range_m is the range it is focused on, INFINITY for the far field. */
typedef struct sonar_local_maximum {
    sonar_detection is;
    size_t index; /* direction on the grid */
    size_t range; /* index into near->range_m; near->ranges: the far field */
    bool listed;  /* otherwise it counts for its side lobes only: outside the scan, or too near a
                     stronger one */
    double most[SONAR_PATTERN_PARTS]; /* share of its power that a part of the band can have */
    size_t task;                      /* of its refinement, where it has one */
} sonar_local_maximum;

typedef struct sonar_search {
    const sonar_detect_spec *spec;
    const sonar_scan *scan;
    const float *power;          /* [direction] each at its strongest range */
    const float *far_power;      /* [direction] */
    const sonar_nearfield *near; /* or NULL */
    float *scratch;              /* [direction] */
    bool sidelobes;              /* the rule applies */
    bool adaptive;               /* MVDR's peaks */
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
/* Without power_at: the range of a peak that has one by the parabola in 1/r. */
void sonar_focus_interpolate(const sonar_search *s, sonar_local_maximum *peak);

/* ---- leak.c ---------------------------------------------------------------------------------- */

/* Sets most[] from the spectrum around the peak. */
void sonar_leak_limit(const sonar_search *s, sonar_local_maximum *peak);
/* The most that the array shows of one peak at another one, per unit of its power, with a margin
 * for noise. */
double sonar_leak_share(const sonar_search *s, const sonar_local_maximum *from,
                        const sonar_local_maximum *to);

/* ---- rounds.c: what peaks ask of the beamformer, side by side -------------------------------- */

/* Points that one peak asks for in a round, and those that it remembers. */
enum { SONAR_TASK_POINTS = 16, SONAR_TASK_SAMPLES = 96 };

/* A peak between two lower directions. An end is open where the scan stops: nothing says that the
 * power falls beyond it. */
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

/* The refinement of one peak. Each of its steps asks round after round until it knows enough. */
typedef struct sonar_task {
    sonar_local_maximum *peak;
    const struct sonar_step *const *step; /* NULL at the end */
    int rounds;                           /* of the step so far */
    size_t n;                             /* points of the round */
    double az_deg[SONAR_TASK_POINTS], range_m[SONAR_TASK_POINTS];
    float power[SONAR_TASK_POINTS];
    size_t samples; /* all that was asked for the last top */
    double sample_deg[SONAR_TASK_SAMPLES];
    float sample_power[SONAR_TASK_SAMPLES];
    /* of the steps */
    sonar_bracket whole, next; /* a top */
    size_t points;             /* of the next bracket */
    double wing_deg;  /* foretold half width at half the power, whose flanks are asked for, too; 0:
                         not  known */
    bool hinted;      /* it is where another spectrum has a contact */
    bool centred;     /* the grid's direction is in the middle of its points */
    double low, high; /* 1/r */
    sonar_flank side[2];               /* the width */
    sonar_walk walk[2];                /* a flank's way off the grid */
    double walked_beams, stride_beams; /* how far they are */
} sonar_task;

typedef struct sonar_step {
    /* False: the step has nothing to ask. */
    bool (*begin)(const sonar_search *s, sonar_task *t);
    void (*ask)(const sonar_search *s, sonar_task *t);
    /* From t->power; true at the end of the step. */
    bool (*take)(const sonar_search *s, sonar_task *t);
} sonar_step;

/* Goes through the steps of all tasks. A round of all of them is one call of power_at, as far as
 * its points reach. What is not finite counts as no power. */
sonar_code sonar_rounds(const sonar_search *s, sonar_task *task, size_t tasks);

/* ---- the steps: refine.c, focus.c, width.c --------------------------------------------------- */

/* The top of a peak of the grid between its neighbours, on its own range; no longer listed if the
 * power still rises where the scan ends. Then: within half a beam width of where the peak is. */
extern const sonar_step sonar_step_top, sonar_step_again;
/* The range of a peak that has one. */
extern const sonar_step sonar_step_range;
/* width_deg, on the peak's own range, from what its last top has left. */
extern const sonar_step sonar_step_width;

/* Moves the listed peaks to their tops, those with a range over range and direction. task has room
 * for all that are listed. */
sonar_code sonar_refine_tops(const sonar_search *s, sonar_task *task, sonar_local_maximum *peaks,
                             size_t n);
/* Sets width_deg of the listed peaks. */
sonar_code sonar_refine_widths(const sonar_search *s, sonar_task *task, sonar_local_maximum *peaks,
                               size_t n);

#endif
