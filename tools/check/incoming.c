/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "incoming.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "checker.h"
#include "core/core.h"
#include "ingest/frame.h"

enum {
    BLOCKS_MOST = 1024,
    CHANNELS_MOST = 65536,
    TEXT = 240,
    FRAMES_ENOUGH = 10,
    ARRIVALS_MOST = 16,
    ARRIVALS_EVERY_NS = 100000000 /* at first */
};

static const double RATE_TOLERANCE = 1e-6;                      /* the same as the daemon's */
static const double PACE_TOLERANCE = 0.02, PACE_LEAST_S = 2;    /* of arrivals */
static const double AHEAD_S = 1, BEHIND_S = 60, STEP_S = 0.001; /* of UTC */
static const double CLIPPED_SHARE = 0.001, SAMPLE_MOST = 0x1p40, SWAPPED_RATIO = 16;

/* ---- findings -------------------------------------------------------------------------------- */

/* In the order in which they are printed. */
#define FINDINGS(X)                                                                                \
    X(PARTS, true, "parts")                                                                        \
    X(HEADER, true, "header")                                                                      \
    X(FLAGS, true, "flags")                                                                        \
    X(ARRAY, true, "array id")                                                                     \
    X(CHANNELS, true, "channels")                                                                  \
    X(TYPE, true, "sample type")                                                                   \
    X(RATE, true, "sampling rate")                                                                 \
    X(LENGTH, true, "payload")                                                                     \
    X(NOT_FINITE, true, "values")                                                                  \
    X(RANGE, true, "values")                                                                       \
    X(SPIKE, true, "values")                                                                       \
    X(EPOCH, true, "stream epoch")                                                                 \
    X(SEQUENCE, true, "sequence")                                                                  \
    X(REPEATED, true, "first sample")                                                              \
    X(GAP, true, "first sample")                                                                   \
    X(UTC_UNIT, true, "UTC")                                                                       \
    X(UTC_OFFSET, true, "UTC")                                                                     \
    X(UTC_STEP, false, "UTC")                                                                      \
    X(UTC_NONE, false, "UTC")                                                                      \
    X(LONG, false, "samples")                                                                      \
    X(SHARED, false, "shared memory")

#define NAME(name, wrong, field) name,
typedef enum finding { FINDINGS(NAME) FINDING_COUNT } finding;
#undef NAME
#define ROW(name, wrong, field) {wrong, field},
static const struct {
    bool wrong; /* the daemon drops or misreads such messages; else only worth knowing */
    const char *field;
} about[] = {FINDINGS(ROW)};
#undef ROW

typedef struct found {
    uint64_t count, first; /* number of messages, and the number of the first one, from 1 */
    char text[TEXT];       /* of the first one */
} found;

typedef struct arrival {
    int64_t ns;
    uint64_t sample; /* the one after the frame */
} arrival;

typedef struct block {
    uint32_t first_channel, channels, epoch, samples;
    uint64_t frames, next_sequence, next_sample;
    int64_t utc_ns; /* of next_sample, 0: unknown */
    double fs_hz;
    arrival arrival[ARRIVALS_MOST], end; /* the first one, some between, the last one */
    size_t arrivals;
    int64_t every_ns; /* between those that are kept */
} block;

/* What is known of a channel's samples so far. */
typedef struct channel {
    uint64_t count, clipped, hash;
    float least, most, last;
    double rough, rough_swapped; /* sums of steps, as received and with swapped bytes */
    uint32_t low_byte;           /* all bits that are set in any low byte */
} channel;

struct incoming {
    const sonar_config *config;
    uint64_t messages;
    found found[FINDING_COUNT];
    block block[BLOCKS_MOST];
    size_t blocks;
    channel *channel; /* [CHANNELS_MOST] */
    float *samples;   /* [SONAR_FRAME_MAX_SAMPLES] of one channel */
    uint8_t type;     /* of the last good frame */
};

