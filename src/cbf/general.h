/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Sums over the sensors for any table of turns on the CPU; no weight is stored. Look points lie in
 * the lanes of vectors. Registers hold the sums of a few bins, and the steering vectors go on from
 * bin to bin by a rotation, w(b + 1) = w(b) r: from exact turns at a block's middle both ways, so
 * that they are never more than 64 steps from an exact phase. Sums of 64 sensors are made in
 * registers before they are added up, which keeps rounding small. A weight takes 4 operations and
 * its product with a sample 4. Snapshots of a group share weights.
 *
 * Where array and scan are mirror images of themselves (a line, in the far and in the near field),
 * sensor k has for a point the weight v that its opposite B-1-k has for the image, and that one w.
 * The beams' sum is made of (v + w)(x_k + x_(B-1-k)) and their difference of (v - w)(x_k -
 * x_(B-1-k)): 20 operations in place of 32 for two sensors and two points.
 */
#ifndef SONAR_CBF_GENERAL_H
#define SONAR_CBF_GENERAL_H

#include "cbf/cbf.h"
#include "cbf/form.h"

enum {
    GENERAL_BINS = 128,  /* of a block, at most */
    GENERAL_SLOTS = 256, /* of a task, at most; of pairs half as many */
    GENERAL_UNIT = 8     /* blocks of a multiple of it waste nothing */
};

typedef struct general general;

/* A block of bins of all sensors: sensors dense, the other strides in values. */
typedef struct general_input {
    const sonar_c32 *x;
    ptrdiff_t snapshot_stride, bin_stride;
    size_t snapshots;     /* 1 .. general_group */
    uint64_t first_bin;   /* absolute */
    size_t bins;          /* 1 .. GENERAL_BINS */
    const float *shading; /* [sensor] */
} general_input;

/* Slots of a task: look points, or points with their images. */
typedef struct general_slots {
    const uint64_t *turns;     /* [point][sensor] */
    size_t row;                /* turns from a point to the next */
    const struct mirror *pair; /* [slot] of the table; NULL: slot i is point i */
    size_t first, count;       /* 1 .. GENERAL_SLOTS */
} general_slots;

/* host->choice of "cbf.general" names the instruction set of the kernels; without a choice it is
 * that of sonar_isa_choose. SONAR_EINVAL if it does not run here, SONAR_ENOMEM. */
sonar_code general_create(const sonar_cbf_spec *spec, const sonar_host *host, general **made,
                          sonar_error *err);
void general_destroy(general *g);

/* Slots of one vector. */
size_t general_lanes(const general *g);
/* Snapshots of the next pass, at most the `left` that remain: one, or a group. */
size_t general_group(const general *g, bool folded, size_t left);

/* sum g_k conj(a_k) X_k of all sensors, kept by the worker until its next call. Any thread of the
 * pool. */
void general_sum(general *g, const general_input *in, const general_slots *slots, size_t worker);

/* |sum|^2 of the task's slots at one of its bins, of points [slot] and, folded, of images, whole
 * vectors. */
void general_powers(const general *g, const general_input *in, const general_slots *slots,
                    size_t bin, size_t snapshot, size_t worker, double *point, double *image);

/* The sums themselves of one of the task's slots: the point's and, folded, the image's. */
void general_beams(const general *g, const general_input *in, const general_slots *slots,
                   size_t slot, size_t bin, size_t snapshot, size_t worker, sonar_c32 y[2]);

#endif
