/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A sound card of the tests, as a plugin of ALSA that is also loaded before the program
 * (LD_PRELOAD). Its sample of channel c at position p is p * channels + c, and the position goes on
 * by the time, whether it is read or not, at 8000 Hz, with 3 channels of S32. In the folder
 * OWN_CARD the file "skip" lets that many seconds pass at once; while "gone" is there the card is
 * not. All clocks of the program are the card's: so no test has to wait, and the time stamp of a
 * position is exact on a busy machine, as a kernel's is.
 */
#include <alsa/asoundlib.h>
#include <alsa/pcm_external.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { CHANNELS = 3, RATE = 8000 };

typedef struct own_card {
    snd_pcm_ioplug_t io;
    int64_t first, taken; /* position at which it was started; samples that were read since */
} own_card;

static int64_t skipped_ns, began_ns, held_ns; /* held: the next time that is read, 0: the clock's */

/* ---- clocks ---------------------------------------------------------------------------------- */

int clock_gettime(clockid_t clock, struct timespec *to) {
    static __typeof__(&clock_gettime) real;
    if (!real)
        real = (__typeof__(&clock_gettime))dlsym(RTLD_NEXT, "clock_gettime");
    const int code = real(clock, to);
    if (code || (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME))
        return code;
    int64_t ns = to->tv_sec * INT64_C(1000000000) + to->tv_nsec + skipped_ns;
    if (clock == CLOCK_MONOTONIC && held_ns)
        ns = held_ns;
    if (clock == CLOCK_MONOTONIC)
        held_ns = 0;
    *to = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return 0;
}

static int64_t now_ns(clockid_t clock) {
    struct timespec now;
    held_ns = 0;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* ---- the test's folder ----------------------------------------------------------------------- */

static const char *in_folder(const char *name, char path[300]) {
    snprintf(path, 300, "%s/%s", getenv("OWN_CARD"), name);
    return path;
}

static int is_gone(void) {
    char path[300];
    return !access(in_folder("gone", path), F_OK);
}

static void skip(void) {
    char path[300];
    double s = 0;
    FILE *file = fopen(in_folder("skip", path), "r");
    if (!file)
        return;
    if (fscanf(file, "%lf", &s) == 1)
        skipped_ns += (int64_t)(s * 1e9);
    fclose(file);
    unlink(path);
}

/* ---- the card -------------------------------------------------------------------------------- */

static int64_t position(void) {
    skip();
    const int64_t now = now_ns(CLOCK_MONOTONIC);
    if (!began_ns) {
        char path[300];
        began_ns = now;
        FILE *file = fopen(in_folder("begun", path), "w");
        if (file) {
            fprintf(file, "%lld\n", (long long)now_ns(CLOCK_REALTIME));
            fclose(file);
        }
    }
    held_ns = now;
    return (int64_t)((double)(now - began_ns) * 1e-9 * RATE);
}

static int start(snd_pcm_ioplug_t *io) {
    own_card *card = io->private_data;
    card->first = position();
    card->taken = 0;
    return 0;
}

static int stop(snd_pcm_ioplug_t *io) {
    (void)io;
    return 0;
}

static int prepare(snd_pcm_ioplug_t *io) {
    (void)io;
    return is_gone() ? -ENODEV : 0;
}

static snd_pcm_sframes_t pointer(snd_pcm_ioplug_t *io) {
    const own_card *card = io->private_data;
    const int64_t since = position() - card->first;
    if (is_gone())
        return -ENODEV;
    if (since - card->taken > (int64_t)io->buffer_size)
        return -EPIPE;
    return since % (int64_t)io->buffer_size;
}

static snd_pcm_sframes_t transfer(snd_pcm_ioplug_t *io, const snd_pcm_channel_area_t *areas,
                                  snd_pcm_uframes_t offset, snd_pcm_uframes_t size) {
    own_card *card = io->private_data;
    for (unsigned c = 0; c < io->channels; c++)
        for (snd_pcm_uframes_t i = 0; i < size; i++) {
            char *to = areas[c].addr;
            to += (areas[c].first + (offset + i) * areas[c].step) / 8;
            *(int32_t *)(void *)to =
                (int32_t)((card->first + card->taken + (int64_t)i) * CHANNELS + c);
        }
    card->taken += (int64_t)size;
    return (snd_pcm_sframes_t)size;
}

static int poll_revents(snd_pcm_ioplug_t *io, struct pollfd *fds, unsigned count,
                        unsigned short *events) {
    const own_card *card = io->private_data;
    uint64_t ticks;
    if (count && read(fds->fd, &ticks, sizeof ticks) < 0 && errno != EAGAIN)
        return -errno;
    *events = position() - card->first - card->taken >= (int64_t)io->period_size || is_gone()
                  ? POLLIN
                  : 0;
    return 0;
}

static int close_card(snd_pcm_ioplug_t *io) {
    close(io->poll_fd);
    free(io->private_data);
    return 0;
}

SND_PCM_PLUGIN_DEFINE_FUNC(own_card) {
    static const snd_pcm_ioplug_callback_t callback = {.start = start,
                                                       .stop = stop,
                                                       .prepare = prepare,
                                                       .pointer = pointer,
                                                       .transfer = transfer,
                                                       .poll_revents = poll_revents,
                                                       .close = close_card};
    static const unsigned access = SND_PCM_ACCESS_RW_INTERLEAVED, format = SND_PCM_FORMAT_S32_LE;
    const struct itimerspec tick = {{0, 5000000}, {0, 5000000}};
    (void)root, (void)conf;
    own_card *card = is_gone() ? NULL : calloc(1, sizeof *card);
    if (!card)
        return -ENODEV;
    card->io =
        (snd_pcm_ioplug_t){.version = SND_PCM_IOPLUG_VERSION,
                           .name = "A sound card of the tests",
                           .callback = &callback,
                           .private_data = card,
                           .poll_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC),
                           .poll_events = POLLIN};
    timerfd_settime(card->io.poll_fd, 0, &tick, NULL);
    const int code = snd_pcm_ioplug_create(&card->io, name, stream, mode);
    if (code)
        return code;
    snd_pcm_ioplug_t *io = &card->io;
    snd_pcm_ioplug_set_param_list(io, SND_PCM_IOPLUG_HW_ACCESS, 1, &access);
    snd_pcm_ioplug_set_param_list(io, SND_PCM_IOPLUG_HW_FORMAT, 1, &format);
    snd_pcm_ioplug_set_param_minmax(io, SND_PCM_IOPLUG_HW_CHANNELS, CHANNELS, CHANNELS);
    snd_pcm_ioplug_set_param_minmax(io, SND_PCM_IOPLUG_HW_RATE, RATE, RATE);
    snd_pcm_ioplug_set_param_minmax(io, SND_PCM_IOPLUG_HW_PERIOD_BYTES, 960, 4800);
    snd_pcm_ioplug_set_param_minmax(io, SND_PCM_IOPLUG_HW_BUFFER_BYTES, 9600, 48000);
    *pcmp = io->pcm;
    return 0;
}

SND_PCM_PLUGIN_SYMBOL(own_card);
