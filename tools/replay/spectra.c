/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "spectra.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/core.h"

static sonar_code refuse(const spectra *s, const uint8_t lead[SONAR_MESSAGE_HEAD_BYTES],
                         sonar_error *err) {
    const unsigned version = sonar_message_head_version(lead);
    if (version > 1)
        return sonar_fail(err, SONAR_EINVAL, s->path,
                          "at byte %" PRIu64 " there is a message of version %u; this sonar-replay "
                          "reads version 1",
                          s->at, version);
    return sonar_fail(err, SONAR_EINVAL, s->path, "at byte %" PRIu64 " there is no message", s->at);
}

/* Reads the lead of the next message; *found false: the file ends before it. */
static sonar_code read_head(spectra *s, bool *found, sonar_error *err) {
    uint8_t lead[SONAR_MESSAGE_HEAD_BYTES];
    *found = fread(lead, 1, sizeof lead, s->file) == sizeof lead;
    return !*found || sonar_message_head_decode(lead, &s->head) ? SONAR_OK : refuse(s, lead, err);
}

sonar_code spectra_open(const char *path, spectra *s, sonar_error *err) {
    struct stat about;
    bool found;
    *s = (spectra){.path = path, .file = fopen(path, "rbe")};
    if (!s->file || fstat(fileno(s->file), &about))
        return sonar_fail(err, SONAR_EUNAVAILABLE, path, "cannot open it: %s", strerror(errno));
    s->end = (uint64_t)about.st_size;
    const sonar_code code = read_head(s, &found, err);
    rewind(s->file);
    return code;
}

/* Lengths in the file are not trusted: no more memory is allocated than the file has bytes. */
sonar_code spectra_next(spectra *s, bool *found, sonar_error *err) {
    const sonar_code code = read_head(s, found, err);
    if (code || !*found)
        return code;
    const uint64_t bytes =
        s->head.topic_bytes + (uint64_t)s->head.header_bytes + s->head.array_bytes;
    *found = bytes <= s->end - sonar_min_size(s->end, s->at + SONAR_MESSAGE_HEAD_BYTES);
    if (*found && bytes > s->room) {
        uint8_t *more = realloc(s->bytes, bytes);
        if (!more)
            return sonar_fail(err, SONAR_ENOMEM, s->path, "no memory for a message");
        s->bytes = more;
        s->room = bytes;
    }
    *found = *found && fread(s->bytes, 1, bytes, s->file) == bytes;
    s->at += SONAR_MESSAGE_HEAD_BYTES + bytes;
    return SONAR_OK;
}

void spectra_close(spectra *s) {
    if (s->file)
        fclose(s->file);
    free(s->bytes);
    *s = (spectra){0};
}
