/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The decimator against tones, whose samples at the lower rate are known, and against a sum in
 * double precision over its own response to impulses. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/random.h"
#include "decimator.h"

TestSuite(decimator, .timeout = 240);

static const size_t factors[] = {2, 3, 4, 5, 7, 10, 12, 16, 25, 30, 97, 100};
enum { FACTORS = sizeof factors / sizeof *factors };

static decimator *make(size_t channels, size_t factor) {
    decimator *d = NULL;
    sonar_error err = {0};
    cr_assert_eq(decimator_create(channels, factor, &d, &err), SONAR_OK, "%s", err.text);
    return d;
}

/* [n][channels] from `index` on in pieces of 1, 2, ... samples; *first: index of the first one of
 * `to`. Each that comes has to follow the one before. */
static size_t run(decimator *d, size_t channels, size_t factor, uint64_t index, const float *rows,
                  size_t n, float *to, uint64_t *first) {
    size_t count = 0;
    float *piece = sonar_alloc((n / factor + 2) * channels, sizeof *piece);
    for (size_t at = 0, size = 1; at < n; at += size, size = size % 301 + 1) {
        uint64_t begin = 0;
        size = sonar_min_size(size, n - at);
        const size_t got = decimator_put(d, index + at, rows + at * channels, size, piece, &begin);
        cr_assert(got <= size / factor + 1);
        if (got && !count)
            *first = begin;
        if (got)
            cr_assert_eq(begin, *first + count);
        memcpy(to + count * channels, piece, got * channels * sizeof *to);
        count += got;
    }
    free(piece);
    return count;
}

/* What comes out of a tone of amplitude 1 less what it has at these times times `gain`. */
static double off_tone(size_t factor, double turns, double gain) {
    decimator *d = make(1, factor);
    const uint64_t index = 12345;
    const size_t reach = decimator_reach(d), n = 2 * reach + 40 * factor;
    float *in = sonar_alloc(n, sizeof *in), *out = sonar_alloc(n / factor + 2, sizeof *out);
    uint64_t first = 0;
    double most = 0;
    for (size_t i = 0; i < n; i++)
        in[i] = (float)cos(2 * M_PI * turns * (double)(index + i) + 0.3);
    const size_t count = run(d, 1, factor, index, in, n, out, &first);
    cr_assert(count >= 39, "%zu", count);
    cr_assert_eq(first, (index + reach + factor - 1) / factor, "as soon as it can");
    for (size_t j = 0; j < count; j++)
        most =
            fmax(most, fabs((double)out[j] -
                            gain * cos(2 * M_PI * turns * (double)((first + j) * factor) + 0.3)));
    free(in);
    free(out);
    decimator_destroy(d);
    return most;
}

Test(decimator, tones_below_0_4_of_the_new_rate_pass_without_delay) {
    for (size_t i = 0; i < FACTORS; i++)
        for (double of_new = 0; of_new <= 0.4001; of_new += 0.05) {
            const double off = off_tone(factors[i], fmin(of_new, 0.4) / (double)factors[i], 1);
            cr_expect_leq(off, pow(10, 0.01 / 20) - 1, "by %zu, %g of the new rate: %g", factors[i],
                          of_new, off);
        }
}

Test(decimator, tones_above_0_6_of_the_new_rate_are_80_dB_down) {
    for (size_t i = 0; i < FACTORS; i++)
        for (int k = 0; k <= 60; k++) {
            const double least = 0.6 / (double)factors[i], turns = least + (0.5 - least) * k / 60.0;
            const double folded =
                fabs(turns * (double)factors[i] - rint(turns * (double)factors[i]));
            if (turns > 0.5 || folded > 0.4) /* falls where the filter is neither */
                continue;
            const double off = off_tone(factors[i], turns, 0);
            cr_expect_leq(off, 1e-4, "by %zu, %g turns: %g", factors[i], turns, off);
        }
}

/* The response of sample j to an impulse at each index, from the decimator itself: [2 reach + 1].
 */
