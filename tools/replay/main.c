/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar-replay: sends a recording as frames, at its own pace, at a multiple of it, or as fast as
 * the receiver reads. Exit codes: 0 done, 1 something failed while running, 2 usage or input. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "ingest/frame.h"
#include "program.h"
#include "messages.h"
#include "ranks.h"
#include "stream.h"
#include "tape.h"

enum { OLD_S = 60 }; /* the same as in the daemon's health */

static volatile sig_atomic_t stop;

typedef struct options {
    sim_stream_options stream;
    char *const *recording;
    size_t recordings;
    const char *output; /* where messages are published; NULL: at the configuration's endpoint */
    double fs_hz;       /* 0: the recording's */
    double start_s, duration_s;
    uint64_t array_id; /* UINT64_MAX: the configuration's */
    uint64_t loops;    /* UINT64_MAX: forever */
    bool beside;
    tape_date date;
    sim_raw raw;
    int64_t utc_ns; /* INT64_MIN: now */
} options;

typedef struct run {
    options options;
    sonar_config *config; /* NULL: --endpoint and --array-id are sufficient */
    tape tape;
    sim_stream stream;
    float *counts;       /* [channel][frame] */
    uint8_t *absent;     /* [block of channels], of the largest possible number */
    bool parted;         /* samples of some channels are missing: its blocks are sent as they are */
    uint64_t first, end; /* samples of the recording to send */
    double fs_hz;
} run;

static const char usage[] =
    "Usage: sonar-replay RECORDING... --config FILE [options]\n"
    "       sonar-replay RECORDING... --endpoint ADDRESS --array-id N [options]\n"
    "       sonar-replay MESSAGES... --output ADDRESS [options]\n"
    "RECORDING: raw samples with a .json beside them, SigMF, WAV, RF64, W64, CAF, FLAC, HDF5;\n"
    "several are played one after the other, as one, with --side-by-side at the same time,\n"
    "the channels of each after those of the one before, and those of several ranks at\n"
    "the same time, each to its rank. MESSAGES: messages that sonard published and\n"
    "recorded, .sonar-spectra; only the options --rate, --start and --duration apply\n"
    "  -c, --config FILE       the daemon's configuration: array, fs, endpoint\n"
    "      --endpoint ADDRESS  where to connect to\n"
    "      --ranks N           to each of N ranks its channels; default: as in cluster.ranks\n"
    "      --rank R            only to this rank\n"
    "  -k, --key FILE          this tool's certificate, if the daemon uses CURVE\n"
    "      --array-id N        of the array\n"
    "      --side-by-side      recordings of the same time, with the array's channels\n"
    "                          in the order in which they are given\n"
    "      --utc TIME          of the recording's first sample: ISO 8601, now, 0 unknown;\n"
    "                          default: as recorded, by WAV's bext, or unknown\n"
    "      --fs HZ             play as if recorded at this rate\n"
    "      --raw T:CHANNELS:HZ  raw samples, of T u8, s8, s16le, s24le, s32le, f32le, f64le or\n"
    "                          the same with be\n"
    "      --rate R            realtime (default), a factor, or max: as fast as received\n"
    "      --wait              wait for a slow receiver instead of losing frames\n"
    "      --shared-memory     samples go through memory that the daemon shares\n"
    "      --output ADDRESS    where to publish messages: ipc or loopback\n"
    "      --loop N|forever    times to play (1)\n"
    "      --start S           skip the first S seconds of the recording\n"
    "      --duration S        play S seconds each time\n"
    "      --frame-samples N   samples per channel and frame (256)\n"
    "      --digitisers N      split the channels over N connections (1)\n"
    "      --format FORMAT     s16, s24, s32, f32; default: the recording's\n"
    "      --epoch N           of the stream, from 1; default: the current time\n"
    "      --summary FILE      counters of what was sent, as JSON\n"
    "  -h, --help  -V, --version\n";

/* ---- options --------------------------------------------------------------------------------- */

static tool_answer take_loop(void *to, const char *value) {
    uint64_t *loops = &((options *)to)->loops;
    if (strcmp(value, "forever") != 0)
        return tool_read_whole(value, 1, UINT32_MAX, loops);
    *loops = UINT64_MAX;
    return TOOL_TAKEN;
}

static tool_answer take_utc(void *to, const char *value) {
    options *o = to;
    o->date = strcmp(value, "0") ? TAPE_GIVEN : TAPE_UNKNOWN;
    o->utc_ns = INT64_MIN;
    if (!strcmp(value, "now"))
        return TOOL_TAKEN;
    return sim_utc_parse_or_unknown(value, &o->utc_ns) ? TOOL_TAKEN : TOOL_REFUSED;
}

