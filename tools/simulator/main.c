/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar-sim: a scene seen by the array of a daemon's configuration, sent as frames or written to a
 * file. Exit codes: 0 done, 1 something failed while running, 2 usage, configuration or scene. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "clock.h"
#include "config/config.h"
#include "core/core.h"
#include "ingest/frame.h"
#include "options.h"
#include "recording.h"
#include "sender.h"
#include "synth.h"
#include "truth.h"

enum { EXIT_RUNTIME = 1, EXIT_USAGE = 2, WRITE_SAMPLES = 4096, HIGH_WATER_MARK = 16 };

static volatile sig_atomic_t stop;

typedef struct options {
    const char *config, *scene, *endpoint, *file, *truth, *truth_file, *summary;
    double rate, duration_s; /* NAN: as the scene says */
    bool wait;
    uint64_t start_index, epoch;
    int64_t utc_ns;                           /* 0: unknown, INT64_MIN: the wall clock */
    uint64_t seed, digitisers, frame_samples; /* UINT64_MAX: as the scene says */
    int format, layout;                       /* -1: as the scene says */
} options;

typedef struct run {
    options options;
    sonar_config *config;
    sim_scene *scene;
    sim_synth *synth;
    sim_truth_log *truth;
    float *counts;    /* [channel][frame] */
    uint64_t samples; /* to make; UINT64_MAX: without end */
    int64_t utc_ns;
    void *zmq;
    FILE *summary;
    double *channel_position_m;
} run;

static const char usage[] =
    "Usage: sonar-sim --config FILE --scene FILE [options]\n"
    "  -c, --config FILE         the daemon's configuration: array, fs, endpoint\n"
    "  -s, --scene FILE          what the array hears (docs/simulator.md)\n"
    "where to:\n"
    "      --endpoint ADDRESS    instead of the configuration's ingest endpoints\n"
    "      --file FILE           raw samples to a file, with FILE's .json beside it\n"
    "      --truth ADDRESS       publish the truth (loopback or ipc)\n"
    "      --truth-file FILE     the same as JSON lines\n"
    "      --summary FILE        counters of what was sent, as JSON\n"
    "how:\n"
    "      --rate R              realtime (default), a factor, or max: as fast as received\n"
    "      --wait                wait for a slow receiver instead of losing frames\n"
    "      --duration S          0: without end\n"
    "      --start-index N       index of the first sample\n"
    "      --epoch N             of the stream, not 0\n"
    "      --utc TIME            of the first sample: ISO 8601, 0 unknown; default: now\n"
    "instead of the scene's:\n"
    "      --seed N  --digitisers N  --frame-samples N\n"
    "      --format s16|s24|s32|f32  --layout interleaved|channel-major\n"
    "  -h, --help  -V, --version\n";

/* ---- options --------------------------------------------------------------------------------- */

static bool parse_word(const char *text, const char *const *words, int first, int *to) {
    for (int i = 0; words[i]; i++)
        if (strcmp(text, words[i]) == 0) {
            *to = first + i;
            return true;
        }
    return false;
}

static tool_answer take_endpoint(void *to, const char *value) {
    ((options *)to)->endpoint = value;
    bool good = strncmp(value, "tcp://", 6) == 0 || strncmp(value, "ipc://", 6) == 0;
    return good ? TOOL_TAKEN : TOOL_REFUSED;
}

static tool_answer take_rate(void *to, const char *value) {
    return sim_rate_parse(value, &((options *)to)->rate) ? TOOL_TAKEN : TOOL_REFUSED;
}

static tool_answer take_utc(void *to, const char *value) {
    options *o = to;
    o->utc_ns = 0;
    return strcmp(value, "0") == 0 || sim_utc_parse(value, &o->utc_ns) ? TOOL_TAKEN : TOOL_REFUSED;
}

static tool_answer take_format(void *to, const char *value) {
    static const char *const formats[] = {"s16", "s24", "s32", "f32", NULL};
    bool good = parse_word(value, formats, SONAR_S16, &((options *)to)->format);
    return good ? TOOL_TAKEN : TOOL_REFUSED;
}

static tool_answer take_layout(void *to, const char *value) {
    static const char *const layouts[] = {"interleaved", "channel-major", NULL};
    bool good = parse_word(value, layouts, SONAR_FRAME_INTERLEAVED, &((options *)to)->layout);
    return good ? TOOL_TAKEN : TOOL_REFUSED;
}