static void note(incoming *f, finding what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void note(incoming *f, finding what, const char *format, ...) {
    found *to = &f->found[what];
    va_list args;
    if (to->count++)
        return;
    to->first = f->messages;
    va_start(args, format);
    vsnprintf(to->text, sizeof to->text, format, args);
    va_end(args);
}

/* ---- life ------------------------------------------------------------------------------------ */

incoming *incoming_create(const sonar_config *config) {
    incoming *f = sonar_alloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->config = config;
    f->channel = sonar_alloc(CHANNELS_MOST, sizeof *f->channel);
    f->samples = sonar_alloc(SONAR_FRAME_MAX_SAMPLES, sizeof *f->samples);
    if (f->channel && f->samples)
        return f;
    incoming_destroy(f);
    return NULL;
}

void incoming_destroy(incoming *f) {
    if (!f)
        return;
    free(f->channel);
    free(f->samples);
    free(f);
}

static bool is_rate(double fs_hz) {
    return fs_hz >= 1e-3 && fs_hz <= 1e9;
}

/* ---- headers --------------------------------------------------------------------------------- */

static void check_configured(incoming *f, const sonar_frame *frame) {
    const sonar_config *c = f->config;
    const uint64_t end = (uint64_t)frame->first_channel + frame->channels;
    if (frame->array_id != c->array_id)
        note(f, ARRAY, "%u, the configuration has %u", frame->array_id, c->array_id);
    if (end > c->channels)
        note(f, CHANNELS, "%u to %" PRIu64 ", the configuration has 0 to %zu", frame->first_channel,
             end - 1, c->channels - 1);
    if (c->sample_type == SONAR_S16 && frame->type != SONAR_S16)
        note(f, TYPE, "%u, the configuration has ingest.sample_type: s16, which is 1", frame->type);
    if (!(fabs(frame->fs_hz - c->fs_hz) <= RATE_TOLERANCE * c->fs_hz))
        note(f, RATE, "%.10g Hz, the configuration has %.10g; within 1 ppm is accepted",
             frame->fs_hz, c->fs_hz);
    if (frame->samples > c->specs.hop)
        note(f, LONG, "%u of each channel in a frame are more than the hop of %zu: spectra wait",
             frame->samples, c->specs.hop);
}

static bool check_length(incoming *f, const sonar_frame *frame, size_t bytes) {
    const uint64_t wanted = sonar_frame_payload_bytes(frame);
    if (bytes != wanted)
        note(f, LENGTH, "%zu bytes; %u channels of %u samples of %zu bytes are %" PRIu64, bytes,
             frame->channels, frame->samples, sonar_dtype_size((sonar_dtype)frame->type), wanted);
    return bytes == wanted;
}

/* ---- order ----------------------------------------------------------------------------------- */

static block *block_of(incoming *f, const sonar_frame *frame) {
    for (size_t i = 0; i < f->blocks; i++)
        if (f->block[i].first_channel == frame->first_channel &&
            f->block[i].channels == frame->channels)
            return &f->block[i];
    return NULL;
}

static void check_order(incoming *f, const block *b, const sonar_frame *frame) {
    const uint64_t is = frame->first_sample, wanted = b->next_sample;
    if (frame->epoch != b->epoch) {
        note(f, EPOCH, "%u follows %u: the daemon treats that as a restarted digitiser",
             frame->epoch, b->epoch);
        return;
    }
    if (frame->sequence != b->next_sequence)
        note(f, SEQUENCE,
             "%" PRIu64 " instead of %" PRIu64 ": it increases by one with each frame "
             "of the block",
             frame->sequence, b->next_sequence);
    if (is < wanted)
        note(f, REPEATED, "%" PRIu64 ", but samples up to %" PRIu64 " were received before", is,
             wanted - 1);
    if (is > wanted)
        note(f, GAP, "%" PRIu64 " instead of %" PRIu64 ": %" PRIu64 " samples are missing", is,
             wanted, is - wanted);
}

/* All blocks of an array count from the same origin. */
static void check_others(incoming *f, const sonar_frame *frame) {
    const block *first = &f->block[0];
    if (f->blocks && first->epoch != frame->epoch && first->first_channel != frame->first_channel)
        note(f, EPOCH,
             "%u of channel %u, and %u of channel %u: it is the same for all blocks of an "
             "array",
             frame->epoch, frame->first_channel, first->epoch, first->first_channel);
    for (size_t i = 0; i < f->blocks; i++) {
        const block *b = &f->block[i];
        const bool same =
            b->first_channel == frame->first_channel && b->channels == frame->channels;
        if (!same && (uint64_t)b->first_channel + b->channels > frame->first_channel &&
            (uint64_t)frame->first_channel + frame->channels > b->first_channel)
            note(f, CHANNELS, "%u to %u are in one block and %u to %u in another", b->first_channel,
                 b->first_channel + b->channels - 1, frame->first_channel,
                 frame->first_channel + frame->channels - 1);
    }
}

static const char *utc_unit(int64_t utc_ns, int64_t now_ns) {
    static const struct {
        double ns;
        const char *name;
    } unit[] = {{1e3, "microseconds"}, {1e6, "milliseconds"}, {1e9, "seconds"}};
    const double year_ns = 365.25 * 86400e9;
    for (size_t i = 0; i < sizeof unit / sizeof *unit; i++)
        if (fabs((double)utc_ns * unit[i].ns - (double)now_ns) < year_ns)
            return unit[i].name;
    return NULL;
}

static void check_utc(incoming *f, const block *b, const sonar_frame *frame, int64_t utc_ns) {
    const double age_s = (double)(utc_ns - frame->utc_ns) * 1e-9;
    const double length_s = is_rate(frame->fs_hz) ? frame->samples / frame->fs_hz : 0;
    const bool live = !(frame->flags & SONAR_FRAME_REPLAY); /* a recording has its own time */
    const char *unit = live && frame->utc_ns ? utc_unit(frame->utc_ns, utc_ns) : NULL;
    if (!frame->utc_ns)
        note(f, UTC_NONE,
             "0, unknown: spectra have no date, and bearings no heading for their time");
    else if (unit)
        note(f, UTC_UNIT, "%" PRId64 " seems to be in %s: it must be in ns since 1970",
             frame->utc_ns, unit);
    else if (live && (age_s > BEHIND_S || age_s < length_s - AHEAD_S))
        note(f, UTC_OFFSET, "%.3f s %s this machine's clock", fabs(age_s),
             age_s > 0 ? "behind" : "ahead of");
    if (!b || !b->utc_ns || !frame->utc_ns || unit || frame->first_sample != b->next_sample ||
        frame->epoch != b->epoch)
        return;
    const double step_s = (double)(frame->utc_ns - b->utc_ns) * 1e-9;
    if (fabs(step_s) > STEP_S)
        note(f, UTC_STEP, "%+.6f s from the time by sample count and rate", step_s);
}

static void keep_arrival(block *b, arrival now) {
    b->end = now;
    if (b->arrivals && now.ns - b->arrival[b->arrivals - 1].ns < b->every_ns)
        return;
    if (b->arrivals == ARRIVALS_MOST) {
        b->arrivals /= 2;
        b->every_ns *= 2;
        for (size_t i = 1; i < b->arrivals; i++)
            b->arrival[i] = b->arrival[2 * i];
    }
    b->arrival[b->arrivals++] = now;
}

static void follow(incoming *f, block *b, const sonar_frame *frame, int64_t now_ns) {
    if (!b && f->blocks == BLOCKS_MOST)
        return;
    const uint64_t end = frame->first_sample + frame->samples;
    if (!b || b->epoch != frame->epoch) {
        const uint64_t before = b ? b->frames : 0;
        b = b ? b : &f->block[f->blocks++];
        *b = (block){.first_channel = frame->first_channel,
                     .channels = frame->channels,
                     .epoch = frame->epoch,
                     .frames = before,
                     .every_ns = ARRIVALS_EVERY_NS};
    }
    b->frames++;
    b->samples = frame->samples;
    b->fs_hz = frame->fs_hz;
    b->next_sequence = frame->sequence + 1;
    b->next_sample = end;
    keep_arrival(b, (arrival){now_ns, end});
    b->utc_ns = frame->utc_ns && is_rate(frame->fs_hz)
                    ? frame->utc_ns + (int64_t)llrint(frame->samples / frame->fs_hz * 1e9)
                    : 0;
}

/* ---- values ---------------------------------------------------------------------------------- */

static float full_scale(uint8_t type) {
    return type == SONAR_S16 ? 32767 : type == SONAR_S24 ? 8388607 : 2147483520;
}

/* A sample with its bytes swapped; 16 or 24 bits. */
static double swapped(float x, uint8_t type) {
    const uint32_t bits = (uint32_t)(int32_t)x;
    if (type == SONAR_S16)
        return (int16_t)(uint16_t)((bits & 0xff) << 8 | (bits >> 8 & 0xff));
    return (double)(int32_t)((bits & 0xff) << 24 | (bits & 0xff00) << 8 | (bits >> 8 & 0xff00)) /
           256;
}

/* Sound is smoother than the same bytes in the wrong order. */
static void add_steps(channel *ch, const float *samples, const sonar_frame *frame) {
    for (uint32_t i = 0; i < frame->samples; i++) {
        ch->rough += fabs((double)samples[i] - (double)ch->last);
        ch->rough_swapped +=
            fabs(swapped(samples[i], frame->type) - swapped(ch->last, frame->type));
        ch->low_byte |= (uint32_t)(int32_t)samples[i] & 0xff;
        ch->last = samples[i];
    }
}

static void look_at_channel(incoming *f, const sonar_frame *frame, const void *payload,
                            uint32_t k) {
    channel *ch = &f->channel[frame->first_channel + k];
    if (!sonar_frame_unpack(frame, payload, k, 0, frame->samples, f->samples))
        return;
    if (!ch->count)
        *ch = (channel){.least = f->samples[0], .most = f->samples[0], .last = f->samples[0]};
    for (uint32_t i = 0; i < frame->samples; i++) {
        const float x = f->samples[i];
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        ch->hash = (ch->hash ^ bits) * UINT64_C(0x100000001b3);
        ch->least = x < ch->least ? x : ch->least;
        ch->most = x > ch->most ? x : ch->most;
        ch->clipped += frame->type != SONAR_F32 && fabsf(x) >= full_scale(frame->type);
    }
    if (frame->type == SONAR_S16 || frame->type == SONAR_S24)
        add_steps(ch, f->samples, frame);
    ch->count += frame->samples;
}

static void check_values(incoming *f, const sonar_frame *frame, const void *payload) {
    const float peak = sonar_frame_peak(frame, payload);
    if (!isfinite(peak))
        note(f, NOT_FINITE, "an infinity or not a number: the frame is dropped");
    else if (peak > SAMPLE_MOST)
        note(f, RANGE, "%g is larger than sound can be: the frame is dropped", (double)peak);
    else if (sonar_frame_has_spike(frame, payload))
        note(f, SPIKE,
             "one sample is more than 60 dB above all others of its channel, as a wrong bit "
             "makes it");
    f->type = frame->type;
    for (uint32_t k = 0; k < frame->channels; k++)
        if ((uint64_t)frame->first_channel + k < CHANNELS_MOST)
            look_at_channel(f, frame, payload, k);
}

/* ---- a message ------------------------------------------------------------------------------- */

void incoming_take(incoming *f, size_t parts, const void *const data[2], const size_t bytes[2],
                   int64_t now_ns, int64_t utc_ns) {
    const uint16_t known = SONAR_FRAME_OF_SAMPLES | SONAR_FRAME_SHARED | SONAR_FRAME_REPLAY;
    sonar_frame frame;
    sonar_error err = {0};
    f->messages++;
    if (parts != 2) {
        note(f, PARTS, "%zu; a message is a header and the samples", parts);
        return;
    }
    if (sonar_frame_decode(data[0], bytes[0], &frame, &err)) {
        note(f, HEADER, "%s", err.text);
        return;
    }
    if (frame.flags & ~known)
        note(f, FLAGS, "0x%04x has undefined bits", frame.flags);
    if (f->config)
        check_configured(f, &frame);
    else if (!is_rate(frame.fs_hz))
        note(f, RATE, "%g Hz is not a rate", frame.fs_hz);
    block *b = block_of(f, &frame);
    check_others(f, &frame);
    if (b)
        check_order(f, b, &frame);
    check_utc(f, b, &frame, utc_ns);
    follow(f, b, &frame, now_ns);
    if (frame.flags & SONAR_FRAME_SHARED)
        note(f, SHARED, "samples in shared memory are not checked");
    else if (check_length(f, &frame, bytes[1]))
        check_values(f, &frame, data[1]);
}

/* ---- the report ------------------------------------------------------------------------------ */

static void print_line(FILE *to, bool wrong, const char *field, const char *text) {
    fprintf(to, "%-6s %-14s %s\n", wrong ? "wrong" : "note", field, text);
}

/* 1 and -1: more and fewer samples came between two arrivals than the header's rate says. */
static int pace_between(const block *b, arrival from, arrival to) {
    const double due = b->fs_hz * (double)(to.ns - from.ns) * 1e-9;
    const double more = (double)(to.sample - from.sample) - due;
    const double most = PACE_TOLERANCE * due + 2.0 * b->samples;
    return more > most ? 1 : more < -most ? -1 : 0;
}

static arrival middle_of(const block *b) {
    const int64_t at_ns = b->arrival[0].ns + (b->end.ns - b->arrival[0].ns) / 2;
    size_t i = b->arrivals - 1;
    while (i > 0 && b->arrival[i].ns > at_ns)
        i--;
    return b->arrival[i];
}

/* The rate at which samples arrive, compared with the header's rate. It is wrong if it is in both
 * halves: frames that waited, for the network or for a processor, come fast in one of them. */
static bool print_pace(const block *b, FILE *to) {
    char text[TEXT];
    const arrival begin = b->arrival[0], middle = middle_of(b);
    const double seconds = (double)(b->end.ns - begin.ns) * 1e-9;
    const double came = (double)(b->end.sample - begin.sample);
    if (seconds < PACE_LEAST_S || b->frames < FRAMES_ENOUGH || !is_rate(b->fs_hz))
        return true;
    const int pace = pace_between(b, begin, b->end);
    if (!pace || pace_between(b, begin, middle) != pace || pace_between(b, middle, b->end) != pace)
        return true;
    snprintf(text, sizeof text,
             "%.6g samples of channel %u arrive in a second, its header says %.6g", came / seconds,
             b->first_channel, b->fs_hz);
    print_line(to, true, "pace", text);
    return false;
}

/* The list "3, 7 and 4 more". */
static void add_channel(char *text, size_t *listed, size_t channel) {
    const size_t used = strlen(text);
    if ((*listed)++ < 10)
        snprintf(text + used, TEXT - used, "%s%zu", *listed > 1 ? ", " : "", channel);
}

static bool print_channels(FILE *to, bool wrong, const char *field, const char *list, size_t count,
                           const char *what) {
    char text[2 * TEXT];
    if (!count)
        return true;
    snprintf(text, sizeof text, "%zu channels %s: %s%s", count, what, list,
             count > 10 ? ", ..." : "");
    print_line(to, wrong, field, text);
    return !wrong;
}

/* If the low byte is always 0, the values were shifted up, and swapped bytes look smooth too. */
static bool looks_swapped(const channel *ch) {
    return ch->low_byte && ch->rough_swapped > 0 && ch->rough > SWAPPED_RATIO * ch->rough_swapped;
}

typedef struct print {
    uint64_t hash, count;
} print;

static int by_hash(const void *a, const void *b) {
    const print *x = a, *y = b;
    return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash)
                              : (x->count > y->count) - (x->count < y->count);
}

