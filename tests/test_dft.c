/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The DFT stage against sums in double precision, physics and faults. */
#include "core/core.h"
#include "dft/dft.h"
#include "oracle.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a stage with its parameters and buffers ------------------------------------------------- */

struct rig {
    sonar_dft_spec spec;
    sonar_params params;
    double *phase_turns, *delay_s;
    float *scale, *x; /* x: [channel][length] */
    uint32_t *channel;
    uint8_t *used;
    sonar_c32 *y; /* [bin][sensor] */
    void *stage;
    const sonar_gaps *gaps; /* of a window whose sample `from` is x's first */
    size_t from;
};

static sonar_dft_spec all_bins(size_t channels, size_t length) {
    return (sonar_dft_spec){.channels = channels,
                            .sensors = channels,
                            .length = length,
                            .fs_hz = 8000,
                            .bins = length / 2 + 1,
                            .window = SONAR_HANN,
                            .remove_mean = true,
                            .planning = SONAR_PLAN_STABLE};
}

static void rig_open(struct rig *rig, sonar_dft_spec spec, const sonar_host *host) {
    size_t n = spec.sensors;
    *rig = (struct rig){.spec = spec};
    rig->phase_turns = sonar_alloc(n, sizeof(double));
    rig->delay_s = sonar_alloc(n, sizeof(double));
    rig->scale = sonar_alloc(n, sizeof(float));
    rig->channel = sonar_alloc(n, sizeof(uint32_t));
    rig->used = sonar_alloc(n, 1);
    rig->x = sonar_alloc(spec.channels * spec.length, sizeof(float));
    rig->y = sonar_alloc(spec.bins * n, sizeof(sonar_c32));
    for (size_t k = 0; k < n; k++) {
        rig->scale[k] = 1;
        rig->used[k] = 1;
        rig->channel[k] = (uint32_t)k;
    }
    rig->params = (sonar_params){.version = 1,
                                 .sensors = n,
                                 .sensors_used = n,
                                 .channel = rig->channel,
                                 .used = rig->used,
                                 .scale = rig->scale,
                                 .phase_turns = rig->phase_turns,
                                 .delay_s = rig->delay_s};
    sonar_error err = {0};
    cr_assert_eq(sonar_dft_cpu.create(&spec, host, &rig->stage, &err), SONAR_OK, "%s", err.text);
}

static void rig_close(struct rig *rig) {
    sonar_dft_cpu.destroy(rig->stage);
    free(rig->phase_turns);
    free(rig->delay_s);
    free(rig->scale);
    free(rig->channel);
    free(rig->used);
    free(rig->x);
    free(rig->y);
}

/* The window cut in two after `head` samples, the output full of what must not remain. */
static sonar_code rig_run_split(struct rig *rig, size_t head) {
    const sonar_dft_spec *spec = &rig->spec;
    sonar_buffer in[SONAR_DFT_INPUTS], out;
    size_t first[2] = {spec->channels, head}, second[2] = {spec->channels, spec->length - head};
    size_t shape[2] = {spec->bins, spec->sensors};
    in[SONAR_DFT_HEAD] = sonar_buffer_view(rig->x, SONAR_F32, 2, first);
    in[SONAR_DFT_TAIL] = sonar_buffer_view(rig->x + head, SONAR_F32, 2, second);
    in[0].stride[0] = in[1].stride[0] = (ptrdiff_t)spec->length;
    out = sonar_buffer_view(rig->y, SONAR_C32, 2, shape);
    memset(rig->y, 0xff, out.bytes);
    sonar_work work = {.params = &rig->params, .gaps = rig->gaps, .offset = rig->from};
    return sonar_dft_cpu.execute(rig->stage, NULL, in, &out, &work, NULL);
}

static void rig_run(struct rig *rig) {
    cr_assert_eq(rig_run_split(rig, rig->spec.length), SONAR_OK);
}

static void rig_noise(struct rig *rig, uint64_t seed) {
    for (size_t i = 0; i < rig->spec.channels * rig->spec.length; i++)
        rig->x[i] = (float)sonar_random_normal(&seed);
}

