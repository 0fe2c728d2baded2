/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "analysis/normalise/normalise.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "core/arena.h"
#include "core/core.h"

/* Standard deviations of noise above its mean up to which a power counts as noise. */
static const double clip_sigma = 3;
static const int clips_of[SONAR_NORMALISERS] = {
    SONAR_NORMALISE_METHODS(SONAR_PICK_VALUE, SONAR_COMMA)};

/* The two windows of a direction, as ranges [from, to) of the extended directions. */
struct windows {
    size_t from[2], to[2];
    double beams;
};

/* The directions are extended beyond the ends, as far as the windows reach: on a circle by the
 * directions at the other end, on a line by the mirror image. */
struct sonar_normalise {
    sonar_normalise_method method;
    size_t directions, extended, before;
    double *variance;     /* [directions] variance of the mean, as a share of one power's */
    size_t *source;       /* [extended] the direction of each */
    double *at;           /* [extended] place in beam widths */
    double *width;        /* [extended] width in beam widths, the weight in a mean */
    double *sum;          /* [extended + 1] scratch */
    double *kept, *mean;  /* [directions] scratch */
    float *order;         /* [extended] scratch */
    struct windows *side; /* [directions] */
};

/* The cube root of a gamma variable is nearly normal (Wilson and Hilferty 1931). */
double sonar_normalise_clip(double averages) {
    const double v = 1 / (9 * averages);
    return pow(1 - v + clip_sigma * sqrt(v), 3);
}

static double median_of_noise(double averages) {
    return pow(1 - 1 / (9 * averages), 3);
}

/* E[x; x <= r] + P(x > r) for a gamma variable x of mean 1 and shape a. By the recurrence of the
 * incomplete gamma function only the term (a r)^a exp(-a r) / gamma(a + 1) remains. Truncated noise
 * has that term divided by P(x <= r), which is nearly 1. Gamma is computed by Stirling's series,
 * within 0.3 %; lgamma is not thread-safe. */
double sonar_normalise_bias(double averages) {
    const double a = averages, r = sonar_normalise_clip(a);
    const double stirling = sqrt(2 * M_PI * a) * (1 + 1 / (12 * a) + 1 / (288 * a * a));
    return 1 - exp(a * (log(r) + 1 - r)) / stirling;
}

static bool valid(const sonar_normalise_spec *s) {
    bool ok = (unsigned)s->method < SONAR_NORMALISERS && s->directions >= 2 &&
              s->gap_beams >= 1.5 && s->window_beams > 0 &&
              isfinite(s->gap_beams + s->window_beams) && s->turn_beams >= 0;
    for (size_t i = 1; ok && i < s->directions; i++)
        ok = s->at_beams[i] > s->at_beams[i - 1] && isfinite(s->at_beams[i]);
    if (ok && s->turn_beams > 0)
        ok = s->at_beams[s->directions - 1] <= s->at_beams[0] + s->turn_beams;
    return ok;
}

static bool lay_out(sonar_normalise *n, sonar_arena_pass pass) {
    sonar_arena arena = {.pass = pass};
    SONAR_ARENA(&arena, n->source, n->extended);
    SONAR_ARENA(&arena, n->at, n->extended);
    SONAR_ARENA(&arena, n->width, n->extended);
    SONAR_ARENA(&arena, n->sum, n->extended + 1);
    SONAR_ARENA(&arena, n->kept, n->directions);
    SONAR_ARENA(&arena, n->mean, n->directions);
    SONAR_ARENA(&arena, n->order, n->extended);
    SONAR_ARENA(&arena, n->side, n->directions);
    SONAR_ARENA(&arena, n->variance, n->directions);
    return !arena.failed;
}

void sonar_normalise_destroy(sonar_normalise *n) {
    if (!n)
        return;
    lay_out(n, SONAR_ARENA_FREE);
    free(n);
}

/* Sets places, sources and weights of the extended directions. A mirror image does not repeat the
 * end itself. */
