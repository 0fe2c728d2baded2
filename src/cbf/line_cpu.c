/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cbf/line.h"

#include <stdlib.h>
#include <string.h>

#include "cbf/cpu.h"
#include "core/arena.h"
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
    const float
        *folded; /* [tile][half][column of the tile][4]: sums and differences, each re and im */
    size_t tiles, half;                 /* half: pairs of places in a column */
    const float *cos, *sin;             /* [half][lane] */
    const float *column_re, *column_im; /* [tile][lane] weights of the middle of its first column */
    const float *step_re, *step_im;     /* [lane] rotations from a column to the next */
    float *y;                           /* [re, im of the points, re, im of the images][lane] */
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

/* NULL: the path is turned off, or the processor does not support the kernel asked for. */
static const struct kernel *choose_kernel(const sonar_host *host) {
    const sonar_isa isa = sonar_isa_choose(sonar_host_choice(host, "cbf.line"));
    return isa < SONAR_ISAS ? &kernels[isa] : NULL;
}

/* ---- the table ------------------------------------------------------------------------------- */

struct line {
    const struct kernel *kernel;
    size_t sensors, points, span, tiles;
    size_t vectors; /* vectors of pairs, at most */
    bool known, holds;
    uint64_t version, made; /* the version and content of the table that was examined */
    size_t pairs;
    struct mirror *pair;
    uint64_t *turns; /* [vector of pairs][place, tile, one step][lane]; 0 beyond the last pair */
    float *scratch;
    size_t scratch_floats; /* of each worker */
};

/* Number of a vector's weights: of the places, of the tiles' first columns, and the step from
 * column to column. */
static size_t weights_of(const line *l) {
    return l->span / 2 + l->tiles + 1;
}

/* half_step: half the turns from a sensor to the next. The weights of one lane are `lanes`
 * apart. */
static void fill_turns(const line *l, uint64_t half_step, uint64_t *turns) {
    const size_t lanes = l->kernel->lanes;
    for (size_t i = 0; i < l->span / 2; i++, turns += lanes)
        *turns = (2 * i + 1) * half_step;
    for (size_t t = 0; t < l->tiles; t++, turns += lanes)
        *turns = (2 * t * l->kernel->tile * l->span + l->span - 1) * half_step;
    *turns = 2 * l->span * half_step;
}

