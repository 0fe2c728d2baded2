/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The conformance suite of the MVDR stage, for every backend and path. The cases depend on the
 * contract (sonar/stages.h) and the oracle, not on the solver. */
#ifndef SONAR_TEST_MVDR_H
#define SONAR_TEST_MVDR_H

#include "mvdr_fixture.h"

/* Comparisons with the double-precision oracle, and properties that other code relies on. */
#define MVDR_CASES(X)                                                                              \
    X(quiet)                                                                                       \
    X(loud_40_db)                                                                                  \
    X(loud_60_db)                                                                                  \
    X(loud_80_db)                                                                                  \
    X(random_sizes)                                                                                \
    X(low_loading)                                                                                 \
    X(both_spaces)                                                                                 \
    X(pointing)                                                                                    \
    X(nearly_square)                                                                               \
    X(loading_rules)                                                                               \
    X(trace_fallback)                                                                              \
    X(sliding)                                                                                     \
    X(few_at_a_time)                                                                               \
    X(transient)                                                                                   \
    X(unwanted)                                                                                    \
    X(odd_data)                                                                                    \
    X(forgetting)                                                                                  \
    X(masks)                                                                                       \
    X(mask_while_forgetting)                                                                       \
    X(forward_backward)                                                                            \
    X(evaluate)                                                                                    \
    X(extreme_levels)                                                                              \
    X(overflow)                                                                                    \
    X(non_finite)                                                                                  \
    X(nothing_and_zeros)                                                                           \
    X(no_noise_at_all)                                                                             \
    X(reset_forgets)                                                                               \
    X(live_values)                                                                                 \
    X(live_extras)                                                                                 \
    X(live_bands)                                                                                  \
    X(tables_that_stay)                                                                            \
    X(same_bits)                                                                                   \
    X(corrected_levels)                                                                            \
    X(eigenvalues)                                                                                 \
    X(source_counts)                                                                               \
    X(dominant_modes)                                                                              \
    X(gain_limit)                                                                                  \
    X(gain_limit_beside_loud_ships)                                                                \
    X(gain_limit_of_odd_data)                                                                      \
    X(gain_limit_near_and_far)                                                                     \
    X(gain_limit_leaves_the_others)                                                                \
    X(music)                                                                                       \
    X(music_of_any_array)                                                                          \
    X(music_beside_loud_ships)                                                                     \
    X(music_both_spaces)                                                                           \
    X(music_of_odd_data)                                                                           \
    X(music_of_a_tone)                                                                             \
    X(music_unwanted)                                                                              \
    X(tones)                                                                                       \
    X(tone_faults)                                                                                 \
    X(parts_add_up)                                                                                \
    X(near_field)                                                                                  \
    X(near_field_far_away)                                                                         \
    X(near_field_both_spaces)                                                                      \
    X(near_field_of_a_tone)                                                                        \
    X(near_field_unwanted)

/* Arguments that create and execute must refuse. */
#define MVDR_REFUSALS(X)                                                                           \
    X(impossible_modes)                                                                            \
    X(impossible_music)                                                                            \
    X(impossible_gain_limit)                                                                       \
    X(parts_that_do_not_add)                                                                       \
    X(impossible_specs)                                                                            \
    X(wrong_shapes)                                                                                \
    X(wrong_near_field)                                                                            \
    X(wrong_live_values)

/* Large problems, and comparisons with the scene's truth over many trials: they add no coverage for
 * memory checkers, which are slow on them. */
