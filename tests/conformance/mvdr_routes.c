/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which routes of mvdr_jacobi/route.h each case takes, so that every route is tested and an
 * unexpected route is noticed. A question mark after a word: some bins may take it, because of
 * rounding or because their inverse cannot be updated. */
#include "mvdr.h"

#include <stdio.h>
#include <string.h>

#include "mvdr_jacobi/route.h"

static const struct {
    const char *name, *cpu, *gpu;
} ROWS[] = {
    {"quiet", "update factor median", "factor eigenvalues"},
    {"loud_40_db", "update factor median", "factor eigenvalues"},
    {"loud_60_db", "update factor median", "factor eigenvalues"},
    {"loud_80_db", "update factor median", "factor eigenvalues"},
    {"random_sizes", "jacobi factor median", "jacobi eigenvalues"},
    {"low_loading", "jacobi factor median", "jacobi eigenvalues"},
    {"both_spaces", "jacobi median", "jacobi eigenvalues"},
    {"pointing", "factor median", "factor eigenvalues"},
    {"nearly_square", "median", "eigenvalues"},
    {"loading_rules", "factor median eigenvalues", "factor eigenvalues"},
    {"trace_fallback", "factor eigenvalues", "eigenvalues"},
    {"sliding", "factor", "factor"},
    {"few_at_a_time", "median", "eigenvalues"},
    {"transient", "factor", "factor"},
    {"unwanted", "factor", "factor"},
    {"odd_data", "jacobi factor", "jacobi factor"},
    {"forgetting", "factor median", "eigenvalues"},
    {"masks", "median", "eigenvalues"},
    {"mask_while_forgetting", "factor", "factor"},
    {"forward_backward", "factor", "factor"},
    {"evaluate", "factor", "factor"},
    {"extreme_levels", "factor", "factor"},
    {"overflow", "factor", "factor"},
    {"non_finite", "factor", "factor"},
    {"nothing_and_zeros", "factor", "factor"},
    {"no_noise_at_all", "eigenvalues", "eigenvalues"},
    {"reset_forgets", "factor", "factor"},
    {"live_values", "update jacobi factor median eigenvalues",
     "update? jacobi factor median eigenvalues"},
    {"live_extras", "jacobi factor eigenvalues", "jacobi factor eigenvalues"},
    {"live_bands", "factor", "factor"},
    {"tables_that_stay", "factor", "factor"},
    {"same_bits", "factor", "factor"},
    {"corrected_levels", "median", "eigenvalues"},
    {"eigenvalues", "eigenvalues", "eigenvalues"},
    {"source_counts", "factor eigenvalues", "factor eigenvalues"},
    {"dominant_modes", "jacobi", "jacobi"},
    {"gain_limit", "jacobi", "jacobi"},
    {"gain_limit_of_odd_data", "jacobi", "jacobi"},
    {"gain_limit_near_and_far", "jacobi", "jacobi"},
    {"gain_limit_leaves_the_others", "jacobi", "jacobi"},
    {"music", "jacobi eigenvalues", "jacobi eigenvalues"},
    {"music_of_any_array", "eigenvalues", "eigenvalues"},
    {"music_both_spaces", "jacobi eigenvalues", "jacobi eigenvalues"},
    {"music_of_odd_data", "jacobi eigenvalues", "jacobi eigenvalues"},
    {"music_of_a_tone", "eigenvalues", "eigenvalues"},
    {"music_unwanted", "jacobi eigenvalues", "jacobi eigenvalues"},
    {"tones", "median", "eigenvalues"},
    {"tone_faults", "median", "eigenvalues"},
    {"parts_add_up", "jacobi eigenvalues", "jacobi eigenvalues"},
    {"near_field", "jacobi median", "jacobi eigenvalues"},
    {"near_field_far_away", "median", "eigenvalues"},
    {"near_field_both_spaces", "median", "eigenvalues"},
    {"near_field_of_a_tone", "median", "eigenvalues"},
    {"beyond_shared_memory", "update", "update? factor"},
    {"low_loading_large", "median", "eigenvalues"},
    {"without_eigenvalues", "factor median eigenvalues", "factor eigenvalues"},
    {"large_noise_rule", "median", "median eigenvalues"},
    {"streaming", "update factor median eigenvalues", "update? factor median eigenvalues"},
    {"streaming_vectors", "jacobi", "jacobi"},
    {"resolution", "median", "eigenvalues"},
    {"level_few_and_many_snapshots", "median", "eigenvalues"},
    {"level_in_any_unit", "factor median", "factor eigenvalues"},
    {"level_of_hardly_any_snapshots", "factor eigenvalues", "factor eigenvalues?"},
    {"level_of_a_loud_source", "factor median", "factor eigenvalues"},
    {"level_while_forgetting", "median", "eigenvalues"},
    {"level_forward_backward", "median", "eigenvalues"},
    {"level_overwhelming_loading", "factor", "factor"},
    {"level_without_loading", "factor", "factor"},
    {"level_flags", "median", "eigenvalues"},
    {"level_trace_fallback", "factor", "eigenvalues"},
    {"level_least_loading", "median eigenvalues", "eigenvalues"},
    {"level_noise_rule", "median", "eigenvalues"},
    {"sources_found", "eigenvalues", "eigenvalues"},
    {"no_sources_found", "eigenvalues", "eigenvalues"},
    {"dominant_modes_levels", "jacobi", "jacobi"},
    {"music_resolves", "eigenvalues", "eigenvalues"},
    {"level_next_to_nothing", "update factor median eigenvalues",
     "update? factor-grid factor eigenvalues"},
    {"gain_limit_beside_loud_ships", "jacobi", "jacobi"},
    {"music_beside_loud_ships", "eigenvalues", "eigenvalues"},
    {"gain_limit_keeps_a_ship", "jacobi median", "jacobi eigenvalues"},
    {"tone_any_hop", "median", "eigenvalues"},
    {"tone_any_window", "median", "eigenvalues"},
    {"tone_not_at_the_centre", "median", "eigenvalues"},
    {"tone_far_from_the_origin", "median", "eigenvalues"},
    {"tone_on_a_long_array", "median", "eigenvalues"},
    {"mask_beside_a_tone", "median", "eigenvalues"},
    {"tone_over_a_ship", "median", "eigenvalues"},
    {"tone_two_ships", "median", "eigenvalues"},
    {"tone_broadband", "median", "eigenvalues"},
    {"tone_faint", "median", "eigenvalues"},
    {"tone_flutter", "median", "eigenvalues"},
    {"near_field_beside_a_ship", "median", "eigenvalues"},
    {"tone_steady", "median", "eigenvalues"},
    {"tone_comes_and_goes", "factor median", "eigenvalues"},
    {"tone_cells", "median", "eigenvalues"},
    {"inverse_any_number_of_snapshots", "update factor eigenvalues", "update factor eigenvalues"},
    {"inverse_while_the_block_fills", "update factor eigenvalues", "update factor eigenvalues"},
    {"inverse_any_unit", "update factor eigenvalues", "update factor eigenvalues"},
    {"inverse_not_a_number_in_one_bin", "update eigenvalues", "update factor eigenvalues"},
    {"inverse_a_transient_leaves_nothing_behind", "update eigenvalues",
     "update factor eigenvalues"},
    {"inverse_another_loading", "update eigenvalues", "update factor eigenvalues"},
    {"inverse_everything_changes", "update factor median eigenvalues", "update factor eigenvalues"},
    {"inverse_everything_changes_with_mirror_images", "update factor median eigenvalues",
     "update factor eigenvalues"},
    {"inverse_follows_ships", "update factor eigenvalues", "update factor eigenvalues"},
    {"inverse_follows_loud_ships", "update factor eigenvalues", "update factor eigenvalues"},
    {"inverse_absolutely_loaded", "update factor eigenvalues", "update factor eigenvalues"},
    {"inverse_of_loud_ships_absolutely_loaded", "update factor eigenvalues",
     "update factor eigenvalues"},
    {"inverse_of_short_blocks", "update factor eigenvalues", "update factor eigenvalues"},
    {"inverse_while_the_block_fills_with_little_loading", "update factor eigenvalues",
     "update factor eigenvalues"},
    {"not_converged", "jacobi", "jacobi"},
};

/* Whether the words have this one; *may: with a question mark. */
static bool lists(const char *words, const char *word, bool *may) {
    const size_t length = strlen(word);
    for (const char *at = words; *at;) {
        const size_t all = strcspn(at, " ");
        *may = all == length + 1 && at[length] == '?';
        if (!strncmp(at, word, length) && (all == length || *may))
            return true;
        at += all + (at[all] == ' ');
    }
    return false;
}

void mvdr_check_routes(site *site) {
    const bool on_gpu = !strcmp(site->backend->name, "cuda");
    const char *words = "";
    if (site_taken())
        return;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        if (!strcmp(ROWS[i].name, site->name))
            words = on_gpu ? ROWS[i].gpu : ROWS[i].cpu;
    for (unsigned id = MVDR_ROUTE_UPDATE; id < MVDR_ROUTES; id++) {
        const bool taken = site->taken & 1u << id;
        bool may = false;
        const bool listed = lists(words, mvdr_routes[id].name, &may);
        site_expect(site, taken ? listed : !listed || may || site->quick, "route %s: %staken",
                    mvdr_routes[id].name, taken ? "" : "not ");
    }
}
