/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The MVDR conformance suite on the CUDA plugin, with both solvers, compared with the CPU's stage.
 * Exit code 0 passed, 77 no usable device.
 *
 *   gpu_mvdr [--plugin-dir DIR] [--quick] [--tiny] [--time] [--huge] [--full] [--sensors N]
 * [--ways]
 *            [--bins N] [NAME]
 *
 * --quick keeps the sizes small, for runs under a memory checker; --tiny limits the cases for the
 * race checker to a minute. --time prints medians instead of testing; --huge also those of arrays
 * of up to half a million sensors; --full only those of factors of full rank, and with --quick only
 * of noise and without errors; --sensors those of an array of N sensors with several new snapshots
 * at a time; --ways those of the routes for the rule trace; --bins those of N bins. NAME selects
 * the cases whose name contains it, or with --time the rows of that "solver rule sensors".
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "backend/open.h"
#include "conformance/mvdr.h"
#include "conformance/mvdr_beside.h"
#include "core/core.h"
#include "inverse_cuda.h"
#include "mvdr_jacobi/common.h"
#include "mvdr_jacobi/rules/inverse.h"
#include "oracle.h"

/* ---- solvers --------------------------------------------------------------------------------- */

/* Every case again with eigenvectors: create requests Jacobi for any specification.
 */
static const sonar_stage_ops *plugin_ops;
static bool tiny; /* --tiny */

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

/* ---- routes by name -------------------------------------------------------------------------- */

static const site_path GRID = {"grid", {{"mvdr.route", "factor-grid median-grid"}}},
                       BIN = {"bin", {{"mvdr.route", "factor median"}}};
/* The updated inverse with any number of sensors. */
static const site_path FOLLOW = {"follow", {{"mvdr.route", "update"}}};
/* Jacobi's eigenvectors in every stage. */
static const site_path WITH_JACOBI = {"with-jacobi", {{NULL}}};
/* Results of a stage for a block in a scene of two sources: the spectrum, then MUSIC if enabled.
 * malloc'ed. */
typedef struct surfaces {
    size_t count;
    float *value;
} surfaces;

static surfaces surfaces_of(site *site, const sonar_mvdr_spec *spec) {
    mvdr_fixture f;
    mvdr_open_alone(&f, site, spec);
    sonar_c32 *x =
        mvdr_record(&f, spec->snapshots, (mvdr_wave[]){{50.5, 40}, {81, 20}}, 2, spec->sensors);
    mvdr_run(&f, spec->snapshots, x);
    const size_t looks = spec->directions, spectrum = spec->bins * looks;
    const surfaces made = {spectrum + (spec->music ? looks : 0),
                           malloc((spectrum + looks) * sizeof(float))};
    memcpy(made.value, f.spectrum, spectrum * sizeof(float));
    if (spec->music)
        memcpy(made.value + spectrum, f.music, looks * sizeof(float));
    free(x);
    mvdr_close(&f);
    return made;
}

/* The spectrum by eigenvectors is that by a factor, and MUSIC does not depend on the solver. With
 * odd orders, in snapshot space and with matrices of several hundred rows. The noise rule would not
 * do, because the two find the median to 0.005 dB in different ways. */
static void eigenvectors_as_factors(site *site) {
    static const size_t sensors[] = {7, 40, 90, 150, 600}, snapshots[] = {20, 80, 33, 300, 1200};
    for (size_t i = 0; i < (site->quick ? 2 : 5); i++)
        for (int music = 0; music <= 2; music += 2) {
            sonar_mvdr_spec spec = mvdr_spec(sensors[i], 30, snapshots[i], 0);
            spec.bins = 3, spec.loading = SONAR_LOADING_TRACE, spec.eps = 0.01, spec.music = music;
            const surfaces factor = surfaces_of(site, &spec);
            spec.solver = SONAR_MVDR_JACOBI;
            const surfaces vectors = surfaces_of(site, &spec);
            for (size_t at = 0; at < vectors.count; at++)
                site_expect(
                    site,
                    fabs(10 * log10((double)factor.value[at] / (double)vectors.value[at])) < 1e-4,
                    "%zu sensors, MUSIC %d, value %zu: by a factor %g, by eigenvectors %g",
                    spec.sensors, music, at, (double)factor.value[at], (double)vectors.value[at]);
            free(factor.value);
            free(vectors.value);
        }
}

