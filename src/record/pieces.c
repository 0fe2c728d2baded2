/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "record/pieces.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* A piece has a sixteenth of a second of samples: little is lost with the process, and a row is
 * long enough to be copied at once. */
void sonar_pieces_plan(const sonar_recorder_spec *spec, sonar_pieces *pieces) {
    const bool raw = spec->kind == SONAR_RECORD_RAW;
    pieces->channels = spec->channels;
    pieces->ns_a_sample = 1e9 / spec->fs_hz;
    pieces->width = sonar_dtype_size(spec->type);
    pieces->samples = (size_t)fmax(1, ceil(spec->fs_hz / 16));
    pieces->piece_bytes =
        raw ? pieces->samples * pieces->channels * pieces->width : SONAR_MESSAGE_PIECE_BYTES;
    pieces->lacks_most = raw ? sonar_stretch_lacks_most(spec->channels) : 1;
    pieces->count = sonar_max_size(spec->buffer_bytes / pieces->piece_bytes, SONAR_PIECES_LEAST);
}

size_t sonar_recorder_bytes(const sonar_recorder_spec *spec) {
    sonar_pieces plan;
    sonar_pieces_plan(spec, &plan);
    return plan.count * (plan.piece_bytes + plan.lacks_most * sizeof(sonar_lack));
}

bool sonar_pieces_create(sonar_pieces *p) {
    p->wake = sonar_wake_create();
    p->piece = sonar_alloc(p->count, sizeof *p->piece);
    p->bytes = sonar_alloc(p->count, p->piece_bytes);
    p->lack = sonar_alloc(p->count, p->lacks_most * sizeof *p->lack);
    p->empty = sonar_ring_create(p->count);
    p->filled = sonar_ring_create(p->count);
    if (p->wake < 0 || !p->piece || !p->bytes || !p->lack || !p->empty || !p->filled)
        return false;
    for (size_t i = 0; i < p->count; i++) {
        p->piece[i].bytes = p->bytes + i * p->piece_bytes;
        p->piece[i].lack = p->lack + i * p->lacks_most;
        sonar_ring_push(p->empty, &p->piece[i]);
    }
    return true;
}

void sonar_pieces_destroy(sonar_pieces *p) {
    if (p->wake >= 0)
        close(p->wake);
    sonar_ring_destroy(p->empty);
    sonar_ring_destroy(p->filled);
    free(p->piece);
    free(p->bytes);
    free(p->lack);
}

/* The ring cannot be full, because it has as many places as there are pieces. The recorder polls
 * often enough by itself; it is woken only if much data arrives at once. */
void sonar_pieces_hand_over(sonar_pieces *p, sonar_piece *piece) {
    sonar_ring_push(p->filled, piece);
    if (sonar_ring_count(p->filled) >= p->count / 4)
        sonar_wake_signal(p->wake);
}
