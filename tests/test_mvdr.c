/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The conformance suite of the MVDR stage on the CPU, and on a fake device, which shows that the
 * suite itself waits where necessary; the same bits with any number of workers; and the table by
 * which tones are found. */
#include "conformance/mvdr.h"
#include "conformance/try.h"

#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dft/dft.h"
#include "mvdr_jacobi/cpu/internal.h"

#define AT_CPU(name)                                                                               \
    Test(mvdr, name) {                                                                             \
        try_at_cpu(&(site_case){#name, mvdr_case_##name});                                         \
    }
#define AT_LAZY_DEVICE(name)                                                                       \
    Test(mvdr_on_a_lazy_device, name) {                                                            \
        try_at_lazy_device(&(site_case){#name, mvdr_case_##name});                                 \
    }
MVDR_CASES(AT_CPU)
MVDR_REFUSALS(AT_CPU)
MVDR_SOLVER_CASES(AT_CPU)
/* Cases that add no coverage for a memory checker, and cases only for it. */
#ifdef __SANITIZE_ADDRESS__
MVDR_CASES(AT_LAZY_DEVICE)
#else
MVDR_LONG_CASES(AT_CPU)
#endif

static void with_workers(size_t workers, double alpha, float bits[MVDR_BITS]) {
    sonar_pool *pool;
    cr_assert_eq(sonar_pool_create(workers, NULL, &pool, NULL), SONAR_OK);
    const sonar_host host = {.ctx = pool, .parallel = sonar_pool_parallel, .workers = workers};
    site here = site_open(sonar_backend_cpu(), &host);
    mvdr_bits(&here, alpha, bits);
    site_close(&here);
    sonar_pool_destroy(pool);
}

Test(mvdr, same_bits_for_any_number_of_workers) {
    for (int forget = 0; forget < 2; forget++) {
        float bits[3][MVDR_BITS];
        for (size_t workers = 1; workers <= 3; workers++) {
            with_workers(workers, forget ? 0.9 : 0, bits[workers - 1]);
            cr_expect_eq(memcmp(bits[0], bits[workers - 1], sizeof bits[0]), 0);
        }
    }
}

/* A ship so loud that 6e-13 of |a|^2 is left in its direction: steering vectors must be more exact
 * than float, for bins of one run and of the next, after windows of one snapshot and with a mask.
 */
Test(mvdr, spectrum_at_a_loud_ship_by_many_sensors) {
    enum { B = 500, L = 6, T = 8, WINDOWS = L + 3 };
    static const size_t bins[] = {0, 63, 64};
    site here = site_open(sonar_backend_cpu(), sonar_host_serial());
    sonar_mvdr_spec spec = mvdr_spec(B, T, L, 0);
    mvdr_fixture f;
    spec.bins = 70, spec.loading = SONAR_LOADING_ABSOLUTE, spec.eps = 1, spec.max_new = 1;
    mvdr_open(&f, &here, &spec);
    const mvdr_wave ship = {mvdr_azimuth_deg(&f, 3), 95};
    sonar_c32 *x = mvdr_record(&f, WINDOWS, &ship, 1, 5);
    for (size_t w = 0; w < WINDOWS; w++) {
        if (w == WINDOWS - 1) {
            f.used[7] = f.used[B - 1] = 0;
            mvdr_renew(&f);
        }
        mvdr_run(&f, 1, x + w * spec.bins * B);
        for (size_t i = 0; i < sizeof bins / sizeof *bins && w + 2 >= WINDOWS; i++)
            mvdr_expect(&f, bins[i], L, x + (w + 1 - L) * spec.bins * B, 2e-4);
    }
    free(x);
    mvdr_close(&f);
    cr_expect_eq(here.failures, 0, "%zu of %zu checks failed", here.failures, here.checks);
    site_close(&here);
}

/* Without a request no bin is solved, and the last solution's values stay in memory. The next
 * requested window is solved again. */
Test(mvdr, no_one_wants_it_so_nothing_is_solved) {
    enum { B = 12, L = 5, T = 9 };
    site here = site_open(sonar_backend_cpu(), sonar_host_serial());
    const sonar_mvdr_spec spec = mvdr_spec(B, T, L, 0);
    mvdr_fixture f;
    sonar_error err = {0};
    mvdr_open(&f, &here, &spec);
    const mvdr_stage *stage = f.stage;
    sonar_c32 *x = mvdr_record(&f, 2 * L, NULL, 0, 3);
    mvdr_run(&f, L, x);
    double *factor = calloc(stage->factor_size, sizeof *factor);
    memcpy(factor, stage->factor, stage->factor_size * sizeof *factor);
    memcpy(f.in.data, x + L * B, L * B * sizeof *x);
    const sonar_work unrequested = {.params = &f.params};
    cr_assert_eq(f.ops->execute(f.stage, here.queue, &f.in, f.out, &unrequested, &err), SONAR_OK);
    cr_expect_eq(memcmp(factor, stage->factor, stage->factor_size * sizeof *factor), 0);
    mvdr_run(&f, 0, NULL);
    cr_expect_neq(memcmp(factor, stage->factor, stage->factor_size * sizeof *factor), 0);
    free(factor);
    free(x);
    mvdr_close(&f);
    site_close(&here);
}

/* Workspace that the library requested on an H200 in addition to its code, for 100 matrices. */
/* Of the heap, which a memory checker replaces. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static size_t in_use(void) {
    const struct mallinfo2 heap = mallinfo2();
    return heap.uordblks + heap.hblkhd;
}

/* To the rounding of some 100 allocations, small ones of which may be reused. */
static void expect_memory(const char *what, sonar_mvdr_spec spec) {
    sonar_mvdr_tones tones;
    double hann[256];
    sonar_dft_taper(SONAR_HANN, 0, 256, hann);
    sonar_mvdr_tones_make(hann, 256, &tones);
    for (size_t workers = 1; workers <= 4; workers += 3) {
        sonar_host host = *sonar_host_serial();
        sonar_error err = {0};
        void *stage;
        host.workers = workers;
        spec.tones = &tones;
        const size_t before = in_use();
        cr_assert_eq(sonar_mvdr_jacobi_cpu.create(&spec, &host, &stage, &err), SONAR_OK);
        const double taken = (double)(in_use() - before), said = sonar_mvdr_bytes(&spec, workers);
        cr_expect(fabs(taken - said) < (double)(40 + 40 * workers) * 256,
                  "%s, %zu workers: %g bytes, said were %g", what, workers, taken, said);
        sonar_mvdr_jacobi_cpu.destroy(stage);
    }
}

Test(mvdr, memory_is_what_the_specification_says) {
    sonar_mvdr_spec spec = mvdr_spec(200, 181, 40, 0);
    spec.bins = 11;
    expect_memory("a block of 40", spec);
    spec.ranges = 3;
    expect_memory("a near field", spec);
    spec = mvdr_spec(131, 90, 150, 0);
    expect_memory("noise", spec);
    spec.loading = SONAR_LOADING_TRACE;
    expect_memory("an inverse that is updated", spec);
    spec.forward_backward = true;
    expect_memory("forward and backward", spec);
    spec.solver = SONAR_MVDR_JACOBI, spec.music = 2;
    expect_memory("eigenvectors and MUSIC", spec);
    spec.music = 0, spec.white_noise_gain_db = -3;
    expect_memory("white noise gain", spec);
    expect_memory("forgetting", mvdr_spec(100, 45, 0, 0.98));
    spec = mvdr_spec(64, 45, 12, 0);
    spec.parts = SONAR_MVDR_JOINED;
    expect_memory("joined parts", spec);
}
#endif

/* Every sensor is in one part, and none is empty. */
/* Every row of the table, by the options and sizes that choose it. */
Test(mvdr, path_of_a_full_block) {
    static const struct {
        size_t sensors, snapshots;
        sonar_loading rule;
        sonar_mvdr_solver solver;
        int dmr;
        const char *cpu, *gpu;
    } want[] = {
        {256, 64, SONAR_LOADING_NOISE, SONAR_MVDR_AUTO, 0, "snapshot/noise/median",
         "snapshot/noise/eigenvalues"},
        {256, 129, SONAR_LOADING_NOISE, SONAR_MVDR_AUTO, 0, "sensor/noise/median",
         "sensor/noise/median"},
        {386, 193, SONAR_LOADING_NOISE, SONAR_MVDR_AUTO, 0, "snapshot/noise/median",
         "snapshot/noise/median"},
        {320, 640, SONAR_LOADING_NOISE, SONAR_MVDR_AUTO, 0, "sensor/noise/median",
         "sensor/noise/median-grid"},
        {256, 2, SONAR_LOADING_NOISE, SONAR_MVDR_AUTO, 0, "snapshot/noise/factor",
         "snapshot/noise/eigenvalues"},
        {256, 64, SONAR_LOADING_TRACE, SONAR_MVDR_AUTO, 0, "snapshot/trace/factor",
         "snapshot/trace/factor"},
        {127, 254, SONAR_LOADING_TRACE, SONAR_MVDR_AUTO, 0, "sensor/trace/factor",
         "sensor/trace/factor"},
        {128, 256, SONAR_LOADING_ABSOLUTE, SONAR_MVDR_AUTO, 0, "sensor/absolute/update",
         "sensor/absolute/factor"},
        {192, 384, SONAR_LOADING_TRACE, SONAR_MVDR_AUTO, 0, "sensor/trace/update",
         "sensor/trace/update"},
        {640, 320, SONAR_LOADING_TRACE, SONAR_MVDR_AUTO, 0, "snapshot/trace/factor",
         "snapshot/trace/factor-grid"},
        {257, 514, SONAR_LOADING_NOISE, SONAR_MVDR_JACOBI, 0, "sensor/noise/jacobi",
         "sensor/noise/jacobi"},
        {256, 512, SONAR_LOADING_NOISE, SONAR_MVDR_AUTO, 3, "sensor/dmr/jacobi",
         "sensor/dmr/jacobi"},
        {257, 514, SONAR_LOADING_ABSOLUTE, SONAR_MVDR_AUTO, 3, "sensor/dmr/jacobi",
         "sensor/dmr/jacobi"},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        sonar_mvdr_spec spec = mvdr_spec(want[i].sensors, 9, want[i].snapshots, 0);
        spec.loading = want[i].rule, spec.solver = want[i].solver, spec.dmr = want[i].dmr;
        for (int gpu = 0; gpu < 2; gpu++) {
            char text[SONAR_MVDR_PATH_BYTES];
            sonar_mvdr_path_text(sonar_mvdr_path(&spec, gpu, NULL), text);
            cr_expect_str_eq(text, gpu ? want[i].gpu : want[i].cpu, "%zu, %s: %s", i,
                             gpu ? "GPU" : "CPU", text);
        }
    }
}

Test(mvdr, parts_of_the_sensors) {
    static const size_t sensors[] = {1, 31, 32, 255, 256, 257, 1025, 16384, 65537, 524288};
    for (size_t i = 0; i < sizeof sensors / sizeof *sensors; i++)
        for (size_t bins = 1; bins <= 1000; bins *= 10) {
            const sonar_mvdr_spec spec = {
                .sensors = sensors[i], .directions = 180, .bins = bins, .snapshots = 64};
            const mvdr_parts parts[] = {mvdr_parts_of_few(&spec), mvdr_parts_of_many(&spec)};
            for (int k = 0; k < 2; k++)
                cr_expect(parts[k].size % 32 == 0 && parts[k].count <= 64 &&
                              parts[k].count * parts[k].size >= sensors[i] &&
                              (parts[k].count - 1) * parts[k].size < sensors[i],
                          "%zu sensors: %zu parts of %zu", sensors[i], parts[k].count,
                          parts[k].size);
        }
}

/* Hann: W(o - 1)/W(o) = (1 + o)/(2 - o) for every o. */
Test(mvdr_tone, the_table_of_a_hann_window) {
    enum { N = 256 };
    double window[N];
    sonar_mvdr_tones tones;
    sonar_dft_taper(SONAR_HANN, 0, N, window);
    sonar_mvdr_tones_make(window, N, &tones);
    cr_expect_float_eq(tones.correlation, 2 / 3.0, 1e-12);
    for (double o = -6.9; o < 7.9; o += 0.0613) {
        const double w = (2 - o), v = (1 + o); /* up to a factor, which may be below 0 */
        const mvdr_pair p = {w * w + 0.1, v * v + 0.1, w * v + 0.1 * tones.correlation};
        const mvdr_tone lower = mvdr_tone_of(&tones, p, false, 50);
        const mvdr_tone upper = mvdr_tone_of(&tones, p, true, 50);
        cr_expect_float_eq(lower.offset, o, 2e-3, "%g for %g", lower.offset, o);
        cr_expect_float_eq(upper.offset, o - 1, 2e-3);
        cr_expect_float_eq(lower.over, w * w / 0.1, 1e-6 * w * w / 0.1);
        cr_expect_float_eq(upper.over, v * v / 0.1, 1e-6 * v * v / 0.1 + 1e-9);
    }
}
