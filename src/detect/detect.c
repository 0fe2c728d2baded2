/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Peaks of a spectrum: found on the grid, refined between its directions, pruned of side lobes. */
#include "detect/detect.h"

#include "core/core.h"
#include "detect/angle.h"

#include <string.h>

static const double half_beam = 0.5;
/* A peak between two directions of the grid may stand this much higher than the grid says. */
static const double grid_loss_db = 3;
/* Noise riding on a side lobe. */
static const double leak_margin_db = 4;
static const double first_sidelobe_beams = 1.614;
/* A smear narrower than this changes nothing. */
static const double least_smear_beams = 0.5;
static const double smear_level = 1.5;
static const double flat_share = 0.9977; /* 0.01 dB */
static const double narrowest_deg = 1e-5;

/* Few points a round: each costs as much as a direction of the scan, and MVDR's scan is dear. */
enum { ROUNDS = 9, TOP_POINTS = 8, FLANK_POINTS = 4 };
_Static_assert((int)TOP_POINTS <= (int)SONAR_DETECT_POINTS, "a call takes no more");
_Static_assert(2 * (int)FLANK_POINTS <= (int)SONAR_DETECT_POINTS, "a call takes no more");

/* Local maxima stronger than what is still to be judged. */
typedef struct local_maximum {
    sonar_detection is;
    size_t index; /* direction on the grid */
    bool listed;  /* otherwise it only leaks: outside the scan, or too near a stronger one */
} local_maximum;

/* Every place of the list, and as many peaks again that only leak. */
enum { PEAKS_MOST = 2 * SONAR_DETECTIONS_MOST };

/* What the steps of one sonar_detect share. */
typedef struct search {
    const sonar_detect_spec *spec;
    const sonar_scan *scan;
    const float *power;
    const sonar_detect_focus *focus; /* or NULL */
    bool sidelobes;                  /* the rule applies */
    double threshold, separation_beams;
    sonar_power_at power_at;
    void *ctx;
    sonar_error *err;
} search;

/* A peak between two lower directions. An end is open where the scan stops: nothing says that the
 * power falls beyond it. */
typedef struct bracket {
    double low_deg, high_deg;
    bool low_open, high_open;
} bracket;

/* ---- peaks of the grid ----------------------------------------------------------------------- */

static bool believable(const float *power, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!(power[i] >= 0 && isfinite(power[i])))
            return false;
    return true;
}

static bool inside(const sonar_scan *scan, ptrdiff_t i) {
    const ptrdiff_t n = (ptrdiff_t)scan->count;
    return scan->wraps ? i >= -n && i < 2 * n : i >= 0 && i < n;
}

static float power_of(const search *s, ptrdiff_t i) {
    return s->power[sonar_scan_index(s->scan, i)];
}

/* Sets candidate[i] to the power of each local maximum over `least` times its background, in the
 * middle of a plateau, and to 0 elsewhere. Where everything is equal there is no maximum. */
static void mark_maxima(const search *s, const float *background, double least, float *candidate) {
    const ptrdiff_t n = (ptrdiff_t)s->scan->count;
    for (ptrdiff_t i = 0; i < n; i++)
        candidate[i] = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const float top = s->power[i];
        const bool rises = !inside(s->scan, i - 1) || power_of(s, i - 1) < top;
        ptrdiff_t end = i + 1;
        while (rises && inside(s->scan, end) && power_of(s, end) == top)
            end++;
        const bool falls = !inside(s->scan, end) || power_of(s, end) < top;
        const bool whole = !inside(s->scan, i - 1) && !inside(s->scan, end);
        const size_t middle = sonar_scan_index(s->scan, (i + end - 1) / 2);
        if (rises && falls && !whole && top > least * fmax(background[middle], FLT_MIN))
            candidate[middle] = top;
    }
}

/* ---- which peaks are contacts ---------------------------------------------------------------- */

/* Power that a peak may leak `beams` beam widths away, per unit of its own. */
static double leak(const sonar_detect_spec *spec, double beams) {
    const bool given = spec->sidelobe_db != 0;
    const double level_db = (given ? spec->sidelobe_db : 13.0) - leak_margin_db;
    const double falloff = given ? spec->sidelobe_falloff : 2.0;
    const double period = spec->sidelobe_period;
    const double x = period > 0 ? fabs(sin(M_PI * beams / period)) * period / M_PI : beams;
    return pow(10.0, -level_db / 10.0) * pow(fmin(1.0, first_sidelobe_beams / x), falloff);
}

