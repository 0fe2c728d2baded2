/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The subscriber of a live run: when all topics of a window have come, and the last status. */
#include "live.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "core/core.h"
#include "json.h"
#include "status/topic.h"
#include "net/net.h"

enum {
    MESSAGES_PER_TURN = 64,
    LULL_MS = 1 /* ends a batch: a window's messages come at shorter intervals */
};

/* The status last: once a status comes, the other subscriptions hold, too. */
static void subscribe(void *socket, uint32_t topics) {
    for (int i = 0; i < SONAR_SURFACES; i++)
        if (topics & SONAR_WANT(i) && i != SONAR_STATUS)
            zmq_setsockopt(socket, ZMQ_SUBSCRIBE, sonar_topic_table[i].name,
                           strlen(sonar_topic_table[i].name));
    zmq_setsockopt(socket, ZMQ_SUBSCRIBE, sonar_topic_table[SONAR_STATUS].name,
                   strlen(sonar_topic_table[SONAR_STATUS].name));
}

sonar_code live_ear_open(const sonar_config *config, const char *key, uint64_t windows,
                         live_ear *ear, sonar_error *err) {
    const int unlimited = 0;
    ear->hop = config->specs.hop;
    ear->topics = config->output_topics & ~SONAR_WANT(SONAR_STATUS);
    ear->windows = windows;
    ear->arrival = sonar_alloc((size_t)windows, sizeof *ear->arrival);
    ear->context = zmq_ctx_new();
    ear->socket = ear->context ? zmq_socket(ear->context, ZMQ_SUB) : NULL;
    if (!ear->arrival || !ear->socket)
        return sonar_fail(err, SONAR_ENOMEM, "subscriber", "out of memory");
    /* No limit here, so that a missing window is the daemon's loss. */
    zmq_setsockopt(ear->socket, ZMQ_RCVHWM, &unlimited, sizeof unlimited);
    subscribe(ear->socket, ear->topics);
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

static double azimuth_of_peak(const cJSON *header, zmq_msg_t *body) {
    const cJSON *axis = cJSON_GetArrayItem(json_get(header, "axes"), 0);
    const cJSON *values = json_get(axis, "values");
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
static void note_window(live_ear *ear, sonar_surface topic, const cJSON *header, zmq_msg_t *body,
                        int64_t at_ns) {
    const uint64_t window = (uint64_t)json_count(header, "sample_index") / ear->hop;
    if (window >= ear->windows || ear->arrival[window].topics & SONAR_WANT(topic))
        return;
    const cJSON *missing = json_get(header, "missing_share");
    live_arrival *a = &ear->arrival[window];
    a->topics |= SONAR_WANT(topic);
    a->at_ns = at_ns;
    a->latency_us = fmax(a->latency_us, json_count(header, "latency_us"));
    a->missing = fmax(a->missing, json_count(missing, "worst"));
    ear->came[topic]++;
    ear->received += live_ear_has(ear, window);
    if (topic == SONAR_CBF_AZIMUTH)
        ear->peak_deg = azimuth_of_peak(header, body);
}

/* SONAR_SURFACES: not a surface. */
static sonar_surface topic_of(zmq_msg_t *part) {
    int i = 0;
    while (i < SONAR_SURFACES &&
           (strlen(sonar_topic_table[i].name) != zmq_msg_size(part) ||
            memcmp(sonar_topic_table[i].name, zmq_msg_data(part), zmq_msg_size(part)) != 0))
        i++;
    return (sonar_surface)i;
}

typedef struct message {
    zmq_msg_t part[3];
    int64_t at_ns;
} message;

static void take_in(live_ear *ear, message *m) {
    const sonar_surface topic = topic_of(&m->part[0]);
    cJSON *header = cJSON_ParseWithLength(zmq_msg_data(&m->part[1]), zmq_msg_size(&m->part[1]));
    if (header && topic == SONAR_STATUS) {
        cJSON_Delete(ear->status);
        ear->status = header;
        ear->came[SONAR_STATUS]++;
        return;
    }
    if (header && topic < SONAR_SURFACES)
        note_window(ear, topic, header, &m->part[2], m->at_ns);
    cJSON_Delete(header);
}

static void close_message(message *m) {
    for (int i = 0; i < 3; i++)
        zmq_msg_close(&m->part[i]);
}

/* Receives one message, if one is waiting. */
static bool receive(live_ear *ear, message *m) {
    int got = 0;
    for (int i = 0; i < 3; i++)
        zmq_msg_init(&m->part[i]);
    while (got < 3 && zmq_msg_recv(&m->part[got], ear->socket, ZMQ_DONTWAIT) >= 0)
        got++;
    m->at_ns = sonar_monotonic_ns();
    if (got < 3)
        close_message(m);
    return got == 3;
}

static bool wait_for_message(live_ear *ear, int timeout_ms) {
    zmq_pollitem_t item = {.socket = ear->socket, .events = ZMQ_POLLIN};
    return zmq_poll(&item, 1, timeout_ms) > 0;
}

/* Receives all waiting messages before parsing the first, since parsing takes time. */
void live_ear_listen(live_ear *ear, int timeout_ms) {
    message list[MESSAGES_PER_TURN];
    int count = 0;
    while (count < MESSAGES_PER_TURN && wait_for_message(ear, count ? LULL_MS : timeout_ms) &&
           receive(ear, &list[count]))
        count++;
    for (int i = 0; i < count; i++) {
        take_in(ear, &list[i]);
        close_message(&list[i]);
    }
}

bool live_ear_has(const live_ear *ear, uint64_t window) {
    return ear->arrival[window].topics == ear->topics;
}

double live_ear_status(const live_ear *ear, const char *path) {
    const cJSON *item = ear->status;
    char name[64];
    for (size_t n; item && *path; path += n + (path[n] == '.')) {
        n = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        item = json_get(item, name);
    }
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}
