/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The MVDR conformance suite on the CUDA plugin, with either solver and beside the CPU's stage.
 * Exit code 0 passed, 77 no usable device.
 *
 *   gpu_mvdr [--plugin-dir DIR] [--quick] [--time] [--huge] [NAME]
 *
 * --quick keeps the sizes small, for runs under a memory or race checker; --time prints medians
 * instead of testing, --huge also of arrays of up to half a million sensors; NAME runs the cases
 * whose name contains it, or takes the times of that solver.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "backend/open.h"
#include "conformance/mvdr.h"
#include "core/core.h"

/* ---- solvers --------------------------------------------------------------------------------- */

/* Every case again with eigenvectors: a stage whose create asks for Jacobi whatever the spec says.
 */
static const sonar_stage_ops *plugin_ops;

static sonar_code create_jacobi(const void *opaque, const sonar_host *host, void **out,
                                sonar_error *err) {
    sonar_mvdr_spec spec = *(const sonar_mvdr_spec *)opaque;
    spec.solver = SONAR_MVDR_JACOBI;
    return plugin_ops->create(&spec, host, out, err);
}

static const sonar_stage_ops *jacobi_stage(const char *name) {
    static sonar_stage_ops ops;
    if (strcmp(name, "mvdr_jacobi") != 0)
        return NULL;
    ops = *plugin_ops;
    ops.create = create_jacobi;
    return &ops;
}

/* ---- eigenvectors by cuSOLVER ---------------------------------------------------------------- */

static const site_path LIBRARY = {"cusolver", {{"mvdr.eigenvectors", "cusolver"}}},
                       ABSENT = {"absent",
                                 {{"mvdr.eigenvectors", "cusolver"}, {"mvdr.cusolver", "1"}}},
                       GRID = {"grid", {{"mvdr.factor", "grid"}}},
                       BIN = {"bin", {{"mvdr.factor", "bin"}}};
/* The streaming inverse with any number of sensors. */
static const site_path FOLLOW = {"follow", {{"mvdr.inverse", "follow"}}};
static char logged[400]; /* last */

static void keep_log(void *ctx, sonar_level level, const char *place, const char *text) {
    (void)ctx, (void)level;
    snprintf(logged, sizeof logged, "%s: %s", place, text);
}

/* What a stage makes on a path of a block in a scene of two sources: the spectrum, then MUSIC where
 * there is any. malloc'ed. */
typedef struct surfaces {
    size_t count;
    float *value, sweeps;
} surfaces;

static surfaces surfaces_on(site *site, const site_path *way, const sonar_mvdr_spec *spec) {
    mvdr_fixture f;
    logged[0] = 0;
    site_take(way);
    mvdr_open_alone(&f, site, spec);
    site_take(NULL);
    sonar_c32 *x =
        mvdr_record(&f, spec->snapshots, (mvdr_wave[]){{50.5, 40}, {81, 20}}, 2, spec->sensors);
    mvdr_run(&f, spec->snapshots, x);
    const size_t looks = spec->directions, spectrum = spec->bins * looks;
    const surfaces made = {spectrum + (spec->music ? looks : 0),
                           malloc((spectrum + looks) * sizeof(float)),
                           mvdr_info(&f, 0, SONAR_MVDR_SWEEPS)};
    memcpy(made.value, f.spectrum, spectrum * sizeof(float));
    if (spec->music)
        memcpy(made.value + spectrum, f.music, looks * sizeof(float));
    free(x);
    mvdr_close(&f);
    return made;
}

static bool has_library(site *site) {
    sonar_mvdr_spec spec = mvdr_spec(5, 4, 6, 0);
    spec.solver = SONAR_MVDR_JACOBI;
    free(surfaces_on(site, &LIBRARY, &spec).value);
    return !logged[0];
}

