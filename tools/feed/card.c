/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "card.h"

#include "core/core.h"

#ifdef SONAR_HAVE_ALSA

#include <alsa/asoundlib.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sound.h"

enum { WAIT_MS = 200, RETRY_MS = 1000, BUFFER_US = 500000, PERIOD_US = 20000 };
static const int64_t silent_ns = 5000000000;
static const int64_t doubtful_ns = 10000000000; /* a time stamp farther from now is none */

struct card {
    card_spec spec;
    snd_pcm_t *pcm; /* NULL: it is away */
    snd_pcm_status_t *status;
    size_t frame; /* bytes of a sample of all channels */
    int64_t heard_ns;
    uint64_t done;    /* samples that were read */
    uint64_t there;   /* these and those that waited to be read ... */
    int64_t there_ns; /* ... at this time, monotonic; 0: nothing has been read */
    bool broken;      /* since then samples were lost */
    uint64_t overruns;
};

static const struct {
    int type; /* libsndfile's */
    snd_pcm_format_t format;
} form[] = {{SF_FORMAT_PCM_16 | SF_ENDIAN_LITTLE, SND_PCM_FORMAT_S16_LE},
            {SF_FORMAT_PCM_24 | SF_ENDIAN_LITTLE, SND_PCM_FORMAT_S24_3LE},
            {SF_FORMAT_PCM_32 | SF_ENDIAN_LITTLE, SND_PCM_FORMAT_S32_LE},
            {SF_FORMAT_FLOAT | SF_ENDIAN_LITTLE, SND_PCM_FORMAT_FLOAT_LE}};
enum { FORMS = sizeof form / sizeof *form };

/* ---- what it can give ------------------------------------------------------------------------ */

/* Devices that record, by their names. */
static void list_devices(char text[400]) {
    void **hints = NULL;
    size_t at = 0;
    *text = '\0';
    if (snd_device_name_hint(-1, "pcm", &hints))
        return;
    for (void **hint = hints; *hint; hint++) {
        char *name = snd_device_name_get_hint(*hint, "NAME"),
             *direction = snd_device_name_get_hint(*hint, "IOID");
        if (name && (!direction || strcmp(direction, "Output")) && at + strlen(name) + 3 < 400)
            at += (size_t)sprintf(text + at, "%s%s", at ? ", " : "", name);
        free(name);
        free(direction);
    }
    snd_device_name_free_hint(hints);
}

static sonar_code refuse_format(const card *c, snd_pcm_hw_params_t *hw, sonar_error *err) {
    char text[80] = "";
    for (size_t i = 0, at = 0; i < FORMS; i++)
        if (!snd_pcm_hw_params_test_format(c->pcm, hw, form[i].format))
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", at ? ", " : "",
                                   snd_pcm_format_name(form[i].format));
    return sonar_fail(err, SONAR_EINVAL, c->spec.where, "its format is another; --format can be %s",
                      *text ? text : "none that is read here");
}

static sonar_code refuse_channels(const card *c, snd_pcm_hw_params_t *hw, sonar_error *err) {
    unsigned least = 0, most = 0;
    snd_pcm_hw_params_get_channels_min(hw, &least);
    snd_pcm_hw_params_get_channels_max(hw, &most);
    return sonar_fail(err, SONAR_EINVAL, c->spec.where,
                      "it does not give %zu channels: --channels can be %u to %u",
                      c->spec.raw.channels, least, most);
}

static sonar_code refuse_rate(const card *c, double given_hz, sonar_error *err) {
    return sonar_fail(err, SONAR_EINVAL, c->spec.where,
                      "it gives %.7g Hz, and --rate is %.7g; nothing is resampled here", given_hz,
                      c->spec.raw.fs_hz);
}

static sonar_code say(const card *c, const char *what, int why, sonar_error *err) {
    return sonar_fail(err, SONAR_EUNAVAILABLE, c->spec.where, "cannot %s: %s", what,
                      snd_strerror(why));
}