static double complex bin_of(const struct rig *rig, size_t bin, size_t sensor) {
    sonar_c32 y = rig->y[bin * rig->spec.sensors + sensor];
    return (double)y.re + I * (double)y.im;
}

/* 2-norm error of every `step`th kept bin of sensor k, relative to their 2-norm. */
static double relative_error(const struct rig *rig, size_t k, size_t step) {
    const sonar_dft_spec *spec = &rig->spec;
    double *window = sonar_alloc(spec->length, sizeof *window), error = 0, size = 0;
    sonar_dft_window(spec->window, spec->kaiser_beta, spec->length, window);
    for (size_t b = 0; b < spec->bins; b += step) {
        const float *x = rig->x + rig->channel[k] * spec->length;
        double complex want = oracle_psd_bin(x, window, spec->length, spec->first_bin + b,
                                             spec->fs_hz, spec->remove_mean);
        error += pow(cabs(bin_of(rig, b, k) - want), 2);
        size += pow(cabs(want), 2);
    }
    free(window);
    return sqrt(error / size);
}

/* ---- against the oracle ---------------------------------------------------------------------- */

Test(dft, random_data_of_awkward_sizes) {
    const size_t lengths[] = {2, 3, 5, 7, 16, 97, 100, 243, 1000, 1009, 1024, 8192};
    const size_t sensors[] = {1, 2, 3, 7, 8, 9, 17};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct rig rig;
        rig_open(&rig, all_bins(sensors[i % 7], lengths[i]), sonar_host_serial());
        rig_noise(&rig, i);
        rig_run(&rig);
        for (size_t k = 0; k < rig.spec.sensors; k++) {
            double error = relative_error(&rig, k, 1 + lengths[i] / 200);
            cr_assert_leq(error, 1e-6, "N %zu, sensor %zu: %g", lengths[i], k, error);
        }
        rig_close(&rig);
    }
}

Test(dft, every_window_and_part_of_the_bins) {
    for (int window = SONAR_HANN; window <= SONAR_FLATTOP; window++) {
        struct rig rig;
        sonar_dft_spec spec = all_bins(5, 300);
        spec.window = (sonar_window_kind)window;
        spec.kaiser_beta = 8;
        spec.first_bin = 33;
        spec.bins = 51;
        spec.remove_mean = window % 2;
        rig_open(&rig, spec, sonar_host_serial());
        rig_noise(&rig, (uint64_t)window);
        rig_run(&rig);
        for (size_t k = 0; k < 5; k++)
            cr_assert_leq(relative_error(&rig, k, 1), 1e-6);
        rig_close(&rig);
    }
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Coherent gain and equivalent noise bandwidth in bins as in Harris, table 1 (Kaiser: alpha 2.5).
 */
Test(dft, windows_have_the_textbook_figures) {
    const struct {
        sonar_window_kind kind;
        double beta, gain, enbw;
    } known[] = {{SONAR_RECTANGULAR, 0, 1.00, 1.00},     {SONAR_HANN, 0, 0.50, 1.50},
                 {SONAR_HAMMING, 0, 0.54, 1.36},         {SONAR_BLACKMAN, 0, 0.42, 1.73},
                 {SONAR_KAISER, 2.5 * M_PI, 0.44, 1.65}, {SONAR_FLATTOP, 0, 0.2156, 3.77}};
    double w[1000];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        double sum = 0, squares = 0;
        sonar_dft_window(known[i].kind, known[i].beta, 1000, w);
        for (size_t t = 0; t < 1000; t++) {
            sum += w[t];
            squares += w[t] * w[t];
            cr_assert_float_eq(w[t], w[(1000 - t) % 1000], 1e-12, "periodic and symmetric");
        }
        cr_assert_float_eq(sum / 1000, known[i].gain, 0.005);
        cr_assert_float_eq(1000 * squares / (sum * sum), known[i].enbw, 0.01);
        cr_assert_float_eq(w[500], 1, 1e-8, "largest in the middle");
    }
}

/* ---- properties ------------------------------------------------------------------------------ */

