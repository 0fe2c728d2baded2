/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "analysis/faint/faint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/core.h"
#include "manifold/angle.h"

/* Rates: of a contact that is faint and stays so, in beam widths a minute. Levels: the faintest one
 * and its multiples in dB. */
enum { RATES = 13, LEVELS = 3, CELLS_MOST = 8192 };
static const double rate_step_bpm = 0.5, cell_beams = 0.5;
static const double lasts_s = 300, steady_s = 100; /* mean durations of a contact, of its rate */
static const double level_memory_s = 20;
static const double blind_beams = 1.25; /* nearer than this to a listed contact, the power is its */
static const double cleared_beams = 1.5, together_beams = 1;
static const float most_odds = 1e8F;
/* The ratio's noise is itself a mean, of the powers in 16 beam widths, and no sea is quite even: a
 * part of the averages does not count, and more than this number count for nothing. */
static const double counted = 0.9, averages_most = 200;
static const double most_evidence = 30; /* log of a window's ratio of likelihoods */

struct sonar_faint {
    size_t cells, directions;
    bool wraps, cone;
    double first_beams, spacing_beams, beam; /* of the cells; beam: in the unit of places */
    size_t *direction;                       /* [cell] the nearest one */
    double level[LEVELS];                    /* power over the noise */
    double offset[RATES];                    /* of the hypotheses from their cells, in cells */
    float *odds;                             /* [level][rate][cell] */
    float *likelihood;                       /* [level][cell] */
    float *row[2];                           /* [cell] scratch */
    float *mass;                             /* [cell] odds of any rate and level */
    float *recent;                           /* [cell] recent mean of the ratio, 0: no window yet */
};

static float *odds_of(const sonar_faint *f, size_t level, size_t rate) {
    return f->odds + (level * RATES + rate) * f->cells;
}

static double rate_of(size_t rate) { /* beam widths a minute */
    return rate_step_bpm * ((double)rate - (RATES - 1) / 2.0);
}

/* ---- create ---------------------------------------------------------------------------------- */

static bool lay_out(sonar_faint *f, sonar_arena_pass pass) {
    sonar_arena arena = {.pass = pass};
    SONAR_ARENA(&arena, f->direction, f->cells);
    SONAR_ARENA(&arena, f->odds, f->cells * RATES * LEVELS);
    SONAR_ARENA(&arena, f->likelihood, f->cells * LEVELS);
    SONAR_ARENA(&arena, f->row[0], f->cells);
    SONAR_ARENA(&arena, f->row[1], f->cells);
    SONAR_ARENA(&arena, f->mass, f->cells);
    SONAR_ARENA(&arena, f->recent, f->cells);
    return !arena.failed;
}

void sonar_faint_destroy(sonar_faint *f) {
    if (f)
        lay_out(f, SONAR_ARENA_FREE);
    free(f);
}

/* Cells as far apart as directions are, if these are farther apart than half a beam width. */
static void choose_cells(sonar_faint *f, const sonar_scan *scan) {
    const size_t gaps = scan->count - (scan->wraps ? 0 : 1);
    f->first_beams = sonar_beams_at(scan, scan->az_deg[0]);
    const double span = scan->wraps
                            ? 360 / sonar_beam_width(scan)
                            : sonar_beams_at(scan, scan->az_deg[scan->count - 1]) - f->first_beams;
    const double spacing = fmax(cell_beams, span / (double)sonar_max_size(gaps, 1));
    const double steps = fmin(fmax(floor(span / spacing + 1e-9), 1), CELLS_MOST - 1);
    f->spacing_beams = span / steps;
    f->cells = span < 3 ? 0 : (size_t)steps + (scan->wraps ? 0 : 1);
}

static double beams_of(const sonar_faint *f, double cell) {
    return f->first_beams + cell * f->spacing_beams;
}

static void find_directions(sonar_faint *f, const sonar_scan *scan) {
    size_t at = 0;
    for (size_t c = 0; c < f->cells; c++) {
        const double place = beams_of(f, (double)c);
        while (at + 1 < scan->count && fabs(sonar_beams_at(scan, scan->az_deg[at + 1]) - place) <=
                                           fabs(sonar_beams_at(scan, scan->az_deg[at]) - place))
            at++;
        f->direction[c] = at;
    }
}

sonar_code sonar_faint_create(const sonar_faint_spec *spec, sonar_faint **faint, sonar_error *err) {
    const sonar_scan *scan = spec->scan;
    sonar_faint *f = *faint = sonar_alloc(1, sizeof *f);
    if (f) {
        f->directions = scan->count;
        f->wraps = scan->wraps;
        f->cone = scan->cone;
        f->beam = sonar_beam_width(scan) * (scan->cone ? 1 : SONAR_RADIANS);
        choose_cells(f, scan);
        for (size_t l = 0; l < LEVELS; l++)
            f->level[l] = pow(10, 0.1 * spec->least_db * (double)(l + 1)) - 1;
    }
    if (f && (f->cells == 0 || !(spec->least_db > 0 && spec->least_db < 100))) {
        sonar_faint_destroy(f);
        *faint = NULL;
        return sonar_fail(err, SONAR_EINVAL, "faint",
                          "the scan has less than three beam widths, or the level is not above 0 "
                          "and below 100 dB");
    }
    if (!f || !lay_out(f, SONAR_ARENA_ALLOCATE)) {
        sonar_faint_destroy(f);
        *faint = NULL;
        return sonar_fail(err, SONAR_ENOMEM, "faint", "no memory for %zu directions", scan->count);
    }
    find_directions(f, scan);
    return SONAR_OK;
}

