/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The MVDR conformance suite on the CUDA plugin, on each of its paths and beside the CPU's stage.
 * Exit code 0 passed, 77 no usable device.
 *
 *   gpu_mvdr [--plugin-dir DIR] [--quick] [--time] [NAME]
 *
 * --quick keeps the sizes small, for runs under a memory or race checker; --time prints medians
 * instead of testing; NAME runs the cases whose name contains it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "backend/open.h"
#include "conformance/mvdr.h"
#include "core/core.h"

/* ---- paths ----------------------------------------------------------------------------------- */

/* Every candidate of a decision is in one of them. */
static const site_path PATHS[] = {
    {"untrained", {{NULL}}},
    {"few threads", {{"mvdr.decompose_threads", "256"}, {"mvdr.look_threads", "128"}}},
    {"many threads", {{"mvdr.decompose_threads", "1024"}, {"mvdr.look_threads", "512"}}}};
enum { PATH_COUNT = sizeof PATHS / sizeof *PATHS };

/* A table edited by hand may ask for numbers of threads that there are not: as if untrained. */
static void unknown_threads(site *site) {
    static const site_path unknown = {
        "unknown", {{"mvdr.decompose_threads", "96"}, {"mvdr.look_threads", "many"}}};
    const site_path *before = site_taken();
    float bits[2][MVDR_BITS];
    for (int i = 0; i < 2; i++) {
        site_take(i ? &unknown : &PATHS[0]);
        mvdr_bits(site, 0, bits[i]);
    }
    site_take(before);
    site_expect(site, !memcmp(bits[0], bits[1], sizeof bits[0]), "spectra differ");
}

/* ---- failures -------------------------------------------------------------------------------- */

static const char *plugin_dir;

/* The plugin is opened with its n-th fallible call failing, which counts on in create and execute;
 * false where already the opening fails. */
static bool open_failing(site *site, long n) {
    sonar_host host = *site->host;
    sonar_backend_choice again;
    sonar_error err = {0};
    host.fail_at = n;
    if (sonar_backend_open("cuda", plugin_dir, &host, &again, &err))
        return false;
    sonar_backend_close(&again);
    return true;
}

/* Each CUDA call of create and of a first execute fails once: an error with a place, no crash. */
static void injected_failures(site *site) {
    enum { FIRST = 4, MOST = 200 };
    sonar_mvdr_spec spec = mvdr_spec(4, 5, 6, 0.5);
    mvdr_fixture f;
    long n = FIRST, failed = 0;
    mvdr_open_alone(&f, site, &spec);
    for (sonar_code code = SONAR_ESYS; code && n < MOST; n++) {
        const sonar_work work = mvdr_work(&f);
        sonar_error err = {0};
        void *stage = NULL;
        if (!open_failing(site, n))
            continue;
        code = f.ops->create(&spec, site->host, &stage, &err);
        site_expect(site, !code == !!stage, "create: code %d, stage %p", (int)code, stage);
        if (!code)
            code = f.ops->execute(stage, site->queue, &f.in, f.out, &work, &err);
        f.ops->destroy(stage);
        site_expect(site, !code == !err.text[0], "code %d, \"%s\"", (int)code, err.text);
        failed += code != SONAR_OK;
    }
    site_expect(site, failed > 20 && n < MOST, "%ld calls failed", failed);
    site_expect(site, open_failing(site, 0), "the plugin does not open any more");
    mvdr_close(&f);
}

/* ---- timing ---------------------------------------------------------------------------------- */

enum { BINS = 100, ANGLES = 180, STEP = 64, RUNS = 7 };

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* STEP snapshots of unit noise and a source 52 dB above it, on the device. */
static void next_input(mvdr_fixture *f, uint64_t seed) {
    sonar_c32 *x = mvdr_record(f, STEP, &(mvdr_wave){60.5, 52}, 1, seed);
    site_send(f->site, x, &f->in);
    free(x);
}

static double step_ms(mvdr_fixture *f, size_t first, size_t count) {
    const sonar_work work = mvdr_work(f);
    sonar_error err = {0};
    sonar_buffer in = f->in;
    in.data = (sonar_c32 *)in.data + first * BINS * f->spec.sensors;
    in.shape[0] = count;
    int64_t start = sonar_monotonic_ns();
    site_require(f->site, f->ops->execute(f->stage, f->site->queue, &in, f->out, &work, &err),
                 &err);
    site_settle(f->site);
    return (double)(sonar_monotonic_ns() - start) * 1e-6;
}

