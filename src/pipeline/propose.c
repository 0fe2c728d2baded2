/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Changes during the run, of the configuration, the keys and the recording. One process makes them
 * at once. If several ranks share the array, this file has the content of the letters
 * (ranks/letters.h), by which all ranks adopt a change with the same window, or none does. The root
 * makes its own version and writes the letter; every other rank makes the same version from the
 * letter. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/internal.h"

enum letter_kind { LETTER_VERSION = 1, LETTER_KEYS, LETTER_RECORD };

/* The head of a letter. The body of a version is the text of its configuration (empty: unchanged)
 * and a byte per sensor for the mask; the body of keys is the keys. */
struct letter {
    uint32_t kind, text_bytes, mask_bytes;
    uint32_t keys[SONAR_DOMAINS]; /* number of keys of each side */
    uint8_t record;
    char digest[65]; /* of the configuration */
};

/* ---- create ---------------------------------------------------------------------------------- */

/* Number of keys that fit: twice those at the start, and some. */
static size_t most_keys(const sonar_config *c) {
    const sonar_keyring *ring = c->security.allowed;
    return 1024 + 2 * (ring[SONAR_SENDERS].count + ring[SONAR_READERS].count);
}

/* Size that any configuration fits into that this one can become: every live option on one line; a
 * number per sensor, as long as a number can be, for mask, gain or sensitivity and amplifier, phase
 * and delay; and keys. */
static size_t room_for(const sonar_config *c) {
    enum { NUMBER_BYTES = 32, LISTS = 5, LINES = 32768 };
    size_t bytes = 0;
    free(sonar_config_given(c, &bytes));
    return sizeof(struct letter) + bytes + LINES + c->sensors * (LISTS * NUMBER_BYTES + 1) +
           most_keys(c) * SONAR_KEY_BYTES;
}

/* The version that was made takes effect. Data thread. */
static void hold_version(void *ctx) {
    sonar_pipeline *p = ctx;
    if (p->ranks.change.made)
        sonar_live_hold(p, p->ranks.change.made);
}

/* All ranks allocate the largest size that any of them computes, because defaults and keys may
 * differ between ranks. */
sonar_code sonar_propose_create(sonar_pipeline *p, sonar_error *err) {
    struct proposal *c = &p->ranks.change;
    const sonar_code code = sonar_letters_create(p->ranks.split.cluster, room_for(p->whole),
                                                 hold_version, p, &c->letters, err);
    if (code)
        return code;
    c->mask = sonar_alloc(p->whole->sensors, 1);
    return c->mask ? SONAR_OK : sonar_fail(err, SONAR_ENOMEM, "cluster", "no memory for changes");
}

void sonar_propose_destroy(sonar_pipeline *p) {
    sonar_letters_destroy(p->ranks.change.letters);
    free(p->ranks.change.mask);
}

/* ---- letters --------------------------------------------------------------------------------- */

static struct letter head_of(const struct proposal *c) {
    struct letter head;
    memcpy(&head, sonar_letters_read(c->letters), sizeof head);
    return head;
}

static const uint8_t *body_of(const struct proposal *c) {
    return sonar_letters_read(c->letters) + sizeof(struct letter);
}

/* The two parts of a letter after its head. */
static sonar_code write_letter(struct proposal *c, const struct letter *head, const void *first,
                               size_t first_bytes, const void *second, size_t second_bytes,
                               sonar_error *err) {
    const sonar_letter_part part[] = {
        {head, sizeof *head}, {first, first_bytes}, {second, second_bytes}};
    return sonar_letters_write(c->letters, 3, part, err);
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
    const sonar_code code = write_letter(c, &head, text, bytes, out, head.mask_bytes, err);
    free(text);
    return code;
}

/* ---- other ranks ----------------------------------------------------------------------------- */

const uint8_t *sonar_propose_mask(const sonar_pipeline *p) {
    return p->ranks.change.masks ? p->ranks.change.mask : NULL;
}

/* The configuration of a letter; the caller destroys it. */
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
                      "must have the same version",
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
    char why[320];
    const sonar_code code = head.kind == LETTER_VERSION ? make_version(p, &head, &err) : SONAR_OK;
    snprintf(why, sizeof why, "rank %zu: %.64s: %.200s", p->place.rank, err.where, err.text);
    sonar_letters_answer(c->letters, code ? why : NULL);
}

/* ---- outcome --------------------------------------------------------------------------------- */

