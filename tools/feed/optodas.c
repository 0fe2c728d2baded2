/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "optodas.h"

#include <cjson/cJSON.h>
#include <endian.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "core/core.h"
#include "json.h"
#include "instrument.h"

enum { WAIT_MS = 200, RETRY_MS = 250, RETRY_MOST_MS = 16000, MESSAGES = 16, SILENT_S = 5 };
static const double own_wait_s = 2, message_most = 1e9, channels_most = 4194304;
static const int64_t utc_most_ns = 4000000000000000000; /* 2096 */

static const struct {
    const char *name;
    size_t width;
} type[] = {[OPTODAS_SHORT] = {"short", 2},
            [OPTODAS_INT] = {"int", 4},
            [OPTODAS_LONG] = {"long", 8},
            [OPTODAS_FLOAT] = {"float", 4},
            [OPTODAS_DOUBLE] = {"double", 8}};
enum { TYPES = sizeof type / sizeof *type };

/* ---- the header ------------------------------------------------------------------------------ */

bool optodas_is_header(const char *data, size_t bytes) {
    cJSON *json = bytes && *data == '{' ? cJSON_ParseWithLength(data, bytes) : NULL;
    cJSON_Delete(json);
    return json != NULL;
}

/* A whole number from 1 to `most`; else 0. */
static size_t whole(const cJSON *json, const char *name, double most) {
    const double value = json_count(json, name);
    return value >= 1 && value <= most && !(fabs(value - rint(value)) > 0) ? (size_t)value : 0;
}

static double seconds(const cJSON *json) {
    static const struct {
        const char *name;
        double s;
    } unit[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
    const cJSON *dt = cJSON_GetObjectItemCaseSensitive(json, "dt");
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "dtUnit"));
    for (size_t i = 0; i < sizeof unit / sizeof *unit && name && cJSON_IsNumber(dt); i++)
        if (!strcmp(name, unit[i].name))
            return dt->valuedouble * unit[i].s;
    return 0;
}

static const char *judge(const cJSON *json, optodas_header *to, char text[160]) {
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "dataType"));
    const size_t bytes = whole(json, "bytesPerPackage", message_most);
    const double dt_s = seconds(json);
    size_t i = 0;
    while (i < TYPES && name && strcmp(name, type[i].name))
        i++;
    if (!name || i == TYPES) {
        snprintf(text, 160, "dataType is %.20s; short, int, long, float and double are read",
                 name ? name : "missing");
        return text;
    }
    *to = (optodas_header){.packages = whole(json, "nPackagesPerMessage", 1e6),
                           .channels = whole(json, "nChannels", channels_most),
                           .width = type[i].width,
                           .type = (optodas_type)i,
                           .dx = json_count(json, "dx")};
    if (!to->packages || !to->channels || !bytes)
        return "bytesPerPackage, nPackagesPerMessage or nChannels is missing or no whole number "
               "from 1";
    if (bytes != to->channels * to->width) {
        snprintf(text, 160, "bytesPerPackage is %zu, and %zu channels of type %s have %zu", bytes,
                 to->channels, name, to->channels * to->width);
        return text;
    }
    if (!(dt_s >= 1e-7 && dt_s <= 1e3))
        return "dt and dtUnit (s, ms, us or ns) are missing, or are not 100 ns to 1000 s";
    if ((double)bytes * (double)to->packages > message_most)
        return "its messages would have more than 1 GB";
    to->fs_hz = 1 / dt_s;
    return NULL;
}

const char *optodas_read_header(const char *data, size_t bytes, optodas_header *to,
                                char text[160]) {
    cJSON *json = cJSON_ParseWithLength(data, bytes);
    *to = (optodas_header){0};
    const char *wrong = cJSON_IsObject(json) ? judge(json, to, text) : "it is no JSON object";
    cJSON_Delete(json);
    return wrong;
}

/* ---- the instrument -------------------------------------------------------------------------- */

typedef struct optodas {
    instrument_spec spec;
    char endpoint[300];
    size_t first, last, step; /* channels that are taken; last SIZE_MAX: to the end */
    void *context, *socket;
    zmq_msg_t message;
    bool held;   /* the message has packages that have not been put */
    size_t done; /* its packages that have been */
    int64_t heard_ns;
    bool known, silent;
    optodas_header header;
    size_t taken;   /* channels that the grid has */
    size_t longest; /* packages of a piece */
    const char *name;
    float *sample; /* [longest][taken] */
} optodas;