/* The library makes no sweeps, Jacobi's method does; both make the same surfaces. */
static void same_by_library(site *site, const sonar_mvdr_spec *spec) {
    const surfaces library = surfaces_on(site, &LIBRARY, spec), own = surfaces_on(site, NULL, spec);
    site_expect(site, library.sweeps == 0 && own.sweeps > 0, "sweeps %g and %g",
                (double)library.sweeps, (double)own.sweeps);
    for (size_t at = 0; at < own.count; at++)
        site_expect(site,
                    fabs(10 * log10((double)library.value[at] / (double)own.value[at])) < 1e-4,
                    "%zu sensors, DMR %d, MUSIC %d, value %zu: %g, own %g", spec->sensors,
                    spec->dmr, spec->music, at, (double)library.value[at], (double)own.value[at]);
    free(library.value);
    free(own.value);
}

/* All that wants eigenvectors, odd orders and snapshot space included. */
static void by_library(site *site) {
    static const size_t sensors[] = {7, 40, 90, 150, 600}, snapshots[] = {20, 80, 33, 300, 1200};
    static const struct {
        sonar_mvdr_solver solver;
        int dmr, music;
    } ways[] = {{SONAR_MVDR_JACOBI, 0, 0},
                {SONAR_MVDR_AUTO, 2, 0},
                {SONAR_MVDR_JACOBI, 0, 2},
                {SONAR_MVDR_CHOLESKY, 0, 2}};
    const bool any = has_library(site);
    for (size_t i = 0; any && i < (site->quick ? 2 : 5); i++)
        for (size_t k = 0; k < (sensors[i] < 500 ? 4 : 1); k++) {
            sonar_mvdr_spec spec = mvdr_spec(sensors[i], 30, snapshots[i], 0);
            spec.bins = 3, spec.loading = SONAR_LOADING_NOISE, spec.eps = 1;
            spec.solver = ways[k].solver, spec.dmr = ways[k].dmr, spec.music = ways[k].music;
            same_by_library(site, &spec);
        }
    site_expect(site, true, "without the library there is nothing to try");
}

/* Without it the stage is what it is untrained, to the bit, and says why. */
static void absent_library(site *site) {
    sonar_mvdr_spec spec = mvdr_spec(12, 30, 30, 0);
    spec.solver = SONAR_MVDR_JACOBI;
    const surfaces absent = surfaces_on(site, &ABSENT, &spec);
    site_expect(site, strstr(logged, "libcusolver.so.1:") && strstr(logged, "cannot be loaded"),
                "%s", logged);
    const surfaces own = surfaces_on(site, NULL, &spec);
    site_expect(site, !logged[0], "%s", logged);
    site_expect(site,
                absent.sweeps == own.sweeps &&
                    !memcmp(absent.value, own.value, own.count * sizeof(float)),
                "another spectrum");
    free(absent.value);
    free(own.value);
}

static sonar_code execute_block(mvdr_fixture *f, sonar_error *err) {
    const sonar_work work = mvdr_work(f);
    return f->ops->execute(f->stage, f->site->queue, &f->in, f->out, &work, err);
}

/* Records an execute; false where the stage says that there can be no recording. */
static bool record_block(mvdr_fixture *f, sonar_graph **graph) {
    site *site = f->site;
    const sonar_backend *b = site->backend;
    sonar_error err = {0};
    site_require(site, b->graph_begin(site->queue, &err), &err);
    const sonar_code code = execute_block(f, &err);
    if (code == SONAR_EUNAVAILABLE)
        b->graph_end(site->queue, NULL, NULL);
    else
        site_require(site, code ? code : b->graph_end(site->queue, graph, &err), &err);
    return !code;
}

/* Three blocks one after the other, the last two from a graph where there can be one: the same
 * bits. */