Test(dft, impulse_is_flat_and_its_phase_falls) {
    struct rig rig;
    sonar_dft_spec spec = all_bins(1, 64);
    spec.window = SONAR_RECTANGULAR;
    spec.remove_mean = false;
    rig_open(&rig, spec, sonar_host_serial());
    rig.x[3] = 1;
    rig_run(&rig);
    for (size_t b = 0; b < spec.bins; b++) {
        double size = sqrt((b == 0 || b == 32 ? 1 : 2) / (8000.0 * 64));
        double complex want = size * cexp(-2 * M_PI * I * 3 * (double)b / 64);
        cr_assert_lt(cabs(bin_of(&rig, b, 0) - want), 1e-6 * size);
    }
    rig_close(&rig);
}

Test(dft, linear) {
    struct rig rig;
    rig_open(&rig, all_bins(3, 250), sonar_host_serial());
    rig_noise(&rig, 9);
    for (size_t t = 0; t < 250; t++)
        rig.x[500 + t] = 2 * rig.x[t] - 3 * rig.x[250 + t];
    rig_run(&rig);
    for (size_t b = 0; b < rig.spec.bins; b++) {
        double complex want = 2 * bin_of(&rig, b, 0) - 3 * bin_of(&rig, b, 1);
        cr_assert_lt(cabs(bin_of(&rig, b, 2) - want), 1e-6);
    }
    rig_close(&rig);
}

/* X(f) = sum x(t) e^{-j 2 pi f t}: what comes later turns clockwise. */
Test(dft, circular_shift_turns_the_phase) {
    struct rig rig;
    sonar_dft_spec spec = all_bins(2, 210);
    spec.window = SONAR_RECTANGULAR;
    rig_open(&rig, spec, sonar_host_serial());
    rig_noise(&rig, 10);
    for (size_t t = 0; t < 210; t++)
        rig.x[210 + (t + 11) % 210] = rig.x[t];
    rig_run(&rig);
    for (size_t b = 1; b < spec.bins; b++) {
        double complex want = bin_of(&rig, b, 0) * cexp(-2 * M_PI * I * 11 * (double)b / 210);
        cr_assert_lt(cabs(bin_of(&rig, b, 1) - want), 1e-7);
    }
    rig_close(&rig);
}

Test(dft, mean_is_removed_before_the_window) {
    struct rig rig;
    rig_open(&rig, all_bins(2, 512), sonar_host_serial());
    uint64_t seed = 11;
    for (size_t t = 0; t < 512; t++) { /* multiples of 2^-8 stay exact beside the offset */
        rig.x[t] = (float)(floor(256 * sonar_random_symmetric(&seed)) / 256);
        rig.x[512 + t] = rig.x[t] + 4096;
    }
    rig_run(&rig);
    for (size_t b = 0; b < rig.spec.bins; b++)
        cr_assert_lt(cabs(bin_of(&rig, b, 0) - bin_of(&rig, b, 1)), 1e-8);
    rig_close(&rig);
}

Test(dft, wrap_at_every_position) {
    struct rig rig;
    rig_open(&rig, all_bins(3, 24), sonar_host_serial());
    rig_noise(&rig, 12);
    rig_run(&rig);
    size_t bytes = rig.spec.bins * 3 * sizeof(sonar_c32);
    void *whole = malloc(bytes);
    memcpy(whole, rig.y, bytes);
    for (size_t head = 0; head <= 24; head++) {
        cr_assert_eq(rig_run_split(&rig, head), SONAR_OK);
        cr_assert_eq(memcmp(whole, rig.y, bytes), 0, "cut after %zu", head);
    }
    free(whole);
    rig_close(&rig);
}

/* ---- gaps ------------------------------------------------------------------------------------ */

/* Transforms of 100 samples from any one of a window of 160 on, with gaps of their own in each
 * channel; what stands in these matters nothing. */
