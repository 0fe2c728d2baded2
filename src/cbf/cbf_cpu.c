/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Conventional beamformer on the CPU. The far field of a uniform line has a path of its own
 * (line.h); what follows is for any geometry and for the near field: nothing is stored per
 * direction and bin.
 *
 * A task is one block of bins times one tile of look points (far-field directions, or points of the
 * near field). It goes through the sensors tile by tile; the tile's bins are copied into planes of
 * eight sensors (a vector), and for every point and vector the steering vector runs along the
 * bins in registers, w(b+1) = w(b) * rotation. It starts at the block's middle, from exact turns,
 * and runs both ways, so it is never more than 64 steps from an exact phase. Of several snapshots,
 * up to four share one steering vector; powers are added snapshot by snapshot. All cuts follow from
 * the problem alone, and every sum has a fixed order, so that the number of workers cannot change a
 * bit.
 */
#include "cbf/cbf.h"

#include "cbf/cpu.h"
#include "cbf/line.h"
#include "core/core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LANES = 8,        /* sensors of one vector */
    SENSOR_TILE = 64, /* with BLOCK_BINS: 64 KiB of input, which the second-level cache holds */
    BLOCK_BINS = 128,
    ROW = BLOCK_BINS + 1, /* odd: rows of neighbouring vectors do not share cache sets */
    POINT_TILE = 32,      /* points that share one copy of the input */
    GROUP = 4,            /* snapshots that share one steering vector */
    GROUP_LEAST = 3,      /* fewer are faster one by one */
    LINE_BINS = 8         /* of a task on the line's path */
};

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

struct planar {
    lanes re, im;
};

/* Steering vectors of a tile at a block's middle bin, and their rotation from bin to bin. */
struct wave {
    float start_re[SENSOR_TILE], start_im[SENSOR_TILE];
    float rotation_re[SENSOR_TILE], rotation_im[SENSOR_TILE];
};

struct scratch {
    struct planar x[GROUP][SENSOR_TILE / LANES][ROW];
    struct planar sum[POINT_TILE * GROUP][ROW]; /* [point][snapshot of the group] */
    double power[POINT_TILE][BLOCK_BINS];
    struct wave wave[2];
};

/* A run of bins, counted from the input's first. */
struct block {
    size_t first, bins;
    bool in_band;
};

/* The input's bins cut into blocks: below the band, in it, above it; room for any band. */
struct cuts {
    struct block *block;
    size_t blocks, band_block, band_blocks, most_bins;
};

/* What the tasks of one parallel call share. */
struct job {
    const struct cuts *cuts;
    const struct block *block;
    size_t blocks, points;
    const uint64_t *turns; /* [point][sensor] */
    size_t turns_row;
    const float *shading;
    double power_scale;  /* 1 / (sum g)^2 / snapshots */
    sonar_buffer *lofar; /* [bin][point], or NULL */
    sonar_c32 *part;     /* [snapshot][bin][point] y, and neither energy nor lofar; or NULL */
    size_t part_first, part_bins; /* its bins, counted from the input's first */
    double part_scale;            /* 1 / sum g */
};

struct cbf {
    sonar_cbf_spec spec;
    const sonar_host *host;
    struct cuts any, line_cuts; /* of the general path, of the line's */
    line *line;                 /* NULL: none */
    size_t capacity;            /* points of one job */
    double *energy;             /* [block of the band][point of the job] */
    struct scratch *scratch;    /* [worker] */
    double *power;              /* [worker][direction] on the line's path */
    sonar_buffer x;             /* input of the last execute, lent by the caller */
    struct job job;
};

/* ---- steering vectors ------------------------------------------------------------------------ */

/* Integer arithmetic reduces the phase to an octant exactly; Taylor's series up to 45 degrees are
 * then good to float32 rounding. */
SONAR_MULTIARCH void sonar_cbf_steer(const uint64_t *turns, size_t n, uint64_t bin, float *re,
                                     float *im) {
    const float radians = (float)(2 * M_PI / 4294967296.0);
    for (size_t k = 0; k < n; k++) {
        uint32_t phase = (uint32_t)((bin * turns[k]) >> 32);
        uint32_t quadrant = (phase + (1u << 29)) >> 30;
        float a = (float)(int32_t)(phase - (quadrant << 30)) * radians, z = a * a;
        float s = a + a * z * (-1.f / 6 + z * (1.f / 120 + z * (-1.f / 5040 + z / 362880)));
        float c =
            1 + z * (-.5f + z * (1.f / 24 + z * (-1.f / 720 + z * (1.f / 40320 - z / 3628800))));
        float x = quadrant & 1 ? s : c, y = quadrant & 1 ? c : s;
        re[k] = (quadrant + 1) & 2 ? -x : x;
        im[k] = quadrant & 2 ? -y : y;
    }
}