static tool_answer take_raw(void *to, const char *value) {
    return sim_raw_parse(value, &((options *)to)->raw) ? TOOL_TAKEN : TOOL_REFUSED;
}

static const tool_option option[] = {
    SIM_STREAM_OPTIONS,
    {"side-by-side", 0, TOOL_FLAG, offsetof(options, beside), 0, 0, NULL, NULL},
    {"utc", 0, TOOL_OTHER, 0, 0, 0, take_utc, "now, 0 or a time such as 2026-01-31T12:00:00Z"},
    {"array-id", 0, TOOL_WHOLE, offsetof(options, array_id), 0, UINT32_MAX, NULL,
     "a whole number from 0 to 4294967295"},
    {"raw", 0, TOOL_OTHER, 0, 0, 0, take_raw, SIM_RAW_ACCEPTED},
    {"fs", 0, TOOL_NUMBER, offsetof(options, fs_hz), 1e-3, 1e9, NULL,
     "a number of Hz, 0.001 to 1e9,"},
    {"output", 0, TOOL_TEXT, offsetof(options, output), 0, 0, NULL, NULL},
    {"loop", 0, TOOL_OTHER, 0, 0, 0, take_loop, "a whole number from 1, or forever,"},
    {"start", 0, TOOL_NUMBER, offsetof(options, start_s), 0, 1e9, NULL,
     "a number of seconds, 0 to 1e9,"},
    {"duration", 0, TOOL_NUMBER, offsetof(options, duration_s), 0, 1e9, NULL,
     "a number of seconds, 0 to 1e9,"},
    {0}};

static const tool self = {.name = "sonar-replay", .usage = usage, .option = option};

/* Returns -1 to continue, or the exit code. */
static int read_options(int argc, char **argv, options *o) {
    *o = (options){.stream = {.rate = 1, .frame_samples = 256, .digitisers = 1, .rank = UINT64_MAX},
                   .duration_s = HUGE_VAL,
                   .array_id = UINT64_MAX,
                   .loops = 1};
    int code = tool_read_options(&self, argc, argv, o);
    if (code >= 0)
        return code;
    if (optind == argc)
        return tool_wrong_usage(&self, "no recording given");
    o->recording = argv + optind;
    o->recordings = (size_t)(argc - optind);
    if (messages_is(o->recording[0]))
        return o->output || o->stream.config
                   ? -1
                   : tool_wrong_usage(&self, "--output or --config is missing: where to publish");
    if (!o->stream.config && !(o->stream.endpoint && o->array_id != UINT64_MAX))
        return tool_wrong_usage(&self, "--config, or --endpoint and --array-id, is missing");
    return -1;
}

/* ---- setting up ------------------------------------------------------------------------------ */

/* Number of channels that the recording must have; a rank's data set has the rank's channels. */
static size_t channels_wanted(const run *r, size_t *first_channel) {
    const sonar_config *c = r->config;
    const sim_recording_info *info = &r->tape.first;
    size_t end;
    *first_channel = 0;
    if (!info->ranks)
        return c->channels;
    sonar_config_block(c, info->rank, info->ranks, first_channel, &end);
    return end - *first_channel;
}

static sonar_code check_rank(const run *r, sonar_error *err) {
    const sim_recording_info *info = &r->tape.first;
    const char *path = r->options.recording[0];
    const bool given = r->options.stream.ranks || r->options.stream.rank != UINT64_MAX;
    if (!info->ranks)
        return SONAR_OK;
    if (!r->config || r->options.stream.endpoint || given)
        return sonar_fail(
            err, SONAR_EINVAL, path,
            "rank %zu of %zu recorded it: use --config, which defines where its channels go, and "
            "neither --endpoint nor --rank",
            info->rank, info->ranks);
    if (r->config->cluster_ranks && r->config->cluster_ranks != info->ranks)
        return sonar_fail(err, SONAR_EINVAL, path,
                          "rank %zu of %zu recorded it, but cluster.ranks are %zu", info->rank,
                          info->ranks, r->config->cluster_ranks);
    return SONAR_OK;
}

/* The recording must match the configuration, or every frame would be refused. */
static sonar_code check_match(const run *r, sonar_error *err) {
    const sonar_config *c = r->config;
    const char *path = r->options.recording[0];
    size_t first;
    sonar_code code = SONAR_OK;
    if (c)
        code = tape_check(&r->tape, c, channels_wanted(r, &first), r->fs_hz, err);
    if (code)
        return code;
    if (r->first >= r->end)
        return sonar_fail(err, SONAR_EINVAL, path, "nothing to play between start and end");
    uint64_t samples = r->end - r->first;
    if (c && samples < c->specs.window_length &&
        r->options.loops < 1 + (c->specs.window_length - 1) / samples)
        return sonar_fail(err, SONAR_EINVAL, path,
                          "%" PRIu64 " samples to play, played %" PRIu64 " times, are shorter than "
                          "a window (dft.length: %zu): no spectrum would be published",
                          samples, r->options.loops, c->specs.window_length);
    return SONAR_OK;
}

