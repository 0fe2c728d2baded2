/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "miniseed.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { FRAME = 64, WORDS = 16, HEADER = 48 };
enum { INT16 = 1, INT32 = 3, FLOAT32 = 4, FLOAT64 = 5, STEIM1 = 10, STEIM2 = 11 };

/* Where a record is read, in its byte order. */
typedef struct view {
    const uint8_t *at;
    bool big;
} view;

static uint64_t number(view v, size_t offset, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | v.at[offset + (v.big ? i : bytes - 1 - i)];
    return value;
}

static unsigned u16(view v, size_t offset) {
    return (unsigned)number(v, offset, 2);
}

static int i16(view v, size_t offset) {
    return (int16_t)number(v, offset, 2);
}

static uint32_t u32(view v, size_t offset) {
    return (uint32_t)number(v, offset, 4);
}

static float f32(view v, size_t offset) {
    const uint32_t bits = u32(v, offset);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double f64(view v, size_t offset) {
    const uint64_t bits = number(v, offset, 8);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- the header ------------------------------------------------------------------------------ */

/* What blockettes say. */
typedef struct extras {
    unsigned encoding, bytes_log2;
    bool known, big; /* blockette 1000 was there; the samples' byte order */
    int us;          /* of the time */
    double fs_hz;    /* 0: not said */
} extras;

static bool plausible(view v) {
    const unsigned year = u16(v, 20), day = u16(v, 22);
    return year >= 1970 && year <= 2095 && day >= 1 && day <= 366 && v.at[24] < 24 &&
           v.at[25] < 60 && v.at[26] <= 60 && u16(v, 28) < 10000;
}

/* A chain of blockettes, each at a higher offset than the one before. */
static bool read_extras(view v, extras *x) {
    size_t at = u16(v, 46);
    *x = (extras){0};
    for (size_t before = HEADER - 1; at; before = at, at = u16(v, at + 2)) {
        if (at <= before || at + 8 > MINISEED_BYTES)
            return false;
        switch (u16(v, at)) {
        case 1000:
            x->known = true;
            x->encoding = v.at[at + 4];
            x->big = v.at[at + 5] != 0;
            x->bytes_log2 = v.at[at + 6];
            break;
        case 1001:
            x->us = (int8_t)v.at[at + 5];
            break;
        case 100:
            x->fs_hz = (double)f32(v, at + 4);
            break;
        default:
            break;
        }
    }
    return true;
}

/* The factor and the multiplier are frequencies if they are positive, and periods if negative. */
static double rate_of(view v, const extras *x) {
    const double factor = i16(v, 32), multiplier = i16(v, 34);
    if (!(fabs(factor) > 0) || !(fabs(multiplier) > 0))
        return 0;
    const double nominal =
        (factor > 0 ? factor : -1 / factor) * (multiplier > 0 ? multiplier : -1 / multiplier);
    /* a float's rounding is no other rate */
    return x->fs_hz > 0 && fabs(x->fs_hz / nominal - 1) > 1e-6 ? x->fs_hz : nominal;
}

/* Days since 1970 of the year's first. */
static int64_t days_to(int64_t year) {
    const int64_t y = year - 1;
    return y * 365 + y / 4 - y / 100 + y / 400 - 719162;
}

static int64_t time_of(view v, const extras *x) {
    const int64_t days = days_to(u16(v, 20)) + u16(v, 22) - 1;
    const int64_t s = ((days * 24 + v.at[24]) * 60 + v.at[25]) * 60 + v.at[26];
    const int32_t correction = v.at[36] & 2 ? 0 : (int32_t)u32(v, 40); /* is it applied already? */
    return s * 1000000000 + ((int64_t)u16(v, 28) + correction) * 100000 + x->us * 1000;
}

static char *add_code(char *to, const uint8_t *code, size_t most) {
    for (size_t i = 0; i < most && code[i] != ' '; i++)
        *to++ = isalnum(code[i]) ? (char)code[i] : '?';
    return to;
}

static void name_of(const uint8_t *record, char *to) {
    static const struct { size_t at, most; } part[] = {{18, 2}, {8, 5}, {13, 2}, {15, 3}};
    for (size_t i = 0; i < 4; i++) {
        to = add_code(to, record + part[i].at, part[i].most);
        *to++ = i < 3 ? '_' : '\0';
    }
}

/* ---- samples --------------------------------------------------------------------------------- */

/* How a word's differences lie in it. */
static bool split(bool second, unsigned code, uint32_t word, unsigned *count, unsigned *bits) {
    static const uint8_t counts[4][4] = {{0}, {4, 4, 4, 4}, {0, 1, 2, 3}, {5, 6, 7, 0}};
    static const uint8_t widths[4][4] = {{0}, {8, 8, 8, 8}, {0, 30, 15, 10}, {6, 5, 4, 0}};
    const unsigned more = word >> 30;
    if (second) {
        *count = counts[code][more];
        *bits = widths[code][more];
        return *count > 0;
    }
    *count = code == 1 ? 4 : code == 2 ? 2 : 1;
    *bits = 32 / *count;
    return true;
}

/* The i-th of `count` numbers of `bits` bits, the last in the lowest bits. */
static int32_t part(uint32_t word, unsigned i, unsigned count, unsigned bits) {
    const uint32_t raw = (uint32_t)((uint64_t)word >> (bits * (count - 1 - i)));
    return (int32_t)(raw << (32 - bits)) >> (32 - bits);
}

/* Differences, of which the first leads to the first sample; frame 0 has the first and the last
 * sample, which has to come out. */
static const char *read_steim(view v, size_t bytes, bool second, miniseed *to) {
    size_t n = 0;
    uint32_t value = 0;
    for (size_t frame = 0; (frame + 1) * FRAME <= bytes && n < to->samples; frame++)
        for (size_t w = frame ? 1 : 3; w < WORDS && n < to->samples; w++) {
            const unsigned code = u32(v, frame * FRAME) >> (30 - 2 * w) & 3;
            const uint32_t word = u32(v, frame * FRAME + 4 * w);
            unsigned count, bits;
            if (!code)
                continue;
            if (!split(second, code, word, &count, &bits))
                return "a word of Steim 2 has a code that does not exist";
            for (unsigned i = 0; i < count && n < to->samples; i++) {
                value = n ? value + (uint32_t)part(word, i, count, bits) : u32(v, 4);
                to->sample[n++] = (float)(int32_t)value;
            }
        }
    if (n < to->samples)
        return "its frames have fewer samples than its header says";
    return value == u32(v, 8) ? NULL : "its last sample is not the one that its first frame says";
}

static const char *read_plain(view v, size_t bytes, unsigned encoding, miniseed *to) {
    static const size_t size[] = {[INT16] = 2, [INT32] = 4, [FLOAT32] = 4, [FLOAT64] = 8};
    const size_t step = size[encoding];
    if (to->samples * step > bytes)
        return "it has fewer samples than its header says";
    for (size_t i = 0; i < to->samples; i++)
        to->sample[i] = encoding == INT16     ? (float)i16(v, i * step)
                        : encoding == INT32   ? (float)(int32_t)u32(v, i * step)
                        : encoding == FLOAT32 ? f32(v, i * step)
                                              : (float)f64(v, i * step);
    for (size_t i = 0; i < to->samples; i++)
        if (!isfinite(to->sample[i]))
            return "a sample is no finite number";
    return NULL;
}

static const char *read_samples(const uint8_t *record, size_t begin, const extras *x, miniseed *to,
                                char text[160]) {
    const view v = {record + begin, x->big};
    const size_t bytes = MINISEED_BYTES - begin;
    switch (x->encoding) {
    case INT16:
    case INT32:
    case FLOAT32:
    case FLOAT64:
        return read_plain(v, bytes, x->encoding, to);
    case STEIM1:
    case STEIM2:
        return bytes < FRAME ? "it has no frame" : read_steim(v, bytes, x->encoding == STEIM2, to);
    default:
        snprintf(text, 160,
                 "encoding %u; 1 and 3 (integers), 4 and 5 (floats), 10 and 11 (Steim) are read",
                 x->encoding);
        return text;
    }
}

const char *miniseed_read(const uint8_t *record, miniseed *to, char text[160]) {
    view v = {record, true};
    extras x;
    *to = (miniseed){0};
    if (!plausible(v))
        v.big = false;
    if (!plausible(v) || !strchr("DRQM", record[6]) || !record[6])
        return "it has no header of miniSEED 2, with a time from 1970 to 2095";
    name_of(record, to->name);
    if (!read_extras(v, &x) || !x.known)
        return "it has no blockette 1000 where one should be";
    if (x.bytes_log2 != 9) {
        snprintf(text, 160, "it says that it has 2^%u bytes, and SeedLink's have 2^9",
                 x.bytes_log2);
        return text;
    }
    const size_t samples = u16(v, 30), begin = u16(v, 44);
    to->fs_hz = rate_of(v, &x);
    to->utc_ns = time_of(v, &x);
    if (!samples || !(to->fs_hz > 0))
        return NULL;
    if (samples > MINISEED_SAMPLES_MOST || begin < HEADER || begin >= MINISEED_BYTES ||
        !(to->fs_hz <= 1e6)) {
        snprintf(text, 160, "%zu samples at %g Hz from byte %zu on do not fit into 512 bytes",
                 samples, to->fs_hz, begin);
        return text;
    }
    to->samples = samples;
    return read_samples(record, begin, &x, to, text);
}