static double *response(size_t factor, size_t reach) {
    double *h = sonar_alloc(2 * reach + 1, sizeof *h);
    const size_t n = 4 * reach + 2 * factor;
    const uint64_t centre = (2 * reach + factor) / factor; /* in the middle */
    float *in = sonar_alloc(n, sizeof *in), *out = sonar_alloc(n / factor + 2, sizeof *out);
    for (size_t k = 0; k < 2 * reach + 1; k++) {
        decimator *d = make(1, factor);
        uint64_t first = 0;
        memset(in, 0, n * sizeof *in);
        in[centre * factor - reach + k] = 1;
        const size_t count = decimator_put(d, 0, in, n, out, &first);
        cr_assert(centre >= first && centre < first + count);
        h[k] = (double)out[centre - first];
        decimator_destroy(d);
    }
    free(in);
    free(out);
    return h;
}

Test(decimator, many_channels_are_the_sum_over_the_response) {
    static const size_t small[] = {2, 3, 6, 10, 25}, sizes[] = {1, 3, 511, 512, 1027};
    uint64_t random = 5;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        const size_t factor = small[i], channels = sizes[i];
        decimator *d = make(channels, factor);
        const size_t reach = decimator_reach(d), n = 2 * reach + 7 * factor + 3;
        double *h = response(factor, reach), sum = 0;
        float *in = sonar_alloc(n * channels, sizeof *in),
              *out = sonar_alloc((n / factor + 2) * channels, sizeof *out);
        const uint64_t index = 1000003;
        uint64_t first = 0;
        for (size_t k = 0; k < 2 * reach + 1; k++) {
            sum += h[k];
            cr_expect_float_eq(h[k], h[2 * reach - k], 1e-7, "it is symmetric: no delay");
        }
        cr_expect_float_eq(sum, 1, 1e-6, "by %zu: %.9g", factor, sum);
        for (size_t k = 0; k < n * channels; k++)
            in[k] = (float)sonar_random_normal(&random);
        const size_t count = run(d, channels, factor, index, in, n, out, &first);
        cr_assert(count >= 7);
        for (size_t j = 0; j < count; j++)
            for (size_t c = 0; c < channels; c++) {
                double wanted = 0;
                const size_t from = (size_t)((first + j) * factor - reach - index);
                for (size_t k = 0; k < 2 * reach + 1; k++)
                    wanted += h[k] * (double)in[(from + k) * channels + c];
                cr_assert_float_eq(out[j * channels + c], wanted, 1e-5,
                                   "by %zu, sample %zu, channel %zu of %zu: %g, not %g", factor, j,
                                   c, channels, (double)out[j * channels + c], wanted);
            }
        free(h);
        free(in);
        free(out);
        decimator_destroy(d);
    }
}

/* After a gap, and after the index went back, as if nothing had been before. */
Test(decimator, nothing_reaches_across_a_gap) {
    enum { CHANNELS = 2, N = 3000 };
    static float in[N * CHANNELS], out[N * CHANNELS], wanted[N * CHANNELS];
    uint64_t random = 6;
    for (size_t k = 0; k < N * CHANNELS; k++)
        in[k] = (float)sonar_random_normal(&random);
    static const uint64_t begin[] = {0, N + 1, 3 * N + 17, 3 * N + 18, 5, 5};
    for (size_t i = 0; i < FACTORS; i++) {
        const size_t factor = factors[i];
        decimator *d = make(CHANNELS, factor);
        if (2 * decimator_reach(d) + factor < N)
            for (size_t k = 0; k < sizeof begin / sizeof *begin; k++) {
                decimator *fresh = make(CHANNELS, factor);
                uint64_t first = 0, there = 0;
                const size_t count = run(d, CHANNELS, factor, begin[k], in, N, out, &first);
                const size_t other = run(fresh, CHANNELS, factor, begin[k], in, N, wanted, &there);
                cr_assert(count > 0 && count == other && first == there, "%zu", factor);
                cr_assert_arr_eq(out, wanted, count * CHANNELS * sizeof *out);
                decimator_destroy(fresh);
            }
        decimator_destroy(d);
    }
}

Test(decimator, too_much_is_refused) {
    decimator *d = NULL;
    sonar_error err = {0};
    cr_expect_eq(decimator_create(1000000, 997, &d, &err), SONAR_EINVAL);
    cr_expect(strstr(err.text, "2000 MB are accepted"), "%s", err.text);
}
