/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The socket; verbs.c interprets the requests. */
#include "control/server.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zmq.h>

#include "control/verbs.h"
#include "core/core.h"
#include "net/net.h"

enum { AT_ONCE = 8, QUEUED = 16, PARTS_MOST = 3, IDENTITY_BYTES = 255, TICK_MS = 100 };

/* ---- create ---------------------------------------------------------------------------------- */

/* The socket's file is created with its final mode, so that no other process can connect in
 * between. umask applies to the whole process, but no other thread creates a file with a wider mode
 * at that time. */
static sonar_code bind_closed(const sonar_control *c, sonar_error *err) {
    const char *path = c->spec.endpoint + strlen("ipc://");
    const mode_t mode = c->spec.group ? 0660 : 0600, before = umask(c->spec.group ? 0117 : 0177);
    const sonar_guard guard = {.domain = SONAR_CONTROLLERS};
    sonar_code code = sonar_guard_bind(&guard, c->socket, c->spec.endpoint, err);
    umask(before);
    if (!code && *path != '@' && chmod(path, mode) != 0)
        code = sonar_fail(err, SONAR_ESYS, c->spec.endpoint, "chmod: %s", strerror(errno));
    return code;
}

static sonar_code open_socket(sonar_control *c, sonar_error *err) {
    const sonar_socket_spec spec = {.type = ZMQ_ROUTER,
                                    .messages_out = QUEUED,
                                    .messages_in = QUEUED,
                                    .message_bytes = SONAR_CONTROL_BYTES_MOST,
                                    .io_threads = SONAR_IO_CONTROL};
    size_t bytes = sizeof c->fd;
    sonar_code code = sonar_socket_open(sonar_pipeline_context(c->spec.pipeline), &spec,
                                        c->spec.endpoint, &c->socket, err);
    if (!code)
        code = sonar_peers_watch(c->peers, c->socket, err);
    if (!code)
        code = bind_closed(c, err);
    if (!code && zmq_getsockopt(c->socket, ZMQ_FD, &c->fd, &bytes) != 0)
        code = sonar_fail(err, SONAR_ESYS, c->spec.endpoint, "%s", zmq_strerror(zmq_errno()));
    return code;
}

sonar_code sonar_control_create(const sonar_control_spec *spec, sonar_control **control,
                                sonar_error *err) {
    *control = NULL;
    sonar_control *c = sonar_alloc(1, sizeof *c);
    if (!c)
        return sonar_fail(err, SONAR_ENOMEM, "control", "no memory");
    c->spec = *spec;
    c->peers = sonar_peers_create(sonar_pipeline_context(spec->pipeline), SONAR_PEERS_OF_CONTROL,
                                  sonar_pipeline_gate(spec->pipeline, SONAR_CONTROLLERS));
    sonar_code code = !c->peers        ? sonar_fail(err, SONAR_ENOMEM, "control", "no memory")
                      : spec->endpoint ? open_socket(c, err)
                                       : SONAR_OK;
    if (code)
        sonar_control_destroy(c);
    else
        *control = c;
    return code;
}

void sonar_control_destroy(sonar_control *c) {
    if (!c)
        return;
    if (c->socket) {
        sonar_peers_forget(c->peers, c->socket);
        zmq_close(c->socket);
    }
    sonar_peers_destroy(c->peers);
    free(c);
}

int sonar_control_fd(const sonar_control *c) {
    return c->socket ? c->fd : -1;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* The sender and the text of a message. Further parts are read and dropped. */
typedef struct request {
    char identity[IDENTITY_BYTES];
    size_t identity_bytes, parts, bytes;
    zmq_msg_t text;
} request;

static void take_part(request *r, zmq_msg_t *part) {
    if (r->parts == 0 && zmq_msg_size(part) <= IDENTITY_BYTES) {
        r->identity_bytes = zmq_msg_size(part);
        memcpy(r->identity, zmq_msg_data(part), r->identity_bytes);
    }
    r->parts++;
    r->bytes += zmq_msg_size(part);
    if (r->parts == PARTS_MOST)
        zmq_msg_move(&r->text, part);
}

static bool receive(sonar_control *c, request *r) {
    int more = 1;
    memset(r, 0, sizeof *r);
    zmq_msg_init(&r->text);
    while (more) {
        zmq_msg_t part;
        zmq_msg_init(&part);
        if (zmq_msg_recv(&part, c->socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&part);
            return false;
        }
        more = zmq_msg_more(&part);
        take_part(r, &part);
        zmq_msg_close(&part);
    }
    return true;
}

/* If the peer has left, the answer is dropped; if its queue is full, it has to ask again. */
static void send_answer(sonar_control *c, const request *r, const char *text) {
    const int more = ZMQ_SNDMORE | ZMQ_DONTWAIT;
    if (zmq_send(c->socket, r->identity, r->identity_bytes, more) >= 0 &&
        zmq_send(c->socket, "", 0, more) >= 0)
        zmq_send(c->socket, text, strlen(text), ZMQ_DONTWAIT);
}

/* Answers in the form that REQ expects: an empty part, then the text. */
static void answer(sonar_control *c, request *r) {
    static const char malformed[] =
        "{\"ok\":false,\"error\":{\"where\":\"request\",\"text\":\"expected one part: a JSON "
        "object\"}}";
    char *text = NULL;
    if (r->parts == PARTS_MOST)
        text = sonar_control_answer(c, zmq_msg_data(&r->text), zmq_msg_size(&r->text));
    send_answer(c, r, text ? text : malformed);
    cJSON_free(text);
}

/* ---- peers ----------------------------------------------------------------------------------- */

/* Parts of messages that are never completed are freed together with their connection. */
static void look_after_peers(sonar_control *c) {
    sonar_memory *memory = sonar_pipeline_memory(c->spec.pipeline);
    const int64_t now_ns = sonar_monotonic_ns();
    sonar_peers_tick(c->peers, now_ns);
    if (now_ns - c->ticked_ns < (int64_t)TICK_MS * 1000000)
        return;
    c->ticked_ns = now_ns;
    sonar_memory_allow(memory, SONAR_MEMORY_CONTROL, sonar_peers_connected(c->peers), QUEUED,
                       c->largest_bytes);
    if (!sonar_memory_exceeded(memory, SONAR_MEMORY_CONTROL, now_ns))
        return;
    sonar_peers_hang_up(c->peers);
    if (c->spec.log)
        c->spec.log(c->spec.log_ctx, SONAR_WARN, "control",
                    "all connections were ended: their requests held too much memory");
}

int sonar_control_tick_ms(const sonar_control *c) {
    return c->socket ? TICK_MS : INT_MAX;
}

bool sonar_control_serve(sonar_control *c) {
    int events = 0;
    size_t bytes = sizeof events;
    request r;
    if (!c->socket)
        return false;
    look_after_peers(c);
    for (int i = 0; i < AT_ONCE; i++) {
        const bool came = receive(c, &r);
        c->largest_bytes = sonar_max_size(c->largest_bytes, r.bytes);
        if (came)
            answer(c, &r);
        zmq_msg_close(&r.text);
        if (!came)
            break;
    }
    return zmq_getsockopt(c->socket, ZMQ_EVENTS, &events, &bytes) == 0 && events & ZMQ_POLLIN;
}
