/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Compares the daemon's detections with the simulator's truth. Any input from a peer is safe:
 * missing or wrong values are not judged. */
#ifndef CHECKER_H
#define CHECKER_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "config/config.h"

enum { EXIT_WITHIN = 0, EXIT_BEYOND = 1, EXIT_USAGE = 2, EXIT_NOTHING = 3 };

typedef struct checker checker;

/* config is borrowed until destroy; the first settle_s seconds of samples are not judged. NULL: no
 * memory. */
checker *checker_create(const sonar_config *config, double settle_s);
void checker_destroy(checker *check);
/* Headers of messages, the simulator's (truth) and the daemon's (detections). */
void checker_take_truth(checker *check, const cJSON *header);
void checker_take_detections(checker *check, const cJSON *header);
/* True if fewer windows have been judged, although headers of both kinds were received. */
bool checker_wants(const checker *check, size_t windows);
/* Prints the table; returns the exit code. */
int checker_print(const checker *check, FILE *to);

#endif
