/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "example.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/config.h"
#include "core/core.h"
#include "sink.h"
#include "stream.h"
#include "synth.h"

enum { PIECE = 4096 };

static const char config_text[] =
    "# The array that the recording beside this file was made with. For your own, change what the\n"
    "# array is like and check it: sonard --check-config array.yaml\n"
    "schema: 1\n"
    "array:\n"
    "  id: 1\n"
    "  name: example-line\n"
    "  geometry:\n"
    "    line: {sensors: 32, spacing_m: 0.75}\n"
    "    # or by position:  positions: {csv: array.csv}    one row for each sensor: x, y, z in m\n"
    "  gain_db: 0            # dB re 1 count/uPa; without it, levels are in counts^2\n"
    "  heading_deg: 30\n"
    "sound_speed_mps: 1500\n"
    "fs_hz: 4000             # the rate of the recording\n"
    "dft: {length: 4096}\n"
    "cbf: {band_hz: [400, 950]}\n"
    "lofar: {band_hz: [100, 950]}\n"
    "mvdr: {band_hz: [400, 950], length: 512, hop: 256, snapshots: 96}\n";

static const char scene_text[] =
    "# What the recording beside this file has in it: sonar-sim --config array.yaml --scene "
    "ships.yaml\n"
    "schema: 1\n"
    "seed: 3\n"
    "duration_s: 90\n"
    "format: s24\n"
    "ambient: {psd_db: 50}\n"
    "sources:\n"
    "  - name: freighter\n"
    "    far: {az_deg: 55, rate_deg_s: 0.15}\n"
    "    broadband: {spectrum: pink, band_hz: [50, 1800], psd_db: 60}\n"
    "    tones: [{hz: 150, level_db: 88}, {hz: 420, level_db: 80}]\n"
    "  - name: tanker\n"
    "    far: {az_deg: 76}\n"
    "    broadband: {spectrum: pink, band_hz: [50, 1800], psd_db: 54}\n"
    "  - name: boat\n"
    "    near: {az_deg: 135, range_m: 400, course_deg: 60, speed_mps: 5}\n"
    "    broadband: {spectrum: white, band_hz: [100, 1800], psd_db: 56}\n";

static sonar_code write_text(const char *path, const char *text, sonar_error *err) {
    FILE *file = fopen(path, "wxe");
    if (!file)
        return sonar_fail(err, SONAR_EINVAL, path, "cannot create it: %s", strerror(errno));
    const bool written = fputs(text, file) >= 0;
    const bool closed = fclose(file) == 0;
    return written && closed
               ? SONAR_OK
               : sonar_fail(err, SONAR_ESYS, path, "cannot write: %s", strerror(errno));
}

/* What sonar-sim makes of both files. */
typedef struct studio {
    sonar_config *config;
    sim_scene *scene;
    sim_synth *synth;
    float *counts, *rows; /* [channel][PIECE], [PIECE][channel] */
} studio;

static sonar_code open_studio(studio *s, const example *e, sonar_error *err) {
    if (!sim_load_config(e->config, &s->config))
        return sonar_fail(err, SONAR_EINVAL, e->config, "cannot be read");
    const sonar_config *c = s->config;
    const sim_limits limits = {c->fs_hz, c->sound_speed_mps, c->sensors, c->channels};
    const sim_array array = {.sensors = c->sensors,
                             .channels = c->channels,
                             .fs_hz = c->fs_hz,
                             .sound_speed_mps = c->sound_speed_mps,
                             .position_m = c->position_m,
                             .channel = c->channel,
                             .gain_db = c->gain_db};
    if (sim_scene_load(e->scene, &limits, &s->scene, stderr))
        return sonar_fail(err, SONAR_EINVAL, e->scene, "cannot be read");
    s->counts = sonar_alloc(c->channels * PIECE, sizeof *s->counts);
    s->rows = sonar_alloc(c->channels * PIECE, sizeof *s->rows);
    return s->counts && s->rows ? sim_synth_create(s->scene, &array, &s->synth, err)
                                : sonar_fail(err, SONAR_ENOMEM, e->recording, "out of memory");
}

static void close_studio(studio *s) {
    sim_synth_destroy(s->synth);
    sim_scene_destroy(s->scene);
    sonar_config_destroy(s->config);
    free(s->counts);
    free(s->rows);
}

static sonar_code record(const studio *s, uint64_t samples, export_sink *sink,
                         const volatile sig_atomic_t *stop, sonar_error *err) {
    const size_t channels = s->config->channels;
    sonar_code code = SONAR_OK;
    for (uint64_t at = 0; at < samples && !code && !*stop; at += PIECE) {
        const size_t count = sonar_min_size(samples - at, PIECE);
        sim_synth_render(s->synth, at, count, s->counts);
        for (size_t i = 0; i < count; i++)
            for (size_t ch = 0; ch < channels; ch++)
                s->rows[i * channels + ch] = s->counts[ch * count + i];
        code = sink->append(sink, s->rows, count, err);
    }
    return code;
}

static sonar_code make_recording(const studio *s, const char *path,
                                 const volatile sig_atomic_t *stop, sonar_error *err) {
    const sonar_config *c = s->config;
    const sim_recording_info info = {.channels = c->channels,
                                     .frames =
                                         sim_samples_of(s->scene->duration_s, c->fs_hz, UINT64_MAX),
                                     .fs_hz = c->fs_hz,
                                     .format = s->scene->format};
    export_sink *sink;
    sonar_error second;
    sonar_code code = export_sound(path, &info, &sink, err);
    if (code)
        return code;
    code = record(s, info.frames, sink, stop, err);
    const sonar_code finished = sink->finish(sink, code ? &second : err);
    return code ? code : finished;
}

sonar_code example_make(const char *folder, example *e, const volatile sig_atomic_t *stop,
                        sonar_error *err) {
    studio studio = {0};
    if (mkdir(folder, 0777) && errno != EEXIST)
        return sonar_fail(err, SONAR_EINVAL, folder, "cannot make the folder: %s", strerror(errno));
    snprintf(e->config, PATH_MAX, "%s/array.yaml", folder);
    snprintf(e->scene, PATH_MAX, "%s/ships.yaml", folder);
    snprintf(e->recording, PATH_MAX, "%s/ships_20260131T120000Z.wav", folder);
    snprintf(e->results, PATH_MAX, "%s/results", folder);
    e->file[0] = e->recording;
    sonar_code code = write_text(e->config, config_text, err);
    if (!code)
        code = write_text(e->scene, scene_text, err);
    if (!code)
        code = open_studio(&studio, e, err);
    if (!code)
        code = make_recording(&studio, e->recording, stop, err);
    close_studio(&studio);
    return code;
}
