/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "feedback.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "core/core.h"
#include "json.h"
#include "net/net.h"
#include "output/output.h"

enum { POLL_MS = 50 };

struct sim_feedback {
    void *socket;
    uint32_t epoch;
    sim_credit credit;
    bool heard; /* a status has been received */
    bool idle; /* the last status was received during this wait and reported no window waiting or at
                  work */
};

/* ---- credit ---------------------------------------------------------------------------------- */

/* Number of windows that lie completely below `end`. */
static uint64_t windows_below(const sim_credit *c, uint64_t end) {
    uint64_t first_end = c->first + c->length;
    return end < first_end ? 0 : (end - first_end) / c->hop + 1;
}

bool sim_credit_covers(const sim_credit *credit, uint64_t sent, uint64_t end) {
    return windows_below(credit, end) <= credit->done + credit->queue_windows ||
           sim_credit_is_over(credit, sent);
}

bool sim_credit_is_over(const sim_credit *credit, uint64_t sent) {
    return windows_below(credit, sent) <= credit->done;
}

void sim_credit_note(sim_credit *credit, uint64_t first_sample) {
    if (first_sample >= credit->first &&
        (first_sample - credit->first) / credit->hop >= credit->done)
        credit->done = (first_sample - credit->first) / credit->hop + 1;
}