/* "HOST:PORT", and "/FIRST-LAST" or "/FIRST-LAST:STEP". */
static bool read_address(optodas *o, const char *address) {
    const size_t host = strcspn(address, "/");
    int end = 0;
    o->first = 0;
    o->last = SIZE_MAX;
    o->step = 1;
    const char *colon = memrchr(address, ':', host);
    if (!colon || colon == address || colon + 1 == address + host || host > 280 ||
        strspn(colon + 1, "0123456789") != (size_t)(address + host - colon - 1))
        return false;
    snprintf(o->endpoint, sizeof o->endpoint, "tcp://%.*s", (int)host, address);
    if (!address[host])
        return true;
    const char *channels = address + host + 1;
    if (strspn(channels, "0123456789-:") != strlen(channels) ||
        sscanf(channels, "%9zu-%9zu%n", &o->first, &o->last, &end) != 2)
        return false;
    if (channels[end] == ':') {
        const char *step = channels + end + 1;
        if (sscanf(step, "%9zu%n", &o->step, &end) != 1)
            return false;
        channels = step;
    }
    return !channels[end] && o->first <= o->last && o->step >= 1;
}

static sonar_code open_optodas(const instrument_spec *spec, void **self, sonar_error *err) {
    optodas *o = *self = sonar_alloc(1, sizeof *o);
    const int most = MESSAGES, none = 0, retry_ms = RETRY_MS, retry_most_ms = RETRY_MOST_MS, on = 1;
    if (!o)
        return sonar_fail(err, SONAR_ENOMEM, spec->where, "out of memory");
    *o = (optodas){.spec = *spec, .name = spec->where, .heard_ns = sonar_monotonic_ns()};
    zmq_msg_init(&o->message);
    if (!read_address(o, spec->address))
        return sonar_fail(err, SONAR_EINVAL, spec->where, "it is not of the form %s",
                          instrument_optodas.form);
    o->context = zmq_ctx_new();
    o->socket = o->context ? zmq_socket(o->context, ZMQ_SUB) : NULL;
    if (!o->socket)
        return sonar_fail(err, SONAR_ENOMEM, spec->where, "no socket: %s", zmq_strerror(errno));
    const int64_t bytes_most = (int64_t)message_most + OPTODAS_TIME;
    zmq_setsockopt(o->socket, ZMQ_MAXMSGSIZE, &bytes_most, sizeof bytes_most);
    zmq_setsockopt(o->socket, ZMQ_RCVHWM, &most, sizeof most);
    zmq_setsockopt(o->socket, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(o->socket, ZMQ_IPV6, &on, sizeof on);
    zmq_setsockopt(o->socket, ZMQ_RECONNECT_IVL, &retry_ms, sizeof retry_ms);
    zmq_setsockopt(o->socket, ZMQ_RECONNECT_IVL_MAX, &retry_most_ms, sizeof retry_most_ms);
    zmq_setsockopt(o->socket, ZMQ_TCP_KEEPALIVE, &on, sizeof on);
    zmq_setsockopt(o->socket, ZMQ_SUBSCRIBE, "", 0);
    if (zmq_connect(o->socket, o->endpoint))
        return sonar_fail(err, SONAR_EINVAL, spec->where, "%s", zmq_strerror(errno));
    return SONAR_OK;
}

static void close_optodas(void *self) {
    optodas *o = self;
    if (!o)
        return;
    zmq_msg_close(&o->message);
    if (o->socket)
        zmq_close(o->socket);
    if (o->context)
        zmq_ctx_term(o->context);
    free(o->sample);
    free(o);
}

/* ---- messages -------------------------------------------------------------------------------- */

static size_t taken(const optodas *o) {
    const size_t last = o->last == SIZE_MAX ? o->header.channels - 1 : o->last;
    return (last - o->first) / o->step + 1;
}

static sonar_code begin(optodas *o, grid *grid, sonar_error *err) {
    const optodas_header *h = &o->header;
    if (o->first >= h->channels || (o->last != SIZE_MAX && o->last >= h->channels))
        return sonar_fail(err, SONAR_EINVAL, o->spec.where,
                          "it has channels 0 to %zu, so that these cannot be taken from it",
                          h->channels - 1);
    o->taken = taken(o);
    o->longest = h->packages;
    fprintf(stderr, "%s: %s: %zu channels of %zu, %g m apart there, at %.7g Hz, type %s\n",
            o->spec.tool, o->name, o->taken, h->channels, h->dx, h->fs_hz, type[h->type].name);
    o->sample = sonar_alloc(o->longest * o->taken, sizeof *o->sample);
    if (!o->sample)
        return sonar_fail(err, SONAR_ENOMEM, o->spec.where, "out of memory for a message");
    const grid_spec spec = {.tally = o->spec.tally,
                            .fs_hz = h->fs_hz,
                            .units = 1,
                            .name = &o->name,
                            .count = &o->taken,
                            .wait_s = o->spec.wait_s > 0 ? o->spec.wait_s : own_wait_s,
                            .longest = o->longest};
    return grid_begin(grid, &spec, err);
}

static sonar_code take_header(optodas *o, grid *grid, sonar_error *err) {
    char text[160];
    optodas_header header;
    const char *wrong =
        optodas_read_header(zmq_msg_data(&o->message), zmq_msg_size(&o->message), &header, text);
    o->known = !wrong;
    if (wrong) {
        tally_note(o->spec.tally, TALLY_UNREADABLE, o->name, "a header cannot be used: %s", wrong);
        return SONAR_OK;
    }
    o->header = header;
    return grid->fs_hz > 0 ? SONAR_OK : begin(o, grid, err);
}

static float value(const optodas_header *h, const uint8_t *at) {
    uint64_t bits = 0;
    float f;
    double d;
    memcpy(&bits, at, h->width);
    bits = le64toh(bits);
    const uint32_t low = (uint32_t)bits;
    switch (h->type) {
    case OPTODAS_SHORT:
        return (float)(int16_t)bits;
    case OPTODAS_INT:
        return (float)(int32_t)bits;
    case OPTODAS_LONG:
        return (float)(int64_t)bits;
    case OPTODAS_FLOAT:
        memcpy(&f, &low, sizeof f);
        return f;
    default:
        memcpy(&d, &bits, sizeof d);
        return (float)d;
    }
}

/* Packages done .. done + n - 1 into o->sample. False: one of them is no finite number. */
static bool convert(optodas *o, size_t n) {
    const optodas_header *h = &o->header;
    const uint8_t *from = (const uint8_t *)zmq_msg_data(&o->message) + OPTODAS_TIME;
    float *to = o->sample;
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *row = from + (o->done + i) * h->channels * h->width;
        for (size_t c = 0; c < o->taken; c++) {
            *to = value(h, row + (o->first + c * o->step) * h->width);
            finite &= isfinite(*to) != 0;
            to++;
        }
    }
    return finite;
}