static sonar_code execute_block(mvdr_fixture *f, sonar_error *err) {
    const sonar_work work = mvdr_work(f);
    return f->ops->execute(f->stage, f->site->queue, &f->in, f->out, &work, err);
}

/* Records an execute. */
static sonar_graph *record_block(mvdr_fixture *f) {
    site *site = f->site;
    const sonar_backend *b = site->backend;
    sonar_graph *graph = NULL;
    sonar_error err = {0};
    site_require(site, b->graph_begin(site->queue, &err), &err);
    site_require(site, execute_block(f, &err), &err);
    site_require(site, b->graph_end(site->queue, &graph, &err), &err);
    return graph;
}

/* Three blocks one after the other, the last two from a graph: the same bits. */
static void recorded(site *site) {
    static const struct {
        size_t sensors;
        sonar_mvdr_solver solver;
        const site_path *way;
    } cases[] = {{70, SONAR_MVDR_JACOBI, NULL},
                 {70, SONAR_MVDR_AUTO, &GRID},
                 {600, SONAR_MVDR_JACOBI, NULL},
                 {600, SONAR_MVDR_AUTO, &GRID}};
    for (size_t i = 0; i < (site->quick ? 2 : 4); i++) {
        mvdr_fixture f, other;
        sonar_error err = {0};
        sonar_mvdr_spec spec = mvdr_spec(cases[i].sensors, 20, 2 * cases[i].sensors, 0);
        spec.solver = cases[i].solver;
        site_take(cases[i].way);
        mvdr_open_alone(&f, site, &spec);
        mvdr_open_alone(&other, site, &spec);
        site_take(NULL);
        sonar_c32 *x = mvdr_record(&f, 3 * spec.snapshots, &(mvdr_wave){60.5, 30}, 1, 3);
        const size_t block = spec.snapshots * spec.sensors;
        mvdr_run(&f, spec.snapshots, x);
        mvdr_run(&other, spec.snapshots, x);
        sonar_graph *graph = record_block(&f);
        for (size_t k = 1; k < 3; k++) {
            site_send(site, x + k * block, &f.in);
            site_require(site, site->backend->graph_run(site->queue, graph, &err), &err);
            site_fetch(site, &f.out[SONAR_MVDR_OUT_SPECTRUM], f.spectrum);
            mvdr_run(&other, spec.snapshots, x + k * block);
            site_expect(site, !memcmp(f.spectrum, other.spectrum, spec.directions * sizeof(float)),
                        "%zu sensors, block %zu: other bits", spec.sensors, k);
        }
        site->backend->graph_destroy(graph);
        free(x);
        mvdr_close(&f);
        mvdr_close(&other);
    }
}

/* A window of one snapshot, recorded before an inverse exists, then run as a graph while the
 * inverse is created, updated and recomputed: the same bits. */
static void recorded_inverse(site *site) {
    enum { B = 70, L = 150, WINDOWS = 200 };
    const size_t windows = tiny ? 9 : WINDOWS;
    const mvdr_wave waves[] = {{60.5, 30}, {100, 60}};
    mvdr_fixture f, other;
    sonar_error err = {0};
    sonar_mvdr_spec spec = mvdr_spec(B, 20, L, 0);
    spec.max_new = 1;
    site_take(&FOLLOW);
    mvdr_open_alone(&f, site, &spec);
    mvdr_open_alone(&other, site, &spec);
    site_take(NULL);
    sonar_c32 *x = mvdr_record(&f, WINDOWS, waves, 2, 3), *loud = mvdr_record(&f, 1, waves, 2, 4);
    mvdr_run(&f, 1, x);
    mvdr_run(&other, 1, x);
    sonar_graph *graph = record_block(&f);
    for (size_t k = 1; k < windows; k++) {
        const sonar_c32 *from = k % (tiny ? 5 : 50) ? x + k * B : loud;
        site_send(site, from, &f.in);
        site_require(site, site->backend->graph_run(site->queue, graph, &err), &err);
        site_fetch(site, &f.out[SONAR_MVDR_OUT_SPECTRUM], f.spectrum);
        mvdr_run(&other, 1, from);
        site_expect(site, !memcmp(f.spectrum, other.spectrum, spec.directions * sizeof(float)),
                    "window %zu: other bits", k);
    }
    site->backend->graph_destroy(graph);
    free(x);
    free(loud);
    mvdr_close(&f);
    mvdr_close(&other);
}

