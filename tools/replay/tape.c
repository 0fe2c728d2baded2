/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tape.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "ingest/frame.h"

/* ---- files ----------------------------------------------------------------------------------- */

static void close_file(tape *t) {
    beside_close(t->recording);
    t->recording = NULL;
}

static sonar_code open_file(tape *t, size_t file, sonar_error *err) {
    if (t->recording && t->file == file)
        return SONAR_OK;
    if (t->recording)
        t->stream = t->info->last_stream;
    close_file(t);
    const tape_spec *spec = &t->spec;
    const char *tool =
        t->begin[file + 1] ? NULL : spec->tool; /* reported when it was opened before */
    const sonar_code code =
        beside_open(tool, t->path + file, spec->beside ? spec->files : 1,
                    spec->date != TAPE_RECORDED, &spec->raw, &t->recording, err);
    t->file = file;
    t->info = code ? NULL : beside_about(t->recording);
    return code;
}

static sonar_code check_like_first(const tape *t, sonar_error *err) {
    const sim_recording_info *a = &t->first, *b = t->info;
    if (a->ranks != b->ranks)
        return sonar_fail(err, SONAR_EINVAL, t->path[t->file],
                          "recorded where %zu ranks shared the array, %s where %zu did; 0: one "
                          "process",
                          b->ranks, t->path[0], a->ranks);
    if (a->channels == b->channels && a->fs_hz == b->fs_hz && a->format == b->format)
        return SONAR_OK;
    return sonar_fail(err, SONAR_EINVAL, t->path[t->file],
                      "%zu channels at %g Hz, but the first recording has %zu at %g Hz, or another "
                      "kind of samples",
                      b->channels, b->fs_hz, a->channels, a->fs_hz);
}

/* Marks the channels at which missing samples begin or end. */
static void note_edges(const tape *t, uint8_t *edge) {
    for (size_t i = 0; i < t->info->lacks; i++) {
        edge[t->info->lack[i].first_channel] = 1;
        edge[t->info->lack[i].first_channel + t->info->lack[i].channels] = 1;
    }
}

static sonar_code make_blocks(tape *t, uint8_t *edge, sonar_error *err) {
    const size_t channels = t->first.channels;
    edge[0] = 1;
    t->first_channel = sonar_alloc(channels, sizeof *t->first_channel);
    if (!t->first_channel)
        return sonar_fail(err, SONAR_ENOMEM, t->path[0], "out of memory");
    for (size_t k = 0; k < channels; k++)
        if (edge[k])
            t->first_channel[t->blocks++] = (uint32_t)k;
    return SONAR_OK;
}

/* Where sonard, or another program that counts samples, has recorded, the file says where it lies.
 */
static bool counts(const sim_recording_info *info) {
    return info->captures > 1 || info->capture->index || info->first_stream;
}

/* Dates may be to the second only: below this files continue each other. */
static const double gap_least_s = 1.5;

/* Places file i behind the one before, which ended with sample `end` of its stream at end_ns (0:
 * not known). What begins earlier begins a stream of its own. */
static void place_file(tape *t, size_t i, uint64_t end, int64_t end_ns) {
    const int64_t utc_ns = t->spec.date == TAPE_UNKNOWN ? 0 : t->info->utc_ns;
    const double gap_s = utc_ns && end_ns ? (double)(utc_ns - end_ns) * 1e-9 : 0;
    t->index[i] = end;
    if (counts(t->info) || i == 0)
        t->index[i] = 0;
    else if (gap_s < -gap_least_s)
        fprintf(stderr,
                "%s: %s begins %.1f s before %s ends: are they in order? It is taken as another "
                "recording\n",
                t->spec.tool, t->path[i], -gap_s, t->path[i - 1]);
    else if (gap_s > gap_least_s)
        fprintf(stderr, "%s: %s begins %.1f s after %s ends: a gap\n", t->spec.tool, t->path[i],
                gap_s, t->path[i - 1]);
    if (gap_s < -gap_least_s)
        t->index[i] = 0;
    else if (gap_s > gap_least_s && t->index[i])
        t->index[i] += (uint64_t)llrint(gap_s * t->info->fs_hz);
}

static int64_t duration_ns(const tape *t, uint64_t samples) {
    return llrint((double)samples / t->info->fs_hz * 1e9);
}

