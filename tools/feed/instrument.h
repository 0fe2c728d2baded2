/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Instruments that send samples with their time. Each is a row: it reads what comes and puts it
 * into the grid, which brings the channels side by side; the feeder takes it from there. One
 * thread.
 */
#ifndef FEED_INSTRUMENT_H
#define FEED_INSTRUMENT_H

#include "grid.h"

typedef struct instrument_spec {
    const char *tool, *where; /* all that was typed */
    const char *address;      /* the same after SCHEME:// */
    double wait_s;            /* that channels wait for each other; 0: the instrument's own */
    tally *tally;
} instrument_spec;

/* Of functions with a self, all arguments are valid until close. */
typedef struct instrument {
    const char *scheme; /* with :// */
    const char *form;   /* what may be typed, for messages */
    int format;         /* sonar_dtype of its samples */
    /* Reads the address; connects later. close is needed in any case. SONAR_EINVAL: it is another
     * form; SONAR_ENOMEM. */
    sonar_code (*open)(const instrument_spec *spec, void **self, sonar_error *err);
    /* Begins the grid when the instrument has told what it sends, and puts at most one piece into
     * it; waits for at most 0.2 s. SONAR_EINVAL: it will never send what was asked for. */
    sonar_code (*read)(void *self, grid *grid, sonar_error *err);
    void (*close)(void *self); /* NULL is allowed */
} instrument;

extern const instrument instrument_seedlink, instrument_iclisten, instrument_optodas,
    instrument_febus;

/* The row for what was typed, or NULL; *address: what follows the scheme. */
const instrument *instrument_find(const char *where, const char **address);

#endif
