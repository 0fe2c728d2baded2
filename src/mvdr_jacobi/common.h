/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Host code that the MVDR of every backend shares: checks, shapes and the choice of rows. */
#ifndef SONAR_MVDR_JACOBI_COMMON_H
#define SONAR_MVDR_JACOBI_COMMON_H

#include <math.h>

#include "mvdr_jacobi/rules/level.h"
#include "mvdr_jacobi/mvdr_jacobi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Up to this many new snapshots, a GPU makes their sums eight at a time; with more it makes
 * tiles. */
#define MVDR_MOST_SEVERAL 16

/* Rows and columns of a tile of sums on a GPU. */
#define MVDR_TILE 64

static inline size_t mvdr_pad(size_t count, size_t multiple) {
    return (count + multiple - 1) / multiple * multiple;
}

/* The matrix that is solved: the Gram matrix of the snapshots if there are at most half as many as
 * sensors, else the covariance of the sensors. Fixed when the stage is created; masks do not change
 * it. */
typedef struct mvdr_shape {
    bool by_snapshots;
    size_t each;  /* columns of a snapshot: 2 with forward-backward averaging */
    size_t slots; /* snapshots kept: L, or with forgetting those with weights above 1e-14; 0: none
                     are kept, forgetting is applied to the covariance of all sensors */
    size_t order; /* rows of the largest matrix to be solved: each * slots, or the sensors */
} mvdr_shape;

mvdr_shape mvdr_shape_of(const sonar_mvdr_spec *spec);

/* The sensors in parts. A GPU makes the sums of all parts in parallel and adds them in the order of
 * the parts. */
typedef struct mvdr_parts {
    size_t count, size;
} mvdr_parts;

mvdr_parts
mvdr_parts_of_few(const sonar_mvdr_spec *spec); /* for up to MVDR_MOST_SEVERAL snapshots */
mvdr_parts mvdr_parts_of_many(const sonar_mvdr_spec *spec);   /* for sums in tiles */
mvdr_parts mvdr_parts_of_points(const sonar_mvdr_spec *spec); /* for a few points off the grid */

/* Columns of a slot. In sensor space a mirror image has no column, since its part of the covariance
 * follows from the sums. */
static inline size_t mvdr_slot_columns(const mvdr_shape *shape) {
    return shape->by_snapshots ? shape->each : 1;
}

/* Whether the spectrum is computed from eigenvectors; otherwise from a triangular factor. */
static inline bool mvdr_has_vectors(const sonar_mvdr_spec *spec) {
    return spec->solver == SONAR_MVDR_JACOBI || spec->dmr || spec->white_noise_gain_db < 0;
}

/* Whether a window may update the inverse of the window before: in sensor space, with a block,
 * without eigenvectors. With forgetting the loading in the inverse would fade with the
 * snapshots. */
bool mvdr_can_follow(const sonar_mvdr_spec *spec);

/* Whether MUSIC computes its own eigenvectors, in windows that want MUSIC. The spectrum is then the
 * same with and without MUSIC. */
static inline bool mvdr_music_decomposes(const sonar_mvdr_spec *spec) {
    return spec->music && !mvdr_has_vectors(spec);
}

/* The least white noise gain as a share of |a|^2; 0: no limit. */
static inline double mvdr_least_gain(const sonar_mvdr_spec *spec) {
    return spec->white_noise_gain_db < 0 ? pow(10, spec->white_noise_gain_db / 10) : 0;
}

sonar_code mvdr_check_spec(const sonar_mvdr_spec *spec, sonar_error *err);
sonar_code mvdr_check_params(const sonar_mvdr_spec *spec, const sonar_params *params,
                             sonar_error *err);
/* Copies the checked parameters into the live members of the specification, except the band, which
 * mvdr_band_of gives. If the stage has memory for the gain limit and the parameters switch it off,
 * the limit becomes -inf dB, which limits nothing. If it has memory for MUSIC and they switch it
 * off, MUSIC gets one source; its output is not read. */
void mvdr_renew_spec(sonar_mvdr_spec *spec, const sonar_params *params);

/* Bins in use, counted from the input's first bin: [begin, end). The bins of the sums over the
 * band, which exclude the edges: [sum_begin, sum_end). Both can be empty in a stage of one of
 * several ranks. */
typedef struct mvdr_band {
    size_t begin, end, sum_begin, sum_end;
} mvdr_band;
mvdr_band mvdr_band_of(const sonar_mvdr_spec *spec, const sonar_params *params);
/* Checks the input and the SONAR_MVDR_OUTPUTS outputs of an execute. Outputs may have no data. */
sonar_code mvdr_check_shapes(const sonar_mvdr_spec *spec, const sonar_buffer *in,
                             const sonar_buffer *out, sonar_error *err);
/* The same checks for parts of an array: a part's execute, a part's join after `arrived` new
 * snapshots, a joined stage's execute, and the sums of an evaluation's points. */
sonar_code mvdr_check_part(const sonar_mvdr_spec *spec, const sonar_buffer *in,
                           const sonar_buffer *products, sonar_error *err);
sonar_code mvdr_check_join(const sonar_mvdr_spec *spec, const sonar_buffer *products,
                           size_t arrived, const sonar_buffer out[2], sonar_error *err);
sonar_code mvdr_check_joined(const sonar_mvdr_spec *spec, const sonar_buffer in[2],
                             const sonar_buffer *out, sonar_error *err);
sonar_code mvdr_check_point_sums(const sonar_mvdr_spec *spec, const sonar_buffer *sums,
                                 size_t points, sonar_error *err);
/* Which surfaces a window wants. `far`: the azimuth and the spectrum. `any`: the bins have to be
 * solved. */
typedef struct mvdr_wants {
    bool far, near, music, eigenvalues, any;
} mvdr_wants;
mvdr_wants mvdr_wants_of(const sonar_work *work, const sonar_buffer *out);
sonar_code mvdr_check_points(const sonar_mvdr_spec *spec, const sonar_buffer *turns,
                             const sonar_buffer *power, sonar_error *err);
/* Lists the sensors in use, in order. With forward-backward averaging it lists those whose mirror
 * at the origin is in use, too, and partner[row] gets the mirror's row. row_of[sensor] is scratch.
 * Returns the number of rows. */
size_t mvdr_list_rows(const sonar_params *params, bool forward_backward, size_t *sensor,
                      size_t *partner, size_t *row_of);

/* The row nearest to the middle of the rows' positions, from which whole turns are counted. */
size_t mvdr_middle_row(const sonar_params *params, const size_t *sensor, size_t rows);

#ifdef __cplusplus
}
#endif
#endif
