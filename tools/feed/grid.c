/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "grid.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

static const double near = 0.75;   /* of a sample: it follows */
static const double beside = 0.25; /* of a sample: bearings suffer */
static const size_t most_bytes = 2000000000;

sonar_code grid_begin(grid *g, const grid_spec *spec, sonar_error *err) {
    const double wait = ceil(spec->wait_s * spec->fs_hz);
    *g = (grid){.tally = spec->tally, .fs_hz = spec->fs_hz, .units = spec->units};
    for (size_t u = 0; u < spec->units; u++)
        g->channels += spec->count[u];
    const double bytes = (wait + 4 * (double)spec->longest) *
                         ((double)g->channels * sizeof *g->sample + (double)g->units);
    if (!(bytes <= (double)most_bytes))
        return sonar_fail(err, SONAR_EINVAL, "--align",
                          "%zu channels at %g Hz for %g s are %.0f MB, 2000 MB are accepted: fewer "
                          "channels, or a smaller --align",
                          g->channels, g->fs_hz, spec->wait_s, bytes * 1e-6);
    g->wait = (size_t)wait;
    g->room = g->wait + 4 * spec->longest;
    g->sample = sonar_alloc(g->room * g->channels, sizeof *g->sample);
    g->unit = sonar_alloc(g->units, sizeof *g->unit);
    if (!g->sample || !g->unit)
        return sonar_fail(err, SONAR_ENOMEM, "--align", "out of memory for %.0f MB", bytes * 1e-6);
    for (size_t u = 0, first = 0; u < g->units; first += spec->count[u++]) {
        g->unit[u] = (grid_unit){.name = spec->name[u],
                                 .first = first,
                                 .count = spec->count[u],
                                 .there = sonar_alloc(g->room, 1)};
        if (!g->unit[u].there)
            return sonar_fail(err, SONAR_ENOMEM, "--align", "out of memory");
    }
    return SONAR_OK;
}

void grid_free(grid *g) {
    for (size_t u = 0; u < g->units && g->unit; u++)
        free(g->unit[u].there);
    free(g->unit);
    free(g->sample);
    *g = (grid){0};
}

/* ---- places ---------------------------------------------------------------------------------- */

/* Samples from the origin to this time, whole and the rest: exact for years. */
static double place(const grid *g, int64_t utc_ns, int64_t *nearest) {
    const int64_t second = 1000000000, since_ns = utc_ns - g->origin_ns;
    const double whole = (double)(since_ns / second) * g->fs_hz,
                 rest = (double)(since_ns % second) * 1e-9 * g->fs_hz;
    const double whole_there = rint(whole), there = (whole - whole_there) + rest;
    *nearest = (int64_t)whole_there + (int64_t)rint(there);
    return there - rint(there);
}

static int64_t utc_of(const grid *g, int64_t index) {
    const double whole_s = floor((double)index / g->fs_hz);
    return g->origin_ns + (int64_t)whole_s * 1000000000 +
           llrint(((double)index - whole_s * g->fs_hz) / g->fs_hz * 1e9);
}

/* ---- jumps ----------------------------------------------------------------------------------- */

static bool close_to(const grid *g, int64_t a_ns, int64_t b_ns) {
    return a_ns && fabs((double)(a_ns - b_ns) * 1e-9 * g->fs_hz) < (double)g->room;
}

/* True if enough units agree that the stream goes on there. A single piece is not believed. */
static bool believed(const grid *g, size_t unit, int64_t utc_ns) {
    const bool again = close_to(g, g->unit[unit].jump_ns, utc_ns);
    size_t agree = 1, all = 1;
    for (size_t u = 0; u < g->units; u++)
        if (u != unit) {
            const bool same = close_to(g, g->unit[u].jump_ns, utc_ns);
            agree += same;
            all += same || !g->unit[u].absent;
        }
    return 2 * agree > all && (again || agree > 1);
}

/* True: the piece has been dealt with. */
static bool jump(grid *g, size_t unit, int64_t utc_ns) {
    grid_unit *u = &g->unit[unit];
    if (believed(g, unit, utc_ns)) {
        g->goto_ns = utc_ns;
        return false;
    }
    tally_note(g->tally, TALLY_JUMP, u->name,
               "its time jumps by %+.3f s; this piece is left out, and the stream goes there if "
               "the next one does and more than half of the channels do",
               (double)(utc_ns - utc_of(g, u->end)) * 1e-9);
    u->jump_ns = utc_ns;
    return true;
}

/* From here on, unless pieces that come next are earlier. */
static void begin_at(grid *g, int64_t first, int64_t least) {
    g->first = g->end = first;
    g->least = least;
    g->taken = false;
    for (size_t u = 0; u < g->units; u++) {
        g->unit[u].end = first;
        g->unit[u].jump_ns = 0;
        g->unit[u].came = g->unit[u].absent = false;
    }
}

static void begin_stream(grid *g, int64_t utc_ns) {
    g->origin_ns = 0;
    g->origin_ns = utc_ns - utc_of(g, (int64_t)g->room);
    begin_at(g, (int64_t)g->room, 0);
}

/* The buffer is empty: from now on it is at another time. */
static void go(grid *g) {
    int64_t to;
    place(g, g->goto_ns, &to);
    if (to >= g->first) {
        begin_at(g, to, g->first);
    } else {
        begin_stream(g, g->goto_ns);
        g->renewed = true;
    }
    g->goto_ns = 0;
}

/* The piece comes second and is earlier. */
static void begin_earlier(grid *g, int64_t at) {
    if (g->taken || at >= g->first || at < g->least || g->end - at > (int64_t)g->room)
        return;
    g->first = at;
    for (size_t u = 0; u < g->units; u++)
        if (!g->unit[u].came)
            g->unit[u].end = at;
}