/* Lanes beyond the n-th sensor keep what was there, which is finite, and meet an input of zero. */
static void steer_tile(const uint64_t *turns, size_t n, uint64_t middle, struct wave *wave) {
    sonar_cbf_steer(turns, n, middle, wave->start_re, wave->start_im);
    sonar_cbf_steer(turns, n, 1, wave->rotation_re, wave->rotation_im);
}

/* ---- the inner loop -------------------------------------------------------------------------- */

/* sum += conj(w) x, then w *= rotation; or, with the rotation's sign turned, the other way. */
#define STEP(w, x, total)                                                                          \
    do {                                                                                           \
        (total).re += (w).re * (x).re + (w).im * (x).im;                                           \
        (total).im += (w).re * (x).im - (w).im * (x).re;                                           \
    } while (0)
#define TURN(w, r_re, r_im)                                                                        \
    do {                                                                                           \
        lanes turned = (w).re * (r_re) - (w).im * (r_im);                                          \
        (w).im = (w).re * (r_im) + (w).im * (r_re);                                                \
        (w).re = turned;                                                                           \
    } while (0)

static inline __attribute__((always_inline)) void fetch(const float *re, const float *im,
                                                        size_t vector, struct planar *out) {
    memcpy(&out->re, re + vector * LANES, sizeof out->re);
    memcpy(&out->im, im + vector * LANES, sizeof out->im);
}

/* Adds conj(w) x of `vectors` vectors of sensors to every bin's sum, for two points at once: the
 * input is loaded once for both, and two points both ways are four chains, enough to hide the
 * latency of a multiply-add. */
SONAR_MULTIARCH static void accumulate(const struct planar (*x)[ROW], size_t vectors, size_t bins,
                                       const struct wave wave[2], struct planar (*sum)[ROW]) {
    size_t middle = bins / 2;
    for (size_t v = 0; v < vectors; v++) {
        struct planar r0, r1, up0, up1;
        fetch(wave[0].rotation_re, wave[0].rotation_im, v, &r0);
        fetch(wave[1].rotation_re, wave[1].rotation_im, v, &r1);
        fetch(wave[0].start_re, wave[0].start_im, v, &up0);
        fetch(wave[1].start_re, wave[1].start_im, v, &up1);
        struct planar down0 = up0, down1 = up1;
        for (size_t j = 0; j < middle; j++) {
            size_t above = middle + j, below = middle - 1 - j;
            STEP(up0, x[v][above], sum[0][above]);
            STEP(up1, x[v][above], sum[1][above]);
            TURN(up0, r0.re, r0.im);
            TURN(up1, r1.re, r1.im);
            TURN(down0, r0.re, -r0.im);
            TURN(down1, r1.re, -r1.im);
            STEP(down0, x[v][below], sum[0][below]);
            STEP(down1, x[v][below], sum[1][below]);
        }
        if (bins % 2) {
            STEP(up0, x[v][bins - 1], sum[0][bins - 1]);
            STEP(up1, x[v][bins - 1], sum[1][bins - 1]);
        }
    }
}

/* As STEP, with two roundings fewer. */
#define FUSE(w, x, total)                                                                          \
    do {                                                                                           \
        (total).re = (total).re + (w).re * (x).re + (w).im * (x).im;                               \
        (total).im = (total).im + (w).re * (x).im - (w).im * (x).re;                               \
    } while (0)

/* Two vectors of sensors of GROUP snapshots at the bins of one half of a block. Sums are loaded
 * once for both vectors, and the weights serve all the snapshots. */
