/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "iclisten.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "instrument.h"
#include "wire.h"

enum { PHONES_MOST = 64, CHUNK_HEAD = 4, SAMPLES_MOST = 65535 / ICLISTEN_WIDTH };
static const double own_wait_s = 2;
static const uint32_t rate_most_hz = 10000000, epoch_most_s = 3900000000; /* 2093 */
static const uint8_t start[] = {'3', ICLISTEN_SYNC, 0, 4, 0, 0, 0, 0};

/* ---- messages -------------------------------------------------------------------------------- */

static uint64_t number(const uint8_t *at, size_t bytes) {
    uint64_t value = 0;
    while (bytes--)
        value = value << 8 | *at++;
    return value;
}

static const char *read_samples(const uint8_t *body, size_t bytes, iclisten_message *to,
                                char text[160]) {
    if (bytes < 8)
        return "chunk B has less than 8 bytes";
    to->first = (uint32_t)number(body, 4);
    to->channels = body[4];
    to->samples = (size_t)number(body + 6, 2);
    to->sample = body + 8;
    to->has_samples = true;
    if (body[5] != ICLISTEN_FORM) {
        snprintf(text, 160, "its samples have the form 0x%02x; 0x83, 24 bits with a sign, is read",
                 body[5]);
        return text;
    }
    if (!to->channels || !to->samples || bytes != 8 + to->samples * to->channels * ICLISTEN_WIDTH) {
        snprintf(text, 160, "chunk B has %zu bytes, and %zu samples of %zu channels are %zu", bytes,
                 to->samples, to->channels, 8 + to->samples * to->channels * ICLISTEN_WIDTH);
        return text;
    }
    return NULL;
}

static const char *read_chunk(char type, const uint8_t *body, size_t bytes, iclisten_message *to,
                              char text[160]) {
    const size_t least = type == 'A' ? 12 : type == 'E' ? 8 : type == 'G' ? 20 : 0;
    if (bytes < least) {
        snprintf(text, 160, "chunk %c has %zu bytes, and needs %zu", type, bytes, least);
        return text;
    }
    switch (type) {
    case 'A':
        to->has_epoch = true;
        to->epoch_s = (uint32_t)number(body, 4);
        to->epoch_count = number(body + 4, 8);
        return to->epoch_s <= epoch_most_s ? NULL : "its time is after 2093";
    case 'E':
        to->has_rate = true;
        to->rate_hz = (uint32_t)number(body, 4);
        to->form = body[6];
        snprintf(text, 160, "%" PRIu32 " Hz; 1 to %" PRIu32 " Hz are read", to->rate_hz,
                 rate_most_hz);
        return to->rate_hz && to->rate_hz <= rate_most_hz ? NULL : text;
    case 'G':
        to->has_scale = true;
        to->most_count = (int32_t)number(body + 4, 4);
        to->most_uv = (int32_t)number(body + 12, 4);
        return NULL;
    case 'B':
        return read_samples(body, bytes, to, text);
    default:
        return NULL;
    }
}

const char *iclisten_read(const uint8_t *payload, size_t bytes, iclisten_message *to,
                          char text[160]) {
    const char *wrong = NULL;
    *to = (iclisten_message){0};
    for (size_t at = 0; at < bytes && !wrong;) {
        const size_t rest = bytes - at;
        const size_t length = rest < CHUNK_HEAD ? rest : (size_t)number(payload + at + 2, 2);
        if (CHUNK_HEAD + length > rest)
            return "a chunk is longer than its message";
        wrong = read_chunk((char)payload[at], payload + at + CHUNK_HEAD, length, to, text);
        at += CHUNK_HEAD + length;
    }
    return wrong;
}

/* ---- hydrophones ----------------------------------------------------------------------------- */

typedef struct phone {
    double fs_hz;    /* 0: not known yet */
    size_t channels; /* 0: not known yet */
    bool epoch_known, counting;
    uint32_t epoch_s;
    uint64_t epoch_count, next; /* next: the count of the sample that follows */
    int32_t most_count, most_uv;
} phone;

typedef struct iclisten {
    instrument_spec spec;
    size_t phones, turn;
    phone *phone;
    wire *wire;
    const char *name[PHONES_MOST];
    size_t count[PHONES_MOST];
    float *sample; /* [SAMPLES_MOST] */
} iclisten;