static void extend(sonar_normalise *n, const sonar_normalise_spec *s) {
    const size_t count = s->directions;
    const double first = s->at_beams[0], last = s->at_beams[count - 1];
    for (size_t e = 0; e < n->extended; e++) {
        const bool left = e < n->before, right = e >= n->before + count;
        size_t i = left ? e : e - n->before;
        double at = 0;
        if (s->turn_beams > 0) {
            i %= count;
            at = s->at_beams[i] + (right ? s->turn_beams : left ? -s->turn_beams : 0);
        } else {
            i = left ? n->before - e : right ? 2 * count - 2 - i : i;
            at = left    ? 2 * first - s->at_beams[i]
                 : right ? 2 * last - s->at_beams[i]
                         : s->at_beams[i];
        }
        n->source[e] = i;
        n->at[e] = at;
    }
    for (size_t e = 0; e < n->extended; e++) {
        const size_t low = e ? e - 1 : e, high = e + 1 < n->extended ? e + 1 : e;
        n->width[e] = (n->at[high] - n->at[low]) / (double)(high - low);
    }
}

/* The first extended direction at or beyond the place. */
static size_t first_at(const sonar_normalise *n, double at) {
    size_t low = 0, high = n->extended;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (n->at[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Sets the windows of all directions. On a circle no window passes the opposite direction. False: a
 * direction has no window. */
static bool place_windows(sonar_normalise *n, const sonar_normalise_spec *s) {
    for (size_t e = 0; e < n->extended; e++)
        n->sum[e + 1] = n->sum[e] + n->width[e];
    const double far = s->gap_beams + s->window_beams;
    const double reach = s->turn_beams > 0 ? fmin(far, s->turn_beams / 2) : far;
    bool all = true;
    for (size_t i = 0; i < n->directions; i++) {
        const double at = n->at[n->before + i];
        struct windows *w = &n->side[i];
        *w = (struct windows){{first_at(n, at - reach), first_at(n, at + s->gap_beams)},
                              {first_at(n, at - s->gap_beams), first_at(n, at + reach)},
                              0};
        for (size_t k = 0; k < 2; k++)
            if (w->from[k] < w->to[k])
                w->beams += n->sum[w->to[k]] - n->sum[w->from[k]];
            else
                w->to[k] = w->from[k];
        all = all && w->beams > 0;
    }
    return all;
}

/* A range of directions, [from, to). */
struct range {
    size_t from, to;
};

/* The directions in both windows on a line: up to three ranges for each window. */
static size_t unfold(const sonar_normalise *n, const struct windows *w, struct range range[6]) {
    const size_t middle = n->before, right = middle + n->directions;
    size_t count = 0;
    for (size_t k = 0; k < 2; k++) {
        const size_t from = w->from[k], to = w->to[k];
        if (from < sonar_min_size(to, middle))
            range[count++] =
                (struct range){middle + 1 - sonar_min_size(to, middle), middle + 1 - from};
        if (sonar_max_size(from, middle) < sonar_min_size(to, right))
            range[count++] = (struct range){sonar_max_size(from, middle) - middle,
                                            sonar_min_size(to, right) - middle};
        if (sonar_max_size(from, right) < to)
            range[count++] =
                (struct range){right + n->directions - 1 - to,
                               right + n->directions - 1 - sonar_max_size(from, right)};
    }
    return count;
}

/* The variance of the mean around a direction, as a share of one power's variance, for noise whose
 * powers are independent at a distance of one beam width. On a line a direction that is contained m
 * times, with its mirror images, counts m^2 times. `sum` has the directions' widths. */
static double variance_around(const sonar_normalise *n, const struct windows *w, bool circle) {
    struct range range[6];
    double beams = 0;
    if (circle)
        return 1 / w->beams;
    const size_t count = unfold(n, w, range);
    for (size_t a = 0; a < count; a++)
        for (size_t b = 0; b < count; b++) {
            const size_t from = sonar_max_size(range[a].from, range[b].from),
                         to = sonar_min_size(range[a].to, range[b].to);
            beams += from < to ? n->sum[to] - n->sum[from] : 0;
        }
    return beams / (w->beams * w->beams);
}

static void set_variances(sonar_normalise *n, bool circle) {
    for (size_t i = 0; i < n->directions; i++)
        n->sum[i + 1] = n->sum[i] + n->width[n->before + i];
    for (size_t i = 0; i < n->directions; i++)
        n->variance[i] = variance_around(n, &n->side[i], circle);
}

sonar_code sonar_normalise_create(const sonar_normalise_spec *spec, sonar_normalise **made,
                                  sonar_error *err) {
    *made = NULL;
    if (!valid(spec))
        return sonar_fail(err, SONAR_EINVAL, "normalise", "a value is out of its range");
    sonar_normalise *n = sonar_alloc(1, sizeof *n);
    if (!n)
        return sonar_fail(err, SONAR_ENOMEM, "normalise", "no memory");
    n->method = spec->method;
    n->directions = spec->directions;
    n->before = spec->turn_beams > 0 ? spec->directions : spec->directions - 1;
    n->extended = n->directions + 2 * n->before;
    if (!lay_out(n, SONAR_ARENA_ALLOCATE)) {
        sonar_normalise_destroy(n);
        return sonar_fail(err, SONAR_ENOMEM, "normalise", "no memory");
    }
    extend(n, spec);
    if (!place_windows(n, spec)) {
        sonar_normalise_destroy(n);
        return sonar_fail(err, SONAR_EINVAL, "normalise", "no direction is outside the gap");
    }
    set_variances(n, spec->turn_beams > 0);
    *made = n;
    return SONAR_OK;
}

static void average(sonar_normalise *n, const double *power) {
    for (size_t e = 0; e < n->extended; e++)
        n->sum[e + 1] = n->sum[e] + n->width[e] * power[n->source[e]];
    for (size_t i = 0; i < n->directions; i++) {
        const struct windows *w = &n->side[i];
        double total = 0;
        for (size_t k = 0; k < 2; k++)
            total += n->sum[w->to[k]] - n->sum[w->from[k]];
        n->mean[i] = total / w->beams;
    }
}

/* Near the end of a line the windows of a source contain its own mirror image, and the source is
 * clipped to a mean that includes it. Each further clip removes another part of it. */
static void clipped_means(sonar_normalise *n, const float *power, double clip) {
    for (size_t i = 0; i < n->directions; i++)
        n->kept[i] = (double)power[i];
    average(n, n->kept);
    for (int pass = 0; pass < clips_of[n->method]; pass++) {
        for (size_t i = 0; i < n->directions; i++)
            if (n->kept[i] > clip * n->mean[i])
                n->kept[i] = n->mean[i];
        average(n, n->kept);
    }
}

static double truncated_mean(const sonar_normalise *n, const struct windows *w, const float *power,
                             double over_median) {
    size_t count = 0;
    double total = 0, beams = 0;
    for (size_t k = 0; k < 2; k++)
        for (size_t e = w->from[k]; e < w->to[k]; e++)
            n->order[count++] = power[n->source[e]];
    const double most = over_median * (double)sonar_median(n->order, count);
    for (size_t k = 0; k < 2; k++)
        for (size_t e = w->from[k]; e < w->to[k]; e++)
            if ((double)power[n->source[e]] <= most) {
                total += n->width[e] * (double)power[n->source[e]];
                beams += n->width[e];
            }
    return beams > 0 ? total / beams : 0;
}

static void truncated_means(sonar_normalise *n, const float *power, double over_median) {
    for (size_t i = 0; i < n->directions; i++)
        n->mean[i] = truncated_mean(n, &n->side[i], power, over_median);
}

/* Corrects the ratio by 1 + var(m): that is the mean of 1/m to first order. */
void sonar_normalise_run(sonar_normalise *n, double averages, const float *power, float *ratio) {
    const double a = fmax(averages, 1), clip = sonar_normalise_clip(a),
                 bias = sonar_normalise_bias(a);
    if (clips_of[n->method])
        clipped_means(n, power, clip);
    else
        truncated_means(n, power, clip / median_of_noise(a));
    for (size_t i = 0; i < n->directions; i++) {
        const double noise = fmax(n->mean[i], (double)FLT_MIN) * (1 + n->variance[i] / a) / bias;
        ratio[i] = (float)fmin((double)power[i] / noise, (double)FLT_MAX);
    }
}