static inline __attribute__((always_inline)) void
run_group(const struct planar (*x)[SENSOR_TILE / LANES][ROW], size_t v, const struct wave *wave,
          bool down, size_t first, size_t bins, struct planar (*sum)[ROW]) {
    struct planar w[2], r[2];
    for (size_t i = 0; i < 2; i++) {
        fetch(wave->start_re, wave->start_im, v + i, &w[i]);
        fetch(wave->rotation_re, wave->rotation_im, v + i, &r[i]);
        r[i].im = down ? -r[i].im : r[i].im;
    }
    for (size_t j = 0; j < bins; j++) {
        size_t b = down ? first - j : first + j;
        if (down || j > 0) {
            TURN(w[0], r[0].re, r[0].im);
            TURN(w[1], r[1].re, r[1].im);
        }
        for (int s = 0; s < GROUP; s++) {
            struct planar total = sum[s][b];
            FUSE(w[0], x[s][v][b], total);
            FUSE(w[1], x[s][v + 1][b], total);
            sum[s][b] = total;
        }
    }
}

/* As accumulate, for one point and GROUP snapshots; `vectors` is even. */
SONAR_MULTIARCH static void accumulate_group(const struct planar (*x)[SENSOR_TILE / LANES][ROW],
                                             size_t vectors, size_t bins, const struct wave *wave,
                                             struct planar (*sum)[ROW]) {
    size_t middle = bins / 2;
    for (size_t v = 0; v < vectors; v += 2) {
        run_group(x, v, wave, false, middle, bins - middle, sum);
        run_group(x, v, wave, true, middle - 1, middle, sum);
    }
}

/* ---- one task -------------------------------------------------------------------------------- */

/* g_k X_k of LANES sensors at one bin: pairs taken apart into planes. */
static inline __attribute__((always_inline)) void load_lanes(const sonar_c32 *x, const float *g,
                                                             struct planar *out) {
    lanes low, high, weight;
    memcpy(&low, x, sizeof low);
    memcpy(&high, x + LANES / 2, sizeof high);
    memcpy(&weight, g, sizeof weight);
    out->re = weight * __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14);
    out->im = weight * __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15);
}

/* A tile of sensors; lanes beyond the last sensor are zero. */
SONAR_MULTIARCH static void load_tile(const sonar_c32 *x, ptrdiff_t row, size_t bins,
                                      const float *g, size_t n, struct planar (*out)[ROW]) {
    size_t whole = n / LANES, rest = n % LANES;
    float rest_g[LANES] = {0};
    sonar_c32 rest_x[LANES] = {{0}};
    memcpy(rest_g, g + whole * LANES, rest * sizeof *g);
    for (size_t b = 0; b < bins; b++, x += row) {
        for (size_t v = 0; v < whole; v++)
            load_lanes(x + v * LANES, g + v * LANES, &out[v][b]);
        if (rest) {
            memcpy(rest_x, x + whole * LANES, rest * sizeof *x);
            load_lanes(rest_x, rest_g, &out[whole][b]);
        }
    }
}

/* Two points at a time, one snapshot. */
static void add_pairs_of_points(const uint64_t *turns, size_t turns_row, size_t points, size_t n,
                                const struct block *block, uint64_t middle,
                                struct scratch *scratch) {
    for (size_t p = 0; p < points; p += 2) {
        for (size_t i = 0; i < 2; i++) { /* an odd tile's last point is done twice */
            size_t point = sonar_min_size(p + i, points - 1);
            steer_tile(turns + point * turns_row, n, middle, &scratch->wave[i]);
        }
        accumulate(scratch->x[0], (n + LANES - 1) / LANES, block->bins, scratch->wave,
                   scratch->sum + p);
    }
}

/* Sums over the sensors of snapshots first .. first + count - 1: one, or a group, in which those
 * that are not there are zero. */
