/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar-export: converts a recording to a file for other programs. Exit codes: 0 done, 1 something
 * failed while running, 2 usage or input. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "beams.h"
#include "config/config.h"
#include "core/core.h"
#include "messages.h"
#include "program.h"
#include "sink.h"
#include "stream.h"

enum { PIECE_BYTES = 4 << 20 };

typedef struct options {
    const char *recording, *to, *config;
    double start_s, duration_s;
} options;

typedef struct run {
    options options;
    sonar_config *config;     /* NULL: writes counts */
    sim_recording *recording; /* NULL: `beams` are exported */
    export_beams *beams;
    sim_recording_info info; /* about the output */
    export_sink *sink;
    size_t piece;         /* samples written at a time */
    float *counts, *rows; /* [channel][piece], [piece][channel] */
    float *pascal;        /* [channel]: pascals per count */
    uint64_t first, end;
} run;

static const char usage[] =
    "Usage: sonar-export RECORDING OUTPUT [options]\n"
    "RECORDING: as sonar-replay takes it: raw samples with a .json beside them, SigMF, WAV, "
    "RF64, HDF5...; or messages of beam.audio that sonard recorded (.sonar-spectra): its beams\n"
    "OUTPUT: NAME.wav or NAME.rf64, RF64 beyond 4 GB; NAME.h5 or NAME.hdf5, HDF5 as Acoular reads "
    "it. Beams are pascals, or counts without calibration; as sound they are without offset and\n"
    "as loud as possible\n"
    "  -c, --config FILE  write pascals, by the calibration of this configuration; default: "
    "counts\n"
    "      --start S      skip the first S seconds\n"
    "      --duration S   write at most S seconds\n"
    "  -h, --help  -V, --version\n";

static const tool_option option[] = {
    {"config", 'c', TOOL_TEXT, offsetof(options, config), 0, 0, NULL, NULL},
    {"start", 0, TOOL_NUMBER, offsetof(options, start_s), 0, 1e9, NULL,
     "a number of seconds, 0 to 1e9,"},
    {"duration", 0, TOOL_NUMBER, offsetof(options, duration_s), 0, 1e9, NULL,
     "a number of seconds, 0 to 1e9,"},
    {0}};

static const tool self = {.name = "sonar-export", .usage = usage, .option = option};

/* Returns -1 to continue, or the exit code. */
static int read_options(int argc, char **argv, options *o) {
    *o = (options){.duration_s = HUGE_VAL};
    const int code = tool_read_options(&self, argc, argv, o);
    if (code >= 0)
        return code;
    if (optind + 2 != argc)
        return tool_wrong_usage(&self, "expected a recording and an output");
    o->recording = argv[optind];
    o->to = argv[optind + 1];
    return -1;
}

/* ---- setting up ------------------------------------------------------------------------------ */

static sonar_code open_sink(run *r, sonar_error *err) {
    static const struct {
        const char *ending;
        sonar_code (*open)(const char *, const sim_recording_info *, export_sink **, sonar_error *);
    } kind[] = {{".wav", export_sound},
                {".rf64", export_sound},
                {".h5", export_hdf5},
                {".hdf5", export_hdf5}};
    const char *dot = strrchr(r->options.to, '.');
    for (size_t i = 0; dot && i < sizeof kind / sizeof *kind; i++)
        if (!strcasecmp(dot, kind[i].ending))
            return kind[i].open(r->options.to, &r->info, &r->sink, err);
    return sonar_fail(err, SONAR_EINVAL, r->options.to,
                      "unknown file name extension; accepted: .wav, .rf64, .h5 and .hdf5");
}

static sonar_code read_calibration(run *r, sonar_error *err) {
    const sonar_config *c = r->config;
    if (c->channels != r->info.channels)
        return sonar_fail(err, SONAR_EINVAL, r->options.recording,
                          "%zu channels, but the configuration has %zu", r->info.channels,
                          c->channels);
    if (!c->calibrated)
        return sonar_fail(err, SONAR_EINVAL, r->options.config,
                          "it has no calibration (array.gain_db or array.hydrophone), so there are "
                          "no pascals");
    r->pascal = sonar_alloc(c->channels, sizeof *r->pascal);
    if (!r->pascal)
        return sonar_fail(err, SONAR_ENOMEM, r->options.recording, "out of memory");
    for (size_t s = 0; s < c->sensors; s++) /* channels without a sensor are zero */
        r->pascal[c->channel[s]] = (float)(1e-6 * pow(10, -c->gain_db[s] / 20));
    r->info.format = SONAR_F32;
    return SONAR_OK;
}