/* ---- factors by all multiprocessors ---------------------------------------------------------- */

/* Compares the results of two paths for a window, the second with a thread block for each bin. */
static void same_by_one(site *site, const mvdr_fixture *f, const mvdr_fixture *by_one) {
    const sonar_mvdr_spec *spec = &f->spec;
    for (size_t at = 0; at < spec->bins * spec->directions; at++)
        site_expect(site,
                    fabsf(f->spectrum[at] - by_one->spectrum[at]) <= 1e-4f * by_one->spectrum[at],
                    "order %zu, value %zu: %g, by one block %g", spec->sensors, at,
                    (double)f->spectrum[at], (double)by_one->spectrum[at]);
    for (size_t bin = 0; bin < spec->bins; bin++)
        for (int field = 0; field < SONAR_MVDR_ROUTE; field++) {
            const float got = mvdr_info(f, bin, field), one = mvdr_info(by_one, bin, field);
            site_expect(site, fabsf(got - one) <= 1e-5f * fabsf(one),
                        "order %zu, bin %zu, field %d: %g, by one block %g", spec->sensors, bin,
                        field, (double)got, (double)one);
        }
}

/* Orders near multiples of panels and squares, compared with the oracle's spectrum, the CPU's, and
 * the levels and loadings of a thread block for each bin. One bin has NaN, and one no data. */
static void orders_on_grid(site *site) {
    static const size_t orders[] = {1, 31, 33, 63, 64, 65, 95, 97, 128, 129, 161, 225, 257, 300};
    const size_t count = SONAR_LOADINGS * (tiny          ? 11
                                           : site->quick ? 8
                                                         : sizeof orders / sizeof *orders);
    for (size_t i = tiny ? 9 * SONAR_LOADINGS : 0; i < count; i++) {
        mvdr_fixture f, other;
        const size_t order = orders[i / SONAR_LOADINGS];
        sonar_mvdr_spec spec = mvdr_spec(order, 40, order + 30, 0);
        spec.bins = 5, spec.solver = SONAR_MVDR_AUTO;
        spec.loading = (sonar_loading)(i % SONAR_LOADINGS);
        spec.eps = spec.loading == SONAR_LOADING_NOISE ? 1 : i % 2 ? 0.01 : 1e-4;
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
        same_by_one(site, &f, &other);
        free(x);
        mvdr_close(&f);
        mvdr_close(&other);
    }
}

/* One new snapshot at a time into a small block: products and projections, with both solvers. */
static void few_of_them(site *site) {
    enum { B = 70, L = 12, WINDOWS = 3 };
    for (int solver = SONAR_MVDR_AUTO; solver <= SONAR_MVDR_JACOBI; solver++) {
        mvdr_fixture f;
        sonar_mvdr_spec spec = mvdr_spec(B, 20, L, 0);
        spec.solver = (sonar_mvdr_solver)solver;
        spec.loading = SONAR_LOADING_NOISE, spec.eps = 1, spec.bins = 17;
        mvdr_open(&f, site, &spec);
        const size_t stride = spec.bins * B;
        sonar_c32 *x = mvdr_record(&f, L + WINDOWS, (mvdr_wave[]){{60.5, 30}}, 1, 5);
        mvdr_run(&f, L, x);
        for (size_t u = 1; u <= WINDOWS; u++) {
            mvdr_run(&f, 1, x + (L + u - 1) * stride);
            mvdr_expect(&f, 16, L, x + u * stride, 0.002);
        }
        free(x);
        mvdr_close(&f);
    }
}

/* ---- what is chosen -------------------------------------------------------------------------- */

enum { LOOKS = 180 };

/* Windows of a stage whose loading is the trace's, on a path: the last one's spectrum. malloc'ed.
 */
static float *slide_on(site *site, const site_path *way, size_t sensors) {
    enum { WINDOWS = 3 };
    mvdr_fixture f;
    const sonar_mvdr_spec spec = mvdr_spec(sensors, LOOKS, 2 * sensors, 0);
    site_take(way);
    mvdr_open_alone(&f, site, &spec);
    site_take(NULL);
    const size_t stride = spec.bins * sensors, l = spec.snapshots;
    sonar_c32 *x = mvdr_record(&f, l + WINDOWS, &(mvdr_wave){60.5, 30}, 1, 9);
    mvdr_run(&f, l, x);
    for (size_t u = 0; u < WINDOWS; u++)
        mvdr_run(&f, 1, x + (l + u) * stride);
    float *spectrum = malloc(LOOKS * sizeof *spectrum);
    memcpy(spectrum, f.spectrum, LOOKS * sizeof *spectrum);
    free(x);
    mvdr_close(&f);
    return spectrum;
}

