/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Changes where several ranks share the array: all ranks take one over with the same window, or
 * none does. The root's control thread makes what is wanted for itself, writes it into a letter and
 * has its data thread send it. The control thread of every other rank does the same by the letter
 * and says so, or why it cannot; the offers of the rounds tell (ranks/agree.h). In the first
 * round in which all are ready all hold the change, and the next window is under it; in the first
 * in which one refuses all drop it. One change is on its way at a time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/internal.h"

enum letter_kind { LETTER_VERSION = 1, LETTER_KEYS, LETTER_RECORD };

/* What follows it: of a version the text of its configuration, or none where that stays, and a byte
 * for each sensor to be out; of keys these. */
struct letter {
    uint32_t kind, text_bytes, mask_bytes;
    uint32_t keys[SONAR_DOMAINS]; /* how many, of each side */
    uint8_t record;
    char digest[65]; /* of the configuration */
};

/* ---- create ---------------------------------------------------------------------------------- */

/* How many keys there is room for: twice those of the start, and some. */
static size_t most_keys(const sonar_config *c) {
    const sonar_keyring *ring = c->security.allowed;
    return 1024 + 2 * (ring[SONAR_SENDERS].count + ring[SONAR_READERS].count);
}

/* Room for any configuration that this one can become: every live option of one line, and of a
 * number for each sensor, mask, gain or sensitivity and amplifier, phase and delay, all of them as
 * long as numbers can be; and for keys. */
static size_t room_for(const sonar_config *c) {
    enum { NUMBER_BYTES = 32, LISTS = 5, LINES = 32768 };
    size_t bytes = 0;
    free(sonar_config_given(c, &bytes));
    return sizeof(struct letter) + bytes + LINES + c->sensors * (LISTS * NUMBER_BYTES + 1) +
           most_keys(c) * SONAR_KEY_BYTES;
}

/* The most that any rank counts: what a file gives of its defaults, and keys, are each rank's own.
 */
static sonar_code agree_on_room(sonar_pipeline *p, sonar_error *err) {
    struct proposal *c = &p->ranks.change;
    const size_t mine = room_for(p->whole);
    size_t all[SONAR_RANKS_MOST];
    const sonar_code code = p->ranks.cluster->ops->share(&mine, sizeof mine, all, err);
    for (size_t r = 0; r < p->ranks.cluster->place.ranks && !code; r++)
        c->room = sonar_max_size(c->room, all[r]);
    return code;
}

sonar_code sonar_propose_create(sonar_pipeline *p, sonar_error *err) {
    struct proposal *c = &p->ranks.change;
    if (!p->ranks.cluster)
        return SONAR_OK;
    const sonar_code code = agree_on_room(p, err);
    if (code)
        return code;
    c->letter = sonar_alloc(c->room, 1);
    c->mask = sonar_alloc(p->whole->sensors, 1);
    c->wake = sonar_wake_create();
    return c->letter && c->mask && c->wake >= 0
               ? SONAR_OK
               : sonar_fail(err, SONAR_ENOMEM, "cluster", "no memory for changes");
}

void sonar_propose_destroy(sonar_pipeline *p) {
    struct proposal *c = &p->ranks.change;
    if (c->letter && c->wake >= 0)
        close(c->wake);
    free(c->letter);
    free(c->mask);
}

/* ---- data thread ----------------------------------------------------------------------------- */

void sonar_propose_offer(sonar_pipeline *p, sonar_offer *offer) {
    struct proposal *c = &p->ranks.change;
    const bool asked = atomic_load(&c->asked);
    offer->answer = (uint8_t)atomic_load(&c->answer);
    if (sonar_is_root(p))
        offer->letter = asked && !c->in_flight ? c->bytes : 0;
    else
        offer->busy = asked || offer->answer || atomic_load(&c->outcome);
}

/* Nobody is still at the change before. */
static sonar_code send_letter(sonar_pipeline *p, sonar_error *err) {
    const struct ranks *ranks = &p->ranks;
    struct proposal *c = &p->ranks.change;
    const size_t bytes = ranks->offer[0].letter;
    const sonar_code code = ranks->cluster->ops->broadcast(c->letter, bytes, err);
    c->in_flight = true;
    c->bytes = bytes;
    atomic_store(&c->asked, !sonar_is_root(p));
    if (!sonar_is_root(p))
        sonar_wake_signal(c->wake);
    return code;
}

static void settle(struct proposal *c, int outcome) {
    c->in_flight = false;
    atomic_store(&c->outcome, outcome);
    sonar_wake_signal(c->wake);
}

