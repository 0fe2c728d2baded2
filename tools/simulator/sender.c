/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sender.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "core/core.h"
#include "net/net.h"
#include "net/shared.h"
#include "ingest/frame.h"
#include "random.h"

enum { HELD_MOST = 64, POLL_MS = 50 };
/* Blocks of shared memory that a digitiser has, together at most 64 MiB; and how long the daemon
 * may hold one, because a lost message takes its block with it. */
enum { BLOCKS = 64, BLOCKS_LEAST = 4, LENT_MS = 2000, LENT_WAIT_MS = 60000 };
static const size_t lent_bytes_most = (size_t)64 << 20;

typedef struct message {
    zmq_msg_t header, payload;
} message;

/* A target, and its part of the sender's lists. */
typedef struct target {
    size_t first_channel, channels;
    size_t first_digitiser, digitisers, first_socket, sockets;
    bool idle;
    sim_counters counters;
} target;

typedef struct digitiser {
    target *target;
    void *socket; /* borrowed from the sender's list; NULL: the target is idle, or has none */
    uint32_t first_channel, channels, epoch;
    uint64_t sequence, index, fault_key;
    sonar_lender *lender; /* NULL: the samples go over the socket */
    message held[HELD_MOST];
    size_t held_count;
} digitiser;

struct sim_sender {
    sim_sender_spec spec;
    sonar_certificate own; /* for a sender that publishes with a key... */
    sonar_zap *zap;        /* ...and the keys that may read */
    sonar_client *client;  /* for a sender that connects: of its first socket */
    size_t sockets;
    void **socket;
    target *target; /* [spec.targets] */
    digitiser *digitiser;
    uint64_t frame; /* number of the next frame */
    uint64_t timed; /* samples sent before the one at spec.utc_ns */
    uint64_t whole; /* sequence number for frames of all channels */
    uint16_t flags;
    sim_counters counters;
};

/* ---- conversion ------------------------------------------------------------------------------ */

static double rounded(float value, double most, size_t *saturated) {
    double r = rint((double)value);
    if (r >= -most - 1 && r <= most)
        return r;
    *saturated += 1;
    return isnan(r) ? 0 : r < 0 ? -most - 1 : most;
}

/* The host is little-endian, like every machine on which the daemon runs. */
size_t sim_convert(const float *counts, size_t samples, int format, size_t stride, uint8_t *to) {
    static const double most[] = {
        [SONAR_S16] = 32767, [SONAR_S24] = 8388607, [SONAR_S32] = 2147483647};
    size_t bytes = sonar_dtype_size((sonar_dtype)format), saturated = 0;
    for (size_t i = 0; i < samples; i++, to += stride * bytes) {
        if (format == SONAR_F32) {
            memcpy(to, &counts[i], bytes);
        } else {
            int32_t value = (int32_t)rounded(counts[i], most[format], &saturated);
            memcpy(to, &value, bytes);
        }
    }
    return saturated;
}

static void log_nothing(void *ctx, sonar_level level, const char *where, const char *text) {
    (void)ctx, (void)level, (void)where, (void)text;
}

static const sonar_host silent_host = {.log = log_nothing};

/* ---- sockets --------------------------------------------------------------------------------- */

/* With a key, only the daemon that the key names can read. */
static sonar_code guard_with(sim_sender *sender, sonar_error *err) {
    uint8_t daemon[1][SONAR_KEY_BYTES];
    const sonar_keyring ring = {.count = 1, .key = daemon};
    bool fewer;
    sonar_code code = sonar_client_certificate(sender->spec.key, &sender->own, err);
    if (!code)
        code = sonar_zap_create(sender->spec.zmq_context, &silent_host, &sender->zap, err);
    if (code)
        return code;
    zmq_z85_decode(daemon[0], sender->own.server_key);
    return sonar_zap_allow(sender->zap, SONAR_READERS, &ring, &fewer, err);
}

