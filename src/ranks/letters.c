/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ranks/letters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"

enum { NO_ANSWER = 0, READY, REFUSED };
enum { REFUSAL_BYTES = 320 };

struct sonar_letters {
    const sonar_cluster *cluster;
    void (*hold)(void *ctx);
    void *ctx;
    uint8_t *letter; /* [room]; `asked` says which thread owns it */
    size_t room, bytes;
    atomic_bool asked; /* root: the letter is to be sent; other ranks: it is to be read. The other
                          thread clears it */
    atomic_int answer; /* owned by the control thread */
    char why[REFUSAL_BYTES];     /* written before this rank refuses: the reason */
    atomic_int outcome;          /* owned by the data thread until the control thread has read it */
    char refused[REFUSAL_BYTES]; /* written before the letter is dropped: the first refusal of any
                                    rank */
    bool in_flight;              /* data thread: sent, and without outcome yet */
    int wake;                    /* the data thread wakes the control thread */
};

static bool is_root(const sonar_letters *l) {
    return l->cluster->place.rank == 0;
}

/* ---- create ---------------------------------------------------------------------------------- */

sonar_code sonar_letters_create(const sonar_cluster *cluster, size_t room, void (*hold)(void *ctx),
                                void *ctx, sonar_letters **letters, sonar_error *err) {
    size_t all[SONAR_RANKS_MOST];
    *letters = NULL;
    const sonar_code code = cluster->ops->share(&room, sizeof room, all, err);
    if (code)
        return code;
    for (size_t r = 0; r < cluster->place.ranks; r++)
        room = sonar_max_size(room, all[r]);
    sonar_letters *l = sonar_alloc(1, sizeof *l);
    if (l) {
        *l = (sonar_letters){.cluster = cluster, .hold = hold, .ctx = ctx, .room = room};
        l->letter = sonar_alloc(room, 1);
        l->wake = sonar_wake_create();
        if (l->letter && l->wake >= 0) {
            *letters = l;
            return SONAR_OK;
        }
    }
    sonar_letters_destroy(l);
    return sonar_fail(err, SONAR_ENOMEM, "cluster", "no memory for changes");
}

void sonar_letters_destroy(sonar_letters *l) {
    if (!l)
        return;
    if (l->wake >= 0)
        close(l->wake);
    free(l->letter);
    free(l);
}

size_t sonar_letters_room(const sonar_letters *l) {
    return l->room;
}

/* ---- data thread ----------------------------------------------------------------------------- */

void sonar_letters_offer(const sonar_letters *l, sonar_offer *offer) {
    const bool asked = atomic_load(&l->asked);
    offer->answer = (uint8_t)atomic_load(&l->answer);
    if (is_root(l))
        offer->letter = asked && !l->in_flight ? l->bytes : 0;
    else
        offer->busy = asked || offer->answer || atomic_load(&l->outcome);
}

/* Sends the letter if all ranks have finished the previous change; returns true if it was sent. */
static sonar_code send_letter(sonar_letters *l, size_t bytes, sonar_error *err) {
    const sonar_code code = l->cluster->ops->broadcast(l->letter, bytes, err);
    l->in_flight = true;
    l->bytes = bytes;
    atomic_store(&l->asked, !is_root(l));
    if (!is_root(l))
        sonar_wake_signal(l->wake);
    return code;
}

static void settle(sonar_letters *l, sonar_outcome outcome) {
    l->in_flight = false;
    atomic_store(&l->outcome, (int)outcome);
    sonar_wake_signal(l->wake);
}

/* Exchanges the reasons of the ranks that refuse, and keeps the first one. */
static sonar_code drop(sonar_letters *l, const sonar_offer *offer, sonar_error *err) {
    const sonar_rank_place *place = &l->cluster->place;
    char mine[REFUSAL_BYTES] = "", all[SONAR_RANKS_MOST][REFUSAL_BYTES];
    if (offer[place->rank].answer == REFUSED)
        memcpy(mine, l->why, sizeof mine);
    const sonar_code code = l->cluster->ops->share(mine, sizeof mine, all, err);
    size_t first = 0;
    while (first < place->ranks && offer[first].answer != REFUSED)
        first++;
    memcpy(l->refused, all[first], sizeof l->refused);
    settle(l, SONAR_DROPPED);
    return code;
}

