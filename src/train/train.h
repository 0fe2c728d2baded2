/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Trained choices: on which backend each stage of a configuration runs on this node, and in which
 * of the backend's ways.
 *
 *   measure    times every candidate as an engine that runs; choose decides from the times
 *   model      the built-in rule, for a node that was not trained
 *   table      the outcome as a YAML file, for one node and one configuration
 *   choices    what a pipeline starts with: the table if it fits, else the rule
 *
 * Control thread only.
 */
#ifndef SONAR_TRAIN_H
#define SONAR_TRAIN_H

#include <stdio.h>

#include "backend/open.h"
#include "engine/engine.h"

#define SONAR_TRAIN_SCHEMA "sonard-train/3"

enum {
    SONAR_TRAIN_CANDIDATES = 8, /* of one decision, at most */
    SONAR_TRAIN_DECISIONS = 16, /* of one table, at most */
    SONAR_TRAIN_ROUNDS = 101,   /* of one trial, at most */
    SONAR_TRAIN_NODE_FIELDS = 8,
    SONAR_TRAIN_TEXT = 192
};

/* ---- what is to be computed ------------------------------------------------------------------ */

/* What a node has to compute. All pointers are borrowed. */
typedef struct sonar_train_setup {
    const char *backend, *plugin_dir; /* as in sonar_backend_open */
    sonar_dtype sample_type;          /* of the ring */
    size_t sensors_used;
    const sonar_specs *specs;
    const sonar_params *params; /* needed for training only */
    const sonar_host *host;
    const sonar_rank_place
        *place; /* whose part of the array it is; NULL: one process has the whole array */
} sonar_train_setup;

/* The counts that times depend on; those of a disabled stage are 0. */
/* clang-format off */
#define SONAR_TRAIN_SHAPE(X) \
    X(sensors) X(sensors_used) X(channels) X(sample_bytes) X(length) X(hop) X(bins) X(directions) \
    X(ranges) X(lofar_bins) X(cbf_bins) X(cbf_length) X(cbf_hop) X(cbf_snapshots) X(mvdr_length) \
    X(mvdr_hop) X(mvdr_bins) X(mvdr_directions) X(mvdr_snapshots) X(mvdr_new) X(mvdr_sweeps) \
    X(mvdr_own_dft) X(workers)
/* clang-format on */

typedef struct sonar_train_shape {
#define SONAR_TRAIN_MEMBER(name) size_t name;
    SONAR_TRAIN_SHAPE(SONAR_TRAIN_MEMBER)
#undef SONAR_TRAIN_MEMBER
} sonar_train_shape;

sonar_train_shape sonar_train_shape_of(const sonar_train_setup *setup);
/* Number of stages of this shape: the MVDR is the last one and may be disabled. */
size_t sonar_train_stages(const sonar_train_shape *shape);

/* ---- choosing by trial ----------------------------------------------------------------------- */

typedef struct sonar_train_candidate {
    const char *name;
    /* Runs one repetition; all its work is done on return. An error means that the candidate is not
     * available. */
    sonar_code (*run)(void *arg, sonar_error *err);
    void *arg;
} sonar_train_candidate;

typedef struct sonar_train_clock {
    int64_t (*now_ns)(void *ctx); /* monotonic */
    void *ctx;
} sonar_train_clock;

typedef struct sonar_train_plan {
    size_t warm_up, rounds; /* untimed, timed (at most) */
    double tie_share;  /* of candidates within this share of the fastest, the first in the list is
                          chosen */
    int64_t budget_ns; /* no new round after this time; at least one round is timed */
} sonar_train_plan;

typedef struct sonar_train_timing {
    char name[32];
    bool available;
    size_t repetitions;          /* 0: an estimate */
    double median_s, spread_s;   /* spread: half the distance between the quartiles */
    char note[SONAR_TRAIN_TEXT]; /* why it is not available */
} sonar_train_timing;

typedef struct sonar_train_decision {
    char name[32]; /* letters, digits, '_' and '.' */
    size_t candidates, chosen;
    sonar_train_timing candidate[SONAR_TRAIN_CANDIDATES];
    char reason[SONAR_TRAIN_TEXT];
} sonar_train_decision;

/* A round runs every candidate once, so that drift (clock rates, other load) affects all equally.
 * SONAR_EUNAVAILABLE if no candidate can run; *decision then has the reason for each. */
sonar_code sonar_train_choose(const char *name, const sonar_train_candidate *candidates,
                              size_t count, const sonar_train_plan *plan,
                              const sonar_train_clock *clock, sonar_train_decision *decision,
                              sonar_error *err);
/* Sets `chosen` and `reason` from the candidates' times; SONAR_EUNAVAILABLE as above. */
sonar_code sonar_train_pick(sonar_train_decision *decision, double tie_share, sonar_error *err);

/* ---- placements ------------------------------------------------------------------------------ */

extern const char *const sonar_train_stage_names[SONAR_ENGINE_STAGES];

