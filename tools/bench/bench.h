/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Times the stages on a synthetic array, a line or a plane: sizes, the set-up, measurements, and
 * their report. */
#ifndef BENCH_H
#define BENCH_H

#include <cJSON.h>
#include <stdio.h>

#include "core/core.h"
#include "sonar/backend.h"
#include "sonar/stages.h"
#include "peers.h"

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
    sonar_mvdr_solver solver;
    sonar_loading loading; /* with factor `eps`; 0 means 1 */
    double eps;
    size_t windows;  /* of the stage "minute"; 0: no such stage */
    bool mvdr_alone; /* only MVDR, on random snapshots */
    bool cbf_alone;  /* only the surface of a planar array, over `snapshots` snapshots */
    bool peers;      /* also run the peers' libraries, if available */
    bool by_name;    /* excluded from its family: needs more memory than most machines have */
} bench_case;

/* A measurement takes at least `repetitions` and min_time_s, but ends after max_time_s (0: no
 * limit) and three repetitions. If one execution takes longer than max_time_s, it is measured once.
 */
typedef struct bench_effort {
    size_t repetitions;
    double min_time_s, max_time_s;
} bench_effort;

/* Time of one execution. Batched executions are enqueued back to back and finished by one event;
 * a single execution has its own event, as a running window waits for it. */
typedef struct bench_times {
    size_t repetitions, batch; /* batches timed, executions in one */
    int64_t min_ns, median_ns, p99_ns;
    int64_t single_median_ns, single_p99_ns;
    int64_t processor_ns; /* mean processor time of all threads for one execution */
} bench_times;

typedef struct bench_result {
    const bench_case *of;
    const char *backend; /* "cpu", "cuda"; "peer": another library */
    const char *stage, *implementation;
    bench_times time;
    double flop, bytes; /* nominal: docs/benchmarks.md */
    double host_bytes;  /* copied from host memory to the device */
    double error_db;    /* worst error against double precision, NaN if not computed */
    double sweeps;      /* MVDR: mean over the bins, else NaN */
} bench_result;

/* The device's peak rates, measured in the same run; 0 if not measured. */
typedef struct bench_ceilings {
    double fma_flops, memory_bps, host_to_device_bps, device_to_host_bps;
} bench_ceilings;

typedef struct bench_omission {
    const bench_case *of;
    sonar_error why;
} bench_omission;

enum { BENCH_RESULTS_MOST = 1024, BENCH_OMISSIONS_MOST = 64 };

typedef struct bench_report bench_report;

struct bench_report {
    bench_result result[BENCH_RESULTS_MOST];
    size_t results;
    bench_omission omission[BENCH_OMISSIONS_MOST];
    size_t left_out;
    char device[192]; /* the plugin's description of the GPU, or empty */
    bench_gpu gpu;    /* from the peers' library; name is empty without it */
    bench_ceilings ceilings;
    char peers[320]; /* reason without peers, or empty */
    /* Called with each result as it is kept; may be NULL. */
    void (*kept)(void *ctx, const bench_report *report, const bench_result *result);
    void *ctx;
};

/* The host of backends: the pool's workers, warnings and errors to standard error. The pool is
 * borrowed. */
sonar_host bench_host_of(sonar_pool *pool);

/* Where a case runs. */
typedef struct bench_site {
    const sonar_host *host;
    const sonar_backend *backend;
    const bench_peers *peers; /* NULL: none */
    bench_effort effort;
} bench_site;

/* The thesis's figure for a result, and the project's goals on an H200 and on two processor cores;
 * 0: none. */
typedef struct bench_reference {
    const char *case_name, *stage, *table;
    double thesis_cuda_ms, thesis_serial_ms, goal_ms, goal_cpu_ms;
} bench_reference;

/* The built-in cases, ending with a NULL name. */
extern const bench_case bench_cases[];
/* Whether `wanted` names the case or its family, e.g. "sensors" for "sensors-512". Cases with
 * by_name have no family. */
bool bench_case_matches(const bench_case *c, const char *wanted);
/* NULL: no reference. */
const bench_reference *bench_reference_of(const bench_result *result);

/* SONAR_EINVAL if the sizes are impossible. */
sonar_code bench_case_check(const bench_case *c, sonar_error *err);
/* Runs every stage of a case and the chain, and adds their results to the report. */
sonar_code bench_run(const bench_case *c, const bench_site *site, bench_report *report,
                     sonar_error *err);
/* The same for the peers of a case. */
sonar_code bench_run_peers(const bench_case *c, const bench_site *site, bench_report *report,
                           sonar_error *err);
/* Measures the device's peak rates. */
sonar_code bench_measure_ceilings(const bench_site *site, bench_report *report, sonar_error *err);

/* A step enqueues one execution; `settle` waits for all enqueued executions (NULL: steps wait
 * themselves). */
typedef sonar_code (*bench_step)(void *ctx, sonar_error *err);
sonar_code bench_measure(void *ctx, bench_step step, bench_step settle, const bench_effort *effort,
                         bench_times *times, sonar_error *err);

/* Opens the peers' library in `dir`; NULL with a sentence in report->peers if it cannot be used. */
const bench_peers *bench_peers_open(const char *dir, bench_report *report);

/* Adds a result, if there is room. */
void bench_keep(bench_report *report, const bench_result *result);
/* Records that a case, or the rest of it, could not be run, and prints the reason to standard
 * error. */
void bench_leave_out(bench_report *report, const bench_case *c, const sonar_error *why);
/* The table's head, and one row of it. */
void bench_write_head(FILE *to);
void bench_write_row(const bench_report *report, const bench_result *result, FILE *to);
/* "sonar-bench/1" to the file of that path, or to standard output if it is "-". */
sonar_code bench_write_json(const bench_report *report, size_t threads, const char *path,
                            sonar_error *err);
/* The same in steps: create the object up to "results"; add an entry to "left_out"; write and
 * delete the object. */
cJSON *bench_json_begin(const bench_report *report, size_t threads);
void bench_json_leave_out(cJSON *list, const char *name, const sonar_error *why);
sonar_code bench_json_end(cJSON *root, const char *path, sonar_error *err);
/* Adds a case's sizes, or an execution's times, as in a result. */
void bench_json_parameters(cJSON *to, const bench_case *c);
void bench_json_times(cJSON *to, const bench_times *times);

/* Times ingest of `channels` (0: several built-in numbers), rounded up to whole messages, and
 * writes a table line by line; at least min_time_s for each figure. */
sonar_code bench_ingest(size_t channels, double min_time_s, FILE *to, sonar_error *err);

/* Nominal work; see docs/benchmarks.md. */
double bench_dft_flop(const bench_case *c);
double bench_cbf_flop(const bench_case *c, size_t far_bins, size_t near_bins);
double bench_mvdr_flop(const bench_case *c, double sweeps);
double bench_refill_flop(const bench_case *c, double sweeps);
double bench_looks_flop(const bench_case *c);

/* 1 / a^H (X X^H / L + delta I)^-1 a in double precision for each direction; x is [snapshot][n],
 * turns [direction][n]. False if memory runs out or the matrix is not positive definite. */
bool bench_capon(size_t n, size_t snapshots, const sonar_c32 *x, double delta, size_t bin,
                 const uint64_t *turns, size_t directions, double *power);
/* The contiguous run of bins the DFT has to keep. */
bench_band bench_kept(const bench_case *c);

#endif