static void sum_sensors(const struct cbf *cbf, const struct block *block, const uint64_t *turns,
                        size_t points, size_t first, size_t count, struct scratch *scratch) {
    ptrdiff_t row = cbf->x.stride[1];
    const sonar_c32 *x = (const sonar_c32 *)cbf->x.data + (ptrdiff_t)first * cbf->x.stride[0] +
                         (ptrdiff_t)block->first * row;
    uint64_t middle = cbf->spec.first_bin + block->first + block->bins / 2;
    size_t rows = count > 1 ? points * GROUP : points + points % 2;
    memset(scratch->sum, 0, rows * sizeof *scratch->sum);
    if (count > 1 && count < GROUP)
        memset(scratch->x[count], 0, (GROUP - count) * sizeof *scratch->x);
    for (size_t k = 0; k < cbf->spec.sensors; k += SENSOR_TILE) {
        size_t n = sonar_min_size(cbf->spec.sensors - k, SENSOR_TILE);
        for (size_t s = 0; s < count; s++)
            load_tile(x + (ptrdiff_t)s * cbf->x.stride[0] + k, row, block->bins,
                      cbf->job.shading + k, n, scratch->x[s]);
        if (count == 1) {
            add_pairs_of_points(turns + k, cbf->job.turns_row, points, n, block, middle, scratch);
            continue;
        }
        size_t vectors = (n + LANES - 1) / LANES;
        for (size_t s = 0; s < count && vectors % 2; s++)
            memset(scratch->x[s][vectors], 0, sizeof scratch->x[s][vectors]);
        for (size_t p = 0; p < points; p++) {
            steer_tile(turns + p * cbf->job.turns_row + k, n, middle, scratch->wave);
            accumulate_group(scratch->x, vectors + vectors % 2, block->bins, scratch->wave,
                             scratch->sum + p * GROUP);
        }
    }
}

static void add_lanes(const struct planar *sum, double y[2]) {
    y[0] = y[1] = 0;
    for (int i = 0; i < LANES; i++) {
        y[0] += (double)sum->re[i];
        y[1] += (double)sum->im[i];
    }
}

static double beam_power(const struct planar *sum) {
    double y[2];
    add_lanes(sum, y);
    return y[0] * y[0] + y[1] * y[1];
}

/* y of one snapshot at a tile's points, the first of which is the job's `first_point`. */
static void keep_parts(const struct job *job, const struct block *block, size_t first_point,
                       size_t points, size_t snapshot, const struct planar (*sum)[ROW],
                       size_t row) {
    for (size_t b = 0; b < block->bins; b++) {
        const size_t bin = block->first - job->part_first + b;
        sonar_c32 *to = job->part + (snapshot * job->part_bins + bin) * job->points + first_point;
        for (size_t p = 0; p < points; p++) {
            double y[2];
            add_lanes(&sum[p * row][b], y);
            to[p] = (sonar_c32){(float)(job->part_scale * y[0]), (float)(job->part_scale * y[1])};
        }
    }
}

/* Powers of a tile of points at a block's bins, summed over the snapshots; or the parts, kept. */
static void sum_powers(const struct cbf *cbf, const struct block *block, size_t first_point,
                       size_t points, struct scratch *scratch) {
    const uint64_t *turns = cbf->job.turns + first_point * cbf->job.turns_row;
    size_t snapshots = cbf->x.shape[0], count;
    memset(scratch->power, 0, points * sizeof *scratch->power);
    for (size_t done = 0; done < snapshots; done += count) {
        size_t left = snapshots - done;
        count = left < GROUP_LEAST ? 1 : sonar_min_size(left, GROUP);
        size_t row = count > 1 ? GROUP : 1;
        sum_sensors(cbf, block, turns, points, done, count, scratch);
        for (size_t s = 0; cbf->job.part && s < count; s++)
            keep_parts(&cbf->job, block, first_point, points, done + s,
                       (const struct planar(*)[ROW])scratch->sum + s, row);
        for (size_t p = 0; p < points && !cbf->job.part; p++)
            for (size_t b = 0; b < block->bins; b++)
                for (size_t s = 0; s < count; s++)
                    scratch->power[p][b] += beam_power(&scratch->sum[p * row + s][b]);
    }
}

/* Energies of a block of the band. */
static double *band_row(const struct cbf *cbf, const struct block *block) {
    const struct cuts *cuts = cbf->job.cuts;
    return cbf->energy + (size_t)(block - cuts->block - cuts->band_block) * cbf->job.points;
}

static float *lofar_row(const struct job *job, size_t bin) {
    return (float *)job->lofar->data + (ptrdiff_t)bin * job->lofar->stride[0];
}