sonar_code sonar_letters_round(sonar_letters *l, const sonar_offer *offer, sonar_error *err) {
    bool busy = false, refused = false, ready = true;
    for (size_t r = 0; r < l->cluster->place.ranks; r++) {
        busy = busy || offer[r].busy;
        refused = refused || offer[r].answer == REFUSED;
        ready = ready && offer[r].answer == READY;
    }
    if (!l->in_flight)
        return offer[0].letter && !busy ? send_letter(l, offer[0].letter, err) : SONAR_OK;
    if (refused)
        return drop(l, offer, err);
    if (ready) {
        l->hold(l->ctx);
        settle(l, SONAR_HELD);
    }
    return SONAR_OK;
}

/* ---- control thread -------------------------------------------------------------------------- */

int sonar_letters_fd(const sonar_letters *l) {
    return l ? l->wake : -1;
}

void sonar_letters_clear(sonar_letters *l) {
    sonar_wake_clear(l->wake);
}

const uint8_t *sonar_letters_read(const sonar_letters *l) {
    return l->letter;
}

bool sonar_letters_asked(const sonar_letters *l) {
    return !is_root(l) && atomic_load(&l->asked);
}

void sonar_letters_answer(sonar_letters *l, const char *why) {
    if (why)
        snprintf(l->why, sizeof l->why, "%s", why);
    atomic_store(&l->answer, why ? REFUSED : READY);
    atomic_store(&l->asked, false); /* from now on this rank is busy */
}

sonar_outcome sonar_letters_outcome(const sonar_letters *l) {
    return (sonar_outcome)atomic_load(&l->outcome);
}

const char *sonar_letters_refusal(const sonar_letters *l) {
    return l->refused;
}

void sonar_letters_close(sonar_letters *l) {
    atomic_store(&l->answer, NO_ANSWER);
    atomic_store(&l->outcome, SONAR_NO_OUTCOME); /* from now on this rank is busy */
}

/* ---- the root -------------------------------------------------------------------------------- */

bool sonar_letters_busy(const sonar_letters *l) {
    return l && atomic_load(&l->answer) != NO_ANSWER;
}

sonar_code sonar_letters_write(sonar_letters *l, size_t parts, const sonar_letter_part *part,
                               sonar_error *err) {
    size_t bytes = 0;
    for (size_t i = 0; i < parts; i++)
        bytes += part[i].bytes;
    if (bytes > l->room)
        return sonar_fail(
            err, SONAR_EINVAL, "cluster",
            "the change has %zu bytes, but the ranks have room for only %zu: restart with "
            "it in the file",
            bytes, l->room);
    uint8_t *to = l->letter;
    for (size_t i = 0; i < parts; to += part[i++].bytes)
        if (part[i].bytes)
            memcpy(to, part[i].data, part[i].bytes);
    l->bytes = bytes;
    return SONAR_OK;
}

void sonar_letters_send(sonar_letters *l) {
    atomic_store(&l->answer, READY);
    atomic_store(&l->asked, true); /* from now on the letter belongs to the data thread */
}

/* The other ranks need no longer than this one, but may be busy with something else. */
static const int64_t patience_ns = 20000000000;

void sonar_letters_await(sonar_letters *l, const atomic_bool *ended) {
    const int64_t until = sonar_monotonic_ns() + patience_ns;
    while (!atomic_load(&l->outcome)) {
        if ((!ended || atomic_load(ended)) && !atomic_load(&l->outcome)) {
            snprintf(l->refused, sizeof l->refused, "the ranks have ended");
            atomic_store(&l->outcome, SONAR_DROPPED);
            return;
        }
        if (sonar_monotonic_ns() > until && atomic_load(&l->answer) == READY) {
            snprintf(l->why, sizeof l->why, "a rank has not answered within %d s",
                     (int)(patience_ns / 1000000000));
            atomic_store(&l->answer, REFUSED);
        }
        sonar_wake_wait(l->wake, 20);
    }
}
