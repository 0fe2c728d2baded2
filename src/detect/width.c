/* SPDX-License-Identifier: GPL-3.0-or-later */
/* -3 dB widths of peaks. */
#include "detect/search.h"

#include "core/core.h"

enum { ROUNDS = 9, WALK_CALLS = 8, SIDE_POINTS = SONAR_TASK_POINTS / 2 };

static const double narrowest_deg = 1e-5;
static const double spacing_beams =
    0.06; /* between points of a flank, as far as the points suffice */

/* ---- from the grid --------------------------------------------------------------------------- */

/* Walks along the grid away from the peak. False if the power does not fall by half before the scan
 * ends, a full turn is reached, or the power rises above the peak. */
static bool find_flank(const sonar_search *s, const float *power, const sonar_detection *peak,
                       ptrdiff_t way, sonar_flank *f) {
    const ptrdiff_t n = (ptrdiff_t)s->scan->count;
    const ptrdiff_t next = sonar_scan_first(s->scan, peak->az_deg);
    *f = (sonar_flank){.in_deg = peak->az_deg, .in_power = peak->power};
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

/* Narrows the flank's two ends with a point between the peak and the flank's outer end. */
static void tighten(const sonar_detection *peak, sonar_flank *f, double az_deg, double power) {
    const double at = fabs(az_deg - peak->az_deg), way = f->out_deg - peak->az_deg;
    if ((az_deg - peak->az_deg) * way <= 0 || at >= fabs(way))
        return;
    if (power < 0.5 * peak->power) {
        f->out_deg = az_deg;
        f->out_power = power;
        if (fabs(f->in_deg - peak->az_deg) >= at)
            *f = (sonar_flank){peak->az_deg, az_deg, peak->power, power};
    } else if (at > fabs(f->in_deg - peak->az_deg)) {
        f->in_deg = az_deg;
        f->in_power = power;
    }
}

/* Uses all points of the search for the top. First the nearest point below half power is found;
 * otherwise points above half power beyond it would count. */
static void use_samples(const sonar_task *t, sonar_flank *f) {
    for (int in = 0; in < 2; in++)
        for (size_t i = 0; i < t->samples; i++)
            if (in == ((double)t->sample_power[i] >= 0.5 * t->peak->is.power))
                tighten(&t->peak->is, f, t->sample_deg[i], (double)t->sample_power[i]);
}

/* ---- off the grid ---------------------------------------------------------------------------- */

/* The increase of the reciprocal power with the square of the distance from the top. It is constant
 * along a narrow MVDR peak, and nearly so along a beam. */
static double bend_of(const sonar_detection *peak, double az_deg, double power) {
    const double x = az_deg - peak->az_deg;
    return (peak->power / fmax(power, DBL_MIN) - 1) / fmax(x * x, DBL_MIN);
}

/* True if the bend determines where between the two ends the power falls to half. */
static bool has_bend(const sonar_detection *peak, const sonar_flank *f) {
    if (f->in_deg == peak->az_deg || !(f->in_power < 0.999 * peak->power) || !(f->out_power > 0))
        return false;
    const double in = bend_of(peak, f->in_deg, f->in_power),
                 out = bend_of(peak, f->out_deg, f->out_power);
    return fabs(out - in) < 0.3 * in;
}

static bool is_steep(const sonar_flank *f) {
    return f->out_power < 0.8 * f->in_power && fabs(f->out_deg - f->in_deg) > narrowest_deg;
}

static bool is_rough(const sonar_detection *peak, const sonar_flank *f) {
    return is_steep(f) && !has_bend(peak, f);
}

/* Where the flank passes half the power: interpolated by the bend, which varies evenly with the
 * square of the distance, or linearly in dB. */
static double crossing(const sonar_detection *peak, const sonar_flank *f) {
    if (has_bend(peak, f)) {
        const double way = f->out_deg > peak->az_deg ? 1 : -1;
        const double x = f->in_deg - peak->az_deg, y = f->out_deg - peak->az_deg;
        const double in = bend_of(peak, f->in_deg, f->in_power),
                     out = bend_of(peak, f->out_deg, f->out_power);
        const double turn = (out - in) / (y * y - x * x), begin = in - turn * x * x;
        /* (begin + turn t) t = 1 */
        const double t = 2 / (begin + sqrt(fmax(begin * begin + 4 * turn, 0)));
        return peak->az_deg + way * sqrt(fmin(fmax(t, x * x), y * y));
    }
    const double in_db = sonar_decibel(f->in_power), out_db = sonar_decibel(f->out_power);
    const double half_db = sonar_decibel(0.5 * peak->power);
    const double share = in_db > out_db ? (in_db - half_db) / (in_db - out_db) : 0.5;
    return f->in_deg + share * (f->out_deg - f->in_deg);
}

static void set_width(sonar_task *t) {
    sonar_detection *is = &t->peak->is;
    is->width_deg = crossing(is, &t->side[1]) - crossing(is, &t->side[0]);
}

/* ---- the step -------------------------------------------------------------------------------- */

static bool walks(const sonar_task *t) {
    return t->walk[0] == SONAR_WALKING || t->walk[1] == SONAR_WALKING;
}

/* A peak at its own range is not on any grid, so it walks in steps of a quarter of a beam width
 * that double from round to round. The beam of a planar array may be many times as wide as in its
 * narrowest direction. */
static bool begin_width(const sonar_search *s, sonar_task *t) {
    sonar_detection *is = &t->peak->is;
    const bool own_range = isfinite(is->range_m);
    is->width_deg = NAN;
    t->walk[0] = t->walk[1] = own_range && s->power_at ? SONAR_WALKING : SONAR_WALK_FOUND;
    t->walked_beams = 0;
    t->stride_beams = 0.25;
    for (size_t k = 0; k < 2; k++)
        t->side[k] = (sonar_flank){.in_deg = is->az_deg, .in_power = is->power};
    if (walks(t))
        return true;
    const float *power = own_range ? s->power : s->far_power;
    if (!find_flank(s, power, is, -1, &t->side[0]) || !find_flank(s, power, is, 1, &t->side[1]))
        return false;
    for (size_t k = 0; k < 2 && s->power_at; k++)
        use_samples(t, &t->side[k]);
    if (s->power_at && (is_rough(is, &t->side[0]) || is_rough(is, &t->side[1])))
        return true;
    set_width(t);
    return false;
}

static void put(sonar_task *t, double az_deg) {
    t->az_deg[t->n] = az_deg;
    t->range_m[t->n++] = t->peak->is.range_m;
}

static size_t flank_points(const sonar_search *s, const sonar_flank *f) {
    const double beams = sonar_beams_apart(s->scan, f->in_deg, f->out_deg);
    return (size_t)fmin(fmax(ceil(beams / spacing_beams) - 1, 2), SIDE_POINTS);
}

static void ask_width(const sonar_search *s, sonar_task *t) {
    const double az = t->peak->is.az_deg;
    t->n = 0;
    for (size_t k = 0; k < 2; k++) {
        const sonar_flank *f = &t->side[k];
        if (t->walk[k] == SONAR_WALKING) {
            for (size_t i = 1; i <= SIDE_POINTS; i++)
                put(t,
                    sonar_beams_on(s->scan, az,
                                   (k ? 1 : -1) * (t->walked_beams + t->stride_beams * (double)i)));
        } else if (!walks(t) && is_rough(&t->peak->is, f)) {
            const size_t n = flank_points(s, f);
            for (size_t i = 1; i <= n; i++)
                put(t, f->in_deg + (f->out_deg - f->in_deg) * (double)i / (double)(n + 1));
        }
    }
}

static void step_out(sonar_task *t, size_t k, size_t first) {
    const sonar_detection *peak = &t->peak->is;
    sonar_flank *f = &t->side[k];
    for (size_t i = first; i < first + SIDE_POINTS; i++) {
        f->out_deg = t->az_deg[i];
        f->out_power = (double)t->power[i];
        if (f->out_power < 0.5 * peak->power) {
            t->walk[k] = SONAR_WALK_FOUND;
            return;
        }
        if (f->out_power > 1.01 * peak->power || fabs(f->out_deg - peak->az_deg) >= 180) {
            t->walk[k] = SONAR_WALK_NONE;
            return;
        }
        f->in_deg = f->out_deg;
        f->in_power = f->out_power;
    }
}

static void take_walk(sonar_task *t) {
    size_t first = 0;
    for (size_t k = 0; k < 2; k++)
        if (t->walk[k] == SONAR_WALKING) {
            step_out(t, k, first);
            first += SIDE_POINTS;
        }
    t->walked_beams += SIDE_POINTS * t->stride_beams;
    t->stride_beams *= 2;
}

/* Narrows a flank to the two of its new points between which the power falls below half. */
static void narrow(sonar_task *t, sonar_flank *f, size_t first, size_t n) {
    for (size_t i = first; i < first + n; i++) {
        if ((double)t->power[i] < 0.5 * t->peak->is.power) {
            f->out_deg = t->az_deg[i];
            f->out_power = (double)t->power[i];
            return;
        }
        f->in_deg = t->az_deg[i];
        f->in_power = (double)t->power[i];
    }
}

static bool take_width(const sonar_search *s, sonar_task *t) {
    const sonar_detection *is = &t->peak->is;
    size_t first = 0;
    if (walks(t)) {
        take_walk(t);
    } else {
        const bool asked[2] = {is_rough(is, &t->side[0]), is_rough(is, &t->side[1])};
        for (size_t k = 0; k < 2; k++) {
            const size_t n = asked[k] ? flank_points(s, &t->side[k]) : 0;
            narrow(t, &t->side[k], first, n);
            first += n;
        }
    }
    if (t->walk[0] == SONAR_WALK_NONE || t->walk[1] == SONAR_WALK_NONE)
        return true;
    if (walks(t))
        return t->rounds == WALK_CALLS;
    if ((is_rough(is, &t->side[0]) || is_rough(is, &t->side[1])) && t->rounds < ROUNDS + WALK_CALLS)
        return false;
    set_width(t);
    return true;
}

const sonar_step sonar_step_width = {begin_width, ask_width, take_width};

sonar_code sonar_refine_widths(const sonar_search *s, sonar_task *task, sonar_local_maximum *peaks,
                               size_t n) {
    static const sonar_step *const nothing[] = {NULL};
    static const sonar_step *const steps[] = {&sonar_step_width, NULL};
    size_t tasks = 0;
    for (size_t k = 0; k < SONAR_DETECTIONS_MOST; k++)
        task[k].step = nothing;
    for (size_t k = 0; k < n; k++)
        if (peaks[k].listed) {
            sonar_task *t = &task[peaks[k].task];
            t->peak = &peaks[k];
            t->step = steps;
            tasks = sonar_max_size(tasks, peaks[k].task + 1);
        }
    return sonar_rounds(s, task, tasks);
}
