/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The results as a table and as JSON, with a description of the machine. */
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "commit.h"
#include "core/isa.h"

#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

/* ---- floors ---------------------------------------------------------------------------------- */

typedef struct bound {
    const char *by; /* "arithmetic", "memory" or "pcie"; NULL: not known */
    double floor_ns;
} bound;

static void lift(bound *b, const char *by, double work, double per_second) {
    const double ns = per_second > 0 ? work / per_second * 1e9 : 0;
    if (ns > b->floor_ns)
        *b = (bound){by, ns};
}

/* The shortest possible time of the nominal work at the rates measured in this run. */
static bound bound_of(const bench_report *report, const bench_result *r) {
    const bench_ceilings *c = &report->ceilings;
    bound b = {0};
    if (strcmp(r->backend, "cpu") == 0)
        return b;
    lift(&b, "arithmetic", r->flop, c->fma_flops);
    lift(&b, "memory", r->bytes, c->memory_bps);
    lift(&b, "pcie", r->host_bytes, c->host_to_device_bps);
    return b;
}

/* ---- peers ----------------------------------------------------------------------------------- */

/* The peers that do the same work as a stage. */
static const struct {
    const char *backend, *stage, *peer;
} comparable[] = {
    {"cuda", "dft", "peer.h2d.f32"},           {"cuda", "dft.device", "peer.cufft"},
    {"cuda", "cbf.lofar", "peer.cgemm"},       {"cuda", "cbf.lofar", "peer.cgemm.tf32"},
    {"cuda", "minute", "peer.h2d.f32"},        {"cuda", "minute", "peer.h2d.s16"},
    {"cuda", "cbf.snapshots", "peer.cgemm16"}, {"cuda", "cbf.snapshots", "peer.cgemm16.tf32"},
    {"cuda", "mvdr", "peer.syev.c64"},         {"cuda", "mvdr", "peer.syev.c128"},
    {"cuda", "mvdr", "peer.syevj.c64"},        {"cuda", "mvdr", "peer.potrf.c128"},
    {"cuda", "mvdr.trace", "peer.potrf.c128"}, {"cpu", "mvdr", "peer.zheevd"},
    {"cpu", "mvdr", "peer.zheevd.zpotrf"},     {"cpu", "mvdr", "peer.zpotrf"},
    {"cpu", "mvdr.trace", "peer.zheevd"},      {"cpu", "mvdr.trace", "peer.zpotrf"}};

static const bench_result *find(const bench_report *report, const bench_case *of,
                                const char *stage) {
    for (size_t i = 0; i < report->results; i++)
        if (report->result[i].of == of && strcmp(report->result[i].stage, stage) == 0)
            return &report->result[i];
    return NULL;
}

/* The peer's time divided by the stage's: above 1 the stage is faster. A minute is compared with
 * copies of all windows. */
static void add_peers(cJSON *to, const bench_report *report, const bench_result *r) {
    if (strcmp(r->backend, "peer") == 0)
        return;
    cJSON *peers = cJSON_AddObjectToObject(to, "peer_ratio");
    for (size_t i = 0; i < sizeof comparable / sizeof *comparable; i++) {
        const bool same =
            !strcmp(comparable[i].backend, r->backend) && !strcmp(comparable[i].stage, r->stage);
        const bench_result *peer = same ? find(report, r->of, comparable[i].peer) : NULL;
        const double times = strcmp(r->stage, "minute") == 0 ? (double)r->of->windows : 1;
        if (peer && fabs(peer->host_bytes * times - r->host_bytes) < 1)
            cJSON_AddNumberToObject(peers, peer->stage,
                                    times * (double)peer->time.median_ns /
                                        (double)r->time.median_ns);
    }
}

void bench_keep(bench_report *report, const bench_result *result) {
    if (report->results == BENCH_RESULTS_MOST)
        return;
    bench_result *kept = &report->result[report->results++];
    *kept = *result;
    if (report->kept)
        report->kept(report->ctx, report, kept);
}

void bench_leave_out(bench_report *report, const bench_case *c, const sonar_error *why) {
    fprintf(stderr, "sonar-bench: %s left out: %s: %s\n", c->name, why->where, why->text);
    if (report->left_out < BENCH_OMISSIONS_MOST)
        report->omission[report->left_out++] = (bench_omission){c, *why};
}

/* ---- the table ------------------------------------------------------------------------------- */

