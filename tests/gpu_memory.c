/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Mapped memory on the GPU: copies of every size and cut, and stages that use it in place. */
#include "cbf/cbf.h"
#include "dft/dft.h"
#include "gpu.h"
#include "mvdr_jacobi/mvdr_jacobi.h"
#include "oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct gpu device;

static const sonar_space SPACES[] = {SONAR_HOST, SONAR_PINNED, SONAR_DEVICE, SONAR_MAPPED};
enum { SPACE_COUNT = sizeof SPACES / sizeof *SPACES };

/* ---- copies ---------------------------------------------------------------------------------- */

/* Rows of s16 whose ends are aligned to nothing; what lies between them has to stay. */
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

/* From host memory there and on and back: all spaces after each other. */
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

/* Large enough that every thread has several words to carry. */
static void large(void) {
    const struct strip s = {1, (size_t)24 << 20, (size_t)24 << 20, 0};
    carry(&s, SONAR_MAPPED, SONAR_DEVICE);
    carry(&s, SONAR_DEVICE, SONAR_MAPPED);
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

enum { SENSORS = 13, LENGTH = 256, BINS = 20, LOOKS = 37 };

static uint32_t channel[SENSORS];
static uint8_t used[SENSORS];
static float scale[SENSORS], shading[SENSORS];
static double zero[SENSORS], position[3 * SENSORS];
static uint64_t turns[LOOKS * SENSORS];

static sonar_params make_params(void) {
    uint64_t seed = 4;
    for (size_t k = 0; k < SENSORS; k++) {
        channel[k] = (uint32_t)k;
        used[k] = 1;
        scale[k] = shading[k] = 1;
        position[3 * k] = (double)k;
    }
    for (size_t i = 0; i < LOOKS * SENSORS; i++)
        turns[i] = (uint64_t)(int64_t)(sonar_random_symmetric(&seed) * 0x1p60);
    sonar_manifold far = {1, LOOKS, SENSORS, 8000.0 / LENGTH, turns};
    return (sonar_params){.version = 1,
                          .sensors = SENSORS,
                          .sensors_used = SENSORS,
                          .position_m = position,
                          .channel = channel,
                          .used = used,
                          .scale = scale,
                          .phase_turns = zero,
                          .delay_s = zero,
                          .shading = shading,
                          .shading_sum = SENSORS,
                          .far_cbf = far,
                          .far_mvdr = far};
}

static void *make_stage(const char *name, const void *spec, const sonar_stage_ops **ops) {
    sonar_error err = {0};
    void *stage = NULL;
    *ops = device.backend->stage(name);
    gpu_require(*ops ? SONAR_OK : SONAR_EUNAVAILABLE, &err, name);
    gpu_require((*ops)->create(spec, &device.host, &stage, &err), &err, name);
    return stage;
}

/* Runs a stage and fetches what it left, wherever that is. */
static sonar_buffer run(const char *name, const void *spec, const sonar_params *params,
                        const uint64_t *column, const sonar_buffer *in, sonar_buffer *out,
                        const sonar_buffer *surface) {
    const sonar_stage_ops *ops;
    sonar_error err = {0};
    sonar_work work = {.params = params,
                       .column = column,
                       .offset = column ? 11 : 0,
                       .outputs = SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_LOFAR) |
                                  SONAR_WANT(SONAR_MVDR_SPECTRUM)};
    void *stage = make_stage(name, spec, &ops);
    sonar_buffer fetched =
        gpu_buffer(&device, SONAR_PINNED, surface->dtype, surface->rank, surface->shape);
    gpu_require(ops->execute(stage, device.queue, in, out, &work, &err), &err, name);
    gpu_copy(&device, surface, &fetched);
    ops->destroy(stage);
    return fetched;
}

/* Both are freed. */
static void expect_same(const char *what, sonar_buffer *a, sonar_buffer *b) {
    double sum = 0;
    for (size_t i = 0; i < a->bytes / sizeof(float); i++)
        sum += fabs((double)((const float *)a->data)[i]);
    gpu_expect(&device, sum > 0 && isfinite(sum), "%s: nothing was written", what);
    gpu_expect(&device, !memcmp(a->data, b->data, a->bytes), "%s: mapped memory differs", what);
    gpu_free(&device, a);
    gpu_free(&device, b);
}

