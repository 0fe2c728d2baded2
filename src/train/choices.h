/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Which backend runs each stage of a configuration on this node, in which of its ways and from
 * which host memory: from the table that `sonard --train` wrote if it fits, else from the built-in
 * rule. What counts is the decision "chain"; those of the single stages are what it is made of.
 */
#ifndef SONAR_CHOICES_H
#define SONAR_CHOICES_H

#include <stdio.h>

#include "backend/open.h"
#include "pipeline/specs.h"
#include "train/train.h"

typedef struct sonar_choices {
    sonar_backend_choice backend; /* the one to use; where stages are mixed, the device's */
    /* Where each stage runs, in the order of sonar_train_stage: backend.backend, or for some of
     * them the CPU (and not all: that is no mixture). The MVDR's own DFT goes with the DFT. */
    const sonar_backend *place[SONAR_TRAIN_STAGES];
    bool trained;     /* the table was read; else it holds the rule's estimates */
    char source[512]; /* one sentence: where the choices come from, and why */
    sonar_train_table table;
} sonar_choices;

/* Opens backends, reads the table. Only a backend that is asked for by name and cannot be used is
 * an error (and lack of memory). Control thread, at start; the result is the caller's. */
sonar_code sonar_choices_create(const sonar_config *config, const sonar_specs *specs,
                                const sonar_host *host, sonar_choices **choices, sonar_error *err);
void sonar_choices_destroy(sonar_choices *choices);
/* For sonar_host.choice: NULL unless trained; choices may be NULL. */
const char *sonar_choices_ask(const sonar_choices *choices, const char *decision);

/* Host memory for a buffer of the pipeline's: "samples" (the ring), "surfaces" (the results) or
 * "points" (those of the detections). SONAR_PINNED where nobody has measured, and where the CPU
 * does what the buffer is for; choices may be NULL. */
sonar_space sonar_choices_memory(const sonar_choices *choices, const char *buffer);

/* Kinds of host memory under trial, as a table calls them. */
enum { SONAR_CHOICES_MEMORIES = 3 };
typedef struct sonar_choices_memory_kind {
    const char *name;
    sonar_space space;
} sonar_choices_memory_kind;
extern const sonar_choices_memory_kind sonar_choices_memories[SONAR_CHOICES_MEMORIES];

/* The table's file: <state_dir>/train.yaml. False if there is no such directory. */
bool sonar_choices_path(const sonar_config *config, char *path, size_t size);
/* The opened backend as the fingerprint has it. */
const char *sonar_choices_gpu(const sonar_config *config, const sonar_backend_choice *opened);

/* The table in words: every decision with its candidates' times, and the memory model. */
void sonar_choices_print(const sonar_train_table *table, FILE *to);

/* Times everything on this node (seconds to minutes). SONAR_EUNAVAILABLE if not even one backend
 * can run the chain. The table is the caller's to free(). */
sonar_code sonar_training_run(const sonar_config *config, const sonar_specs *specs,
                              const sonar_host *host, const sonar_train_clock *clock,
                              sonar_train_table **table, sonar_error *err);

/* --train and --explain: with a pool and a log of their own; reports go to `to`. */
sonar_code sonar_pipeline_train(const sonar_config *config,
                                void (*log)(void *ctx, sonar_level level, const char *where,
                                            const char *text),
                                void *log_ctx, FILE *to, sonar_error *err);
sonar_code sonar_pipeline_explain(const sonar_config *config,
                                  void (*log)(void *ctx, sonar_level level, const char *where,
                                              const char *text),
                                  void *log_ctx, FILE *to, sonar_error *err);

#endif
