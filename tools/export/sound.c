/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <sndfile.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"

typedef struct sound {
    export_sink sink;
    SNDFILE *file;
    const char *path;
} sound;

static sonar_code append(export_sink *sink, const float *rows, size_t samples, sonar_error *err) {
    sound *s = (sound *)sink;
    if (sf_writef_float(s->file, rows, (sf_count_t)samples) == (sf_count_t)samples)
        return SONAR_OK;
    return sonar_fail(err, SONAR_ESYS, s->path, "cannot write: %s", sf_strerror(s->file));
}

static sonar_code finish(export_sink *sink, sonar_error *err) {
    sound *s = (sound *)sink;
    const int failed = sf_close(s->file);
    sonar_code code = SONAR_OK;
    if (failed)
        code = sonar_fail(err, SONAR_ESYS, s->path, "cannot write: %s", sf_error_number(failed));
    free(s);
    return code;
}

static int subtype_of(int format) {
    return format == SONAR_S16   ? SF_FORMAT_PCM_16
           : format == SONAR_S24 ? SF_FORMAT_PCM_24
           : format == SONAR_S32 ? SF_FORMAT_PCM_32
                                 : SF_FORMAT_FLOAT;
}

static sonar_code open_file(sound *s, SF_INFO *about, sonar_error *err) {
    const int fd = open(s->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return sonar_fail(err, SONAR_EINVAL, s->path, "cannot create it: %s", strerror(errno));
    s->file =
        sf_open_fd(fd, SFM_WRITE, about, SF_TRUE); /* closes the descriptor, even after errors */
    if (s->file)
        return SONAR_OK;
    unlink(s->path);
    return sonar_fail(err, SONAR_EINVAL, s->path, "%zu channels at %d Hz: %s",
                      (size_t)about->channels, about->samplerate, sf_strerror(NULL));
}

sonar_code export_sound(const char *path, const sim_recording_info *info, export_sink **sink,
                        sonar_error *err) {
    SF_INFO about = {.samplerate = (int)rint(fmin(info->fs_hz, INT_MAX)),
                     .channels = (int)sonar_min_size(info->channels, INT_MAX),
                     .format = SF_FORMAT_RF64 | subtype_of(info->format)};
    if (fabs(about.samplerate - info->fs_hz) > 1e-6 * info->fs_hz)
        return sonar_fail(err, SONAR_EINVAL, path,
                          "%.9g Hz: a WAV file has a whole number of Hz; HDF5 supports any rate",
                          info->fs_hz);
    sound *s = sonar_alloc(1, sizeof *s);
    if (!s)
        return sonar_fail(err, SONAR_ENOMEM, path, "out of memory");
    *s = (sound){.sink = {append, finish}, .path = path};
    const sonar_code code = open_file(s, &about, err);
    if (code) {
        free(s);
        return code;
    }
    /* Counts are written without scaling; a file of up to 4 GB is plain WAV. */
    sf_command(s->file, SFC_SET_NORM_FLOAT, NULL, SF_FALSE);
    sf_command(s->file, SFC_SET_CLIPPING, NULL, SF_TRUE);
    sf_command(s->file, SFC_RF64_AUTO_DOWNGRADE, NULL, SF_TRUE);
    *sink = &s->sink;
    return SONAR_OK;
}
