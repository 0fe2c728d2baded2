/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The tone that dominates a bin, and its frequency. A tone that is `offset` bins above bin b's
 * centre shows in this bin with the amplitude W(offset) and in the next with -W(offset - 1), W
 * being the window function's transform about its middle, in every snapshot and at every sensor
 * alike. Broadband sound shows in both with equal power and the correlation -c of the squared
 * window function. So the mean of the products of neighbouring bins, over sensors and snapshots, is
 *
 *     |  a  -g |       | W(o)^2         W(o) W(o-1) |       | 1  c |
 *     | -g   b |  ,    | W(o) W(o-1)    W(o-1)^2    | S  +  | c  1 | N   =   | a  g |
 *                                                                            | g  b |
 * three equations for tone S, rest N and offset o. The time between snapshots does not
 * enter: gaps, hops and restarts do not matter, and no frequency is ambiguous.
 *
 * A single broadband source can look like a tone by chance. Of L independent snapshots the two
 * roots M > N of det([a g; g b] - x [1 c; c 1]) then make u = 2 sqrt(M N)/(M + N), which falls
 * under any u with the probability u^(2L - 1) (Mauchly 1940, two variates). */
#ifndef SONAR_MVDR_JACOBI_TONE_H
#define SONAR_MVDR_JACOBI_TONE_H

#include <math.h>

#include "mvdr_jacobi/level.h"
#include "mvdr_jacobi/mvdr_jacobi.h"

/* A bin is steered at a tone that has this many times the power of the rest of the bin, and is no
 * longer when it has fallen to half of that; the chance that it was broadband sound, as a natural
 * logarithm. */
#define MVDR_TONE_BEGINS       1.5
#define MVDR_TONE_ENDS         0.75
#define MVDR_TONE_CHANCE       (-13.8) /* 1e-6 */
#define MVDR_TONE_LIKELY_STILL (-6.9)  /* 1e-3 */

/* A new offset this near to the one in use, as a share of the variance by which it scatters anyway,
 * 1/(rows * snapshots * over), is not taken: it would cost new projections and gain nothing. */
#define MVDR_TONE_STILL 0.1

/* Offsets are fixed-point numbers for the steering vectors: exact and the same everywhere. */
#define MVDR_TONE_ONE 16777216.0

/* Turns from one entry of a table to another, whole ones too, in 2^-32 turns; 2^11 turns at most.
 */
MVDR_BOTH static inline int64_t mvdr_turns_apart(uint64_t own, uint64_t from) {
    const int bits = SONAR_WHOLE_TURNS_BITS;
    const uint64_t to = own >> bits | own << (64 - bits),
                   begin = from >> bits | from << (64 - bits);
    return (int64_t)(to - begin) >> (32 - bits);
}

/* Means over sensors and snapshots: power in a bin, in the next one, and minus the real part of
 * conj(x_b) x_(b + 1). */
typedef struct mvdr_pair {
    double lower, upper, cross;
} mvdr_pair;

typedef struct mvdr_tone {
    double offset; /* bins above the centre of the bin that was asked for */
    double over;   /* tone over the rest of that bin */
    double chance; /* ln of the probability that it is none */
} mvdr_tone;

/* Fractional index of an angle in the table, modulo half a turn; negative: the table lacks it. */
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

/* The tone of a pair, as seen from its lower bin or, `above`, from its upper one. */
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

/* The better of two tones that a bin shows with its neighbours. */
MVDR_BOTH static inline mvdr_tone mvdr_tone_better(mvdr_tone a, mvdr_tone b) {
    return b.chance < a.chance ? b : a;
}

/* Where a bin that holds a tone is steered: there or, if that is no news, at `so_far`; 0: it was
 * not. `rows` sensors. */
MVDR_BOTH static inline double mvdr_tone_offset(mvdr_tone tone, double so_far, double rows,
                                                double snapshots) {
    const double away = tone.offset - so_far, weight = rows * snapshots * tone.over;
    return so_far != 0 && away * away * weight <= MVDR_TONE_STILL ? so_far : tone.offset;
}

/* Whether the bin is steered at the tone; it was so far. */
MVDR_BOTH static inline bool mvdr_tone_holds(mvdr_tone tone, bool so_far) {
    return tone.over >= (so_far ? MVDR_TONE_ENDS : MVDR_TONE_BEGINS) &&
           tone.chance < (so_far ? MVDR_TONE_LIKELY_STILL : MVDR_TONE_CHANCE);
}

#endif