/* Cuts frames so that each has channels of one rank only. */
static sonar_code cut_at_ranks(run *r, sonar_error *err) {
    sonar_code code = check_rank(r, err);
    if (code)
        return code;
    r->stream.of_rank = r->tape.first.rank;
    r->stream.of_ranks = r->tape.first.ranks;
    const size_t ranks = sim_stream_ranks(&r->stream);
    r->parted = r->tape.blocks > 1;
    for (size_t rank = 1; rank < ranks && r->parted && r->config && !code; rank++) {
        size_t first, end;
        sonar_config_block(r->config, rank, ranks, &first, &end);
        code = tape_cut(&r->tape, first, err);
    }
    return code;
}

static sonar_code open_recording(run *r, sonar_error *err) {
    const options *o = &r->options;
    tape *t = &r->tape;
    const tape_spec spec = {.tool = self.name,
                            .path = o->recording,
                            .files = o->recordings,
                            .beside = o->beside,
                            .date = o->date,
                            .utc_ns = o->utc_ns,
                            .raw = o->raw};
    sonar_code code = tape_open(t, &spec, err);
    if (code == SONAR_OK)
        code = cut_at_ranks(r, err);
    if (code != SONAR_OK)
        return code;
    r->fs_hz = o->fs_hz > 0 ? o->fs_hz : t->first.fs_hz;
    r->first = sim_samples_of(o->start_s, t->first.fs_hz, tape_samples(t));
    r->end = r->first + sim_samples_of(o->duration_s, t->first.fs_hz, tape_samples(t) - r->first);
    code = check_match(r, err);
    r->counts = sonar_alloc(t->first.channels * o->stream.frame_samples, sizeof(float));
    r->absent = sonar_alloc(t->first.channels, 1);
    if (code == SONAR_OK && (!r->counts || !r->absent))
        code = sonar_fail(err, SONAR_ENOMEM, o->recording[0], "out of memory for a frame");
    return code;
}

/* Blocks of channels that were lost together become digitisers of their own, on one connection. */
static sonar_code connect(run *r, sonar_error *err) {
    const options *o = &r->options;
    const sim_recording_info *info = &r->tape.first;
    const bool parted = r->parted;
    uint64_t array_id = o->array_id != UINT64_MAX ? o->array_id : r->config->array_id;
    if (parted && o->stream.digitisers > 1)
        return sonar_fail(err, SONAR_EINVAL, "--digitisers",
                          "the recording lacks samples of some channels, and has its own blocks");
    sim_sender_spec about = {.array_id = (uint32_t)array_id,
                             .channels = info->channels,
                             .digitisers = parted ? r->tape.blocks : o->stream.digitisers,
                             .first_channel = parted ? r->tape.first_channel : NULL,
                             .frame_samples = o->stream.frame_samples,
                             .format = o->stream.format ? o->stream.format : info->format,
                             .layout = SONAR_FRAME_INTERLEAVED,
                             .flags = SONAR_FRAME_REPLAY,
                             .fs_hz = r->fs_hz};
    return sim_stream_connect(&r->stream, &about, err);
}

/* ---- playing --------------------------------------------------------------------------------- */

/* A daemon adopts another stream at once if its first frame has all channels. If some channels are
 * missing at the very beginning, it adopts the stream only after a silence. */
