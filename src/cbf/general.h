/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Sums over the sensors for any table of turns on the CPU; no weight is stored. Look points lie in
 * the lanes of vectors. Registers hold the sums of a few bins, and the steering vectors are rotated
 * from bin to bin, w(b + 1) = w(b) r, from exact turns in the middle of a block in both directions,
 * so that no weight is more than 64 steps from an exact phase. Groups of 64 sensors are summed in
 * registers and the groups then added, which keeps rounding small. A weight takes 4 operations and
 * its product with a sample 4. Snapshots of a group share weights.
 *
 * If array and scan are mirror images of themselves (a line, in the far and in the near field), two
 * weights serve two sensors and two points: sensor k has weight v for a point and w for its image,
 * and the opposite sensor B-1-k has w for the point and v for the image. The sum of the two beams
 * consists of (v + w)(x_k + x_(B-1-k)), their difference of (v - w)(x_k - x_(B-1-k)). This takes 20
 * operations instead of 32.
 */
#ifndef SONAR_CBF_GENERAL_H
#define SONAR_CBF_GENERAL_H

#include "cbf/cbf.h"
#include "cbf/form.h"

enum {
    GENERAL_BINS = 128,  /* bins of a block, at most */
    GENERAL_SLOTS = 256, /* slots of a task, at most; half as many if they are pairs */
    GENERAL_UNIT = 8     /* blocks that are multiples of it waste no lanes */
};

typedef struct general general;

/* A block of bins of all sensors: sensors dense, the other strides in values. */
typedef struct general_input {
    const sonar_c32 *x;
    ptrdiff_t snapshot_stride, bin_stride;
    size_t snapshots;     /* 1 .. general_group */
    uint64_t first_bin;   /* absolute number of the first bin */
    size_t bins;          /* 1 .. GENERAL_BINS */
    const float *shading; /* [sensor] */
} general_input;

/* Slots of a task: look points, or points with their images. */
typedef struct general_slots {
    const uint64_t *turns;     /* [point][sensor] */
    size_t row;                /* distance between the turns of two points */
    const struct mirror *pair; /* [slot] of the table; NULL: slot i is point i */
    size_t first, count;       /* 1 .. GENERAL_SLOTS */
} general_slots;

/* host->choice of "cbf.general" names the kernels' instruction set; without a choice
 * sonar_isa_choose selects it. SONAR_EINVAL if the processor does not support it; SONAR_ENOMEM. */
sonar_code general_create(const sonar_cbf_spec *spec, const sonar_host *host, general **made,
                          sonar_error *err);
void general_destroy(general *g);
/* Bytes that it allocates. */
double general_bytes(size_t workers);

/* Slots of one vector. */
size_t general_lanes(const general *g);
/* Number of snapshots in the next pass: one, or a group, and at most the `left` that remain. */
size_t general_group(const general *g, bool folded, size_t left);

/* Computes sum g_k conj(a_k) X_k over all sensors. The worker keeps the sums until its next call.
 * Any thread of the pool. */
void general_sum(general *g, const general_input *in, const general_slots *slots, size_t worker);

/* |sum|^2 of the task's slots at one of its bins, for points [slot] and, if folded, images. Writes
 * whole vectors. */
void general_powers(const general *g, const general_input *in, const general_slots *slots,
                    size_t bin, size_t snapshot, size_t worker, double *point, double *image);

/* The sums themselves of one of the task's slots: of the point and, if folded, of the image. */
void general_beams(const general *g, const general_input *in, const general_slots *slots,
                   size_t slot, size_t bin, size_t snapshot, size_t worker, sonar_c32 y[2]);

#endif
