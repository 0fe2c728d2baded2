/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Which way a bin goes from its snapshots to its spectrum: one table for the CPU and for GPUs.
 * docs/mvdr-inside.md says what each route computes, in what memory and at what cost.
 *
 * A route is chosen for each window. The first row wins that the stage was made for, that the
 * matrix is large enough for, and that gives all that the window wants. A bin of which that route
 * turns out to be inaccurate takes the last row, which is always possible; a bin whose updated
 * inverse cannot be used takes the route of a window without one. SONAR_MVDR_ROUTE of the bin's
 * info has the route that the bin took.
 */
#ifndef SONAR_MVDR_JACOBI_ROUTE_H
#define SONAR_MVDR_JACOBI_ROUTE_H

#include "mvdr_jacobi/common.h"
#include "mvdr_jacobi/loading.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of the table, from 1: the values of SONAR_MVDR_ROUTE. */
typedef enum mvdr_route_id {
    MVDR_ROUTE_NONE = 0, /* no data: nothing was solved */
    MVDR_ROUTE_UPDATE,
    MVDR_ROUTE_CUSOLVER,
    MVDR_ROUTE_JACOBI,
    MVDR_ROUTE_FACTOR_GRID,
    MVDR_ROUTE_FACTOR,
    MVDR_ROUTE_MEDIAN_GRID,
    MVDR_ROUTE_MEDIAN,
    MVDR_ROUTE_EIGENVALUES,
    MVDR_ROUTES
} mvdr_route_id;

typedef enum mvdr_place { MVDR_ON_CPU = 0, MVDR_ON_GPU, MVDR_PLACES } mvdr_place;

/* A window of a stage, or a bin of it. */
typedef struct mvdr_problem {
    const sonar_mvdr_spec *spec; /* with the live values */
    mvdr_wants wants;
    bool all_eigenvalues; /* something else than the loading needs them */
    bool from_scratch;    /* the inverse cannot be updated */
    bool fallback;        /* the trace replaces the noise rule: too few snapshots. On a GPU never
                             set: each bin finds that out by itself */
} mvdr_problem;

/* Choices by name in place of sizes; NULL: none. `route`, for tests: a row with a least size exists
 * only if it is named here, and then for matrices of any size. `vectors`: the same for the row
 * cusolver, which is named by the trained decision mvdr.eigenvectors or excluded by mvdr.solver. */
typedef struct mvdr_choices {
    const char *route, *vectors;
} mvdr_choices;

enum { MVDR_NEVER = 0x7fffffff };

typedef struct mvdr_route {
    const char *name;
    bool (*possible)(const sonar_mvdr_spec *spec); /* fixed when the stage is made */
    bool (*applies)(const mvdr_problem *problem);  /* can change from window to window */
    size_t least[MVDR_PLACES]; /* rows of the matrix; MVDR_NEVER: the place does not have it */
} mvdr_route;

/* [MVDR_ROUTES]; the first has no name. */
extern const mvdr_route mvdr_routes[];

/* Choices of the host for a stage, which are valid as long as the host's; a host may be NULL. */
mvdr_choices mvdr_choices_of(const sonar_mvdr_spec *spec, const sonar_host *host);

/* Whether a stage made with this specification may take a route in some window. */
bool mvdr_route_exists(const sonar_mvdr_spec *spec, mvdr_place place, const mvdr_choices *choices,
                       mvdr_route_id id);

/* The problem of a window with these wants, before anything is known of its bins. */
mvdr_problem mvdr_problem_of(const sonar_mvdr_spec *spec, const mvdr_wants *wants,
                             mvdr_place place);

mvdr_route_id mvdr_route_of(const mvdr_problem *problem, mvdr_place place,
                            const mvdr_choices *choices);

/* Whether a GPU takes eigenvectors, of the spectrum or of MUSIC, from cuSOLVER. */
bool mvdr_takes_library(const sonar_mvdr_spec *spec, const mvdr_choices *choices);

#ifdef __cplusplus
}
#endif
#endif
