/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a resolved configuration says to those who know none: the stages and the parameters. */
#include "config/config.h"

sonar_params_spec sonar_config_params(const sonar_config *c) {
    return (sonar_params_spec){.config_version = c->version,
                               .sensors = c->sensors,
                               .position_m = c->position_m,
                               .channel = c->channel,
                               .used = c->used,
                               .gain_db = c->calibrated ? c->gain_db : NULL,
                               .phase_deg = c->phase_deg,
                               .delay_us = c->delay_us,
                               .shading_weight = c->shading_weight,
                               .sound_speed_mps = c->sound_speed_mps,
                               .heading_deg = c->heading_deg,
                               .heading_known = c->heading_known,
                               .cbf_scan = &c->cbf_scan,
                               .mvdr_scan = c->mvdr_enabled ? &c->mvdr_scan : NULL,
                               .cbf_bin_hz = c->fs_hz / (double)c->cbf_length,
                               .mvdr_bin_hz = c->fs_hz / (double)c->mvdr_length,
                               .ranges = c->ranges,
                               .range_m = c->range_m,
                               .range_reference = c->range_reference,
                               .forward_backward = c->mvdr_enabled && c->mvdr_forward_backward};
}
