/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "febus.h"

#include <endian.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "core/core.h"
#include "fibre.h"

enum { WAIT_MS = 200, SILENT_S = 5, TEXT = 200 };
enum { HEAD, ABOUT, SAMPLES, PARTS }; /* of an answer */
static const double block_most_s = 60, samples_most = 16777216;
static const double beside = 0.1;    /* of the step between blocks: stamps are not exact */
static const double near = 0.75;     /* of a sample, as in the grid */
static const double ask_after = 0.4; /* of the step: no block is missed, and few come twice */
static const int64_t ms_ns = 1000000, s_ns = 1000000000;

/* ---- the header ------------------------------------------------------------------------------ */

static double real(const uint8_t *at) {
    uint64_t bits;
    double value;
    memcpy(&bits, at, sizeof bits);
    bits = le64toh(bits);
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int64_t whole(const uint8_t *at) {
    uint32_t bits;
    memcpy(&bits, at, sizeof bits);
    return (int32_t)le32toh(bits);
}

typedef struct description {
    double spacing[3], origin[3]; /* distance in m, time in ms, and what has one index */
    int64_t first[3], last[3];
    int64_t width;
} description;

static description describe(const uint8_t *about) {
    description d = {.width = whole(about + FEBUS_ABOUT - 4)};
    for (size_t i = 0; i < 3; i++) {
        d.spacing[i] = real(about + 8 * i);
        d.origin[i] = real(about + 24 + 8 * i);
        d.first[i] = whole(about + 48 + 8 * i);
        d.last[i] = whole(about + 52 + 8 * i);
    }
    return d;
}

/* NaN is not. */
static bool between(double value, double least, double most) {
    return value >= least && value <= most;
}

static const char *judge_axes(const description *d, char text[TEXT]) {
    if (!between(d->spacing[0], 1e-3, 1e5))
        snprintf(text, TEXT, "channels are %g m apart; 0.001 to 100000 m are read", d->spacing[0]);
    else if (!between(d->spacing[1], 0.01, 1e6))
        snprintf(text, TEXT, "samples are %g ms apart; 0.01 to 1000000 ms are read", d->spacing[1]);
    else if (!between(d->origin[0], -1e9, 1e9))
        snprintf(text, TEXT, "the fibre begins at %g m; up to 1e9 m are read", d->origin[0]);
    else if (d->first[0] < 0 || d->last[0] < d->first[0] ||
             d->last[0] - d->first[0] >= (int64_t)fibre_channels_most)
        snprintf(text, TEXT,
                 "it has channels %" PRId64 " to %" PRId64 "; from 0 on, at most %.0f are read",
                 d->first[0], d->last[0], fibre_channels_most);
    else if (d->first[1] || d->last[1] < 3 || d->last[1] % 2 == 0 ||
             d->last[1] >= (int64_t)samples_most)
        snprintf(text, TEXT,
                 "its block has samples %" PRId64 " to %" PRId64 "; 0 to an odd number from 3 to "
                 "%.0f are read",
                 d->first[1], d->last[1], samples_most - 1);
    else if (d->first[2] != d->last[2])
        snprintf(text, TEXT,
                 "its third axis has indices %" PRId64 " to %" PRId64 "; only one index is read",
                 d->first[2], d->last[2]);
    else if (d->width != FEBUS_WIDTH && d->width != 0)
        snprintf(text, TEXT,
                 "a sample has %" PRId64 " bytes; 4, or 0, which does not say it, is read",
                 d->width);
    else
        return NULL;
    return text;
}

static const char *judge_size(const febus_header *h, size_t bytes, char text[TEXT]) {
    const size_t wanted = h->samples * h->channels * FEBUS_WIDTH; /* both are bounded */
    if ((double)h->samples / h->fs_hz > block_most_s)
        snprintf(text, TEXT, "a block lasts %g s; up to %g s are read",
                 (double)h->samples / h->fs_hz, block_most_s);
    else if ((double)wanted > fibre_bytes_most)
        snprintf(text, TEXT, "a block of %zu x %zu samples would have more than 1 GB", h->samples,
                 h->channels);
    else if (bytes != wanted)
        snprintf(text, TEXT, "%zu x %zu samples have %zu bytes, and %zu came", h->samples,
                 h->channels, wanted, bytes);
    else
        return NULL;
    return text;
}

/* The stamp is the time of the block's begin, or as much later as the time axis begins before 0. */
static const char *judge_time(const description *d, double stamp_s, febus_header *h,
                              char text[TEXT]) {
    const double block_ms = (double)h->samples * d->spacing[1];
    if (!between(d->origin[1], -block_ms, 0)) {
        snprintf(text, TEXT,
                 "the time axis begins %g ms after the stamp; %g (the block's length) to 0 ms are "
                 "read",
                 d->origin[1], -block_ms);
        return text;
    }
    if (between(stamp_s, 0, (double)fibre_utc_most_ns * 1e-9))
        h->utc_ns = llrint(stamp_s * 1e9) + llrint(d->origin[1] * 1e6);
    if (between(stamp_s, 0, (double)fibre_utc_most_ns * 1e-9) && h->utc_ns >= 0)
        return NULL;
    snprintf(text, TEXT, "a block's time is %.9g s since 1970; 0 to %g s are read", stamp_s,
             (double)fibre_utc_most_ns * 1e-9);
    return text;
}

const char *febus_read_header(febus_part head, febus_part about, size_t sample_bytes,
                              febus_header *to, char text[TEXT]) {
    *to = (febus_header){0};
    if (head.bytes != FEBUS_HEAD) {
        snprintf(text, TEXT, "its head has %zu bytes; %d are read", head.bytes, FEBUS_HEAD);
        return text;
    }
    if (whole(head.data) != 1) {
        snprintf(text, TEXT,
                 "its head says %" PRId64 " sets of data; 1, of strain or strain rate, is read (4: "
                 "raw data)",
                 whole(head.data));
        return text;
    }
    if (about.bytes != FEBUS_ABOUT) {
        snprintf(text, TEXT, "its description has %zu bytes; %d are read", about.bytes,
                 FEBUS_ABOUT);
        return text;
    }
    const description d = describe(about.data);
    const char *wrong = judge_axes(&d, text);
    if (wrong)
        return wrong;
    to->samples = (size_t)(d.last[1] + 1);
    to->channels = (size_t)(d.last[0] - d.first[0] + 1);
    to->fs_hz = 1e3 / d.spacing[1];
    to->dx_m = d.spacing[0];
    to->x_m = d.origin[0] + (double)d.first[0] * d.spacing[0];
    wrong = judge_size(to, sample_bytes, text);
    return wrong ? wrong : judge_time(&d, real(head.data + 4), to, text);
}

/* ---- the instrument -------------------------------------------------------------------------- */

typedef struct febus {
    fibre fibre;
    zmq_msg_t part[PARTS + 1];
    bool asked;
    int64_t asked_ns, next_ns; /* when something was, and is asked next */
    int64_t retry_ms;
    febus_header header; /* of the block in `part` */
    /* of blocks before, samples 0: of none. The first; the last one that was put and is not late;
     * the one that came last; the one that is not looked at again */
    febus_header began, put, seen, done;
    bool ends;    /* the grid ends where all of `put` does, and not a part of it */
    bool follows; /* the block in `part` continues `put` */
} febus;

static sonar_code open_febus(const instrument_spec *spec, void **self, sonar_error *err) {
    febus *o = *self = sonar_alloc(1, sizeof *o);
    if (!o)
        return sonar_fail(err, SONAR_ENOMEM, spec->where, "out of memory");
    *o = (febus){.retry_ms = FIBRE_RETRY_MS};
    for (size_t i = 0; i <= PARTS; i++)
        zmq_msg_init(&o->part[i]);
    const sonar_code code = fibre_open(&o->fibre, spec, instrument_febus.form, err);
    return code ? code : fibre_dial(&o->fibre, ZMQ_REQ, err);
}

static void close_febus(void *self) {
    febus *o = self;
    if (!o)
        return;
    for (size_t i = 0; i <= PARTS; i++)
        zmq_msg_close(&o->part[i]);
    fibre_close(&o->fibre);
    free(o);
}

/* Of blocks that overlap by half. 0: none has come. */
static double step_s(const febus *o) {
    const febus_header *h = o->put.samples ? &o->put : &o->seen;
    return h->samples ? (double)(h->samples / 2) / h->fs_hz : 0;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void wait_until(int64_t ns) {
    const int64_t left_ms = (ns - sonar_monotonic_ns() + ms_ns - 1) / ms_ns;
    if (left_ms > 0)
        poll(NULL, 0, (int)(left_ms < WAIT_MS ? left_ms : WAIT_MS));
}

/* A socket that waits for an answer cannot ask again: another one does. */
static void hang_up(febus *o, const char *why) {
    tally_note(o->fibre.spec.tally, TALLY_ENDED, o->fibre.name, "%s; it is dialled again in %g s",
               why, (double)o->retry_ms * 1e-3);
    fibre_hang_up(&o->fibre);
    o->asked = false;
    o->next_ns = sonar_monotonic_ns() + o->retry_ms * ms_ns;
    o->retry_ms = o->retry_ms < FIBRE_RETRY_MOST_MS / 2 ? 2 * o->retry_ms : FIBRE_RETRY_MOST_MS;
}

/* 0 asks for the newest block, which all public clients and servers know. Some clients send the
 * time of the block before instead; a1das's virtual server refuses that. */
static void ask(febus *o) {
    const double newest = 0;
    sonar_error err = {0};
    if (!o->fibre.socket && fibre_dial(&o->fibre, ZMQ_REQ, &err)) {
        hang_up(o, err.text);
        return;
    }
    if (zmq_send(o->fibre.socket, &newest, sizeof newest, ZMQ_DONTWAIT) < 0) {
        hang_up(o, zmq_strerror(errno));
        return;
    }
    o->asked = true;
    o->asked_ns = sonar_monotonic_ns();
}

/* A device may answer only when a block is complete. */
static void note_silence(febus *o) {
    char text[80];
    const double patience_s = fmax(SILENT_S, 3 * step_s(o)) + (double)o->retry_ms * 1e-3;
    if ((double)(sonar_monotonic_ns() - o->asked_ns) < patience_s * (double)s_ns)
        return;
    snprintf(text, sizeof text, "it has not answered for %.1f s", patience_s);
    hang_up(o, text);
}

/* The number of parts, of which only the first PARTS are kept; 0: none. */
static size_t receive(febus *o) {
    size_t parts = 0;
    bool more = true;
    while (more) {
        zmq_msg_t *to = &o->part[parts < PARTS ? parts : PARTS];
        if (zmq_msg_recv(to, o->fibre.socket, ZMQ_DONTWAIT) < 0)
            return 0;
        parts++;
        more = zmq_msg_more(to);
    }
    return parts;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* The middle half of the block, as most public readers take it: samples at the edges may be less
 * exact, and the middle halves of all blocks follow on each other. */
static fibre_message half_of(febus *o) {
    const febus_header *h = &o->header;
    const size_t edge = h->samples / 4;
    return (fibre_message){.rows = (const uint8_t *)zmq_msg_data(&o->part[SAMPLES]) +
                                   edge * h->channels * FEBUS_WIDTH,
                           .samples = h->samples / 2,
                           .channels = h->channels,
                           .type = FIBRE_FLOAT,
                           .fs_hz = h->fs_hz,
                           .utc_ns = h->utc_ns + llrint((double)edge / h->fs_hz * 1e9),
                           .follows = o->follows};
}

/* Are the channels at the same places of the fibre? */
static bool is_beside(const febus_header *a, const febus_header *b) {
    return fabs(a->dx_m / b->dx_m - 1) < 1e-6 && fabs(a->x_m - b->x_m) < 0.01 * b->dx_m;
}

/* How many steps the block begins after that one. NaN: one of them has another form. */
static double steps_since(const febus *o, const febus_header *before) {
    const febus_header *h = &o->header;
    if (before->samples != h->samples || before->channels != h->channels ||
        fabs(h->fs_hz / before->fs_hz - 1) > 1e-6 || !is_beside(h, before))
        return NAN;
    return (double)(h->utc_ns - before->utc_ns) * 1e-9 * h->fs_hz / (double)(h->samples / 2);
}

static bool is_step(double steps) {
    return fabs(steps - 1) < beside;
}

static bool is_like_first(const febus *o, const grid *grid) {
    const febus_header *h = &o->header, *b = &o->began;
    if (is_beside(h, b))
        return fibre_matches(&o->fibre, grid, h->channels, h->fs_hz);
    tally_note(o->fibre.spec.tally, TALLY_RATE, o->fibre.name,
               "channels %g m apart from %g m on are left out; it began with %g m from %g m on",
               h->dx_m, h->x_m, b->dx_m, b->x_m);
    return false;
}

/* The first block of all is only compared with the next, and is no stray. */
static void note_stray(const febus *o) {
    const febus_header *h = &o->header, *before = o->put.samples ? &o->put : &o->seen;
    const double steps = steps_since(o, before);
    tally *t = o->fibre.spec.tally;
    if (before->samples && !isfinite(steps))
        tally_note(t, TALLY_RATE, o->fibre.name,
                   "a block of %zu x %zu samples comes after one of %zu x %zu, and is left out; "
                   "such blocks are taken from the next one on, if that overlaps by half",
                   h->samples, h->channels, before->samples, before->channels);
    else if (before->samples)
        tally_note(t, o->put.samples ? TALLY_JUMP : TALLY_RATE, o->fibre.name,
                   "a block of %zu samples begins %+.1f samples after the one before, and is left "
                   "out; blocks that overlap by half (%zu), or begin whole blocks later, are read",
                   h->samples, steps * (double)(h->samples / 2), h->samples / 2);
}

/* Blocks overlap by half: each begins a whole number of steps after the one before. A time that
 * does not is believed when the next block is one step later. */
static bool overlaps(febus *o) {
    const double steps = steps_since(o, &o->put);
    o->follows = o->ends && is_step(steps);
    if (!(fabs(steps - rint(steps)) < beside) && !is_step(steps_since(o, &o->seen))) {
        note_stray(o);
        return false;
    }
    const double off = (steps - 1) * (double)(o->header.samples / 2);
    if (o->follows && fabs(off) >= near)
        tally_note(o->fibre.spec.tally, TALLY_SLIP, o->fibre.name,
                   "its time is %+.2f samples off the end of the block before; the block follows "
                   "that, and the time is the new one",
                   off);
    return true;
}

/* One piece of the block. */
static void put(febus *o, grid *grid) {
    const fibre_message half = half_of(o);
    fibre_put(&o->fibre, grid, &half);
    if (o->fibre.at_end) { /* it is not late, and no jump */
        o->put = o->header;
        o->ends = o->fibre.done == half.samples;
    }
    if (o->fibre.done == half.samples) /* a spoilt one may come again, and be good */
        o->done = o->header;
}

static sonar_code begin(febus *o, grid *grid, sonar_error *err) {
    const fibre_message like = half_of(o);
    o->began = o->header;
    return fibre_begin(&o->fibre, grid, &like, o->header.dx_m, err);
}

static sonar_code take_block(febus *o, grid *grid, sonar_error *err) {
    if (o->header.utc_ns == o->done.utc_ns && o->header.samples == o->done.samples)
        return SONAR_OK; /* no newer one is there yet */
    if (grid->fs_hz > 0 && !is_like_first(o, grid))
        return SONAR_OK;
    const bool good = overlaps(o);
    o->seen = o->header;
    if (!good)
        o->done = o->header;
    o->fibre.done = 0;
    const sonar_code code = good && !(grid->fs_hz > 0) ? begin(o, grid, err) : SONAR_OK;
    if (!code && good)
        put(o, grid);
    return code;
}

static febus_part part_of(febus *o, size_t i, size_t parts) {
    return i < parts ? (febus_part){zmq_msg_data(&o->part[i]), zmq_msg_size(&o->part[i])}
                     : (febus_part){0};
}

static sonar_code take_answer(febus *o, size_t parts, grid *grid, sonar_error *err) {
    char text[TEXT];
    const char *wrong = febus_read_header(part_of(o, HEAD, parts), part_of(o, ABOUT, parts),
                                          part_of(o, SAMPLES, parts).bytes, &o->header, text);
    if (!wrong && parts > PARTS) {
        snprintf(text, sizeof text, "it has %zu parts; %d are read", parts, PARTS);
        wrong = text;
    }
    if (!wrong) {
        o->retry_ms = FIBRE_RETRY_MS;
        return take_block(o, grid, err);
    }
    tally_note(o->fibre.spec.tally, TALLY_UNREADABLE, o->fibre.name, "an answer is left out: %s",
               wrong);
    return SONAR_OK;
}

static sonar_code read_febus(void *self, grid *grid, sonar_error *err) {
    febus *o = self;
    if (o->fibre.held) {
        put(o, grid);
        return SONAR_OK;
    }
    if (!o->asked && sonar_monotonic_ns() < o->next_ns)
        wait_until(o->next_ns);
    else if (!o->asked)
        ask(o);
    if (!o->asked)
        return SONAR_OK;
    zmq_pollitem_t item = {.socket = o->fibre.socket, .events = ZMQ_POLLIN};
    const size_t parts = zmq_poll(&item, 1, WAIT_MS) > 0 ? receive(o) : 0;
    if (!parts) {
        note_silence(o);
        return SONAR_OK;
    }
    o->asked = false;
    const sonar_code code = take_answer(o, parts, grid, err);
    const double pause_s = step_s(o) > 0 ? ask_after * step_s(o) : FIBRE_RETRY_MS * 1e-3;
    o->next_ns = sonar_monotonic_ns() + llrint(pause_s * (double)s_ns);
    return code;
}

const instrument instrument_febus = {
    .scheme = "febus://",
    .form = "febus://" FIBRE_FORM,
    .format = SONAR_F32,
    .open = open_febus,
    .read = read_febus,
    .close = close_febus,
};
