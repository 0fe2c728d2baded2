/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "dft_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "oracle.h"

sonar_dft_spec dft_all_bins(size_t channels, size_t length) {
    return (sonar_dft_spec){.channels = channels,
                            .sensors = channels,
                            .length = length,
                            .fs_hz = 8000,
                            .bins = length / 2 + 1,
                            .taper = SONAR_HANN,
                            .remove_mean = true,
                            .planning = SONAR_PLAN_STABLE};
}

void dft_open(dft_fixture *f, site *site, sonar_dft_spec spec, sonar_space space) {
    size_t n = spec.sensors, in[2] = {spec.channels, spec.length + 5}, out[2] = {spec.bins, n};
    sonar_error err = {0};
    *f = (dft_fixture){.site = site, .spec = spec, .row = in[1]};
    f->phase_turns = sonar_alloc(n, sizeof(double));
    f->delay_s = sonar_alloc(n, sizeof(double));
    f->scale = sonar_alloc(n, sizeof(float));
    f->channel = sonar_alloc(n, sizeof(uint32_t));
    f->used = sonar_alloc(n, 1);
    for (size_t k = 0; k < n; k++) {
        f->scale[k] = 1;
        f->used[k] = 1;
        f->channel[k] = (uint32_t)(k % spec.channels);
    }
    f->x = site_buffer_in(site, space, SONAR_F32, 2, in);
    f->y = site_buffer_in(site, SONAR_PINNED, SONAR_C32, 2, out);
    f->out = site_buffer(site, SONAR_C32, 2, out);
    f->params = (sonar_params){.version = 1,
                               .sensors = n,
                               .sensors_used = n,
                               .channel = f->channel,
                               .used = f->used,
                               .scale = f->scale,
                               .phase_turns = f->phase_turns,
                               .delay_s = f->delay_s};
    f->ops = site->backend->stage("dft");
    site_require(site, f->ops ? SONAR_OK : SONAR_EUNAVAILABLE, &err);
    site_require(site, f->ops->create(&spec, site->host, &f->stage, &err), &err);
}

void dft_close(dft_fixture *f) {
    f->ops->destroy(f->stage);
    site_free(f->site, &f->x);
    site_free(f->site, &f->y);
    site_free(f->site, &f->out);
    free(f->phase_turns);
    free(f->delay_s);
    free(f->scale);
    free(f->channel);
    free(f->used);
}

float *dft_samples(const dft_fixture *f, size_t channel) {
    return (float *)f->x.data + channel * f->row;
}

void dft_noise(dft_fixture *f, double offset, uint64_t seed) {
    for (size_t i = 0; i < f->spec.channels * f->row; i++)
        ((float *)f->x.data)[i] = (float)(sonar_random_normal(&seed) + offset);
}

/* ---- runs ------------------------------------------------------------------------------------ */

void dft_cut(const dft_fixture *f, const sonar_buffer *samples, size_t head,
             sonar_buffer in[SONAR_DFT_INPUTS]) {
    in[SONAR_DFT_HEAD] = in[SONAR_DFT_TAIL] = *samples;
    in[SONAR_DFT_HEAD].shape[1] = head;
    in[SONAR_DFT_TAIL].shape[1] = f->spec.length - head;
    in[SONAR_DFT_TAIL].data = (char *)samples->data + head * sonar_dtype_size(samples->dtype);
    for (int i = 0; i < SONAR_DFT_INPUTS; i++)
        in[i].bytes = sonar_buffer_count(&in[i]) * sonar_dtype_size(samples->dtype);
}

sonar_code dft_execute(dft_fixture *f, const sonar_buffer in[SONAR_DFT_INPUTS],
                       const sonar_buffer *column, sonar_error *err) {
    sonar_work work = {.params = &f->params,
                       .column = column ? column->data : NULL,
                       .gaps = f->gaps.count ? &f->gaps : NULL,
                       .offset = f->from};
    return f->ops->execute(f->stage, f->site->queue, in, &f->out, &work, err);
}

void dft_run_on(dft_fixture *f, const sonar_buffer in[SONAR_DFT_INPUTS],
                const sonar_buffer *column) {
    sonar_error err = {0};
    memset(f->y.data, 0xff, f->y.bytes);
    site_copy(f->site, &f->y, &f->out);
    site_require(f->site, dft_execute(f, in, column, &err), &err);
    site_copy(f->site, &f->out, &f->y);
}

void dft_run_cut(dft_fixture *f, size_t head) {
    sonar_buffer in[SONAR_DFT_INPUTS];
    dft_cut(f, &f->x, head, in);
    dft_run_on(f, in, NULL);
}

void dft_run(dft_fixture *f) {
    dft_run_cut(f, f->spec.length);
}

/* ---- judging --------------------------------------------------------------------------------- */

double complex dft_bin(const dft_fixture *f, size_t bin, size_t sensor) {
    sonar_c32 y = ((sonar_c32 *)f->y.data)[bin * f->spec.sensors + sensor];
    return (double)y.re + I * (double)y.im;
}

static double complex correction(const dft_fixture *f, size_t bin, size_t k) {
    double hz = (double)bin * f->spec.fs_hz / (double)f->spec.length;
    double turns = f->phase_turns[k] + hz * f->delay_s[k];
    return (double)f->scale[k] * cexp(2 * M_PI * I * (turns - rint(turns)));
}