/* Which stages run on the device: bit s is stage s of sonar_engine_stage, 0 is all on the CPU. */
typedef unsigned sonar_placement;

/* Writes all placements that the setup allows with this backend to
 * placement[SONAR_TRAIN_CANDIDATES], those on one side first; returns their number. */
size_t sonar_placements(const sonar_train_setup *setup, const sonar_backend *opened,
                        sonar_placement *placement);
/* "cpu" or the device's name if all stages are on one side; else a name for each stage with dots
 * between, such as "cuda.cuda.cpu". */
void sonar_placement_name(sonar_placement placement, size_t stages, const char *device,
                          char name[32]);
/* False if no placement of this number of stages has that name. */
bool sonar_placement_find(const char *name, size_t stages, const char *device,
                          sonar_placement *placement);

/* ---- the built-in rule ----------------------------------------------------------------------- */

/* Estimated seconds of a stage for one window, including transfers: on the CPU with shape->workers
 * threads, or on a GPU. Accurate to about a factor of two. */
double sonar_train_stage_s(const sonar_train_shape *shape, sonar_engine_stage stage, bool gpu);
/* Of all stages, and of copies between the sides. */
double sonar_train_estimate(const sonar_train_shape *shape, sonar_placement placement);

/* ---- the table ------------------------------------------------------------------------------- */

/* What a table was made for: named texts about the node, and the shape. */
typedef struct sonar_train_fingerprint {
    char node[SONAR_TRAIN_NODE_FIELDS][SONAR_TRAIN_TEXT];
    sonar_train_shape shape;
} sonar_train_fingerprint;

extern const char *const sonar_train_node_names[SONAR_TRAIN_NODE_FIELDS];

/* The fingerprint of this node, with the backend that was opened for the setup. */
void sonar_train_fingerprint_make(const sonar_train_setup *setup,
                                  const sonar_backend_choice *opened,
                                  sonar_train_fingerprint *fingerprint);

typedef struct sonar_train_table {
    sonar_train_fingerprint fingerprint;
    char made[32]; /* UTC, ISO 8601 */
    size_t decisions;
    sonar_train_decision decision[SONAR_TRAIN_DECISIONS];
} sonar_train_table;

/* NULL: the table does not have this decision. */
const sonar_train_decision *sonar_train_find(const sonar_train_table *table, const char *name);
/* Name of the chosen candidate; NULL: the table does not have this decision. Valid as long as the
 * table. */
const char *sonar_train_chosen(const sonar_train_table *table, const char *decision);

/* Path of the table's file: <state_dir>/train.yaml, or train_rR.yaml for rank R of several. False
 * if state_dir is NULL or too long. */
bool sonar_train_path(const char *state_dir, const sonar_rank_place *place, char *path,
                      size_t size);
/* Replaces the file; a reader sees either the old or the new content. SONAR_ESYS, SONAR_ENOMEM. */
sonar_code sonar_train_save(const sonar_train_table *table, const char *path, sonar_error *err);
/* Reads exactly what save writes, and only if it was made for `expected`. Otherwise *err has one
 * sentence: SONAR_EUNAVAILABLE (no file), SONAR_EINVAL (not trusted, corrupt, or made for something
 * else, which it names), SONAR_ENOMEM. *table is undefined after an error. */
sonar_code sonar_train_load(const char *path, const sonar_train_fingerprint *expected,
                            sonar_train_table *table, sonar_error *err);
/* Prints every decision with its candidates' times. */
void sonar_train_print(const sonar_train_table *table, FILE *to);

/* ---- training -------------------------------------------------------------------------------- */

/* Times everything on this node, which takes seconds to minutes. SONAR_EUNAVAILABLE if no placement
 * can run. The caller frees the table with free(). */
sonar_code sonar_train_run(const sonar_train_setup *setup, const sonar_train_clock *clock,
                           sonar_train_table **table, sonar_error *err);

/* ---- choices --------------------------------------------------------------------------------- */

typedef struct sonar_choices {
    sonar_backend_choice backend; /* the opened backend; if stages are mixed, the device's */
    /* Where each stage runs: on backend.backend, or for some of the stages on the CPU. The MVDR's
     * own DFT is on the DFT's side. */
    const sonar_backend *place[SONAR_ENGINE_STAGES];
    bool trained;     /* the table was read; otherwise it contains the rule's estimates */
    char source[512]; /* one sentence: the origin of the choices, and the reason */
    sonar_train_table table;
} sonar_choices;

/* Opens backends and reads the table. Errors: a backend that is configured by name cannot be used;
 * no memory. The caller destroys the result. */
sonar_code sonar_choices_create(const sonar_train_setup *setup, sonar_choices **choices,
                                sonar_error *err);
void sonar_choices_destroy(sonar_choices *choices);
/* For sonar_host.choice. NULL unless trained; choices may be NULL. */
const char *sonar_choices_ask(const sonar_choices *choices, const char *decision);

#endif
