/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "spoilt.h"

#include <stdio.h>
#include <time.h>

enum { FRAME = 256 };

sonar_code spoilt_open(feed *feed, subscriber *subscriber, const spoilt_options *options,
                       const char *plugin_dir, const struct layout *layout,
                       const sonar_surface topic[3], sonar_error *err) {
    char text[2048];
    snprintf(text, sizeof text,
             "schema: 1\n"
             "array: {id: 1, geometry: {line: {sensors: %d, spacing_m: 0.75}}, %s}\n"
             "fs_hz: %d\n"
             "ingest: {overload: block}\n"
             "dft: {length: %d, hop: %d}\n"
             "cbf: {band_hz: [600, 950], %s, scan: {start_deg: 0, stop_deg: 180, step_deg: 1}}\n"
             "mvdr: {%s, scan: {start_deg: 0, stop_deg: 180, step_deg: 1}}\n"
             "output: {high_water_mark: 1000}\n"
             "runtime: {threads: 1, backend: %s}\n",
             SPOILT_SENSORS, options->array, SPOILT_FS, SPOILT_FS, SPOILT_FS, options->cbf,
             options->mvdr, options->backend);
    sonar_code code = feed_start(feed, text, NULL, plugin_dir, 0, layout, err);
    *subscriber = subscribe(feed->out, sonar_topic_name(topic[0]), sonar_topic_name(topic[1]),
                            sonar_topic_name(topic[2]), NULL);
    uint32_t all = SONAR_WANT(topic[0]) | SONAR_WANT(topic[1]) | SONAR_WANT(topic[2]);
    while (!code && (sonar_output_wanted(feed->pipeline->output) & all) != all)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    feed->digitiser = digitiser_open(feed->in, SPOILT_SENSORS, 0, SPOILT_SENSORS, FRAME);
    feed->digitiser.frame.fs_hz = SPOILT_FS;
    return code;
}

void spoilt_second(feed *feed, bool dead) {
    float samples[FRAME * SPOILT_SENSORS];
    uint8_t header[SONAR_FRAME_HEADER_BYTES];
    digitiser *d = &feed->digitiser;
    d->level = 30, d->noise = 10, d->az_deg = SPOILT_SHIP_DEG;
    d->low_hz = 600.5, d->high_hz = 950.5;
    for (int frame = 0; frame < SPOILT_FS / FRAME; frame++) {
        digitiser_fill(d, samples);
        for (size_t t = 0; t < FRAME && dead; t++)
            samples[t * SPOILT_SENSORS + SPOILT_BAD] = 0;
        sonar_frame_encode(&d->frame, header);
        digitiser_raw(d, 2, (const void *[]){header, samples},
                      (size_t[]){sizeof header, sizeof samples});
        digitiser_skip(d, 1);
    }
}