/* The size chooses: few sensors from scratch with a thread block per bin, many with an updated
 * inverse. Another route gives other bits with the same accuracy. */
static void chosen_by_size(site *site) {
    static const site_path large = {"large", {{"mvdr.route", "update factor-grid"}}};
    static const struct {
        size_t sensors;
        const site_path *same, *other;
    } cases[] = {{100, &BIN, &FOLLOW}, {330, &large, &GRID}};
    for (size_t i = 0; i < 2; i++) {
        const size_t sensors = cases[i].sensors;
        float *ruled = slide_on(site, NULL, sensors),
              *same = slide_on(site, cases[i].same, sensors),
              *other = slide_on(site, cases[i].other, sensors);
        bool differs = false;
        for (size_t t = 0; t < LOOKS; t++) {
            site_expect(site, ruled[t] == same[t],
                        "%zu sensors, direction %zu: %g by size, %g on path %s", sensors, t,
                        (double)ruled[t], (double)same[t], cases[i].same->name);
            site_expect(site, fabsf(other[t] - ruled[t]) <= 3e-4f * ruled[t],
                        "%zu sensors, direction %zu: %g, %g on path %s", sensors, t,
                        (double)ruled[t], (double)other[t], cases[i].other->name);
            differs = differs || other[t] != ruled[t];
        }
        site_expect(site, differs, "%zu sensors: path %s is not taken", sensors,
                    cases[i].other->name);
        free(ruled), free(same), free(other);
    }
}

/* ---- counts of eigenvalues ------------------------------------------------------------------- */

/* In each snapshot only one sensor is nonzero: R is diagonal, its elements `even` and `odd`
 * in turn, times each bin's scale. A bin's every third sensor is 80 dB above, where `loud`. */
