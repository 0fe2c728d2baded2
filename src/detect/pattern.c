/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "detect/pattern.h"

#include <complex.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/core.h"
#include "core/isa.h"
#include "core/random.h"

enum {
    POINTS_MOST = 16384, /* frequencies of a spectrum */
    POINTS_LEAST = 128,
    POINTS_A_LOBE = 8,
    POINTS_A_TASK =
        1024,     /* for one worker; rotations restart at these points, whichever worker has them */
    KEPT = 1024,  /* a power of two */
    TOGETHER = 4, /* sensors that are summed in registers */
};
static const double error_share = 0.01; /* of an element's power */
static const double least_share_of_top =
    0.01; /* lowest frequency as a share of the top, for a band that begins at 0 Hz */

/* |sum w exp(-2 pi i f difference)|^2 at `points` frequencies from low_hz on. */
typedef struct spectrum {
    double low_hz, step_hz, span_s; /* largest difference of two differences */
    size_t points;
    double *re, *im;
    float *power;
} spectrum;

/* Results are kept, because candidates lie on the grid and occur again in the next window. */
typedef struct kept {
    bool there;
    sonar_point of, at;
    double blur, share[SONAR_PATTERN_PARTS];
} kept;

/* A sensor's contribution at the first of a task's points, and its turn from point to point. */
typedef struct sensor {
    double complex first, step;
} sensor;

/* Adds TOGETHER sensors to re and im of `points` points, and of those after them up to a whole
 * vector. */
typedef void add_sensors(const sensor *sensors, size_t points, double *re, double *im);

struct sonar_pattern {
    add_sensors *add;
    size_t sensors;              /* a multiple of TOGETHER */
    size_t all, used;            /* sensors of the array, and those with a weight */
    double *position_m, *weight; /* [sensor] */
    double *of_s, *at_s;         /* [sensor] scratch */
    const sonar_scan *scan;
    sonar_range_reference reference;
    double c_mps, edge_hz[SONAR_PATTERN_PARTS + 1], floor;
    /* pair: of two places; line: between a cone's two ends, valid if line.points > 0 */
    spectrum pair, line;
    const sonar_host *host;
    kept *kept; /* [KEPT], by hash_of */
};

/* ---- spectra of delays ----------------------------------------------------------------------- */

#define SONAR_KERNELS "detect/pattern_kernel.h"
#include "core/isa_kernels.h"

static add_sensors *const adders[SONAR_ISAS] = SONAR_EACH_ISA(add_sensors);

struct share {
    const sonar_pattern *pattern;
    spectrum *to;
};

static void make_points(void *arg, size_t task, size_t worker) {
    (void)worker;
    const struct share *share = arg;
    const sonar_pattern *p = share->pattern;
    spectrum *s = share->to;
    const size_t begin = task * POINTS_A_TASK;
    const size_t points = sonar_min_size(POINTS_A_TASK, s->points - begin);
    const double first_hz = s->low_hz + (double)begin * s->step_hz;
    memset(s->re + begin, 0, POINTS_A_TASK * sizeof *s->re);
    memset(s->im + begin, 0, POINTS_A_TASK * sizeof *s->im);
    for (size_t k = 0; k < p->sensors; k += TOGETHER) {
        sensor sensors[TOGETHER];
        for (size_t i = 0; i < TOGETHER; i++) {
            const double angle = -2 * M_PI * p->at_s[k + i];
            sensors[i] = (sensor){p->weight[k + i] * cexp(I * angle * first_hz),
                                  cexp(I * angle * s->step_hz)};
        }
        p->add(sensors, points, s->re + begin, s->im + begin);
    }
    for (size_t i = begin; i < begin + points; i++)
        s->power[i] = (float)(s->re[i] * s->re[i] + s->im[i] * s->im[i]);
}

/* Makes the spectrum of the delay differences at[] - of[] from low_hz to high_hz; workers may be
 * NULL. */