static void time_one(site *site, size_t sensors, size_t snapshots) {
    mvdr_fixture f;
    double ms[RUNS];
    float sweeps = 0;
    unsigned flags = 0;
    sonar_mvdr_spec spec = mvdr_spec(sensors, ANGLES, snapshots, 0);
    spec.fs_hz = 8000, spec.length = 8192, spec.first_bin = 327, spec.bins = BINS;
    spec.max_new = STEP, spec.loading = SONAR_LOADING_NOISE, spec.eps = 1;
    mvdr_open_alone(&f, site, &spec);
    for (size_t done = 0; done < snapshots; done += STEP) {
        next_input(&f, done);
        step_ms(&f, 0, STEP);
    }
    next_input(&f, snapshots);
    for (size_t i = 0; i < RUNS; i++)
        ms[i] = step_ms(&f, i, 1);
    qsort(ms, RUNS, sizeof *ms, ascending);
    site_fetch(site, &f.out[SONAR_MVDR_OUT_INFO], f.info);
    for (size_t bin = 0; bin < BINS; bin++) {
        sweeps = fmaxf(sweeps, mvdr_info(&f, bin, SONAR_MVDR_SWEEPS));
        flags |= mvdr_flags(&f, bin);
    }
    printf("B %5zu  L %5zu  %8.3f ms  (%.3f .. %.3f)  at most %g sweeps, flags %u\n", sensors,
           snapshots, ms[RUNS / 2], ms[0], ms[RUNS - 1], (double)sweeps, flags);
    fflush(stdout);
    mvdr_close(&f);
}

static void time_all(site *site) {
    static const size_t block_of_64[] = {64, 128, 256, 512, 1024, 2048}, full[] = {64, 128, 256};
    printf("%d bins, %d angles, one new snapshot an update, medians of %d\n", BINS, ANGLES, RUNS);
    for (size_t i = 0; i < sizeof block_of_64 / sizeof *block_of_64; i++)
        time_one(site, block_of_64[i], 64);
    for (size_t i = 0; i < sizeof full / sizeof *full; i++)
        time_one(site, full[i], 2 * full[i]);
}

/* ---- main ------------------------------------------------------------------------------------ */

static const site_case CASES[] = {MVDR_CASES(MVDR_ROW) MVDR_REFUSALS(MVDR_ROW) MVDR_SOLVER_CASES(
                                      MVDR_ROW){"unknown_threads", unknown_threads},
                                  {"injected_failures", injected_failures}};
static const site_case LONG_CASES[] = {MVDR_LONG_CASES(MVDR_ROW)};

static void run(site *site, const site_case *cases, size_t count, const char *wanted) {
    for (size_t i = 0; i < count; i++)
        if (!wanted || strstr(cases[i].name, wanted))
            site_try_all(site, &cases[i], 1);
}

static void run_path(site *site, bool timing, const char *wanted) {
    printf("-- %s\n", site_taken()->name);
    if (timing) {
        time_all(site);
        return;
    }
    run(site, CASES, sizeof CASES / sizeof *CASES, wanted);
    if (!site->quick)
        run(site, LONG_CASES, sizeof LONG_CASES / sizeof *LONG_CASES, wanted);
    printf("%zu checks, %zu failed\n", site->checks, site->failures);
}

int main(int argc, char **argv) {
    const char *wanted = NULL;
    bool timing = false, quick = false;
    char beside[512];
    plugin_dir = gpu_plugin_dir(beside, sizeof beside);
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--quick"))
            quick = true;
        else if (!strcmp(argv[i], "--time"))
            timing = true;
        else if (!strcmp(argv[i], "--plugin-dir") && i + 1 < argc)
            plugin_dir = argv[++i];
        else
            wanted = argv[i];
    sonar_host host = *sonar_host_serial();
    sonar_backend_choice choice;
    sonar_error err = {0};
    if (sonar_backend_open("cuda", plugin_dir, &host, &choice, &err)) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    printf("%s\n", choice.description);
    host.choice = site_choose;
    site site = site_open(choice.backend, &host);
    site.quick = quick;
    for (size_t i = 0; i < PATH_COUNT; i++) {
        site_take(&PATHS[i]);
        run_path(&site, timing, wanted);
    }
    const bool failed = site.failures || (!timing && !site.checks);
    site_close(&site);
    sonar_backend_close(&choice);
    return failed;
}
