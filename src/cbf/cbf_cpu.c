/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Conventional beamformer on the CPU. The far field of a uniform line has a path of its own
 * (line.h); any other table goes through general.h, folded if it is its own mirror image.
 *
 * A task is one block of bins times one tile of slots (look points, or pairs of them). Powers are
 * added snapshot by snapshot. The number of workers does not change a bit of the result: a point's
 * sums do not depend on its tile, blocks depend on the problem alone, and every sum has a fixed
 * order.
 */
#include "cbf/cbf.h"

#include "cbf/cpu.h"
#include "cbf/general.h"
#include "cbf/line.h"
#include "core/arena.h"
#include "core/core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TASKS_OF_WORKER = 2, /* tasks per worker at least, if there are enough slots */
    LINE_BINS = 8        /* bins of a task on the line's path */
};

/* Pairs of points of a table that are each other's mirror images. */
struct fold {
    bool known;
    uint64_t version, made; /* version and content of the table that was examined, as in line.h */
    size_t pairs;           /* 0: points are summed one by one */
    struct mirror *pair;
};

/* Of one worker's task: energies of its slots, and powers of one bin, for points and for images. */
struct scratch {
    double energy[2][GENERAL_SLOTS], power[2][GENERAL_SLOTS];
};

/* A run of bins, counted from the input's first. */
struct block {
    size_t first, bins;
    bool in_band;
};

/* The input's bins cut into blocks: below the band, in it, above it. Has room for any band. */
struct cuts {
    struct block *block;
    size_t blocks, band_block, band_blocks, most_bins, unit;
};

/* What the tasks of one parallel call share. */
struct job {
    const struct cuts *cuts;
    const struct block *block;
    size_t blocks, points;
    const uint64_t *turns; /* [point][sensor] */
    size_t turns_row;
    const struct mirror *pair; /* [slot]; NULL: slot i is point i */
    size_t slots, vectors, tiles;
    const float *shading;
    double power_scale;  /* 1 / (sum g)^2 / snapshots */
    sonar_buffer *lofar; /* [bin][point], or NULL */
    sonar_c32 *part; /* [snapshot][bin][point] y, computed instead of energy and lofar; or NULL */
    size_t part_first, part_bins; /* its bins, counted from the input's first */
    double part_scale;            /* 1 / sum g */
};

struct cbf {
    sonar_cbf_spec spec;
    const sonar_host *host;
    struct cuts any, line_cuts; /* blocks of the general path, and of the line's path */
    line *line;                 /* NULL: the path is not available */
    general *general;
    struct fold far, near;
    size_t capacity;         /* points that one job can have */
    double *energy;          /* [block of the band][point of the job] */
    struct scratch *scratch; /* [worker] */
    double *power;           /* [worker][direction] on the line's path */
    sonar_buffer x;          /* input of the last execute, borrowed from the caller */
    struct job job;
};

/* ---- steering vectors ------------------------------------------------------------------------ */

/* Integer arithmetic reduces the phase to an octant exactly. Taylor series up to 45 degrees are
 * then accurate to float32 rounding. */
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

/* ---- one task -------------------------------------------------------------------------------- */

/* Energies of a block of the band. */
static double *band_row(const struct cbf *cbf, const struct block *block) {
    const struct cuts *cuts = cbf->job.cuts;
    return cbf->energy + (size_t)(block - cuts->block - cuts->band_block) * cbf->job.points;
}

static float *lofar_row(const struct job *job, size_t bin) {
    return (float *)job->lofar->data + (ptrdiff_t)bin * job->lofar->stride[0];
}

/* Writes the points of a slot, one or two, and returns their number. */
static size_t points_of(const struct job *job, size_t slot, size_t point[2]) {
    point[0] = job->pair ? job->pair[slot].point : slot;
    point[1] = job->pair ? job->pair[slot].image : NO_POINT;
    return point[1] == NO_POINT ? 1 : 2;
}

/* Stores y of a task's points at its bins and snapshots; `done` is the first snapshot. */
static void keep_parts(const struct cbf *cbf, const general_input *in, const general_slots *slots,
                       const struct block *block, size_t done, size_t worker) {
    const struct job *job = &cbf->job;
    for (size_t s = 0; s < in->snapshots; s++)
        for (size_t b = 0; b < block->bins; b++) {
            const size_t bin = block->first - job->part_first + b;
            sonar_c32 *to = job->part + ((done + s) * job->part_bins + bin) * job->points;
            for (size_t i = 0; i < slots->count; i++) {
                size_t point[2];
                sonar_c32 y[2];
                general_beams(cbf->general, in, slots, i, b, s, worker, y);
                for (size_t p = points_of(job, slots->first + i, point); p-- > 0;)
                    to[point[p]] = (sonar_c32){(float)(job->part_scale * (double)y[p].re),
                                               (float)(job->part_scale * (double)y[p].im)};
            }
        }
}