static void allow_keys(sonar_pipeline *p, const struct letter *head) {
    struct proposal *c = &p->ranks.change;
    const uint8_t *key = body_of(c);
    for (int i = 0; i < SONAR_DOMAINS; key += head->keys[i++] * SONAR_KEY_BYTES) {
        sonar_error err = {0};
        const sonar_keyring ring = {.count = head->keys[i],
                                    .key = (uint8_t(*)[SONAR_KEY_BYTES])(uintptr_t)key};
        if (sonar_pipeline_allow_side(p, (sonar_domain)i, &ring, &err))
            sonar_log(&p->host, SONAR_ERROR, err.where, "%s: the previous keys stay in use",
                      err.text);
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
    if (c->logs_mask)
        sonar_mask_log(p);
}

/* The change was refused or withdrawn. */
static void forget(sonar_pipeline *p, const char *why) {
    struct proposal *c = &p->ranks.change;
    if (c->made && sonar_is_root(p) && !c->logs_mask)
        c->made->plan->owned = NULL; /* the configuration belongs to the caller again */
    if (c->made)
        sonar_live_drop(p, c->made);
    if (!c->logs_mask)
        return;
    sonar_log(&p->host, SONAR_ERROR, "array.auto_mask", "%s: the mask does not change", why);
    p->versions.mask_wanted = true;
}

/* Called once the outcome is known. */
static void finish(sonar_pipeline *p) {
    struct proposal *c = &p->ranks.change;
    if (sonar_letters_outcome(c->letters) == SONAR_HELD)
        hold(p);
    else
        forget(p, sonar_letters_refusal(c->letters));
    c->made = NULL;
    c->logs_mask = false;
    sonar_letters_close(c->letters);
    sonar_live_tick(p);
}

void sonar_propose_attend(sonar_pipeline *p) {
    struct proposal *c = &p->ranks.change;
    if (!c->letters)
        return;
    sonar_letters_clear(c->letters);
    if (sonar_letters_asked(c->letters))
        answer(p);
    if (sonar_letters_outcome(c->letters))
        finish(p);
}

/* ---- the root, and one process --------------------------------------------------------------- */

/* Waits until the letter on its way has been settled. */
static sonar_code conclude(sonar_pipeline *p, sonar_error *err) {
    sonar_letters *letters = p->ranks.change.letters;
    sonar_letters_await(letters, p->thread_started ? &p->drained : NULL);
    const bool held = sonar_letters_outcome(letters) == SONAR_HELD;
    finish(p);
    return held ? SONAR_OK
                : sonar_fail(err, SONAR_EINVAL, "cluster", "%s", sonar_letters_refusal(letters));
}

static void await_earlier(sonar_pipeline *p) {
    sonar_error unused;
    if (sonar_letters_busy(p->ranks.change.letters))
        conclude(p, &unused);
}

static sonar_code begin(sonar_pipeline *p, sonar_config *config, sonar_error *err) {
    struct proposal *c = &p->ranks.change;
    sonar_code code = sonar_live_make(p, config, &c->made, err);
    if (!code)
        code = write_version(p, config, err);
    c->logs_mask = !config;
    if (!code) {
        sonar_letters_send(c->letters);
        return SONAR_OK;
    }
    forget(p, err->text);
    c->made = NULL;
    c->logs_mask = false;
    return code;
}

static sonar_code change_at_once(sonar_pipeline *p, sonar_config *config, sonar_error *err) {
    struct live *live;
    const sonar_code code = sonar_live_make(p, config, &live, err);
    if (code)
        return code;
    sonar_live_tell_others(p, live);
    sonar_live_hold(p, live);
    sonar_live_tick(p);
    return SONAR_OK;
}

sonar_code sonar_pipeline_reconfigure(sonar_pipeline *p, sonar_config *config, sonar_error *err) {
    if (!p->ranks.change.letters)
        return change_at_once(p, config, err);
    await_earlier(p);
    const sonar_code code = begin(p, config, err);
    return code || !config ? code : conclude(p, err);
}

/* Sends a letter that needs no version, and waits for the outcome. */
static sonar_code propose(sonar_pipeline *p, const struct letter *head, const void *first,
                          size_t first_bytes, const void *second, size_t second_bytes,
                          sonar_error *err) {
    struct proposal *c = &p->ranks.change;
    await_earlier(p);
    const sonar_code code = write_letter(c, head, first, first_bytes, second, second_bytes, err);
    if (code)
        return code;
    sonar_letters_send(c->letters);
    return conclude(p, err);
}

static sonar_code propose_keys(sonar_pipeline *p, const sonar_keyring *ring, sonar_error *err) {
    struct letter head = {.kind = LETTER_KEYS};
    for (int i = 0; i < SONAR_DOMAINS; i++)
        head.keys[i] = (uint32_t)ring[i].count;
    if (ring[SONAR_SENDERS].count + ring[SONAR_READERS].count > most_keys(p->whole))
        return sonar_fail(
            err, SONAR_EINVAL, "security",
            "%zu keys of allow_senders and %zu of allow_readers were read, but several "
            "ranks have room for %zu: fewer, or a restart",
            ring[SONAR_SENDERS].count, ring[SONAR_READERS].count, most_keys(p->whole));
    _Static_assert(SONAR_DOMAINS == 2, "two parts of a letter");
    return propose(p, &head, ring[0].key, ring[0].count * SONAR_KEY_BYTES, ring[1].key,
                   ring[1].count * SONAR_KEY_BYTES, err);
}

sonar_code sonar_pipeline_allow(sonar_pipeline *p, const sonar_security *security,
                                sonar_error *err) {
    if (p->ranks.change.letters && p->thread_started)
        return propose_keys(p, security->allowed, err);
    sonar_code code = SONAR_OK;
    for (int i = 0; i < SONAR_DOMAINS && !code; i++)
        code = sonar_pipeline_allow_side(p, (sonar_domain)i, &security->allowed[i], err);
    return code;
}

sonar_code sonar_pipeline_record(sonar_pipeline *p, bool record, sonar_error *err) {
    const struct letter head = {.kind = LETTER_RECORD, .record = record};
    if (!p->recorder)
        return sonar_fail(err, SONAR_EINVAL, "record",
                          "record.what is off; the configuration must set it to raw or spectra");
    if (p->ranks.change.letters)
        return propose(p, &head, NULL, 0, NULL, 0, err);
    sonar_recorder_ask(p->recorder, record);
    return SONAR_OK;
}
