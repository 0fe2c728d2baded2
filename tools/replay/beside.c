/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "beside.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"
#include "core/core.h"

struct beside {
    sim_recording_info info; /* if there are several recordings */
    sim_capture capture;
    size_t files;
    sim_recording *part[];
};

static sonar_code check_part(const sim_recording_info *first, const sim_recording_info *is,
                             const char *path, bool utc_given, sonar_error *err) {
    char begins[40], first_begins[40];
    if (is->fs_hz != first->fs_hz)
        return sonar_fail(err, SONAR_EINVAL, path, "%g Hz, but the first recording has %g Hz",
                          is->fs_hz, first->fs_hz);
    if (is->captures > 1 || is->lacks || is->ranks)
        return sonar_fail(
            err, SONAR_EINVAL, path,
            "a recording with gaps, or of one of several ranks, cannot be played side "
            "by side with others");
    const bool known = is->utc_ns && first->utc_ns && !utc_given;
    if (!known || fabs((double)(is->utc_ns - first->utc_ns)) * 1e-9 * is->fs_hz < 1)
        return SONAR_OK;
    sim_utc_format(is->utc_ns, begins, sizeof begins);
    sim_utc_format(first->utc_ns, first_begins, sizeof first_begins);
    return sonar_fail(
        err, SONAR_EINVAL, path,
        "begins at %s and the first recording at %s: side by side, samples must have the "
        "same time. --utc TIME asserts that they do",
        begins, first_begins);
}

static sonar_code add(beside *b, const char *path, bool utc_given, const sim_raw *raw,
                      sonar_error *err) {
    sim_recording_info *all = &b->info;
    sonar_code code = sim_recording_open_as(path, raw, &b->part[b->files], err);
    if (code)
        return code;
    const sim_recording_info *is = sim_recording_about(b->part[b->files]);
    if (!b->files++) {
        *all = *is;
        return check_part(is, is, path, utc_given, err);
    }
    code = check_part(all, is, path, utc_given, err);
    all->frames = is->frames < all->frames ? is->frames : all->frames;
    all->format = all->format == is->format ? all->format : SONAR_F32;
    all->utc_ns = all->utc_ns ? all->utc_ns : is->utc_ns;
    all->channels += is->channels;
    return code;
}

/* Prints what would otherwise go unnoticed. */
static void say(const beside *b, const char *tool, char *const *path) {
    for (size_t i = 0; i < b->files; i++) {
        const sim_recording_info *is = sim_recording_about(b->part[i]);
        sim_recording_tell_loss(tool, path[i], is);
        if (is->frames != b->info.frames)
            fprintf(stderr,
                    "%s: %s has %" PRIu64 " samples, of which %" PRIu64
                    " are played: the shortest recording decides\n",
                    tool, path[i], is->frames, b->info.frames);
    }
}

sonar_code beside_open(const char *tool, char *const *path, size_t files, bool utc_given,
                       const sim_raw *raw, beside **made, sonar_error *err) {
    beside *b = calloc(1, sizeof *b + files * sizeof *b->part);
    *made = NULL;
    if (!b)
        return sonar_fail(err, SONAR_ENOMEM, path[0], "out of memory");
    sonar_code code =
        files == 1 ? sim_recording_open_as(path[0], raw, &b->part[b->files++], err) : SONAR_OK;
    if (files == 1 && !code)
        b->info = *sim_recording_about(b->part[0]);
    for (size_t i = 0; i < files && files > 1 && !code; i++)
        code = add(b, path[i], utc_given, raw, err);
    if (code) {
        beside_close(b);
        return code;
    }
    if (files > 1) {
        b->capture.utc_ns = b->info.utc_ns;
        b->info.capture = &b->capture;
        b->info.lack = NULL;
    }
    if (tool)
        say(b, tool, path);
    *made = b;
    return SONAR_OK;
}

void beside_close(beside *b) {
    for (size_t i = 0; b && i < b->files; i++)
        sim_recording_close(b->part[i]);
    free(b);
}

const sim_recording_info *beside_about(const beside *b) {
    return &b->info;
}

sonar_code beside_read(beside *b, uint64_t first, size_t samples, float *to, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < b->files && !code; i++) {
        code = sim_recording_read(b->part[i], first, samples, to, err);
        to += sim_recording_about(b->part[i])->channels * samples;
    }
    return code;
}
