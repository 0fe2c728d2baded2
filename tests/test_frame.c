/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The frame codec compared with a byte-by-byte oracle. */
#include "core/random.h"
#include "ingest/frame.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 1;

static uint64_t draw(void) {
    return sonar_random_bits(&state);
}

static uint64_t below(uint64_t limit) {
    return draw() % limit;
}

static sonar_frame good_frame(void) {
    return (sonar_frame){.array_id = 7,
                         .first_channel = 3,
                         .channels = 5,
                         .samples = 11,
                         .type = SONAR_S24,
                         .layout = SONAR_FRAME_CHANNEL_MAJOR,
                         .flags = SONAR_FRAME_OVERLOAD,
                         .epoch = 0xcafe,
                         .sequence = 42,
                         .first_sample = 1234567890123,
                         .utc_ns = -5,
                         .fs_hz = 8000.25};
}

static bool same(const sonar_frame *a, const sonar_frame *b) {
    return a->array_id == b->array_id && a->first_channel == b->first_channel &&
           a->channels == b->channels && a->samples == b->samples && a->type == b->type &&
           a->layout == b->layout && a->flags == b->flags && a->epoch == b->epoch &&
           a->sequence == b->sequence && a->first_sample == b->first_sample &&
           a->utc_ns == b->utc_ns && !memcmp(&a->fs_hz, &b->fs_hz, sizeof a->fs_hz);
}

Test(frame, header_has_the_documented_bytes) {
    sonar_frame frame = {.array_id = 0x04030201,
                         .first_channel = 0x08070605,
                         .channels = 0x0c0b0a09,
                         .samples = 0x00010203,
                         .type = 4,
                         .layout = 1,
                         .flags = 0x0604,
                         .epoch = 0xf1f2f3f4,
                         .sequence = 0x1112131415161718,
                         .first_sample = 0x2122232425262728,
                         .utc_ns = -2,
                         .fs_hz = 1.0};
    static const uint8_t expected[64] = {
        'S',  'N',  'R',  'F',  1,    0,    64,   0,    1,    2,    3,    4,    5,
        6,    7,    8,    9,    10,   11,   12,   3,    2,    1,    0,    4,    1,
        0x04, 0x06, 0xf4, 0xf3, 0xf2, 0xf1, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12,
        0x11, 0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 0xfe, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0,    0,    0,    0,    0,    0,    0xf0, 0x3f};
    uint8_t header[64];
    memset(header, 0xaa, sizeof header);
    sonar_frame_encode(&frame, header);
    cr_assert(!memcmp(header, expected, 64));
}

Test(frame, random_headers_survive_the_round_trip) {
    for (int trial = 0; trial < 2000; trial++) {
        sonar_frame frame = {.array_id = (uint32_t)draw(),
                             .first_channel = (uint32_t)below(1u << 31),
                             .channels = (uint32_t)below(1u << 31) + 1,
                             .samples = (uint32_t)below(SONAR_FRAME_MAX_SAMPLES) + 1,
                             .type = (uint8_t)(1 + below(4)),
                             .layout = (uint8_t)below(2),
                             .flags = (uint16_t)draw(),
                             .epoch = (uint32_t)draw() | 1,
                             .sequence = draw(),
                             .first_sample = draw() >> 1,
                             .utc_ns = (int64_t)below(2 * (uint64_t)SONAR_UTC_MOST_NS) -
                                       SONAR_UTC_MOST_NS,
                             .fs_hz = (double)below(1u << 20) / 7};
        uint8_t header[65];
        sonar_frame back;
        sonar_frame_encode(&frame, header + 1); /* unaligned on purpose */
        cr_assert(sonar_frame_decode(header + 1, 64, &back, NULL) == SONAR_OK);
        cr_assert(same(&frame, &back));
    }
}

/* UTC does not place samples, so a wrong UTC does not lead to refusal. */
Test(frame, times_that_no_one_means_stay_harmless) {
    static const int64_t claimed[][2] = {{INT64_MAX, SONAR_UTC_MOST_NS},
                                         {INT64_MIN, -SONAR_UTC_MOST_NS},
                                         {SONAR_UTC_MOST_NS + 1, SONAR_UTC_MOST_NS},
                                         {SONAR_UTC_MOST_NS, SONAR_UTC_MOST_NS},
                                         {-1, -1},
                                         {0, 0}};
    for (size_t i = 0; i < sizeof claimed / sizeof *claimed; i++) {
        sonar_frame frame = good_frame(), back;
        uint8_t header[64];
        frame.utc_ns = claimed[i][0];
        sonar_frame_encode(&frame, header);
        cr_assert(sonar_frame_decode(header, 64, &back, NULL) == SONAR_OK);
        cr_expect_eq(back.utc_ns, claimed[i][1]);
    }
}

