/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "optodas.h"

#include <cjson/cJSON.h>
#include <endian.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "core/core.h"
#include "json.h"

enum { WAIT_MS = 200, SILENT_S = 5 };

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
    const size_t bytes = whole(json, "bytesPerPackage", fibre_bytes_most);
    const double dt_s = seconds(json);
    fibre_type type = 0;
    while (type < FIBRE_TYPES && name && strcmp(name, fibre_type_name(type)))
        type++;
    if (!name || type == FIBRE_TYPES) {
        snprintf(text, 160, "dataType is %.20s; short, int, long, float and double are read",
                 name ? name : "missing");
        return text;
    }
    *to = (optodas_header){.packages = whole(json, "nPackagesPerMessage", 1e6),
                           .channels = whole(json, "nChannels", fibre_channels_most),
                           .width = fibre_type_width(type),
                           .type = type,
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
    if ((double)bytes * (double)to->packages > fibre_bytes_most)
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
    fibre fibre;
    zmq_msg_t message;
    int64_t heard_ns;
    bool known, silent;
    optodas_header header;
} optodas;

static sonar_code open_optodas(const instrument_spec *spec, void **self, sonar_error *err) {
    optodas *o = *self = sonar_alloc(1, sizeof *o);
    if (!o)
        return sonar_fail(err, SONAR_ENOMEM, spec->where, "out of memory");
    *o = (optodas){.heard_ns = sonar_monotonic_ns()};
    zmq_msg_init(&o->message);
    const sonar_code code = fibre_open(&o->fibre, spec, instrument_optodas.form, err);
    return code ? code : fibre_dial(&o->fibre, ZMQ_SUB, err);
}

static void close_optodas(void *self) {
    optodas *o = self;
    if (!o)
        return;
    zmq_msg_close(&o->message);
    fibre_close(&o->fibre);
    free(o);
}

/* ---- messages -------------------------------------------------------------------------------- */

static fibre_message message_of(optodas *o, int64_t utc_ns) {
    const optodas_header *h = &o->header;
    return (fibre_message){.rows = (const uint8_t *)zmq_msg_data(&o->message) + OPTODAS_TIME,
                           .samples = h->packages,
                           .channels = h->channels,
                           .type = h->type,
                           .fs_hz = h->fs_hz,
                           .utc_ns = utc_ns};
}

static sonar_code take_header(optodas *o, grid *grid, sonar_error *err) {
    char text[160];
    optodas_header header;
    const char *wrong =
        optodas_read_header(zmq_msg_data(&o->message), zmq_msg_size(&o->message), &header, text);
    o->known = !wrong;
    if (wrong) {
        tally_note(o->fibre.spec.tally, TALLY_UNREADABLE, o->fibre.name,
                   "a header cannot be used: %s", wrong);
        return SONAR_OK;
    }
    o->header = header;
    if (grid->fs_hz > 0)
        return SONAR_OK;
    const fibre_message like = message_of(o, 0);
    return fibre_begin(&o->fibre, grid, &like, header.dx, err);
}

/* Is it a message of samples as the header says? */
static bool is_good(optodas *o, const grid *grid, int64_t *utc_ns) {
    const optodas_header *h = &o->header;
    const fibre *f = &o->fibre;
    const size_t bytes = zmq_msg_size(&o->message),
                 wanted = OPTODAS_TIME + h->packages * h->channels * h->width;
    if (!o->known || bytes != wanted) {
        tally_note(f->spec.tally, TALLY_UNREADABLE, f->name,
                   "a message of %zu bytes is left out; the header says %zu (0: there is none)",
                   bytes, o->known ? wanted : 0);
        return false;
    }
    if (!fibre_matches(f, grid, h->channels, h->fs_hz))
        return false;
    uint64_t bits;
    memcpy(&bits, zmq_msg_data(&o->message), sizeof bits);
    *utc_ns = (int64_t)le64toh(bits);
    if (*utc_ns >= 0 && *utc_ns <= fibre_utc_most_ns)
        return true;
    tally_note(f->spec.tally, TALLY_UNREADABLE, f->name,
               "a message's time is %" PRId64 " ns since 1970", *utc_ns);
    return false;
}

/* One piece of the message that is held. */
static void put(optodas *o, grid *grid) {
    int64_t utc_ns = 0;
    o->fibre.held = is_good(o, grid, &utc_ns);
    if (!o->fibre.held)
        return;
    const fibre_message message = message_of(o, utc_ns);
    fibre_put(&o->fibre, grid, &message);
}

static void note_silence(optodas *o) {
    if (o->silent || sonar_monotonic_ns() - o->heard_ns < SILENT_S * INT64_C(1000000000))
        return;
    o->silent = true;
    tally_note(o->fibre.spec.tally, TALLY_ABSENT, o->fibre.name,
               "nothing has come for %d s; it is dialled again", SILENT_S);
}

static sonar_code read_optodas(void *self, grid *grid, sonar_error *err) {
    optodas *o = self;
    zmq_pollitem_t item = {.socket = o->fibre.socket, .events = ZMQ_POLLIN};
    if (o->fibre.held) {
        put(o, grid);
        return SONAR_OK;
    }
    if (zmq_poll(&item, 1, WAIT_MS) <= 0 ||
        zmq_msg_recv(&o->message, o->fibre.socket, ZMQ_DONTWAIT) < 0) {
        note_silence(o);
        return SONAR_OK;
    }
    o->heard_ns = sonar_monotonic_ns();
    o->silent = false;
    o->fibre.done = 0;
    if (optodas_is_header(zmq_msg_data(&o->message), zmq_msg_size(&o->message)))
        return take_header(o, grid, err);
    put(o, grid);
    return SONAR_OK;
}

const instrument instrument_optodas = {
    .scheme = "optodas://",
    .form = "optodas://" FIBRE_FORM,
    .format = SONAR_F32,
    .open = open_optodas,
    .read = read_optodas,
    .close = close_optodas,
};
