/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A band-limited Gaussian process in continuous time, of unit variance: white noise at integer
 * indices, shaped by an FIR filter, read between the indices through a windowed sinc. A value
 * depends only on key, spectrum and time.
 */
#ifndef SIM_PROCESS_H
#define SIM_PROCESS_H

#include "scene.h"

/* 64 taps, Kaiser window of 90 dB: flat to 0.455 fs; 512 phases with straight lines between them
 * leave an error near -105 dB. */
enum { SIM_KERNEL_TAPS = 64, SIM_KERNEL_PHASES = 512 };

/* [phase][0: taps, 1: differences to the next phase][tap]; free() it. NULL: out of memory. */
float *sim_kernel_create(void);
/* Adds to[i] += (amplitude + i * amplitude_step) * x(position + i * (1 + drift)) for i < count,
 * positions in samples counted from x[0]; x must hold 32 samples on either side. */
void sim_kernel_add(const float *kernel, const float *x, double position, double drift,
                    float amplitude, float amplitude_step, size_t count, float *to);

typedef struct sim_process sim_process;

/* `span` is the largest number of samples in one call of sim_process_need. */
sonar_code sim_process_create(uint64_t key, const sim_spectrum *spectrum, double fs_hz, size_t span,
                              sim_process **process, sonar_error *err);
void sim_process_destroy(sim_process *process);
/* Makes samples first .. first + count - 1 available. */
void sim_process_need(sim_process *process, int64_t first, size_t count);
/* Samples from `first` on, valid until the next need; the second function returns their Hilbert
 * transform. */
const float *sim_process_samples(const sim_process *process, int64_t first);
const float *sim_process_quadrature(const sim_process *process, int64_t first);

#endif