Test(frame, every_bad_field_is_refused_with_a_sentence) {
    struct {
        size_t at;
        uint8_t value;
    } bad[] = {{0, 's'}, {1, 0},  {2, 'r'},   {3, 'G'}, {4, 2},  {5, 1},  {6, 63},   {7, 1},
               {24, 0},  {24, 5}, {24, 0xff}, {25, 2},  {16, 0}, {20, 0}, {23, 0xff}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sonar_frame frame = good_frame(), back;
        frame.channels = 1, frame.samples = 1; /* one byte then makes them zero */
        uint8_t header[64];
        sonar_frame_encode(&frame, header);
        sonar_error err = {0};
        cr_assert(sonar_frame_decode(header, 64, &back, &err) == SONAR_OK);
        header[bad[i].at] = bad[i].value;
        cr_assert(sonar_frame_decode(header, 64, &back, &err) == SONAR_EPROTO, "byte %zu",
                  bad[i].at);
        cr_assert(err.code == SONAR_EPROTO && strlen(err.text) > 10);
    }
}

static sonar_code decode_with(sonar_frame frame) {
    uint8_t header[64];
    sonar_frame back;
    sonar_frame_encode(&frame, header);
    return sonar_frame_decode(header, 64, &back, NULL);
}

Test(frame, limits_are_exact) {
    sonar_frame frame = good_frame();
    frame.epoch = 0;
    cr_assert(decode_with(frame) == SONAR_EPROTO);
    frame = good_frame();
    frame.samples = SONAR_FRAME_MAX_SAMPLES;
    cr_assert(decode_with(frame) == SONAR_OK);
    frame.samples++;
    cr_assert(decode_with(frame) == SONAR_EPROTO);
    frame = good_frame();
    frame.first_sample = UINT64_MAX - frame.samples;
    cr_assert(decode_with(frame) == SONAR_OK);
    frame.first_sample++;
    cr_assert(decode_with(frame) == SONAR_EPROTO);
    frame = good_frame();
    frame.first_channel = UINT32_MAX - frame.channels;
    cr_assert(decode_with(frame) == SONAR_OK);
    frame.first_channel++;
    cr_assert(decode_with(frame) == SONAR_EPROTO);
}

Test(frame, any_other_length_is_refused) {
    uint8_t header[80] = {0};
    sonar_frame frame = good_frame(), back;
    sonar_frame_encode(&frame, header);
    for (size_t bytes = 0; bytes <= 80; bytes++)
        cr_assert((sonar_frame_decode(header, bytes, &back, NULL) == SONAR_OK) == (bytes == 64));
}

Test(frame, random_bytes_never_harm) {
    int accepted = 0;
    for (int trial = 0; trial < 200000; trial++) {
        uint8_t header[64];
        sonar_frame frame;
        for (size_t i = 0; i < 64; i += 8) {
            uint64_t bits = draw();
            memcpy(header + i, &bits, 8);
        }
        static const uint8_t start[8] = {'S', 'N', 'R', 'F', 1, 0, 64, 0};
        if (trial % 2)
            memcpy(header, start, sizeof start);
        header[24] &= 7, header[25] &= 1, header[22] &= 31, header[23] = 0;
        if (sonar_frame_decode(header, 64, &frame, NULL))
            continue;
        accepted++;
        cr_assert(frame.samples && frame.samples <= SONAR_FRAME_MAX_SAMPLES && frame.channels);
        cr_assert(sonar_frame_payload_bytes(&frame) <= (uint64_t)1 << 54);
    }
    cr_assert(accepted > 1000);
}

Test(frame, payload_size_needs_64_bits) {
    sonar_frame frame = good_frame();
    cr_assert(sonar_frame_payload_bytes(&frame) == 5 * 11 * 3);
    frame.channels = UINT32_MAX, frame.samples = 1 << 20, frame.type = SONAR_F32;
    cr_assert(sonar_frame_payload_bytes(&frame) == (uint64_t)UINT32_MAX << 22);
}

/* ---- samples --------------------------------------------------------------------------------- */

static const size_t size_of[] = {0, 2, 3, 4, 4};

static size_t offset_of(const sonar_frame *frame, size_t channel, size_t at) {
    size_t index = frame->layout == SONAR_FRAME_INTERLEAVED ? at * frame->channels + channel
                                                            : channel * frame->samples + at;
    return index * size_of[frame->type];
}

