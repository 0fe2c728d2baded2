/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cbf/general.h"

#include <stdlib.h>
#include <string.h>

#include "cbf/cpu.h"
#include "core/core.h"
#include "core/isa.h"

enum {
    SENSOR_TILE = 64, /* sensors, or pairs of them, whose weights fit into the first-level cache */
    LANES_MOST = 16,
    GROUP_MOST = 4,                         /* snapshots of a group, at most */
    POSITIONS = GENERAL_BINS + GENERAL_UNIT /* positions of a block's bins, in whole tiles */
};

#define PLANE(lanes) (SENSOR_TILE * (lanes))

/* One vector of slots at a tile of sensors, for some tiles of bins. A plane is
 * [SENSOR_TILE][lane]. */
struct pass {
    const float *x; /* [tile][sensor][bin][snapshot][re, im]; if folded, of the sums and of the
                       differences */
    size_t tiles, sensors;
    float *wave; /* weights, a plane each of re and im; if folded, also of the opposite sensors */
    const float *turn; /* the weights' rotations from bin to bin, in the same planes */
    float *sum;        /* [tile][bin][snapshot][re, im][lane]; if folded, of the sums and of the
                          differences */
};

/* ---- kernels --------------------------------------------------------------------------------- */

/* Bins of a tile and number of snapshots that are summed together. */
struct shape {
    void (*run)(const struct pass *pass);
    size_t bins, snapshots;
};

struct kernel {
    size_t lanes;
    struct shape shape[2][2]; /* [folded][group] */
    void (*powers)(const float *sum, bool folded, double *point, double *image);
};

#if SONAR_HAS_WIDE
#define NAME(of) of##_v4
#define TARGET   SONAR_TARGET_V4
#define LANES    16
#define SUMS     16
#include "cbf/general_kernel.h"

#define NAME(of) of##_v3
#define TARGET   SONAR_TARGET_V3
#define LANES    8
#define SUMS     8
#include "cbf/general_kernel.h"
#endif

#define NAME(of) of##_any
#define TARGET
#define LANES 4
#define SUMS  8
#include "cbf/general_kernel.h"

static const struct kernel *const kernels[SONAR_ISAS] = {
#if SONAR_HAS_WIDE
    [SONAR_ISA_V4] = &kernel_v4,
    [SONAR_ISA_V3] = &kernel_v3,
#endif
    [SONAR_ISA_BASELINE] = &kernel_any,
};

/* ---- cuts ------------------------------------------------------------------------------------ */

struct scratch {
    float x[SENSOR_TILE * POSITIONS * GROUP_MOST * 4];
    float up[4 * PLANE(LANES_MOST)], down[4 * PLANE(LANES_MOST)], turn[4 * PLANE(LANES_MOST)];
    uint64_t turns[PLANE(LANES_MOST)];
    float sum[GENERAL_SLOTS * POSITIONS * GROUP_MOST * 2];
};

struct general {
    const struct kernel *kernel;
    size_t sensors;
    struct scratch *scratch; /* [worker] */
};

/* How a task's bins are laid out: first the bins from the middle upwards, then those below it,
 * downwards. The last tile of the upper part need not be full. */
struct layout {
    const struct shape *shape;
    size_t planes; /* planes of a sum */
    size_t middle, up_tiles, down_tiles, positions;
};

static struct layout layout_of(const general *g, const general_input *in,
                               const general_slots *slots) {
    const bool folded = slots->pair != NULL;
    struct layout l = {.shape = &g->kernel->shape[folded][in->snapshots > 1],
                       .planes = folded ? 4 : 2,
                       .middle = (in->bins + GENERAL_UNIT) / 2 / GENERAL_UNIT * GENERAL_UNIT};
    l.up_tiles = (in->bins - l.middle + l.shape->bins - 1) / l.shape->bins;
    l.down_tiles = l.middle / l.shape->bins;
    l.positions = (l.up_tiles + l.down_tiles) * l.shape->bins;
    return l;
}

static size_t position_of(const struct layout *l, size_t bin) {
    return bin >= l->middle ? bin - l->middle : l->up_tiles * l->shape->bins + l->middle - 1 - bin;
}

static const float *sum_at(const general *g, const struct layout *l, size_t vector, size_t bin,
                           size_t snapshot, size_t worker) {
    const size_t row = vector * l->positions + position_of(l, bin);
    return g->scratch[worker].sum +
           (row * l->shape->snapshots + snapshot) * l->planes * g->kernel->lanes;
}

/* ---- input ----------------------------------------------------------------------------------- */

typedef float two __attribute__((vector_size(8)));
typedef float four __attribute__((vector_size(16)));

SONAR_MULTIARCH static void copy_plain(const sonar_c32 *x, const float *g, size_t n, size_t stride,
                                       float *to) {
    for (size_t k = 0; k < n; k++, to += stride) {
        two value;
        memcpy(&value, x + k, sizeof value);
        value *= g[k];
        memcpy(to, &value, sizeof value);
    }
}