static void fall_silent(const run *r) {
    const int ms = (r->config ? r->config->restart_after_ms : 2000) + 200;
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

static bool play_piece(run *r, const tape_piece *piece, sonar_error *err) {
    const bool parted = r->parted;
    if (piece->seek)
        sim_stream_seek(&r->stream, piece->new_stream, piece->index, piece->utc_ns, piece->flags);
    if (piece->jump && parted && !piece->whole)
        fall_silent(r);
    if (!parted) /* every digitiser has a share of the single block */
        memset(r->absent, r->absent[0], r->tape.first.channels);
    return sim_stream_send_some(&r->stream, r->counts, piece->samples, r->absent,
                                piece->jump && parted && piece->whole, err);
}

/* If the recording can be repeated without a gap, a frame may continue over its end. */
static sonar_code play(run *r, sonar_error *err) {
    uint64_t at = r->first, loops = r->options.loops;
    bool again = false;
    while (loops > 0) {
        tape_piece piece;
        if (tape_read(&r->tape, at, r->end, r->options.stream.frame_samples, r->counts, r->absent,
                      &piece, err) != SONAR_OK)
            break;
        if (again && at == r->first)
            piece.seek = piece.jump = piece.new_stream = r->tape.captures > 1;
        if (!play_piece(r, &piece, err))
            break;
        at += piece.samples;
        if (at == r->end) {
            at = r->first;
            again = true;
            loops -= loops != UINT64_MAX;
            tape_rewind(&r->tape);
        }
    }
    return err->code;
}

static int run_messages(const run *r) {
    const options *o = &r->options;
    const messages_spec spec = {.path = o->recording,
                                .files = o->recordings,
                                .endpoint = o->output ? o->output : r->config->output_endpoint,
                                .rate = o->stream.rate,
                                .start_s = o->start_s,
                                .duration_s = o->duration_s,
                                .stop = &stop};
    sonar_error err = {0};
    return messages_play(&spec, &err) == SONAR_OK ? EXIT_SUCCESS : sim_complain(self.name, &err);
}

/* Prints what an operator of the daemon must know about the time. */
static void say_date(run *r) {
    const int64_t utc_ns = r->tape.first.utc_ns;
    const double start_s = (double)r->first / r->tape.first.fs_hz;
    const double behind_s = (double)(sonar_utc_ns() - utc_ns) * 1e-9;
    if (r->options.date == TAPE_GIVEN && r->options.utc_ns == INT64_MIN)
        tape_date_from(&r->tape, sonar_utc_ns() - llrint(start_s * 1e9));
    else if (r->options.date == TAPE_RECORDED && !utc_ns)
        fprintf(stderr,
                "%s: the recording has no date: spectra have no UTC and count from its "
                "beginning; --utc TIME sets one\n",
                self.name);
    else if (r->options.date == TAPE_RECORDED && behind_s > OLD_S)
        fprintf(stderr, "%s: it was recorded %.1f days ago; --utc now plays it as of now\n",
                self.name, behind_s / 86400);
}

static int run_all(run *r) {
    sonar_error err = {0};
    r->stream = (sim_stream){
        .tool = self.name, .options = &r->options.stream, .config = r->config, .stop = &stop};
    sonar_code code = open_recording(r, &err);
    if (code == SONAR_OK)
        code = sim_stream_open(&r->stream, &err);
    if (code == SONAR_OK)
        code = connect(r, &err);
    if (code == SONAR_OK)
        code = sim_stream_begin(&r->stream, &err);
    if (code == SONAR_EUNAVAILABLE && stop)
        return EXIT_SUCCESS; /* stopped by a signal */
    if (code == SONAR_OK)
        say_date(r);
    if (code == SONAR_OK)
        code = play(r, &err);
    return code == SONAR_OK ? EXIT_SUCCESS : sim_complain(self.name, &err);
}

/* Messages in the sockets are sent before the end, unless a signal has stopped the program. */
static int run_and_close(run *r) {
    const int code = run_all(r);
    sim_stream_close(&r->stream, stop ? 0 : r->options.stream.rate == 0 ? -1 : 10000);
    tape_close(&r->tape);
    return code;
}

/* Plays one rank's recordings; runs in its own process. */
static int run_rank(void *ctx, char *const *path, size_t files, const char *summary) {
    run *r = ctx;
    r->options.recording = path;
    r->options.recordings = files;
    r->options.stream.summary = summary;
    return run_and_close(r);
}

/* Recordings of several ranks belong to one stream, so they have one epoch. */
static int run_recordings(run *r) {
    options *o = &r->options;
    ranks_recordings sorted;
    sonar_error err = {0};
    int code;
    if (o->beside)
        return run_and_close(r);
    if (ranks_sort(o->recording, o->recordings, &sorted, &err)) {
        code = sim_complain(self.name, &err);
    } else if (sorted.ranks < 2) {
        code = run_and_close(r);
    } else {
        o->stream.epoch = sim_stream_epoch(&o->stream);
        const ranks_player player = {self.name, o->stream.summary, &stop, run_rank, r};
        code = ranks_play(&sorted, &player);
    }
    ranks_destroy(&sorted);
    return code;
}

static int run_options(run *r) {
    const char *config = r->options.stream.config;
    if (config && !sim_load_config(config, &r->config))
        return SIM_STREAM_WRONG_USAGE;
    return messages_is(r->options.recording[0]) ? run_messages(r) : run_recordings(r);
}

int main(int argc, char **argv) {
    program_begin("sonar-replay");
    run r = {0};
    int code = read_options(argc, argv, &r.options);
    if (code >= 0)
        return code;
    program_stop_on(SIGINT, &stop);
    program_stop_on(SIGTERM, &stop);
    code = run_options(&r);
    sonar_config_destroy(r.config);
    free(r.counts);
    free(r.absent);
    return code;
}