static sonar_c32 *apart(const sonar_mvdr_spec *spec, double even, double odd, bool loud,
                        const double *scale) {
    const size_t n = spec->sensors, bins = spec->bins;
    sonar_c32 *x = calloc(spec->snapshots * bins * n, sizeof *x);
    for (size_t l = 0; l < spec->snapshots; l++)
        for (size_t bin = 0; bin < bins; bin++) {
            const size_t k = l % n;
            const double power = scale[bin] * (loud && k % 3 == 0 ? 1e8 : k % 2 ? odd : even);
            x[(l * bins + bin) * n + k].re = (float)sqrt(power * (double)n);
        }
    return x;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of what apart() has, L being a multiple of n, or of its L largest. */
static double median_apart(size_t n, double even, double odd, bool loud) {
    double *d = malloc(n * sizeof *d);
    for (size_t k = 0; k < n; k++)
        d[k] = loud && k % 3 == 0 ? 1e8 : k % 2 ? odd : even;
    qsort(d, n, sizeof *d, ascending);
    const double median = (d[(n - 1) / 2] + d[n / 2]) / 2;
    free(d);
    return median;
}

/* Repeated eigenvalues: also at a power of two, where a count's shift equals all of them, and at
 * two places with the median between; others 80 dB above them; in units of micropascal, pascal and
 * more. The search starts from another value, and must return. */
static void counts_of_repeated(site *site) {
    static const size_t orders[] = {33, 64, 98, 130, 257, 448, 800};
    static const double pairs[][2] = {{1, 1}, {0.7, 0.7}, {1, 4}, {1, 1.03}, {3, 1e4}},
                        scale[] = {1, 1e-12, 1e9, 0.37};
    for (size_t i = 0; i < (site->quick ? 4 : sizeof orders / sizeof *orders); i++)
        for (int grid = 0; grid < 2; grid++) {
            mvdr_fixture f;
            sonar_mvdr_spec spec = mvdr_spec(orders[i], 3, 2 * orders[i], 0);
            spec.bins = 4, spec.solver = SONAR_MVDR_AUTO;
            spec.loading = SONAR_LOADING_NOISE, spec.eps = 1;
            site_take(grid ? &GRID : &BIN);
            mvdr_open_alone(&f, site, &spec);
            site_take(NULL);
            for (size_t k = 0; k < 11; k++) {
                const double *pair = pairs[k % 5];
                const bool loud = k % 2;
                sonar_c32 *x = apart(&spec, pair[0], pair[1], loud, scale);
                const double median = median_apart(orders[i], pair[0], pair[1], loud);
                mvdr_run(&f, spec.snapshots, x);
                for (size_t bin = 0; bin < spec.bins; bin++) {
                    const double got = (double)mvdr_info(&f, bin, SONAR_MVDR_DELTA),
                                 asked = scale[bin] * median;
                    site_expect(site, fabs(got / asked - 1) < 4e-3,
                                "order %zu, grid %d, %g and %g, loud %d, bin %zu: %g, not %g",
                                orders[i], grid, pair[0], pair[1], loud, bin, got, asked);
                }
                free(x);
            }
            mvdr_close(&f);
        }
}

/* Windows that slide, jump by 60 dB and come back, of fewer snapshots than sensors or more: the
 * loading equals that from all eigenvalues, and does not depend on whether the search began at the
 * last window's value. The largest orders' cells hold several eigenvalues. */
static void counts_of_noise(site *site) {
    static const size_t sizes[][2] = {{70, 50}, {97, 160}, {300, 280}, {450, 900}, {800, 1000}};
    static const double gain[] = {1, 1, 1e3, 1, 0.1};
    for (size_t i = 0; i < (site->quick ? 2 : sizeof sizes / sizeof *sizes); i++) {
        mvdr_fixture f[3]; /* on the grid, from scratch each time, by all eigenvalues */
        const size_t n = sizes[i][0], l = sizes[i][1];
        sonar_mvdr_spec spec = mvdr_spec(n, 9, l, 0);
        spec.bins = 3, spec.loading = SONAR_LOADING_NOISE, spec.eps = 1;
        site_take(&GRID);
        for (size_t k = 0; k < 3; k++)
            mvdr_open_alone(&f[k], site, &spec);
        site_take(NULL);
        f[2].wants_eigenvalues = true;
        const size_t steps = sizeof gain / sizeof *gain, stride = spec.bins * n;
        sonar_c32 *x = mvdr_record(&f[0], l + steps, (mvdr_wave[]){{50.5, 70}, {81, 20}}, 2, i);
        sonar_c32 *window = malloc(l * stride * sizeof *window);
        for (size_t u = 0; u < steps; u++) {
            for (size_t at = 0; at < l * stride; at++) {
                const sonar_c32 from = x[u * stride + at];
                window[at] = (sonar_c32){(float)gain[u] * from.re, (float)gain[u] * from.im};
            }
            mvdr_reset(&f[1]);
            for (size_t k = 0; k < 3; k++)
                mvdr_run(&f[k], l, window);
            for (size_t bin = 0; bin < spec.bins; bin++) {
                double delta[3];
                for (size_t k = 0; k < 3; k++)
                    delta[k] = (double)mvdr_info(&f[k], bin, SONAR_MVDR_DELTA);
                site_expect(site, fabs(delta[0] / delta[1] - 1) < 1e-6,
                            "%zu sensors, window %zu, bin %zu: %.9g, from nothing %.9g", n, u, bin,
                            delta[0], delta[1]);
                site_expect(site, fabs(delta[0] / delta[2] - 1) < 2e-3,
                            "%zu sensors, window %zu, bin %zu: %.9g, by all eigenvalues %.9g", n, u,
                            bin, delta[0], delta[2]);
            }
        }
        free(x);
        free(window);
        for (size_t k = 0; k < 3; k++)
            mvdr_close(&f[k]);
    }
}

/* ---- errors of the updated inverse ----------------------------------------------------------- */

/* An M that is too large by a thousandth is always detected: no window is solved with it, and all
 * have the bits of a stage that solves from scratch. Left alone, later ones are solved by M. */
static void inverse_that_is_wrong(site *site) {
    enum { B = 40, L = 90, WINDOWS = 40 };
    const sonar_mvdr_spec spec = beside_spec(B, L, SONAR_LOADING_TRACE, 0.01);
    const mvdr_wave waves[] = {{70, 40}, {100, 30}};
    beside b;
    if (!inverse_enlarge) {
        site_expect(site, true, "built without CUDA");
        return;
    }
    beside_begin_following(&b, site, &spec);
    beside_fill(&b, waves, 2, 14);
    for (uint64_t i = 0; i < WINDOWS; i++) {
        site_expect(site, inverse_enlarge(b.f.stage, 1 + 1e-3), "CUDA failed");
        beside_go_on(&b, 1, waves, 2, 15 + i);
    }
    site_expect(site, b.followed == 0, "%zu windows with a wrong inverse", b.followed);
    beside_go_on(&b, 2 * MVDR_REST, waves, 2, 100);
    site_expect(site, b.followed > 0, "no window with a right inverse");
    beside_end(&b);
}

/* ---- failures -------------------------------------------------------------------------------- */

static const char *plugin_dir;

/* The plugin is opened with its n-th fallible call failing, counted on through create and execute;
 * false if opening already fails. */
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
    slides.max_new = 1; /* so that the inverse can be updated */
    fail_each_call(site, &fades);
    site_take(&FOLLOW);
    fail_each_call(site, &slides);
    site_take(NULL);
}

