/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The GPU's MVDR stage: the same computation as the CPU's, all in float64. The steps and the files
 * of their kernels:
 *
 * - The sums over the sensors (cuda/sums/) or over the snapshots (cuda/arrive.cuh).
 * - Loading and inverse factor, a thread block for each bin (cuda/solve.cuh), and the spectrum, a
 *   thread block for 32 directions of a bin (cuda/spectrum.cuh).
 * - For large matrices, a thread block for each square of 64 rows and columns: counts and factors
 *   (cuda/factor_grid.cuh), and spectra, also those from eigenvectors (cuda/spectrum_grid.cuh).
 * - Eigenvectors by Jacobi's method, a team of thread blocks for each matrix (cuda/jacobi/).
 * - Instead of these, the streaming inverse, updated by the snapshots (cuda/inverse/).
 *
 * The host decides nothing that depends on data, and no intermediate result leaves the device. A
 * file has its kernels and the functions of the host that launch them; cuda/window.cuh has their
 * order.
 */
#include "mvdr_jacobi/cuda/create.cuh"
#include "mvdr_jacobi/cuda/params.cuh"
#include "mvdr_jacobi/cuda/arrive.cuh"
#include "mvdr_jacobi/cuda/parts.cuh"
#include "mvdr_jacobi/cuda/window.cuh"

namespace mvdr::host {

inline sonar_code execute(void *opaque, sonar_queue *queue, const sonar_buffer *in,
                          sonar_buffer *out, const sonar_work *work, sonar_error *err) {
    sonar_nvtx_range range("mvdr_jacobi");
    mvdr_stage *stage = (mvdr_stage *)opaque;
    const sonar_mvdr_spec *spec = &stage->view.spec;
    const bool joined = spec->parts == SONAR_MVDR_JOINED;
    if (spec->parts == SONAR_MVDR_PART)
        return execute_part(stage, queue->stream, in, out, work, err);
    const mvdr_wants wants = mvdr_wants_of(work, out);
    sonar_code code =
        joined ? mvdr_check_joined(spec, in, out, err) : mvdr_check_shapes(spec, in, out, err);
    if (!code)
        code = check_spaces(in, joined ? 2 : 1, err);
    if (!code)
        code = check_spaces(out, SONAR_MVDR_OUTPUTS, err);
    if (!code)
        code = forget(stage, queue->stream, err);
    if (!code)
        code = update_rows(stage, work->params, queue->stream, err);
    if (!code)
        code =
            begin_inverse(stage, (uint32_t)in->shape[0], updates(stage, wants), queue->stream, err);
    if (!code)
        code = joined ? take_in_joined(stage, in, work->snapshots, queue->stream, err)
                      : take_in(stage, arrivals_of(in), queue->stream, err);
    if (!code && wants.any)
        code = publish(stage, queue->stream, out, work, err);
    return code;
}

/* Evaluates AT_ONCE points at a time. */
inline sonar_code evaluate(void *opaque, sonar_queue *queue, const sonar_buffer *turns,
                           sonar_buffer *power, const sonar_work *work, sonar_error *err) {
    (void)work;
    mvdr_stage *stage = (mvdr_stage *)opaque;
    const mvdr::view *v = &stage->view;
    const size_t count = turns->shape[0];
    const cudaStream_t stream = queue->stream;
    if (v->spec.parts)
        return evaluate_parts(stage, stream, turns, power, err);
    if (count == 0)
        return SONAR_OK;
    sonar_code code = mvdr_check_points(&v->spec, turns, power, err);
    if (!code)
        code = check_spaces(turns, 1, err);
    if (!code)
        code = check_spaces(power, 1, err);
    if (!code)
        code = forget(stage, stream, err);
    if (!code)
        code = solve_for_points(stage, stream, err);
    for (size_t first = 0; first < count && !code; first += AT_ONCE)
        code = evaluate_points(stage,
                               (const uint64_t *)turns->data + (ptrdiff_t)first * turns->stride[0],
                               (size_t)turns->stride[0], sonar_min_size(AT_ONCE, count - first),
                               (float *)power->data + (ptrdiff_t)first * power->stride[0],
                               power->stride[0], stream, err);
    return code;
}

} // namespace mvdr::host

extern "C" const sonar_stage_ops sonar_mvdr_jacobi_cuda = {
    "mvdr_jacobi",     mvdr::host::create,  mvdr::host::execute, mvdr::host::evaluate,
    mvdr::host::reset, mvdr::host::destroy, mvdr::host::join};
