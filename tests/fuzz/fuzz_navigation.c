/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libFuzzer target for navigation: the input is the bytes of an NMEA line, split anywhere, JSON
 * with times, and queries of the heading and of towed sensors at any time. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "nav/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(sonar_nav *nav, int64_t utc_ns) {
    double deg = NAN;
    bool asked;
    if (sonar_nav_heading(nav, utc_ns, &deg, &asked) && !(deg >= 0 && deg < 360))
        abort();
}

/* No sensor is further from the tow point than its cable is long, to the rounding of long paths. */
static void look_behind(sonar_nav *nav, int64_t utc_ns) {
    enum { SENSORS = 3 };
    const double behind_m[SENSORS] = {0, 30, 90};
    double north_m[SENSORS], east_m[SENSORS], depth_m[SENSORS];
    const sonar_nav_places_m places = {north_m, east_m, depth_m};
    sonar_tow tow;
    const sonar_tow_state state = sonar_nav_places(nav, utc_ns, SENSORS, behind_m, &places, &tow);
    for (int k = 0; k < SENSORS && (state == SONAR_TOW_KNOWN || state == SONAR_TOW_SHORT); k++)
        if (!(hypot(north_m[k], east_m[k]) <= behind_m[k] + 0.01) ||
            !(depth_m[k] >= 0 && depth_m[k] <= 12000))
            abort();
}

static void tell(sonar_nav *nav, const char *text, size_t bytes, bool held) {
    int64_t utc_ns = 1;
    sonar_nav_values values;
    if (!sonar_nav_parse(text, bytes, &utc_ns, &values, NULL))
        sonar_nav_store(nav, "fuzz", &values, utc_ns, held);
    ask(nav, utc_ns);
    look_behind(nav, utc_ns);
}

static void look(sonar_nav *nav, int64_t utc_ns) {
    sonar_navigation now;
    sonar_nav_read(nav, utc_ns, &now);
    for (int i = 0; i < SONAR_NAV_QUANTITIES; i++) {
        double low, high;
        sonar_nav_range((sonar_nav_quantity)i, &low, &high);
        if (!isnan(now.value[i]) && !(now.value[i] >= low && now.value[i] <= high))
            abort();
    }
}

/* Steps: a byte for the kind, a byte for the length, and the data. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const sonar_nav_spec specs[] = {{.stale_after_s = 3, .tow_reach_m = 90},
                                    {.stale_after_s = 3,
                                     .compasses = 3,
                                     .compass = {{"A", -9, 0}, {"B", 20, 5}, {"C", 60, 0}}}};
    const sonar_nav_spec spec = specs[size && data[0] & 16];
    const int64_t most_ns = 4000000000000000000; /* of the frames and of JSON */
    sonar_nav *nav;
    if (sonar_nav_create(&spec, sonar_host_serial(), &nav, NULL))
        abort();
    nav->variation_deg = NAN;
    while (size >= 2) {
        const size_t bytes = sonar_min_size(data[1], size - 2);
        const char *text = (const char *)data + 2;
        int64_t utc_ns = 0;
        memcpy(&utc_ns, text, sonar_min_size(bytes, sizeof utc_ns));
        if (data[0] % 8 < 3)
            sonar_nav_take_bytes(nav, &nav->nmea[0], text, bytes);
        else if (data[0] % 8 < 6)
            tell(nav, text, bytes, data[0] & 8);
        else if (data[0] % 8 == 6)
            ask(nav, utc_ns % most_ns), look_behind(nav, utc_ns % most_ns);
        else
            look(nav, utc_ns % most_ns);
        data += 2 + bytes;
        size -= 2 + bytes;
    }
    sonar_nav_destroy(nav);
    return 0;
}
