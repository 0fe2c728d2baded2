/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Peaks of a spectrum: found on the grid, refined between its directions, without those that are
 * side lobes. */
#include "detect/search.h"

#include "core/core.h"
#include "manifold/bearings.h"
#include "manifold/manifold.h"

#include <float.h>
#include <string.h>

static const double half_beam = 0.5;
/* A peak between two directions of the grid may be higher than the grid shows by this much. */
static const double grid_loss_db = 3;
/* Half of a source's power, increased by the 4 dB margin for leaks. */
static const double image_share = 1.256;
/* Share of a contact's power that a bin steered beside a tone shows, and the accuracy of its
 * place. */
static const double beside_share = 0.1, beside_beams = 0.15;
/* rms deviation of the delays times c, divided by the wavelength: for one beam width on a line, and
 * for the loss of half of the power, exp(-(2 pi x)^2). */
static const double beam_rms = 0.256, most_rest = 0.1325;
static const double prominent = 1.26; /* 1 dB */
/* Margin over the spectrum's upper fifth, for the highest ripples of a smear. */
static const double ripple_margin_db = 5;

/* Twice the places in the list: half for peaks that are listed, half for peaks that only leak. */
enum { PEAKS_MOST = 2 * SONAR_DETECTIONS_MOST };

/* ---- peaks of the grid ----------------------------------------------------------------------- */

static bool believable(const float *power, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!(power[i] >= 0 && isfinite(power[i])))
            return false;
    return true;
}

static float power_of(const sonar_search *s, ptrdiff_t i) {
    return s->power[sonar_scan_index(s->scan, i)];
}

/* Sets candidate[i] to the power of each local maximum, in the middle of a plateau, and to 0
 * elsewhere. A constant spectrum has no maximum. */
static void mark_maxima(const sonar_search *s, float *candidate) {
    const ptrdiff_t n = (ptrdiff_t)s->scan->count;
    for (ptrdiff_t i = 0; i < n; i++)
        candidate[i] = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const float top = s->power[i];
        const bool rises = !sonar_scan_inside(s->scan, i - 1) || power_of(s, i - 1) < top;
        ptrdiff_t end = i + 1;
        while (rises && sonar_scan_inside(s->scan, end) && power_of(s, end) == top)
            end++;
        const bool falls = !sonar_scan_inside(s->scan, end) || power_of(s, end) < top;
        const bool whole = !sonar_scan_inside(s->scan, i - 1) && !sonar_scan_inside(s->scan, end);
        if (rises && falls && !whole)
            candidate[sonar_scan_index(s->scan, (i + end - 1) / 2)] = top;
    }
}

static bool exceeds(float power, double least, float background) {
    return (double)power > least * fmax((double)background, (double)FLT_MIN);
}

/* True if the bracket of a candidate contains the azimuth, which is in the cell of direction i. */
static bool is_covered(const sonar_search *s, const float *candidate, ptrdiff_t i, double az_deg) {
    const ptrdiff_t beside = az_deg < sonar_scan_az(s->scan, i) ? i - 1 : i + 1;
    return candidate[sonar_scan_index(s->scan, i)] > 0 ||
           candidate[sonar_scan_index(s->scan, beside)] > 0;
}

/* A narrow peak between two directions may show in the grid only as rising shoulders. The places of
 * the other spectrum's contacts are therefore candidates too, if the power there exceeds the
 * grid's. */