void bench_write_head(FILE *to) {
    fprintf(to, "%-15s %-18s %-24s %5s %11s %11s %11s %11s %11s %9s %6s %9s\n", "case", "stage",
            "by", "runs", "min us", "median us", "p99 us", "single us", "processor", "Gflop/s",
            "floor", "error dB");
}

void bench_write_row(const bench_report *report, const bench_result *r, FILE *to) {
    const bound b = bound_of(report, r);
    fprintf(to, "%-15s %-18s %-24s %5zu %11.1f %11.1f %11.1f %11.1f %11.1f %9.2f ", r->of->name,
            r->stage, r->implementation, r->time.repetitions, (double)r->time.min_ns / 1e3,
            (double)r->time.median_ns / 1e3, (double)r->time.p99_ns / 1e3,
            (double)r->time.single_median_ns / 1e3, (double)r->time.processor_ns / 1e3,
            r->flop / (double)r->time.median_ns);
    if (b.by)
        fprintf(to, "%5.0f%% ", 100 * b.floor_ns / (double)r->time.median_ns);
    else
        fprintf(to, "%6s ", "-");
    if (isnan(r->error_db))
        fprintf(to, "%9s\n", "-");
    else
        fprintf(to, "%9.2g\n", r->error_db);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

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

/* The instruction set of the beamformer's kernels. */
static const char *isa(const char *architecture) {
    const sonar_isa chosen = sonar_isa_choose(NULL);
    return chosen == SONAR_ISA_BASELINE ? architecture : sonar_isa_name(chosen);
}

static void add_machine(cJSON *root, size_t threads) {
    struct utsname system;
    char cpu[128];
    if (uname(&system) != 0)
        memset(&system, 0, sizeof system);
    cpu_name(cpu, sizeof cpu, system.machine);
    cJSON *machine = cJSON_AddObjectToObject(root, "machine");
    cJSON_AddStringToObject(machine, "cpu", cpu);
    cJSON_AddNumberToObject(machine, "cores", (double)sonar_processors_online());
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

void bench_json_parameters(cJSON *to, const bench_case *c) {
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
    cJSON_AddNumberToObject(p, "windows", (double)c->windows);
}

void bench_json_times(cJSON *to, const bench_times *t) {
    cJSON_AddNumberToObject(to, "repetitions", (double)t->repetitions);
    cJSON_AddNumberToObject(to, "batch", (double)t->batch);
    cJSON_AddNumberToObject(to, "min_ns", (double)t->min_ns);
    cJSON_AddNumberToObject(to, "median_ns", (double)t->median_ns);
    cJSON_AddNumberToObject(to, "p99_ns", (double)t->p99_ns);
    cJSON_AddNumberToObject(to, "single_median_ns", (double)t->single_median_ns);
    cJSON_AddNumberToObject(to, "single_p99_ns", (double)t->single_p99_ns);
    cJSON_AddNumberToObject(to, "processor_ns", (double)t->processor_ns);
}

/* cJSON writes NaN, for unknown values, as null. */
static void add_positive(cJSON *to, const char *name, double value) {
    cJSON_AddNumberToObject(to, name, value > 0 ? value : (double)NAN);
}

static void add_floor(cJSON *to, const bench_report *report, const bench_result *r) {
    const bound b = bound_of(report, r);
    add_positive(to, "floor_ns", b.floor_ns);
    add_positive(to, "share_of_floor", b.floor_ns / (double)r->time.median_ns);
    if (b.by)
        cJSON_AddStringToObject(to, "bound", b.by);
    else
        cJSON_AddNullToObject(to, "bound");
}

static void add_reference(cJSON *to, const bench_result *r) {
    const bench_reference *reference = bench_reference_of(r);
    if (!reference)
        return;
    cJSON_AddStringToObject(to, "thesis_table", reference->table);
    add_positive(to, "thesis_cuda_ms", reference->thesis_cuda_ms);
    add_positive(to, "thesis_serial_ms", reference->thesis_serial_ms);
    add_positive(to, "goal_ms",
                 strcmp(r->backend, "cpu") == 0 ? reference->goal_cpu_ms : reference->goal_ms);
}

static void add_result(cJSON *results, const bench_report *report, const bench_result *r) {
    cJSON *to = cJSON_CreateObject();
    cJSON_AddItemToArray(results, to);
    cJSON_AddStringToObject(to, "case", r->of->name);
    cJSON_AddStringToObject(to, "backend", r->backend);
    cJSON_AddStringToObject(to, "stage", r->stage);
    cJSON_AddStringToObject(to, "implementation", r->implementation);
    bench_json_parameters(to, r->of);
    bench_json_times(to, &r->time);
    cJSON_AddNumberToObject(to, "flop", r->flop);
    cJSON_AddNumberToObject(to, "bytes", r->bytes);
    cJSON_AddNumberToObject(to, "host_bytes", r->host_bytes);
    cJSON_AddNumberToObject(to, "gflops", r->flop / (double)r->time.median_ns);
    add_floor(to, report, r);
    cJSON_AddNumberToObject(to, "error_db", r->error_db);
    cJSON_AddNumberToObject(to, "sweeps", r->sweeps);
    add_reference(to, r);
    add_peers(to, report, r);
}

static void add_gpu(cJSON *root, const bench_report *report) {
    const bench_gpu *g = &report->gpu;
    char version[32];
    if (!report->device[0])
        return;
    cJSON *gpu = cJSON_AddObjectToObject(root, "gpu");
    cJSON_AddStringToObject(gpu, "description", report->device);
    cJSON_AddStringToObject(root, "without_peers", report->peers);
    if (!g->name[0])
        return;
    cJSON_AddStringToObject(gpu, "name", g->name);
    snprintf(version, sizeof version, "%d.%d", g->driver / 1000, g->driver % 1000 / 10);
    cJSON_AddStringToObject(gpu, "driver_cuda", version);
    snprintf(version, sizeof version, "%d.%d", g->runtime / 1000, g->runtime % 1000 / 10);
    cJSON_AddStringToObject(gpu, "runtime_cuda", version);
    snprintf(version, sizeof version, "%d.%d", g->capability_major, g->capability_minor);
    cJSON_AddStringToObject(gpu, "capability", version);
    cJSON_AddNumberToObject(gpu, "multiprocessors", g->multiprocessors);
    cJSON_AddNumberToObject(gpu, "memory", g->memory_bytes);
    cJSON_AddNumberToObject(gpu, "l2", g->l2_bytes);
    add_positive(gpu, "sm_clock_mhz", g->sm_clock_mhz);
    add_positive(gpu, "memory_clock_mhz", g->memory_clock_mhz);
    const bench_ceilings *c = &report->ceilings;
    cJSON *ceilings = cJSON_AddObjectToObject(root, "ceilings");
    add_positive(ceilings, "fma_flops", c->fma_flops);
    add_positive(ceilings, "memory_bytes_per_s", c->memory_bps);
    add_positive(ceilings, "host_to_device_bytes_per_s", c->host_to_device_bps);
    add_positive(ceilings, "device_to_host_bytes_per_s", c->device_to_host_bps);
}

cJSON *bench_json_begin(const bench_report *report, size_t threads) {
    char date[32] = "";
    const time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc))
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "sonar-bench/1");
    add_machine(root, threads);
    add_gpu(root, report);
    cJSON_AddStringToObject(root, "commit", SONAR_COMMIT);
    cJSON_AddStringToObject(root, "date", date);
    cJSON *results = cJSON_AddArrayToObject(root, "results");
    for (size_t i = 0; i < report->results; i++)
        add_result(results, report, &report->result[i]);
    return root;
}

