/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Adopts new parameters, and clears the stage after a reset. */
#ifndef SONAR_MVDR_JACOBI_CUDA_PARAMS_CUH
#define SONAR_MVDR_JACOBI_CUDA_PARAMS_CUH

#include <string.h>

#include "mvdr_jacobi/cuda/state.cuh"

namespace mvdr::host {

/* Notes the reset. The next call clears the stage, since there is no queue here. */
inline void reset(void *opaque) {
    mvdr_stage *stage = (mvdr_stage *)opaque;
    stage->forgotten = true;
}

/* Marks all bins as unsolved. */
inline sonar_code mark_unsolved(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    return CUDA_CHECK(
        where, cudaMemsetAsync(v->unsolved, 1, v->spec.bins * sizeof *v->unsolved, stream), err);
}

/* Drops all inverses. */
inline sonar_code forget_inverses(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    return v->slide
               ? CUDA_CHECK(where,
                            cudaMemsetAsync(v->slide, 0, v->spec.bins * sizeof *v->slide, stream),
                            err)
               : SONAR_OK;
}

/* Makes the next decompositions begin from nothing. */
inline sonar_code forget_vectors(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    return v->kept ? CUDA_CHECK(where,
                                cudaMemsetAsync(v->kept, 0, v->spec.bins * sizeof *v->kept, stream),
                                err)
                   : SONAR_OK;
}

inline sonar_code forget(mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    if (!stage->forgotten)
        return SONAR_OK;
    const mvdr::view *v = &stage->view;
    CUDA_TRY(where, cudaMemsetAsync(v->bin, 0, v->spec.bins * sizeof *v->bin, stream), err);
    CUDA_TRY(where, cudaMemsetAsync(v->ring, 0, sizeof *v->ring, stream), err);
    if (!v->by_snapshots) {
        const size_t bytes = v->spec.bins * v->sums_stride * sizeof *v->sums;
        CUDA_TRY(where, cudaMemsetAsync(v->sums, 0, bytes, stream), err);
        if (v->rest)
            CUDA_TRY(where, cudaMemsetAsync(v->rest, 0, bytes, stream), err);
    }
    stage->forgotten = false;
    sonar_code code = forget_inverses(stage, stream, err);
    if (!code)
        code = forget_vectors(stage, stream, err);
    return code ? code : mark_unsolved(stage, stream, err);
}

/* Lists the sensors in use as rows, and for each sensor its mirror. */
inline void list_rows(mvdr_stage *stage, const sonar_params *params) {
    mvdr::view *v = &stage->view;
    const size_t sensors = v->spec.sensors;
    size_t *partner = stage->rows + sensors;
    v->n = (uint32_t)mvdr_list_rows(params, v->spec.forward_backward, stage->rows, partner,
                                    stage->row_of);
    v->middle = v->n ? stage->rows[mvdr_middle_row(params, stage->rows, v->n)] : 0;
    if (v->spec.parts)
        v->middle = mvdr::ORIGIN;
    v->order = v->by_snapshots && v->n ? v->columns : v->n;
    memset(stage->mirror, 0xff, sensors * sizeof *stage->mirror);
    for (uint32_t i = 0; i < v->n; i++)
        stage->mirror[stage->rows[i]] =
            (uint32_t)stage->rows[v->spec.forward_backward ? partner[i] : i];
}

/* Copies the rows and mirrors to the device. Pageable memory is read before the copies return, so
 * that the arrays may change afterwards. */
inline sonar_code upload_rows(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    size_t sensors = stage->view.spec.sensors;
    CUDA_TRY(where,
             cudaMemcpyAsync(stage->device_rows, stage->rows, 2 * sensors * sizeof(size_t),
                             cudaMemcpyHostToDevice, stream),
             err);
    return CUDA_CHECK(where,
                      cudaMemcpyAsync((void *)stage->view.mirror, stage->mirror,
                                      sensors * sizeof(uint32_t), cudaMemcpyHostToDevice, stream),
                      err);
}

/* Copies a table to the device, unless it is there already: then *same becomes true. */
inline sonar_code upload_turns(const sonar_manifold *from, uint64_t *to, uint64_t *made, bool *same,
                               cudaStream_t stream, sonar_error *err) {
    const size_t count = from->ranges * from->directions * from->sensors;
    *same = from->made && from->made == *made;
    *made = from->made;
    return *same || !to ? SONAR_OK
                        : CUDA_CHECK(where,
                                     cudaMemcpyAsync(to, from->turns, count * sizeof *to,
                                                     cudaMemcpyHostToDevice, stream),
                                     err);
}

/* Adopts the rows, mirrors, turns and live values of new parameters. Kernels get the live values
 * with each launch; a recorded graph is only run with the version of its parameters. Sums are kept
 * if their sensors and turns have not changed. A part of an array always recomputes its sums: it
 * does not know which part's mask has changed, and all parts have to recompute together. */
inline sonar_code update_rows(mvdr_stage *stage, const sonar_params *params, cudaStream_t stream,
                              sonar_error *err) {
    mvdr::view *v = &stage->view;
    const size_t sensors = v->spec.sensors;
    bool same_far, same_near;
    if (stage->versioned && stage->version == params->version)
        return SONAR_OK;
    sonar_code code = mvdr_check_params(&v->spec, params, err);
    if (!code)
        code = upload_turns(&params->far_mvdr, stage->held ? (uint64_t *)v->turns : NULL,
                            &stage->far_made, &same_far, stream, err);
    if (!code)
        code = upload_turns(&params->near_mvdr, stage->near_turns, &stage->near_made, &same_near,
                            stream, err);
    if (code)
        return code;
    mvdr_renew_spec(&v->spec, params);
    v->gain = mvdr_least_gain(&v->spec);
    v->band = mvdr_band_of(&v->spec, params);
    const bool others = memcmp(stage->used, params->used, sensors) != 0;
    const bool same = stage->versioned && !v->spec.parts && same_far && !others;
    stage->mask_changed = stage->versioned && others && !v->spec.parts;
    memcpy(stage->used, params->used, sensors);
    if (!same) {
        list_rows(stage, params);
        stage->stale = true;
        code = upload_rows(stage, stream, err);
        if (!code)
            code = forget_inverses(stage, stream, err);
    }
    if (!code)
        code = forget_vectors(stage, stream, err);
    if (code)
        return code;
    stage->version = params->version;
    stage->versioned = stage->changed = true;
    return mark_unsolved(stage, stream, err);
}

} // namespace mvdr::host

#endif
