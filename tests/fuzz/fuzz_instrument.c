/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libFuzzer target for what instruments send. The first byte says what follows: 's' records of
 * SeedLink, 'i' a message of icListen after its head, 'o' a header of OptoDAS, 'f' head and
 * description of a Febus A1 and the length of its samples, else pieces of three units with any
 * times for the grid, which they all end in. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "febus.h"
#include "fibre.h"
#include "grid.h"
#include "iclisten.h"
#include "miniseed.h"
#include "optodas.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { UNITS = 3, CHANNELS = 4, LONGEST = 40, MOST = 16 };

/* Each sample comes once, later than the one before, and is what was put there: its number by the
 * time it was put with, as far as floats tell it. */
static void drain(grid *g) {
    static uint64_t next;
    float rows[MOST * CHANNELS];
    uint8_t absent[UNITS];
    grid_piece piece;
    for (int turns = 0; turns < 1000; turns++) {
        if (!grid_take(g, rows, absent, MOST, &piece))
            return;
        if (piece.samples > MOST || (!piece.renewed && turns && piece.index < next) ||
            (absent[0] && absent[1] && absent[2]))
            abort();
        next = piece.index + piece.samples;
        for (size_t u = 0; u < UNITS; u++)
            for (size_t i = 0; i < piece.samples; i++)
                if ((rows[i * CHANNELS + g->unit[u].first] > 0) == absent[u])
                    abort();
    }
}

/* 8 bytes a piece: its unit, its length, and by how much its time differs from the one before. */
static void fuzz_grid(const uint8_t *data, size_t size) {
    static const char *const name[UNITS] = {"a", "b", "c"};
    static const size_t count[UNITS] = {1, 2, 1};
    static float ones[LONGEST * 2];
    tally t = {0};
    grid g = {0};
    const grid_spec spec = {.tally = &t,
                            .fs_hz = 100,
                            .units = UNITS,
                            .name = name,
                            .count = count,
                            .wait_s = 0.5,
                            .longest = LONGEST};
    int64_t utc_ns = 1000000000;
    for (size_t i = 0; i < LONGEST * 2; i++)
        ones[i] = 1;
    if (grid_begin(&g, &spec, NULL))
        abort();
    for (; size >= 8; data += 8, size -= 8) {
        int32_t step_100us;
        memcpy(&step_100us, data + 4, sizeof step_100us);
        if (!(data[2] & 0x80)) /* mostly close */
            step_100us %= 20000;
        utc_ns += (int64_t)step_100us * 100000;
        utc_ns = utc_ns < 0 ? 0 : utc_ns;
        const size_t unit = data[0] % UNITS, n = 1 + data[1] % LONGEST;
        if (!grid_put(&g, unit, utc_ns, data[2] & 1, ones, n)) {
            drain(&g);
            if (!grid_put(&g, unit, utc_ns, data[2] & 1, ones, n))
                abort(); /* the buffer is empty, and it goes there */
        }
        drain(&g);
    }
    grid_free(&g);
}

static void fuzz_records(const uint8_t *data, size_t size) {
    static miniseed record;
    uint8_t bytes[MINISEED_BYTES] = {0};
    char text[160];
    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    if (miniseed_read(bytes, &record, text))
        return;
    if (record.samples > MINISEED_SAMPLES_MOST || memchr(record.name, 0, MINISEED_NAME) == NULL ||
        record.utc_ns > 4000000000000000000 || (record.samples && !(record.fs_hz > 0)))
        abort();
    for (size_t i = 0; i < record.samples; i++)
        if (!isfinite(record.sample[i]))
            abort();
}

static void fuzz_message(const uint8_t *data, size_t size) {
    iclisten_message m;
    char text[160];
    volatile uint8_t sum = 0;
    if (iclisten_read(data, size, &m, text) || !m.has_samples)
        return;
    for (size_t i = 0; i < m.samples * m.channels * ICLISTEN_WIDTH; i++)
        sum += m.sample[i];
}

static void fuzz_header(const char *data, size_t size) {
    optodas_header h;
    char text[160];
    if (!optodas_is_header(data, size) || optodas_read_header(data, size, &h, text))
        return;
    if (!h.channels || !h.packages || !h.width || !(h.fs_hz > 0) || !isfinite(h.fs_hz))
        abort();
}

/* What is cut off is a part that is too short; the length is 8 bytes. */
static void fuzz_block(const uint8_t *data, size_t size) {
    febus_header h;
    char text[200];
    uint64_t length = 0;
    const febus_part head = {data, size < FEBUS_HEAD ? size : FEBUS_HEAD};
    size -= head.bytes;
    const febus_part about = {data + head.bytes, size < FEBUS_ABOUT ? size : FEBUS_ABOUT};
    size -= about.bytes;
    memcpy(&length, about.data + about.bytes, size < sizeof length ? size : sizeof length);
    if (febus_read_header(head, about, length, &h, text)) {
        if (!memchr(text, 0, sizeof text))
            abort();
        return;
    }
    if (h.samples < 4 || h.samples % 2 || !h.channels || h.samples * h.channels * 4 != length ||
        !((double)length <= fibre_bytes_most) || !(h.fs_hz > 0) || !isfinite(h.fs_hz) ||
        !(h.dx_m > 0) || !isfinite(h.x_m) || h.utc_ns < 0 || h.utc_ns > fibre_utc_most_ns)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size)
        return 0;
    switch (*data) {
    case 's':
        fuzz_records(data + 1, size - 1);
        break;
    case 'i':
        fuzz_message(data + 1, size - 1);
        break;
    case 'o':
        fuzz_header((const char *)data + 1, size - 1);
        break;
    case 'f':
        fuzz_block(data + 1, size - 1);
        break;
    default:
        fuzz_grid(data + 1, size - 1);
    }
    return 0;
}
