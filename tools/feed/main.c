/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonar-feed: samples from a pipe, a socket or an instrument as frames for the daemon. Exit codes:
 * 0 the samples ended or it was stopped, 1 something failed while running, 2 usage or input. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/core.h"
#include "decimator.h"
#include "ingest/frame.h"
#include "instrument.h"
#include "options.h"
#include "program.h"
#include "source.h"
#include "stream.h"
#include "timing.h"

static volatile sig_atomic_t stop;

typedef struct options {
    sim_stream_options stream;
    const char *where, *format;
    uint64_t channels, array_id; /* 0; UINT64_MAX: not given */
    double rate_hz;              /* 0: not given */
    uint64_t skip;
    source_counter counter;
    bool from_stream; /* the time: from utc_ns on (0: unknown), not by the clock */
    int64_t utc_ns;
    double align_s;    /* 0: not given */
    uint64_t decimate; /* 0: not given */
} options;

typedef struct run {
    options options;
    sonar_config *config; /* NULL: --endpoint and --array-id say it all */
    source source;
    sim_stream stream;
    timing timing;
    uint64_t index;       /* of the next sample */
    float *rows, *counts; /* [frame][channel], [channel][frame] */
    /* instead of the source, of which only info is used then */
    const instrument *instrument; /* NULL: none */
    void *reader;                 /* the instrument's self */
    grid grid;
    tally tally;
    uint8_t *absent;         /* [unit] */
    uint32_t *first_channel; /* [unit] */
    size_t most;             /* samples of a frame */
    decimator *decimator;    /* NULL: each sample is sent */
    float *kept;             /* [frame][channel] that come out of it */
    uint64_t next;           /* index that would follow; UINT64_MAX: nothing has been sent */
    bool jumped;             /* and no frame of all channels has been sent since */
} run;

static run feed; /* the handler of signals has to find the source */

static const char usage[] =
    "Usage: sonar-feed INPUT --config FILE [--format TYPE --channels N --rate HZ] [options]\n"
    "       sonar-feed INPUT --endpoint ADDRESS --array-id N ...\n"
    "INPUT: - (standard input), a FIFO or file, tcp://HOST:PORT, tcp-listen://ADDRESS:PORT,\n"
    "udp://ADDRESS:PORT (a multicast group is joined) or alsa:DEVICE, a sound card such as\n"
    "alsa:hw:1. Samples of all channels follow on each other, raw as declared, or behind a\n"
    "header such as that of WAV.\n"
    "Or an instrument, which tells type, rate and time:\n"
    "  seedlink://HOST[:PORT]/NET_STA_LOC_CHAN,...  seismic and infrasound channels\n"
    "  iclisten://HOST[:PORT],...                   icListen hydrophones\n"
    "  optodas://HOST:PORT[/FIRST-LAST[:STEP]]      a fibre's channels, from 0: OptoDAS\n"
    "  febus://HOST:PORT[/FIRST-LAST[:STEP]]        the same: Febus A1\n"
    "  -f, --format TYPE    u8, s8, s16le, s24le, s32le, f32le, f64le or the same with be;\n"
    "                       default: as the header says. S16_LE, S24_3LE, S32_LE and FLOAT_LE\n"
    "                       are ALSA's names of some\n"
    "      --channels N     of raw samples\n"
    "  -r, --rate HZ        of raw samples\n"
    "      --skip N         bytes before the samples of each datagram (0)\n"
    "      --counter OFFSET:BYTES:be|le  where a datagram's number is: lost ones are noticed\n"
    "      --utc TIME       of the first sample, ISO 8601, the others by their number; 0:\n"
    "                       unknown; default: the time of arrival, with the source's drift\n"
    "      --align S        that an instrument's channels wait for each other (SeedLink: 60 s,\n"
    "                       else 2 s)\n"
    "      --decimate N     every N-th sample of an instrument whose channels come together,\n"
    "                       after a low-pass filter; fs_hz is the lower rate\n"
    "  -c, --config FILE    the daemon's configuration: array, fs, endpoint\n"
    "      --endpoint ADDRESS  where to connect to\n"
    "      --array-id N     of the array\n"
    "  -k, --key FILE       this tool's certificate, where CURVE is spoken\n"
    "      --wait           wait for a slow receiver instead of losing frames, for a file;\n"
    "                       of an instrument always\n"
    "      --frame-samples N  samples per channel and frame (256)\n"
    "      --epoch N        of the stream, from 1; default: the time now\n"
    "      --summary FILE   counters of what was sent, as JSON\n"
    "  -h, --help  -V, --version\n";