static const tool_option option[] = {
    {"config", 'c', TOOL_TEXT, offsetof(options, config), 0, 0, NULL, NULL},
    {"scene", 's', TOOL_TEXT, offsetof(options, scene), 0, 0, NULL, NULL},
    {"endpoint", 0, TOOL_OTHER, 0, 0, 0, take_endpoint, "tcp://HOST:PORT or ipc://PATH"},
    {"file", 0, TOOL_TEXT, offsetof(options, file), 0, 0, NULL, NULL},
    {"truth", 0, TOOL_TEXT, offsetof(options, truth), 0, 0, NULL, NULL},
    {"truth-file", 0, TOOL_TEXT, offsetof(options, truth_file), 0, 0, NULL, NULL},
    {"summary", 0, TOOL_TEXT, offsetof(options, summary), 0, 0, NULL, NULL},
    {"rate", 0, TOOL_OTHER, 0, 0, 0, take_rate, "realtime, max or a factor such as 0.5"},
    {"wait", 0, TOOL_FLAG, offsetof(options, wait), 0, 0, NULL, NULL},
    {"duration", 0, TOOL_NUMBER, offsetof(options, duration_s), 0, 1e9, NULL,
     "a number of seconds, 0 without end,"},
    {"start-index", 0, TOOL_WHOLE, offsetof(options, start_index), 0, 0x1p62, NULL,
     "a whole number from 0"},
    {"epoch", 0, TOOL_WHOLE, offsetof(options, epoch), 1, UINT32_MAX, NULL,
     "a whole number from 1 to 4294967295"},
    {"utc", 0, TOOL_OTHER, 0, 0, 0, take_utc, "0 or a time such as 2026-01-31T12:00:00Z"},
    {"seed", 0, TOOL_WHOLE, offsetof(options, seed), 0, 0x1p63, NULL, "a whole number from 0"},
    {"digitisers", 0, TOOL_WHOLE, offsetof(options, digitisers), 1, 65535, NULL,
     "a whole number from 1 to 65535"},
    {"frame-samples", 0, TOOL_WHOLE, offsetof(options, frame_samples), 1, SONAR_FRAME_MAX_SAMPLES,
     NULL, "a whole number from 1 to 1048576"},
    {"format", 0, TOOL_OTHER, 0, 0, 0, take_format, "s16, s24, s32 or f32"},
    {"layout", 0, TOOL_OTHER, 0, 0, 0, take_layout, "interleaved or channel-major"},
    {0}};

static const tool self = {.name = "sonar-sim", .usage = usage, .option = option};

/* Returns -1 to go on, or the exit code. */
static int read_options(int argc, char **argv, options *o) {
    *o = (options){.rate = 1,
                   .duration_s = NAN,
                   .epoch = 1,
                   .utc_ns = INT64_MIN,
                   .seed = UINT64_MAX,
                   .digitisers = UINT64_MAX,
                   .frame_samples = UINT64_MAX,
                   .format = -1,
                   .layout = -1};
    int code = tool_read_options(&self, argc, argv, o);
    if (code >= 0)
        return code;
    if (optind < argc)
        return tool_wrong_usage(&self, "'%s' is not an option", argv[optind]);
    if (!o->config || !o->scene)
        return tool_wrong_usage(&self, "%s is missing", o->config ? "--scene" : "--config");
    return -1;
}

/* ---- setting up ------------------------------------------------------------------------------ */

static int complain(const sonar_error *err) {
    fprintf(stderr, "sonar-sim: %s: %s\n", err->where, err->text);
    return err->code == SONAR_EINVAL ? EXIT_USAGE : EXIT_RUNTIME;
}

static bool load_config(run *r) {
    sonar_report *report = sonar_report_create();
    sonar_code code =
        report ? sonar_config_load(r->options.config, &r->config, report) : SONAR_ENOMEM;
    if (code != SONAR_OK && report)
        sonar_report_write(report, stderr);
    sonar_report_destroy(report);
    return code == SONAR_OK;
}

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
    s->digitisers = o->digitisers == UINT64_MAX ? s->digitisers : o->digitisers;
    s->frame_samples = o->frame_samples == UINT64_MAX ? s->frame_samples : o->frame_samples;
    s->format = o->format < 0 ? s->format : o->format;
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
    r->utc_ns = o->utc_ns == INT64_MIN ? sim_utc_now_ns() : o->utc_ns;
    if (r->utc_ns)
        r->utc_ns += llrint(r->scene->clock_offset_ms * 1e6);
}

static sonar_code open_truth(run *r, sonar_error *err) {
    const options *o = &r->options;
    sim_truth_spec spec = {.zmq_context = r->zmq,
                           .endpoint = o->truth,
                           .path = o->truth_file,
                           .scene = r->scene,
                           .fs_hz = r->config->fs_hz,
                           .first_index = o->start_index,
                           .utc_ns = r->utc_ns};
    return sim_truth_create(&spec, &r->truth, err);
}

/* ---- running --------------------------------------------------------------------------------- */

/* Before the run, so that no long run ends without its summary. */
static sonar_code open_summary(run *r, sonar_error *err) {
    const char *path = r->options.summary;
    r->summary = path ? fopen(path, "we") : stdout;
    return r->summary ? SONAR_OK
                      : sonar_fail(err, SONAR_EINVAL, "--summary", "%s: %s", path, strerror(errno));
}

