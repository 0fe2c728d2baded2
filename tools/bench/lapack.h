/* SPDX-License-Identifier: GPL-3.0-or-later */
/* LAPACK, which the CPU's MVDR is compared with: the library that is installed, loaded only for
 * this, so that sonar-bench itself needs none. */
#ifndef BENCH_LAPACK_H
#define BENCH_LAPACK_H

#include "stages.h"

/* Adds the results of zheevd and of zpotrf with ztrsm, for as many matrices as the case has bins,
 * to the report: from the matrices that the MVDR stage has to solve and their right-hand sides,
 * ready made, to the spectrum, with one thread of the library in each worker. `stages` has run its
 * MVDR. Without a library nothing is added and the log says so. */
sonar_code bench_run_lapack(bench_stages *stages, bench_report *report, sonar_error *err);

#endif
