/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The power that stronger peaks leak to another one, by the pattern of the array. The spectrum of a
 * source is unknown. But at each frequency its leak follows the pattern, and powers add. So in each
 * part of the band, the power measured in any other direction, divided by the pattern's share
 * there, is an upper limit of the source's power. The largest possible leak results if the parts
 * that leak most have their upper limit. */
#include "detect/search.h"

/* Margin for noise on a side lobe, and on the power that limits a part. */
static const double margin = 2.512; /* 4 dB */
/* With a smaller share, other sources and noise dominate, so the direction does not limit the
 * source. */
static const double least_limiting_share = 0.1;
/* Distances on either side at which power is compared; wide enough for the widest beams of the
 * band. */
static const double beams_beside[] = {0.5, 0.7, 0.9, 1.2, 1.6, 2.4, 3.6, 5.4, 8, 12, 18};

static sonar_point place_of(const sonar_local_maximum *peak) {
    return (sonar_point){peak->is.az_deg, peak->is.range_m};
}

static void limit_by(const sonar_search *s, ptrdiff_t i, sonar_local_maximum *peak) {
    const size_t at = sonar_scan_index(s->scan, i);
    double share[SONAR_PATTERN_PARTS];
    s->spec->pattern(s->spec->pattern_ctx, place_of(peak),
                     (sonar_point){s->scan->az_deg[at], peak->is.range_m}, 0, share);
    const double power = margin * (double)s->power[at] / peak->is.power;
    for (size_t part = 0; part < SONAR_PATTERN_PARTS; part++)
        if (share[part] >= least_limiting_share)
            peak->most[part] = fmin(peak->most[part], power / share[part]);
}

void sonar_leak_limit(const sonar_search *s, sonar_local_maximum *peak) {
    for (size_t part = 0; part < SONAR_PATTERN_PARTS; part++)
        peak->most[part] = 1;
    for (size_t k = 0; s->sidelobes && k < 2 * (sizeof beams_beside / sizeof *beams_beside); k++) {
        const double beams = (k % 2 ? -1 : 1) * beams_beside[k / 2];
        const ptrdiff_t i =
            sonar_scan_first(s->scan, sonar_beams_on(s->scan, peak->is.az_deg, beams));
        if (sonar_scan_inside(s->scan, i))
            limit_by(s, i, peak);
    }
}

double sonar_leak_share(const sonar_search *s, const sonar_local_maximum *from,
                        const sonar_local_maximum *to) {
    double share[SONAR_PATTERN_PARTS], left = 1, sum = 0;
    s->spec->pattern(s->spec->pattern_ctx, place_of(from), place_of(to), SONAR_PATTERN_BLUR, share);
    for (size_t taken = 0; taken < SONAR_PATTERN_PARTS && left > 0; taken++) {
        size_t best = 0;
        for (size_t part = 1; part < SONAR_PATTERN_PARTS; part++)
            if (share[part] > share[best])
                best = part;
        const double power = fmin(left, from->most[best]);
        sum += power * share[best];
        left -= power;
        share[best] = -1;
    }
    return left < 1 ? margin * sum / (1 - left) : 0;
}