static sonar_code publish_at(sim_sender *sender, void *socket, const char *endpoint,
                             sonar_error *err) {
    const sonar_guard guard = {.own = &sender->own, .domain = SONAR_READERS};
    if (!sender->spec.key || !sonar_endpoint_is_tcp(endpoint))
        return sonar_endpoint_bind(socket, endpoint, err);
    sonar_code code = sender->zap ? SONAR_OK : guard_with(sender, err);
    return code ? code : sonar_guard_bind(&guard, socket, endpoint, err);
}

static sonar_code open_socket(sim_sender *sender, const char *endpoint, sonar_error *err) {
    const sim_sender_spec *spec = &sender->spec;
    const bool first = sender->sockets == 0;
    void *socket = zmq_socket(spec->zmq_context, spec->publish ? ZMQ_XPUB : ZMQ_PUSH);
    if (!socket)
        return sonar_fail(err, SONAR_ESYS, endpoint, "zmq_socket: %s", zmq_strerror(errno));
    sender->socket[sender->sockets++] = socket;
    int on = 1, zero = 0;
    zmq_setsockopt(socket, ZMQ_SNDHWM, &spec->high_water_mark, sizeof(int));
    zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(socket, ZMQ_IPV6, &on, sizeof on);
    /* Nothing is queued for a receiver that does not exist; a queue would hide the loss. */
    zmq_setsockopt(socket, spec->publish ? ZMQ_XPUB_NODROP : ZMQ_IMMEDIATE, &on, sizeof on);
    if (!spec->publish && first)
        sender->client = sonar_client_watch(spec->zmq_context, socket, spec->key != NULL);
    return spec->publish ? publish_at(sender, socket, endpoint, err)
                         : sonar_client_connect(spec->key, spec->curve, socket, endpoint, err);
}

static size_t sockets_of(const sim_sender_spec *spec, size_t t, size_t digitisers) {
    return spec->target[t].idle || spec->deliver ? 0
           : spec->publish                       ? spec->target[t].endpoint_count
           : spec->first_channel                 ? 1
                                                 : digitisers;
}

static sonar_code open_sockets(sim_sender *sender, sonar_error *err) {
    const sim_sender_spec *spec = &sender->spec;
    size_t count = 0;
    for (size_t t = 0; t < spec->targets; t++) {
        target *to = &sender->target[t];
        to->first_socket = count;
        count += to->sockets = sockets_of(spec, t, to->digitisers);
    }
    sender->socket = sonar_alloc(count, sizeof *sender->socket);
    if (!sender->socket && count)
        return sonar_fail(err, SONAR_ENOMEM, "sender", "out of memory");
    sonar_code code = SONAR_OK;
    for (size_t t = 0; t < spec->targets; t++)
        for (size_t i = 0; i < sender->target[t].sockets && code == SONAR_OK; i++)
            code = open_socket(sender,
                               spec->target[t].endpoints[i % spec->target[t].endpoint_count], err);
    return code;
}

static sonar_code check(const sim_sender_spec *spec, sonar_error *err) {
    bool planned[SIM_FAULT_KINDS] = {false};
    for (size_t i = 0; i < spec->faults; i++)
        planned[spec->fault[i].kind] = true;
    for (int kind = 0; spec->fault_rate && kind < SIM_FAULT_KINDS; kind++)
        planned[kind] |= spec->fault_rate[kind] > 0;
    if (planned[SIM_FAULT_NAN] && spec->format != SONAR_F32)
        return sonar_fail(err, SONAR_EINVAL, "faults", "nan needs the format f32");
    if (spec->digitisers < 1 || spec->digitisers > spec->channels)
        return sonar_fail(err, SONAR_EINVAL, "digitisers", "%zu; 1 to %zu (channels) is accepted",
                          spec->digitisers, spec->channels);
    for (size_t t = 0; t < spec->targets; t++)
        if (spec->target[t].endpoint_count < 1 && !spec->deliver)
            return sonar_fail(err, SONAR_EINVAL, "endpoint", "none given");
    return SONAR_OK;
}

static sonar_code make_lender(sim_sender *sender, digitiser *d, const char *memory,
                              sonar_error *err) {
    const size_t bytes = d->channels * sender->spec.frame_samples *
                         sonar_dtype_size((sonar_dtype)sender->spec.format);
    const size_t blocks =
        sonar_max_size(sonar_min_size(BLOCKS, lent_bytes_most / bytes), BLOCKS_LEAST);
    return sonar_lender_create(memory, blocks, bytes, &d->lender, err);
}

