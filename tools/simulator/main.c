/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar-sim: computes the samples that the array of a daemon's configuration receives in a scene,
 * and sends them as frames or writes them to a file. Exit codes: 0 done, 1 something failed while
 * running, 2 usage, configuration or scene. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "ingest/frame.h"
#include "heading.h"
#include "program.h"
#include "recording.h"
#include "stream.h"
#include "synth.h"
#include "truth.h"

enum { WRITE_SAMPLES = 4096 };

static volatile sig_atomic_t stop;

typedef struct options {
    sim_stream_options stream; /* members that are not given follow the scene */
    const char *scene, *file, *truth, *truth_file, *nmea;
    double duration_s; /* NAN: from the scene */
    uint64_t start_index;
    int64_t utc_ns; /* 0: unknown, INT64_MIN: the wall clock */
    uint64_t seed;  /* UINT64_MAX: from the scene */
    int layout;     /* -1: from the scene */
} options;

typedef struct run {
    options options;
    sonar_config *config;
    sim_scene *scene;
    sim_synth *synth;
    sim_truth_log *truth;
    sim_heading *heading; /* NULL: not wanted */
    sim_stream stream;
    float *counts;    /* [channel][frame] */
    uint64_t samples; /* number of samples to compute; UINT64_MAX: without end */
    int64_t utc_ns;
    double *channel_position_m;
} run;

static const char usage[] =
    "Usage: sonar-sim --config FILE --scene FILE [options]\n"
    "  -c, --config FILE         the daemon's configuration: array, fs, endpoint\n"
    "  -s, --scene FILE          what the array hears (docs/simulator.md)\n"
    "where to:\n"
    "      --endpoint ADDRESS    instead of the configuration's ingest endpoints\n"
    "      --ranks N             to each of N ranks its channels; default: as in cluster.ranks\n"
    "      --rank R              only to this rank; other senders send the others' channels\n"
    "  -k, --key FILE            this tool's certificate, if the daemon uses CURVE\n"
    "      --file FILE           raw samples to a file, with FILE's .json beside it\n"
    "      --truth ADDRESS       publish the truth (loopback or ipc)\n"
    "      --nmea udp://HOST:PORT  ten times a second HDT and VHW of own ship, and XDR of the\n"
    "                          compasses of a towed array\n"
    "      --truth-file FILE     the same as JSON lines\n"
    "      --summary FILE        counters of what was sent, as JSON\n"
    "how:\n"
    "      --rate R              realtime (default), a factor, or max: as fast as received\n"
    "      --wait                wait for a slow receiver instead of losing frames\n"
    "      --shared-memory       samples go through memory that the daemon shares\n"
    "      --duration S          0: without end\n"
    "      --start-index N       index of the first sample\n"
    "      --epoch N             of the stream, from 1; default: the current time, 1 with --utc\n"
    "      --utc TIME            of the first sample: ISO 8601, 0 unknown; default: now\n"
    "instead of the scene's:\n"
    "      --seed N  --digitisers N  --frame-samples N\n"
    "      --format s16|s24|s32|f32  --layout interleaved|channel-major\n"
    "  -h, --help  -V, --version\n";

/* ---- options --------------------------------------------------------------------------------- */

static tool_answer take_utc(void *to, const char *value) {
    options *o = to;
    return sim_utc_parse_or_unknown(value, &o->utc_ns) ? TOOL_TAKEN : TOOL_REFUSED;
}

static tool_answer take_layout(void *to, const char *value) {
    int *layout = &((options *)to)->layout;
    *layout =
        strcmp(value, "channel-major") == 0 ? SONAR_FRAME_CHANNEL_MAJOR : SONAR_FRAME_INTERLEAVED;
    bool good = *layout == SONAR_FRAME_CHANNEL_MAJOR || strcmp(value, "interleaved") == 0;
    return good ? TOOL_TAKEN : TOOL_REFUSED;
}

static const tool_option option[] = {
    SIM_STREAM_OPTIONS,
    {"scene", 's', TOOL_TEXT, offsetof(options, scene), 0, 0, NULL, NULL},
    {"file", 0, TOOL_TEXT, offsetof(options, file), 0, 0, NULL, NULL},
    {"truth", 0, TOOL_TEXT, offsetof(options, truth), 0, 0, NULL, NULL},
    {"nmea", 0, TOOL_TEXT, offsetof(options, nmea), 0, 0, NULL, NULL},
    {"truth-file", 0, TOOL_TEXT, offsetof(options, truth_file), 0, 0, NULL, NULL},
    {"duration", 0, TOOL_NUMBER, offsetof(options, duration_s), 0, 1e9, NULL,
     "a number of seconds, 0 without end,"},
    {"start-index", 0, TOOL_WHOLE, offsetof(options, start_index), 0, 0x1p62, NULL,
     "a whole number from 0"},
    {"utc", 0, TOOL_OTHER, 0, 0, 0, take_utc, "0 or a time such as 2026-01-31T12:00:00Z"},
    {"seed", 0, TOOL_WHOLE, offsetof(options, seed), 0, 0x1p63, NULL, "a whole number from 0"},
    {"layout", 0, TOOL_OTHER, 0, 0, 0, take_layout, "interleaved or channel-major"},
    {0}};

