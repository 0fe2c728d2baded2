/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "digitiser.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "core/random.h"

enum { TONES = 12 };

digitiser digitiser_open(const char *endpoint, size_t sensors, uint32_t first, uint32_t count,
                         uint32_t samples) {
    digitiser d = {.context = zmq_ctx_new(),
                   .sensors = sensors,
                   .spacing_m = 0.75,
                   .c_mps = 1500,
                   .az_deg = 70,
                   .level = 1000,
                   .noise = 100,
                   .low_hz = 620,
                   .high_hz = 930};
    d.frame = (sonar_frame){.array_id = 1,
                            .first_channel = first,
                            .channels = count,
                            .samples = samples,
                            .type = SONAR_F32,
                            .epoch = 1,
                            .utc_ns = 1763644400123456789,
                            .fs_hz = 8000};
    d.socket = zmq_socket(d.context, ZMQ_PUSH);
    int linger = 2000, mark = 100;
    zmq_setsockopt(d.socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(d.socket, ZMQ_SNDHWM, &mark, sizeof mark);
    if (zmq_connect(d.socket, endpoint))
        abort();
    return d;
}

void digitiser_close(digitiser *digitiser) {
    zmq_close(digitiser->socket);
    zmq_ctx_term(digitiser->context);
}

/* Uniform in (-1, 1); any sample can be computed separately. */
static double noise_at(uint64_t sample, uint64_t channel) {
    uint64_t state = sonar_random_at(channel, sample);
    return sonar_random_symmetric(&state);
}

void digitiser_fill(const digitiser *d, float *to) {
    double step = (d->high_hz - d->low_hz) / (TONES - 1);
    double amplitude = d->level * sqrt(2.0 / TONES);
    for (uint32_t k = 0; k < d->frame.channels; k++) {
        double place = (d->frame.first_channel + k - ((double)d->sensors - 1) / 2) * d->spacing_m;
        double tau = place * cos(d->az_deg * M_PI / 180) / d->c_mps;
        for (uint32_t i = 0; i < d->frame.samples; i++) {
            uint64_t sample = d->frame.first_sample + i;
            double t = (double)sample / d->frame.fs_hz + tau;
            double x = d->offset + d->drift * (double)sample +
                       sqrt(3.0) * d->noise * noise_at(sample, d->frame.first_channel + k);
            for (int j = 0; j < TONES; j++)
                x += amplitude * cos(2 * M_PI * (d->low_hz + j * step) * t + j * j);
            to[i * d->frame.channels + k] = (float)x;
        }
    }
}

void digitiser_raw(digitiser *d, int parts, const void *const *data, const size_t *bytes) {
    for (int i = 0; i < parts; i++)
        zmq_send(d->socket, data[i], bytes[i], i + 1 < parts ? ZMQ_SNDMORE : 0);
}

void digitiser_skip(digitiser *d, int frames) {
    d->frame.sequence += (uint64_t)frames;
    d->frame.first_sample += (uint64_t)frames * d->frame.samples;
    d->frame.utc_ns += (int64_t)(frames * (double)d->frame.samples / d->frame.fs_hz * 1e9);
}

/* Rounds in place. */
static void narrow(float *samples, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int16_t value = (int16_t)lrintf(samples[i]);
        memcpy((char *)samples + i * sizeof value, &value, sizeof value);
    }
}

void digitiser_send(digitiser *d, int frames) {
    size_t bytes = (size_t)sonar_frame_payload_bytes(&d->frame);
    size_t count = (size_t)d->frame.channels * d->frame.samples;
    float *samples = malloc(count * sizeof *samples);
    uint8_t header[SONAR_FRAME_HEADER_BYTES];
    while (frames-- > 0) {
        digitiser_fill(d, samples);
        if (d->frame.type == SONAR_S16)
            narrow(samples, count);
        sonar_frame_encode(&d->frame, header);
        digitiser_raw(d, 2, (const void *[]){header, samples}, (size_t[]){sizeof header, bytes});
        digitiser_skip(d, 1);
    }
    free(samples);
}
