/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/result.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *sonar_frame_cause_name(sonar_frame_cause cause) {
    static const char *const name[SONAR_FRAME_CAUSES] = {
        [SONAR_FRAME_MALFORMED] = "malformed",
        [SONAR_FRAME_TRUNCATED] = "truncated",
        [SONAR_FRAME_OVERSIZED] = "oversized",
        [SONAR_FRAME_WRONG_ARRAY] = "wrong_array",
        [SONAR_FRAME_WRONG_CHANNELS] = "wrong_channels",
        [SONAR_FRAME_WRONG_RATE] = "wrong_rate",
        [SONAR_FRAME_WRONG_EPOCH] = "wrong_epoch",
        [SONAR_FRAME_NOT_FINITE] = "not_finite",
        [SONAR_FRAME_OUT_OF_RANGE] = "out_of_range",
        [SONAR_FRAME_WRONG_TYPE] = "wrong_type",
        [SONAR_FRAME_REPEATED] = "repeated",
        [SONAR_FRAME_LATE] = "late",
        [SONAR_FRAME_AHEAD] = "ahead",
        [SONAR_FRAME_OVERRUN] = "overrun"};
    return (unsigned)cause < SONAR_FRAME_CAUSES ? name[cause] : "unknown";
}

const char *sonar_window_cause_name(sonar_window_cause cause) {
    static const char *const name[SONAR_WINDOW_CAUSES] = {[SONAR_WINDOW_OVERLOAD] = "overload",
                                                          [SONAR_WINDOW_MISSING] = "missing",
                                                          [SONAR_WINDOW_SKIPPED] = "skipped"};
    return (unsigned)cause < SONAR_WINDOW_CAUSES ? name[cause] : "unknown";
}

const char *sonar_condition_severity_name(sonar_condition_severity severity) {
    static const char *const name[] = {
        [SONAR_NOTICE] = "notice", [SONAR_WAITING] = "waiting", [SONAR_DEGRADED] = "degraded"};
    return (unsigned)severity <= SONAR_DEGRADED ? name[severity] : "unknown";
}

const char *sonar_condition_name(sonar_condition_code code) {
    static const char *const name[SONAR_CONDITIONS] = {
        [SONAR_CONDITION_WINDOWS_FAILED] = "windows_failed",
        [SONAR_CONDITION_FRAMES_DROPPED] = "frames_dropped",
        [SONAR_CONDITION_SAMPLE_INDEX] = "sample_index",
        [SONAR_CONDITION_SAMPLES_REPEATED] = "samples_repeated",
        [SONAR_CONDITION_SOCKET_REOPENED] = "socket_reopened",
        [SONAR_CONDITION_RESTARTED] = "restarted",
        [SONAR_CONDITION_RATE] = "rate",
        [SONAR_CONDITION_CHANNELS_UNFED] = "channels_unfed",
        [SONAR_CONDITION_BLOCKS_SILENT] = "blocks_silent",
        [SONAR_CONDITION_BLOCKS_APART] = "blocks_apart",
        [SONAR_CONDITION_SAMPLES_MISSING] = "samples_missing",
        [SONAR_CONDITION_WINDOWS_STALLED] = "windows_stalled",
        [SONAR_CONDITION_WINDOWS_OVERLOAD] = "windows_overload",
        [SONAR_CONDITION_WINDOWS_MISSING] = "windows_missing",
        [SONAR_CONDITION_WINDOWS_SKIPPED] = "windows_skipped",
        [SONAR_CONDITION_RESULTS_LATE] = "results_late",
        [SONAR_CONDITION_SAMPLES_LATE] = "samples_late",
        [SONAR_CONDITION_CLOCK_UNIT] = "clock_unit",
        [SONAR_CONDITION_CLOCK_SKEW] = "clock_skew",
        [SONAR_CONDITION_CLOCK_OFFSET] = "clock_offset",
        [SONAR_CONDITION_RESULTS_DROPPED] = "results_dropped",
        [SONAR_CONDITION_MESSAGES_FAILED] = "messages_failed",
        [SONAR_CONDITION_DISCONTINUITY] = "discontinuity",
        [SONAR_CONDITION_DIGITISER_OVERLOAD] = "digitiser_overload",
        [SONAR_CONDITION_CLOCK_UNSYNCHRONISED] = "clock_unsynchronised",
        [SONAR_CONDITION_PEERS_REFUSED] = "peers_refused",
        [SONAR_CONDITION_HELD_BACK] = "held_back",
        [SONAR_CONDITION_BACKEND_CHANGED] = "backend_changed",
        [SONAR_CONDITION_ELEMENTS_DEAD] = "elements_dead",
        [SONAR_CONDITION_ELEMENTS_STUCK] = "elements_stuck",
        [SONAR_CONDITION_ELEMENTS_NOISY] = "elements_noisy",
        [SONAR_CONDITION_ELEMENTS_HUM] = "elements_hum",
        [SONAR_CONDITION_ELEMENTS_CLIPPED] = "elements_clipped",
        [SONAR_CONDITION_ELEMENTS_MASKED] = "elements_masked",
        [SONAR_CONDITION_NO_SAMPLES] = "no_samples",
    };
    return (unsigned)code < SONAR_CONDITIONS ? name[code] : "unknown";
}