/* Bins of the same samples in `space`: a window, or one that wraps in a ring. */
static sonar_buffer transform(const sonar_params *params, sonar_space space, bool in_ring) {
    const sonar_dft_spec spec = {.channels = SENSORS,
                                 .sensors = SENSORS,
                                 .length = LENGTH,
                                 .fs_hz = 8000,
                                 .first_bin = 5,
                                 .bins = BINS,
                                 .taper = SONAR_HANN,
                                 .planning = SONAR_PLAN_STABLE};
    uint64_t seed = 9;
    size_t shape[2] = {SENSORS, in_ring ? LENGTH + 45 : LENGTH};
    sonar_buffer here = gpu_buffer(&device, SONAR_PINNED, SONAR_F32, 2, shape);
    sonar_buffer bins = gpu_buffer(&device, SONAR_DEVICE, SONAR_C32, 2, (size_t[]){BINS, SENSORS});
    sonar_buffer column = gpu_buffer(&device, space, SONAR_U64, 1, (size_t[]){1});
    sonar_buffer start = gpu_buffer(&device, SONAR_PINNED, SONAR_U64, 1, (size_t[]){1});
    sonar_buffer in[SONAR_DFT_INPUTS] = {gpu_buffer(&device, space, SONAR_F32, 2, shape),
                                         {.dtype = SONAR_F32, .rank = 2}};
    for (size_t i = 0; i < sonar_buffer_count(&here); i++)
        ((float *)here.data)[i] = (float)sonar_random_symmetric(&seed);
    *(uint64_t *)start.data = 190;
    gpu_copy(&device, &here, &in[SONAR_DFT_HEAD]);
    gpu_copy(&device, &start, &column);
    sonar_buffer result = run("dft", &spec, params, in_ring ? column.data : NULL, in, &bins, &bins);
    gpu_free(&device, &here);
    gpu_free(&device, &bins);
    gpu_free(&device, &column);
    gpu_free(&device, &start);
    gpu_free(&device, &in[SONAR_DFT_HEAD]);
    return result;
}

static void samples_in_place(const sonar_params *params) {
    sonar_buffer a = transform(params, SONAR_PINNED, false);
    sonar_buffer b = transform(params, SONAR_MAPPED, false);
    expect_same("samples", &a, &b);
    a = transform(params, SONAR_DEVICE, true);
    b = transform(params, SONAR_MAPPED, true);
    expect_same("a ring of samples", &a, &b);
}

/* Azimuth (surface 0) or the spectrum of one beamformer, written to `space`. */
static sonar_buffer beams(const char *name, const void *spec, const sonar_params *params,
                          const sonar_buffer *bins, sonar_space space, bool azimuth) {
    size_t looks[1] = {LOOKS}, each[2] = {BINS, LOOKS};
    sonar_buffer out[SONAR_CBF_OUTPUTS + SONAR_MVDR_OUTPUTS] = {{0}};
    bool cbf = !strcmp(name, "cbf");
    int all = cbf ? SONAR_CBF_LOFAR : SONAR_MVDR_OUT_SPECTRUM;
    int first = cbf ? SONAR_CBF_AZIMUTH : SONAR_MVDR_OUT_AZIMUTH;
    out[first] = gpu_buffer(&device, space, SONAR_F32, 1, looks);
    out[all] = gpu_buffer(&device, space, SONAR_F32, 2, each);
    sonar_buffer result = run(name, spec, params, NULL, bins, out, &out[azimuth ? first : all]);
    gpu_free(&device, &out[first]);
    gpu_free(&device, &out[all]);
    return result;
}

static void surfaces_in_place(const sonar_params *params) {
    const sonar_cbf_spec cbf = {.sensors = SENSORS,
                                .directions = LOOKS,
                                .fs_hz = 8000,
                                .length = LENGTH,
                                .first_bin = 5,
                                .bins = BINS,
                                .cbf_first = 5,
                                .cbf_bins = BINS,
                                .max_snapshots = 1};
    const sonar_mvdr_spec mvdr = {.sensors = SENSORS,
                                  .directions = LOOKS,
                                  .fs_hz = 8000,
                                  .length = LENGTH,
                                  .first_bin = 5,
                                  .bins = BINS,
                                  .max_new = 1,
                                  .snapshots = 4,
                                  .eps = 1,
                                  .tolerance = 3e-7,
                                  .max_sweeps = 30};
    sonar_buffer here = transform(params, SONAR_PINNED, false);
    sonar_buffer bins = gpu_buffer(&device, SONAR_DEVICE, SONAR_C32, 2, here.shape);
    gpu_copy(&device, &here, &bins);
    sonar_buffer snapshot =
        sonar_buffer_view(bins.data, SONAR_C32, 3, (size_t[]){1, BINS, SENSORS});
    snapshot.space = SONAR_DEVICE;
    for (int azimuth = 0; azimuth < 2; azimuth++) {
        sonar_buffer a = beams("cbf", &cbf, params, &snapshot, SONAR_DEVICE, azimuth);
        sonar_buffer b = beams("cbf", &cbf, params, &snapshot, SONAR_MAPPED, azimuth);
        expect_same(azimuth ? "cbf azimuth" : "cbf surface", &a, &b);
        a = beams("mvdr_jacobi", &mvdr, params, &snapshot, SONAR_DEVICE, azimuth);
        b = beams("mvdr_jacobi", &mvdr, params, &snapshot, SONAR_MAPPED, azimuth);
        expect_same(azimuth ? "mvdr azimuth" : "mvdr spectrum", &a, &b);
    }
    gpu_free(&device, &bins);
    gpu_free(&device, &here);
}

int main(int argc, char **argv) {
    int code = gpu_open(&device, argc, argv);
    if (code >= 0)
        return code;
    const sonar_params params = make_params();
    copies();
    if (!device.quick) {
        large();
        far_apart();
    }
    samples_in_place(&params);
    surfaces_in_place(&params);
    return gpu_close(&device, "gpu_memory");
}