static void recorded(site *site) {
    static const struct {
        size_t sensors;
        sonar_mvdr_solver solver;
        const site_path *way;
    } cases[] = {{70, SONAR_MVDR_JACOBI, &LIBRARY},
                 {70, SONAR_MVDR_CHOLESKY, &GRID},
                 {600, SONAR_MVDR_JACOBI, &LIBRARY},
                 {600, SONAR_MVDR_CHOLESKY, &GRID}};
    for (size_t i = 0; i < (site->quick ? 2 : 4); i++) {
        mvdr_fixture f, other;
        sonar_error err = {0};
        sonar_mvdr_spec spec = mvdr_spec(cases[i].sensors, 20, 2 * cases[i].sensors, 0);
        sonar_graph *graph = NULL;
        spec.solver = cases[i].solver;
        site_take(cases[i].way);
        mvdr_open_alone(&f, site, &spec);
        mvdr_open_alone(&other, site, &spec);
        site_take(NULL);
        sonar_c32 *x = mvdr_record(&f, 3 * spec.snapshots, &(mvdr_wave){60.5, 30}, 1, 3);
        const size_t block = spec.snapshots * spec.sensors;
        mvdr_run(&f, spec.snapshots, x);
        mvdr_run(&other, spec.snapshots, x);
        const bool able = record_block(&f, &graph);
        site_expect(site, able || (cases[i].way == &LIBRARY && spec.sensors > 512),
                    "%zu sensors were not recorded", spec.sensors);
        for (size_t k = 1; k < 3; k++) {
            site_send(site, x + k * block, &f.in);
            site_require(site,
                         able ? site->backend->graph_run(site->queue, graph, &err)
                              : execute_block(&f, &err),
                         &err);
            site_fetch(site, &f.out[SONAR_MVDR_OUT_SPECTRUM], f.spectrum);
            mvdr_run(&other, spec.snapshots, x + k * block);
            site_expect(site, !memcmp(f.spectrum, other.spectrum, spec.directions * sizeof(float)),
                        "%zu sensors, block %zu: other bits", spec.sensors, k);
        }
        if (able)
            site->backend->graph_destroy(graph);
        free(x);
        mvdr_close(&f);
        mvdr_close(&other);
    }
}

/* A window of one snapshot, recorded before there is an inverse, then from the graph while it
 * comes, goes on, and has to be made anew: the same bits. */
static void recorded_inverse(site *site) {
    enum { B = 70, L = 150, WINDOWS = 200 };
    const mvdr_wave waves[] = {{60.5, 30}, {100, 60}};
    mvdr_fixture f, other;
    sonar_error err = {0};
    sonar_mvdr_spec spec = mvdr_spec(B, 20, L, 0);
    sonar_graph *graph = NULL;
    spec.max_new = 1;
    site_take(&FOLLOW);
    mvdr_open_alone(&f, site, &spec);
    mvdr_open_alone(&other, site, &spec);
    site_take(NULL);
    sonar_c32 *x = mvdr_record(&f, WINDOWS, waves, 2, 3), *loud = mvdr_record(&f, 1, waves, 2, 4);
    mvdr_run(&f, 1, x);
    mvdr_run(&other, 1, x);
    site_expect(site, record_block(&f, &graph), "a window that slides was not recorded");
    for (size_t k = 1; k < WINDOWS && graph; k++) {
        const sonar_c32 *from = k % 50 ? x + k * B : loud;
        site_send(site, from, &f.in);
        site_require(site, site->backend->graph_run(site->queue, graph, &err), &err);
        site_fetch(site, &f.out[SONAR_MVDR_OUT_SPECTRUM], f.spectrum);
        mvdr_run(&other, 1, from);
        site_expect(site, !memcmp(f.spectrum, other.spectrum, spec.directions * sizeof(float)),
                    "window %zu: other bits", k);
    }
    if (graph)
        site->backend->graph_destroy(graph);
    free(x);
    free(loud);
    mvdr_close(&f);
    mvdr_close(&other);
}

/* ---- factors by all multiprocessors ---------------------------------------------------------- */

/* Orders beside the edges of panels and squares: the oracle's spectrum, the CPU's, and the levels
 * and loadings that a block for each bin finds. One bin has no numbers, and one no data. */
