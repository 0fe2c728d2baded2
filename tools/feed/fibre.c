/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "fibre.h"

#include <endian.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "core/core.h"

enum { MESSAGES = 16, HEAD = 64 };
static const double own_wait_s = 2;
const double fibre_bytes_most = 1e9, fibre_channels_most = 4194304;
const int64_t fibre_utc_most_ns = 4000000000000000000;

static const struct {
    const char *name;
    size_t width;
} type[FIBRE_TYPES] = {[FIBRE_SHORT] = {"short", 2},
                       [FIBRE_INT] = {"int", 4},
                       [FIBRE_LONG] = {"long", 8},
                       [FIBRE_FLOAT] = {"float", 4},
                       [FIBRE_DOUBLE] = {"double", 8}};

const char *fibre_type_name(fibre_type t) {
    return type[t].name;
}

size_t fibre_type_width(fibre_type t) {
    return type[t].width;
}

/* ---- the address and the socket -------------------------------------------------------------- */

/* "HOST:PORT", and "/FIRST-LAST" or "/FIRST-LAST:STEP". */
static bool read_address(fibre *f, const char *address) {
    const size_t host = strcspn(address, "/");
    int end = 0;
    f->first = 0;
    f->last = SIZE_MAX;
    f->step = 1;
    const char *colon = memrchr(address, ':', host);
    if (!colon || colon == address || colon + 1 == address + host || host > 280 ||
        strspn(colon + 1, "0123456789") != (size_t)(address + host - colon - 1))
        return false;
    snprintf(f->endpoint, sizeof f->endpoint, "tcp://%.*s", (int)host, address);
    if (!address[host])
        return true;
    const char *channels = address + host + 1;
    if (strspn(channels, "0123456789-:") != strlen(channels) ||
        sscanf(channels, "%9zu-%9zu%n", &f->first, &f->last, &end) != 2)
        return false;
    if (channels[end] == ':') {
        const char *step = channels + end + 1;
        if (sscanf(step, "%9zu%n", &f->step, &end) != 1)
            return false;
        channels = step;
    }
    return !channels[end] && f->first <= f->last && f->step >= 1;
}

sonar_code fibre_open(fibre *f, const instrument_spec *spec, const char *form, sonar_error *err) {
    *f = (fibre){.spec = *spec, .name = spec->where};
    if (!read_address(f, spec->address))
        return sonar_fail(err, SONAR_EINVAL, spec->where, "it is not of the form %s", form);
    f->context = zmq_ctx_new();
    return f->context
               ? SONAR_OK
               : sonar_fail(err, SONAR_ENOMEM, spec->where, "no socket: %s", zmq_strerror(errno));
}

sonar_code fibre_dial(fibre *f, int kind, sonar_error *err) {
    const int most = MESSAGES, none = 0, retry_ms = FIBRE_RETRY_MS,
              retry_most_ms = FIBRE_RETRY_MOST_MS, on = 1;
    const int64_t bytes_most = (int64_t)fibre_bytes_most + HEAD;
    void *socket = f->socket = zmq_socket(f->context, kind);
    if (!socket)
        return sonar_fail(err, SONAR_ENOMEM, f->name, "no socket: %s", zmq_strerror(errno));
    zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &bytes_most, sizeof bytes_most);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &most, sizeof most);
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_IPV6, &on, sizeof on);
    zmq_setsockopt(socket, ZMQ_RECONNECT_IVL, &retry_ms, sizeof retry_ms);
    zmq_setsockopt(socket, ZMQ_RECONNECT_IVL_MAX, &retry_most_ms, sizeof retry_most_ms);
    zmq_setsockopt(socket, ZMQ_TCP_KEEPALIVE, &on, sizeof on);
    if (kind == ZMQ_SUB)
        zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "", 0);
    return zmq_connect(socket, f->endpoint)
               ? sonar_fail(err, SONAR_EINVAL, f->name, "%s", zmq_strerror(errno))
               : SONAR_OK;
}

void fibre_hang_up(fibre *f) {
    if (f->socket)
        zmq_close(f->socket);
    f->socket = NULL;
}

void fibre_close(fibre *f) {
    fibre_hang_up(f);
    if (f->context)
        zmq_ctx_term(f->context);
    free(f->sample);
    *f = (fibre){0};
}

