/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Peaks of a spectrum of several ranges: the smear of a contact in another one's focus, and the
 * contact's own range. */
#include "detect/search.h"

/* A smear narrower than this changes nothing. */
static const double least_smear_beams = 0.5;
static const double smear_level = 1.5;
/* Cells around one direction: enough for a spectrum that is smooth within a beam width. */
enum { CELLS_A_BEAM = 8 };

/* ---- ranges ---------------------------------------------------------------------------------- */

static const float *row(const sonar_search *s, size_t range) {
    return s->near && range < s->near->ranges ? s->near->power + range * s->scan->count
                                              : s->far_power;
}

/* The far field's largest power within half a beam width of direction t. A near source has to
 * exceed it; otherwise the flank of a far source would look near. */
static float far_around(const sonar_search *s, size_t t) {
    const double az = s->scan->az_deg[t];
    const ptrdiff_t end = sonar_scan_first(s->scan, sonar_beams_on(s->scan, az, 0.5));
    const ptrdiff_t first = sonar_scan_first(s->scan, sonar_beams_on(s->scan, az, -0.5));
    const ptrdiff_t step = (end - first) / CELLS_A_BEAM + 1;
    float most = s->far_power[t];
    for (ptrdiff_t i = first; i < end; i += step)
        if (sonar_scan_inside(s->scan, i))
            most = fmaxf(most, s->far_power[sonar_scan_index(s->scan, i)]);
    return most;
}

static size_t strongest_range(const sonar_search *s, size_t t) {
    size_t best = 0;
    if (!s->near)
        return 0;
    for (size_t r = 1; r < s->near->ranges; r++)
        if (row(s, r)[t] > row(s, best)[t])
            best = r;
    const double power = (double)row(s, best)[t];
    const bool is_near = power > s->range_margin * (double)s->far_power[t] &&
                         power > s->range_margin * (double)far_around(s, t);
    return is_near ? best : s->near->ranges;
}

void sonar_focus_strongest(const sonar_search *s, float *power) {
    for (size_t t = 0; t < s->scan->count; t++)
        power[t] = row(s, strongest_range(s, t))[t];
}

void sonar_focus_find(const sonar_search *s, sonar_local_maximum *peak) {
    peak->range = strongest_range(s, peak->index);
    peak->is.range_m = INFINITY;
    if (!s->near || peak->range == s->near->ranges)
        return;
    peak->is.range_m = s->near->range_m[peak->range];
    peak->is.background = (double)sonar_background_at(
        s->spec->split, row(s, peak->range), peak->index, s->scratch, (float)peak->is.background);
    peak->is.background = fmax(peak->is.background, (double)FLT_MIN);
}

/* ---- smear ----------------------------------------------------------------------------------- */

/* Curvature of the wave front of a source at the peak's place, 1/m. */
static double curvature(const sonar_search *s, const sonar_detection *from) {
    if (!isfinite(from->range_m))
        return 0;
    const bool abeam = s->near->reference == SONAR_ABEAM;
    return (abeam ? sin(from->az_deg * SONAR_RADIANS) : 1) / from->range_m;
}

/* Cosine between +axis and the direction in which a sensor `at_m` along the array sees a point. */
static double cosine_from(double az_deg, double inverse_range, double at_m) {
    const double c = cos(az_deg * SONAR_RADIANS), s = sin(az_deg * SONAR_RADIANS);
    const double x = c - at_m * inverse_range; /* the triangle in units of the range */
    return x / fmax(hypot(x, s), DBL_MIN);
}

/* Beam widths between a focus and a source, as seen from the array's two ends. An array that is not
 * a line counts as a line across the look direction. */
static void apart_at_ends(const sonar_search *s, const sonar_detection *focus,
                          const sonar_detection *source, double apart[2]) {
    const double bent = curvature(s, focus), from = curvature(s, source);
    const double half_m = s->spec->aperture_m / 2, turn = s->scan->cone ? 0 : 90 - source->az_deg;
    const double beam =
        s->scan->cone ? sonar_beam_width(s->scan) : sonar_beam_width(s->scan) * SONAR_RADIANS;
    for (int i = 0; i < 2; i++)
        apart[i] = (cosine_from(focus->az_deg + turn, bent, i ? half_m : -half_m) -
                    cosine_from(source->az_deg + turn, from, i ? half_m : -half_m)) /
                   beam;
}

