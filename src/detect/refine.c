/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Refines peaks between the directions of the grid: their place and level, from powers that the
 * beamformer computes there. */
#include "detect/search.h"

#include "core/core.h"

#include <string.h>

/* A top between points that are not lower than this share of the highest is flat: 0.1 dB, within
 * which a parabola gives a beam's top to 0.001 dB, and 0.5 dB for the reciprocals of a needle,
 * which give its top to 0.002 dB. */
static const double flat_beam = 0.977, flat_needle = 0.9;
static const double narrowest_deg = 1e-5;

/* Points of a bracket around a predicted top, of a bracket after a wrong prediction, and of a whole
 * bracket. */
enum { ROUNDS = 9, PREDICTED_POINTS = 4, RETRY_POINTS = 8, MOST_POINTS = SONAR_TASK_POINTS };
/* Points on either side at the predicted half width at half power: 0.8 times it for a beam, 1 time
 * for a narrow peak. */
enum { WINGS = 2 };
static const double beam_wings[WINGS] = {0.7, 0.9}, needle_wings[WINGS] = {0.85, 1.15};
_Static_assert(RETRY_POINTS + 2 * WINGS <= SONAR_TASK_POINTS, "a round takes no more");
static const double flat_beams = 0.05; /* upper limit for broad, uneven peaks */
/* The grid's three points predict a top if they are not farther apart than this. */
static const double predicted_beams = 0.9;
static const double spacing_beams =
    0.25; /* spacing in a whole bracket, as far as the points suffice */

static float power_of(const sonar_search *s, ptrdiff_t i) {
    return s->power[sonar_scan_index(s->scan, i)];
}

/* ---- where to look --------------------------------------------------------------------------- */

static double within_cone(const sonar_scan *scan, double az_deg) {
    return scan->cone ? fmin(fmax(az_deg, 0.0), 180.0) : az_deg;
}

/* The lower neighbours of direction i, beyond its plateau. At an end of the scan the bracket
 * extends one step beyond it. */
static sonar_bracket bracket_of(const sonar_search *s, size_t i) {
    const sonar_scan *scan = s->scan;
    ptrdiff_t low = (ptrdiff_t)i - 1, high = (ptrdiff_t)i + 1;
    while (sonar_scan_inside(scan, low) && power_of(s, low) == s->power[i])
        low--;
    while (sonar_scan_inside(scan, high) && power_of(s, high) == s->power[i])
        high++;
    sonar_bracket b = {.low_open = !sonar_scan_inside(scan, low),
                       .high_open = !sonar_scan_inside(scan, high)};
    const double *az = scan->az_deg;
    const size_t last = scan->count - 1;
    b.low_deg = b.low_open ? within_cone(scan, 2 * az[0] - az[1]) : sonar_scan_az(scan, low);
    b.high_deg =
        b.high_open ? within_cone(scan, 2 * az[last] - az[last - 1]) : sonar_scan_az(scan, high);
    /* beyond endfire the cone's pattern is its own mirror image, so nothing is missed there */
    b.low_open = b.low_open && !(scan->cone && b.low_deg <= 0);
    b.high_open = b.high_open && !(scan->cone && b.high_deg >= 180);
    return b;
}

static void keep_within(const sonar_bracket *whole, sonar_bracket *b) {
    b->low_deg = fmax(b->low_deg, whole->low_deg);
    b->high_deg = fmin(b->high_deg, whole->high_deg);
}

/* The lowest place of the parabola through three reciprocals of powers, from x[0] to x[2]. */
typedef struct dip {
    double at, lowest, bend; /* bend <= 0: there is none, and it is the middle point */
} dip;

static dip dip_of(const double x[3], const double power[3]) {
    const double q = 1 / power[1], a = x[0] - x[1], b = x[2] - x[1];
    const sonar_bow bow = sonar_bow_through(a, 1 / power[0] - q, b, 1 / power[2] - q);
    if (!(bow.bend > 0))
        return (dip){x[1], q, bow.bend};
    const double t = fmin(fmax(-bow.slope / (2 * bow.bend), a), b);
    return (dip){x[1] + t, q + (bow.bend * t + bow.slope) * t, bow.bend};
}

