/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Conventional beamformer, near field, Lofar and band energy (thesis 6.4; algorithms: CBF).
 *
 *   in[0]                     c32 [snapshot][bin][sensor]  from the DFT stage (|X|^2 is a PSD)
 *   out[SONAR_CBF_AZIMUTH]    f32 [direction]          band energy, unit^2
 *   out[SONAR_CBF_NEARFIELD]  f32 [range][direction]   band energy, unit^2
 *   out[SONAR_CBF_LOFAR]      f32 [bin][direction]     all bins, CBF and Lofar, unit^2/Hz
 *
 * y(theta, b) = sum_k g_k conj(a_k) X_k / sum_k g_k, P = the mean of |y|^2 over the snapshots; the
 * band energy is (fs/N) sum_b P over the CBF bins. a_k = exp(+j 2 pi b turns_k) from
 * params->far_cbf / near_cbf, made on the fly. The input is dense in its last index, has between
 * one and spec.max_snapshots snapshots, and is read again by evaluate, which averages over the same
 * ones. Surfaces whose bit is not set in work->outputs are left untouched.
 */
#ifndef SONAR_CBF_H
#define SONAR_CBF_H

#include "sonar/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SONAR_CBF_OUTPUTS = SONAR_CBF_LOFAR + 1 };

typedef struct sonar_cbf_spec {
    size_t sensors, directions, ranges; /* ranges may be 0: no near field */
    double fs_hz;
    size_t length;              /* N of the DFT: bin width is fs/N */
    size_t first_bin, bins;     /* bins of the input, a contiguous run */
    size_t cbf_first, cbf_bins; /* the CBF band, absolute bin numbers, inside the input's */
    size_t max_snapshots;       /* of one execute, at least 1 */
} sonar_cbf_spec;

typedef enum sonar_shading {
    SONAR_SHADING_UNIFORM = 0,
    SONAR_SHADING_HANN,
    SONAR_SHADING_CHEBYSHEV, /* Dolph 1946: equal side lobes at -sidelobe_db */
    SONAR_SHADING_TAYLOR     /* Taylor 1955: nbar side lobes at -sidelobe_db */
} sonar_shading;

/* Weights of n equally spaced elements, largest 1, into g. SONAR_EINVAL for a side-lobe level or
 * nbar the design cannot have. */
sonar_code sonar_cbf_shading(sonar_shading kind, double sidelobe_db, int nbar, size_t n, double *g,
                             sonar_error *err);

/* SONAR_EINVAL for a specification no backend can meet. */
sonar_code sonar_cbf_check(const sonar_cbf_spec *spec, sonar_error *err);

extern const sonar_stage_ops sonar_cbf_cpu;
extern const sonar_stage_ops sonar_cbf_cuda; /* in the CUDA plugin only */

#ifdef __cplusplus
}
#endif

#endif
