/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "analysis/tones/tones.h"

#include <math.h>
#include <stdlib.h>

#include "core/core.h"
#include "manifold/angle.h"

/* The bins around one from which its background is taken. */
enum { GAP = 3, REACH = 10, AROUND = 2 * (REACH - GAP + 1), LEAST = AROUND / 2, HIGHEST = 2 };
_Static_assert(SONAR_TONES_BINS == REACH + 1, "a bin at an end has half of those around it");
static const float over_median = 19.95f; /* 13 dB */
static const float below_loudest = 0.1f;
/* A contact's power is the largest within this distance, and no larger one may be in the beam. In
 * beam widths at the bin's frequency. */
static const double own_beams = 0.5, beam_beams = 1;

struct sonar_tones {
    sonar_tones_spec spec;
    float *level;  /* [bin] scratch: at the contact; 0: none */
    double *beams; /* [direction] scratch: distance from the contact, in beam widths at the top */
};

sonar_code sonar_tones_create(const sonar_tones_spec *spec, sonar_tones **made, sonar_error *err) {
    *made = NULL;
    if (spec->bins < SONAR_TONES_BINS || !spec->scan->count)
        return sonar_fail(err, SONAR_EINVAL, "tones", "%zu bins and %zu directions have no tones",
                          spec->bins, spec->scan->count);
    sonar_tones *t = sonar_alloc(1, sizeof *t);
    if (t)
        *t = (sonar_tones){*spec, sonar_alloc(spec->bins, sizeof *t->level),
                           sonar_alloc(spec->scan->count, sizeof *t->beams)};
    if (!t || !t->level || !t->beams) {
        sonar_tones_destroy(t);
        return sonar_fail(err, SONAR_ENOMEM, "tones", "no memory for %zu bins", spec->bins);
    }
    *made = t;
    return SONAR_OK;
}

void sonar_tones_destroy(sonar_tones *t) {
    if (t) {
        free(t->level);
        free(t->beams);
    }
    free(t);
}

/* One beam width at a bin's frequency, in those at the top. */
static double beam_of(const sonar_tones_spec *spec, size_t bin) {
    const double hz = (double)(spec->first_bin + bin) * spec->bin_hz;
    return spec->top_hz / fmax(hz, spec->bin_hz / 2);
}

/* The largest power near the contact in a bin, and the largest in the rest of its beam. nearest:
 * its direction. */
static float power_of(const sonar_tones *t, const float *power, size_t bin, size_t nearest,
                      float *beside) {
    const sonar_scan *scan = t->spec.scan;
    const ptrdiff_t n = (ptrdiff_t)scan->count;
    const double beam = beam_of(&t->spec, bin);
    float own = power[nearest];
    *beside = 0;
    for (ptrdiff_t way = -1; way <= 1; way += 2)
        for (ptrdiff_t step = 1; step < n; step++) {
            const ptrdiff_t i = (ptrdiff_t)nearest + way * step;
            if (!scan->wraps && (i < 0 || i >= n))
                break;
            const size_t at = sonar_scan_index(scan, i);
            const double beams = t->beams[at] / beam;
            if (beams > beam_beams)
                break;
            float *largest = beams <= own_beams ? &own : beside;
            *largest = fmaxf(*largest, power[at]);
        }
    return isfinite(own) ? own : 0;
}

static bool is_highest(const sonar_tones *t, size_t bin) {
    for (size_t k = 1; k <= HIGHEST; k++)
        if ((bin >= k && t->level[bin - k] >= t->level[bin]) ||
            (bin + k < t->spec.bins && t->level[bin + k] >= t->level[bin]))
            return false;
    return t->level[bin] > 0;
}

/* The median of the bins around; 0 if there are too few. */
static float median_around(const sonar_tones *t, size_t bin) {
    float around[AROUND];
    size_t n = 0;
    for (size_t k = GAP; k <= REACH; k++) {
        if (bin >= k)
            around[n++] = t->level[bin - k];
        if (bin + k < t->spec.bins)
            around[n++] = t->level[bin + k];
    }
    return n >= LEAST ? sonar_median(around, n) : 0;
}

/* True if the power is the contact's own, and no other's main lobe or side lobe. */
static bool is_own(const sonar_tones *t, const float *power, size_t bin, size_t nearest) {
    float loudest = 0, beside;
    const float own = power_of(t, power, bin, nearest, &beside);
    for (size_t i = 0; i < t->spec.scan->count; i++)
        loudest = fmaxf(loudest, power[i]);
    return own > beside && own >= below_loudest * loudest;
}

static double frequency_of(const sonar_tones *t, size_t bin) {
    double x[3], y_db[3], at = (double)bin, top_db;
    if (bin > 0 && bin + 1 < t->spec.bins) {
        for (size_t i = 0; i < 3; i++) {
            x[i] = (double)(bin + i) - 1;
            y_db[i] = sonar_decibel((double)t->level[bin + i - 1]);
        }
        sonar_parabola(x, y_db, &at, &top_db);
    }
    return ((double)t->spec.first_bin + at) * t->spec.bin_hz;
}

/* Adds a tone, strongest first, in place of the weakest if there are too many. */
static void add(sonar_detection *d, sonar_tone tone) {
    size_t at = d->tones < SONAR_TONES_MOST ? d->tones++ : SONAR_TONES_MOST;
    for (; at > 0 && d->tone[at - 1].snr_db < tone.snr_db; at--)
        if (at < SONAR_TONES_MOST)
            d->tone[at] = d->tone[at - 1];
    if (at < SONAR_TONES_MOST)
        d->tone[at] = tone;
}

static void find(sonar_tones *t, const float *power, sonar_detection *d) {
    const sonar_scan *scan = t->spec.scan;
    const size_t directions = scan->count, bins = t->spec.bins;
    const size_t nearest = sonar_scan_nearest(scan, d->az_deg);
    float beside;
    for (size_t i = 0; i < directions; i++)
        t->beams[i] = sonar_beams_apart(scan, scan->az_deg[i], d->az_deg);
    for (size_t bin = 0; bin < bins; bin++)
        t->level[bin] = power_of(t, power + bin * directions, bin, nearest, &beside);
    for (size_t bin = 0; bin < bins; bin++) {
        if (!is_highest(t, bin))
            continue;
        const float median = median_around(t, bin);
        if (median > 0 && t->level[bin] >= over_median * median &&
            is_own(t, power + bin * directions, bin, nearest))
            add(d, (sonar_tone){frequency_of(t, bin),
                                10 * log10((double)t->level[bin] / (double)median)});
    }
}

void sonar_tones_find(sonar_tones *t, const float *power, sonar_detection *detection,
                      size_t count) {
    for (size_t i = 0; i < count; i++) {
        detection[i].tones = 0;
        find(t, power, &detection[i]);
    }
}