static void check_gaps(uint64_t seed, bool remove_mean) {
    enum { CHANNELS = 21, LENGTH = 100, WINDOW = 160 };
    uint32_t count[CHANNELS];
    sonar_gap gap[CHANNELS * SONAR_GAPS_MOST];
    const sonar_gaps gaps = {count, gap};
    double window[LENGTH];
    struct rig rig;
    sonar_dft_spec spec = all_bins(CHANNELS, LENGTH);
    spec.remove_mean = remove_mean;
    rig_open(&rig, spec, sonar_host_serial());
    rig_noise(&rig, seed);
    oracle_gaps(&seed, CHANNELS, WINDOW, count, gap);
    rig.gaps = &gaps;
    rig.from = sonar_random_bits(&seed) % (WINDOW - LENGTH + 1);
    for (size_t i = 0; i < CHANNELS * LENGTH; i++)
        rig.x[i] += 300;
    cr_assert_eq(rig_run_split(&rig, sonar_random_bits(&seed) % LENGTH), SONAR_OK);
    sonar_dft_window(spec.window, 0, LENGTH, window);
    for (size_t k = 0; k < CHANNELS; k++) {
        double error = 0, size = 0;
        for (size_t b = 0; b < spec.bins; b++) {
            double complex want = oracle_psd_bin_with_gaps(rig.x + k * LENGTH, window, LENGTH, b,
                                                           spec.fs_hz, remove_mean, rig.from,
                                                           count[k], gap + k * SONAR_GAPS_MOST);
            error += pow(cabs(bin_of(&rig, b, k) - want), 2);
            size += pow(cabs(want), 2);
        }
        cr_assert(error <= 4e-12 * size, "channel %zu, %u gaps: %g", k, count[k],
                  sqrt(error / size));
    }
    rig_close(&rig);
}

Test(dft, the_mean_is_that_of_the_samples_that_are_there) {
    for (uint64_t seed = 1; seed <= 40; seed++)
        check_gaps(seed, seed % 4 != 0);
}

/* The case: 3 % of a window are lost, with noise of 10 on an offset of 300, all channels
 * alike. The sum of all channels at broadside must stay that of independent noise. */
Test(dft, a_lost_frame_makes_no_contact_of_an_offset) {
    enum { CHANNELS = 32, LENGTH = 4096, BINS = 64 };
    uint32_t count[CHANNELS];
    sonar_gap gap[CHANNELS * SONAR_GAPS_MOST];
    const sonar_gaps gaps = {count, gap};
    struct rig rig;
    uint64_t seed = 5;
    rig_open(&rig, all_bins(CHANNELS, LENGTH), sonar_host_serial());
    for (size_t k = 0; k < CHANNELS; k++) {
        count[k] = 1;
        gap[k * SONAR_GAPS_MOST] = (sonar_gap){2000, 2123};
        for (size_t i = 0; i < LENGTH; i++)
            rig.x[k * LENGTH + i] =
                i >= 2000 && i < 2123 ? 0 : (float)(300 + 10 * sonar_random_normal(&seed));
    }
    rig.gaps = &gaps;
    rig_run(&rig);
    double together = 0, alone = 0;
    for (size_t b = 20; b < 20 + BINS; b++) {
        double complex sum = 0;
        for (size_t k = 0; k < CHANNELS; k++) {
            sum += bin_of(&rig, b, k);
            alone += pow(cabs(bin_of(&rig, b, k)), 2);
        }
        together += pow(cabs(sum), 2);
    }
    cr_assert(fabs(10 * log10(together / alone)) < 1.5, "%g dB", 10 * log10(together / alone));
    rig_close(&rig);
}

/* ---- levels ---------------------------------------------------------------------------------- */

