/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Peaks between the directions of the grid: place, level and width by asking the beamformer. */
#include "detect/search.h"

static const double flat_share = 0.9977; /* 0.01 dB */
static const double narrowest_deg = 1e-5;

/* Few points a round: each costs as much as a direction of the scan, and MVDR's scan is dear. */
enum { ROUNDS = 9, TOP_POINTS = 8, FLANK_POINTS = 4 };
_Static_assert((int)TOP_POINTS <= (int)SONAR_DETECT_POINTS, "a call takes no more");
_Static_assert(2 * (int)FLANK_POINTS <= (int)SONAR_DETECT_POINTS, "a call takes no more");

/* A peak between two lower directions. An end is open where the scan stops: nothing says that the
 * power falls beyond it. */
typedef struct bracket {
    double low_deg, high_deg;
    bool low_open, high_open;
} bracket;

static float power_of(const sonar_search *s, ptrdiff_t i) {
    return s->power[sonar_scan_index(s->scan, i)];
}

/* ---- off the grid ---------------------------------------------------------------------------- */

static double within_cone(const sonar_scan *scan, double az_deg) {
    return scan->cone ? fmin(fmax(az_deg, 0.0), 180.0) : az_deg;
}

/* The lower neighbours of direction i, beyond its plateau; past the scan's end one step more. */
static bracket bracket_of(const sonar_search *s, size_t i) {
    const sonar_scan *scan = s->scan;
    ptrdiff_t low = (ptrdiff_t)i - 1, high = (ptrdiff_t)i + 1;
    while (sonar_scan_inside(scan, low) && power_of(s, low) == s->power[i])
        low--;
    while (sonar_scan_inside(scan, high) && power_of(s, high) == s->power[i])
        high++;
    bracket b = {.low_open = !sonar_scan_inside(scan, low),
                 .high_open = !sonar_scan_inside(scan, high)};
    const double *az = scan->az_deg;
    const size_t last = scan->count - 1;
    b.low_deg = b.low_open ? within_cone(scan, 2 * az[0] - az[1]) : sonar_scan_az(scan, low);
    b.high_deg =
        b.high_open ? within_cone(scan, 2 * az[last] - az[last - 1]) : sonar_scan_az(scan, high);
    /* Beyond endfire the cone's pattern is its own mirror image: nothing is missed there. */
    b.low_open = b.low_open && !(scan->cone && b.low_deg <= 0);
    b.high_open = b.high_open && !(scan->cone && b.high_deg >= 180);
    return b;
}

sonar_code sonar_refine_ask(const sonar_search *s, size_t n, const double *az_deg,
                            const double *range_m, float *power) {
    const sonar_code code = s->power_at(s->ctx, n, az_deg, range_m, power, s->err);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(power[i]))
            power[i] = 0;
    return code;
}

/* At the peak's range. */
static sonar_code ask(const sonar_search *s, const sonar_detection *peak, size_t n,
                      const double *az_deg, float *power) {
    double range_m[SONAR_DETECT_POINTS];
    for (size_t i = 0; i < n; i++)
        range_m[i] = peak->range_m;
    return sonar_refine_ask(s, n, az_deg, range_m, power);
}

static bool is_flat(const float *power, size_t n, size_t best) {
    const float least = (float)flat_share * power[best];
    return (best == 0 || power[best - 1] > least) && (best == n - 1 || power[best + 1] > least);
}

static void set_top(sonar_detection *peak, const double az_deg[3], const double power[3]) {
    const double level_db[3] = {sonar_decibel(power[0]), sonar_decibel(power[1]),
                                sonar_decibel(power[2])};
    double top_db;
    sonar_parabola(az_deg, level_db, &peak->az_deg, &top_db);
    peak->power = pow(10.0, top_db / 10.0);
}

/* The bracket after [az[0], az[last]], whose best point is not yet good enough. MVDR's needles are
 * sharp in the power, but its reciprocal a^H R^-1 a bends no faster than a beam: a parabola through
 * three points of it foretells the top to a small part of their distance. Where that was too bold,
 * the top lies at an end of the bracket, and the next one is wide again. */
static bracket next_bracket(const bracket *whole, const double *az, const float *power,
                            size_t best) {
    enum { LAST = TOP_POINTS - 1 };
    const double step = az[1] - az[0];
    if (best == 0 || best == LAST) {
        const double reach =
            (az[best] > whole->low_deg && az[best] < whole->high_deg ? 64 : 1) * step;
        return (bracket){.low_deg = fmax(az[best] - reach, whole->low_deg),
                         .high_deg = fmin(az[best] + reach, whole->high_deg)};
    }
    bracket next = {.low_deg = az[best - 1], .high_deg = az[best + 1]};
    if (!(power[best - 1] > 0 && power[best + 1] > 0))
        return next;
    const double low = 1 / (double)power[best - 1], middle = 1 / (double)power[best],
                 high = 1 / (double)power[best + 1];
    const double bend = low - 2 * middle + high;
    const double top = bend > 0 ? az[best] + 0.5 * step * (low - high) / bend : az[best];
    next.low_deg = fmax(next.low_deg, top - step / 8);
    next.high_deg = fmin(next.high_deg, top + step / 8);
    return next;
}

