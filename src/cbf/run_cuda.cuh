/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The memory of the GPU's beamformer, and how its passes are cut and launched. */
#ifndef SONAR_CBF_RUN_CUDA_CUH
#define SONAR_CBF_RUN_CUDA_CUH

#include "cbf/general_cuda.cuh"
#include "cbf/line_cuda.cuh"
#include "cbf/matrix_cuda.cuh"
#include "cbf/mirrored_cuda.cuh"
#include "cbf/powers_cuda.cuh"
#include "cbf/table_cuda.cuh"

/* Blocks of bins on the device: below the band, in it, above it. */
struct cut {
    size_t slots, steps;       /* slots and steps of a block */
    size_t most, most_in_band; /* number of blocks, for any band; there is room for `most` */
    struct block *block, *on_host;
    uint32_t blocks, band_first, band_blocks;
};

/* Bins are cut differently for points without images, for mirrored points, and for products of
 * matrices. */
enum { CUT_GENERAL, CUT_MIRRORED, CUT_MATRIX, CUTS };

/* Snapshots in device memory, [snapshot][bin][sensor]. */
struct input {
    const float2 *x;
    size_t snapshot, row; /* strides */
    uint32_t snapshots;
};

struct cbf {
    sonar_cbf_spec spec;
    struct cut cut[CUTS];
    float4 *folded; /* [bin][pair of sensors], or NULL: no path needs it */
    struct table far_table, near_table;
    struct staging staging;
    float *shading;
    uint64_t shading_version;
    bool shading_ready;
    size_t places[CUTS];  /* thread blocks the device runs at once */
    size_t matrix_places; /* the same of the matrix path for few snapshots */
    cudaStream_t side;    /* stream for a line's far field beside the near field, or NULL */
    cudaEvent_t forked, joined;
    bool may_matrix;      /* the device supports the matrix path, and its memory is allocated */
    size_t matrix_items;  /* room in `partial` for its items times chunks */
    double *matrix_power; /* as matrix_pass's */
    size_t partial_items; /* room in `partial`, in items times chunks */
    float2 *partial;
    double *energy;
    size_t energy_items;
    double *power;       /* as in struct pass; NULL: never more than one snapshot */
    double *line_energy; /* as line_pass's */
    struct input input;  /* input of the last execute, borrowed from the caller */
    sonar_buffer given;  /* the same, as the caller gave it */
};

/* ---- passes ---------------------------------------------------------------------------------- */

static void add_field(const struct cbf *cbf, struct field *field, const struct table *table,
                      bool whole, float *energy) {
    const struct cut *cut = &cbf->cut[table->mirrors > 0 ? CUT_MIRRORED : CUT_GENERAL];
    field->turns = table->turns;
    field->mirror = table->mirrors ? table->mirror : NULL;
    field->sensor_stride = table->row;
    field->point_stride = 1;
    field->points = (uint32_t)(table->mirrors ? table->mirrors : table->points);
    field->groups = (field->points + LANES - 1) / LANES;
    field->first_block = whole ? 0 : cut->band_first;
    field->blocks = whole ? cut->blocks : cut->band_blocks;
    field->energy = energy;
}

/* Few chunks write few partial sums; many chunks fill the device better. Chooses the number, up to
 * `most`, that takes the least time, counted in sensors of a chunk: a wave of thread blocks has an
 * overhead of some 24, and the kernel that adds the chunks one after the other takes one for each.
 */
static uint32_t choose_chunks(size_t places, size_t items, size_t all, size_t most) {
    size_t best = 1;
    double least = 0;
    for (size_t chunks = 1; chunks <= most; chunks++) {
        size_t waves = (items * chunks + places - 1) / places;
        size_t sensors = (all + chunks - 1) / chunks;
        double cost = (double)waves * (double)(sensors + 24) + (double)chunks;
        if (chunks == 1 || cost < least) {
            least = cost;
            best = chunks;
        }
    }
    return (uint32_t)best;
}