static bool read_table(line *l, const uint64_t *turns) {
    const size_t lanes = l->kernel->lanes, row = weights_of(l) * lanes;
    uint64_t step;
    for (size_t p = 0; p < l->points; p++)
        if (!is_even(turns + p * l->sensors, l->sensors, &step))
            return false;
    l->pairs = find_mirrors(turns, l->points, l->sensors, l->points, l->pair);
    memset(l->turns, 0, l->vectors * row * sizeof *l->turns);
    for (size_t i = 0; i < l->pairs; i++) {
        is_even(turns + l->pair[i].point * l->sensors, l->sensors, &step);
        fill_turns(l, (uint64_t)((int64_t)step / 2), l->turns + i / lanes * row + i % lanes);
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

/* Offsets of a worker's parts in the scratch, in floats; all are whole vectors. The weights at the
 * bin and their rotations to the next are laid out as l->turns. */
struct places {
    size_t folded, re, im, rotation_re, rotation_im, y, beam, end;
};

static struct places places_of(const line *l) {
    const size_t lanes = l->kernel->lanes, weights = l->vectors * weights_of(l) * lanes;
    struct places at = {.folded = 0};
    at.re = at.folded + l->tiles * l->kernel->tile * l->span / 2 * 4;
    at.im = at.re + weights;
    at.rotation_re = at.im + weights;
    at.rotation_im = at.rotation_re + weights;
    at.y = at.rotation_im + weights;
    at.beam = at.y + 4 * lanes;
    at.end = at.beam + (2 * l->points + LANES_MOST) / LANES_MOST * LANES_MOST;
    return at;
}

static size_t weights_in_use(const line *l) {
    const size_t lanes = l->kernel->lanes;
    return (l->pairs + lanes - 1) / lanes * weights_of(l) * lanes;
}

void line_steer(const line *l, uint64_t bin, size_t worker) {
    const struct places at = places_of(l);
    float *scratch = l->scratch + worker * l->scratch_floats;
    const size_t n = weights_in_use(l);
    sonar_cbf_steer(l->turns, n, bin, scratch + at.re, scratch + at.im);
    sonar_cbf_steer(l->turns, n, 1, scratch + at.rotation_re, scratch + at.rotation_im);
}

SONAR_MULTIARCH static void turn(size_t n, const float *rotation_re, const float *rotation_im,
                                 float *restrict re, float *restrict im) {
    for (size_t i = 0; i < n; i++) {
        const float turned = re[i] * rotation_re[i] - im[i] * rotation_im[i];
        im[i] = re[i] * rotation_im[i] + im[i] * rotation_re[i];
        re[i] = turned;
    }
}

void line_turn(const line *l, size_t worker) {
    const struct places at = places_of(l);
    float *scratch = l->scratch + worker * l->scratch_floats;
    turn(weights_in_use(l), scratch + at.rotation_re, scratch + at.rotation_im, scratch + at.re,
         scratch + at.im);
}

typedef float four __attribute__((vector_size(16)));

/* Shaded sums and differences of the sensors that lie opposite each other in a column. */
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

const sonar_c32 *line_beams(const line *l, const sonar_c32 *x, const float *g, size_t worker) {
    const struct places at = places_of(l);
    const size_t lanes = l->kernel->lanes, half = l->span / 2, row = weights_of(l) * lanes;
    float *scratch = l->scratch + worker * l->scratch_floats;
    const float *re = scratch + at.re, *im = scratch + at.im;
    float *y = scratch + at.y;
    sonar_c32 *beam = (sonar_c32 *)(scratch + at.beam);
    fold(l, x, g, scratch + at.folded);
    for (size_t first = 0; first < l->pairs; first += lanes, re += row, im += row) {
        const struct pass pass = {.folded = scratch + at.folded,
                                  .tiles = l->tiles,
                                  .half = half,
                                  .cos = re,
                                  .sin = im,
                                  .column_re = re + half * lanes,
                                  .column_im = im + half * lanes,
                                  .step_re = re + row - lanes,
                                  .step_im = im + row - lanes,
                                  .y = y};
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

/* Close to the square root of the number of sensors, where weights of places and of columns cost
 * the same. */
static size_t span_of(size_t sensors) {
    size_t span = SPAN_LEAST;
    while (span < SPAN_MOST && span * span < sensors)
        span *= 2;
    return span;
}

static line sizes_of(const sonar_cbf_spec *spec, const struct kernel *kernel) {
    const size_t span = span_of(spec->sensors), tile = span * kernel->tile;
    line l = {.kernel = kernel,
              .sensors = spec->sensors,
              .points = spec->directions,
              .span = span,
              .tiles = (spec->sensors + tile - 1) / tile,
              .vectors = (spec->directions + kernel->lanes - 1) / kernel->lanes};
    l.scratch_floats = places_of(&l).end;
    return l;
}

static sonar_arena lay_out(line *l, size_t workers, sonar_arena_pass pass) {
    sonar_arena arena = {.pass = pass};
    SONAR_ARENA(&arena, l->pair, l->points);
    SONAR_ARENA(&arena, l->turns, l->vectors * weights_of(l) * l->kernel->lanes);
    SONAR_ARENA(&arena, l->scratch, workers * l->scratch_floats);
    return arena;
}

double line_bytes(const sonar_cbf_spec *spec, size_t workers) {
    const struct kernel *kernel = &kernels[sonar_isa_choose(NULL)];
    line l = sizes_of(spec, kernel);
    return spec->sensors < SENSORS_LEAST ? 0 : lay_out(&l, workers, SONAR_ARENA_MEASURE).bytes;
}

void line_destroy(line *l) {
    if (l)
        lay_out(l, 0, SONAR_ARENA_FREE);
    free(l);
}

sonar_code line_create(const sonar_cbf_spec *spec, const sonar_host *host, line **made,
                       sonar_error *err) {
    const struct kernel *kernel = choose_kernel(host);
    *made = NULL;
    if (spec->sensors < SENSORS_LEAST || !kernel)
        return SONAR_OK;
    line *l = sonar_alloc(1, sizeof *l);
    if (l)
        *l = sizes_of(spec, kernel);
    if (!l || lay_out(l, host->workers, SONAR_ARENA_ALLOCATE).failed) {
        line_destroy(l);
        return sonar_fail(err, SONAR_ENOMEM, "cbf", "no memory for %zu directions",
                          spec->directions);
    }
    *made = l;
    return SONAR_OK;
}
