/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "live_samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/random.h"
#include "ingest/frame.h"
#include "random.h"
#include "sender.h"

enum {
    STARTS = 1024,      /* at least, over all phases: more than the snapshots of most blocks */
    PHASES_MOST = 64,   /* phases of the wave at the beginning of a frame */
    ROWS_MOST = 1 << 16 /* in addition to those of a frame */
};
static const double amplitude =
    300; /* standard deviation of the noise and amplitude of the wave, in counts */
static const double apart = 1.0 / 16; /* cycles; largest error of a row's phase */
static const double measured_s = 0.5; /* longer than the daemon's measurement for stuck sensors */

/* ---- the wave -------------------------------------------------------------------------------- */

/* A frequency in the middle half of the band with a period of few frames, so that few phases are
 * needed. */
void live_stream_choose_tone(live_stream *stream) {
    const sonar_config *c = stream->config;
    const double bin_hz = c->fs_hz / (double)c->specs.window_length;
    const double bins = (double)c->cbf_band.bins;
    const double middle_hz = ((double)c->cbf_band.first_bin + bins / 2) * bin_hz;
    size_t phases = 1;
    double step_hz = c->fs_hz / (double)stream->frame_samples;
    while (phases < PHASES_MOST &&
           fabs(fmax(1, rint(middle_hz / step_hz)) * step_hz - middle_hz) > bins * bin_hz / 4) {
        phases *= 2;
        step_hz /= 2;
    }
    const double cycles = fmax(1, rint(middle_hz / step_hz));
    stream->tone_hz = cycles * step_hz;
    stream->tone_frames = phases;
    stream->tone_cycles = (size_t)cycles;
    stream->tone_direction = c->cbf_scan.count / 3;
}