/* The rate after the parameters were set is what the card makes of its crystal. */
static sonar_code choose_hw(const card *c, snd_pcm_hw_params_t *hw, sonar_error *err) {
    unsigned rate = (unsigned)fmax(1, rint(c->spec.raw.fs_hz)), buffer_us = BUFFER_US,
             period_us = PERIOD_US, numerator = 0, denominator = 0;
    size_t i = 0;
    while (i < FORMS && form[i].type != c->spec.raw.type)
        i++;
    int why = snd_pcm_hw_params_any(c->pcm, hw);
    if (why >= 0)
        why = snd_pcm_hw_params_set_access(c->pcm, hw, SND_PCM_ACCESS_RW_INTERLEAVED);
    if (why < 0)
        return say(c, "read from it", why, err);
    if (i == FORMS || snd_pcm_hw_params_set_format(c->pcm, hw, form[i].format))
        return refuse_format(c, hw, err);
    if (snd_pcm_hw_params_set_channels(c->pcm, hw, (unsigned)c->spec.raw.channels))
        return refuse_channels(c, hw, err);
    if (snd_pcm_hw_params_set_rate_near(c->pcm, hw, &rate, NULL))
        return refuse_rate(c, 0, err);
    snd_pcm_hw_params_set_buffer_time_near(c->pcm, hw, &buffer_us, NULL);
    snd_pcm_hw_params_set_period_time_near(c->pcm, hw, &period_us, NULL);
    why = snd_pcm_hw_params(c->pcm, hw);
    if (why < 0)
        return say(c, "set it up", why, err);
    const bool exact = !snd_pcm_hw_params_get_rate_numden(hw, &numerator, &denominator);
    const double given_hz = exact && denominator ? (double)numerator / denominator : rate;
    return fabs(given_hz / c->spec.raw.fs_hz - 1) > 1e-6 ? refuse_rate(c, given_hz, err) : SONAR_OK;
}

