/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libFuzzer target for libzmq's authentication requests (ZAP): the input is the frames of a
 * request, each preceded by a byte with its length. Every request gets one valid answer, and a key
 * that is on no list is never admitted. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "core/core.h"
#include "net/net.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FRAMES_MOST = 12, ANSWER_FRAMES = 6, MECHANISM = 5, CREDENTIALS = 6, FRAME_MOST = 300 };

static uint8_t allowed[SONAR_KEY_BYTES] = {1, 2, 3};
static sonar_zap *zap;
static void *socket;

static void set_up(void) {
    const sonar_keyring ring = {.count = 1, .key = &allowed};
    const int patience_ms = 10000;
    bool fewer;
    void *context = zmq_ctx_new();
    if (sonar_zap_create(context, sonar_host_serial(), &zap, NULL) ||
        sonar_zap_allow(zap, SONAR_SENDERS, &ring, &fewer, NULL))
        abort();
    socket = zmq_socket(context, ZMQ_REQ);
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &patience_ms, sizeof patience_ms);
    if (zmq_connect(socket, "inproc://zeromq.zap.01"))
        abort();
}

typedef struct frames {
    size_t count, bytes[FRAMES_MOST];
    const uint8_t *at[FRAMES_MOST];
} frames;

static void cut(const uint8_t *data, size_t size, frames *f) {
    f->count = 0;
    while (size && f->count < FRAMES_MOST) {
        const size_t bytes = sonar_min_size(data[0], size - 1);
        f->at[f->count] = data + 1;
        f->bytes[f->count++] = bytes;
        data += 1 + bytes;
        size -= 1 + bytes;
    }
}

static bool says(const frames *f, size_t i, const void *what, size_t bytes) {
    return i < f->count && f->bytes[i] == bytes && !memcmp(f->at[i], what, bytes);
}

/* The answer's frames; an answer is required. */
static void take_answer(const frames *asked) {
    static char frame[ANSWER_FRAMES][FRAME_MOST];
    int bytes[ANSWER_FRAMES], count = 0, more = 1;
    for (size_t size = sizeof more; more; count++) {
        if (count == ANSWER_FRAMES)
            abort();
        do
            bytes[count] = zmq_recv(socket, frame[count], FRAME_MOST, 0);
        while (bytes[count] < 0 && errno == EINTR); /* libFuzzer's clock */
        if (bytes[count] < 0 || zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size))
            abort();
    }
    if (count != ANSWER_FRAMES || bytes[0] != 3 || memcmp(frame[0], "1.0", 3) != 0 || bytes[2] != 3)
        abort();
    const bool let_in = !memcmp(frame[2], "200", 3);
    if (let_in && says(asked, MECHANISM, "CURVE", 5) &&
        !says(asked, CREDENTIALS, allowed, sizeof allowed))
        abort();
    if (let_in && asked->count > 1 && !says(asked, 1, frame[1], (size_t)bytes[1]))
        abort(); /* an answer to another request */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    frames f;
    if (!zap)
        set_up();
    cut(data, size, &f);
    if (!f.count)
        return 0;
    for (size_t i = 0; i < f.count; i++)
        while (zmq_send(socket, f.at[i], f.bytes[i], i + 1 < f.count ? ZMQ_SNDMORE : 0) < 0)
            if (errno != EINTR)
                abort();
    take_answer(&f);
    return 0;
}
