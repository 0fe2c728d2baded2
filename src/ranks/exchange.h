/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Exchange: what ranks that share an array send one another for a window and for an evaluation, and
 * how they add it. Each rank transforms its own sensors. Every rank computes its part of the
 * conventional beams, and the root adds the parts. The bins of the adaptive spectrum are divided
 * into shares: a rank solves its share, and the root gathers the solutions.
 *
 * It uses no stage and no backend; all memory is host memory. Sums over ranks are computed in the
 * order of ranks and in float64, so that results do not depend on timing. All functions except the
 * first group are collective: every rank calls the same ones in the same order, even a rank without
 * samples of the window. One thread at a time: the one that calls the cluster's functions. Only
 * create allocates. Errors are the cluster's; after an error the ranks have to end.
 */
#ifndef SONAR_RANKS_EXCHANGE_H
#define SONAR_RANKS_EXCHANGE_H

#include "ranks/cluster.h"
#include "sonar/stages.h"
#include "status/specs.h"

/* An array that is split over ranks. */
typedef struct sonar_split {
    const sonar_cluster *cluster;
    const sonar_specs *specs;         /* of the whole array */
    const sonar_params *params;       /* of the whole array, for the MVDR; those in use */
    const size_t *sensors, *channels; /* [rank] number of its sensors, and of its channels */
    const uint32_t *sensor; /* sensor numbers in the array: rank 0's sensors, then rank 1's, ... */
} sonar_split;

/* All borrowed until destroy. */
typedef struct sonar_exchange_spec {
    const sonar_split *ranks;
    const sonar_specs *part; /* of this rank's sensors */
    const sonar_host *host;
} sonar_exchange_spec;

typedef struct sonar_exchange sonar_exchange;

/* Directions off the grid per exchange, at most. */
enum { SONAR_EXCHANGE_POINTS = 64 };

/* A rank's share of the MVDR's bins, and the edge bins beside it. */
typedef struct sonar_share {
    size_t first, bins; /* relative to the array's MVDR; without edges */
    size_t below, above;
    size_t live_first, live_bins; /* those of its bins that are in the live band */
} sonar_share;

static inline size_t sonar_share_rows(sonar_share s) {
    return s.below + s.bins + s.above;
}

/* Doubles of one bin's sums in one direction off the grid. */
static inline size_t sonar_exchange_point_doubles(const sonar_mvdr_spec *mvdr) {
    return 1 + 2 * (size_t)sonar_mvdr_slots(mvdr);
}

/* SONAR_ENOMEM. destroy accepts NULL. */
sonar_code sonar_exchange_create(const sonar_exchange_spec *spec, sonar_exchange **exchange,
                                 sonar_error *err);
void sonar_exchange_destroy(sonar_exchange *exchange);
/* The MVDR of this rank's share, edges included; 0 bins: it solves nothing. Valid as long as the
 * exchange. */
const sonar_mvdr_spec *sonar_exchange_solves(const sonar_exchange *exchange);
/* True if the ranks' sums over sensors are added (sonar_mvdr_adds); otherwise they exchange
 * transforms. */
bool sonar_exchange_adds(const sonar_exchange *exchange);
/* This rank's share under the parameters in use. */
sonar_share sonar_exchange_own(const sonar_exchange *exchange);
/* Doubles of a bin's sums according to its plan [bin][SONAR_MVDR_PLAN]: of `taken` snapshots, or of
 * all. */
size_t sonar_exchange_doubles(const sonar_exchange *exchange, const double *plan, size_t bin,
                              size_t taken);

/* Clears entries of keep[snapshots] that are clear on any rank. */
sonar_code sonar_exchange_keep(sonar_exchange *exchange, size_t snapshots, uint8_t *keep,
                               sonar_error *err);
/* Makes the CBF's surfaces that work->outputs wants from the ranks' parts of the beams: c32
 * [snapshot][bin][direction] of all bins if cbf.lofar is wanted, else of the live band, and
 * [snapshot][bin of the live band][range, direction]. surface[SONAR_SURFACES]: the root's; NULL on
 * other ranks, here and below. */
sonar_code sonar_exchange_beams(sonar_exchange *exchange, const sonar_work *work,
                                const sonar_c32 *far, const sonar_c32 *near, sonar_buffer *surface,
                                sonar_error *err);
/* Exchanges transforms: from `taken` snapshots of this rank's sensors, c32 [snapshot][bin][sensor],
 * makes those of all sensors in the bins of this rank's share, [snapshot][bin][sensor]. */
sonar_code sonar_exchange_transforms(sonar_exchange *exchange, size_t taken,
                                     const sonar_buffer *own, sonar_c32 *input, sonar_error *err);
/* Adds up the ranks' products [row][bin][SONAR_MVDR_PRODUCTS], in place. */
sonar_code sonar_exchange_products(sonar_exchange *exchange, size_t rows, double *products,
                                   sonar_error *err);
/* Adds sums: from this rank's sums in all bins, [bin][sonar_mvdr_sums_most], makes the sums of all
 * ranks in the bins of this rank's share, in the same shape. `plan` as above, the same on all
 * ranks. */
sonar_code sonar_exchange_sums(sonar_exchange *exchange, size_t taken, const double *plan,
                               const double *of_bins, double *added, sonar_error *err);
/* What a rank has solved of its share, f32 [bin][...] with edges; the near field,
 * [range][direction], and MUSIC, [direction], are sums over its bins. Pointers to surfaces that are
 * not wanted may be NULL. */
typedef struct sonar_solved {
    const float *spectrum, *info, *eigenvalues, *nearfield, *music;
} sonar_solved;
/* Gathers the solutions in the root's surfaces, and in its info, f32 [bin][SONAR_MVDR_INFO_FIELDS]
 * of the live band, which belongs to the exchange. */
sonar_code sonar_exchange_solved(sonar_exchange *exchange, uint32_t outputs,
                                 const sonar_solved *mine, sonar_buffer *surface,
                                 sonar_buffer *info, sonar_error *err);
/* Gathers the ranks' f32 [channel][bin] in the root's surface. */
sonar_code sonar_exchange_psd(sonar_exchange *exchange, const sonar_buffer *mine,
                              sonar_buffer *surface, sonar_error *err);

/* The same at n <= SONAR_EXCHANGE_POINTS directions off the grid. beams: c32 [snapshot][bin][n] of
 * the live band, to the root's power[n] (NULL on other ranks). sums:
 * [bin][n][sonar_exchange_point_doubles]. powers: f32 [n] over each rank's share, to the root's
 * power[n]. */
sonar_code sonar_exchange_point_beams(sonar_exchange *exchange, const sonar_params *params,
                                      size_t n, const sonar_c32 *mine, float *power,
                                      sonar_error *err);
sonar_code sonar_exchange_point_sums(sonar_exchange *exchange, size_t n, const double *of_points,
                                     double *added, sonar_error *err);
sonar_code sonar_exchange_point_powers(sonar_exchange *exchange, size_t n, const float *mine,
                                       float *power, sonar_error *err);

#endif
