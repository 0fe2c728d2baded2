/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "analysis/sped/sped.h"

#include <math.h>
#include <stdlib.h>

#include "core/arena.h"
#include "core/core.h"
#include "manifold/angle.h"

/* A side of a peak counts as at most 20 dB deep, as in sonar_parabola. */
static const double deepest = 0.01;
/* Stretches for means differ by a quarter of an octave, so that one table serves all bins. */
enum { STEPS = 4 };

struct peak {
    size_t at;     /* the extended direction of the highest power */
    double around; /* mean power */
};

/* The directions of a stretch, [from, to), and 1 divided by the sum of their widths. */
struct stretch {
    uint32_t from, to;
    double share;
};

/* On a circle the directions are extended by a turn before and after them. Places are in beam
 * widths at the band's top. */
struct sonar_sped {
    size_t first_bin, bins, directions, extended, before;
    size_t stretches;
    double *at;              /* [extended] place */
    double *width;           /* [directions] width of each */
    double *sum;             /* [extended + 1] scratch: of width times power */
    double *record;          /* [directions] scratch */
    struct peak *peak;       /* [directions] scratch */
    struct stretch *stretch; /* [stretches][directions] around each direction, in rising width; less
                                than all directions */
    double all;              /* sum of all widths */
};

static void list(sonar_sped *s, sonar_arena *arena) {
    SONAR_ARENA(arena, s->at, s->extended);
    SONAR_ARENA(arena, s->width, s->directions);
    SONAR_ARENA(arena, s->sum, s->extended + 1);
    SONAR_ARENA(arena, s->record, s->directions);
    SONAR_ARENA(arena, s->peak, s->directions);
    SONAR_ARENA(arena, s->stretch, sonar_times(s->stretches, s->directions));
}

void sonar_sped_destroy(sonar_sped *s) {
    if (!s)
        return;
    sonar_arena arena = {.pass = SONAR_ARENA_FREE};
    list(s, &arena);
    free(s);
}

/* Half of a stretch, in beam widths at the bin's frequency for step 0. */
static double half_of(size_t step) {
    return SONAR_SPED_AROUND * exp2((double)step / STEPS);
}

/* The direction of an extended one. */
static size_t direction(const sonar_sped *s, size_t e) {
    while (e >= s->directions)
        e -= s->directions;
    return e;
}

static void place(sonar_sped *s, const sonar_scan *scan) {
    const size_t n = s->directions;
    for (size_t e = 0; e < s->extended; e++) {
        const double turns = scan->wraps ? (double)(e / n) - 1 : 0;
        s->at[e] = sonar_beams_at(scan, scan->az_deg[e % n]) + turns * 360 / sonar_beam_width(scan);
    }
    for (size_t i = 0; i < n; i++) {
        const size_t e = i + s->before, low = e ? e - 1 : e, high = e + 1 < s->extended ? e + 1 : e;
        s->width[i] = (s->at[high] - s->at[low]) / (double)(high - low);
        s->all += s->width[i];
    }
}

/* Sets the stretches of a step. `sum` has the sums of the widths. */
static void place_stretches(sonar_sped *s, size_t step) {
    struct stretch *to = s->stretch + step * s->directions;
    const double half = half_of(step), *at = s->at + s->before;
    size_t from = 0, end = 0;
    for (size_t i = 0; i < s->directions; i++) {
        while (s->at[from] < at[i] - half)
            from++;
        while (end < s->extended && s->at[end] < at[i] + half)
            end++;
        to[i] = (struct stretch){(uint32_t)from, (uint32_t)end, 1 / (s->sum[end] - s->sum[from])};
    }
}

static size_t count_stretches(const sonar_scan *scan) {
    const double half = scan->wraps ? 180 / sonar_beam_width(scan)
                                    : sonar_beams_at(scan, scan->az_deg[scan->count - 1]) -
                                          sonar_beams_at(scan, scan->az_deg[0]);
    size_t count = 0;
    while (half_of(count) < half)
        count++;
    return count;
}

static sonar_sped sizes_of(const sonar_sped_spec *spec) {
    const sonar_scan *scan = spec->scan;
    const size_t before = scan->wraps ? scan->count : 0;
    return (sonar_sped){.first_bin = spec->first_bin,
                        .bins = spec->bins,
                        .directions = scan->count,
                        .before = before,
                        .extended = scan->count + 2 * before,
                        .stretches = count_stretches(scan)};
}

double sonar_sped_bytes(const sonar_sped_spec *spec) {
    sonar_sped s = sizes_of(spec);
    sonar_arena arena = {.pass = SONAR_ARENA_MEASURE};
    list(&s, &arena);
    return arena.bytes;
}

sonar_code sonar_sped_create(const sonar_sped_spec *spec, sonar_sped **made, sonar_error *err) {
    const sonar_scan *scan = spec->scan;
    *made = NULL;
    if (scan->count < 3 || !spec->bins)
        return sonar_fail(err, SONAR_EINVAL, "sped", "peaks need three directions and a bin");
    sonar_sped *s = sonar_alloc(1, sizeof *s);
    if (!s)
        return sonar_fail(err, SONAR_ENOMEM, "sped", "no memory");
    *s = sizes_of(spec);
    sonar_arena arena = {.pass = SONAR_ARENA_ALLOCATE};
    list(s, &arena);
    if (arena.failed) {
        sonar_sped_destroy(s);
        return sonar_fail(err, SONAR_ENOMEM, "sped", "no memory");
    }
    place(s, scan);
    for (size_t e = 0; e < s->extended; e++)
        s->sum[e + 1] = s->sum[e] + s->width[direction(s, e)];
    for (size_t step = 0; step < s->stretches; step++)
        place_stretches(s, step);
    *made = s;
    return SONAR_OK;
}