/* Is it a message of samples as the header says? */
static bool is_good(optodas *o, const grid *grid, int64_t *utc_ns) {
    const optodas_header *h = &o->header;
    const size_t bytes = zmq_msg_size(&o->message),
                 wanted = OPTODAS_TIME + h->packages * h->channels * h->width;
    tally *t = o->spec.tally;
    if (!o->known || bytes != wanted) {
        tally_note(t, TALLY_UNREADABLE, o->name,
                   "a message of %zu bytes is left out; the header says %zu (0: there is none)",
                   bytes, o->known ? wanted : 0);
        return false;
    }
    if (taken(o) != o->taken || h->channels <= o->first ||
        fabs(h->fs_hz / grid->fs_hz - 1) > 1e-6 ||
        (o->last != SIZE_MAX && o->last >= h->channels)) {
        tally_note(t, TALLY_RATE, o->name,
                   "%zu channels at %.7g Hz are left out; it began with %zu taken at %.7g Hz",
                   h->channels, h->fs_hz, o->taken, grid->fs_hz);
        return false;
    }
    uint64_t bits;
    memcpy(&bits, zmq_msg_data(&o->message), sizeof bits);
    *utc_ns = (int64_t)le64toh(bits);
    if (*utc_ns >= 0 && *utc_ns <= utc_most_ns)
        return true;
    tally_note(t, TALLY_UNREADABLE, o->name, "a message's time is %" PRId64 " ns since 1970",
               *utc_ns);
    return false;
}

/* One piece of the message that is held. */
static void put(optodas *o, grid *grid) {
    int64_t utc_ns = 0;
    o->held = is_good(o, grid, &utc_ns);
    if (!o->held)
        return;
    const size_t n = sonar_min_size(o->longest, o->header.packages - o->done);
    if (!convert(o, n)) {
        tally_note(o->spec.tally, TALLY_UNREADABLE, o->name,
                   "a message is left out, since a sample is no finite number");
        o->held = false;
        return;
    }
    const int64_t since_ns = llrint((double)o->done / o->header.fs_hz * 1e9);
    if (grid_put(grid, 0, utc_ns + since_ns, o->done > 0, o->sample, n))
        o->done += n;
    o->held = o->done < o->header.packages;
}

static void note_silence(optodas *o) {
    if (o->silent || sonar_monotonic_ns() - o->heard_ns < SILENT_S * INT64_C(1000000000))
        return;
    o->silent = true;
    tally_note(o->spec.tally, TALLY_ABSENT, o->name,
               "nothing has come for %d s; it is dialled again", SILENT_S);
}

static sonar_code read_optodas(void *self, grid *grid, sonar_error *err) {
    optodas *o = self;
    zmq_pollitem_t item = {.socket = o->socket, .events = ZMQ_POLLIN};
    if (o->held) {
        put(o, grid);
        return SONAR_OK;
    }
    if (zmq_poll(&item, 1, WAIT_MS) <= 0 ||
        zmq_msg_recv(&o->message, o->socket, ZMQ_DONTWAIT) < 0) {
        note_silence(o);
        return SONAR_OK;
    }
    o->heard_ns = sonar_monotonic_ns();
    o->silent = false;
    o->done = 0;
    if (optodas_is_header(zmq_msg_data(&o->message), zmq_msg_size(&o->message)))
        return take_header(o, grid, err);
    put(o, grid);
    return SONAR_OK;
}

const instrument instrument_optodas = {
    .scheme = "optodas://",
    .form = "optodas://HOST:PORT[/FIRST-LAST[:STEP]]",
    .format = SONAR_F32,
    .open = open_optodas,
    .read = read_optodas,
    .close = close_optodas,
};