/* ---- timing ---------------------------------------------------------------------------------- */

enum { ANGLES = 180, STEP = 64, RUNS = 7 };
static size_t timed_bins = 100;

/* Milliseconds of an execute with `count` snapshots x[snapshot][bin][sensor]. */
static double step_ms(mvdr_fixture *f, size_t count, const sonar_c32 *x, bool solved) {
    sonar_work work = mvdr_work(f);
    work.outputs = solved ? work.outputs : 0;
    sonar_error err = {0};
    sonar_buffer in = f->in;
    in.shape[0] = count;
    in.bytes = count * timed_bins * f->spec.sensors * sizeof *x;
    if (count)
        site_send(f->site, x, &in);
    int64_t start = sonar_monotonic_ns();
    site_require(f->site, f->ops->execute(f->stage, f->site->queue, &in, f->out, &work, &err),
                 &err);
    site_settle(f->site);
    return (double)(sonar_monotonic_ns() - start) * 1e-6;
}

/* `count` snapshots: a source 52 dB above unit noise, or, if that takes too long, noise alone.
 */
static sonar_c32 *input(const mvdr_fixture *f, size_t count) {
    if (f->spec.sensors * f->spec.snapshots <= 1 << 19 && !f->site->quick)
        return mvdr_record(f, count, &(mvdr_wave){60.5, 52}, 1, 7);
    const size_t values = count * timed_bins * f->spec.sensors;
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
        const sonar_c32 *v = x + (i * timed_bins + bin) * n;
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

/* Worst error of the last window in the first and the last bin: compared with the oracle in all
 * directions, or in a few beside the reference; NaN if even that takes too long. */
static double worst_db(mvdr_fixture *f, const sonar_c32 *x) {
    const size_t bins[] = {0, timed_bins - 1},
                 looks = f->spec.sensors * f->spec.snapshots > 1 << 22 ? 2 : 8;
    double worst = 0;
    if (f->spec.sensors > 16384 || f->site->quick)
        return NAN;
    site_fetch(f->site, &f->out[SONAR_MVDR_OUT_SPECTRUM], f->spectrum);
    if (f->spec.sensors <= 512)
        return fmax(mvdr_error_db(f, 0, f->spec.snapshots, x),
                    mvdr_error_db(f, timed_bins - 1, f->spec.snapshots, x));
    for (size_t b = 0; b < 2; b++)
        for (size_t i = 0; i < looks; i++) {
            const size_t t = (2 * i + 1) * ANGLES / (2 * looks);
            const double got = (double)f->spectrum[bins[b] * ANGLES + t];
            worst = oracle_worse(worst, fabs(10 * log10(got / reference(f, bins[b], t, x))));
        }
    return worst;
}

static const char *wanted_rows; /* those whose "solver rule sensors" contains it; NULL: all */

static void time_one(site *site, size_t sensors, size_t snapshots, sonar_mvdr_solver solver,
                     sonar_loading loading) {
    static const char *const names[] = {"auto", "jacobi"};
    const char *name = site_taken() ? site_taken()->name : names[solver],
               *rule = loading == SONAR_LOADING_TRACE ? "trace" : "noise";
    char row[80];
    mvdr_fixture f;
    double ms[RUNS], fill_ms = 0;
    unsigned flags = 0;
    sonar_mvdr_spec spec = mvdr_spec(sensors, ANGLES, snapshots, 0);
    snprintf(row, sizeof row, "%s %s %zu", name, rule, sensors);
    if (wanted_rows && !strstr(row, wanted_rows))
        return;
    spec.fs_hz = 8000, spec.length = 8192, spec.first_bin = 327, spec.bins = timed_bins;
    spec.max_new = sensors > 16384 ? 8 : STEP;
    spec.loading = loading, spec.eps = loading == SONAR_LOADING_TRACE ? 0.01 : 1;
    spec.solver = solver;
    mvdr_open_alone(&f, site, &spec);
    const size_t stride = timed_bins * sensors,
                 kept = sensors > 16384 ? spec.max_new : snapshots + RUNS;
    sonar_c32 *x = input(&f, kept);
    for (size_t done = 0; done < snapshots; done += spec.max_new) { /* the last one is solved */
        const size_t count = sonar_min_size(spec.max_new, snapshots - done);
        fill_ms = step_ms(&f, count, x + done % kept * stride, done + count == snapshots);
    }
    for (size_t i = 0; i < RUNS; i++)
        ms[i] = step_ms(&f, 1, x + (snapshots + i) % kept * stride, true);
    qsort(ms, RUNS, sizeof *ms, ascending);
    site_fetch(site, &f.out[SONAR_MVDR_OUT_INFO], f.info);
    for (size_t bin = 0; bin < timed_bins; bin++)
        flags |= mvdr_flags(&f, bin);
    const double off_db = worst_db(&f, x + RUNS * stride);
    printf("%-8s %s B %6zu  L %5zu  %9.3f ms  (%.3f .. %.3f)  first, %zu new %.3f ms  level %.4f  "
           "flags %u",
           name, rule, sensors, snapshots, ms[RUNS / 2], ms[0], ms[RUNS - 1], spec.max_new, fill_ms,
           (double)mvdr_info(&f, 0, SONAR_MVDR_LEVEL), flags);
    if (isfinite(off_db))
        printf("  %.2g dB off", off_db);
    printf("\n");
    fflush(stdout);
    free(x);
    mvdr_close(&f);
}

/* A block of 64 to which several snapshots come at a time. */
static void time_arrivals(site *site, size_t sensors) {
    enum { MOST = 16, TIMES = 3 };
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_spec(sensors, ANGLES, 64, 0);
    spec.fs_hz = 8000, spec.length = 8192, spec.first_bin = 327, spec.bins = timed_bins;
    spec.max_new = MOST, spec.loading = SONAR_LOADING_NOISE, spec.eps = 1;
    mvdr_open_alone(&f, site, &spec);
    sonar_c32 *x = input(&f, MOST);
    for (size_t i = 0; i < 64; i += MOST)
        step_ms(&f, MOST, x, true);
    printf("B %6zu, new snapshots at a time, ms:", sensors);
    for (size_t count = 1; count <= MOST; count *= 2) {
        double ms[TIMES];
        for (size_t i = 0; i < TIMES; i++)
            ms[i] = step_ms(&f, count, x, true);
        qsort(ms, TIMES, sizeof *ms, ascending);
        printf("  %zu: %.3f", count, ms[TIMES / 2]);
    }
    printf("\n");
    fflush(stdout);
    free(x);
    mvdr_close(&f);
}

/* Full rank by Cholesky factors, with both loading rules, and small orders by both methods. */
static void time_full(site *site) {
    static const size_t sensors[] = {64, 128, 192, 256, 512, 1024, 2048};
    printf("%zu bins, %d angles, one new snapshot an update, medians of %d\n", timed_bins, ANGLES,
           RUNS);
    for (size_t i = 0; i < sizeof sensors / sizeof *sensors; i++)
        for (int way = 0; way < (sensors[i] > 512 ? 1 : 3); way++)
            for (int loading = SONAR_LOADING_NOISE; loading <= SONAR_LOADING_TRACE; loading++) {
                site_take(way == 1 ? &GRID : way == 2 ? &BIN : NULL);
                time_one(site, sensors[i], 2 * sensors[i], SONAR_MVDR_AUTO, (sonar_loading)loading);
            }
    site_take(NULL);
}

static void time_all(site *site, bool huge) {
    static const size_t block_of_64[] = {64, 256, 512, 2048, 16384, 262144, 524288};
    static const size_t full[] = {64, 128, 256, 512, 1024, 2048};
    printf("%zu bins, %d angles, one new snapshot an update, medians of %d\n", timed_bins, ANGLES,
           RUNS);
    for (size_t i = 0; i < (huge ? 7 : 5); i++)
        time_one(site, block_of_64[i], 64, SONAR_MVDR_AUTO, SONAR_LOADING_NOISE);
    for (size_t i = 0; i < sizeof full / sizeof *full; i++)
        time_one(site, full[i], 2 * full[i], SONAR_MVDR_AUTO, SONAR_LOADING_TRACE);
    for (size_t i = 0; i < sizeof full / sizeof *full; i++)
        time_one(site, full[i], 2 * full[i], SONAR_MVDR_AUTO, SONAR_LOADING_NOISE);
    for (size_t i = 0; i < 5; i++)
        time_one(site, full[i], 2 * full[i], SONAR_MVDR_JACOBI, SONAR_LOADING_NOISE);
    time_one(site, 512, 64, SONAR_MVDR_JACOBI, SONAR_LOADING_NOISE);
}

/* One new snapshot with the rule trace, for which the size decides. */
static void time_ways(site *site) {
    static const site_path *const ways[] = {&BIN, &GRID, &FOLLOW};
    for (size_t sensors = 64; sensors <= 512; sensors += sensors < 256 ? 64 : 128)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            site_take(ways[i]);
            time_one(site, sensors, 2 * sensors, SONAR_MVDR_AUTO, SONAR_LOADING_TRACE);
        }
    site_take(NULL);
}

