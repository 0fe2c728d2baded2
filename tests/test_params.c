/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Versions of the live parameters, compared with their sources. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "config/config.h"
#include "configured.h"
#include "manifold/params.h"

/* Seven sensors, symmetric about the middle one; no value is another's default. */
static const char text[] =
    "schema: 1\nfs_hz: 1000\nsound_speed_mps: 1480\ncbf: {band_hz: [100, 300], length: 250,\n"
    "  ranges_m: [20, 40], shading: hann, scan: {start_deg: 10, stop_deg: 170, step_deg: 40}}\n"
    "dft: {length: 1000}\n"
    "mvdr: {forward_backward: true, length: 500, nearfield: true,\n"
    "  scan: {start_deg: 5, stop_deg: 65, step_deg: 30}}\n"
    "array: {geometry: {line: {sensors: 7, spacing_m: 1.5}}, heading_deg: 30, mask: [1],\n"
    "  gain_db: [0, -20, 20, 0, 40, 0, 0], phase_deg: [90, 0, 0, 0, 0, 0, -45],\n"
    "  delay_us: [0, 10, 0, 0, 0, 0, 0], channels: [6, 5, 4, 3, 2, 1, 0]}\n";

static sonar_params *create(const sonar_config *config) {
    sonar_params *params;
    sonar_error err;
    const sonar_params_spec spec = sonar_config_params(config);
    cr_assert_eq(sonar_params_create(&spec, 1, &params, &err), SONAR_OK, "%s", err.text);
    return params;
}

static void check_table(const sonar_manifold *table, const sonar_scan *scan, const double *range_m,
                        size_t ranges, double bin_hz) {
    cr_assert_eq(table->ranges, ranges ? ranges : 1);
    cr_assert_eq(table->directions, scan->count);
    cr_assert_eq(table->sensors, 7);
    cr_assert_eq(table->bin_width_hz, bin_hz);
    for (size_t i = 0; i < table->ranges * scan->count; i++)
        for (size_t k = 0; k < 7; k++) {
            const double x = 1.5 * ((double)k - 3);
            const double cosine = cos(scan->az_deg[i % scan->count] * M_PI / 180);
            const double r = ranges ? range_m[i / scan->count] : 0;
            const double ahead_m =
                ranges ? r - sqrt(r * r - 2 * r * x * cosine + x * x) : x * cosine;
            const double turns = ahead_m / 1480 * bin_hz;
            const double off = (double)(int64_t)table->turns[i * 7 + k] * 0x1p-64 - turns;
            cr_assert_lt(fabs(off - round(off)), 1e-9, "point %zu, sensor %zu", i, k);
        }
}

Test(params, hold_every_live_value) {
    sonar_config *config = configured("params", text);
    sonar_params *p = create(config);
    static const float scale[] = {1, 10, 0.1F, 1, 0.01F, 1, 1};
    static const double phase_turns[] = {-0.25, 0, 0, 0, 0, 0, 0.125};
    double sum = 0;
    cr_assert(p->version == 1 && p->sensors == 7 && p->sensors_used == 6);
    cr_assert_eq(p->mvdr_sensors_used, 5, "the masked one's mirror image is left out");
    cr_assert(p->sound_speed_mps == 1480 && p->heading_known && p->heading_deg == 30);
    cr_assert(p->calibrated);
    cr_assert(!strncmp(p->config_version, "1-", 2) &&
              !strcmp(p->config_version + 2, config->digest));
    for (size_t k = 0; k < 7; k++) {
        const double g = k == 1 ? 0 : pow(sin(M_PI * ((double)k + 0.5) / 7), 2);
        cr_assert(p->channel[k] == 6 - k && p->used[k] == (k != 1));
        cr_assert_float_eq(p->scale[k], scale[k], 1e-6F * scale[k]);
        cr_assert_float_eq(p->phase_turns[k], phase_turns[k], 1e-15);
        cr_assert_float_eq(p->delay_s[k], k == 1 ? 10e-6 : 0, 1e-18);
        cr_assert_float_eq(p->position_m[3 * k], 1.5 * ((double)k - 3), 1e-12);
        cr_assert_float_eq((double)p->shading[k], g, 1e-6);
        sum += g;
    }
    cr_assert_float_eq(p->shading_sum, sum, 1e-5);
    check_table(&p->far_cbf, &config->cbf_scan, NULL, 0, 4);
    check_table(&p->near_cbf, &config->cbf_scan, (double[]){20, 40}, 2, 4);
    check_table(&p->far_mvdr, &config->mvdr_scan, NULL, 0, 2);
    check_table(&p->near_mvdr, &config->mvdr_scan, (double[]){20, 40}, 2, 2);
    sonar_params_destroy(p);
    sonar_config_destroy(config);
}

/* Each version outlives the version it was copied from, and the configuration. */
Test(params, another_mask_leaves_all_other_values) {
    sonar_config *config = configured("params", text);
    sonar_params *first = create(config), *second, *third;
    const sonar_params before = *first;
    sonar_config_destroy(config);
    const uint8_t out[7] = {1, 1, 0, 1};
    cr_assert_eq(sonar_params_mask(first, out, 2, &second, NULL), SONAR_OK);
    cr_assert_eq(first->sensors_used, 6);
    sonar_params_destroy(first);
    cr_assert(second->version == 2 && second->sensors_used == 4 && second->mvdr_sensors_used == 2);
    double sum = 0;
    for (size_t k = 0; k < 7; k++) {
        cr_assert_eq(second->used[k], !out[k]);
        cr_assert_eq(second->shading[k] > 0, !out[k]);
        sum += (double)second->shading[k];
    }
    cr_assert_float_eq(second->shading_sum, sum, 1e-12);
    cr_assert_eq(sonar_params_mask(second, NULL, 3, &third, NULL), SONAR_OK);
    sonar_params_destroy(second);
    cr_assert(third->version == 3 && third->sensors_used == 6 && third->mvdr_sensors_used == 5);
    cr_assert_eq(third->used[1], 0, "the configuration's own mask stays");
    cr_assert_eq(third->shading_sum, before.shading_sum);
    cr_assert(third->heading_deg == 30 && third->sound_speed_mps == 1480 && third->calibrated);
    cr_assert_eq(third->far_mvdr.turns, before.far_mvdr.turns, "tables are shared");
    cr_assert_eq(third->near_mvdr.turns, before.near_mvdr.turns, "tables are shared");
    cr_assert(third->far_mvdr.made && third->far_mvdr.made == before.far_mvdr.made);
    cr_assert_eq(third->config_version[1], '-');
    sonar_params_destroy(third);
}
