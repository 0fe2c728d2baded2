/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Trained choices: which of several ways to do the same is the fastest on this node for this
 * configuration. Knows no stage and no backend: candidates are functions, the clock is a function.
 *
 *   choose   times candidates side by side and takes the fastest
 *   fit      what a kind of host memory costs: a straight line through measured times
 *   place    which stage runs where, what crosses between them included
 *   model    what is assumed where nothing was measured
 *   table    the outcome as a YAML file that holds for one node and one configuration
 *
 * Control thread only.
 */
#ifndef SONAR_TRAIN_H
#define SONAR_TRAIN_H

#include "sonar/sonar.h"

#define SONAR_TRAIN_SCHEMA "sonard-train/2"

enum {
    SONAR_TRAIN_CANDIDATES = 8, /* of one decision, at most */
    SONAR_TRAIN_DECISIONS = 24, /* of one table, at most */
    SONAR_TRAIN_REPETITIONS = 101,
    SONAR_TRAIN_BUFFERS = 8
};

/* ---- choosing by trial ----------------------------------------------------------------------- */

typedef struct sonar_train_candidate {
    const char *name;
    /* One repetition, all its work done on return. An error means: not available. */
    sonar_code (*run)(void *arg, sonar_error *err);
    void *arg;
} sonar_train_candidate;

typedef struct sonar_train_clock {
    int64_t (*now_ns)(void *ctx); /* never goes back */
    void *ctx;
} sonar_train_clock;

typedef struct sonar_train_plan {
    size_t warm_up;      /* untimed rounds */
    size_t least, most;  /* timed rounds; most <= SONAR_TRAIN_REPETITIONS */
    double stable_share; /* stop when every median is known to within this share, 95 % sure */
    double tie_share;    /* within this share of the fastest, the first in the list wins */
    int64_t budget_ns;   /* no new round after this time; one timed round there always is */
} sonar_train_plan;

typedef struct sonar_train_timing {
    char name[32];
    bool available;
    size_t repetitions;        /* 0: an estimate */
    double median_s, spread_s; /* spread: half the distance between the quartiles */
    char note[192];            /* why it is not available */
} sonar_train_timing;

typedef struct sonar_train_decision {
    char name[32]; /* letters, digits, '_' and '.' */
    size_t candidates, chosen;
    sonar_train_timing candidate[SONAR_TRAIN_CANDIDATES];
    char reason[192];
} sonar_train_decision;

/* A round runs every candidate once, so that drift (clock rates, other load) hits all alike.
 * SONAR_EUNAVAILABLE if none can run; *decision then says why of each. */
sonar_code sonar_train_choose(const char *name, const sonar_train_candidate *candidates,
                              size_t count, const sonar_train_plan *plan,
                              const sonar_train_clock *clock, sonar_train_decision *decision,
                              sonar_error *err);
/* Sets `chosen` and `reason` from the candidates' times; SONAR_EUNAVAILABLE as above. */
sonar_code sonar_train_pick(sonar_train_decision *decision, double tie_share, sonar_error *err);

/* ---- host memory ----------------------------------------------------------------------------- */

/* seconds(bytes) = offset_s + bytes * s_per_byte */
typedef struct sonar_train_line {
    double offset_s, s_per_byte;
} sonar_train_line;

/* The line with the least sum of squared relative errors, so that short times count as much as
 * long ones; neither coefficient is negative. Times must be above zero. SONAR_EINVAL for fewer than
 * two different sizes. */
sonar_code sonar_train_fit(size_t count, const double *bytes, const double *seconds,
                           sonar_train_line *line, sonar_error *err);

/* Seconds for so many bytes. */
double sonar_train_line_s(const sonar_train_line *line, double bytes);

/* One kind of host memory (thesis, 4.5): what it costs to get and give back, and each transfer. */
typedef struct sonar_train_memory {
    char kind[16]; /* "pageable", "pinned", "mapped" */
    sonar_train_line make, to_device, from_device;
} sonar_train_memory;

/* A host buffer and how it is used over the time that is planned for. */
typedef struct sonar_train_buffer {
    char name[32];
    double bytes, to_device, from_device; /* transfers of the whole buffer */
    char chosen[16];
} sonar_train_buffer;

/* make + transfers, in seconds (thesis, equations 4.9 and 4.10). */
double sonar_train_memory_s(const sonar_train_memory *kind, const sonar_train_buffer *buffer);
/* Sets buffer->chosen to the cheapest of the kinds, the first of equals. count >= 1. */
void sonar_train_choose_memory(const sonar_train_memory *kinds, size_t count,
                               sonar_train_buffer *buffer);

/* ---- what is to be computed ------------------------------------------------------------------ */

/* All that the times depend on, of one configuration. Zeros where a stage is switched off. */
typedef struct sonar_train_shape {
    size_t sensors, sensors_used, channels, length, hop, bins, directions, ranges, lofar_bins,
        cbf_bins;
    size_t mvdr_length, mvdr_hop, mvdr_bins, mvdr_directions, mvdr_snapshots, mvdr_new, mvdr_sweeps;
    size_t mvdr_own_dft, mvdr_two_sided, workers, sample_bytes;
    size_t cbf_length, cbf_hop, cbf_snapshots; /* of the main DFT, so many a window */
} sonar_train_shape;

/* ---- placement ------------------------------------------------------------------------------- */

typedef enum sonar_train_stage {
    SONAR_TRAIN_DFT = 0,
    SONAR_TRAIN_CBF,
    SONAR_TRAIN_MVDR,
    SONAR_TRAIN_STAGES
} sonar_train_stage;