Test(dft, s16_samples_give_the_bits_of_the_same_floats) {
    struct rig rig;
    rig_open(&rig, all_bins(9, 101), sonar_host_serial());
    size_t count = 9 * 101, bytes = rig.spec.bins * 9 * sizeof(sonar_c32);
    int16_t *narrow = sonar_alloc(count, sizeof *narrow);
    sonar_c32 *want = sonar_alloc(bytes, 1);
    uint64_t seed = 5;
    for (size_t i = 0; i < count; i++)
        rig.x[i] = narrow[i] = (int16_t)sonar_random_bits(&seed);
    narrow[0] = INT16_MIN, rig.x[0] = INT16_MIN;
    rig_run(&rig);
    memcpy(want, rig.y, bytes);
    sonar_work work = {.params = &rig.params};
    for (size_t head = 0; head <= 101; head += 25) {
        sonar_buffer in[SONAR_DFT_INPUTS] = {
            sonar_buffer_view(narrow, SONAR_S16, 2, (size_t[]){9, head}),
            sonar_buffer_view(narrow + head, SONAR_S16, 2, (size_t[]){9, 101 - head})};
        sonar_buffer out = sonar_buffer_view(rig.y, SONAR_C32, 2, (size_t[]){rig.spec.bins, 9});
        in[0].stride[0] = in[1].stride[0] = 101;
        memset(rig.y, 0xff, bytes);
        cr_assert_eq(sonar_dft_cpu.execute(rig.stage, NULL, in, &out, &work, NULL), SONAR_OK);
        cr_assert(!memcmp(want, rig.y, bytes), "cut at %zu", head);
    }
    free(narrow);
    free(want);
    rig_close(&rig);
}

static double mean_square_of_spectrum(const struct rig *rig, size_t k) {
    double sum = 0;
    for (size_t b = 0; b < rig->spec.bins; b++)
        sum += pow(cabs(bin_of(rig, b, k)), 2);
    return sum * rig->spec.fs_hz / (double)rig->spec.length;
}

/* Parseval for the one-sided density, odd and even N: counting DC or Nyquist twice would show. */
Test(dft, density_sums_to_the_mean_square) {
    for (size_t n = 6; n <= 101; n++) {
        struct rig rig;
        sonar_dft_spec spec = all_bins(2, n);
        spec.window = SONAR_RECTANGULAR;
        spec.remove_mean = false;
        rig_open(&rig, spec, sonar_host_serial());
        rig_noise(&rig, n);
        for (size_t t = 0; t < n; t++)
            rig.x[n + t] = t % 2 ? 0.5f : 2.5f; /* all its power at DC and Nyquist */
        rig_run(&rig);
        for (size_t k = 0; k < 2; k++) {
            double want = 0;
            for (size_t t = 0; t < n; t++)
                want += pow((double)rig.x[k * n + t], 2) / (double)n;
            cr_assert_float_eq(mean_square_of_spectrum(&rig, k) / want, 1, 1e-5);
        }
        rig_close(&rig);
    }
}

Test(dft, calibrated_tone_reads_its_mean_square) {
    struct rig rig;
    rig_open(&rig, all_bins(4, 2048), sonar_host_serial());
    const double cycles[4] = {100, 100.3, 411.5, 777.77};
    for (size_t k = 0; k < 4; k++) {
        rig.scale[k] = 50;
        for (size_t t = 0; t < 2048; t++)
            rig.x[k * 2048 + t] = (float)(0.02 * 3 * sin(2 * M_PI * cycles[k] * (double)t / 2048));
    }
    rig_run(&rig);
    for (size_t k = 0; k < 4; k++)
        cr_assert_float_eq(10 * log10(mean_square_of_spectrum(&rig, k) / 4.5), 0, 0.1);
    rig_close(&rig);
}

Test(dft, white_noise_is_flat_at_its_level) {
    struct rig rig;
    rig_open(&rig, all_bins(1600, 512), sonar_host_serial());
    rig_noise(&rig, 14);
    rig_run(&rig);
    double low = 0, high = 0; /* variance 1 over fs/2: density 2/fs */
    for (size_t b = 5; b < 251; b++)
        for (size_t k = 0; k < 1600; k++)
            *(b < 128 ? &low : &high) += pow(cabs(bin_of(&rig, b, k)), 2) / (1600 * 123);
    cr_assert_float_eq(10 * log10(low * 4000), 0, 0.05);
    cr_assert_float_eq(10 * log10(high * 4000), 0, 0.05);
    rig_close(&rig);
}

/* ---- corrections, mask, map ------------------------------------------------------------------ */

