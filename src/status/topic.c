/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "status/topic.h"

#include <string.h>

#define ROW(constant, name, outer, inner, quantity, dtype, maker, when, needs, help)               \
    [constant] = {name,                                                                            \
                  {SONAR_AXIS_##outer, SONAR_AXIS_##inner},                                        \
                  SONAR_QUANTITY_##quantity,                                                       \
                  SONAR_##dtype,                                                                   \
                  SONAR_MADE_BY_##maker,                                                           \
                  SONAR_EACH_##when,                                                               \
                  needs,                                                                           \
                  help}

const sonar_topic sonar_topic_table[SONAR_SURFACES] = {SONAR_TOPICS(ROW, SONAR_COMMA)};

_Static_assert(SONAR_SURFACES <= 32, "a bit each");

const char *sonar_topic_name(sonar_surface surface) {
    return (unsigned)surface < SONAR_SURFACES ? sonar_topic_table[surface].name : "unknown";
}

sonar_surface sonar_topic_named(const char *name, size_t length) {
    int i = 0;
    while (i < SONAR_SURFACES && (strlen(sonar_topic_table[i].name) != length ||
                                  memcmp(sonar_topic_table[i].name, name, length) != 0))
        i++;
    return (sonar_surface)i;
}

bool sonar_topic_is_mvdr(sonar_surface surface) {
    const sonar_topic *topic = &sonar_topic_table[surface];
    return topic->maker == SONAR_MADE_BY_MVDR ||
           (topic->maker == SONAR_MADE_BY_HOST &&
            topic->needs & sonar_topics_by(SONAR_MADE_BY_MVDR));
}

bool sonar_topic_is_list(sonar_surface surface) {
    return sonar_topic_table[surface].maker == SONAR_MADE_BY_DETECTOR;
}

static size_t length_of(sonar_axis axis, bool mvdr, const sonar_extents *e) {
    switch (axis) {
    case SONAR_AXIS_CHANNEL:
        return e->channels;
    case SONAR_AXIS_RANGE:
        return mvdr ? e->mvdr_ranges : e->ranges;
    case SONAR_AXIS_BIN:
        return mvdr ? e->mvdr_bins : e->cbf_bins;
    case SONAR_AXIS_DIRECTION:
        return mvdr ? e->mvdr_directions : e->cbf_directions;
    case SONAR_AXIS_COORDINATE:
        return 3;
    case SONAR_AXIS_MODE:
        return e->mvdr_modes;
    case SONAR_AXIS_BEAM:
        return e->beams;
    case SONAR_AXIS_SAMPLE:
        return e->beam_samples;
    case SONAR_AXIS_NONE:
        break;
    }
    return 0;
}

int sonar_topic_shape(sonar_surface surface, const sonar_extents *extents, size_t shape[2]) {
    const sonar_topic *topic = &sonar_topic_table[surface];
    const bool mvdr = sonar_topic_is_mvdr(surface);
    bool empty = extents->off & SONAR_WANT(surface);
    int rank = 0;
    for (int i = 0; i < 2; i++) {
        if (topic->axis[i] == SONAR_AXIS_NONE)
            continue;
        shape[rank] = length_of(topic->axis[i], mvdr, extents);
        empty = empty || !shape[rank++];
    }
    if (empty)
        rank = 0;
    for (int i = rank; i < 2; i++)
        shape[i] = 0;
    return rank;
}

uint32_t sonar_topics_by(sonar_maker maker) {
    uint32_t topics = 0;
    for (int i = 0; i < SONAR_SURFACES; i++)
        if (sonar_topic_table[i].maker == maker)
            topics |= SONAR_WANT(i);
    return topics;
}

uint32_t sonar_topics_each(sonar_when when) {
    uint32_t topics = 0;
    for (int i = 0; i < SONAR_SURFACES; i++)
        if (sonar_topic_table[i].when == when)
            topics |= SONAR_WANT(i);
    return topics;
}

uint32_t sonar_topics_needed(uint32_t wanted) {
    uint32_t needed = wanted;
    for (int i = 0; i < SONAR_SURFACES; i++)
        if (wanted & SONAR_WANT(i))
            needed |= sonar_topic_table[i].needs;
    return needed;
}
