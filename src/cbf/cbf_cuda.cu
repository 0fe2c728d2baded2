/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Conventional beamformer on NVIDIA GPUs, for any geometry. Nothing is stored per direction and
 * bin: steering vectors are made in registers, on one of four paths (general_cuda.cuh,
 * mirrored_cuda.cuh, line_cuda.cuh, matrix_cuda.cuh) that the table of turns allows and the choices
 * prefer. All orders of summation are fixed and there are no atomics, so the same input gives the
 * same bits.
 */
#include "cbf/cbf.h"
#include "cbf/run_cuda.cuh"
#include "core/cuda_common.cuh"

#include <stdlib.h>
#include <string.h>

/* ---- set-up ---------------------------------------------------------------------------------- */

static sonar_code check_spec(const sonar_cbf_spec *spec, sonar_error *err) {
    sonar_code code = sonar_cbf_check(spec, err);
    if (code)
        return code;
    const size_t most = 1u << 30, points = spec->directions * spec->ranges;
    if (spec->sensors > most || spec->directions > most || points > most || spec->bins > most ||
        spec->first_bin > most || spec->max_snapshots > most)
        return sonar_fail(err, SONAR_EINVAL, "cbf",
                          "more than 2^30 sensors, points, bins or snapshots");
    return SONAR_OK;
}

/* Cuts a run of bins into whole blocks, and a last one that is only as large as needed. */
static uint32_t cut_run(size_t first, size_t bins, size_t slots, size_t steps,
                        struct block *block) {
    uint32_t count = 0;
    for (size_t done = 0; done < bins; done += slots, count++) {
        size_t here = sonar_min_size(bins - done, slots), pair = 2 * steps;
        block[count].first = (uint32_t)(first + done);
        block[count].bins = (uint32_t)here;
        block[count].segments = (uint32_t)(2 * ((here + pair - 1) / pair));
    }
    return count;
}

/* Pageable memory is read before the copy returns, so the source may change then. */
static sonar_code cut_bins(const sonar_cbf_spec *spec, struct cut *cut, cudaStream_t stream,
                           sonar_error *err) {
    size_t below = spec->cbf_first - spec->first_bin, band = spec->cbf_bins;
    struct block *block = cut->on_host;
    cut->band_first = cut_run(0, below, cut->slots, cut->steps, block);
    cut->band_blocks = cut_run(below, band, cut->slots, cut->steps, block + cut->band_first);
    cut->blocks = cut->band_first + cut->band_blocks;
    cut->blocks += cut_run(below + band, spec->bins - below - band, cut->slots, cut->steps,
                           block + cut->blocks);
    return CUDA_CHECK("cbf",
                      cudaMemcpyAsync(cut->block, block, cut->blocks * sizeof *block,
                                      cudaMemcpyHostToDevice, stream),
                      err);
}

/* Makes room for any band: three runs, each rounded up. */
static sonar_code make_cut(const sonar_cbf_spec *spec, size_t slots, size_t steps, struct cut *cut,
                           sonar_error *err) {
    const size_t most = spec->bins / slots + 3;
    cut->slots = slots;
    cut->steps = steps;
    cut->most = most;
    cut->most_in_band = (spec->bins + slots - 1) / slots;
    cut->on_host = (struct block *)sonar_alloc(most, sizeof *cut->on_host);
    if (!cut->on_host)
        return sonar_fail(err, SONAR_ENOMEM, "cbf", "no memory for %zu blocks of bins", most);
    sonar_code code = sonar_cuda_alloc("cbf", most, &cut->block, err);
    if (!code)
        code = cut_bins(spec, cut, cudaStreamPerThread, err);
    return code ? code : CUDA_CHECK("cbf", cudaStreamSynchronize(cudaStreamPerThread), err);
}

static sonar_code count_places(const void *kernel, int threads, int processors, size_t *places,
                               sonar_error *err) {
    int per_processor = 0;
    CUDA_TRY("cbf",
             cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel, threads, 0),
             err);
    *places = (size_t)(per_processor > 0 ? per_processor : 1) * (size_t)processors;
    return SONAR_OK;
}

/* Asks how many thread blocks run at once. The query also loads the kernels, which would otherwise
 * be loaded at their first launch. */
