/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What is kept of the messages that a pipeline publishes, in one folder:
 *
 *   spectra.h5               each topic's arrays over time (surfaces.h)
 *   contacts.csv, .json      the detections, unless output.topics lacks them (table.h)
 *   tracks.csv, .json, .rep  the tracks, in the same way
 *   messages.sonar-spectra   if wanted: every message as it was published (docs/recording.md)
 *
 * Made and closed by one thread; the tap is the output thread's. */
#ifndef PROCESS_RESULTS_H
#define PROCESS_RESULTS_H

#include "config/config.h"
#include "output/output.h"

typedef struct results_spec {
    const char *folder; /* is made; what is there already is not touched: SONAR_EINVAL */
    const sonar_config *config;
    double az_deg;   /* of the lofargram; NAN: the loudest direction of each window */
    uint32_t topics; /* SONAR_WANT bits that are kept beside the usual ones */
    bool messages;
} results_spec;

typedef struct results results;

sonar_code results_open(const results_spec *spec, results **made, sonar_error *err);
/* Valid until close. */
const sonar_output_tap *results_tap(const results *results);
/* The first error of the tap; SONAR_OK: there was none. Any thread. */
sonar_code results_error(results *results, sonar_error *err);
/* What has come so far; the numbers are exact once the pipeline has stopped. Any thread. */
uint64_t results_windows(const results *results);
uint64_t results_contacts(const results *results);
/* Does spectra.h5 hold a spectrum? After the last message. */
bool results_spectra(const results *results);
/* Completes the files and frees, errors or not. Files without a message are removed. NULL is
 * allowed. */
sonar_code results_close(results *results, sonar_error *err);

#endif