/* Cosine between +axis and the direction in which the sensor `at_m` along the array sees a point.
 */
static double cosine_from(double az_deg, double inverse_range, double at_m) {
    const double c = cos(az_deg * SONAR_RADIANS), s = sin(az_deg * SONAR_RADIANS);
    const double x = c - at_m * inverse_range; /* the triangle in units of the range */
    return x / fmax(hypot(x, s), DBL_MIN);
}

/* How the source of a peak looks under the focus of another. */
typedef struct smear {
    double width;  /* beam widths to either side of its middle */
    double beyond; /* beam widths from its edge to the other peak, 0 inside */
} smear;

/* Each sensor sees source b and focus a in directions of its own; a lies inside the smear if some
 * sensor sees both in one. What is no line is taken as one across the look direction. */
static smear smear_between(const search *s, const local_maximum *a, const local_maximum *b) {
    if (!s->focus)
        return (smear){0, 0};
    const double from_a = s->focus->inverse_range[a->index];
    const double from_b = s->focus->inverse_range[b->index], half_m = s->spec->aperture_m / 2;
    const double turn = s->scan->cone ? 0 : 90 - b->is.az_deg;
    const double beam = s->scan->cone ? sonar_beam(s->scan) : sonar_beam(s->scan) * SONAR_RADIANS;
    double apart[2];
    for (int i = 0; i < 2; i++)
        apart[i] = (cosine_from(a->is.az_deg + turn, from_a, i ? half_m : -half_m) -
                    cosine_from(b->is.az_deg + turn, from_b, i ? half_m : -half_m)) /
                   beam;
    const bool inside = apart[0] * apart[1] <= 0;
    return (smear){.width = fabs(apart[0] - apart[1]) / 2,
                   .beyond = inside ? 0 : fmin(fabs(apart[0]), fabs(apart[1]))};
}

/* The same as leak of a source that is smeared. Inside, a chirp's spectrum (stationary phase, with
 * the ripple of its edges); outside, the aperture's end leaks as it does in focus. */
static double smeared_leak(const sonar_detect_spec *spec, double beams, double beyond) {
    const double inside = fmin(1.0, smear_level / beams);
    return beyond > first_sidelobe_beams ? fmin(inside, leak(spec, beyond)) : inside;
}

typedef enum verdict { SIDE_LOBE, TOO_NEAR, CONTACT } verdict;

/* Judges a peak beside the stronger ones. */
static verdict judge(const search *s, const local_maximum *peak, const local_maximum *stronger,
                     size_t n) {
    double leaked = 0;
    bool too_near = false;
    for (size_t i = 0; i < n; i++) {
        const double beams = sonar_beams_apart(s->scan, peak->is.az_deg, stronger[i].is.az_deg);
        const smear m = smear_between(s, peak, &stronger[i]);
        too_near = too_near || (stronger[i].listed && beams < s->separation_beams);
        leaked += stronger[i].is.power * (m.width > least_smear_beams
                                              ? smeared_leak(s->spec, beams, m.beyond)
                                              : leak(s->spec, beams));
    }
    if (s->sidelobes && peak->is.power <= leaked)
        return SIDE_LOBE;
    return too_near ? TOO_NEAR : CONTACT;
}

static size_t strongest(const float *value, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (value[i] > value[best])
            best = i;
    return best;
}

/* Takes the grid's peaks, strongest first, until spec->most are listed. Looks at no more than four
 * candidates a place, which bounds the time a noisy spectrum can take. */
static size_t select_peaks(const search *s, const float *background, float *candidate,
                           local_maximum *peaks) {
    size_t n = 0, listed = 0;
    for (size_t tried = 0; tried < 4 * s->spec->most && listed < s->spec->most; tried++) {
        const size_t i = strongest(candidate, s->scan->count);
        if (candidate[i] <= 0 || n == PEAKS_MOST)
            break;
        local_maximum peak = {.is = {.az_deg = s->scan->az_deg[i],
                                     .power = (double)candidate[i],
                                     .background = fmax((double)background[i], (double)FLT_MIN)},
                              .index = i};
        candidate[i] = 0;
        const verdict v = judge(s, &peak, peaks, n);
        peak.listed = v == CONTACT;
        if (v != SIDE_LOBE)
            peaks[n++] = peak;
        listed += v == CONTACT;
    }
    return n;
}

