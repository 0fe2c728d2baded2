/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Channels that come at different times, side by side. Every piece lies at the sample that its time
 * says; nothing is shifted or interpolated, and where a unit has no sample there is a gap. A unit
 * is what comes together: a channel of SeedLink, a hydrophone, a cable. Units wait for each other,
 * in the time of the samples and not by a clock: one that stays behind for longer is absent, and is
 * waited for again as soon as it returns. One thread.
 *
 * A piece that continues the one before by less than 0.75 of a sample follows it, since time stamps
 * are rounded and clocks drift; a single unit then tells the time, and of several the first that
 * came does. A piece that lies farther away than the buffer is left out; if the next one is there,
 * too, or one of another unit, and more than half of the units are, the stream goes on there: later
 * as a gap, earlier as a new stream.
 */
#ifndef FEED_GRID_H
#define FEED_GRID_H

#include "sonar/sonar.h"
#include "tally.h"

typedef struct grid_unit {
    const char *name;    /* borrowed */
    size_t first, count; /* channels */
    bool came, absent;   /* came: since the stream or the jump began */
    int64_t end;         /* the sample after its last one */
    int64_t jump_ns;     /* of its last piece, if that was far away; else 0 */
    uint8_t *there;      /* [room] */
} grid_unit;

typedef struct grid {
    tally *tally;
    double fs_hz; /* 0: not begun */
    size_t channels, units, room, wait, longest;
    grid_unit *unit;
    float *sample;                 /* [room][channels] */
    bool begun, taken;             /* taken: some, since the stream or the jump began */
    int64_t origin_ns, first, end; /* the time of sample 0; the next to be taken; after the last */
    int64_t least;                 /* until something is taken, earlier pieces may begin here */
    int64_t zero;                  /* the sample whose index is 0 outside */
    int64_t goto_ns;               /* where the stream goes on once it is empty; 0: nowhere */
    bool renewed;                  /* the next piece begins a new stream */
} grid;

typedef struct grid_spec {
    tally *tally;
    double fs_hz;
    size_t units;
    const char *const *name; /* [units], borrowed as long as the grid */
    const size_t *count;     /* [units] channels of each */
    double wait_s;
    size_t longest; /* samples of a piece */
} grid_spec;

/* What was taken. */
typedef struct grid_piece {
    uint64_t index; /* of its first sample */
    int64_t utc_ns;
    size_t samples;
    bool renewed; /* a new stream begins */
} grid_piece;

/* SONAR_EINVAL: it would need too much memory; SONAR_ENOMEM. */
sonar_code grid_begin(grid *grid, const grid_spec *spec, sonar_error *err);
/* samples[n][the unit's channels], the first taken at utc_ns. follows: the instrument's counter
 * says that nothing is missing since the unit's last piece. False: it has to be put again after all
 * was taken. */
bool grid_put(grid *grid, size_t unit, int64_t utc_ns, bool follows, const float *samples,
              size_t n);
/* At most `most` samples that are complete, as to[sample][channel], and absent[unit], the same for
 * all of them. False: there are none now. */
bool grid_take(grid *grid, float *to, uint8_t *absent, size_t most, grid_piece *piece);
void grid_free(grid *grid);

#endif