/* Sensor k hears the same tones late by delay_s, turned back by phase_turns and 1/scale as loud. */
Test(dft, corrections_undo_the_errors) {
    enum { N = 1000, K = 11 };
    struct rig rig;
    sonar_dft_spec spec = all_bins(K, N);
    spec.first_bin = 40;
    spec.bins = 400;
    rig_open(&rig, spec, sonar_host_serial());
    uint64_t seed = 15;
    for (size_t k = 1; k < K; k++) {
        rig.delay_s[k] = 2e-3 * sonar_random_symmetric(&seed);
        rig.phase_turns[k] = 3 * sonar_random_symmetric(&seed);
        rig.scale[k] = (float)pow(10, sonar_random_symmetric(&seed));
    }
    for (size_t tone = 50; tone < 430; tone += 29)
        for (size_t k = 0; k < K; k++)
            for (size_t t = 0; t < N; t++) {
                double late = (double)t / 8000 - rig.delay_s[k];
                double phase = 8.0 * (double)tone * late - rig.phase_turns[k];
                rig.x[k * N + t] += (float)(cos(2 * M_PI * phase) / (double)rig.scale[k]);
            }
    rig_run(&rig);
    double size = cabs(bin_of(&rig, 10, 0));
    for (size_t b = 10; b < 390; b += 29)
        for (size_t k = 0; k < K; k++) {
            cr_assert_lt(cabs(bin_of(&rig, b, k) - bin_of(&rig, b, 0)), 3e-6 * size);
            cr_assert_float_eq(cabs(bin_of(&rig, b, k)) / size, 1, 1e-4);
        }
    rig_close(&rig);
}

Test(dft, long_delays_keep_their_phase_in_the_last_bin) {
    enum { N = 32768 };
    struct rig rig;
    rig_open(&rig, all_bins(1, N), sonar_host_serial());
    rig_noise(&rig, 16);
    rig_run(&rig);
    double complex plain = bin_of(&rig, N / 2 - 1, 0);
    rig.delay_s[0] = 1.2345678;
    rig.params.version++;
    rig_run(&rig);
    double turns = (N / 2 - 1) * 8000.0 / N * 1.2345678;
    double complex want = plain * cexp(2 * M_PI * I * (turns - rint(turns)));
    cr_assert_lt(cabs(bin_of(&rig, N / 2 - 1, 0) - want), 1e-6 * cabs(want));
    rig_close(&rig);
}

/* What a masked channel carries must not matter, not even what is not a number. */
Test(dft, masked_sensors_are_exactly_zero) {
    struct rig rig;
    rig_open(&rig, all_bins(21, 100), sonar_host_serial());
    rig_noise(&rig, 17);
    for (size_t k = 0; k < 21; k += 4) {
        rig.used[k] = 0;
        for (size_t t = 0; t < 100; t++)
            rig.x[k * 100 + t] = NAN;
    }
    rig_run(&rig);
    for (size_t k = 0; k < 21; k++) {
        if (k % 4)
            cr_assert_leq(relative_error(&rig, k, 1), 1e-6);
        for (size_t b = 0; b < rig.spec.bins && k % 4 == 0; b++)
            cr_assert(bin_of(&rig, b, k) == 0);
    }
    rig_close(&rig);
}

Test(dft, sensors_follow_the_channel_map) {
    struct rig rig;
    sonar_dft_spec spec = all_bins(13, 100);
    spec.sensors = 10; /* three channels feed nobody, one feeds two */
    rig_open(&rig, spec, sonar_host_serial());
    rig_noise(&rig, 18);
    for (size_t k = 0; k < 10; k++)
        rig.channel[k] = (uint32_t)((k * 5 + 3) % 13);
    rig.channel[9] = rig.channel[2];
    rig_run(&rig);
    for (size_t k = 0; k < 10; k++)
        cr_assert_leq(relative_error(&rig, k, 1), 1e-6, "sensor %zu", k);
    rig_close(&rig);
}