sonar_smear sonar_focus_smear(const sonar_search *s, const sonar_local_maximum *a,
                              const sonar_local_maximum *b) {
    double apart[2];
    if (!s->near)
        return (sonar_smear){.sharp = true};
    apart_at_ends(s, &a->is, &b->is, apart);
    if (fabs(apart[0] - apart[1]) / 2 <= least_smear_beams)
        return (sonar_smear){.sharp = true};
    const double beams = sonar_beams_apart(s->scan, a->is.az_deg, b->is.az_deg);
    /* a focus lies inside a source's smear if some sensor sees both in the same direction */
    const bool inside = apart[0] * apart[1] <= 0;
    return (sonar_smear){.beyond = inside ? 0 : fmin(fabs(apart[0]), fabs(apart[1])),
                         .share = fmin(1.0, smear_level / beams)};
}

double sonar_focus_ripple(const sonar_search *s, const sonar_local_maximum *peak) {
    return (double)sonar_background_ripple(s->spec->split, row(s, peak->range), peak->index,
                                           s->scratch);
}

/* ---- range ----------------------------------------------------------------------------------- */

/* 1/r of a range, 0 for the far field. */
static double inverse(const sonar_search *s, size_t range) {
    return range < s->near->ranges ? 1.0 / s->near->range_m[range] : 0.0;
}

/* A range and its neighbours as 1/r; the nearest range has no nearer neighbour. */
typedef struct bracket {
    double low, middle, high; /* 1/m */
    bool nearest;
} bracket;

static bracket bracket_of(const sonar_search *s, size_t range) {
    return (bracket){.low = inverse(s, range + 1),
                     .middle = inverse(s, range),
                     .high = inverse(s, range > 0 ? range - 1 : 0),
                     .nearest = range == 0};
}

/* True if the ranges around this one are too far apart to resolve it. */
static bool is_unresolved(const sonar_search *s, const bracket *b) {
    const double aperture_m = s->spec->aperture_m;
    const double coarsest = 7.0 * s->near->lambda_m / (aperture_m * aperture_m) * (1 + 1e-9);
    return b->nearest || !(fmax(b->middle - b->low, b->high - b->middle) <= coarsest);
}

static double level(const sonar_search *s, size_t range, size_t direction) {
    return sonar_decibel((double)row(s, range)[direction]);
}

void sonar_focus_interpolate(const sonar_search *s, sonar_local_maximum *peak) {
    const size_t range = peak->range, t = peak->index;
    const bracket b = bracket_of(s, range);
    peak->is.range_unresolved = is_unresolved(s, &b);
    if (b.nearest)
        return;
    const double x[3] = {b.low, b.middle, b.high};
    const double y[3] = {level(s, range + 1, t), level(s, range, t), level(s, range - 1, t)};
    double top, top_db;
    if (y[0] > y[1] || y[2] > y[1])
        return;
    sonar_parabola(x, y, &top, &top_db);
    if (top > 0)
        peak->is.range_m = 1.0 / top;
}

/* Two rounds of points within [low, high] of 1/r. Each round reduces the interval to that between
 * the neighbours of the highest point. */
enum { RANGE_POINTS = 8, RANGE_ROUNDS = 2, LAST = RANGE_POINTS - 1 };
_Static_assert((int)RANGE_POINTS <= (int)SONAR_TASK_POINTS, "a round takes no more");

static double inverse_at(const sonar_task *t, size_t i) {
    return t->low + (t->high - t->low) * (double)i / LAST;
}

static bool begin_range(const sonar_search *s, sonar_task *t) {
    const bracket b = bracket_of(s, t->peak->range);
    t->peak->is.range_unresolved = is_unresolved(s, &b);
    t->low = b.low;
    t->high = b.high;
    return t->peak->listed;
}

static void ask_range(const sonar_search *s, sonar_task *t) {
    (void)s;
    t->n = RANGE_POINTS;
    for (size_t i = 0; i < RANGE_POINTS; i++) {
        const double x = inverse_at(t, i);
        t->az_deg[i] = t->peak->is.az_deg;
        t->range_m[i] = x > 0 ? 1.0 / x : INFINITY;
    }
}

static bool take_range(const sonar_search *s, sonar_task *t) {
    (void)s;
    double x[RANGE_POINTS], top_db;
    for (size_t i = 0; i < RANGE_POINTS; i++)
        x[i] = inverse_at(t, i);
    const size_t best = sonar_strongest(t->power, RANGE_POINTS);
    double top = x[best];
    if (best > 0 && best < LAST)
        sonar_parabola(&x[best - 1],
                       (const double[]){sonar_decibel((double)t->power[best - 1]),
                                        sonar_decibel((double)t->power[best]),
                                        sonar_decibel((double)t->power[best + 1])},
                       &top, &top_db);
    if (top > 0)
        t->peak->is.range_m = 1.0 / top;
    t->low = x[best > 0 ? best - 1 : 0];
    t->high = x[best < LAST ? best + 1 : LAST];
    return t->rounds == RANGE_ROUNDS;
}

const sonar_step sonar_step_range = {begin_range, ask_range, take_range};