/* The reasons of those that refuse, and of them the first rank's. */
static sonar_code drop(sonar_pipeline *p, sonar_error *err) {
    const struct ranks *ranks = &p->ranks;
    struct proposal *c = &p->ranks.change;
    char mine[SONAR_REFUSAL_BYTES] = "", all[SONAR_RANKS_MOST][SONAR_REFUSAL_BYTES];
    if (ranks->offer[ranks->cluster->place.rank].answer == SONAR_REFUSED)
        memcpy(mine, c->why, sizeof mine);
    const sonar_code code = ranks->cluster->ops->share(mine, sizeof mine, all, err);
    size_t first = 0;
    while (first < ranks->agree.ranks && ranks->offer[first].answer != SONAR_REFUSED)
        first++;
    memcpy(c->refused, all[first], sizeof c->refused);
    settle(c, SONAR_DROPPED);
    return code;
}

sonar_code sonar_propose_round(sonar_pipeline *p, sonar_error *err) {
    const struct ranks *ranks = &p->ranks;
    struct proposal *c = &p->ranks.change;
    bool busy = false, refused = false, ready = true;
    for (size_t r = 0; r < ranks->agree.ranks; r++) {
        busy = busy || ranks->offer[r].busy;
        refused = refused || ranks->offer[r].answer == SONAR_REFUSED;
        ready = ready && ranks->offer[r].answer == SONAR_READY;
    }
    if (!c->in_flight)
        return ranks->offer[0].letter && !busy ? send_letter(p, err) : SONAR_OK;
    if (refused)
        return drop(p, err);
    if (ready && c->made)
        sonar_live_hold(p, c->made);
    if (ready)
        settle(c, SONAR_HELD);
    return SONAR_OK;
}

/* ---- letters --------------------------------------------------------------------------------- */

static struct letter head_of(const struct proposal *c) {
    struct letter head;
    memcpy(&head, c->letter, sizeof head);
    return head;
}

static const uint8_t *body_of(const struct proposal *c) {
    return c->letter + sizeof(struct letter);
}

/* Two parts behind the head. */
static sonar_code write_letter(struct proposal *c, const struct letter *head, const void *first,
                               size_t first_bytes, const void *second, size_t second_bytes,
                               sonar_error *err) {
    c->bytes = sizeof *head + first_bytes + second_bytes;
    if (c->bytes > c->room)
        return sonar_fail(err, SONAR_EINVAL, "cluster",
                          "the change has %zu bytes, and the ranks have room for %zu: restart with "
                          "it in the file",
                          c->bytes, c->room);
    memcpy(c->letter, head, sizeof *head);
    if (first_bytes)
        memcpy(c->letter + sizeof *head, first, first_bytes);
    if (second_bytes)
        memcpy(c->letter + sizeof *head + first_bytes, second, second_bytes);
    return SONAR_OK;
}

static sonar_code write_version(sonar_pipeline *p, const sonar_config *config, sonar_error *err) {
    struct proposal *c = &p->ranks.change;
    const sonar_config *whole = c->made->plan->whole;
    const uint8_t *out = whole->auto_mask ? sonar_elements_mask(p->judged) : NULL;
    size_t bytes = 0;
    char *text = config ? sonar_config_given(config, &bytes) : NULL;
    if (config && !text)
        return sonar_fail(err, SONAR_ENOMEM, "cluster", "no memory for the change");
    struct letter head = {.kind = LETTER_VERSION,
                          .text_bytes = (uint32_t)bytes,
                          .mask_bytes = out ? (uint32_t)whole->sensors : 0};
    memcpy(head.digest, whole->digest, sizeof head.digest);
    const sonar_code code =
        write_letter(&p->ranks.change, &head, text, bytes, out, head.mask_bytes, err);
    free(text);
    return code;
}

/* ---- other ranks ----------------------------------------------------------------------------- */

const uint8_t *sonar_propose_mask(const sonar_pipeline *p) {
    return p->ranks.change.masks ? p->ranks.change.mask : NULL;
}

