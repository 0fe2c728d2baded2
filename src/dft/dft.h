/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * DFT stage: real samples of all channels -> corrected complex bins of all sensors.
 *
 *   in[SONAR_DFT_HEAD]  f32 or s16 [channel][n0]   the window, in two parts where the ring wraps;
 *   in[SONAR_DFT_TAIL]  as the head [channel][n1]  n0 + n1 == length, n1 may be 0; rows strided
 *   out[0]              c32 [bin][sensor]          bins first_bin .. first_bin + bins - 1
 *
 * With work->column (on a device only; the CPU's answers SONAR_EINVAL) the head is the whole sample
 * ring [channel][capacity] in the backend's own or in mapped memory, capacity >= length, the tail
 * is empty, and sample i is at the ring's column (*work->column + work->offset + i) mod capacity.
 * *work->column is in such memory too and read when the work runs, so that a graph recorded once
 * follows it. To be recorded, execute must have run once with the same version of the parameters,
 * whose upload would otherwise be recorded with it.
 *
 * Per sensor: mean removed (of the samples that are there: those in work->gaps are 0 after it,
 * whatever numbers the input holds for them), window applied, r2c transform X(f) = sum x(t) e^{-j 2
 * pi f t}, scaled so that |X|^2 is the one-sided power spectral density in uPa^2/Hz (counts^2/Hz if
 * uncalibrated), 2 |X|^2 / (fs sum w^2), without the factor 2 at DC and Nyquist; calibration scale,
 * phase and delay corrections from work->params are in it; masked sensors are exactly zero. Errors:
 * SONAR_EINVAL for an impossible spec, SONAR_ENOMEM; execute fails only for wrong shapes.
 */
#ifndef SONAR_DFT_H
#define SONAR_DFT_H

#include "sonar/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sonar_window_kind {
    SONAR_HANN = 0,
    SONAR_RECTANGULAR,
    SONAR_HAMMING,
    SONAR_BLACKMAN,
    SONAR_KAISER,
    SONAR_FLATTOP
} sonar_window_kind;

typedef enum sonar_planning {
    SONAR_PLAN_MEASURE = 0, /* FFTW_MEASURE; wisdom kept in host->state_dir */
    SONAR_PLAN_STABLE       /* stored wisdom or FFTW_ESTIMATE only: two runs give the same bits */
} sonar_planning;

enum { SONAR_DFT_HEAD = 0, SONAR_DFT_TAIL, SONAR_DFT_INPUTS };

typedef struct sonar_dft_spec {
    size_t channels, sensors;
    size_t length; /* N, any length >= 2 */
    double fs_hz;
    size_t first_bin, bins; /* kept bins; first_bin + bins <= length/2 + 1 */
    sonar_window_kind window;
    double kaiser_beta;
    bool remove_mean;
    bool equalise_phase; /* every bin divided by its magnitude; 0 stays 0; unit is then relative */
    sonar_planning planning;
    bool
        in_place; /* samples will always lie where the backend's kernels read: no room for copies */
} sonar_dft_spec;

/* Periodic (DFT-even) window of n points into w, in double precision (Harris 1978). */
void sonar_dft_window(sonar_window_kind kind, double kaiser_beta, size_t n, double *w);

/* Longest transform: FFT libraries count the values of a batch in an int. */
enum { SONAR_DFT_LENGTH_MOST = 0x7fffffff / 16 };

/* SONAR_EINVAL for a specification no backend can meet. */
sonar_code sonar_dft_check(const sonar_dft_spec *spec, sonar_error *err);

extern const sonar_stage_ops sonar_dft_cpu;
extern const sonar_stage_ops sonar_dft_cuda; /* in the CUDA plugin only */

#ifdef __cplusplus
}
#endif

#endif
