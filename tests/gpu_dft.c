/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The DFT stage on the GPU against sums in double precision and the CPU's. */
#include "dft/dft.h"
#include "gpu.h"
#include "oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double MOST_ERROR = 1e-6;

static struct gpu device;

/* ---- paths ----------------------------------------------------------------------------------- */

/* What the table of choices would say; "untrained" leaves it to the built-in rule. */
struct path {
    const char *name, *path, *tile;
};

static const struct path PATHS[] = {{"untrained", NULL, NULL}, {"cufft", "cufft", NULL},
                                    {"fused", "fused", "1"},   {"fused 2", "fused", "2"},
                                    {"fused 4", "fused", "4"}, {"fused 8", "fused", "8"}};
enum { PATH_COUNT = sizeof PATHS / sizeof *PATHS };

static const struct path *path = &PATHS[0];

static const char *choose(void *ctx, const char *decision) {
    (void)ctx;
    if (!strcmp(decision, "dft.path"))
        return path->path;
    return strcmp(decision, "dft.tile") ? NULL : path->tile;
}

/* ---- a stage with its parameters and buffers ------------------------------------------------- */

struct rig {
    sonar_dft_spec spec;
    sonar_params params;
    double *phase_turns, *delay_s;
    float *scale;
    uint32_t *channel;
    uint8_t *used;
    size_t row;             /* samples from one channel to the next: rows are strided */
    sonar_buffer x, y, out; /* x: [channel][row], pinned or not; y: what came out, here */
    const sonar_stage_ops *ops;
    void *stage;
    sonar_gaps gaps; /* of a window whose sample `from` is the transform's first; no count: none */
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

static void rig_open(struct rig *rig, sonar_dft_spec spec, sonar_space space) {
    size_t n = spec.sensors;
    sonar_error err = {0};
    *rig = (struct rig){.spec = spec, .row = spec.length + 5};
    rig->phase_turns = sonar_alloc(n, sizeof(double));
    rig->delay_s = sonar_alloc(n, sizeof(double));
    rig->scale = sonar_alloc(n, sizeof(float));
    rig->channel = sonar_alloc(n, sizeof(uint32_t));
    rig->used = sonar_alloc(n, 1);
    for (size_t k = 0; k < n; k++) {
        rig->scale[k] = 1;
        rig->used[k] = 1;
        rig->channel[k] = (uint32_t)(k % spec.channels);
    }
    rig->x = gpu_buffer(&device, space, SONAR_F32, 2, (size_t[]){spec.channels, rig->row});
    rig->y = gpu_buffer(&device, SONAR_PINNED, SONAR_C32, 2, (size_t[]){spec.bins, n});
    rig->out = gpu_buffer(&device, SONAR_DEVICE, SONAR_C32, 2, (size_t[]){spec.bins, n});
    rig->params = (sonar_params){.version = 1,
                                 .sensors = n,
                                 .sensors_used = n,
                                 .channel = rig->channel,
                                 .used = rig->used,
                                 .scale = rig->scale,
                                 .phase_turns = rig->phase_turns,
                                 .delay_s = rig->delay_s};
    rig->ops = device.backend->stage("dft");
    gpu_require(rig->ops ? SONAR_OK : SONAR_EUNAVAILABLE, &err, "the plugin has no stage dft");
    gpu_require(rig->ops->create(&spec, &device.host, &rig->stage, &err), &err, "create");
}

static void rig_close(struct rig *rig) {
    rig->ops->destroy(rig->stage);
    gpu_free(&device, &rig->x);
    gpu_free(&device, &rig->y);
    gpu_free(&device, &rig->out);
    free(rig->phase_turns);
    free(rig->delay_s);
    free(rig->scale);
    free(rig->channel);
    free(rig->used);
}

/* On top of a constant, where the stage is to take it out. */
static void noise(struct rig *rig, uint64_t seed) {
    double offset = rig->spec.remove_mean ? 100 * sonar_random_symmetric(&seed) : 0;
    for (size_t i = 0; i < rig->spec.channels * rig->row; i++)
        ((float *)rig->x.data)[i] = (float)(sonar_random_normal(&seed) + offset);
}

/* Views of the window, cut after `head` samples; `samples` is x or a copy of it. */
static void cut(const struct rig *rig, const sonar_buffer *samples, size_t head,
                sonar_buffer in[SONAR_DFT_INPUTS]) {
    size_t channels = rig->spec.channels;
    float *data = samples->data;
    in[SONAR_DFT_HEAD] = sonar_buffer_view(data, SONAR_F32, 2, (size_t[]){channels, head});
    in[SONAR_DFT_TAIL] =
        sonar_buffer_view(data + head, SONAR_F32, 2, (size_t[]){channels, rig->spec.length - head});
    for (int i = 0; i < SONAR_DFT_INPUTS; i++) {
        in[i].stride[0] = (ptrdiff_t)rig->row;
        in[i].space = samples->space;
    }
}

/* Runs on the GPU, the output full of what must not remain, and fetches. */
static void run(struct rig *rig, const sonar_buffer *samples, size_t head) {
    sonar_buffer in[SONAR_DFT_INPUTS];
    sonar_work work = {
        .params = &rig->params, .gaps = rig->gaps.count ? &rig->gaps : NULL, .offset = rig->from};
    sonar_error err = {0};
    cut(rig, samples, head, in);
    memset(rig->y.data, 0xff, rig->y.bytes);
    gpu_copy(&device, &rig->y, &rig->out);
    gpu_require(rig->ops->execute(rig->stage, device.queue, in, &rig->out, &work, &err), &err,
                "execute");
    gpu_copy(&device, &rig->out, &rig->y);
}

/* ---- references ------------------------------------------------------------------------------ */

static double complex bin_of(const struct rig *rig, size_t bin, size_t sensor) {
    sonar_c32 y = ((sonar_c32 *)rig->y.data)[bin * rig->spec.sensors + sensor];
    return (double)y.re + I * (double)y.im;
}

static double complex correction(const struct rig *rig, size_t bin, size_t k) {
    double hz = (double)bin * rig->spec.fs_hz / (double)rig->spec.length;
    double turns = rig->phase_turns[k] + hz * rig->delay_s[k];
    return (double)rig->scale[k] * cexp(2 * M_PI * I * (turns - rint(turns)));
}

/* 2-norm error of every `step`th kept bin of sensor k, relative to their 2-norm. */
static double relative_error(const struct rig *rig, size_t k, size_t step) {
    const sonar_dft_spec *spec = &rig->spec;
    double *window = sonar_alloc(spec->length, sizeof *window), error = 0, size = 0;
    const float *x = (const float *)rig->x.data + rig->channel[k] * rig->row;
    sonar_dft_window(spec->window, spec->kaiser_beta, spec->length, window);
    for (size_t b = 0; b < spec->bins; b += step) {
        size_t bin = spec->first_bin + b;
        size_t channel = rig->channel[k], gaps = rig->gaps.count ? rig->gaps.count[channel] : 0;
        double complex want =
            gaps ? oracle_psd_bin_with_gaps(x, window, spec->length, bin, spec->fs_hz,
                                            spec->remove_mean, rig->from, gaps,
                                            rig->gaps.gap + channel * SONAR_GAPS_MOST)
                 : oracle_psd_bin(x, window, spec->length, bin, spec->fs_hz, spec->remove_mean);
        want *= correction(rig, bin, k);
        if (spec->equalise_phase)
            want /= cabs(want);
        error += pow(cabs(bin_of(rig, b, k) - want), 2);
        size += pow(cabs(want), 2);
    }
    free(window);
    return size > 0 ? sqrt(error / size) : error > 0;
}

static void check_sensors(struct rig *rig, const char *what, size_t sensor_step, double most) {
    for (size_t k = 0; k < rig->spec.sensors; k += sensor_step) {
        if (!rig->used[k]) {
            bool zero = true;
            for (size_t b = 0; b < rig->spec.bins; b++)
                zero &= bin_of(rig, b, k) == 0;
            gpu_expect(&device, zero, "%s: masked sensor %zu is not zero", what, k);
            continue;
        }
        double error = relative_error(rig, k, 1 + rig->spec.bins / 100);
        gpu_expect(&device, error <= most,
                   "%s, path %s: N %zu, bins %zu + %zu, sensor %zu of %zu: %g", what, path->name,
                   rig->spec.length, rig->spec.first_bin, rig->spec.bins, k, rig->spec.sensors,
                   error);
    }
}

/* All of the last run against the CPU's, in the 2-norm of each sensor. */
static void check_against_cpu(struct rig *rig, size_t head, double most) {
    sonar_error err = {0};
    sonar_buffer in[SONAR_DFT_INPUTS];
    void *cpu = NULL;
    size_t sensors = rig->spec.sensors, bins = rig->spec.bins;
    sonar_buffer want = sonar_buffer_view(sonar_alloc(rig->y.bytes, 1), SONAR_C32, 2, rig->y.shape);
    sonar_work work = {.params = &rig->params};
    gpu_require(sonar_dft_cpu.create(&rig->spec, &device.host, &cpu, &err), &err, "cpu");
    cut(rig, &rig->x, head, in);
    gpu_require(sonar_dft_cpu.execute(cpu, NULL, in, &want, &work, &err), &err, "cpu");
    for (size_t k = 0; k < sensors; k++) {
        double error = 0, size = 0;
        for (size_t b = 0; b < bins; b++) {
            sonar_c32 a = ((sonar_c32 *)want.data)[b * sensors + k];
            double complex x = (double)a.re + I * (double)a.im;
            error += pow(cabs(bin_of(rig, b, k) - x), 2);
            size += pow(cabs(x), 2);
        }
        gpu_expect(&device, sqrt(error) <= most * sqrt(size),
                   "path %s: N %zu, bins %zu + %zu, sensor %zu of %zu: %g from the CPU", path->name,
                   rig->spec.length, rig->spec.first_bin, bins, k, sensors, sqrt(error / size));
    }
    sonar_dft_cpu.destroy(cpu);
    free(want.data);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static void awkward_sizes(void) {
    static const size_t lengths[] = {2,    3,   5,    7,    256,  16,    97,   100,   512,  243,
                                     1000, 128, 2048, 1009, 1024, 16384, 4099, 32768, 4096, 8192};
    static const size_t sensors[] = {1, 2, 3, 7, 31, 32, 33, 65, 17};
    size_t count = sizeof lengths / sizeof *lengths;
    for (size_t i = 0; i < (device.quick ? 9 : 2 * count); i++) {
        struct rig rig;
        rig_open(&rig, all_bins(sensors[i % 9], lengths[i % count]),
                 i % 2 ? SONAR_PINNED : SONAR_HOST);
        noise(&rig, i);
        run(&rig, &rig.x, rig.spec.length);
        check_sensors(&rig, "awkward size", 1 + rig.spec.length / 1024, MOST_ERROR);
        rig_close(&rig);
    }
}

static void windows_and_bands(size_t length) {
    for (int window = SONAR_HANN; window <= SONAR_FLATTOP; window++) {
        sonar_dft_spec spec = all_bins(9, length);
        spec.window = (sonar_window_kind)window;
        spec.kaiser_beta = 8;
        spec.first_bin = 17;
        spec.bins = 45 + (size_t)window;
        spec.remove_mean = window % 2;
        struct rig rig;
        rig_open(&rig, spec, SONAR_PINNED);
        noise(&rig, (uint64_t)window);
        run(&rig, &rig.x, spec.length);
        check_sensors(&rig, "window", 1, 3e-6); /* part of the energy is outside these bins */
        rig_close(&rig);
    }
}

/* Channels out of order, masks, corrections, and then other corrections. */
static void corrections(bool equalise) {
    sonar_dft_spec spec = all_bins(70, 512);
    spec.sensors = 50;
    spec.equalise_phase = equalise;
    struct rig rig;
    uint64_t seed = 3;
    rig_open(&rig, spec, SONAR_HOST);
    noise(&rig, 4);
    for (uint64_t version = 1; version <= 3; version++) {
        rig.params.version = version;
        for (size_t k = 0; k < spec.sensors; k++) {
            rig.channel[k] = (uint32_t)((k * 29 + 11 * version) % 61 + 3);
            rig.used[k] = version == 3 ? 0 : sonar_random_bits(&seed) % 4 > 0;
            rig.scale[k] = (float)(1.5 + sonar_random_symmetric(&seed));
            rig.phase_turns[k] = sonar_random_symmetric(&seed);
            rig.delay_s[k] = 3 * sonar_random_symmetric(&seed);
        }
        run(&rig, &rig.x, spec.length);
        check_sensors(&rig, equalise ? "equalised" : "corrected", 1, equalise ? 1e-5 : MOST_ERROR);
    }
    rig_close(&rig);
}

/* Any power of two, band and number of sensors; every bin is compared. */
static void random_sizes(void) {
    uint64_t seed = 17;
    for (size_t i = 0; i < (device.quick ? 4 : 60); i++) {
        size_t length = (size_t)64 << sonar_random_bits(&seed) % 8;
        sonar_dft_spec spec = all_bins(1 + sonar_random_bits(&seed) % 50, length);
        spec.bins = 3 + sonar_random_bits(&seed) % (i % 4 ? 30 : length / 2 - 3);
        spec.first_bin = sonar_random_bits(&seed) % (length / 2 + 2 - spec.bins);
        spec.sensors = 1 + sonar_random_bits(&seed) % 70;
        spec.window = i % 3 ? SONAR_HANN : SONAR_RECTANGULAR;
        spec.remove_mean = i % 3; /* else there would be nothing in the first bin */
        struct rig rig;
        rig_open(&rig, spec, SONAR_PINNED);
        for (size_t k = 0; k < spec.sensors; k++)
            rig.used[k] = sonar_random_bits(&seed) % 5 > 0;
        noise(&rig, i);
        size_t head = sonar_random_bits(&seed) % (length + 1);
        run(&rig, &rig.x, head);
        check_sensors(&rig, "random size", 1 + length / 64, 1e-5);
        check_against_cpu(&rig, head, 1e-5);
        rig_close(&rig);
    }
}

/* The first and the last bin, their own mirror images, alone and with their neighbours; something
 * is in both. */
static void edges(size_t length) {
    for (size_t bins = 1; bins <= 3; bins += 2)
        for (int top = 0; top < 2; top++) {
            sonar_dft_spec spec = all_bins(5, length);
            spec.bins = bins;
            spec.first_bin = top ? length / 2 + 1 - bins : 0;
            spec.window = SONAR_RECTANGULAR;
            spec.remove_mean = false;
            struct rig rig;
            rig_open(&rig, spec, SONAR_PINNED);
            noise(&rig, length + bins);
            for (size_t i = 0; i < spec.channels * rig.row; i++)
                ((float *)rig.x.data)[i] += i % rig.row % 2 ? 0 : 2;
            run(&rig, &rig.x, length);
            check_sensors(&rig, top ? "Nyquist" : "DC", 1, MOST_ERROR);
            rig_close(&rig);
        }
}

/* A constant a million times as large as the rest, as far as floats can show it. */
static void offsets(size_t length) {
    struct rig rig;
    uint64_t seed = length;
    rig_open(&rig, all_bins(4, length), SONAR_PINNED);
    for (size_t i = 0; i < rig.spec.channels * rig.row; i++)
        ((float *)rig.x.data)[i] = (float)(sonar_random_normal(&seed) + 1e6 + 0.1);
    run(&rig, &rig.x, length / 2);
    check_sensors(&rig, "offset", 1, MOST_ERROR);
    rig_close(&rig);
}

/* 2-norm error of the bins away from a tone 100 dB above the noise in them. */
static double error_beside(double tone_bin, size_t length) {
    sonar_dft_spec spec = all_bins(1, length);
    spec.window = SONAR_KAISER; /* 160 dB down beside the tone */
    spec.kaiser_beta = 18;
    struct rig rig;
    uint64_t seed = length;
    rig_open(&rig, spec, SONAR_PINNED);
    float *x = rig.x.data;
    for (size_t i = 0; i < length; i++)
        x[i] = (float)(1e5 * sin(2 * M_PI * tone_bin * (double)i / (double)length) +
                       sonar_random_normal(&seed));
    run(&rig, &rig.x, length);
    double *window = sonar_alloc(length, sizeof *window), error = 0, size = 0;
    sonar_dft_window(spec.window, spec.kaiser_beta, length, window);
    for (size_t b = 1; b < spec.bins; b += 1 + length / 512) {
        if (fabs((double)b - tone_bin) < 12)
            continue;
        double complex want = oracle_psd_bin(x, window, length, b, spec.fs_hz, true);
        error += pow(cabs(bin_of(&rig, b, 0) - want), 2);
        size += pow(cabs(want), 2);
    }
    free(window);
    rig_close(&rig);
    return sqrt(error / size);
}

/* No path loses more of what is beside a loud tone than cuFFT does, but for the luck of rounding.
 */
static void loud_tone(size_t length) {
    const struct path *given = path;
    for (int i = 0; i < 3; i++) {
        double bin = (double)length * (const double[]){0.07, 0.2501, 0.41}[i];
        double error = error_beside(bin, length);
        path = &PATHS[1];
        double theirs = error_beside(bin, length);
        path = given;
        gpu_expect(&device, theirs < 0.2 && error <= 3 * theirs,
                   "path %s: N %zu, tone at bin %g: %g beside it, cuFFT %g", path->name, length,
                   bin, error, theirs);
    }
}

/* The same bits wherever the samples are and wherever the window is cut. */
static void cuts_and_spaces(size_t length) {
    struct rig rig;
    rig_open(&rig, all_bins(21, length), SONAR_PINNED);
    noise(&rig, 7);
    sonar_buffer on_gpu =
        gpu_buffer(&device, SONAR_DEVICE, SONAR_F32, 2, (size_t[]){rig.spec.channels, rig.row});
    gpu_copy(&device, &rig.x, &on_gpu);
    run(&rig, &rig.x, length);
    check_sensors(&rig, "uncut", 1, MOST_ERROR);
    void *first = sonar_alloc(rig.y.bytes, 1);
    memcpy(first, rig.y.data, rig.y.bytes);
    for (size_t head = 0; head <= length; head += length / 8 | 1) {
        run(&rig, head % 2 ? &on_gpu : &rig.x, head);
        gpu_expect(&device, !memcmp(first, rig.y.data, rig.y.bytes), "cut at %zu", head);
        run(&rig, &on_gpu, head);
        gpu_expect(&device, !memcmp(first, rig.y.data, rig.y.bytes), "cut at %zu on device", head);
    }
    free(first);
    gpu_free(&device, &on_gpu);
    rig_close(&rig);
}

/* The bits of the same numbers as floats where cuFFT does the rest; the fused kernel, compiled for
 * each type, has its own last bits, but the same ones wherever the samples come from. */
static void s16_samples(size_t length, bool bits_of_floats) {
    struct rig rig;
    uint64_t seed = 13;
    sonar_error err = {0};
    rig_open(&rig, all_bins(21, length), SONAR_PINNED);
    size_t shape[2] = {rig.spec.channels, rig.row}, count = rig.spec.channels * rig.row;
    sonar_buffer here = gpu_buffer(&device, SONAR_PINNED, SONAR_S16, 2, shape);
    sonar_buffer there = gpu_buffer(&device, SONAR_DEVICE, SONAR_S16, 2, shape);
    for (size_t i = 0; i < count; i++)
        ((float *)rig.x.data)[i] = ((int16_t *)here.data)[i] =
            (int16_t)(i % 2 ? 32760 + sonar_random_bits(&seed) % 8 : sonar_random_bits(&seed));
    gpu_copy(&device, &here, &there);
    run(&rig, &rig.x, length);
    void *want = sonar_alloc(rig.y.bytes, 1);
    memcpy(want, rig.y.data, rig.y.bytes);
    sonar_work work = {.params = &rig.params};
    for (size_t head = 0; head <= length; head += length / 8 | 1) {
        const sonar_buffer *from = head % 2 ? &here : &there;
        sonar_buffer in[SONAR_DFT_INPUTS] = {*from, *from};
        in[SONAR_DFT_HEAD].shape[1] = head;
        in[SONAR_DFT_TAIL].shape[1] = length - head;
        in[SONAR_DFT_TAIL].data = (int16_t *)from->data + head;
        memset(rig.y.data, 0xff, rig.y.bytes);
        gpu_copy(&device, &rig.y, &rig.out);
        gpu_require(rig.ops->execute(rig.stage, device.queue, in, &rig.out, &work, &err), &err,
                    "execute");
        gpu_copy(&device, &rig.out, &rig.y);
        if (!bits_of_floats && head == 0) {
            check_sensors(&rig, "s16", 1, MOST_ERROR);
            memcpy(want, rig.y.data, rig.y.bytes);
        }
        gpu_expect(&device, !memcmp(want, rig.y.data, rig.y.bytes), "s16 cut at %zu", head);
    }
    free(want);
    gpu_free(&device, &here);
    gpu_free(&device, &there);
    rig_close(&rig);
}

/* ---- rings ----------------------------------------------------------------------------------- */

/* A ring on the device that holds the window of rig->x from `start` on, and around it what must not
 * be read. */
struct ring {
    sonar_dtype dtype;
    size_t capacity;
    sonar_buffer here, there, column_here, column_there;
};

static struct ring ring_open(struct rig *rig, sonar_dtype dtype, size_t capacity) {
    size_t shape[2] = {rig->spec.channels, capacity}, one[1] = {1};
    struct ring ring = {.dtype = dtype, .capacity = capacity};
    ring.here = gpu_buffer(&device, SONAR_PINNED, dtype, 2, shape);
    ring.there = gpu_buffer(&device, SONAR_DEVICE, dtype, 2, shape);
    ring.column_here = gpu_buffer(&device, SONAR_PINNED, SONAR_U64, 1, one);
    ring.column_there = gpu_buffer(&device, SONAR_DEVICE, SONAR_U64, 1, one);
    if (dtype == SONAR_S16)
        for (size_t i = 0; i < rig->spec.channels * rig->row; i++)
            ((float *)rig->x.data)[i] = rintf(20 * ((float *)rig->x.data)[i]);
    return ring;
}

static void ring_close(struct ring *ring) {
    gpu_free(&device, &ring->here);
    gpu_free(&device, &ring->there);
    gpu_free(&device, &ring->column_here);
    gpu_free(&device, &ring->column_there);
}

static void ring_fill(struct ring *ring, const struct rig *rig, size_t start) {
    float *f32 = ring->here.data;
    int16_t *s16 = ring->here.data;
    for (size_t i = 0; i < rig->spec.channels * ring->capacity; i++) {
        size_t c = i / ring->capacity, at = i % ring->capacity;
        size_t t = (at + ring->capacity - start) % ring->capacity;
        bool inside = t < rig->spec.length;
        float x = inside ? ((float *)rig->x.data)[c * rig->row + t] : 0;
        if (ring->dtype == SONAR_S16)
            s16[i] = inside ? (int16_t)x : INT16_MAX;
        else
            f32[i] = inside ? x : (float)NAN;
    }
    gpu_copy(&device, &ring->here, &ring->there);
}

static void ring_set(struct ring *ring, uint64_t column) {
    *(uint64_t *)ring->column_here.data = column;
    gpu_copy(&device, &ring->column_here, &ring->column_there);
}

static sonar_code ring_enqueue(struct rig *rig, const struct ring *ring, size_t offset,
                               sonar_error *err) {
    sonar_buffer in[SONAR_DFT_INPUTS] = {[SONAR_DFT_HEAD] = ring->there};
    sonar_work work = {.params = &rig->params,
                       .column = ring->column_there.data,
                       .offset = offset,
                       .gaps = rig->gaps.count ? &rig->gaps : NULL};
    return rig->ops->execute(rig->stage, device.queue, in, &rig->out, &work, err);
}

static void ring_run(struct rig *rig, const struct ring *ring, size_t offset) {
    sonar_error err = {0};
    memset(rig->y.data, 0xff, rig->y.bytes);
    gpu_copy(&device, &rig->y, &rig->out);
    gpu_require(ring_enqueue(rig, ring, offset, &err), &err, "execute on a ring");
    gpu_copy(&device, &rig->out, &rig->y);
}

/* Windows that begin at either end, wrap after one sample, before the last and in the middle: the
 * same samples and hence the same bits. */
static void rings(size_t length, size_t spare, sonar_dtype dtype) {
    struct rig rig;
    rig_open(&rig, all_bins(7, length), SONAR_HOST);
    noise(&rig, length + spare);
    size_t capacity = length + spare;
    struct ring ring = ring_open(&rig, dtype, capacity);
    void *first = sonar_alloc(rig.y.bytes, 1);
    const size_t starts[] = {0,
                             1,
                             spare,
                             (spare + 1) % capacity,
                             capacity - 1,
                             capacity - 2,
                             capacity - length / 2,
                             capacity - length / 3};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        size_t offset = i % 3 ? 3 * i + i % 2 : 0;
        uint64_t column = starts[i] + capacity - offset % capacity;
        ring_fill(&ring, &rig, starts[i]);
        ring_set(&ring, i % 2 ? column : column % capacity);
        ring_run(&rig, &ring, offset);
        if (i == 0) {
            check_sensors(&rig, dtype == SONAR_S16 ? "s16 ring" : "f32 ring", 1 + length / 2048,
                          MOST_ERROR);
            memcpy(first, rig.y.data, rig.y.bytes);
        }
        gpu_expect(&device, !memcmp(first, rig.y.data, rig.y.bytes),
                   "path %s: N %zu from column %zu of %zu", path->name, length, starts[i],
                   capacity);
    }
    free(first);
    ring_close(&ring);
    rig_close(&rig);
}

static void all_rings(void) {
    static const size_t lengths[] = {256, 97, 512, 1009, 2048, 600, 8192, 32768};
    for (size_t i = 0; i < (device.quick ? 3 : sizeof lengths / sizeof *lengths); i++)
        for (size_t spare = 0; spare < 4; spare++)
            rings(lengths[i], spare * spare * 7, (i + spare) % 2 ? SONAR_S16 : SONAR_F32);
}

static void wrong_rings(void) {
    struct rig rig;
    sonar_error err = {0};
    rig_open(&rig, all_bins(4, 64), SONAR_PINNED);
    struct ring ring = ring_open(&rig, SONAR_F32, 63);
    gpu_expect(&device, ring_enqueue(&rig, &ring, 0, &err) == SONAR_EINVAL,
               "a ring shorter than the window");
    ring_close(&ring);
    ring = ring_open(&rig, SONAR_F32, 80);
    gpu_expect(&device, ring_enqueue(&rig, &ring, 0, &err) == SONAR_OK, "a good ring");
    ring.there.space = SONAR_PINNED;
    gpu_expect(&device, ring_enqueue(&rig, &ring, 0, &err) == SONAR_EINVAL,
               "a ring in host memory");
    ring.there.space = SONAR_DEVICE;
    sonar_buffer in[SONAR_DFT_INPUTS] = {ring.there, ring.there};
    sonar_work work = {.params = &rig.params, .column = ring.column_there.data};
    gpu_expect(&device,
               rig.ops->execute(rig.stage, device.queue, in, &rig.out, &work, &err) == SONAR_EINVAL,
               "a ring with a tail");
    gpu_settle(&device);
    ring_close(&ring);
    rig_close(&rig);
}

/* A graph recorded once gives, wherever the column is by then, the bits of a call of its own. */
static void recorded(size_t length, sonar_dtype dtype) {
    struct rig rig;
    sonar_error err = {0};
    sonar_graph *graph = NULL;
    rig_open(&rig, all_bins(5, length), SONAR_PINNED);
    rig.used[3] = 0;
    rig.row = length; /* all of the ring is the window, in turn from every column on */
    noise(&rig, length);
    struct ring ring = ring_open(&rig, dtype, length);
    ring_fill(&ring, &rig, 0);
    ring_set(&ring, 0);
    ring_run(&rig, &ring, 2);
    gpu_require(device.backend->graph_begin(device.queue, &err), &err, "graph_begin");
    gpu_require(ring_enqueue(&rig, &ring, 2, &err), &err, "recording");
    gpu_require(device.backend->graph_end(device.queue, &graph, &err), &err, "graph_end");
    void *want = sonar_alloc(rig.y.bytes, 1), *before = sonar_alloc(rig.y.bytes, 1);
    for (size_t i = 0; i < 5; i++) {
        ring_set(&ring, i * length / 4 + i * i);
        ring_run(&rig, &ring, 2);
        memcpy(want, rig.y.data, rig.y.bytes);
        memset(rig.y.data, 0xff, rig.y.bytes);
        gpu_copy(&device, &rig.y, &rig.out);
        gpu_require(device.backend->graph_run(device.queue, graph, &err), &err, "graph_run");
        gpu_copy(&device, &rig.out, &rig.y);
        gpu_expect(&device, !memcmp(want, rig.y.data, rig.y.bytes), "N %zu: replay %zu", length, i);
        gpu_expect(&device, i == 0 || memcmp(before, want, rig.y.bytes) != 0,
                   "N %zu: the column %zu changes nothing", length, i);
        memcpy(before, want, rig.y.bytes);
    }
    gpu_settle(&device);
    device.backend->graph_destroy(graph);
    free(want);
    free(before);
    ring_close(&ring);
    rig_close(&rig);
}

/* ---- gaps ------------------------------------------------------------------------------------ */

/* Gaps of its own in each channel, whatever stands in them; from two pieces, and from a ring. */
static void gaps(size_t length, bool remove_mean, sonar_dtype dtype) {
    enum { CHANNELS = 19, MORE = 40 };
    uint32_t count[CHANNELS];
    sonar_gap gap[CHANNELS * SONAR_GAPS_MOST];
    uint64_t seed = length + remove_mean;
    sonar_dft_spec spec = all_bins(CHANNELS, length);
    spec.remove_mean = remove_mean;
    struct rig rig;
    rig_open(&rig, spec, SONAR_PINNED);
    rig.used[3] = 0;
    noise(&rig, length);
    struct ring ring = ring_open(&rig, dtype, length + 9);
    ring_fill(&ring, &rig, length / 2);
    for (size_t trial = 0; trial < 4; trial++) {
        oracle_gaps(&seed, CHANNELS, (uint32_t)length + MORE, count, gap);
        rig.from = sonar_random_bits(&seed) % MORE;
        rig.gaps = (sonar_gaps){count, gap};
        run(&rig, &rig.x, sonar_random_bits(&seed) % (length + 1));
        check_sensors(&rig, "gaps", 1 + length / 4096, 2e-6);
        ring_set(&ring, length / 2 + 2 * ring.capacity - rig.from);
        ring_run(&rig, &ring, rig.from);
        check_sensors(&rig, "gaps in a ring", 1 + length / 4096, 2e-6);
        rig.gaps.count = NULL; /* and the next window, of which all is there */
        run(&rig, &rig.x, length);
        check_sensors(&rig, "no gaps after gaps", 1 + length / 2048, MOST_ERROR);
    }
    ring_close(&ring);
    rig_close(&rig);
}

static void all_gaps(void) {
    static const size_t lengths[] = {256, 600, 512, 97, 1024, 4096, 8192, 32768};
    for (size_t i = 0; i < (device.quick ? 3 : sizeof lengths / sizeof *lengths); i++)
        for (int k = 0; k < 3; k++)
            gaps(lengths[i], k != 1, k ? SONAR_F32 : SONAR_S16);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void silence(size_t length) {
    sonar_dft_spec spec = all_bins(3, length);
    spec.equalise_phase = true;
    struct rig rig;
    bool zero = true;
    rig_open(&rig, spec, SONAR_PINNED);
    run(&rig, &rig.x, length);
    for (size_t b = 0; b < spec.bins; b++)
        for (size_t k = 0; k < 3; k++)
            zero &= bin_of(&rig, b, k) == 0;
    gpu_expect(&device, zero, "silence does not stay zero");
    rig_close(&rig);
}

static void wrong_shapes(void) {
    struct rig rig;
    sonar_buffer in[SONAR_DFT_INPUTS];
    sonar_error err = {0};
    void *none = &rig;
    rig_open(&rig, all_bins(4, 64), SONAR_PINNED);
    sonar_work work = {.params = &rig.params};
    cut(&rig, &rig.x, 60, in);
    sonar_dft_spec wrong = rig.spec;
    wrong.bins++;
    gpu_expect(&device, rig.ops->create(&wrong, &device.host, &none, &err) == SONAR_EINVAL && !none,
               "too many bins");
    in[SONAR_DFT_TAIL].shape[1]--;
    gpu_expect(&device,
               rig.ops->execute(rig.stage, device.queue, in, &rig.out, &work, &err) == SONAR_EINVAL,
               "a sample too few");
    in[SONAR_DFT_TAIL].shape[1]++;
    gpu_expect(&device,
               rig.ops->execute(rig.stage, device.queue, in, &rig.y, &work, &err) == SONAR_EINVAL,
               "output in host memory");
    rig.channel[2] = 4;
    rig.params.version = 2;
    gpu_expect(&device,
               rig.ops->execute(rig.stage, device.queue, in, &rig.out, &work, &err) == SONAR_EINVAL,
               "a channel that is not there");
    rig_close(&rig);
}

static void large(size_t sensors) {
    sonar_dft_spec spec = all_bins(sensors, 8192);
    spec.first_bin = 34;
    spec.bins = 459;
    struct rig rig;
    rig_open(&rig, spec, SONAR_PINNED);
    noise(&rig, 11);
    run(&rig, &rig.x, 5000);
    check_sensors(&rig, "large", sensors / 3, 3e-6);
    check_against_cpu(&rig, 5000, MOST_ERROR);
    rig_close(&rig);
}

/* ---- figures --------------------------------------------------------------------------------- */

struct timing {
    struct rig *rig;
    sonar_buffer samples;
};

static void timed_call(void *ctx) {
    struct timing *timing = ctx;
    struct rig *rig = timing->rig;
    sonar_buffer in[SONAR_DFT_INPUTS] = {[SONAR_DFT_HEAD] = timing->samples};
    sonar_work work = {.params = &rig->params};
    sonar_error err = {0};
    gpu_require(rig->ops->execute(rig->stage, device.queue, in, &rig->out, &work, &err), &err,
                "execute");
}

/* A stage made as another path has it, with the same buffers. */
static void take(struct rig *rig, const struct path *with) {
    sonar_error err = {0};
    path = with;
    rig->ops->destroy(rig->stage);
    gpu_require(rig->ops->create(&rig->spec, &device.host, &rig->stage, &err), &err, "create");
}

/* Any bits will do as samples, if they are numbers. */
static sonar_buffer noise_on_gpu(struct rig *rig, sonar_dtype dtype) {
    size_t shape[2] = {rig->spec.channels, rig->spec.length};
    sonar_buffer here = gpu_buffer(&device, SONAR_PINNED, dtype, 2, shape);
    sonar_buffer there = gpu_buffer(&device, SONAR_DEVICE, dtype, 2, shape);
    uint32_t bits = 1;
    for (size_t i = 0; i < shape[0] * shape[1]; i++) {
        bits = bits * 1664525u + 1013904223u;
        if (dtype == SONAR_S16)
            ((int16_t *)here.data)[i] = (int16_t)(bits >> 16);
        else
            ((float *)here.data)[i] = (float)(bits >> 8);
    }
    gpu_copy(&device, &here, &there);
    gpu_free(&device, &here);
    return there;
}

static void print_row(struct rig *rig, sonar_dtype dtype) {
    size_t sensors = rig->spec.sensors, length = rig->spec.length;
    struct timing timing = {rig, noise_on_gpu(rig, dtype)};
    double bytes = (double)timing.samples.bytes + (double)rig->out.bytes;
    printf("%8zu %8zu %5s", sensors, length, dtype == SONAR_S16 ? "s16" : "f32");
    for (const struct path *with = PATHS; with < PATHS + PATH_COUNT; with++) {
        take(rig, with);
        double us = 1e3 * gpu_time_ms(&device, timed_call, &timing, 20);
        printf(" %8.1f %5.0f", us, bytes / us * 1e-3);
        fflush(stdout);
    }
    printf("\n");
    gpu_free(&device, &timing.samples);
}

static void print_times(void) {
    static const size_t sensors[] = {128, 512, 2048, 16384}, lengths[] = {1024, 8192, 32768};
    printf("DFT of samples on the device, N / 18 bins: us a window, GB/s in and out\n");
    printf("%8s %8s %5s", "sensors", "N", "type");
    for (size_t i = 0; i < PATH_COUNT; i++)
        printf(" %14s", PATHS[i].name);
    printf("\n");
    for (size_t i = 0; i < 12; i++) {
        sonar_dft_spec spec = all_bins(sensors[i / 3], lengths[i % 3]);
        spec.first_bin = spec.length / 240;
        spec.bins = spec.length / 18;
        if (spec.channels * spec.length > (size_t)1 << 27)
            continue;
        struct rig rig;
        path = &PATHS[0];
        rig_open(&rig, spec, SONAR_PINNED);
        print_row(&rig, SONAR_S16);
        print_row(&rig, SONAR_F32);
        rig_close(&rig);
    }
}

static void check_path(void) {
    awkward_sizes();
    windows_and_bands(1200);
    windows_and_bands(2048);
    random_sizes();
    edges(256);
    edges(1024);
    offsets(1000);
    offsets(4096);
    loud_tone(device.quick ? 512 : 8192);
    corrections(false);
    corrections(true);
    cuts_and_spaces(600);
    cuts_and_spaces(512);
    s16_samples(600, true);
    s16_samples(512, false);
    all_rings();
    wrong_rings();
    all_gaps();
    recorded(512, SONAR_F32);
    recorded(8192, SONAR_S16);
    recorded(1000, SONAR_S16);
    silence(64);
    silence(256);
    wrong_shapes();
    if (!device.quick)
        large(2048);
}

int main(int argc, char **argv) {
    int code = gpu_open(&device, argc, argv);
    if (code >= 0)
        return code;
    device.host.choice = choose;
    if (device.timed) {
        print_times();
        return gpu_close(&device, "gpu_dft");
    }
    for (path = PATHS; path < PATHS + PATH_COUNT; path++)
        check_path();
    return gpu_close(&device, "gpu_dft");
}
