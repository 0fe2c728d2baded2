/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Element health: which hydrophones are dead, stuck, noisy, disturbed by mains hum, clipped, or
 * deliver another sensor's samples.
 *
 *   in[2]     f32 or s16 [channel][n0], [channel][n1]   a stretch of samples in one or two parts,
 *                                                       rows strided; n0 + n1 is the stretch
 *   missing   [channel] share of missing samples; a channel that lacks any is left out
 *
 * A round begins after every two seconds of samples. In it every sensor is measured over a stretch
 * of 0.4 s, or 1024 samples if that is longer, but at most a window. Each window measures a share
 * of the sensors, so that no window takes much longer. Sensors are not judged if windows have fewer
 * than 128 samples. Another thread judges the measures, by comparing the sensors with one another:
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
 * (1.4826 MAD of the levels in dB, Hampel 1974), so that the level slope that a near ship causes
 * along the array flags no sensor. Octaves are those of the Haar transform. Levels are taken over
 * the step of the converter (as found in the samples) squared over 12: so a sea too quiet for the
 * converter flags no sensor either. Neighbours are those in the order of the sensors.
 *
 * If at least half the sensors vary by less than half a step (rms), no sensor is judged, earlier
 * findings stay, and the array as a whole is reported as quiet.
 */
#ifndef SONAR_ELEMENTS_H
#define SONAR_ELEMENTS_H

#include "status/result.h"

typedef struct sonar_elements_spec {
    size_t sensors, channels;
    const uint32_t *channel; /* [sensor]; borrowed until destroy */
    const uint8_t *used;     /* [sensor]; 0: masked by hand; such sensors are counted, not judged */
    const float *scale; /* [sensor] uPa per count, or 1: levels are compared after scaling by it;
                           borrowed until destroy or a change */
    double fs_hz;
    size_t length, hop;     /* of the windows; a stretch is at most a window */
    double low_hz, high_hz; /* the band that the beamformers use */
} sonar_elements_spec;

enum {
    SONAR_ELEMENTS_ROUND_S = 2, /* from one round's beginning to the next one's, at least */
    /* After this many equal rounds in a row a fault is flagged or cleared, and a sensor is removed
     * or returns. The time until it returns doubles with each removal. */
    SONAR_ELEMENTS_FLAG_ROUNDS = 3,
    SONAR_ELEMENTS_CLEAR_ROUNDS = 3,
    SONAR_ELEMENTS_OUT_ROUNDS = 4,
    SONAR_ELEMENTS_BACK_ROUNDS = 15,
    SONAR_ELEMENTS_BACK_MOST = 1800
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

/* If several ranks share the array, each measures its own sensors. The root judges them all, with a
 * sonar_elements of the whole array that does not measure. */

size_t sonar_elements_measure_bytes(void); /* Size of one sensor's measures. */
/* True if a round is complete and has not been judged. */
bool sonar_elements_measured(const sonar_elements *elements);
/* First sample of the measured round. */
uint64_t sonar_elements_began(const sonar_elements *elements);
/* [sensor] measures of a complete round; marked invalid if no round is complete. Valid until go_on,
 * which allows the next round to begin SONAR_ELEMENTS_ROUND_S after `began`. All ranks pass the
 * `began` of the rank that began last, and therefore measure in the same window. */
const void *sonar_elements_measures(sonar_elements *elements);
void sonar_elements_go_on(sonar_elements *elements, uint64_t began);
/* Sets the measures of all ranks, in the order of the ranks; sensor: their numbers in the array.
 * Not while sonar_elements_measured is true. */
void sonar_elements_take(sonar_elements *elements, const void *measures, const uint32_t *sensor);

/* ---- control thread -------------------------------------------------------------------------- */

/* Changes the sensors masked by hand and the scale, as in the spec; scale is borrowed until the
 * next change. */
void sonar_elements_change(sonar_elements *elements, const uint8_t *used, const float *scale);
/* Judges a complete round, if there is one. True if the mask has changed. */
bool sonar_elements_judge(sonar_elements *elements);
/* [sensor] 1: to be removed from the beams, because the sensor has been dead, stuck, noisy, or
 * disturbed by hum within the band for long enough. At most a third of the used sensors. As of the
 * last call of judge. */
const uint8_t *sonar_elements_mask(const sonar_elements *elements);
/* Sets the list of flagged faults. used: [sensor] those in the beams now. The others are listed in
 * masked_auto, unless they are masked by hand. */
void sonar_elements_read(const sonar_elements *elements, const uint8_t *used,
                         sonar_element_health *health);

#endif
