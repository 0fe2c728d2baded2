/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A sound card by ALSA: raw samples as the card gives them, with its own time stamps. Nothing is
 * converted or resampled on the way. An overrun and a card that is pulled out leave a gap, as long
 * as the time stamps before and after it say. One thread.
 */
#ifndef FEED_CARD_H
#define FEED_CARD_H

#include <signal.h>

#include "recording.h"

typedef struct card card;

typedef struct card_spec {
    const char *tool, *where; /* all that was typed */
    const char *device;       /* ALSA's name of it, such as hw:1 */
    sim_raw raw;              /* what is asked for */
    const volatile sig_atomic_t *stop;
} card_spec;

typedef struct card_piece {
    size_t samples;  /* 0: it was stopped */
    uint64_t lost;   /* that are missing before these */
    int64_t here_ns; /* UTC at which the last of them was taken */
} card_piece;

/* Until it runs. SONAR_EINVAL: there is none of this name, or it does not give what is asked for;
 * SONAR_EUNAVAILABLE: it cannot be opened now; SONAR_ENOMEM. close is needed in any case. */
sonar_code card_open(const card_spec *spec, card **card, sonar_error *err);
/* Waits for samples, at most `bytes` of them. SONAR_EINVAL: it came back as another one. */
sonar_code card_read(card *card, void *to, size_t bytes, card_piece *piece, sonar_error *err);
/* Times that its buffer was full. NULL is allowed. */
uint64_t card_overruns(const card *card);
/* NULL is allowed. */
void card_close(card *card);

#endif