static sonar_code mark_hinted(const sonar_search *s, const float *background, double least,
                              float *candidate) {
    const sonar_scan *scan = s->scan;
    const double middle = (scan->az_deg[0] + scan->az_deg[scan->count - 1]) / 2;
    double az_deg[SONAR_DETECTIONS_MOST], far[SONAR_DETECTIONS_MOST];
    float power[SONAR_DETECTIONS_MOST];
    ptrdiff_t cell[SONAR_DETECTIONS_MOST];
    size_t n = 0;
    for (size_t k = 0; k < s->spec->hints && n < SONAR_DETECTIONS_MOST; k++) {
        const double az = s->spec->hint[k].az_deg;
        far[n] = INFINITY;
        az_deg[n] = scan->cone ? az : middle + remainder(az - middle, 360);
        cell[n] = (ptrdiff_t)sonar_scan_nearest(scan, az_deg[n]);
        n += sonar_scan_inside(scan, cell[n] - 1) && sonar_scan_inside(scan, cell[n] + 1) &&
             !is_covered(s, candidate, cell[n], az_deg[n]);
    }
    const sonar_code code = n ? s->power_at(s->ctx, n, az_deg, far, power, s->err) : SONAR_OK;
    for (size_t k = 0; k < n && code == SONAR_OK; k++) {
        const size_t i = sonar_scan_index(scan, cell[k]);
        const float around =
            fmaxf(s->power[i], fmaxf(power_of(s, cell[k] - 1), power_of(s, cell[k] + 1)));
        if (isfinite(power[k]) && power[k] > prominent * around &&
            exceeds(power[k], least, background[i]))
            candidate[i] = power[k];
    }
    return code;
}

/* ---- which peaks are listed ------------------------------------------------------------------ */

typedef enum verdict { SIDE_LOBE, TOO_NEAR, CONTACT, IMAGE } verdict;

/* The power that stronger peaks leak to a peak. */
typedef struct leaks {
    double power;
    bool image; /* the array can hardly distinguish it from one of them */
} leaks;

static leaks leaked(const sonar_search *s, const sonar_local_maximum *peak,
                    const sonar_local_maximum *stronger, size_t n) {
    double sharp = 0, smeared = 0;
    bool image = false;
    for (size_t i = 0; i < n; i++) {
        const double power = stronger[i].is.power, share = sonar_leak_share(s, &stronger[i], peak),
                     beams = sonar_beams_apart(s->scan, peak->is.az_deg, stronger[i].is.az_deg);
        const sonar_smear smear = sonar_focus_smear(s, peak, &stronger[i]);
        const bool inside = !smear.sharp && smear.beyond <= SONAR_FIRST_SIDELOBE_BEAMS;
        if (inside)
            smeared += power * fmax(smear.share, share);
        else
            sharp += power * share;
        image = image || (!inside && beams > SONAR_FIRST_SIDELOBE_BEAMS && stronger[i].listed &&
                          share >= image_share);
    }
    if (smeared > 0 && isfinite(peak->is.range_m))
        smeared = fmax(smeared, sonar_focus_ripple(s, peak) * pow(10.0, ripple_margin_db / 10.0));
    return (leaks){sharp + smeared, image};
}

static bool is_beside_on_cone(const sonar_search *s, double az_deg, double from_deg) {
    const double at = cos(az_deg * SONAR_RADIANS), from = cos(from_deg * SONAR_RADIANS);
    return fabs(at - from) <= s->spec->tone_reach * fmax(fabs(at), fabs(from)) +
                                  beside_beams * sonar_beam_width(s->scan);
}

/* u^T spread v: the product of the delays from two directions, mean over the sensors, times c^2. */
static double moment(const double spread_m2[9], const double u[3], const double v[3]) {
    double sum = 0;
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 3; j++)
            sum += u[i] * spread_m2[3 * i + j] * v[j];
    return sum;
}

/* Compares the delays from two directions, with the factor between them that makes them most
 * similar. */
static bool is_beside_anywhere(const sonar_search *s, double az_deg, double from_deg) {
    const double *spread_m2 = s->spec->spread_m2, lambda_m = s->spec->lambda_m;
    double at[3], from[3];
    sonar_scan_unit(s->scan, az_deg, at);
    sonar_scan_unit(s->scan, from_deg, from);
    const double own = fmax(moment(spread_m2, from, from), DBL_MIN),
                 both = moment(spread_m2, at, from), factor = both / own;
    const double rest_m2 = moment(spread_m2, at, at) - factor * both;
    const double beam_m = beam_rms * lambda_m, most_m = most_rest * lambda_m;
    return rest_m2 <= most_m * most_m &&
           fabs(factor - 1) * sqrt(own) <=
               s->spec->tone_reach * fmax(fabs(factor), 1) * sqrt(own) + beside_beams * beam_m;
}