static sonar_code measure_device(struct cbf *cbf, sonar_error *err) {
    int processors = 0;
    size_t unused;
    const int threads = SUM_WARPS * LANES;
    sonar_code asked =
        sonar_cuda_attribute("cbf", cudaDevAttrMultiProcessorCount, &processors, err);
    if (asked)
        return asked;
    const struct {
        const void *kernel;
        int threads;
        size_t *places;
    } ask[] = {
        {(const void *)sum_sensors, threads, &cbf->places[CUT_GENERAL]},
        {(const void *)sum_pairs, threads, &cbf->places[CUT_MIRRORED]},
        {(const void *)sum_matrix<MATRIX_GROUPS>, MATRIX_WARPS * LANES, &cbf->places[CUT_MATRIX]},
        {(const void *)sum_matrix<1>, MATRIX_WARPS * LANES, &cbf->matrix_places},
        {(const void *)finish_matrix<MATRIX_GROUPS>, MATRIX_WARPS * LANES, &unused},
        {(const void *)finish_matrix<1>, MATRIX_WARPS * LANES, &unused},
        {(const void *)finish_matrix_band, FINISH_WARPS * LANES, &unused},
        {(const void *)sum_line, threads, &unused},
        {(const void *)finish_line, FINISH_WARPS * LANES, &unused},
        {(const void *)finish_bins, FINISH_WARPS * LANES, &unused},
        {(const void *)finish_band, 4 * LANES, &unused},
        {(const void *)fold_input, 4 * LANES, &unused},
        {(const void *)transpose, TRANSPOSE * 8, &unused}};
    for (const auto &one : ask) {
        sonar_code code = count_places(one.kernel, one.threads, processors, one.places, err);
        if (code)
            return code;
    }
    return SONAR_OK;
}

/* Compute capability 8.0 and above has tensor cores for TF32, the upper bits of float32. */
static sonar_code ask_tensor_cores(bool *there, sonar_error *err) {
    int major = 0;
    sonar_code code = sonar_cuda_attribute("cbf", cudaDevAttrComputeCapabilityMajor, &major, err);
    *there = major >= 8;
    return code;
}

static void choose_path(const sonar_host *host, const char *decision, bool tensor_cores,
                        bool may_line, struct table *table) {
    const char *path = sonar_host_choice(host, decision);
    if (path && !strcmp(path, "matrix") && !tensor_cores)
        path = NULL;
    bool matrix = path && !strcmp(path, "matrix");
    table->may_line = may_line && (!path || !strcmp(path, "line"));
    table->may_mirror = !matrix && (!path || strcmp(path, "general") != 0);
    table->mirrored_first = may_line && !path;
    table->matrix_from = !tensor_cores ? 0 : matrix ? 1 : !path ? MATRIX_LEAST : 0;
}

/* Decisions "cbf.far_path": "general", "mirrored", "line" or "matrix", and "cbf.near_path", the
 * same without "line". If the table does not have the decided form, the form listed before it is
 * taken. Without a decision the rule is: "line" if the far field has that form; else "matrix" for
 * MATRIX_LEAST snapshots or more; else "mirrored" if the table has that form; else "general". An
 * exception is a far field of fewer than LINE_LEAST sensors that can share a near field's pass: it
 * is "mirrored" if its table has that form. On an H200, 128 sensors take 0.032 ms this way and
 * 0.048 ms with a line beside the near field; 512 take 0.070 and 0.085 ms; but 2048 take 0.201 and
 * 0.186 ms. */
static sonar_code choose_paths(struct cbf *cbf, const sonar_host *host, sonar_error *err) {
    bool tensor_cores;
    sonar_code code = ask_tensor_cores(&tensor_cores, err);
    if (code)
        return code;
    choose_path(host, "cbf.far_path", tensor_cores, true, &cbf->far_table);
    choose_path(host, "cbf.near_path", tensor_cores, false, &cbf->near_table);
    size_t most = cbf->spec.max_snapshots;
    cbf->may_matrix = (cbf->far_table.matrix_from && most >= cbf->far_table.matrix_from) ||
                      (cbf->near_table.matrix_from && most >= cbf->near_table.matrix_from);
    bool one_pass = cbf->spec.ranges && cbf->near_table.may_mirror && !cbf->may_matrix;
    cbf->far_table.mirrored_first &= one_pass && cbf->spec.sensors < LINE_LEAST;
    return SONAR_OK;
}