/* ---- options --------------------------------------------------------------------------------- */

static tool_answer take_utc(void *to, const char *value) {
    options *o = to;
    o->from_stream = true;
    return sim_utc_parse_or_unknown(value, &o->utc_ns) ? TOOL_TAKEN : TOOL_REFUSED;
}

static tool_answer take_counter(void *to, const char *value) {
    return source_counter_parse(value, &((options *)to)->counter) ? TOOL_TAKEN : TOOL_REFUSED;
}

/* ALSA's names. Its S24_LE has four bytes. */
static tool_answer take_format(void *to, const char *value) {
    static const char *const alsa[][2] = {{"S16_LE", "s16le"},
                                          {"S24_3LE", "s24le"},
                                          {"S32_LE", "s32le"},
                                          {"FLOAT_LE", "f32le"},
                                          {"FLOAT64_LE", "f64le"}};
    options *o = to;
    sim_raw raw;
    char text[40];
    o->format = value;
    for (size_t i = 0; i < sizeof alsa / sizeof *alsa; i++)
        if (!strcasecmp(value, alsa[i][0]))
            o->format = alsa[i][1];
    snprintf(text, sizeof text, "%.20s:1:1", o->format);
    if (sim_raw_parse(text, &raw))
        return TOOL_TAKEN;
    if (strcasecmp(value, "S24_LE"))
        return TOOL_REFUSED;
    fprintf(stderr, "sonar-feed: ALSA's S24_LE has four bytes for 24 bits; arecord -f S24_3LE has "
                    "three, which is s24le here, and arecord -f S32_LE is s32le\n");
    return TOOL_EXPLAINED;
}

static const tool_option option[] = {
    {"config", 'c', TOOL_TEXT, offsetof(sim_stream_options, config), 0, 0, NULL, NULL},
    {"endpoint", 0, TOOL_OTHER, 0, 0, 0, sim_take_endpoint, "tcp://HOST:PORT or ipc://PATH"},
    {"key", 'k', TOOL_TEXT, offsetof(sim_stream_options, key), 0, 0, NULL, NULL},
    {"summary", 0, TOOL_TEXT, offsetof(sim_stream_options, summary), 0, 0, NULL, NULL},
    {"wait", 0, TOOL_FLAG, offsetof(sim_stream_options, wait), 0, 0, NULL, NULL},
    {"epoch", 0, TOOL_WHOLE, offsetof(sim_stream_options, epoch), 1, UINT32_MAX, NULL,
     "a whole number from 1 to 4294967295"},
    {"frame-samples", 0, TOOL_WHOLE, offsetof(sim_stream_options, frame_samples), 1,
     SONAR_FRAME_MAX_SAMPLES, NULL, "a whole number from 1 to 1048576"},
    {"format", 'f', TOOL_OTHER, 0, 0, 0, take_format,
     "u8, s8, s16le, s24le, s32le, f32le, f64le or the same with be"},
    {"channels", 0, TOOL_WHOLE, offsetof(options, channels), 1, 1024, NULL,
     "a whole number from 1 to 1024"},
    {"rate", 'r', TOOL_NUMBER, offsetof(options, rate_hz), 1e-3, 1e9, NULL,
     "a number of Hz, 0.001 to 1e9,"},
    {"skip", 0, TOOL_WHOLE, offsetof(options, skip), 0, 65535, NULL,
     "a whole number from 0 to 65535"},
    {"counter", 0, TOOL_OTHER, 0, 0, 0, take_counter,
     "OFFSET:BYTES:be or le, such as 2:2:be of RTP,"},
    {"utc", 0, TOOL_OTHER, 0, 0, 0, take_utc, "0 or a time such as 2026-01-31T12:00:00Z"},
    {"align", 0, TOOL_NUMBER, offsetof(options, align_s), 0.01, 3600, NULL,
     "a number of seconds, 0.01 to 3600,"},
    {"decimate", 0, TOOL_WHOLE, offsetof(options, decimate), 2, 1000, NULL,
     "a whole number from 2 to 1000"},
    {"array-id", 0, TOOL_WHOLE, offsetof(options, array_id), 0, UINT32_MAX, NULL,
     "a whole number from 0 to 4294967295"},
    {0}};

