/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The far field of a uniform line on the CPU, where the weights factorise. Sensor k = i + span c is
 * at place i of column c. Its weight is the product of the weight of its place, relative to the
 * column's middle, and the weight of the column. Weights of places are the same for all columns.
 * Places i and span - 1 - i have conjugate weights, and so have a look point and its mirror image.
 * So the sums C of (x_i + x_(span-1-i)) cos and S of (x_i - x_(span-1-i)) sin give both beams: C -
 * jS of the point and C + jS of its image. This takes 4 real multiply-adds for two sensors and two
 * points, where the general path needs 32.
 */
#ifndef SONAR_CBF_LINE_H
#define SONAR_CBF_LINE_H

#include "cbf/cbf.h"
#include "cbf/form.h"

typedef struct line line;

/* Makes the path for look points of up to `directions`, and as many threads as the host has. *made
 * is NULL if the path does not pay for this number of sensors. host->choice of "cbf.line" names one
 * of the kernels; "none" turns the path off. Without a choice the widest set that the processor
 * supports is used. SONAR_ENOMEM. */
sonar_code line_create(const sonar_cbf_spec *spec, const sonar_host *host, line **made,
                       sonar_error *err);
void line_destroy(line *l);
/* Bytes that it allocates with the kernel that is chosen here. */
double line_bytes(const sonar_cbf_spec *spec, size_t workers);

/* True if the table is that of a uniform line. Each content is examined only once. Never
 * allocates. */
bool line_takes(line *l, const sonar_params *params);

/* Prepares the worker's weights at a bin: exact ones, or by a rotation from the previous bin for a
 * few bins between exact ones. Any thread of the pool. */
void line_steer(const line *l, uint64_t bin, size_t worker);
void line_turn(const line *l, size_t worker);

/* sum g_k conj(a_k / a_0) X_k of one snapshot at the bin of line_steer, for the points of the last
 * table: y[point]. The result belongs to the worker and is valid until its next call. */
const sonar_c32 *line_beams(const line *l, const sonar_c32 *x, const float *g, size_t worker);

#endif