static sonar_code make_cuts(struct cbf *cbf, sonar_error *err) {
    const sonar_cbf_spec *spec = &cbf->spec;
    sonar_code code = make_cut(spec, SLOTS, STEPS, &cbf->cut[CUT_GENERAL], err);
    if (!code)
        code = make_cut(spec, PAIR_SLOTS, PAIR_STEPS, &cbf->cut[CUT_MIRRORED], err);
    return code ? code : make_cut(spec, MATRIX_BINS, MATRIX_BINS / 2, &cbf->cut[CUT_MATRIX], err);
}

static sonar_code make_tables(struct cbf *cbf, sonar_error *err) {
    const sonar_cbf_spec *spec = &cbf->spec;
    size_t near_points = spec->directions * spec->ranges;
    size_t row_bytes = spec->sensors * sizeof(uint64_t);
    sonar_code code = make_table(spec->directions, spec->sensors, &cbf->far_table, err);
    if (!code)
        code = make_table(near_points, spec->sensors, &cbf->near_table, err);
    if (!code)
        code = sonar_cuda_alloc("cbf", spec->sensors, &cbf->shading, err);
    cbf->staging.points =
        sonar_min_size(sonar_max_size(spec->directions, near_points),
                       sonar_max_size(STAGING_BYTES / row_bytes / LANES, 1) * LANES);
    return code ? code
                : sonar_cuda_alloc("cbf", cbf->staging.points * spec->sensors, &cbf->staging.turns,
                                   err);
}

/* Allocates the matrix path's powers. Its partial sums use the same memory as the other paths'. */
static sonar_code make_matrix_room(struct cbf *cbf, size_t *partial, sonar_error *err) {
    const size_t of_item = MATRIX_SUMS * MATRIX_GROUPS * MATRIX_WARPS * LANES * sizeof(float);
    if (!cbf->may_matrix)
        return SONAR_OK;
    cbf->matrix_items = sonar_max_size(MATRIX_ITEMS, cbf->cut[CUT_MATRIX].most);
    *partial = sonar_max_size(*partial, cbf->matrix_items * of_item / sizeof *cbf->partial);
    return sonar_cuda_alloc("cbf", cbf->matrix_items * MATRIX_POINTS * MATRIX_BINS,
                            &cbf->matrix_power, err);
}

static sonar_code make_room(struct cbf *cbf, sonar_error *err) {
    const sonar_cbf_spec *spec = &cbf->spec;
    size_t far_groups = (spec->directions + LANES - 1) / LANES;
    size_t near_groups = (spec->directions * spec->ranges + LANES - 1) / LANES;
    const struct cut *cut = &cbf->cut[CUT_MIRRORED]; /* the one with more items */
    size_t places = sonar_max_size(cbf->places[CUT_GENERAL], cbf->places[CUT_MIRRORED]);
    /* mirrored points need no more items: each item counts twice, for the points and their
     * images */
    cbf->energy_items = 2 * far_groups * cut->most + 2 * near_groups * cut->most_in_band;
    cbf->partial_items = sonar_max_size(cbf->energy_items, places * WAVES_MOST);
    size_t partial = cbf->partial_items * SLOTS * LANES;
    sonar_code code = sonar_cuda_alloc("cbf", cbf->energy_items * LANES, &cbf->energy, err);
    if (!code && (cbf->far_table.may_mirror || cbf->near_table.may_mirror))
        code = sonar_cuda_alloc("cbf", spec->bins * ((spec->sensors + 1) / 2), &cbf->folded, err);
    if (!code && spec->max_snapshots > 1)
        code = sonar_cuda_alloc("cbf", cbf->energy_items * SLOTS * LANES, &cbf->power, err);
    if (!code && cbf->far_table.may_line)
        code = sonar_cuda_alloc("cbf", spec->bins * 2 * far_groups * LANES, &cbf->line_energy, err);
    if (!code)
        code = make_matrix_room(cbf, &partial, err);
    return code ? code : sonar_cuda_alloc("cbf", partial, &cbf->partial, err);
}

