/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Forms of a table of turns that can be beamformed faster, found in the table itself. The functions
 * are in a header, so that a plugin need not compile a file of libsonar. */
#ifndef SONAR_CBF_FORM_H
#define SONAR_CBF_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Two look points that are mirror images of each other; NO_POINT: the first has no image. */
struct mirror {
    uint32_t point, image;
};

#define NO_POINT UINT32_MAX

/* Equal modulo one turn to within 1e-12 turns. At bin 32768 this is less than float32 resolves. */
static inline bool same_turns(uint64_t a, uint64_t b) {
    const int64_t most = 18446744, difference = (int64_t)(a - b);
    return difference <= most && difference >= -most;
}

static inline bool is_image(const uint64_t *point, const uint64_t *image, size_t sensors) {
    for (size_t k = 0; k < sensors; k++)
        if (!same_turns(point[k], image[sensors - 1 - k]))
            return false;
    return true;
}

/* Pairs every point with its first matching image. Returns 0 pairs if more than most_alone points
 * have none, because such a point costs as much as two. `turns` is [point][sensor]. */
static inline size_t find_mirrors(const uint64_t *turns, size_t points, size_t sensors,
                                  size_t most_alone, struct mirror *mirror) {
    size_t count = 0, alone = 0;
    for (size_t p = 0; p < points; p++)
        mirror[p].image = NO_POINT; /* temporarily: the point that p is the image of */
    for (size_t p = 0; p < points; p++) {
        const uint64_t *own = turns + p * sensors;
        if (mirror[p].image != NO_POINT)
            continue;
        size_t q = p + 1;
        while (q < points &&
               !(mirror[q].image == NO_POINT && is_image(own, turns + q * sensors, sensors)))
            q++;
        if (q < points)
            mirror[q].image = (uint32_t)p;
        alone += q == points && !is_image(own, own, sensors);
        mirror[p].point = q < points ? (uint32_t)q : NO_POINT;
        if (alone > most_alone)
            return 0;
    }
    for (size_t p = 0; p < points; p++)
        if (mirror[p].image == NO_POINT) {
            const uint32_t image = mirror[p].point;
            mirror[count].point = (uint32_t)p;
            mirror[count++].image = image;
        }
    return count;
}

/* True if a point's turns increase evenly from sensor to sensor. *step is the increment modulo one
 * turn: sensor k is at turns[0] + k step. */
static inline bool is_even(const uint64_t *turns, size_t sensors, uint64_t *step) {
    *step = 0;
    if (sensors < 2)
        return sensors == 1;
    const uint64_t first = turns[1] - turns[0];
    const int64_t missed = (int64_t)(turns[sensors - 1] - turns[0] - (sensors - 1) * first);
    *step =
        first +
        (uint64_t)(missed /
                   (int64_t)(sensors - 1)); /* the end sensors determine the step most accurately */
    for (size_t k = 1; k < sensors; k++)
        if (!same_turns(turns[k] - turns[0], k * *step))
            return false;
    return true;
}

#endif