/* Stores a value by division, not by shifts. */
static void store(uint8_t *to, int type, int64_t value) {
    if (type == SONAR_F32) {
        float f = (float)value / 3;
        memcpy(to, &f, 4);
        return;
    }
    uint64_t rest = (uint64_t)(value < 0 ? value + ((int64_t)1 << 8 * size_of[type]) : value);
    for (size_t i = 0; i < size_of[type]; i++, rest /= 256)
        to[i] = (uint8_t)(rest % 256);
}

static int64_t any_value(int type) {
    int64_t half = type == SONAR_F32 ? 1 << 24 : (int64_t)1 << (8 * size_of[type] - 1);
    switch (below(8)) {
    case 0:
        return -half;
    case 1:
        return half - 1;
    case 2:
        return -1;
    default:
        return (int64_t)below(2 * (uint64_t)half) - half;
    }
}

static float expected_of(int type, int64_t value) {
    return type == SONAR_F32 ? (float)value / 3 : (float)value;
}

/* Some channels and samples of the block into rows with a margin that must stay as it was. */
static void check_rows(const sonar_frame *frame, const uint8_t *payload, const float *expected,
                       bool s16, bool stream) {
    uint32_t from = (uint32_t)below(frame->samples), channel = (uint32_t)below(frame->channels);
    uint32_t samples = (uint32_t)below(frame->samples - from + 1);
    uint32_t channels = 1 + (uint32_t)below(frame->channels - channel);
    size_t stride = samples + 3, size = s16 ? 2 : 4, offset = below(70);
    size_t count = offset + channels * stride;
    char *memory = aligned_alloc(64, (count * size + 63) / 64 * 64);
    memset(memory, 0x55, count * size);
    sonar_rows rows = {memory + offset * size, stride, s16, stream};
    sonar_frame_unpack_block(frame, payload, channel, channels, from, samples, &rows);
    for (size_t i = 0; i < count; i++) {
        size_t k = i < offset ? 0 : (i - offset) / stride, s = (i - offset) % stride;
        char want[4] = {0x55, 0x55, 0x55, 0x55};
        const float *value = &expected[(channel + k) * frame->samples + from + s];
        int16_t whole = i < offset || s >= samples || !s16 ? 0 : (int16_t)*value;
        if (i >= offset && s < samples)
            memcpy(want, s16 ? (const void *)&whole : (const void *)value, size);
        cr_assert(!memcmp(memory + i * size, want, size), "type %d layout %d: %zu of %zu",
                  frame->type, frame->layout, i, count);
    }
    free(memory);
}

static void check_unpacking(sonar_frame frame) {
    size_t count = (size_t)frame.channels * frame.samples;
    uint8_t *memory = malloc(count * 4 + 1), *payload = memory + 1; /* unaligned */
    float *expected = malloc(count * sizeof *expected);
    for (size_t k = 0; k < frame.channels; k++)
        for (size_t s = 0; s < frame.samples; s++) {
            int64_t value = any_value(frame.type);
            store(payload + offset_of(&frame, k, s), frame.type, value);
            expected[k * frame.samples + s] = expected_of(frame.type, value);
        }
    uint32_t from = (uint32_t)below(frame.samples);
    uint32_t samples = (uint32_t)below(frame.samples - from + 1);
    float *row = malloc(frame.samples * sizeof *row);
    for (uint32_t k = 0; k < frame.channels; k++) {
        const float *want = expected + (size_t)k * frame.samples + from;
        cr_assert(sonar_frame_unpack(&frame, payload, k, from, samples, row));
        cr_assert(!memcmp(row, want, samples * sizeof *row));
    }
    for (int stream = 0; stream < 2; stream++) {
        check_rows(&frame, payload, expected, false, stream);
        if (frame.type == SONAR_S16)
            check_rows(&frame, payload, expected, true, stream);
    }
    cr_assert(isfinite(sonar_frame_peak(&frame, payload)));
    free(memory), free(expected), free(row);
}

Test(frame, samples_of_every_type_and_layout_come_back) {
    static const uint32_t sizes[] = {1, 2, 3, 7, 8, 15, 17, 63, 65, 101, 130};
    for (uint8_t type = SONAR_S16; type <= SONAR_F32; type++)
        for (uint8_t layout = 0; layout < 2; layout++)
            for (size_t i = 0; i < 11; i++)
                for (size_t j = 0; j < 11; j++) {
                    sonar_frame frame = good_frame();
                    frame.type = type, frame.layout = layout;
                    frame.channels = sizes[i], frame.samples = sizes[j];
                    check_unpacking(frame);
                }
}