static sonar_code open_iclisten(const instrument_spec *spec, void **self, sonar_error *err) {
    iclisten *l = *self = sonar_alloc(1, sizeof *l);
    if (l)
        *l = (iclisten){.spec = *spec};
    if (!l || !(l->phone = sonar_alloc(PHONES_MOST, sizeof *l->phone)) ||
        !(l->wire = sonar_alloc(PHONES_MOST, sizeof *l->wire)) ||
        !(l->sample = sonar_alloc(SAMPLES_MOST, sizeof *l->sample)))
        return sonar_fail(err, SONAR_ENOMEM, spec->where, "out of memory");
    for (const char *at = spec->address; *at || !l->phones;) {
        const size_t length = strcspn(at, ",");
        if (l->phones == PHONES_MOST)
            return sonar_fail(err, SONAR_EINVAL, spec->where, "more than %d hydrophones",
                              PHONES_MOST);
        if (!wire_name(&l->wire[l->phones], spec->tally, at, length, "51678"))
            return sonar_fail(err, SONAR_EINVAL, spec->where, "it is not of the form %s",
                              instrument_iclisten.form);
        l->name[l->phones] = l->wire[l->phones].name;
        l->phones++;
        at += length + (at[length] == ',');
    }
    return SONAR_OK;
}

static void close_iclisten(void *self) {
    iclisten *l = self;
    if (!l)
        return;
    for (size_t i = 0; i < l->phones; i++)
        if (l->wire[i].fd >= 0)
            wire_end(&l->wire[i]);
    free(l->phone);
    free(l->wire);
    free(l->sample);
    free(l);
}

/* When every hydrophone has said what it sends: the channels' places depend on it. */
static sonar_code begin(iclisten *l, grid *grid, sonar_error *err) {
    for (size_t i = 0; i < l->phones; i++) {
        const phone *p = &l->phone[i];
        if (!p->channels)
            return SONAR_OK;
        if (fabs(p->fs_hz - l->phone[0].fs_hz) > 0)
            return sonar_fail(err, SONAR_EINVAL, l->spec.where,
                              "%s samples at %g Hz and %s at %g Hz: all have to have one rate",
                              l->name[0], l->phone[0].fs_hz, l->name[i], p->fs_hz);
        l->count[i] = p->channels;
    }
    for (size_t i = 0; i < l->phones; i++)
        fprintf(stderr, "%s: %s: %zu channels at %g Hz; %d counts are %g V\n", l->spec.tool,
                l->name[i], l->phone[i].channels, l->phone[i].fs_hz, (int)l->phone[i].most_count,
                l->phone[i].most_uv * 1e-6);
    const grid_spec spec = {.tally = l->spec.tally,
                            .fs_hz = l->phone[0].fs_hz,
                            .units = l->phones,
                            .name = l->name,
                            .count = l->count,
                            .wait_s = l->spec.wait_s > 0 ? l->spec.wait_s : own_wait_s,
                            .longest = SAMPLES_MOST};
    return grid_begin(grid, &spec, err);
}

/* The count of the message's first sample. Without a new epoch `first` goes on from 0 after 2^32.
 */
static uint64_t count_of(phone *p, const iclisten_message *m) {
    const bool same =
        p->epoch_known && p->epoch_s == m->epoch_s && p->epoch_count == m->epoch_count;
    if (m->has_epoch) {
        p->epoch_known = true;
        p->epoch_s = m->epoch_s;
        p->epoch_count = m->epoch_count;
    }
    if (!p->counting || (m->has_epoch && !same))
        return p->epoch_count + m->first;
    return p->next + (uint64_t)(int32_t)(m->first - (uint32_t)(p->next - p->epoch_count));
}

static int64_t utc_of(const phone *p, uint64_t count) {
    const uint64_t since = count - p->epoch_count, rate = (uint64_t)p->fs_hz;
    return ((int64_t)p->epoch_s + (int64_t)(since / rate)) * 1000000000 +
           (int64_t)((since % rate) * 1000000000 / rate);
}

static void convert(const iclisten_message *m, float *to) {
    for (size_t i = 0; i < m->samples * m->channels; i++) {
        const uint8_t *b = m->sample + i * ICLISTEN_WIDTH;
        to[i] =
            (float)((int32_t)((uint32_t)b[0] << 8 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 24) >>
                    8);
    }
}

