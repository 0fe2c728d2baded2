/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Every call of ours that can fail is made to fail once: the n-th allocation, thread, descriptor or
 * socket call of "read the configuration, make the pipeline, start and stop it", for n = 1, 2, ...
 * until one run gets by without a failure. Each must end in an error with a place and a sentence
 * and leave no resources behind: descriptors and threads are counted here, memory by LeakSanitizer.
 *
 * The linker's --wrap catches exactly the calls made in libsonar (and in this file): calls inside
 * libzmq, FFTW, libyaml and cJSON are not tested.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include "config/config.h"
#include "pipeline/pipeline.h"
#include "process.h"

/* ---- the calls ------------------------------------------------------------------------------- */

enum family { MEMORY = 1, SYSTEM = 2, LATER = 4 };

static atomic_int family, calls, fail_at; /* fail_at 0: count only */
static const char *_Atomic failed;        /* name of the call that failed */

/* Optional files: without them a value is unknown or the built-in rule applies, and the log reports
 * it. */
static const char *name_of_open(const char *path) {
    bool of_kernel = !strncmp(path, "/proc/", 6) || !strncmp(path, "/sys/", 5);
    return of_kernel ? "fopen of the kernel's" : "fopen";
}

/* Ingest works with the threads that could be started, and the log gives their number. */
static const char *name_of_start(void) {
    return gettid() == getpid() ? "pthread_create" : "pthread_create by ingest";
}

/* Failures that are harmless if nothing else fails: these files, these threads and the linger at
 * close have a fallback. */
static bool harmless(const char *name) {
    static const char *const all[] = {"fopen of the kernel's", "pthread_create by ingest",
                                      "zmq_setsockopt of ZMQ_LINGER"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(name, all[i]))
            return true;
    return false;
}

static bool fails(enum family mine, const char *name) {
    if (!(atomic_load(&family) & (int)mine) || atomic_fetch_add(&calls, 1) + 1 != fail_at)
        return false;
    atomic_store(&failed, name);
    return true;
}

/* type __wrap_name(parameters): fails with `value` and errno, or calls the real one. */
#define WRAP(mine, type, name, parameters, arguments, value, error, label)                         \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters {                                                                \
        if (!fails(mine, label))                                                                   \
            return __real_##name arguments;                                                        \
        errno = error;                                                                             \
        return value;                                                                              \
    }

typedef void *(*entry)(void *);

/* CMakeLists.txt reads the names here, a line each. */
/* clang-format off */
WRAP(MEMORY, void *, malloc, (size_t bytes), (bytes), NULL, ENOMEM, "malloc")
WRAP(MEMORY, void *, calloc, (size_t count, size_t size), (count, size), NULL, ENOMEM, "calloc")
WRAP(MEMORY, void *, realloc, (void *old, size_t bytes), (old, bytes), NULL, ENOMEM, "realloc")
WRAP(MEMORY, void *, aligned_alloc, (size_t to, size_t bytes), (to, bytes), NULL, ENOMEM, "aligned_alloc")
WRAP(MEMORY, char *, strdup, (const char *from), (from), NULL, ENOMEM, "strdup")
WRAP(MEMORY, char *, strndup, (const char *from, size_t most), (from, most), NULL, ENOMEM, "strndup")
WRAP(MEMORY, FILE *, open_memstream, (char **to, size_t *size), (to, size), NULL, ENOMEM, "open_memstream")
WRAP(SYSTEM, int, pthread_create, (pthread_t *thread, const pthread_attr_t *how, entry run, void *arg), (thread, how, run, arg), EAGAIN, EAGAIN, name_of_start())
WRAP(SYSTEM, int, eventfd, (unsigned value, int flags), (value, flags), -1, EMFILE, "eventfd")
WRAP(SYSTEM, FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL, EMFILE, name_of_open(path))
WRAP(SYSTEM, void *, zmq_ctx_new, (void), (), NULL, EMFILE, "zmq_ctx_new")
WRAP(SYSTEM, void *, zmq_socket, (void *context, int type), (context, type), NULL, EMFILE, "zmq_socket")
WRAP(SYSTEM, int, zmq_setsockopt, (void *socket, int option, const void *value, size_t bytes), (socket, option, value, bytes), -1, EINVAL, option == ZMQ_LINGER ? "zmq_setsockopt of ZMQ_LINGER" : "zmq_setsockopt")
WRAP(SYSTEM, int, zmq_bind, (void *socket, const char *endpoint), (socket, endpoint), -1, EADDRINUSE, "zmq_bind")
WRAP(SYSTEM, int, zmq_connect, (void *socket, const char *endpoint), (socket, endpoint), -1, EINVAL, "zmq_connect")
WRAP(LATER, int, zmq_poll, (zmq_pollitem_t *items, int count, long timeout), (items, count, timeout), -1, ETERM, "zmq_poll")
/* clang-format on */