static const tool self = {.name = "sonar-feed", .usage = usage, .option = option};

/* Returns -1 to go on, or the exit code. */
static int read_options(int argc, char **argv, options *o) {
    *o = (options){
        .stream = {.live = true, .frame_samples = 256, .digitisers = 1, .rank = UINT64_MAX},
        .array_id = UINT64_MAX};
    const int code = tool_read_options(&self, argc, argv, o);
    if (code >= 0)
        return code;
    if (optind + 1 != argc)
        return tool_wrong_usage(&self, "one input is wanted: - is standard input");
    o->where = argv[optind];
    const char *address;
    const instrument *from = instrument_find(o->where, &address);
    if (!from && !source_accepts(o->where))
        return tool_wrong_usage(&self,
                                "'%s' is no input; -, a file, tcp://HOST:PORT, "
                                "tcp-listen://ADDRESS:PORT, udp://ADDRESS:PORT and alsa:DEVICE "
                                "are, and instruments, which sonar-feed --help lists",
                                o->where);
    if (from && (o->format || o->from_stream || o->skip || o->counter.bytes))
        return tool_wrong_usage(&self,
                                "an instrument tells its type, channels, rate and time: --format, "
                                "--channels, --rate, --utc, --skip and --counter are not for it");
    if (!from && (o->align_s > 0 || o->decimate))
        return tool_wrong_usage(&self, "%s is for instruments",
                                o->decimate ? "--decimate" : "--align");
    if (!o->format != !o->channels || !o->format != !(o->rate_hz > 0))
        return tool_wrong_usage(&self, "--format, --channels and --rate belong together");
    if (!o->stream.config && !(o->stream.endpoint && o->array_id != UINT64_MAX))
        return tool_wrong_usage(&self, "--config, or --endpoint and --array-id, is missing");
    return -1;
}

/* ---- setting up ------------------------------------------------------------------------------ */

static void on_signal(int number) {
    (void)number;
    stop = 1;
    source_interrupt(&feed.source);
}

/* Where a channel may be absent alone, its samples do not follow on each other. */
static sonar_code open_decimator(run *r, sonar_error *err) {
    const options *o = &r->options;
    sim_recording_info *info = &r->source.info;
    if (r->grid.units > 1)
        return sonar_fail(err, SONAR_EINVAL, o->where,
                          "--decimate is for an instrument whose channels come together, and these "
                          "are %zu",
                          r->grid.units);
    r->kept =
        sonar_alloc(info->channels * (o->stream.frame_samples / o->decimate + 1), sizeof *r->kept);
    if (!r->kept)
        return sonar_fail(err, SONAR_ENOMEM, o->where, "out of memory for a frame");
    const sonar_code code = decimator_create(info->channels, o->decimate, &r->decimator, err);
    info->fs_hz /= (double)o->decimate;
    info->format = SONAR_F32;
    if (!code)
        fprintf(stderr,
                "%s: %s: one sample of %" PRIu64 " is sent, at %.7g Hz; up to %.7g Hz the "
                "filter lets pass\n",
                self.name, o->where, o->decimate, info->fs_hz, 0.4 * info->fs_hz);
    return code;
}

