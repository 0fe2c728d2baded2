/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "record/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 18, NAMES_TRIED = 1000 };

static const char *const data_ending[] = {
    [SONAR_RECORD_RAW] = ".sigmf-data", [SONAR_RECORD_SPECTRA] = ".sonar-spectra"};

bool sonar_segment_init(sonar_segment *s, const sonar_recorder_spec *spec, size_t stride) {
    *s = (sonar_segment){.kind = spec->kind,
                         .directory = -1,
                         .data = -1,
                         .index = -1,
                         .channels = spec->channels,
                         .width = sonar_dtype_size(spec->type),
                         .stride = stride,
                         .fs_hz = spec->fs_hz};
    s->block = sonar_max_size(BLOCK_BYTES / (s->channels * s->width), 1);
    s->marks_most = sonar_max_size(sonar_stretch_lacks_most(s->channels), SONAR_MARKS_LEAST);
    s->interleaved = sonar_alloc(s->block, s->channels * s->width);
    s->mark = sonar_alloc(s->marks_most, sizeof *s->mark);
    return s->interleaved && s->mark;
}

static void close_files(sonar_segment *s) {
    if (s->data >= 0)
        close(s->data);
    if (s->index >= 0)
        close(s->index);
    s->data = s->index = -1;
    s->open = false;
}

void sonar_segment_clear(sonar_segment *s) {
    close_files(s);
    free(s->interleaved);
    free(s->mark);
}

/* ---- files ----------------------------------------------------------------------------------- */

static sonar_code failed(const sonar_segment *s, const char *what, sonar_error *err) {
    return sonar_fail(err, SONAR_ESYS, "record", "%s%s: %s: %s", s->stem, data_ending[s->kind],
                      what, strerror(errno));
}

