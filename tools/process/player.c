/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "player.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/core.h"
#include "ingest/frame.h"

enum { FRAME_SAMPLES = 256 }; /* as sonar-replay's frames */

/* ---- setting up ------------------------------------------------------------------------------ */

static sonar_code check(const player *p, sonar_error *err) {
    const sim_recording_info *info = &p->tape.first;
    const char *path = p->spec.tape.path[0];
    const size_t window = p->spec.config->specs.window_length;
    if (info->ranks)
        return sonar_fail(err, SONAR_EINVAL, path,
                          "rank %zu of %zu recorded it; only whole arrays are processed: play all "
                          "ranks' recordings with sonar-replay",
                          info->rank, info->ranks);
    const sonar_code code =
        tape_check(&p->tape, p->spec.config, p->spec.config->channels, p->fs_hz, err);
    if (code)
        return code;
    if (p->first >= p->end)
        return sonar_fail(err, SONAR_EINVAL, path, "nothing to process between start and end");
    if (p->end - p->first < window)
        return sonar_fail(err, SONAR_EINVAL, path,
                          "%zu samples are shorter than a window (dft.length: %zu): not one "
                          "spectrum would come",
                          (size_t)(p->end - p->first), window);
    return SONAR_OK;
}

sonar_code player_open(player *p, const player_spec *spec, sonar_error *err) {
    *p = (player){.spec = *spec};
    sonar_code code = tape_open(&p->tape, &spec->tape, err);
    if (code)
        return code;
    const double fs_hz = p->tape.first.fs_hz;
    const uint64_t samples = tape_samples(&p->tape);
    p->fs_hz = spec->fs_hz > 0 ? spec->fs_hz : fs_hz;
    p->at = p->first = sim_samples_of(spec->start_s, fs_hz, samples);
    p->end = p->first + sim_samples_of(spec->duration_s, fs_hz, samples - p->first);
    p->parted = p->tape.blocks > 1;
    code = check(p, err);
    p->counts = sonar_alloc(p->tape.first.channels * FRAME_SAMPLES, sizeof *p->counts);
    p->absent = sonar_alloc(p->tape.first.channels, 1);
    if (!code && (!p->counts || !p->absent))
        code = sonar_fail(err, SONAR_ENOMEM, spec->tape.path[0], "out of memory for a frame");
    return code;
}

void player_close(player *p) {
    sim_sender_destroy(p->sender, 0);
    tape_close(&p->tape);
    free(p->counts);
    free(p->absent);
}

/* ---- playing --------------------------------------------------------------------------------- */

static sonar_code deliver(void *ctx, const void *header, size_t header_bytes, const void *payload,
                          size_t payload_bytes, sonar_error *err) {
    return sonar_feeder_frame(((player *)ctx)->feeder, header, header_bytes, payload, payload_bytes,
                              err);
}

static sonar_code make_sender(player *p, sonar_error *err) {
    const sonar_config *c = p->spec.config;
    const sim_recording_info *info = &p->tape.first;
    const sim_target whole = {.channels = info->channels};
    const sim_sender_spec spec = {.target = &whole,
                                  .targets = 1,
                                  .array_id = c->array_id,
                                  .channels = info->channels,
                                  .digitisers = p->parted ? p->tape.blocks : 1,
                                  .first_channel = p->parted ? p->tape.first_channel : NULL,
                                  .frame_samples = FRAME_SAMPLES,
                                  .format = info->format,
                                  .layout = SONAR_FRAME_INTERLEAVED,
                                  .flags = SONAR_FRAME_REPLAY,
                                  .fs_hz = p->fs_hz,
                                  .epoch = 1,
                                  .stop = p->spec.stop,
                                  .deliver = deliver,
                                  .deliver_ctx = p};
    return sim_sender_create(&spec, &p->sender, err);
}

/* Another stream is taken over at once from a frame of all channels; where some are missing at its
 * very beginning, only after a silence. */
static void fall_silent(const player *p) {
    const int ms = p->spec.config->restart_after_ms + 200;
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

static sonar_code play_piece(player *p, const tape_piece *piece, sonar_error *err) {
    if (piece->seek)
        sim_sender_seek(p->sender, piece->new_stream, piece->index, piece->utc_ns, piece->flags);
    if (piece->jump && p->parted && !piece->whole)
        fall_silent(p);
    if (piece->jump && p->parted && piece->whole)
        return sim_sender_send_whole(p->sender, p->counts, piece->samples, err);
    return sim_sender_send_some(p->sender, p->counts, piece->samples, p->absent, err);
}

sonar_code player_run(player *p, sonar_feeder *feeder, sonar_error *err) {
    p->feeder = feeder;
    sonar_code code = make_sender(p, err);
    while (p->at < p->end && !code && !*p->spec.stop) {
        tape_piece piece;
        code = tape_read(&p->tape, p->at, p->end, FRAME_SAMPLES, p->counts, p->absent, &piece, err);
        if (!code)
            code = play_piece(p, &piece, err);
        p->at += piece.samples;
        if (!code)
            code = sonar_feeder_advance(feeder, piece.samples, err);
    }
    return code ? code : sonar_feeder_finish(feeder, err);
}
