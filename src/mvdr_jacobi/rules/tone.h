/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The tone that dominates a bin, and its frequency. W is the window function's transform about its
 * middle. A tone that is o bins above the centre of bin b has the amplitude W(o) in this bin and
 * -W(o - 1) in the next, in every snapshot and at every sensor. Broadband sound has the same power
 * in both, and the correlation -c of the squared window function. So the mean over sensors and
 * snapshots of the products of neighbouring bins is
 *
 *     |  a  -g |       | W(o)^2         W(o) W(o-1) |       | 1  c |
 *     | -g   b |  ,    | W(o) W(o-1)    W(o-1)^2    | S  +  | c  1 | N   =   | a  g |
 *                                                                            | g  b |
 *
 * These are three equations for the tone S, the rest N and the offset o. The time between snapshots
 * does not appear in them: gaps, hops and restarts do not matter, and the frequency is not
 * ambiguous.
 *
 * A single broadband source can look like a tone by chance. For L independent snapshots the two
 * roots M > N of det([a g; g b] - x [1 c; c 1]) give u = 2 sqrt(M N)/(M + N). Under broadband sound
 * u is below a given value with the probability value^(2L - 1) (Mauchly 1940, two variates).
 */
#ifndef SONAR_MVDR_JACOBI_RULES_TONE_H
#define SONAR_MVDR_JACOBI_RULES_TONE_H

#include <math.h>

#include "mvdr_jacobi/rules/level.h"
#include "mvdr_jacobi/mvdr_jacobi.h"

/* Steering at a tone begins when the tone has MVDR_TONE_BEGINS times the power of the rest of the
 * bin and the logarithm of the chance that it is broadband sound is below MVDR_TONE_CHANCE. It ends
 * when the ratio is below MVDR_TONE_ENDS or that logarithm is above MVDR_TONE_LIKELY_STILL. */
#define MVDR_TONE_BEGINS       1.5
#define MVDR_TONE_ENDS         0.75
#define MVDR_TONE_CHANCE       (-13.8) /* 1e-6 */
#define MVDR_TONE_LIKELY_STILL (-6.9)  /* 1e-3 */

/* A new offset is ignored if its squared distance from the present one is below this share of the
 * variance of its estimate, 1/(rows * snapshots * over). It would cost new projections and gain
 * nothing. */
#define MVDR_TONE_STILL 0.1

/* Steering vectors use offsets as fixed-point numbers: exact and the same on every backend. */
#define MVDR_TONE_ONE 16777216.0

/* Turns between two entries of a table, whole turns included, in 2^-32 turns; at most 2^11
 * turns. */
MVDR_BOTH static inline int64_t mvdr_turns_apart(uint64_t own, uint64_t from) {
    const int bits = SONAR_WHOLE_TURNS_BITS;
    const uint64_t to = own >> bits | own << (64 - bits),
                   begin = from >> bits | from << (64 - bits);
    return (int64_t)(to - begin) >> (32 - bits);
}

/* Means over sensors and snapshots: power in a bin, power in the next one, and minus the real part
 * of conj(x_b) x_(b + 1). */
typedef struct mvdr_pair {
    double lower, upper, cross;
} mvdr_pair;

typedef struct mvdr_tone {
    double offset; /* bins above the centre of the bin in question */
    double over;   /* power of the tone divided by the rest of the bin */
    double chance; /* ln of the probability that there is no tone */
} mvdr_tone;

/* Fractional index of an angle in the table, modulo half a turn; negative if the table does not
 * contain it. */
MVDR_BOTH static inline double mvdr_tone_place(const sonar_mvdr_tones *tones, double angle) {
    const double half = 3.14159265358979323846;
    const float *at = tones->angle;
    size_t low = tones->first, high = tones->first + tones->count - 1;
    angle += half * ceil(((double)at[low] - angle) / half);
    if (!(angle <= (double)at[high]))
        return -1;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if ((double)at[middle] <= angle)
            low = middle;
        else
            high = middle;
    }
    return (double)low + (angle - (double)at[low]) / ((double)at[high] - (double)at[low]);
}

/* The tone in a pair of bins, described for its lower bin or, with `above`, for its upper one. */
MVDR_BOTH static inline mvdr_tone mvdr_tone_of(const sonar_mvdr_tones *tones, mvdr_pair p,
                                               bool above, double snapshots) {
    mvdr_tone none = {0, 0, 0};
    double c = tones->correlation, rest = 1 - c * c;
    double sum = p.lower + p.upper - 2 * c * p.cross;
    double det = fmax(p.lower * p.upper - p.cross * p.cross, 0.0);
    if (!(sum > 0) || !(rest > 1e-6) || !isfinite(sum * sum))
        return none;
    double root = sqrt(fmax(sum * sum - 4 * rest * det, 0.0));
    double most = (sum + root) / (2 * rest), least = 2 * det / (sum + root);
    double floor = fmax(least, 1e-14 * most); /* the resolution of float32 */
    double u = 2 * sqrt(most * floor) / (most + floor);
    double angle = 0.5 * atan2(2 * (p.cross - c * least), p.lower - p.upper);
    double place = mvdr_tone_place(tones, angle);
    if (place < 0)
        return none;
    mvdr_tone tone = {(place + 0.5) / SONAR_MVDR_TONE_STEPS - SONAR_MVDR_TONE_REACH -
                          (above ? 1 : 0),
                      ((above ? p.upper : p.lower) - least) / floor, (2 * snapshots - 1) * log(u)};
    return tone;
}

/* Of the tones found with the bin's two neighbours, the one that is less likely to be broadband
 * sound. */
MVDR_BOTH static inline mvdr_tone mvdr_tone_better(mvdr_tone a, mvdr_tone b) {
    return b.chance < a.chance ? b : a;
}

/* The offset for a bin with a tone: that of the tone, or the present offset `so_far` if the tone's
 * is too close to it to matter. so_far = 0: the bin was not steered at a tone. `rows`: number of
 * sensors. */
MVDR_BOTH static inline double mvdr_tone_offset(mvdr_tone tone, double so_far, double rows,
                                                double snapshots) {
    const double away = tone.offset - so_far, weight = rows * snapshots * tone.over;
    return so_far != 0 && away * away * weight <= MVDR_TONE_STILL ? so_far : tone.offset;
}

/* Whether to steer the bin at the tone. `so_far`: it was steered at a tone before. */
MVDR_BOTH static inline bool mvdr_tone_holds(mvdr_tone tone, bool so_far) {
    return tone.over >= (so_far ? MVDR_TONE_ENDS : MVDR_TONE_BEGINS) &&
           tone.chance < (so_far ? MVDR_TONE_LIKELY_STILL : MVDR_TONE_CHANCE);
}

#endif
