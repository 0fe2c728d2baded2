/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar-replay: a recording sent as frames, at its own pace, at a multiple of it or as fast as the
 * receiver takes it. Exit codes: 0 done, 1 something failed while running, 2 usage or input. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "clock.h"
#include "config/config.h"
#include "core/core.h"
#include "ingest/frame.h"
#include "recording.h"
#include "sender.h"

enum { EXIT_RUNTIME = 1, EXIT_USAGE = 2, HIGH_WATER_MARK = 16 };

static volatile sig_atomic_t stop;

typedef struct options {
    const char *recording, *config, *endpoint, *summary;
    double fs_hz; /* 0: the recording's */
    double rate, start_s, duration_s;
    bool wait, array_given;
    uint32_t array_id, epoch;
    uint64_t loops; /* UINT64_MAX: forever */
    size_t frame_samples, digitisers;
    int format; /* 0: the recording's */
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

static void usage(FILE *to) {
    fputs("Usage: sonar-replay RECORDING --config FILE [options]\n"
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
          "  -h, --help  -V, --version\n",
          to);
}

/* ---- options --------------------------------------------------------------------------------- */

enum option_key {
    KEY_ENDPOINT = 256,
    KEY_ARRAY_ID,
    KEY_FS,
    KEY_RATE,
    KEY_WAIT,
    KEY_LOOP,
    KEY_START,
    KEY_DURATION,
    KEY_FRAME_SAMPLES,
    KEY_DIGITISERS,
    KEY_FORMAT,
    KEY_EPOCH,
    KEY_SUMMARY
};

static const struct option long_option[] = {
    {"config", required_argument, NULL, 'c'},
    {"endpoint", required_argument, NULL, KEY_ENDPOINT},
    {"array-id", required_argument, NULL, KEY_ARRAY_ID},
    {"fs", required_argument, NULL, KEY_FS},
    {"rate", required_argument, NULL, KEY_RATE},
    {"wait", no_argument, NULL, KEY_WAIT},
    {"loop", required_argument, NULL, KEY_LOOP},
    {"start", required_argument, NULL, KEY_START},
    {"duration", required_argument, NULL, KEY_DURATION},
    {"frame-samples", required_argument, NULL, KEY_FRAME_SAMPLES},
    {"digitisers", required_argument, NULL, KEY_DIGITISERS},
    {"format", required_argument, NULL, KEY_FORMAT},
    {"epoch", required_argument, NULL, KEY_EPOCH},
    {"summary", required_argument, NULL, KEY_SUMMARY},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {0}};

static bool parse_integer(const char *text, uint64_t low, uint64_t high, uint64_t *to) {
    char *end;
    errno = 0;
    *to = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && errno == 0 && *to >= low && *to <= high;
}

static bool parse_number(const char *text, double low, double high, double *to) {
    char *end;
    *to = strtod(text, &end);
    return *text && !*end && *to >= low && *to <= high;
}

static bool parse_format(const char *text, int *format) {
    static const char *const name[] = {"s16", "s24", "s32", "f32"};
    for (int i = 0; i < 4; i++)
        if (strcmp(text, name[i]) == 0) {
            *format = SONAR_S16 + i;
            return true;
        }
    return false;
}

static bool parse_count(options *o, int key, const char *text) {
    uint64_t value = 0;
    bool good = parse_integer(text, key != KEY_ARRAY_ID, UINT32_MAX, &value);
    switch (key) {
    case KEY_ARRAY_ID:
        o->array_id = (uint32_t)value;
        o->array_given = true;
        return good;
    case KEY_EPOCH:
        o->epoch = (uint32_t)value;
        return good;
    case KEY_FRAME_SAMPLES:
        o->frame_samples = value;
        return good && value <= SONAR_FRAME_MAX_SAMPLES;
    case KEY_DIGITISERS:
        o->digitisers = value;
        return good;
    case KEY_LOOP:
        o->loops = strcmp(text, "forever") == 0 ? UINT64_MAX : value;
        return good || o->loops == UINT64_MAX;
    default:
        return false;
    }
}

static bool take_option(options *o, int key, const char *value) {
    switch (key) {
    case 'c':
        o->config = value;
        return true;
    case KEY_ENDPOINT:
        o->endpoint = value;
        return strncmp(value, "tcp://", 6) == 0 || strncmp(value, "ipc://", 6) == 0;
    case KEY_SUMMARY:
        o->summary = value;
        return true;
    case KEY_WAIT:
        return o->wait = true;
    case KEY_RATE:
        return sim_rate_parse(value, &o->rate);
    case KEY_FS:
        return parse_number(value, 1e-3, 1e9, &o->fs_hz);
    case KEY_START:
        return parse_number(value, 0, 1e9, &o->start_s);
    case KEY_DURATION:
        return parse_number(value, 0, 1e9, &o->duration_s);
    case KEY_FORMAT:
        return parse_format(value, &o->format);
    default:
        return parse_count(o, key, value);
    }
}

static const char *accepted(int key) {
    switch (key) {
    case KEY_ENDPOINT:
        return "tcp://HOST:PORT or ipc://PATH";
    case KEY_RATE:
        return "realtime, max or a factor such as 0.5";
    case KEY_FORMAT:
        return "s16, s24, s32 or f32";
    case KEY_FS:
        return "a number of Hz, 0.001 to 1e9,";
    case KEY_START:
    case KEY_DURATION:
        return "a number of seconds, 0 to 1e9,";
    case KEY_LOOP:
        return "a whole number from 1, or forever,";
    case KEY_ARRAY_ID:
        return "a whole number from 0 to 4294967295";
    case KEY_FRAME_SAMPLES:
        return "a whole number from 1 to 1048576";
    default:
        return "a whole number from 1 to 4294967295";
    }
}

static int try_help(void) {
    fputs("sonar-replay: try 'sonar-replay --help'\n", stderr);
    return EXIT_USAGE;
}

/* Returns -1 to go on, or the exit code. */
static int parse_options(int argc, char **argv, options *o) {
    *o = (options){.rate = 1,
                   .duration_s = HUGE_VAL,
                   .epoch = 1,
                   .loops = 1,
                   .frame_samples = 256,
                   .digitisers = 1};
    for (int key, place = 0; (key = getopt_long(argc, argv, "c:hV", long_option, &place)) != -1;) {
        if (key == 'h' || key == 'V') {
            if (key == 'h')
                usage(stdout);
            else
                puts("sonar-replay " SONAR_VERSION);
            return EXIT_SUCCESS;
        }
        if (key == '?' || !take_option(o, key, optarg)) {
            if (key != '?')
                fprintf(stderr, "sonar-replay: '%s' is not accepted for --%s; %s is\n", optarg,
                        long_option[place].name, accepted(key));
            return try_help();
        }
    }
    if (optind + 1 != argc) {
        fprintf(stderr, "sonar-replay: %s\n",
                optind == argc ? "no recording given" : "more than one recording given");
        return try_help();
    }
    if (!o->config && !(o->endpoint && o->array_given)) {
        fputs("sonar-replay: --config, or --endpoint and --array-id, is missing\n", stderr);
        return try_help();
    }
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
                            .array_id = o->array_given ? o->array_id : c->array_id,
                            .channels = r->info->channels,
                            .digitisers = o->digitisers,
                            .frame_samples = o->frame_samples,
                            .format = o->format ? o->format : r->info->format,
                            .layout = SONAR_FRAME_INTERLEAVED,
                            .fs_hz = r->fs_hz,
                            .epoch = o->epoch,
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
    int code = parse_options(argc, argv, &r.options);
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