/* True if a bin steered beside a tone can show the stronger contact in this place. */
static bool is_steered_beside(const sonar_search *s, const sonar_local_maximum *peak,
                              const sonar_local_maximum *stronger) {
    if (!s->adaptive || !(s->spec->tone_reach > 0) ||
        peak->is.power >= beside_share * stronger->is.power)
        return false;
    if (s->scan->cone)
        return is_beside_on_cone(s, peak->is.az_deg, stronger->is.az_deg);
    return s->spec->spread_m2 && is_beside_anywhere(s, peak->is.az_deg, stronger->is.az_deg);
}

/* Judges a peak against the stronger ones. */
static verdict judge(const sonar_search *s, const sonar_local_maximum *peak,
                     const sonar_local_maximum *stronger, size_t n) {
    const leaks leak = s->sidelobes ? leaked(s, peak, stronger, n) : (leaks){0};
    if (peak->is.power <= leak.power && !leak.image)
        return SIDE_LOBE;
    for (size_t i = 0; i < n; i++)
        if (is_steered_beside(s, peak, &stronger[i]))
            return SIDE_LOBE;
    for (size_t i = 0; i < n; i++)
        if (stronger[i].listed && sonar_beams_apart(s->scan, peak->is.az_deg,
                                                    stronger[i].is.az_deg) < s->separation_beams)
            return TOO_NEAR;
    return peak->is.power <= leak.power ? IMAGE : CONTACT;
}

/* Takes the grid's peaks, strongest first, until spec->most are listed. Examines at most four
 * candidates for each place in the list, which bounds the time that a noisy spectrum takes. */
static size_t select_peaks(const sonar_search *s, const float *background, float *candidate,
                           sonar_local_maximum *peaks) {
    size_t n = 0, listed = 0;
    for (size_t tried = 0; tried < 4 * s->spec->most && listed < s->spec->most; tried++) {
        const size_t i = sonar_strongest(candidate, s->scan->count);
        if (candidate[i] <= 0 || n == PEAKS_MOST)
            break;
        sonar_local_maximum peak = {
            .is = {.az_deg = s->scan->az_deg[i],
                   .power = (double)candidate[i],
                   .background = fmax((double)background[i], (double)FLT_MIN)},
            .index = i};
        candidate[i] = 0;
        sonar_focus_find(s, &peak);
        const verdict v = judge(s, &peak, peaks, n);
        peak.listed = v == CONTACT || v == IMAGE;
        listed += peak.listed;
        if (v == SIDE_LOBE)
            continue;
        sonar_leak_limit(s, &peak);
        peaks[n++] = peak;
    }
    return n;
}

static void sort_by_power(sonar_local_maximum *peaks, size_t n) {
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j > 0 && peaks[j].is.power > peaks[j - 1].is.power; j--) {
            const sonar_local_maximum kept = peaks[j];
            peaks[j] = peaks[j - 1];
            peaks[j - 1] = kept;
        }
}

/* Judges the peaks over the threshold once more, because refined powers may have another order than
 * the grid's, and two maxima may have become one peak. */
static void judge_again(const sonar_search *s, sonar_local_maximum *peaks, size_t n) {
    sort_by_power(peaks, n);
    for (size_t i = 0; i < n; i++) {
        sonar_local_maximum *peak = &peaks[i];
        if (!peak->listed)
            continue;
        const verdict v = judge(s, peak, peaks, i);
        sonar_leak_limit(s, peak);
        peak->is.image = v == IMAGE;
        peak->listed =
            (v == CONTACT || v == IMAGE) && peak->is.power > s->threshold * peak->is.background;
    }
}

static void keep_top(const sonar_local_maximum *peak, const sonar_task *t, sonar_top *top) {
    top->index = peak->index;
    top->az_deg = peak->is.az_deg;
    top->power = peak->is.power;
    top->inside = peak->listed;
    top->samples = t->samples;
    memcpy(top->sample_deg, t->sample_deg, t->samples * sizeof *t->sample_deg);
    memcpy(top->sample_power, t->sample_power, t->samples * sizeof *t->sample_power);
}