/* Factor that turns the sum of |sum g conj(a) X|^2 into the mean over the snapshots. */
static double power_scale(const struct cbf *cbf, const sonar_params *params) {
    double sum = params->shading_sum;
    return sum != 0 ? 1 / (sum * sum) / (double)cbf->input.snapshots : 0;
}

static bool is_mirrored(const struct pass *pass) {
    return pass->field[0].mirror || pass->field[1].mirror;
}

static void complete_pass(const struct cbf *cbf, struct pass *pass, const sonar_params *params) {
    struct field *far_field = &pass->field[0], *near_field = &pass->field[1];
    const struct cut *cut = &cbf->cut[is_mirrored(pass)];
    near_field->first_item = far_field->groups * far_field->blocks;
    pass->items = near_field->first_item + near_field->groups * near_field->blocks;
    pass->block = cut->block;
    pass->x_row = cbf->input.row;
    pass->folded = cbf->folded;
    pass->folded_row = (cbf->spec.sensors + 1) / 2;
    pass->shading = cbf->shading;
    pass->sensors = (uint32_t)cbf->spec.sensors;
    pass->first_bin = (uint32_t)cbf->spec.first_bin;
    bool whole = far_field->blocks == cut->blocks;
    pass->fold_first = whole ? 0 : (uint32_t)(cbf->spec.cbf_first - cbf->spec.first_bin);
    pass->fold_bins = (uint32_t)(whole ? cbf->spec.bins : cbf->spec.cbf_bins);
    uint32_t all = is_mirrored(pass) ? (pass->sensors + 1) / 2 : pass->sensors;
    const uint32_t warps = SUM_WARPS;
    size_t most = sonar_min_size((all + warps - 1) / warps,
                                 sonar_max_size(cbf->partial_items / pass->items, 1));
    uint32_t parts = choose_chunks(cbf->places[is_mirrored(pass)], pass->items, all, most) * warps;
    pass->share = (all + parts - 1) / parts;
    pass->chunks = (all + pass->share * warps - 1) / (pass->share * warps);
    pass->partial = cbf->partial;
    pass->energy = cbf->energy;
    pass->band_first = cut->band_first;
    pass->band_blocks = cut->band_blocks;
    pass->power = cbf->power;
    pass->power_scale = power_scale(cbf, params);
    pass->bin_hz = cbf->spec.fs_hz / (double)cbf->spec.length;
}

/* Folds the input, then sums mirrored points. */
static sonar_code run_pairs(const struct pass *pass, cudaStream_t stream, sonar_error *err) {
    const uint32_t threads = 128;
    uint32_t pairs = (pass->sensors + 1) / 2;
    for (uint32_t done = 0; done < pass->fold_bins; done += GRID_ROWS) {
        struct pass part = *pass;
        part.fold_first += done;
        uint32_t rows = min(pass->fold_bins - done, (uint32_t)GRID_ROWS);
        fold_input<<<dim3((pairs + threads - 1) / threads, rows), threads, 0, stream>>>(part);
        sonar_code code = CUDA_LAUNCHED("cbf", "fold_input", err);
        if (code)
            return code;
    }
    const dim3 grid(pass->items, pass->chunks);
    sum_pairs<<<grid, SUM_WARPS * LANES, 0, stream>>>(*pass);
    return CUDA_LAUNCHED("cbf", "sum_pairs", err);
}

static sonar_code run_sums(const struct pass *pass, cudaStream_t stream, sonar_error *err) {
    if (is_mirrored(pass))
        return run_pairs(pass, stream, err);
    const dim3 grid(pass->items, pass->chunks);
    sum_sensors<<<grid, SUM_WARPS * LANES, 0, stream>>>(*pass);
    return CUDA_LAUNCHED("cbf", "sum_sensors", err);
}