Test(dft, a_new_version_of_the_parameters_is_taken_up) {
    struct rig rig;
    rig_open(&rig, all_bins(9, 100), sonar_host_serial());
    rig_noise(&rig, 19);
    rig_run(&rig);
    double complex before = bin_of(&rig, 20, 8);
    rig.used[3] = 0;
    rig.scale[8] = 2;
    rig.params.version = 7;
    rig_run(&rig);
    cr_assert(bin_of(&rig, 20, 3) == 0);
    cr_assert_lt(cabs(bin_of(&rig, 20, 8) - 2 * before), 1e-9);
    memset(rig.used, 0, 9);
    rig.params.version = 8;
    rig_run(&rig);
    for (size_t k = 0; k < 9; k++)
        cr_assert(bin_of(&rig, 20, k) == 0, "all masked");
    rig_close(&rig);
}

Test(dft, equalised_bins_keep_only_their_phase) {
    struct rig rig;
    sonar_dft_spec spec = all_bins(3, 100);
    spec.equalise_phase = true;
    rig_open(&rig, spec, sonar_host_serial());
    rig_noise(&rig, 20);
    memset(rig.x + 100, 0, 100 * sizeof(float)); /* 0 stays 0 */
    rig_run(&rig);
    double w[100];
    sonar_dft_window(SONAR_HANN, 0, 100, w);
    for (size_t b = 2; b < rig.spec.bins; b++) {
        double complex want = oracle_psd_bin(rig.x, w, 100, b, 8000, true);
        cr_assert_lt(cabs(bin_of(&rig, b, 0) - want / cabs(want)), 1e-5);
        cr_assert(bin_of(&rig, b, 1) == 0);
    }
    rig_close(&rig);
}

/* ---- threads, planning, faults --------------------------------------------------------------- */

Test(dft, workers_change_no_bit) {
    void *first = NULL;
    for (size_t workers = 1; workers <= 3; workers++) {
        sonar_pool *pool;
        cr_assert_eq(sonar_pool_create(workers, NULL, &pool, NULL), SONAR_OK);
        sonar_host host = *sonar_host_serial();
        host.ctx = pool;
        host.parallel = sonar_pool_parallel;
        host.workers = workers;
        struct rig rig;
        rig_open(&rig, all_bins(67, 1000), &host);
        rig_noise(&rig, 21);
        rig.delay_s[5] = 1e-4;
        rig_run(&rig);
        size_t bytes = rig.spec.bins * 67 * sizeof(sonar_c32);
        if (!first)
            first = memcpy(malloc(bytes), rig.y, bytes);
        cr_assert_eq(memcmp(first, rig.y, bytes), 0, "%zu workers", workers);
        rig_close(&rig);
        sonar_pool_destroy(pool);
    }
    free(first);
}

static int logged;

static void count_log(void *ctx, sonar_level level, const char *where, const char *text) {
    (void)ctx, (void)level, (void)where, (void)text;
    logged++;
}

Test(dft, wisdom_is_kept_and_a_corrupt_file_ignored) {
    char dir[] = "/tmp/sonar-test-XXXXXX", path[64];
    cr_assert_not_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/fftwf.wisdom", dir);
    FILE *file = fopen(path, "w");
    fputs("(fftw-3.3 this is no wisdom at all", file);
    fclose(file);
    sonar_host host = *sonar_host_serial();
    host.state_dir = dir;
    host.log = count_log;
    struct rig rig;
    sonar_dft_spec spec = all_bins(3, 128);
    spec.planning = SONAR_PLAN_MEASURE;
    for (int round = 0; round < 2; round++) { /* the second finds what the first wrote */
        rig_open(&rig, spec, &host);
        rig_noise(&rig, 22);
        rig_run(&rig);
        cr_assert_leq(relative_error(&rig, 0, 1), 1e-6);
        rig_close(&rig);
        cr_assert_eq(logged, 1, "only the corrupt file is worth a word");
    }
    char start[8] = {0};
    struct stat written;
    cr_assert_eq(stat(path, &written), 0);
    cr_assert_eq(written.st_mode & 0777, 0644, "others cannot read what root trained");
    file = fopen(path, "r");
    cr_assert_not_null(file);
    cr_assert_eq(fread(start, 1, 5, file), 5);
    cr_assert_str_eq(start, "(fftw");
    fclose(file);
    unlink(path);
    cr_assert_eq(rmdir(dir), 0, "nothing else is left in the directory");
}