/* The bracket around the top that three points predict, the middle one the highest. The power of an
 * MVDR peak is sharp, but its reciprocal a^H R^-1 a varies no faster than a beam, and the
 * reciprocal of a beam's power varies slowly near its top. The parabola through three reciprocals
 * therefore misses the top by a part of their distance that falls with the square of the distance.
 * The bracket is as wide as this error plus a tenth of the peak's half width at half power, within
 * which the top is flat enough. */
static sonar_bracket predict_top(double beam_deg, const double az[3], const double power[3],
                                 double *half_deg) {
    const double step = (az[2] - az[0]) / 2;
    const dip found = dip_of(az, power);
    *half_deg = 0;
    if (!(found.bend > 0))
        return (sonar_bracket){.low_deg = az[0], .high_deg = az[2]};
    const double missed = step * fmin(1.0 / 8, 2 * (step / beam_deg) * (step / beam_deg));
    *half_deg = sqrt(fmax(found.lowest, 0) / found.bend);
    const double flat = fmin(0.1 * *half_deg, flat_beams * beam_deg);
    const double half = fmin(fmax(missed, flat), step / 2);
    return (sonar_bracket){.low_deg = fmax(found.at - half, az[0]),
                           .high_deg = fmin(found.at + half, az[2])};
}

/* One beam width in degrees there. */
static double beam_at(const sonar_search *s, double az_deg) {
    const double beam =
        fabs(sonar_beams_on(s->scan, az_deg, 0.5) - sonar_beams_on(s->scan, az_deg, -0.5));
    return fmax(beam, narrowest_deg);
}

/* ---- a top of the grid ----------------------------------------------------------------------- */

static size_t points_of(const sonar_search *s, const sonar_bracket *b) {
    const double middle = (b->low_deg + b->high_deg) / 2;
    const double beams = (b->high_deg - b->low_deg) / beam_at(s, middle);
    const double points = ceil(beams / spacing_beams) + 1;
    return (size_t)fmin(fmax(points, RETRY_POINTS), MOST_POINTS);
}

/* True if a direction beside it is stronger: the peak was begun at another spectrum's contact. */
static bool is_shoulder(const sonar_search *s, ptrdiff_t i) {
    return (sonar_scan_inside(s->scan, i - 1) && power_of(s, i - 1) > power_of(s, i)) ||
           (sonar_scan_inside(s->scan, i + 1) && power_of(s, i + 1) > power_of(s, i));
}

/* Begins at another spectrum's contact, if there is one between the ends of the bracket. */
static bool find_hint(const sonar_search *s, sonar_task *t) {
    const sonar_bracket *whole = &t->whole;
    if (s->spec->tops && !is_shoulder(s, (ptrdiff_t)t->peak->index))
        return false;
    const double middle = (whole->low_deg + whole->high_deg) / 2;
    for (size_t i = 0; i < s->spec->hints; i++) {
        const sonar_detection *hint = &s->spec->hint[i];
        const double off =
            s->scan->cone ? hint->az_deg - middle : remainder(hint->az_deg - middle, 360.0);
        const double az = middle + off;
        if (fabs(off) >= (whole->high_deg - whole->low_deg) / 2)
            continue;
        t->next = (sonar_bracket){.low_deg = sonar_beams_on(s->scan, az, -flat_beams),
                                  .high_deg = sonar_beams_on(s->scan, az, flat_beams)};
        keep_within(whole, &t->next);
        t->points = RETRY_POINTS;
        return true;
    }
    return false;
}

static void remember(sonar_task *t, double az_deg, float power) {
    if (t->samples < SONAR_TOP_SAMPLES) {
        t->sample_deg[t->samples] = az_deg;
        t->sample_power[t->samples++] = power;
    }
}

/* The first round is at the place of a known contact, or at the top that the grid's own three
 * points predict if they are near enough. */
