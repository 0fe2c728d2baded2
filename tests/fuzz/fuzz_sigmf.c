/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libFuzzer target for recordings read back (sonar-replay): the input is the .sigmf-meta file; the
 * samples are 96 bytes. An accepted recording is played to its end, as one of two
 * segments or of two files side by side. */
#include <stdint.h>
#include <stdlib.h>

#include "input_file.h"
#include "tape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BYTES = 96, MOST = 7 /* samples of a piece */ };

static void check(const sim_recording_info *info) {
    if (!info->channels || info->channels > BYTES || !info->frames ||
        info->channels * info->frames > BYTES || !(info->fs_hz > 0) || !info->captures ||
        info->capture[0].start != 0)
        abort(); /* accepted, and not what lies there */
    for (size_t i = 1; i < info->captures; i++)
        if (info->capture[i].start < info->capture[i - 1].start)
            abort();
    for (size_t i = 0; i < info->lacks; i++)
        if (info->lack[i].begin > info->lack[i].end || /* beyond the file after a crash */
            info->lack[i].first_channel + info->lack[i].channels > info->channels)
            abort();
}

/* Each piece has samples, or the end would never come. */
static void play(tape *t) {
    static float samples[MOST * 2 * BYTES];
    static uint8_t absent[2 * BYTES];
    const uint64_t end = tape_samples(t);
    sonar_error err = {0};
    tape_piece piece;
    for (uint64_t at = 0; at < end; at += piece.samples) {
        if (tape_read(t, at, end, MOST, samples, absent, &piece, &err))
            break;
        if (!piece.samples || piece.samples > MOST || piece.samples > end - at)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t samples[BYTES] = {1, 2, 3, [20] = 0x80, 0x7f, [40] = 0xff, [90] = 7};
    char meta[INPUT_PATH_BYTES], raw[INPUT_PATH_BYTES];
    char *const path[] = {meta, meta};
    sim_recording *recording = NULL;
    sonar_error err = {0};
    tape t;
    input_file_write("r.sigmf-meta", data, size, meta);
    input_file_write("r.sigmf-data", samples, sizeof samples, raw);
    if (sim_recording_open(meta, &recording, &err) != SONAR_OK) {
        if (!err.text[0])
            abort(); /* refused without a sentence */
        return 0;
    }
    check(sim_recording_about(recording));
    sim_recording_close(recording);
    const tape_spec spec = {.tool = "fuzz", .path = path, .files = 2, .beside = size % 2};
    if (tape_open(&t, &spec, &err) == SONAR_OK)
        play(&t);
    tape_close(&t);
    return 0;
}