static sonar_code make_lenders(sim_sender *sender, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < sender->spec.digitisers && !code; i++) {
        digitiser *d = &sender->digitiser[i];
        const char *memory = sender->spec.target[d->target - sender->target].memory;
        if (memory && !d->target->idle)
            code = make_lender(sender, d, memory, err);
    }
    return code;
}

/* Number of digitisers of a target: those whose first channel belongs to it, or its share of the
 * total. */
static size_t digitisers_of(const sim_sender_spec *spec, size_t t) {
    const sim_target *to = &spec->target[t];
    const size_t n = spec->digitisers;
    size_t count = n * (t + 1) / spec->targets - n * t / spec->targets;
    if (!spec->first_channel)
        return sonar_min_size(sonar_max_size(count, 1), to->channels);
    const size_t first = to->first_channel - spec->target[0].first_channel;
    count = 0;
    for (size_t i = 0; i < n; i++)
        count += spec->first_channel[i] >= first && spec->first_channel[i] < first + to->channels;
    return count;
}

static sonar_code split_digitisers(sim_sender *sender, sonar_error *err) {
    sim_sender_spec *spec = &sender->spec;
    size_t count = 0;
    sender->target = sonar_alloc(spec->targets, sizeof *sender->target);
    for (size_t t = 0; t < spec->targets && sender->target; t++) {
        const sim_target *to = &spec->target[t];
        sender->target[t] = (target){.first_channel = to->first_channel,
                                     .channels = to->channels,
                                     .first_digitiser = count,
                                     .digitisers = digitisers_of(spec, t),
                                     .idle = to->idle};
        count += sender->target[t].digitisers;
    }
    sender->digitiser = sender->target ? sonar_alloc(count, sizeof *sender->digitiser) : NULL;
    spec->digitisers = sender->digitiser ? count : 0;
    return sender->digitiser ? SONAR_OK : sonar_fail(err, SONAR_ENOMEM, "sender", "out of memory");
}

/* Digitiser i of the target has its channels [*first, *end). */
static void channels_of(const sim_sender_spec *spec, const target *to, size_t i, size_t *first,
                        size_t *end) {
    const size_t number = to->first_digitiser + i;
    *first = to->first_channel + i * to->channels / to->digitisers;
    *end = to->first_channel + (i + 1) * to->channels / to->digitisers;
    if (!spec->first_channel)
        return;
    const size_t base = spec->target[0].first_channel;
    *first = base + spec->first_channel[number];
    *end = i + 1 == to->digitisers ? to->first_channel + to->channels
                                   : base + spec->first_channel[number + 1];
}

static void split_channels(sim_sender *sender, target *to) {
    const sim_sender_spec *spec = &sender->spec;
    for (size_t i = 0; i < to->digitisers; i++) {
        const size_t number = to->first_digitiser + i;
        size_t first, end;
        channels_of(spec, to, i, &first, &end);
        sender->digitiser[number] = (digitiser){
            .target = to,
            .socket = !to->sockets ? NULL : sender->socket[to->first_socket + i % to->sockets],
            .first_channel = (uint32_t)first,
            .channels = (uint32_t)(end - first),
            .epoch = spec->epoch,
            .index = spec->first_index,
            .fault_key = sim_random_key(spec->seed, SIM_STREAM_FAULT, number)};
    }
}

sonar_code sim_sender_create(const sim_sender_spec *spec, sim_sender **sender, sonar_error *err) {
    sonar_code code = check(spec, err);
    if (code != SONAR_OK)
        return code;
    sim_sender *s = sonar_alloc(1, sizeof *s);
    if (!s)
        return sonar_fail(err, SONAR_ENOMEM, "sender", "out of memory");
    s->spec = *spec;
    code = split_digitisers(s, err);
    if (code == SONAR_OK)
        code = open_sockets(s, err);
    for (size_t t = 0; t < spec->targets && code == SONAR_OK; t++)
        split_channels(s, &s->target[t]);
    if (code == SONAR_OK)
        code = make_lenders(s, err);
    if (code != SONAR_OK) {
        sim_sender_destroy(s, 0);
        return code;
    }
    *sender = s;
    return SONAR_OK;
}

