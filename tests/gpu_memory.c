/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Copies between all kinds of memory, of every size and cut. */
#include "gpu.h"

#include <stdlib.h>
#include <string.h>

static struct gpu device;

static const sonar_space SPACES[] = {SONAR_HOST, SONAR_PINNED, SONAR_DEVICE};
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

int main(int argc, char **argv) {
    int code = gpu_open(&device, argc, argv);
    if (code >= 0)
        return code;
    copies();
    if (!device.quick) {
        large();
        far_apart();
    }
    return gpu_close(&device, "gpu_memory");
}