static sonar_code choose_sw(const card *c, const snd_pcm_hw_params_t *hw, snd_pcm_sw_params_t *sw,
                            sonar_error *err) {
    snd_pcm_uframes_t period = 1;
    snd_pcm_hw_params_get_period_size(hw, &period, NULL);
    int why = snd_pcm_sw_params_current(c->pcm, sw);
    if (!why)
        why = snd_pcm_sw_params_set_avail_min(c->pcm, sw, period);
    if (!why)
        why = snd_pcm_sw_params_set_tstamp_mode(c->pcm, sw, SND_PCM_TSTAMP_ENABLE);
    if (!why)
        why = snd_pcm_sw_params_set_tstamp_type(c->pcm, sw, SND_PCM_TSTAMP_TYPE_MONOTONIC);
    if (!why)
        why = snd_pcm_sw_params(c->pcm, sw);
    return why ? say(c, "set it up", why, err) : SONAR_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void leave(card *c) {
    if (c->pcm)
        snd_pcm_close(c->pcm);
    c->pcm = NULL;
    c->broken = true;
}

static sonar_code set_up(card *c, sonar_error *err) {
    snd_pcm_hw_params_t *hw = NULL;
    snd_pcm_sw_params_t *sw = NULL;
    sonar_code code = SONAR_OK;
    if (snd_pcm_hw_params_malloc(&hw) || snd_pcm_sw_params_malloc(&sw))
        code = sonar_fail(err, SONAR_ENOMEM, c->spec.where, "out of memory");
    if (!code)
        code = choose_hw(c, hw, err);
    if (!code)
        code = choose_sw(c, hw, sw, err);
    const int why = code ? 0 : snd_pcm_start(c->pcm);
    if (why)
        code = say(c, "start it", why, err);
    snd_pcm_hw_params_free(hw);
    snd_pcm_sw_params_free(sw);
    c->heard_ns = sonar_monotonic_ns();
    return code;
}

static sonar_code open_pcm(card *c, sonar_error *err) {
    char devices[400];
    const int as_it_is = SND_PCM_NO_AUTO_RESAMPLE | SND_PCM_NO_AUTO_CHANNELS |
                         SND_PCM_NO_AUTO_FORMAT | SND_PCM_NO_SOFTVOL;
    const int why =
        snd_pcm_open(&c->pcm, c->spec.device, SND_PCM_STREAM_CAPTURE, SND_PCM_NONBLOCK | as_it_is);
    if (!why)
        return set_up(c, err);
    c->pcm = NULL;
    if (why != -ENOENT && why != -ENODEV && why != -ENXIO)
        return say(c, "open it", why, err);
    list_devices(devices);
    return sonar_fail(err, SONAR_EINVAL, c->spec.where, "there is no such device; %s%s",
                      *devices ? "these record: " : "none is there that records", devices);
}

/* What ALSA has to say is told in a sentence of this program. */
static void hush(const char *file, int line, const char *function, int code, const char *format,
                 ...) {
    (void)file, (void)line, (void)function, (void)code, (void)format;
}

sonar_code card_open(const card_spec *spec, card **to, sonar_error *err) {
    card *c = *to = sonar_alloc(1, sizeof *c);
    if (!c || snd_pcm_status_malloc(&c->status))
        return sonar_fail(err, SONAR_ENOMEM, spec->where, "out of memory");
    c->spec = *spec;
    c->frame = spec->raw.channels * sim_raw_bytes(&spec->raw);
    snd_lib_error_set_handler(hush);
    return open_pcm(c, err);
}

void card_close(card *c) {
    if (!c)
        return;
    leave(c);
    snd_pcm_status_free(c->status);
    free(c);
    snd_config_update_free_global();
}

uint64_t card_overruns(const card *c) {
    return c ? c->overruns : 0;
}

/* ---- when it fails --------------------------------------------------------------------------- */

/* The card is opened again until it is there. */
static void lose(card *c, const char *why) {
    fprintf(stderr, "%s: %s: %s; it is opened again\n", c->spec.tool, c->spec.where, why);
    leave(c);
}

/* After an overrun, or after the machine was suspended. */
static void recover(card *c, int why) {
    c->broken = true;
    c->overruns += why == -EPIPE;
    int failed = snd_pcm_recover(c->pcm, why, 1);
    if (!failed && snd_pcm_state(c->pcm) == SND_PCM_STATE_PREPARED)
        failed = snd_pcm_start(c->pcm);
    if (failed)
        lose(c, snd_strerror(failed));
}

/* Another card in its place is an error, and a card that is not ready is none. */
static sonar_code come_back(card *c, sonar_error *err) {
    poll(NULL, 0, RETRY_MS);
    if (*c->spec.stop)
        return SONAR_OK;
    sonar_code code = open_pcm(c, err);
    if (!code)
        fprintf(stderr, "%s: %s: it is there again\n", c->spec.tool, c->spec.where);
    if (code && c->pcm && code != SONAR_EUNAVAILABLE)
        return code;
    if (code)
        leave(c);
    return SONAR_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* When what the status counts had been taken. */
static int64_t stamp_ns(const card *c) {
    snd_htimestamp_t at;
    snd_pcm_status_get_htstamp(c->status, &at);
    const int64_t now_ns = sonar_monotonic_ns(),
                  at_ns = (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
    return at_ns > now_ns - doubtful_ns && at_ns <= now_ns ? at_ns : now_ns;
}

/* n samples were read of those that the status counts. */
static void place(card *c, size_t n, card_piece *piece) {
    const int64_t at_ns = stamp_ns(c);
    const int64_t to_utc_ns = -sonar_monotonic_ns() + sonar_utc_ns();
    const uint64_t waiting = snd_pcm_status_get_avail(c->status);
    const double fs_hz = c->spec.raw.fs_hz;
    if (c->broken && c->there_ns) {
        const double since = (double)(at_ns - c->there_ns) * 1e-9 * fs_hz,
                     lost = (double)c->there - (double)(c->done + waiting) + since;
        piece->lost = lost > 0 ? (uint64_t)llrint(lost) : 0;
    }
    c->broken = false;
    c->there = c->done + waiting;
    c->there_ns = at_ns;
    c->done += n;
    piece->samples = n;
    piece->here_ns = at_ns + to_utc_ns - llrint(((double)c->there - (double)c->done) / fs_hz * 1e9);
}

/* False: there is nothing now. */
static bool take(card *c, void *to, size_t most, card_piece *piece) {
    int why = snd_pcm_wait(c->pcm, WAIT_MS);
    if (!why && sonar_monotonic_ns() - c->heard_ns > silent_ns)
        lose(c, "nothing has come for 5 s");
    if (why == 1)
        why = snd_pcm_status(c->pcm, c->status);
    else if (!why || why == -EINTR || why == -EAGAIN)
        return false;
    const size_t waiting = why ? 0 : snd_pcm_status_get_avail(c->status);
    const snd_pcm_sframes_t got =
        why ? why : snd_pcm_readi(c->pcm, to, sonar_min_size(sonar_max_size(waiting, 1), most));
    if (got < 0 && got != -EAGAIN && got != -EINTR)
        recover(c, (int)got);
    if (got <= 0)
        return false;
    c->heard_ns = sonar_monotonic_ns();
    place(c, (size_t)got, piece);
    return true;
}

sonar_code card_read(card *c, void *to, size_t bytes, card_piece *piece, sonar_error *err) {
    sonar_code code = SONAR_OK;
    *piece = (card_piece){0};
    while (!code && !*c->spec.stop) {
        if (!c->pcm)
            code = come_back(c, err);
        else if (take(c, to, bytes / c->frame, piece))
            break;
    }
    return code;
}

#else

sonar_code card_open(const card_spec *spec, card **card, sonar_error *err) {
    *card = NULL;
    return sonar_fail(err, SONAR_EINVAL, spec->where,
                      "this sonar-feed was built without libasound2; arecord -D %.100s -t raw ... "
                      "| sonar-feed - ... reads the card as well",
                      spec->device);
}

sonar_code card_read(card *card, void *to, size_t bytes, card_piece *piece, sonar_error *err) {
    (void)card, (void)to, (void)bytes, (void)err;
    *piece = (card_piece){0};
    return SONAR_OK;
}

uint64_t card_overruns(const card *card) {
    (void)card;
    return 0;
}

void card_close(card *card) {
    (void)card;
}

#endif