static sonar_code look_into_all(tape *t, sonar_error *err) {
    uint64_t end = 0;
    int64_t end_ns = 0;
    uint8_t *edge = NULL;
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < t->files && !code; i++) {
        code = open_file(t, i, err);
        if (!code && i == 0) {
            t->first = *t->info;
            edge = sonar_alloc(t->first.channels + 1, 1);
        }
        if (!code && !edge)
            code = sonar_fail(err, SONAR_ENOMEM, t->path[i], "out of memory");
        if (!code)
            code = check_like_first(t, err);
        if (code)
            break;
        t->begin[i + 1] = t->begin[i] + t->info->frames;
        place_file(t, i, end, end_ns);
        end = t->index[i] + t->info->frames;
        end_ns = t->info->utc_ns ? t->info->utc_ns + duration_ns(t, t->info->frames) : 0;
        t->captures += t->info->captures;
        note_edges(t, edge);
    }
    if (!code)
        code = make_blocks(t, edge, err);
    free(edge);
    return code;
}

sonar_code tape_open(tape *t, const tape_spec *spec, sonar_error *err) {
    *t = (tape){.spec = *spec, .files = spec->beside ? 1 : spec->files, .path = spec->path};
    t->begin = sonar_alloc(t->files + 1, sizeof *t->begin);
    t->index = sonar_alloc(t->files, sizeof *t->index);
    const sonar_code code = t->begin && t->index
                                ? look_into_all(t, err)
                                : sonar_fail(err, SONAR_ENOMEM, spec->path[0], "out of memory");
    if (!code && t->first.named && spec->date == TAPE_RECORDED)
        fprintf(stderr, "%s: its name dates %s, taken as UTC; --utc TIME tells another time\n",
                spec->tool, spec->path[0]);
    return code;
}

/* Fewer or more than the configuration has, and what a recording of them may be. */
static const char *channels_hint(const tape *t, const sonar_config *c, size_t wanted) {
    if (c->geometry_kind == SONAR_GEOMETRY_POSITIONS && t->first.channels > wanted &&
        c->channels == c->sensors)
        return ", one for each of its positions: is a row missing in them? Otherwise "
               "array.channel_count says how many channels the recording has, array.channels "
               "which of them are sensors";
    if (t->spec.beside)
        return "; --side-by-side takes the files in the order of the array's channels";
    if (t->spec.files > 1 && t->first.channels < wanted)
        return "; --side-by-side plays several files at the same time";
    return t->first.channels < wanted
               ? "; is this a part of the array? --side-by-side takes all parts together"
               : "; array.channel_count says how many channels the recording has, array.channels "
                 "which of them are sensors";
}

sonar_code tape_check(const tape *t, const sonar_config *c, size_t channels, double fs_hz,
                      sonar_error *err) {
    const char *path = t->spec.path[0];
    if (t->first.channels != channels)
        return sonar_fail(err, SONAR_EINVAL, path, "%zu channels, but the configuration has %zu%s",
                          t->first.channels, channels, channels_hint(t, c, channels));
    if (fabs(fs_hz / c->fs_hz - 1) > 1e-6)
        return sonar_fail(err, SONAR_EINVAL, path,
                          "%g Hz, but the configuration has %g Hz: fs_hz there must be that of "
                          "the recording; nothing is resampled, and --fs %g would play it as if it "
                          "had been recorded at that rate, with other frequencies",
                          fs_hz, c->fs_hz, c->fs_hz);
    return SONAR_OK;
}

void tape_date_from(tape *t, int64_t utc_ns) {
    t->spec.date = TAPE_GIVEN;
    t->spec.utc_ns = utc_ns;
}

sonar_code tape_cut(tape *t, size_t channel, sonar_error *err) {
    size_t at = 0;
    while (at < t->blocks && t->first_channel[at] < channel)
        at++;
    if (channel >= t->first.channels || (at < t->blocks && t->first_channel[at] == channel))
        return SONAR_OK;
    uint32_t *more = realloc(t->first_channel, (t->blocks + 1) * sizeof *more);
    if (!more)
        return sonar_fail(err, SONAR_ENOMEM, t->path[0], "out of memory");
    memmove(more + at + 1, more + at, (t->blocks - at) * sizeof *more);
    more[at] = (uint32_t)channel;
    t->first_channel = more;
    t->blocks++;
    return SONAR_OK;
}