static void beam_task(void *arg, size_t index, size_t worker) {
    struct cbf *cbf = arg;
    const struct job *job = &cbf->job;
    struct scratch *scratch = cbf->scratch + worker;
    size_t tiles = (job->points + POINT_TILE - 1) / POINT_TILE;
    size_t first = index % tiles * POINT_TILE;
    size_t points = sonar_min_size(job->points - first, POINT_TILE);
    const struct block *block = job->block + index / tiles;
    double outside[POINT_TILE], *energy = outside;
    if (block->in_band)
        energy = band_row(cbf, block) + first;
    sum_powers(cbf, block, first, points, scratch);
    if (job->part)
        return;
    memset(energy, 0, points * sizeof *energy);
    for (size_t b = 0; b < block->bins; b++) {
        float *lofar = job->lofar ? lofar_row(job, block->first + b) + first : NULL;
        for (size_t p = 0; p < points; p++) {
            double power = job->power_scale * scratch->power[p][b];
            energy[p] += power;
            if (lofar)
                lofar[p] = (float)power;
        }
    }
}

/* ---- one task on the line's path ------------------------------------------------------------- */

/* As keep_parts; the beams are those against sensor 0's phase. */
static void keep_line_parts(const struct job *job, const sonar_c32 *beam, size_t bin,
                            uint64_t absolute_bin, size_t snapshot) {
    sonar_c32 *to = job->part + (snapshot * job->part_bins + bin - job->part_first) * job->points;
    for (size_t p = 0; p < job->points; p++) {
        const uint64_t *first = job->turns + p * job->turns_row;
        float c, s;
        sonar_cbf_steer(first, 1, absolute_bin, &c, &s);
        to[p].re = (float)job->part_scale * (c * beam[p].re + s * beam[p].im);
        to[p].im = (float)job->part_scale * (c * beam[p].im - s * beam[p].re);
    }
}

/* Powers of all points at one bin, summed over the snapshots; or the parts, kept. */
static void line_bin(const struct cbf *cbf, size_t bin, size_t worker, double *power) {
    const struct job *job = &cbf->job;
    const uint64_t absolute_bin = cbf->spec.first_bin + bin;
    memset(power, 0, job->points * sizeof *power);
    for (size_t s = 0; s < cbf->x.shape[0]; s++) {
        const sonar_c32 *x = (const sonar_c32 *)cbf->x.data + (ptrdiff_t)s * cbf->x.stride[0] +
                             (ptrdiff_t)bin * cbf->x.stride[1];
        const sonar_c32 *y = line_beams(cbf->line, x, job->shading, absolute_bin, worker);
        if (job->part)
            keep_line_parts(job, y, bin, absolute_bin, s);
        for (size_t p = 0; p < job->points; p++)
            power[p] += (double)y[p].re * (double)y[p].re + (double)y[p].im * (double)y[p].im;
    }
}