static void discard(message *m) {
    zmq_msg_close(&m->header);
    zmq_msg_close(&m->payload);
}

/* Waits until the receiver has read what was sent, and frees the shared memory. */
static void take_memory_back(sim_sender *sender, int linger_ms) {
    const int64_t until_ns = sonar_monotonic_ns() + (int64_t)linger_ms * 1000000;
    for (size_t i = 0; i < sender->spec.digitisers; i++) {
        sonar_lender *lender = sender->digitiser[i].lender;
        while (lender && !sonar_lender_is_done(lender) && sonar_lender_attached(lender) &&
               !*sender->spec.stop && (linger_ms < 0 || sonar_monotonic_ns() < until_ns))
            poll(NULL, 0, 1);
        sonar_lender_destroy(lender);
    }
}

void sim_sender_hold(const sim_sender *sender, sonar_held *held) {
    sonar_connections_hold(held, sender->socket, sender->sockets, sender->spec.publish);
}

void sim_sender_destroy(sim_sender *sender, int linger_ms) {
    if (!sender)
        return;
    take_memory_back(sender, linger_ms);
    for (size_t i = 0; i < sender->spec.digitisers; i++)
        for (size_t h = 0; h < sender->digitiser[i].held_count; h++)
            discard(&sender->digitiser[i].held[h]);
    if (sender->sockets)
        sonar_client_forget(sender->client, sender->socket[0]);
    for (size_t i = 0; i < sender->sockets; i++) {
        zmq_setsockopt(sender->socket[i], ZMQ_LINGER, &linger_ms, sizeof linger_ms);
        zmq_close(sender->socket[i]);
    }
    sonar_zap_destroy(sender->zap);
    sonar_certificate_clear(&sender->own);
    free(sender->socket);
    free(sender->target);
    free(sender->digitiser);
    free(sender);
}

/* An XPUB is ready when it has a subscription, a PUSH when it can be written. */
static bool ready(const sim_sender *sender, void *socket, int timeout_ms) {
    zmq_pollitem_t item = {.socket = socket,
                           .events = sender->spec.publish ? ZMQ_POLLIN : ZMQ_POLLOUT};
    if (zmq_poll(&item, 1, timeout_ms) <= 0)
        return false;
    uint8_t event[64] = {0};
    return !sender->spec.publish || (zmq_recv(socket, event, sizeof event, 0) > 0 && event[0]);
}

static bool lends(const sim_sender *sender) {
    for (size_t i = 0; i < sender->spec.digitisers; i++)
        if (sender->digitiser[i].lender && !sonar_lender_attached(sender->digitiser[i].lender)) {
            poll(NULL, 0, POLL_MS);
            return false;
        }
    return true;
}

sonar_code sim_sender_wait(sim_sender *sender, int timeout_ms, sonar_error *err) {
    int64_t start = sonar_monotonic_ns();
    for (size_t i = 0; i < sender->sockets;) {
        if (ready(sender, sender->socket[i], POLL_MS) && lends(sender)) {
            i++;
            continue;
        }
        const char *why;
        const sonar_client_state state = sonar_client_look(sender->client, &why);
        if (state == SONAR_CLIENT_REFUSED || (state == SONAR_CLIENT_HUNG_UP && sender->spec.key))
            return sonar_fail(err, SONAR_EINVAL, "the daemon", "%s", why);
        int64_t waited_ms = (sonar_monotonic_ns() - start) / 1000000;
        if (*sender->spec.stop || (timeout_ms >= 0 && waited_ms >= timeout_ms))
            return sonar_fail(err, SONAR_EUNAVAILABLE, "sender", "no receiver");
    }
    return SONAR_OK;
}

/* ---- messages -------------------------------------------------------------------------------- */