/* ---- a trial --------------------------------------------------------------------------------- */

static box place;
static char text[4096];
static int problems;

static void problem(const char *what, const char *detail) {
    problems++;
    fprintf(stderr, "plain_faults: call %d, %s, failed: %s: %s\n", (int)fail_at,
            failed ? failed : "none", what, detail);
}

static void no_log(void *ctx, sonar_level level, const char *where, const char *line) {
    (void)ctx, (void)level, (void)where, (void)line;
}

static void check_error(sonar_code code, const sonar_error *err) {
    if (err->code != code || !err->where[0] || !err->text[0] || strchr(err->text, '\n'))
        problem("the error says too little", err->text);
    if ((code == SONAR_ENOMEM) != (family == MEMORY))
        problem("the error has the wrong code", err->text);
}

/* Runs until the first failure. True: no call failed. */
static bool run_pipeline(const sonar_config *config) {
    sonar_pipeline *pipeline = NULL;
    sonar_error err = {0};
    sonar_code code = sonar_pipeline_create(config, no_log, NULL, &pipeline, &err);
    if (code && pipeline)
        problem("create failed and yet made a pipeline", err.text);
    if (!code)
        code = sonar_pipeline_start(pipeline, &err);
    if (!code)
        code = sonar_pipeline_tick(pipeline, &err);
    if (code)
        check_error(code, &err);
    else
        sonar_pipeline_stop(pipeline, 0);
    sonar_pipeline_destroy(pipeline);
    return !code;
}

/* A note or a warning without memory is reported as "and 1 more". */
static bool tells_of_more(const sonar_report *report) {
    char said[4096] = "";
    FILE *file = tmpfile();
    if (!file)
        return false;
    sonar_report_write(report, file);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = '\0';
    fclose(file);
    return strstr(said, " more\n") != NULL;
}

static bool run(void) {
    sonar_config *config = NULL;
    sonar_report *report = sonar_report_create();
    if (!report)
        return false;
    sonar_code code = sonar_config_parse("faults.yaml", text, strlen(text), &config, report);
    if (code && (config || !sonar_report_errors(report)))
        problem("the configuration failed without a word, or in half", "");
    if (code && code != (family == MEMORY ? SONAR_ENOMEM : SONAR_EINVAL))
        problem("the configuration failed with the wrong code", "");
    bool good = !code && !tells_of_more(report) && run_pipeline(config);
    sonar_config_destroy(config);
    sonar_report_destroy(report);
    return good;
}

/* All calls of a family, one trial each. Returns how many there are. */
static int sweep(enum family which, bool (*trial)(void), bool must_fail) {
    for (int n = 1;; n++) {
        size_t files = entries_of("/proc/self/fd"), threads = entries_of("/proc/self/task");
        atomic_store(&failed, NULL);
        atomic_store(&calls, 0);
        atomic_store(&fail_at, n);
        atomic_store(&family, which);
        bool good = trial();
        atomic_store(&family, 0);
        if (entries_of("/proc/self/fd") != files)
            problem("left a descriptor open", "");
        for (int i = 0; i < 1000 && entries_of("/proc/self/task") != threads; i++)
            usleep(1000); /* one that was joined may still be on its way out */
        if (entries_of("/proc/self/task") != threads)
            problem("left a thread behind", "");
        if (good && failed && must_fail && !harmless(failed))
            problem("went unnoticed", "");
        if (!failed) {
            if (!good)
                problem("failed by itself", "");
            return n - 1;
        }
    }
}

