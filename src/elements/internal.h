/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What measuring (data thread) and judging (control thread) share. */
#ifndef SONAR_ELEMENTS_INTERNAL_H
#define SONAR_ELEMENTS_INTERNAL_H

#include <stdatomic.h>

#include "core/core.h"
#include "elements/elements.h"

enum {
    OCTAVES = 6,
    MAINS = 2, /* 50 and 60 Hz */
    HARMONICS = 3,
    BESIDE = 4, /* frequencies beside each line */
    LINES = MAINS * HARMONICS * (1 + BESIDE),
    PROBES = 8, /* frequencies in and beside the band */
    PROBE_MOST = 2048
};

/* One sensor over one stretch, in counts. */
struct measure {
    float octave[OCTAVES];           /* power of the Haar transform's coefficients, counts^2 */
    float probe;                     /* median power over the frequencies of the probes */
    float power;                     /* of all but the mean */
    float hum[MAINS], beside[MAINS]; /* mean power of the lines, and beside them */
    float step;                      /* smallest difference between neighbours, 0: there is none */
    float same;                      /* share of samples equal to the one before */
    uint64_t fingerprint;            /* of the samples compared; 0: they cannot be */
    bool taken;                      /* nothing was missing */
    bool constant, zero, repeated, clipped;
};

/* In `seen`, above the bits of the faults: constant in a round in which no sensor is judged. */
#define STILL (1u << SONAR_ELEMENT_FAULTS)

/* Where a sensor stands with one fault, or with being taken out. */
struct standing {
    uint16_t bad, good; /* rounds in a row */
    bool set;
};

#define NOBODY UINT32_MAX

/* Whose turn it is with the measures. */
enum { TURN_MEASURE = 0, TURN_JUDGE };

struct sonar_elements {
    sonar_elements_spec spec;
    const sonar_host *host;
    /* constants */
    size_t stretch;
    size_t first_octave, octaves; /* of the transform's; [0] is the highest */
    size_t band_first, band_end;  /* of the octaves, those that the band lies in */
    size_t share;                 /* sensors of one window */
    size_t block, blocks;         /* samples of one value for the lines, values; 0: no hum */
    size_t harmonics;             /* below half the rate of these values */
    float *line;                  /* [LINES][cos, sin][blocks], windowed */
    size_t probed;                /* samples the probes look at */
    float *probe;                 /* [PROBES][cos, sin][probed], windowed */
    /* data thread */
    float *scratch; /* [worker][stretch + blocks] */
    size_t next;    /* sensor to be measured next */
    bool begun;
    uint64_t round_first;   /* sample with which the round began */
    const sonar_buffer *in; /* of the measure in progress */
    const float *missing;
    size_t end;
    _Atomic uint8_t *used; /* [sensor] not masked by hand: control writes, data reads */
    /* whoever has the turn */
    atomic_int turn;
    struct measure *measure; /* [sensor] */
    /* control thread */
    float *level, *residual, *sorted; /* [sensor] */
    struct standing *fault;           /* [sensor][SONAR_ELEMENT_FAULTS] */
    uint8_t *seen;                    /* [sensor] faults of this round, a bit each, and STILL */
    struct standing *out;             /* [sensor] */
    uint16_t *patience;               /* [sensor] rounds until it comes back */
    uint8_t *mask;                    /* [sensor] */
    uint32_t *fed;                    /* [channel] the sensor it feeds, or NOBODY */
    uint32_t *first; /* [firsts] hash table of the first sensor of each fingerprint */
    size_t firsts;   /* a power of two, twice the sensors or more */
    size_t judged, masked;
    struct standing quiet; /* too little moves to judge a sensor by */
};

static inline bool sonar_element_used(const struct sonar_elements *e, size_t sensor) {
    return atomic_load_explicit(&e->used[sensor], memory_order_relaxed);
}

#endif