sonar_params_facts sonar_params_tell(const sonar_params *params) {
    sonar_params_facts facts = {.sound_speed_mps = params->sound_speed_mps,
                                .heading_deg = params->heading_known ? params->heading_deg : NAN,
                                .calibrated = params->calibrated,
                                .sensors_used = params->sensors_used,
                                .mvdr_sensors_used = params->mvdr_sensors_used};
    if (params->config_version)
        snprintf(facts.config_version, sizeof facts.config_version, "%s", params->config_version);
    return facts;
}

void sonar_channel_set_add(sonar_channel_set *set, uint32_t first, uint32_t count) {
    if (!count)
        return;
    /* A set that is full may have left out the channel before this one. */
    uint32_t listed = 0;
    for (uint32_t i = 0; i < set->ranges; i++)
        listed += set->last[i] - set->first[i] + 1;
    bool whole = listed == set->count;
    set->count += count;
    if (whole && set->ranges && set->last[set->ranges - 1] + 1 == first) {
        set->last[set->ranges - 1] += count;
    } else if (whole && set->ranges < SONAR_CHANNEL_RANGES_MOST) {
        set->first[set->ranges] = first;
        set->last[set->ranges++] = first + count - 1;
    }
}

const char *sonar_channel_set_print(const sonar_channel_set *set, char *text, size_t bytes) {
    char item[32];
    size_t used = 0;
    uint32_t listed = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < set->ranges; i++) {
        uint32_t first = set->first[i], last = set->last[i];
        int length = first == last ? snprintf(item, sizeof item, "%u", first)
                                   : snprintf(item, sizeof item, "%u-%u", first, last);
        const char *rest = listed + (last - first + 1) < set->count ? " and more" : "";
        if (used + 2 + (size_t)length + strlen(rest) >= bytes)
            break;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", i ? ", " : "", item);
        listed += last - first + 1;
    }
    if (listed < set->count)
        snprintf(text + used, bytes - used, " and more");
    return text;
}

const char *sonar_element_fault_name(sonar_element_fault fault) {
    static const char *const name[SONAR_ELEMENT_FAULTS] = {[SONAR_ELEMENT_DEAD] = "dead",
                                                           [SONAR_ELEMENT_STUCK] = "stuck",
                                                           [SONAR_ELEMENT_NOISY] = "noisy",
                                                           [SONAR_ELEMENT_HUM] = "hum",
                                                           [SONAR_ELEMENT_CLIPPED] = "clipped"};
    return (unsigned)fault < SONAR_ELEMENT_FAULTS ? name[fault] : "unknown";
}