/* Adds the powers of all snapshots, one after the other. */
static sonar_code run_snapshots(const struct cbf *cbf, struct pass *pass, cudaStream_t stream,
                                sonar_error *err) {
    const struct input *input = &cbf->input;
    uint32_t halves = is_mirrored(pass) ? 2 : 1;
    sonar_code code = SONAR_OK;
    for (uint32_t s = 0; s < input->snapshots && !code; s++) {
        pass->x = input->x + s * input->snapshot;
        pass->snapshot = s;
        pass->first_snapshot = s == 0;
        pass->last_snapshot = s + 1 == input->snapshots;
        code = run_sums(pass, stream, err);
        if (code)
            return code;
        finish_bins<<<dim3(pass->items, halves), FINISH_WARPS * LANES, 0, stream>>>(*pass);
        code = CUDA_LAUNCHED("cbf", "finish_bins", err);
    }
    return code;
}

static sonar_code run(const struct cbf *cbf, struct pass *pass, cudaStream_t stream,
                      sonar_error *err) {
    uint32_t halves = is_mirrored(pass) ? 2 : 1;
    sonar_code code = run_snapshots(cbf, pass, stream, err);
    if (code || (!pass->field[0].energy && !pass->field[1].energy))
        return code;
    uint32_t groups = pass->field[0].groups + pass->field[1].groups, per_block = 4;
    dim3 grid((groups + per_block - 1) / per_block, halves);
    finish_band<<<grid, per_block * LANES, 0, stream>>>(*pass);
    return CUDA_LAUNCHED("cbf", "finish_band", err);
}

/* Runs all bins if `whole`, like the blocks of its field, or else the band. */
static sonar_code run_line(const struct cbf *cbf, struct line_pass *pass, bool whole,
                           const sonar_params *params, cudaStream_t stream, sonar_error *err) {
    pass->x_row = cbf->input.row;
    pass->shading = cbf->shading;
    pass->sensors = (uint32_t)cbf->spec.sensors;
    pass->span = (uint32_t)line_span(cbf->spec.sensors);
    pass->input_bin = (uint32_t)cbf->spec.first_bin;
    pass->band_first = (uint32_t)(cbf->spec.cbf_first - cbf->spec.first_bin);
    pass->band_bins = (uint32_t)cbf->spec.cbf_bins;
    pass->first = whole ? 0 : pass->band_first;
    pass->bins = whole ? (uint32_t)cbf->spec.bins : pass->band_bins;
    pass->energy = cbf->line_energy;
    pass->power_scale = power_scale(cbf, params);
    pass->bin_hz = cbf->spec.fs_hz / (double)cbf->spec.length;
    uint32_t groups = pass->field.groups;
    sonar_code code = SONAR_OK;
    for (uint32_t s = 0; s < cbf->input.snapshots && !code; s++) {
        pass->x = cbf->input.x + s * cbf->input.snapshot;
        pass->snapshot = s;
        pass->first_snapshot = s == 0;
        pass->last_snapshot = s + 1 == cbf->input.snapshots;
        sum_line<<<pass->bins * groups, SUM_WARPS * LANES, 0, stream>>>(*pass);
        code = CUDA_LAUNCHED("cbf", "sum_line", err);
    }
    if (code || !pass->field.energy)
        return code;
    finish_line<<<dim3(groups, 2), FINISH_WARPS * LANES, 0, stream>>>(*pass);
    return CUDA_LAUNCHED("cbf", "finish_line", err);
}

/* ---- products of matrices -------------------------------------------------------------------- */

static void add_matrix_field(const struct cbf *cbf, struct matrix_pass *pass,
                             const struct table *table, bool whole, float *energy) {
    const struct cut *cut = &cbf->cut[CUT_MATRIX];
    struct field *field = &pass->field;
    field->turns = table->turns;
    field->sensor_stride = table->row;
    field->point_stride = 1;
    field->points = (uint32_t)table->points;
    field->groups = (field->points + MATRIX_POINTS - 1) / MATRIX_POINTS;
    field->first_block = whole ? 0 : cut->band_first;
    field->blocks = whole ? cut->blocks : cut->band_blocks;
    field->energy = energy;
    uint32_t below = (uint32_t)(cbf->spec.cbf_first - cbf->spec.first_bin);
    pass->first_bin = whole ? 0 : below;
    pass->band_first = below - pass->first_bin;
    pass->band_bins = (uint32_t)cbf->spec.cbf_bins;
}