/* Until it has told what it sends. */
static sonar_code open_instrument(run *r, sonar_error *err) {
    const options *o = &r->options;
    instrument_spec spec = {
        .tool = self.name, .where = o->where, .wait_s = o->align_s, .tally = &r->tally};
    instrument_find(o->where, &spec.address);
    r->tally.tool = self.name;
    fprintf(stderr, "%s: %s: waiting for its first samples\n", self.name, o->where);
    sonar_code code = r->instrument->open(&spec, &r->reader, err);
    while (!code && !stop && !(r->grid.fs_hz > 0))
        code = r->instrument->read(r->reader, &r->grid, err);
    r->source.info = (sim_recording_info){
        .channels = r->grid.channels, .fs_hz = r->grid.fs_hz, .format = r->instrument->format};
    return code || stop || !o->decimate ? code : open_decimator(r, err);
}

static sonar_code open_source(run *r, sonar_error *err) {
    const options *o = &r->options;
    source_spec spec = {.tool = self.name,
                        .where = o->where,
                        .skip = (size_t)o->skip,
                        .counter = o->counter,
                        .stop = &stop};
    char text[80];
    if (o->format) {
        snprintf(text, sizeof text, "%s:%" PRIu64 ":%.17g", o->format, o->channels, o->rate_hz);
        sim_raw_parse(text, &spec.raw);
    }
    return source_open(&r->source, &spec, err);
}

static sonar_code check(const run *r, sonar_error *err) {
    const sonar_config *c = r->config;
    const sim_recording_info *info = &r->source.info;
    if (c && info->channels != c->channels)
        return sonar_fail(err, SONAR_EINVAL, r->options.where,
                          "%zu channels, but the configuration has %zu; array.channel_count says "
                          "how many come, array.channels which of them are sensors",
                          info->channels, c->channels);
    if (c && fabs(info->fs_hz / c->fs_hz - 1) > 1e-6)
        return sonar_fail(err, SONAR_EINVAL, r->options.where,
                          "%g Hz, but the configuration has %g Hz: fs_hz there has to be the rate "
                          "that comes; nothing is resampled",
                          info->fs_hz, c->fs_hz);
    return SONAR_OK;
}

/* Each unit of an instrument is a digitiser, so that one that is absent is a gap in its channels.
 */
static sonar_code list_units(run *r, sonar_error *err) {
    const grid *g = &r->grid;
    r->absent = sonar_alloc(g->units, sizeof *r->absent);
    r->first_channel = sonar_alloc(g->units, sizeof *r->first_channel);
    if (!r->absent || !r->first_channel)
        return sonar_fail(err, SONAR_ENOMEM, r->options.where, "out of memory");
    for (size_t i = 0; i < g->units; i++)
        r->first_channel[i] = (uint32_t)g->unit[i].first;
    /* of several digitisers no frame may be longer than the daemon waits for the others */
    const double skew_ms = r->config ? r->config->max_skew_ms : 250;
    r->most = r->options.stream.frame_samples;
    if (g->units > 1)
        r->most = sonar_max_size(1, sonar_min_size(r->most, (size_t)(skew_ms * 1e-3 * g->fs_hz)));
    r->next = UINT64_MAX;
    return SONAR_OK;
}