static void orders_on_grid(site *site) {
    static const size_t orders[] = {1, 31, 33, 63, 64, 65, 95, 97, 128, 129, 161, 225, 257, 300};
    for (size_t i = 0; i < (site->quick ? 8 : sizeof orders / sizeof *orders); i++) {
        mvdr_fixture f, other;
        sonar_mvdr_spec spec = mvdr_spec(orders[i], 40, orders[i] + 30, 0);
        spec.bins = 5, spec.solver = SONAR_MVDR_CHOLESKY;
        spec.loading = i % 3 ? SONAR_LOADING_TRACE : SONAR_LOADING_ABSOLUTE;
        spec.eps = i % 2 ? 0.01 : 1e-4;
        site_take(&BIN);
        mvdr_open_alone(&other, site, &spec);
        site_take(&GRID);
        mvdr_open(&f, site, &spec);
        site_take(NULL);
        sonar_c32 *x = mvdr_record(&f, spec.snapshots, (mvdr_wave[]){{50.5, 60}, {81, 20}}, 2, i);
        for (size_t l = 0; l < spec.snapshots; l++)
            for (size_t k = 0; k < spec.sensors; k++) {
                x[(l * spec.bins + 1) * spec.sensors + k].re = NAN;
                x[(l * spec.bins + 3) * spec.sensors + k] = (sonar_c32){0, 0};
            }
        mvdr_run(&f, spec.snapshots, x);
        mvdr_run(&other, spec.snapshots, x);
        for (size_t bin = 0; bin < spec.bins; bin += 2)
            mvdr_expect(&f, bin, spec.snapshots, x, 0.01);
        for (size_t at = 0; at < spec.bins * spec.directions; at++)
            site_expect(site,
                        fabsf(f.spectrum[at] - other.spectrum[at]) <= 1e-4f * other.spectrum[at],
                        "order %zu, value %zu: %g, by one block %g", orders[i], at,
                        (double)f.spectrum[at], (double)other.spectrum[at]);
        for (size_t bin = 0; bin < spec.bins; bin++)
            for (int field = 0; field < SONAR_MVDR_INFO_FIELDS; field++) {
                const float got = mvdr_info(&f, bin, field), by_one = mvdr_info(&other, bin, field);
                site_expect(site, fabsf(got - by_one) <= 1e-5f * fabsf(by_one),
                            "order %zu, bin %zu, field %d: %g, by one block %g", orders[i], bin,
                            field, (double)got, (double)by_one);
            }
        free(x);
        mvdr_close(&f);
        mvdr_close(&other);
    }
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
static void fail_each_call(site *site, const sonar_mvdr_spec *spec) {
    enum { FIRST = 4, MOST = 300 };
    mvdr_fixture f;
    long n = FIRST, failed = 0;
    mvdr_open_alone(&f, site, spec);
    for (sonar_code code = SONAR_ESYS; code && n < MOST; n++) {
        const sonar_work work = mvdr_work(&f);
        sonar_error err = {0};
        void *stage = NULL;
        if (!open_failing(site, n))
            continue;
        code = f.ops->create(spec, site->host, &stage, &err);
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

static void injected_failures(site *site) {
    const sonar_mvdr_spec fades = mvdr_spec(4, 5, 6, 0.5);
    sonar_mvdr_spec slides = mvdr_spec(4, 5, 6, 0);
    slides.max_new = 1; /* so that the inverse may follow */
    fail_each_call(site, &fades);
    site_take(&FOLLOW);
    fail_each_call(site, &slides);
    site_take(NULL);
}

/* ---- timing ---------------------------------------------------------------------------------- */

enum { BINS = 100, ANGLES = 180, STEP = 64, RUNS = 7 };

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Milliseconds of an execute with `count` snapshots x[snapshot][bin][sensor]. */
static double step_ms(mvdr_fixture *f, size_t count, const sonar_c32 *x, bool solved) {
    sonar_work work = mvdr_work(f);
    work.outputs = solved ? work.outputs : 0;
    sonar_error err = {0};
    sonar_buffer in = f->in;
    in.shape[0] = count;
    in.bytes = count * BINS * f->spec.sensors * sizeof *x;
    if (count)
        site_send(f->site, x, &in);
    int64_t start = sonar_monotonic_ns();
    site_require(f->site, f->ops->execute(f->stage, f->site->queue, &in, f->out, &work, &err),
                 &err);
    site_settle(f->site);
    return (double)(sonar_monotonic_ns() - start) * 1e-6;
}

/* `count` snapshots: a source 52 dB above unit noise, or, where that takes too long, noise alone.
 */
static sonar_c32 *input(const mvdr_fixture *f, size_t count) {
    if (f->spec.sensors * f->spec.snapshots <= 1 << 19)
        return mvdr_record(f, count, &(mvdr_wave){60.5, 52}, 1, 7);
    const size_t values = count * BINS * f->spec.sensors;
    sonar_c32 *x = malloc(values * sizeof *x);
    uint64_t state = 7;
    for (size_t i = 0; x && i < values; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] = (sonar_c32){(float)(int32_t)(state >> 32) * 0x1p-31f,
                           (float)(int32_t)(state << 8 >> 32) * 0x1p-31f};
    }
    return x;
}

/* to = (R + delta I) from, R from the bin's last window x[snapshot][bin][sensor]. */
static void apply(const mvdr_fixture *f, size_t bin, const sonar_c32 *x, double delta,
                  const cplx *from, cplx *to) {
    const size_t n = f->spec.sensors, count = f->spec.snapshots;
    for (size_t k = 0; k < n; k++)
        to[k] = delta * from[k];
    for (size_t i = 0; i < count; i++) {
        const sonar_c32 *v = x + (i * BINS + bin) * n;
        double re = 0, im = 0;
        for (size_t k = 0; k < n; k++) {
            const double vr = (double)v[k].re, vi = (double)v[k].im;
            re += vr * creal(from[k]) + vi * cimag(from[k]);
            im += vr * cimag(from[k]) - vi * creal(from[k]);
        }
        const cplx weight = (re + I * im) / (double)count;
        for (size_t k = 0; k < n; k++)
            to[k] += weight * ((double)v[k].re + I * (double)v[k].im);
    }
}

static double dot(size_t n, const cplx *x, const cplx *y) {
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += creal(conj(x[k]) * y[k]);
    return sum;
}

/* P of a bin's last window in one direction by conjugate gradients, in double, with steering
 * vectors that are not rounded: the oracle's matrix of all sensors would take hours. */
static double reference(const mvdr_fixture *f, size_t bin, size_t direction, const sonar_c32 *x) {
    const size_t n = f->spec.sensors;
    const double delta = (double)mvdr_info(f, bin, SONAR_MVDR_DELTA);
    cplx *w = calloc(5 * n, sizeof *w), *a = w + n, *rest = a + n, *step = rest + n,
         *image = step + n;
    mvdr_steering(f, bin, mvdr_azimuth_deg(f, direction), a);
    memcpy(rest, a, n * sizeof *a);
    memcpy(step, a, n * sizeof *a);
    double left = dot(n, rest, rest);
    const double enough = 1e-20 * left;
    for (int i = 0; i < 500 && left > enough; i++) {
        apply(f, bin, x, delta, step, image);
        const double length = left / dot(n, step, image), before = left;
        for (size_t k = 0; k < n; k++)
            w[k] += length * step[k], rest[k] -= length * image[k];
        left = dot(n, rest, rest);
        for (size_t k = 0; k < n; k++)
            step[k] = rest[k] + left / before * step[k];
    }
    const double power = 1 / dot(n, a, w);
    free(w);
    return power;
}

/* Worst error of the last window in the first and the last bin: beside the oracle in all
 * directions, or in a few beside the reference; NaN where even that takes too long. */
static double worst_db(mvdr_fixture *f, const sonar_c32 *x) {
    const size_t bins[] = {0, BINS - 1},
                 looks = f->spec.sensors * f->spec.snapshots > 1 << 22 ? 2 : 8;
    double worst = 0;
    if (f->spec.sensors > 16384)
        return NAN;
    site_fetch(f->site, &f->out[SONAR_MVDR_OUT_SPECTRUM], f->spectrum);
    if (f->spec.sensors <= 512)
        return fmax(mvdr_error_db(f, 0, f->spec.snapshots, x),
                    mvdr_error_db(f, BINS - 1, f->spec.snapshots, x));
    for (size_t b = 0; b < 2; b++)
        for (size_t i = 0; i < looks; i++) {
            const size_t t = (2 * i + 1) * ANGLES / (2 * looks);
            const double got = (double)f->spectrum[bins[b] * ANGLES + t];
            worst = fmax(worst, fabs(10 * log10(got / reference(f, bins[b], t, x))));
        }
    return worst;
}

static const char *wanted_rows; /* those whose first word contains it; NULL: all */

static void time_one(site *site, size_t sensors, size_t snapshots, sonar_mvdr_solver solver,
                     sonar_loading loading) {
    static const char *const names[] = {"auto", "jacobi", "cholesky"};
    const char *name = site_taken() ? site_taken()->name : names[solver];
    mvdr_fixture f;
    double ms[RUNS], fill_ms = 0;
    unsigned flags = 0;
    sonar_mvdr_spec spec = mvdr_spec(sensors, ANGLES, snapshots, 0);
    if (wanted_rows && !strstr(name, wanted_rows))
        return;
    spec.fs_hz = 8000, spec.length = 8192, spec.first_bin = 327, spec.bins = BINS;
    spec.max_new = sensors > 16384 ? 8 : STEP;
    spec.loading = loading, spec.eps = loading == SONAR_LOADING_TRACE ? 0.01 : 1;
    spec.solver = solver;
    mvdr_open_alone(&f, site, &spec);
    const size_t stride = BINS * sensors, kept = sensors > 16384 ? spec.max_new : snapshots + RUNS;
    sonar_c32 *x = input(&f, kept);
    for (size_t done = 0; done < snapshots; done += spec.max_new) { /* the last one is solved */
        const size_t count = sonar_min_size(spec.max_new, snapshots - done);
        fill_ms = step_ms(&f, count, x + done % kept * stride, done + count == snapshots);
    }
    for (size_t i = 0; i < RUNS; i++)
        ms[i] = step_ms(&f, 1, x + (snapshots + i) % kept * stride, true);
    qsort(ms, RUNS, sizeof *ms, ascending);
    site_fetch(site, &f.out[SONAR_MVDR_OUT_INFO], f.info);
    for (size_t bin = 0; bin < BINS; bin++)
        flags |= mvdr_flags(&f, bin);
    const double off_db = worst_db(&f, x + RUNS * stride);
    printf("%-8s %s B %6zu  L %5zu  %9.3f ms  (%.3f .. %.3f)  first, %zu new %.3f ms  level %.4f  "
           "flags %u",
           name, loading == SONAR_LOADING_TRACE ? "trace" : "noise", sensors, snapshots,
           ms[RUNS / 2], ms[0], ms[RUNS - 1], spec.max_new, fill_ms,
           (double)mvdr_info(&f, 0, SONAR_MVDR_LEVEL), flags);
    if (isfinite(off_db))
        printf("  %.2g dB off", off_db);
    printf("\n");
    fflush(stdout);
    free(x);
    mvdr_close(&f);
}

static void time_all(site *site, bool huge) {
    static const size_t block_of_64[] = {64, 256, 512, 2048, 16384, 262144, 524288};
    static const size_t full[] = {64, 128, 256, 512, 1024, 2048};
    printf("%d bins, %d angles, one new snapshot an update, medians of %d\n", BINS, ANGLES, RUNS);
    for (size_t i = 0; i < (huge ? 7 : 5); i++)
        time_one(site, block_of_64[i], 64, SONAR_MVDR_CHOLESKY, SONAR_LOADING_NOISE);
    for (size_t i = 0; i < sizeof full / sizeof *full; i++)
        time_one(site, full[i], 2 * full[i], SONAR_MVDR_CHOLESKY, SONAR_LOADING_TRACE);
    for (size_t i = 0; i < sizeof full / sizeof *full; i++)
        time_one(site, full[i], 2 * full[i], SONAR_MVDR_CHOLESKY, SONAR_LOADING_NOISE);
    for (size_t i = 0; i < 3; i++)
        time_one(site, full[i], 2 * full[i], SONAR_MVDR_JACOBI, SONAR_LOADING_NOISE);
    time_one(site, 512, 64, SONAR_MVDR_JACOBI, SONAR_LOADING_NOISE);
    site_take(&LIBRARY);
    for (size_t i = 0; i < 5; i++)
        time_one(site, full[i], 2 * full[i], SONAR_MVDR_JACOBI, SONAR_LOADING_NOISE);
    time_one(site, 512, 64, SONAR_MVDR_JACOBI, SONAR_LOADING_NOISE);
    site_take(NULL);
}

/* ---- main ------------------------------------------------------------------------------------ */

static const site_case CASES[] = {MVDR_CASES(MVDR_ROW) MVDR_REFUSALS(MVDR_ROW) MVDR_SOLVER_CASES(
                                      MVDR_ROW){"injected_failures", injected_failures},
                                  {"by_library", by_library},
                                  {"absent_library", absent_library},
                                  {"recorded", recorded},
                                  {"recorded_inverse", recorded_inverse},
                                  {"orders_on_grid", orders_on_grid}};
static const site_case LONG_CASES[] = {MVDR_LONG_CASES(MVDR_ROW)};
static const site_case INVERSE_CASES[] = {MVDR_INVERSE_CASES(MVDR_ROW) MVDR_SPOILT_CASES(MVDR_ROW)};

static void run(site *site, const site_case *cases, size_t count, const char *wanted) {
    for (size_t i = 0; i < count; i++)
        if (!wanted || strstr(cases[i].name, wanted))
            site_try_all(site, &cases[i], 1);
}

static void run_all(site *site, const char *wanted) {
    run(site, CASES, sizeof CASES / sizeof *CASES, wanted);
    run(site, INVERSE_CASES, sizeof INVERSE_CASES / sizeof *INVERSE_CASES, wanted);
    if (!site->quick)
        run(site, LONG_CASES, sizeof LONG_CASES / sizeof *LONG_CASES, wanted);
}

/* The cases, and those about the spectrum again with factors by all multiprocessors, Jacobi's
 * eigenvectors and cuSOLVER's. */
static void run_solvers(site *site, const char *wanted) {
    static const site_case spectra[] = {MVDR_CASES(MVDR_ROW)};
    const sonar_backend *own = site->backend;
    sonar_backend with_jacobi = *own;
    run_all(site, wanted);
    printf("-- grid\n");
    site_take(&GRID);
    run(site, spectra, sizeof spectra / sizeof *spectra, wanted);
    if (!site->quick)
        run(site, LONG_CASES, sizeof LONG_CASES / sizeof *LONG_CASES, wanted);
    site_take(NULL);
    printf("-- jacobi\n");
    plugin_ops = own->stage("mvdr_jacobi");
    with_jacobi.stage = jacobi_stage;
    site->backend = &with_jacobi;
    run(site, spectra, sizeof spectra / sizeof *spectra, wanted);
    const bool library = has_library(site);
    printf("-- cusolver%s\n", library ? "" : ": not there");
    site_take(&LIBRARY);
    if (library)
        run(site, spectra, sizeof spectra / sizeof *spectra, wanted);
    site_take(NULL);
    site->backend = own;
    printf("%zu checks, %zu failed\n", site->checks, site->failures);
}

int main(int argc, char **argv) {
    const char *wanted = NULL;
    bool timing = false, huge = false, quick = false;
    char beside[512];
    plugin_dir = gpu_plugin_dir(beside, sizeof beside);
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--quick"))
            quick = true;
        else if (!strcmp(argv[i], "--time"))
            timing = true;
        else if (!strcmp(argv[i], "--huge"))
            timing = huge = true;
        else if (!strcmp(argv[i], "--plugin-dir") && i + 1 < argc)
            plugin_dir = argv[++i];
        else
            wanted = argv[i];
    sonar_host host = *sonar_host_serial();
    host.choice = site_choose;
    host.log = keep_log;
    sonar_backend_choice choice;
    sonar_error err = {0};
    if (sonar_backend_open("cuda", plugin_dir, &host, &choice, &err)) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    printf("%s\n", choice.description);
    site site = site_open(choice.backend, &host);
    site.quick = quick;
    wanted_rows = wanted;
    if (timing)
        time_all(&site, huge);
    else
        run_solvers(&site, wanted);
    const bool failed = site.failures || (!timing && !site.checks);
    site_close(&site);
    sonar_backend_close(&choice);
    return failed;
}
