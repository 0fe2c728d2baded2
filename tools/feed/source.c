/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/core.h"
#include "net/udp.h"
#include "sound.h"

enum { WAIT_MS = 200, RETRY_MS = 1000, PIECE_MOST = 65536 };
enum kind { FILE_KIND = 0, CLIENT, SERVER, DATAGRAMS, CARD };

static const struct {
    const char *scheme;
    enum kind kind;
} scheme[] = {
    {"tcp://", CLIENT}, {"tcp-listen://", SERVER}, {"udp://", DATAGRAMS}, {"alsa:", CARD}};
enum { SCHEMES = sizeof scheme / sizeof *scheme };

/* ---- names ----------------------------------------------------------------------------------- */

/* The kind, and what follows its scheme. */
static enum kind kind_of(const char *where, const char **rest) {
    *rest = where;
    for (size_t i = 0; i < SCHEMES; i++)
        if (!strncmp(where, scheme[i].scheme, strlen(scheme[i].scheme))) {
            *rest = where + strlen(scheme[i].scheme);
            return scheme[i].kind;
        }
    return FILE_KIND;
}

/* "HOST:PORT", an IPv6 address in brackets; false: it is something else. */
static bool split(const char *rest, char host[256], char port[8]) {
    const char *colon = strrchr(rest, ':');
    const size_t bracket = *rest == '[';
    if (!colon || colon == rest || strlen(colon + 1) > 5 || !colon[1] ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1) || colon - rest > 255)
        return false;
    snprintf(host, 256, "%.*s", (int)((size_t)(colon - rest) - 2 * bracket), rest + bracket);
    snprintf(port, 8, "%s", colon + 1);
    return true;
}

bool source_accepts(const char *where) {
    const char *rest;
    char host[256], port[8];
    const enum kind kind = kind_of(where, &rest);
    if (kind == FILE_KIND)
        return !strstr(where, "://");
    return kind == CARD ? *rest : split(rest, host, port);
}

bool source_counter_parse(const char *text, source_counter *counter) {
    char order[3];
    int end = 0;
    if (sscanf(text, "%zu:%zu:%2[a-z]%n", &counter->offset, &counter->bytes, order, &end) != 3 ||
        text[end] || *text == '-')
        return false;
    counter->big_endian = !strcmp(order, "be");
    return (counter->big_endian || !strcmp(order, "le")) && counter->bytes >= 1 &&
           counter->bytes <= 8 && counter->offset < PIECE_MOST;
}

/* ---- connections ----------------------------------------------------------------------------- */

static sonar_code no_socket(const source *s, const char *what, sonar_error *err) {
    return sonar_fail(err, SONAR_EUNAVAILABLE, s->spec.where, "cannot %s: %s", what,
                      strerror(errno));
}

