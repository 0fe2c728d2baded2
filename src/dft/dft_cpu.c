/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * DFT stage on the CPU. The used sensors are cut into blocks of a fixed size; a block is gathered,
 * transformed by one batched FFTW plan, corrected and written as columns of the output. Blocks are
 * independent, so the number of workers does not change a bit of the result.
 */
#include "dft/dft.h"

#include "core/arena.h"
#include "core/core.h"
#include "core/samples.h"

#include <fftw3.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Eight sensors of one bin fill a cache line of the output. */
enum { BLOCK = 8 };
_Static_assert(SONAR_DFT_LENGTH_MOST <= INT_MAX / (2 * BLOCK), "FFTW counts in int");

/* The factors of one sensor's bins: the gain at the first bin and its rotation from bin to bin. In
 * double precision the recurrence drifts by about 1e-16 a step, 1e-10 after a million bins. */
struct correction {
    double re[BLOCK], im[BLOCK], step_re[BLOCK], step_im[BLOCK];
};

struct dft {
    sonar_dft_spec spec;
    const sonar_host *host;
    size_t row, half_row; /* elements between a block's signals and spectra */
    float *taper;
    double psd_gain; /* sqrt(2 / (fs sum w^2)) */
    fftwf_plan plan;
    float *time;             /* [worker][BLOCK][row] */
    fftwf_complex *spectrum; /* [worker][BLOCK][half_row] */
    uint64_t version;        /* version of the params that the members below were made from */
    bool prepared;
    size_t used;
    uint32_t *sensor,
        *channel; /* [used]: the sensors to transform and the channels that feed them */
    struct correction *correction; /* [block] */
    const sonar_buffer *in;        /* of the execute in progress */
    sonar_buffer *out;
    const sonar_work *work;
};

/* ---- planning -------------------------------------------------------------------------------- */

/* FFTW's own wisdom is some KiB for each length. */
enum { WISDOM_BYTES_MOST = 4 << 20 };

/* FFTW's planner and its wisdom are global and not thread-safe. */
static pthread_mutex_t planner = PTHREAD_MUTEX_INITIALIZER;

static bool wisdom_path(const sonar_host *host, char path[PATH_MAX]) {
    if (!host->state_dir)
        return false;
    int length = snprintf(path, PATH_MAX, "%s/fftwf.wisdom", host->state_dir);
    return length > 0 && length < PATH_MAX;
}

static void wisdom_load(const sonar_host *host) {
    char path[PATH_MAX], *text;
    size_t bytes;
    sonar_error why = {0};
    fftwf_forget_wisdom(); /* plans depend on the file alone, not on what the process did before */
    if (!wisdom_path(host, path) || access(path, F_OK) != 0)
        return;
    if (sonar_state_read(path, WISDOM_BYTES_MOST, &text, &bytes, &why))
        sonar_log(host, SONAR_WARN, "dft", "FFTW wisdom %s %s", path, why.text);
    else if (!fftwf_import_wisdom_from_string(text))
        sonar_log(host, SONAR_WARN, "dft", "ignored %s: it is not FFTW wisdom of this version",
                  path);
    free(text);
}

static void wisdom_save(const sonar_host *host) {
    char path[PATH_MAX];
    sonar_error why = {0};
    if (!wisdom_path(host, path))
        return;
    char *text = fftwf_export_wisdom_to_string();
    if (text && sonar_state_write(path, text, strlen(text), &why))
        sonar_log(host, SONAR_WARN, "dft", "FFTW wisdom %s %s", path, why.text);
    free(text);
}

static fftwf_plan plan_with(struct dft *dft, unsigned flags) {
    int n = (int)dft->spec.length;
    return fftwf_plan_many_dft_r2c(1, &n, BLOCK, dft->time, NULL, 1, (int)dft->row, dft->spectrum,
                                   NULL, 1, (int)dft->half_row, flags | FFTW_DESTROY_INPUT);
}