/* The fingerprints of all channels that are not constant, sorted. NULL: no memory. */
static print *sort_prints(const incoming *f, size_t end, size_t *count) {
    print *all = sonar_alloc(end + 1, sizeof *all);
    *count = 0;
    for (size_t k = 0; k < end && all; k++)
        if (f->channel[k].least < f->channel[k].most)
            all[(*count)++] = (print){f->channel[k].hash, f->channel[k].count};
    if (all)
        qsort(all, *count, sizeof *all, by_hash);
    return all;
}

/* True if the channel equals another one, sample by sample. */
static bool repeats_another(const channel *ch, const print *all, size_t count) {
    const print key = {ch->hash, ch->count};
    const print *at = all ? bsearch(&key, all, count, sizeof *all, by_hash) : NULL;
    return at && ((at > all && !by_hash(at - 1, &key)) ||
                  (at + 1 < all + count && !by_hash(at + 1, &key)));
}

static bool print_values(const incoming *f, FILE *to) {
    char absent[TEXT] = "", still[TEXT] = "", same[TEXT] = "", clipped[TEXT] = "",
         turned[TEXT] = "";
    size_t absents = 0, stills = 0, sames = 0, clips = 0, turns = 0, end = CHANNELS_MOST;
    while (end && !f->channel[end - 1].count)
        end--;
    size_t prints;
    print *all = sort_prints(f, end, &prints);
    const size_t wanted = f->config ? sonar_min_size(f->config->channels, CHANNELS_MOST) : end;
    for (size_t k = 0; k < sonar_max_size(end, wanted); k++) {
        const channel *ch = &f->channel[k];
        if (!ch->count && k < wanted && !f->found[SHARED].count)
            add_channel(absent, &absents, k);
        else if (ch->count && !(ch->least < ch->most))
            add_channel(still, &stills, k);
        else if (ch->count && repeats_another(ch, all, prints))
            add_channel(same, &sames, k);
        if (ch->count && (double)ch->clipped > CLIPPED_SHARE * (double)ch->count)
            add_channel(clipped, &clips, k);
        if (looks_swapped(ch))
            add_channel(turned, &turns, k);
    }
    free(all);
    print_channels(to, false, "values", turned, turns, "look as if bytes came in the wrong order");
    bool good =
        print_channels(to, true, "channels", absent, absents, "were never received with samples");
    good =
        print_channels(to, true, "values", still, stills, "have one value in all samples") && good;
    good = print_channels(to, true, "values", same, sames, "have the samples of another channel") &&
           good;
    return print_channels(to, true, "values", clipped, clips, "are often at full scale") && good;
}

