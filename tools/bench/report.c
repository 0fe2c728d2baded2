/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The results as a table and as JSON, with the facts of the machine. */
#include "bench.h"

#include <cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

void bench_write_table(const bench_report *report, FILE *to) {
    fprintf(to, "%-10s %-10s %-14s %6s %12s %12s %12s %9s %10s\n", "case", "stage",
            "implementation", "runs", "min us", "median us", "p99 us", "Gflop/s", "error dB");
    for (size_t i = 0; i < report->results; i++) {
        const bench_result *r = &report->result[i];
        fprintf(to, "%-10s %-10s %-14s %6zu %12.1f %12.1f %12.1f %9.2f ", r->of->name, r->stage,
                r->implementation, r->repetitions, (double)r->min_ns / 1e3,
                (double)r->median_ns / 1e3, (double)r->p99_ns / 1e3,
                r->flop / (double)r->median_ns);
        if (isnan(r->error_db))
            fprintf(to, "%10s\n", "-");
        else
            fprintf(to, "%10.2g\n", r->error_db);
    }
}

/* The first "model name" of /proc/cpuinfo, or the architecture. */
static void cpu_name(char *name, size_t bytes, const char *architecture) {
    snprintf(name, bytes, "%s", architecture);
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        snprintf(name, bytes, "%s", colon + 1 + strspn(colon + 1, " "));
        name[strcspn(name, "\n")] = 0;
        break;
    }
    if (file)
        fclose(file);
}

/* The instruction set for which the stages' clones are picked. */
static const char *isa(const char *architecture) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
        return "x86-64-v4";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "x86-64-v3";
#endif
    return architecture;
}

static void add_machine(cJSON *root, size_t threads) {
    struct utsname system;
    char cpu[128];
    if (uname(&system) != 0)
        memset(&system, 0, sizeof system);
    cpu_name(cpu, sizeof cpu, system.machine);
    cJSON *machine = cJSON_AddObjectToObject(root, "machine");
    cJSON_AddStringToObject(machine, "cpu", cpu);
    cJSON_AddNumberToObject(machine, "cores", (double)sysconf(_SC_NPROCESSORS_ONLN));
    cJSON_AddNumberToObject(machine, "threads", (double)threads);
    cJSON_AddNumberToObject(machine, "memory",
                            (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE));
    cJSON_AddStringToObject(machine, "kernel", system.release);
    cJSON_AddStringToObject(machine, "compiler", COMPILER);
    cJSON_AddStringToObject(machine, "isa", isa(system.machine));
}

static void add_band(cJSON *to, const char *name, bench_band band) {
    cJSON *run = cJSON_AddArrayToObject(to, name);
    if (band.bins == 0)
        return;
    cJSON_AddItemToArray(run, cJSON_CreateNumber((double)band.first));
    cJSON_AddItemToArray(run, cJSON_CreateNumber((double)(band.first + band.bins - 1)));
}

static void add_parameters(cJSON *to, const bench_case *c) {
    cJSON *p = cJSON_AddObjectToObject(to, "parameters");
    cJSON_AddNumberToObject(p, "sensors", (double)c->sensors);
    cJSON_AddNumberToObject(p, "length", (double)c->length);
    cJSON_AddNumberToObject(p, "fs_hz", c->fs_hz);
    add_band(p, "cbf_bins", c->cbf);
    add_band(p, "lofar_bins", c->lofar);
    add_band(p, "mvdr_bins", c->mvdr);
    cJSON_AddNumberToObject(p, "angles", (double)c->angles);
    cJSON_AddNumberToObject(p, "ranges", (double)c->ranges);
    cJSON_AddNumberToObject(p, "snapshots", (double)c->snapshots);
}

/* cJSON writes NaN as null. */
static void add_result(cJSON *results, const bench_result *r) {
    cJSON *to = cJSON_CreateObject();
    cJSON_AddItemToArray(results, to);
    cJSON_AddStringToObject(to, "case", r->of->name);
    cJSON_AddStringToObject(to, "stage", r->stage);
    cJSON_AddStringToObject(to, "implementation", r->implementation);
    add_parameters(to, r->of);
    cJSON_AddNumberToObject(to, "repetitions", (double)r->repetitions);
    cJSON_AddNumberToObject(to, "min_ns", (double)r->min_ns);
    cJSON_AddNumberToObject(to, "median_ns", (double)r->median_ns);
    cJSON_AddNumberToObject(to, "p99_ns", (double)r->p99_ns);
    cJSON_AddNumberToObject(to, "flop", r->flop);
    cJSON_AddNumberToObject(to, "bytes", r->bytes);
    cJSON_AddNumberToObject(to, "gflops", r->flop / (double)r->median_ns);
    cJSON_AddNumberToObject(to, "error_db", r->error_db);
    cJSON_AddNumberToObject(to, "sweeps", r->sweeps);
}

bool bench_write_json(const bench_report *report, size_t threads, FILE *to) {
    char date[32] = "";
    const time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc))
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "sonar-bench/1");
    add_machine(root, threads);
    cJSON_AddStringToObject(root, "commit", SONAR_COMMIT);
    cJSON_AddStringToObject(root, "date", date);
    cJSON *results = cJSON_AddArrayToObject(root, "results");
    for (size_t i = 0; i < report->results; i++)
        add_result(results, &report->result[i]);
    char *text = cJSON_Print(root);
    cJSON_Delete(root);
    const bool written = text && fprintf(to, "%s\n", text) > 0 && fflush(to) == 0;
    free(text);
    return written;
}
