/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Compares what the daemon detects with what the simulator says is there. Whatever a peer sends,
 * taking it is safe: what is missing or of the wrong kind is not judged. */
#ifndef CHECKER_H
#define CHECKER_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "config/config.h"

enum { EXIT_WITHIN = 0, EXIT_BEYOND = 1, EXIT_USAGE = 2, EXIT_NOTHING = 3 };

typedef struct checker checker;

/* config is borrowed until destroy; the first settle_s of samples are not judged. NULL: no memory.
 */
checker *checker_create(const sonar_config *config, double settle_s);
void checker_destroy(checker *check);
/* Headers of messages, the simulator's (truth) and the daemon's (detections). */
void checker_take_truth(checker *check, const cJSON *header);
void checker_take_detections(checker *check, const cJSON *header);
/* Have fewer windows than that been judged, although headers of both kinds have come? */
bool checker_wants(const checker *check, size_t windows);
/* The table; the exit code that tells its outcome. */
int checker_print(const checker *check, FILE *to);

#endif
