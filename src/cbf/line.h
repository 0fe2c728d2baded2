/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The far field of a uniform line on the CPU, which splits exactly. Sensor k = i + span c is at
 * place i of column c, and its weight is the product of that of its place, counted from the
 * column's middle, and that of the column. Weights of places are the same for all columns. Those of
 * i and span - 1 - i are conjugates, and so are those of a look point and of its mirror image, so
 * that the sums C of (x_i + x_(span-1-i)) cos and S of (x_i - x_(span-1-i)) sin give the beams C -
 * jS of the point and C + jS of its image: 4 real multiply-adds for two sensors and two points,
 * where the general path needs 32.
 */
#ifndef SONAR_CBF_LINE_H
#define SONAR_CBF_LINE_H

#include "cbf/cbf.h"
#include "cbf/form.h"

typedef struct line line;

/* For look points of up to `directions`, and as many threads as the host has. *made is NULL where
 * no array of these sensors pays. host->choice of "cbf.line" names one of the kernels, "none" turns
 * the path off; without a choice it is the widest that the processor has. SONAR_ENOMEM. */
sonar_code line_create(const sonar_cbf_spec *spec, const sonar_host *host, line **made,
                       sonar_error *err);
void line_destroy(line *l);

/* Whether the table is a uniform line's; it is looked at once for each content. Never allocates. */
bool line_takes(line *l, const sonar_params *params);

/* The worker's weights: exact ones at a bin, and from there to the next bin by a rotation, a few
 * times between exact ones. Any thread of the pool. */
void line_steer(const line *l, uint64_t bin, size_t worker);
void line_turn(const line *l, size_t worker);

/* sum g_k conj(a_k / a_0) X_k of one snapshot at the weights' bin for the points of the last table:
 * y[point]. The result is the worker's, until its next call. */
const sonar_c32 *line_beams(const line *l, const sonar_c32 *x, const float *g, size_t worker);

#endif