static void sort_by_power(local_maximum *peaks, size_t n) {
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j > 0 && peaks[j].is.power > peaks[j - 1].is.power; j--) {
            const local_maximum kept = peaks[j];
            peaks[j] = peaks[j - 1];
            peaks[j - 1] = kept;
        }
}

/* Refined powers may stand in another order than the grid's, and two maxima may have met: judges
 * once more and writes the contacts over the threshold. */
static size_t list_contacts(const search *s, local_maximum *peaks, size_t n,
                            sonar_detection *detections) {
    size_t listed = 0;
    sort_by_power(peaks, n);
    for (size_t i = 0; i < n; i++) {
        peaks[i].listed = peaks[i].listed &&
                          peaks[i].is.power > s->threshold * peaks[i].is.background &&
                          judge(s, &peaks[i], peaks, i) == CONTACT;
        if (peaks[i].listed)
            detections[listed++] = peaks[i].is;
    }
    return listed;
}

/* ---- off the grid ---------------------------------------------------------------------------- */

static double within_cone(const sonar_scan *scan, double az_deg) {
    return scan->cone ? fmin(fmax(az_deg, 0.0), 180.0) : az_deg;
}

/* The lower neighbours of direction i, beyond its plateau; past the scan's end one step more. */
static bracket bracket_of(const search *s, size_t i) {
    const sonar_scan *scan = s->scan;
    ptrdiff_t low = (ptrdiff_t)i - 1, high = (ptrdiff_t)i + 1;
    while (inside(scan, low) && power_of(s, low) == s->power[i])
        low--;
    while (inside(scan, high) && power_of(s, high) == s->power[i])
        high++;
    bracket b = {.low_open = !inside(scan, low), .high_open = !inside(scan, high)};
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

/* power_at, with what is not finite counting as nothing. */
static sonar_code ask(const search *s, size_t n, const double *az_deg, float *power) {
    const sonar_code code = s->power_at(s->ctx, n, az_deg, power, s->err);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(power[i]))
            power[i] = 0;
    return code;
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
static sonar_code refine(const search *s, bracket b, sonar_detection *peak, bool *real) {
    enum { LAST = TOP_POINTS - 1 };
    const bracket whole = b;
    double az[LAST + 1];
    float power[LAST + 1];
    size_t best = 0;
    *real = true;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i <= LAST; i++)
            az[i] = i < LAST ? b.low_deg + (b.high_deg - b.low_deg) * (double)i / LAST : b.high_deg;
        const sonar_code code = ask(s, LAST + 1, az, power);
        if (code != SONAR_OK)
            return code;
        best = strongest(power, LAST + 1);
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
static void interpolate(const search *s, size_t i, const bracket *b, sonar_detection *peak,
                        bool *real) {
    const ptrdiff_t at = (ptrdiff_t)i;
    *real = !b->low_open && !b->high_open;
    if (!*real || !inside(s->scan, at - 1) || !inside(s->scan, at + 1) ||
        power_of(s, at - 1) <= 0 || power_of(s, at + 1) <= 0)
        return;
    const double az[3] = {sonar_scan_az(s->scan, at - 1), sonar_scan_az(s->scan, at),
                          sonar_scan_az(s->scan, at + 1)};
    set_top(peak, az,
            (const double[]){(double)power_of(s, at - 1), (double)power_of(s, at),
                             (double)power_of(s, at + 1)});
}

/* ---- -3 dB width ----------------------------------------------------------------------------- */

/* One side of a peak: the power is at least half the peak's at `in`, and less at `out`. */
typedef struct flank {
    double in_deg, out_deg, in_power, out_power;
} flank;

/* Walks the grid away from the peak. False if the power does not fall by half before the scan ends,
 * a turn is over, or it rises above the peak. */
static bool find_flank(const search *s, const sonar_detection *peak, ptrdiff_t way, flank *f) {
    const ptrdiff_t n = (ptrdiff_t)s->scan->count;
    const ptrdiff_t next = sonar_scan_first(s->scan, peak->az_deg);
    *f = (flank){.in_deg = peak->az_deg, .in_power = peak->power};
    ptrdiff_t i = way > 0 ? next : next - 1;
    for (ptrdiff_t steps = 0; steps < n && inside(s->scan, i); steps++, i += way) {
        const double power = (double)power_of(s, i);
        f->out_deg = sonar_scan_az(s->scan, i);
        f->out_power = power;
        if (power < 0.5 * peak->power)
            return true;
        if (power > 1.01 * peak->power)
            return false;
        f->in_deg = f->out_deg;
        f->in_power = power;
    }
    return false;
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

static sonar_code narrow_both(const search *s, double half, flank side[2]) {
    double az[2 * FLANK_POINTS];
    float power[2 * FLANK_POINTS];
    for (int round = 0; round < ROUNDS && (is_steep(&side[0]) || is_steep(&side[1])); round++) {
        for (size_t i = 0; i < 2 * FLANK_POINTS; i++) {
            const flank *f = &side[i / FLANK_POINTS];
            const double share = (double)(i % FLANK_POINTS + 1) / (FLANK_POINTS + 1);
            az[i] = f->in_deg + share * (f->out_deg - f->in_deg);
        }
        const sonar_code code = ask(s, 2 * FLANK_POINTS, az, power);
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

static sonar_code measure_width(const search *s, sonar_detection *peak) {
    flank side[2];
    const double half = 0.5 * peak->power;
    peak->width_deg = NAN;
    if (!find_flank(s, peak, -1, &side[0]) || !find_flank(s, peak, 1, &side[1]))
        return SONAR_OK;
    const sonar_code code = s->power_at ? narrow_both(s, half, side) : SONAR_OK;
    peak->width_deg = crossing(&side[1], half) - crossing(&side[0], half);
    return code;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static double modulo_turn(double az_deg) {
    const double rest = fmod(az_deg, 360.0);
    const double turned = rest < 0 ? rest + 360.0 : rest;
    return turned >= 360.0 ? 0.0 : turned; /* -1e-15 + 360 rounds to 360 */
}

/* Angle in the horizontal plane from the axis to either side of a cone, NaN where they never meet.
 */
static double beside_axis(const sonar_scan *scan, double az_deg) {
    if (scan->axis_depression_deg == 0)
        return az_deg; /* to the last digit, at endfire too */
    const double cosine =
        cos(az_deg * SONAR_RADIANS) / cos(scan->axis_depression_deg * SONAR_RADIANS);
    if (!(fabs(cosine) <= 1 + sonar_beam(scan) / 2))
        return NAN;
    return acos(fmin(fmax(cosine, -1.0), 1.0)) / SONAR_RADIANS;
}

/* The direction whose cell the azimuth is in. */
static size_t cell_of(const sonar_scan *scan, double az_deg) {
    const ptrdiff_t next = sonar_scan_first(scan, az_deg);
    if (!scan->wraps && next <= 0)
        return 0;
    if (!scan->wraps && next >= (ptrdiff_t)scan->count)
        return scan->count - 1;
    const double below = az_deg - sonar_scan_az(scan, next - 1);
    return sonar_scan_index(scan, below < sonar_scan_az(scan, next) - az_deg ? next - 1 : next);
}

sonar_code sonar_detect_raise(const sonar_detect_spec *spec, float *power, float *scratch,
                              sonar_power_at power_at, void *ctx, sonar_error *err) {
    enum { MOST = 32 };
    const size_t n = spec->scan->count;
    const double prominent = 1.26; /* 1 dB */
    float *background = scratch, *grid = scratch + n, *candidate = scratch + 2 * n;
    if (n < 3 || !believable(power, n))
        return SONAR_OK;
    const search s = {.spec = spec,
                      .scan = spec->scan,
                      .power = grid,
                      .power_at = power_at,
                      .ctx = ctx,
                      .err = err};
    sonar_detect_background(spec->scan, power, background, grid);
    memcpy(grid, power, n * sizeof *grid);
    mark_maxima(&s, background, prominent, candidate);
    for (size_t k = 0; k < MOST; k++) {
        const size_t i = strongest(candidate, n);
        sonar_detection peak = {0};
        bool real;
        if (candidate[i] <= 0)
            break;
        candidate[i] = 0;
        const sonar_code code = refine(&s, bracket_of(&s, i), &peak, &real);
        if (code != SONAR_OK)
            return code;
        const size_t cell = cell_of(spec->scan, peak.az_deg);
        power[cell] = fmaxf(power[cell], (float)fmin(peak.power, (double)FLT_MAX));
    }
    return SONAR_OK;
}

void sonar_detect_bearing(const sonar_scan *scan, double az_deg, double heading_deg,
                          bool heading_known, double *bearing_deg, double *mirror_deg) {
    const double reference = heading_known ? heading_deg : 0.0;
    *mirror_deg = NAN;
    if (!scan->cone) {
        *bearing_deg = modulo_turn(reference + az_deg);
        return;
    }
    const double side_deg = beside_axis(scan, az_deg);
    *bearing_deg = modulo_turn(reference + scan->axis_az_deg + side_deg);
    *mirror_deg = modulo_turn(reference + scan->axis_az_deg - side_deg);
}

/* Moves the listed peaks off the grid. Those that rise out of the scan are listed no longer. */
static sonar_code refine_all(const search *s, local_maximum *peaks, size_t n) {
    for (size_t k = 0; k < n; k++) {
        if (!peaks[k].listed)
            continue;
        const bracket b = bracket_of(s, peaks[k].index);
        sonar_code code = SONAR_OK;
        if (s->power_at)
            code = refine(s, b, &peaks[k].is, &peaks[k].listed);
        else
            interpolate(s, peaks[k].index, &b, &peaks[k].is, &peaks[k].listed);
        if (code != SONAR_OK)
            return code;
    }
    return SONAR_OK;
}

static sonar_code complete(const search *s, sonar_detect_source source, sonar_detection *peak) {
    const sonar_code code = measure_width(s, peak);
    if (!s->scan->cone)
        peak->az_deg = modulo_turn(peak->az_deg);
    peak->source = source;
    peak->snr_db = 10.0 * log10(peak->power / peak->background);
    peak->range_m = NAN;
    peak->range_unresolved = false;
    sonar_detect_bearing(s->scan, peak->az_deg, s->spec->heading_deg, s->spec->heading_known,
                         &peak->bearing_deg, &peak->mirror_deg);
    return code;
}

sonar_code sonar_detect_focused(const sonar_detect_spec *spec, sonar_detect_source source,
                                const float *power, const sonar_detect_focus *focus, float *scratch,
                                sonar_power_at power_at, void *ctx, sonar_detection *detections,
                                size_t *count, sonar_error *err) {
    const size_t n = spec->scan->count;
    *count = 0;
    if (spec->most > SONAR_DETECTIONS_MOST)
        return sonar_fail(err, SONAR_EINVAL, "detect",
                          "at most %d detections can be listed, not %zu", SONAR_DETECTIONS_MOST,
                          spec->most);
    const float *far_power = focus ? focus->far_power : power;
    if (n == 0 || !believable(power, n) || !believable(far_power, n))
        return SONAR_OK;

    const double given = spec->min_separation_deg / sonar_beam_deg(spec->scan);
    const search s = {.spec = spec,
                      .scan = spec->scan,
                      .power = power,
                      .focus = focus,
                      .sidelobes = source == SONAR_FROM_CBF,
                      .threshold = pow(10.0, spec->threshold_db / 10.0),
                      .separation_beams = spec->min_separation_deg > 0 ? given : half_beam,
                      .power_at = power_at,
                      .ctx = ctx,
                      .err = err};
    float *background = scratch, *candidate = scratch + 2 * n;
    local_maximum peaks[PEAKS_MOST];
    sonar_detect_background(spec->scan, far_power, background, scratch + n);
    mark_maxima(&s, background, s.threshold * pow(10.0, -grid_loss_db / 10.0), candidate);
    const size_t found = select_peaks(&s, background, candidate, peaks);
    sonar_code code = refine_all(&s, peaks, found);
    if (code != SONAR_OK)
        return code;
    const size_t listed = list_contacts(&s, peaks, found, detections);
    for (size_t i = 0; i < listed && code == SONAR_OK; i++)
        code = complete(&s, source, &detections[i]);
    *count = code == SONAR_OK ? listed : 0;
    return code;
}

sonar_code sonar_detect(const sonar_detect_spec *spec, sonar_detect_source source,
                        const float *power, float *scratch, sonar_power_at power_at, void *ctx,
                        sonar_detection *detections, size_t *count, sonar_error *err) {
    return sonar_detect_focused(spec, source, power, NULL, scratch, power_at, ctx, detections,
                                count, err);
}