static sonar_code make_plan(struct dft *dft, sonar_error *err) {
    pthread_mutex_lock(&planner);
    wisdom_load(dft->host);
    dft->plan = plan_with(dft, FFTW_MEASURE | FFTW_WISDOM_ONLY);
    if (!dft->plan && dft->spec.planning == SONAR_PLAN_STABLE)
        dft->plan = plan_with(dft, FFTW_ESTIMATE);
    if (!dft->plan) {
        dft->plan = plan_with(dft, FFTW_MEASURE);
        wisdom_save(dft->host);
    }
    pthread_mutex_unlock(&planner);
    if (!dft->plan)
        return sonar_fail(err, SONAR_ESYS, "dft", "FFTW has no plan for length %zu",
                          dft->spec.length);
    return SONAR_OK;
}

/* ---- corrections ----------------------------------------------------------------------------- */

static void correct_sensor(struct dft *dft, const sonar_params *params, size_t index) {
    struct correction *c = &dft->correction[index / BLOCK];
    size_t lane = index % BLOCK, k = dft->sensor[index];
    double bin_hz = dft->spec.fs_hz / (double)dft->spec.length;
    double step = bin_hz * params->delay_s[k];
    double turns = params->phase_turns[k] + (double)dft->spec.first_bin * step;
    double gain = dft->psd_gain * (double)params->scale[k];
    c->re[lane] = gain * cos(2 * M_PI * (turns - rint(turns)));
    c->im[lane] = gain * sin(2 * M_PI * (turns - rint(turns)));
    c->step_re[lane] = cos(2 * M_PI * (step - rint(step)));
    c->step_im[lane] = sin(2 * M_PI * (step - rint(step)));
}

static sonar_code prepare(struct dft *dft, const sonar_params *params, sonar_error *err) {
    if (dft->prepared && dft->version == params->version)
        return SONAR_OK;
    dft->prepared = false;
    dft->used = 0;
    for (size_t k = 0; k < dft->spec.sensors; k++) {
        if (!params->used[k])
            continue;
        if (params->channel[k] >= dft->spec.channels)
            return sonar_fail(err, SONAR_EINVAL, "dft", "sensor %zu is fed by channel %u of %zu", k,
                              params->channel[k], dft->spec.channels);
        dft->sensor[dft->used] = (uint32_t)k;
        dft->channel[dft->used] = params->channel[k];
        correct_sensor(dft, params, dft->used++);
    }
    dft->version = params->version;
    dft->prepared = true;
    return SONAR_OK;
}

/* ---- one block ------------------------------------------------------------------------------- */

static size_t samples_of(const sonar_buffer *part) {
    return part->shape[0] ? part->shape[1] : 0;
}

/* Zeroes missing samples and returns their number. */
static size_t clear_gaps(const struct dft *dft, size_t channel, float *x) {
    const sonar_gaps *gaps = dft->work->gaps;
    size_t from = dft->work->offset, end = from + dft->spec.length, lost = 0;
    if (!gaps)
        return 0;
    for (size_t i = 0; i < gaps->count[channel]; i++) {
        const sonar_gap *gap = &gaps->gap[channel * SONAR_GAPS_MOST + i];
        size_t first = sonar_max_size(gap->begin, from), last = sonar_min_size(gap->end, end);
        if (first >= last)
            continue;
        memset(x + (first - from), 0, (last - first) * sizeof *x);
        lost += last - first;
    }
    return lost;
}

SONAR_MULTIARCH static void apply_taper(float *x, const float *taper, double mean, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((double)x[i] - mean) * taper[i];
}

/* Prepares one sensor's samples for the transform. */
static void prepare_signal(const struct dft *dft, size_t channel, float *x) {
    size_t n = dft->spec.length;
    sonar_samples_gather(dft->in + SONAR_DFT_HEAD, channel, n, x);
    size_t lost = clear_gaps(dft, channel, x);
    double mean =
        dft->spec.remove_mean && lost < n ? sonar_samples_sum(x, n) / (double)(n - lost) : 0;
    apply_taper(x, dft->taper, mean, n);
    if (lost)
        clear_gaps(dft, channel, x);
}

static inline void to_unit(float *re, float *im) {
    float size = hypotf(*re, *im);
    if (size > 0) {
        *re /= size;
        *im /= size;
    }
}

/* The one-sided density counts every bin twice, except bins that are their own mirror image. */
static double onesided(const sonar_dft_spec *spec, size_t bin) {
    return bin == 0 || 2 * bin == spec->length ? M_SQRT1_2 : 1.0;
}