static sonar_code make_side(struct cbf *cbf, sonar_error *err) {
    if (!cbf->far_table.may_line || !cbf->spec.ranges)
        return SONAR_OK;
    CUDA_TRY("cbf", cudaStreamCreateWithFlags(&cbf->side, cudaStreamNonBlocking), err);
    CUDA_TRY("cbf", cudaEventCreateWithFlags(&cbf->forked, cudaEventDisableTiming), err);
    CUDA_TRY("cbf", cudaEventCreateWithFlags(&cbf->joined, cudaEventDisableTiming), err);
    return SONAR_OK;
}

static void free_side(struct cbf *cbf) {
    if (cbf->side)
        cudaStreamDestroy(cbf->side);
    if (cbf->forked)
        cudaEventDestroy(cbf->forked);
    if (cbf->joined)
        cudaEventDestroy(cbf->joined);
}

static void cbf_destroy(void *stage) {
    struct cbf *cbf = (struct cbf *)stage;
    if (!cbf)
        return;
    free_side(cbf);
    for (const struct cut &cut : cbf->cut) {
        cudaFree(cut.block);
        free(cut.on_host);
    }
    free_table(&cbf->far_table);
    free_table(&cbf->near_table);
    cudaFree(cbf->folded);
    cudaFree(cbf->power);
    cudaFree(cbf->matrix_power);
    cudaFree(cbf->line_energy);
    cudaFree(cbf->staging.turns);
    cudaFree(cbf->shading);
    cudaFree(cbf->partial);
    cudaFree(cbf->energy);
    free(cbf);
}

static sonar_code cbf_create(const void *spec, const sonar_host *host, void **stage,
                             sonar_error *err) {
    *stage = NULL;
    sonar_code code = check_spec((const sonar_cbf_spec *)spec, err);
    if (code)
        return code;
    struct cbf *cbf = (struct cbf *)sonar_alloc(1, sizeof *cbf);
    if (!cbf)
        return sonar_fail(err, SONAR_ENOMEM, "cbf", "no memory for the stage");
    cbf->spec = *(const sonar_cbf_spec *)spec;
    code = choose_paths(cbf, host, err);
    if (!code)
        code = measure_device(cbf, err);
    if (!code)
        code = make_cuts(cbf, err);
    if (!code)
        code = make_tables(cbf, err);
    if (!code)
        code = make_room(cbf, err);
    if (!code)
        code = make_side(cbf, err);
    if (code)
        cbf_destroy(cbf);
    else
        *stage = cbf;
    return code;
}

/* ---- one call -------------------------------------------------------------------------------- */

static sonar_code fail_space(sonar_error *err) {
    return sonar_fail(err, SONAR_EINVAL, "cbf", "a buffer is not in device memory");
}

/* Checks the outputs that are written. When computing parts, the far field's beams also serve the
 * azimuth spectrum. */
static bool outputs_in_place(const sonar_cbf_spec *spec, const sonar_buffer *out,
                             sonar_cbf_wanted wanted) {
    const bool beams = spec->parts && (wanted.azimuth || wanted.lofar);
    return (!wanted.azimuth || spec->parts || sonar_cuda_in_place(out[SONAR_CBF_AZIMUTH].space)) &&
           (!(wanted.lofar || beams) || sonar_cuda_in_place(out[SONAR_CBF_LOFAR].space)) &&
           (!wanted.nearfield || sonar_cuda_in_place(out[SONAR_CBF_NEARFIELD].space));
}

static sonar_code check_buffers(const sonar_cbf_spec *spec, const sonar_buffer *in,
                                const sonar_buffer *out, const sonar_work *work,
                                sonar_cbf_wanted wanted, sonar_error *err) {
    const sonar_code code = sonar_cbf_check_shapes(spec, in, out, work, err);
    if (!code && (in->space != SONAR_DEVICE || !outputs_in_place(spec, out, wanted)))
        return fail_space(err);
    return code;
}

static sonar_code upload_shading(struct cbf *cbf, const sonar_params *params, cudaStream_t stream,
                                 sonar_error *err) {
    if (cbf->shading_ready && cbf->shading_version == params->version)
        return SONAR_OK;
    cbf->shading_ready = false;
    CUDA_TRY("cbf",
             cudaMemcpyAsync(cbf->shading, params->shading, cbf->spec.sensors * sizeof(float),
                             cudaMemcpyHostToDevice, stream),
             err);
    cbf->shading_version = params->version;
    cbf->shading_ready = true;
    return SONAR_OK;
}