/* A pipe would keep the start waiting, a link could lead anywhere. */
Test(dft, what_is_no_plain_wisdom_file_is_left_alone) {
    char dir[] = "/tmp/sonar-test-XXXXXX", path[64];
    cr_assert_not_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/fftwf.wisdom", dir);
    sonar_host host = *sonar_host_serial();
    host.state_dir = dir;
    host.log = count_log;
    for (int kind = 0; kind < 2; kind++) {
        struct rig rig;
        sonar_dft_spec spec = all_bins(3, 64);
        spec.planning = SONAR_PLAN_STABLE;
        cr_assert_eq(kind ? symlink("/dev/zero", path) : mkfifo(path, 0600), 0);
        rig_open(&rig, spec, &host);
        rig_close(&rig);
        cr_assert_eq(logged, kind + 1);
        unlink(path);
    }
    rmdir(dir);
}

Test(dft, unwritable_state_directory_is_no_error) {
    sonar_host host = *sonar_host_serial();
    host.state_dir = "/nonexistent/sonar";
    host.log = count_log;
    struct rig rig;
    sonar_dft_spec spec = all_bins(1, 32);
    spec.planning = SONAR_PLAN_MEASURE;
    rig_open(&rig, spec, &host);
    rig_close(&rig);
    cr_assert_eq(logged, 1);
}

Test(dft, impossible_specs_are_refused) {
    void *stage = &logged;
    sonar_error err;
    sonar_dft_spec bad[] = {all_bins(1, 16), all_bins(1, 16), all_bins(1, 16), all_bins(0, 16),
                            all_bins(1, 16), all_bins(1, 16), all_bins(1, 16)};
    bad[0].length = 1;
    bad[1].bins = 10;
    bad[2].first_bin = 1;
    bad[4].fs_hz = NAN;
    bad[5].window = SONAR_KAISER;
    bad[5].kaiser_beta = -1;
    bad[6].first_bin = SIZE_MAX;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(sonar_dft_cpu.create(&bad[i], sonar_host_serial(), &stage, &err), SONAR_EINVAL,
                     "case %zu", i);
        cr_assert_null(stage);
    }
    sonar_dft_cpu.destroy(NULL);
}

Test(dft, wrong_shapes_are_refused) {
    struct rig rig;
    rig_open(&rig, all_bins(3, 16), sonar_host_serial());
    rig.params.sensors = 2;
    cr_assert_eq(rig_run_split(&rig, 16), SONAR_EINVAL);
    rig.params.sensors = 3;
    rig.channel[1] = 3;
    cr_assert_eq(rig_run_split(&rig, 16), SONAR_EINVAL, "there is no channel 3");
    rig.channel[1] = 1;
    cr_assert_eq(rig_run_split(&rig, 16), SONAR_OK, "and it recovers");
    rig.spec.length = 15;
    cr_assert_eq(rig_run_split(&rig, 15), SONAR_EINVAL);
    rig_close(&rig);
}

/* A column is for backends with memory of their own. */
Test(dft, a_ring_is_refused) {
    struct rig rig;
    uint64_t column = 0;
    sonar_error err = {0};
    rig_open(&rig, all_bins(3, 16), sonar_host_serial());
    size_t shape[2] = {3, 16}, bins[2] = {9, 3};
    sonar_buffer in[SONAR_DFT_INPUTS] = {[SONAR_DFT_HEAD] =
                                             sonar_buffer_view(rig.x, SONAR_F32, 2, shape)};
    sonar_buffer out = sonar_buffer_view(rig.y, SONAR_C32, 2, bins);
    sonar_work work = {.params = &rig.params};
    cr_assert_eq(sonar_dft_cpu.execute(rig.stage, NULL, in, &out, &work, &err), SONAR_OK);
    work.column = &column;
    cr_assert_eq(sonar_dft_cpu.execute(rig.stage, NULL, in, &out, &work, &err), SONAR_EINVAL);
    cr_assert(strstr(err.text, "ring"), "%s", err.text);
    rig_close(&rig);
}
