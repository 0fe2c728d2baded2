/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tones tell contacts apart that have crossed. A plot shows each tone of its own track with a
 * learned probability, and that of another contact as often as the window's other plots do: a tone
 * of the own ship is in all of them and tells nothing. */
#include <math.h>

#include "analysis/tracks/state.h"

static const double same_bins = 1.0; /* two tones nearer than this are one */
static const double known = 0.5;     /* a tone that is shown less often takes no part */
static const double memory_s = 20;   /* in which `shown` follows what plots show */
static const double forgotten = 0.05;
static const double by_chance = 0.02, chance_plots = 2; /* prior of a tone in another contact */
static const double ratio_most = 100;

static bool is_same(const sonar_tracks *s, double a_hz, double b_hz) {
    return fabs(a_hz - b_hz) < same_bins * s->bin_hz;
}

static bool shows(const sonar_tracks *s, size_t plot, double hz) {
    const sonar_detection *row = s->plot[plot].row;
    for (size_t i = 0; i < row->tones; i++)
        if (is_same(s, row->tone[i].hz, hz))
            return true;
    return false;
}

/* The probability that a contact shows the tone of another one. */
static double elsewhere(const sonar_tracks *s, size_t plot, double hz) {
    double others = 0, showing = 0;
    for (size_t j = 0; j < s->plots; j++)
        if (j != plot) {
            others++;
            showing += shows(s, j, hz);
        }
    return (by_chance * chance_plots + showing) / (chance_plots + others);
}

static bool knows(const sonar_tracks *s, const struct follow *f, double hz) {
    for (size_t i = 0; f && i < f->tones; i++)
        if (f->tone[i].shown >= known && is_same(s, f->tone[i].hz, hz))
            return true;
    return false;
}

/* Tones that `but` knows, too, are left out. */
static double ratio_of(const sonar_tracks *s, const struct follow *f, const struct follow *but,
                       size_t plot) {
    double ratio = 1;
    for (size_t i = 0; i < f->tones; i++) {
        const struct known_tone *tone = &f->tone[i];
        if (tone->shown < known || knows(s, but, tone->hz))
            continue;
        const double chance = elsewhere(s, plot, tone->hz);
        ratio *= shows(s, plot, tone->hz) ? tone->shown / chance : (1 - tone->shown) / (1 - chance);
    }
    return ratio;
}

double sonar_tracks_tones_ratio(const sonar_tracks *s, const struct follow *f,
                                const struct follow *other, size_t plot) {
    if (!(s->bin_hz > 0))
        return 1;
    const double ratio = ratio_of(s, f, NULL, plot) * (other ? ratio_of(s, other, f, plot) : 1);
    return fmin(fmax(ratio, 1 / ratio_most), ratio_most);
}

size_t sonar_tracks_tones(const struct follow *f, double hz[SONAR_TONES_MOST]) {
    double shown[SONAR_TONES_MOST];
    size_t n = 0;
    for (size_t i = 0; i < f->tones; i++) {
        if (f->tone[i].shown < known)
            continue;
        size_t at = n++;
        for (; at > 0 && shown[at - 1] < f->tone[i].shown; at--) {
            shown[at] = shown[at - 1];
            hz[at] = hz[at - 1];
        }
        shown[at] = f->tone[i].shown;
        hz[at] = f->tone[i].hz;
    }
    return n;
}

static void learn_new(struct follow *f, double hz, double step) {
    size_t at = f->tones;
    if (f->tones == SONAR_TONES_MOST) {
        at = 0;
        for (size_t i = 1; i < f->tones; i++)
            if (f->tone[i].shown < f->tone[at].shown)
                at = i;
        if (f->tone[at].shown >= known)
            return;
    } else {
        f->tones++;
    }
    f->tone[at] = (struct known_tone){hz, step};
}

void sonar_tracks_learn_tones(sonar_tracks *s, struct follow *f, size_t plot, double dt) {
    if (!(s->bin_hz > 0))
        return;
    const sonar_detection *row = s->plot[plot].row;
    const double step = 1 - exp(-dt * s->plot[plot].fresh / memory_s);
    bool taken[SONAR_TONES_MOST] = {false};
    size_t kept = 0;
    for (size_t i = 0; i < f->tones; i++) {
        struct known_tone tone = f->tone[i];
        size_t k = 0;
        while (k < row->tones && (taken[k] || !is_same(s, row->tone[k].hz, tone.hz)))
            k++;
        tone.shown += step * ((k < row->tones) - tone.shown);
        if (k < row->tones) {
            taken[k] = true;
            tone.hz += step * (row->tone[k].hz - tone.hz);
        }
        if (tone.shown > fmin(forgotten, step / 2))
            f->tone[kept++] = tone;
    }
    f->tones = kept;
    for (size_t k = 0; k < row->tones; k++)
        if (!taken[k])
            learn_new(f, row->tone[k].hz, step);
}