/* Cuts the bins for the band of these parameters. */
static sonar_code take_band(struct cbf *cbf, const sonar_params *params, cudaStream_t stream,
                            sonar_error *err) {
    bool changed;
    sonar_code code = sonar_cbf_renew(&cbf->spec, params, &changed, err);
    for (int i = 0; changed && i < CUTS && !code; i++)
        code = cut_bins(&cbf->spec, &cbf->cut[i], stream, err);
    return code;
}

static sonar_code upload(struct cbf *cbf, const sonar_params *params, sonar_cbf_wanted wanted,
                         cudaStream_t stream, sonar_error *err) {
    sonar_code code = upload_shading(cbf, params, stream, err);
    if (!code && (wanted.azimuth || wanted.lofar))
        code = upload_table(&cbf->staging, &cbf->far_table, &params->far_cbf, params->version,
                            stream, err);
    if (!code && wanted.nearfield)
        code = upload_table(&cbf->staging, &cbf->near_table, &params->near_cbf, params->version,
                            stream, err);
    return code;
}

enum path { PATH_GENERAL, PATH_MIRRORED, PATH_LINE, PATH_MATRIX };

static enum path path_of(const struct table *table, size_t snapshots) {
    if (table->line)
        return PATH_LINE;
    if (table->matrix_from && snapshots >= table->matrix_from)
        return PATH_MATRIX;
    return table->mirrors ? PATH_MIRRORED : PATH_GENERAL;
}

/* Which fields one pass computes and where its results go; NULL: not wanted. The far field takes
 * all bins if the Lofar is wanted. */
struct results {
    bool far_field, near_field, whole;
    float *azimuth, *nearfield, *lofar;
    size_t lofar_row;
    struct part far_part, near_part;
};

/* The part's place among the CBF's bins. */
static struct part part_of(const struct cbf *cbf, const sonar_buffer *out, size_t points,
                           const sonar_params *params) {
    struct part part = {};
    part.y = (float2 *)out->data;
    part.first = (uint32_t)(cbf->spec.cbf_first - cbf->spec.first_bin);
    part.bins = (uint32_t)cbf->spec.cbf_bins;
    part.points = points;
    part.scale = params->shading_sum != 0 ? 1 / params->shading_sum : 0;
    return part;
}

static struct results parts_of(const struct cbf *cbf, const sonar_buffer *out,
                               sonar_cbf_wanted wanted, const sonar_params *params) {
    const sonar_cbf_spec *spec = &cbf->spec;
    struct results to = {};
    to.far_field = wanted.azimuth || wanted.lofar;
    to.near_field = wanted.nearfield;
    to.whole = wanted.lofar;
    if (to.far_field)
        to.far_part = part_of(cbf, &out[SONAR_CBF_LOFAR], spec->directions, params);
    if (to.whole) {
        to.far_part.first = 0;
        to.far_part.bins = (uint32_t)spec->bins;
    }
    if (to.near_field)
        to.near_part =
            part_of(cbf, &out[SONAR_CBF_NEARFIELD], spec->ranges * spec->directions, params);
    return to;
}

static struct results results_of(const struct cbf *cbf, const sonar_buffer *out,
                                 sonar_cbf_wanted wanted, const sonar_params *params) {
    if (cbf->spec.parts)
        return parts_of(cbf, out, wanted, params);
    struct results to = {};
    to.far_field = wanted.azimuth || wanted.lofar;
    to.near_field = wanted.nearfield;
    to.whole = wanted.lofar;
    if (wanted.azimuth)
        to.azimuth = (float *)out[SONAR_CBF_AZIMUTH].data;
    if (wanted.nearfield)
        to.nearfield = (float *)out[SONAR_CBF_NEARFIELD].data;
    if (wanted.lofar) {
        to.lofar = (float *)out[SONAR_CBF_LOFAR].data;
        to.lofar_row = (size_t)out[SONAR_CBF_LOFAR].stride[0];
    }
    return to;
}