static void write_summary(const run *r, const sim_counters *counters) {
    sim_counters_write(counters, r->summary);
    fflush(r->summary);
}

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
    write_summary(r, &counters);
    return code == SONAR_OK ? finished : code;
}

static sonar_code create_sender(run *r, sim_sender **sender, sonar_error *err) {
    const options *o = &r->options;
    const sonar_config *c = r->config;
    const char *endpoint[SONAR_ENDPOINTS_MOST] = {o->endpoint};
    for (size_t i = 0; !o->endpoint && i < c->ingest_endpoints; i++)
        endpoint[i] = c->ingest_endpoint[i];
    sim_sender_spec spec = {.zmq_context = r->zmq,
                            .endpoints = endpoint,
                            .endpoint_count = o->endpoint ? 1 : c->ingest_endpoints,
                            .publish = c->ingest_socket == SONAR_SUB,
                            .block = o->wait || o->rate == 0,
                            .high_water_mark = HIGH_WATER_MARK,
                            .array_id = c->array_id,
                            .channels = c->channels,
                            .digitisers = r->scene->digitisers,
                            .frame_samples = r->scene->frame_samples,
                            .format = r->scene->format,
                            .layout = r->scene->layout,
                            .fs_hz = c->fs_hz,
                            .epoch = (uint32_t)o->epoch,
                            .first_index = o->start_index,
                            .utc_ns = r->utc_ns,
                            .seed = r->scene->seed,
                            .fault = r->scene->fault,
                            .faults = r->scene->faults,
                            .fault_rate = r->scene->fault_rate,
                            .stop = &stop};
    sonar_code code = sim_sender_create(&spec, sender, err);
    if (code == SONAR_OK)
        fprintf(stderr, "sonar-sim: waiting for a receiver at %s\n", endpoint[0]);
    return code;
}

static sonar_code send_samples(run *r, sim_sender *sender, sonar_error *err) {
    sim_pace pace = {.fs_hz = r->config->fs_hz,
                     .rate = r->options.rate,
                     .start_ns = sonar_monotonic_ns(),
                     .stop = &stop};
    sonar_code code = SONAR_OK;
    for (uint64_t done = 0; done < r->samples && code == SONAR_OK;) {
        size_t count = sonar_min_size(r->samples - done, r->scene->frame_samples);
        sim_synth_render(r->synth, r->options.start_index + done, count, r->counts);
        done += count;
        if (!sim_pace_wait(&pace, done))
            break;
        code = sim_sender_send(sender, r->counts, count, err);
        sim_truth_advance(r->truth, done);
    }
    return code == SONAR_OK ? sim_sender_flush(sender, err) : code;
}

static sonar_code run_live(run *r, sonar_error *err) {
    sim_sender *sender;
    sonar_code code = create_sender(r, &sender, err);
    if (code != SONAR_OK)
        return code;
    if (sim_sender_wait(sender, -1, err) == SONAR_OK) {
        if (r->options.utc_ns == INT64_MIN) {
            plan(r); /* the stream begins now */
            sim_sender_set_utc(sender, r->utc_ns);
            sim_truth_set_utc(r->truth, r->utc_ns);
        }
        code = send_samples(r, sender, err);
    }
    write_summary(r, sim_sender_counters(sender));
    sim_sender_destroy(sender, stop ? 0 : 10000);
    return code;
}

static int run_all(run *r) {
    sonar_error err = {0};
    if (!load_config(r) || !load_scene(r))
        return EXIT_USAGE;
    plan(r);
    r->zmq = zmq_ctx_new();
    sonar_code code =
        r->zmq ? create_synth(r, &err) : sonar_fail(&err, SONAR_ENOMEM, "zmq", "no context");
    if (code == SONAR_OK)
        code = open_summary(r, &err);
    if (code == SONAR_OK)
        code = open_truth(r, &err);
    if (code == SONAR_OK)
        code = r->options.file ? run_to_file(r, &err) : run_live(r, &err);
    return code == SONAR_OK ? EXIT_SUCCESS : complain(&err);
}

static void on_signal(int number) {
    (void)number;
    stop = 1;
}

int main(int argc, char **argv) {
    run r = {0};
    int code = read_options(argc, argv, &r.options);
    if (code >= 0)
        return code;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    code = run_all(&r);
    sim_truth_destroy(r.truth);
    sim_synth_destroy(r.synth);
    sim_scene_destroy(r.scene);
    sonar_config_destroy(r.config);
    if (r.summary && r.summary != stdout)
        fclose(r.summary);
    free(r.counts);
    free(r.channel_position_m);
    if (r.zmq)
        zmq_ctx_term(r.zmq);
    return code;
}