static sonar_code open_beams(run *r, sonar_error *err) {
    const options *o = &r->options;
    if (o->config)
        return sonar_fail(err, SONAR_EINVAL, o->recording, "beams are calibrated already");
    const sonar_code code = export_beams_open(o->recording, &r->beams, &r->info, err);
    if (code)
        return code;
    const double all = (double)r->info.frames;
    r->first = (uint64_t)fmin(all, rint(o->start_s * r->info.fs_hz));
    r->end = (uint64_t)fmin(all, (double)r->first + rint(o->duration_s * r->info.fs_hz));
    r->info.frames = r->end - r->first;
    return r->info.frames
               ? SONAR_OK
               : sonar_fail(err, SONAR_EINVAL, o->recording, "nothing lies between start and end");
}

static sonar_code open_recording(run *r, sonar_error *err) {
    const options *o = &r->options;
    sonar_code code = sim_recording_open(o->recording, &r->recording, err);
    if (code)
        return code;
    r->info = *sim_recording_about(r->recording);
    sim_recording_tell_loss(self.name, o->recording, &r->info);
    sim_recording_part(r->recording, o->start_s, o->duration_s, &r->first, &r->end);
    r->info.frames = r->end - r->first;
    if (!r->info.frames)
        return sonar_fail(err, SONAR_EINVAL, o->recording, "nothing lies between start and end");
    const sim_capture *gap = sim_recording_gap(&r->info, r->first, r->end);
    if (gap)
        return sonar_fail(
            err, SONAR_EINVAL, o->recording,
            "at %.6f s there is a gap, which such a "
            "file cannot represent; use --start and --duration to select a part without gaps",
            (double)gap->start / r->info.fs_hz);
    r->piece = sonar_max_size(1, PIECE_BYTES / sizeof(float) / r->info.channels);
    r->counts = sonar_alloc(r->info.channels * r->piece, sizeof *r->counts);
    r->rows = sonar_alloc(r->info.channels * r->piece, sizeof *r->rows);
    if (!r->counts || !r->rows)
        return sonar_fail(err, SONAR_ENOMEM, o->recording, "out of memory");
    return SONAR_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void turn_round(const run *r, size_t samples) {
    const size_t channels = r->info.channels;
    for (size_t i = 0; i < samples; i++)
        for (size_t ch = 0; ch < channels; ch++)
            r->rows[i * channels + ch] =
                r->counts[ch * samples + i] * (r->pascal ? r->pascal[ch] : 1);
}

static sonar_code copy(run *r, sonar_error *err) {
    for (uint64_t at = r->first; at < r->end;) {
        const size_t samples = sonar_min_size(r->end - at, r->piece);
        sonar_code code = sim_recording_read(r->recording, at, samples, r->counts, err);
        if (code)
            return code;
        turn_round(r, samples);
        code = r->sink->append(r->sink, r->rows, samples, err);
        if (code)
            return code;
        at += samples;
    }
    return SONAR_OK;
}

static bool is_sound(const run *r) {
    const char *dot = strrchr(r->options.to, '.');
    return !strcasecmp(dot, ".wav") || !strcasecmp(dot, ".rf64");
}

static sonar_code write_all(run *r, sonar_error *err) {
    sonar_error second = {0};
    const sonar_code code =
        r->beams ? export_beams_copy(r->beams, r->first, r->end, is_sound(r), r->sink, err)
                 : copy(r, err);
    const sonar_code end = r->sink->finish(r->sink, &second);
    if (!code && end)
        *err = second;
    if (code || end)
        unlink(r->options.to); /* a partial file would look like a complete one */
    return code ? code : end;
}

static int run_all(run *r) {
    sonar_error err = {0};
    if (r->options.config && !sim_load_config(r->options.config, &r->config))
        return SIM_STREAM_WRONG_USAGE;
    sonar_code code =
        messages_is(r->options.recording) ? open_beams(r, &err) : open_recording(r, &err);
    if (!code && r->config)
        code = read_calibration(r, &err);
    if (!code)
        code = open_sink(r, &err);
    if (!code)
        code = write_all(r, &err);
    if (code)
        return sim_complain(self.name, &err);
    if (r->beams) {
        printf("%s: %" PRIu64 " samples of %zu beams at %g Hz\n", r->options.to, r->info.frames,
               r->info.channels, r->info.fs_hz);
        export_beams_tell(r->beams, stdout);
        return EXIT_SUCCESS;
    }
    printf("%s: %" PRIu64 " samples of %zu channels at %g Hz, in %s\n", r->options.to,
           r->info.frames, r->info.channels, r->info.fs_hz, r->pascal ? "pascals" : "counts");
    return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
    program_begin("sonar-export");
    run r = {0};
    int code = read_options(argc, argv, &r.options);
    if (code >= 0)
        return code;
    code = run_all(&r);
    sim_recording_close(r.recording);
    export_beams_close(r.beams);
    sonar_config_destroy(r.config);
    free(r.counts);
    free(r.rows);
    free(r.pascal);
    return code;
}
