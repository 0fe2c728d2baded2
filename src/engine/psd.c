/* SPDX-License-Identifier: GPL-3.0-or-later */
/* element.psd: the power of every channel, computed on the host from the CBF's transforms. */
#include "engine/internal.h"

void sonar_engine_make_psd(const sonar_engine *e, const sonar_params *params, sonar_buffer *psd) {
    const sonar_buffer *x = &e->side[HOST_SIDE].spectra.cbf;
    size_t snapshots = x->shape[0], sensors = x->shape[2], bins = psd->shape[1];
    const size_t all = x->shape[1],
                 first = sonar_engine_live_cbf(e, params)->first_bin - e->spec.specs->cbf.first_bin;
    for (size_t s = 0; s < sensors; s++) {
        float *row = (float *)psd->data + params->channel[s] * bins;
        for (size_t b = 0; b < bins; b++) {
            float sum = 0;
            for (size_t i = 0; i < snapshots; i++) {
                sonar_c32 v = ((const sonar_c32 *)x->data)[(i * all + first + b) * sensors + s];
                sum += v.re * v.re + v.im * v.im;
            }
            row[b] = sum / (float)snapshots;
        }
    }
}
