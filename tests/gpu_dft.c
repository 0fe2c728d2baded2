/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The conformance suite of the DFT stage on the GPU, and its times. */
#include "conformance/dft.h"
#include "core/random.h"
#include "gpu.h"

#include <stdio.h>

static struct gpu device;

/* Enough for two sensors in a thread block on any GPU of up to 265 multiprocessors. */
static void sensors_that_fill_the_device(site *site) {
    if (site->quick)
        site_expect(site, true, "takes too long under a checker");
    else
        dft_try_sensors(site, 8500, 8192);
}

static const site_case CASES[] = {DFT_CASES(DFT_ROW) DFT_ERROR_CASES(DFT_ROW){
    "sensors_that_fill_the_device", sensors_that_fill_the_device}};

/* ---- figures --------------------------------------------------------------------------------- */

struct timing {
    dft_fixture *f;
    sonar_buffer samples;
};

static void timed_call(void *ctx) {
    struct timing *timing = ctx;
    dft_fixture *f = timing->f;
    sonar_buffer in[SONAR_DFT_INPUTS] = {[SONAR_DFT_HEAD] = timing->samples};
    sonar_error err = {0};
    site_require(f->site, dft_execute(f, in, NULL, &err), &err);
}

/* Any finite numbers serve as samples. */
static sonar_buffer noise_on_gpu(dft_fixture *f, sonar_dtype dtype) {
    size_t shape[2] = {f->spec.channels, f->spec.length};
    sonar_buffer here = site_buffer_in(f->site, SONAR_PINNED, dtype, 2, shape);
    sonar_buffer there = site_buffer(f->site, dtype, 2, shape);
    uint64_t seed = 1;
    for (size_t i = 0; i < shape[0] * shape[1]; i++) {
        const uint64_t bits = sonar_random_bits(&seed);
        if (dtype == SONAR_S16)
            ((int16_t *)here.data)[i] = (int16_t)bits;
        else
            ((float *)here.data)[i] = (float)(bits >> 40);
    }
    site_copy(f->site, &here, &there);
    site_free(f->site, &here);
    return there;
}

static void print_row(dft_fixture *f, sonar_dtype dtype) {
    size_t sensors = f->spec.sensors, length = f->spec.length;
    struct timing timing = {f, noise_on_gpu(f, dtype)};
    double bytes = (double)timing.samples.bytes + (double)f->out.bytes;
    const double us = 1e3 * gpu_time_ms(&device, timed_call, &timing, 20);
    printf("%8zu %8zu %5s %8.1f %5.0f\n", sensors, length, dtype == SONAR_S16 ? "s16" : "f32", us,
           bytes / us * 1e-3);
    fflush(stdout);
    site_free(f->site, &timing.samples);
}

static void print_times(site *site) {
    static const size_t sensors[] = {128, 512, 2048, 16384}, lengths[] = {1024, 8192, 32768};
    printf("DFT of samples on the device, N / 18 bins: us a window, GB/s in and out\n");
    printf("%8s %8s %5s %14s\n", "sensors", "N", "type", "");
    for (size_t i = 0; i < 12; i++) {
        sonar_dft_spec spec = dft_all_bins(sensors[i / 3], lengths[i % 3]);
        spec.first_bin = spec.length / 240;
        spec.bins = spec.length / 18;
        if (spec.channels * spec.length > (size_t)1 << 27)
            continue;
        dft_fixture f;
        dft_open(&f, site, spec, SONAR_PINNED);
        print_row(&f, SONAR_S16);
        print_row(&f, SONAR_F32);
        dft_close(&f);
    }
}

int main(int argc, char **argv) {
    int code = gpu_open(&device, argc, argv);
    if (code >= 0)
        return code;
    site site = site_open(device.backend, &device.host);
    site.quick = device.quick;
    if (device.timed)
        print_times(&site);
    else
        site_try_all(&site, CASES, sizeof CASES / sizeof *CASES);
    return gpu_close_site(&device, &site, "gpu_dft");
}