/* The configuration of a letter; the caller's to destroy. */
static sonar_code read_config(const sonar_pipeline *p, const struct letter *head,
                              sonar_config **config, sonar_error *err) {
    const char *text = (const char *)body_of(&p->ranks.change);
    sonar_report *report = sonar_report_create();
    sonar_code code = report ? sonar_config_take_given(sonar_pipeline_config(p), text,
                                                       head->text_bytes, config, report)
                             : SONAR_ENOMEM;
    char mistake[256] = "no memory";
    if (code && report)
        sonar_report_mistake(report, NULL, mistake, sizeof mistake);
    sonar_report_destroy(report);
    if (code)
        return sonar_fail(err, code, "configuration", "%s", mistake);
    if (!strcmp((*config)->digest, head->digest))
        return SONAR_OK;
    char digest[sizeof head->digest];
    memcpy(digest, (*config)->digest, sizeof digest);
    sonar_config_destroy(*config);
    *config = NULL;
    return sonar_fail(err, SONAR_EINVAL, "configuration",
                      "read as 1-%.12s..., which rank 0 has read as 1-%.12s...: the ranks' sonard "
                      "have to be of the same version",
                      digest, head->digest);
}

static sonar_code make_version(sonar_pipeline *p, const struct letter *head, sonar_error *err) {
    struct proposal *c = &p->ranks.change;
    sonar_config *config = NULL;
    sonar_code code = head->text_bytes ? read_config(p, head, &config, err) : SONAR_OK;
    if (code)
        return code;
    c->masks = head->mask_bytes > 0;
    memcpy(c->mask, body_of(c) + head->text_bytes, head->mask_bytes);
    code = sonar_live_make(p, config, &c->made, err);
    if (code)
        sonar_config_destroy(config);
    return code;
}

static void answer(sonar_pipeline *p) {
    struct proposal *c = &p->ranks.change;
    const struct letter head = head_of(c);
    sonar_error err = {0};
    const sonar_code code = head.kind == LETTER_VERSION ? make_version(p, &head, &err) : SONAR_OK;
    if (code)
        snprintf(c->why, sizeof c->why, "rank %zu: %.64s: %.200s", p->ranks.cluster->place.rank,
                 err.where, err.text);
    atomic_store(&c->answer, code ? SONAR_REFUSED : SONAR_READY);
    atomic_store(&c->asked, false); /* after that: it is busy all the time */
}

/* ---- what comes of it ------------------------------------------------------------------------ */

static void allow_keys(sonar_pipeline *p, const struct letter *head) {
    struct proposal *c = &p->ranks.change;
    const uint8_t *key = body_of(c);
    for (int i = 0; i < SONAR_DOMAINS; key += head->keys[i++] * SONAR_KEY_BYTES) {
        sonar_error err = {0};
        const sonar_keyring ring = {.count = head->keys[i],
                                    .key = (uint8_t(*)[SONAR_KEY_BYTES])(uintptr_t)key};
        if (sonar_pipeline_allow_side(p, (sonar_domain)i, &ring, &err))
            sonar_log(&p->host, SONAR_ERROR, err.where, "%s: the keys of before hold", err.text);
    }
}

static void hold(sonar_pipeline *p) {
    struct proposal *c = &p->ranks.change;
    const struct letter head = head_of(c);
    if (head.kind == LETTER_VERSION)
        sonar_live_tell_others(p, c->made);
    if (head.kind == LETTER_KEYS)
        allow_keys(p, &head);
    if (head.kind == LETTER_RECORD && p->recorder)
        sonar_recorder_ask(p->recorder, head.record);
    if (c->tells_mask)
        sonar_mask_tell(p);
}

static void forget(sonar_pipeline *p) {
    struct proposal *c = &p->ranks.change;
    if (c->made && sonar_is_root(p) && !c->tells_mask)
        c->made->plan->owned = NULL; /* the configuration is the caller's again */
    if (c->made)
        sonar_live_drop(p, c->made);
    if (!c->tells_mask)
        return;
    sonar_log(&p->host, SONAR_ERROR, "array.auto_mask", "%s: the mask stays as it is", c->refused);
    p->versions.mask_wanted = true;
}

/* After the outcome is there. */
static void finish(sonar_pipeline *p) {
    struct proposal *c = &p->ranks.change;
    if (atomic_load(&c->outcome) == SONAR_HELD)
        hold(p);
    else
        forget(p);
    c->made = NULL;
    c->tells_mask = false;
    atomic_store(&c->answer, SONAR_NO_ANSWER);
    atomic_store(&c->outcome, SONAR_NO_OUTCOME); /* after that: it is busy all the time */
    sonar_live_tick(p);
}

void sonar_propose_attend(sonar_pipeline *p) {
    struct proposal *c = &p->ranks.change;
    if (!p->ranks.cluster)
        return;
    sonar_wake_clear(c->wake);
    if (!sonar_is_root(p) && atomic_load(&c->asked))
        answer(p);
    if (atomic_load(&c->outcome))
        finish(p);
}

