/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * MUSIC (Schmidt, IEEE Trans. AP 34, 1986): the share of a steering vector outside of the signal
 * subspace, which the eigenvectors of the K largest eigenvalues span. The pseudo-spectrum of
 * several bins is 1 over the mean of their shares, so that a peak needs a source in all of them
 * (incoherent wideband MUSIC: Wax, Shan and Kailath, IEEE Trans. ASSP 32, 1984).
 */
#include "mvdr_jacobi/cpu/kernels.h"
#include "mvdr_jacobi/rules/modes.h"

#include <float.h>
#include <math.h>

/* Finds the eigenvectors of the bin's matrix, unless its solution already has them. Info then
 * describes this decomposition. */
static void find_vectors(mvdr_stage *stage, size_t bin, size_t order, float *info,
                         mvdr_scratch *scratch) {
    if (!mvdr_music_decomposes(&stage->spec))
        return;
    const mvdr_sweeps sweeps = mvdr_decompose(stage, bin, order, true, scratch);
    info[SONAR_MVDR_SWEEPS] = (float)sweeps.count;
    info[SONAR_MVDR_RESIDUAL] = (float)sweeps.residual;
    const unsigned flags = (unsigned)info[SONAR_MVDR_FLAGS];
    info[SONAR_MVDR_FLAGS] =
        (float)(flags | (sweeps.converged ? 0 : SONAR_MVDR_FLAG_NOT_CONVERGED));
}

/* Writes the basis of the signal subspace to scratch->signal; returns its dimension. */
static size_t find_subspace(const mvdr_stage *stage, size_t order, size_t sources,
                            mvdr_scratch *scratch) {
    size_t rows = 0;
    for (; rows < sources && scratch->d[rows] > MVDR_LEAST_MODE * scratch->d[0]; rows++)
        scratch->e[rows] = mvdr_of_mode(stage, scratch, rows);
    mvdr_weigh_vectors(scratch, order, rows, scratch->signal);
    return rows;
}

void mvdr_music(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    float *info = stage->info + bin * SONAR_MVDR_INFO_FIELDS;
    const size_t order = stage->bin[bin].view.m;
    size_t rows = (size_t)info[SONAR_MVDR_SUBSPACE];
    if (!rows)
        return;
    find_vectors(stage, bin, order, info, scratch);
    rows = find_subspace(stage, order, rows, scratch);
    info[SONAR_MVDR_SUBSPACE] = (float)rows;
    for (size_t t = 0; t < stage->directions; t += MVDR_LANES) {
        float *share = stage->share + bin * stage->directions + t;
        double norm[MVDR_LANES], inside[MVDR_LANES];
        mvdr_look(stage, bin, t, scratch, norm);
        scratch->kernels->multiplied(scratch->signal, rows, scratch->z, mvdr_pad(order, MVDR_LANES),
                                     NULL, inside);
        for (size_t lane = 0; lane < MVDR_LANES; lane++)
            share[lane] = (float)fmax(1 - inside[lane] / norm[lane], 4 * DBL_EPSILON);
    }
}

void mvdr_music_publish(const mvdr_stage *stage, const sonar_buffer *out) {
    for (size_t t = 0; t < stage->spec.directions; t++) {
        double sum = 0, count = 0;
        for (size_t bin = stage->band.sum_begin; bin < stage->band.sum_end; bin++)
            if (stage->info[bin * SONAR_MVDR_INFO_FIELDS + SONAR_MVDR_SUBSPACE] > 0) {
                sum += (double)stage->share[bin * stage->directions + t];
                count++;
            }
        ((float *)out->data)[(ptrdiff_t)t * out->stride[0]] = (float)(count > 0 ? count / sum : 1);
    }
}
