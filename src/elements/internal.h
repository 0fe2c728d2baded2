/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shared by measuring (data thread) and judging (control thread). */
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
    float hum[MAINS], beside[MAINS]; /* mean power on the lines, and beside them */
    float step;                      /* smallest difference between neighbours, 0: all are equal */
    float same;                      /* share of samples equal to the one before */
    uint64_t fingerprint;            /* hash of the samples compared; 0: they cannot be compared */
    bool taken;                      /* no sample was missing */
    bool constant, zero, repeated, clipped;
};

/* A bit in `seen`, above the bits of the faults: the sensor was constant in a round in which no
 * sensor is judged. */
#define STILL (1u << SONAR_ELEMENT_FAULTS)

/* State of a sensor for one fault, or for its removal. */
struct standing {
    uint16_t bad, good; /* rounds in a row */
    bool set;
};

#define NO_SENSOR UINT32_MAX

/* Which thread may use the measures. */
enum { TURN_MEASURE = 0, TURN_JUDGE };

struct sonar_elements {
    sonar_elements_spec spec;
    const sonar_host *host;
    /* constants */
    size_t stretch;
    size_t first_octave, octaves; /* numbers of the transform's octaves; [0] is the highest */
    size_t band_first, band_end;  /* octaves that contain the band */
    size_t share;                 /* sensors measured in one window */
    size_t halvings, blocks;      /* the lines are measured in the transform's sums of 2^halvings
                                     samples; their number, 0: no hum detection */
    size_t harmonics;             /* harmonics below half the rate of these values */
    float *line;                  /* [LINES][cos, sin][blocks], windowed */
    size_t probed;                /* samples the probes look at */
    float *probe;                 /* [PROBES][cos, sin][probed], windowed */
    /* data thread */
    float *scratch; /* [worker][2][stretch] */
    size_t next;    /* sensor to be measured next */
    bool begun;
    uint64_t round_first;   /* sample with which the round began */
    const sonar_buffer *in; /* of the measure in progress */
    const float *missing;
    size_t end;
    _Atomic uint8_t *used; /* [sensor] not masked by hand: control writes, data reads */
    /* owned by the thread that has the turn */
    atomic_int turn;
    struct measure *measure; /* [sensor] */
    /* control thread */
    float *level, *residual, *sorted; /* [sensor] */
    struct standing *fault;           /* [sensor][SONAR_ELEMENT_FAULTS] */
    uint8_t *seen;                    /* [sensor] faults of this round, a bit each, and STILL */
    struct standing *out;             /* [sensor] */
    uint16_t *patience;               /* [sensor] rounds until it returns */
    uint8_t *mask;                    /* [sensor] */
    uint32_t *fed;                    /* [channel] the sensor it feeds, or NO_SENSOR */
    uint32_t *first; /* [firsts] hash table of the first sensor of each fingerprint */
    size_t firsts;   /* a power of two, twice the sensors or more */
    size_t judged, masked;
    struct standing quiet; /* state of "too little signal to judge sensors" */
};

static inline bool sonar_element_used(const struct sonar_elements *e, size_t sensor) {
    return atomic_load_explicit(&e->used[sensor], memory_order_relaxed);
}

#endif
