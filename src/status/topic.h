/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The rows of sonar/topics.h as data. */
#ifndef SONAR_CORE_TOPIC_H
#define SONAR_CORE_TOPIC_H

#include "sonar/sonar.h"

enum { SONAR_TOPIC_MOST = 16 }; /* longest name, bytes */

/* Schema of all published messages; a reader refuses messages of another schema. */
#define SONAR_OUTPUT_SCHEMA "sonard/1"

typedef enum sonar_axis {
    SONAR_AXIS_NONE = 0,
    SONAR_AXIS_CHANNEL,
    SONAR_AXIS_RANGE,
    SONAR_AXIS_BIN,
    SONAR_AXIS_DIRECTION,
    SONAR_AXIS_COORDINATE, /* forward, right, down */
    SONAR_AXIS_MODE,       /* eigenvalues, the largest first */
    SONAR_AXIS_BEAM,       /* those of the option `beam` */
    SONAR_AXIS_SAMPLE      /* of a beam's time series */
} sonar_axis;

typedef enum sonar_quantity {
    SONAR_QUANTITY_NOTHING = 0,
    SONAR_QUANTITY_SHARE,
    SONAR_QUANTITY_RATIO,
    SONAR_QUANTITY_LENGTH,
    SONAR_QUANTITY_PSEUDO,
    SONAR_QUANTITY_PRESSURE,
    SONAR_QUANTITY_POWER,
    SONAR_QUANTITY_DENSITY
} sonar_quantity;

typedef enum sonar_maker {
    SONAR_MADE_BY_CBF = 0,
    SONAR_MADE_BY_MVDR,
    SONAR_MADE_BY_HOST,
    SONAR_MADE_BY_DETECTOR,
    SONAR_MADE_BY_CONTROL
} sonar_maker;

typedef enum sonar_when {
    SONAR_EACH_WINDOW = 0, /* while there is any matching subscription */
    SONAR_EACH_NAMED,      /* while there is a subscription to a non-empty prefix of the name */
    SONAR_EACH_SECOND
} sonar_when;

typedef struct sonar_topic {
    const char *name;
    sonar_axis axis[2]; /* outer, inner; SONAR_AXIS_NONE: no such axis */
    sonar_quantity quantity;
    sonar_dtype dtype;
    sonar_maker maker;
    sonar_when when;
    uint32_t needs; /* SONAR_WANT bits */
    const char *help;
} sonar_topic;

extern const sonar_topic sonar_topic_table[SONAR_SURFACES];

/* Lengths of the axes; 0 for axes that do not exist. */
typedef struct sonar_extents {
    size_t channels, ranges;
    size_t cbf_directions, cbf_bins; /* bins: those of cbf.lofar */
    size_t mvdr_directions, mvdr_bins, mvdr_ranges, mvdr_modes;
    size_t beams, beam_samples;
    uint32_t off; /* SONAR_WANT bits of surfaces that an option switches off */
} sonar_extents;

/* "unknown" for a value that is not a topic */
const char *sonar_topic_name(sonar_surface surface);
/* True if its directions, bins, band and samples are the MVDR's: made by it, or by the host from
 * it. */
bool sonar_topic_is_mvdr(sonar_surface surface);
/* True if a window's message has a list in its header and no array. */
bool sonar_topic_is_list(sonar_surface surface);
/* The topic with this name of `length` characters; SONAR_SURFACES: there is none. */
sonar_surface sonar_topic_named(const char *name, size_t length);
/* Sets the shape of the topic's array and returns its rank. Returns 0, with shape 0, if the topic
 * has no array, an axis is empty, or the surface is off. */
int sonar_topic_shape(sonar_surface surface, const sonar_extents *extents, size_t shape[2]);
/* SONAR_WANT bits of the topics with this maker, or of those published at these times. */
uint32_t sonar_topics_by(sonar_maker maker);
uint32_t sonar_topics_each(sonar_when when);
/* SONAR_WANT bits of the wanted topics and of those that they need. */
uint32_t sonar_topics_needed(uint32_t wanted);

#endif