/* ---- the root -------------------------------------------------------------------------------- */

bool sonar_propose_is_busy(const sonar_pipeline *p) {
    return atomic_load(&p->ranks.change.answer) != SONAR_NO_ANSWER;
}

static void start(struct proposal *c) {
    atomic_store(&c->answer, SONAR_READY);
    atomic_store(&c->asked, true); /* after that: the letter is the data thread's */
}

/* Other ranks need no longer than this one, but may be at something else. */
static const int64_t patience_ns = 20000000000;

/* Until the outcome is there. False: the ranks have ended. */
static bool await_outcome(sonar_pipeline *p) {
    struct proposal *c = &p->ranks.change;
    const int64_t until = sonar_monotonic_ns() + patience_ns;
    while (!atomic_load(&c->outcome)) {
        if (atomic_load(&p->drained) || !p->thread_started)
            return atomic_load(&c->outcome) != SONAR_NO_OUTCOME;
        if (sonar_monotonic_ns() > until && atomic_load(&c->answer) == SONAR_READY) {
            snprintf(c->why, sizeof c->why, "a rank has not answered within %d s",
                     (int)(patience_ns / 1000000000));
            atomic_store(&c->answer, SONAR_REFUSED);
        }
        sonar_wake_wait(c->wake, 20);
    }
    return true;
}

/* Waits for what is on its way. */
static sonar_code conclude(sonar_pipeline *p, sonar_error *err) {
    struct proposal *c = &p->ranks.change;
    if (!await_outcome(p)) {
        snprintf(c->refused, sizeof c->refused, "the ranks have ended");
        atomic_store(&c->outcome, SONAR_DROPPED);
    }
    const bool held = atomic_load(&c->outcome) == SONAR_HELD;
    finish(p);
    return held ? SONAR_OK : sonar_fail(err, SONAR_EINVAL, "cluster", "%s", c->refused);
}

static void await_earlier(sonar_pipeline *p) {
    sonar_error unused;
    if (sonar_propose_is_busy(p))
        conclude(p, &unused);
}

static sonar_code begin(sonar_pipeline *p, sonar_config *config, sonar_error *err) {
    struct proposal *c = &p->ranks.change;
    sonar_code code = sonar_live_make(p, config, &c->made, err);
    if (!code)
        code = write_version(p, config, err);
    c->tells_mask = !config;
    if (!code) {
        start(c);
        return SONAR_OK;
    }
    snprintf(c->refused, sizeof c->refused, "%.300s", err->text);
    forget(p);
    c->made = NULL;
    c->tells_mask = false;
    return code;
}

sonar_code sonar_propose(sonar_pipeline *p, sonar_config *config, sonar_error *err) {
    await_earlier(p);
    const sonar_code code = begin(p, config, err);
    return code || !config ? code : conclude(p, err);
}

sonar_code sonar_propose_keys(sonar_pipeline *p, const sonar_security *security, sonar_error *err) {
    struct proposal *c = &p->ranks.change;
    const sonar_keyring *ring = security->allowed;
    struct letter head = {.kind = LETTER_KEYS};
    for (int i = 0; i < SONAR_DOMAINS; i++)
        head.keys[i] = (uint32_t)ring[i].count;
    if (ring[SONAR_SENDERS].count + ring[SONAR_READERS].count > most_keys(p->whole))
        return sonar_fail(
            err, SONAR_EINVAL, "security",
            "%zu keys of allow_senders and %zu of allow_readers were read, and several "
            "ranks have room for %zu: fewer, or a restart",
            ring[SONAR_SENDERS].count, ring[SONAR_READERS].count, most_keys(p->whole));
    await_earlier(p);
    _Static_assert(SONAR_DOMAINS == 2, "two parts of a letter");
    const sonar_code code = write_letter(c, &head, ring[0].key, ring[0].count * SONAR_KEY_BYTES,
                                         ring[1].key, ring[1].count * SONAR_KEY_BYTES, err);
    if (code)
        return code;
    start(c);
    return conclude(p, err);
}

sonar_code sonar_propose_record(sonar_pipeline *p, bool record, sonar_error *err) {
    struct proposal *c = &p->ranks.change;
    const struct letter head = {.kind = LETTER_RECORD, .record = record};
    await_earlier(p);
    const sonar_code code = write_letter(c, &head, NULL, 0, NULL, 0, err);
    if (code)
        return code;
    start(c);
    return conclude(p, err);
}