enum { SONAR_TRAIN_SIDES = 2 };

extern const char *const sonar_train_stage_names[SONAR_TRAIN_STAGES];

/* Stages that this shape has: the MVDR comes last and may be switched off. */
size_t sonar_train_stages(const sonar_train_shape *shape);

/* What can run stages, and how fast. Of two, side 0 is the host and side 1 the device. */
typedef struct sonar_train_side {
    const char *name;
    sonar_train_timing stage[SONAR_TRAIN_STAGES];
} sonar_train_side;

/* Copies between the sides, waiting for them included. Not known: then nothing may be mixed. */
typedef struct sonar_train_crossing {
    bool known;
    sonar_train_line to_device, from_device;
} sonar_train_crossing;

/* The side of each stage. */
typedef struct sonar_train_assignment {
    size_t side[SONAR_TRAIN_STAGES];
} sonar_train_assignment;

/* Number of assignments, and number `index` of those to two sides: first the uniform ones, each
 * side alone. */
size_t sonar_train_assignments(size_t sides, size_t stages);
sonar_train_assignment sonar_train_assignment_at(size_t stages, size_t index);
/* The side's name where there is one, else each stage's with dots between: "cuda.cuda.cpu". */
void sonar_train_assignment_name(const char *const *sides, size_t stages, size_t index,
                                 char name[32]);
/* False if no assignment has that name. */
bool sonar_train_assignment_find(const char *const *sides, size_t count, size_t stages,
                                 const char *name, sonar_train_assignment *assignment);

/* The decision "chain": each assignment takes the sum of its stages' times and of the copies of
 * bins that a DFT leaves on the side where they are not wanted. A stage's time has its own samples'
 * and surfaces' transfers in it already (the samples' those of the DFT alone), each with a wait of
 * its own, so that a sum is what a window takes from its last sample on if nothing overlaps: the
 * samples that a running chain sends ahead count as well. A uniform assignment wins ties, as work
 * on one side can be recorded and run as a whole; without one in reach the fastest does. */
sonar_code sonar_train_assign(const sonar_train_shape *shape, const sonar_train_side *sides,
                              size_t count, const sonar_train_crossing *crossing, double tie_share,
                              sonar_train_decision *decision, sonar_error *err);

/* ---- the built-in rule ----------------------------------------------------------------------- */

/* What a backend is taken to sustain. */
typedef struct sonar_train_rates {
    double fft_flops, beam_flops, eigen_flops; /* a second */
    double bytes_per_s;                        /* between host and device; 0: no transfer */
    double start_s;                            /* to start a stage and wait for it */
    double copy_s;                             /* to start a copy and wait for it */
    size_t bins_at_once;                       /* the MVDR's, for all of eigen_flops; 0: 1 */
    bool one_sided_only;                       /* has no two-sided MVDR */
} sonar_train_rates;

/* Rates of the CPU with so many workers, and of a GPU; good to about a factor of two. */
sonar_train_rates sonar_train_cpu_rates(size_t workers);
sonar_train_rates sonar_train_gpu_rates(void);
/* Estimated seconds of each stage for one window, transfers included. */
void sonar_train_estimate(const sonar_train_shape *shape, const sonar_train_rates *rates,
                          double seconds[SONAR_TRAIN_STAGES]);
/* The same in place of measured times; `name` is borrowed. */
sonar_train_side sonar_train_guess(const sonar_train_shape *shape, const sonar_train_rates *rates,
                                   const char *name);
sonar_train_crossing sonar_train_guess_crossing(const sonar_train_rates *device);

/* ---- the table ------------------------------------------------------------------------------- */

enum { SONAR_TRAIN_NODE_FIELDS = 8, SONAR_TRAIN_SHAPE_FIELDS = 24 };

/* What a table holds for: the node's texts, by name, and the shape. */
typedef struct sonar_train_fingerprint {
    char node[SONAR_TRAIN_NODE_FIELDS][192];
    sonar_train_shape shape;
} sonar_train_fingerprint;

extern const char *const sonar_train_node_names[SONAR_TRAIN_NODE_FIELDS];

/* This node's; `gpu` describes the plugin's hardware ("none" without). */
void sonar_train_fingerprint_make(const sonar_train_shape *shape, const char *gpu,
                                  sonar_train_fingerprint *fingerprint);

typedef struct sonar_train_table {
    sonar_train_fingerprint fingerprint;
    char made[32]; /* UTC, ISO 8601 */
    size_t decisions;
    sonar_train_decision decision[SONAR_TRAIN_DECISIONS];
    size_t kinds;
    sonar_train_memory kind[3];
    size_t buffers;
    sonar_train_buffer buffer[SONAR_TRAIN_BUFFERS];
} sonar_train_table;

/* NULL: the table has no such decision. */
const sonar_train_decision *sonar_train_find(const sonar_train_table *table, const char *name);
/* Name of the chosen candidate, or NULL. Valid as long as the table. */
const char *sonar_train_chosen(const sonar_train_table *table, const char *decision);

/* Writes the file anew; a reader sees the old one or the new one. SONAR_ESYS, SONAR_ENOMEM. */
sonar_code sonar_train_save(const sonar_train_table *table, const char *path, sonar_error *err);
/* Reads what save writes and nothing else, and only if it was made for `expected`. One sentence in
 * *err otherwise: SONAR_EUNAVAILABLE (no file), SONAR_EINVAL (corrupt, or made for something
 * else: names the field), SONAR_ENOMEM. *table is undefined after an error. */
sonar_code sonar_train_load(const char *path, const sonar_train_fingerprint *expected,
                            sonar_train_table *table, sonar_error *err);

#endif
