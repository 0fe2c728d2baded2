/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The thesis's measurements (a Tesla K20c; serial on a Xeon E5-2670), by its tables, and this
 * project's goals on an H200 and on two processor cores. Milliseconds; 0: none. Table 6.1's DFT is
 * that of cuFFT and FFTW with many transforms in one plan. Tables 6.11 to 6.14 are for one bin,
 * after all of the thesis's optimisations, the decomposition alone in 6.11 and 6.12, the spectrum
 * alone in 6.13 and 6.14; their serial times are from 6.10. Table 6.16 has the ratios of 6.15. */
#include "bench.h"

#include <string.h>

/* clang-format off */
static const bench_reference references[] = {
    {"sensors-128", "dft", "6.1", 2.27, 50.24, 0, 0},
    {"sensors-256", "dft", "6.1", 3.62, 101.03, 0, 0},
    {"sensors-512", "dft", "6.1", 6.36, 201.56, 0, 0},
    {"sensors-1024", "dft", "6.1", 12.58, 402.64, 0, 0},
    {"sensors-2048", "dft", "6.1", 24.14, 805.45, 0, 0},
    {"sensors-128", "minute", "6.8", 1000, 23960, 0, 0},
    {"sensors-256", "minute", "6.8", 1580, 49440, 0, 0},
    {"sensors-512", "minute", "6.8", 3400, 101710, 0, 0},
    {"sensors-1024", "minute", "6.8", 4350, 214760, 0, 0},
    {"sensors-2048", "minute", "6.8", 6320, 485240, 0, 0},
    {"sensors-4096", "minute", "6.8", 10500, 993030, 0, 0},
    {"sensors-8192", "minute", "6.8", 18730, 2071600, 0, 0},
    {"sensors-16384", "minute", "6.8", 36140, 4241820, 700, 0},
    {"sensors-32768", "minute", "6.8", 76970, 9646530, 1400, 0},
    {"sensors-512", "cbf.all", "-", 0, 0, 0.06, 0},
    {"sensors-2048", "cbf.all", "-", 0, 0, 0.2, 0},
    {"sensors-16384", "cbf.all", "-", 0, 0, 1.5, 0},
    {"bins-100", "chain", "6.4", 36.03, 959.73, 0, 0},
    {"bins-200", "chain", "6.4", 58.81, 1756.74, 0, 0},
    {"bins-300", "chain", "6.4", 81.64, 2593.27, 0, 0},
    {"bins-400", "chain", "6.4", 104.41, 3372.75, 0, 0},
    {"bins-500", "chain", "6.4", 127.23, 4203.13, 0, 0},
    {"bins-600", "chain", "6.4", 150.0, 5009.35, 0, 0},
    {"bins-700", "chain", "6.4", 172.82, 5886.76, 0, 0},
    {"bins-800", "chain", "6.4", 195.76, 6786.82, 0, 0},
    {"bins-900", "chain", "6.4", 218.6, 7620.06, 0, 0},
    {"bins-1000", "chain", "6.4", 241.52, 8533.2, 0, 0},
    {"angles-45", "chain", "6.5", 24.38, 551.0, 0, 0},
    {"angles-90", "chain", "6.5", 35.25, 979.92, 0, 0},
    {"angles-135", "chain", "6.5", 49.08, 1471.73, 0, 0},
    {"angles-180", "chain", "6.5", 63.14, 2003.63, 0, 0},
    {"angles-225", "chain", "6.5", 76.78, 2530.97, 0, 0},
    {"angles-270", "chain", "6.5", 90.63, 2958.87, 0, 0},
    {"angles-315", "chain", "6.5", 103.95, 3500.29, 0, 0},
    {"angles-360", "chain", "6.5", 118.36, 3870.21, 0, 0},
    {"rates-2000", "chain", "6.6", 52.19, 1591.747, 0, 0},
    {"rates-4000", "chain", "6.6", 53.52, 1632.054, 0, 0},
    {"rates-6000", "chain", "6.6", 56.586, 1644.052, 0, 0},
    {"rates-8000", "chain", "6.6", 56.646, 1641.685, 0, 0},
    {"rates-10000", "chain", "6.6", 63.022, 1639.181, 0, 0},
    {"rates-12000", "chain", "6.6", 62.969, 1640.944, 0, 0},
    {"rates-14000", "chain", "6.6", 63.008, 1658.441, 0, 0},
    {"rates-16000", "chain", "6.6", 63.02, 1676.23, 0, 0},
    {"rates-18000", "chain", "6.6", 75.067, 1697.948, 0, 0},
    {"rates-20000", "chain", "6.6", 75.041, 1672.627, 0, 0},
    {"rates-2000", "dft", "6.7", 2.289, 2.764, 0, 0},
    {"rates-4000", "dft", "6.7", 3.624, 7.055, 0, 0},
    {"rates-6000", "dft", "6.7", 6.581, 15.639, 0, 0},
    {"rates-8000", "dft", "6.7", 6.564, 14.735, 0, 0},
    {"rates-10000", "dft", "6.7", 12.895, 33.238, 0, 0},
    {"rates-12000", "dft", "6.7", 12.859, 31.255, 0, 0},
    {"rates-14000", "dft", "6.7", 12.897, 33.242, 0, 0},
    {"rates-16000", "dft", "6.7", 12.912, 31.377, 0, 0},
    {"rates-18000", "dft", "6.7", 24.987, 76.791, 0, 0},
    {"rates-20000", "dft", "6.7", 24.945, 71.368, 0, 0},
    {"block-64", "mvdr", "6.15", 112.88, 174.48, 0.6, 20},
    {"block-128", "mvdr", "6.15", 227.02, 621.7, 0, 0},
    {"block-256", "mvdr", "6.15", 533.58, 2382.67, 0.6, 25},
    {"block-512", "mvdr", "6.15", 1263.33, 9567.53, 0.7, 30},
    {"block-1024", "mvdr", "6.15", 3283.07, 37153.75, 0, 0},
    {"block-2048", "mvdr", "6.15", 10142.59, 174981.62, 1, 0},
    {"block-16384", "mvdr", "-", 0, 0, 2, 0},
    {"block-16384", "mvdr.anew", "-", 0, 0, 8, 0},
    {"block-262144", "mvdr", "-", 0, 0, 12, 0},
    {"block-524288", "mvdr", "-", 0, 0, 24, 0},
    {"full-64", "mvdr", "6.15", 112.88, 174.48, 0, 0},
    {"full-128", "mvdr", "6.15", 227.02, 621.7, 0, 0},
    {"full-256", "mvdr", "6.15", 533.58, 2382.67, 0, 0},
    {"full-512", "mvdr", "6.15", 1263.33, 9567.53, 0, 0},
    {"full-1024", "mvdr", "6.15", 3283.07, 37153.75, 0, 0},
    {"jacobi-64", "mvdr", "6.15", 112.88, 174.48, 0, 0},
    {"jacobi-128", "mvdr", "6.15", 227.02, 621.7, 0, 0},
    {"jacobi-256", "mvdr", "6.15", 533.58, 2382.67, 0, 0},
    {"jacobi-512", "mvdr", "6.15", 1263.33, 9567.53, 0, 0},
    {"jacobi-1024", "mvdr", "6.15", 3283.07, 37153.75, 0, 0},
    {"jacobi-2048", "mvdr", "6.15", 10142.59, 174981.62, 0, 0},
    {"onebin-512", "mvdr", "6.11", 12.34, 27.73, 0, 0},
    {"onebin-1024", "mvdr", "6.12", 27.4, 104.185, 0, 0},
    {"onebin-2048", "mvdr", "6.12", 77.83, 676.588, 0, 0},
    {"onebin-1024", "mvdr.looks", "6.13", 5.35, 280.906, 0, 0},
    {"onebin-2048", "mvdr.looks", "6.14", 24.19, 1223.901, 0, 0},
};
/* clang-format on */

const bench_reference *bench_reference_of(const bench_result *result) {
    for (size_t i = 0; i < sizeof references / sizeof *references; i++)
        if (strcmp(references[i].case_name, result->of->name) == 0 &&
            strcmp(references[i].stage, result->stage) == 0)
            return &references[i];
    return NULL;
}
