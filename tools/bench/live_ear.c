/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The subscriber of a live run: arrival time of each window's spectrum, and the last status. */
#include "live.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "core/core.h"
#include "net/net.h"

enum { MESSAGES_PER_TURN = 64 };

sonar_code live_ear_open(const sonar_config *config, const char *key, uint64_t windows,
                         live_ear *ear, sonar_error *err) {
    const int unlimited = 0;
    ear->hop = config->specs.hop;
    ear->windows = windows;
    ear->arrival = sonar_alloc((size_t)windows, sizeof *ear->arrival);
    ear->context = zmq_ctx_new();
    ear->socket = ear->context ? zmq_socket(ear->context, ZMQ_SUB) : NULL;
    if (!ear->arrival || !ear->socket)
        return sonar_fail(err, SONAR_ENOMEM, "subscriber", "out of memory");
    /* A window that is missing must be missing because of the daemon. */
    zmq_setsockopt(ear->socket, ZMQ_RCVHWM, &unlimited, sizeof unlimited);
    zmq_setsockopt(ear->socket, ZMQ_SUBSCRIBE, "cbf.azimuth", 11);
    /* The status last: who gets one has the other subscription, too. */
    zmq_setsockopt(ear->socket, ZMQ_SUBSCRIBE, "status", 6);
    return sonar_client_connect(key, config->security.curve, ear->socket, config->output_endpoint,
                                err);
}

void live_ear_close(live_ear *ear) {
    const int linger = 0;
    if (ear->socket) {
        zmq_setsockopt(ear->socket, ZMQ_LINGER, &linger, sizeof linger);
        zmq_close(ear->socket);
    }
    if (ear->context)
        zmq_ctx_term(ear->context);
    cJSON_Delete(ear->status);
    free(ear->arrival);
    *ear = (live_ear){0};
}

/* ---- messages -------------------------------------------------------------------------------- */

static double number(const cJSON *object, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static double azimuth_of_peak(const cJSON *header, zmq_msg_t *body) {
    const cJSON *axis = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(header, "axes"), 0);
    const cJSON *values = cJSON_GetObjectItemCaseSensitive(axis, "values");
    const size_t count = zmq_msg_size(body) / sizeof(float);
    size_t best = 0;
    float power, most = -1;
    for (size_t i = 0; i < count; i++) {
        memcpy(&power, (const char *)zmq_msg_data(body) + i * sizeof power, sizeof power);
        if (power > most)
            most = power, best = i;
    }
    const cJSON *at = cJSON_GetArrayItem(values, (int)best);
    return at ? at->valuedouble : 0;
}

/* Windows begin at multiples of the hop, the first at sample 0. */
static void note_window(live_ear *ear, const cJSON *header, zmq_msg_t *body, int64_t at_ns) {
    const uint64_t window = (uint64_t)number(header, "sample_index") / ear->hop;
    if (window >= ear->windows || ear->arrival[window].at_ns)
        return;
    const cJSON *missing = cJSON_GetObjectItemCaseSensitive(header, "missing_share");
    ear->received++;
    ear->arrival[window] =
        (live_arrival){at_ns, number(header, "latency_us"), number(missing, "worst")};
    ear->peak_deg = azimuth_of_peak(header, body);
}

static void take_in(live_ear *ear, zmq_msg_t part[3], int64_t at_ns) {
    cJSON *header = cJSON_ParseWithLength(zmq_msg_data(&part[1]), zmq_msg_size(&part[1]));
    const bool status = zmq_msg_size(&part[0]) == 6; /* "status" */
    if (header && !status)
        note_window(ear, header, &part[2], at_ns);
    if (header && status) {
        cJSON_Delete(ear->status);
        ear->status = header;
        return;
    }
    cJSON_Delete(header);
}

/* One message, if there is one. The time is taken before anything is looked at. */
static bool receive(live_ear *ear) {
    zmq_msg_t part[3];
    int got = 0;
    for (int i = 0; i < 3; i++)
        zmq_msg_init(&part[i]);
    while (got < 3 && zmq_msg_recv(&part[got], ear->socket, ZMQ_DONTWAIT) >= 0)
        got++;
    const int64_t at_ns = sonar_monotonic_ns();
    if (got == 3)
        take_in(ear, part, at_ns);
    for (int i = 0; i < 3; i++)
        zmq_msg_close(&part[i]);
    return got == 3;
}

void live_ear_listen(live_ear *ear, int timeout_ms) {
    zmq_pollitem_t item = {.socket = ear->socket, .events = ZMQ_POLLIN};
    if (zmq_poll(&item, 1, timeout_ms) <= 0)
        return;
    for (int i = 0; i < MESSAGES_PER_TURN && receive(ear); i++)
        continue;
}

double live_ear_status(const live_ear *ear, const char *path) {
    const cJSON *item = ear->status;
    char name[64];
    for (size_t n; item && *path; path += n + (path[n] == '.')) {
        n = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        item = cJSON_GetObjectItemCaseSensitive(item, name);
    }
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}
