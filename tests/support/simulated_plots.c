/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulated_plots.h"

#include <math.h>

#include "core/core.h"
#include "core/random.h"

static const double radians = M_PI / 180;

void plots_begin(simulated_plots *s, bool line, double beam_deg, uint64_t seed) {
    *s = (simulated_plots){
        .seed = seed,
        .scan = {.count = 2, .cone = line, .wraps = !line, .beam_width_deg = beam_deg},
        .az_deg = {0, line ? 180 : 359},
        .step_s = 1,
        .sigma_beams = 0.03,
        .false_plots = 0.05};
}

/* As the scan counts places: a cosine, or radians. */
static double place_of(const simulated_plots *s, double bearing_deg) {
    const double beside = (bearing_deg - s->heading_deg) * radians;
    return s->scan.cone ? cos(beside) : beside;
}

static double apart(const simulated_plots *s, double a, double b) {
    return s->scan.cone ? fabs(a - b) : fabs(remainder(a - b, 2 * M_PI));
}

static void add(simulated_plots *s, double place, double power) {
    sonar_detection *d = &s->detection[s->detections];
    const double beam = s->scan.beam_width_deg * radians, sigma = s->sigma_beams * beam;
    place += sigma * sonar_random_normal(&s->seed);
    if (s->scan.cone && fabs(place) > 1)
        place = copysign(2, place) - place;
    const double az = s->scan.cone ? acos(place) : place;
    *d = (sonar_detection){.source = SONAR_FROM_CBF,
                           .az_deg = sonar_modulo_turn(az / radians),
                           .mirror_deg = NAN,
                           .power = power,
                           .background = 1,
                           .snr_db = 10 * log10(power),
                           .sigma = sigma,
                           .contact = s->detections++,
                           .rests_on = 1u << SONAR_FROM_CBF};
    const double slope = s->scan.cone ? fmax(sin(az), sqrt(sigma)) : 1;
    d->bearing_deg = sonar_modulo_turn(s->heading_deg + d->az_deg);
    d->bearing_sigma_deg = sigma / slope / radians;
}

static void show_tone(simulated_plots *s, double hz, sonar_detection *d) {
    if (hz > 0 && sonar_random_uniform(&s->seed) < s->tone_shown)
        d->tone[d->tones++] = (sonar_tone){hz + 0.1 * sonar_random_normal(&s->seed), 15};
}

void plots_list(simulated_plots *s) {
    const double beam = s->scan.beam_width_deg * radians;
    bool done[PLOTS_SOURCES_MOST] = {false};
    s->detections = 0;
    for (size_t i = 0; i < s->sources; i++) {
        const bool heard = sonar_random_uniform(&s->seed) < s->source[i].detected;
        if (done[i] || !heard)
            continue;
        const double at = place_of(s, s->source[i].bearing_deg);
        double power = s->source[i].power, moment = 0;
        const size_t first = s->detections;
        bool within[PLOTS_SOURCES_MOST] = {false};
        within[i] = true;
        for (size_t k = i + 1; k < s->sources; k++) {
            const double there = place_of(s, s->source[k].bearing_deg);
            if (done[k] || apart(s, at, there) > beam)
                continue;
            done[k] = within[k] = true;
            power += s->source[k].power;
            moment +=
                s->source[k].power * (s->scan.cone ? there - at : remainder(there - at, 2 * M_PI));
        }
        add(s, at + moment / power, power);
        for (size_t k = i; k < s->sources; k++)
            if (within[k])
                show_tone(s, s->tone_hz[k], &s->detection[first]);
    }
    double left = s->false_plots; /* at most one for each whole number, and one for the rest */
    for (; left > 0 && s->detections < SONAR_DETECTIONS_MOST; left--)
        if (sonar_random_uniform(&s->seed) < left) {
            const double x = sonar_random_uniform(&s->seed);
            const double power = 4 - log(sonar_random_uniform(&s->seed));
            add(s, s->scan.cone ? 2 * x - 1 : 2 * M_PI * x, power);
            show_tone(s, s->false_tone_hz, &s->detection[s->detections - 1]);
        }
}

sonar_tracks_window plots_window(simulated_plots *s) {
    s->scan.az_deg = s->az_deg; /* here, since they may be copied */
    sonar_tracks_window w = {
        .since_s = s->step_s, .bin_hz = 1, .detection = s->detection, .detections = s->detections};
    w.of[SONAR_FROM_CBF] =
        (sonar_tracks_look){.scan = &s->scan, .heading_deg = s->heading_deg, .fresh = 1};
    return w;
}
