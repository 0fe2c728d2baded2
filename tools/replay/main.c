/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar-replay: a recording sent as frames, at its own pace, at a multiple of it or as fast as the
 * receiver takes it. Exit codes: 0 done, 1 something failed while running, 2 usage or input. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
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

enum { EXIT_RUNTIME = 1, EXIT_USAGE = 2, HIGH_WATER_MARK = 16 };

static volatile sig_atomic_t stop;

typedef struct options {
    const char *recording, *config, *endpoint, *summary;
    double fs_hz; /* 0: the recording's */
    double rate, start_s, duration_s;
    bool wait;
    uint64_t array_id; /* UINT64_MAX: the configuration's */
    uint64_t epoch, frame_samples, digitisers;
    uint64_t loops; /* UINT64_MAX: forever */
    int format;     /* 0: the recording's */
} options;

typedef struct run {
    options options;
    sonar_config *config; /* NULL: --endpoint and --array-id say it all */
    sim_recording *recording;
    const sim_recording_info *info;
    void *zmq;
    FILE *summary;
    sim_sender *sender;
    float *counts;       /* [channel][frame] */
    uint64_t first, end; /* samples of the recording to send */
    double fs_hz;
} run;

static const char usage[] =
    "Usage: sonar-replay RECORDING --config FILE [options]\n"
    "       sonar-replay RECORDING --endpoint ADDRESS --array-id N [options]\n"
    "RECORDING: raw samples with a .json beside them, or WAV, RF64, W64, CAF, FLAC\n"
    "  -c, --config FILE       the daemon's configuration: array, fs, endpoint\n"
    "      --endpoint ADDRESS  where to connect to\n"
    "      --array-id N        of the array\n"
    "      --fs HZ             play as if recorded at this rate\n"
    "      --rate R            realtime (default), a factor, or max: as fast as received\n"
    "      --wait              wait for a slow receiver instead of losing frames\n"
    "      --loop N|forever    times to play (1)\n"
    "      --start S           skip the beginning, seconds of the recording's own time\n"
    "      --duration S        of each time\n"
    "      --frame-samples N   samples per channel and frame (256)\n"
    "      --digitisers N      split the channels over N connections (1)\n"
    "      --format FORMAT     s16, s24, s32, f32; default: the recording's\n"
    "      --epoch N           of the stream, not 0 (1)\n"
    "      --summary FILE      counters of what was sent, as JSON\n"
    "  -h, --help  -V, --version\n";

/* ---- options --------------------------------------------------------------------------------- */

static tool_answer take_endpoint(void *to, const char *value) {
    ((options *)to)->endpoint = value;
    bool good = strncmp(value, "tcp://", 6) == 0 || strncmp(value, "ipc://", 6) == 0;
    return good ? TOOL_TAKEN : TOOL_REFUSED;
}

static tool_answer take_rate(void *to, const char *value) {
    return sim_rate_parse(value, &((options *)to)->rate) ? TOOL_TAKEN : TOOL_REFUSED;
}

static tool_answer take_format(void *to, const char *value) {
    static const char *const name[] = {"s16", "s24", "s32", "f32"};
    for (int i = 0; i < 4; i++)
        if (strcmp(value, name[i]) == 0) {
            ((options *)to)->format = SONAR_S16 + i;
            return TOOL_TAKEN;
        }
    return TOOL_REFUSED;
}

static tool_answer take_loop(void *to, const char *value) {
    uint64_t *loops = &((options *)to)->loops;
    if (strcmp(value, "forever") != 0)
        return tool_read_whole(value, 1, UINT32_MAX, loops);
    *loops = UINT64_MAX;
    return TOOL_TAKEN;
}