/* Cuts the sensors of a slab of points into chunks of whole tiles. */
static void cut_sensors(const struct cbf *cbf, struct matrix_pass *pass) {
    size_t items = (size_t)pass->groups * pass->field.blocks;
    size_t tiles = (pass->sensors + MATRIX_TILE - 1) / MATRIX_TILE;
    size_t most = sonar_min_size(tiles, sonar_max_size(cbf->matrix_items / items, 1));
    bool few = cbf->input.snapshots <= MATRIX_COLUMNS;
    size_t places = few ? cbf->matrix_places : cbf->places[CUT_MATRIX];
    size_t chunks = choose_chunks(places, items, pass->sensors, most);
    pass->share = (uint32_t)((tiles + chunks - 1) / chunks * MATRIX_TILE);
    pass->chunks = (pass->sensors + pass->share - 1) / pass->share;
}

template <int N>
static sonar_code run_matrix_kernels(const struct matrix_pass *pass, cudaStream_t stream,
                                     sonar_error *err) {
    uint32_t items = pass->groups * pass->field.blocks;
    sum_matrix<N><<<dim3(items, pass->chunks), MATRIX_WARPS * LANES, 0, stream>>>(*pass);
    sonar_code code = CUDA_LAUNCHED("cbf", "sum_matrix", err);
    if (code)
        return code;
    finish_matrix<N><<<dim3(items, MATRIX_BINS), MATRIX_WARPS * LANES, 0, stream>>>(*pass);
    return CUDA_LAUNCHED("cbf", "finish_matrix", err);
}

/* All snapshots of a slab of points. */
static sonar_code run_matrix_points(const struct input *input, struct matrix_pass *pass,
                                    cudaStream_t stream, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (uint32_t done = 0; done < input->snapshots && !code; done += pass->snapshots) {
        uint32_t left = input->snapshots - done;
        pass->x = input->x + done * input->snapshot;
        pass->done = done;
        pass->snapshots = min(left, (uint32_t)(MATRIX_GROUPS * MATRIX_COLUMNS));
        pass->first_snapshots = done == 0;
        pass->last_snapshots = pass->snapshots == left;
        code = left > MATRIX_COLUMNS ? run_matrix_kernels<MATRIX_GROUPS>(pass, stream, err)
                                     : run_matrix_kernels<1>(pass, stream, err);
    }
    if (code || !pass->field.energy)
        return code;
    uint32_t warps = pass->groups * (MATRIX_POINTS / LANES);
    finish_matrix_band<<<warps, FINISH_WARPS * LANES, 0, stream>>>(*pass);
    return CUDA_LAUNCHED("cbf", "finish_matrix_band", err);
}

/* Runs slabs of points one after the other, so that the partial sums fit into memory. */
static sonar_code run_matrix(const struct cbf *cbf, struct matrix_pass *pass,
                             const sonar_params *params, cudaStream_t stream, sonar_error *err) {
    size_t most = sonar_max_size(cbf->matrix_items / pass->field.blocks, 1);
    pass->block = cbf->cut[CUT_MATRIX].block;
    pass->x_snapshot = cbf->input.snapshot;
    pass->x_row = cbf->input.row;
    pass->shading = cbf->shading;
    pass->sensors = (uint32_t)cbf->spec.sensors;
    pass->input_bin = (uint32_t)cbf->spec.first_bin;
    pass->partial = (float *)cbf->partial;
    pass->power = cbf->matrix_power;
    pass->power_scale = power_scale(cbf, params);
    pass->bin_hz = cbf->spec.fs_hz / (double)cbf->spec.length;
    sonar_code code = SONAR_OK;
    for (uint32_t done = 0; done < pass->field.groups && !code; done += pass->groups) {
        pass->first_group = done;
        pass->groups = (uint32_t)sonar_min_size(pass->field.groups - done, most);
        cut_sensors(cbf, pass);
        code = run_matrix_points(&cbf->input, pass, stream, err);
    }
    return code;
}

#endif