static bool print_findings(const incoming *f, FILE *to) {
    char text[TEXT + 80];
    bool good = true;
    for (int i = 0; i < FINDING_COUNT; i++) {
        const found *is = &f->found[i];
        if (!is->count)
            continue;
        snprintf(text, sizeof text,
                 "%s (%" PRIu64 " of %" PRIu64 " messages, the first is number %" PRIu64 ")",
                 is->text, is->count, f->messages, is->first);
        print_line(to, about[i].wrong, about[i].field, text);
        good = good && !about[i].wrong;
    }
    return good;
}

int incoming_print(const incoming *f, FILE *to) {
    static const char *const type[] = {
        [SONAR_S16] = "s16", [SONAR_S24] = "s24", [SONAR_S32] = "s32", [SONAR_F32] = "f32"};
    if (!f->messages) {
        fputs("No message was received: does the digitiser connect to this endpoint?\n", to);
        return EXIT_NOTHING;
    }
    fprintf(to, "%" PRIu64 " messages\n", f->messages);
    for (size_t i = 0; i < f->blocks; i++)
        fprintf(to, "block  channels %u to %u, %" PRIu64 " frames of %u samples, %.10g Hz%s%s\n",
                f->block[i].first_channel, f->block[i].first_channel + f->block[i].channels - 1,
                f->block[i].frames, f->block[i].samples, f->block[i].fs_hz, f->type ? ", " : "",
                f->type ? type[f->type] : "");
    bool good = print_findings(f, to);
    for (size_t i = 0; i < f->blocks; i++)
        good = print_pace(&f->block[i], to) && good;
    good = print_values(f, to) && good;
    fputs(good ? "No problem found.\n" : "The daemon would drop or misread some of them.\n", to);
    return good ? EXIT_WITHIN : EXIT_BEYOND;
}