static void line_task(void *arg, size_t index, size_t worker) {
    const struct cbf *cbf = arg;
    const struct job *job = &cbf->job;
    const struct block *block = job->block + index;
    double *power = cbf->power + worker * cbf->spec.directions;
    double *energy = block->in_band ? band_row(cbf, block) : NULL;
    if (energy)
        memset(energy, 0, job->points * sizeof *energy);
    for (size_t b = block->first; b < block->first + block->bins; b++) {
        float *lofar = job->lofar ? lofar_row(job, b) : NULL;
        line_bin(cbf, b, worker, power);
        for (size_t p = 0; p < job->points && !job->part; p++) {
            const double scaled = job->power_scale * power[p];
            if (energy)
                energy[p] += scaled;
            if (lofar)
                lofar[p] = (float)scaled;
        }
    }
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void run(struct cbf *cbf, const struct job *job) {
    size_t tiles = (job->points + POINT_TILE - 1) / POINT_TILE;
    cbf->job = *job;
    if (job->cuts == &cbf->line_cuts)
        cbf->host->parallel(cbf->host->ctx, job->blocks, line_task, cbf);
    else
        cbf->host->parallel(cbf->host->ctx, job->blocks * tiles, beam_task, cbf);
}

/* (fs/N) sum over the band, block by block. */
static void band_energy(const struct cbf *cbf, float *out) {
    double bin_hz = cbf->spec.fs_hz / (double)cbf->spec.length;
    for (size_t p = 0; p < cbf->job.points; p++) {
        double sum = 0;
        for (size_t i = 0; i < cbf->job.cuts->band_blocks; i++)
            sum += cbf->energy[i * cbf->job.points + p];
        out[p] = (float)(bin_hz * sum);
    }
}

static struct job band_job(const struct cbf *cbf, const struct cuts *cuts,
                           const sonar_params *params, size_t points, const uint64_t *turns) {
    double sum = params->shading_sum, snapshots = (double)cbf->x.shape[0];
    return (struct job){.cuts = cuts,
                        .block = cuts->block + cuts->band_block,
                        .blocks = cuts->band_blocks,
                        .points = points,
                        .turns = turns,
                        .turns_row = cbf->spec.sensors,
                        .shading = params->shading,
                        .power_scale = sum != 0 ? 1 / (sum * sum) / snapshots : 0};
}

/* The CBF's bins. */
static void take_parts(const struct cbf *cbf, const sonar_params *params, sonar_buffer *out,
                       struct job *job) {
    job->part = out->data;
    job->part_first = cbf->spec.cbf_first - cbf->spec.first_bin;
    job->part_bins = cbf->spec.cbf_bins;
    job->part_scale = params->shading_sum != 0 ? 1 / params->shading_sum : 0;
}

/* ---- the stage ------------------------------------------------------------------------------- */

static void add_blocks(struct cuts *cuts, size_t first, size_t bins, bool in_band) {
    size_t parts = (bins + cuts->most_bins - 1) / cuts->most_bins;
    for (size_t i = 0; i < parts; i++) {
        size_t from = bins * i / parts, to = bins * (i + 1) / parts;
        cuts->block[cuts->blocks++] = (struct block){first + from, to - from, in_band};
    }
}

static void cut_bins(const sonar_cbf_spec *spec, struct cuts *cuts) {
    size_t below = spec->cbf_first - spec->first_bin, band = spec->cbf_bins;
    cuts->blocks = 0;
    add_blocks(cuts, 0, below, false);
    cuts->band_block = cuts->blocks;
    add_blocks(cuts, below, band, true);
    cuts->band_blocks = cuts->blocks - cuts->band_block;
    add_blocks(cuts, below + band, spec->bins - below - band, false);
}

static bool make_cuts(const sonar_cbf_spec *spec, size_t most_bins, struct cuts *cuts) {
    cuts->most_bins = most_bins;
    cuts->block = sonar_alloc(spec->bins / most_bins + 3, sizeof *cuts->block); /* three runs */
    if (cuts->block)
        cut_bins(spec, cuts);
    return cuts->block != NULL;
}

/* The band of these parameters. */
static sonar_code take_band(struct cbf *cbf, const sonar_params *params, sonar_error *err) {
    bool changed;
    const sonar_code code = sonar_cbf_renew(&cbf->spec, params, &changed, err);
    if (changed) {
        cut_bins(&cbf->spec, &cbf->any);
        cut_bins(&cbf->spec, &cbf->line_cuts);
    }
    return code;
}

static void cbf_destroy(void *stage) {
    struct cbf *cbf = stage;
    if (!cbf)
        return;
    line_destroy(cbf->line);
    free(cbf->any.block);
    free(cbf->line_cuts.block);
    free(cbf->power);
    free(cbf->energy);
    free(cbf->scratch);
    free(cbf);
}

static sonar_code cbf_create(const void *spec, const sonar_host *host, void **stage,
                             sonar_error *err) {
    *stage = NULL;
    sonar_code code = sonar_cbf_check(spec, err);
    if (code)
        return code;
    struct cbf *cbf = sonar_alloc(1, sizeof *cbf);
    if (!cbf)
        return sonar_fail(err, SONAR_ENOMEM, "cbf", "no memory for the stage");
    cbf->spec = *(const sonar_cbf_spec *)spec;
    cbf->host = host;
    cbf->capacity = cbf->spec.directions * sonar_max_size(cbf->spec.ranges, 1);
    const size_t bins = cbf->spec.bins, directions = cbf->spec.directions;
    code = line_create(&cbf->spec, host, &cbf->line, err);
    cbf->scratch = sonar_alloc(host->workers, sizeof *cbf->scratch);
    cbf->power = sonar_alloc(host->workers * directions, sizeof *cbf->power);
    cbf->energy = sonar_alloc(sonar_max_size((bins + BLOCK_BINS - 1) / BLOCK_BINS * cbf->capacity,
                                             (bins + LINE_BINS - 1) / LINE_BINS * directions),
                              sizeof *cbf->energy);
    if (!code && (!make_cuts(&cbf->spec, BLOCK_BINS, &cbf->any) ||
                  !make_cuts(&cbf->spec, LINE_BINS, &cbf->line_cuts) || !cbf->scratch ||
                  !cbf->power || !cbf->energy))
        code = sonar_fail(err, SONAR_ENOMEM, "cbf", "no memory for %zu points", cbf->capacity);
    if (code)
        cbf_destroy(cbf);
    else
        *stage = cbf;
    return code;
}

/* One pass over the far field serves both of its surfaces: all bins if the Lofar is wanted. */
static void far_field(struct cbf *cbf, sonar_buffer *out, const sonar_work *work) {
    const sonar_params *params = work->params;
    const struct cuts *cuts =
        cbf->line && line_takes(cbf->line, params) ? &cbf->line_cuts : &cbf->any;
    struct job job = band_job(cbf, cuts, params, cbf->spec.directions, params->far_cbf.turns);
    if (work->outputs & SONAR_WANT(SONAR_CBF_LOFAR)) {
        job.block = cuts->block;
        job.blocks = cuts->blocks;
        job.lofar = &out[SONAR_CBF_LOFAR];
    }
    if (cbf->spec.parts)
        take_parts(cbf, params, &out[SONAR_CBF_LOFAR], &job);
    if (cbf->spec.parts && job.lofar) {
        job.part_first = 0;
        job.part_bins = cbf->spec.bins;
    }
    run(cbf, &job);
    if (cbf->spec.parts)
        return;
    if (work->outputs & SONAR_WANT(SONAR_CBF_AZIMUTH))
        band_energy(cbf, out[SONAR_CBF_AZIMUTH].data);
}

static sonar_code cbf_execute(void *stage, sonar_queue *queue, const sonar_buffer *in,
                              sonar_buffer *out, const sonar_work *work, sonar_error *err) {
    (void)queue;
    struct cbf *cbf = stage;
    sonar_code code = take_band(cbf, work->params, err);
    if (!code)
        code = sonar_cbf_check_shapes(&cbf->spec, in, out, work, err);
    if (code)
        return code;
    cbf->x = in[0];
    if (work->outputs & (SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_LOFAR)))
        far_field(cbf, out, work);
    if (cbf->spec.ranges && work->outputs & SONAR_WANT(SONAR_CBF_NEARFIELD)) {
        struct job job =
            band_job(cbf, &cbf->any, work->params, cbf->spec.ranges * cbf->spec.directions,
                     work->params->near_cbf.turns);
        if (cbf->spec.parts)
            take_parts(cbf, work->params, &out[SONAR_CBF_NEARFIELD], &job);
        run(cbf, &job);
        if (!cbf->spec.parts)
            band_energy(cbf, out[SONAR_CBF_NEARFIELD].data);
    }
    return SONAR_OK;
}