void sim_credit_settle(sim_credit *credit, uint64_t sent) {
    uint64_t complete = windows_below(credit, sent);
    credit->done = complete > credit->done ? complete : credit->done;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* The shortest topic that is published with every window; NULL: no such topic. */
static const char *topic_of_windows(const sonar_config *c) {
    if (c->detect_enabled && (c->output_topics & SONAR_WANT(SONAR_DETECTIONS)))
        return sonar_topic_name(SONAR_DETECTIONS);
    if (c->output_topics & SONAR_WANT(SONAR_CBF_AZIMUTH))
        return sonar_topic_name(SONAR_CBF_AZIMUTH);
    if (c->specs.mvdr_enabled && (c->output_topics & SONAR_WANT(SONAR_MVDR_AZIMUTH)))
        return sonar_topic_name(SONAR_MVDR_AZIMUTH);
    return NULL;
}

static sonar_code listen_to(sim_feedback *f, void *zmq_context, const sonar_config *config,
                            const char *key, sonar_error *err) {
    const char *windows = topic_of_windows(config);
    const char *status = sonar_topic_name(SONAR_STATUS);
    int zero = 0, on = 1;
    if (!windows || !(config->output_topics & SONAR_WANT(SONAR_STATUS)))
        return sonar_fail(
            err, SONAR_EUNAVAILABLE, "output.topics",
            "status and one of detections, cbf.azimuth and mvdr.azimuth are needed to "
            "keep the daemon's pace, unless ingest.overload is block");
    f->socket = zmq_socket(zmq_context, ZMQ_SUB);
    if (!f->socket)
        return sonar_fail(err, SONAR_ESYS, "zmq", "%s", zmq_strerror(zmq_errno()));
    zmq_setsockopt(f->socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(f->socket, ZMQ_IPV6, &on, sizeof on);
    sonar_socket_keepalive(f->socket);
    /* status last: when one is received, the other subscription is effective too */
    zmq_setsockopt(f->socket, ZMQ_SUBSCRIBE, windows, strlen(windows));
    zmq_setsockopt(f->socket, ZMQ_SUBSCRIBE, status, strlen(status));
    return sonar_client_connect(key, config->security.curve, f->socket, config->output_endpoint,
                                err);
}

void sim_feedback_restart(sim_feedback *f, uint32_t epoch, uint64_t first_index) {
    f->epoch = epoch;
    f->credit.done = 0;
    f->credit.first = (first_index + f->credit.hop - 1) / f->credit.hop * f->credit.hop;
}

sonar_code sim_feedback_create(void *zmq_context, const sonar_config *config, const char *key,
                               uint32_t epoch, uint64_t first_index, sim_feedback **feedback,
                               sonar_error *err) {
    sim_feedback *f = sonar_alloc(1, sizeof *f);
    if (!f)
        return sonar_fail(err, SONAR_ENOMEM, "feedback", "out of memory");
    f->credit = (sim_credit){.length = config->specs.window_length,
                             .hop = config->specs.hop,
                             .queue_windows = config->ingest_queue_windows};
    sim_feedback_restart(f, epoch, first_index);
    sonar_code code = listen_to(f, zmq_context, config, key, err);
    if (code != SONAR_OK)
        sim_feedback_destroy(f);
    else
        *feedback = f;
    return code;
}

void sim_feedback_destroy(sim_feedback *feedback) {
    if (feedback && feedback->socket)
        zmq_close(feedback->socket);
    free(feedback);
}

/* ---- messages -------------------------------------------------------------------------------- */

static bool is_repeat(const cJSON *head) {
    const cJSON *flag;
    cJSON_ArrayForEach(flag, cJSON_GetObjectItemCaseSensitive(head, "flags")) {
        if (cJSON_IsString(flag) && strcmp(flag->valuestring, "repeat") == 0)
            return true;
    }
    return false;
}

/* Windows that are not published, because they lack samples or have failed, are visible only in the
 * counters. Two new statuses in a row, a second apart, without a window waiting or at work show
 * that no frame is on its way. */
static void take_status(sim_feedback *f, const cJSON *head, uint64_t sent) {
    const cJSON *w = cJSON_GetObjectItemCaseSensitive(head, "windows");
    const cJSON *dropped = cJSON_GetObjectItemCaseSensitive(w, "dropped");
    double taken = json_number(w, "taken");
    f->heard = true;
    if (is_repeat(head))
        return;
    bool idle = json_number(w, "offered") == taken + json_number(dropped, "overload") &&
                taken == json_number(w, "processed") + json_number(w, "failed");
    if (idle && f->idle)
        sim_credit_settle(&f->credit, sent);
    f->idle = idle;
}

static void take_window(sim_feedback *f, const cJSON *head) {
    double first = json_number(head, "sample_index");
    if (json_number(head, "epoch") == f->epoch && first >= 0 && first < 0x1p63)
        sim_credit_note(&f->credit, (uint64_t)first);
    f->idle = false;
}

/* Takes one message, if one arrives in time. */
static bool take_message(sim_feedback *f, uint64_t sent, int timeout_ms) {
    zmq_pollitem_t item = {.socket = f->socket, .events = ZMQ_POLLIN};
    if (zmq_poll(&item, 1, timeout_ms) <= 0)
        return false;
    bool status = false, more = true;
    for (int part = 0; more; part++) {
        zmq_msg_t message;
        zmq_msg_init(&message);
        if (zmq_msg_recv(&message, f->socket, 0) < 0)
            return false;
        const char *data = zmq_msg_data(&message);
        size_t bytes = zmq_msg_size(&message);
        if (part == 0)
            status = bytes == strlen("status") && memcmp(data, "status", bytes) == 0;
        cJSON *head = part == 1 ? cJSON_ParseWithLength(data, bytes) : NULL;
        if (head && status)
            take_status(f, head, sent);
        else if (head)
            take_window(f, head);
        cJSON_Delete(head);
        more = zmq_msg_more(&message);
        zmq_msg_close(&message);
    }
    return true;
}

bool sim_feedback_hears(sim_feedback *f, int timeout_ms, const volatile sig_atomic_t *stop) {
    int64_t until = sonar_monotonic_ns() + (int64_t)timeout_ms * 1000000;
    while (!f->heard && !*stop && sonar_monotonic_ns() < until)
        take_message(f, 0, POLL_MS);
    return f->heard;
}

bool sim_feedback_wait(sim_feedback *f, uint64_t sent, uint64_t end,
                       const volatile sig_atomic_t *stop) {
    while (take_message(
        f, sent, 0)) /* messages received meanwhile may be older than the samples sent since */
        f->idle = false;
    f->idle = false;
    while (!*stop && !sim_credit_covers(&f->credit, sent, end))
        take_message(f, sent, POLL_MS);
    return !*stop;
}

void sim_feedback_finish(sim_feedback *f, uint64_t sent, int timeout_ms,
                         const volatile sig_atomic_t *stop) {
    int64_t heard_ns = sonar_monotonic_ns();
    f->idle = false;
    while (!*stop && !sim_credit_is_over(&f->credit, sent) &&
           sonar_monotonic_ns() - heard_ns < (int64_t)timeout_ms * 1000000)
        if (take_message(f, sent, POLL_MS))
            heard_ns = sonar_monotonic_ns();
}