/* Gains of a block at one bin as float; then steps to the next bin. */
SONAR_MULTIARCH static void next_gain(struct correction *c, double factor, float re[BLOCK],
                                      float im[BLOCK]) {
    for (size_t i = 0; i < BLOCK; i++) {
        double r = c->re[i], m = c->im[i];
        re[i] = (float)(r * factor);
        im[i] = (float)(m * factor);
        c->re[i] = r * c->step_re[i] - m * c->step_im[i];
        c->im[i] = r * c->step_im[i] + m * c->step_re[i];
    }
}

static void write_bins(const struct dft *dft, size_t block, size_t count,
                       const fftwf_complex *spectrum) {
    struct correction gain = dft->correction[block];
    const uint32_t *sensor = dft->sensor + block * BLOCK;
    const sonar_dft_spec *spec = &dft->spec;
    for (size_t b = 0; b < spec->bins; b++) {
        float re[BLOCK], im[BLOCK];
        size_t bin = spec->first_bin + b;
        next_gain(&gain, onesided(spec, bin), re, im);
        sonar_c32 *row = (sonar_c32 *)dft->out->data + (ptrdiff_t)b * dft->out->stride[0];
        for (size_t i = 0; i < count; i++) {
            const float *x = spectrum[i * dft->half_row + bin];
            sonar_c32 y = {x[0] * re[i] - x[1] * im[i], x[0] * im[i] + x[1] * re[i]};
            if (spec->equalise_phase)
                to_unit(&y.re, &y.im);
            row[sensor[i]] = y;
        }
    }
}

static void transform_block(void *arg, size_t block, size_t worker) {
    const struct dft *dft = arg;
    size_t first = block * BLOCK, count = sonar_min_size(dft->used - first, BLOCK);
    float *time = dft->time + worker * BLOCK * dft->row;
    fftwf_complex *spectrum = dft->spectrum + worker * BLOCK * dft->half_row;
    for (size_t i = 0; i < count; i++)
        prepare_signal(dft, dft->channel[first + i], time + i * dft->row);
    fftwf_execute_dft_r2c(dft->plan, time, spectrum);
    write_bins(dft, block, count, spectrum);
}

static void clear_masked(const struct dft *dft, const uint8_t *used) {
    for (size_t b = 0; b < dft->spec.bins; b++) {
        sonar_c32 *row = (sonar_c32 *)dft->out->data + (ptrdiff_t)b * dft->out->stride[0];
        for (size_t k = 0; k < dft->spec.sensors; k++)
            if (!used[k])
                row[k] = (sonar_c32){0, 0};
    }
}

/* ---- the stage ------------------------------------------------------------------------------- */

static sonar_code make_taper(struct dft *dft, sonar_error *err) {
    size_t n = dft->spec.length;
    double *w = sonar_alloc(n, sizeof *w), energy = 0;
    if (!w)
        return sonar_fail(err, SONAR_ENOMEM, "dft", "no memory for a taper of %zu points", n);
    sonar_dft_taper(dft->spec.taper, dft->spec.kaiser_beta, n, w);
    for (size_t i = 0; i < n; i++) {
        energy += w[i] * w[i];
        dft->taper[i] = (float)w[i];
    }
    free(w);
    dft->psd_gain = sqrt(2 / (dft->spec.fs_hz * energy));
    return SONAR_OK;
}

/* Rows are whole cache lines, so that every worker's block has the alignment that FFTW planned
 * for. */
static sonar_arena lay_out(struct dft *dft, size_t workers, sonar_arena_pass pass) {
    const sonar_dft_spec *spec = &dft->spec;
    sonar_arena arena = {.pass = pass};
    dft->row = (spec->length + 15) & ~(size_t)15;
    dft->half_row = (spec->length / 2 + 1 + 7) & ~(size_t)7;
    SONAR_ARENA(&arena, dft->taper, spec->length);
    SONAR_ARENA(&arena, dft->time, workers * BLOCK * dft->row);
    SONAR_ARENA(&arena, dft->spectrum, workers * BLOCK * dft->half_row);
    SONAR_ARENA(&arena, dft->sensor, spec->sensors);
    SONAR_ARENA(&arena, dft->channel, spec->sensors);
    SONAR_ARENA(&arena, dft->correction, spec->sensors / BLOCK + 1);
    return arena;
}

