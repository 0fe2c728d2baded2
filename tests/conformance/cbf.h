/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The conformance suite of the beamformer, for every backend and path. The cases depend on the
 * contract (include/sonar/stages.h) and the oracle, not on the implementation. */
#ifndef SONAR_TEST_CBF_H
#define SONAR_TEST_CBF_H

#include "cbf_fixture.h"

#define CBF_CASES(X)                                                                               \
    X(sizes)                                                                                       \
    X(random_sizes)                                                                                \
    X(deep_side_lobes_of_a_shaded_line)                                                            \
    X(very_long_line_far_off_broadside)                                                            \
    X(snapshots_in_a_volume)                                                                       \
    X(snapshots_beside_an_interferer)                                                              \
    X(mirrored_arrays)                                                                             \
    X(rows_apart)                                                                                  \
    X(line_finds_bearing_and_mirror)                                                               \
    X(circle_finds_bearing)                                                                        \
    X(plane_finds_bearing)                                                                         \
    X(volume_finds_bearing)                                                                        \
    X(sixty_is_not_a_hundred_and_twenty)                                                           \
    X(near_field_focuses_on_the_range)                                                             \
    X(mask_moves_no_bearing_and_keeps_the_level)                                                   \
    X(everything_masked_is_silence)                                                                \
    X(array_gain_is_the_number_of_elements)                                                        \
    X(workers_change_no_bit)                                                                       \
    X(only_wanted_surfaces_are_touched)                                                            \
    X(versions_and_repeats)                                                                        \
    X(live_bands)                                                                                  \
    X(recorded)                                                                                    \
    X(evaluate_equals_execute_on_the_grid)                                                         \
    X(parts_are_complex_beams)                                                                     \
    X(evaluate_off_the_grid)                                                                       \
    X(chunks_of_several_tiles)

/* Invalid arguments. */
#define CBF_ERROR_CASES(X)                                                                         \
    X(evaluate_before_execute)                                                                     \
    X(bands_outside)                                                                               \
    X(impossible_specs)                                                                            \
    X(wrong_shapes)

/* Large arrays: they add no coverage for memory checkers, which are slow on them. */
#define CBF_LONG_CASES(X)                                                                          \
    X(large_line)                                                                                  \
    X(large_plane)

#define CBF_DECLARE(name) void cbf_case_##name(site *site);
CBF_CASES(CBF_DECLARE)
CBF_ERROR_CASES(CBF_DECLARE)
CBF_LONG_CASES(CBF_DECLARE)
#define CBF_ROW(name) {#name, cbf_case_##name},

/* The timed case: a line with 160 directions, 7 ranges and 459 bins. */
void cbf_standard(cbf_fixture *f, site *site, size_t sensors);
/* All surfaces of a standard line with a wave and noise, compared with the oracle at a few points.
 */
void cbf_try_line(site *site, size_t sensors, bool as_cpu);
void cbf_try_plane(site *site, size_t sensors, size_t snapshots);

#endif
