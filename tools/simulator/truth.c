/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "truth.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "core/core.h"
#include "net/net.h"
#include "synth.h"

#define INTERVAL_S 0.1

struct sim_truth_log {
    sim_truth_spec spec;
    void *socket;
    FILE *file;
    uint64_t told; /* intervals published so far */
};

static bool is_local(const char *endpoint) {
    static const char *const local[] = {"ipc://", "inproc://", "tcp://127.",
                                        "tcp://[::1]:", "tcp://localhost:"};
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if (strncmp(endpoint, local[i], strlen(local[i])) == 0)
            return true;
    return false;
}

static sonar_code open_socket(sim_truth_log *log, sonar_error *err) {
    const char *endpoint = log->spec.endpoint;
    int mark = 100, zero = 0;
    if (!is_local(endpoint))
        return sonar_fail(err, SONAR_EINVAL, endpoint,
                          "the truth is published on loopback (tcp://127.0.0.1:PORT) or ipc only");
    log->socket = zmq_socket(log->spec.zmq_context, ZMQ_XPUB);
    if (!log->socket)
        return sonar_fail(err, SONAR_ESYS, endpoint, "zmq_socket: %s", zmq_strerror(errno));
    zmq_setsockopt(log->socket, ZMQ_SNDHWM, &mark, sizeof mark);
    zmq_setsockopt(log->socket, ZMQ_LINGER, &zero, sizeof zero);
    return sonar_endpoint_bind(log->socket, endpoint, err);
}

sonar_code sim_truth_create(const sim_truth_spec *spec, sim_truth_log **log, sonar_error *err) {
    sim_truth_log *l = sonar_alloc(1, sizeof *l);
    if (!l)
        return sonar_fail(err, SONAR_ENOMEM, "truth", "out of memory");
    l->spec = *spec;
    sonar_code code = spec->endpoint ? open_socket(l, err) : SONAR_OK;
    if (code == SONAR_OK && spec->path) {
        l->file = fopen(spec->path, "w");
        if (!l->file)
            code = sonar_fail(err, SONAR_ESYS, spec->path, "%s", strerror(errno));
    }
    if (code != SONAR_OK)
        sim_truth_destroy(l);
    else
        *log = l;
    return code;
}

void sim_truth_set_utc(sim_truth_log *log, int64_t utc_ns) {
    log->spec.utc_ns = utc_ns;
}

void sim_truth_destroy(sim_truth_log *log) {
    if (!log)
        return;
    if (log->socket)
        zmq_close(log->socket);
    if (log->file)
        fclose(log->file);
    free(log);
}

/* Source names come from YAML and may contain any characters. */
static void write_quoted(const char *text, FILE *to) {
    fputc('"', to);
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            fprintf(to, "\\%c", *text);
        else if ((unsigned char)*text < ' ')
            fprintf(to, "\\u%04x", (unsigned)*text);
        else
            fputc(*text, to);
    fputc('"', to);
}

static void write_source(const sim_source *source, double t_s, FILE *to) {
    sim_truth truth;
    sim_source_truth(source, t_s, &truth);
    fputs("{\"name\":", to);
    write_quoted(source->name, to);
    fprintf(to, ",\"az_deg\":%.6f,\"depression_deg\":%.6f,\"range_m\":", truth.az_deg,
            truth.depression_deg);
    if (source->far)
        fputs("null", to);
    else
        fprintf(to, "%.4f", truth.range_m);
    fprintf(to, ",\"level_db\":%.4f,\"far\":%s}", truth.level_db, source->far ? "true" : "false");
}

static void write_truth(const sim_truth_log *log, uint64_t offset, FILE *to) {
    const sim_truth_spec *spec = &log->spec;
    int64_t utc_ns = spec->utc_ns ? spec->utc_ns + llrint((double)offset / spec->fs_hz * 1e9) : 0;
    uint64_t index = spec->first_index + offset;
    fprintf(to,
            "{\"schema\":\"sonar-truth/1\",\"utc_ns\":%" PRId64 ",\"sample_index\":%" PRIu64
            ",\"sources\":[",
            utc_ns, index);
    for (size_t i = 0; i < spec->scene->sources; i++) {
        if (i)
            fputc(',', to);
        write_source(&spec->scene->source[i], (double)index / spec->fs_hz, to);
    }
    fputs("]}", to);
}

static void publish(const sim_truth_log *log, const char *text, size_t bytes) {
    uint8_t event[64]; /* subscription messages are read, because a departed subscriber's would stay
                          in memory */
    while (zmq_recv(log->socket, event, sizeof event, ZMQ_DONTWAIT) >= 0)
        continue;
    if (zmq_send(log->socket, "truth", 5, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
        zmq_send(log->socket, text, bytes, ZMQ_DONTWAIT);
}

static void tell(sim_truth_log *log, uint64_t offset) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (!memory)
        return;
    write_truth(log, offset, memory);
    if (fclose(memory) == 0) {
        if (log->socket)
            publish(log, text, bytes);
        if (log->file)
            fprintf(log->file, "%s\n", text);
    }
    free(text);
}

void sim_truth_advance(sim_truth_log *log, uint64_t samples) {
    if (!log->socket && !log->file)
        return;
    for (;; log->told++) {
        uint64_t offset = (uint64_t)llrint((double)log->told * INTERVAL_S * log->spec.fs_hz);
        if (offset >= samples)
            return;
        tell(log, offset);
    }
}