void sonar_faint_take_over(sonar_faint *f, const sonar_faint *from) {
    if (f->cells != from->cells || f->directions != from->directions || f->wraps != from->wraps ||
        f->cone != from->cone || f->beam != from->beam || f->first_beams != from->first_beams ||
        memcmp(f->level, from->level, sizeof f->level) != 0)
        return;
    memcpy(f->odds, from->odds, f->cells * RATES * LEVELS * sizeof *f->odds);
    memcpy(f->mass, from->mass, f->cells * sizeof *f->mass);
    memcpy(f->recent, from->recent, f->cells * sizeof *f->recent);
    memcpy(f->offset, from->offset, sizeof f->offset);
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* The distance of a place from a cell, in cells. */
static double cells_apart(const sonar_faint *f, double place_beams, size_t cell) {
    const double apart = (place_beams - beams_of(f, (double)cell)) / f->spacing_beams;
    return f->wraps ? remainder(apart, (double)f->cells) : apart;
}

static double beams_at(const sonar_faint *f, double az_deg) {
    return (f->cone ? -cos(az_deg * SONAR_RADIANS) : az_deg * SONAR_RADIANS) / f->beam;
}

/* Sets `value` in the cells nearer than `reach_beams` to the place. */
static void set_beside(const sonar_faint *f, float *cell, double az_deg, double reach_beams,
                       float value) {
    const double place = beams_at(f, az_deg);
    for (size_t c = 0; c < f->cells; c++)
        if (fabs(cells_apart(f, place, c)) * f->spacing_beams < reach_beams)
            cell[c] = value;
}

void sonar_faint_clear(sonar_faint *f, double az_deg) {
    for (size_t i = 0; i < LEVELS * RATES; i++)
        set_beside(f, f->odds + i * f->cells, az_deg, cleared_beams, 0);
}

/* ---- a window -------------------------------------------------------------------------------- */

/* Moves a row by `by` cells, away from its first one if positive. Beyond the ends of a scan that
 * does not wrap there is no contact. */
static void shift(sonar_faint *f, float *row, ptrdiff_t by) {
    const ptrdiff_t n = (ptrdiff_t)f->cells;
    memcpy(f->row[0], row, f->cells * sizeof *row);
    for (ptrdiff_t c = 0; c < n; c++) {
        const ptrdiff_t from = c - by;
        const bool inside = from >= 0 && from < n;
        row[c] = inside || f->wraps ? f->row[0][(from % n + n) % n] : 0;
    }
}

static void move(sonar_faint *f, double since_s, double turned_beams) {
    for (size_t r = 0; r < RATES; r++) {
        const double moved =
            f->offset[r] + (rate_of(r) * since_s / 60 - turned_beams) / f->spacing_beams;
        const double by = fmin(fmax(round(moved), -(double)f->cells), (double)f->cells);
        f->offset[r] = fmin(fmax(moved - by, -0.5), 0.5);
        for (size_t l = 0; l < LEVELS && by != 0; l++)
            shift(f, odds_of(f, l, r), (ptrdiff_t)by);
    }
}

/* Moves a part of each rate's odds to its neighbours. */
static void mix_rates(sonar_faint *f, double since_s) {
    const float part = (float)((1 - exp(-since_s / steady_s)) / 2);
    const size_t bytes = f->cells * sizeof *f->odds;
    for (size_t l = 0; l < LEVELS; l++) {
        memcpy(f->row[0], odds_of(f, l, 0), bytes);
        for (size_t r = 0; r < RATES; r++) {
            float *own = odds_of(f, l, r), *below = f->row[0], *kept = f->row[1];
            const float *above = odds_of(f, l, r + 1 < RATES ? r + 1 : r);
            memcpy(kept, own, bytes);
            for (size_t c = 0; c < f->cells; c++)
                own[c] = (1 - 2 * part) * kept[c] + part * (below[c] + above[c]);
            f->row[0] = kept;
            f->row[1] = below;
        }
    }
}

static void weigh(sonar_faint *f, const sonar_faint_window *w) {
    const double averages = fmin(counted * w->averages, averages_most) * w->fresh;
    for (size_t l = 0; l < LEVELS; l++) {
        const double s = f->level[l], slope = averages * s / (1 + s), fixed = averages * log1p(s);
        float *likelihood = f->likelihood + l * f->cells;
        for (size_t c = 0; c < f->cells; c++) {
            const double log = slope * (double)w->ratio[f->direction[c]] - fixed;
            likelihood[c] = (float)exp(fmin(fmax(log, -most_evidence), most_evidence));
        }
        for (size_t i = 0; i < w->count; i++)
            set_beside(f, likelihood, w->of_deg[i], blind_beams, 1);
    }
}

static void update(sonar_faint *f, double since_s) {
    const float stays = (float)exp(-since_s / lasts_s);
    const float born =
        (float)(SONAR_FAINT_BIRTHS_PER_S * since_s / (double)(f->cells * RATES * LEVELS));
    memset(f->mass, 0, f->cells * sizeof *f->mass);
    for (size_t l = 0; l < LEVELS; l++)
        for (size_t r = 0; r < RATES; r++) {
            float *odds = odds_of(f, l, r);
            const float *likelihood = f->likelihood + l * f->cells;
            for (size_t c = 0; c < f->cells; c++) {
                const float now = (stays * odds[c] + born) * likelihood[c];
                odds[c] = now < most_odds ? now : most_odds;
                f->mass[c] += odds[c];
            }
        }
}

static void average(sonar_faint *f, const sonar_faint_window *w) {
    const float part = (float)(1 - exp(-w->since_s / level_memory_s));
    for (size_t c = 0; c < f->cells; c++) {
        const float now = w->ratio[f->direction[c]];
        f->recent[c] += f->recent[c] > 0 ? part * (now - f->recent[c]) : now;
    }
}

void sonar_faint_run(sonar_faint *f, const sonar_faint_window *w) {
    move(f, w->since_s, f->wraps ? w->turned_deg * SONAR_RADIANS / f->beam : 0);
    mix_rates(f, w->since_s);
    weigh(f, w);
    update(f, w->since_s);
    average(f, w);
}

/* ---- contacts -------------------------------------------------------------------------------- */

static ptrdiff_t reach_of(const sonar_faint *f) {
    return (ptrdiff_t)ceil(together_beams / f->spacing_beams);
}

/* False: beyond the end of the scan. */
static bool cell_at(const sonar_faint *f, size_t cell, ptrdiff_t off, size_t *at) {
    const ptrdiff_t n = (ptrdiff_t)f->cells, i = (ptrdiff_t)cell + off;
    *at = (size_t)((i + n) % n);
    return f->wraps || (i >= 0 && i < n);
}

/* The odds within a beam width, 0 unless the cell has the largest of them. */
static double odds_around(const sonar_faint *f, size_t cell) {
    double sum = 0;
    for (ptrdiff_t off = -reach_of(f); off <= reach_of(f); off++) {
        size_t at;
        if (!cell_at(f, cell, off, &at))
            continue;
        if (f->mass[at] > f->mass[cell] || (f->mass[at] == f->mass[cell] && off < 0))
            return 0;
        sum += (double)f->mass[at];
    }
    return sum;
}

/* The moments of the hypotheses around a cell. Within its cell and step a hypothesis is anywhere.
 */
static sonar_faint_contact contact_at(const sonar_faint *f, size_t cell, double odds) {
    double at = 0, rate = 0, at2 = 0, rate2 = 0, level = 0, sum = 0;
    for (ptrdiff_t off = -reach_of(f); off <= reach_of(f); off++) {
        size_t c;
        if (!cell_at(f, cell, off, &c))
            continue;
        for (size_t i = 0; i < LEVELS * RATES; i++) {
            const double weight = (double)f->odds[i * f->cells + c];
            const double x = ((double)off + f->offset[i % RATES]) * f->spacing_beams;
            const double v = rate_of(i % RATES);
            sum += weight;
            at += weight * x, rate += weight * v, level += weight * (double)f->recent[c];
            at2 += weight * x * x, rate2 += weight * v * v;
        }
    }
    at /= sum, rate /= sum;
    const double var = at2 / sum - at * at + f->spacing_beams * f->spacing_beams / 12;
    const double var_rate = rate2 / sum - rate * rate + rate_step_bpm * rate_step_bpm / 12;
    const double beams = beams_of(f, (double)cell) + at, per_s = f->beam / 60;
    const double place = beams * f->beam, way = f->cone ? -1 : 1;
    return (sonar_faint_contact){.probability = odds / (1 + odds),
                                 .snr_db = sonar_decibel(level / sum),
                                 .az_deg = (f->cone ? acos(fmin(fmax(-place, -1), 1)) : place) /
                                           SONAR_RADIANS,
                                 .place = way * place,
                                 .rate_ps = way * rate * per_s,
                                 .var_place = var * f->beam * f->beam,
                                 .var_rate = var_rate * per_s * per_s};
}

size_t sonar_faint_find(const sonar_faint *f, double least,
                        sonar_faint_contact contact[SONAR_FAINT_MOST]) {
    size_t count = 0;
    for (size_t c = 0; c < f->cells; c++) {
        const double odds = odds_around(f, c);
        if (!(odds / (1 + odds) >= least) || !(odds > 0))
            continue;
        const sonar_faint_contact is = contact_at(f, c, odds);
        size_t at = count < SONAR_FAINT_MOST ? count++ : SONAR_FAINT_MOST;
        for (; at > 0 && contact[at - 1].probability < is.probability; at--)
            if (at < SONAR_FAINT_MOST)
                contact[at] = contact[at - 1];
        if (at < SONAR_FAINT_MOST)
            contact[at] = is;
    }
    return count;
}
