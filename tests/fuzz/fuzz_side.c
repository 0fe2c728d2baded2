/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libFuzzer target for the JSON file beside a recording (sonar-replay): the input is that file; the
 * samples are 48 bytes. An accepted recording is read to its end. */
#include <stdint.h>
#include <stdlib.h>

#include "input_file.h"
#include "recording.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BYTES = 48 };

static void read_all(sim_recording *recording) {
    const sim_recording_info *info = sim_recording_about(recording);
    sonar_error err;
    if (!info->channels || !info->frames || info->channels * info->frames > BYTES ||
        !(info->fs_hz > 0))
        abort(); /* accepted, and not what lies there */
    float samples[BYTES];
    if (sim_recording_read(recording, 0, (size_t)info->frames, samples, &err) != SONAR_OK)
        abort();
    if (sim_recording_read(recording, info->frames, 1, samples, &err) == SONAR_OK)
        abort(); /* beyond the end */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t samples[BYTES] = {1, 2, 3, [20] = 0x80, 0x7f, [40] = 0xff};
    char side[INPUT_PATH_BYTES], raw[INPUT_PATH_BYTES];
    sim_recording *recording = NULL;
    sonar_error err = {0};
    input_file_write("r.json", data, size, side);
    input_file_write("r.raw", samples, sizeof samples, raw);
    if (sim_recording_open(raw, &recording, &err) == SONAR_OK) {
        read_all(recording);
        sim_recording_close(recording);
    } else if (!err.text[0]) {
        abort(); /* refused without a sentence */
    }
    return 0;
}