static sonar_code connect_daemon(run *r, sonar_error *err) {
    const options *o = &r->options;
    const sim_recording_info *info = &r->source.info;
    const uint64_t array_id = o->array_id != UINT64_MAX ? o->array_id : r->config->array_id;
    sonar_code code = r->instrument ? list_units(r, err) : SONAR_OK;
    const sim_sender_spec about = {.array_id = (uint32_t)array_id,
                                   .channels = info->channels,
                                   .digitisers = r->instrument ? r->grid.units : 1,
                                   .first_channel = r->first_channel,
                                   .frame_samples = o->stream.frame_samples,
                                   .format = info->format,
                                   .layout = SONAR_FRAME_INTERLEAVED,
                                   .fs_hz = info->fs_hz};
    if (!code)
        code = sim_stream_open(&r->stream, err);
    if (!code)
        code = sim_stream_connect(&r->stream, &about, err);
    if (!code)
        code = sim_stream_begin(&r->stream, err);
    r->rows = sonar_alloc(info->channels * o->stream.frame_samples, sizeof *r->rows);
    r->counts = sonar_alloc(info->channels * o->stream.frame_samples, sizeof *r->counts);
    if (!code && (!r->rows || !r->counts))
        code = sonar_fail(err, SONAR_ENOMEM, o->where, "out of memory for a frame");
    return code;
}

/* ---- feeding --------------------------------------------------------------------------------- */

static void turn_round(const run *r, const float *rows, size_t samples) {
    const size_t channels = r->source.info.channels;
    for (size_t i = 0; i < samples; i++)
        for (size_t ch = 0; ch < channels; ch++)
            r->counts[ch * samples + i] = rows[i * channels + ch];
}

/* The next sample is the one that comes `lost` samples later, and the time is that of now. */
static void go_to(run *r, uint64_t lost) {
    r->index += lost;
    sim_stream_seek(&r->stream, false, r->index, timing_utc(&r->timing, r->index), 0);
}

static void say_lost(const run *r, uint64_t lost, const char *how) {
    if (lost)
        fprintf(stderr, "%s: %" PRIu64 " samples (%.3f s) were lost before they came here, %s\n",
                self.name, lost, (double)lost / r->source.info.fs_hz, how);
}

static sonar_code pass_on(run *r, const source_piece *piece, sonar_error *err) {
    const int64_t now_ns = piece->here_ns ? piece->here_ns : sonar_utc_ns();
    uint64_t lost = piece->lost, late;
    if (piece->renewed)
        lost += timing_pause(&r->timing, r->index + piece->samples, now_ns);
    say_lost(r, lost,
             piece->renewed   ? "by the time without a connection"
             : r->source.card ? "by the sound card's time stamps"
                              : "by the counter");
    const bool early = r->timing.early;
    const bool moved = timing_note(&r->timing, r->index + lost + piece->samples, now_ns, &late);
    say_lost(r, late, "by the clock");
    if (r->timing.early && !early)
        fprintf(stderr,
                "%s: samples come faster than they can have been taken: from here on they count "
                "by their number; --utc TIME tells their time, --wait loses none\n",
                self.name);
    if (lost + late || moved)
        go_to(r, lost + late);
    turn_round(r, r->rows, piece->samples);
    if (!sim_stream_send(&r->stream, r->counts, piece->samples, err))
        return err->code;
    r->index += piece->samples;
    return SONAR_OK;
}

static sonar_code pump(run *r, sonar_error *err) {
    const options *o = &r->options;
    source_piece piece = {.samples = 1};
    sonar_code code = SONAR_OK;
    r->timing = timing_begin(r->source.info.fs_hz, !o->from_stream, o->utc_ns);
    go_to(r, 0);
    while (!code && !stop && piece.samples) {
        code = source_read(&r->source, r->rows, o->stream.frame_samples, &piece, err);
        if (!code && piece.samples)
            code = pass_on(r, &piece, err);
    }
    return code;
}

/* After a jump a daemon goes on at once only with a frame of all channels. */
static sonar_code pass_units_on(run *r, const grid_piece *piece, sonar_error *err) {
    const bool all = !memchr(r->absent, 1, r->grid.units);
    r->jumped |= r->next != UINT64_MAX && (piece->renewed || piece->index != r->next);
    const bool whole = r->jumped && all && r->grid.units > 1;
    r->jumped &= !all;
    r->next = piece->index + piece->samples;
    sim_stream_seek(&r->stream, piece->renewed, piece->index, piece->utc_ns, 0);
    turn_round(r, r->kept ? r->kept : r->rows, piece->samples);
    return sim_stream_send_some(&r->stream, r->counts, piece->samples, r->absent, whole, err)
               ? SONAR_OK
               : err->code;
}

