/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Element health: which hydrophones are dead, stuck, noisy, disturbed by mains hum, clipped, or
 * give the samples of another one.
 *
 *   in[2]     f32 or s16 [channel][n0], [channel][n1]   a stretch of samples in one or two parts,
 *                                                       rows strided; n0 + n1 is the stretch
 *   missing   [channel] share of missing samples; a channel that lacks any is left out
 *
 * Once a second of samples a round begins: every sensor is measured over a stretch of 0.4 s, or
 * 1024 samples if these are more, but no more than a window; a share of the sensors a window, so
 * that no window pays for all of a large array. Windows of less than 128 samples are not judged.
 * What was measured is judged by another thread, sensors against one another:
 *
 * - dead: constant at 0; or far below the others in all octaves in and beside the band, and in the
 *   median over eight frequencies there (between tones, whose nodes may be anywhere)
 * - stuck: constant at another value, or nearly always equal to the sample before; or the stretch's
 *   first 64 samples, half of which differ from the one before, come again in it to the bit, for
 * the first time after 128 samples or more
 * - noisy: far above the others and its neighbours in an octave of the band, or by 45 dB above all
 * - hum: the lines of the mains (50 or 60 Hz, three harmonics) far above the others' and above the
 *   same sensor's spectrum beside them
 * - clipped: more samples at the largest or smallest value than in the adjacent 64th of the span
 * - identical: the same 64 samples, to the bit, as another sensor, half of which differ from the
 * one before; all sensors are compared in the window with which the round begins
 *
 * Far: by 12 (dead, hum) or 20 dB (noisy) and 72 dB / sensors, and by 6 robust standard deviations
 * (1.4826 MAD of the levels in dB, Hampel 1974), so that the slope that a near ship gives an array
 * flags none. Octaves are those of the Haar transform. Levels are taken over the step of the
 * converter (as found in the samples) squared over 12: a sea too quiet for the converter flags
 * none either. Neighbours are those in the order of the sensors.
 *
 * Where half the sensors or more move by less than half a step (rms) none is judged, what was found
 * before stays, and the array as a whole is told to be quiet.
 */
#ifndef SONAR_ELEMENTS_H
#define SONAR_ELEMENTS_H

#include "status/result.h"

typedef struct sonar_elements_spec {
    size_t sensors, channels;
    const uint32_t *channel; /* [sensor]; borrowed until destroy */
    const uint8_t *used;     /* [sensor]; 0: masked by hand, which is counted and not judged */
    const float *scale; /* [sensor] uPa per count, or 1: levels are compared after scaling by it;
                           borrowed until destroy or a change */
    double fs_hz;
    size_t length, hop;     /* of the windows: a stretch is never longer */
    double low_hz, high_hz; /* the band that the beamformers use */
} sonar_elements_spec;

/* Rounds, each about a second: after this many equal rounds in a row a fault is flagged or cleared,
 * and a sensor is removed or returns. The time until it returns doubles each time. */
enum {
    SONAR_ELEMENTS_FLAG_ROUNDS = 3,
    SONAR_ELEMENTS_CLEAR_ROUNDS = 5,
    SONAR_ELEMENTS_OUT_ROUNDS = 5,
    SONAR_ELEMENTS_BACK_ROUNDS = 30,
    SONAR_ELEMENTS_BACK_MOST = 3600
};

typedef struct sonar_elements sonar_elements;

/* Allocates everything. SONAR_ENOMEM. */
sonar_code sonar_elements_create(const sonar_elements_spec *spec, const sonar_host *host,
                                 sonar_elements **elements, sonar_error *err);
void sonar_elements_destroy(sonar_elements *elements);

/* ---- data thread ----------------------------------------------------------------------------- */

/* Samples of a stretch, taken from the beginning of a window. */
size_t sonar_elements_stretch(const sonar_elements *elements);
/* True if there is something to measure in a window that begins with this sample. */
bool sonar_elements_due(const sonar_elements *elements, uint64_t first_sample);
/* Measures the next group of sensors, on all workers of the host. Allocates nothing. */
void sonar_elements_measure(sonar_elements *elements, uint64_t first_sample,
                            const sonar_buffer in[2], const float *missing);

/* Where several ranks share the array, each measures its sensors and the root judges all, with a
 * sonar_elements of the whole array that measures nothing. */

size_t sonar_elements_measure_bytes(void); /* Size of one sensor's measures. */
/* True if a round is complete and has not been judged. */
bool sonar_elements_measured(const sonar_elements *elements);
/* The first sample of its round. */
uint64_t sonar_elements_began(const sonar_elements *elements);
/* [sensor] the measures of a complete round, or marked invalid if none is complete. Valid until
 * go_on, after which the next round may begin: a second after `began`, which is that of the rank
 * that began last, so that all ranks measure in the same window. */
const void *sonar_elements_tell(sonar_elements *elements);
void sonar_elements_go_on(sonar_elements *elements, uint64_t began);
/* Sets the ranks' measures, one rank's sensors after the other's; sensor: their numbers in the
 * array. Not while sonar_elements_measured is true. */
void sonar_elements_take(sonar_elements *elements, const void *told, const uint32_t *sensor);

/* ---- control thread -------------------------------------------------------------------------- */

/* Changes the sensors masked by hand and the scale, as in the spec; scale is borrowed until the
 * next change. */
void sonar_elements_change(sonar_elements *elements, const uint8_t *used, const float *scale);
/* Judges a complete round, if there is one. True if the mask has changed. */
bool sonar_elements_judge(sonar_elements *elements);
/* [sensor] 1: to be removed from the beams because it was dead, stuck or noisy, or hums in the
 * band, for long enough. At most a third of the used sensors. As of the last judge. */
const uint8_t *sonar_elements_mask(const sonar_elements *elements);
/* Sets the flagged faults; used: [sensor] those in the beams now. The others are in masked_auto
 * unless they are masked by hand. */
void sonar_elements_read(const sonar_elements *elements, const uint8_t *used,
                         sonar_element_health *health);

#endif