static sim_fault_kind fault_of(const sim_sender *sender, size_t number) {
    const sim_sender_spec *spec = &sender->spec;
    for (size_t i = 0; i < spec->faults; i++) {
        const sim_fault *f = &spec->fault[i];
        if ((f->digitiser == SIZE_MAX || f->digitiser == number) && sender->frame >= f->frame &&
            sender->frame - f->frame < f->count)
            return (sim_fault_kind)f->kind;
    }
    if (!spec->fault_rate)
        return SIM_FAULT_NONE;
    double draw = sim_random_uniform(sender->digitiser[number].fault_key, sender->frame), sum = 0;
    for (int kind = SIM_FAULT_DROP; kind < SIM_FAULT_KINDS; kind++)
        if (draw < (sum += spec->fault_rate[kind]))
            return (sim_fault_kind)kind;
    return SIM_FAULT_NONE;
}

static int64_t utc_of(const sim_sender_spec *spec, uint64_t samples) {
    double whole = floor((double)samples / spec->fs_hz); /* seconds and rest: exact for years */
    double rest = (double)samples - whole * spec->fs_hz;
    return spec->utc_ns
               ? spec->utc_ns + (int64_t)whole * 1000000000 + llrint(rest / spec->fs_hz * 1e9)
               : 0;
}

static sonar_frame frame_of(const sim_sender *sender, const digitiser *d, size_t samples,
                            sim_fault_kind kind) {
    const sim_sender_spec *spec = &sender->spec;
    return (sonar_frame){.array_id = spec->array_id + (kind == SIM_FAULT_WRONG_ARRAY),
                         .first_channel = d->first_channel,
                         .channels = d->channels,
                         .samples = (uint32_t)samples,
                         .type = (uint8_t)spec->format,
                         .layout = (uint8_t)spec->layout,
                         .flags = sender->flags | spec->flags,
                         .epoch = d->epoch + (kind == SIM_FAULT_WRONG_EPOCH ? 1000 : 0),
                         .sequence = d->sequence,
                         .first_sample = d->index,
                         .utc_ns = utc_of(spec, sender->counters.samples - sender->timed),
                         .fs_hz = spec->fs_hz * (kind == SIM_FAULT_WRONG_RATE ? 1.01 : 1)};
}

static void fill_payload(const sim_sender *sender, const digitiser *d, const float *counts,
                         size_t samples, uint8_t *to) {
    const bool major = sender->spec.layout == SONAR_FRAME_CHANNEL_MAJOR;
    const float *first = counts + (d->first_channel - sender->target[0].first_channel) * samples;
    size_t bytes = sonar_dtype_size((sonar_dtype)sender->spec.format);
    for (size_t ch = 0; ch < d->channels; ch++)
        d->target->counters.saturated +=
            sim_convert(first + ch * samples, samples, sender->spec.format, major ? 1 : d->channels,
                        to + bytes * ch * (major ? samples : 1));
}

static sonar_code no_memory(sonar_error *err) {
    return sonar_fail(err, SONAR_ENOMEM, "sender", "out of memory for a message");
}

/* Replaces a message by its first bytes. */
static bool shorten(zmq_msg_t *whole, size_t bytes) {
    zmq_msg_t part;
    if (zmq_msg_init_size(&part, bytes) != 0)
        return false;
    memcpy(zmq_msg_data(&part), zmq_msg_data(whole), bytes);
    zmq_msg_move(whole, &part);
    return zmq_msg_close(&part) == 0;
}

static sonar_code make_message(sim_sender *sender, const digitiser *d, const float *counts,
                               size_t samples, sim_fault_kind kind, message *m, sonar_error *err) {
    sonar_frame frame = frame_of(sender, d, samples, kind);
    size_t bytes = sonar_frame_payload_bytes(&frame);
    if (zmq_msg_init_size(&m->header, SONAR_FRAME_HEADER_BYTES) != 0)
        return no_memory(err);
    if (zmq_msg_init_size(&m->payload, bytes + (kind == SIM_FAULT_OVERSIZE)) != 0) {
        zmq_msg_close(&m->header);
        return no_memory(err);
    }
    uint8_t *payload = zmq_msg_data(&m->payload);
    if (kind == SIM_FAULT_OVERSIZE)
        payload[bytes] = 0;
    fill_payload(sender, d, counts, samples, payload);
    sonar_frame_encode(&frame, zmq_msg_data(&m->header));
    if (kind == SIM_FAULT_NAN)
        memcpy(payload, &(float){NAN}, sizeof(float));
    if (kind == SIM_FAULT_CORRUPT)
        memcpy(zmq_msg_data(&m->header), "XXXX", 4);
    if (kind == SIM_FAULT_TRUNCATE && !shorten(&m->payload, bytes - 1)) {
        discard(m);
        return no_memory(err);
    }
    return SONAR_OK;
}