/* ---- one bin --------------------------------------------------------------------------------- */

/* Sums width times power. False: the bin has no power, or a value that is not finite. */
static bool add_up(sonar_sped *s, const float *power) {
    const size_t n = s->directions;
    for (size_t i = 0; i < n; i++)
        s->sum[i + 1] = s->sum[i] + s->width[i] * (double)power[i];
    const double all = s->sum[n];
    for (size_t e = n; e < s->extended; e++)
        s->sum[e + 1] = s->sum[e + 1 - n] + all;
    return all > 0 && isfinite(all);
}

static size_t find_peaks(const sonar_sped *s, const float *power) {
    const size_t n = s->directions;
    const bool circle = s->before > 0;
    size_t found = 0;
    if (circle ? power[0] > power[n - 1] && power[0] >= power[1] : power[0] > power[1])
        s->peak[found++].at = s->before;
    for (size_t i = 1; i + 1 < n;
         i++) { /* without branches, which would be mispredicted in noise */
        s->peak[found].at = s->before + i;
        found += (power[i] > power[i - 1]) & (power[i] >= power[i + 1]);
    }
    if (power[n - 1] > power[n - 2] && (!circle || power[n - 1] >= power[0]))
        s->peak[found++].at = s->before + n - 1;
    return found;
}

/* The power around each peak: half of the mean over the nearest stretch, plus a quarter of the mean
 * over a stretch twice as wide, and so on. So a source counts with the inverse square of its
 * distance, which is how its side lobes fall. */
static void find_around(const sonar_sped *s, size_t peaks, double beam) {
    double share = 0.5;
    size_t step = 0;
    while (step < s->stretches && half_of(step) < SONAR_SPED_AROUND * beam)
        step++;
    for (size_t p = 0; p < peaks; p++)
        s->peak[p].around = 0;
    for (; step < s->stretches; step += STEPS, share /= 2) {
        const struct stretch *around = s->stretch + step * s->directions;
        for (size_t p = 0; p < peaks; p++) {
            const struct stretch *a = &around[s->peak[p].at - s->before];
            s->peak[p].around += share * a->share * (s->sum[a->to] - s->sum[a->from]);
        }
    }
    for (size_t p = 0; p < peaks; p++)
        s->peak[p].around += 2 * share * s->sum[s->directions] / s->all;
}

/* The top of the parabola, in dB, through the three directions around the highest one, or at the
 * end of the scan. False: there is no top, or it is beyond the end by more than the reach. */
static bool find_top(const sonar_sped *s, const float *power, size_t at, double *top) {
    const size_t middle = at == 0 ? 1 : at + 1 < s->extended ? at : at - 1;
    const double *x = &s->at[middle], p = (double)power[direction(s, middle)];
    const double a = x[-1] - x[0], b = x[1] - x[0],
                 ya = log(fmax((double)power[direction(s, middle - 1)] / p, deepest)),
                 yb = log(fmax((double)power[direction(s, middle + 1)] / p, deepest));
    const sonar_bow bow = sonar_bow_through(a, ya, b, yb);
    *top = x[0] - bow.slope / (2 * bow.bend);
    return bow.bend < 0 && *top > s->at[0] - SONAR_SPED_REACH &&
           *top < s->at[s->extended - 1] + SONAR_SPED_REACH;
}

/* Adds a peak to the directions within its reach. On a grid that is coarser than the reach, it
 * counts in the two directions beside it. */
static void gather(const sonar_sped *s, const float *power, const struct peak *p) {
    const double over = (double)power[direction(s, p->at)] / p->around - 1;
    double top;
    if (!(over > 0) || !find_top(s, power, p->at, &top))
        return;
    const size_t side = top < s->at[p->at] && p->at ? p->at - 1 : p->at,
                 cell = sonar_min_size(side, s->extended - 2);
    const double reach = fmax(SONAR_SPED_REACH, s->at[cell + 1] - s->at[cell]);
    size_t e = p->at;
    while (e && s->at[e - 1] > top - reach)
        e--;
    for (; e < s->extended && s->at[e] < top + reach; e++)
        s->record[direction(s, e)] += over * (1 - fabs(s->at[e] - top) / reach);
}

void sonar_sped_run(sonar_sped *s, const float *power, float *record) {
    const size_t n = s->directions;
    const double last = (double)(s->first_bin + s->bins - 1);
    for (size_t i = 0; i < n; i++)
        s->record[i] = 0;
    for (size_t b = 0; b < s->bins; b++) {
        const float *row = power + b * n;
        if (!add_up(s, row))
            continue;
        const size_t peaks = find_peaks(s, row);
        find_around(s, peaks, last / (double)(s->first_bin + b));
        for (size_t p = 0; p < peaks; p++)
            gather(s, row, &s->peak[p]);
    }
    for (size_t i = 0; i < n; i++)
        record[i] = (float)(s->record[i] / (double)s->bins);
}
