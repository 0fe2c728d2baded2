/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The scene as the array's digitisers would see it. Sensor k hears source s as
 *     x_k(t) = A(t) s(t + tau_k(t)),   tau_k(t) = p_k . u(t) / c                      far field
 *                                      tau_k(t) = (|r(0)| - |r(t) - p_k|) / c         at a range
 * so that the origin receives it without delay when the scene starts, and a moving source has its
 * Doppler shift. r(t) is where the source is heard from at time t; the published truth has the same
 * place. Delays are computed here from the geometry and not by the daemon's code, because this is
 * the oracle.
 */
#ifndef SIM_SYNTH_H
#define SIM_SYNTH_H

#include "scene.h"

/* The array, one entry per sensor; borrowed. Missing (NULL) lists mean 0 for every sensor. */
typedef struct sim_array {
    size_t sensors, channels;
    double fs_hz, sound_speed_mps;
    const double *position_m; /* [sensor][3], array frame */
    const uint32_t *channel;  /* [sensor]; NULL: the same number */
    const double *gain_db;    /* dB re 1 count/uPa */
    const double *phase_deg;  /* by which the channel leads */
    const double *delay_us;   /* by which the channel lags */
} sim_array;

/* Where a source is at one moment. */
typedef struct sim_truth {
    double az_deg, depression_deg;
    double range_m;  /* HUGE_VAL: far */
    double level_db; /* level of all its parts together, at the origin, dB re 1 uPa */
} sim_truth;

typedef struct sim_synth sim_synth;

/* Copies what it needs of both. */
sonar_code sim_synth_create(const sim_scene *scene, const sim_array *array, sim_synth **synth,
                            sonar_error *err);
void sim_synth_destroy(sim_synth *synth);
/* Counts (not rounded) of samples first .. first + samples - 1 as to[channel][sample]. Channels
 * without a sensor are zero. Allocates nothing. */
void sim_synth_render(sim_synth *synth, uint64_t first, size_t samples, float *to);

void sim_source_truth(const sim_source *source, double t_s, sim_truth *truth);

#endif