static double complex wanted(const dft_fixture *f, const double *taper, size_t bin, size_t k) {
    const sonar_dft_spec *spec = &f->spec;
    size_t channel = f->channel[k], gaps = f->gaps.count ? f->gaps.count[channel] : 0;
    const float *x = dft_samples(f, channel);
    double complex want =
        gaps ? oracle_psd_bin_with_gaps(x, taper, spec->length, bin, spec->fs_hz, spec->remove_mean,
                                        f->from, gaps, f->gaps.gap + channel * SONAR_GAPS_MOST)
             : oracle_psd_bin(x, taper, spec->length, bin, spec->fs_hz, spec->remove_mean);
    want *= correction(f, bin, k);
    return spec->equalise_phase ? want / cabs(want) : want;
}

/* Mean square of all bins, kept or not, by Parseval's theorem. */
static double mean_square(const dft_fixture *f, const double *taper, size_t k) {
    const float *x = dft_samples(f, f->channel[k]);
    size_t n = f->spec.length;
    double mean = 0, sum = 0, energy = 0;
    for (size_t t = 0; t < n && f->spec.remove_mean; t++)
        mean += (double)x[t] / (double)n;
    for (size_t t = 0; t < n; t++) {
        sum += pow(((double)x[t] - mean) * taper[t], 2);
        energy += taper[t] * taper[t];
    }
    return pow((double)f->scale[k], 2) * (double)n * sum / (f->spec.fs_hz * energy) /
           (double)(n / 2 + 1);
}

double dft_error(const dft_fixture *f, size_t sensor, size_t step) {
    const sonar_dft_spec *spec = &f->spec;
    double *taper = sonar_alloc(spec->length, sizeof *taper), error = 0, size = 0, count = 0;
    sonar_dft_taper(spec->taper, spec->kaiser_beta, spec->length, taper);
    for (size_t b = 0; b < spec->bins; b += step, count++) {
        double complex want = wanted(f, taper, spec->first_bin + b, sensor);
        error += pow(cabs(dft_bin(f, b, sensor) - want), 2);
        size += pow(cabs(want), 2);
    }
    if (spec->bins < spec->length / 2 + 1 && !spec->equalise_phase && !f->gaps.count)
        size = fmax(size, count * mean_square(f, taper, sensor));
    free(taper);
    return size > 0 ? sqrt(error / size) : error > 0;
}

static bool is_zero(const dft_fixture *f, size_t sensor) {
    for (size_t b = 0; b < f->spec.bins; b++)
        if (dft_bin(f, b, sensor) != 0)
            return false;
    return true;
}

void dft_expect(dft_fixture *f, const char *what, size_t sensor_step, double most) {
    for (size_t k = 0; k < f->spec.sensors; k += sensor_step) {
        if (!f->used[k]) {
            site_expect(f->site, is_zero(f, k), "%s: masked sensor %zu is not zero", what, k);
            continue;
        }
        double error = dft_error(f, k, 1 + f->spec.bins / 100);
        site_expect(f->site, error <= most, "%s: N %zu, bins %zu + %zu, sensor %zu of %zu: %g",
                    what, f->spec.length, f->spec.first_bin, f->spec.bins, k, f->spec.sensors,
                    error);
    }
}

void dft_expect_as_cpu(dft_fixture *f, size_t head, double most) {
    sonar_error err = {0};
    sonar_buffer in[SONAR_DFT_INPUTS];
    void *cpu = NULL;
    size_t sensors = f->spec.sensors, bins = f->spec.bins;
    sonar_c32 *want = sonar_alloc(bins * sensors, sizeof *want);
    sonar_buffer out = sonar_buffer_view(want, SONAR_C32, 2, f->y.shape);
    double *taper = sonar_alloc(f->spec.length, sizeof *taper);
    sonar_work work = {.params = &f->params};
    site_require(f->site, sonar_dft_cpu.create(&f->spec, f->site->host, &cpu, &err), &err);
    dft_cut(f, &f->x, head, in);
    site_require(f->site, sonar_dft_cpu.execute(cpu, NULL, in, &out, &work, &err), &err);
    sonar_dft_taper(f->spec.taper, f->spec.kaiser_beta, f->spec.length, taper);
    for (size_t k = 0; k < sensors; k++) {
        double error = 0, size = 0;
        for (size_t b = 0; b < bins; b++) {
            sonar_c32 a = want[b * sensors + k];
            double complex x = (double)a.re + I * (double)a.im;
            error += pow(cabs(dft_bin(f, b, k) - x), 2);
            size += pow(cabs(x), 2);
        }
        if (f->used[k])
            size = fmax(size, (double)bins * mean_square(f, taper, k));
        site_expect(f->site, sqrt(error) <= most * sqrt(size),
                    "N %zu, bins %zu + %zu, sensor %zu of %zu: %g from the CPU", f->spec.length,
                    f->spec.first_bin, bins, k, sensors, sqrt(error / size));
    }
    sonar_dft_cpu.destroy(cpu);
    free(want);
    free(taper);
}

void dft_expect_bits(dft_fixture *f, const void *want, const char *what, size_t at) {
    site_expect(f->site, !memcmp(want, f->y.data, f->y.bytes), "%s %zu: N %zu: other bits", what,
                at, f->spec.length);
}

void *dft_copy_of_y(const dft_fixture *f) {
    void *copy = sonar_alloc(f->y.bytes, 1);
    memcpy(copy, f->y.data, f->y.bytes);
    return copy;
}