/* Halves of the sums and differences of n sensors, from x upwards, and of the opposite ones, from
 * `last` downwards. */
SONAR_MULTIARCH static void copy_folded(const sonar_c32 *x, const float *g, const sonar_c32 *last,
                                        const float *last_g, size_t n, size_t stride, float *to) {
    for (size_t k = 0; k < n; k++, to += stride) {
        const sonar_c32 a = x[k], b = *(last - k);
        /* an odd array's middle sensor is its own opposite, and counts once */
        const float gain = g[k] / 2, other = x + k == last - k ? 0 : *(last_g - k) / 2;
        const four one = {a.re, a.im, a.re, a.im}, opposite = {b.re, b.im, -b.re, -b.im};
        const four folded = gain * one + other * opposite;
        memcpy(to, &folded, sizeof folded);
    }
}

/* Loads the task's bins of n sensors from `first` on, shaded; if folded, with their opposites.
 * Where a tile or a group is not full, old values stay; their sums are never read. */
static void load_tile(const general *g, const general_input *in, const struct layout *l,
                      size_t first, size_t n, float *to) {
    const size_t bins = l->shape->bins, snapshots = l->shape->snapshots;
    const size_t stride = bins * snapshots * l->planes, last = g->sensors - 1 - first;
    for (size_t b = 0; b < in->bins; b++)
        for (size_t s = 0; s < in->snapshots; s++) {
            const size_t at = position_of(l, b);
            const sonar_c32 *x =
                in->x + (ptrdiff_t)s * in->snapshot_stride + (ptrdiff_t)b * in->bin_stride;
            float *row = to + at / bins * n * stride + (at % bins * snapshots + s) * l->planes;
            if (l->planes == 2)
                copy_plain(x + first, in->shading + first, n, stride, row);
            else
                copy_folded(x + first, in->shading + first, x + last, in->shading + last, n, stride,
                            row);
        }
}

static void prefetch(const void *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 64)
        __builtin_prefetch((const char *)from + at, 0, 2);
}

/* Prefetches a share of the input of a tile of sensors. Its rows are too short for the processor's
 * own prefetcher. */
