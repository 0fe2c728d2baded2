/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The conformance suite of the beamformer on the CPU, and on a fake device, which shows that the
 * suite itself waits where necessary. */
#include <malloc.h>
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "cbf/cbf.h"
#include "conformance/cbf.h"
#include "conformance/try.h"
#include "core/core.h"
#include "core/isa.h"
#include "core/random.h"

#define AT_CPU(name)                                                                               \
    Test(cbf, name) {                                                                              \
        try_at_cpu(&(site_case){#name, cbf_case_##name});                                          \
    }
#define AT_LAZY_DEVICE(name)                                                                       \
    Test(cbf_on_a_lazy_device, name) {                                                             \
        try_at_lazy_device(&(site_case){#name, cbf_case_##name});                                  \
    }
CBF_CASES(AT_CPU)
CBF_ERROR_CASES(AT_CPU)
#ifdef __SANITIZE_ADDRESS__ /* see test_mvdr.c */
CBF_CASES(AT_LAZY_DEVICE)
#else
CBF_LONG_CASES(AT_CPU)
#endif

/* ---- kernels --------------------------------------------------------------------------------- */

static void try_kernels(const site_path *kernel, size_t kernels, const site_case *what,
                        size_t cases) {
    sonar_host host = *sonar_host_serial();
    host.choice = site_choose;
    for (size_t i = 0; i < kernels; i++) {
        if (kernel[i].choice[0][1] && sonar_isa_choose(kernel[i].choice[0][1]) == SONAR_ISAS &&
            !strcmp(kernel[i].choice[0][0], "cbf.general"))
            continue;
        site site = site_open(sonar_backend_cpu(), &host);
        site.quick = true;
        site_take(&kernel[i]);
        for (size_t c = 0; c < cases; c++)
            cr_expect(site_try(&site, &what[c]), "%s: %s", kernel[i].name, what[c].name);
        site_take(NULL);
        site_close(&site);
    }
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Each instruction set that this processor has; one that it lacks takes the general path, as does
 * "none". */
Test(cbf, every_kernel_of_a_line) {
    static const site_path kernel[] = {
        {"line/x86-64-v4", {{"cbf.line", "x86-64-v4"}}},
        {"line/x86-64-v3", {{"cbf.line", "x86-64-v3"}}},
        {"line/baseline", {{"cbf.line", "baseline"}}},
        {"line/none", {{"cbf.line", "none"}}},
    };
    static const site_case what[] = {CBF_ROW(sizes) CBF_ROW(deep_side_lobes_of_a_shaded_line)
                                         CBF_ROW(very_long_line_far_off_broadside)
                                             CBF_ROW(parts_are_complex_beams) CBF_ROW(live_bands)};
    try_kernels(kernel, COUNT(kernel), what, COUNT(what));
}

/* The line's far field also goes through the general path. */
Test(cbf, every_kernel_of_the_general_path) {
    static const site_path kernel[] = {
        {"general/x86-64-v4", {{"cbf.general", "x86-64-v4"}, {"cbf.line", "none"}}},
        {"general/x86-64-v3", {{"cbf.general", "x86-64-v3"}, {"cbf.line", "none"}}},
        {"general/baseline", {{"cbf.general", "baseline"}, {"cbf.line", "none"}}},
    };
    static const site_case what[] = {CBF_CASES(CBF_ROW)};
    try_kernels(kernel, COUNT(kernel), what, COUNT(what));
}

Test(cbf, an_instruction_set_that_no_kernel_has_is_an_error) {
    static const site_path path = {"general/x", {{"cbf.general", "x"}}};
    const sonar_cbf_spec spec = {3, 5, 1, 8000, 512, 0, 257, 3, 7, 1, false};
    sonar_host host = *sonar_host_serial();
    sonar_error err = {0};
    void *stage;
    host.choice = site_choose;
    site_take(&path);
    cr_assert_eq(sonar_cbf_cpu.create(&spec, &host, &stage, &err), SONAR_EINVAL);
    cr_assert(strstr(err.text, "this processor cannot run kernels for x"), "%s", err.text);
    site_take(NULL);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Of the heap, which a memory checker replaces; to the rounding of some ten allocations. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static size_t in_use(void) {
    const struct mallinfo2 heap = mallinfo2();
    return heap.uordblks + heap.hblkhd;
}

Test(cbf, memory_is_what_the_specification_says) {
    static const sonar_cbf_spec specs[] = {{300, 181, 0, 8000, 512, 0, 257, 3, 200, 1, false},
                                           {1000, 90, 3, 8000, 512, 10, 200, 12, 100, 4, false},
                                           {5, 7, 1, 8000, 64, 0, 33, 3, 7, 1, true}};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (size_t workers = 1; workers <= 4; workers += 3) {
            sonar_host host = *sonar_host_serial();
            sonar_error err = {0};
            void *stage;
            host.workers = workers;
            const size_t before = in_use();
            cr_assert(!sonar_cbf_cpu.create(&specs[i], &host, &stage, &err), "%s", err.text);
            const double taken = (double)(in_use() - before);
            const double said = sonar_cbf_bytes(&specs[i], workers);
            cr_expect(fabs(taken - said) < 16384, "%zu, %zu workers: %g bytes, said were %g", i,
                      workers, taken, said);
            sonar_cbf_cpu.destroy(stage);
        }
}
#endif

/* ---- parts of an array ----------------------------------------------------------------------- */

enum { WHOLE = 37, FIRST = 13, LOOKS = 9, NEAR = 2, BINS = 23, BAND = 11, TIMES = 3, POINTS = 5 };

/* A stage for sensors [from, from + count) of an array of WHOLE, and its results. */
typedef struct part {
    size_t from, count;
    sonar_params params;
    uint64_t far[LOOKS * WHOLE], near[NEAR * LOOKS * WHOLE], point[POINTS * WHOLE];
    sonar_c32 x[TIMES * BINS * WHOLE];
    float shading[WHOLE];
    sonar_c32 y_far[TIMES * BINS * LOOKS], y_near[TIMES * BAND * NEAR * LOOKS];
    sonar_c32 y_point[TIMES * BAND * POINTS];
    float lofar[BINS * LOOKS], azimuth[LOOKS], near_power[NEAR * LOOKS], point_power[POINTS];
} part;

static void cut_rows(const void *all, size_t size, size_t rows, const part *p, void *out) {
    for (size_t r = 0; r < rows; r++)
        memcpy((char *)out + r * p->count * size, (const char *)all + (r * WHOLE + p->from) * size,
               p->count * size);
}

static void cut(const part *whole, part *p) {
    cut_rows(whole->far, 8, LOOKS, p, p->far);
    cut_rows(whole->near, 8, NEAR * LOOKS, p, p->near);
    cut_rows(whole->point, 8, POINTS, p, p->point);
    cut_rows(whole->x, 8, TIMES * BINS, p, p->x);
    cut_rows(whole->shading, 4, 1, p, p->shading);
    p->params = whole->params;
    p->params.sensors = p->count;
    p->params.shading = p->shading;
    p->params.far_cbf.turns = p->far;
    p->params.near_cbf.turns = p->near;
    p->params.far_cbf.sensors = p->params.near_cbf.sensors = p->count;
}

static void run_part(part *p, bool parts, bool lofar) {
    const sonar_cbf_spec spec = {p->count, LOOKS, NEAR, 8000,  512,  30,
                                 BINS,     35,    BAND, TIMES, parts};
    const size_t rows = lofar ? BINS : BAND;
    sonar_buffer in = sonar_buffer_view(p->x, SONAR_C32, 3, (size_t[]){TIMES, BINS, p->count});
    sonar_buffer out[SONAR_CBF_OUTPUTS] = {
        [SONAR_CBF_AZIMUTH] = sonar_buffer_view(p->azimuth, SONAR_F32, 1, (size_t[]){LOOKS}),
        [SONAR_CBF_NEARFIELD] =
            parts
                ? sonar_buffer_view(p->y_near, SONAR_C32, 3, (size_t[]){TIMES, BAND, NEAR * LOOKS})
                : sonar_buffer_view(p->near_power, SONAR_F32, 2, (size_t[]){NEAR, LOOKS}),
        [SONAR_CBF_LOFAR] =
            parts ? sonar_buffer_view(p->y_far, SONAR_C32, 3, (size_t[]){TIMES, rows, LOOKS})
                  : sonar_buffer_view(p->lofar, SONAR_F32, 2, (size_t[]){BINS, LOOKS})};
    const sonar_work work = {.params = &p->params,
                             .outputs = SONAR_WANT(SONAR_CBF_AZIMUTH) |
                                        SONAR_WANT(SONAR_CBF_NEARFIELD) |
                                        (lofar ? SONAR_WANT(SONAR_CBF_LOFAR) : 0)};
    sonar_buffer turns = sonar_buffer_view(p->point, SONAR_U64, 2, (size_t[]){POINTS, p->count});
    sonar_buffer at =
        parts ? sonar_buffer_view(p->y_point, SONAR_C32, 3, (size_t[]){TIMES, BAND, POINTS})
              : sonar_buffer_view(p->point_power, SONAR_F32, 1, (size_t[]){POINTS});
    sonar_error err = {0};
    void *stage;
    cr_assert(!sonar_cbf_cpu.create(&spec, sonar_host_serial(), &stage, &err), "%s", err.text);
    cr_assert(!sonar_cbf_cpu.execute(stage, NULL, &in, out, &work, &err), "%s", err.text);
    cr_assert(!sonar_cbf_cpu.evaluate(stage, NULL, &turns, &at, &work, &err), "%s", err.text);
    sonar_cbf_cpu.destroy(stage);
}

/* Mean power of the sum of two parts, [snapshot][bin][point], of one bin and point. */
static double joined(const sonar_c32 *a, const sonar_c32 *b, size_t bins, size_t points, size_t bin,
                     size_t point) {
    double sum = 0;
    for (size_t s = 0; s < TIMES; s++) {
        const size_t i = (s * bins + bin) * points + point;
        const double re = (double)a[i].re + (double)b[i].re, im = (double)a[i].im + (double)b[i].im;
        sum += re * re + im * im;
    }
    return sum / TIMES;
}

static void expect_near(double value, float expected, const char *what) {
    cr_assert(fabs(value / (double)expected - 1) < 1e-4, "%s: %g in place of %g", what, value,
              (double)expected);
}

static double joined_band(const sonar_c32 *a, const sonar_c32 *b, size_t points, size_t point) {
    double sum = 0;
    for (size_t bin = 0; bin < BAND; bin++)
        sum += joined(a, b, BAND, points, bin, point);
    return sum * 8000 / 512;
}

Test(cbf, parts_of_an_array_add_up_to_the_whole) {
    static part whole = {.count = WHOLE}, a = {.count = FIRST},
                b = {.from = FIRST, .count = WHOLE - FIRST};
    uint64_t seed = 7;
    uint64_t *const tables[] = {whole.far, whole.near, whole.point};
    const size_t counts[] = {LOOKS * WHOLE, NEAR * LOOKS * WHOLE, POINTS * WHOLE};
    for (size_t t = 0; t < 3; t++)
        for (size_t i = 0; i < counts[t]; i++)
            tables[t][i] = sonar_random_bits(&seed);
    for (size_t i = 0; i < TIMES * BINS * WHOLE; i++) {
        whole.x[i].re = (float)sonar_random_normal(&seed);
        whole.x[i].im = (float)sonar_random_normal(&seed);
    }
    for (size_t s = 0; s < WHOLE; s++)
        whole.params.shading_sum +=
            (double)(whole.shading[s] = s == 5 ? 0 : 0.5f + 0.01f * (float)s);
    whole.params.sensors = WHOLE;
    whole.params.shading = whole.shading;
    whole.params.far_cbf = (sonar_manifold){1, LOOKS, WHOLE, 8000. / 512, whole.far, 0};
    whole.params.near_cbf = (sonar_manifold){NEAR, LOOKS, WHOLE, 8000. / 512, whole.near, 0};
    for (int lofar = 0; lofar < 2; lofar++) {
        const size_t rows = lofar ? BINS : BAND;
        run_part(&whole, false, lofar);
        cut(&whole, &a), cut(&whole, &b);
        run_part(&a, true, lofar), run_part(&b, true, lofar);
        for (size_t t = 0; t < LOOKS && !lofar; t++)
            expect_near(joined_band(a.y_far, b.y_far, LOOKS, t), whole.azimuth[t], "azimuth");
        for (size_t bin = 0; bin < rows && lofar; bin++)
            for (size_t t = 0; t < LOOKS; t++)
                expect_near(joined(a.y_far, b.y_far, rows, LOOKS, bin, t),
                            whole.lofar[bin * LOOKS + t], "lofar");
        for (size_t t = 0; t < NEAR * LOOKS; t++)
            expect_near(joined_band(a.y_near, b.y_near, NEAR * LOOKS, t), whole.near_power[t],
                        "near field");
        for (size_t t = 0; t < POINTS; t++)
            expect_near(joined_band(a.y_point, b.y_point, POINTS, t), whole.point_power[t],
                        "point");
    }
}
