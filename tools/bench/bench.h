/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Times the stages on a synthetic line array: sizes, the set-up, measurements, and their report. */
#ifndef BENCH_H
#define BENCH_H

#include <stdio.h>

#include "core/core.h"

typedef struct bench_band {
    size_t first, bins; /* bins 0: none */
} bench_band;

/* What is computed. `lofar` is the whole frequency-azimuth surface and contains `cbf`. */
typedef struct bench_case {
    const char *name, *about;
    size_t sensors, length;
    double fs_hz;
    bench_band cbf, lofar, mvdr;
    size_t angles, ranges, snapshots;
} bench_case;

/* How it is measured: at least so many repetitions and so much time. */
typedef struct bench_effort {
    size_t repetitions;
    double min_time_s;
} bench_effort;

typedef struct bench_result {
    const bench_case *of;
    const char *stage, *implementation;
    size_t repetitions;
    int64_t min_ns, median_ns, p99_ns;
    double flop, bytes; /* nominal: docs/benchmarks.md */
    double error_db;    /* worst against double precision, NaN where not computed */
    double sweeps;      /* MVDR: mean over the bins, else NaN */
} bench_result;

enum { BENCH_RESULTS_MOST = 64 };

typedef struct bench_report {
    bench_result result[BENCH_RESULTS_MOST];
    size_t results;
} bench_report;

/* The built-in cases, ending with a NULL name. */
extern const bench_case bench_cases[];

/* Nothing impossible in it? */
sonar_code bench_case_check(const bench_case *c, sonar_error *err);
/* Runs every stage of a case and the chain, and adds their results to the report. */
sonar_code bench_run(const bench_case *c, const bench_effort *effort, const sonar_host *host,
                     bench_report *report, sonar_error *err);

void bench_write_table(const bench_report *report, FILE *to);
/* "sonar-bench/1"; false if memory runs out or `to` cannot be written. */
bool bench_write_json(const bench_report *report, size_t threads, FILE *to);

/* Nominal work; see docs/benchmarks.md. */
double bench_dft_flop(const bench_case *c);
double bench_cbf_flop(const bench_case *c, size_t far_bins, size_t near_bins);
double bench_mvdr_flop(const bench_case *c, double sweeps);

/* 1 / a^H (X X^H / L + delta I)^-1 a in double precision for each direction; x is [snapshot][n],
 * turns [direction][n]. False if memory runs out or the matrix is not positive definite. */
bool bench_capon(size_t n, size_t snapshots, const sonar_c32 *x, double delta, size_t bin,
                 const uint64_t *turns, size_t directions, double *power);
/* The contiguous run of bins the DFT has to keep. */
bench_band bench_kept(const bench_case *c);

#endif
