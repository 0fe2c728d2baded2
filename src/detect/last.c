/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Contacts from one window to the next. */
#include "detect/detect.h"

#include <math.h>

#include "manifold/angle.h"

/* 0 if the contact was not there in the window before. */
static double movement_deg(const sonar_last *last, const sonar_scan *scan, double az_deg) {
    const double near_beams = 0.3;
    for (size_t i = 0; i < last->count; i++)
        if (sonar_beams_apart(scan, last->az_deg[i], az_deg) < near_beams)
            return remainder(az_deg - last->az_deg[i], 360);
    return 0;
}

void sonar_last_keep(sonar_last *last, const sonar_scan *scan, const sonar_detection *detection,
                     size_t count) {
    sonar_last now = {.count = count};
    for (size_t i = 0; i < count; i++) {
        const double az_deg = detection[i].az_deg;
        now.az_deg[i] = az_deg;
        now.detection[i] = detection[i];
        now.detection[i].az_deg += movement_deg(last, scan, az_deg);
    }
    *last = now;
}