static const tool_option option[] = {
    {"config", 'c', TOOL_TEXT, offsetof(options, config), 0, 0, NULL, NULL},
    {"endpoint", 0, TOOL_OTHER, 0, 0, 0, take_endpoint, "tcp://HOST:PORT or ipc://PATH"},
    {"array-id", 0, TOOL_WHOLE, offsetof(options, array_id), 0, UINT32_MAX, NULL,
     "a whole number from 0 to 4294967295"},
    {"fs", 0, TOOL_NUMBER, offsetof(options, fs_hz), 1e-3, 1e9, NULL,
     "a number of Hz, 0.001 to 1e9,"},
    {"rate", 0, TOOL_OTHER, 0, 0, 0, take_rate, "realtime, max or a factor such as 0.5"},
    {"wait", 0, TOOL_FLAG, offsetof(options, wait), 0, 0, NULL, NULL},
    {"loop", 0, TOOL_OTHER, 0, 0, 0, take_loop, "a whole number from 1, or forever,"},
    {"start", 0, TOOL_NUMBER, offsetof(options, start_s), 0, 1e9, NULL,
     "a number of seconds, 0 to 1e9,"},
    {"duration", 0, TOOL_NUMBER, offsetof(options, duration_s), 0, 1e9, NULL,
     "a number of seconds, 0 to 1e9,"},
    {"frame-samples", 0, TOOL_WHOLE, offsetof(options, frame_samples), 1, SONAR_FRAME_MAX_SAMPLES,
     NULL, "a whole number from 1 to 1048576"},
    {"digitisers", 0, TOOL_WHOLE, offsetof(options, digitisers), 1, UINT32_MAX, NULL,
     "a whole number from 1 to 4294967295"},
    {"format", 0, TOOL_OTHER, 0, 0, 0, take_format, "s16, s24, s32 or f32"},
    {"epoch", 0, TOOL_WHOLE, offsetof(options, epoch), 1, UINT32_MAX, NULL,
     "a whole number from 1 to 4294967295"},
    {"summary", 0, TOOL_TEXT, offsetof(options, summary), 0, 0, NULL, NULL},
    {0}};

static const tool self = {.name = "sonar-replay", .usage = usage, .option = option};

/* Returns -1 to go on, or the exit code. */
static int read_options(int argc, char **argv, options *o) {
    *o = (options){.rate = 1,
                   .duration_s = HUGE_VAL,
                   .array_id = UINT64_MAX,
                   .epoch = 1,
                   .loops = 1,
                   .frame_samples = 256,
                   .digitisers = 1};
    int code = tool_read_options(&self, argc, argv, o);
    if (code >= 0)
        return code;
    if (optind + 1 != argc)
        return tool_wrong_usage(&self, optind == argc ? "no recording given"
                                                      : "more than one recording given");
    if (!o->config && !(o->endpoint && o->array_id != UINT64_MAX))
        return tool_wrong_usage(&self, "--config, or --endpoint and --array-id, is missing");
    o->recording = argv[optind];
    return -1;
}

/* ---- setting up ------------------------------------------------------------------------------ */

static bool load_config(run *r) {
    if (!r->options.config)
        return true;
    sonar_report *report = sonar_report_create();
    sonar_code code =
        report ? sonar_config_load(r->options.config, &r->config, report) : SONAR_ENOMEM;
    if (code != SONAR_OK && report)
        sonar_report_write(report, stderr);
    sonar_report_destroy(report);
    return code == SONAR_OK;
}

/* The recording must be what the configuration expects, or every frame would be refused. */
static sonar_code check_match(const run *r, sonar_error *err) {
    const sonar_config *c = r->config;
    const char *path = r->options.recording;
    if (c && r->info->channels != c->channels)
        return sonar_fail(err, SONAR_EINVAL, path, "%zu channels, but the configuration has %zu",
                          r->info->channels, c->channels);
    if (c && fabs(r->fs_hz / c->fs_hz - 1) > 1e-6)
        return sonar_fail(err, SONAR_EINVAL, path,
                          "%g Hz, but the configuration has %g Hz; --fs plays it at another rate",
                          r->fs_hz, c->fs_hz);
    if (r->first >= r->end)
        return sonar_fail(err, SONAR_EINVAL, path, "nothing to play between start and end");
    uint64_t samples = r->end - r->first;
    if (c && samples < c->length && r->options.loops < 1 + (c->length - 1) / samples)
        return sonar_fail(err, SONAR_EINVAL, path,
                          "%" PRIu64 " samples to play, played %" PRIu64 " times, are shorter than "
                          "a window (dft.length: %zu): not one spectrum would come",
                          samples, r->options.loops, c->length);
    return SONAR_OK;
}

/* Seconds to a sample count that does not pass `most`. */
static uint64_t samples_of(double seconds, double fs_hz, uint64_t most) {
    double samples = rint(seconds * fs_hz);
    return samples < (double)most ? (uint64_t)samples : most;
}

static sonar_code open_recording(run *r, sonar_error *err) {
    const options *o = &r->options;
    sonar_code code = sim_recording_open(o->recording, &r->recording, err);
    if (code != SONAR_OK)
        return code;
    r->info = sim_recording_about(r->recording);
    r->fs_hz = o->fs_hz > 0 ? o->fs_hz : r->info->fs_hz;
    r->first = samples_of(o->start_s, r->info->fs_hz, r->info->frames);
    r->end = r->first + samples_of(o->duration_s, r->info->fs_hz, r->info->frames - r->first);
    code = check_match(r, err);
    r->counts = sonar_alloc(r->info->channels * o->frame_samples, sizeof(float));
    if (code == SONAR_OK && !r->counts)
        code = sonar_fail(err, SONAR_ENOMEM, o->recording, "out of memory for a frame");
    return code;
}

