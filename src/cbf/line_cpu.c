/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cbf/line.h"

#include <stdlib.h>
#include <string.h>

#include "cbf/cpu.h"
#include "core/core.h"
#include "core/isa.h"

enum {
    LANES_MOST = 16,
    TILE_MOST = 4,
    SPAN_LEAST = 8,
    SPAN_MOST = 128,
    SENSORS_LEAST = 2 * SPAN_LEAST
};

/* One vector of pairs of points at one bin. */
struct pass {
    const float *folded; /* [tile][half][column of the tile][4]: sums and differences, re and im */
    size_t tiles, half;  /* half: pairs of places in a column */
    const float *cos, *sin;             /* [half][lane] */
    const float *column_re, *column_im; /* [tile][lane] of its first column's middle */
    float step[2 * LANES_MOST];         /* [re, im][lane] from a column to the next */
    float *y;                           /* [points' re, im, images' re, im][lane] */
};

/* ---- kernels --------------------------------------------------------------------------------- */

#if SONAR_HAS_WIDE
#define KERNEL run_v4
#define TARGET SONAR_TARGET_V4
#define LANES  16
#define TILE   4
#include "cbf/line_kernel.h"

#define KERNEL run_v3
#define TARGET SONAR_TARGET_V3
#define LANES  8
#define TILE   2
#include "cbf/line_kernel.h"

#endif

#define KERNEL run_any
#define TARGET
#define LANES 4
#define TILE  2
#include "cbf/line_kernel.h"

static const struct kernel {
    void (*run)(const struct pass *pass);
    size_t lanes, tile;
} kernels[SONAR_ISAS] = {
#if SONAR_HAS_WIDE
    [SONAR_ISA_V4] = {run_v4, 16, 4},
    [SONAR_ISA_V3] = {run_v3, 8, 2},
#endif
    [SONAR_ISA_BASELINE] = {run_any, 4, 2},
};

/* NULL: the path is turned off, or the one asked for does not run here. */
static const struct kernel *choose_kernel(const sonar_host *host) {
    const sonar_isa isa = sonar_isa_choose(sonar_host_choice(host, "cbf.line"));
    return isa < SONAR_ISAS ? &kernels[isa] : NULL;
}

/* ---- the table ------------------------------------------------------------------------------- */

struct line {
    const struct kernel *kernel;
    size_t sensors, points, span, tiles;
    size_t row; /* of pairs: whole vectors */
    bool known, holds;
    uint64_t version, made; /* of the parameters that were looked at, and as their manifold says */
    size_t pairs;
    struct mirror *pair;
    uint64_t
        *half_step; /* [row] half the turns from a sensor to the next; 0 beyond the last pair */
    float *scratch;
    size_t scratch_floats; /* of each worker */
};

static bool read_table(line *l, const uint64_t *turns) {
    uint64_t step;
    for (size_t p = 0; p < l->points; p++)
        if (!is_even(turns + p * l->sensors, l->sensors, &step))
            return false;
    l->pairs = find_mirrors(turns, l->points, l->sensors, l->points, l->pair);
    memset(l->half_step, 0, l->row * sizeof *l->half_step);
    for (size_t i = 0; i < l->pairs; i++) {
        is_even(turns + l->pair[i].point * l->sensors, l->sensors, &step);
        l->half_step[i] = (uint64_t)((int64_t)step / 2);
    }
    return true;
}

bool line_takes(line *l, const sonar_params *params) {
    const sonar_manifold *table = &params->far_cbf;
    const bool same =
        l->known && ((table->made && table->made == l->made) || params->version == l->version);
    if (!same)
        l->holds = read_table(l, table->turns);
    l->known = true;
    l->made = table->made;
    l->version = params->version;
    return l->holds;
}

/* ---- one bin --------------------------------------------------------------------------------- */

/* Where a worker's parts of the scratch begin, in floats; all are whole vectors. */
struct places {
    size_t folded, wave, column, y, beam, end;
};

static struct places places_of(const line *l) {
    const size_t lanes = l->kernel->lanes, half = l->span / 2;
    struct places at = {.folded = 0};
    at.wave = at.folded + l->tiles * l->kernel->tile * half * 4;
    at.column = at.wave + 2 * half * lanes;
    at.y = at.column + 2 * l->tiles * lanes;
    at.beam = at.y + 4 * lanes;
    at.end = at.beam + (2 * l->points + LANES_MOST) / LANES_MOST * LANES_MOST;
    return at;
}

typedef float four __attribute__((vector_size(16)));

/* Sums and differences of the sensors that lie opposite each other in a column, shaded. */
SONAR_MULTIARCH static void fold_column(const sonar_c32 *x, const float *g, size_t half,
                                        size_t stride, float *to) {
    for (size_t i = 0; i < half; i++, to += stride) {
        const sonar_c32 high = x[half + i], low = x[half - 1 - i];
        const float gain = g[half + i], other = g[half - 1 - i];
        const four a = {high.re, high.im, high.re, high.im}, b = {low.re, low.im, -low.re, -low.im};
        const four sum = gain * a + other * b;
        memcpy(to, &sum, sizeof sum);
    }
}

