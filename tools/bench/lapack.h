/* SPDX-License-Identifier: GPL-3.0-or-later */
/* LAPACK as the peer of the CPU's MVDR. The installed library is loaded at run time, so that
 * sonar-bench does not depend on it. */
#ifndef BENCH_LAPACK_H
#define BENCH_LAPACK_H

#include "stages.h"

/* Adds the results of zheevd and of zpotrf with ztrsm to the report, for one matrix per bin of the
 * case. Timed is the work from the matrices that the MVDR stage has to solve and their right-hand
 * sides, already computed, to the spectrum, with one thread of the library in each worker. The MVDR
 * of `stages` must have run. Without a library no result is added and the log says so. */
sonar_code bench_run_lapack(bench_stages *stages, bench_report *report, sonar_error *err);

#endif