sonar_code bench_json_end(cJSON *root, const char *path, sonar_error *err) {
    char *text = cJSON_Print(root);
    cJSON_Delete(root);
    if (!text)
        return sonar_fail(err, SONAR_ENOMEM, path, "no memory for the report");
    FILE *to = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
    bool written = to && fprintf(to, "%s\n", text) > 0 && fflush(to) == 0;
    int why = errno;
    if (to && to != stdout && fclose(to) != 0 && written)
        written = false, why = errno;
    free(text);
    return written ? SONAR_OK
                   : sonar_fail(err, SONAR_ESYS, path, "cannot be written: %s", strerror(why));
}

void bench_json_leave_out(cJSON *list, const char *name, const sonar_error *why) {
    cJSON *one = cJSON_CreateObject();
    cJSON_AddItemToArray(list, one);
    cJSON_AddStringToObject(one, "case", name);
    cJSON_AddStringToObject(one, "where", why->where);
    cJSON_AddStringToObject(one, "why", why->text);
}

sonar_code bench_write_json(const bench_report *report, size_t threads, const char *path,
                            sonar_error *err) {
    cJSON *root = bench_json_begin(report, threads);
    cJSON *left_out = cJSON_AddArrayToObject(root, "left_out");
    for (size_t i = 0; i < report->left_out; i++)
        bench_json_leave_out(left_out, report->omission[i].of->name, &report->omission[i].why);
    return bench_json_end(root, path, err);
}
