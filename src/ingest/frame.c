/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ingest/frame.h"

#include <endian.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "core/core.h"

/* ---- little-endian fields -------------------------------------------------------------------- */

/* Reads bytes by shifts: correct on any machine and at any alignment, and compiled to one load on
 * little-endian machines. */
static uint64_t get(const uint8_t *from, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)from[i] << (8 * i);
    return value;
}

static void put(uint8_t *to, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

/* ---- header ---------------------------------------------------------------------------------- */

static const uint8_t magic[4] = {'S', 'N', 'R', 'F'};
enum { VERSION = 1 };

void sonar_frame_encode(const sonar_frame *frame, uint8_t header[SONAR_FRAME_HEADER_BYTES]) {
    uint64_t rate;
    memcpy(&rate, &frame->fs_hz, sizeof rate);
    memcpy(header, magic, sizeof magic);
    put(header + 4, VERSION, 2);
    put(header + 6, SONAR_FRAME_HEADER_BYTES, 2);
    put(header + 8, frame->array_id, 4);
    put(header + 12, frame->first_channel, 4);
    put(header + 16, frame->channels, 4);
    put(header + 20, frame->samples, 4);
    put(header + 24, frame->type, 1);
    put(header + 25, frame->layout, 1);
    put(header + 26, frame->flags, 2);
    put(header + 28, frame->epoch, 4);
    put(header + 32, frame->sequence, 8);
    put(header + 40, frame->first_sample, 8);
    put(header + 48, (uint64_t)frame->utc_ns, 8);
    put(header + 56, rate, 8);
}

static int64_t claimed_utc(uint64_t bits) {
    const int64_t utc_ns = (int64_t)bits;
    return utc_ns > SONAR_UTC_MOST_NS    ? SONAR_UTC_MOST_NS
           : utc_ns < -SONAR_UTC_MOST_NS ? -SONAR_UTC_MOST_NS
                                         : utc_ns;
}

static void read_fields(const uint8_t *header, sonar_frame *frame) {
    *frame = (sonar_frame){.array_id = (uint32_t)get(header + 8, 4),
                           .first_channel = (uint32_t)get(header + 12, 4),
                           .channels = (uint32_t)get(header + 16, 4),
                           .samples = (uint32_t)get(header + 20, 4),
                           .type = header[24],
                           .layout = header[25],
                           .flags = (uint16_t)get(header + 26, 2),
                           .epoch = (uint32_t)get(header + 28, 4),
                           .sequence = get(header + 32, 8),
                           .first_sample = get(header + 40, 8),
                           .utc_ns = claimed_utc(get(header + 48, 8))};
    uint64_t rate = get(header + 56, 8);
    memcpy(&frame->fs_hz, &rate, sizeof rate);
}

/* NULL if the fields make sense, else what is wrong with them. */
static const char *fault_of(const sonar_frame *frame) {
    if (frame->type < SONAR_S16 || frame->type > SONAR_F32)
        return "the sample type is not 1 (s16), 2 (s24), 3 (s32) or 4 (f32)";
    if (frame->layout > SONAR_FRAME_CHANNEL_MAJOR)
        return "the layout is neither 0 (interleaved) nor 1 (channel-major)";
    if (frame->channels < 1 || frame->channels > UINT32_MAX - frame->first_channel)
        return "the block has no channels, or its last channel does not fit 32 bits";
    if (frame->samples < 1 || frame->samples > SONAR_FRAME_MAX_SAMPLES)
        return "the samples per channel are not 1 to 1048576";
    if (frame->epoch == 0)
        return "the stream epoch is 0";
    if (frame->samples > UINT64_MAX - frame->first_sample)
        return "the index of the last sample does not fit 64 bits";
    return NULL;
}

sonar_code sonar_frame_decode(const void *data, size_t bytes, sonar_frame *frame,
                              sonar_error *err) {
    const uint8_t *header = data;
    if (bytes != SONAR_FRAME_HEADER_BYTES)
        return sonar_fail(err, SONAR_EPROTO, "frame", "the header has %zu bytes instead of %d",
                          bytes, SONAR_FRAME_HEADER_BYTES);
    if (memcmp(header, magic, sizeof magic))
        return sonar_fail(err, SONAR_EPROTO, "frame", "the header does not begin with SNRF");
    if (get(header + 4, 2) != VERSION)
        return sonar_fail(err, SONAR_EPROTO, "frame", "version %u of the format is not known",
                          (unsigned)get(header + 4, 2));
    if (get(header + 6, 2) != SONAR_FRAME_HEADER_BYTES)
        return sonar_fail(err, SONAR_EPROTO, "frame", "the header says it has %u bytes",
                          (unsigned)get(header + 6, 2));
    read_fields(header, frame);
    const char *fault = fault_of(frame);
    return fault ? sonar_fail(err, SONAR_EPROTO, "frame", "%s", fault) : SONAR_OK;
}

uint64_t sonar_frame_payload_bytes(const sonar_frame *frame) {
    return (uint64_t)frame->channels * frame->samples *
           sonar_dtype_size((sonar_dtype)frame->type); /* at most 2^32 * 2^20 * 4 */
}

/* ---- samples --------------------------------------------------------------------------------- */

#define INLINE static inline __attribute__((always_inline))

INLINE uint32_t word(const uint8_t *at) {
    uint32_t bits;
    memcpy(&bits, at, sizeof bits);
    return le32toh(bits);
}

INLINE float sample(int type, const uint8_t *at) {
    float value;
    uint32_t bits;
    uint16_t half;
    switch (type) {
    case SONAR_S16:
        memcpy(&half, at, sizeof half);
        return (float)(int16_t)le16toh(half);
    case SONAR_S24: /* in the top three bytes, so that the shift back extends the sign */
        bits = (uint32_t)at[0] << 8 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 24;
        return (float)((int32_t)bits >> 8);
    case SONAR_S32:
        return (float)(int32_t)word(at);
    default:
        bits = word(at);
        memcpy(&value, &bits, sizeof value);
        return value;
    }
}

/* count samples that lie `step` bytes apart, to floats `spread` apart. */
INLINE void convert_as(int type, const uint8_t *from, size_t step, size_t count, float *to,
                       size_t spread) {
    size_t size = type == SONAR_S16 ? 2 : type == SONAR_S24 ? 3 : 4;
    if (step == size && spread == 1) /* known strides: vectorised */
        for (size_t i = 0; i < count; i++)
            to[i] = sample(type, from + i * size);
    else
        for (size_t i = 0; i < count; i++)
            to[i * spread] = sample(type, from + i * step);
}

/* One loop per type, so that the type is decided outside the loop. */
static void convert(int type, const uint8_t *from, size_t step, size_t count, float *to,
                    size_t spread) {
    switch (type) {
    case SONAR_S16:
        convert_as(SONAR_S16, from, step, count, to, spread);
        break;
    case SONAR_S24:
        convert_as(SONAR_S24, from, step, count, to, spread);
        break;
    case SONAR_S32:
        convert_as(SONAR_S32, from, step, count, to, spread);
        break;
    default:
        convert_as(SONAR_F32, from, step, count, to, spread);
        break;
    }
}

/* Tests the exponent's bits: all ones means an infinity or NaN. */
INLINE bool is_finite(const uint8_t *from, size_t step, size_t count) {
    uint32_t bad = 0;
    for (size_t i = 0; i < count; i++)
        bad |= (word(from + i * step) & 0x7f800000u) == 0x7f800000u;
    return !bad;
}

/* Compares magnitudes by their bits, which places infinities and NaN above all numbers. */
INLINE int32_t magnitude(const uint8_t *at) {
    return (int32_t)(word(at) & 0x7fffffffu);
}

INLINE float as_float(int32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float sonar_frame_peak(const sonar_frame *frame, const void *payload) {
    const uint8_t *from = payload;
    int32_t most = 0;
    if (frame->type != SONAR_F32)
        return 0;
    for (size_t i = 0, count = (size_t)frame->channels * frame->samples; i < count; i++) {
        int32_t next = magnitude(from + 4 * i);
        most = next > most ? next : most;
    }
    return as_float(most);
}

bool sonar_frame_has_counts(const sonar_frame *frame, const void *payload) {
    const uint8_t *from = payload;
    for (size_t i = 0, count = (size_t)frame->channels * frame->samples; i < count; i++) {
        const float value = as_float((int32_t)word(from + 4 * i));
        if (!(value >= -0x1p31f && value <= 0x1p31f && value == (float)(int64_t)value))
            return false;
    }
    return true;
}

/* Where a channel's samples lie in the payload. */
struct row {
    const uint8_t *begin;
    size_t step; /* bytes */
};

static struct row row_of(const sonar_frame *frame, const void *payload, uint32_t channel,
                         uint32_t from) {
    size_t size = sonar_dtype_size((sonar_dtype)frame->type);
    bool interleaved = frame->layout == SONAR_FRAME_INTERLEAVED;
    size_t first = interleaved ? (size_t)from * frame->channels + channel
                               : (size_t)channel * frame->samples + from;
    return (struct row){(const uint8_t *)payload + first * size,
                        interleaved ? size * frame->channels : size};
}

/* The two largest magnitudes of each of up to SIDE channels, computed in the order of the payload
 * in either layout. */
enum { SIDE = 64, SPIKE_SAMPLES_LEAST = 8 };

static bool spike_among(const sonar_frame *frame, const void *payload, uint32_t channel,
                        uint32_t channels) {
    int32_t first[SIDE] = {0}, second[SIDE] = {0};
    for (uint32_t k = 0; k < channels; k++) {
        struct row row = row_of(frame, payload, channel + k, 0);
        int32_t edge = magnitude(row.begin);
        int32_t last = magnitude(row.begin + (frame->samples - 1) * row.step);
        second[k] = edge > last ? edge : last;
        for (uint32_t i = 1; i + 1 < frame->samples; i++) {
            int32_t next = magnitude(row.begin + i * row.step);
            int32_t lesser = next < first[k] ? next : first[k];
            first[k] = next > first[k] ? next : first[k];
            second[k] = lesser > second[k] ? lesser : second[k];
        }
    }
    bool found = false;
    for (uint32_t k = 0; k < channels; k++)
        found |= second[k] && as_float(first[k]) > SONAR_FRAME_SPIKE * as_float(second[k]);
    return found;
}

bool sonar_frame_has_spike(const sonar_frame *frame, const void *payload) {
    bool found = false;
    if (frame->type != SONAR_F32 || frame->samples < SPIKE_SAMPLES_LEAST)
        return false;
    for (uint32_t k = 0; k < frame->channels && !found; k += SIDE)
        found = spike_among(frame, payload, k, (uint32_t)sonar_min_size(frame->channels - k, SIDE));
    return found;
}

bool sonar_frame_unpack(const sonar_frame *frame, const void *payload, uint32_t channel,
                        uint32_t from, uint32_t samples, float *to) {
    struct row row = row_of(frame, payload, channel, from);
    convert(frame->type, row.begin, row.step, samples, to, 1);
    return frame->type != SONAR_F32 || is_finite(row.begin, row.step, samples);
}

/* ---- into rows ------------------------------------------------------------------------------- */

/* Writes whole cache lines past the caches, because a normal write would first read the line. */
static void stream(uint8_t *to, const uint8_t *from, size_t bytes) {
    size_t done = 0;
#if defined(__SSE2__)
    done = sonar_min_size(bytes, -(uintptr_t)to % 64);
    memcpy(to, from, done);
    for (; done + 64 <= bytes; done += 64)
        for (size_t i = done; i < done + 64; i += sizeof(__m128i))
            _mm_stream_si128((__m128i *)(to + i), _mm_loadu_si128((const __m128i *)(from + i)));
#endif
    memcpy(to + done, from + done, bytes - done);
}

/* Makes streamed samples visible before another thread is told about them. */
static void end_stream(void) {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

static void move_s16(const uint8_t *from, size_t samples, int16_t *to) {
    for (size_t i = 0; i < samples; i++)
        to[i] = (int16_t)(from[2 * i] | from[2 * i + 1] << 8);
}

/* Dense samples to row `k`, from column `column` on. */
static void put_row(const sonar_rows *rows, int type, const uint8_t *from, size_t samples, size_t k,
                    size_t column) {
    size_t at = k * rows->stride + column, size = rows->s16 ? sizeof(int16_t) : sizeof(float);
    bool as_is = le16toh(1) == 1 && (rows->s16 || type == SONAR_F32);
    if (as_is && rows->stream)
        stream((uint8_t *)rows->data + at * size, from, samples * size);
    else if (as_is)
        memcpy((uint8_t *)rows->data + at * size, from, samples * size);
    else if (rows->s16)
        move_s16(from, samples, (int16_t *)rows->data + at);
    else
        convert(type, from, sonar_dtype_size((sonar_dtype)type), samples, (float *)rows->data + at,
                1);
}

/* Transposes through a tile: a transposition touches one side with a large stride, often a power of
 * two that maps to one cache set. Through the tile both sides are read and written in whole lines,
 * the payload a few rows at a time. In the tile samples have the payload's type, and each channel's
 * samples are adjacent. */
enum { TILE_BYTES = 256 /* of a row of the payload */, TILE_SAMPLES = 64, CACHE_LINE = 64 };

/* Eight samples of 2 bytes or four of 4. */
typedef uint16_t eight __attribute__((vector_size(16)));
typedef uint32_t four __attribute__((vector_size(16)));

/* Transposes by interleaving the rows of one half with those of the other, log2(n) times. */
INLINE void transpose_eight(const uint8_t *from, size_t step, uint8_t *to, size_t to_step) {
    eight row[8], next[8];
    for (size_t i = 0; i < 8; i++)
        memcpy(&row[i], from + i * step, sizeof *row);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 4; i++) {
            next[2 * i] = __builtin_shufflevector(row[i], row[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
            next[2 * i + 1] =
                __builtin_shufflevector(row[i], row[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
        }
        memcpy(row, next, sizeof row);
    }
    for (size_t i = 0; i < 8; i++)
        memcpy(to + i * to_step, &row[i], sizeof *row);
}

INLINE void transpose_four(const uint8_t *from, size_t step, uint8_t *to, size_t to_step) {
    four row[4], next[4];
    for (size_t i = 0; i < 4; i++)
        memcpy(&row[i], from + i * step, sizeof *row);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 2; i++) {
            next[2 * i] = __builtin_shufflevector(row[i], row[i + 2], 0, 4, 1, 5);
            next[2 * i + 1] = __builtin_shufflevector(row[i], row[i + 2], 2, 6, 3, 7);
        }
        memcpy(row, next, sizeof row);
    }
    for (size_t i = 0; i < 4; i++)
        memcpy(to + i * to_step, &row[i], sizeof *row);
}

static size_t tile_row_bytes(size_t size) {
    return size * TILE_SAMPLES;
}

/* Prefetches the rows after these `side` ones, which are too far apart for the processor's own
 * prefetcher. */
INLINE void fetch_rows(const uint8_t *at, size_t side, size_t step) {
    for (size_t i = side; i < 2 * side; i++)
        __builtin_prefetch((const void *)((uintptr_t)at + i * step));
}

/* Copies sample s of channel k from from + s * step + k * size to sample s of row k of the tile. */
INLINE void transpose(size_t size, const uint8_t *from, size_t step, size_t channels,
                      size_t samples, uint8_t *tile) {
    const size_t side = size == 2 ? 8 : size == 4 ? 4 : TILE_SAMPLES + 1;
    const size_t to_step = tile_row_bytes(size);
    size_t wide = channels - channels % side, deep = samples - samples % side;
    for (size_t s = 0; s < deep; s += side)
        for (size_t k = 0; k < wide; k += side) {
            const uint8_t *at = from + s * step + k * size;
            uint8_t *to = tile + k * to_step + s * size;
            if (k * size % CACHE_LINE == 0)
                fetch_rows(at, side, step);
            if (size == 2)
                transpose_eight(at, step, to, to_step);
            else
                transpose_four(at, step, to, to_step);
        }
    for (size_t s = 0; s < samples; s++)
        for (size_t k = s < deep ? wide : 0; k < channels; k++)
            memcpy(tile + k * to_step + s * size, from + s * step + k * size, size);
}

SONAR_MULTIARCH static void transpose_tile(size_t size, const uint8_t *from, size_t step,
                                           size_t channels, size_t samples, uint8_t *tile) {
    if (size == 2)
        transpose(2, from, step, channels, samples, tile);
    else if (size == 4)
        transpose(4, from, step, channels, samples, tile);
    else
        transpose(3, from, step, channels, samples, tile);
}

static void unpack_tiles(const sonar_frame *frame, const void *payload, uint32_t channel,
                         uint32_t channels, uint32_t from, uint32_t samples, const sonar_rows *to) {
    _Alignas(CACHE_LINE) uint8_t tile[TILE_BYTES * TILE_SAMPLES];
    size_t size = sonar_dtype_size((sonar_dtype)frame->type);
    uint32_t across = (uint32_t)(TILE_BYTES / size);
    for (uint32_t k = 0; k < channels; k += across)
        for (uint32_t s = 0; s < samples; s += TILE_SAMPLES) {
            size_t wide = sonar_min_size(channels - k, across);
            size_t deep = sonar_min_size(samples - s, TILE_SAMPLES);
            struct row row = row_of(frame, payload, channel + k, from + s);
            transpose_tile(size, row.begin, row.step, wide, deep, tile);
            for (size_t i = 0; i < wide; i++)
                put_row(to, frame->type, tile + i * tile_row_bytes(size), deep, k + i, s);
        }
}

void sonar_frame_unpack_block(const sonar_frame *frame, const void *payload, uint32_t channel,
                              uint32_t channels, uint32_t from, uint32_t samples,
                              const sonar_rows *to) {
    if (frame->layout == SONAR_FRAME_INTERLEAVED && frame->channels > 1)
        unpack_tiles(frame, payload, channel, channels, from, samples, to);
    else
        for (uint32_t k = 0; k < channels; k++)
            put_row(to, frame->type, row_of(frame, payload, channel + k, from).begin, samples, k,
                    0);
    if (to->stream)
        end_stream();
}
