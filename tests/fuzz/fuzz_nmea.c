/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libFuzzer target for NMEA sentences, unchanged and with a corrected checksum, and for the JSON of
 * a navigation topic. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nav/nmea.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_in_range(const sonar_nav_values *v) {
    for (int i = 0; i < SONAR_NAV_QUANTITIES; i++) {
        double low, high;
        sonar_nav_range((sonar_nav_quantity)i, &low, &high);
        if (v->known & 1u << i && !(v->value[i] >= low && v->value[i] <= high))
            abort();
    }
}

static void read_one(const char *text, size_t bytes) {
    double variation_deg = NAN;
    sonar_nav_values v = {0};
    if (sonar_nmea_read(text, bytes, &variation_deg, &v) == SONAR_NMEA_TAKEN)
        expect_in_range(&v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[SONAR_NMEA_BYTES_MOST + 8];
    int64_t utc_ns = 0;
    sonar_nav_values v;
    read_one((const char *)data, size);
    if (size > 1 && size + 4 < sizeof text) {
        int sum = 0;
        for (size_t i = 1; i < size; i++)
            sum ^= data[i];
        memcpy(text, data, size);
        snprintf(text + size, 4, "*%02X", (unsigned)sum & 0xff);
        read_one(text, size + 3);
    }
    if (!sonar_nav_parse((const char *)data, size, &utc_ns, &v, NULL))
        expect_in_range(&v);
    return 0;
}