static bool begin_top(const sonar_search *s, sonar_task *t) {
    const size_t i = t->peak->index;
    const double az = s->scan->az_deg[i], beam_deg = beam_at(s, az);
    t->samples = 0;
    t->whole = t->next = bracket_of(s, i);
    t->points = points_of(s, &t->whole);
    t->wing_deg = 0;
    t->centred = false;
    remember(t, az, s->power[i]);
    t->hinted = find_hint(s, t);
    if (t->hinted)
        return true;
    const ptrdiff_t low = (ptrdiff_t)i - 1, high = (ptrdiff_t)i + 1;
    if (!sonar_scan_inside(s->scan, low) || !sonar_scan_inside(s->scan, high) ||
        t->whole.high_deg - t->whole.low_deg > predicted_beams * beam_deg ||
        !(power_of(s, low) > 0) || !(power_of(s, high) > 0)) {
        t->centred = true;
        return true;
    }
    remember(t, sonar_scan_az(s->scan, low), power_of(s, low));
    remember(t, sonar_scan_az(s->scan, high), power_of(s, high));
    t->next = predict_top(
        beam_deg, (const double[]){sonar_scan_az(s->scan, low), az, sonar_scan_az(s->scan, high)},
        (const double[]){(double)power_of(s, low), (double)s->power[i], (double)power_of(s, high)},
        &t->wing_deg);
    t->points = PREDICTED_POINTS;
    return true;
}

/* Begins around the peak's present place. */
static bool begin_again(const sonar_search *s, sonar_task *t) {
    const double az = t->peak->is.az_deg, whole = 0.5, first = 0.15;
    t->samples = 0;
    t->hinted = t->centred = false;
    t->wing_deg = 0;
    t->whole = (sonar_bracket){.low_deg = sonar_beams_on(s->scan, az, -whole),
                               .high_deg = sonar_beams_on(s->scan, az, whole)};
    t->next = (sonar_bracket){.low_deg = sonar_beams_on(s->scan, az, -first),
                              .high_deg = sonar_beams_on(s->scan, az, first)};
    t->points = RETRY_POINTS;
    return t->peak->listed;
}

/* A narrow peak may show at the grid's direction alone, so that direction is one of the points of a
 * whole bracket. */
static double point_at(const sonar_search *s, const sonar_task *t, size_t i) {
    const double low = t->next.low_deg, high = t->next.high_deg;
    const size_t last = t->points - 1, middle = last / 2;
    const double az = fmin(fmax(s->scan->az_deg[t->peak->index], low), high);
    if (!t->centred)
        return i < last ? low + (high - low) * (double)i / (double)last : high;
    if (i <= middle)
        return low + (az - low) * (double)i / (double)middle;
    return i < last ? az + (high - az) * (double)(i - middle) / (double)(last - middle) : high;
}

static void ask_top(const sonar_search *s, sonar_task *t) {
    const double low = t->next.low_deg, high = t->next.high_deg;
    t->n = t->points;
    for (size_t i = 0; i < t->n; i++) {
        t->az_deg[i] = point_at(s, t, i);
        t->range_m[i] = t->peak->is.range_m;
    }
    const double *wings = s->sidelobes ? beam_wings : needle_wings;
    for (size_t i = 0; i < 2 * WINGS && t->wing_deg > 0; i++) {
        const double off_deg = (i % 2 ? 1 : -1) * wings[i / 2] * t->wing_deg;
        t->az_deg[t->n] = within_cone(s->scan, (low + high) / 2 + off_deg);
        t->range_m[t->n++] = t->peak->is.range_m;
    }
}

/* ---- the highest sample ---------------------------------------------------------------------- */

/* The highest sample of the bracket, in the middle, and the nearest ones below and above it. */
typedef struct summit {
    double az[3], power[3];
    bool below, above; /* there is such a sample */
} summit;

static void consider(summit *top, double az, double power) {
    const size_t side = az < top->az[1] ? 0 : 2;
    const double apart = fabs(az - top->az[1]);
    bool *known = side ? &top->above : &top->below;
    if (apart < 0.1 * narrowest_deg /* the same place */ ||
        (*known && apart >= fabs(top->az[side] - top->az[1])))
        return;
    *known = true;
    top->az[side] = az;
    top->power[side] = power;
}