static void make_spectrum(const sonar_pattern *p, double low_hz, double high_hz,
                          const sonar_host *workers, spectrum *s) {
    double least = INFINITY, most = -INFINITY;
    for (size_t k = 0; k < p->sensors; k++) {
        p->at_s[k] -= p->of_s[k];
        least = fmin(least, p->weight[k] != 0 ? p->at_s[k] : least);
        most = fmax(most, p->weight[k] != 0 ? p->at_s[k] : most);
    }
    s->span_s = fmax(most - least, 0);
    s->points = (size_t)fmin(fmax(POINTS_A_LOBE * (high_hz - low_hz) * s->span_s, POINTS_LEAST),
                             POINTS_MOST);
    s->low_hz = low_hz;
    s->step_hz = fmax(high_hz - low_hz, DBL_MIN) / (double)(s->points - 1);
    const size_t tasks = (s->points + POINTS_A_TASK - 1) / POINTS_A_TASK;
    struct share share = {p, s};
    if (workers)
        workers->parallel(workers->ctx, tasks, make_points, &share);
    else
        for (size_t i = 0; i < tasks; i++)
            make_points(&share, i, 0);
}

/* The fractional index of a frequency, limited to the points. */
static double point_at(const spectrum *s, double hz) {
    return fmin(fmax((hz - s->low_hz) / s->step_hz, 0), (double)(s->points - 1));
}

static float power_at(const spectrum *s, double point) {
    const size_t below = (size_t)point, above = sonar_min_size(below + 1, s->points - 1);
    const float rest = (float)(point - (double)below);
    return (1 - rest) * s->power[below] + rest * s->power[above];
}

/* Reads the spectrum at frequencies times `factor`. */
static void read_parts(const sonar_pattern *p, const spectrum *s, double factor, double blur,
                       double share[SONAR_PATTERN_PARTS]) {
    const double beside_hz = s->span_s > 0 ? blur / s->span_s : 0;
    for (size_t part = 0; part < SONAR_PATTERN_PARTS; part++) {
        const double first = point_at(s, p->edge_hz[part] * factor - beside_hz);
        const double last = point_at(s, p->edge_hz[part + 1] * factor + beside_hz);
        float most = fmaxf(power_at(s, first), power_at(s, last));
        for (size_t i = (size_t)ceil(first); i <= (size_t)last; i++)
            most = fmaxf(most, s->power[i]);
        share[part] = fmin((double)most + p->floor, 1);
    }
}

/* ---- places ---------------------------------------------------------------------------------- */

static void delays(const sonar_pattern *p, sonar_point place, double *tau_s) {
    double u[3];
    sonar_scan_unit(p->scan, place.az_deg, u);
    if (isfinite(place.range_m))
        sonar_delay_near(p->sensors, p->position_m, u, place.range_m, p->reference, p->scan->axis,
                         p->c_mps, tau_s);
    else
        sonar_delay_far(p->sensors, p->position_m, u, p->c_mps, tau_s);
}

static double cosine(double az_deg) {
    return cos(az_deg * SONAR_RADIANS);
}

