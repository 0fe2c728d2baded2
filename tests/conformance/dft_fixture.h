/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The DFT stage at a site with its parameters and samples, compared with sums in double precision.
 */
#ifndef SONAR_TEST_DFT_FIXTURE_H
#define SONAR_TEST_DFT_FIXTURE_H

#include <complex.h>

#include "dft/dft.h"
#include "site.h"

/* The contract's limit: relative error of the transform in the 2-norm. */
#define DFT_MOST_ERROR 1e-6

typedef struct dft_fixture {
    site *site;
    sonar_dft_spec spec;
    sonar_params params;
    double *phase_turns, *delay_s;
    float *scale;
    uint32_t *channel;
    uint8_t *used;
    size_t row;       /* samples from one channel to the next: rows are strided */
    sonar_buffer x;   /* f32 [channel][row], in the host's memory */
    sonar_buffer y;   /* the fetched output */
    sonar_buffer out; /* the stage's */
    const sonar_stage_ops *ops;
    void *stage;
    sonar_gaps
        gaps; /* gaps of a window whose sample `from` is the transform's first; count 0: none */
    size_t from;
} dft_fixture;

/* Every bin, Hann, mean removed, 8 kHz. */
sonar_dft_spec dft_all_bins(size_t channels, size_t length);
/* x is page-locked, or pageable where `space` is SONAR_HOST. Sensor k uses channel k modulo the
 * channels, without corrections or mask. */
void dft_open(dft_fixture *f, site *site, sonar_dft_spec spec, sonar_space space);
void dft_close(dft_fixture *f);
float *dft_samples(const dft_fixture *f, size_t channel);
/* White noise of variance 1 on a constant. */
void dft_noise(dft_fixture *f, double offset, uint64_t seed);

/* ---- runs ------------------------------------------------------------------------------------ */

/* Views of the window, split after `head` samples; `samples` is x or an array of its shape. */
void dft_cut(const dft_fixture *f, const sonar_buffer *samples, size_t head,
             sonar_buffer in[SONAR_DFT_INPUTS]);
/* `column` NULL: in the parts of `in`. */
sonar_code dft_execute(dft_fixture *f, const sonar_buffer in[SONAR_DFT_INPUTS],
                       const sonar_buffer *column, sonar_error *err);
/* Fills the output with invalid values, executes, and fetches. */
void dft_run_on(dft_fixture *f, const sonar_buffer in[SONAR_DFT_INPUTS],
                const sonar_buffer *column);
void dft_run_cut(dft_fixture *f, size_t head);
void dft_run(dft_fixture *f);

/* ---- judging --------------------------------------------------------------------------------- */

double complex dft_bin(const dft_fixture *f, size_t bin, size_t sensor);
/* 2-norm error of every `step`th kept bin of sensor k, relative to their 2-norm. If only some bins
 * are kept and their norm is below the average, relative to the average, since an FFT's errors
 * spread over all bins. */
double dft_error(const dft_fixture *f, size_t sensor, size_t step);
/* Expects every `sensor_step`th sensor to be right, or exactly 0 where it is masked. */
void dft_expect(dft_fixture *f, const char *what, size_t sensor_step, double most);
/* Expects the results of the CPU's stage, with the window split after `head` samples. */
void dft_expect_as_cpu(dft_fixture *f, size_t head, double most);
/* Expects the same bits as in `want`. */
void dft_expect_bits(dft_fixture *f, const void *want, const char *what, size_t at);
/* A copy of the output; the caller frees it. */
void *dft_copy_of_y(const dft_fixture *f);

#endif
