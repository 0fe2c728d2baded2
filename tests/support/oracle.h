/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Direct double-precision versions of the stages, written from the definitions, so that they can be
 * checked by reading; data come from core/random.h. */
#ifndef SONAR_TEST_ORACLE_H
#define SONAR_TEST_ORACLE_H

#include "core/random.h"
#include "sonar/sonar.h"

#include <complex.h>

/* ---- DFT ------------------------------------------------------------------------------------- */

/* sum_t x[t] e^{-j 2 pi bin t / n}, the exponent reduced in integers. */
double complex oracle_dft(const double *x, size_t n, size_t bin);
/* Mean removed, windowed, scaled so that |X|^2 is the one-sided density per Hz. */
double complex oracle_psd_bin(const float *x, const double *window, size_t n, size_t bin,
                              double fs_hz, bool remove_mean);

/* The same of n samples of a window from its sample `from` on, those in `gaps` missing: the mean is
 * that of the others, and missing samples are 0 after its removal. */
double complex oracle_psd_bin_with_gaps(const float *x, const double *window, size_t n, size_t bin,
                                        double fs_hz, bool remove_mean, size_t from, size_t gaps,
                                        const sonar_gap *gap);

/* Random gaps in a window of `length` samples: none, few, as many as fit, all. */
void oracle_gaps(uint64_t *state, size_t channels, uint32_t length, uint32_t *count,
                 sonar_gap *gap);

/* ---- beamforming ----------------------------------------------------------------------------- */

/* p.u/c */
double oracle_delay_far(const double p[3], const double u[3], double c_mps);
/* (|r u| - |r u - p|)/c in long double */
double oracle_delay_near(const double p[3], const double u[3], double r_m, double c_mps);
/* |sum g conj(a) X / sum g|^2 at one bin of `frequency_hz`. */
double oracle_beam_power(size_t sensors, const sonar_c32 *x, const float *g, const double *tau_s,
                         double frequency_hz);
/* u = (cos az cos dep, sin az cos dep, sin dep) */
void oracle_unit(double az_deg, double depression_deg, double u[3]);

/* ---- comparing ------------------------------------------------------------------------------- */

/* The larger difference; NaN counts as larger than all, unlike in fmax. */
double oracle_worse(double worst, double difference);
/* The largest difference of powers in dB; equal powers, including zeros, differ by 0. */
double oracle_worst_db(size_t count, const float *have, const float *want);

#endif