/* ---- main ------------------------------------------------------------------------------------ */

static const site_case CASES[] = {MVDR_CASES(MVDR_ROW) MVDR_REFUSALS(MVDR_ROW) MVDR_SOLVER_CASES(
                                      MVDR_ROW){"injected_failures", injected_failures},
                                  {"eigenvectors_as_factors", eigenvectors_as_factors},
                                  {"recorded", recorded},
                                  {"recorded_inverse", recorded_inverse},
                                  {"orders_on_grid", orders_on_grid},
                                  {"few_of_them", few_of_them},
                                  {"chosen_by_size", chosen_by_size},
                                  {"counts_of_repeated", counts_of_repeated},
                                  {"counts_of_noise", counts_of_noise}};
static const site_case LONG_CASES[] = {MVDR_LONG_CASES(MVDR_ROW)};
static const site_case INVERSE_CASES[] = {
    MVDR_INVERSE_CASES(MVDR_ROW){"inverse_that_is_wrong", inverse_that_is_wrong}};

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

/* The cases, and those about the spectrum again with factors by all multiprocessors, and with
 * eigenvectors. */
static void run_solvers(site *site, const char *wanted) {
    static const site_case spectra[] = {MVDR_CASES(MVDR_ROW)};
    const sonar_backend *own = site->backend;
    sonar_backend with_jacobi = *own;
    run_all(site, wanted);
    if (tiny)
        return;
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
    site_take(&WITH_JACOBI);
    run(site, spectra, sizeof spectra / sizeof *spectra, wanted);
    site_take(NULL);
    site->backend = own;
}