/* False: the grid has to be emptied first. */
static bool place(iclisten *l, size_t i, const iclisten_message *m, grid *grid) {
    phone *p = &l->phone[i];
    const phone before = *p;
    if (m->channels != p->channels || fabs(p->fs_hz - grid->fs_hz) > 0) {
        tally_note(l->spec.tally, TALLY_RATE, l->name[i],
                   "%zu channels at %g Hz are left out; it began with %zu at %g Hz", m->channels,
                   p->fs_hz, p->channels, grid->fs_hz);
        return true;
    }
    const uint64_t count = count_of(p, m);
    if (!p->epoch_known || count - p->epoch_count > (uint64_t)1 << 50) {
        tally_note(l->spec.tally, TALLY_UNREADABLE, l->name[i],
                   "samples without a time: no chunk A, or sample %" PRIu64
                   " before that of chunk A",
                   count);
        return true;
    }
    const bool follows = p->counting && count == p->next;
    convert(m, l->sample);
    if (!grid_put(grid, i, utc_of(p, count), follows, l->sample, m->samples)) {
        *p = before;
        return false;
    }
    p->counting = true;
    p->next = count + m->samples;
    return true;
}

static void note_what(iclisten *l, size_t i, const iclisten_message *m) {
    phone *p = &l->phone[i];
    if (m->has_rate)
        p->fs_hz = (double)m->rate_hz;
    if (m->has_scale) {
        p->most_count = m->most_count;
        p->most_uv = m->most_uv;
    }
    if (m->has_samples && !p->channels && p->fs_hz > 0)
        p->channels = m->channels;
}

/* One message of a hydrophone. *held: it stays where it is, since others have not begun or the grid
 * is full. */
static sonar_code take_message(iclisten *l, size_t i, size_t bytes, grid *grid, bool *held,
                               sonar_error *err) {
    wire *w = &l->wire[i];
    iclisten_message m;
    char text[160];
    sonar_code code = SONAR_OK;
    const char *wrong = iclisten_read(w->data + ICLISTEN_HEAD, bytes - ICLISTEN_HEAD, &m, text);
    if (!wrong && w->data[0] == '1' && !m.has_samples)
        wrong = "it has no chunk B";
    if (wrong) {
        tally_note(l->spec.tally, TALLY_UNREADABLE, w->name,
                   "a message of type '%c' is left out: %s", w->data[0], wrong);
    } else {
        note_what(l, i, &m);
        if (!(grid->fs_hz > 0) && l->phone[i].channels)
            code = begin(l, grid, err);
        if (m.has_samples && !l->phone[i].channels)
            tally_note(l->spec.tally, TALLY_UNREADABLE, w->name,
                       "samples are left out that came before their rate, chunk E");
        if (m.has_samples && l->phone[i].channels) {
            *held = !(grid->fs_hz > 0) || !place(l, i, &m, grid);
            wire_good(w);
        }
    }
    if (!*held)
        wire_take(w, bytes);
    return code;
}

/* The bytes of a whole message, or 0. */
static size_t whole(iclisten *l, size_t i) {
    wire *w = &l->wire[i];
    char text[64];
    if (w->bytes >= 2 && w->data[1] != ICLISTEN_SYNC) {
        tally_note(l->spec.tally, TALLY_UNREADABLE, w->name,
                   "a message's second byte is 0x2a, and it sends '%s'; it is dialled again",
                   wire_quote(w, text));
        wire_end(w);
    }
    if (w->bytes < ICLISTEN_HEAD)
        return 0;
    const size_t bytes = ICLISTEN_HEAD + (size_t)number(w->data + 2, 2);
    return w->bytes < bytes ? 0 : bytes;
}

static sonar_code read_iclisten(void *self, grid *grid, sonar_error *err) {
    iclisten *l = self;
    for (size_t k = 0; k < l->phones; k++) {
        const size_t i = (l->turn + k) % l->phones;
        wire *w = &l->wire[i];
        bool held = false;
        if (w->opened) {
            w->opened = false;
            l->phone[i].counting = l->phone[i].epoch_known = false;
            wire_send(w, start, sizeof start);
        }
        const size_t bytes = whole(l, i);
        if (!bytes) {
            wire_settle(w);
            continue;
        }
        const sonar_code code = take_message(l, i, bytes, grid, &held, err);
        if (code || !held || grid->fs_hz > 0) {
            l->turn = i + 1;
            return code;
        }
    }
    wire_wait(l->wire, l->phones);
    return SONAR_OK;
}

const instrument instrument_iclisten = {
    .scheme = "iclisten://",
    .form = "iclisten://HOST[:PORT],...",
    .format = SONAR_S24,
    .open = open_iclisten,
    .read = read_iclisten,
    .close = close_iclisten,
};