static summit summit_of(const sonar_task *t) {
    summit top = {.power[1] = -1};
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < t->samples; i++) {
            const double az = t->sample_deg[i], power = (double)t->sample_power[i];
            if (az < t->whole.low_deg || az > t->whole.high_deg) /* a wing */
                continue;
            if (pass == 1)
                consider(&top, az, power);
            else if (power > top.power[1])
                top.az[1] = az, top.power[1] = power;
        }
    return top;
}

static bool is_flat(const sonar_search *s, const summit *top) {
    const double least = (s->adaptive ? flat_needle : flat_beam) * top->power[1];
    return (!top->below || top->power[0] > least) && (!top->above || top->power[2] > least);
}

/* The vertex of the parabola through three powers in dB. */
static void find_beam(const double x[3], const double power[3], double *at, double *top) {
    double level_db[3], top_db;
    for (size_t i = 0; i < 3; i++)
        level_db[i] = sonar_decibel(power[i]);
    sonar_parabola(x, level_db, at, &top_db);
    *top = pow(10.0, top_db / 10.0);
}

/* The same of the reciprocals of a needle, which vary no faster than a beam. */
static void find_needle(const double x[3], const double power[3], double *at, double *top) {
    const dip found = dip_of(x, power);
    *at = found.lowest > 0 ? found.at : x[1];
    *top = found.lowest > 0 ? 1 / found.lowest : power[1];
}

/* Sets the top by a parabola. On a cone the parabola is along the cosine, in which a beam is
 * symmetric near the axis. */
static void set_top(const sonar_scan *scan, bool needle, sonar_detection *peak, const summit *top) {
    double x[3], at;
    peak->az_deg = top->az[1];
    peak->power = top->power[1];
    if (!top->below || !top->above || !(top->power[1] > 0))
        return;
    for (size_t i = 0; i < 3; i++)
        x[i] = scan->cone ? -cos(top->az[i] * SONAR_RADIANS) : top->az[i];
    if (needle && top->power[0] > 0 && top->power[2] > 0)
        find_needle(x, top->power, &at, &peak->power);
    else
        find_beam(x, top->power, &at, &peak->power);
    at = fmin(fmax(at, x[0]), x[2]);
    peak->az_deg = scan->cone ? acos(fmin(fmax(-at, -1), 1)) / SONAR_RADIANS : at;
}

/* Searches the whole bracket of the grid, after another spectrum's contact was not this peak. */
static void widen(const sonar_search *s, sonar_task *t) {
    t->hinted = false;
    t->centred = true;
    t->next = t->whole;
    t->points = points_of(s, &t->whole);
}

/* Chooses the next bracket if the summit is not known well enough. */
static void choose_next(const sonar_search *s, sonar_task *t, const summit *top) {
    t->points = RETRY_POINTS;
    t->wing_deg = 0;
    t->centred = t->hinted = false;
    if (top->below && top->above && top->power[0] > 0 && top->power[2] > 0) {
        t->next = predict_top(beam_at(s, top->az[1]), top->az, top->power, &t->wing_deg);
        t->points = PREDICTED_POINTS;
    } else {
        t->next = (sonar_bracket){.low_deg = top->below ? top->az[0] : t->whole.low_deg,
                                  .high_deg = top->above ? top->az[2] : t->whole.high_deg};
    }
    keep_within(&t->whole, &t->next);
}