int main(int argc, char **argv) {
    const char *wanted = NULL;
    bool timing = false, huge = false, full = false, quick = false, ways = false;
    size_t arrivals = 0;
    char beside[512];
    plugin_dir = gpu_plugin_dir(beside, sizeof beside);
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--quick"))
            quick = true;
        else if (!strcmp(argv[i], "--tiny"))
            quick = tiny = true;
        else if (!strcmp(argv[i], "--time"))
            timing = true;
        else if (!strcmp(argv[i], "--ways"))
            timing = ways = true;
        else if (!strcmp(argv[i], "--huge"))
            timing = huge = true;
        else if (!strcmp(argv[i], "--sensors") && i + 1 < argc)
            arrivals = strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--full"))
            timing = full = true;
        else if (!strcmp(argv[i], "--bins") && i + 1 < argc)
            timed_bins = (size_t)atol(argv[++i]);
        else if (!strcmp(argv[i], "--plugin-dir") && i + 1 < argc)
            plugin_dir = argv[++i];
        else
            wanted = argv[i];
    sonar_host host = *sonar_host_serial();
    host.choice = site_choose;
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
    if (arrivals)
        time_arrivals(&site, arrivals);
    else if (ways)
        time_ways(&site);
    else if (full)
        time_full(&site);
    else if (timing)
        time_all(&site, huge);
    else {
        run_solvers(&site, wanted);
        printf("%zu checks, %zu failed\n", site.checks, site.failures);
    }
    const bool failed = site.failures || (!timing && !arrivals && !site.checks);
    site_close(&site);
    sonar_backend_close(&choice);
    return failed;
}