/* Adds to the Lofar's row of a bin; the first snapshot sets it. */
static void add_lofar(const struct job *job, const general_slots *slots, size_t bin, bool begin,
                      double power[2][GENERAL_SLOTS]) {
    float *row = lofar_row(job, bin);
    for (size_t i = 0; i < slots->count; i++) {
        size_t point[2];
        for (size_t p = points_of(job, slots->first + i, point); p-- > 0;)
            row[point[p]] = (begin ? 0 : row[point[p]]) + (float)(job->power_scale * power[p][i]);
    }
}

static void add_powers(const struct cbf *cbf, const general_input *in, const general_slots *slots,
                       const struct block *block, size_t done, size_t worker) {
    struct scratch *scratch = cbf->scratch + worker;
    for (size_t b = 0; b < block->bins; b++)
        for (size_t s = 0; s < in->snapshots; s++) {
            general_powers(cbf->general, in, slots, b, s, worker, scratch->power[0],
                           scratch->power[1]);
            for (size_t p = 0; p < (slots->pair ? 2 : 1); p++)
                for (size_t i = 0; i < slots->count; i++)
                    scratch->energy[p][i] += scratch->power[p][i];
            if (cbf->job.lofar)
                add_lofar(&cbf->job, slots, block->first + b, done + s == 0, scratch->power);
        }
}

static void keep_energies(const struct cbf *cbf, const general_slots *slots,
                          const struct block *block, double energy[2][GENERAL_SLOTS]) {
    double *row = band_row(cbf, block);
    for (size_t i = 0; i < slots->count; i++) {
        size_t point[2];
        for (size_t p = points_of(&cbf->job, slots->first + i, point); p-- > 0;)
            row[point[p]] = cbf->job.power_scale * energy[p][i];
    }
}

static void beam_task(void *arg, size_t index, size_t worker) {
    struct cbf *cbf = arg;
    const struct job *job = &cbf->job;
    const struct block *block = job->block + index / job->tiles;
    const size_t tile = index % job->tiles, lanes = general_lanes(cbf->general);
    const size_t first = job->vectors * tile / job->tiles * lanes;
    const size_t end = job->vectors * (tile + 1) / job->tiles * lanes;
    const general_slots slots = {job->turns, job->turns_row, job->pair, first,
                                 sonar_min_size(end, job->slots) - first};
    general_input in = {.bin_stride = cbf->x.stride[1],
                        .snapshot_stride = cbf->x.stride[0],
                        .first_bin = cbf->spec.first_bin + block->first,
                        .bins = block->bins,
                        .shading = job->shading};
    struct scratch *scratch = cbf->scratch + worker;
    memset(scratch->energy, 0, sizeof scratch->energy);
    for (size_t done = 0; done < cbf->x.shape[0]; done += in.snapshots) {
        in.snapshots = general_group(cbf->general, job->pair, cbf->x.shape[0] - done);
        in.x = (const sonar_c32 *)cbf->x.data + (ptrdiff_t)done * in.snapshot_stride +
               (ptrdiff_t)block->first * in.bin_stride;
        general_sum(cbf->general, &in, &slots, worker);
        if (job->part)
            keep_parts(cbf, &in, &slots, block, done, worker);
        else
            add_powers(cbf, &in, &slots, block, done, worker);
    }
    if (block->in_band && !job->part)
        keep_energies(cbf, &slots, block, scratch->energy);
}

/* ---- one task on the line's path ------------------------------------------------------------- */

/* As keep_parts of the general path. The line's beams have the phase relative to sensor 0. */
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

SONAR_MULTIARCH static void add_squares(const sonar_c32 *y, size_t n, double *restrict power) {
    for (size_t p = 0; p < n; p++)
        power[p] += (double)y[p].re * (double)y[p].re + (double)y[p].im * (double)y[p].im;
}

SONAR_MULTIARCH static void add_scaled(const double *power, double scale, size_t n,
                                       double *restrict energy) {
    for (size_t p = 0; p < n; p++)
        energy[p] += scale * power[p];
}

