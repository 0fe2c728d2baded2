/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "status/result.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NAME(constant, name, ...) [constant] = name,
#define LENGTH(array)             (sizeof(array) / sizeof *(array))

static const char *const frame_cause[] = {SONAR_FRAME_CAUSE_ROWS(NAME)};
static const char *const handshake_cause[] = {SONAR_HANDSHAKE_CAUSE_ROWS(NAME)};
static const char *const record_cause[] = {SONAR_RECORD_CAUSE_ROWS(NAME)};
static const char *const window_cause[] = {SONAR_WINDOW_CAUSE_ROWS(NAME)};
static const char *const element_fault[] = {SONAR_ELEMENT_FAULT_ROWS(NAME)};
static const char *const latency_part[] = {SONAR_LATENCY_PART_ROWS(NAME)};
static const char *const condition[] = {SONAR_CONDITION_ROWS(NAME)};
static const char *const severity[] = {
    [SONAR_NOTICE] = "notice", [SONAR_WAITING] = "waiting", [SONAR_DEGRADED] = "degraded"};
static const char *const timed_stage[SONAR_TIMED_STAGES] = {[SONAR_TIMED_DFT] = "dft",
                                                            [SONAR_TIMED_CBF] = "cbf",
                                                            [SONAR_TIMED_MVDR] = "mvdr",
                                                            [SONAR_TIMED_DETECT] = "detect",
                                                            [SONAR_TIMED_HEALTH] = "health"};
static const char *const stage_part[SONAR_STAGE_PARTS] = {[SONAR_PART_HOST] = "host",
                                                          [SONAR_PART_QUEUE] = "queue",
                                                          [SONAR_PART_COPY] = "copy",
                                                          [SONAR_PART_DEVICE] = "device"};

const sonar_label sonar_frame_causes = {"cause", LENGTH(frame_cause), frame_cause};
const sonar_label sonar_window_causes = {"cause", LENGTH(window_cause), window_cause};
const sonar_label sonar_handshake_causes = {"cause", LENGTH(handshake_cause), handshake_cause};
const sonar_label sonar_record_causes = {"cause", LENGTH(record_cause), record_cause};
const sonar_label sonar_element_faults = {"fault", LENGTH(element_fault), element_fault};
static const char *const topic[] = {SONAR_TOPICS(NAME, )};

const sonar_label sonar_topics = {"topic", LENGTH(topic), topic};
const sonar_label sonar_conditions = {"code", LENGTH(condition), condition};
const sonar_label sonar_severities = {"severity", LENGTH(severity), severity};
const sonar_label sonar_timed_stages = {"stage", LENGTH(timed_stage), timed_stage};
const sonar_label sonar_stage_parts = {"part", LENGTH(stage_part), stage_part};
const sonar_label sonar_latency_parts = {"part", LENGTH(latency_part), latency_part};

static const char *name_in(const sonar_label *label, unsigned value) {
    return value < label->count ? label->name[value] : "unknown";
}

const char *sonar_frame_cause_name(sonar_frame_cause cause) {
    return name_in(&sonar_frame_causes, (unsigned)cause);
}

const char *sonar_window_cause_name(sonar_window_cause cause) {
    return name_in(&sonar_window_causes, (unsigned)cause);
}

const char *sonar_element_fault_name(sonar_element_fault fault) {
    return name_in(&sonar_element_faults, (unsigned)fault);
}

const char *sonar_condition_severity_name(sonar_condition_severity value) {
    return name_in(&sonar_severities, (unsigned)value);
}

const char *sonar_condition_name(sonar_condition_code code) {
    return name_in(&sonar_conditions, (unsigned)code);
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
    /* the set, when full, may lack the channel before this one */
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

const char *sonar_nav_name(sonar_nav_quantity quantity) {
    static const char *const name[SONAR_NAV_QUANTITIES] = {[SONAR_NAV_HEADING] = "heading_deg",
                                                           [SONAR_NAV_MAGNETIC] = "compass_deg",
                                                           [SONAR_NAV_COURSE] = "course_deg",
                                                           [SONAR_NAV_SPEED] = "speed_mps",
                                                           [SONAR_NAV_WATER_SPEED] =
                                                               "water_speed_mps",
                                                           [SONAR_NAV_LATITUDE] = "latitude_deg",
                                                           [SONAR_NAV_LONGITUDE] = "longitude_deg",
                                                           [SONAR_NAV_DEPTH] = "depth_m",
                                                           [SONAR_NAV_TILT] = "tilt_deg"};
    return (unsigned)quantity < SONAR_NAV_QUANTITIES ? name[quantity] : "unknown";
}

const char *sonar_tow_state_name(sonar_tow_state state) {
    static const char *const name[] = {[SONAR_TOW_NONE] = "none",
                                       [SONAR_TOW_KNOWN] = "known",
                                       [SONAR_TOW_SHORT] = "short",
                                       [SONAR_TOW_NO_SPEED] = "no_speed",
                                       [SONAR_TOW_NO_HEADING] = "no_heading",
                                       [SONAR_TOW_NO_COMPASS] = "no_compass"};
    return (unsigned)state < LENGTH(name) ? name[state] : "unknown";
}
