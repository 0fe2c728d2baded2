/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Makes the transforms from their options: lengths, hops and snapshots of the main DFT, the CBF's
 * and the MVDR's, and the bands of bins that each needs. Called by resolve.c. */
#include "config/access.h"

#include "core/core.h"

#include <math.h>

/* ---- lengths and hops ------------------------------------------------------------------------ */

static bool resolve_dft(sonar_loader *l) {
    sonar_specs *specs = &l->config->specs;
    if (!have(l, OPT_FS))
        return false;
    if (value(l, OPT_LENGTH)->bad || value(l, OPT_HOP)->bad)
        return false;
    if (!have(l, OPT_LENGTH)) {
        double length = 2;
        while (length < l->config->fs_hz)
            length *= 2;
        if (length > sonar_options[OPT_LENGTH].high)
            return fail(l, OPT_FS, NULL, "so high that dft.length must be given");
        sonar_value_set_number(l, OPT_LENGTH, length);
    }
    if (!have(l, OPT_HOP))
        sonar_value_set_number(l, OPT_HOP, (double)(specs->window_length / 2));
    return true;
}

static bool resolve_cbf_dft(sonar_loader *l) {
    sonar_specs *specs = &l->config->specs;
    if (value(l, OPT_CBF_LENGTH)->bad || value(l, OPT_CBF_HOP)->bad)
        return false;
    if (!have(l, OPT_CBF_LENGTH))
        sonar_value_set_number(l, OPT_CBF_LENGTH, (double)specs->window_length);
    if (!have(l, OPT_CBF_HOP))
        sonar_value_set_number(l, OPT_CBF_HOP, (double)(specs->cbf.length / 2));
    if (specs->cbf.length > specs->window_length)
        return fail(l, OPT_CBF_LENGTH, NULL, "%zu samples do not fit a window of dft.length %zu",
                    specs->cbf.length, specs->window_length);
    specs->cbf.max_snapshots = (specs->window_length - specs->cbf.length) / specs->cbf_hop + 1;
    if (specs->cbf.max_snapshots > SONAR_SNAPSHOTS_MOST)
        return fail(l, OPT_CBF_HOP, "a longer one",
                    "a window would hold %zu snapshots, at most %d are possible",
                    specs->cbf.max_snapshots, SONAR_SNAPSHOTS_MOST);
    return true;
}