/* Leaves the maxima that exceed their background by 1 dB. */
static void keep_prominent(const sonar_search *s, float *candidate, float *cells) {
    const size_t n = s->scan->count;
    memcpy(cells, s->power, n * sizeof *cells);
    const float whole = sonar_median(cells, n);
    for (size_t i = 0; i < n; i++)
        if (candidate[i] > 0 &&
            !exceeds(candidate[i], prominent,
                     sonar_background_at(s->spec->split, s->power, i, cells, whole)))
            candidate[i] = 0;
}

sonar_code sonar_detect_tops(const sonar_detect_spec *spec, const float *power, float *scratch,
                             sonar_power_at power_at, void *ctx, sonar_tops *tops,
                             sonar_error *err) {
    const size_t n = spec->scan->count;
    float *candidate = scratch, *cells = scratch + n;
    tops->count = 0;
    if (n < 3 || !believable(power, n))
        return SONAR_OK;
    const sonar_detect_spec grid = {.scan = spec->scan, .split = spec->split};
    const sonar_search s = {.spec = &grid,
                            .scan = spec->scan,
                            .power = power,
                            .adaptive = true,
                            .power_at = power_at,
                            .ctx = ctx,
                            .err = err};
    mark_maxima(&s, candidate);
    keep_prominent(&s, candidate, cells);
    sonar_local_maximum peaks[SONAR_TOPS_MOST];
    sonar_task task[SONAR_TOPS_MOST];
    size_t found = 0;
    for (; found < SONAR_TOPS_MOST; found++) {
        const size_t i = sonar_strongest(candidate, n);
        if (candidate[i] <= 0)
            break;
        candidate[i] = 0;
        peaks[found] = (sonar_local_maximum){.index = i, .is.range_m = INFINITY, .listed = true};
    }
    const sonar_code code = sonar_refine_tops(&s, task, peaks, found);
    for (; tops->count < found && !code; tops->count++)
        keep_top(&peaks[tops->count], &task[tops->count], &tops->top[tops->count]);
    return code;
}

void sonar_detect_raise(const sonar_scan *scan, const sonar_tops *tops, float *power) {
    for (size_t k = 0; k < tops->count; k++) {
        const size_t cell = sonar_scan_nearest(scan, tops->top[k].az_deg);
        power[cell] = fmaxf(power[cell], (float)fmin(tops->top[k].power, (double)FLT_MAX));
    }
}

double sonar_detect_tone_reach(double bin, double offset) {
    const double most = 0.3; /* with fewer sensors, or a larger share, every direction would count
                                as beside every other */
    return offset != 0 ? fmin((fabs(offset) + 1) / fmax(bin + offset, 1), most) : 0;
}

void sonar_detect_spread(size_t sensors, const double *position_m, const float *weight,
                         double spread_m2[9]) {
    double mean[3] = {0};
    size_t used = 0;
    memset(spread_m2, 0, 9 * sizeof *spread_m2);
    for (size_t k = 0; k < sensors; k++) {
        used += weight[k] != 0;
        for (size_t i = 0; i < 3 && weight[k] != 0; i++)
            mean[i] += (position_m[3 * k + i] - mean[i]) / (double)used;
    }
    for (size_t k = 0; k < sensors; k++)
        for (size_t i = 0; i < 9 && weight[k] != 0; i++)
            spread_m2[i] += (position_m[3 * k + i / 3] - mean[i / 3]) *
                            (position_m[3 * k + i % 3] - mean[i % 3]) / (double)used;
}

void sonar_detect_bearing(const sonar_scan *scan, double az_deg, double heading_deg,
                          bool heading_known, double *bearing_deg, double *mirror_deg) {
    const double reference = heading_known ? heading_deg : 0.0;
    double both_deg[2] = {sonar_modulo_turn(reference + az_deg), NAN};
    if (scan->cone)
        sonar_cone_bearings(reference + scan->axis_az_deg, scan->axis_depression_deg, az_deg,
                            sonar_beam_width(scan) / 2, both_deg);
    *bearing_deg = both_deg[0];
    *mirror_deg = both_deg[1];
}

