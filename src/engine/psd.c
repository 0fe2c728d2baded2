/* SPDX-License-Identifier: GPL-3.0-or-later */
/* element.psd: the power of every channel, computed on the host from the CBF's transforms. */
#include <string.h>

#include "engine/internal.h"

/* Mean over the snapshots in the live band's bins, to psd [channel][bin]. Channels without a sensor
 * keep their old values. */
static void fill(const sonar_engine *e, const sonar_params *params, sonar_buffer *psd) {
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

/* Gathers all ranks' power of every channel on the root; an absent rank sends zeros. */
static sonar_code share(sonar_engine *e, const struct job *job, sonar_error *err) {
    const size_t shape[] = {e->spec.specs->dft.channels,
                            sonar_engine_live_cbf(e, job->work.params)->bins};
    sonar_buffer psd = sonar_buffer_view(e->parts.psd, SONAR_F32, 2, shape);
    if (job->absent)
        memset(psd.data, 0, psd.bytes);
    else
        fill(e, job->work.params, &psd);
    return sonar_exchange_psd(e->exchange, &psd, job->surface, err);
}

sonar_code sonar_engine_make_psd(sonar_engine *e, const struct job *job, sonar_error *err) {
    if (e->exchange)
        return share(e, job, err);
    fill(e, job->work.params, &job->surface[SONAR_ELEMENT_PSD]);
    return SONAR_OK;
}