Test(frame, one_value_that_is_not_finite_is_found_wherever_it_is) {
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (uint8_t layout = 0; layout < 2; layout++)
        for (size_t trial = 0; trial < 400; trial++) {
            sonar_frame frame = good_frame();
            frame.type = SONAR_F32, frame.layout = layout;
            frame.channels = 1 + (uint32_t)below(9), frame.samples = 1 + (uint32_t)below(70);
            float payload[9 * 70] = {3.4028235e38f, -3.4028235e38f, 1e-45f}, row[70];
            uint32_t k = (uint32_t)below(frame.channels), s = (uint32_t)below(frame.samples);
            memcpy((uint8_t *)payload + offset_of(&frame, k, s), &bad[trial % 4], 4);
            cr_assert(!isfinite(sonar_frame_peak(&frame, payload)));
            for (uint32_t other = 0; other < frame.channels; other++)
                cr_assert(sonar_frame_unpack(&frame, payload, other, 0, frame.samples, row) ==
                          (other != k));
            cr_assert(sonar_frame_unpack(&frame, payload, k, 0, s, row));
        }
}

Test(frame, integers_with_the_bits_of_infinity_are_numbers) {
    sonar_frame frame = good_frame();
    frame.type = SONAR_S32, frame.channels = 1, frame.samples = 1;
    const uint8_t payload[4] = {0, 0, 0x80, 0x7f};
    float value;
    cr_assert(sonar_frame_peak(&frame, payload) == 0);
    cr_assert(sonar_frame_unpack(&frame, payload, 0, 0, 1, &value));
    cr_assert(value == 2139095040.0f);
}

static void put(const sonar_frame *frame, float *payload, size_t k, size_t s, float value) {
    memcpy((uint8_t *)payload + offset_of(frame, k, s), &value, sizeof value);
}

static float get(const sonar_frame *frame, const float *payload, size_t k, size_t s) {
    float value;
    memcpy(&value, (const uint8_t *)payload + offset_of(frame, k, s), sizeof value);
    return value;
}

/* By definition, in double precision. */
static bool oracle_has_spike(const sonar_frame *frame, const float *payload) {
    for (size_t k = 0; k < frame->channels; k++)
        for (size_t s = 1; s + 1 < frame->samples; s++) {
            double others = 0;
            for (size_t i = 0; i < frame->samples; i++)
                if (i != s)
                    others = fmax(others, fabs((double)get(frame, payload, k, i)));
            if (others > 0 && fabs((double)get(frame, payload, k, s)) > 1024 * others)
                return true;
        }
    return false;
}

Test(frame, a_spike_is_one_sample_alone_above_all_others_of_its_channel) {
    static float payload[150 * 90];
    size_t found = 0;
    for (size_t trial = 0; trial < 600; trial++) {
        sonar_frame frame = good_frame();
        frame.type = SONAR_F32, frame.layout = trial & 1;
        frame.channels = 1 + (uint32_t)below(150), frame.samples = 8 + (uint32_t)below(82);
        for (size_t k = 0; k < frame.channels; k++)
            for (size_t s = 0; s < frame.samples; s++)
                put(&frame, payload, k, s, (float)((double)below(2001) - 1000) / 100);
        size_t k = below(frame.channels), s = below(frame.samples), most = 1 + below(2);
        for (size_t n = 0; n < most; n++) /* one, or two next to each other */
            put(&frame, payload, k, (s + n) % frame.samples, trial & 2 ? -11000 : 9000);
        bool is = sonar_frame_has_spike(&frame, payload);
        cr_assert_eq(is, oracle_has_spike(&frame, payload));
        found += is;
        float peak = 0;
        for (size_t i = 0; i < (size_t)frame.channels * frame.samples; i++)
            peak = fmaxf(peak, fabsf(payload[i]));
        cr_assert_eq(sonar_frame_peak(&frame, payload), peak);
    }
    cr_assert(found > 50 && found < 300, "%zu", found);
}

Test(frame, sound_has_no_spike) {
    enum { SAMPLES = 64 };
    float payload[SAMPLES] = {0};
    sonar_frame frame = good_frame();
    frame.type = SONAR_F32, frame.channels = 1, frame.samples = SAMPLES;
    payload[20] = 1; /* in digital silence no sample counts as a spike */
    cr_assert(!sonar_frame_has_spike(&frame, payload));
    for (int onset = 0; onset < SAMPLES;
         onset++) { /* a bang 120 dB above the noise, cut anywhere */
        for (int s = 0; s < SAMPLES; s++)
            payload[s] =
                (s & 1 ? 1.0f : -1.0f) + (s < onset ? 0 : 1e6f * expf(-(float)(s - onset)));
        cr_assert(!sonar_frame_has_spike(&frame, payload), "onset %d", onset);
    }
    frame.samples = 7; /* too few to tell */
    for (int s = 0; s < 7; s++)
        payload[s] = s == 3 ? 1e9f : 1;
    cr_assert(!sonar_frame_has_spike(&frame, payload));
}