static size_t common_divisor(size_t a, size_t b) {
    while (b) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Counts the new snapshots of a window: those that end in it but not in the one before begin less
 * than length + hop - dft.length samples before it. Windows and snapshots begin at multiples of
 * their hops. */
static void resolve_new_snapshots(sonar_specs *specs) {
    size_t both = specs->mvdr.length + specs->hop,
           step = common_divisor(specs->hop, specs->mvdr_hop);
    if (!specs->mvdr_enabled)
        return;
    if (both > specs->window_length)
        specs->mvdr_lookback = (both - specs->window_length - 1) / step * step;
    specs->mvdr.max_new =
        (specs->window_length + specs->mvdr_lookback - specs->mvdr.length) / specs->mvdr_hop + 1;
}

static bool resolve_mvdr_dft(sonar_loader *l) {
    sonar_specs *specs = &l->config->specs;
    if (value(l, OPT_MVDR_LENGTH)->bad || value(l, OPT_MVDR_HOP)->bad)
        return false;
    if (!have(l, OPT_MVDR_LENGTH))
        sonar_value_set_number(l, OPT_MVDR_LENGTH, (double)specs->window_length);
    if (!have(l, OPT_MVDR_HOP)) /* so that windows of the main DFT are not transformed twice */
        sonar_value_set_number(l, OPT_MVDR_HOP,
                               specs->mvdr.length == specs->window_length
                                   ? (double)specs->hop
                                   : fmax(1, (double)(specs->mvdr.length / 2)));
    if (specs->mvdr.length > specs->window_length && specs->mvdr_enabled)
        return fail(l, OPT_MVDR_LENGTH, NULL, "%zu samples do not fit a window of dft.length %zu",
                    specs->mvdr.length, specs->window_length);
    resolve_new_snapshots(specs);
    return true;
}

/* ---- bands ----------------------------------------------------------------------------------- */

/* Bins within a millionth of the edge count as inside, so that edges written in decimal hold. */
static bool band_of_hz(sonar_loader *l, sonar_option_id id, size_t length, sonar_band *band) {
    const double *hz = value(l, id)->numbers, fs = l->config->fs_hz;
    if (hz[0] > hz[1])
        return fail(l, id, "[low, high]", "%g Hz is above %g Hz", hz[0], hz[1]);
    if (hz[1] > fs / 2)
        return fail(l, id, "frequencies up to fs_hz / 2",
                    "%g Hz is above half the sampling rate, %g Hz", hz[1], fs / 2);
    const double first = ceil(hz[0] * (double)length / fs - 1e-6);
    const double last = fmin(floor(hz[1] * (double)length / fs + 1e-6), (double)(length / 2));
    if (last < first)
        return fail(l, id, NULL, "no bin lies in it: bins are %g Hz apart", fs / (double)length);
    *band = (sonar_band){hz[0], hz[1], (size_t)first, (size_t)(last - first) + 1};
    return true;
}

static bool band_of_bins(sonar_loader *l, sonar_option_id id, size_t length, sonar_band *band) {
    const double *bin = value(l, id)->numbers, width = l->config->fs_hz / (double)length;
    if (bin[0] > bin[1])
        return fail(l, id, "[first, last]", "bin %.0f comes after bin %.0f", bin[0], bin[1]);
    if (bin[1] > (double)(length / 2))
        return fail(l, id, NULL, "a transform of %zu samples ends at bin %zu", length, length / 2);
    *band =
        (sonar_band){bin[0] * width, bin[1] * width, (size_t)bin[0], (size_t)(bin[1] - bin[0]) + 1};
    return true;
}

/* In the table, hz is followed by bins. Returns false without a report if neither can be used. */
static bool resolve_band(sonar_loader *l, sonar_option_id hz, size_t length, sonar_band *band) {
    const sonar_option_id bins = (sonar_option_id)(hz + 1);
    if (have(l, hz))
        return band_of_hz(l, hz, length, band);
    return have(l, bins) && band_of_bins(l, bins, length, band);
}

/* A band that is not given equals the CBF's: in bins if bins have the same meaning, else in Hz. */
static void default_band(sonar_loader *l, sonar_option_id hz, size_t length) {
    const sonar_option_id bins = (sonar_option_id)(hz + 1);
    const sonar_band *cbf = &l->config->cbf_band;
    if (value(l, hz)->origin != SONAR_ABSENT || value(l, bins)->origin != SONAR_ABSENT)
        return;
    const double edges[2] = {cbf->low_hz, cbf->high_hz};
    const double range[2] = {(double)cbf->first_bin, (double)(cbf->first_bin + cbf->bins - 1)};
    if (have(l, OPT_CBF_BAND_HZ) || length != l->config->specs.cbf.length)
        sonar_value_set_list(l, hz, 2, 1, edges);
    else
        sonar_value_set_list(l, bins, 2, 1, range);
}

/* Widens the band to the smallest one that contains both. */
static void widen(sonar_band *band, const sonar_band *by) {
    const size_t end = sonar_max_size(band->first_bin + band->bins, by->first_bin + by->bins);
    band->first_bin = sonar_min_size(band->first_bin, by->first_bin);
    band->bins = end - band->first_bin;
    band->low_hz = fmin(band->low_hz, by->low_hz);
    band->high_hz = fmax(band->high_hz, by->high_hz);
}

/* A disabled part is not checked against the rest. */
static bool resolve_bands(sonar_loader *l) {
    sonar_config *c = l->config;
    const bool mvdr_dft = resolve_mvdr_dft(l), cbf_dft = resolve_cbf_dft(l);
    const size_t cbf_length = c->specs.cbf.length, mvdr_length = c->specs.mvdr.length;
    const bool cbf = cbf_dft && resolve_band(l, OPT_CBF_BAND_HZ, cbf_length, &c->cbf_band);
    if (cbf)
        default_band(l, OPT_LOFAR_BAND_HZ, cbf_length);
    if (cbf && mvdr_dft)
        default_band(l, OPT_MVDR_BAND_HZ, mvdr_length);
    if (l->no_memory)
        return false;
    const bool lofar = cbf && resolve_band(l, OPT_LOFAR_BAND_HZ, cbf_length, &c->lofar_band);
    const bool mvdr = !c->specs.mvdr_enabled ||
                      (mvdr_dft && resolve_band(l, OPT_MVDR_BAND_HZ, mvdr_length, &c->mvdr_band));
    if (lofar) /* one transform serves the bins of both */
        widen(&c->lofar_band, &c->cbf_band);
    return lofar && mvdr;
}

bool sonar_resolve_transforms(sonar_loader *l) {
    return resolve_dft(l) && resolve_bands(l);
}