/* The place in shared memory for the samples of the next frame; NULL: the daemon still has the
 * block. */
static void *next_block(sim_sender *sender, const digitiser *d) {
    const bool wait = sender->spec.block;
    void *block = sonar_lender_begin(d->lender, wait ? LENT_WAIT_MS : LENT_MS);
    const int64_t began = sonar_monotonic_ns();
    while (!block && wait && !*sender->spec.stop) {
        poll(NULL, 0, 1);
        block = sonar_lender_begin(d->lender, LENT_WAIT_MS);
    }
    sender->counters.waited_ns += sonar_monotonic_ns() - began;
    return block;
}

/* True if the frame goes through shared memory. A frame does not if its fault cannot be expressed
 * in a descriptor, or would keep the daemon from returning the block. */
static bool is_lent(const digitiser *d, sim_fault_kind kind) {
    return d->lender && kind != SIM_FAULT_TRUNCATE && kind != SIM_FAULT_OVERSIZE &&
           kind != SIM_FAULT_CORRUPT;
}

static sonar_code make_shared(sim_sender *sender, const digitiser *d, const float *counts,
                              size_t samples, sim_fault_kind kind, void *block, message *m,
                              sonar_error *err) {
    sonar_frame frame = frame_of(sender, d, samples, kind);
    frame.flags |= SONAR_FRAME_SHARED;
    if (zmq_msg_init_size(&m->header, SONAR_FRAME_HEADER_BYTES) != 0)
        return no_memory(err);
    if (zmq_msg_init_size(&m->payload, SONAR_DESCRIPTOR_BYTES) != 0) {
        zmq_msg_close(&m->header);
        return no_memory(err);
    }
    fill_payload(sender, d, counts, samples, block);
    if (kind == SIM_FAULT_NAN)
        memcpy(block, &(float){NAN}, sizeof(float));
    sonar_lender_end(d->lender, zmq_msg_data(&m->payload));
    sonar_frame_encode(&frame, zmq_msg_data(&m->header));
    return SONAR_OK;
}

/* zmq_msg_send that waits, if asked, until it works or the program is stopped. */
static int send_part(sim_sender *sender, void *socket, zmq_msg_t *part, int flags, bool wait) {
    for (;;) {
        int rc = zmq_msg_send(part, socket, flags | ZMQ_DONTWAIT);
        if (rc >= 0 || !wait || *sender->spec.stop || (errno != EAGAIN && errno != EINTR))
            return rc;
        zmq_pollitem_t item = {.socket = socket, .events = ZMQ_POLLOUT};
        int64_t began = sonar_monotonic_ns();
        zmq_poll(&item, 1, POLL_MS);
        sender->counters.waited_ns += sonar_monotonic_ns() - began;
    }
}

static void drain_subscriptions(const sim_sender *sender, void *socket) {
    uint8_t event[64];
    while (sender->spec.publish && zmq_recv(socket, event, sizeof event, ZMQ_DONTWAIT) >= 0)
        continue;
}

static sonar_code deliver(const sim_sender *sender, const digitiser *d, message *m,
                          sonar_error *err) {
    const sim_sender_spec *spec = &sender->spec;
    const sonar_code code =
        spec->deliver(spec->deliver_ctx, zmq_msg_data(&m->header), zmq_msg_size(&m->header),
                      zmq_msg_data(&m->payload), zmq_msg_size(&m->payload), err);
    d->target->counters.messages += !code;
    discard(m);
    return code;
}