/* A thread that can no longer wait for its socket ends: the next status must report this, and not
 * show "waiting" for ever. The gate waits as soon as it is made and then only for peers, so calls
 * fail from there on. */
static void lose_threads(void) {
    sonar_config *config = NULL;
    sonar_report *report = sonar_report_create();
    if (sonar_config_parse("faults.yaml", text, strlen(text), &config, report))
        problem("the configuration failed", "");
    sonar_report_destroy(report);
    for (int n = 1; config && n <= 5; n++) {
        sonar_pipeline *pipeline = NULL;
        sonar_error err = {0};
        atomic_store(&failed, NULL);
        atomic_store(&calls, 0);
        atomic_store(&fail_at, n);
        atomic_store(&family, LATER);
        sonar_code code = sonar_pipeline_create(config, no_log, NULL, &pipeline, &err);
        if (!code)
            code = sonar_pipeline_start(pipeline, &err);
        for (int i = 0; !code && i < 1000; i++) {
            usleep(10000);
            code = sonar_pipeline_tick(pipeline, &err);
        }
        atomic_store(&family, 0);
        if (code != SONAR_ESTATE || !err.text[0])
            problem("the pipeline went on without one of its threads", err.text);
        sonar_pipeline_destroy(pipeline);
    }
    sonar_config_destroy(config);
}

/* ---- configurations -------------------------------------------------------------------------- */

static void write_config(const char *socket, const char *array, const char *shading) {
    snprintf(text, sizeof text,
             "schema: 1\n"
             "array: {id: 1, name: faulty, %s}\n"
             "sound_speed_mps: 1500\n"
             "fs_hz: 1000\n"
             "ingest: {endpoints: [\"ipc://%s/a\", \"ipc://%s/b\"], socket: %s, overload: block,\n"
             "         threads: 3}\n"
             "dft: {length: 64, hop: 32}\n"
             "cbf: {band_hz: [100, 300], ranges_m: [50, 200], shading: %s}\n"
             "lofar: {band_hz: [50, 300]}\n"
             "mvdr: {band_hz: [100, 300], length: 32, hop: 16, snapshots: 8}\n"
             "output: {endpoint: \"ipc://%s/out\"}\n"
             "runtime: {backend: cpu, threads: 3}\n",
             array, place.dir, place.dir, socket, shading, place.dir);
}

static const char line[] = "geometry: {line: {sensors: 6, spacing_m: 0.75}}, mask: [2], "
                           "gain_db: [1, 2, 3, 4, 5, 6]";

/* A configuration with mistakes must be refused with or without memory. */
static bool refused(void) {
    sonar_config *config = NULL;
    sonar_report *report = sonar_report_create();
    const char wrong[] = "schema: 1\nfs_hz: eight\nnonsense: [1, {a: b}]\narray: {id: 1}\n";
    if (!report)
        return false;
    sonar_code code = sonar_config_parse("wrong.yaml", wrong, strlen(wrong), &config, report);
    if (!code || config || !sonar_report_errors(report))
        problem("a wrong configuration was accepted", "");
    sonar_report_destroy(report);
    return code == SONAR_EINVAL;
}

int main(void) {
    place = box_open();
    write_config("pull", line, "{chebyshev: {sidelobe_db: 30}}");
    run(); /* one-time initialisation of libraries */
    int memory = sweep(MEMORY, run, true);
    int system = sweep(SYSTEM, run, true);
    lose_threads();
    write_config("sub", line, "uniform");
    system += sweep(SYSTEM, run, true);
    box_write(&place, "array.csv", "0,0,0\n1,0,0\n2,5,0\n3,0,0\n#%70000s\n", "");
    char csv[256];
    snprintf(csv, sizeof csv, "geometry: {positions: {frame: xyz, csv: %s/array.csv}}", place.dir);
    write_config("pull", csv, "uniform");
    memory += sweep(MEMORY, run, true);
    system += sweep(SYSTEM, run, true);
    memory += sweep(MEMORY, refused, false);
    printf("%d allocations and %d other calls failed, one at a time\n", memory, system);
    box_close(&place);
    if (memory < 400 || system < 60)
        problem("too few calls failed: is --wrap in force?", "");
    return problems > 0;
}