void tape_close(tape *t) {
    close_file(t);
    free(t->begin);
    free(t->index);
    free(t->first_channel);
    *t = (tape){0};
}

uint64_t tape_samples(const tape *t) {
    return t->begin[t->files];
}

void tape_rewind(tape *t) {
    t->begun = false;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The capture that contains sample `from` of the file; the piece ends with it. */
static const sim_capture *capture_at(const tape *t, uint64_t from, uint64_t *end) {
    const sim_recording_info *info = t->info;
    size_t i = info->captures - 1;
    while (info->capture[i].start > from)
        i--;
    if (i + 1 < info->captures && info->capture[i + 1].start < *end)
        *end = info->capture[i + 1].start;
    return &info->capture[i];
}

static size_t block_of(const tape *t, size_t channel) {
    size_t low = 0, high = t->blocks;
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        if (t->first_channel[middle] <= channel)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Finds the blocks that are missing at sample `from`; the piece ends where that changes. */
static bool find_absent(const tape *t, uint64_t from, uint64_t *end, uint8_t *absent) {
    bool any = false;
    memset(absent, 0, t->blocks);
    for (size_t i = 0; i < t->info->lacks; i++) {
        const sim_lack *l = &t->info->lack[i];
        if (l->end <= from || l->begin >= *end)
            continue;
        *end = l->begin > from ? l->begin : l->end < *end ? l->end : *end;
        if (l->begin > from)
            continue;
        any = true;
        for (size_t b = block_of(t, l->first_channel);
             b < t->blocks && t->first_channel[b] < l->first_channel + l->channels; b++)
            absent[b] = 1;
    }
    return any;
}

/* With another date, the time between captures stays, if they know theirs. */
static int64_t utc_at(const tape *t, const sim_capture *c, uint64_t from) {
    const tape_spec *spec = &t->spec;
    const int64_t recorded_ns = c->utc_ns ? c->utc_ns + duration_ns(t, from - c->start) : 0;
    if (spec->date == TAPE_UNKNOWN)
        return 0;
    if (spec->date == TAPE_RECORDED)
        return recorded_ns;
    return recorded_ns && t->first.utc_ns ? spec->utc_ns + (recorded_ns - t->first.utc_ns)
                                          : spec->utc_ns + duration_ns(t, t->begin[t->file] + from);
}

/* Sets the position of the piece in its stream, and whether it continues the previous piece. */
static void place(const tape *t, const sim_capture *c, uint64_t from, tape_piece *piece) {
    const bool begins = from == c->start, first = c == t->info->capture;
    const bool other = t->stream >> 32 != t->info->first_stream >> 32;
    piece->index = t->index[t->file] + c->index + (from - c->start);
    piece->utc_ns = utc_at(t, c, from);
    piece->flags = (uint16_t)(c->flags & SONAR_FRAME_OF_SAMPLES);
    piece->seek = !t->begun || begins;
    piece->new_stream =
        t->begun && begins && (first ? other || piece->index < t->next_index : c->new_stream);
    piece->jump = !t->begun || piece->new_stream || piece->index != t->next_index;
}

sonar_code tape_read(tape *t, uint64_t at, uint64_t end, size_t most, float *to, uint8_t *absent,
                     tape_piece *piece, sonar_error *err) {
    size_t file = t->file;
    while (t->begin[file] > at)
        file--;
    while (t->begin[file + 1] <= at)
        file++;
    sonar_code code = open_file(t, file, err);
    if (code)
        return code;
    const uint64_t from = at - t->begin[file];
    uint64_t until = sonar_min_size(t->info->frames, end - t->begin[file]);
    until = sonar_min_size(until, from + most);
    const sim_capture *capture = capture_at(t, from, &until);
    *piece = (tape_piece){0};
    place(t, capture, from, piece);
    piece->whole = !find_absent(t, from, &until, absent);
    piece->samples = (size_t)(until - from);
    t->next_index = piece->index + piece->samples;
    t->begun = true;
    return beside_read(t->recording, from, piece->samples, to, err);
}