static void prefetch_input(const general *g, const general_input *in, bool folded, size_t share,
                           size_t shares, size_t first, size_t n) {
    for (size_t b = in->bins * share / shares; b < in->bins * (share + 1) / shares; b++)
        for (size_t s = 0; s < in->snapshots; s++) {
            const sonar_c32 *x =
                in->x + (ptrdiff_t)s * in->snapshot_stride + (ptrdiff_t)b * in->bin_stride;
            prefetch(x + first, n * sizeof *x);
            if (folded)
                prefetch(x + g->sensors - first - n, n * sizeof *x);
        }
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Turns of a vector of slots at n sensors from `first` on, or at their opposites: [sensor][lane].
 * Lanes beyond the last slot repeat the last one. */
static void gather_turns(const general *g, const general_slots *slots, size_t vector, size_t first,
                         size_t n, bool opposite, uint64_t *turns) {
    const size_t lanes = g->kernel->lanes;
    for (size_t i = 0; i < lanes; i++) {
        const size_t slot = slots->first + sonar_min_size(vector * lanes + i, slots->count - 1);
        const size_t point = slots->pair ? slots->pair[slot].point : slot;
        const uint64_t *from = slots->turns + point * slots->row;
        if (opposite)
            for (size_t k = 0; k < n; k++)
                turns[k * lanes + i] = from[g->sensors - 1 - first - k];
        else
            for (size_t k = 0; k < n; k++)
                turns[k * lanes + i] = from[first + k];
    }
}

/* Computes, from the weights at the middle bin, those at the bin below and the rotation
 * downwards. */
SONAR_MULTIARCH static void turn_down(const float *up, float *turn, float *down, size_t plane,
                                      size_t n) {
    for (size_t i = 0; i < n; i++) {
        down[i] = up[i] * turn[i] + up[plane + i] * turn[plane + i];
        down[plane + i] = up[plane + i] * turn[i] - up[i] * turn[plane + i];
    }
}

SONAR_MULTIARCH static void negate(float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = -x[i];
}

/* Sums all the task's bins for one vector of slots over a tile of sensors. */
static void sum_vector(const general *g, const general_slots *slots, const struct layout *l,
                       size_t vector, size_t first, size_t n, uint64_t middle_bin,
                       struct scratch *scratch) {
    const size_t lanes = g->kernel->lanes, plane = PLANE(lanes), values = n * lanes;
    const size_t tile = l->shape->bins * l->shape->snapshots * l->planes;
    for (size_t at = 0; at < l->planes * plane; at += 2 * plane) {
        float *up = scratch->up + at, *turn = scratch->turn + at;
        gather_turns(g, slots, vector, first, n, at > 0, scratch->turns);
        sonar_cbf_steer(scratch->turns, values, middle_bin, up, up + plane);
        sonar_cbf_steer(scratch->turns, values, 1, turn, turn + plane);
        if (l->down_tiles)
            turn_down(up, turn, scratch->down + at, plane, values);
    }
    struct pass pass = {.x = scratch->x,
                        .tiles = l->up_tiles,
                        .sensors = n,
                        .wave = scratch->up,
                        .turn = scratch->turn,
                        .sum = scratch->sum +
                               vector * l->positions * l->shape->snapshots * l->planes * lanes};
    l->shape->run(&pass);
    for (size_t at = plane; at < l->planes * plane && l->down_tiles; at += 2 * plane)
        negate(scratch->turn + at, values);
    pass.x += l->up_tiles * n * tile;
    pass.sum += l->up_tiles * tile * lanes;
    pass.tiles = l->down_tiles;
    pass.wave = scratch->down;
    l->shape->run(&pass);
}

/* ---- sums ------------------------------------------------------------------------------------ */

void general_sum(general *g, const general_input *in, const general_slots *slots, size_t worker) {
    struct scratch *scratch = g->scratch + worker;
    const struct layout l = layout_of(g, in, slots);
    const size_t lanes = g->kernel->lanes, vectors = (slots->count + lanes - 1) / lanes;
    const size_t sensors = slots->pair ? (g->sensors + 1) / 2 : g->sensors;
    memset(scratch->sum, 0,
           vectors * l.positions * l.shape->snapshots * l.planes * lanes * sizeof *scratch->sum);
    for (size_t k = 0; k < sensors; k += SENSOR_TILE) {
        const size_t n = sonar_min_size(sensors - k, SENSOR_TILE);
        load_tile(g, in, &l, k, n, scratch->x);
        const size_t next = k + n, more = sonar_min_size(sensors - next, SENSOR_TILE);
        for (size_t v = 0; v < vectors; v++) {
            prefetch_input(g, in, slots->pair, v, vectors, next, more);
            sum_vector(g, slots, &l, v, k, n, in->first_bin + l.middle, scratch);
        }
    }
}

void general_powers(const general *g, const general_input *in, const general_slots *slots,
                    size_t bin, size_t snapshot, size_t worker, double *point, double *image) {
    const struct layout l = layout_of(g, in, slots);
    const size_t lanes = g->kernel->lanes;
    for (size_t v = 0; v * lanes < slots->count; v++)
        g->kernel->powers(sum_at(g, &l, v, bin, snapshot, worker), slots->pair != NULL,
                          point + v * lanes, image + v * lanes);
}

void general_beams(const general *g, const general_input *in, const general_slots *slots,
                   size_t slot, size_t bin, size_t snapshot, size_t worker, sonar_c32 y[2]) {
    const struct layout l = layout_of(g, in, slots);
    const size_t lanes = g->kernel->lanes;
    const float *sum = sum_at(g, &l, slot / lanes, bin, snapshot, worker) + slot % lanes;
    y[0] = (sonar_c32){sum[0], sum[lanes]};
    if (!slots->pair)
        return;
    y[1] = (sonar_c32){sum[0] - sum[2 * lanes], sum[lanes] - sum[3 * lanes]};
    y[0] = (sonar_c32){sum[0] + sum[2 * lanes], sum[lanes] + sum[3 * lanes]};
}

/* ---- life ------------------------------------------------------------------------------------ */

size_t general_lanes(const general *g) {
    return g->kernel->lanes;
}

size_t general_group(const general *g, bool folded, size_t left) {
    const size_t group = g->kernel->shape[folded][1].snapshots;
    return left <= group / 2
               ? 1
               : sonar_min_size(left,
                                group); /* for half a group or less, single snapshots are faster */
}

double general_bytes(size_t workers) {
    return (double)workers * (double)sizeof(struct scratch);
}

void general_destroy(general *g) {
    if (!g)
        return;
    free(g->scratch);
    free(g);
}

sonar_code general_create(const sonar_cbf_spec *spec, const sonar_host *host, general **made,
                          sonar_error *err) {
    const char *asked = sonar_host_choice(host, "cbf.general");
    const sonar_isa isa = sonar_isa_choose(asked);
    *made = NULL;
    if (isa == SONAR_ISAS)
        return sonar_fail(err, SONAR_EINVAL, "cbf", "this processor cannot run kernels for %s",
                          asked);
    general *g = sonar_alloc(1, sizeof *g);
    if (g)
        g->scratch = sonar_alloc(host->workers, sizeof *g->scratch);
    if (!g || !g->scratch) {
        general_destroy(g);
        return sonar_fail(err, SONAR_ENOMEM, "cbf", "no memory for the stage");
    }
    g->kernel = kernels[isa];
    g->sensors = spec->sensors;
    *made = g;
    return SONAR_OK;
}