static const tool self = {.name = "sonar-sim", .usage = usage, .option = option};

/* Returns -1 to continue, or the exit code. */
static int read_options(int argc, char **argv, options *o) {
    *o = (options){.stream = {.rate = 1, .rank = UINT64_MAX},
                   .duration_s = NAN,
                   .utc_ns = INT64_MIN,
                   .seed = UINT64_MAX,
                   .layout = -1};
    int code = tool_read_options(&self, argc, argv, o);
    if (code >= 0)
        return code;
    if (optind < argc)
        return tool_wrong_usage(&self, "'%s' is not an option", argv[optind]);
    if (!o->stream.config || !o->scene)
        return tool_wrong_usage(&self, "%s is missing", o->stream.config ? "--scene" : "--config");
    if (!o->stream.epoch && o->utc_ns != INT64_MIN)
        o->stream.epoch = 1; /* so that the frames are the same each time */
    return -1;
}

/* ---- setting up ------------------------------------------------------------------------------ */

static bool load_scene(run *r) {
    const options *o = &r->options;
    sim_limits limits = {.fs_hz = r->config->fs_hz,
                         .sound_speed_mps = r->config->sound_speed_mps,
                         .sensors = r->config->sensors,
                         .channels = r->config->channels};
    if (sim_scene_load(o->scene, &limits, &r->scene, stderr) != SONAR_OK)
        return false;
    sim_scene *s = r->scene;
    s->duration_s = isnan(o->duration_s) ? s->duration_s : o->duration_s;
    s->seed = o->seed == UINT64_MAX ? s->seed : o->seed;
    s->digitisers = o->stream.digitisers ? o->stream.digitisers : s->digitisers;
    s->frame_samples = o->stream.frame_samples ? o->stream.frame_samples : s->frame_samples;
    s->format = o->stream.format ? o->stream.format : s->format;
    s->layout = o->layout < 0 ? s->layout : o->layout;
    return true;
}

static sonar_code create_synth(run *r, sonar_error *err) {
    const sonar_config *c = r->config;
    sim_array array = {.sensors = c->sensors,
                       .channels = c->channels,
                       .fs_hz = c->fs_hz,
                       .sound_speed_mps = c->sound_speed_mps,
                       .position_m = c->position_m,
                       .channel = c->channel,
                       .gain_db = c->gain_db,
                       .phase_deg = c->phase_deg,
                       .delay_us = c->delay_us};
    size_t samples = sonar_max_size(r->scene->frame_samples, WRITE_SAMPLES);
    r->counts = sonar_alloc(c->channels * samples, sizeof(float));
    if (!r->counts)
        return sonar_fail(err, SONAR_ENOMEM, "sonar-sim", "out of memory for a frame");
    return sim_synth_create(r->scene, &array, &r->synth, err);
}

static void plan(run *r) {
    const options *o = &r->options;
    r->samples = r->scene->duration_s > 0
                     ? (uint64_t)llrint(r->scene->duration_s * r->config->fs_hz)
                     : UINT64_MAX;
    r->utc_ns = o->utc_ns == INT64_MIN ? sonar_utc_ns() : o->utc_ns;
    if (r->utc_ns)
        r->utc_ns += llrint(r->scene->clock_offset_ms * 1e6);
}

static sonar_code open_truth(run *r, sonar_error *err) {
    const options *o = &r->options;
    sim_truth_spec spec = {.zmq_context = r->stream.zmq,
                           .endpoint = o->truth,
                           .path = o->truth_file,
                           .scene = r->scene,
                           .fs_hz = r->config->fs_hz,
                           .first_index = o->start_index,
                           .utc_ns = r->utc_ns};
    return sim_truth_create(&spec, &r->truth, err);
}

/* ---- running --------------------------------------------------------------------------------- */

static sonar_code channel_positions(run *r, sonar_error *err) {
    r->channel_position_m = sonar_alloc(r->config->channels, 3 * sizeof(double));
    if (!r->channel_position_m)
        return sonar_fail(err, SONAR_ENOMEM, "sonar-sim", "out of memory");
    for (size_t k = 0; k < r->config->sensors; k++)
        memcpy(r->channel_position_m + 3 * r->config->channel[k], r->config->position_m + 3 * k,
               3 * sizeof(double));
    return SONAR_OK;
}

