/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Copies between all kinds of memory, of every size and split; and the stages' device memory
 * compared with the estimate of --check-config. */
#include "gpu.h"

#include "cbf/cbf.h"
#include "conformance/mvdr.h"
#include "dft/dft.h"
#include "mvdr_jacobi/mvdr_jacobi.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct gpu device;

static const sonar_space SPACES[] = {SONAR_HOST, SONAR_PINNED, SONAR_DEVICE};
enum { SPACE_COUNT = sizeof SPACES / sizeof *SPACES };

/* ---- copies ---------------------------------------------------------------------------------- */

/* Rows of s16 with unaligned ends; the memory between them must not change. */
struct strip {
    size_t rows, columns, pitch, at; /* `at` elements into the buffer */
};

static sonar_buffer view_of(const sonar_buffer *whole, const struct strip *s) {
    sonar_buffer view = sonar_buffer_view((int16_t *)whole->data + s->at, SONAR_S16, 2,
                                          (size_t[]){s->rows, s->columns});
    view.stride[0] = (ptrdiff_t)s->pitch;
    view.space = whole->space;
    return view;
}

static sonar_buffer whole_of(const struct strip *s, sonar_space space) {
    return gpu_buffer(&device, space, SONAR_S16, 1, (size_t[]){s->at + s->rows * s->pitch});
}

/* Copies from host memory through all spaces in turn and back. */
static void carry(const struct strip *s, sonar_space first, sonar_space second) {
    sonar_buffer a = whole_of(s, SONAR_PINNED), b = whole_of(s, first), c = whole_of(s, second),
                 d = whole_of(s, SONAR_PINNED);
    int16_t *in = a.data, *out = d.data;
    size_t count = s->at + s->rows * s->pitch, wrong = 0;
    for (size_t i = 0; i < count; i++)
        in[i] = (int16_t)(i * 31 + 7), out[i] = -1;
    gpu_copy(&device, &d, &c); /* what must not be touched */
    gpu_copy(&device, &a, &b);
    sonar_buffer from = view_of(&b, s), to = view_of(&c, s);
    gpu_copy(&device, &from, &to);
    gpu_copy(&device, &c, &d);
    for (size_t i = 0; i < count; i++) {
        bool inside = i >= s->at && (i - s->at) % s->pitch < s->columns;
        wrong += out[i] != (inside ? in[i] : -1);
    }
    gpu_expect(&device, !wrong, "%zu of %zu wrong: %zu rows of %zu, pitch %zu, at %zu, space %d %d",
               wrong, count, s->rows, s->columns, s->pitch, s->at, (int)first, (int)second);
    gpu_free(&device, &a);
    gpu_free(&device, &b);
    gpu_free(&device, &c);
    gpu_free(&device, &d);
}

static void copies(void) {
    static const struct strip strips[] = {
        {1, 1, 1, 0},         {1, 7, 9, 1},           {3, 8, 8, 8},       {5, 16, 24, 8},
        {7, 6, 10, 2},        {2, 255, 257, 3},       {300, 33, 64, 5},   {5000, 3, 4, 0},
        {1, 70000, 70000, 0}, {1, 300001, 300001, 1}, {16, 4096, 4100, 4}};
    for (size_t i = 0; i < sizeof strips / sizeof *strips; i++) {
        for (int a = 0; a < SPACE_COUNT; a++)
            for (int b = 0; b < SPACE_COUNT; b++)
                carry(&strips[i], SPACES[a], SPACES[b]);
    }
}

/* More than a driver stages at a time. */
static void large(void) {
    const struct strip s = {1, (size_t)24 << 20, (size_t)24 << 20, 0};
    carry(&s, SONAR_PINNED, SONAR_DEVICE);
    carry(&s, SONAR_DEVICE, SONAR_PINNED);
}

/* Rows farther apart than CUDA's copies of rows go: a ring of very long windows. */
static void far_apart(void) {
    enum { ROWS = 2, COLUMNS = 100, AT = 5 };
    const size_t pitch = ((size_t)1 << 30) + 6; /* of s16: more than 2 GiB */
    const struct strip here = {ROWS, COLUMNS, COLUMNS, 0}, there = {ROWS, COLUMNS, pitch, AT};
    sonar_buffer in = whole_of(&here, SONAR_PINNED), out = whole_of(&here, SONAR_PINNED);
    sonar_buffer ring =
        gpu_buffer(&device, SONAR_DEVICE, SONAR_S16, 1, (size_t[]){AT + pitch + COLUMNS});
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        ((int16_t *)in.data)[i] = (int16_t)(i * 31 + 7);
    sonar_buffer from = view_of(&in, &here), to = view_of(&ring, &there),
                 back = view_of(&out, &here);
    gpu_copy(&device, &from, &to);
    gpu_copy(&device, &to, &back);
    gpu_expect(&device, !memcmp(in.data, out.data, in.bytes), "rows %zu bytes apart differ",
               2 * pitch);
    gpu_free(&device, &in);
    gpu_free(&device, &out);
    gpu_free(&device, &ring);
}

