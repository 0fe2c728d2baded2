/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libFuzzer target for the assembler: the input is headers and payloads. */
#include "ingest/assembler.h"
#include "ingest/frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Splits the input into frames: a header, and the payload that it announces, or the rest of the
 * input. */
static void feed(sonar_assembler *assembler, const uint8_t *data, size_t bytes) {
    for (int64_t now_ns = 0; bytes >= SONAR_FRAME_HEADER_BYTES; now_ns += 200000000) {
        sonar_frame frame;
        uint64_t wanted = 0;
        size_t left = bytes - SONAR_FRAME_HEADER_BYTES;
        if (sonar_frame_decode(data, SONAR_FRAME_HEADER_BYTES, &frame, NULL) == SONAR_OK)
            wanted = sonar_frame_payload_bytes(&frame);
        size_t payload = wanted < left ? (size_t)wanted : left;
        bool placed = sonar_assembler_frame(assembler, data, SONAR_FRAME_HEADER_BYTES,
                                            data + SONAR_FRAME_HEADER_BYTES, payload, now_ns);
        while (!placed) {
            sonar_window window;
            if (!sonar_assembler_take(assembler, &window))
                abort(); /* nothing is held: a window must wait */
            sonar_assembler_release(assembler, &window);
            placed = sonar_assembler_resume(assembler);
        }
        data += SONAR_FRAME_HEADER_BYTES + payload;
        bytes = left - payload;
    }
}

/* The last byte selects the assembler's options, so that inputs begin with frames. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    const uint8_t choice = bytes ? data[bytes - 1] : 0;
    const sonar_ingest_spec spec = {.array_id = 1,
                                    .channels = 3,
                                    .fs_hz = 1000,
                                    .window_length = 70,
                                    .hop = 33,
                                    .queue_windows = 2,
                                    .threads = 1 + (choice & 1u),
                                    .overload = choice & 2u ? SONAR_BLOCK : SONAR_DROP_OLDEST,
                                    .chunk_samples = choice & 4u ? 7 : 0,
                                    .sample_type = choice & 8u ? SONAR_S16 : SONAR_F32,
                                    .max_missing_share = choice & 16u ? 0 : 1,
                                    .max_skew_samples = 20,
                                    .restart_after_ms = 1000,
                                    .silent_after_ms = 1000};
    sonar_assembler *assembler;
    sonar_ingest_counters c;
    uint64_t dropped = 0;
    if (sonar_assembler_create(&spec, &assembler, NULL))
        return 0;
    feed(assembler, data, bytes);
    sonar_assembler_read_counters(assembler, &c);
    for (int i = 0; i < SONAR_FRAME_CAUSES; i++)
        dropped += c.frames_dropped[i];
    if (c.frames_received != c.frames_accepted + dropped)
        abort();
    uint64_t windows = c.windows_taken + c.windows_dropped[SONAR_WINDOW_OVERLOAD];
    if (c.windows_offered != windows + sonar_assembler_waiting(assembler))
        abort();
    sonar_assembler_destroy(assembler);
    return 0;
}
