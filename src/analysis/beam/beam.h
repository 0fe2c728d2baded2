/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Beams as time series: delay and sum in the time domain, for listening and for uses that need
 * finer frequencies than the windows' spectra.
 *
 *   y[t] = sum_k g_k s_k x_k(t - tau_k + d_k) / sum_k g_k
 *
 * with the CBF's shading g, scale s (uPa per count, or 1), delays tau and corrections d, so that
 * the spectrum of y is that of the CBF's beam. y[t] is the sound at the origin at sample t.
 *
 * Values between samples come from a sinc of SONAR_BEAM_TAPS taps under a Kaiser window. Its taps
 * are polynomials in the fraction of a sample (Farrow, ISCAS 1988), so all sensors share one filter
 * for each power: a sensor costs SONAR_BEAM_POWERS multiplications a sample, however long the
 * filter is. Up to SONAR_BEAM_SHARE of half the sampling rate the error is below -60 dB.
 *
 * A run gives the `hop` samples that end SONAR_BEAM_HALF + reach before the window's end, so the
 * runs of consecutive windows continue one another without overlap. All samples come from the
 * window and its lookback. No samples are kept between runs, so none from before a gap or a restart
 * can enter. A sample is NaN if any used channel lacks a sample within HALF + reach of it, or if
 * the stream had not begun there.
 *
 * The steering of a beam may change between two runs that continue each other. A bearing follows
 * the heading in steps of SONAR_BEAM_STEP samples, with a linear cross-fade over each. Any other
 * change (direction, mask, gain, sound speed) is cross-faded over the first 5 ms.
 */
#ifndef SONAR_BEAM_H
#define SONAR_BEAM_H

#include "core/window.h"
#include "manifold/manifold.h"
#include "status/result.h"

enum {
    SONAR_BEAM_HALF = 16, /* taps on either side of the middle one */
    SONAR_BEAM_TAPS = 2 * SONAR_BEAM_HALF + 1,
    SONAR_BEAM_POWERS = 6,
    SONAR_BEAM_STEP = 64
};
#define SONAR_BEAM_SHARE 0.8 /* of half the sampling rate */

typedef struct sonar_beam_spec {
    size_t sensors, beams, hop;
    size_t reach; /* samples; at least the largest |tau_k - d_k| of any direction */
    double fs_hz;
} sonar_beam_spec;

/* Where a beam looks. */
typedef struct sonar_beam_look {
    double deg;   /* an angle of the CBF's scan, or a bearing clockwise from true north; NaN:
                     unknown, and all samples are NaN */
    bool is_true; /* a bearing, in the horizontal plane of a line, else at the scan's depression */
    sonar_beam_track track; /* if it follows one, the caller sets deg and is_true for each run */
} sonar_beam_look;

typedef struct sonar_beam_job {
    const sonar_window *window; /* its ring is memory of the host */
    const sonar_params *params;
    const sonar_scan *scan; /* the CBF's */
    size_t beams;           /* at most the spec's */
    const sonar_beam_look *look;
    double range_m; /* range of the focus; INFINITY: far field */
    sonar_range_reference range_reference;
    double heading_deg[2]; /* before the first and after the last sample; NaN: unknown */
} sonar_beam_job;

typedef struct sonar_beam sonar_beam;

/* Memory that create allocates, bytes. */
double sonar_beam_bytes(const sonar_beam_spec *spec, size_t workers);
/* Allocates everything. SONAR_ENOMEM. */
sonar_code sonar_beam_create(const sonar_beam_spec *spec, const sonar_host *host, sonar_beam **beam,
                             sonar_error *err);
void sonar_beam_destroy(sonar_beam *beam);

/* Samples before a window of `length` that a run reads. */
size_t sonar_beam_lookback(const sonar_beam_spec *spec, size_t length);
/* The first sample of a window's run, relative to the window's first one. Negative if the window
 * is hardly longer than the hop. */
ptrdiff_t sonar_beam_begin(const sonar_beam_spec *spec, size_t length);
/* Fills out[beam][hop] and facts[beam] on all workers of the host. length: of the window. Allocates
 * nothing. One thread. */
void sonar_beam_run(sonar_beam *beam, const sonar_beam_job *job, size_t length, float *out,
                    sonar_beam_facts *facts);
/* 10 log10 of the gain against noise that is independent between the sensors. */
double sonar_beam_gain_db(const sonar_params *params);

/* coefficient[power][tap]: sum_p coefficient[p] (2 mu)^p are the taps that delay by mu samples,
 * -1/2 <= mu <= 1/2, in addition to the delay of the middle tap. */
void sonar_beam_design(float coefficient[SONAR_BEAM_POWERS][SONAR_BEAM_TAPS]);

#endif