static sonar_code write_samples(run *r, sim_writer *writer, sim_counters *counters,
                                sonar_error *err) {
    sonar_code code = SONAR_OK;
    while (counters->samples < r->samples && !stop && code == SONAR_OK) {
        size_t count = sonar_min_size(r->samples - counters->samples, WRITE_SAMPLES);
        sim_synth_render(r->synth, r->options.start_index + counters->samples, count, r->counts);
        code = sim_writer_write(writer, r->counts, count, &counters->saturated, err);
        counters->samples += count;
        sim_truth_advance(r->truth, counters->samples);
    }
    return code;
}

static sonar_code run_to_file(run *r, sonar_error *err) {
    if (r->samples == UINT64_MAX)
        return sonar_fail(err, SONAR_EINVAL, "--file", "needs a duration");
    sonar_code code = channel_positions(r, err);
    if (code != SONAR_OK)
        return code;
    sim_recording_info info = {.channels = r->config->channels,
                               .fs_hz = r->config->fs_hz,
                               .format = r->scene->format,
                               .utc_ns = r->utc_ns,
                               .sound_speed_mps = r->config->sound_speed_mps,
                               .position_m = r->channel_position_m};
    sim_writer *writer;
    sim_counters counters = {0};
    code = sim_writer_create(r->options.file, &info, &writer, err);
    if (code != SONAR_OK)
        return code;
    code = write_samples(r, writer, &counters, err);
    sonar_code finished = sim_writer_finish(writer, code == SONAR_OK ? err : NULL);
    sim_stream_summarise(&r->stream, &counters);
    return code == SONAR_OK ? finished : code;
}

static sonar_code connect(run *r, sonar_error *err) {
    const sim_scene *scene = r->scene;
    sim_sender_spec about = {.array_id = r->config->array_id,
                             .channels = r->config->channels,
                             .digitisers = scene->digitisers,
                             .frame_samples = scene->frame_samples,
                             .format = scene->format,
                             .layout = scene->layout,
                             .fs_hz = r->config->fs_hz,
                             .first_index = r->options.start_index,
                             .utc_ns = r->utc_ns,
                             .seed = scene->seed,
                             .fault = scene->fault,
                             .faults = scene->faults,
                             .fault_rate = scene->fault_rate};
    return sim_stream_connect(&r->stream, &about, err);
}

static sonar_code send_samples(run *r, sonar_error *err) {
    for (uint64_t done = 0; done < r->samples;) {
        size_t count = sonar_min_size(r->samples - done, r->scene->frame_samples);
        sim_synth_render(r->synth, r->options.start_index + done, count, r->counts);
        if (!sim_stream_send(&r->stream, r->counts, count, err))
            break;
        done += count;
        sim_truth_advance(r->truth, done);
        sim_heading_advance(r->heading, r->options.start_index + done);
    }
    return err->code == SONAR_OK ? sim_sender_flush(r->stream.sender, err) : err->code;
}

static sonar_code run_live(run *r, sonar_error *err) {
    sonar_code code = connect(r, err);
    if (code != SONAR_OK)
        return code;
    code = sim_stream_begin(&r->stream, err);
    if (code != SONAR_OK)
        return code == SONAR_EUNAVAILABLE ? SONAR_OK : code; /* stopped by a signal */
    if (r->options.utc_ns == INT64_MIN) {
        plan(r); /* the stream begins now */
        sim_sender_set_utc(r->stream.sender, r->utc_ns);
        sim_truth_set_utc(r->truth, r->utc_ns);
    }
    return send_samples(r, err);
}

static int run_all(run *r) {
    sonar_error err = {0};
    if (!sim_load_config(r->options.stream.config, &r->config) || !load_scene(r))
        return SIM_STREAM_WRONG_USAGE;
    plan(r);
    r->stream = (sim_stream){
        .tool = self.name, .options = &r->options.stream, .config = r->config, .stop = &stop};
    sonar_code code = create_synth(r, &err);
    if (code == SONAR_OK)
        code = sim_stream_open(&r->stream, &err);
    if (code == SONAR_OK)
        code = open_truth(r, &err);
    if (code == SONAR_OK && r->options.nmea)
        code = sim_heading_open(r->options.nmea, r->scene, r->config, &r->heading, &err);
    if (code == SONAR_OK)
        code = r->options.file ? run_to_file(r, &err) : run_live(r, &err);
    return code == SONAR_OK ? EXIT_SUCCESS : sim_complain(self.name, &err);
}

int main(int argc, char **argv) {
    program_begin("sonar-sim");
    run r = {0};
    int code = read_options(argc, argv, &r.options);
    if (code >= 0)
        return code;
    program_stop_on(SIGINT, &stop);
    program_stop_on(SIGTERM, &stop);
    code = run_all(&r);
    sim_truth_destroy(r.truth);
    sim_heading_close(r.heading);
    sim_stream_close(&r.stream, stop ? 0 : 10000);
    sim_synth_destroy(r.synth);
    sim_scene_destroy(r.scene);
    sonar_config_destroy(r.config);
    free(r.counts);
    free(r.channel_position_m);
    return code;
}