#define MVDR_LONG_CASES(X)                                                                         \
    X(beyond_shared_memory)                                                                        \
    X(low_loading_large)                                                                           \
    X(without_eigenvalues)                                                                         \
    X(large_noise_rule)                                                                            \
    X(streaming)                                                                                   \
    X(streaming_vectors)                                                                           \
    X(resolution)                                                                                  \
    X(level_few_and_many_snapshots)                                                                \
    X(level_in_any_unit)                                                                           \
    X(level_of_hardly_any_snapshots)                                                               \
    X(level_of_a_loud_source)                                                                      \
    X(level_while_forgetting)                                                                      \
    X(level_forward_backward)                                                                      \
    X(level_overwhelming_loading)                                                                  \
    X(level_without_loading)                                                                       \
    X(level_next_to_nothing)                                                                       \
    X(level_flags)                                                                                 \
    X(level_trace_fallback)                                                                        \
    X(level_least_loading)                                                                         \
    X(level_noise_rule)                                                                            \
    X(sources_found)                                                                               \
    X(no_sources_found)                                                                            \
    X(dominant_modes_levels)                                                                       \
    X(music_resolves)                                                                              \
    X(gain_limit_keeps_a_ship)                                                                     \
    X(tone_any_hop)                                                                                \
    X(tone_any_window)                                                                             \
    X(tone_not_at_the_centre)                                                                      \
    X(tone_far_from_the_origin)                                                                    \
    X(tone_on_a_long_array)                                                                        \
    X(mask_beside_a_tone)                                                                          \
    X(tone_over_a_ship)                                                                            \
    X(tone_two_ships)                                                                              \
    X(tone_broadband)                                                                              \
    X(tone_faint)                                                                                  \
    X(tone_flutter)                                                                                \
    X(near_field_beside_a_ship)                                                                    \
    X(tone_steady)                                                                                 \
    X(tone_comes_and_goes)                                                                         \
    X(tone_cells)

/* The updated inverse with few sensors: for hosts whose `choice` is site_choose. */
#define MVDR_INVERSE_CASES(X)                                                                      \
    X(inverse_any_number_of_snapshots)                                                             \
    X(inverse_while_the_block_fills)                                                               \
    X(inverse_while_the_block_fills_with_little_loading)                                           \
    X(inverse_any_unit)                                                                            \
    X(inverse_not_a_number_in_one_bin)                                                             \
    X(inverse_a_transient_leaves_nothing_behind)                                                   \
    X(inverse_another_loading)                                                                     \
    X(inverse_everything_changes)                                                                  \
    X(inverse_everything_changes_with_mirror_images)                                               \
    X(inverse_follows_ships)                                                                       \
    X(inverse_follows_loud_ships)                                                                  \
    X(inverse_absolutely_loaded)                                                                   \
    X(inverse_of_loud_ships_absolutely_loaded)                                                     \
    X(inverse_of_short_blocks)

/* Values that only the Jacobi solver reports: mvdr_solver.c. */
#define MVDR_SOLVER_CASES(X) X(not_converged)

/* A case, and then a check of the routes that it took. */
#define MVDR_CASE(name)                                                                            \
    static void run_##name(site *site);                                                            \
    void mvdr_case_##name(site *site) {                                                            \
        run_##name(site);                                                                          \
        mvdr_check_routes(site);                                                                   \
    }                                                                                              \
    static void run_##name(site *site)
#define MVDR_DECLARE(name) void mvdr_case_##name(site *site);
MVDR_CASES(MVDR_DECLARE)
MVDR_REFUSALS(MVDR_DECLARE)
MVDR_LONG_CASES(MVDR_DECLARE)
MVDR_SOLVER_CASES(MVDR_DECLARE)
MVDR_INVERSE_CASES(MVDR_DECLARE)
#define MVDR_ROW(name) {#name, mvdr_case_##name},

/* Expects that the case took the routes that its row of mvdr_routes.c has, and no others. */
void mvdr_check_routes(site *site);

/* ---- for cases that a backend adds ----------------------------------------------------------- */

enum { MVDR_BITS = 7 * 50 + 50 };
/* Both spectra after two runs of a small scene, for comparison bit by bit. */
void mvdr_bits(site *site, double alpha, float bits[MVDR_BITS]);
/* Before any snapshot and after only zeros P is 0; later results are not affected. */
void mvdr_expect_silence(site *site, const sonar_mvdr_spec *spec);

#endif
