/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * SeedLink 3 (https://docs.fdsn.org/projects/seedlink): lines of ASCII name the channels, then come
 * packets of "SL", six hexadecimal digits and a record of miniSEED with 512 bytes. The digits count
 * packets of a station, or of all that the server has, so that they cannot tell what is lost: the
 * records' times do. They tell the server where to go on after a connection has ended.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "instrument.h"
#include "miniseed.h"
#include "wire.h"

enum {
    PACKET_HEAD = 8,
    PACKET = PACKET_HEAD + MINISEED_BYTES,
    LINE_MOST = 200,
    CHANNELS_MOST = 256
};
static const int64_t answer_ns = 30000000000; /* time for an answer */
static const double own_wait_s = 60; /* a record of 512 bytes has 20 s of samples at 20 Hz */

typedef struct channel {
    char name[MINISEED_NAME], net[3], station[6], location[3], code[4];
    size_t leader;   /* the first channel of its station */
    uint32_t packet; /* of a leader: the last of its station */
    bool packet_known;
} channel;

enum verb { HELLO, STATION, SELECT, DATA, END };

typedef struct step {
    enum verb verb;
    size_t channel;
} step;

typedef struct seedlink {
    instrument_spec spec;
    size_t channels, steps, at; /* at: the step whose answer is awaited; steps: packets come */
    size_t lines;               /* of the answer so far */
    int64_t asked_ns;           /* monotonic */
    bool ever;                  /* packets have come */
    channel *channel;
    const char **name;
    size_t *count;
    step *step;
    miniseed record;
    wire wire;
} seedlink;

/* ---- the address ----------------------------------------------------------------------------- */

/* A code up to '_' or the end of the item, of at most `most` letters and digits. */
static bool take_code(const char **from, const char *end, char *to, size_t least, size_t most) {
    size_t n = 0;
    while (*from < end && **from != '_' && n < most && isalnum(**from))
        to[n++] = (char)toupper(*(*from)++);
    to[n] = '\0';
    return n >= least;
}

static bool take_mark(const char **from, const char *end) {
    return *from < end && *(*from)++ == '_';
}

/* NET_STA_LOC_CHAN; the location may be empty or --. */
static bool take_channel(const char *from, const char *end, channel *to) {
    if (!take_code(&from, end, to->net, 1, 2) || !take_mark(&from, end) ||
        !take_code(&from, end, to->station, 1, 5) || !take_mark(&from, end))
        return false;
    if (end - from > 2 && !strncmp(from, "--", 2))
        from += 2;
    if (!take_code(&from, end, to->location, 0, 2) || !take_mark(&from, end) ||
        !take_code(&from, end, to->code, 3, 3) || from != end)
        return false;
    snprintf(to->name, sizeof to->name, "%.2s_%.5s_%.2s_%.3s", to->net, to->station, to->location,
             to->code);
    return true;
}

/* The first of its station, and whether it was named before. */
static bool lead(seedlink *s, size_t i) {
    channel *own = &s->channel[i];
    own->leader = i;
    for (size_t k = i; k-- > 0;) {
        const channel *other = &s->channel[k];
        if (!strcmp(other->name, own->name))
            return false;
        if (!strcmp(other->net, own->net) && !strcmp(other->station, own->station))
            own->leader = k;
    }
    return true;
}

static sonar_code read_channels(seedlink *s, const char *list, sonar_error *err) {
    for (const char *end; *list; list = *end ? end + 1 : end) {
        end = list + strcspn(list, ",");
        if (s->channels == CHANNELS_MOST)
            return sonar_fail(err, SONAR_EINVAL, s->spec.where, "more than %d channels",
                              CHANNELS_MOST);
        if (!take_channel(list, end, &s->channel[s->channels]))
            return sonar_fail(err, SONAR_EINVAL, s->spec.where,
                              "'%.*s' is no channel; NET_STA_LOC_CHAN is, such as IM_I57H1__BDF. "
                              "Each has to be named, since it has a place in the array",
                              (int)sonar_min_size((size_t)(end - list), 40), list);
        s->name[s->channels] = s->channel[s->channels].name;
        s->count[s->channels] = 1;
        if (!lead(s, s->channels))
            return sonar_fail(err, SONAR_EINVAL, s->spec.where, "%s is named twice",
                              s->name[s->channels]);
        s->channels++;
    }
    return s->channels ? SONAR_OK
                       : sonar_fail(err, SONAR_EINVAL, s->spec.where, "it names no channel: %s",
                                    instrument_seedlink.form);
}

static void add(seedlink *s, enum verb verb, size_t i) {
    s->step[s->steps++] = (step){verb, i};
}

static void plan(seedlink *s) {
    add(s, HELLO, 0);
    for (size_t i = 0; i < s->channels; i++) {
        if (s->channel[i].leader != i)
            continue;
        add(s, STATION, i);
        for (size_t k = i; k < s->channels; k++)
            if (s->channel[k].leader == i)
                add(s, SELECT, k);
        add(s, DATA, i);
    }
    add(s, END, 0);
}

static sonar_code open_seedlink(const instrument_spec *spec, void **self, sonar_error *err) {
    const size_t host = strcspn(spec->address, "/");
    seedlink *s = *self = sonar_alloc(1, sizeof *s);
    if (s)
        *s = (seedlink){.spec = *spec, .wire = {.fd = -1}};
    if (!s || !(s->channel = sonar_alloc(CHANNELS_MOST, sizeof *s->channel)) ||
        !(s->name = sonar_alloc(CHANNELS_MOST, sizeof *s->name)) ||
        !(s->count = sonar_alloc(CHANNELS_MOST, sizeof *s->count)) ||
        !(s->step = sonar_alloc(3 * CHANNELS_MOST + 2, sizeof *s->step)))
        return sonar_fail(err, SONAR_ENOMEM, spec->where, "out of memory");
    if (!wire_name(&s->wire, spec->tally, spec->address, host, "18000") || !spec->address[host])
        return sonar_fail(err, SONAR_EINVAL, spec->where, "it is not of the form %s",
                          instrument_seedlink.form);
    const sonar_code code = read_channels(s, spec->address + host + 1, err);
    plan(s);
    return code;
}

static void close_seedlink(void *self) {
    seedlink *s = self;
    if (!s)
        return;
    if (s->wire.fd >= 0)
        wire_end(&s->wire);
    free(s->channel);
    free(s->name);
    free(s->count);
    free(s->step);
    free(s);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void command(const seedlink *s, char text[64]) {
    const channel *c = &s->channel[s->step[s->at].channel];
    switch (s->step[s->at].verb) {
    case HELLO:
        snprintf(text, 64, "HELLO");
        break;
    case STATION:
        snprintf(text, 64, "STATION %s %s", c->station, c->net);
        break;
    case SELECT: /* without a location any is sent: the others are left out here */
        snprintf(text, 64, "SELECT %s%s.D", c->location, c->code);
        break;
    case DATA:
        if (c->packet_known)
            snprintf(text, 64, "DATA %06X", (c->packet + 1) & 0xffffff);
        else
            snprintf(text, 64, "DATA");
        break;
    default:
        snprintf(text, 64, "END");
    }
}

static void ask(seedlink *s) {
    char text[64], line[66];
    command(s, text);
    snprintf(line, sizeof line, "%s\r\n", text);
    s->lines = 0;
    s->asked_ns = sonar_monotonic_ns();
    if (wire_send(&s->wire, line, strlen(line)) && s->step[s->at].verb == END) {
        s->at++;
        fprintf(stderr, "%s: %s: %zu channels are asked for\n", s->spec.tool, s->wire.name,
                s->channels);
    }
}

static void give_up(seedlink *s, const char *what) {
    char text[64];
    tally_note(s->spec.tally, TALLY_UNREADABLE, s->wire.name, "%s: '%s'; it is dialled again", what,
               wire_quote(&s->wire, text));
    wire_end(&s->wire);
}

/* What was asked for at first is a mistake; later the server may be in trouble. */
static sonar_code refused(seedlink *s, sonar_error *err) {
    char text[64];
    command(s, text);
    if (!s->ever)
        return sonar_fail(err, SONAR_EINVAL, s->spec.where,
                          "the server answers ERROR to '%s': it has no such channel, or serves "
                          "one station only",
                          text);
    give_up(s, "it refuses what it sent before");
    return SONAR_OK;
}

/* True: a line has been dealt with. */
static bool read_answer(seedlink *s, sonar_code *code, sonar_error *err) {
    const uint8_t *data = s->wire.data, *end = memchr(data, '\n', s->wire.bytes);
    if (!end) {
        if (s->wire.bytes > LINE_MOST)
            give_up(s, "it answers with something else than lines of SeedLink");
        return false;
    }
    const size_t bytes = (size_t)(end + 1 - data);
    const bool hello = s->step[s->at].verb == HELLO, ok = bytes >= 3 && !memcmp(data, "OK", 2),
               error = bytes >= 6 && !memcmp(data, "ERROR", 5);
    if (!hello && error) {
        *code = refused(s, err);
        return false;
    }
    if (!hello && !ok) {
        give_up(s, "OK or ERROR was expected, and it answers");
        return false;
    }
    wire_take(&s->wire, bytes);
    if (hello && ++s->lines < 2)
        return true;
    s->at++;
    ask(s);
    return true;
}

/* ---- records --------------------------------------------------------------------------------- */

static bool hexadecimal(const uint8_t *digits, uint32_t *value) {
    *value = 0;
    for (size_t i = 0; i < 6; i++) {
        if (!isxdigit(digits[i]))
            return false;
        *value = *value << 4 |
                 (uint32_t)(isdigit(digits[i]) ? digits[i] - '0' : toupper(digits[i]) - 'A' + 10);
    }
    return true;
}

static size_t find(const seedlink *s, const char *name) {
    size_t i = 0;
    while (i < s->channels && strcmp(s->channel[i].name, name))
        i++;
    return i;
}

static sonar_code begin(seedlink *s, grid *grid, sonar_error *err) {
    const grid_spec spec = {.tally = s->spec.tally,
                            .fs_hz = s->record.fs_hz,
                            .units = s->channels,
                            .name = s->name,
                            .count = s->count,
                            .wait_s = s->spec.wait_s > 0 ? s->spec.wait_s : own_wait_s,
                            .longest = MINISEED_SAMPLES_MOST};
    return grid_begin(grid, &spec, err);
}

/* False: the grid has to be emptied first, and the packet read again. */
static bool place_record(seedlink *s, grid *grid, uint32_t packet, sonar_code *code,
                         sonar_error *err) {
    const miniseed *r = &s->record;
    const size_t i = find(s, r->name);
    if (i == s->channels) {
        tally_note(s->spec.tally, TALLY_FOREIGN, s->wire.name, "a record of %s was not asked for",
                   r->name);
        return true;
    }
    s->channel[s->channel[i].leader].packet = packet;
    s->channel[s->channel[i].leader].packet_known = true;
    if (!r->samples)
        return true;
    if (!(grid->fs_hz > 0))
        *code = begin(s, grid, err);
    if (*code)
        return true;
    if (fabs(r->fs_hz / grid->fs_hz - 1) > 1e-6) {
        tally_note(s->spec.tally, TALLY_RATE, r->name,
                   "a record at %.7g Hz is left out; the first one had %.7g Hz, which all channels "
                   "have to have",
                   r->fs_hz, grid->fs_hz);
        return true;
    }
    return grid_put(grid, i, r->utc_ns, false, r->sample, r->samples);
}

static sonar_code read_packet(seedlink *s, grid *grid, sonar_error *err) {
    const uint8_t *data = s->wire.data;
    uint32_t packet = 0;
    char text[160];
    sonar_code code = SONAR_OK;
    const bool info = !memcmp(data, "SLINFO", 6);
    if (!info && (memcmp(data, "SL", 2) || !hexadecimal(data + 2, &packet))) {
        give_up(s, "a packet begins with SL and six hexadecimal digits, and it sends");
        return SONAR_OK;
    }
    if (!info) {
        const char *wrong = miniseed_read(data + PACKET_HEAD, &s->record, text);
        if (wrong)
            tally_note(s->spec.tally, TALLY_UNREADABLE, s->wire.name,
                       "record %06X (%s) is left out: %s", (unsigned)packet, s->record.name, wrong);
        else if (!place_record(s, grid, packet, &code, err))
            return code;
        else
            wire_good(&s->wire);
        s->ever |= !wrong;
    }
    wire_take(&s->wire, PACKET);
    return code;
}

static sonar_code read_seedlink(void *self, grid *grid, sonar_error *err) {
    seedlink *s = self;
    sonar_code code = SONAR_OK;
    if (s->wire.opened) {
        s->wire.opened = false;
        s->at = 0;
        ask(s);
    }
    while (s->wire.fd >= 0 && s->at < s->steps && read_answer(s, &code, err))
        ;
    const bool up = s->wire.fd >= 0 && !s->wire.dialling, packets = up && s->at == s->steps;
    if (code || (packets && s->wire.bytes >= PACKET))
        return code ? code : read_packet(s, grid, err);
    if (up && !packets && sonar_monotonic_ns() - s->asked_ns > answer_ns)
        give_up(s, "it has not answered for 30 s");
    if (packets && s->wire.bytes >= 3 && !memcmp(s->wire.data, "END", 3))
        give_up(s, "it has no more packets");
    wire_settle(&s->wire);
    wire_wait(&s->wire, 1);
    return SONAR_OK;
}

const instrument instrument_seedlink = {
    .scheme = "seedlink://",
    .form = "seedlink://HOST[:PORT]/NET_STA_LOC_CHAN,...",
    .format = SONAR_F32,
    .open = open_seedlink,
    .read = read_seedlink,
    .close = close_seedlink,
};
