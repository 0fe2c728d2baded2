/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "detect/fuse.h"

#include "manifold/angle.h"
#include "manifold/bearings.h"

static const double same_beams = 0.5;

/* Beam widths of the CBF between its contact and a bearing, at the CBF's heading. */
static double beams_to(const sonar_scan *scan, double heading_deg, const sonar_detection *cbf,
                       double bearing_deg) {
    if (scan->cone)
        return fabs(sonar_cone_cosine(scan, bearing_deg - heading_deg) -
                    cos(cbf->az_deg * SONAR_RADIANS)) /
               sonar_beam_width(scan);
    return fabs(remainder(bearing_deg - cbf->bearing_deg, 360)) / sonar_beam_width(scan);
}

static double beams_apart(const sonar_scan *scan, double heading_deg, const sonar_detection *cbf,
                          const sonar_detection *mvdr) {
    if (!isfinite(heading_deg) || !isfinite(mvdr->bearing_deg))
        return sonar_beams_apart(scan, cbf->az_deg, mvdr->az_deg);
    const double apart = beams_to(scan, heading_deg, cbf, mvdr->bearing_deg);
    if (mvdr->side != SONAR_SIDE_UNKNOWN || !isfinite(mvdr->mirror_deg))
        return apart;
    return fmin(apart, beams_to(scan, heading_deg, cbf, mvdr->mirror_deg));
}

/* The index of the nearest of `to`, or `count` if none is near enough. */
static size_t nearest(const sonar_scan *scan, double heading_deg, const sonar_detection *of,
                      const sonar_detection *to, size_t count) {
    size_t best = count;
    double least = same_beams;
    for (size_t i = 0; i < count; i++) {
        const bool adaptive = of->source == SONAR_FROM_MVDR;
        const double apart =
            beams_apart(scan, heading_deg, adaptive ? &to[i] : of, adaptive ? of : &to[i]);
        if (apart > least)
            continue;
        least = apart;
        best = i;
    }
    return best;
}

void sonar_detect_fuse(const sonar_scan *scan, double heading_deg, sonar_detection *cbf,
                       size_t cbf_count, sonar_detection *mvdr, size_t mvdr_count) {
    size_t contacts = cbf_count;
    for (size_t i = 0; i < cbf_count; i++) {
        cbf[i].contact = i;
        cbf[i].rests_on = 1u << SONAR_FROM_CBF;
    }
    for (size_t i = 0; i < mvdr_count; i++) {
        const size_t other = nearest(scan, heading_deg, &mvdr[i], cbf, cbf_count);
        mvdr[i].rests_on = 1u << SONAR_FROM_MVDR;
        if (other < cbf_count && nearest(scan, heading_deg, &cbf[other], mvdr, mvdr_count) == i) {
            mvdr[i].contact = other;
            cbf[other].rests_on |= mvdr[i].rests_on;
            mvdr[i].rests_on = cbf[other].rests_on;
        } else {
            mvdr[i].contact = contacts++;
        }
    }
}