/* Runs the far field as a line, or one field as products of matrices. */
static sonar_code run_alone(const struct cbf *cbf, enum path path, const struct results *to,
                            const sonar_params *params, cudaStream_t stream, sonar_error *err) {
    if (path == PATH_LINE) {
        struct line_pass line = {};
        add_field(cbf, &line.field, &cbf->far_table, to->whole, to->azimuth);
        line.field.part = to->far_part;
        line.lofar = to->lofar;
        line.lofar_row = to->lofar_row;
        return run_line(cbf, &line, to->whole, params, stream, err);
    }
    struct matrix_pass pass = {};
    if (to->near_field)
        add_matrix_field(cbf, &pass, &cbf->near_table, false, to->nearfield);
    else
        add_matrix_field(cbf, &pass, &cbf->far_table, to->whole, to->azimuth);
    pass.field.part = to->near_field ? to->near_part : to->far_part;
    pass.lofar = to->lofar;
    pass.lofar_row = to->lofar_row;
    return run_matrix(cbf, &pass, params, stream, err);
}

/* Runs the far field, the near field, or both in one pass. */
static sonar_code run_fields(const struct cbf *cbf, const struct results *to,
                             const sonar_params *params, cudaStream_t stream, sonar_error *err) {
    struct pass pass = {};
    if (to->far_field)
        add_field(cbf, &pass.field[0], &cbf->far_table, to->whole, to->azimuth);
    if (to->near_field)
        add_field(cbf, &pass.field[1], &cbf->near_table, false, to->nearfield);
    pass.field[0].part = to->far_part;
    pass.field[1].part = to->near_part;
    pass.lofar = to->lofar;
    pass.lofar_row = to->lofar_row;
    complete_pass(cbf, &pass, params);
    return run(cbf, &pass, stream, err);
}

static sonar_code run_path(const struct cbf *cbf, enum path path, const struct results *to,
                           const sonar_params *params, cudaStream_t stream, sonar_error *err) {
    return path == PATH_LINE || path == PATH_MATRIX ? run_alone(cbf, path, to, params, stream, err)
                                                    : run_fields(cbf, to, params, stream, err);
}

/* Runs a line's far field and the near field at the same time. With a small array neither fills the
 * device, and they share no scratch memory. */
static sonar_code run_both(const struct cbf *cbf, enum path near_path, const struct results *far_to,
                           const struct results *near_to, const sonar_params *params,
                           cudaStream_t stream, sonar_error *err) {
    CUDA_TRY("cbf", cudaEventRecord(cbf->forked, stream), err);
    CUDA_TRY("cbf", cudaStreamWaitEvent(cbf->side, cbf->forked, 0), err);
    sonar_code code = run_path(cbf, PATH_LINE, far_to, params, cbf->side, err);
    if (!code)
        code = run_path(cbf, near_path, near_to, params, stream, err);
    if (!code)
        code = CUDA_CHECK("cbf", cudaEventRecord(cbf->joined, cbf->side), err);
    if (!code)
        code = CUDA_CHECK("cbf", cudaStreamWaitEvent(stream, cbf->joined, 0), err);
    if (code) { /* after an error the caller may free the outputs */
        cudaStreamSynchronize(cbf->side);
        cudaGetLastError(); /* the synchronisation is itself an error while a graph is recorded */
    }
    return code;
}

/* Both fields share one pass if they take the same path and the path has room for two fields. */
static sonar_code run_wanted(const struct cbf *cbf, const sonar_buffer *out,
                             const sonar_params *params, sonar_cbf_wanted wanted,
                             cudaStream_t stream, sonar_error *err) {
    enum path far_path = path_of(&cbf->far_table, cbf->input.snapshots);
    enum path near_path = path_of(&cbf->near_table, cbf->input.snapshots);
    const struct results all = results_of(cbf, out, wanted, params);
    struct results far_field = all, near_field = all;
    bool both = all.far_field && all.near_field;
    if (both && far_path == near_path && far_path != PATH_MATRIX)
        return run_path(cbf, far_path, &all, params, stream, err);
    far_field.near_field = near_field.far_field = near_field.whole = false;
    far_field.nearfield = near_field.azimuth = near_field.lofar = NULL;
    if (both && far_path == PATH_LINE)
        return run_both(cbf, near_path, &far_field, &near_field, params, stream, err);
    sonar_code code = SONAR_OK;
    if (all.far_field)
        code = run_path(cbf, far_path, &far_field, params, stream, err);
    if (!code && all.near_field)
        code = run_path(cbf, near_path, &near_field, params, stream, err);
    return code;
}

/* After the first call with a version of the parameters only kernels are enqueued, on one stream or
 * on two that join again. A graph can therefore record the call. */