/* Shrinks the bracket around the highest of its points. *real is false if the power still rises
 * where the scan ends. */
static sonar_code refine(const sonar_search *s, bracket b, sonar_detection *peak, bool *real) {
    enum { LAST = TOP_POINTS - 1 };
    const bracket whole = b;
    double az[LAST + 1];
    float power[LAST + 1];
    size_t best = 0;
    *real = true;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i <= LAST; i++)
            az[i] = i < LAST ? b.low_deg + (b.high_deg - b.low_deg) * (double)i / LAST : b.high_deg;
        const sonar_code code = ask(s, peak, LAST + 1, az, power);
        if (code != SONAR_OK)
            return code;
        best = sonar_strongest(power, LAST + 1);
        if ((best == 0 && b.low_open) || (best == LAST && b.high_open))
            *real = false;
        const bool inside =
            (best > 0 && best < LAST) || az[best] <= whole.low_deg || az[best] >= whole.high_deg;
        if (!*real || (inside && is_flat(power, LAST + 1, best)) ||
            b.high_deg - b.low_deg < narrowest_deg)
            break;
        b = next_bracket(&whole, az, power, best);
    }
    peak->az_deg = az[best];
    peak->power = (double)power[best];
    if (best > 0 && best < LAST && power[best] > 0)
        set_top(peak, &az[best - 1],
                (const double[]){(double)power[best - 1], (double)power[best],
                                 (double)power[best + 1]});
    return SONAR_OK;
}

/* Without power_at: the grid's own three points, but for a plateau, whose middle is as good. */
static void interpolate(const sonar_search *s, size_t i, const bracket *b, sonar_detection *peak,
                        bool *real) {
    const ptrdiff_t at = (ptrdiff_t)i;
    *real = !b->low_open && !b->high_open;
    if (!*real || !sonar_scan_inside(s->scan, at - 1) || !sonar_scan_inside(s->scan, at + 1) ||
        power_of(s, at - 1) <= 0 || power_of(s, at + 1) <= 0)
        return;
    const double az[3] = {sonar_scan_az(s->scan, at - 1), sonar_scan_az(s->scan, at),
                          sonar_scan_az(s->scan, at + 1)};
    set_top(peak, az,
            (const double[]){(double)power_of(s, at - 1), (double)power_of(s, at),
                             (double)power_of(s, at + 1)});
}

sonar_code sonar_refine_peak(const sonar_search *s, sonar_local_maximum *peak) {
    const bracket b = bracket_of(s, peak->index);
    if (s->power_at)
        return refine(s, b, &peak->is, &peak->listed);
    interpolate(s, peak->index, &b, &peak->is, &peak->listed);
    return SONAR_OK;
}

sonar_code sonar_refine_again(const sonar_search *s, sonar_local_maximum *peak, double beams) {
    const double az = peak->is.az_deg;
    bool real;
    return refine(s,
                  (bracket){.low_deg = sonar_beams_on(s->scan, az, -beams),
                            .high_deg = sonar_beams_on(s->scan, az, beams)},
                  &peak->is, &real);
}

/* ---- -3 dB width ----------------------------------------------------------------------------- */

/* One side of a peak: the power is at least half the peak's at `in`, and less at `out`. */
typedef struct flank {
    double in_deg, out_deg, in_power, out_power;
} flank;

/* Walks the grid away from the peak. False if the power does not fall by half before the scan ends,
 * a turn is over, or it rises above the peak. */
static bool find_flank(const sonar_search *s, const float *power, const sonar_detection *peak,
                       ptrdiff_t way, flank *f) {
    const ptrdiff_t n = (ptrdiff_t)s->scan->count;
    const ptrdiff_t next = sonar_scan_first(s->scan, peak->az_deg);
    *f = (flank){.in_deg = peak->az_deg, .in_power = peak->power};
    ptrdiff_t i = way > 0 ? next : next - 1;
    for (ptrdiff_t steps = 0; steps < n && sonar_scan_inside(s->scan, i); steps++, i += way) {
        f->out_deg = sonar_scan_az(s->scan, i);
        f->out_power = (double)power[sonar_scan_index(s->scan, i)];
        if (f->out_power < 0.5 * peak->power)
            return true;
        if (f->out_power > 1.01 * peak->power)
            return false;
        f->in_deg = f->out_deg;
        f->in_power = f->out_power;
    }
    return false;
}

/* A flank on its way away from the peak, off the grid. */
typedef enum walk { WALKING, FOUND, NONE } walk;

