/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Delays of look directions and points, and their exact form for the beamformers, turns per bin. */
#include "manifold/manifold.h"

#include "core/core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

void sonar_delay_far(size_t sensors, const double *position_m, const double u[3], double c_mps,
                     double *tau_s) {
    for (size_t k = 0; k < sensors; k++)
        tau_s[k] = dot(position_m + 3 * k, u) / c_mps;
}

/* Sine of the angle between two unit vectors, by the cross product: exact to rounding even if
 * sqrt(1 - cos^2) loses every digit. */
static double sine_between(const double a[3], const double b[3]) {
    const double cross[3] = {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2],
                             a[0] * b[1] - a[1] * b[0]};
    return sqrt(dot(cross, cross));
}

/* |s| - |s - p| = (2 s.p - |p|^2) / (|s| + |s - p|): avoids the difference of two nearly equal
 * lengths. */
static double path_difference(const double s[3], double length, const double p[3]) {
    const double d[3] = {s[0] - p[0], s[1] - p[1], s[2] - p[2]};
    return (2 * dot(s, p) - dot(p, p)) / (length + sqrt(dot(d, d)));
}

double sonar_point_length(double r_m, sonar_range_reference reference, const double u[3],
                          const double axis[3]) {
    return reference == SONAR_ABEAM ? r_m / sine_between(u, axis) : r_m;
}

void sonar_delay_near(size_t sensors, const double *position_m, const double u[3], double r_m,
                      sonar_range_reference reference, const double axis[3], double c_mps,
                      double *tau_s) {
    const double length = sonar_point_length(r_m, reference, u, axis);
    if (!(length < 1e100)) { /* infinite at endfire; its square must stay finite */
        sonar_delay_far(sensors, position_m, u, c_mps, tau_s);
        return;
    }
    const double s[3] = {length * u[0], length * u[1], length * u[2]};
    for (size_t k = 0; k < sensors; k++)
        tau_s[k] = path_difference(s, length, position_m + 3 * k) / c_mps;
}

uint64_t sonar_turns(double tau_s, double bin_width_hz) {
    const double turns = bin_width_hz * tau_s, span = 1 << SONAR_WHOLE_TURNS_BITS;
    const double rest = turns - span * rint(turns / span); /* exact: 2^63 still fits */
    const uint64_t size = (uint64_t)rint(ldexp(fabs(rest), 64 - SONAR_WHOLE_TURNS_BITS));
    const uint64_t fixed = rest < 0 ? -size : size;
    return fixed << SONAR_WHOLE_TURNS_BITS | fixed >> (64 - SONAR_WHOLE_TURNS_BITS);
}

/* Several threads each take the next row. */
struct table {
    const sonar_manifold_spec *spec;
    double *tau_s; /* [thread][sensor] */
    uint64_t *turns;
};

static void make_row(void *arg, size_t row, size_t worker) {
    const struct table *t = arg;
    const sonar_manifold_spec *s = t->spec;
    const double *u = s->scan->u + 3 * (row % s->scan->count);
    double *tau_s = t->tau_s + worker * s->sensors;
    if (s->ranges)
        sonar_delay_near(s->sensors, s->position_m, u, s->range_m[row / s->scan->count],
                         s->reference, s->scan->axis, s->c_mps, tau_s);
    else
        sonar_delay_far(s->sensors, s->position_m, u, s->c_mps, tau_s);
    for (size_t k = 0; k < s->sensors; k++)
        t->turns[row * s->sensors + k] = sonar_turns(tau_s[k], s->bin_width_hz);
}

void sonar_manifold_fill(const sonar_manifold_spec *spec, const sonar_host *host, double *tau_s,
                         uint64_t *turns) {
    struct table all = {spec, tau_s, turns};
    host->parallel(host->ctx, sonar_max_size(spec->ranges, 1) * spec->scan->count, make_row, &all);
}

/* Several threads compute a large table, which would otherwise delay the start by seconds. */
static sonar_code make_rows(const sonar_manifold_spec *spec, size_t rows, uint64_t *turns,
                            sonar_error *err) {
    enum { WORKERS_MOST = 16 };
    const size_t large = (size_t)1 << 22;
    const size_t processors = rows * spec->sensors < large ? 1 : sonar_processors_online();
    const size_t workers = sonar_min_size(processors, WORKERS_MOST);
    sonar_pool *pool = NULL;
    struct table all = {spec, sonar_alloc(spec->sensors * workers, sizeof *all.tau_s), turns};
    if (!all.tau_s)
        return sonar_fail(err, SONAR_ENOMEM, "manifold", "no memory for the delays of %zu sensors",
                          spec->sensors);
    sonar_code code = sonar_pool_create(workers, NULL, &pool, err);
    if (!code)
        sonar_pool_parallel(pool, rows, make_row, &all);
    sonar_pool_destroy(pool);
    free(all.tau_s);
    return code;
}

sonar_code sonar_manifold_make(const sonar_manifold_spec *spec, uint64_t **table,
                               sonar_error *err) {
    *table = NULL;
    size_t rows = sonar_max_size(spec->ranges, 1), count;
    if (__builtin_mul_overflow(rows, spec->scan->count, &rows) ||
        __builtin_mul_overflow(rows, spec->sensors, &count))
        return sonar_fail(err, SONAR_ENOMEM, "manifold", "table too large to count");
    uint64_t *turns = sonar_alloc(count, sizeof *turns);
    if (!turns)
        return sonar_fail(err, SONAR_ENOMEM, "manifold",
                          "no memory for %zu directions of %zu sensors", rows, spec->sensors);
    const sonar_code code = make_rows(spec, rows, turns, err);
    if (code)
        free(turns);
    else
        *table = turns;
    return code;
}
