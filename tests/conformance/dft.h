/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The conformance suite of the DFT stage, for every backend. The cases depend on the
 * contract (include/sonar/stages.h) and the oracle, not on the implementation. */
#ifndef SONAR_TEST_DFT_H
#define SONAR_TEST_DFT_H

#include "dft_fixture.h"

#define DFT_CASES(X)                                                                               \
    X(awkward_sizes)                                                                               \
    X(random_sizes)                                                                                \
    X(windows_and_bands)                                                                           \
    X(dc_and_nyquist)                                                                              \
    X(offsets)                                                                                     \
    X(loud_tone)                                                                                   \
    X(many_sensors)                                                                                \
    X(impulse_is_flat_and_its_phase_falls)                                                         \
    X(linear)                                                                                      \
    X(circular_shift_turns_the_phase)                                                              \
    X(mean_is_removed_before_the_taper)                                                            \
    X(silence_stays_zero)                                                                          \
    X(cuts_and_spaces)                                                                             \
    X(wrap_at_every_position)                                                                      \
    X(s16_samples)                                                                                 \
    X(rings)                                                                                       \
    X(recorded)                                                                                    \
    X(gaps)                                                                                        \
    X(a_lost_frame_makes_no_contact_of_an_offset)                                                  \
    X(density_sums_to_the_mean_square)                                                             \
    X(calibrated_tone_reads_its_mean_square)                                                       \
    X(white_noise_is_flat_at_its_level)                                                            \
    X(corrections)                                                                                 \
    X(corrections_undo_the_errors)                                                                 \
    X(long_delays_keep_their_phase_in_the_last_bin)                                                \
    X(masked_channels_may_hold_anything)                                                           \
    X(sensors_follow_the_channel_map)                                                              \
    X(a_new_version_of_the_parameters_is_taken_up)                                                 \
    X(equalised_bins_keep_only_their_phase)                                                        \
    X(workers_change_no_bit)

/* Invalid arguments. */
#define DFT_ERROR_CASES(X)                                                                         \
    X(impossible_specs)                                                                            \
    X(wrong_shapes)                                                                                \
    X(wrong_rings)

#define DFT_DECLARE(name) void dft_case_##name(site *site);
DFT_CASES(DFT_DECLARE)
DFT_ERROR_CASES(DFT_DECLARE)
#define DFT_ROW(name) {#name, dft_case_##name},

/* Compares a stage with this number of sensors with the oracle and with the CPU's stage. */
void dft_try_sensors(site *site, size_t sensors, size_t length);

#endif