static walk step_out(const sonar_detection *peak, size_t n, const double *az_deg,
                     const float *power, flank *f) {
    for (size_t i = 0; i < n; i++) {
        f->out_deg = az_deg[i];
        f->out_power = (double)power[i];
        if (f->out_power < 0.5 * peak->power)
            return FOUND;
        if (f->out_power > 1.01 * peak->power || fabs(f->out_deg - peak->az_deg) >= 180)
            return NONE;
        f->in_deg = f->out_deg;
        f->in_power = f->out_power;
    }
    return WALKING;
}

/* The same as find_flank to both sides, for a peak on a range of its own, which no grid shows: in
 * steps of a quarter of a beam width that double from call to call, since a planar array's beam may
 * be many times the width it has in its widest direction. */
static sonar_code walk_flanks(const sonar_search *s, const sonar_detection *peak, flank side[2],
                              bool *found) {
    enum { CALLS = 8, POINTS = SONAR_DETECT_POINTS / 2 };
    double az[2 * POINTS], beams = 0, step = 0.25;
    float power[2 * POINTS];
    walk state[2] = {WALKING, WALKING};
    for (size_t k = 0; k < 2; k++)
        side[k] = (flank){.in_deg = peak->az_deg, .in_power = peak->power};
    for (int call = 0; call < CALLS; call++, beams += POINTS * step, step *= 2) {
        for (size_t i = 0; i < 2 * POINTS; i++)
            az[i] =
                sonar_beams_on(s->scan, peak->az_deg,
                               (i < POINTS ? -1 : 1) * (beams + step * (double)(i % POINTS + 1)));
        const sonar_code code = ask(s, peak, 2 * POINTS, az, power);
        if (code != SONAR_OK)
            return code;
        for (size_t k = 0; k < 2; k++)
            if (state[k] == WALKING)
                state[k] = step_out(peak, POINTS, az + k * POINTS, power + k * POINTS, &side[k]);
        if (state[0] != WALKING && state[1] != WALKING)
            break;
    }
    *found = state[0] == FOUND && state[1] == FOUND;
    return SONAR_OK;
}

static bool is_steep(const flank *f) {
    return f->out_power < 0.8 * f->in_power && fabs(f->out_deg - f->in_deg) > narrowest_deg;
}

/* Narrows a flank to the two of its new points between which the power falls under half. */
static void narrow(flank *f, const double *az_deg, const float *power, double half) {
    for (size_t i = 0; i < FLANK_POINTS; i++) {
        if ((double)power[i] < half) {
            f->out_deg = az_deg[i];
            f->out_power = (double)power[i];
            return;
        }
        f->in_deg = az_deg[i];
        f->in_power = (double)power[i];
    }
}

static sonar_code narrow_both(const sonar_search *s, const sonar_detection *peak, flank side[2]) {
    const double half = 0.5 * peak->power;
    double az[2 * FLANK_POINTS];
    float power[2 * FLANK_POINTS];
    for (int round = 0; round < ROUNDS && (is_steep(&side[0]) || is_steep(&side[1])); round++) {
        for (size_t i = 0; i < 2 * FLANK_POINTS; i++) {
            const flank *f = &side[i / FLANK_POINTS];
            const double share = (double)(i % FLANK_POINTS + 1) / (FLANK_POINTS + 1);
            az[i] = f->in_deg + share * (f->out_deg - f->in_deg);
        }
        const sonar_code code = ask(s, peak, 2 * FLANK_POINTS, az, power);
        if (code != SONAR_OK)
            return code;
        for (size_t k = 0; k < 2; k++)
            narrow(&side[k], az + k * FLANK_POINTS, power + k * FLANK_POINTS, half);
    }
    return SONAR_OK;
}

/* Where the flank passes half the power, linear in dB. */
static double crossing(const flank *f, double half) {
    const double in_db = sonar_decibel(f->in_power), out_db = sonar_decibel(f->out_power);
    const double share = in_db > out_db ? (in_db - sonar_decibel(half)) / (in_db - out_db) : 0.5;
    return f->in_deg + share * (f->out_deg - f->in_deg);
}

sonar_code sonar_refine_width(const sonar_search *s, sonar_local_maximum *peak) {
    flank side[2];
    bool found;
    sonar_code code = SONAR_OK;
    sonar_detection *is = &peak->is;
    is->width_deg = NAN;
    if (isfinite(is->range_m) && s->power_at) {
        code = walk_flanks(s, is, side, &found);
    } else {
        const float *power = isfinite(is->range_m) ? s->power : s->far_power;
        found = find_flank(s, power, is, -1, &side[0]) && find_flank(s, power, is, 1, &side[1]);
    }
    if (code == SONAR_OK && found && s->power_at)
        code = narrow_both(s, is, side);
    if (code == SONAR_OK && found)
        is->width_deg = crossing(&side[1], 0.5 * is->power) - crossing(&side[0], 0.5 * is->power);
    return code;
}