/* ---- putting --------------------------------------------------------------------------------- */

/* Where the piece lies, from its time and from where the unit's last one ended. */
static int64_t settle(grid *g, grid_unit *u, int64_t utc_ns, bool follows) {
    int64_t at;
    const double off = place(g, utc_ns, &at), from_end = (double)(at - u->end) + off;
    const bool continues = fabs(from_end) < near || (follows && g->units == 1);
    if (!continues && fabs(from_end) < 2 && u->end > g->first)
        tally_note(g->tally, TALLY_SLIP, u->name,
                   "its time is %+.2f samples off the end of the piece before: its clock drifts, "
                   "or a sample is missing",
                   from_end);
    if (continues)
        at = u->end;
    const double beside_by = continues ? from_end : off;
    if (g->units == 1)
        g->origin_ns += llrint(beside_by / g->fs_hz * 1e9);
    else if (fabs(beside_by) > beside)
        tally_note(g->tally, TALLY_BESIDE, u->name,
                   "it is sampled %+.2f of a sample beside the first channel: bearings are wrong "
                   "by that; all channels need one clock",
                   beside_by);
    return at;
}

/* Copies what is not there yet; the number of samples that were. */
static size_t fill(grid *g, grid_unit *u, int64_t at, const float *samples, size_t n) {
    size_t twice = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t slot = (size_t)(at + (int64_t)i) % g->room;
        if (u->there[slot]) {
            twice++;
            continue;
        }
        u->there[slot] = 1;
        memcpy(g->sample + slot * g->channels + u->first, samples + i * u->count,
               u->count * sizeof *samples);
    }
    return twice;
}

bool grid_put(grid *g, size_t unit, int64_t utc_ns, bool follows, const float *samples, size_t n) {
    grid_unit *u = &g->unit[unit];
    int64_t at;
    utc_ns += !utc_ns; /* 0 says that there is none */
    if (!g->begun)
        begin_stream(g, utc_ns);
    g->begun = true;
    place(g, utc_ns, &at);
    if (at + (int64_t)n > g->first + (int64_t)g->room || at < g->first - (int64_t)g->room)
        return jump(g, unit, utc_ns);
    at = settle(g, u, utc_ns, follows && !u->jump_ns);
    if (at + (int64_t)n > g->first + (int64_t)g->room) /* by a sample */
        return jump(g, unit, utc_ns);
    u->jump_ns = 0;
    begin_earlier(g, at);
    u->came = true;
    u->absent = false;
    const size_t late = at < g->first ? sonar_min_size(n, (size_t)(g->first - at)) : 0;
    if (late)
        tally_note(g->tally, TALLY_LATE, u->name,
                   "%zu of %zu samples come %.3f s after the other channels were sent without "
                   "them; --align says how long they are waited for",
                   late, n, (double)(g->first - at) / g->fs_hz);
    const size_t twice = fill(g, u, at + (int64_t)late, samples + late * u->count, n - late);
    if (twice)
        tally_note(g->tally, TALLY_TWICE, u->name, "%zu of %zu samples had come before", twice, n);
    g->longest = sonar_max_size(g->longest, n);
    if (at + (int64_t)n > u->end)
        u->end = at + (int64_t)n;
    if (u->end > g->end)
        g->end = u->end;
    return true;
}

/* ---- taking ---------------------------------------------------------------------------------- */

/* Up to where samples are complete. A unit that is behind by more than the others wait is absent.
 */
static int64_t complete(grid *g) {
    const int64_t least = g->end - (int64_t)sonar_min_size(g->wait + g->longest, g->room);
    int64_t to = g->end;
    for (size_t i = 0; i < g->units && !g->goto_ns; i++) {
        grid_unit *u = &g->unit[i];
        if (!u->absent && u->end < least) {
            u->absent = true;
            tally_note(g->tally, TALLY_ABSENT, u->name,
                       "nothing for %.1f s, while other channels came: it is a gap until it "
                       "returns",
                       (double)(g->end - u->end) / g->fs_hz);
        }
        if (!u->absent && u->end < to)
            to = u->end;
    }
    return to;
}

/* Which units have sample `index`? False: none. */
static bool present(const grid *g, int64_t index, uint8_t *absent) {
    bool any = false;
    for (size_t u = 0; u < g->units; u++) {
        absent[u] = !g->unit[u].there[(size_t)index % g->room];
        any |= !absent[u];
    }
    return any;
}

static bool alike(const grid *g, int64_t index, const uint8_t *absent) {
    for (size_t u = 0; u < g->units; u++)
        if (absent[u] != !g->unit[u].there[(size_t)index % g->room])
            return false;
    return true;
}

static void hand_over(grid *g, float *to) {
    const size_t slot = (size_t)g->first++ % g->room;
    float *row = g->sample + slot * g->channels;
    memcpy(to, row, g->channels * sizeof *row);
    memset(row, 0, g->channels * sizeof *row);
    g->taken = true;
    for (size_t u = 0; u < g->units; u++)
        g->unit[u].there[slot] = 0;
}

bool grid_take(grid *g, float *to, uint8_t *absent, size_t most, grid_piece *piece) {
    const int64_t end = complete(g);
    while (g->first < end && !present(g, g->first, absent))
        g->first++;
    if (!g->taken && g->least == 0)
        g->zero = g->first;
    *piece = (grid_piece){.index = (uint64_t)(g->first - g->zero),
                          .utc_ns = utc_of(g, g->first),
                          .renewed = g->renewed && g->first < end};
    while (g->first < end && piece->samples < most && alike(g, g->first, absent))
        hand_over(g, to + piece->samples++ * g->channels);
    if (piece->samples)
        g->renewed = false;
    else if (g->goto_ns)
        go(g);
    return piece->samples > 0;
}