static kept *place_for(const sonar_pattern *p, sonar_point of, sonar_point at, double blur) {
    const double key[] = {of.az_deg, of.range_m, at.az_deg, at.range_m, blur};
    uint64_t hash = 0, bits;
    for (size_t i = 0; i < sizeof key / sizeof *key; i++) {
        memcpy(&bits, &key[i], sizeof bits);
        hash = (hash ^ bits) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return &p->kept[hash % KEPT];
}

static bool is_same(sonar_point a, sonar_point b) {
    return a.az_deg == b.az_deg && a.range_m == b.range_m;
}

static void make_shares(sonar_pattern *p, kept *k) {
    delays(p, k->of, p->of_s);
    delays(p, k->at, p->at_s);
    make_spectrum(p, p->edge_hz[0], p->edge_hz[SONAR_PATTERN_PARTS], p->host, &p->pair);
    read_parts(p, &p->pair, 1, k->blur, k->share);
}

void sonar_pattern_shares(void *pattern, sonar_point of, sonar_point at, double blur,
                          double share[SONAR_PATTERN_PARTS]) {
    sonar_pattern *p = pattern;
    const bool far = !isfinite(of.range_m) && !isfinite(at.range_m);
    if (p->line.points && far) {
        const double factor = fabs(cosine(at.az_deg) - cosine(of.az_deg)) / 2;
        read_parts(p, &p->line, factor, blur, share);
        return;
    }
    kept *k = place_for(p, of, at, blur);
    if (!k->there || !is_same(k->of, of) || !is_same(k->at, at) || k->blur != blur) {
        *k = (kept){.there = true, .of = of, .at = at, .blur = blur};
        make_shares(p, k);
    }
    memcpy(share, k->share, sizeof k->share);
}

/* ---- create ---------------------------------------------------------------------------------- */

/* Takes the sensors in use, or one random sensor of each group if there are too many. Those
 * added to make the number a multiple of TOGETHER have weight 0. Weights are divided by their sum.
 */
static void take_sensors(sonar_pattern *p, const double *position_m, const float *weights) {
    const size_t used = p->used, groups = sonar_min_size(used, SONAR_PATTERN_SENSORS);
    size_t seen = 0, taken = 0, chosen = 0;
    uint64_t random = 1;
    double all = 0, squares = 0, sum = 0;
    for (size_t k = 0; k < p->all; k++) {
        const double weight = (double)weights[k];
        if (weight == 0)
            continue;
        all += weight, squares += weight * weight;
        const size_t begin = taken * used / groups, end = (taken + 1) * used / groups;
        if (seen == begin)
            chosen = begin + (size_t)(sonar_random_uniform(&random) * (double)(end - begin));
        if (seen++ != chosen)
            continue;
        memcpy(p->position_m + 3 * taken, position_m + 3 * k, 3 * sizeof(double));
        p->weight[taken++] = weight;
        sum += weight;
    }
    for (size_t k = 0; k < p->sensors; k++)
        p->weight[k] = sum > 0 ? p->weight[k] / sum : 0;
    p->floor = all > 0 ? error_share * squares / (all * all) : 1;
}

static sonar_arena lay_out(sonar_pattern *p, sonar_arena_pass pass) {
    sonar_arena arena = {.pass = pass};
    SONAR_ARENA(&arena, p->position_m, 3 * p->sensors);
    SONAR_ARENA(&arena, p->weight, p->sensors);
    SONAR_ARENA(&arena, p->of_s, p->sensors);
    SONAR_ARENA(&arena, p->at_s, p->sensors);
    SONAR_ARENA(&arena, p->kept, KEPT);
    spectrum *both[2] = {&p->pair, &p->line};
    for (size_t i = 0; i < 2; i++) {
        SONAR_ARENA(&arena, both[i]->re, POINTS_MOST);
        SONAR_ARENA(&arena, both[i]->im, POINTS_MOST);
        SONAR_ARENA(&arena, both[i]->power, POINTS_MOST);
    }
    return arena;
}

static void make_line(sonar_pattern *p) {
    delays(p, (sonar_point){180, INFINITY}, p->of_s);
    delays(p, (sonar_point){0, INFINITY}, p->at_s);
    make_spectrum(p, 0, p->edge_hz[SONAR_PATTERN_PARTS], NULL,
                  &p->line); /* thread-independent: computed by the caller alone */
}

sonar_code sonar_pattern_create(const sonar_pattern_spec *spec, sonar_pattern **pattern,
                                sonar_error *err) {
    sonar_pattern *p = *pattern = sonar_alloc(1, sizeof *p);
    size_t used = 0;
    for (size_t k = 0; k < spec->sensors; k++)
        used += spec->weight[k] != 0;
    const size_t summed = sonar_min_size(sonar_max_size(used, 1), SONAR_PATTERN_SENSORS);
    if (p) {
        *p = (sonar_pattern){.add = adders[sonar_isa_choose(NULL)],
                             .sensors = (summed + TOGETHER - 1) / TOGETHER * TOGETHER,
                             .all = spec->sensors,
                             .used = used,
                             .scan = spec->scan,
                             .reference = spec->reference,
                             .c_mps = spec->c_mps,
                             .host = spec->host};
    }
    if (!p || lay_out(p, SONAR_ARENA_ALLOCATE).failed) {
        sonar_pattern_destroy(p);
        *pattern = NULL;
        return sonar_fail(err, SONAR_ENOMEM, "detect", "no memory for the array's pattern");
    }
    const double low_hz = fmax(spec->low_hz, least_share_of_top * spec->high_hz);
    for (int i = 0; i <= SONAR_PATTERN_PARTS; i++)
        p->edge_hz[i] = low_hz * pow(spec->high_hz / low_hz, (double)i / SONAR_PATTERN_PARTS);
    take_sensors(p, spec->position_m, spec->weight);
    if (spec->scan->cone)
        make_line(p);
    return SONAR_OK;
}

void sonar_pattern_move(sonar_pattern *p, const double *position_m, const float *weight) {
    take_sensors(p, position_m, weight);
    memset(p->kept, 0, KEPT * sizeof *p->kept);
}

void sonar_pattern_destroy(sonar_pattern *p) {
    if (p)
        lay_out(p, SONAR_ARENA_FREE);
    free(p);
}