/* Takes ownership of the message. */
static sonar_code post(sim_sender *sender, const digitiser *d, message *m, sonar_error *err) {
    sim_counters *counters = &d->target->counters;
    void *socket = d->socket;
    if (sender->spec.deliver)
        return deliver(sender, d, m, err);
    drain_subscriptions(sender, socket);
    sonar_code code = SONAR_OK;
    if (send_part(sender, socket, &m->header, ZMQ_SNDMORE, sender->spec.block) >= 0) {
        /* the second part always fits: a message is never cut */
        if (send_part(sender, socket, &m->payload, 0, true) < 0 && !*sender->spec.stop)
            code = sonar_fail(err, SONAR_ESYS, "sender", "zmq_msg_send: %s", zmq_strerror(errno));
        counters->messages++;
    } else if (errno == EAGAIN || errno == EINTR) {
        counters->overflow++;
    } else {
        code = sonar_fail(err, SONAR_ESYS, "sender", "zmq_msg_send: %s", zmq_strerror(errno));
    }
    discard(m); /* if they were sent, both parts are empty now */
    return code;
}

static sonar_code post_twice(sim_sender *sender, const digitiser *d, message *m, sonar_error *err) {
    message copy;
    zmq_msg_init(&copy.header);
    zmq_msg_init(&copy.payload);
    zmq_msg_copy(&copy.header, &m->header);
    zmq_msg_copy(&copy.payload, &m->payload);
    sonar_code first = post(sender, d, m, err), second = post(sender, d, &copy, err);
    return first != SONAR_OK ? first : second;
}

static sonar_code release(sim_sender *sender, digitiser *d, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < d->held_count; i++) {
        sonar_code one = post(sender, d, &d->held[i], err);
        code = code == SONAR_OK ? one : code;
    }
    d->held_count = 0;
    return code;
}

static sonar_code dispatch(sim_sender *sender, digitiser *d, message *m, sim_fault_kind kind,
                           sonar_error *err) {
    if (kind == SIM_FAULT_REORDER && d->held_count < HELD_MOST) {
        d->held[d->held_count++] = *m;
        return SONAR_OK;
    }
    sonar_code code = (kind == SIM_FAULT_REPEAT ? post_twice : post)(sender, d, m, err);
    return code == SONAR_OK ? release(sender, d, err) : code;
}

static sonar_code send_block(sim_sender *sender, size_t number, const float *counts, size_t samples,
                             sonar_error *err) {
    digitiser *d = &sender->digitiser[number];
    sim_fault_kind kind = fault_of(sender, number);
    sim_counters *counters = &d->target->counters;
    sonar_code code = SONAR_OK;
    counters->frames++;
    counters->kind[kind]++;
    if (kind == SIM_FAULT_RESTART) {
        d->epoch++;
        d->sequence = d->index = 0;
    }
    if (kind != SIM_FAULT_DROP) {
        message m;
        const bool lent = is_lent(d, kind);
        void *block = lent ? next_block(sender, d) : NULL;
        if (lent && !block)
            counters->overflow += !*sender->spec.stop;
        else if (lent)
            code = make_shared(sender, d, counts, samples, kind, block, &m, err);
        else
            code = make_message(sender, d, counts, samples, kind, &m, err);
        if (code == SONAR_OK && !block == !lent)
            code = dispatch(sender, d, &m, kind, err);
    }
    d->sequence++;
    d->index += samples;
    return code;
}

static void pass_over(digitiser *d, size_t samples) {
    d->index += samples;
    d->sequence++;
}

sonar_code sim_sender_send_some(sim_sender *sender, const float *counts, size_t samples,
                                const uint8_t *absent, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < sender->spec.digitisers && code == SONAR_OK; i++)
        if (sender->digitiser[i].target->idle || (absent && absent[i]))
            pass_over(&sender->digitiser[i], samples);
        else
            code = send_block(sender, i, counts, samples, err);
    sender->frame++;
    sender->counters.samples += samples;
    return code;
}

sonar_code sim_sender_send(sim_sender *sender, const float *counts, size_t samples,
                           sonar_error *err) {
    return sim_sender_send_some(sender, counts, samples, NULL, err);
}

