/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The ranges of the near field: a list, the usable part of the default list, or auto. */
#include "config/access.h"

#include <math.h>
#include <string.h>

static double array_radius(const sonar_config *c) {
    double radius = 0;
    for (size_t k = 0; k < c->sensors; k++) {
        const double *p = c->position_m + 3 * k;
        if (c->used[k])
            radius = fmax(radius, sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2]));
    }
    return radius;
}

/* Rounds up to four digits, so that the value that a report proposes is accepted. */
static double rounded_up(double x) {
    const double unit = pow(10, floor(log10(x)) - 3);
    return ceil(x / unit - 1e-9) * unit;
}

/* Default lowest range of `auto`: a tenth beyond the array, but not below the nearest usable range.
 */
static double auto_low(sonar_loader *l, double radius, double nearest) {
    const sonar_config *c = l->config;
    const double beyond = c->range_reference == SONAR_RADIAL ? 1.1 * radius : 0;
    double low = number(l, OPT_RANGE_MIN);
    if (given(l, OPT_RANGE_MIN))
        return low;
    if (beyond > low)
        low = rounded_up(beyond);
    if (nearest > low) {
        low = rounded_up(nearest);
        warn(l, OPT_RANGES, "cbf.range_min_m, or a list",
             "auto begins at %g m: for an array of %.4g m, %d ranges do not reach nearer", low,
             c->geometry.aperture_m, SONAR_RANGES_MOST);
    }
    sonar_value_set_number(l, OPT_RANGE_MIN, low);
    return low;
}

/* Automatic ranges that stay automatic are kept during a live change, because the buffers have
 * their size. */
static bool keep_ranges(sonar_loader *l) {
    const sonar_config *like = l->like;
    if (!like || !like->settings->value[OPT_RANGES].word || given(l, OPT_RANGE_MIN) ||
        given(l, OPT_RANGE_MAX))
        return false;
    memcpy(l->config->range_m, like->range_m, sizeof like->range_m);
    l->config->specs.cbf.ranges = like->specs.cbf.ranges;
    sonar_value_set_number(l, OPT_RANGE_MIN, like->settings->value[OPT_RANGE_MIN].number);
    return true;
}

static bool auto_ranges(sonar_loader *l, double radius, double lambda) {
    sonar_config *c = l->config;
    if (keep_ranges(l))
        return true;
    if (!have(l, OPT_RANGE_MIN) || !have(l, OPT_RANGE_MAX))
        return false;
    const double aperture = c->geometry.aperture_m, high = number(l, OPT_RANGE_MAX);
    const double nearest = sonar_ranges_nearest(aperture, lambda, high, SONAR_RANGES_MOST);
    const double low = auto_low(l, radius, nearest);
    if (low >= high)
        return fail(l, given(l, OPT_RANGE_MAX) ? OPT_RANGE_MAX : OPT_RANGES,
                    "a larger cbf.range_max_m, a list, or [] for none",
                    "auto has no ranges from %g m to cbf.range_max_m, %g m", low, high);
    const size_t count =
        sonar_ranges_auto(aperture, lambda, low, high, SONAR_RANGES_MOST, c->range_m);
    if (count > SONAR_RANGES_MOST) {
        char accepted[80];
        snprintf(accepted, sizeof accepted, "a cbf.range_min_m of %g or more, or a list",
                 rounded_up(nearest));
        return fail(l, OPT_RANGE_MIN, accepted,
                    "%g m: auto gives %zu ranges, at most %d are possible", low, count,
                    SONAR_RANGES_MOST);
    }
    c->specs.cbf.ranges = count;
    return true;
}

/* Keeps the default ranges that lie beyond the array. */
static void default_ranges(sonar_loader *l, double radius) {
    sonar_value *v = &l->settings->value[OPT_RANGES];
    size_t inside = 0;
    while (inside < v->count && v->numbers[inside] <= radius)
        inside++;
    v->count -= inside;
    memmove(v->numbers, v->numbers + inside, v->count * sizeof *v->numbers);
}

bool sonar_resolve_ranges(sonar_loader *l, double lambda) {
    sonar_config *c = l->config;
    const double radius = array_radius(c);
    const sonar_value *v = value(l, OPT_RANGES);
    if (!have(l, OPT_RANGES) || !have(l, OPT_RANGE_REFERENCE))
        return false;
    c->range_reference = number(l, OPT_RANGE_REFERENCE) != 0 ? SONAR_ABEAM : SONAR_RADIAL;
    if (c->range_reference == SONAR_ABEAM && c->geometry.extent != SONAR_EXTENT_LINE)
        return fail(l, OPT_RANGE_REFERENCE, "radial", "only a line has a range abeam");
    if (!given(l, OPT_RANGES))
        default_ranges(l, radius);
    if (v->word && !auto_ranges(l, radius, lambda))
        return false;
    c->specs.cbf.ranges = v->word ? c->specs.cbf.ranges : v->count;
    for (size_t i = 0; !v->word && i < v->count; i++) {
        c->range_m[i] = v->numbers[i];
        if (i && c->range_m[i] <= c->range_m[i - 1])
            return fail(l, OPT_RANGES, "ascending ranges", "%g m after %g m", c->range_m[i],
                        c->range_m[i - 1]);
    }
    if (c->specs.cbf.ranges && c->range_reference == SONAR_RADIAL && c->range_m[0] <= radius)
        return fail(l, OPT_RANGES, NULL, "%g m is not beyond the array, which reaches to %g m",
                    c->range_m[0], radius);
    return true;
}