/* Shrinks the bracket around the highest sample. */
static bool take_top(const sonar_search *s, sonar_task *t) {
    sonar_detection *is = &t->peak->is;
    const float grid = s->power[t->peak->index];
    const sonar_bracket asked = t->next;
    if (!(t->power[sonar_strongest(t->power, t->n)] >
          0)) { /* the grid's power alone does not suffice */
        widen(s, t);
        is->power = 0;
        return t->rounds == ROUNDS;
    }
    for (size_t i = 0; i < t->n; i++)
        remember(t, t->az_deg[i], t->power[i]);
    const summit top = summit_of(t);
    const bool low_end = top.az[1] <= t->whole.low_deg, high_end = top.az[1] >= t->whole.high_deg;
    const bool enclosed = (top.below || low_end) && (top.above || high_end);
    const bool narrow = top.below && top.above && top.az[2] - top.az[0] < narrowest_deg;
    if (t->hinted && (top.az[1] <= asked.low_deg || top.az[1] >= asked.high_deg)) {
        widen(s, t);
        return false;
    }
    if ((low_end && t->whole.low_open) || (high_end && t->whole.high_open)) {
        t->peak->listed = false;
    } else if (!(enclosed && is_flat(s, &top)) && !narrow && t->rounds < ROUNDS &&
               t->samples < SONAR_TOP_SAMPLES) {
        choose_next(s, t, &top);
        return false;
    }
    set_top(s->scan, s->adaptive, is, &top);
    if (*t->step == &sonar_step_top && t->peak->listed && is->power > 0 &&
        is->power < 0.99 * (double)grid) {
        /* the peak is narrower than the spacing of all points */
        is->az_deg = s->scan->az_deg[t->peak->index];
        is->power = (double)grid;
    }
    return true;
}

const sonar_step sonar_step_top = {begin_top, ask_top, take_top};
const sonar_step sonar_step_again = {begin_again, ask_top, take_top};

/* ---- all peaks ------------------------------------------------------------------------------- */

/* Without power_at: a parabola through the grid's three points; for a plateau, its middle. */
static void interpolate(const sonar_search *s, sonar_local_maximum *peak) {
    const sonar_bracket b = bracket_of(s, peak->index);
    const ptrdiff_t at = (ptrdiff_t)peak->index;
    if (isfinite(peak->is.range_m))
        sonar_focus_interpolate(s, peak);
    peak->listed = !b.low_open && !b.high_open;
    if (!peak->listed || !sonar_scan_inside(s->scan, at - 1) ||
        !sonar_scan_inside(s->scan, at + 1) || power_of(s, at - 1) <= 0 || power_of(s, at + 1) <= 0)
        return;
    summit top = {.below = true, .above = true};
    for (ptrdiff_t i = 0; i < 3; i++) {
        top.az[i] = sonar_scan_az(s->scan, at - 1 + i);
        top.power[i] = (double)power_of(s, at - 1 + i);
    }
    set_top(s->scan, false, &peak->is, &top);
}

/* Range and direction are almost independent, so two alternations reach the maximum. */
static const sonar_step *const no_steps[] = {NULL};
static const sonar_step *const far_steps[] = {&sonar_step_top, NULL};
static const sonar_step *const near_steps[] = {&sonar_step_top,   &sonar_step_range,
                                               &sonar_step_again, &sonar_step_range,
                                               &sonar_step_again, NULL};

/* Takes a top that is known. */
static bool recall(const sonar_search *s, sonar_task *t) {
    const sonar_tops *tops = s->spec->tops;
    for (size_t i = 0; tops && i < tops->count; i++) {
        const sonar_top *top = &tops->top[i];
        if (top->index != t->peak->index)
            continue;
        t->peak->is.az_deg = top->az_deg;
        t->peak->is.power = top->power;
        t->peak->listed = top->inside;
        t->samples = top->samples;
        memcpy(t->sample_deg, top->sample_deg, top->samples * sizeof *top->sample_deg);
        memcpy(t->sample_power, top->sample_power, top->samples * sizeof *top->sample_power);
        return true;
    }
    return false;
}

sonar_code sonar_refine_tops(const sonar_search *s, sonar_task *task, sonar_local_maximum *peaks,
                             size_t n) {
    size_t tasks = 0;
    for (size_t k = 0; k < n; k++) {
        if (!peaks[k].listed)
            continue;
        peaks[k].task = tasks;
        sonar_task *t = &task[tasks++];
        t->samples = 0;
        t->peak = &peaks[k];
        t->step = recall(s, t) ? no_steps : isfinite(peaks[k].is.range_m) ? near_steps : far_steps;
        if (!s->power_at)
            interpolate(s, &peaks[k]);
    }
    return s->power_at ? sonar_rounds(s, task, tasks) : SONAR_OK;
}
