/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The factor S of R = S S^H: a block of the last L snapshots, or a factor that forgets. R itself is
 * never formed: in float32 its squares would drown all that is 70 dB below the loudest ship.
 */
#include "mvdr_jacobi/internal.h"

#include <math.h>
#include <string.h>

/* ---- helpers --------------------------------------------------------------------------------- */

static bool finite_values(const sonar_c32 *x, size_t count) {
    const float *value = &x->re;
    float sum = 0; /* x * 0 is NaN for anything that is not finite */
    for (size_t i = 0; i < 2 * count; i++)
        sum += value[i] * 0;
    return sum == 0;
}

static const sonar_c32 *arrival(const mvdr_stage *stage, size_t index, size_t bin) {
    return (const sonar_c32 *)stage->in->data + (ptrdiff_t)index * stage->in->stride[0] +
           (ptrdiff_t)bin * stage->in->stride[1];
}

static double largest_value(const mvdr_rows *rows, const sonar_c32 *x) {
    float most = 0;
    for (size_t i = 0; i < rows->n; i++) {
        float re = fabsf(x[rows->sensor[i]].re), im = fabsf(x[rows->sensor[i]].im);
        float larger = re > im ? re : im;
        most = larger > most ? larger : most;
    }
    return (double)most;
}

/* A power of two that brings `most` to about 1, so that squares neither overflow nor vanish. */
static double scale_for(double most) {
    int exponent;
    frexp(most, &exponent);
    return ldexp(1, -exponent);
}

static void zero_tail(float *re, float *im, size_t n, size_t ld) {
    memset(re + n, 0, (ld - n) * sizeof *re);
    memset(im + n, 0, (ld - n) * sizeof *im);
}

/* Appends the snapshot, and with forward-backward its mirrored conjugate, as columns of S. */
static size_t append(const mvdr_stage *stage, mvdr_scratch *scratch, size_t m, const sonar_c32 *x,
                     double scale) {
    const mvdr_rows *rows = &stage->rows;
    size_t ld = mvdr_pad(rows->n, MVDR_ALIGN);
    float *re = scratch->s_re + m * ld, *im = scratch->s_im + m * ld;
    for (size_t i = 0; i < rows->n; i++) {
        re[i] = (float)((double)x[rows->sensor[i]].re * scale);
        im[i] = (float)((double)x[rows->sensor[i]].im * scale);
    }
    zero_tail(re, im, rows->n, ld);
    if (!stage->spec.forward_backward)
        return m + 1;
    for (size_t i = 0; i < rows->n; i++) {
        re[ld + i] = re[rows->partner[i]];
        im[ld + i] = -im[rows->partner[i]];
    }
    zero_tail(re + ld, im + ld, rows->n, ld);
    return m + 2;
}

/* ---- block ----------------------------------------------------------------------------------- */

static void store_arrivals(mvdr_stage *stage, size_t bin) {
    size_t length = stage->spec.snapshots, sensors = stage->spec.sensors, bins = stage->spec.bins;
    size_t skip = stage->arrived > length ? stage->arrived - length : 0;
    for (size_t i = skip; i < stage->arrived; i++) {
        size_t slot = (stage->next + i) % length;
        const sonar_c32 *x = arrival(stage, i, bin);
        memcpy(stage->snapshot + (slot * bins + bin) * sensors, x, sensors * sizeof *x);
        stage->valid[slot * bins + bin] = finite_values(x, sensors);
    }
}

mvdr_factor mvdr_factor_block(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    size_t length = stage->spec.snapshots, sensors = stage->spec.sensors, bins = stage->spec.bins;
    size_t filled = sonar_min_size(stage->filled + stage->arrived, length), count = 0, m = 0;
    store_arrivals(stage, bin);
    double most = 0;
    for (size_t slot = 0; slot < filled; slot++)
        if (stage->valid[slot * bins + bin]) {
            const sonar_c32 *x = stage->snapshot + (slot * bins + bin) * sensors;
            most = fmax(most, largest_value(&stage->rows, x));
            count++;
        }
    if (most == 0)
        return (mvdr_factor){.snapshots = (double)count};
    double scale = scale_for(most);
    for (size_t slot = 0; slot < filled; slot++)
        if (stage->valid[slot * bins + bin])
            m = append(stage, scratch, m, stage->snapshot + (slot * bins + bin) * sensors, scale);
    return (mvdr_factor){m, 1 / ((double)m * scale * scale), (double)count};
}

void mvdr_factor_advance(mvdr_stage *stage) {
    if (!stage->spec.snapshots)
        return;
    stage->next = (stage->next + stage->arrived) % stage->spec.snapshots;
    stage->filled = sonar_min_size(stage->filled + stage->arrived, stage->spec.snapshots);
}

/* ---- forgetting ------------------------------------------------------------------------------ */

/* The kept eigenpairs as columns u sigma, weakened by `weight`. */
static size_t carry_on(const mvdr_stage *stage, size_t bin, mvdr_scratch *scratch, double weight) {
    size_t n = stage->rows.n, ld = mvdr_pad(n, MVDR_ALIGN), k = stage->bin[bin].k;
    size_t first = bin * stage->limits.kept;
    for (size_t j = 0; j < k; j++) {
        double sigma = sqrt(stage->d[first + j]) * weight;
        const float *qr = stage->q_re + (first + j) * stage->ld;
        const float *qi = stage->q_im + (first + j) * stage->ld;
        for (size_t i = 0; i < n; i++) {
            scratch->s_re[j * ld + i] = (float)((double)qr[i] * sigma);
            scratch->s_im[j * ld + i] = (float)((double)qi[i] * sigma);
        }
        zero_tail(scratch->s_re + j * ld, scratch->s_im + j * ld, n, ld);
    }
    return k;
}

/* The largest magnitude S will hold, and how many of the new snapshots are finite. */
static double survey(const mvdr_stage *stage, size_t bin, size_t *good) {
    const mvdr_bin *kept = &stage->bin[bin];
    double most = kept->k ? sqrt(stage->d[bin * stage->limits.kept]) : 0;
    *good = 0;
    for (size_t i = 0; i < stage->arrived; i++) {
        const sonar_c32 *x = arrival(stage, i, bin);
        if (finite_values(x, stage->spec.sensors)) {
            most = fmax(most, largest_value(&stage->rows, x));
            ++*good;
        }
    }
    return most;
}

mvdr_factor mvdr_factor_forget(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    mvdr_bin *kept = &stage->bin[bin];
    double alpha = stage->spec.alpha;
    size_t good, m;
    double most = survey(stage, bin, &good);
    kept->seen += good;
    double faded = pow(alpha, (double)kept->seen);
    kept->share = 1 - faded;
    mvdr_factor result = {.snapshots = (1 + alpha) / (1 - alpha) * (1 - faded) / (1 + faded)};
    if (most == 0)
        return result;
    double scale = scale_for(most), fade = sqrt(alpha);
    double fresh = sqrt(1 - alpha) * (stage->spec.forward_backward ? sqrt(0.5) : 1);
    m = carry_on(stage, bin, scratch, scale * pow(fade, (double)good));
    for (size_t i = 0; i < stage->arrived; i++) {
        const sonar_c32 *x = arrival(stage, i, bin);
        if (finite_values(x, stage->spec.sensors))
            m = append(stage, scratch, m, x, scale * fresh * pow(fade, (double)--good));
    }
    result.m = m;
    result.factor = 1 / (scale * scale);
    return result;
}