/* Every address of the name, until one works. -1, and errno. */
static int try_all(const source *s, int type, int flags,
                   int (*use)(int fd, const struct sockaddr *address, socklen_t length),
                   const char **unknown) {
    const struct addrinfo hints = {.ai_socktype = type, .ai_flags = flags | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    const char *rest;
    char host[256], port[8];
    int fd = -1;
    kind_of(s->spec.where, &rest);
    split(rest, host, port);
    const int failed = getaddrinfo(strcmp(host, "*") ? host : NULL, port, &hints, &list);
    *unknown = failed ? gai_strerror(failed) : NULL;
    for (const struct addrinfo *a = list; a && fd < 0 && !failed; a = a->ai_next) {
        fd = socket(a->ai_family, type | SOCK_CLOEXEC, 0);
        if (fd >= 0 && use(fd, a->ai_addr, a->ai_addrlen)) {
            const int why = errno;
            close(fd);
            fd = -1;
            errno = why;
        }
    }
    if (!failed)
        freeaddrinfo(list);
    return fd;
}

static int bind_reused(int fd, const struct sockaddr *address, socklen_t length) {
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return bind(fd, address, length);
}

static int bind_datagrams(int fd, const struct sockaddr *address, socklen_t length) {
    const int room = 4 << 20;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    return sonar_udp_bind(fd, address, length);
}

static sonar_code listen_at(source *s, int type, sonar_error *err) {
    const char *unknown;
    const int fd =
        try_all(s, type, AI_PASSIVE, type == SOCK_DGRAM ? bind_datagrams : bind_reused, &unknown);
    if (unknown)
        return sonar_fail(err, SONAR_EINVAL, s->spec.where, "%s", unknown);
    if (fd < 0)
        return no_socket(s, "listen there", err);
    if (type == SOCK_DGRAM)
        s->datagrams = fd;
    else
        s->listener = fd;
    return type == SOCK_DGRAM || !listen(fd, 1) ? SONAR_OK : no_socket(s, "listen there", err);
}

static bool readable(const source *s, int fd) {
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    while (!*s->spec.stop)
        if (poll(&poller, 1, WAIT_MS) > 0)
            return true;
    return false;
}

/* Once a second until it is there. */
static int dial(const source *s) {
    const char *unknown;
    bool told = false;
    for (int fd = -1; !*s->spec.stop; poll(NULL, 0, RETRY_MS)) {
        fd = try_all(s, SOCK_STREAM, 0, connect, &unknown);
        if (fd >= 0)
            return fd;
        if (!told)
            fprintf(stderr, "%s: %s: %s; waiting\n", s->spec.tool, s->spec.where,
                    unknown ? unknown : strerror(errno));
        told = true;
    }
    return -1;
}

static int answer(const source *s) {
    fprintf(stderr, "%s: %s: waiting for a connection\n", s->spec.tool, s->spec.where);
    return readable(s, s->listener) ? accept4(s->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
}

static int open_fd(source *s) {
    int both[2];
    switch (s->kind) {
    case CLIENT:
        return dial(s);
    case SERVER:
        return answer(s);
    case DATAGRAMS:
    case CARD:
        if (pipe2(both, O_CLOEXEC))
            return -1;
        s->writer = both[1];
        fcntl(s->writer, F_SETPIPE_SZ, 2 * PIECE_MOST); /* so that a piece never waits */
        return both[0];
    default:
        return strcmp(s->spec.where, "-") ? open(s->spec.where, O_RDONLY | O_CLOEXEC)
                                          : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    }
}

/* ---- libsndfile ------------------------------------------------------------------------------ */

/* The header of the stream, or what was declared. */
static sonar_code open_sound(source *s, sonar_error *err) {
    const sim_raw *raw = &s->spec.raw;
    SF_INFO about = {0};
    if (raw->type)
        about = (SF_INFO){.format = SF_FORMAT_RAW | raw->type,
                          .channels = (int)raw->channels,
                          .samplerate = (int)fmax(1, rint(raw->fs_hz))};
    s->sound = sf_open_fd(s->fd, SFM_READ, &about, SF_FALSE);
    if (!s->sound && *s->spec.stop)
        return SONAR_OK;
    if (!s->sound)
        return sonar_fail(err, SONAR_EINVAL, s->spec.where,
                          "%s; raw samples need --format, --channels and --rate",
                          sf_strerror(NULL));
    sim_recording_info info = {0};
    sim_sound_info(s->sound, &about, &info);
    if (raw->type)
        info.fs_hz = raw->fs_hz;
    if (s->info.channels && (info.channels != s->info.channels || info.fs_hz != s->info.fs_hz))
        return sonar_fail(err, SONAR_EINVAL, s->spec.where,
                          "the new connection brings %zu channels at %g Hz, the one before %zu at "
                          "%g Hz",
                          info.channels, info.fs_hz, s->info.channels, s->info.fs_hz);
    s->info = info;
    return SONAR_OK;
}

static void hang_up(source *s) {
    if (s->sound)
        sf_close(s->sound);
    if (s->fd >= 0)
        close(s->fd);
    s->sound = NULL;
    s->fd = -1;
}

static sonar_code connect_sound(source *s, sonar_error *err) {
    s->fd = open_fd(s);
    if (s->fd < 0)
        return *s->spec.stop ? SONAR_OK : no_socket(s, "open it", err);
    return open_sound(s, err);
}

sonar_code source_open(source *s, const source_spec *spec, sonar_error *err) {
    const char *rest;
    *s = (source){.spec = *spec,
                  .kind = kind_of(spec->where, &rest),
                  .listener = -1,
                  .datagrams = -1,
                  .fd = -1,
                  .writer = -1};
    sonar_code code = SONAR_OK;
    if (s->kind >= DATAGRAMS && !spec->raw.type)
        return sonar_fail(err, SONAR_EINVAL, spec->where,
                          "%s no header that libsndfile knows: --format, --channels and --rate "
                          "are needed",
                          s->kind == CARD ? "a sound card has" : "datagrams have");
    if (spec->raw.type)
        s->frame = spec->raw.channels * sim_raw_bytes(&spec->raw);
    if (s->kind == SERVER)
        code = listen_at(s, SOCK_STREAM, err);
    if (s->kind == DATAGRAMS)
        code = listen_at(s, SOCK_DGRAM, err);
    if (s->kind == CARD)
        code = card_open(&(card_spec){spec->tool, spec->where, rest, spec->raw, spec->stop},
                         &s->card, err);
    return code ? code : connect_sound(s, err);
}

void source_close(source *s) {
    hang_up(s);
    card_close(s->card);
    const int own[] = {s->listener, s->datagrams, s->writer};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i] >= 0)
            close(own[i]);
}

