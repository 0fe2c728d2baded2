/* SPDX-License-Identifier: GPL-3.0-or-later */
/* clang-format off */
/*
 * The topics, one row each. A row is the only definition of its topic. The enumeration
 * sonar_surface, sonar_topic_table (status/topic.h), subscriptions, headers, the buffers of results
 * and output.topics come from these rows; a test compares docs/reading.md with them.
 *
 *   name      as subscribed to; no name is a prefix of another
 *   axes      of the array, outer and inner: CHANNEL, RANGE, BIN, DIRECTION, COORDINATE, MODE (of
 *             eigenvalues), BEAM, SAMPLE, or NONE. Directions, bins and bands are the CBF's, unless
 *             the MVDR makes it, or the host from the MVDR's surfaces
 *   quantity  POWER (unit^2), DENSITY (unit^2/Hz), PSEUDO (a pseudo-spectrum, which is no power),
 *             SHARE, RATIO (of powers), LENGTH (m), PRESSURE (unit), or NOTHING
 *   dtype     of the array: a sonar_dtype but S24; F32 also if there is no array
 *   maker     CBF, MVDR: that stage; HOST: the processor, from samples, transforms or `needs`; DETECTOR, from
 *             the surfaces in `needs`; CONTROL: the control thread
 *   when      WINDOW: with each; NAMED: with each while a subscription names it; SECOND
 *   needs     surfaces from which it is computed
 */
/* clang-format on */
#ifndef SONAR_TOPICS_H
#define SONAR_TOPICS_H

#include "sonar/rows.h"

/* A test's own row (tests/topic_row), after the separator `...`, which may be a comma. */
#ifndef SONAR_ONE_MORE_TOPIC
#define SONAR_ONE_MORE_TOPIC(ROW, ...)
#endif

/* clang-format off */
#define SONAR_TOPICS(ROW, AND) \
    /*  constant               name               axes                  quantity  dtype  maker     when    needs  what it is */ \
    ROW(SONAR_CBF_AZIMUTH,     "cbf.azimuth",     NONE,    DIRECTION,   POWER,    F32,   CBF,      WINDOW, 0, "broadband power") AND \
    ROW(SONAR_CBF_NEARFIELD,   "cbf.nearfield",   RANGE,   DIRECTION,   POWER,    F32,   CBF,      WINDOW, 0, "broadband power") AND \
    ROW(SONAR_CBF_LOFAR,       "cbf.lofar",       BIN,     DIRECTION,   DENSITY,  F32,   CBF,      NAMED,  0, "power spectral density") AND \
    ROW(SONAR_MVDR_AZIMUTH,    "mvdr.azimuth",    NONE,    DIRECTION,   POWER,    F32,   MVDR,     WINDOW, 0, "broadband power") AND \
    ROW(SONAR_MVDR_SPECTRUM,   "mvdr.spectrum",   BIN,     DIRECTION,   DENSITY,  F32,   MVDR,     NAMED,  0, "power spectral density") AND \
    ROW(SONAR_MVDR_NEARFIELD,  "mvdr.nearfield",   RANGE,   DIRECTION,   POWER,    F32,   MVDR,     NAMED,  0, "broadband power") AND \
    ROW(SONAR_MVDR_EIGENVALUES, "mvdr.eigenvalues", BIN,   MODE,        DENSITY,  F32,   MVDR,     NAMED,  0, "eigenvalues of the covariance") AND \
    ROW(SONAR_MUSIC_AZIMUTH,   "music.azimuth",   NONE,    DIRECTION,   PSEUDO,   F32,   MVDR,     NAMED,  0, "pseudo-spectrum") AND \
    ROW(SONAR_ELEMENT_PSD,     "element.psd",     CHANNEL, BIN,         DENSITY,  F32,   HOST,     NAMED,  0, "power spectral density") AND \
    ROW(SONAR_ELEMENT_MISSING, "element.missing", NONE,    CHANNEL,     SHARE,    F32,   HOST,     NAMED,  0, "share of missing samples") AND \
    ROW(SONAR_ELEMENT_POSITION, "element.position", CHANNEL, COORDINATE, LENGTH,  F32,   HOST,     NAMED,  0, "position in the array frame: forward, right, down") AND \
    ROW(SONAR_BEAM_AUDIO,      "beam.audio",      BEAM,    SAMPLE,      PRESSURE, F32,   HOST,     NAMED,  0, "time series of the beams of `beam`") AND \
    ROW(SONAR_CBF_NORMALISED,  "cbf.normalised",  NONE,    DIRECTION,   RATIO,    F32,   HOST,     NAMED,  SONAR_WANT(SONAR_CBF_AZIMUTH), "power over the noise around each direction") AND \
    ROW(SONAR_MVDR_NORMALISED, "mvdr.normalised", NONE,    DIRECTION,   RATIO,    F32,   HOST,     NAMED,  SONAR_WANT(SONAR_MVDR_AZIMUTH), "power over the noise around each direction") AND \
    ROW(SONAR_CBF_SPED,        "cbf.sped",        NONE,    DIRECTION,   RATIO,    F32,   HOST,     NAMED,  SONAR_WANT(SONAR_CBF_LOFAR), "peaks of each bin over the power around them, averaged over the band") AND \
    ROW(SONAR_DETECTIONS,      "detections",      NONE,    NONE,        POWER,    F32,   DETECTOR, WINDOW, \
        SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_NEARFIELD) | SONAR_WANT(SONAR_MVDR_AZIMUTH), \
        "peaks with bearing, level and range, in the header") AND \
    ROW(SONAR_TRACKS,          "tracks",          NONE,    NONE,        NOTHING,  F32,   DETECTOR, NAMED, \
        SONAR_WANT(SONAR_DETECTIONS) | SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_NEARFIELD) | \
            SONAR_WANT(SONAR_MVDR_AZIMUTH), \
        "contacts that are followed, with bearing and rate, in the header") AND \
    ROW(SONAR_STATUS,          "status",          NONE,    NONE,        NOTHING,  F32,   CONTROL,  SECOND, 0, "health, counters and times, in the header") \
    SONAR_ONE_MORE_TOPIC(ROW, AND)
/* clang-format on */

/* The published topics, in the order of the rows; a topic with an array is a surface. */
typedef enum sonar_surface {
    SONAR_TOPICS(SONAR_PICK_CONSTANT, SONAR_COMMA),
    SONAR_SURFACES
} sonar_surface;

/* The surface's bit in sonar_work.outputs and in other sets of surfaces, uint32_t each. */
#define SONAR_WANT(surface) (1u << (surface))

#endif