double sonar_dft_bytes(const sonar_dft_spec *spec, size_t workers) {
    struct dft dft = {.spec = *spec};
    return (double)sizeof dft + lay_out(&dft, workers, SONAR_ARENA_MEASURE).bytes;
}

static void dft_destroy(void *stage) {
    struct dft *dft = stage;
    if (!dft)
        return;
    pthread_mutex_lock(&planner);
    if (dft->plan)
        fftwf_destroy_plan(dft->plan);
    pthread_mutex_unlock(&planner);
    lay_out(dft, dft->host->workers, SONAR_ARENA_FREE);
    free(dft);
}

static sonar_code dft_create(const void *spec, const sonar_host *host, void **stage,
                             sonar_error *err) {
    *stage = NULL;
    sonar_code code = sonar_dft_check(spec, err);
    if (code)
        return code;
    struct dft *dft = sonar_alloc(1, sizeof *dft);
    if (!dft)
        return sonar_fail(err, SONAR_ENOMEM, "dft", "no memory for the stage");
    dft->spec = *(const sonar_dft_spec *)spec;
    dft->host = host;
    if (lay_out(dft, host->workers, SONAR_ARENA_ALLOCATE).failed)
        code = sonar_fail(err, SONAR_ENOMEM, "dft", "no memory for windows of %zu samples",
                          dft->spec.length);
    if (!code)
        code = make_taper(dft, err);
    if (!code)
        code = make_plan(dft, err);
    if (code)
        dft_destroy(dft);
    else
        *stage = dft;
    return code;
}

static bool is_part(const sonar_buffer *in, size_t channels) {
    return samples_of(in) == 0 ||
           ((in->dtype == SONAR_F32 || in->dtype == SONAR_S16) && in->rank == 2 &&
            in->shape[0] == channels && in->stride[1] == 1 && in->data);
}

static sonar_code check_shapes(const struct dft *dft, const sonar_buffer *in,
                               const sonar_buffer *out, const sonar_work *work, sonar_error *err) {
    const sonar_dft_spec *spec = &dft->spec;
    const sonar_buffer *head = &in[SONAR_DFT_HEAD], *tail = &in[SONAR_DFT_TAIL];
    if (work->column)
        return sonar_fail(err, SONAR_EINVAL, "dft", "a ring can only be read on a device");
    if (!is_part(head, spec->channels) || !is_part(tail, spec->channels) ||
        samples_of(head) + samples_of(tail) != spec->length ||
        (samples_of(tail) && tail->dtype != head->dtype))
        return sonar_fail(err, SONAR_EINVAL, "dft", "input is not f32 or s16 [%zu][%zu]",
                          spec->channels, spec->length);
    if (out->dtype != SONAR_C32 || out->rank != 2 || out->shape[0] != spec->bins ||
        out->shape[1] != spec->sensors || out->stride[1] != 1)
        return sonar_fail(err, SONAR_EINVAL, "dft", "output is not c32 [%zu][%zu]", spec->bins,
                          spec->sensors);
    if (work->params->sensors != spec->sensors)
        return sonar_fail(err, SONAR_EINVAL, "dft", "parameters of %zu sensors, stage of %zu",
                          work->params->sensors, spec->sensors);
    return SONAR_OK;
}

static sonar_code dft_execute(void *stage, sonar_queue *queue, const sonar_buffer *in,
                              sonar_buffer *out, const sonar_work *work, sonar_error *err) {
    (void)queue;
    struct dft *dft = stage;
    sonar_code code = check_shapes(dft, in, out, work, err);
    if (!code)
        code = prepare(dft, work->params, err);
    if (code)
        return code;
    dft->in = in;
    dft->out = out;
    dft->work = work;
    if (dft->used < dft->spec.sensors)
        clear_masked(dft, work->params->used);
    dft->host->parallel(dft->host->ctx, (dft->used + BLOCK - 1) / BLOCK, transform_block, dft);
    return SONAR_OK;
}

const sonar_stage_ops sonar_dft_cpu = {
    .name = "dft", .create = dft_create, .execute = dft_execute, .destroy = dft_destroy};
