/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The route of a bin from its snapshots to its spectrum: one table for the CPU and for GPUs.
 * docs/mvdr-inside.md says what each route computes, in what memory and at what cost.
 *
 * A route is chosen for each window: the first row that the stage was made for, whose least size
 * the matrix reaches, and that gives all that the window wants. If the route turns out to be
 * inaccurate for a bin, the bin takes the last row, which is always possible. A bin whose updated
 * inverse cannot be used takes the route of a window without one. SONAR_MVDR_ROUTE in the bin's
 * info is the route that the bin took.
 */
#ifndef SONAR_MVDR_JACOBI_ROUTE_H
#define SONAR_MVDR_JACOBI_ROUTE_H

#include "mvdr_jacobi/common.h"
#include "mvdr_jacobi/rules/loading.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of the table, from 1: the values of SONAR_MVDR_ROUTE. */
typedef enum mvdr_route_id {
    MVDR_ROUTE_NONE = 0, /* no data: nothing was solved */
    MVDR_ROUTE_UPDATE,
    MVDR_ROUTE_JACOBI,
    MVDR_ROUTE_FACTOR_GRID,
    MVDR_ROUTE_FACTOR,
    MVDR_ROUTE_MEDIAN_GRID,
    MVDR_ROUTE_MEDIAN,
    MVDR_ROUTE_EIGENVALUES,
    MVDR_ROUTES
} mvdr_route_id;

typedef enum mvdr_place { MVDR_ON_CPU = 0, MVDR_ON_GPU, MVDR_PLACES } mvdr_place;

/* What the choice of a route depends on, for a window of a stage or for one of its bins. */
typedef struct mvdr_problem {
    const sonar_mvdr_spec *spec; /* with the live values */
    mvdr_wants wants;
    bool all_eigenvalues; /* something other than the loading needs all eigenvalues */
    bool from_scratch;    /* the inverse cannot be updated */
    bool fallback; /* the trace replaces the noise rule: too few snapshots. Not set on a GPU, where
                      each bin finds this out by itself */
} mvdr_problem;

enum { MVDR_NEVER = 0x7fffffff };

typedef struct mvdr_route {
    const char *name;
    bool (*possible)(const sonar_mvdr_spec *spec); /* fixed when the stage is made */
    bool (*applies)(const mvdr_problem *problem);  /* can change from window to window */
    size_t least[MVDR_PLACES]; /* least rows of the matrix; MVDR_NEVER: the place does not have this
                                  route */
} mvdr_route;

/* [MVDR_ROUTES]; the first has no name. */
extern const mvdr_route mvdr_routes[];

/* Names of rows, for tests: a row with a least size exists only if it is named, and then for
 * matrices of any size. NULL: the size decides. Valid as long as the host, which may be NULL. */
const char *mvdr_routes_named(const sonar_host *host);

/* Whether a stage with this specification may take a route in some window. */
bool mvdr_route_exists(const sonar_mvdr_spec *spec, mvdr_place place, const char *named,
                       mvdr_route_id id);

/* The problem of a window with these wants, before anything is known about its bins. */
mvdr_problem mvdr_problem_of(const sonar_mvdr_spec *spec, const mvdr_wants *wants,
                             mvdr_place place);

mvdr_route_id mvdr_route_of(const mvdr_problem *problem, mvdr_place place, const char *named);

#ifdef __cplusplus
}
#endif
#endif