/* ---- stages ---------------------------------------------------------------------------------- */

/* Beside the driver's pieces of 2 MiB. Twice: the first time loads kernels. */
static void stage_takes(const char *name, const char *what, const void *spec, double expected) {
    const sonar_stage_ops *ops = device.backend->stage(name);
    const double spare = 32 << 20;
    sonar_error err = {0};
    double taken = 0;
    for (int i = 0; i < 2; i++) {
        void *stage = NULL;
        const size_t before = device.backend->memory_free(device.backend);
        gpu_require(ops->create(spec, &device.host, &stage, &err), &err, what);
        taken = (double)before - (double)device.backend->memory_free(device.backend);
        ops->destroy(stage);
    }
    printf("%-12s %-28s takes %9.1f MiB, %9.1f by its specification\n", name, what,
           taken / (1 << 20), expected / (1 << 20));
    gpu_expect(&device, fabs(taken - expected) <= 0.04 * expected + spare,
               "%s, %s: %.0f bytes of the device, and not %.0f", name, what, taken, expected);
}

static void mvdr_takes(const char *what, sonar_mvdr_spec spec) {
    spec.bins = 100;
    stage_takes("mvdr_jacobi", what, &spec, sonar_mvdr_device_bytes(&spec));
}

static void mvdr_stages(void) {
    sonar_mvdr_spec spec = mvdr_spec(16384, 180, 64, 0);
    mvdr_takes("block of 64", spec);
    spec.ranges = 3;
    mvdr_takes("and a near field", spec);
    spec = mvdr_spec(4096, 180, 64, 0);
    spec.forward_backward = true;
    mvdr_takes("forward and backward", spec);
    spec = mvdr_spec(1024, 180, 1100, 0);
    mvdr_takes("full rank", spec);
    spec.loading = SONAR_LOADING_NOISE;
    mvdr_takes("full rank, noise", spec);
    spec = mvdr_spec(512, 180, 600, 0);
    spec.solver = SONAR_MVDR_JACOBI;
    mvdr_takes("eigenvectors", spec);
    spec.white_noise_gain_db = -3;
    mvdr_takes("white noise gain", spec);
    spec.white_noise_gain_db = 0;
    spec.music = 2;
    mvdr_takes("MUSIC", spec);
    spec.solver = SONAR_MVDR_AUTO;
    mvdr_takes("MUSIC alone", spec);
    spec = mvdr_spec(512, 180, 600, 0);
    spec.dmr = 2;
    mvdr_takes("dominant modes", spec);
    spec.sensors = 100;
    mvdr_takes("of 100 sensors", spec);
    spec.snapshots = 40;
    mvdr_takes("of 40 snapshots", spec);
    spec = mvdr_spec(512, 180, 0, 0.98);
    spec.max_new = 1;
    mvdr_takes("forgetting", spec);
}

static void cbf_stages(void) {
    sonar_cbf_spec spec = {.sensors = 16384,
                           .directions = 180,
                           .fs_hz = 8000,
                           .length = 8192,
                           .first_bin = 34,
                           .bins = 459,
                           .cbf_first = 327,
                           .cbf_bins = 166,
                           .max_snapshots = 1};
    stage_takes("cbf", "far field", &spec, sonar_cbf_device_bytes(&spec));
    spec.ranges = 7;
    stage_takes("cbf", "near field", &spec, sonar_cbf_device_bytes(&spec));
    spec.max_snapshots = 16;
    stage_takes("cbf", "16 snapshots", &spec, sonar_cbf_device_bytes(&spec));
}

static void dft_stages(void) {
    sonar_dft_spec spec = {.channels = 16384,
                           .sensors = 16384,
                           .length = 8192,
                           .fs_hz = 8000,
                           .first_bin = 34,
                           .bins = 459};
    stage_takes("dft", "8192 samples", &spec, sonar_dft_device_bytes(&spec));
    spec.length = 6000;
    stage_takes("dft", "6000 samples, by cuFFT", &spec, sonar_dft_device_bytes(&spec));
}

int main(int argc, char **argv) {
    int code = gpu_open(&device, argc, argv);
    if (code >= 0)
        return code;
    copies();
    if (!device.quick) {
        large();
        far_apart();
        mvdr_stages();
        cbf_stages();
        dft_stages();
    }
    return gpu_close(&device, "gpu_memory");
}
