/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sped_oracle.h"

#include <math.h>

/* One bin. Directions are counted on beyond the ends of a circle. */
typedef struct row {
    const sonar_scan *scan;
    const float *power;
    double beam; /* at the bin's frequency, in those at the top */
} row;

static double top_beam(const sonar_scan *scan) {
    return scan->cone ? scan->beam_width_deg * M_PI / 180 : scan->beam_width_deg;
}

static double turn(const sonar_scan *scan) {
    return 360 / top_beam(scan);
}

static double place(const row *r, ptrdiff_t k) {
    const ptrdiff_t n = (ptrdiff_t)r->scan->count, around = k < 0 ? -1 : k >= n;
    const double az_deg = r->scan->az_deg[k - around * n];
    return (r->scan->cone ? -cos(az_deg * M_PI / 180) : az_deg) / top_beam(r->scan) +
           (double)around * turn(r->scan);
}

static double power(const row *r, ptrdiff_t k) {
    const ptrdiff_t n = (ptrdiff_t)r->scan->count;
    return (double)r->power[(k + n) % n];
}

static double width(const row *r, ptrdiff_t k) {
    const ptrdiff_t n = (ptrdiff_t)r->scan->count;
    if (r->scan->wraps || (k > 0 && k < n - 1))
        return (place(r, k + 1) - place(r, k - 1)) / 2;
    return k ? place(r, k) - place(r, k - 1) : place(r, k + 1) - place(r, k);
}

static double mean(const row *r, ptrdiff_t i, double half) {
    const ptrdiff_t n = (ptrdiff_t)r->scan->count, beyond = r->scan->wraps ? n - 1 : 0;
    double total = 0, weight = 0;
    for (ptrdiff_t k = -beyond; k < n + beyond; k++) {
        const double off = place(r, k) - place(r, i);
        const ptrdiff_t same = (k + n) % n;
        if (off < -half || off >= half)
            continue;
        total += width(r, same) * power(r, k);
        weight += width(r, same);
    }
    return total / weight;
}

static double mean_around(const row *r, ptrdiff_t i) {
    const double all =
        r->scan->wraps ? turn(r->scan) / 2 : place(r, (ptrdiff_t)r->scan->count - 1) - place(r, 0);
    double around = 0, share = 1;
    double half = 4;
    for (int quarter = 0; half < 4 * r->beam; quarter++)
        half = 4 * pow(2, (quarter + 1) / 4.0);
    for (; half < all; half *= 2) {
        share /= 2;
        around += share * mean(r, i, half);
    }
    return around + share * mean(r, i, r->scan->wraps ? all : INFINITY);
}

/* By the parabola through the logarithms of three directions, in Lagrange's form. */
static bool top(const row *r, ptrdiff_t first, double *at) {
    double x[3], y[3], second = 0, slope = 0;
    for (int k = 0; k < 3; k++) {
        x[k] = place(r, first + k);
        y[k] = fmax(log(power(r, first + k) / power(r, first + 1)), -2 * log(10));
    }
    for (int k = 0; k < 3; k++) {
        const int a = (k + 1) % 3, b = (k + 2) % 3;
        const double c = y[k] / ((x[k] - x[a]) * (x[k] - x[b]));
        second += 2 * c;
        slope += c * (2 * x[1] - x[a] - x[b]);
    }
    if (!(second < 0))
        return false;
    *at = x[1] - slope / second;
    return r->scan->wraps ||
           (*at > place(r, 0) - 0.5 && *at < place(r, (ptrdiff_t)r->scan->count - 1) + 0.5);
}

static void add_peak(const row *r, ptrdiff_t i, double *record) {
    const ptrdiff_t n = (ptrdiff_t)r->scan->count;
    const bool circle = r->scan->wraps;
    const bool rises = (!circle && i == 0) || power(r, i) > power(r, i - 1);
    const bool falls =
        (!circle && i == n - 1) ||
        (!circle && i == 0 ? power(r, i) > power(r, 1) : power(r, i) >= power(r, i + 1));
    const ptrdiff_t first = circle ? i - 1 : i == 0 ? 0 : i == n - 1 ? n - 3 : i - 1;
    double at;
    if (!rises || !falls || !top(r, first, &at))
        return;
    const double over = power(r, i) / mean_around(r, i) - 1;
    for (ptrdiff_t k = circle ? -n : 0; k < (circle ? 2 * n : n) && over > 0; k++) {
        ptrdiff_t side = at < place(r, i) ? i - 1 : i;
        if (!circle)
            side = side < 0 ? 0 : side > n - 2 ? n - 2 : side;
        const double cell = place(r, side + 1) - place(r, side);
        const double reach = fmax(0.5, cell);
        record[(k + n) % n] += over * fmax(0, 1 - fabs(place(r, k) - at) / reach);
    }
}

void sped_oracle(const sonar_sped_spec *s, const float *power_of, double *record) {
    const size_t n = s->scan->count;
    for (size_t i = 0; i < n; i++)
        record[i] = 0;
    for (size_t b = 0; b < s->bins; b++) {
        const row r = {.scan = s->scan,
                       .power = power_of + b * n,
                       .beam = (double)(s->first_bin + s->bins - 1) / (double)(s->first_bin + b)};
        double all = 0;
        for (size_t i = 0; i < n; i++)
            all += (double)r.power[i];
        for (size_t i = 0; i < n && all > 0 && isfinite(all); i++)
            add_peak(&r, (ptrdiff_t)i, record);
    }
    for (size_t i = 0; i < n; i++)
        record[i] /= (double)s->bins;
}
