/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Exchange: what ranks that share an array tell one another of a window and of an evaluation, and
 * how it is added. Each rank transforms its own sensors. Of the conventional beams every rank has a
 * part, which the root adds to the others'. The bins of the adaptive spectrum are shared out: a
 * rank solves its share of them, and the root gathers what was solved.
 *
 * It knows no stage and no backend; all memory is the host's. Sums over ranks are taken in the
 * order of ranks and in float64, so that results do not depend on timing. All functions but the
 * first group are collective: every rank calls the same ones in the same order, also one that has
 * no samples of the window. One thread at a time, which is that of the cluster's functions; none
 * allocates but create. Errors are the cluster's, after which the ranks can only leave.
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
    const sonar_params *params;       /* of the whole array, for the MVDR; those at work */
    const size_t *sensors, *channels; /* [rank] how many it has */
    const uint32_t *sensor; /* numbers in the array of rank 0's sensors, then of rank 1's, ... */
} sonar_split;

/* All borrowed until destroy. */
typedef struct sonar_exchange_spec {
    const sonar_split *ranks;
    const sonar_specs *part; /* of this rank's sensors */
    const sonar_host *host;
} sonar_exchange_spec;

typedef struct sonar_exchange sonar_exchange;

/* Directions off the grid that one exchange takes at most. */
enum { SONAR_EXCHANGE_POINTS = 64 };

/* A rank's share of the MVDR's bins: its own ones, and the edges beside them. */
typedef struct sonar_share {
    size_t first, bins; /* in the array's MVDR; edges not counted */
    size_t below, above;
    size_t live_first, live_bins; /* of its own ones, those of the live band */
} sonar_share;

static inline size_t sonar_share_rows(sonar_share s) {
    return s.below + s.bins + s.above;
}

/* Doubles of a bin's sums at one direction off the grid. */
static inline size_t sonar_exchange_point_doubles(const sonar_mvdr_spec *mvdr) {
    return 1 + 2 * (size_t)sonar_mvdr_slots(mvdr);
}

/* SONAR_ENOMEM. destroy takes NULL. */
sonar_code sonar_exchange_create(const sonar_exchange_spec *spec, sonar_exchange **exchange,
                                 sonar_error *err);
void sonar_exchange_destroy(sonar_exchange *exchange);
/* The MVDR of this rank's share, edges included; no bins: it solves nothing. Lives as long as the
 * exchange. */
const sonar_mvdr_spec *sonar_exchange_solves(const sonar_exchange *exchange);
/* Are the ranks' sums over sensors added (sonar_mvdr_adds)? Else they exchange transforms. */
bool sonar_exchange_adds(const sonar_exchange *exchange);
/* Under the parameters at work. */
sonar_share sonar_exchange_own(const sonar_exchange *exchange);
/* Doubles of a bin's sums by its plan [bin][SONAR_MVDR_PLAN]: of `taken` snapshots, or of all. */
size_t sonar_exchange_doubles(const sonar_exchange *exchange, const double *plan, size_t bin,
                              size_t taken);

/* Leaves in keep[snapshots] those that all ranks keep. */
sonar_code sonar_exchange_keep(sonar_exchange *exchange, size_t snapshots, uint8_t *keep,
                               sonar_error *err);
/* The CBF's surfaces that work->outputs wants, from the ranks' parts of the beams: c32
 * [snapshot][bin][direction], all bins if cbf.lofar is wanted and else those of the live band, and
 * [snapshot][bin of the live band][range, direction]. surface[SONAR_SURFACES]: the root's or NULL,
 * here and below. */
sonar_code sonar_exchange_beams(sonar_exchange *exchange, const sonar_work *work,
                                const sonar_c32 *far, const sonar_c32 *near, sonar_buffer *surface,
                                sonar_error *err);
/* From `taken` snapshots of a rank's own transforms, c32 [snapshot][bin][sensor], to those of all
 * sensors in the bins of its share, [snapshot][bin][sensor]. */
sonar_code sonar_exchange_transforms(sonar_exchange *exchange, size_t taken,
                                     const sonar_buffer *own, sonar_c32 *input, sonar_error *err);
/* Adds up the ranks' products [taken][bin][SONAR_MVDR_PRODUCTS], in place. */
sonar_code sonar_exchange_products(sonar_exchange *exchange, size_t taken, double *products,
                                   sonar_error *err);
/* From a rank's sums in all bins, [bin][sonar_mvdr_sums_most], to those of all ranks in the bins of
 * its share, [bin][sonar_mvdr_sums_most]; plan as above, the same on all ranks. */
sonar_code sonar_exchange_sums(sonar_exchange *exchange, size_t taken, const double *plan,
                               const double *of_bins, double *added, sonar_error *err);
/* What a rank has solved of its share, f32 [bin][...] with edges; the near field and MUSIC are over
 * its bins: [range][direction], [direction]. What is not wanted may be NULL. */
typedef struct sonar_solved {
    const float *spectrum, *info, *eigenvalues, *nearfield, *music;
} sonar_solved;
/* To the root's surfaces, and its info f32 [bin][SONAR_MVDR_INFO_FIELDS] of the live band, which is
 * the exchange's. */
sonar_code sonar_exchange_solved(sonar_exchange *exchange, uint32_t outputs,
                                 const sonar_solved *mine, sonar_buffer *surface,
                                 sonar_buffer *info, sonar_error *err);
/* The ranks' f32 [channel][bin] to the root's surface. */
sonar_code sonar_exchange_psd(sonar_exchange *exchange, const sonar_buffer *mine,
                              sonar_buffer *surface, sonar_error *err);

/* The same at n <= SONAR_EXCHANGE_POINTS directions off the grid: c32 [snapshot][bin][n] of the
 * live band, to the root's power[n] (NULL on others); sums [bin][n][sonar_exchange_point_doubles];
 * power over a rank's share, f32 [n]. */
sonar_code sonar_exchange_point_beams(sonar_exchange *exchange, const sonar_params *params,
                                      size_t n, const sonar_c32 *mine, float *power,
                                      sonar_error *err);
sonar_code sonar_exchange_point_sums(sonar_exchange *exchange, size_t n, const double *of_points,
                                     double *added, sonar_error *err);
sonar_code sonar_exchange_point_powers(sonar_exchange *exchange, size_t n, const float *mine,
                                       float *power, sonar_error *err);

#endif