static void fold(const line *l, const sonar_c32 *x, const float *g, float *folded) {
    const size_t half = l->span / 2, tile = l->kernel->tile, columns = l->tiles * tile;
    sonar_c32 rest_x[SPAN_MOST] = {{0}};
    float rest_g[SPAN_MOST] = {0};
    for (size_t c = 0; c < columns; c++) {
        float *to = folded + (c / tile * half * tile + c % tile) * 4;
        const size_t first = sonar_min_size(c * l->span, l->sensors);
        const size_t n = sonar_min_size(l->sensors - first, l->span);
        if (n == l->span) {
            fold_column(x + first, g + first, half, tile * 4, to);
            continue;
        }
        memset(rest_x, 0, sizeof rest_x);
        memset(rest_g, 0, sizeof rest_g);
        memcpy(rest_x, x + first, n * sizeof *x);
        memcpy(rest_g, g + first, n * sizeof *g);
        fold_column(rest_x, rest_g, half, tile * 4, to);
    }
}

/* The weights of one vector of pairs: of the places, of the tiles' first columns, and the step from
 * column to column. */
static void steer_vector(const line *l, const uint64_t *half_step, uint64_t bin, float *wave,
                         float *column, float *step) {
    const size_t lanes = l->kernel->lanes, half = l->span / 2;
    uint64_t turns[SPAN_MOST / 2 * LANES_MOST];
    for (size_t i = 0; i < half; i++)
        for (size_t p = 0; p < lanes; p++)
            turns[i * lanes + p] = (2 * i + 1) * half_step[p];
    sonar_cbf_steer(turns, half * lanes, bin, wave, wave + half * lanes);
    for (size_t t = 0; t < l->tiles; t++) {
        const size_t sensor = t * l->kernel->tile * l->span;
        for (size_t p = 0; p < lanes; p++)
            turns[p] = (2 * sensor + l->span - 1) * half_step[p];
        sonar_cbf_steer(turns, lanes, bin, column + t * lanes, column + (l->tiles + t) * lanes);
    }
    for (size_t p = 0; p < lanes; p++)
        turns[p] = 2 * l->span * half_step[p];
    sonar_cbf_steer(turns, lanes, bin, step, step + lanes);
}

const sonar_c32 *line_beams(const line *l, const sonar_c32 *x, const float *g, uint64_t bin,
                            size_t worker) {
    const struct places at = places_of(l);
    const size_t lanes = l->kernel->lanes, half = l->span / 2;
    float *scratch = l->scratch + worker * l->scratch_floats;
    float *wave = scratch + at.wave, *column = scratch + at.column, *y = scratch + at.y;
    sonar_c32 *beam = (sonar_c32 *)(scratch + at.beam);
    struct pass pass = {.folded = scratch + at.folded,
                        .tiles = l->tiles,
                        .half = half,
                        .cos = wave,
                        .sin = wave + half * lanes,
                        .column_re = column,
                        .column_im = column + l->tiles * lanes,
                        .y = y};
    fold(l, x, g, scratch + at.folded);
    for (size_t first = 0; first < l->pairs; first += lanes) {
        steer_vector(l, l->half_step + first, bin, wave, column, pass.step);
        l->kernel->run(&pass);
        for (size_t p = 0; p < lanes && first + p < l->pairs; p++) {
            const struct mirror *pair = &l->pair[first + p];
            beam[pair->point] = (sonar_c32){y[p], y[lanes + p]};
            if (pair->image != NO_POINT)
                beam[pair->image] = (sonar_c32){y[2 * lanes + p], y[3 * lanes + p]};
        }
    }
    return beam;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Near the root of the sensors, where weights of places and of columns cost alike. */
static size_t span_of(size_t sensors) {
    size_t span = SPAN_LEAST;
    while (span < SPAN_MOST && span * span < sensors)
        span *= 2;
    return span;
}

void line_destroy(line *l) {
    if (!l)
        return;
    free(l->pair);
    free(l->half_step);
    free(l->scratch);
    free(l);
}

sonar_code line_create(const sonar_cbf_spec *spec, const sonar_host *host, line **made,
                       sonar_error *err) {
    const struct kernel *kernel = choose_kernel(host);
    *made = NULL;
    if (spec->sensors < SENSORS_LEAST || !kernel)
        return SONAR_OK;
    line *l = sonar_alloc(1, sizeof *l);
    if (!l)
        return sonar_fail(err, SONAR_ENOMEM, "cbf", "no memory for the stage");
    const size_t span = span_of(spec->sensors), tile = span * kernel->tile;
    l->kernel = kernel;
    l->sensors = spec->sensors;
    l->points = spec->directions;
    l->span = span;
    l->tiles = (spec->sensors + tile - 1) / tile;
    l->row = (spec->directions + kernel->lanes - 1) / kernel->lanes * kernel->lanes;
    l->scratch_floats = places_of(l).end;
    l->pair = sonar_alloc(l->points, sizeof *l->pair);
    l->half_step = sonar_alloc(l->row, sizeof *l->half_step);
    l->scratch = sonar_alloc(host->workers * l->scratch_floats, sizeof *l->scratch);
    if (!l->pair || !l->half_step || !l->scratch) {
        line_destroy(l);
        return sonar_fail(err, SONAR_ENOMEM, "cbf", "no memory for %zu directions",
                          spec->directions);
    }
    *made = l;
    return SONAR_OK;
}
