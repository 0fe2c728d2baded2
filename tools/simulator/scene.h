/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The content of a scene file (docs/simulator.md), checked and with defaults. Levels are dB re 1
 * uPa (mean square), angles array-frame azimuths in degrees, lengths in metres. */
#ifndef SIM_SCENE_H
#define SIM_SCENE_H

#include <stdio.h>

#include "ship.h"
#include "sonar/sonar.h"

enum { SIM_TONES_MOST = 32, SIM_POINTS_MOST = 64 };

typedef enum sim_shape { SIM_WHITE = 0, SIM_PINK, SIM_POINTS } sim_shape;

/* A band-limited Gaussian process. */
typedef struct sim_spectrum {
    bool present;
    int shape;               /* sim_shape */
    double low_hz, high_hz;  /* no power outside */
    double level_db, psd_db; /* one of them is given; level_db is computed from psd_db */
    size_t points;           /* SIM_POINTS: relative dB, straight lines over log frequency */
    double point_hz[SIM_POINTS_MOST], point_db[SIM_POINTS_MOST];
} sim_spectrum;

typedef struct sim_tone {
    double hz, level_db, phase_deg;
} sim_tone;

typedef struct sim_source {
    char name[64];
    bool far;
    double az_deg, depression_deg; /* at the scene's start; depression positive downwards */
    double rate_deg_s;             /* far: rate of change of the bearing */
    sim_ship ship;                 /* own ship; all 0: none */
    double range_m;                /* near: at the start */
    double course_deg, speed_mps;  /* near: straight level track */
    int at; /* 0: the levels are those at the origin at the start; 1: those at 1 m */
    sim_spectrum broadband;
    size_t tones;
    sim_tone tone[SIM_TONES_MOST];
} sim_source;

/* An element that differs from its description in the configuration. */
typedef struct sim_element {
    size_t sensor;
    double gain_db, phase_deg, delay_us;
    double noise_db; /* additional white noise, -HUGE_VAL none */
    bool dead;       /* all counts are zero */
} sim_element;

typedef enum sim_fault_kind {
    SIM_FAULT_NONE = 0,
    SIM_FAULT_DROP,        /* not sent; its sequence number is used */
    SIM_FAULT_REPEAT,      /* sent twice */
    SIM_FAULT_REORDER,     /* sent after the next frame that is not held back */
    SIM_FAULT_CORRUPT,     /* broken magic */
    SIM_FAULT_TRUNCATE,    /* payload one byte short */
    SIM_FAULT_OVERSIZE,    /* payload one byte long */
    SIM_FAULT_WRONG_EPOCH, /* this frame only */
    SIM_FAULT_WRONG_ARRAY,
    SIM_FAULT_WRONG_RATE,
    SIM_FAULT_NAN,     /* f32 only: the block's first value */
    SIM_FAULT_RESTART, /* from here on a new epoch, sequence and index from 0 */
    SIM_FAULT_KINDS
} sim_fault_kind;

/* "drop", "repeat", ... as in the scene file; "none" for 0. */
const char *sim_fault_name(sim_fault_kind kind);

typedef struct sim_fault {
    int kind;
    size_t digitiser; /* SIZE_MAX: all */
    size_t frame, count;
} sim_fault;

typedef struct sim_scene {
    size_t seed;
    double duration_s;     /* 0: without end */
    double sensitivity_db; /* dB re 1 count/uPa; NAN: from the configuration */
    double noise_db;       /* white per element over 0 .. fs/2; -HUGE_VAL none */
    sim_spectrum isotropic;
    size_t isotropic_waves;
    bool own_ship; /* azimuths of sources are true bearings */
    sim_ship ship;
    double gain_error_db, phase_error_deg; /* standard deviations over the elements */
    double clock_offset_ms;                /* of the UTC in the frames */
    size_t frame_samples, digitisers;
    int format, layout; /* sonar_dtype, SONAR_FRAME_* */
    size_t sources, elements, faults;
    sim_source *source;
    sim_element *element;
    sim_fault *fault;
    double fault_rate[SIM_FAULT_KINDS]; /* probability per frame and digitiser */
} sim_scene;

/* Limits that a scene is checked against. */
typedef struct sim_limits {
    double fs_hz, sound_speed_mps;
    size_t sensors, channels;
} sim_limits;

/* Loads a scene. Every mistake is written to `report` as file:line:column with what would be
 * accepted; then SONAR_EINVAL. On SONAR_OK the caller destroys the scene. */
sonar_code sim_scene_load(const char *path, const sim_limits *limits, sim_scene **scene,
                          FILE *report);
void sim_scene_destroy(sim_scene *scene);

#endif