SONAR_MULTIARCH static void write_scaled(const double *power, double scale, size_t n,
                                         float *restrict to) {
    for (size_t p = 0; p < n; p++)
        to[p] = (float)(scale * power[p]);
}

/* Sums the powers of all points at one bin over the snapshots, or stores the parts. */
static void line_bin(const struct cbf *cbf, size_t bin, size_t worker, double *power) {
    const struct job *job = &cbf->job;
    const uint64_t absolute_bin = cbf->spec.first_bin + bin;
    memset(power, 0, job->points * sizeof *power);
    for (size_t s = 0; s < cbf->x.shape[0]; s++) {
        const sonar_c32 *x = (const sonar_c32 *)cbf->x.data + (ptrdiff_t)s * cbf->x.stride[0] +
                             (ptrdiff_t)bin * cbf->x.stride[1];
        const sonar_c32 *y = line_beams(cbf->line, x, job->shading, worker);
        if (job->part)
            keep_line_parts(job, y, bin, absolute_bin, s);
        add_squares(y, job->points, power);
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
    line_steer(cbf->line, cbf->spec.first_bin + block->first, worker);
    for (size_t b = block->first; b < block->first + block->bins; b++) {
        float *lofar = job->lofar ? lofar_row(job, b) : NULL;
        line_bin(cbf, b, worker, power);
        line_turn(cbf->line, worker);
        if (energy && !job->part)
            add_scaled(power, job->power_scale, job->points, energy);
        if (lofar && !job->part)
            write_scaled(power, job->power_scale, job->points, lofar);
    }
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* Cuts the slots into even tiles, enough of them for all workers. */
static void cut_slots(const struct cbf *cbf, struct job *job) {
    const size_t lanes = general_lanes(cbf->general);
    const size_t most = (job->pair ? GENERAL_SLOTS / 2 : GENERAL_SLOTS) / lanes;
    const size_t wanted =
        (TASKS_OF_WORKER * cbf->host->workers + job->blocks - 1) / sonar_max_size(job->blocks, 1);
    job->vectors = (job->slots + lanes - 1) / lanes;
    job->tiles =
        sonar_max_size((job->vectors + most - 1) / most, sonar_min_size(wanted, job->vectors));
}

static void run_line(struct cbf *cbf, const struct job *job) {
    cbf->job = *job;
    cbf->host->parallel(cbf->host->ctx, job->blocks, line_task, cbf);
}

/* fold: that of the job's table, or NULL. */
static void run_general(struct cbf *cbf, const struct job *job, const struct fold *fold) {
    cbf->job = *job;
    cbf->job.slots = fold && fold->pairs ? fold->pairs : job->points;
    cbf->job.pair = fold && fold->pairs ? fold->pair : NULL;
    cut_slots(cbf, &cbf->job);
    cbf->host->parallel(cbf->host->ctx, job->blocks * cbf->job.tiles, beam_task, cbf);
}

/* Examines a table once for each content, range by range, because an image has the same range. A
 * point without an image costs 10 operations a sensor instead of 8; a point and its image together
 * cost 10 instead of 16. */
static void look_for_mirrors(const struct cbf *cbf, const sonar_params *params,
                             const sonar_manifold *table, size_t ranges, struct fold *fold) {
    const size_t points = cbf->spec.directions, sensors = cbf->spec.sensors;
    const bool same = fold->known && ((table->made && table->made == fold->made) ||
                                      params->version == fold->version);
    fold->known = true;
    fold->made = table->made;
    fold->version = params->version;
    if (same)
        return;
    fold->pairs = 0;
    for (size_t r = 0; r < ranges; r++) {
        struct mirror *pair = fold->pair + fold->pairs;
        const size_t found =
            find_mirrors(table->turns + r * points * sensors, points, sensors, points / 2, pair);
        for (size_t i = 0; i < found; i++) {
            pair[i].point += (uint32_t)(r * points);
            pair[i].image += pair[i].image == NO_POINT ? 0 : (uint32_t)(r * points);
        }
        fold->pairs = found ? fold->pairs + found : 0;
        if (!found)
            return;
    }
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

/* Cuts a run of bins into even blocks. All but the last consist of whole units. */
static void add_blocks(struct cuts *cuts, size_t first, size_t bins, bool in_band) {
    size_t parts = (bins + cuts->most_bins - 1) / cuts->most_bins;
    for (size_t i = 0; i < parts; i++) {
        const size_t units = (bins + cuts->unit - 1) / cuts->unit;
        const size_t from = units * i / parts * cuts->unit;
        const size_t to = sonar_min_size(units * (i + 1) / parts * cuts->unit, bins);
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

/* Cuts the bins for the band of these parameters. */
static sonar_code take_band(struct cbf *cbf, const sonar_params *params, sonar_error *err) {
    bool changed;
    const sonar_code code = sonar_cbf_renew(&cbf->spec, params, &changed, err);
    if (changed) {
        cut_bins(&cbf->spec, &cbf->any);
        cut_bins(&cbf->spec, &cbf->line_cuts);
    }
    return code;
}

static size_t blocks_of(size_t bins, size_t each) {
    return (bins + each - 1) / each;
}

static sonar_arena lay_out(struct cbf *cbf, size_t workers, sonar_arena_pass pass) {
    const size_t bins = cbf->spec.bins, directions = cbf->spec.directions;
    sonar_arena arena = {.pass = pass};
    SONAR_ARENA(&arena, cbf->far.pair, directions);
    SONAR_ARENA(&arena, cbf->near.pair, cbf->capacity);
    SONAR_ARENA(&arena, cbf->scratch, workers);
    SONAR_ARENA(&arena, cbf->power, workers * directions);
    SONAR_ARENA(&arena, cbf->energy,
                sonar_max_size(blocks_of(bins, GENERAL_BINS) * cbf->capacity,
                               blocks_of(bins, LINE_BINS) * directions));
    SONAR_ARENA(&arena, cbf->any.block, bins / GENERAL_BINS + 3); /* three runs, each rounded up */
    SONAR_ARENA(&arena, cbf->line_cuts.block, bins / LINE_BINS + 3);
    return arena;
}

static struct cbf sizes_of(const sonar_cbf_spec *spec, const sonar_host *host) {
    return (struct cbf){.spec = *spec,
                        .host = host,
                        .capacity = spec->directions * sonar_max_size(spec->ranges, 1),
                        .any = {.most_bins = GENERAL_BINS, .unit = GENERAL_UNIT},
                        .line_cuts = {.most_bins = LINE_BINS, .unit = 1}};
}

double sonar_cbf_bytes(const sonar_cbf_spec *spec, size_t workers) {
    struct cbf cbf = sizes_of(spec, NULL);
    return lay_out(&cbf, workers, SONAR_ARENA_MEASURE).bytes + line_bytes(spec, workers) +
           general_bytes(workers);
}

static void cbf_destroy(void *stage) {
    struct cbf *cbf = stage;
    if (!cbf)
        return;
    line_destroy(cbf->line);
    general_destroy(cbf->general);
    lay_out(cbf, 0, SONAR_ARENA_FREE);
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
    *cbf = sizes_of(spec, host);
    code = line_create(&cbf->spec, host, &cbf->line, err);
    if (!code)
        code = general_create(&cbf->spec, host, &cbf->general, err);
    if (!code && lay_out(cbf, host->workers, SONAR_ARENA_ALLOCATE).failed)
        code = sonar_fail(err, SONAR_ENOMEM, "cbf", "no memory for %zu points", cbf->capacity);
    if (code) {
        cbf_destroy(cbf);
        return code;
    }
    cut_bins(&cbf->spec, &cbf->any);
    cut_bins(&cbf->spec, &cbf->line_cuts);
    *stage = cbf;
    return SONAR_OK;
}

/* One pass over the far field serves both of its surfaces. It takes all bins if the Lofar is
 * wanted. */
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
    if (cuts == &cbf->line_cuts) {
        run_line(cbf, &job);
    } else {
        look_for_mirrors(cbf, params, &params->far_cbf, 1, &cbf->far);
        run_general(cbf, &job, &cbf->far);
    }
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
        look_for_mirrors(cbf, work->params, &work->params->near_cbf, cbf->spec.ranges, &cbf->near);
        run_general(cbf, &job, &cbf->near);
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
    const size_t most = cbf->spec.parts ? points : cbf->capacity; /* points whose energies fit */
    for (size_t done = 0; done < points; done += most) {
        const uint64_t *table = (const uint64_t *)turns->data + (ptrdiff_t)done * turns->stride[0];
        struct job job =
            band_job(cbf, &cbf->any, work->params, sonar_min_size(points - done, most), table);
        job.turns_row = (size_t)turns->stride[0];
        if (cbf->spec.parts)
            take_parts(cbf, work->params, power, &job);
        run_general(cbf, &job, NULL);
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