static sonar_code send_whole(sim_sender *sender, target *to, const float *counts, size_t samples,
                             sonar_error *err) {
    digitiser all = sender->digitiser[to->first_digitiser];
    message m;
    all.first_channel = (uint32_t)to->first_channel;
    all.channels = (uint32_t)to->channels;
    all.sequence = sender->whole;
    to->counters.frames++;
    to->counters.kind[SIM_FAULT_NONE]++;
    const sonar_code code = make_message(sender, &all, counts, samples, SIM_FAULT_NONE, &m, err);
    return code ? code : post(sender, &all, &m, err);
}

sonar_code sim_sender_send_whole(sim_sender *sender, const float *counts, size_t samples,
                                 sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (size_t t = 0; t < sender->spec.targets && code == SONAR_OK; t++)
        if (!sender->target[t].idle)
            code = send_whole(sender, &sender->target[t], counts, samples, err);
    for (size_t i = 0; i < sender->spec.digitisers; i++)
        sender->digitiser[i].index +=
            samples; /* these samples count as sent, so that no frame is missing */
    sender->whole++;
    sender->frame++;
    sender->counters.samples += samples;
    return code;
}

void sim_sender_seek(sim_sender *sender, bool new_stream, uint64_t index, int64_t utc_ns,
                     uint16_t flags) {
    for (size_t i = 0; i < sender->spec.digitisers; i++) {
        sender->digitiser[i].index = index;
        sender->digitiser[i].epoch += new_stream;
        if (new_stream)
            sender->digitiser[i].sequence = 0;
    }
    sender->whole = new_stream ? 0 : sender->whole;
    sender->spec.utc_ns = utc_ns;
    sender->timed = sender->counters.samples;
    sender->flags = flags;
}

uint32_t sim_sender_epoch(const sim_sender *sender) {
    return sender->digitiser[0].epoch;
}

sonar_code sim_sender_flush(sim_sender *sender, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < sender->spec.digitisers && code == SONAR_OK; i++)
        code = release(sender, &sender->digitiser[i], err);
    return code;
}

void sim_sender_set_utc(sim_sender *sender, int64_t utc_ns) {
    sender->spec.utc_ns = utc_ns;
}

const sim_counters *sim_sender_target_counters(const sim_sender *sender, size_t target) {
    return &sender->target[target].counters;
}

const sim_counters *sim_sender_counters(sim_sender *sender) {
    sim_counters *all = &sender->counters;
    *all = (sim_counters){.samples = all->samples, .waited_ns = all->waited_ns};
    for (size_t t = 0; t < sender->spec.targets; t++) {
        const sim_counters *of = &sender->target[t].counters;
        all->frames += of->frames;
        all->messages += of->messages;
        all->overflow += of->overflow;
        all->saturated += of->saturated;
        for (int kind = 0; kind < SIM_FAULT_KINDS; kind++)
            all->kind[kind] += of->kind[kind];
    }
    return all;
}

static void write_counts(const sim_counters *c, FILE *to) {
    fprintf(to,
            "\"frames\": %" PRIu64 ", \"messages\": %" PRIu64 ", \"overflow\": %" PRIu64
            ", \"saturated\": %" PRIu64 ", \"kinds\": {",
            c->frames, c->messages, c->overflow, c->saturated);
    for (int kind = 0; kind < SIM_FAULT_KINDS; kind++)
        fprintf(to, "%s\"%s\": %" PRIu64, kind ? ", " : "",
                kind ? sim_fault_name((sim_fault_kind)kind) : "good", c->kind[kind]);
    fputc('}', to);
}

void sim_counters_write(const sim_counters *c, const sim_lag *lag, size_t ranks,
                        const sim_counters *const of_rank[], FILE *to) {
    fprintf(to, "{\"samples\": %" PRIu64 ", \"behind_s\": {\"most\": %.3f, \"last\": %.3f}, ",
            c->samples, lag->most_s, lag->last_s);
    write_counts(c, to);
    for (size_t r = 0; r < ranks && ranks > 1; r++) {
        fputs(r ? ", {" : ", \"ranks\": [{", to);
        write_counts(of_rank[r], to);
        fputs(r + 1 == ranks ? "}]" : "}", to);
    }
    fputs("}\n", to);
}