static int64_t utc_of_first(const run *r) {
    return r->info->utc_ns ? r->info->utc_ns + llrint((double)r->first / r->info->fs_hz * 1e9) : 0;
}

static sonar_code create_sender(run *r, sonar_error *err) {
    const options *o = &r->options;
    const sonar_config *c = r->config;
    const char *endpoint[SONAR_ENDPOINTS_MOST] = {o->endpoint};
    for (size_t i = 0; !o->endpoint && i < c->ingest_endpoints; i++)
        endpoint[i] = c->ingest_endpoint[i];
    sim_sender_spec spec = {.zmq_context = r->zmq,
                            .endpoints = endpoint,
                            .endpoint_count = o->endpoint ? 1 : c->ingest_endpoints,
                            .publish = c && c->ingest_socket == SONAR_SUB,
                            .block = o->wait || o->rate == 0,
                            .high_water_mark = HIGH_WATER_MARK,
                            .array_id =
                                o->array_id != UINT64_MAX ? (uint32_t)o->array_id : c->array_id,
                            .channels = r->info->channels,
                            .digitisers = o->digitisers,
                            .frame_samples = o->frame_samples,
                            .format = o->format ? o->format : r->info->format,
                            .layout = SONAR_FRAME_INTERLEAVED,
                            .fs_hz = r->fs_hz,
                            .epoch = (uint32_t)o->epoch,
                            .utc_ns = utc_of_first(r),
                            .stop = &stop};
    sonar_code code = sim_sender_create(&spec, &r->sender, err);
    if (code == SONAR_OK)
        fprintf(stderr, "sonar-replay: waiting for a receiver at %s\n", endpoint[0]);
    return code;
}

/* ---- playing --------------------------------------------------------------------------------- */

static sonar_code play(run *r, sonar_error *err) {
    sim_pace pace = {.fs_hz = r->fs_hz,
                     .rate = r->options.rate,
                     .start_ns = sonar_monotonic_ns(),
                     .stop = &stop};
    uint64_t sent = 0, at = r->first, loops = r->options.loops;
    sonar_code code = SONAR_OK;
    while (code == SONAR_OK && loops > 0) {
        size_t count = sonar_min_size(r->end - at, r->options.frame_samples);
        code = sim_recording_read(r->recording, at, count, r->counts, err);
        sent += count;
        at += count;
        if (!sim_pace_wait(&pace, sent))
            break;
        if (code == SONAR_OK)
            code = sim_sender_send(r->sender, r->counts, count, err);
        if (at == r->end) {
            at = r->first;
            loops -= loops != UINT64_MAX;
        }
    }
    return code;
}

/* Before the run, so that no long run ends without its summary. */
static sonar_code open_summary(run *r, sonar_error *err) {
    const char *path = r->options.summary;
    r->summary = path ? fopen(path, "we") : stdout;
    return r->summary ? SONAR_OK
                      : sonar_fail(err, SONAR_EINVAL, "--summary", "%s: %s", path, strerror(errno));
}

static void write_summary(const run *r) {
    sim_counters_write(sim_sender_counters(r->sender), r->summary);
    fflush(r->summary);
}

static int complain(const sonar_error *err) {
    fprintf(stderr, "sonar-replay: %s: %s\n", err->where, err->text);
    return err->code == SONAR_EINVAL || err->code == SONAR_EUNAVAILABLE ? EXIT_USAGE : EXIT_RUNTIME;
}

static int run_all(run *r) {
    sonar_error err = {0};
    if (!load_config(r))
        return EXIT_USAGE;
    r->zmq = zmq_ctx_new();
    sonar_code code =
        r->zmq ? open_recording(r, &err) : sonar_fail(&err, SONAR_ENOMEM, "zmq", "no context");
    if (code == SONAR_OK)
        code = open_summary(r, &err);
    if (code == SONAR_OK)
        code = create_sender(r, &err);
    if (code != SONAR_OK)
        return complain(&err);
    if (sim_sender_wait(r->sender, -1, NULL) == SONAR_OK)
        code = play(r, &err);
    write_summary(r);
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
    /* What the sockets hold is sent before the end, unless somebody wants to leave. */
    sim_sender_destroy(r.sender, stop ? 0 : r.options.rate == 0 ? -1 : 10000);
    sim_recording_close(r.recording);
    sonar_config_destroy(r.config);
    if (r.summary && r.summary != stdout)
        fclose(r.summary);
    free(r.counts);
    if (r.zmq)
        zmq_ctx_term(r.zmq);
    return code;
}