static sonar_code cbf_evaluate(void *stage, sonar_queue *queue, const sonar_buffer *turns,
                               sonar_buffer *power, const sonar_work *work, sonar_error *err) {
    (void)queue;
    struct cbf *cbf = stage;
    size_t points = turns->shape[0];
    if (!cbf->x.data)
        return sonar_fail(err, SONAR_ESTATE, "cbf", "evaluate before the first execute");
    if (points == 0)
        return SONAR_OK;
    sonar_code code = take_band(cbf, work->params, err);
    if (!code)
        code = sonar_cbf_check_points(&cbf->spec, &cbf->x, turns, power, err);
    if (code)
        return code;
    const size_t most = cbf->spec.parts ? points : cbf->capacity; /* of energies */
    for (size_t done = 0; done < points; done += most) {
        const uint64_t *table = (const uint64_t *)turns->data + (ptrdiff_t)done * turns->stride[0];
        struct job job =
            band_job(cbf, &cbf->any, work->params, sonar_min_size(points - done, most), table);
        job.turns_row = (size_t)turns->stride[0];
        if (cbf->spec.parts)
            take_parts(cbf, work->params, power, &job);
        run(cbf, &job);
        if (!cbf->spec.parts)
            band_energy(cbf, (float *)power->data + done);
    }
    return SONAR_OK;
}

const sonar_stage_ops sonar_cbf_cpu = {.name = "cbf",
                                       .create = cbf_create,
                                       .execute = cbf_execute,
                                       .evaluate = cbf_evaluate,
                                       .destroy = cbf_destroy};