/* Creates a new file in the folder; never opens an existing one or follows a link. */
static int create_file(const sonar_segment *s, const char *ending) {
    char name[SONAR_SEGMENT_NAME + 32];
    snprintf(name, sizeof name, "%s%s", s->stem, ending);
    return openat(s->directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
}

void sonar_segment_stem(const char *name, int64_t utc_ns, char stem[SONAR_SEGMENT_NAME]) {
    const time_t seconds = (time_t)(utc_ns / 1000000000);
    char text[32] = "";
    struct tm tm;
    if (gmtime_r(&seconds, &tm))
        strftime(text, sizeof text, "%Y%m%dT%H%M%S", &tm);
    snprintf(stem, SONAR_SEGMENT_NAME, "%s-%s.%03dZ", name, text, (int)(utc_ns / 1000000 % 1000));
}

sonar_code sonar_segment_begin(sonar_segment *s, int directory, const char *name,
                               sonar_error *err) {
    int64_t utc_ns = sonar_utc_ns();
    s->directory = directory;
    s->captures = s->marks = 0;
    s->bytes = s->samples = s->booked = 0;
    s->described = false;
    for (int i = 0; i < NAMES_TRIED; i++, utc_ns += 1000000) {
        sonar_segment_stem(name, utc_ns, s->stem);
        s->data = create_file(s, data_ending[s->kind]);
        if (s->data >= 0 || errno != EEXIST)
            break;
    }
    if (s->data < 0)
        return failed(s, "cannot create it", err);
    if (s->kind == SONAR_RECORD_SPECTRA && (s->index = create_file(s, ".sonar-index")) < 0) {
        const sonar_code code = failed(s, "cannot create its index", err);
        close_files(s);
        return code;
    }
    fsync(s->directory);
    s->open = s->dirty = true;
    s->began_ns = sonar_monotonic_ns();
    return SONAR_OK;
}

static bool write_all(int fd, const void *bytes, size_t count) {
    const uint8_t *at = bytes;
    while (count > 0) {
        const ssize_t put = write(fd, at, count);
        if (put < 0 && errno != EINTR)
            return false;
        at += put > 0 ? put : 0;
        count -= put > 0 ? (size_t)put : 0;
    }
    return true;
}

/* ---- samples: captures and what is missing --------------------------------------------------- */

/* True if the capture's UTC, extrapolated, is that of the sample after its last one. */
static bool keeps_time(const sonar_segment *s, const sonar_capture *c, int64_t utc_ns) {
    const double since_ns = (double)(s->samples - c->start) * 1e9 / s->fs_hz;
    const int64_t most_ns = 1000000;
    if (!c->utc_ns || !utc_ns)
        return !c->utc_ns == !utc_ns;
    return llabs(utc_ns - c->utc_ns - llround(since_ns)) <= most_ns;
}

static bool goes_on(const sonar_segment *s, const sonar_stretch *about) {
    const sonar_capture *c = s->captures ? &s->capture[s->captures - 1] : NULL;
    return c && c->timeline == about->timeline && c->flags == about->flags &&
           c->first_sample + (s->samples - c->start) == about->first_sample &&
           keeps_time(s, c, about->utc_ns);
}

/* Adds a gap; one that continues over pieces stays a single gap. */
static bool mark(sonar_segment *s, const sonar_lack *lack) {
    enum { LOOK_BACK = 256 };
    const uint64_t begin = s->samples + lack->begin, end = s->samples + lack->end;
    for (size_t i = s->marks; i > 0 && i + LOOK_BACK > s->marks; i--) {
        sonar_mark *m = &s->mark[i - 1];
        if (m->end == begin && m->first_channel == lack->first_channel &&
            m->channels == lack->channels) {
            m->end = end;
            return true;
        }
    }
    if (s->marks == s->marks_most)
        return false;
    s->mark[s->marks++] = (sonar_mark){begin, end, lack->first_channel, lack->channels};
    return true;
}

/* The part of the piece that does not fit is written to the next segment. Marks of that part are
 * beyond the last sample. */
bool sonar_segment_book(sonar_segment *s, const sonar_piece *piece) {
    const sonar_stretch *about = &piece->about;
    if (s->kind != SONAR_RECORD_RAW) {
        s->booked += piece->begins ? piece->message_bytes : 0;
        return true;
    }
    if (!goes_on(s, about)) {
        if (s->captures == SONAR_CAPTURES_MOST)
            return false;
        s->capture[s->captures++] =
            (sonar_capture){s->samples,   about->timeline, about->first_sample,
                            about->epoch, about->flags,    about->utc_ns};
        s->described = false;
    }
    for (size_t i = 0; i < piece->lacks; i++) {
        s->described = false;
        if (!mark(s, &piece->lack[i]))
            return false;
    }
    s->samples += about->samples;
    s->booked = s->samples * s->channels * s->width;
    return true;
}

/* Replaces the metadata; a reader sees either the old or the new ones. */
static sonar_code replace_metadata(sonar_segment *s, const char *text, size_t bytes,
                                   sonar_error *err) {
    char fresh[SONAR_SEGMENT_NAME + 32], name[SONAR_SEGMENT_NAME + 32];
    snprintf(fresh, sizeof fresh, "%s.sigmf-meta.part", s->stem);
    snprintf(name, sizeof name, "%s.sigmf-meta", s->stem);
    unlinkat(s->directory, fresh, 0);
    const int fd = create_file(s, ".sigmf-meta.part");
    const bool written = fd >= 0 && write_all(fd, text, bytes) && !fsync(fd);
    const int why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    if (written && !renameat(s->directory, fresh, s->directory, name)) {
        s->described = true;
        return SONAR_OK;
    }
    const sonar_code code = failed(s, "cannot write its metadata", err);
    unlinkat(s->directory, fresh, 0);
    return code;
}

sonar_code sonar_segment_write_metadata(sonar_segment *s, const char *about, const char *geometry,
                                        sonar_error *err) {
    char *text = NULL;
    size_t bytes = 0;
    if (s->kind != SONAR_RECORD_RAW || s->described)
        return SONAR_OK;
    FILE *to = open_memstream(&text, &bytes);
    if (to)
        sonar_sigmf_write(s, about, geometry, to);
    const bool good = to && !ferror(to) && !fclose(to);
    const sonar_code code = good ? replace_metadata(s, text, bytes, err)
                                 : sonar_fail(err, SONAR_ENOMEM, "record", "no memory");
    free(text);
    return code;
}

/* ---- appending ------------------------------------------------------------------------------- */

/* Converts [channel][samples of a piece] to [sample][channel]. */
static void interleave(const sonar_segment *s, const uint8_t *rows, size_t stride, size_t samples) {
    for (size_t k = 0; k < s->channels; k++) {
        const uint8_t *row = rows + k * stride * s->width;
        if (s->width == 2)
            for (size_t i = 0; i < samples; i++)
                ((uint16_t *)s->interleaved)[i * s->channels + k] = ((const uint16_t *)row)[i];
        else
            for (size_t i = 0; i < samples; i++)
                ((uint32_t *)s->interleaved)[i * s->channels + k] = ((const uint32_t *)row)[i];
    }
}

static bool append_samples(sonar_segment *s, const sonar_piece *piece, size_t stride) {
    const size_t column = s->channels * s->width;
    for (size_t at = 0; at < piece->about.samples;) {
        const size_t samples = sonar_min_size(piece->about.samples - at, s->block);
        interleave(s, piece->bytes + at * s->width, stride, samples);
        if (!write_all(s->data, s->interleaved, samples * column))
            return false;
        s->bytes += samples * column;
        at += samples;
    }
    return true;
}

/* Adds a line to the index: the message's offset, size, UTC and topic. */
static bool append_message(sonar_segment *s, const sonar_piece *piece) {
    char line[120];
    if (!write_all(s->data, piece->bytes, piece->used))
        return false;
    if (piece->begins) {
        const int length =
            snprintf(line, sizeof line, "%" PRIu64 "\t%" PRIu64 "\t%" PRId64 "\t%s\n", s->bytes,
                     piece->message_bytes, piece->utc_ns, sonar_topic_name(piece->surface));
        if (!write_all(s->index, line, (size_t)length))
            return false;
        s->pending_bytes = piece->message_bytes;
    }
    if (piece->ends)
        s->bytes += s->pending_bytes;
    return true;
}

sonar_code sonar_segment_append(sonar_segment *s, const sonar_piece *piece, sonar_error *err) {
    s->dirty = true;
    const bool raw = s->kind == SONAR_RECORD_RAW;
    if (raw ? append_samples(s, piece, s->stride) : append_message(s, piece))
        return SONAR_OK;
    const sonar_code code = failed(s, "cannot be written", err);
    if (ftruncate(s->data, (off_t)s->bytes)) {
        /* the last part may be incomplete, as after a power failure; readers ignore it */
    }
    return code;
}

/* True if the file has lost its name; what is written to it then is lost when it is closed. */
static bool is_deleted(int fd) {
    struct stat file;
    return fd >= 0 && !fstat(fd, &file) && file.st_nlink == 0;
}

sonar_code sonar_segment_sync(sonar_segment *s, sonar_error *err) {
    if (!s->dirty)
        return SONAR_OK;
    if (fdatasync(s->data) || (s->index >= 0 && fdatasync(s->index)))
        return failed(s, "cannot be synchronised to the disk", err);
    if (is_deleted(s->data) || is_deleted(s->index))
        return sonar_fail(err, SONAR_ESYS, "record", "%s%s was deleted while it was being written",
                          s->stem, data_ending[s->kind]);
    s->dirty = false;
    return SONAR_OK;
}

sonar_code sonar_segment_end(sonar_segment *s, sonar_error *err) {
    const sonar_code code = s->open ? sonar_segment_sync(s, err) : SONAR_OK;
    close_files(s);
    return code;
}