/* In place of the piece what is left of it; its time is that of the filter's middle. */
static void decimate(run *r, grid_piece *piece) {
    uint64_t first = 0;
    const size_t count =
        decimator_put(r->decimator, piece->index, r->rows, piece->samples, r->kept, &first);
    const double later = (double)(int64_t)(first * r->options.decimate - piece->index);
    piece->utc_ns += llrint(later / r->grid.fs_hz * 1e9);
    piece->index = first;
    piece->samples = count;
}

static sonar_code pump_instrument(run *r, sonar_error *err) {
    grid_piece piece;
    sonar_code code = SONAR_OK;
    bool renewed = false; /* a new stream has begun, and nothing of it has been sent */
    while (!code && !stop)
        if (!grid_take(&r->grid, r->rows, r->absent, r->most, &piece)) {
            code = r->instrument->read(r->reader, &r->grid, err);
        } else {
            if (r->decimator)
                decimate(r, &piece);
            renewed |= piece.renewed;
            piece.renewed = renewed;
            renewed &= !piece.samples;
            if (piece.samples)
                code = pass_units_on(r, &piece, err);
        }
    return code;
}

static void say_end(const run *r) {
    const double ppm = timing_drift_ppm(&r->timing);
    tally_say(&r->tally);
    if (r->source.strays)
        fprintf(stderr, "%s: %" PRIu64 " datagrams came late, twice or in another size\n",
                self.name, r->source.strays);
    if (card_overruns(r->source.card))
        fprintf(stderr, "%s: %" PRIu64 " times the sound card's buffer was full\n", self.name,
                card_overruns(r->source.card));
    if (isfinite(ppm))
        fprintf(stderr, "%s: the source's clock was %.1f ppm %s than this machine's\n", self.name,
                fabs(ppm), ppm < 0 ? "slower" : "faster");
}

static int run_all(run *r) {
    sonar_error err = {0};
    if (r->options.stream.config && !sim_load_config(r->options.stream.config, &r->config))
        return SIM_STREAM_WRONG_USAGE;
    r->stream = (sim_stream){
        .tool = self.name, .options = &r->options.stream, .config = r->config, .stop = &stop};
    sonar_code code = r->instrument ? open_instrument(r, &err) : open_source(r, &err);
    if (!code && !stop)
        code = check(r, &err);
    if (!code && !stop)
        code = connect_daemon(r, &err);
    if (code == SONAR_EUNAVAILABLE && stop)
        return EXIT_SUCCESS; /* asked to leave */
    if (!code && !stop)
        code = r->instrument ? pump_instrument(r, &err) : pump(r, &err);
    say_end(r);
    return code ? sim_complain(self.name, &err) : EXIT_SUCCESS;
}

int main(int argc, char **argv) {
    program_begin("sonar-feed");
    run *r = &feed;
    r->source.fd = -1;
    int code = read_options(argc, argv, &r->options);
    if (code >= 0)
        return code;
    const struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    r->source = (source){.listener = -1, .datagrams = -1, .fd = -1, .writer = -1};
    const char *address;
    r->instrument = instrument_find(r->options.where, &address);
    if (r->instrument) /* a record of minutes comes at once, and what is not read stays there */
        r->options.stream.wait = true;
    code = run_all(r);
    sim_stream_close(&r->stream, stop ? 0 : 10000);
    source_close(&r->source);
    if (r->instrument)
        r->instrument->close(r->reader);
    grid_free(&r->grid);
    decimator_destroy(r->decimator);
    free(r->kept);
    sonar_config_destroy(r->config);
    free(r->rows);
    free(r->counts);
    free(r->absent);
    free(r->first_channel);
    return code;
}