static sonar_code cbf_execute(void *stage, sonar_queue *queue, const sonar_buffer *in,
                              sonar_buffer *out, const sonar_work *work, sonar_error *err) {
    sonar_nvtx_range range("cbf");
    struct cbf *cbf = (struct cbf *)stage;
    const sonar_cbf_wanted wanted = sonar_cbf_wanted_of(&cbf->spec, work);
    sonar_code code = take_band(cbf, work->params, queue->stream, err);
    if (!code)
        code = check_buffers(&cbf->spec, in, out, work, wanted, err);
    if (!code)
        code = upload(cbf, work->params, wanted, queue->stream, err);
    if (code)
        return code;
    cbf->given = *in;
    cbf->input = {(const float2 *)in->data, (size_t)in->stride[0], (size_t)in->stride[1],
                  (uint32_t)in->shape[0]};
    return run_wanted(cbf, out, work->params, wanted, queue->stream, err);
}

/* Runs points in the place of the near field, or of the far field if there is no near field with as
 * many. Writes their power to `power`, or their part to `y`. */
static sonar_code run_points(const struct cbf *cbf, const sonar_buffer *turns, float *power,
                             const struct part *y, const sonar_params *params, cudaStream_t stream,
                             sonar_error *err) {
    size_t points = turns->shape[0];
    size_t most = sonar_max_size(cbf->energy_items / cbf->cut[CUT_GENERAL].band_blocks, 1) * LANES;
    sonar_code code = SONAR_OK;
    for (size_t done = 0; done < points && !code; done += most) {
        struct table table = {};
        table.turns = (uint64_t *)turns->data + (ptrdiff_t)done * turns->stride[0];
        table.points = sonar_min_size(points - done, most);
        struct pass pass = {};
        add_field(cbf, &pass.field[0], &table, false, power ? power + done : NULL);
        pass.field[0].part = *y;
        pass.field[0].part.y += y->y ? done : 0;
        pass.field[0].sensor_stride = 1;
        pass.field[0].point_stride = (size_t)turns->stride[0];
        complete_pass(cbf, &pass, params);
        code = run(cbf, &pass, stream, err);
    }
    return code;
}

static sonar_code run_points_matrix(const struct cbf *cbf, const sonar_buffer *turns, float *power,
                                    const struct part *y, const sonar_params *params,
                                    cudaStream_t stream, sonar_error *err) {
    struct table table = {};
    struct matrix_pass pass = {};
    table.turns = (uint64_t *)turns->data;
    table.points = turns->shape[0];
    add_matrix_field(cbf, &pass, &table, false, power);
    pass.field.part = *y;
    pass.field.sensor_stride = 1;
    pass.field.point_stride = (size_t)turns->stride[0];
    return run_matrix(cbf, &pass, params, stream, err);
}

static sonar_code cbf_evaluate(void *stage, sonar_queue *queue, const sonar_buffer *turns,
                               sonar_buffer *power, const sonar_work *work, sonar_error *err) {
    struct cbf *cbf = (struct cbf *)stage;
    size_t points = turns->shape[0];
    if (!cbf->input.x)
        return sonar_fail(err, SONAR_ESTATE, "cbf", "evaluate before the first execute");
    if (points == 0)
        return SONAR_OK;
    sonar_code code = take_band(cbf, work->params, queue->stream, err);
    if (!code)
        code = sonar_cbf_check_points(&cbf->spec, &cbf->given, turns, power, err);
    if (!code && (turns->space != SONAR_DEVICE || !sonar_cuda_in_place(power->space)))
        return fail_space(err);
    if (!code)
        code = upload_shading(cbf, work->params, queue->stream, err);
    if (code)
        return code;
    bool matrix = cbf->may_matrix && cbf->input.snapshots >= MATRIX_LEAST;
    const struct part y =
        cbf->spec.parts ? part_of(cbf, power, points, work->params) : (struct part){};
    return (matrix ? run_points_matrix : run_points)(cbf, turns, y.y ? NULL : (float *)power->data,
                                                     &y, work->params, queue->stream, err);
}

extern "C" const sonar_stage_ops sonar_cbf_cuda = {"cbf", cbf_create,  cbf_execute, cbf_evaluate,
                                                   NULL,  cbf_destroy, NULL};