static void complete(const sonar_search *s, sonar_detect_source source, sonar_local_maximum *peak) {
    sonar_detection *is = &peak->is;
    if (!s->scan->cone)
        is->az_deg = sonar_modulo_turn(is->az_deg);
    is->source = source;
    is->snr_db = 10.0 * log10(is->power / is->background);
    if (!isfinite(is->range_m))
        is->range_m = NAN;
    is->bearing_deg = is->mirror_deg = NAN;  /* the bearing needs a heading */
    is->sigma = is->bearing_sigma_deg = NAN; /* they need the array's accuracy */
}

static double lowest(const float *background, size_t n) {
    float least = background[0];
    for (size_t i = 1; i < n; i++)
        least = fminf(least, background[i]);
    return (double)least;
}

static sonar_code find(sonar_search *s, sonar_detect_source source, float *scratch,
                       sonar_detection *detections, size_t *count) {
    const size_t n = s->scan->count;
    float *power = scratch, *background = scratch + n, *candidate = scratch + 3 * n;
    sonar_local_maximum peaks[PEAKS_MOST];
    sonar_task task[SONAR_DETECTIONS_MOST];
    s->power = power;
    s->scratch = scratch + 2 * n;
    sonar_focus_strongest(s, power);
    sonar_detect_background(s->spec->split, s->far_power, background, s->scratch);
    const double least = s->threshold * pow(10.0, -grid_loss_db / 10.0);
    mark_maxima(s, candidate);
    for (size_t i = 0; i < n; i++)
        candidate[i] = exceeds(candidate[i], least, background[i]) ? candidate[i] : 0;
    sonar_code code = SONAR_OK;
    if (s->adaptive && s->power_at)
        code = mark_hinted(s, background, least, candidate);
    if (code != SONAR_OK)
        return code;
    const size_t found = select_peaks(s, background, candidate, peaks);
    code = sonar_refine_tops(s, task, peaks, found);
    if (code != SONAR_OK)
        return code;
    judge_again(s, peaks, found);
    code = sonar_refine_widths(s, task, peaks, found);
    const double least_background = lowest(background, n);
    size_t listed = 0;
    for (size_t i = 0; i < found && code == SONAR_OK; i++)
        if (peaks[i].listed) {
            peaks[i].is.shape = sonar_shape_of(s, &task[peaks[i].task], &peaks[i].is);
            peaks[i].is.least_background = least_background;
            complete(s, source, &peaks[i]);
            detections[listed++] = peaks[i].is;
        }
    *count = listed;
    return code;
}

sonar_code sonar_detect(const sonar_detect_spec *spec, sonar_detect_source source,
                        const float *power, const sonar_nearfield *near, float *scratch,
                        sonar_power_at power_at, void *ctx, sonar_detection *detections,
                        size_t *count, sonar_error *err) {
    const size_t n = spec->scan->count;
    *count = 0;
    if (spec->most > SONAR_DETECTIONS_MOST)
        return sonar_fail(err, SONAR_EINVAL, "detect",
                          "at most %d detections can be listed, not %zu", SONAR_DETECTIONS_MOST,
                          spec->most);
    if (near && !near->ranges)
        near = NULL;
    if (n == 0 || !believable(power, n) || (near && !believable(near->power, near->ranges * n)))
        return SONAR_OK;

    const double given = spec->min_separation_deg / sonar_beam_deg(spec->scan);
    sonar_search s = {.spec = spec,
                      .scan = spec->scan,
                      .far_power = power,
                      .near = near,
                      .sidelobes = source == SONAR_FROM_CBF && spec->pattern,
                      .adaptive = source == SONAR_FROM_MVDR,
                      .threshold = pow(10.0, spec->threshold_db / 10.0),
                      .separation_beams = spec->min_separation_deg > 0 ? given : half_beam,
                      .range_margin = near ? pow(10.0, near->margin_db / 10.0) : 0,
                      .power_at = power_at,
                      .ctx = ctx,
                      .err = err};
    return find(&s, source, scratch, detections, count);
}