/* ---- channels -------------------------------------------------------------------------------- */

static size_t taken_of(const fibre *f, size_t channels) {
    const size_t last = f->last == SIZE_MAX ? channels - 1 : f->last;
    return (last - f->first) / f->step + 1;
}

static bool has_them(const fibre *f, size_t channels) {
    return f->first < channels && (f->last == SIZE_MAX || f->last < channels);
}

sonar_code fibre_begin(fibre *f, grid *grid, const fibre_message *like, double dx_m,
                       sonar_error *err) {
    if (!has_them(f, like->channels))
        return sonar_fail(err, SONAR_EINVAL, f->name,
                          "it has channels 0 to %zu, so that these cannot be taken from it",
                          like->channels - 1);
    f->taken = taken_of(f, like->channels);
    f->longest = like->samples;
    fprintf(stderr, "%s: %s: %zu channels of %zu, %g m apart there, at %.7g Hz, type %s\n",
            f->spec.tool, f->name, f->taken, like->channels, dx_m, like->fs_hz,
            type[like->type].name);
    f->sample = sonar_alloc(f->longest * f->taken, sizeof *f->sample);
    if (!f->sample)
        return sonar_fail(err, SONAR_ENOMEM, f->name, "out of memory for a message");
    const grid_spec spec = {.tally = f->spec.tally,
                            .fs_hz = like->fs_hz,
                            .units = 1,
                            .name = &f->name,
                            .count = &f->taken,
                            .wait_s = f->spec.wait_s > 0 ? f->spec.wait_s : own_wait_s,
                            .longest = f->longest};
    return grid_begin(grid, &spec, err);
}

bool fibre_matches(const fibre *f, const grid *grid, size_t channels, double fs_hz) {
    if (has_them(f, channels) && taken_of(f, channels) == f->taken &&
        !(fabs(fs_hz / grid->fs_hz - 1) > 1e-6))
        return true;
    tally_note(f->spec.tally, TALLY_RATE, f->name,
               "%zu channels at %.7g Hz are left out; it began with %zu taken at %.7g Hz", channels,
               fs_hz, f->taken, grid->fs_hz);
    return false;
}

/* ---- samples --------------------------------------------------------------------------------- */

static float value(fibre_type t, const uint8_t *at) {
    uint64_t bits = 0;
    float f;
    double d;
    memcpy(&bits, at, type[t].width);
    bits = le64toh(bits);
    const uint32_t low = (uint32_t)bits;
    switch (t) {
    case FIBRE_SHORT:
        return (float)(int16_t)bits;
    case FIBRE_INT:
        return (float)(int32_t)bits;
    case FIBRE_LONG:
        return (float)(int64_t)bits;
    case FIBRE_FLOAT:
        memcpy(&f, &low, sizeof f);
        return f;
    default:
        memcpy(&d, &bits, sizeof d);
        return (float)d;
    }
}

/* Samples done .. done + n - 1 into f->sample. False: one of them is no finite number. */
static bool convert(fibre *f, const fibre_message *m, size_t n) {
    const size_t width = type[m->type].width;
    float *to = f->sample;
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *row = m->rows + (f->done + i) * m->channels * width;
        for (size_t c = 0; c < f->taken; c++) {
            *to = value(m->type, row + (f->first + c * f->step) * width);
            finite &= isfinite(*to) != 0;
            to++;
        }
    }
    return finite;
}

void fibre_put(fibre *f, grid *grid, const fibre_message *m) {
    const size_t n = sonar_min_size(f->longest, m->samples - f->done);
    f->at_end &= f->done > 0;
    if (!convert(f, m, n)) {
        tally_note(f->spec.tally, TALLY_UNREADABLE, f->name,
                   "a message is left out, since a sample is no finite number");
        f->held = false;
        return;
    }
    const int64_t since_ns = llrint((double)f->done / m->fs_hz * 1e9), end = grid->unit[0].end;
    const bool follows = f->done ? f->at_end : m->follows;
    if (grid_put(grid, 0, m->utc_ns + since_ns, follows, f->sample, n)) {
        f->done += n;
        f->at_end = grid->unit[0].end != end;
        if (grid->unit[0].jump_ns) /* the rest says no more of it than this piece */
            f->done = m->samples;
    }
    f->held = f->done < m->samples;
}