/* A read that waits is begun again by libsndfile after a signal: it has to find an end. */
void source_interrupt(const source *s) {
    const int saved = errno, nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0 && s->fd >= 0)
        dup2(nothing, s->fd);
    if (nothing >= 0)
        close(nothing);
    errno = saved;
}

/* ---- datagrams ------------------------------------------------------------------------------- */

static uint64_t counter_of(const source_counter *c, const uint8_t *datagram) {
    uint64_t value = 0;
    for (size_t i = 0; i < c->bytes; i++)
        value = value << 8 | datagram[c->offset + (c->big_endian ? i : c->bytes - 1 - i)];
    return value;
}

/* Datagrams that are missing before this one. False: it came late or twice. */
static bool follow(source *s, const uint8_t *datagram, uint64_t *missing) {
    const source_counter *c = &s->spec.counter;
    *missing = 0;
    if (!c->bytes)
        return true;
    const uint64_t mask = UINT64_MAX >> (64 - 8 * c->bytes);
    const uint64_t is = counter_of(c, datagram), ahead = (is - s->next) & mask;
    if (s->counted && ahead > mask / 2)
        return false;
    *missing = s->counted ? ahead : 0;
    s->next = (is + 1) & mask;
    s->counted = true;
    return true;
}

/* Mostly the declaration is wrong. */
static void say_odd_size(source *s, size_t bytes) {
    if (!s->told)
        fprintf(stderr,
                "%s: a datagram of %zu bytes, less %zu, is not whole samples of %zu bytes: are "
                "--skip, --format and --channels right?\n",
                s->spec.tool, bytes, s->spec.skip, s->frame);
    s->told = true;
}

/* Puts samples into the pipe. */
static sonar_code hand_over(source *s, const void *data, size_t samples, sonar_error *err) {
    s->in_hand = samples;
    if (write(s->writer, data, samples * s->frame) == (ssize_t)(samples * s->frame) ||
        *s->spec.stop)
        return SONAR_OK;
    return no_socket(s, "pass samples on", err);
}

static sonar_code take_datagram(source *s, source_piece *piece, sonar_error *err) {
    static uint8_t datagram[PIECE_MOST];
    const size_t skip = s->spec.skip, least = s->spec.counter.offset + s->spec.counter.bytes;
    sonar_code code = SONAR_OK;
    while (!code && !s->in_hand && readable(s, s->datagrams)) {
        const ssize_t got = recv(s->datagrams, datagram, sizeof datagram, 0);
        const size_t bytes = got > 0 ? (size_t)got : 0;
        const bool whole = bytes > skip && bytes >= least && (bytes - skip) % s->frame == 0;
        uint64_t missing;
        if (!whole)
            say_odd_size(s, bytes);
        if (!whole || !follow(s, datagram, &missing)) {
            s->strays++;
            continue;
        }
        code = hand_over(s, datagram + skip, (bytes - skip) / s->frame, err);
        piece->lost = missing * s->in_hand;
    }
    return code;
}

/* ---- a sound card ---------------------------------------------------------------------------- */

static sonar_code take_from_card(source *s, source_piece *piece, sonar_error *err) {
    static uint8_t data[PIECE_MOST];
    card_piece got = {0};
    sonar_code code = s->in_hand ? SONAR_OK : card_read(s->card, data, sizeof data, &got, err);
    if (code || !got.samples)
        return code;
    s->here_ns = got.here_ns;
    piece->lost = got.lost;
    return hand_over(s, data, got.samples, err);
}

/* ---- reading --------------------------------------------------------------------------------- */

sonar_code source_read(source *s, float *to, size_t most, source_piece *piece, sonar_error *err) {
    sonar_code code = SONAR_OK;
    *piece = (source_piece){0};
    const bool pieces = s->kind >= DATAGRAMS;
    if (s->kind == DATAGRAMS)
        code = take_datagram(s, piece, err);
    if (s->kind == CARD)
        code = take_from_card(s, piece, err);
    while (!code && !*s->spec.stop && s->sound) {
        const size_t want = pieces ? sonar_min_size(most, s->in_hand) : most;
        const sf_count_t got = sf_readf_float(s->sound, to, (sf_count_t)want);
        piece->samples = got > 0 ? (size_t)got : 0;
        s->in_hand -= pieces ? piece->samples : 0;
        if (s->here_ns)
            piece->here_ns = s->here_ns - llrint((double)s->in_hand / s->info.fs_hz * 1e9);
        if (piece->samples || s->kind == FILE_KIND || pieces || *s->spec.stop)
            break;
        fprintf(stderr, "%s: %s: the connection has ended\n", s->spec.tool, s->spec.where);
        hang_up(s);
        code = connect_sound(s, err);
        piece->renewed = true;
    }
    s->losses += piece->lost;
    return code;
}