/* Cycles by which the wave leads at each channel of the block. */
static double *channel_cycles(const live_stream *s, uint32_t first_channel, uint32_t channels) {
    const sonar_config *c = s->config;
    const double *u = c->cbf_scan.u + 3 * s->tone_direction;
    double *cycles = sonar_alloc(channels, sizeof *cycles);
    for (size_t k = 0; cycles && k < c->sensors; k++) {
        const double *x = c->position_m + 3 * k;
        const uint32_t row = c->channel[k] - first_channel;
        if (row < channels)
            cycles[row] =
                s->tone_hz * (x[0] * u[0] + x[1] * u[1] + x[2] * u[2]) / c->sound_speed_mps;
    }
    return cycles;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* A frame of one channel, or a row: new noise, and the wave with a lead of `cycles`. */
static void make_row(const live_stream *s, uint64_t noise, double cycles, float *counts) {
    const size_t n = s->frame_samples;
    sim_random_normal(sim_random_key(1, SIM_STREAM_NOISE, noise), 0, n, counts);
    for (size_t i = 0; i < n; i++) {
        const double turns = s->tone_hz * (double)i / s->config->fs_hz + fmod(cycles, 1);
        counts[i] = (float)(amplitude * ((double)counts[i] + cos(2 * M_PI * turns)));
    }
}

static size_t window_frames(const live_stream *s) {
    return (s->config->specs.window_length + s->frame_samples - 1) / s->frame_samples;
}

/* Whether the lead grows by the same amount from channel to channel; *step: this amount in cycles.
 */
static bool is_line(const double *cycles, uint32_t channels, double *step) {
    *step = channels > 1 ? cycles[1] - cycles[0] : 0;
    for (uint32_t c = 2; c < channels; c++)
        if (!(fabs(cycles[c] - cycles[0] - c * *step) < apart / 100))
            return false;
    return true;
}

/* Fills the lists of rows with which a frame may begin. Returns the number of rows, or 0 if a phase
 * has too few. */
static size_t find_starts(live_samples *to, double step) {
    size_t filled = 0, count[PHASES_MOST] = {0};
    for (uint32_t row = 0; row < ROWS_MOST; row++) {
        const double at = (row * step - floor(row * step)) * (double)to->phases, near = rint(at);
        const size_t phase = (size_t)near % to->phases;
        if (fabs(at - near) > apart * (double)to->phases || count[phase] == to->starts)
            continue;
        to->start[phase * to->starts + count[phase]++] = row;
        filled += count[phase] == to->starts;
        if (filled == to->phases)
            return row + 1;
    }
    return 0;
}

static bool make_rows(const live_stream *s, uint32_t first_channel, const double *cycles,
                      double step, size_t rows, const volatile sig_atomic_t *stop,
                      live_samples *to) {
    float *counts = sonar_alloc(s->frame_samples, sizeof *counts);
    to->payload = sonar_alloc(rows, to->row_bytes);
    const bool good = counts && to->payload;
    for (size_t row = 0; good && row < rows && !*stop; row++) {
        make_row(s, first_channel + row, cycles[0] + (double)row * step, counts);
        sim_convert(counts, s->frame_samples, SONAR_S16, 1, to->payload + row * to->row_bytes);
    }
    free(counts);
    return good && !*stop;
}

/* ---- whole frames ---------------------------------------------------------------------------- */

/* A window and a half for the MVDR: if frames repeated with each window, all snapshots would be
 * nearly equal. */
static size_t whole_frames(const live_stream *s, size_t least) {
    const size_t samples = (size_t)ceil(fmax(1024, measured_s * s->config->fs_hz));
    size_t frames = (samples + s->frame_samples - 1) / s->frame_samples;
    if (s->config->specs.mvdr_enabled)
        frames = sonar_max_size(frames, 3 * window_frames(s) / 2);
    frames = sonar_max_size(frames, least);
    return (frames + s->tone_frames - 1) / s->tone_frames * s->tone_frames;
}

static bool make_frames(const live_stream *s, uint32_t first_channel, uint32_t channels,
                        const double *cycles, const volatile sig_atomic_t *stop, live_samples *to) {
    const bool major = s->layout == SONAR_FRAME_CHANNEL_MAJOR;
    const double frame_cycles = (double)s->tone_cycles / (double)s->tone_frames;
    float *counts = sonar_alloc(s->frame_samples, sizeof *counts);
    to->payload = sonar_alloc(to->frames, to->frame_bytes);
    const bool good = counts && to->payload;
    for (size_t i = 0; good && i < to->frames * channels && !*stop; i++) {
        const size_t frame = i / channels, row = i % channels;
        make_row(s, frame * s->config->channels + first_channel + row,
                 cycles[row] + (double)frame * frame_cycles, counts);
        sim_convert(counts, s->frame_samples, SONAR_S16, major ? 1 : channels,
                    to->payload + frame * to->frame_bytes +
                        row * (major ? to->row_bytes : sizeof(int16_t)));
    }
    free(counts);
    return good && !*stop;
}

/* ---- all ------------------------------------------------------------------------------------- */

bool live_samples_create(const live_stream *s, uint32_t first_channel, uint32_t channels,
                         size_t least, const volatile sig_atomic_t *stop, live_samples *to) {
    const size_t row_bytes = s->frame_samples * sizeof(int16_t);
    const size_t starts = sonar_max_size(STARTS, 2 * window_frames(s)) / s->tone_frames;
    *to = (live_samples){.row_bytes = row_bytes,
                         .frame_bytes = row_bytes * channels,
                         .phases = s->tone_frames,
                         .cycles = s->tone_cycles,
                         .starts = starts};
    double *cycles = channel_cycles(s, first_channel, channels), step;
    to->start = sonar_alloc(to->phases * starts, sizeof *to->start);
    bool good = cycles && to->start;
    size_t rows = 0;
    if (good && !least && s->layout == SONAR_FRAME_CHANNEL_MAJOR &&
        is_line(cycles, channels, &step))
        rows = find_starts(to, step);
    if (good && rows)
        good = make_rows(s, first_channel, cycles, step, rows + channels - 1, stop, to);
    else if (good) {
        to->frames = whole_frames(s, least);
        good = make_frames(s, first_channel, channels, cycles, stop, to);
    }
    free(cycles);
    return good;
}

/* All senders draw the same rows, so that the wave's phase error is the same everywhere and the
 * wave stays plane. A drawn row moves to the end of its list, and only the first half is drawn
 * from, so that a row does not repeat within a window. */
void *live_samples_frame(live_samples *s, uint64_t k) {
    if (s->frames)
        return s->payload + k % s->frames * s->frame_bytes;
    uint32_t *list = s->start + k % s->phases * s->cycles % s->phases * s->starts;
    const size_t i = sonar_random_bits(&s->random) % (s->starts / 2);
    const uint32_t row = list[i];
    memmove(list + i, list + i + 1, (s->starts - 1 - i) * sizeof *list);
    list[s->starts - 1] = row;
    return s->payload + row * s->row_bytes;
}

void live_samples_destroy(live_samples *s) {
    free(s->payload);
    free(s->start);
    *s = (live_samples){0};
}
